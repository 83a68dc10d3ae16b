"""Tests that fits do not depend on the order of the modes, where the set of weights does not."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from conftest import low_rank_classes
from sklearn.exceptions import ConvergenceWarning

from tensormargin import TensorMarginClassifier


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
