"""Plot of the null distribution of a permutation test."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..runtime import Array
from ._style import BLUE, DARK, GREY, VERMILION, add_legend, given_or_new, tidy, whole_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_BINS = 30


def plot_permutations(
    permuted: Sequence[float] | Array, score: float, p_value: float, *, name: str = "accuracy", ax: Axes | None = None
) -> Axes:
    """Draw a histogram of the scores with permuted labels, and the score with the true labels.

    Parameters
    ----------
    permuted : sequence of float
        ``permuted`` from the result of `tensormargin.permutation_test`.
    score, p_value : float
        ``score`` and ``p_value`` from the same result.
    name : str, default="accuracy"
        Name of the score.
    ax : Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin.plots import plot_permutations
    >>> permuted = np.random.default_rng(0).normal(0.5, 0.05, 99)
    >>> ax = plot_permutations(permuted, score=0.8, p_value=0.01)
    >>> ax.get_xlabel()
    'accuracy'
    """
    values = np.asarray(permuted, dtype=float)
    if values.ndim != 1 or values.size == 0 or not np.all(np.isfinite(values)):
        raise ValueError(
            f"permuted must be one finite score per permutation; got {values.size} of {values.ndim}-D form"
        )
    ax = given_or_new(ax, 5.2, 3.2)
    counts, edges = np.histogram(values, _edges(values))
    null = ax.stairs(counts, edges, fill=True, color=GREY, alpha=0.5)
    as_good, _ = np.histogram(values[values >= score - 1e-12], edges)
    reached = ax.stairs(as_good, edges, fill=True, color=VERMILION, alpha=0.7)
    line = ax.axvline(score, color=BLUE, linewidth=2.0)
    mean = ax.axvline(values.mean(), color=DARK, linewidth=1.0, linestyle="--")
    ax.set_xlabel(name)
    ax.set_ylabel("permutations")
    ax.set_ylim(0.0, 1.5 * counts.max())  # room for the legend
    tidy(ax, "y")
    whole_ticks(ax.yaxis)
    labels = ["permuted labels", "at least as good", "their mean", f"true labels, p = {p_value:.2g}"]
    add_legend(ax, [null, reached, mean, line], labels, loc="upper left")
    return ax


def _edges(values: Array) -> Array:
    """Return bin edges; one bin per distinct score if there are few, so that no bin hides a gap between scores."""
    distinct = np.unique(np.round(values, 9))
    if len(distinct) == 1:
        return distinct[0] + np.array([-0.005, 0.005])
    if len(distinct) <= _MOST_BINS:
        middles = (distinct[1:] + distinct[:-1]) / 2
        first, last = middles[0] - distinct[0], distinct[-1] - middles[-1]
        return np.concatenate([[distinct[0] - first], middles, [distinct[-1] + last]])
    return np.linspace(distinct[0], distinct[-1], _MOST_BINS + 1)
