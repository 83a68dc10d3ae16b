"""What ``tensormargin fit`` does: choose, evaluate honestly, fit, and note everything that a reader must know."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from ..anatomy import fit_model, last_estimator
from ..chance import permutation_test
from ..formats import FORMATS
from ..held_out import SCORES
from ..io import SampleSet, leakage_warnings
from ..io.versions import software_versions
from ..preparation import Recipe
from ..selection import DEFAULT_RULE, Progress, TensorMarginClassifierCV
from .auto import auto_model
from .compare import CompareRow, CompareSettings
from .compare_summary import differences_to_best, summarise
from .nested import REFERENCE, NestedEvaluation, nested_evaluation

_ARRAYS = ("test", "right")  # of a CompareRow: too long for a page


@dataclass(frozen=True)
class FitPlan:
    """How a model is chosen and evaluated.

    Attributes
    ----------
    auto : bool
        Choose everything: scaling, decomposition, rank, lambda, mu. Otherwise lambda and mu for one decomposition.
    decomposition, rank : str, int or tuple or None
        The weight, without ``auto``.
    recipe : Recipe
        What is done to the samples before.
    folds : int
        Of the cross-validation that chooses.
    outer_folds, repeats : int
        Of the evaluation around it, and the number of times that its folds are drawn; no evaluation for 0 outer folds.
    permutations : int
        Of the test against chance, which repeats the whole evaluation for each; none for 0.
    rule : {"best", "simplest", "margins"}
        Which of the models to take, see `TensorMarginClassifierCV`.
    class_weight : "balanced" or None
        With "balanced" models are chosen, evaluated and compared by balanced accuracy.
    seed : int
    """

    auto: bool = False
    decomposition: str = "tucker"
    rank: int | tuple[int, ...] | None = None
    recipe: Recipe = field(default_factory=Recipe)
    folds: int = 5
    outer_folds: int = 5
    repeats: int = 1
    permutations: int = 0
    rule: str = DEFAULT_RULE
    class_weight: str | None = None
    seed: int = 0

    @property
    def score(self) -> str:
        """What models are chosen and evaluated by."""
        return "accuracy" if self.class_weight is None else "balanced_accuracy"

    def model(self, n_jobs: int | None) -> Any:
        """Return the unfitted model: a search, behind steps that need groups if there are any."""
        common: dict[str, Any] = {
            "cv": self.folds,
            "rule": self.rule,
            "class_weight": self.class_weight,
            "scoring": None if self.score == "accuracy" else self.score,
            "preparation": self.recipe.inner(),
            "random_state": self.seed,
            "n_jobs": n_jobs,
        }
        if self.auto and self.recipe.scale == "none":
            search = auto_model(**common)
        elif self.auto:  # the scaling was chosen by hand
            search = TensorMarginClassifierCV(**common)
        else:
            search = TensorMarginClassifierCV((self.decomposition,), ranks=(self.rank,), **common)
        steps = self.recipe.outer()
        return Pipeline([*steps, ("classifier", search)]) if steps else search


@dataclass(frozen=True)
class FittedModel:
    """A fitted model and the facts to keep beside it, of JSON's types."""

    model: Any
    about: dict[str, Any]


def fit_and_evaluate(
    samples: SampleSet, plan: FitPlan, n_jobs: int | None = None, progress: Progress | None = None
) -> FittedModel:
    """Evaluate the plan on parts of the samples that it does not see, then fit it to all of them."""
    X, y, groups = samples.data, samples.labels, samples.groups
    if plan.recipe.by_group and groups is None:
        raise ValueError(f"{samples.source}: scaling by group needs groups; name them with groups (--groups)")
    model = plan.model(n_jobs)
    stages = _Stages(progress, [plan.outer_folds * plan.repeats, 1, plan.permutations])
    evaluation = None
    if plan.outer_folds:
        evaluation = nested_evaluation(
            model, X, y, groups, plan.outer_folds, plan.repeats, plan.seed, stages.stage(0, "evaluation")
        )
    fit_model(model, X, y, groups, progress=stages.stage(1, "fit"))
    about: dict[str, Any] = {
        "data": data_facts(samples),
        "preparation": {"recipe": asdict(plan.recipe), "words": plan.recipe.words()},
        "plan": asdict(plan),
        "search": _search_facts(last_estimator(model)),
        "evaluation": None if evaluation is None else _evaluation_facts(evaluation, samples),
        "chance": _chance_facts(samples, plan, n_jobs, stages),
        "affine": None if samples.affine is None else np.asarray(samples.affine).tolist(),
    }
    return FittedModel(model, about)


def check_plan(samples: SampleSet, plan: FitPlan) -> None:
    """Raise ValueError for what can be known to fail before any work is done: the recipe and the rank."""
    inner = plan.recipe.inner()
    shape = samples.data.shape[1:]
    if inner is not None:  # of all samples: what a few of them leave of a crop may be too small for the rank
        X = plan.recipe.scaled_by_group(samples.data, samples.groups)
        try:
            shape = inner.fit(X).transform(X[:1]).shape[1:]
        except ValueError as error:
            raise ValueError(
                f"the preparation (scale, mask, crop, resize, tensorize) does not suit samples of shape {shape}: "
                f"{error}"
            ) from error
    if not plan.auto:
        FORMATS[plan.decomposition].valid_rank(plan.rank, shape)


class _Stages:
    """One progress for several stages of different length, counted in fits of the whole search."""

    def __init__(self, progress: Progress | None, lengths: Sequence[int]) -> None:
        self._progress, self._lengths = progress, lengths

    def stage(self, number: int, name: str) -> Progress | None:
        if self._progress is None:
            return None
        progress, before = self._progress, sum(self._lengths[:number])

        def show(done: float, total: float, text: str) -> None:
            progress(before + done / total * self._lengths[number], sum(self._lengths), f"{name}: {text}")

        return show


def data_facts(samples: SampleSet) -> dict[str, Any]:
    """Return what a reader must know of the samples."""
    X, y = samples.data, samples.target
    labels, counts = ([], []) if y is None else (part.tolist() for part in np.unique(y, return_counts=True))
    return {
        "source": samples.source,
        "kind": samples.kind,
        "n_samples": len(X),
        "sample_shape": list(X.shape[1:]),
        "dtype": str(X.dtype),
        "minimum": float(X.min()),
        "maximum": float(X.max()),
        "classes": [{"label": label, "count": count} for label, count in zip(labels, counts, strict=True)],
        "n_groups": None if samples.groups is None else len(np.unique(samples.groups)),
        "notes": list(samples.notes),
        "warnings": list(leakage_warnings(samples)),
    }


def comparison_content(
    samples: SampleSet,
    settings: CompareSettings,
    preparation: Sequence[str],
    rows: Sequence[CompareRow],
) -> dict[str, Any]:
    """Return a comparison as JSON's types: data, settings, versions, summary, differences to the best, and rows."""
    plain = {name: _plain(value) for name, value in vars(settings).items() if name != "preparation"}
    summaries = summarise(rows, settings.entries, samples.groups)
    differences = differences_to_best(rows, settings.entries, samples.groups)
    return {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "data": data_facts(samples),
        "settings": plain,
        "preparation": list(preparation),
        "versions": software_versions(),
        "summary": [_all_plain(asdict(summary)) for summary in summaries],
        "differences": [{**_all_plain(asdict(one)), "significant": one.significant} for one in differences],
        "rows": [_all_plain({name: value for name, value in vars(row).items() if name not in _ARRAYS}) for row in rows],
    }


def _search_facts(search: TensorMarginClassifierCV) -> dict[str, Any]:
    results = search.cv_results_
    names = ("decomposition", "rank", "lam", "mu1")
    tried = {name: list(dict.fromkeys(str(value) for value in results[f"param_{name}"])) for name in names}
    if "param_preparation" in results:
        tried["preparation"] = list(dict.fromkeys(str(value) for value in results["param_preparation"]))
    return {
        "tried": tried,
        "n_models": len(results["params"]),
        "n_splits": search.n_splits_,
        "best": {name: _plain(value) for name, value in search.best_params_.items()},
        "best_score": search.best_score_,
    }


def _evaluation_facts(evaluation: NestedEvaluation, samples: SampleSet) -> dict[str, Any]:
    folds = [
        {**asdict(fold), "chosen": _all_plain(fold.chosen), "reference_chosen": _all_plain(fold.reference_chosen)}
        for fold in evaluation.folds
    ]
    tested = np.broadcast_to(evaluation.labels, evaluation.tested.shape)[evaluation.tested]
    labels, counts = np.unique(tested, return_counts=True)
    ours, theirs = evaluation.interval, evaluation.reference_interval
    largest = float(counts.max() / counts.sum())
    return {
        "scheme": evaluation.scheme,
        "seed": evaluation.seed,
        "score": {"name": SCORES[evaluation.score], "value": ours.score},
        "interval": [ours.low, ours.high],
        "unit": ours.unit,
        "n_units": ours.n_units,
        "n_tested": int(evaluation.tested.any(axis=0).sum()),
        "n_untested": int(np.sum(~evaluation.tested.any(axis=0))),
        "repeats": len(evaluation.tested),
        "accuracy": evaluation.accuracy,
        "balanced_accuracy": evaluation.balanced_accuracy,
        "reference": {
            "name": REFERENCE,
            "score": theirs.score,
            "interval": [theirs.low, theirs.high],
            "accuracy": evaluation.reference,
            "balanced_accuracy": evaluation.reference_balanced_accuracy,
        },
        "difference": {**asdict(evaluation.difference), "significant": evaluation.difference.significant},
        "majority": {
            "label": labels.tolist()[counts.argmax()],
            "accuracy": largest,
            "score": largest if evaluation.score == "accuracy" else 1 / len(labels),
        },
        "folds": folds,
        "samples": _sample_rows(evaluation, samples),
    }


def _sample_rows(evaluation: NestedEvaluation, samples: SampleSet) -> list[dict[str, Any]]:
    """Return for each held-out prediction what the sample was taken for."""
    labels, names = evaluation.labels.tolist(), samples.names or [str(k) for k in range(len(evaluation.labels))]
    groups = [None] * len(labels) if evaluation.groups is None else evaluation.groups.tolist()
    predicted, confidence = evaluation.predicted.tolist(), evaluation.confidence.tolist()
    return [
        {
            "repeat": repeat,
            "sample": names[row],
            "group": groups[row],
            "label": labels[row],
            "predicted": predicted[repeat][row],
            "probability": _number(confidence[repeat][row]),
        }
        for repeat, row in np.argwhere(evaluation.tested).tolist()
    ]


def _chance_facts(samples: SampleSet, plan: FitPlan, n_jobs: int | None, stages: _Stages) -> dict[str, Any] | None:
    if not plan.permutations:
        return None
    test = permutation_test(
        plan.model(1),
        samples.data,
        samples.labels,
        samples.groups,
        cv=plan.outer_folds or plan.folds,
        n_permutations=plan.permutations,
        n_jobs=n_jobs,
        random_state=plan.seed,
        progress=stages.stage(2, "chance"),
        repeats=plan.repeats if plan.outer_folds else 1,
        score=plan.score,
    )
    return {
        "score": test.score,
        "score_name": SCORES[plan.score],
        "p_value": test.p_value,
        "smallest_p": test.smallest_p,
        "n_permutations": plan.permutations,
        "exchanged": test.permuted_what,
        "fixed_groups": test.fixed_groups,
        "n_fixed": test.n_fixed,
        "permuted": test.permuted.tolist(),
    }


def _number(value: float) -> float | None:
    """Return a number that JSON has: not NaN."""
    return float(value) if np.isfinite(value) else None


def _all_plain(values: dict[str, Any]) -> dict[str, Any]:
    return {name: _plain(value) for name, value in values.items()}


def _plain(value: Any) -> Any:
    """Return a parameter's value as one of JSON's types."""
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, float):
        return _number(value)
    return value if value is None or isinstance(value, bool | int | float | str) else repr(value)
