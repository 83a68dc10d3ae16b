"""``tensormargin patches``, and ``tensormargin predict --scene``."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..runtime import counted, listed
from . import _options as options
from ._options import names
from ._outputs import blaming, check_ending, check_outputs, print_json, refusals, say_written, warn, written_together
from ._running import progress_bar

if TYPE_CHECKING:
    from ..data import ComparedSamples
    from ..io import Agreement, ModelFile, Predictions, Scene
    from ..runtime import Array

_MAPS = (".png", ".tif", ".tiff", ".hdr")
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
@click.option(
    "--keep-overlapping", is_flag=True, help="Keep pixels whose patches overlap those of another square, too."
)
@click.option(
    "--hold-out",
    type=click.FloatRange(0, 1, max_open=True),
    default=0.0,
    help="Share of the squares of each class to leave out, for the accuracy that `predict --scene --truth` reports.",
)
@options.scene
@options.scene_limits
@options.seed
@options.overwrite
@options.as_json
@options.as_namespace
def patches_command(given: Any) -> None:
    """Cut a scene (CUBE) into patches around the pixels that have a class (TRUTH), as samples for the other commands.

    Neighbouring patches share pixels. Squares of the scene are therefore the groups of the samples, which `fit` and
    `compare` keep together, and pixels whose patches would overlap one of another square are left out: accuracies are
    those of places that were not seen.
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
        _say_notes(found)
        if found.truth is None:
            raise ValueError(
                f"{scene}: has no ground truth, one number per pixel; give its file as TRUTH. To classify a scene, use "
                "`tensormargin predict MODEL CUBE --scene map.png`"
            )
        patches = Patches(size, given.blocks, not given.keep_overlapping)
        with blaming(truth or scene):
            kept = _classes(found, given)
            labels, n_held_out = _without_blocks(found, kept, patches, given)
            places = patches.places(found.data.shape, labels, kept, found.background, given.per_class, given.seed)
        _write(out, patches, found, places, show)
    facts = {**_facts(places), "n_blocks_held_out": n_held_out}
    if given.per_class is None:
        facts["n_overlapping"] = int(np.isin(labels, kept).sum()) - facts["n_samples"]
    if given.as_json:
        print_json({"written": [str(out)], "shape": [size, size, found.data.shape[2]], **facts})
        return
    say_written(False, out)
    summary = f"{counted(facts['n_samples'], 'sample')} of {size} x {size} x {found.data.shape[2]}"
    click.echo(f"{summary}, {counted(facts['n_classes'], 'class', 'classes')}, {counted(facts['n_groups'], 'place')}")
    if n_held_out:
        click.echo(f"{counted(n_held_out, 'place')} held out, for `tensormargin predict --scene --truth`")
    if facts.get("n_overlapping"):
        click.echo(
            f"Note: {counted(facts['n_overlapping'], 'pixel')} left out, whose patches overlap those of another place; "
            "larger --blocks leave out fewer, --keep-overlapping none"
        )
    if facts["classes_in_one_place"]:
        click.echo(
            f"Note: a class must lie in several places to be evaluated, and {', '.join(facts['classes_in_one_place'])} "
            "does not; leave it out with --exclude-classes, or give smaller --blocks"
        )


def _say_notes(scene: Scene) -> None:
    for note in scene.notes:
        click.echo(f"Note: {note}", err=True)


def _facts(places: Any) -> dict[str, Any]:
    """Return the numbers of samples, classes and places, and the classes that lie in one place only."""
    pairs = set(zip(places.target.tolist(), places.groups.tolist(), strict=True))
    n_places = Counter(str(label) for label, _ in pairs)
    return {
        "n_samples": len(places.target),
        "n_classes": len(n_places),
        "n_groups": len({group for _, group in pairs}),
        "classes_in_one_place": sorted(label for label, number in n_places.items() if number == 1),
    }


def _classes(scene: Scene, given: Any) -> list[Any]:
    """Return the classes that the options leave."""
    import numpy as np

    truth: Any = scene.truth
    only = _kept(truth, given.classes, "--only-classes")
    left_out = _kept(truth, given.exclude_classes, "--exclude-classes") or []
    there = np.unique(truth[truth != scene.background]).tolist()
    unknown = [one for one in left_out if one not in there]
    if unknown:
        raise ValueError(
            f"--exclude-classes must be classes of the scene, {listed(map(str, there))}; got "
            f"{listed(map(str, unknown))}"
        )
    return [one for one in (there if only is None else only) if one not in left_out]


def _without_blocks(scene: Scene, classes: list[Any], patches: Any, given: Any) -> tuple[Array, int]:
    """Return the ground truth without some squares of the scene, and their number.

    A square is held out if all its classes can do without it: each keeps its share, and one square at least.
    """
    import numpy as np

    truth: Any = scene.truth
    marked = np.isin(truth, classes)
    squares = patches.groups_of(np.argwhere(np.ones(truth.shape, bool)), truth.shape).reshape(truth.shape)
    own: dict[int, set[Any]] = {}
    for square, label in zip(squares[marked].tolist(), truth[marked].tolist(), strict=True):
        own.setdefault(square, set()).add(label)
    left = Counter(label for labels in own.values() for label in labels)
    least = {label: max(1, (1 - given.hold_out) * number) for label, number in left.items()}
    held_out = []
    for square in np.random.RandomState(given.seed).permutation(sorted(own)).tolist():
        if all(left[label] - 1 >= least[label] for label in own[square]):
            left.subtract(own[square])
            held_out.append(square)
    return np.where(np.isin(squares, held_out), scene.background, truth), len(held_out)


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
        for where, piece in patches.pieces(scene.data, places.positions, lacking=scene.lacking):
            yield piece
            show(where.stop, total, "patches")

    arrays = {
        "y": places.target,
        "groups": places.groups,
        "positions": places.positions,
        "scene_shape": np.array(places.shape),
        **arrays_of(scene.axes),
    }
    if scene.class_names:
        arrays["class_numbers"] = np.array(list(scene.class_names))
        arrays["class_names"] = np.array(list(scene.class_names.values()), str)
    shape = (total, patches.size, patches.size, scene.data.shape[2])
    with written_together():
        write_samples(out, pieces(), shape, scene.data.dtype.newbyteorder("="), arrays)


def check_scene(given: Any) -> list[Path]:
    """Return the files that `predict` writes; raise ValueError if its options contradict each other."""
    out, picture, n_files = given.out, given.picture, len(given.data)
    if picture is None:
        if given.truth is not None:
            raise ValueError("--truth is the ground truth of a scene; add --scene map.png, or leave it out")
        check_ending(out, "a table of predictions", ".csv")
        return [] if out is None else [out]
    if n_files > 1:
        raise ValueError(f"--scene is for one scene; got {n_files} files. Classify them one by one")
    is_picture = picture.suffix.lower() == ".png"
    other = picture.with_suffix(".npy" if is_picture else ".png") if out is None else out
    for option, path, endings in (("--scene", picture, _MAPS), ("-o", other, (*_MAPS, ".npy", ".csv"))):
        if path.suffix.lower() not in endings:
            raise ValueError(f"{option} must end in {', '.join(endings)} for the map of a scene; got {path}")
    return [picture, other]


def refuse_scene(loaded: ModelFile, given: Any, limits: dict[str, Any]) -> None:
    """Raise ValueError if DATA is a scene without --scene, or if there is no -o."""
    from ..data import FileRules, parsed_bytes
    from ..io import is_scene

    rules = FileRules(parsed_bytes(limits["max_bytes"]), limits["allow_external"])
    shape, path = loaded.facts["sample_shape"], given.data[0]
    are_images = "image" in loaded.loading.get("kind", "")
    if isinstance(shape, list) and not are_images and is_scene(path, shape, rules):
        raise ValueError(
            f"{path} is a scene, and not samples: add --scene map.png to classify every pixel (map.tif: GeoTIFF, "
            "map.hdr: ENVI; -o pixels.csv: a table of all pixels)"
        )
    if given.out is None:
        raise ValueError("-o must name the CSV file to write; with --scene map.png, DATA is a scene instead")


def written_files(files: list[Path]) -> list[Path]:
    """Return the files of maps and others that `classify` writes."""
    from ..io import MAPS, class_map_files

    found = [class_map_files(path) if path.suffix.lower() in MAPS else [path] for path in files]
    return [one for own in found for one in own]


def classify(
    loaded: ModelFile, given: Any, files: list[Path], limits: dict[str, Any]
) -> tuple[int, Agreement, ComparedSamples | None]:
    """Write the classes of all pixels of a scene as pictures, maps, arrays and tables.

    Return the number of pixels, the agreement with the ground truth, and how they compare with the training samples.
    """
    import numpy as np

    from ..io import (
        agreement_on_scene,
        check_truth,
        no_class,
        painted,
        patch_size,
        scene_predictions,
        write_predictions,
    )
    from ..plots import save_scene

    scene = _loaded_scene(loaded, given, limits)
    check_truth(scene, loaded.facts["classes"])
    _check_places(scene, files)
    tables, maps = ([one for one in files if (one.suffix.lower() == ".csv") is table] for table in (True, False))
    predicted: list[Array] = []
    classes = loaded.facts["classes"]
    comparisons: list[ComparedSamples] = []

    def parts() -> Iterator[Predictions]:
        for part in scene_predictions(loaded.model, scene, show, loaded.training, given.any_scale):
            predicted.append(part.predicted)
            comparisons.extend(() if part.compared is None else (part.compared,))
            yield part

    with written_together(), progress_bar() as show:
        for path in tables:
            write_predictions(path, parts())
        if not tables:
            deque(parts(), maxlen=0)
        compared = None if loaded.training is None else loaded.training.joined(comparisons)
        background = no_class(scene, classes)
        classes_of_pixels = painted(scene, np.concatenate(predicted), background)
        used = None if compared is None else compared.used
        found = agreement_on_scene(classes_of_pixels, scene, classes, used, patch_size(loaded.facts["sample_shape"]))
        about: dict[str, Any] = {"truth": scene.truth, "background": background, "georeference": scene.georeference}
        for path in maps:
            save_scene(path, classes_of_pixels, classes=classes, names=scene.class_names, **about)
    return sum(map(len, predicted)), found, compared


def _loaded_scene(loaded: ModelFile, given: Any, limits: dict[str, Any]) -> Scene:
    """Return the scene, with the names and numbers that the classes of the model's scene had unless it has names."""
    from ..data import contradictions
    from ..io import load_scene

    scene = load_scene(given.data[0], given.truth, **given.scene, **limits)
    _say_notes(scene)
    axes = None if loaded.axes is None else scene.axes[-len(loaded.axes) :]
    error, warning = contradictions(loaded.axes, axes)
    if error is not None:
        raise ValueError(f"{scene.source}: {error}")
    warn(None if warning is None else f"{scene.source}: {warning}")
    if scene.class_names or not isinstance(loaded.facts["classes"][0], str):
        return scene
    numbers = loaded.loading.get("stated", {}).get("class_numbers", {})
    return scene.named({number: name for name, number in numbers.items()})


def _check_places(scene: Scene, files: list[Path]) -> None:
    """Raise before any work if the place of a scene cannot be read; warn if a map cannot state it."""
    where = scene.georeference
    for path in files if where.is_known else ():
        ending = path.suffix.lower()
        if ending == ".hdr" and not where.in_envi():
            warn(f"{path}: an ENVI header cannot state the place of a sheared scene; write a GeoTIFF (.tif)")
        elif ending in (".tif", ".tiff") and not where.in_geotiff()[1]:
            warn(f"{path}: the map has no place, since GDAL cannot read that of {scene.source}; write ENVI (.hdr)")
