"""Report pages made of sections, and figures as SVG data embedded in them, rendered as a single HTML file."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from ..data import AnyAxes
from ..inspection import ModelChain
from ..io import replacing
from ..plots import plot_comparison, plot_factors
from ..runtime import from_extra, percent, short_number

WIDTH, HEIGHT = 4.3, 2.9
"""Size of a figure in inches: half of the page on a large screen, all of it on a telephone."""

_DARK = {  # what the colours of plots/style.py become on a dark page, where they are too dark to be seen
    "#000000": "#e8ebf0",
    "#222222": "#e8ebf0",
    "#767676": "#a3abb8",
    "#e6e6e6": "#353d49",
    "#0072b2": "#5cb8ee",
    "#d55e00": "#ff9a5c",
    "#009e73": "#35cfa0",
    "#cc79a7": "#e8a8c9",
    "#56b4e9": "#a9defb",
}

_SETTINGS: Any = {  # of Matplotlib
    "svg.fonttype": "none",  # text stays text instead of outlines: smaller and searchable
    "svg.hashsalt": "tensormargin",  # the same figure is the same file
    "font.family": "sans-serif",
    "figure.facecolor": "none",  # the page is seen through figures, light or dark
    "axes.facecolor": "none",
}


@dataclass(frozen=True)
class Picture:
    """An image to embed: its data, its caption, and what it shows in words, with numbers, for those who cannot see it.

    The alternative text is the caption if none is given.
    """

    source: str
    caption: str
    alt: str = ""

    @property
    def words(self) -> str:
        """The alternative text."""
        return self.alt or self.caption


@dataclass(frozen=True)
class Section:
    """A section of the page: its heading, its template, and the content of that template.

    A section that is folded shows its heading and its ``gist``, a few words, until it is opened or printed.
    """

    heading: str
    template: str
    content: Mapping[str, Any]
    folded: bool = False
    gist: str = ""

    @property
    def anchor(self) -> str:
        """The section's HTML anchor; headings with names of views in them may have any characters."""
        return re.sub(r"[\W_]+", "-", self.heading.lower()).strip("-")

    def __getattr__(self, name: str) -> Any:
        try:
            return self.content[name]
        except KeyError:
            raise AttributeError(name) from None


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]], best: Container[int] = ()) -> dict[str, Any]:
    """Return a table for the comparison template, with the numbers of the ``best`` rows.

    A cell is a text, or a pair of a text and the value that it is sorted by.
    """
    cells = [[(one, one) if isinstance(one, str) else one for one in row] for row in rows]
    named = [[{"text": text, "value": text if value is None else value} for text, value in row] for row in cells]
    return {"columns": columns, "rows": [{"best": place in best, "cells": row} for place, row in enumerate(named)]}


@dataclass(frozen=True)
class Lead:
    """The first screen: a sentence, a number with its name and interval, a figure, and what its words mean.

    Examples
    --------
    >>> from tensormargin.report import Lead, Page, render
    >>> lead = Lead("The model is better than chance.", "91 %", "accuracy on held-out samples")
    >>> "better than chance" in render(Page("A title", lead, "2026-01-01", {"tensormargin": "0.2.0"}))
    True
    """

    sentence: str
    number: str = ""
    what: str = ""
    interval: str = ""
    picture: Picture | None = None
    words: str = ""


@dataclass(frozen=True)
class Page:
    """The content of a report, free of HTML.

    Examples
    --------
    >>> from tensormargin.report import Lead, Page, render
    >>> page = Page("A title", Lead("One sentence."), "2026-01-01", {"tensormargin": "0.2.0"})
    >>> "One sentence." in render(page)
    True
    """

    title: str
    lead: Lead
    created: str
    versions: Mapping[str, str]
    sections: Sequence[Section] = field(default_factory=list)

    def _repr_html_(self) -> str:
        """Return the page in a frame, where its styles and scripts are its own."""
        frame = "width:100%;height:40em;border:1px solid #ccc"
        return f'<iframe sandbox="allow-scripts" style="{frame}" srcdoc="{escape(render(self))}"></iframe>'


def render(page: Page) -> str:
    """Return the page as self-contained HTML; all text is escaped.

    Examples
    --------
    >>> from tensormargin.report import Lead, Page, render
    >>> html = render(Page("<b>", Lead("One sentence."), "2026-01-01", {"tensormargin": "0.2.0"}))
    >>> "&lt;b&gt;" in html
    True
    """
    jinja2 = from_extra("jinja2")
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("tensormargin.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html").render(page=page, in_percent=percent)


def write_page(path: str | Path, page: Page) -> None:
    """Write the page to an HTML file, atomically.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from tensormargin.report import Lead, Page, write_page
    >>> page = Page("A title", Lead("One sentence."), "2026-01-01", {"tensormargin": "0.2.0"})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_page(f"{folder}/report.html", page)
    ...     [path.name for path in Path(folder).iterdir()]
    ['report.html']
    """
    text = render(page)
    with replacing(path) as temporary:
        # names of files need not be UTF-8; the bytes that are not appear as \udc.. in the page
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace")


def picture(
    draw: Callable[..., Any],
    *arguments: Any,
    caption: str,
    alt: str = "",
    size: tuple[float, float] = (WIDTH, HEIGHT),
    **options: Any,
) -> Picture:
    """Return the figure drawn by a function of `tensormargin.plots`, as SVG of a size in inches."""
    plt = from_extra("matplotlib.pyplot")
    with plt.rc_context(_SETTINGS):
        axes = draw(*arguments, **options)
        figure = (axes.flat[0] if hasattr(axes, "flat") else axes).figure
        figure.set_size_inches(*size)
        source = _embedded(figure)
        plt.close(figure)
    return Picture(source, caption, alt)


def _embedded(figure: Any) -> str:
    """Return a figure as the address of an SVG image, with the colours of a dark page for readers who prefer that."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    buffer = io.BytesIO()
    canvas: Any = FigureCanvasSVG(figure)
    canvas.print_svg(buffer, metadata={"Date": None})  # savefig would draw it twice
    head, end, rest = buffer.getvalue().decode().partition("<defs>")
    return "data:image/svg+xml;base64," + base64.b64encode((head + _DARK_STYLE + end + rest).encode()).decode()


_RULES = "".join(
    f'[style*="{what}: {light}"]{{{what}:{dark}!important}}'
    for light, dark in _DARK.items()
    for what in ("fill", "stroke")
)
_DARK_STYLE = (
    "<style>@media screen and (prefers-color-scheme:dark){"
    f"text:not([style*='fill']){{fill:{_DARK['#000000']}}}{_RULES}}}</style>"
)


def interval_picture(
    rows: Sequence[tuple[str, float, float | None, float | None]],
    caption: str,
    chance: float | None = None,
    score: str = "accuracy",
) -> Picture | None:
    """Return a picture of scores with their intervals in percent, from rows (name, score, low, high).

    Rows without an interval are left out; None if no row is left.
    """
    drawn = [row for row in rows if row[2] is not None]
    if not drawn:
        return None
    names, *numbers = zip(*drawn, strict=True)
    percents = ([100 * number for number in column] for column in numbers)
    parts = [f"{name} {percent(mean)} % ({percent(low)} to {percent(high)})" for name, mean, low, high in drawn]
    level = "" if chance is None else f"; chance {percent(chance / 100)} %"
    options: dict[str, Any] = {"chance": chance, "name": f"{score} in %", "size": (WIDTH, 1.0 + 0.34 * len(drawn))}
    alt = f"{score.capitalize()} with 95 % intervals: {'; '.join(parts)}{level}."
    return picture(plot_comparison, names, *percents, caption=caption, alt=alt, **options)


def factor_pictures(model: Any, problem: int, view: str | None = None, axes: AnyAxes = None) -> list[Picture]:
    """Return one picture per mode of the factors of a weight; ``axes`` are those of the samples."""
    plt = from_extra("matplotlib.pyplot")
    shape = ModelChain.of(model).classifier.sample_shape_
    order = len(shape if view is None else shape[view])
    with plt.rc_context(_SETTINGS):
        figures = [plt.figure(figsize=(WIDTH, 0.85 * HEIGHT), layout="constrained") for _ in range(order)]
        panels = [figure.add_subplot() for figure in figures]
        plot_factors(model, problem=problem, view=view, axes=panels, mode_axes=axes)
        drawn = [
            Picture(_embedded(figure), "", f"{ax.get_title()}. {_peaks(ax)}")
            for figure, ax in zip(figures, panels, strict=True)
        ]
        for figure in figures:
            plt.close(figure)
    return drawn


def _peaks(ax: Any, most: int = 6) -> str:
    """Return the largest entry of each line of a panel in words; the first line is the axis."""
    lines, parts = ax.get_lines()[1:], []
    for number, line in enumerate(lines[:most], 1):
        values = np.nan_to_num(np.asarray(line.get_ydata(), float))
        place = int(np.abs(values).argmax())
        where = short_number(float(np.asarray(line.get_xdata(), float)[place]))
        parts.append(f"line {number} is largest at {where}: {short_number(float(values[place]))}")
    return "; ".join(parts) + (f"; and {len(lines) - most} more lines" if len(lines) > most else "") + "."
