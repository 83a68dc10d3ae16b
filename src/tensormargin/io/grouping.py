"""Detect unused groups: columns, arrays and file names that suggest which samples belong together."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..runtime import Array

_WORDS = {
    "subject": ("subject", "subj", "sub", "participant", "patient", "person", "individual", "volunteer"),
    "animal": ("animal", "mouse", "rat", "monkey"),
    "donor": ("donor",),
    "session": ("session", "ses", "visit"),
    "recording": ("recording", "record", "scan"),
    "run": ("run", "block", "chunk"),
    "group": ("group",),
}
"""Usual names of groupings by unit, from the largest unit to the smallest."""
_TWO = "Two groups are too few to choose a model and to test it: name smaller ones (runs, blocks) with --groups"
_SUFFIX = "(s|id|ids|nr|no|num|number|name|code|index|label)?"
_PATTERNS = {unit: re.compile(f"({'|'.join(words)}){_SUFFIX}") for unit, words in _WORDS.items()}
_BIDS = {"subject": "sub", "session": "ses", "run": "run"}


def unit_of(name: str) -> str | None:
    """Return the unit that the name of a column or array suggests ("subject", "run"), None if it suggests none."""
    plain = re.sub(r"[^a-z]", "", name.rpartition("/")[2].lower())
    return next((unit for unit, pattern in _PATTERNS.items() if pattern.fullmatch(plain)), None)


def unused_grouping(columns: Mapping[str, Sequence[Any] | Array]) -> str | None:
    """Return a warning if a column or array with one value per sample looks like groups, otherwise None."""
    units = {name: unit for name in columns if (unit := unit_of(name)) is not None}
    for name in sorted(units, key=lambda name: list(_WORDS).index(units[name])):
        n_groups = _count(columns[name])
        if n_groups:
            remedy = f"Use it with groups={name!r} (command line: --groups {name})"
            if n_groups == 2:
                remedy = f"{_TWO}, or choose a model without testing it (--groups {name} --outer-folds 0)"
            return (
                f"{name!r} has {n_groups} different values for {len(columns[name])} samples, but is not used: "
                f"{_danger(units[name])}. {remedy}, or pass groups=False (--no-groups) if the samples are independent"
            )
    return None


def grouping_in_names(names: Sequence[str]) -> str | None:
    """Return a warning if BIDS file names ("sub-01_run-2") share a subject, session or run, otherwise None."""
    for unit, key in _BIDS.items():
        told = re.compile(rf"(?:^|[/_\\]){key}-([A-Za-z0-9]+)")
        values = [match.group(1) for name in names if (match := told.search(name))]
        if len(set(values)) < 2:
            continue  # a single subject: there may still be several sessions or runs
        n_groups = _count(values)
        if not n_groups:
            return None
        give = f"{_TWO}; give" if n_groups == 2 else "Give"
        return (
            f"by their names ({key}-...), {len(values)} files are of {n_groups} {unit}s, and there are no groups: "
            f"{_danger(unit)}. {give} a table with the columns path, label and group (for a folder with "
            "labels_from=..., command line --labels-from), or pass groups=False (--no-groups) if the samples are "
            "independent"
        )
    return None


def _danger(unit: str) -> str:
    return f"samples of one {unit} may be in the training set and in the test set, which inflates accuracy"


def _count(values: Sequence[Any] | Array) -> int:
    """Return the number of groups; 0 if all samples are in one group, or each in its own."""
    n_groups = len(np.unique(np.asarray(values)))
    return n_groups if 1 < n_groups < len(values) else 0
