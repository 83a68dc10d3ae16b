"""Settings of ``tensormargin fit``: how a model is chosen and evaluated."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any

from sklearn.pipeline import Pipeline

from ..data import Metadata, Views
from ..fitting import FORMATS
from ..io import SampleSet
from ..runtime import is_lazy
from ..selection import KINDS, TensorMarginClassifierCV, auto_model, guess_kind, sampling_frequency, time_mode
from ..transformers import Recipe, fit_transformed

_ALONG_TIME = ("series", "eeg")  # kinds whose representations go along time


@dataclass(frozen=True)
class FitPlan:
    """How a model is chosen and evaluated.

    Attributes
    ----------
    auto : bool
        Choose representation, decomposition, rank, lambda, mu and the scheme of several classes; otherwise only the
        last three, for one decomposition.
    kind : str
        With ``auto``, the kind of the samples, which decides on the representations to try (see `auto_model`); "auto"
        to guess it, see `with_kind`.
    sfreq : float or None
        Sampling frequency in Hz, for frequency bands; by default that of the samples, if they have one.
    shape : tuple of int or None
        Shape of a sample after the recipe's steps, which `with_kind` finds out.
    time : int
        The mode of time of series, counted from 0, which `with_kind` finds out; -1 for the last.
    linear : bool
        Try only representations that are linear in the samples, so that the model has a map on the samples.
    decomposition, rank : str, int or tuple or None
        Decomposition and rank of the weight; ignored with ``auto``.
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
    decomposition: str = "tucker"
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
        if self.kind not in ("auto", *KINDS):
            raise ValueError(f"kind (--kind) must be one of auto, {', '.join(KINDS)}; got {self.kind!r}")
        if self.sfreq is not None and not (isfinite(self.sfreq) and self.sfreq > 0):
            raise ValueError(f"sfreq (--sfreq) must be a number of Hz above zero; got {self.sfreq:g}")
        if not self.auto and (self.kind != "auto" or self.sfreq is not None or self.linear):
            raise ValueError("--kind, --sfreq and --linear say what --auto tries; add --auto, or leave them out")
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
        if self.tries_representations:
            search = auto_model(self.kind, self.shape, self.sfreq, linear=self.linear, time=self.time, **common)
        elif self.auto and self.recipe.scale == "none":
            search = auto_model(scaler=self.recipe.scaler(shape), **common)
        elif self.auto:  # the scaling was chosen by hand
            search = TensorMarginClassifierCV(**common)
        else:
            search = TensorMarginClassifierCV((self.decomposition,), ranks=(self.rank,), **common)
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
    guessed, why = guess_kind(samples)
    kind = guessed if plan.kind == "auto" else plan.kind
    if isinstance(samples.data, Views):
        if kind != "plain":
            raise ValueError(f"kind (--kind) {kind} is for one tensor per sample; leave it out for several views")
        return replace(plan, kind=kind), ""
    if kind == "plain" and (shape is None or is_lazy(samples.data)):
        return replace(plan, kind=kind), ""
    if shape is None or None in shape:
        raise ValueError("the samples differ in length; give them one with length (--length)")
    said = _format_plan(plan, samples, kind, why)
    time = time_mode(samples, shape) if kind in _ALONG_TIME else -1
    if time not in (-1, len(shape) - 1):
        said += f"; their mode {time + 1} is taken for time, which --modes changes"
    given: Any = samples.sample_shape
    sfreq = plan.sfreq or (None if given[time] is None else samples.sfreq)  # resampled series have none in common
    if sfreq is None and shape[time] == given[time]:
        sfreq = sampling_frequency(samples, time)
        said += "" if sfreq is None else f"; sampled at {sfreq:g} Hz, as the axis of time says"
    return replace(plan, kind=kind, sfreq=sfreq, shape=shape, time=time), said


def _format_plan(plan: FitPlan, samples: SampleSet, kind: str, why: str) -> str:
    """Return a sentence on the kind of the samples and where it is known from."""
    linear = "; only what is linear in the samples is tried" if plan.linear else ""
    if plan.kind != "auto":
        return f"of kind {kind}{linear}"
    said = f"of kind {kind}, as" if samples.field is not None else f"taken for {kind}, since"
    return f"{said} {why}; --kind changes that{linear}"


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
    plan.recipe.check_masks(shape, samples.affine)
    inner = plan.recipe.inner(shape)
    if isinstance(shape, dict):
        _check_views(samples, plan)
        return None
    if plan.without_views:
        raise ValueError("without_views (--without-views) leaves out one of several views; the samples have only one")
    if inner is not None or None in shape:  # of all samples: what a few leave of a crop may be too small for the rank
        metadata = Metadata(samples.groups, samples.confounds)
        shape = plan.recipe.checked_shape(samples.data, metadata, shape)
    if isinstance(shape, dict):  # what was missing is a view of its own
        if not plan.auto:
            _check_ranks(plan, shape)
        return None
    if not plan.auto:
        FORMATS[plan.decomposition].valid_rank(plan.rank, shape)
    return tuple(shape)


def _check_views(samples: SampleSet, plan: FitPlan) -> None:
    """Raise ValueError if the recipe or the rank does not suit the views."""
    X, metadata = samples.data, Metadata(samples.groups, samples.confounds)
    recipe, shape = plan.recipe, samples.sample_shape
    if plan.without_views and not plan.outer_folds:
        raise ValueError("without_views (--without-views) repeats the evaluation, and there is none; leave one out")
    if plan.without_views and len(X.names) < 2:
        raise ValueError("without_views (--without-views) leaves out one of several views; the samples have only one")
    inner = recipe.inner(shape)
    for step in [*(step for _, step in recipe.outer(shape)), *([] if inner is None else [inner])]:
        X = fit_transformed(step, X, None, metadata)
    if plan.auto:
        return
    _check_ranks(plan, X.shapes)


def _check_ranks(plan: FitPlan, shapes: dict[str, tuple[int, ...]]) -> None:
    """Raise ValueError if the rank does not suit one of several views."""
    for name, own in shapes.items():
        if len(own) > 1:
            try:
                FORMATS[plan.decomposition].valid_rank(plan.rank, own)
            except ValueError as error:
                raise ValueError(f"view {name!r}: {error}") from error
