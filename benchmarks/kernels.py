"""Kernel LMDM on MNIST: accuracy over pairs of digits, and the time of 60,000 images with 2,000 landmarks.

``TENSORMARGIN_DATA=... python -m benchmarks.kernels [--pairs 45] [--large]``

Pairs: 1,000 random training images per class and all test images, RBF kernel with gamma 0.02; SVC has C = 10, which is
lambda = 10 N of Eq. 7 without margin terms. Large: all 60,000 images and ten classes, one-vs-one; the kernel's features
and the fit together, compared with the flat LMDM on the images, in processor time of the same run.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from tensormargin import TensorKernel, TensorMarginClassifier
from tensormargin.datasets import fetch_mnist

IMAGES_A_CLASS = 1000
GAMMA, C = 0.02, 10.0


def kernel_lmdm(mu: float, n_samples: int) -> Any:
    classifier = TensorMarginClassifier("full", lam=C * n_samples, mu1=mu, mu2=mu, scale_free=False)
    return make_pipeline(TensorKernel("rbf", gamma=GAMMA), classifier)


METHODS: dict[str, Callable[[int], Any]] = {
    "SVC": lambda n: SVC(C=C, gamma=GAMMA),
    "RBF-SVM": lambda n: kernel_lmdm(0.0, n),
    "RBF-LMDM": lambda n: kernel_lmdm(10.0, n),
}


def images(part: str) -> tuple[np.ndarray, np.ndarray]:
    found = fetch_mnist(part)
    return found.data.reshape(len(found.data), -1) / np.float32(255), found.target


def pairs(count: int) -> None:
    (X, y), (X_test, y_test) = images("train"), images("test")
    rng = np.random.default_rng(0)
    drawn = {digit: rng.permutation(np.flatnonzero(y == digit))[:IMAGES_A_CLASS] for digit in range(10)}
    every = list(combinations(range(10), 2))
    chosen = every[:: max(1, len(every) // count)][:count]
    print(f"{len(chosen)} of {len(every)} pairs, {IMAGES_A_CLASS} images per class, gamma {GAMMA}")
    for name, make in METHODS.items():
        began, scores = time.process_time(), []
        for pair in chosen:
            rows, test = np.concatenate([drawn[digit] for digit in pair]), np.isin(y_test, pair)
            scores.append(make(len(rows)).fit(X[rows], y[rows]).score(X_test[test], y_test[test]))
        seconds = (time.process_time() - began) / len(chosen)
        print(f"{name:>10}  {100 * np.mean(scores):.2f} %  ({seconds:.1f} s of processor time per pair)", flush=True)


def large() -> None:
    (X, y), (X_test, y_test) = images("train"), images("test")
    kernel = TensorKernel("rbf", gamma=GAMMA, n_landmarks=2000, n_components=1000, random_state=0)
    models = {
        "flat LMDM": TensorMarginClassifier("full"),
        "RBF-LMDM": make_pipeline(kernel, TensorMarginClassifier("full", lam=10.0)),
    }
    seconds = {}
    for name, model in models.items():
        began = time.process_time()
        model.fit(X, y)
        seconds[name] = time.process_time() - began
        score = model.score(X_test, y_test)
        print(f"{name:>10}  {100 * score:.2f} %  ({seconds[name]:.0f} s of processor time)", flush=True)
    print(f"ratio {seconds['RBF-LMDM'] / seconds['flat LMDM']:.2f}; {kernel.words()}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=45)
    parser.add_argument("--large", action="store_true")
    arguments = parser.parse_args()
    if arguments.large:
        large()
    else:
        pairs(arguments.pairs)


if __name__ == "__main__":
    main()
