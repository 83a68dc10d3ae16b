"""Tests of what a newcomer meets first: help in groups, and `fit` with nothing but DATA."""

from __future__ import annotations

import csv
import json
import re
import zipfile

import click
import numpy as np
import pytest
from conftest import fewer_models, low_rank_classes, run
from scipy.stats import binomtest
from sklearn.pipeline import make_pipeline

from tensormargin import (
    Covariances,
    TensorMarginClassifier,
    activation_pattern,
    cluster_table,
    load_model,
    load_samples,
    save_model,
    weight_maps,
)
from tensormargin.cli import main
from tensormargin.cli._options import GROUPS, Grouped
from tensormargin.cli._outputs import beside

PLAIN = ("--decomposition", "cp", "--folds", "2", "--outer-folds", "0", "--no-report")
LARGE = [name for name, command in main.commands.items() if isinstance(command, Grouped)]


@pytest.fixture
def study(tmp_path):
    X, signs = low_rank_classes(0, 24, (3, 4), 4.0)
    np.savez(tmp_path / "study.npz", X=X, y=np.where(signs > 0, "yes", "no"))
    return tmp_path / "study.npz"


class TestHelp:
    def test_the_large_commands_have_groups(self):
        assert {"fit", "compare", "predict", "report"} <= set(LARGE)

    @pytest.mark.parametrize("name", LARGE)
    def test_every_option_is_in_one_group(self, name):
        grouped = [option for names in GROUPS.values() for option in names]
        assert len(grouped) == len(set(grouped))
        own = {one.name for one in main.commands[name].params if isinstance(one, click.Option)} - {"help_all"}
        assert own <= set(grouped)
        assert set(main.commands[name].most) <= own

    @pytest.mark.parametrize("name", LARGE)
    def test_all_options_are_shown_once_on_demand_and_few_before(self, name):
        few, everything = run(name, "--help").stdout, run(name, "--help-all").stdout.partition("\nData:")[2]
        flags = [one.opts[-1] for one in main.commands[name].params if isinstance(one, click.Option)]
        for flag in flags:
            assert len(re.findall(rf"^  (-\w, )?{flag}(?![\w-])", everything, re.MULTILINE)) == 1, flag
        listed = few.partition("Most used options")[2]
        shown = [flag for flag in flags if re.search(rf"^  (-\w, )?{flag}(?![\w-])", listed, re.MULTILINE)]
        assert 3 <= len(shown) <= 14
        left = len(flags) + 1 - len(shown) - ("-h, --help" in few)
        assert f"{left} more options, in groups: tensormargin {name} --help-all" in " ".join(few.split())
        assert few.index("Examples:") < few.index("Most used options")

    def test_the_list_of_commands_has_whole_summaries_and_no_commands_of_authors(self):
        text = run("--help").stdout
        assert "..." not in text.partition("Commands:")[2]
        assert "reproduce" not in text
        assert run("reproduce", "--help").returncode == 0


class TestFitWithoutOptions:
    def test_everything_is_chosen_and_written_beside_the_data(self, study):
        with fewer_models("auto_model", lams=(1,), mus=(1,)):
            done = run("fit", study, "--folds", 2, "--outer-folds", 2)
        assert done.returncode == 0, done.stderr
        assert {path.name for path in study.parent.iterdir()} == {"study.npz", "study.skops", "study.html"}
        loaded = load_model(study.parent / "study.skops")
        assert loaded.facts["about"]["plan"]["auto"] is True
        assert len(loaded.facts["about"]["search"]["tried"]["preparation"]) > 1

    @pytest.mark.parametrize(
        ("name", "expected"),
        [("a.npz", "a"), ("a.nii.gz", "a"), ("a.b.npz", "a.b"), ("digits", "digits"), ("x/a.mat", "x/a")],
    )
    def test_names_of_models(self, name, expected, tmp_path):
        assert beside(tmp_path / name) == tmp_path / f"{expected}.skops"

    def test_names_of_models_of_folders(self, tmp_path, monkeypatch):
        for folder, name in (("sub.01", "sub.01.skops"), ("big.zarr", "big.skops")):
            (tmp_path / folder).mkdir()
            assert beside(tmp_path / folder) == tmp_path / name

    def test_names_of_models_of_several_files(self, tmp_path):
        """A model of all recordings is not called as that of the first one."""
        study = tmp_path / "study"
        first, second = study / "S01-epo.fif", study / "S02-epo.fif"
        assert beside(first, second) == study / "study.skops"
        assert beside(study / "a" / "x.npz", study / "b" / "y.npz") == study / "a" / "study.skops"
        assert beside(study / "run-1.set", study / "events-2.tsv") == study / "run-1.skops"

    def test_a_method_of_the_paper(self, study):
        for name, mus in (("stm", {(0.0, 0.0)}), ("SPMD-LRT", {(1.0, 1.0), (10.0, 10.0), (100.0, 0.0)})):
            out = study.parent / f"{name}.skops"
            done = run("fit", study, "--method", name, "-o", out, "--folds", 2, "--outer-folds", 0, "--no-report")
            assert done.returncode == 0, done.stderr
            search = load_model(out).model
            tried = search.cv_results_["params"]
            assert {(one["decomposition"], one["rank"]) for one in tried} == {("cp", 1)}
            assert {(one["mu1"], one["mu2"]) for one in tried} == mus

    @pytest.mark.parametrize(
        ("options", "forms"),
        [
            (("--decomposition", "tucker"), {("tucker", 1), ("tucker", 2), ("tucker", 4)}),
            (("--rank", "2"), {(name, 2) for name in ("cp", "tucker", "tt")}),
            (("--decomposition", "cp", "--rank", "1"), {("cp", 1)}),
            (("--method", "STM"), {("cp", 1)}),
        ],
    )
    def test_with_a_kind_representations_are_tried_for_what_is_fixed(self, options, forms, study):
        plain = run("fit", study, *options, "--folds", 2, "--outer-folds", 0, "--no-report")
        assert plain.returncode == 0, plain.stderr
        assert load_model(study.with_suffix(".skops")).model.preparation is None
        with fewer_models("auto_model", lams=(1,), mus=(0, 1)):
            done = run("fit", study, *options, "--kind", "auto", "--folds", 2, "--outer-folds", 0, "--no-report")
        assert done.returncode == 0, done.stderr
        search = load_model(study.with_suffix(".skops")).model
        assert len(search.preparation) == 6  # plain samples: as they are, scaled in two ways, three kernels
        requested = {
            (one["decomposition"], rank)
            for one, rank in zip(search.cv_results_["params"], search.cv_results_["asked_rank"], strict=True)
        }
        assert requested  # of equivalent forms, one is tried
        assert requested <= forms
        margins = {(one["mu1"], one["mu2"]) == (0.0, 0.0) for one in search.cv_results_["params"]}
        assert margins == ({True} if "--method" in options else {True, False})

    def test_views_side_by_side_have_the_form_that_is_fixed(self, tmp_path):
        X, signs = low_rank_classes(0, 24, (3, 20), 4.0)
        np.savez(tmp_path / "series.npz", X=X, y=signs > 0)
        with fewer_models("auto_model", lams=(1,), mus=(1,)):
            done = run(
                "fit",
                tmp_path / "series.npz",
                "--decomposition",
                "cp",
                "--kind",
                "series",
                "--folds",
                2,
                "--outer-folds",
                0,
            )
        assert done.returncode == 0, done.stderr
        search = load_model(tmp_path / "series.skops").model
        assert {one["decomposition"] for one in search.cv_results_["params"]} == {"cp"}
        assert len(search.preparation) > 5

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (("--auto", "--rank", "2"), "--auto chooses everything, and --rank fixes it"),
            (("--auto", "--method", "SVM"), "--auto chooses everything, and --method fixes it"),
            (("--method", "SVM", "--decomposition", "cp"), "--method has a decomposition of its own"),
            (("--method", "SWM"), "unknown method 'SWM'; the methods are SVM, LMDM, STM"),
            (("--rank", "2", "--sfreq", "100"), "pass auto=True (--kind auto), or leave them out"),
            (("--rank", "2x2", "--kind", "auto"), "give one number, or leave out --kind and --linear"),
        ],
    )
    def test_contradictions(self, options, message, study):
        done = run("fit", study, *options)
        assert done.returncode == 2
        assert message in " ".join(done.stderr.split())
        assert [path.name for path in study.parent.iterdir()] == ["study.npz"]


class TestMaps:
    """The files of `maps` are what `save_map` and the report make of the same model."""

    @pytest.fixture(scope="class")
    @classmethod
    def folder(cls, tmp_path_factory):
        folder = tmp_path_factory.mktemp("maps")
        X, signs = low_rank_classes(0, 24, (6, 20), 4.0)
        np.savez(folder / "eeg.npz", X=X, y=np.where(signs > 0, "yes", "no"))
        modes = ("--modes", "channel=Fz|Cz|Pz|Oz|C3|C4,time[ms]=0:10")
        assert run("fit", folder / "eeg.npz", *modes, *PLAIN).returncode == 0
        return folder

    def test_patterns_weights_clusters_and_topographies(self, folder):
        done = run("maps", folder / "eeg.skops")
        assert done.returncode == 0, done.stderr
        names = {path.name for path in (folder / "eeg-maps").iterdir()}
        endings = (".png", ".npy", ".csv", "-field-1.svg", "-field-2.svg", "-field-3.svg")
        assert names == {f"{what}{end}" for what in ("pattern", "weight") for end in endings} | {"pattern-clusters.csv"}
        loaded = load_model(folder / "eeg.skops")
        np.testing.assert_allclose(np.load(folder / "eeg-maps" / "weight.npy").squeeze(), weight_maps(loaded.model)[0])
        np.testing.assert_allclose(np.load(folder / "eeg-maps" / "pattern.npy").squeeze(), loaded.patterns[""].maps[0])
        heads, *rows = csv.reader((folder / "eeg-maps" / "pattern-clusters.csv").read_text().splitlines())
        assert heads == ["signs", "peak", "at", "entries"]
        assert all(re.fullmatch(r"(Fz|Cz|Pz|Oz|C3|C4), \d+ ms", row[2]) for row in rows)
        assert len(rows) == len(cluster_table(loaded.patterns[""].maps[0]))

    def test_patterns_of_other_samples(self, folder):
        stored = np.load(folder / "eeg.npz")
        np.savez(folder / "half.npz", X=stored["X"][::2], y=stored["y"][::2])
        done = run("maps", folder / "eeg.skops", folder / "half.npz", "-o", folder / "half", "--json")
        assert len(json.loads(done.stdout)["written"]) == 13
        expected = activation_pattern(load_model(folder / "eeg.skops").model, stored["X"][::2], stored["y"][::2])
        np.testing.assert_allclose(np.load(folder / "half" / "pattern.npy").squeeze(), expected[0])

    def test_volumes_over_their_background(self, tmp_path):
        nibabel = pytest.importorskip("nibabel", reason="needs nibabel: pip install 'tensormargin[neuro]'")
        X, signs = low_rank_classes(0, 20, (6, 5, 4), 4.0)
        affine = np.diag([3.0, 3.0, 3.0, 1.0])
        nibabel.save(nibabel.Nifti1Image(np.moveaxis(X, 0, -1), affine), tmp_path / "scans.nii.gz")
        nibabel.save(nibabel.Nifti1Image(np.abs(X[0]), affine), tmp_path / "head.nii.gz")
        (tmp_path / "labels.csv").write_text("label\n" + "".join(f"{'ab'[int(one > 0)]}\n" for one in signs))
        labels = ("--labels-from", tmp_path / "labels.csv")
        assert run("fit", tmp_path / "scans.nii.gz", *labels, *PLAIN).returncode == 0
        done = run("maps", tmp_path / "scans.skops", "--background", tmp_path / "head.nii.gz")
        assert done.returncode == 0, done.stderr
        image = nibabel.load(tmp_path / "scans-maps" / "pattern.nii.gz")
        np.testing.assert_allclose(image.affine, affine)
        assert "x mm" in (tmp_path / "scans-maps" / "pattern-clusters.csv").read_text().splitlines()[0]

    def test_models_without_maps_and_files_of_others(self, folder):
        samples = load_samples(folder / "eeg.npz")
        model = make_pipeline(Covariances(vectorize=True), TensorMarginClassifier("full"))
        model.fit(samples.data, samples.target)
        save_model(folder / "not.skops", model)
        done = run("maps", folder / "not.skops")
        assert done.returncode == 2
        assert "--linear" in done.stderr
        assert not (folder / "not-maps").exists()
        (folder / "own").mkdir()
        for name in ("weight.png", "weight.csv", "pattern-field-2.svg"):
            (folder / "own" / name).write_bytes(b"mine")
            refused = run("maps", folder / "eeg.skops", "-o", folder / "own")
            assert "give another name, or --overwrite" in " ".join(refused.stderr.split())
            assert [path.name for path in (folder / "own").iterdir()] == [name]
            (folder / "own" / name).unlink()
        for _ in range(2):  # its own files are replaced
            assert run("maps", folder / "eeg.skops", "-o", folder / "own").returncode == 0


class TestTwoModels:
    @pytest.fixture(scope="class")
    @classmethod
    def folder(cls, tmp_path_factory):
        folder = tmp_path_factory.mktemp("two")
        X, signs = low_rank_classes(0, 80, (5, 6), 2.0)
        y = np.where(signs > 0, "yes", "no")
        np.savez(folder / "new.npz", X=X[40:], y=y[40:])
        for name, rank, some in (("old", "1", slice(0, 20)), ("new", "2", slice(0, 40))):
            np.savez(folder / f"{name}-fit.npz", X=X[some], y=y[some])
            done = run("fit", folder / f"{name}-fit.npz", "-o", folder / f"{name}.skops", *PLAIN, "--rank", rank)
            assert done.returncode == 0, done.stderr
        return folder

    def test_their_difference_is_that_of_mcnemar(self, folder):
        data = np.load(folder / "new.npz")
        right = [load_model(folder / f"{name}.skops").model.predict(data["X"]) == data["y"] for name in ("old", "new")]
        only = [int((right[k] & ~right[1 - k]).sum()) for k in (0, 1)]
        done = run("compare", folder / "old.skops", folder / "new.skops", folder / "new.npz", "--json")
        found = json.loads(done.stdout)
        assert [one["score"] for one in found["models"]] == pytest.approx([one.mean() for one in right])
        assert found["difference"]["difference"] == pytest.approx((only[1] - only[0]) / 40)
        assert found["difference"]["p_value"] == pytest.approx(binomtest(only[0], sum(only)).pvalue)
        told = run("compare", folder / "old.skops", folder / "new.skops", folder / "new.npz").stdout
        assert "new.skops: " in told
        assert "paired by sample)" in told

    def test_samples_of_a_fit_do_not_count(self, folder):
        data = [np.load(folder / f"{name}.npz") for name in ("new-fit", "new")]
        np.savez(folder / "all.npz", **{name: np.concatenate([one[name] for one in data]) for name in ("X", "y")})
        done = run("compare", folder / "old.skops", folder / "new.skops", folder / "all.npz")
        assert "Left out, since a model was fitted to them: 40 samples" in done.stdout
        done = run("compare", folder / "old.skops", folder / "new.skops", folder / "new-fit.npz")
        assert "says nothing about new ones; give new samples" in " ".join(done.stderr.split())

    @pytest.mark.parametrize(
        "names", [("old.skops",), ("old.skops", "new.skops"), ("new.npz", "old.skops", "new.skops")]
    )
    def test_two_models_and_samples_are_needed(self, names, folder):
        done = run("compare", *(folder / name for name in names))
        assert done.returncode == 2
        assert "tensormargin compare OLD.skops NEW.skops DATA; got" in " ".join(done.stderr.split())

    @pytest.mark.parametrize(
        "option",
        [
            ("--report", "page.html"),
            ("--methods", "SVM"),
            ("--repeats", "5"),
            ("--only-classes", "yes"),
            ("--scale", "entry"),
            ("--seed", "0"),
            ("--overwrite",),
        ],
    )
    def test_options_without_effect_are_refused(self, option, folder):
        done = run("compare", folder / "old.skops", folder / "new.skops", folder / "new.npz", *option, cwd=folder)
        assert done.returncode == 2
        assert f"{option[0]}: for a comparison of methods" in " ".join(done.stderr.split())
        assert not (folder / "page.html").exists()

    def test_classes_that_one_model_does_not_know_are_left_out(self, folder):
        data = np.load(folder / "new.npz")
        y = data["y"].astype("U5")
        y[:4], y[4:7] = "maybe", "never"
        np.savez(folder / "more.npz", X=data["X"], y=y)
        right = [load_model(folder / f"{name}.skops").model.predict(data["X"][7:]) == y[7:] for name in ("old", "new")]
        models = (folder / "old.skops", folder / "new.skops", folder / "more.npz")
        found = json.loads(run("compare", *models, "--json").stdout)
        assert (found["n_samples"], found["n_unknown"], found["n_used_in_fit"]) == (33, 7, 0)
        assert [one["score"] for one in found["models"]] == pytest.approx([one.mean() for one in right])
        assert [one["unknown_labels"] for one in found["models"]] == [["maybe", "never"]] * 2
        told = run("compare", *models).stdout
        assert f"Left out, since {models[0]} does not know their class (maybe, never): 7 samples" in told
        np.savez(folder / "other.npz", X=data["X"], y=np.full(40, "never"))
        refused = run("compare", *models[:2], folder / "other.npz")
        assert "no sample of DATA has a class that both know" in " ".join(refused.stderr.split())

    def test_a_model_with_groups_and_one_without(self, folder):
        data = np.load(folder / "new.npz")
        fit, grouped = folder / "grouped-fit.npz", folder / "grouped.npz"
        np.savez(fit, **np.load(folder / "new-fit.npz"), person=np.arange(40) // 4, day=np.arange(40) // 5)
        np.savez(grouped, **data, person=np.arange(40) // 4, day=np.arange(40) // 5)
        for name in ("person", "day"):
            options = ("--groups", name, "-o", folder / f"{name}.skops", *PLAIN)
            assert run("fit", fit, *options).returncode == 0
        by_person = run("compare", folder / "old.skops", folder / "person.skops", grouped)
        assert "paired by group" in by_person.stdout
        refused = run("compare", folder / "person.skops", folder / "day.skops", grouped)
        assert "group the samples of DATA in different ways" in " ".join(refused.stderr.split())
        both = run("compare", folder / "person.skops", folder / "day.skops", grouped, "--groups", "day")
        assert "paired by group" in both.stdout


class TestClasses:
    @pytest.fixture
    def three(self, tmp_path):
        X, _ = low_rank_classes(0, 26, (3, 4), 1.0)
        np.savez(tmp_path / "three.npz", X=X, y=np.array(list("ab" * 12 + "cc")), groups=np.arange(26) // 2)
        return tmp_path / "three.npz"

    @pytest.mark.parametrize(
        ("options", "note"),
        [
            (("--only-classes", "a,b"), "Note: 2 samples of other classes left out (c)"),
            (("--exclude-classes", "c"), "Note: 2 samples of other classes left out (c)"),
            (("--drop-rare", "2"), "Note: 2 samples of other classes left out (c, c for having fewer than 2 groups)"),
        ],
    )
    def test_are_left_out(self, options, note, three):
        done = run("fit", three, *options, *PLAIN)
        assert note in done.stderr
        assert "24 samples of 3 x 4, 2 classes" in done.stderr
        assert load_model(three.with_suffix(".skops")).facts["classes"] == ["a", "b"]

    def test_rare_ones_are_named(self, three):
        done = run("fit", three, "--no-groups", *PLAIN, "--folds", "3")
        assert "Note: classes with fewer than 3 samples: c (2); --drop-rare leaves them out" in done.stderr

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (("--only-classes", "a,x"), "--only-classes names x, and the classes are a, b, c"),
            (("--exclude-classes", "a,b"), "a classifier needs two classes, and c is left"),
        ],
    )
    def test_refusals(self, options, message, three):
        done = run("compare", three, "--no-groups", *options)
        assert done.returncode == 2
        assert message in " ".join(done.stderr.split())


def test_a_dry_run_says_what_was_understood_and_writes_nothing(study):
    before = sorted(study.parent.iterdir())
    said = run("fit", study, "--dry-run").stdout
    assert "Classes: " in said
    assert "Would write: " in said
    facts = json.loads(run("fit", study, "--dry-run", "--json").stdout)
    assert facts["samples"] in said
    assert facts["would_write"][0].endswith(".skops")
    assert "<img" in facts["html"]
    assert sorted(study.parent.iterdir()) == before


def test_errors_of_data_come_without_the_usage(tmp_path):
    """Only who typed a command wrongly needs to see how it is typed."""
    np.savez(tmp_path / "one.npz", X=np.ones((6, 3, 4)), y=["a"] * 6)
    with zipfile.ZipFile(tmp_path / "plain.zip", "w") as archive:
        archive.writestr("a.txt", "no array")
    for name, said in (
        ("one.npz", "a classifier needs samples of at least two classes; got one, a"),
        ("plain.zip", "not a Zarr store, or damaged (it holds no arrays of zarr)"),
    ):
        done = run("fit", tmp_path / name, "--dry-run")
        assert done.returncode == 2
        assert f"Error: {tmp_path / name}: {said}" in done.stderr
        assert "Usage" not in done.stderr
        assert "StorePath" not in done.stderr
    done = run("fit", tmp_path / "one.npz", "--auto", "--rank", "2")
    assert (done.returncode, done.stderr.startswith("Usage: ")) == (2, True)
