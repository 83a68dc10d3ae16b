"""Tests of accuracy on real data, and on synthetic data with a low-rank class difference."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import low_rank_classes

from tensormargin import TensorMarginClassifier, make_method

LAM = 100.0
PAIRS = ((3, 8), (4, 9), (0, 1), (5, 6))


@pytest.fixture(scope="module", params=[0, 1])
def volumes(request):
    return low_rank_classes(request.param, 700, (30, 30, 30), 6.0)


@pytest.mark.parametrize(("decomposition", "rank"), [("cp", 2), ("tucker", (2, 2, 2))])
def test_few_noisy_volumes_with_a_rank_two_difference(decomposition, rank, volumes):
    X, y = volumes
    clf = TensorMarginClassifier(decomposition, rank).fit(X[:200], y[:200])
    assert clf.score(X[200:], y[200:]) >= 0.99


# Measured accuracy on these four pairs (97.45, 97.34, 96.36, 97.30, 96.40, 97.05, 97.30) minus a quarter of a point.
FLOORS = {
    "SVM": 0.972,
    "LMDM": 0.9709,
    "STM": 0.9611,
    "STuM": 0.9705,
    "SPMD-LRT": 0.9615,
    "HSPMD-LRT": 0.968,
    "TuSPMD-LRT": 0.9705,
}


@pytest.mark.parametrize("method", FLOORS)
def test_mnist_pairs(method, mnist):
    """Check a few pairs of benchmarks/mnist_pairs.py, with 1,000 training images per class and one lambda for all."""
    tucker = method in ("STuM", "TuSPMD-LRT")
    shape = (7, 4, 7, 4) if tucker else (28, 28)
    scores = []
    for pair in PAIRS:
        rows = np.concatenate([np.flatnonzero(mnist["y"] == digit)[:1000] for digit in pair])
        test = np.isin(mnist["y_test"], pair)
        clf = make_method(method, lam=LAM, scale_free=False)
        clf.fit(mnist["X"][rows].reshape(-1, *shape) / np.float32(255), mnist["y"][rows])
        scores.append(clf.score(mnist["X_test"][test].reshape(-1, *shape) / np.float32(255), mnist["y_test"][test]))
    assert np.mean(scores) >= FLOORS[method]
