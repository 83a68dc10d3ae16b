"""Files that are damaged, hostile or too large: one message with the file's name, and nothing else is read or ends.

The crafted files are those of campaigns/files.py, which also damages thousands of files at random.
"""

from __future__ import annotations

import errno
import gzip
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import warnings
from functools import cache
from itertools import product
from pathlib import Path

import h5py
import nibabel
import numpy as np
import pytest
import zarr
from conftest import run
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from PIL import Image
from scipy.io import loadmat, savemat

sys.path.insert(0, str(Path(__file__).parents[2]))  # campaigns are not installed

from campaigns.files import CRAFTED, FORMATS, LONGEST_MESSAGE, Loader, read_file, write_damaged

from tensormargin.data import FileRules, parsed_bytes
from tensormargin.io import BadFileError, load_samples, load_views, read_arrays, sha256_of, write_samples
from tensormargin.io.arrays import open_arrays
from tensormargin.io.readers import plain, process
from tensormargin.io.readers.process import ALLOCATOR, read_message, write_message
from tensormargin.runtime import in_bytes, listed, quoted

X = np.random.default_rng(0).integers(0, 200, (6, 4, 5)).astype(np.uint8)
Y = np.arange(6) % 2
SLOW = ("many_members", "long_tail")  # a second each: only in the campaign
LONG = ("blanks_in_a_header", "lists_without_an_end", "blanks_in_mode_names")  # took hours


def refused(path, *words, **options):
    with pytest.raises(BadFileError) as caught:
        load_samples(path, **options)
    message = str(caught.value)
    for word in (path.name, *words):
        assert word in message, message
    assert len(message) < LONGEST_MESSAGE
    return message


# -------------------------------------------------------------------------------------------------------- crafted files

FAULTS = {
    "nested_cells": "its parser crashed",
    "cells_of_cells": "again and again",
    "own_cell": "again and again",
    "empty_texts": "not plausible for",
    "many_chunks": "0 of its 100000000 chunks",
    "many_chunks_filled": "not plausible",
    "missing_chunk": "2 of its 3 chunks",
    "nested_groups": "at most 64 deep",
    "unwritten_texts": "not plausible for",
    "external_storage": "lies in another file (external storage)",
    "virtual_storage": "lies in another file (a virtual data set)",
    "external_link": "lies in another file (a link)",
    "many_pages": "at most 10000 pages",
    "fdt_elsewhere": "leads out of",
    "huge_eeglab": "must have 288000000000000 bytes",
    "circular_structure": "at most 64 deep",
    "late_events": "lasts 1.08 s",
    "huge_size": "a sample of size 1000000x1000000 would need 8000 GB",
    "link_out_of_a_folder": "leads out of",
    "link_to_a_folder": "leads out of",
    "link_in_a_store": "leads out of",
    "path_out_of_a_table": "row 1",
    "folder_of_another_encoding": "not UTF-8",
    "cells_elsewhere": "lies in another file (external storage)",
    "header_elsewhere": "leads out of",
    "link_to_participants": "leads out of",
    "participants_above": "leads out of",
    "link_to_events": "its events",
    "events_above": "its events",
    "link_to_confounds": "leads out of",
    "volume_that_is_its_own_link": "cannot be opened",
    "blanks_in_a_header": '"lines" must be',
    "lists_without_an_end": '"lines" must be',
    "long_line": "at most 1048576 characters",
    "blanks_in_mode_names": "name or name[unit]",
}


@pytest.mark.parametrize("name", [name for name in CRAFTED if name not in (*SLOW, *LONG)])
def test_crafted_files_are_refused(name, tmp_path):
    folder = tmp_path / "files"
    folder.mkdir()
    path, options = CRAFTED[name](folder)
    with pytest.raises(BadFileError) as caught:
        loaded(folder, path, options)
    message = str(caught.value)
    assert str(folder) in message
    assert FAULTS.get(name, "") in message
    assert "regular file" in message or not name.startswith(("pipe", "device"))
    assert len(message) < LONGEST_MESSAGE


@pytest.mark.parametrize(
    "name", ["external_storage", "virtual_storage", "external_link", "link_to_a_folder", "path_out_of_a_table"]
)
def test_files_elsewhere_can_be_allowed(name, tmp_path):
    (tmp_path / "files").mkdir()
    path, options = CRAFTED[name](tmp_path / "files")
    found = load_samples(tmp_path / "files" / path, allow_external=True, **options)
    assert found.data.shape[1:] in ((8,), (8, 9))


def test_files_that_the_user_names_may_be_links(tmp_path):
    """What such a file leads to must lie beside the link."""
    (tmp_path / "files").mkdir()
    np.save(tmp_path / "a.npy", X)
    (tmp_path / "labels.csv").write_text("label\n" + "\n".join(map(str, Y)))
    for name in ("a.npy", "labels.csv"):
        (tmp_path / "files" / name).symlink_to(tmp_path / name)
    found = load_samples(tmp_path / "files" / "a.npy", labels_from=tmp_path / "files" / "labels.csv")
    assert found.target.tolist() == Y.tolist()


LEADING = ("link_to_participants", "link_to_events", "link_to_confounds", "header_elsewhere", "fdt_elsewhere")
watched: list[tuple[Path, set[Path]]] = []  # folders, and the files in them that are opened


@cache
def watch():
    def record(event, arguments):
        if watched and event == "open" and isinstance(arguments[0], str | bytes):
            path, (folder, opened) = Path(os.path.abspath(os.fsdecode(arguments[0]))), watched[-1]
            opened.update([path] if path.is_relative_to(folder) and path.exists() else [])

    sys.addaudithook(record)  # which stays


@pytest.mark.parametrize("name", [*FORMATS, *LEADING])
def test_every_file_is_checked_before_it_is_opened(name, tmp_path, monkeypatch):
    """All files that Python opens, here also those of the reader process, were checked by the same function."""
    write, options = (CRAFTED[name], {"allow_external": True}) if name in LEADING else (FORMATS[name].write, {})
    path, more = write(tmp_path)
    checked, opened, check_file = set(), set(), FileRules.check_file

    def check(rules, path, *origin):
        checked.add(Path(os.path.abspath(path)))
        check_file(rules, path, *origin)

    monkeypatch.setattr(sys, "frozen", True, raising=False)  # without another process
    monkeypatch.setattr(FileRules, "check_file", check)
    watch()
    watched.append((tmp_path, opened))
    try:
        with warnings.catch_warnings(action="ignore"):
            loaded(tmp_path, path, {**options, **more})
    finally:
        watched.pop()
    assert opened <= checked
    assert opened or name in ("HDF5", "HDF5, compressed", "TIFF scene"), "C code opens these"


@pytest.mark.parametrize(
    ("name", "fault"), [("npz", errno.ENOMEM), ("npz", errno.EMFILE), *((name, None) for name in FORMATS)]
)
def test_a_fault_of_the_system_is_none_of_the_file(name, fault, tmp_path, monkeypatch):
    path, options = FORMATS[name].write(tmp_path)
    (number, words) = (
        (errno.EMFILE, "cannot be opened") if fault == errno.EMFILE else (errno.ENOMEM, "more memory than")
    )

    def fail(*_, **__):
        try:
            raise OSError(number, os.strerror(number))
        except OSError as error:
            if fault is not None:
                raise
            raise ValueError("a parser that does not know why") from error

    monkeypatch.setattr(sys, "frozen", True, raising=False)  # without another process
    admit = FileRules.admit
    monkeypatch.setattr(
        FileRules, "admit", lambda *all_, **more: (admit if all_[1].suffix == ".csv" else fail)(*all_, **more)
    )
    monkeypatch.setattr(plain, "_read", fail)
    if name == "table":
        monkeypatch.setattr(Path, "read_text", fail)
    with pytest.raises(BadFileError, match=words) as caught, warnings.catch_warnings(action="ignore"):
        loaded(tmp_path, path, options)
    assert "damaged" not in str(caught.value)


@pytest.mark.skipif(sys.platform == "win32", reason="such names are not allowed")
@pytest.mark.parametrize("name", FORMATS)
def test_paths_are_paths(name, tmp_path, monkeypatch):
    """Names that libraries might take for addresses, drivers, patterns or numbers are names of folders."""
    (tmp_path / "plain").mkdir()
    monkeypatch.chdir(tmp_path)
    odd = Path("reference::a", 's3:NETCDF:"x"', "[*?]%20#!%d$b")
    path, options = FORMATS[name].write(tmp_path / "plain")
    shutil.copytree(tmp_path / "plain", odd)
    np.testing.assert_array_equal(loaded(odd, path, {**options}), loaded(tmp_path / "plain", path, options))


def test_a_folder_is_no_chain_of_addresses(tmp_path, monkeypatch):
    """A folder named reference::evil.zarr, beside a file evil.zarr that fsspec takes for references to files."""
    (tmp_path / "secret").write_bytes(bytes(range(48)))
    evil = Path("reference::evil.zarr")
    (tmp_path / "in" / evil).mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "in")
    (evil / "0.0").touch()
    about = {"zarr_format": 2, "shape": [6, 8], "chunks": [6, 8], "dtype": "|u1", "fill_value": 0, "order": "C"}
    references = {".zarray": json.dumps({**about, "compressor": None, "filters": None}), "0.0": [f"{tmp_path}/secret"]}
    Path("evil.zarr").write_text(json.dumps({"version": 1, "refs": references}), encoding="utf-8")
    refused(evil, "not a Zarr store", need_labels=False)
    write_samples("memory::a.zarr", [X], X.shape, X.dtype, {"y": Y})
    np.testing.assert_array_equal(load_samples("memory::a.zarr").data, X)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
@pytest.mark.parametrize("kind", ["external", "virtual", "link"])
def test_hdf5_leads_to_regular_files_only(kind, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with h5py.File(tmp_path / "a.mat", "w", userblock_size=512) as file:
        if kind == "external":
            file.create_dataset("X", (6, 8), "u1", external=[(str(tmp_path / "pipe"), 0, 48)])
        elif kind == "virtual":
            layout = h5py.VirtualLayout((6, 8), "u1")
            layout[:] = h5py.VirtualSource("pipe", "X", (6, 8))
            file.create_virtual_dataset("X", layout)
        else:
            file["X"] = h5py.ExternalLink("pipe", "X")
    refused(tmp_path / "a.mat", "regular files only", need_labels=False, allow_external=True)


def test_text_of_files_takes_linear_time(tmp_path):
    """Long lines, names and labels, of the kind that regular expressions need quadratic or cubic time for."""
    np.savez(tmp_path / "a.npz", **{"X": X, "y": Y, "a_" * 15_000 + "!": Y, "subject" * 4000 + "s": Y, "S" * 60_000: Y})
    names = ["label", "sub" * 30_000, "sub-" * 20_000, " " * 100_000 + "x"]
    rows = [["0" * 100_000 + end, "sub-" * 20_000, "+" * 100_000, "1" * 100_000 + "."] for end in "ababab"]
    (tmp_path / "labels.csv").write_text("\n".join(",".join(row) for row in (names, *rows)))
    loader = Loader()  # a process that may take a minute per file
    try:
        assert loader.load(tmp_path, "a.npz", {})["kind"] == "values"
        assert loader.load(tmp_path, "a.npz", {"labels_from": "labels.csv"})["kind"] == "values"
        for name in LONG:
            found = loader.load(tmp_path, *CRAFTED[name](tmp_path))
            assert found["kind"] == "message"
            assert FAULTS[name] in found["text"]
    finally:
        loader.end()


def test_paths_in_a_table_of_labels_that_lead_nowhere(tmp_path):
    (tmp_path / "samples").mkdir()
    np.save(tmp_path / "samples" / "a.npy", X[0])
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "labels.csv").write_text("path,label\na\0.npy,x\nloop,y\n", encoding="utf-8")
    with pytest.raises(BadFileError, match=r"labels\.csv: .* none of its columns \(path\)"):
        load_samples(tmp_path / "samples", labels_from=tmp_path / "labels.csv")


def test_the_command_line_has_the_same_rules(tmp_path):
    (tmp_path / "files").mkdir()
    path, _ = CRAFTED["external_storage"](tmp_path / "files")
    for options in ((), ("--allow-external", "--max-bytes", "10")):
        result = run("fit", tmp_path / "files" / path, "-o", tmp_path / "model.skops", *options)
        assert result.returncode == 2
        assert "a.h5" in result.stderr
        assert "Traceback" not in result.stderr
        assert ("max_bytes" if options else "--allow-external") in result.stderr
    assert not (tmp_path / "model.skops").exists()


@pytest.mark.parametrize("name", FORMATS)
def test_damaged_files_are_right_or_refused(name, tmp_path):
    """The first examples of the campaign."""
    form = FORMATS[name]
    (tmp_path / "right").mkdir()
    right = loaded(tmp_path / "right", *form.write(tmp_path / "right"))
    for number in range(4):
        folder = tmp_path / str(number)
        folder.mkdir()
        path, options, _ = write_damaged(folder, name, number, seed=1)
        try:
            found = loaded(folder, path, options)
        except BadFileError as error:
            found, message = None, str(error)
        if found is None:
            assert str(folder) in message
            assert len(message) < LONGEST_MESSAGE
        elif form.has_checksum:
            np.testing.assert_array_equal(found, right)


def loaded(folder, path, options):
    return read_file(folder, path, options)["X"]


# ------------------------------------------------------------------------------------------------------- MATLAB 5 files

_TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0", max_codepoint=0xFFFF), min_size=1, max_size=9)
_ARRAYS = st.sampled_from(["u1", "i2", "i4", "i8", "f4", "f8", "c8", "c16"]).flatmap(
    lambda dtype: arrays(dtype, array_shapes(min_dims=2, max_dims=4, max_side=4))
)


def cells(values):
    made = np.empty((1, len(values)), object)
    made[0] = values
    return made


@given(
    st.dictionaries(
        st.sampled_from("abcdef"),
        _ARRAYS | _TEXTS | st.lists(_TEXTS, min_size=1, max_size=3).map(cells),
        min_size=1,
        max_size=2,
    ),
    st.booleans(),
)
def test_matlab_files_are_read_as_scipy_reads_them(tmp_path_factory, variables, packed):
    path = tmp_path_factory.getbasetemp() / "same.mat"
    savemat(path, variables, do_compression=packed)
    expected, found = loadmat(path), read_arrays(path)
    assert set(found) == set(variables)
    for name, value in found.items():
        same = expected[name]
        if same.dtype == object:
            same = np.stack([np.asarray(one) for one in same.ravel(order="F")])
        assert value.dtype == same.dtype
        np.testing.assert_array_equal(value, same)
        assert value.flags.writeable


def test_every_flipped_bit_of_a_compressed_matlab_file_is_noticed(tmp_path):
    savemat(tmp_path / "a.mat", {"X": X, "y": Y}, do_compression=True)
    content = (tmp_path / "a.mat").read_bytes()
    for place in range(136, len(content), 7):
        damaged = bytearray(content)
        damaged[place] ^= 1 << place % 8
        (tmp_path / "a.mat").write_bytes(damaged)
        try:
            found = load_samples(tmp_path / "a.mat")
        except BadFileError:
            continue
        np.testing.assert_array_equal(found.data, X)
        np.testing.assert_array_equal(found.target, Y)


def test_matlab_files_of_the_other_byte_order(tmp_path):
    """Swap the bytes of a file with one matrix of double precision."""
    savemat(tmp_path / "a.mat", {"X": X.astype(float)})
    content = bytearray((tmp_path / "a.mat").read_bytes())
    swapped = content[:124] + content[124:126][::-1] + b"MI"
    words = np.frombuffer(bytes(content[128:]), "<u4").byteswap().tobytes()
    name = words.index(b"\0\0\0X")
    words = words[:name] + b"X\0\0\0" + words[name + 4 :]
    numbers = words.index(np.array([9, X.size * 8], ">u4").tobytes()) + 8
    words = words[:numbers] + np.asfortranarray(X, ">f8").tobytes(order="F")
    (tmp_path / "a.mat").write_bytes(bytes(swapped) + words)
    np.testing.assert_array_equal(load_samples(tmp_path / "a.mat", need_labels=False).data, X)


# --------------------------------------------------------------------------------------------------- checksums, digests


def test_compressed_nifti_is_read_to_its_checksum(tmp_path):
    nibabel.save(nibabel.Nifti1Image(np.moveaxis(X[..., None], 0, -1), np.eye(4)), tmp_path / "a.nii.gz")
    content = (tmp_path / "a.nii.gz").read_bytes()
    for place in (-8, -5, -4, -1):  # checksum and length are the last eight bytes
        damaged = bytearray(content)
        damaged[place] ^= 1
        (tmp_path / "a.nii.gz").write_bytes(damaged)
        refused(tmp_path / "a.nii.gz", "damaged", labels_from=Y)
    (tmp_path / "a.nii.gz").write_bytes(content[:-8])
    refused(tmp_path / "a.nii.gz", "damaged", labels_from=Y)
    stored = bytearray(gzip.compress(gzip.decompress(content), 0))
    stored[-40] ^= 1  # a voxel
    (tmp_path / "a.nii.gz").write_bytes(stored)
    refused(tmp_path / "a.nii.gz", "damaged", labels_from=Y)
    lazy = load_samples(tmp_path / "a.nii.gz", labels_from=Y, lazy=True)
    with pytest.raises(BadFileError, match="damaged"):
        lazy.data.compute()


def test_lazy_archives_are_checked_too(tmp_path):
    np.savez(tmp_path / "a.npz", X=X, y=Y)
    assert np.array_equal(load_samples(tmp_path / "a.npz", lazy=True).data.compute(), X)
    content = (tmp_path / "a.npz").read_bytes()
    (tmp_path / "a.npz").write_bytes(content.replace(X.tobytes(), X[::-1].tobytes()))
    refused(tmp_path / "a.npz", "CRC", lazy=True)
    refused(tmp_path / "a.npz", "CRC")


def test_pixels_of_png_files_are_checked(tmp_path):
    (tmp_path / "a").mkdir()
    Image.fromarray(X[0]).save(tmp_path / "a" / "0.png", compress_level=0)
    content = (tmp_path / "a" / "0.png").read_bytes()
    (tmp_path / "a" / "0.png").write_bytes(content.replace(X[0, 1].tobytes(), X[0, 2].tobytes()))
    assert "0.png" in refused(tmp_path, "checksum")


@pytest.mark.parametrize("format_", [2, 3])
def test_missing_chunks_of_zarr(format_, tmp_path):
    store = zarr.create_array(
        str(tmp_path / "a.zarr"), shape=X.shape, chunks=(2, 4, 5), dtype="u1", zarr_format=format_
    )
    store[:4] = X[:4] + 1
    words = ("2 of its 3 chunks", "--fill-missing")
    refused(tmp_path / "a.zarr", *words, need_labels=False)
    lazy = load_samples(tmp_path / "a.zarr", need_labels=False, lazy=True, chunks=2).data
    assert np.array_equal(lazy[:4].compute(), X[:4] + 1)
    with pytest.raises(BadFileError, match="0 of its 1 chunks"):
        lazy.compute()
    filled = load_samples(tmp_path / "a.zarr", need_labels=False, fill_missing=True).data
    assert np.array_equal(filled[:4], X[:4] + 1)
    assert not filled[4:].any()


def test_chunks_of_hdf5_that_were_never_written(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("X", X.shape, "u1", chunks=(2, 4, 5))[:4] = X[:4]
        file["y"] = Y
    refused(tmp_path / "a.h5", "2 of its 3 chunks", "--fill-missing")
    assert np.array_equal(load_samples(tmp_path / "a.h5", fill_missing=True).data[:4], X[:4])


def test_digests_of_files(tmp_path):
    np.save(tmp_path / "a.npy", X)
    digest = sha256_of(tmp_path / "a.npy")
    for given_ in (digest, f" {digest.upper()}\n"):
        assert np.array_equal(load_samples(tmp_path / "a.npy", labels_from=Y, sha256=given_).data, X)
    refused(tmp_path / "a.npy", digest, "0" * 64, labels_from=Y, sha256="0" * 64)
    refused(tmp_path / "a.npy", "64 hexadecimal digits", labels_from=Y, sha256="abc")


def test_digests_of_folders_and_tables(tmp_path):
    for number, sample in enumerate(X):
        (tmp_path / "all" / f"c{number % 2}").mkdir(parents=True, exist_ok=True)
        np.save(tmp_path / "all" / f"c{number % 2}" / f"{number}.npy", sample)
    digest = sha256_of(tmp_path / "all")
    assert len(load_samples(tmp_path / "all", sha256=digest).data) == 6
    names = [f"all/c{number % 2}/{number}.npy" for number in range(6)]
    rows = [f"{name},{name[4:6]},{sha256_of(tmp_path / name)}" for name in names]
    (tmp_path / "t.csv").write_text("\n".join(["path,label,sha256", *rows]))
    assert np.array_equal(load_samples(tmp_path / "t.csv").data, X)
    np.save(tmp_path / names[3], X[4])
    refused(tmp_path / "all", "was expected", sha256=digest)
    (tmp_path / "all" / "link").symlink_to(tmp_path / "t.csv")
    refused(tmp_path / "all", "leads out of", sha256=digest)
    refused(tmp_path / "all", "was expected", sha256=digest, allow_external=True)
    with pytest.raises(BadFileError, match=r"3\.npy: has the SHA-256 digest"):
        load_samples(tmp_path / "t.csv")


# ------------------------------------------------------------------------------------------ files that become shorter

CUT = """
import os, sys
import numpy as np
from tensormargin import TensorMarginClassifier, load_samples
from tensormargin.io import BadFileError, load_scene
X, y = np.random.default_rng(0).normal(size=(8, 64, 64)), np.arange(8) % 2
np.save("a.npy", X)
np.save("b.npy", X)
np.savez("c.npz", X=X, y=y)
X.tofile("d.img")
with open("d.hdr", "w") as file:
    file.write("ENVI\\nsamples = 64\\nlines = 64\\nbands = 8\\ndata type = 5\\ninterleave = bsq\\n")
loaded = load_samples("a.npy", labels_from=y)
lazy = [load_samples("b.npy", labels_from=y, lazy=True, chunks=4), load_samples("c.npz", lazy=True, chunks=4)]
scene = load_scene("d.hdr")
for name in ("a.npy", "b.npy", "c.npz", "d.img"):
    os.truncate(name, 4096)
assert (loaded.data == X).all() and (scene.data == np.moveaxis(X, 0, -1)).all()
TensorMarginClassifier("cp", max_iter=2).fit(loaded.data, y)
for samples in lazy:
    try:
        TensorMarginClassifier("cp", max_iter=2).fit(samples.data, y)
    except BadFileError as error:
        print(error)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="files that are open cannot be cut")
def test_files_that_are_cut_short_after_they_were_opened(tmp_path):
    command = [sys.executable, "-c", CUT]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=300)
    assert done.returncode == 0, done.stderr  # -7 is SIGBUS
    assert [line.partition(":")[0] for line in done.stdout.splitlines()] == [f"{tmp_path}/b.npy", f"{tmp_path}/c.npz"]


@pytest.mark.parametrize("name", ["a.npy", "a.npz"])
def test_files_that_are_cut_short_while_they_are_read(name, tmp_path):
    large = np.random.default_rng(0).normal(size=(6, 64, 64))
    np.save(tmp_path / "a.npy", large)
    np.savez(tmp_path / "a.npz", X=large)
    part = (slice(4, 6), slice(None), slice(1, 3))
    with open_arrays(tmp_path / name) as held:
        np.testing.assert_array_equal(held["X"].read(part), large[part])
        os.truncate(tmp_path / name, 100_000)
        with pytest.raises(ValueError, match="cut short"):  # which becomes a BadFileError behind this block
            held["X"].read(part)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", [(), (7,), (3, 0, 2), (5, 4, 3), (3, 200, 300), (2, 3, 70_000)])
def test_parts_of_arrays_in_files(shape, order, tmp_path):
    """Small and large rows, in both orders, cut along each axis."""
    values = np.asarray(np.random.default_rng(0).normal(size=shape), np.float32, order=order)
    np.save(tmp_path / "a.npy", values)
    np.savez(tmp_path / "a.npz", X=values)
    for name in ("a.npy", "a.npz"):
        with open_arrays(tmp_path / name) as held:
            found = held["X"].read()
            assert found.dtype == values.dtype
            np.testing.assert_array_equal(found, values)
            for axes in product((slice(None), slice(1, 2), slice(-3, None)), repeat=len(shape)):
                np.testing.assert_array_equal(held["X"].read(axes), values[axes])


# --------------------------------------------------------------------------------------------------- the reader process


def test_a_crash_of_a_parser_is_a_message(tmp_path, monkeypatch):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["X"], file["y"] = X, Y
    ask = process._Reader.ask
    for number, *words in (
        (signal.SIGSEGV, "crashed: SIGSEGV", "write it again with h5py"),
        (signal.SIGXCPU, "too long", "write it again with h5py"),
        (signal.SIGKILL, "need more memory than there is; close other programs"),
    ):

        def struck(reader, *arguments, number=number):
            os.kill(reader.process.pid, number)
            reader.process.wait()
            return ask(reader, *arguments)

        with monkeypatch.context() as patch:
            patch.setattr(process._Reader, "ask", struck)
            refused(tmp_path / "a.h5", *words)
    assert np.array_equal(load_samples(tmp_path / "a.h5").data, X)


def test_limits_of_the_reader_process(tmp_path):
    """A function of the process that takes more than it announces ends; the next file is read as ever."""
    for name, words in (
        ("take_memory", "memory"),
        ("take_time", "too long"),
        ("crash", "crashed: SIGSEGV"),
        ("raise_an_error", "^x{300}...$"),
    ):
        with pytest.raises(process.ParserFailedError, match=words):
            process.call(f"hostile_parsers.{name}", tmp_path)
    (tmp_path / "a").mkdir()
    Image.fromarray(X[0]).save(tmp_path / "a" / "0.png")
    assert np.array_equal(load_samples(tmp_path).data, X[:1])


def test_a_file_among_others_that_crashes_its_parser_is_named(tmp_path, monkeypatch):
    (tmp_path / "a").mkdir()
    for number in range(4):
        Image.fromarray(X[number]).save(tmp_path / "a" / f"{number}.png")
    ask = process._Reader.ask

    def struck(reader, function, arguments, n_bytes):
        if "a/2.png" in arguments[1]:
            os.kill(reader.process.pid, signal.SIGSEGV)
            reader.process.wait()
        return ask(reader, function, arguments, n_bytes)

    monkeypatch.setattr(process._Reader, "ask", struck)
    assert "2.png" in refused(tmp_path, "its parser crashed: SIGSEGV")


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="needs shared memory without a file")
def test_large_arrays_come_in_shared_memory_and_leave_it(tmp_path):
    large = np.random.default_rng(0).normal(size=(40, 100, 200))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("X", data=large, chunks=(4, 100, 200))
        file["y"] = np.arange(40) % 2
    found = load_samples(tmp_path / "a.h5").data
    assert np.array_equal(found, large)
    found[0] = 0  # as writable as any array
    maps = Path(f"/proc/{process._idle[-1].process.pid}/maps")
    deadline = time.monotonic() + 20
    while "memfd:samples" in maps.read_text(encoding="utf-8"):
        assert time.monotonic() < deadline  # it is told at once, but has yet to hear it
    assert not ALLOCATOR.made


_CONTENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.just(Path("a/b")) | st.just(slice(1, None, 2))
    | st.just(FileRules(max_bytes=3))
    | arrays(st.sampled_from(["u1", "<f4", ">i8", "<U3", "?"]), array_shapes(min_dims=0)),
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


def same(one, other):
    if isinstance(one, np.ndarray):
        assert one.dtype == other.dtype
        assert one.flags.f_contiguous == other.flags.f_contiguous
        np.testing.assert_array_equal(one, other)
    elif isinstance(one, list | tuple | dict):
        assert type(one) is type(other)
        assert len(one) == len(other)
        for left, right in zip(*((list(x.items()) if isinstance(x, dict) else x) for x in (one, other)), strict=True):
            same(left, right)
    else:
        assert one == other


@given(_CONTENTS)
def test_messages_arrive_as_they_were_sent(content):
    stream = io.BytesIO()
    write_message(stream, content)
    stream.seek(0)
    same(content, read_message(stream))
    for end in range(0, len(stream.getvalue()) - 1, 7):
        with pytest.raises(EOFError):
            read_message(io.BytesIO(stream.getvalue()[:end]))


@pytest.mark.parametrize("has_memfd", [True, False])
def test_large_arrays_in_messages(has_memfd, monkeypatch, tmp_path):
    if not has_memfd:
        monkeypatch.delattr(os, "memfd_create", raising=False)
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    made = ALLOCATOR.empty((300, 200), float)
    made[:] = np.arange(200.0)
    content = (made, made.T, np.asfortranarray(made)[:, ::-1], np.arange(10**5), [made[:3]])
    stream = io.BytesIO()
    write_message(stream, content)
    stream.seek(0)
    found = read_message(stream)
    ALLOCATOR.clear()
    for one, other in zip(content[:4], found[:4], strict=True):
        np.testing.assert_array_equal(one, other)
        assert other.flags.writeable
    same(content[4], found[4])
    assert not list(tmp_path.iterdir())


def test_threads_have_reader_processes_of_their_own(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["X"], file["y"] = X, Y
    found = []
    threads = [threading.Thread(target=lambda: found.append(load_samples(tmp_path / "a.h5").data)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 3
    assert all(np.array_equal(one, X) for one in found)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_a_forked_process_does_not_share_the_reader(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["X"], file["y"] = X, Y
    load_samples(tmp_path / "a.h5")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer versions of Python warn of threads
        child = os.fork()
    if child == 0:
        os._exit(0 if np.array_equal(load_samples(tmp_path / "a.h5").data, X) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert np.array_equal(load_samples(tmp_path / "a.h5").data, X)


def test_the_reader_process_ends_with_the_one_that_started_it():
    reader = process._Reader()
    reader.requests.close()
    assert reader.process.wait(timeout=20) == 0
    reader.replies.close()


@pytest.mark.parametrize("dtype", ["u1", "i2", ">i4", "i8", "f4", "f8"])
@pytest.mark.parametrize("ending", ["nii", "nii.gz"])
@pytest.mark.parametrize("slope", [None, 0.1])
def test_volumes_are_read_as_nibabel_reads_them(dtype, ending, slope, tmp_path):
    values = np.random.default_rng(0).normal(100, 50, (4, 5, 3, 6)).clip(0, 255)
    values = (values * (2**40 + 1) if dtype == "i8" else values).astype(dtype)
    image = nibabel.Nifti1Image(values, np.eye(4), dtype=dtype)
    if slope is not None:
        image.header.set_slope_inter(slope, 3)
    nibabel.save(image, tmp_path / f"a.{ending}")
    expected = np.asarray(nibabel.load(tmp_path / f"a.{ending}").dataobj, np.float32)
    for lazy in (False, True):
        found = load_samples(tmp_path / f"a.{ending}", labels_from=Y, lazy=lazy, chunks=2).data
        np.testing.assert_array_equal(np.moveaxis(np.asarray(found), 0, -1), expected)
        assert found.dtype == np.float32


def test_plain_numbers_behind_a_user_block(tmp_path):
    values = np.random.default_rng(0).normal(size=(6, 4, 5))
    for dtype in (">f8", "<f4", "i2", "u1", "?"):
        with h5py.File(tmp_path / "a.h5", "w", userblock_size=1024) as file:
            file["X"], file["y"] = values.astype(dtype), Y
        found = load_samples(tmp_path / "a.h5").data
        assert found.dtype == np.dtype(dtype)
        assert np.array_equal(found, values.astype(dtype))
        with open_arrays(tmp_path / "a.h5") as held:
            part = held["X"].read((slice(1, 3), slice(None), slice(2, 5)))
        assert np.array_equal(part, values.astype(dtype)[1:3, :, 2:5])


# --------------------------------------------------------------------------------------------------- rules and messages


def test_max_bytes_raises_and_lowers_the_limit(tmp_path):
    np.savez_compressed(tmp_path / "a.npz", X=np.zeros((70, 1000, 1000), "u1"), y=np.arange(70) % 2)
    assert load_samples(tmp_path / "a.npz").data.shape == (70, 1000, 1000)  # deflate does not reach what is implausible
    refused(tmp_path / "a.npz", "70 MB", "60 MB max_bytes allows", max_bytes="60 MB")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("X", (70, 1000, 1000), "u1", chunks=(70, 1000, 1000), compression="gzip")
        file["y"] = np.arange(70) % 2
    refused(tmp_path / "a.h5", "not plausible", "--max-bytes", fill_missing=True)
    assert not load_samples(tmp_path / "a.h5", fill_missing=True, max_bytes="1 GB").data.any()


@pytest.mark.parametrize(
    ("given_", "expected"),
    [(12, 12), ("12", 12), ("8 GB", 8 * 10**9), ("1.5kib", 1536), ("500MiB", 500 * 2**20), (None, None)],
)
def test_sizes(given_, expected):
    assert parsed_bytes(given_) == expected


@pytest.mark.parametrize("given_", [0, -1, "", "8 apples", "GB"])
def test_wrong_sizes_are_refused(given_, tmp_path):
    np.save(tmp_path / "a.npy", X)
    with pytest.raises(ValueError, match="--max-bytes"):
        load_samples(tmp_path / "a.npy", labels_from=Y, max_bytes=given_)


def test_rules_hold_for_all_views(tmp_path):
    np.savez(tmp_path / "a.npz", X=X, y=Y)
    (tmp_path / "files").mkdir()
    path, _ = CRAFTED["external_storage"](tmp_path / "files")
    with pytest.raises(BadFileError, match="lies in another file"):
        load_views(tmp_path / "a.npz", {"other": tmp_path / "files" / path})
    found = load_views(tmp_path / "a.npz", {"other": tmp_path / "files" / path}, allow_external=True)
    assert found.data.names == ("a", "other")


@given(st.lists(st.text(max_size=200), max_size=50), st.integers(0, 10**15))
def test_messages_stay_short_and_printable(names, number):
    text = listed(names)
    assert len(text) < 10 * 700
    assert text.isprintable()
    assert all(len(quoted(name)) <= 61 * 10 for name in names)
    assert in_bytes(number).split()[1] in ("bytes", "kB", "MB", "GB")
    assert ("more" in text.split(" and ")[-1]) if len(names) > 10 else True


def test_what_is_announced_is_allowed_or_not(tmp_path):
    (tmp_path / "a").write_bytes(bytes(1000))
    FileRules().admit(tmp_path / "a", 2**26, "it")
    FileRules(max_bytes=2**40).admit(tmp_path / "a", 2**39, "it")
    for rules, words in ((FileRules(), "not plausible for 1 kB"), (FileRules(memory=10**7), "10 MB are available")):
        with pytest.raises(BadFileError, match=words):
            rules.admit(tmp_path / "a", 2**27, "it")


def test_relative_paths_are_those_of_the_caller(tmp_path, monkeypatch):
    pytest.importorskip("h5py")
    import h5py

    for folder, value in (("one", 1.0), ("two", 2.0)):
        (tmp_path / folder).mkdir()
        with h5py.File(tmp_path / folder / "a.h5", "w") as file:
            file["X"], file["y"] = np.full((4, 3, 2), value), np.arange(4) % 2
        monkeypatch.chdir(tmp_path / folder)  # while the reader process lives on
        assert load_samples("a.h5").data[0, 0, 0] == value
