"""Tests of saved models (round trips, refusal of unknown content) and of maps that other programs can open."""

from __future__ import annotations

import gzip
import json
import pickle
import warnings
import zipfile
from pathlib import Path

import nibabel
import numpy as np
import pytest
from conftest import low_rank_classes
from matplotlib import pyplot as plt
from PIL import Image
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from tensormargin import TensorMarginClassifier, Views
from tensormargin.datasets import load_digits_tensor
from tensormargin.io import BadFileError, load_model, models, read_facts, save_model
from tensormargin.io.archive import write_archive
from tensormargin.io.checksums import seal
from tensormargin.plots import check_map_path, save_map
from tensormargin.selection import TensorMarginClassifierCV
from tensormargin.transformers import Crop, Mask, Resize, Tensorize, TensorScaler, describe_step

SMALL = {"decompositions": ("cp",), "ranks": (1,), "lams": (1,), "mus": (0,), "cv": 3, "random_state": 0}
SHAPE = (4, 5, 3)
EVERY_STEP = [
    Mask(),
    Crop(np.arange(60).reshape(SHAPE) > 5, margin=1),
    Resize((4, 4)),
    TensorScaler(),
    Tensorize((8, -1)),
]


@pytest.fixture(scope="module")
def binary():
    return low_rank_classes(0, 40, SHAPE, 4.0)


@pytest.fixture(scope="module")
def fitted(binary):
    return TensorMarginClassifier("cp", 1).fit(*binary)


@pytest.fixture
def saved(tmp_path, fitted):
    path = tmp_path / "model.skops"
    save_model(path, fitted, {"seed": 7})
    return path


def only_file(folder: Path, path: Path) -> bool:
    return [one.name for one in folder.iterdir()] == [path.name]


def assert_same_model(loaded, model, X):
    assert type(loaded) is type(model)
    assert repr(loaded) == repr(model)
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))


# ---- round trips ----


@pytest.mark.parametrize("name", ["full", "cp", "tucker", "tt"])
@pytest.mark.parametrize("labels", [(-1, 1), ("face", "house"), ("a", "b", "c"), (False, True)], ids=str)
def test_a_classifier_comes_back(name, labels, binary, tmp_path):
    X, _ = binary
    y = np.array(labels)[np.arange(40) % len(labels)]
    model = TensorMarginClassifier(name, class_weight="balanced").fit(X, y)
    save_model(tmp_path / "model.skops", model)
    loaded = load_model(tmp_path / "model.skops")
    assert_same_model(loaded.model, model, X)
    assert type(loaded.model.weight_) is type(model.weight_)
    np.testing.assert_equal(loaded.model.history_, model.history_)
    np.testing.assert_array_equal(loaded.model.classes_, model.classes_)
    assert loaded.facts["classes"] == list(labels)
    loaded.model.set_params(warm_start=True).fit(X, y)  # a loaded model can be refitted


def test_labels_that_are_objects_come_back(binary, tmp_path):
    X, y = binary
    model = TensorMarginClassifier("cp").fit(X, np.where(y > 0, "yes", "no").astype(object))
    save_model(tmp_path / "model", model)
    assert_same_model(load_model(tmp_path / "model").model, model, X)


@pytest.mark.parametrize(
    "preparation",
    [None, TensorScaler(0), [None, TensorScaler()], make_pipeline(*map(clone, EVERY_STEP))],
    ids=["none", "scaler", "choice", "pipeline"],
)
def test_a_search_comes_back(preparation, binary, tmp_path):
    X, y = binary
    model = TensorMarginClassifierCV(**SMALL, preparation=preparation).fit(X, y)
    save_model(tmp_path / "model.skops", model)
    loaded = load_model(tmp_path / "model.skops").model
    assert_same_model(loaded, model, X)
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(loaded.cv_results_["mean_test_score"], model.cv_results_["mean_test_score"])
    assert set(loaded.cv_results_) == set(model.cv_results_)
    assert repr(loaded.best_params_) == repr(model.best_params_)


@pytest.mark.parametrize("step", [*EVERY_STEP, TensorScaler((0, 2), with_mean=False)], ids=lambda s: type(s).__name__)
@pytest.mark.parametrize(
    "last", [TensorMarginClassifier("tt"), TensorMarginClassifierCV(**SMALL)], ids=["plain", "search"]
)
def test_a_pipeline_with_each_transformer_comes_back(step, last, binary, tmp_path):
    X, y = binary
    if isinstance(step, Tensorize):
        step = Tensorize((2, 2, 5, 3))
    model = make_pipeline(clone(step), clone(last)).fit(X, y)
    save_model(tmp_path / "model.skops", model)
    loaded = load_model(tmp_path / "model.skops")
    assert_same_model(loaded.model, model, X)
    np.testing.assert_array_equal(loaded.model[0].transform(X), model[0].transform(X))
    assert loaded.facts["steps"] == [describe_step(model[0])]
    assert loaded.facts["sample_shape"] == [4, 5, 3]


def test_scaling_by_group_comes_back(binary, tmp_path):
    X, y = binary
    groups = np.arange(40) // 10
    scaler = TensorScaler(by_group=True)
    model = Pipeline([("scale", scaler), ("last", TensorMarginClassifier("cp"))])
    model["last"].fit(scaler.fit_transform(X, groups=groups), y)
    save_model(tmp_path / "model.skops", model)
    loaded = load_model(tmp_path / "model.skops").model
    np.testing.assert_array_equal(loaded[0].transform(X, groups=groups), scaler.transform(X, groups=groups))


def test_models_of_scikit_learn_come_back(binary, tmp_path):
    X, y = binary
    flat = X.reshape(40, -1)
    model = make_pipeline(StandardScaler(), LinearSVC()).fit(flat, y)
    save_model(tmp_path / "svc.skops", model)
    loaded = load_model(tmp_path / "svc.skops")
    assert_same_model(loaded.model, model, flat)
    assert loaded.facts["sample_shape"] is None


def test_facts_say_what_the_model_is(saved, fitted):
    facts = read_facts(saved)
    assert facts == dict(load_model(saved).facts)
    assert facts["format"] == models.FORMAT == 3
    assert facts["model"] == "TensorMarginClassifier"
    assert facts["steps"] == []
    assert facts["sample_shape"] == [4, 5, 3]
    assert facts["classes"] == [-1, 1]
    assert facts["about"] == {"seed": 7}
    assert set(facts["versions"]) >= {"python", "tensormargin", "numpy", "scikit-learn"}
    assert facts["created"].endswith("+00:00")
    with pytest.raises(TypeError):
        load_model(saved).facts["seed"] = 8


def test_saving_again_replaces_the_file(saved, binary, tmp_path):
    other = TensorMarginClassifier("tt").fit(*binary)
    save_model(str(saved), other)
    assert_same_model(load_model(str(saved)).model, other, binary[0])
    assert read_facts(saved)["about"] == {}
    assert only_file(tmp_path, saved)


# ---- all or nothing ----


class Foreign(ClassifierMixin, BaseEstimator):
    """An estimator that is not on the list of trusted types."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.full(len(X), self.classes_[0])


def fail(*_, **__):
    raise OSError("disk full")


@pytest.mark.parametrize("at", ["zipfile.ZipFile.writestr", "pathlib.Path.replace"])
def test_a_save_that_fails_leaves_nothing(at, fitted, tmp_path, monkeypatch):
    monkeypatch.setattr(at, fail)
    with pytest.raises(OSError, match="disk full"):
        save_model(tmp_path / "model.skops", fitted)
    assert list(tmp_path.iterdir()) == []


def test_a_save_that_fails_leaves_the_old_file(saved, fitted, tmp_path, monkeypatch):
    before = saved.read_bytes()
    monkeypatch.setattr("zipfile.ZipFile.writestr", fail)
    with pytest.raises(OSError, match="disk full"):
        save_model(saved, fitted)
    assert saved.read_bytes() == before
    assert only_file(tmp_path, saved)


def test_what_could_not_be_loaded_is_not_saved(binary, fitted, tmp_path):
    X, y = binary
    path = tmp_path / "model.skops"
    with pytest.raises(TypeError, match=r"it is of class .*\.Foreign. Save it with joblib yourself"):
        save_model(path, Foreign().fit(X, y))
    with pytest.raises(NotFittedError):
        save_model(path, TensorMarginClassifier())
    with pytest.raises(NotFittedError):
        save_model(path, make_pipeline(TensorScaler(), TensorMarginClassifierCV()))
    for about, error in (({"accuracy": float("nan")}, ValueError), ({"rows": {1, 2}}, TypeError)):
        with pytest.raises(error, match="JSON"):
            save_model(path, fitted, about)
    assert list(tmp_path.iterdir()) == []


# ---- errors ----


def with_facts(path: Path, facts) -> Path:
    """Add the metadata to an archive, or replace them."""
    content = facts if isinstance(facts, bytes) else json.dumps(facts).encode()
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist() if name != models.FACTS}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
        archive.writestr(models.FACTS, content)
    seal(path)
    return path


GOOD = {"format": 1, "versions": {"tensormargin": "0.1.0"}}


class Payload:
    """An object that writes a file when it is unpickled."""

    def __init__(self, mark: str) -> None:
        self.mark = mark

    def __reduce__(self):
        return Path.touch, (Path(self.mark),)


def test_the_payload_would_work(tmp_path):
    pickle.loads(pickle.dumps(Payload(str(tmp_path / "mark"))))
    assert (tmp_path / "mark").exists()


@pytest.mark.parametrize("disguise", ["bare", "after an archive", "as the schema", "as the facts", "as an array"])
def test_a_pickle_in_disguise_does_not_run(disguise, saved, tmp_path):
    mark = tmp_path / "mark"
    payload = pickle.dumps(Payload(str(mark)))
    if disguise == "bare":
        saved.write_bytes(payload)
    elif disguise == "after an archive":
        saved.write_bytes(payload + saved.read_bytes()[:100])
    else:
        with zipfile.ZipFile(saved) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        names = {"as the schema": ["schema.json"], "as the facts": [models.FACTS]}.get(
            disguise, [name for name in members if name.endswith(".npy")]
        )
        assert names
        with zipfile.ZipFile(saved, "w") as archive:
            for name, data in members.items():
                archive.writestr(name, payload if name in names else data)
        seal(saved)
    with pytest.raises(BadFileError, match=r"model\.skops"):
        load_model(saved)
    assert not mark.exists()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "not a model that tensormargin saved, or cut short"),
        (b"hello", "not a model that tensormargin saved, or cut short"),
        (b"\x89PNG\r\n\x1a\n", "not a model that tensormargin saved, or cut short"),
    ],
)
def test_other_files_are_refused(content, said, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(BadFileError, match=said):
        load_model(path)


def test_files_that_are_not_there(tmp_path):
    for path in (tmp_path / "nothing", tmp_path):
        with pytest.raises(BadFileError, match="no such file; give a model"):
            load_model(path)


def test_an_archive_of_arrays_is_no_model(tmp_path):
    np.savez(tmp_path / "arrays.npz", X=np.ones(3))
    with pytest.raises(BadFileError, match="not a model that tensormargin saved"):
        load_model(tmp_path / "arrays.npz")


def test_an_archive_without_facts_is_refused(fitted, tmp_path):
    write_archive(tmp_path / "bare.skops", fitted)
    with pytest.raises(BadFileError, match="not a model that tensormargin saved"):
        load_model(tmp_path / "bare.skops")


@pytest.mark.parametrize("share", [0.02, 0.3, 0.6, 0.9, 0.99, 0.9999])
def test_a_file_that_was_cut_short_is_refused(share, saved):
    content = saved.read_bytes()
    saved.write_bytes(content[: int(share * len(content))])
    with pytest.raises(BadFileError, match="cut short"):
        load_model(saved)


def test_a_damaged_byte_is_noticed_or_does_no_harm(saved, fitted, binary):
    rng = np.random.default_rng(0)
    content = saved.read_bytes()
    noticed = 0
    for place in rng.integers(0, len(content), 60):
        damaged = bytearray(content)
        damaged[place] ^= 1 << rng.integers(8)
        saved.write_bytes(damaged)
        try:
            loaded = load_model(saved)
        except BadFileError:
            noticed += 1
        else:
            np.testing.assert_array_equal(loaded.model.predict(binary[0]), fitted.predict(binary[0]))
    assert noticed > 30


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({**GOOD, "format": 4}, "has format 4, this tensormargin reads up to 3; upgrade it"),
        ({"format": 99, "versions": "unheard of"}, r"upgrade it \(the file was saved with tensormargin \?"),
        ({"versions": {}}, "has no format version"),
        ({**GOOD, "format": "1"}, "has no format version"),
        ({**GOOD, "format": 0}, "has no format version"),
        ([1, 2], "has no format version"),
        (b"{", "not a model that tensormargin saved"),
        (b"\xff\xfe", "not a model that tensormargin saved"),
        (b"[" * 100_000, "not a model that tensormargin saved"),
    ],
)
def test_facts_that_cannot_be_read(facts, said, saved):
    with_facts(saved, facts)
    for read in (load_model, read_facts):
        with pytest.raises(BadFileError, match=said):
            read(saved)


def test_a_locked_archive_is_refused(saved):
    content = bytearray(saved.read_bytes())
    entry = content.rindex(b"PK\x01\x02")  # the directory entry of the facts, which are written last
    content[entry + 8] |= 1  # the encryption flag
    saved.write_bytes(content)
    with pytest.raises(BadFileError, match=r"model\.skops"):
        read_facts(saved)


def test_a_schema_that_names_nothing_known_is_refused(saved):
    with zipfile.ZipFile(saved) as archive:
        schema = json.loads(archive.read("schema.json"))
        members = {name: archive.read(name) for name in archive.namelist()}
    schema["__loader__"] = "NoSuchLoader"
    members["schema.json"] = json.dumps(schema).encode()
    with zipfile.ZipFile(saved, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    seal(saved)
    with pytest.raises(BadFileError, match=r"model\.skops"):
        load_model(saved)


@pytest.mark.parametrize("last", [TensorMarginClassifier("cp"), LinearSVC()], ids=["of a tensor", "of scikit-learn"])
def test_other_versions_are_told_of(last, binary, tmp_path, monkeypatch):
    path = tmp_path / "model.skops"
    steps = [Tensorize((60,)), StandardScaler(), Tensorize((6, 10)), Tensorize((60,)), clone(last)]
    model = make_pipeline(*steps).fit(*binary)
    with monkeypatch.context() as patch:
        patch.setattr("sklearn.base.__version__", "0.1")
        save_model(path, model)
    with pytest.warns(UserWarning, match="was saved with tensormargin .*; fit it again with the installed versions"):
        load_model(path)


# ---- maps ----


AFFINE = np.array([[-3.0, 0, 0, 90], [0, 3, 0, -126], [0, 0, 3.5, -72], [0, 0, 0, 1]])


@pytest.mark.parametrize("ending", [".nii", ".nii.gz", ".NII.GZ"])
@pytest.mark.parametrize("shape", [(5,), (5, 4), (5, 4, 3), (5, 4, 3, 2)])
def test_nifti_maps(ending, shape, tmp_path):
    path = tmp_path / f"map{ending}"
    values = np.random.default_rng(0).standard_normal(shape)
    assert save_map(path, values, affine=AFFINE, several="no") == [path]
    content = path.read_bytes()
    compressed = ending.lower().endswith(".gz")
    assert (content[:2] == b"\x1f\x8b") == compressed
    image = nibabel.Nifti1Image.from_bytes(gzip.decompress(content) if compressed else content)
    np.testing.assert_array_equal(image.affine, AFFINE)
    assert image.get_data_dtype() == np.float32
    np.testing.assert_array_equal(image.get_fdata().reshape(shape), values.astype(np.float32))
    assert image.shape == shape + (1,) * (3 - len(shape))
    assert only_file(tmp_path, path)
    save_map(tmp_path / "again.nii.gz", values, several="no")
    np.testing.assert_array_equal(nibabel.load(tmp_path / "again.nii.gz").affine, np.eye(4))


def test_the_same_map_makes_the_same_file(tmp_path):
    for name in ("a.nii.gz", "b.nii.gz"):
        save_map(tmp_path / name, np.ones((3, 3, 3)))
    assert (tmp_path / "a.nii.gz").read_bytes() == (tmp_path / "b.nii.gz").read_bytes()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_numpy_maps(dtype, tmp_path):
    values = np.random.default_rng(0).standard_normal((2, 3, 4, 5, 6)).astype(dtype)
    save_map(tmp_path / "map.npy", values)
    back = np.load(tmp_path / "map.npy", allow_pickle=False)
    assert back.dtype == dtype
    np.testing.assert_array_equal(back, values)
    assert only_file(tmp_path, tmp_path / "map.npy")


@pytest.mark.parametrize("shape", [(20, 30), (6, 7, 5)])
def test_pictures_of_maps(shape, tmp_path):
    before = plt.get_fignums()
    save_map(tmp_path / "map.png", np.random.default_rng(0).standard_normal(shape), title="weight")
    with Image.open(tmp_path / "map.png") as picture:
        assert min(picture.size) > 100
        assert len(picture.convert("RGB").getcolors(picture.width * picture.height)) > 50
    assert plt.get_fignums() == before
    assert only_file(tmp_path, tmp_path / "map.png")


@pytest.mark.parametrize("name", ["map.jpg", "map", "map.nii.bz2", "nii", "map.npz"])
def test_maps_have_endings_that_say_their_format(name, tmp_path):
    with pytest.raises(BadFileError, match=r"a map is written as \.nii, \.nii\.gz, \.npy, \.png"):
        save_map(tmp_path / name, np.ones((3, 3)))
    assert list(tmp_path.iterdir()) == []


def test_nifti_has_four_axes_at_most_and_needs_nibabel(tmp_path, monkeypatch):
    with pytest.raises(BadFileError, match=r"at most four axes; this one has 5. Write it as \.npy"):
        save_map(tmp_path / "map.nii", np.ones((2,) * 5))
    monkeypatch.setattr("tensormargin.plots.files.find_spec", lambda name: None)
    with pytest.raises(BadFileError, match=r"needs nibabel; pip install 'tensormargin\[neuro\]'"):
        check_map_path("map.nii.gz", 3)
    assert check_map_path("map.npy", 9) is None


def test_a_model_that_an_earlier_version_saved_still_predicts_the_same():
    """Load a file of format 1: a scaler and a search with a crop, fitted to three classes of digits."""
    digits = load_digits_tensor()
    X = digits.data[digits.target < 3]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about other library versions
        model = load_model(Path(__file__).parents[1] / "files" / "digits-format1.skops").model
    assert model.predict(X[60:80]).tolist() == [1, 0, 2, 2, 0, 0, 1, 2, 1, 1, 1, 1, 0, 1, 2, 2, 2, 0, 0, 2]
    probabilities = model.predict_proba(X[60:80])
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.classes_[probabilities.argmax(axis=1)], model.predict(X[60:80]))
    assert model[-1].calibration_.shape == (3, 2)
    np.testing.assert_array_equal(model[-1].calibration_[:, 1], 0)  # format 1 had no offset


@pytest.mark.parametrize(("name", "views"), [("digits-format3", True), ("digits-grid-format3", False)])
def test_a_model_loads_whose_classes_have_moved_since(name, views):
    """Load files that name modules of 0.2.0.dev0: views with a search, and a grid search."""
    digits = load_digits_tensor()
    X = digits.data[digits.target < 3][60:80]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about other library versions
        model = load_model(Path(__file__).parents[1] / "files" / f"{name}.skops").model
    y = [1, 0, 2, 2, 0, 0, 1, 2, 1 if views else 2, 1, 1, 1, 0, 1, 2, 2, 2, 0, 0, 2]
    assert model.predict(Views({"image": X, "edges": X}) if views else X).tolist() == y
