"""The classifier: scikit-learn's anatomy around `tensormargin.alternate`."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array, check_random_state, compute_class_weight
from sklearn.utils._param_validation import Interval, Options, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from .._namespace import beside, dtype_of, is_foreign, is_lazy, like, to_host
from .._typing import Array
from .._validation import checked_training, same_library, samples_as_fitted
from ..alternate import Fit
from ..formats import FORMATS
from ..samples import working_dtype
from ._binary import BinarySettings, LastFit, NotFiniteError, Problem
from ._engine import PLACES, fit_problems
from ._multiclass import binary_tasks, combine_scores, predicted_codes
from ._outputs import AccuracyMixin, by_chunk, labels_at, linear_scores
from ._scale import parse_strength

_LARGE = 2**24


@dataclass(frozen=True)
class Plan:
    """The classes of a fit and its binary problems."""

    classes: Array
    problems: list[Problem]


class TensorMarginClassifier(AccuracyMixin, BaseEstimator):
    """Large margin distribution classifier with a low-rank weight tensor.

    Learns ``sign(<W, Z> + b)`` for tensor samples Z by minimising (the paper's Eq. 7)

        1/2 ||W||^2 + mu1 Var(m) - mu2 Mean(m) + lam Mean(max(0, 1 - m)),    m_i = t_i (<W, Z_i> + b),

    over weights W of a given decomposition and rank. All seven methods of the paper are settings of this one
    (`tensormargin.make_method`).

    Parameters
    ----------
    decomposition : {"full", "cp", "tucker", "tt"}, default="tucker"
        How W is written: without structure, as a sum of rank-one tensors, as Tucker, or as a Tensor-Train.
    rank : int, tuple of int or None, default=None
        CP: the number of components. Tucker: one number a mode, an int for all alike. Tensor-Train: one number a bond
        (M - 1 of them), an int for all alike. None: 2 components for CP; 4 for each mode or bond, or the largest valid
        number below. Must be None for "full".
    lam : float or str, default="scale"
        Weight of the hinge loss. ``"scale"`` chooses it by the samples' scale: with ``s2`` the mean squared norm of
        the centred samples (without intercept: of the samples), Eq. 7 is solved with ``300 / s2``, ``100 mu1 / s2`` and
        ``100 mu2 / s2``, so that X and 1000 X give the same predictions. ``"0.1*scale"`` and the like multiply the 300.
        With a number, ``lam``, ``mu1`` and ``mu2`` are the paper's, on the data as they come.
    mu1, mu2 : float, default=1.0
        Weights of margin variance and margin mean; both 0 give the support vector (tensor) machine.
    fit_intercept : bool, default=True
        Whether to fit b. The samples are then centred, which costs no copy, and b enters every block as one more
        coordinate, so it is updated with each. It is penalised by ``1/2 b'^2 / s2`` where b' is the intercept for
        centred samples, so adding the same tensor to all samples changes nothing but rounding.
    init : {"mean", "random"}, default="mean"
        Start: truncated SVDs of the difference between the class means, or random factors.
    n_init : int, default=1
        Number of starts, the second and further ones random; the lowest objective is kept.
    tol : float, default=1e-3
        Stop when W changes by at most this over a sweep, relatively (Eq. 15), or the objective, by the way it has been
        falling, has at most half of it left to fall; every block is then solved to a relative duality gap of a tenth of
        it. Below 5e-4 large float64 samples are contracted in float64 instead of float32.
    max_iter : int, default=100
        Most sweeps over all blocks.
    class_weight : dict, "balanced" or None, default=None
        Factors on the sample weights, as in scikit-learn.
    multi_class : {"ovo", "ovr"}, default="ovo"
        One problem for every pair of classes (the paper's way), or for every class against the rest.
    n_jobs : int or None, default=None
        Binary problems fitted at the same time, in threads that share the samples. One at a time (None or 1), large
        samples are shared out between as many threads as BLAS may use.
    solver : {"auto", "host", "device"}, default="auto"
        Where blocks are solved when X lies on a device (a PyTorch or CuPy array): one after the other by coordinate
        descent here, or all binary problems and starts as one batch by an interior-point method there. "auto" takes the
        device where that is faster (docs/gpu.md has the measurements). Samples in memory are always solved here.
    warm_start : bool, default=False
        Start from the weights of the last fit where classes, sample shape, decomposition and rank are the same.
    random_state : int, RandomState or None, default=None
        For random starts. The default start uses no random numbers unless the CP rank exceeds a mode's size.
    verbose : int, default=0
        1 prints a line for each sweep of each binary problem.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    weight_ : TensorLy CPTensor, TuckerTensor or TTTensor, or ndarray; a list of them for several binary problems
        Pairs come in the order (0, 1), (0, 2), ..., (1, 2), ...; positive scores speak for the later class.
    coef_ : ndarray of shape (n_problems, I_1, ..., I_M)
        The same weights as dense tensors.
    intercept_ : ndarray of shape (n_problems,)
    n_iter_ : int
        Sweeps, the largest number over the binary problems.
    history_ : dict, or a list of dicts for several binary problems
        "objective" (after each sweep), "block_objective" and "gap" (sweeps x blocks), "change" (Eq. 15), "seconds",
        and "blocks" (their names).
    objective_ : ndarray of shape (n_problems,)
        Final values of Eq. 7, with the penalty of the intercept.
    n_parameters_ : int
        Numbers stored for one binary problem: the entries of the decomposition, and the intercept.
    sample_shape_ : tuple of int
    multi_class_ : str
        The scheme of the binary problems.
    n_features_in_ : int
        Size of the first mode, as scikit-learn counts it.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from tensormargin import TensorMarginClassifier
    >>> images, labels = load_digits(n_class=2, return_X_y=True)
    >>> clf = TensorMarginClassifier("cp", rank=1).fit(images.reshape(-1, 8, 8), labels)
    >>> clf.weight_.rank
    1
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "decomposition": [StrOptions(set(FORMATS))],
        "rank": [Interval(Integral, 1, None, closed="left"), tuple, list, None],
        "lam": [str, Interval(Real, 0, None, closed="neither")],
        "mu1": [Interval(Real, 0, None, closed="left")],
        "mu2": [Interval(Real, 0, None, closed="left")],
        "fit_intercept": ["boolean"],
        "init": [StrOptions({"mean", "random"})],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "class_weight": [dict, Options(str, {"balanced"}), None],
        "multi_class": [StrOptions({"ovo", "ovr"})],
        "n_jobs": [Integral, None],
        "solver": [StrOptions(set(PLACES))],
        "warm_start": ["boolean"],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        decomposition: str = "tucker",
        rank: int | tuple[int, ...] | None = None,
        lam: float | str = "scale",
        mu1: float = 1.0,
        mu2: float = 1.0,
        fit_intercept: bool = True,
        init: str = "mean",
        n_init: int = 1,
        tol: float = 1e-3,
        max_iter: int = 100,
        class_weight: dict[Any, float] | str | None = None,
        multi_class: str = "ovo",
        n_jobs: int | None = None,
        solver: str = "auto",
        warm_start: bool = False,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.decomposition = decomposition
        self.rank = rank
        self.lam = lam
        self.mu1 = mu1
        self.mu2 = mu2
        self.fit_intercept = fit_intercept
        self.init = init
        self.n_init = n_init
        self.tol = tol
        self.max_iter = max_iter
        self.class_weight = class_weight
        self.multi_class = multi_class
        self.n_jobs = n_jobs
        self.solver = solver
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the classifier.

        Parameters
        ----------
        X : array-like of shape (n_samples, I_1, ..., I_M)
            Samples of any order M >= 1, read-only and memory-mapped ones included. float32 is used as it lies. Other
            types are converted once to a working copy (float32 for large samples or types that it holds exactly), or
            piece by piece where that copy would be larger than the samples; a full weight needs it whole.
        y : array-like of shape (n_samples,)
            Labels of two or more classes.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative; an integer weight equals that many copies of the sample.
        """
        X, labels, weights = self._checked(X, y, sample_weight)
        plan = self._plan(tuple(X.shape[1:]), labels, weights)
        try:
            fits = fit_problems(X, plan.problems, self.n_jobs, self.solver)
        except NotFiniteError:
            reject_not_finite(self, X)
            raise
        return self._finish(plan, fits, X, y)

    def decision_function(self, X: Any) -> Any:
        """Return scores: one for each sample (two classes) or one for each sample and class.

        With more than two classes and "ovo" they count votes, ties decided by the summed scores, as in scikit-learn's
        ``SVC(break_ties=True)``; with "ovr" they are the scores of each class against the rest.
        """
        X = self._as_fitted(X, "decision_function")
        if is_lazy(X):
            return by_chunk(self, "decision_function", X)
        scores = linear_scores(X, self.coef_, self.intercept_)
        return combine_scores(scores, self.classes_.shape[0], self.multi_class_)

    def binary_scores(self, X: Any) -> Any:
        """Return ``<W, Z> + b`` for every sample and binary problem, an array of shape (n_samples, n_problems)."""
        X = self._as_fitted(X, "binary_scores")
        return by_chunk(self, "binary_scores", X) if is_lazy(X) else linear_scores(X, self.coef_, self.intercept_)

    def predict(self, X: Any) -> Any:
        """Return the predicted labels; ties, such as a score of exactly 0, go to the earlier class in ``classes_``."""
        X = self._as_fitted(X, "predict")
        if is_lazy(X):
            return by_chunk(self, "predict", X)
        return labels_at(self.classes_, predicted_codes(self.decision_function(X)))

    def _as_fitted(self, X: Any, method: str) -> Any:
        check_is_fitted(self)
        same_library(self, X, "coef_", method)
        return samples_as_fitted(self, X, self.sample_shape_)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "coef_")  # a failed fit leaves other attributes behind

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.array_api_support = True
        return tags

    def _checked(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Array, Array]:
        """Return samples, labels, and weights of any sum; raise before any work is done."""
        # The first pass of a fit notices NaN as well; looking for it before would read large samples once more. (It
        # does not read samples of weight zero.)
        look_for_nan = getattr(X, "nbytes", 0) < _LARGE or sample_weight is not None
        X, labels = checked_training(self, X, y, finite=look_for_nan)
        _reject_empty(tuple(X.shape[1:]))
        check_classification_targets(labels)
        sample_weight = to_host(sample_weight) if is_foreign(sample_weight) or is_lazy(sample_weight) else sample_weight
        weights = _check_sample_weight(sample_weight, labels, dtype=np.float64, ensure_non_negative=True)
        weights = weights / (weights.max() or 1.0)  # any common factor is the same; a huge one would overflow the sum
        return X if is_lazy(X) or is_foreign(X) else _contiguous(X), labels, weights

    def _plan(self, shape: tuple[int, ...], labels: Array, weights: Array, rows: Array | None = None) -> Plan:
        """Return the binary problems of labelled samples of this shape, which may be some rows of an array."""
        classes, codes = np.unique(labels, return_inverse=True)
        counts = np.bincount(codes, weights=weights > 0, minlength=len(classes))
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
        weights = weights * self._class_weights(classes, codes, weights)[codes]
        settings = self._binary_settings(shape)
        tasks = binary_tasks(codes, len(classes), self.multi_class)
        lasts = self._warm_starts(shape, classes, settings.rank, len(tasks))
        seeds = check_random_state(self.random_state).randint(np.iinfo(np.int32).max, size=len(tasks))
        problems = [
            Problem.of(task, weights, settings, last, seed)
            for task, last, seed in zip(tasks, lasts, seeds, strict=True)
        ]
        return Plan(classes, problems if rows is None else [problem.within(rows) for problem in problems])

    def _class_weights(self, classes: Array, codes: Array, weights: Array) -> Array:
        """Return one factor a class; "balanced" counts weighted samples, so that a weight of 2 equals two samples."""
        if self.class_weight == "balanced":
            return weights.sum() / (len(classes) * np.bincount(codes, weights=weights))
        factors = compute_class_weight(self.class_weight, classes=classes, y=classes[codes])
        _reject_weightless(classes, factors)
        return factors

    def _binary_settings(self, shape: tuple[int, ...]) -> BinarySettings:
        rank = tuple(self.rank) if isinstance(self.rank, list) else self.rank
        return BinarySettings(
            format=FORMATS[self.decomposition],
            rank=FORMATS[self.decomposition].valid_rank(rank, shape),
            strength=parse_strength(self.lam, self.mu1, self.mu2),
            fit_intercept=self.fit_intercept,
            init=self.init,
            n_init=self.n_init,
            tol=self.tol,
            max_iter=self.max_iter,
            verbose=self.verbose,
        )

    def _warm_starts(self, shape: tuple[int, ...], classes: Array, rank: Any, n_tasks: int) -> Sequence[LastFit | None]:
        """Return the last fit where it fits the problem at hand, otherwise None for each binary problem."""
        cold = [None] * n_tasks
        if not (self.warm_start and hasattr(self, "weight_")):
            return cold
        before, now = (self.sample_shape_, self.multi_class_), (shape, self.multi_class)
        if before != now or not np.array_equal(to_host(self.classes_), classes):
            return cold
        form, stored = FORMATS[self.decomposition], self.weight_ if isinstance(self.weight_, list) else [self.weight_]
        stored = [to_host(weight) if is_foreign(weight) else weight for weight in stored]
        if not all(form.wrote(weight) for weight in stored):
            return cold
        starts = [form.from_tensorly(weight, shape) for weight in stored]
        if any(start.rank != rank for start in starts):
            return cold
        return [LastFit(start, float(b)) for start, b in zip(starts, to_host(self.intercept_), strict=True)]

    def _finish(self, plan: Plan, fits: list[Fit], X: Any, y: Any) -> Self:
        """Keep what was fitted, in the library and on the device of X (labels: of y)."""
        dtype = working_dtype(dtype_of(X))
        self.classes_ = like(plan.classes, y) if is_foreign(y) else plan.classes
        self.sample_shape_ = tuple(X.shape[1:])
        self.multi_class_ = self.multi_class
        weights = [_at_home(fit.weight.to_tensorly(dtype), X) for fit in fits]
        histories = [_history(fit) for fit in fits]
        one = len(fits) == 1
        self.weight_ = weights[0] if one else weights
        self.history_ = histories[0] if one else histories
        coef = np.stack([fit.weight.to_dense() for fit in fits]).astype(dtype)
        intercept = np.array([fit.intercept for fit in fits], dtype)
        objective = np.array([fit.objective for fit in fits])
        self.coef_, self.intercept_, self.objective_ = (_at_home(part, X) for part in (coef, intercept, objective))
        self.n_parameters_ = fits[0].weight.n_parameters + int(self.fit_intercept)
        self.n_iter_ = max(len(fit.sweeps) for fit in fits)
        unfinished = [fit for fit in fits if not fit.converged]
        if unfinished:
            last = max((fit.sweeps[-1] for fit in unfinished), key=lambda sweep: sweep.change)
            warnings.warn(
                f"{len(unfinished)} of {len(fits)} binary problems did not converge to tol={self.tol:g} in "
                f"max_iter={self.max_iter} sweeps: the last sweep changed the weight by {last.change:.1e} (relative) "
                f"and left a duality gap of {max(last.gaps):.1e}. Increase max_iter or tol, lower lam, or scale X "
                "(or, for large float64 samples, set tol below 5e-4 to compute in float64)",
                ConvergenceWarning,
                stacklevel=4,  # the caller of fit, past scikit-learn's wrapper
            )
        return self


def _history(fit: Fit) -> dict[str, Any]:
    return {
        "objective": np.array([sweep.objectives[-1] for sweep in fit.sweeps]),
        "block_objective": np.array([sweep.objectives for sweep in fit.sweeps]),
        "gap": np.array([sweep.gaps for sweep in fit.sweeps]),
        "change": np.array([sweep.change for sweep in fit.sweeps]),
        "seconds": np.array([sweep.seconds for sweep in fit.sweeps]),
        "blocks": list(fit.weight.block_names),
    }


def _contiguous(X: Array) -> Array:
    """Return X with every sample contiguous in memory; copies only an array that is not in C order."""
    return X if X.flags.c_contiguous else np.ascontiguousarray(X)


def _at_home(array: Any, X: Any) -> Any:
    """Return an array in the library and on the device of X; TensorLy's containers stay NumPy's."""
    return beside(array, X) if is_foreign(X) and isinstance(array, np.ndarray) else array


def reject_not_finite(estimator: Any, X: Any) -> None:
    """Raise ValueError where X holds NaN or infinity, in scikit-learn's words."""
    if is_lazy(X) or is_foreign(X):
        raise ValueError(
            "Input X contains NaN or infinity, or numbers so large that their squares overflow its type; leave such "
            "samples out, impute such entries, or (large numbers) divide X by a constant"
        )
    check_array(X, dtype="numeric", allow_nd=True, estimator=estimator, input_name="X")


def _reject_empty(shape: tuple[int, ...]) -> None:
    if 0 in shape:
        raise ValueError(f"every mode of a sample needs at least one entry; got samples of shape {shape}")


def _reject_weightless(classes: Array, class_weights: Array) -> None:
    bad = ~(np.isfinite(class_weights) & (class_weights > 0))
    if np.any(bad):
        raise ValueError(
            f"class_weight must be positive and finite for every class; got {class_weights[bad].tolist()} for "
            f"{classes[bad].tolist()}. To ignore a class, leave its samples out"
        )
