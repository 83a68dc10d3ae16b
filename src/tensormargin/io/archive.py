"""Read and write models as archives of skops, without skops, whose import loads all of scikit-learn and any PyTorch.

That takes two seconds, where a small fit and `save_model` take some milliseconds; and skops has no limits on what a
damaged or hostile file makes it allocate. An archive holds ``schema.json``, a tree of nodes that each name a loader and
a type, and one ``.npy`` file per array. Reading goes over the whole tree first and returns a function that builds the
object. A file that is damaged, or was tampered with, is thus refused before any object exists, and building takes
classes from `CLASSES` only, without calling anything that the file names. All nodes are made before anything is
written, so that a model with any other type can be left to skops.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ..data import BadFileError, vector_of
from ..runtime import Array
from .arrays import npy_header


def _in_modules(package: str, classes: Mapping[str, str]) -> frozenset[str]:
    return frozenset(f"{package}.{module}.{name}" for module, names in classes.items() for name in names.split())


_TRANSFORMERS = {
    "kernels.transformer": "TensorKernel",
    "preparation.confounds": "Deconfound",
    "preparation.resizing": "EqualLength Resize",
    "preparation.scaling": "TensorScaler",
    "preparation.shaping": "AnovaMask Crop Mask MoveMode Tensorize",
    "preparation.union": "TensorUnion ViewTransformer",
    "representations.band_power": "BandPower",
    "representations.competing_convolutions": "CompetingConvolutions",
    "representations.convolutions": "Convolutions",
    "representations.corrections": "Clip Detrend Spectra",
    "representations.covariances": "Connectome Covariances",
    "representations.gradient_histograms": "GradientHistograms",
    "representations.imputation": "Impute",
    "representations.interval_quantiles": "IntervalQuantiles",
    "representations.mode_maps": "Decimate Differences ModeMap Project Smooth Whiten Xdawn",
}
_OTHERS = {
    "data.axes": "Axis",
    "estimators.classifier": "TensorMarginClassifier",
    "selection.auto": "TensorMarginAutoClassifier",
    "selection.classifier": "TensorMarginClassifierCV",
}
_WEIGHTS = {"cp_tensor": "CPTensor", "tucker_tensor": "TuckerTensor", "tt_tensor": "TTTensor"}
_SCIKIT_LEARN = {
    "calibration": "CalibratedClassifierCV _CalibratedClassifier _SigmoidCalibration _TemperatureScaling",
    "frozen._frozen": "FrozenEstimator",
    "pipeline": "Pipeline",
    "preprocessing._data": "MaxAbsScaler MinMaxScaler Normalizer RobustScaler StandardScaler",
}
OWN_CLASSES = (
    _in_modules("tensormargin.transformers", _TRANSFORMERS)
    | _in_modules("tensormargin", _OTHERS)
    | _in_modules("tensorly", _WEIGHTS)
)
"""Classes of this library, and those of its weights."""
CLASSES = OWN_CLASSES | _in_modules("sklearn", _SCIKIT_LEARN)
"""All classes that are read without skops: their state is arrays, plain values and each other."""
_LEFT = {  # modules of transformers that classes have left
    "preparation.lengths.EqualLength": "preparation.resizing.EqualLength",
    "representations.anova.AnovaMask": "preparation.shaping.AnovaMask",
    "representations.connectome.Connectome": "representations.covariances.Connectome",
    "representations.detrend.Detrend": "representations.corrections.Detrend",
    "representations.spectra.Spectra": "representations.corrections.Spectra",
}
_MOVED = {re.sub("^tensormargin.(transformers|data).", "tensormargin.", name): name for name in OWN_CLASSES} | {
    f"{place}.{old}": f"tensormargin.transformers.{new}"
    for old, new in _LEFT.items()
    for place in ("tensormargin", "tensormargin.transformers")
}

SCHEMA = "schema.json"
TEXT_BYTES = 2**26  # most bytes of a member with text
_PROTOCOLS = (0, 1, 2)  # versions of the skops format, the newest last; the nodes used here are the same in all of them
_PLAIN = (str, int, float, bool, type(None))  # types of single values, which are stored as JSON
_DICTS = {"builtins.dict": dict, "collections.OrderedDict": OrderedDict}
_TRUTH = {"true": True, "false": False}  # keys of a dict are text in JSON; bool("false") would be True
_NUMPY_TYPES: tuple[type[np.generic], ...] = (
    np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64,
    np.float16, np.float32, np.float64, np.str_,
)  # fmt: skip
_SCALARS = {f"numpy.{kind.__name__}": kind for kind in (*_NUMPY_TYPES, np.bool_)}
_KEYS: Mapping[str, Callable[[str], Any]] = {  # types of keys, with the functions that restore them from text
    "builtins.str": str,
    "builtins.int": int,
    "builtins.float": float,
    "builtins.bool": _TRUTH.__getitem__,
    **{f"numpy.{kind.__name__}": kind for kind in _NUMPY_TYPES},
}
_LONGEST = 500  # characters of a message that quotes a file
_UNPACKED_BYTES = 2**30
_UNPACKED_RATIO = 100  # of a larger model: weights hardly compress, and masks of zeros are small

Build = Callable[[], Any]
Node = dict[str, Any]
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
            _check_members(path, archive)
            schema = read_schema(path, archive)
            try:
                protocol = _field(schema, "protocol", int)
                if protocol not in _PROTOCOLS:
                    raise OtherTypeError(f"protocol {protocol}")
                return _Reader(path, archive).plan(schema)
            except OtherTypeError:
                _check_for_skops(path, archive, schema)
                raise
    except (BadFileError, OtherTypeError):
        raise
    except Exception as error:
        raise BadFileError(f"{path}: cannot be read ({brief(error)}); save the model again") from error


def write_archive(path: str | Path, value: Any) -> None:
    """Write an object to an archive that skops reads, too; raise OtherTypeError, before writing, for other types."""
    writer = _Writer()
    schema = writer.node(value) | {"protocol": _PROTOCOLS[-1], "_skops_version": version("skops")}
    text = json.dumps(schema)  # indented, writing would take five times as long
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in writer.arrays.items():
            write_array(archive, name, array)
        archive.writestr(SCHEMA, text)


def brief(words: object) -> str:
    """Return the beginning of a message, which may quote a file at any length."""
    text = str(words)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _check_members(path: Path, archive: zipfile.ZipFile) -> None:
    """Raise an error if members have the same name or folders, or would fill the memory once they are unpacked."""
    counts = Counter(archive.namelist())
    wrong = sorted(name for name, count in counts.items() if count > 1 or not name or set(name) & set("/\\:"))
    if wrong:
        raise ValueError(f"its members must have different names, without folders; got {', '.join(wrong[:5])}")
    total, packed = sum(member.file_size for member in archive.infolist()), path.stat().st_size
    if total > max(_UNPACKED_BYTES, _UNPACKED_RATIO * packed):
        raise BadFileError(
            f"{path}: {packed} bytes would expand to {total}; a model of more than {_UNPACKED_BYTES} bytes must not be "
            f"more than {_UNPACKED_RATIO} times as large as its file. It is not loaded"
        )


def read_member(path: Path, archive: zipfile.ZipFile, name: str) -> bytes:
    """Return a member with text, at most the size in the archive's directory; raise `BadFileError` if it is longer."""
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


def write_array(archive: zipfile.ZipFile, name: str, array: Any) -> None:
    """Add a compressed member with an array."""
    buffer = BytesIO()
    np.save(buffer, array, allow_pickle=False)
    archive.writestr(name, buffer.getbuffer(), zipfile.ZIP_DEFLATED)


def read_schema(path: Path, archive: zipfile.ZipFile) -> Node:
    """Return the description of an archive's objects, with the present modules of classes that have moved."""
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


def _nodes(part: Any) -> Iterator[Node]:
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

    def plan(self, node: Any) -> Build:
        """Return a function that builds the object of a node; nodes with the same ``__id__`` are one object."""
        node = _checked(node, dict)
        loader = _field(node, "__loader__", str)
        if loader not in _LOADERS:
            raise OtherTypeError(loader)
        _require(node, *_LOADERS[loader].types)
        number = _field(node, "__id__", int)
        if number not in self.planned:
            self.planned[number] = None
            self.planned[number] = cache(_LOADERS[loader].plan(self, node))
        build = self.planned[number]
        if build is None:
            raise ValueError(f"{_name(node)} contains itself")
        return build

    def items(self, node: Node) -> list[Build]:
        """Return the functions that build the items of a list."""
        return [self.plan(one) for one in _field(node, "content", list)]


class _Writer:
    """Makes the nodes of an archive, and collects the arrays to write by the names of their files.

    ``nodes`` are by the `id` of their objects (None while an object's parts are given theirs), which ``held`` keeps
    unique. ``types`` are the nodes of the types of keys; as values, types are left to skops.
    """

    def __init__(self) -> None:
        self.arrays: dict[str, Array | np.generic] = {}
        self.nodes: dict[int, Node | None] = {}
        self.types: dict[type, Node] = {}
        self.held: list[Any] = []

    def node(self, value: Any) -> Node:
        """Return the node of an object, the same one wherever the object occurs."""
        if id(value) not in self.nodes:
            kind = str if type(value) in _PLAIN else type(value)
            loader = next((name for name, one in _LOADERS.items() if _type_name(kind) in one.types), None)
            if loader is None:
                raise OtherTypeError(_type_name(kind))
            self.nodes[id(value)] = None
            number = self.number(value)
            self.nodes[id(value)] = _new(kind, loader, number, **_LOADERS[loader].content(self, value, number))
        made = self.nodes[id(value)]
        if made is None:
            raise OtherTypeError(f"{_type_name(type(value))} that contains itself")
        return made

    def number(self, value: Any) -> int:
        """Return a number for an object, and keep the object."""
        self.held.append(value)
        return len(self.held)

    def type_node(self, kind: type) -> Node:
        """Return the node of the type of a key."""
        if kind not in self.types:
            self.types[kind] = _new(kind, "TypeNode", self.number(kind))
        return self.types[kind]


def _new(kind: type, loader: str, number: int, **content: Any) -> Node:
    names = {"__class__": kind.__name__, "__module__": kind.__module__, "__loader__": loader}
    return {**names, **content, "__id__": number}


def _read_plain(reader: _Reader, node: Node) -> Build:
    value = json.loads(_field(node, "content", str))
    if type(value) not in _PLAIN:
        raise ValueError(f"a plain value must be a number or text, got {type(value).__name__}")
    return lambda: value


def _write_plain(writer: _Writer, value: Any, number: int) -> Node:
    return {"content": json.dumps(value), "is_json": True}


def _read_items(reader: _Reader, node: Node) -> Build:
    kind, items = list if _name(node) == "builtins.list" else tuple, reader.items(node)
    return lambda: kind(build() for build in items)


def _write_items(writer: _Writer, value: list[Any] | tuple[Any, ...], number: int) -> Node:
    return {"content": [writer.node(one) for one in value]}


def _read_dict(reader: _Reader, node: Node) -> Build:
    kind = _DICTS[_name(node)]
    content = _field(node, "content", dict)
    keys = [convert(key) for convert, key in zip(_key_types(node), content, strict=True)]
    values = [reader.plan(value) for value in content.values()]
    return lambda: kind((key, build()) for key, build in zip(keys, values, strict=True))


def _key_types(node: Node) -> list[Callable[[str], Any]]:
    """Return the functions that convert the keys of a dictionary, which are text in JSON."""
    kinds = _field(node, "key_types", dict)
    _require(kinds, "builtins.list")
    return [_KEYS[_require(_checked(one, dict), *_KEYS)] for one in _field(kinds, "content", list)]


def _write_dict(writer: _Writer, value: dict[Any, Any], number: int) -> Node:
    content = {}
    for key, one in value.items():
        if _type_name(type(key)) not in _KEYS:
            raise OtherTypeError(_type_name(type(key)))
        plain = key.item() if isinstance(key, np.generic) else key
        content[plain if isinstance(plain, str) else json.dumps(plain)] = writer.node(one)
    if len(content) < len(value):  # as of the keys 1 and "1"
        raise OtherTypeError("keys of a dictionary that are the same as text")
    types = [writer.type_node(type(key)) for key in value]
    return {"content": content, "key_types": _new(list, "ListNode", writer.number(types), content=types)}


def _read_array(reader: _Reader, node: Node) -> Build:
    """Plan an array, a vector of objects such as labels of different types, or a NumPy scalar, stored as an array."""
    name = _name(node)
    if _field(node, "type", str) == "json":
        _require(node, "numpy.ndarray")
        if len(_field(_field(node, "shape", dict), "content", list)) != 1:
            raise OtherTypeError("array of objects")
        items = reader.items(node)
        return lambda: vector_of([item() for item in items])
    array = read_array(reader.path, reader.archive, _field(node, "file", str))
    if name == "numpy.ndarray":
        return lambda: array
    if array.shape != () or array.dtype.type is not _SCALARS[name]:
        raise ValueError(f"{name} is stored as an array of {array.dtype} of shape {array.shape}")
    return lambda: array[()]


def _write_array(writer: _Writer, value: Array | np.generic, number: int) -> Node:
    if value.dtype == object and value.ndim == 1:
        return {**_write_items(writer, value.tolist(), number), "type": "json", "shape": writer.node(value.shape)}
    if value.dtype.hasobject:
        raise OtherTypeError(f"array of {value.dtype}")
    name = f"{number}.npy"
    writer.arrays[name] = value
    return {"type": "numpy", "file": name}


def _read_masked(reader: _Reader, node: Node) -> Build:
    content = _field(node, "content", dict)
    data, mask = reader.plan(content.get("data")), reader.plan(content.get("mask"))
    return lambda: np.ma.MaskedArray(data(), mask())


def _write_masked(writer: _Writer, value: Any, number: int) -> Node:
    return {"content": {"data": writer.node(value.data), "mask": writer.node(value.mask)}}


def _read_random_state(reader: _Reader, node: Node) -> Build:
    state = reader.plan(node.get("content"))

    def build() -> np.random.RandomState:
        generator = np.random.RandomState(0)
        generator.set_state(state())
        return generator

    return build


def _write_random_state(writer: _Writer, value: np.random.RandomState, number: int) -> Node:
    return {"content": writer.node(value.get_state(legacy=False))}


def _read_instance(reader: _Reader, node: Node) -> Build:
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


def _write_instance(writer: _Writer, value: Any, number: int) -> Node:
    state = value.__getstate__()
    if type(state) is not dict or any(type(name) is not str for name in state):
        raise OtherTypeError(f"state of {_type_name(type(value))}")
    return {"content": writer.node(state)}


class _Loader(NamedTuple):
    """What the nodes of a loader may be, how they are read, and what is written for them."""

    types: frozenset[str]
    plan: Callable[[_Reader, Node], Build]
    content: Callable[[_Writer, Any, int], Node]


_LOADERS: Mapping[str, _Loader] = {
    "JsonNode": _Loader(frozenset({"builtins.str"}), _read_plain, _write_plain),  # skops names all `_PLAIN` types so
    "ListNode": _Loader(frozenset({"builtins.list"}), _read_items, _write_items),
    "TupleNode": _Loader(frozenset({"builtins.tuple"}), _read_items, _write_items),
    "DictNode": _Loader(frozenset(_DICTS), _read_dict, _write_dict),
    "NdArrayNode": _Loader(frozenset({"numpy.ndarray", *_SCALARS}), _read_array, _write_array),
    "MaskedArrayNode": _Loader(
        frozenset({"numpy.ma.MaskedArray", "numpy.ma.core.MaskedArray"}), _read_masked, _write_masked
    ),
    "RandomStateNode": _Loader(frozenset({"numpy.random.mtrand.RandomState"}), _read_random_state, _write_random_state),
    "ObjectNode": _Loader(CLASSES, _read_instance, _write_instance),
}


def _require(node: Node, *names: str) -> str:
    """Return the type of a node; raise OtherTypeError if it is none of these."""
    name = _name(node)
    if name not in names:
        raise OtherTypeError(name)
    return name


def _name(node: Node) -> str:
    return f"{node.get('__module__')}.{node.get('__class__')}"


def _type_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__name__}"


def _field(node: Node, name: str, kind: type[T]) -> T:
    return _checked(node.get(name), kind, name)


def _checked(value: Any, kind: type[T], name: str = "a node") -> T:
    if type(value) is not kind:
        raise ValueError(f"{name} must be {kind.__name__}, is {type(value).__name__}")
    return value
