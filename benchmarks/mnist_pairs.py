"""Mean accuracy over the 45 pairs of MNIST digits: 1,000 training images per class, one lambda for all.

``TENSORMARGIN_DATA=... python benchmarks/mnist_pairs.py [--lam 100] [--methods STM STuM]``
"""

from __future__ import annotations

import argparse
import time
from itertools import combinations

import numpy as np

from tensormargin import METHODS, make_method
from tensormargin.datasets import fetch_mnist

IMAGES_A_CLASS = 1000


def pairwise_accuracies(method: str, lam: float) -> list[float]:
    shape = (7, 4, 7, 4) if "Tu" in method else (28, 28)
    train, test_set = fetch_mnist("train"), fetch_mnist("test")
    X, X_test = train.data.reshape(-1, *shape), test_set.data.reshape(-1, *shape)
    y, y_test = train.target, test_set.target
    first = {digit: np.flatnonzero(y == digit)[:IMAGES_A_CLASS] for digit in range(10)}
    accuracies = []
    for pair in combinations(range(10), 2):
        rows = np.concatenate([first[digit] for digit in pair])
        test = np.isin(y_test, pair)
        clf = make_method(method, lam=lam, scale_free=False).fit(X[rows] / np.float32(255), y[rows])
        accuracies.append(clf.score(X_test[test] / np.float32(255), y_test[test]))
    return accuracies


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lam", type=float, default=100.0)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    arguments = parser.parse_args()
    for method in arguments.methods:
        began = time.perf_counter()
        accuracies = pairwise_accuracies(method, arguments.lam)
        seconds = time.perf_counter() - began
        print(f"{method:>10}  {100 * np.mean(accuracies):.2f} %  ({seconds:.0f} s for 45 pairs)", flush=True)


if __name__ == "__main__":
    main()
