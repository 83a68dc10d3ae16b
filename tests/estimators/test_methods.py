"""Tests of the paper's seven methods by name."""

from __future__ import annotations

import pytest
from conftest import low_rank_classes

from tensormargin import KERNEL_METHODS, METHODS, TensorMarginClassifier, make_method


def test_the_names_are_the_papers():
    assert list(METHODS) == ["SVM", "LMDM", "STM", "STuM", "SPMD-LRT", "HSPMD-LRT", "TuSPMD-LRT"]


@pytest.mark.parametrize("name", METHODS)
def test_every_method_fits_and_has_the_weight_its_name_says(name):
    X, y = low_rank_classes(0, 40, (4, 5, 3), 4.0)
    clf = make_method(name).fit(X, y)
    assert isinstance(clf, TensorMarginClassifier)
    kind = {"SVM": "ndarray", "LMDM": "ndarray", "STuM": "TuckerTensor", "TuSPMD-LRT": "TuckerTensor"}.get(
        name, "CPTensor"
    )
    assert type(clf.weight_).__name__ == kind
    without_margins = name in ("SVM", "STM", "STuM")
    assert (clf.mu1 == clf.mu2 == 0) == without_margins
    if kind == "CPTensor":
        assert clf.weight_.rank == (2 if name == "HSPMD-LRT" else 1)
    assert clf.score(X, y) > 0.9


@pytest.mark.parametrize("name", [*METHODS, *KERNEL_METHODS])
def test_names_may_be_written_in_any_case(name):
    for written in (name.lower(), name.upper(), name.replace("-", "_"), name.replace("-", "")):
        assert str(make_method(written)) == str(make_method(name))
    for wrong in (name + "x", "", "-", 5):
        with pytest.raises(ValueError, match=r"unknown method .*SVM, LMDM"):
            make_method(wrong)


@pytest.mark.parametrize("name", KERNEL_METHODS)
def test_every_kernel_method_fits(name):
    X, y = low_rank_classes(0, 40, (4, 5, 3), 4.0)
    model = make_method(name, lam=2.0, kernel__rank=1).fit(X, y)
    kernel, classifier = model["kernel"], model["classifier"]
    assert (kernel.kernel, kernel.rank, classifier.lam) == (KERNEL_METHODS[name][0], 1, 2.0)
    assert (classifier.mu1 == 0) == (name != "RBF-LMDM")
    assert type(classifier.weight_).__name__ == "ndarray"
    assert model.score(X, y) > 0.9


def test_overrides_win():
    assert make_method("STM", rank=3, lam=2.0).get_params()["rank"] == 3


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(ValueError, match="SPMD-LRT"):
        make_method("KSTM")


def test_the_table_cannot_be_changed_by_accident():
    with pytest.raises(TypeError):
        METHODS["SVM"] = {}
