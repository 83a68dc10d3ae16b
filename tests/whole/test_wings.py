"""The wings of the package: what may import what, what stands in its root, and the picture in CONTRIBUTING.md."""

from __future__ import annotations

import ast
import importlib.util
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("wings", ROOT / "docs" / "wings.py")
wings = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(wings)

WINGS = [wing for layer in wings.layers() for wing in layer]
FEW_ARGUMENTS, FEW_FIELDS = 8, 10


@cache
def imports():
    return list(wings.imports())


@cache
def exported(wing):
    """Return the names that other wings may import: those of the block for type checkers, and modules named there."""
    tree = ast.parse((wings.SOURCE / wing / "__init__.py").read_text())
    return {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}


def test_the_root_holds_nothing_but_wings():
    names = {path.name for path in wings.SOURCE.iterdir() if path.is_file() or any(path.rglob("*.py"))}
    assert names == {"__init__.py", "__main__.py", "py.typed", *WINGS}
    assert len(wings.layers()) <= 12


def test_wings_take_from_each_other_what_their_init_exports():
    deep = {
        f"{importer}: from {module} import {name}"
        for importer, module, name, wing in imports()
        if module != "runtime.lazy"
        and ((name not in exported(wing) and not (wings.SOURCE / wing / f"{name}.py").exists()) or "." in module)
    }
    assert not deep


@pytest.mark.parametrize("wing", WINGS)
def test_each_wing_says_what_it_is_for_and_exports_nothing_in_vain(wing):
    tree = ast.parse((wings.SOURCE / wing / "__init__.py").read_text())
    text = ast.get_docstring(tree)
    assert len(wings.re.findall(r"\.(?:\s|$)", text)) >= 3, text
    names = {name for _, _, name, target in imports() if target == wing}
    public = importlib.import_module(f"tensormargin.{wing}").__dict__.get("__all__", [])
    root = ast.parse((wings.SOURCE / "__init__.py").read_text())
    root_names = {alias.name for node in ast.walk(root) if isinstance(node, ast.ImportFrom) for alias in node.names}
    if wing != "cli":
        assert exported(wing) <= names | set(public) | root_names | {"annotations", "TYPE_CHECKING", "lazy_exports"}


def test_the_picture_is_that_of_the_imports():
    assert wings.PICTURE.read_text() == wings.picture(), "run python docs/wings.py"


def test_what_contributors_are_told_of_exists():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    paths = wings.re.findall(r"`((?:[\w.]+/)+[\w.]*)`", text)
    assert len(paths) > 30
    places = (wings.SOURCE, wings.SOURCE / "selection", wings.SOURCE / "transformers", ROOT)
    missing = [path for path in paths if "NN" not in path and not any((place / path).exists() for place in places)]
    assert not missing


def nodes_of(kind):
    """Yield the functions or classes that are not public: what users pass or get has the fields that they need."""
    modules = [importlib.import_module(name) for name in ("tensormargin", *(f"tensormargin.{wing}" for wing in WINGS))]
    public = {name for module in modules for name in getattr(module, "__all__", ())}
    for path, node in wings.nodes():
        if isinstance(node, kind) and node.name not in public:
            yield path.as_posix(), node


def test_few_arguments():
    """Commands have as many as options, estimators as parameters, kernels of a GPU know no objects."""
    many = {}
    for path, node in nodes_of(ast.FunctionDef):
        own = node.args
        names = [one.arg for one in (*own.posonlyargs, *own.args, *own.kwonlyargs) if one.arg not in ("self", "cls")]
        free = node.name in ("__init__", "fit") or node.name.endswith("_command") or path == "runtime/triton.py"
        if len(names) > FEW_ARGUMENTS and not free:
            many[f"{path}: {node.name}"] = len(names)
    assert not many


def test_few_fields():
    """Rows of the paper's tables have a field per column."""
    many = {}
    for path, node in nodes_of(ast.ClassDef):
        fields = [one for one in node.body if isinstance(one, ast.AnnAssign) and "ClassVar" not in ast.dump(one)]
        if len(fields) > FEW_FIELDS and path != "paper/summary.py":
            many[f"{path}: {node.name}"] = len(fields)
    assert not many
