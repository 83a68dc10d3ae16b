"""The steps of a fit around the solves: validate the input, specify the problems, set the fitted attributes.

`TensorMarginClassifier.fit` uses them for one classifier, `fit_many` for several.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import _safe_indexing, check_random_state, compute_class_weight
from sklearn.utils.validation import _check_sample_weight

from ..data import all_finite, check_classes, check_writable, checked_training, has_plain_labels, no_classes
from ..fitting import BinaryProblem, Fit, NotFiniteError, SampleArray, binary_problems, loaded_if_small, sample_array
from ..runtime import Array, is_foreign, is_lazy, like, rows_of, to_host, tuning
from .binary_fit import FirstPasses, FitSettings, FitSpec, LastFit, strength_of
from .engine import fit_on_arrays, fit_specs
from .weight_layout import Layout, layout_of

WeightedProblem = tuple[BinaryProblem, Array]
"""A binary problem, and the shares of its samples."""


@dataclass(frozen=True)
class TrainingSet:
    """Validated samples with their labels and weights; many fits to it may share their first passes."""

    array: SampleArray
    labels: Array
    weights: Array
    passes: FirstPasses | None = None
    _problems: dict[Any, Any] = field(default_factory=dict, init=False, repr=False)

    def specify(self, classifier: Any) -> ClassifierSpec:
        """Return the binary problems for a classifier; those of a scheme are the same for all strengths."""
        scheme = classifier.multi_class, repr(classifier.class_weight)
        if scheme not in self._problems:
            self._problems[scheme] = weighted_problems(classifier, self.labels, self.weights)
        return specify(classifier, self.array.sample_shape, *self._problems[scheme])


@dataclass(frozen=True)
class ClassifierSpec:
    """The classes of a fit and the specification of each binary problem."""

    classes: Array
    fits: list[FitSpec]


def training_set(classifier: Any, X: Any, y: Any, sample_weight: Any, for_many: bool = False) -> TrainingSet:
    """Return the validated training set of a classifier, or ``for_many`` fits that share their first passes."""
    # The first pass of a fit detects NaN as well; checking here would read large samples once more. (The first pass
    # does not read samples of weight zero.)
    look_for_nan = getattr(X, "nbytes", 0) < tuning.LOOKED_THROUGH_BYTES or sample_weight is not None
    X, labels = checked_training(classifier, X, y, finite=look_for_nan)
    array = sample_array(loaded_if_small(X, finite=True))
    if any(0 in shape for shape in array.sample_shapes):
        raise ValueError(f"every mode of a sample needs at least one entry; got samples of shape {array.sample_shape}")
    if not has_plain_labels(labels):
        check_classes(labels)
        check_writable(np.asarray(labels), "y")
    elif not for_many and (quantity := no_classes(labels, in_folds=True)):
        warnings.warn(f"y {quantity}", UserWarning, stacklevel=4)
    weights = _sample_weights(sample_weight, labels)
    return TrainingSet(array, labels, weights, FirstPasses() if for_many and array.in_memory else None)


def _sample_weights(sample_weight: Any, labels: Array) -> Array:
    """Return the checked weights, relative to the largest: only ratios matter, and sums of huge ones would overflow."""
    if sample_weight is None:
        return np.ones(len(labels))
    sample_weight = to_host(sample_weight) if is_foreign(sample_weight) or is_lazy(sample_weight) else sample_weight
    weights = _check_sample_weight(sample_weight, labels, dtype=np.float64, ensure_non_negative=True)
    return weights / (weights.max() or 1.0)


def fit_training_set(
    classifier: Any, training: TrainingSet, y: Any = None, n_jobs: int | None = None, for_scoring: bool = False
) -> Any:
    """Fit a classifier with valid parameters to a validated training set, and return it.

    ``y`` are the labels as they were given, whose library ``classes_`` is to have. A classifier that is only needed
    ``for_scoring`` has no ``weight_`` and no ``history_``, and does not warn if it has not converged.
    """
    array, spec = training.array, training.specify(classifier)
    try:
        fits = fit_specs(array, spec.fits, n_jobs, classifier.solver, training.passes)
    except NotFiniteError:
        array.reject_not_finite()
        raise
    return _keep_fits(classifier, spec, fits, array) if for_scoring else keep(classifier, spec, fits, array, y)


def weighted_problems(
    classifier: Any, labels: Array, weights: Array, rows: Array | None = None
) -> tuple[Array, list[WeightedProblem]]:
    """Return the classes of labelled samples, or of some rows of an array, and the binary problems of a scheme."""
    classes, codes = np.unique(labels, return_inverse=True)
    _check_classes(classes, np.bincount(codes, weights=weights > 0, minlength=len(classes)))
    weights = weights * _class_weights(classifier.class_weight, classes, codes, weights)[codes]
    problems = []
    for pair in binary_problems(codes, len(classes), classifier.multi_class):
        problem, shares = pair.weighted(weights)
        if classifier.class_weight == "balanced" and pair.negative < 0:  # also between the class and all others
            positive = problem.signs > 0
            shares = 0.5 * np.where(positive, shares / shares[positive].sum(), shares / shares[~positive].sum())
        problems.append((problem if rows is None else problem.within(rows), shares))
    return classes, problems


def specify(classifier: Any, shape: Any, classes: Array, problems: Sequence[WeightedProblem]) -> ClassifierSpec:
    """Return binary problems with how to fit them to samples of this shape (by name for views)."""
    settings = _settings(classifier, layout_of(shape))
    lasts = _warm_starts(classifier, shape, classes, settings.rank, len(problems))
    seeds = _seeds(classifier.random_state, len(problems))
    fits = [FitSpec(*pair, settings, last, seed) for pair, last, seed in zip(problems, lasts, seeds, strict=True)]
    return ClassifierSpec(classes, fits)


def _seeds(random_state: Any, number: int) -> Any:
    """Return numbers for random starts; those that follow from a number are remembered, since they take a while."""
    if isinstance(random_state, int):
        return _seeds_of(random_state, number)
    return check_random_state(random_state).randint(np.iinfo(np.int32).max, size=number)


@lru_cache(maxsize=64)
def _seeds_of(random_state: int, number: int) -> tuple[int, ...]:
    return tuple(np.random.RandomState(random_state).randint(np.iinfo(np.int32).max, size=number).tolist())


def _check_classes(classes: Array, counts: Array) -> None:
    if np.sum(counts > 0) < 2:
        present = classes[counts > 0].tolist()
        raise ValueError(
            f"a classifier needs samples of at least two classes with positive weight; got one class, {present}. "
            "Check the labels and sample_weight"
        )
    if np.any(counts == 0):
        raise ValueError(
            f"class {classes[counts == 0].tolist()} has samples, but all of them have sample_weight 0; "
            "leave such samples out"
        )


def _class_weights(class_weight: Any, classes: Array, codes: Array, weights: Array) -> Array:
    """Return one factor per class; "balanced" counts weighted samples, so that a weight of 2 counts as two samples."""
    if class_weight is None:
        return np.ones(len(classes))
    if class_weight == "balanced":
        return weights.sum() / (len(classes) * np.bincount(codes, weights=weights))
    factors = compute_class_weight(class_weight, classes=classes, y=classes[codes])
    bad = ~(np.isfinite(factors) & (factors > 0))
    if np.any(bad):
        raise ValueError(
            f"class_weight must be positive and finite for every class; got {factors[bad].tolist()} for "
            f"{classes[bad].tolist()}. To ignore a class, leave its samples out"
        )
    return factors


def _settings(classifier: Any, layout: Layout) -> FitSettings:
    form, rank = layout.format_and_rank(classifier)
    same = ("fit_intercept", "init", "n_init", "tol", "max_iter", "verbose")
    given = {name: getattr(classifier, name) for name in same}
    return FitSettings(form, rank, strength_of(classifier), **given, view_scales=layout.view_scales(classifier))


def _warm_starts(classifier: Any, shape: Any, classes: Array, rank: Any, n_problems: int) -> Sequence[LastFit | None]:
    """Return the last fit of each binary problem if it is compatible, otherwise None for each."""
    cold = [None] * n_problems
    if not (classifier.warm_start and hasattr(classifier, "weight_")):
        return cold
    before, now = (classifier.sample_shape_, classifier.multi_class_), (shape, classifier.multi_class)
    if before != now or not np.array_equal(to_host(classifier.classes_), classes):
        return cold
    starts = layout_of(shape).kept_weights(classifier)
    if starts is None or any(start.rank != rank for start in starts):
        return cold
    return [LastFit(start, float(b)) for start, b in zip(starts, to_host(classifier.intercept_), strict=True)]


def keep_scheme(
    classifier: Any, classes: Array, array: SampleArray, n_parameters: int, intercept: Array | None = None
) -> Any:
    """Set the fitted attributes that say how scores become decisions, and return the classifier."""
    classifier.classes_ = classes
    classifier.sample_shape_ = array.sample_shape
    classifier.multi_class_ = classifier.multi_class
    classifier.n_parameters_ = n_parameters
    if intercept is not None:
        classifier.intercept_ = array.kept(intercept.astype(array.result_dtype, copy=False))
    return classifier


def _keep_fits(classifier: Any, spec: ClassifierSpec, fits: list[Fit], array: SampleArray) -> Any:
    layout_of(array.sample_shape).keep(classifier, fits, array)
    n_parameters = fits[0].weight.n_parameters + int(classifier.fit_intercept)
    keep_scheme(classifier, spec.classes, array, n_parameters, np.array([fit.intercept for fit in fits]))
    coefs = classifier.coef_.values() if isinstance(classifier.coef_, dict) else [classifier.coef_]
    if not all(map(all_finite, [*coefs, classifier.intercept_])):
        del classifier.coef_
        raise ValueError(
            f"weights and intercepts must be finite, in {array.result_dtype}; those of this fit are not. Scale X to a "
            f"mean squared norm near 1, or change lam={classifier.lam:g}, mu1={classifier.mu1:g} and "
            f"mu2={classifier.mu2:g}"
        )
    return classifier


def keep(classifier: Any, spec: ClassifierSpec, fits: list[Fit], array: SampleArray, y: Any) -> Any:
    """Set the fitted attributes, in the library of the samples (``classes_``: of y), and return the classifier."""
    _keep_fits(classifier, spec, fits, array)
    classifier.classes_ = like(spec.classes, y) if is_foreign(y) else spec.classes
    layout_of(array.sample_shape).keep_weights(classifier, fits, array)
    histories = [_history(fit) for fit in fits]
    classifier.history_ = histories[0] if len(fits) == 1 else histories
    classifier.objective_ = array.kept(np.array([fit.objective for fit in fits]))
    classifier.n_iter_ = max(len(fit.sweeps) for fit in fits)
    unfinished = [fit for fit in fits if not fit.converged]
    if unfinished:
        last = max((fit.sweeps[-1] for fit in unfinished), key=lambda sweep: sweep.change)
        warnings.warn(
            f"{len(unfinished)} of {len(fits)} binary problems did not converge to tol={classifier.tol:g} in "
            f"max_iter={classifier.max_iter} sweeps: the last sweep changed the weight by {last.change:.1e} (relative) "
            f"and left a duality gap of {max(last.gaps):.1e}. Increase max_iter or tol, lower lam, or scale X "
            "(or, for large float64 samples, set tol below 5e-4 to compute in float64)",
            ConvergenceWarning,
            stacklevel=5,  # the caller of fit, past `fit_training_set` and scikit-learn's wrapper
        )
    return classifier


@dataclass(frozen=True)
class ToFit:
    """A classifier and its training set: all samples of an array, or the rows of some of them, in ascending order."""

    classifier: Any
    X: Any
    y: Any
    rows: Array | None = None
    sample_weight: Any = None


def fit_all(tasks: Sequence[ToFit]) -> list[Any]:
    """Fit classifiers to samples of one array: on a device or in a Dask array as one batch, else one by one."""
    if tasks and not hasattr(tasks[0].X, "columns") and sample_array(tasks[0].X).fits_in_batches:
        return fit_batch(tasks)
    fitted = []
    for task in tasks:
        X, y, weight, rows = task.X, task.y, task.sample_weight, task.rows
        if rows is not None:
            X = _safe_indexing(X, rows) if hasattr(X, "columns") else rows_of(X, rows)
            y, weight = (None if part is None else rows_of(part, rows) for part in (y, weight))
        fitted.append(task.classifier.fit(X, y, sample_weight=weight))
    return fitted


def fit_batch(tasks: Sequence[ToFit]) -> list[Any]:
    """Fit classifiers in one batch; those of different arrays, which must be Dask arrays, share their reads."""
    specs: list[ClassifierSpec] = []
    arrays: list[SampleArray] = []
    for task in tasks:
        classifier, own = task.classifier, task.rows
        classifier._validate_params()  # as scikit-learn's wrapper around `fit` does
        training = training_set(classifier, task.X, task.y, task.sample_weight)
        labels, weights = training.labels, training.weights
        if own is not None:
            own, copies = np.unique(own, return_counts=True)
            labels, weights = labels[own], weights[own] * copies
        problems = weighted_problems(classifier, labels, weights, own)
        specs.append(specify(classifier, training.array.sample_shape, *problems))
        arrays.append(training.array)
    pairs = [(array, fit) for array, spec in zip(arrays, specs, strict=True) for fit in spec.fits]
    try:
        fits = iter(fit_on_arrays(pairs, tasks[0].classifier.solver))
    except NotFiniteError:
        for array in arrays:
            array.reject_not_finite()
        raise
    return [
        keep(task.classifier, spec, [next(fits) for _ in spec.fits], array, task.y)
        for task, spec, array in zip(tasks, specs, arrays, strict=True)
    ]


def without_convergence_warnings() -> Any:
    """Return a context for fits that nobody is going to use by themselves, such as those on folds."""
    return warnings.catch_warnings(action="ignore", category=ConvergenceWarning)


def _history(fit: Fit) -> dict[str, Any]:
    return {
        "objective": np.array([sweep.objectives[-1] for sweep in fit.sweeps]),
        "block_objective": np.array([sweep.objectives for sweep in fit.sweeps]),
        "gap": np.array([sweep.gaps for sweep in fit.sweeps]),
        "change": np.array([sweep.change for sweep in fit.sweeps]),
        "seconds": np.array([sweep.seconds for sweep in fit.sweeps]),
        "blocks": list(fit.weight.block_names),
    }
