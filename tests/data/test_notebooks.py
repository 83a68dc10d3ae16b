"""Tests of short reprs and of what notebooks show."""

from __future__ import annotations

import base64
import io
import re
from html import unescape

import numpy as np
import pytest
from conftest import fewer_models, low_rank_classes, undrawn_figures
from PIL import Image
from sklearn import config_context
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from tensormargin import TensorMarginClassifier, TensorMarginClassifierCV, TensorScaler, Views, nested_evaluation
from tensormargin.data import Axis, map_picture
from tensormargin.evaluation import FitPlan, ViewsEvaluation, fit_and_evaluate, permutation_test
from tensormargin.io import SampleSet, load_model, save_model
from tensormargin.report import model_page, render

EVIL = "<script>alert(1)</script>"


def sample_set(data, target=None, **more):
    more = {"groups": None, "axes": None, "source": "eeg.npz", "notes": (), **more}
    return SampleSet(data=data, target=target, names=None, affine=None, kind="NumPy archive", **more)


def test_a_sample_set_is_one_line():
    axes = (Axis("channel"), Axis("time", "ms", [0, 4, 8]))
    samples = sample_set(np.zeros((5, 2, 3)), ["a", "b", "a", "a", "b"], groups=[1, 1, 2, 2, 3], axes=axes)
    assert repr(samples) == "SampleSet(5 samples of 2 x 3; channel x time (ms); a (3), b (2); 3 groups; from eeg.npz)"
    assert repr(sample_set(np.zeros((1, 4)))) == "SampleSet(1 sample of 4; no labels; from eeg.npz)"
    many = repr(sample_set(np.zeros((40, 2)), np.arange(40)))
    assert "5 (1), 34 more classes" in many
    views = repr(
        sample_set(Views(eeg=np.zeros((3, 4, 5)), age=np.zeros(3)), axes={"eeg": (Axis("x"), Axis()), "age": None})
    )
    assert "4 x 5 (eeg), 1 (age); x x ? (eeg)" in views


def test_html_of_a_sample_set_escapes_what_comes_from_files():
    html = sample_set(np.zeros((2, 3)), [EVIL, "b"], source=EVIL, notes=(EVIL,))._repr_html_()
    assert EVIL not in html
    assert html.count("&lt;script&gt;") == 5  # source, note, class, picture and its caption


@pytest.fixture(scope="module")
def evaluated():
    X, y = low_rank_classes(0, 40, (4, 5), 4.0)
    search = TensorMarginClassifierCV(("cp",), ranks=(1,), lams=(1,), mus=(0,), cv=2)
    return search, X, y, nested_evaluation(search, X, y, cv=2)


def test_results_say_their_score_in_one_line(evaluated):
    _, X, y, evaluation = evaluated
    line = repr(evaluation)
    low, high = evaluation.interval.low, evaluation.interval.high
    assert f"accuracy {100 * evaluation.accuracy:.1f} % ({100 * low:.1f} to {100 * high:.1f})" in line
    assert f"flat LinearSVC {100 * evaluation.reference:.1f} %" in line
    assert "\n" not in line
    assert len(line) < 250
    assert "-0.0" not in line
    assert f"{100 * evaluation.accuracy:.1f} %" in evaluation._repr_html_()
    test = permutation_test(TensorMarginClassifier("cp", 1), X, y, cv=2, n_permutations=3, random_state=0)
    assert f"{100 * test.score:.1f} %" in repr(test)
    assert "p 0.25 (3 permutations" in repr(test)
    views = ViewsEvaluation(evaluation, {"one": evaluation})
    assert "without one" in repr(views)
    assert "all views" in views._repr_html_()


def test_fits_model_files_and_reports(evaluated, tmp_path):
    search, X, y, _ = evaluated
    plan = FitPlan(decomposition="cp", rank=1, folds=2, outer_folds=2)
    samples = sample_set(X, np.where(y > 0, EVIL, "b"))
    with fewer_models(lams=(1,), mus=(1,)):
        fitted = fit_and_evaluate(samples, plan)
    score = f"{100 * fitted.about['evaluation']['accuracy']:.1f} %"
    assert f"accuracy on held-out samples {score}" in repr(fitted)
    facts = save_model(tmp_path / "model.skops", fitted.model, fitted.about)
    loaded = load_model(tmp_path / "model.skops")
    assert repr(loaded).startswith(
        f"ModelFile(model TensorMarginClassifierCV, saved {facts['created']}; samples 4 x 5;"
    )
    for one in (fitted, loaded):
        assert "<td" in one._repr_html_()
        assert score in one._repr_html_()
        assert EVIL not in one._repr_html_()
    search = clone(search).fit(X, y)
    bare = save_model(tmp_path / "bare.skops", search)
    assert "held-out" not in repr(load_model(tmp_path / "bare.skops"))
    with undrawn_figures():
        page = model_page(search, bare)
    html = page._repr_html_()
    assert re.fullmatch(r'<iframe sandbox="allow-scripts" style="[^"]*" srcdoc="[^"]*"></iframe>', html)
    assert unescape(html.partition('srcdoc="')[2].removesuffix('"></iframe>')) == render(page)


def test_everything_is_chosen_without_a_plan():
    X, y = low_rank_classes(0, 24, (3, 4), 4.0)
    with fewer_models("auto_model", lams=(1,), mus=(1,)):
        fitted = fit_and_evaluate(sample_set(X, y))
    assert fitted.about["plan"]["auto"] is True


@pytest.mark.parametrize("bundle", [True, False])
def test_fitted_estimators_show_score_and_weight_in_notebooks(evaluated, bundle):
    search, X, y, _ = evaluated

    def html(model):
        return model._repr_mimebundle_()["text/html"] if bundle else model._repr_html_()

    assert "data:image/png" not in html(search)
    search = TensorMarginClassifierCV(("cp",), ranks=(1,), lams=(1, 2), mus=(0,), cv=2).fit(
        X, np.where(y > 0, EVIL, "b")
    )
    assert f"Validation score {search.best_score_:.3g} (the best of 2 models" in html(search)
    for model in (search, search.classifier_):
        assert "data:image/png" in html(model)
        assert EVIL not in html(model)
    assert "Validation score" not in html(search.classifier_)
    assert html(make_pipeline(TensorScaler(), search))  # scikit-learn's own
    with config_context(display="text"):
        assert "text/html" not in search._repr_mimebundle_()


def test_views_show_one_picture_each(evaluated):
    _, X, y, _ = evaluated
    model = TensorMarginClassifier("cp", 1).fit(Views(eeg=X, age=X[:, 0, :1]), y)
    assert re.findall(r"<figcaption>weight of (\w+)", model._repr_html_()) == ["eeg", "age"]


@pytest.mark.parametrize("shape", [(7,), (3, 900), (4, 5, 6), (2, 3, 4, 5), (1, 1)])
def test_pictures_of_maps_show_every_order(shape):
    values = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    assert map_picture(values, "x").count("<img") == (3 if len(shape) > 2 else 1)
    assert map_picture(np.zeros(shape), "x") == map_picture(np.full(shape, np.nan), "x") == ""


def test_pictures_are_red_where_a_map_is_positive():
    source = re.search(r'base64,([^"]+)"', map_picture(np.array([[1.0, 0.0, -0.5]]), "x"))[1]
    pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(source))))
    assert pixels[0].tolist() == [[178, 24, 43], [255, 255, 255], [130, 168, 208]]


@pytest.mark.parametrize(
    ("shape", "pictures"), [((4,), 1), ((4, 5), 1), ((6, 5, 3), 1), ((4, 5, 6), 3), ((4, 5, 6, 2), 3), ((0, 3), 0)]
)
def test_samples_are_shown_as_pictures(shape, pictures):
    X = np.random.default_rng(0).standard_normal((6, *shape))
    html = sample_set(X, ["a", "b", "c"] * 2)._repr_html_()
    assert html.count("<img") == 3 * pictures
    assert re.findall(r"<figcaption>(\w+)", html) == list("abc")[: 3 * pictures]
    assert sample_set(np.full((2, *shape), np.nan), ["a", "b"])._repr_html_().count("<img") == 2 * pictures
