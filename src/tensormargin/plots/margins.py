"""Plot of the margin distribution of one binary problem."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..inspection import MarginReport
from ..runtime import Array, FloatArray
from ._problems import class_name
from ._style import BLUE, DARK, GREY, VERMILION, add_legend, given_or_new, tidy, whole_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FEWEST_BINS, _MOST_BINS = 8, 60


def plot_margins(report: MarginReport, *, ax: Axes | None = None) -> Axes:
    """Draw the margins of both classes with their mean, spread and Cantelli's bound.

    Parameters
    ----------
    report : MarginReport
        From `tensormargin.margin_report`; one entry of its list if there are several binary problems.
    ax : Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    Axes

    Examples
    --------
    >>> from tensormargin import TensorMarginClassifier, margin_report
    >>> from tensormargin.datasets import make_low_rank_classes
    >>> from tensormargin.plots import plot_margins
    >>> data = make_low_rank_classes(60, (8, 9), random_state=0)
    >>> clf = TensorMarginClassifier("cp", 2).fit(data.data, data.target)
    >>> ax = plot_margins(margin_report(clf, data.data, data.target))
    >>> ax.get_xlabel()
    'margin'
    """
    if not isinstance(report, MarginReport):
        raise TypeError(
            f"report must be one MarginReport; got {type(report).__name__}. With more than two classes margin_report "
            "returns a list: pass one of its entries"
        )
    ax = given_or_new(ax)
    edges = _bin_edges(report.margins)
    handles = [
        _histogram(ax, report.margins[report.signs == sign], edges, colour, hatch)
        for sign, colour, hatch in ((-1, VERMILION, "///"), (1, BLUE, None))
    ]
    deviation = np.sqrt(report.variance)
    band = ax.axvspan(report.mean - deviation, report.mean + deviation, color=GREY, alpha=0.15, linewidth=0, zorder=0.5)
    mean = ax.axvline(report.mean, color=DARK, linestyle="--", linewidth=1.2)
    ax.axvline(0.0, color=DARK, linewidth=1.2)
    ax.set_ylim(0.0, 1.35 * ax.get_ylim()[1])  # room for the legend, which lines of a hatch would make illegible
    ax.set_xlabel("margin")
    ax.set_ylabel("samples")
    ax.set_title(_statistics(report), loc="left", fontsize="small")
    tidy(ax, "y")
    whole_ticks(ax.yaxis)
    labels = [*map(class_name, report.classes), "mean ± deviation"]
    add_legend(ax, [*handles, (band, mean)], labels, loc="best")
    return ax


def _histogram(ax: Axes, margins: Array, edges: Array, colour: str, hatch: str | None) -> object:
    from matplotlib.colors import to_rgba

    counts, _ = np.histogram(margins, edges)
    face = to_rgba(colour, 0.4) if hatch is None else "none"  # lines on a ground of their own colour would be invisible
    return ax.stairs(counts, edges, fill=True, facecolor=face, edgecolor=colour, linewidth=1.3, hatch=hatch)


def _bin_edges(margins: Array) -> FloatArray:
    """Return edges of equal bins, one edge at 0; Freedman and Diaconis' width, clipped to be robust to outliers."""
    low, high = float(margins.min()), float(margins.max())
    quarter, three_quarters = np.quantile(margins, [0.25, 0.75])
    width = 2 * (three_quarters - quarter) / np.cbrt(len(margins))
    width = np.clip(width, (high - low) / _MOST_BINS, (high - low) / _FEWEST_BINS)
    if not width > np.finfo(np.float64).eps * max(abs(low), abs(high)):  # all margins are equal
        width = max(abs(low), 1.0) / _FEWEST_BINS
    return width * np.arange(np.floor(low / width), np.floor(high / width) + 2)


def _statistics(report: MarginReport) -> str:
    bound = report.cantelli
    said = "is vacuous: the mean is not positive" if bound.vacuous else f"is P(margin ≤ 0) ≤ {bound.value:.1%}"
    return (
        f"mean {report.mean:.3g}, variance {report.variance:.3g}, "
        f"{bound.rate:.1%} of {report.n_samples} samples ≤ 0\nCantelli's bound {said}"
    )
