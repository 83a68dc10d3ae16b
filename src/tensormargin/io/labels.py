"""Find labels and groups by name, convert them to text or integers, read them from a separate file; unused groups."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from math import prod
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np

from ..data import (
    DEFAULT_RULES,
    BadFileError,
    FileRules,
    check_no_decimal_commas,
    is_missing,
    no_classes,
    text_or_numbers,
)
from ..runtime import Array, listed, quoted
from .arrays import Stored, open_arrays
from .options import DoesNotApplyError, GroupsName, Request, Select
from .samples import LABELS_FROM
from .tables import is_list, read_table

PATHS = ("path", "file", "filename")
LABELS = ("y", "labels", "label", "target", "targets")
GROUPS = ("groups", "group")

_UNITS = {
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
_PATTERNS = {unit: re.compile(f"({'|'.join(words)}){_SUFFIX}") for unit, words in _UNITS.items()}
ENTITIES = {"subject": "sub", "session": "ses", "run": "run"}
"""Units in the names of BIDS files, from the largest to the smallest."""
_WHOLE = re.compile(r"[+-]?(0|[1-9]\d{0,14})(\.0*)?")  # no leading zeros: 007 is a name, not a number
_NUMBER = re.compile(
    r"[+-]?(\d+(\.\d+)?|\.\d+)([eE][+-]?\d+)?"
)  # in linear time: digits follow on each other in one way
_QUICK, _QUICK_BYTES = (".npz", ".csv", ".tsv"), 2**24  # files whose labels are read at once, and the most of them
_EXACT = 2.0**53  # up to here floating-point numbers represent all integers exactly


def choose_entry(
    path: Path, held: Mapping[str, object], wanted: str | None, usual: Sequence[str], option: str
) -> str | None:
    """Return the wanted name, or the first usual name that is present in upper or lower case, or None."""
    if wanted is not None:
        if wanted not in held:
            raise DoesNotApplyError(
                f"{path}: has no {quoted(wanted)!r}; it holds {describe(held)}: give one of them as {option}=... "
                f"(command line: --{option})",
                option,
            )
        return wanted
    lower = {name.lower(): name for name in held}
    return next((name if name in held else lower[name.lower()] for name in usual if name.lower() in lower), None)


def choose_labels(path: Path, held: Mapping[str, object], wanted: str | None, groups: GroupsName) -> str | None:
    """Return the name of the labels, see `choose_entry`; the array or column named as groups is not considered."""
    if wanted is not None and wanted == groups:
        raise BadFileError(
            f"{path}: {wanted!r} is given as labels and as groups, but a class that is also a group is never on both "
            "sides of a split; give another groups=... (command line: --groups), or groups=False (--no-groups)"
        )
    return choose_entry(path, {name: held[name] for name in held if name != groups}, wanted, LABELS, "labels")


def choose_groups(
    path: Path, held: Mapping[str, object], wanted: GroupsName, labels: Collection[str | None]
) -> str | None:
    """Return the name of the groups, see `choose_entry`; labels are used as groups only if named explicitly."""
    if wanted is False:
        return None
    left = {name: held[name] for name in held if wanted is not None or name not in labels}
    return choose_entry(path, left, wanted, GROUPS, "groups")


def describe(held: Mapping[str, object]) -> str:
    """Return the names of all entries as text, with the shapes of arrays."""
    words = (f"{quoted(name)} {item.shape}" if isinstance(item, Stored) else name for name, item in held.items())
    return listed(words, len(held)) or "nothing"


def clean(path: Path, values: Array, what: str) -> Array:
    """Return labels or groups as a vector of text or integers; raise `BadFileError` for missing or other values."""
    if values.ndim == 2 and 1 in values.shape:
        values = values.ravel()
    if values.ndim != 1:
        raise BadFileError(f"{path}: {what} must be a vector, one value per sample; the shape is {values.shape}")
    if values.dtype.kind == "S":
        values = np.char.decode(values, "utf-8")
    if values.dtype.kind in "UT":
        text = np.array([value.strip() for value in values.tolist()], str)
        _refuse_rows(path, what, [value.lower() in ("", "nan") for value in text.tolist()], "no value")
        return text
    if values.dtype.kind in "iu":
        return np.array(values)  # a copy, not a memory map
    if values.dtype.kind == "b":
        return values.astype(np.int64)
    if values.dtype.kind != "f":
        raise BadFileError(f"{path}: {what} must be text or integers; got {values.dtype}")
    _refuse_rows(path, what, np.isnan(values), "no value (NaN)")
    odd = (values != np.rint(values)) | (np.abs(values) > _EXACT)
    if what == "labels" and odd[np.isfinite(values)].sum() > max(1, 0.1 * len(odd)):  # rather than slips
        _check_classes(path, values)
    _refuse_rows(path, what, odd, "a value that is not an integer")
    return values.astype(np.int64)


def _check_classes(path: Path, values: Array, in_folds: bool = False) -> None:
    """Raise `BadFileError` for labels that are no classes."""
    if why := no_classes(values, in_folds):
        raise BadFileError(f"{path}: labels {why}")


def _refuse_rows(path: Path, what: str, bad: Iterable[bool], fault: str) -> None:
    rows = [number for number, is_bad in enumerate(bad, start=1) if is_bad]
    if rows:
        more = f" (and {len(rows) - 1} more row{'s' * (len(rows) > 2)})" if len(rows) > 1 else ""
        raise BadFileError(
            f"{path}: {what} must be text or integers; row {rows[0]} has {fault}{more}. Correct it, or leave that "
            "sample out"
        )


def from_text(path: Path, values: Sequence[str], what: str) -> Array:
    """Return a column of text as labels or groups: as integers if all values are, including the form 1.0."""
    text = clean(path, np.array(values, str), what)
    if all(_WHOLE.fullmatch(value) for value in text.tolist()):
        return np.array([int(value.partition(".")[0]) for value in text.tolist()], np.int64)
    if what == "labels" and all(_NUMBER.fullmatch(value) for value in text.tolist()):
        ranks = np.unique(text.astype(np.float64), return_inverse=True)[1]  # 0.5 and 1.5 may be names of classes
        _check_classes(path, ranks, in_folds=True)
    return text


def as_labels(path: Path, column: Any, what: str) -> Array:
    """Return an array in a file, or a column of text or numbers, as labels or groups."""
    if isinstance(column, Stored):
        return clean(path, np.atleast_1d(column.read()), what)
    values = np.asarray(column)
    return from_text(path, values.tolist(), what) if values.dtype.kind in "UT" else clean(path, values, what)


def choose_columns(
    path: Path, columns: Mapping[str, Any], usual: str | None, request: Request, paths: str | None = None
) -> dict[str, Any]:
    """Return target, groups, confounds and warnings from columns; ``usual`` is that of labels, ``paths`` of samples."""
    select = request.select
    label = usual if select.labels is None and usual is not None and usual != select.groups else None
    label = label or choose_labels(path, columns, select.labels, select.groups)
    if label is None and request.need_labels:
        no_labels(path, columns)
    not_groups = (label, request.other_labels)
    return {
        "target": None if label is None else as_labels(path, columns[label], "labels"),
        "groups": groups_in(path, columns, select.groups, not_groups),
        "confounds": confounds_in(path, columns, select.confounds) or None,
        "warnings": unused_groups(path, {one: own for one, own in columns.items() if one not in (*not_groups, paths)}),
    }


class Labels(NamedTuple):
    """Labels and groups from a separate file.

    ``others`` are columns that may be groups, ``columns`` those that may name the samples, None for an array in memory.
    """

    path: Path
    name: str
    target: Array
    groups: Array | None
    confounds: Mapping[str, Array] = {}
    others: Mapping[str, Array] = {}
    columns: Mapping[str, Sequence[str]] | None = None
    hint: str = ""


def read_labels(source: Any, select: Select, rules: FileRules = DEFAULT_RULES) -> Labels:
    """Return labels, and groups and confounds if present, from a separate file or from the given array."""
    if not isinstance(source, str | Path):
        given = Path("labels_from")  # its name in messages
        return Labels(given, "labels", clean(given, text_or_numbers(source, "labels_from"), "labels"), None)
    path = Path(source)
    if not path.is_file():
        raise BadFileError(f"{path}: no such file; labels_from (command line: --labels-from) is a file with labels")
    if not is_list(path):
        with open_arrays(path, rules=rules) as held:
            only = next(iter(held)) if len(held) == 1 else None
            found = _labels_in(path, held, select, only, "keep them alone in the file")
            text = {
                one: own for one, own in held.items() if own.dtype.kind in "SUT" and own.shape == found.target.shape
            }
            named = {one: clean(path, own.read(), one).tolist() for one, own in _not_used(text, found, select).items()}
            others = likely_groups(held, (found.name,), len(found.target))
            return found._replace(others=others, columns=named)
    table = read_table(path, "label" if select.labels is None else None, (*LABELS, *GROUPS, *PATHS), rules)
    found = _labels_in(path, table.columns, select, None, "name the columns in the first line")
    others = {one: np.array(own) for one, own in table.columns.items() if one != found.name and unit_of(one)}
    hint = "" if table.has_header else "; if its first line names the column, give it as labels=... (--labels)"
    return found._replace(others=others, columns=_not_used(table.columns, found, select), hint=hint)


def _not_used(columns: Mapping[str, Any], found: Labels, select: Select) -> dict[str, Any]:
    """Return the columns that are neither labels nor groups or confounds."""
    groups = choose_groups(found.path, columns, select.groups, (found.name,)) if found.groups is not None else None
    return {one: own for one, own in columns.items() if one not in (found.name, groups, *select.confounds)}


def quick_classes(path: Path, labels: str | None = None) -> list[str]:
    """Return the classes of a file or folder, if they can be read at once, without the samples; none otherwise."""
    table = path / "participants.tsv"
    if path.is_dir() and not table.is_file():
        return sorted(one.name for one in path.iterdir() if one.is_dir() and not one.name.startswith("."))
    path = table if path.is_dir() else path
    if path.suffix.lower() not in _QUICK:
        return []
    rules = FileRules(max_bytes=_QUICK_BYTES)
    found = read_labels(path, Select(labels=labels), rules.inside(path.parent) if path == table else rules)
    return [str(one) for one in np.unique(found.target).tolist()]


def _labels_in(path: Path, held: Mapping[str, Any], select: Select, only: str | None, remedy: str) -> Labels:
    """Return what a file of labels holds; groups that are named may be in the file of samples instead."""
    name = choose_labels(path, held, select.labels, select.groups) or only or no_labels(path, held, remedy)
    target = as_labels(path, held[name], "labels")
    groups = None
    if not select.groups or select.groups in held:
        groups = groups_in(path, held, select.groups, (name,))
    return Labels(path, name, target, groups, confounds_in(path, held, select.confounds))


def no_labels(path: Path, held: Mapping[str, object], remedy: str = LABELS_FROM) -> NoReturn:
    """Raise `BadFileError` for a file without labels."""
    raise BadFileError(
        f"{path}: has no labels under the names {', '.join(LABELS)}; it holds {describe(held)}: give the right one as "
        f"labels=... (command line: --labels), or {remedy}"
    )


def groups_in(path: Path, held: Mapping[str, Any], groups: GroupsName, labels: Collection[str | None]) -> Array | None:
    """Return the groups among arrays or columns, None if there are none besides the labels."""
    name = choose_groups(path, held, groups, labels)
    return None if name is None else as_labels(path, held[name], "groups")


def confounds_in(path: Path, held: Mapping[str, Any], names: Collection[str]) -> dict[str, Array]:
    """Return those of the named arrays or columns that exist, as numbers or text; columns of text may be numbers."""
    found = {}
    for name in names:
        if name not in held:
            continue
        column = held[name]
        values = column.read().ravel() if isinstance(column, Stored) else np.array([str(one) for one in column], str)
        values = np.char.decode(values, "utf-8") if values.dtype.kind == "S" else values
        values = values.astype(str if values.dtype.kind in "UT" else np.float64)
        if values.dtype.kind == "f":
            missing = ~np.isfinite(values)
        else:
            missing = np.array([is_missing(value) for value in values.tolist()])
        if missing.any():
            raise BadFileError(
                f"{path}: the confound {name!r} must have a value for every sample; row {int(missing.argmax()) + 1} "
                f"has none ({int(missing.sum())} rows in all). Fill it in, or leave those samples out"
            )
        if values.dtype.kind == "U":
            check_no_decimal_commas(f"{path}: the confound {name!r}", values.tolist(), BadFileError)
        found[name] = values
        if not isinstance(column, Stored):
            with suppress(ValueError):
                found[name] = values.astype(np.float64)
    return found


def likely_groups(held: Mapping[str, Stored], taken: Collection[str | None], n_samples: int) -> dict[str, Array]:
    """Return the arrays of a container whose names suggest groups and that have one value per sample."""
    return {
        name: stored.read().ravel()
        for name, stored in held.items()
        if name not in taken
        and unit_of(name)
        and stored.is_readable
        and max(stored.shape, default=0) == prod(stored.shape) == n_samples
    }


def unit_of(name: str) -> str | None:
    """Return the unit that the name of a column or array suggests ("subject", "run"), None if it suggests none."""
    plain = re.sub(r"[^a-z]", "", name.rpartition("/")[2].lower())
    return next((unit for unit, pattern in _PATTERNS.items() if pattern.fullmatch(plain)), None)


def entity(name: str, unit: str) -> str | None:
    """Return the subject, session or run of a file by its BIDS name ("sub-01"), None if it does not state it."""
    found = re.search(rf"(?:^|[/_\\])({ENTITIES[unit]}-[A-Za-z0-9]+)", name)
    return found[1] if found else None


def unused_groups(path: Path, columns: Mapping[str, Sequence[Any] | Array]) -> tuple[str, ...]:
    """Return a warning if a column or array with one value per sample looks like groups, otherwise nothing."""
    for name, unit, n_groups in _likely_groups(columns):
        remedy = f"Use it with groups={name!r} (command line: --groups {name})"
        if n_groups == 2:
            remedy = f"{_TWO}, or choose a model without testing it (--groups {name} --outer-folds 0)"
        warning = (
            f"{name!r} has {n_groups} different values for {len(columns[name])} samples, but is not used: "
            f"{_danger(unit)}. {remedy}, or pass groups=False (--no-groups) if the samples are independent"
        )
        return (f"{path}: {warning}",)
    return ()


def groups_in_columns(columns: Mapping[str, Sequence[Any] | Array]) -> str | None:
    """Return a warning if metadata of X, given in Python, look like groups, otherwise None."""
    for name, unit, n_groups in _likely_groups(columns):
        return (
            f"X has {n_groups} different values of {name!r} for {len(columns[name])} samples, and there are no groups: "
            f"{_danger(unit)}. Pass them as groups=..., e.g. groups=epochs.metadata[{name!r}]"
        )
    return None


def _likely_groups(columns: Mapping[str, Sequence[Any] | Array]) -> Iterator[tuple[str, str, int]]:
    """Yield the columns that look like groups with their unit and number of groups, from the largest unit on."""
    units = {name: unit for name in columns if (unit := unit_of(name)) is not None}
    for name in sorted(units, key=lambda name: list(_UNITS).index(units[name])):
        n_groups = _count(columns[name])
        if n_groups:
            yield name, units[name], n_groups


def groups_in_names(names: Sequence[str]) -> str | None:
    """Return a warning if BIDS file names ("sub-01_run-2") share a subject, session or run, otherwise None."""
    for unit, key in ENTITIES.items():
        values = [value for name in names if (value := entity(name, unit))]
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
