"""Tests of kernels of tensors: literal formulas, invariances, features, and the classifiers behind them."""

from __future__ import annotations

import re
import tracemalloc
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from conftest import low_rank_classes, run
from estimator_checks import every_check
from hypothesis import given
from hypothesis import strategies as st
from reference import paper_coefficients
from scipy.stats import ortho_group
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from tensormargin import (
    KERNEL_METHODS,
    NotAffineError,
    TensorKernel,
    TensorMarginClassifier,
    TensorMarginClassifierCV,
    activation_pattern,
    affine_form,
    export_onnx,
    load_model,
    margin_report,
    save_model,
    weight_maps,
)
from tensormargin.evaluation import CompareSettings, compare
from tensormargin.evaluation.contenders import contender
from tensormargin.io import SampleSet, read_facts
from tensormargin.report import model_page, render, statements
from tensormargin.runtime import to_host
from tensormargin.transformers.kernels.kernels import (
    ComponentKernel,
    Grassmann,
    balanced,
    chains,
    cp_factors,
    right_subspaces,
    tensor_trains,
    with_unique_signs,
)

NAMED = ("rbf", "exponential", "linear", "grassmann", "dusk", "tt-mmk")
SHAPES = [(5,), (5, 4), (4, 3, 5), (3, 2, 4, 2)]
every_kernel = pytest.mark.parametrize("kernel", NAMED)


def samples(n=14, shape=(4, 3, 5), seed=0):
    return np.random.default_rng(seed).normal(size=(n, *shape))


def gram(kernel, X, **parameters):
    """Return the kernel matrix from exact features."""
    features = TensorKernel(kernel, **parameters).fit_transform(X)
    return features @ features.T


# ---- literal formulas ----


def literal(kernel, X, Y, gamma=0.3, rank=2):
    """Return the kernel matrix, one pair after the other."""
    represent, value = LITERAL[kernel]
    own = [represent(x, rank) for x in X]
    other = own if Y is X else [represent(y, rank) for y in Y]
    return np.array([[value(x, y, gamma) for y in other] for x in own])


def itself(x, rank):
    return x


def projectors(x, rank):
    found = []
    for mode in range(x.ndim):
        right = np.linalg.svd(np.moveaxis(x, mode, 0).reshape(x.shape[mode], -1), full_matrices=False)[2][:rank]
        found.append(right.T @ right)
    return found


def cp_components(x, rank):
    factors = [factor[0] for factor in cp_factors(x[None], min(rank, *x.shape))]
    return [spread([factor[r] for factor in factors]) for r in range(len(factors[0]))]


def chains_of_fibres(x, rank):
    cores = [core[0] for core in tensor_trains(x[None], rank)]
    found = []
    for path in product(*(range(core.shape[2]) for core in cores[:-1])):
        ends = zip(cores, (0, *path), (*path, 0), strict=True)
        found.append(spread([core[a, :, b] for core, a, b in ends]))
    return found


def spread(vectors):
    """Return a component with equal norms, the largest entry of all factors but the last positive."""
    signs = [1.0 if v[np.argmax(np.abs(v))] >= 0 else -1.0 for v in vectors[:-1]]
    vectors = [*(s * v for s, v in zip(signs, vectors, strict=False)), np.prod(signs) * vectors[-1]]
    norm = np.prod([np.linalg.norm(v) for v in vectors]) ** (1 / len(vectors))
    return [norm * v / np.linalg.norm(v) for v in vectors]


def product_of_exponentials(x, y, gamma):
    return np.prod([np.exp(-gamma * np.sum((one - two) ** 2)) for one, two in zip(x, y, strict=True)])


def sum_over_components(x, y, gamma):
    return sum(product_of_exponentials(own, other, gamma) for own, other in product(x, y))


LITERAL = {
    "rbf": (itself, lambda x, y, gamma: np.exp(-gamma * np.sum((x - y) ** 2))),
    "exponential": (itself, lambda x, y, gamma: np.exp(-gamma * np.sqrt(np.sum((x - y) ** 2)))),
    "linear": (itself, lambda x, y, gamma: np.sum(x * y)),
    "grassmann": (projectors, product_of_exponentials),
    "dusk": (cp_components, sum_over_components),
    "tt-mmk": (chains_of_fibres, sum_over_components),
}


@every_kernel
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_features_have_the_kernels_values_as_inner_products(kernel, shape, rank):
    X = samples(5, shape)
    np.testing.assert_allclose(gram(kernel, X, gamma=0.3, rank=rank), literal(kernel, X, X, rank=rank), atol=1e-8)


@every_kernel
def test_new_samples_have_the_features_of_the_formula(kernel):
    X, new = samples(6), samples(4, seed=1)
    transformer = TensorKernel(kernel, gamma=0.3).fit(X)
    # Features of new samples are projections, so their products with those of training samples are exact.
    products = transformer.transform(new) @ transformer.transform(X).T
    np.testing.assert_allclose(products, literal(kernel, new, X), atol=1e-8)


def test_components_of_tensors_of_low_rank_are_found():
    rng = np.random.default_rng(0)
    factors = [rng.normal(size=(6, 2, size)) for size in (5, 4, 6)]
    X = np.einsum("nra,nrb,nrc->nabc", *factors)
    found = balanced(with_unique_signs(cp_factors(X, 2)))
    np.testing.assert_allclose(np.einsum("nra,nrb,nrc->nabc", *found), X, atol=1e-3)
    expected = np.concatenate(balanced(with_unique_signs(factors)), axis=2)
    found = np.concatenate(found, axis=2)
    for own, other in zip(found, expected, strict=True):
        assert min(np.abs(own - other).max(), np.abs(own[::-1] - other).max()) < 0.05


def test_a_tensor_train_of_full_rank_is_the_tensor():
    X = samples(5, (3, 4, 2))
    cores = tensor_trains(X, 10)
    np.testing.assert_allclose(np.einsum("nxai,nibj,njcy->nabc", *cores), X, atol=1e-12)
    np.testing.assert_allclose(np.einsum("nra,nrb,nrc->nabc", *chains(cores)), X, atol=1e-12)


# ---- invariances ----


@given(seed=st.integers(0, 10**6), mode=st.integers(0, 2))
def test_grassmann_factors_do_not_depend_on_rotations_of_their_mode(seed, mode):
    X = samples(4, (4, 3, 5), seed)
    rotation = ortho_group.rvs(X.shape[mode + 1], random_state=seed)
    turned = np.moveaxis(np.tensordot(X, rotation, (mode + 1, 0)), -1, mode + 1)
    before, after = (right_subspaces(one, mode, 2) for one in (X, turned))
    projectors = [basis.transpose(0, 2, 1) @ basis for basis in (before, after)]
    np.testing.assert_allclose(*projectors, atol=1e-8)


@given(seed=st.integers(0, 10**6), scale=st.floats(0.01, 100))
def test_grassmann_does_not_depend_on_the_scale_of_a_sample(seed, scale):
    X = samples(5, seed=seed)
    scales = np.where(np.arange(5) % 2, scale, -1.0)[:, None, None, None]
    np.testing.assert_allclose(gram("grassmann", X, gamma=0.2), gram("grassmann", X * scales, gamma=0.2), atol=1e-8)


@given(seed=st.integers(0, 10**6))
def test_component_kernels_do_not_depend_on_order_and_signs_of_components(seed):
    rng = np.random.default_rng(seed)
    factors = [rng.normal(size=(4, 3, size)) for size in (5, 4, 6)]
    signs = rng.choice([-1.0, 1.0], (2, 4, 3, 1))
    scales = rng.uniform(0.5, 2.0, (4, 3, 1))
    order = rng.permutation(3)
    changed = [factors[0] * signs[0] * scales, factors[1] * signs[1], factors[2] * signs[0] * signs[1] / scales]
    changed = [one[:, order] for one in changed]

    def values(given):
        kernel = ComponentsGiven((15,), gamma=0.1)
        rows = np.concatenate(balanced(with_unique_signs(given)), axis=2)
        return kernel.block(rows, rows)

    np.testing.assert_allclose(values(changed), values(factors), atol=1e-10)


class ComponentsGiven(ComponentKernel):
    words = "test kernel"

    def factors(self, X):
        raise NotImplementedError


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_for_matrices_dusk_and_tt_mmk_are_one_kernel(rank):
    X = samples(8, (5, 4))
    np.testing.assert_allclose(
        gram("dusk", X, gamma=0.2, rank=rank), gram("tt-mmk", X, gamma=0.2, rank=rank), atol=1e-8
    )


def test_for_vectors_dusk_is_rbf():
    X = samples(8, (5,))
    np.testing.assert_allclose(gram("dusk", X, gamma=0.2), gram("rbf", X, gamma=0.2), atol=1e-8)


@every_kernel
def test_features_of_a_sample_do_not_depend_on_its_company(kernel):
    X = samples(8)
    transformer = TensorKernel(kernel).fit(X)
    together = transformer.transform(X)
    alone = np.concatenate([transformer.transform(X[k : k + 1]) for k in range(len(X))])
    np.testing.assert_allclose(alone, together, atol=1e-9)
    np.testing.assert_allclose(transformer.fit_transform(X), together, atol=1e-9)


@given(seed=st.integers(0, 10**6), kernel=st.sampled_from(NAMED), shape=st.sampled_from(SHAPES))
def test_kernel_matrices_are_positive_semi_definite(seed, kernel, shape):
    X = samples(8, shape, seed)
    transformer = TensorKernel(kernel)
    own, rows = transformer.fit(X)._represented(X, np.arange(len(X)))
    matrix = own.block(rows, own.landmarks(rows, np.arange(len(X))))
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-10)
    np.testing.assert_allclose(np.diagonal(matrix), own.diagonal(rows), atol=1e-10)
    assert np.linalg.eigvalsh(matrix).min() > -1e-9 * np.trace(matrix)


# ---- features ----


@every_kernel
@pytest.mark.parametrize("landmarks", ["k-means++", "leverage", "uniform"])
def test_nystroem_with_all_samples_is_exact(kernel, landmarks):
    X = samples(12)
    some = TensorKernel(kernel, method="nystroem", n_components=12, landmarks=landmarks, random_state=0)
    features = some.fit_transform(X)
    np.testing.assert_allclose(features @ features.T, gram(kernel, X), atol=1e-8)
    assert some.approximation_error_ == pytest.approx(0, abs=1e-10)


@pytest.mark.parametrize("method", ["exact", "nystroem"])
@every_kernel
def test_the_approximation_error_is_the_share_of_the_trace_left_out(kernel, method):
    X = samples(30)
    few = TensorKernel(kernel, n_components=7, method=method, random_state=0)
    features = few.fit_transform(X)
    expected = 1 - np.trace(features @ features.T) / np.trace(gram(kernel, X))
    assert few.n_components_ == 7
    assert few.approximation_error_ == pytest.approx(expected, abs=1e-9)


def test_the_error_estimated_from_some_samples_is_close(monkeypatch):
    X = samples(400, (3, 2))
    monkeypatch.setattr("tensormargin.runtime.tuning.EXACT_KERNEL_SAMPLES", 150)
    some = TensorKernel(n_components=15, random_state=0).fit(X)
    assert some.method_ == "nystroem"
    features = some.transform(X)
    left = 1 - np.sum(features**2) / len(X)
    assert some.approximation_error_ == pytest.approx(left, rel=0.25)
    assert len(np.unique(some.pivots_)) == 15


@every_kernel
def test_fewer_features_than_landmarks_are_their_principal_components(kernel, tmp_path):
    X, new = samples(24), samples(5, seed=1)
    plain = TensorKernel(kernel, method="nystroem", n_landmarks=12, random_state=0).fit(X)
    some = TensorKernel(kernel, method="nystroem", n_landmarks=12, n_components=6, random_state=0).fit(X)
    assert (plain.n_components_, some.n_components_, len(some.pivots_)) == (12, 6, 12)
    features, others = plain.transform(X), plain.transform(new)
    directions = np.linalg.svd(features, full_matrices=False)[2][:6]
    found = some.transform(new)
    np.testing.assert_allclose(found @ found.T, (others @ directions.T) @ (others @ directions.T).T, atol=1e-8)
    left = 1 - np.sum(some.transform(X) ** 2) / np.trace(gram(kernel, X))
    assert some.approximation_error_ == pytest.approx(left, abs=1e-9)
    model = make_pipeline(clone(some), TensorMarginClassifier("full")).fit(X, np.arange(24) % 2)
    save_model(tmp_path / "model.skops", model)
    loaded = load_model(tmp_path / "model.skops").model
    np.testing.assert_array_equal(loaded.decision_function(new), model.decision_function(new))


def test_values_in_single_precision_are_enough_for_features_in_it(monkeypatch):
    X = samples(80).astype(np.float32) + 1000  # a common offset costs no precision
    some = TensorKernel(method="nystroem", n_landmarks=30, n_components=10, random_state=0).fit(X)
    assert some._single_is_enough()
    single = some.transform(X)
    monkeypatch.setattr("tensormargin.transformers.kernels.transformer._LARGEST_NORM", 0.0)
    np.testing.assert_allclose(single, some.transform(X), atol=3e-4)
    assert not TensorKernel(method="nystroem", n_landmarks=30, random_state=0).fit(X)._single_is_enough()


def test_many_samples_have_fewer_features_than_landmarks(monkeypatch):
    monkeypatch.setattr("tensormargin.runtime.tuning.EXACT_KERNEL_SAMPLES", 50)
    monkeypatch.setattr("tensormargin.runtime.tuning.LANDMARKS", 20)
    monkeypatch.setattr("tensormargin.runtime.tuning.KERNEL_FEATURES", 8)
    many = TensorKernel(random_state=0).fit(samples(90))
    assert (len(many.pivots_), many.n_components_, many.method_) == (20, 8, "nystroem")
    assert "by 8 features of the RBF kernel" in many.words()
    assert "20 landmarks by k-means++" in many.words()


def test_pivots_chosen_in_blocks_are_nearly_the_largest_residuals():
    """Compare with pivots taken one by one."""
    X = load_digits().data[:300]
    matrix = rbf_kernel(X, gamma=1e-3)
    residuals, columns = np.ones(300), []
    for _ in range(60):
        pivot = int(np.argmax(residuals))
        column = matrix[:, pivot] - sum(c * c[pivot] for c in columns)
        columns.append(column / np.sqrt(column[pivot]))
        residuals = residuals - columns[-1] ** 2
    found = TensorKernel(gamma=1e-3, n_components=60).fit(X)
    assert found.approximation_error_ <= 1.25 * residuals.sum() / 300


def test_no_matrix_of_all_pairs_is_made():
    X = samples(1500, (3,))
    transformer = TensorKernel(gamma=1e-3, n_components=10)
    transformer.fit_transform(X)
    tracemalloc.start()
    transformer.fit_transform(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1500 * 1500 * 8 / 2


def test_copies_of_samples_add_no_features():
    X = samples(10, (4, 3))
    twice = TensorKernel(gamma=0.1).fit(np.concatenate([X, X]))
    assert twice.n_components_ == 10
    many = TensorKernel(gamma=0.1, method="nystroem", n_components=20, random_state=0).fit(np.concatenate([X, X]))
    assert many.n_components_ == 10


@given(seed=st.integers(0, 10**6), exponent=st.integers(-14, -8), rank=st.integers(1, 12))
def test_noisy_and_singular_matrices_have_features_as_exact_as_they_are(seed, exponent, rank):
    """Rounding in a precomputed matrix must not become features of any size."""
    rng = np.random.default_rng(seed)
    half = rng.normal(size=(12, rank))
    noise = 10.0**exponent * rng.normal(size=(12, 12))
    matrix = half @ half.T
    features = TensorKernel("precomputed", tol=1e-12).fit_transform(matrix + (noise + noise.T) / 2)
    np.testing.assert_allclose(features @ features.T, matrix, atol=30 * 10.0**exponent + 1e-10)


def test_gamma_scale_is_that_of_svc():
    X = samples(20, (4, 3)) * 3 + 1
    svc = SVC().fit(X.reshape(20, -1), np.arange(20) % 2)
    assert TensorKernel().fit(X).gamma_ == pytest.approx(svc._gamma)
    assert TensorKernel(gamma_factor=3).fit(X).gamma_ == pytest.approx(3 * svc._gamma)
    assert TensorKernel(gamma=0.5, gamma_factor=3).fit(X).gamma_ == pytest.approx(1.5)


@pytest.mark.parametrize("kernel", ["grassmann", "dusk", "tt-mmk"])
def test_gamma_scale_gives_values_between_the_extremes(kernel):
    matrix = gram(kernel, samples(20))
    others = matrix[~np.eye(20, dtype=bool)] / np.diagonal(matrix).mean()
    assert 0.01 < others.mean() < 0.95


def test_a_function_and_a_precomputed_matrix_are_the_kernel_they_hold():
    X, new = samples(15, (4, 3)), samples(5, (4, 3), 1)

    def function(A, B):
        return rbf_kernel(A.reshape(len(A), -1), B.reshape(len(B), -1), gamma=0.1)

    named = TensorKernel("rbf", gamma=0.1).fit(X).transform(new)
    np.testing.assert_allclose(TensorKernel(function).fit(X).transform(new), named, atol=1e-9)
    precomputed = TensorKernel("precomputed").fit(function(X, X))
    np.testing.assert_allclose(precomputed.transform(function(new, X)), named, atol=1e-9)


def test_precomputed_matrices_are_cut_on_both_sides_in_cross_validation():
    X, signs = low_rank_classes(0, 40, (4, 3), 3.0, rank=1)
    matrix = rbf_kernel(X.reshape(40, -1), gamma=0.05)
    classifier = TensorMarginClassifier("full")
    theirs = cross_val_score(make_pipeline(TensorKernel("precomputed"), classifier), matrix, signs, cv=4)
    ours = cross_val_score(make_pipeline(TensorKernel(gamma=0.05), classifier), X, signs, cv=4)
    np.testing.assert_allclose(theirs, ours)


# ---- conventions ----


@every_check([TensorKernel(), TensorKernel("grassmann"), TensorKernel("dusk"), TensorKernel("linear")])
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


@every_kernel
@pytest.mark.parametrize(
    ("given_as", "expected"), [(np.float32, np.float32), (np.float64, np.float64), (np.int64, np.float64)]
)
def test_types(kernel, given_as, expected):
    X = (10 * samples()).astype(given_as)
    transformer = TensorKernel(kernel)
    for features in (transformer.fit_transform(X), transformer.transform(X)):
        assert features.dtype == expected
    np.testing.assert_allclose(features, TensorKernel(kernel).fit_transform(X.astype(float)), rtol=1e-3, atol=1e-3)


@every_kernel
def test_memory_layout_and_lists_change_nothing(kernel):
    X = samples()
    expected = TensorKernel(kernel).fit_transform(X)
    frozen = X.copy()
    frozen.setflags(write=False)
    for given_as in (np.asfortranarray(X), frozen, list(X), X.tolist()):
        np.testing.assert_allclose(TensorKernel(kernel).fit_transform(given_as), expected, atol=1e-8)


def test_names_of_features():
    transformer = TensorKernel(n_components=3).fit(samples())
    assert transformer.get_feature_names_out().tolist() == ["tensorkernel0", "tensorkernel1", "tensorkernel2"]
    assert transformer.sample_shape_out_ == (3,)


@pytest.mark.parametrize(
    ("parameters", "X", "message"),
    [
        ({"kernel": "polynomial"}, samples(), "The 'kernel' parameter of TensorKernel must be"),
        ({"gamma": -1.0}, samples(), "The 'gamma' parameter"),
        ({"kernel": "precomputed"}, samples(5, (4,)), "needs the square matrix"),
        ({"kernel": "precomputed"}, np.triu(np.ones((4, 4))), "must be symmetric"),
        ({"kernel": "precomputed"}, -np.eye(4), "must be positive semi-definite"),
        ({"kernel": "precomputed"}, np.ones((4, 4)) - 0.5 * np.eye(4), "must be positive semi-definite"),
        ({"kernel": "linear"}, np.zeros((4, 3)), "is zero for all training samples"),
        ({"kernel": lambda A, B: np.ones(3)}, samples(), "must return an array of shape"),
        ({}, np.full((4, 3), np.nan), "contains NaN"),
        ({}, 1e200 * samples(), "must be at most 1.3e\\+154, so that their squares do not overflow"),
        ({"kernel": "dusk"}, 1e200 * samples(), "must be at most 1.3e\\+154"),
    ],
)
def test_wrong_input_is_refused(parameters, X, message):
    with pytest.raises(ValueError, match=message):
        TensorKernel(**parameters).fit(X)


def test_one_sample_and_equal_samples():
    assert TensorKernel().fit_transform(samples(1)).shape == (1, 1)
    for kernel in ("rbf", "dusk", "grassmann", "tt-mmk"):
        np.testing.assert_allclose(TensorKernel(kernel).fit_transform(np.ones((4, 3, 2, 2))).shape, (4, 1))


def test_the_landmarks_are_repeatable():
    X = samples(60, (3, 2))
    made = [TensorKernel(method="nystroem", n_components=9, random_state=s).fit_transform(X) for s in (0, 0, 1)]
    np.testing.assert_array_equal(made[0], made[1])
    assert not np.allclose(made[0], made[2])


@every_kernel
def test_samples_of_other_libraries(kernel, put):
    X = samples()
    given_as = put(X)
    features = TensorKernel(kernel).fit(given_as).transform(given_as)
    assert type(features) is type(given_as)
    np.testing.assert_allclose(to_host(features), TensorKernel(kernel).fit_transform(X), atol=1e-8)


@every_kernel
def test_dask_arrays_are_transformed_lazily(kernel):
    da = pytest.importorskip("dask.array", reason="needs Dask")
    X = samples(40, (4, 3))
    lazy = da.from_array(X, chunks=(7, 4, 3))
    transformer = TensorKernel(kernel, n_components=10, random_state=0)
    features = transformer.fit_transform(lazy)
    assert transformer.method_ == "nystroem"
    assert features.chunks[0] == lazy.chunks[0]
    here = clone(transformer).set_params(method="nystroem").fit_transform(X)
    np.testing.assert_allclose(features.compute(), here, atol=1e-9)


# ---- classifiers behind kernels ----


@pytest.fixture(scope="module")
def rings():
    """Return two classes that no linear weight separates, and new samples of them."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 5, 4))
    return X[:80], np.where(X[:, 0, 0] * X[:, 1, 1] + 0.3 * rng.normal(size=120) > 0, 1, -1)[:80], X[80:]


to_the_last_digit = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@to_the_last_digit
@pytest.mark.numerical
@pytest.mark.parametrize("C", [0.5, 10.0])
def test_without_margin_terms_rbf_is_svc(rings, C):
    """SVC does not penalise its intercept: here it is the coefficient of a large constant feature.

    Single values differ by more than 1e-6, since SVC keeps kernel values in float32: the dual solved by a general
    solver (next test) is closer.
    """
    X, y, new = rings
    kernel = TensorKernel(gamma=0.05).fit(X)
    features, others = (np.insert(kernel.transform(one), 0, 1000.0, axis=1) for one in (X, new))
    ours = TensorMarginClassifier(
        "full", lam=C * len(X), mu1=0, mu2=0, scale_free=False, fit_intercept=False, tol=1e-12
    ).fit(features, y)
    theirs = SVC(C=C, gamma=0.05, tol=1e-12).fit(X.reshape(len(X), -1), y)
    expected = theirs.decision_function(new.reshape(len(new), -1))
    apart = ours.decision_function(others) - expected
    assert np.sqrt(np.mean(apart**2)) < 1e-6
    np.testing.assert_allclose(apart, 0.0, atol=3e-6)


@to_the_last_digit
@pytest.mark.numerical
@pytest.mark.parametrize("kernel", ["rbf", "grassmann", "dusk"])
def test_without_intercept_it_is_svc_on_mirrored_samples(rings, kernel):
    """With every sample's negative in the other class, an SVC's intercept is zero."""
    X, y, new = rings
    model = make_pipeline(
        TensorKernel(kernel),
        TensorMarginClassifier(
            "full", lam=5.0 * len(X), mu1=0, mu2=0, scale_free=False, fit_intercept=False, tol=1e-12
        ),
    ).fit(X, y)
    features, others = model[0].transform(X), model[0].transform(new)
    matrix, cross = features @ features.T, others @ features.T
    mirrored = SVC(C=2.5, kernel="precomputed", tol=1e-12)
    mirrored.fit(np.block([[matrix, -matrix], [-matrix, matrix]]), np.append(y, -y))
    apart = model.decision_function(new) - mirrored.decision_function(np.hstack([cross, -cross]))
    assert np.sqrt(np.mean(apart**2)) < 1e-6
    beta = paper_coefficients(matrix, y.astype(float), 5.0 * len(X), 0.0, 0.0)
    np.testing.assert_allclose(model.decision_function(new), cross @ beta, atol=1e-8)


@pytest.mark.numerical
@pytest.mark.parametrize("kernel", ["rbf", "grassmann", "dusk", "tt-mmk"])
def test_kernel_lmdm_is_its_dual_solved_by_a_general_solver(rings, kernel):
    X, y, new = rings[0][:40], rings[1][:40], rings[2][:20]
    strengths = {"lam": 20.0, "mu1": 3.0, "mu2": 2.0}
    classifier = TensorMarginClassifier("full", **strengths, scale_free=False, fit_intercept=False, tol=1e-9)
    model = make_pipeline(TensorKernel(kernel, gamma=0.1), classifier).fit(X, y)
    beta = paper_coefficients(literal(kernel, X, X, 0.1), y.astype(float), **strengths)
    np.testing.assert_allclose(model.decision_function(new), literal(kernel, new, X, 0.1) @ beta, atol=1e-6)


def test_a_linear_kernel_changes_nothing():
    X, signs = low_rank_classes(0, 60, (4, 3), 3.0, rank=1)
    ours = make_pipeline(TensorKernel("linear"), TensorMarginClassifier("full", tol=1e-7)).fit(X, signs)
    flat = TensorMarginClassifier("full", tol=1e-7).fit(X, signs)
    np.testing.assert_allclose(ours.decision_function(X), flat.decision_function(X), atol=1e-4)


def test_searches_over_kernels(rings):
    X, y, _ = rings
    model = make_pipeline(TensorKernel(), TensorMarginClassifier("full"))
    grid = {"tensorkernel__gamma_factor": [0.1, 1.0], "tensorkernel__kernel": ["rbf", "linear"]}
    search = GridSearchCV(model, grid, cv=2)
    assert search.fit(X, y).best_score_ > 0.5
    own = TensorMarginClassifierCV(
        ("full",), lams=(1,), mus=(1,), preparation=[None, TensorKernel()], cv=3, random_state=0
    )
    own.fit(X, y)
    assert own.cv_results_["param_preparation"].tolist() != []
    assert own.predict(X).shape == y.shape


@pytest.fixture(scope="module")
def fitted(rings):
    X, y, _ = rings
    return make_pipeline(TensorKernel("dusk"), TensorMarginClassifier("full")).fit(X, y)


@every_kernel
def test_models_are_saved_and_loaded(kernel, rings, tmp_path):
    X, y, new = rings
    model = make_pipeline(TensorKernel(kernel), TensorMarginClassifier("full")).fit(X, y)
    save_model(tmp_path / "model.skops", model)
    loaded = load_model(tmp_path / "model.skops")
    np.testing.assert_array_equal(loaded.model.decision_function(new), model.decision_function(new))
    assert loaded.facts["sample_shape"] == [5, 4]
    assert any("features of the" in line for line in statements(loaded.model, loaded.facts))


def test_a_function_cannot_be_saved(rings, tmp_path):
    X, y, _ = rings
    model = make_pipeline(TensorKernel(lambda A, B: np.ones((len(A), len(B)))), TensorMarginClassifier("full")).fit(
        X, y
    )
    with pytest.raises(TypeError, match=r"kernel of TensorKernel is of class.*Save it with joblib yourself"):
        save_model(tmp_path / "model.skops", model)
    assert not list(tmp_path.iterdir())


def test_no_weight_can_be_taken_back_to_the_samples(fitted, rings, tmp_path):
    for use in (affine_form, weight_maps):
        with pytest.raises(NotAffineError, match="DuSK kernel are not linear in the samples"):
            use(fitted)
    pytest.importorskip("onnx", reason="needs onnx")
    with pytest.raises(NotAffineError, match=r"this model cannot be exported: .*not linear in the samples"):
        export_onnx(fitted, tmp_path / "model.onnx")


def test_margins_and_patterns_of_kernel_models(fitted, rings):
    X, y, _ = rings
    report = margin_report(fitted, X, y)
    np.testing.assert_allclose(report.margins, y * fitted.decision_function(X), atol=1e-9)
    assert activation_pattern(fitted, X, y).shape == (1, 5, 4)


def test_bases_of_modes_stay_apart():
    X = samples(6, (4, 3, 5))
    kernel = Grassmann((4, 3, 5), rank=2, gamma=0.1)
    modes = kernel._modes(kernel.represent(X))
    assert [one.shape for one in modes] == [(6, 2, 15), (6, 2, 20), (6, 2, 12)]


# ---- methods, comparisons and reports ----


def test_comparisons_tune_kernels_over_their_width():
    X, signs = low_rank_classes(0, 40, (4, 3), 4.0, rank=1)
    settings = CompareSettings(methods=("LMDM", *KERNEL_METHODS), repeats=1, lam_grid=(0.2, 2.0), folds=2)
    rows = {row.method: row for row in compare(X, signs, settings, 1)}
    assert set(rows) == {"LMDM", *KERNEL_METHODS, "majority class"}
    for name in KERNEL_METHODS:
        assert rows[name].lam in settings.lam_grid  # not the width of the kernel
        assert rows[name].n_parameters == 31  # a feature per training sample, and the intercept
        assert rows[name].accuracy > 0.8
        widths = {one["kernel__gamma_factor"] for one in contender(name).candidates}
        assert widths == {0.1, 1.0, 10.0}


def test_the_command_compares_kernels(tmp_path):
    X, signs = low_rank_classes(0, 24, (4, 3), 6.0, rank=1)
    np.savez(tmp_path / "some.npz", X=X, y=np.where(signs > 0, "a", "b"))
    options = ("--methods", "SVM", "--kernels", "--repeats", 1, "--folds", 2, "--jobs", 1)
    result = run("compare", tmp_path / "some.npz", *options, "--report", tmp_path / "page.html")
    assert result.returncode == 0, result.stderr
    for name in ("SVM", *KERNEL_METHODS, "lambda (and the width of kernels)"):
        assert name in result.stdout
    assert "gamma from 0.1, 1.0, 10.0 times its scale" in (tmp_path / "page.html").read_text()


def test_the_report_says_why_there_is_no_map_of_the_weight(fitted, rings, tmp_path):
    X, y, _ = rings
    save_model(tmp_path / "model.skops", fitted)
    data = SampleSet(X, y, None, None, None, "some.npz", "NumPy archive", ())
    for samples_of in (None, data):
        page = model_page(fitted, read_facts(tmp_path / "model.skops"), samples_of)
        text = render(page)
        assert text.count("There is no map of the weight") == 1
        assert "are not linear in the samples" in text
        assert "features of the DuSK kernel with gamma" in text
        assert f"full weight on {fitted[0].n_components_} kernel features" in text
        assert "samples are vectors" not in text
        assert "Factors" not in [section.heading for section in page.sections]


def test_saved_kernel_models_predict_and_are_inspected(fitted, rings, tmp_path):
    X, y, _ = rings
    save_model(tmp_path / "model.skops", fitted)
    np.savez(tmp_path / "new.npz", X=X[:9], y=y[:9])
    assert run("predict", tmp_path / "model.skops", tmp_path / "new.npz", "-o", tmp_path / "p.csv").returncode == 0
    told = run("inspect", tmp_path / "model.skops")
    assert "features of the DuSK kernel" in told.stdout
    refused = run("inspect", tmp_path / "model.skops", "--weight-map", tmp_path / "map.npy")
    assert refused.returncode == 2
    assert "not linear in the samples" in " ".join(refused.stderr.split())


def test_the_example_of_the_page(capsys):
    page = (Path(__file__).parents[2] / "docs" / "kernels.md").read_text(encoding="utf-8")
    code = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(code) == 1
    exec(code[0], {})
    scores, features = capsys.readouterr().out.splitlines()
    linear, kernel = (int(one) for one in re.findall(r"\d+", scores))
    assert 40 < linear < 60
    assert 80 < kernel < 90
    assert features == "200 0.0"
