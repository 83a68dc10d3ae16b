"""Tests of several runs with a table of events each: named one by one, and as a BIDS folder."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import run

from tensormargin import load_model, load_samples
from tensormargin.io import BadFileError, describe_loading

nibabel = pytest.importorskip("nibabel", reason="needs nibabel: pip install 'tensormargin[neuro]'")
SHAPE, TR, EVENTS = (3, 4, 2), 2.0, 8


def save_run(stem, events, seed):
    """Write volumes that show a face or a house for two scans of four, and the table of these events."""
    noise = np.random.default_rng(seed).normal(size=(*SHAPE, 4 * EVENTS)).astype(np.float32)
    rows = ["onset\tduration\ttrial_type"]
    for k in range(EVENTS):
        noise[..., 4 * k : 4 * k + 2] += 3 if k % 2 else -3
        rows.append(f"{4 * k * TR}\t{2 * TR}\t{'face' if k % 2 else 'house'}")
    image = nibabel.Nifti1Image(noise, np.diag([3.0, 3.0, 3.0, 1.0]))
    image.header.set_zooms((3, 3, 3, TR))
    image.header.set_xyzt_units("mm", "sec")
    nibabel.save(image, f"{stem}.nii.gz")
    events.write_text("\n".join(rows) + "\n")


@pytest.fixture
def runs(tmp_path):
    for number in (1, 2, 3):
        save_run(tmp_path / f"run-{number}", tmp_path / f"run-{number}.tsv", number)
    return tmp_path


@pytest.fixture
def study(tmp_path):
    for subject, numbers in (("01", (1, 2)), ("02", (1,))):
        folder = tmp_path / "study" / f"sub-{subject}" / "func"
        folder.mkdir(parents=True)
        for number in numbers:
            stem = f"sub-{subject}_task-faces_run-{number}"
            save_run(folder / f"{stem}_bold", folder / f"{stem}_events.tsv", number)
    return tmp_path / "study"


def paths(folder, *numbers, ending=".nii.gz"):
    return [folder / f"run-{number}{ending}" for number in numbers]


class TestTables:
    def test_each_run_is_cut_around_its_own_events(self, runs):
        found = load_samples(paths(runs, 1, 2), events=paths(runs, 1, 2, ending=".tsv"), groups="file")
        alone = [load_samples(runs / f"run-{k}.nii.gz", events=runs / f"run-{k}.tsv", groups=False) for k in (1, 2)]
        np.testing.assert_array_equal(found.data, np.concatenate([one.data for one in alone]))
        assert found.target.tolist() == ["house", "face"] * 8
        assert len(set(found.groups.tolist())) == 2

    def test_there_is_one_per_run(self, runs):
        with pytest.raises(BadFileError, match="one table per recording, in the same order; got 1 table for 2 files"):
            load_samples(paths(runs, 1, 2), events=runs / "run-1.tsv")
        with pytest.raises(BadFileError, match="got 2 tables for 3 files"):
            load_samples(paths(runs, 1, 2, 3), events=paths(runs, 1, 2, ending=".tsv"))

    def test_on_the_command_line_they_follow_the_option(self, runs):
        quick = ("--decomposition", "cp", "--rank", "1", "--folds", "2", "--outer-folds", "0", "--no-report")
        data = ("run-1.nii.gz", "run-2.nii.gz", "--events", "run-1.tsv", "run-2.tsv", "--groups", "file")
        done = run("fit", *data, *quick, "-o", "run-1.skops", cwd=runs)
        assert done.returncode == 0, done.stderr
        assert "16 samples of 3 x 4 x 2, 2 classes" in done.stderr
        done = run("predict", "run-1.skops", "run-3.nii.gz", "--events", "run-3.tsv", "-o", "p.csv", cwd=runs)
        assert "Accuracy against the labels in run-3.nii.gz: 100.00 %" in done.stdout


class TestBIDS:
    def test_events_are_found_beside_the_runs_and_subjects_are_groups(self, study):
        found = load_samples(study)
        assert found.data.shape == (24, *SHAPE)
        assert sorted(set(found.groups.tolist())) == ["sub-01", "sub-02"]
        assert found.target.tolist() == ["house", "face"] * 12

    def test_runs_of_one_subject_are_groups(self, study):
        found = load_samples(study / "sub-01" / "func")
        assert [len(set(found.groups[part].tolist())) for part in (slice(0, 8), slice(8, 16))] == [1, 1]
        assert len(set(found.groups.tolist())) == 2

    def test_groups_can_be_named_or_left_out(self, study):
        assert len(set(load_samples(study, groups="run").groups.tolist())) == 3
        assert load_samples(study, groups=False).groups is None

    def test_one_run(self, study):
        path = study / "sub-02" / "func" / "sub-02_task-faces_run-1_bold.nii.gz"
        assert load_samples(path, groups=False).target.tolist() == ["house", "face"] * 4

    def test_other_labels_come_first(self, study):
        path = study / "sub-02" / "func" / "sub-02_task-faces_run-1_bold.nii.gz"
        labels = study.parent / "labels.csv"
        labels.write_text("label\n" + "a\nb\n" * (2 * EVENTS))
        assert load_samples(path, labels_from=labels, groups=False).target.tolist() == ["a", "b"] * (2 * EVENTS)

    def test_predictions_find_the_events_of_new_runs(self, study):
        quick = ("--decomposition", "cp", "--rank", "1", "--folds", "2", "--outer-folds", "0", "--no-report")
        assert run("fit", study / "sub-01", "-o", study.parent / "m.skops", *quick).returncode == 0
        done = run("predict", study.parent / "m.skops", study / "sub-02", "-o", study.parent / "p.csv")
        assert ": 8 predictions" in done.stdout
        assert "100.00 %" in done.stdout

    def test_events_of_derivatives_are_those_of_the_data(self, study):
        source = study / "sub-02" / "func"
        folder = study / "derivatives" / "fmriprep" / "sub-02" / "func"
        folder.mkdir(parents=True)
        stem = "sub-02_task-faces_run-1"
        made = folder / f"{stem}_space-MNI_res-2_desc-preproc_bold.nii.gz"
        made.write_bytes((source / f"{stem}_bold.nii.gz").read_bytes())
        expected = load_samples(source / f"{stem}_bold.nii.gz", groups=False)
        for given in (made, study / "derivatives" / "fmriprep"):
            with pytest.raises(BadFileError, match=r"the table of its events, .* leads out of .*--allow-external"):
                load_samples(given, groups=False)
            found = load_samples(given, groups=False, allow_external=True)
            np.testing.assert_array_equal(found.data, expected.data)
            assert found.target.tolist() == expected.target.tolist()


class TestConfoundsOfRuns:
    """fMRIPrep's confounds are regressed out of each run together with its drift."""

    NAMES = ("trans_x", "trans_y", "csf", "csf_derivative1", "cosine00")

    def save(self, path, seed=0, rows=4 * EVENTS, first="n/a"):
        values = np.random.default_rng(seed).normal(5, 2, size=(rows, len(self.NAMES)))
        lines = [[f"{value:.8f}" for value in row] for row in values]
        lines[0][3] = first
        path.write_text("\n".join("\t".join(row) for row in [self.NAMES, *lines]) + "\n")
        values[0, 3] = values[1:, 3].mean()
        return values.round(8)

    def expected(self, volumes, confounds, degree):
        """Return means around events of the residuals of one regression on drift and confounds."""
        flat, steps = volumes.reshape(len(volumes), -1).astype(float), np.linspace(-1, 1, len(volumes))
        drift = np.vander(steps, (0 if degree is None else degree) + 1)
        design = np.column_stack([drift, confounds])
        left = flat - design @ np.linalg.lstsq(design, flat, rcond=None)[0]
        left = left + flat.mean(axis=0) if degree is None else left
        return left.reshape(volumes.shape).reshape(EVENTS, 4, *SHAPE)[:, :2].mean(axis=1)

    @pytest.mark.parametrize("degree", [None, 1, 2])
    @pytest.mark.parametrize("lazy", [False, True])
    def test_each_run_is_regressed_on_its_own(self, degree, lazy, study):
        folder = study / "sub-01" / "func"
        expected = []
        for number in (1, 2):
            stem = f"sub-01_task-faces_run-{number}"
            values = self.save(folder / f"{stem}_desc-confounds_timeseries.tsv", number)
            volumes = np.moveaxis(nibabel.load(folder / f"{stem}_bold.nii.gz").get_fdata(), -1, 0)
            expected.append(self.expected(volumes, values[:, [0, 1, 3]], degree))
        options = {"run_confounds": ["trans_*", "csf_*"], "detrend": degree, "lazy": lazy}
        found = load_samples(folder, **options)
        np.testing.assert_allclose(found.data, np.concatenate(expected), atol=2e-5)
        assert found.loading["run_confounds"] == ["trans_*", "csf_*"]
        assert np.abs(load_samples(folder, detrend=degree).data - np.concatenate(expected)).max() > 0.1

    def test_tables_may_be_named_one_by_one(self, runs):
        tables = paths(runs, 1, 2, ending="_confounds.tsv")
        for number, table in enumerate(tables):
            self.save(table, number)
        given = {"events": paths(runs, 1, 2, ending=".tsv"), "groups": "file"}
        found = load_samples(paths(runs, 1, 2), **given, run_confounds_from=tables, run_confounds="csf,trans_x")
        alone = load_samples(
            runs / "run-1.nii.gz", events=runs / "run-1.tsv", groups=False, run_confounds_from=tables[0],
            run_confounds=("csf", "trans_x"),
        )  # fmt: skip
        np.testing.assert_array_equal(found.data[:EVENTS], alone.data)
        every = load_samples(paths(runs, 1, 2), **given, run_confounds_from=tables)
        assert every.loading["run_confounds"] == ["*"]
        with pytest.raises(BadFileError, match="one table per recording, in the same order; got 1 table for 2 files"):
            load_samples(paths(runs, 1, 2), **given, run_confounds_from=tables[:1])

    def test_on_the_command_line_there_is_an_option_per_table(self, runs):
        for number in (1, 2):
            self.save(runs / f"motion-{number}.tsv", number)
        quick = ("--decomposition", "cp", "--rank", "1", "--folds", "2", "--outer-folds", "0", "--no-report")
        data = ("run-1.nii.gz", "run-2.nii.gz", "--events", "run-1.tsv", "run-2.tsv", "--groups", "file")
        done = run("fit", *data, "--run-confounds-from", "motion-1.tsv", *quick, cwd=runs)
        assert "--run-confounds-from) must be one table per recording" in done.stderr
        tables = ("--run-confounds-from", "motion-1.tsv", "--run-confounds-from", "motion-2.tsv")
        done = run("fit", *data, *tables, *quick, "-o", "run-1.skops", cwd=runs)
        assert done.returncode == 0, done.stderr
        assert load_model(runs / "run-1.skops").loading["run_confounds"] == ["*"]

    def test_older_names_and_columns_that_add_nothing(self, study):
        folder = study / "sub-02" / "func"
        table = folder / "sub-02_task-faces_run-1_desc-confounds_regressors.tsv"
        steps = np.arange(4 * EVENTS)
        wave = np.sin(steps)
        rows = [f"{w}\t{2 * w + 1}\t7\t{3 * k}" for k, w in zip(steps, wave, strict=True)]
        table.write_text("\n".join(["wave\tcopy\tconstant\tline", *rows]))
        one = load_samples(folder, groups=False, detrend=1, run_confounds="wave")
        every = load_samples(folder, groups=False, detrend=1, run_confounds="*")
        np.testing.assert_allclose(every.data, one.data, atol=1e-5)

    @pytest.mark.parametrize(
        ("options", "change", "words"),
        [
            ({"run_confounds": "csf"}, None, "no table of its confounds beside it"),
            ({"run_confounds": "csf,rot_*"}, {}, "has no column 'rot_.'; its columns are trans_x, trans_y"),
            ({"run_confounds": "csf"}, {"rows": 30}, "has 30 rows, but .* has 32 volumes"),
            ({"run_confounds": "csf*"}, {"first": "?"}, "must be numbers; row 1 has '.'"),
            ({"run_confounds": "*", "detrend": 27}, {}, "explain all of its 32 time points.*--run-confounds"),
            ({"run_confounds": "csf", "labels_from": ["a", "b"] * 16}, {}, r"--run-confounds\) does not apply here"),
        ],
    )
    def test_what_cannot_be_used_is_refused(self, options, change, words, study):
        folder = study / "sub-02" / "func"
        if change is not None:
            self.save(folder / "sub-02_task-faces_run-1_desc-confounds_timeseries.tsv", **change)
        with pytest.raises(BadFileError, match=words):
            load_samples(folder / "sub-02_task-faces_run-1_bold.nii.gz", groups=False, **options)

    def test_missing_values_later_on_are_refused(self, study):
        folder = study / "sub-02" / "func"
        table = folder / "sub-02_task-faces_run-1_desc-confounds_timeseries.tsv"
        table.write_text("csf\tempty\n" + "1\tn/a\nn/a\tn/a\n" * (2 * EVENTS))
        with pytest.raises(BadFileError, match=r"row 2 has 'n/a'.*first rows only"):
            load_samples(folder, groups=False, run_confounds="csf")
        with pytest.raises(BadFileError, match="'empty' has no values"):
            load_samples(folder, groups=False, run_confounds="empty")

    def test_models_remember_them(self, study):
        for subject, numbers in (("01", (1, 2)), ("02", (1,))):
            for number in numbers:
                stem = f"sub-{subject}_task-faces_run-{number}"
                self.save(study / f"sub-{subject}" / "func" / f"{stem}_desc-confounds_timeseries.tsv", number)
        quick = ("--decomposition", "cp", "--rank", "1", "--folds", "2", "--outer-folds", "0", "--no-report")
        model = study.parent / "m.skops"
        done = run("fit", study / "sub-01", "--run-confounds", "trans_*,csf", "--detrend", "1", "-o", model, *quick)
        assert done.returncode == 0, done.stderr
        found = load_samples(study / "sub-02", like=load_model(model), groups=False)
        expected = load_samples(study / "sub-02", run_confounds="trans_*,csf", detrend=1, groups=False)
        np.testing.assert_array_equal(found.data, expected.data)
        assert "trans_*, csf regressed out of each recording" in describe_loading(found.loading)
