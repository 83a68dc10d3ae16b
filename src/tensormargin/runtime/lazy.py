"""Imports on first use: names of a package, so that importing it costs nothing, and libraries that may be missing."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from .renamed import NAMES, warn_of_old_name


def from_extra(module: str, extra: str = "cli") -> Any:
    """Import a module of an extra; the error says how to install it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        if (error.name or "").partition(".")[0] != package:
            raise
        raise ImportError(f"this needs {package}: pip install 'tensormargin[{extra}]'", name=package) from error


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
        if NAMES.get(name) in homes:
            warn_of_old_name(f"{package}.{name}", f"{package}.{NAMES[name]}")
            return get(NAMES[name])
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        whole = homes[name] == "."  # a module by itself
        value = import_module(f".{name}", package) if whole else getattr(import_module(homes[name], package), name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted([*homes, "__version__"] if hasattr(sys.modules[package], "__version__") else homes)

    return get, names
