"""What is known about samples beside them and their labels: groups and confounds, one value per sample.

Steps of a model that need them get them by name, in `fit` and in `transform`; under scikit-learn's metadata routing
without a request.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import _num_samples

from ..runtime import Array, to_host
from .validation import checked_groups, text_or_numbers

NEEDS = {
    "groups": "by_group=True needs groups, one per sample: the preparation scales every group by itself. Pass them to "
    "{method}(..., groups=groups), or use by_group=False",
    "confounds": "Deconfound needs confounds, one row per sample, to fit and to predict: what they explain is removed "
    "from the samples. Pass them to {method}(..., confounds=confounds), or leave the step out",
}
"""Error messages for metadata that a step needs and does not get, by name."""


@dataclass(frozen=True)
class Metadata:
    """Groups and confounds (a structured array, see `checked_confounds`) of samples, each None if there are none."""

    groups: Array | None = None
    confounds: Array | None = None

    @classmethod
    def of(cls, given: Any) -> Metadata:
        """Return metadata as they are; a vector is taken as groups."""
        return given if isinstance(given, Metadata) else cls(groups=given)

    @classmethod
    def checked(cls, X: Any, groups: Any, confounds: Any) -> Metadata:
        """Return the metadata of samples; raise ValueError if they are not one per sample."""
        return cls(checked_groups(X, groups), checked_confounds(X, confounds))

    def rows(self, rows: Any) -> Metadata:
        """Return the metadata of some of the samples."""
        return Metadata(*(None if one is None else one[rows] for one in (self.groups, self.confounds)))

    @property
    def given(self) -> dict[str, Array]:
        """The metadata that there are, by name."""
        return {name: value for name, value in vars(self).items() if value is not None}

    @property
    def content(self) -> tuple[Any, ...]:
        """Everything that determines results, for checkpoints."""
        return (self.groups,) if self.confounds is None else (self.groups, self.confounds)


NO_METADATA = Metadata()


def checked_confounds(X: Any, confounds: Any) -> Array | None:
    """Return confounds as a structured array with one entry per sample and one field per confound, float64 or text.

    Columns of both come in a data frame, a structured array, an array of objects, or a mapping of names to vectors. In
    an array of text, columns of numbers are numbers. Columns of other arrays are named "0", "1", ...
    """
    if confounds is None:
        return None
    columns = _columns(confounds)
    if not columns:
        raise ValueError("confounds must have at least one column; got none. Leave confounds out, or name some")
    n_samples = _num_samples(X)
    for name, column in columns.items():
        if len(column) != n_samples:
            raise ValueError(
                f"confounds must have one row per sample; got inconsistent numbers of samples: [{n_samples}, "
                f"{len(column)}] for {name!r}. Pass the confounds of the samples in X, in their order"
            )
    table = np.empty(n_samples, [(name, column.dtype) for name, column in columns.items()])
    for name, column in columns.items():
        table[name] = column
    return table


def names_of(confounds: Array) -> list[str]:
    """Return the names of checked confounds."""
    return list(confounds.dtype.names or ())


def _columns(confounds: Any) -> dict[str, Array]:
    """Return the columns by name, each as numbers (float64) or text."""
    if isinstance(confounds, np.ndarray) and confounds.dtype.names is not None:
        return {name: _column(confounds[name], name) for name in confounds.dtype.names}
    if isinstance(confounds, Mapping):
        return {str(name): _column(values, str(name)) for name, values in confounds.items()}
    if hasattr(confounds, "columns") and hasattr(confounds, "iloc"):
        names = [str(name) for name in confounds.columns]
        return {name: _column(confounds.iloc[:, k], name) for k, name in enumerate(names)}
    if hasattr(confounds, "iloc"):
        name = str(getattr(confounds, "name", None) or "0")
        return {name: _column(confounds, name)}
    table = np.asarray(confounds, object) if isinstance(confounds, list | tuple) else to_host(confounds)
    table = table[:, None] if table.ndim == 1 else table
    if table.ndim != 2:
        raise ValueError(
            f"confounds must have the shape (n_samples, n_confounds); got {table.shape}. Pass one row per sample"
        )
    return {str(k): _column(table[:, k], str(k), parse=table.dtype.kind in "UST") for k in range(table.shape[1])}


def _column(values: Any, name: str, parse: bool = False) -> Array:
    if str(getattr(values, "dtype", "")) == "category":
        values = values.astype(object)
        column = text_or_numbers([value if value is None or value != value else str(value) for value in values], name)
    else:
        column = text_or_numbers(values, f"confound {name!r}")
    if column.dtype.kind != "U":
        return column.astype(np.float64)
    with suppress(ValueError):
        return column.astype(np.float64) if parse else column
    return column


def check_needs(method: str, needed: set[str], metadata: Metadata) -> None:
    """Raise ValueError if something that is needed is not there."""
    for name in sorted(needed - set(metadata.given)):
        raise ValueError(NEEDS[name].format(method=method))
