"""Distributions of margins and of permuted scores; ROC and reliability curves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..inspection import MarginReport
from ..runtime import Array, FloatArray
from . import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FEWEST_BINS, _MOST_BINS = 8, 60  # of margins
_MOST_SCORES = 30  # bins of permuted scores


def plot_margins(report: MarginReport, *, ax: Axes | None = None) -> Axes:
    """Draw the margins of both classes with their mean, spread and Cantelli's bound.

    Parameters
    ----------
    report : MarginReport
        From `tensormargin.margin_report`; one entry of its list if there are several binary problems.
    ax : Axes, optional

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
    from matplotlib.colors import to_rgba

    ax = style.given_or_new(ax)
    edges = _bin_edges(report.margins)
    hatched = {"facecolor": "none", "edgecolor": style.VERMILION, "hatch": "///"}  # unfilled: lines must be seen
    filled = {"facecolor": to_rgba(style.BLUE, 0.4), "edgecolor": style.BLUE}
    handles: list[Any] = []
    for sign, look in ((-1, hatched), (1, filled)):
        counts, _ = np.histogram(report.margins[report.signs == sign], edges)
        handles.append(ax.stairs(counts, edges, fill=True, linewidth=1.3, **look))
    deviation = np.sqrt(report.variance)
    spread = (report.mean - deviation, report.mean + deviation)
    band = ax.axvspan(*spread, color=style.GREY, alpha=0.15, linewidth=0, zorder=0.5)
    mean = ax.axvline(report.mean, color=style.DARK, linestyle="--", linewidth=1.2)
    ax.axvline(0.0, color=style.DARK, linewidth=1.2)
    ax.set_ylim(0.0, 1.35 * ax.get_ylim()[1])  # room for the legend, which lines of a hatch would make illegible
    ax.set_xlabel("margin")
    ax.set_ylabel("samples")
    bound = report.cantelli
    verdict = "is vacuous: the mean is not positive" if bound.vacuous else f"is P(margin ≤ 0) ≤ {bound.value:.1%}"
    text = f"mean {report.mean:.3g}, variance {report.variance:.3g}, {bound.rate:.1%} of {report.n_samples} samples ≤ 0"
    ax.set_title(f"{text}\nCantelli's bound {verdict}", loc="left", fontsize="small")
    style.tidy(ax, "y")
    style.whole_ticks(ax.yaxis)
    labels = ["rest" if label is None else str(label) for label in report.classes] + ["mean ± deviation"]
    style.add_legend(ax, [*handles, (band, mean)], labels, loc="best")
    return ax


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
    ax = style.given_or_new(ax, 5.2, 3.2)
    counts, edges = np.histogram(values, _score_edges(values))
    null = ax.stairs(counts, edges, fill=True, color=style.GREY, alpha=0.5)
    as_good, _ = np.histogram(values[values >= score - 1e-12], edges)
    reached = ax.stairs(as_good, edges, fill=True, color=style.VERMILION, alpha=0.7)
    line = ax.axvline(score, color=style.BLUE, linewidth=2.0)
    mean = ax.axvline(values.mean(), color=style.DARK, linewidth=1.0, linestyle="--")
    ax.set_xlabel(name)
    ax.set_ylabel("permutations")
    ax.set_ylim(0.0, 1.5 * counts.max())  # room for the legend
    style.tidy(ax, "y")
    style.whole_ticks(ax.yaxis)
    labels = ["permuted labels", "at least as good", "their mean", f"true labels, p = {p_value:.2g}"]
    style.add_legend(ax, [null, reached, mean, line], labels, loc="upper left")
    return ax


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
    style.check_lengths("curve", names=names, false_rates=false_rates, true_rates=true_rates)
    ax = style.given_or_new(ax, 4.4, 4.0)
    lines = [
        ax.plot(false_rate, true_rate, linewidth=1.6, **style.line_style(k))[0]
        for k, (false_rate, true_rate) in enumerate(zip(false_rates, true_rates, strict=True))
    ]
    _diagonal(ax)
    ax.text(0.5, 0.47, "chance", color=style.GREY, fontsize="small", rotation=45, rotation_mode="anchor", va="top")
    ax.set_xlabel("false positive rate")
    ax.set_ylabel("true positive rate")
    style.add_legend(ax, lines, names, loc="lower right")
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
    ax = style.given_or_new(ax, 4.4, 4.0)
    _diagonal(ax)
    ax.vlines(predicted, bottom, top, color=style.BLUE, linewidth=2.0, alpha=0.6)
    ax.plot(predicted, shares, color=style.BLUE, marker="o", markersize=5, linewidth=1.4)
    ax.set_xlabel(f"probability of {event}", **style.VERBATIM)
    ax.set_ylabel(f"share of {event}", **style.VERBATIM)
    return ax


def _bin_edges(margins: Array) -> FloatArray:
    """Return edges of equal bins, one edge at 0; Freedman and Diaconis' width, clipped to be robust to outliers."""
    low, high = float(margins.min()), float(margins.max())
    quarter, three_quarters = np.quantile(margins, [0.25, 0.75])
    width = 2 * (three_quarters - quarter) / np.cbrt(len(margins))
    width = np.clip(width, (high - low) / _MOST_BINS, (high - low) / _FEWEST_BINS)
    if not width > np.finfo(np.float64).eps * max(abs(low), abs(high)):  # all margins are equal
        width = max(abs(low), 1.0) / _FEWEST_BINS
    return width * np.arange(np.floor(low / width), np.floor(high / width) + 2)


def _score_edges(values: Array) -> Array:
    """Return bin edges; one bin per distinct score if there are few, so that no bin hides a gap between scores."""
    distinct = np.unique(np.round(values, 9))
    if len(distinct) == 1:
        return distinct[0] + np.array([-0.005, 0.005])
    if len(distinct) <= _MOST_SCORES:
        middles = (distinct[1:] + distinct[:-1]) / 2
        first, last = middles[0] - distinct[0], distinct[-1] - middles[-1]
        return np.concatenate([[distinct[0] - first], middles, [distinct[-1] + last]])
    return np.linspace(distinct[0], distinct[-1], _MOST_SCORES + 1)


def _diagonal(ax: Axes) -> None:
    """Draw the diagonal of the unit square, and set both axes to the square."""
    ax.plot([0, 1], [0, 1], color=style.GREY, linewidth=1.0, linestyle=":")
    ax.set_xlim(-0.02, 1.02)
    ax.set_ylim(-0.02, 1.02)
    ax.set_aspect("equal")
    style.tidy(ax)
