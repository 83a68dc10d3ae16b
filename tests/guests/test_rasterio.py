"""rasterio: GeoTIFF files.

A GeoTIFF is a scene for `tensormargin patches` and `tensormargin predict --scene`. The map of predictions (`.npy`) has
its rows and columns, and is written back with the profile of the scene.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("rasterio", reason="needs rasterio: pip install rasterio")

import rasterio
from PIL import Image
from rasterio.transform import from_origin

import tensormargin.io.scenes
from tensormargin.data import Axis
from tensormargin.io import BadFileError, load_scene

pytestmark = pytest.mark.filterwarnings("ignore")  # rasterio's own, of what will change

CUBE = np.random.default_rng(0).integers(0, 250, (6, 9, 5))
TRUTH = np.arange(54).reshape(6, 9) % 3


def write(path, cube, kind, tags=(), **profile):
    rows, columns, bands = cube.shape
    given = {"driver": "GTiff", "height": rows, "width": columns, "count": bands, "dtype": kind, **profile}
    with rasterio.open(path, "w", crs="EPSG:32616", transform=from_origin(5e5, 4e6, 20, 20), **given) as file:
        file.write(np.moveaxis(cube, -1, 0).astype(kind))
        for band, tag in enumerate(tags, start=1):
            file.update_tags(band, **tag)
    return path


@pytest.mark.parametrize("kind", ["uint8", "int16", "uint16", "int32", "uint32", "float32", "float64"])
def test_scenes_that_it_writes(kind, tmp_path):
    for number, profile in enumerate(
        ({}, {"compress": "deflate"}, {"interleave": "pixel"}, {"tiled": True, "blockxsize": 16, "blockysize": 16})
    ):
        scene = load_scene(write(tmp_path / f"{number}.tif", CUBE, kind, **profile))
        assert scene.data.dtype == kind
        np.testing.assert_array_equal(scene.data, CUBE)


def test_wavelengths_and_truth(tmp_path):
    tags = [{"wavelength": str(400 + 10 * band), "wavelength_units": "Nanometers"} for band in range(5)]
    write(tmp_path / "scene.tif", CUBE, "float32", tags)
    write(tmp_path / "truth.tif", TRUTH[..., None], "uint8")
    scene = load_scene(tmp_path / "scene.tif", tmp_path / "truth.tif")
    assert scene.axes[2] == Axis("wavelength", "nm", [400, 410, 420, 430, 440])
    np.testing.assert_array_equal(scene.truth, TRUTH)


def test_the_map_is_written_back_with_the_place_of_the_scene(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write("scene.tif", CUBE, "float32")
    # page: A scene, a map with its rows and columns (here the first band), and the map as a GeoTIFF in the same place:
    import rasterio

    from tensormargin.io import load_scene

    scene = load_scene("scene.tif")
    classes = scene.data[..., 0].astype("uint8")  # or numpy.load("map.npy") after tensormargin predict --scene map.png
    with rasterio.open("scene.tif") as file:
        profile = file.profile | {"count": 1, "dtype": "uint8"}
    with rasterio.open("map.tif", "w", **profile) as file:
        file.write(classes, 1)
    # page ends
    with rasterio.open(tmp_path / "map.tif") as file:
        assert file.crs.to_epsg() == 32616
        np.testing.assert_array_equal(file.read(1), CUBE[..., 0])


def test_without_it_plain_files_are_read_alike(tmp_path, monkeypatch):
    pages = [Image.fromarray(CUBE[..., band].astype(np.int32)) for band in range(5)]
    pages[0].save(tmp_path / "pages.tif", save_all=True, append_images=pages[1:])
    one = write(tmp_path / "one.tif", CUBE[..., :1], "uint16")
    five = write(tmp_path / "five.tif", CUBE, "uint16")
    expected = load_scene(one).data
    monkeypatch.setattr(tensormargin.io.scenes, "find_spec", lambda name: None)
    np.testing.assert_array_equal(load_scene(one).data, expected)
    np.testing.assert_array_equal(load_scene(tmp_path / "pages.tif").data, CUBE)
    with pytest.raises(BadFileError, match=r"tensormargin\[geo\]"):
        load_scene(five)


def test_damaged_files_are_refused(tmp_path):
    path = write(tmp_path / "scene.tif", CUBE, "float32", compress="deflate")
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    for number in range(30):
        damaged = bytearray(content)
        for place in rng.integers(0, len(content), 4):
            damaged[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged[: int(rng.integers(8, len(content)))] if number % 2 else damaged)
        said = str(path)
        try:
            load_scene(path)
        except BadFileError as error:
            said = str(error)
        assert str(path) in said
        assert len(said) < 1500
