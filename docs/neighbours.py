"""Write neighbours.md from the tests against other libraries: ``python docs/neighbours.py``.

`test_scikit_learn.py` and each file in `tests/guests` make one section. The first line of the file's docstring is
"Title: summary"; the rest of the docstring is the text. Lines between ``# page: lead-in`` and ``# page ends`` become a
code block below the lead-in. Snippets import what they use; the only other names are those in ``GIVEN``.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from textwrap import dedent
from typing import NamedTuple

TESTS = Path(__file__).parents[1] / "tests"
PAGE = Path(__file__).with_name("neighbours.md")
BEGIN, END = "# page: ", "# page ends"
GIVEN = ("X", "y", "X_new", "y_new", "groups", "epochs", "dataset", "images", "mask")

INTRODUCTION = """# Neighbours

How to use the classifiers with other libraries, and what does not work there. All snippets come from tests that run
against the real libraries (`pip install ".[guests]" && pytest tests/guests`).

In the snippets, `X` is an array of shape (samples, channels, times) unless the text says otherwise, `X_new` are more
samples, `y` holds the labels, and `groups` the subject or session of each sample. The [guide](guide/load.md#arrays)
lists which objects other than arrays `fit` and `predict` accept.
"""


class Snippet(NamedTuple):
    """Code for the page, and the sentence before it."""

    lead_in: str
    code: str


class Section(NamedTuple):
    """What one test file has to say about one library."""

    title: str
    summary: str
    text: str
    snippets: list[Snippet]

    @property
    def anchor(self) -> str:
        """The address of the section within the page."""
        return re.sub(r"[^\w -]", "", self.title.lower()).replace(" ", "-")


def section_of(path: Path) -> Section:
    """Return the section that a test file makes."""
    source = path.read_text(encoding="utf-8")
    head, _, text = (ast.get_docstring(ast.parse(source)) or "").partition("\n")
    title, colon, summary = head.partition(": ")
    if not colon:
        raise ValueError(f"{path}: the docstring must begin with 'Title: summary'; got {head!r}")
    return Section(title, summary, text.strip(), snippets_of(source, path))


def snippets_of(source: str, path: Path) -> list[Snippet]:
    """Return the marked code of a test file."""
    snippets, lead_in, lines = list[Snippet](), None, list[str]()
    for line in source.splitlines():
        stripped = line.strip()
        if lead_in is None and stripped.startswith(BEGIN):
            lead_in, lines = stripped.removeprefix(BEGIN), []
        elif lead_in is not None and stripped == END:
            snippets.append(Snippet(lead_in, dedent("\n".join(lines)).strip()))
            lead_in = None
        elif lead_in is not None:
            lines.append(line.partition("  # noqa")[0])
    if lead_in is not None:
        raise ValueError(f"{path}: a snippet must end with {END!r}; {lead_in!r} does not")
    return snippets


def sections() -> list[Section]:
    """Return all sections, scikit-learn first."""
    guests = [section_of(path) for path in (TESTS / "guests").glob("test_*.py")]
    first = section_of(TESTS / "estimators" / "test_scikit_learn.py")
    return [first, *sorted(guests, key=lambda one: one.title.lower())]


def page() -> str:
    """Return the page as Markdown."""
    found = sections()
    contents = "\n".join(f"- [{one.title}](#{one.anchor}): {one.summary}" for one in found)
    return "\n".join([INTRODUCTION, contents, *map(markdown, found)]) + "\n"


def markdown(section: Section) -> str:
    """Return one section as Markdown."""
    blocks = [f"{one.lead_in}\n\n```python\n{one.code}\n```" for one in section.snippets]
    return "\n\n".join([f"\n## {section.title}", *filter(None, [section.text]), *blocks])


if __name__ == "__main__":
    PAGE.write_text(page())
    print(f"wrote {PAGE.name}")
