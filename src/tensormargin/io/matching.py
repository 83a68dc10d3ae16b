"""Which row of a table, or sample of another file, belongs to which sample: by file names or ids, or else by order."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import prod
from os.path import realpath
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..data import BadFileError, FileRules
from ..runtime import Array, listed, quoted
from .arrays import Stored, container_kind, open_arrays
from .labels import PATHS, Labels, clean, entity, from_text
from .samples import SampleSet
from .tables import is_list, read_table

IDS = ("id", "ids", "sample_id", "sample_ids", "participant_id", "subject_id")
_USUAL = (*PATHS, *IDS)
_MOST_FOLDERS = 8  # of a path that are compared
_ENDING = re.compile(r"(\.nii\.gz|\.[a-z][a-z0-9]{0,4})$", re.IGNORECASE)


class Matching(NamedTuple):
    """The row of each sample (-1 for none), the column by which it was found, and how many rows name no sample."""

    rows: Array
    column: str
    unused: int

    @property
    def note(self) -> str:
        """Rows that name no sample, in words."""
        return f"; rows that name no sample: {self.unused}" if self.unused else ""


class RepeatedNameError(BadFileError):
    """Raised for a column that names a sample in several rows."""


def ids_in(path: Path, n_samples: int, rules: FileRules) -> Array | None:
    """Return the sample ids in a container or table, as text; None if it has none."""
    if container_kind(path) is not None:
        with open_arrays(path, rules=rules) as held:
            vectors = [one for one, stored in held.items() if max(stored.shape, default=0) == n_samples]
            name = next((one for one in vectors if one.lower() in (*IDS, *PATHS) and _is_vector(held[one])), None)
            return None if name is None else clean(path, held[name].read().ravel(), "ids").astype(str)
    if path.is_file() and is_list(path):
        columns = read_table(path, "label", IDS, rules).columns
        name = next((one for one in columns if one.lower() in IDS), None)
        if name is not None and len(columns[name]) == n_samples:
            return from_text(path, columns[name], "ids").astype(str)
    return None


def _is_vector(stored: Stored) -> bool:
    return stored.is_readable and max(stored.shape, default=0) == prod(stored.shape)


# ---- by names ----


def match_names(
    table: Path, names: Sequence[str], columns: Mapping[str, Sequence[str]], folder: Path | None = None
) -> Matching | None:
    """Return the rows of the column that names most samples, whatever it is called; None if there is none.

    ``names`` are ids, which may repeat, or with a ``folder`` the paths of files in it. A column may name files by their
    paths, relative to the folder, to the table or to any folder above, with or without folders and endings, or by
    their subjects in BIDS. Columns of usual names come first; others must name at least half of the samples.
    """
    found = list[_Candidate]()
    for candidates in _candidates(table, names, columns, folder):
        found += candidates
        if any(each.repeated is None and each.n_named == len(names) for each in candidates):
            break
    distinct = [each for each in found if each.repeated is None]
    if not distinct:
        if found:
            raise RepeatedNameError(
                f"{table}: its column {quoted(found[0].column)!r} names {quoted(str(found[0].repeated))!r} twice; "
                "every sample must have one row"
            )
        return None
    best = max(distinct, key=lambda each: each.n_named)
    rival = next((each for each in distinct if each.contradicts(best)), None)
    if rival is not None and best.column.lower() not in _USUAL:
        raise BadFileError(
            f"{table}: the columns {quoted(best.column)!r} and {quoted(rival.column)!r} both name the samples, and "
            f"they disagree; call the right one {PATHS[0]}, or leave the other out"
        )
    return Matching(best.rows, best.column, len(columns[best.column]) - len(set(best.rows[best.rows >= 0].tolist())))


class _Candidate(NamedTuple):
    """A column that names samples: how many, in which rows, and an entry that is in several rows."""

    column: str
    n_named: int
    rows: Array
    repeated: str | None

    def contradicts(self, other: _Candidate) -> bool:
        """Return whether this column names as many samples as another one, in other rows."""
        return self.n_named == other.n_named and self.column != other.column and (self.rows != other.rows).any()


def _candidates(
    table: Path, names: Sequence[str], columns: Mapping[str, Sequence[str]], folder: Path | None
) -> Iterator[list[_Candidate]]:
    """Yield the columns that name samples, for each form of a name; those with usual names first."""
    if folder is None and all(re.fullmatch(r"[\d.]+", name) for name in names):  # so may other numbers
        columns = {one: entries for one, entries in columns.items() if one.lower() in _USUAL}
    order = sorted(columns, key=lambda one: _USUAL.index(one.lower()) if one.lower() in _USUAL else len(_USUAL))
    cleaned = {column: [_plain(entry) for entry in columns[column]] for column in order}
    for own, key, may_repeat in _forms([_plain(name) for name in names], table, folder):
        found = []
        for column, entries in cleaned.items() if may_repeat or len(set(own)) == len(own) else ():
            keys = [key(entry) for entry in entries]
            counts, places = Counter(keys), {entry: row for row, entry in enumerate(keys) if entry}
            rows = np.array([places.get(name, -1) for name in own])
            n_named = int((rows >= 0).sum())
            if n_named >= (1 if column.lower() in _USUAL else max(1, len(own) / 2)):
                repeated = next((name for name in own if name and counts[name] > 1), None)
                found.append(_Candidate(column, n_named, rows, repeated))
        yield found


def _plain(text: str) -> str:
    """Return a path or id with slashes, in composed Unicode (macOS decomposes it), without "./"."""
    return unicodedata.normalize("NFC", text.strip()).replace("\\", "/").removeprefix("./")


_Key = Callable[[str], str]


def _forms(names: Sequence[str], table: Path, folder: Path | None) -> Iterator[tuple[list[str], _Key, bool]]:
    """Yield keys of samples, the function that makes them of entries, and whether samples may share one."""
    if folder is None:
        yield list(names), str, True
    else:
        yield [realpath(folder / name) for name in names], partial(_absolute, table.parent), False
    depth = min(_MOST_FOLDERS, max((name.count("/") for name in names), default=0) + 1)
    for fold in (str, str.casefold):
        for of_name, of_entry in ((str, str), (_stem, str), (_stem, _stem)):
            for n_parts in range(depth, 0, -1):
                key = partial(_end_of_path, n_parts, fold, of_entry)
                yield [_end_of_path(n_parts, fold, of_name, name) for name in names], key, folder is None
    yield [entity(name, "subject") or "" for name in names], _subject, True


def _absolute(folder: Path, entry: str) -> str:
    return realpath(folder / entry) if entry and "\0" not in entry else ""


def _end_of_path(n_parts: int, fold: _Key, of: _Key, text: str) -> str:
    return fold(of("/".join(text.split("/")[-n_parts:])))


def _stem(text: str) -> str:
    return _ENDING.sub("", text)


def _subject(text: str) -> str:
    return entity(text, "subject") or (f"sub-{text}" if text.isalnum() else "")


# ---- labels ----


def rows_of_labels(source: Path, samples: SampleSet, labels: Labels, rules: FileRules) -> tuple[Any, tuple[str, ...]]:
    """Return the row of each sample in a file of labels, and a note on how it was found.

    Raises `BadFileError` for samples with names, and a table that may have another order and does not name them.
    """
    if labels.columns is None:  # an array in memory
        return slice(None), ()
    path, in_files = labels.path, samples.names is not None
    ids = None if in_files else ids_in(source, len(samples.data), rules)
    names, found = samples.names or ([] if ids is None else ids.tolist()), None
    if names:
        folder = (source if source.is_dir() else source.parent) if in_files else None
        try:
            found = match_names(path, names, labels.columns, folder)
        except RepeatedNameError:
            if in_files:
                raise
            _check_same_order(source, names, labels)
    if found is None:
        if in_files:
            _check_order_is_certain(source, samples, labels)
        return slice(None), (f"{path.name}: matched to {source.name} by order",)
    missing = [name for name, row in zip(names, found.rows, strict=True) if row < 0]
    if missing:
        raise BadFileError(
            f"{path}: has no row for {len(missing)} of {len(names)} samples, e.g. {missing[0]}; its column "
            f"{quoted(found.column)!r} must name every sample"
        )
    what = "files" if in_files else "samples"
    return found.rows, (f"{path.name}: matched to the {what} by its column {quoted(found.column)!r}{found.note}",)


def _check_same_order(source: Path, ids: Sequence[str], labels: Labels) -> None:
    """Raise `BadFileError` if ids that repeat show that a file of labels has another order."""
    for name, entries in (labels.columns or {}).items():
        if sorted(entries) == sorted(ids) and list(entries) != list(ids):
            raise BadFileError(
                f"{labels.path}: its column {quoted(name)!r} holds the ids of {source} in another order, and some "
                "repeat; sort the rows as the samples, or give each sample an id of its own in both files"
            )


def _check_order_is_certain(source: Path, samples: SampleSet, labels: Labels) -> None:
    """Raise `BadFileError` if rows that name no files may have another order than the files."""
    names = samples.names or []
    columns, remedy = labels.columns or {}, "a column with the name of each file, under any heading"
    if samples.left_out:
        raise BadFileError(
            f"{labels.path}: rows that name no files cannot be matched if some are left out, here "
            f"{listed(samples.left_out)}. Add {remedy}"
        )
    if columns:
        raise BadFileError(
            f"{labels.path}: rows are matched to files by their names, and none of its columns ({listed(columns)}) "
            f"holds them, such as {quoted(names[0])!r}. Add {remedy}"
        )
    by_number = sorted(names, key=_numbers_in)
    if source.is_dir() and by_number != list(names):
        first = next(place for place, name in enumerate(names) if name != by_number[place])
        raise BadFileError(
            f"{labels.path}: has labels without names of files, and their order is not certain: "
            f"{quoted(names[first])!r} comes before {quoted(by_number[first])!r} in alphabetical order, but not by "
            f"number. Give a table with {remedy}"
        )


def _numbers_in(name: str) -> list[tuple[bool, Any]]:
    return [(part.isdigit(), int(part) if part.isdigit() else part) for part in re.split(r"(\d+)", name)]
