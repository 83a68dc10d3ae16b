"""Names, units and coordinates of the modes of samples: channels by name, time in ms, wavelength in nm.

An `Axis` describes one mode, a tuple of them one tensor (without the axis of the samples). Nothing depends on them in a
fit: they label figures and tables, and let modes be given by name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..runtime import Array, listed
from . import fitted

_LONGEST_TEXT = 500  # characters of a name, a unit or a coordinate
_SECONDS = {"s": 1.0, "sec": 1.0, "second": 1.0, "seconds": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6}
_OTHER_RATE = 1e-3  # relative
_LONGEST_IN_MS, _LONGEST_STEP_IN_MS = 10.0, 0.1  # seconds
_SHARE_OF_STEP = 0.2  # twice the error of coordinates in words
_ROUNDING = 1e-4  # relative to a step: coordinates come in single precision, and in text
CHANNELS = ("channel", "channels", "electrode", "electrodes", "sensor", "sensors")
"""Names of the mode of channels."""
_TIME = ("time", "times", "t")
WAVENUMBERS = ("cm-1", "cm^-1", "1/cm", "cm⁻¹")
_SPECTRAL_UNITS = ("nm", "µm", "um", "micron", "microns", "angstrom", *WAVENUMBERS, "ppm", "mz", "m/z")
_SPECTRAL = re.compile(r"wave[ _]?(length|number)s?|(raman|chemical)[ _]?shifts?|excitations?|emissions?|m/?z")
_PLACES = re.compile(r"[xyz]|rows?|col(umn)?s?|width|height|depth|lat(itude)?|lon(gitude)?|distance|position")
_COLOUR_NAMES = ("colour", "colours", "color", "colors", "rgb")
_COLOURS = (["blue", "green", "red"], ["b", "g", "r"])
_TYPES_OF_VALUES: tuple[set[type], ...] = (set(), {str}, {int}, {float}, {int, float})
_FORM = "write name, name[unit], name[unit]=start:step or name=a|b|c for each mode, separated by commas"


@fitted.attributes(name=fitted.text, unit=fitted.text, values=fitted.labels() | None)
@dataclass(frozen=True, eq=False)
class Axis:
    """One mode of the samples.

    Attributes
    ----------
    name : str
        What the mode is: "channel", "time"; "" if unknown.
    unit : str
        Unit of its coordinates: "ms", "nm"; "" if they have none.
    values : ndarray of shape (size,) or None
        One coordinate per index, numbers or text; None if they are unknown.

    Examples
    --------
    >>> from tensormargin import Axis
    >>> Axis("time", "ms", [-200, -196, -192]).label
    'time (ms)'
    """

    name: str = ""
    unit: str = ""
    values: Any = None

    def __post_init__(self) -> None:
        for what in ("name", "unit"):
            text = getattr(self, what)
            if not isinstance(text, str) or len(text) > _LONGEST_TEXT:
                raise ValueError(
                    f"the {what} of a mode must be text of at most {_LONGEST_TEXT} characters; got {text!r:.80}"
                )
        if self.values is not None:
            object.__setattr__(self, "values", _checked_values(self.values, self.name))

    def _fits(self) -> dict[str, Any]:
        return {"values": Axis(**vars(self))}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(vars(Axis(**state)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Axis) or (self.name, self.unit) != (other.name, other.unit):
            return False
        if self.values is None or other.values is None:
            return self.values is other.values
        return bool(np.array_equal(self.values, other.values))

    @property
    def label(self) -> str:
        """Name with the unit, for figures."""
        return f"{self.name} ({self.unit})" if self.name and self.unit else self.name or self.unit

    @property
    def is_numeric(self) -> bool:
        """Whether the coordinates are known numbers."""
        return self.values is not None and self.values.dtype.kind == "f"

    @property
    def is_time(self) -> bool:
        """Whether the mode is time, by its name or its unit."""
        return self.name.lower() in _TIME or self.unit in _SECONDS

    @property
    def is_spectral(self) -> bool:
        """Whether the mode is that of wavelengths, wavenumbers or the like, by its name or its unit."""
        name = self.name.lower().strip()
        known = self.unit.casefold() in _SPECTRAL_UNITS and not _PLACES.fullmatch(name)  # places are in µm, too
        return known or _SPECTRAL.fullmatch(name) is not None

    @property
    def says_nothing(self) -> bool:
        """Whether name, unit and coordinates are unknown."""
        return not self.name and not self.unit and self.values is None

    @property
    def sfreq(self) -> float | None:
        """Sampling frequency in Hz if this is time in regular steps of a known unit, otherwise None."""
        second = _SECONDS.get(self.unit)
        if second is None or self.values is None or not self.is_numeric or len(self.values) < 2:
            return None
        steps = np.diff(self.values)
        step = float(np.mean(steps))
        single = 4 * np.finfo(np.float32).eps * np.abs(self.values).max()  # where coordinates came in single precision
        if step <= 0 or np.abs(steps - step).max() > max(_ROUNDING * step, single):
            return None
        return float(f"{1.0 / (step * second):.6g}")

    def at(self, places: Any) -> Axis:
        """Return the axis at other places, in indices of this one: text at whole places, numbers interpolated.

        Numbers continue beyond the ends by the steps there. Coordinates that cannot be told are unknown.
        """
        places = np.asarray(places, np.float64)
        if self.values is None:
            return self
        size = len(self.values)
        near = np.rint(places).astype(int)
        inside = (near >= 0) & (near < size)
        if np.array_equal(places, near) and inside.all():
            return replace(self, values=self.values[near])
        if not self.is_numeric or size < 2:
            return replace(self, values=None)
        first = np.clip(np.floor(places).astype(int), 0, size - 2)
        low, high = self.values[first], self.values[first + 1]
        return replace(self, values=low + (places - first) * (high - low))

    def spoken(self, index: int) -> str:
        """Return an index in words: "Cz", "132 ms", or the number of the index, counted from 1.

        Numbers have the digits that tell them from their neighbours. Times of less than ten seconds in steps of less
        than a tenth are in ms.
        """
        if self.values is None:
            return str(index + 1)
        if not self.is_numeric:
            return str(self.values[index])
        steps = np.abs(np.diff(self.values))
        step, value, unit = float(steps[steps > 0].min(initial=np.inf)), float(self.values[index]), self.unit
        if _SECONDS.get(unit) == 1.0 and step < _LONGEST_STEP_IN_MS and np.abs(self.values).max() < _LONGEST_IN_MS:
            step, value, unit = 1e3 * step, 1e3 * value, "ms"
        if np.isfinite(step):
            value = round(value, max(0, int(np.ceil(-np.log10(_SHARE_OF_STEP * step)))))
        return f"{value + 0.0:.6g} {unit}".strip()  # never -0


Axes = tuple[Axis, ...]
AnyAxes = Axes | Mapping[str, "Axes | None"] | None
"""Axes of one tensor, or of each of several views by name; None if nothing is known."""


def _checked_values(values: Any, name: str) -> Array:
    array = np.asarray(values)
    if array.dtype.kind == "O" and all(isinstance(one, str) for one in array.flat):
        array = array.astype(np.str_)
    if array.ndim != 1 or array.dtype.kind not in "iufbUST":
        raise ValueError(
            f"the coordinates of mode {name!r} must be one number or text per index; got an array of shape "
            f"{array.shape} and type {array.dtype}"
        )
    if array.dtype.kind == "S":
        array = np.char.decode(array, "utf-8", "replace")
    array = array.astype(np.str_) if array.dtype.kind in "UT" else array.astype(np.float64)
    if array.dtype.kind == "U" and array.dtype.itemsize > 4 * _LONGEST_TEXT:
        raise ValueError(f"the coordinates of mode {name!r} must have at most {_LONGEST_TEXT} characters each")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ValueError(f"the coordinates of mode {name!r} must be finite; got {array[~np.isfinite(array)][0]}")
    array.flags.writeable = False
    return array


def checked_axes(axes: Sequence[Axis] | None, shape: Sequence[int | None]) -> Axes | None:
    """Return the axes as a tuple if they fit samples of a shape (None: any length); None if they say nothing."""
    if axes is None:
        return None
    if len(axes) != len(shape):
        named = ", ".join(axis.name or "?" for axis in axes)
        raise ValueError(
            f"there must be one axis per mode; got {len(axes)} ({named}) for samples with {len(shape)} modes. "
            "Describe every mode, those without a name by an empty Axis()"
        )
    for axis, size in zip(axes, shape, strict=True):
        if axis.values is not None and size is not None and len(axis.values) != size:
            raise ValueError(
                f"mode {axis.name!r} must have one coordinate per index; got {len(axis.values)} for {size} indices"
            )
    found = tuple(axes)
    return None if all(axis.says_nothing for axis in found) else found


def checked_any_axes(axes: AnyAxes, shape: Any) -> AnyAxes:
    """Return the axes of an array, or of each of several views, if they fit samples of a shape."""
    if not isinstance(axes, Mapping):
        if isinstance(shape, Mapping) and axes is not None:
            raise ValueError(f"axes of several views must be a mapping with the names {list(shape)}; got {axes!r:.200}")
        return checked_axes(axes, shape)
    if not isinstance(shape, Mapping) or not set(axes) <= set(shape):
        views = f"which are {list(shape)}" if isinstance(shape, Mapping) else "and there is one tensor per sample"
        raise ValueError(f"axes by name are those of the views, {views}; got axes of {list(axes)}")
    found = {name: checked_axes(own, shape[name]) for name, own in axes.items()}
    return found if any(own is not None for own in found.values()) else None


def axes_of(
    shape: Sequence[int | None],
    mode_names: Sequence[str] | None = None,
    mode_values: Mapping[str, Any] | Sequence[Any] | None = None,
) -> Axes | None:
    """Return axes from names such as "time[ms]", and coordinates by mode or by name."""
    names = [_name_and_unit(text) for text in (mode_names if mode_names is not None else [""] * len(shape))]
    if len(names) != len(shape):
        raise ValueError(
            f"mode_names must have one name per mode; got {len(names)} for samples with {len(shape)} modes: {names}"
        )
    if isinstance(mode_values, Mapping):
        unknown = sorted(set(mode_values) - {name for name, _ in names})
        if unknown:
            raise ValueError(
                f"mode_values must be given for modes in mode_names; got {unknown}, and the modes are "
                f"{[name for name, _ in names]}"
            )
        values: Sequence[Any] = [mode_values.get(name) for name, _ in names]
    else:
        values = [None] * len(names) if mode_values is None else mode_values
    if len(values) != len(names):
        raise ValueError(f"mode_values must have one entry per mode; got {len(values)} for {len(names)} modes")
    return checked_axes([Axis(*pair, own) for pair, own in zip(names, values, strict=True)], shape)


def axes_of_volume(affine: Any, shape: Sequence[int | None]) -> Axes | None:
    """Return x, y and z in mm for the first three modes of a volume, with coordinates unless the affine turns it."""
    matrix = np.asarray(affine, np.float64)
    if matrix.shape != (4, 4) or not np.isfinite(matrix).all() or len(shape) < 3 or None in shape[:3]:
        return None
    turn = matrix[:3, :3]
    nearest = np.argmax(np.abs(turn), axis=0)
    if len(set(nearest.tolist())) < 3:
        return None
    straight = np.count_nonzero(turn) == 3
    axes = []
    for mode, world in enumerate(nearest.tolist()):
        places = turn[world, mode] * np.arange(int(shape[mode] or 0)) + matrix[world, 3]
        axes.append(Axis("xyz"[world], "mm", places if straight else None))
    return (*axes, *(Axis() for _ in shape[3:]))


def axes_of_picture() -> Axes:
    """Return the axes of a colour image, rows x columns x colours."""
    return Axis("row"), Axis("column"), Axis("colour", "", ["red", "green", "blue"])


def colour_mode(axes: AnyAxes, shape: Sequence[int | None]) -> int | None:
    """Return the mode of red, green and blue of colour images, told by name or coordinates; None if none is."""
    if not isinstance(axes, tuple) or len(axes) != 3 or len(shape) != 3:
        return None
    found = [
        mode
        for mode, axis in enumerate(axes)
        if shape[mode] == 3 and (axis.name.lower() in _COLOUR_NAMES or sorted(_lower_names(axis)) in _COLOURS)
    ]
    return found[0] if len(found) == 1 else None


def colour_order(axis: Axis) -> list[int]:
    """Return the indices of red, green and blue along a mode of colours."""
    initials = [name[:1] for name in _lower_names(axis)]
    return [initials.index(one) for one in "rgb"] if sorted(initials) == ["b", "g", "r"] else [0, 1, 2]


def _lower_names(axis: Axis) -> list[str]:
    return [] if axis.values is None or axis.is_numeric else [one.lower() for one in axis.values.tolist()]


def parsed_axes(text: str, shape: Sequence[int | None]) -> Axes | None:
    """Return the axes that a line such as "channel=Fz|Cz,time[ms]=-200:4" describes, one description per mode."""
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != len(shape):
        raise ValueError(
            f"modes must be described one by one; got {len(parts)} in {text!r} for samples with {len(shape)} modes. "
            f"For each, {_FORM}"
        )
    return checked_axes([_parsed(part, size) for part, size in zip(parts, shape, strict=True)], shape)


def _parsed(part: str, size: int | None) -> Axis:
    described, equals, coordinates = part.partition("=")
    name, unit = _name_and_unit(described)
    if not equals:
        return Axis(name, unit)
    if "|" in coordinates or ":" not in coordinates:
        return Axis(name, unit, [own.strip() for own in coordinates.split("|")])
    start, _, step = coordinates.partition(":")
    try:
        begin, by = float(start), float(step)
    except ValueError:
        raise ValueError(f"coordinates must be start:step in numbers; got {coordinates!r}. {_FORM}") from None
    if size is None:
        raise ValueError(f"mode {name!r} has no coordinates, since samples differ in its length; leave ={coordinates}")
    return Axis(name, unit, begin + by * np.arange(size))


def _name_and_unit(text: str) -> tuple[str, str]:
    name, opening, unit = text.strip().partition("[")
    is_closed = not opening or (unit.endswith("]") and not set(unit[:-1]) & set("[]"))
    if not is_closed or set(name) & set("]=|,"):
        raise ValueError(f"a mode must be described as name or name[unit]; got {text!r:.80}. {_FORM}")
    return name.strip(), unit[:-1].strip()


def mode_number(mode: int | str, axes: Axes | None, order: int) -> int:
    """Return the number of a mode, counted from 0, that is given by number or by name."""
    if not isinstance(mode, str):
        return int(mode) % order if -order <= mode < order else int(mode)
    names = [axis.name for axis in axes or ()]
    if names.count(mode) != 1:
        known = f"the modes are {names}" if any(names) else "the modes of these samples have no names"
        raise ValueError(f"a mode must be given by its number or by one of the names; got {mode!r}, and {known}")
    return names.index(mode)


def axes_facts(axes: AnyAxes) -> Any:
    """Return axes as JSON types."""
    if isinstance(axes, Mapping):
        return {name: axes_facts(own) for name, own in axes.items()}
    if axes is None:
        return None
    return [
        {"name": axis.name, "unit": axis.unit, "values": None if axis.values is None else axis.values.tolist()}
        for axis in axes
    ]


def axes_from_facts(facts: Any, shape: Any) -> AnyAxes:
    """Return the axes that `axes_facts` has written; ValueError if they are none, or not of this shape (None: any)."""
    views = isinstance(facts, dict)
    axes: AnyAxes = {name: _tuple_from(own) for name, own in facts.items()} if views else _tuple_from(facts)
    return axes if shape is None else checked_any_axes(axes, shape)


def _tuple_from(facts: Any) -> Axes | None:
    if facts is None:
        return None
    if not isinstance(facts, list):
        raise ValueError(f"axes must be a list with one description per mode, got {type(facts).__name__}")
    found = []
    for one in facts:
        if not isinstance(one, dict) or set(one) != {"name", "unit", "values"}:
            raise ValueError(f"the axis of a mode must have name, unit and values, got {one!r:.80}")
        values = [] if one["values"] is None else one["values"]
        if not isinstance(values, list) or {type(value) for value in values} not in _TYPES_OF_VALUES:
            raise ValueError(f"the coordinates of mode {one['name']!r:.80} must be a list of numbers or of text")
        found.append(Axis(one["name"], one["unit"], one["values"]))
    return tuple(found)


def contradictions(known: AnyAxes, given: AnyAxes, any_rate: bool = False) -> tuple[str | None, str | None]:
    """Return what forbids to use samples with other axes than those of a fit, and what to warn of, in words.

    Modes of other names, channels that `as_known` does not find by name, and times at another sampling frequency are an
    error, the latter not with ``any_rate``; other numbers (times, wavelengths) or another unit are worth a warning.
    What is not known on one side contradicts nothing.
    """
    if isinstance(known, Mapping) and isinstance(given, Mapping):
        pairs = [(name, *contradictions(own, given[name], any_rate)) for name, own in known.items() if name in given]
        errors = (f"view {name!r}: {error}" for name, error, _ in pairs if error)
        warnings = (f"view {name!r}: {warning}" for name, _, warning in pairs if warning)
        return next(errors, None), next(warnings, None)
    if isinstance(known, Mapping) or isinstance(given, Mapping):
        return None, None
    warning = None
    for mode, (own, other) in enumerate(zip(known or (), given or (), strict=False)):
        error = _other_names(mode, own, other) or (None if any_rate else _other_rate(mode, own, other))
        if error is not None:
            names = ", ".join(axis.name or "?" for axis in known or ())
            return f"{error} (the modes of the fit: {names})" if names.strip("?, ") else error, None
        warning = warning or _other_numbers(mode, own, other)
    return None, warning


def as_known(known: AnyAxes, given: AnyAxes) -> tuple[Axes | None, dict[int, Array], list[str]]:
    """Return the axes of samples with names in the order of a fit, which indices to take by mode, and names left out.

    Upper and lower case, blanks and a point at the end make no difference (FP1, Fp1). Only text along a mode is a name;
    where a name of the fit is missing or not unique, the mode stays as it is.
    """
    if not isinstance(known, tuple) or not isinstance(given, tuple) or len(known) != len(given):
        return given if isinstance(given, tuple) else None, {}, []
    axes, places, left_out = list(given), dict[int, Array](), list[str]()
    for mode, (own, other) in enumerate(zip(known, given, strict=True)):
        if own.values is None or other.values is None or own.is_numeric or other.is_numeric:
            continue
        if np.array_equal(own.values, other.values):
            continue
        wanted, there = own.values.tolist(), other.values.tolist()
        if not set(wanted) <= set(there):
            wanted, there = [_plain_name(name) for name in wanted], [_plain_name(name) for name in there]
        if not set(wanted) <= set(there) or any(there.count(name) > 1 for name in wanted):
            continue
        places[mode] = np.array([there.index(name) for name in wanted])
        left_out += np.delete(other.values, places[mode]).tolist()
        axes[mode] = replace(other, values=own.values)
    return tuple(axes), places, left_out


def _plain_name(name: str) -> str:
    return name.strip(" .").casefold()


def _other_names(mode: int, own: Axis, other: Axis) -> str | None:
    which = f"mode {mode} (counted from 0)"
    if own.name and other.name and own.name.casefold() != other.name.casefold():
        return (
            f"the modes must be those seen in fit, in their order; {which} was {own.name!r} and is {other.name!r}. "
            "Put the modes into the order of the fit"
        )
    if own.values is None or other.values is None or own.is_numeric or other.is_numeric:
        return None
    if np.array_equal(own.values, other.values):
        return None
    named = f" ({own.name})" if own.name else ""
    seen, given = own.values.tolist(), other.values.tolist()
    missing, additional = (
        [name for name in one if _plain_name(name) not in set(map(_plain_name, two))]
        for one, two in ((seen, given), (given, seen))
    )
    changes = ((missing, "missing"), (additional, "additional"))
    differences = [f"{listed(names, most=5)} {word}" for names, word in changes if names]
    return (
        f"the names along a mode must be those seen in fit; along {which}{named} they are not the same: "
        f"{'; '.join(differences) or 'some are there twice'}. Give samples with these {len(seen)} names: "
        f"{listed(seen, most=20)}"
    )


def _other_rate(mode: int, own: Axis, other: Axis) -> str | None:
    """Return an error for times at another sampling frequency, as many as those of the fit."""
    if own.sfreq is None or other.sfreq is None or len(own.values) != len(other.values):
        return None
    return other_frequency(own.sfreq, other.sfreq, f" along mode {mode} (counted from 0)")


def other_frequency(known: float, given: float, where: str = "") -> str | None:
    """Return an error for samples at another sampling frequency than those of a fit; None if it is the same."""
    if abs(given / known - 1) <= _OTHER_RATE:
        return None
    return (
        f"samples must have the sampling frequency of the fit; it was {known:g} Hz{where} and is {given:g} Hz. "
        "Resample them, or predict them as they are inside `with tensormargin.any_scale():` (command line: --any-scale)"
    )


def _other_numbers(mode: int, own: Axis, other: Axis) -> str | None:
    if own.unit and other.unit and own.unit != other.unit:
        return f"mode {mode} (counted from 0, {own.name!r}) was in {own.unit} in the fit, and is in {other.unit}"
    if own.values is None or other.values is None or not own.is_numeric or not other.is_numeric:
        return None
    if len(own.values) == len(other.values):
        span = float(np.ptp(own.values)) or float(np.abs(own.values).max(initial=0.0)) or 1.0
        room = _ROUNDING * span / max(1, len(own.values) - 1) + 1e-6 * span
        if np.abs(own.values - other.values).max(initial=0.0) <= room:
            return None
    return (
        f"the coordinates of mode {mode} (counted from 0, {own.name!r}) are not those of the fit: they went from "
        f"{_ends(own)}, and go from {_ends(other)}"
    )


def _ends(axis: Axis) -> str:
    first, last = (f"{axis.values[place] + 0.0:.6g} {axis.unit}".strip() for place in (0, -1))
    return f"{first} to {last}"


def format_axes(axes: AnyAxes) -> str:
    """Return names and coordinates in words: "channel (Fz, Cz, ..., Oz), time (-200 to 796 ms)"."""
    if isinstance(axes, Mapping):
        return "; ".join(f"{name}: {format_axes(own)}" for name, own in axes.items() if own is not None)
    words = []
    for mode, axis in enumerate(axes or ()):
        name, values = axis.name or f"mode {mode + 1}", [] if axis.values is None else axis.values.tolist()
        if not values:
            words.append(axis.label if axis.name and axis.unit else name)
        elif axis.is_numeric:
            words.append(f"{name} ({values[0]:.6g} to {values[-1]:.6g}{f' {axis.unit}' if axis.unit else ''})")
        else:
            shown = values if len(values) <= 6 else [*values[:4], "...", values[-1]]
            words.append(f"{name} ({', '.join(shown)})")
    return ", ".join(words)
