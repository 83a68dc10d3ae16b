"""``tensormargin predict`` and ``tensormargin inspect``."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..runtime import counted
from . import _options as options
from ._data import load_for, refuse_given, unseen_categories_printed, view_files
from ._options import FORMATS
from ._outputs import blaming, check_outputs, print_json, refusals, warn, write_maps, written_together
from ._running import progress_bar
from .patches import check_scene, classify, refuse_scene, written_files

if TYPE_CHECKING:
    from ..data import ComparedSamples
    from ..io import Agreement, ModelFile

_APART = "whose patches share no pixel with one of the fit"
_PREDICT_EXAMPLES = f"""
{FORMATS}
\b
Examples:
  tensormargin predict eeg.skops new.npz -o predictions.csv
  tensormargin predict scans.skops scans/new/ -o predictions.csv --json
  tensormargin predict line.skops picture.png -o predictions.csv               one image, resized as by `fit --size`
  tensormargin predict bold.skops new.nii.gz --events new.tsv -o predictions.csv
  tensormargin predict eeg.skops monday.npz tuesday.npz -o predictions.csv     one column says which file
  tensormargin predict pines.skops scene.hdr --scene map.png    the class of every pixel, as a picture
  tensormargin predict pines.skops scene.hdr --scene map.tif -o pixels.csv     as a GeoTIFF, and as a table
  tensormargin predict both.skops new.npz --view fmri=new.nii.gz --covariates new.csv -o predictions.csv

DATA is made into samples as it was for the fit: --size, --delay, ... need not be given again.
Labels in DATA are optional; if there are any, they are added to the file and the accuracy is printed.
"""


@click.command(
    "predict",
    cls=options.Grouped,
    epilog=_PREDICT_EXAMPLES,
    most=("out", "picture", "labels", "events", "view", "as_json"),
)
@click.argument("model", type=options.MODEL)
@options.data()
@click.option("-o", "--out", type=options.FILE, help="CSV file to write (--scene: also .npy, .png, .tif, .hdr).")
@click.option(
    "--scene",
    "picture",
    type=options.FILE,
    help="DATA is a scene: write the class of every pixel as this picture (.png), GeoTIFF (.tif) or ENVI map (.hdr).",
)
@click.option(
    "--truth", type=options.PATH, help="Ground truth of the scene, drawn beside it; accuracies are those on it."
)
@click.option("--any-scale", is_flag=True, help="Predict samples of another scale (unit) than those of the fit, too.")
@options.scene
@options.loading
@options.model_sha256
@options.overwrite
@options.as_json
@options.as_namespace
def predict_command(given: Any) -> None:
    """Predict the classes of DATA with a MODEL saved by `tensormargin fit`.

    The CSV file has one row per sample: its name or number (of several files, the file first), the predicted class,
    the probability (for models without probabilities, the score) of every class, whether the sample was used in the
    fit, and whether it is unlike all training samples, in its entries or in its score. How the probabilities were made
    is the same for all samples: `predict` prints it, and so does `tensormargin inspect MODEL`. Text that a spreadsheet
    would take for a formula (=, +, - or @ in front, unless it is a number) gets an apostrophe in front.
    """
    from ..io import PredictionRun, axes_warning, less_probable, load_model, probabilities_from, replacing, write_table

    model, data, loading = given.model, given.data, given.loading
    with refusals(ValueError):
        files = check_scene(given)
        written = written_files(files)
        check_outputs((model, *data, given.truth, *view_files(loading)), written)
        loaded = load_model(model, given.model_sha256)
        limits = {name: loading[name] for name in ("max_bytes", "allow_external")}
        if given.picture is not None:
            refuse_given(loading, tuple(limits), "for files of samples, and DATA is a scene (--scene). Leave it out")
            with blaming(model):
                classified = classify(loaded, given, files, limits)
            _print_scene(*classified, written, given.as_json)
            return
        refuse_scene(loaded, given, limits)
        samples = load_for(model, loaded, data, loading, need_labels=False, lazy="blocks")
        out, made_by = files[0], probabilities_from(loaded.model)
        with blaming(model), unseen_categories_printed(), written_together(), replacing(out) as temporary:
            with progress_bar() as show:
                run = PredictionRun(loaded, samples, given.any_scale, show)
                run.into(partial(write_table, temporary, left_out=samples.left_out))
            warn(axes_warning(samples, loaded))
    n_samples, found, compared = len(samples.data), run.agreement, run.compared
    if compared is not None:
        warn(compared.warning("samples", run.unlike))
    if given.as_json:
        content = {
            "out": str(out),
            "n_samples": n_samples,
            **found.facts,
            **({} if compared is None else compared.facts),
            "predicted": run.n_predicted,
            "left_out": samples.left_out,
            "probabilities_from": made_by,
            "n_less_probable": run.n_less_probable,
        }
        print_json(content)
        return
    damaged = f"; {counted(len(samples.left_out), 'damaged file')} without one" if samples.left_out else ""
    click.echo(f"Wrote {out}: {counted(n_samples, 'prediction')}{damaged}")
    if made_by is not None:
        click.echo(f"Probabilities: {made_by}")
    if run.n_less_probable:
        click.echo(less_probable(run.n_less_probable))
    _print_agreement(found, compared, "samples", f"against the labels in {samples.source}")


def _print_scene(
    n_pixels: int, found: Agreement, compared: ComparedSamples | None, files: list[Path], as_json: bool
) -> None:
    if compared is not None:
        warn(compared.warning("pixels"))
    if as_json:
        more = {} if compared is None else compared.facts
        print_json({"n_samples": n_pixels, **found.facts, **more, "written": [str(path) for path in files]})
        return
    click.echo(f"Wrote {', '.join(map(str, files))}: {counted(n_pixels, 'pixel')}")
    which = "on the pixels with a class" + (", which may include those of the fit" if found.n_new is None else "")
    _print_agreement(found, compared, "pixels", which, _APART)
    if found.n_new == 0 and found.n_known:
        click.echo(
            f"No accuracy on new pixels: there are none {_APART}. `tensormargin patches --hold-out 0.3` leaves places "
            "of the scene out of the fit"
        )
    for line in found.table("pixels") if found.by_class else ():
        click.echo(line)


def _print_agreement(
    found: Agreement, compared: ComparedSamples | None, what: str, which: str, new: str = "not used in the fit"
) -> None:
    used = None if compared is None else compared.sentence(what)
    for line in (*([] if used is None else [used]), *found.lines(which, what, new)):
        click.echo(line)


_INSPECT_EXAMPLES = """
\b
Examples:
  tensormargin inspect eeg.skops
  tensormargin inspect scans.skops --pattern-map pattern.nii.gz  what may be interpreted, for any brain image viewer
  tensormargin inspect scans.skops --weight-map weight.nii.gz
"""


@click.command("inspect", epilog=_INSPECT_EXAMPLES)
@click.argument("model", type=options.MODEL)
@options.maps
@options.model_sha256
@options.overwrite
@options.as_json
@options.as_namespace
def inspect_command(given: Any) -> None:
    """Describe a MODEL file: classes, weight, preparation, evaluation, versions, digest."""
    from ..data import short_facts
    from ..io import load_model, sha256_of

    model = given.model
    with refusals(ValueError, TypeError):
        check_outputs((model,), (given.pattern_map, given.weight_map))
        loaded = load_model(model, given.model_sha256)
        digest = sha256_of(model)
        with blaming(model), written_together():
            place = {name: loaded.facts["about"].get(name) for name in ("affine", "space")}
            maps = write_maps(loaded.model, loaded.patterns, given, place, loaded.axes)
            lines = [] if given.as_json else _description(model, loaded)
    if given.as_json:
        print_json({**loaded.facts, "about": short_facts(loaded.facts["about"]), "sha256": digest})
        return
    for line in [*lines, f"SHA-256 of the file: {digest}"]:
        click.echo(line)
    if maps:
        click.echo("Wrote " + ", ".join(map(str, maps)))


def _description(path: Path, loaded: ModelFile) -> list[str]:
    from ..data import format_axes, format_shape
    from ..inspection import format_feature_views
    from ..io import probabilities_from
    from ..report import evaluation_lines, statements
    from ..runtime import listed

    facts, about = loaded.facts, loaded.facts["about"]
    classes = listed([str(label) for label in facts["classes"]])
    features, made_by = format_feature_views(loaded.model), probabilities_from(loaded.model)
    return [
        f"{path}: {facts['model']}, saved {facts['created']}",
        f"Takes samples of {format_shape(facts['sample_shape'])}; classes: {classes}",
        *([] if loaded.axes is None else [f"Modes: {format_axes(loaded.axes)}"]),
        *evaluation_lines(about.get("evaluation"), about.get("chance")),
        *statements(loaded.model, facts),
        *([features] if features else []),
        *([] if made_by is None else [f"Probabilities: {made_by}"]),
        *([] if loaded.patterns is None else ["Activation pattern, which may be interpreted: --pattern-map FILE"]),
    ]
