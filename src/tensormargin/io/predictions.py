"""Predictions of a model for samples from a file, how they agree with labels, and their CSV table."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from ..data import (
    AnyAxes,
    ComparedSamples,
    Metadata,
    OtherScale,
    Summary,
    TrainingRecord,
    Views,
    contradictions,
    joined_summaries,
    names_of,
    summary_parts,
)
from ..inspection import ModelChain, last_estimator, metadata_for_last_step, needs_groups, samples_for_last_step
from ..runtime import Array, Progress, computed, listed
from ..transformers import Patches, takes_nan, takes_ragged
from . import BadFileError, SampleSet, Scene, replacing
from .arrays import check_samples
from .scenes import is_patch, patch_size

_FEW = 20  # samples that show whether a model depends on their scale
_PIXELS = 500  # of a scene that its scale is determined from
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")  # how a cell begins that a spreadsheet executes


@dataclass(frozen=True)
class Predictions:
    """Predictions by sample, columns of labels, probabilities or scores and comparisons, and how they were made."""

    names: list[str]
    predicted: Array
    columns: dict[str, Array]
    made_by: str | None = None
    compared: ComparedSamples | None = None


def check_samples_fit(model: Any, samples: SampleSet, axes: AnyAxes = None) -> None:
    """Raise `BadFileError` if samples, or their channels, do not fit the model, which was fitted with these axes."""
    error, _ = contradictions(axes, samples.axes)
    if error is not None:  # first, since it names the channels that a shape only counts
        raise BadFileError(f"{samples.source}: {error}")
    shape = ModelChain.of(model).sample_shape
    if isinstance(shape, dict) and isinstance(samples.sample_shape, dict):
        _check_views(model, samples, shape)
    elif samples.sample_shape != shape and not takes_ragged(model):
        raise BadFileError(
            f"{samples.source}: samples of shape {samples.sample_shape}; the model was fitted to {shape}. Bring them "
            "to that shape first (--size resizes image files, --axis says which axis counts the samples)"
        )
    if needs_groups(model) and samples.groups is None:
        raise BadFileError(
            f"{samples.source}: the model scales by group, so it needs the groups of new samples too: name them with "
            "--groups"
        )
    needed = confounds_needed(model)
    known = [] if samples.confounds is None else names_of(samples.confounds)
    missing = [name for name in needed if name not in known]
    if missing:
        raise BadFileError(
            f"{samples.source}: the model removes what {', '.join(needed)} explain, so it needs these confounds of new "
            f"samples too; {', '.join(missing)} is missing. Name them with --confounds {','.join(needed)}"
        )


def axes_warning(samples: SampleSet, axes: AnyAxes) -> str | None:
    """Return what to warn of if the times or wavelengths of samples are not those of a model; None if they are."""
    _, warning = contradictions(axes, samples.axes)
    return None if warning is None else f"{samples.source}: {warning}"


def _check_views(model: Any, samples: SampleSet, shapes: dict[str, tuple[int, ...]]) -> None:
    used, found = ModelChain.of(model).classifier.view_scale_, samples.data.shapes
    missing = [name for name in shapes if name not in found and np.any(used.get(name, 1.0))]
    if missing:
        raise BadFileError(
            f"{samples.source}: the model was fitted to the views {', '.join(shapes)}, and {missing[0]!r} is missing; "
            f"give its file: --view {missing[0]}=FILE (covariates: --covariates FILE)"
        )
    for name, shape in found.items():
        if tuple(shape) != tuple(shapes[name]):
            raise BadFileError(
                f"{samples.source}: view {name!r} has samples of shape {tuple(shape)}; the model was fitted to "
                f"{tuple(shapes[name])}. Bring them to that shape first, or name the files: --view NAME=FILE"
            )


def confounds_needed(model: Any) -> tuple[str, ...]:
    """Return the names of the confounds that a fitted model removes; none for a model of another library."""
    try:
        steps = [step for _, step in ModelChain.of(model).confounds_by_view]
    except TypeError:
        return ()
    return tuple(dict.fromkeys(name for step in steps for name in step.names_))


def predictions_of(
    model: Any, samples: SampleSet, axes: AnyAxes = None, record: TrainingRecord | None = None, any_scale: bool = False
) -> Predictions:
    """Return the predictions, compared with the training record; ``any_scale`` accepts samples of another scale."""
    check_samples_fit(model, samples, axes)
    last = last_estimator(model)
    metadata = Metadata(samples.groups, samples.confounds)
    ready = samples_for_last_step(model, samples.data, metadata)
    rows, places = (None, None) if samples.positions is None else samples.positions.T
    known = {"file": samples.files, "row": rows, "column": places, "label": samples.target, "group": samples.groups}
    columns = {name: values for name, values in known.items() if values is not None}
    names = samples.names or _numbered(samples)
    more = metadata_for_last_step(model, metadata)
    strengths_of = last.predict_proba if hasattr(last, "predict_proba") else last.decision_function
    answers = (last.predict(ready, **more), strengths_of(ready, **more), _scores(last, ready, more) if record else None)
    parts = {} if record is None else summary_parts(samples.data, record.grids)
    # together, so that chunks of a Dask array are read once
    predicted, strengths, scores, *described = computed(*answers, *(part for own in parts.values() for part in own))
    columns |= _by_class(last, np.asarray(strengths))
    made_by = probabilities_from(last)
    if record is None:
        return Predictions(names, np.asarray(predicted), columns, made_by)
    found = joined_summaries({name: [described.pop(0) for _ in own] for name, own in parts.items()})
    compared = record.compare_summaries(found, scores)
    if compared.other_scale is not None and not any_scale:
        compared = _of_one_scale(model, samples, compared.other_scale, record, found, scores)
    unlike = np.where(compared.far, np.where(compared.beyond, "entries and score", "entries"), "score")
    columns |= {} if compared.used is None else {"used in fit": np.where(compared.used, "yes", "no")}
    columns["unlike training"] = np.where(compared.unlike, unlike, "no")
    return Predictions(names, np.asarray(predicted), columns, made_by, compared)


def training_record(model: Any, samples: SampleSet) -> TrainingRecord:
    """Return the record of the samples that a model was fitted to."""
    metadata = Metadata(samples.groups, samples.confounds)
    ready, more = samples_for_last_step(model, samples.data, metadata), metadata_for_last_step(model, metadata)
    (scores,) = computed(_scores(last_estimator(model), ready, more))
    return TrainingRecord.of(samples.data, samples.groups, scores, samples.unit)


def _scores(last: Any, X: Array, more: dict[str, Any]) -> Any:
    """Return the scores, None if the model has none."""
    return last.decision_function(X, **more) if hasattr(last, "decision_function") else None


def _of_one_scale(
    model: Any, samples: SampleSet, other: OtherScale, record: TrainingRecord, found: Mapping[str, Summary], scores: Any
) -> ComparedSamples:
    """Return the comparison without regard to the scale, if the model has none; raise `BadFileError` if it has one."""
    if not _is_scale_free(model, samples, other):
        unit = (samples.unit or {}).get(other.view) if isinstance(samples.unit, Mapping) else samples.unit
        stated = f" (in {unit})" if unit else ""
        raise BadFileError(
            f"{samples.source}{stated}: samples must have the scale of the training samples; {other.message}. "
            f"{'Multiply' if other.factor < 1 else 'Divide'} them by about {max(other.factor, 1 / other.factor):.2g}, "
            "or give --any-scale to predict them as they are"
        )
    one = found[other.view]
    scaled = one._replace(scale=one.scale / other.factor, moments=one.moments / other.factor)
    return record.compare_summaries({**found, other.view: scaled}, scores)


def _is_scale_free(model: Any, samples: SampleSet, other: OtherScale) -> bool:
    """Return whether some samples get the same answers on the scale of the training samples."""
    few, X = slice(0, _FEW), samples.data[:_FEW]
    groups, confounds = (None if own is None else own[few] for own in (samples.groups, samples.confounds))
    none: dict[str, Any] = dict.fromkeys(("target", "names", "files", "positions"))
    given = replace(samples, data=X, groups=groups, confounds=confounds, **none)
    scaled = Views({**dict(X.items()), other.view: X[other.view] / other.factor}) if other.view else X / other.factor
    first, second = (predictions_of(model, one).columns for one in (given, replace(given, data=scaled)))
    return all(np.allclose(first[name], second[name], 1e-3, 1e-6) for name in first if " of " in name)


def _numbered(samples: SampleSet) -> list[str]:
    """Return the index of each sample in its file."""
    if samples.files is None:
        return [str(number) for number in range(len(samples.data))]
    numbers: dict[str, Iterator[int]] = {}
    return [str(next(numbers.setdefault(file, count()))) for file in samples.files.tolist()]


def probabilities_from(last: Any) -> str | None:
    """Return how the probabilities of a model's last estimator were made; None for a model without probabilities."""
    if not hasattr(last, "predict_proba"):
        return None
    calibration = getattr(last, "calibration_", None)
    if calibration is None:
        return f"predict_proba of {type(last).__name__}"
    n_problems, n_columns = calibration.shape
    pairs = getattr(last, "classifier_", last).multi_class_ == "ovo"
    what = f"sigmoids of {n_problems} " + ("pairs, coupled" if pairs else "classes against the rest, normalised")
    what = "sigmoid of the score" if n_problems == 1 else what
    sharpened = f", to the power {calibration[0, 2]:.3g}" if n_columns > 2 else ""
    folds = getattr(last, "n_splits_", None)
    return f"{what}{sharpened}; cross-validated{'' if folds is None else f' in {folds} folds'}"


def _by_class(last: Any, strengths: Array) -> dict[str, Array]:
    """Return these by column name."""
    word = "probability" if hasattr(last, "predict_proba") else "score"
    if strengths.ndim == 1:
        return {f"{word} of {last.classes_[1]}": strengths}
    return {f"{word} of {c}": p for c, p in zip(last.classes_, strengths.T, strict=True)}


def classified_scene(model: Any, scene: Scene, progress: Progress | None = None) -> Array:
    """Return the predicted class of every pixel of a scene, by a model of spectra or patches of as many bands."""
    return scene_predictions(model, scene, progress).predicted.reshape(scene.data.shape[:2])


def scene_predictions(
    model: Any,
    scene: Scene,
    progress: Progress | None = None,
    record: TrainingRecord | None = None,
    any_scale: bool = False,
    with_columns: bool = False,
) -> Predictions:
    """Return the predictions of all pixels, row by row; names and columns are left out unless they are asked for."""
    shape, bands = ModelChain.of(model).sample_shape, scene.data.shape[2]
    if not isinstance(shape, tuple) or not is_patch(shape) or shape[-1] != bands:
        raise BadFileError(
            f"{scene.source}: a scene of {bands} bands needs a model of patches of size x size x {bands}; this one was "
            f"fitted to samples of shape {shape}. Fit it to what `tensormargin patches` cuts from such a scene"
        )
    patches = Patches(patch_size(shape))
    positions = patches.places(scene.data.shape).positions

    def predictions(where: Array) -> Iterator[tuple[slice, Predictions]]:
        for rows, piece in patches.pieces(scene.data, where):
            samples = piece.reshape(len(piece), *shape)
            check_samples(scene.source, samples, "the scene", missing="entries" if takes_nan(model) else False)
            one = SampleSet(samples, None, None, None, None, scene.source, scene.kind, (), positions=where[rows])
            yield rows, predictions_of(model, one, None, record, any_scale or where is positions)

    if record is not None and not any_scale:  # of the whole scene, of which a few rows may be dark
        spread = positions[:: max(1, len(positions) // _PIXELS)]
        for _ in predictions(spread):
            pass
    parts = []
    for rows, one in predictions(positions):
        parts.append(one if with_columns else replace(one, names=[], columns={}))
        if progress is not None:
            progress(rows.stop, len(positions), "pixels")
    known = [one.compared for one in parts if one.compared is not None]
    columns = {name: np.concatenate([one.columns[name] for one in parts]) for name in parts[0].columns}
    if with_columns and scene.truth is not None:
        columns["label"] = np.where(scene.truth == scene.background, "", scene.truth.astype(str)).ravel()
    return Predictions(
        [str(number) for number in range(len(positions))] if with_columns else [],
        np.concatenate([one.predicted for one in parts]),
        columns,
        parts[0].made_by,
        ComparedSamples.joined(known) if known else None,
    )


def write_predictions(path: str | Path, predictions: Predictions) -> None:
    """Write a CSV file with one row per sample, atomically; what a spreadsheet would execute is made `neutral`."""
    text = io.StringIO()
    plain = csv.writer(text, lineterminator="\n")
    quoted = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL)
    known: dict[str, Any] = {"sample": predictions.names, "predicted": predictions.predicted, **predictions.columns}
    names = [name for name in ("file", "sample", "row", "column", "label", "group", "predicted") if name in known]
    others = [name for name in predictions.columns if name not in names]
    last = {} if predictions.made_by is None else {"probabilities from": predictions.made_by}
    rows = [[*names, *others, *last]]
    for row in range(len(predictions.names)):
        given = [neutral(known[name][row]) for name in names]
        values = [predictions.columns[name][row] for name in others]
        rows.append([*given, *(one if isinstance(one, str) else f"{one:.6g}" for one in values), *last.values()])
    for cells in rows:  # by default, a carriage return alone is not quoted before Python 3.13
        (quoted if any("\r" in one for one in cells) else plain).writerow(cells)
    with (
        replacing(path) as temporary,
        temporary.open("w", encoding="utf-8", errors="backslashreplace", newline="") as to,
    ):
        to.write(text.getvalue())


def neutral(value: Any) -> str:
    """Return a cell as text, with an apostrophe before what a spreadsheet would execute: "=", "+", ... but numbers."""
    text = str(value)
    if not text.startswith(_FORMULA):
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text


@dataclass(frozen=True)
class Agreement:
    """How predictions agree with labels; unknown labels are counted apart, ``n_new`` were not used in the fit.

    Of a scene, new are those pixels whose patches share no pixel with a patch of the fit.
    """

    accuracy: float | None
    n_known: int
    unknown: dict[str, int]
    new_accuracy: float | None = None
    n_new: int | None = None
    by_class: Mapping[str, Agreement] = field(default_factory=dict)

    @property
    def facts(self) -> dict[str, Any]:
        """The agreement as JSON types."""
        return {
            "accuracy": self.accuracy,
            "n_known": self.n_known,
            "n_unknown": sum(self.unknown.values()),
            "unknown_labels": list(self.unknown),
            "accuracy_on_new": self.new_accuracy,
            "n_new": self.n_new,
            "by_class": {label: _numbers(own) for label, own in self.by_class.items()},
        }

    def lines(self, which: str, what: str = "samples", new: str = "not used in the fit") -> list[str]:
        """Return the accuracy on ``which`` samples in words, ``what`` naming their kind; empty without labels."""
        labels = listed(self.unknown)
        if self.accuracy is None:
            return [f"No accuracy: the labels {labels} are none of the model's classes"] if labels else []
        share = f"{100 * self.accuracy:.2f} %"
        sentence = f"Accuracy on {which}: {share}"
        if labels:
            n_unknown = sum(self.unknown.values())
            sentence = (
                f"Accuracy on {self.n_known} {what} of known classes: {share}; {n_unknown} {what} of classes the model "
                f"does not know ({labels}) left out"
            )
        if self.new_accuracy is None or self.n_new == self.n_known:
            return [sentence]
        return [sentence, f"Accuracy on the {self.n_new} of them {new}: {100 * self.new_accuracy:.2f} %"]

    def table(self, what: str) -> list[str]:
        """Return a table of the accuracy of each class, with that on new samples if some are and others are not."""
        some = self.n_new is not None and 0 < self.n_new < self.n_known
        head = ["class", what, "accuracy", *(("apart", "accuracy") if some else ())]
        rows = [head]
        for label, own in self.by_class.items():
            cells = [label, str(own.n_known), _percent(own.accuracy)]
            rows.append([*cells, *((str(own.n_new), _percent(own.new_accuracy)) if some else ())])
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows]


def _numbers(own: Agreement) -> dict[str, Any]:
    return {"n": own.n_known, "accuracy": own.accuracy, "n_new": own.n_new, "accuracy_on_new": own.new_accuracy}


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.2f} %"


def agreement(predicted: Array, labels: Array | None, classes: Sequence[Any], used: Array | None = None) -> Agreement:
    """Return how predictions agree with labels, compared as text; ``used`` says which were used in the fit."""
    if labels is None:
        return Agreement(None, 0, {})
    given = labels.astype(str)
    right, known = given == predicted.astype(str), np.isin(given, [str(label) for label in classes])
    names, counts = np.unique(labels[~known], return_counts=True)
    unknown = dict(zip(names.astype(str).tolist(), counts.tolist(), strict=True))
    own = {str(label): known & (given == str(label)) for label in classes}
    by_class = {label: _of_rows(right, rows, used) for label, rows in own.items() if rows.any()}
    return replace(_of_rows(right, known, used), unknown=unknown, by_class=by_class)


def _of_rows(right: Array, rows: Array, used: Array | None) -> Agreement:
    """Return the agreement on some rows."""
    found = Agreement(_share(right[rows]), int(rows.sum()), {})
    if used is None:
        return found
    new = rows & ~used
    return replace(found, new_accuracy=_share(right[new]), n_new=int(new.sum()))


def _share(right: Array) -> float | None:
    return float(right.mean()) if right.size else None


def agreement_on_scene(
    predicted: Array, scene: Scene, classes: Sequence[Any], used: Array | None = None, size: int = 1
) -> Agreement:
    """Return how predictions agree with the ground truth; `BadFileError` if none of its classes is the model's.

    ``used`` says which pixels were used in the fit, with patches of this ``size``: others that overlap these are not
    new either.
    """
    from scipy.ndimage import maximum_filter

    if scene.truth is None:
        return agreement(predicted, None, classes)
    marked = scene.truth != scene.background
    if used is not None:
        used = maximum_filter(used.reshape(marked.shape), 2 * size - 1, mode="constant")[marked]
    found = agreement(predicted[marked], scene.truth[marked], classes, used)
    if found.unknown and not found.n_known:
        raise BadFileError(
            f"{scene.source}: the classes of the ground truth must be those of the model, {listed(map(str, classes))}; "
            f"got {listed(found.unknown)}. Give the same --names as for `tensormargin patches`, or none"
        )
    return found
