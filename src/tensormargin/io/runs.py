"""Runs of a recording: the tables beside them, and the removal of drifts and confounds (motion, signals of tissues)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np

from ..data import BadFileError, FileRules, is_missing
from ..runtime import FloatArray, listed, quoted
from ..transformers import Deconfound, Detrend
from .options import Window
from .tables import finite_numbers, is_table, read_table

_RECORDED = re.compile(r"_(bold|eeg|meg|ieeg)\.(nii|nii\.gz|set|vhdr|edf|bdf|fif)$", re.IGNORECASE)
_OF_IMAGES = "space|desc|res|den|cohort|hemi|echo|part"  # entities that images have, and tables of their runs do not
_CONFOUNDS = ("_desc-confounds_timeseries.tsv", "_desc-confounds_regressors.tsv")  # as fMRIPrep names them, also before
_DERIVATIVES = "derivatives"
_SAME = 1e-8  # share of a confound's norm below which the others and the drift explain it


def beside(path: Path, endings: Sequence[str], without: str = _OF_IMAGES) -> Path | None:
    """Return the table of a BIDS recording (``..._bold.nii.gz``) that ends so and has the same entities in its name."""
    stem, number = _RECORDED.subn("", path.name)
    stem = re.sub(rf"_({without})-[A-Za-z0-9]+", "", stem)
    tables = [path.with_name(stem + ending) for ending in endings] if number else []
    return next((table for table in tables if table.is_file()), None)


def events_beside(path: Path, rules: FileRules) -> Path | None:
    """Return the events of a BIDS recording: ``..._events.tsv`` in its folder, or, of derivatives, in that of the data.

    Those of ``study/derivatives/fmriprep/sub-01/func`` are in ``study/sub-01/func``, which the rules may forbid.
    """
    folders, parts = [path.parent], path.absolute().parent.parts
    if _DERIVATIVES in parts:
        at = len(parts) - 1 - parts[::-1].index(_DERIVATIVES)
        folders.append(Path(*parts[:at], *parts[at + 2 :]))
    found = (beside(folder / path.name, ("_events.tsv",), f"{_OF_IMAGES}|rec|recording") for folder in folders)
    table = next((table for table in found if table is not None), None)
    if table is not None:
        rules = rules.inside(path.parent) if rules.folder is None else rules
        rules.check_file(table, f"{path}: the table of its events, {table},")
    return table


def cleaned(path: Path, series: Any, window: Window, rules: FileRules) -> Any:
    """Return a recording, time first, without its drift and what confounds of the run explain in each entry.

    Both are removed together: what is left is uncorrelated with the confounds and has no drift. Without a drift to
    remove, the mean stays.
    """
    if not window.run_confounds:
        return _detrended(series, window.detrend)
    columns = _read(path, window, int(series.shape[0]), rules)
    deviation = columns.std(axis=0)
    varying = columns[:, deviation > _SAME * np.abs(columns).max(axis=0)]
    scaled = (varying - varying.mean(axis=0)) / varying.std(axis=0)
    directions, sizes, _ = np.linalg.svd(_detrended(scaled, window.detrend), full_matrices=False)
    basis = directions[:, sizes > _SAME * sqrt(len(scaled))]
    n_drifts = 1 + (window.detrend or 0)
    if basis.shape[1] + n_drifts >= len(basis):
        raise BadFileError(
            f"{path}: {columns.shape[1]} confounds ({basis.shape[1]} independent ones) and the drift explain all of "
            f"its {len(basis)} time points, so that nothing is left; name fewer with run_confounds=... (command line: "
            "--run-confounds)"
        )
    series = _detrended(series, window.detrend)
    return Deconfound().fit_transform(series, confounds=basis) if basis.shape[1] else series


def _detrended(series: Any, degree: int | None) -> Any:
    """Return a recording, time first, without a polynomial of this degree per entry."""
    if degree is None or not series.shape[1]:
        return series
    return Detrend(degree).fit_transform(series, groups=np.zeros(int(series.shape[0]), np.int64))


def _read(path: Path, window: Window, n_times: int, rules: FileRules) -> FloatArray:
    """Return the chosen confounds of a run, one per column."""
    table = window.run_confounds_from or beside(path, _CONFOUNDS)
    rules = rules if window.run_confounds_from else rules.inside(path.parent)
    if table is None:
        raise BadFileError(
            f"{path}: there is no table of its confounds beside it (sub-..._desc-confounds_timeseries.tsv, one row per "
            "volume); give one as run_confounds_from=... (command line: --run-confounds-from), or leave run_confounds "
            "(--run-confounds) out"
        )
    if not table.is_file() or not is_table(table):
        raise BadFileError(
            f"{table}: run_confounds_from (command line: --run-confounds-from) must be a table that exists, .tsv or "
            ".csv, with one row per volume or time point"
        )
    columns = read_table(table, rules=rules).columns
    names = []
    for pattern in window.run_confounds:
        chosen = [name for name in columns if fnmatchcase(name, pattern)]
        if not chosen:
            raise BadFileError(
                f"{table}: has no column {quoted(pattern)!r}; its columns are {listed(columns)}. Name some of them, or "
                'patterns such as "trans_*", with run_confounds=... (command line: --run-confounds)'
            )
        names += chosen
    found = np.column_stack([_numbers(table, name, columns[name]) for name in dict.fromkeys(names)])
    if len(found) != n_times:
        raise BadFileError(
            f"{table}: has {len(found)} rows, but {path.name} has {n_times} volumes or time points; there must be one "
            "row for each: leave out the rows of those that were cut off"
        )
    return found


def _numbers(path: Path, name: str, values: Sequence[str]) -> FloatArray:
    """Return a column; derivatives begin without a value (n/a), for which the mean of the others stands."""
    n_missing = next((row for row, value in enumerate(values) if not is_missing(value)), len(values))
    if n_missing == len(values):
        raise BadFileError(f"{path}: the confound {quoted(name)!r} has no values; leave it out of run_confounds")
    rule = f"{path}: the confound {quoted(name)!r} must be numbers"
    remedy = "Fill it in, or leave the column out; n/a may stand in the first rows only"
    found = finite_numbers(values[n_missing:], rule, remedy, first_row=n_missing)
    return np.concatenate([np.full(n_missing, found.mean()), found])
