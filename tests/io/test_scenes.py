"""Scenes: cubes and ground truths from files, patches as samples, and predictions back as a map."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from conftest import run
from PIL import Image
from scipy.io import savemat

from tensormargin import Patches, TensorMarginClassifier, load_samples, save_model
from tensormargin.data import Axis
from tensormargin.io import BadFileError, Scene, is_ours, load_scene, named_classes, save_class_map, write_samples
from tensormargin.io.class_maps import class_map_files
from tensormargin.io.predictions import classified_scene
from tensormargin.io.tables import read_table
from tensormargin.plots import plot_scene, save_scene

CODES = {"u1": 1, "i2": 2, "i4": 3, "f4": 4, "f8": 5, "u2": 12, "u4": 13, "i8": 14, "u8": 15}
ORDERS = {"bsq": (2, 0, 1), "bil": (0, 2, 1), "bip": (0, 1, 2)}
CUBE = np.arange(9 * 12 * 4).reshape(9, 12, 4)
TRUTH = np.zeros((9, 12), int)
TRUTH[:4, :6], TRUTH[5:, :6], TRUTH[:, 8:] = 1, 2, 3
LINES = (
    "description = {a scene,\n made by a test}\nwavelength units = Nanometers\nwavelength = { 400, 410.5,\n 421, 432 }"
)


def write_envi(folder, cube, interleave="bsq", order=0, kind="f4", more=LINES, offset=0, name="scene", numbers="img"):
    stored = cube.transpose(ORDERS[interleave]).astype("<>"[order] + kind)
    (folder / f"{name}.{numbers}").write_bytes(bytes(offset) + stored.tobytes())
    rows, columns, bands = cube.shape
    head = (
        f"ENVI\nsamples = {columns}\nlines   = {rows}\nbands = {bands}\nheader offset = {offset}\nfile type = ENVI\n"
        f"data type = {CODES[kind]}\ninterleave = {interleave}\nbyte order = {order}\n{more}\n"
    )
    (folder / f"{name}.hdr").write_text(head)
    return folder / f"{name}.hdr"


@pytest.mark.parametrize("interleave", ORDERS)
@pytest.mark.parametrize("order", [0, 1])
def test_envi_scenes_of_every_kind(interleave, order, tmp_path):
    for kind in CODES:
        header = write_envi(tmp_path, CUBE % 100, interleave, order, kind, offset=order * 16)
        for path in (header, header.with_suffix(".img")):
            scene = load_scene(path)
            np.testing.assert_array_equal(scene.data, CUBE % 100)
            assert scene.data.dtype.itemsize == np.dtype(kind).itemsize
            assert scene.axes == (Axis("row"), Axis("column"), Axis("wavelength", "nm", [400, 410.5, 421, 432]))
            assert scene.truth is None


def test_headers_that_do_not_fit_are_refused(tmp_path):
    def refused(match, **changes):
        header = write_envi(tmp_path, CUBE)
        text = header.read_text()
        for name, value in changes.items():
            old = next(line for line in text.splitlines() if line.replace(" ", "").startswith(f"{name}="))
            text = text.replace(old, f"{name.replace('_', ' ')} = {value}")
        header.write_text(text)
        with pytest.raises(BadFileError, match=match) as caught:
            load_scene(header)
        assert str(tmp_path) in str(caught.value)

    refused('"bands" must be a whole number', bands="-1")
    refused('"bands" must be a whole number', bands="1e9")
    refused("cut short", bands="5")
    refused("cut short", lines=str(2**31))
    refused('"interleave" must be bsq, bil or bip', interleave="tiled")
    refused("one number per band, 3 of them", bands="3")
    header = write_envi(tmp_path, CUBE)
    header.write_text(header.read_text().replace("data type = 4", "data type = 6"))
    with pytest.raises(BadFileError, match="complex"):
        load_scene(header)
    header.write_text(header.read_text().replace("ENVI\n", "PNG\n", 1))
    with pytest.raises(BadFileError, match='begins with "ENVI"'):
        load_scene(header)
    header.with_suffix(".img").unlink()
    write_envi(tmp_path, CUBE, name="other")
    (tmp_path / "other.img").rename(tmp_path / "elsewhere.img")
    with pytest.raises(BadFileError, match="must lie beside its header"):
        load_scene(tmp_path / "other.hdr")
    with pytest.raises(BadFileError, match="has a header beside it"):
        load_scene(tmp_path / "elsewhere.img")


def test_a_header_may_not_lead_out_of_its_folder(tmp_path):
    (tmp_path / "a").mkdir()
    header = write_envi(tmp_path / "a", CUBE)
    (tmp_path / "a" / "scene.img").rename(tmp_path / "secret.img")
    (tmp_path / "a" / "scene.img").symlink_to(tmp_path / "secret.img")
    with pytest.raises(BadFileError, match="leads out of"):
        load_scene(header)
    assert load_scene(header, allow_external=True).data.shape == CUBE.shape


def test_cube_and_truth_from_all_kinds_of_files(tmp_path):
    savemat(tmp_path / "cube.mat", {"pines_corrected": CUBE, "wavelengths": np.arange(4.0)[None] + 400})
    savemat(tmp_path / "truth.mat", {"pines_gt": TRUTH.astype(np.uint8)})
    savemat(tmp_path / "both.mat", {"cube": CUBE, "gt": TRUTH, "mask": (TRUTH > 0).astype(int)})
    np.save(tmp_path / "cube.npy", CUBE)
    np.save(tmp_path / "truth.npy", TRUTH.astype(float))
    Image.fromarray(TRUTH.astype(np.uint8)).save(tmp_path / "truth.png")
    palette = Image.fromarray(TRUTH.astype(np.uint8), "P")
    palette.putpalette(list(range(255, 0, -1)) * 3 + [0] * 3)
    palette.save(tmp_path / "palette.png")
    pages = [Image.fromarray(CUBE[..., band].astype(np.int32)) for band in range(4)]
    pages[0].save(tmp_path / "cube.tif", save_all=True, append_images=pages[1:])
    write_envi(tmp_path, CUBE)
    write_envi(tmp_path, TRUTH[..., None], kind="u1", more="", name="truth", numbers="dat")
    for cube in ("cube.mat", "cube.npy", "both.mat", "cube.tif", "scene.hdr"):
        for truth in ("truth.mat", "truth.npy", "truth.png", "palette.png", "truth.hdr"):
            scene = load_scene(tmp_path / cube, tmp_path / truth)
            np.testing.assert_array_equal(scene.data, CUBE)
            np.testing.assert_array_equal(scene.truth, TRUTH)
    np.testing.assert_array_equal(load_scene(tmp_path / "both.mat").truth, TRUTH)
    np.testing.assert_array_equal(load_scene(tmp_path / "both.mat", truth_name="mask").truth, TRUTH > 0)
    np.testing.assert_array_equal(load_scene(tmp_path / "cube.mat").axes[2].values, 400 + np.arange(4))


def test_what_is_unclear_is_asked_for(tmp_path):
    np.savez(tmp_path / "two.npz", a=CUBE, b=CUBE[:, ::-1])
    with pytest.raises(BadFileError, match=r"2 of its arrays could be the cube.*a \(9, 12, 4\), b.*--cube"):
        load_scene(tmp_path / "two.npz")
    np.testing.assert_array_equal(load_scene(tmp_path / "two.npz", cube="b").data, CUBE[:, ::-1])
    with pytest.raises(BadFileError, match="no array 'c' for the cube"):
        load_scene(tmp_path / "two.npz", cube="c")
    np.save(tmp_path / "small.npy", TRUTH[1:])
    with pytest.raises(BadFileError, match=r"one number per pixel of the scene, 9 x 12; none.*\(8, 12\)"):
        load_scene(tmp_path / "two.npz", tmp_path / "small.npy", cube="a")
    (tmp_path / "a.txt").write_text("scene")
    with pytest.raises(BadFileError, match="unknown kind of scene"):
        load_scene(tmp_path / "a.txt")
    np.save(tmp_path / "half.npy", TRUTH + 0.5)
    with pytest.raises(BadFileError, match="classes of pixels"):
        load_scene(tmp_path / "two.npz", tmp_path / "half.npy", cube="a")
    Image.fromarray(np.zeros((9, 12, 4), np.uint8), "RGBA").save(tmp_path / "rgba.png")
    with pytest.raises(BadFileError, match=r"kind RGBA.*rasterio"):
        load_scene(tmp_path / "rgba.png")


def test_classes_have_names(tmp_path):
    np.savez(tmp_path / "a.npz", cube=CUBE, gt=TRUTH)
    scene = load_scene(tmp_path / "a.npz", names="corn, oats,woods")
    np.testing.assert_array_equal(scene.truth, np.array(["", "corn", "oats", "woods"])[TRUTH])
    assert scene.background == ""
    (tmp_path / "names.csv").write_text("number,name\n1,corn\n3,woods\n")
    assert named_classes(str(tmp_path / "names.csv")) == {1: "corn", 3: "woods"}
    assert set(load_scene(tmp_path / "a.npz", names=str(tmp_path / "names.csv")).truth.ravel()) == {
        "",
        "corn",
        "2",
        "woods",
    }
    (tmp_path / "names.csv").write_text("a,b\n1,corn\n")
    with pytest.raises(BadFileError, match="columns number and name"):
        named_classes(str(tmp_path / "names.csv"))
    header = write_envi(tmp_path, TRUTH[..., None], kind="u1", more="class names = {Unclassified, corn,\n oats, woods}")
    assert set(load_scene(tmp_path / "a.npz", header).truth.ravel()) == {"", "corn", "oats", "woods"}


# ---- places and pixels without data ----


def utm(x, y, width=20, height=20, zone=16):
    return f"map info = {{UTM, 1, 1, {x}, {y}, {width}, {height}, {zone}, North, WGS-84, units=Meters}}"


def test_a_ground_truth_is_moved_to_the_place_of_the_scene(tmp_path):
    header = write_envi(tmp_path, CUBE, more=utm(500000, 4000000))

    def truth_at(pixels, place):
        return load_scene(header, write_envi(tmp_path, pixels[..., None], kind="u1", more=place, name="truth"))

    same = truth_at(TRUTH, utm("500000.00", 4000000))
    np.testing.assert_array_equal(same.truth, TRUTH)
    assert same.notes == ()
    moved = truth_at(TRUTH, utm(500060, 4000040))
    expected = np.zeros_like(TRUTH)
    expected[:-2, 3:] = TRUTH[2:, :-3]
    np.testing.assert_array_equal(moved.truth, expected)
    n_outside = (TRUTH > 0).sum() - (expected > 0).sum()
    assert moved.notes == (
        "truth.hdr: moved 2 rows up and moved 3 columns to the right to lie where its georeference puts it; "
        f"{n_outside} pixels with a class outside of the scene left out",
    )
    flipped = truth_at(TRUTH[::-1], utm(500000, 4000000 - 9 * 20, height=-20))
    np.testing.assert_array_equal(flipped.truth, TRUTH)
    assert "rows reversed" in flipped.notes[0]
    larger = truth_at(np.pad(TRUTH, 2), utm(500000 - 40, 4000000 + 40))
    np.testing.assert_array_equal(larger.truth, TRUTH)
    cut = truth_at(TRUTH[:4], utm(500000, 4000000))
    np.testing.assert_array_equal(cut.truth, np.where(np.arange(9)[:, None] < 4, TRUTH, 0))
    for place, why in (
        (utm(500010, 4000000), "from 500010, 4000000"),
        (utm(500000, 4000000, 30, 30), "pixels of 30 x -30"),
        (utm(500000, 4000000, zone=17), "coordinate systems differ"),
        (utm(510000, 4000000), "500 columns right of it, where nothing overlaps"),
        (utm(500000, 4000000, 0, 0), "pixels of 0 x"),
    ):
        with pytest.raises(BadFileError, match=f"must have the pixels of its scene.*{why}.*Warp it"):
            truth_at(TRUTH, place)


def test_pixels_without_data_are_left_out(fitted, tmp_path):
    """Here in the stated value, NaN or infinite; the patches of their neighbours do without them."""
    cube, model = fitted
    save_model(tmp_path / "m.skops", model)
    lacking = np.zeros(TRUTH.shape, bool)
    lacking[:3], lacking[6, 6] = True, True
    whole, holed = cube.astype("f4"), {}
    for name, value in (("value", -9999), ("nan", np.nan), ("inf", np.inf)):
        holed[name] = whole.copy()
        holed[name][:3], holed[name][6, 6, 1] = value, value
    write_envi(tmp_path, holed["value"], name="value", more="data ignore value = -9999")
    write_envi(tmp_path, holed["nan"], "bip", name="nan", more="")
    np.save(tmp_path / "inf.npy", holed["inf"])
    np.save(tmp_path / "truth.npy", np.where(TRUTH, TRUTH, np.nan))
    maps = []
    for file in ("value.hdr", "nan.hdr", "inf.npy"):
        scene = load_scene(tmp_path / file, tmp_path / "truth.npy")
        np.testing.assert_array_equal(scene.lacking, lacking)
        np.testing.assert_array_equal(scene.truth, np.where(lacking, 0, TRUTH))
        cut = Patches(3).cut(scene.data, scene.truth, lacking=scene.lacking)
        assert np.isfinite(cut.data).all()
        assert cut.data.min() > -9999
        command = ("predict", tmp_path / "m.skops", tmp_path / file, "--scene", tmp_path / "map.hdr")
        done = run(*command, "-o", tmp_path / "all.csv", "--truth", tmp_path / "truth.npy", "--json")
        assert done.returncode == 0, done.stderr
        assert f"Note: {file}: {lacking.sum()} pixels without data left out" in done.stderr
        facts = json.loads(done.stdout)
        assert (facts["n_samples"], facts["n_known"]) == ((~lacking).sum(), (~lacking & (TRUTH > 0)).sum())
        maps.append(load_scene(tmp_path / "map.hdr").data[..., 0])
        np.testing.assert_array_equal(maps[-1] == 0, lacking)
        np.testing.assert_array_equal(maps[-1], maps[0])
        table = read_table(tmp_path / "all.csv").columns
        np.testing.assert_array_equal(np.array(table["sample"], int), np.flatnonzero(~lacking))
        np.testing.assert_array_equal(np.array(table["predicted"], int), maps[-1][~lacking])
    patches, near = Patches(3).cut(holed["nan"], TRUTH * ~lacking, lacking=lacking), 3 * [whole[3, 1]]
    np.testing.assert_array_equal(patches.data[1][0], near)  # the row above has no data
    np.testing.assert_array_equal(patches.data[1][1:], whole[3:5, :3])
    holed["nan"][..., 2] = np.nan
    np.save(tmp_path / "band.npy", holed["nan"])
    with pytest.raises(BadFileError, match=r"the bands 3 .* have data nowhere"):
        load_scene(tmp_path / "band.npy")
    reached = classified_scene(model, replace(scene, truth=None, data=np.nan_to_num(holed["value"])))
    np.testing.assert_array_equal(reached == 0, lacking)


def test_maps_have_the_numbers_and_wavelengths_of_the_scene_of_the_fit(tmp_path):
    """Also without its ground truth: numbers and names travel from the patches through the model."""
    truth = np.array([0, 9, 5, 11])[TRUTH]
    cube = np.random.default_rng(0).standard_normal((9, 12, 4)) + 3 * TRUTH[..., None] * [1, -1, 2, 0.5]
    write_envi(tmp_path, cube)
    write_envi(tmp_path, cube, name="other", more=LINES.replace("400, 410.5", "900, 910.5"))
    np.save(tmp_path / "truth.npy", truth)
    (tmp_path / "names.csv").write_text("number,name\n5,oats\n9,corn\n11,woods\n")
    names = ("--names", tmp_path / "names.csv", "--keep-overlapping")
    run("patches", tmp_path / "scene.hdr", tmp_path / "truth.npy", "-o", tmp_path / "p.npz", "--size", 3, *names)
    quick = ("--decomposition", "cp", "--rank", "1", "--outer-folds", 0, "--folds", 2, "--no-report", "--no-groups")
    done = run("fit", tmp_path / "p.npz", "-o", tmp_path / "m.skops", *quick)
    assert done.returncode == 0, done.stderr
    predict = ("predict", tmp_path / "m.skops")
    alone = run(*predict, tmp_path / "scene.hdr", "--scene", tmp_path / "map.hdr")
    assert alone.returncode == 0, alone.stderr
    assert "coordinates" not in alone.stderr
    found = load_scene(tmp_path / "map.hdr")
    assert set(np.unique(found.data)) == {5, 9, 11}
    assert "class names = {Unclassified, , , , , oats, , , , corn, , woods}" in (tmp_path / "map.hdr").read_text()
    # a ground truth without names has those of the fit
    judged = run(
        *predict, tmp_path / "scene.hdr", "--truth", tmp_path / "truth.npy", "--scene", tmp_path / "b.hdr", "--json"
    )
    assert json.loads(judged.stdout)["accuracy"] == pytest.approx((found.data[..., 0] == truth)[truth > 0].mean())
    other = run(*predict, tmp_path / "other.hdr", "--scene", tmp_path / "c.hdr")
    assert "they went from 400 nm to 432 nm, and go from 900 nm to 432 nm" in other.stderr


# ---- patches ----


@pytest.mark.parametrize("n_bytes", [1, 2000, 2**25])
@pytest.mark.parametrize("size", [1, 3, 5])
def test_pieces_are_the_patches(size, n_bytes):
    patches = Patches(size)
    whole = patches.cut(CUBE, TRUTH, per_class=7, random_state=3)
    stored = np.asfortranarray(CUBE.astype(">i4"))
    stored.flags.writeable = False
    found = list(patches.pieces(stored, whole.positions, n_bytes))
    np.testing.assert_array_equal(np.concatenate([piece for _, piece in found]), whole.data)
    np.testing.assert_array_equal(np.concatenate([np.arange(400)[where] for where, _ in found]), np.arange(21))
    assert all(piece.dtype == np.int32 and piece.flags.c_contiguous for _, piece in found)
    if size == 5 and n_bytes == 1:
        assert len(found) == len(np.unique(whole.positions[:, 0]))


def test_pixels_are_drawn_from_each_class():
    places = Patches(3).places(CUBE.shape, TRUTH, per_class=25, random_state=0)
    labels, numbers = np.unique(places.target, return_counts=True)
    assert dict(zip(labels.tolist(), numbers.tolist(), strict=True)) == {1: 24, 2: 24, 3: 25}
    assert len(np.unique(places.positions, axis=0)) == len(places.positions)
    again = Patches(3).places(CUBE.shape, TRUTH, per_class=25, random_state=0)
    np.testing.assert_array_equal(again.positions, places.positions)
    assert not np.array_equal(
        Patches(3).places(CUBE.shape, TRUTH, per_class=9, random_state=0).positions,
        Patches(3).places(CUBE.shape, TRUTH, per_class=9, random_state=1).positions,
    )


@pytest.mark.parametrize("ending", [".npz", ".h5", ".zarr"])
def test_samples_written_in_pieces_are_loaded_with_their_axes(ending, tmp_path):
    write_envi(tmp_path, CUBE)
    np.save(tmp_path / "truth.npy", TRUTH)
    out = tmp_path / f"patches{ending}"
    result = run(
        "patches", tmp_path / "scene.img", tmp_path / "truth.npy", "-o", out, "--size", 3, "--names", "x,y,z", "--json"
    )
    assert result.returncode == 0, result.stderr
    facts = json.loads(result.stdout)
    assert facts["n_samples"] + facts["n_overlapping"] == int((TRUTH > 0).sum())
    expected = Patches(3, 8, True).cut(CUBE, np.array(["", "x", "y", "z"])[TRUTH], background="", random_state=0)
    for lazy in (False, True):
        samples = load_samples(out, lazy=lazy)
        np.testing.assert_array_equal(np.asarray(samples.data), expected.data)
        np.testing.assert_array_equal(samples.target, expected.target)
        np.testing.assert_array_equal(samples.groups, expected.groups)
        np.testing.assert_array_equal(samples.positions, expected.positions)
        np.testing.assert_array_equal(samples.taken(np.array([3, 1])).positions, expected.positions[[3, 1]])
        assert samples.axes == (Axis("row"), Axis("column"), Axis("wavelength", "nm", [400, 410.5, 421, 432]))
    assert [path.name for path in tmp_path.iterdir() if path.name.endswith(".part")] == []


def test_modes_are_described_in_any_container(tmp_path):
    X, y = np.zeros((4, 2, 3)), np.arange(4) % 2
    described = {"mode_names": np.array(["channel", "time[ms]"]), "mode_values_time": np.array([0.0, 4, 8])}
    np.savez(tmp_path / "a.npz", X=X, y=y, **described, mode_values_channel=["Fz", "Cz"])
    assert load_samples(tmp_path / "a.npz").axes == (Axis("channel", "", ["Fz", "Cz"]), Axis("time", "ms", [0, 4, 8]))
    savemat(tmp_path / "a.mat", {"X": X, "y": y, **described})
    assert load_samples(tmp_path / "a.mat").axes == (Axis("channel"), Axis("time", "ms", [0, 4, 8]))
    np.savez(tmp_path / "a.npz", X=np.moveaxis(X, 0, -1), y=y, **described)
    assert load_samples(tmp_path / "a.npz", axis=-1).axes[1].unit == "ms"
    np.savez(tmp_path / "a.npz", X=X, y=y, mode_names=["channel"])
    with pytest.raises(BadFileError, match="must describe the modes of the samples"):
        load_samples(tmp_path / "a.npz")


def test_nothing_is_left_of_a_file_that_was_not_finished(tmp_path):
    def broken():
        yield np.zeros((2, 3))
        raise RuntimeError("full disk")

    for ending in (".npz", ".h5", ".zarr"):
        with pytest.raises(RuntimeError):
            write_samples(tmp_path / f"a{ending}", broken(), (4, 3), float, {"y": np.zeros(4)})
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(BadFileError, match=r"\.npz, \.h5"):
        write_samples(tmp_path / "a.csv", broken(), (4, 3), float, {})


# ---- and back ----


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    cube = rng.standard_normal((9, 12, 4)) + 3 * TRUTH[..., None] * [1, -1, 2, 0.5]
    scene = Patches(3).cut(cube, TRUTH)
    return cube, TensorMarginClassifier("cp", 1, random_state=0).fit(scene.data, scene.target)


def test_a_classified_scene_is_what_its_patches_are(fitted, monkeypatch):
    cube, model = fitted
    scene = Scene(cube, TRUTH, 0, (Axis("row"), Axis("column"), Axis("wavelength")), "scene", "scene")
    expected = model.predict(Patches(3).cut(cube).data).reshape(9, 12)
    np.testing.assert_array_equal(classified_scene(model, scene), expected)
    assert classified_scene(model, scene).dtype == expected.dtype
    told = []
    monkeypatch.setattr(Patches.pieces, "__defaults__", (1,))
    np.testing.assert_array_equal(classified_scene(model, scene, lambda *said: told.append(said)), expected)
    assert [done for done, _, _ in told] == list(range(12, 109, 12))
    with pytest.raises(BadFileError, match="size x size x 3"):
        classified_scene(model, Scene(cube[..., :3], None, 0, scene.axes, "scene", "scene"))
    cube = cube.copy()
    cube[4, 4, 1] = np.nan
    with pytest.raises(BadFileError, match="holds NaN"):  # `load_scene` says which pixels lack data
        classified_scene(model, Scene(cube, None, 0, scene.axes, "scene", "scene"))


def test_commands_from_a_scene_to_its_map(fitted, tmp_path, monkeypatch):
    cube, model = fitted
    np.save(tmp_path / "cube.npy", cube)
    np.save(tmp_path / "truth.npy", TRUTH)
    save_model(tmp_path / "model.skops", model)
    predict = ("predict", tmp_path / "model.skops", tmp_path / "cube.npy")
    result = run(*predict, "--scene", tmp_path / "map.png", "--truth", tmp_path / "truth.npy")
    assert result.returncode == 0, result.stderr
    assert "108 pixels" in result.stdout
    assert "Accuracy on the pixels with a class, which may include those of the fit" in result.stdout
    painted = np.load(tmp_path / "map.npy")
    np.testing.assert_array_equal(painted, model.predict(Patches(3).cut(cube).data).reshape(9, 12))
    with Image.open(tmp_path / "map.png") as picture:
        assert picture.width > 900
    more = np.where(np.arange(12) > 9, 7, TRUTH)
    np.save(tmp_path / "more.npy", more)
    known = np.isin(more, model.classes_)
    expected = (painted == more)[known].mean()
    scored = run(*predict, "--scene", tmp_path / "map.png", "--truth", tmp_path / "more.npy")
    assert f"Accuracy on {known.sum()} pixels of known classes: {100 * expected:.2f} %; 18 pixels" in scored.stdout
    assert "does not know (7) left out" in scored.stdout
    scored = json.loads(
        run(*predict, "--scene", tmp_path / "map.png", "--truth", tmp_path / "more.npy", "--json").stdout
    )
    assert (scored["accuracy"], scored["n_unknown"]) == (pytest.approx(expected), 18)
    alone = run(*predict, "--scene", tmp_path / "other.png", "-o", tmp_path / "classes.npy", "--json")
    assert json.loads(alone.stdout)["accuracy"] is None
    np.testing.assert_array_equal(np.load(tmp_path / "classes.npy"), painted)
    monkeypatch.setattr("tensormargin.io.predictions.predictions_of", None)  # refusals come before any work
    for options, said in (
        (("--scene", tmp_path / "a.png", "--names", tmp_path / "none.csv"), "none.csv: no such file; names of classes"),
        (("--scene", tmp_path / "map.jpg"), "--scene must end in .png, .tif, .tiff, .hdr"),
        (("--scene", tmp_path / "map.png", "-o", tmp_path / "map.txt"), "-o must end in"),
        (("--truth", tmp_path / "truth.npy", "-o", tmp_path / "a.csv"), "add --scene"),
        ((), "cube.npy is a scene, and not samples: add --scene map.png"),
        (("-o", tmp_path / "a.csv"), "cube.npy is a scene, and not samples: add --scene map.png"),
        (("--scene", tmp_path / "a.png", "--truth", tmp_path / "truth.npy", "--names", "a,b,c"), "the same --names"),
    ):
        refused = run(*predict, *options)
        assert (refused.returncode, said in refused.stderr) == (2, True), refused.stderr


# ---- places that were not seen ----


BIG = np.zeros((40, 36), int)
BIG[:20, :16], BIG[20:, :16], BIG[:, 20:] = 1, 2, 3


def overlaps(first, second, size):
    return np.abs(first[:, None] - second[None]).max(axis=2) < size


@pytest.mark.parametrize("per_class", [None, 30])
def test_patches_of_different_blocks_share_no_pixel(per_class):
    found = Patches(5, 8, apart=True).places((*BIG.shape, 4), BIG, per_class=per_class, random_state=0)
    other = found.groups[:, None] != found.groups[None]
    assert not (overlaps(found.positions, found.positions, 5) & other).any()
    assert len(np.unique(found.groups)) > 9
    before = Patches(5, 8).places((*BIG.shape, 4), BIG, per_class=per_class, random_state=0)
    assert (overlaps(before.positions, before.positions, 5) & (before.groups[:, None] != before.groups)).any()
    left_out = np.argwhere(BIG > 0) if per_class is None else np.empty((0, 2), int)
    kept = set(map(tuple, found.positions.tolist()))
    for row, column in (one for one in left_out.tolist() if tuple(one) not in kept):
        near = overlaps(found.positions, np.array([[row, column]]), 5)[:, 0]
        assert (found.groups[near] != Patches(5, 8).groups_of(np.array([[row, column]]), BIG.shape)[0]).any()


def test_the_command_leaves_out_what_overlaps_and_whole_blocks(tmp_path):
    np.save(tmp_path / "cube.npy", np.random.default_rng(0).random((*BIG.shape, 4)))
    np.save(tmp_path / "truth.npy", BIG)
    both = ("patches", tmp_path / "cube.npy", tmp_path / "truth.npy", "--size", 3, "--names", "corn,oats,woods")
    assert (
        "pixels left out, whose patches overlap those of another place" in run(*both, "-o", tmp_path / "a.npz").stdout
    )
    whole = json.loads(run(*both, "-o", tmp_path / "b.npz", "--keep-overlapping", "--json").stdout)
    assert (whole["n_samples"], whole["n_overlapping"]) == (int((BIG > 0).sum()), 0)
    said = run(*both, "-o", tmp_path / "c.npz", "--keep-overlapping", "--hold-out", 0.3, "--exclude-classes", "oats")
    assert "places held out" in said.stdout
    some, every = load_samples(tmp_path / "c.npz"), load_samples(tmp_path / "b.npz")
    assert set(some.labels) == {"corn", "woods"}
    for label in ("corn", "woods"):
        n_some, n_every = (len(set(one.groups[one.labels == label])) for one in (some, every))
        assert 0.7 * n_every <= n_some < n_every
    held_out = set(every.groups[every.labels != "oats"]) - set(some.groups)
    assert len(held_out) == int(said.stdout.split("\n")[2].split()[0])


@pytest.fixture(scope="module")
def fitted_in_part(tmp_path_factory):
    """A model of the left side of a scene, with the record of its samples."""
    folder = tmp_path_factory.mktemp("part")
    rng = np.random.default_rng(0)
    truth = np.arange(20)[:, None] // 10 + np.ones((20, 24), int)
    np.save(folder / "cube.npy", (rng.standard_normal((20, 24, 4)) + truth[..., None]).astype(np.float32))
    np.save(folder / "truth.npy", truth)
    np.save(folder / "left.npy", np.where(np.arange(24) < 8, truth, 0))
    names = ("--names", "corn,oats")
    run("patches", folder / "cube.npy", folder / "left.npy", "-o", folder / "p.npz", "--size", 3, *names)
    quick = ("--decomposition", "cp", "--rank", "1", "--outer-folds", 0, "--folds", 2, "--no-report", "--no-groups")
    done = run("fit", folder / "p.npz", "-o", folder / "m.skops", *quick)
    assert done.returncode == 0, done.stderr
    return folder


def test_accuracies_of_pixels_apart_from_the_fit(fitted_in_part, tmp_path):
    folder = fitted_in_part
    truth, used = np.load(folder / "truth.npy"), load_samples(folder / "p.npz").positions
    command = ("predict", folder / "m.skops", folder / "cube.npy", "--truth", folder / "truth.npy")
    command += ("--names", "corn,oats", "--scene", tmp_path / "map.png")
    facts = json.loads(run(*command, "--json").stdout)
    apart = ~overlaps(np.argwhere(truth > 0), used, 3).any(axis=1).reshape(truth.shape)
    right = np.load(tmp_path / "map.npy") == np.array(["", "corn", "oats"])[truth]
    assert 0 < apart.sum() < truth.size - len(used)
    assert (facts["n_known"], facts["accuracy"]) == (truth.size, pytest.approx(right.mean()))
    assert (facts["n_new"], facts["accuracy_on_new"]) == (apart.sum(), pytest.approx(right[apart].mean()))
    for number, label in enumerate(("corn", "oats"), start=1):
        own = facts["by_class"][label]
        new = apart & (truth == number)
        assert (own["n"], own["n_new"]) == ((truth == number).sum(), new.sum())
        assert own["accuracy"] == pytest.approx(right[truth == number].mean())
        assert own["accuracy_on_new"] == pytest.approx(right[new].mean())
    said = run(*command).stdout
    assert f"Accuracy on the {apart.sum()} of them whose patches share no pixel with one of the fit" in said
    assert [line.split()[:2] for line in said.splitlines()[-3:]] == [
        ["class", "pixels"],
        ["corn", "240"],
        ["oats", "240"],
    ]
    left = run(*(folder / "left.npy" if one == folder / "truth.npy" else one for one in command)).stdout
    assert "No accuracy on new pixels" in left
    assert "--hold-out" in left


def test_tables_of_patches_and_scenes_have_rows_and_columns(fitted_in_part, tmp_path):
    folder = fitted_in_part
    run("predict", folder / "m.skops", folder / "p.npz", "-o", tmp_path / "p.csv")
    table = read_table(tmp_path / "p.csv").columns
    found = np.column_stack([table["row"], table["column"]]).astype(int)
    np.testing.assert_array_equal(found, load_samples(folder / "p.npz").positions)
    command = (
        "predict",
        folder / "m.skops",
        folder / "cube.npy",
        "--truth",
        folder / "left.npy",
        "--names",
        "corn,oats",
    )
    done = run(*command, "--scene", tmp_path / "map.hdr", "-o", tmp_path / "all.csv")
    assert done.returncode == 0, done.stderr
    table = read_table(tmp_path / "all.csv").columns
    np.testing.assert_array_equal(np.array(table["row"], int), np.repeat(np.arange(20), 24))
    np.testing.assert_array_equal(np.array(table["column"], int), np.tile(np.arange(24), 20))
    assert list(table["label"][:10]) == ["corn"] * 8 + [""] * 2
    drawn = load_scene(folder / "cube.npy", tmp_path / "map.hdr").truth.ravel()
    assert list(table["predicted"]) == drawn.tolist()
    both = run("predict", folder / "m.skops", folder / "p.npz", folder / "p.npz", "-o", tmp_path / "two.csv")
    assert both.returncode == 0, both.stderr
    assert len(read_table(tmp_path / "two.csv").columns["row"]) == 2 * len(found)


# ---- maps ----

UTM = "{UTM, 1.000, 1.000, 500000.0, 4000000.0, 20.0, 20.0, 16, North, WGS-84, units=Meters}"
COLOURS = [[1, 0, 0], [0, 0.5, 0], [0, 0, 1]]


def test_envi_maps_have_place_names_and_colours(tmp_path):
    header = write_envi(tmp_path, CUBE, more=f'map info = {UTM}\ncoordinate system string = {{PROJCS["a",\n b]}}')
    scene = load_scene(header)
    assert scene.georeference.in_envi() == {"map info": UTM, "coordinate system string": '{PROJCS["a", b]}'}
    predicted = np.array(["corn", "oats, {late}", "woods"])[np.maximum(TRUTH, 1) - 1]
    classes = ["corn", "oats, {late}", "woods"]
    save_class_map(tmp_path / "map.hdr", predicted, classes, COLOURS, georeference=scene.georeference)
    text = (tmp_path / "map.hdr").read_text()
    assert f"map info = {UTM}\n" in text
    assert "file type = ENVI Classification\n" in text
    assert "classes = 4\nclass lookup = {0, 0, 0, 255, 0, 0, 0, 128, 0, 0, 0, 255}\n" in text
    found = load_scene(header, tmp_path / "map.hdr")
    names = {1: "corn", 2: "oats; (late)", 3: "woods", 0: "Unclassified"}
    np.testing.assert_array_equal(found.truth, np.vectorize(names.get)(np.maximum(TRUTH, 1)))
    assert load_scene(tmp_path / "map.hdr").georeference == replace(
        scene.georeference, source=str(tmp_path / "map.hdr")
    )
    assert all(map(is_ours, class_map_files(tmp_path / "map.hdr")))


def test_maps_keep_the_numbers_of_classes(tmp_path):
    def written(predicted, classes, **more):
        save_class_map(tmp_path / "map.hdr", predicted, classes, COLOURS[: len(classes)], **more)
        return load_scene(tmp_path / "map.hdr").data[..., 0]

    np.testing.assert_array_equal(written([[7, 2]], [2, 7], names={7: "oats"}), [[7, 2]])
    assert "class names = {Unclassified, , 2, , , , , oats}" in (tmp_path / "map.hdr").read_text()
    np.testing.assert_array_equal(written([["b", "a"]], ["a", "b"], names={3: "a", 9: "b"}), [[9, 3]])
    np.testing.assert_array_equal(written([["b", "4"]], ["4", "b"], names={3: "a", 9: "b"}), [[9, 4]])
    np.testing.assert_array_equal(written([["b", "c"]], ["c", "b"], names={1: "a", 2: "b"}), [[2, 3]])
    assert "class names = {Unclassified, , b, c}" in (tmp_path / "map.hdr").read_text()
    np.testing.assert_array_equal(written([[0, 5]], [0, 5]), [[6, 5]])  # 0 is no class
    assert written([[300, 1]], [1, 300]).dtype == np.uint16


def test_a_map_and_a_picture_have_the_same_colours(tmp_path):
    save_scene(tmp_path / "map.hdr", TRUTH, classes=[1, 2, 3, 4], background=0)
    text = (tmp_path / "map.hdr").read_text()
    numbers = re.search(r"class lookup = \{(.*)\}", text)[1].split(", ")
    drawn = plot_scene(TRUTH, classes=[1, 2, 3, 4])[0].images[0].get_array()
    for number, place in ((1, (0, 0)), (2, (8, 0)), (3, (0, 11))):
        assert drawn[place].tolist() == list(map(int, numbers[3 * number : 3 * number + 3]))
    assert len(numbers) == 15
    save_scene(tmp_path / "map.hdr", np.array(["a", "b"])[TRUTH % 2], classes=["a", "b", "longer"])
    assert "class names = {Unclassified, a, b, longer}" in (tmp_path / "map.hdr").read_text()
    save_scene(tmp_path / "map.hdr", np.minimum(TRUTH, 2), TRUTH, classes=[1, 2])  # one class is of the truth alone
    assert "classes = 3" in (tmp_path / "map.hdr").read_text()


def test_patches_says_what_is_wrong(tmp_path):
    np.save(tmp_path / "cube.npy", CUBE)
    np.save(tmp_path / "truth.npy", TRUTH)
    both = ("patches", tmp_path / "cube.npy", tmp_path / "truth.npy")
    out = tmp_path / "a.npz"
    for arguments, said in (
        ((*both, "-o", out, "--size", 4), "--size must be an odd number"),
        ((*both, "-o", out, "--size", 19), "smaller patches"),
        ((*both, "-o", tmp_path / "a.csv"), "samples are written as"),
        ((*both, "-o", tmp_path / "cube.npy"), "samples are written as"),
        ((*both, "-o", out, "--classes", "1,9"), "classes must be labels of the scene"),
        ((*both, "-o", out, "--classes", "corn"), "--only-classes must be numbers"),
        (
            (*both, "-o", out, "--exclude-classes", "1,9"),
            "--exclude-classes must be classes of the scene, 1, 2, 3; got",
        ),
        (("patches", tmp_path / "cube.npy", "-o", out), "has no ground truth"),
        (("patches", tmp_path / "nothing.hdr", "-o", out), "no such file"),
    ):
        refused = run(*arguments)
        assert (refused.returncode, said in refused.stderr) == (2, True), refused.stderr
    assert not out.exists()
    noted = run(*both, "-o", out, "--blocks", 20)
    assert "must lie in several places" in noted.stdout


def test_scenes_are_drawn_in_the_colours_of_their_classes():
    axes = plot_scene(TRUTH, TRUTH, names={1: "corn"})
    true, predicted = (ax.images[0].get_array() for ax in axes)
    np.testing.assert_array_equal(true, predicted)
    assert len(np.unique(true.reshape(-1, 3), axis=0)) == 4
    said = [text.get_text() for text in axes[-1].get_legend().get_texts()]
    assert said == ["corn", "2", "3", "no class"]
    many = plot_scene(np.arange(900).reshape(30, 30))
    assert "more" in many[0].get_legend().get_texts()[-1].get_text()
    with pytest.raises(ValueError, match="one class per pixel"):
        plot_scene(TRUTH, TRUTH[1:])


def test_scenes_are_no_samples_but_the_message_helps(tmp_path):
    for path in (write_envi(tmp_path, CUBE), tmp_path / "scene.img"):
        with pytest.raises(BadFileError, match="tensormargin patches"):
            load_samples(path)
