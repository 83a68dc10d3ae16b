"""Detection of leakage: duplicate samples, and labels that covariates, views, groups or the order in time give away."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from math import exp, lgamma, prod
from typing import Any

import numpy as np

from ..runtime import Array, dtype_of, escaped, is_lazy, listed, namespace, rows_of, to_host
from .axes import CHANNELS, Axis
from .conversion import is_ragged
from .sample_summaries import digests, probes_of, signatures, survey, views_by_name, with_near_copies
from .validation import Metadata, checked_groups, chunked_along_samples, names_of
from .views import COVARIATES, Views, views_or_array, views_or_samples

_BYTES_AT_ONCE = 2**26
_TESTS_NOTHING = "where a copy is in the training set, a test sample tests nothing"
_CHANCE = 1e-4  # probability that labels in random order would look like this; below, it is no coincidence
_MOST_COLUMNS = 1000
_ARRANGEMENTS = 20  # with fewer, no permutation test of whole groups can be significant at 5 %
_BLOCKS = -4.0  # standard deviations
_LEVELS = 1000  # of the range of a channel
_MOST_VALUES = 50  # of a trigger channel


class LeakageWarning(UserWarning):
    """Warning that training and test samples may not be independent, which inflates accuracy.

    Examples
    --------
    >>> import warnings
    >>> from tensormargin import LeakageWarning
    >>> warnings.simplefilter("error", LeakageWarning)  # doctest: +SKIP
    """

    def __init__(self, text: str) -> None:
        super().__init__(escaped(text))


def duplicate_samples(X: Any) -> list[Array]:
    """Return the sets of samples (of Views: in all views) that are copies, each as ascending rows."""
    X = views_or_array(views_or_samples(X, ragged=True))
    if not isinstance(X, Views) and prod(X.shape) == 0:
        return []
    same: dict[int, list[int]] = defaultdict(list)
    for row, content in enumerate(content_ranks(X).tolist()):
        same[content].append(row)
    return [np.array(rows) for rows in same.values() if len(rows) > 1]


def content_ranks(X: Any) -> Array:
    """Return an integer per sample, from 0, that depends on its entries, not on its position; equal for copies only.

    Copies have the same entries up to rounding and to a factor, see `sample_summaries.signatures`.
    """
    if isinstance(X, Views) and X.contents is not None:
        return X.contents
    if isinstance(X, Views):
        return _ranks(np.stack([content_ranks(array) for array in X.values()], axis=1))
    contents = _exact_ranks(X)
    if is_lazy(X):
        return with_near_copies(contents, survey(chunked_along_samples(X)).signatures)
    if is_ragged(X):
        return with_near_copies(contents, np.concatenate([signatures(np.asarray(one)[None]) for one in X]))
    directions = signatures(probes_of(X))
    found = with_near_copies(contents, directions)
    if np.array_equal(found, contents) and np.isfinite(directions).all():  # the rest need not be read
        return contents
    step = max(1, _BYTES_AT_ONCE // max(1, prod(X.shape[1:]) * dtype_of(X).itemsize))
    parts = (to_host(X[start : min(start + step, X.shape[0]), ...]) for start in range(0, X.shape[0], step))
    return with_near_copies(contents, np.concatenate([signatures(part) for part in parts]))


def _exact_ranks(X: Any) -> Array:
    """Return the same for copies with identical entries."""
    if is_ragged(X):
        digests = zip(X, sample_digests(X), strict=True)
        return _ranks(np.array([f"{one.shape} {one.dtype} {digest.hex()}" for one, digest in digests]))
    probes = survey(chunked_along_samples(X)).probes if is_lazy(X) else probes_of(X)
    keys = probes.view(np.dtype((np.void, probes.dtype.itemsize * probes.shape[1])))
    _, alike, counts = np.unique(keys, return_inverse=True, return_counts=True)
    alike = alike.ravel()
    rows = np.flatnonzero(counts[alike] > 1)
    if not len(rows) or prod(X.shape[1:]) <= probes.shape[1]:
        return alike
    keys = np.zeros((len(alike), 3), np.uint64)
    keys[:, 0] = alike
    keys[rows, 1:] = np.frombuffer(b"".join(sample_digests(X, rows)), np.uint64).reshape(-1, 2)
    return _ranks(keys)


def _ranks(keys: Array) -> Array:
    """Return the rank of each row among the distinct rows."""
    return np.unique(keys, axis=0, return_inverse=True)[1].ravel()


def describe_duplicates(
    X: Any, groups: Any = None, kept: bool = False, names: Sequence[str] | None = None
) -> str | None:
    """Return a message, with a remedy, about copies that splits may separate, or None; ``kept``: own folds do not."""
    X = views_or_samples(X, ragged=True)
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
    rows = np.concatenate(found)
    digests = zip(*(sample_digests(array, rows) for array in views_by_name(X).values()), strict=True)
    how = "exact copies" if len(set(digests)) == len(found) else "copies, up to a factor and rounding,"
    return f"{copies} of {len(X)} samples are {how} of {where} (such as {pair}): {danger}. {remedy}"


def warn_of_duplicates(X: Any, groups: Any = None, stacklevel: int = 3, kept: bool = False) -> None:
    """Issue a `LeakageWarning` if a train-test split may separate copies of a sample."""
    message = describe_duplicates(X, groups, kept)
    if message is not None:
        warnings.warn(message, LeakageWarning, stacklevel=stacklevel)


def sample_digests(X: Any, rows: Array | None = None) -> Iterator[bytes]:
    """Yield a checksum of 16 bytes of each sample, or of the given ones: of its entries in C order, in their dtype."""
    rows = np.arange(len(X)) if rows is None else rows
    if is_lazy(X):
        yield from map(bytes, survey(chunked_along_samples(X)).digests[rows])
        return
    step = 1 if is_ragged(X) else max(1, _BYTES_AT_ONCE // (prod(X.shape[1:]) * dtype_of(X).itemsize))
    for start in range(0, len(rows), step):
        part = rows_of(X, rows[start : start + step])
        yield from digests(part[0][None] if is_ragged(X) else to_host(part))


def describe_giveaways(X: Any, y: Array, groups: Any = None, axes: Any = None) -> list[str]:
    """Return messages, with remedies, about groups, channels, columns of views or views that determine the labels."""
    groups = checked_groups(X, groups)
    codes = np.unique(y, return_inverse=True)[1]
    found = [] if groups is None else list(_few_groups(y, groups))
    found += giveaway_channels(X, y, groups, axes)
    if not isinstance(X, Views):
        return found
    known = axes if isinstance(axes, Mapping) else X.sample_axes or {}
    for view, array in X.items():
        for column, values in _columns(array, known.get(view)) if not is_lazy(array) else ():
            how = _determined(values, codes, groups, thresholds=view == COVARIATES)
            if not how:
                continue
            what = f"column {column} of view {view!r}" if column else f"view {view!r}"
            remedy = f"X.without({view!r})"
            if view == COVARIATES and column:
                what, remedy = f"covariate {column!r}", "columns=... (command line: --covariate-columns)"
            found.append(
                f"{what} determines the labels: {how}. Where it was made from the labels, or is not known before them, "
                f"every score is too good. Leave it out: {remedy}"
            )
    return found


def giveaway_channels(X: Any, y: Array, groups: Any = None, axes: Any = None, where: str = "") -> Iterator[str]:
    """Yield a message, with a remedy, if single channels determine the labels by few values, as trigger channels do.

    Channels are the indices of the mode with that name, otherwise of the first mode, or of the second if no index of
    the first does; vectors have none, and are columns. A channel is told by its largest and its smallest value in each
    sample, up to a thousandth of their range: thresholds alone also separate what differs by nature.
    """
    if isinstance(X, Views):
        known = axes if isinstance(axes, Mapping) else X.sample_axes or {}
        for view, array in X.items():
            if len(array.shape) > 2:  # columns of vectors are looked at one by one
                yield from giveaway_channels(array, y, groups, known.get(view), f" of view {view!r}")
        return
    order, codes = len(X.shape) - 1, np.unique(y, return_inverse=True)[1]
    if is_ragged(X) or is_lazy(X) or order < 1 or dtype_of(X).kind not in "biuf":
        return
    modes = axes if isinstance(axes, tuple) else (Axis(),) * order
    named = [mode for mode, axis in enumerate(modes) if axis.name.lower() in CHANNELS]
    for mode in named or range(min(order, 2)):
        names = _channels_that_determine(X, mode, codes, checked_groups(X, groups), modes[mode])
        if not names:
            continue
        what = f"{'channel' if named else 'column' if order == 1 else 'index'} {names[0]}"
        what += f"{'' if named or order == 1 else f' of mode {mode} (counted from 0)'}{where}"
        others = f", and so do {listed(names[1:])}" if len(names) > 1 else ""
        yield (
            f"{what} determines the labels on its own{others}: few values, each in one class only. A trigger channel, "
            "or what was made from the labels, makes every score too good. Leave it out"
        )
        return


def _channels_that_determine(X: Any, mode: int, codes: Array, groups: Array | None, axis: Any) -> list[str]:
    xp, others = namespace(X), tuple(place for place in range(1, len(X.shape)) if place != mode + 1)
    n_channels, found = X.shape[mode + 1], set[int]()
    ends = [to_host(end(X, axis=others) if others else X) for end in (xp.max, xp.min)[: 1 + bool(others)]]
    for values in ends:
        with np.errstate(invalid="ignore", over="ignore"):
            values = np.asarray(values, np.float64)
            low, span = values.min(axis=0), np.ptp(values, axis=0)
            levels = np.rint(_LEVELS * (values - low) / np.where(span > 0, span, 1.0))
        ordered = np.sort(levels, axis=0)
        few = 1 + np.count_nonzero(ordered[1:] != ordered[:-1], axis=0) <= min(len(codes) // 5, _MOST_VALUES)
        likely = np.flatnonzero(few & (span > 0) & np.isfinite(span)).tolist()
        found |= {place for place in likely if _determined(levels[:, place], codes, groups, False, 2 * n_channels)}
    return [str(place) if axis.values is None else axis.spoken(place) for place in sorted(found)]


def warn_of_leakage(
    X: Any, y: Array, metadata: Metadata, stacklevel: int = 3, axes: Any = None, more: str | None = None
) -> None:
    """Issue a `LeakageWarning` for copies, for what gives the labels away, and for confounds of single groups."""
    warn_of_duplicates(X, metadata.groups, stacklevel + 1)
    texts = [*describe_giveaways(X, y, metadata.groups, axes), *describe_confounds(metadata)]
    for text in texts if more is None else [more, *texts]:
        warnings.warn(text, LeakageWarning, stacklevel=stacklevel)


def describe_confounds(metadata: Metadata) -> list[str]:
    """Return messages about confounds whose categories occur in one group each, which held-out groups never have."""
    groups, table = metadata.groups, metadata.confounds
    if groups is None or table is None or len(np.unique(groups)) < 2:
        return []
    return [
        f"every category of the confound {name!r} occurs in one group only: where a group is held out, its effect is "
        "not known, and nothing is removed for it. Scale every group by itself (by_group=True, command line: "
        "--by-group), or leave that confound out"
        for name in names_of(table)
        if table[name].dtype.kind == "U" and len(_distinct(table[name], groups)[0]) == len(np.unique(table[name])) > 1
    ]


def _distinct(*columns: Array) -> tuple[Array, Array]:
    """Return the distinct rows of several columns, as numbers of their distinct values, and where each is first."""
    codes = np.column_stack([np.unique(column, return_inverse=True)[1] for column in columns])
    return np.unique(codes, axis=0, return_index=True)


def _columns(array: Any, axes: Any) -> Iterator[tuple[str, Array]]:
    """Yield the columns of vectors by name ("site=a" and "site=b" are one), or the contents of other samples."""
    if len(array.shape) > 2 or array.shape[1] > _MOST_COLUMNS:
        yield "", content_ranks(array)
        return
    table = to_host(array)
    names = None if axes is None or axes[0].values is None else axes[0].values.tolist()
    if names is None:
        names = [""] if table.shape[1] == 1 else range(table.shape[1])
    places: dict[str, list[int]] = defaultdict(list)
    for place, name in enumerate(names):
        places[str(name).partition("=")[0]].append(place)
    for name, own in places.items():
        rows = table[:, own]
        yield name, rows[:, 0] if len(own) == 1 else np.where(np.isnan(rows).any(axis=1), np.nan, _ranks(rows))


def _determined(values: Array, labels: Array, groups: Array | None, thresholds: bool, tries: int = 1) -> str:
    """Return how a column determines the labels; "" if it does not, or if one of so many may do so by chance."""
    there = ~np.isnan(values) if values.dtype.kind == "f" else np.ones(len(values), bool)
    values, labels, n_samples = values[there], labels[there], int(there.sum())
    if groups is not None:
        _, first = _distinct(groups[there], values, labels)
        values, labels = values[first], labels[first]
    if len(np.unique(labels)) < 2:
        return ""
    distinct, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    own = np.zeros((len(distinct), labels.max() + 1), int)
    np.add.at(own, (which, labels), 1)
    if np.any(np.count_nonzero(own, axis=1) > 1):
        return ""  # two classes share a value
    shares = own.sum(axis=0) / len(labels)
    by_chance = exp(sum(np.log(np.sum(shares**count)) for count in counts))
    if 5 * len(distinct) <= len(labels) and by_chance * tries < _CHANCE:
        return f"each of its {len(distinct)} values comes with one class only, in {n_samples} samples"
    in_order = own.argmax(axis=1)
    n_classes, n_blocks = len(np.unique(labels)), 1 + int(np.sum(in_order[1:] != in_order[:-1]))
    if thresholds and n_blocks == n_classes and _chance_of_blocks(labels) < _CHANCE:
        return f"thresholds on it separate the classes in all {n_samples} samples"
    return ""


def log_arrangements(labels: Array) -> float:
    """Return the logarithm of the number of distinct arrangements of labels, a multinomial coefficient."""
    counts = np.unique(labels, return_counts=True)[1].tolist()
    return lgamma(len(labels) + 1) - sum(lgamma(count + 1) for count in counts)


def _chance_of_blocks(labels: Array) -> float:
    """Return the probability that labels in random order are in one block per class."""
    return exp(lgamma(len(np.unique(labels)) + 1) - log_arrangements(labels))


def _few_groups(y: Array, groups: Array) -> Iterator[str]:
    """Yield a message if every group has one label only, and there are few groups."""
    pairs, _ = _distinct(groups, y)
    names, classes = np.unique(groups), np.unique(y)
    if len(pairs) > len(names) or len(classes) < 2 or exp(min(log_arrangements(pairs[:, 1]), 100.0)) > _ARRANGEMENTS:
        return
    own = "; ".join(
        f"{label}: {', '.join(str(names[group]) for group in pairs[pairs[:, 1] == code, 0])}"
        for code, label in enumerate(classes)
    )
    yield (
        f"the groups determine the labels, and there are {len(names)} of them only ({own}): whatever else differs "
        "between these groups cannot be told apart from the classes, and no score can be significant. Bring more "
        "groups of each class"
    )


def blocks_in_time(y: Array) -> int:
    """Return the number of blocks of equal labels if far fewer than by chance (Wald and Wolfowitz 1940), else 0."""
    n, counts = len(y), np.unique(y, return_counts=True)[1].astype(float)
    if len(counts) < 2 or n < 3:
        return 0
    blocks, squares, cubes = 1 + int(np.sum(y[1:] != y[:-1])), np.sum(counts**2), np.sum(counts**3)
    mean = 1 + (n**2 - squares) / n
    variance = (squares * (squares + n * (n + 1)) - 2 * n * cubes - n**3) / (n**2 * (n - 1))
    return blocks if variance > 0 and (blocks - mean) / variance**0.5 < _BLOCKS else 0


def describe_order(y: Array, runs: Array | None) -> str | None:
    """Return a message if in every run all samples of one class come before those of the next, and not by chance."""
    orders, by_chance = set(), 1.0
    for run in [None] if runs is None else np.unique(runs):
        own = y if run is None else y[runs == run]
        firsts = own[np.concatenate([[True], own[1:] != own[:-1]])].tolist()
        if len(set(firsts)) < len(firsts):
            return None
        if len(firsts) > 1:
            orders.add(tuple(firsts))
            by_chance *= _chance_of_blocks(own)
    if len(orders) != 1 or by_chance >= _CHANCE:
        return None
    where = "the recording" if runs is None else "every recording, file or group with several classes"
    return (
        f"in {where}, all samples of one class come before those of the next (in the order "
        f"{', '.join(map(str, orders.pop()))}): what drifts over time cannot be told apart from the classes. Check the "
        "scores on recordings with another order"
    )
