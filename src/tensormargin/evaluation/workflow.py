"""The workflow of ``tensormargin fit``: a plan, its nested evaluation, its fit, and the facts about all of them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from math import inf, isfinite
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from ..data import BadFileError, Checkpoint, FactsMixin, Metadata, Views, errors_name_view, fit_rows, no_classes
from ..estimators import METHODS
from ..fitting import FORMATS
from ..inspection import fit_model, last_estimator
from ..io import SampleSet, training_record
from ..runtime import Deadline, Progress, is_lazy, stage_progress
from ..selection import (
    DECOMPOSITIONS,
    KINDS,
    MUS,
    TensorMarginClassifierCV,
    auto_model,
    guess_kind,
    sampling_frequency,
    splits_of,
    time_mode,
)
from ..transformers import Recipe, fit_transformed
from .held_out import SCORES
from .nested import FOLD, NestedEvaluation, checked_outer_splits, fold_seconds, nested_evaluation
from .permutation import PermutationTest, permutation_test
from .summaries import data_facts, evaluation_facts, permutation_facts, search_facts, without_views_facts
from .without_views import ViewsEvaluation, evaluate_without_views

LOW_RANK = tuple(name for name in DECOMPOSITIONS if name != "full")
"""The decompositions that have a rank."""


@dataclass(frozen=True)
class FitPlan:
    """How a model is chosen and evaluated.

    Attributes
    ----------
    auto : bool
        Choose representation, decomposition, rank, lambda, mu and the scheme of several classes, as far as ``method``,
        ``decomposition`` and ``rank`` do not fix them; otherwise only the last three, for one decomposition of weights
        on the samples as they are.
    kind : str
        With ``auto``, the kind of the samples, which decides on the representations to try (see `auto_model`); "auto"
        to guess it, see `with_kind`.
    sfreq : float or None
        Sampling frequency in Hz, for frequency bands; by default that of the samples, if they have one.
    shape, time : tuple of int or None, int
        Shape of a sample after the recipe's steps, and the mode of time of series, which `with_kind` finds out.
    linear : bool
        Try only representations that are linear in the samples, so that the model has a map on the samples.
    method : str or None
        One of the paper's methods (`METHODS`), which has a decomposition and says whether there are margin terms.
    decomposition, rank : str or None, int or tuple or None
        Decomposition and rank of the weight; by default chosen with ``auto``, otherwise Tucker of a small rank. With
        ``auto``, the rank is one number, since representations have modes of their own.
    recipe : Recipe
        Preparation of the samples.
    folds : int
        Number of inner folds, used to choose hyperparameters.
    outer_folds, repeats : int
        Number of outer folds of the nested evaluation and of its repeats; 0 outer folds skip the evaluation.
    permutations : int
        Number of permutations in the test against chance, each of which repeats the whole evaluation; 0 skips the test.
    rule : {"best", "default", "smoothed", "simplest", "margins"} or None
        Which candidate to select, see `TensorMarginClassifierCV`; by default the one that `auto_model` has for the
        kind of samples, otherwise "best".
    exhaustive : bool
        Fit all candidates on all folds instead of dropping the worst early.
    budget : float or None
        Seconds for the fit and its evaluation together, see `fit_and_evaluate`.
    class_weight : "balanced" or None
        With "balanced", models are chosen, evaluated and compared by balanced accuracy.
    seed : int
    without_views : bool
        Repeat the evaluation without each of several views.

    Examples
    --------
    >>> from tensormargin.evaluation import FitPlan
    >>> plan = FitPlan(decomposition="cp", rank=2, outer_folds=0)
    >>> type(plan.model(n_jobs=1, shape=(6, 7))).__name__
    'TensorMarginClassifierCV'
    """

    auto: bool = False
    kind: str = "auto"
    sfreq: float | None = None
    shape: tuple[int, ...] | None = None
    time: int = -1
    linear: bool = False
    method: str | None = None
    decomposition: str | None = None
    rank: int | tuple[int, ...] | None = None
    recipe: Recipe = field(default_factory=Recipe)
    folds: int = 5
    outer_folds: int = 5
    repeats: int = 1
    permutations: int = 0
    rule: str | None = None
    exhaustive: bool = False
    budget: float | None = None
    class_weight: str | None = None
    seed: int = 0
    without_views: bool = False

    def __post_init__(self) -> None:
        if self.method is not None:
            preset = METHODS[self.method]
            object.__setattr__(self, "decomposition", preset["decomposition"])
            object.__setattr__(self, "rank", preset.get("rank") if self.rank is None else self.rank)
        if not self.auto and self.decomposition is None:
            object.__setattr__(self, "decomposition", "tucker")
        if self.auto and isinstance(self.rank, tuple):
            raise ValueError(
                f"rank (--rank) {'x'.join(map(str, self.rank))} has a number per mode of the samples, and "
                "representations have modes of their own; give one number, or leave out --kind and --linear"
            )
        if self.kind not in ("auto", *KINDS):
            raise ValueError(f"kind (--kind) must be one of auto, {', '.join(KINDS)}; got {self.kind!r}")
        if self.sfreq is not None and not (isfinite(self.sfreq) and self.sfreq > 0):
            raise ValueError(f"sfreq (--sfreq) must be a number of Hz above zero; got {self.sfreq:g}")
        if not self.auto and (self.kind != "auto" or self.sfreq is not None or self.linear):
            raise ValueError(
                "kind, sfreq (--sfreq) and linear say which representations are tried, and without auto (--method, "
                "--decomposition and --rank alone) there are none; pass auto=True (--kind auto), or leave them out"
            )
        if self.kind != "auto" and self.recipe.scale != "none":
            raise ValueError(
                f"--kind {self.kind} tries representations that scale the samples themselves; leave out --kind, or "
                f"--scale {self.recipe.scale}"
            )

    @property
    def score(self) -> str:
        """The score by which models are chosen and evaluated."""
        return "accuracy" if self.class_weight is None else "balanced_accuracy"

    @property
    def tries_representations(self) -> bool:
        """Whether representations are tried: not for several views, and not if the scaling was chosen by hand."""
        return self.auto and self.recipe.scale == "none" and self.shape is not None

    @property
    def _fixed(self) -> dict[str, Any]:
        """The parameters of a search that method, decomposition and rank fix."""
        fixed: dict[str, Any] = {}
        if self.decomposition is not None:
            fixed["decompositions"] = (self.decomposition,)
        if self.rank is not None:
            fixed = {"decompositions": LOW_RANK, **fixed, "ranks": (self.rank,)}
        if self.method is not None:
            with_margins = METHODS[self.method].get("mu1", 1.0) > 0
            fixed["mus"] = tuple(mu for mu in MUS if any(mu) == with_margins)
        return fixed

    def searches(self, n_views: int = 1) -> tuple[int, int, int, int]:
        """Return the number of searches in the evaluation, the fit, the permutation test and those without a view."""
        once = self.outer_folds * self.repeats
        permuted = (self.permutations + 1) * (once or self.folds) * (self.permutations > 0)
        return once, 1, permuted, once * n_views * (self.without_views and n_views > 1)

    def model(self, n_jobs: int | None, shape: Any = None) -> Any:
        """Return the unfitted model: a search, in a Pipeline if the recipe has steps that need groups.

        ``shape`` is the shape of the samples, which matters only if they have several views.
        """
        common: dict[str, Any] = {
            "cv": self.folds,
            "exhaustive": self.exhaustive,
            "budget": self.budget,
            "class_weight": self.class_weight,
            "scoring": None if self.score == "accuracy" else self.score,
            "preparation": self.recipe.inner(shape),
            "random_state": self.seed,
            "n_jobs": n_jobs,
        }
        if self.rule is not None:
            common["rule"] = self.rule
        common |= self._fixed
        if self.tries_representations:
            search = auto_model(self.kind, self.shape, self.sfreq, linear=self.linear, time=self.time, **common)
        elif self.auto and self.recipe.scale == "none":
            search = auto_model(scaler=self.recipe.scaler(shape), **common)
        elif self.auto:  # the scaling was chosen by hand
            search = TensorMarginClassifierCV(**common)
        else:
            search = TensorMarginClassifierCV(**{"ranks": (self.rank,), **common})
        steps = self.recipe.outer(shape)
        return Pipeline([*steps, ("classifier", search)]) if steps else search


def with_kind(samples: SampleSet, plan: FitPlan) -> tuple[FitPlan, str]:
    """Return the plan with the kind of the samples and their prepared shape, and a sentence on the kind if it matters.

    Raise ValueError, before any work is done, if the recipe, the kind or the rank does not suit the samples.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin.evaluation import FitPlan, with_kind
    >>> from tensormargin.io import SampleSet
    >>> samples = SampleSet(np.random.rand(8, 6, 9), np.arange(8) % 2, None, None, None, "noise", "plain", ())
    >>> plan, sentence = with_kind(samples, FitPlan(auto=True, kind="image"))
    >>> plan.kind, plan.shape
    ('image', (6, 9))
    """
    plan = replace(plan, recipe=plan.recipe.numbered(samples.axes, samples.sample_shape, samples.affine))
    shape = check_plan(samples, plan)
    if not plan.auto or plan.recipe.scale != "none":
        return plan, ""
    if plan.recipe.marks_missing:
        if plan.kind not in ("auto", "plain"):
            raise ValueError(
                f"kind (--kind) {plan.kind} is for one tensor per sample, and missing entries in a view of their own "
                "(--missing mask) make two; leave out --kind, or fill the entries in another way"
            )
        return replace(plan, kind="plain"), ""
    guessed, why = guess_kind(replace(samples, sfreq=plan.sfreq or samples.sfreq))
    kind = guessed if plan.kind == "auto" else plan.kind
    if isinstance(samples.data, Views) and kind != "plain":
        raise ValueError(f"kind (--kind) {kind} is for one tensor per sample; leave it out for several views")
    if kind == "plain" and shape is None:
        return replace(plan, kind=kind), ""
    if shape is None or None in shape:
        raise ValueError("the samples differ in length; give them one with length (--length)")
    # kernels of samples that stay in their files take too long
    plan = replace(plan, linear=plan.linear or (kind == "plain" and is_lazy(samples.data)))
    sentence = f"treated as {KINDS[kind].words}"
    if plan.kind == "auto":
        sentence += f" because {why} (change with --kind)"
    sentence += "; only what is linear in the samples is tried" if plan.linear else ""
    time = time_mode(samples, shape, kind)
    if time not in (-1, len(shape) - 1):
        sentence += f"; mode {time + 1} is treated as time (change with --modes)"
    given: Any = samples.sample_shape
    sfreq = plan.sfreq or (None if given[time] is None else samples.sfreq)  # resampled series have none in common
    if sfreq is None and shape[time] == given[time]:
        sfreq = sampling_frequency(samples, time)
        sentence += "" if sfreq is None else f"; sampled at {sfreq:g} Hz by their axis of time"
    return replace(plan, kind=kind, sfreq=sfreq, shape=shape, time=time), sentence


def check_plan(samples: SampleSet, plan: FitPlan) -> tuple[int, ...] | None:
    """Raise ValueError if the recipe or the rank does not suit the samples, before any work is done.

    Return the shape of a sample after the recipe's steps; None for several views.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin.evaluation import FitPlan, check_plan
    >>> from tensormargin.io import SampleSet
    >>> from tensormargin.transformers import Recipe
    >>> samples = SampleSet(np.random.rand(8, 6, 9), np.arange(8) % 2, None, None, None, "noise", "plain", ())
    >>> check_plan(samples, FitPlan(recipe=Recipe(resize=(4, 5))))
    (4, 5)
    """
    shape: Any = samples.sample_shape
    several, metadata = isinstance(shape, dict), Metadata(samples.groups, samples.confounds)
    plan.recipe.check_masks(shape, samples.affine)
    if plan.without_views and several and not plan.outer_folds:
        raise ValueError("without_views (--without-views) repeats the evaluation, and there is none; leave one out")
    if plan.without_views and (not several or len(shape) < 2):
        raise ValueError("without_views (--without-views) leaves out one of several views; the samples have only one")
    inner = plan.recipe.inner(shape)
    if several:
        X, steps = samples.data, [step for _, step in plan.recipe.outer(shape)]
        for step in [*steps, *([] if inner is None else [inner])]:
            X = fit_transformed(step, X, None, metadata)
        shape = X.shapes
    elif inner is not None or None in shape:  # of all samples: what a few leave of a crop may be too small for the rank
        shape = plan.recipe.checked_shape(samples.data, metadata, shape)
    if not plan.auto:
        _check_rank(plan, shape)
    return None if isinstance(shape, dict) else tuple(shape)


def check_folds(samples: SampleSet, plan: FitPlan) -> None:
    """Raise ValueError, before any work is done, if labels are no classes, or cannot be divided into folds."""
    y, groups = samples.labels, samples.groups
    if len(np.unique(y)) < 2:
        raise BadFileError(f"{samples.source}: a classifier needs samples of at least two classes; got one, {y[0]}")
    if why := no_classes(y, in_folds=True):
        raise BadFileError(f"{samples.source}: labels {why}")
    try:
        splits_of(plan.folds, y, groups, plan.seed)
        if plan.outer_folds:
            checked_outer_splits(plan.outer_folds, y, groups, plan.repeats, plan.seed)
    except ValueError as error:
        raise BadFileError(f"{samples.source}: {error}") from error


def _check_rank(plan: FitPlan, shape: Any) -> None:
    """Raise ValueError if the rank does not suit samples of a shape, or one of their views, which it names."""
    valid_rank = FORMATS[str(plan.decomposition)].valid_rank
    if not isinstance(shape, dict):
        valid_rank(plan.rank, shape)
        return
    for name, own in shape.items():
        with errors_name_view(name):
            if len(own) > 1:
                valid_rank(plan.rank, own)


@dataclass(frozen=True, repr=False)
class FittedModel(FactsMixin):
    """A fitted model and its metadata as JSON types.

    Examples
    --------
    >>> from tensormargin.evaluation import FittedModel
    >>> FittedModel(model=None, about={"evaluation": None}).about["evaluation"] is None
    True
    """

    model: Any
    about: dict[str, Any]

    def _facts(self) -> list[tuple[str, str]]:
        return [("model", type(self.model).__name__), *fit_rows(self.about)]


def fit_and_evaluate(
    samples: SampleSet,
    plan: FitPlan | None = None,
    n_jobs: int | None = None,
    progress: Progress | None = None,
    checkpoint: Checkpoint | None = None,
    deadline: Deadline | None = None,
) -> FittedModel:
    """Evaluate the plan on held-out samples, fit it to all samples and return the fitted model.

    Without a plan, everything is chosen, as by ``tensormargin fit``.
    A ``checkpoint`` keeps what is finished, so that an interrupted run can be resumed. By default the ``deadline``
    comes after the budget of the plan. The model is fitted, whatever time that takes; outer folds and permutations that
    would not end in time are left out, and ``about["cut"]`` says if there is no time for any.

    Examples
    --------
    >>> from tensormargin.datasets import make_low_rank_classes
    >>> from tensormargin.evaluation import FitPlan, fit_and_evaluate
    >>> from tensormargin.io import SampleSet
    >>> data = make_low_rank_classes(40, (6, 7), rank=1, random_state=0)
    >>> samples = SampleSet(data.data, data.target, None, None, None, "noise", "plain", ())
    >>> fitted = fit_and_evaluate(samples, FitPlan(decomposition="cp", rank=1, folds=2, outer_folds=2))
    >>> fitted.model.predict(data.data[:2]).shape, fitted.about["data"]["source"]
    ((2,), 'noise')
    """
    plan = FitPlan(auto=True) if plan is None else plan
    if plan.recipe.by_group and samples.groups is None:
        raise ValueError(
            f"{samples.source}: scaling by group (--by-group) needs groups; name them with groups (--groups)"
        )
    if plan.recipe.confounds and samples.confounds is None:
        raise ValueError(f"{samples.source}: no confounds were loaded; name them with confounds (--confounds)")
    check_folds(samples, plan)
    plan, _ = with_kind(samples, plan)
    run = _Run(samples, plan, n_jobs, progress, checkpoint, Deadline.of(deadline or plan.budget))
    # with a deadline the model comes first, and tells what an outer fold takes at least
    model = run.fitted() if run.deadline.limited else None
    evaluation = run.evaluation()
    model = run.fitted() if model is None else model
    test = run.permuted()
    without, affine = run.without_views(evaluation), samples.affine
    if isinstance(affine, dict):
        affine = {name: np.asarray(one).tolist() for name, one in affine.items()}
    elif affine is not None:
        affine = np.asarray(affine).tolist()
    about: dict[str, Any] = {
        "data": data_facts(samples),
        "preparation": {"recipe": plan.recipe.facts, "words": plan.recipe.words()},
        "plan": {**asdict(replace(plan, recipe=Recipe())), "recipe": plan.recipe.facts},
        "search": search_facts(last_estimator(model)),
        "evaluation": None if evaluation is None else evaluation_facts(evaluation, samples),
        "chance": None if test is None else permutation_facts(test, SCORES[plan.score]),
        "without_views": None if without is None else without_views_facts(without),
        "affine": affine,
        "space": samples.space,
        "loading": dict(samples.loading),
        "training": dict(training_record(model, samples).facts),
        "cut": run.cut,
    }
    return FittedModel(model, about)


@dataclass
class _Run:
    """The stages of a fit. Each has its share of the time left, and is left out if it would not end in time.

    ``cut`` says which were, in sentences.
    """

    samples: SampleSet
    plan: FitPlan
    n_jobs: int | None
    progress: Progress | None
    checkpoint: Checkpoint | None
    deadline: Deadline
    cut: list[str] = field(default_factory=list)

    @property
    def _stages(self) -> tuple[int, int, int, int]:
        X = self.samples.data
        return self.plan.searches(len(X.names) if isinstance(X, Views) else 1)

    def _due(self, seconds: float, what: str) -> bool:
        """Return whether there is time for a stage, which takes so many seconds at least."""
        due = not self.deadline.limited or self.deadline.allows(seconds)
        if not due:
            self.cut.append(f"{self.deadline} left no time for {what}")
        return due

    def _part(self, stage: int) -> Deadline:
        """Return the deadline of a stage: searches share the time left, and so do the references in outer folds."""
        lengths, order = self._lengths(2.0), self._order
        left = sum(lengths[one] for one in order[order.index(stage) :])
        return self.deadline.part(lengths[stage] / left)

    def _lengths(self, fold: float) -> list[float]:
        """Return what the stages take, in searches, of which an outer fold takes ``fold``."""
        evaluation, fit, test, without = self._stages
        return [fold * evaluation, fit, test, fold * without]

    @property
    def _order(self) -> list[int]:
        """The stages as they follow each other: with a deadline the model comes first."""
        return [1, 0, 2, 3] if self.deadline.limited else [0, 1, 2, 3]

    def _running(self, stage: int, name: str) -> dict[str, Any]:
        """Return the progress and the checkpoint of a stage."""
        lengths, order = self._lengths(FOLD), self._order
        progress = stage_progress(self.progress, [lengths[one] for one in order], order.index(stage), f"{name}: ")
        return {"progress": progress, "checkpoint": self.checkpoint}

    def _evaluated(self, function: Any, stage: int, name: str, **more: Any) -> Any:
        """Return what a function such as `nested_evaluation` finds out about the plan in a stage."""
        samples, model = self.samples, self.plan.model(self.n_jobs, self.samples.sample_shape)
        scheme = {"cv": self.plan.outer_folds, "repeats": self.plan.repeats, "seed": self.plan.seed}
        given = {"groups": samples.groups, "confounds": samples.confounds, "budget": self._part(stage)}
        return function(model, samples.data, samples.labels, **self._running(stage, name), **scheme, **given, **more)

    def fitted(self) -> Any:
        """Return the model, fitted to all samples."""
        samples, model = self.samples, self.plan.model(self.n_jobs, self.samples.sample_shape)
        metadata, running = Metadata(samples.groups, samples.confounds), self._running(1, "fit")
        return fit_model(model, samples.data, samples.labels, metadata, **running, deadline=self._part(1))

    def evaluation(self) -> NestedEvaluation | None:
        """Return the nested evaluation of the plan."""
        if not self.plan.outer_folds or not self._due(fold_seconds(self.deadline), "the evaluation"):
            return None
        return self._evaluated(nested_evaluation, 0, "evaluation")

    def without_views(self, evaluation: NestedEvaluation | None) -> ViewsEvaluation | None:
        """Return the evaluation without each of several views."""
        number = self._stages[3]
        if evaluation is None or not number:
            return None
        if not self._due(number * fold_seconds(self.deadline), "the evaluation without single views"):
            return None
        return self._evaluated(evaluate_without_views, 3, "without views", whole=evaluation)

    def permuted(self) -> PermutationTest | None:
        """Return the permutation test of the plan, with the splits and the score of its evaluation."""
        samples, plan = self.samples, self.plan
        if not plan.permutations:
            return None
        once = self.deadline.costs.of("search") * (plan.outer_folds * plan.repeats or plan.folds)
        if not self._due(2 * once, "the permutation test"):
            return None
        test = permutation_test(
            plan.model(1, samples.sample_shape),
            samples.data,
            samples.labels,
            samples.groups,
            cv=plan.outer_folds or plan.folds,
            n_permutations=plan.permutations,
            n_jobs=self.n_jobs,
            random_state=plan.seed,
            repeats=plan.repeats if plan.outer_folds else 1,
            score=plan.score,
            confounds=samples.confounds,
            budget=self._part(2),
            **self._running(2, "chance"),
        )
        return test if len(test.permuted) or not self._due(inf, "any permutation") else None
