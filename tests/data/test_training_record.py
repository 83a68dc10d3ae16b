"""Tests of what a model file keeps of its training samples, and of what `predict` says by it."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from conftest import fewer_models, run
from PIL import Image
from scipy.ndimage import gaussian_filter

from tensormargin import TensorMarginClassifier, TrainingRecord, Views, load_model, save_model

QUICK = ("--decomposition", "cp", "--rank", 1, "--outer-folds", 0, "--folds", 2, "--no-report")
SHAPE = (12, 16)


@pytest.fixture(autouse=True, scope="module")
def _few_models():
    with fewer_models("TensorMarginClassifierCV"):
        yield


def pictures(n_samples, seed=0):
    """Return smooth grey pictures whose left or right half is brighter, and their labels."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_samples) % 2
    X = 90 + 25 * gaussian_filter(rng.standard_normal((n_samples, *SHAPE)), (0, 2, 2)) / 0.14
    X[y == 0, :, :8] += 40
    X[y == 1, :, 8:] += 40
    return X.clip(1, 255).astype(np.uint8), np.array(["left", "right"])[y]


def write_pictures(folder, X, y):
    for number, (sample, label) in enumerate(zip(X, y, strict=True)):
        (folder / label).mkdir(parents=True, exist_ok=True)
        Image.fromarray(sample).save(folder / label / f"{number:03}.png")
    return folder


def told(*arguments):
    result = run(*arguments)
    assert result.returncode == 0, result.stderr
    return result


def table(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    write_pictures(folder / "training", *pictures(80))
    told("fit", folder / "training", "-o", folder / "pictures.skops", *QUICK)
    return folder / "pictures.skops"


def predicted(model, folder, X, y=None, *options):
    np.savez(folder / "new.npz", X=X, **({} if y is None else {"y": y}))
    result = told("predict", model, folder / "new.npz", "-o", folder / "new.csv", *options)
    return result, table(folder / "new.csv")


class TestSamplesUnlikeTraining:
    def test_new_pictures_are_like_those_of_the_fit(self, model, tmp_path):
        result, rows = predicted(model, tmp_path, *pictures(100, seed=1))
        assert sum(row["unlike training"] != "no" for row in rows) <= 2
        assert {row["used in fit"] for row in rows} == {"no"}
        assert "used in the fit" not in result.stdout

    @pytest.mark.parametrize(
        "make",
        [
            lambda X, rng: rng.permuted(X.reshape(len(X), -1), axis=1).reshape(X.shape),
            lambda X, rng: np.repeat(X.mean(axis=(1, 2), keepdims=True), 192, axis=2)[:, :, :192].reshape(X.shape),
            lambda X, rng: 255 - np.round(80 * np.abs(np.sin(np.arange(192).reshape(SHAPE))) + rng.random(X.shape)),
            lambda X, rng: np.where(rng.random(X.shape) < 0.05, 250, 60),
            lambda X, rng: np.zeros(X.shape),
        ],
        ids=["shuffled", "constant", "stripes", "points", "black"],
    )
    def test_other_pictures_of_this_shape_are_not(self, model, tmp_path, make):
        X = make(pictures(20, seed=2)[0], np.random.default_rng(0)).astype(np.uint8)
        result, rows = predicted(model, tmp_path, X)
        assert all(row["unlike training"].startswith("entries") for row in rows)
        assert "20 of 20 samples are unlike all training samples (20 in their entries" in result.stderr
        assert "0, 1, 2" in result.stderr

    def test_scores_beyond_all_of_training(self):
        X, y = pictures(40)
        clf = TensorMarginClassifier("cp", 1).fit(X, y)
        scores = clf.decision_function(X)
        record = TrainingRecord.of(X, scores=scores)
        room = np.ptp(scores) / 2
        ends = [scores.min() - 1.01 * room, scores.min() - 0.99 * room, 0.0, scores.max() + 1.01 * room]
        assert record.compare(X[:4], ends).beyond.tolist() == [True, False, False, True]

    def test_counts_are_in_the_json(self, model, tmp_path):
        X, _ = pictures(6, seed=3)
        X[4] = 90
        result, _ = predicted(model, tmp_path, X, None, "--json")
        facts = json.loads(result.stdout)
        assert (facts["n_unlike_training"], facts["n_used_in_fit"]) == (1, 0)
        assert ": 4. Do not rely" in result.stderr


class TestSamplesOfTheFit:
    def test_are_called_that(self, model, tmp_path):
        old, new = pictures(80), pictures(28, seed=5)
        X, y = np.concatenate([old[0][:12], new[0]]), np.concatenate([old[1][:12], new[1]])
        y[-1] = "left"  # wrong
        result, rows = predicted(model, tmp_path, X.astype(float), y)  # another type of numbers
        assert [row["used in fit"] for row in rows] == ["yes"] * 12 + ["no"] * 28
        said = "12 of 40 samples were used in the fit: their accuracy says nothing about new samples"
        assert said in result.stdout
        assert "Accuracy on the 28 of them not used in the fit: 96.43 %" in result.stdout
        assert f"{model.parent / 'training'}" not in result.stdout
        facts = json.loads(predicted(model, tmp_path, X, y, "--json")[0].stdout)
        assert (facts["n_used_in_fit"], facts["n_new"], facts["accuracy"]) == (12, 28, 0.975)
        assert facts["accuracy_on_new"] == pytest.approx(27 / 28)

    def test_all_of_them(self, model, tmp_path):
        result, _ = predicted(model, tmp_path, *pictures(80))
        assert "All 80 samples were used in the fit" in result.stdout
        assert "not used in the fit:" not in result.stdout

    def test_of_several_views_agree_in_all_of_them(self):
        X, _ = pictures(20)
        record = TrainingRecord.of(Views(picture=X, age=np.arange(20.0) % 3))
        new = Views(picture=X[[0, 1, 2]], age=np.array([0.0, 0.0, 2.0]))
        assert record.compare(new).used.tolist() == [True, False, True]
        assert record.compare(new.without("age")).used.tolist() == [True, True, True]

    def test_of_scenes(self, tmp_path):
        rng = np.random.default_rng(0)
        truth = np.arange(96).reshape(8, 12) % 12 // 4 + 1
        np.save(tmp_path / "cube.npy", rng.standard_normal((8, 12, 4)) + 3 * truth[..., None] * [1, -1, 2, 0.5])
        np.save(tmp_path / "truth.npy", truth)
        both = (tmp_path / "cube.npy", tmp_path / "truth.npy")
        told("patches", *both, "-o", tmp_path / "p.npz", "--size", 1, "--classes", "1,2", "--per-class", 20)
        told("fit", tmp_path / "p.npz", "-o", tmp_path / "m.skops", *QUICK, "--no-groups")
        options = ("--scene", tmp_path / "map.png", "--truth", both[1])
        result = told("predict", tmp_path / "m.skops", both[0], *options)
        assert "40 of 96 pixels were used in the fit" in result.stdout
        assert "Accuracy on 64 pixels of known classes" in result.stdout
        assert "32 pixels of classes the model does not know (3) left out" in result.stdout
        assert "Accuracy on the 24 of them whose patches share no pixel with one of the fit" in result.stdout
        np.save(tmp_path / "cube.npy", 1000 * np.load(tmp_path / "cube.npy"))
        refused = run("predict", tmp_path / "m.skops", both[0], *options)
        assert refused.returncode == 2
        assert "must have the scale of the training samples" in refused.stderr


class TestScale:
    def test_another_unit_is_refused(self, tmp_path):
        h5py = pytest.importorskip("h5py")
        rng = np.random.default_rng(0)
        y = np.arange(60) % 2
        X = 1e-5 * (rng.standard_normal((60, 4, 30)) + 2 * y[:, None, None])
        for name, data, unit in (("volts", X[:40], "V"), ("micro", 1e6 * X[40:], "uV")):
            with h5py.File(tmp_path / f"{name}.h5", "w") as file:
                file["X"], file["y"] = data, y[: len(data)]
                file["X"].attrs["units"] = unit
        told("fit", tmp_path / "volts.h5", "-o", tmp_path / "m.skops", *QUICK)
        predict = ("predict", tmp_path / "m.skops", tmp_path / "micro.h5", "-o", tmp_path / "p.csv")
        result = run(*predict)
        assert result.returncode == 2
        words = " ".join(result.stderr.split())
        assert "micro.h5 (in uV): samples must have the scale of the training samples" in words
        assert "in V). Divide them by about 1e+06, or give --any-scale" in words
        assert not (tmp_path / "p.csv").exists()
        result = told(*predict, "--any-scale")
        assert "20 of 20 samples are unlike all training samples" in result.stderr
        (scale,) = json.loads(told("inspect", tmp_path / "m.skops", "--json").stdout)["about"]["training"][
            "scale"
        ].values()
        assert scale["unit"] == "V"
        assert 1e-5 < scale["median"] < 3e-5

    def test_one_dark_picture_is_no_other_unit(self, model, tmp_path):
        X, _ = pictures(1, seed=7)
        result, rows = predicted(model, tmp_path, X // 20)
        assert rows[0]["unlike training"].startswith("entries")
        assert "the only sample is unlike all training samples" in result.stderr
        predicted(model, tmp_path, np.zeros((30, *SHAPE)))  # whose scale cannot be told
        X, _ = pictures(30, seed=7)
        X[:12] //= 20
        predicted(model, tmp_path, X)

    @pytest.mark.parametrize("factor", [1 / 255, 10.0])
    @pytest.mark.parametrize("n_samples", [1, 30])
    def test_pictures_from_zero_to_one_are(self, model, tmp_path, factor, n_samples):
        np.savez(tmp_path / "new.npz", X=factor * pictures(n_samples, seed=8)[0] * (2 if factor > 1 else 1))
        result = run("predict", model, tmp_path / "new.npz", "-o", tmp_path / "new.csv")
        assert (result.returncode, "the scale of the training samples" in result.stderr) == (2, True)

    def test_models_without_a_scale_take_any(self, tmp_path):
        rng = np.random.default_rng(0)
        y = np.arange(40) % 2
        X = rng.standard_normal((40, 4, 30))
        X[y == 1, 0] *= 3
        groups = np.arange(40) // 2 % 4
        np.savez(tmp_path / "a.npz", X=X, y=y, groups=groups)
        np.savez(tmp_path / "b.npz", X=1e6 * X, y=y, groups=groups)
        told("fit", tmp_path / "a.npz", "-o", tmp_path / "m.skops", *QUICK, "--by-group", "--groups", "groups")
        result = told("predict", tmp_path / "m.skops", tmp_path / "b.npz", "-o", tmp_path / "p.csv")
        assert "Warning" not in result.stderr

    def test_the_view_is_named(self):
        X, _ = pictures(40)
        record = TrainingRecord.of(Views(picture=X, age=np.arange(20.0, 60.0)), unit={"picture": "cd"})
        other = record.compare(Views(picture=X, age=1000 * np.arange(20.0, 60.0))).other_scale
        assert (other.view, other.factor) == ("age", pytest.approx(1000))
        assert record.scale["picture"]["unit"] == "cd"


class TestRecords:
    def test_are_those_of_the_same_samples_however_they_are_stored(self):
        dask = pytest.importorskip("dask.array")
        X, _ = pictures(30)
        record = TrainingRecord.of(X)
        lazy = TrainingRecord.of(dask.from_array(X.astype(np.float32), chunks=(7, 5, 16)))
        readonly = X.copy()
        readonly.flags.writeable = False
        assert dict(lazy.facts) == dict(record.facts) == dict(TrainingRecord.of(readonly).facts)
        found = record.compare(dask.from_array(X, chunks=(4, 12, 16)))
        assert found.used.all()
        assert not found.far.any()

    def test_do_not_depend_on_the_order_of_memory(self):
        X = np.random.default_rng(0).standard_normal((30, 4, 5, 6))
        record = TrainingRecord.of(X)
        for other in (np.asfortranarray(X), np.repeat(X, 2, axis=2)[:, :, ::2], X[::-1].copy()[::-1]):
            assert dict(TrainingRecord.of(other).facts) == dict(record.facts)
            found = record.compare(other)
            assert found.used.all()
            assert not found.far.any()

    def test_samples_of_few_values_are_known_by_their_digests(self):
        """Their multiples are no copies, so they have no signature; one of them suffices to hash all others."""
        rng = np.random.default_rng(0)
        X = rng.standard_normal((30, 4, 5))
        X[3] = rng.integers(2, size=(4, 5))
        new = np.concatenate([X[[3, 5]], 2 * X[[3, 5]], 1 - X[[3]]])
        assert TrainingRecord.of(X).compare(new).used.tolist() == [True, True, False, True, False]
        only = TrainingRecord.of(np.delete(X, 3, axis=0))
        assert only.compare(new).used.tolist() == [False, True, False, True, False]

    def test_copies_in_another_type_are_found(self):
        X = np.random.default_rng(0).standard_normal((30, 4, 5))
        X[0, 0, 0] = -0.0
        record = TrainingRecord.of(X[:20])
        assert record.compare(X.astype(np.float32)).used.tolist() == [True] * 20 + [False] * 10

    @pytest.mark.parametrize("view", [lambda X: X, lambda X: {"a": X, "b": X[:, :2]}])
    def test_copies_up_to_a_factor_and_rounding_are_found(self, view):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((30, 4, 5))
        record = TrainingRecord.of(view(X[:20]))
        for copies in (-2 * X, X + 1e-9 * rng.standard_normal(X.shape), np.round(X, 6), X.astype(np.float32) / 3):
            assert record.compare(view(copies)).used.tolist() == [True] * 20 + [False] * 10
        assert not record.compare(view(X + 1e-2 * rng.standard_normal(X.shape))).used.any()
        facts = json.loads(json.dumps(record.facts))
        for own in facts["views"].values():
            del own["signatures"]  # as in a model of 0.2
        assert not TrainingRecord(facts).compare(view(2 * X)).used.any()
        assert TrainingRecord(facts).compare(view(X)).used.sum() == 20

    def test_of_samples_that_differ_in_length(self):
        rng = np.random.default_rng(0)
        X = np.empty(30, object)
        X[:] = [np.cumsum(rng.standard_normal((3, 40 + k)), axis=1) for k in range(30)]
        record = TrainingRecord.of(X)
        new = np.empty(3, object)
        new[:] = [X[4], np.ones((3, 50)), np.cumsum(rng.standard_normal((3, 5)), axis=1)]
        found = record.compare(new)
        assert found.used.tolist() == [True, False, False]
        assert found.far.tolist()[:2] == [False, True]

    def test_of_incomplete_samples(self):
        X = pictures(30)[0].astype(float)
        X[3, 2, 4:9] = np.nan
        X[5] = np.nan
        record = TrainingRecord.of(X)
        json.dumps(record.facts, allow_nan=False)
        found = record.compare(X[[3, 5, 7]])
        assert found.used.all()
        assert not found.far.any()

    @pytest.mark.parametrize("n_samples", [1, 2, 4])
    def test_of_few_samples_say_nothing_of_distances(self, n_samples):
        record = TrainingRecord.of(pictures(n_samples)[0])
        found = record.compare(np.ones((2, *SHAPE)))
        assert not found.far.any()
        assert not found.used.any()

    @pytest.mark.parametrize("values", [np.zeros((8, 3, 4)), np.ones((8, 5)), np.full((8, 2), 1e300), np.arange(8.0)])
    def test_of_constant_and_huge_samples_are_finite(self, values):
        record = TrainingRecord.of(values)
        json.dumps(record.facts, allow_nan=False)
        assert record.compare(values).used.all()
        assert not record.compare(values).far.any()
        assert record.compare(values).other_scale is None

    def test_are_small(self):
        facts = TrainingRecord.of(np.random.default_rng(0).random((100, 40, 50))).facts
        assert len(json.dumps(facts)) < 16 * 100 + 15_000

    def test_models_without_one_predict_without_these_checks(self, tmp_path):
        X, y = pictures(40)
        clf = TensorMarginClassifier("cp", 1).fit(X, y)
        save_model(tmp_path / "m.skops", clf)
        assert load_model(tmp_path / "m.skops").training is None
        np.savez(tmp_path / "a.npz", X=1e6 * X)
        refused = run("predict", tmp_path / "m.skops", tmp_path / "a.npz", "-o", tmp_path / "p.csv")
        assert "Divide them by about 1e+06" in refused.stderr
        told("predict", tmp_path / "m.skops", tmp_path / "a.npz", "-o", tmp_path / "p.csv", "--any-scale")
        del clf.scale_in_  # as in files of 0.2
        save_model(tmp_path / "m.skops", clf)
        result = told("predict", tmp_path / "m.skops", tmp_path / "a.npz", "-o", tmp_path / "p.csv")
        assert result.stderr == ""
        assert "used in fit" not in table(tmp_path / "p.csv")[0]

    @pytest.mark.parametrize(
        "damage",
        [
            {"views": None},
            {"views": {"": {}}},
            {"views": {"": {"grid": ["x"]}}},
            {"scores": {"minimum": [0.0]}},
            {"views": {"": {"digests": "zz"}}},
            {"views": {"": {"distance": {"limit": 1.0, "mean": "!", "spread": "", "whitening": ""}}}},
            {"views": {"": {"grid": [64, 64]}}},
        ],
    )
    def test_that_are_damaged_are_refused(self, tmp_path, damage):
        X, y = pictures(40)
        clf = TensorMarginClassifier("cp", 1).fit(X, y)
        facts = dict(TrainingRecord.of(X, scores=clf.decision_function(X)).facts)
        views = damage.get("views") or {}
        whole = {name: {**facts["views"][name], **own} if own else own for name, own in views.items()}
        facts |= {**damage, **({"views": whole} if whole else {})}
        save_model(tmp_path / "m.skops", clf, about={"training": facts})
        np.savez(tmp_path / "a.npz", X=X)
        result = run("predict", tmp_path / "m.skops", tmp_path / "a.npz", "-o", tmp_path / "p.csv")
        assert result.returncode == 2
        assert "m.skops: cannot be used (the record of the training samples is damaged" in result.stderr

    def test_groups_are_left_out_together(self):
        rng = np.random.default_rng(0)
        groups = np.repeat(np.arange(12), 5)
        X = rng.standard_normal((60, 6, 7)) + 3 * rng.standard_normal((12, 6, 7))[groups]
        limits = [TrainingRecord.of(X, own).facts["views"][""]["distance"]["limit"] for own in (None, groups)]
        assert limits[1] > limits[0]
