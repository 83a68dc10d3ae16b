"""Damaged and hostile data files, and what `load_samples` does with them.

Files of every format are damaged, and they and the crafted ones loaded in a process of its own (this module, as a
program). Clean is the right samples, or one short message with the name of the file; where a format has no checksum,
other values are clean, too. Bad is everything else: a crash, a hang, a traceback, other values than those written.
"""

from __future__ import annotations

import gzip
import json
import os
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from campaigns.outcome import Outcome

SECONDS = 60.0  # a file that takes longer hangs
LONGEST_MESSAGE = 1500

_X = np.random.default_rng(0).integers(0, 255, (6, 8, 9)).astype(np.uint8)
_Y = np.arange(6) % 2

Damage = Callable[[bytes, np.random.Generator], bytes]
Writer = Callable[[Path], tuple[str, dict[str, Any]]]


# ---------------------------------------------------------------------------------------------------------- valid files


def _labels(folder: Path) -> dict[str, Any]:
    (folder / "labels.csv").write_text("label\n" + "\n".join(map(str, _Y)))
    return {"labels_from": "labels.csv"}


def write_npz(folder: Path) -> tuple[str, dict[str, Any]]:
    np.savez(folder / "a.npz", X=_X, y=_Y)
    return "a.npz", {}


def write_npz_lazy(folder: Path) -> tuple[str, dict[str, Any]]:
    return write_npz(folder)[0], {"lazy": True}


def write_packed_npz(folder: Path) -> tuple[str, dict[str, Any]]:
    np.savez_compressed(folder / "a.npz", X=_X, y=_Y)
    return "a.npz", {}


def write_npy(folder: Path) -> tuple[str, dict[str, Any]]:
    np.save(folder / "a.npy", _X)
    return "a.npy", _labels(folder)


def _write_mat(folder: Path, packed: bool) -> tuple[str, dict[str, Any]]:
    from scipy.io import savemat

    cells = np.empty((1, 6), object)
    cells[0] = [f"class {one}" for one in _Y]
    savemat(folder / "a.mat", {"X": _X.astype(float), "y": cells}, do_compression=packed)
    return "a.mat", {}


def write_mat(folder: Path) -> tuple[str, dict[str, Any]]:
    return _write_mat(folder, packed=False)


def write_packed_mat(folder: Path) -> tuple[str, dict[str, Any]]:
    return _write_mat(folder, packed=True)


def write_mat4(folder: Path) -> tuple[str, dict[str, Any]]:
    from scipy.io import savemat

    savemat(folder / "a.mat", {"X": _X[:, 0].astype(float), "y": _Y.astype(float)}, format="4")
    return "a.mat", {}


def write_mat73(folder: Path) -> tuple[str, dict[str, Any]]:
    import h5py

    with h5py.File(folder / "a.mat", "w", userblock_size=512) as file:
        file["X"] = _X.T
        references = file.create_dataset("y", (1, 6), h5py.ref_dtype)
        for position, label in enumerate(_Y):
            cell = file.create_dataset(f"#refs#/{position}", data=np.array([[ord("a") + label]], "u2"))
            cell.attrs["MATLAB_class"] = np.bytes_("char")
            references[0, position] = cell.ref
    return "a.mat", {}


def write_hdf5(folder: Path) -> tuple[str, dict[str, Any]]:
    import h5py

    with h5py.File(folder / "a.h5", "w") as file:
        file["X"], file["y"] = _X, np.array([f"class {one}" for one in _Y], object)
        file.create_dataset("packed", data=_X, compression="gzip", chunks=(2, 8, 9))
    return "a.h5", {"samples": "packed"}


def write_plain_hdf5(folder: Path) -> tuple[str, dict[str, Any]]:
    return write_hdf5(folder)[0], {"samples": "X"}


def write_zarr(folder: Path) -> tuple[str, dict[str, Any]]:
    import zarr

    group = zarr.open_group(str(folder / "a.zarr"), mode="w")
    group.create_array("X", data=_X, chunks=(2, 8, 9))
    group.create_array("y", data=_Y + 1)
    return "a.zarr", {}


def write_zarr_zip(folder: Path) -> tuple[str, dict[str, Any]]:
    import zarr

    with zarr.storage.ZipStore(folder / "a.zip", mode="w") as store, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # zipfile warns that metadata are written twice
        group = zarr.open_group(store, mode="w")
        group.create_array("X", data=_X, chunks=(2, 8, 9))
        group.create_array("y", data=_Y + 1)
    return "a.zip", {}


def _write_images(folder: Path, ending: str, **options: Any) -> tuple[str, dict[str, Any]]:
    from PIL import Image

    for number, (image, label) in enumerate(zip(_X, _Y, strict=True)):
        place = folder / "images" / f"class {label}"
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(place / f"{number}.{ending}", **options)
    return "images", {}


def write_png(folder: Path) -> tuple[str, dict[str, Any]]:
    return _write_images(folder, "png")


def write_jpeg(folder: Path) -> tuple[str, dict[str, Any]]:
    return _write_images(folder, "jpg")


def write_tiff(folder: Path) -> tuple[str, dict[str, Any]]:
    return _write_images(folder, "tif")


def write_packed_tiff(folder: Path) -> tuple[str, dict[str, Any]]:
    return _write_images(folder, "tif", compression="tiff_lzw")


def write_deflated_tiff(folder: Path) -> tuple[str, dict[str, Any]]:
    return _write_images(folder, "tif", compression="tiff_adobe_deflate")


def _write_nifti(folder: Path, name: str) -> tuple[str, dict[str, Any]]:
    import nibabel

    image: Any = nibabel.Nifti1Image
    nibabel.save(image(np.moveaxis(_X[..., None], 0, -1), np.diag([2.0, 3, 4, 1])), folder / name)
    return name, _labels(folder)


def write_nifti(folder: Path) -> tuple[str, dict[str, Any]]:
    return _write_nifti(folder, "a.nii")


def write_nifti_gz(folder: Path) -> tuple[str, dict[str, Any]]:
    return _write_nifti(folder, "a.nii.gz")


def write_volumes(folder: Path) -> tuple[str, dict[str, Any]]:
    import nibabel

    make: Any = nibabel.Nifti1Image
    for number, (volume, label) in enumerate(zip(_X, _Y, strict=True)):
        place = folder / "volumes" / f"class {label}"
        place.mkdir(parents=True, exist_ok=True)
        nibabel.save(make(volume[..., None], np.eye(4)), place / f"{number}.nii.gz")
    return "volumes", {}


def write_table(folder: Path) -> tuple[str, dict[str, Any]]:
    lines = ["path,label"]
    for number, (sample, label) in enumerate(zip(_X, _Y, strict=True)):
        np.save(folder / f"{number}.npy", sample)
        lines.append(f"{number}.npy,class {label}")
    (folder / "table.csv").write_text("\n".join(lines))
    return "table.csv", {}


def _records(**columns: Any) -> Any:
    """Return an array of MATLAB structures with these fields."""
    found = np.zeros((1, len(_Y)), dtype=[(name, object) for name in columns])
    for name, values in columns.items():
        for place, value in enumerate(values):
            found[0, place][name] = value
    return found


def _cells(values: Any) -> Any:
    found = np.empty((1, len(values)), object)
    found[0] = [*values, None][:-1]
    return found


def _write_eeglab(folder: Path, packed: bool = False, beside: bool = False) -> tuple[str, dict[str, Any]]:
    from scipy.io import savemat

    data = np.moveaxis(_X, 0, 2).astype(np.float32)
    if beside:
        data.ravel(order="F").astype("<f4").tofile(folder / "a.fdt")
    n_channels, n_points, n_trials = data.shape
    numbers = {"nbchan": n_channels, "pnts": n_points, "trials": n_trials, "srate": 100, "xmin": -0.02}
    events = _records(
        type=[f"class {one}" for one in _Y],
        latency=3.0 + n_points * np.arange(n_trials),
        epoch=1.0 + np.arange(n_trials),
    )
    fields = {name: float(value) for name, value in numbers.items()} | {"event": events}
    savemat(folder / "a.set", {"EEG": {"data": "a.fdt" if beside else data} | fields}, do_compression=packed)
    return "a.set", {}


def write_eeglab(folder: Path) -> tuple[str, dict[str, Any]]:
    return _write_eeglab(folder)


def write_packed_eeglab(folder: Path) -> tuple[str, dict[str, Any]]:
    return _write_eeglab(folder, packed=True)


def write_eeglab_fdt(folder: Path) -> tuple[str, dict[str, Any]]:
    return _write_eeglab(folder, beside=True)


def write_eeglab73(folder: Path) -> tuple[str, dict[str, Any]]:
    import h5py

    with h5py.File(folder / "a.set", "w", userblock_size=512) as file:
        group = file.create_group("EEG")
        group["data"] = np.moveaxis(_X, 0, 2).astype(np.float32).T
        for name, value in {"nbchan": 8, "pnts": 9, "trials": 6, "srate": 100, "xmin": 0}.items():
            group[name] = np.array([[float(value)]])
        columns = {"type": 1.0 + _Y, "latency": 1.0 + 9 * np.arange(6), "epoch": 1.0 + np.arange(6)}
        for name, values in columns.items():
            references = group.create_dataset(f"event/{name}", (6, 1), h5py.ref_dtype)
            for place, value in enumerate(values):
                references[place, 0] = file.create_dataset(f"#refs#/{name}{place}", data=np.array([[value]])).ref
    return "a.set", {}


def write_fieldtrip(folder: Path) -> tuple[str, dict[str, Any]]:
    from scipy.io import savemat

    trials, times = [one.astype(float) for one in _X], [np.arange(9.0)[None] / 100] * 6
    label = _cells([f"channel {number}" for number in range(8)]).T
    data = {
        "trial": _cells(trials),
        "time": _cells(times),
        "label": label,
        "fsample": 100.0,
        "trialinfo": 1.0 + _Y[:, None],
    }
    savemat(folder / "a.mat", {"data": data})
    return "a.mat", {}


def write_netcdf(folder: Path) -> tuple[str, dict[str, Any]]:
    from scipy.io import netcdf_file

    with netcdf_file(folder / "a.nc", "w", version=2) as file:
        for name, size in (("trial", 6), ("row", 8), ("time", 9)):
            file.createDimension(name, size)
        file.createVariable("X", "h", ("trial", "row", "time"))[:] = _X
        file.createVariable("y", "i", ("trial",))[:] = _Y
        time_of = file.createVariable("time", "d", ("time",))
        time_of[:], time_of.units = np.arange(9.0), "ms"
    return "a.nc", {}


def write_netcdf4(folder: Path) -> tuple[str, dict[str, Any]]:
    import h5py

    with h5py.File(folder / "a.nc", "w") as file:
        file["X"], file["y"], file["time"] = _X, _Y, np.arange(9.0)
        file["time"].make_scale("time")
        file["X"].dims[2].attach_scale(file["time"])
        file["X"].attrs["scale_factor"] = 2.0
    return "a.nc", {}


def _write_events(folder: Path) -> dict[str, Any]:
    rows = [f"{0.1 * number + 0.05:g}\t0.05\tclass {label}" for number, label in enumerate(_Y)]
    (folder / "events.tsv").write_text("\n".join(["onset\tduration\ttrial_type", *rows]))
    return {"events": "events.tsv"}


def write_series(folder: Path) -> tuple[str, dict[str, Any]]:
    np.save(folder / "a.npy", np.tile(_X[0], 12).astype(np.float32))
    return "a.npy", {"sfreq": 100.0, **_write_events(folder)}


def write_run(folder: Path) -> tuple[str, dict[str, Any]]:
    import nibabel

    make: Any = nibabel.Nifti1Image
    nibabel.save(make(np.tile(_X[0][:, :, None, None], 40).astype(np.float32), np.eye(4)), folder / "a.nii")
    return "a.nii", {"tr": 0.02, "detrend": 1, **_write_events(folder)}


def write_epochs(folder: Path) -> tuple[str, dict[str, Any]]:
    import mne

    events = np.column_stack([20 * np.arange(6), np.zeros(6, int), 1 + _Y])
    info = mne.create_info(8, 100.0, "eeg", verbose="error")
    epochs = mne.EpochsArray(_X.astype(float), info, events, event_id={"a": 1, "b": 2}, verbose="error")
    epochs.save(folder / "a-epo.fif", verbose="error")
    return "a-epo.fif", {}


def write_brainvision(folder: Path) -> tuple[str, dict[str, Any]]:
    from pybv import write_brainvision as write

    marks = [
        {"onset": 10 * number + 2, "duration": 1, "description": int(label) + 1} for number, label in enumerate(_Y)
    ]
    series = np.tile(_X[0].astype(float), 12) * 1e-6
    names = [f"E{number}" for number in range(8)]
    write(data=series, sfreq=100.0, ch_names=names, fname_base="a", folder_out=str(folder), events=marks)
    return "a.vhdr", {"tmin": 0.0, "tmax": 0.05}


def write_envi(folder: Path) -> tuple[str, dict[str, Any]]:
    (folder / "scene.img").write_bytes(_X.tobytes())
    (folder / "scene.hdr").write_text(
        "ENVI\nsamples = 9\nlines = 8\nbands = 6\nheader offset = 0\ndata type = 1\ninterleave = bsq\n"
        "byte order = 0\nwavelength units = Nanometers\nwavelength = {400, 410, 420, 430, 440, 450}\n"
    )
    return "scene.hdr", {"scene": True}


def write_tiff_scene(folder: Path) -> tuple[str, dict[str, Any]]:
    from PIL import Image

    pages = [Image.fromarray(page) for page in _X]
    pages[0].save(folder / "scene.tif", save_all=True, append_images=pages[1:])
    return "scene.tif", {"scene": True}


@dataclass(frozen=True)
class Format:
    """How files of a format are written, and whether a checksum covers their samples."""

    write: Writer
    has_checksum: bool = False


FORMATS = {
    "npz": Format(write_npz, has_checksum=True),
    "npz, lazy": Format(write_npz_lazy, has_checksum=True),
    "npz, compressed": Format(write_packed_npz, has_checksum=True),
    "npy": Format(write_npy),
    "MATLAB 4": Format(write_mat4),
    "MATLAB 5": Format(write_mat),
    "MATLAB 5, compressed": Format(write_packed_mat, has_checksum=True),
    "MATLAB 7.3": Format(write_mat73),
    "HDF5": Format(write_plain_hdf5),
    "HDF5, compressed": Format(write_hdf5),
    "Zarr": Format(write_zarr),
    "Zarr, zip": Format(write_zarr_zip, has_checksum=True),
    "PNG": Format(write_png, has_checksum=True),
    "JPEG": Format(write_jpeg),
    "TIFF": Format(write_tiff),
    "TIFF, LZW": Format(write_packed_tiff),
    "TIFF, deflate": Format(write_deflated_tiff),
    "NIfTI": Format(write_nifti),
    "NIfTI, gzip": Format(write_nifti_gz, has_checksum=True),
    "NIfTI volumes": Format(write_volumes, has_checksum=True),
    "table": Format(write_table),
    "EEGLAB": Format(write_eeglab),
    "EEGLAB, compressed": Format(write_packed_eeglab, has_checksum=True),
    "EEGLAB, .fdt": Format(write_eeglab_fdt),
    "EEGLAB, MATLAB 7.3": Format(write_eeglab73),
    "FieldTrip": Format(write_fieldtrip),
    "netCDF 3": Format(write_netcdf),
    "netCDF 4": Format(write_netcdf4),
    "series with events": Format(write_series),
    "NIfTI with events": Format(write_run),
    "ENVI": Format(write_envi),
    "TIFF scene": Format(write_tiff_scene),
}
if find_spec("mne") and find_spec("pybv"):  # of the extra eeg, and of its tests
    FORMATS |= {"MNE epochs": Format(write_epochs), "BrainVision": Format(write_brainvision)}


# -------------------------------------------------------------------------------------------------------------- damages


def _span(content: bytes, rng: np.random.Generator) -> tuple[int, int]:
    """Return begin and end of a part of up to 256 bytes, often in the header."""
    start = int(rng.integers(0, max(1, len(content))))
    if rng.random() < 0.5:
        start %= 512
    return start, start + int(2 ** rng.uniform(0, 8))


def flip_one_bit(content: bytes, rng: np.random.Generator) -> bytes:
    return flip_bits(content, rng, 1)


def flip_bits(content: bytes, rng: np.random.Generator, number: int = 8) -> bytes:
    damaged = np.frombuffer(content, np.uint8).copy()
    places = rng.integers(0, len(damaged), number) % (512 if rng.random() < 0.5 else len(damaged))
    places %= len(damaged)
    damaged[places] ^= np.uint8(1) << rng.integers(0, 8, number).astype(np.uint8)
    return damaged.tobytes()


def cut(content: bytes, rng: np.random.Generator) -> bytes:
    return content[: int(rng.integers(0, max(1, len(content))))]


def leave_out(content: bytes, rng: np.random.Generator) -> bytes:
    start, stop = _span(content, rng)
    return content[:start] + content[stop:]


def fill_with_zeros(content: bytes, rng: np.random.Generator) -> bytes:
    start, stop = _span(content, rng)
    return content[:start] + bytes(stop - start) + content[stop:]


def fill_with_ones(content: bytes, rng: np.random.Generator) -> bytes:
    start, stop = _span(content, rng)
    return content[:start] + b"\xff" * (stop - start) + content[stop:]


def fill_with_noise(content: bytes, rng: np.random.Generator) -> bytes:
    start, stop = _span(content, rng)
    return content[:start] + rng.bytes(stop - start) + content[stop:]


def repeat(content: bytes, rng: np.random.Generator) -> bytes:
    start, stop = _span(content, rng)
    return content[:stop] + content[start:]


DAMAGES: tuple[Damage, ...] = (
    flip_one_bit,
    flip_one_bit,
    flip_bits,
    cut,
    leave_out,
    fill_with_zeros,
    fill_with_ones,
    fill_with_noise,
    repeat,
)


def write_damaged(folder: Path, name: str, number: int, seed: int) -> tuple[str, dict[str, Any], str]:
    """Write the files of a format and damage one; return path, options, and the damage in words."""
    rng = np.random.default_rng([seed, zlib.crc32(name.encode()), number])
    path, options = FORMATS[name].write(folder)
    files = sorted(file for file in folder.rglob("*") if file.is_file() and file.name != "labels.csv")
    file, damage = files[rng.integers(len(files))], DAMAGES[rng.integers(len(DAMAGES))]
    file.write_bytes(damage(file.read_bytes(), rng))
    return path, options, f"{file.name}, {damage.__name__}"


# -------------------------------------------------------------------------------------------------------- crafted files


def nested_cells(folder: Path) -> tuple[str, dict[str, Any]]:
    """MATLAB 5 cells within cells, 20,000 deep."""

    def head(kind: int, length: int, name: bytes = b"") -> bytes:
        """Return what is before the ``length`` bytes of contents of a matrix."""
        parts = struct.pack("<IIII", 6, 8, kind, 0) + struct.pack("<IIii", 5, 8, 1, 1)
        parts += struct.pack("<II", 1, len(name)) + name.ljust(-(-len(name) // 8) * 8, b"\0")
        return struct.pack("<II", 14, len(parts) + length) + parts

    inner = struct.pack("<IId", 9, 8, 1.0)
    heads, length = [head(6, len(inner))], len(inner)
    for level in range(20_000):
        length += len(heads[-1])
        heads.append(head(1, length, b"X" if level == 19_999 else b""))
    content = b"".join(reversed(heads)) + inner
    (folder / "a.mat").write_bytes(b"MATLAB 5.0 MAT-file".ljust(124) + struct.pack("<H", 0x100) + b"IM" + content)
    return "a.mat", {"need_labels": False}


def huge_matrix(folder: Path) -> tuple[str, dict[str, Any]]:
    """A MATLAB 5 matrix that says it has 2^62 entries."""
    body = struct.pack("<IIII", 6, 8, 6, 0) + struct.pack("<IIii", 5, 8, 2**31 - 1, 2**31 - 1)
    body += struct.pack("<II", 1, 1) + b"X".ljust(8, b"\0") + struct.pack("<II", 9, 2**31)
    content = struct.pack("<II", 14, len(body)) + body
    (folder / "a.mat").write_bytes(b"MATLAB 5.0 MAT-file".ljust(124) + struct.pack("<H", 0x100) + b"IM" + content)
    return "a.mat", {"need_labels": False}


def cells_of_cells(folder: Path) -> tuple[str, dict[str, Any]]:
    """MATLAB 7.3 cells, each of which refers ten times to the next one."""
    import h5py

    with h5py.File(folder / "a.mat", "w", userblock_size=512) as file:
        last = file.create_dataset("#refs#/last", data=np.ones((1, 1)))
        for level in range(12):
            cell = file.create_dataset(f"#refs#/{level}" if level < 11 else "X", (10, 1), h5py.ref_dtype)
            cell[:] = last.ref
            last = cell
        file["y"] = np.ones((1, 6))
    return "a.mat", {}


def own_cell(folder: Path) -> tuple[str, dict[str, Any]]:
    """A MATLAB 7.3 cell that contains itself."""
    import h5py

    with h5py.File(folder / "a.mat", "w", userblock_size=512) as file:
        cell = file.create_dataset("X", (2, 1), h5py.ref_dtype)
        cell[:] = cell.ref
    return "a.mat", {"need_labels": False}


def empty_texts(folder: Path) -> tuple[str, dict[str, Any]]:
    """10^8 empty texts in 339 bytes of .npz."""
    header = b"{'descr': '<U0', 'fortran_order': False, 'shape': (100000000,), }"
    header = header.ljust(118 - 1) + b"\n"
    with zipfile.ZipFile(folder / "a.npz", "w") as archive:
        archive.writestr("y.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header)
        with archive.open("X.npy", "w") as file:
            np.lib.format.write_array(file, _X)
    return "a.npz", {}


def many_members(folder: Path) -> tuple[str, dict[str, Any]]:
    """An archive with 20,000 arrays, none of them labels."""
    with zipfile.ZipFile(folder / "a.npz", "w") as archive:
        for number in range(20_000):
            archive.writestr(f"array{number}.npy", _NPY)
    return "a.npz", {}


def packed_zeros(folder: Path) -> tuple[str, dict[str, Any]]:
    """A .npz of 4 TB, says its header."""
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000, 500000), }".ljust(117) + b"\n"
    with zipfile.ZipFile(folder / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("X.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(10**6))
    return "a.npz", {"need_labels": False}


def deep_header(folder: Path) -> tuple[str, dict[str, Any]]:
    """A .npy file whose header is nested 5,000 deep."""
    header = b"(" * 5000 + b")" * 5000
    (folder / "a.npy").write_bytes(b"\x93NUMPY\x02\x00" + struct.pack("<I", len(header)) + header)
    return "a.npy", {"need_labels": False}


def many_chunks(folder: Path) -> tuple[str, dict[str, Any]]:
    """Zarr metadata with 10^8 chunks, none of which is there."""
    _write_zarray(folder / "a.zarr", shape=[10_000, 10_000], chunks=[1, 1])
    return "a.zarr", {"need_labels": False}


def many_chunks_filled(folder: Path) -> tuple[str, dict[str, Any]]:
    """The same, where missing chunks are allowed."""
    return many_chunks(folder)[0], {"need_labels": False, "fill_missing": True}


def huge_zarr(folder: Path) -> tuple[str, dict[str, Any]]:
    """Zarr metadata of 8 TB in one chunk."""
    _write_zarray(folder / "a.zarr", shape=[10**6, 10**6], chunks=[10**6, 10**6])
    (folder / "a.zarr" / "0.0").write_bytes(b"0")
    return "a.zarr", {"need_labels": False}


def missing_chunk(folder: Path) -> tuple[str, dict[str, Any]]:
    """A Zarr store that lost a chunk."""
    path, options = write_zarr(folder)
    (folder / path / "X" / "c" / "1" / "0" / "0").unlink()
    return path, options


def deep_metadata(folder: Path) -> tuple[str, dict[str, Any]]:
    """Zarr metadata nested 100,000 deep."""
    (folder / "a.zarr").mkdir()
    (folder / "a.zarr" / "zarr.json").write_text('{"a":' * 100_000 + "1" + "}" * 100_000)
    return "a.zarr", {"need_labels": False}


def _write_zarray(folder: Path, **fields: Any) -> None:
    common = {"zarr_format": 2, "fill_value": 0, "order": "C", "dtype": "<f8", "compressor": None, "filters": None}
    folder.mkdir()
    (folder / ".zarray").write_text(json.dumps(common | fields))


def nested_groups(folder: Path) -> tuple[str, dict[str, Any]]:
    """HDF5 groups within groups, 3,000 deep."""
    import h5py

    with h5py.File(folder / "a.h5", "w", libver="latest") as file:
        group = file
        for _ in range(3000):
            group = group.create_group("g")
        group["X"] = _X
    return "a.h5", {"need_labels": False}


def circular_groups(folder: Path) -> tuple[str, dict[str, Any]]:
    """An HDF5 group that contains itself."""
    import h5py

    with h5py.File(folder / "a.h5", "w") as file:
        group = file.create_group("g")
        group["g"] = group
    return "a.h5", {"need_labels": False}


def unwritten_hdf5(folder: Path) -> tuple[str, dict[str, Any]]:
    """An HDF5 data set of 8 TB of which nothing was written."""
    import h5py

    with h5py.File(folder / "a.h5", "w") as file:
        file.create_dataset("X", (10**6, 10**6), "f8", chunks=(1000, 1000))
    return "a.h5", {"need_labels": False}


def unwritten_texts(folder: Path) -> tuple[str, dict[str, Any]]:
    """10^8 HDF5 texts that were never written, as labels."""
    import h5py

    with h5py.File(folder / "a.h5", "w") as file:
        file["X"] = _X
        file.create_dataset("y", (10**8,), h5py.string_dtype(), chunks=(10**6,))
    return "a.h5", {"fill_missing": True}


def _secret(folder: Path) -> Path:
    """Return a file outside of the folder that must not be read."""
    secret = folder.parent / f"{folder.name}-secret.bin"
    secret.write_bytes(bytes(range(48)))
    return secret


def external_storage(folder: Path) -> tuple[str, dict[str, Any]]:
    """An HDF5 data set whose entries are those of another file."""
    import h5py

    with h5py.File(folder / "a.h5", "w") as file:
        file.create_dataset("X", (6, 8), "u1", external=[(str(_secret(folder)), 0, 48)])
        file["y"] = _Y
    return "a.h5", {}


def virtual_storage(folder: Path) -> tuple[str, dict[str, Any]]:
    """An HDF5 data set that is a view of another file."""
    import h5py

    secret = _secret(folder).with_suffix(".h5")
    with h5py.File(secret, "w") as file:
        file["secret"] = _X
    layout = h5py.VirtualLayout(_X.shape, _X.dtype)
    layout[:] = h5py.VirtualSource(secret, "secret", _X.shape)
    with h5py.File(folder / "a.h5", "w") as file:
        file.create_virtual_dataset("X", layout)
        file["y"] = _Y
    return "a.h5", {}


def external_link(folder: Path) -> tuple[str, dict[str, Any]]:
    """A MATLAB 7.3 variable that is a link to another file."""
    import h5py

    secret = _secret(folder).with_suffix(".h5")
    with h5py.File(secret, "w") as file:
        file["secret"] = _X.T
    with h5py.File(folder / "a.mat", "w", userblock_size=512) as file:
        file["X"] = h5py.ExternalLink(str(secret), "secret")
        file["y"] = _Y[None]
    return "a.mat", {}


def many_pages(folder: Path) -> tuple[str, dict[str, Any]]:
    """A TIFF file of 20,000 pages."""
    (folder / "images" / "a").mkdir(parents=True)
    page = 2 + 12 * 8 + 4
    parts = [b"II*\0" + struct.pack("<I", 8)]
    for number in range(20_000):
        start = 8 + number * page
        tags = [(256, 3, 1), (257, 3, 1), (258, 3, 8), (259, 3, 1), (262, 3, 1), (273, 4, 0), (278, 3, 1), (279, 4, 1)]
        entries = b"".join(struct.pack("<HHII", tag, kind, 1, value) for tag, kind, value in tags)
        parts.append(struct.pack("<H", 8) + entries + struct.pack("<I", start + page if number < 19_999 else 0))
    (folder / "images" / "a" / "a.tif").write_bytes(b"".join(parts))
    return "images", {}


def circular_pages(folder: Path) -> tuple[str, dict[str, Any]]:
    """A TIFF file whose only page is followed by itself."""
    path, options = write_tiff(folder)
    file = folder / path / "class 0" / "0.tif"
    content = bytearray(file.read_bytes())
    (start,) = struct.unpack_from("<I", content, 4)
    (number,) = struct.unpack_from("<H", content, start)
    struct.pack_into("<I", content, start + 2 + 12 * number, start)
    file.write_bytes(content)
    return path, options


def fdt_elsewhere(folder: Path) -> tuple[str, dict[str, Any]]:
    """An EEGLAB file whose values are a link to a file elsewhere."""
    path, options = write_eeglab_fdt(folder)
    secret = folder.parent / f"{folder.name}-secret.fdt"
    (folder / "a.fdt").rename(secret)
    (folder / "a.fdt").symlink_to(secret)
    return path, options


def huge_eeglab(folder: Path) -> tuple[str, dict[str, Any]]:
    """An EEGLAB file that says it has 10^12 trials, in a .fdt file of 2 kB."""
    from scipy.io import loadmat, savemat

    path, options = write_eeglab_fdt(folder)
    content = loadmat(folder / path)["EEG"]
    content["trials"][0, 0] = np.array([[1e12]])
    savemat(folder / path, {"EEG": content})
    return path, options


def circular_structure(folder: Path) -> tuple[str, dict[str, Any]]:
    """A MATLAB 7.3 structure that contains itself three times."""
    import h5py

    with h5py.File(folder / "a.mat", "w", userblock_size=512) as file:
        group = file.create_group("g")
        for name in "abc":
            group[name] = group
    return "a.mat", {"need_labels": False}


def nested_structures(folder: Path) -> tuple[str, dict[str, Any]]:
    """MATLAB 5 structures within structures, 200 deep."""
    from scipy.io import savemat

    inner: dict[str, Any] = {"X": _X}
    for _ in range(200):
        inner = {"s": inner}
    savemat(folder / "a.mat", inner)
    return "a.mat", {"need_labels": False}


def huge_netcdf(folder: Path) -> tuple[str, dict[str, Any]]:
    """A netCDF 3 file that says it has 10^18 values."""
    path, options = write_netcdf(folder)
    content = (folder / path).read_bytes()
    for name in (b"\0\0\0\5trial\0\0\0\0\0\0\6", b"\0\0\0\3row\0\0\0\0\x08"):
        content = content.replace(name, name[:-4] + struct.pack(">i", 10**9))
    (folder / path).write_bytes(content)
    return path, options


def late_events(folder: Path) -> tuple[str, dict[str, Any]]:
    """A recording with events after 10^300 seconds."""
    path, options = write_series(folder)
    (folder / "events.tsv").write_text("onset\tduration\ttrial_type\n1e300\t0.1\ta\n-1e300\t0.1\tb\n")
    return path, options


def huge_png(folder: Path) -> tuple[str, dict[str, Any]]:
    """A PNG file that says it has 10^10 pixels."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    (folder / "images" / "a").mkdir(parents=True)
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 10**5, 10**5, 8, 0, 0, 0, 0))
    body = chunk(b"IDAT", zlib.compress(bytes(10**5))) + chunk(b"IEND", b"")
    (folder / "images" / "a" / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + head + body)
    return "images", {}


def huge_size(folder: Path) -> tuple[str, dict[str, Any]]:
    """Images to be resized to 10^12 pixels."""
    return write_png(folder)[0], {"size": [10**6, 10**6]}


def huge_nifti(folder: Path) -> tuple[str, dict[str, Any]]:
    """A compressed NIfTI file that says it has 30000^3 voxels."""
    import nibabel

    header = nibabel.Nifti1Header()
    header.set_data_shape((30_000, 30_000, 30_000, 2))
    header.set_data_dtype(np.float64)
    content = bytearray(header.binaryblock + bytes(4))
    struct.pack_into("<f", content, 108, 352.0)
    content[344:348] = b"n+1\0"
    (folder / "a.nii.gz").write_bytes(gzip.compress(bytes(content) + bytes(10**6)))
    return "a.nii.gz", _labels(folder)


def long_tail(folder: Path) -> tuple[str, dict[str, Any]]:
    """A compressed NIfTI file with 1 GB of zeros behind the values."""
    path, options = write_nifti_gz(folder)
    content = gzip.decompress((folder / path).read_bytes())
    with gzip.open(folder / path, "wb", compresslevel=1) as file:
        file.write(content)
        for _ in range(100):
            file.write(bytes(10**7))
    return path, options


def _pipe(name: str) -> Writer:
    def write(folder: Path) -> tuple[str, dict[str, Any]]:
        os.mkfifo(folder / name)
        return name, {"need_labels": False}

    write.__doc__ = f"A pipe named {name}."
    return write


def _device(name: str) -> Writer:
    def write(folder: Path) -> tuple[str, dict[str, Any]]:
        (folder / name).symlink_to("/dev/zero")
        return name, {"need_labels": False}

    write.__doc__ = f"A device named {name}."
    return write


def labels_from_a_device(folder: Path) -> tuple[str, dict[str, Any]]:
    """Labels from /dev/zero."""
    np.save(folder / "a.npy", _X)
    (folder / "labels.csv").symlink_to("/dev/zero")
    return "a.npy", {"labels_from": "labels.csv"}


def link_out_of_a_folder(folder: Path) -> tuple[str, dict[str, Any]]:
    """A class folder with a link to an array elsewhere."""
    secret = _secret(folder).with_suffix(".npy")
    np.save(secret, _X[0])
    (folder / "samples" / "a").mkdir(parents=True)
    (folder / "samples" / "a" / "0.npy").symlink_to(secret)
    return "samples", {}


def link_to_a_folder(folder: Path) -> tuple[str, dict[str, Any]]:
    """A class folder that is a link to a folder elsewhere."""
    secret = folder.parent / f"{folder.name}-secret"
    secret.mkdir()
    np.save(secret / "0.npy", _X[0])
    (folder / "samples").mkdir()
    (folder / "samples" / "a").symlink_to(secret)
    return "samples", {}


def link_in_a_store(folder: Path) -> tuple[str, dict[str, Any]]:
    """A Zarr store with a chunk that is a link to a file elsewhere."""
    path, options = write_zarr(folder)
    chunk = folder / path / "X" / "c" / "1" / "0" / "0"
    chunk.unlink()
    chunk.symlink_to(_secret(folder))
    return path, options


def path_out_of_a_table(folder: Path) -> tuple[str, dict[str, Any]]:
    """A table that names an array outside of its folder."""
    secret = _secret(folder).with_suffix(".npy")
    np.save(secret, _X[0])
    (folder / "table.csv").write_text(f"path,label\n../{secret.name},a\n")
    return "table.csv", {}


def folder_of_another_encoding(folder: Path) -> tuple[str, dict[str, Any]]:
    """A class folder whose name is not UTF-8."""
    place = os.path.join(os.fsencode(folder), b"samples", b"Stra\xdfe")
    os.makedirs(place)
    np.save(os.path.join(os.fsdecode(place), "0.npy"), _X[0])
    return "samples", {}


def long_names(folder: Path) -> tuple[str, dict[str, Any]]:
    """A table with 5,000 columns of long names, none of them a path."""
    names = [f"column {number} " + "x" * 100 for number in range(5000)]
    (folder / "table.csv").write_text(",".join(names) + "\n" + ",".join("1" * 5000) + "\n")
    return "table.csv", {}


def zero_bytes_in_a_table(folder: Path) -> tuple[str, dict[str, Any]]:
    """A table of 10 MB of zero bytes."""
    (folder / "table.csv").write_bytes(bytes(10**7))
    return "table.csv", {}


def store_named_as_an_address(folder: Path) -> tuple[str, dict[str, Any]]:
    """A Zarr store whose name is, as an address, that of a store elsewhere."""
    path, _ = write_zarr(folder)
    secret = (folder / path).rename(folder.parent / f"{folder.name}-secret")
    (folder / "a").symlink_to(secret)
    for chunk in secret.rglob("c/**/[0-9]"):  # these seem to be there
        (folder / "a::b.zarr" / chunk.relative_to(secret)).mkdir(parents=True, exist_ok=True)
    return "a::b.zarr", {}


def cells_elsewhere(folder: Path) -> tuple[str, dict[str, Any]]:
    """MATLAB 7.3 cells within cells that are stored in another file, a pipe."""
    import h5py

    os.mkfifo(folder / "pipe")
    with h5py.File(folder / "a.mat", "w", userblock_size=512) as file:
        inner = file.create_dataset("#refs#/0", (1, 1), h5py.ref_dtype, external=[(str(folder / "pipe"), 0, 8)])
        file.create_dataset("X", (1, 1), h5py.ref_dtype)[...] = inner.ref
        file["y"] = _Y[None]
    return "a.mat", {}


def header_elsewhere(folder: Path) -> tuple[str, dict[str, Any]]:
    """An ENVI scene whose header is a link to a file elsewhere."""
    write_envi(folder)
    secret = folder.parent / f"{folder.name}-secret.hdr"
    (folder / "scene.hdr").rename(secret)
    (folder / "scene.hdr").symlink_to(secret)
    return "scene.img", {"scene": True}


def _write_subjects(folder: Path) -> None:
    import nibabel

    make: Any = nibabel.Nifti1Image
    for number in (1, 2):
        (folder / f"sub-{number}").mkdir(parents=True)
        nibabel.save(make(_X.astype(np.float32), np.eye(4)), folder / f"sub-{number}" / f"sub-{number}_T1w.nii")


def link_to_participants(folder: Path) -> tuple[str, dict[str, Any]]:
    """A BIDS data set whose participants are in a file elsewhere."""
    _write_subjects(folder / "study")
    secret = _secret(folder)
    secret.write_text("participant_id\tgroup\nsub-1\ta\nsub-2\tb\n")
    (folder / "study" / "participants.tsv").symlink_to(secret)
    return "study", {}


def participants_above(folder: Path) -> tuple[str, dict[str, Any]]:
    """A BIDS data set whose participants are those of the folder two levels above."""
    _write_subjects(folder / "study" / "derivatives" / "prepared")
    (folder / "study" / "participants.tsv").write_text("participant_id\tgroup\nsub-1\ta\nsub-2\tb\n")
    return "study/derivatives/prepared", {"labels": "group"}


def volume_that_is_its_own_link(folder: Path) -> tuple[str, dict[str, Any]]:
    """A BIDS data set with a file that is a link to itself."""
    _write_subjects(folder / "study")
    (folder / "study" / "sub-2" / "sub-2_T1w.nii").unlink()
    (folder / "study" / "sub-2" / "sub-2_T1w.nii").symlink_to("sub-2_T1w.nii")
    return "study", {"need_labels": False}


def _write_bids_run(folder: Path, tables: Path) -> Path:
    write_run(folder)
    tables.mkdir(parents=True, exist_ok=True)
    (folder / "a.nii").rename(folder / "sub-1_bold.nii")
    return (folder / "events.tsv").rename(tables / "sub-1_events.tsv")


def link_to_events(folder: Path) -> tuple[str, dict[str, Any]]:
    """A run whose events are in a file elsewhere."""
    events = _write_bids_run(folder, folder.parent / f"{folder.name}-secret")
    (folder / "sub-1_events.tsv").symlink_to(events)
    return "sub-1_bold.nii", {"tr": 0.02}


def events_above(folder: Path) -> tuple[str, dict[str, Any]]:
    """A folder of runs in derivatives, whose events are in the data set above."""
    (folder / "derivatives" / "prepared" / "sub-1").mkdir(parents=True)
    _write_bids_run(folder / "derivatives" / "prepared" / "sub-1", folder / "sub-1")
    return "derivatives/prepared", {"tr": 0.02}


def link_to_confounds(folder: Path) -> tuple[str, dict[str, Any]]:
    """A run whose confounds are in a file elsewhere."""
    _write_bids_run(folder, folder)
    secret = _secret(folder)
    secret.write_text("x\n" + "\n".join(map(str, np.arange(40) % 7)))
    (folder / "sub-1_desc-confounds_timeseries.tsv").symlink_to(secret)
    return "sub-1_bold.nii", {"tr": 0.02, "run_confounds": ["x"]}


def blanks_in_a_header(folder: Path) -> tuple[str, dict[str, Any]]:
    """An ENVI header with a line of 50,000 blanks, and no field behind it."""
    (folder / "scene.hdr").write_text("ENVI\n" + 50_000 * " " + "\n")
    return "scene.hdr", {"scene": True}


def lists_without_an_end(folder: Path) -> tuple[str, dict[str, Any]]:
    """An ENVI header with 10^6 lists that have no end."""
    (folder / "scene.hdr").write_text("ENVI\n" + 10**6 * "a = {\n")
    return "scene.hdr", {"scene": True}


def long_line(folder: Path) -> tuple[str, dict[str, Any]]:
    """An ENVI header with 10^6 wavelengths in one line."""
    path, options = write_envi(folder)
    with (folder / path).open("a") as file:
        file.write(f"wavelength = {{{10**6 * '1,'}}}\n")
    return path, options


def blanks_in_mode_names(folder: Path) -> tuple[str, dict[str, Any]]:
    """Names of modes with 50,000 blanks."""
    np.savez(folder / "a.npz", X=_X, y=_Y, mode_names=["row", f"column{50_000 * ' '}]"])
    return "a.npz", {}


_NPY = b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + b"{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }"
_NPY = _NPY.ljust(127) + b"\n" + bytes(8)

CRAFTED: dict[str, Writer] = {
    write.__name__: write
    for write in (
        nested_cells, huge_matrix, cells_of_cells, own_cell, empty_texts, many_members, packed_zeros, deep_header,
        many_chunks, many_chunks_filled, huge_zarr, missing_chunk, deep_metadata, nested_groups, circular_groups,
        unwritten_hdf5, unwritten_texts, external_storage, virtual_storage, external_link, many_pages, circular_pages,
        huge_png, huge_size, huge_nifti, long_tail, labels_from_a_device, link_out_of_a_folder, link_to_a_folder,
        fdt_elsewhere, huge_eeglab, circular_structure, nested_structures, huge_netcdf, late_events,
        link_in_a_store, path_out_of_a_table, folder_of_another_encoding, long_names, zero_bytes_in_a_table,
        store_named_as_an_address, cells_elsewhere, header_elsewhere, link_to_participants, participants_above,
        volume_that_is_its_own_link, link_to_events, events_above, link_to_confounds, blanks_in_a_header,
        lists_without_an_end, long_line, blanks_in_mode_names,
    )
}  # fmt: skip
CRAFTED |= {
    f"{words} {name}": make(name)
    for words, make in (("pipe", _pipe), ("device", _device))
    for name in ("a.npy", "a.npz", "a.mat", "a.h5", "a.zip", "a.nii", "a.csv", "a.set", "a.nc")
}
"""All of these must be refused."""


# --------------------------------------------------------------------------------------------------------- the campaign


class Loader:
    """A process that loads files; it is replaced after a crash or a hang."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None

    def load(self, folder: Path, path: str, options: dict[str, Any]) -> dict[str, Any]:
        """Return the outcome of loading a file: its ``kind``, and a digest of the values or a message."""
        if self.process is None or self.process.poll() is not None:
            command = [sys.executable, "-m", "campaigns.files"]
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=Path(__file__).parents[1]
            )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([str(folder), path, options]).encode() + b"\n")
        self.process.stdin.flush()
        if not select.select([self.process.stdout], [], [], SECONDS)[0]:
            self.end()
            return {"kind": "hang", "text": f"more than {SECONDS} s"}
        line = self.process.stdout.readline()
        if not line:
            return {"kind": "crash", "text": f"exit code {self.process.wait()}"}
        found: dict[str, Any] = json.loads(line)
        return found

    def end(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None


def read_file(folder: Path, path: str, options: dict[str, Any]) -> dict[str, Any]:
    """Return the arrays that `load_samples` reads, or `load_scene` for a scene."""
    from tensormargin.io import load_samples, load_scene

    if options.pop("scene", False):
        return {"X": np.asarray(load_scene(folder / path, **options).data)}
    for name in {"labels_from", "events"} & set(options):
        options[name] = folder / options[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = load_samples(folder / path, **options)
        arrays = {"X": np.asarray(found.data)}
    return arrays if found.target is None else {**arrays, "y": found.target}


def serve() -> None:
    """Load the files named on standard input, one line of JSON each, and print what came of each."""
    from tensormargin.io import BadFileError, digest

    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        folder, path, options = json.loads(line)
        try:
            values = read_file(Path(folder), path, options)
            values["X"] = values["X"].astype(float)
            reply = {"kind": "values", "text": digest(values)}
        except BadFileError as error:
            reply = {"kind": "message", "text": str(error)}
        except BaseException as error:  # noqa: BLE001 - that is what is looked for
            reply = {"kind": "traceback", "text": repr(error)[:500]}
        replies.write(json.dumps(reply) + "\n")
        replies.flush()


def judge(outcome: Outcome, words: str, found: dict[str, Any], right: str | None, checked: bool, name: str) -> None:
    """Count what came of a file; ``right`` is the digest of the undamaged samples, None if it must be refused."""
    kind, text = found["kind"], found["text"]
    if kind == "message" and name in text and len(text) <= LONGEST_MESSAGE:
        outcome.counts["refused"] += 1
        outcome.add(words, [])
    elif kind == "values" and right is not None and (text == right or not checked):
        outcome.counts["with other values (the format has no checksum)"] += text != right
        outcome.add(words, [])
    else:
        outcome.add(words, [f"{kind}, {text[:300]}"])


def crafted_files(number: int = 0, seed: int = 0) -> Outcome:
    """Return what came of all crafted files, of which there is one each, whatever the number and the seed."""
    outcome = Outcome("crafted files")
    with _loader() as loader:
        for name, write in CRAFTED.items():
            with _folder() as folder:
                path, options = write(folder)
                began = time.monotonic()
                found = loader.load(folder, path, options)
                seconds = time.monotonic() - began
                judge(outcome, f"{name} ({seconds:.1f} s)", found, None, True, folder.name)
    return outcome


def damaged_files(number: int, seed: int) -> list[Outcome]:
    """Return what came of about ``number`` damaged files in all, by format."""
    with _loader() as loader:
        return [_damaged(loader, name, -(-number // len(FORMATS)), seed) for name in FORMATS]


def _damaged(loader: Loader, name: str, number: int, seed: int) -> Outcome:
    outcome, form = Outcome(f"damaged files: {name}"), FORMATS[name]
    with _folder() as folder:
        right = loader.load(folder, *form.write(folder))
        assert right["kind"] == "values", right
    for one in range(number):
        with _folder() as folder:
            path, options, words = write_damaged(folder, name, one, seed)
            found = loader.load(folder, path, options)
            label = f"seed {seed}, case {one}: {words}"
            judge(outcome, label, found, right["text"], form.has_checksum, folder.name)
    return outcome


@contextmanager
def _loader() -> Iterator[Loader]:
    loader = Loader()
    try:
        yield loader
    finally:
        loader.end()


class _folder:
    """A temporary folder, with neighbours of the same name."""

    def __enter__(self) -> Path:
        self.parent = Path(tempfile.mkdtemp(prefix="campaign-"))
        self.folder = self.parent / "files"
        self.folder.mkdir()
        return self.folder

    def __exit__(self, *error: object) -> None:
        shutil.rmtree(self.parent)


if __name__ == "__main__":
    serve()
