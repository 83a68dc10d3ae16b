"""Plots of ROC and reliability curves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..runtime import Array
from ._style import BLUE, DASHES, GREY, PALETTE, VERBATIM, add_legend, given_or_new, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_roc(
    names: Sequence[str], false_rates: Sequence[Any], true_rates: Sequence[Any], *, ax: Axes | None = None
) -> Axes:
    """Draw ROC curves, one per class.

    Parameters
    ----------
    names : sequence of str
        Legend of each curve.
    false_rates, true_rates : sequence of array-like
        Rates of false and true positives of each curve, from 0 to 1.
    ax : Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    Axes

    Examples
    --------
    >>> from tensormargin.evaluation import roc
    >>> from tensormargin.plots import plot_roc
    >>> curve = roc([True, True, False, False], [0.9, 0.4, 0.6, 0.1])
    >>> ax = plot_roc([f"rest, AUC {curve.area}"], [curve.false_rate], [curve.true_rate])
    >>> ax.get_legend().get_texts()[0].get_text()
    'rest, AUC 0.75'
    """
    if not names or not len(names) == len(false_rates) == len(true_rates):
        raise ValueError(
            "names, false_rates and true_rates need one entry per curve; "
            f"got {len(names)}, {len(false_rates)} and {len(true_rates)}"
        )
    ax = given_or_new(ax, 4.4, 4.0)
    lines = [
        ax.plot(
            false_rate,
            true_rate,
            color=PALETTE[k % len(PALETTE)],
            linestyle=DASHES[(k + k // len(PALETTE)) % len(DASHES)],
            linewidth=1.6,
        )[0]
        for k, (false_rate, true_rate) in enumerate(zip(false_rates, true_rates, strict=True))
    ]
    _diagonal(ax)
    ax.text(0.5, 0.47, "chance", color=GREY, fontsize="small", rotation=45, rotation_mode="anchor", va="top")
    ax.set_xlabel("false positive rate")
    ax.set_ylabel("true positive rate")
    add_legend(ax, lines, names, loc="lower right")
    return ax


def plot_calibration(
    probability: Sequence[float] | Array,
    observed: Sequence[float] | Array,
    low: Sequence[float] | Array,
    high: Sequence[float] | Array,
    *,
    event: str = "event",
    ax: Axes | None = None,
) -> Axes:
    """Draw how often an event happens against its predicted probability.

    Parameters
    ----------
    probability, observed : sequence of float
        Mean probability and share of the event in each bin.
    low, high : sequence of float
        Interval of each share; NaN for none.
    event : str, default="event"
        What is predicted, in words.
    ax : Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin.evaluation import reliability
    >>> from tensormargin.plots import plot_calibration
    >>> rng = np.random.default_rng(0)
    >>> probability = rng.uniform(size=200)
    >>> curve = reliability(rng.uniform(size=200) < probability, probability)
    >>> ax = plot_calibration(curve.probability, curve.observed, curve.low, curve.high, event="rain")
    >>> ax.get_xlabel()
    'probability of rain'
    """
    columns = [np.asarray(column, np.float64) for column in (probability, observed, low, high)]
    if len({column.shape for column in columns}) > 1 or columns[0].ndim != 1 or not columns[0].size:
        raise ValueError(
            "probability, observed, low and high need one entry per bin; "
            f"got the shapes {', '.join(str(column.shape) for column in columns)}"
        )
    predicted, shares, bottom, top = columns
    ax = given_or_new(ax, 4.4, 4.0)
    _diagonal(ax)
    ax.vlines(predicted, bottom, top, color=BLUE, linewidth=2.0, alpha=0.6)
    ax.plot(predicted, shares, color=BLUE, marker="o", markersize=5, linewidth=1.4)
    ax.set_xlabel(f"probability of {event}", **VERBATIM)
    ax.set_ylabel(f"share of {event}", **VERBATIM)
    return ax


def _diagonal(ax: Axes) -> None:
    """Draw the diagonal of the unit square, and set both axes to the square."""
    ax.plot([0, 1], [0, 1], color=GREY, linewidth=1.0, linestyle=":")
    ax.set_xlim(-0.02, 1.02)
    ax.set_ylim(-0.02, 1.02)
    ax.set_aspect("equal")
    tidy(ax)
