"""Colour images are pictures with three channels, from their files to the maps of a report."""

from __future__ import annotations

import json

import numpy as np
import pytest
from conftest import fewer_models, run
from PIL import Image

from tensormargin import load_samples
from tensormargin.axes import Axis, axes_of_picture, colour_mode, colour_order
from tensormargin.io import SampleSet
from tensormargin.preparation import TensorUnion
from tensormargin.selection.kinds import alternatives, guess_kind, views_of

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
    """Each channel is blurred by itself, and both directions of a picture are convolved."""
    tried = alternatives("image", shape)
    assert len(tried) == 6
    assert isinstance(tried[-1], TensorUnion)
    assert views_of("image", shape) == ["channels scaled", "blurred", "convolutions", "convolutions down", "kernel"]
    rows = 0 if shape[-1] == 3 else 1
    X = np.zeros((4, *shape))
    red = (slice(None),) * 3 + (0,) if rows == 0 else (slice(None), 0)
    X[red] = np.random.default_rng(0).normal(size=(4, 10, 12))
    blurred = tried[2].fit(X).transform(X)
    assert np.ptp(blurred[red]) > 0
    blurred[red] = 0
    assert not blurred.any()
    modes = [one.named_steps["convolutions"].mode + 3 for one in tried[3:5]]
    assert modes == [rows + 1, rows]


def test_auto_finds_a_hue(folder, tmp_path):
    out = tmp_path / "hue.skops"
    with fewer_models(decompositions=("full",), ranks=(1,)):
        options = ("--auto", "--linear", "--folds", 2, "--outer-folds", 2, "--no-report", "--json")
        done = run("fit", folder, "-o", out, *options)
    assert done.returncode == 0, done.stderr
    assert "taken for image, since one of their modes is that of colours" in done.stderr
    assert json.loads(done.stdout)["evaluation"]["accuracy"] >= 0.9
