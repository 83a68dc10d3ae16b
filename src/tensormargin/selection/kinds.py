"""What ``tensormargin fit`` tries for samples of each kind: one table, and the model made from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline, make_pipeline

from ..data import CHANNELS, colour_mode
from ..io import SampleSet
from ..runtime import is_lazy
from ..transformers import (
    AnovaMask,
    BandPower,
    Clip,
    CompetingConvolutions,
    Connectome,
    Convolutions,
    Covariances,
    GradientHistograms,
    MoveMode,
    Smooth,
    Spectra,
    TensorKernel,
    TensorScaler,
    TensorUnion,
    Whiten,
    Xdawn,
    checked_mode,
)

ALONG_TIME = ("series", "eeg")
"""Kinds whose representations go along a mode of time."""
BEFORE = "before"
"""Name of the step in front of all representations that a search chooses from."""

_BESIDE_VIEWS = {"rule": "default", "decompositions": ("full", "cp"), "ranks": (1, 2)}
"""Parameters of a search whose alternatives have several views, all of a kind's representations side by side. These are
chosen unless another one is better by more than chance allows. Of low-rank weights of single representations, CP of
rank 1 and 2 do what all others do (docs/field.md), in a fraction of the time."""

_OF_THREE_MODES = {"decompositions": ("full", "cp", "tucker")}
"""Parameters of a search in samples of three modes that prefers no views. A Tensor-Train weight is one of Tucker's
there whose second rank is that mode's size, and takes half of the time of a search (21 classes of 147 x 36x3x2: 16 of
32 s)."""

Shape = tuple[int, ...]

_SHORTEST = 9  # entries of a mode along which something can be convolved
_KERNEL_FEATURES = 256
"""Most features of the kernels of plain samples, all of small sets. A search in 1,000 samples of 4 x 5 takes 1.1 s with
these, 3.6 s with all features, and 0.4 s without kernels."""


@dataclass(frozen=True)
class Way:
    """One way to represent samples of a shape, if it ``suits``.

    ``make`` returns the transformer for a shape and a sampling frequency in Hz, if that is known; None for the samples
    as they are. A weight on a ``linear`` result (up to a constant) is one on the samples.
    """

    make: Callable[[Shape, float | None], Any]
    suits: Callable[[Shape], bool] = lambda shape: True
    linear: bool = False


def _smooth(share: float) -> Callable[[Shape, float | None], Any]:
    """Return smoothing along the last mode, by a share of its length but at least one entry."""
    return lambda shape, sfreq: make_pipeline(TensorScaler(per=0), Smooth(max(1.0, share * shape[-1])))


def _modes(shape: Shape) -> tuple[int, ...]:
    """Return the modes with more than one entry: slices may come as volumes."""
    return tuple(mode for mode, size in enumerate(shape) if size > 1)


def _sizes(shape: Shape) -> Shape:
    """Return the sizes of the modes with more than one entry."""
    return tuple(size for size in shape if size > 1) or (1,)


def _blur(width: float, modes: Callable[[Shape], Shape] = _modes) -> Callable[[Shape, float | None], Any]:
    """Return smoothing along all modes, or along some."""
    return lambda shape, sfreq: Smooth(width, mode=modes(shape))


def _convolutions(shape: Shape, sfreq: float | None) -> Any:
    """Return convolutions along the last one of the modes with more than one entry."""
    mode = _modes(shape)[-1] - len(shape)
    return make_pipeline(Convolutions(mode=mode, vectorize=True), TensorScaler())


def _competing(mode: int, modes: Callable[[Shape], Shape] = _modes) -> Callable[[Shape, float | None], Any]:
    """Return competing convolutions along one of the modes with more than one entry, or of some."""
    return lambda shape, sfreq: CompetingConvolutions(mode=modes(shape)[mode] - len(shape), vectorize=True)


def _gradients(n_cells: int, modes: Callable[[Shape], Shape] = _modes) -> Callable[[Shape, float | None], Any]:
    """Return histograms of gradients in so many rows and columns of cells."""
    return lambda shape, sfreq: GradientHistograms(
        n_cells, modes=tuple(mode - len(shape) for mode in modes(shape)), vectorize=True
    )


def _wide(shape: Shape) -> bool:
    return min(_sizes(shape)) > 4


def _picture(shape: Shape) -> bool:
    return len(_modes(shape)) == 2 and _wide(shape)


def _wide_in_colour(shape: Shape) -> bool:
    return min(shape[mode] for mode in _pixels(shape)) > 4  # a single row is too few here


def _long(shape: Shape) -> bool:
    return _sizes(shape)[-1] >= _SHORTEST


def _colours(shape: Shape) -> int:
    """Return the mode of red, green and blue of colour images: the last one with three entries."""
    return max(mode for mode, size in enumerate(shape) if size == 3)


def _pixels(shape: Shape) -> Shape:
    """Return the modes of the rows and columns of colour images."""
    return tuple(mode for mode in range(len(shape)) if mode != _colours(shape))


def _square(shape: Shape) -> bool:
    return len(shape) == 2 and 1 < shape[0] == shape[1]


def _channels_first(shape: Shape) -> bool:
    """Return whether samples may be a few channels x time."""
    return len(shape) == 2 and 1 < shape[0] <= 128


def _kernel(width: float = 1.0, most: int | None = _KERNEL_FEATURES) -> Callable[[Shape, float | None], Any]:
    """Return the kernel of scaled entries without outliers, this many times as wide as samples are apart on average."""
    return lambda shape, sfreq: make_pipeline(
        TensorScaler(), Clip(), TensorKernel("exponential", gamma_factor=1 / width, n_components=most)
    )


def _derivative(shape: Shape, sfreq: float | None) -> Any:
    return make_pipeline(Spectra("snv", derivative=1, window=min(11, shape[-1] // 2 * 2 - 1)), TensorScaler())


WAYS: Mapping[str, Way] = MappingProxyType(
    {
        "raw": Way(lambda shape, sfreq: None, linear=True),
        "entries scaled": Way(lambda shape, sfreq: TensorScaler(), linear=True),
        "channels scaled": Way(lambda shape, sfreq: TensorScaler(per=0), lambda shape: len(shape) > 1, linear=True),
        "smoothed": Way(_smooth(1 / 32), lambda shape: len(shape) > 1 and shape[-1] > 4, linear=True),
        "smoother": Way(_smooth(3 / 32), lambda shape: len(shape) > 1 and shape[-1] > 4, linear=True),
        "blurred": Way(_blur(1.0), _wide, linear=True),
        "more blurred": Way(_blur(2.0), lambda shape: min(_sizes(shape)) > 8, linear=True),
        "whitened": Way(lambda shape, sfreq: make_pipeline(Whiten(0), Smooth(2.0)), _channels_first, linear=True),
        "covariances": Way(lambda shape, sfreq: Covariances(), _channels_first),
        "evoked": Way(
            lambda shape, sfreq: make_pipeline(Xdawn(4, templates=True), Covariances()),
            lambda shape: _channels_first(shape) and shape[-1] >= 12,
        ),
        "power": Way(
            lambda shape, sfreq: BandPower(min(max(shape[-1] // 4, 3), 64), sfreq), lambda shape: shape[-1] >= 12
        ),
        "convolutions": Way(_convolutions, _long),
        "patterns": Way(
            lambda shape, sfreq: TensorUnion(
                [("convolutions", _convolutions(shape, sfreq)), ("competing", _competing(-1)(shape, sfreq))]
            ),
            _long,
        ),
        "competing convolutions": Way(_competing(-1), _long),
        "competing convolutions down": Way(_competing(0), lambda shape: len(shape) == 2 and shape[0] >= _SHORTEST),
        "gradients": Way(_gradients(7), _picture),
        "coarse gradients": Way(_gradients(4), _picture),
        "kernel": Way(_kernel(most=None)),
        "kernel of entries": Way(_kernel()),
        "narrow kernel": Way(_kernel(0.5)),
        "wide kernel": Way(_kernel(2.0)),
        "scatter removed": Way(
            lambda shape, sfreq: make_pipeline(Spectra("snv"), TensorScaler()), lambda shape: shape[-1] >= 12
        ),
        "derivatives": Way(_derivative, lambda shape: shape[-1] >= 12),
        "selected": Way(lambda shape, sfreq: make_pipeline(TensorScaler(), AnovaMask(0.2)), linear=True),
        "tangent space": Way(
            lambda shape, sfreq: Connectome(tangent=True), lambda shape: _square(shape) and shape[0] <= 256
        ),
        "kernel of tangents": Way(
            lambda shape, sfreq: make_pipeline(Connectome(tangent=True), TensorKernel("exponential")),
            lambda shape: _square(shape) and shape[0] <= 256,
        ),
        "z": Way(lambda shape, sfreq: Connectome(), lambda shape: _square(shape)),
    }
)
"""All ways, by the names that reports use."""

_OF_COLOURS: Mapping[str, Way] = MappingProxyType(
    {
        "channels scaled": Way(lambda shape, sfreq: TensorScaler(per=_colours(shape)), linear=True),
        "blurred": Way(_blur(1.0, _pixels), _wide_in_colour, linear=True),
        "competing convolutions": Way(_competing(-1, _pixels), lambda shape: shape[_pixels(shape)[-1]] >= _SHORTEST),
        "competing convolutions down": Way(_competing(0, _pixels), lambda shape: shape[_pixels(shape)[0]] >= _SHORTEST),
        "gradients": Way(_gradients(7, _pixels), _wide_in_colour),
        "coarse gradients": Way(_gradients(4, _pixels), _wide_in_colour),
    }
)
"""Those that are others for colour images, which are pictures with three channels."""


@dataclass(frozen=True)
class Kind:
    """What the samples of a kind are called and what they are, and the ways that a search tries.

    These are tried one by one, and side by side, as views; ``linear`` are those side by side if only linear ways are.
    """

    words: str
    samples: str
    alone: tuple[str, ...]
    together: tuple[str, ...]
    linear: tuple[str, ...] = ()
    prefers_together: bool = True  # unless another one is clearly better: see `_BESIDE_VIEWS`


_ALONG_TIME = (
    ("raw", "channels scaled", "smoothed", "smoother", "covariances", "power", "patterns"),
    ("covariances", "power", "convolutions", "competing convolutions"),
    ("channels scaled", "smoothed"),
)

_OF_ELECTRODES = (
    ("raw", "channels scaled", "smoothed", "smoother", "whitened", "covariances", "evoked", "power", "patterns"),
    _ALONG_TIME[1],
    ("channels scaled", "smoothed", "whitened"),
)
"""Side by side with the others, "evoked" brings 85 instead of 73 % on 200 simulated potentials. But its filters are
learned from the labels: with 64 channels and 49 training samples (eeg_alcoholism) all together fell from 87 to 77 %."""

KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "series": Kind("time series", "channels x time", *_ALONG_TIME),
        "eeg": Kind("EEG", "electrodes x time", *_OF_ELECTRODES),
        "volume": Kind(
            "volumes",
            "voxels in space",
            ("raw", "entries scaled", "blurred", "more blurred", "selected"),
            ("blurred", "kernel"),
            ("channels scaled", "blurred", "selected"),
        ),
        "image": Kind(
            "images",
            "rows x columns of pixels (x colours)",
            ("raw", "entries scaled", "blurred"),
            (
                "blurred",
                "competing convolutions",
                "competing convolutions down",
                "gradients",
                "coarse gradients",
                "kernel",
            ),
            ("channels scaled", "blurred"),
        ),
        "spectra": Kind(
            "spectra",
            "anything x wavelength",
            ("raw", "entries scaled", "channels scaled", "selected", "scatter removed", "derivatives"),
            ("selected", "scatter removed", "derivatives", "convolutions", "competing convolutions"),
            ("entries scaled", "selected"),
        ),
        "connectome": Kind(
            "connectomes",
            "region x region, symmetric",
            ("raw", "z", "entries scaled", "tangent space"),
            ("tangent space", "kernel of tangents"),
        ),
        "plain": Kind(
            "plain arrays",
            "any",
            ("raw", "entries scaled", "channels scaled", "narrow kernel", "wide kernel"),
            ("entries scaled", "kernel of entries"),
            prefers_together=False,
        ),
    }
)
"""The kinds of samples that ``--kind`` knows."""


def alternatives(
    kind: str, shape: Shape, sfreq: float | None = None, before: Any = None, linear: bool = False
) -> list[Any]:
    """Return the preparations that a search tries for samples of a kind, those side by side last.

    ``before`` is a transformer that comes first in all of them; with ``linear``, only linear ones are tried.
    """
    ways, views = ways_of(kind, shape, linear), views_of(kind, shape, linear)
    found = [ways[name].make(shape, sfreq) for name in KINDS[kind].alone if name in ways]
    together = [(name.replace(" ", "_"), ways[name].make(shape, sfreq)) for name in views]
    if together:
        found.append(TensorUnion([(name, "passthrough" if one is None else one) for name, one in together]))
    if before is None:
        return found
    return [before if one is None else Pipeline([(BEFORE, before), ("representation", one)]) for one in found]


def ways_of(kind: str, shape: Shape, linear: bool = False) -> Mapping[str, Way]:
    """Return the ways that suit samples of a kind and shape, by name."""
    own = KINDS[kind]
    ways = {**WAYS, **_OF_COLOURS} if kind == "image" and len(shape) == 3 and 3 in shape else WAYS
    names = dict.fromkeys((*own.alone, *own.together, *own.linear, *KINDS["plain"].together))
    return {name: ways[name] for name in names if ways[name].suits(shape) and (ways[name].linear or not linear)}


def views_of(kind: str, shape: Shape, linear: bool = False) -> list[str]:
    """Return the ways that are tried side by side for samples of a kind and shape.

    Those of plain samples if fewer than two of the kind's own suit, so that a kernel is tried for every shape. None if
    fewer than two linear ones suit.
    """
    ways = ways_of(kind, shape, linear)
    for names in (KINDS[kind].linear,) if linear else (KINDS[kind].together, KINDS["plain"].together):
        suit = [name for name in names if name in ways]
        if len(suit) > 1:
            return suit
    return []


def settled(
    kind: str, shape: Any, sfreq: float | None, before: Any = None, linear: bool = False, time: int = -1
) -> dict[str, Any]:
    """Return the parameters of a search in samples of a kind and shape: ``preparation`` and what else differs by kind.

    ``before`` is a transformer that comes first, and gives samples of this shape.
    """
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}; got {kind!r}")
    if shape is None:
        raise ValueError(f"kind={kind!r} needs the shape of the samples; pass shape=X.shape[1:]")
    shape = tuple(shape)
    if time not in (-1, len(shape) - 1):
        time = checked_mode(time, len(shape), "time")
        move = MoveMode(time)
        before = move if before is None else Pipeline([("before", before), ("time_last", move)])
        shape = (*shape[:time], *shape[time + 1 :], shape[time])
    special: dict[str, Any] = {}
    if KINDS[kind].prefers_together and views_of(kind, shape, linear):
        special = _BESIDE_VIEWS
    elif len(_modes(shape)) == 3:
        special = _OF_THREE_MODES
    return {"preparation": alternatives(kind, shape, sfreq, before, linear), **special}


def scaled_or_not(scaler: Any, before: Any) -> dict[str, Any]:
    """Return the parameters of a search in plain samples of any shape, or in several views."""
    scaler = TensorScaler() if scaler is None else scaler
    return {"preparation": [before, scaler if before is None else Pipeline([(BEFORE, before), ("scale", scaler)])]}


def guess_kind(samples: SampleSet) -> tuple[str, str]:
    """Return the kind of samples as their source states it or their file and shape suggest, and why, in words."""
    if samples.field is not None:
        public = samples.kind.startswith("public data set")
        return samples.field, f"the {'catalogue of data sets' if public else 'file'} says so"
    shape = samples.sample_shape
    if isinstance(shape, dict):
        return "plain", "there are several views"
    if is_lazy(samples.data):
        return "plain", "they are too large for the memory"
    if colour_mode(samples.axes, shape) is not None:
        return "image", "one of their modes is that of colours"
    named = _by_names(samples.axes, None if _is_connectome(samples) else samples.sfreq)
    if named is not None:
        return named
    if samples.affine is not None:
        return "volume", "they come from NIfTI files"
    if "image" in samples.kind:
        return "image", "they come from image files"
    if None in shape:
        return "series", "they have different lengths"
    if _is_connectome(samples):
        return "connectome", "they are symmetric matrices of correlations"
    return _by_shape(tuple(int(size or 0) for size in shape))


def time_mode(samples: SampleSet, shape: Shape, kind: str = "series") -> int:
    """Return the mode of time of series that have this shape when they are prepared, counted from 0.

    It is the one with such a name or with different lengths, the first one of samples with many more rows than columns,
    otherwise the last one. It is -1 for kinds whose
    representations do not go along time.
    """
    if kind not in ALONG_TIME:
        return -1
    given: Any = samples.sample_shape
    last = len(shape) - 1
    if len(given) != len(shape):
        return last
    axes = samples.axes if isinstance(samples.axes, tuple) else ()
    found = [mode for mode, axis in enumerate(axes) if axis.is_time]
    if not found and None in given:
        found = [given.index(None)]
    if not found and (any(axis.name for axis in axes) or not _tall(shape)):
        found = [last]
    return found[-1] if found else 0


def _tall(shape: Shape) -> bool:
    """Return whether samples look like time x channels."""
    return len(shape) == 2 and shape[0] >= max(24, 3 * shape[1])


# Electrodes of the 10-20 system that a cap hardly ever lacks all of, and that nothing else is named after.
_ELECTRODES = frozenset({"fz", "cz", "pz", "oz", "c3", "c4", "o1", "o2", "fp1", "fp2", "poz", "tp9", "tp10"})


def sampling_frequency(samples: SampleSet, mode: int = -1) -> float | None:
    """Return the sampling frequency in Hz that the coordinates of a mode give, if they are regular times."""
    axes = samples.axes
    return axes[mode].sfreq if isinstance(axes, tuple) and (axes[mode].is_time or not axes[mode].name) else None


def _by_names(axes: Any, sfreq: float | None) -> tuple[str, str] | None:
    """Return the kind that the names of the modes, or a sampling frequency, tell, and why; None if they do not."""
    axes = axes if isinstance(axes, tuple) else ()
    names = [axis.name.lower() for axis in axes] or [""]
    if {"x", "y", "z"} <= set(names):
        return "volume", "their modes are named x, y and z"
    if axes and axes[-1].is_spectral:
        stated = f"named {axes[-1].name}" if axes[-1].name else f"in {axes[-1].unit}"
        return "spectra", f"their last mode is {stated}"
    times = [axis for axis in axes if axis.is_time]
    if not times and sfreq is None:
        return None
    sampled = f"sampled at {sfreq:g} Hz" if sfreq is not None else ""
    channels = [axis for axis in axes if axis.name.lower() in CHANNELS]
    named = [axis.values.tolist() for axis in channels if axis.values is not None and not axis.is_numeric]
    known = any(_ELECTRODES & {value.lower() for value in values} for values in named)
    if known or any(axis.name.lower().startswith("electrode") for axis in channels):
        return (
            "eeg",
            f"their modes are electrodes and {times[-1].name or 'time'}" if times else f"electrodes are {sampled}",
        )
    if not times:
        return "series", f"they are {sampled}"
    which, time = "last mode" if axes[-1].is_time else "mode", times[-1]
    return "series", f"their {which} is named {time.name}" if time.name else f"their {which} is in {time.unit}"


def _by_shape(shape: Shape) -> tuple[str, str]:
    rows, last = shape[0], shape[-1]
    if _tall(shape):
        return "series", "they have many rows and few columns"
    if len(shape) == 2 and last >= _SHORTEST:
        if rows < last:
            return "series", "they have few rows and many columns"
        return ("image", "they have many rows and columns") if rows >= _SHORTEST else ("plain", "nothing says more")
    if len(shape) == 3 and last >= 2 * max(shape[:2]):
        return "spectra", "their last mode is by far the longest"
    if len(shape) == 3 and min(shape[:2]) < _SHORTEST <= last:
        return "series", "their last mode is long and others are short"
    if len(shape) == 3 and min(shape) >= _SHORTEST:
        return "volume", "they have three long modes"
    return "plain", "nothing says more"


def _is_connectome(samples: SampleSet) -> bool:
    """Return whether all samples are symmetric matrices whose entries off the diagonal are at most 1, but not all 0."""
    shape, X = samples.sample_shape, samples.data
    if not isinstance(shape, tuple) or None in shape or not _square(tuple(int(size or 0) for size in shape)):
        return False
    off = 1.0 - np.eye(X.shape[1])
    largest = 0.0
    for one in X:  # most other matrices are found out by the first one
        matrix = np.asarray(one, dtype=np.float64) * off
        if not np.allclose(matrix, matrix.T, rtol=0.0, atol=1e-6) or not np.abs(matrix).max() <= 1.0 + 1e-6:
            return False
        largest = max(largest, float(np.abs(matrix).max()))
    return largest > 0.0
