"""Tests of data set loaders and generators: return values, search paths, and errors for missing data."""

from __future__ import annotations

import gzip
import hashlib
import sys
import urllib.request
from urllib.error import URLError

import numpy as np
import pytest
from scipy.io import savemat

from tensormargin import TensorMarginClassifier, datasets
from tensormargin.data import checked_axes
from tensormargin.datasets import _store, brain, images, measurements
from tensormargin.io import BadFileError, digest, read_arrays

REAL = {
    datasets.fetch_mnist: ((70000, 28, 28), 10),
    datasets.fetch_orl: ((400, 32, 32), 40),
    datasets.load_adrenal: ((1584, 28, 28, 28), 2),
    datasets.load_basic_motions: ((80, 6, 100), 4),
    datasets.load_eeg: ((61, 64, 64), 2),
    datasets.load_haxby_slice: ((864, 40, 20), 8),
    datasets.load_indian_pines: ((10249, 5, 5, 200), 16),
    datasets.load_epilepsy: ((275, 3, 206), 4),
    datasets.load_ering: ((300, 4, 65), 6),
    datasets.load_libras: ((360, 2, 45), 15),
    datasets.load_robot_failures: ((88, 6, 15), 4),
    datasets.load_precog_actions: ((350, 20, 3, 32), 8),
    datasets.load_muse_ssvep: ((257, 5, 768), 2),
    datasets.load_eem_olive_oil: ((80, 13, 501), 2),
    datasets.load_modis_matogrosso: ((2115, 6, 23), 9),
    datasets.load_pmd_posture: ((884, 64, 32), 3),
    datasets.load_ifnb_ms: ((53, 76, 7), 2),
}
BUILT_IN = [datasets.load_basic_motions, datasets.load_indian_pines]
BY_HAND = [
    datasets.load_precog_actions,
    datasets.load_muse_ssvep,
    datasets.load_modis_matogrosso,
    datasets.load_pmd_posture,
    datasets.load_schizo_fnc,
]
FETCHED = [load for load in REAL if load not in (*BUILT_IN, *BY_HAND)]


@pytest.fixture
def nowhere(monkeypatch, tmp_path):
    """Provide no data folder, an empty cache and no network."""

    def refuse(url, *args, **kwargs):
        raise URLError("no network in this test")

    monkeypatch.delenv("TENSORMARGIN_DATA", raising=False)
    monkeypatch.setenv("TENSORMARGIN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path / "sklearn"))
    monkeypatch.setattr(_store, "urlopen", refuse)
    monkeypatch.setattr(urllib.request, "urlopen", refuse)
    import sklearn.datasets._base as base

    monkeypatch.setattr(base, "urlretrieve", refuse)
    return tmp_path


@pytest.mark.parametrize("load", REAL, ids=lambda load: load.__name__)
def test_real_data_have_their_shapes(load, data_folder):
    bunch = load()
    shape, n_classes = REAL[load]
    assert bunch.data.shape == shape
    assert bunch.target.shape == shape[:1]
    assert len(np.unique(bunch.target)) == n_classes
    assert len(bunch.DESCR) > 100
    if "groups" in bunch:
        assert bunch.groups.shape == shape[:1]


@pytest.mark.parametrize("load", FETCHED, ids=lambda load: load.__name__)
def test_offline_without_data_the_error_names_both_ways_out(load, nowhere):
    with pytest.raises(datasets.DataUnavailableError) as caught:
        load()
    message = str(caught.value)
    assert "Connect to the network" in message
    assert "set TENSORMARGIN_DATA to a folder that holds" in message
    left = [path for path in nowhere.rglob("*") if path.is_file()]
    assert left == []


@pytest.mark.parametrize("load", BY_HAND, ids=lambda load: load.__name__)
def test_without_a_file_that_cannot_be_fetched_the_error_says_where_it_is(load, nowhere):
    with pytest.raises(datasets.DataUnavailableError) as caught:
        load()
    message = str(caught.value)
    assert any(place in message for place in ("github.com/", "physionet.org/", "kaggle.com/"))
    assert "Set TENSORMARGIN_DATA to a folder that holds" in message
    assert "Connect to the network" not in message


def test_indian_pines_comes_with_tensorly(nowhere):
    assert datasets.load_indian_pines(3, (1, 9)).data.shape == (66, 3, 3, 200)


def test_tensorlys_indian_pines_are_those_of_the_data_folder(data_folder, nowhere):
    bunch = datasets.load_indian_pines(3, (1, 9))
    stored = read_arrays(data_folder / "indian_pines" / "indian_pines_145x145x200.npz")
    row, column = bunch.positions[5]
    assert np.array_equal(bunch.data[5], stored["cube"][row - 1 : row + 2, column - 1 : column + 2])


def idx(array):
    head = bytes([0, 0, 8, array.ndim]) + b"".join(size.to_bytes(4, "big") for size in array.shape)
    return gzip.compress(head + array.tobytes())


@pytest.fixture
def mirror(nowhere, monkeypatch):
    """Serve a small MNIST on the second of two mirrors; the first has nothing."""
    rng = np.random.RandomState(0)
    folder = nowhere / "mirror"
    folder.mkdir()
    checksums = {}
    for part, n in (("train", 30), ("t10k", 10)):
        for name, array in (("images-idx3", rng.randint(0, 256, (n, 28, 28))), ("labels-idx1", np.arange(n) % 10)):
            path = folder / f"{part}-{name}-ubyte.gz"
            path.write_bytes(idx(array.astype(np.uint8)))
            checksums[path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
    monkeypatch.undo()
    monkeypatch.delenv("TENSORMARGIN_DATA", raising=False)
    monkeypatch.setenv("TENSORMARGIN_CACHE", str(nowhere / "cache"))
    monkeypatch.setattr(images, "_MNIST_MIRRORS", (f"{(nowhere / 'empty').as_uri()}/", f"{folder.as_uri()}/"))
    monkeypatch.setattr(images, "_MNIST_FILES", checksums)
    return folder


def test_mnist_is_fetched_once_checked_and_cached(mirror, nowhere):
    bunch = datasets.fetch_mnist()
    assert bunch.data.shape == (40, 28, 28)
    assert bunch.n_train == 30
    for path in mirror.iterdir():
        path.unlink()
    again = datasets.fetch_mnist("test")  # from the cache
    assert np.array_equal(again.data, bunch.data[30:])
    assert sorted(path.name for path in (nowhere / "cache" / "mnist").iterdir()) == sorted(images._MNIST_FILES)


def test_a_download_with_the_wrong_content_is_refused_and_not_kept(mirror, nowhere):
    path = mirror / "train-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(datasets.DataUnavailableError, match="SHA-256"):
        datasets.fetch_mnist()
    assert not list((nowhere / "cache").rglob("*images*"))


def test_a_damaged_file_in_the_data_folder_is_named(mirror, nowhere, monkeypatch):
    folder = nowhere / "own" / "mnist"
    folder.mkdir(parents=True)
    for path in mirror.iterdir():
        (folder / path.name).write_bytes(path.read_bytes()[:-20])
    monkeypatch.setenv("TENSORMARGIN_DATA", str(nowhere / "own"))
    with pytest.raises(BadFileError, match=r"train-images.*damaged"):
        datasets.fetch_mnist()


@pytest.mark.parametrize("content", [b"", b"<html>sorry</html>", gzip.compress(b"x" * 5000, mtime=0)[:40]])
@pytest.mark.parametrize("load", [datasets.load_eeg, datasets.load_haxby_slice])
def test_a_strange_answer_is_refused_and_nothing_of_it_kept(load, content, nowhere, monkeypatch):
    import io

    monkeypatch.setattr(_store, "urlopen", lambda *args, **kwargs: io.BytesIO(content))
    with pytest.raises(datasets.DataUnavailableError, match="could not be fetched"):
        load()
    assert [path for path in nowhere.rglob("*") if path.is_file()] == []


def test_labels_that_do_not_belong_to_the_images_are_refused(mirror, nowhere, monkeypatch):
    folder = nowhere / "own" / "mnist"
    folder.mkdir(parents=True)
    for path in mirror.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    (folder / "t10k-labels-idx1-ubyte.gz").write_bytes(idx(np.zeros(7, np.uint8)))
    monkeypatch.setenv("TENSORMARGIN_DATA", str(nowhere / "own"))
    with pytest.raises(BadFileError, match=r"do not belong together.*\(10, 7\)"):
        datasets.fetch_mnist()
    (folder / "t10k-labels-idx1-ubyte.gz").write_bytes(gzip.compress(b"\0\0\x08\x01\0\0\0\x09abc", mtime=0))
    with pytest.raises(BadFileError, match="not a whole file"):
        datasets.fetch_mnist()


def test_a_missing_reader_is_named_with_its_remedy(nowhere, monkeypatch):
    monkeypatch.setitem(sys.modules, "rdata", None)
    with pytest.raises(datasets.DataUnavailableError, match=r"tensormargin\[neuro\].*Install it and try again"):
        datasets.load_eeg()


def test_the_data_folder_goes_before_the_cache(data_folder, tmp_path):
    assert _store.found("mnist/train-labels-idx1-ubyte.gz", tmp_path).is_relative_to(data_folder)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("relative", "expected"),
    [
        ("haxby_slice/haxby2001_sub001_slice_40x20.npz", brain._HAXBY_SLICE_DIGEST),
        ("eeg_alcoholism/eeg_alcoholism_61x64x64.npz", brain._EEG_DIGEST),
        ("robot_failures/robot_failures.npz", measurements._ROBOT_DIGEST),
        ("ifnb_ms/ifnb_ms.npz", measurements._IFNB_DIGEST),
        *((f"{name.lower()}/{name.lower()}.npz", digest) for name, digest in measurements._UEA_DIGESTS.items()),
    ],
)
def test_checksums_of_converted_originals_are_those_of_the_data_at_hand(relative, expected, data_folder):
    assert digest(read_arrays(data_folder / relative)) == expected


def serve(monkeypatch, nowhere, files):
    """Serve these contents to downloads whose URL has the given ending."""

    def download(urls, sha256=None):
        def fetch(path):
            for url in urls:
                for name, content in files.items():
                    if url.endswith(name):
                        path.write_bytes(content)
                        return
            raise URLError("not served")

        return fetch

    monkeypatch.setattr(_store, "download", download)


def test_the_watch_recordings_come_with_the_package(nowhere):
    bunch = datasets.load_basic_motions()
    assert (bunch.data.shape, bunch.data.dtype) == ((80, 6, 100), np.float32)
    assert dict(zip(*np.unique(bunch.target, return_counts=True), strict=True)) == {
        "Badminton": 20,
        "Running": 20,
        "Standing": 20,
        "Walking": 20,
    }
    assert datasets.is_at_hand(datasets.CATALOGUE["basic-motions"])
    beside = list(measurements._BASIC_MOTIONS.parent.iterdir())
    assert sum(path.stat().st_size for path in beside) < 200_000
    assert any("arXiv:1811.00075" in path.read_text() for path in beside if path.suffix == ".txt")


def test_the_watch_recordings_are_those_of_the_data_folder(data_folder, nowhere):
    stored = read_arrays(data_folder / "basic_motions" / "basic_motions_6x100.npz")
    bunch = datasets.load_basic_motions()
    for part in ("train", "test"):
        assert np.array_equal(bunch.data[bunch.split == part], stored[f"X_{part}"])
        assert np.array_equal(bunch.target[bunch.split == part], stored[f"y_{part}"])


def test_the_fmri_slice_is_read_from_nifti(monkeypatch, data_folder, nowhere):
    import nibabel

    stored = read_arrays(data_folder / "haxby_slice" / "haxby2001_sub001_slice_40x20.npz")
    volumes = np.moveaxis(stored["X"], 0, -1)[:, :, None, :]
    path = nowhere / "bold.nii.gz"
    nibabel.Nifti1Image(volumes, np.eye(4)).to_filename(path)
    labels = "\n".join(f"{name} {run}" for name, run in zip(stored["y"], stored["run"], strict=True))
    serve(monkeypatch, nowhere, {"bold.nii.gz": path.read_bytes(), "attributes_literal.txt": labels.encode()})
    bunch = datasets.load_haxby_slice(standardise=False, categories=("face", "rest"))
    assert np.array_equal(bunch.data, stored["X"][np.isin(stored["y"], ("face", "rest"))])


def as_ts(samples, codes, names):
    """Return samples in the format of the UEA archive."""
    lines = [
        ":".join(",".join(str(float(value)) for value in channel) for channel in sample) + f":{names[code]}"
        for sample, code in zip(samples, codes, strict=True)
    ]
    head = ["# a comment", "@problemName any", f"@classLabel true {' '.join(names)}", "@data"]
    return "\n".join([*head, *lines]).encode()


@pytest.mark.parametrize("name", ["ERing", "Libras"])
def test_sets_of_the_archive_are_read_from_ts_files(name, monkeypatch, data_folder, nowhere):
    stored = read_arrays(data_folder / name.lower() / f"{name.lower()}.npz")
    files = {
        f"{name}_{part.upper()}.ts": as_ts(stored[f"X_{part}"], stored[f"y_{part}"], stored["class_names"])
        for part in ("train", "test")
    }
    serve(monkeypatch, nowhere, files)
    bunch = getattr(datasets, f"load_{name.lower()}")()
    assert np.array_equal(bunch.data[bunch.split == "test"], stored["X_test"])
    assert np.array_equal(bunch.target[bunch.split == "train"], stored["y_train"] + 1)


def test_a_file_without_class_labels_is_refused(tmp_path):
    (tmp_path / "a.ts").write_text("@problemName any\n@data\n1,2:3,4:a\n")
    with pytest.raises(BadFileError, match="class labels"):
        measurements.read_ts(tmp_path / "a.ts")


def test_robot_failures_are_read_from_text(monkeypatch, data_folder, nowhere):
    stored = read_arrays(data_folder / "robot_failures" / "robot_failures.npz")
    files = {}
    for problem in measurements.PROBLEMS:
        samples, codes, names = (stored[f"{part}_{problem}"] for part in ("X", "y", "class_names"))
        rows = [
            "\n".join([names[code], *("\t".join(map(str, line)) for line in sample.T.astype(int).tolist())])
            for sample, code in zip(samples, codes, strict=True)
        ]
        files[f"{problem}.data"] = "\n\n".join(rows).encode()
    serve(monkeypatch, nowhere, files)
    bunch = datasets.load_robot_failures("lp3")
    assert np.array_equal(bunch.data, stored["X_lp3"])
    assert set(bunch.target) == {"lost", "moved", "ok", "slightly_moved"}
    cut = nowhere / "cut.data"
    cut.write_bytes(files["lp1.data"][:-20])
    with pytest.raises(BadFileError, match="a label and 90 numbers"):
        measurements.read_robot_failures(cut)


def test_olive_oils_are_read_from_the_authors_cube(monkeypatch, data_folder, nowhere):
    stored = read_arrays(data_folder / "eem_olive_oil" / "eem_olive_oil.npz")
    savemat(nowhere / "eem.mat", {"cube": stored["X"].swapaxes(1, 2).astype(float)})
    serve(monkeypatch, nowhere, {"eem_data.mat": (nowhere / "eem.mat").read_bytes()})
    bunch = datasets.load_eem_olive_oil()
    assert np.array_equal(bunch.data, stored["X"])
    assert np.array_equal(bunch.target == "adulterated", stored["y"] == 1)
    assert np.array_equal(bunch.groups, stored["groups"])


def test_gene_expression_is_read_from_rs_format(monkeypatch, data_folder, nowhere):
    stored = read_arrays(data_folder / "ifnb_ms" / "ifnb_ms.npz")
    objects = {"DataArray": stored["X"].swapaxes(1, 2).astype(float), "Class": stored["y"] + 1.0}
    monkeypatch.setattr(_store, "downloaded_r", lambda urls: objects)
    bunch = datasets.load_ifnb_ms()
    assert np.array_equal(bunch.data, stored["X"])
    assert dict(zip(*np.unique(bunch.target, return_counts=True), strict=True)) == {
        "good_responder": 33,
        "poor_responder": 20,
    }


def samples_as_rows(data):
    return {row.tobytes() for row in data}


def test_what_the_descriptions_say_about_repeated_samples(data_folder):
    libras = datasets.load_libras()
    train, test = (libras.data[libras.split == part] for part in ("train", "test"))
    assert len(samples_as_rows(libras.data)) == 330
    assert sum(row.tobytes() in samples_as_rows(train) for row in test) == 19
    problems = {name: samples_as_rows(datasets.load_robot_failures(name).data) for name in measurements.PROBLEMS}
    assert problems["lp2"] == problems["lp3"]
    assert problems["lp4"] <= problems["lp5"]
    assert len(problems["lp2"] - problems["lp5"]) == 1
    assert not problems["lp1"] & (problems["lp5"] | problems["lp2"])
    epilepsy = datasets.load_epilepsy().data
    assert np.array_equal(epilepsy[102], epilepsy[104])


def test_pressure_maps_by_posture_and_as_means(data_folder):
    frames, means = datasets.load_pmd_posture(17), datasets.load_pmd_posture(17, means=True)
    assert len(np.unique(frames.target)) == len(np.unique(means.target)) == 17
    assert means.data.shape == (221, 64, 32)
    first = frames.recording == means.recording[5]
    assert set(frames.target[first]) == {means.target[5]}
    assert set(frames.groups[first]) == {means.groups[5]}


def test_classes_in_a_single_square_are_those_that_the_description_names(data_folder):
    bunch = datasets.load_modis_matogrosso()
    alone = {name for name in set(bunch.target) if len(set(bunch.groups[bunch.target == name])) == 1}
    assert alone == {"Forest", "Soy_Fallow"}
    assert all(f'"{name}"' in bunch.DESCR for name in alone)


def test_missing_visits_are_those_without_a_value(data_folder):
    bunch = datasets.load_ifnb_ms()
    assert np.array_equal(bunch.observed, np.any(bunch.data != 0, axis=1))
    assert np.sum(~bunch.observed) == 36


def test_one_view_of_the_connectivity_data(data_folder):
    both, one = datasets.load_schizo_fnc(), datasets.load_schizo_fnc(view="connectivity")
    assert np.array_equal(one.data, both.data["connectivity"])
    assert one.data.shape == (86, 28, 28)


@pytest.mark.parametrize("name", sorted({*datasets.CATALOGUE} - {"mnist", "orl", "adrenal", "indian-pines"}))
def test_the_catalogue_says_the_number_and_the_shape_of_the_samples(name, data_folder):
    entry = datasets.CATALOGUE[name]
    bunch = datasets.load_by_name(name)
    assert entry.what.startswith(f"{len(bunch.data):,} ")
    for size in bunch.data.shape[1:]:
        assert str(size) in entry.what
    assert str(len(np.unique(bunch.target))) in entry.what
    assert all((data_folder / file).is_file() for file in entry.files)


def test_runs_are_standardised_each_by_itself():
    rng = np.random.RandomState(0)
    runs = np.repeat([0, 1], 30)
    data = rng.standard_normal((60, 3, 4)) + np.arange(60)[:, None, None] * 0.1
    data[:, 0, 0] = 7.0
    both = datasets.standardise_runs(data, runs)
    assert np.allclose(both[runs == 0].mean(axis=0), 0, atol=1e-6)
    assert np.allclose(both[runs == 1][:, 1:].std(axis=0), 1, atol=1e-6)
    assert np.all(both[:, 0, 0] == 0)
    spoiled = data.copy()
    spoiled[runs == 1] = 100
    assert np.array_equal(datasets.standardise_runs(spoiled, runs)[runs == 0], both[runs == 0])


def test_faces_are_scaled_by_area_means(data_folder):
    small, large = datasets.fetch_orl(32), datasets.fetch_orl(64)
    assert large.data.shape == (400, 64, 64)
    assert 0 <= large.data.min() < large.data.max() <= 1
    halved = large.data.reshape(400, 32, 2, 32, 2).mean(axis=(2, 4))
    assert np.allclose(halved, small.data, atol=1e-6)  # averages over areas nest, whatever the original size


def test_faces_come_from_scikit_learn_where_the_original_is_not_at_hand(nowhere, monkeypatch):
    from sklearn.utils import Bunch

    faces = Bunch(images=np.random.RandomState(0).rand(400, 64, 64).astype("f4"), target=np.repeat(np.arange(40), 10))
    monkeypatch.setattr("sklearn.datasets.fetch_olivetti_faces", lambda **kwargs: faces)
    bunch = datasets.fetch_orl(32)
    assert bunch.data.shape == (400, 32, 32)
    assert set(bunch.target) == set(range(1, 41))
    assert "Olivetti" in bunch.DESCR


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: datasets.fetch_mnist("validation"), "subset must be"),
        (lambda: datasets.fetch_orl(0), "size must be"),
        (lambda: datasets.load_adrenal(32), "28 or 64"),
        (lambda: datasets.load_haxby_slice("volume"), "view must be"),
        (lambda: datasets.load_indian_pines(4), "odd number"),
        (lambda: datasets.load_robot_failures("lp6"), "problem must be one of 'lp1'"),
        (lambda: datasets.load_pmd_posture(5), "classes must be 3 or 17; got 5"),
        (lambda: datasets.load_schizo_fnc(view="genes"), "view must be"),
        (lambda: datasets.load_indian_pines(5, (2, 17)), "unknown class 17"),
        (lambda: datasets.make_low_rank_classes(1), "at least 2"),
        (lambda: datasets.make_low_rank_classes(10, (3, 0)), "at least 1"),
        (lambda: datasets.make_low_rank_classes(10, rank=0), "rank must be"),
        (lambda: datasets.load_adni(), "may not be redistributed"),
        (lambda: datasets.load_adhd(), "may not be redistributed"),
    ],
)
def test_bad_arguments_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_an_unknown_category_is_refused(data_folder):
    with pytest.raises(ValueError, match="unknown category 'dog'"):
        datasets.load_haxby_slice(categories=("face", "dog"))


# ------------------------------------------------------------------------------------- files provided by the user


def fmri():
    rng = np.random.RandomState(0)
    return rng.standard_normal((9, 4, 5, 6)), np.array([1, -1, 1, -1, 1, -1, 1, -1, 1])


def write_fmri(path, form):
    volumes, labels = fmri()
    last = np.moveaxis(volumes, 0, -1)
    cells = np.empty((1, 9), object)
    for position, volume in enumerate(volumes):
        cells[0, position] = volume
    if form == "npz":
        np.savez(path / "a.npz", X=volumes, y=labels)
    elif form == "mat, samples last":
        savemat(path / "a.mat", {"fmri": last, "label": labels[:, None], "info": {"site": 3}})
    elif form == "mat, cells":
        savemat(path / "a.mat", {"X": cells, "Y": labels[None, :]})
    else:
        import h5py

        with h5py.File(path / "a.mat", "w", userblock_size=512) as file:
            file["label"] = labels[None, :].astype(float)
            if form == "mat 7.3, samples last":
                file["fmri"] = last.T
            else:
                group = file.create_group("#refs#")
                references = file.create_dataset("X", (9, 1), h5py.ref_dtype)
                for position, volume in enumerate(volumes):
                    references[position, 0] = group.create_dataset(f"v{position}", data=volume.T).ref
    return next(path.iterdir())


@pytest.mark.parametrize("form", ["npz", "mat, samples last", "mat, cells", "mat 7.3, samples last", "mat 7.3, cells"])
@pytest.mark.parametrize("load", [datasets.load_adni, datasets.load_adhd])
def test_the_papers_fmri_files_are_read_in_every_form(form, load, tmp_path):
    bunch = load(write_fmri(tmp_path, form))
    volumes, labels = fmri()
    assert np.array_equal(bunch.data, volumes)
    assert np.array_equal(bunch.target, labels)
    assert "9 resting-state fMRI volumes of 4x5x6" in bunch.DESCR
    TensorMarginClassifier("cp").fit(bunch.data, bunch.target)


def bad_fmri(path):
    volumes, labels = fmri()
    np.savez(path / "two.npz", A=volumes, Z=volumes, y=labels)
    np.savez(path / "nolabels.npz", X=volumes)
    np.savez(path / "lengths.npz", X=volumes, y=labels[:7])
    savemat(path / "both.mat", {"X": volumes[:4, :, :, :4], "y": labels[:4]})
    np.savez(path / "nan.npz", X=np.full_like(volumes, np.nan), y=labels)
    savemat(path / "struct.mat", {"X": {"a": 1}, "y": labels})
    mixed = np.empty((1, 2), object)
    mixed[0, 0], mixed[0, 1] = volumes[0], volumes[0, :2]
    savemat(path / "mixed.mat", {"X": mixed, "y": labels[:2]})
    (path / "short.mat").write_bytes((path / "mixed.mat").read_bytes()[:200])
    (path / "nonsense.mat").write_bytes(b"nothing" * 100)
    (path / "nonsense.txt").write_bytes(b"nothing")


BAD = {
    "absent.mat": "no such file",
    "two.npz": "2 of its arrays could be the volumes",
    "nolabels.npz": "0 of its arrays could be the labels",
    "lengths.npz": "7 labels, but volumes of shape",
    "both.mat": "does not tell which axis",
    "nan.npz": "holds NaN",
    "struct.mat": "could be the volumes",
    "mixed.mat": "could be the volumes",
    "short.mat": "not a MATLAB file, or damaged",
    "nonsense.mat": "not a MATLAB file, or damaged",
    "nonsense.txt": "unknown kind of file",
}


@pytest.mark.parametrize("name", BAD)
def test_bad_fmri_files_are_refused_by_name(name, tmp_path):
    bad_fmri(tmp_path)
    with pytest.raises(BadFileError) as caught:
        datasets.load_adni(tmp_path / name)
    assert BAD[name] in str(caught.value)
    assert name in str(caught.value)


def test_arrays_can_be_named(tmp_path):
    bad_fmri(tmp_path)
    bunch = datasets.load_adni(tmp_path / "two.npz", samples="Z", labels="y")
    assert bunch.data.shape == (9, 4, 5, 6)
    assert datasets.load_adni(tmp_path / "two.npz", samples="Z").data.shape == (9, 4, 5, 6)
    with pytest.raises(BadFileError, match="has no array W"):
        datasets.load_adni(tmp_path / "two.npz", samples="W", labels="y")
    with pytest.raises(BadFileError, match="the cells of X must have one shape"):
        datasets.load_adni(tmp_path / "mixed.mat", samples="X", labels="y")
    with pytest.raises(BadFileError, match="has no array X; it holds X/a, y"):
        datasets.load_adni(tmp_path / "struct.mat", samples="X", labels="y")


def test_usual_names_and_unrelated_variables(tmp_path):
    volumes, labels = fmri()
    ragged = np.empty((1, 2), object)
    ragged[0, 0], ragged[0, 1] = np.ones(3), np.ones(4)
    savemat(
        tmp_path / "a.mat", {"X": np.moveaxis(volumes, 0, -1), "Y": labels, "age": np.arange(9.0), "motion": ragged}
    )
    bunch = datasets.load_adhd(tmp_path / "a.mat")
    assert np.array_equal(bunch.data, volumes)
    assert np.array_equal(bunch.target, labels)
    np.savez(tmp_path / "a.npz", X=volumes[:6], y=labels[:6])  # six samples of 4x5x6: an .npz has samples first
    assert np.array_equal(datasets.load_adni(tmp_path / "a.npz").data, volumes[:6])


# ------------------------------------------------------------------------------------------------------- synthetic


def test_low_rank_classes_have_the_difference_they_claim():
    bunch = datasets.make_low_rank_classes(4000, (6, 5, 4), rank=2, distance=4.0, random_state=0)
    assert np.linalg.norm(bunch.difference) == pytest.approx(4.0)
    unfolded = bunch.difference.reshape(6, -1)
    assert np.linalg.matrix_rank(unfolded) == 2
    seen = bunch.data[bunch.target == 1].mean(axis=0) - bunch.data[bunch.target == -1].mean(axis=0)
    assert np.abs(seen - bunch.difference).max() < 0.2
    scores = bunch.data.reshape(4000, -1) @ bunch.difference.ravel()
    accuracy = np.mean((scores > 0) == (bunch.target == 1))
    assert accuracy == pytest.approx(bunch.best_accuracy, abs=0.01)


def test_large_sets_are_made_piece_by_piece_with_the_same_numbers(monkeypatch):
    from tensormargin.datasets import synthetic

    whole = datasets.make_low_rank_classes(50, (4, 5), random_state=3)
    monkeypatch.setattr(synthetic, "_ENTRIES_AT_ONCE", 60)
    assert np.array_equal(datasets.make_low_rank_classes(50, (4, 5), random_state=3).data, whole.data)


def test_fmri_like_volumes_are_smooth_and_carry_the_blob():
    bunch = datasets.make_fmri_like(200, (12, 14, 10), height=0.6, radius=2.0, random_state=0)
    assert bunch.data.dtype == np.float32
    noise = bunch.data[bunch.target == 0]
    assert noise.std() == pytest.approx(1, abs=0.02)
    neighbours = np.mean(noise[:, 1:] * noise[:, :-1])
    assert neighbours > 0.5
    seen = bunch.data[bunch.target == 1].mean(axis=0) - noise.mean(axis=0)
    assert np.corrcoef(seen.ravel(), bunch.blob.ravel())[0, 1] > 0.5
    assert bunch.blob.max() == pytest.approx(0.6, abs=1e-6)


@pytest.mark.parametrize("name", sorted(datasets.CATALOGUE))
def test_axes_are_those_of_the_samples_and_agree_with_the_sampling_frequency(name):
    entry = datasets.CATALOGUE[name]
    if not datasets.is_at_hand(entry) or name in ("mnist", "indian-pines", "adrenal"):  # large, or without axes
        pytest.skip(f"{name} is not at hand, or large")
    bunch = datasets.load_by_name(name)
    if name == "haxby":
        assert "axes" not in bunch  # the source does not say which way the slice lies
        return
    assert checked_axes(bunch.axes, bunch.data.shape[1:]) is not None
    if entry.sfreq is not None:
        assert bunch.axes[-1].sfreq == pytest.approx(entry.sfreq, rel=1e-3)


def test_axes_of_public_recordings_have_names_and_units():
    channel, time = datasets.load_basic_motions().axes
    assert channel.values[0] == "accelerometer 1"
    assert (time.name, time.values) == ("time", None)
