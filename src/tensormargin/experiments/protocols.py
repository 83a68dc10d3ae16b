"""How the methods are evaluated, table by table: data, splits, forms of the weight, values to choose from.

A protocol is a list of evaluations, one for each data set. To add a data set, write a split function (or take one that
is here) and add an `Evaluation` to a table of `PROTOCOLS`.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import GroupKFold, LeaveOneGroupOut, LeaveOneOut, StratifiedKFold, StratifiedShuffleSplit
from sklearn.utils import Bunch

from .. import datasets
from .._typing import Array

Pair = tuple[Any, Any]


@dataclass(frozen=True)
class Where:
    """One division of a data set into training and test part."""

    size: int
    repeat: int
    fold: int
    seed: int


Split = Callable[[Bunch, Where], tuple[Array, Array]]
"""Takes a data set and a `Where`, returns the rows to train on and the rows to test on."""


@dataclass(frozen=True)
class Grid:
    """Values that every method chooses from.

    Attributes
    ----------
    lams : tuple of float
        Ascending, so that each fit can start from the one before.
    mus : tuple of float
        Values of mu1 = mu2 for methods with margin terms; the paper has 1.
    more_mus : tuple of float
        Values of mu1 = mu2 to choose from, beside those of ``mus``, where mu is chosen too.
    relative : bool
        Whether they count in units of one over the mean squared norm of the centred samples; otherwise they are the
        paper's lambda and mu, on the data as they come.
    """

    lams: tuple[float, ...] = (10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0)
    mus: tuple[float, ...] = (1.0,)
    more_mus: tuple[float, ...] = (0.1, 10.0)
    relative: bool = False


@dataclass(frozen=True)
class Evaluation:
    """How the methods are evaluated on one data set.

    Attributes
    ----------
    data : str
        Name in the rows.
    load : callable
        Returns the data set. Called once in every worker, so it has to be picklable.
    split : callable
        See `Split`.
    sizes : tuple of int
        Training sizes, in the unit that ``size_unit`` names.
    repeats, folds : int
        Random repetitions, and parts of each that are tested in turn.
    divisor : float
        The samples are divided by it.
    tucker_shape : tuple of int, optional
        Shape that the samples are given for Tucker weights, if it differs from their own.
    tucker_rank : tuple of int, optional
    validation : {"holdout", "folds", "groups"}
        How lambda is chosen inside the training part: on a fifth (a quarter where there are few) of it, by five-fold
        cross-validation, or by cross-validation over three parts that keep groups together.
    tuning_pairs : int
        Pairs of classes on which it is chosen; the same lambda serves all pairs of the division.
    interval_over : {"classes", "splits"}
        What the confidence intervals treat as drawn at random.
    pairs : int, optional
        How many pairs of classes to evaluate, evenly spread; all by default.
    """

    data: str
    load: Callable[[], Bunch]
    split: Split
    sizes: tuple[int, ...]
    repeats: int
    folds: int = 1
    size_unit: str = "training samples"
    divisor: float = 1.0
    tucker_shape: tuple[int, ...] | None = None
    tucker_rank: tuple[int, ...] | None = None
    grid: Grid = field(default_factory=Grid)
    validation: str = "holdout"
    tuning_pairs: int = 15
    interval_over: str = "classes"
    pairs: int | None = None

    def class_pairs(self, target: Array) -> list[Pair]:
        """Return the pairs of classes that are told apart, one binary problem each."""
        return spread(list(combinations(np.unique(target).tolist(), 2)), self.pairs)

    def with_more_mus(self) -> Evaluation:
        """Return the same evaluation with the values of mu that are left to try where mu is chosen too."""
        return replace(self, grid=replace(self.grid, mus=self.grid.more_mus))

    def tuning(self, pairs: Sequence[Pair]) -> list[Pair]:
        """Return the pairs on which lambda is chosen."""
        return spread(pairs, self.tuning_pairs)


def spread(items: Sequence[Any], count: int | None) -> list[Any]:
    """Return ``count`` of the items, evenly spread over them; all where there are no more."""
    if count is None or count >= len(items):
        return list(items)
    return [items[position] for position in np.linspace(0, len(items) - 1, count).round().astype(int)]


def seed_of(*parts: Any) -> int:
    """Return a seed that depends on all parts and on nothing else, the same on every machine."""
    return zlib.crc32(repr(parts).encode())


def inner_splits(validation: str, target: Array, groups: Array | None, seed: int) -> list[tuple[Array, Array]]:
    """Return the (training, validation) rows by which lambda is chosen inside a training part."""
    rows = np.zeros(len(target))
    smallest = int(np.unique(target, return_counts=True)[1].min())
    splitter: Any
    if validation == "groups" and groups is not None:
        splitter = GroupKFold(min(3, len(np.unique(groups))))
        return list(splitter.split(rows, target, groups))
    if validation == "folds":
        splitter = StratifiedKFold(min(5, smallest), shuffle=True, random_state=seed)
    else:
        splitter = StratifiedShuffleSplit(1, test_size=0.2 if smallest >= 20 else 0.25, random_state=seed)
    return list(splitter.split(rows, target))


# ---------------------------------------------------------------------------------------------------------- splits


def balanced_subset(bunch: Bunch, where: Where) -> tuple[Array, Array]:
    """Train on equally many images of each class, drawn from the training images; test on all test images.

    The largest size, the number of training images, takes all of them, as the paper does.
    """
    training = np.arange(bunch.n_train)
    test = np.arange(bunch.n_train, len(bunch.target))
    if where.size >= len(training):
        return training, test
    rng = np.random.RandomState(seed_of(where.seed, "subset", where.size, where.repeat))
    labels = bunch.target[training]
    classes = np.unique(labels)
    each = where.size // len(classes)
    chosen = [rng.choice(np.flatnonzero(labels == label), each, replace=False) for label in classes]
    return np.sort(np.concatenate(chosen)), test


def hold_out_two(bunch: Bunch, where: Where) -> tuple[Array, Array]:
    """Test on two random images of each person, train on the others."""
    rng = np.random.RandomState(seed_of(where.seed, "faces", where.repeat))
    people = np.unique(bunch.target)
    test = np.concatenate([rng.choice(np.flatnonzero(bunch.target == person), 2, replace=False) for person in people])
    return np.setdiff1d(np.arange(len(bunch.target)), test), np.sort(test)


def stratified_fold(bunch: Bunch, where: Where, n_splits: int = 5) -> tuple[Array, Array]:
    """Test on one of several stratified parts, which every repeat cuts anew."""
    seed = seed_of(where.seed, "folds", where.repeat)
    splitter = StratifiedKFold(n_splits, shuffle=True, random_state=seed)
    return list(splitter.split(np.zeros(len(bunch.target)), bunch.target))[where.fold]


def group_out(bunch: Bunch, where: Where) -> tuple[Array, Array]:
    """Test on one group (run, session, subject), train on the others."""
    return list(LeaveOneGroupOut().split(bunch.target, bunch.target, bunch.groups))[where.fold]


def one_out(bunch: Bunch, where: Where) -> tuple[Array, Array]:
    """Test on one sample, train on the others."""
    return list(LeaveOneOut().split(bunch.target))[where.fold]


def published_split(bunch: Bunch, where: Where) -> tuple[Array, Array]:
    """Train and test as the data set's authors say; what they set aside for validation goes to the training part."""
    training, test = np.flatnonzero(bunch.split != "test"), np.flatnonzero(bunch.split == "test")
    if where.size >= len(training):
        return training, test
    rng = np.random.RandomState(seed_of(where.seed, "subset", where.size, where.repeat))
    return np.sort(rng.choice(training, where.size, replace=False)), test


def places_apart(bunch: Bunch, where: Where, patch: int = 5) -> tuple[Array, Array]:
    """Train on a few patches a class from some squares of the scene; test on others that share no pixel with them.

    For each class squares are drawn until they hold at least twice the patches that are needed; the rest of the class,
    less what overlaps a training patch, is the test part.
    """
    rng = np.random.RandomState(seed_of(where.seed, "places", where.size, where.repeat))
    training, rest = [], []
    for label in np.unique(bunch.target):
        own = np.flatnonzero(bunch.target == label)
        squares = rng.permutation(np.unique(bunch.groups[own]))
        held = np.cumsum([np.sum(bunch.groups[own] == square) for square in squares])
        enough = min(int(np.searchsorted(held, 2 * where.size)) + 1, len(squares) - 1)
        inside = np.isin(bunch.groups[own], squares[:enough])
        training.append(rng.choice(own[inside], min(where.size, int(inside.sum())), replace=False))
        rest.append(own[~inside])
    train, test = np.sort(np.concatenate(training)), np.sort(np.concatenate(rest))
    apart = np.abs(bunch.positions[test, None] - bunch.positions[None, train]).max(axis=2).min(axis=1)
    return train, test[apart >= patch]


# ------------------------------------------------------------------------------------------------------- the tables

_OPEN_GRID = Grid(more_mus=(10.0, 100.0), relative=True)
_PINES_CLASSES = (2, 3, 5, 6, 8, 10, 11, 12, 14)  # those with more than 400 labelled pixels


def _table2() -> list[Evaluation]:
    return [
        Evaluation(
            data="MNIST",
            load=datasets.fetch_mnist,
            split=balanced_subset,
            sizes=(10_000, 20_000, 30_000, 60_000),
            repeats=5,
            size_unit="training images",
            divisor=255.0,
            tucker_shape=(7, 4, 7, 4),
            tucker_rank=(4, 4, 4, 4),
        )
    ]


def _orl(size: int, tucker_shape: tuple[int, ...]) -> list[Evaluation]:
    return [
        Evaluation(
            data=f"ORL {size}x{size}",
            load=partial(datasets.fetch_orl, size),
            split=hold_out_two,
            sizes=(320,),
            repeats=5,
            size_unit="training images",
            tucker_shape=tucker_shape,
            tucker_rank=(4, 4, 4, 4),
            tuning_pairs=60,
        )
    ]


def _table6(adni: str | Path | None = None, adhd: str | Path | None = None) -> list[Evaluation]:
    if adni is None and adhd is None:
        raise ValueError(
            "table6 needs the ADNI or ADHD-200 arrays of He et al., which may not be redistributed: pass --adni FILE "
            "or --adhd FILE (.mat or .npz), or run the open counterpart, `tensormargin reproduce open`"
        )
    common: dict[str, Any] = {
        "tucker_rank": (4, 4, 4),
        "grid": _OPEN_GRID,
        "validation": "folds",
        "interval_over": "splits",
        "repeats": 1,
    }
    evaluations = []
    if adni is not None:
        n = len(datasets.load_adni(adni).target)
        load = partial(datasets.load_adni, Path(adni))
        evaluations.append(Evaluation("ADNI", load, one_out, sizes=(n - 1,), folds=n, **common))
    if adhd is not None:
        n = len(datasets.load_adhd(adhd).target)
        load = partial(datasets.load_adhd, Path(adhd))
        evaluations.append(Evaluation("ADHD-200", load, stratified_fold, sizes=(n * 4 // 5,), folds=5, **common))
    return evaluations


def _open() -> list[Evaluation]:
    return [
        Evaluation(
            data="Haxby slice",
            load=datasets.load_haxby_slice,
            split=group_out,
            sizes=(792,),
            repeats=1,
            folds=12,
            tucker_rank=(4, 4),
            grid=_OPEN_GRID,
            validation="groups",
            tuning_pairs=7,
            interval_over="splits",
        ),
        Evaluation(
            data="EEG",
            load=datasets.load_eeg,
            split=stratified_fold,
            sizes=(49,),
            repeats=10,
            folds=5,
            tucker_rank=(4, 4),
            grid=_OPEN_GRID,
            validation="folds",
            interval_over="splits",
        ),
        Evaluation(
            data="Indian Pines",
            load=partial(datasets.load_indian_pines, 5, _PINES_CLASSES),
            split=places_apart,
            sizes=(10, 30),
            repeats=10,
            size_unit="training patches a class",
            tucker_rank=(4, 4, 4),
            grid=_OPEN_GRID,
            validation="folds",
            tuning_pairs=9,
        ),
        Evaluation(
            data="AdrenalMNIST3D, own split",
            load=datasets.load_adrenal,
            split=published_split,
            sizes=(1286,),
            repeats=1,
            divisor=255.0,
            tucker_rank=(4, 4, 4),
            grid=_OPEN_GRID,
            interval_over="splits",
        ),
        Evaluation(
            data="AdrenalMNIST3D, 5-fold",
            load=datasets.load_adrenal,
            split=stratified_fold,
            sizes=(1267,),
            repeats=1,
            folds=5,
            divisor=255.0,
            tucker_rank=(4, 4, 4),
            grid=_OPEN_GRID,
            interval_over="splits",
        ),
    ]


PROTOCOLS: Mapping[str, Callable[..., list[Evaluation]]] = {
    "table2": _table2,
    "table4": partial(_orl, 32, (8, 4, 8, 4)),
    "table5": partial(_orl, 64, (8, 8, 8, 8)),
    "table6": _table6,
    "open": _open,
}
"""The evaluations of each table; that of table6 takes the paths of the files that a user brings."""

_QUICK_SIZES = {"MNIST": (1000,), "Indian Pines": (10,), "AdrenalMNIST3D, own split": (200,)}


def quick(evaluations: Sequence[Evaluation]) -> list[Evaluation]:
    """Return the same evaluations cut down to a minute or so: few pairs, one repeat, few folds, three values of lambda.

    The five folds of AdrenalMNIST3D are left out: its own split goes the same way.
    """
    return [
        replace(
            evaluation,
            sizes=_QUICK_SIZES.get(evaluation.data, evaluation.sizes),
            repeats=1,
            folds=min(evaluation.folds, 2),
            pairs=6,
            tuning_pairs=3,
            grid=replace(evaluation.grid, lams=evaluation.grid.lams[::2], more_mus=evaluation.grid.more_mus[:1]),
        )
        for evaluation in evaluations
        if evaluation.data != "AdrenalMNIST3D, 5-fold"
    ]
