"""Tests that people read words: no command or page shows a pipeline, an array or a mask as Python writes it."""

import json
import re
import shutil
import sys
from html.parser import HTMLParser

import numpy as np
import pytest
from conftest import fewer_models, run
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from tensormargin import Mask, TensorScaler, TensorUnion, load_samples
from tensormargin.io import leakage_warnings
from tensormargin.runtime import escaped, quoted, shortened
from tensormargin.transformers import describe_step

OBJECTS = re.compile(r"\b(?!Cov|Var)[A-Z]\w*[a-z]\w*\(|\barray\(|<[^<>]*\bobject\b|\bnp\.\w+\(|\bPipeline\b|\bdtype\b")
QUICK = ("--folds", "2", "--outer-folds", "2")
KINDS = {
    "mask": ["--decomposition", "tucker", "--mask", "{folder}/brain.nii.gz", "--crop", "bright", "--scale", "mode 1"],
    "auto": ["--auto", "--mask", "{folder}/brain.nii.gz"],
    "series": ["--auto", "--kind", "plain", "--confounds", "age,site", "--missing", "mean"],
    "views": ["--decomposition", "tucker", "--samples", "eeg,fmri", "--scale", "entry", "--without-views"],
}


class TextOf(HTMLParser):
    """The text of a page without scripts and styles, with all alternative texts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.skipped, self.parts = 0, list[str]()
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.skipped += tag in ("script", "style")
        self.parts += [value or "" for name, value in attrs if name in ("alt", "aria-label", "title")]

    def handle_endtag(self, tag):
        self.skipped -= tag in ("script", "style")

    def handle_data(self, data):
        self.parts += [] if self.skipped else [data]


def printed(*arguments):
    """Return what a command prints on both streams."""
    result = run(*arguments)
    assert result.returncode == 0, result.stderr
    return result.stdout + result.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with volumes, a mask, and arrays with confounds, missing entries and two views."""
    import nibabel

    path, rng, y = tmp_path_factory.mktemp("words"), np.random.default_rng(0), np.arange(24) % 2
    volumes = rng.normal(size=(24, 9, 9, 10)).astype("float32")
    volumes[y == 1, 3:6, 3:6, 3:6] += 2
    for number, volume in enumerate(volumes):
        own = path / "scans" / "ab"[y[number]]
        own.mkdir(parents=True, exist_ok=True)
        nibabel.save(nibabel.Nifti1Image(volume, np.eye(4)), own / f"s{number:02d}.nii.gz")
    mask = np.zeros(volumes.shape[1:], "uint8")
    mask[2:7, 2:7, 2:7] = 1
    nibabel.save(nibabel.Nifti1Image(mask, np.eye(4)), path / "brain.nii.gz")
    series = rng.normal(size=(24, 3, 20)) + y[:, None, None] * np.sin(np.arange(20) / 3)
    more = {
        "age": rng.normal(50, 9, 24),
        "site": np.array(["x", "y"])[np.arange(24) // 2 % 2],
        "subject": np.arange(24) // 4,
    }
    series[3, 1, 4] = np.nan
    np.savez(path / "series.npz", data=series, target=y, **more)
    np.savez(path / "views.npz", eeg=np.nan_to_num(series), fmri=volumes[:, 3], target=y)
    return path


@pytest.fixture(scope="module", params=KINDS)
def shown(request, folder, blank_figures):
    """Return what `fit` and `inspect` print about one kind of model, and the text of its report."""
    name = request.param
    data = folder / (f"{name}.npz" if name in ("series", "views") else "scans")
    model = folder / f"{name}.skops"
    with fewer_models(lams=(1,), ranks=(1,)):
        fitted = printed("fit", data, "-o", model, *QUICK, *(one.format(folder=folder) for one in KINDS[name]))
    page = TextOf(model.with_suffix(".html").read_text(encoding="utf-8"))
    texts = {"fit": fitted, "inspect": printed("inspect", model), "report": "\n".join(page.parts)}
    return name, model, texts


def test_no_object_is_shown(shown):
    _, model, texts = shown
    for where, text in texts.items():
        assert OBJECTS.findall(text) == [], where
    facts = json.loads(printed("inspect", model, "--json"))
    said = [*facts["steps"], json.dumps(facts["about"]["search"]), json.dumps(facts["about"]["plan"])]
    assert OBJECTS.findall("\n".join(said)) == []


EXPECTED = {
    "mask": "mask of 125 of 810 voxels, then cropped to the box of bright entries, then scaled per index of mode 1",
    "auto": "preparation: mask of 125 of 810 voxels",
    "series": "missing entries filled in (mean), then without what age and site explain",
    "views": "eeg scaled per entry; fmri scaled per entry",
}


def test_fit_says_what_was_done(shown):
    name, _, texts = shown
    assert EXPECTED[name] in texts["fit"]
    assert ("In the same evaluation without single views" in texts["fit"]) == (name == "views")


def test_remedies_can_be_followed(shown):
    """The report recommends to leave out views only where they were given: `fit --without-views` takes no others."""
    name, _, texts = shown
    if name == "auto":
        assert "representations of the same samples; the score without one of them is not known" in texts["report"]
    assert "--without-views" not in texts["report"]


def test_methods_are_full_sentences(shown):
    """The paragraphs of the methods section name data, preparation, search, evaluation and software."""
    name, _, texts = shown
    lines = texts["inspect"].splitlines()
    first = next(place for place, line in enumerate(lines) if line.startswith("The data ("))
    last = next(place for place, line in enumerate(lines) if line.startswith("The analysis was done"))
    methods = lines[first : last + 1]
    assert all(line[0].isupper() and line.endswith(".") for line in methods)
    for text in (
        "The interval is for the accuracy ",
        "Before classification, ",
        "2-fold cross-validation (seed 0) from ",
        "nested cross-validation (2 ",
    ):
        assert any(text in line for line in methods), text
    assert re.search(
        r"The analysis was done with Python 3[\d.]+, tensormargin .* and scikit-learn [\d.]+\.$", methods[-1]
    )
    if name == "auto":
        assert "smoothed (width 2); scaled per entry, then the 20 % of the entries that differ most" in "".join(methods)
        assert all(line in texts["report"] for line in methods[:4])


@pytest.mark.parametrize(
    ("step", "words", "brief"),
    [
        (PCA(5, svd_solver="full"), "PCA (n_components 5, svd_solver full) of scikit-learn was applied", None),
        (FunctionTransformer(np.abs), "FunctionTransformer of scikit-learn was applied", "FunctionTransformer"),
        (Mask(np.eye(40)), "what is outside of a mask of 40 of 1,600 entries was set to zero", None),
        ("passthrough", "samples as they are", "samples as they are"),
        (
            make_pipeline(TensorScaler(), TensorUnion([("as_is", "passthrough"), ("pca", PCA(3))])),
            None,
            "scaled per entry, then as is and pca side by side",
        ),
    ],
)
def test_steps_in_words(step, words, brief):
    assert words is None or describe_step(step) == words
    assert brief is None or describe_step(step, brief=True) == brief


def test_escaped_text_can_be_seen_and_stays_as_it_is():
    text = "".join(map(chr, range(sys.maxunicode + 1)))
    shown = escaped(text)
    assert {char for char in shown if not char.isprintable()} == {"\n", "\t"}
    assert (escaped(shown), shown.encode().decode()) == (shown, shown)
    assert [char for char in text if char.isprintable() and char not in shown] == []
    assert escaped("\x00\r\x1b\x7f\x9b\u200d\u202e\u2066\u2028\ufeff\udcff") == (
        r"\x00\r\x1b\x7f\x9b\u200d\u202e\u2066\u2028\ufeff\udcff"
    )
    assert quoted("a\nb\x1b" + 60 * "c") == r"a\nb\x1b" + 52 * "c" + "..."
    assert shortened("a\nb \t\x1b") == r"a b \x1b"


class TestNames:
    """Messages name the class, the file and the sample that they are about."""

    @pytest.fixture(scope="class")
    @classmethod
    def named(cls, tmp_path_factory):
        root = tmp_path_factory.mktemp("named")
        rng = np.random.default_rng(0)
        for name, files in (("often", 6), ("rare", 1)):
            (root / "few" / name).mkdir(parents=True)
            for number in range(files):
                np.save(root / "few" / name / f"{number}.npy", rng.random((3, 4)))
        for name in "ab":
            (root / "full" / name).mkdir(parents=True)
            for number in range(4):
                np.save(root / "full" / name / f"{number}.npy", rng.random((3, 4)))
        return root

    def test_a_class_with_one_sample(self, named, tmp_path):
        done = run("fit", named / "few", "-o", tmp_path / "m.skops")
        assert done.returncode == 2
        assert "class 'rare' has 1" in done.stderr

    def test_a_sample_with_nan(self, named, tmp_path):
        shutil.copytree(named / "full", tmp_path / "nan")
        broken = np.load(tmp_path / "nan" / "b" / "2.npy")
        broken[1, 2] = np.nan
        np.save(tmp_path / "nan" / "b" / "2.npy", broken)
        done = run("fit", tmp_path / "nan", "-o", tmp_path / "m.skops")
        assert done.returncode == 2
        assert "sample 7, b/2.npy, index 2 of mode 1, index 3 of mode 2" in done.stderr

    def test_copies(self, named, tmp_path):
        shutil.copytree(named / "full", tmp_path / "copies")
        shutil.copy(tmp_path / "copies" / "a" / "1.npy", tmp_path / "copies" / "b" / "3.npy")
        samples = load_samples(tmp_path / "copies")
        assert "(such as a/1.npy and b/3.npy)" in leakage_warnings(samples)[-1]

    @pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
    @pytest.mark.parametrize("ending", ["csv", "tsv"])
    def test_a_table_with_another_separator(self, named, separator, ending):
        rows = [("path", "label"), *((f"full/{name}/{number}.npy", name) for name in "ab" for number in range(4))]
        table = named / f"table.{ending}"
        table.write_text("\n".join(map(separator.join, rows)))
        assert load_samples(table).target.tolist() == ["a"] * 4 + ["b"] * 4

    def test_a_list_whose_lines_hold_some_other_marks_is_no_table(self, named, tmp_path):
        labels = tmp_path / "labels.tsv"
        labels.write_text("left, near\nright\n" * 4)
        samples = load_samples(named / "full", labels_from=labels)
        assert samples.target.tolist() == ["left, near", "right"] * 4
