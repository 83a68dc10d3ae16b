"""Train-test splits of the protocols.

A split function takes a data set and a `Where`, which holds the seed, and returns row indices.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.model_selection import GroupKFold, LeaveOneGroupOut, LeaveOneOut, StratifiedKFold, StratifiedShuffleSplit
from sklearn.utils import Bunch

from ..runtime import Array


@dataclass(frozen=True)
class Where:
    """Identifies one train-test split of a data set."""

    size: int
    repeat: int
    fold: int
    seed: int


SplitRule = Callable[[Bunch, Where], tuple[Array, Array]]
"""Takes a data set and a `Where`, returns the rows of the training set and of the test set."""


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
