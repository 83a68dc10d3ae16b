"""Tests of transformers on other array libraries: NumPy's results, in the library, device and dtype of the input."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest
from conftest import library
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from tensormargin.runtime import device_of, to_host
from tensormargin.transformers import Crop, EqualLength, Mask, Recipe, Resize, Tensorize, TensorScaler

pytest.importorskip("array_api_compat", reason="needs array-api-compat: pip install 'tensormargin[torch]'")

N, SHAPE = 30, (6, 5, 4)
BRAIN = np.zeros(SHAPE, bool)
BRAIN[1:4, 2:5, 1:3] = True
TRANSFORMERS = {
    "scale entry": TensorScaler(),
    "scale global": TensorScaler("global"),
    "scale mode": TensorScaler(1),
    "scale modes": TensorScaler((0, 2)),
    "scale only": TensorScaler(with_mean=False),
    "centre only": TensorScaler(with_std=False),
    "by group": TensorScaler(by_group=True),
    "by group and mode": TensorScaler(0, by_group=True),
    "fold": Tensorize((2, 3, -1)),
    "flatten": Tensorize(),
    "mask varying": Mask(),
    "mask bright": Mask("bright"),
    "mask given": Mask(BRAIN),
    "crop varying": Crop(),
    "crop bright": Crop("bright", margin=1),
    "crop given": Crop(BRAIN),
    "resize": Resize((3, 9)),
    "resample": EqualLength(7),
    "pad with a value": EqualLength(9, "constant", 2.0, mode=0),
    "pad with the edge": EqualLength(9, "edge", mode=1),
    "pad with the mean": EqualLength(9, "mean"),
    "cut": EqualLength(3, "edge"),
    "enlarge": Resize((12, 5, 2)),
}
UNDOABLE = [name for name, one in TRANSFORMERS.items() if hasattr(one, "inverse_transform") and "group" not in name]
TOLERANCE = {"float32": 1e-5, "float64": 1e-9}
every_transformer = pytest.mark.parametrize("name", TRANSFORMERS)
every_type = pytest.mark.parametrize("dtype", TOLERANCE)


def samples():
    """Return samples with a dark, constant border and entries of very different means and variances."""
    rng = np.random.default_rng(0)
    X = np.zeros((N, *SHAPE))
    inside = (slice(None), slice(1, 5), slice(1, 5), slice(0, 3))
    part = X[inside]
    X[inside] = rng.normal(rng.uniform(5, 50, part.shape[1:]), rng.uniform(0.5, 3, part.shape[1:]), part.shape)
    return X


X = samples()
GROUPS = np.random.default_rng(1).choice(["a", "b", "c"], N)


def assert_same(array, expected, like, tolerance):
    """Check the values of an array, and that it is on the same device as another."""
    assert type(array) is type(like)
    assert device_of(array) == device_of(like)
    np.testing.assert_allclose(to_host(array), expected, rtol=tolerance, atol=tolerance * np.abs(expected).max())


@every_type
@every_transformer
def test_transformers_give_what_numpy_gives(name, dtype, put):
    given = put(X.astype(dtype))
    here, there = (clone(TRANSFORMERS[name]).fit(each, groups=GROUPS) for each in (X.astype(dtype), given))
    changed = there.transform(given, groups=GROUPS)
    assert changed.dtype == given.dtype
    assert there.sample_shape_out_ == here.sample_shape_out_
    assert there.n_features_in_ == SHAPE[0]
    assert_same(changed, here.transform(X.astype(dtype), groups=GROUPS), given, TOLERANCE[dtype])
    np.testing.assert_array_equal(to_host(given), X.astype(dtype))  # nothing was written to


@every_type
@pytest.mark.parametrize("name", UNDOABLE)
def test_undoing(name, dtype, put):
    given = put(X.astype(dtype))
    fitted = clone(TRANSFORMERS[name]).fit(given)
    changed = fitted.transform(given)
    undone = fitted.inverse_transform(changed)
    assert undone.dtype == given.dtype
    expected = clone(TRANSFORMERS[name]).fit(X).inverse_transform(to_host(changed).astype(float))
    assert_same(undone, expected, given, TOLERANCE[dtype])


@every_type
@every_transformer
def test_weights_find_their_way_back(name, dtype, put):
    here, there = (clone(TRANSFORMERS[name]).fit(each, groups=GROUPS) for each in (X, put(X.astype(dtype))))
    weight = np.random.default_rng(2).standard_normal(here.sample_shape_out_)
    expected = here.pull_back(weight)
    given = put(weight.astype(dtype))
    assert_same(there.pull_back(given), expected, given, TOLERANCE[dtype])
    assert_same(there.pull_back(weight), expected, weight, TOLERANCE[dtype])  # a weight on another device
    assert_same(here.pull_back(given), expected, given, TOLERANCE[dtype])


@every_transformer
def test_samples_of_another_library_than_the_fits_are_refused(name, put):
    for fitted_on, given in ((X, put(X)), (put(X), X)):
        fitted = clone(TRANSFORMERS[name]).fit(fitted_on, groups=GROUPS)
        with pytest.raises(ValueError, match=r"\.transform\(\) must use the same namespace and the same device"):
            fitted.transform(given, groups=GROUPS)
        if name in UNDOABLE:
            with pytest.raises(ValueError, match=r"\.inverse_transform\(\) must use the same namespace"):
                fitted.inverse_transform(given)


def test_what_is_learned_lies_where_the_samples_lie(put):
    given = put(X.astype(np.float32))
    scaler, mask = TensorScaler().fit(given), Mask().fit(given)
    for learned in (scaler.mean_, scaler.scale_, mask.mask_):
        assert type(learned) is type(given)
        assert device_of(learned) == device_of(given)
    assert_same(scaler.mean_, X.mean(axis=0), given, 1e-6)
    assert to_host(scaler.scale_)[0, 0, 0] == 1  # the border does not vary


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int32", "int64", "bool"])
@every_transformer
def test_other_types_become_what_they_become_in_numpy(name, dtype, put):
    integers = np.greater(X, X.mean(axis=0)) if dtype == "bool" else X.astype(dtype)
    here, there = (clone(TRANSFORMERS[name]).fit(each, groups=GROUPS) for each in (integers, put(integers)))
    expected = here.transform(integers, groups=GROUPS)
    changed = there.transform(put(integers), groups=GROUPS)
    assert to_host(changed).dtype == expected.dtype
    assert_same(changed, expected, put(integers), 1e-5)


def test_pipelines_and_recipes_stay_in_the_library(put):
    steps = make_pipeline(Crop(), TensorScaler(0), Tensorize((-1,)))
    assert_same(clone(steps).fit_transform(put(X)), clone(steps).fit_transform(X), put(X), 1e-9)
    recipe = Recipe(by_group=True, mask="varying", crop="varying", resize=(3, 3), scale="mode 1", tensorize=(-1,))
    expected, changed = (recipe.inner().fit_transform(recipe.scaled_by_group(each, GROUPS)) for each in (X, put(X)))
    assert_same(changed, expected, put(X), 1e-9)


def test_groups_and_masks_of_the_library(put):
    codes = np.unique(GROUPS, return_inverse=True)[1]
    scaler = TensorScaler(by_group=True)
    changed = scaler.fit_transform(put(X), groups=put(codes))
    assert_same(changed, scaler.fit_transform(X, groups=codes), put(X), 1e-9)
    assert_same(Mask(put(BRAIN)).fit_transform(put(X)), Mask(BRAIN).fit_transform(X), put(X), 1e-9)


def test_samples_that_no_transformer_can_use(put):
    scaler = TensorScaler().fit(X)
    refusals = [
        (X[:, 0, 0, 0], r"X must have the shape \(n_samples, I_1, ...\), none of them 0; got \(30,\)"),
        (X[:0], r"none of them 0; got \(0, 6, 5, 4\)"),
        (X + 1j, "X must hold real numbers of a type that NumPy has; got .*complex128. Cast it"),
        (np.where(X[3, 2, 2, 1] == X, np.nan, X), "Input X contains NaN or infinity"),
        (np.where(X[3, 2, 2, 1] == X, -np.inf, X), "Input X contains NaN or infinity"),
    ]
    for array, words in refusals:
        with pytest.raises(ValueError, match=words):
            TensorScaler().fit(put(array))
        with pytest.raises(ValueError, match=words):
            scaler.transform(put(array))
    with pytest.raises(ValueError, match=r"samples must have the shape seen in fit, \(6, 5, 4\); got \(6, 5\)"):
        scaler.transform(put(X[..., 0]))
    with pytest.raises(ValueError, match="X has 2 features, but TensorScaler is expecting 3 features"):
        TensorScaler().fit(put(X[:, :3, 0, 0])).transform(put(X[:, :2, 0, 0]))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        TensorScaler(by_group=True).fit(put(X), groups=GROUPS[1:])
    huge = np.full((4, 3), 3e38, np.float32)  # finite entries whose sum is not
    assert to_host(TensorScaler().fit_transform(put(huge))).dtype == np.float32


@pytest.mark.torch
def test_torch_types_that_numpy_lacks_are_refused():
    torch, _ = library("torch")
    with pytest.raises(ValueError, match=r"got torch.bfloat16. Cast it, e.g. to float32"):
        TensorScaler().fit(torch.ones((3, 3), dtype=torch.bfloat16))


@pytest.mark.torch
def test_no_gradient_is_kept():
    torch, _ = library("torch")
    given = torch.tensor(X, requires_grad=True)
    scaler = TensorScaler().fit(given)
    assert not scaler.mean_.requires_grad
    assert not scaler.transform(given).requires_grad
    assert_same(deepcopy(scaler).mean_, X.mean(axis=0), given, 1e-9)


def test_many_parts_give_what_one_gives(put, monkeypatch):
    expected = {name: clone(one).fit_transform(X, groups=GROUPS) for name, one in TRANSFORMERS.items()}
    monkeypatch.setattr("tensormargin.runtime.tuning.PASS_ENTRIES", 4 * X[0].size)
    monkeypatch.setattr("tensormargin.runtime.tuning.PASS_SAMPLES", 1)
    for name, one in TRANSFORMERS.items():
        for given in (X, put(X)):
            assert_same(clone(one).fit_transform(given, groups=GROUPS), expected[name], given, 1e-9)
