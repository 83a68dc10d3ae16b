"""Models as ONNX files: what stands in them, what is refused, and what they compute by the format's own definition."""

from __future__ import annotations

import json
import sys
from functools import cache

import numpy as np
import pytest
from conftest import run
from hypothesis import given
from hypothesis import strategies as st
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

import tensormargin
from tensormargin import (
    Crop,
    Mask,
    Resize,
    Tensorize,
    TensorMarginClassifier,
    TensorMarginClassifierCV,
    TensorScaler,
    export_onnx,
    save_model,
)
from tensormargin.fitting import class_probabilities, combine_scores, predicted_codes

onnx = pytest.importorskip("onnx", reason="needs onnx: pip install 'tensormargin[onnx]'")
reference = pytest.importorskip("onnx.reference", reason="needs a newer onnx")

SHAPE = (6, 5, 4)
PREPARATIONS = {
    "none": (),
    "entry": (TensorScaler(),),
    "global": (TensorScaler("global"),),
    "mode": (TensorScaler(1),),
    "centred": (TensorScaler((0, 2), with_std=False),),
    "scaled": (TensorScaler(with_mean=False),),
    "mask": (Mask(np.arange(120).reshape(SHAPE) % 3 > 0),),
    "crop": (Crop(np.pad(np.ones((4, 3, 4), bool), ((1, 1), (2, 0), (0, 0)))),),
    "resize": (Resize((3, 7)),),
    "fold": (Tensorize((6, 5, 2, 2)),),
    "all": (Mask("varying"), Crop("varying", 1), Resize((5, 5)), TensorScaler(0), Tensorize((25, 4))),
}


@cache
def samples(n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n_classes)
    y = np.arange(40 * n_classes) % n_classes
    return rng.normal(5.0, 3.0, (len(y), *SHAPE)) + rng.normal(size=(n_classes, *SHAPE))[y], y


@cache
def fitted(decomposition: str, n_classes: int, scheme: str, preparation: str = "none"):
    X, y = samples(n_classes)
    classifier = TensorMarginClassifier(decomposition, multi_class=scheme, tol=0.1)
    return make_pipeline(*PREPARATIONS[preparation], classifier).fit(X, y)


@cache
def searched(n_classes: int, scheme: str):
    X, y = samples(n_classes)
    names = np.array(["cat", "dog", "ünïcode", ""])[:n_classes]
    search = TensorMarginClassifierCV(["cp"], (1,), (1,), (1,), cv=2, multi_class=scheme, random_state=0, tol=0.1)
    return search.fit(X, names[y])


def exported(model, folder):
    export_onnx(model, folder / "model.onnx")
    return onnx.load(folder / "model.onnx")


def answers(model, X):
    session = reference.ReferenceEvaluator(model)
    with np.errstate(over="ignore", invalid="ignore"):  # in the sigmoid of the reference
        return dict(zip(session.output_names, session.run(None, {"samples": X}), strict=True))


def constants(model):
    return sum(int(np.prod(one.dims)) for one in model.graph.initializer)


@pytest.mark.parametrize("preparation", PREPARATIONS)
@pytest.mark.parametrize(("decomposition", "n_classes", "scheme"), [
    ("full", 2, "ovo"), ("cp", 3, "ovo"), ("tucker", 2, "ovo"), ("tucker", 3, "ovr"), ("tt", 4, "ovo"),
])  # fmt: skip
def test_scores_and_labels_are_the_models(decomposition, n_classes, scheme, preparation, tmp_path):
    model = fitted(decomposition, n_classes, scheme, preparation)
    X = samples(n_classes)[0].astype(np.float32)
    found = answers(exported(model, tmp_path), X)
    expected = model.decision_function(X.astype(np.float64))
    np.testing.assert_allclose(found["scores"], expected, atol=1e-5 * np.abs(expected).max())
    assert found["scores"].dtype == np.float32
    np.testing.assert_array_equal(found["label"], model.predict(X.astype(np.float64)))


@pytest.mark.parametrize(("n_classes", "scheme"), [(2, "ovo"), (4, "ovo"), (3, "ovr")])
def test_what_stands_in_the_file(n_classes, scheme, tmp_path):
    search = searched(n_classes, scheme)
    model = exported(search, tmp_path)
    onnx.checker.check_model(model, full_check=True)
    (batch,) = model.graph.input
    sizes = [size.dim_value or size.dim_param for size in batch.type.tensor_type.shape.dim]
    assert (batch.name, batch.type.tensor_type.elem_type) == ("samples", onnx.TensorProto.FLOAT)
    assert sizes == ["n_samples", *SHAPE]
    kinds = {one.name: one.type.tensor_type.elem_type for one in model.graph.output}
    proto = onnx.TensorProto
    assert kinds == {"label": proto.STRING, "scores": proto.FLOAT, "probabilities": proto.FLOAT}
    facts = {one.key: one.value for one in model.metadata_props}
    assert json.loads(facts["classes"]) == search.classes_.tolist()
    assert json.loads(facts["sample_shape"]) == list(SHAPE)
    assert facts["multi_class"] == scheme
    assert facts["tensormargin"] == model.producer_version == tensormargin.__version__
    assert [one.version for one in model.opset_import] == [13]
    assert model.ir_version == 7
    found = answers(model, samples(n_classes)[0].astype(np.float32))
    np.testing.assert_array_equal(found["label"], search.predict(samples(n_classes)[0].astype(np.float32)))
    np.testing.assert_allclose(found["probabilities"], search.predict_proba(samples(n_classes)[0]), atol=1e-5)


def test_a_rank_one_model_of_volumes_takes_five_kilobytes(tmp_path):
    shape = (49, 58, 47)
    X = np.random.default_rng(0).normal(size=(6, *shape)).astype(np.float32)
    for place, steps in enumerate([(), (TensorScaler("global"),), (TensorScaler(1), Tensorize((49, 58, 47, 1)))]):
        model = make_pipeline(*steps, TensorMarginClassifier("cp", 1, tol=0.5)).fit(X, np.arange(6) % 2)
        export_onnx(model, tmp_path / f"{place}.onnx")
        assert (tmp_path / f"{place}.onnx").stat().st_size <= 5000


@pytest.mark.parametrize(("decomposition", "preparation", "folded"), [
    ("full", "none", False), ("full", "mask", True), ("full", "global", True), ("cp", "global", False),
    ("cp", "resize", False), ("tt", "resize", True), ("tucker", "entry", True), ("cp", "mask", False),
])  # fmt: skip
def test_the_smaller_way_is_taken(decomposition, preparation, folded, tmp_path):
    model = fitted(decomposition, 2, "ovo", preparation)
    found = exported(model, tmp_path)
    operators = [node.op_type for node in found.graph.node]
    assert ("Flatten" in operators) == (decomposition == "full" or folded)
    assert ("Where" in operators) == (preparation == "mask" and not folded)
    assert constants(found) <= model[-1].coef_.size + 120 + 20


def test_many_problems_share_a_scaling_by_entry(tmp_path):
    model = fitted("cp", 4, "ovo", "entry")
    assert constants(exported(model, tmp_path)) < 3 * 120 + model[-1].n_parameters_ * 6 + 50


@pytest.mark.parametrize("steps", [(), (TensorScaler(),), (TensorScaler(with_std=False), Tensorize((30, 4)))])
def test_samples_far_from_zero_lose_no_digits(steps, tmp_path):
    X, y = samples(2)
    X = np.round(X * 8) + 4e4  # whole numbers, which float32 holds
    model = make_pipeline(*steps, TensorMarginClassifier("cp", tol=0.1)).fit(X, y)
    found = answers(exported(model, tmp_path), X.astype(np.float32))
    expected = model.decision_function(X)
    np.testing.assert_allclose(found["scores"], expected, atol=1e-6 * np.abs(expected).max())
    assert found["scores"].dtype == np.float32


def scored(n_classes: int, scheme: str):
    """Return a strategy of binary scores with zeros, ties and extremes, whose sums float32 and float64 hold."""
    n_problems = 1 if n_classes == 2 else n_classes if scheme == "ovr" else n_classes * (n_classes - 1) // 2
    numbers = st.sampled_from([0.0, 1.0, -1.0, 30.0, -30.0, 1e4]) | st.integers(-256, 256).map(lambda k: k / 64)
    row = st.lists(numbers, min_size=n_problems, max_size=n_problems)
    return st.lists(row, min_size=1, max_size=4).map(lambda rows: np.array(rows, np.float32))


@given(
    st.data(),
    st.integers(2, 6),
    st.sampled_from(["ovo", "ovr"]),
    st.sampled_from([0.0, 0.25]),
    st.sampled_from([(), (3.0, 0.02)]),  # older files have neither power nor share
)
def test_decisions_and_probabilities_from_any_scores(data, n_classes, scheme, offset, of_classes):
    from tensormargin.io.onnx_export import decide, probabilities
    from tensormargin.io.onnx_graph import Graph

    scores = data.draw(scored(n_classes, scheme))
    same = [np.full(scores.shape[1], number) for number in (offset, *(of_classes if n_classes > 2 else ()))]
    calibration = np.column_stack([np.linspace(0.5, 2, scores.shape[1]), *same])
    graph = Graph(scores.shape[1:])
    decisions, predicted = decide(graph, graph.samples, n_classes, scheme)
    found = probabilities(graph, graph.samples, predicted, calibration, n_classes, scheme)
    graph.output("decisions", decisions, "FLOAT", () if n_classes == 2 else (n_classes,))
    graph.output("predicted", predicted, "INT64", ())
    graph.output("probabilities", found, "FLOAT", (n_classes,))
    got = answers(graph.model("", "", {}), scores)
    exact = scores.astype(np.float64)
    expected = combine_scores(exact, n_classes, scheme)
    np.testing.assert_allclose(got["decisions"], expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(got["predicted"], predicted_codes(expected))
    np.testing.assert_allclose(got["probabilities"], class_probabilities(exact, calibration, scheme), atol=1e-5)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_score_of_zero_goes_to_the_earlier_class(n_classes, tmp_path):
    X, y = samples(n_classes)
    model = TensorMarginClassifier("cp", fit_intercept=False, tol=0.1).fit(X, y)
    found = answers(exported(model, tmp_path), np.zeros((1, *SHAPE), np.float32))
    np.testing.assert_array_equal(found["label"], model.predict(np.zeros((1, *SHAPE))))


@pytest.mark.parametrize(("classes", "expected"), [
    ([2, 7], [2, 7]), ([-1.0, 1.0], [-1, 1]), ([False, True], [0, 1]), (["a", "b"], ["a", "b"]),
    (np.array(["a", "bc"], object), ["a", "bc"]), (np.array([3, 5], np.uint8), [3, 5]),
])  # fmt: skip
def test_labels_of_all_kinds(classes, expected, tmp_path):
    X, y = samples(2)
    labels = np.asarray(classes)[y]
    found = answers(exported(TensorMarginClassifier("cp", tol=0.1).fit(X, labels), tmp_path), X.astype(np.float32))
    assert sorted(set(found["label"].tolist())) == expected


def by_group():
    X, y = samples(2)
    scaler = TensorScaler(by_group=True)
    prepared = scaler.fit_transform(X, groups=y)
    model = make_pipeline(scaler, TensorMarginClassifier("cp", tol=0.1))
    model[-1].fit(prepared, y)
    return model


def foreign():
    X, y = samples(2)
    flat = X.reshape(len(X), -1)[:, :5]
    return make_pipeline(PolynomialFeatures(2), TensorMarginClassifier("full", tol=0.1)).fit(flat, y)


def thresholded():
    X, y = samples(2)
    flat = X.reshape(len(X), -1)
    return FixedThresholdClassifier(TensorMarginClassifier("full", tol=0.1), threshold=0.3).fit(flat, y)


def not_refitted():
    X, y = samples(2)
    return GridSearchCV(TensorMarginClassifier("cp", tol=0.1), {"rank": [1]}, cv=2, refit=False).fit(X, y)


def labelled_beyond_int64():
    X, y = samples(2)
    return TensorMarginClassifier("cp", tol=0.1).fit(X, np.array([2**63, 2**63 + 1], np.uint64)[y])


@pytest.mark.parametrize(("make", "message"), [
    (by_group, r"cannot be exported.*TensorScaler\(by_group=True\)"),
    (foreign, "cannot be exported.*PolynomialFeatures"),
    (thresholded, "cannot export FixedThresholdClassifier"),
    (not_refitted, "GridSearchCV has no best_estimator_"),
    (labelled_beyond_int64, "whole numbers or strings"),
    (TensorMarginClassifier, "not fitted"),
    (TensorMarginClassifierCV, "not fitted yet"),
    (LogisticRegression, "cannot export LogisticRegression"),
    (lambda: 3, "cannot export int"),
])  # fmt: skip
def test_what_cannot_be_exported_is_named_and_no_file_is_left(make, message, tmp_path):
    (tmp_path / "model.onnx").write_text("the file before")
    with pytest.raises((TypeError, ValueError), match=message):
        export_onnx(make(), tmp_path / "model.onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"]
    assert (tmp_path / "model.onnx").read_text() == "the file before"


def test_numbers_beyond_float32_are_refused(tmp_path):
    X, y = samples(2)
    model = TensorMarginClassifier("full", tol=0.1).fit(X * 1e-45, y)
    with pytest.raises(ValueError, match="float32"):
        export_onnx(model, tmp_path / "model.onnx")


def test_searches_and_frozen_models_are_what_they_hold(tmp_path):
    X, y = samples(2)
    search = GridSearchCV(make_pipeline(TensorScaler("global"), TensorMarginClassifier("cp", tol=0.1)), {}, cv=2)
    model = FrozenEstimator(search.fit(X, y))
    found = answers(exported(model, tmp_path), X.astype(np.float32))
    np.testing.assert_array_equal(found["label"], search.predict(X))


def test_without_onnx_the_error_names_the_extra(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r"tensormargin\[onnx\]"):
        export_onnx(fitted("cp", 2, "ovo"), tmp_path / "model.onnx")


def test_several_views_are_several_inputs(tmp_path):
    X, y = samples(2)
    views = tensormargin.Views(volume=X, age=X[:, 0, 0, :2].copy())
    views["age"][::4] = np.nan  # these samples lack the view
    model = TensorMarginClassifier("cp", 1, tol=0.1).fit(views, y)
    found = exported(model, tmp_path)
    assert [one.name for one in found.graph.input] == ["volume", "age"]
    facts = {one.key: one.value for one in found.metadata_props}
    assert json.loads(facts["sample_shape"]) == {"volume": list(SHAPE), "age": [2]}
    assert constants(found) < 40  # factors
    session = reference.ReferenceEvaluator(found)
    scores = session.run(["scores"], {name: own.astype(np.float32) for name, own in views.items()})[0]
    np.testing.assert_allclose(scores, model.decision_function(views), atol=1e-4)


def test_the_command(tmp_path):
    save_model(tmp_path / "model.skops", searched(2, "ovo"))
    done = run("export", "model.skops", "-o", "model.onnx", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"written": ["model.onnx"]}
    export_onnx(searched(2, "ovo"), tmp_path / "same.onnx")
    assert (tmp_path / "model.onnx").read_bytes() == (tmp_path / "same.onnx").read_bytes()
    for arguments in (("model.skops", "-o", "model.skops"), ("missing.skops", "-o", "other.onnx")):
        assert run("export", *arguments, cwd=tmp_path).returncode == 2
    assert not (tmp_path / "other.onnx").exists()


@pytest.mark.parametrize("name", ["torch", "array_api_strict"])
def test_models_on_a_device_are_written_from_memory(name, tmp_path):
    from conftest import library

    module, device = library(name)
    X, y = samples(2)
    model = make_pipeline(TensorScaler(), TensorMarginClassifier("cp", tol=0.1))
    model.fit(module.asarray(X, device=device), y)
    found = answers(exported(model, tmp_path), X.astype(np.float32))
    assert np.mean(found["label"] == y) > 0.8
