"""Tests of the classifier on other array libraries: NumPy's results, in the library, device and dtype of the input."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from copy import deepcopy
from functools import cache
from math import prod

import numpy as np
import pytest
from conftest import LIBRARIES, library, low_rank_classes, run_array_api_checks
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

import tensormargin.fitting.samples.device as device_module
import tensormargin.fitting.samples.storage as storage
from tensormargin import (
    Tensorize,
    TensorMarginClassifier,
    TensorMarginClassifierCV,
    TensorScaler,
    any_scale,
    fit_many,
    load_model,
    save_model,
    to_device,
)
from tensormargin.estimators import SCALE_MU
from tensormargin.fitting import FORMATS, MarginProblem, Objective, sample_array, working_dtype
from tensormargin.fitting.blocks import block_problem
from tensormargin.runtime import device_of, dtype_of, inverse_of_factor, thin_product, to_host, tuning

DECOMPOSITIONS = sorted(FORMATS)
SHAPES = {1: (12,), 2: (6, 5), 3: (3, 4, 5), 4: (2, 3, 2, 3)}
TOLERANCE = {"float32": 1e-5, "float64": 1e-9}
LARGE = 2**18  # entries; up to this size samples are contracted in float64 whatever their dtype and library
every_type = pytest.mark.parametrize("dtype", TOLERANCE)
every_decomposition = pytest.mark.parametrize("decomposition", DECOMPOSITIONS)


@cache
def classes(n_classes, shape=SHAPES[3], n=60, dtype="float64"):
    """Return read-only samples and labels of two or three overlapping classes."""
    X, y = low_rank_classes(1, n, shape, 3.0)
    if n_classes == 3:
        y = np.repeat([2, 0, 1], -(-n // 3))[:n]
        X[y == 1] += 1.0
    return X.astype(dtype), y.astype(int)


def pair(X, y, given, sample_weight=None, tol=1e-2, **parameters):
    """Return a classifier fitted on NumPy arrays and one fitted in another library; a few sweeps are enough."""
    return [TensorMarginClassifier(tol=tol, **parameters).fit(each, y, sample_weight) for each in (X, given)]


def assert_close(array, expected, tolerance, unit):
    np.testing.assert_allclose(to_host(array), expected, rtol=0, atol=tolerance * float(np.max(np.abs(unit))))


def assert_same(here, there, X, given, tolerance, terms=()):
    """Check that all fitted attributes and predictions equal NumPy's, relative to their largest entry.

    Scores are sums of products plus the intercept, so their rounding errors are relative to the larger of the two, or
    to the terms that both are sums of, if given.
    """
    expected = here.binary_scores(X)
    unit = np.append(np.append(expected, here.intercept_), terms)
    assert_close(there.coef_, here.coef_, tolerance, here.coef_)
    assert_close(there.intercept_, here.intercept_, tolerance, unit)
    np.testing.assert_allclose(to_host(there.objective_), here.objective_, rtol=tolerance)
    assert_close(there.binary_scores(given), expected, tolerance, unit)
    decisions = here.decision_function(X)
    unit = np.append(np.append(decisions, here.intercept_), terms)
    assert_close(there.decision_function(given), decisions, tolerance, unit)
    np.testing.assert_array_equal(to_host(there.predict(given)), here.predict(X))
    assert there.n_iter_ == here.n_iter_


def assert_at_home(array, given):
    assert type(array) is type(given)
    assert device_of(array) == device_of(given)


def rounding_of_a_fit(X, y, model):
    """Return the relative difference that rounding may cause between the weights of two libraries.

    Sums of n terms in a different order differ by n eps. A block's vector solves a system with the Q of Eq. 12, whose
    condition number multiplies this error. The Q of a low-rank block is that of the full weight restricted to an
    orthonormal basis of a subspace, so its condition number is no larger. Each solve starts from the result of the one
    before. A common offset of the samples has no effect, since it is subtracted, without rounding, before anything is
    summed.
    """
    centred = (X - X.mean(axis=0)).reshape(len(X), -1)
    square = np.mean(np.sum(centred**2, axis=1))
    signed = np.where(y > 0, 1.0, -1.0)[:, None] * np.column_stack([centred, np.full(len(X), np.sqrt(square))])
    covariance = np.cov(signed, rowvar=False, bias=True)
    condition = np.linalg.cond(np.eye(len(covariance)) + 2 * SCALE_MU / square * covariance)
    solves = model.n_iter_ * len(model.history_["blocks"])
    return max(signed.shape) * np.finfo(float).eps * condition * solves


@pytest.mark.numerical
class TestTheAnswerIsNumpys:
    @every_type
    @pytest.mark.parametrize(("order", "n_classes"), [(1, 3), (2, 3), (3, 2), (4, 2)])
    @every_decomposition
    def test_for_every_decomposition_and_order(self, decomposition, order, n_classes, dtype, put):
        X, y = classes(n_classes, SHAPES[order], dtype=dtype)
        given = put(X)
        assert_same(*pair(X, y, given, decomposition=decomposition), X, given, TOLERANCE[dtype])
        np.testing.assert_array_equal(to_host(given), X)  # nothing was written to

    @pytest.mark.parametrize(
        "parameters",
        [
            {"multi_class": "ovr"},
            {"class_weight": "balanced"},
            {"class_weight": {0: 1.0, 1: 3.0, 2: 0.5}, "multi_class": "ovr"},
            {"n_init": 3, "random_state": 0},
            {"init": "random", "random_state": 0},
            {"fit_intercept": False, "decomposition": "tt"},
            {"fit_intercept": False, "decomposition": "full"},
            {"mu1": 0.0, "mu2": 0.0},
            {"lam": 5.0, "mu1": 2.0, "mu2": 0.5, "scale_free": False},
            {"decomposition": "tucker", "rank": (2, 2)},
            {"decomposition": "cp", "rank": 5, "random_state": 0},
            {"tol": 1e-3},
            {"solver": "host"},
            {"solver": "host", "n_init": 3, "random_state": 0},
        ],
        ids=lambda parameters: " ".join(f"{name}={value}" for name, value in parameters.items()),
    )
    def test_for_every_parameter(self, parameters, put):
        X, y = classes(3, SHAPES[2])
        given = put(X)
        parameters = {"decomposition": "tt", "rank": None, **parameters}
        assert_same(*pair(X, y, given, **parameters), X, given, 1e-9)

    @every_type
    @every_decomposition
    def test_with_sample_weights_some_of_them_zero(self, decomposition, dtype, put):
        X, y = classes(3, SHAPES[2], dtype=dtype)
        weights = np.random.RandomState(0).rand(len(X)) * (np.arange(len(X)) % 4 > 0)
        given = put(X)
        fitted = pair(X, y, given, weights, decomposition=decomposition, class_weight="balanced")
        assert_same(*fitted, X, given, TOLERANCE[dtype])

    @every_decomposition
    def test_after_a_warm_start(self, decomposition, put):
        X, y = classes(3)
        given = put(X)
        fitted = pair(X, y, given, decomposition=decomposition, warm_start=True)
        for each, samples in zip(fitted, (X, given), strict=True):
            each.set_params(lam=0.3).fit(samples, y)
        assert_same(*fitted, X, given, 1e-9)

    def test_after_a_warm_start_in_another_library(self, put):
        X, y = classes(3)
        given = put(X)
        here, there = pair(X, y, given, decomposition="full", warm_start=True)
        assert_same(here.fit(X, y), there.fit(X, y), X, X, 1e-9)
        assert_same(here, there.fit(given, y), X, given, 1e-9)

    @pytest.mark.parametrize("dtype", ["uint8", "int16", "int32", "int64", "bool", "float16"])
    @pytest.mark.parametrize("decomposition", ["full", "tucker"])
    def test_for_other_types(self, decomposition, dtype, put):
        X, y = classes(2)
        X = X > 0 if dtype == "bool" else (30 * X + 128).clip(0, 255).astype(dtype)
        try:
            given = put(X)
        except TypeError:
            pytest.skip(f"the library has no {dtype}")
        here, there = pair(X, y, given, decomposition=decomposition)
        assert dtype_of(there.coef_) == here.coef_.dtype == working_dtype(X.dtype)
        assert_same(here, there, X, given, TOLERANCE[here.coef_.dtype.name])

    @pytest.mark.parametrize("offset", [1e2, 1e4, 1e6])
    @every_decomposition
    def test_a_common_offset_costs_no_digits(self, decomposition, offset, put):
        """The intercept is only accurate relative to the product of offset and weight, which is subtracted from it."""
        X, y = classes(2)
        X = X + offset
        given = put(X)
        here, there = pair(X, y, given, decomposition=decomposition)
        products = np.linalg.norm(here.coef_) * np.linalg.norm(X.mean(axis=0))
        assert_same(here, there, X, given, rounding_of_a_fit(X, y, here), products)

    @every_decomposition
    def test_for_samples_with_a_large_common_offset_in_single_precision(self, decomposition, put):
        X, y = classes(2)
        X = (X + 1e4).astype(np.float32)
        given = put(X)
        here, there = pair(X, y, given, decomposition=decomposition)
        products = np.linalg.norm(here.coef_) * np.linalg.norm(X[0])
        assert_same(here, there, X, given, TOLERANCE["float32"], products)

    @pytest.mark.torch
    @pytest.mark.parametrize("decomposition", ["full", "tt"])
    def test_for_a_view_in_another_order(self, decomposition):
        torch, _ = library("torch")
        X, y = classes(3)
        for view in (
            torch.asarray(X.copy()).permute(0, 3, 1, 2),
            torch.asarray(X.copy())[:, ::2],
            torch.asarray(X.copy())[:, :, 1:3, :],
            torch.asarray(X[:, :, :, 0].copy())[..., None].expand(-1, -1, -1, 3),
        ):
            copied = view.numpy().copy()
            assert_same(*pair(copied, y, view, decomposition=decomposition), copied, view, 1e-9)

    @every_decomposition
    def test_for_modes_of_one_entry(self, decomposition, put):
        for shape in ((1, 5, 4), (4, 1), (1,)):
            X, y = classes(2, shape)
            given = put(X)
            assert_same(*pair(X, y, given, decomposition=decomposition), X, given, 1e-9)

    @every_decomposition
    def test_for_strict_arrays_on_the_processor(self, decomposition):
        strict, _ = library("array_api_strict")
        X, y = classes(3)
        given = strict.asarray(X)
        assert_same(*pair(X, y, given, decomposition=decomposition), X, given, 1e-9)

    @every_decomposition
    @pytest.mark.parametrize("name", LIBRARIES)
    def test_whether_problems_are_fitted_in_lockstep_or_one_by_one(self, name, decomposition, monkeypatch):
        """Several problems share samples on a device other than the CPU; blocks this small are solved on the host."""
        module, _ = library(name)
        X, y = classes(3, SHAPES[2])
        given = module.asarray(X.copy())
        for on_cpu in (True, False):
            monkeypatch.setattr(storage, "on_cpu", lambda _, answer=on_cpu: answer)
            assert_same(*pair(X, y, given, decomposition=decomposition), X, given, 1e-9)

    @every_type
    def test_of_a_full_weight_whose_gram_matrix_is_made_on_the_device(self, dtype, put, monkeypatch):
        """With more entries than samples, only the Gram matrix and vectors leave the device, for any chunk size."""
        X, y = classes(2, (30, 40), 60, dtype)
        given, grams = put(X), []
        gram = device_module.DeviceDesign.gram
        monkeypatch.setattr(
            device_module.DeviceDesign, "gram", lambda self, *rest: grams.append(self.shape) or gram(self, *rest)
        )
        monkeypatch.setattr(device_module.DeviceDesign, "to_numpy", None)
        for chunk, parameters in ((2**28, {"fit_intercept": False}), (2**28, {}), (2**12, {"mu1": 0.0, "mu2": 0.0})):
            monkeypatch.setattr(tuning, "DEVICE_CHUNK_BYTES", chunk)
            fitted = pair(X, y, given, decomposition="full", **parameters)
            assert_same(*fitted, X, given, TOLERANCE[dtype])
        assert grams == [(60, 1200)] * 3

    @pytest.mark.parametrize("mu1", [3.0, 1e12], ids=["usual", "too large for second moments"])
    @pytest.mark.parametrize("bias", [0.0, 1.5])
    @pytest.mark.parametrize("width", [20, 90], ids=["tall", "wide"])
    def test_of_blocks_whose_second_moments_are_made_on_the_device(self, put, width, bias, mu1, monkeypatch):
        """The block problem is that of the same design in memory, for any chunk size."""
        rng = np.random.default_rng(0)
        design, weights = rng.standard_normal((70, width)) + 1.0, rng.random(70) + 0.5
        signs = np.where(rng.random(70) < 0.4, 1.0, -1.0)
        problem = MarginProblem(signs, Objective(5.0, mu1, 1.0, weights / weights.sum()), bias)
        for name in ("SMALL_DESIGN", "HELD_PRODUCTS"):
            monkeypatch.setattr(tuning, name, 0)
        expected, beta = block_problem(design, problem, 1e-6), problem.objective.weights * 4.0
        scores = expected.margins(expected.primal_point(beta))  # AA'beta, whatever the coordinates
        for chunk in (2**28, 2**12):
            monkeypatch.setattr(tuning, "DEVICE_CHUNK_BYTES", chunk)
            found = block_problem(device_module.held(put(design)), problem, 1e-6)
            assert isinstance(device_module.held(put(design)), device_module.HeldDesign)
            there = found.margins(found.primal_point(beta))
            np.testing.assert_allclose(there, scores, rtol=0, atol=1e-8 * np.abs(scores).max())

    def test_of_matrices_that_are_not_positive_definite(self, put):
        for matrix in (np.diag([1.0, -1.0, 1.0]), np.zeros((2, 2)), np.full((2, 2), np.nan)):
            assert inverse_of_factor(put(matrix)) is None
        matrix = np.array([[4.0, 2.0, 0.0], [2.0, 5.0, 1.0], [0.0, 1.0, 3.0]])
        inverse = to_host(inverse_of_factor(put(matrix)))
        np.testing.assert_allclose(inverse @ inverse.T, np.linalg.inv(matrix), atol=1e-12)
        np.testing.assert_array_equal(np.tril(inverse, -1), 0.0)

    @every_type
    def test_of_a_full_weight_with_fewer_entries_than_samples(self, dtype, put):
        X, y = classes(2, (6, 5), 2300, dtype)  # too many entries for the exact solve of small problems
        given = put(X)
        assert_same(*pair(X, y, given, decomposition="full"), X, given, TOLERANCE[dtype])

    def test_on_a_device_without_float64(self):
        """On a device such as Apple's, samples are contracted in float32, and all blocks are solved on the host."""
        strict, _ = library("array_api_strict")
        try:
            device = strict.Device("no_float64")
        except ValueError:
            pytest.skip("this version of array-api-strict has float64 on every device")
        for shape, n in ((SHAPES[3], 60), ((30, 40), 60)):
            X, y = classes(2, shape, n, "float32")
            given = strict.asarray(X, device=device)
            for solver in ("auto", "device"):
                here, there = pair(X, y, given, decomposition="full", solver=solver)
                assert_same(here, there, X, given, 1e-5)
                assert there.coef_.dtype == there.objective_.dtype == strict.float32
            to_there = to_device(TensorMarginClassifier("full").fit(X.astype(float), y), like=given)
            assert_close(to_there.decision_function(given), here.decision_function(X), 1e-5, here.decision_function(X))


class TestLargeSamples:
    """Samples of more than 2**18 entries, which are contracted in their own dtype."""

    SHAPE, N = (16, 16), 1100

    def samples(self, dtype):
        X, y = classes(2, self.SHAPE, self.N, dtype)
        assert X.size > LARGE
        return X, y

    @every_decomposition
    def test_in_double_the_answer_is_numpys_to_nine_digits(self, decomposition, put):
        X, y = self.samples("float64")
        given = put(X)
        assert_same(*pair(X, y, given, decomposition=decomposition, tol=4e-4), X, given, 1e-9)

    def test_from_a_million_entries_on_numpy_rounds_double_to_single_and_a_device_does_not(self, put):
        """With tol below 5e-4 NumPy does not round either; above, a convex fit differs by single-precision rounding."""
        X, y = classes(2, (32, 32), 1100)
        assert X.size >= 2**20
        given = put(X)
        assert_same(*pair(X, y, given, decomposition="full", tol=1e-3), X, given, 1e-5)
        assert_same(*pair(X, y, given, decomposition="cp", tol=4e-4), X, given, 1e-9)

    @pytest.mark.parametrize("dtype", ["float32", "uint8"])
    def test_in_single_a_convex_fit_is_numpys_to_five_digits(self, dtype, put):
        X, y = self.samples("float32")
        X = X if dtype == "float32" else (30 * X + 128).clip(0, 255).astype(dtype)
        given = put(X)
        assert_same(*pair(X, y, given, decomposition="full"), X, given, 1e-5)

    @pytest.mark.parametrize("solver", ["auto", "device"])
    def test_in_single_a_large_common_offset_costs_no_digits_of_a_convex_fit(self, solver, put):
        """The pivot is subtracted before any product; only scores, which use the original samples, lose digits."""
        X, y = self.samples("float32")
        shifted = X + np.float32(1e3)
        tol = 1e-3
        plain = TensorMarginClassifier("full", tol=tol).fit(shifted.astype(float) - 1e3, y)
        there = TensorMarginClassifier("full", tol=tol, solver=solver).fit(put(shifted), y)
        np.testing.assert_allclose(to_host(there.objective_), plain.objective_, rtol=1e-4)
        if solver == "auto":
            here = TensorMarginClassifier("full", tol=tol).fit(shifted, y)
            assert_same(here, there, shifted, put(shifted), 1e-5)

    @every_decomposition
    def test_in_single_the_designs_are_numpys_to_six_digits(self, decomposition, put):
        X, _ = self.samples("float32")
        rng, form = np.random.RandomState(0), FORMATS[decomposition]
        weight = form.from_dense(rng.standard_normal(self.SHAPE), form.valid_rank(None, self.SHAPE), rng)
        here, there = sample_array(X).samples(), sample_array(put(X)).samples()
        for index in range(len(weight.block_names)):
            contraction = weight.block(index).contraction
            expected, made = here.design(contraction), there.design(contraction)
            made = made if isinstance(made, np.ndarray) else made.to_numpy()
            assert made.dtype == np.float32
            assert_close(made, expected, 1e-6, expected)

    @pytest.mark.parametrize("decomposition", ["cp", "tucker", "tt"])
    def test_in_single_the_objective_of_a_low_rank_fit_is_numpys_to_within_tol(self, decomposition, put):
        """Weights are not compared: blocks are solved to a gap, and rounding decides which point within it is found.

        NumPy's own results for float32 and for the same numbers as float64 differ as much.
        """
        X, y = self.samples("float32")
        given, tol = put(X), 1e-3
        here, there = pair(X, y, given, decomposition=decomposition, tol=tol)
        double = TensorMarginClassifier(decomposition, tol=tol).fit(X.astype(float), y)
        for one in (there, double):
            np.testing.assert_allclose(to_host(one.objective_), here.objective_, rtol=tol)
        agree = np.mean(to_host(there.predict(given)) == here.predict(X))
        assert agree >= 0.99


class TestConventions:
    @pytest.mark.parametrize(
        ("decomposition", "dtype"), [("full", "float32"), ("full", "float64"), ("cp", "float32"), ("tucker", "float64")]
    )
    def test_attributes_lie_where_the_samples_lie(self, decomposition, dtype, put):
        X, y = classes(3, SHAPES[2], dtype=dtype)
        given = put(X)
        here, there = pair(X, y, given, decomposition=decomposition)
        for name in ("coef_", "intercept_"):
            assert_at_home(getattr(there, name), given)
            assert getattr(there, name).dtype == given.dtype
            assert tuple(getattr(there, name).shape) == getattr(here, name).shape
        assert_at_home(there.objective_, given)
        assert dtype_of(there.objective_) == here.objective_.dtype == np.float64
        assert there.sample_shape_ == here.sample_shape_ == X.shape[1:]
        for name in ("n_features_in_", "n_parameters_", "n_iter_", "multi_class_"):
            assert getattr(there, name) == getattr(here, name)
        assert isinstance(there.classes_, np.ndarray)  # like the labels
        assert all(isinstance(one["objective"], np.ndarray) for one in there.history_)
        if decomposition == "full":
            assert_at_home(there.weight_[0], given)
        else:  # TensorLy's containers hold NumPy arrays
            assert type(there.weight_[0]) is type(here.weight_[0])

    @every_type
    @pytest.mark.parametrize("n_classes", [2, 3])
    def test_outputs_lie_where_the_samples_lie(self, n_classes, dtype, put):
        X, y = classes(n_classes, dtype=dtype)
        given = put(X)
        here, there = pair(X, y, given, decomposition="full")
        for method in ("decision_function", "binary_scores"):
            scores = getattr(there, method)(given)
            assert_at_home(scores, given)
            assert scores.dtype == given.dtype
            assert tuple(scores.shape) == getattr(here, method)(X).shape
        assert_at_home(there.predict(given), given)
        assert dtype_of(there.predict(given)) == here.predict(X).dtype == y.dtype

    def test_labels_and_weights_may_be_of_any_library(self, put):
        X, y = classes(3)
        weights = np.random.RandomState(0).rand(len(X))
        given = put(X)
        expected = TensorMarginClassifier("full").fit(X, y, weights)
        for samples in (X, given):
            for labels in (y, put(y), y.tolist()):
                for each in (weights, put(weights), weights.tolist()):
                    fitted = TensorMarginClassifier("full").fit(samples, labels, each)
                    assert_same(expected, fitted, X, samples, 1e-9)
                    assert_at_home(fitted.classes_, labels if isinstance(labels, type(given)) else y)
                    assert_at_home(fitted.predict(samples), samples)

    @pytest.mark.parametrize("kind", [bool, float, np.uint8, np.int32])
    def test_labels_keep_their_type(self, kind, put):
        X, y = classes(2)
        labels = (y > 0).astype(kind)
        predicted = TensorMarginClassifier("cp").fit(put(X), put(labels)).predict(put(X))
        assert_at_home(predicted, put(labels))
        assert predicted.dtype == put(labels).dtype
        assert np.mean(to_host(predicted) == labels) > 0.8

    @pytest.mark.parametrize("kind", ["U5", object])
    def test_labels_that_are_text_stay_numpys(self, kind, put):
        X, y = classes(3)
        names = np.array(["zebra", "ape", "yak"])[y].astype(kind)
        here, there = pair(X, names, put(X), decomposition="full")
        predicted = there.predict(put(X))
        assert isinstance(predicted, np.ndarray)
        assert predicted.dtype == names.dtype
        np.testing.assert_array_equal(predicted, here.predict(X))
        assert there.score(put(X), names) == here.score(X, names) > 0.7

    def test_accuracy_is_numpys_whoever_has_the_labels(self, put):
        X, y = classes(3)
        weights = np.random.RandomState(0).rand(len(X))
        here, there = pair(X, y, put(X), decomposition="cp")
        for labels in (y, put(y), y.tolist()):
            accuracy = there.score(put(X), labels)
            assert isinstance(accuracy, float)
            assert accuracy == here.score(X, y)
            assert there.score(put(X), labels, put(weights)) == pytest.approx(here.score(X, y, weights), rel=1e-12)

    @pytest.mark.parametrize("fitted_on", ["float32", "float64"])
    @pytest.mark.parametrize("dtype", ["float32", "float64", "uint8", "int64", "bool"])
    def test_samples_of_another_type_than_the_fits_become_what_they_become_in_numpy(self, dtype, fitted_on, put):
        X, y = classes(3, dtype=fitted_on)
        new = X > 0 if dtype == "bool" else (30 * np.abs(X)).astype(dtype)
        here, there = pair(X, y, put(X), decomposition="full")
        for method in ("decision_function", "binary_scores"):
            with any_scale():
                expected, scores = getattr(here, method)(new), getattr(there, method)(put(new))
            assert dtype_of(scores) == expected.dtype
            assert_close(scores, expected, TOLERANCE[expected.dtype.name], expected)
        with any_scale():
            np.testing.assert_array_equal(to_host(there.predict(put(new))), here.predict(new))

    @pytest.mark.torch
    def test_no_gradient_is_recorded(self):
        torch, _ = library("torch")
        X, y = classes(2)
        given = torch.tensor(X, requires_grad=True)
        here, there = pair(X, y, given, decomposition="full")
        assert_same(here, there, X, given, 1e-9)
        outputs = there.decision_function(given), there.binary_scores(given), there.predict(given)
        for one in (there.coef_, there.intercept_, there.objective_, there.weight_, *outputs):
            assert not one.requires_grad
        assert given.grad is None
        assert_same(here, deepcopy(there), X, given, 1e-9)

    def test_clones_copies_and_pickles(self, put):
        X, y = classes(2)
        given = put(X)
        fitted = TensorMarginClassifier("full", solver="device", tol=1e-2).fit(given, y)
        again = clone(fitted)
        assert again.get_params() == fitted.get_params()
        assert not hasattr(again, "coef_")
        for copied in (deepcopy(fitted), pickle.loads(pickle.dumps(fitted))):
            assert_at_home(copied.coef_, given)
            np.testing.assert_array_equal(
                to_host(copied.decision_function(given)), to_host(fitted.decision_function(given))
            )

    @every_type
    def test_pipelines_stay_in_the_library(self, dtype, put):
        X, y = classes(2, SHAPES[3], dtype=dtype)
        steps = make_pipeline(Tensorize((4, -1)), TensorScaler(), TensorMarginClassifier("tucker", 2))
        here, there = clone(steps).fit(X, y), clone(steps).fit(put(X), y)
        expected, decisions = here.decision_function(X), there.decision_function(put(X))
        assert_at_home(decisions, put(X))
        assert decisions.dtype == put(X).dtype
        assert_close(decisions, expected, TOLERANCE[dtype], expected)
        assert there.score(put(X), y) == here.score(X, y)

    @pytest.mark.torch
    def test_cross_validation_and_grid_search_of_scikit_learn(self):
        torch, _ = library("torch")
        X, y = classes(2)
        given = torch.asarray(X.copy())
        np.testing.assert_array_equal(
            cross_val_score(TensorMarginClassifier("cp"), given, y, cv=3),
            cross_val_score(TensorMarginClassifier("cp"), X, y, cv=3),
        )
        grid = {"lam": [0.1, 1.0], "mu1": [0.0, 1.0]}
        here, there = (GridSearchCV(TensorMarginClassifier("cp"), grid, cv=3).fit(each, y) for each in (X, given))
        assert there.best_params_ == here.best_params_
        np.testing.assert_array_equal(there.cv_results_["mean_test_score"], here.cv_results_["mean_test_score"])
        assert_same(here.best_estimator_, there.best_estimator_, X, given, 1e-9)
        assert_at_home(there.predict(given), given)

    @pytest.mark.parametrize("name", LIBRARIES)
    def test_scikit_learns_own_checks_of_the_array_api(self, name):
        library(name)
        files = ("estimators/test_classifier.py", "transformers/test_preparation.py")
        passed = run_array_api_checks(name, *files)
        assert {line.split("::")[0] for line in passed} == {f"PASSED tests/{file}" for file in files}


class TestMoving:
    @pytest.mark.parametrize("other", ["numpy", *LIBRARIES])
    def test_another_library_or_device_than_the_fits_is_refused_and_moving_is_the_remedy(self, put, other):
        X, y = classes(3)
        elsewhere = np.asarray if other == "numpy" else library(other)[0].asarray
        for first, second in ((put(X), elsewhere(X.copy())), (elsewhere(X.copy()), put(X))):
            if type(first) is type(second) and device_of(first) == device_of(second):
                continue
            fitted = TensorMarginClassifier("full").fit(first, y)
            expected = fitted.decision_function(first)
            for method in ("predict", "decision_function", "binary_scores"):
                words = (
                    rf"\.{method}\(\) must use the same namespace and the same device.*to_device\(estimator, like=X\)"
                )
                with pytest.raises(ValueError, match=words):
                    getattr(fitted, method)(second)
            there = to_device(fitted, like=second)
            assert_at_home(there.decision_function(second), second)
            assert_close(there.decision_function(second), to_host(expected), 1e-12, to_host(expected))
            np.testing.assert_array_equal(to_host(there.predict(second)), to_host(fitted.predict(first)))

    @pytest.mark.parametrize("names", [None, np.array(["a", "b", "c"])], ids=["numbers", "text"])
    @pytest.mark.parametrize("decomposition", ["full", "cp"])
    def test_there_and_back_again(self, decomposition, names, put):
        X, y = classes(3, dtype="float32")
        y = y if names is None else names[y]
        fitted = TensorMarginClassifier(decomposition).fit(X, y)
        there = to_device(fitted, like=put(X))
        assert_at_home(there.coef_, put(X))
        assert there.coef_.dtype == put(X).dtype
        assert_at_home(there.classes_, put(X) if names is None else X)
        back = to_device(there)
        for name in ("coef_", "intercept_", "objective_", "classes_"):
            assert isinstance(getattr(fitted, name), np.ndarray)  # what is moved is a copy
            np.testing.assert_array_equal(getattr(back, name), getattr(fitted, name))
            assert getattr(back, name).dtype == getattr(fitted, name).dtype
        np.testing.assert_array_equal(back.decision_function(X), fitted.decision_function(X))
        np.testing.assert_array_equal(to_host(there.predict(put(X))), fitted.predict(X))
        assert back.get_params() == there.get_params() == fitted.get_params()

    def test_what_is_moved_shares_no_memory_with_the_model_and_a_model_that_must_not_be_written_to_moves_too(self, put):
        X, y = classes(2)
        fitted = TensorMarginClassifier("full").fit(X, y)
        before = fitted.coef_.copy()
        fitted.coef_.flags.writeable = False
        there = to_device(fitted, like=put(X))
        there.coef_[...] = 0.0
        np.testing.assert_array_equal(fitted.coef_, before)

    def test_a_pipeline_moves_with_its_steps(self, put):
        X, y = classes(2)
        steps = make_pipeline(Tensorize((4, -1)), TensorScaler(), TensorMarginClassifier("cp"))
        for first, second in ((X, put(X)), (put(X), X)):
            fitted = clone(steps).fit(first, y)
            with pytest.raises(ValueError, match="must use the same namespace and the same device"):
                fitted.predict(second)
            decisions = to_device(fitted, like=second).decision_function(second)
            assert_at_home(decisions, second)
            expected = to_host(fitted.decision_function(first))
            assert_close(decisions, expected, 1e-12, expected)

    @pytest.mark.parametrize("preparation", [None, TensorScaler()], ids=["plain", "scaled"])
    def test_a_search_moves_with_what_it_has_chosen(self, preparation, put):
        X, y = classes(2)
        search = TensorMarginClassifierCV(
            ("cp",), (1,), lams=(1,), mus=(1,), preparation=preparation, cv=2, random_state=0
        ).fit(X, y)
        there = to_device(search, like=put(X))
        expected = search.decision_function(X)
        assert_close(there.decision_function(put(X)), expected, 1e-12, expected)
        np.testing.assert_array_equal(to_host(there.predict(put(X))), search.predict(X))
        assert_at_home(there.predict_proba(put(X)), put(X))
        assert_close(there.predict_proba(put(X)), search.predict_proba(X), 1e-12, 1.0)
        assert there.score(put(X), y) == search.score(X, y)
        back = to_device(there)
        np.testing.assert_array_equal(back.predict_proba(X), search.predict_proba(X))

    def test_a_model_that_was_moved_to_memory_can_be_saved(self, put, tmp_path):
        X, y = classes(2)
        fitted = TensorMarginClassifier("tt").fit(put(X), put(y))
        save_model(tmp_path / "model.skops", to_device(fitted))
        loaded = load_model(tmp_path / "model.skops").model
        np.testing.assert_array_equal(loaded.predict(X), to_host(fitted.predict(put(X))))


@pytest.mark.numerical
class TestWhereBlocksAreSolved:
    def test_samples_in_memory_are_solved_here_whatever_is_asked_for(self):
        X, y = classes(3)
        fitted = [TensorMarginClassifier("cp", solver=solver).fit(X, y) for solver in ("host", "device", "auto")]
        for one in fitted[1:]:
            np.testing.assert_array_equal(one.coef_, fitted[0].coef_)
            np.testing.assert_array_equal(one.objective_, fitted[0].objective_)

    def test_an_unknown_place_is_refused(self, put):
        X, y = classes(2)
        for samples in (X, put(X)):
            with pytest.raises(ValueError, match=r"The 'solver' parameter .* must be a str among .* Got 'gpu' instead"):
                TensorMarginClassifier(solver="gpu").fit(samples, y)
            with pytest.raises(ValueError, match=r"The 'solver' parameter .* must be a str among .* Got 'gpu' instead"):
                fit_many([TensorMarginClassifier(), TensorMarginClassifier(solver="gpu")], samples, y)

    def test_on_the_device_a_convex_fit_ends_as_low_as_here(self, put):
        X, y = classes(3, SHAPES[2])
        tol = 1e-4
        here, there = (
            TensorMarginClassifier("full", tol=tol, solver=solver).fit(put(X), y) for solver in ("host", "device")
        )
        np.testing.assert_allclose(to_host(there.objective_), to_host(here.objective_), rtol=tol)
        assert_at_home(there.coef_, put(X))
        for history in there.history_:
            assert history["gap"].max() <= 0.1 * tol

    @pytest.mark.parametrize("decomposition", ["cp", "tucker", "tt"])
    def test_on_the_device_a_low_rank_fit_ends_where_a_sweep_here_changes_little(self, decomposition, put):
        """Rounding decides at which stationary point the fit ends, so only check that the point is stationary."""
        X, y = classes(2, (4, 3), 40)
        tol = 1e-3
        there = TensorMarginClassifier(decomposition, 2, tol=tol, solver="device").fit(put(X), y)
        gaps, objectives = there.history_["gap"], there.history_["block_objective"].ravel()
        assert gaps[-1].max() <= 0.1 * tol
        assert np.all(np.diff(objectives) <= 0)
        assert float(there.objective_[0]) == objectives[-1]
        onward = to_device(there).set_params(warm_start=True, tol=1e-9, max_iter=1)
        with pytest.warns(ConvergenceWarning):
            onward.fit(X, y)
        assert 0 <= objectives[-1] - onward.objective_[0] <= tol * abs(onward.objective_[0])

    def test_a_warm_start_on_the_device_goes_on_from_the_last_fit(self, put):
        X, y = classes(2, (4, 3), 40)
        fitted = TensorMarginClassifier("tt", 1, warm_start=True, solver="device").fit(put(X), y)
        cold, objective = fitted.n_iter_, float(fitted.objective_[0])
        fitted.fit(put(X), y)
        assert fitted.n_iter_ < cold
        assert float(fitted.objective_[0]) <= objective + 1e-4 * abs(objective)


def spoiled(X, value):
    X = X.copy()
    X[3, 1, 2, 1] = value
    return X


class TestRefusals:
    @pytest.mark.parametrize(
        ("change", "words"),
        [
            (lambda X: spoiled(X, np.nan), "Input X contains NaN or infinity; leave those samples out, or impute"),
            (lambda X: spoiled(X, np.inf), "Input X contains NaN or infinity; leave those samples out, or impute"),
            (lambda X: X + 1j, r"X must hold real numbers of a type that NumPy has; got .*complex128\. Cast it"),
            (lambda X: X[:, 0, 0, 0], r"X must have the shape \(n_samples, I_1, ...\), none of them 0; got \(60,\)"),
            (lambda X: X[:0], r"X must have the shape .*, none of them 0; got \(0, 3, 4, 5\)"),
            (lambda X: X[:, :0], r"X must have the shape .*, none of them 0; got \(60, 0, 4, 5\)"),
        ],
        ids=["nan", "infinity", "complex", "1-D", "no samples", "no entries"],
    )
    def test_samples_that_are_none(self, change, words, put):
        X, y = classes(2)
        bad = change(X)
        fitted = TensorMarginClassifier("cp").fit(put(X), y)
        with pytest.raises(ValueError, match=words):
            TensorMarginClassifier("cp").fit(put(bad), y[: len(bad)])
        for method in ("predict", "decision_function", "binary_scores"):
            with pytest.raises(ValueError, match=words):
                getattr(fitted, method)(put(bad))

    @pytest.mark.parametrize("parameters", [{}, {"solver": "device", "n_init": 2}], ids=["one", "batch"])
    def test_nan_in_samples_so_large_that_the_fit_itself_looks_for_it(self, parameters, put, monkeypatch):
        monkeypatch.setattr("tensormargin.runtime.tuning.LOOKED_THROUGH_BYTES", 0)
        X, y = classes(2)
        with pytest.raises(ValueError, match="Input X contains NaN or infinity"):
            TensorMarginClassifier("cp", **parameters).fit(put(spoiled(X, np.nan)), y)

    @pytest.mark.parametrize("solver", ["auto", "device"])
    def test_numbers_outside_the_range_of_their_type(self, solver, put):
        X, y = classes(2)
        for scale, words in (
            (1e30, "squared norms overflow float32.*divide X by a constant"),
            (1e-30, "too small for float32"),
        ):
            with pytest.raises(ValueError, match=words):
                TensorMarginClassifier("cp", solver=solver).fit(put((scale * X).astype(np.float32)), y)

    @pytest.mark.parametrize("solver", ["auto", "device"])
    def test_equal_samples_are_no_mistake(self, solver, put):
        _, y = classes(2)
        fitted = TensorMarginClassifier("cp", solver=solver).fit(put(np.ones((60, 3, 4))), y)
        np.testing.assert_array_equal(to_host(fitted.coef_), 0)

    def test_labels_that_are_none(self, put):
        X, y = classes(2)
        refusals = [
            (put(y[1:]), r"inconsistent numbers of samples: \[60, 59\]"),
            (y[1:], r"inconsistent numbers of samples: \[60, 59\]"),
            (put(np.stack([y, y], axis=1)), r"y should be a 1d array, got an array of shape \(60, 2\)"),
            (put(np.ones(60, int)), r"at least two classes with positive weight; got one class, \[1\]"),
            (put(X[:, 0, 0, 0]), "Unknown label type: y must be classes"),
            (None, "TensorMarginClassifier requires y to be passed, but the target y is None"),
        ]
        for labels, words in refusals:
            with pytest.raises(ValueError, match=words):
                TensorMarginClassifier("cp").fit(put(X), labels)

    def test_weights_that_are_none(self, put):
        X, y = classes(2)
        refusals = [
            (np.ones(59), r"sample_weight.shape == \(59,\), expected \(60,\)"),
            (-np.ones(60), "Negative values in data passed to `sample_weight`"),
            ((y > 0).astype(float), r"at least two classes with positive weight; got one class, \[1\]"),
        ]
        for weights, words in refusals:
            for each in (weights, put(weights)):
                with pytest.raises(ValueError, match=words):
                    TensorMarginClassifier("cp").fit(put(X), y, sample_weight=each)

    def test_samples_of_another_shape_than_the_fits(self, put):
        X, y = classes(2)
        fitted = TensorMarginClassifier("cp").fit(put(X), y)
        with pytest.raises(ValueError, match=r"samples must have the shape seen in fit, \(3, 4, 5\); got \(3, 4\)"):
            fitted.predict(put(X[..., 0]))
        vectors = TensorMarginClassifier("full").fit(put(X[:, :, 0, 0]), y)
        with pytest.raises(ValueError, match="X has 2 features, but TensorMarginClassifier is expecting 3 features"):
            vectors.predict(put(X[:, :2, 0, 0]))

    @pytest.mark.torch
    def test_types_that_numpy_lacks(self):
        torch, _ = library("torch")
        X, y = classes(2)
        given = torch.asarray(X.copy())
        with pytest.raises(ValueError, match=r"got torch.bfloat16\. Cast it, e.g. to float32"):
            TensorMarginClassifier("cp").fit(given.to(torch.bfloat16), y)
        with pytest.raises(ValueError, match=r"got torch.bfloat16\. Cast it, e.g. to float32"):
            TensorMarginClassifier("cp").fit(given, y).predict(given.to(torch.bfloat16))


def in_a_process_of_its_own(code):
    """Run code in a fresh process and return its output."""
    environment = {name: value for name, value in os.environ.items() if name != "SCIPY_ARRAY_API"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()


class TestImports:
    def test_samples_in_memory_need_no_other_library(self):
        others = ("torch", "cupy", "triton", "dask", "distributed", "joblib._dask", "array_api_compat")
        others += ("array_api_strict",)
        lines = in_a_process_of_its_own(f"""
import sys
import numpy as np
import tensormargin
X, y = np.random.default_rng(0).normal(size=(40, 5, 4)), np.repeat([0, 1], 20)
for solver in ("auto", "host", "device"):
    tensormargin.TensorMarginClassifier("cp", solver=solver, n_init=2).fit(X, y).predict(X)
fitted = tensormargin.fit_many([tensormargin.TensorMarginClassifier()], X, y)
tensormargin.to_device(fitted[0]).score(X, y)
from tensormargin import TensorMarginClassifierCV, on_cluster
from tensormargin.evaluation import CompareSettings, compare, nested_evaluation
from tensormargin.paper import Run
TensorMarginClassifierCV(("cp",), ranks=(1,), lams=(1,), mus=(1,), cv=2).fit(X, y)
list(compare(X, y, CompareSettings(("SVM",), repeats=1)))
print([name for name in {others!r} if name in sys.modules])
""")
        assert lines[-1] == "[]"

    @pytest.mark.torch
    def test_without_what_the_library_needs_the_error_names_the_extra(self):
        library("torch")
        lines = in_a_process_of_its_own("""
import sys
sys.modules["array_api_compat"] = None
import numpy as np
import torch
import tensormargin

class Samples:  # as CuPy's
    shape, dtype = (4, 2), np.dtype(float)

Samples.__module__ = "cupy._core.core"
X, y = torch.ones((4, 2)), [0, 0, 1, 1]
model = tensormargin.TensorMarginClassifier("full")
for call in (
    lambda: model.fit(X, y),
    lambda: tensormargin.fit_many([model], X, y),
    lambda: model.fit(np.eye(4)[:, :2], y).predict(X),
    lambda: tensormargin.to_device(model, like=X),
    lambda: model.fit(Samples(), y),
):
    try:
        call()
    except ImportError as error:
        print(error)
""")
        assert [line.partition("pip install ")[2] for line in lines] == ["'tensormargin[torch]'"] * 4 + [
            "'tensormargin[cupy]'"
        ]


@pytest.fixture
def on_cuda():
    """Return a function that copies a NumPy array to a CUDA device."""
    torch, _ = library("torch")
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    return lambda array: torch.asarray(np.ascontiguousarray(array), device="cuda")


@pytest.mark.torch
class TestCuda:
    @pytest.mark.parametrize("columns", [2, 3, 7, 16, 17, 33, 64])
    @pytest.mark.parametrize("sizes", [(1000, 784), (4097, 63), (1, 5), (65, 1), (129, 1025)], ids=str)
    def test_products_with_few_columns_are_as_exact_as_single_precision(self, sizes, columns, on_cuda):
        rng = np.random.default_rng(0)
        count, depth = sizes
        left, right = (rng.normal(size=shape).astype(np.float32) for shape in ((count, depth), (depth, columns)))
        expected = left.astype(float) @ right
        error = np.abs(to_host(thin_product(on_cuda(left), on_cuda(right))) - expected).max()
        assert error < 2e-6 * np.abs(expected).max()

    @pytest.mark.parametrize("rows", [2, 3, 7, 16, 17, 33, 64])
    @pytest.mark.parametrize("sizes", [(50, 28, 28), (7, 129, 257), (1, 3, 1000), (33, 1, 2), (5, 65, 3)], ids=str)
    def test_products_with_few_rows_are_as_exact_as_single_precision(self, sizes, rows, on_cuda):
        rng = np.random.default_rng(0)
        left, right = (rng.normal(size=shape).astype(np.float32) for shape in ((rows, sizes[1]), sizes))
        expected = left.astype(float) @ right
        error = np.abs(to_host(thin_product(on_cuda(left), on_cuda(right))) - expected).max()
        assert error < 2e-6 * np.abs(expected).max()

    def test_products_of_views(self, on_cuda):
        rng = np.random.default_rng(0)
        samples, matrix = on_cuda(rng.normal(size=(40, 60, 30)).astype(np.float32)), on_cuda(np.eye(60, 5, dtype="f4"))
        turned = samples.permute(0, 2, 1)  # not contiguous
        product = thin_product(turned.reshape(-1, 60)[::2], matrix.T.contiguous().T)
        np.testing.assert_allclose(to_host(product), to_host(turned.reshape(-1, 60)[::2, :5]), rtol=1e-6)

    @every_type
    @pytest.mark.parametrize("n_classes", [2, 3])
    @every_decomposition
    def test_fits_are_numpys(self, decomposition, n_classes, dtype, on_cuda):
        X, y = classes(n_classes, dtype=dtype)
        given = on_cuda(X)
        fitted = pair(X, y, given, decomposition=decomposition)
        assert_same(*fitted, X, given, {"float32": 1e-4, "float64": 1e-9}[dtype])
        assert_at_home(fitted[1].coef_, given)

    @pytest.mark.parametrize("decomposition", ["cp", "tucker", "tt"])
    def test_large_fits_in_single_end_as_low_as_numpys(self, decomposition, on_cuda):
        """Check samples that are large enough for the Triton products."""
        X, y = classes(2, (28, 28), 2000, "float32")
        assert X.size > LARGE
        here, there = pair(X, y, on_cuda(X), decomposition=decomposition, tol=1e-3)
        np.testing.assert_allclose(to_host(there.objective_), here.objective_, rtol=1e-3)
        assert np.mean(to_host(there.predict(on_cuda(X))) == here.predict(X)) >= 0.99

    @pytest.mark.parametrize("dtype", ["float32", "uint8"])
    def test_forty_five_pairs_as_one_batch(self, dtype, on_cuda):
        rng = np.random.default_rng(0)
        y = np.repeat(np.arange(10), 40)
        X = (
            (20 * rng.normal(size=(10, 12, 12))[y] + 30 * rng.normal(size=(400, 12, 12)) + 128)
            .clip(0, 255)
            .astype(dtype)
        )
        assert prod(X.shape) < LARGE
        fits = [TensorMarginClassifier("cp", 2, solver=solver) for solver in ("host", "device")]
        here, there = (one.fit(each, y) for one, each in zip(fits, (X, on_cuda(X)), strict=True))
        assert there.coef_.shape == here.coef_.shape == (45, 12, 12)
        np.testing.assert_allclose(to_host(there.objective_), here.objective_, rtol=2e-2)
        assert np.mean(to_host(there.predict(on_cuda(X))) == here.predict(X)) > 0.95
