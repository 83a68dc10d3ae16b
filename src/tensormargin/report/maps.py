"""The content of the map viewer of the page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._typing import Array
from ..axes import Axes, Axis
from ..model_steps import classifier_of, problem_names
from ..plots.modes import fitting_axes
from .volumes import packed_background, packed_map

_MOST_ENTRIES = 1_500_000  # of all maps: two megabytes of text, so that pages open in a second


def n_shown(model: Any, maps: Mapping[str, Array]) -> int:
    """Return the number of binary problems whose maps are not too large for the page, at least one."""
    entries = max(values[0].size for values in maps.values())
    return max(1, min(len(problem_names(model)), _MOST_ENTRIES // max(1, len(maps) * entries)))


def map_content(
    model: Any, maps: Mapping[str, Array], background: Array | None, axes: Axes | None = None
) -> dict[str, Any]:
    """Return maps by kind, each with the binary problems first, and the modes' axes, as the viewer takes them."""
    names, sides = problem_names(model), classifier_of(model).problems_
    shape = next(iter(maps.values())).shape[1:]
    known = fitting_axes(axes, shape)
    return {
        "modes": [{"name": axis.name, "values": _coordinates(axis)} for axis in known],
        "counted": any(not axis.name or axis.values is None for axis in known),
        "kinds": list(maps),
        "background": None if background is None else packed_background(background),
        "problems": [
            {
                "name": names[k],
                "sides": _sides(*sides[k]),
                "maps": [packed_map(values[k], kind) for kind, values in maps.items()],
            }
            for k in range(n_shown(model, maps))
        ],
    }


def _coordinates(axis: Axis) -> list[str] | None:
    """Return the coordinates of a mode as texts, with their unit."""
    return None if axis.values is None else [axis.spoken(index) for index in range(len(axis.values))]


def _sides(negative: Any, positive: Any) -> str:
    """Return which class each colour stands for."""
    return f"Blue (negative) speaks for {negative}, red (positive) for {positive}"
