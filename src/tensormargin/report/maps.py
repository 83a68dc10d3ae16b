"""The content of the map viewer of the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..data import Axes, Axis, Orientation, colour_mode, colour_order
from ..inspection import ModelChain
from ..plots import channel_name, fitting_axes
from ..runtime import Array
from .brains import Display, cluster_content, space_content, volume_space
from .volumes import packed_background, packed_map

_MOST_ENTRIES = 1_000_000  # of all maps: less than three megabytes of text, so that pages open in a second


def n_shown(model: Any, maps: Mapping[str, Array]) -> int:
    """Return the number of binary problems whose maps are not too large for the page, at least one."""
    entries = max(values[0].size for values in maps.values())
    return max(1, min(len(ModelChain.of(model).problem_names), _MOST_ENTRIES // max(1, len(maps) * entries)))


def map_content(
    model: Any,
    maps: Mapping[str, Array],
    background: Array | None,
    axes: Axes | None = None,
    affine: Any = None,
    display: Display | None = None,
) -> dict[str, Any]:
    """Return maps by kind, each with the binary problems first, as the viewer takes them.

    Parameters
    ----------
    model : estimator
    maps : mapping of str to ndarray of shape (n_problems, *shape)
    background : ndarray of that shape or None
        The mean sample.
    axes : tuple of Axis, optional
        Names, units and coordinates of the modes of the maps.
    affine : array-like of shape (4, 4), optional
        Of maps that are volumes, which are then turned to the standard orientation and shown in mm, over the
        background and with a table of clusters.
    display : Display, optional
        How volumes are shown.
    """
    display = display or Display()
    anatomy = display.anatomy
    chain = ModelChain.of(model)
    names, sides = chain.problem_names, chain.classifier.problems_
    shape = next(iter(maps.values())).shape[1:]
    space, below = volume_space(affine, shape), background
    if anatomy is not None and anatomy.values.shape != shape:  # of maps after a step that cannot be undone
        anatomy = None
    if anatomy is not None:
        below = anatomy.values
    shown = {kind: own if space is None else [space.turned(one) for one in own] for kind, own in maps.items()}
    if space is not None and below is not None:
        below = space.turned(below)
    kind = "activation pattern" if "activation pattern" in maps else next(iter(maps))
    known = fitting_axes(axes, shape)
    return {
        "modes": [{"name": axis.name, "values": _coordinates(axis)} for axis in known],
        "colours": _colours(known, shape),
        "counted": space is None and any(not axis.name or axis.values is None for axis in known),
        "kinds": list(maps),
        "background": None if below is None else packed_background(below),
        "under": "the mean sample" if anatomy is None else anatomy.name,
        "overlay": space is not None and below is not None,
        "radiological": display.radiological,
        "space": None if space is None else space_content(space),
        "clusters": [] if space is None else cluster_content(names, kind, maps[kind], affine),
        "problems": [
            {
                "name": names[k],
                "sides": _sides(*sides[k]),
                "maps": [_packed(values[k], kind, space) for kind, values in shown.items()],
            }
            for k in range(n_shown(model, maps))
        ],
    }


def _colours(axes: Axes, shape: Sequence[int]) -> dict[str, Any] | None:
    """Return the mode of colours, the names of its entries and which are red, green and blue; None if there is none."""
    mode = colour_mode(axes, shape)
    if mode is None:
        return None
    names = [channel_name(axes[mode], index) for index in range(3)]
    return {"mode": mode, "names": names, "order": colour_order(axes[mode])}


def _coordinates(axis: Axis) -> list[str] | None:
    """Return the coordinates of a mode as texts, with their unit."""
    return None if axis.values is None else [axis.spoken(index) for index in range(len(axis.values))]


def _packed(values: Array, kind: str, space: Orientation | None) -> dict[str, Any]:
    """Return one map for the viewer; the peak of a volume is named by its voxel in the file."""
    packed = packed_map(values, kind)
    if space is not None:
        packed["peak"]["at"] = list(space.indices(packed["peak"]["at"]))
    return packed


def _sides(negative: Any, positive: Any) -> str:
    """Return which class each colour stands for."""
    return f"Blue (negative) speaks for {negative}, red (positive) for {positive}"
