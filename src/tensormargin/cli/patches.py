"""``tensormargin patches``, and ``tensormargin predict --scene``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..runtime import counted
from . import _options as options
from ._options import names
from ._outputs import blaming, check_ending, check_outputs, print_json, refusals, say_written
from ._running import progress_bar

if TYPE_CHECKING:
    from ..data import ComparedSamples
    from ..io import Agreement, ModelFile, Scene
    from ..runtime import Array

_EXAMPLES = """
\b
CUBE and TRUTH are one of
  scene.hdr                  ENVI: the header, or the file of numbers beside it
  scene.tif                  GeoTIFF (with rasterio), plain TIFF with one page per band; TRUTH also PNG
  scene.mat  scene.npy ...   arrays of rows x columns x bands, and rows x columns; both may be in one file
\b
Examples:
  tensormargin patches Indian_pines.mat Indian_pines_gt.mat -o patches.npz --per-class 100
  tensormargin fit patches.npz -o pines.skops           places of the scene are kept together
  tensormargin predict pines.skops Indian_pines.mat --scene map.png --truth Indian_pines_gt.mat
"""


@click.command("patches", epilog=_EXAMPLES)
@click.argument("cube_file", metavar="CUBE", type=options.PATH)
@click.argument("truth", required=False, type=options.PATH)
@click.option("-o", "--out", type=options.PATH, required=True, help="File of samples: .npz, .h5 or .zarr.")
@options.number("--size", 1, "Patch side length in pixels (odd).", default=5)
@options.number("--per-class", 1, "Draw N pixels of each class; all by default.", metavar="N")
@click.option(
    "--only-classes",
    "--classes",
    "classes",
    metavar="CLASSES",
    help="Comma-separated classes to keep, as names or numbers.",
)
@click.option("--exclude-classes", metavar="CLASSES", help="Comma-separated classes to leave out, likewise.")
@options.number("--blocks", 1, "Side of the squares of the scene that are kept together, in pixels.", default=8)
@options.scene
@options.scene_limits
@options.seed
@options.overwrite
@options.as_json
@options.as_namespace
def patches_command(given: Any) -> None:
    """Cut a scene (CUBE) into patches around the pixels that have a class (TRUTH), as samples for the other commands.

    Neighbouring patches share pixels. Squares of the scene are therefore the groups of the samples, which `fit` and
    `compare` keep together: accuracies are those of places that were not seen.
    """
    scene, truth, out, size = given.cube_file, given.truth, given.out, given.size
    with refusals(ValueError), progress_bar() as show:
        import numpy as np

        from ..io import check_ending as check_container
        from ..io import load_scene
        from ..transformers import Patches

        check_container(out)
        check_outputs((scene, truth), (out,))
        if size % 2 == 0:
            raise ValueError(f"--size must be an odd number of pixels; got {size}. Use {size - 1} or {size + 1}")
        found = load_scene(scene, truth, **given.scene, max_bytes=given.max_bytes, allow_external=given.allow_external)
        if found.truth is None:
            raise ValueError(
                f"{scene}: has no ground truth, one number per pixel; give its file as TRUTH. To classify a scene, use "
                "`tensormargin predict MODEL CUBE --scene map.png`"
            )
        patches = Patches(size, given.blocks)
        with blaming(truth or scene):
            kept = _kept(found.truth, given.classes, "--only-classes")
            left_out = _kept(found.truth, given.exclude_classes, "--exclude-classes")
            if left_out is not None:
                there = np.unique(found.truth[found.truth != found.background]).tolist() if kept is None else kept
                kept = [one for one in there if one not in left_out]
            places = patches.places(found.data.shape, found.truth, kept, found.background, given.per_class, given.seed)
        _write(out, patches, found, places, show)
    pairs = set(zip(places.target.tolist(), places.groups.tolist(), strict=True))
    n_places = Counter(str(label) for label, _ in pairs)
    facts: dict[str, Any] = {
        "n_samples": len(places.target),
        "n_classes": len(set(places.target.tolist())),
        "n_groups": len(set(places.groups.tolist())),
        "classes_in_one_place": sorted(label for label, number in n_places.items() if number == 1),
    }
    if given.as_json:
        print_json({"written": [str(out)], "shape": [size, size, found.data.shape[2]], **facts})
        return
    say_written(False, out)
    summary = f"{counted(facts['n_samples'], 'sample')} of {size} x {size} x {found.data.shape[2]}"
    click.echo(f"{summary}, {counted(facts['n_classes'], 'class', 'classes')}, {counted(facts['n_groups'], 'place')}")
    if facts["classes_in_one_place"]:
        click.echo(
            f"Note: a class must lie in several places to be evaluated, and {', '.join(facts['classes_in_one_place'])} "
            "does not; leave it out with --exclude-classes, or give smaller --blocks"
        )


def _kept(truth: Array, classes: str | None, option: str) -> list[Any] | None:
    """Return the classes that an option names, as numbers unless the ground truth has names."""
    if classes is None:
        return None
    try:
        return list(names(classes)) if truth.dtype.kind == "U" else [int(one) for one in names(classes)]
    except ValueError:
        raise ValueError(
            f"{option} must be numbers in the ground truth, or names with --names; got {classes}"
        ) from None


def _write(out: Path, patches: Any, scene: Scene, places: Any, show: Any) -> None:
    import numpy as np

    from ..io import arrays_of, write_samples

    total = len(places.positions)

    def pieces() -> Iterator[Array]:
        for where, piece in patches.pieces(scene.data, places.positions):
            yield piece
            show(where.stop, total, "patches")

    arrays = {
        "y": places.target,
        "groups": places.groups,
        "positions": places.positions,
        "scene_shape": np.array(places.shape),
        **arrays_of(scene.axes),
    }
    shape = (total, patches.size, patches.size, scene.data.shape[2])
    write_samples(out, pieces(), shape, scene.data.dtype.newbyteorder("="), arrays)


def check_scene(given: Any) -> list[Path]:
    """Return the files that `predict` writes; raise ValueError if its options contradict each other."""
    out, picture, n_files = given.out, given.picture, len(given.data)
    if picture is None:
        if given.truth is not None:
            raise ValueError("--truth is the ground truth of a scene; add --scene map.png, or leave it out")
        if out is None:
            raise ValueError("-o must name the CSV file to write; with --scene map.png, DATA is a scene instead")
        check_ending(out, "a table of predictions", ".csv")
        return [out]
    if n_files > 1:
        raise ValueError(f"--scene is for one scene; got {n_files} files. Classify them one by one")
    array = picture.with_suffix(".npy") if out is None else out
    if picture.suffix.lower() != ".png" or array.suffix.lower() != ".npy":
        raise ValueError(f"--scene must be a .png file, and -o with it an .npy file; got {picture} and {array}")
    return [picture, array]


def classify(
    loaded: ModelFile, given: Any, files: list[Path], limits: dict[str, Any]
) -> tuple[int, Agreement, ComparedSamples | None]:
    """Write the classes of all pixels of a scene as an image and as an array.

    Return the number of pixels, the agreement with the ground truth, and how they compare with the training samples.
    """
    from ..io import agreement_on_scene, all_or_none, load_scene, scene_predictions
    from ..plots import save_scene

    scene = load_scene(given.data[0], given.truth, **given.scene, **limits)
    with progress_bar() as show:
        predicted, compared = scene_predictions(loaded.model, scene, show, loaded.training, given.any_scale)
    used = None if compared is None else compared.used
    found = agreement_on_scene(predicted, scene, loaded.facts["classes"], used)
    with all_or_none():
        for path in files:
            save_scene(path, predicted, scene.truth, background=scene.background)
    return int(predicted.size), found, compared
