"""Graphs of ONNX operators that compute the score of each binary problem; the only module that imports `onnx`.

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

from ..data import Views
from ..estimators import TensorMarginClassifier
from ..fitting import FORMATS, Weight
from ..inspection import AffineForm, ModelChain, every_step
from ..runtime import Array, FloatArray
from ..transformers import AnovaMask, Crop, Mask, Resize, Tensorize, TensorScaler

OPSET = 13
"""The oldest operator set that has all operators used here in their present form; runtimes since 2020 support it."""
FLOAT, INT64, DOUBLE = 1, 7, 11  # ONNX type codes, for Cast
OUTPUTS = ("label", "scores", "probabilities")
_IR_VERSION = 7  # the version of that operator set; runtimes of its time reject newer files
_LARGEST = 2**31 - 2**20  # bytes of constants: a Protocol Buffers file holds at most 2 GiB
_SHARED = 64  # entries: constants up to this size are stored only once
_FAR = 16.0
"""Distance from zero up to which float32 is used: in standard deviations of the samples, and in margins for offsets.

This costs about four of the 24 bits; errors stay below 1e-5 of the scores (at 100 standard deviations, 7e-5).
"""
_MODES = ascii_lowercase[:13]  # subscripts of the modes; letters from n on and capitals have other meanings


def require_onnx() -> Any:
    """Return the package `onnx`; raise ImportError with installation instructions if it is missing."""
    try:
        import onnx
        import onnx.checker
        import onnx.helper
        import onnx.numpy_helper
    except ImportError as error:
        raise ImportError(f"writing ONNX needs onnx ({error}): pip install 'tensormargin[onnx]'") from error
    return onnx


class Graph:
    """A graph over batches of samples or views; ``real`` is the type of constants, ``nbytes`` their size."""

    samples = "samples"
    """Name of the only input; those of several views have the views' names."""

    def __init__(self, sample_shape: Any) -> None:
        self._onnx = require_onnx()
        self.sample_shape = sample_shape
        self._inputs: dict[str, tuple[int, ...]] = (
            sample_shape if isinstance(sample_shape, dict) else {self.samples: sample_shape}
        )
        taken = [name for name in self._inputs if name in OUTPUTS or not name]
        if taken:
            raise ValueError(
                f"an input of an ONNX file has the name of its view, which must not be empty or one of "
                f"{', '.join(OUTPUTS)}; got the view {taken[0]!r}. Rename the view and fit again"
            )
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._known: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self._outputs: list[Any] = []
        self.real: type = np.float32
        self.nbytes = 0

    def add(self, operator: str, *inputs: Any, **attributes: Any) -> str:
        """Append an operator and return the name of its result; inputs are names, or constants: arrays and numbers."""
        name = self._unused(f"{operator.lower()}{len(self._nodes)}")
        names = [one if isinstance(one, str) else self._constant(np.asarray(one)) for one in inputs]
        self._nodes.append(self._onnx.helper.make_node(operator, names, [name], **attributes))
        return name

    def output(self, name: str, result: str, kind: str, shape: tuple[Any, ...]) -> None:
        """Add an output with this name, type (such as "FLOAT") and shape, the latter without the batch axis."""
        self._nodes.append(self._onnx.helper.make_node("Identity", [result], [name]))
        self._outputs.append(self._value(name, kind, shape))

    def model(self, description: str, version: str, metadata: dict[str, str]) -> Any:
        """Return the checked model; raise ValueError if it is too large for a file."""
        if self.nbytes > _LARGEST:
            raise ValueError(
                f"an ONNX file holds at most 2 GiB; the weights take {self.nbytes / 2**30:.1f} GiB. Use a low-rank "
                'weight, fewer binary problems (multi_class="ovr"), or smaller samples (Resize, Crop)'
            )
        helper = self._onnx.helper
        inputs = [self._value(name, "FLOAT", shape) for name, shape in self._inputs.items()]
        graph = helper.make_graph(self._nodes, "tensormargin", inputs, self._outputs, self._constants)
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=_IR_VERSION,
            producer_name="tensormargin",
            producer_version=version,
            doc_string=description,
        )
        helper.set_model_props(model, metadata)
        self._onnx.checker.check_model(model, full_check=True)
        return model

    def _unused(self, name: str) -> str:
        """Return a name that no view has."""
        while name in self._inputs:
            name = f"_{name}"
        return name

    def _value(self, name: str, kind: str, shape: tuple[Any, ...]) -> Any:
        kind = getattr(self._onnx.TensorProto, kind)
        return self._onnx.helper.make_tensor_value_info(name, kind, ["n_samples", *shape])

    def _constant(self, array: Array) -> str:
        if array.dtype.kind == "f":
            largest = float(np.abs(array).max(initial=0.0))
            if not largest <= float(np.finfo(np.float32).max):
                raise ValueError(
                    f"an exported model takes float32, up to 3e38; got numbers up to {largest:.1e} in this one. "
                    "Multiply the samples by a constant, or scale them (TensorScaler), and fit again"
                )
            array = array.astype(self.real)
        key = (array.dtype.str, array.shape, array.tobytes() if array.dtype.kind != "O" else repr(array).encode())
        small = array.size <= _SHARED
        if small and key in self._known:
            return self._known[key]
        name = self._unused(f"c{len(self._constants)}")
        self._constants.append(self._onnx.numpy_helper.from_array(np.asarray(array, order="C"), name))
        self.nbytes += array.nbytes
        if small:
            self._known[key] = name
        return name


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
