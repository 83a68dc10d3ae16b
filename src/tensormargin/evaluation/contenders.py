"""The methods that take part in a comparison, their hyperparameter grids, and the choice from these."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from joblib import Parallel, delayed, parallel_config
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin, _fit_context, clone
from sklearn.dummy import DummyClassifier
from sklearn.metrics import get_scorer
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.svm import LinearSVC
from sklearn.utils._param_validation import Interval
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from ..data import Metadata, Views, missing_samples, samples_as_fitted
from ..estimators import (
    KERNEL_METHODS,
    TensorMarginClassifier,
    make_method,
    one_blas_thread,
    without_convergence_warnings,
)
from ..fitting import Span, numpy_backend, predicted_codes, sample_array
from ..runtime import Array, Costs, Deadline, FloatArray, goes_to_cluster, to_host, tuning
from ..selection import PreparedSplit, Split, Training, splits_of
from ..transformers import fit_transformed, named_steps, transformed
from .held_out import Labelled

PEERS = ("LinearSVC", "CP-PLSR")
"""Methods from scikit-learn and TensorLy that can be compared with the paper's."""

MAJORITY = "majority class"
"""Baseline that always predicts the most frequent class of the training set."""

LAM_GRID = (0.01, 0.1, 1.0, 10.0)
C_GRID = (0.01, 0.1, 1.0, 10.0, 100.0)
COMPONENTS = (1, 2, 3, 4, 6)
GAMMA_FACTORS = (0.1, 1.0, 10.0)
"""Widths of kernels, relative to the scale of the samples."""

_LAST = 1.5  # seconds of a fit to all samples, per second of one to those of a split
_FAILURES = (ValueError, ArithmeticError)
_SQUARE = 10  # mean squared norm of samples that LinearSVC gets, so that one grid of C suits all data


class CPPLSClassifier(ClassifierMixin, BaseEstimator):
    """Partial least squares for tensors (Bro 1996): TensorLy's ``CP_PLSR`` fitted to class indicators.

    Fewer than ``n_components`` are used if the centred samples do not have that many.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_components": [Interval(Integral, 1, None, closed="left")]
    }

    def __init__(self, n_components: int = 2) -> None:
        self.n_components = n_components

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> Self:
        """Fit to samples of shape (n_samples, I_1, ..., I_M)."""
        X, y = validate_data(self, X, y, dtype=np.float64, allow_nd=True, ensure_min_samples=2)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"a classifier needs samples of at least two classes; got one class, {self.classes_}")
        self.sample_shape_ = X.shape[1:]
        self._unit = float(np.sqrt(np.mean(np.square(X - X.mean(axis=0))))) or 1.0  # CP_PLSR's tolerance is absolute
        self.regressor_ = self._largest_fit(X / self._unit, np.eye(len(self.classes_))[codes])
        self.n_parameters_ = sum(f.size for f in self.regressor_.X_factors[1:]) + self.regressor_.coef_.size
        return self

    def _largest_fit(self, X: Array, indicators: FloatArray) -> Any:
        from tensorly.regression import CP_PLSR

        for count in range(self.n_components, 0, -1):
            with numpy_backend(), np.errstate(all="ignore"):
                try:
                    regressor = CP_PLSR(count).fit(X, indicators)
                    if np.all(np.isfinite(regressor.predict(X[:1]))):
                        return regressor
                except np.linalg.LinAlgError:
                    continue
        raise ValueError("CP_PLSR finds no component: all samples are the same")

    def decision_function(self, X: Any) -> FloatArray:
        """Return the predicted indicators, one column per class; for two classes their difference."""
        check_is_fitted(self)
        X = to_host(samples_as_fitted(self, X, self.sample_shape_))
        with numpy_backend():
            scores = np.asarray(self.regressor_.predict(X.astype(np.float64) / self._unit))
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> Array:
        """Return the predicted labels."""
        codes = predicted_codes(self.decision_function(X))
        return self.classes_[codes]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags


class FlatUnit(TransformerMixin, BaseEstimator):
    """Flatten the samples, subtract their mean and divide by a scalar, so that one grid of C suits all data.

    After scaling, the mean squared norm is 10. Centring helps the flat method, whose intercept is penalised and whose
    solver is slow if the mean is far from zero. Several views, but those to do ``without``, are put side by side, each
    scaled by itself, and are zero where a sample lacks one.

    If samples have more entries than there are samples, they are replaced by their coordinates in an orthonormal basis
    of the span of the training samples. A linear method with a squared penalty gives the same predictions, since its
    weight is in that span, and each step of its solver costs as if samples had no more entries than that (EEG, 61
    samples of 64x64: a tenth of the time). Some coordinates are always zero: with more columns than rows, LinearSVC
    uses the same solver as for the samples.
    """

    def __init__(self, without: tuple[str, ...] = ()) -> None:
        self.without = without

    def fit(self, X: Any, y: Any = None) -> FlatUnit:
        """Learn the mean, the scale and the span."""
        self.fit_transform(X)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Array:  # computes the centred samples once
        """Learn the mean, the scale and the span, and return the samples as centred and scaled vectors."""
        self.views_ = None  # or mean and scale of each view, by name
        if isinstance(X, Views):
            self.views_ = {name: _mean_and_unit(to_host(X[name])) for name in X.names if name not in self.without}
        flat = self._flat(X)
        self.mean_ = np.mean(flat, axis=0, dtype=np.float64)
        self.n_entries_ = flat.shape[1]
        centred = flat - self.mean_
        spread = float(np.vdot(centred, centred)) / len(centred)
        self.unit_ = np.sqrt(spread / _SQUARE) if spread > 0 and self.views_ is None else 1.0
        self.span_, self.rows_ = None, centred[:0]  # of the training samples
        if len(flat) >= self.n_entries_:
            return centred / self.unit_
        self.span_, self.rows_ = Span.of(centred @ centred.T), centred
        return _filled_up(self.span_.coordinates / self.unit_, len(centred))

    def transform(self, X: Any) -> Array:
        """Return the samples as centred and scaled vectors."""
        centred = self._flat(X) - self.mean_
        if self.span_ is None:
            return centred / self.unit_
        return _filled_up(self.span_.project(centred @ self.rows_.T) / self.unit_, len(self.rows_))

    def _flat(self, X: Any) -> Array:
        if self.views_ is None:
            return np.asarray(X.reshape(len(X), -1))
        views = [(to_host(X[name]), mean, unit) for name, (mean, unit) in self.views_.items()]
        return np.hstack([np.nan_to_num((own.reshape(len(own), -1) - mean) / unit) for own, mean, unit in views])


def _filled_up(coordinates: FloatArray, n_samples: int) -> FloatArray:
    """Return coordinates with so many zeros that there is one more of them than there are training samples."""
    return np.hstack([coordinates, np.zeros((len(coordinates), n_samples + 1 - coordinates.shape[1]))])


def flat_units(gram: FloatArray, cross: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return training and test set as `FlatUnit` gives them, from inner products of views with squared norms of one."""
    span = Span.of(_SQUARE * gram)
    return _filled_up(span.coordinates, len(gram)), _filled_up(span.project(_SQUARE * cross), len(gram))


def _mean_and_unit(array: Array) -> tuple[Array, float]:
    """Return the mean of a view, as a vector, and its scale, of the samples that have it."""
    present = np.delete(array, missing_samples(array), axis=0)
    present = present if len(present) else np.zeros((1, *array.shape[1:]))
    spread = float(np.mean(np.var(present, axis=0, dtype=np.float64))) * present[0].size
    return np.mean(present, axis=0, dtype=np.float64).ravel(), np.sqrt(spread / _SQUARE) or 1.0


@dataclass(frozen=True)
class Contender:
    """An estimator and its hyperparameter grid."""

    name: str
    estimator: Any
    grid: Mapping[str, Sequence[Any]]

    @cached_property
    def candidates(self) -> list[dict[str, Any]]:
        """All combinations of hyperparameters, in the order of scikit-learn's searches."""
        return list(ParameterGrid({name: list(values) for name, values in self.grid.items()}))

    def steps(self, number: int) -> list[Any]:
        """Return the unfitted steps of one candidate, with nested pipelines flattened."""
        values = {name: clone(value, safe=False) for name, value in self.candidates[number].items()}
        return single_steps(clone(self.estimator).set_params(**values))

    def sharing_steps(self) -> list[list[int]]:
        """Return the numbers of the candidates, in groups that differ only in parameters of the last step."""
        prefix, model = "", self.estimator
        while isinstance(model, Pipeline):
            prefix += f"{model.steps[-1][0]}__"
            model = model.steps[-1][1]
        groups = defaultdict(list)
        for number, values in enumerate(self.candidates):
            # Values are the objects in the grid; to compare transformers by their parameters takes much longer.
            before = {name: id(value) for name, value in values.items() if not name.startswith(prefix)}
            groups[tuple(sorted(before.items()))].append(number)
        return list(groups.values())

    def behind(self, *preparations: Any) -> Contender:
        """Return a copy with a transformer in front of the estimator; given several, they are added to the grid.

        ``None`` stands for no transformer.
        """
        if preparations == (None,):
            return self
        steps = ["passthrough" if one is None else one for one in preparations]
        estimator = Pipeline([("preparation", steps[0]), ("method", self.estimator)])
        grid: dict[str, Sequence[Any]] = {f"method__{name}": values for name, values in self.grid.items()}
        return Contender(self.name, estimator, grid | ({"preparation": steps} if len(steps) > 1 else {}))


def single_steps(model: Any) -> list[Any]:
    """Return the steps of a model with nested pipelines flattened, without those that do nothing."""
    return [step for _, step in named_steps([("", model)])]


def contender(name: str, lam_grid: Sequence[float] = LAM_GRID, class_weight: Any = None) -> Contender:
    """Return the contender with this name: a method of the paper, a kernel method, a peer or the majority class.

    ``class_weight`` is used by LinearSVC only.
    """
    if name == "LinearSVC":
        svc = LinearSVC(random_state=0, class_weight=class_weight)
        return Contender(name, Pipeline([("flat", FlatUnit()), ("svc", svc)]), {"svc__C": C_GRID})
    if name == MAJORITY:
        return Contender(name, DummyClassifier(strategy="most_frequent"), {})
    if name == "CP-PLSR":
        return Contender(name, CPPLSClassifier(), {"n_components": COMPONENTS})
    if name in KERNEL_METHODS:
        grid = {"classifier__lam": list(lam_grid), "kernel__gamma_factor": list(GAMMA_FACTORS)}
        return Contender(name, make_method(name, kernel__random_state=0), grid)
    return Contender(name, make_method(name), {"lam": list(lam_grid)})


@dataclass(frozen=True)
class Tuned:
    """An unfitted estimator with its chosen hyperparameters: its own (lambda, C, components) and the preparation.

    ``cut`` says whether there was no time to try all of them on all splits.
    """

    estimator: Any
    values: dict[str, Any]
    cut: bool = False

    @property
    def value(self) -> Any:
        """The chosen value of the estimator's own hyperparameter, None if it has none."""
        return next((value for name, value in self.values.items() if name != "preparation"), None)


def tuned(
    one: Contender, samples: Labelled, folds: int, seed: int, n_jobs: int | None = None, scoring: str = "accuracy"
) -> Tuned:
    """Choose a contender's hyperparameters by cross-validated score; ties go to the first candidate."""
    if len(one.candidates) == 1:
        return choose(one, [])
    return tuned_on_splits(one, samples, splits_of(folds, samples.y, samples.groups, seed), n_jobs, scoring)


def tuned_on_splits(
    one: Contender,
    samples: Labelled,
    splits: Sequence[Split],
    n_jobs: int | None = None,
    scoring: str = "accuracy",
    deadline: Deadline | None = None,
    products: Sequence[Any] | None = None,
) -> Tuned:
    """Choose a contender's hyperparameters on given splits.

    Those that have been tried on the most splits before the ``deadline`` are compared; if there is no split on which
    all have been, the middle of them is used.
    """
    deadline = Deadline.of(deadline)
    scores = candidate_scores(one, samples, splits, n_jobs, scoring, deadline, products)
    if not deadline.limited or np.isfinite(scores).all():
        return choose(one, scores.T)
    if not np.isfinite(scores).all(axis=0).any():
        scores = np.eye(len(one.candidates))[[len(one.candidates) // 2]].T
    return replace(choose(one, scores.T), cut=True)


def choose(one: Contender, scores: Iterable[Array]) -> Tuned:
    """Return the candidate with the best mean score, given its scores on each split; ties go to the first one.

    Those that others have more scores than are not chosen. A contender with a single candidate needs no scores.
    """
    best = 0
    if len(one.candidates) > 1:
        table = np.column_stack(list(scores))
        known = np.isfinite(table)
        counts = known.sum(axis=1)
        means = np.where(known, table, 0.0).sum(axis=1) / np.maximum(counts, 1)
        best = int(np.argmax(np.where((counts == counts.max()) & (counts > 0), means, -np.inf)))
    chosen = one.candidates[best]
    return Tuned(clone(one.estimator).set_params(**chosen), chosen)


def candidate_scores(
    one: Contender,
    samples: Labelled,
    splits: Sequence[Split],
    n_jobs: int | None = None,
    scoring: str = "accuracy",
    deadline: Deadline | None = None,
    products: Sequence[Any] | None = None,
) -> Array:
    """Return the validation scores of a contender's candidates, one row per candidate and one column per split.

    They are those of scikit-learn's GridSearchCV (NaN where a fit fails, an error if all do), but the steps before the
    last one, and whatever else the candidates share, are computed once per split, and metadata are passed when
    predicting, too. Fits of LinearSVC have the tolerance of our searches; choosing C took half of the time of a `fit`
    with 15 classes otherwise. Scores are NaN, too, for fits that are not expected to end before a ``deadline``.
    ``products`` are arguments of `flat_units` for each split, or None, which take the place of those steps.
    """
    time = _Time(Deadline.of(deadline))
    where = nullcontext() if goes_to_cluster() else parallel_config("threading", n_jobs=n_jobs)
    with without_convergence_warnings(), one_blas_thread, where:  # several fits may run at the same time
        given = samples.X, samples.y, samples.metadata  # separate arguments, which a cluster then gets only once
        every = zip(splits, [None] * len(splits) if products is None else products, strict=True)
        columns = Parallel()(delayed(_scores_on_split)(*given, known, one, scoring, time) for known in every)
    return np.column_stack(columns)


@dataclass
class _Time:
    """Whether there is time for another fit, and for the last one, to all samples, which is after it."""

    deadline: Deadline
    costs: Costs = field(default_factory=Costs)

    def is_left(self) -> bool:
        return not self.deadline.limited or self.deadline.allows((1 + _LAST) * self.costs.of("fit"))

    @contextmanager
    def measured(self) -> Iterator[None]:
        began = self.deadline.now()
        yield
        self.costs.add("fit", self.deadline.now() - began)


def _scores_on_split(
    X: Array, y: Array, metadata: Metadata, known: tuple[Split, Any], one: Contender, scoring: str, time: _Time
) -> Array:
    """Return the scores of all candidates on one split, given with its products, or None."""
    (train, test), products = known
    scores, scorer, failures = np.full(len(one.candidates), np.nan), get_scorer(scoring), list[Exception]()
    for numbers in one.sharing_steps():
        if not time.is_left():
            break
        try:
            with time.measured():
                if products is None:
                    front = make_pipeline(*one.steps(numbers[0])[:-1], "passthrough")
                    prepared = fit_transformed(front, X[train], y[train], metadata.rows(train))
                    tested = transformed(front, X[test], metadata.rows(test))
                else:
                    prepared, tested = flat_units(*products)
        except _FAILURES as error:
            failures.append(error)
            continue
        fits = _SharedFits(prepared, y[train])
        for number in numbers:
            if not time.is_left():
                break
            try:
                with time.measured():
                    scores[number] = scorer(fits.of(one.steps(number)[-1]), tested, y[test])
            except _FAILURES as error:
                failures.append(error)
    if failures and np.isnan(scores).all():
        raise failures[-1]
    return scores


class _SharedFits:
    """Fits to one training set, which share their first passes over it if they are ours."""

    def __init__(self, X: Array, y: Array) -> None:
        self._X, self._y = X, y
        self._split: PreparedSplit | None = None

    def of(self, estimator: Any) -> Any:
        """Return the fitted estimator."""
        if isinstance(estimator, LinearSVC):  # candidates of our searches have that tolerance, too
            estimator.set_params(tol=max(estimator.tol, tuning.RACE_TOL))
        if not isinstance(estimator, TensorMarginClassifier):
            return estimator.fit(self._X, self._y)
        estimator._validate_params()
        if self._split is None:
            training, rows = Training(sample_array(self._X), self._y, None, [None]), np.arange(len(self._y))
            self._split = PreparedSplit.of(training, (rows, rows[:0]), 0, estimator)
        return self._split.fit_with(estimator.get_params(deep=False))
