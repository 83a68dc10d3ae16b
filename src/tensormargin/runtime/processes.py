"""Worker processes of joblib that end with the process that started them, and leave no memory behind."""

from __future__ import annotations

import atexit
import math
import os
import sys
import tempfile
import threading
import time
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from inspect import signature
from pathlib import Path
from typing import Any

from joblib import Parallel, effective_n_jobs
from joblib.externals.loky import process_executor
from joblib.parallel import get_active_backend

from .folders import locked_folder, remove_leftovers, remove_temporary
from .terminal import EscapedStream, escape_streams

_SHARED_MEMORY = Path("/dev/shm")
_SECONDS = 0.5  # between two looks at the parent
_ENOUGH_BYTES = 2 * 10**9  # as in joblib: a smaller shared memory is not used


def worker_options(n_jobs: int | None) -> dict[str, Any]:
    """Return options for `joblib.Parallel` with which its processes live as long as this one does, not longer."""
    ours = type(get_active_backend()[0]).__name__ == "LokyBackend" and effective_n_jobs(n_jobs) > 1
    if not ours or "backend_kwargs" not in signature(Parallel).parameters:  # joblib before 1.5
        return {}
    folder = _own_folder(os.getpid())
    where = {} if folder is None else {"temp_folder": str(folder)}
    return {"initializer": live_as_long_as, "initargs": (os.getpid(), isinstance(sys.stderr, EscapedStream)), **where}


def live_as_long_as(parent: int, escape: bool = False) -> None:
    """Let this process end soon after its parent, even if that is killed, and not for its memory."""
    if escape:  # as the parent does: both write to one terminal
        escape_streams()
    # joblib ends a process that takes 300 MB more than at first as a leak; ours hold samples and their views.
    vars(process_executor)["_MAX_MEMORY_LEAK_SIZE"] = math.inf
    # A thread looks for the parent: Linux' signal comes when the thread that started the process ends.
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_SECONDS)
    os._exit(1)


# ---- samples that processes share ----


@cache
def _own_folder(process: int) -> Path | None:
    """Return the folder for shared samples, without those of killed processes; None leaves the choice to joblib."""
    if find_spec("fcntl") is None:
        return None
    place = _place()
    with suppress(OSError):
        remove_leftovers(place)
        folder, _ = locked_folder(place)  # open, and so locked, until this process ends
        atexit.register(_remove, folder, process)
        return folder
    return None


def _place() -> Path:
    """Return where joblib keeps samples: in shared memory if there is enough of it."""
    given = os.environ.get("JOBLIB_TEMP_FOLDER")
    if given:
        return Path(given).expanduser()
    with suppress(OSError, AttributeError):
        found = os.statvfs(_SHARED_MEMORY)
        if found.f_bsize * found.f_bavail > _ENOUGH_BYTES and os.access(_SHARED_MEMORY, os.W_OK | os.X_OK):
            return _SHARED_MEMORY
    return Path(tempfile.gettempdir())


def _remove(folder: Path, process: int) -> None:
    if os.getpid() == process:  # not in a copy of it
        remove_temporary(folder)
