"""Tests of the installed package: lazy imports, types, doctests."""

from __future__ import annotations

import doctest
import importlib
import subprocess
import sys
from importlib.metadata import version
from importlib.resources import files

import pytest

import tensormargin


def test_every_public_name_is_there():
    for name in tensormargin.__all__:
        assert getattr(tensormargin, name) is not None
    assert set(tensormargin.__all__) <= set(dir(tensormargin))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = tensormargin.nonsense


def test_the_version_is_that_of_the_installation():
    assert tensormargin.__version__ == version("tensormargin")


def test_types_are_published():
    assert files("tensormargin").joinpath("py.typed").is_file()


@pytest.mark.parametrize("module", ["tensormargin.estimators.classifier", "tensormargin.methods"])
def test_examples_in_docstrings(module):
    result = doctest.testmod(importlib.import_module(module))
    assert result.attempted > 0
    assert result.failed == 0


def loaded_after(statement: str, *modules: str) -> list[str]:
    code = f"{statement}\nimport sys\nprint([name for name in {modules!r} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return eval(result.stdout.splitlines()[-1], {})


def test_the_command_line_starts_without_the_heavy_imports():
    statement = "from tensormargin.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass"
    assert loaded_after(statement, "numpy", "sklearn", "numba", "tensorly", "rich") == []


def test_the_estimator_is_imported_without_the_compiler():
    assert loaded_after("from tensormargin import TensorMarginClassifier", "numba", "tensorly", "matplotlib") == []
