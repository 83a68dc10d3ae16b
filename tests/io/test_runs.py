"""Tests of several runs with a table of events each: named one by one, and as a BIDS folder."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import run

from tensormargin import load_samples
from tensormargin.io import BadFileError

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
        done = run("fit", *data, *quick, cwd=runs)
        assert done.returncode == 0, done.stderr
        assert "16 samples of 3 x 4 x 2, 2 classes" in done.stderr
        done = run("predict", "run-1.skops", "run-3.nii.gz", "--events", "run-3.tsv", "-o", "p.csv", cwd=runs)
        assert "Accuracy on the labels that came with run-3.nii.gz: 100.00 %" in done.stdout


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
