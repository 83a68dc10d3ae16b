"""Recognises the kind of array that holds the samples, in one place.

Whatever differs between memory, a device and Dask is a method here, so that no other code needs to check for a library.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import count
from math import prod
from operator import add
from typing import Any

import numpy as np

from ...data import (
    NOT_FINITE,
    TOO_LARGE,
    Shapes,
    Views,
    errors_name_view,
    missing_samples,
    reject_not_finite,
    reject_partly_finite,
    reject_without_views,
    where_not_finite,
)
from ...runtime import (
    Array,
    as_like,
    available_bytes,
    cast,
    client_in_use,
    dtype_of,
    has_float64,
    is_foreign,
    is_lazy,
    namespace,
    on_cpu,
    rows_of,
    slices,
    to_host,
    tuning,
)
from .base import Moments, NotFiniteError, Samples, in_range, range_of, working_dtype
from .device import DeviceSamples
from .memory import MemorySamples
from .views import View, ViewSamples


@dataclass(frozen=True)
class Reading:
    """The samples of a binary problem and how its first pass reads them."""

    rows: Array | None  # in ascending order; None for all
    weights: Array  # which sum to one
    signs: Array
    centred: bool  # whether moments are those about the mean
    tol: float  # of the fit, which the dtype of the computations depends on
    view_scales: Mapping[str, float | None] | None = None  # factors of several views; None for one that scales to unit
    noise: bool = False  # whether `Samples.noise` is asked for as well


class SampleArray(ABC):
    """The array ``X`` of all samples, and what its library means for a fit."""

    in_memory: bool = False  # in host memory, so that several fits can read it at the same time
    fits_in_batches: bool = False  # many fits run in lockstep rather than one after the other
    is_lazy: bool = False  # in a Dask array, so that reading it costs more than anything else
    has_views: bool = False
    has_float64: bool = True  # on its device
    on_processor: bool = True

    def __init__(self, X: Any) -> None:
        self.X = X
        self.sample_shape = tuple(int(size) for size in X.shape[1:])
        self.dtype: np.dtype = X.dtype

    def __len__(self) -> int:
        return int(self.X.shape[0])

    @property
    def sample_shapes(self) -> list[tuple[int, ...]]:
        """The shape of a sample, or of each of its views."""
        return [self.sample_shape]

    @property
    def result_dtype(self) -> np.dtype:
        """Dtype of what is fitted to the samples."""
        return working_dtype(self.dtype)

    @property
    def is_small(self) -> bool:
        """Whether the samples are so few and small that they are always contracted in float64."""
        return len(self) * sum(map(prod, self.sample_shapes)) <= tuning.FEW_ENTRIES and self.has_float64

    def dtypes(self, tol: float) -> list[np.dtype]:
        """Return the dtypes to contract in, by preference; the first whose range holds the samples is used.

        The samples are centred before they are rounded to float32. A few samples cost almost nothing in float64, and
        the result is then the same for every library.
        """
        if self.is_small:
            return [np.dtype(np.float64)]
        own = working_dtype(self.dtype)
        large = len(self) * prod(self.sample_shape) >= tuning.MANY_ENTRIES
        return [np.dtype(np.float32), own] if large and tol >= tuning.SINGLE_TOL else [own]

    @abstractmethod
    def samples(self, rows: Array | None = None, dtype: np.dtype | None = None) -> Samples:
        """Return the samples of these rows (in ascending order), or all of them."""

    def read(self, reading: Reading) -> tuple[Samples, Moments]:
        """Make the first pass over the samples of a binary problem; return them and their moments."""
        own, dtypes = working_dtype(self.dtype), self.dtypes(reading.tol)
        for dtype in dtypes:
            samples = self.samples(reading.rows, dtype)
            with np.errstate(over="ignore", invalid="ignore"):
                moments = samples.first_pass(reading.weights, reading.signs, reading.centred, reading.noise)
            checked_in = samples.dtype if len(dtypes) > 1 else own  # float32 samples must fit float32
            if in_range(moments.mean_square, checked_in, len(samples)):
                break
        else:
            self._reject_out_of_range(samples, moments.mean_square, reading)
        return samples, moments

    def _reject_out_of_range(self, samples: Samples, mean_square: float, reading: Reading) -> None:
        """Raise for squared norms outside the range of the dtype; those of equal samples may be zero."""
        dtype, n_samples = working_dtype(self.dtype), len(samples)
        smallest, largest = range_of(dtype)
        if not mean_square < 1.0:
            raise NotFiniteError(
                f"the samples' squared norms overflow {dtype}: the mean of {n_samples} must be at most "
                f"{largest / n_samples:.1e}; got {mean_square:.1e}. {TOO_LARGE}, or pass float64"
            )
        if not samples.vary(reading.centred):
            return
        equal = np.full(n_samples, 1.0 / n_samples)
        unweighted = self.samples(reading.rows, dtype).first_pass(equal, reading.signs, reading.centred).mean_square
        if in_range(unweighted, dtype, n_samples):
            raise ValueError(
                "sample_weight and class_weight must leave samples that differ; those with weight up to rounding are "
                f"equal: the mean squared norm is {mean_square:.1e} with the weights and {unweighted:.1e} without, and "
                f"the smallest weight is {reading.weights.min() / reading.weights.max():.1e} of the largest. Raise "
                "small weights, or leave those samples out"
            )
        raise ValueError(
            f"the samples' mean squared norm is {mean_square:.1e}, too small for {dtype}: it must be at least "
            f"{smallest:.1e}. Multiply X by a constant, or pass float64"
        )

    def scores(self, coef: Any, intercept: Any, missing: Any = None) -> Any:
        """Return ``<W_k, Z_i> + b_k`` in the library of the samples; ``missing`` are the scores of missing views."""
        return self.samples().scores(coef) + intercept

    def apply_method(self, model: Any, method: str, compute: Callable[[], Any]) -> Any:
        """Return the result of a fitted model's method for the samples: ``compute()``, or its lazy equivalent."""
        return compute()

    @abstractmethod
    def numpy_chunks(self) -> Iterator[tuple[slice, Array]]:
        """Yield (positions, samples) as NumPy arrays, with one chunk in memory at a time."""

    def kept(self, array: Any) -> Any:
        """Return a fitted array in the library of the samples; TensorLy containers keep their NumPy arrays."""
        return array

    def reject_not_finite(self) -> None:
        """Raise ValueError if that is why a pass over the samples has given values that are not finite."""
        reject_not_finite(self.X)


class MemoryArray(SampleArray):
    """Samples in a C-contiguous NumPy array."""

    in_memory: bool = True

    def __init__(self, X: Array) -> None:
        super().__init__(X if X.flags.c_contiguous else np.ascontiguousarray(X))

    def samples(self, rows: Array | None = None, dtype: np.dtype | None = None) -> MemorySamples:
        return MemorySamples(self.X, rows, dtype)

    def numpy_chunks(self) -> Iterator[tuple[slice, Array]]:
        return self.samples().chunks()


class DeviceArray(SampleArray):
    """Samples in an array of PyTorch, CuPy or another array API library, on its device."""

    fits_in_batches: bool = True

    def __init__(self, X: Any) -> None:
        super().__init__(X)
        self.dtype = dtype_of(X)
        self.has_float64, self.on_processor = has_float64(X), on_cpu(X)

    def dtypes(self, tol: float) -> list[np.dtype]:
        """Return the dtype to contract in: arrays on a device keep theirs, unless they are small."""
        return [np.dtype(np.float64) if self.is_small else working_dtype(self.dtype)]

    def samples(self, rows: Array | None = None, dtype: np.dtype | None = None) -> DeviceSamples:
        return DeviceSamples(self.X, rows, dtype)

    def scores(self, coef: Any, intercept: Any, missing: Any = None) -> Any:
        dtype = np.result_type(dtype_of(coef), working_dtype(self.dtype))  # may differ from the dtype of the fit
        return self.samples(dtype=dtype).on_device_scores(cast(coef, dtype)) + intercept

    def numpy_chunks(self) -> Iterator[tuple[slice, Array]]:
        return self.samples().numpy_chunks()

    def kept(self, array: Any) -> Any:
        return as_like(array, self.X) if isinstance(array, np.ndarray) else array


class LazyArray(SampleArray):
    """Samples in a Dask array, whose chunks stay on the workers."""

    fits_in_batches: bool = True
    is_lazy: bool = True

    def samples(self, rows: Array | None = None, dtype: np.dtype | None = None) -> Samples:
        from .lazy import LazySamples

        return LazySamples.of(self.X, rows, dtype)

    def numpy_chunks(self) -> Iterator[tuple[slice, Array]]:
        ends = np.cumsum(self.X.chunks[0]).tolist()
        for number, end in enumerate(ends):
            yield slice(end - self.X.chunks[0][number], end), np.asarray(self.X.blocks[number])

    def reject_not_finite(self) -> None:
        where = where_not_finite(self.X)
        if where:
            raise ValueError(f"{NOT_FINITE}{where}")

    def apply_method(self, model: Any, method: str, compute: Callable[[], Any]) -> Any:
        return _apply_lazily(model, method, [self], None)


class ViewArray(SampleArray):
    """Several arrays of samples; shapes and dtypes are by name."""

    has_views: bool = True
    sample_shape: Shapes  # type: ignore[assignment]
    dtype: dict[str, np.dtype]  # type: ignore[assignment]

    def __init__(self, X: Views) -> None:
        self.X = X
        self.arrays = {name: sample_array(array) for name, array in X.items()}
        self.sample_shape = {name: array.sample_shape for name, array in self.arrays.items()}
        self.dtype = {name: array.dtype for name, array in self.arrays.items()}
        self.in_memory = all(array.in_memory for array in self.arrays.values())

    @cached_property
    def missing(self) -> dict[str, Array]:
        """The samples that lack each view; raise ValueError if one lacks all of them."""
        missing = {}
        for name, array in self.X.items():
            with errors_name_view(name):
                missing[name] = missing_samples(array)
        reject_without_views(missing, len(self.X))
        return missing

    @property
    def sample_shapes(self) -> list[tuple[int, ...]]:
        return list(self.sample_shape.values())

    @property
    def result_dtype(self) -> np.dtype:
        return np.result_type(*(array.result_dtype for array in self.arrays.values()))

    def samples(self, rows: Array | None = None, dtype: np.dtype | None = None) -> Samples:
        raise NotImplementedError

    def read(self, reading: Reading) -> tuple[Samples, Moments]:
        """Make the first pass over the views in use; moments are those of the scaled views, flattened in turn."""
        assert reading.view_scales is not None
        views, signed, squares = [], [], 0.0
        for name, scale in reading.view_scales.items():
            present, own = self._present(name, reading)
            with errors_name_view(name):
                samples, moments = self.arrays[name].read(own)
            factor = factor_to_unit(moments.mean_square) if scale is None else scale
            share = 1.0 if present is None else float(reading.weights[present].sum())
            views.append(View(samples, factor, present, reading.weights if reading.centred else None))
            signed.append(share * factor * moments.signed_mean.ravel())
            squares += share * factor**2 * moments.mean_square
        factors = np.array([view.factor for view in views])
        return ViewSamples(views, len(reading.weights)), Moments(np.concatenate(signed), squares, factors)

    def _present(self, name: str, reading: Reading) -> tuple[Array | None, Reading]:
        """Return the samples of a problem that have a view (None for all of them), and how these are read."""
        rows, missing = reading.rows, self.missing[name]
        every = np.arange(len(reading.weights)) if rows is None else rows
        present = ~np.isin(every, missing)
        if not len(missing) or present.all():
            return None, replace(reading, view_scales=None)
        if not present.any():
            raise ValueError(
                f"view {name!r} is missing in all samples of a binary problem, so it cannot be scaled; leave the view "
                "out, or use samples that have it"
            )
        weights = reading.weights[present]
        own = Reading(every[present], weights / weights.sum(), reading.signs[present], reading.centred, reading.tol)
        return np.flatnonzero(present), own

    def scores(self, coef: Any, intercept: Any, missing: Any = None) -> Any:
        """Return the sum of the views' scores and the intercepts; ``coef`` and ``missing`` are by name."""
        return reduce(add, (own for _, own in self.view_scores(coef, missing)), intercept)

    def view_scores(self, coef: Any, missing: Any) -> Iterator[tuple[str, Any]]:
        """Yield the names of the views and their scores, of shape (n_samples, n_weights)."""
        for name, array in self.arrays.items():
            gone = self.missing[name]
            if not len(gone):
                yield name, array.scores(coef[name], 0.0)
                continue
            xp = namespace(coef[name])
            present = np.setdiff1d(np.arange(len(self)), gone)
            lacking = xp.broadcast_to(missing[name], (len(gone), missing[name].shape[0]))
            known = [sample_array(rows_of(array.X, present)).scores(coef[name], 0.0)] if len(present) else []
            yield name, rows_of(xp.concat([*known, lacking], axis=0), np.argsort(np.concatenate([present, gone])))

    def apply_method(self, model: Any, method: str, compute: Callable[[], Any]) -> Any:
        if not all(array.is_lazy for array in self.arrays.values()):
            return compute()
        return _apply_lazily(model, method, list(self.arrays.values()), tuple(self.arrays))

    def numpy_chunks(self) -> Iterator[tuple[slice, Any]]:
        step = max(1, tuning.CHUNK_BYTES * len(self) // max(1, self.X.nbytes))
        for where in slices(slice(0, len(self)), step):
            yield where, Views({name: to_host(array) for name, array in self.X[where].items()})

    def kept(self, array: Any) -> Any:
        """Return a fitted array that belongs to all views in the library of the first one."""
        return next(iter(self.arrays.values())).kept(array)

    def reject_not_finite(self) -> None:
        """Raise ValueError for a view that contains NaN in part, or infinity."""
        for name, array in self.X.items():
            reject_partly_finite(name, array)


def _apply_lazily(model: Any, method: str, arrays: list[SampleArray], names: tuple[str, ...] | None) -> Any:
    """Return a Dask array that will hold a method's results for one array, or for Views with these names."""
    from dask.array import blockwise
    from dask.delayed import delayed

    empty = (np.zeros((1, *array.sample_shape), array.dtype) for array in arrays)
    one = _call(*empty, names=names, model=model, method=method)
    samples, axes = 0, count(1)
    arguments: list[Any] = []
    for array in arrays:
        arguments += [array.X, (samples, *(next(axes) for _ in array.sample_shape))]
    columns = {next(axes): size for size in one.shape[1:]}
    return blockwise(
        _call,
        (samples, *columns),
        *arguments,
        names=names,
        model=delayed(model, traverse=False),
        method=method,
        new_axes=columns,
        concatenate=True,
        dtype=one.dtype,
        meta=one[:0],
    )


def _call(*arrays: Any, names: tuple[str, ...] | None, model: Any, method: str) -> Any:
    return getattr(model, method)(arrays[0] if names is None else Views(dict(zip(names, arrays, strict=True))))


def factor_to_unit(mean_square: float) -> float:
    """Return the factor that makes a mean squared norm one; for samples that are all equal any will do."""
    return 1.0 / float(np.sqrt(mean_square)) if mean_square > 0 else 1.0


def sample_array(X: Any) -> SampleArray:
    """Return the `SampleArray` for a validated array, or for validated Views (`tensormargin.data.validation`)."""
    if isinstance(X, np.ndarray):
        return MemoryArray(X)
    if isinstance(X, Views):
        return ViewArray(X)
    return LazyArray(X) if is_lazy(X) else DeviceArray(X)


def loaded_if_small(X: Any, finite: bool = False) -> Any:
    """Return a small Dask array as a NumPy array, and everything else unchanged; of Views, all Dask arrays together.

    Small is relative to the available memory or, on a cluster, to the time that many tasks take. If ``finite``, a
    single array that is loaded must be so: a Dask array has not been checked before.
    """
    if isinstance(X, np.ndarray):
        return X
    lazy = [array for array in (X.values() if isinstance(X, Views) else [X]) if is_lazy(array)]
    if not lazy:
        return X
    from .lazy import loaded

    most = tuning.LOADED_SHARE * available_bytes()
    if client_in_use() is not None:
        most = min(most, tuning.LOADED_FROM_CLUSTER_BYTES)
    if sum(array.nbytes for array in lazy) > most:
        return X
    if isinstance(X, Views):
        return X.replaced({name: loaded(array) if is_lazy(array) else array for name, array in X.items()})
    array = loaded(X)
    if finite:
        reject_not_finite(array)
    return array


def labels_at(classes: Any, codes: Any) -> Any:
    """Return the labels with these indices, in the library of the indices; text stays in NumPy."""
    labels = to_host(classes)[to_host(codes)]
    return as_like(labels, codes) if is_foreign(codes) and labels.dtype.kind in "biuf" else labels
