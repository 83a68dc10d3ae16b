"""Scenes: cubes and ground truths from files, patches as samples, and predictions back as a map."""

from __future__ import annotations

import json

import numpy as np
import pytest
from conftest import run
from PIL import Image
from scipy.io import savemat

from tensormargin import Patches, TensorMarginClassifier, load_samples, save_model
from tensormargin.data import Axis
from tensormargin.io import BadFileError, Scene, load_scene, named_classes, write_samples
from tensormargin.io.predictions import classified_scene
from tensormargin.plots import plot_scene

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
    np.save(tmp_path / "nan.npy", np.where(TRUTH, TRUTH, np.nan))
    with pytest.raises(BadFileError, match="classes of pixels"):
        load_scene(tmp_path / "two.npz", tmp_path / "nan.npy", cube="a")
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
    assert json.loads(result.stdout)["n_samples"] == int((TRUTH > 0).sum())
    expected = Patches(3, 8).cut(CUBE, np.array(["", "x", "y", "z"])[TRUTH], background="")
    for lazy in (False, True):
        samples = load_samples(out, lazy=lazy)
        np.testing.assert_array_equal(np.asarray(samples.data), expected.data)
        np.testing.assert_array_equal(samples.target, expected.target)
        np.testing.assert_array_equal(samples.groups, expected.groups)
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
    with pytest.raises(BadFileError, match="holds NaN"):
        classified_scene(model, Scene(cube, None, 0, scene.axes, "scene", "scene"))


def test_commands_from_a_scene_to_its_map(fitted, tmp_path):
    cube, model = fitted
    np.save(tmp_path / "cube.npy", cube)
    np.save(tmp_path / "truth.npy", TRUTH)
    save_model(tmp_path / "model.skops", model)
    predict = ("predict", tmp_path / "model.skops", tmp_path / "cube.npy")
    result = run(*predict, "--scene", tmp_path / "map.png", "--truth", tmp_path / "truth.npy")
    assert result.returncode == 0, result.stderr
    assert "108 pixels" in result.stdout
    assert "Accuracy on the pixels with a class" in result.stdout
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
    for options, said in (
        (("--scene", tmp_path / "map.jpg"), "must be a .png file"),
        (("--truth", tmp_path / "truth.npy", "-o", tmp_path / "a.csv"), "add --scene"),
        ((), "-o must name the CSV file"),
        (("--scene", tmp_path / "a.png", "--truth", tmp_path / "truth.npy", "--names", "a,b,c"), "the same --names"),
    ):
        refused = run(*predict, *options)
        assert (refused.returncode, said in refused.stderr) == (2, True), refused.stderr


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
