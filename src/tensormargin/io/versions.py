"""Which software made a row of results."""

from __future__ import annotations

import platform
from importlib.metadata import version

_PACKAGES = ("tensormargin", "numpy", "scipy", "scikit-learn", "numba")


def software_versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that decide a result."""
    return {"python": platform.python_version(), **{name: version(name) for name in _PACKAGES}}
