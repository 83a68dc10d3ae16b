"""Epochs and continuous recordings of channels over time: EEGLAB, FieldTrip, MNE and BrainVision files.

All readers return a `Recording`: values, axes, and columns of values per epoch or event, from which labels and groups
are chosen by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path, PurePath, PureWindowsPath
from typing import Any

import numpy as np

from ..data import Axes, Axis, BadFileError, FileRules, parsing, require_package, vector_of
from ..runtime import Array, listed, quoted
from .arrays import Stored, check_samples
from .events import Events, choose_events, cut_series, format_counts, needs_table, read_events, rows_named
from .labels import choose_columns
from .lazy import READ_WHOLE, samples_per_chunk
from .options import RECORDING, TABLE, DoesNotApplyError, Request
from .readers.entries import NUMBERS, text_of
from .readers.plain import plain_numbers
from .readers.process import call
from .samples import SampleSet

EVENT = "event"  # column with the names of events

_EEGLAB = ("data", "srate", "nbchan", "trials", "pnts")
_FIELDTRIP = ("trial", "powspctrm")  # with label, and time or freq
_MODES = {"chan": ("channel", ""), "freq": ("frequency", "Hz"), "time": ("time", "ms")}
_BREAKS = ("boundary", "new segment", "bad", "edge")  # how marks begin that are no events
_EEGLAB_UNIT = "µV"  # by convention
_FIF = (".fif", ".fif.gz")
_BRAINVISION = (".vhdr",)


@dataclass(frozen=True)
class Recording:
    """Epochs, or one continuous recording, channels × times, if there are ``events``.

    ``data`` is a vector of arrays if epochs differ in length, and ``axes`` are those of an epoch or of the recording.
    ``columns`` have one value per epoch; ``label`` is the one that names the epochs, if that is clear. ``field`` is the
    kind of samples that it gives.
    """

    data: Any
    axes: Axes
    sfreq: float | None
    kind: str
    columns: Mapping[str, Array]
    label: str | None = None
    events: Events | None = None
    field: str | None = "eeg"
    notes: tuple[str, ...] = ()
    unit: str = ""


def _milliseconds(seconds: Any) -> Axis:
    """Return times as an axis."""
    return Axis("time", "ms", np.round(1000 * np.asarray(seconds, np.float64), 6))


def is_recording(path: Path) -> bool:
    """Return whether a file is one that MNE reads."""
    return path.is_file() and path.name.lower().endswith((*_FIF, *_BRAINVISION))


def recording_endings() -> str:
    """Return the extensions of recordings that are not containers of arrays."""
    return ", ".join((*_FIF, *_BRAINVISION))


def _read_recording(path: Path, rules: FileRules) -> Recording:
    """Return the epochs or the continuous recording of a file that MNE reads."""
    is_fif = path.name.lower().endswith(_FIF)
    words = "an MNE file" if is_fif else "a BrainVision file"
    require_package(path, "mne", "eeg", words)
    rules.check_file(path)
    remedy = "save it again with MNE" if is_fif else "export it again; .vhdr, .vmrk and .eeg belong together"
    with parsing(path, words, remedy):
        found = call(f".recordings.{'read_fif' if is_fif else 'read_brainvision'}", path, rules)
        return replace(_from_mne(path, found, "MNE" if is_fif else "BrainVision"), unit=found["unit"])


def _from_mne(path: Path, found: Mapping[str, Any], maker: str) -> Recording:
    channel = Axis("channel", "", np.array(found["channels"], str))
    notes = tuple(f"{path.name}: {text}" for text in found["notes"])
    if "times" in found:
        axes, columns = (channel, _milliseconds(found["times"])), found["columns"]
        return Recording(found["data"], axes, found["sfreq"], f"{maker} epochs", columns, EVENT, notes=notes)
    names = np.array(found["names"], str)
    events = _without_breaks(Events(path, found["onset"], found["duration"], {EVENT: names}, EVENT))
    axes = (channel, Axis("time", "ms"))
    return Recording(found["data"], axes, found["sfreq"], f"{maker} recording", {}, None, events, notes=notes)


def _without_breaks(events: Events) -> Events:
    """Return events without marks of boundaries and bad parts."""
    names = [str(name).strip().lower() for name in events.columns[EVENT].tolist()]
    return events.take(np.flatnonzero([not name.startswith(_BREAKS) for name in names]))


def find_recording(path: Path, held: Mapping[str, Stored], wanted: str | None, rules: FileRules) -> Recording | None:
    """Return the (wanted) EEGLAB or FieldTrip structure of a MATLAB file, whose fields are "EEG/data"; None without."""
    if wanted is not None and wanted in held:
        return None  # an array that is taken as it is
    prefixes = dict.fromkeys(f"{name.partition('/')[0]}/" if "/" in name else "" for name in held)
    readers = {}
    for prefix in prefixes:
        if all(prefix + name in held for name in _EEGLAB):
            readers[prefix] = _eeglab
        elif prefix + "label" in held and any(prefix + name in held for name in _FIELDTRIP):
            readers[prefix] = _fieldtrip
    if wanted is not None:
        readers = {prefix: reader for prefix, reader in readers.items() if prefix == f"{wanted}/"}
    if len(readers) > 1:
        several = listed([prefix.rstrip("/") or "one without a name" for prefix in readers])
        raise BadFileError(
            f"{path}: has several recordings, {several}; name one of them: samples=... (command line: --samples)"
        )
    for prefix, reader in readers.items():
        found = reader(path, _Fields(path, held, prefix), rules)
        return replace(found, unit=_EEGLAB_UNIT) if reader is _eeglab else found
    return None


class _Fields:
    """The fields of a structure."""

    def __init__(self, path: Path, held: Mapping[str, Stored], prefix: str) -> None:
        self.path, self.held, self.prefix = path, held, prefix

    def get(self, name: str) -> Stored | None:
        return self.held.get(self.prefix + name)

    def refused(self, name: str, rule: str, value: str) -> BadFileError:
        return BadFileError(f"{self.path}: {self.prefix}{name} must be {rule}; it is {value}. Save the data set again")

    def number(self, name: str, default: float | None = None) -> float:
        stored = self.get(name)
        values = stored.read().ravel() if stored is not None and stored.is_numeric else np.array([])
        if not values.size and default is not None:
            return default
        if values.size != 1 or not np.isfinite(values[0]):
            raise self.refused(name, "one number", "missing" if stored is None else f"of shape {stored.shape}")
        return float(values[0])

    def count(self, name: str) -> int:
        value = self.number(name)
        if value < 1 or value != int(value) or value > 2**40:
            raise self.refused(name, "a whole number from 1", f"{value:g}")
        return int(value)

    def rate(self, name: str) -> float:
        value = self.number(name)
        if not value > 0:
            raise self.refused(name, "a number of Hz above zero", f"{value:g}")
        return value

    def vector(self, name: str, length: int) -> Array | None:
        """Return one value per element, None if the field has another number of values."""
        stored = self.get(name)
        if stored is None or not stored.is_readable or prod(stored.shape) != length or stored.dtype.kind == "c":
            return None
        return stored.read().ravel()

    def text(self, name: str) -> str:
        stored = self.get(name)
        values = stored.read().ravel() if stored is not None and stored.dtype.kind == "U" else np.array([])
        return str(values[0]) if values.size == 1 else ""

    def columns(self, name: str, length: int) -> dict[str, Array]:
        """Return the fields of an array of structures that have one value per element."""
        start = f"{self.prefix}{name}/"
        found = {}
        for full in self.held:
            inner = full.removeprefix(start)
            if full.startswith(start) and "/" not in inner:
                values = self.vector(f"{name}/{inner}", length)
                if values is not None:
                    found[inner] = values
        return found


def _eeglab(path: Path, fields: _Fields, rules: FileRules) -> Recording:
    n_channels, n_points, n_trials = fields.count("nbchan"), fields.count("pnts"), fields.count("trials")
    sfreq = fields.rate("srate")
    stored, shape = fields.held[f"{fields.prefix}data"], (n_channels, n_points, n_trials)
    if stored.dtype.kind == "U":
        data = _fdt(path, fields.text("data"), shape, rules)
    elif stored.is_numeric and prod(stored.shape) == prod(shape):
        data = stored.read().reshape(shape, order="F")
    else:
        raise fields.refused("data", f"numbers of shape {shape}", f"{stored.dtype} of shape {stored.shape}")
    labels = fields.vector("chanlocs/labels", n_channels)
    channel = Axis("channel", "", None if labels is None or labels.dtype.kind != "U" else labels)
    latency = fields.get("event/latency")
    n_events = 0 if latency is None or not latency.is_numeric else prod(latency.shape)
    columns = fields.columns("event", n_events)
    columns = {EVENT if name == "type" else name: values for name, values in columns.items()}
    if n_trials == 1:
        events = _eeglab_events(path, columns, n_events, sfreq)
        axes = (channel, Axis("time", "ms"))
        return Recording(data[..., 0], axes, sfreq, "EEGLAB recording", {}, None, events)
    times = fields.number("xmin", 0.0) + np.arange(n_points) / sfreq
    per_epoch, notes = _per_epoch(path, columns, n_trials, n_points, times[0], sfreq)
    axes = (channel, _milliseconds(times))
    label = EVENT if EVENT in per_epoch else None
    return Recording(np.moveaxis(data, 2, 0), axes, sfreq, "EEGLAB epochs", per_epoch, label, notes=notes)


def _fdt(path: Path, name: str, shape: tuple[int, int, int], rules: FileRules) -> Array:
    own = PurePath(PureWindowsPath(name).name)  # the folder is that of the computer where it was saved
    files = [path.parent / own, path.with_suffix(".fdt")]  # the second if both were renamed
    if own.suffix.lower() != ".fdt":
        raise BadFileError(
            f"{path}: its values must be in it, or in an .fdt file beside it; they are in {quoted(name)!r}. Save the "
            "data set again from EEGLAB"
        )
    file = next((one for one in files if one.is_file()), None)
    if file is None:
        raise BadFileError(
            f"{path}: its values are in {quoted(own.name)}, which is not beside it; copy it to {path.parent}, too"
        )
    rules.inside(path.parent).check_file(file, f"{path}: {file.name}")
    size = file.stat().st_size
    if size != 4 * prod(shape):
        raise BadFileError(
            f"{file}: must have {4 * prod(shape)} bytes, for {shape[0]} channels, {shape[1]} times and {shape[2]} "
            f"trials as {path.name} says; it has {size}. Copy it again, or save the data set again"
        )
    rules.admit(file, size, "the recording")
    return plain_numbers(file, 0, "<f4", shape, order="F").astype(np.float32, copy=False)


def _eeglab_events(path: Path, columns: Mapping[str, Array], n_events: int, sfreq: float) -> Events:
    """Return the events of a continuous data set; latencies count time points from 1."""
    latency = np.asarray(columns.get("latency", np.empty(0)), np.float64)
    rows = np.flatnonzero(np.isfinite(latency))
    lasting = columns.get("duration")
    numeric = lasting is not None and lasting.dtype.kind in "iuf"
    duration = np.nan_to_num(np.asarray(lasting, np.float64)) if numeric else np.zeros(n_events)
    others = {name: values for name, values in columns.items() if name not in ("latency", "duration")}
    events = Events(path, (latency - 1) / sfreq, duration / sfreq, others, EVENT if EVENT in others else None)
    events = events.take(rows)
    return _without_breaks(events) if EVENT in others else events


def _per_epoch(
    path: Path, columns: Mapping[str, Array], n_trials: int, n_points: int, xmin: float, sfreq: float
) -> tuple[dict[str, Array], tuple[str, ...]]:
    """Return the values of the event of each epoch that is nearest to time 0, and notes."""
    epoch, latency = columns.get("epoch"), columns.get("latency")
    if epoch is None or latency is None or epoch.dtype.kind not in "iuf" or latency.dtype.kind not in "iuf":
        return {}, ()
    within = (latency - 1) % n_points / sfreq + xmin
    best = np.full(n_trials, -1)
    for row, (number, time) in enumerate(zip(epoch.tolist(), within.tolist(), strict=True)):
        place = int(number) - 1 if np.isfinite(number) and np.isfinite(time) else -1
        if 0 <= place < n_trials and (best[place] < 0 or abs(time) < abs(within[best[place]]) - 0.5 / sfreq):
            best[place] = row
    lacking = int((best < 0).sum())
    if lacking:
        return {}, (f"{path.name}: {lacking} of {n_trials} epochs have no event, so that there are no labels in it",)
    others = {name: values[best] for name, values in columns.items() if name not in ("epoch", "latency")}
    return others, ()


def _fieldtrip(path: Path, fields: _Fields, rules: FileRules) -> Recording:
    name = next(one for one in _FIELDTRIP if fields.get(one) is not None)
    stored = fields.get(name)
    assert stored is not None
    if stored.cells is None and not stored.is_numeric:
        raise fields.refused(name, "cells of numbers, or an array of numbers", f"{stored.dtype}")
    dims = (fields.text("dimord") or "rpt_chan_time").split("_")
    if name == "trial":
        dims = ["rpt", "chan", "time"]
    if dims[0] not in ("rpt", "subj", "rpttap"):
        raise BadFileError(
            f"{path}: {fields.prefix}{name} must have trials along its first axis, rpt; its dimord is "
            f"{quoted('_'.join(dims))}. Compute it again with cfg.keeptrials = 'yes'"
        )
    data: Any = vector_of(stored.cells) if stored.cells is not None else stored.read()
    if stored.cells is None and data.ndim != len(dims):
        raise fields.refused(name, f"an array with the axes {'_'.join(dims)}", f"of shape {data.shape}")
    axes, sfreq = _fieldtrip_axes(fields, dims[1:], stored)
    if len(data) == 1 and name == "trial":
        nothing = Events(path, np.empty(0), np.empty(0), {}, None)
        return Recording(data[0], (axes[0], Axis("time", "ms")), sfreq, "FieldTrip recording", {}, None, nothing)
    columns, notes = _trialinfo(path, fields, len(data))
    label = "trialinfo" if "trialinfo" in columns else None
    field = "eeg" if name == "trial" else None
    return Recording(data, axes, sfreq, "FieldTrip trials", columns, label, field=field, notes=notes)


def _fieldtrip_axes(fields: _Fields, dims: list[str], stored: Stored) -> tuple[Axes, float | None]:
    """Return the axes of a trial, and the sampling frequency."""
    sizes = stored.shape[1:] if stored.cells is None else (stored.cells[0].shape[0], None)
    time = fields.get("time")
    times = None
    if time is not None and time.is_numeric and time.shape and "time" in dims:
        rows = time.read().reshape(-1, time.shape[-1])
        times = rows[0] if rows.shape[1] == sizes[dims.index("time")] and np.allclose(rows, rows[0]) else None
        rows = rows[:, :2]
    elif time is not None and time.cells:
        rows = np.array([cell.ravel()[:2] for cell in time.cells if cell.size > 1])
    else:
        rows = np.empty((0, 0))
    step = float(rows[0, 1] - rows[0, 0]) if rows.ndim == 2 and rows.shape[0] and rows.shape[1] > 1 else 0.0
    sfreq = fields.number("fsample", 1 / step if step > 0 else -1.0)
    values = {"chan": fields.vector("label", int(sizes[0] or 0)), "time": None if times is None else 1000 * times}
    found = []
    for dim, size in zip(dims, sizes, strict=True):
        own = values[dim] if dim in values else fields.vector(dim, int(size or 0))
        own = own if own is not None and (own.dtype.kind == "U" or np.isfinite(own).all()) else None
        found.append(Axis(*_MODES.get(dim, (dim, "")), own if own is None or dim != "time" else np.round(own, 6)))
    return tuple(found), sfreq if sfreq > 0 and "time" in dims else None


def _trialinfo(path: Path, fields: _Fields, n_trials: int) -> tuple[dict[str, Array], tuple[str, ...]]:
    stored = fields.get("trialinfo")
    if stored is not None and stored.is_numeric and stored.shape and stored.shape[0] == n_trials:
        table = stored.read().reshape(n_trials, -1)
        if table.shape[1] == 1:
            return {"trialinfo": table[:, 0]}, ()
        return {f"trialinfo{number}": column for number, column in enumerate(table.T, start=1)}, ()
    columns = fields.columns("trialinfo", n_trials)
    if stored is None or columns:
        return columns, ()
    problem = "is not an array with one row per trial, and was left out; in MATLAB: data.trialinfo = "
    return {}, (f"{path.name}: trialinfo {problem}table2array(data.trialinfo)",)


def continuous(path: Path, name: str, data: Array, sfreq: float | None) -> Recording:
    """Return an array of channels × times as a continuous recording."""
    if data.ndim != 2 or data.dtype.kind not in NUMBERS or not data.size:
        raise BadFileError(
            f"{path}: {quoted(name)} must be channels by times, real numbers, to be cut around events; it is "
            f"{data.dtype} of shape {data.shape}. Name another array with samples=... (command line: --samples)"
        )
    nothing = Events(path, np.empty(0), np.empty(0), {}, None)
    axes = (Axis("channel"), Axis("time", "ms"))
    return Recording(data, axes, sfreq, "array of channels by times", {}, None, nothing, field=None)


def load_recording(path: Path, request: Request, recording: Recording | None = None) -> SampleSet:
    """Return the epochs of a recording, read from its file unless it is given, with labels and groups by column."""
    RECORDING.check(path, request)
    recording = _read_recording(path, request.rules) if recording is None else recording
    alone = request.flat and request.window.events is None and request.window.is_whole and not request.known.are_cut
    if recording.events is not None and alone and request.known.fits(recording.data.shape):  # of a model of epochs
        recording = replace(recording, data=recording.data[None], kind=f"{recording.kind}, one epoch", events=None)
    elif request.window.events is TABLE:
        if recording.events is not None:
            raise needs_table(path, TABLE)
        raise DoesNotApplyError(f"{path}: is cut into epochs already, without a table of events", "events")
    made = _some_epochs(path, recording, request) if recording.events is None else _cut(path, recording, request)
    chosen = choose_columns(path, made.columns, made.label, request)
    check_samples(path, made.data, "the recording", request.layout.missing)
    if made.data.dtype == object and not request.layout.ragged:
        lengths = [int(one.shape[-1]) for one in made.data]
        raise BadFileError(
            f"{path}: its {len(lengths)} trials last {min(lengths)} to {max(lengths)} time points, but all samples "
            "must have one shape; give ragged=True for EqualLength (`tensormargin fit --length resample`), or cut them "
            "to one length"
        )
    data, notes = made.data, made.notes
    if request.lazy.lazy is True:
        from dask.array import from_array

        per = samples_per_chunk(request.lazy.chunks, data[0].nbytes)
        data, notes = from_array(data, chunks=(per, *data.shape[1:])), (*notes, f"{path.name} {READ_WHOLE}")
    stated: dict[str, Any] = {"field": made.field, "sfreq": made.sfreq, "axes": made.axes, "unit": made.unit or None}
    return SampleSet(data=data, names=None, affine=None, source="", kind=made.kind, notes=notes, **chosen, **stated)


def _cut(path: Path, recording: Recording, request: Request) -> Recording:
    """Return the epochs of a continuous recording, cut around events."""
    window = request.window
    sfreq = window.sfreq or recording.sfreq
    if sfreq is None:
        raise BadFileError(
            f"{path}: does not state its sampling frequency; give it as sfreq=... (command line: --sfreq), in Hz"
        )
    in_table, events = isinstance(window.events, Path), recording.events
    assert events is not None
    if in_table:
        events = read_events(window.events, request.rules)
    elif recording.sfreq is not None:  # which may be another one than is given
        stretch = recording.sfreq / sfreq
        events = replace(events, onset=events.onset * stretch, duration=events.duration * stretch)
    if not len(events):
        raise BadFileError(
            f"{path}: is a continuous recording without events; give a table with onsets (in seconds) and labels as "
            "events=... (command line: --events)"
        )
    names = np.full(len(events), "unnamed") if events.label is None else events.columns[events.label]
    if window.tmin is None and window.tmax is None and not in_table:
        raise BadFileError(
            f"{path}: is a continuous recording with the events {format_counts(names)}; say which part "
            "around each event is a sample: tmin=... and tmax=... (command line: --tmin, --tmax), in seconds"
        )
    events, notes = choose_events(events, window.names, request.select.labels)
    data, times, rows, more = cut_series(path, recording.data, sfreq, events, window, request.rules)
    return replace(
        recording,
        data=data,
        axes=(*recording.axes[:-1], _milliseconds(times)),
        kind=f"{recording.kind}, cut {events.around}",
        columns=events.take(rows).columns,
        label=events.label,
        events=None,
        notes=(*recording.notes, *notes, *more),
    )


def _some_epochs(path: Path, recording: Recording, request: Request) -> Recording:
    """Return the epochs with certain events, and the part of them within the window."""
    window = request.window
    if isinstance(window.events, Path) or window.delay or window.detrend is not None or window.run_confounds:
        raise DoesNotApplyError(
            f"{path}: is cut into epochs already; a table of events (command line: --events), --delay, --detrend and "
            "--run-confounds are for continuous recordings. Leave them out",
            *("delay", "detrend", "run_confounds"),
        )
    if window.names is not None:
        column = request.select.labels or recording.label
        if column is None or column not in recording.columns:
            raise BadFileError(
                f"{path}: its epochs have no column with events, only {listed(recording.columns) or 'none'}; name one "
                "with labels=... (command line: --labels)"
            )
        values = np.array([text_of(value) for value in recording.columns[column].tolist()], str)
        rows = rows_named(path, values, window.names)
        columns = {name: own[rows] for name, own in recording.columns.items()}
        recording = replace(recording, data=recording.data[rows], columns=columns)
    if window.tmin is None and window.tmax is None:
        return recording
    time = recording.axes[-1]
    if time.name != "time" or time.values is None:
        raise BadFileError(
            f"{path}: has no times that tmin and tmax (command line: --tmin, --tmax) could be compared with"
        )
    low = -np.inf if window.tmin is None else 1000 * window.tmin
    high = np.inf if window.tmax is None else 1000 * window.tmax
    inside = np.flatnonzero((time.values >= low - 1e-6) & (time.values <= high + 1e-6))
    if not len(inside):
        raise BadFileError(
            f"{path}: its epochs last from {time.values[0] / 1000:.6g} to {time.values[-1] / 1000:.6g} s, outside of "
            "tmin to tmax (command line: --tmin, --tmax); give times within"
        )
    kept = slice(int(inside[0]), int(inside[-1]) + 1)
    axes = (*recording.axes[:-1], replace(time, values=time.values[kept]))
    return replace(recording, data=recording.data[..., kept], axes=axes)
