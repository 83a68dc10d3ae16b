"""Software versions to store with results."""

from __future__ import annotations

import platform
from importlib.metadata import version

_PACKAGES = ("tensormargin", "numpy", "scipy", "scikit-learn", "numba")


def software_versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that affect results."""
    return {"python": platform.python_version(), **{name: version(name) for name in _PACKAGES}}
