"""Tests of tables whose rows are in another order than the samples: labels, groups, confounds and covariates."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image
from tests.conftest import fewer_models, run

from tensormargin import Deconfound
from tensormargin.io import BadFileError, load_samples, load_views

N = 24
Y = np.array([f"c{k % 3 % 2}" for k in range(N)])
SHUFFLED = np.random.default_rng(5).permutation(N)


@pytest.fixture
def pictures(tmp_path):
    """Return a folder of pictures that show the number of their row in `Y`."""
    folder = tmp_path / "pictures"
    folder.mkdir()
    for k in range(N):
        Image.fromarray(np.full((4, 5), k, np.uint8)).save(folder / f"img_{k:02d}.png")
    return folder


def table(path, names, heading="image", separator=","):
    """Write a shuffled table of labels, a group, a number and what ``names`` makes of each row."""
    lines = [separator.join((heading, "label", "group", "age"))]
    lines += [separator.join((names(k), Y[k], str(k % 4), str(20 + k))) for k in SHUFFLED.tolist()]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


NAMES = {
    "file name": lambda k: f"img_{k:02d}.png",
    "without ending": lambda k: f"img_{k:02d}",
    "other ending": lambda k: f"IMG_{k:02d}.JPG",
    "Windows": lambda k: rf"C:\Users\me\pictures\img_{k:02d}.png",
    "folder": lambda k: f"./pictures/img_{k:02d}.png",
}


@pytest.mark.parametrize("names", NAMES.values(), ids=NAMES)
@pytest.mark.parametrize("heading", ["image", "id", "Dateiname", "path"])
def test_files_are_matched_by_the_column_that_names_them(pictures, names, heading):
    labels = table(pictures.parent / "labels.csv", names, heading)
    for lazy in (False, "blocks"):
        found = load_samples(pictures, labels_from=labels, confounds="age", lazy=lazy)
        assert found.target.tolist() == Y.tolist()
        assert found.groups.tolist() == [k % 4 for k in range(N)]
        assert found.confounds["age"].tolist() == [20.0 + k for k in range(N)]
        assert found.notes[-1] == f"labels.csv: matched to the files by its column {heading!r}"
    found = load_views(pictures, covariates=labels, labels_from=labels, columns=["age"])
    assert found.data["covariates"][:, 0].tolist() == [20.0 + k for k in range(N)]
    found = load_views(pictures, covariates=labels, labels_from=labels)
    assert found.coding.entries == ["age"]


def test_labels_in_a_container_are_matched_too(pictures):
    np.savez(pictures.parent / "y.npz", y=Y[SHUFFLED], image=[f"img_{k:02d}.png" for k in SHUFFLED])
    assert load_samples(pictures, labels_from=pictures.parent / "y.npz").target.tolist() == Y.tolist()


def test_arrays_with_ids(tmp_path):
    X = np.arange(N, dtype=float)[:, None, None] * np.ones((N, 2, 3))
    labels = table(tmp_path / "labels.csv", lambda k: f"s{k}", "sample")
    np.savez(tmp_path / "with_ids.npz", X=X, id=[f"s{k}" for k in range(N)])
    found = load_samples(tmp_path / "with_ids.npz", labels_from=labels)
    assert found.target.tolist() == Y.tolist()
    assert found.notes == ("labels.csv: matched to the samples by its column 'sample'",)
    np.savez(tmp_path / "repeated.npz", X=X, subject_id=[f"s{k // 2}" for k in range(N)])
    labels = table(tmp_path / "labels.csv", lambda k: f"s{k // 2}", "subject_id")
    with pytest.raises(BadFileError, match=r"labels.csv: its column 'subject_id' holds the ids of .* another order"):
        load_samples(tmp_path / "repeated.npz", labels_from=labels)
    np.save(tmp_path / "without.npy", X)
    found = load_samples(tmp_path / "without.npy", labels_from=labels)
    assert found.target.tolist() == Y[SHUFFLED].tolist()
    assert found.notes == ("labels.csv: matched to without.npy by order",)


class TestRefusals:
    def refused(self, pictures, match, **options):
        with pytest.raises(BadFileError, match=match):
            load_samples(pictures, **options)

    def test_tables_that_name_no_files(self, pictures):
        labels = table(pictures.parent / "labels.csv", lambda k: f"patient {k}")
        self.refused(
            pictures, r"none of its columns \(image, age\) holds them, such as 'img_00.png'", labels_from=labels
        )
        with pytest.raises(BadFileError, match=r"labels.csv: none of its sample ids \(image, label, group, age\)"):
            load_views(pictures, covariates=labels, labels_from=Y)

    def test_names_that_are_missing_or_repeat(self, pictures):
        labels = table(pictures.parent / "labels.csv", NAMES["file name"])
        lines = labels.read_text().splitlines()
        labels.write_text("\n".join(line for line in lines if "img_07" not in line))
        self.refused(pictures, r"no row for 1 of 24 samples, e.g. img_07.png; its column 'image'", labels_from=labels)
        labels.write_text("\n".join([*lines, lines[1]]))
        self.refused(pictures, r"its column 'image' names '.*' twice", labels_from=labels)

    def test_columns_that_disagree(self, pictures):
        rows = [f"img_{k:02d}.png,img_{N - 1 - k:02d}.png,{Y[k]}" for k in range(N)]
        (pictures.parent / "labels.csv").write_text("\n".join(["first,second,label", *rows]))
        self.refused(
            pictures,
            "'first' and 'second' both name the samples, and they disagree",
            labels_from=pictures.parent / "labels.csv",
        )

    def test_lists_are_in_an_order_that_is_certain(self, pictures):
        (pictures.parent / "y.txt").write_text("\n".join(Y))
        found = load_samples(pictures, labels_from=pictures.parent / "y.txt")
        assert found.target.tolist() == Y.tolist()
        assert found.notes == ("y.txt: matched to pictures by order",)
        for path in sorted(pictures.iterdir()):
            path.rename(pictures / f"{int(path.stem[4:])}.png")
        match = r"y.txt: .*order is not certain: '10.png' comes before '2.png' in alphabetical order"
        self.refused(pictures, match, labels_from=pictures.parent / "y.txt")


def test_tables_as_data(pictures):
    """Check that a table of files needs no heading of a certain name, and may come from Windows."""
    rows = [rf"{Y[k]},pictures\img_{k:02d}.png" for k in SHUFFLED]
    (pictures.parent / "all.csv").write_text("\n".join(["label,Bild", *rows]))
    found = load_samples(pictures.parent / "all.csv")
    assert found.data[:, 0, 0].tolist() == SHUFFLED.tolist()
    assert found.target.tolist() == Y[SHUFFLED].tolist()


def test_on_the_command_line(pictures, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    labels = table(tmp_path / "labels.csv", NAMES["file name"])
    quick = ("--decomposition", "cp", "--rank", "1", "--folds", "2", "--outer-folds", "0", "--no-report")
    with fewer_models():
        done = run("fit", pictures, "--labels-from", labels, "--covariates", labels, *quick, "-o", "m.skops")
    assert done.returncode == 0, done.stderr
    assert "labels.csv: matched to the files by its column 'image'" in done.stderr
    assert "by sample id (image)" in done.stderr
    given = ("predict", "m.skops", pictures, "--covariates", labels, "--labels-from")
    done = run(*given, labels, "-o", "p.csv")
    assert done.returncode == 0, done.stderr
    rows = [line.split(",") for line in (tmp_path / "p.csv").read_text().splitlines()]
    true = {row[0]: row[rows[0].index("label")] for row in rows[1:]}
    assert [true[f"img_{k:02d}.png"] for k in range(N)] == Y.tolist()
    (tmp_path / "unnamed.csv").write_text(labels.read_text().replace(".png", " no file").replace("img_", "patient"))
    done = run(*given, tmp_path / "unnamed.csv", "-o", "q.csv")
    assert done.returncode == 2
    assert "none of its columns" in done.stderr


class TestDecimalCommas:
    """Numbers as spreadsheets of many countries write them."""

    AGES = 20 + np.arange(N) / 4

    def tables(self, folder, ages, separator=";", ending="csv"):
        np.savez(folder / "x.npz", X=np.arange(6.0 * N).reshape(N, 2, 3), y=Y, id=np.arange(N))
        rows = [f"{k}{separator}{age}{separator}{'ab'[k % 2]}" for k, age in enumerate(ages)]
        path = folder / f"people.{ending}"
        path.write_text("\n".join([separator.join(("id", "age", "site")), *rows]), encoding="utf-8")
        return folder / "x.npz", path

    @pytest.mark.parametrize(("separator", "ending"), [(";", "csv"), ("\t", "tsv"), (",", "csv")])
    def test_are_numbers(self, tmp_path, separator, ending):
        ages = [f"{1000 + age:,.2f}".translate(str.maketrans(",.", ".,")) for age in self.AGES]
        quoted = [f'"{age}"' for age in ages] if separator == "," else ages
        data, people = self.tables(tmp_path, quoted, separator, ending)
        found = load_views(data, covariates=people, confounds="age")
        assert found.confounds["age"].tolist() == (1000 + self.AGES).tolist()
        found = load_views(data, covariates=people, columns=["age"])
        assert found.data["covariates"][:, 0].tolist() == (1000 + self.AGES).tolist()

    def test_thousands_or_decimals_are_not_guessed(self, tmp_path):
        ages = [f'"{k + 1},250"' for k in range(N)]
        data, people = self.tables(tmp_path, ages, ",")
        match = "people.csv: the {} 'age' must have numbers with a decimal point, or text; got '1,250'"
        with pytest.raises(BadFileError, match=match.format("confound")):
            load_views(data, covariates=people, confounds="age")
        with pytest.raises(BadFileError, match=match.format("covariate")):
            load_views(data, covariates=people)
        data, people = self.tables(tmp_path, [f"{k + 1},250" for k in range(N)])
        assert load_views(data, covariates=people, confounds="age").confounds["age"][0] == 1.25

    def test_in_python(self):
        ages = [f"{age:.2f}".replace(".", ",") for age in self.AGES]
        with pytest.raises(ValueError, match="the confound 'age' must have numbers with a decimal point"):
            Deconfound().fit(np.ones((N, 2, 3)), confounds={"age": ages})
        assert len(Deconfound().fit(np.ones((N, 2, 3)), confounds={"place": ["a, b", "c"] * (N // 2)}).mean_) == 2
