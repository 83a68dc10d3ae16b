"""Tests of Dask arrays: files are read chunk by chunk; transformers learn in one pass and otherwise stay lazy."""

from __future__ import annotations

import pickle
import re
import sys
import warnings
from collections import Counter

import h5py
import nibabel
import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from scipy.io import savemat
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from tensormargin.io import BadFileError, load_samples
from tensormargin.transformers import Crop, EqualLength, Mask, Recipe, Resize, Tensorize, TensorScaler

NEEDED = "needs Dask: pip install 'tensormargin[dask]'"
dask = pytest.importorskip("dask", reason=NEEDED)
da = pytest.importorskip("dask.array", reason=NEEDED)

N, SHAPE = 30, (6, 5, 4)
BRAIN = np.zeros(SHAPE, bool)
BRAIN[1:4, 2:5, 1:3] = True
LEARN_BY_READING = {
    "scale entry": TensorScaler(),
    "scale global": TensorScaler("global"),
    "scale mode": TensorScaler(1),
    "scale modes": TensorScaler((0, 2)),
    "scale only": TensorScaler(with_mean=False),
    "centre only": TensorScaler(with_std=False),
    "mask varying": Mask(),
    "mask bright": Mask("bright"),
    "crop varying": Crop(),
    "crop bright": Crop("bright", margin=1),
}
LEARN_BY_SHAPE = {
    "by group": TensorScaler(by_group=True),
    "by group and mode": TensorScaler(0, by_group=True),
    "fold": Tensorize((2, 3, -1)),
    "fold more": Tensorize((2, 3, 5, 2, 2)),
    "flatten": Tensorize(),
    "mask given": Mask(BRAIN),
    "crop given": Crop(BRAIN),
    "resize": Resize((3, 9)),
    "resample": EqualLength(7),
    "pad with a value": EqualLength(9, "constant", 2.0, mode=0),
    "pad with the edge": EqualLength(9, "edge", mode=1),
    "pad with the mean": EqualLength(9, "mean"),
    "cut": EqualLength(3, "edge"),
}
TRANSFORMERS = LEARN_BY_READING | LEARN_BY_SHAPE
CHUNKINGS = {"uneven": (7, 1, 12, 10), "one each": (1,) * N, "one": (N,), "some empty": (0, 11, 0, 19)}
every_transformer = pytest.mark.parametrize("name", TRANSFORMERS)
every_chunking = pytest.mark.parametrize("chunking", CHUNKINGS)


@pytest.fixture(autouse=True, scope="module")
def _synchronous():
    with dask.config.set(scheduler="synchronous"):
        yield


def samples(dtype=np.float64):
    """Return samples with a dark, constant border and entries of very different means and variances."""
    rng = np.random.default_rng(0)
    X = np.zeros((N, *SHAPE))
    inside = (slice(None), slice(1, 5), slice(1, 5), slice(0, 3))
    part = X[inside]
    X[inside] = rng.normal(rng.uniform(5, 50, part.shape[1:]), rng.uniform(0.1, 3, part.shape[1:]), part.shape)
    return np.greater(X, X.mean(axis=0)) if dtype is bool else X.astype(dtype)


X = samples()
GROUPS = np.random.default_rng(1).choice(["a", "b", "c"], N)


def in_chunks(array, chunking):
    return da.from_array(array, chunks=(chunking, *array.shape[1:]))


class Reads:
    """A Dask array that counts how often each of its chunks is read."""

    def __init__(self, array, chunking):
        self.count = Counter()
        positions = da.from_array(np.arange(len(array)), chunks=(chunking,))

        def read(rows):
            self.count[int(rows[0])] += 1
            return array[rows]

        self.array = da.blockwise(
            read, "abcd", positions, "a", new_axes=dict(zip("bcd", SHAPE, strict=True)), dtype=array.dtype,
            meta=np.empty((0,) * 4, array.dtype),
        )  # fmt: skip


def raising(array, chunking):
    """Return a Dask array that must not be computed."""

    def fail(block):
        raise AssertionError("computed")

    return in_chunks(array, chunking).map_blocks(fail, dtype=array.dtype, meta=np.empty((0,) * array.ndim, array.dtype))


# --- transformers


def assert_as_in_memory(transformer, X, lazy, rtol=1e-10):
    here, there = clone(transformer).fit(X, groups=GROUPS), clone(transformer).fit(lazy, groups=GROUPS)
    expected, changed = here.transform(X, groups=GROUPS), there.transform(lazy, groups=GROUPS)
    assert there.sample_shape_out_ == here.sample_shape_out_
    assert (changed.shape, changed.dtype) == (expected.shape, expected.dtype)
    assert changed.chunks[0] == lazy.chunks[0]
    computed = changed.compute()
    assert computed.dtype == expected.dtype
    np.testing.assert_allclose(computed, expected, rtol=rtol, atol=rtol * np.abs(expected).max())
    return there, changed


@every_chunking
@every_transformer
def test_transformers_give_what_they_give_in_memory(name, chunking):
    assert_as_in_memory(TRANSFORMERS[name], X, in_chunks(X, CHUNKINGS[chunking]))


@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.int64, bool], ids=lambda dtype: np.dtype(dtype).name)
@every_transformer
def test_other_types_become_what_they_become_in_memory(name, dtype):
    integers = samples(dtype)
    assert_as_in_memory(TRANSFORMERS[name], integers, in_chunks(integers, (12, 18)), rtol=1e-5)


@given(st.sampled_from(sorted(TRANSFORMERS)), st.lists(st.integers(1, N - 1), max_size=8, unique=True))
def test_any_chunks_give_the_same(name, cuts):
    lengths = tuple(np.diff([0, *sorted(cuts), N]).tolist())
    assert_as_in_memory(TRANSFORMERS[name], X, in_chunks(X, lengths))


@given(st.integers(0, 2**31), st.floats(-1e6, 1e6), st.lists(st.integers(1, 199), max_size=20, unique=True))
def test_one_pass_loses_no_digits_to_an_offset(seed, offset, cuts):
    noise = np.random.default_rng(seed).standard_normal((200, 3))
    noise[:, 2] = 0  # a constant entry stays constant despite rounding of its mean
    shifted = noise + offset
    lazy = da.from_array(shifted, chunks=(tuple(np.diff([0, *sorted(cuts), 200]).tolist()), 3))
    scaler = TensorScaler().fit(lazy)
    np.testing.assert_allclose(scaler.scale_[:2], shifted[:, :2].std(axis=0), rtol=1e-9)
    np.testing.assert_allclose(scaler.mean_, shifted.mean(axis=0), rtol=1e-12, atol=1e-12)
    assert scaler.scale_[2] == 1


@every_transformer
def test_changing_computes_nothing(name):
    lazy = raising(X, (10, 20))
    fitted = clone(TRANSFORMERS[name]).fit(X, groups=GROUPS)
    changed = fitted.transform(lazy, groups=GROUPS)
    assert isinstance(changed, da.Array)
    with pytest.raises(AssertionError, match="computed"):
        changed.compute()


@pytest.mark.parametrize("name", LEARN_BY_SHAPE)
def test_what_learns_from_the_shape_reads_nothing(name):
    clone(LEARN_BY_SHAPE[name]).fit(raising(X, (10, 20)), groups=GROUPS)


@pytest.mark.parametrize("name", LEARN_BY_READING)
def test_learning_reads_every_chunk_once_and_samples_stay_where_they_are(name):
    reads = Reads(X, (10, 10, 10))
    sizes = []

    def note(key, result, graph, state, worker):
        sizes.append(max((np.size(each) for each in _leaves(result)), default=0))

    with dask.callbacks.Callback(posttask=note):
        clone(LEARN_BY_READING[name]).fit(reads.array)
    assert reads.count == {0: 1, 10: 1, 20: 1}
    assert max(sizes) <= np.prod(SHAPE)  # a task returns statistics, no larger than one sample


def _leaves(result):
    if isinstance(result, dict):
        result = tuple(result.values())
    return [leaf for each in result for leaf in _leaves(each)] if isinstance(result, tuple | list) else [result]


def test_by_group_reads_twice_rather_than_keep_all_chunks():
    reads = Reads(X, (10, 10, 10))
    changed = TensorScaler(by_group=True).fit_transform(reads.array, groups=GROUPS)
    assert not reads.count
    expected = TensorScaler(by_group=True).fit_transform(X, groups=GROUPS)
    np.testing.assert_allclose(changed.compute(), expected, rtol=1e-10, atol=1e-10)
    assert reads.count == {0: 2, 10: 2, 20: 2}


def test_a_later_fit_does_not_change_what_waits():
    lazy = in_chunks(X, (10, 20))
    scaler = TensorScaler().fit(lazy)
    waiting = scaler.transform(lazy)
    scaler.fit(100 * lazy + 3)
    np.testing.assert_allclose(waiting.compute(), TensorScaler().fit_transform(X), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", ["scale entry", "scale mode", "fold", "fold more", "flatten", "crop given"])
def test_undoing_computes_nothing_and_undoes(name):
    lazy = in_chunks(X, (10, 20))
    fitted = clone(TRANSFORMERS[name]).fit(lazy)
    undone = fitted.inverse_transform(fitted.transform(lazy))
    assert undone.chunks == lazy.chunks
    in_memory = fitted.inverse_transform(fitted.transform(X))
    np.testing.assert_allclose(undone.compute(), in_memory, rtol=1e-12, atol=1e-12)
    assert isinstance(fitted.inverse_transform(raising(fitted.transform(X), (10, 20))), da.Array)


def test_samples_that_are_cut_are_put_together():
    cut = da.from_array(X, chunks=(10, 3, 2, 4))
    fitted, changed = assert_as_in_memory(TensorScaler(), X, cut)
    assert changed.numblocks == (3, 1, 1, 1)
    with dask.config.set({"array.chunk-size": f"{5 * X[0].nbytes}B"}):
        assert fitted.transform(cut).chunks[0] == (5,) * 6  # chunks of ten whole samples would be too large
        assert fitted.transform(cut.rechunk({0: 5})).chunks[0] == (5,) * 6
        assert fitted.transform(in_chunks(X, (N,))).chunks[0] == (N,)  # requested chunks are kept
    undone = fitted.inverse_transform(changed.rechunk({1: 2}))
    np.testing.assert_allclose(undone.compute(), X, rtol=1e-10, atol=1e-10)


def test_pipelines_and_recipes_stay_lazy():
    recipe = Recipe(mask="varying", crop="varying", resize=(3, 3), scale="mode 1", tensorize=(-1,))
    lazy = in_chunks(X, (10, 20))
    changed = recipe.inner().fit_transform(lazy)
    assert isinstance(changed, da.Array)
    np.testing.assert_allclose(changed.compute(), recipe.inner().fit_transform(X), rtol=1e-10, atol=1e-10)
    by_group = Recipe(by_group=True).scaled_by_group(lazy, GROUPS)
    assert isinstance(by_group, da.Array)
    assert Recipe().scaled_by_group(lazy, None) is lazy
    fitted = make_pipeline(TensorScaler(), Tensorize((6, 20))).fit(lazy)
    assert isinstance(fitted.transform(raising(X, (N,))), da.Array)


def test_what_was_learned_lazily_serves_arrays_in_memory():
    scaler = TensorScaler().fit(in_chunks(X, (10, 20)))
    assert isinstance(scaler.mean_, np.ndarray)
    np.testing.assert_allclose(scaler.transform(X), TensorScaler().fit_transform(X), rtol=1e-10, atol=1e-10)
    assert scaler.n_features_in_ == SHAPE[0]


def test_samples_that_no_transformer_can_use():
    scaler = TensorScaler().fit(X)
    unknown = da.from_array(np.arange(4.0), chunks=2)
    unknown = unknown[unknown > 0][:, None]
    refusals = [
        (unknown, r"length of every axis must be known; got X of shape \(nan, 1\). Call X.compute_chunk_sizes\(\)"),
        (da.ones(5), r"X must have the shape \(n_samples, I_1, ...\), none of them 0; got \(5,\)"),
        (da.ones((0, 3)), r"none of them 0; got \(0, 3\)"),
        (da.ones((3, 3), dtype=complex), "X must hold real numbers of a type that NumPy has; got complex128"),
        (da.ones((3, 3)).astype(object), "got object. Cast it"),
    ]
    for lazy, words in refusals:
        with pytest.raises(ValueError, match=words):
            TensorScaler().fit(lazy)
        with pytest.raises(ValueError, match=words):
            scaler.transform(lazy)
    with pytest.raises(ValueError, match=r"samples must have the shape seen in fit, \(6, 5, 4\); got \(6, 5\)"):
        scaler.transform(in_chunks(X[..., 0], (N,)))
    vectors = TensorScaler().fit(da.ones((4, 3)))
    with pytest.raises(ValueError, match="X has 2 features, but TensorScaler is expecting 3 features"):
        vectors.transform(da.ones((4, 2)))
    assert unknown.compute_chunk_sizes().shape == TensorScaler().fit_transform(unknown).shape == (3, 1)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("name", LEARN_BY_READING)
def test_learning_finds_nan(name, bad):
    spoiled = X.copy()
    spoiled[17, 2, 2, 1] = bad
    for chunking in CHUNKINGS.values():
        with pytest.raises(ValueError, match="Input X contains NaN or infinity; leave those samples out"):
            clone(LEARN_BY_READING[name]).fit(in_chunks(spoiled, chunking))


def test_groups_are_counted_and_may_be_lazy():
    lazy = in_chunks(X, (10, 20))
    scaler = TensorScaler(by_group=True)
    codes = np.unique(GROUPS, return_inverse=True)[1]
    expected = scaler.fit_transform(X, groups=codes)
    changed = scaler.fit_transform(lazy, groups=da.from_array(codes, chunks=7))
    np.testing.assert_allclose(changed.compute(), expected, rtol=1e-10, atol=1e-10)
    with pytest.raises(ValueError, match="needs groups"):
        scaler.fit(lazy)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        scaler.fit(lazy, groups=codes[1:])


# --- files

PIXELS = np.random.default_rng(0).integers(0, 200, (12, 4, 5)).astype(np.uint8)
LABELS = np.array(["cat", "dog"] * 6)
RUNS = np.repeat([1, 2, 3], 4)
AFFINE = np.diag([2.0, 3.0, 4.0, 1.0])


def save_hdf5(path, X, **others):
    with h5py.File(path, "w") as file:
        file.create_dataset("X", data=X, chunks=(3, *X.shape[1:]))
        for name, array in others.items():
            file[name] = array.astype(h5py.string_dtype()) if array.dtype.kind == "U" else array


def save_mat73(path, X, y, groups):
    with h5py.File(path, "w", userblock_size=512) as file:
        file["X"], file["y"], file["groups"] = X.T, np.unique(y, return_inverse=True)[1][None], groups[None]


def save_zarr(path, X, y, groups):
    group = zarr.open_group(str(path), mode="w")
    group.create_array("X", data=X, chunks=(3, *X.shape[1:]))
    group.create_array("groups", data=groups)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # text is not specified in version 3
        group.create_array("y", shape=y.shape, dtype=str)[:] = y.astype(object)


CONTAINERS = {
    "a.npz": (np.savez, 1),
    "packed.npz": (np.savez_compressed, None),
    "a.mat": (lambda path, **arrays: savemat(path, arrays), None),
    "a73.mat": (save_mat73, 1),
    "a.h5": (save_hdf5, 3),
    "a.zarr": (save_zarr, 3),
}
every_container = pytest.mark.parametrize("name", CONTAINERS)


def assert_lazy(found, expected, lengths=None):
    """Check a loaded Dask array, also after pickling, which no open file survives."""
    assert isinstance(found.data, da.Array)
    assert (found.data.shape, found.data.dtype) == (expected.shape, expected.dtype)
    assert found.data.numblocks[1:] == (1,) * (expected.ndim - 1)
    if lengths is not None:
        assert found.data.chunks[0] == lengths
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(found.data)).compute(), expected)
    np.testing.assert_array_equal(found.data[5:7].compute(), expected[5:7])


@every_container
def test_containers(name, tmp_path):
    save, together = CONTAINERS[name]
    save(tmp_path / name, X=PIXELS, y=LABELS, groups=RUNS)
    in_memory = load_samples(tmp_path / name)
    found = load_samples(tmp_path / name, lazy=True, chunks=5)
    assert_lazy(found, PIXELS, (5, 5, 2))
    assert found.target.tolist() == in_memory.target.tolist()
    assert found.groups.tolist() == in_memory.groups.tolist() == RUNS.tolist()
    assert (found.kind, found.source) == (in_memory.kind, in_memory.source)
    assert [re.sub(r" read whole,.*", "", note) for note in found.notes] == (
        [f"{name} can only be"] if together is None else []
    )
    for_bytes = load_samples(tmp_path / name, lazy=True, chunks=f"{4 * PIXELS[0].size}B")
    assert_lazy(for_bytes, PIXELS, (3,) * 4 if together == 3 else (4,) * 3)
    assert_lazy(load_samples(tmp_path / name, lazy=True), PIXELS, (12,))


@every_container
def test_samples_along_another_axis(name, tmp_path):
    CONTAINERS[name][0](tmp_path / name, X=np.ascontiguousarray(np.moveaxis(PIXELS, 0, -1)), y=LABELS, groups=RUNS)
    for axis in (2, -1):
        assert_lazy(load_samples(tmp_path / name, axis=axis, lazy=True, chunks=5), PIXELS, (5, 5, 2))
    with pytest.raises(BadFileError, match=r"axis=3 .* must be one of the 3 axes"):
        load_samples(tmp_path / name, axis=3, lazy=True)
    with pytest.raises(BadFileError, match=r"12 labels, but 4 samples .* give axis=2"):
        load_samples(tmp_path / name, lazy=True)


@every_container
def test_nan_is_found_by_the_task_that_reads_it(name, tmp_path):
    spoiled = PIXELS.astype(np.float32)
    spoiled[7, 0, 0] = np.nan
    CONTAINERS[name][0](tmp_path / name, X=spoiled, y=LABELS, groups=RUNS)
    found = load_samples(tmp_path / name, lazy=True, chunks=6)
    if CONTAINERS[name][1] is not None:
        found.data[:6].compute()
    with pytest.raises(BadFileError, match=f"{re.escape(name)}: X holds NaN in 1 of"):
        found.data.compute()


def test_npy_is_mapped_by_each_task(tmp_path):
    for order in "CF":
        np.save(tmp_path / "x.npy", np.asarray(PIXELS, order=order))
        np.save(tmp_path / "y.npy", LABELS)
        found = load_samples(tmp_path / "x.npy", labels_from=tmp_path / "y.npy", lazy=True, chunks=5)
        assert_lazy(found, PIXELS, (5, 5, 2))
        assert found.target.tolist() == LABELS.tolist()


@pytest.mark.parametrize("order", ["C", "F"])
def test_parts_of_an_archive_are_mapped(order, tmp_path, monkeypatch):
    np.savez(tmp_path / "a.npz", other=np.ones(3), X=np.asarray(PIXELS, order=order))
    found = load_samples(tmp_path / "a.npz", lazy=True, chunks=5, need_labels=False)
    monkeypatch.setattr(np.lib.format, "read_array", None)
    assert_lazy(found, PIXELS, (5, 5, 2))


def test_a_single_zarr_array_with_shards(tmp_path):
    array = zarr.create_array(
        str(tmp_path / "a.zarr"), shape=PIXELS.shape, dtype="u1", chunks=(2, 4, 5), shards=(4, 4, 5)
    )
    array[...] = PIXELS
    found = load_samples(tmp_path / "a.zarr", need_labels=False, lazy=True, chunks="110 B")
    assert_lazy(found, PIXELS, (4, 4, 4))  # five would fit, but chunks of four are stored together


@pytest.mark.parametrize("ending", ["nii", "nii.gz"])
def test_volumes_in_one_file(ending, tmp_path):
    image = nibabel.Nifti1Image(np.random.default_rng(0).integers(-99, 99, (2, 3, 4, 12)).astype(np.int16), AFFINE)
    image.header.set_slope_inter(0.5, 10)
    nibabel.save(image, tmp_path / f"a.{ending}")
    np.save(tmp_path / "y.npy", LABELS)
    in_memory = load_samples(tmp_path / f"a.{ending}", labels_from=tmp_path / "y.npy")
    found = load_samples(tmp_path / f"a.{ending}", labels_from=tmp_path / "y.npy", lazy=True, chunks=5)
    assert_lazy(found, in_memory.data, (5, 5, 2))
    assert np.array_equal(found.affine, AFFINE)
    assert found.kind == "4-D NIfTI"
    assert len(found.notes) == 1 + (ending == "nii.gz")
    nibabel.save(image.slicer[..., 0], tmp_path / f"one.{ending}")
    one = load_samples(tmp_path / f"one.{ending}", need_labels=False, lazy=True)
    np.testing.assert_array_equal(one.data.compute()[0], nibabel.load(tmp_path / f"one.{ending}").get_fdata())


def save_volume(path, array):
    nibabel.save(nibabel.Nifti1Image(array.astype(np.float32)[..., None], AFFINE), path)


def save_image(path, array):
    Image.fromarray(array).save(path)


FILES = {"png": save_image, "npy": np.save, "nii": save_volume, "nii.gz": save_volume}


def class_folder(folder, ending="npy"):
    for position, (array, label) in enumerate(zip(PIXELS, LABELS, strict=True)):
        (folder / label).mkdir(parents=True, exist_ok=True)
        FILES[ending](folder / label / f"{position:02}.{ending}", array)
    return folder


@pytest.mark.parametrize("ending", FILES)
def test_class_folders_and_tables(ending, tmp_path):
    class_folder(tmp_path / "classes", ending)
    in_memory = load_samples(tmp_path / "classes")
    found = load_samples(tmp_path / "classes", lazy=True, chunks=5)
    assert_lazy(found, in_memory.data, (5, 5, 2))
    assert found.target.tolist() == ["cat"] * 6 + ["dog"] * 6
    assert found.names == in_memory.names
    if "nii" in ending:
        assert np.array_equal(found.affine, AFFINE)
        turned = "other files are reoriented to match it when they are read"
        assert found.notes == (f"the affine is that of cat/00.{ending}; {turned}",)
    rows = "".join(f"classes/{name},{name[:3]}\n" for name in reversed(found.names))
    (tmp_path / "table.csv").write_text(f"path,label\n{rows}")
    table = load_samples(tmp_path / "table.csv", lazy=True, chunks=7)
    assert_lazy(table, in_memory.data[::-1], (7, 5))
    resized = load_samples(tmp_path / "classes", lazy=True, size=(2, 3))
    assert_lazy(resized, load_samples(tmp_path / "classes", size=(2, 3)).data, (12,))


def test_few_files_a_task(tmp_path, monkeypatch):
    monkeypatch.setattr("tensormargin.io.images._FILES_AT_ONCE", 8)
    class_folder(tmp_path)
    assert load_samples(tmp_path, lazy=True).data.chunks[0] == (8, 4)
    assert load_samples(tmp_path, lazy=True, chunks="40 B").data.chunks[0] == (2,) * 6
    assert load_samples(tmp_path, lazy=True, chunks=12).data.chunks[0] == (12,)


def test_files_that_are_not_like_the_first_are_refused_when_read(tmp_path):
    class_folder(tmp_path)
    np.save(tmp_path / "cat" / "02.npy", PIXELS[0, :3])
    np.save(tmp_path / "cat" / "04.npy", PIXELS[0].astype(np.float32))
    np.save(tmp_path / "cat" / "06.npy", PIXELS[0].astype(bool))  # uint8 can hold bool
    data = load_samples(tmp_path, lazy=True, chunks=1).data
    with pytest.raises(BadFileError, match=r"02.npy: has the shape \(3, 5\), but .*00.npy has \(4, 5\); .* --size"):
        data[1].compute()
    with pytest.raises(BadFileError, match=r"04.npy: holds float32, which uint8, .*; convert .* without lazy=True"):
        data[2].compute()
    assert data[3].compute().dtype == np.uint8
    (tmp_path / "cat" / "08.npy").unlink()
    with pytest.raises(BadFileError, match=r"08.npy: no such file"):
        data[4].compute()


@pytest.mark.parametrize("chunks", [0, -1, "", "many", None, 2.5])
def test_chunks_that_cannot_be(chunks, tmp_path):
    np.save(tmp_path / "x.npy", PIXELS)
    with pytest.raises(ValueError, match=re.escape(f"got chunks={chunks!r}")):
        load_samples(tmp_path / "x.npy", need_labels=False, lazy=True, chunks=chunks)


def test_arrays_that_cannot_be_samples_are_refused_at_once(tmp_path):
    np.savez(tmp_path / "a.npz", line=RUNS, text=LABELS[:, None], none=PIXELS[:0], y=LABELS)
    for name, words in {"line": "must have the shape", "text": "real numbers", "none": "12 labels, but 0"}.items():
        with pytest.raises(BadFileError, match=words):
            load_samples(tmp_path / "a.npz", samples=name, lazy=True)


def test_without_dask_the_extra_is_named(tmp_path, monkeypatch):
    np.save(tmp_path / "x.npy", PIXELS)
    monkeypatch.setitem(sys.modules, "dask.array", None)
    with pytest.raises(BadFileError, match=r"lazy=True makes a Dask array, .*; pip install 'tensormargin\[dask\]'"):
        load_samples(tmp_path / "x.npy", need_labels=False, lazy=True)
    assert np.array_equal(load_samples(tmp_path / "x.npy", need_labels=False).data, PIXELS)


# --- worker processes


def test_processes_read_the_files_themselves(dask_cluster, tmp_path):
    distributed = pytest.importorskip("distributed", reason=NEEDED)
    save_hdf5(tmp_path / "a.h5", X.astype(np.float32), y=np.arange(N) % 2, groups=GROUPS)
    study = load_samples(tmp_path / "a.h5", lazy=True, chunks=4)
    class_folder(tmp_path / "classes", "png")
    pictures = load_samples(tmp_path / "classes", lazy=True, chunks=5)
    steps = make_pipeline(Crop(), TensorScaler(), Tensorize((-1,)))
    with distributed.Client(dask_cluster), dask.config.set(scheduler=None):
        changed = steps.fit_transform(study.data).compute()
        by_group = TensorScaler(by_group=True).fit_transform(study.data, groups=study.groups).compute()
        masked = Mask("bright").fit_transform(pictures.data).compute()
        (tmp_path / "a.h5").unlink()
        with pytest.raises(BadFileError, match="no such file"):
            study.data.compute()
    in_memory = samples(np.float32)
    np.testing.assert_allclose(changed, clone(steps).fit_transform(in_memory), rtol=1e-5, atol=1e-5)
    expected = TensorScaler(by_group=True).fit_transform(in_memory, groups=GROUPS)
    np.testing.assert_allclose(by_group, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(masked, Mask("bright").fit_transform(load_samples(tmp_path / "classes").data))
