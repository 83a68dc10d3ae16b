"""The options of `load_samples`, each declared once.

From the declarations come the options of the commands, the refusals of options that a kind of source does not take,
what a model remembers of its samples, how a methods section tells it, and a table of the guide. Paths are never
remembered: of a table of events only that there was one. Every command imports this for its --help, so that it must
not import anything heavy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from math import isclose, isfinite
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ..data import DEFAULT_RULES, BadFileError, FileRules, parsed_bytes
from ..runtime import listed

TABLE: Literal[True] = True  # stands for events from a table, which belongs to one recording and is not remembered

Missing = bool | Literal["entries"]
"""Which entries may be NaN: none, all of a sample that lacks one of several views (True), or any ("entries")."""

GroupsName = str | Literal[False] | None
"""Name of the groups; None for the first usual name that is present, False to ignore groups."""

BLOCKS: Literal["blocks"] = "blocks"
"""Samples stay in files that can be read in parts, and slices of them read blocks, without Dask."""

Chunks = int | str  # number of samples per chunk, or its size in bytes as text ("64 MiB"); "auto" uses Dask's setting

_NAMES = ("samples", "labels", "groups")  # may differ from file to file without changing the samples
_FLAGS = ("ragged", "missing")  # are False if they are not given
CLASS_NUMBERS = "class_numbers"
_STATED = ("tr", "sfreq", CLASS_NUMBERS)  # read from the file where it states them
_CUT = "only recordings, arrays of channels by times and 4-D NIfTI files are cut around events"


# ---- declarations ----


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _are_counts(value: Any) -> bool:
    return isinstance(value, dict) and bool(value) and all(map(_is_text, value)) and all(map(_is_count, value.values()))


def _numbered(classes: Mapping[str, int]) -> str:
    return listed([f"{number} {name}" for name, number in classes.items()])


def _is_true(value: Any) -> bool:
    return value is True


def _list_of(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and bool(value) and all(map(check, value))


_CHECKS = {"text": _is_text, "number": _is_number, "count": _is_count, "shape": _list_of(_is_count)}


class Option(NamedTuple):
    """An option: help and type on the command line, what it is for, and how what a model remembers of it reads.

    ``kind`` is one of text, texts, number, count, shape, path and flag. Without ``words``, it is not remembered.
    """

    help: str = ""
    kind: str = "text"
    metavar: str | None = None
    flag: str | None = None  # the name on the command line, where it differs
    only: str = ""
    words: str | Callable[[Any], str] | None = None
    valid: Callable[[Any], bool] | None = None

    def allows(self, value: Any) -> bool:
        """Return whether a model may remember this value."""
        return (self.valid or _CHECKS[self.kind])(value)

    def describe(self, value: Any) -> str:
        """Return a value in words."""
        if isinstance(self.words, str):
            return self.words.format(listed(value) if isinstance(value, list) else value)
        return str(value) if self.words is None else self.words(value)


def _option(help: str = "", kind: str = "text", words: Any = None, default: Any = None, **more: Any) -> Any:
    return field(default=default, metadata={"option": Option(help, kind, words=words, **more)})


def _seconds(help: str, words: str, only: str = _CUT) -> Any:
    return _option(help, "number", words, metavar="SECONDS", only=only)


@dataclass(frozen=True)
class Select:
    """Which arrays, columns or files of a source are what."""

    samples: str | None = _option(
        "Array with the samples, or table column with their paths; several arrays are several views.",
        words="samples: {}",
        metavar="NAME[,NAME]",
        valid=lambda value: _is_text(value) or _list_of(_is_text)(value),
    )
    labels: str | None = _option("Array or column with the labels.", words="labels: {}", metavar="NAME")
    groups: GroupsName = _option(
        "Array or column with the groups (subject, run), kept together.",
        words=lambda value: f"groups: {value}" if value else "groups ignored",
        metavar="NAME",
        valid=lambda value: _is_text(value) or value is False,
    )
    confounds: tuple[str, ...] = _option(
        "Comma-separated arrays or columns (age,site); what they explain linearly is removed.",
        words="confounds: {}",
        default=(),
        metavar="NAMES",
        valid=_list_of(_is_text),
    )
    labels_from: Any = _option("File with the labels and optionally groups.", "path")


@dataclass(frozen=True)
class Layout:
    """What the axes of an array or file are, and the sizes that samples may have."""

    axis: int = _option(
        "Sample axis of the array. [default: 0]", "count", "samples along axis {} of the array", default=0
    )
    size: tuple[int, ...] | None = _option(
        "Resize image and volume files on loading, e.g. 64x64.",
        "shape",
        lambda value: f"files resized to {' x '.join(map(str, value))}",
        only="only files that are one sample each can be resized",
    )
    skip_damaged: bool = _option(
        "Leave out files that are damaged, and say which.",
        "flag",
        default=False,
        only="only files that are one sample each can be left out",
    )
    ragged: bool = _option(words="samples may differ in length", default=False, valid=_is_true)
    missing: Missing = _option(words="entries may be missing", default=False, valid=lambda value: value == "entries")
    mode_names: Any = _option(
        'Names, units and coordinates of the modes of a sample, e.g. "channel=Fz|Cz,time[ms]=-200:4" (start and step); '
        "by default what the file states. Once per view if there are several.",
        "texts",
        metavar="[VIEW:]TEXT",
        flag="modes",
    )
    mode_values: Any = _option()


@dataclass(frozen=True)
class Window:
    """Events (a table, names, None for all, `TABLE` for one still to come) and the part around each, in seconds."""

    events: Any = _option(
        "Table with onset, duration (seconds) and trial_type to cut DATA with, or comma-separated events to take.",
        words=lambda value: "events from a table" if value is TABLE else f"events {listed(value)}",
        metavar="TABLE|NAMES",
        only=_CUT,
        valid=lambda value: value is TABLE or _list_of(_is_text)(value),
    )
    tmin: float | None = _seconds("Start of a sample, relative to event onset.", "from {:g} s relative to the onset")
    tmax: float | None = _seconds("End of a sample; by default that of its event.", "to {:g} s after the onset")
    delay: float | None = _seconds(
        "Added to all onsets: about 5 s for the haemodynamic response.", "onsets delayed by {:g} s"
    )
    detrend: int | None = _option(
        "Remove a polynomial over time from a recording before cutting it.",
        "count",
        "a polynomial of degree {} over time removed from each recording",
        metavar="DEGREE",
        only=_CUT,
    )
    run_confounds: tuple[str, ...] = _option(
        "Comma-separated columns (csf,trans_*,rot_*) of the confounds of each run, regressed out of it before it is "
        "cut: of ..._desc-confounds_timeseries.tsv beside it.",
        words="{} regressed out of each recording",
        default=(),
        metavar="COLUMNS",
        only=_CUT,
        valid=_list_of(_is_text),
    )
    run_confounds_from: Any = _option(
        "Table of the confounds of a run, one row per volume; once per run, in their order. [default: beside it]",
        "texts",
        metavar="TABLE",
        only=_CUT,
    )
    tr: float | None = _seconds(
        "Repetition time of a 4-D NIfTI file that is cut; by default that of its header.",
        "repetition time {:g} s",
        only="only 4-D NIfTI files have a repetition time",
    )
    sfreq: float | None = _option(
        "Sampling frequency of series; by default what the file states.",
        "number",
        "sampling frequency {:g} Hz",
        metavar="HZ",
    )

    def __post_init__(self) -> None:
        for name in ("tmin", "tmax", "delay", "tr", "sfreq"):
            value = getattr(self, name)
            if value is not None and not isfinite(value):
                raise ValueError(f"{name} (command line: --{name}) must be a finite number; got {value}")
            if value is not None and name in _STATED and not value > 0:
                raise ValueError(f"{name} (command line: --{name}) must be above zero; got {value:g}")
        if self.tmax is not None and not self.tmax >= (self.tmin or 0.0):
            raise ValueError(
                f"tmax (command line: --tmax) must not be before tmin (--tmin); got {self.tmax:g} and "
                f"{self.tmin or 0.0:g} seconds"
            )
        if self.detrend is not None and self.detrend < 0:
            raise ValueError(
                f"detrend (command line: --detrend) must be the degree of a polynomial, from 0; got {self.detrend}"
            )

    @property
    def names(self) -> tuple[str, ...] | None:
        """The names of events to take."""
        return self.events if isinstance(self.events, tuple) else None

    @property
    def is_whole(self) -> bool:
        """Whether nothing is given for the part around events."""
        return self.tmin is self.tmax is self.delay is self.detrend is None and not self.run_confounds


@dataclass(frozen=True)
class Lazy:
    """Whether samples stay in their files, and how many of them a task reads."""

    lazy: bool | Literal["auto", "blocks"] = False
    chunks: Chunks = "auto"


@dataclass(frozen=True)
class FileLimits:
    """What files may ask for."""

    max_bytes: int | str | None = _option("Maximum memory for the samples, e.g. 8GB.", metavar="SIZE")
    allow_external: bool = _option(
        "Follow links, table paths and HDF5 storage to files elsewhere.", "flag", default=False
    )
    fill_missing: bool = _option("Treat missing chunks (Zarr, HDF5) as fill values.", "flag", default=False)
    sha256: str | None = _option("Digest that DATA must have, as sha256sum prints it.", metavar="DIGEST")

    @property
    def rules(self) -> FileRules:
        """The same as rules for readers."""
        return FileRules(parsed_bytes(self.max_bytes), self.allow_external, self.fill_missing)


GROUPS_OF_OPTIONS: tuple[type[Any], ...] = (Select, Layout, Window, Lazy, FileLimits)
OPTIONS: Mapping[str, Option] = {
    one.name: one.metadata.get("option", Option()) for group in GROUPS_OF_OPTIONS for one in fields(group)
}
"""All options by the names that `load_samples` has for them."""


def chosen_from(group: type[Any], given: Mapping[str, Any]) -> Any:
    """Return one of the groups of options, with the arguments that are given."""
    return group(**{one.name: given[one.name] for one in fields(group) if one.name in given})


# ---- what is requested, and refusals ----


class DoesNotApplyError(BadFileError):
    """Raised for options that a file cannot be read with: another kind of file, or a name that it lacks."""

    def __init__(self, message: str, *options: str) -> None:
        super().__init__(message)
        self.options = options


class Known(NamedTuple):
    """How the samples of a model were made, their shape, and whether labels were named again for new ones."""

    loading: Mapping[str, Any]
    shape: Sequence[int | None] | None
    labels_given: bool = False

    @property
    def are_cut(self) -> bool:
        """Whether samples are parts of recordings, around events."""
        return "around events" in self.loading.get("kind", "")

    @property
    def are_images(self) -> bool:
        """Whether each sample is an image file."""
        return "image" in self.loading.get("kind", "")

    def is_one(self, shape: Sequence[int]) -> bool:
        """Return whether an array of this shape is one sample, rather than several."""
        return self.shape is not None and len(shape) == len(self.shape)

    def fits(self, shape: Any) -> bool:
        """Return whether one sample may have this shape."""
        return _fits(shape, self.shape)


NOTHING_KNOWN = Known({}, None)  # there is no model yet


@dataclass(frozen=True)
class Request:
    """The checked arguments of `load_samples`.

    ``need_labels`` refers to the file of the samples, ``flat`` to a folder, whose files then need no class folders;
    ``other_labels`` is the name of the labels in a separate file.
    """

    select: Select = field(default_factory=Select)
    layout: Layout = field(default_factory=Layout)
    window: Window = field(default_factory=Window)
    lazy: Lazy = field(default_factory=Lazy)
    rules: FileRules = DEFAULT_RULES
    known: Known = NOTHING_KNOWN
    need_labels: bool = True
    flat: bool = False
    other_labels: str | None = None

    def refuse(self, path: Path, names: Iterable[str], why: str) -> None:
        """Raise `DoesNotApplyError` for the first of these options that is given."""
        for part in (self.select, self.layout, self.window):
            for one in fields(part):
                given = getattr(part, one.name)
                if one.name in names and given is not False and given != one.default:
                    option = f"--{one.name.replace('_', '-')}"
                    message = f"{one.name}={given!r} (command line: {option}) does not apply here: {why}"
                    raise DoesNotApplyError(f"{path}: {message}", one.name)

    def refuse_window(self, path: Path) -> None:
        """Raise `DoesNotApplyError` for a window if there are no events."""
        self.refuse(path, (*_CUTTING, "tr"), "a part around events needs events=... (command line: --events)")


_CUTTING = ("events", "tmin", "tmax", "delay", "detrend", "run_confounds", "run_confounds_from")
REFUSABLE = ("samples", "labels", "groups", "axis", "size", "skip_damaged", *_CUTTING, "tr")
"""Options that change what is read, and that some sources have no use for."""


class Family(NamedTuple):
    """A kind of source: those of the options that it takes, and why it does not take others."""

    words: str
    takes: tuple[str, ...]
    why: str

    def check(self, path: Path, request: Request) -> None:
        """Raise `DoesNotApplyError` for an option that is given, and that these sources do not take."""
        for name in REFUSABLE:
            if name not in self.takes:
                request.refuse(path, (name,), OPTIONS[name].only or self.why)


CONTAINER = Family("containers of arrays", ("samples", "labels", "groups", "axis", *_CUTTING), "it holds arrays")
RECORDING = Family(
    "epochs and recordings",
    ("samples", "labels", "groups", *_CUTTING),
    "the samples of a recording are its epochs, channels by times",
)
VOLUMES = Family(
    "4-D NIfTI files",
    ("labels", "groups", *_CUTTING, "tr"),
    "the samples of a 4-D NIfTI file are along its last axis, and it has no names; convert it to .npz",
)
BIDS = Family(
    "BIDS data sets",
    ("samples", "labels", "groups", "size", "skip_damaged"),
    "volumes are along the last axis of NIfTI files, or one file each",
)
FOLDER = Family(
    "class folders",
    ("size", "skip_damaged"),
    "a folder of files has no arrays or columns; its labels are the names of its subfolders",
)
ONE_FILE = Family("single images and volumes", ("size",), "a file of one sample has no arrays or columns")
FILE_TABLE = Family(
    "tables of files",
    ("samples", "labels", "groups", "size", "skip_damaged"),
    "each of the files in a table is one sample",
)
FAMILIES = (CONTAINER, RECORDING, VOLUMES, BIDS, FOLDER, ONE_FILE, FILE_TABLE)


# ---- what a model remembers ----

_REMEMBERED: Mapping[str, Option] = {
    "kind": Option(),
    "views": Option(words="views: {}", valid=_list_of(_is_text)),
    "covariates": Option(words="covariates: {}", valid=_list_of(_is_text)),
    **{name: option for name, option in OPTIONS.items() if option.words is not None},
    "modes": Option(words="modes named by hand", valid=_is_true),
    CLASS_NUMBERS: Option(words=lambda value: f"classes of the scene: {_numbered(value)}", valid=_are_counts),
}
"""Everything that is remembered, in the order in which it is told."""


def _fits(shape: Any, known: Any) -> bool:
    if known is None or isinstance(known, Mapping) or isinstance(shape, Mapping) or len(shape) != len(known):
        return False
    return all(size in (None, own) for own, size in zip(shape, known, strict=True))


def remembered_axes(like: Any, shape: Any, view: str | None = None) -> Any:
    """Return the axes that were given by hand for the samples of a model, or for one of their views, if they fit."""
    known, axes = like.sample_shape, like.axes
    if view is not None:
        known, axes = ((own or {}).get(view) for own in (known, axes))
    return axes if like.loading.get("modes") and _fits(shape, known) else None


def known_from(like: Any) -> Known:
    """Return what a `ModelFile` or a `SampleSet` says of its samples."""
    shape = like.sample_shape
    return Known(checked_loading(like.loading), None if shape is None or isinstance(shape, Mapping) else tuple(shape))


def loading_facts(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of `load_samples` that differ from the defaults and are remembered, as JSON types."""
    found = {name: _plain(given[name]) for name in _REMEMBERED if given.get(name) is not None}
    if given.get("mode_names") is not None or given.get("mode_values") is not None:
        found["modes"] = True
    return {name: value for name, value in found.items() if _REMEMBERED[name].allows(value)}


def _plain(value: Any) -> Any:
    """Return a value as JSON has it; the path of a table becomes `TABLE`."""
    if isinstance(value, Path):
        return TABLE
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value.item() if hasattr(value, "item") else value


def checked_loading(loading: Any) -> dict[str, Any]:
    """Return what a model file remembers, without options of later versions; raise ValueError for wrong values."""
    if not isinstance(loading, Mapping) or not isinstance(loading.get("stated", {}), Mapping):
        raise ValueError(f"how its samples were made must be a mapping, got {type(loading).__name__}")
    stated = {name: value for name, value in loading.get("stated", {}).items() if name in _STATED}
    found = {name: value for name, value in loading.items() if name in _REMEMBERED}
    for name, value in (*found.items(), *stated.items()):
        if not _REMEMBERED[name].allows(value):
            raise ValueError(f"how its samples were made, {name}={str(value)[:60]!r}, is not valid")
    return {**found, "stated": stated} if stated else found


def defaults_from(known: Known, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the remembered options that are not given again, as arguments of `load_samples`."""
    left = [name for name in known.loading if name in given and (given[name] is None or name in _FLAGS)]
    return {name: known.loading[name] for name in left if name != "samples" or _is_text(known.loading[name])}


def contradictions(known: Known, used: Mapping[str, Any], given: Iterable[str]) -> list[str]:
    """Return in words what differs between a model's samples and new ones, made as ``used`` says, for options given."""
    found = []
    for name in (*given, *_STATED):
        now, then = _value(used, name), _value(known.loading, name)
        if now is None or then is None or name in _NAMES:
            continue
        numbers = _is_number(now) and _is_number(then)
        if not (isclose(now, then, rel_tol=1e-3) if numbers else now == then):
            describe = _REMEMBERED[name].describe
            found.append(f"now {describe(now)}; the model was fitted with {describe(then)}")
    return list(dict.fromkeys(found))


def _value(loading: Mapping[str, Any], name: str) -> Any:
    return loading.get(name, loading.get("stated", {}).get(name))


def describe_loading(loading: Any) -> str:
    """Return in words how samples were made; nothing for a model that does not say."""
    known = checked_loading(loading or {})
    stated = known.pop("stated", {})
    words = [_REMEMBERED[name].describe(known[name]) for name in _REMEMBERED if name in known]
    words += [f"{_REMEMBERED[name].describe(value)} (stated by the file)" for name, value in stated.items()]
    return "; ".join(words)
