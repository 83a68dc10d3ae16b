"""Volumes of one study in several orientations are turned to one, when they are fitted and when they are predicted."""

from __future__ import annotations

import nibabel
import numpy as np
import pytest
from conftest import run

from tensormargin.data import as_samples, millimetres, turned_to
from tensormargin.io import BadFileError, load_model, load_samples, load_views

pytestmark = pytest.mark.usefixtures("blank_figures")

RAS = np.array([[2.0, 0, 0, -5], [0, 2, 0, -6], [0, 0, 3, -7], [0, 0, 0, 1]])
QUICK = ("--decomposition", "cp", "--rank", "1", "--folds", "2", "--jobs", "1")
CODES = ["LAS", "PIR", "RAS", "SAL"]


def stored_as(values, code):
    """Return values in RAS and their affine as they are stored in another orientation."""
    image = nibabel.Nifti1Image(values, RAS)
    turn = nibabel.orientations.ornt_transform(
        nibabel.io_orientation(RAS), nibabel.orientations.axcodes2ornt(tuple(code))
    )
    return image.as_reoriented(turn)


@pytest.fixture(scope="module")
def volumes():
    """Return 16 volumes whose classes differ on the left or on the right."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(16, 4, 5, 6)).astype(np.float32)
    X[:8, 0] += 4.0
    X[8:, 3] += 4.0
    return X


def write_study(folder, volumes, code_of):
    for number, values in enumerate(volumes):
        file = folder / ("left" if number < 8 else "right") / f"s{number:02d}.nii.gz"
        file.parent.mkdir(parents=True, exist_ok=True)
        nibabel.save(stored_as(values, code_of(number)), file)
    return folder


@pytest.mark.parametrize("code", CODES)
def test_turned_to_matches_nibabel(volumes, code):
    image = stored_as(volumes[0], code)
    values, affine = turned_to(np.asarray(image.dataobj), image.affine, RAS)
    np.testing.assert_array_equal(values, volumes[0])
    np.testing.assert_allclose(affine, RAS)
    there, back = turned_to(volumes[0], RAS, image.affine)
    np.testing.assert_array_equal(there, np.asarray(image.dataobj))
    np.testing.assert_allclose(millimetres(back, (0, 1, 2)), millimetres(image.affine, (0, 1, 2)))


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("code", ["LAS", "PIR"])
def test_a_mirrored_file_is_turned_to_the_orientation_of_the_first(tmp_path, volumes, code, lazy):
    study = write_study(tmp_path / "study", volumes, lambda number: code if number in (3, 12) else "RAS")
    found = load_samples(study, lazy=lazy)
    np.testing.assert_array_equal(np.asarray(found.data), volumes)
    np.testing.assert_allclose(found.affine, RAS)
    said = "reoriented to match" if lazy else "left/s03.nii.gz, right/s12.nii.gz were reoriented to match left/s00"
    assert any(said in note for note in found.notes)


@pytest.mark.parametrize("lazy", [False, True])
def test_runs_in_other_orientations_are_one_data_set(tmp_path, volumes, lazy):
    runs = np.moveaxis(volumes, 0, -1)
    for subject, code in (("01", "RAS"), ("02", "SAL")):
        file = tmp_path / "set" / f"sub-{subject}" / "func" / f"sub-{subject}_task-rest_bold.nii.gz"
        file.parent.mkdir(parents=True)
        nibabel.save(stored_as(runs[..., :8] if subject == "01" else runs[..., 8:], code), file)
    (tmp_path / "set" / "participants.tsv").write_text("participant_id\tsex\nsub-01\tf\nsub-02\tm\n")
    (tmp_path / "set" / "dataset_description.json").write_text('{"Name": "x", "BIDSVersion": "1.8.0"}')
    found = load_samples(tmp_path / "set", labels="sex", lazy=lazy)
    np.testing.assert_array_equal(np.asarray(found.data), volumes)
    assert any("sub-02_task-rest_bold.nii.gz was reoriented to match" in note for note in found.notes)


def test_an_affine_without_an_orientation_is_refused_by_name(tmp_path, volumes):
    study = write_study(tmp_path / "study", volumes, lambda number: "RAS")
    flat = nibabel.Nifti1Image(volumes[5], None)
    flat.header["sform_code"], flat.header["srow_x"], flat.header["srow_y"] = 2, (2, 0, 0, 0), (0, 2, 0, 0)
    nibabel.save(flat, study / "left" / "s05.nii.gz")
    with pytest.raises(BadFileError, match=r"s05\.nii\.gz: its orientation cannot be compared.*Correct the affine"):
        load_samples(study)


def test_predict_turns_new_files_to_the_orientation_of_the_model(tmp_path, volumes):
    """A mirrored study was classified the wrong way round, every sample of it."""
    study = write_study(tmp_path / "study", volumes, lambda number: "RAS")
    mirrored = write_study(tmp_path / "mirrored", volumes, lambda number: "LAS")
    fitted = run("fit", study, "-o", tmp_path / "m.skops", *QUICK, "--outer-folds", "0", "--no-report")
    assert fitted.returncode == 0, fitted.stderr
    done = run("predict", tmp_path / "m.skops", mirrored, "-o", tmp_path / "said.csv")
    assert done.returncode == 0, done.stderr
    assert "Accuracy against the labels in" in done.stdout
    assert "100.00 %" in done.stdout
    assert "was reoriented to match the model's samples" in done.stderr
    assert "Warning" not in done.stderr


def test_turned_and_scaled_files_are_warned_of_with_both_affines(tmp_path, volumes):
    write_study(tmp_path / "study", volumes, lambda number: "RAS")
    fitted = run("fit", tmp_path / "study", "-o", tmp_path / "m.skops", *QUICK, "--outer-folds", "0", "--no-report")
    assert fitted.returncode == 0, fitted.stderr
    turn, x, y = np.eye(4), np.cos(np.radians(40)), np.sin(np.radians(40))
    turn[:2, :2] = [[x, -y], [y, x]]
    rounded = RAS + 1e-6 * np.arange(16).reshape(4, 4) * (np.arange(4)[:, None] < 3)
    for number, (affine, said) in enumerate(
        (
            (turn @ RAS, "2 x 2 x 3 mm, turned by 40 degrees, the first at 0, -7.8, -7 mm"),
            (np.diag([3, 3, 3, 1]) @ RAS, "6 x 6 x 9 mm, the first at -15, -18, -21 mm"),
            (rounded, None),
        )
    ):
        path = tmp_path / f"{number}.nii.gz"
        nibabel.save(nibabel.Nifti1Image(np.moveaxis(volumes, 0, -1), affine), path)
        done = run("predict", tmp_path / "m.skops", path, "-o", tmp_path / "said.csv")
        assert done.returncode == 0, done.stderr
        assert ("do not lie where those of the fit did" in done.stderr) == (said is not None)
        if said is not None:
            assert said in done.stderr
            assert "those of the fit had 2 x 2 x 3 mm, the first at -5, -6, -7 mm" in done.stderr


def test_views_masks_and_backgrounds_in_another_orientation(tmp_path, volumes):
    """Only the samples of one view were turned; a mirrored mask was refused."""
    inside = np.zeros(volumes.shape[1:], np.float32)
    inside[0, 1:, :3] = 1
    for code in ("RAS", "LAS"):
        for view in ("t1", "bold"):
            write_study(tmp_path / code / view, volumes, lambda number, code=code: code)
        nibabel.save(stored_as(inside, code), tmp_path / code / "mask.nii.gz")
    first, other = tmp_path / "RAS" / "t1", tmp_path / "LAS" / "bold"
    found = load_views(first, {"bold": other})
    np.testing.assert_array_equal(found.data["bold"], volumes)
    np.testing.assert_allclose(found.affine["bold"], RAS)
    quick = (*QUICK, "--outer-folds", "0")
    assert run("fit", first, "--view", other, "-o", tmp_path / "v.skops", *quick, "--no-report").returncode == 0
    mirrored = (tmp_path / "LAS" / "t1", "--view", tmp_path / "LAS" / "bold")
    done = run("predict", tmp_path / "v.skops", *mirrored, "-o", tmp_path / "v.csv")
    assert done.returncode == 0, done.stderr
    assert "100.00 %" in done.stdout
    assert done.stderr.count("reoriented to match the model's samples") == 2
    for code in ("RAS", "LAS"):
        mask, model = tmp_path / code / "mask.nii.gz", tmp_path / f"{code}.skops"
        done = run("fit", first, "--mask", mask, "--background", mask, "-o", model, *quick)
        assert done.returncode == 0, done.stderr
        np.testing.assert_array_equal(load_model(model).model.best_estimator_[0].mask, inside > 0)


def test_lists_of_images_in_another_orientation(volumes):
    images = [stored_as(one, "PIR" if number in (3, 12) else "RAS") for number, one in enumerate(volumes)]
    np.testing.assert_array_equal(as_samples(images), volumes)
    runs = [
        stored_as(np.moveaxis(volumes[part], 0, -1), code) for part, code in ((slice(8), "RAS"), (slice(8, 16), "LAS"))
    ]
    np.testing.assert_array_equal(as_samples(runs), volumes)
