"""Numbers, names and lists as messages and pages show them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

_MOST_NAMES = 10  # quoted in a message
_MOST_NAME = 60  # characters of a name
_MOST_TEXT = 300  # characters of a library's text


def percent(value: float | None) -> str:
    """Return a share in percent with one decimal, "-" for None."""
    return "-" if value is None else f"{_rounded(100 * value):.1f}"


def points(difference: float) -> str:
    """Return a difference of two shares in percentage points with its sign; none if it rounds to zero."""
    value = _rounded(100 * difference)
    return f"{value:+.1f}" if value else "0.0"


def short_number(value: float) -> str:
    """Return a number with three significant digits."""
    return f"{value + 0.0:.3g}"  # adding zero removes the sign of -0.0


def _rounded(value: float) -> float:
    """Return a number rounded to one decimal, never -0; equal shares that were computed differently stay equal."""
    return round(round(value, 9), 1) + 0.0


def in_bytes(number: int) -> str:
    """Return a number of bytes in words."""
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if number >= factor:
            return f"{number / factor:.3g} {unit}" if number < 1000 * 10**9 else f"{number / 10**9:.0f} GB"
    return f"{number} bytes"


def escaped(text: str, keep: str = "\n\t") -> str:
    r"""Return text with characters that cannot be seen as escapes, such as ``\x1b``, but for those to keep.

    These are control characters, marks of direction, zero-width characters, line separators, blanks other than the
    space, and surrogates: a terminal would obey them, or show another text than there is.
    """
    if text.translate(dict.fromkeys(map(ord, keep))).isprintable():
        return text
    return "".join(char if char.isprintable() or char in keep else ascii(char)[1:-1] for char in text)


def quoted(name: str) -> str:
    """Return a name as a message shows it: `escaped`, and cut if it is long."""
    shown = escaped(name[: _MOST_NAME + 1], keep="")
    return shown if len(name) <= _MOST_NAME else f"{shown[:_MOST_NAME]}..."


def counted(number: int, one: str, several: str | None = None) -> str:
    """Return a number with its noun, in the plural if needed."""
    return f"{number} {one if number == 1 else several or f'{one}s'}"


def listed(names: Iterable[str], total: int | None = None, most: int = _MOST_NAMES) -> str:
    """Return the first names with commas, and how many more there are (``total``, if names are made one by one)."""
    if total is None:
        names = list(names)
        total = len(names)
    first = ", ".join(quoted(name) for name in islice(names, most))
    return first + (f" and {total - most} more" if total > most else "")


def join_with_and(names: Iterable[object]) -> str:
    """Return all names as a list in words: "a, b and c"."""
    *first, last = map(str, names)
    return f"{', '.join(first)} and {last}" if first else last


def shortened(text: str) -> str:
    """Return the text of a library's error as a message quotes it: one line, cut if it is long."""
    shown = escaped(" ".join(text[: 2 * _MOST_TEXT].split()), keep="")
    return shown if len(shown) <= _MOST_TEXT else f"{shown[:_MOST_TEXT]}..."
