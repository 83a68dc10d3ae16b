"""Covariates of samples from a table: numbers, and text as one column per category."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..data import BadFileError
from ..runtime import FloatArray, listed, quoted
from .tables import is_missing

_MOST_CATEGORIES = 50


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
