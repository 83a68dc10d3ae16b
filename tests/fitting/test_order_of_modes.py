"""Tests that fits do not depend on the order of the modes, where the set of weights does not."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from conftest import low_rank_classes
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline

from tensormargin import TensorMarginClassifier, TensorMarginClassifierCV
from tensormargin.fitting import native
from tensormargin.runtime import tuning
from tensormargin.transformers import MoveMode


@pytest.mark.parametrize("mu", [0.0, 1.0])
@pytest.mark.parametrize(("name", "rank"), [("cp", 1), ("tt", 1), ("tucker", 1), ("tucker", 2)])
def test_the_order_of_the_modes_does_not_matter(name, rank, mu):
    rng = np.random.default_rng(0)
    for seed in range(4):
        X, y = low_rank_classes(seed, 30, (4, 5, 3, 4), 1.0)
        order = rng.permutation(4)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            fits = [
                TensorMarginClassifier(name, rank, lam=10.0, mu1=mu, mu2=mu).fit(one, y)
                for one in (X, X.transpose(0, *(order + 1)))
            ]
        assert fits[1].objective_[0] == pytest.approx(fits[0].objective_[0], rel=1e-6)
        np.testing.assert_allclose(fits[1].coef_[0], fits[0].coef_[0].transpose(order), atol=1e-4)


def test_rank_one_is_the_same_in_all_formats():
    X, y = low_rank_classes(0, 30, (4, 5, 3), 1.0)
    cp, tt = (TensorMarginClassifier(name, 1).fit(X, y) for name in ("cp", "tt"))
    np.testing.assert_allclose(tt.coef_, cp.coef_, rtol=1e-6, atol=1e-9)
    zero = TensorMarginClassifier("tt", 1).fit(np.zeros_like(X), y)  # a weight without a direction
    assert not zero.coef_.any()


def without_compiled_code(monkeypatch):
    monkeypatch.setattr(native, "has_native", lambda _: False)


def by_passes(monkeypatch):
    monkeypatch.setattr(tuning, "SMALL_SAMPLES", 0)
    monkeypatch.setattr(tuning, "SAMPLES_PER_PARAMETER", 0)
    monkeypatch.setattr(tuning, "FAST_SWEEPS", 1000)


WAYS = {"steps": lambda _: None, "steps without compiled code": without_compiled_code, "passes": by_passes}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("shape", "rank"), [((4, 5, 3), 2), ((4, 5, 4), 2), ((4, 3, 4), (2, 3)), ((3, 2, 2, 3), 2)])
def test_a_reversed_tensor_train_is_the_same_weight(way, shape, rank, monkeypatch):
    WAYS[way](monkeypatch)
    X, y = low_rank_classes(4, 30, shape, 1.0)
    one = TensorMarginClassifier("tt", rank, lam=10.0, mu1=0.0, mu2=0.0, warm_start=True)
    other = clone(one).set_params(rank=rank[::-1] if isinstance(rank, tuple) else rank)
    for lam in (10.0, 3.0):  # the second fit goes on from the first
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            one.set_params(lam=lam).fit(X, y)
            other.set_params(lam=lam).fit(X.transpose(0, *range(len(shape), 0, -1)), y)
        assert other.objective_[0] == pytest.approx(one.objective_[0], rel=1e-7)
        np.testing.assert_allclose(other.coef_[0].T, one.coef_[0], atol=1e-5 * np.abs(one.coef_).max())


@pytest.mark.parametrize("mu", [0.0, 1.0])
@pytest.mark.parametrize(("shape", "rank"), [((4, 5, 3), 2), ((4, 4, 4), 3), ((3, 4, 5), 4), ((3, 2, 4, 3), 2)])
def test_permuted_modes_give_the_permuted_sum_of_rank_one_tensors(shape, rank, mu):
    X, y = low_rank_classes(4, 30, shape, 1.0)
    order = np.random.RandomState(rank).permutation(len(shape))
    one = TensorMarginClassifier("cp", rank, lam=10.0, mu1=mu, mu2=mu, warm_start=True, random_state=0)
    other = clone(one)
    for lam in (10.0, 3.0):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            one.set_params(lam=lam).fit(X, y)
            other.set_params(lam=lam).fit(X.transpose(0, *(order + 1)), y)
        assert other.objective_[0] == pytest.approx(one.objective_[0], rel=1e-6)
        np.testing.assert_allclose(other.coef_[0], one.coef_[0].transpose(order), atol=1e-3 * np.abs(one.coef_).max())


def test_a_search_chooses_between_orders_of_the_modes():
    rng = np.random.RandomState(0)
    y = np.arange(60) % 2
    means = np.einsum("a,bc->bac", rng.standard_normal(4), rng.standard_normal((5, 6)))  # one of its ends is mode 1
    X = 0.2 * y[:, None, None, None] * means + rng.standard_normal((60, 5, 4, 6))
    orders = [None, MoveMode(0), make_pipeline(MoveMode(0), MoveMode(1))]  # with mode 1, 2 and 0 in the middle
    search = TensorMarginClassifierCV(
        decompositions=("tt",), ranks=((1, 4),), lams=(1.0,), preparation=orders, cv=3, random_state=0
    ).fit(X, y)
    assert len(set(search.cv_results_["param_preparation"])) == 3
    assert search.best_estimator_.score(X, y) > 0.9
    moved = TensorMarginClassifierCV(
        decompositions=("tt",), ranks=((1, 4),), lams=(1.0,), preparation=[MoveMode(0)], cv=3, random_state=0
    ).fit(X, y)
    alone = clone(moved.classifier_).fit(np.moveaxis(X, 1, -1), y)
    np.testing.assert_allclose(moved.coef_[0], np.moveaxis(alone.coef_[0], -1, 0), atol=1e-6)
