"""How samples were made from files: what a model remembers of it, as JSON types and in words.

Paths are never remembered: of a table of events only that there was one, of further files only the names of their
views.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isclose, isfinite
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ..data import BadFileError
from ..runtime import listed

TABLE: Literal[True] = True
"""Stands for events from a table, which belongs to one recording and is not remembered."""

WINDOW = ("tmin", "tmax", "delay", "detrend")
"""The options of the part around events."""

_NAMES = ("samples", "labels", "groups")  # may differ from file to file without changing the samples
_FLAGS = ("ragged", "missing")  # are False if they are not given
_STATED = ("tr", "sfreq")  # read from the file where it states them


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _list_of(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and bool(value) and all(map(check, value))


def _seconds(words: str) -> Callable[[Any], str]:
    return lambda value: words.format(f"{value:g} s")


def _joined(words: str) -> Callable[[Any], str]:
    return lambda value: words.format(listed(value) if isinstance(value, list) else value)


class _Option(NamedTuple):
    """What values an option of `load_samples` may have in a model file, and how they read in a methods section."""

    valid: Callable[[Any], bool]
    words: Callable[[Any], str]


_OPTIONS: Mapping[str, _Option] = {
    "kind": _Option(_is_text, str),
    "samples": _Option(lambda value: _is_text(value) or _list_of(_is_text)(value), _joined("samples: {}")),
    "views": _Option(_list_of(_is_text), _joined("views: {}")),
    "covariates": _Option(_list_of(_is_text), _joined("covariates: {}")),
    "labels": _Option(_is_text, _joined("labels: {}")),
    "groups": _Option(
        lambda value: _is_text(value) or value is False, lambda value: f"groups: {value}" if value else "groups ignored"
    ),
    "confounds": _Option(_list_of(_is_text), _joined("confounds: {}")),
    "axis": _Option(_is_count, _joined("samples along axis {} of the array")),
    "size": _Option(_list_of(_is_count), lambda value: f"files resized to {' x '.join(map(str, value))}"),
    "ragged": _Option(lambda value: value is True, lambda value: "samples may differ in length"),
    "missing": _Option(lambda value: value == "entries", lambda value: "entries may be missing"),
    "modes": _Option(lambda value: value is True, lambda value: "modes named by hand"),
    "events": _Option(
        lambda value: value is TABLE or _list_of(_is_text)(value),
        lambda value: "events from a table" if value is TABLE else f"events {listed(value)}",
    ),
    "tmin": _Option(_is_number, _seconds("from {} relative to the onset")),
    "tmax": _Option(_is_number, _seconds("to {} after the onset")),
    "delay": _Option(_is_number, _seconds("onsets delayed by {}")),
    "detrend": _Option(_is_count, _joined("a polynomial of degree {} over time removed from each recording")),
    "tr": _Option(_is_number, _seconds("repetition time {}")),
    "sfreq": _Option(_is_number, lambda value: f"sampling frequency {value:g} Hz"),
}
"""Everything that is remembered, in the order in which it is told."""


class DoesNotApplyError(BadFileError):
    """Raised for options that a file cannot be read with: another kind of file, or a name that it lacks."""

    def __init__(self, message: str, *options: str) -> None:
        super().__init__(message)
        self.options = options


class Known(NamedTuple):
    """What new samples must be like: how those of a model were made, and the shape of one.

    ``labels_given`` says whether the labels were named again for the new samples.
    """

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


NOTHING_KNOWN = Known({}, None)
"""There is no model yet."""


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
    found = {name: _plain(given[name]) for name in _OPTIONS if given.get(name) is not None}
    if given.get("mode_names") is not None or given.get("mode_values") is not None:
        found["modes"] = True
    return {name: value for name, value in found.items() if _OPTIONS[name].valid(value)}


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
    found = {name: value for name, value in loading.items() if name in _OPTIONS}
    for name, value in (*found.items(), *stated.items()):
        if not _OPTIONS[name].valid(value):
            raise ValueError(f"how its samples were made, {name}={str(value)[:60]!r}, is not valid")
    return {**found, "stated": stated} if stated else found


def defaults_from(known: Known, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the remembered options that are not given again, as arguments of `load_samples`."""
    left = [name for name in known.loading if name in given and (given[name] is None or name in _FLAGS)]
    return {name: known.loading[name] for name in left if name != "samples" or _is_text(known.loading[name])}


def contradictions(known: Known, used: Mapping[str, Any], given: Iterable[str]) -> list[str]:
    """Return what differs between the samples of a model and new ones, in words.

    Parameters
    ----------
    known : Known
    used : mapping
        How the new samples were made.
    given : iterable of str
        The options that were given for them.
    """
    found = []
    for name in (*given, *_STATED):
        now, then = _value(used, name), _value(known.loading, name)
        if now is None or then is None or name in _NAMES or _same(now, then):
            continue
        found.append(f"now {_OPTIONS[name].words(now)}; the model was fitted with {_OPTIONS[name].words(then)}")
    return list(dict.fromkeys(found))


def _value(loading: Mapping[str, Any], name: str) -> Any:
    return loading.get(name, loading.get("stated", {}).get(name))


def _same(one: Any, other: Any) -> bool:
    return isclose(one, other, rel_tol=1e-3) if _is_number(one) and _is_number(other) else bool(one == other)


def describe_loading(loading: Any) -> str:
    """Return in words how samples were made; nothing for a model that does not say.

    Examples
    --------
    >>> from tensormargin.io.loading import describe_loading
    >>> describe_loading({"kind": "class folder of images", "size": [64, 64]})
    'class folder of images; files resized to 64 x 64'
    """
    known = checked_loading(loading or {})
    stated = known.pop("stated", {})
    words = [_OPTIONS[name].words(known[name]) for name in _OPTIONS if name in known]
    words += [f"{_OPTIONS[name].words(value)} (stated by the file)" for name, value in stated.items()]
    return "; ".join(words)
