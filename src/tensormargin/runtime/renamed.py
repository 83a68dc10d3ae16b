"""Names of version 0.1, which warn and lead to the present ones until 0.3."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

MODULES = {
    "chance": ("evaluation",),
    "cluster": ("runtime.cluster",),
    "experiments": ("evaluation", "paper", "selection", "runtime"),
    "formats": ("fitting.formats",),
    "kernels": ("transformers",),
    "margins": ("inspection",),
    "methods": ("estimators",),
    "patterns": ("inspection",),
    "preparation": ("transformers",),
    "representations": ("transformers",),
    "reproduce": ("paper",),
    "solvers": ("fitting.solvers",),
    "statements": ("report",),
}
"""Former modules, and the packages in which their names are now."""
NAMES = {"differences_in_words": "format_differences", "moved": "to_device", "said_model": "describe_model"}
_PACKAGE = __name__.partition(".")[0]


def warn_of_old_name(old: str, new: str, stacklevel: int = 3) -> None:
    """Warn that something has another name now; `stacklevel` is that of the line that uses the old one."""
    message = f"{old} is now {new}; the old name will be gone in tensormargin 0.3"
    warnings.warn(message, FutureWarning, stacklevel=stacklevel)


class _OldModules:
    """Finds and loads modules with names of `MODULES`, whose own names are those of the present packages."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        package, _, module = name.partition(".")
        if package != _PACKAGE or module not in MODULES:
            return None
        # The stubs ask for `load_module`, which import does not call where there is `exec_module`.
        return ModuleSpec(name, _OldModules())  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        from .words import join_with_and

        places = [f"{_PACKAGE}.{place}" for place in MODULES[spec.name.rpartition(".")[2]]]
        warn_of_old_name(spec.name, join_with_and(places))
        module = ModuleType(spec.name, f"The former name of {join_with_and(places)}.")

        def get(name: str) -> Any:
            for place in places if not name.startswith("__") else ():
                if hasattr(import_module(place), name):
                    return getattr(import_module(place), name)
            raise AttributeError(f"module {spec.name!r} has no attribute {name!r}")

        vars(module)["__getattr__"] = get
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: names are looked up in the present packages."""


def find_old_modules() -> None:
    """Let ``import`` find modules by their names of version 0.1, after all others."""
    sys.meta_path.append(_OldModules)
