"""The tasks: labelled samples, what kind they are, and how they are split."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np
from sklearn.model_selection import LeaveOneGroupOut
from sklearn.utils import Bunch

from tensormargin.datasets import (
    fetch_mnist,
    load_adrenal,
    load_basic_motions,
    load_eeg,
    load_eem_olive_oil,
    load_epilepsy,
    load_ering,
    load_haxby_slice,
    load_ifnb_ms,
    load_indian_pines,
    load_libras,
    load_modis_matogrosso,
    load_muse_ssvep,
    load_pmd_posture,
    load_precog_actions,
    load_robot_failures,
    load_schizo_fnc,
)
from tensormargin.selection import splits_of

from .shipped import ROWS

OFFICIAL, ONE_OUT = 0, -1
"""Instead of a number of folds: the split that the data set was published with, or one per group, which is left out."""


@dataclass(frozen=True)
class Split:
    """One train-test split: rows of the training set and of the test set."""

    repeat: int
    fold: int
    n_folds: int
    train: np.ndarray
    test: np.ndarray


@dataclass(frozen=True)
class Task:
    """One task.

    Attributes
    ----------
    name : str
    load : callable
        Returns a Bunch with ``data``, ``target`` and either ``split`` or optionally ``groups``.
    kind : str
        The kind of samples, as in ``tensormargin fit --kind``.
    sfreq : float or None
        Sampling frequency in Hz along the last mode, where it is known.
    folds : int
        Number of folds, which keep groups together and are repeated, or `OFFICIAL`, or `ONE_OUT`.
    by : str
        What the groups are, in the singular.
    library : str
        The library that ships the samples; "" for data sets of this package.
    per_class : int
        Number of training samples of each class; 0 for all.
    """

    name: str
    load: Callable[[], Bunch]
    kind: str
    sfreq: float | None
    folds: int
    by: str = ""
    library: str = ""
    per_class: int = 0

    def splits(self, repeats: int, seed: int) -> Iterator[Split]:
        """Yield all splits; none if some class has too few training samples in one of them."""
        splits = list(self._whole_splits(repeats, seed))
        if not self.per_class:
            yield from splits
            return
        bunch, rng = loaded(self), np.random.RandomState(seed + self.per_class)
        fewer = [
            replace(split, train=some_rows(split.train, bunch.target, bunch.get("groups"), self.per_class, rng))
            for split in splits
        ]
        if all(len(split.train) for split in fewer):
            yield from fewer

    def _whole_splits(self, repeats: int, seed: int) -> Iterator[Split]:
        """Yield all splits with all training samples."""
        bunch = loaded(self)
        groups = bunch.get("groups")
        if self.folds == OFFICIAL:
            yield Split(0, 0, 1, np.flatnonzero(bunch.split == "train"), np.flatnonzero(bunch.split == "test"))
            return
        for repeat in range(self.n_repeats(repeats)):
            cv = LeaveOneGroupOut() if self.folds == ONE_OUT else self.folds
            folds = splits_of(cv, bunch.target, groups, seed + repeat)
            for fold, (train, test) in enumerate(folds):
                yield Split(repeat, fold, len(folds), train, test)

    def n_repeats(self, repeats: int) -> int:
        """Return how often the folds are repeated, 1 if there is only one way to split."""
        return 1 if self.folds in (OFFICIAL, ONE_OUT) else repeats

    def said_split(self, repeats: int) -> str:
        """Return how samples are split, in words."""
        if self.folds == OFFICIAL:
            return "official"
        if self.folds == ONE_OUT:
            return f"each {self.by} once"
        times = f"{repeats} × " if repeats > 1 else ""
        return f"{times}{self.folds} folds" + (f" by {self.by}" if self.by else "")


def some_rows(rows: np.ndarray, y: Any, groups: Any, each: int, rng: np.random.RandomState) -> np.ndarray:
    """Return random rows, as many of each class, from as many groups as possible; none if a class has fewer."""
    rows = rng.permutation(rows)
    place: dict[Any, int] = defaultdict(int)  # of a sample in its class and group; first ones are taken first
    order = np.empty(len(rows), int)
    for number, row in enumerate(rows):
        key = y[row], None if groups is None else groups[row]
        order[number] = place[key]
        place[key] += 1
    rows = rows[np.argsort(order, kind="stable")]
    found = [rows[y[rows] == label][:each] for label in np.unique(y)]
    return np.sort(np.concatenate(found)) if min(map(len, found)) == each else rows[:0]


def loaded(task: Task) -> Bunch:
    """Return the samples of a task."""
    return _loaded(task.load)


@cache
def _loaded(load: Callable[[], Bunch]) -> Bunch:
    bunch = load()
    if np.issubdtype(bunch.data.dtype, np.integer):
        bunch.data = bunch.data.astype(np.float32)
    return bunch


def _part(bunch: Bunch, rows: np.ndarray) -> Bunch:
    """Return some samples of a data set, with their groups and their part of the published split."""
    kept = {name: bunch[name][rows] for name in ("data", "target", "groups", "split") if name in bunch}
    return Bunch(**kept)


def _pines(each: int, *classes: int) -> Bunch:
    """Return as many random patches of some classes of the scene."""
    bunch = load_indian_pines(5, classes)
    rng = np.random.RandomState(0)
    rows = [rng.choice(np.flatnonzero(bunch.target == label), each, replace=False) for label in classes]
    return _part(bunch, np.sort(np.concatenate(rows)))


def _adrenal(n_train: int) -> Bunch:
    """Return random volumes of the training set, and the test set."""
    bunch = load_adrenal(28)
    train = np.random.RandomState(0).permutation(np.flatnonzero(bunch.split == "train"))[:n_train]
    return _part(bunch, np.concatenate([train, np.flatnonzero(bunch.split == "test")]))


def _mnist(n_train: int, n_test: int) -> Bunch:
    """Return the first training images of each digit, and the first test images of each digit."""
    bunch = fetch_mnist("all")
    bunch.split = np.repeat(["train", "test"], [bunch.n_train, len(bunch.target) - bunch.n_train])
    rows = [
        np.flatnonzero((bunch.target == digit) & (bunch.split == part))[:count]
        for part, count in (("train", n_train), ("test", n_test))
        for digit in range(10)
    ]
    return _part(bunch, np.concatenate(rows))


def _matogrosso() -> Bunch:
    """Return the classes that occur in more than one square, and so can be in a training set and in its test set."""
    bunch = load_modis_matogrosso()
    squares = {label: len(np.unique(bunch.groups[bunch.target == label])) for label in np.unique(bunch.target)}
    return _part(bunch, np.flatnonzero([squares[label] > 1 for label in bunch.target]))


def _haxby(view: str, *categories: str) -> Bunch:
    return load_haxby_slice(view, categories or None)


_CONNECTIVITY: Any = partial(load_schizo_fnc, view="connectivity")

# LP2 to LP4 of the robot failures are left out: their recordings are in LP5. The two pairs of categories of Haxby's
# slice are also among its eight.
_TABLE = (
    # name, loader, kind, sfreq, folds, groups
    ("basic_motions", load_basic_motions, "series", None, OFFICIAL, ""),
    ("epilepsy", load_epilepsy, "series", 16.0, OFFICIAL, ""),
    ("ering", load_ering, "series", None, OFFICIAL, ""),
    ("libras", load_libras, "series", None, OFFICIAL, ""),
    ("robot_failures_lp1", partial(load_robot_failures, "lp1"), "series", 47.6, 4, ""),
    ("robot_failures_lp5", partial(load_robot_failures, "lp5"), "series", 47.6, 4, ""),
    ("precog_actions", load_precog_actions, "series", None, 4, "person"),
    ("modis_matogrosso", _matogrosso, "series", None, 4, "place"),
    ("eeg_alcoholism", load_eeg, "eeg", 64.0, 5, ""),
    ("muse_ssvep", load_muse_ssvep, "eeg", 256.0, ONE_OUT, "recording"),
    ("haxby_bottle_shoe", partial(_haxby, "slice", "bottle", "shoe"), "volume", None, 4, "run"),
    ("haxby_face_house", partial(_haxby, "slice", "face", "house"), "volume", None, 4, "run"),
    ("haxby_8_categories", partial(_haxby, "slice"), "volume", None, 3, "run"),
    ("pmd_posture", load_pmd_posture, "image", None, 4, "person"),
    ("mnist_500", partial(_mnist, 50, 100), "image", None, OFFICIAL, ""),
    ("haxby_brain", partial(_haxby, "brain"), "volume", None, 3, "run"),
    ("adrenal_300", partial(_adrenal, 300), "volume", None, OFFICIAL, ""),
    ("eem_olive_oil", load_eem_olive_oil, "spectra", None, ONE_OUT, "brand"),
    ("indian_pines_6", partial(_pines, 85, 2, 3, 6, 10, 11, 14), "spectra", None, 3, "place"),
    ("schizo_fnc", _CONNECTIVITY, "connectome", None, 5, ""),
    ("ifnb_ms", load_ifnb_ms, "plain", None, 5, ""),
)

AT_HAND: dict[str, Task] = {row[0]: Task(*row) for row in _TABLE}
"""Tasks of this package's data sets by name."""

TASKS: dict[str, Task] = AT_HAND | {row[0]: Task(*row) for row in ROWS}
"""All tasks by name, also those that other libraries ship."""

PER_CLASS = (3, 6, 12)
"""Training samples per class of the versions with few samples."""
_FEW = "@"


def named(name: str) -> Task:
    """Return a task; ``libras@6`` has six training samples per class."""
    whole, _, count = name.partition(_FEW)
    return replace(TASKS[whole], name=name, per_class=int(count)) if count else TASKS[whole]


def whole_name(name: str) -> str:
    """Return the name of a task with all training samples."""
    return name.partition(_FEW)[0]


def with_few(name: str, per_class: int) -> str:
    """Return the name of a task with so many training samples per class; 0 for all."""
    return f"{name}{_FEW}{per_class}" if per_class else name
