"""Predictions of a model for samples from a file, how they agree with labels, and their CSV table."""

from __future__ import annotations

import csv
import unicodedata
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np
from sklearn.utils import Bunch

from ..data import (
    UNNAMED,
    ComparedSamples,
    Metadata,
    OtherScale,
    TrainingRecord,
    Views,
    any_scale,
    contradictions,
    differing_places,
    names_of,
    other_frequency,
    takes_any_scale,
)
from ..inspection import ModelChain, last_estimator, metadata_for_last_step, needs_groups, samples_for_last_step
from ..runtime import Array, Progress, computed, counted, listed, percent
from ..transformers import Deconfound, Patches, UnseenCategoryWarning, takes_nan, takes_ragged
from . import BadFileError, ModelFile, SampleSet, Scene, replacing
from .arrays import check_samples
from .scenes import NO_CLASS, is_patch, patch_size

UNEQUAL = 1.5
"""A largest class with this many times the share of equal ones makes accuracy misleading."""

_FEW = 20  # samples that show whether a model depends on their scale
_PIXELS = 500  # of a scene that its scale is determined from
_FIRST_COLUMNS = ("file", "sample", "row", "column", "label", "group", "predicted")
_QUOTED = ',"\r\n'  # characters of a cell for which it is quoted
_FORMULA = ("=", "+", "-", "@")  # how a cell begins that a spreadsheet executes
_BLANK_LETTERS = "\u115f\u1160\u2800\u3164\uffa0"  # Hangul fillers and the empty Braille pattern

_Made = TypeVar("_Made")


@dataclass(frozen=True)
class Predictions:
    """Predictions by sample, and columns of labels, probabilities or scores and comparisons."""

    names: list[str]
    predicted: Array
    columns: dict[str, Array]
    compared: ComparedSamples | None = None


def check_samples_fit(model: Any, samples: SampleSet, file: ModelFile | None = None) -> None:
    """Raise `BadFileError` if samples, their channels or their sampling frequency do not fit the model of a file."""
    error = None
    if file is not None:
        error, _ = contradictions(file.axes, samples.axes, takes_any_scale())
        known = file.loading.get("sfreq", file.loading.get("stated", {}).get("sfreq"))
        if error is None and known and samples.sfreq and not takes_any_scale():
            error = other_frequency(known, samples.sfreq)
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


def axes_warning(samples: SampleSet, file: ModelFile) -> str | None:
    """Return what to warn of if samples have other times, wavelengths or places than a model's; None if they do not."""
    affines = (file.facts.get("about", {}).get("affine"), samples.affine)
    shapes = samples.sample_shape
    if all(isinstance(one, Mapping) for one in (*affines, shapes)):
        moved = (
            differing_places(own, affines[1].get(view), shapes[view])
            for view, own in affines[0].items()
            if view in shapes
        )
        warning = next((text for text in moved if text), None)
    else:
        warning = None if isinstance(shapes, Mapping) else differing_places(*affines, shapes)
    warning = warning or contradictions(file.axes, samples.axes, True)[1]
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
    return tuple(dict.fromkeys(name for step in _deconfounds(model) for name in step.names_))


def _deconfounds(model: Any) -> list[Deconfound]:
    try:
        return [step for _, step in ModelChain.of(model).confounds_by_view]
    except TypeError:
        return []


def predictions_of(
    model: Any, samples: SampleSet, record: TrainingRecord | None = None, other: OtherScale | None = None
) -> Predictions:
    """Return the predictions for samples in memory, compared with the training record.

    The view of an ``other`` scale is compared on the scale of the training samples.
    """
    check_samples_fit(model, samples)
    last, metadata = last_estimator(model), Metadata(samples.groups, samples.confounds)
    ready, more = samples_for_last_step(model, samples.data, metadata), metadata_for_last_step(model, metadata)
    predicted = np.asarray(last.predict(ready, **more))
    rows, places = (None, None) if samples.positions is None else samples.positions.T
    known = {"file": samples.files, "row": rows, "column": places, "label": samples.target, "group": samples.groups}
    columns = {name: values for name, values in known.items() if values is not None}
    strengths_of = last.predict_proba if hasattr(last, "predict_proba") else last.decision_function
    columns |= _by_class(last, np.asarray(strengths_of(ready, **more)))
    names = samples.names or list(map(str, range(len(samples.data))))
    if record is None:
        return Predictions(names, predicted, columns)
    found = record.summaries(samples.data)
    if other is not None:
        own = found[other.view]
        found[other.view] = own._replace(scale=own.scale / other.factor, moments=own.moments / other.factor)
    compared = record.compare_summaries(found, _scores(last, ready, more))
    unlike = np.where(compared.far, np.where(compared.beyond, "entries and score", "entries"), "score")
    columns |= {} if compared.used is None else {"used in fit": np.where(compared.used, "yes", "no")}
    columns["unlike training"] = np.where(compared.unlike, unlike, "no")
    return Predictions(names, predicted, columns, compared)


class PredictionRun:
    """The predictions of a model for samples that need not fit into memory, and what all of them have in common.

    Parameters
    ----------
    file : ModelFile
    samples : SampleSet
    any_scale : bool, default=False
        Whether samples of another scale than that of the training samples are predicted, too.
    progress : callable, optional

    Attributes
    ----------
    agreement : Agreement
        With the labels, as far as there are any.
    compared : ComparedSamples or None
        Without a record of the training samples None.
    unlike : list of str
        Names of the samples that are unlike all training samples.
    n_predicted : dict of str to int
        Number of predictions of each class.
    n_less_probable : int
        Number of samples that have a class predicted although another one is more probable; see `less_probable`.
    """

    agreement: Agreement
    compared: ComparedSamples | None
    unlike: list[str]
    n_predicted: dict[str, int]
    n_less_probable: int

    def __init__(
        self, file: ModelFile, samples: SampleSet, any_scale: bool = False, progress: Progress | None = None
    ) -> None:
        self._file, self._samples, self._any_scale, self._progress = file, samples, any_scale, progress

    def into(self, consume: Callable[[Iterator[Predictions]], _Made]) -> _Made:
        """Return what a function makes of the predictions, some samples at a time.

        It is called again if the first pass finds samples of another scale, and the model has none.
        """
        with any_scale() if self._any_scale else nullcontext():
            return self._into(consume)

    def _into(self, consume: Callable[[Iterator[Predictions]], _Made]) -> _Made:
        model, samples = self._file.model, self._samples
        check_samples_fit(model, samples, self._file)
        for step in _deconfounds(model):
            step.check_categories(samples.confounds)
        made = consume(self._parts())
        other = None if self.compared is None or self._any_scale else self.compared.other_scale
        if other is None:
            return made
        check_scale(model, samples, other)
        return consume(self._parts(other))

    def _parts(self, other: OtherScale | None = None) -> Iterator[Predictions]:
        model, record, classes = self._file.model, self._file.training, self._file.facts["classes"]
        agreements, compared = list[Agreement](), list[ComparedSamples]()
        self.compared, self.unlike, self.n_predicted = None, [], {str(label): 0 for label in classes}
        self.n_less_probable = 0
        done, n_samples = 0, len(self._samples.data)
        for part in self._samples.parts(needs_groups(model)):
            with _counting_from(done), warnings.catch_warnings(action="ignore", category=UnseenCategoryWarning):
                warnings.filterwarnings("ignore", UNNAMED)  # said by `load_samples`, as `into` names unseen categories
                with nullcontext() if record is None else any_scale():  # compared with the record, by many at a time
                    rows = predictions_of(model, part, record, other)
            used = None
            if rows.compared is not None:
                compared.append(rows.compared)
                used = rows.compared.used
                self.unlike += [rows.names[row] for row in np.flatnonzero(rows.compared.unlike).tolist()]
            agreements.append(agreement(rows.predicted, part.target, classes, used, part.groups))
            for label in classes:
                self.n_predicted[str(label)] += int((rows.predicted == label).sum())
            self.n_less_probable += _n_less_probable(rows, classes)
            yield rows
            done += len(rows.names)
            if self._progress is not None:
                self._progress(done, n_samples, "samples")
        self.agreement = Agreement.joined(agreements, classes)
        self.compared = None if record is None else record.joined(compared)


@contextmanager
def _counting_from(first: int) -> Iterator[None]:
    """Let the messages of errors say from which sample on they count."""
    try:
        yield
    except ValueError as error:
        if not first or isinstance(error, BadFileError):
            raise
        raise ValueError(f"{error} (numbers of samples are counted from sample {first} here)") from error


def training_record(model: Any, samples: SampleSet) -> TrainingRecord:
    """Return the record of the samples that a model was fitted to."""
    metadata = Metadata(samples.groups, samples.confounds)
    ready, more = samples_for_last_step(model, samples.data, metadata), metadata_for_last_step(model, metadata)
    (scores,) = computed(_scores(last_estimator(model), ready, more))
    return TrainingRecord.of(samples.data, samples.groups, scores, samples.unit)


def _scores(last: Any, X: Array, more: dict[str, Any]) -> Any:
    """Return the scores, None if the model has none."""
    return last.decision_function(X, **more) if hasattr(last, "decision_function") else None


def check_scale(model: Any, samples: SampleSet, other: OtherScale) -> None:
    """Raise `BadFileError` for samples of another scale than that of the training samples, unless a model has none."""
    if _is_scale_free(model, samples, other):
        return
    unit = (samples.unit or {}).get(other.view) if isinstance(samples.unit, Mapping) else samples.unit
    stated, remedy = f" (in {unit})" if unit else "", other.remedy
    if "image" in samples.kind:
        remedy = "Save the pictures with as many bits per value as those of the fit, 8 or 16, and with like exposure"
    raise BadFileError(
        f"{samples.source}{stated}: samples must have the scale of the training samples; {other.message}. {remedy}, "
        "or give --any-scale to predict them as they are"
    )


def _is_scale_free(model: Any, samples: SampleSet, other: OtherScale) -> bool:
    """Return whether some samples get the same answers on the scale of the training samples."""
    given = replace(samples.taken(slice(0, _FEW)), target=None, names=None, files=None, positions=None)
    X = given.data
    scaled = Views({**dict(X.items()), other.view: X[other.view] / other.factor}) if other.view else X / other.factor
    with any_scale():
        first, second = (predictions_of(model, one).columns for one in (given, replace(given, data=scaled)))
    return all(np.allclose(first[name], second[name], 1e-3, 1e-6) for name in first if " of " in name)


def probabilities_from(model: Any) -> str | None:
    """Return how the probabilities of a model are made; None for a model without probabilities."""
    last = last_estimator(model)
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


def less_probable(number: int) -> str:
    """Return why some samples have a class predicted that is not the most probable one; empty if none have."""
    if not number:
        return ""
    return (
        f"For {counted(number, 'sample')} another class is more probable than the predicted one. The scores decide on "
        "the class. Probabilities say how often such scores were right, so that class weights and unequal classes "
        "shift them."
    )


def _n_less_probable(rows: Predictions, classes: Sequence[Any]) -> int:
    names = [f"probability of {label}" for label in classes]
    if not all(name in rows.columns for name in names):
        return 0
    shares = np.column_stack([rows.columns[name] for name in names])
    predicted = np.take_along_axis(shares, np.searchsorted(classes, rows.predicted)[:, None], axis=1)
    return int(np.sum(predicted[:, 0] < shares.max(axis=1) - 1e-6))


def _by_class(last: Any, strengths: Array) -> dict[str, Array]:
    """Return these by column name."""
    word = "probability" if hasattr(last, "predict_proba") else "score"
    if strengths.ndim == 1:
        return {f"{word} of {last.classes_[1]}": strengths}
    return {f"{word} of {c}": p for c, p in zip(last.classes_, strengths.T, strict=True)}


def classified_scene(model: Any, scene: Scene, progress: Progress | None = None) -> Array:
    """Return the predicted class of every pixel of a scene, by a model of spectra or patches of as many bands.

    Pixels without data get `no_class`.
    """
    predicted = [part.predicted for part in scene_predictions(model, scene, progress)]
    return painted(scene, np.concatenate(predicted), no_class(scene, last_estimator(model).classes_.tolist()))


def no_class(scene: Scene, classes: Sequence[Any]) -> Any:
    """Return what pixels without data have as their class: the background, or else a number that no class has."""
    if isinstance(classes[0], str):
        return NO_CLASS
    background = 0 if scene.background == NO_CLASS else scene.background
    return min(classes) - 1 if scene.truth is None and background in classes else background


def painted(scene: Scene, values: Array, fill: Any) -> Array:
    """Return values of all pixels with data, row by row, as a map of the scene."""
    shape = scene.data.shape[:2]
    if scene.lacking is None:
        return values.reshape(shape)
    return Patches().paint(values, Bunch(positions=_pixels_with_data(scene), shape=shape), fill)


def _pixels_with_data(scene: Scene) -> Array:
    shape = scene.data.shape[:2]
    return np.argwhere(np.ones(shape, bool) if scene.lacking is None else ~scene.lacking)


def scene_predictions(
    model: Any,
    scene: Scene,
    progress: Progress | None = None,
    record: TrainingRecord | None = None,
    any_scale: bool = False,
) -> Iterator[Predictions]:
    """Yield the predictions of all pixels with data, row by row, some at a time."""
    shape, bands = ModelChain.of(model).sample_shape, scene.data.shape[2]
    if not isinstance(shape, tuple) or not is_patch(shape) or shape[-1] != bands:
        raise BadFileError(
            f"{scene.source}: a scene of {bands} bands needs a model of patches of size x size x {bands}; this one was "
            f"fitted to samples of shape {shape}. Fit it to what `tensormargin patches` cuts from such a scene"
        )
    patches = Patches(patch_size(shape))
    patches.places(scene.data.shape)  # raises an error for a scene that is smaller than a patch
    positions, columns = _pixels_with_data(scene), scene.data.shape[1]

    def predictions(where: Array) -> Iterator[tuple[slice, SampleSet, Predictions]]:
        for rows, piece in patches.pieces(scene.data, where, lacking=scene.lacking):
            samples = piece.reshape(len(piece), *shape)
            check_samples(scene.source, samples, "the scene", missing="entries" if takes_nan(model) else False)
            names = list(map(str, (where[rows] @ [columns, 1]).tolist()))
            part = SampleSet(samples, None, None, names, None, scene.source, scene.kind, (), positions=where[rows])
            yield rows, part, predictions_of(model, part, record)

    if record is not None and not any_scale:  # of the whole scene, of which a few rows may be dark
        for _, part, found in predictions(positions[:: max(1, len(positions) // _PIXELS)]):
            if found.compared is not None and found.compared.other_scale is not None:
                check_scale(model, part, found.compared.other_scale)
    for rows, _, found in predictions(positions):
        if scene.truth is not None:
            truth = scene.truth[tuple(positions[rows].T)]
            found.columns["label"] = np.where(truth == scene.background, "", truth.astype(str))
        yield found
        if progress is not None:
            progress(rows.stop, len(positions), "pixels")


def write_predictions(path: str | Path, parts: Iterable[Predictions]) -> None:
    """Write a CSV file with one row per sample, atomically; what a spreadsheet would execute is made `neutral`."""
    with replacing(path) as temporary:
        write_table(temporary, parts)


def write_table(path: Path, parts: Iterable[Predictions], left_out: Sequence[str] = ()) -> None:
    """Write the same, not atomically, while the predictions are made; files that were left out have none."""
    with path.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file:
        for number, part in enumerate(parts):
            columns: dict[str, Any] = {"sample": part.names, "predicted": part.predicted, **part.columns}
            first = [name for name in _FIRST_COLUMNS if name in columns]
            others = [name for name in columns if name not in first]
            if number == 0:
                _write_cells(file, [[name] for name in (*first, *others)])
            cells = [_texts(columns[name]) for name in first]
            _write_cells(file, cells + [_rounded(columns[name]) for name in others])
        if left_out:
            empty = {name: [""] * len(left_out) for name in (*first, *others)}
            _write_cells(file, list({**empty, "sample": list(map(neutral, left_out))}.values()))


def _texts(values: list[str] | Array) -> list[str]:
    """Return cells, each of the few different values made neutral once, and digits and letters of ASCII as they are."""
    if isinstance(values, list):
        text = "".join(values)
        return values if text.isascii() and text.isalnum() else list(map(neutral, values))
    values = values.tolist() if values.dtype.kind in "Uiu" else list(values)
    known = {value: neutral(value) for value in set(values)}
    return list(map(known.__getitem__, values))


def _rounded(values: Array) -> list[str]:
    """Return cells with the first six digits of numbers, and with words as they are."""
    found = values.tolist()
    if values.dtype.kind == "U":
        return list(found)
    return (len(found) * "%.6g\n" % tuple(found)).splitlines()


def _write_cells(file: IO[str], columns: Sequence[list[str]]) -> None:
    """Write rows of cells, of which few are in quotes: `csv.writer` would look at each character of all."""
    rows = zip(*columns, strict=True)
    text = "".join("".join(cells) for cells in columns)
    if not any(character in text for character in _QUOTED):
        file.write("\n".join(map(",".join, rows)) + "\n")
        return
    plain = csv.writer(file, lineterminator="\n")
    quoted = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL)
    for cells in rows:  # by default, a carriage return alone is not quoted before Python 3.13
        (quoted if any("\r" in one for one in cells) else plain).writerow(cells)


def neutral(value: Any) -> str:
    """Return a cell as text, with an apostrophe before what a spreadsheet would execute: "=", "+", ... but numbers.

    Spreadsheets may leave out what cannot be seen, and read full-width signs like others.
    """
    text = str(value)
    first = text[:1]
    if first.isalnum() and first not in _BLANK_LETTERS:  # decides at once on nearly all cells
        return text
    if not "!" <= first <= "~":
        seen = (char for char in text if unicodedata.category(char)[0] not in "CMZ" and char not in _BLANK_LETTERS)
        first = unicodedata.normalize("NFKC", next(seen, ""))
    if not (first.startswith(_FORMULA) or text.startswith(("\t", "\r", "\n"))):
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text


@dataclass(frozen=True)
class Agreement:
    """Numbers of predictions that agree with labels; samples of unknown labels are counted apart.

    New samples were not used in the fit. Of a scene, new are those pixels whose patches share no pixel with a patch of
    the fit. Groups are those of the samples, if they have some.
    """

    n_right: int = 0
    n_known: int = 0
    unknown: Mapping[Any, int] = field(default_factory=dict)
    n_new_right: int | None = None
    n_new: int | None = None
    by_class: Mapping[str, Agreement] = field(default_factory=dict)
    by_group: Mapping[str, Agreement] = field(default_factory=dict)

    @classmethod
    def joined(cls, parts: Sequence[Agreement], classes: Sequence[Any] = ()) -> Agreement:
        """Return the agreement of all parts of some samples."""
        unknown = sum((Counter(part.unknown) for part in parts), Counter[Any]())
        new = [(part.n_new_right or 0, part.n_new) for part in parts if part.n_new is not None]
        return cls(
            sum(part.n_right for part in parts),
            sum(part.n_known for part in parts),
            {label: unknown[label] for label in sorted(unknown)},
            sum(right for right, _ in new) if new else None,
            sum(number for _, number in new) if new else None,
            cls._joined_by([part.by_class for part in parts], list(map(str, classes))),
            cls._joined_by([part.by_group for part in parts]),
        )

    @classmethod
    def _joined_by(cls, parts: Sequence[Mapping[str, Agreement]], order: Sequence[str] = ()) -> dict[str, Agreement]:
        there = dict.fromkeys(name for part in parts for name in part)
        names = [name for name in order if name in there] or list(there)
        return {name: cls.joined([part[name] for part in parts if name in part]) for name in names}

    @property
    def accuracy(self) -> float | None:
        """The share of right predictions, None without labels of known classes."""
        return self.n_right / self.n_known if self.n_known else None

    @property
    def balanced_accuracy(self) -> float | None:
        """The mean over the classes of the share of right predictions."""
        recalls = [own.n_right / own.n_known for own in self.by_class.values()]
        return sum(recalls) / len(recalls) if recalls else None

    @property
    def new_accuracy(self) -> float | None:
        """The same of the samples that were not used in the fit."""
        return (self.n_new_right or 0) / self.n_new if self.n_new else None

    @property
    def facts(self) -> dict[str, Any]:
        """The agreement as JSON types."""
        return {
            "accuracy": self.accuracy,
            "balanced_accuracy": self.balanced_accuracy,
            "n_known": self.n_known,
            "n_unknown": sum(self.unknown.values()),
            "unknown_labels": list(map(str, self.unknown)),
            "accuracy_on_new": self.new_accuracy,
            "n_new": self.n_new,
            "by_class": {label: _numbers(own) for label, own in self.by_class.items()},
            "by_group": {name: _numbers(own) for name, own in self.by_group.items()},
        }

    def lines(self, which: str, what: str = "samples", new: str = "not used in the fit") -> list[str]:
        """Return the accuracy in words, ``which`` saying on what, ``what`` naming their kind; empty without labels."""
        labels = listed(map(str, self.unknown))
        if self.accuracy is None:
            return [f"No accuracy: the labels {labels} are none of the model's classes"] if labels else []
        share = f"{100 * self.accuracy:.2f} %"
        sentence = f"Accuracy {which}: {share}"
        if labels:
            n_unknown = sum(self.unknown.values())
            sentence = (
                f"Accuracy on {self.n_known} {what} of known classes: {share}; {n_unknown} {what} of classes the model "
                f"does not know ({labels}) left out"
            )
        lines = [sentence]
        if self.new_accuracy is not None and self.n_new != self.n_known:
            lines.append(f"Accuracy on the {self.n_new} of them {new}: {100 * self.new_accuracy:.2f} %")
        counts = {label: own.n_known for label, own in self.by_class.items()}
        lines.append(unequal_classes({label: own.n_right for label, own in self.by_class.items()}, counts))
        if len(self.by_group) > 1:
            worst = sorted(self.by_group.items(), key=lambda item: item[1].accuracy or 0.0)
            shown = (f"{name} {_percent(own.accuracy)} of {own.n_known}" for name, own in worst)
            lines.append(f"Accuracy by group, worst first: {listed(shown, total=len(worst))}")
        return list(filter(None, lines))

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


def unequal_classes(right: Mapping[Any, int], counts: Mapping[Any, int], weights_may_help: bool = True) -> str:
    """Return balanced accuracy and worst recall, given right predictions and samples by class.

    Empty for classes of similar size, of which the accuracy says enough.
    """
    total, n_classes = sum(counts.values()), len(counts)
    largest = max(counts, key=lambda label: counts[label], default=None)
    if n_classes < 2 or counts[largest] * n_classes < UNEQUAL * total:
        return ""
    recalls = {label: right.get(label, 0) / count for label, count in counts.items()}
    worst, n_right = min(recalls, key=lambda label: recalls[label]), sum(right.values())
    text = (
        f"The classes are unequal: balanced accuracy {percent(sum(recalls.values()) / n_classes)} %, worst recall "
        f"{percent(recalls[worst])} % ({worst}: {right.get(worst, 0)} of {counts[worst]})."
    )
    as_well = n_right <= counts[largest]
    text += f" Always answering {largest} does as well." if as_well else ""
    advised = weights_may_help and (as_well or recalls[worst] < 0.5)
    return text + (" Fit with --balanced to give all classes the same weight." if advised else "")


def agreement(
    predicted: Array,
    labels: Array | None,
    classes: Sequence[Any],
    used: Array | None = None,
    groups: Array | None = None,
) -> Agreement:
    """Return how predictions agree with labels, compared as text; ``used`` says which were used in the fit."""
    if labels is None:
        return Agreement()
    names = [str(label) for label in classes]
    given, told = _places(labels, names), _places(predicted, names)
    right, known = given == told, given >= 0
    others, counts = np.unique(labels[~known], return_counts=True)
    unknown = dict(zip(others.tolist(), counts.tolist(), strict=True))
    own = {name: given == place for place, name in enumerate(names)}
    by_class = {label: _of_rows(right, rows, used) for label, rows in own.items() if rows.any()}
    by_group = {
        str(group): _of_rows(right, known & (groups == group), used)
        for group in ([] if groups is None else np.unique(groups[known]))
    }
    return replace(_of_rows(right, known, used), unknown=unknown, by_class=by_class, by_group=by_group)


def _places(labels: Array, names: list[str]) -> Array:
    """Return the place of each label among the names of classes, -1 for others."""
    values, rows = np.unique(labels, return_inverse=True)
    return np.array([names.index(str(value)) if str(value) in names else -1 for value in values.tolist()], int)[rows]


def _of_rows(right: Array, rows: Array, used: Array | None) -> Agreement:
    """Return the agreement on some rows."""
    found = Agreement(int(right[rows].sum()), int(rows.sum()))
    if used is None:
        return found
    new = rows & ~used
    return replace(found, n_new_right=int(right[new].sum()), n_new=int(new.sum()))


def agreement_on_scene(
    predicted: Array, scene: Scene, classes: Sequence[Any], used: Array | None = None, size: int = 1
) -> Agreement:
    """Return how predictions agree with the ground truth.

    ``used`` says which pixels were used in the fit, with patches of this ``size``: others that overlap these are not
    new either.
    """
    from scipy.ndimage import maximum_filter

    if scene.truth is None:
        return agreement(predicted, None, classes)
    marked = scene.truth != scene.background
    if used is not None:
        used = maximum_filter(painted(scene, used, False), 2 * size - 1, mode="constant")[marked]
    return agreement(predicted[marked], scene.truth[marked], classes, used)


def check_truth(scene: Scene, classes: Sequence[Any]) -> None:
    """Raise `BadFileError` if a scene has a ground truth, and none of its classes is one of a model."""
    if scene.truth is None:
        return
    there = [str(label) for label in np.unique(scene.truth[scene.truth != scene.background]).tolist()]
    if there and not set(there) & set(map(str, classes)):
        raise BadFileError(
            f"{scene.source}: the classes of the ground truth must be those of the model, {listed(map(str, classes))}; "
            f"got {listed(there)}. Give the same --names as for `tensormargin patches`, or none"
        )
