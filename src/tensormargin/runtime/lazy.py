"""Names of a package that are imported on first use, so that importing it costs nothing."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any


def lazy_exports(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package, for names that its ``if TYPE_CHECKING:`` block imports."""
    with open(sys.modules[package].__file__ or "", "rb") as file:  # pathlib would take 10 ms to import
        tree = ast.parse(file.read())
    block = next(one for one in tree.body if isinstance(one, ast.If))
    homes = {
        name.name: "." * one.level + (one.module or "")
        for one in block.body
        if isinstance(one, ast.ImportFrom)
        for name in one.names
    }

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(homes[name], package), name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted([*homes, "__version__"] if hasattr(sys.modules[package], "__version__") else homes)

    return get, names
