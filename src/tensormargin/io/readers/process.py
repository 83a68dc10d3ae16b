"""Run parsers of native code in a process of their own, so that no file can end the process that reads it.

The process (`main`) is started once, and serves all further files, within limits on memory and time. After a crash, or
if a file takes too much of these, it is replaced. It ends with its standard input. Messages are JSON, with arrays
beside it: nothing is ever unpickled.
"""

from __future__ import annotations

import atexit
import json
import mmap
import os
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import warnings
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from importlib import import_module
from math import prod
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

import numpy as np

from ...data import BadFileError, DamagedFileError, FileRules, blaming_the_system, lacks_memory, on_admission
from ...runtime import Array, available_bytes, shortened, used_data_bytes

_BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from tensormargin.io.readers.process import main; main()"
)
_TOO_LONG = ("SIGXCPU", "SIGALRM")
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
_BASE_BYTES = 2**29  # for libraries, and what they need beside the arrays that they announce
_STEP_BYTES = 2**24
_COPIES = 3  # of an array that a parser may make
_BASE_SECONDS, _BYTES_PER_SECOND = 8, 2 * 10**6  # of processor time
_PATIENCE = 15  # waiting time per processor time: disks and networks may be slow

_INLINE_BYTES = 2**18  # arrays up to here are sent through the pipe, larger ones in shared memory
_ALIGNMENT = 64
_TAG = "tensormargin-"


class ParserFailedError(Exception):
    """Raised if a parser crashed, or took too much time or memory."""


class ParserMemoryError(ParserFailedError, MemoryError):
    """Raised if a parser had too little memory."""


class Shared:
    """Memory that another process maps by its path: of no file on Linux and Windows, a temporary file elsewhere."""

    def __init__(self, n_bytes: int) -> None:
        self.handle = -1
        if sys.platform == "win32":
            self.path = f"{_TAG}{uuid4().hex}:{n_bytes}"
            self.memory = mmap.mmap(-1, n_bytes, tagname=self.path)
            return
        if hasattr(os, "memfd_create"):
            self.handle = os.memfd_create("samples")
            self.path = f"/proc/{os.getpid()}/fd/{self.handle}"
        else:
            self.handle, self.path = tempfile.mkstemp(prefix="tensormargin-", suffix=".part")
        os.ftruncate(self.handle, n_bytes)
        self.memory = _map(self.handle, n_bytes)

    def close(self) -> None:
        """Forget the memory; who mapped it still has it."""
        if self.handle >= 0:
            os.close(self.handle)


class Allocator:
    """Makes arrays in shared memory, so that they can be sent without a copy."""

    def __init__(self) -> None:
        self.made: list[tuple[Array, Shared]] = []

    def empty(self, shape: Sequence[int], dtype: Any) -> Array:
        """Return an array without contents."""
        dtype = np.dtype(dtype)
        n_bytes = prod(shape) * dtype.itemsize
        if n_bytes <= _INLINE_BYTES or dtype.hasobject:
            return np.empty(shape, dtype)
        shared = Shared(n_bytes)
        array = np.ndarray(tuple(shape), dtype, shared.memory)
        self.made.append((array, shared))
        return array

    def find(self, array: Array) -> Shared | None:
        """Return the shared memory of an array that was made here, or of its transpose."""
        place = (_address(array), array.nbytes)
        return next((shared for made, shared in self.made if (_address(made), made.nbytes) == place), None)

    def clear(self) -> None:
        """Forget all arrays."""
        for _, shared in self.made:
            shared.close()
        self.made.clear()


def _address(array: Array) -> int:
    return int(array.__array_interface__["data"][0])


ALLOCATOR = Allocator()
"""Of this process; what it has made is kept until it is told that the other process has mapped it."""


def write_message(stream: IO[bytes], content: Any) -> None:
    """Send dictionaries, lists, tuples, text, numbers, paths, slices, rules and arrays."""
    arrays: list[Array] = []
    body = _encoded(content, arrays)
    shared = [ALLOCATOR.find(array) for array in arrays]
    copied = [array for array, there in zip(arrays, shared, strict=True) if there is None]
    starts, total = _places(copied)
    pool = Shared(total) if total > _INLINE_BYTES else None
    notes, places = [], iter(starts)
    for array, there in zip(arrays, shared, strict=True):
        path, start = (there.path, 0) if there else (pool.path if pool else None, next(places))
        if pool is not None and there is None:
            np.ndarray(array.shape, array.dtype, pool.memory, start)[...] = array
        notes.append([list(array.shape), array.dtype.str, path, start])
    head = json.dumps({"body": body, "arrays": notes, "inline": 0 if pool else total}).encode()
    stream.write(struct.pack("<Q", len(head)) + head)
    if pool is None and total:
        inline = bytearray(total)
        for array, start in zip(copied, starts, strict=True):
            np.ndarray(array.shape, array.dtype, inline, start)[...] = array
        stream.write(inline)
    stream.flush()
    if pool is not None:
        ALLOCATOR.made.append((np.empty(0), pool))


def read_message(stream: IO[bytes]) -> Any:
    """Return what was sent; raise EOFError at the end of the stream."""
    (length,) = struct.unpack("<Q", _exactly(stream, 8))
    head = json.loads(_exactly(stream, length))
    inline = bytearray(_exactly(stream, head["inline"]))
    mapped: dict[str, mmap.mmap] = {}
    arrays = []
    for shape, dtype, path, start in head["arrays"]:
        memory = inline if path is None else mapped.setdefault(path, mapped.get(path) or _mapped(path))
        arrays.append(np.ndarray(tuple(shape), np.dtype(dtype), memory, start))
    return _decoded(head["body"], arrays)


def _mapped(path: str) -> mmap.mmap:
    """Return shared memory of another process."""
    if sys.platform == "win32":
        return mmap.mmap(-1, int(path.rpartition(":")[2]), tagname=path)
    with open(path, "r+b") as file:
        memory = _map(file.fileno(), 0)
    if not path.startswith("/proc/"):
        os.unlink(path)
    return memory


def _map(handle: int, n_bytes: int) -> mmap.mmap:
    """Return a file as memory; all pages are mapped at once, which is faster than one by one."""
    if hasattr(mmap, "MAP_POPULATE"):
        return mmap.mmap(handle, n_bytes, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE)
    return mmap.mmap(handle, n_bytes)


def _places(arrays: Sequence[Array]) -> tuple[list[int], int]:
    """Return where each of some arrays begins if they are put next to each other, and the end of the last one."""
    starts, end = [], 0
    for array in arrays:
        starts.append(-(-end // _ALIGNMENT) * _ALIGNMENT)
        end = starts[-1] + array.nbytes
    return starts, end


def _exactly(stream: IO[bytes], number: int) -> bytes:
    found = stream.read(number)
    if len(found) < number:
        raise EOFError
    return found


def _encoded(value: Any, arrays: list[Array]) -> Any:
    if isinstance(value, np.ndarray):
        transposed = value.ndim > 1 and value.flags.f_contiguous and not value.flags.c_contiguous
        arrays.append(value.T if transposed else value)
        return {"array": len(arrays) - 1, "transposed": transposed}
    if isinstance(value, dict):
        return {"dict": [[_encoded(key, arrays), _encoded(one, arrays)] for key, one in value.items()]}
    if isinstance(value, tuple):
        return {"tuple": [_encoded(one, arrays) for one in value]}
    if isinstance(value, list):
        return [_encoded(one, arrays) for one in value]
    if isinstance(value, Path):
        return {"path": str(value)}
    if isinstance(value, slice):
        return {"slice": [value.start, value.stop, value.step]}
    return {"rules": asdict(value)} if isinstance(value, FileRules) else value


def _decoded(value: Any, arrays: Sequence[Array]) -> Any:
    if isinstance(value, list):
        return [_decoded(one, arrays) for one in value]
    if not isinstance(value, dict):
        return value
    ((kind, held), *more) = value.items()
    if kind == "array":
        return arrays[held].T if more[0][1] else arrays[held]
    if kind in ("dict", "tuple"):
        parts = _decoded(held, arrays)
        return dict(parts) if kind == "dict" else tuple(parts)
    if kind == "slice":
        return slice(*held)
    return FileRules(**held) if kind == "rules" else Path(held)


class _Reader:
    """A reader process."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", _BOOT, json.dumps([os.path.abspath(one) for one in sys.path])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **_ONE_THREAD},
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.requests, self.replies = self.process.stdin, self.process.stdout
        try:
            read_message(self.replies)
        except BaseException as error:
            self.end()
            if isinstance(error, EOFError):
                raise OSError(f"it ended at once, exit code {self.process.returncode}") from error
            raise

    def ask(self, function: str, arguments: Sequence[Any], n_bytes: int) -> tuple[str, Any]:
        try:
            write_message(self.requests, (function, list(arguments), n_bytes, os.getcwd()))
            reply: tuple[str, Any] = read_message(self.replies)
            write_message(self.requests, "mapped")
            return reply
        except (EOFError, BrokenPipeError):
            return self._ending()

    def _ending(self) -> tuple[str, str]:
        """Return "failed" or "memory", and in words why the process has ended."""
        with suppress(OSError):
            self.requests.close()
        code = self.process.wait()
        name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        if name in _TOO_LONG:
            return "failed", "its parser took too long"
        if name == "SIGKILL":
            return "memory", "its parser was ended by the system, as if it took too much memory"
        return "failed", f"its parser crashed: {name}"

    def end(self) -> None:
        """End the process at once."""
        if self.owner != os.getpid():  # a copy in a forked process
            return
        self.process.kill()
        for stream in (self.requests, self.replies):
            with suppress(OSError):
                stream.close()
        self.process.wait()


_idle: deque[_Reader] = deque()  # of all threads; one thread at a time appends to it or pops


def _idle_reader() -> _Reader:
    """Return a reader process of this process that has nothing to do, or a new one."""
    with suppress(IndexError):
        while True:
            reader = _idle.pop()
            if reader.owner == os.getpid() and reader.process.poll() is None:
                return reader
    return _Reader()


@atexit.register
def _end_readers() -> None:
    while _idle:
        _idle.pop().end()


def call(function: str, path: Path, *arguments: Any) -> Any:
    """Return the result of a function for a path, computed in a reader process.

    The function is given by its module, relative to this package if it begins with a dot, and its name:
    ".hdf5.list_arrays". Arguments are text, numbers, paths, slices, arrays, `FileRules`, and containers of them. Raises
    `BadFileError` as the function does, ImportError for a package that it needs, and ParserFailedError if it crashed,
    took too long, or raised another error.
    """
    known = [replace(one, memory=available_bytes()) if isinstance(one, FileRules) else one for one in arguments]
    if not sys.executable or getattr(sys, "frozen", False):  # part of another program: no interpreter to start
        kind, result = answer(function, (path, *known))
    else:
        kind, result = _answer_of_reader(function, path, known)
    if kind in ("bad file", "damaged file"):
        raise (BadFileError if kind == "bad file" else DamagedFileError)(result)
    if kind == "missing":
        text, name = result
        raise ImportError(text, name=name)
    if kind == "memory":
        raise ParserMemoryError(result)
    if kind in ("error", "failed"):
        raise ParserFailedError(result)
    return result


def _answer_of_reader(function: str, path: Path, arguments: Sequence[Any]) -> tuple[str, Any]:
    """Return `answer` of a reader process, which serves again unless it failed."""
    try:
        reader = _idle_reader()
    except OSError as error:
        raise BadFileError(
            f"{path}: is read by another process, which could not be started ({error}); raise the limits on memory and "
            "on processes, or free some"
        ) from error
    try:
        kind, result = reader.ask(function, (path, *arguments), path.stat().st_size)
    except BaseException:
        reader.end()
        raise
    if kind in ("failed", "memory"):  # after a lack of memory, libraries may be in any state
        reader.end()
    else:
        _idle.append(reader)
    return kind, result


class Limits:
    """Limits on what one request may take; they grow with what its reader announces."""

    def __init__(self) -> None:
        self.base = used_data_bytes()
        self.n_bytes = self.known_bytes = 0
        self.timer: threading.Timer | None = None

    def begin(self, n_bytes: int) -> None:
        """Begin a request for a file of this size."""
        self.n_bytes = n_bytes
        self._set()

    def grow(self, n_bytes: int) -> None:
        """Raise the limits by what was allowed; not for each of many small images."""
        self.n_bytes += n_bytes
        if self.n_bytes >= self.known_bytes + _STEP_BYTES:
            self._set()

    def end(self) -> None:
        """Stop the clock."""
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, 0)
        elif self.timer is not None:
            self.timer.cancel()

    def _set(self) -> None:
        self.known_bytes = self.n_bytes
        seconds = _BASE_SECONDS + self.n_bytes / _BYTES_PER_SECOND
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, _PATIENCE * seconds)
        else:
            self.end()
            self.timer = threading.Timer(_PATIENCE * seconds, os._exit, (1,))
            self.timer.start()
        with suppress(ImportError, OSError, ValueError):  # not on every system; a lower limit stays
            import resource

            used = resource.getrusage(resource.RUSAGE_SELF)
            _lower(resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime + seconds) + 1)
            _lower(resource.RLIMIT_DATA, self.base + _BASE_BYTES + _COPIES * self.n_bytes)


def _lower(kind: int, value: int) -> None:
    """Set a limit of this process, up to the one that it was started with."""
    import resource

    most = resource.getrlimit(kind)[1]
    resource.setrlimit(kind, (value if most == resource.RLIM_INFINITY else min(value, most), most))


def call_function(function: str, arguments: Sequence[Any]) -> Any:
    """Return the result of a function, named by its module (relative to this package if it begins with a dot)."""
    module, _, name = function.rpartition(".")
    return getattr(import_module(module, __package__), name)(*arguments)


def answer(function: str, arguments: Sequence[Any]) -> tuple[str, Any]:
    """Return "result" and that of a function, or the kind of its error and the message."""
    try:
        with blaming_the_system(arguments[0]):
            return "result", call_function(function, arguments)
    except DamagedFileError as error:
        return "damaged file", str(error)
    except BadFileError as error:
        return "memory" if lacks_memory(error) else "bad file", str(error)
    except ImportError as error:
        return "missing", (shortened(str(error)), error.name)
    except Exception as error:  # noqa: BLE001 - parsers of damaged files can raise anything
        return "error", shortened(str(error)) or type(error).__name__


def serve(requests: IO[bytes], replies: IO[bytes]) -> None:
    """Answer requests until there are no more."""
    limits = Limits()
    on_admission.append(limits.grow)
    write_message(replies, "ready")
    while True:
        try:
            function, arguments, n_bytes, folder = read_message(requests)
        except EOFError:
            return
        limits.begin(n_bytes)
        try:
            os.chdir(folder)  # that of the caller may have changed, and paths may be relative to it
            reply = answer(function, arguments)
        except OSError as error:
            reply = "error", str(error)
        limits.end()
        write_message(replies, reply)
        del reply
        if read_message(requests) != "mapped":
            return
        ALLOCATOR.clear()


def main() -> None:
    """Serve the process that started this one."""
    if hasattr(signal, "SIGINT"):
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # who started this process ends it
    with suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    warnings.simplefilter("ignore")
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1):  # libraries must not write between the messages
        os.dup2(nothing, stream)
    with suppress(BrokenPipeError, EOFError):
        serve(requests, replies)
    os._exit(0)  # libraries need not put anything away
