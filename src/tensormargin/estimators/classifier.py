"""The classifier: scikit-learn's anatomy around `tensormargin.alternate`."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, _fit_context
from sklearn.utils._param_validation import Interval, Options, StrOptions
from sklearn.utils.validation import check_is_fitted

from .._namespace import to_host
from .._validation import same_library, samples_as_fitted
from ..formats import FORMATS
from ..multiclass import combine_scores, predicted_codes, problem_classes
from ..samples import SampleArray, labels_at, sample_array
from .accuracy import AccuracyMixin
from .binary_fit import NotFiniteError
from .engine import PLACES, fit_specs
from .fit_steps import keep, specify, training_set


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
        CP: the number of components. Tucker: one number per mode. Tensor-Train: one number per bond (M - 1 of them). An
        int means the same for all modes or bonds. None: 2 components for CP; 4 for each mode or bond, or the largest
        valid number below. Must be None for "full".
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
    problems_ : list of (negative, positive)
        The two classes of each row of ``coef_``: positive scores speak for the second. With "ovr" and more than two
        classes the first is ``"rest"``.
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
        training = training_set(self, X, y, sample_weight)
        array = training.array
        spec = specify(self, array.sample_shape, training.labels, training.weights)
        try:
            fits = fit_specs(array, spec.fits, self.n_jobs, self.solver)
        except NotFiniteError:
            array.reject_not_finite(self)
            raise
        fitted: Self = keep(self, spec, fits, array, y)
        return fitted

    def decision_function(self, X: Any) -> Any:
        """Return scores: one for each sample (two classes) or one for each sample and class.

        With more than two classes and "ovo" they count votes, ties decided by the summed scores, as in scikit-learn's
        ``SVC(break_ties=True)``; with "ovr" they are the scores of each class against the rest.
        """
        array = self._as_fitted(X, "decision_function")
        return array.answer(self, "decision_function", lambda: self._decisions(array))

    def binary_scores(self, X: Any) -> Any:
        """Return ``<W, Z> + b`` for every sample and binary problem, an array of shape (n_samples, n_problems)."""
        array = self._as_fitted(X, "binary_scores")
        return array.answer(self, "binary_scores", lambda: array.scores(self.coef_, self.intercept_))

    def predict(self, X: Any) -> Any:
        """Return the predicted labels; ties, such as a score of exactly 0, go to the earlier class in ``classes_``."""
        array = self._as_fitted(X, "predict")
        return array.answer(self, "predict", lambda: labels_at(self.classes_, predicted_codes(self._decisions(array))))

    @property
    def problems_(self) -> list[tuple[Any, Any]]:
        """The (negative, positive) class of each binary problem, one per row of ``coef_``."""
        check_is_fitted(self)
        return problem_classes(to_host(self.classes_), self.multi_class_)

    def _decisions(self, array: SampleArray) -> Any:
        return combine_scores(array.scores(self.coef_, self.intercept_), self.classes_.shape[0], self.multi_class_)

    def _as_fitted(self, X: Any, method: str) -> SampleArray:
        check_is_fitted(self)
        same_library(self, X, "coef_", method)
        return sample_array(samples_as_fitted(self, X, self.sample_shape_))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "coef_")  # a failed fit leaves other attributes behind

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.array_api_support = True
        return tags
