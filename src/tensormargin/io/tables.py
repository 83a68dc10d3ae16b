"""Tables: named columns of text from CSV, TSV and whitespace-separated files, and covariates as numbers."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..data import DEFAULT_RULES, BadFileError, FileRules, check_regular
from ..runtime import FloatArray, listed, quoted, shortened

_TABLES = (".csv", ".tsv")
_MOST_CATEGORIES = 50  # of a covariate
_BYTES_PER_BYTE = 30  # memory per byte of a table: values of one character are Python objects, too


def is_table(path: Path) -> bool:
    """Return whether this is the path of a table with a header."""
    return path.suffix.lower() in _TABLES


def is_list(path: Path) -> bool:
    """Return whether this is the path of a table or of a plain list with one value per line."""
    return path.suffix.lower() in (*_TABLES, ".txt")


def is_missing(value: str) -> bool:
    """Return whether text stands for a missing value, such as "n/a" in BIDS."""
    return value.strip().lower() in ("", "na", "n/a", "nan")


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
    A single column without a header gets the name ``list_of``, if that is given; it has one if the first line is one of
    the ``headings``, in lower case.
    """
    check_regular(path)
    rules.admit(path, _BYTES_PER_BYTE * path.stat().st_size, "the table")
    rows = _rows(path)
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
    return Table(path, dict(zip(header, map(list, zip(*body, strict=True)), strict=True)), body is not rows)


def _rows(path: Path) -> list[list[str]]:
    """Return the values of every non-empty line."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
        if not is_table(path):
            return [line.split() for line in lines if line.strip()]
        rows = csv.reader(lines, delimiter=_separator(path, lines), skipinitialspace=True)
        return [[value.strip() for value in row] for row in rows if any(value.strip() for value in row)]
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


@dataclass(frozen=True)
class Coding:
    """How the columns of a table become numbers: their names, with their categories, None for numbers."""

    columns: tuple[tuple[str, tuple[str, ...] | None], ...]

    @classmethod
    def of(cls, path: Path, table: Mapping[str, Sequence[str]]) -> Coding:
        """Return the coding of the columns of a table; raise `BadFileError` for text with too many categories."""
        return cls(tuple((name, _categories(path, name, values)) for name, values in table.items()))

    @classmethod
    def from_facts(cls, facts: Sequence[Mapping[str, Any]] | None) -> Coding | None:
        """Return the coding that `facts` describes."""
        if facts is None:
            return None
        return cls(
            tuple((one["name"], None if one["categories"] is None else tuple(one["categories"])) for one in facts)
        )

    @property
    def facts(self) -> list[dict[str, Any]]:
        """The coding as JSON types."""
        return [
            {"name": name, "categories": None if categories is None else list(categories)}
            for name, categories in self.columns
        ]

    @property
    def entries(self) -> list[str]:
        """The name of each number: that of a column, or "column=category"."""
        return [
            entry
            for name, categories in self.columns
            for entry in ([name] if categories is None else [f"{name}={one}" for one in categories])
        ]

    def encode(self, path: Path, table: Mapping[str, Sequence[str]], rows: Sequence[int]) -> FloatArray:
        """Return the numbers of some rows of a table; NaN in all columns where a row has none of the covariates."""
        absent = [name for name, _ in self.columns if name not in table]
        if absent:
            raise BadFileError(
                f"{path}: has no covariate {quoted(absent[0])!r}; it has {listed(table)}. Give a table with the "
                f"columns {listed([name for name, _ in self.columns])}"
            )
        missing = np.array([[is_missing(table[name][row]) for row in rows] for name, _ in self.columns])
        partly = missing.any(axis=0) & ~missing.all(axis=0)
        if partly.any():
            place = int(partly.argmax())
            name = self.columns[int(missing[:, place].argmax())][0]
            raise BadFileError(
                f"{path}: row {rows[place] + 1} lacks the covariate {name!r} but has others (so {int(partly.sum())} "
                "rows in all). Fill it in, leave the column out (columns=..., command line: --covariate-columns), or "
                "leave all covariates of the row empty: the sample then counts as one that lacks this view"
            )
        return np.hstack([_encoded(path, name, table[name], rows, categories) for name, categories in self.columns])


def _number(value: str) -> float | None:
    try:
        number = float(value)
    except ValueError:
        return None
    return number if np.isfinite(number) else None


def _categories(path: Path, name: str, values: Sequence[str]) -> tuple[str, ...] | None:
    present = [value.strip() for value in values if not is_missing(value)]
    if not present:
        raise BadFileError(f"{path}: the covariate {name!r} has no values; leave it out (--covariate-columns)")
    if all(_number(value) is not None for value in present):
        return None
    found = sorted(set(present))
    if len(found) > _MOST_CATEGORIES or (len(found) == len(present) and len(present) > 2):
        raise BadFileError(
            f"{path}: the covariate {name!r} is text with {len(found)} different values in {len(present)} rows, such "
            f"as {quoted(found[0])!r}; a category must have several samples. Choose the columns to use with "
            "columns=... (command line: --covariate-columns)"
        )
    return tuple(found)


def _encoded(
    path: Path, name: str, values: Sequence[str], rows: Sequence[int], categories: tuple[str, ...] | None
) -> FloatArray:
    columns = np.full((len(rows), 1 if categories is None else len(categories)), np.nan)
    for place, row in enumerate(rows):
        value = values[row]
        if is_missing(value):
            continue
        if categories is None:
            number = _number(value)
            if number is None:
                raise BadFileError(
                    f"{path}: the covariate {name!r} must hold numbers; row {row + 1} has {quoted(value)!r}"
                )
            columns[place] = number
        elif value.strip() in categories:
            columns[place] = [value.strip() == one for one in categories]
        else:
            raise BadFileError(
                f"{path}: the covariate {name!r} has the value {quoted(value)!r} in row {row + 1}, which the "
                f"training samples did not have; they had {listed(categories)}. Leave all covariates of the row empty: "
                "the sample then counts as one that lacks this view"
            )
    return columns
