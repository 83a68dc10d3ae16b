"""The classifier that selects its hyperparameters by cross-validation."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from numbers import Integral, Real
from time import perf_counter
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, _fit_context, clone
from sklearn.metrics import check_scoring
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import HasMethods, Interval, Options, StrOptions
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from ..data import (
    SCALE_SEEN,
    SEEN,
    AnyAxes,
    Checkpoint,
    LeakageWarning,
    Metadata,
    check_classes,
    check_scale,
    checked_training,
    columns_in,
    content_ranks,
    fitted,
    giveaway_channels,
    samples_as_fitted,
    samples_of_any_length,
    scale_of_fit,
    seen_fits,
    shape_of,
    unit_in,
    units_of,
    views_or_array,
    warn_of_duplicates,
)
from ..estimators import PLACES, AccuracyMixin, NotebookMixin, TensorMarginClassifier, are_classes
from ..fitting import FORMATS, calibrate, loaded_if_small, problem_classes, sample_array
from ..inspection import ModelChain, NotAffineError, check_metadata_for
from ..io import groups_in_columns
from ..runtime import Array, Deadline, Progress, dtype_of, is_foreign, like, sent_once, to_host, tuning
from ..transformers import (
    UnseenCategoryWarning,
    agree,
    shapes_through,
    shared,
    takes_nan,
    takes_ragged,
    transformed,
    with_mode_numbers,
)
from .grid import (
    DECOMPOSITIONS,
    LAMS,
    MUS,
    RANKS,
    Candidate,
    Mu,
    candidates,
    default_of,
    lowered_ranks,
    of_one_view,
    schemes_of,
    side_by_side,
    without_full_if_too_large,
)
from .race import MOST_AT_ONCE, Race
from .runner import FitLoop, SearchRunner
from .scoring import DEFAULT_RULE, Assess, lowered_on_splits, needed_score, select_candidate, tabulate
from .splits import Split, check_training_parts, repeated_splits, smaller_splits
from .training import PreparedSplit, SplitCache, Training, affordable, refit

_ROUTED: dict[str, bool | None] = {"groups": True, "confounds": True}


@fitted.attributes(
    classes_=fitted.labels(),
    sample_shape_=fitted.shapes,
    best_estimator_=fitted.instance("TensorMarginClassifier", "Pipeline"),
    best_params_=fitted.map_of(fitted.plain),
    best_score_=fitted.number(),
    best_index_=fitted.whole(0),
    cv_results_=fitted.map_of(
        fitted.plain,
        params=fitted.list_of(fitted.map_of(fitted.plain)),
        **dict.fromkeys(("mean_test_score", "std_test_score"), fitted.floats(None, finite=False)),
        **dict.fromkeys(("param_decomposition", "param_rank", "param_lam"), fitted.plain),
    ),
    calibration_=fitted.floats(None, 2) | fitted.floats(None, 4),
    n_splits_=fitted.whole(1),
    refit_time_=fitted.number(0),
    stopped_=fitted.text | fitted.ABSENT,
    tried_=fitted.list_of(fitted.whole(0)) | fitted.ABSENT,
    lowered_ranks_=fitted.list_of(fitted.tuple_of(fitted.plain, fitted.plain, fitted.plain)) | fitted.ABSENT,
    **SEEN,
    **SCALE_SEEN,
)
class TensorMarginClassifierCV(AccuracyMixin, NotebookMixin, BaseEstimator):
    """`TensorMarginClassifier` with its hyperparameters selected by cross-validation.

    These are preparation, decomposition, rank, lambda, mu1 and mu2, and for several classes the scheme. Candidates are
    raced: a twentieth of all fits, spread over candidates and splits, shows which values are promising; most candidates
    are then dropped, and only the best few are fitted on all splits. With many classes, some of them are enough to drop
    candidates. The best one is refitted on all samples. Several
    views (`tensormargin.Views`) have the same decomposition and rank in all candidates, which use all views or all but
    one; then the decomposition and rank of one view after the other are refined, the others being kept. The
    candidates include the flat weight and mu = 0, that is, the support vector machine. ``best_score_`` is the maximum
    over many candidates and therefore optimistic; `tensormargin.nested_evaluation` gives an estimate without this bias.

    Parameters
    ----------
    decompositions : sequence of {"full", "cp", "tucker", "tt"}, default=all four
        Decompositions to try. Equivalent ones are tried once (all low-rank formats of rank one; for matrices, all
        low-rank formats of equal rank).
    ranks : sequence of int, tuple of int or None, default=(1, 2, 4)
        Ranks to try. An integer is lowered if samples are too small for it (``lowered_ranks_``); a tuple has one number
        per mode (Tucker) or bond (Tensor-Train), and None means the default rank, as in `TensorMarginClassifier`. Any
        rank may be lowered on a split if a preparation gives smaller samples there than on all samples (`Crop`).
    lams : sequence of float, default=(1, 10)
        Values of ``lam`` of `TensorMarginClassifier`, on its scale-free axis.
    mus : sequence of float or pairs of float, default=((0, 0), (1, 1), (10, 10), (100, 0))
        Values of ``(mu1, mu2)``, also scale-free; one number stands for both, and 0 for no margin terms.
    preparation : transformer, None or a list of them, default=None
        Prepares the samples (`TensorScaler`, a Pipeline of transformers, ...); fitted on each training set. A list
        gives alternatives to choose from, with None for the original samples. For several views it takes Views.
    cv : int, splitter, iterable or None, default=None
        Cross-validation splits. An integer (None: 5) means stratified folds, shuffled by ``random_state``, which keep
        groups together if ``groups`` are passed to ``fit``, and copies of a sample otherwise. They do not depend on the
        order of the samples. If a class has fewer samples (or groups) than that, the folds are as many, and repeated
        with other shuffles.
    scoring : str, callable or None, default=None
        Any scikit-learn scorer; None for accuracy. For a scorer that needs probabilities ("neg_log_loss",
        "roc_auc_ovr") these are calibrated on the held-out samples of the other splits; as long as a candidate has no
        others, on the same ones.
    rule : {"best", "default", "smoothed", "simplest", "margins"}, default="best"
        How to select the model. "best" takes the highest mean score; ties go to the fewest parameters. Among the models
        within one standard error of it, "simplest" takes the one with the fewest parameters, and "margins" the one
        whose margins on the validation sets have the smallest Cantelli bound, ``variance / (variance + mean^2)``.
        "smoothed" takes the highest ``smoothed_test_score``, which averages over close candidates. No difference
        between them was significant (benchmarks/results/rules.md and search.md). "default" takes the candidate with
        which the search begins unless the best one is better by two standard errors, and makes no fits that could not
        change that: for several representations of few samples, of which some are always lucky
        (`tensormargin.auto_model`).
    exhaustive : bool, default=False
        Whether to fit all candidates on all splits, which takes about ten times as many fits.
    budget : float or None, default=None
        Seconds for `fit`. Preparations, timed on a few samples, and fits that would not end in time are not begun; the
        best candidate that has been fitted on all splits is used, and ``stopped_`` says what was cut. One candidate,
        after the cheapest preparation, is always fitted.
    class_weight : dict, "balanced" or None, default=None
        See `TensorMarginClassifier`.
    multi_class : {"auto", "ovo", "ovr"}, default="auto"
        "auto" tries one-vs-one, one-vs-rest and, unless there is a ``class_weight``, one-vs-rest with
        ``class_weight="balanced"``.
    fit_intercept, tol, max_iter, solver
        See `TensorMarginClassifier`. The fits of a race need not reach a ``tol`` below 0.01; the selected model does.
        For samples on a device the search runs there: candidates of equal decomposition
        and rank are fitted as one batch (one batch per split with a ``preparation``).
    n_jobs : int or None, default=None
        Number of fits at a time, in threads that share the samples. A single one for samples on a device or in a Dask
        array.
    random_state : int, RandomState or None, default=None
        Used for folds, random starts, and to spread the first fits of the race.
    verbose : int, default=0
        1 writes a line for each tenth of the search to standard error.

    Attributes
    ----------
    best_estimator_ : TensorMarginClassifier, or a Pipeline of preparation and classifier
    classifier_ : TensorMarginClassifier
        The classifier inside ``best_estimator_``.
    coef_, intercept_ : ndarray of shape (n_problems, I_1, ..., I_M) and (n_problems,)
        As in `TensorMarginClassifier`, for the original samples: ``<coef_, Z> + intercept_`` are the binary scores.
        Not available if the preparation is not affine (see `tensormargin.affine_form`); ``classifier_`` has those for
        the prepared samples.
    weight_ : as in `TensorMarginClassifier`; ndarray, or a list of them, if there is a preparation
    problems_ : list of (negative, positive)
        The two classes of each row of ``coef_``, as in `TensorMarginClassifier`.
    best_params_, best_score_, best_index_ : dict, float, int
        The selected candidate and its mean validation score.
    cv_results_ : dict of arrays
        As in scikit-learn's GridSearchCV, with additional columns: ``dropped`` says when and why a candidate was
        dropped (empty for the others), ``n_splits_done`` on how many splits it was fitted. Its scores on the others
        are NaN, means are over those that it was fitted on, and it is ranked after the candidates that were not
        dropped. ``smoothed_test_score`` estimates the mean score from those of close candidates, too.
        ``mean_margin_bound``, ``n_parameters`` (the maximum over the splits) and ``asked_rank``, the requested rank; if
        it differs from ``param_rank``, it was too high.
    stopped_ : str
        Why the search ended early, and what was cut; empty if it did not.
    tried_ : list of int
        The places in ``preparation`` of those that the budget allowed to try.
    lowered_ranks_ : list of tuple
        Decomposition, requested rank and used rank, wherever samples were too small for the requested rank.
    calibration_ : ndarray of shape (n_problems, 2), or (n_problems, 4) for more than two classes
        As in `TensorMarginClassifier`.
    classes_, n_features_in_, sample_shape_, scale_in_ : as in `TensorMarginClassifier`
    n_splits_ : int
    refit_time_ : float

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from tensormargin import TensorMarginClassifierCV
    >>> images, labels = load_digits(n_class=2, return_X_y=True)
    >>> search = TensorMarginClassifierCV(ranks=(1, 2), lams=(1,), cv=3, random_state=0)
    >>> search.fit(images.reshape(-1, 8, 8), labels).best_params_["decomposition"]
    'cp'
    """

    # Under scikit-learn's metadata routing, groups and confounds reach these methods without a request.
    __metadata_request__fit: ClassVar[dict[str, bool | None]] = {
        **_ROUTED,
        "progress": None,
        "checkpoint": None,
        "deadline": None,
    }
    __metadata_request__predict: ClassVar[dict[str, bool | None]] = _ROUTED
    __metadata_request__predict_proba: ClassVar[dict[str, bool | None]] = _ROUTED
    __metadata_request__predict_log_proba: ClassVar[dict[str, bool | None]] = _ROUTED
    __metadata_request__decision_function: ClassVar[dict[str, bool | None]] = _ROUTED
    __metadata_request__score: ClassVar[dict[str, bool | None]] = _ROUTED

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "decompositions": ["array-like"],
        "ranks": [list, tuple, np.ndarray],
        "lams": ["array-like"],
        "mus": ["array-like"],
        "preparation": [HasMethods(["fit_transform", "transform"]), list, tuple, None],
        "cv": ["cv_object"],
        "scoring": [str, callable, None],
        "rule": [StrOptions({"smoothed", "best", "default", "simplest", "margins"})],
        "class_weight": [dict, Options(str, {"balanced"}), None],
        "multi_class": [StrOptions({"auto", "ovo", "ovr"})],
        "exhaustive": ["boolean"],
        "budget": [Interval(Real, 0, None, closed="neither"), None],
        "fit_intercept": ["boolean"],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "solver": [StrOptions(set(PLACES))],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def _fits(self) -> dict[str, Any]:
        inner, n_tried = self.classifier_, len(self.cv_results_["params"])
        taken, _ = shapes_through([("", self.best_estimator_)])
        columns = self.cv_results_.values()
        return {
            "best_estimator_": isinstance(inner, TensorMarginClassifier),
            "classes_": are_classes(self.classes_) and inner.classes_.tolist() == self.classes_.tolist(),
            "calibration_": len(self.calibration_) == inner._n_problems,
            "sample_shape_": agree(self.sample_shape_, taken),
            "best_index_": self.best_index_ < n_tried,
            "cv_results_": all(isinstance(one, list | np.ndarray) and len(one) == n_tried for one in columns),
            **seen_fits(self, self.sample_shape_),
        }

    def __init__(
        self,
        decompositions: Sequence[str] = DECOMPOSITIONS,
        ranks: Sequence[int | tuple[int, ...] | None] = RANKS,
        lams: Sequence[float] = LAMS,
        mus: Sequence[Mu] = MUS,
        preparation: Any = None,
        cv: Any = None,
        scoring: Any = None,
        rule: str = DEFAULT_RULE,
        exhaustive: bool = False,
        budget: float | None = None,
        class_weight: dict[Any, float] | str | None = None,
        multi_class: str = "auto",
        fit_intercept: bool = True,
        tol: float = 1e-3,
        max_iter: int = 100,
        solver: str = "auto",
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.decompositions = decompositions
        self.ranks = ranks
        self.lams = lams
        self.mus = mus
        self.preparation = preparation
        self.cv = cv
        self.scoring = scoring
        self.rule = rule
        self.exhaustive = exhaustive
        self.budget = budget
        self.class_weight = class_weight
        self.multi_class = multi_class
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.solver = solver
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=False)
    @shared
    def fit(
        self,
        X: Any,
        y: Any,
        groups: Any = None,
        sample_weight: Any = None,
        progress: Progress | None = None,
        checkpoint: Checkpoint | None = None,
        confounds: Any = None,
        deadline: Deadline | None = None,
    ) -> Self:
        """Run the search, refit the best candidate and calibrate its probabilities.

        Parameters
        ----------
        X : array-like of shape (n_samples, I_1, ..., I_M), or Views
            Samples may differ in length if every ``preparation`` has `EqualLength` as its first step.
        y : array-like of shape (n_samples,)
        groups : array-like of shape (n_samples,), optional
            Samples of one group (subject, session, run) are never on both sides of a split. A preparation that scales
            by group (``TensorScaler(by_group=True)``) needs them, here and when predicting.
        sample_weight : array-like of shape (n_samples,), optional
            Used for fits, scores and the calibration of probabilities.
        progress : callable, optional
            Called as ``progress(done, total, text)`` after every few fits, with the work done and expected in all;
            ``total`` falls as candidates are dropped.
        checkpoint : Checkpoint, optional
            Keeps the scores of the candidates, so that an interrupted search can be resumed.
        confounds : array-like of shape (n_samples, n_confounds), optional
            For a preparation that removes them (`Deconfound`), here and when predicting.
        deadline : tensormargin.runtime.progress.Deadline, optional
            Of a computation that this search is a part of; by default it comes after ``budget`` seconds.
        """
        deadline = Deadline.of(self.budget if deadline is None else deadline)
        likely = None if groups is not None else groups_in_columns(columns_in(X))
        if likely is not None:
            warnings.warn(likely, LeakageWarning, stacklevel=4)
        unit = unit_in(X)
        X, axes = self._prepare_search(X, y, Metadata(groups, confounds))
        training = self._checked(X, y, sample_weight, Metadata(groups, confounds), axes)
        self.scale_in_ = scale_of_fit(training.X, unit)
        rng = check_random_state(self.random_state)
        splits, n_once = self._repeated_splits(training.y, training.metadata.groups, training.X, rng)
        check_training_parts(splits, training.y)
        template = self._template(rng.randint(2**31 - 1))
        training, cheapest = self._affordable(training, len(splits), deadline)
        began = deadline.now()
        spread = np.random.RandomState(rng.randint(2**31 - 1))
        small = self._smaller_splits(training, splits, spread)
        coarse = clone(template).set_params(tol=max(self.tol, tuning.RACE_TOL))
        cache, shapes = SplitCache(), None
        if training.array.in_memory and not self.exhaustive:  # prepared for the first fits anyway
            number = len(splits) if small else 0
            shapes = _shapes_on_split(training, [*splits, *small][number], number, coarse, cache)
        if shapes is None or not small:
            small, shapes = [], _shapes_behind(training, shapes)
        tried = self._candidates(training, shapes)
        default = default_of(tried, shapes)
        needed = partial(needed_score, n_scored=_n_scored(splits)) if self._setting("rule") == "default" else None
        race = Race([one.levels for one in tried], len(splits), default, self.exhaustive, spread, len(small), needed)
        first = default_of(tried, only=cheapest) if deadline.limited else default
        of_fits, assess = coarse if race.drops else template, self._assess(template, tried, len(training.y))
        loop = FitLoop(of_fits, assess, deadline, first, cache if race.drops else SplitCache())
        runner = SearchRunner(training, tried, [*splits, *small], loop, self.n_jobs)
        with sent_once(training.X):
            quiet = warnings.catch_warnings(action="ignore", category=UnseenCategoryWarning)
            with quiet, units_of(checkpoint, "search", *training.content, *self._settings(runner)) as runner.kept:
                self._run(race, runner, shapes, default, progress)
            searched = deadline.now()
            notes = [
                *lowered_ranks(shapes, self._setting("decompositions"), self._setting("ranks")),
                *lowered_on_splits(tried, runner.done),
            ]
            self.lowered_ranks_ = list(dict.fromkeys(notes))
            self._refit(training, template, tried[self.best_index_])
            self._calibrate(runner, n_once)
        deadline.costs.add("search", runner.at_least - began + deadline.now() - searched)
        return self

    def _smaller_splits(self, training: Training, splits: list[Split], rng: np.random.RandomState) -> list[Split]:
        """Return the splits that candidates are compared on first: scores of one split must need no other.

        With fewer samples, weights with fewer entries seem better than they are: only a model that is chosen anyway
        unless another one is clearly better can be compared with others on them.
        """
        if self.exhaustive or self.scoring not in (None, "accuracy") or not training.array.in_memory:
            return []
        fewer = self._setting("rule") == "default"
        return smaller_splits(splits, training.y, rng, fewer_samples=fewer, weights=training.weights)

    def _prepare_search(self, X: Any, y: Any, metadata: Metadata) -> tuple[Any, AnyAxes]:
        """Return the samples, and their axes if these are known; subclasses find out what depends on the samples."""
        return X, None

    def _setting(self, name: str) -> Any:
        """Return a parameter; in subclasses, what stands for one that is not given."""
        return getattr(self, name)

    def _checked(self, X: Any, given: Any, sample_weight: Any, metadata: Metadata, axes: AnyAxes) -> Training:
        """Return the validated training set, with the preparations to choose from."""
        self._check_grid()
        alternatives = self._alternatives()
        finite = not self._takes_nan
        X, y = checked_training(self, X, given, finite=finite, ragged=self._takes_ragged, axes=axes)
        X = loaded_if_small(X, finite=finite)
        check_classes(y, in_folds=self._makes_folds)
        classes = np.unique(y)
        if len(classes) < 2:
            raise ValueError(f"a classifier needs samples of at least two classes; got one class, {classes}")
        self.classes_ = like(classes, given) if is_foreign(given) else classes
        self.sample_shape_ = shape_of(X)
        weights = None
        if sample_weight is not None:
            weights = _check_sample_weight(to_host(sample_weight), y, dtype=np.float64, ensure_non_negative=True)
        metadata = Metadata.checked(X, metadata.groups, metadata.confounds)
        axes = getattr(self, "axes_in_", None)
        if axes is not None:  # the alternatives get arrays, which have lost the names that the modes of X had
            alternatives = tuple(one if one is None else with_mode_numbers(one, axes) for one in alternatives)
        for one in alternatives:
            check_metadata_for("fit", one, metadata)
        warn_of_duplicates(X, metadata.groups, 6, kept=metadata.groups is None and self._makes_folds)
        for text in giveaway_channels(X, y, metadata.groups, axes):
            warnings.warn(text, LeakageWarning, stacklevel=5)
        return Training(sample_array(X), y, weights, alternatives, metadata)

    def _candidates(self, training: Training, shapes: Sequence[Any]) -> list[Candidate]:
        schemes = schemes_of(self.multi_class, self.class_weight, self.classes_.shape[0])
        decompositions = self._setting("decompositions")
        if training.array.is_lazy:
            decompositions = without_full_if_too_large(decompositions, len(training.y), shapes)
        return candidates(shapes, decompositions, self._setting("ranks"), self.lams, self.mus, schemes)

    def _calibrate(self, runner: SearchRunner, n_once: int) -> None:
        """Calibrate probabilities on the first splits, which hold out each sample once."""
        scores = np.concatenate(runner.left_out_scores(self.best_index_, n_once))
        rows = np.concatenate([test for _, test in runner.splits[:n_once]])
        weights = None if runner.training.weights is None else runner.training.weights[rows]
        classes, codes = np.unique(runner.training.y, return_inverse=True)
        scheme, chosen = runner.tried[self.best_index_].multi_class, len(runner.tried) > 1
        self.calibration_ = calibrate(scores, codes[rows], weights, len(classes), scheme, chosen=chosen)

    def _affordable(self, training: Training, n_splits: int, deadline: Deadline) -> tuple[Training, int]:
        """Return the training set with the preparations that a deadline allows, and which of them is the cheapest."""
        by_cost = affordable(training, n_splits, deadline)
        self.tried_ = sorted(by_cost)
        kept = [training.preparations[which] for which in self.tried_]
        return replace(training, preparations=kept), self.tried_.index(by_cost[0])

    def splits(self, y: Array, groups: Array | None = None, X: Any = None) -> list[Split]:
        """Return the splits of a search in samples with these labels, which hold out each sample once.

        They are those of the last `fit` only if ``random_state`` is a number. If the samples are given, copies among
        them stay together, as in a search.
        """
        splits, n_once = self._repeated_splits(y, groups, X, check_random_state(self.random_state))
        return splits[:n_once]

    def _repeated_splits(
        self, y: Array, groups: Array | None, X: Any, rng: np.random.RandomState
    ) -> tuple[list[Split], int]:
        alone = X is not None and groups is None and self._makes_folds
        return repeated_splits(self.cv, y, groups, rng.randint(2**31 - 1), content_ranks(X) if alone else None)

    @property
    def _makes_folds(self) -> bool:
        """Whether the folds are those of this class, not the user's own splits."""
        return self.cv is None or isinstance(self.cv, Integral)

    def _settings(self, runner: SearchRunner) -> tuple[Any, ...]:
        """Return everything besides the samples that determines the scores of the candidates."""
        template, deadline = runner.loop.template, runner.loop.deadline
        settings = runner.splits, template, runner.tried, runner.training.preparations, self.scoring
        return (*settings, deadline.budget) if deadline.limited else settings

    @property
    def _takes_ragged(self) -> bool:  # `takes_ragged` asks for it
        return all(map(takes_ragged, self._alternatives()))

    @property
    def _takes_nan(self) -> bool:
        return all(map(takes_nan, self._alternatives()))

    def _alternatives(self) -> tuple[Any, ...]:
        tried = self._setting("preparation")
        alternatives = tuple(tried) if isinstance(tried, list | tuple) else (tried,)
        if not all(one is None or hasattr(one, "fit_transform") for one in alternatives) or not alternatives:
            raise ValueError(
                f"preparation must be a transformer, None, or a list of at least one of them; got {tried!r}"
            )
        return alternatives

    def _check_grid(self) -> None:
        decompositions = self._setting("decompositions")
        unknown = [name for name in decompositions if name not in FORMATS]
        if unknown or len(decompositions) == 0:
            raise ValueError(f"decompositions must be names from {', '.join(FORMATS)}; got {decompositions!r}")
        rules = (
            ("ranks", _may_be_rank, "whole numbers of at least 1, tuples of them or None"),
            ("lams", lambda value: isinstance(value, Real) and 0 < float(value) < np.inf, "positive numbers"),
            ("mus", _may_be_mu, "numbers of at least 0, or pairs of them (mu1, mu2)"),
        )
        for name, holds, rule in rules:
            values = self._setting(name)
            if len(values) == 0 or not all(holds(value) for value in values):
                raise ValueError(f"{name} must be {rule}, at least one of them; got {name}={values!r}")

    def _template(self, seed: int) -> TensorMarginClassifier:
        names = ("fit_intercept", "tol", "max_iter", "solver")
        return TensorMarginClassifier(random_state=seed, n_jobs=1, **{name: getattr(self, name) for name in names})

    def _run(
        self, race: Race, runner: SearchRunner, shapes: Sequence[Any], default: int, progress: Progress | None
    ) -> None:
        """Score the candidates and select one; then, for several views, refine the weight of one after the other."""
        tell = partial(self._tell, progress)
        finished = runner.run(race, tell)
        self._select(race, runner, default)
        which = runner.tried[self.best_index_].preparation
        shape, grid = shapes[which], (self._setting("decompositions"), self._setting("ranks"))
        for name in shape if isinstance(shape, dict) and len(shape) > 1 and not side_by_side(shapes, which) else ():
            best = runner.tried[self.best_index_]
            others = of_one_view(best, shapes[best.preparation], name, *grid)
            if finished and others:
                runner.tried.extend(others)
                race.add([one.levels for one in others])
                finished = runner.run(race, tell)
                self._select(race, runner, default)
        cuts = [] if finished else [f"was spent after {len(runner.done)} fits"]
        left_out = len(self._alternatives()) - len(self.tried_)
        cuts += [f"left no time for {left_out} of {len(self._alternatives())} preparations"] if left_out else []
        self.stopped_ = f"{runner.loop.deadline} {' and '.join(cuts)}" if cuts else ""

    def _select(self, race: Race, runner: SearchRunner, default: int) -> None:
        """Select one of the candidates that have been scored so far."""
        self.n_splits_ = race.n_splits
        self.cv_results_ = tabulate(runner.tried, runner.done, race, runner.training.preparations)
        n_scored = _n_scored(runner.splits[: race.n_splits])
        self.best_index_ = select_candidate(self.cv_results_, self.n_splits_, self._setting("rule"), default, n_scored)
        self.best_params_ = self.cv_results_["params"][self.best_index_]
        self.best_score_ = float(self.cv_results_["mean_test_score"][self.best_index_])

    def _assess(self, template: TensorMarginClassifier, tried: Sequence[Candidate], n_samples: int) -> Assess:
        n_classes = self.classes_.shape[0]
        n_problems = max(len(problem_classes(np.arange(n_classes), one.multi_class)) for one in tried)
        at_once = len(tried) if self.exhaustive else min(len(tried), MOST_AT_ONCE)  # others have been dropped by then
        small = 8 * at_once * n_samples * n_problems <= tuning.KEPT_SCORES_BYTES
        by_scores = self.scoring is None or isinstance(self.scoring, str)
        return Assess(check_scoring(template, self.scoring), self.scoring in (None, "accuracy"), small, by_scores)

    def _tell(self, progress: Progress | None, done: int, total: int, work: float, work_in_all: float) -> None:
        text = f"{done} of {total} fits"
        if progress is not None:
            progress(work, work_in_all, text)
        if self.verbose and (done * 10) // total > ((done - 1) * 10) // total:
            print(f"[tensormargin] search: {text}", file=sys.stderr)  # noqa: T201 - verbose=1 prints

    def _refit(self, training: Training, template: TensorMarginClassifier, best: Candidate) -> None:
        """Fit the selected candidate to all samples.

        On a device, a single binary problem would start from a subset of the samples and could reach another optimum:
        it is fitted in batches, as in the search.
        """
        began = perf_counter()
        alone = self.solver == "auto" and not training.array.on_processor and self.classes_.shape[0] == 2
        solver = "device" if alone else self.solver
        self.best_estimator_ = refit(training, clone(template).set_params(n_jobs=self.n_jobs, solver=solver), best)
        self.classifier_.set_params(solver=self.solver)
        self.refit_time_ = perf_counter() - began

    @property
    def classifier_(self) -> TensorMarginClassifier:
        """The fitted classifier, without the preparation before it."""
        best = self.best_estimator_
        return best[-1] if isinstance(best, Pipeline) else best

    def _apply(self, method: str, X: Any, groups: Any, confounds: Any, calibrated: bool = False) -> Any:
        """Return the result of a method of the classifier, with the search's calibration, for prepared samples."""
        check_is_fitted(self)
        best, classifier = self.best_estimator_, self.classifier_
        if takes_ragged(best):  # its first step then checks the lengths
            X = samples_of_any_length(self, X)
        else:
            X = samples_as_fitted(self, X, self.sample_shape_, finite=not takes_nan(best))
        metadata = Metadata.checked(X, groups, confounds)
        check_scale(self, X, lambda few: self._scores_of(few, metadata.rows(slice(len(few)))))
        if isinstance(best, Pipeline):
            check_metadata_for(method, best[:-1], metadata)
            X = views_or_array(transformed(best[:-1], X, metadata))
        if calibrated:
            classifier = copy(classifier)
            classifier.probability, classifier.calibration_ = True, self.calibration_
        return getattr(classifier, method)(X)

    def _scores_of(self, X: Any, metadata: Metadata) -> Any:
        return self._apply("decision_function", X, metadata.groups, metadata.confounds)

    def decision_function(self, X: Any, groups: Any = None, confounds: Any = None) -> Any:
        """Return the scores of the selected classifier; see `TensorMarginClassifier.decision_function`.

        Here and in the other methods, ``groups`` are required if the preparation scales by group, ``confounds`` if it
        removes them, and ignored otherwise.
        """
        return self._apply("decision_function", X, groups, confounds)

    def binary_scores(self, X: Any, groups: Any = None, confounds: Any = None) -> Any:
        """Return ``<W, Z> + b`` for every sample and binary problem."""
        return self._apply("binary_scores", X, groups, confounds)

    def predict(self, X: Any, groups: Any = None, confounds: Any = None) -> Any:
        """Return the predicted labels."""
        return self._apply("predict", X, groups, confounds)

    def score(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None, confounds: Any = None) -> float:
        """Return the accuracy of the predictions for X."""
        return self._accuracy_of(self.predict(X, groups, confounds), y, sample_weight)

    def predict_proba(self, X: Any, groups: Any = None, confounds: Any = None) -> Any:
        """Return class probabilities, one column per class.

        The score of each binary problem is mapped by a sigmoid (Platt 1999) fitted to the scores of held-out samples,
        weighted by ``sample_weight``. Of more than two classes, one-vs-one sigmoids are coupled by the method of Wu,
        Lin and Weng (2004), one-vs-rest ones normalised (the softmax of their arguments). Both are then raised to a
        power t and mixed with a share e of equal probabilities, fitted to the same held-out samples: otherwise
        probabilities of many classes are far too even (docs/method.md). With few samples they are rough.

        The sigmoid has an offset if the classes clearly differ in size or the held-out scores require one, because of
        class weights, say (tests at 5 %). Then the most probable class is not always the one that `predict` returns:
        with ``class_weight="balanced"`` a sample may be assigned to a rare class although another one is more probable.
        Without offsets (the second column of ``calibration_`` is zero) the two always agree. Power and share never
        change which class is the most probable one. Slopes, or the power, of the best of several candidates are shrunk,
        since the same scores have chosen it: almost to zero if it is hardly better than chance.
        """
        return self._apply("predict_proba", X, groups, confounds, calibrated=True)

    def predict_log_proba(self, X: Any, groups: Any = None, confounds: Any = None) -> Any:
        """Return the logarithms of the class probabilities."""
        return self._apply("predict_log_proba", X, groups, confounds, calibrated=True)

    @property
    def problems_(self) -> list[tuple[Any, Any]]:
        """The (negative, positive) class of each binary problem, one per row of ``coef_``."""
        check_is_fitted(self)
        return self.classifier_.problems_

    @property
    def coef_(self) -> Any:
        """The weights as dense tensors on the samples before the preparation, which must be affine."""
        return self._on_original_samples("coef_")

    @property
    def intercept_(self) -> Any:
        """The intercepts for the samples before the preparation, which must be affine."""
        return self._on_original_samples("intercept_")

    @property
    def weight_(self) -> Any:
        """The weights in the classifier's format; dense tensors if there is a preparation, which must be affine."""
        weights = self._on_original_samples("weight_")
        if not isinstance(self.best_estimator_, Pipeline):
            return weights
        if isinstance(weights, dict):
            return {name: own[0, ...] if own.shape[0] == 1 else list(own) for name, own in weights.items()}
        return weights[0, ...] if weights.shape[0] == 1 else [weights[k, ...] for k in range(weights.shape[0])]

    def _on_original_samples(self, attribute: str) -> Any:
        """Return an attribute of the classifier for the original samples; raise AttributeError if there is none."""
        check_is_fitted(self)
        own = getattr(self.classifier_, attribute)
        if not isinstance(self.best_estimator_, Pipeline):
            return own
        try:
            chain = ModelChain.of(self)  # confounds change the offsets of scores, not the weights
            form = (chain if attribute == "intercept_" else chain.without_confounds()).form()
        except NotAffineError as error:
            raise AttributeError(
                f"{attribute} would be for original samples, but the preparation is not affine: {error}. That of the "
                f"prepared samples is classifier_.{attribute}"
            ) from error
        there = self.classifier_.intercept_
        found = form.offsets if attribute == "intercept_" else form.weights
        if isinstance(found, dict):
            return {name: like(array, there, dtype_of(there)) for name, array in found.items()}
        return like(found, there, dtype_of(there))

    @property
    def view_scale_(self) -> dict[str, Any]:
        """What each of several views was multiplied by, one number per binary problem; 0 for one that is left out."""
        return self.classifier_.view_scale_

    @property
    def n_iter_(self) -> int:
        """Number of sweeps in the fit of the selected classifier."""
        return self.classifier_.n_iter_

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "calibration_")

    @staticmethod
    def _since_earlier_versions(state: dict[str, Any]) -> dict[str, Any]:
        """Return the attributes in a file of a model as this version has them: 0.1 calibrated without offsets."""
        slopes = state.get("calibration_")
        if not isinstance(slopes, np.ndarray) or slopes.ndim != 1:
            return state
        return {**state, "calibration_": np.column_stack([slopes, np.zeros_like(slopes)])}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags


def _shapes_on_split(
    training: Training, split: Split, number: int, template: TensorMarginClassifier, cache: SplitCache
) -> list[Any] | None:
    """Return the shape of the samples of a split after each preparation; None if one needs more samples than it has."""
    shapes = []
    for which in range(len(training.preparations)):
        prepare = partial(PreparedSplit.of, training, split, which, template)
        try:
            with warnings.catch_warnings(action="ignore", category=UnseenCategoryWarning):
                shapes.append(cache.get((number, which), prepare).fitted.array.sample_shape)
        except ValueError:
            return None
    return shapes


def _shapes_behind(training: Training, on_split: list[Any] | None) -> list[Any]:
    """Return the shape of all samples after each preparation, which is known if that on a split limits no rank."""
    given, shapes = training.array.sample_shape, []
    for which in range(len(training.preparations)):
        shape = None if on_split is None else on_split[which]
        known = shape == given or (isinstance(shape, tuple) and len(shape) == 1)
        if not known and (on_split is None or not side_by_side(on_split, which)):
            shape = shape_of(training.prepared_whole(which)[0])
        shapes.append(shape)
    return shapes


def _n_scored(splits: Sequence[Split]) -> int:
    """Return the number of samples that are held out at least once."""
    return len(np.unique(np.concatenate([test for _, test in splits])))


def _may_be_mu(value: Any) -> bool:
    pair = [value, value] if np.ndim(value) == 0 else list(value)
    return len(pair) == 2 and all(isinstance(one, Real) and 0 <= float(one) < np.inf for one in pair)


def _may_be_rank(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_may_be_rank, value))
    return value is None or (isinstance(value, int | np.integer) and int(value) >= 1)
