"""Several tensors per sample."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from contextlib import contextmanager
from math import prod
from operator import getitem
from typing import Any, NoReturn

import numpy as np

from ..runtime import Array, as_array, computed, dtype_of, is_foreign, is_lazy, namespace, rows_of, to_host
from .axes import AnyAxes, Axes
from .conversion import as_samples, axes_in, format_shape, shape_of_samples
from .covariates import COVARIATE, coded, like_known

Shapes = dict[str, tuple[int, ...]]  # shape of one sample in each view

COVARIATES = "covariates"  # name of the view that holds one column per covariate

_BYTES_AT_ONCE = 2**24


class Views:
    """Several tensors per sample, such as a recording, a volume and covariates of the same person.

    Estimators of this library take it as X; so do scikit-learn's `train_test_split`, `cross_val_score`, `GridSearchCV`
    and `Pipeline`, which only select rows. Nothing is copied when it is made.

    Parameters
    ----------
    views : mapping of str to array-like, optional
        The views by name, for names that are no Python identifiers.
    **named : array-like of shape (n_samples, I_1, ..., I_M)
        The views by name: NumPy arrays, memory maps, Dask arrays, arrays on a device, or what
        `conversion.as_samples` converts. All have the same number of samples, in the same order; each has its
        own order M. One number per sample (a vector) is a view of one column. A sample that lacks a view is all NaN
        in it. Text (a vector, or columns of a data frame, such as sex and site) becomes one column of zeros and ones
        per category; new samples must have the columns and categories of the training samples.

    Attributes
    ----------
    sample_axes : dict of str to tuple of Axis, or None
        Names, units and coordinates of the modes of views that were given as xarray DataArrays or data frames.
    contents : ndarray of shape (n_samples,) or None
        Equal for copies of a sample, where that is known from more views than these: without one of them, samples may
        agree that are no copies.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin import Views
    >>> X = Views(eeg=np.zeros((60, 8, 20)), age=np.arange(60.0))
    >>> X
    Views of 60 samples:
      eeg  8 x 20, float64
      age  1, float64
    >>> len(X[:10]), X["age"].shape, X.without("age").names
    (10, (60, 1), ('eeg',))
    """

    def __init__(self, views: Mapping[str, Any] | None = None, /, **named: Any) -> None:
        given = {**(views or {}), **named}
        if not given:
            raise ValueError("Views needs at least one view; got none. Pass arrays by name: Views(eeg=A, fmri=B)")
        wrong = [name for name in given if not isinstance(name, str) or not name]
        if wrong:
            raise ValueError(f"the name of a view must be text; got {wrong[0]!r}. Pass {{'eeg': A}} or eeg=A")
        made = {name: _one_view(name, array) for name, array in given.items()}
        self._arrays = {name: array for name, (array, _) in made.items()}
        stated = {name: axes for name, (_, axes) in made.items()}
        known = {name: axes for name, axes in stated.items() if isinstance(axes, tuple)}
        self.sample_axes: dict[str, Axes] | None = known or None
        self.contents: Array | None = None
        lengths = {name: int(array.shape[0]) for name, array in self._arrays.items()}
        if len(set(lengths.values())) > 1:
            found = ", ".join(f"{name!r} {length}" for name, length in lengths.items())
            raise ValueError(
                f"all views must have the same number of samples; got {found}. Leave samples out of the longer ones, "
                "or fill the shorter ones with NaN where a sample lacks the view"
            )

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the views."""
        return tuple(self._arrays)

    @property
    def shape(self) -> tuple[int]:
        """The number of samples, as a tuple, which is what scikit-learn asks for."""
        return (len(self),)

    @property
    def shapes(self) -> Shapes:
        """Shape of one sample in each view."""
        return {name: shape_of_samples(array) for name, array in self._arrays.items()}  # type: ignore[misc]

    @property
    def nbytes(self) -> int:
        """Size of all views."""
        return sum(prod(array.shape) * dtype_of(array).itemsize for array in self._arrays.values())

    def __len__(self) -> int:
        return int(next(iter(self._arrays.values())).shape[0])

    def __getitem__(self, key: Any) -> Any:
        """Return the array of a name, the views of a list of names, or the samples of row numbers, a slice or a mask.

        A single row number gives Views of one sample.
        """
        if isinstance(key, str):
            self._check_names([key])
            return self._arrays[key]
        if isinstance(key, tuple) and len(key) == 2 and key[1] is Ellipsis:  # as scikit-learn asks for rows
            key = key[0]
        if isinstance(key, list) and key and all(isinstance(one, str) for one in key):
            self._check_names(key)
            return self.replaced({name: self._arrays[name] for name in key})
        rows = key if isinstance(key, slice) else _row_numbers(key, len(self))
        take: Any = getitem if isinstance(rows, slice) else rows_of
        return self.replaced({name: take(array, rows) for name, array in self._arrays.items()}, rows)

    def replaced(self, arrays: Mapping[str, Any], rows: Array | slice = slice(None)) -> Views:
        """Return other arrays for some of the views, or for these rows, with what is known of axes and copies."""
        views = Views(arrays)
        views.contents = None if self.contents is None else self.contents[rows]
        known = {name: own for name, own in (self.sample_axes or {}).items() if name in arrays}
        views.sample_axes = known or None
        return views

    def with_known_categories(self, known: AnyAxes) -> Views:
        """Return views whose covariates of text have the columns of a fit with these axes, see `like_known`."""
        arrays, axes = dict(self._arrays), dict(self.sample_axes or {})
        for name, own in axes.items():
            fitted = known.get(name) if isinstance(known, dict) else None
            if fitted is None or {own[0].name, fitted[0].name} != {COVARIATE}:
                continue
            with errors_name_view(name):
                entries = [[str(one) for one in one[0].values] for one in (own, fitted)]
                arrays[name] = like_known(arrays[name], *entries)
            axes[name] = fitted if arrays[name] is not self._arrays[name] else own
        views = self.replaced(arrays)
        views.sample_axes = axes or None
        return views

    def without(self, *names: str) -> Views:
        """Return the other views."""
        self._check_names(names)
        rest = [name for name in self.names if name not in names]
        if not rest:
            raise ValueError(f"Views needs at least one view; without {', '.join(map(repr, names))} there is none")
        return self[rest]

    def _check_names(self, names: Any) -> None:
        unknown = [name for name in names if name not in self._arrays]
        if unknown:
            raise KeyError(f"there is no view {unknown[0]!r}; the views are {', '.join(map(repr, self.names))}")

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __contains__(self, name: object) -> bool:
        return name in self._arrays

    def keys(self) -> KeysView[str]:
        """Return the names."""
        return self._arrays.keys()

    def values(self) -> ValuesView[Any]:
        """Return the arrays."""
        return self._arrays.values()

    def items(self) -> ItemsView[str, Any]:
        """Return pairs of name and array."""
        return self._arrays.items()

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError(
            f"several tensors per sample are not one array; got the views {', '.join(map(repr, self.names))}. Take one "
            f"of them, e.g. X[{self.names[0]!r}], or an estimator that takes Views"
        )

    def __repr__(self) -> str:
        width = max(map(len, self.names))
        lines = [f"  {name:<{width}}  {format_shape(array.shape[1:])}, {array.dtype}" for name, array in self.items()]
        return "\n".join([f"Views of {len(self)} samples:", *lines])


@contextmanager
def errors_name_view(name: str) -> Iterator[None]:
    """Let the messages of errors begin with the view in which they occur."""
    try:
        yield
    except ValueError as error:
        raise type(error)(*(f"view {name!r}: {text}" for text in error.args)) from error


def _one_view(name: str, array: Any) -> tuple[Any, AnyAxes]:
    """Return a view as an array of at least two axes, and what it states of its modes."""
    with errors_name_view(name):
        found = as_samples(array)
        covariates = coded(name, found)
        if covariates is not None:
            return covariates
        found = as_array(found)
    if len(found.shape) == 0 or (not is_foreign(found) and found.dtype.kind not in "biuf"):
        what = "a single value" if len(found.shape) == 0 else f"an array of {found.dtype}"
        raise ValueError(f"view {name!r} must be an array of real numbers, one row per sample; got {what}")
    if len(found.shape) > 1:
        return found, axes_in(array)
    column = namespace(found).reshape(found, (-1, 1)) if is_foreign(found) else found[:, None]
    return column, axes_in(array)


def _row_numbers(key: Any, n_samples: int) -> Array:
    """Return the row numbers that an index stands for, as NumPy would take it."""
    wanted = to_host(key)
    if wanted.size == 0 and wanted.dtype.kind == "f":
        wanted = wanted.astype(int)  # an empty list
    return np.atleast_1d(np.arange(n_samples)[wanted])


def is_views(X: Any) -> bool:
    """Return whether X holds several tensors per sample: Views, or a dictionary of arrays."""
    return isinstance(X, Views) or _is_dictionary(X)


def _is_dictionary(X: Any) -> bool:
    return isinstance(X, dict) and not hasattr(X, "shape")  # one kind of SciPy's sparse matrices is a dict


def converted(X: Any, ragged: bool = False) -> tuple[Any, AnyAxes]:
    """Return X as `views_or_samples` does, and the axes that it states."""
    if isinstance(X, dict):
        X = views_or_samples(X)
    return (X, X.sample_axes) if isinstance(X, Views) else (as_samples(X, ragged), axes_in(X))


def views_or_samples(X: Any, ragged: bool = False) -> Any:
    """Return Views for Views and dictionaries of arrays, and `conversion.as_samples` for everything else."""
    X = Views(X) if _is_dictionary(X) else X
    return X if isinstance(X, Views) else as_samples(X, ragged)


def views_or_array(X: Any) -> Any:
    """Return Views unchanged, and everything else as an array."""
    return X if isinstance(X, Views) else as_array(X)


def shape_of(X: Any) -> Any:
    """Return the shape of a sample; for Views a dictionary of shapes."""
    return X.shapes if isinstance(X, Views) else shape_of_samples(X)


def missing_samples(array: Any) -> Array:
    """Return the rows of the samples that are all NaN; raise ValueError for one that is NaN in part, if it is noticed.

    In memory, only the first entry of each sample is looked at, and all entries of those where it is NaN: other entries
    that are NaN show up in the first pass of a fit. A Dask array is read once.
    """
    if dtype_of(array).kind != "f":
        return np.empty(0, int)
    if is_lazy(array):
        nan = array.map_blocks(np.isnan, dtype=bool)
        first, whole = computed(nan[(slice(None), *[0] * (nan.ndim - 1))], nan.all(axis=tuple(range(1, nan.ndim))))
        rows = np.flatnonzero(first)
        whole = whole[rows]
    else:
        rows = np.flatnonzero(np.isnan(to_host(array[(slice(None), *[0] * (len(array.shape) - 1))])))
        step = max(1, _BYTES_AT_ONCE // max(1, prod(array.shape[1:]) * dtype_of(array).itemsize))
        parts = (to_host(rows_of(array, rows[start : start + step])) for start in range(0, len(rows), step))
        whole = np.concatenate([np.empty(0, bool), *(np.isnan(p).reshape(len(p), -1).all(axis=1) for p in parts)])
    if not whole.all():
        raise ValueError(
            "a sample that lacks a view must be NaN in all of its entries; sample "
            f"{rows[int(np.argmin(whole))]} is NaN in some of them. Impute such entries, or make all of them NaN"
        )
    return rows


def reject_without_views(missing: Mapping[str, Array], n_samples: int) -> None:
    """Raise ValueError if a sample lacks all views, given the samples that lack each of them."""
    counts = np.bincount(np.concatenate(list(missing.values())), minlength=n_samples)
    without = np.flatnonzero(counts == len(missing))
    if len(without):
        raise ValueError(
            f"every sample must have at least one view; sample {without[0]} is NaN in all of them. Leave it out "
            f"({len(without)} of {n_samples} samples)"
        )


def reject_partly_finite(name: str, array: Any) -> None:
    """Raise ValueError if a sample is neither finite nor NaN in all entries of a view."""
    step = max(1, _BYTES_AT_ONCE * int(array.shape[0]) // max(1, prod(array.shape) * dtype_of(array).itemsize))
    for start in range(0, int(array.shape[0]), step):
        part = to_host(array[start : start + step, ...])
        part = part.reshape(len(part), -1)
        bad = ~np.isfinite(part).all(axis=1) & ~np.isnan(part).all(axis=1)
        if bad.any():
            raise ValueError(
                f"Input X contains NaN or infinity in view {name!r} (the first is sample {start + int(bad.argmax())}); "
                "leave such samples out, impute such entries, or, where a sample lacks the view, make all of its "
                "entries NaN"
            )
