"""How sure an average over splits is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import norm as normal
from scipy.stats import t as student

from .._typing import Array

CONFIDENCE = 0.95


def corrected_error(values: Sequence[float] | Array, test_to_train: float) -> float:
    """Return the standard error of a mean over splits whose training parts overlap (Nadeau and Bengio 2003).

    Parameters
    ----------
    values : sequence of float
        One a split.
    test_to_train : float
        Size of a test part divided by that of a training part.
    """
    n = len(values)
    return float(np.sqrt(np.var(values, ddof=1) * (1 / n + test_to_train))) if n > 1 else float("nan")


def half_width(values: Sequence[float] | Array, test_to_train: float) -> float:
    """Return half the width of Student's interval around the mean over splits; NaN for a single one."""
    if len(values) < 2:
        return float("nan")
    return float(student.ppf(0.5 + CONFIDENCE / 2, len(values) - 1)) * corrected_error(values, test_to_train)


def wilson(share: float, count: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval for a probability, of which a share of ``count`` independent trials came true."""
    z = float(normal.ppf(0.5 + CONFIDENCE / 2))
    centre = (share + z**2 / (2 * count)) / (1 + z**2 / count)
    half = z / (1 + z**2 / count) * np.sqrt(share * (1 - share) / count + z**2 / (4 * count**2))
    return float(max(0.0, centre - half)), float(min(1.0, centre + half))
