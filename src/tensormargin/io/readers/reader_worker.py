"""The reader process: reads files with parsers of native code, within limits on memory and time.

It is started by `readers.process` and ends with its standard input.
"""

from __future__ import annotations

import os
import signal
import threading
import warnings
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import IO, Any

from ...data import limits as rules
from ...runtime import shortened, used_data_bytes
from .messages import ALLOCATOR, read_message, write_message

_BASE_BYTES = 2**29  # for libraries, and what they need beside the arrays that they announce
_STEP_BYTES = 2**24
_COPIES = 3  # of an array that a parser may make
_BASE_SECONDS, _BYTES_PER_SECOND = 8, 2 * 10**6  # of processor time
_PATIENCE = 15  # waiting time per processor time: disks and networks may be slow


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
    rules.on_admission.append(limits.grow)
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
        except rules.BadFileError as error:
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
