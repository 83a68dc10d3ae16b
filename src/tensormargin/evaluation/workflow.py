"""The workflow of ``tensormargin fit``: evaluate by nested cross-validation, fit, and record the facts."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from ..checkpoints import Checkpoint
from ..io import SampleSet
from ..metadata import Metadata
from ..model_steps import fit_model, last_estimator
from ..predictions import training_record
from ..preparation import Recipe
from ..progress import Progress, stage_progress
from ..views import Views
from .facts import data_facts, evaluation_facts, permutation_facts, search_facts, without_views_facts
from .held_out import SCORES
from .nested import nested_evaluation
from .permutation import PermutationTest, permutation_test
from .plan import FitPlan, with_kind
from .without_views import evaluate_without_views


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
) -> FittedModel:
    """Evaluate the plan on held-out samples, fit it to all samples and return the fitted model.

    A ``checkpoint`` keeps what is finished, so that an interrupted run can be resumed.

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
    X, y, groups, confounds = samples.data, samples.labels, samples.groups, samples.confounds
    if plan.recipe.by_group and groups is None:
        raise ValueError(
            f"{samples.source}: scaling by group (--by-group) needs groups; name them with groups (--groups)"
        )
    if plan.recipe.confounds and confounds is None:
        raise ValueError(f"{samples.source}: no confounds were loaded; name them with confounds (--confounds)")
    plan, _ = with_kind(samples, plan)
    model = plan.model(n_jobs, samples.sample_shape)
    stages = plan.searches(len(X.names) if isinstance(X, Views) else 1)
    evaluation, without = None, None
    if plan.outer_folds:
        evaluation = nested_evaluation(
            model,
            X,
            y,
            groups,
            plan.outer_folds,
            plan.repeats,
            plan.seed,
            stage_progress(progress, stages, 0, "evaluation: "),
            checkpoint=checkpoint,
            confounds=confounds,
        )
    fit_model(
        model,
        X,
        y,
        Metadata(groups, confounds),
        progress=stage_progress(progress, stages, 1, "fit: "),
        checkpoint=checkpoint,
    )
    test = None
    if plan.permutations:
        test = _permuted(samples, plan, n_jobs, stage_progress(progress, stages, 2, "chance: "), checkpoint)
    if evaluation is not None and stages[3]:
        told = stage_progress(progress, stages, 3, "without views: ")
        without = evaluate_without_views(
            plan.model(n_jobs, samples.sample_shape),
            X,
            y,
            groups,
            told,
            whole=evaluation,
            cv=plan.outer_folds,
            repeats=plan.repeats,
            seed=plan.seed,
            checkpoint=checkpoint,
            confounds=confounds,
        )
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
    }
    return FittedModel(model, about)


def _listed(affine: Any) -> Any:
    """Return an affine, or those of several views, as JSON types."""
    if isinstance(affine, dict):
        return {name: np.asarray(one).tolist() for name, one in affine.items()}
    return None if affine is None else np.asarray(affine).tolist()


def _permuted(
    samples: SampleSet, plan: FitPlan, n_jobs: int | None, progress: Progress | None, checkpoint: Checkpoint | None
) -> PermutationTest:
    """Return the permutation test of the plan, with the splits and the score of its evaluation."""
    return permutation_test(
        plan.model(1, samples.sample_shape),
        samples.data,
        samples.labels,
        samples.groups,
        cv=plan.outer_folds or plan.folds,
        n_permutations=plan.permutations,
        n_jobs=n_jobs,
        random_state=plan.seed,
        progress=progress,
        repeats=plan.repeats if plan.outer_folds else 1,
        score=plan.score,
        checkpoint=checkpoint,
        confounds=samples.confounds,
    )
