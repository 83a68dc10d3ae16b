"""ONNX operators that turn the scores of all binary problems into decisions, classes and probabilities.

They compute in float32 what `multiclass` and `calibration` compute with arrays.
"""

from __future__ import annotations

import numpy as np

from ...fitting import CERTAIN, binary_problems
from ...runtime import Array
from .graph import FLOAT, INT64, Graph

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
