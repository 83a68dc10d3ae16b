"""``tensormargin predict`` and ``tensormargin inspect``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..runtime import counted
from ._data import (
    FORMATS,
    data_argument,
    load_for,
    loading_options,
    refuse_given,
    unseen_said,
    view_files,
    warn_of_axes,
)
from ._maps import map_options, write_maps
from ._options import blaming, check_outputs, json_option, model_sha256_option, overwrite_option, print_json, refusals
from .patches import check_scene, classify, scene_options

if TYPE_CHECKING:
    from ..data import ComparedSamples
    from ..io import Agreement, ModelFile

_PREDICT_EXAMPLES = f"""
{FORMATS}
\b
Examples:
  tensormargin predict eeg.skops new.npz -o predictions.csv
  tensormargin predict scans.skops scans/new/ -o predictions.csv --json
  tensormargin predict line.skops picture.png -o predictions.csv               one image, resized as by `fit --size`
  tensormargin predict bold.skops new.nii.gz --events new.tsv -o predictions.csv
  tensormargin predict eeg.skops monday.npz tuesday.npz -o predictions.csv     one column says which file
  tensormargin predict pines.skops scene.hdr --scene map.png    the class of every pixel, as an image
  tensormargin predict both.skops new.npz --view fmri=new.nii.gz --covariates new.csv -o predictions.csv

DATA is made into samples as it was for the fit: --size, --delay, ... need not be given again.
Labels in DATA are optional; if there are any, they are added to the file and the accuracy is printed.
"""


@click.command("predict", epilog=_PREDICT_EXAMPLES)
@click.argument("model", type=click.Path(path_type=Path))
@data_argument()
@click.option("-o", "--out", type=click.Path(path_type=Path, dir_okay=False), help="CSV file to write (.npy: --scene).")
@click.option(
    "--scene",
    "picture",
    type=click.Path(path_type=Path, dir_okay=False),
    help="DATA is a scene: write the class of every pixel as this image (.png), and as an array (.npy).",
)
@click.option("--truth", type=click.Path(path_type=Path), help="Ground truth of the scene, drawn beside it.")
@click.option("--any-scale", is_flag=True, help="Predict samples of another scale (unit) than those of the fit, too.")
@scene_options
@loading_options
@model_sha256_option
@overwrite_option
@json_option
def predict_command(
    model: Path,
    data: tuple[Path, ...],
    out: Path | None,
    picture: Path | None,
    truth: Path | None,
    any_scale: bool,
    cube: str | None,
    truth_name: str | None,
    background: int,
    class_names: str | None,
    loading: dict[str, Any],
    model_sha256: str | None,
    as_json: bool,
) -> None:
    """Predict the classes of DATA with a MODEL saved by `tensormargin fit`.

    The CSV file has one row per sample: its name or number (of several files, the file first), the predicted class,
    the probability (for models without probabilities, the score) of every class, how the probabilities were made,
    whether the sample was used in the fit, and whether it is unlike all training samples, in its entries or in its
    score. Text that a spreadsheet would take for a formula (=, +, - or @ in front, unless it is a number) gets an
    apostrophe in front.
    """
    from ..io import agreement, load_model, predictions_of, write_predictions

    with refusals(ValueError):
        files = check_scene(picture, out, truth, len(data))
        check_outputs((model, *data, truth, *view_files(loading)), files)
        loaded = load_model(model, model_sha256)
        if picture is not None:
            options = {
                "truth": truth,
                "cube": cube,
                "truth_name": truth_name,
                "background": background,
                "names": class_names,
            }
            rules = {name: loading[name] for name in ("max_bytes", "allow_external")}
            refuse_given(loading, tuple(rules), "for files of samples, and DATA is a scene (--scene). Leave it out")
            with blaming(model):
                classified = classify(loaded, data[0], files, {**options, **rules}, any_scale)
            _print_scene(*classified, files, as_json)
            return
        samples = load_for(model, loaded, data, loading, need_labels=False)
        with blaming(model), unseen_said():
            rows = predictions_of(loaded.model, samples, loaded.axes, loaded.training, any_scale)
            warn_of_axes(samples, loaded.axes)
            used = None if rows.compared is None else rows.compared.used
            found = agreement(rows.predicted, samples.target, loaded.facts["classes"], used)
        write_predictions(files[0], rows)
    _warn_of_samples(rows.compared, "samples", rows.names)
    if as_json:
        counts = {str(label): int((rows.predicted == label).sum()) for label in loaded.facts["classes"]}
        content = {
            "out": str(files[0]),
            "n_samples": len(rows.predicted),
            **found.facts,
            **({} if rows.compared is None else rows.compared.facts),
            "predicted": counts,
            "probabilities_from": rows.made_by,
        }
        print_json(content)
        return
    click.echo(f"Wrote {files[0]}: {counted(len(rows.predicted), 'prediction')}")
    if rows.made_by is not None:
        click.echo(f"Probabilities: {rows.made_by}")
    _print_agreement(found, rows.compared, "samples", f"the labels that came with {samples.source}")


def _print_scene(
    n_pixels: int, found: Agreement, compared: ComparedSamples | None, files: list[Path], as_json: bool
) -> None:
    _warn_of_samples(compared, "pixels")
    if as_json:
        more = {} if compared is None else compared.facts
        print_json({"n_samples": n_pixels, **found.facts, **more, "written": [str(path) for path in files]})
        return
    click.echo(f"Wrote {', '.join(map(str, files))}: {counted(n_pixels, 'pixel')}")
    _print_agreement(found, compared, "pixels", "the pixels with a class, which may include those of the fit")


def _warn_of_samples(compared: ComparedSamples | None, what: str, names: list[str] | None = None) -> None:
    warning = None if compared is None else compared.warning(what, names)
    if warning is not None:
        click.echo(f"Warning: {warning}", err=True)


def _print_agreement(found: Agreement, compared: ComparedSamples | None, what: str, which: str) -> None:
    used = None if compared is None else compared.sentence(what)
    for line in (*([] if used is None else [used]), *found.lines(which, what)):
        click.echo(line)


_INSPECT_EXAMPLES = """
\b
Examples:
  tensormargin inspect eeg.skops
  tensormargin inspect scans.skops --pattern-map pattern.nii.gz  what may be interpreted, for any brain image viewer
  tensormargin inspect scans.skops --weight-map weight.nii.gz
"""


@click.command("inspect", epilog=_INSPECT_EXAMPLES)
@click.argument("model", type=click.Path(path_type=Path))
@map_options
@model_sha256_option
@overwrite_option
@json_option
def inspect_command(
    model: Path, pattern_map: Path | None, weight_map: Path | None, model_sha256: str | None, as_json: bool
) -> None:
    """Describe a MODEL file: classes, weight, preparation, evaluation, versions, digest."""
    from ..data import short_facts
    from ..io import all_or_none, load_model, sha256_of

    with refusals(ValueError, TypeError):
        check_outputs((model,), (pattern_map, weight_map))
        loaded = load_model(model, model_sha256)
        digest = sha256_of(model)
        with blaming(model), all_or_none():
            affine = loaded.facts["about"].get("affine")
            maps = write_maps(loaded.model, loaded.patterns, weight_map, pattern_map, affine, loaded.axes)
            lines = [] if as_json else _description(model, loaded)
    if as_json:
        print_json({**loaded.facts, "about": short_facts(loaded.facts["about"]), "sha256": digest})
        return
    for line in [*lines, f"SHA-256 of the file: {digest}"]:
        click.echo(line)
    if maps:
        click.echo("Wrote " + ", ".join(map(str, maps)))


def _description(path: Path, loaded: ModelFile) -> list[str]:
    from ..data import format_axes, format_shape
    from ..inspection import format_feature_views
    from ..report import evaluation_lines, statements
    from ..runtime import listed

    facts, about = loaded.facts, loaded.facts["about"]
    classes = listed([str(label) for label in facts["classes"]])
    features = format_feature_views(loaded.model)
    return [
        f"{path}: {facts['model']}, saved {facts['created']}",
        f"Takes samples of {format_shape(facts['sample_shape'])}; classes: {classes}",
        *([] if loaded.axes is None else [f"Modes: {format_axes(loaded.axes)}"]),
        *evaluation_lines(about.get("evaluation"), about.get("chance")),
        *statements(loaded.model, facts),
        *([features] if features else []),
        *([] if loaded.patterns is None else ["Activation pattern, which may be interpreted: --pattern-map FILE"]),
    ]
