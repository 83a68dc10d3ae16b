"""Save and load models with their metadata; loading a file runs no code from it, and what it holds is checked."""

from __future__ import annotations

import json
import warnings
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from math import nan
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from sklearn.exceptions import InconsistentVersionWarning
from sklearn.utils.validation import check_is_fitted

from ..data import (
    AnyAxes,
    FactsMixin,
    TrainingRecord,
    axes_facts,
    axes_from_facts,
    blaming_the_system,
    checked_any_axes,
    fit_rows,
    fitted,
    format_shape,
)
from ..estimators import to_device
from ..inspection import ModelChain, Pattern, named_patterns, remembered_shape
from ..runtime import listed, replacing, software_versions
from ..transformers import describe_step
from .archive import brief, read_archive, read_array, read_member, write_archive, write_array
from .arrays import BadFileError
from .checksums import check_sha256, is_sealed, seal
from .options import checked_loading
from .samples import SampleSet

FORMAT = 3
"""Version of the file format: an archive of plain nodes (`archive`), with the member `FACTS` added.

Earlier formats can still be read. In format 2 the calibration of a search has an offset as well as a slope, and format
3 is sealed (`checksums`). Format 1 is that of version 0.1.
"""
_SEALED = 3  # first format with a seal
FACTS = "tensormargin.json"
_PATTERN = "pattern-{}.npy"  # member with the activation patterns of a view, counted from 0
_MOST_PATTERN_ENTRIES = 2**24  # of all patterns: 64 MiB

FACTS_TYPES: Mapping[str, tuple[type, ...]] = {
    "created": (str,),
    "versions": (dict,),
    "model": (str,),
    "steps": (list,),
    "sample_shape": (list, dict, type(None)),
    "axes": (list, dict, type(None)),
    "classes": (list,),
    "about": (dict,),
}
"""The metadata of a model file, and their types."""
_REMEDIES = {
    "nilearn.": "Put tensormargin.Mask(masker) in place of the masker",
    "sklearn.metrics.": "Give scoring=None, save the best_estimator_ of the search",
    "scipy.stats.": "Save the best_estimator_ of the search",
    "sklearn.model_selection._classification": "Put a FixedThresholdClassifier with its best_threshold_ in its place",
    "sklearn.model_selection.": "Save its best_estimator_",
    "sklearn.preprocessing._function": "Use tensormargin.Tensorize where the function only reshapes samples",
    "mne.": "Use tensormargin.Tensorize in place of Vectorizer",
}
"""What else to do about an object of a class that models may not hold, by the beginning of its name."""


@dataclass(frozen=True, repr=False)
class ModelFile(FactsMixin):
    """A model and its metadata.

    Attributes
    ----------
    model : estimator or Pipeline
    facts : mapping
        "format", "created", "versions", "model", "steps", "sample_shape", "axes", "classes", and "about", as passed to
        `save_model`.
    patterns : dict of str to Pattern, or None
        The activation patterns that were saved with the model, by view ("": on samples that are one tensor), as
        `tensormargin.inspection.feature_patterns` returns them.

    Examples
    --------
    New samples are made like those of the fit, here from another axis of an array:

    >>> import tempfile
    >>> import numpy as np
    >>> from tensormargin import TensorMarginClassifier, load_model, load_samples, save_model
    >>> from tensormargin.datasets import make_low_rank_classes
    >>> data = make_low_rank_classes(40, (4, 5), random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/old.npz", X=np.moveaxis(data.data, 0, 2), y=data.target)
    ...     np.savez(f"{folder}/new.npz", X=np.moveaxis(data.data[:3], 0, 2))
    ...     old = load_samples(f"{folder}/old.npz", axis=2)
    ...     clf = TensorMarginClassifier("cp", 1).fit(old.data, old.target)
    ...     facts = save_model(f"{folder}/model.skops", clf, samples=old)
    ...     file = load_model(f"{folder}/model.skops")
    ...     new = load_samples(f"{folder}/new.npz", like=file, need_labels=False)
    >>> file.facts["classes"], file.loading, new.data.shape
    ([-1, 1], {'kind': 'NumPy archive', 'axis': 2}, (3, 4, 5))
    """

    model: Any
    facts: Mapping[str, Any]
    patterns: Any = None

    def _facts(self) -> list[tuple[str, str]]:
        facts, shape = self.facts, self.sample_shape
        return [
            ("model", f"{facts['model']}, saved {facts['created']}"),
            *([] if shape is None else [("samples", format_shape(shape))]),
            ("classes", listed([str(label) for label in facts["classes"]])),
            *fit_rows(facts["about"]),
        ]

    @property
    def axes(self) -> AnyAxes:
        """Names, units and coordinates of the modes of the samples; None if they are unknown."""
        return axes_from_facts(self.facts.get("axes"), self.sample_shape)

    @property
    def loading(self) -> dict[str, Any]:
        """How the samples were made from files, for ``load_samples(path, like=file)``; empty if it is not known."""
        return checked_loading(self.facts["about"].get("loading") or {})

    @property
    def sample_shape(self) -> Any:
        """Shape of a sample as a list, a dictionary of them for several views; None if it is not known."""
        return self.facts.get("sample_shape")

    @property
    def training(self) -> TrainingRecord | None:
        """The record of the training samples; None if the file has none."""
        facts = self.facts["about"].get("training")
        return None if facts is None else TrainingRecord(facts)


def save_model(
    path: str | Path,
    model: Any,
    about: Mapping[str, Any] | None = None,
    axes: AnyAxes = None,
    samples: SampleSet | None = None,
    patterns: Any = None,
    training: TrainingRecord | None = None,
) -> dict[str, Any]:
    """Save a fitted model atomically.

    A model may consist of the estimators and transformers of this library and of these classes of scikit-learn:
    `Pipeline`, `GridSearchCV`, `RandomizedSearchCV`, `CalibratedClassifierCV`, `FixedThresholdClassifier`,
    `FrozenEstimator`, scalers, `PCA`, `TruncatedSVD`, `SelectKBest`, `SelectPercentile`, `VarianceThreshold`,
    `LogisticRegression` and `LinearSVC`. What only a fit uses is not saved: a generator as ``random_state``, a cache.

    Parameters
    ----------
    path : str or Path
        Any name; the usual extension is ``.skops``.
    model : estimator
        A fitted model of this library or of scikit-learn.
    about : mapping, optional
        Facts to store with the model, as JSON types: data, seed, evaluation.
    axes : tuple of Axis, or dictionary of them for several views, optional
        Names, units and coordinates of the modes of the samples (`SampleSet.axes`); by default those that the model
        was fitted to, if these were an xarray DataArray or a data frame.
    samples : SampleSet, optional
        The samples that the model was fitted to, for their axes, for how they were made (`ModelFile.loading`), and for
        a record of them, without scores.
    patterns : dict of str to Pattern, array-like, or dictionary of them for several views, optional
        Activation patterns to store with the model, as `tensormargin.inspection.feature_patterns` or
        `activation_pattern` returns them: ``inspect --pattern-map`` and the report show them without the samples. They
        are stored as float32, up to 2**24 entries.
    training : TrainingRecord, optional
        Record of the training samples, stored as "training" in ``about``: `predict` then says which samples were used
        in the fit, and which are unlike all of these.

    Returns
    -------
    dict
        The metadata, as `read_facts` returns them.

    Raises
    ------
    ValueError
        If numbers of the model are NaN or infinite, so that `load_model` would refuse it.

    Examples
    --------
    >>> import tempfile
    >>> from tensormargin import TensorMarginClassifier, TrainingRecord, load_model, save_model
    >>> from tensormargin.datasets import make_low_rank_classes
    >>> data = make_low_rank_classes(40, (4, 5), random_state=0)
    >>> clf = TensorMarginClassifier("cp", 1).fit(data.data, data.target)
    >>> record = TrainingRecord.of(data.data, scores=clf.decision_function(data.data))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     facts = save_model(f"{folder}/model.skops", clf, about={"study": "noise"}, training=record)
    ...     file = load_model(f"{folder}/model.skops")
    >>> file.facts["about"]["study"], file.training.compare(data.data[:3]).used
    ('noise', array([ True,  True,  True]))
    """
    check_is_fitted(model)
    model = to_device(model)  # arrays of PyTorch and CuPy are saved as NumPy arrays
    if samples is not None:
        about = {"loading": dict(samples.loading), **(about or {})}
        axes = samples.axes if axes is None else axes
        if training is None and "training" not in about:
            training = TrainingRecord.of(samples.data, samples.groups, unit=samples.unit)
    facts = {
        "format": FORMAT,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": software_versions(),
        **_structure(model, axes),
        "classes": _plain_classes(model),
        "about": {**(about or {}), **({} if training is None else {"training": training.facts})},
    }
    kept = _kept_patterns(patterns)
    if kept:
        facts["patterns"] = {
            name: {"halves": [None if np.isnan(one) else one for one in own.halves], "by": own.by}
            for name, own in kept.items()
        }
    text = json.dumps(facts, indent=1, allow_nan=False)
    with replacing(path) as temporary:
        try:
            write_archive(temporary, model)
        except fitted.UndeclaredError as error:
            name = str(error).rpartition(" ")[2]
            remedy = next((words for begin, words in _REMEDIES.items() if name.startswith(begin)), None)
            remedy = "Save" if remedy is None else f"{remedy}, or save"
            message = f"a model may only hold objects of classes that save_model knows: {error}"
            raise TypeError(f"{message}. {remedy} it with joblib yourself") from error
        with zipfile.ZipFile(temporary, "a") as archive:
            archive.writestr(FACTS, text, zipfile.ZIP_DEFLATED)
            for place, own in enumerate(kept.values()):
                write_array(archive, _PATTERN.format(place), own.maps)
        seal(temporary)
    return dict(json.loads(text))


def load_model(path: str | Path, sha256: str | None = None) -> ModelFile:
    """Return a model saved by `save_model`, with its metadata.

    Loading runs no code from the file; unexpected types are rejected. The file carries the SHA-256 of its content, so
    that any change is noticed, and numbers must be finite and of the right shapes. Files of version 0.1 carry none and
    are loaded without; see docs/security.md for what this protects from.

    Parameters
    ----------
    path : str or Path
    sha256 : str, optional
        The SHA-256 that the file must have, as `sha256sum` prints it, if you keep one elsewhere.

    Raises
    ------
    BadFileError
        If the file was changed, damaged, or is no model.

    Examples
    --------
    >>> import tempfile
    >>> from tensormargin import TensorMarginClassifier, load_model, save_model
    >>> from tensormargin.datasets import make_low_rank_classes
    >>> data = make_low_rank_classes(40, (4, 5), random_state=0)
    >>> clf = TensorMarginClassifier("cp", 1).fit(data.data, data.target)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     facts = save_model(f"{folder}/model.skops", clf)
    ...     file = load_model(f"{folder}/model.skops")
    >>> bool((file.model.predict(data.data) == clf.predict(data.data)).all())
    True
    >>> file.facts["sample_shape"]
    [4, 5]
    """
    facts = read_facts(path, sha256)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", InconsistentVersionWarning)
        try:
            with blaming_the_system(path):
                model = read_archive(path)
                check_facts(facts, model)
                patterns = _read_patterns(Path(path), facts, model)
        except BadFileError:
            raise
        except fitted.UndeclaredError as error:
            raise BadFileError(f"{path}: holds {brief(error)}; it is not loaded") from error
        # A damaged archive can raise anything in zipfile, json and NumPy, and its objects in the checks.
        except Exception as error:
            raise BadFileError(
                f"{path}: is not loaded, {brief(error)}; it was saved with {_versions(facts)}. Fit the model again, or "
                "install those versions"
            ) from error
    if caught:
        warnings.warn(
            f"{path} was saved with {_versions(facts)}; fit it again with the installed versions to be sure",
            stacklevel=2,
        )
    return ModelFile(model, MappingProxyType(facts), patterns)


def _kept_patterns(patterns: Any) -> dict[str, Pattern]:
    """Return patterns as they are stored, by view; none if there are too many of them."""
    kept = {
        name: own._replace(maps=np.ascontiguousarray(own.maps, np.float32))
        for name, own in named_patterns(patterns).items()
    }
    return kept if sum(own.maps.size for own in kept.values()) <= _MOST_PATTERN_ENTRIES else {}


def _read_patterns(path: Path, facts: Mapping[str, Any], model: Any) -> dict[str, Pattern] | None:
    """Return the patterns in a file, one per binary problem of the model; None if there are none."""
    notes, found = facts.get("patterns") or {}, {}  # up to version 0.2 a list of names
    classifier = ModelChain.of(model).single if notes else None
    with zipfile.ZipFile(path) as archive:
        for place, name in enumerate(notes):
            maps = read_array(path, archive, _PATTERN.format(place))
            wrong = maps.dtype != np.float32 or maps.ndim < 2 or not np.isfinite(maps).all()
            if wrong or (classifier is not None and len(maps) != len(classifier.problems_)):
                raise ValueError(f"its pattern {name!r} must be finite numbers of float32, one map per binary problem")
            note = notes[name] if isinstance(notes, dict) else {"halves": [None] * len(maps), "by": "samples"}
            halves = [nan if one is None else float(one) for one in note["halves"]]
            if len(halves) != len(maps) or note["by"] not in ("groups", "samples"):
                raise ValueError(f"its pattern {name!r} must have a split-half correlation per binary problem")
            found[name] = Pattern(maps, halves, note["by"])
    return found or None


def read_facts(path: str | Path, sha256: str | None = None) -> dict[str, Any]:
    """Return the metadata of a model file without loading the model; ``sha256`` is as in `load_model`.

    Examples
    --------
    >>> from tensormargin.io import read_facts
    >>> read_facts("model.skops")["sample_shape"]  # doctest: +SKIP
    [4, 5]
    """
    path = Path(path)
    if not path.is_file():
        raise BadFileError(f"{path}: no such file; give a model that `tensormargin fit` or save_model wrote")
    if sha256 is not None:
        check_sha256(path, sha256)
    try:
        with blaming_the_system(path):
            sealed = is_sealed(path)
            with zipfile.ZipFile(path) as archive:
                facts = json.loads(read_member(path, archive, FACTS))
            json.dumps(facts, ensure_ascii=False).encode()  # raises for surrogates, which nothing can print
    except BadFileError:
        raise
    # RuntimeError: encrypted, unknown compression, or nested too deeply.
    except (zipfile.BadZipFile, zlib.error, EOFError, KeyError, ValueError, OSError, RuntimeError) as error:
        raise BadFileError(
            f"{path}: not a model that tensormargin saved, or cut short ({brief(error)}); models are written by "
            "`tensormargin fit` and save_model"
        ) from error
    version = facts.get("format") if isinstance(facts, dict) else None
    if type(version) is not int or version < 1:  # true is no version, although it equals 1
        raise BadFileError(f"{path}: has no format version; save the model again")
    if version > FORMAT:
        raise BadFileError(
            f"{path}: has format {version}, this tensormargin reads up to {FORMAT}; upgrade it (the file was saved "
            f"with {_versions(facts)})"
        )
    if version >= _SEALED and not sealed:
        raise BadFileError(
            f"{path}: has lost the SHA-256 at its end; it was cut short, or changed since it was saved. Get the file "
            "again, or save the model again"
        )
    return facts


def _versions(facts: Mapping[str, Any]) -> str:
    versions = facts.get("versions")
    versions = versions if isinstance(versions, dict) else {}
    return ", ".join(
        f"{name} {str(versions.get(name, '?'))[:20]}" for name in ("tensormargin", "scikit-learn", "numpy")
    )


def check_facts(facts: Mapping[str, Any], model: Any) -> None:
    """Raise ValueError if the metadata of a file lack something, or are those of another model."""
    for name, kinds in FACTS_TYPES.items():
        if not isinstance(facts.get(name), kinds):
            got = type(facts.get(name)).__name__
            raise ValueError(f"its metadata {name!r} must be {kinds[0].__name__}, got {got}")
    axes_from_facts(facts.get("axes"), facts["sample_shape"])
    checked_loading(facts["about"].get("loading") or {})
    held = _plain_classes(model)
    if facts["classes"] != held:
        named, has = (listed(map(str, labels), len(labels)) for labels in (facts["classes"], held))
        raise ValueError(f"its metadata name the classes {named}, the model has {has}")


def _plain_classes(model: Any) -> list[Any]:
    """Return the classes of a model as Python objects; none if it has none."""
    return [label.item() if hasattr(label, "item") else label for label in getattr(model, "classes_", [])]


def _structure(model: Any, axes: AnyAxes) -> dict[str, Any]:
    """Return the name and steps of a model, the sample shape it expects (None if no step stores one), and its axes."""
    outer = getattr(model, "steps", [(None, model)])
    name, steps, shape = type(outer[-1][1]).__name__, [step for _, step in outer[:-1]], None
    try:
        chain = ModelChain.of(model)
        steps, shape = list(chain.steps), listed_shape(chain.sample_shape)
        axes = chain.known_axes if axes is None else axes
    except TypeError:  # a scikit-learn model, or calibrated models after steps that are not affine
        known = remembered_shape(outer[0][1])
        shape = None if known is None else listed_shape(known)
    known = axes if shape is None else checked_any_axes(axes, shape)
    return {
        "model": name,
        "steps": [describe_step(step) for step in steps],
        "sample_shape": shape,
        "axes": axes_facts(known),
    }


def listed_shape(shape: Any) -> Any:
    """Return a shape, or a dictionary of shapes of several views, as JSON has it."""
    return {name: list(own) for name, own in shape.items()} if isinstance(shape, dict) else list(shape)
