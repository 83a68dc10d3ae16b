"""What all plots share: colours, panels, limits, legends, and the labels of modes and of binary problems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..data import WAVENUMBERS, AnyAxes, Axes, Axis, checked_axes
from ..inspection import MapText, ModelChain
from ..io import MARK
from ..runtime import Array, FloatArray, from_extra, join_with_and

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Panel
    from matplotlib.axis import Axis as Ruler

# Okabe and Ito's colour-blind-safe palette.
BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY = "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"
PALETTE = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY)
DARK, GREY, LIGHT = "#222222", "#767676", "#e6e6e6"
DIVERGING, SEQUENTIAL = "RdBu_r", "viridis"
DASHES = ("-", "--", ":", "-.")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")

"""Units of wavenumbers, which spectra show in decreasing order."""

_MOST_NAMES = {"x": 24, "y": 32}  # of channels that are legible along an axis of a panel
_MOST_NAMED = 40  # of more channels of a large panel, every second, third, ... is named
_NUMBERS = 6  # ticks with coordinates

_WIDEST_LABEL = 40  # letters
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

# For text that comes from the data, in which "$" and "_" are literal characters, not mathematics.
VERBATIM: dict[str, Any] = {"parse_math": False, "usetex": False}


def given_or_new(ax: Panel | None, width: float = 5.2, height: float = 3.6) -> Panel:
    """Return ``ax``, or the axes of a new pyplot figure (inches)."""
    return panels(ax, (1, 1), width, height)[0]


def panels(axes: Any, grid: tuple[int, int], width: float, height: float, **options: Any) -> Array:
    """Return one axes per grid cell, row by row: the given ones, or those of a new pyplot figure (inches)."""
    rows, columns = grid
    if axes is None:
        plt, size = from_extra("matplotlib.pyplot"), (width, height)
        _, created = plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False, **options)
        return created.ravel()
    given = np.atleast_1d(np.asarray(axes, dtype=object)).ravel()
    if given.size != rows * columns:
        raise ValueError(f"this plot has {rows * columns} panels; got {given.size} axes. Pass that many, or None")
    return given


def save_png(path: Path, drawn: Array, about: dict[str, str]) -> None:
    """Write the pyplot figure of some axes, with what is said about it in its metadata, and close it."""
    import matplotlib.pyplot as plt
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure = drawn[0].figure
    figure.set_dpi(150)
    canvas: Any = FigureCanvasAgg(figure)
    try:  # savefig would compute the layout twice, which takes as long as drawing
        canvas.print_png(path, metadata=about | {"Software": MARK.decode()})
    finally:
        plt.close(figure)


def check_lengths(entry: str, **columns: Any) -> None:
    """Raise ValueError unless all columns have the same number of entries, at least one; ``entry`` says of what."""
    lengths = [len(column) for column in columns.values()]
    if len(set(lengths)) > 1 or not lengths[0]:
        raise ValueError(f"{join_with_and(columns)} need one entry per {entry}; got {join_with_and(lengths)}")


def with_blanks(values: Any) -> FloatArray:
    """Return an array of floats with NaN for all that is not finite or masked."""
    return np.ma.filled(np.ma.masked_invalid(np.asarray(values, np.float64)), np.nan)


def peak(values: FloatArray) -> tuple[int, ...]:
    """Return the indices of the entry of largest absolute value."""
    largest = np.argmax(np.nan_to_num(np.abs(values)))
    return tuple(int(place) for place in np.unravel_index(largest, values.shape))


def colour_limits(values: FloatArray, symmetric: bool = True, limit: float | None = None) -> tuple[float, float]:
    """Return the ends of a scale of colours: the smallest and largest value, or symmetric ones about zero."""
    finite = values[np.isfinite(values)]
    if not symmetric and finite.size:
        return float(finite.min()), float(finite.max())
    largest = float(np.abs(finite).max(initial=0.0)) if limit is None else abs(float(limit))
    return -(largest or 1.0), largest or 1.0  # a map of zeros is drawn in the middle of the scale


def line_style(number: int) -> dict[str, Any]:
    """Return colour and dashes of a line, which differ from those of the line before without colours, too."""
    dashes = DASHES[(number + number // len(PALETTE)) % len(DASHES)]
    return {"color": PALETTE[number % len(PALETTE)], "linestyle": dashes}


def tidy(ax: Panel, grid: Literal["both", "x", "y"] = "both") -> None:
    """Draw a light grid behind the data and remove the top and right spines."""
    ax.grid(axis=grid, color=LIGHT, linewidth=0.8)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)


def whole_ticks(*axes: Ruler) -> None:
    """Restrict the ticks to integers, for axes that count."""
    from matplotlib.ticker import MaxNLocator

    for axis in axes:
        axis.set_major_locator(MaxNLocator(nbins="auto", integer=True, steps=[1, 2, 5, 10]))


def decades(axis: Ruler) -> None:
    """Put ticks at powers of ten only, written in plain text: Matplotlib takes longer for its own than for the rest."""
    from matplotlib.ticker import FuncFormatter, NullLocator

    axis.set_major_formatter(FuncFormatter(lambda value, _: "10" + str(round(np.log10(value))).translate(_RAISED)))
    axis.set_minor_locator(NullLocator())


def write_title(ax: Panel, title: str | None) -> None:
    """Write a title verbatim."""
    ax.set_title(title or "", fontsize="medium", **VERBATIM)


def add_legend(ax: Panel, handles: Sequence[Any], labels: Sequence[str], **options: Any) -> None:
    """Add a legend with verbatim labels; older Matplotlib leaves out labels with a leading underscore."""
    legend = ax.legend(handles, [str(k) for k in range(len(handles))], fontsize="small", frameon=False, **options)
    for text, label in zip(legend.get_texts(), labels, strict=True):
        text.update({**VERBATIM, "text": label})


def legend_beside(ax: Panel, handles: Sequence[Any], labels: Sequence[str]) -> None:
    """Add a legend to the right of the axes if the figure's layout makes room, otherwise at the best place inside."""
    makes_room = ax.figure.get_layout_engine() is not None
    where: dict[str, Any] = {"loc": "center left", "bbox_to_anchor": (1.01, 0.5)} if makes_room else {"loc": "best"}
    add_legend(ax, handles, labels, **where)


def add_scale(image: Any, axes: Any, label: str | None, **options: Any) -> None:
    """Add a colour bar with a verbatim label beside one or several axes."""
    bar = image.figure.colorbar(image, ax=axes, pad=0.02, **options)
    bar.formatter.set_powerlimits((-2, 3))
    bar.set_label(wrapped(label), fontsize="small", **VERBATIM)


def wrapped(label: str | None) -> str:
    """Return the label of values in lines that fit beside a panel, whatever the names of classes."""
    return "\n".join(fill(line, _WIDEST_LABEL) for line in (label or "").splitlines())


def map_text(model: Any, problem: int, what: str = "") -> MapText:
    """Return what stands next to a map of a binary problem; raise ValueError if there is no such problem."""
    texts = ModelChain.of(model).map_texts(what)
    if not 0 <= problem < len(texts):
        raise ValueError(f"problem counts the {len(texts)} binary problems from 0; got problem={problem!r}")
    return texts[problem]


def checked_view(model: Any, view: str | None) -> str | None:
    """Return the name of the view to draw, None for a model of one tensor; raise ValueError if there is none."""
    shape = ModelChain.of(model).classifier.sample_shape_
    if not isinstance(shape, dict):
        if view is not None:
            raise ValueError(f"the model has one tensor, not several views; got view={view!r}. Leave it out")
        return None
    view = next(iter(shape)) if view is None and len(shape) == 1 else view
    if view not in shape:
        raise ValueError(f"view must be one of the model's views, {', '.join(map(repr, shape))}; got view={view!r}")
    return view


def fitting_axes(axes: AnyAxes, shape: Sequence[int], view: str | None = None) -> Axes:
    """Return one axis per mode of an array: the given ones, of a view if there are several, or empty ones.

    Axes that were worked out from a model are left out if they do not fit, such as those of images before a masker.
    """
    own = axes.get(view or "") if isinstance(axes, Mapping) else axes
    try:
        return axes_or_empty(own, shape)
    except ValueError:
        return (Axis(),) * len(shape)


def axes_or_empty(axes: Sequence[Axis] | None, shape: Sequence[int]) -> Axes:
    """Return the given axes, which must fit the shape, or empty ones."""
    return checked_axes(axes, shape) or (Axis(),) * len(shape)


def mode_label(axis: Axis, mode: int) -> str:
    """Return the name of a mode with its unit, if its coordinates are known."""
    return (axis.label if axis.values is not None else axis.name) or f"mode {mode + 1}"


def channel_name(axis: Axis, index: int) -> str:
    """Return the name of a channel along a mode of colours: its coordinate, or the colour that its place stands for."""
    return str(axis.values[index]) if axis.values is not None else ("red", "green", "blue")[index]


def line_places(axis: Axis, size: int) -> Array:
    """Return where the entries of a mode are drawn along a line: at their coordinates if these rise or fall."""
    return axis.values if is_scale(axis) else np.arange(size)


def label_indices(ruler: Ruler, axis: Axis, size: int) -> None:
    """Put ticks along an axis that counts indices: names if they are legible, round coordinates, or numbers."""
    from matplotlib.ticker import MaxNLocator

    side = "x" if ruler.axis_name == "x" else "y"  # type: ignore[attr-defined]  # not in matplotlib's stubs
    if is_scale(axis):
        order, (low, high) = np.argsort(axis.values), (float(axis.values.min()), float(axis.values.max()))
        ticks, slack = np.asarray(MaxNLocator(_NUMBERS).tick_values(low, high)), 1e-9 * (high - low)
        ticks = ticks[(ticks >= low - slack) & (ticks <= high + slack)]
        ruler.set_ticks(np.interp(ticks, axis.values[order], order))
        ruler.set_ticklabels([f"{tick + 0.0:.6g}" for tick in ticks], **VERBATIM)
    elif axis.values is not None and not axis.is_numeric and size <= _MOST_NAMES[side]:
        names = axis.values.tolist()
        upright = side == "x" and sum(map(len, names)) > _MOST_NAMES["x"]
        ruler.set_ticks(np.arange(size))
        font = "x-small" if size > 12 else "small"
        ruler.set_ticklabels(names, rotation=90 if upright else 0, fontsize=font, **VERBATIM)
    else:
        whole_ticks(ruler)


def label_axis(ruler: Any, axis: Axis, mode: int) -> None:
    """Write the label of a mode along an axis in its coordinates, with names as ticks; wavenumbers decrease."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator

    ruler.set_label_text(axis.label or f"mode {mode + 1}", **VERBATIM)
    if axis.is_numeric:
        if axis.unit in WAVENUMBERS:
            ruler.set_inverted(True)
    elif axis.values is None:
        ruler.set_major_locator(MaxNLocator(nbins="auto", integer=True))
    else:
        every = -(-len(axis.values) // _MOST_NAMED)
        places = range(0, len(axis.values), every)
        names = [str(axis.values[place]) for place in places]
        ruler.set_major_locator(FixedLocator(places))
        ruler.set_major_formatter(FuncFormatter(lambda value, _: names[round(value / every)] if names else ""))
        for label in ruler.get_ticklabels():
            label.update({**VERBATIM, "fontsize": 7 if len(axis.values) > 16 else 8})
        if mode:
            ruler.set_tick_params(rotation=90 if len(axis.values) > 8 else 0)


def is_scale(axis: Axis) -> bool:
    """Return whether coordinates are numbers that rise or fall, so that they can be read off between ticks."""
    if not axis.is_numeric or len(axis.values) < 2:
        return False
    steps = np.diff(axis.values)
    return bool((steps > 0).all() or (steps < 0).all())
