"""The workflow of ``tensormargin fit``: evaluate by nested cross-validation, fit, and record the facts."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from math import inf
from typing import Any

import numpy as np

from ..data import Checkpoint, Metadata, Views
from ..inspection import fit_model, last_estimator
from ..io import SampleSet, training_record
from ..runtime import Deadline, Progress, stage_progress
from ..transformers import Recipe
from .held_out import SCORES
from .nested import NestedEvaluation, fold_seconds, nested_evaluation
from .permutation import PermutationTest, permutation_test
from .plan import FitPlan, with_kind
from .summaries import data_facts, evaluation_facts, permutation_facts, search_facts, without_views_facts
from .without_views import ViewsEvaluation, evaluate_without_views


@dataclass(frozen=True)
class FittedModel:
    """A fitted model and its metadata as JSON types.

    Examples
    --------
    >>> from tensormargin.datasets import make_low_rank_classes
    >>> from tensormargin.evaluation import FitPlan, fit_and_evaluate
    >>> from tensormargin.io import SampleSet
    >>> data = make_low_rank_classes(40, (6, 7), rank=1, random_state=0)
    >>> samples = SampleSet(data.data, data.target, None, None, None, "noise", "plain", ())
    >>> fitted = fit_and_evaluate(samples, FitPlan(decomposition="cp", rank=1, folds=2, outer_folds=0))
    >>> fitted.about["evaluation"] is None
    True
    """

    model: Any
    about: dict[str, Any]


def fit_and_evaluate(
    samples: SampleSet,
    plan: FitPlan,
    n_jobs: int | None = None,
    progress: Progress | None = None,
    checkpoint: Checkpoint | None = None,
    deadline: Deadline | None = None,
) -> FittedModel:
    """Evaluate the plan on held-out samples, fit it to all samples and return the fitted model.

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
    >>> fitted.model.predict(data.data[:2]).shape
    (2,)
    >>> fitted.about["data"]["source"]
    'noise'
    """
    if plan.recipe.by_group and samples.groups is None:
        raise ValueError(
            f"{samples.source}: scaling by group (--by-group) needs groups; name them with groups (--groups)"
        )
    if plan.recipe.confounds and samples.confounds is None:
        raise ValueError(f"{samples.source}: no confounds were loaded; name them with confounds (--confounds)")
    plan, _ = with_kind(samples, plan)
    run = _Run(samples, plan, n_jobs, progress, checkpoint, Deadline.of(deadline or plan.budget))
    if run.deadline.limited:  # the model comes first, and tells what an outer fold takes at least
        model = run.fitted()
        evaluation = run.evaluation()
    else:
        evaluation = run.evaluation()
        model = run.fitted()
    test = run.permuted()
    without = run.without_views(evaluation)
    about: dict[str, Any] = {
        "data": data_facts(samples),
        "preparation": {"recipe": plan.recipe.facts, "words": plan.recipe.words()},
        "plan": {**asdict(replace(plan, recipe=Recipe())), "recipe": plan.recipe.facts},
        "search": search_facts(last_estimator(model)),
        "evaluation": None if evaluation is None else evaluation_facts(evaluation, samples),
        "chance": None if test is None else permutation_facts(test, SCORES[plan.score]),
        "without_views": None if without is None else without_views_facts(without),
        "affine": _listed(samples.affine),
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

    def _told(self, stage: int, name: str) -> Progress | None:
        return stage_progress(self.progress, self._stages, stage, f"{name}: ")

    def _due(self, seconds: float, what: str) -> bool:
        """Return whether there is time for a stage, which takes so many seconds at least."""
        due = not self.deadline.limited or self.deadline.allows(seconds)
        if not due:
            self.cut.append(f"{self.deadline} left no time for {what}")
        return due

    def _part(self, stage: int) -> Deadline:
        """Return the deadline of a stage: searches share the time left, and so do the references in outer folds."""
        evaluation, fit, test, without = self._stages
        lengths = [2 * evaluation, fit, test, 2 * without]
        order = [1, 0, 2, 3]
        left = sum(lengths[one] for one in order[order.index(stage) :])
        return self.deadline.part(lengths[stage] / left)

    def fitted(self) -> Any:
        """Return the model, fitted to all samples."""
        samples = self.samples
        return fit_model(
            self.plan.model(self.n_jobs, samples.sample_shape),
            samples.data,
            samples.labels,
            Metadata(samples.groups, samples.confounds),
            progress=self._told(1, "fit"),
            checkpoint=self.checkpoint,
            deadline=self._part(1),
        )

    def evaluation(self) -> NestedEvaluation | None:
        """Return the nested evaluation of the plan."""
        samples, plan = self.samples, self.plan
        if not plan.outer_folds or not self._due(fold_seconds(self.deadline), "the evaluation"):
            return None
        model = plan.model(self.n_jobs, samples.sample_shape)
        return nested_evaluation(model, samples.data, samples.labels, **self._evaluating(0, "evaluation"))

    def _evaluating(self, stage: int, name: str) -> dict[str, Any]:
        """Return the arguments of `nested_evaluation` for a stage that evaluates the plan."""
        samples, plan = self.samples, self.plan
        return {
            "groups": samples.groups,
            "confounds": samples.confounds,
            "cv": plan.outer_folds,
            "repeats": plan.repeats,
            "seed": plan.seed,
            "progress": self._told(stage, name),
            "checkpoint": self.checkpoint,
            "budget": self._part(stage),
        }

    def without_views(self, evaluation: NestedEvaluation | None) -> ViewsEvaluation | None:
        """Return the evaluation without each of several views."""
        samples, plan, number = self.samples, self.plan, self._stages[3]
        if evaluation is None or not number:
            return None
        if not self._due(number * fold_seconds(self.deadline), "the evaluation without single views"):
            return None
        model, more = plan.model(self.n_jobs, samples.sample_shape), self._evaluating(3, "without views")
        return evaluate_without_views(model, samples.data, samples.labels, whole=evaluation, **more)

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
            progress=self._told(2, "chance"),
            repeats=plan.repeats if plan.outer_folds else 1,
            score=plan.score,
            checkpoint=self.checkpoint,
            confounds=samples.confounds,
            budget=self._part(2),
        )
        return test if len(test.permuted) or not self._due(inf, "any permutation") else None


def _listed(affine: Any) -> Any:
    """Return an affine, or those of several views, as JSON types."""
    if isinstance(affine, dict):
        return {name: np.asarray(one).tolist() for name, one in affine.items()}
    return None if affine is None else np.asarray(affine).tolist()
