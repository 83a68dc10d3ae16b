"""Read and write models as archives of plain nodes: objects, arrays, numbers, text, lists, tuples and dictionaries.

An archive holds ``schema.json``, a tree of nodes that each name a loader and a type, and one ``.npy`` file per array.
Reading makes each node once, calls nothing that the file names, and takes classes from declarations only
(`tensormargin.data.fitted`, `other_classes`). Their objects are made without their constructors, and checked
together when all of them are there.
"""

from __future__ import annotations

import json
import zipfile
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ..data import BadFileError, fitted, vector_of
from ..runtime import Array
from . import other_classes  # noqa: F401 - declares them
from .arrays import npy_header

SCHEMA = "schema.json"
TEXT_BYTES = 2**26  # most bytes of a member with text
_PROTOCOL = 2  # of the format; the nodes are the same in 0 and 1
_SCALARS = (str, int, float, bool, type(None))  # types of single values, which are stored as JSON
_TRUTH = {"true": True, "false": False}  # keys of a dict are text in JSON; bool("false") would be True
_NUMPY_TYPES: tuple[type[np.generic], ...] = (
    np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64,
    np.float16, np.float32, np.float64, np.str_,
)  # fmt: skip
_KEYS: Mapping[str, Callable[[str], Any]] = {  # types of keys, with the functions that restore them from text
    "builtins.str": str,
    "builtins.int": int,
    "builtins.float": float,
    "builtins.bool": _TRUTH.__getitem__,
    **{f"numpy.{kind.__name__}": kind for kind in _NUMPY_TYPES},
}
_LOADERS: Mapping[str, Mapping[str, type]] = {  # types by name; all scalars are JSON under the name of text
    "JsonNode": {"builtins.str": str},
    "ListNode": {"builtins.list": list},
    "TupleNode": {"builtins.tuple": tuple},
    "DictNode": {"builtins.dict": dict, "collections.OrderedDict": OrderedDict},
    "NdArrayNode": {"numpy.ndarray": np.ndarray, **{f"numpy.{one.__name__}": one for one in (*_NUMPY_TYPES, np.bool_)}},
    "MaskedArrayNode": dict.fromkeys(("numpy.ma.MaskedArray", "numpy.ma.core.MaskedArray"), np.ma.MaskedArray),
}
_LONGEST = 500  # characters of a message that quotes a file
_MOST_PARTS = 2**22  # of a model if it were written without references, so that nothing walks over it for ever
_UNPACKED_BYTES = 2**30
_UNPACKED_RATIO = 100  # of a larger model: weights hardly compress, and masks of zeros are small

Node = dict[str, Any]
T = TypeVar("T")


def read_archive(path: str | Path) -> Any:
    """Return the fitted model in an archive; raise an error if it is damaged, or not as its classes declare."""
    path = Path(path)
    with zipfile.ZipFile(path) as archive:
        _check_members(path, archive)
        schema = _checked(json.loads(read_member(path, archive, SCHEMA)), dict)
        if _field(schema, "protocol", int) not in range(_PROTOCOL + 1):
            raise ValueError(f"protocol {schema['protocol']} is unknown")
        model, _ = _Reader(path, archive).read(schema)
    for made in fitted.check_attributes(model):
        if hasattr(made, "__setstate__"):  # scikit-learn's warns of other versions
            state = dict(vars(made))
            vars(made).clear()
            made.__setstate__(state)
    return model


def write_archive(path: str | Path, model: Any) -> None:
    """Write a fitted model; raise an error, before writing, if it is not as its classes declare."""
    fitted.check_attributes(model, lambda one: one.__getstate__())
    writer = _Writer()
    text = json.dumps(writer.node(model) | {"protocol": _PROTOCOL})  # indented, writing would take five times as long
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


def read_array(path: Path, archive: zipfile.ZipFile, name: str) -> Array:
    """Return a member with an array, which holds no objects."""
    shape, in_fortran_order, dtype, begin = npy_header(path, archive, archive.getinfo(name))
    if dtype.hasobject or not dtype.itemsize:
        raise ValueError(f"{name} must hold numbers or text, holds {dtype}")
    with archive.open(name) as file:  # NumPy's own function would parse the header again
        entries = np.frombuffer(bytearray(memoryview(file.read())[begin:]), dtype)
    return entries.reshape(shape, order="F" if in_fortran_order else "C")


def write_array(archive: zipfile.ZipFile, name: str, array: Any) -> None:
    """Add a compressed member with an array."""
    buffer = BytesIO()
    np.save(buffer, array, allow_pickle=False)
    archive.writestr(name, buffer.getbuffer(), zipfile.ZIP_DEFLATED)


@cache
def class_named(name: str) -> type | None:
    """Return the class that files give this name; None if it has no declaration.

    Classes of this package are found by their own name among its public ones, whatever module they were in before.
    """
    module, _, last = name.rpartition(".")
    if name in fitted.ELSEWHERE:
        return getattr(import_module(module), last)
    for place in ("tensormargin", "tensormargin.transformers") if module.startswith("tensormargin.") else ():
        public = import_module(place)
        kind = getattr(public, last) if last in dir(public) else None
        if isinstance(kind, type) and fitted.declaration_of(kind) is not None:
            return kind
    return None


class _Reader:
    """Makes the values of the nodes of an archive.

    ``made`` has each value with the number of its parts, by the ``__id__`` of its node; None while these are made.
    """

    def __init__(self, path: Path, archive: zipfile.ZipFile) -> None:
        self.path = path
        self.archive = archive
        self.made: dict[int, tuple[Any, int] | None] = {}

    def read(self, node: Any) -> tuple[Any, int]:
        """Return the value of a node, and the number of its parts; nodes with the same ``__id__`` are one value."""
        node = _checked(node, dict)
        number = _field(node, "__id__", int)
        if number not in self.made:
            self.made[number] = None
            value, n_parts = self._value(node)
            if n_parts > _MOST_PARTS:
                raise ValueError(f"it has more than {_MOST_PARTS} parts, most of them again and again")
            self.made[number] = value, n_parts
        found = self.made[number]
        if found is None:
            raise ValueError(f"{_name(node)} contains itself")
        return found

    def _value(self, node: Node) -> tuple[Any, int]:
        loader, name = _field(node, "__loader__", str), _name(node)
        kind = class_named(name) if loader == "ObjectNode" else _LOADERS.get(loader, {}).get(name)
        if kind is None:
            raise fitted.UndeclaredError(f"{name} (as {loader}), which a model of tensormargin does not have")
        if loader == "ObjectNode":
            return self._object(node, kind)
        if loader == "JsonNode":
            value = json.loads(_field(node, "content", str))
            return _checked(value, type(value) if type(value) in _SCALARS else str), 1
        if loader in ("ListNode", "TupleNode"):
            items, n_parts = self._items(node)
            return kind(items), n_parts
        if loader == "DictNode":
            content = _field(node, "content", dict)
            keys = [convert(key) for convert, key in zip(_key_types(node), content, strict=True)]
            read = [self.read(part) for part in content.values()]
            return kind(zip(keys, [one for one, _ in read], strict=True)), 1 + sum(size for _, size in read)
        return self._array(node, kind)

    def _items(self, node: Node) -> tuple[list[Any], int]:
        read = [self.read(part) for part in _field(node, "content", list)]
        return [value for value, _ in read], 1 + sum(n_parts for _, n_parts in read)

    def _array(self, node: Node, kind: Any) -> tuple[Any, int]:
        """Return an array, a vector of objects such as labels of different types, a masked array or a scalar."""
        if kind is np.ma.MaskedArray:
            content = _field(node, "content", dict)
            (data, n_parts), (mask, _) = self.read(content.get("data")), self.read(content.get("mask"))
            if not isinstance(mask, np.ndarray) or not isinstance(data, np.ndarray) or mask.shape != data.shape:
                raise ValueError("a masked array must have a mask of its shape")
            return kind(data, mask), n_parts
        if kind is np.ndarray and _field(node, "type", str) == "json":
            items, n_parts = self._items(node)
            return vector_of(items), n_parts
        array = read_array(self.path, self.archive, _field(node, "file", str))
        if kind is np.ndarray:
            return array, 1
        if array.shape != () or array.dtype.type is not kind:
            raise ValueError(f"{_name(node)} is stored as an array of {array.dtype} of shape {array.shape}")
        return array[()], 1

    def _object(self, node: Node, kind: type) -> tuple[Any, int]:
        """Return an object of a declared class, with its attributes and without a call of ``__init__``."""
        content, declared = _field(node, "content", dict), fitted.declaration_of(kind)
        if declared is None or content.get("__loader__") != "DictNode" or set(_key_types(content)) - {str}:
            raise ValueError(f"the state of {kind.__name__} must be a dict of attributes")
        state, n_parts = dict[str, Any](), 1
        for name, part in _field(content, "content", dict).items():
            is_json = isinstance(part, dict) and part.get("__loader__") == "JsonNode"
            if is_json or declared.is_stored(name, part):
                value, more = self.read(part)
                n_parts += more
                state |= {name: value} if declared.is_stored(name, value) else {}
        if hasattr(kind, "_since_earlier_versions"):
            state = kind._since_earlier_versions(state)
        made: Any = object.__new__(kind)
        vars(made).update(state | {name: one for name, one in declared.defaults.items() if name not in state})
        return made, n_parts


class _Writer:
    """Makes the nodes of a checked model, and collects its arrays by the names of their files.

    ``numbers`` are by the `id` of values, which ``held`` keeps unique; ``open`` are those of values in the making.
    A value that occurs again is written without its content.
    """

    def __init__(self) -> None:
        self.arrays: dict[str, Array | np.generic] = {}
        self.numbers: dict[int, int] = {}
        self.held: list[Any] = []
        self.open: set[int] = set()

    def node(self, value: Any) -> Node:
        """Return the node of a value."""
        kind = str if type(value) in _SCALARS else type(value)
        if id(value) in self.open:
            raise ValueError(f"a {kind.__name__} must not contain itself")
        again, number = id(value) in self.numbers, self.number(value)
        name = _type_name(kind)
        loader = next((loader for loader, types in _LOADERS.items() if name in types), "ObjectNode")
        if loader == "ObjectNode" and class_named(name) is not kind:
            raise fitted.UndeclaredError(f"it is of class {name}")
        self.open.add(id(value))
        content = {} if again and kind is not str else self._content(value, loader, number)
        self.open.remove(id(value))
        return {**_names(kind, loader), **content, "__id__": number}

    def number(self, value: Any) -> int:
        """Return the number of a value, and keep the value."""
        self.held.append(value)
        return self.numbers.setdefault(id(value), len(self.held))

    def _content(self, value: Any, loader: str, number: int) -> Node:
        if loader == "JsonNode":
            return {"content": json.dumps(value), "is_json": True}
        if loader in ("ListNode", "TupleNode"):
            return {"content": [self.node(one) for one in value]}
        if loader == "DictNode":
            return self._of_dict(value)
        if loader == "MaskedArrayNode":
            return {
                "content": {
                    "data": self.node(value.data),
                    "mask": self.node(np.broadcast_to(value.mask, value.shape).copy()),
                }
            }
        if loader == "ObjectNode":
            declared: Any = fitted.declaration_of(type(value))
            state = {name: one for name, one in value.__getstate__().items() if declared.is_stored(name, one)}
            return {"content": {**_names(dict, "DictNode"), **self._of_dict(state), "__id__": self.number(state)}}
        if value.dtype == object:
            shape = self.node(value.shape)
            return {"content": [self.node(one) for one in value.tolist()], "type": "json", "shape": shape}
        name = f"{number}.npy"
        self.arrays[name] = value
        return {"type": "numpy", "file": name}

    def _of_dict(self, value: dict[Any, Any]) -> Node:
        keys = [key.item() if isinstance(key, np.generic) else key for key in value]
        names = [key if isinstance(key, str) else json.dumps(key) for key in keys]
        if len(set(names)) < len(names) or {_type_name(type(key)) for key in value} - _KEYS.keys():
            raise ValueError("keys of a dictionary must be numbers or text, and must not be the same as text")
        kinds = [{**_names(type(key), "TypeNode"), "__id__": self.number(type(key))} for key in value]
        types = {**_names(list, "ListNode"), "content": kinds, "__id__": self.number(kinds)}
        return {"content": dict(zip(names, map(self.node, value.values()), strict=True)), "key_types": types}


def _key_types(node: Node) -> list[Callable[[str], Any]]:
    """Return the functions that convert the keys of a dictionary, which are text in JSON."""
    kinds = [_name(_checked(kind, dict)) for kind in _field(_field(node, "key_types", dict), "content", list)]
    unknown = [name for name in kinds if name not in _KEYS]
    if unknown:
        raise fitted.UndeclaredError(f"keys of type {unknown[0]}, which a model of tensormargin does not have")
    return [_KEYS[name] for name in kinds]


def _names(kind: type, loader: str) -> Node:
    return {"__class__": kind.__name__, "__module__": kind.__module__, "__loader__": loader}


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
