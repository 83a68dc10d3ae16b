"""Predictions of a model for samples from a file, and their CSV table."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ._namespace import is_lazy
from ._typing import Array
from .axes import AnyAxes, contradictions
from .io import BadFileError, SampleSet, Scene, replacing
from .io.arrays import check_samples
from .metadata import Metadata, names_of
from .model_steps import (
    classifier_of,
    last_estimator,
    metadata_for_last_step,
    needs_groups,
    removed_confounds,
    sample_shape,
    samples_for_last_step,
)
from .preparation import takes_nan, takes_ragged
from .progress import Progress
from .readers.rules import listed
from .representations import Patches
from .waiting import computed

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")  # how a cell begins that a spreadsheet executes


@dataclass(frozen=True)
class Predictions:
    """A model's predictions for a set of samples.

    Attributes
    ----------
    names : list of str
        File names of the samples, or their indices.
    predicted : ndarray of shape (n_samples,)
    columns : dict of str to ndarray
        "file" of samples from several files, "label" and "group" if known, then "probability of CLASS" for each class,
        or "score of CLASS" for a model without probabilities.
    made_by : str or None
        How the probabilities were made, see `probabilities_from`.
    """

    names: list[str]
    predicted: Array
    columns: dict[str, Array]
    made_by: str | None = None


@dataclass(frozen=True)
class Agreement:
    """How predictions agree with labels. Labels that the model does not know are left out and counted.

    Attributes
    ----------
    accuracy : float or None
        None if there are no labels, or none that the model knows.
    n_known : int
        Number of samples with a label that the model knows.
    unknown : dict of str to int
        Number of samples by label that it does not know.
    """

    accuracy: float | None
    n_known: int
    unknown: dict[str, int]

    @property
    def facts(self) -> dict[str, Any]:
        """The agreement as JSON types."""
        return {
            "accuracy": self.accuracy,
            "n_known": self.n_known,
            "n_unknown": sum(self.unknown.values()),
            "unknown_labels": list(self.unknown),
        }

    def lines(self, which: str, what: str = "samples") -> list[str]:
        """Return the accuracy in words, nothing without labels.

        Parameters
        ----------
        which : str
            Which samples these are, if the model knows all of their labels.
        what : str
            What a sample is, in the plural.
        """
        labels = listed(self.unknown)
        if self.accuracy is None:
            return [f"No accuracy: the labels {labels} are none of the model's classes"] if labels else []
        share = f"{100 * self.accuracy:.2f} %"
        if not labels:
            return [f"Accuracy on {which}: {share}"]
        n_unknown = sum(self.unknown.values())
        return [
            f"Accuracy on {self.n_known} {what} of known classes: {share}; {n_unknown} {what} of classes the model "
            f"does not know ({labels}) left out"
        ]


def agreement(predicted: Array, labels: Array | None, classes: Sequence[Any]) -> Agreement:
    """Return how predictions agree with labels, which are compared as text."""
    if labels is None:
        return Agreement(None, 0, {})
    given, found = labels.astype(str), predicted.astype(str)
    known = np.isin(given, [str(label) for label in classes])
    accuracy = float((given == found)[known].mean()) if known.any() else None
    return Agreement(accuracy, int(known.sum()), dict(sorted(Counter(given[~known].tolist()).items())))


def check_samples_fit(model: Any, samples: SampleSet, axes: AnyAxes = None) -> None:
    """Raise `BadFileError` if the samples do not fit the model.

    ``axes`` are those of the samples that the model was fitted to. Other channels, or channels in another order, are an
    error; see `axes_warning` for other times or wavelengths.
    """
    _check_axes(samples, axes)  # first, since it names the channels that a shape only counts
    shape = sample_shape(model)
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


def _check_axes(samples: SampleSet, axes: AnyAxes) -> None:
    error, _ = contradictions(axes, samples.axes)
    if error is not None:
        raise BadFileError(f"{samples.source}: {error}")


def axes_warning(samples: SampleSet, axes: AnyAxes) -> str | None:
    """Return what to warn of if the times or wavelengths of samples are not those of a model; None if they are."""
    _, warning = contradictions(axes, samples.axes)
    return None if warning is None else f"{samples.source}: {warning}"


def _check_views(model: Any, samples: SampleSet, shapes: dict[str, tuple[int, ...]]) -> None:
    used, found = classifier_of(model).view_scale_, samples.data.shapes
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
        steps = removed_confounds(model)
    except TypeError:
        return ()
    return tuple(dict.fromkeys(name for step in steps for name in step.names_))


def predictions_of(model: Any, samples: SampleSet, axes: AnyAxes = None) -> Predictions:
    """Return the predictions; raise `BadFileError` if the samples do not fit the model; see `check_samples_fit`."""
    check_samples_fit(model, samples, axes)
    last = last_estimator(model)
    metadata = Metadata(samples.groups, samples.confounds)
    ready = samples_for_last_step(model, samples.data, metadata)
    known = (("file", samples.files), ("label", samples.target), ("group", samples.groups))
    columns = {name: values for name, values in known if values is not None}
    names = samples.names or _numbered(samples)
    more = metadata_for_last_step(model, metadata)
    predicted, strengths = last.predict(ready, **more), _strengths(last, ready, more)
    if is_lazy(ready):
        predicted, strengths = computed(predicted, strengths)  # together, so that chunks are read once
    columns |= _by_class(last, np.asarray(strengths))
    return Predictions(names, np.asarray(predicted), columns, probabilities_from(last))


def _numbered(samples: SampleSet) -> list[str]:
    """Return the index of each sample in its file."""
    if samples.files is None:
        return [str(number) for number in range(len(samples.data))]
    seen: Counter[str] = Counter()
    names = []
    for file in samples.files.tolist():
        names.append(str(seen[file]))
        seen[file] += 1
    return names


def _strengths(last: Any, X: Array, more: dict[str, Any]) -> Any:
    """Return probabilities, or scores if the model has none."""
    method = last.predict_proba if hasattr(last, "predict_proba") else last.decision_function
    return method(X, **more)


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
    """Return the predicted class of every pixel of a scene, a few rows at a time.

    Parameters
    ----------
    model : estimator
        Fitted to patches of as many bands, as `Patches.cut` and ``tensormargin patches`` make them, or to spectra.
    scene : Scene
    progress : callable, optional

    Returns
    -------
    ndarray of shape (rows, columns)
    """
    shape, bands = sample_shape(model), scene.data.shape[2]
    square = isinstance(shape, tuple) and len(shape) == 3 and shape[0] == shape[1] and shape[0] % 2 == 1
    if shape != (bands,) and (not square or shape[2] != bands):
        raise BadFileError(
            f"{scene.source}: a scene of {bands} bands needs a model of patches of size x size x {bands}; this one was "
            f"fitted to samples of shape {shape}. Fit it to what `tensormargin patches` cuts from such a scene"
        )
    patches = Patches(1 if len(shape) == 1 else shape[0])
    positions = patches.places(scene.data.shape).positions
    found = np.empty(len(positions), np.result_type(np.asarray(classifier_of(model).classes_)))
    for where, piece in patches.pieces(scene.data, positions):
        samples = piece.reshape(len(piece), *shape)
        check_samples(scene.source, samples, "the scene", missing="entries" if takes_nan(model) else False)
        one = SampleSet(samples, None, None, None, None, scene.source, scene.kind, ())
        found[where] = predictions_of(model, one).predicted
        if progress is not None:
            progress(where.stop, len(positions), "pixels")
    return found.reshape(scene.data.shape[:2])


def agreement_on_scene(predicted: Array, scene: Scene, classes: Sequence[Any]) -> Agreement:
    """Return how predictions agree with the ground truth, on the pixels that have a class.

    Raise `BadFileError` if none of its classes is one of the model's.
    """
    if scene.truth is None:
        return agreement(predicted, None, classes)
    marked = scene.truth != scene.background
    found = agreement(predicted[marked], scene.truth[marked], classes)
    if found.unknown and not found.n_known:
        raise BadFileError(
            f"{scene.source}: the classes of the ground truth must be those of the model, {listed(map(str, classes))}; "
            f"got {listed(found.unknown)}. Give the same --names as for `tensormargin patches`, or none"
        )
    return found


def write_predictions(path: str | Path, predictions: Predictions) -> None:
    """Write a CSV file with one row per sample, atomically. The last column says how the probabilities were made.

    Text that a spreadsheet would take for a formula gets an apostrophe in front, see `neutral`. Line breaks in labels
    are quoted, and read back by `csv.reader` if the file is opened with ``newline=""``.
    """
    text = io.StringIO()
    plain = csv.writer(text, lineterminator="\n")
    quoted = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL)
    before = [name for name in ("file",) if name in predictions.columns]
    known = [name for name in ("label", "group") if name in predictions.columns]
    others = [name for name in predictions.columns if name not in (*before, *known)]
    last = [] if predictions.made_by is None else [("probabilities from", predictions.made_by)]
    rows = [[*before, "sample", *known, "predicted", *others, *(name for name, _ in last)]]
    for row, name in enumerate(predictions.names):
        file = [predictions.columns[column][row] for column in before]
        given = [predictions.columns[column][row] for column in known]
        strengths = [f"{predictions.columns[column][row]:.6g}" for column in others]
        rows.append(
            [*map(neutral, (*file, name, *given, predictions.predicted[row])), *strengths, *(text for _, text in last)]
        )
    for cells in rows:  # by default, a carriage return alone is not quoted before Python 3.13
        (quoted if any("\r" in one for one in cells) else plain).writerow(cells)
    with (
        replacing(path) as temporary,
        temporary.open("w", encoding="utf-8", errors="backslashreplace", newline="") as to,
    ):
        to.write(text.getvalue())


def neutral(value: Any) -> str:
    """Return a cell as text, with an apostrophe in front of what a spreadsheet would execute.

    That is text that begins with ``=``, ``+``, ``-``, ``@``, a tab or a line break, and is not a number.

    Examples
    --------
    >>> [neutral(value) for value in ("=1+1", "-1", "-one", 2.5)]
    ["'=1+1", '-1', "'-one", '2.5']
    """
    text = str(value)
    if not text.startswith(_FORMULA):
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text
