"""MATLAB 5 files (MATLAB 5 to 7), read in Python.

SciPy's reader does not say in which type numbers are stored before it has read all of them (`whosmat` tells their
class), takes memory before anything can limit it, crashes on some damaged files, and would have to run in the reader
process, which takes longer to start than most files to read.
"""

from __future__ import annotations

import mmap
import struct
import zlib
from collections.abc import Callable, Iterator
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...data import MOST_DEPTH, BadFileError, FileRules, check_members, vector_of
from ...runtime import quoted
from .entries import Entry, entry_of, unusable, variable
from .messages import Array

_HEADER = 128
_MATRIX, _COMPRESSED = 14, 15
_TYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_ENCODINGS = {1: "latin-1", 2: "latin-1", 3: "utf-16", 4: "utf-16", 16: "utf-8", 17: "utf-16", 18: "utf-32"}
_CELL, _STRUCT, _CHAR, _OPAQUE, _NUMBERS = 1, 2, 4, 17, range(6, 16)
_COMPLEX = 0x800
_PEEK = 4096  # flags, sizes and name of a variable are at its beginning
_MOST_AXES = 32
_MOST_NAME = 1024  # characters in the name of a field
_CHARACTER_BYTES = 64
_VALUE_BYTES = 128  # of a Python object that stands for a cell or a field
_KEPT_BYTES = 2**20  # larger fields of a structure are read again when they are asked for


class _Variable(NamedTuple):
    """Flags, sizes and name of a variable; its contents begin at ``begin``."""

    kind: int
    is_complex: bool
    shape: tuple[int, ...]
    name: str
    begin: int


class _Element(NamedTuple):
    """A variable as it lies in the file: its bytes, and whether they are compressed."""

    content: memoryview
    packed: bool


def list_variables(path: Path, only: str | None, rules: FileRules) -> dict[str, Entry]:
    """Return descriptions of the variables, and the values of text and cells; fields of structures are "a/b"."""
    memory, order = _opened(path)
    wanted = None if only is None else only.partition("/")[0]
    found: dict[str, Entry] = {}
    for element in _elements(memory, order):
        parts = _Parts(_beginning(element), order)
        head = parts.variable()
        if not head.name or wanted not in (None, head.name):
            continue
        if head.kind in _NUMBERS:  # not read yet
            found[head.name] = _numbers_entry(head.name, head, parts)
        elif head.kind in (_CELL, _STRUCT, _CHAR):
            found |= _contents(path, head.name, element, order, rules)
        else:
            found[head.name] = variable(head.name, None)
    return found if only is None else {name: found[name] for name in found if name == only}


def read_variable(path: Path, name: str, where: tuple[slice, ...], rules: FileRules) -> Array:
    """Return a variable of numbers or such a field of a structure, or the part given by slices."""
    memory, order = _opened(path)
    first, *inner = name.split("/")
    found = None
    for element in _elements(memory, order):
        if _Parts(_beginning(element), order).variable().name in (name, first):
            found = element
    if found is None:
        raise ValueError(f"it has no variable {quoted(name)} any more")
    parts = _Parts(_whole(path, name, found, order, rules), order)
    for field in inner if parts.variable().kind == _STRUCT else ():
        parts = next(own for one, own in parts.fields(parts.variable()) if one == field)
    values: Array = parts.value(parts.variable(), 0)
    return values[where]


def _contents(path: Path, name: str, element: _Element, order: str, rules: FileRules) -> dict[str, Entry]:
    """Return text, cells, or the fields of a structure; one that is too large does not keep others from being read."""
    n_bytes = 0

    def take(more: int) -> None:
        """Count what Python objects take, which may be far more than their bytes in the file."""
        nonlocal n_bytes
        n_bytes += more
        rules.admit(path, n_bytes, quoted(name), len(element.content), n_bytes - more)

    try:
        parts = _Parts(_whole(path, name, element, order, rules), order, take)
        return _described(path, name, parts, 0) or {name: variable(name, None)}
    except BadFileError as error:
        return {name: unusable(str(error).removeprefix(f"{path}: "))}


def _described(path: Path, name: str, parts: _Parts, depth: int) -> dict[str, Entry]:
    """Return what a variable within a structure holds, by name."""
    check_members(path, 0, depth)
    head = parts.variable() if len(parts.content) else None
    if head is None:
        return {name: variable(name, np.array([]))}
    if head.kind == _STRUCT and prod(head.shape) == 1:
        found: dict[str, Entry] = {}
        for field, own in parts.fields(head):
            found |= _described(path, f"{name}/{field}", own, depth + 1)
            check_members(path, len(found), 0)
        return found
    if head.kind == _STRUCT:  # an array of structures: one cell per element and field
        return {
            f"{name}/{field}": variable(f"{name}/{field}", cells) for field, cells in parts.columns(head, depth).items()
        }
    if head.kind in _NUMBERS and len(parts.content) > _KEPT_BYTES:
        return {name: _numbers_entry(name, head, parts)}
    return {name: variable(name, parts.value(head, depth))}


def _numbers_entry(name: str, head: _Variable, parts: _Parts) -> Entry:
    code = _TYPES.get(parts.tag(head.begin)[0])
    if code is None:
        raise ValueError(f"{quoted(name)} holds numbers of an unknown type")
    return entry_of(name, head.shape, np.result_type(code, np.complex64) if head.is_complex else np.dtype(code))


def _opened(path: Path) -> tuple[memoryview, str]:
    """Return the bytes of a file, and their order."""
    with path.open("rb") as file:
        memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)  # closed with the last of its views
    order = {b"IM": "<", b"MI": ">"}.get(memory[_HEADER - 2 : _HEADER])
    if order is None:
        raise ValueError("it does not begin with the header of a MATLAB 5 file")
    return memoryview(memory), order


def _elements(memory: memoryview, order: str) -> Iterator[_Element]:
    """Yield the variables of a file."""
    place = _HEADER
    while place < len(memory):
        if place + 8 > len(memory):
            raise ValueError("cut short")
        kind, length = struct.unpack_from(order + "II", memory, place)
        place += 8
        if place + length > len(memory) or not length:
            raise ValueError("cut short")
        if kind not in (_MATRIX, _COMPRESSED):
            raise ValueError(f"it has an element of the unknown type {kind}")
        yield _Element(memory[place : place + length], kind == _COMPRESSED)
        place += length


def _beginning(element: _Element) -> memoryview:
    """Return the first bytes of a variable."""
    if not element.packed:
        return element.content
    return memoryview(zlib.decompressobj().decompress(element.content[:_PEEK], _PEEK))[8:]


def _whole(path: Path, name: str, element: _Element, order: str, rules: FileRules) -> memoryview:
    """Return all bytes of a variable; the checksum of compressed ones must be right."""
    if not element.packed:
        rules.admit(path, len(element.content), quoted(name))
        return element.content
    unpack = zlib.decompressobj()
    first = unpack.decompress(element.content, 8)
    kind, length = struct.unpack(order + "II", first)
    if kind != _MATRIX:
        raise ValueError(f"it has an element of the unknown type {kind}")
    rules.admit(path, 2 * length, quoted(name), len(element.content))
    content = unpack.decompress(unpack.unconsumed_tail, length) if length else b""
    unpack.decompress(unpack.unconsumed_tail, 1)
    if len(content) < length or not unpack.eof:
        raise ValueError("the length of a compressed variable is wrong")
    return memoryview(content)


class _Parts:
    """The parts of a variable, each with its type and length before it; every place is checked."""

    def __init__(self, content: memoryview, order: str, take: Callable[[int], None] | None = None) -> None:
        self.content, self.order, self.take = content, order, take or (lambda n_bytes: None)

    def tag(self, place: int) -> tuple[int, int, int, int]:
        """Return type and place of a part, its length, and where the next one begins."""
        if place + 8 > len(self.content):
            raise ValueError("cut short")
        first, length = struct.unpack_from(self.order + "II", self.content, place)
        if first >> 16:  # up to four bytes are in the tag itself
            first, length, begin, after = first & 0xFFFF, first >> 16, place + 4, place + 8
        else:
            begin, after = place + 8, place + 8 + -(-length // 8) * 8
        return first, begin, length, after

    def part(self, place: int) -> tuple[int, memoryview, int]:
        """Return type and bytes of a part, and where the next one begins."""
        kind, begin, length, after = self.tag(place)
        if begin + length > len(self.content) or (after == place + 8 and length > 4 and begin == place + 4):
            raise ValueError("cut short")
        return kind, self.content[begin : begin + length], after

    def variable(self, place: int = 0) -> _Variable:
        """Return the description of a variable."""
        kind, flags, place = self.part(place)
        if kind != 6 or len(flags) != 8:
            raise ValueError("a variable does not begin with its flags")
        (bits,) = struct.unpack_from(self.order + "I", flags)
        shape: tuple[int, ...] = ()
        if bits & 0xFF != _OPAQUE:  # an object, which has no sizes
            kind, sizes, place = self.part(place)
            if kind != 5 or len(sizes) % 4 or not 1 <= len(sizes) // 4 <= _MOST_AXES:
                raise ValueError("a variable has no sizes")
            shape = struct.unpack(f"{self.order}{len(sizes) // 4}i", sizes)
            if min(shape) < 0:
                raise ValueError(f"a variable has the sizes {shape}")
        kind, name, place = self.part(place)
        if kind not in (1, 2, 16):
            raise ValueError("a variable has no name")
        return _Variable(bits & 0xFF, bool(bits & _COMPLEX), shape, bytes(name).decode("latin-1"), place)

    def value(self, head: _Variable, depth: int) -> Any:
        """Return numbers and text as an array, cells as an object array, and None for everything else."""
        if head.kind in _NUMBERS:
            real, after = self._numbers(head.begin, head.shape)
            return real + 1j * self._numbers(after, head.shape)[0] if head.is_complex else real
        if head.kind == _CHAR:
            return self._text(head)
        return self._cells(head, depth) if head.kind == _CELL else None

    def _numbers(self, place: int, shape: tuple[int, ...]) -> tuple[Array, int]:
        kind, content, after = self.part(place)
        self.take(_VALUE_BYTES + len(content))
        dtype = np.dtype(self.order + _TYPES[kind]) if kind in _TYPES else None
        if dtype is None or prod(shape) * dtype.itemsize != len(content):
            raise ValueError(f"an array of shape {shape} has {len(content)} bytes of the type {kind}")
        return np.frombuffer(content, dtype).reshape(shape, order="F").astype(dtype.newbyteorder("=")), after

    def _text(self, head: _Variable) -> Array:
        """Return text, one entry per row."""
        if not prod(head.shape):
            return np.array([], str)
        kind, content, _ = self.part(head.begin)
        self.take(_VALUE_BYTES + _CHARACTER_BYTES * len(content))
        encoding = _ENCODINGS.get(kind)
        if encoding is None:
            raise ValueError(f"a text has the unknown type {kind}")
        ends = {"<": "-le", ">": "-be"}[self.order] if kind not in (1, 2, 16) else ""
        text = bytes(content).decode(encoding + ends)
        *rows, length = head.shape
        if prod(rows) == 1:  # the length counts units of the encoding
            return np.array(text).reshape(rows)
        if len(text) != prod(head.shape):
            raise ValueError(f"a text of shape {head.shape} has {len(text)} characters")
        letters = np.array(list(text)).reshape(head.shape, order="F").reshape(-1, length)
        return np.array(["".join(row) for row in letters.tolist()]).reshape(rows)

    def _cells(self, head: _Variable, depth: int) -> Array:
        number, place = prod(head.shape), head.begin
        if depth >= MOST_DEPTH or number > len(self.content) // 8:
            raise ValueError(f"cells must be nested at most {MOST_DEPTH} deep, and have 8 bytes or more each")
        self.take(_VALUE_BYTES * number)
        cells = np.empty(number, object)
        for position in range(number):
            parts, place = self._inner(place)
            cells[position] = parts.cell(depth + 1)
        return cells.reshape(head.shape, order="F")

    def cell(self, depth: int) -> Any:
        """Return the value of a cell or field, which has no bytes if it is empty."""
        return self.value(self.variable(), depth) if len(self.content) else np.array([])

    def _inner(self, place: int) -> tuple[_Parts, int]:
        """Return a variable within this one, and where the next one begins."""
        kind, content, after = self.part(place)
        if kind != _MATRIX:
            raise ValueError("a cell or field is not an array")
        return _Parts(content, self.order, self.take), after

    def fields(self, head: _Variable) -> Iterator[tuple[str, _Parts]]:
        """Yield names and contents of the fields of a structure, those of an array of them element by element."""
        kind, size, place = self.part(head.begin)
        if kind != 5 or len(size) != 4:
            raise ValueError("a structure does not say how long its names are")
        (length,) = struct.unpack(self.order + "i", size)
        kind, text, place = self.part(place)
        if kind not in (1, 2) or not 0 < length <= _MOST_NAME or len(text) % length:
            raise ValueError("a structure has no names")
        names = [bytes(text[at : at + length]).partition(b"\0")[0] for at in range(0, len(text), length)]
        if prod(head.shape) * len(names) > len(self.content) // 8:
            raise ValueError("a structure must have 8 bytes or more per field")
        self.take(_VALUE_BYTES * prod(head.shape) * len(names))
        for _ in range(prod(head.shape)):
            for name in names:
                parts, place = self._inner(place)
                yield name.decode("latin-1"), parts

    def columns(self, head: _Variable, depth: int) -> dict[str, Array]:
        """Return the fields of an array of structures, each as cells with one value per element."""
        found: dict[str, list[Any]] = {}
        for name, parts in self.fields(head):
            found.setdefault(name, []).append(parts.cell(depth + 1))
        return {name: vector_of(values) for name, values in found.items()}
