"""Save and load models with their metadata, in the format of skops: loading a file runs none of its code."""

from __future__ import annotations

import json
import warnings
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sklearn.exceptions import InconsistentVersionWarning
from sklearn.utils.validation import check_is_fitted

from ..estimators import to_device
from .arrays import BadFileError
from .atomic import replacing
from .versions import software_versions

FORMAT = 2
"""Version of the file format: an archive written by skops, with the member `FACTS` added.

Format 1 is that of version 0.1 and can still be read. In format 2 the calibration of a search has an offset besides
the slope.
"""
FACTS = "tensormargin.json"

# Types that a model may hold besides those that skops trusts by default. All others are refused.
TRUSTED = frozenset(
    {
        "tensormargin.estimators.classifier.TensorMarginClassifier",
        "tensormargin.selection.classifier.TensorMarginClassifierCV",
        "tensormargin.preparation.lengths.EqualLength",
        "tensormargin.preparation.resizing.Resize",
        "tensormargin.preparation.scaling.TensorScaler",
        "tensormargin.preparation.shaping.Crop",
        "tensormargin.preparation.shaping.Mask",
        "tensormargin.preparation.shaping.Tensorize",
        "tensorly.cp_tensor.CPTensor",
        "tensorly.tucker_tensor.TuckerTensor",
        "tensorly.tt_tensor.TTTensor",
    }
)


@dataclass(frozen=True)
class ModelFile:
    """A model and its metadata.

    Attributes
    ----------
    model : estimator or Pipeline
    facts : mapping
        "format", "created", "versions", "model", "steps", "sample_shape", "classes", and "about", as passed to
        `save_model`.
    """

    model: Any
    facts: Mapping[str, Any]


def save_model(path: str | Path, model: Any, about: Mapping[str, Any] | None = None) -> None:
    """Save a fitted classifier, or a Pipeline that ends in one, atomically.

    Parameters
    ----------
    path : str or Path
        Any name; the usual extension is ``.skops``, and `skops.io` can open the file too.
    model : estimator
        A fitted model of this library or of scikit-learn.
    about : mapping, optional
        Facts to store with the model, as JSON types: data, seed, evaluation.
    """
    import skops.io

    check_is_fitted(model)
    model = to_device(model)  # PyTorch and CuPy arrays are saved as NumPy arrays, which load everywhere
    facts = {
        "format": FORMAT,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": software_versions(),
        "model": type(getattr(model, "steps", [(None, model)])[-1][1]).__name__,
        "steps": [repr(step) for _, step in getattr(model, "steps", [])[:-1]],
        "sample_shape": _sample_shape(model),
        "classes": _plain(getattr(model, "classes_", [])),
        "about": dict(about or {}),
    }
    text = json.dumps(facts, indent=1, allow_nan=False)
    with replacing(path) as temporary:
        skops.io.dump(model, temporary, compression=zipfile.ZIP_DEFLATED)
        foreign = sorted(set(_untrusted(temporary)) - TRUSTED)
        if foreign:
            raise TypeError(
                f"the model holds {', '.join(foreign)}, which load_model would refuse; use steps of scikit-learn and "
                "tensormargin.preparation"
            )
        with zipfile.ZipFile(temporary, "a") as archive:
            archive.writestr(FACTS, text, zipfile.ZIP_DEFLATED)


def load_model(path: str | Path) -> ModelFile:
    """Return a model saved by `save_model`, with its metadata.

    Loading runs no code from the file; unexpected types are refused.
    """
    import skops.io

    facts = read_facts(path)
    untrusted = _untrusted(path)
    foreign = sorted(set(untrusted) - TRUSTED)
    if foreign:
        raise BadFileError(
            f"{path}: holds types that a model of tensormargin does not have, {', '.join(foreign)}; it is not loaded"
        )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", InconsistentVersionWarning)
        try:
            model = skops.io.load(path, trusted=untrusted)
        # A damaged archive can raise anything in skops; turn it into one clear message.
        except Exception as error:
            raise BadFileError(
                f"{path}: cannot be loaded ({error}); it was saved with {_versions(facts)}. Fit it again, or install "
                "those versions"
            ) from error
    if caught:
        warnings.warn(
            f"{path} was saved with {_versions(facts)}; fit it again with the versions at hand to be sure", stacklevel=2
        )
    return ModelFile(model, MappingProxyType(facts))


def read_facts(path: str | Path) -> dict[str, Any]:
    """Return the metadata of a model file without loading the model."""
    path = Path(path)
    if not path.is_file():
        raise BadFileError(f"{path}: no such file; give a model that `tensormargin fit` or save_model wrote")
    try:
        with zipfile.ZipFile(path) as archive:
            facts = json.loads(archive.read(FACTS))
    # RuntimeError: encrypted, unknown compression, or nested too deeply.
    except (zipfile.BadZipFile, zlib.error, EOFError, KeyError, ValueError, OSError, RuntimeError) as error:
        raise BadFileError(
            f"{path}: not a model that tensormargin saved, or cut short ({error}); models are written by `tensormargin "
            "fit` and save_model"
        ) from error
    version = facts.get("format") if isinstance(facts, dict) else None
    if not isinstance(version, int) or version < 1:
        raise BadFileError(f"{path}: has no format version; save the model again")
    if version > FORMAT:
        raise BadFileError(
            f"{path}: has format {version}, this tensormargin reads up to {FORMAT}; upgrade it (the file was saved "
            f"with {_versions(facts)})"
        )
    return facts


def _versions(facts: Mapping[str, Any]) -> str:
    versions = facts.get("versions")
    versions = versions if isinstance(versions, dict) else {}
    return ", ".join(f"{name} {versions.get(name, '?')}" for name in ("tensormargin", "scikit-learn", "numpy"))


def _untrusted(path: str | Path) -> list[str]:
    import skops.io

    try:
        return list(skops.io.get_untrusted_types(file=path))
    # As in load_model: a damaged archive can raise anything.
    except Exception as error:
        raise BadFileError(f"{path}: cannot be read ({error}); save the model again") from error


def _sample_shape(model: Any) -> list[int | None] | None:
    """Return the sample shape expected by the model or its first step; None in it for any length."""
    first = model.steps[0][1] if hasattr(model, "steps") else model
    shape = getattr(first, "sample_shape_in_", getattr(first, "sample_shape_", None))
    return None if shape is None else [None if size is None else int(size) for size in shape]


def _plain(labels: Any) -> list[Any]:
    return [label.item() if hasattr(label, "item") else label for label in labels]
