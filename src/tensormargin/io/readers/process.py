"""Run parsers of native code in a process of their own, so that no file can end the process that reads it.

The process (`reader_worker`) is started once, and serves all further files. After a crash, or if a file takes too much
time or memory, it is replaced.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...data import BadFileError, FileRules
from ...runtime import available_bytes
from .messages import read_message, write_message
from .reader_worker import call_function

_BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from tensormargin.io.readers.reader_worker import main; main()"
)
_TOO_LONG = ("SIGXCPU", "SIGALRM")
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


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
