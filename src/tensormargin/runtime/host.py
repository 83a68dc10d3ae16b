"""What this process runs on: the memory that it may still use, and the software versions to store with results."""

from __future__ import annotations

import os
import platform
import sys
from functools import cache
from pathlib import Path

from . import tuning

_GUESSED_BYTES = 2**31
_UNLIMITED = 2**62


def available_bytes() -> int:
    """Return how much memory this process can still take: what is free, below the limits of its group and its own."""
    return max(0, min(_free(), _left_in_group(), _left_of_address_space()))


def used_data_bytes() -> int:
    """Return how much memory of its own this process has reserved; 0 where the system does not say."""
    return _fields("/proc/self/status").get("VmData", 0)


def _free() -> int:
    found = _fields("/proc/meminfo").get("MemAvailable")
    if found is not None:
        return found
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    except (AttributeError, OSError, ValueError):  # no such number on this system
        return _GUESSED_BYTES


def _left_in_group() -> int:
    """Return what a control group (a container, a batch job) leaves; version 2 only."""
    try:
        name = Path("/proc/self/cgroup").read_text(encoding="utf-8").strip().rpartition(":")[2].lstrip("/")
        folder = Path("/sys/fs/cgroup", name)
        folder = folder if (folder / "memory.max").exists() else Path("/sys/fs/cgroup")
        limit = (folder / "memory.max").read_text(encoding="utf-8").strip()
        if limit == "max":
            return _UNLIMITED
        kept = _fields(folder / "memory.stat", unit=1).get("inactive_file", 0)  # cached files make room
        return int(limit) - int((folder / "memory.current").read_text(encoding="utf-8")) + kept
    except (OSError, ValueError):
        return _UNLIMITED


def _left_of_address_space() -> int:
    try:
        import resource

        left = []
        for limit, field in ((resource.RLIMIT_AS, "VmSize"), (resource.RLIMIT_DATA, "VmData")):
            most = resource.getrlimit(limit)[0]
            if most != resource.RLIM_INFINITY:
                left.append(most - _fields("/proc/self/status").get(field, 0))
        return min(left, default=_UNLIMITED)
    except (ImportError, AttributeError, OSError, ValueError):  # not on every system
        return _UNLIMITED


def _fields(path: str | Path, unit: int = 1024) -> dict[str, int]:
    """Return the numbers in a file of lines such as ``MemAvailable: 123 kB``, in bytes; empty without the file."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    words = (line.replace(":", " ").split() for line in lines)
    return {word[0]: int(word[1]) * unit for word in words if len(word) > 1 and word[1].isdigit()}


_PACKAGES = ("numpy", "scipy", "scikit-learn")


def software_versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that affect results."""
    own = str(sys.modules[__name__.partition(".")[0]].__version__)  # a checkout need not be installed
    return {"python": platform.python_version(), "tensormargin": own, **{name: _version(name) for name in _PACKAGES}}


@cache
def _version(package: str) -> str:
    from importlib.metadata import version  # 40 ms, which no other command needs

    return version(package)


def block_bytes() -> int:
    """Return the size of the blocks in which samples are read from files: less where little memory is available."""
    return min(tuning.BLOCK_BYTES, max(available_bytes() // 16, 1))
