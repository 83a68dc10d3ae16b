"""Which multiples of 1/s2 should ``lam="scale"`` stand for? Accuracy on real data over a grid of lam and mu.

Run with the data sets at hand: ``TENSORMARGIN_DATA=... python benchmarks/scale_rule.py``; prints one table a data set
and the mean loss against each set's best setting.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import product

import numpy as np
from mnist import data_folder, read_mnist
from scipy.signal import detrend
from sklearn.datasets import load_digits
from sklearn.model_selection import (
    LeaveOneGroupOut,
    RepeatedStratifiedKFold,
    StratifiedShuffleSplit,
)

from tensormargin import TensorMarginClassifier
from tensormargin.estimators._scale import SCALE_LAM, SCALE_MU

LAMBDAS = (10.0, 100.0, 300.0, 1e3, 3e3, 1e4)
MUS = (0.0, 10.0, 30.0, 100.0, 300.0)
WEIGHTS = (("full", None), ("cp", 1), ("cp", 2), ("tucker", None))

Split = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def digits() -> Iterator[Split]:
    images, labels = load_digits(return_X_y=True)
    yield from cut(images.reshape(-1, 8, 8), labels, StratifiedShuffleSplit(5, train_size=200, random_state=0))


def mnist() -> Iterator[Split]:
    images, labels = read_mnist("train")
    test_images, test_labels = read_mnist("t10k")
    for pair in ((3, 8), (4, 9), (5, 8), (2, 7)):
        rows = np.concatenate([np.flatnonzero(labels == digit)[:1000] for digit in pair])
        test = np.isin(test_labels, pair)
        yield images[rows].astype(np.float32), labels[rows], test_images[test].astype(np.float32), test_labels[test]


def orl() -> Iterator[Split]:
    stored = np.load(data_folder() / "orl_faces" / "orl_faces_112x92.npz")
    images = stored["X"][:, 8:104, 14:78].reshape(400, 32, 3, 32, 2).mean(axis=(2, 4))
    people = stored["y"]
    rng = np.random.RandomState(0)
    for a, b in [tuple(rng.choice(40, 2, replace=False) + 1) for _ in range(40)]:
        rows = np.isin(people, (a, b))
        yield from cut(images[rows], people[rows], StratifiedShuffleSplit(1, test_size=0.2, random_state=a))


def haxby() -> Iterator[Split]:
    stored = np.load(data_folder() / "haxby_slice" / "haxby2001_sub001_slice_40x20.npz")
    images, labels, runs = stored["X"].astype(np.float64), stored["y"], stored["run"]
    for run in np.unique(runs):
        part = detrend(images[runs == run], axis=0)
        spread = part.std(axis=0)
        images[runs == run] = part / np.where(spread > 0, spread, 1)
    for pair in (("bottle", "shoe"), ("cat", "scissors")):
        rows = np.isin(labels, pair)
        yield from cut(images[rows], labels[rows], LeaveOneGroupOut(), runs[rows])


def eeg() -> Iterator[Split]:
    stored = np.load(data_folder() / "eeg_alcoholism" / "eeg_alcoholism_61x64x64.npz")
    yield from cut(stored["X"], stored["y"], RepeatedStratifiedKFold(n_splits=5, n_repeats=4, random_state=0))


def basic_motions() -> Iterator[Split]:
    stored = np.load(data_folder() / "basic_motions" / "basic_motions_6x100.npz")
    keys = list(stored)
    images = np.concatenate([stored[key] for key in keys if stored[key].ndim == 3])
    labels = np.concatenate([stored[key] for key in keys if stored[key].ndim == 1])
    yield from cut(images, labels, StratifiedShuffleSplit(10, train_size=24, random_state=0))


def indian_pines() -> Iterator[Split]:
    stored = np.load(data_folder() / "indian_pines" / "indian_pines_145x145x200.npz")
    cube, truth = (stored[key] for key in sorted(stored, key=lambda key: -stored[key].ndim))
    padded = np.pad(cube.astype(np.float32), ((2, 2), (2, 2), (0, 0)), mode="reflect")
    for pair in ((10, 11), (2, 3)):
        where = np.argwhere(np.isin(truth, pair))
        patches = np.stack([padded[i : i + 5, j : j + 5] for i, j in where])
        labels = truth[tuple(where.T)]
        yield from cut(patches, labels, StratifiedShuffleSplit(5, train_size=60, random_state=0))


def adrenal() -> Iterator[Split]:
    stored = np.load(data_folder() / "adrenalmnist3d" / "adrenalmnist3d.npz")
    yield (
        stored["train_images"].astype(np.float32),
        stored["train_labels"][:, 0],
        np.concatenate([stored["val_images"], stored["test_images"]]).astype(np.float32),
        np.concatenate([stored["val_labels"], stored["test_labels"]])[:, 0],
    )


def cut(X, y, splitter, groups=None) -> Iterator[Split]:
    for train, test in splitter.split(X, y, groups):
        yield X[train], y[train], X[test], y[test]


SETS = (eeg, basic_motions, indian_pines, haxby, orl, digits, mnist, adrenal)


def measure(splits: list[Split], decomposition: str, rank: int | None) -> np.ndarray:
    table = np.zeros((len(LAMBDAS), len(MUS)))
    for (i, lam), (j, mu) in product(enumerate(LAMBDAS), enumerate(MUS)):
        clf = TensorMarginClassifier(
            decomposition, rank, lam=f"{lam / SCALE_LAM}*scale", mu1=mu / SCALE_MU, mu2=mu / SCALE_MU
        )
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
