"""Run parsers of native code in a process of their own, so that no file can end the process that reads it.

The process (`main`) is started once, and serves all further files, within limits on memory and time. After a crash, or
if a file takes too much of these, it is replaced. It ends with its standard input.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from ...data import BadFileError, FileRules, on_admission
from ...runtime import available_bytes, shortened, used_data_bytes
from .messages import ALLOCATOR, read_message, write_message

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


class ParserFailedError(Exception):
    """Raised if a parser crashed, or took too much time or memory."""


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
            return "failed", self._ending()

    def _ending(self) -> str:
        """Return in words why the process has ended."""
        with suppress(OSError):
            self.requests.close()
        code = self.process.wait()
        name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        if name in _TOO_LONG:
            return "its parser took too long"
        if name == "SIGKILL":
            return "its parser was ended by the system, as if it took too much memory"
        return f"its parser crashed: {name}"

    def end(self) -> None:
        """End the process at once."""
        if self.owner != os.getpid():  # a copy in a forked process
            return
        self.process.kill()
        for stream in (self.requests, self.replies):
            with suppress(OSError):
                stream.close()
        self.process.wait()


class _Pool:
    """The reader processes of this process: one per thread that is reading."""

    def __init__(self) -> None:
        self.idle: list[_Reader] = []
        self.lock = threading.Lock()

    def take(self) -> _Reader:
        with self.lock:
            self.idle = [reader for reader in self.idle if reader.owner == os.getpid()]
            while self.idle:
                reader = self.idle.pop()
                if reader.process.poll() is None:
                    return reader
        return _Reader()

    def give_back(self, reader: _Reader) -> None:
        with self.lock:
            self.idle.append(reader)

    def end(self) -> None:
        with self.lock:
            while self.idle:
                self.idle.pop().end()


_POOL = _Pool()
atexit.register(_POOL.end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: setattr(_POOL, "lock", threading.Lock()))


def call(function: str, path: Path, *arguments: Any) -> Any:
    """Return the result of a function for a path, computed in a reader process.

    The function is given by its module, relative to this package if it begins with a dot, and its name:
    ".hdf5.list_arrays". Arguments are text, numbers, paths, slices, arrays, `FileRules`, and containers of them. Raises
    `BadFileError` as the function does, and ParserFailedError if it crashed, took too long, or raised another error.
    """
    known = [replace(one, memory=available_bytes()) if isinstance(one, FileRules) else one for one in arguments]
    if not sys.executable or getattr(sys, "frozen", False):  # part of another program: no interpreter to start
        return call_function(function, (path, *known))
    try:
        reader = _POOL.take()
    except OSError as error:
        raise BadFileError(
            f"{path}: is read by another process, which could not be started ({error}); raise the limits on memory and "
            "on processes, or free some"
        ) from error
    try:
        kind, result = reader.ask(function, (path, *known), path.stat().st_size)
    except BaseException:
        reader.end()
        raise
    if kind in ("failed", "memory"):  # after a lack of memory, libraries may be in any state
        reader.end()
        raise ParserFailedError(result or "its parser took too much memory")
    _POOL.give_back(reader)
    if kind == "bad file":
        raise BadFileError(result)
    if kind == "error":
        raise ParserFailedError(result)
    return result


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
        reply: tuple[str, Any]
        try:
            os.chdir(folder)  # that of the caller may have changed, and paths may be relative to it
            reply = ("result", call_function(function, arguments))
        except BadFileError as error:
            reply = ("bad file", str(error))
        except MemoryError:
            reply = ("memory", "")
        except Exception as error:  # noqa: BLE001 - parsers of damaged files can raise anything
            reply = ("error", shortened(str(error)) or type(error).__name__)
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
