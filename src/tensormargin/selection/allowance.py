"""Which preparations a search with a budget can afford."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone

from ..data import shape_of
from ..fitting import sample_array
from ..runtime import Array, Deadline, rows_of
from ..transformers import fit_transformed
from .search import Training

_TRIAL = 16  # samples that every preparation is timed on
_TRIALS = 0.1  # share of the time left that these trials may take
_PREPARING = 0.4  # share of the time left for the preparation of all splits, so that something remains for the fits
_COMPILES = 0.1  # seconds of a trial from which it is repeated, since the first one may have compiled something


def affordable(training: Training, n_splits: int, deadline: Deadline) -> list[int]:
    """Return the numbers of the alternative preparations that a deadline allows on all splits, the cheapest first.

    Each is timed on a few samples. There is always at least one of them.
    """
    number = len(training.preparations)
    if number == 1 or not deadline.limited or training.array.is_lazy:
        return list(range(number))
    seconds = _trial_seconds(training, deadline)
    times = len(training.y) / min(_TRIAL, len(training.y)) * (n_splits + 1)
    order = sorted(seconds, key=lambda which: (seconds[which], which))
    fits = times * np.cumsum([seconds[which] for which in order]) <= _PREPARING * deadline.left
    return order[: max(int(np.argmin([*fits, False])), 1)]


def _trial_seconds(training: Training, deadline: Deadline) -> dict[int, float]:
    """Return what each preparation takes for a few samples, by its number, if there is time to try it.

    They are those of an earlier search with the same deadline if there was one.
    """
    shape, costs = repr(shape_of(training.X)), deadline.costs
    rows = _some_of_each_class(training.y)
    few = replace(
        training,
        array=sample_array(rows_of(training.X, rows)),
        y=training.y[rows],
        weights=None,
        metadata=training.metadata.rows(rows),
    )
    seconds: dict[int, float] = {}
    within = deadline.part(_TRIALS)
    for which, one in enumerate(training.preparations):
        key = ("trial", shape, which)
        if one is not None and key not in costs and ("trials", shape) not in costs and (within.allows() or not seconds):
            costs.add(key, _seconds_of(one, few, deadline))
        if one is None or key in costs:
            seconds[which] = costs.of(key)
    costs.add(("trials", shape), 0.0)
    return seconds


def _seconds_of(preparation: Any, few: Training, deadline: Deadline) -> float:
    """Return the seconds of a preparation; 0 if it fails, so that it fails, or not, where it is needed."""
    taken = 0.0
    for _ in range(2):
        began = deadline.now()
        try:
            fit_transformed(clone(preparation), few.X, few.y, few.metadata)
        except (ValueError, ArithmeticError):
            return 0.0
        taken = deadline.now() - began
        if taken < _COMPILES:
            break
    return taken


def _some_of_each_class(y: Array) -> Array:
    """Return the rows of a few samples, the same number of each class as far as possible."""
    _, codes = np.unique(y, return_inverse=True)
    place = np.empty(len(y), int)
    for code in range(codes.max() + 1):
        own = np.flatnonzero(codes == code)
        place[own] = np.arange(len(own))
    return np.sort(np.argsort(place, kind="stable")[:_TRIAL])
