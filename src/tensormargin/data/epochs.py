"""Samples of MNE's objects: the values of channels that hold data, their names, times and units, and metadata.

MNE is recognised by its objects and not imported.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..runtime import Array, listed, note
from .axes import Axes, Axis

_UNITS = {"eeg": "V", "seeg": "V", "ecog": "V", "dbs": "V", "mag": "T", "grad": "T/m", "csd": "V/m²"}
_DATA = frozenset({*_UNITS, "hbo", "hbr"})  # as in MNE's pick("data"), with all types that begin with "fnirs"


def is_epochs(X: Any) -> bool:
    """Return whether an object of MNE holds epochs: in time, of spectra, or in time and frequency."""
    return any("Epochs" in kind.__name__ for kind in type(X).__mro__) and hasattr(X, "get_data")


def channels_of_data(source: Any) -> tuple[list[str], list[str], list[str]]:
    """Return the names of the channels of data, of those of data that are marked as bad, and of all others.

    Where no channel is of a type of data, as in recordings of muscles alone, all but trigger channels are.
    """
    types = dict(zip(source.ch_names, source.get_channel_types(), strict=True))
    data = [name for name, kind in types.items() if kind in _DATA or kind.startswith("fnirs")]
    data = data or [name for name, kind in types.items() if kind != "stim"]
    bad = [name for name in data if name in source.info["bads"]]
    return [name for name in data if name not in bad], bad, [name for name in types if name not in data]


def describe_left_out(source: Any) -> list[str]:
    """Return in words which channels are no samples, with their types."""
    _, bad, others = channels_of_data(source)
    types = dict(zip(source.ch_names, source.get_channel_types(), strict=True))
    typed = [f"{name} ({types[name].upper()})" for name in others]
    words = (("marked as bad", bad), ("that do not hold data", typed))
    return [f"channels {why} were left out: {listed(names)}" for why, names in words if names]


def unit_of_channels(objects: Sequence[Any]) -> str:
    """Return the unit of the channels of data; nothing if they have several, or it is not stated."""
    if any(hasattr(one, "freqs") for one in objects):
        return ""  # power
    names, units = _shared_channels(objects), set()
    for one in objects:
        types = dict(zip(one.ch_names, one.get_channel_types(), strict=True))
        units |= {_UNITS.get(types[name], "") for name in names}
    return units.pop() if len(units) == 1 else ""


def _shared_channels(objects: Sequence[Any]) -> list[str]:
    """Return the channels of data that all objects have, in the order of the first one."""
    shared = set.intersection(*(set(channels_of_data(one)[0]) for one in objects))
    names = [name for name in channels_of_data(objects[0])[0] if name in shared]
    if not names:
        raise ValueError(
            f"samples need a channel that holds data and is not marked as bad; got {listed(objects[0].ch_names)}. "
            'Check epochs.get_channel_types() and epochs.info["bads"]'
        )
    return names


def values_of(objects: Sequence[Any]) -> list[Array]:
    """Return the values of the channels of data of Epochs or Evoked; a note tells which ones were left out."""
    names = _shared_channels(objects)
    for text in dict.fromkeys(text for one in objects for text in describe_left_out(one)):
        note(f"{text[0].upper()}{text[1:]}. Choose others with epochs.pick(...)")
    return [np.asarray(one.get_data(picks=names)) for one in objects]


def axes_of_epochs(objects: Sequence[Any]) -> Axes:
    """Return the axes of Epochs or Evoked: channels by name, frequencies in Hz, times in ms."""
    axes = [Axis("channel", "", _shared_channels(objects))]
    if hasattr(objects[0], "freqs"):
        axes.append(Axis("frequency", "Hz", objects[0].freqs))
    if hasattr(objects[0], "times"):
        axes.append(Axis("time", "ms", np.round(1000 * np.asarray(objects[0].times), 6)))
    return tuple(axes)


def metadata_of(objects: Sequence[Any]) -> dict[str, Array]:
    """Return the columns of the metadata of Epochs, as far as all have them, by name."""
    frames: list[Any] = [getattr(one, "metadata", None) for one in objects]
    if any(frame is None for frame in frames):
        return {}
    shared = [name for name in frames[0] if all(name in frame for frame in frames)]
    return {str(name): np.concatenate([frame[name].astype(str) for frame in frames]) for name in shared}
