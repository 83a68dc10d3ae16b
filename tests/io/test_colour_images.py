"""Colour images are pictures with three channels, from their files to the maps of a report."""

from __future__ import annotations

import json
import re

import matplotlib as mpl
import numpy as np
import pytest
from conftest import fewer_models, opened, run
from matplotlib import pyplot as plt
from PIL import Image
from sklearn.pipeline import make_pipeline

from tensormargin import TensorMarginClassifier, load_samples
from tensormargin.data import Axis, axes_of_picture, colour_mode, colour_order
from tensormargin.io import SampleSet, save_model
from tensormargin.plots import maps, plot_map, plot_pictures
from tensormargin.plots.maps import true_colours
from tensormargin.selection import guess_kind
from tensormargin.selection.kinds import alternatives, views_of
from tensormargin.transformers import TensorScaler, TensorUnion

pytestmark = pytest.mark.usefixtures("blank_figures")

mpl.use("Agg")

SHAPE = (10, 14, 3)
LEAF, ROSE = (-30, 30, 0), (30, -30, 0)


def coloured(rng, hue):
    """Return noise that is as bright in both classes, with a patch of a hue."""
    pixels = 128 + 20 * rng.normal(size=(*SHAPE[:2], 1)) + 10 * rng.normal(size=SHAPE)
    pixels[2:7, 4:10] += hue
    return Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a class folder of RGB images whose classes differ in hue only."""
    root, rng = tmp_path_factory.mktemp("pictures"), np.random.default_rng(0)
    for label, hue in (("leaf", LEAF), ("rose", ROSE)):
        (root / label).mkdir()
        for number in range(10):
            coloured(rng, hue).save(root / label / f"{number}.png")
    return root


def image_files(folder, *images, ending="png"):
    (folder / "a").mkdir()
    for number, image in enumerate(images):
        image.save(folder / "a" / f"{number}.{ending}")
    return folder


def test_modes_of_class_folders_tables_and_flat_folders(folder, tmp_path):
    table = folder / "table.csv"
    table.write_text("path,label\nleaf/0.png,leaf\nrose/0.png,rose\n")
    flat = load_samples(folder / "leaf", need_labels=False)
    one = load_samples(folder / "leaf" / "0.png", need_labels=False)
    lazy = load_samples(folder, lazy=True)
    for found in (load_samples(folder), load_samples(table), flat, one, lazy):
        assert found.sample_shape == SHAPE
        assert found.axes == axes_of_picture()
    table.unlink()
    grey = image_files(tmp_path, Image.new("I;16", (14, 10)), Image.new("I;16", (14, 10), 999))
    assert load_samples(grey).axes is None
    assert load_samples(folder, mode_names=["y", "x", "rgb"]).axes[2] == Axis("rgb")


def test_transparency(tmp_path):
    solid = coloured(np.random.default_rng(0), ROSE)
    clear = solid.convert("RGBA")
    clear.putalpha(Image.fromarray(np.repeat([0, 255], (70, 70)).reshape(10, 14).astype(np.uint8)))
    found = load_samples(image_files(tmp_path, solid, solid.convert("RGBA"), clear))
    assert np.array_equal(found.data[0], found.data[1])
    assert np.array_equal(found.data[2][5:], found.data[0][5:])
    assert (found.data[2][:5] == 255).all()
    assert [note.split(",")[0] for note in found.notes] == [
        "transparency that is the same everywhere was left out in 1 image",
        "1 image with transparent parts",
    ]
    assert found.notes[1].endswith("put on white, e.g. a/2.png")


def test_palettes_with_transparency(tmp_path):
    palette = Image.new("P", (2, 1))
    palette.putpalette([255, 0, 0, 0, 0, 255])
    palette.putdata([0, 1])
    palette.info["transparency"] = 1
    found = load_samples(image_files(tmp_path, palette))
    assert found.data[0].tolist() == [[[255, 0, 0], [255, 255, 255]]]
    assert len(found.notes) == 1


@pytest.mark.parametrize(
    ("axes", "shape", "mode"),
    [
        (axes_of_picture(), (8, 9, 3), 2),
        ((Axis("Color"), Axis("y"), Axis("x")), (3, 8, 9), 0),
        ((Axis(), Axis(), Axis("channel", "", ["B", "G", "R"])), (8, 9, 3), 2),
        ((Axis(), Axis(), Axis("channel", "", ["C3", "C4", "Cz"])), (8, 9, 3), None),
        ((Axis("y"), Axis("x"), Axis("colour")), (8, 9, 4), None),
        ((Axis("time"), Axis("colour")), (8, 3), None),
        (None, (8, 9, 3), None),
        ({"a": axes_of_picture()}, (8, 9, 3), None),
    ],
)
def test_the_mode_of_colours(axes, shape, mode):
    assert colour_mode(axes, shape) == mode
    if mode is not None:
        X = np.random.default_rng(0).normal(size=(4, *shape))
        samples = SampleSet(X, None, None, None, None, "x.npz", "file", (), axes=axes)
        assert guess_kind(samples) == ("image", "one of their modes is that of colours")


def test_the_order_of_colours():
    assert colour_order(Axis("channel", "", ["B", "G", "R"])) == [2, 1, 0]
    assert colour_order(Axis("colour")) == colour_order(axes_of_picture()[2]) == [0, 1, 2]


@pytest.mark.parametrize("shape", [(10, 12, 3), (3, 10, 12)])
def test_nothing_goes_along_colours(shape):
    """Each channel is blurred by itself, and rows and columns of a picture have convolutions and gradients."""
    tried = alternatives("image", shape)
    assert len(tried) == 4
    assert isinstance(tried[-1], TensorUnion)
    both = ["competing convolutions", "competing convolutions down"]
    assert views_of("image", shape) == ["blurred", *both, "gradients", "coarse gradients", "kernel"]
    assert views_of("image", shape, linear=True) == ["channels scaled", "blurred"]
    rows = 0 if shape[-1] == 3 else 1
    X = np.zeros((4, *shape))
    red = (slice(None),) * 3 + (0,) if rows == 0 else (slice(None), 0)
    X[red] = np.random.default_rng(0).normal(size=(4, 10, 12))
    blurred = tried[2].fit(X).transform(X)
    assert np.ptp(blurred[red]) > 0
    blurred[red] = 0
    assert not blurred.any()
    views = dict(tried[3].transformer_list)
    assert [views[name.replace(" ", "_")].mode + 3 for name in both] == [rows + 1, rows]
    for name in ("gradients", "coarse_gradients"):
        assert [mode + 3 for mode in views[name].modes] == [rows, rows + 1]


def test_auto_finds_a_hue(folder, tmp_path):
    out = tmp_path / "hue.skops"
    with fewer_models(decompositions=("full",), ranks=(1,)):
        options = ("--auto", "--linear", "--folds", 2, "--outer-folds", 2, "--no-report", "--json")
        done = run("fit", folder, "-o", out, *options)
    assert done.returncode == 0, done.stderr
    assert "treated as images because one of their modes is that of colours" in done.stderr
    assert json.loads(done.stdout)["evaluation"]["accuracy"] >= 0.9


# maps


@pytest.fixture(scope="module")
def fitted(folder, tmp_path_factory):
    """Return the files of a model of colour images: the model and its report."""
    out = tmp_path_factory.mktemp("model") / "hue.skops"
    with fewer_models(lams=(1,)):
        done = run("fit", folder, "-o", out, "--decomposition", "full", "--rank", 1, "--folds", 2, "--outer-folds", 0)
    assert done.returncode == 0, done.stderr
    return out, out.with_suffix(".html")


def test_channels_are_drawn_side_by_side_with_one_scale():
    values = np.random.default_rng(0).normal(size=(6, 8, 3))
    for axes, shown in ((axes_of_picture(), values), ((Axis("rgb"), Axis("y"), Axis("x")), np.moveaxis(values, -1, 0))):
        drawn = plot_map(shown, mode_axes=axes, background=np.abs(shown), title="weight")
        assert [ax.get_title() for ax in drawn] == ["red", "green", "blue"]
        assert [ax.get_xlabel() for ax in drawn] == [["column"] * 3, ["x"] * 3][axes[0].name == "rgb"]
        for index, ax in enumerate(drawn):
            below, above = ax.images
            assert below.get_array().shape == (6, 8, 3)
            assert np.array_equal(above.get_array(), values[..., index])
            assert above.get_clim() == drawn[0].images[1].get_clim()
            assert not ax.lines  # no crosshair: nothing is cut
        plt.close("all")
    assert drawn[0].get_title(loc="left") == "weight\n"


def test_pictures_in_true_colours():
    red = np.zeros((4, 5, 3))
    red[..., 0] = 200
    axes = (Axis(), Axis(), Axis("colour", "", ["blue", "green", "red"]))
    drawn = plot_pictures({"rose": red[..., ::-1], "night": np.zeros((4, 5, 3))}, axes)
    assert [ax.get_title() for ax in drawn] == ["rose", "night"]
    np.testing.assert_allclose(drawn[0].images[0].get_array(), red / 255)
    plt.close("all")
    with pytest.raises(ValueError, match="must be that of colours"):
        true_colours(red, (Axis("x"), Axis("y"), Axis("z")))


def test_weight_map_of_a_model(fitted, tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(
        maps, "plot_map", lambda *values, **options: drawn.append(plot_map(*values, **options)) or drawn[-1]
    )
    done = run("inspect", fitted[0], "--weight-map", tmp_path / "weight.png")
    assert done.returncode == 0, done.stderr
    with Image.open(tmp_path / "weight.png") as image:
        assert image.size[0] > image.size[1]
    assert [ax.get_title() for ax in drawn[0]] == ["red", "green", "blue"]
    assert {ax.images[-1].get_array().shape for ax in drawn[0]} == {SHAPE[:2]}
    run("inspect", fitted[0], "--weight-map", tmp_path / "weight.csv")
    assert (tmp_path / "weight.csv").read_text().startswith("row,column,colour,")


@pytest.mark.parametrize("width", [1280, 390])
def test_report_in_a_browser(fitted, browser, width):
    opened(browser, fitted[1], width)
    read = "return [...document.querySelectorAll('[data-viewer] .cut p')].map((one) => one.textContent)"
    assert [text.split(":")[0] for text in browser.execute_script(read)] == ["red", "green", "blue"]
    canvases = "[...document.querySelectorAll('[data-viewer] .cut canvas')]"
    sizes = browser.execute_script(f"return {canvases}.map((one) => [one.height, one.width])")
    assert sizes == [[*SHAPE[:2]]] * 3
    tops = browser.execute_script(f"return {canvases}.map((one) => Math.round(one.getBoundingClientRect().top))")
    assert len(set(tops)) == (1 if width == 1280 else 3)  # side by side where there is room
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    browser.execute_script(
        "const one = document.querySelectorAll('[data-viewer] .frame')[1], box = one.getBoundingClientRect();"
        "one.dispatchEvent(new MouseEvent('click', { clientX: box.left + 2, clientY: box.top + 2 }))"
    )
    value = browser.execute_script("return document.querySelector('[data-value]').textContent")
    assert value.endswith("at (0, 0, green)")
    figures = browser.execute_script(
        "return [...document.querySelectorAll('section')].filter((one) => one.querySelector('h2').textContent ==="
        " 'Colours').flatMap((one) => [...one.querySelectorAll('figcaption')].map((text) => text.textContent))"
    )
    assert figures == ["The mean picture of each class, in its colours."]  # the pattern is in the viewer, once
    assert not [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]


def test_the_report_of_several_views_draws_channels(folder, tmp_path):
    """The pattern of all views together is one of the samples, with their axes."""
    samples = load_samples(folder)
    views = TensorUnion([("raw", "passthrough"), ("scaled", TensorScaler())])
    model = make_pipeline(views, TensorMarginClassifier("full", 1)).fit(samples.data, samples.target)
    save_model(tmp_path / "views.skops", model)
    done = run("report", tmp_path / "views.skops", folder, "-o", tmp_path / "views.html")
    assert done.returncode == 0, done.stderr
    found = re.findall(r"data-maps>(.*?)</script>", (tmp_path / "views.html").read_text(), re.DOTALL)
    assert [json.loads(one)["colours"]["mode"] for one in found] == [2] * 3


@pytest.mark.parametrize(
    ("change", "is_colours"),
    [
        (lambda X: X.astype(np.uint8), True),
        (lambda X: X / 255, True),
        (lambda X: X.astype(np.float32), True),
        (lambda X: X.astype(np.int64), True),
        (lambda X: X - 128.0, False),
        (lambda X: X / 10, False),
        (lambda X: 300 * X, False),
        (lambda X: X[:, :7].astype(np.uint8), False),
        (lambda X: X[..., :2].astype(np.uint8), False),
        (lambda X: np.moveaxis(X, -1, 1).astype(np.uint8), False),
    ],
)
def test_arrays_without_names_are_recognised(change, is_colours, tmp_path):
    X = np.random.default_rng(0).integers(0, 256, (6, *SHAPE))
    np.savez(tmp_path / "a.npz", X=change(X), y=np.arange(6) % 2)
    found = load_samples(tmp_path / "a.npz")
    assert (found.axes == axes_of_picture()) is is_colours
    assert (guess_kind(found)[0] == "image") is is_colours
    assert any("treated as colour images" in note for note in found.notes) is is_colours
    named = load_samples(tmp_path / "a.npz", mode_names=["x", "y", "z"])
    assert (named.axes[0].name, named.notes) == ("x", ())


def test_what_is_recognised_is_said_and_can_be_overridden(folder, tmp_path):
    pictures = load_samples(folder)
    np.savez(tmp_path / "a.npz", X=pictures.data, y=pictures.target)
    quick = ("--folds", "2", "--outer-folds", "0", "--no-report")
    with fewer_models():
        done = run("fit", tmp_path / "a.npz", "--auto", *quick, "-o", tmp_path / "m.skops")
    assert done.returncode == 0, done.stderr
    assert "treated as images because one of their modes is that of colours (change with --kind)" in done.stderr
    assert done.stderr.count("treated as colour images") == 1
    modes = ("--modes", "x,y,z", "--decomposition", "cp", "--rank", "1")
    done = run("fit", tmp_path / "a.npz", *modes, *quick, "-o", tmp_path / "n.skops")
    assert done.returncode == 0, done.stderr
    assert "taken for" not in done.stderr
    done = run("predict", tmp_path / "n.skops", tmp_path / "a.npz", "-o", tmp_path / "p.csv")
    assert (done.returncode, "taken for" in done.stderr) == (0, False), done.stderr
