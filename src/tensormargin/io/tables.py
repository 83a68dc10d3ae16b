"""Tables: named columns of text from CSV, TSV and whitespace-separated files."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

import numpy as np

from ..data import DEFAULT_RULES, BadFileError, FileRules, blaming_the_system, is_missing
from ..runtime import FloatArray, listed, quoted, shortened

_TABLES = (".csv", ".tsv")
_DECIMAL_COMMA = re.compile(r"[+-]?(\d+|\d{1,3}(\.\d{3})+)(,\d+)?([eE][+-]?\d+)?")
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}")
_BYTES_PER_BYTE = 30  # memory per byte of a table: values of one character are Python objects, too


def is_table(path: Path) -> bool:
    """Return whether this is the path of a table with a header."""
    return path.suffix.lower() in _TABLES


def is_list(path: Path) -> bool:
    """Return whether this is the path of a table or of a plain list with one value per line."""
    return path.suffix.lower() in (*_TABLES, ".txt")


@dataclass(frozen=True)
class Table:
    """Columns of text by name; messages count rows from 1, without the header."""

    path: Path
    columns: dict[str, list[str]]
    has_header: bool


def read_table(
    path: Path, list_of: str | None = None, headings: Collection[str] = (), rules: FileRules = DEFAULT_RULES
) -> Table:
    """Return the columns of a table; the first line names them.

    Columns are separated as the ending says, by another separator that all lines have, or by whitespace in other files.
    Numbers with decimal commas get points. A single column without a header gets the name ``list_of``, if that is
    given; it has one if the first line is one of the ``headings``, in lower case.
    """
    rules.check_file(path)
    rules.admit(path, _BYTES_PER_BYTE * path.stat().st_size, "the table")
    rows, separator = _rows(path)
    if not rows:
        raise BadFileError(f"{path}: is empty; its first line must name the columns, e.g. path,label")
    if list_of is not None and len(rows[0]) == 1 and rows[0][0].lower() not in headings:
        header, body = [list_of], rows
    else:
        header, *body = rows
        if not body:
            raise BadFileError(f"{path}: has the header {listed(header)}, but no rows; add one row per sample")
    repeated = [name for name, count in Counter(header).items() if count > 1]
    if repeated:
        raise BadFileError(
            f"{path}: has several columns named {listed(map(repr, repeated), len(repeated))}; rename all but one"
        )
    for number, row in enumerate(body, start=1):
        if len(row) != len(header):
            raise BadFileError(
                f"{path}: row {number} has {len(row)} values, but there are {len(header)} columns "
                f"({listed(header)}); every row must have one value for each"
            )
    columns = (_with_points(list(column), separator) for column in zip(*body, strict=True))
    return Table(path, dict(zip(header, columns, strict=True)), body is not rows)


def _with_points(values: list[str], separator: str) -> list[str]:
    """Return a column of numbers with decimal commas (1.234,5) with decimal points, and other columns as they are.

    Only a table with semicolons may write 1,234 for 1.234: elsewhere it may also be a thousand.
    """
    present = [value for value in values if not is_missing(value)]
    commas = [value for value in present if "," in value]
    if not commas or not all(_DECIMAL_COMMA.fullmatch(value) for value in present):
        return values
    if separator != ";" and all(_THOUSANDS.fullmatch(value) for value in commas):
        return values
    return [value if is_missing(value) else value.replace(".", "").replace(",", ".") for value in values]


def _rows(path: Path) -> tuple[list[list[str]], str]:
    """Return the values of every non-empty line, and what separates them."""
    try:
        with blaming_the_system(path):
            lines = path.read_text(encoding="utf-8-sig").splitlines()
        if not is_table(path):
            return [line.split() for line in lines if line.strip()], " "
        separator = _separator(path, lines)
        rows = csv.reader(lines, delimiter=separator, skipinitialspace=True)
        return [[value.strip() for value in row] for row in rows if any(value.strip() for value in row)], separator
    except (UnicodeDecodeError, OSError, csv.Error) as error:
        raise BadFileError(
            f"{path}: not a table in UTF-8 text ({shortened(str(error))}); save it again as CSV UTF-8"
        ) from error


def _separator(path: Path, lines: list[str]) -> str:
    """Return the separator of the ending, or the one that all lines have instead, such as ; in some locales."""
    usual = "\t" if path.suffix.lower() == ".tsv" else ","
    counts = {mark: {line.count(mark) for line in lines if line.strip()} for mark in (";", "\t", ",", "|")}
    if not lines or usual in lines[0]:
        return usual
    if usual == "," and ";" in lines[0]:  # whose cells may hold more of them, in quotes
        return ";"
    return next((mark for mark, found in counts.items() if len(found) == 1 and found != {0}), usual)


def finite_numbers(values: Sequence[str], rule: str, remedy: str, first_row: int = 0) -> FloatArray:
    """Return the entries of a column as numbers; the message for one that is none states rule, row and remedy."""
    found = np.empty(len(values))
    for row, text in enumerate(values):
        try:
            found[row] = float(text)
        except ValueError:
            found[row] = np.nan
        if not isfinite(found[row]):
            raise BadFileError(f"{rule}; row {first_row + row + 1} has {quoted(text)!r}. {remedy}")
    return found
