"""Several views from files: matching, covariates, the commands, maps and the report."""

import re

import numpy as np
import pytest
from conftest import fewer_models, run
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from tensormargin import (
    TensorMarginClassifier,
    TensorMarginClassifierCV,
    TensorScaler,
    TensorUnion,
    Views,
    ViewTransformer,
    load_model,
    view_shares,
)
from tensormargin.data import Coding
from tensormargin.datasets import DataUnavailableError, load_schizo_fnc
from tensormargin.evaluation import FitPlan, check_plan, evaluate_without_views, fit_and_evaluate
from tensormargin.evaluation.without_views import without_view
from tensormargin.inspection import view_maps
from tensormargin.io import BadFileError, KnownViews, known_views, load_views
from tensormargin.plots import plot_factors, plot_ranks, plot_search, plot_weight, save_map
from tensormargin.report import model_page, render
from tensormargin.transformers import Recipe

pytestmark = pytest.mark.usefixtures("blank_figures")

N = 24
IDS = np.array([f"s{k:02d}" for k in range(N)])


@pytest.fixture(scope="module")
def arrays():
    rng = np.random.default_rng(0)
    y = np.arange(N) % 2
    eeg = rng.normal(size=(N, 3, 5))
    eeg[:, 1] += (2 * y - 1)[:, None]
    fmri = rng.normal(size=(N, 4, 3, 2))
    fmri[:, 1, 1] += (2 * y - 1)[:, None]
    return eeg, fmri, y


@pytest.fixture
def files(arrays, tmp_path, monkeypatch):
    """Write eeg.npz and fmri.npz with ids, the latter in another order and without the last three samples."""
    eeg, fmri, y = arrays
    monkeypatch.chdir(tmp_path)
    order = np.random.default_rng(1).permutation(N - 3)
    np.savez("eeg.npz", X=eeg, y=y, id=IDS)
    np.savez("fmri.npz", X=fmri[order], id=IDS[order])
    np.savez("plain.npz", X=fmri)
    np.savez("both.npz", eeg=eeg, fmri=fmri, y=y)
    rows = [f"{IDS[k]},{20 + k},{'fm'[k % 3 % 2]}" for k in range(N)][::-1]
    (tmp_path / "people.csv").write_text("participant_id,age,sex\n" + "\n".join(rows) + "\n")
    return tmp_path


@pytest.fixture(scope="module")
def fitted(arrays, tmp_path_factory):
    eeg, fmri, y = arrays
    folder = tmp_path_factory.mktemp("views")
    fmri = fmri.copy()
    fmri[3] = np.nan
    np.savez(folder / "eeg.npz", X=eeg, y=y, id=IDS)
    np.savez(folder / "fmri.npz", X=fmri, id=IDS)
    rows = [f"{IDS[k]},{20 + k},{'fm'[k % 3 % 2]}" for k in range(N)]
    (folder / "people.csv").write_text("id,age,sex\n" + "\n".join(rows) + "\n")
    samples = load_views(folder / "eeg.npz", [folder / "fmri.npz"], covariates=folder / "people.csv")
    plan = FitPlan(decomposition="cp", rank=1, folds=2, outer_folds=2, without_views=True)
    check_plan(samples, plan)
    with fewer_models():
        return samples, fit_and_evaluate(samples, plan)


@pytest.fixture(scope="module")
def model(arrays):
    eeg, fmri, y = arrays
    return TensorMarginClassifier("cp", rank=1).fit(Views(eeg=eeg, fmri=fmri), y)


class TestMatching:
    def test_by_id(self, files, arrays):
        eeg, fmri, y = arrays
        found = load_views("eeg.npz", ["fmri.npz"], covariates="people.csv")
        assert found.data.names == ("eeg", "fmri", "covariates")
        np.testing.assert_array_equal(found.data["eeg"], eeg)
        np.testing.assert_array_equal(found.data["fmri"][:-3], fmri[:-3])
        assert np.isnan(found.data["fmri"][-3:]).all()
        np.testing.assert_array_equal(found.data["covariates"][:, 0], 20 + np.arange(N))
        np.testing.assert_array_equal(found.target, y)
        assert found.names == IDS.tolist()
        assert any("by sample id; 3 of 24 samples lack it" in note for note in found.notes)

    def test_by_order_and_it_says_so(self, files, arrays):
        found = load_views("eeg.npz", {"scan": "plain.npz"})
        assert found.data.names == ("eeg", "scan")
        np.testing.assert_array_equal(found.data["scan"], arrays[1])
        assert found.notes == ("plain.npz: matched to eeg.npz by order, since they have no sample ids in common",)

    def test_several_arrays_of_one_file(self, files, arrays):
        found = load_views("both.npz", samples=["eeg", "fmri"])
        assert found.sample_shape == {"eeg": (3, 5), "fmri": (4, 3, 2)}
        np.testing.assert_array_equal(found.data["fmri"], arrays[1])

    def test_one_number_per_sample(self, files, arrays):
        np.savez("ages.npz", eeg=arrays[0], age=np.arange(N), y=arrays[2])
        assert load_views("ages.npz", samples=["eeg", "age"]).sample_shape == {"eeg": (3, 5), "age": (1,)}

    def test_file_names_are_ids(self, files, arrays):
        (files / "scans").mkdir()
        for k in (3, 1, 2):
            np.save(files / "scans" / f"sub-s{k:02d}_bold.npy", arrays[1][k])
        np.savez("named.npz", X=arrays[0][:4], y=[0, 1, 0, 1], participant_id=[f"sub-s{k:02d}" for k in range(4)])
        found = load_views("named.npz", ["scans"])
        np.testing.assert_array_equal(found.data["scans"][1:], arrays[1][1:4])
        assert np.isnan(found.data["scans"][0]).all()

    def test_several_samples_of_a_person(self, files, arrays):
        np.savez("trials.npz", X=arrays[0], y=arrays[2], subject_id=IDS[np.arange(N) // 2])
        covariates = load_views("trials.npz", covariates="people.csv", groups="subject_id").data["covariates"]
        np.testing.assert_array_equal(covariates[:, 0], 20 + np.arange(N) // 2)

    def test_lazily(self, files):
        dask = pytest.importorskip("dask.array")
        here = load_views("eeg.npz", ["fmri.npz"], covariates="people.csv").data
        lazy = load_views("eeg.npz", ["fmri.npz"], covariates="people.csv", lazy=True).data
        assert all(isinstance(array, dask.Array) for array in lazy.values())
        for name, array in here.items():
            np.testing.assert_array_equal(lazy[name].compute(), array)

    def test_samples_that_lack_the_first_view(self, files, arrays):
        eeg = arrays[0].copy()
        eeg[4] = np.nan
        np.savez("gaps.npz", X=eeg, y=arrays[2])
        assert np.isnan(load_views("gaps.npz", ["plain.npz"]).data["gaps"][4]).all()
        eeg[5, 0, 0] = np.inf
        np.savez("gaps.npz", X=eeg, y=arrays[2])
        with pytest.raises(BadFileError, match=r"gaps.npz.*sample 5"):
            load_views("gaps.npz", ["plain.npz"])

    def test_refusals(self, files, arrays):
        _, fmri, y = arrays
        np.savez("short.npz", X=fmri[:5])
        with pytest.raises(BadFileError, match=r"short.npz: has 5 samples, but eeg.npz has 24"):
            load_views("eeg.npz", ["short.npz"])
        np.savez("others.npz", X=fmri, id=np.arange(N))
        with pytest.raises(BadFileError, match="none of its sample ids, such as '0'"):
            load_views("eeg.npz", ["others.npz"])
        np.savez("mixed.npz", X=fmri, y=1 - y)
        with pytest.raises(BadFileError, match=r"labels are not those of eeg.npz"):
            load_views("eeg.npz", ["mixed.npz"])
        with pytest.raises(BadFileError, match="two views are named 'eeg'"):
            load_views("eeg.npz", {"eeg": "plain.npz"})
        with pytest.raises(BadFileError, match="no such file"):
            load_views("eeg.npz", ["none.npz"])
        np.savez("twice.npz", X=fmri, id=["a"] * N)
        assert "by order" in load_views("eeg.npz", ["twice.npz"]).notes[-1]


class TestCovariates:
    def test_text_is_one_column_per_category(self, files):
        found = load_views("eeg.npz", covariates="people.csv")
        assert found.coding.entries == ["age", "sex=f", "sex=m"]
        np.testing.assert_array_equal(found.data["covariates"][:, 1:].sum(axis=1), np.ones(N))
        assert Coding.from_facts(found.coding.facts) == found.coding
        assert load_views("eeg.npz", covariates="people.csv", columns=["age"]).data["covariates"].shape == (N, 1)

    def write(self, rows, header="id,age,site"):
        with open("table.csv", "w", encoding="utf-8") as file:
            file.write("\n".join([header, *rows]))

    def test_missing_values(self, files):
        rows = [f"{name},{k},{'ab'[k % 2]}" for k, name in enumerate(IDS)]
        rows[2] = "s02,n/a,"
        self.write(rows)
        assert np.isnan(load_views("eeg.npz", covariates="table.csv").data["covariates"][2]).all()
        rows[5] = "s05,,a"
        self.write(rows)
        with pytest.raises(BadFileError, match=r"row 6 lacks the covariate 'age'"):
            load_views("eeg.npz", covariates="table.csv")

    def test_new_samples_are_coded_as_the_training_samples(self, files):
        coding = Coding((("age", None), ("site", ("a", "b", "c"))))
        known = KnownViews(("eeg", "covariates"), coding)
        self.write([f"{name},{k},b" for k, name in enumerate(IDS)])
        found = load_views("eeg.npz", covariates="table.csv", known=known)
        np.testing.assert_array_equal(found.data["covariates"][1], [1, 0, 1, 0])
        self.write([f"{name},{k},d" for k, name in enumerate(IDS)])
        with pytest.raises(BadFileError, match="which the training samples did not have; they had a, b, c"):
            load_views("eeg.npz", covariates="table.csv", known=known)
        self.write([f"{name},{k}" for k, name in enumerate(IDS)], "id,age")
        with pytest.raises(BadFileError, match="no covariate 'site'"):
            load_views("eeg.npz", covariates="table.csv", known=known)
        self.write([f"{name},x,a" for name in IDS])
        with pytest.raises(BadFileError, match="must hold numbers"):
            load_views("eeg.npz", covariates="table.csv", known=known)

    def test_columns_may_be_confounds(self, files):
        found = load_views("eeg.npz", ["plain.npz"], covariates="people.csv", confounds=["age"])
        assert found.confounds["age"].tolist() == (20.0 + np.arange(N)).tolist()
        assert found.coding.entries == ["sex=f", "sex=m"]
        assert found.loading["confounds"] == ["age"]
        both = load_views("eeg.npz", covariates="people.csv", confounds="age", columns=["age", "sex"])
        assert both.coding.entries == ["age", "sex=f", "sex=m"]
        with np.load("eeg.npz") as held:
            np.savez("moved.npz", **held, motion=np.arange(N) % 5)
        found = load_views("moved.npz", covariates="people.csv", confounds=("motion", "sex"))
        assert found.confounds.dtype.names == ("motion", "sex")
        assert found.confounds["sex"].tolist() == ["fm"[k % 3 % 2] for k in range(N)]

    def test_confounds_need_a_value_for_every_sample(self, files):
        self.write([f"{name},{k},{'ab'[k % 2]}" for k, name in enumerate(IDS) if k != 3])
        with pytest.raises(
            BadFileError, match=r"table.csv: the confound 'age' must have a value for every sample; row 4"
        ):
            load_views("eeg.npz", covariates="table.csv", confounds=["age"])
        with pytest.raises(BadFileError, match=r"it has no weight.*\(--covariates\)"):
            load_views("eeg.npz", covariates="people.csv", confounds=["weight"])
        with pytest.raises(BadFileError, match="for a table of labels and confounds only, give it as labels_from"):
            load_views("eeg.npz", covariates="people.csv", confounds=["age", "sex"])

    def test_confounds_on_the_command_line(self, files):
        quick = ("--decomposition", "cp", "--rank", "1", "--folds", "2", "--outer-folds", "0", "--no-report")
        with fewer_models():
            done = run("fit", "eeg.npz", "--covariates", "people.csv", "--confounds", "age", *quick, "-o", "m.skops")
        assert done.returncode == 0, done.stderr
        done = run("predict", "m.skops", "eeg.npz", "--covariates", "people.csv", "-o", "p.csv")
        assert done.returncode == 0, done.stderr
        model = load_model("m.skops")
        found = load_views("eeg.npz", covariates="people.csv", like=model, known=known_views(model))
        assert found.confounds.dtype.names == ("age",)

    def test_text_that_is_no_category(self, files):
        self.write([f"{name},{k},comment {k}" for k, name in enumerate(IDS)])
        with pytest.raises(BadFileError, match="text with 24 different values"):
            load_views("eeg.npz", covariates="table.csv")
        with pytest.raises(BadFileError, match="no column 'height'"):
            load_views("eeg.npz", covariates="table.csv", columns=["height"])
        with pytest.raises(BadFileError, match="covariates are a table"):
            load_views("eeg.npz", covariates="eeg.npz")


def test_names_of_a_models_views(files):
    known = KnownViews(("eeg", "mri", "covariates"))
    assert load_views("eeg.npz", ["fmri.npz"], known=known).data.names == ("eeg", "mri")
    assert load_views("fmri.npz", ["eeg.npz"], known=known, need_labels=False).data.names == ("mri", "eeg")
    assert load_views("both.npz", known=KnownViews(("fmri", "eeg"))).data.names == ("fmri", "eeg")
    with pytest.raises(BadFileError, match="no view 'pet'"):
        load_views("eeg.npz", {"pet": "fmri.npz"}, known=known)
    with pytest.raises(BadFileError, match="fewer than there are files"):
        load_views("eeg.npz", ["fmri.npz"], known=KnownViews(("eeg",)))


class TestWorkflow:
    def test_facts(self, fitted):
        _, result = fitted
        about = result.about
        assert set(about["without_views"]) == {"eeg", "fmri", "covariates"}
        assert [one["n_missing"] for one in about["data"]["views"]] == [0, 1, 0]
        assert about["data"]["sample_shape"] == {"eeg": [3, 5], "fmri": [4, 3, 2], "covariates": [3]}
        whole, parts = about["evaluation"]["score"]["value"], about["without_views"]
        assert whole - parts["eeg"]["score"] == pytest.approx(parts["eeg"]["difference"]["difference"])
        assert result.model.best_estimator_[0].transformers.keys() == {"covariates"}

    def test_page(self, fitted):
        samples, result = fitted
        about = {**result.about, "search": None}
        facts = {"classes": [0, 1], "created": "now", "versions": {"tensormargin": "0"}, "about": about}
        model = TensorMarginClassifier("cp", rank=1).fit(samples.data, samples.target)  # which leaves no view out
        page = model_page(model, facts, samples)
        headings = [section.heading for section in page.sections]
        assert {"Views", "View eeg", "View fmri", "View covariates"} <= set(headings)
        assert not {"Weight map", "Pattern and weight", "Factors"} & set(headings)
        text = re.sub(r"<[^>]*>", " ", render(page))
        assert "1 sample lacks it" in text
        assert "sex=f" in text
        assert "The share is that of the variance of the scores" in text
        assert "In the same evaluation without single views, the" in text
        alone = model_page(model, {**facts, "about": {}})  # without samples and facts
        assert "View covariates" in render(alone)

    def test_recipe_prepares_each_view(self, fitted):
        samples, _ = fitted
        shape = samples.sample_shape
        assert Recipe().inner({"eeg": (3, 5)}) is None
        inner = Recipe(scale="entry").inner(shape)
        assert set(inner.transformers) == {"eeg", "fmri", "covariates"}
        assert set(dict(Recipe(by_group=True).outer(shape))["scale_by_group"].transformers) == {"eeg", "fmri"}
        with pytest.raises(ValueError, match="resize"):
            Recipe(resize=(2, 2)).inner(shape)
        with pytest.raises(ValueError, match="view 'eeg'"):
            check_plan(samples, FitPlan(decomposition="tucker", rank=(2, 2, 2)))

    def test_auto(self, fitted):
        model = FitPlan(auto=True).model(1, fitted[0].sample_shape)
        before, scaled = model.preparation
        assert set(before.transformers) == {"covariates"}
        assert set(scaled.named_steps["scale"].transformers) == {"eeg", "fmri"}


def test_data_of_a_challenge_as_views(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "file.npz", X=rng.normal(size=(6, 4, 4)), X_sbm=rng.normal(size=(6, 3)), y=np.arange(6) % 2)
    X, y = load_schizo_fnc(tmp_path / "file.npz", return_X_y=True)
    assert X.shapes == {"connectivity": (4, 4), "loadings": (3,)}
    assert y.tolist() == [0, 1, 0, 1, 0, 1]
    monkeypatch.setenv("TENSORMARGIN_DATA", str(tmp_path))
    monkeypatch.setenv("TENSORMARGIN_CACHE", str(tmp_path))
    with pytest.raises(DataUnavailableError, match="asks for an account"):
        load_schizo_fnc()


def test_searches_of_weights_by_view_are_drawn(arrays):
    eeg, fmri, y = arrays
    search = TensorMarginClassifierCV(("full", "cp"), ranks=(1, 2), lams=(1, 10), mus=(0,), cv=2, exhaustive=True)
    results = search.fit(Views(eeg=eeg, fmri=fmri), y).cv_results_
    assert any(isinstance(one, dict) for one in results["param_decomposition"])
    for draw in (plot_search, plot_ranks):
        assert "one by view" in [text.get_text() for text in draw(results).get_legend().get_texts()]


class TestCommands:
    def test_from_fit_to_report(self, files):
        pytest.importorskip("nibabel")
        both = ("eeg.npz", "--view", "fmri.npz", "--covariates", "people.csv")
        maps = ("--weight-map", "w.npy", "--pattern-map", "p.nii.gz")
        with fewer_models():
            done = run(
                "fit",
                *both,
                "-o",
                "m.skops",
                "--decomposition",
                "cp",
                "--rank",
                "1",
                "--folds",
                "2",
                "--outer-folds",
                "0",
                *maps,
            )
        assert done.returncode == 0, done.stderr
        assert "fmri.npz: matched to eeg.npz by sample id; 3 of 24 samples lack it" in done.stderr
        assert (done.stdout + done.stderr).count("matched to eeg.npz by sample id") == 2  # people.csv, too
        assert np.load("w-fmri.npy").shape == (4, 3, 2)
        assert (files / "p-eeg.nii.gz").exists()
        assert "View fmri" in (files / "m.html").read_text()
        done = run("predict", "m.skops", *both, "-o", "p.csv")
        assert done.returncode == 0, done.stderr
        assert (files / "p.csv").read_text().splitlines()[1].startswith("s00,")
        done = run("predict", "m.skops", "eeg.npz", "--covariates", "people.csv", "-o", "p.csv")
        assert done.returncode == 2
        assert "--view fmri=FILE" in done.stderr
        done = run("report", "m.skops", *both, "-o", "r.html")
        assert done.returncode == 0, done.stderr
        done = run("inspect", "m.skops")
        assert "3 x 5 (eeg), 4 x 3 x 2 (fmri), 3 (covariates)" in done.stdout
        assert "fmri: CP weight of rank 1" in done.stdout
        assert load_model("m.skops").facts["about"]["data"]["covariates"][1]["categories"] == ["f", "m"]

    def test_refusals(self, files):
        done = run("compare", "eeg.npz", "--view", "fmri.npz")
        assert done.returncode == 2
        assert "one tensor per sample" in done.stderr
        done = run("fit", "eeg.npz", "--without-views", "-o", "m.skops")
        assert done.returncode == 2
        assert "only one" in done.stderr
        done = run("fit", "eeg.npz", "--covariate-columns", "age", "--view", "fmri.npz", "-o", "m.skops")
        assert done.returncode == 2
        assert "--covariates FILE" in done.stderr
        np.save("w-eeg.npy", np.zeros((N, 2)))
        done = run("fit", "eeg.npz", "--view", "scan=w-eeg.npy", "--weight-map", "w.npy", "-o", "m.skops")
        assert done.returncode == 2
        assert "w-eeg.npy would overwrite an input" in done.stderr
        done = run("fit", "digits", "--view", "fmri.npz", "-o", "m.skops")
        assert done.returncode == 2
        assert "--view: for files only" in done.stderr


class TestMaps:
    def test_plots_take_a_view(self, model, arrays):
        eeg, fmri, y = arrays
        assert len(plot_factors(model, view="fmri")) == 3
        assert plot_weight(model, Views(eeg=eeg, fmri=fmri), y, view="eeg").shape == (2, 1)
        with pytest.raises(ValueError, match="'eeg', 'fmri'; got view=None"):
            plot_factors(model)
        with pytest.raises(ValueError, match="one tensor"):
            plot_weight(TensorMarginClassifier("cp", rank=1).fit(eeg, y), view="eeg")

    def test_one_file_per_view(self, model, tmp_path):
        written = save_map(tmp_path / "w.npy", {"eeg": model.coef_["eeg"], "a/b": model.coef_["fmri"]}, several="last")
        assert [path.name for path in written] == ["w-eeg.npy", "w-a_b.npy"]

    def test_views_that_steps_make(self, arrays):
        eeg, _, y = arrays
        union = TensorUnion([("raw", "passthrough"), ("size", FunctionTransformer(np.abs))])
        model = make_pipeline(union, TensorMarginClassifier("cp", rank=1)).fit(eeg, y)
        found = view_maps(model, eeg, y)  # the absolute value is not affine: maps are those of the views
        np.testing.assert_array_equal(found.weights["size"], model[-1].coef_["size"])
        assert found.patterns["size"].shape == (1, 3, 5)
        assert plot_weight(model, eeg, y, view="size").shape == (2, 1)
        facts = {"classes": [0, 1], "created": "now", "versions": {"tensormargin": "0"}, "about": {}}
        headings = [section.heading for section in model_page(model, facts).sections]
        assert {"Views", "View raw", "View size"} <= set(headings)
        assert view_shares(model, eeg).keys() == {"raw", "size"}


def test_what_names_a_view_goes_with_it(arrays):
    eeg, fmri, y = arrays
    model = make_pipeline(
        ViewTransformer({"eeg": TensorScaler(), "fmri": TensorScaler()}),
        TensorMarginClassifier({"fmri": "cp"}, {"eeg": 1}),
    )
    left = without_view(model, "eeg")
    assert list(left[0].transformers) == ["fmri"]
    assert left[1].rank == {}
    assert model[0].transformers.keys() == {"eeg", "fmri"}
    found = evaluate_without_views(model, Views(eeg=eeg, fmri=fmri), y, cv=2)
    again = evaluate_without_views(model, Views(eeg=eeg, fmri=fmri), y, cv=2, whole=found.whole)
    assert again.whole is found.whole
    assert again.differences["eeg"].difference == found.differences["eeg"].difference
