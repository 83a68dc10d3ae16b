"""Tests that a changed, damaged or implausible model file is refused by name before it predicts anything."""

from __future__ import annotations

import json
import zipfile
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from conftest import low_rank_classes
from sklearn.pipeline import make_pipeline

from tensormargin import Deconfound, TensorMarginClassifier, Views
from tensormargin.data.fitted import check_attributes as check_model
from tensormargin.io import BadFileError, archive, load_model, models, read_facts, save_model, sha256_of
from tensormargin.io.checksums import is_sealed, seal
from tensormargin.selection import TensorMarginClassifierCV
from tensormargin.transformers import Crop, Mask, Resize, Smooth, Tensorize, TensorScaler, TensorUnion

SHAPE = (4, 5, 3)


@pytest.fixture(scope="module")
def samples():
    return low_rank_classes(0, 30, SHAPE, 3.0)


@pytest.fixture(scope="module")
def content(samples, tmp_path_factory):
    """Return the bytes of a saved model."""
    path = tmp_path_factory.mktemp("saved") / "model.skops"
    save_model(path, make_pipeline(TensorScaler(), TensorMarginClassifier("cp", 1)).fit(*samples), {"seed": 1})
    return path.read_bytes()


@pytest.fixture
def saved(content, tmp_path):
    path = tmp_path / "model.skops"
    path.write_bytes(content)
    return path


def members_of(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as opened:
        return {name: opened.read(name) for name in opened.namelist()}


def rewritten(path: Path, change, comment: bytes | None = None) -> Path:
    """Change the members of an archive; its comment is kept unless another is given."""
    with zipfile.ZipFile(path) as opened:
        kept = opened.comment
    members = members_of(path)
    change(members)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, data in members.items():
            opened.writestr(name, data)
        opened.comment = kept if comment is None else comment
    return path


def negate(members):
    for name, data in members.items():
        if name.endswith(".npy"):
            array = np.load(BytesIO(data))
            if array.dtype.kind == "f":
                buffer = BytesIO()
                np.save(buffer, -array)
                members[name] = buffer.getvalue()


def test_every_flipped_bit_is_noticed(saved, content):
    rng = np.random.default_rng(0)
    places = [*range(100), *range(len(content) - 200, len(content)), *rng.integers(0, len(content), 100).tolist()]
    for place in places:
        damaged = bytearray(content)
        damaged[place] ^= 1 << int(rng.integers(8))
        saved.write_bytes(damaged)
        with pytest.raises(BadFileError, match=r"model\.skops: "):
            load_model(saved)


@pytest.mark.parametrize("comment", [None, b""], ids=["with the old digest", "without a digest"])
def test_other_weights_are_noticed(comment, saved):
    rewritten(saved, negate, comment)
    with pytest.raises(BadFileError, match="changed since it was saved"):
        load_model(saved)
    with pytest.raises(BadFileError, match="changed since it was saved"):
        read_facts(saved)


def test_a_digest_that_is_kept_elsewhere(saved):
    digest = sha256_of(saved)
    assert load_model(saved, sha256=f" {digest.upper()}\n").facts["about"] == {"seed": 1}
    rewritten(saved, negate)
    seal(saved)  # by somebody who knows how
    assert is_sealed(saved)
    with pytest.raises(BadFileError, match=digest):
        load_model(saved, sha256=digest)
    with pytest.raises(ValueError, match="64 hexadecimal digits"):
        load_model(saved, sha256="abc")


@pytest.mark.parametrize("version", [True, 1.0, "1", 0, None])
def test_only_a_number_is_a_format(version, saved):
    def other(members):
        members[models.FACTS] = json.dumps({**json.loads(members[models.FACTS]), "format": version})

    rewritten(saved, other, b"")
    with pytest.raises(BadFileError, match="no format version"):
        load_model(saved)


def test_files_of_earlier_formats_have_no_digest(saved):
    def earlier(members):
        members[models.FACTS] = json.dumps({**json.loads(members[models.FACTS]), "format": 2})

    rewritten(saved, earlier, b"")
    assert load_model(saved).facts["format"] == 2


def test_text_that_nothing_can_print_is_refused(saved):
    def unprintable(members):
        members[models.FACTS] = json.dumps({**json.loads(members[models.FACTS]), "model": "\ud800"})

    rewritten(saved, unprintable)
    seal(saved)
    with pytest.raises(BadFileError, match=r"model\.skops: not a model"):
        read_facts(saved)


def test_the_facts_that_saving_returns_are_those_of_the_file(samples, tmp_path):
    facts = save_model(tmp_path / "model", TensorMarginClassifier("tt").fit(*samples), {"pair": (1, 2)})
    assert facts == read_facts(tmp_path / "model")


# ---- small files that would need much memory ----


@pytest.mark.parametrize("name", [models.FACTS, archive.SCHEMA])
def test_text_that_expands_is_not_read(name, saved, monkeypatch):
    monkeypatch.setattr(archive, "TEXT_BYTES", 10**6)
    rewritten(saved, lambda members: members.update({name: b" " * (10**6 + 1)}))
    seal(saved)
    with pytest.raises(BadFileError, match=rf"model\.skops: {name} must have at most 1000000 bytes, has 1000001"):
        load_model(saved)


def test_arrays_that_expand_are_not_read(saved, monkeypatch):
    monkeypatch.setattr(archive, "_UNPACKED_BYTES", 10**6)
    buffer = BytesIO()
    np.save(buffer, np.zeros(10**6))
    rewritten(saved, lambda members: members.update({"zeros.npy": buffer.getvalue()}))
    seal(saved)
    with pytest.raises(BadFileError, match=r"model\.skops: \d+ bytes would expand to 8\d+; .* 100 times as large"):
        load_model(saved)


def test_text_that_is_longer_than_the_archive_says_is_not_read(saved):
    """A member whose size in the directory is too small must not be expanded beyond that."""
    rewritten(saved, lambda members: members.update({models.FACTS: b" " * 10**7}))
    damaged = saved.read_bytes().replace((10**7).to_bytes(4, "little"), (100).to_bytes(4, "little"))
    saved.write_bytes(damaged)
    seal(saved)
    with pytest.raises(BadFileError, match=r"model\.skops"):
        load_model(saved)


# ---- numbers ----


def put(value):
    """Return a function that puts a value into an array in place of its first entry."""

    def change(array):
        array = array.astype(complex) if isinstance(value, complex) else array.copy()
        array.flat[0] = value
        return array

    return change


CHANGES = {
    "NaN": put(np.nan),
    "infinite": put(-np.inf),
    "complex": put(1j),
    "shorter": lambda array: array[:0],
    "more axes": lambda array: array[..., None],
    "objects": lambda array: array.astype(object),
    "text": lambda array: array.astype(str),
    "list": lambda array: array.tolist(),
    "nothing": lambda array: None,
}


def fitted_models(samples):
    X, y = samples
    three = np.array(["a", "b", "c"])[np.arange(len(y)) % 3]
    small = {"decompositions": ("cp",), "ranks": (1,), "lams": (1,), "mus": (0,), "cv": 3}
    age = np.linspace(20, 80, len(y))
    confounds = Deconfound().fit(X, confounds=age)
    yield (
        TensorMarginClassifier("cp", 2, probability=True).fit(X, y),
        ("coef_", "intercept_", "classes_", "calibration_"),
    )
    yield TensorMarginClassifier("full", multi_class="ovr").fit(X, three), ("coef_", "intercept_", "classes_")
    yield TensorMarginClassifierCV(**small).fit(X, y), ("calibration_", "classes_")
    yield TensorScaler().fit(X), ("mean_", "scale_")
    yield Mask().fit(X), ("mask_",)
    yield confounds, ("coef_", "mean_")


def refused(model):
    try:
        check_model(model)
    except (ValueError, TypeError, AttributeError):  # load_model turns all of them into one message
        return True
    return False


def test_arrays_must_be_finite_and_of_their_shape(samples, tmp_path):
    for model, names in fitted_models(samples):
        check_model(model)
        for name in names:
            good = getattr(model, name)
            for words, change in CHANGES.items():
                if words in ("objects", "text") and name == "classes_":
                    continue  # labels of other types
                if words in ("NaN", "infinite", "complex") and good.dtype.kind != "f":
                    continue
                setattr(model, name, change(good))
                assert refused(model), (type(model), name, words)
            setattr(model, name, good)
        check_model(model)


@pytest.mark.parametrize("name", ["cp", "tucker", "tt"])
def test_the_decomposed_weight_must_be_the_weight(name, samples):
    model = TensorMarginClassifier(name).fit(*samples)
    other = TensorMarginClassifier(name, lam=100).fit(samples[0], -samples[1])
    for weight in (other.weight_, [model.weight_] * 2, None, "weight", np.ones(3)):
        model.weight_, kept = weight, model.weight_
        with pytest.raises(ValueError, match="weight_ of TensorMarginClassifier"):
            check_model(model)
        model.weight_ = kept
    check_model(model)


def test_classes_must_be_sorted_and_different(samples):
    model = TensorMarginClassifier("cp").fit(samples[0], np.where(samples[1] > 0, "yes", "no"))
    for classes in (["yes", "no"], ["no", "no"], ["no"], ["a", "b", "c"]):
        model.classes_ = np.array(classes)
        with pytest.raises(ValueError, match=r"classes_|coef_"):
            check_model(model)


def test_steps_must_fit_their_samples(samples):
    X, _ = samples
    crop, resize, smooth = Crop().fit(X), Resize((2, 2)).fit(X), Smooth(1.0, mode=0).fit(X)
    for step in (crop, resize, smooth):
        check_model(step)
    crop.bounds_ = ((0, 9), *crop.bounds_[1:])
    resize.matrices_ = resize.matrices_[::-1]
    smooth.matrices_ = [np.ones((1, 1))]
    for step in (crop, resize, smooth):
        with pytest.raises(ValueError, match="must"):
            check_model(step)


def test_steps_must_return_samples_of_their_shape(samples):
    X, _ = samples
    steps = [Crop(), Resize((2, 2)), Smooth(1.0, mode=0), TensorScaler(), Mask(), Tensorize((-1, 2))]
    for step in steps:
        step.fit(X)
        check_model(step)
        step.sample_shape_out_ = (*step.sample_shape_out_[:-1], step.sample_shape_out_[-1] + 1)
        with pytest.raises(ValueError, match=f"sample_shape_out_ of {type(step).__name__}|matrices_"):
            check_model(step)


@pytest.mark.parametrize("nested", [False, True])
def test_the_steps_of_a_pipeline_must_fit_together(samples, tmp_path, nested):
    X, y = samples

    def fitted(length):
        steps = [Tensorize((length, -1)), "passthrough", TensorScaler(), TensorMarginClassifier("cp")]
        if nested:
            steps = [make_pipeline(*steps[:2]), make_pipeline(*steps[2:])]
        return make_pipeline(*steps).fit(X, y)

    for place in range(1, 2 if nested else 4):
        model, other = fitted(2), fitted(4)
        check_model(model)
        model.steps[place] = other.steps[place]
        if model.steps[place][1] == "passthrough":
            continue
        words = r"must take samples of shape \(2, \d+\), which \w+ before it returns; it takes \(4, "
        with pytest.raises(ValueError, match=words):
            check_model(model)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tensormargin.data.fitted.check_attributes", lambda *_: None)
        save_model(tmp_path / "torn.skops", model)
    with pytest.raises(BadFileError, match=r"torn\.skops.*must take samples of shape"):
        load_model(tmp_path / "torn.skops")


def test_views_that_steps_return_must_fit_the_classifier(samples):
    X, y = samples
    union = TensorUnion([("a", TensorScaler()), ("b", Tensorize((2, -1)))])
    model = make_pipeline(union, TensorMarginClassifier("cp", 1)).fit(X, y)
    check_model(model)
    union.sample_shape_out_ = {**union.sample_shape_out_, "b": (4, 1)}
    with pytest.raises(ValueError, match="must take samples of shape"):
        check_model(model)


def test_several_views_are_checked(samples, tmp_path):
    X, y = samples
    model = TensorMarginClassifier("cp", 1).fit(Views(a=X, b=X[:, :, 0, 0]), y)
    save_model(tmp_path / "model", model)
    assert load_model(tmp_path / "model").model.predict(Views(a=X, b=X[:, :, 0, 0])).shape == y.shape
    model.coef_["b"] = model.coef_["b"][:, :2]
    with pytest.raises(ValueError, match="coef_ of TensorMarginClassifier must"):
        check_model(model)


def test_a_model_that_could_not_be_loaded_is_not_saved(samples, tmp_path):
    model = TensorMarginClassifier("cp").fit(*samples)
    model.intercept_ = model.intercept_ * np.nan
    with pytest.raises(ValueError, match="intercept_ of TensorMarginClassifier must be finite"):
        save_model(tmp_path / "model", model)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["created", "versions", "model", "steps", "classes", "about"])
def test_metadata_must_be_complete(name, saved):
    def without(members):
        facts = json.loads(members[models.FACTS])
        del facts[name]
        members[models.FACTS] = json.dumps(facts)

    rewritten(saved, without)
    seal(saved)
    with pytest.raises(BadFileError, match=rf"model\.skops: .*{name!r} must be"):
        load_model(saved)
