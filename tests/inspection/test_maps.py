"""Tests of maps that go out to people: where they are zero, what their signs mean, and in which files."""

from __future__ import annotations

import csv
import re
import zipfile

import nibabel
import numpy as np
import pytest
from conftest import opened, run
from matplotlib import pyplot as plt
from PIL import Image
from sklearn.pipeline import make_pipeline

from tensormargin import (
    BandPower,
    Convolutions,
    Covariances,
    Crop,
    Mask,
    NotAffineError,
    Tensorize,
    TensorKernel,
    TensorMarginClassifier,
    TensorScaler,
    TensorUnion,
    Views,
    ViewTransformer,
    activation_pattern,
    affine_form,
    cluster_table,
    load_model,
    load_samples,
    save_map,
    save_model,
)
from tensormargin.data import Axis
from tensormargin.inspection import ModelChain, feature_patterns
from tensormargin.io import BadFileError, SampleSet, is_ours
from tensormargin.plots import plot_channels, plot_map, plot_topography, plot_volume, plot_weight
from tensormargin.report import field_pictures, model_page, render
from tensormargin.report.model_report import fitted_sections
from tensormargin.report.page import Picture
from tensormargin.report.viewer import ModelMaps, three_digits
from tensormargin.transformers import Spectra, describe_step

pytestmark = pytest.mark.usefixtures("blank_figures")

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
    X[y == "house", 3, 3, 2] += 4.0  # a neighbour: clusters of one voxel are not listed
    X += np.linspace(0, 3, len(y))[:, None, None, None]  # what all voxels share, so that scores vary with all of them
    nibabel.save(nibabel.Nifti1Image(np.moveaxis(X, 0, -1).astype(np.float32), AFFINE), folder / "scans.nii.gz")
    (folder / "labels.csv").write_text("label\n" + "\n".join(y))
    inside = np.zeros(SHAPE, np.uint8)
    inside[1:5, 1:4, 1:3] = 1
    inside[1, 1, 2] = 0
    nibabel.save(nibabel.Nifti1Image(inside, AFFINE), folder / "mask.nii.gz")
    return folder


def fitted_to(scans, folder, option, *options):
    """Fit a model to the scans within the mask; return the folder with its files."""
    files = ("-o", folder / "m.skops", "--weight-map", folder / "w.nii.gz", "--pattern-map", folder / "p.nii.gz")
    labels = ("--labels-from", scans / "labels.csv", option, scans / "mask.nii.gz")
    written("fit", scans / "scans.nii.gz", *labels, *files, *PLAIN, *options)
    return folder


@pytest.fixture(scope="module")
def masked(scans, tmp_path_factory):
    return fitted_to(scans, tmp_path_factory.mktemp("masked"), "--mask")


@pytest.mark.parametrize("option", ["--mask", "--crop"])
def test_maps_are_zero_outside_of_masks_and_crops(scans, masked, tmp_path, option):
    folder = masked if option == "--mask" else fitted_to(scans, tmp_path, option, "--no-report")
    inside = nibabel.load(scans / "mask.nii.gz").get_fdata() > 0
    if option == "--crop":
        inside[1:5, 1:4, 1:3] = True
    for name in ("w", "p"):
        image = nibabel.load(folder / f"{name}.nii.gz")
        values = image.get_fdata()
        assert not values[~inside].any()
        assert values[inside].all()
        assert values[PLACES["house"]] > max(0, values[PLACES["face"]])
        assert name == "w" or values[PLACES["face"]] < 0  # a weight of rank one has one place
        assert image.header["descrip"].item() == b"positive = house, negative = face"


def test_entries_that_reach_the_classifier():
    X, y = planted("face", "house")
    inside = np.zeros(SHAPE, bool)
    inside[1:5, 1:4, 1:3] = True
    inside[2, 2, 2] = False
    left = inside & (np.arange(6) < 3)[:, None, None]

    def used(*steps, of=X):
        model = make_pipeline(*steps, TensorMarginClassifier("cp", 1)).fit(of, y)
        pattern, found = activation_pattern(model, of, y), ModelChain.of(model).used_entries
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
    """Of each binary problem, the class that is told to be positive is so at its place, in every file and figure."""

    @pytest.fixture
    def fitted(self, classes, scheme, tmp_path):
        X, y = planted(*classes)
        model = TensorMarginClassifier("full", multi_class=scheme).fit(X, y)
        save_model(tmp_path / "m.skops", model, {"affine": AFFINE.tolist()})
        return model

    def check(self, texts, maps):
        for text, values in zip(texts, maps, strict=True):
            found = re.search(
                r"(?:red|positive) = (for |higher in |)(\w+), (?:blue|negative) = (against |lower in |)(\w+)", text
            )
            more, positive, less, negative = found.groups()
            assert values[PLACES[positive]] > 0
            assert (more, less) in {("", ""), ("for ", "against "), ("higher in ", "lower in ")}
            assert bool(more) == (negative == positive)
            others = set(PLACES) - {positive} if more else {negative}
            assert all(values[PLACES[other]] < 0 for other in others)

    def test_in_python(self, fitted, classes):
        chain = ModelChain.of(fitted)
        X, y = planted(*classes)
        self.check([text.signs for text in chain.map_texts("weight")], fitted.coef_)
        self.check([text.colours for text in chain.map_texts("pattern")], activation_pattern(fitted, X, y))
        assert len(chain.problem_names) == (1 if len(classes) == 2 else 3)

    def test_in_the_report(self, fitted, classes, tmp_path):
        X, y = planted(*classes)
        samples = SampleSet(X, y, None, None, AFFINE, "x.nii", "file", ())
        page = model_page(fitted, load_model(tmp_path / "m.skops").facts, samples)
        (shown,) = (section.content["maps"] for section in page.sections if section.template == "maps.html")
        each = [problem["maps"] for problem in shown["problems"]]
        self.check([maps[0]["signs"] for maps in each], activation_pattern(fitted, X, y))
        self.check([maps[1]["signs"] for maps in each], fitted.coef_)
        assert "speak" not in re.sub(r"<script.*?</script>", "", render(page), flags=re.DOTALL)

    def test_in_tables_of_clusters_of_the_command(self, fitted, classes, tmp_path):
        X, y = planted(*classes)
        patterns = activation_pattern(fitted, X, y)
        save_model(tmp_path / "p.skops", fitted, {"affine": AFFINE.tolist()}, patterns=patterns)
        written("maps", tmp_path / "p.skops", "-o", tmp_path / "maps")
        head, *rows = csv.reader((tmp_path / "maps" / "pattern-clusters.csv").read_text().splitlines())
        assert head[0] == "signs"
        self.check(dict.fromkeys(row[0] for row in rows), patterns)

    def test_in_figures_of_fields(self, classes, scheme, monkeypatch):
        """Of channels, lines, images and spectra, each with a class at a place of its own."""
        labels = []

        def collected(draw, *arguments, caption, size, **options):
            ax = np.atleast_1d(draw(*arguments, **options))[0]
            labels.append(" ".join(one.get_ylabel() for one in ax.figure.axes))
            plt.close("all")
            return Picture("", caption)

        monkeypatch.setattr("tensormargin.report.field_figures.picture", collected)
        names, places = ["Fz", "C3", "Cz", "C4", "Pz"], {"face": (0, 1), "house": (3, 6), "shoe": (4, 3)}
        y = np.repeat(classes, 20)
        X = np.random.default_rng(0).normal(size=(len(y), 5, 8))
        for label in classes:
            X[(y == label, *places[label])] += 4.0
        model = TensorMarginClassifier("full", multi_class=scheme).fit(X, y)
        waves = Axis("wavelength", "nm", np.arange(8) + 400.0)
        for axes in (
            (Axis("channel", "", names), Axis("time", "ms", np.arange(8.0))),
            (waves,),
            (Axis("excitation", "nm", np.arange(5.0)), waves),
            (Axis("x", "mm", np.arange(5.0)), Axis("y", "mm", np.arange(8.0))),
        ):
            texts = ModelChain.of(model).map_texts("pattern")
            for values, text in zip(activation_pattern(model, X, y), texts, strict=True):
                labels.clear()
                assert field_pictures(values if len(axes) == 2 else values.sum(axis=0), axes, text)
                for words in (label.replace("\n", " ") for label in labels):
                    assert text.colours in words or text.signs in words

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
        texts = ModelChain.of(fitted).map_texts("weight")
        names = ["-".join(name.split()).replace("-", "_") for name in ModelChain.of(fitted).problem_names]
        files = [tmp_path / f"w-{k}-{name}.png" for k, name in enumerate(names, 1)]
        files = [tmp_path / "w.png"] if len(texts) == 1 else files
        for file, text in zip(files, texts, strict=True):
            metadata = Image.open(file).text
            assert (metadata["Title"], metadata["Description"]) == (text.title, text.colours)
        self.check([Image.open(file).text["Description"] for file in files], fitted.coef_)

    def test_in_tables_of_clusters(self, fitted):
        for text, values in zip(ModelChain.of(fitted).map_texts("weight"), fitted.coef_, strict=True):
            table = cluster_table(values, AFFINE, signs=text.signs)
            assert f"in absolute value; {text.signs}" in repr(table).splitlines()[0]
            assert text.signs in table._repr_html_()


def test_a_class_called_rest_is_not_the_rest():
    X, y = planted("face", "house")
    model = TensorMarginClassifier("cp", 1).fit(X, np.where(y == "house", "rest", "task"))
    assert ModelChain.of(model).problem_names == ["task against rest"]


def test_long_names_of_classes_are_in_a_header_extension(tmp_path):
    X, y = planted("face", "house")
    names = {"face": "Gesicht, aufrecht und groß " * 2, "house": "Häuser am Meer und in den Bergen, bei Nacht"}
    save_model(tmp_path / "m.skops", TensorMarginClassifier("cp", 1).fit(X, np.array([names[one] for one in y])))
    written("inspect", tmp_path / "m.skops", "--weight-map", tmp_path / "w.nii")
    header = nibabel.load(tmp_path / "w.nii").header
    said = f"positive = {names['house']}, negative = {names['face']}"
    assert header.extensions[0].get_content().decode() == said
    assert header["descrip"].item().decode()[:-3] == said[: len(header["descrip"].item().decode()) - 3]
    assert header["descrip"].item().endswith(b"...")


class TestVolumes:
    @pytest.fixture(scope="class")
    @classmethod
    def flipped(cls, tmp_path_factory):
        """Return a folder with a model of volumes in MNI coordinates whose first mode runs from right to left."""
        folder = tmp_path_factory.mktemp("flipped")
        X, y = planted("face", "house")
        image = nibabel.Nifti1Image(np.moveaxis(X, 0, -1).astype(np.float32), np.diag([-3.0, 3, 3, 1]))
        image.set_sform(image.affine, 4)
        nibabel.save(image, folder / "scans.nii.gz")
        (folder / "labels.csv").write_text("label\n" + "\n".join(y))
        labels = ("--labels-from", folder / "labels.csv", "--no-report", "--pattern-map", folder / "p.nii.gz")
        written("fit", folder / "scans.nii.gz", *labels, *PLAIN)
        return folder

    def test_are_drawn_with_left_on_the_left_as_in_the_report(self, flipped, tmp_path, monkeypatch):
        drawn = []
        monkeypatch.setattr("tensormargin.plots.files.save_png", lambda path, axes, about: drawn.append(axes))
        values = load_model(flipped / "scans.skops").patterns[""].maps[0]
        save_map(tmp_path / "p.png", values, affine=np.diag([-3.0, 3, 3, 1]), signs="red = house, blue = face")
        (axes,) = drawn
        assert [[text.get_text() for text in ax.texts] for ax in axes] == [["P", "A"], ["L", "R"], ["L", "R"]]
        turned = values[::-1]
        where = np.unravel_index(np.abs(turned).argmax(), turned.shape)
        np.testing.assert_allclose(axes[2].get_images()[-1].get_array(), turned[:, :, where[2]].T[::-1])
        assert axes[0].figure.axes[-1].get_ylabel() == "red = house, blue = face"

    def test_keep_the_code_of_their_coordinates(self, flipped, tmp_path):
        assert nibabel.load(flipped / "p.nii.gz").header["sform_code"] == 4
        written("maps", flipped / "scans.skops", "-o", tmp_path / "maps")
        written("inspect", flipped / "scans.skops", "--weight-map", tmp_path / "w.nii")
        for path in (tmp_path / "maps" / "pattern.nii.gz", tmp_path / "w.nii"):
            header = nibabel.load(path).header
            assert (header["sform_code"], header["qform_code"]) == (4, 4)
            np.testing.assert_allclose(nibabel.load(path).affine, np.diag([-3.0, 3, 3, 1]))

    def test_of_a_folder_have_that_of_the_first(self, tmp_path):
        for label in ("face", "house"):
            (tmp_path / "scans" / label).mkdir(parents=True)
            for number in range(2):
                image = nibabel.Nifti1Image(np.ones(SHAPE, np.float32), AFFINE)
                image.set_sform(AFFINE, 3 if label == "house" else 4)
                nibabel.save(image, tmp_path / "scans" / label / f"{number}.nii.gz")
        assert load_samples(tmp_path / "scans").space == 4


def test_axes_are_kept_for_patterns_and_every_view(tmp_path):
    axes = Axis("channel", "", ["Fz", "Cz", "Pz", "Oz"]), Axis("time", "ms", np.arange(60) * 10.0)
    rng, y = np.random.default_rng(0), np.repeat(["rest", "task"], 12)
    X = rng.normal(size=(24, 4, 60))
    X[:, 2] += 2.0 * (y == "task")[:, None]
    union = TensorUnion([("scaled", TensorScaler(0)), ("power", BandPower(sfreq=100.0))])
    model = make_pipeline(union, TensorMarginClassifier("full")).fit(X, y)
    save_model(tmp_path / "m.skops", model, axes=axes, patterns=feature_patterns(model, X, y))
    written("maps", tmp_path / "m.skops", "-o", tmp_path / "maps")
    written("inspect", tmp_path / "m.skops", "--pattern-map", tmp_path / "pattern.csv")
    for name in ("maps/pattern.csv", "maps/pattern-scaled.csv", "maps/weight-scaled.csv", "pattern.csv"):
        heads, first, *_ = csv.reader((tmp_path / name).read_text().splitlines())
        assert (heads[:2], first[:2]) == (["channel", "time (ms)"], ["Fz", "0"])
    for name in ("pattern-power.csv", "weight-power.csv"):
        heads, first, *_ = csv.reader((tmp_path / "maps" / name).read_text().splitlines())
        assert (heads[0], first[0]) == ("channel", "Fz")
        assert "Hz" in heads[1]


def test_maps_of_samples_that_are_changed_first_say_so(tmp_path):
    axes = (Axis("wavelength", "nm", np.arange(40) + 400.0),)
    rng, y = np.random.default_rng(0), np.repeat(["mixed", "pure"], 12)
    X = rng.normal(size=(24, 40)) + 5.0 + 2.0 * (y == "pure")[:, None] * np.hanning(40)
    model = make_pipeline(Spectra("snv"), TensorMarginClassifier("full")).fit(X, y)
    samples = SampleSet(X, y, None, None, None, "x.npz", "file", (), axes=axes, field="spectra")
    save_model(tmp_path / "m.skops", model, axes=axes, patterns=activation_pattern(model, X, y))
    brief = describe_step(model[0], brief=True)
    written("maps", tmp_path / "m.skops", "-o", tmp_path / "maps")
    head = (tmp_path / "maps" / "pattern.csv").read_text().splitlines()[0]
    assert f"pattern ({brief}), pure against mixed" in head
    assert is_ours(tmp_path / "maps" / "pattern.csv")
    page = model_page(model, load_model(tmp_path / "m.skops").facts, samples)
    (section,) = (section for section in page.sections if section.heading == "Spectra")
    (part,) = section.content["groups"][0]["parts"]
    assert f"axes of the prepared samples ({brief})" in part["text"]
    assert f"({brief}), pure against mixed; beneath it, the mean" in part["pictures"][0].caption


def test_lines_have_the_colours_of_their_signs():
    (ax,) = plot_map(np.array([0.0, 2.0, 0.0, -2.0, 0.0]), label="red = house, blue = face")
    places = {}
    for area in ax.collections:
        red, _, blue, _ = area.get_facecolor()[0]
        places["red" if red > blue else "blue"] = area.get_paths()[0].vertices[:, 1]
    assert (places["red"].min(), places["red"].max()) == (0.0, 2.0)
    assert (places["blue"].min(), places["blue"].max()) == (-2.0, 0.0)
    plt.close("all")


def test_in_tables_of_covariates_each_column_tells_the_sign():
    rng, y = np.random.default_rng(0), np.repeat(["face", "house"], 20)
    people = np.column_stack([rng.normal(size=40), 3.0 * (y == "house") + rng.normal(size=40)])
    views = Views(scan=rng.normal(size=(40, 3, 4)), covariates=people)
    axes = {"scan": None, "covariates": (Axis("covariate", "", ["age", "score"]),)}
    model = TensorMarginClassifier("cp", 1).fit(views, y)
    samples = SampleSet(views, y, None, None, None, "x.npz", "file", (), axes=axes)
    sections = fitted_sections(ModelMaps(model, samples), {}, axes)
    (table,) = (table for one in sections if one.heading == "View covariates" for table in one.content["tables"])
    assert table["columns"][1:] == [
        f"{what}, house against face (positive = house, negative = face)" for what in ("activation pattern", "weight")
    ]
    assert all(cell["value"] > 0 for cell in table["rows"][1]["cells"][1:])


def test_over_a_background_colours_are_those_that_are_told():
    drawn = plot_map(np.eye(4), background=np.ones((4, 4)), label="red = house, blue = face")
    colours = drawn[0].get_images()[-1].cmap
    for share in (0.1, 0.2, 0.3):
        (red, green, blue, _), (other_red, _, other_blue, _) = colours(1 - share), colours(share)
        assert red > 1.3 * max(green, blue)
        assert other_blue > 1.3 * other_red
    plt.close("all")


class TestPatternsInModelFiles:
    def test_are_those_of_the_fit(self, masked, tmp_path):
        told = written("inspect", masked / "m.skops", "--pattern-map", tmp_path / "again.nii.gz")
        assert "Activation pattern, which may be interpreted: --pattern-map FILE" in told.stdout
        first, again = (nibabel.load(path) for path in (masked / "p.nii.gz", tmp_path / "again.nii.gz"))
        np.testing.assert_array_equal(first.get_fdata(), again.get_fdata())
        np.testing.assert_array_equal(again.affine, AFFINE)
        assert again.header["descrip"].item() == b"positive = house, negative = face"
        written("report", masked / "m.skops", "-o", tmp_path / "alone.html")
        page = (tmp_path / "alone.html").read_text()
        assert "<h2>Pattern and weight</h2>" in page
        assert re.search(r'"kinds": \["activation pattern", "weight"\]', page)
        assert "Clusters of the activation pattern, house against face: positive = house, negative = face" in page

    def test_of_several_views(self, tmp_path):
        X, y = planted("face", "house")
        views = Views(scan=X, slice=X[:, :, 1])
        model = make_pipeline(ViewTransformer({"scan": TensorScaler()}), TensorMarginClassifier("cp", 1)).fit(views, y)
        patterns = activation_pattern(model, views, y)
        save_model(tmp_path / "m.skops", model, patterns=patterns)
        written("inspect", tmp_path / "m.skops", "--pattern-map", tmp_path / "p.npy")
        for name in views:
            np.testing.assert_allclose(np.load(tmp_path / f"p-{name}.npy"), patterns[name][0], rtol=1e-6)
        written("report", tmp_path / "m.skops", "-o", tmp_path / "alone.html")
        assert (tmp_path / "alone.html").read_text().count('"kinds": ["activation pattern", "weight"]') == 2

    def test_can_be_missing(self, tmp_path):
        X, y = planted("face", "house")
        save_model(tmp_path / "m.skops", TensorMarginClassifier("cp", 1).fit(X, y))
        done = run("inspect", tmp_path / "m.skops", "--pattern-map", tmp_path / "p.npy")
        assert done.returncode == 2
        assert "holds no activation pattern" in said(done)
        assert "tensormargin report MODEL DATA" in said(done)
        assert not (tmp_path / "p.npy").exists()

    def test_are_not_kept_if_they_are_too_large(self, tmp_path, monkeypatch):
        monkeypatch.setattr("tensormargin.io.models._MOST_PATTERN_ENTRIES", 119)
        X, y = planted("face", "house")
        model = TensorMarginClassifier("cp", 1).fit(X, y)
        save_model(tmp_path / "m.skops", model, patterns=activation_pattern(model, X, y))
        assert load_model(tmp_path / "m.skops").patterns is None

    @pytest.mark.parametrize("wrong", [np.full((1, 2), np.nan), np.zeros((2, 3)), np.zeros(3)])
    def test_are_checked(self, tmp_path, wrong):
        X, y = planted("face", "house")
        save_model(tmp_path / "m.skops", TensorMarginClassifier("cp", 1).fit(X, y), patterns=wrong)
        with pytest.raises(BadFileError, match="pattern '' must be finite numbers"):
            load_model(tmp_path / "m.skops")

    def test_cannot_be_changed(self, tmp_path):
        X, y = planted("face", "house")
        model = TensorMarginClassifier("cp", 1).fit(X, y)
        save_model(tmp_path / "m.skops", model, patterns=activation_pattern(model, X, y))
        with zipfile.ZipFile(tmp_path / "m.skops") as archive:
            place = archive.getinfo("pattern-0.npy").header_offset + 200
        content = bytearray((tmp_path / "m.skops").read_bytes())
        content[place] ^= 1
        (tmp_path / "m.skops").write_bytes(content)
        with pytest.raises(BadFileError, match="SHA-256"):
            load_model(tmp_path / "m.skops")


def said(done):
    return " ".join(done.stderr.split())


@pytest.fixture
def series():
    y = np.repeat(["a", "b"], 15)
    X = np.random.default_rng(1).normal(size=(30, 3, 40))
    X[y == "b", 0] *= 2.0
    return X, y


class TestFeatures:
    """Kernels, convolutions and vectors of covariances are no picture of the samples."""

    @pytest.mark.parametrize(
        ("step", "name"), [(Convolutions(n_features=200), "Convolutions"), (Covariances(vectorize=True), "Covariances")]
    )
    def test_are_not_written_as_maps(self, series, tmp_path, step, name):
        X, y = series
        model = make_pipeline(step, TensorMarginClassifier("full")).fit(X, y)
        save_model(tmp_path / "m.skops", model, patterns=activation_pattern(model, X, y))
        for option in ("--weight-map", "--pattern-map"):
            done = run("inspect", tmp_path / "m.skops", option, tmp_path / "map.nii.gz")
            assert done.returncode == 2
            assert re.search(rf"on \d+ features that {name} makes, which are no picture of the samples", said(done))
            assert "--linear" in said(done)
        assert not (tmp_path / "map.nii.gz").exists()
        written("report", tmp_path / "m.skops", "-o", tmp_path / "page.html")
        page = (tmp_path / "page.html").read_text()
        assert "data-viewer" not in page.partition("<script")[0]
        assert "no picture of the samples" in page
        with pytest.raises(NotAffineError, match="--linear"):
            affine_form(model)

    def test_of_kernels_name_the_remedy(self, series, tmp_path):
        X, y = series
        model = make_pipeline(TensorKernel("rbf"), TensorMarginClassifier("full")).fit(X, y)
        save_model(tmp_path / "m.skops", model)
        for arguments in (("inspect", "--weight-map", tmp_path / "w.png"), ("export", "-o", tmp_path / "m.onnx")):
            done = run(arguments[0], tmp_path / "m.skops", *arguments[1:])
            assert done.returncode == 2
            assert "--linear" in said(done)
            assert "NotAffineError" not in said(done)

    def test_among_views_are_named_with_their_share(self, series, tmp_path):
        X, y = series
        union = TensorUnion([("raw", "passthrough"), ("conv", Convolutions(n_features=200)), ("rbf", TensorKernel())])
        model = make_pipeline(union, TensorMarginClassifier("full")).fit(X, y)
        pattern = feature_patterns(model, X, y)["raw"].maps
        np.testing.assert_allclose(pattern, activation_pattern(model, X, y))
        save_model(tmp_path / "m.skops", model, patterns=feature_patterns(model, X, y))
        files = ("--weight-map", tmp_path / "w.npy", "--pattern-map", tmp_path / "p.npy")
        done = written("inspect", tmp_path / "m.skops", *files)
        shares = {name: f"{100 * float(own.mean()):.1f}" for name, own in model[-1].view_shares_.items()}
        made = {"conv": "Convolutions", "rbf": "TensorKernel"}
        named = ", ".join(f"{name} ({step}, {shares[name]} % of the score)" for name, step in made.items())
        assert f"No picture of the samples, so not in the maps: {named}" in done.stdout
        assert sorted(path.name for path in tmp_path.glob("*.npy")) == ["p-raw.npy", "w-raw.npy"]
        np.testing.assert_allclose(np.load(tmp_path / "p-raw.npy"), pattern[0], rtol=1e-6)
        written("report", tmp_path / "m.skops", "-o", tmp_path / "page.html")
        page = (tmp_path / "page.html").read_text()
        assert page.count("data-maps>") == 1  # the view that is the samples: halves do not agree on their pattern
        assert f"has {shares['conv']} % of the score. Features of Convolutions are no picture" in page


def test_three_digits_are_those_of_the_numbers():
    rng = np.random.default_rng(0)
    sizes = np.concatenate([10.0 ** rng.uniform(-30, 3, 5000), [999.4, 999.6, 1e-5, 1000.0, 1.0]])
    values = sizes * rng.choice([-1, 1], len(sizes))
    codes, lowest = three_digits(values)
    half = (codes.astype(int) - 1) // 2
    found = (100.0 + half % 900) * 10.0 ** (lowest + half // 900 - 2) * np.where(codes % 2, 1, -1)
    assert [f"{one:.2e}" for one in found] == [f"{one:.2e}" for one in values]
    assert not three_digits(np.zeros((2, 3)))[0].any()


def test_the_value_at_the_crosshair_is_that_of_the_file(browser, masked):
    values = nibabel.load(masked / "p.nii.gz").get_fdata()
    opened(browser, masked / "m.html")
    places = list(np.ndindex(*SHAPE))
    texts = browser.execute_script(
        "return arguments[0].map((place) => {"
        "  place.forEach((index, mode) => {"
        "    const input = document.querySelector(`input[data-mode='${mode}']`);"
        "    input.value = index; input.dispatchEvent(new Event('input'));"
        "  });"
        "  return document.querySelector('[data-value]').textContent;"
        "})",
        places,
    )
    for place, text in zip(places, texts, strict=True):
        assert f"voxel ({', '.join(map(str, place))})" in text
        assert f"{float(text.split()[0]):.2e}" == f"{values[place]:.2e}"


def test_figures_name_the_sign_beside_their_colours():
    X, y = planted("face", "house")
    model = TensorMarginClassifier("cp", 1).fit(X[:, 0], y)
    sign = "red = house, blue = face"
    names = ["Fz", "C3", "Cz", "C4", "Pz"]
    drawn = [
        *plot_weight(model).ravel(),
        plot_volume(X[0], AFFINE, label=sign)[0],
        plot_channels(X[0, 0], label=sign),
        plot_topography(X[0, 0, :, 0], names, label=sign),
    ]
    assert [ax.figure.axes[-1].get_ylabel() for ax in drawn] == [sign] * 4
    assert plot_map(X[0, 0, 0], label=sign)[0].get_ylabel() == sign
    plt.close("all")
