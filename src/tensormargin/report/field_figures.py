"""Figures that a field is used to: topographic maps and butterfly plots of channels, lines of spectra.

Which of them are drawn follows from the axes of the samples: names of electrodes, times, wavelengths.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..data import AnyAxes, Axes, Axis, colour_mode
from ..inspection import MapText, ModelChain, NotAffineError, in_units
from ..plots import (
    FEWEST_CHANNELS,
    electrode_positions,
    fitting_axes,
    plot_butterfly,
    plot_channels,
    plot_pictures,
    plot_spectra,
    plot_topographies,
)
from ..runtime import Array, FloatArray, listed, percent, rows_of, to_host
from .page import Picture, Section, picture
from .sentences import format_halves
from .viewer import ModelMaps

CHANNELS, SPECTRA, IMAGE, COLOURS = "channels", "spectra", "image", "colours"
_OVER_TIME = ("s", "ms", "us", "µs", "hz", "khz", "min", "h")
_SHARE_KNOWN = 0.5  # of the channels whose position must be known
_PEAKS = 4
_MOST_COMPONENTS = 5
_MOST_CHANNELS = 400  # lines of a butterfly plot
_MOST_PROBLEMS = 3  # that are drawn
_MOST_MEANS = 10  # pictures of classes
_WIDE = 8.6  # inches


def figures_for(axes: Axes | None, kind: str | None = None) -> str | None:
    """Return which figures suit samples with these axes: "channels", "spectra", "image", "colours" or None for others.

    The kind of the samples ("eeg", "spectra", ...), if it is known, decides where the axes do not.
    """
    if axes is None or not 1 <= len(axes) <= 3:
        return None
    if colour_mode(axes, [3] * len(axes)) is not None:
        return COLOURS
    if _spectral_mode(axes, kind) is not None and (len(axes) != 2 or not any(map(_is_named, axes))):
        return SPECTRA
    if len(axes) == 2 and channel_mode(axes) is not None:
        return CHANNELS
    return IMAGE if len(axes) == 2 and any(axis.values is not None for axis in axes) else None


def _is_named(axis: Axis) -> bool:
    return axis.values is not None and not axis.is_numeric


def channel_mode(axes: Axes) -> int | None:
    """Return the mode of channels beside one of time or frequency; None if there is none."""
    named = [mode for mode, axis in enumerate(axes) if _is_named(axis)]
    others = [axis for mode, axis in enumerate(axes) if mode not in named]
    if len(named) == 1 and all(axis.is_numeric or axis.unit.casefold() in _OVER_TIME for axis in others):
        return named[0]
    return None


def field_section(found: ModelMaps, problems: Sequence[int], sample_axes: AnyAxes) -> Section | None:
    """Return the figures of the field for all patterns, or else weights, of some binary problems.

    None if their axes ask for no figures.
    """
    chain, axes, maps = found.chain, found.chain.axes_of_patterns(sample_axes), _maps(found)
    texts = chain.map_texts("activation pattern" if found.patterns else "weight")
    drawn, names, wanted = problems[:_MOST_PROBLEMS], chain.problem_names, dict[str, str]()
    groups: list[dict[str, Any]] = [{"name": names[k], "parts": []} for k in drawn]
    for view, own in maps.items():
        modes, on_samples = fitting_axes(axes, own.shape[1:], view), view not in chain.views_with_pattern
        figures = figures_for(modes, found.samples.field if on_samples and found.samples is not None else None)
        means = _means(found) if view == "" and found.patterns else {}
        if figures == COLOURS:
            return _colours(modes, means)
        if figures is None or (figures == IMAGE and not on_samples and any(axis.values is None for axis in modes)):
            continue
        wanted[view] = figures
        own, named = in_units(own, texts, found.unit_of(view) if found.patterns else None)
        for group, k in zip(groups, drawn, strict=True):
            pictures = _DRAWN[figures](own[k], modes, named[k], means)
            group["parts"].append({"text": _words_on(found, view, k, modes), "pictures": pictures})
        if figures == CHANNELS and not isinstance(chain.classifier.coef_, dict):
            _add_components(chain, drawn, modes, groups)
    if not wanted:
        return None
    heading = {CHANNELS: "Channels", SPECTRA: "Spectra", IMAGE: "Modes"}[next(iter(wanted.values()))]
    text = "" if found.patterns else "Only patterns should be interpreted, which need the samples."
    text += f" Shown: {len(drawn)} of {len(names)} binary problems." if len(drawn) < len(names) else ""
    content = {"text": text.lstrip(), "groups": groups}
    return Section("Patterns" if len(wanted) > 1 and found.patterns else heading, "field.html", content)


def _maps(found: ModelMaps) -> dict[str, Array]:
    """Return the patterns to draw, or else the weights: those on the samples, unless only views have some."""
    maps: Any = {name: own.maps for name, own in found.patterns.items()} or found.weights
    if isinstance(maps, NotAffineError):
        return {}
    if not isinstance(maps, dict):
        return {"": maps}
    if "" in maps and found.chain.is_linear:  # views of it show the same
        return {"": maps[""]}
    return {name: own for name, own in maps.items() if name not in found.chain.views_left_out}


def _words_on(found: ModelMaps, view: str, problem: int, axes: Axes) -> str:
    """Return what the map of a view (or of the samples, "") is of, and how reproducible it is."""
    pattern, modes = found.patterns.get(view), " x ".join(axis.label or "?" for axis in axes)
    what = "activation pattern" if pattern else "weight"
    if view == "":
        prepared = f"prepared samples ({found.chain.before_maps})" if found.chain.before_maps else "samples"
        words = f"The {what} on the axes of the {prepared}: {modes}."
    else:
        share = percent(float(found.chain.classifier.view_shares_[view].mean()))
        made_by = found.chain.words_on_view(view)
        made_by = f" ({made_by})" if made_by else ""
        words = f"The {what} of the view {view}{made_by}, which has {share} % of the score: {modes}."
    return words if pattern is None else f"{words} {format_halves(pattern, problem)}"


def _means(found: ModelMaps) -> dict[str, FloatArray]:
    """Return the mean sample of each class, on the axes of the maps."""
    if found.samples is None or found.samples.target is None:
        return {}
    target = found.samples.labels
    own = {str(label): np.flatnonzero(target == label) for label in np.unique(target)}
    return {name: to_host(np.mean(rows_of(found.seen, rows), axis=0, dtype=np.float64)) for name, rows in own.items()}


def field_pictures(values: Array, axes: Axes | None, text: MapText) -> list[Picture]:
    """Return the figures of the field of samples with these axes for one map; none if they ask for none."""
    wanted = figures_for(axes)
    return [] if axes is None or wanted not in _DRAWN else _DRAWN[wanted](values, axes, text, {})


def single_axes(chain: ModelChain, sample_axes: AnyAxes) -> Axes | None:
    """Return the axes of the maps of a model, given those of the samples; None if they are unknown, or of views."""
    found = chain.axes_of_maps(sample_axes)
    return found if isinstance(found, tuple) else None


# channels x time or frequency


def _channel_pictures(values: Array, axes: Axes, text: MapText, means: Mapping[str, FloatArray]) -> list[Picture]:
    matrix, modes = _channels_first(values, axes)
    drawn = _topographies(matrix, modes, text)
    if len(matrix) <= _MOST_CHANNELS:
        caption = f"One line per channel: {text.title}. The channels with the largest values are named."
        drawn.append(_wide(plot_butterfly, matrix, modes, ylabel=text.signs, caption=caption, height=3.2))
    options: dict[str, Any] = {"label": text.colours, "caption": f"Channels by name: {text.title}."}
    drawn.append(_wide(plot_channels, matrix, modes, height=min(7.0, max(3.0, 1.2 + 0.13 * len(matrix))), **options))
    return drawn


def _channels_first(values: Array, axes: Axes) -> tuple[Array, Axes]:
    """Return a map of channels and time (or frequency), and its axes, with the channels first."""
    return (values, axes) if (channel_mode(axes) or 0) == 0 else (values.T, axes[::-1])


def _topographies(matrix: Array, modes: Axes, text: MapText) -> list[Picture]:
    """Return maps on the head at the times (or frequencies) at which channels differ most; none without positions."""
    if not _on_head(modes[0]):
        return []
    places = peak_places(matrix)
    titles = [modes[1].spoken(place) if modes[1].values is not None else f"entry {place}" for place in places]
    names = [str(name) for name in modes[0].values]
    known = electrode_positions(names)
    lacking = listed([name for name in names if name not in known], most=8)
    caption = f"On the head, where the channels differ most: {text.title}."
    caption += f" Left out, since their place is not known: {lacking}." if lacking else ""
    options: dict[str, Any] = {"titles": titles, "label": text.colours, "caption": caption, "height": 2.5}
    return [_wide(plot_topographies, matrix[:, places].T, names, **options)]


def peak_places(matrix: Array, most: int = _PEAKS) -> list[int]:
    """Return the columns with the largest variation over channels, apart from each other, in order."""
    from scipy.signal import find_peaks

    spread = np.nan_to_num(np.std(np.asarray(matrix, np.float64), axis=0))
    padded = np.concatenate([[0.0], spread, [0.0]])  # so that the ends can be peaks
    peaks = find_peaks(padded, distance=max(1, len(spread) // 12))[0] - 1
    if not len(peaks):
        peaks = np.array([int(spread.argmax())])
    return sorted(int(place) for place in peaks[np.argsort(-spread[peaks], kind="stable")][:most])


def _add_components(chain: ModelChain, problems: Sequence[int], axes: Axes, groups: list[dict[str, Any]]) -> None:
    """Add maps on the head of the channel factors of a CP weight to the groups, if there is one."""
    from tensorly.cp_tensor import CPTensor

    mode = channel_mode(axes) or 0
    axis, weights = axes[mode], chain.classifier.weight_
    weights = weights if isinstance(weights, list) else [weights]
    if not _on_head(axis) or len(chain.classifier.sample_shape_) != len(axes):
        return
    for group, k in zip(groups, problems, strict=False):
        weight = weights[k]
        if isinstance(weight, CPTensor) and len(weight.factors[mode]) == len(axis.values):
            factor = np.asarray(weight.factors[mode])[:, :_MOST_COMPONENTS].T
            titles = [f"component {place + 1}" for place in range(len(factor))]
            scaled = factor / np.maximum(np.abs(factor).max(axis=1, keepdims=True), 1e-300)
            names = [str(name) for name in axis.values]
            caption = (
                "Channel factors of the components of the weight, each scaled to its largest value. The sign of a "
                "component means nothing."
            )
            drawn = _wide(plot_topographies, scaled, names, titles=titles, caption=caption, height=2.5)
            group["parts"][-1]["pictures"].append(drawn)


def _on_head(axis: Axis) -> bool:
    """Return whether enough channels have a known position."""
    if not _is_named(axis):
        return False
    known = len(electrode_positions(list(axis.values)))
    return known >= max(FEWEST_CHANNELS, _SHARE_KNOWN * len(axis.values))


# spectra


def _spectral_mode(axes: Axes, kind: str | None) -> int | None:
    """Return the mode of wavelengths: the longest that is in such a unit, or numeric in samples that are spectra."""
    found = [mode for mode, axis in enumerate(axes) if axis.is_numeric and axis.is_spectral]
    if not found and kind == "spectra":
        found = [mode for mode, axis in enumerate(axes) if axis.is_numeric]
    return max(found, key=lambda mode: len(axes[mode].values)) if found else None


def _spectral_pictures(values: Array, axes: Axes, text: MapText, means: Mapping[str, FloatArray]) -> list[Picture]:
    mode = _spectral_mode(axes, "spectra")
    mode = len(axes) - 1 if mode is None else mode
    others = tuple(other for other in range(len(axes)) if other != mode)
    line = np.asarray(values, np.float64).mean(axis=others)
    below = {name: own.mean(axis=others) for name, own in means.items()} or None
    over = f", mean over {' and '.join(axes[other].label or f'mode {other + 1}' for other in others)}" if others else ""
    words = f"At full resolution: {text.title}{over}" + ("; beneath it, the mean of each class." if below else ".")
    options: dict[str, Any] = {"means": below, "ylabel": text.signs, "height": 4.6 if below else 3.0}
    drawn = [_wide(plot_spectra, {text.title: line}, axes[mode], caption=words, **options)]
    if len(axes) == 2:
        drawn += _image_pictures(values if mode else values.T, axes if mode else axes[::-1], text, means)
    return drawn


def _image_pictures(values: Array, axes: Axes, text: MapText, means: Mapping[str, FloatArray]) -> list[Picture]:
    caption = f"Along both modes: {text.title}."
    return [_wide(plot_channels, values, axes, label=text.colours, caption=caption, height=3.4)]


def _colours(axes: Axes, means: Mapping[str, FloatArray]) -> Section | None:
    """Return the mean picture of each class; the maps themselves are drawn as red, green and blue by the viewer."""
    some = dict(list(means.items())[:_MOST_MEANS])
    if not some or any(colour_mode(axes, one.shape) is None for one in some.values()):
        return None
    shown = f" (the first {len(some)} of {len(means)})" if len(some) < len(means) else ""
    caption = f"The mean picture of each class{shown}, in its colours."
    drawn = _wide(plot_pictures, some, axes, caption=caption, height=2.6 * (1 + (len(some) - 1) // 5))
    return Section("Colours", "field.html", {"text": "", "groups": [{"parts": [{"text": "", "pictures": [drawn]}]}]})


def _wide(draw: Callable[..., Any], *arguments: Any, caption: str, height: float, **options: Any) -> Picture:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # channels without a place, which the caption names
        return picture(draw, *arguments, caption=caption, size=(_WIDE, height), **options)


_DRAWN = {CHANNELS: _channel_pictures, SPECTRA: _spectral_pictures, IMAGE: _image_pictures}
