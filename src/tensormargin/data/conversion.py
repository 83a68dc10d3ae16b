"""Conversion of everything that is passed as X to an array of samples.

Arrays are returned unchanged. Lists, object arrays and data frames of arrays are stacked; nibabel images, MNE epochs
and xarray arrays are replaced by their values. Libraries are recognised by the module of an object's class, so that
none has to be imported here.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np

from ..runtime import Array, as_array, is_foreign, is_lazy, like, namespace, to_host
from .axes import AnyAxes, Axes, Axis
from .epochs import axes_of_epochs, is_epochs, metadata_of, unit_of_channels, values_of

Shape = tuple[int | None, ...]  # shape of the samples; None for a mode in which their lengths differ


def as_samples(X: Any, ragged: bool = False) -> Any:
    """Return X as an array of samples; arrays, and objects that cannot be converted, are returned unchanged.

    - Masked entries of NumPy and Dask arrays become NaN, so that the values underneath are never used.
    - Lists, tuples, object arrays and pandas Series of equally shaped arrays are stacked, one sample each.
    - In a data frame of arrays, a single column is stacked like a Series; several columns become the first mode of a
      sample (channels x time for sktime's nested frames). Each of several column levels becomes a mode.
    - A data frame whose rows have two levels, instance and time (sktime's pd-multiindex): series, channels x time.
    - A NIfTI image with four axes has its samples along the last; a list holds images with three axes, one sample each,
      or images with four axes, such as runs, whose samples are concatenated.
    - `mne.Epochs`, or a list of them, whose samples are concatenated; a list of `mne.Evoked`. Their channels are those
      that hold data and are not marked as bad; of several objects those that all have.
    - An xarray DataArray has the samples along its first dimension; a Dask array inside stays lazy.

    With ``ragged``, samples that differ in the length of a mode are returned as a 1-D object array of NumPy arrays.
    """
    if type(X) is np.ndarray and X.dtype.kind != "O":
        return X
    if isinstance(X, np.ma.MaskedArray):
        return unmasked(X)
    if is_lazy(X):
        if not isinstance(X._meta, np.ma.MaskedArray):
            return X
        dtype = _holding_nan(X.dtype)  # in all chunks, whether they are masked or not
        return X.map_blocks(_filled, dtype, dtype=dtype, meta=np.empty((0,) * X.ndim, dtype))
    reader = _READERS.get(_library(X))
    if reader is not None:
        return reader(X, ragged)
    if isinstance(X, list | tuple) or (isinstance(X, np.ndarray) and X.dtype.kind == "O"):
        return _stacked(X, ragged)
    return X


def taken_along(X: Any, places: Mapping[int, Array]) -> Any:
    """Return samples with some of the indices along their modes, in this order."""
    for mode, indices in places.items():
        if is_ragged(X):
            X = vector_of([np.take(sample, indices, axis=mode) for sample in X])
        elif isinstance(X, np.ndarray):
            X = np.take(X, indices, axis=mode + 1)
        elif is_lazy(X):
            X = X[(*[slice(None)] * (mode + 1), indices)]
        else:
            X = namespace(X).take(X, like(indices, X), axis=mode + 1)
    return X


def is_ragged(X: Any) -> bool:
    """Return whether X is an object array of ragged samples, as returned by `as_samples`."""
    return isinstance(X, np.ndarray) and X.dtype.kind == "O" and X.ndim == 1 and _holds_arrays(X)


def shape_of_samples(X: Any) -> Shape:
    """Return the shape of a sample, with None for a mode in which ragged samples differ."""
    if not is_ragged(X):
        return tuple(int(size) for size in X.shape[1:])
    sizes = zip(*(sample.shape for sample in X), strict=True)
    return tuple(size[0] if len(set(size)) == 1 else None for size in sizes)


def format_shape(shape: Sequence[int | None] | Mapping[str, Sequence[int | None]]) -> str:
    """Return a shape as text, with "any" for a mode in which samples differ; of several views with their names."""
    if isinstance(shape, Mapping):
        return ", ".join(f"{format_shape(own)} ({name})" for name, own in shape.items())
    return " x ".join("any" if size is None else str(size) for size in shape)


def as_mask(mask: Any) -> Array:
    """Return a mask as a NumPy array of bool: an array-like, a NIfTI image with three axes, or a masker of nilearn."""
    if has_mask_image(mask):
        image = getattr(mask, "mask_img_", None)
        image = getattr(mask, "mask_img", None) if image is None else image
        if _library(image) != "nibabel":
            raise ValueError(
                f"a masker must have a mask image; {type(mask).__name__} has {image!r} and is not fitted. Call its fit "
                "with the images first"
            )
        mask = image
    return to_host(_one_volume(mask) if _library(mask) == "nibabel" else as_samples(mask)).astype(bool)


def has_mask_image(mask: Any) -> bool:
    """Return whether a mask is a masker of nilearn, which has a mask image once it is fitted."""
    return hasattr(mask, "mask_img_") or hasattr(mask, "mask_img")


def unmasked(X: Any) -> Array:
    """Return a masked array as an ordinary array with NaN for masked entries (integers then become floats)."""
    if not np.ma.is_masked(X):
        return np.asarray(X.data)
    if X.dtype.kind == "O":
        raise ValueError(
            f"samples that are objects cannot be masked; got {int(np.ma.getmaskarray(X).sum())} masked ones. Leave "
            "them out, e.g. with X.compressed()"
        )
    return _filled(X, _holding_nan(X.dtype))


def axes_in(X: Any) -> AnyAxes:
    """Return the axes of samples, as far as X states them: columns of frames, dimensions of DataArrays, by view."""
    if type(X) is np.ndarray:
        return None
    known = getattr(X, "sample_axes", None)  # of Views
    if known is not None:
        return known
    if isinstance(X, dict) and not hasattr(X, "shape"):
        return {name: found for name, one in X.items() if isinstance(found := axes_in(one), tuple)} or None
    objects = _recordings(X)
    if objects:
        return axes_of_epochs(objects)
    reader = _AXES.get(_library(X))
    return None if reader is None else reader(X)


def unit_in(X: Any) -> str:
    """Return the unit of the entries, as far as X states it."""
    objects = _recordings(X)
    if objects:
        return unit_of_channels(objects)
    unit = X.attrs.get("units", X.attrs.get("unit")) if _library(X) == "xarray" else ""
    return unit if isinstance(unit, str) else ""


def columns_in(X: Any) -> dict[str, Array]:
    """Return what X states of its samples one by one: metadata of Epochs, coordinates along the first dimension."""
    objects = _recordings(X)
    if objects:
        return metadata_of(objects)
    if _library(X) != "xarray" or not hasattr(X, "dims"):
        return {}
    return {str(name): np.asarray(one.values) for name, one in X.coords.items() if one.dims == X.dims[:1]}


def _recordings(X: Any) -> list[Any]:
    """Return the Epochs that X is, or the Epochs or Evoked that it holds; none if it is something else."""
    objects = list(X) if isinstance(X, list | tuple) and len(X) and _library(X[0]) == "mne" else [X]
    if _library(objects[0]) != "mne":
        return []
    kinds = {_library(one) == "mne" and (is_epochs(one) or (_is_evoked(one) and one is not X)) for one in objects}
    return objects if kinds == {True} else []


def _axes_of_frame(X: Any) -> Axes | None:
    if getattr(X, "ndim", 0) != 2:
        return None
    if _is_panel(X):
        return _axes_of_panel(X)
    if X.columns.nlevels > 1:
        names = [str(name) if name is not None else "" for name in X.columns.names]
        levels = _levels(X.columns)
        known = [Axis(name, "", [str(one) for one in values]) for name, values in zip(names, levels, strict=True)]
    elif X.shape[1] > 1 and _columns_of_arrays(X):
        known = [Axis("", "", [str(one) for one in X.columns])]
    else:
        return None
    first = X.iloc[0, 0] if len(X) and X.shape[1] else None
    inner = getattr(first, "ndim", 1 if _is_array(first) else 0)
    return (*known, *(Axis() for _ in range(inner)))


def _axes_of_dataarray(X: Any) -> Axes | None:
    """Return dimensions as axes; names that xarray invents ("dim_1"), dates and levels say nothing."""
    if not hasattr(X, "dims") or not hasattr(X, "data"):
        return None
    found = [Axis("" if re.fullmatch(r"dim_\d+", str(one)) else str(one)) for one in X.dims[1:]]
    for place, dimension in enumerate(X.dims[1:]):
        if dimension in X.coords:
            coordinate = X.coords[dimension]
            unit = coordinate.attrs.get("units", coordinate.attrs.get("unit", ""))
            with suppress(ValueError):
                found[place] = replace(
                    found[place], unit=unit if isinstance(unit, str) else "", values=np.asarray(coordinate.values)
                )
    return None if all(axis.says_nothing for axis in found) else tuple(found)


def _library(X: Any) -> str:
    """Return the known library that defines the type of an object or one of its base classes; "" if there is none."""
    for kind in type(X).__mro__:
        name = kind.__module__.partition(".")[0]
        if name in _READERS:
            return name
    return ""


def _holding_nan(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return dtype if dtype.kind in "fc" else np.result_type(dtype, np.float32)


def _filled(X: Any, dtype: np.dtype[Any]) -> Array:
    masked: Any = np.ma.asarray(X)
    return np.asarray(masked.astype(dtype).filled(np.nan))


def _is_array(cell: Any) -> bool:
    """Return whether an object is an array or a container of one, not a number, a string or a mapping."""
    if isinstance(cell, np.ndarray):
        return cell.ndim > 0
    return isinstance(cell, list | tuple) or bool(_library(cell)) or is_lazy(cell) or is_foreign(cell)


def _holds_arrays(X: Any) -> bool:
    """Return whether the first element is an array."""
    return _is_array(next(iter(X.flat if isinstance(X, np.ndarray) else X), None))


def _stacked(X: Any, ragged: bool) -> Any:
    """Return a list, tuple or object array of arrays as one array; anything else unchanged."""
    if len(X) == 0 or not _holds_arrays(X):
        return X
    if isinstance(X, np.ndarray) and X.ndim > 1:
        return _stack(_row_samples(X), ragged)
    if _library(X[0]) == "nibabel":
        X = _in_one_orientation(X)
    whole = _READERS_OF_LISTS.get(_library(X[0]))
    parts = None if whole is None else whole(X)
    if parts is None:
        return _stack([_one(cell, at) for at, cell in enumerate(X)], ragged)
    shapes = list(dict.fromkeys(part.shape[1:] for part in parts))
    if len(shapes) > 1:
        what = "images" if _library(X[0]) == "nibabel" else "Epochs"
        raise ValueError(
            f"all {what} must hold samples of one shape; got {_some(shapes)}. Bring them to one shape first"
        )
    return np.concatenate(parts)


def _row_samples(cells: Array) -> list[Array]:
    """Return one array per row of an object array; the axes of the row come before those of its arrays."""
    samples = []
    for row, own in enumerate(cells):
        arrays = [to_host(_one(cell, row)) for cell in own.flat]
        shapes = {array.shape for array in arrays}
        if len(shapes) > 1:
            raise ValueError(
                f"the arrays of one sample must have one shape; sample {row} has {_some(sorted(shapes))}. Bring its "
                "columns to one shape, or use one of them"
            )
        samples.append(np.stack(arrays).reshape(*own.shape, *arrays[0].shape))
    return samples


def _one(cell: Any, position: int) -> Any:
    """Return one sample as an array in its own library."""
    if isinstance(cell, np.ma.MaskedArray):
        return unmasked(cell)
    if isinstance(cell, np.ndarray):
        return cell
    reader = _READERS_OF_ONE.get(_library(cell), as_array)
    try:
        return reader(cell)
    except ValueError as error:
        raise ValueError(f"sample {position} must be an array; it is not: {error}") from error


def _stack(arrays: Sequence[Any], ragged: bool) -> Any:
    shapes = [tuple(array.shape) for array in arrays]
    if len(set(shapes)) > 1:
        if not ragged:
            raise ValueError(_differ(shapes))
        _check_orders(shapes)
        return vector_of([to_host(array) for array in arrays])
    if all(map(is_lazy, arrays)):
        from dask.array import stack

        return stack(arrays)
    if all(map(is_foreign, arrays)):
        return namespace(arrays[0]).stack(list(arrays))
    return np.stack([to_host(array) for array in arrays])


def vector_of(arrays: Sequence[Array]) -> Array:
    """Return arrays of any shape as a 1-D object array; ``np.array`` would stack arrays of equal shape."""
    vector = np.empty(len(arrays), dtype=object)
    for position, array in enumerate(arrays):
        vector[position] = array
    return vector


def _check_orders(shapes: Sequence[tuple[int, ...]]) -> None:
    orders = sorted({len(shape) for shape in shapes})
    if len(orders) > 1:
        example = [next(shape for shape in shapes if len(shape) == order) for order in orders]
        raise ValueError(
            f"samples must have the same number of modes; got {_some(orders)} (shapes such as {_some(example)}). Check "
            "how they were made: a single number, or a missing sample, has no modes"
        )


def _differ(shapes: Sequence[tuple[int, ...]]) -> str:
    """Return an error message: the modes in which samples differ, by how much, and a remedy."""
    _check_orders(shapes)
    order = len(shapes[0])
    modes = [mode for mode in range(order) if len({shape[mode] for shape in shapes}) > 1]
    found = []
    for mode in modes:
        lengths = Counter(shape[mode] for shape in shapes)
        usual, count = lengths.most_common(1)[0]
        found.append(
            f"mode {mode} of {order} (counted from 0) is {min(lengths)} to {max(lengths)} long, and "
            f"{len(shapes) - count} of {len(shapes)} samples differ from the most common length, {usual}"
        )
    step = "EqualLength()" if modes == [order - 1] else f"EqualLength(mode={modes[0]})"
    remedy = (
        f"Put tensormargin.{step} in front, which resamples or pads them (`tensormargin fit --length`)"
        if len(modes) == 1
        else "Resize each to one shape, e.g. with tensormargin.transformers.preparation.resize(sample, shape)"
    )
    return f"all samples must have one shape, but {'; '.join(found)}. {remedy}"


def _some(items: Sequence[Any], most: int = 3) -> str:
    return ", ".join(map(str, items[:most])) + (", ..." if len(items) > most else "")


def _from_pandas(X: Any, ragged: bool) -> Any:
    if getattr(X, "ndim", 0) != 2:  # a Series, an Index or a pandas array
        cells = X.to_numpy() if hasattr(X, "to_numpy") else X
        return _stacked(cells, ragged) if getattr(cells, "dtype", None) == np.dtype(object) else X
    if _is_panel(X):
        return _stack(_series_in(X), ragged)
    nested = _columns_of_arrays(X)
    if X.columns.nlevels == 1 and not nested:
        return X  # a table: scikit-learn reads it and stores its column names
    shape: tuple[int, ...] = () if X.columns.nlevels == 1 and X.shape[1] == 1 else (X.shape[1],)
    if X.columns.nlevels > 1:
        X, shape = _by_levels(X)
    if not nested:
        values = X.to_numpy()
        with suppress(TypeError, ValueError):  # text, which is rejected later
            values = X.to_numpy(dtype=np.float64, na_value=np.nan) if values.dtype == object else values
        return np.asarray(values).reshape(len(X), *shape)
    cells = np.empty((len(X), *shape), dtype=object)
    cells.reshape(len(X), -1)[...] = X.to_numpy(dtype=object)
    return _stacked(cells, ragged)


def _is_panel(frame: Any) -> bool:
    """Return whether the rows of a frame are times of series: two levels, of which the first one repeats."""
    index = frame.index
    return index.nlevels == 2 and frame.columns.nlevels == 1 and index.get_level_values(0).has_duplicates


def _series_in(frame: Any) -> list[Array]:
    """Return the series of a frame with the levels instance and time, channels x time, in the order of instances."""
    series = []
    for instance, own in frame.groupby(level=0, sort=False):
        times = own.index.get_level_values(1)
        if not times.is_monotonic_increasing or times.has_duplicates:
            raise ValueError(
                f"the rows of a frame with two levels, instance and time, must be in the order of time; those of "
                f"{instance!r} are not. Sort them with frame.sort_index(), or, if each row is a sample, give the frame "
                "one level with frame.reset_index(drop=True)"
            )
        series.append(own.to_numpy().T)
    return series


def _axes_of_panel(frame: Any) -> Axes:
    """Return channels by name, and times where all series have the same ones, in numbers."""
    times = [own.index.get_level_values(1) for _, own in frame.groupby(level=0, sort=False)]
    shared = times[0].dtype.kind in "iuf" and all(times[0].equals(own) for own in times[1:])
    names = [str(one) for one in frame.columns]
    return Axis("channel", "", names), Axis("time", "", times[0].to_numpy() if shared else None)


def _columns_of_arrays(frame: Any) -> bool:
    """Return whether the columns of a frame hold arrays; raise ValueError if only some of them do."""
    if len(frame) == 0 or frame.shape[1] == 0:
        return False
    kinds = [dtype == np.dtype(object) and _is_array(frame.iloc[0, place]) for place, dtype in enumerate(frame.dtypes)]
    if any(kinds) and not all(kinds):
        other, arrays = (frame.columns[kinds.index(kind)] for kind in (False, True))
        raise ValueError(
            f"the columns of a frame must all hold arrays, or none of them; column {arrays!r} holds arrays and column "
            f"{other!r} does not. Leave one kind out, e.g. frame[[{arrays!r}]]"
        )
    return all(kinds)


def _levels(columns: Any) -> list[Any]:
    return [columns.get_level_values(level).unique() for level in range(columns.nlevels)]


def _by_levels(frame: Any) -> tuple[Any, tuple[int, ...]]:
    """Return the frame with its columns in the C order of a tensor, and the shape of that tensor."""
    columns, levels = frame.columns, _levels(frame.columns)
    whole = type(columns).from_product(levels)
    if columns.has_duplicates:
        twice = columns[columns.duplicated()][0]
        raise ValueError(f"a combination of column levels must come once; got {twice} twice. Leave one of them out")
    missing = whole.difference(columns, sort=False)
    if len(missing):
        sizes = " x ".join(str(len(level)) for level in levels)
        raise ValueError(
            f"several column levels become a tensor if every combination of them is there; of {sizes} = {len(whole)} "
            f"combinations {len(missing)} are missing, such as ({', '.join(map(str, missing[0]))}). Add them, e.g. "
            "with frame.reindex(columns=pandas.MultiIndex.from_product(frame.columns.remove_unused_levels().levels), "
            "fill_value=0), or make the samples vectors with frame.columns = frame.columns.map(str)"
        )
    ordered = frame if columns.equals(whole) else frame[whole]
    return ordered, tuple(len(level) for level in levels)


def _from_nifti(image: Any, ragged: bool = False) -> Array:
    if _axes(image) != 4:
        raise ValueError(
            f"an image must have four axes, the last counting the samples; got shape {tuple(image.shape)}. Pass images "
            "with three axes in a list, one per sample"
        )
    return np.moveaxis(_voxels(image), -1, 0)


def _axes(image: Any) -> int:
    if not hasattr(image, "dataobj"):
        raise ValueError(f"an image must be one of voxels, such as NIfTI; got {type(image).__name__}. Pass its array")
    return len(image.shape)


def _voxels(image: Any) -> Array:
    dtype = image.get_data_dtype()
    if dtype.kind not in "biuf":
        raise ValueError(f"an image must hold real numbers; got {dtype}. Save it with one number per voxel")
    return np.asarray(image.dataobj, np.result_type(dtype, np.float32))


def _one_volume(image: Any) -> Array:
    if _axes(image) != 3:
        raise ValueError(f"an image in a list of volumes must have three axes; got shape {tuple(image.shape)}")
    return _voxels(image)


def _in_one_orientation(images: Sequence[Any]) -> list[Any]:
    """Return images turned to the orientation of the first one; no value changes. Others are returned unchanged."""
    known: Any = import_module("nibabel.orientations")
    turned, wanted = list(images), None
    for place, image in enumerate(images):
        own = known.io_orientation(image.affine) if hasattr(image, "as_reoriented") else np.array(np.nan)
        if np.isfinite(own).all():
            wanted = own if wanted is None else wanted
            turned[place] = image.as_reoriented(known.ornt_transform(own, wanted))
    return turned


def _runs_of_images(images: Sequence[Any]) -> list[Array] | None:
    """Return the samples of each image if all images have four axes; None if each image is one sample."""
    alike = [image for image in images if hasattr(image, "affine")]
    elsewhere = sum(not np.allclose(image.affine, alike[0].affine) for image in alike)
    if elsewhere:
        warnings.warn(
            f"{elsewhere} of {len(images)} images have an affine that differs from that of the first: their voxels do "
            "not lie in the same places. Resample them to one grid, e.g. with nilearn.image.resample_to_img",
            stacklevel=2,
        )
    if len(alike) < len(images) or not all(_axes(image) == 4 for image in images):
        return None
    return [_from_nifti(image) for image in images]


def _from_mne(X: Any, ragged: bool = False) -> Array:
    if is_epochs(X):
        return values_of([X])[0]
    raise ValueError(
        f"samples of MNE must be Epochs; got {type(X).__name__}. Cut a recording with mne.Epochs(raw, events), and "
        "pass several Evoked in a list"
    )


def _is_evoked(X: Any) -> bool:
    return hasattr(X, "get_data") and any(kind.__name__ == "Evoked" for kind in type(X).__mro__)


def _several_of_mne(X: Sequence[Any]) -> list[Array]:
    """Return the samples of each of several Epochs, or each of several Evoked as one sample."""
    other = next((one for one in X if not is_epochs(one) and not _is_evoked(one)), None)
    if other is not None or len({is_epochs(one) for one in X}) > 1:
        found = ", ".join(dict.fromkeys(type(one).__name__ for one in X))
        raise ValueError(f"samples of MNE in a list must be Epochs, or all of them Evoked; got {found}")
    return [values if is_epochs(one) else values[None] for one, values in zip(X, values_of(X), strict=True)]


def _from_xarray(X: Any, ragged: bool = False) -> Any:
    if not hasattr(X, "dims") or not hasattr(X, "data"):
        raise ValueError(
            f"samples of xarray must be a DataArray; got {type(X).__name__}. Choose one of its variables, or join them "
            "with to_dataarray()"
        )
    return as_samples(X.data, ragged)


_READERS: dict[str, Callable[[Any, bool], Any]] = {
    "pandas": _from_pandas,
    "nibabel": _from_nifti,
    "mne": _from_mne,
    "xarray": _from_xarray,
}
_READERS_OF_ONE: dict[str, Callable[[Any], Any]] = {
    "pandas": np.asarray,
    "nibabel": _one_volume,
    "xarray": _from_xarray,
}
_READERS_OF_LISTS: dict[str, Callable[[Any], list[Array] | None]] = {"nibabel": _runs_of_images, "mne": _several_of_mne}
_AXES: dict[str, Callable[[Any], Axes | None]] = {"pandas": _axes_of_frame, "xarray": _axes_of_dataarray}
