"""Write models to archives of skops without skops, whose import takes longer than a small fit.

The types are those that `archive` reads, and so is the format. All nodes are made before anything is written, so that
a model with any other type can be left to skops.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Mapping
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from ..runtime import Array
from .archive import KEYS, LOADERS, PLAIN, PROTOCOLS, SCHEMA, OtherTypeError

Node = dict[str, Any]

_LOADER_OF = {name: loader for loader, names in LOADERS.items() for name in names}


def write_archive(path: str | Path, value: Any) -> None:
    """Write an object to an archive that both `read_archive` and skops read.

    Raises OtherTypeError, before anything is written, if the object contains other types than those of `LOADERS`, or
    itself.
    """
    writer = _Writer()
    schema = writer.node(value) | {"protocol": PROTOCOLS[-1], "_skops_version": version("skops")}
    text = json.dumps(schema, indent=2)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in writer.arrays.items():
            buffer = BytesIO()
            np.save(buffer, array, allow_pickle=False)
            archive.writestr(name, buffer.getbuffer())
        archive.writestr(SCHEMA, text)


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
            kind = str if type(value) in PLAIN else type(value)
            loader = _LOADER_OF.get(_name(kind))
            if loader is None:
                raise OtherTypeError(_name(kind))
            self.nodes[id(value)] = None
            number = self.number(value)
            self.nodes[id(value)] = _new(kind, loader, number, **_CONTENTS[loader](self, value, number))
        made = self.nodes[id(value)]
        if made is None:
            raise OtherTypeError(f"{_name(type(value))} that contains itself")
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


def _plain(writer: _Writer, value: Any, number: int) -> Node:
    return {"content": json.dumps(value), "is_json": True}


def _items(writer: _Writer, value: list[Any] | tuple[Any, ...], number: int) -> Node:
    return {"content": [writer.node(one) for one in value]}


def _dict(writer: _Writer, value: dict[Any, Any], number: int) -> Node:
    content = {_text(key): writer.node(one) for key, one in value.items()}
    if len(content) < len(value):  # as of the keys 1 and "1"
        raise OtherTypeError("keys of a dictionary that are the same as text")
    types = [writer.type_node(type(key)) for key in value]
    return {"content": content, "key_types": _new(list, "ListNode", writer.number(types), content=types)}


def _text(key: Any) -> str:
    """Return the key of a dictionary as text; raise OtherTypeError if it could not be read back."""
    if _name(type(key)) not in KEYS:
        raise OtherTypeError(_name(type(key)))
    key = key.item() if isinstance(key, np.generic) else key
    return key if isinstance(key, str) else json.dumps(key)


def _array(writer: _Writer, value: Array | np.generic, number: int) -> Node:
    if value.dtype == object and value.ndim == 1:
        return {**_items(writer, value.tolist(), number), "type": "json", "shape": writer.node(value.shape)}
    if value.dtype.hasobject:
        raise OtherTypeError(f"array of {value.dtype}")
    name = f"{number}.npy"
    writer.arrays[name] = value
    return {"type": "numpy", "file": name}


def _masked(writer: _Writer, value: Any, number: int) -> Node:
    return {"content": {"data": writer.node(value.data), "mask": writer.node(value.mask)}}


def _random_state(writer: _Writer, value: np.random.RandomState, number: int) -> Node:
    return {"content": writer.node(value.get_state(legacy=False))}


def _instance(writer: _Writer, value: Any, number: int) -> Node:
    state = value.__getstate__()
    if type(state) is not dict or any(type(name) is not str for name in state):
        raise OtherTypeError(f"state of {_name(type(value))}")
    return {"content": writer.node(state)}


_CONTENTS: Mapping[str, Callable[[_Writer, Any, int], Node]] = {
    "JsonNode": _plain,
    "ListNode": _items,
    "TupleNode": _items,
    "DictNode": _dict,
    "NdArrayNode": _array,
    "MaskedArrayNode": _masked,
    "RandomStateNode": _random_state,
    "ObjectNode": _instance,
}


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__name__}"
