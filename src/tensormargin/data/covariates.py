"""Covariates as numbers: columns of numbers, and of text as one column of zeros and ones per category."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from ..runtime import Array, FloatArray, listed, quoted
from .axes import Axes, Axis
from .limits import BadFileError

COVARIATE = "covariate"  # name of the mode of a view that holds one column per covariate
_MOST_CATEGORIES = 50  # of a covariate
_WITH_COMMA = re.compile(r"[+-]?\d[\d.,]*([eE][+-]?\d+)?")


def is_missing(value: str) -> bool:
    """Return whether text stands for a missing value, such as "n/a" in BIDS."""
    return value.strip().lower() in ("", "na", "n/a", "nan")


def check_no_decimal_commas(what: str, values: Iterable[str], kind: type[ValueError] = ValueError) -> None:
    """Raise an error of this kind for text that is a column of numbers with commas, which would become categories."""
    present = [value for value in values if not is_missing(value)]
    comma = next((value for value in present if "," in value), None)
    if comma is not None and all(_WITH_COMMA.fullmatch(value.strip()) for value in present):
        raise kind(
            f"{what} must have numbers with a decimal point, or text; got {quoted(comma)!r}. Write 64.8 for 64,8 and "
            "1234 for 1,234 (pandas.read_csv: decimal=',' or thousands=',')"
        )


@dataclass(frozen=True)
class Coding:
    """How the columns of a table become numbers: their names, with their categories, None for numbers."""

    columns: tuple[tuple[str, tuple[str, ...] | None], ...]

    @classmethod
    def of(cls, source: Any, table: Mapping[str, Sequence[str]]) -> Coding:
        """Return the coding of the columns of a table; raise `BadFileError` for text with too many categories."""
        return cls(tuple((name, _categories(source, name, values)) for name, values in table.items()))

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

    def encode(self, source: Any, table: Mapping[str, Sequence[str]], rows: Sequence[int]) -> FloatArray:
        """Return the numbers of some rows of a table; NaN in all columns where a row has none of the covariates."""
        absent = [name for name, _ in self.columns if name not in table]
        if absent:
            raise BadFileError(
                f"{source}: has no covariate {quoted(absent[0])!r}; it has {listed(table)}. Give a table with the "
                f"columns {listed([name for name, _ in self.columns])}"
            )
        missing = np.array([[is_missing(table[name][row]) for row in rows] for name, _ in self.columns])
        partly = missing.any(axis=0) & ~missing.all(axis=0)
        if partly.any():
            place = int(partly.argmax())
            name = self.columns[int(missing[:, place].argmax())][0]
            raise BadFileError(
                f"{source}: row {rows[place] + 1} lacks the covariate {name!r} but has others (so {int(partly.sum())} "
                "rows in all). Fill it in, leave the column out (columns=..., command line: --covariate-columns), or "
                "leave all covariates of the row empty: the sample then counts as one that lacks this view"
            )
        return np.hstack([_encoded(source, name, table[name], rows, categories) for name, categories in self.columns])


def coded(name: str, values: Any) -> tuple[FloatArray, Axes] | None:
    """Return a data frame with text, or a vector of text, as numbers with the names of their columns; None for others.

    ``name`` is that of the only column of a vector. Text is a category whatever it looks like.
    """
    columns = _columns(name, values)
    table = {own: [_text(cell) for cell in cells] for own, cells in columns}
    if len(table) < len(columns):
        raise ValueError(f"covariates must have different names; got {listed(own for own, _ in columns)}")
    categories: dict[str, tuple[str, ...] | None] = {}
    for own, cells in columns:
        numbers = all(
            isinstance(cell, Real | np.bool_) or not text for cell, text in zip(cells, table[own], strict=True)
        )
        if not numbers:
            check_no_decimal_commas(f"the covariate {own!r}", table[own])
        categories[own] = None if numbers else tuple(sorted({text for text in table[own] if text}))
        if len(categories[own] or ()) > _MOST_CATEGORIES:
            raise ValueError(
                f"a covariate of text may have at most {_MOST_CATEGORIES} categories; {own!r} has "
                f"{len(categories[own] or ())}. Leave it out, or put its values into fewer categories"
            )
    if not columns:
        return None
    coding = Coding(tuple(categories.items()))
    return coding.encode("covariates", table, range(len(columns[0][1]))), (Axis(COVARIATE, "", coding.entries),)


def _columns(name: str, values: Any) -> list[tuple[str, Array]]:
    """Return the columns of a data frame, or a vector, that may hold text; none if they hold numbers."""
    if hasattr(values, "iloc") and values.ndim == 2:
        if all(getattr(dtype, "kind", "O") in "biuf" for dtype in values.dtypes):
            return []
        return [(str(own), np.asarray(values.iloc[:, at], object)) for at, own in enumerate(values.columns)]
    if not isinstance(values, list | tuple | np.ndarray) and not hasattr(values, "iloc"):
        return []
    vector = np.asarray(values)
    return [(name, vector.astype(object))] if vector.ndim == 1 and vector.dtype.kind in "OUT" else []


def _text(cell: Any) -> str:
    """Return a value as text, nothing if it is missing."""
    text = str(float(cell)) if isinstance(cell, bool | np.bool_) else str(cell).strip()
    return "" if cell is None or text in ("<NA>", "NaT") or is_missing(text) else text


def like_known(X: FloatArray, given: Sequence[str], known: Sequence[str]) -> FloatArray:
    """Return covariates, whose columns have these names, with those of a fit: zeros for categories that none has.

    Raises ValueError for a category that the training samples did not have. Columns that differ in another way stay.
    """
    places = {entry: place for place, entry in enumerate(given)}
    columns = []
    for entry in known:
        owner = entry.partition("=")[0]
        others = [place for one, place in places.items() if one == entry or one.partition("=")[0] == owner]
        if entry not in places and (entry == owner or not others):
            return X
        columns.append(X[:, places[entry]] if entry in places else 0.0 * X[:, others[0]])
    for entry in given:
        owner, _, value = entry.partition("=")
        seen = [one.partition("=")[2] for one in known if one.startswith(f"{owner}=")]
        column = X[:, places[entry]]
        if entry not in known and not (seen and (value or np.isnan(column).all())):
            return X
        if entry not in known and np.any(column == 1):
            raise ValueError(
                f"the covariate {owner!r} has the value {value!r}, which the training samples did not have; they had "
                f"{listed(seen)}. Make all covariates of such samples NaN, so that they count as lacking this view"
            )
    return np.column_stack(columns)


def _number(value: str) -> float | None:
    try:
        number = float(value)
    except ValueError:
        return None
    return number if np.isfinite(number) else None


def _categories(source: Any, name: str, values: Sequence[str]) -> tuple[str, ...] | None:
    present = [value.strip() for value in values if not is_missing(value)]
    if not present:
        raise BadFileError(f"{source}: the covariate {name!r} has no values; leave it out (--covariate-columns)")
    if all(_number(value) is not None for value in present):
        return None
    check_no_decimal_commas(f"{source}: the covariate {name!r}", present, BadFileError)
    found = sorted(set(present))
    if len(found) > _MOST_CATEGORIES or (len(found) == len(present) and len(present) > 2):
        raise BadFileError(
            f"{source}: the covariate {name!r} is text with {len(found)} different values in {len(present)} rows, such "
            f"as {quoted(found[0])!r}; a category must have several samples. Choose the columns to use with "
            "columns=... (command line: --covariate-columns)"
        )
    return tuple(found)


def _encoded(
    source: Any, name: str, values: Sequence[str], rows: Sequence[int], categories: tuple[str, ...] | None
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
                    f"{source}: the covariate {name!r} must hold numbers; row {row + 1} has {quoted(value)!r}"
                )
            columns[place] = number
        elif value.strip() in categories:
            columns[place] = [value.strip() == one for one in categories]
        else:
            raise BadFileError(
                f"{source}: the covariate {name!r} has the value {quoted(value)!r} in row {row + 1}, which the "
                f"training samples did not have; they had {listed(categories)}. Leave all covariates of the row empty: "
                "the sample then counts as one that lacks this view"
            )
    return columns
