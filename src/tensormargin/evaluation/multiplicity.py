"""Correction for multiple tests."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..runtime import Array, FloatArray


def holm(p_values: Sequence[float] | Array) -> FloatArray:
    """Return p-values adjusted for multiple tests (Holm 1979).

    Rejecting every hypothesis whose adjusted p-value is at most alpha keeps the family-wise error rate at or below
    alpha, whatever the dependence between the tests. NaN marks a test that was not done; it stays NaN and does not
    count.

    Examples
    --------
    >>> from tensormargin.evaluation.multiplicity import holm
    >>> [float(round(p, 3)) for p in holm([0.01, 0.04, 0.02])]
    [0.03, 0.04, 0.04]
    """
    adjusted = np.array(p_values, np.float64)
    done = np.flatnonzero(~np.isnan(adjusted))
    order = done[np.argsort(adjusted[done], kind="stable")]
    still_there = np.arange(len(order), 0, -1)  # hypotheses not yet rejected at each step
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(still_there * adjusted[order]))
    return adjusted
