"""Positions of EEG electrodes: the 10-20, 10-10 and 10-5 systems, computed from their definition, or a montage.

The systems divide the head by proportions. On a sphere with the vertex Cz on top: the midline from the nasion to the
inion is divided into steps of 5 %; the ring through Fpz, T7, Oz and T8 is 10 % above the lowest ring, through nasion,
ears and inion; from each point of the ring to the midline runs an arc of a circle, divided into eighths. Nasion and
inion lie below the equator, since the sphere is that of the scalp: 10 % of the midline are 23 degrees.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np

from ..runtime import Array, FloatArray

# Rows from the nasion to the inion, 5 % of the midline apart; near the temples some have other letters.
_ROWS = (
    *("N", "NFp", "Fp", "AFp", "AF", "AFF", "F", "FFC", "FC", "FCC", "C"),
    *("CCP", "CP", "CPP", "P", "PPO", "PO", "POO", "O", "OI", "I"),
)
_AT_TEMPLES = {"FFC": "FFT", "FC": "FT", "FCC": "FTT", "C": "T", "CCP": "TTP", "CP": "TP", "CPP": "TPP"}
_TENTH = 23.0  # degrees
_RING, _LOWEST = 4 * _TENTH, 5 * _TENTH  # from the vertex
_RIM = (_RING + _LOWEST) / 2  # where figures draw the outline of the head
_OLD_NAMES = {"T3": "T7", "T4": "T8", "T5": "P7", "T6": "P8", "A1": "T9", "A2": "T10", "M1": "TP9", "M2": "TP10"}


def electrode_positions(channels: Sequence[str], montage: Any = None) -> dict[str, FloatArray]:
    """Return the positions of the channels that are known, on a sphere of radius 1.

    Parameters
    ----------
    channels : sequence of str
        Names; upper and lower case, "EEG " in front, and "-REF", "-LE", "-AVG" or dots behind make no difference.
    montage : str, montage of MNE, mapping or None, default=None
        A name of one of MNE's montages ("biosemi64"), a montage, or positions by name with two or three coordinates
        (x to the right, y to the front, z up; two coordinates are of the flattened head, whose outline has radius 1).
        By default the 10-20, 10-10 and 10-5 systems.

    Returns
    -------
    dict of str to ndarray of shape (3,)
        By the names as given, in their order; channels without a known position are left out.

    Examples
    --------
    >>> from tensormargin.plots import electrode_positions
    >>> list(electrode_positions(["Cz", "EEG C3-REF", "EOG"]))
    ['Cz', 'EEG C3-REF']
    >>> electrode_positions(["Cz"])["Cz"].round(6).tolist()
    [0.0, 0.0, 1.0]
    """
    names = [str(channel) for channel in channels]
    known = _standard() if montage is None else _of_montage(montage)
    return {name: known[_bare(name)] for name in names if _bare(name) in known}


def flattened(positions: Array) -> FloatArray:
    """Return positions on the sphere in the plane: the distance from the middle is the angle from the vertex.

    The circle of radius 1, the outline of the head, runs between the ring of Fpz, T7, Oz and T8 and that of the ears.
    """
    x, y, z = np.asarray(positions, np.float64).reshape(-1, 3).T
    angle = np.arctan2(np.hypot(x, y), z) / np.radians(_RIM)
    azimuth = np.arctan2(y, x)
    return np.column_stack([angle * np.cos(azimuth), angle * np.sin(azimuth)])


def _bare(name: str) -> str:
    """Return a name without case, prefix, reference and dots."""
    bare = name.strip().casefold().removeprefix("eeg").strip(" ._-")
    return re.sub(r"-(ref|le|avg|ar|av)$", "", bare)


@cache
def _standard() -> dict[str, FloatArray]:
    """Return all positions of the 10-5 system, which includes the other two."""
    found: dict[str, FloatArray] = {}
    for place, row in enumerate(_ROWS):
        share = place / (len(_ROWS) - 1)
        azimuth = 180.0 * share  # from the front, along the ring
        angle = _LOWEST * (2 * share - 1)
        middle = _at(abs(angle), 0.0 if angle <= 0 else 180.0)
        found[f"{row}z"] = middle
        for side, last_digits in ((-1, (1, 3, 5, 7, 9)), (1, (2, 4, 6, 8, 10))):
            ring = _at(_RING, side * azimuth)
            for step, digit in enumerate(last_digits):
                for half in (False, True):
                    letters = _AT_TEMPLES.get(row, row) if step >= 3 else row
                    name = f"{letters}{digit}{'h' if half else ''}"
                    below = _at(_RIM if half else _LOWEST, side * azimuth)
                    found[name] = below if step == 4 else _on_arc(ring, middle, (3 - step) / 4 + half / 8)
        found |= _ends_of_the_ring(row)
    found |= {old: found[new] for old, new in _OLD_NAMES.items()}
    return {_bare(name): position for name, position in found.items()}


def _ends_of_the_ring(row: str) -> dict[str, FloatArray]:
    """Return the electrodes beside Fpz and Oz, which lie on the rings: 5 % of a ring are 18 degrees."""
    polar = {"N": _LOWEST, "NFp": _RIM, "Fp": _RING, "O": _RING, "OI": _RIM, "I": _LOWEST}.get(row)
    if polar is None:
        return {}
    turned = 180.0 if row in ("O", "OI", "I") else 0.0
    return {
        f"{row}{digit}{letter}": _at(polar, side * abs(turned - degrees))
        for side, digit in ((-1, 1), (1, 2))
        for letter, degrees in (("h", 9.0), ("", 18.0))
    }


def _at(polar: float, azimuth: float) -> FloatArray:
    """Return the point at an angle from the vertex and an angle from the front, clockwise seen from above."""
    polar, azimuth = np.radians(polar), np.radians(azimuth)
    return np.array([np.sin(polar) * np.sin(azimuth), np.sin(polar) * np.cos(azimuth), np.cos(polar)])


def _on_arc(ring: FloatArray, middle: FloatArray, share: float) -> FloatArray:
    """Return the point at a share of the way from the ring to the midline, on the circle that is symmetric about it.

    The circle runs through the ring on both sides and through the midline, so it lies in a plane with the x axis.
    """
    other = ring * (-1, 1, 1)
    along = middle - (ring + other) / 2
    length = float(np.linalg.norm(along))
    if length < 1e-12 or abs(ring[0]) < 1e-12:  # the row is a single point
        return middle
    along = along / length
    radius = (ring[0] ** 2 + length**2) / (2 * length)
    centre = middle - radius * along
    angle = np.arctan2(abs(ring[0]), float(np.dot(ring - centre, along))) * (1 - share)
    aside = np.array([np.sign(ring[0]), 0.0, 0.0])
    return np.asarray(centre + radius * (np.cos(angle) * along + np.sin(angle) * aside))


def _of_montage(montage: Any) -> dict[str, FloatArray]:
    """Return the positions of a montage on the sphere, by bare names."""
    montage = _named(montage) if isinstance(montage, str) else montage
    if hasattr(montage, "get_positions"):
        places = {name: np.asarray(own, np.float64) for name, own in montage.get_positions()["ch_pos"].items()}
        names = [name for name, own in places.items() if np.isfinite(own).all()]
        points = np.array([places[name] for name in names]).reshape(-1, 3)
        if len(points) >= 10:  # as seen from the middle of the sphere that fits them best; fewer may lie in a plane
            design = np.column_stack([2 * points, np.ones(len(points))])
            points = points - np.linalg.lstsq(design, np.sum(points**2, axis=1), rcond=None)[0][:3]
        lengths = np.linalg.norm(points, axis=1, keepdims=True)
        return {_bare(name): own for name, own in zip(names, points / lengths, strict=True)}
    if isinstance(montage, Mapping):
        return {_bare(str(name)): _given(str(name), own) for name, own in montage.items()}
    kind = type(montage).__name__
    raise TypeError(f"montage must be the name of one of MNE's montages, a montage, or positions by name; got {kind}")


def _named(name: str) -> Any:
    if find_spec("mne") is None:
        raise ImportError(
            f"montage={name!r} names one of MNE's montages, which needs MNE: pip install mne. Without it, leave "
            "montage out for names of the 10-20, 10-10 and 10-5 systems, or give positions by name"
        )
    from mne.channels import get_builtin_montages, make_standard_montage

    try:
        return make_standard_montage(name)
    except ValueError:
        known = ", ".join(get_builtin_montages())
        raise ValueError(f"montage must be one of MNE's montages, {known}; got {name!r}") from None


def _given(name: str, position: Any) -> FloatArray:
    place, got = np.asarray(position, np.float64), f"got {position!r} for {name!r}"
    if place.shape not in ((2,), (3,)) or not np.isfinite(place).all():
        raise ValueError(f"the position of a channel must be two or three finite numbers; {got}")
    if place.shape == (2,):
        return _at(_RIM * float(np.hypot(*place)), float(np.degrees(np.arctan2(place[0], place[1]))))
    length = float(np.linalg.norm(place))
    if length == 0.0:
        raise ValueError(f"the position of a channel must not be the middle of the head; {got}")
    return place / length
