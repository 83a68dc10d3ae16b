"""Comparison of methods on one data set, all tuned in the same way on training data only."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import nan
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from joblib import delayed, effective_n_jobs
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import ConvergenceWarning

from ..data import NO_METADATA, Checkpoint, Metadata, Units, check_classes, run_units, units_of
from ..estimators import KERNEL_METHODS, METHODS, TensorMarginClassifier, check_methods
from ..inspection import MarginReport, check_metadata_for, fit_model, margin_report, predicted_labels
from ..runtime import Array, Progress, WorkMeter
from ..selection import Split, splits_of
from ..transformers import UnseenCategoryWarning
from . import contenders
from .contenders import LAM_GRID, MAJORITY, PEERS, Contender, FlatUnit, Tuned, single_steps
from .held_out import Labelled


@dataclass(frozen=True)
class CompareSettings:
    """Settings of a comparison.

    Attributes
    ----------
    methods : sequence of str
        Names from `tensormargin.METHODS` and `tensormargin.KERNEL_METHODS`, and "LinearSVC" (scikit-learn) and
        "CP-PLSR" (TensorLy). Kernel methods are tuned over the width of the kernel as well as over ``lam``.
    repeats : int
        Number of train-test splits: folds of a stratified cross-validation, which keep groups together if there are
        any. After each fold was a test set once, new folds are drawn.
    test_size : float
        Proportion of the samples in the test set: there are ``round(1 / test_size)`` folds, at least two.
    lam_grid : sequence
        Candidate values of ``lam``, the same for all methods of the paper.
    folds : int
        Number of cross-validation folds of the training set, used to choose ``lam``.
    seed : int
        Seed of the splits.
    preparation : transformer, optional
        Transformer applied before every method, fitted on each training set.
    against : str, optional
        Method that all others are compared with, by default the first one. Choose it before you see the scores.

    Examples
    --------
    >>> from tensormargin.evaluation import CompareSettings
    >>> settings = CompareSettings(methods=("SVM", "SPMD-LRT"), repeats=3)
    >>> settings.lam_grid, settings.folds
    ((0.01, 0.1, 1.0, 10.0), 3)
    """

    methods: Sequence[str] = tuple(METHODS)
    repeats: int = 8
    test_size: float = 0.25
    lam_grid: Sequence[float] = LAM_GRID
    folds: int = 3
    seed: int = 0
    preparation: Any = None
    against: str | None = None

    @property
    def reference(self) -> str:
        """The method that all others are compared with."""
        return self.entries[0] if self.against is None else self.against

    @property
    def entries(self) -> tuple[str, ...]:
        """The methods, followed by the majority-class baseline."""
        return (*(name for name in self.methods if name != MAJORITY), MAJORITY)


@dataclass(frozen=True)
class CompareRow:
    """One method on one split.

    ``fit_seconds`` is the time of one fit with the chosen ``lam`` (for a peer, its own hyperparameter).
    ``margin_mean`` and ``margin_variance`` are computed on the test set and averaged over the binary problems; NaN for
    peers. ``n_parameters`` refers to one binary problem (for a peer, its own count). ``test`` holds the row indices of
    the test set, ``predicted`` what each was taken for, and ``right`` whether that is correct.

    Examples
    --------
    >>> from dataclasses import fields
    >>> from tensormargin.evaluation import CompareRow
    >>> [field.name for field in fields(CompareRow)][:6]
    ['method', 'repeat', 'seed', 'accuracy', 'fit_seconds', 'lam']
    """

    method: str
    repeat: int
    seed: int
    accuracy: float
    fit_seconds: float
    lam: float | None
    n_parameters: int
    margin_mean: float
    margin_variance: float
    n_train: int
    n_test: int
    converged: bool
    test: Array = field(repr=False, compare=False)
    right: Array = field(repr=False, compare=False)
    predicted: Array | None = field(default=None, repr=False, compare=False)


def compare(
    X: Any,
    y: Any,
    settings: CompareSettings,
    n_jobs: int | None = None,
    groups: Any = None,
    progress: Progress | None = None,
    checkpoint: Checkpoint | None = None,
    confounds: Any = None,
) -> Iterator[CompareRow]:
    """Return an iterator over one row per method and split, in order of completion.

    The majority class is included (`CompareSettings.entries`). Labels or settings that rule out a comparison raise
    ValueError immediately.

    Parameters
    ----------
    X, y, groups, confounds
        See `nested_evaluation`.
    settings : CompareSettings
    n_jobs : int, optional
        Number of processes.
    progress : callable, optional
        Called as ``progress(done, total, text)``. ``done`` and ``total`` are seconds, predicted from the fits that are
        finished; ``total`` is 0 until there is one of each method.
    checkpoint : Checkpoint, optional
        Keeps finished fits, so that an interrupted comparison can be resumed.

    Examples
    --------
    >>> from tensormargin.datasets import make_low_rank_classes
    >>> from tensormargin.evaluation import CompareSettings, compare
    >>> data = make_low_rank_classes(60, (6, 7), rank=1, random_state=0)
    >>> settings = CompareSettings(methods=("SVM", "STM"), repeats=2, lam_grid=(1.0,))
    >>> rows = list(compare(data.data, data.target, settings))
    >>> sorted({row.method for row in rows}), len(rows)
    (['STM', 'SVM', 'majority class'], 6)
    """
    check_methods(settings.methods, (*METHODS, *KERNEL_METHODS, *PEERS, MAJORITY))
    if settings.reference not in settings.entries:
        raise ValueError(
            f"against must be one of the compared methods, {', '.join(settings.entries)}; got {settings.against!r}"
        )
    samples = Labelled.checked(settings.preparation, X, y, groups, confounds, views=False)
    check_metadata_for("compare", settings.preparation, samples.metadata)
    samples.warn_of_leakage()
    splits = comparison_splits(samples.y, settings, samples.groups)
    return _Comparison(samples, splits, settings).rows(n_jobs, progress, checkpoint)


@dataclass(frozen=True)
class _Comparison:
    """The jobs of a comparison: every method's candidates on each fold, then the fits with the best ones."""

    samples: Labelled
    splits: Sequence[Split]
    settings: CompareSettings

    def rows(
        self, n_jobs: int | None, progress: Progress | None, checkpoint: Checkpoint | None
    ) -> Iterator[CompareRow]:
        """Yield one row per method and split."""
        meter, workers = WorkMeter(self._n_fits()), effective_n_jobs(n_jobs)

        def tell(text: str) -> None:
            if progress is not None:
                done, total = (seconds / workers for seconds in meter.seconds)
                progress(done, total, f"{meter.done} of {meter.fits} fits{text}")

        with units_of(checkpoint, "compare", *self.samples.content, self.settings) as units:
            before = set(units)
            for key in before:
                meter.add(*_work(key, units[key]))
            tell("")
            for key, found in self._results(units, n_jobs):
                if key not in before:
                    meter.add(*_work(key, found))
                    tell(f", {key.split('/')[1]}")
                if "scores" not in found:
                    yield CompareRow(**{name: value for name, value in found.items() if name != "seconds"})

    @cached_property
    def _methods(self) -> dict[str, Contender]:
        settings = self.settings
        return {
            name: contenders.contender(name, settings.lam_grid).behind(settings.preparation)
            for name in settings.entries
        }

    @cached_property
    def _folds(self) -> list[list[Split]]:
        """The folds of each split's training set, as positions in the training set."""
        y, groups, settings = self.samples.y, self.samples.groups, self.settings
        own = [(y[train], None if groups is None else groups[train]) for train, _ in self.splits]
        return [splits_of(settings.folds, *one, settings.seed) for one in own]

    @property
    def _arrays(self) -> tuple[Array, Array, Metadata]:
        """The samples as separate arguments of jobs, which a cluster then gets only once."""
        return self.samples.X, self.samples.y, self.samples.metadata

    def _n_fits(self) -> dict[str, int]:
        """Return the number of fits of each method."""
        n_folds = sum(map(len, self._folds))
        return {
            name: len(self.splits) + len(one.candidates) * n_folds * (len(one.candidates) > 1)
            for name, one in self._methods.items()
        }

    def _results(self, units: Units, n_jobs: int | None) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the key and the result of all jobs, in order of completion."""
        scores: dict[tuple[str, int], dict[int, Array]] = defaultdict(dict)
        for key, found in run_units(self._fitting_jobs(False, {}) | self._tuning_jobs(), units, n_jobs):
            if "scores" in found:
                _, name, repeat, fold = key.split("/")
                scores[name, int(repeat)][int(fold)] = found["scores"]
            yield key, found
        yield from run_units(self._fitting_jobs(True, scores), units, n_jobs)

    def _tuning_jobs(self) -> dict[str, Any]:
        """Return the jobs that score a method's candidates on one fold; the first ones are of different methods."""
        return {
            f"tuning/{name}/{repeat}/{fold}": delayed(_fold_scores)(*self._arrays, train, split, one)
            for repeat, (train, _) in enumerate(self.splits)
            for fold, split in enumerate(self._folds[repeat])
            for name, one in self._methods.items()
            if len(one.candidates) > 1
        }

    def _fitting_jobs(
        self, after_tuning: bool, scores: Mapping[tuple[str, int], Mapping[int, Array]]
    ) -> dict[str, Any]:
        """Return the jobs that fit methods on the training sets and test them: those that are tuned, or the others."""
        jobs = {}
        for repeat, (train, test) in enumerate(self.splits):
            for name, one in self._methods.items():
                if (len(one.candidates) > 1) == after_tuning:
                    of_folds = [values for _, values in sorted(scores[name, repeat].items())] if after_tuning else []
                    row = {"method": name, "repeat": repeat, "seed": self.settings.seed}
                    job = delayed(_row)(*self._arrays, (train, test), contenders.choose(one, of_folds), row)
                    jobs[f"row/{name}/{repeat}"] = job
        return jobs


def _work(key: str, found: Mapping[str, Any]) -> tuple[str, int, float]:
    """Return the method of a finished job, its number of fits, and the time that it took."""
    return key.split("/")[1], len(found.get("scores", (None,))), found["seconds"]


def comparison_splits(y: Array, settings: CompareSettings, groups: Array | None) -> list[Split]:
    """Return the train-test splits, or raise ValueError if there are none.

    They are the folds of repeated stratified cross-validations, so that each sample is tested equally often.
    """
    check_classes(y, in_folds=True)
    if groups is None:
        _check_comparable(y, settings)
    folds = max(2, round(1 / settings.test_size))
    splits: list[Split] = []
    for shuffle in range(settings.repeats):
        if len(splits) < settings.repeats:
            splits += splits_of(folds, y, groups, settings.seed + shuffle)
    splits = splits[: settings.repeats]
    if groups is not None:
        for train, _ in splits:
            splits_of(settings.folds, y[train], groups[train], settings.seed)  # raises if lambda cannot be chosen
    return splits


def _check_comparable(y: Array, settings: CompareSettings) -> None:
    """Raise ValueError for labels or settings that rule out a comparison."""
    labels, counts = np.unique(y, return_counts=True)
    if len(labels) < 2:
        raise ValueError(f"a comparison needs at least two classes; all labels are {labels.tolist()}")
    smallest, rarest = int(counts.min()), labels.tolist()[counts.argmin()]
    in_training = smallest - int(np.ceil(smallest * settings.test_size))
    if in_training < settings.folds:
        raise ValueError(
            f"class {rarest!r} has {smallest} samples, so a training set of {1 - settings.test_size:.0%} has about "
            f"{in_training}; {settings.folds}-fold cross-validation needs {settings.folds} of each class. Use fewer "
            "folds, a smaller test set, or more samples"
        )
    if int(smallest * settings.test_size) < 1:
        raise ValueError(
            f"class {rarest!r} has {smallest} samples, so a test set of {settings.test_size:.1%} may hold none of "
            f"them; use a test set of at least {1 / smallest:.0%}"
        )


def _fold_scores(X: Array, y: Array, metadata: Metadata, train: Array, split: Split, one: Contender) -> dict[str, Any]:
    """Return the scores of a method's candidates on one fold of a training set, and the time that they took."""
    began = perf_counter()
    with warnings.catch_warnings(action="ignore", category=UnseenCategoryWarning):
        scores = contenders.candidate_scores(one, Labelled(X, y, metadata).rows(train), [split])
    return {"scores": scores[:, 0], "seconds": perf_counter() - began}


def _row(X: Array, y: Array, metadata: Metadata, split: Split, chosen: Tuned, row: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a `CompareRow`, and the time that all of it took."""
    began = perf_counter()
    train, test = map(Labelled(X, y, metadata).rows, split)
    fit = timed_fit(chosen.estimator, train.X, train.y, train.metadata)
    with warnings.catch_warnings(action="ignore", category=UnseenCategoryWarning):
        mean, variance, n_parameters = _margins_and_size(fit.classifier, test)
        predicted = np.asarray(predicted_labels(fit.classifier, test.X, test.metadata))
    right = predicted == test.y
    return {
        **row,
        "accuracy": float(right.mean()),
        "fit_seconds": fit.seconds,
        "lam": chosen.value,
        "n_parameters": n_parameters,
        "margin_mean": mean,
        "margin_variance": variance,
        "n_train": len(train.y),
        "n_test": len(test.y),
        "converged": fit.converged,
        "test": split[1],
        "right": right,
        "predicted": predicted,
        "seconds": perf_counter() - began,
    }


def _margins_and_size(model: Any, test: Labelled) -> tuple[float, float, int]:
    """Return the mean and variance of the test margins, averaged over binary problems, and the parameter count.

    Of a peer the count is its own ``n_parameters_``, or that of one binary problem.
    """
    *front, last = single_steps(model)
    if isinstance(last, TensorMarginClassifier):
        reports = margin_report(model, test.X, test.y, groups=test.groups, confounds=test.metadata.confounds)
        margins = [reports] if isinstance(reports, MarginReport) else reports
        mean, variance = (float(np.mean([getattr(one, name) for one in margins])) for name in ("mean", "variance"))
        return mean, variance, last.n_parameters_
    if isinstance(last, DummyClassifier) or hasattr(last, "n_parameters_"):
        return nan, nan, int(getattr(last, "n_parameters_", 0))
    return nan, nan, int(front[-1].n_entries_ if isinstance(front[-1], FlatUnit) else last.coef_[0].size) + 1


class TimedFit(NamedTuple):
    """A fitted classifier, how long its fit took, and whether it converged."""

    classifier: Any
    seconds: float
    converged: bool


def timed_fit(classifier: Any, X: Array, y: Array, metadata: Metadata = NO_METADATA) -> TimedFit:
    """Fit a classifier and time it; a ConvergenceWarning is recorded in the result instead of being shown."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        began = perf_counter()
        fit_model(classifier, X, y, metadata)
        seconds = perf_counter() - began
    others = [item for item in caught if not issubclass(item.category, ConvergenceWarning)]
    for item in others:
        warnings.warn_explicit(item.message, item.category, item.filename, item.lineno)
    return TimedFit(classifier, seconds, len(others) == len(caught))
