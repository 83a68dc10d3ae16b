"""Report pages made of sections, rendered as a single HTML file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..io import replacing
from ..runtime import percent
from .pictures import Picture


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


def cell(text: str, value: Any = None) -> dict[str, Any]:
    """Return a table cell with its sort key, ``value`` (by default its text)."""
    return {"text": text, "value": text if value is None else value}


def table(columns: Sequence[str], rows: Sequence[tuple[bool, Sequence[Mapping[str, Any]]]]) -> dict[str, Any]:
    """Return a table for the comparison template; each row is a pair of "is it the best" and its cells."""
    return {"columns": columns, "rows": [{"best": best, "cells": cells} for best, cells in rows]}


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


def render(page: Page) -> str:
    """Return the page as self-contained HTML; all text is escaped.

    Examples
    --------
    >>> from tensormargin.report import Lead, Page, render
    >>> html = render(Page("<b>", Lead("One sentence."), "2026-01-01", {"tensormargin": "0.2.0"}))
    >>> "&lt;b&gt;" in html
    True
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("tensormargin.report"),
        autoescape=True,
        undefined=StrictUndefined,
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
