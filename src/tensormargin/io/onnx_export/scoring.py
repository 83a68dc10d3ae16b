"""ONNX operators that compute the score of each binary problem from samples.

A model with a preparation can be written in two ways. Folded: one dense weight per problem on the original samples.
In steps: the operators of the preparation, then the weight on the prepared samples, as factors if these are smaller.
The way that gives the smaller file is used.

If samples lie far from zero, <W, x> + b is a small difference of large numbers, for which float32 has too few digits.
Scores are then computed in float64, and only the result is cast to float32.

Of several views, each has an input of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from string import ascii_lowercase
from typing import Any

import numpy as np

from ...data import Views
from ...estimators import TensorMarginClassifier
from ...fitting import FORMATS, Weight
from ...inspection import AffineForm, ModelChain, every_step
from ...runtime import Array, FloatArray
from ...transformers import AnovaMask, Crop, Mask, Resize, Tensorize, TensorScaler
from .graph import DOUBLE, FLOAT, Graph

_FAR = 16.0
"""Distance from zero up to which float32 is used: in standard deviations of the samples, and in margins for offsets.

This costs about four of the 24 bits; errors stay below 1e-5 of the scores (at 100 standard deviations, 7e-5).
"""
_MODES = ascii_lowercase[:13]  # subscripts of the modes; letters from n on and capitals have other meanings


def scoring_graph(steps: Sequence[Any], classifier: TensorMarginClassifier) -> tuple[Graph, str]:
    """Return a graph and the name of its scores, (n_samples, n_problems); NotAffineError if a step is not affine."""
    form = ModelChain(tuple(steps), classifier).form()
    far = bool(np.any(np.abs(form.offsets) > _FAR)) or any(map(_centres_from_afar, every_step(steps)))
    if isinstance(form.weights, dict):
        return _of_views(steps, classifier, form, far)
    graph, samples = _begun(form, far)
    ways = [_ended(graph, _dense_scores(graph, samples, form.weights, form.offsets))]
    if all(type(step) in _OPERATORS for step in steps):
        ways.append(_in_steps(steps, classifier, form, far))
    return min(ways, key=lambda way: way[0].nbytes)


def _in_steps(
    steps: Sequence[Any], classifier: TensorMarginClassifier, form: AffineForm, far: bool
) -> tuple[Graph, str]:
    graph, prepared = _begun(form, far)
    for step in steps:
        prepared = _OPERATORS[type(step)](graph, prepared, step)
    products = _factored(classifier.weight_, tuple(classifier.sample_shape_))
    if products is None or _size(products) >= classifier.coef_.size:
        return _ended(graph, _dense_scores(graph, prepared, classifier.coef_, classifier.intercept_))
    return _ended(graph, graph.add("Add", _product(graph, prepared, products), classifier.intercept_))


def _of_views(
    steps: Sequence[Any], classifier: TensorMarginClassifier, form: AffineForm, far: bool
) -> tuple[Graph, str]:
    """Return the sum of the views' scores; that of a view which a sample lacks is what the model gives it instead."""
    without = _scores_without(steps, classifier, form)
    used = [name for name, own in form.weights.items() if own.any()] or list(form.weights)
    form = AffineForm({name: form.weights[name] for name in used}, form.offsets)
    graph = Graph({name: own.shape[1:] for name, own in form.weights.items()})
    far = far or any(bool(np.any(np.abs(without[name]) > _FAR)) for name in used if name in without)
    graph.real = np.float64 if far else np.float32
    total: Any = form.offsets
    for name, weights in form.weights.items():
        samples = graph.add("Cast", name, to=DOUBLE) if far else name
        products = None if steps else _factored(classifier.weight_[name], weights.shape[1:])
        if products is None or _size(products) >= weights.size:
            scores = _dense_scores(graph, samples, weights)
        else:
            scores = _product(graph, samples, products)
        if name in without:
            scores = graph.add("Where", graph.add("IsNaN", scores), without[name], scores)
        total = graph.add("Add", scores, total)
    return _ended(graph, total)


def _scores_without(
    steps: Sequence[Any], classifier: TensorMarginClassifier, form: AffineForm
) -> dict[str, FloatArray]:
    """Return what replaces the score of each view for samples that lack it: the model's for one, zero elsewhere."""
    if len(form.weights) == 1:  # every sample has the only view
        return {}
    zero = {name: np.zeros((1, *own.shape[1:])) for name, own in form.weights.items()}
    found = {}
    for name, own in zero.items():
        samples: Any = Views({**zero, name: np.full_like(own, np.nan)})
        for step in steps:
            samples = step.transform(samples)
        found[name] = classifier.binary_scores(samples)[0] - form.offsets
    return found


def _begun(form: AffineForm, far: bool) -> tuple[Graph, str]:
    """Return a graph and the name of the samples, cast to float64 if needed."""
    graph = Graph(form.weights.shape[1:])
    if far:
        graph.real = np.float64
        return graph, graph.add("Cast", graph.samples, to=DOUBLE)
    return graph, graph.samples


def _ended(graph: Graph, scores: str) -> tuple[Graph, str]:
    if graph.real is np.float64:
        graph.real = np.float32
        scores = graph.add("Cast", scores, to=FLOAT)
    return graph, scores


def _dense_scores(graph: Graph, samples: str, weights: Array, *offsets: Array) -> str:
    return graph.add("Gemm", graph.add("Flatten", samples, axis=1), weights.reshape(len(weights), -1).T, *offsets)


def _centres_from_afar(step: Any) -> bool:
    """Return whether a step centres samples that lie many standard deviations from zero."""
    if not (isinstance(step, TensorScaler) and step.with_mean):
        return False
    return float(np.mean((np.asarray(step.mean_, np.float64) / step.scale_) ** 2)) > _FAR**2


def _scale(graph: Graph, samples: str, step: TensorScaler) -> str:
    if step.with_mean:
        samples = graph.add("Sub", samples, step.mean_)
    return graph.add("Div", samples, step.scale_) if step.with_std else samples


def _mask(graph: Graph, samples: str, step: Mask | AnovaMask) -> str:
    return graph.add("Where", np.asarray(step.mask_, bool), samples, 0.0)


def _crop(graph: Graph, samples: str, step: Crop) -> str:
    first, last = np.array(step.bounds_, np.int64).T
    return graph.add("Slice", samples, first, last, np.arange(1, len(first) + 1))


def _resize(graph: Graph, samples: str, step: Resize) -> str:
    order = len(step.sample_shape_in_)
    before, new = _MODES[:order], _MODES[: len(step.matrices_)].upper()
    matrices = ",".join(capital + capital.lower() for capital in new)
    equation = f"n{before},{matrices}->n{new}{before[len(new) :]}"
    return graph.add("Einsum", samples, *step.matrices_, equation=equation)


def _tensorize(graph: Graph, samples: str, step: Tensorize) -> str:
    return graph.add("Reshape", samples, np.array([0, *step.sample_shape_out_], np.int64))  # 0 keeps the batch


_OPERATORS: dict[type, Callable[[Graph, str, Any], str]] = {
    TensorScaler: _scale,
    Mask: _mask,
    AnovaMask: _mask,
    Crop: _crop,
    Resize: _resize,
    Tensorize: _tensorize,
}

# A contraction with the weights of all problems: the Einsum equation and its array.
_Product = tuple[str, Array]


def _size(products: list[_Product]) -> int:
    return sum(array.size for _, array in products)


def _product(graph: Graph, samples: str, products: list[_Product]) -> str:
    for equation, array in products:
        samples = graph.add("Einsum", samples, array, equation=equation)
    return samples


def _factored(kept: Any, shape: tuple[int, ...]) -> list[_Product] | None:
    """Return the contractions that turn samples into scores, or None if the weights, as kept, have no factors."""
    stored = kept if isinstance(kept, list) else [kept]
    form = next((one for one in FORMATS.values() if one.wrote(stored[0])), None)
    if form is None or form.name not in _TERMS or len(shape) > len(_MODES):
        return None
    weights = [form.from_tensorly(one, shape) for one in stored]
    return _contractions(_TERMS[form.name](weights, _MODES[: len(shape)]), len(shape))


# Subscripts and array of a contraction, and the subscripts that remain besides those of the samples and modes.
_Term = tuple[str, Array, str]


def _contractions(terms: list[_Term], order: int) -> list[_Product]:
    """Return the equations and arrays of the contractions, from the last mode to the first."""
    products, state = [], "n" + _MODES[:order]
    for place, (subscripts, array, rest) in enumerate(terms, 1):
        left = f"n{_MODES[: max(order - place, 0)]}{rest}"
        products.append((f"{state},{subscripts}->{left}", array))
        state = left
    return products


def _cp_terms(weights: list[Any], modes: str) -> list[_Term]:
    terms = []
    for mode in reversed(range(len(modes))):
        columns = [one.factors[mode] * (one.scales if mode == 0 else 1.0) for one in weights]
        terms.append((f"{modes[mode]}pr", np.stack(columns, axis=1), "pr" if mode else "p"))
    return terms


def _tucker_terms(weights: list[Any], modes: str) -> list[_Term]:
    ranks = modes.upper()
    terms = [
        (f"{modes[mode]}p{ranks[mode]}", np.stack([one.factors[mode] for one in weights], 1), f"p{ranks[mode:]}")
        for mode in reversed(range(len(modes)))
    ]
    return [*terms, (f"p{ranks}", np.stack([one.core for one in weights]), "p")]


def _tt_terms(weights: list[Any], modes: str) -> list[_Term]:
    terms = []
    for mode in reversed(range(len(modes))):
        cores = np.stack([one.cores[mode].transpose(1, 0, 2) for one in weights], axis=1)
        left, right = modes[mode].upper(), modes[mode + 1 : mode + 2].upper()  # the bonds, except the outer ones
        if not mode:
            cores, left = cores[:, :, 0], ""
        cores = cores if right else cores[..., 0]
        terms.append((f"{modes[mode]}p{left}{right}", cores, f"p{left}"))
    return terms


_TERMS: dict[str, Callable[[list[Weight], str], list[_Term]]] = {
    "cp": _cp_terms,
    "tucker": _tucker_terms,
    "tt": _tt_terms,
}
