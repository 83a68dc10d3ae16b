"""Read models from archives of skops without skops, whose import loads all of scikit-learn and any PyTorch.

An archive holds ``schema.json``, a tree of nodes that each name a loader and a type, and one ``.npy`` file per array.
Reading goes over the whole tree first and returns a function that builds the object. A file that is damaged, or was
tampered with, is thus refused before any object exists, and building takes classes from `CLASSES` only, without
calling anything that the file names.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ..runtime import Array
from .arrays import BadFileError, npy_header

OWN_CLASSES = frozenset(
    {
        "tensormargin.data.axes.Axis",
        "tensormargin.estimators.classifier.TensorMarginClassifier",
        "tensormargin.selection.classifier.TensorMarginClassifierCV",
        "tensormargin.transformers.kernels.transformer.TensorKernel",
        "tensormargin.transformers.preparation.confounds.Deconfound",
        "tensormargin.transformers.preparation.lengths.EqualLength",
        "tensormargin.transformers.preparation.resizing.Resize",
        "tensormargin.transformers.preparation.scaling.TensorScaler",
        "tensormargin.transformers.preparation.shaping.Crop",
        "tensormargin.transformers.preparation.shaping.Mask",
        "tensormargin.transformers.preparation.shaping.MoveMode",
        "tensormargin.transformers.preparation.shaping.Tensorize",
        "tensormargin.transformers.preparation.union.TensorUnion",
        "tensormargin.transformers.preparation.union.ViewTransformer",
        "tensormargin.transformers.representations.mode_maps.Decimate",
        "tensormargin.transformers.representations.mode_maps.Differences",
        "tensormargin.transformers.representations.mode_maps.ModeMap",
        "tensormargin.transformers.representations.mode_maps.Project",
        "tensormargin.transformers.representations.mode_maps.Smooth",
        "tensormargin.transformers.representations.mode_maps.Whiten",
        "tensormargin.transformers.representations.mode_maps.Xdawn",
        "tensormargin.transformers.representations.anova.AnovaMask",
        "tensormargin.transformers.representations.band_power.BandPower",
        "tensormargin.transformers.representations.covariances.Covariances",
        "tensormargin.transformers.representations.convolutions.Convolutions",
        "tensormargin.transformers.representations.connectome.Connectome",
        "tensormargin.transformers.representations.spectra.Spectra",
        "tensormargin.transformers.representations.detrend.Detrend",
        "tensormargin.transformers.representations.imputation.Impute",
        "tensorly.cp_tensor.CPTensor",
        "tensorly.tucker_tensor.TuckerTensor",
        "tensorly.tt_tensor.TTTensor",
    }
)
"""Classes of this library, and those of its weights."""

_MOVED = {re.sub("^tensormargin.(transformers|data).", "tensormargin.", name): name for name in OWN_CLASSES}

CLASSES = OWN_CLASSES | {
    "sklearn.calibration.CalibratedClassifierCV",
    "sklearn.calibration._CalibratedClassifier",
    "sklearn.calibration._SigmoidCalibration",
    "sklearn.calibration._TemperatureScaling",
    "sklearn.frozen._frozen.FrozenEstimator",
    "sklearn.pipeline.Pipeline",
    "sklearn.preprocessing._data.MaxAbsScaler",
    "sklearn.preprocessing._data.MinMaxScaler",
    "sklearn.preprocessing._data.Normalizer",
    "sklearn.preprocessing._data.RobustScaler",
    "sklearn.preprocessing._data.StandardScaler",
}
"""All classes that are read without skops: their state is arrays, plain values and each other."""

SCHEMA = "schema.json"
PROTOCOLS = (0, 1, 2)
"""Versions of the skops format, the newest last; the nodes of `LOADERS` are the same in all of them."""

PLAIN = (str, int, float, bool, type(None))
"""Types of single values, which are stored as JSON."""

_DICTS = {"builtins.dict": dict, "collections.OrderedDict": OrderedDict}
_TRUTH = {"true": True, "false": False}  # keys of a dict are text in JSON; bool("false") would be True
_NUMPY_TYPES: tuple[type[np.generic], ...] = (
    np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64,
    np.float16, np.float32, np.float64, np.str_,
)  # fmt: skip
_SCALARS = {f"numpy.{kind.__name__}": kind for kind in (*_NUMPY_TYPES, np.bool_)}
KEYS: Mapping[str, Callable[[str], Any]] = {
    "builtins.str": str,
    "builtins.int": int,
    "builtins.float": float,
    "builtins.bool": _TRUTH.__getitem__,
    **{f"numpy.{kind.__name__}": kind for kind in _NUMPY_TYPES},
}
"""Types of the keys of a dictionary, with the functions that restore them from text."""

LOADERS: Mapping[str, frozenset[str]] = {
    "JsonNode": frozenset({"builtins.str"}),  # of all `PLAIN` types, as skops names them
    "ListNode": frozenset({"builtins.list"}),
    "TupleNode": frozenset({"builtins.tuple"}),
    "DictNode": frozenset(_DICTS),
    "NdArrayNode": frozenset({"numpy.ndarray", *_SCALARS}),
    "MaskedArrayNode": frozenset({"numpy.ma.MaskedArray", "numpy.ma.core.MaskedArray"}),
    "RandomStateNode": frozenset({"numpy.random.mtrand.RandomState"}),
    "ObjectNode": CLASSES,
}
"""All types that are read and written without skops, by the loader that their nodes name."""

TEXT_BYTES = 2**26
"""Most bytes of a member with text."""
_LONGEST = 500  # characters of a message that quotes a file
_UNPACKED_BYTES = 2**30
_UNPACKED_RATIO = 100  # of a larger model: weights hardly compress, and masks of zeros are small

Build = Callable[[], Any]
T = TypeVar("T")


class OtherTypeError(Exception):
    """Raised for types that only skops can read or write."""


def read_archive(path: str | Path) -> Build:
    """Return a function that builds the object in an archive.

    Raises OtherTypeError if the archive contains more than arrays, plain values, their containers and `CLASSES`. It may
    then be given to skops, after its own check of the types: what can be told of any archive has been checked here.
    Raises `BadFileError` if the archive is damaged, or not one that skops writes.
    """
    path = Path(path)
    # A damaged archive can raise anything in zipfile, json and NumPy; turn it into one clear message.
    try:
        with zipfile.ZipFile(path) as archive:
            _check_names(archive)
            check_sizes(path, archive)
            schema = read_schema(path, archive)
            try:
                return _Reader(path, archive).plan_schema(schema)
            except OtherTypeError:
                _check_for_skops(path, archive, schema)
                raise
    except (BadFileError, OtherTypeError):
        raise
    except Exception as error:
        raise BadFileError(f"{path}: cannot be read ({brief(error)}); save the model again") from error


def _check_names(archive: zipfile.ZipFile) -> None:
    """Raise ValueError unless the members have different names without folders, as skops gives them."""
    counts = Counter(archive.namelist())
    wrong = sorted(name for name, count in counts.items() if count > 1 or not name or set(name) & set("/\\:"))
    if wrong:
        raise ValueError(f"its members must have different names, without folders; got {', '.join(wrong[:5])}")


def brief(words: object) -> str:
    """Return the beginning of a message, which may quote a file at any length."""
    text = str(words)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def check_sizes(path: Path, archive: zipfile.ZipFile) -> None:
    """Raise `BadFileError` if the members, of which some bytes may stand for many, would fill the memory."""
    total, packed = sum(member.file_size for member in archive.infolist()), path.stat().st_size
    if total > max(_UNPACKED_BYTES, _UNPACKED_RATIO * packed):
        raise BadFileError(
            f"{path}: {packed} bytes would expand to {total}; a model of more than {_UNPACKED_BYTES} bytes must not be "
            f"more than {_UNPACKED_RATIO} times as large as its file. It is not loaded"
        )


def read_member(path: Path, archive: zipfile.ZipFile, name: str) -> bytes:
    """Return a member with text; raise `BadFileError` if it is too long for one.

    Its size is that in the directory of the archive, at most, whatever its compressed bytes expand to.
    """
    member = archive.getinfo(name)
    if member.file_size > TEXT_BYTES:
        raise BadFileError(
            f"{path}: {name} must have at most {TEXT_BYTES} bytes, has {member.file_size}; it is not loaded"
        )
    with archive.open(member) as file:
        content = file.read(member.file_size)
        if file.read(1):  # also verifies the checksum, at the end
            raise BadFileError(f"{path}: {name} is longer than the archive says; save the model again")
    return content


def _check_for_skops(path: Path, archive: zipfile.ZipFile, schema: Any) -> None:
    """Raise an error if an array is damaged or one of `CLASSES` has another loader, whatever else the archive holds."""
    for name in archive.namelist():
        if name.endswith(".npy"):
            read_array(path, archive, name)
    for node in _nodes(schema):
        if _name(node) in CLASSES and node["__loader__"] != "ObjectNode":
            raise ValueError(f"{_name(node)} is stored as {node['__loader__']}, must be ObjectNode")


def read_array(path: Path, archive: zipfile.ZipFile, name: str) -> Array:
    """Return a member with an array, which holds no objects."""
    npy_header(path, archive, archive.getinfo(name))  # before NumPy allocates what the header says
    with archive.open(name) as file:
        return np.lib.format.read_array(file, allow_pickle=False)


def read_schema(path: Path, archive: zipfile.ZipFile) -> dict[str, Any]:
    """Return the description of an archive's objects, with the present modules of classes of this library.

    Before 0.2.0 transformers and axes were in the package's root.
    """
    schema = _checked(json.loads(read_member(path, archive, SCHEMA)), dict)
    for node in _nodes(schema):
        if _name(node) in _MOVED:
            node["__module__"] = _MOVED[_name(node)].rpartition(".")[0]
    return schema


def present_bytes(path: str | Path) -> bytes:
    """Return an archive as skops can read it, with the present modules of classes of this library."""
    made = BytesIO()
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(made, "w") as copy:
        for name in archive.namelist():
            own = json.dumps(read_schema(Path(path), archive)) if name == SCHEMA else archive.read(name)
            copy.writestr(name, own)
    return made.getvalue()


def _nodes(part: Any) -> Iterator[dict[str, Any]]:
    if isinstance(part, dict):
        if "__loader__" in part:
            yield part
        part = list(part.values())
    if isinstance(part, list):
        for one in part:
            yield from _nodes(one)


class _Reader:
    """Plans how to build the objects of an archive, by ``__id__``: None while the parts of one are planned."""

    def __init__(self, path: Path, archive: zipfile.ZipFile) -> None:
        self.path = path
        self.archive = archive
        self.planned: dict[int, Build | None] = {}

    def plan_schema(self, schema: dict[str, Any]) -> Build:
        """Return a function that builds the object of the archive."""
        protocol = _field(schema, "protocol", int)
        if protocol not in PROTOCOLS:
            raise OtherTypeError(f"protocol {protocol}")
        return self.plan(schema)

    def plan(self, node: Any) -> Build:
        """Return a function that builds the object of a node; nodes with the same ``__id__`` are one object."""
        node = _checked(node, dict)
        loader = _field(node, "__loader__", str)
        if loader not in LOADERS:
            raise OtherTypeError(loader)
        _require(node, *LOADERS[loader])
        number = _field(node, "__id__", int)
        if number not in self.planned:
            self.planned[number] = None
            self.planned[number] = cache(_PLANNERS[loader](self, node))
        build = self.planned[number]
        if build is None:
            raise ValueError(f"{_name(node)} contains itself")
        return build


def _plain(reader: _Reader, node: dict[str, Any]) -> Build:
    """Plan a number, text, truth value or None."""
    value = json.loads(_field(node, "content", str))
    if type(value) not in PLAIN:
        raise ValueError(f"a plain value must be a number or text, got {type(value).__name__}")
    return lambda: value


def _list(reader: _Reader, node: dict[str, Any]) -> Build:
    items = _items(reader, node)
    return lambda: [build() for build in items]


def _tuple(reader: _Reader, node: dict[str, Any]) -> Build:
    items = _items(reader, node)
    return lambda: tuple(build() for build in items)


def _items(reader: _Reader, node: dict[str, Any]) -> list[Build]:
    return [reader.plan(one) for one in _field(node, "content", list)]


def _dict(reader: _Reader, node: dict[str, Any]) -> Build:
    kind = _DICTS[_name(node)]
    content = _field(node, "content", dict)
    keys = [convert(key) for convert, key in zip(_key_types(node), content, strict=True)]
    values = [reader.plan(value) for value in content.values()]
    return lambda: kind((key, build()) for key, build in zip(keys, values, strict=True))


def _key_types(node: dict[str, Any]) -> list[Callable[[str], Any]]:
    """Return the functions that convert the keys of a dictionary, which are text in JSON."""
    kinds = _field(node, "key_types", dict)
    _require(kinds, "builtins.list")
    return [KEYS[_require(_checked(one, dict), *KEYS)] for one in _field(kinds, "content", list)]


def _array(reader: _Reader, node: dict[str, Any]) -> Build:
    """Plan an array, or a NumPy scalar, which is stored as an array."""
    name = _name(node)
    if _field(node, "type", str) == "json":
        return _objects(reader, node)
    array = read_array(reader.path, reader.archive, _field(node, "file", str))
    if name == "numpy.ndarray":
        return lambda: array
    if array.shape != () or array.dtype.type is not _SCALARS[name]:
        raise ValueError(f"{name} is stored as an array of {array.dtype} of shape {array.shape}")
    return lambda: array[()]


def _objects(reader: _Reader, node: dict[str, Any]) -> Build:
    """Plan a vector of objects, such as labels of different types."""
    _require(node, "numpy.ndarray")
    if len(_field(_field(node, "shape", dict), "content", list)) != 1:
        raise OtherTypeError("array of objects")
    items = _items(reader, node)

    def build() -> Array:
        array = np.empty(len(items), object)
        for place, item in enumerate(items):  # one by one: NumPy would turn a list of lists into a matrix
            array[place] = item()
        return array

    return build


def _masked(reader: _Reader, node: dict[str, Any]) -> Build:
    content = _field(node, "content", dict)
    data, mask = reader.plan(content.get("data")), reader.plan(content.get("mask"))
    return lambda: np.ma.MaskedArray(data(), mask())


def _random_state(reader: _Reader, node: dict[str, Any]) -> Build:
    state = reader.plan(node.get("content"))

    def build() -> np.random.RandomState:
        generator = np.random.RandomState(0)
        generator.set_state(state())
        return generator

    return build


def _instance(reader: _Reader, node: dict[str, Any]) -> Build:
    """Plan an instance of one of `CLASSES`: a new object without a call of ``__init__``, then its attributes."""
    module, _, name = _name(node).rpartition(".")
    content = _field(node, "content", dict)
    if content.get("__loader__") != "DictNode" or any(kind is not str for kind in _key_types(content)):
        raise ValueError(f"the state of {name} must be a dict of attributes")
    state = reader.plan(content)

    def build() -> Any:
        kind = getattr(import_module(module), name)
        instance = kind.__new__(kind)
        if hasattr(instance, "__setstate__"):  # scikit-learn's warns of other versions, ours reads earlier formats
            instance.__setstate__(state())
        else:
            vars(instance).update(state())
        return instance

    return build


_PLANNERS: Mapping[str, Callable[[_Reader, dict[str, Any]], Build]] = {
    "JsonNode": _plain,
    "ListNode": _list,
    "TupleNode": _tuple,
    "DictNode": _dict,
    "NdArrayNode": _array,
    "MaskedArrayNode": _masked,
    "RandomStateNode": _random_state,
    "ObjectNode": _instance,
}


def _require(node: dict[str, Any], *names: str) -> str:
    """Return the type of a node; raise OtherTypeError if it is none of these."""
    name = _name(node)
    if name not in names:
        raise OtherTypeError(name)
    return name


def _name(node: dict[str, Any]) -> str:
    return f"{node.get('__module__')}.{node.get('__class__')}"


def _field(node: dict[str, Any], name: str, kind: type[T]) -> T:
    return _checked(node.get(name), kind, name)


def _checked(value: Any, kind: type[T], name: str = "a node") -> T:
    if type(value) is not kind:
        raise ValueError(f"{name} must be {kind.__name__}, is {type(value).__name__}")
    return value
