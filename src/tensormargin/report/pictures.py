"""Figures as data that a page carries inside itself."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


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
