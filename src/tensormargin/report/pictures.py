"""Figures as data that a page carries inside itself."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..plots import plot_comparison


@dataclass(frozen=True)
class Picture:
    """An image to embed, and the words for those who do not see it."""

    source: str
    caption: str


def picture(draw: Callable[..., Any], *arguments: Any, caption: str, **options: Any) -> Picture:
    """Return what a function of `tensormargin.plots` draws, as SVG."""
    import matplotlib
    import matplotlib.pyplot as plt

    # Text as text, not as outlines: smaller, and it can be found. A fixed salt makes the same page twice.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "tensormargin", "font.family": "sans-serif"}):
        axes = draw(*arguments, **options)
        first = axes.flat[0] if hasattr(axes, "flat") else axes
        buffer = io.BytesIO()
        first.figure.savefig(buffer, format="svg", metadata={"Date": None})
        plt.close(first.figure)
    return Picture("data:image/svg+xml;base64," + base64.b64encode(buffer.getvalue()).decode(), caption)


def pictures_of_intervals(
    rows: Sequence[tuple[str, float, float | None, float | None]], caption: str, chance: float | None = None
) -> list[Picture]:
    """Return a picture of scores with their intervals, in percent; none where no row (name, score, ends) has one."""
    drawn = [row for row in rows if row[2] is not None]
    if not drawn:
        return []
    names, *numbers = zip(*drawn, strict=True)
    percents = ([100 * number for number in column] for column in numbers)
    return [picture(plot_comparison, names, *percents, chance=chance, caption=caption)]
