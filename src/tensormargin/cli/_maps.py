"""Options to write weight maps and activation patterns."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from ..data import AnyAxes
    from ..io import SampleSet

_FILE = click.Path(path_type=Path, dir_okay=False)


def map_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --pattern-map and --weight-map to a command."""
    for option in (
        click.option("--weight-map", type=_FILE, help="Write the weight, which only says how classes are told apart."),
        click.option(
            "--pattern-map",
            type=_FILE,
            help="Write the activation pattern, which may be interpreted: .nii, .nii.gz, .npy, .png or .csv.",
        ),
    ):
        command = option(command)
    return command


def display_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --background and --radiological to a command."""
    for option in (
        click.option(
            "--radiological", is_flag=True, help="Show volumes with left on the right; the report can switch."
        ),
        click.option(
            "--background",
            type=click.Path(path_type=Path),
            help="Anatomical NIfTI volume to draw maps of volumes over in the report.",
        ),
    ):
        command = option(command)
    return command


def display_of(samples: SampleSet | None, facts: Any, background: Path | None, radiological: bool) -> Any:
    """Return how the report shows volumes; raise BadFileError if the background is none.

    Shape and affine are those of the samples, or those in the facts of a model without samples.
    """
    from ..report import Display, read_anatomy

    if background is None:
        return Display(None, radiological)
    if samples is not None:
        shape, affine = samples.sample_shape, samples.affine
    else:
        shape, affine = facts.get("sample_shape") or (), facts.get("about", {}).get("affine")
    return Display(read_anatomy(background, shape, affine), radiological)


def check_maps(samples: SampleSet, *paths: Path | None) -> None:
    """Raise before any work is done if a map cannot be written."""
    several = samples.target is not None and len(set(samples.target.tolist())) > 2
    for path in paths:
        if path is not None:
            from ..plots import check_map_path

            shape = samples.sample_shape
            for own in shape.values() if isinstance(shape, dict) else [shape]:
                check_map_path(path, len(own) + several)


def map_files(samples: SampleSet, *paths: Path | None) -> list[Path]:
    """Return the files that maps are written to, one per view if samples have several."""
    shape, given = samples.sample_shape, [path for path in paths if path is not None]
    if not given or not isinstance(shape, dict):
        return given
    from ..plots import view_path

    return [view_path(path, name) for path in given for name in shape]


def write_maps(
    model: Any, patterns: Any, weight_map: Path | None, pattern_map: Path | None, affine: Any, axes: AnyAxes = None
) -> list[Path]:
    """Write the requested maps, patterns first, and return their paths.

    Several binary problems go along an extra axis (last for NIfTI, first for .npy), or to one PNG file each; several
    views to one file each. ``axes`` are those of the samples.
    """
    from ..inspection import ModelChain, weight_maps

    written = []
    if weight_map is None and pattern_map is None:
        return []
    chain = ModelChain.of(model)
    chain.check_picture()
    modes = chain.axes_of_maps(axes)
    if pattern_map is not None:
        if patterns is None:
            raise ValueError(
                "this model file holds no activation pattern: it was written by an earlier version or without samples, "
                "or the pattern has too many entries. Fit again with --pattern-map, or see it in the report: "
                "tensormargin report MODEL DATA -o report.html"
            )
        written += _save(pattern_map, patterns, model, "pattern", affine, modes)
    if weight_map is not None:
        written += _save(weight_map, weight_maps(model), model, "weight", affine, modes)
    return written


def _save(path: Path, maps: Any, model: Any, what: str, affine: Any, modes: AnyAxes) -> list[Path]:
    from ..inspection import ModelChain, meaning_of_sign
    from ..plots import fitting_axes, save_map

    names = ModelChain.of(model).problem_names
    titles = [f"{what}, {name}" for name in names]
    signs = [meaning_of_sign(name) for name in names]
    several = "files" if path.suffix.lower() == ".png" else "last"
    if not isinstance(maps, dict):
        modes = fitting_axes(modes, maps.shape[1:])
    return save_map(path, maps, affine=affine, title=titles, several=several, mode_axes=modes, signs=signs)
