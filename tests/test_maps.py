"""Tests of maps that go out to people: where they are zero, what their signs mean, and in which files."""

from __future__ import annotations

import csv
import re

import nibabel
import numpy as np
import pytest
from conftest import run
from PIL import Image
from sklearn.pipeline import make_pipeline

from tensormargin import (
    Crop,
    Mask,
    Tensorize,
    TensorMarginClassifier,
    TensorScaler,
    TensorUnion,
    Views,
    ViewTransformer,
    activation_pattern,
    cluster_table,
    save_model,
)
from tensormargin.model_steps import problem_names, used_entries

SHAPE = (6, 5, 4)
PLACES = {"face": (1, 1, 1), "house": (4, 3, 2), "shoe": (2, 3, 1)}
AFFINE = np.diag([3.0, 3, 3, 1])
PLAIN = ("--outer-folds", 0, "--decomposition", "cp", "--rank", 1, "--folds", 2)


def planted(*classes, n=20):
    """Return volumes in which each class has one bright voxel, with noise everywhere, and their labels."""
    y = np.repeat(classes, n)
    X = np.random.default_rng(0).normal(size=(len(y), *SHAPE))
    for label in classes:
        X[(y == label, *PLACES[label])] += 4.0
    return X, y


def written(*arguments):
    done = run(*arguments)
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def scans(tmp_path_factory):
    """Return a folder with a 4D image of two classes, its labels, and a mask around both places."""
    folder = tmp_path_factory.mktemp("scans")
    X, y = planted("face", "house")
    X += np.linspace(0, 3, len(y))[:, None, None, None]  # what all voxels share, so that scores vary with all of them
    nibabel.save(nibabel.Nifti1Image(np.moveaxis(X, 0, -1).astype(np.float32), AFFINE), folder / "scans.nii.gz")
    (folder / "labels.csv").write_text("label\n" + "\n".join(y))
    inside = np.zeros(SHAPE, np.uint8)
    inside[1:5, 1:4, 1:3] = 1
    inside[1, 1, 2] = 0
    nibabel.save(nibabel.Nifti1Image(inside, AFFINE), folder / "mask.nii.gz")
    return folder


@pytest.mark.parametrize("option", ["--mask", "--crop"])
def test_maps_are_zero_outside_of_masks_and_crops(scans, tmp_path, option):
    files = ("--weight-map", tmp_path / "w.nii.gz", "--pattern-map", tmp_path / "p.nii.gz")
    labels = ("--labels-from", scans / "labels.csv", option, scans / "mask.nii.gz")
    written("fit", scans / "scans.nii.gz", *labels, "-o", tmp_path / "m.skops", *PLAIN, *files)
    inside = nibabel.load(scans / "mask.nii.gz").get_fdata() > 0
    if option == "--crop":
        inside[1:5, 1:4, 1:3] = True
    for name in ("w", "p"):
        image = nibabel.load(tmp_path / f"{name}.nii.gz")
        values = image.get_fdata()
        assert not values[~inside].any()
        assert values[inside].all()
        assert values[PLACES["house"]] > 0 > values[PLACES["face"]]
        assert image.header["descrip"].item() == b"positive: house against face"


def test_entries_that_reach_the_classifier():
    X, y = planted("face", "house")
    inside = np.zeros(SHAPE, bool)
    inside[1:5, 1:4, 1:3] = True
    inside[2, 2, 2] = False
    left = inside & (np.arange(6) < 3)[:, None, None]

    def used(*steps, of=X):
        model = make_pipeline(*steps, TensorMarginClassifier("cp", 1)).fit(of, y)
        pattern, found = activation_pattern(model, of, y), used_entries(model)
        if not isinstance(pattern, dict):
            assert found is None or not pattern[:, ~found].any()
        return found

    assert used(TensorScaler()) is None
    np.testing.assert_array_equal(used(TensorScaler(), Mask(inside), TensorScaler("global")), inside)
    np.testing.assert_array_equal(used(Mask(inside), Crop(left)), inside & (np.arange(6) < 3)[:, None, None])
    flat = Tensorize((30, 4))
    np.testing.assert_array_equal(used(flat, Mask(inside.reshape(30, 4))), inside)
    both = TensorUnion([("a", Mask(left)), ("b", Mask(inside))])
    np.testing.assert_array_equal(used(both), inside)
    assert used(TensorUnion([("a", Mask(left)), ("b", "passthrough")])) is None
    of_views = used(ViewTransformer({"one": Mask(left)}), of=Views(one=X, other=X[:, 0]))
    np.testing.assert_array_equal(of_views["one"], left)
    assert of_views.get("other") is None


SCHEMES = [(("face", "house"), "ovo"), (tuple(PLACES), "ovo"), (tuple(PLACES), "ovr")]


@pytest.mark.parametrize(("classes", "scheme"), SCHEMES)
class TestSigns:
    """Of each binary problem, the class that the title names first is positive at its place, in every file."""

    @pytest.fixture
    def fitted(self, classes, scheme, tmp_path):
        X, y = planted(*classes)
        model = TensorMarginClassifier("full", multi_class=scheme).fit(X, y)
        save_model(tmp_path / "m.skops", model, {"affine": AFFINE.tolist()})
        return model

    def check(self, titles, maps):
        for title, one in zip(titles, maps, strict=True):
            positive, negative = re.fullmatch(r"(?:.*positive: )?(\w+) against (\w+|the rest)\)?", title).groups()
            assert one[PLACES[positive]] > 0
            others = set(PLACES) - {positive} if negative == "the rest" else {negative}
            assert all(one[PLACES[other]] < 0 for other in others)

    def test_in_python(self, fitted, classes):
        names = problem_names(fitted)
        X, y = planted(*classes)
        self.check(names, fitted.coef_)
        self.check(names, activation_pattern(fitted, X, y))
        assert len(names) == (1 if len(classes) == 2 else 3)

    def test_in_nifti_files(self, fitted, tmp_path):
        written("inspect", tmp_path / "m.skops", "--weight-map", tmp_path / "w.nii.gz")
        image = nibabel.load(tmp_path / "w.nii.gz")
        maps = image.get_fdata()
        maps = np.moveaxis(maps, -1, 0) if maps.ndim == 4 else maps[None]
        said = [one.get_content() for one in image.header.extensions] or [image.header["descrip"].item()]
        self.check(said[0].decode().split("; "), maps)
        assert image.header["descrip"].item().decode().startswith(said[0].decode()[:70])

    def test_in_tables(self, fitted, tmp_path):
        written("inspect", tmp_path / "m.skops", "--weight-map", tmp_path / "w.csv")
        head, *rows = csv.reader((tmp_path / "w.csv").read_text().splitlines())
        maps = np.zeros((len(head) - 3, *SHAPE))
        for row in rows:
            maps[(slice(None), *map(int, row[:3]))] = [float(one) for one in row[3:]]
        self.check(head[3:], maps)

    def test_in_pictures(self, fitted, tmp_path):
        written("inspect", tmp_path / "m.skops", "--weight-map", tmp_path / "w.png")
        names = problem_names(fitted)
        files = [tmp_path / "w.png"] if len(names) == 1 else [tmp_path / f"w-{k}.png" for k in (1, 2, 3)]
        for file, name in zip(files, names, strict=True):
            text = Image.open(file).text
            assert (text["Title"], text["Description"]) == (f"weight, {name}", f"positive: {name}")

    def test_in_tables_of_clusters(self, fitted):
        for name, one in zip(problem_names(fitted), fitted.coef_, strict=True):
            table = cluster_table(one, AFFINE, signs=f"positive: {name}")
            assert f"in absolute value; positive: {name}" in repr(table).splitlines()[0]
            assert f"positive: {name}" in table._repr_html_()


def test_a_class_called_rest_is_not_the_rest():
    X, y = planted("face", "house")
    model = TensorMarginClassifier("cp", 1).fit(X, np.where(y == "house", "rest", "task"))
    assert problem_names(model) == ["task against rest"]


def test_long_names_of_classes_are_in_a_header_extension(tmp_path):
    X, y = planted("face", "house")
    names = {"face": "Gesicht, aufrecht und groß " * 2, "house": "Häuser am Meer und in den Bergen, bei Nacht"}
    save_model(tmp_path / "m.skops", TensorMarginClassifier("cp", 1).fit(X, np.array([names[one] for one in y])))
    written("inspect", tmp_path / "m.skops", "--weight-map", tmp_path / "w.nii")
    header = nibabel.load(tmp_path / "w.nii").header
    said = f"positive: {names['house']} against {names['face']}"
    assert header.extensions[0].get_content().decode() == said
    assert header["descrip"].item().decode()[:-3] == said[: len(header["descrip"].item().decode()) - 3]
    assert header["descrip"].item().endswith(b"...")
