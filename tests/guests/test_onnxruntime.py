"""onnxruntime: predictions without Python.

`export_onnx` (`pip install "tensormargin[onnx]"`) and the command `tensormargin export` write a model with its
preparation; labels are those of the model and scores agree to 1e-5 of their scale. Samples are float32, in any number.
Steps that are not affine, thresholds, calibrators and ensembles around a classifier are refused by name.
"""

from __future__ import annotations

import numpy as np
import pytest

REASON = "needs onnx and onnxruntime: pip install 'tensormargin[onnx]' onnxruntime"
pytest.importorskip("onnx", reason=REASON)
onnxruntime = pytest.importorskip("onnxruntime", reason=REASON)

from conftest import run, sparse_product
from sklearn.pipeline import make_pipeline

from tensormargin import (
    Crop,
    Mask,
    Resize,
    TensorMarginClassifier,
    TensorMarginClassifierCV,
    TensorScaler,
    TensorUnion,
    Views,
    ViewTransformer,
    export_onnx,
    save_model,
)
from tensormargin.datasets import CATALOGUE, is_at_hand
from tensormargin.fitting import FORMATS

PREPARATIONS = (
    None,
    TensorScaler("global"),
    TensorScaler(),
    TensorScaler(0),
    make_pipeline(Mask("varying"), Crop("varying"), TensorScaler()),
    make_pipeline(Resize((5, 4)), TensorScaler("global")),
)


def answers(path, X):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_outputs()]
    return dict(zip(names, session.run(None, X if isinstance(X, dict) else {"samples": X}), strict=True))


def inputs_of(model, path):
    export_onnx(model, path)
    return [one.name for one in onnxruntime.InferenceSession(str(path)).get_inputs()]


def assert_agrees(model, X, path):
    """Check a file against its model in float64, both on samples that float32 holds."""
    if isinstance(X, Views):
        single = {name: own.astype(np.float32) for name, own in X.items()}
        exact = Views({name: own.astype(np.float64) for name, own in single.items()})
        single = {name: single[name] for name in inputs_of(model, path)}
    else:
        single = np.asarray(X, np.float32)
        exact = single.astype(np.float64)
    export_onnx(model, path)
    found = answers(path, single)
    scores = model.decision_function(exact)
    np.testing.assert_array_equal(found["label"], model.predict(exact))
    np.testing.assert_allclose(found["scores"], scores, atol=1e-5 * np.abs(scores).max(), rtol=0)
    if hasattr(model, "predict_proba"):
        np.testing.assert_allclose(found["probabilities"], model.predict_proba(exact), atol=1e-5, rtol=0)
    else:
        assert "probabilities" not in found


@pytest.fixture(scope="module")
def letters():
    rng = np.random.default_rng(0)
    codes = np.arange(160) % 4
    X = 2.0 + rng.normal(size=(160, 6, 5, 4)) + 0.7 * rng.normal(size=(4, 6, 5, 4))[codes]
    return X, codes, np.array(["a", "b", "c", "d"])[codes]


def test_export_and_run(letters, tmp_path, monkeypatch):
    X, _, y = letters
    X_new = X[:9]
    monkeypatch.chdir(tmp_path)
    # page: Export a model and run it:
    import onnxruntime
    from sklearn.pipeline import make_pipeline

    from tensormargin import TensorMarginClassifier, TensorScaler, export_onnx

    model = make_pipeline(TensorScaler(), TensorMarginClassifier("cp", probability=True, random_state=0)).fit(X, y)
    export_onnx(model, "model.onnx")
    session = onnxruntime.InferenceSession("model.onnx")
    labels, scores, probabilities = session.run(None, {"samples": X_new.astype("float32")})
    # page ends
    assert labels.tolist() == model.predict(X_new).tolist()
    np.testing.assert_allclose(scores, model.decision_function(X_new), atol=1e-4)
    np.testing.assert_allclose(probabilities, model.predict_proba(X_new), atol=1e-5)


@pytest.mark.parametrize(
    ("decomposition", "n_classes", "scheme", "preparation"),
    sparse_product(list(FORMATS), [2, 3, 4], ["ovo", "ovr"], PREPARATIONS, length=12),
)
def test_searches_with_probabilities(decomposition, n_classes, scheme, preparation, letters, tmp_path):
    X, codes, names = letters
    rows = codes < n_classes
    search = TensorMarginClassifierCV(
        [decomposition], (2,), (1,), (1,), preparation, cv=2, multi_class=scheme, tol=0.1, random_state=0
    )
    search.fit(X[rows], names[rows])
    assert_agrees(search, X[rows], tmp_path / "model.onnx")


def some(name):
    """Return a data set, and the rows to fit: few samples of few classes."""
    entry = CATALOGUE[name]
    if not is_at_hand(entry):
        pytest.skip(f"needs {name}: set TENSORMARGIN_DATA to the folder with the data sets")
    bunch = entry.load()
    X, y = bunch.data, bunch.target
    rows = np.random.default_rng(0).permutation(np.flatnonzero(np.isin(y, np.unique(y)[:4])))[:400]
    return X[rows], y[rows]


@pytest.mark.parametrize(
    ("name", "decomposition", "preparation"),
    sparse_product(list(CATALOGUE), ["cp", "full", "tt", "tucker"], [None, TensorScaler(), TensorScaler("global")]),
)
def test_data_sets(name, decomposition, preparation, tmp_path):
    X, y = some(name)
    classifier = TensorMarginClassifier(decomposition, tol=0.1)
    model = classifier if preparation is None else make_pipeline(preparation, classifier)
    model.fit(X[::2], y[::2])
    assert_agrees(model, X, tmp_path / "model.onnx")


@pytest.mark.parametrize("n_samples", [0, 1, 7])
def test_any_number_of_samples(n_samples, letters, tmp_path):
    X, codes, _ = letters
    model = make_pipeline(Resize((5, 4)), TensorMarginClassifier("tucker", 2, tol=0.1)).fit(X, codes)
    export_onnx(model, tmp_path / "model.onnx")
    found = answers(tmp_path / "model.onnx", X[:n_samples].astype(np.float32))
    assert found["label"].shape == (n_samples,)
    assert found["scores"].shape == (n_samples, 4)


@pytest.mark.parametrize("decomposition", ["full", "cp"])
@pytest.mark.parametrize("preparation", PREPARATIONS)
def test_far_from_zero(preparation, decomposition, letters, tmp_path):
    X, codes, _ = letters
    X = np.round(50 * X) + 3e5  # whole numbers, which float32 holds
    model = make_pipeline(preparation or "passthrough", TensorMarginClassifier(decomposition, tol=0.1)).fit(X, codes)
    assert_agrees(model, X, tmp_path / "model.onnx")


def test_views_of_one_input(letters, tmp_path):
    X, codes, _ = letters
    union = TensorUnion([("raw", TensorScaler()), ("small", Resize((3, 2)))])
    model = make_pipeline(union, TensorMarginClassifier("cp", 1, tol=0.1)).fit(X, codes)
    assert_agrees(model, X, tmp_path / "model.onnx")


def several(letters, n_classes, far=0.0, missing=True):
    X, codes, names = letters
    rows = codes < n_classes
    rng = np.random.default_rng(1)
    age = 40 + 5 * codes[rows, None] + rng.normal(size=(rows.sum(), 2))
    views = Views(eeg=np.round(64 * X[rows]) / 64 + far, map=X[rows][:, :, :, 0].copy(), age=age)
    if missing:
        views["map"][::5] = np.nan
        views["age"][1::7] = np.nan
    return views, names[rows]


@pytest.mark.parametrize(
    ("decomposition", "n_classes", "scheme", "far"),
    sparse_product(list(FORMATS), [2, 3, 4], ["ovo", "ovr"], [0.0, 4e3], length=8),
)
def test_several_views(decomposition, n_classes, scheme, far, letters, tmp_path):
    X, y = several(letters, n_classes, far)
    model = TensorMarginClassifier(decomposition, multi_class=scheme, tol=0.1).fit(X, y)
    assert_agrees(model, X, tmp_path / "model.onnx")
    assert_agrees(model, several(letters, n_classes, far, missing=False)[0], tmp_path / "model.onnx")


def test_views_with_a_preparation_and_probabilities(letters, tmp_path):
    X, y = several(letters, 3)
    union = TensorUnion([("raw", TensorScaler()), ("small", Resize((3, 2)))])
    each = ViewTransformer({"eeg": union, "map": make_pipeline(Crop("varying"), TensorScaler()), "age": TensorScaler()})
    model = make_pipeline(each, TensorMarginClassifier("cp", 1, tol=0.1, probability=True, random_state=0)).fit(X, y)
    assert_agrees(model, X, tmp_path / "model.onnx")


def test_a_view_that_is_left_out_is_no_input(letters, tmp_path):
    X, y = several(letters, 2)
    model = TensorMarginClassifier("cp", 1, view_scale={"age": 0}, tol=0.1).fit(X, y)
    assert inputs_of(model, tmp_path / "model.onnx") == ["eeg", "map"]
    assert_agrees(model, X, tmp_path / "model.onnx")


def test_names_of_views(letters, tmp_path):
    X, y = several(letters, 2)
    named = Views({"add0": X["eeg"], "c0": X["map"], "of the person": X["age"]})
    assert_agrees(TensorMarginClassifier("cp", 1, tol=0.1).fit(named, y), named, tmp_path / "model.onnx")
    taken = Views(eeg=X["eeg"], label=X["age"])
    with pytest.raises(ValueError, match=r"the view 'label'\. Rename the view"):
        export_onnx(TensorMarginClassifier("cp", 1, tol=0.1).fit(taken, y), tmp_path / "model.onnx")


def test_the_command_line_with_several_views(letters, tmp_path):
    X, y = several(letters, 2)
    save_model(tmp_path / "model.skops", TensorMarginClassifier("cp", 1, tol=0.1).fit(X, y))
    done = run("export", tmp_path / "model.skops", "-o", tmp_path / "model.onnx")
    assert done.returncode == 0, done.stderr
    single = {name: own.astype(np.float32) for name, own in X.items()}
    assert set(answers(tmp_path / "model.onnx", single)["label"]) == set(y)


def test_the_command_line(letters, tmp_path):
    X, _, names = letters
    save_model(tmp_path / "model.skops", TensorMarginClassifier("cp", tol=0.1).fit(X, names))
    done = run("export", tmp_path / "model.skops", "-o", tmp_path / "model.onnx")
    assert done.returncode == 0, done.stderr
    assert set(answers(tmp_path / "model.onnx", X.astype(np.float32))["label"]) == set(names)
