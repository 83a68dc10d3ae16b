"""``tensormargin maps``."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from . import _options as options
from ._data import load_for
from ._options import FORMATS
from ._outputs import (
    beside,
    blaming,
    check_outputs,
    problem_stem,
    refusals,
    save_maps,
    say_written,
    warn,
    written_together,
)

if TYPE_CHECKING:
    from ..inspection import MapText, ModelChain, Pattern
    from ..io import ModelFile, SampleSet

_EXAMPLES = f"""
{FORMATS}
\b
Examples:
  tensormargin maps scans.skops                     to the folder scans-maps
  tensormargin maps eeg.skops eeg.npz -o figures    patterns of these samples, which need not be those of the fit

Maps need a model that is linear in the samples: fit it with --linear, or with --decomposition.
"""


@click.command("maps", epilog=_EXAMPLES, cls=options.Grouped, most=("out", "background", "overwrite", "as_json"))
@click.argument("model", type=options.MODEL)
@options.data(required=False)
@click.option(
    "-o", "--out", type=click.Path(path_type=Path, file_okay=False), help="Folder to write. [default: MODEL-maps]"
)
@click.option("--background", type=options.PATH, help="Anatomical NIfTI volume to draw maps of volumes over.")
@options.loading
@options.model_sha256
@options.overwrite
@options.as_json
@options.as_namespace
def maps_command(given: Any) -> None:
    """Write the maps of a MODEL as pictures and files: patterns, weights, clusters, topographies.

    The activation pattern says where classes differ and may be interpreted; the weight only says how they are told
    apart. Both are written as pictures (.png) and as files for other programs: .nii.gz for volumes, otherwise .npy, and
    a table (.csv) of small ones. Clusters are regions of a pattern around its peaks, in a table. Channels on the
    head are drawn at the times at which they differ most.
    """
    from ..inspection import ModelChain, feature_patterns, named_patterns, shown_patterns
    from ..io import load_model
    from ..report import beats_chance, format_halves

    with refusals(ValueError, TypeError):
        folder = given.out or beside(given.model, ending="-maps")
        loaded = load_model(given.model, given.model_sha256)
        with blaming(given.model):
            ModelChain.of(loaded.model).check_picture()
        samples = load_for(given.model, loaded, given.data, given.loading, need_labels=True) if given.data else None
        with blaming(given.model):
            if samples is None:
                patterns = shown_patterns(loaded.model, named_patterns(loaded.patterns))
            else:
                asked = (samples.data, samples.target, samples.groups, samples.confounds)
                patterns = feature_patterns(loaded.model, *asked)
            with written_together():
                written = _write(folder, loaded, patterns, samples, given)
    for name, own in patterns.items():
        click.echo(f"Pattern of {name or 'the samples'}: {format_halves(own)}", err=True)
    if not beats_chance(loaded.facts["about"]):
        warn("this model is not shown to beat chance: do not read its maps")
    say_written(given.as_json, *written)


_LONGEST_TABLE = 100_000  # rows


def _write(
    folder: Path, loaded: ModelFile, patterns: dict[str, Pattern], samples: SampleSet | None, given: Any
) -> list[Path]:
    """Write all maps and return their files."""
    from ..inspection import ModelChain, NotAffineError, weight_maps
    from ..plots import fitting_axes
    from ..report import ModelMaps, named_axes, read_anatomy

    chain, about = ModelChain.of(loaded.model), loaded.facts["about"]
    affine, space = (about.get(name) if samples is None else getattr(samples, name) for name in ("affine", "space"))
    background = None
    if given.background is not None:
        background = read_anatomy(given.background, loaded.facts.get("sample_shape") or (), affine)
    there = [
        path for what in ("pattern", "weight") for path in folder.glob(f"{what}[.-]*")
    ]  # all of which may be written
    check_outputs((given.model, *given.data), {folder / "pattern.png", *there})
    folder.mkdir(parents=True, exist_ok=True)
    written, stored = list[Path](), loaded.facts.get("sample_shape") or ()
    known = samples.axes if loaded.axes is None and samples is not None else loaded.axes
    axes = chain.axes_of_patterns(named_axes(known, loaded.facts))

    def shape(view: str) -> tuple[int, ...]:  # an affine is that of the samples, not of what steps make of them
        return tuple((stored.get(view) or ()) if isinstance(stored, dict) else stored)

    found = ModelMaps(loaded.model, samples, patterns, about.get("training"))
    weights: Any = {}
    with suppress(NotAffineError):  # of features only, but the samples have a pattern
        weights = weight_maps(loaded.model)
    for what, maps in (("pattern", {name: own.maps for name, own in patterns.items()}), ("weight", weights)):
        for view, own in (maps if isinstance(maps, dict) else {"": maps}).items():
            name = f"{what}-{view}" if view else what
            place, code = (one.get(view) if isinstance(one, dict) else one for one in (affine, space))
            options: dict[str, Any] = {"affine": None}
            if own.shape[1:] == shape(view):
                options = {"affine": place, "space": code}
            options |= {"background": background, "mode_axes": fitting_axes(axes, own.shape[1:], view)}
            unit = found.unit_of(view) if what == "pattern" else None
            written += _files(folder / name, own, (f"{what} of {view}" if view else what, unit, chain), options)
    return written


def _files(stem: Path, maps: Any, about: tuple[str, str | None, ModelChain], options: dict[str, Any]) -> list[Path]:
    """Write the maps of all binary problems in every form that suits them; numbers for people are in readable units."""
    from ..inspection import in_units

    (what, unit, chain), affine, background = about, options["affine"], options.pop("background")
    texts = chain.map_texts(what)
    readable, in_words = in_units(maps, texts, unit)
    volume = affine is not None and maps.ndim == 4
    endings = (".png", ".nii.gz" if volume else ".npy", *([".csv"] if maps[0].size <= _LONGEST_TABLE else []))
    written = list[Path]()
    for path in (stem.with_name(stem.name + ending) for ending in endings):
        if path.suffix == ".png":
            below = None if background is None else background.values
            written += save_maps(path, readable, in_words, chain, background=below, **options)
        else:
            written += save_maps(path, maps, texts, chain, **options)
    written += _field_pictures(stem, readable, options["mode_axes"], (chain.problem_names, in_words))
    if what.startswith("pattern"):
        space = {"affine": affine if volume else None, "mode_axes": options["mode_axes"]}
        written.append(_clusters(stem.with_name(f"{stem.name}-clusters.csv"), readable, space, in_words))
    return written


def _field_pictures(stem: Path, maps: Any, axes: Any, about: tuple[list[str], list[MapText]]) -> list[Path]:
    """Write what the field of the samples is used to: topographies, butterfly plots, spectra."""
    from base64 import b64decode

    from ..io import MARK, replacing
    from ..plots import view_path
    from ..report import field_pictures

    written = list[Path]()
    for number, (name, text) in enumerate(zip(*about, strict=True)):
        whose = stem if len(maps) == 1 else view_path(stem, problem_stem(number, name))
        for place, picture in enumerate(field_pictures(maps[number], axes, text), 1):
            written.append(whose.with_name(f"{whose.name}-field-{place}.svg"))
            content = b64decode(picture.source.partition("base64,")[2]) + b"<!-- " + MARK + b" -->\n"
            with replacing(written[-1]) as temporary:
                temporary.write_bytes(content)
    return written


def _clusters(path: Path, maps: Any, space: dict[str, Any], texts: list[MapText]) -> Path:
    """Write the clusters of the maps of all binary problems as one table."""
    import csv

    from ..inspection import cluster_table
    from ..io import neutral, replacing

    tables = [cluster_table(one, **space) for one in maps]
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        columns = next((table.columns for table in tables if len(table)), tables[0].columns)
        rows.writerow(["signs", *columns])
        for text, table in zip(texts, tables, strict=True):
            for row in table.rows():  # names of channels are text of others
                cells = (neutral(cell) if name == "at" else cell for name, cell in zip(columns, row, strict=True))
                rows.writerow([neutral(text.signs), *cells])
    return path
