"""Export of a fitted model as an ONNX file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection._search import BaseSearchCV

from ...data import AnyAxes, axes_facts
from ...estimators import TensorMarginClassifier, to_device
from ...inspection import NotAffineError, chain_of, classifier_of, known_axes
from ...runtime import Array, software_versions, to_host
from .. import replacing
from .decisions import decide, probabilities
from .graph import Graph, require_onnx
from .scoring import scoring_graph


def export_onnx(model: Any, path: str | Path, axes: AnyAxes = None) -> None:
    """Write a fitted model as an ONNX file for original samples, atomically.

    The file has one input, ``samples``: float32 of shape (n_samples, I_1, ..., I_M), any number of samples. For several
    views it has one such input per view that is not left out, named after it. A sample that is NaN in a view lacks it
    and is scored as by the model. (The model refuses samples that are NaN only in part, or lack all views; the file
    does not.) Outputs are ``label`` (int64 or strings), ``scores`` (those of `decision_function`) and, if the model has
    `predict_proba`, ``probabilities``. The preparation is included. Low-rank weights are stored as factors if that
    makes the file smaller. Metadata: ``classes`` and ``sample_shape`` (JSON; the latter by name for several views),
    ``multi_class``, ``tensormargin`` (version), and ``axes`` (JSON: name, unit and values of each mode) if they are
    known.

    Computations are in float32, or in float64 if means or offsets show that samples lie far from zero. Scores agree
    with those of the model to 1e-5 of their scale. Samples of other types must be converted to float32.

    Parameters
    ----------
    model : TensorMarginClassifier, TensorMarginClassifierCV, or a Pipeline or scikit-learn search that ends in one
        Fitted model; its preparation must be affine. A model on a device is copied to the host first.
    path : str or Path
        File to write; the usual extension is ``.onnx``.
    axes : tuple of Axis, or dictionary of them for several views, optional
        Names, units and coordinates of the modes of the samples; by default those that the model was fitted to, if
        these were an xarray DataArray or a data frame.

    Raises
    ------
    NotAffineError
        If a step is not affine, or not known to be (`register_pull_back`); the message names it.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from tensormargin import TensorMarginClassifier, export_onnx
    >>> from tensormargin.datasets import make_low_rank_classes
    >>> data = make_low_rank_classes(40, (4, 5), random_state=0)
    >>> clf = TensorMarginClassifier("cp", 1).fit(data.data, data.target)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     export_onnx(clf, Path(folder) / "model.onnx")
    ...     (Path(folder) / "model.onnx").stat().st_size < 3000
    True
    """
    require_onnx()
    steps, classifier, last = _exported(model)
    classifier = to_device(classifier)
    labels, calibration = _labels(classifier.classes_), getattr(last, "calibration_", None)
    scheme = classifier.multi_class_
    try:
        graph, scores = scoring_graph([to_device(step) for step in steps], classifier)
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
    known = known_axes(model) if axes is None else axes
    if known is not None:
        metadata["axes"] = json.dumps(axes_facts(known))
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


def _exported(model: Any) -> tuple[Sequence[Any], TensorMarginClassifier, Any]:
    """Return the steps of a model, its classifier, and the estimator that has the probabilities.

    Wrappers that change the decisions of the classifier (thresholds, calibrators, ensembles) are rejected.
    """
    try:
        chain = chain_of(model)
    except TypeError as error:
        raise TypeError(f"cannot export {type(model).__name__}: {error}") from error
    own = [one for one in chain.wrappers if hasattr(one, "calibration_")]  # our search; selection is above this wing
    for wrapper in chain.wrappers:
        if wrapper not in own and not isinstance(wrapper, BaseSearchCV | FrozenEstimator):
            raise TypeError(
                f"cannot export {type(wrapper).__name__}, which changes the decisions of its classifier: export the "
                "classifier inside it"
            )
    classifier = classifier_of(model)
    return chain.steps, classifier, own[-1] if own else classifier


def _labels(classes: Array) -> Array:
    """Return the classes as an array of int64 or str, as ONNX requires; raise TypeError for others."""
    names = classes.tolist()
    if all(isinstance(name, str) for name in names):
        return np.array(names, object)
    if all(isinstance(name, int | float) and name == int(name) and abs(name) < 2**63 for name in names):
        return np.array([int(name) for name in names], np.int64)
    raise TypeError(
        f"labels must be whole numbers or strings to be exported; got classes {names}. Fit with such labels"
    )
