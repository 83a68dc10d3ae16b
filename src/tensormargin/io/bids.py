"""BIDS: folders of NIfTI files that are named by subject, session and run, with a table of the participants."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Sequence
from fnmatch import fnmatch
from itertools import count
from pathlib import Path

import numpy as np

from ..data import MOST_MEMBERS, BadFileError, FileRules, axes_of_volume, check_text, is_missing
from ..runtime import Array, listed
from .images import stacked_samples
from .labels import ENTITIES, LABELS, choose_entry, confounds_in, describe, entity, from_text
from .options import BIDS, Request
from .readers.entries import NIFTI
from .runs import events_beside
from .samples import SampleSet
from .tables import Table, read_table
from .volumes import nifti_shape, nifti_space, read_runs

PARTICIPANTS = "participants.tsv"
UNITS = tuple(ENTITIES)
_NOT_DATA = ("derivatives", "sourcedata", "code", "stimuli", "rawdata")
_PARENTS = 2  # derivatives/NAME is two levels below the participants


def load_bids(path: Path, request: Request) -> SampleSet:
    """Return the volumes of a data set, one file each or runs of them, labelled by a column of its participants."""
    BIDS.check(path, request)
    select = request.select
    files, kind = _list_files(path, select.samples, request.rules)
    kind, names, runs = f"BIDS data set ({kind})", files, None
    if len(nifti_shape(path / files[0], request.rules)) == 4:
        request.refuse(path, ("size", "ragged"), "its files are runs of volumes; resize them first")
        *runs, lengths = read_runs(path, files, request)
        names = [name for name, length in zip(files, lengths, strict=True) for _ in range(length)]
    kept, target, notes = np.arange(len(names)), None, list[str]()
    if request.need_labels or select.labels is not None:
        kept, target, notes = _labelled(path, names, request)
    whole = len(kept) == len(names)
    names = [names[row] for row in kept]
    groups = None if select.groups is False else groups_by_name(path, names, select.groups)
    if runs is None:
        return stacked_samples(path, names, request, kind, notes, target=target, groups=groups)
    volumes, affine, more = runs
    data = volumes if whole else volumes[kept]
    axes, space = axes_of_volume(affine, data.shape[1:]), nifti_space(path / files[0], request.rules)
    counts: dict[str, Iterator[int]] = {}
    numbered = [f"{name}:{next(counts.setdefault(name, count()))}" for name in names]  # volumes of runs, from 0
    return SampleSet(data, target, groups, numbered, affine, "", kind, (*notes, *more), axes=axes, space=space)


def _labelled(path: Path, names: Sequence[str], request: Request) -> tuple[Array, Array | None, list[str]]:
    """Return the samples with a label, the labels, and notes; all samples, if only a model remembers the column."""
    known, labels, everyone = request.known, request.select.labels, np.arange(len(names))
    remembered = not request.need_labels and not known.labels_given and labels == known.loading.get("labels")
    try:
        kept, target = _labels_of(path, _participants(path, request.rules), names, labels)
    except BadFileError:
        if not remembered:
            raise
        return everyone, None, []
    if len(kept) == len(names):
        return kept, target, []
    lacking = f"samples of participants without a label: {len(names) - len(kept)} of {len(names)}"
    if remembered:
        note = f"{lacking}; none is compared with its label unless --labels {labels} leaves these out"
        return everyone, None, [note]
    return kept, target, [f"{lacking}, which were left out"]


def confounds_of(path: Path, names: Sequence[str], confounds: Collection[str], rules: FileRules) -> dict[str, Array]:
    """Return those of the named confounds that are columns of the participants, one value per sample."""
    table = _participants(path, rules)
    return {} if table is None else confounds_in(table.path, _columns_of(table, names), confounds)


def is_bids(folder: Path) -> bool:
    """Return whether a folder has NIfTI files by subject, and a table of participants or only folders of subjects."""
    if (folder / PARTICIPANTS).is_file():
        return bool(_walk(folder))
    folders = [one.name for one in folder.iterdir() if one.is_dir() and not one.name.startswith(".")]
    subjects = [name for name in folders if re.fullmatch(r"sub-[A-Za-z0-9]+", name)]
    return bool(subjects) and set(folders) - set(subjects) <= set(_NOT_DATA) and bool(_walk(folder))


def _list_files(folder: Path, wanted: str | None, rules: FileRules) -> tuple[list[str], str]:
    """Return the files of one kind, whose names end as ``wanted`` ("T1w") or match it ("*_bold*"), and that kind."""
    kinds: dict[str, list[str]] = {}
    for name in _walk(folder):
        base = re.sub(r"\.nii(\.gz)?$", "", name.rpartition("/")[2], flags=re.IGNORECASE)
        kinds.setdefault(_kind_of(base), []).append(name)
    if wanted is None:
        chosen = list(kinds)
    elif "*" in wanted:
        chosen = [kind for kind in kinds if any(fnmatch(name.rpartition("/")[2], wanted) for name in kinds[kind])]
    else:
        chosen = [kind for kind in kinds if kind == wanted or kind.endswith(f"_{wanted}")]
    if len(chosen) != 1:
        found = listed(f"{kind} ({len(names)} files)" for kind, names in sorted(kinds.items()))
        raise BadFileError(
            f"{folder}: the samples are files of one kind, and {len(chosen) or 'none'} of these could be meant: "
            f"{found}. Choose one with samples=... (command line: --samples {min(kinds)})"
        )
    names = sorted(kinds[chosen[0]])
    for name in names:
        check_text(folder / name, name)
        rules.check_place(folder / name)
    return names, chosen[0]


def _walk(folder: Path) -> list[str]:
    found = []
    for place, folders, files in os.walk(folder):
        if Path(place) == folder:
            folders[:] = [name for name in folders if name.startswith("sub-")]
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        here = [name for name in files if name.startswith("sub-") and name.lower().endswith(NIFTI)]
        found += [(Path(place) / name).relative_to(folder).as_posix() for name in here]
        if len(found) > MOST_MEMBERS:
            raise BadFileError(f"{folder}: must have at most {MOST_MEMBERS} files; give a part of the data set")
    return found


def runs_in(folder: Path, rules: FileRules) -> list[Path]:
    """Return the recordings in a BIDS data set, or in a folder of it (that of the rules), with a table of events each.

    If some are of one kind and others of another (tasks, spaces), the folder is not taken for one set of runs.
    """
    found = sorted(
        Path(place) / name
        for place, folders, files in os.walk(folder)
        if not set(Path(place).relative_to(folder).parts) & set(_NOT_DATA)
        for name in files
        if name.startswith("sub-") and events_beside(Path(place) / name, rules) is not None
    )
    kinds = {_kind_of(path.name) for path in found}
    for path in found:
        check_text(path, path.name)
        rules.check_place(path)
    return found if len(kinds) == 1 else []


def _kind_of(name: str) -> str:
    """Return a name without what differs between subjects, sessions and runs."""
    return "_".join(part for part in name.split("_") if part.partition("-")[0] not in ENTITIES.values())


def groups_by_name(folder: Path, names: Sequence[str], wanted: str | None) -> Array | None:
    """Return the ``wanted`` groups by file names: subjects by default, or runs if there is only one subject."""
    if wanted is not None and wanted not in UNITS:
        raise BadFileError(
            f"{folder}: groups of a BIDS data set are subject, session or run, by the names of its files; got "
            f"{wanted!r}: give one of them as groups=... (command line: --groups)"
        )
    for unit in (wanted,) if wanted else UNITS:
        units = UNITS[: UNITS.index(unit) + 1]
        values = ["_".join(filter(None, (entity(name, one) for one in units))) for name in names]
        if wanted and any(entity(name, unit) is None for name in names):
            missing = next(name for name in names if entity(name, unit) is None)
            raise BadFileError(f"{folder}: the name of {missing} states no {unit}; give other groups=... (--groups)")
        if len(set(values)) > 1 or wanted:
            return np.array(values)
    return None


def _participants(folder: Path, rules: FileRules) -> Table | None:
    """Return the table of participants of a data set, or of the one that a folder of derivatives belongs to."""
    places = (folder, *folder.resolve().parents[:_PARENTS])
    path = next((place / PARTICIPANTS for place in places if (place / PARTICIPANTS).is_file()), None)
    return None if path is None else read_table(path, rules=rules)


def _columns_of(table: Table, names: Sequence[str]) -> dict[str, list[str]]:
    """Return the columns of the participants, one value per sample."""
    identifiers = next((column for column in table.columns if column.lower() == "participant_id"), None)
    if identifiers is None:
        raise BadFileError(
            f"{table.path}: must have a column participant_id; its columns are {describe(table.columns)}. Name it so"
        )
    rows = {one if one.startswith("sub-") else f"sub-{one}": row for row, one in enumerate(table.columns[identifiers])}
    wanted = [entity(name, "subject") or "" for name in names]
    unknown = sorted({one for one in wanted if one not in rows})
    if unknown:
        raise BadFileError(
            f"{table.path}: must have a row for every subject; it has none for {listed(unknown)}. Add it"
        )
    others = (column for column in table.columns if column != identifiers)
    return {column: [table.columns[column][rows[one]] for one in wanted] for column in others}


def _labels_of(folder: Path, table: Table | None, names: Sequence[str], wanted: str | None) -> tuple[Array, Array]:
    """Return the rows that have a label, and their labels, from the ``wanted``, a usual or the only column."""
    if table is None:
        raise BadFileError(
            f"{folder}: has no {PARTICIPANTS} with the labels; give a file with one label per sample as "
            "labels_from=... (command line: --labels-from)"
        )
    columns = _columns_of(table, names)
    name = choose_entry(table.path, columns, wanted, LABELS, "labels")
    if name is None and len(columns) == 1:
        name = next(iter(columns))
    if name is None:
        raise BadFileError(
            f"{table.path}: the labels could be any of its columns, {describe(columns)}; choose one with labels=... "
            "(command line: --labels)"
        )
    known = np.array([not is_missing(value) for value in columns[name]])
    if not known.any():
        raise BadFileError(f"{table.path}: the column {name!r} has no labels; name another: labels=... (--labels)")
    rows = np.flatnonzero(known)
    return rows, from_text(table.path, [columns[name][row] for row in rows], "labels")
