"""Write a fitted model as an ONNX file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from .._namespace import to_host
from .._typing import Array
from ..affine import NotAffineError
from ..estimators import TensorMarginClassifier, to_device
from ..io import replacing
from ..io.versions import software_versions
from ..model_steps import pipeline_steps
from ..selection import TensorMarginClassifierCV
from .decisions import decide, probabilities
from .graph import Graph, require_onnx
from .scoring import scoring_graph

_NOT_REFITTED = "this %(name)s has no best_estimator_: fit it, with refit=True, before it is exported"


def export_onnx(model: Any, path: str | Path) -> None:
    """Write a fitted model as an ONNX file that takes original samples; the file is whole or not there.

    The file has one input, ``samples``: float32 of shape (n_samples, I_1, ..., I_M), any number of samples. Its outputs
    are ``label`` (int64 or strings), ``scores`` (those of `decision_function`) and, where the model has
    `predict_proba`, ``probabilities``. The preparation is part of it. Low-rank weights stay factors where that makes
    the file smaller. Metadata: ``classes`` and ``sample_shape`` (JSON), ``multi_class``, ``tensormargin``
    (version).

    It computes in float32, and where means or offsets show that samples lie far from zero, scores in float64: they
    agree with those of the model to 1e-5 of their scale. Samples that are not float32 are to be converted.

    Parameters
    ----------
    model : TensorMarginClassifier, TensorMarginClassifierCV, or a Pipeline or scikit-learn search that ends in one
        Fitted; its preparation must be affine. A model on a device is copied to memory first.
    path : str or Path
        File to write, ``.onnx`` by custom.

    Raises
    ------
    NotAffineError
        For a step that is not affine, or not known to be (`register_pull_back`), by its name.
    """
    require_onnx()
    steps, last, classifier = _parts(model)
    labels, calibration = _labels(to_host(classifier.classes_)), getattr(last, "calibration_", None)
    scheme = classifier.multi_class_
    try:
        graph, scores = scoring_graph([to_device(step) for step in steps], to_device(classifier))
    except NotAffineError as error:
        raise NotAffineError(f"this model cannot be exported: {error}") from error
    _add_outputs(graph, scores, labels, calibration, scheme)
    version = software_versions()["tensormargin"]
    metadata = {
        "classes": json.dumps(labels.tolist()),
        "sample_shape": json.dumps(graph.sample_shape),
        "multi_class": scheme,
        "tensormargin": version,
    }
    content = graph.model(f"{type(last).__name__} of tensormargin", version, metadata).SerializeToString()
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def _add_outputs(graph: Graph, scores: str, labels: Array, calibration: Any, scheme: str) -> None:
    n_classes = len(labels)
    decisions, predicted = decide(graph, scores, n_classes, scheme)
    label = graph.add("Gather", labels, predicted)
    graph.output("label", label, "STRING" if labels.dtype == object else "INT64", ())
    graph.output("scores", decisions, "FLOAT", () if n_classes == 2 else (n_classes,))
    if calibration is not None:
        found = probabilities(graph, scores, predicted, to_host(calibration), n_classes, scheme)
        graph.output("probabilities", found, "FLOAT", (n_classes,))


def _parts(model: Any) -> tuple[list[Any], Any, TensorMarginClassifier]:
    """Return all transformers, the estimator that has the probabilities, and the classifier that has the weight.

    What changes the decisions of the classifier that it holds (a threshold, a calibrator, an ensemble) is refused.
    """
    steps, last, inner = list[Any](), None, model
    while not isinstance(inner, TensorMarginClassifier):
        if isinstance(inner, Pipeline):
            steps += pipeline_steps(inner)
            inner = inner.steps[-1][1]
        elif isinstance(inner, FrozenEstimator):
            inner = inner.estimator
        elif isinstance(inner, TensorMarginClassifierCV | BaseSearchCV):
            check_is_fitted(inner, "best_estimator_", msg=_NOT_REFITTED)
            last = inner if isinstance(inner, TensorMarginClassifierCV) else last
            inner = inner.best_estimator_
        else:
            raise TypeError(
                f"cannot export {type(inner).__name__}: a model must be TensorMarginClassifier or "
                "TensorMarginClassifierCV, or a Pipeline or scikit-learn search that ends in one"
            )
    check_is_fitted(inner)
    return steps, inner if last is None else last, inner


def _labels(classes: Array) -> Array:
    """Return classes as ONNX has them: int64, or an array of str; raise TypeError for others."""
    names = classes.tolist()
    if all(isinstance(name, str) for name in names):
        return np.array(names, object)
    if all(isinstance(name, int | float) and name == int(name) and abs(name) < 2**63 for name in names):
        return np.array([int(name) for name in names], np.int64)
    raise TypeError(
        f"labels must be whole numbers or strings to be exported; got classes {names}. Fit with such labels"
    )
