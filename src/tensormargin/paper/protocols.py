"""Evaluation protocols of the tables: data, splits, forms of the weight, hyperparameter grids.

A protocol is a list of evaluations, one per data set. To add a data set, take a split function (or write one), which
takes a data set and a `Where` and returns row indices, and add an `Evaluation` to a table of `PROTOCOLS`.
"""

from __future__ import annotations

import pickle
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
from ..estimators import SCALE_MU
from ..runtime import Array

Pair = tuple[Any, Any]


@dataclass(frozen=True)
class Where:
    """Identifies one train-test split of a data set."""

    size: int
    repeat: int
    fold: int
    seed: int


SplitRule = Callable[[Bunch, Where], tuple[Array, Array]]
"""Takes a data set and a `Where`, returns the rows of the training set and of the test set."""


@dataclass(frozen=True)
class Grid:
    """Hyperparameter grid of all methods.

    Attributes
    ----------
    lams : tuple of float
        Values of lambda, ascending, so that each fit can be warm-started from the previous one.
    mus : tuple of float
        Values of mu1 = mu2 for methods with margin terms; 1 in the paper.
    more_mus : tuple of float
        Further values of mu1 = mu2, tried if mu is tuned too.
    relative : bool
        Whether lambda and mu are in units of one over the mean squared norm of the centred samples; otherwise they are
        the paper's, for the original data.

    Examples
    --------
    >>> from tensormargin.paper import Grid
    >>> Grid().lams
    (10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0)
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
        Name of the data set in the rows.
    load : callable
        Returns the data set. Called once in every worker, so it must be picklable.
    split : callable
        See `SplitRule`.
    sizes : tuple of int
        Training sizes, as interpreted by the split function.
    repeats, folds : int
        Number of random repeats, and number of folds in each.
    repeatable : bool
        Whether another repeat would draw another split.
    once : tuple of int
        Sizes without randomness (all training images), which are run in the first repeat only.
    divisor : float
        The samples are divided by it.
    tucker_shape : tuple of int, optional
        Shape to which the samples are reshaped for Tucker weights, if it differs from their own.
    tucker_rank : tuple of int, optional
    validation : {"holdout", "folds", "groups", "places"}
        How lambda is chosen on the training set; see `inner_splits`.
    tuning_pairs : int
        Number of pairs of classes on which lambda is chosen; all pairs of the split share the same lambda.
    interval_over : {"classes", "splits"}
        What the confidence intervals treat as random.
    pairs : int, optional
        Number of pairs of classes to evaluate, evenly spread; all by default.

    Examples
    --------
    >>> from tensormargin.paper import PROTOCOLS
    >>> evaluation = PROTOCOLS["table4"]()[0]
    >>> evaluation.data, evaluation.sizes
    ('ORL 32x32', (320,))
    """

    data: str
    load: Callable[[], Bunch]
    split: SplitRule
    sizes: tuple[int, ...]
    repeats: int
    folds: int = 1
    repeatable: bool = True
    once: tuple[int, ...] = ()
    divisor: float = 1.0
    tucker_shape: tuple[int, ...] | None = None
    tucker_rank: tuple[int, ...] | None = None
    grid: Grid = field(default_factory=Grid)
    validation: str = "holdout"
    tuning_pairs: int = 15
    interval_over: str = "classes"
    pairs: int | None = None

    def sizes_of(self, repeat: int) -> tuple[int, ...]:
        """Return the training sizes of one repeat."""
        return tuple(size for size in self.sizes if repeat == 0 or size not in self.once)

    def class_pairs(self, target: Array) -> list[Pair]:
        """Return the pairs of classes, one per binary problem."""
        return spread(list(combinations(np.unique(target).tolist(), 2)), self.pairs)

    def with_more_mus(self) -> Evaluation:
        """Return the evaluation with the further values of mu that are tried if mu is tuned too."""
        return replace(self, grid=replace(self.grid, mus=self.grid.more_mus))

    def tuning(self, pairs: Sequence[Pair]) -> list[Pair]:
        """Return the pairs on which lambda is chosen."""
        return spread(pairs, self.tuning_pairs)


_LOADED: dict[bytes, Bunch] = {}


def load_once(load: Callable[[], Bunch]) -> Bunch:
    """Return the data set that a function loads, loading it only once per process."""
    key = pickle.dumps(load)  # the function's name with its arguments
    if key not in _LOADED:
        _LOADED[key] = load()
    return _LOADED[key]


def spread(items: Sequence[Any], count: int | None) -> list[Any]:
    """Return ``count`` evenly spread items, or all if there are no more than that."""
    if count is None or count >= len(items):
        return list(items)
    return [items[position] for position in np.linspace(0, len(items) - 1, count).round().astype(int)]


def seed_of(*parts: Any) -> int:
    """Return a seed that depends only on the parts, and is the same on every machine."""
    return zlib.crc32(repr(parts).encode())


def inner_splits(
    validation: str, target: Array, groups: Array | None, positions: Array | None, seed: int
) -> list[tuple[Array, Array]]:
    """Return the (training, validation) rows of the inner splits, used to choose lambda on a training set.

    "holdout" takes a fifth of the rows, or a quarter if a class has fewer than 20; "folds" makes five stratified folds,
    "groups" three folds that keep groups together; "places" is `places_inside`.
    """
    rows = np.zeros(len(target))
    smallest = int(np.unique(target, return_counts=True)[1].min())
    if validation == "places" and groups is not None and positions is not None:
        return places_inside(target, groups, positions, seed)
    if validation == "groups" and groups is not None:
        return list(GroupKFold(min(3, len(np.unique(groups)))).split(rows, target, groups))
    if validation == "folds":
        return list(StratifiedKFold(min(5, smallest), shuffle=True, random_state=seed).split(rows, target))
    if validation == "holdout":
        share = 0.2 if smallest >= 20 else 0.25
        return list(StratifiedShuffleSplit(1, test_size=share, random_state=seed).split(rows, target))
    raise ValueError(  # falling back to another scheme could let training and validation rows overlap unnoticed
        f"validation must be 'holdout', 'folds', 'groups' (needs groups) or 'places' (needs groups and positions); got "
        f"{validation!r} for data with groups: {groups is not None}, positions: {positions is not None}"
    )


def balanced_subset(bunch: Bunch, where: Where) -> tuple[Array, Array]:
    """Train on a random subset of the training images, balanced over the classes; test on all test images.

    A size equal to the number of training images takes all of them, as in the paper.
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
    """Test on one of several stratified folds, reshuffled for every repeat."""
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
    """Use the split published with the data set; its validation samples are added to the training set."""
    training, test = np.flatnonzero(bunch.split != "test"), np.flatnonzero(bunch.split == "test")
    if where.size >= len(training):
        return training, test
    rng = np.random.RandomState(seed_of(where.seed, "subset", where.size, where.repeat))
    return np.sort(rng.choice(training, where.size, replace=False)), test


def places_apart(bunch: Bunch, where: Where, patch: int = 5) -> tuple[Array, Array]:
    """Train on a few patches per class from some squares of the scene; test on others that share no pixel with them.

    For each class, squares are drawn until there are at least three and they hold at least twice the required number of
    patches. The remaining patches of the class form the test set, without those that overlap a training patch.
    """
    rng = np.random.RandomState(seed_of(where.seed, "places", where.size, where.repeat))
    training, rest = [], []
    for label in np.unique(bunch.target):
        own = np.flatnonzero(bunch.target == label)
        squares = rng.permutation(np.unique(bunch.groups[own]))
        held = np.cumsum([np.sum(bunch.groups[own] == square) for square in squares])
        enough = min(max(3, int(np.searchsorted(held, 2 * where.size)) + 1), len(squares) - 1)
        inside = np.isin(bunch.groups[own], squares[:enough])
        training.append(rng.choice(own[inside], min(where.size, int(inside.sum())), replace=False))
        rest.append(own[~inside])
    train, test = np.sort(np.concatenate(training)), np.sort(np.concatenate(rest))
    return train, test[_apart(bunch.positions[test], bunch.positions[train], patch)]


def places_inside(
    target: Array, squares: Array, positions: Array, seed: int, patch: int = 5
) -> list[tuple[Array, Array]]:
    """Return three folds over the squares of each class; training patches that overlap a validation patch are dropped.

    Folds without validation patches, or without a class in training, are dropped too.
    """
    rng = np.random.RandomState(seed)
    fold = np.empty(len(target), int)
    for label in np.unique(target):
        own = np.flatnonzero(target == label)
        places, which = np.unique(squares[own], return_inverse=True)
        fold[own] = rng.permutation(len(places))[which] % 3
    splits = []
    for held_out in range(3):
        validation, rest = np.flatnonzero(fold == held_out), np.flatnonzero(fold != held_out)
        train = rest[_apart(positions[rest], positions[validation], patch)] if len(validation) else rest
        if len(validation) and len(np.unique(target[train])) == len(np.unique(target)):
            splits.append((train, validation))
    return splits


def _apart(these: Array, others: Array, patch: int) -> Array:
    """Return a mask of the pixels whose patches share no pixel with the patches of the others."""
    return np.abs(these[:, None] - others[None]).max(axis=2).min(axis=1) >= patch


_OPEN_GRID = Grid(mus=(SCALE_MU,), more_mus=(1.0, 10.0), relative=True)  # the estimator's mu1 = mu2 = 1
_PINES_CLASSES = (2, 3, 5, 6, 8, 10, 11, 12, 14)  # those with more than 400 labelled pixels


_OF_IMAGES: dict[str, Any] = {"repeats": 5, "tucker_rank": (4, 4, 4, 4)}


def _table2() -> list[Evaluation]:
    sizes, shape = (10_000, 20_000, 30_000, 60_000), (7, 4, 7, 4)
    more: dict[str, Any] = {"once": (60_000,), "divisor": 255.0, "tucker_shape": shape, **_OF_IMAGES}
    return [Evaluation("MNIST", datasets.fetch_mnist, balanced_subset, sizes, **more)]


def _orl(size: int, tucker_shape: tuple[int, ...]) -> list[Evaluation]:
    more: dict[str, Any] = {"tucker_shape": tucker_shape, "tuning_pairs": 60, **_OF_IMAGES}
    return [Evaluation(f"ORL {size}x{size}", partial(datasets.fetch_orl, size), hold_out_two, (320,), **more)]


def _of_tensors(
    data: str, load: Callable[[], Bunch], split: SplitRule, sizes: tuple[int, ...], n_modes: int = 3, **more: Any
) -> Evaluation:
    """Return an evaluation with the scale-free grid, of one repeat with intervals over splits unless it says more."""
    common: dict[str, Any] = {
        "repeats": 1,
        "interval_over": "splits",
        "tucker_rank": (4,) * n_modes,
        "grid": _OPEN_GRID,
    }
    return Evaluation(data, load, split, sizes, **(common | more))


def _table6(adni: str | Path | None = None, adhd: str | Path | None = None) -> list[Evaluation]:
    if adni is None and adhd is None:
        raise ValueError(
            "table6 needs the ADNI or ADHD-200 arrays of He et al., which may not be redistributed: pass --adni FILE "
            "or --adhd FILE (.mat or .npz), or run the open counterpart, `tensormargin reproduce open`"
        )
    evaluations = []
    more: dict[str, Any] = {"validation": "folds"}
    if adni is not None:
        load = partial(datasets.load_adni, Path(adni))
        n = _checked_labels(adni, load_once(load).target, 3)
        evaluations.append(_of_tensors("ADNI", load, one_out, (n - 1,), folds=n, repeatable=False, **more))
    if adhd is not None:
        load = partial(datasets.load_adhd, Path(adhd))
        n = _checked_labels(adhd, load_once(load).target, 5)
        evaluations.append(_of_tensors("ADHD-200", load, stratified_fold, (n * 4 // 5,), folds=5, **more))
    return evaluations


def _checked_labels(path: str | Path, target: Array, fewest: int) -> int:
    """Return the number of samples; raise unless there are two classes with at least ``fewest`` samples each."""
    labels, counts = np.unique(target, return_counts=True)
    if len(labels) != 2 or counts.min() < fewest:
        held = ", ".join(f"{n} of {label}" for label, n in zip(labels.tolist(), counts, strict=True))
        raise ValueError(f"{path}: must hold two classes with at least {fewest} samples each; it holds {held}")
    return len(target)


def _open() -> list[Evaluation]:
    pines = partial(datasets.load_indian_pines, 5, _PINES_CLASSES)  # sizes are training patches per class
    in_runs: dict[str, Any] = {"folds": 12, "repeatable": False, "validation": "groups", "tuning_pairs": 7}
    in_places: dict[str, Any] = {"repeats": 10, "validation": "places", "tuning_pairs": 9, "interval_over": "classes"}
    volumes = partial(_of_tensors, load=datasets.load_adrenal, divisor=255.0)
    return [
        _of_tensors("Haxby slice", datasets.load_haxby_slice, group_out, (792,), 2, **in_runs),
        _of_tensors("EEG", datasets.load_eeg, stratified_fold, (49,), 2, repeats=10, folds=5, validation="folds"),
        _of_tensors("Indian Pines", pines, places_apart, (10, 30), **in_places),
        volumes("AdrenalMNIST3D, own split", split=published_split, sizes=(1286,), repeatable=False),
        volumes("AdrenalMNIST3D, 5-fold", split=stratified_fold, sizes=(1267,), folds=5),
    ]


PROTOCOLS: Mapping[str, Callable[..., list[Evaluation]]] = {
    "table2": _table2,
    "table4": partial(_orl, 32, (8, 4, 8, 4)),
    "table5": partial(_orl, 64, (8, 8, 8, 8)),
    "table6": _table6,
    "open": _open,
}
"""Functions that return the evaluations of each table; table6 takes the paths of files provided by the user."""

_QUICK_SIZES = {"MNIST": (1000,), "Indian Pines": (10,), "AdrenalMNIST3D, own split": (200,)}


def quick(evaluations: Sequence[Evaluation]) -> list[Evaluation]:
    """Return the evaluations reduced to about a minute: few pairs, one repeat, few folds, three values of lambda.

    The five-fold evaluation of AdrenalMNIST3D is left out, since its published split is kept.

    Examples
    --------
    >>> from tensormargin.paper import PROTOCOLS, quick
    >>> full = PROTOCOLS["table4"]()
    >>> sum(one.repeats for one in full), sum(one.repeats for one in quick(full))
    (5, 1)
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
