"""Several tests at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .._typing import Array, FloatArray


def holm(p_values: Sequence[float] | Array) -> FloatArray:
    """Return p-values adjusted for their number (Holm 1979).

    Rejecting every hypothesis whose adjusted p-value is at most alpha rejects a true one with a probability of at most
    alpha, however the tests depend on each other. NaN, for a test that was not done, stays NaN and does not count.

    Examples
    --------
    >>> from tensormargin.evaluation.multiplicity import holm
    >>> [float(round(p, 3)) for p in holm([0.01, 0.04, 0.02])]
    [0.03, 0.04, 0.04]
    """
    adjusted = np.array(p_values, np.float64)
    done = np.flatnonzero(~np.isnan(adjusted))
    order = done[np.argsort(adjusted[done], kind="stable")]
    still_there = np.arange(len(order), 0, -1)  # hypotheses that the ones before have left
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(still_there * adjusted[order]))
    return adjusted
