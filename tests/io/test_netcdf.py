"""Tests of netCDF files: dimensions, coordinates and units become axes."""

from __future__ import annotations

import h5py
import numpy as np
import pytest
from scipy.io import netcdf_file

from tensormargin.io import BadFileError, load_samples

X = np.random.default_rng(0).normal(size=(6, 3, 4))
LABELS = ["left", "right"] * 3
CHANNELS, TIMES = ["Fz", "Cz", "Pz"], [0.0, 10.0, 20.0, 30.0]


def write_classic(path, dims=("trial", "channel", "time"), data=X, labels="condition", version=2, **attributes):
    sizes = dict(zip(dims, data.shape, strict=True)) | {"letters": 5}
    with netcdf_file(path, "w", version=version) as file:
        for dim, size in sizes.items():
            file.createDimension(dim, size)
        variable = file.createVariable("voltage", data.dtype.char, dims)
        for name, value in attributes.items():
            setattr(variable, name, value)
        variable[:] = data
        if "time" in dims:
            time = file.createVariable("time", "d", ("time",))
            time[:], time.units = TIMES, "ms"
        channel = file.createVariable("channel", "c", ("channel", "letters"))
        channel[:] = np.array([[*name.ljust(5, "\0")] for name in CHANNELS], "S1")
        label = file.createVariable(labels, "c", ("trial", "letters"))
        label[:] = np.array([[*name.ljust(5, "\0")] for name in LABELS], "S1")


def write_hdf5(path, dims=("trial", "channel", "time"), data=X, labels="condition", **attributes):
    """Write what netCDF 4 libraries write: dimensions are scales, those without coordinates hold no values."""
    sizes = dict(zip(dims, data.shape, strict=True))
    with h5py.File(path, "w") as file:
        file["time"], file["channel"] = TIMES, np.array(CHANNELS, object)
        file["time"].attrs["units"] = "ms"
        file.create_dataset("trial", (sizes["trial"],), ">f4")
        for dim in dims:
            alone = "This is a netCDF dimension but not a netCDF variable.         6"
            file[dim].make_scale(alone if dim == "trial" else dim)
        file.create_dataset("voltage", data=data, chunks=data.shape, compression="gzip")
        file["voltage"].attrs.update(attributes)
        file[labels] = np.array(LABELS, object)
        for place, dim in enumerate(dims):
            file["voltage"].dims[place].attach_scale(file[dim])
        file[labels].dims[0].attach_scale(file["trial"])


WRITERS = [write_classic, write_hdf5]


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("order", [(0, 1, 2), (1, 2, 0), (2, 0, 1)])
@pytest.mark.parametrize("labels", ["condition", "y"])
def test_dimensions_become_axes(write, order, labels, tmp_path):
    path = tmp_path / "a.nc"
    dims = ("trial", "channel", "time")
    write(path, [dims[axis] for axis in order], np.ascontiguousarray(X.transpose(order)), labels)
    found = load_samples(path)
    expected = {"channel": CHANNELS, "time": TIMES}
    kept = [dims[axis] for axis in order if axis]
    np.testing.assert_array_equal(found.data, X if kept == ["channel", "time"] else X.transpose(0, 2, 1))
    assert found.target.tolist() == LABELS
    assert [axis.name for axis in found.axes] == kept
    for axis in found.axes:
        assert axis.values.tolist() == expected[axis.name]
        assert axis.unit == ("ms" if axis.name == "time" else "")
    assert found.kind == "netCDF file"
    lazy = load_samples(path, lazy=True)
    np.testing.assert_array_equal(lazy.data.compute(), found.data)


@pytest.mark.parametrize("write", WRITERS)
def test_an_axis_that_is_asked_for_counts_the_samples(write, tmp_path):
    write(tmp_path / "a.nc")
    found = load_samples(tmp_path / "a.nc", axis=2, need_labels=False)
    np.testing.assert_array_equal(found.data, np.moveaxis(X, 2, 0))
    assert [axis.name for axis in found.axes] == ["trial", "channel"]


@pytest.mark.parametrize("write", WRITERS)
def test_packed_values_are_unpacked(write, tmp_path):
    raw = np.arange(72, dtype=np.int16).reshape(6, 3, 4)
    write(tmp_path / "a.nc", data=raw, scale_factor=0.5, add_offset=10.0, _FillValue=np.int16(-999))
    np.testing.assert_allclose(load_samples(tmp_path / "a.nc").data, 0.5 * raw + 10)
    raw[0, 0, 0] = -999
    write(tmp_path / "a.nc", data=raw, scale_factor=0.5, _FillValue=np.int16(-999))
    with pytest.raises(BadFileError, match=r"a\.nc.*NaN"):
        load_samples(tmp_path / "a.nc")
    write(tmp_path / "a.nc", data=X.astype(np.float32), _FillValue=np.float32(np.nan))
    assert load_samples(tmp_path / "a.nc").data.dtype == np.float32


@pytest.mark.parametrize("write", WRITERS)
def test_labels_that_are_unclear_are_listed(write, tmp_path):
    write(tmp_path / "a.nc")
    with pytest.raises(BadFileError, match=r"voltage \(6, 3, 4\)"):
        load_samples(tmp_path / "a.nc", labels="nothing")
    assert load_samples(tmp_path / "a.nc", samples="voltage", labels="condition").target.tolist() == LABELS


def test_unlimited_dimensions_and_the_first_version(tmp_path):
    with netcdf_file(tmp_path / "a.nc", "w", version=1) as file:
        file.createDimension("sample", None)
        file.createDimension("band", 5)
        data, label = file.createVariable("data", "f4", ("sample", "band")), file.createVariable("y", "i4", ("sample",))
        for row in range(7):
            data[row], label[row] = np.arange(5) + row, row % 2
    found = load_samples(tmp_path / "a.nc")
    np.testing.assert_array_equal(found.data, np.arange(7)[:, None] + np.arange(5))
    assert found.target.tolist() == [0, 1, 0, 1, 0, 1, 0]
    assert found.axes[0].name == "band"


def test_other_files_with_that_ending_are_refused(tmp_path):
    write_classic(tmp_path / "a.nc")
    content = (tmp_path / "a.nc").read_bytes()
    for damaged in (b"", b"CDF\x05" + content[4:], b"anything", content[:200], content[:-50]):
        (tmp_path / "a.nc").write_bytes(damaged)
        with pytest.raises(BadFileError, match=r"a\.nc"):
            load_samples(tmp_path / "a.nc")


@pytest.mark.parametrize("engine", ["scipy", "h5netcdf"])
def test_files_of_xarray(engine, tmp_path):
    xarray = pytest.importorskip("xarray", reason="xarray is not installed")
    pytest.importorskip(engine, reason=f"{engine} is not installed")
    coords = {"channel": CHANNELS, "time": ("time", TIMES, {"units": "ms"}), "label": ("trial", LABELS)}
    array = xarray.DataArray(X, dims=("trial", "channel", "time"), coords=coords, name="voltage")
    array.to_netcdf(tmp_path / "a.nc", engine=engine)
    found = load_samples(tmp_path / "a.nc")
    np.testing.assert_array_equal(found.data, X)
    assert found.target.tolist() == LABELS
    assert found.axes[0].values.tolist() == CHANNELS
    assert (found.axes[1].label, found.axes[1].values.tolist()) == ("time (ms)", TIMES)
