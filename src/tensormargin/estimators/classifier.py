"""The classifier, a scikit-learn estimator, and what it has in common with the search."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from numbers import Integral, Real
from types import MethodType
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context, clone
from sklearn.metrics import accuracy_score
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, Options, StrOptions, validate_parameter_constraints
from sklearn.utils.validation import check_is_fitted

from ..data import (
    SCALE_SEEN,
    SEEN,
    check_scale,
    checked_groups,
    content_ranks,
    fitted,
    map_picture,
    same_library,
    samples_as_fitted,
    scale_of_fit,
    seen_fits,
    unit_in,
)
from ..fitting import (
    FORMATS,
    SampleArray,
    calibrate,
    class_probabilities,
    combine_scores,
    count_problems,
    labels_at,
    logarithms,
    predicted_codes,
    problem_classes,
    sample_array,
)
from ..runtime import Array, FloatArray, rows_of, to_host
from .engine import PLACES
from .fit_steps import ToFit, TrainingSet, fit_all, fit_training_set, training_set, without_convergence_warnings
from .weight_layout import weights_fit

_FOLDS = 5  # on which probabilities are calibrated
_PER_PROBLEM, _PER_SWEEP = fitted.floats("_n_problems"), fitted.floats(None, finite=False)
_WEIGHT = fitted.instance("CPTensor", "TuckerTensor", "TTTensor") | fitted.floats(...)
_WEIGHTS = _WEIGHT | fitted.list_of(_WEIGHT, "_n_problems")
_RANK = fitted.whole(1) | fitted.list_of(fitted.whole(1), kind=tuple) | None
_HISTORY = fitted.map_of(fitted.plain, objective=_PER_SWEEP, gap=fitted.floats(None, None, finite=False))


class AccuracyMixin(ClassifierMixin):
    """Mixin whose ``score`` accepts predictions of any array library; those in a Dask array are computed."""

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy of the predictions for X."""
        return self._accuracy_of(self.predict(X), y, sample_weight)

    @staticmethod
    def _accuracy_of(predicted: Any, y: Any, sample_weight: Any) -> float:
        weights = None if sample_weight is None else to_host(sample_weight)
        return float(accuracy_score(to_host(y), to_host(predicted), sample_weight=weights))


class NotebookMixin:
    """Adds the validation score of a search and a small picture of the weight to scikit-learn's HTML."""

    def _repr_html_inner(self) -> str:
        return super()._repr_html_inner() + _shown_below(self)  # type: ignore[misc]  # of BaseEstimator

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**options)  # type: ignore[misc]  # likewise
        if "text/html" in bundle:
            bundle["text/html"] += _shown_below(self)
        return bundle


class WithProbabilities:
    """A method that exists only if ``probability`` is set, like scikit-learn's `available_if`.

    The AttributeError itself has the remedy; that of `available_if` hides it in a chained exception.
    """

    def __init__(self, method: Callable[..., Any]) -> None:
        self.method = method
        self.__doc__ = method.__doc__

    def __get__(self, classifier: Any, kind: type | None = None) -> Any:
        """Return the bound method of a classifier with probabilities; raise AttributeError for others."""
        if classifier is None:
            return self.method
        if not classifier.probability:
            name = type(classifier).__name__
            raise AttributeError(
                f"{name} has {self.method.__name__} only with probability=True; set it before fit. For a classifier "
                "that is fitted already, use sklearn.calibration.CalibratedClassifierCV(FrozenEstimator(clf)) with "
                "samples held out from the fit; TensorMarginClassifierCV always has probabilities"
            )
        return MethodType(self.method, classifier)


@fitted.attributes(
    classes_=fitted.labels(),
    multi_class_=fitted.one_of("ovo", "ovr"),
    sample_shape_=fitted.shapes,
    coef_=fitted.floats("_n_problems", "*sample_shape_") | fitted.map_of(fitted.floats(...)),
    intercept_=_PER_PROBLEM,
    weight_=_WEIGHTS | fitted.map_of(_WEIGHTS),
    rank_=_RANK | fitted.map_of(_RANK) | fitted.ABSENT,
    calibration_=fitted.floats("_n_problems", 2) | fitted.floats("_n_problems", 4) | fitted.ABSENT,
    n_splits_=fitted.whole(1) | fitted.ABSENT,
    n_iter_=fitted.whole(0),
    history_=_HISTORY | fitted.list_of(_HISTORY, "_n_problems"),
    objective_=fitted.floats("_n_problems", finite=False),
    n_parameters_=fitted.whole(0),
    **dict.fromkeys(("view_scale_", "view_shares_", "mean_scores_"), fitted.map_of(_PER_PROBLEM) | fitted.ABSENT),
    n_missing_=fitted.map_of(fitted.whole(0)) | fitted.ABSENT,
    **SEEN,
    **SCALE_SEEN,
)
@dataclass(eq=False, repr=False)
class TensorMarginClassifier(AccuracyMixin, NotebookMixin, BaseEstimator):
    """Large margin distribution classifier with a low-rank weight tensor.

    Learns ``sign(<W, Z> + b)`` for tensor samples Z by minimising (the paper's Eq. 7)::

        1/2 ||W||^2 + mu1 Var(m) - mu2 Mean(m) + lam Mean(max(0, 1 - m)),    m_i = t_i (<W, Z_i> + b),

    over weights W of a given decomposition and rank. All seven methods of the paper are special cases
    (`tensormargin.make_method`).

    Parameters
    ----------
    decomposition : {"full", "cp", "tucker", "tt"} or dict, default="tucker"
        Decomposition of W: none, a sum of rank-one tensors, Tucker, or Tensor-Train. For several views one for all, or
        a dictionary by name ("tucker" for names that it lacks); vectors always have a full weight.
    rank : int, tuple of int, dict or None, default=None
        Upper bound of the rank; what the samples do not allow is lowered, and ``rank_`` says what was used. CP: the
        number of components. Tucker: one number per mode. Tensor-Train: one number per bond (M - 1 of them). An int
        means the same for all modes or bonds. None: 2 components for CP; 4 for each mode or bond. "full" ignores it.
        For several views one for all, or a dictionary by name (None for names that it lacks).
    lam : float, default=1.0
        Weight of the hinge loss.
    mu1, mu2 : float, default=1.0
        Weights of margin variance and margin mean; if both are 0, the model is a support vector (tensor) machine.
    scale_free : bool, default=True
        Whether ``lam``, ``mu1`` and ``mu2`` are relative to the scale of the samples: with ``s2`` the mean squared norm
        of the centred samples (without intercept: of the samples), Eq. 7 is solved with ``300 lam / s2``,
        ``100 mu1 / s2`` and ``100 mu2 / s2``, so that X and 1000 X give the same predictions. If False, all three are
        the paper's, used as given.
    fit_intercept : bool, default=True
        Whether to fit b. The samples are then centred, without a copy, and b is one more coordinate of every block, so
        it is updated with each. It is penalised by ``1/2 b'^2 / s2``, where b' is the intercept for centred samples, so
        adding the same tensor to all samples changes the result only by rounding.
    init : {"mean", "random"}, default="mean"
        Start: truncated SVDs of the difference between the class means, or random factors. "mean" has a second start,
        the full weight of the same strengths, truncated to the rank; after two sweeps or more from both, the one with
        the lower objective goes on. There is none where the full weight would take longer to fit: from 2**23
        multiplications on (N^2 times the entries of a sample, or N times their square if that is less).
    n_init : int, default=1
        Number of starts, all but the first one random; the fit with the lowest objective is kept.
    tol : float, default=1e-3
        Stop when the relative change of W over a sweep is at most ``tol`` (Eq. 15), or when the objective, extrapolated
        from its last decreases, can fall by at most ``tol / 5`` (``tol / 2`` if the samples have 2**20 entries or
        more); every block is then solved to a relative duality gap of ``tol / 10``. The gaps are certain, the
        extrapolation is not: continued to 1e-7, one in ten of 210 small random problems falls by more than ``tol / 2``,
        none by more than 1 %. Below 5e-4 large float64 samples are contracted in float64 instead of float32.
    max_iter : int, default=100
        Maximum number of sweeps over all blocks.
    class_weight : dict, "balanced" or None, default=None
        Factors on the sample weights, as in scikit-learn. With "ovr", "balanced" also gives each class the same total
        weight as all others together.
    multi_class : {"ovo", "ovr"}, default="ovo"
        One binary problem per pair of classes (as in the paper), or per class against the rest.
    probability : bool, default=False
        Whether to calibrate probabilities (`predict_proba`) on the scores of left-out samples: five more fits, on
        stratified folds shuffled by ``random_state`` (fewer if a class has fewer samples). Copies of a sample are left
        out together. The only sample of a class is never left out, so the probability of that class is rough.
    view_scale : "equal" or dict, default="equal"
        What each of several views is multiplied by. "equal" divides each by the root of the mean squared norm of its
        centred samples (without intercept: of its samples) in the binary problem, so that no view counts more because
        it has more entries or another unit. A dictionary has a number or "equal" by name ("equal" for names that it
        lacks); 0 leaves a view out. ``lam``, ``mu1`` and ``mu2`` refer to the scaled views together.
    n_jobs : int or None, default=None
        Number of binary problems fitted at the same time, in threads that share the samples. If they are fitted one at
        a time (None or 1), large samples are divided among as many threads as BLAS may use.
    solver : {"auto", "host", "device"}, default="auto"
        Where blocks are solved if X is on a device (a PyTorch or CuPy array): on the host, one after the other by
        coordinate descent, or on the device, all binary problems and starts as one batch by an interior-point method.
        "auto" takes the faster one (docs/gpu.md has the measurements). For samples in memory, and for several views,
        always on the host.
    warm_start : bool, default=False
        Start from the weights of the last fit if classes, sample shape, decomposition and rank are the same.
    random_state : int, RandomState or None, default=None
        Used for random starts and calibration folds. The default start uses no random numbers unless the CP rank
        exceeds the size of a mode.
    verbose : int, default=0
        1 prints a line for each sweep of each binary problem.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    weight_ : TensorLy CPTensor, TuckerTensor or TTTensor, or ndarray; a list of them for several binary problems
        Pairs are in the order (0, 1), (0, 2), ..., (1, 2), ...; positive scores stand for the later class.
    coef_ : ndarray of shape (n_problems, I_1, ..., I_M)
        The same weights as dense tensors. For several views ``coef_``, ``weight_``, ``rank_`` and ``sample_shape_`` are
        dictionaries by name; the weights are those of the samples as they were given, not of the scaled ones.
    intercept_ : ndarray of shape (n_problems,)
    problems_ : list of (negative, positive)
        The two classes of each row of ``coef_``: positive scores speak for the second. With "ovr" and more than two
        classes the first is ``"rest"``.
    rank_ : int, tuple of int or None
        The rank of the weights; None for "full".
    calibration_ : ndarray of shape (n_problems, 2), or (n_problems, 4) for more than two classes
        If ``probability``: slope and offset of the sigmoid of each binary problem; then the power and the share that
        turn them into probabilities of several classes, equal in all rows (`predict_proba`).
    n_splits_ : int
        Number of folds that the probabilities were calibrated on.
    n_iter_ : int
        Number of sweeps, the maximum over the binary problems.
    history_ : dict, or a list of dicts for several binary problems
        "objective" (after each sweep), "block_objective" and "gap" (sweeps x blocks), "change" (Eq. 15), "seconds",
        and "blocks" (their names).
    objective_ : ndarray of shape (n_problems,)
        Final values of Eq. 7, including the penalty on the intercept.
    n_parameters_ : int
        Number of parameters per binary problem: the entries of the decomposition, and the intercept.
    sample_shape_ : tuple of int
    multi_class_ : str
        The value of ``multi_class`` used in the fit.
    n_features_in_ : int
        Size of the first mode, as counted by scikit-learn; not for several views.
    scale_in_ : dict
        By view ("" for the only one) the median and the range of the root mean squares of the training samples in
        memory, and their unit if X states it. Samples of another scale are refused (`tensormargin.any_scale`).
    view_scale_ : dict of str to ndarray of shape (n_problems,)
        What each view was multiplied by; 0 for one that was left out. This and what follows for several views only.
    view_shares_ : dict of str to ndarray of shape (n_problems,)
        Share of each view in the variance of the training samples' scores (`tensormargin.view_shares`).
    n_missing_ : dict of str to int
        Number of training samples that lack each view.
    mean_scores_ : dict of str to ndarray of shape (n_problems,)
        Mean score of each view, by which samples that lack it are scored.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from tensormargin import TensorMarginClassifier
    >>> images, labels = load_digits(n_class=2, return_X_y=True)
    >>> clf = TensorMarginClassifier("cp", rank=1).fit(images.reshape(-1, 8, 8), labels)
    >>> clf.weight_.rank
    1
    """

    decomposition: str | dict[str, str] = "tucker"
    rank: int | tuple[int, ...] | dict[str, Any] | None = None
    lam: float = 1.0
    mu1: float = 1.0
    mu2: float = 1.0
    scale_free: bool = True
    fit_intercept: bool = True
    init: str = "mean"
    n_init: int = 1
    tol: float = 1e-3
    max_iter: int = 100
    class_weight: dict[Any, float] | str | None = None
    multi_class: str = "ovo"
    probability: bool = False
    view_scale: str | dict[str, Any] = "equal"
    n_jobs: int | None = None
    solver: str = "auto"
    warm_start: bool = False
    random_state: int | np.random.RandomState | None = None
    verbose: int = 0

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "decomposition": [StrOptions(FORMATS.keys()), dict],
        "rank": [Interval(Integral, 1, None, closed="left"), tuple, list, dict, None],
        "lam": [Interval(Real, 0, None, closed="neither")],
        "mu1": [Interval(Real, 0, None, closed="left")],
        "mu2": [Interval(Real, 0, None, closed="left")],
        "scale_free": ["boolean"],
        "fit_intercept": ["boolean"],
        "init": [StrOptions({"mean", "random"})],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "class_weight": [dict, Options(str, {"balanced"}), None],
        "multi_class": [StrOptions({"ovo", "ovr"})],
        "probability": ["boolean"],
        "view_scale": [StrOptions({"equal"}), dict],
        "n_jobs": [Integral, None],
        "solver": [StrOptions(set(PLACES))],
        "warm_start": ["boolean"],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    # Under scikit-learn's metadata routing, groups reach `fit` without a request.
    __metadata_request__fit: ClassVar[dict[str, bool | None]] = {"groups": True}

    @property
    def _n_problems(self) -> int:
        return count_problems(self.classes_.shape[0], self.multi_class_)

    def _fits(self) -> dict[str, Any]:
        return {
            "classes_": are_classes(self.classes_),
            "probability": not self.probability or hasattr(self, "calibration_"),
            **seen_fits(self, self.sample_shape_),
            **weights_fit(self),
        }

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Fit the classifier.

        Parameters
        ----------
        X : array-like of shape (n_samples, I_1, ..., I_M), Views, or a dictionary of arrays
            Samples of any order M >= 1, including read-only and memory-mapped arrays, or what can be converted to an
            array: lists and frames of arrays, NIfTI images, MNE's Epochs (`conversion.as_samples`); or several
            tensors per sample (`tensormargin.Views`). float32 is used without a copy. Other types are converted once to
            a working copy (float32 for large samples or types that it holds exactly), or chunk by chunk if that copy
            would be larger than the samples; a full weight always needs the copy.
        y : array-like of shape (n_samples,)
            Labels of two or more classes.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weights; an integer weight is equivalent to that many copies of the sample.
        groups : array-like of shape (n_samples,), optional
            Persons, sessions or the like whose samples belong together. Probabilities are calibrated on folds that keep
            them together, so that they hold for new groups. The weight does not depend on them.
        """
        training = training_set(self, X, y, sample_weight)
        self.scale_in_ = scale_of_fit(training.array.X, "" if isinstance(X, np.ndarray) else unit_in(X))
        if groups is not None:
            groups = checked_groups(training.array.X, groups)
        fit_training_set(self, training, y, self.n_jobs)
        if self.probability:
            _calibrate_on_folds(self, training, groups)
        return self

    def _validate_params(self) -> None:
        _reject_old_spelling(self.lam)  # before scikit-learn's own message, which could not say what to write
        own: Any = type(self)
        try:
            _validated(own, *(getattr(self, name) for name in self._parameter_constraints))
        except TypeError:  # a parameter that cannot be hashed, or is not valid
            super()._validate_params()

    def decision_function(self, X: Any) -> Any:
        """Return one score per sample (two classes), or one per sample and class.

        With more than two classes and "ovo" they count votes, with ties broken by the summed scores, as in
        scikit-learn's ``SVC(break_ties=True)``; with "ovr" they are the scores of each class against the rest.
        """
        array = self._as_fitted(X, "decision_function")
        return array.apply_method(self, "decision_function", lambda: self._decisions(array))

    def binary_scores(self, X: Any) -> Any:
        """Return ``<W, Z> + b`` for every sample and binary problem, as an array of shape (n_samples, n_problems)."""
        array = self._as_fitted(X, "binary_scores")
        return array.apply_method(self, "binary_scores", lambda: self.scores_in(array))

    def predict(self, X: Any) -> Any:
        """Return the predicted labels; ties, such as a score of exactly 0, go to the earlier class in ``classes_``."""
        array = self._as_fitted(X, "predict")
        return array.apply_method(
            self, "predict", lambda: labels_at(self.classes_, predicted_codes(self._decisions(array)))
        )

    @property
    def problems_(self) -> list[tuple[Any, Any]]:
        """The (negative, positive) class of each binary problem, one per row of ``coef_``."""
        check_is_fitted(self)
        return problem_classes(to_host(self.classes_), self.multi_class_)

    @WithProbabilities
    def predict_proba(self, X: Any) -> Any:
        """Return class probabilities, one column per class; needs ``probability=True``.

        See `TensorMarginClassifierCV.predict_proba`: it is the same calibration.
        """
        array = self._as_fitted(X, "predict_proba")
        return array.apply_method(self, "predict_proba", lambda: array.kept(self._probabilities(array)))

    @WithProbabilities
    def predict_log_proba(self, X: Any) -> Any:
        """Return the logarithms of the class probabilities; needs ``probability=True``."""
        array = self._as_fitted(X, "predict_log_proba")
        return array.apply_method(self, "predict_log_proba", lambda: array.kept(logarithms(self._probabilities(array))))

    def _probabilities(self, array: SampleArray) -> FloatArray:
        scores = to_host(self.scores_in(array))
        return class_probabilities(scores, to_host(self.calibration_), self.multi_class_)

    def _decisions(self, array: SampleArray) -> Any:
        return combine_scores(self.scores_in(array), self.classes_.shape[0], self.multi_class_)

    def scores_in(self, array: SampleArray) -> Any:
        """Return the binary scores of validated samples."""
        return array.scores(self.coef_, self.intercept_, getattr(self, "mean_scores_", None))

    def checked(self, X: Any, method: str = "predict") -> Any:
        """Return samples as an array, or Views, of the shape and library seen in ``fit``, or raise ValueError."""
        check_is_fitted(self)
        X = samples_as_fitted(self, X, self.sample_shape_)
        same_library(self, X, "coef_", method)
        check_scale(self, X, self.decision_function)
        return X

    def _as_fitted(self, X: Any, method: str) -> SampleArray:
        return sample_array(self.checked(X, method))

    @staticmethod
    def _since_earlier_versions(state: dict[str, Any]) -> dict[str, Any]:
        """Return the attributes in a file of a model as this version has them: 0.1 wrote ``lam="10*scale"``."""
        if "scale_free" in state:
            return state
        factor = _number_before_scale(state["lam"]) if isinstance(state["lam"], str) else None
        return {**state, "lam": state["lam"] if factor is None else factor, "scale_free": factor is not None}

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "coef_")  # a failed fit leaves other attributes behind

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.array_api_support = True
        return tags


@lru_cache(maxsize=1024, typed=True)
def _validated(classifier: Any, *values: Any) -> None:
    """Let scikit-learn check the parameters, once: it takes as long as a step of a small fit."""
    constraints = classifier._parameter_constraints
    validate_parameter_constraints(constraints, dict(zip(constraints, values, strict=True)), classifier.__name__)


def _reject_old_spelling(lam: Any) -> None:
    """Raise ValueError for ``lam="10*scale"``, the notation of version 0.1; the message gives the present one."""
    if isinstance(lam, str):
        factor = _number_before_scale(lam)
        now = "lam=1.0" if factor is None else f"lam={factor:g}"
        raise ValueError(
            f"lam must be a positive number; got lam={lam!r}. Strengths are scale-free by default: write {now}, "
            "or scale_free=False for the paper's lam, mu1 and mu2 on the original samples"
        )


def _number_before_scale(text: str) -> float | None:
    """Return the factor of ``"<factor>*scale"``, 1 for ``"scale"``, or None for other text."""
    factor, star, word = text.replace(" ", "").rpartition("*")
    try:
        return None if word != "scale" else float(factor) if star else 1.0
    except ValueError:
        return None


def are_classes(labels: Array) -> bool:
    """Return whether labels are two or more different ones, in order unless they are objects."""
    distinct = len(set(labels.tolist())) == len(labels) > 1
    return distinct and (labels.dtype == object or bool((labels[1:] > labels[:-1]).all()))


def _calibrate_on_folds(classifier: Any, training: TrainingSet, groups: Array | None) -> None:
    """Set ``calibration_``, the sigmoids fitted to the scores of held-out samples, and ``n_splits_``."""
    X, weights = training.array.X, training.weights
    classes, codes = np.unique(training.labels, return_inverse=True)
    present = np.flatnonzero(weights > 0)  # samples of weight zero are ignored
    folds = np.full(len(weights), -1)
    if groups is None:
        folds[present] = _folds(classes, codes[present], content_ranks(X)[present], classifier.random_state)
    else:
        folds[present] = _folds_of_groups(classes, codes[present], groups[present], classifier.random_state)
    tests = [np.flatnonzero(folds == fold) for fold in range(folds.max() + 1)]
    models = [clone(classifier).set_params(probability=False, warm_start=False) for _ in tests]
    with without_convergence_warnings():  # the fit to all samples has already warned
        others = (np.setdiff1d(present, test) for test in tests)
        fit_all([ToFit(one, X, training.labels, own, weights) for one, own in zip(models, others, strict=True)])
    scores = np.concatenate(
        [to_host(one.binary_scores(rows_of(X, own))) for one, own in zip(models, tests, strict=True)]
    )
    rows = np.concatenate(tests)
    calibration = calibrate(scores, codes[rows], weights[rows], len(classes), classifier.multi_class)
    classifier.n_splits_ = len(tests)
    classifier.calibration_ = training.array.kept(calibration)


def _folds(classes: Array, codes: Array, contents: Array, random_state: Any) -> Array:
    """Return the stratified fold of each sample; -1 for the only sample of a class, which is never held out.

    Copies of a sample share a fold. A weight of two is then the same as two copies, in any order of the samples, and
    no copy of a held-out sample is in the training set.
    """
    rng = check_random_state(random_state)
    distinct = [np.unique(contents[codes == code]) for code in range(len(classes))]
    n_folds = min((len(own) for own in distinct if len(own) > 1), default=0)
    if not n_folds:
        raise ValueError(
            f"probability=True needs a class with at least two different samples, to leave one out; {classes.tolist()} "
            "have one each. Add samples, or set probability=False"
        )
    n_folds = min(n_folds, _FOLDS)
    folds, dealt = np.full(len(codes), -1), 0
    for code, own in enumerate(distinct):
        if len(own) > 1:
            where = codes == code
            fold_of = (dealt + rng.permutation(len(own))) % n_folds
            folds[where] = fold_of[np.searchsorted(own, contents[where])]
            dealt += len(own)
    return folds


def _folds_of_groups(classes: Array, codes: Array, groups: Array, random_state: Any) -> Array:
    """Return the fold of each sample; the samples of a group share a fold, and each class is in two or more."""
    from sklearn.model_selection import StratifiedGroupKFold  # takes long to import

    n_groups = [len(np.unique(groups[codes == code])) for code in range(len(classes))]
    if min(n_groups) < 2:
        raise ValueError(
            "probability=True with groups needs two groups or more of each class, to leave one out; "
            f"{classes.tolist()[np.argmin(n_groups)]!r} has {min(n_groups)}. Add groups, leave groups out, or set "
            "probability=False"
        )
    splitter = StratifiedGroupKFold(min(_FOLDS, *n_groups), shuffle=True, random_state=random_state)
    folds = np.full(len(codes), -1)
    for fold, (_, test) in enumerate(splitter.split(codes, codes, groups)):
        folds[test] = fold
    return folds


def _shown_below(classifier: Any) -> str:
    """Return the score and the weight of a fitted classifier as HTML; nothing before the fit."""
    if not classifier.__sklearn_is_fitted__():
        return ""
    parts = []
    score, results = getattr(classifier, "best_score_", None), getattr(classifier, "cv_results_", None)
    if score is not None and results is not None:
        chosen = f"the best of {len(results['params'])} models, so this is optimistic on average"
        parts.append(f"<p>Validation score {score:.3g} ({chosen}; nested_evaluation gives an unbiased one)</p>")
    negative, positive = classifier.problems_[0]
    weights = getattr(classifier, "coef_", {})  # none on the samples if a representation is not linear
    for name, own in (weights if isinstance(weights, Mapping) else {"": weights}).items():
        what = f"weight of {name}" if name else "weight"
        parts.append(map_picture(to_host(own[0]), f"{what}: red for {positive}, blue for {negative}"))
    return "".join(parts)
