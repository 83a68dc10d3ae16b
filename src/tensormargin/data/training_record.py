"""What a model file keeps of its training samples, and how new samples compare with it."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ..runtime import Array, listed
from .sample_summaries import (
    FLOOR,
    LEAST_SPREAD,
    MOST_CELLS,
    ROUNDING,
    SIGNATURE,
    Summary,
    grid_of,
    spread_of,
    summaries,
    views_by_name,
    with_near_copies,
)
from .scale import ONE, OtherScale, other_scale, scale_facts
from .views import views_or_samples

_MOST_DIGESTS = 2**17  # of more samples none are kept: the record would be larger than most models
_FOLDS = 10
_FEWEST = 5  # training samples whose distances say something
_RIDGE = 0.05  # least share of the identity in the correlations of the descriptors


@dataclass(frozen=True)
class ComparedSamples:
    """How samples compare with those of a fit, one entry per sample.

    ``used``: it is a copy, up to a factor and rounding, of one that was used in the fit (None if the record has no
    digests). ``far``: it
    is farther from the training samples than any of them from the others. ``beyond``: its scores are beyond theirs.
    ``scale``: its root mean square in each view.
    """

    used: Array | None
    far: Array
    beyond: Array
    other_scale: OtherScale | None
    scale: Mapping[str, Array]

    @property
    def unlike(self) -> Array:
        """Whether a sample is unlike all training samples, in its entries or in its scores."""
        found: Array = self.far | self.beyond
        return found

    @property
    def facts(self) -> dict[str, Any]:
        """The numbers of such samples, as JSON types."""
        return {
            "n_used_in_fit": None if self.used is None else int(self.used.sum()),
            "n_unlike_training": int(self.unlike.sum()),
        }

    def sentence(self, what: str = "samples") -> str | None:
        """Return how many samples were used in the fit, None if none were."""
        n_used = 0 if self.used is None else int(self.used.sum())
        if not n_used:
            return None
        which = f"All {n_used}" if n_used == len(self.far) else f"{n_used} of {len(self.far)}"
        of_those = f"{which} {what} were"
        if len(self.far) == 1:
            of_those = f"The only {what.removesuffix('s')} was"
        return f"{of_those} used in the fit: their accuracy says nothing about new {what}"

    def warning(self, what: str = "samples", names: Sequence[str] | None = None) -> str | None:
        """Return how many samples are unlike those of the fit, with their ``names``; None if none are."""
        n_unlike = int(self.unlike.sum())
        if not n_unlike:
            return None
        such = "" if names is None else f": {listed(names)}"
        count = f"{n_unlike} of {len(self.far)} {what} {'is' if n_unlike == 1 else 'are'}"
        if len(self.far) == 1:
            count = f"the only {what.removesuffix('s')} is"
        in_what = f"{self.far.sum()} in their entries, {self.beyond.sum()} in their scores"
        return f"{count} unlike all training samples ({in_what}){such}. Do not rely on what the model predicts for them"


@dataclass(frozen=True)
class TrainingRecord:
    """A small record of training samples, which a model file keeps to tell new samples that are unlike them.

    It holds no samples, but a digest and four projections of each, by which copies are known, their scale (the median,
    the extremes and the central 90 % of their root mean squares), and the mean and the correlations of some forty
    descriptors: mean, standard deviation, extremes, roughness along each mode, and the means of at most 32 parts of a
    sample. A sample is far from the training samples if its Mahalanobis distance is larger than that of every training
    sample, each measured without the samples of its fold or group. Samples may be ragged, lazy, incomplete or in
    several views.

    Parameters
    ----------
    facts : mapping
        The record as JSON types.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin import TrainingRecord
    >>> rng = np.random.default_rng(0)
    >>> X = np.cumsum(rng.standard_normal((60, 4, 50)), axis=2)
    >>> record = TrainingRecord.of(X[:50])
    >>> found = record.compare(np.concatenate([X[48:], np.ones((1, 4, 50))]))
    >>> found.used.nonzero()[0], found.far.nonzero()[0]
    (array([0, 1]), array([12]))
    >>> round(record.compare(1e6 * X[50:]).other_scale.factor, -5)
    900000.0
    """

    facts: Mapping[str, Any]

    @classmethod
    def of(cls, X: Any, groups: Any = None, scores: Any = None, unit: Any = None) -> TrainingRecord:
        """Return the record of training samples, which are read once.

        Parameters
        ----------
        X : array-like of shape (n_samples, I_1, ..., I_M), or Views
        groups : array-like of shape (n_samples,), optional
            Samples that belong together: the distance of a sample is measured without its group.
        scores : array-like of shape (n_samples,) or (n_samples, n_classes), optional
            Their `decision_function`.
        unit : str, or dictionary of str by view, optional
            Unit of the entries.
        """
        X = views_or_samples(X, ragged=True)
        units = unit if isinstance(unit, Mapping) else {ONE: unit}
        grids = {name: grid_of(view) for name, view in views_by_name(X).items()}
        found = summaries(X, grids)
        folds = _folds(len(X), groups)
        views = {name: _view_facts(one, grids[name], folds, units.get(name)) for name, one in found.items()}
        ends = None
        if scores is not None:
            values = np.asarray(scores, np.float64).reshape(len(X), -1)
            ends = {"minimum": values.min(axis=0).tolist(), "maximum": values.max(axis=0).tolist()}
        return cls({"n_samples": len(X), "views": views, "scores": ends})

    @property
    def scale(self) -> dict[str, Any]:
        """Median, extremes and unit of the scale of the samples, by view."""
        return {name: {**own["scale"], "unit": own["unit"]} for name, own in self.facts["views"].items()}

    @property
    def summary(self) -> dict[str, Any]:
        """What a person can read of the record."""
        return {"n_samples": self.facts["n_samples"], "scale": self.scale, "scores": self.facts["scores"]}

    def compare(self, X: Any, scores: Any = None) -> ComparedSamples:
        """Return how samples compare with the training samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, I_1, ..., I_M), or Views
            Views that the fit did not have are ignored, and so are those of the fit that are not given.
        scores : array-like of shape (n_samples,) or (n_samples, n_classes), optional
        """
        X = views_or_samples(X, ragged=True)
        return self.compare_summaries(self.summaries(X), scores)

    def summaries(self, X: Any) -> dict[str, Summary]:
        """Return the summaries of samples that `compare_summaries` compares; digests if these tell more copies."""
        with _damaged():
            views = [own for own in self.facts["views"].values() if own["digests"] is not None]
            hashed = not all(_known_samples(own["digests"], own.get("signatures")).tell_all for own in views)
        return summaries(X, self.grids, hashed)

    @property
    def grids(self) -> dict[str, tuple[int, ...]]:
        """The number of parts along each mode, by view."""
        with _damaged():
            grids = {name: tuple(int(size) for size in own["grid"]) for name, own in self.facts["views"].items()}
            if any(min(grid) < 1 or prod(grid) > MOST_CELLS for grid in grids.values()):
                raise ValueError(f"grids of 1 to {MOST_CELLS} parts")
            return grids

    def compare_summaries(self, found: Mapping[str, Summary], scores: Any = None) -> ComparedSamples:
        """Return the same from the summaries of the samples; `summaries`."""
        with _damaged():
            views = {name: self.facts["views"][name] for name in found}
            n_samples = len(next(iter(found.values())).scale)
            far = np.zeros(n_samples, bool)
            for name, one in found.items():
                far |= _is_far(views[name], one)
            beyond: Any = np.zeros(n_samples, bool)
            ends = self.facts["scores"]
            if ends is not None and scores is not None:  # by more than half of the range in training
                values = np.asarray(scores, np.float64).reshape(n_samples, -1)
                least, most = (np.asarray(ends[name], np.float64) for name in ("minimum", "maximum"))
                room = (most - least) / 2
                beyond = ((values < least - room) | (values > most + room)).any(axis=1)
            used = _used(views, found)
            scale = {name: one.scale for name, one in found.items()}
            return ComparedSamples(used, far, beyond, self._other_scale(scale), scale)

    def joined(self, parts: Sequence[ComparedSamples]) -> ComparedSamples:
        """Return the comparisons of consecutive parts of some samples as one."""
        used = [one.used for one in parts if one.used is not None]
        far, beyond = (np.concatenate([getattr(one, name) for one in parts]) for name in ("far", "beyond"))
        scale = {name: np.concatenate([one.scale[name] for one in parts]) for name in parts[0].scale}
        return ComparedSamples(np.concatenate(used) if used else None, far, beyond, self._other_scale(scale), scale)

    def _other_scale(self, scale: Mapping[str, Array]) -> OtherScale | None:
        """Return the first view that differs from training, given the root mean squares of new samples."""
        found = (other_scale(name, self.facts["views"][name], own) for name, own in scale.items())
        return next((one for one in found if one is not None), None)


def short_facts(about: Mapping[str, Any]) -> dict[str, Any]:
    """Return facts of a model with only what a person can read of the record of its training samples."""
    if about.get("training") is None:
        return dict(about)
    with _damaged():
        return {**about, "training": TrainingRecord(about["training"]).summary}


@contextmanager
def _damaged() -> Iterator[None]:
    """Turn errors about a record from a file, which can hold anything, into one message."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, IndexError) as error:
        raise ValueError(f"the record of the training samples is damaged ({error}); fit the model again") from error


def _view_facts(found: Summary, grid: tuple[int, ...], folds: list[Array], unit: str | None) -> dict[str, Any]:
    scale = scale_facts(found.scale)
    features = _features(found, scale["median"])
    there = np.isfinite(features).all(axis=1)
    kept = len(found.digests) <= _MOST_DIGESTS
    facts: dict[str, Any] = {
        "unit": unit or None,
        "scale": scale,
        "grid": list(grid),
        "digests": found.digests.tobytes().hex() if kept else None,
        "signatures": _text(np.nan_to_num(found.signatures)) if kept else None,
        "distance": None,
    }
    if there.sum() >= _FEWEST:
        model = _fitted(features[there])
        held_out = np.zeros(len(features))
        for fold in folds:
            test = there & fold
            train = there & ~fold
            if test.any() and train.sum() >= 2:
                held_out[test] = _distances(_fitted(features[train]), features[test])
        limit = max(1.0, float(held_out.max())) * (1 + 5 / there.sum())  # 1: the typical distance
        facts["distance"] = {"limit": limit} | {name: _text(values) for name, values in model._asdict().items()}
    return facts


def _text(values: Array) -> str:
    return b64encode(values.astype("<f4").tobytes()).decode("ascii")


def _numbers(text: str) -> Array:
    return np.frombuffer(b64decode(text, validate=True), "<f4").astype(np.float64)


def _folds(n_samples: int, groups: Any) -> list[Array]:
    """Return which samples each fold leaves out; groups are kept together."""
    labels = np.random.default_rng(0).permutation(n_samples)
    if groups is not None and len(np.unique(groups)) > 2:
        labels = np.unique(groups, return_inverse=True)[1].ravel()
    folds = labels % min(_FOLDS, labels.max(initial=0) + 1)
    return [folds == fold for fold in range(int(folds.max(initial=0)) + 1)]


class _Gaussian(NamedTuple):
    """Mean, standard deviation, and the whitening matrix of standardized values."""

    mean: Array
    spread: Array
    whitening: Array


def _features(found: Summary, typical: float) -> Array:
    """Return the descriptors with the mean and the standard deviation, relative to a typical scale, in front."""
    unit = typical or 1.0
    mean, spread = found.moments.T
    return np.column_stack([np.arcsinh(mean / unit), np.log(np.maximum(spread / unit, FLOOR)), found.descriptors])


def _fitted(features: Array) -> _Gaussian:
    mean = features.mean(axis=0)
    spread = features.std(axis=0) + 1e-3 * np.abs(mean) + 1e-9
    n_samples, width = features.shape
    ridge = max(_RIDGE, width / (n_samples + width))
    scaled = (features - mean) / spread
    correlations = (1 - ridge) * scaled.T @ scaled / n_samples + ridge * np.eye(width)
    return _Gaussian(mean, spread, np.linalg.inv(np.linalg.cholesky(correlations)))


def _distances(model: _Gaussian, features: Array) -> Array:
    """Return Mahalanobis distances, relative to the root of the number of features."""
    found: Array = np.linalg.norm((features - model.mean) / model.spread @ model.whitening.T, axis=1)
    return found / np.sqrt(features.shape[1])


def _is_far(facts: Mapping[str, Any], found: Summary) -> Array:
    if facts["distance"] is None:
        return np.zeros(len(found.scale), bool)
    features = _features(found, float(facts["scale"]["median"]))
    mean, spread, whitening = (_numbers(facts["distance"][name]) for name in _Gaussian._fields)
    if not all(np.isfinite(values).all() for values in (mean, spread, whitening)):
        raise ValueError("numbers must be finite")
    model = _Gaussian(mean, spread, whitening.reshape(len(mean), -1))
    with np.errstate(invalid="ignore"):  # NaN, of samples that lack the view, is not far
        far: Array = _distances(model, features) > float(facts["distance"]["limit"])
    return far


def _used(views: Mapping[str, Any], found: Mapping[str, Summary]) -> Array | None:
    """Return which samples are copies of one training sample in all views."""
    if not views or any(own["digests"] is None for own in views.values()):
        return None
    used = np.logical_and.reduce([_may_be_copies(own, found[name]) for name, own in views.items()])
    rows, contents = np.flatnonzero(used), []
    for name, own in views.items():
        digests, directions, *_ = _known_samples(own["digests"], own.get("signatures"))
        ranks = np.unique(np.concatenate([digests, found[name].digests[rows].view(np.uint64)]), return_inverse=True)[1]
        directions = np.concatenate([directions, found[name].signatures[rows]])
        contents.append(with_near_copies(ranks.ravel(), directions, len(digests)))
    same = np.unique(np.stack(contents, axis=1), axis=0, return_inverse=True)[1].ravel()
    n_known = len(same) - len(rows)
    used[rows] = np.isin(same[n_known:], same[:n_known])
    return used


def _may_be_copies(own: Mapping[str, Any], found: Summary) -> Array:
    """Return which samples have the digest of a training sample, or nearly its first projection."""
    training = _known_samples(own["digests"], own.get("signatures"))
    ordered, new = training.first_projections, found.signatures[:, 0]  # NaN, of samples without a signature, comes last
    near = np.searchsorted(ordered, new - ROUNDING) < np.searchsorted(ordered, new + ROUNDING, side="right")
    may: Array = (near & np.isfinite(new)) | np.isin(found.digests.view(np.uint64), training.digests)
    return may


class _KnownSamples(NamedTuple):
    """What tells copies of the training samples in a view; ``tell_all``: signatures do so without digests."""

    digests: Array
    directions: Array
    first_projections: Array
    tell_all: bool


@lru_cache(maxsize=8)
def _known_samples(digests: str, text: str | None) -> _KnownSamples:
    """Return the digests and the signatures of the training samples in a view; made once for many parts.

    Without a text, as in models of 0.2, samples have no signatures.
    """
    rows = np.frombuffer(bytes.fromhex(digests), np.uint64)
    directions = np.zeros((len(rows), SIGNATURE)) if text is None else _numbers(text).reshape(len(rows), SIGNATURE)
    directions = np.where(directions.any(axis=1, keepdims=True), directions, np.nan)
    tell_all = bool(np.isfinite(directions).all()) and spread_of(directions) >= LEAST_SPREAD  # see `with_near_copies`
    return _KnownSamples(rows, directions, np.sort(directions[:, 0]), tell_all)
