"""Export of a fitted model as an ONNX file, which runs without Python or this library."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection._search import BaseSearchCV

from ..data import AnyAxes, axes_facts
from ..estimators import TensorMarginClassifier, to_device
from ..fitting import CERTAIN, binary_problems
from ..inspection import ModelChain, NotAffineError
from ..runtime import Array, replacing, software_versions, to_host
from .onnx_graph import FLOAT, INT64, Graph, require_onnx, scoring_graph


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
    labels, scheme = _labels(classifier.classes_), classifier.multi_class_
    try:
        graph, scores = scoring_graph([to_device(step) for step in steps], classifier)
    except NotAffineError as error:
        raise NotAffineError(f"this model cannot be exported: {error}") from error
    n_classes = len(labels)
    decisions, predicted = decide(graph, scores, n_classes, scheme)
    graph.output("label", graph.add("Gather", labels, predicted), "STRING" if labels.dtype == object else "INT64", ())
    graph.output("scores", decisions, "FLOAT", () if n_classes == 2 else (n_classes,))
    if hasattr(last, "calibration_"):
        found = probabilities(graph, scores, predicted, to_host(last.calibration_), n_classes, scheme)
        graph.output("probabilities", found, "FLOAT", (n_classes,))
    version = software_versions()["tensormargin"]
    metadata = {
        "classes": json.dumps(labels.tolist()),
        "sample_shape": json.dumps(graph.sample_shape),
        "multi_class": scheme,
        "tensormargin": version,
    }
    known = ModelChain.of(model).known_axes if axes is None else axes
    if known is not None:
        metadata["axes"] = json.dumps(axes_facts(known))
    content = graph.model(f"{type(last).__name__} of tensormargin", version, metadata).SerializeToString()
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def _exported(model: Any) -> tuple[Sequence[Any], TensorMarginClassifier, Any]:
    """Return steps, classifier and the estimator with probabilities; reject wrappers that change the decisions."""
    try:
        chain = ModelChain.of(model)
    except TypeError as error:
        raise TypeError(f"cannot export {type(model).__name__}: {error}") from error
    own = [one for one in chain.wrappers if hasattr(one, "calibration_")]  # our search; selection is above this wing
    for wrapper in chain.wrappers:
        if wrapper not in own and not isinstance(wrapper, BaseSearchCV | FrozenEstimator):
            raise TypeError(
                f"cannot export {type(wrapper).__name__}, which changes the decisions of its classifier: export the "
                "classifier inside it"
            )
    return chain.steps, chain.classifier, own[-1] if own else chain.classifier


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


_LOWEST = float(np.finfo(np.float32).min)


def decide(graph: Graph, scores: str, n_classes: int, scheme: str) -> tuple[str, str]:
    """Return the names of the decision function and of the indices of the predicted classes.

    Votes are compared first, and ties are broken by the sums of scores. Adding the two, as the decision function does,
    would leave too few float32 digits for the sums.
    """
    if n_classes == 2:
        scores = graph.add("Reshape", scores, np.array([-1], np.int64))
        return scores, graph.add("Cast", graph.add("Greater", scores, 0.0), to=INT64)
    if scheme == "ovr":
        return scores, graph.add("ArgMax", scores, axis=1, keepdims=0)
    won = graph.add("Cast", graph.add("Greater", scores, 0.0), to=FLOAT)
    votes = _summed(graph, won, graph.add("Sub", 1.0, won), n_classes)
    sums = _summed(graph, scores, graph.add("Neg", scores), n_classes)
    squeezed = graph.add("Mul", graph.add("Add", graph.add("Abs", sums), 1.0), 3.0)
    decisions = graph.add("Add", votes, graph.add("Div", sums, squeezed))
    most = graph.add("ReduceMax", votes, axes=[1], keepdims=1)
    tied = graph.add("Where", graph.add("Equal", votes, most), sums, _LOWEST)
    return decisions, graph.add("ArgMax", tied, axis=1, keepdims=0)


def _summed(graph: Graph, later: str, earlier: str, n_classes: int) -> str:
    """Return the sum over the pairs of each class, with the values of each pair for its later and its earlier class."""
    places = _pair_places(n_classes)[~np.eye(n_classes, dtype=bool)].reshape(n_classes, -1)
    return graph.add("ReduceSum", _by_class(graph, later, earlier, places), np.array([2]), keepdims=0)


def _by_class(graph: Graph, later: str, earlier: str, places: Array) -> str:
    return graph.add("Gather", graph.add("Concat", later, earlier, axis=1), places, axis=1)


def _pair_places(n_classes: int) -> Array:
    """Return, as entry (i, j), the index of the score of i against j among those of all pairs and their negatives."""
    pairs = binary_problems(np.empty(0, int), n_classes, "ovo")
    places = np.zeros((n_classes, n_classes), np.int32)
    for number, pair in enumerate(pairs):
        places[pair.positive, pair.negative] = number
        places[pair.negative, pair.positive] = len(pairs) + number
    return places


def probabilities(graph: Graph, scores: str, predicted: str, calibration: Array, n_classes: int, scheme: str) -> str:
    """Return the name of the class probabilities, of shape (n_samples, n_classes)."""
    slopes, offsets, *of_classes = np.asarray(calibration, np.float64).T
    arguments = graph.add("Add", graph.add("Mul", scores, slopes), offsets)
    negative = graph.add("Neg", arguments)
    if n_classes == 2:
        return graph.add("Sigmoid", graph.add("Concat", negative, arguments, axis=1))
    coupled = None if scheme == "ovr" else _coupled(graph, arguments, negative, n_classes)
    if of_classes:
        power, share = (column[0] for column in of_classes)
        logits = arguments if coupled is None else graph.add("Log", graph.add("Max", coupled, CERTAIN))
        softened = graph.add("Softmax", graph.add("Mul", logits, power), axis=1)
        found = graph.add("Add", graph.add("Mul", softened, 1 - share), share / n_classes)
    elif coupled is None:  # models in older files
        found = graph.add("Softmax", graph.add("Neg", graph.add("Softplus", negative)), axis=1)
    else:
        found = coupled
    return found if offsets.any() else _most_probable_is(graph, predicted, found, n_classes)


def _coupled(graph: Graph, arguments: str, negative: str, n_classes: int) -> str:
    """Return class probabilities computed from pairwise ones by Wu, Lin and Weng's second method.

    The probabilities p minimise p'Qp subject to sum(p) = 1, so all entries of Qp are equal, and so are those of
    (Q + ee')p with e all ones: p is the normalised solution of (Q + ee')p = e. Q is often singular; Q + ee' never is,
    and it is so well conditioned that float32 elimination without pivoting gives six digits (40 classes: 2e-6).
    """
    places = np.pad(_pair_places(n_classes), ((0, 0), (0, 1)))  # one more column for e
    others = np.pad(1.0 - np.eye(n_classes), ((0, 0), (0, 1)))
    own = np.eye(n_classes, n_classes + 1)
    sides = graph.add("Clip", graph.add("Sigmoid", _by_class(graph, arguments, negative, places)), CERTAIN, 1 - CERTAIN)
    sides = graph.add("Mul", sides, others)  # r_ij: probability of i given i or j
    against = graph.add("Sub", others, sides)  # r_ji
    diagonal = graph.add("ReduceSum", graph.add("Mul", against, against), np.array([2]), keepdims=1)
    system = graph.add("Sub", 1.0, graph.add("Mul", sides, against))
    system = graph.add("Add", system, graph.add("Mul", diagonal, own))
    for k in range(n_classes):  # Gauss-Jordan elimination: the columns become those of the identity
        row = graph.add("Gather", system, np.array([k]), axis=1)
        row = graph.add("Div", row, graph.add("Gather", row, np.array([k]), axis=2))
        column = graph.add("Sub", graph.add("Gather", system, np.array([k]), axis=2), own[:, k : k + 1])
        system = graph.add("Sub", system, graph.add("Mul", column, row))
    solution = graph.add("Relu", graph.add("Gather", system, np.array(n_classes), axis=2))
    return graph.add("Div", solution, graph.add("ReduceSum", solution, np.array([1]), keepdims=1))


def _most_probable_is(graph: Graph, predicted: str, found: str, n_classes: int) -> str:
    """Return the probabilities with those of the predicted and the most probable class swapped."""
    classes = np.arange(n_classes)
    is_predicted = graph.add("Equal", graph.add("Unsqueeze", predicted, np.array([1])), classes)
    is_most = graph.add("Equal", graph.add("ArgMax", found, axis=1, keepdims=1), classes)
    highest = graph.add("ReduceMax", found, axes=[1], keepdims=1)
    own = graph.add("ReduceSum", graph.add("Where", is_predicted, found, 0.0), np.array([1]), keepdims=1)
    return graph.add("Where", is_predicted, highest, graph.add("Where", is_most, own, found))
