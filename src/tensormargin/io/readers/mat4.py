"""MATLAB 4 files. Runs in the reader process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from scipy.io import loadmat

from ...data import FileRules
from .entries import Entry, variable


def list_variables(path: Path, only: str | None, rules: FileRules) -> dict[str, Entry]:
    """Return the variables with their values."""
    rules.admit(path, 2 * path.stat().st_size, "the file")
    found: dict[str, Any] = loadmat(path, variable_names=None if only is None else [only])
    return {name: variable(name, value) for name, value in found.items() if not name.startswith("__")}
