"""Events of continuous recordings, and the samples that are cut around them.

Series (channels × time) give one piece per event, volumes over time the mean of those in a window. Both take the same
events, from a table or from the recording itself, and the same window.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ..data import BadFileError, FileRules, is_missing
from ..runtime import Array, is_lazy, listed
from .labels import LABELS
from .options import TABLE, Window
from .runs import cleaned
from .samples import IN_TIME
from .tables import finite_numbers, is_list, read_table

_NAMES = ("trial_type", *LABELS, "event", "condition", "value")  # of the column of labels, the first one that is there


@dataclass(frozen=True)
class Events:
    """Events of a recording in seconds from its beginning, with columns, of which ``label`` names them, if known."""

    source: Path
    onset: Array
    duration: Array
    columns: Mapping[str, Array]
    label: str | None

    def __len__(self) -> int:
        return len(self.onset)

    @property
    def around(self) -> str:
        """How samples are cut, in words; `IN_TIME` unless the events are not in the order of time."""
        return IN_TIME if np.all(np.diff(self.onset) >= 0) else "around events that are not in order"

    def take(self, rows: Array) -> Events:
        """Return some of the events."""
        columns = {name: values[rows] for name, values in self.columns.items()}
        return replace(self, onset=self.onset[rows], duration=self.duration[rows], columns=columns)


def parsed_events(events: Any) -> Path | tuple[str, ...] | Literal[True] | None:
    """Return the path of a table of events, or names of events, given as a list or separated by commas."""
    if events is None or events is TABLE:
        return events
    if isinstance(events, str | Path):
        path = Path(events)
        if path.exists() or isinstance(events, Path) or is_list(path):
            if not path.is_file() or not is_list(path):
                raise BadFileError(
                    f"{path}: events (command line: --events) must be a table that exists, .tsv or .csv, with a column "
                    "onset, or names of events"
                )
            return path
    names = parsed_names(events)
    if not names:
        raise ValueError("events (command line: --events) must name at least one event, or a table of events; got none")
    return names


def parsed_names(given: Any) -> tuple[str, ...]:
    """Return different names that are given as a list or separated by commas."""
    names = given.split(",") if isinstance(given, str) else given or ()
    return tuple(dict.fromkeys(str(name).strip() for name in names if str(name).strip()))


def needs_table(path: Path, events: Any) -> BadFileError:
    """Return the error for a recording that is cut around the events of a table, which was not given."""
    why = "the samples of the model were cut around the events of a table, so those of this recording are needed, too"
    reason = why if events is TABLE else f"names of events, {listed(events)}, are for recordings that hold events"
    return BadFileError(
        f"{path}: needs a table of events, with onset, duration (in seconds) and trial_type, as events=... (command "
        f"line: --events TABLE); {reason}"
    )


def read_events(path: Path, rules: FileRules) -> Events:
    """Return the events of a table with the columns onset, duration (optional), in seconds, and trial_type or label."""
    columns = read_table(path, rules=rules).columns
    by_name = {name.lower(): name for name in reversed(columns)}
    if "onset" not in by_name:
        raise BadFileError(
            f"{path}: events (command line: --events) must have a column onset, in seconds; its columns are "
            f"{listed(columns)}. Rename the right one"
        )
    onset = _seconds(path, "onset", columns[by_name["onset"]])
    lasting = by_name.get("duration")
    duration = np.zeros(len(onset)) if lasting is None else _seconds(path, "duration", columns[lasting], 0.0)
    others = {name: np.array(columns[name], str) for name in columns if name not in (by_name["onset"], lasting)}
    label = next((by_name[name] for name in _NAMES if name in by_name), None)
    return Events(path, onset, duration, others, label)


def _seconds(path: Path, name: str, values: Sequence[str], missing: float | None = None) -> Array:
    known = [str(missing) if missing is not None and is_missing(text) else text for text in values]
    return finite_numbers(known, f"{path}: {name} must be a number of seconds", "Correct it, or leave that event out")


def choose_events(events: Events, names: Sequence[str] | None, label: str | None) -> tuple[Events, list[str]]:
    """Return the events with certain names in the column ``label``, or all that have one, and a note on others."""
    column = label if label is not None and label in events.columns else events.label
    if column is None or column not in events.columns:
        return events, []
    values = np.array([str(value).strip() for value in events.columns[column].tolist()], str)
    if names is None:
        left = np.flatnonzero([not is_missing(value) for value in values.tolist()])
        lost = len(events) - len(left)
        return events.take(left), [f"{lost} events without a value of {column} were left out"] if lost else []
    rows = rows_named(events.source, values, names)
    return events.take(rows), []


def rows_named(source: Path, values: Array, names: Sequence[str]) -> Array:
    """Return the rows with one of the given names, or whose last part (after "/") is one of them."""
    wanted = {_plain(name) for name in names}
    own = [({_plain(value), _plain(value.rpartition("/")[2])}) for value in values.tolist()]
    known = set().union(*own) if own else set()
    unknown = [name for name in names if _plain(name) not in known]
    if unknown:
        raise BadFileError(
            f"{source}: has no events {listed(unknown)}; it has {format_counts(values)}. Name some of these with "
            "events=... (command line: --events)"
        )
    return np.flatnonzero([bool(one & wanted) for one in own])


def _plain(name: str) -> str:
    """Return a name without spaces: BrainVision writes "S  1"."""
    return "".join(name.split())


def format_counts(values: Array) -> str:
    """Return the different values with their numbers, as text."""
    counts = Counter(str(value) for value in values.tolist())
    return listed([f"{value} ({number})" for value, number in counts.most_common()]) or "none"


def cut_series(
    path: Path, data: Array, sfreq: float, events: Events, window: Window, rules: FileRules
) -> tuple[Array, Array, Array, list[str]]:
    """Return a piece per event of a series, channels × times, their times in seconds from the onset, events, and notes.

    Without ``tmax``, a piece ends with its event; all must have the same duration then. Events whose window is not in
    the recording have no piece.
    """
    tmin = window.tmin or 0.0
    if window.tmax is None:
        lasting = np.unique(events.duration.round(6))
        if len(lasting) != 1 or not lasting[0] > tmin:
            raise BadFileError(
                f"{path}: the part of the recording around each event must be given: tmin=... and tmax=... (command "
                f"line: --tmin, --tmax), in seconds; events last {_range(events.duration)} s, so it is not their "
                "duration"
            )
        length = round((lasting[0] - tmin) * sfreq)
    else:
        length = round((window.tmax - tmin) * sfreq) + 1
    first = round(tmin * sfreq)
    starts = np.rint((events.onset + (window.delay or 0.0)) * sfreq) + first
    rows = np.flatnonzero((starts >= 0) & (starts + length <= data.shape[1]))  # before they become integers
    _check_any(path, events, rows, length < 1, data.shape[1] / sfreq)
    series = cleaned(path, data.T, window, rules).T
    pieces = np.stack([series[:, start : start + length] for start in starts[rows].astype(np.int64).tolist()])
    return pieces, (first + np.arange(length)) / sfreq, rows, _outside(path, len(events), len(rows))


def mean_volumes(
    path: Path, volumes: Any, tr: float, events: Events, window: Window, rules: FileRules
) -> tuple[Any, Array, list[str]]:
    """Return the mean of the volumes in the window of each event, the events that have any, and notes.

    Volume k is taken at the time k * tr. The window lasts from tmin to tmax after the (delayed) onset, by default as
    long as the event; if no volume is in it, the one nearest to its middle is taken.
    """
    onset = events.onset + (window.delay or 0.0)
    begin = onset + (window.tmin or 0.0)
    end = begin + events.duration if window.tmax is None else onset + window.tmax
    n_volumes = int(volumes.shape[0])
    first = np.ceil(begin / tr - 1e-6)
    last = np.floor(end / tr - (1e-6 if window.tmax is None else -1e-6))  # an event excludes its end
    nearest = np.rint((begin + end) / (2 * tr))
    first, last = np.where(last < first, nearest, first), np.where(last < first, nearest, last)
    rows = np.flatnonzero((first >= 0) & (last < n_volumes))  # before they become integers
    _check_any(path, events, rows, False, n_volumes * tr)
    series = cleaned(path, volumes, window, rules)
    means = [series[int(first[row]) : int(last[row]) + 1].mean(axis=0) for row in rows.tolist()]
    stack = import_module("dask.array").stack if is_lazy(volumes) else np.stack
    return stack(means), rows, _outside(path, len(events), len(rows))


def _check_any(path: Path, events: Events, rows: Array, is_empty: bool, seconds: float) -> None:
    if len(rows) and not is_empty:
        return
    if not len(events):
        raise BadFileError(f"{events.source}: has no events; give a table with at least one, as events=... (--events)")
    raise BadFileError(
        f"{path}: lasts {seconds:.6g} s, and the window of none of its {len(events)} events, with onsets "
        f"{_range(events.onset)} s, is within it; onsets are in seconds from its beginning (see also --tmin, --tmax "
        "and --delay)"
    )


def _outside(path: Path, n_events: int, n_rows: int) -> list[str]:
    lost = n_events - n_rows
    return [f"{path.name}: {lost} of {n_events} events were left out, whose window is not within it"] if lost else []


def _range(values: Array) -> str:
    if not len(values):
        return "no"
    low, high = float(values.min()), float(values.max())
    return f"{low:.6g}" if low == high else f"{low:.6g} to {high:.6g}"
