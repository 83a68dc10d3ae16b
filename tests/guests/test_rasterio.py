"""rasterio: GeoTIFF files.

A GeoTIFF is a scene for `tensormargin patches` and `tensormargin predict`. Its map (`--scene map.tif`), and that of an
ENVI scene, is a GeoTIFF in the same place, with names and colours of the classes.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("rasterio", reason="needs rasterio: pip install rasterio")

import rasterio
import rasterio.shutil
from conftest import run
from PIL import Image
from rasterio.transform import Affine, from_origin

import tensormargin.io.scenes
from tensormargin import Patches, TensorMarginClassifier, save_model
from tensormargin.data import Axis
from tensormargin.io import BadFileError, is_ours, load_scene
from tensormargin.io.class_maps import class_map_files
from tensormargin.plots import save_scene

pytestmark = pytest.mark.filterwarnings("ignore")  # rasterio's own, of what will change

CUBE = np.random.default_rng(0).integers(0, 250, (6, 9, 5))
TRUTH = np.arange(54).reshape(6, 9) % 3


def write(path, cube, kind, tags=(), **profile):
    rows, columns, bands = cube.shape
    given = {"driver": "GTiff", "height": rows, "width": columns, "count": bands, "dtype": kind, **profile}
    with rasterio.open(path, "w", **{"crs": "EPSG:32616", "transform": from_origin(5e5, 4e6, 20, 20), **given}) as file:
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
    # page: A scene, a map of its pixels (here from the first band), and the map as a GeoTIFF in the same place:
    import rasterio

    from tensormargin.io import load_scene
    from tensormargin.plots import save_scene

    scene = load_scene("scene.tif")
    classes = 1 + (scene.data[..., 0] > 100)  # or what predictions.classified_scene(model, scene) returns
    save_scene("map.tif", classes, names={1: "corn", 2: "oats"}, georeference=scene.georeference)
    with rasterio.open("map.tif") as file:
        place, colours = (file.crs, file.transform), file.colormap(1)
    # page ends
    with rasterio.open(tmp_path / "scene.tif") as file:
        assert place == (file.crs, file.transform)
        assert file.crs.to_epsg() == 32616
    with rasterio.open(tmp_path / "map.tif") as file:
        np.testing.assert_array_equal(file.read(1), 1 + (CUBE[..., 0] > 100))
    assert colours[0] == (0, 0, 0, 255)
    assert colours[1] != colours[2]
    names = np.array(["", "corn", "oats"])
    np.testing.assert_array_equal(load_scene("scene.tif", "map.tif").truth, names[1 + (CUBE[..., 0] > 100)])
    rasterio.shutil.copy("map.tif", "copy.img", driver="ENVI")  # rasterio does not show the names, but GDAL copies them
    assert "Unclassified, corn, oats" in (tmp_path / "copy.hdr").read_text()
    assert all(map(is_ours, class_map_files(tmp_path / "map.tif")))
    save_scene("plain.tif", classes)  # nothing is said about the place
    with rasterio.open("plain.tif") as file:
        assert (file.crs, file.transform.is_identity) == (None, True)


PLACES = {
    "UTM": ("EPSG:32616", Affine(20, 0, 5e5, 0, -20, 4e6)),
    "another datum": ("EPSG:26916", Affine(20, 0, 5e5, 0, -20, 4e6)),
    "degrees": ("EPSG:4326", Affine(0.001, 0, -86.5, 0, -0.002, 40.25)),
    "equal area": ("EPSG:3035", Affine(10, 0, 4e6, 0, -10, 3e6)),
    "turned": ("EPSG:32733", Affine(20 * np.sqrt(0.75), 10, 5e5, 10, -20 * np.sqrt(0.75), 4e6)),
}


@pytest.mark.parametrize("place", PLACES)
def test_places_are_the_same_in_geotiff_and_envi(place, tmp_path):
    crs, transform = PLACES[place]
    write(tmp_path / "scene.tif", CUBE, "uint8", crs=crs, transform=transform)
    save_scene(tmp_path / "a.hdr", TRUTH + 1, georeference=load_scene(tmp_path / "scene.tif").georeference)
    save_scene(tmp_path / "b.tif", TRUTH + 1, georeference=load_scene(tmp_path / "a.hdr").georeference)
    for name in ("a.img", "b.tif"):
        with rasterio.open(tmp_path / name) as file:
            assert file.crs == rasterio.CRS.from_string(crs)
            assert file.transform.almost_equals(transform, 1e-6)


def test_places_of_headers_without_a_coordinate_system_string(tmp_path):
    envi_map = "map info = {UTM, 1, 1, 500000, 4000000, 20, 20, 16, North, WGS-84, units=Meters}"
    numbers = np.zeros((6, 9), np.uint8)
    numbers.tofile(tmp_path / "a.img")
    head = "ENVI\nsamples = 9\nlines = 6\nbands = 1\ndata type = 1\n"
    (tmp_path / "a.hdr").write_text(f"{head}{envi_map}\n")
    crs, transform = load_scene(tmp_path / "a.hdr").georeference.in_geotiff()
    assert (rasterio.CRS.from_wkt(crs).to_epsg(), transform) == (32616, (20, 0, 5e5, 0, -20, 4e6))
    (tmp_path / "a.hdr").write_text(f"{head}map info = {{Arbitrary, 1, 1, 0, 0, 2, 2, 0, North}}\n")
    assert load_scene(tmp_path / "a.hdr").georeference.in_geotiff() == ("", (2, 0, 0, 0, -2, 0))
    np.save(tmp_path / "cube.npy", CUBE)
    write(tmp_path / "truth.tif", TRUTH[..., None], "uint8")
    assert load_scene(tmp_path / "cube.npy", tmp_path / "truth.tif").georeference.transform == (20, 0, 5e5, 0, -20, 4e6)


def test_a_ground_truth_lies_where_its_georeference_says(tmp_path):
    scene, truth = write(tmp_path / "scene.tif", CUBE, "float32"), TRUTH[..., None]

    def truth_at(pixels, x, y, height=-20, **more):
        place = Affine(20, 0, x, 0, height, y)
        return load_scene(scene, write(tmp_path / "truth.tif", pixels, "uint8", transform=place, **more))

    upside_down = truth_at(truth[::-1], 5e5, 4e6 - 6 * 20, 20)
    np.testing.assert_array_equal(upside_down.truth, TRUTH)
    assert "rows reversed" in upside_down.notes[0]
    shifted = truth_at(truth, 5e5 + 60, 4e6)
    np.testing.assert_array_equal(shifted.truth, np.pad(TRUTH, ((0, 0), (3, 0)))[:, :9])
    assert "moved 3 columns to the right" in shifted.notes[0]
    with pytest.raises(BadFileError, match="nothing overlaps"):
        truth_at(truth, 5e5 + 600, 4e6)
    for off in (
        {"x": 5e5 + 9, "y": 4e6},
        {"x": 5e5, "y": 4e6, "height": -21},
        {"x": 5e5, "y": 4e6, "crs": "EPSG:32617"},
    ):
        with pytest.raises(BadFileError, match="must have the pixels of its scene"):
            truth_at(truth, **off)
    save_scene(tmp_path / "truth.hdr", TRUTH + 1, georeference=load_scene(scene).georeference)
    again = load_scene(scene, tmp_path / "truth.hdr")  # the same place in the words of ENVI
    assert (again.notes, set(again.truth.ravel())) == ((), {"1", "2", "3"})


def test_nodata_and_masks_are_pixels_without_data(tmp_path):
    lacking = np.zeros(TRUTH.shape, bool)
    lacking[0], lacking[3, 4] = True, True
    holed = np.where(lacking[..., None], 255, CUBE)
    for kind in ("uint8", "float32"):
        scene = load_scene(write(tmp_path / "scene.tif", holed, kind, nodata=255))
        np.testing.assert_array_equal(scene.lacking, lacking)
    inside = write(tmp_path / "inside.tif", CUBE, "uint8")
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True), rasterio.open(inside, "r+") as file:
        file.write_mask(~lacking)
    np.testing.assert_array_equal(load_scene(inside).lacking, lacking)
    truth = write(tmp_path / "truth.tif", np.where(TRUTH == 2, 99, TRUTH)[..., None], "uint8", nodata=99)
    found = load_scene(tmp_path / "scene.tif", truth)
    np.testing.assert_array_equal(found.truth, np.where(lacking | (TRUTH == 2), 0, TRUTH))
    assert found.notes == (f"scene.tif: {lacking.sum()} pixels without data left out",)


def test_commands_write_maps_in_the_place_of_the_scene(tmp_path):
    write(tmp_path / "scene.tif", CUBE, "float32")
    write(tmp_path / "sheared.tif", CUBE, "float32", transform=Affine(20, 3, 5e5, 1, -20, 4e6))
    model = TensorMarginClassifier("cp", 1, random_state=0)
    samples = Patches(3).cut(CUBE, TRUTH + 1)
    save_model(tmp_path / "m.skops", model.fit(samples.data, samples.target))
    predict = ("predict", tmp_path / "m.skops")
    for name, files in (("map.tif", ["map.tif", "map.tif.aux.xml", "map.png"]), ("map.hdr", ["map.hdr", "map.img"])):
        done = run(*predict, tmp_path / "scene.tif", "--scene", tmp_path / name)
        assert done.returncode == 0, done.stderr
        assert all(str(tmp_path / one) in done.stdout for one in files)
        with rasterio.open(tmp_path / name.replace("hdr", "img")) as file:
            assert (file.crs.to_epsg(), file.transform) == (32616, from_origin(5e5, 4e6, 20, 20))
            np.testing.assert_array_equal(file.read(1).ravel(), model.predict(Patches(3).cut(CUBE).data))
    sheared = run(*predict, tmp_path / "sheared.tif", "--scene", tmp_path / "map.hdr")
    assert "cannot state the place of a sheared scene" in sheared.stderr
    assert "map info" not in (tmp_path / "map.hdr").read_text()
    for more in ((), ("-o", tmp_path / "a.csv")):
        refused = run(*predict, tmp_path / "scene.tif", *more)
        assert (refused.returncode, "add --scene map.png" in refused.stderr) == (2, True)


def test_without_it_no_geotiff_is_written(tmp_path, monkeypatch):
    np.save(tmp_path / "cube.npy", CUBE)
    monkeypatch.setattr(tensormargin.data.limits, "find_spec", lambda name: None)
    refused = run("predict", tmp_path / "m.skops", tmp_path / "cube.npy", "--scene", tmp_path / "map.tif")
    assert (refused.returncode, "tensormargin[geo]" in refused.stderr) == (2, True)


def test_without_it_plain_files_are_read_alike(tmp_path, monkeypatch):
    pages = [Image.fromarray(CUBE[..., band].astype(np.int32)) for band in range(5)]
    pages[0].save(tmp_path / "pages.tif", save_all=True, append_images=pages[1:])
    one = write(tmp_path / "one.tif", CUBE[..., :1], "uint16")
    five = write(tmp_path / "five.tif", CUBE, "uint16")
    expected = load_scene(one).data
    np.testing.assert_array_equal(load_scene(tmp_path / "pages.tif").data, CUBE)
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
