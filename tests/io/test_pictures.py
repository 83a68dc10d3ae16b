"""Tests of folders of pictures as cameras, scanners and disks leave them: turned, mixed, damaged."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from conftest import fewer_models, run
from PIL import Image

from tensormargin.io import BadFileError, load_samples

SHAPE = (6, 8)
UPRIGHT = np.random.default_rng(0).integers(0, 200, SHAPE).astype(np.uint8)
HELD = {3: (180, False), 6: (90, False), 8: (270, False), 2: (0, True)}  # EXIF: degrees that undo it, and mirrored


def damage(path):
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


@pytest.fixture
def pictures(tmp_path):
    """Return a class folder of 24 pictures, of which three are damaged, one of them the first."""
    rng = np.random.default_rng(1)
    for label, shift in (("bad", 0), ("good", 60)):
        (tmp_path / "parts" / label).mkdir(parents=True)
        for k in range(12):
            pixels = rng.integers(0, 90, SHAPE).astype(np.uint8)
            pixels[:, :4] += shift
            Image.fromarray(pixels).save(tmp_path / "parts" / label / f"{k:02d}.png")
    for name in DAMAGED:
        damage(tmp_path / "parts" / name)
    return tmp_path / "parts"


DAMAGED = ["bad/00.png", "bad/07.png", "good/03.png"]


@pytest.mark.parametrize("ending", ["png", "jpg", "tif"])
@pytest.mark.parametrize("orientation", HELD)
def test_photographs_are_turned_upright(orientation, ending, tmp_path):
    degrees, mirrored = HELD[orientation]
    stored = np.rot90(UPRIGHT, degrees // 90)
    image = Image.fromarray(np.ascontiguousarray(stored[:, ::-1] if mirrored else stored))
    exif = Image.Exif()
    exif[0x0112] = orientation
    (tmp_path / "turned").mkdir()
    image.save(tmp_path / "turned" / f"a.{ending}", exif=exif, **({"quality": 100} if ending == "jpg" else {}))
    found = load_samples(tmp_path / "turned", need_labels=False)
    assert found.sample_shape == SHAPE
    assert np.abs(found.data[0].astype(int) - UPRIGHT).max() <= (4 if ending == "jpg" else 0)
    assert found.notes == (f"1 image turned upright, as the camera noted that it was held (EXIF), e.g. a.{ending}",)


class TestForms:
    def folder(self, path, *images):
        path.mkdir()
        for number, image in enumerate(images):
            image.save(path / f"{number}.png")
        return path

    @pytest.mark.parametrize("first", ["grey", "colour"])
    def test_grey_among_colours(self, first, tmp_path):
        grey, colour = Image.fromarray(UPRIGHT), Image.fromarray(np.stack([UPRIGHT, 0 * UPRIGHT, UPRIGHT], axis=-1))
        palette = colour.quantize(8)
        images = [grey, grey.convert("LA"), colour, palette, colour.convert("RGBA")]
        folder = self.folder(tmp_path / "all", *(images if first == "grey" else images[::-1]))
        found = load_samples(folder, need_labels=False)
        assert found.sample_shape == (*SHAPE, 3)
        assert [(each[..., 0] == each[..., 1]).all() for each in found.data] == [
            place in ((0, 1) if first == "grey" else (3, 4)) for place in range(5)
        ]
        assert sum("2 images in grey, made into colour images like the others" in note for note in found.notes) == 1
        if first == "colour":
            lazy = load_samples(folder, need_labels=False, lazy="blocks")
            assert np.array_equal(lazy.data[:], found.data)

    def test_other_depths_are_refused_by_name(self, tmp_path):
        deep = Image.fromarray(UPRIGHT.astype(np.uint16) * 257)
        folder = self.folder(tmp_path / "deep", Image.fromarray(UPRIGHT), deep)
        with pytest.raises(BadFileError, match=r"1.png: has 16 bits per value, but .*0.png has 8; .*all with 16"):
            load_samples(folder, need_labels=False)

    def test_new_pictures_take_the_form_of_the_fit(self, tmp_path):
        colour = Image.fromarray(np.stack([UPRIGHT, UPRIGHT // 2, UPRIGHT], axis=-1))
        grey = Image.fromarray(UPRIGHT)
        both = self.folder(tmp_path / "grey", grey), self.folder(tmp_path / "colour", colour)
        in_grey, in_colour = (load_samples(folder, need_labels=False) for folder in both)
        found = load_samples(both[1], need_labels=False, like=in_grey)
        assert np.abs(found.data[0].astype(int) - np.asarray(colour.convert("L"))).max() <= 1
        assert "1 image in colours, made grey as those of the model are" in found.notes[0]
        found = load_samples(both[0], need_labels=False, like=in_colour)
        assert np.array_equal(found.data[0], np.repeat(UPRIGHT[..., None], 3, axis=-1))

    def test_other_depths_at_predict(self, pictures, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        quick = ("--decomposition", "full", "--folds", "2", "--outer-folds", "0", "--no-report", "--skip-damaged")
        with fewer_models():
            assert run("fit", pictures, *quick, "-o", "m.skops").returncode == 0
        deep = [np.asarray(Image.open(pictures / "good" / f"{k:02d}.png")).astype(np.uint16) * 257 for k in range(4, 9)]
        folder = self.folder(tmp_path / "deep", *map(Image.fromarray, deep))
        done = run("predict", "m.skops", folder, "-o", "p.csv")
        assert done.returncode == 2
        assert "as many bits per value as those of the fit" in done.stderr
        assert "Divide" not in done.stderr


class TestDamaged:
    @pytest.mark.parametrize("lazy", [False, "blocks"])
    def test_all_are_named(self, lazy, pictures):
        with pytest.raises(BadFileError) as caught:
            load_samples(pictures, lazy=lazy)
        message = str(caught.value)
        assert f"3 of 24 files are damaged: {', '.join(DAMAGED)}." in message
        assert "--skip-damaged" in message
        assert "BytesIO" not in message

    @pytest.mark.parametrize("lazy", [False, "blocks", True])
    def test_they_can_be_left_out(self, lazy, pictures):
        if lazy is True:
            pytest.importorskip("dask")
        found = load_samples(pictures, skip_damaged=True, lazy=lazy)
        assert found.left_out == tuple(DAMAGED)
        assert found.target.tolist() == ["bad"] * 10 + ["good"] * 11
        assert found.names[0] == "bad/01.png"
        first = np.asarray(Image.open(pictures / "bad" / "01.png"))
        assert np.array_equal(np.asarray(found.data[:1])[0], first)
        assert f"3 damaged files left out: {', '.join(DAMAGED)}" in found.notes

    def test_tables_keep_their_rows(self, pictures):
        names = sorted(path.relative_to(pictures).as_posix() for path in pictures.rglob("*.png"))
        rows = [f"{name},{name[:3]},{k},{k}" for k, name in enumerate(names)]
        table = pictures / "table.csv"
        table.write_text("\n".join(["path,label,group,age", *rows]))
        found = load_samples(table, skip_damaged=True, confounds="age")
        ages = [k for k, name in enumerate(names) if name not in DAMAGED]
        assert found.confounds["age"].tolist() == found.groups.tolist() == ages
        (pictures / "bad.txt").write_text("\n".join(name[:3] for name in names))
        with pytest.raises(BadFileError, match=r"rows that name no files cannot be matched .* bad/00.png, bad/07.png"):
            load_samples(pictures, skip_damaged=True, labels_from=pictures / "bad.txt")

    def test_all_or_the_only_one(self, pictures, tmp_path):
        for path in (pictures / "good").iterdir():
            path.write_bytes(b"no picture")
        with pytest.raises(BadFileError, match="12 of 12 files are damaged"):
            load_samples(pictures / "good", need_labels=False, skip_damaged=True)
        with pytest.raises(BadFileError, match="its contents are none of PNG, JPEG and TIFF") as caught:
            load_samples(pictures / "good" / "01.png", need_labels=False)
        assert "skip" not in str(caught.value)

    def test_on_the_command_line(self, pictures, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        quick = ("--decomposition", "full", "--folds", "2", "--outer-folds", "2", "-o", "m.skops")
        done = run("fit", pictures, *quick)
        assert done.returncode == 2
        assert "3 of 24 files are damaged" in done.stderr
        with fewer_models():
            done = run("fit", pictures, *quick, "--skip-damaged")
        assert done.returncode == 0, done.stderr
        left_out = f"3 damaged files left out: {', '.join(DAMAGED)}"
        assert left_out in done.stderr
        assert left_out in (tmp_path / "m.html").read_text()
        done = run("predict", "m.skops", pictures, "-o", "p.csv", "--skip-damaged", "--json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["left_out"] == DAMAGED
        with open("p.csv", encoding="utf-8", newline="") as file:
            rows = {row["sample"]: row for row in csv.DictReader(file)}
        assert len(rows) == 24
        assert [name for name, row in rows.items() if not row["predicted"]] == DAMAGED
