"""BIDS data sets: files named by subject, session and run, with labels from the table of participants."""

from __future__ import annotations

import nibabel
import numpy as np
import pytest
from conftest import run

from tensormargin import load_samples
from tensormargin.io import BadFileError, quick_classes

pytestmark = pytest.mark.usefixtures("blank_figures")

AFFINE = np.diag([2.0, 2, 2, 1])
SHAPE = (4, 5, 3)
PEOPLE = (
    "participant_id\tage\tgroup\nsub-01\t30\tpatient\nsub-02\t31\tcontrol\nsub-03\t33\tpatient\nsub-04\t39\tcontrol\n"
)


def write(path, value, shape=SHAPE):
    path.parent.mkdir(parents=True, exist_ok=True)
    nibabel.save(nibabel.Nifti1Image(np.full(shape, value, np.float32), AFFINE), path)


@pytest.fixture
def study(tmp_path):
    folder = tmp_path / "study"
    for number in range(1, 5):
        write(folder / f"sub-0{number}" / "anat" / f"sub-0{number}_T1w.nii.gz", number)
    (folder / "participants.tsv").write_text(PEOPLE)
    return folder


def test_one_image_per_subject(study):
    samples = load_samples(study, labels="group")
    assert samples.target.tolist() == ["patient", "control", "patient", "control"]
    assert samples.groups.tolist() == ["sub-01", "sub-02", "sub-03", "sub-04"]
    np.testing.assert_array_equal(samples.data, np.arange(1.0, 5)[:, None, None, None] * np.ones(SHAPE))
    np.testing.assert_allclose(samples.affine, AFFINE)
    assert samples.kind == "BIDS data set (T1w)"
    lazy = load_samples(study, labels="group", lazy=True)
    np.testing.assert_array_equal(lazy.data.compute(), samples.data)
    aged = load_samples(study, labels="group", confounds="age")
    assert aged.confounds["age"].tolist() == [30, 31, 33, 39]
    assert load_samples(study, need_labels=False).target is None
    assert load_samples(study, labels="group", groups=False).groups is None
    assert load_samples(study, labels_from=[0, 1, 0, 1]).target.tolist() == [0, 1, 0, 1]
    assert load_samples(study, labels="group", size=(2, 2, 2)).data.shape == (4, 2, 2, 2)


def test_what_is_unclear_is_asked_for(study):
    with pytest.raises(BadFileError, match=r"could be any of its columns, age, group; .*--labels"):
        load_samples(study)
    with pytest.raises(BadFileError, match="has no 'sex'; it holds age, group"):
        load_samples(study, labels="sex")
    with pytest.raises(BadFileError, match="subject, session or run"):
        load_samples(study, labels="group", groups="site")
    with pytest.raises(BadFileError, match="states no run"):
        load_samples(study, labels="group", groups="run")
    write(study / "sub-01" / "anat" / "sub-01_T2w.nii.gz", 9)
    with pytest.raises(BadFileError, match=r"2 of these could be meant: T1w \(4 files\), T2w \(1 files\).*--samples"):
        load_samples(study, labels="group")
    for wanted in ("T1w", "*_T1w.nii.gz"):
        assert len(load_samples(study, labels="group", samples=wanted).data) == 4
    (study / "participants.tsv").write_text("participant_id\tgroup\n01\ta\n02\tb\n04\tb\n")
    with pytest.raises(BadFileError, match="has none for sub-03"):
        load_samples(study, samples="T1w")
    (study / "participants.tsv").write_text("name\tgroup\n01\ta\n")
    with pytest.raises(BadFileError, match="must have a column participant_id"):
        load_samples(study, samples="T1w")
    (study / "participants.tsv").unlink()
    with pytest.raises(BadFileError, match=r"has no participants\.tsv with the labels"):
        load_samples(study, samples="T1w")


def test_participants_without_a_label_are_left_out(study):
    (study / "participants.tsv").write_text(PEOPLE.replace("33\tpatient", "33\tn/a"))
    samples = load_samples(study, labels="group")
    assert samples.groups.tolist() == ["sub-01", "sub-02", "sub-04"]
    assert samples.data[:, 0, 0, 0].tolist() == [1, 2, 4]
    assert "samples of participants without a label: 1 of 4, which were left out" in samples.notes[0]


def test_runs_of_volumes_in_derivatives(study):
    prepared = study / "derivatives" / "prep"
    for subject in range(1, 5):
        for number in (1, 2):
            name = f"sub-0{subject}/func/sub-0{subject}_task-rest_run-{number}_bold.nii.gz"
            write(prepared / name, 10 * subject + number, (*SHAPE, 2 + number))
    with pytest.raises(BadFileError, match=r"participants\.tsv leads out of .*--allow-external"):
        load_samples(prepared, labels="group")
    known = {"labels": "group", "allow_external": True}  # the table of participants is two levels above
    samples = load_samples(prepared, **known)
    assert samples.data.shape == (28, *SHAPE)
    np.testing.assert_array_equal(samples.data[:, 0, 0, 0], np.repeat([11, 12, 21, 22, 31, 32, 41, 42], [3, 4] * 4))
    assert samples.groups.tolist() == np.repeat(["sub-01", "sub-02", "sub-03", "sub-04"], 7).tolist()
    assert samples.names[3] == "sub-01/func/sub-01_task-rest_run-2_bold.nii.gz:0"
    runs = load_samples(prepared, **known, groups="run").groups
    assert runs.tolist() == [f"sub-0{s}_run-{r}" for s in range(1, 5) for r in (1, 2) for _ in range(2 + r)]
    lazy = load_samples(prepared, **known, lazy=True)
    np.testing.assert_array_equal(lazy.data.compute(), samples.data)
    np.testing.assert_array_equal(
        load_samples(prepared, **known, confounds="age").confounds["age"][:8], [30] * 7 + [31]
    )
    each = load_samples(prepared, labels_from=np.arange(28) % 2)
    assert each.target.tolist() == (np.arange(28) % 2).tolist()
    write(prepared / "sub-04/func/sub-04_task-rest_run-2_bold.nii.gz", 1, (4, 5, 2, 3))
    with pytest.raises(BadFileError, match="all volumes must have one shape"):
        load_samples(prepared, **known)


def test_runs_of_one_subject_are_groups(tmp_path):
    for number in (1, 2, 3):
        write(tmp_path / "sub-07" / f"sub-07_run-{number}_bold.nii", number, (*SHAPE, 4))
    samples = load_samples(tmp_path, labels_from=["a", "b"] * 6)
    assert samples.groups.tolist() == np.repeat(["sub-07_run-1", "sub-07_run-2", "sub-07_run-3"], 4).tolist()


def test_links_may_not_lead_out_of_the_data_set(study, tmp_path):
    write(tmp_path / "secret.nii.gz", 0)
    (study / "sub-01" / "anat" / "sub-01_T1w.nii.gz").unlink()
    (study / "sub-01" / "anat" / "sub-01_T1w.nii.gz").symlink_to(tmp_path / "secret.nii.gz")
    with pytest.raises(BadFileError, match="leads out of"):
        load_samples(study, labels="group")
    assert len(load_samples(study, labels="group", allow_external=True).data) == 4


def test_the_table_of_participants_may_not_be_a_link_to_elsewhere(study, tmp_path):
    (study / "participants.tsv").rename(tmp_path / "people.tsv")
    (study / "participants.tsv").symlink_to(tmp_path / "people.tsv")
    with pytest.raises(BadFileError, match=r"participants\.tsv leads out of"):
        load_samples(study, labels="group", confounds="age")
    with pytest.raises(BadFileError, match=r"participants\.tsv leads out of"):
        quick_classes(study, "group")
    assert len(load_samples(study, labels="group", confounds="age", allow_external=True).data) == 4


def test_the_data_set_and_its_files_may_be_links_of_the_user(study, tmp_path):
    (tmp_path / "link").symlink_to(study)
    (study / "store").mkdir()
    for path in (study / "sub-01" / "anat" / "sub-01_T1w.nii.gz", study / "participants.tsv"):
        path.symlink_to(path.rename(study / "store" / path.name))  # as git-annex does it
    assert len(load_samples(tmp_path / "link", labels="group").data) == 4


def test_commands_take_data_sets(study, tmp_path):
    command = (
        "fit",
        study,
        "-o",
        tmp_path / "m.skops",
        "--decomposition",
        "tucker",
        "--outer-folds",
        0,
        "--folds",
        2,
        "--no-report",
        "--jobs",
        1,
    )
    refused = run(*command)
    assert "age, group" in refused.stderr
    fitted = run(*command, "--labels", "group", "--decomposition", "cp", "--rank", 1)
    assert fitted.returncode == 0, fitted.stderr
    predicted = run("predict", tmp_path / "m.skops", study, "-o", tmp_path / "p.csv")
    assert predicted.returncode == 0, predicted.stderr
    assert "sub-01/anat/sub-01_T1w.nii.gz" in (tmp_path / "p.csv").read_text()


def test_class_folders_keep_being_class_folders(tmp_path):
    for label in ("sub-x", "sub-y"):
        (tmp_path / label).mkdir()
        np.save(tmp_path / label / "a.npy", np.zeros((3, 3)))
    assert load_samples(tmp_path).target.tolist() == ["sub-x", "sub-y"]
