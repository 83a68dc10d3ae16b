"""Tests that names of version 0.1 lead to the present ones, and warn."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import pytest
from conftest import low_rank_classes

import tensormargin
from tensormargin.datasets import load_basic_motions
from tensormargin.runtime.renamed import MODULES, NAMES

UPGRADE = (Path(__file__).parents[2] / "docs" / "upgrade.md").read_text(encoding="utf-8")
OF_0_1 = {  # as its documentation had them
    "cluster": ("LostWorkersError", "on_cluster"),
    "experiments": ("CompareSettings", "PROTOCOLS", "Progress", "auto_model", "compare", "nested_evaluation"),
    "formats": ("FORMATS", "Block", "Weight"),
    "preparation": ("Crop", "KeepsTensors", "Mask", "Recipe", "Resize", "TensorScaler", "Tensorize", "resize"),
    "solvers": ("SOLVERS", "Solution", "Solver"),
}


@pytest.fixture(autouse=True)
def imported_anew(monkeypatch):
    """Forget the old modules, since each warns on its first import only."""
    for module in MODULES:
        monkeypatch.delitem(sys.modules, f"tensormargin.{module}", raising=False)


@pytest.mark.parametrize("module", MODULES)
def test_an_old_module_warns_and_is_in_the_upgrade_notes(module):
    with pytest.warns(
        FutureWarning, match=rf"^tensormargin\.{module} is now .*{MODULES[module][-1]}; .* gone in .* 0\.3"
    ):
        old = importlib.import_module(f"tensormargin.{module}")
    assert re.search(rf"`(?:tensormargin)?\.{module}`", UPGRADE)
    with pytest.raises(AttributeError, match=f"module 'tensormargin.{module}' has no attribute 'nonsense'"):
        _ = old.nonsense


@pytest.mark.parametrize("module", OF_0_1)
def test_names_of_an_old_module_are_the_present_ones(module):
    with pytest.warns(FutureWarning, match="is now"):
        old = importlib.import_module(f"tensormargin.{module}")
    present = [importlib.import_module(f"tensormargin.{place}") for place in MODULES[module]]
    for name in OF_0_1[module]:
        assert any(getattr(old, name) is getattr(one, name, None) for one in present)


@pytest.mark.parametrize(
    ("package", "name"),
    [("", "moved"), (".estimators", "moved"), (".report", "differences_in_words"), (".report", "said_model")],
)
def test_an_old_name_warns_where_it_is_used(package, name):
    home = importlib.import_module(f"tensormargin{package}")
    with pytest.warns(FutureWarning, match=f"{name} is now tensormargin{package}.{NAMES[name]};") as warned:
        assert getattr(home, name) is getattr(home, NAMES[name])
    assert warned[0].filename == __file__
    assert name not in dir(home)
    assert f"`{name}`" in UPGRADE or f".{name}`" in UPGRADE


def test_the_warning_of_a_module_names_the_line_that_imports_it():
    with pytest.warns(FutureWarning) as warned:
        from tensormargin.preparation import Mask
    assert warned[0].filename == __file__
    assert Mask is tensormargin.Mask


def test_an_unknown_module_is_still_unknown():
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'tensormargin\.nonsense'"):
        importlib.import_module("tensormargin.nonsense")


def test_the_folder_of_data_that_come_with_the_package_is_ignored(tmp_path):
    with pytest.warns(FutureWarning, match=r"load_basic_motions\(data_home=...\) is now"):
        assert load_basic_motions(tmp_path).data.shape == (80, 6, 100)


def test_the_code_of_the_first_readme_runs_without_a_warning():
    X, y = low_rank_classes(0, 24, (4, 4, 4), 2.0)
    clf = tensormargin.TensorMarginClassifier("tucker", rank=(4, 4, 4))
    clf.fit(X, y)
    assert clf.predict(X[:3]).shape == (3,)
    assert clf.weight_.core.shape == (4, 4, 4)
    assert len(clf.history_["gap"])
    search = tensormargin.TensorMarginClassifierCV(("cp",), (1,), cv=2, n_jobs=1).fit(X, y, groups=range(24))
    assert search.predict_proba(X[:3]).shape == (3, 2)
    assert tensormargin.make_method("STuM", rank=4).get_params()["rank"] == 4
    assert tensormargin.margin_report(clf, X, y).mean > 0
    with pytest.raises(ValueError, match="write lam=10"):
        tensormargin.TensorMarginClassifier("cp", lam="10*scale").fit(X, y)
