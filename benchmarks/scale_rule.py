"""Accuracy on real data over a grid of lam and mu, to find the multiple of 1/s2 that ``lam=1`` should stand for.

Run ``TENSORMARGIN_DATA=... python benchmarks/scale_rule.py``. It prints one table per data set and weight, and the mean
loss compared with the best setting of each table.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import product

import numpy as np
from sklearn.model_selection import LeaveOneGroupOut, RepeatedStratifiedKFold, StratifiedShuffleSplit

from tensormargin import TensorMarginClassifier, datasets
from tensormargin.estimators import SCALE_LAM, SCALE_MU

LAMBDAS = (10.0, 100.0, 300.0, 1e3, 3e3, 1e4)
MUS = (0.0, 10.0, 30.0, 100.0, 300.0)
WEIGHTS = (("full", None), ("cp", 1), ("cp", 2), ("tucker", None))

Split = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def digits() -> Iterator[Split]:
    bunch = datasets.load_digits_tensor()
    yield from cut(bunch.data, bunch.target, StratifiedShuffleSplit(5, train_size=200, random_state=0))


def mnist() -> Iterator[Split]:
    train, test = datasets.fetch_mnist("train"), datasets.fetch_mnist("test")
    for pair in ((3, 8), (4, 9), (5, 8), (2, 7)):
        rows = np.concatenate([np.flatnonzero(train.target == digit)[:1000] for digit in pair])
        tested = np.isin(test.target, pair)
        yield (
            train.data[rows].astype(np.float32),
            train.target[rows],
            test.data[tested].astype(np.float32),
            test.target[tested],
        )


def orl() -> Iterator[Split]:
    faces = datasets.fetch_orl(32)
    rng = np.random.RandomState(0)
    for a, b in [tuple(rng.choice(40, 2, replace=False) + 1) for _ in range(40)]:
        rows = np.isin(faces.target, (a, b))
        yield from cut(faces.data[rows], faces.target[rows], StratifiedShuffleSplit(1, test_size=0.2, random_state=a))


def haxby() -> Iterator[Split]:
    for pair in (("bottle", "shoe"), ("cat", "scissors")):
        bunch = datasets.load_haxby_slice(categories=pair)
        yield from cut(bunch.data, bunch.target, LeaveOneGroupOut(), bunch.groups)


def eeg() -> Iterator[Split]:
    bunch = datasets.load_eeg()
    yield from cut(bunch.data, bunch.target, RepeatedStratifiedKFold(n_splits=5, n_repeats=4, random_state=0))


def basic_motions() -> Iterator[Split]:
    bunch = datasets.load_basic_motions()
    yield from cut(bunch.data, bunch.target, StratifiedShuffleSplit(10, train_size=24, random_state=0))


def indian_pines() -> Iterator[Split]:
    for pair in ((10, 11), (2, 3)):
        bunch = datasets.load_indian_pines(5, pair)
        splitter = StratifiedShuffleSplit(5, train_size=60, random_state=0)
        yield from cut(bunch.data.astype(np.float32), bunch.target, splitter)


def adrenal() -> Iterator[Split]:
    bunch = datasets.load_adrenal(28)
    images, training = bunch.data.astype(np.float32), bunch.split == "train"
    yield images[training], bunch.target[training], images[~training], bunch.target[~training]


def cut(X, y, splitter, groups=None) -> Iterator[Split]:
    for train, test in splitter.split(X, y, groups):
        yield X[train], y[train], X[test], y[test]


SETS = (eeg, basic_motions, indian_pines, haxby, orl, digits, mnist, adrenal)


def measure(splits: list[Split], decomposition: str, rank: int | None) -> np.ndarray:
    table = np.zeros((len(LAMBDAS), len(MUS)))
    for (i, lam), (j, mu) in product(enumerate(LAMBDAS), enumerate(MUS)):
        clf = TensorMarginClassifier(decomposition, rank, lam=lam / SCALE_LAM, mu1=mu / SCALE_MU, mu2=mu / SCALE_MU)
        table[i, j] = 100 * np.mean([clf.fit(X, y).score(Z, t) for X, y, Z, t in splits])
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    names = [load.__name__ for load in SETS]
    parser.add_argument("--sets", nargs="+", choices=names, default=names, help="data sets (default: all)")
    chosen = parser.parse_args().sets
    losses = []
    for load in SETS:
        if load.__name__ not in chosen:
            continue
        splits = list(load())
        for decomposition, rank in WEIGHTS:
            table = measure(splits, decomposition, rank)
            losses.append(table.max() - table)
            print(f"\n{load.__name__}, {decomposition} {rank or ''}: rows lam {LAMBDAS}, columns mu {MUS}")
            print(np.array2string(table, precision=1, suppress_small=True), flush=True)
    print("\nmean loss against the best setting of each row of tables")
    print(np.array2string(np.mean(losses, axis=0), precision=2))
    print("largest loss")
    print(np.array2string(np.max(losses, axis=0), precision=2))


if __name__ == "__main__":
    main()
