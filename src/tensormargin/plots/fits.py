"""Convergence, factors and margins of a fit."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data import AnyAxes, Axis
from ..fitting import CPWeight, leading_vectors
from ..inspection import AveragedClassifier, MarginReport, ModelChain
from ..runtime import Array, FloatArray
from . import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LEADING = 3
_SMALLEST_GAP = 1e-16
_LONGEST_LEGEND = 6
_FEWEST_BINS, _MOST_BINS = 8, 60  # of margins
_MARKED = 32  # entries; longer modes are drawn without markers


def plot_convergence(model: Any, *, problem: int = 0, ax: Axes | None = None) -> Array:
    """Draw the objective after each sweep and the largest relative duality gap of its blocks.

    Parameters
    ----------
    model : estimator
        Fitted: a model as `tensormargin.affine_form` takes, with steps that need not be affine.
    problem : int, default=0
        The binary problem, in the order of ``clf.coef_``.
    ax : Axes, optional

    Returns
    -------
    ndarray of 2 Axes
        The objective on the left; on the right the gap, on a logarithmic scale from 1e-16, with the gap required by
        ``tol`` as a dotted line.

    Examples
    --------
    >>> from tensormargin import TensorMarginClassifier
    >>> from tensormargin.datasets import make_low_rank_classes
    >>> from tensormargin.plots import plot_convergence
    >>> data = make_low_rank_classes(60, (8, 9), random_state=0)
    >>> objective, gap = plot_convergence(TensorMarginClassifier("cp", 2).fit(data.data, data.target))
    >>> gap.get_yscale()
    'log'
    """
    title = style.map_text(model, problem).title
    clf = ModelChain.of(model).classifier
    if isinstance(clf, AveragedClassifier):
        raise ValueError(
            f"the model holds {clf.n_copies_} calibrated classifiers, each of which converged in its own way; give one "
            "of calibrated_classifiers_[...].estimator, or use ensemble=False"
        )
    history = clf.history_[problem] if isinstance(clf.history_, list) else clf.history_
    gaps = np.maximum(np.max(history["gap"], axis=1), _SMALLEST_GAP)  # zero is possible and has no logarithm
    ax = style.given_or_new(ax)
    right = ax.twinx()
    sweeps = np.arange(1, len(gaps) + 1)
    for axes, values, label, colour, marker in (
        (ax, history["objective"], "objective (Eq. 7)", style.BLUE, "o"),
        (right, gaps, "largest duality gap", style.VERMILION, "s"),
    ):
        axes.plot(sweeps, values, color=colour, marker=marker, markersize=4, linewidth=1.4)
        axes.set_ylabel(label, color=colour)
        axes.tick_params(axis="y", colors=colour, which="both")
    demanded = clf.tol / 10  # required in the last sweep; without this line rounding errors look like a trend
    right.axhline(demanded, color=style.VERMILION, linestyle=":", linewidth=1.0)
    beside: dict[str, Any] = {"transform": right.get_yaxis_transform(), "ha": "right", "va": "top"}
    right.text(0.99, demanded, "required", color=style.VERMILION, fontsize="small", **beside)
    right.set_yscale("log", nonpositive="clip")
    style.decades(right.yaxis)
    right.set_ylim(bottom=_SMALLEST_GAP / 3, top=max(float(gaps.max()), demanded) * 10)
    ax.set_xlabel("sweep")
    style.whole_ticks(ax.xaxis)
    style.write_title(ax, title)
    style.tidy(ax)
    right.spines["top"].set_visible(False)
    return np.array([ax, right], dtype=object)


def plot_factors(
    model: Any,
    *,
    problem: int = 0,
    axes: Sequence[Axes] | Array | None = None,
    mode_names: Sequence[str] | None = None,
    mode_axes: AnyAxes = None,
    view: str | None = None,
) -> Array:
    """Draw the factors of a weight, with one panel per mode and one line per column.

    Parameters
    ----------
    model : estimator
        A fitted model, as `tensormargin.affine_form` takes it, with steps that need not be affine. CP: the factors with
        the components' weights spread evenly over the modes. Tucker: the orthonormal factors. Tensor-Train: the cores
        as matrices, one column per pair of bond indices. Full: the leading singular vectors of each unfolding, with
        their shares of the weight's squared norm.
    problem : int, default=0
        The binary problem, in the order of ``clf.coef_``.
    axes : sequence of M Axes, optional
    mode_names : sequence of M str, optional
        Names of the modes as the classifier gets them; by default those of the axes, or "mode 1" and so on.
    mode_axes : tuple of Axis, or dictionary of them for several views, optional
        Names, units and coordinates of the modes of the original samples, which follow the steps before the classifier.
        By default those that the model was fitted to, if X was an xarray DataArray or a data frame.
    view : str, optional
        Which of several views.

    Examples
    --------
    >>> from tensormargin import TensorMarginClassifier
    >>> from tensormargin.datasets import make_low_rank_classes
    >>> from tensormargin.plots import plot_factors
    >>> data = make_low_rank_classes(60, (8, 9), random_state=0)
    >>> axes = plot_factors(TensorMarginClassifier("cp", 2).fit(data.data, data.target), mode_names=("rows", "columns"))
    >>> len(axes)
    2
    """
    style.map_text(model, problem)  # raises for problems that do not exist
    chain, view = ModelChain.of(model), style.checked_view(model, view)
    clf = chain.classifier
    weight, shape = (clf.weight_, clf.sample_shape_) if view is None else (clf.weight_[view], clf.sample_shape_[view])
    order = len(shape)
    known = style.fitting_axes(chain.axes_at_classifier(mode_axes), shape, view)
    names = [axis.name or f"mode {mode + 1}" for mode, axis in enumerate(known)]
    names = names if mode_names is None else list(mode_names)
    if len(names) != order:
        raise ValueError(f"mode_names needs a name for each of the {order} modes; got {len(names)}: {names}")
    kind, modes = _columns_of(weight[problem] if isinstance(weight, list) else weight, shape)
    drawn = style.panels(axes, (1, order), 0.6 + 2.9 * order, 2.9)
    for ax, name, columns, axis in zip(drawn, names, modes, known, strict=True):
        _draw_columns(ax, *columns, axis)
        plain = axis.values is None or mode_names is not None
        ax.set_xlabel(f"entry of {name}" if plain else axis.label or name, **style.VERBATIM)
        style.write_title(ax, f"{name}: {kind}")
    return drawn


def _columns_of(weight: Any, shape: tuple[int, ...]) -> tuple[str, list[tuple[Array, list[str]]]]:
    """Return the kind of the columns of a weight and, for each mode, the columns and their names."""
    from tensorly.cp_tensor import CPTensor
    from tensorly.tt_tensor import TTTensor
    from tensorly.tucker_tensor import TuckerTensor

    if isinstance(weight, CPTensor):
        balanced = CPWeight.from_tensorly(weight, shape)
        lengths = balanced.scales ** (1 / len(shape))
        return "components", [_numbered(factor * lengths) for factor in balanced.factors]
    if isinstance(weight, TuckerTensor):
        return "factor", [_numbered(factor) for factor in weight.factors[: len(shape)]]
    if isinstance(weight, TTTensor):
        names = [[f"{a + 1}, {b + 1}" for a, b in np.ndindex(core.shape[0], core.shape[2])] for core in weight]
        matrices = [core.transpose(1, 0, 2).reshape(core.shape[1], -1) for core in weight]
        return "core", list(zip(matrices, names, strict=True))
    return "singular vectors", [_singular_vectors(weight.astype(np.float64), mode) for mode in range(len(shape))]


def _numbered(matrix: Array) -> tuple[Array, list[str]]:
    return matrix, [str(k + 1) for k in range(matrix.shape[1])]


def _singular_vectors(weight: Array, mode: int) -> tuple[Array, list[str]]:
    size = weight.shape[mode]
    count = min(_LEADING, size, prod(weight.shape) // size)
    vectors = leading_vectors(weight, mode, count)
    squares = np.sum(np.tensordot(vectors, weight, axes=(0, mode)).reshape(count, -1) ** 2, axis=1)
    shares = squares / (float(np.sum(weight**2)) or 1.0)
    return vectors, [f"{k + 1} ({share:.0%})" for k, share in enumerate(shares)]


def _draw_columns(ax: Axes, matrix: Array, names: list[str], axis: Axis) -> None:
    size, count = matrix.shape
    width, marker = 1.3 if count <= _LONGEST_LEGEND else 0.8, "o" if size <= _MARKED else None
    ax.axhline(0.0, color="black", linewidth=0.6)
    lines: list[Any] = []
    for k, column in enumerate(matrix.T):
        look: dict[str, Any] = {"linewidth": width, "marker": marker, "markersize": 2.5, **style.line_style(k)}
        lines += ax.plot(style.line_places(axis, size), column, **look)
    style.tidy(ax)
    if not style.is_scale(axis):
        style.label_indices(ax.xaxis, axis, size)
    if 1 < count <= _LONGEST_LEGEND:
        low, high = ax.get_ylim()
        ax.set_ylim(low, high + (0.16 if count <= _LEADING else 0.26) * (high - low))  # room for the legend
        n_columns = count if count <= _LEADING + 1 else _LEADING
        options = {"loc": "upper center", "ncols": n_columns, "handlelength": 1.2, "columnspacing": 1.0}
        style.add_legend(ax, lines, names, borderaxespad=0.0, **options)


def plot_margins(report: MarginReport, *, ax: Axes | None = None) -> Axes:
    """Draw the margins of both classes with their mean, spread and Cantelli's bound.

    Parameters
    ----------
    report : MarginReport
        From `tensormargin.margin_report`; one entry of its list if there are several binary problems.
    ax : Axes, optional

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
    ax.set(xlabel="margin", ylabel="samples")
    bound = report.cantelli
    verdict = "is vacuous: the mean is not positive" if bound.vacuous else f"is P(margin ≤ 0) ≤ {bound.value:.1%}"
    text = f"mean {report.mean:.3g}, variance {report.variance:.3g}, {bound.rate:.1%} of {report.n_samples} samples ≤ 0"
    ax.set_title(f"{text}\nCantelli's bound {verdict}", loc="left", fontsize="small")
    style.tidy(ax, "y")
    style.whole_ticks(ax.yaxis)
    labels = ["rest" if label is None else str(label) for label in report.classes] + ["mean ± deviation"]
    style.add_legend(ax, [*handles, (band, mean)], labels, loc="best")
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
