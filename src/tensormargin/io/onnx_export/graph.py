"""Builder for graphs of ONNX operators; the only module that imports `onnx`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...runtime import Array

OPSET = 13
"""The oldest operator set that has all operators used here in their present form; runtimes since 2020 support it."""
FLOAT, INT64, DOUBLE = 1, 7, 11
"""ONNX type codes, for Cast."""
OUTPUTS = ("label", "scores", "probabilities")
_IR_VERSION = 7  # the version of that operator set; runtimes of its time reject newer files
_LARGEST = 2**31 - 2**20  # bytes of constants: a Protocol Buffers file holds at most 2 GiB
_SHARED = 64  # entries: constants up to this size are stored only once


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
    """Nodes and constants of a graph whose input is a batch of samples, or one batch for each of several views.

    ``real`` is the type of non-integer constants: float32, or float64 if more digits are needed. ``nbytes`` is the size
    of the constants, which is almost that of the file unless it is small.
    """

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
