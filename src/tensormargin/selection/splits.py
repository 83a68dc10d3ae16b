"""Splits for cross-validation."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold, check_cv

from ..runtime import Array, listed, tuning

Split = tuple[Array, Array]
"""Row indices of a training set and of a test set."""

_FOLDS = 5  # by default
_NAMED = 8  # classes in a message
_ORDERS = 10  # shuffles to try before dropping a fold whose training set lacks a class


def repeated_splits(
    cv: Any, y: Array, groups: Array | None, random_state: int, contents: Array | None = None
) -> tuple[list[Split], int]:
    """Return the splits of a search, and the number of the first ones that hold out each sample once.

    If classes are too small for the requested number of folds, the folds are repeated with other shuffles until there
    are at least as many splits: two or three tiny test sets say too little about many candidates.
    """
    splits = splits_of(cv, y, groups, random_state, contents)
    n_once, wanted = len(splits), _n_folds(cv) or 0
    known = {test.tobytes() for _, test in splits}
    for repeat in range(1, _ORDERS):
        if len(splits) >= wanted:
            break
        for train, test in splits_of(cv, y, groups, (random_state + _ORDERS * repeat) % 2**32, contents):
            if test.tobytes() not in known:  # few groups can be divided in few ways
                known.add(test.tobytes())
                splits.append((train, test))
    return splits, n_once


def _n_folds(cv: Any) -> int | None:
    """Return the requested number of folds; None for a user's own splits, which are used as they are."""
    if cv is None:
        return _FOLDS
    return int(cv) if isinstance(cv, int | np.integer) else None


def splits_of(cv: Any, y: Array, groups: Array | None, random_state: int, contents: Array | None = None) -> list[Split]:
    """Return the splits of a cross-validation.

    An integer ``cv`` means shuffled stratified folds, which keep groups together if there are any, otherwise samples of
    one class with equal ``contents``, that is, copies (`leakage.content_ranks`). Given contents, folds do not depend on
    the order of the samples. There are at most as many folds as the smallest class has samples (groups). Copies are
    separated if a class has nothing else.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin.selection import splits_of
    >>> splits = splits_of(3, np.array([0, 1] * 6), None, random_state=0)
    >>> [(len(train), len(test)) for train, test in splits]
    [(8, 4), (8, 4), (8, 4)]
    """
    rows = np.zeros(len(y))
    wanted = _n_folds(cv)
    if wanted is None:
        return list(check_cv(cv, y, classifier=True).split(rows, y, groups))
    labels, counts = _class_sizes(y, groups)
    folds = min(wanted, int(counts.min()))
    if folds < 2:
        raise ValueError(_too_few(cv, labels, counts, groups))
    if groups is None:
        if contents is not None:  # the first of each set of copies in one class stands for the others
            pairs = np.column_stack([np.unique(y, return_inverse=True)[1], contents])
            _, first, which = np.unique(pairs, axis=0, return_index=True, return_inverse=True)
            if _class_sizes(y[first], None)[1].min() == 1:  # a single set cannot be in training and test sets
                first = np.lexsort(pairs.T[::-1])
                which = np.argsort(first)
            splits, which = splits_of(cv, y[first], None, random_state), which.ravel()
            return [(np.flatnonzero(np.isin(which, a)), np.flatnonzero(np.isin(which, b))) for a, b in splits]
        return list(StratifiedKFold(folds, shuffle=True, random_state=random_state).split(rows, y))
    return _group_splits(folds, y, groups, random_state)


def _too_few(cv: Any, labels: Array, counts: Array, groups: Array | None) -> str:
    """Return the message about too few folds, or about classes that have one sample (group) each."""
    kind, alone = "samples" if groups is None else "groups", labels[counts < 2].tolist()
    rule = f"cross-validation needs at least 2 folds and 2 {kind} of each class"
    if not alone:
        return f"{rule}; got cv={cv!r}"
    which = listed(map(repr, alone), most=_NAMED)
    rule += f", and {f'classes {which} have' if len(alone) > 1 else f'class {which} has'} 1"
    smaller = "Name smaller groups (runs, blocks) with groups (--groups), or none (--no-groups) if all samples are "
    if groups is not None and len(np.unique(groups)) == 1:
        return f"all samples are in one group, and groups are never divided. {smaller}independent"
    if len(labels) - len(alone) < 2:  # who leaves them out has nothing to tell apart
        return f"{rule}. {f'{smaller}independent, or bring' if groups is not None else 'Bring'} more {kind}"
    option = f"--exclude-classes {','.join(map(str, alone))}" if len(alone) <= _NAMED else "--drop-rare 2"
    return f"{rule}. Leave {'those classes' if len(alone) > 1 else 'that class'} out ({option}), or bring more {kind}"


def _class_sizes(y: Array, groups: Array | None) -> tuple[Array, Array]:
    """Return the classes, and the number of samples (groups) of each."""
    labels, counts = np.unique(y, return_counts=True)
    if groups is not None:
        counts = np.array([len(np.unique(groups[y == label])) for label in labels])
    return labels, counts


def _group_splits(folds: int, y: Array, groups: Array, seed: int) -> list[Split]:
    """Return stratified folds of groups, shuffled until every training set has all classes.

    If that fails, return the valid splits of the best shuffle.
    """
    n_classes = len(np.unique(y))
    best: list[Split] = []
    for attempt in range(_ORDERS):
        splitter = StratifiedGroupKFold(folds, shuffle=True, random_state=(seed + attempt) % 2**32)
        splits = splitter.split(np.zeros(len(y)), y, groups)
        whole = [(train, test) for train, test in splits if len(np.unique(y[train])) == n_classes and len(test)]
        best = max(best, whole, key=len)
        if len(best) == folds:
            return best
    if not best:
        raise ValueError(
            "the groups cannot be divided so that every training set has all classes; use fewer folds, or groups that "
            "hold more than one class"
        )
    return best


def check_training_parts(splits: list[Split], y: Array) -> None:
    """Raise ValueError if a training set lacks a class, which is possible for a user's splitter or list of splits."""
    classes = np.unique(y)
    for number, (train, _) in enumerate(splits):
        missing = np.setdiff1d(classes, y[train])
        if missing.size:
            raise ValueError(
                f"every training set must have all classes; that of split {number} by cv has no sample of "
                f"{missing.tolist()}. Use other splits, or a number of folds"
            )


def smaller_splits(
    splits: list[Split], y: Array, rng: np.random.RandomState, fewer_samples: bool = False, weights: Array | None = None
) -> list[Split]:
    """Return the splits with the rows of some classes, or some of the rows of all classes; none if there are not many.

    Candidates compare on them much as on all rows. With many classes, those of each split are others, and one-vs-one
    has a fraction of the binary problems. Training sets have ``fewer_samples`` only if that is requested, and then none
    whose weight is zero.
    """
    classes = np.unique(y)
    if len(classes) >= tuning.MANY_CLASSES:
        small = []
        for train, test in splits:
            some = rng.choice(classes, tuning.SOME_CLASSES, replace=False)
            small.append((train[np.isin(y[train], some)], test[np.isin(y[test], some)]))
        return small if all(len(test) for _, test in small) else []
    if not fewer_samples or min(len(train) for train, _ in splits) < tuning.RACE_SAMPLES:
        return []
    counted = np.ones(len(y), bool) if weights is None else weights > 0
    return [(_share_of_each_class(train[counted[train]], y, rng), test) for train, test in splits]


def _share_of_each_class(rows: Array, y: Array, rng: np.random.RandomState) -> Array:
    """Return a share of the rows, at least a few of each class."""
    kept = []
    for label in np.unique(y[rows]):
        own = rng.permutation(rows[y[rows] == label])
        kept.append(own[: max(round(tuning.RACE_SHARE * len(own)), tuning.RACE_OF_A_CLASS)])
    return np.sort(np.concatenate(kept))
