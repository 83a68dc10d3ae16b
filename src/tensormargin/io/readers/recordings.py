"""MNE and BrainVision files, read by MNE. Runs in the reader process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from ...data import BadFileError, FileRules, channels_of_data, describe_left_out, unit_of_channels

_LIBRARY_BYTES = 2**25  # of MNE itself, whose import also takes time
_COPIES = 3  # of the values while MNE picks and scales them
_FOLLOWERS = ("mne.epochs", "mne.io.fiff.raw")  # modules that follow names of further files


def read_fif(path: Path, rules: FileRules) -> dict[str, Any]:
    """Return the epochs or the continuous recording of a .fif file, as plain arrays and text."""
    rules.admit(path, _LIBRARY_BYTES, "MNE", -1)
    import mne

    with _inside(path, rules):
        if mne.what(path) == "epochs":
            return _epochs(path, mne.read_epochs(path, preload=False, verbose="error"), rules)
        return _continuous(path, mne.io.read_raw_fif(path, preload=False, verbose="error"), rules)


def read_brainvision(path: Path, rules: FileRules) -> dict[str, Any]:
    """Return a BrainVision recording, the files of which must lie in the folder of the header."""
    rules.admit(path, _LIBRARY_BYTES, "MNE", -1)
    import mne

    module: Any = import_module("mne.io.brainvision.brainvision")
    rules.admit(path, 4 * path.stat().st_size, "the header")
    beside, header, opened = rules.inside(path.parent), Path(os.path.abspath(path)), set()

    def checked_open(name: Any, *arguments: Any, **options: Any) -> Any:
        if Path(name) != header:
            beside.check_file(name, f"{path}: {name}")
        opened.add(Path(name))
        return open(name, *arguments, **options)

    module.open = checked_open
    try:
        raw = mne.io.read_raw_brainvision(path, preload=False, verbose="error")
    finally:
        del module.open
    if header not in opened:
        raise RuntimeError("this version of MNE reads BrainVision files in another way")
    for name in raw.filenames:
        beside.check_file(name, f"{path}: {name}")
    return _continuous(path, raw, rules)


@contextmanager
def _inside(path: Path, rules: FileRules) -> Iterator[None]:
    """Let MNE follow the names of further parts of a recording only within its folder."""
    beside = rules.inside(path.parent)
    modules: list[Any] = [import_module(name) for name in _FOLLOWERS]
    followed = [module._get_next_fname for module in modules]  # none of these in a version of MNE: do not read at all

    def check(follow: Any, *arguments: Any) -> Any:
        found = follow(*arguments)
        if found is not None:
            beside.check_file(found, f"{path}: {found}")
        return found

    try:
        for module, follow in zip(modules, followed, strict=True):
            module._get_next_fname = lambda *given, follow=follow: check(follow, *given)
        yield
    finally:
        for module, follow in zip(modules, followed, strict=True):
            module._get_next_fname = follow


def _picked(path: Path, source: Any, length: int, rules: FileRules) -> tuple[list[str], dict[str, Any]]:
    """Return the data channels that are not marked as bad, and what the file says of them."""
    good, _, _ = channels_of_data(source)
    if not good:
        raise BadFileError(f"{path}: has no channels of data that are not marked as bad; unmark some")
    rules.admit(path, _COPIES * 8 * len(good) * length, "the recording", -1)
    return good, {
        "channels": good,
        "sfreq": float(source.info["sfreq"]),
        "notes": describe_left_out(source),
        "unit": unit_of_channels([source]),
    }


def _epochs(path: Path, epochs: Any, rules: FileRules) -> dict[str, Any]:
    picks, about = _picked(path, epochs, len(epochs.events) * len(epochs.times), rules)
    names = {code: name for name, code in epochs.event_id.items()}
    data = epochs.get_data(picks=picks)
    # Where pandas is missing, MNE has the metadata as a list with a dictionary for each epoch.
    rows = epochs.metadata if isinstance(epochs.metadata, list) else None
    metadata = epochs.metadata if rows is None else {name: [row[name] for row in rows] for name in rows[0]}
    columns = {} if metadata is None else {str(name): _column(list(metadata[name])) for name in metadata}
    event = np.array([names.get(code, str(code)) for code in epochs.events[:, 2].tolist()], str)
    return {
        **about,
        "data": np.ascontiguousarray(data),
        "times": np.asarray(epochs.times, np.float64),
        "columns": {"event": event} | columns,
    }


def _column(values: list[Any]) -> Any:
    """Return a column of metadata as numbers, or as text."""
    if all(isinstance(value, bool | int | float | np.number | np.bool_) for value in values):
        return np.array(values, np.float64)
    return np.array(["" if value is None else str(value) for value in values], str)


def _continuous(path: Path, raw: Any, rules: FileRules) -> dict[str, Any]:
    import mne

    picks, about = _picked(path, raw, int(raw.n_times), rules)
    marks = raw.annotations
    onset = np.asarray(marks.onset, np.float64) - (raw.first_time if marks.orig_time is not None else 0.0)
    duration, names = np.asarray(marks.duration, np.float64), [str(one) for one in marks.description]
    if not names and "stim" in raw.get_channel_types():
        found = mne.find_events(raw, verbose="error")
        onset = (found[:, 0] - raw.first_samp) / raw.info["sfreq"]
        duration, names = np.zeros(len(found)), [str(code) for code in found[:, 2].tolist()]
    data = np.ascontiguousarray(raw.get_data(picks=picks))
    return {**about, "data": data, "onset": onset, "duration": duration, "names": names}
