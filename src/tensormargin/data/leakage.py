"""Detection of duplicate samples, which leak from the training to the test set."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from ..runtime import Array, dtype_of, is_foreign, is_lazy, like, namespace, rows_of, to_host
from .conversion import is_ragged
from .sample_summaries import digest, survey
from .validation import checked_groups, chunked_along_samples
from .views import Views, views_or_array, views_or_samples

_PROBES = 64  # entries per sample that are compared first; samples that differ rarely agree in all of them
_BYTES_AT_ONCE = 2**26
_TESTS_NOTHING = "where a copy is in the training set, a test sample tests nothing"


class LeakageWarning(UserWarning):
    """Warning that training and test samples may not be independent, which inflates accuracy.

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
    """Return the sets of samples (of Views: in all views) that are bitwise identical, each as ascending rows.

    A few entries of every sample are compared first, and only samples that agree in them are read completely.
    """
    X = views_or_array(views_or_samples(X, ragged=True))
    if not isinstance(X, Views) and prod(X.shape) == 0:
        return []
    same: dict[int, list[int]] = defaultdict(list)
    for row, content in enumerate(content_ranks(X).tolist()):
        same[content].append(row)
    return [np.array(rows) for rows in same.values() if len(rows) > 1]


def content_ranks(X: Any) -> Array:
    """Return an integer per sample, from 0, that depends on its entries, not on its position; equal for copies only."""
    if isinstance(X, Views) and X.contents is not None:
        return X.contents
    if isinstance(X, Views):
        return _ranks(np.stack([content_ranks(array) for array in X.values()], axis=1))
    if is_lazy(X):
        return _ranks(survey(chunked_along_samples(X)).digests)
    if is_ragged(X):
        digests = zip(X, sample_digests(X), strict=True)
        return _ranks(np.array([f"{one.shape} {one.dtype} {digest.hex()}" for one, digest in digests]))
    _, alike, counts = np.unique(_probe_keys(X), return_inverse=True, return_counts=True)
    alike = alike.ravel()
    rows = np.flatnonzero(counts[alike] > 1)
    if not len(rows) or prod(X.shape[1:]) <= _PROBES:
        return alike
    keys = np.zeros((len(alike), 3), np.uint64)
    keys[:, 0] = alike
    keys[rows, 1:] = np.frombuffer(b"".join(sample_digests(X, rows)), np.uint64).reshape(-1, 2)
    return _ranks(keys)


def _ranks(keys: Array) -> Array:
    """Return the rank of each row among the distinct rows."""
    return np.unique(keys, axis=0, return_inverse=True)[1].ravel()


def copies_in(X: Any) -> Array | None:
    """Return the `content_ranks` of samples if some are copies of others, otherwise None."""
    contents = content_ranks(X)
    return contents if contents.max(initial=-1) + 1 < len(contents) else None


def describe_duplicates(
    X: Any, groups: Any = None, kept: bool = False, names: Sequence[str] | None = None
) -> str | None:
    """Return a message about duplicates that a split may separate, with a remedy; None if there are none.

    ``kept`` says that the caller's own splits keep them together; ``names`` are those of the samples.
    """
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
    pair = f"{first} and {second}, counted from 0" if names is None else f"{names[first]} and {names[second]}"
    danger = "the folds of the search keep copies together, other splits may not" if kept else _TESTS_NOTHING
    return f"{copies} of {len(X)} samples are exact copies of {where} (such as {pair}): {danger}. {remedy}"


def warn_of_duplicates(X: Any, groups: Any = None, stacklevel: int = 3, kept: bool = False) -> None:
    """Issue a `LeakageWarning` if a train-test split may separate copies of a sample."""
    message = describe_duplicates(X, groups, kept)
    if message is not None:
        warnings.warn(message, LeakageWarning, stacklevel=stacklevel)


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


def sample_digests(X: Any, rows: Array | None = None) -> Iterator[bytes]:
    """Yield a checksum of 16 bytes of each sample, or of the given ones: of its entries in C order, in their dtype."""
    rows = np.arange(len(X)) if rows is None else rows
    if is_lazy(X):
        yield from map(bytes, survey(chunked_along_samples(X)).digests[rows])
        return
    step = 1 if is_ragged(X) else max(1, _BYTES_AT_ONCE // (prod(X.shape[1:]) * dtype_of(X).itemsize))
    for start in range(0, len(rows), step):
        part = rows_of(X, rows[start : start + step])
        yield from map(digest, part if is_ragged(X) else to_host(part))
