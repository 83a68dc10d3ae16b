"""Time a fit and record whether it converged."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from ..data import NO_METADATA, Metadata
from ..inspection import fit_model
from ..runtime import Array


@dataclass(frozen=True)
class TimedFit:
    """A fitted classifier, how long its fit took, and whether it converged."""

    classifier: Any
    seconds: float
    converged: bool


def timed_fit(classifier: Any, X: Array, y: Array, metadata: Metadata = NO_METADATA) -> TimedFit:
    """Fit a classifier and time it; a ConvergenceWarning is recorded in the result instead of being shown."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        began = perf_counter()
        fit_model(classifier, X, y, metadata)
        seconds = perf_counter() - began
    converged = not any(issubclass(item.category, ConvergenceWarning) for item in caught)
    for item in caught:
        if not issubclass(item.category, ConvergenceWarning):
            warnings.warn_explicit(item.message, item.category, item.filename, item.lineno)
    return TimedFit(classifier, seconds, converged)
