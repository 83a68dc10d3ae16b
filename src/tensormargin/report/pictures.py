"""Figures as SVG data to embed in a page."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..plots import plot_comparison


@dataclass(frozen=True)
class Picture:
    """An image to embed, and its caption, which is also the alternative text."""

    source: str
    caption: str


def picture(
    draw: Callable[..., Any],
    *arguments: Any,
    caption: str,
    size: tuple[float, float] | None = None,
    **options: Any,
) -> Picture:
    """Return the figure drawn by a function of `tensormargin.plots`, as SVG, of a size in inches if one is given."""
    import matplotlib
    import matplotlib.pyplot as plt
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    # Text stays text instead of outlines: smaller and searchable. A fixed salt makes the output reproducible.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "tensormargin", "font.family": "sans-serif"}):
        axes = draw(*arguments, **options)
        figure = (axes.flat[0] if hasattr(axes, "flat") else axes).figure
        if size is not None:
            figure.set_size_inches(*size)
        buffer = io.BytesIO()
        canvas: Any = FigureCanvasSVG(figure)
        canvas.print_svg(buffer, metadata={"Date": None})  # savefig would draw it twice
        plt.close(figure)
    return Picture("data:image/svg+xml;base64," + base64.b64encode(buffer.getvalue()).decode(), caption)


def pictures_of_intervals(
    rows: Sequence[tuple[str, float, float | None, float | None]], caption: str, chance: float | None = None
) -> list[Picture]:
    """Return a picture of scores with their intervals, in percent.

    Rows are (name, score, low, high). Rows without an interval are left out; the list is empty if none is left.
    """
    drawn = [row for row in rows if row[2] is not None]
    if not drawn:
        return []
    names, *numbers = zip(*drawn, strict=True)
    percents = ([100 * number for number in column] for column in numbers)
    return [picture(plot_comparison, names, *percents, chance=chance, caption=caption)]
