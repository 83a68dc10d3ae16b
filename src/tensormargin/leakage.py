"""Detection of duplicate samples, which leak from the training to the test set."""

from __future__ import annotations

import hashlib
import warnings
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator
from math import prod
from typing import Any

import numpy as np

from ._namespace import as_array, dtype_of, is_foreign, is_lazy, like, namespace, rows_of, to_host
from ._typing import Array
from ._validation import checked_groups, chunked_along_samples
from .intake import is_ragged
from .lazy_survey import survey
from .views import Views, views_or_samples

_PROBES = 64  # entries per sample that are compared first; samples that differ rarely agree in all of them
_BYTES_AT_ONCE = 2**26


class LeakageWarning(UserWarning):
    """Warning that training and test samples may not be independent, so that accuracies are too high.

    Examples
    --------
    >>> import tempfile
    >>> import warnings
    >>> import numpy as np
    >>> from tensormargin import LeakageWarning, load_samples
    >>> with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     np.savez(f"{folder}/study.npz", X=np.random.rand(6, 3, 4), y=[0, 1] * 3, subject=[1, 1, 2, 2, 3, 3])
    ...     samples = load_samples(f"{folder}/study.npz")
    >>> [warning.category.__name__ for warning in caught]
    ['LeakageWarning']
    """


def duplicate_samples(X: Any) -> list[Array]:
    """Return the sets of samples that are bitwise identical.

    A few entries of every sample are compared first, and only samples that agree in them are read completely. A Dask
    array is read once; if it is asked for again, what was found is remembered.

    Parameters
    ----------
    X : array-like of shape (n_samples, I_1, ..., I_M), or Views
        Samples of several views are the same if all of their views are.

    Returns
    -------
    list of ndarray of int
        The rows of each set, at least two, in ascending order.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin.leakage import duplicate_samples
    >>> X = np.arange(24.0).reshape(4, 2, 3)
    >>> X[3] = X[1]
    >>> [rows.tolist() for rows in duplicate_samples(X)]
    [[1, 3]]
    """
    X = views_or_samples(X, ragged=True)
    if isinstance(X, Views):
        return _same_rows(range(len(X)), zip(*(_first_copies(array) for array in X.values()), strict=True))
    X = as_array(X)
    if prod(X.shape) == 0:
        return []
    if is_lazy(X):
        digests = survey(chunked_along_samples(X)).digests
        return _same_rows(range(len(digests)), map(tuple, digests.tolist()))
    if is_ragged(X):
        return _same_rows(range(len(X)), map(_ragged_key, X))
    _, alike, counts = np.unique(_probe_keys(X), return_inverse=True, return_counts=True)
    alike = alike.ravel()
    rows = np.flatnonzero(counts[alike] > 1)
    keys: Iterable[Hashable] = iter(alike[rows].tolist()) if prod(X.shape[1:]) <= _PROBES else _digests(X, rows)
    return _same_rows(rows.tolist(), keys)


def _first_copies(X: Any) -> list[int]:
    """Return for each sample the first row that it is a copy of, its own row for most."""
    rows = np.arange(int(X.shape[0]))
    for same in duplicate_samples(X):
        rows[same] = same[0]
    return rows.tolist()


def _same_rows(rows: Iterable[int], keys: Iterable[Hashable]) -> list[Array]:
    """Return the sets of rows that have the same key, at least two in each."""
    same: dict[Hashable, list[int]] = defaultdict(list)
    for row, key in zip(rows, keys, strict=True):
        same[key].append(row)
    return [np.array(own) for own in same.values() if len(own) > 1]


def content_ranks(X: Any) -> Array:
    """Return an integer per sample that depends on its entries, not on its position, and is equal for copies.

    Only a few entries are compared, so different samples may share an integer. A Dask array is not read: the row
    numbers are returned.
    """
    if isinstance(X, Views):
        ranks = np.stack([content_ranks(array) for array in X.values()])
        return np.unique(ranks, axis=1, return_inverse=True)[1].ravel()
    if is_lazy(X):
        return np.arange(X.shape[0])
    return np.unique(_probe_keys(X), return_inverse=True)[1].ravel()


def describe_duplicates(X: Any, groups: Any = None) -> str | None:
    """Return a message about duplicates that a split may separate, with a remedy; None if there are none."""
    found = duplicate_samples(X)
    groups = checked_groups(X, groups)
    if groups is not None:
        found = [rows for rows in found if len(np.unique(groups[rows])) > 1]
    if not found:
        return None
    copies, (first, second) = sum(len(rows) - 1 for rows in found), found[0][:2]
    if groups is not None:
        where, remedy = "samples in other groups", "Leave them out, or put the samples that are the same into one group"
        second = next(row for row in found[0] if groups[row] != groups[first])
    else:
        where = "other samples"
        remedy = "Leave them out, or keep them together with groups=... (command line: --groups)"
    return (
        f"{copies} of {len(X)} samples are exact copies of {where} (such as {first} and {second}, counted from 0): "
        f"where a copy is in the training set, a test sample tests nothing. {remedy}"
    )


def warn_of_duplicates(X: Any, groups: Any = None, stacklevel: int = 3) -> None:
    """Issue a `LeakageWarning` if a train-test split may separate copies of a sample."""
    said = describe_duplicates(X, groups)
    if said is not None:
        warnings.warn(said, LeakageWarning, stacklevel=stacklevel)


def _probe_keys(X: Any) -> Array:
    """Return a few entries of each sample, packed as one bytes item per sample."""
    shape = X.shape[1:]
    positions = np.unique(np.linspace(0, prod(shape) - 1, _PROBES).astype(np.intp))
    if is_foreign(X):
        xp = namespace(X)
        probes = to_host(xp.take(xp.reshape(X, (X.shape[0], -1)), like(positions, X), axis=1))
    else:  # avoids copying non-contiguous samples
        probes = X[(slice(None), *np.unravel_index(positions, shape))]
    probes = np.ascontiguousarray(probes)
    return probes.view(np.dtype((np.void, probes.dtype.itemsize * probes.shape[1])))


def _digests(X: Any, rows: Array) -> Iterator[bytes]:
    """Yield a checksum of each of the given samples."""
    per_sample = prod(X.shape[1:]) * dtype_of(X).itemsize
    step = max(1, _BYTES_AT_ONCE // per_sample)
    for start in range(0, len(rows), step):
        part = to_host(rows_of(X, rows[start : start + step]))
        yield from map(_digest, np.ascontiguousarray(part).reshape(len(part), -1))


def _digest(sample: Array) -> bytes:
    return hashlib.blake2b(sample.tobytes(), digest_size=16).digest()


def _ragged_key(sample: Array) -> Hashable:
    return sample.shape, sample.dtype, _digest(sample)
