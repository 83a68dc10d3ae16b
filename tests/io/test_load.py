"""Tests of loading samples from every file format, and of errors that name the file, the fault and the remedy."""

from __future__ import annotations

import pickle
import re
import sys
import warnings
from types import SimpleNamespace

import h5py
import nibabel
import numcodecs
import numpy as np
import pytest
import zarr
from PIL import Image
from scipy.io import savemat

from tensormargin import LeakageWarning
from tensormargin.io import BadFileError, load_samples
from tensormargin.io.readers.zarr_stores import describe

X = np.random.default_rng(0).integers(0, 200, (6, 4, 5)).astype(np.uint8)
Y = np.array(["cat", "dog"] * 3)
GROUPS = np.array([1, 1, 2, 2, 3, 3])
AFFINE = np.diag([2.0, 3.0, 4.0, 1.0])


def refused(path, *words, **options):
    """Check that loading the file raises an error with its name and the given words."""
    with pytest.raises(BadFileError) as caught:
        load_samples(path, **options)
    message = str(caught.value)
    assert path.name in message or "labels_from" in options
    for word in words:
        assert word in message, message
    return message


# --- containers


def save_hdf5(path, **arrays):
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            file[name] = array.astype(h5py.string_dtype()) if array.dtype.kind == "U" else array


def save_mat73(path, **arrays):
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, array in arrays.items():
            if array.dtype.kind == "U":
                save_cell_of_text(file, name, array)
            else:
                file[name] = np.atleast_2d(array).T


def save_cell_of_text(file, name, texts):
    references = file.create_dataset(name, (1, len(texts)), h5py.ref_dtype)
    for position, text in enumerate(texts):
        cell = file.create_dataset(f"#refs#/{name}{position}", data=np.array([[ord(letter)] for letter in text], "u2"))
        cell.attrs["MATLAB_class"] = np.bytes_("char")
        references[0, position] = cell.ref


def save_zarr(store, **arrays):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fixed-length text is not specified in version 3
        group = zarr.open_group(store, mode="w")
        for name, array in arrays.items():
            if array.dtype.kind == "U":
                group.create_array(name, shape=array.shape, dtype=str)[:] = array.astype(object)
            else:
                group.create_array(name, data=array)


def save_zarr_zip(path, **arrays):
    with zarr.storage.ZipStore(path, mode="w") as store, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # zipfile warns that metadata are written twice
        save_zarr(store, **arrays)


CONTAINERS = {
    "a.npz": ("NumPy archive", np.savez),
    "a.mat": ("MATLAB file", lambda path, **arrays: savemat(path, arrays)),
    "a73.mat": ("MATLAB file", save_mat73),
    "a.h5": ("HDF5 file", save_hdf5),
    "a.hdf5": ("HDF5 file", save_hdf5),
    "a.hdf": ("HDF5 file", save_hdf5),
    "a.zarr": ("Zarr store", lambda path, **arrays: save_zarr(str(path), **arrays)),
    "plain_folder": ("Zarr store", lambda path, **arrays: save_zarr(str(path), **arrays)),
    "a.zip": ("Zarr store", save_zarr_zip),
}


@pytest.mark.parametrize("name", CONTAINERS)
def test_containers(name, tmp_path):
    kind, save = CONTAINERS[name]
    save(tmp_path / name, X=X, y=Y, groups=GROUPS)
    found = load_samples(tmp_path / name)
    assert np.array_equal(found.data, X)
    assert found.data.dtype == X.dtype
    assert found.target.tolist() == Y.tolist()
    assert found.groups.tolist() == GROUPS.tolist()
    assert (found.kind, found.source) == (kind, str(tmp_path / name))
    assert found.names is None
    assert found.affine is None
    assert found.notes == ()


@pytest.mark.parametrize("name", CONTAINERS)
def test_names_in_containers(name, tmp_path):
    nested = "in/side" if "mat" not in name else "inside"
    CONTAINERS[name][1](tmp_path / name, **{nested: X, "X": X + 1, "diagnosis": GROUPS, "run": GROUPS % 2, "y": GROUPS})
    found = load_samples(tmp_path / name, samples=nested, labels="diagnosis", groups="run")
    assert np.array_equal(found.data, X)
    assert found.target.tolist() == GROUPS.tolist()
    assert found.groups.tolist() == (GROUPS % 2).tolist()
    for option in ("samples", "labels", "groups"):
        refused(tmp_path / name, "has no 'foo'", "(6, 4, 5)", f"--{option}", **{option: "foo"})


@pytest.mark.parametrize("samples", ["X", "data", "samples", "images", "Data", "anything"])
@pytest.mark.parametrize("labels", ["y", "labels", "label", "target", "targets", "Y"])
def test_usual_names(samples, labels, tmp_path):
    arrays = {samples: X, labels: GROUPS[:, None], "age": np.ones((6, 1)), "group": GROUPS, "info": np.array("text")}
    np.savez(tmp_path / "a.npz", **arrays)
    found = load_samples(tmp_path / "a.npz")
    assert np.array_equal(found.data, X)
    assert found.target.tolist() == found.groups.tolist() == GROUPS.tolist()


def test_samples_that_are_not_clear_must_be_named(tmp_path):
    np.savez(tmp_path / "two.npz", a=X, b=X[:, 0], y=Y)
    refused(tmp_path / "two.npz", "2 of its arrays", "a (6, 4, 5), b (6, 5)", "samples=...", "--samples")
    np.savez(tmp_path / "none.npz", a=X[:, 0, 0], y=Y)
    refused(tmp_path / "none.npz", "none of its arrays", "--samples")


def test_npy_is_read_and_only_mapped_if_it_would_fill_the_memory(tmp_path, monkeypatch):
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", Y)
    found = load_samples(tmp_path / "x.npy", labels_from=tmp_path / "y.npy")
    assert not isinstance(found.data, np.memmap)
    assert np.array_equal(found.data, X)
    assert found.target.tolist() == Y.tolist()
    for order in "CF":
        large = np.asarray(np.random.default_rng(0).normal(size=(6, 300, 200)), order=order)
        np.save(tmp_path / "large.npy", large)
        for options in ({"max_bytes": "1 MB"}, {}):
            found = load_samples(tmp_path / "large.npy", labels_from=Y, **options)
            assert isinstance(found.data, np.memmap) == bool(options)
            np.testing.assert_array_equal(found.data, large)
        with monkeypatch.context() as patch:
            patch.setattr("tensormargin.runtime.host._free", lambda n_bytes=2 * large.nbytes: n_bytes)
            found = load_samples(tmp_path / "large.npy", labels_from=Y)
        assert isinstance(found.data, np.memmap)
        np.testing.assert_array_equal(found.data, large)
    assert found.kind == "NumPy array"
    refused(tmp_path / "x.npy", "has no labels", "--labels-from")


def test_a_single_zarr_array(tmp_path):
    zarr.save_array(str(tmp_path / "a.zarr"), X)
    np.save(tmp_path / "y.npy", Y)
    assert np.array_equal(load_samples(tmp_path / "a.zarr", labels_from=tmp_path / "y.npy").data, X)


def test_axis(tmp_path):
    np.savez(tmp_path / "last.npz", X=np.moveaxis(X, 0, -1), y=Y)
    for axis in (2, -1):
        assert np.array_equal(load_samples(tmp_path / "last.npz", axis=axis).data, X)
    refused(tmp_path / "last.npz", "6 labels", "4 samples", "axis=2", "--axis 2")
    refused(tmp_path / "last.npz", "axis=3", "one of the 3 axes", axis=3)
    np.savez(tmp_path / "short.npz", X=X, y=Y, groups=GROUPS[:3])
    refused(tmp_path / "short.npz", "3 groups", "6 samples", "one per sample")


@pytest.mark.parametrize("name", [*CONTAINERS, "a.npy"])
def test_labels_are_optional_for_prediction(name, tmp_path):
    save = CONTAINERS[name][1] if name in CONTAINERS else lambda path, X: np.save(path, X)
    save(tmp_path / name, X=X)
    found = load_samples(tmp_path / name, need_labels=False)
    assert np.array_equal(found.data, X)
    assert found.target is None
    refused(tmp_path / name, "has no labels", "X (6, 4, 5)", "--labels-from")
    refused(tmp_path / name, "size=(3, 3)", "does not apply here", need_labels=False, size=(3, 3))


def test_matlab_text_of_other_forms(tmp_path):
    savemat(tmp_path / "char.mat", {"X": X[:2], "y": np.array(["no ", "yes"])})
    assert load_samples(tmp_path / "char.mat").target.tolist() == ["no", "yes"]
    cells = np.empty((1, 2), object)
    cells[0, 0], cells[0, 1] = "short", "much longer"
    savemat(tmp_path / "cells.mat", {"X": X[:2], "y": cells})
    assert load_samples(tmp_path / "cells.mat").target.tolist() == ["short", "much longer"]
    with h5py.File(tmp_path / "object.mat", "w", userblock_size=512) as file:
        file["X"], file["y"] = X[:2].T, np.ones((1, 6), "u4")
        file["y"].attrs["MATLAB_object_decode"] = 3
    refused(tmp_path / "object.mat", "y is a structure or an object")
    with h5py.File(tmp_path / "empty.mat", "w", userblock_size=512) as file:
        file["X"] = X[:2].T
        save_cell_of_text(file, "y", ["a", "b"])
        file["#refs#/y0"].attrs["MATLAB_empty"] = 1
    refused(tmp_path / "empty.mat", "row 1 has no value")


# --- labels


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (np.array([True, False]), [1, 0]),
        (np.array([1.0, -1.0]), [1, -1]),
        (np.array([[3], [4]], np.uint8), [3, 4]),
        (np.array([[3, 4]], np.int16), [3, 4]),
        (np.array([b"a", "ä".encode()]), ["a", "ä"]),
        (np.array(["1", "2"]), ["1", "2"]),
        (np.array([" a", "b "]), ["a", "b"]),
    ],
)
def test_labels_are_text_or_integers(given, expected, tmp_path):
    np.savez(tmp_path / "a.npz", X=X[:2], y=given, groups=given)
    found = load_samples(tmp_path / "a.npz")
    assert found.target.tolist() == found.groups.tolist() == expected


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (np.array([1.0, np.nan, np.nan]), ("row 2 has no value (NaN) (and 1 more row)", "leave that sample out")),
        (np.array([1.0, 2.0, 0.5]), ("row 3", "not an integer")),
        (np.array([1.0, np.inf, 1.0]), ("row 2", "not an integer")),
        (np.array(["a", "", "b"]), ("row 2", "no value")),
        (np.array(["nan", "a", "b"]), ("row 1", "no value")),
        (np.eye(3), ("must be a vector", "(3, 3)")),
        (np.array([1j, 2, 3]), ("text or integers", "complex128")),
        (np.array([b"\xff", b"a", b"b"]), ("damaged",)),
    ],
)
@pytest.mark.parametrize("what", ["labels", "groups"])
def test_bad_labels_are_refused(what, given, words, tmp_path):
    np.savez(tmp_path / "a.npz", **{"X": X[:3], "y": np.arange(3), what: given})
    refused(tmp_path / "a.npz", *words, labels="labels" if what == "labels" else "y")


TABLES = {
    "a.csv": ("label,group\n", ","),
    "b.csv": ("label;group\n", ";"),
    "bom.csv": ("\ufefflabel,group\n", ","),
    "a.tsv": ("label\tgroup\n", "\t"),
    "a.txt": ("label  group\n", "   "),
}


@pytest.mark.parametrize("name", TABLES)
def test_labels_from_tables(name, tmp_path):
    np.savez(tmp_path / "x.npz", X=X, y=np.zeros(6))
    header, separator = TABLES[name]
    rows = [f"{label}{separator}{group}.0\n" for label, group in zip(Y, GROUPS, strict=True)]
    (tmp_path / name).write_text(header + "".join(rows) + "\n", encoding="utf-8")
    found = load_samples(tmp_path / "x.npz", labels_from=tmp_path / name)
    assert found.target.tolist() == Y.tolist()
    assert found.groups.tolist() == GROUPS.tolist()
    swapped = load_samples(tmp_path / "x.npz", labels_from=tmp_path / name, labels="group", groups="label")
    assert swapped.target.tolist() == GROUPS.tolist()
    assert swapped.groups.tolist() == Y.tolist()
    refused(tmp_path / "x.npz", name, "'foo'", "label, group", labels="foo", labels_from=tmp_path / name)


@pytest.mark.parametrize("name", ["y.npy", "y.npz", "y.mat", "y73.mat", "y.h5"])
def test_labels_from_containers(name, tmp_path):
    np.savez(tmp_path / "x.npz", X=X, groups=GROUPS, run=GROUPS[::-1])
    save = (
        np.save if name == "y.npy" else (lambda path, array: CONTAINERS[name.replace("y", "a")][1](path, alone=array))
    )
    save(tmp_path / name, Y)
    found = load_samples(tmp_path / "x.npz", labels_from=tmp_path / name)
    assert found.target.tolist() == Y.tolist()
    assert found.groups.tolist() == GROUPS.tolist()
    run = load_samples(tmp_path / "x.npz", labels_from=tmp_path / name, groups="run")
    assert run.groups.tolist() == GROUPS[::-1].tolist()
    refused(tmp_path / "x.npz", "has no 'foo'", groups="foo", labels_from=tmp_path / name)


def test_labels_and_groups_from_one_container(tmp_path):
    np.savez(tmp_path / "x.npz", X=X, groups=np.zeros(6))
    np.savez(tmp_path / "y.npz", target=Y, groups=GROUPS, more=GROUPS)
    assert load_samples(tmp_path / "x.npz", labels_from=tmp_path / "y.npz").groups.tolist() == GROUPS.tolist()
    np.savez(tmp_path / "none.npz", a=Y, b=GROUPS)
    refused(tmp_path / "x.npz", "none.npz", "has no labels", "a (6,), b (6,)", labels_from=tmp_path / "none.npz")


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("1 2 3 1 2 3", [1, 2, 3, 1, 2, 3]),
        ("+1 -1 1.0 -1. 1 0", [1, -1, 1, -1, 1, 0]),
        ("01 02 01 02 01 02", ["01", "02"] * 3),
        ("0.5 1 1 1 1 1", ["0.5", "1", "1", "1", "1", "1"]),
        ("label 1 2 3 1 2 3", [1, 2, 3, 1, 2, 3]),
        ("a b a b a b", ["a", "b"] * 3),
    ],
)
@pytest.mark.parametrize("ending", ["csv", "tsv", "txt"])
def test_one_label_a_line(lines, expected, ending, tmp_path):
    np.save(tmp_path / "x.npy", X)
    (tmp_path / f"y.{ending}").write_text(lines.replace(" ", "\n"))
    assert load_samples(tmp_path / "x.npy", labels_from=tmp_path / f"y.{ending}").target.tolist() == expected


def test_header_of_pymvpa(tmp_path):
    np.save(tmp_path / "x.npy", X)
    (tmp_path / "labels.txt").write_text(
        "labels chunks\n" + "".join(f"{y} {g}\n" for y, g in zip(Y, GROUPS, strict=True))
    )
    found = load_samples(tmp_path / "x.npy", labels_from=tmp_path / "labels.txt", groups="chunks")
    assert found.target.tolist() == Y.tolist()
    assert found.groups.tolist() == GROUPS.tolist()


BAD_LABEL_FILES = {
    "absent.csv": (None, ("no such file", "--labels-from")),
    "empty.csv": ("", ("is empty",)),
    "blank.txt": ("\n \n", ("is empty",)),
    "no_rows.csv": ("label,group\n", ("no rows",)),
    "twice.csv": ("label,label\n1,2\n", ("several columns named 'label'",)),
    "ragged.csv": ("label,group\n1,2\n1\n", ("row 2 has 1 values", "2 columns")),
    "unnamed.txt": ("cat 1\ndog 2\n", ("has no labels", "cat, 1", "first line")),
    "few.txt": ("1\n2\n", ("2 labels", "6 samples", "one per sample")),
    "header.csv": ("diagnosis" + "\n1" * 6, ("7 labels", "6 samples", "--labels")),
    "hole.csv": ("label,group\n1,1\n,2\n", ("row 2 has no value",)),
    "latin.csv": ("label\n\xe4".encode("latin-1"), ("UTF-8",)),
    "kind.docx": ("label", ("unknown kind of file '.docx'",)),
}


@pytest.mark.parametrize("name", BAD_LABEL_FILES)
def test_bad_label_files_are_refused(name, tmp_path):
    content, words = BAD_LABEL_FILES[name]
    if content is not None:
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    np.save(tmp_path / "x.npy", X)
    refused(tmp_path / "x.npy", name, *words, labels_from=tmp_path / name)


# --- one file per sample: images, volumes and arrays


def save_volume(path, array, affine=AFFINE):
    nibabel.save(nibabel.Nifti1Image(array, affine), path)


def save_image(path, array):
    Image.fromarray(array).save(path)


FILES = {
    "png": ("images", save_image),
    "tif": ("images", save_image),
    "TIFF": ("images", save_image),
    "npy": ("arrays", np.save),
}


def class_folder(folder, ending="png", save=save_image, arrays=X, labels=Y):
    """Save one file per sample in a subfolder per label; return the samples sorted by file name."""
    for position, (array, label) in enumerate(zip(arrays, labels, strict=True)):
        (folder / str(label)).mkdir(parents=True, exist_ok=True)
        save(folder / str(label) / f"{position}.{ending}", array)
    return folder


@pytest.mark.parametrize("ending", FILES)
def test_class_folders(ending, tmp_path):
    words, save = FILES[ending]
    found = load_samples(class_folder(tmp_path, ending, save))
    assert np.array_equal(found.data, np.concatenate([X[::2], X[1::2]]))
    assert found.data.dtype == np.uint8
    assert found.target.tolist() == ["cat"] * 3 + ["dog"] * 3
    assert found.names[:4] == [f"cat/0.{ending}", f"cat/2.{ending}", f"cat/4.{ending}", f"dog/1.{ending}"]
    assert found.kind == f"class folder of {words}"
    assert found.groups is None
    assert found.notes == ()


def test_class_folders_with_numbers_for_names(tmp_path):
    assert load_samples(class_folder(tmp_path, labels=GROUPS)).target.tolist() == GROUPS.tolist()


@pytest.mark.parametrize("ending", ["nii", "nii.gz"])
def test_class_folders_of_volumes(ending, tmp_path):
    volumes = np.random.default_rng(0).integers(-100, 100, (6, 2, 3, 4)).astype(np.int16)
    found = load_samples(class_folder(tmp_path, ending, save_volume, volumes))
    assert np.array_equal(found.data, np.concatenate([volumes[::2], volumes[1::2]]))
    assert found.data.dtype == np.float32
    assert np.array_equal(found.affine, AFFINE)
    assert found.kind == "class folder of NIfTI volumes"


def test_volumes_are_scaled_as_their_header_says(tmp_path):
    image = nibabel.Nifti1Image(np.arange(24, dtype=np.int16).reshape(2, 3, 4), AFFINE)
    image.header.set_slope_inter(0.5, 10)
    (tmp_path / "a").mkdir()
    nibabel.save(image, tmp_path / "a" / "v.nii")
    raw = nibabel.load(tmp_path / "a" / "v.nii").get_fdata()
    found = load_samples(tmp_path)
    assert np.array_equal(found.data[0], raw.astype(np.float32))


def test_a_volume_may_have_a_fourth_axis_of_length_one(tmp_path):
    class_folder(tmp_path, "nii", save_volume, np.ones((2, 2, 3, 4, 1), np.float32), "ab")
    assert load_samples(tmp_path).data.shape == (2, 2, 3, 4)


def test_differing_affines_are_noted(tmp_path):
    class_folder(tmp_path, "nii", save_volume, np.ones((3, 2, 3, 4), np.float32), "aab")
    save_volume(tmp_path / "b" / "2.nii", np.ones((2, 3, 4), np.float32), 2 * AFFINE)
    found = load_samples(tmp_path)
    assert np.array_equal(found.affine, AFFINE)
    assert found.notes == ("1 file whose affine differs from that of a/0.nii, which is used, e.g. b/2.nii",)


def as_mode(mode):
    rgb = Image.fromarray(np.random.default_rng(0).integers(0, 255, (4, 5, 3)).astype(np.uint8))
    return rgb.convert("RGB").quantize(16) if mode == "P" else rgb.convert(mode)


@pytest.mark.parametrize(
    ("mode", "shape", "same_as"),
    [("L", (4, 5), "L"), ("LA", (4, 5), "L"), ("1", (4, 5), "L"), ("P", (4, 5, 3), "RGB"), ("RGBA", (4, 5, 3), "RGB")],
)
@pytest.mark.parametrize("ending", ["png", "tif"])
def test_image_modes(mode, shape, same_as, ending, tmp_path):
    (tmp_path / "a").mkdir()
    as_mode(mode).save(tmp_path / "a" / f"a.{ending}")
    found = load_samples(tmp_path)
    assert found.data.shape == (1, *shape)
    assert found.data.dtype == np.uint8
    assert np.array_equal(found.data[0], np.asarray(as_mode(mode).convert(same_as)))


@pytest.mark.parametrize("ending", ["png", "tif"])
def test_sixteen_bits(ending, tmp_path):
    deep = (X.astype(np.uint16) * 300)[:2]
    found = load_samples(class_folder(tmp_path, ending, arrays=deep, labels="ab"))
    assert np.array_equal(found.data, deep)
    assert found.data.dtype == np.uint16
    save_image(tmp_path / "a" / f"0.{ending}", X[0])
    refused(tmp_path, f"1.{ending}: has 16 bits per value", "all with 16")


def test_jpeg_and_cmyk(tmp_path):
    for label, mode in (("a", "RGB"), ("b", "CMYK")):
        (tmp_path / label).mkdir()
        Image.new(mode, (5, 4)).save(tmp_path / label / "x.jpg")
    assert load_samples(tmp_path).data.shape == (2, 4, 5, 3)


def test_pages_of_a_tiff(tmp_path):
    def save(path, pages):
        first, *others = map(Image.fromarray, pages)
        first.save(path, save_all=True, append_images=others)

    found = load_samples(class_folder(tmp_path, "tif", save, [X[:3], X[3:]], "ab"))
    assert np.array_equal(found.data, [X[:3], X[3:]])


def test_files_of_other_kinds_are_left_out_and_counted(tmp_path):
    class_folder(tmp_path)
    for name in ("cat/readme.txt", "cat/.hidden.txt", "cat/Thumbs.db", "dog/notes.docx"):
        (tmp_path / name).write_text("")
    (tmp_path / ".git").mkdir()
    (tmp_path / "dog" / "raw").mkdir()
    (tmp_path / "empty").mkdir()
    save_image(tmp_path / "stray.png", X[0])
    found = load_samples(tmp_path)
    assert len(found.data) == 6
    assert found.notes == (
        "3 files of other kinds were left out, e.g. cat/Thumbs.db",
        "1 file outside the class folders was left out, e.g. stray.png",
        "1 folder inside class folders was left out, e.g. dog/raw",
        "1 folder without samples was left out, e.g. empty",
    )


def test_flat_folders(tmp_path):
    for position, image in enumerate(X):
        save_image(tmp_path / f"{position}.png", image)
    refused(tmp_path, "6 files, but no class folders", "--labels-from")
    found = load_samples(tmp_path, need_labels=False)
    assert np.array_equal(found.data, X)
    assert found.target is None
    assert found.names == [f"{position}.png" for position in range(6)]
    assert found.kind == "folder of images"
    np.save(tmp_path.parent / "y.npy", Y)
    assert load_samples(tmp_path, labels_from=tmp_path.parent / "y.npy").target.tolist() == Y.tolist()


def test_one_class_folder_is_read(tmp_path):
    assert set(load_samples(class_folder(tmp_path, labels=["a"] * 6)).target) == {"a"}


# --- tables of paths


@pytest.mark.parametrize(("ending", "separator"), [("csv", ","), ("tsv", "\t")])
def test_tables_of_paths(ending, separator, tmp_path):
    names = [f"images/{position}.png" for position in range(5)] + [str(tmp_path / "elsewhere.png")]
    (tmp_path / "images").mkdir()
    for name, image in zip(names, X, strict=True):
        save_image(tmp_path / name, image)
    rows = [("path", "label", "group"), *zip(names, Y, map(str, GROUPS), strict=True)]
    table = tmp_path / f"table.{ending}"
    table.write_text("\n".join(separator.join(row) for row in rows))
    found = load_samples(table)
    assert np.array_equal(found.data, X)
    assert found.target.tolist() == Y.tolist()
    assert found.groups.tolist() == GROUPS.tolist()
    assert found.names == names
    assert found.kind == "table of images"
    named = load_samples(table, samples="path", labels="group", groups="label")
    assert named.target.tolist() == GROUPS.tolist()
    refused(table, "has no 'foo'", "path, label, group", labels="foo")


def test_tables_of_paths_for_prediction(tmp_path):
    class_folder(tmp_path / "images")
    (tmp_path / "t.csv").write_text("path\nimages/cat/0.png\nimages/dog/1.png\n")
    found = load_samples(tmp_path / "t.csv", need_labels=False)
    assert np.array_equal(found.data, X[:2])
    assert found.target is None
    refused(tmp_path / "t.csv", "has no labels", "--labels-from")


@pytest.mark.parametrize("beside", [True, False])
def test_labels_by_path(beside, tmp_path):
    """Check paths relative to the samples' folder and to the table's own."""
    folder = class_folder(tmp_path / "images")
    prefix = "" if beside else "images/"
    names = [f"{label}/{position}.png" for position, label in enumerate(Y)]
    rows = [
        f"{prefix}{name},{position},{group}" for position, (name, group) in enumerate(zip(names, GROUPS, strict=True))
    ]
    table = tmp_path / "y.csv"
    table.write_text("\n".join(["path,label,group", *reversed(rows), f"{prefix}cat/none.png,9,9"]))
    found = load_samples(folder, labels_from=table)
    assert found.target.tolist() == [0, 2, 4, 1, 3, 5]
    assert found.groups.tolist() == [1, 2, 3, 1, 2, 3]
    assert found.notes == ("y.csv: matched to the files by its column 'path'; rows that name no sample: 1",)
    table.write_text("\n".join(["path,label,group", *rows[1:]]))
    refused(folder, "y.csv", "no row for 1 of 6 samples, e.g. cat/0.png", labels_from=table)
    table.write_text("\n".join(["path,label,group", *rows, rows[0]]))
    refused(folder, "y.csv", "twice", labels_from=table)


BAD_TABLES = {
    "absent": ("path,label\na/0.png,1\nb/9.png,2\n", ("row 2", "'b/9.png'", "relative")),
    "kind": ("path,label\na/0.png,1\nkind.csv,2\n", ("row 2", "'kind.csv'", ".png")),
    "columns": ("size,label\n12,1\n13,2\n", ("a column with the path of each file", "size, label", ".npz")),
    "several": ("raw,mask,label\na/0.png,b/1.png,1\nb/1.png,a/0.png,2\n", ("raw, mask all hold", "--samples")),
    "twice": ("path,label,label\na/0.png,1,1\n", ("several columns named 'label'",)),
    "empty": ("", ("is empty", "path,label")),
    "no_rows": ("path,label\n", ("no rows",)),
    "no_label": ("path,label\na/0.png,1\nb/1.png,\n", ("row 2 has no value",)),
}


@pytest.mark.parametrize("name", BAD_TABLES)
def test_bad_tables_are_refused(name, tmp_path):
    class_folder(tmp_path, arrays=X[:2], labels="ab")
    content, words = BAD_TABLES[name]
    (tmp_path / f"{name}.csv").write_text(content)
    refused(tmp_path / f"{name}.csv", *words)


# --- sizes


def test_files_of_different_sizes(tmp_path):
    class_folder(tmp_path, arrays=[np.full((4, 5), 7, np.uint8), np.full((8, 6), 9, np.uint8)], labels="ab")
    message = refused(tmp_path, "(4, 5)", "(8, 6)", "--size")
    assert re.search(r"b/1\.png.*a/0\.png", message)
    found = load_samples(tmp_path, size=(3, 2))
    assert found.data.shape == (2, 3, 2)
    assert np.allclose(found.data[0], 7)
    assert np.allclose(found.data[1], 9)
    refused(tmp_path, "(4, 5)", "3x2x2", "without the colours", size=(3, 2, 2))
    refused(tmp_path, "positive length", size=(3, 0))
    refused(tmp_path, "positive length", size=())


def test_colours_stay_when_images_are_resized(tmp_path):
    class_folder(tmp_path, arrays=[np.ones((4, 5, 3), np.uint8), np.ones((6, 6, 3), np.uint8)], labels="ab")
    assert load_samples(tmp_path, size=(4, 4)).data.shape == (2, 4, 4, 3)


def test_arrays_of_other_shapes_and_types(tmp_path):
    class_folder(tmp_path, "npy", np.save, arrays=[X[0], np.ones((4, 5, 3), np.uint8)], labels="ab")
    refused(tmp_path, "(4, 5, 3)", "(4, 5)", "greyscale or colour")
    np.save(tmp_path / "b" / "1.npy", np.ones((4, 5), np.uint16))
    found = load_samples(tmp_path)
    assert found.data.dtype == np.uint16
    assert found.notes == ("the files hold numbers of different types, all of which became uint16",)


def test_the_affine_follows_the_size(tmp_path):
    """A grid with twice the step spans the same box: its first voxel lies between the first two of the file."""
    class_folder(tmp_path, "nii", save_volume, np.ones((1, 4, 4, 4), np.float32), "a")
    save_volume(tmp_path / "a" / "finer.nii", np.ones((8, 8, 8), np.float32), resized_affine(0.5))
    found = load_samples(tmp_path, size=(2, 2, 2))
    assert np.allclose(found.affine, resized_affine(2))
    assert found.notes == ()


def resized_affine(step):
    affine = AFFINE * [step, step, step, 1]
    affine[:3, 3] = AFFINE.diagonal()[:3] * (step - 1) / 2
    return affine


# --- 4-D NIfTI


@pytest.mark.parametrize("ending", ["nii", "nii.gz"])
def test_four_dimensional_nifti(ending, tmp_path):
    volumes = np.random.default_rng(0).normal(size=(2, 3, 4, 6)).astype(np.float32)
    path = tmp_path / f"bold.{ending}"
    save_volume(path, volumes)
    (tmp_path / "labels.txt").write_text("label group\n" + "".join(f"{y} 1\n" for y in Y))
    found = load_samples(path, labels_from=tmp_path / "labels.txt")
    assert np.array_equal(found.data, np.moveaxis(volumes, -1, 0))
    assert found.target.tolist() == Y.tolist()
    assert found.groups.tolist() == [1] * 6
    assert np.array_equal(found.affine, AFFINE)
    assert found.kind == "4-D NIfTI"
    assert load_samples(path, need_labels=False).target is None
    refused(path, "no labels", "--labels-from")
    refused(path, "axis=1", "last axis", axis=1, need_labels=False)
    (tmp_path / "four.txt").write_text("1\n2\n1\n2\n")
    message = refused(path, "4 labels", "6 samples", labels_from=tmp_path / "four.txt")
    assert "--axis" not in message


def test_nifti_of_other_dimensions_or_types(tmp_path):
    save_volume(tmp_path / "three.nii", np.ones((2, 3, 4), np.float32))
    assert load_samples(tmp_path / "three.nii", need_labels=False).data.shape == (1, 2, 3, 4)  # one sample
    refused(tmp_path / "three.nii", "no labels", "--labels-from")
    class_folder(tmp_path / "classes", "nii", save_volume, np.ones((1, 2, 3, 4, 5), np.float32), "a")
    refused(tmp_path / "classes", "0.nii", "4 axes", "(2, 3, 4, 5)", "--labels-from")
    save_volume(tmp_path / "complex.nii", np.ones((2, 3, 4, 5), np.complex64))
    refused(tmp_path / "complex.nii", "real numbers", need_labels=False)


# --- errors


def test_paths_that_lead_nowhere(tmp_path):
    refused(tmp_path / "absent.npz", "no such file or folder")
    (tmp_path / "a.docx").write_text("")
    refused(tmp_path / "a.docx", "unknown kind of file '.docx'", ".npz")
    (tmp_path / "folder" / "class").mkdir(parents=True)
    refused(tmp_path / "folder", "holds no samples", ".png")
    refused(tmp_path / "folder", "holds no samples", need_labels=False)
    refused(tmp_path / "folder", "groups='a'", "does not apply here", groups="a")


@pytest.mark.parametrize("name", [name for name in CONTAINERS if name != "plain_folder"])
@pytest.mark.parametrize("value", [np.nan, np.inf, "text", 1j])
def test_bad_samples_are_refused(name, value, tmp_path):
    array = np.full((6, 4, 5), "text") if value == "text" else np.where(X > 198, value, X)
    if value == "text" and "mat" in name:
        array = np.array(["text"] * 6)
    CONTAINERS[name][1](tmp_path / name, X=array, y=GROUPS)
    what = "NaN" if value != value else "infinity"
    number = int(np.sum(X > 198))
    words = (
        f"holds {what} in {number} of its {X.size} entries" if isinstance(value, float) else "must hold real numbers"
    )
    refused(tmp_path / name, words)


def test_bad_entries_are_found_beyond_the_first_part(tmp_path):
    array = np.zeros((3, 1200, 1200), np.float32)
    array[2, -1, -1] = np.nan
    np.save(tmp_path / "x.npy", array)
    refused(tmp_path / "x.npy", "NaN in 1 of its 4320000 entries, in 1 of 3 samples", need_labels=False)
    refused(
        tmp_path / "x.npy",
        "sample 3, index 1200 of mode 1, index 1200 of mode 2 (counted from 1)",
        "--missing",
        need_labels=False,
    )


@pytest.mark.parametrize("array", [np.ones(6), np.ones((6, 0)), np.ones((0, 3))])
def test_shapes_without_samples_are_refused(array, tmp_path):
    np.savez(tmp_path / "a.npz", X=array)
    refused(tmp_path / "a.npz", "(n_samples, I_1, ...)", need_labels=False)


@pytest.mark.parametrize("name", [name for name in CONTAINERS if "a" in name[0]])
@pytest.mark.parametrize("damage", ["cut", "nonsense"])
def test_damaged_containers_are_refused(name, damage, tmp_path):
    path = tmp_path / name
    CONTAINERS[name][1](path, X=np.random.default_rng(0).normal(size=(6, 40, 50)), y=GROUPS)
    damaged = max(path.rglob("c/*/*/*"), key=str) if path.is_dir() else path
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[: len(whole) // 2] if damage == "cut" else b"nonsense" * 100)
    message = refused(path)
    assert re.search("not an? .*(damaged|cut short)", message)


@pytest.mark.parametrize("ending", ["png", "jpg", "tif", "nii", "nii.gz", "npy"])
@pytest.mark.parametrize("damage", ["cut", "nonsense", "empty"])
def test_damaged_files_are_refused_by_name(ending, damage, tmp_path):
    (tmp_path / "a").mkdir()
    path = tmp_path / "a" / f"0.{ending}"
    noise = np.random.default_rng(0).integers(0, 255, (20, 30, 3)).astype(np.uint8)
    {"nii": save_volume, "nii.gz": save_volume, "npy": np.save}.get(ending, save_image)(path, noise)
    whole = path.read_bytes()
    path.write_bytes({"cut": whole[: len(whole) // 2], "nonsense": b"nonsense" * 100, "empty": b""}[damage])
    message = refused(tmp_path, "damaged")
    assert path.name in message


def test_huge_images_are_refused(tmp_path):
    class_folder(tmp_path)
    refused(tmp_path, "0.png", "max_bytes", max_bytes=50)


def test_arrays_of_other_things_in_class_folders(tmp_path):
    class_folder(tmp_path, "npy", np.save, [np.array(["a", "b"])], "a")
    refused(tmp_path, "0.npy", "real numbers")


@pytest.mark.parametrize(
    ("package", "name", "extra"),
    [("h5py", "a.h5", "hdf5"), ("h5py", "a73.mat", "hdf5"), ("zarr", "a.zarr", "zarr"), ("nibabel", "a.nii", "neuro")],
)
def test_missing_packages_are_named(package, name, extra, monkeypatch, tmp_path):
    if name == "a.nii":
        save_volume(tmp_path / name, np.ones((2, 3, 4, 5)))
    else:
        CONTAINERS[name][1](tmp_path / name, X=X)
    monkeypatch.setitem(sys.modules, package, None)
    refused(tmp_path / name, f"needs {package}", f"pip install 'tensormargin[{extra}]'", need_labels=False)


# --- nothing is ever unpickled


class Trap:
    """An object that creates a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def trapped_zarr(path, trap, codec_place):
    """Write a Zarr array whose metadata request unpickling."""
    codec = {"id": "pickle", "protocol": 4}
    metadata = {"zarr_format": 2, "shape": [2, 2], "chunks": [2, 2], "fill_value": None, "order": "C", "dtype": "<f8"}
    metadata |= {"compressor": None, "filters": None} | codec_place(codec)
    (path / "X").mkdir(parents=True)
    (path / ".zgroup").write_text('{"zarr_format": 2}')
    (path / "X" / ".zarray").write_text(str(metadata).replace("None", "null").replace("'", '"'))
    (path / "X" / "0.0").write_bytes(pickle.dumps(trap))


DISGUISES = {
    **{
        f"pickle{ending}": lambda path, trap: path.write_bytes(pickle.dumps(trap))
        for ending in (".npy", ".npz", ".mat", ".h5", ".zip", ".nii", ".nii.gz", ".csv")
    },
    "objects.npy": lambda path, trap: np.save(path, np.array([[trap]], object)),
    "objects.npz": lambda path, trap: np.savez(path, X=np.array([[trap]], object)),
    "filter.zarr": lambda path, trap: trapped_zarr(path, trap, lambda codec: {"filters": [codec]}),
    "compressor.zarr": lambda path, trap: trapped_zarr(path, trap, lambda codec: {"compressor": codec}),
    "objects.zarr": lambda path, trap: trapped_zarr(path, trap, lambda codec: {"filters": [codec], "dtype": "|O"}),
}


@pytest.mark.parametrize("name", DISGUISES)
def test_pickles_in_disguise_are_not_unpickled(name, tmp_path):
    trap = Trap(tmp_path / "sprung")
    DISGUISES[name](tmp_path / name, trap)
    refused(tmp_path / name, need_labels=False)
    np.save(tmp_path / "x.npy", X)
    if (tmp_path / name).is_file():
        refused(tmp_path / "x.npy", name, labels_from=tmp_path / name)
    assert not trap.path.exists()
    pickle.loads(pickle.dumps(trap)).close()
    assert trap.path.exists()


def test_objects_elsewhere_in_an_archive_do_no_harm(tmp_path):
    trap = Trap(tmp_path / "sprung")
    np.savez(tmp_path / "a.npz", X=X, y=Y, model=np.array([[trap]], object))
    assert np.array_equal(load_samples(tmp_path / "a.npz").data, X)
    refused(tmp_path / "a.npz", "model", "Python objects are not accepted", samples="model")
    assert not trap.path.exists()


def test_arrays_that_zarr_would_unpickle_are_refused():
    """Check an array of numbers stored as a pickle, which zarr before 3.1 would open."""
    array = SimpleNamespace(
        filters=[numcodecs.Pickle()], compressors=(), shape=(2, 2), dtype=np.dtype(float), chunks=(2, 2), shards=None
    )
    fault = describe("X", array).fault
    assert fault.startswith("X holds object")
    assert "not accepted" in fault


@pytest.mark.parametrize("kind", ["reference", "variable length", "record"])
def test_other_types_in_hdf5_are_refused(kind, tmp_path):
    dtypes = {"reference": h5py.ref_dtype, "variable length": h5py.vlen_dtype(int), "record": np.dtype([("a", int)])}
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("X", (2, 2), dtypes[kind])
        file["y"] = [1, 2]
    refused(tmp_path / "a.h5", "X holds", "neither numbers nor text")


# ------------------------------------------------------------------------------------------------------- ignored groups


@pytest.mark.parametrize("name", CONTAINERS)
@pytest.mark.parametrize("field", ["group", "groups"])
def test_labels_of_a_name_of_groups_are_not_groups_too(name, field, tmp_path):
    CONTAINERS[name][1](tmp_path / name, X=X, **{field: GROUPS})
    found = load_samples(tmp_path / name, labels=field)
    assert found.target.tolist() == GROUPS.tolist()
    assert found.groups is None
    refused(tmp_path / name, "as labels and as groups", "--no-groups", labels=field, groups=field)


def test_the_other_name_of_groups_is_still_taken(tmp_path):
    np.savez(tmp_path / "a.npz", X=X, group=GROUPS, groups=GROUPS % 2)
    assert load_samples(tmp_path / "a.npz", labels="group").groups.tolist() == (GROUPS % 2).tolist()
    assert load_samples(tmp_path / "a.npz", labels="groups").groups.tolist() == GROUPS.tolist()


def test_what_is_asked_for_as_groups_is_not_taken_for_the_labels(tmp_path):
    np.savez(tmp_path / "a.npz", X=X, label=Y, y=GROUPS)
    found = load_samples(tmp_path / "a.npz", groups="y")
    assert found.target.tolist() == Y.tolist()
    assert found.groups.tolist() == GROUPS.tolist()
    np.savez(tmp_path / "b.npz", X=X, y=GROUPS)
    refused(tmp_path / "b.npz", "has no labels", groups="y")


@pytest.mark.parametrize("name", CONTAINERS)
def test_groups_of_containers_can_be_left(name, tmp_path):
    CONTAINERS[name][1](tmp_path / name, X=X, y=Y, groups=GROUPS)
    found = load_samples(tmp_path / name, groups=False)
    assert found.groups is None
    assert found.target.tolist() == Y.tolist()
    assert np.array_equal(found.data, X)


def test_groups_of_tables_and_files_of_labels_can_be_left(tmp_path):
    for number, one in enumerate(X):
        np.save(tmp_path / f"{number}.npy", one)
    rows = [f"{number}.npy,{label},{group}\n" for number, (label, group) in enumerate(zip(Y, GROUPS, strict=True))]
    (tmp_path / "table.csv").write_text("path,label,group\n" + "".join(rows))
    np.savez(tmp_path / "x.npz", X=X, group=GROUPS)
    np.savez(tmp_path / "y.npz", y=Y, group=GROUPS)
    given = [("table.csv", {})] + [("x.npz", {"labels_from": tmp_path / name}) for name in ("table.csv", "y.npz")]
    for name, options in given:
        assert load_samples(tmp_path / name, **options).groups.tolist() == GROUPS.tolist()
        left = load_samples(tmp_path / name, groups=False, **options)
        assert left.groups is None
        assert left.target.tolist() == Y.tolist()
        classes = load_samples(tmp_path / name, labels="group", **options)
        assert classes.target.tolist() == GROUPS.tolist()
        assert classes.groups is None  # nor from a file next to the samples


def test_no_groups_can_be_asked_for_where_there_are_none(tmp_path):
    for label in ("a", "b"):
        (tmp_path / "folder" / label).mkdir(parents=True)
        np.save(tmp_path / "folder" / label / "0.npy", X[0])
    assert load_samples(tmp_path / "folder", groups=False).groups is None
    with pytest.raises(ValueError, match="got True"):
        load_samples(tmp_path / "folder", groups=True)


# -------------------------------------------------------------------------------------------------------- unused groups

SUBJECTS = np.array([1, 1, 2, 2, 3, 3])


class TestUnusedGroups:
    """Unused columns are warned about if no groups are given; `pytest` turns other warnings into errors."""

    @pytest.mark.parametrize("name", CONTAINERS)
    def test_an_array_that_is_called_like_a_grouping(self, name, tmp_path):
        CONTAINERS[name][1](tmp_path / name, X=X, y=Y, subject=SUBJECTS, run=SUBJECTS % 2)
        with pytest.warns(LeakageWarning, match=r"'subject' has 3 different values for 6 samples.*--groups subject"):
            found = load_samples(tmp_path / name)
        assert found.groups is None  # only warned about
        assert len(found.warnings) == 1  # about the larger unit
        assert str(tmp_path / name) in found.warnings[0]
        assert found.notes == ()
        for groups in ("subject", "run", False):
            assert load_samples(tmp_path / name, groups=groups).warnings == ()
        assert load_samples(tmp_path / name, need_labels=False).warnings == found.warnings  # without a LeakageWarning

    @pytest.mark.parametrize(
        "column",
        ["sub", "Subject", "subject_id", "participant", "participant_id", "PatientID", "patient", "session", "run",
         "Run Number", "subj", "subjects", "donor_id", "recording", "mouse", "chunks", "info/subject"],
    )  # fmt: skip
    def test_names_of_groupings(self, column, tmp_path):
        np.savez(tmp_path / "a.npz", X=X, y=Y, **{column: SUBJECTS})
        with pytest.warns(LeakageWarning, match="is not used"):
            load_samples(tmp_path / "a.npz")
        if "/" in column:
            return
        (tmp_path / "a.csv").write_text(
            f"label,{column}\n" + "".join(f"{y},{g}\n" for y, g in zip(Y, SUBJECTS, strict=True))
        )
        np.save(tmp_path / "x.npy", X)
        with pytest.warns(LeakageWarning, match=rf"a\.csv: '{column}' has 3 different values for 6 samples"):
            load_samples(tmp_path / "x.npy", labels_from=tmp_path / "a.csv")

    @pytest.mark.parametrize(
        "others",
        [
            {"subject": np.arange(6)},  # one sample per subject
            {"run": np.ones(6)},
            {"age": SUBJECTS, "subtype": SUBJECTS, "runtime": SUBJECTS, "substance": SUBJECTS, "groupsize": SUBJECTS},
            {"subject": SUBJECTS[:3], "run": np.ones((6, 2)), "session": np.array(3)},  # not one entry per sample
        ],
    )
    def test_what_is_no_grouping_raises_no_alarm(self, others, tmp_path):
        np.savez(tmp_path / "a.npz", X=X, y=Y, **others)
        assert load_samples(tmp_path / "a.npz").warnings == ()

    def test_a_grouping_that_is_the_label_or_beside_groups_raises_no_alarm(self, tmp_path):
        np.savez(tmp_path / "a.npz", X=X, subject=SUBJECTS)
        assert load_samples(tmp_path / "a.npz", labels="subject").warnings == ()
        np.savez(tmp_path / "b.npz", X=X, y=Y, subject=SUBJECTS, groups=SUBJECTS % 2)
        assert load_samples(tmp_path / "b.npz").warnings == ()
        np.savez(tmp_path / "c.npz", X=X, subject=SUBJECTS)
        np.savez(tmp_path / "y.npz", y=Y, group=SUBJECTS)
        assert load_samples(tmp_path / "c.npz", labels_from=tmp_path / "y.npz").warnings == ()

    def files(self, folder, names, classes=("a", "b")):
        for number, name in enumerate(names):
            path = folder / classes[number % len(classes)] / name
            path.parent.mkdir(parents=True, exist_ok=True)
            np.save(path, X[number])
        return folder

    @pytest.mark.parametrize(
        ("names", "said"),
        [
            ([f"sub-{s:02d}_run-{r}_bold.npy" for s in (1, 2, 3) for r in (1, 2)], "6 files are of 3 subjects"),
            ([f"study_sub-{s}_ses-{r}.npy" for s in "AB" for r in (1, 2, 3)], "6 files are of 2 subjects"),
            ([f"sub-01_run-{r}_trial-{t}.npy" for r in (1, 2) for t in (1, 2, 3)], "6 files are of 2 runs"),
            ([f"sub-01_ses-{r}_trial-{t}.npy" for r in (1, 2) for t in (1, 2, 3)], "6 files are of 2 sessions"),
        ],
    )
    def test_names_as_in_bids(self, names, said, tmp_path):
        folder = self.files(tmp_path / "folder", names)
        with pytest.warns(LeakageWarning, match=f"{said}, and there are no groups.*--labels-from"):
            found = load_samples(folder)
        assert found.groups is None
        assert load_samples(folder, groups=False).warnings == ()
        rows = "".join(f"folder/{name},{label}\n" for name, label in zip(found.names, found.target, strict=True))
        (tmp_path / "table.csv").write_text("path,label\n" + rows)
        with pytest.warns(LeakageWarning, match=said):
            load_samples(tmp_path / "table.csv")
        rows = "".join(f"{name},{label},{name[2:8]}\n" for name, label in zip(found.names, found.target, strict=True))
        (tmp_path / "groups.csv").write_text("path,label,group\n" + rows)
        assert load_samples(folder, labels_from=tmp_path / "groups.csv").warnings == ()

    @pytest.mark.parametrize(
        "names",
        [
            [f"sub-{number:02d}_run-{number % 2}.npy" for number in range(6)],  # one sample per subject
            [f"sub-01_{number}.npy" for number in range(6)],  # one subject
            [f"subject {number % 2} trial-{number}.npy" for number in range(6)],
            [f"submarine_rerun-{number % 2}_{number}.npy" for number in range(6)],
        ],
    )
    def test_other_names_raise_no_alarm(self, names, tmp_path):
        assert load_samples(self.files(tmp_path, names)).warnings == ()

    def test_folders_of_subjects_in_a_table(self, tmp_path):
        rows = []
        for number, one in enumerate(X):
            path = tmp_path / f"sub-{number % 3}" / f"{number}.npy"
            path.parent.mkdir(exist_ok=True)
            np.save(path, one)
            rows.append(f"{path.relative_to(tmp_path)},{Y[number]}\n")
        (tmp_path / "table.csv").write_text("path,label\n" + "".join(rows))
        with pytest.warns(LeakageWarning, match="6 files are of 3 subjects"):
            load_samples(tmp_path / "table.csv")

    def test_only_the_rows_that_are_used_count(self, tmp_path):
        """The table has several rows per subject, but the folder only one file of each."""
        folder = self.files(tmp_path / "folder", [f"{number}.npy" for number in range(6)])
        rows = [f"{'ab'[n % 2]}/{n}.npy,{Y[n]},{n}\n" for n in range(6)]
        rows += [f"elsewhere/{n}.npy,{Y[n]},{n}\n" for n in range(6)]
        (tmp_path / "all.csv").write_text("path,label,subject\n" + "".join(rows))
        assert load_samples(folder, labels_from=tmp_path / "all.csv").warnings == ()
