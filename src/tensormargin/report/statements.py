"""What a methods section needs to state, in sentences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..anatomy import all_steps, classifier_of, last_estimator
from ..estimators import TensorMarginClassifier
from ..preparation import KeepsTensors

_FORMS = {"full": "full weight", "cp": "CP weight", "tucker": "Tucker weight", "tt": "Tensor-Train weight"}

_RULES = {
    "best": "the best",
    "simplest": "the simplest within one standard error of the best",
    "margins": "of those within one standard error of the best the one with the smallest Cantelli bound on its "
    "validation margins",
}


def percent(value: float | None) -> str:
    """Return a share as percent with one decimal."""
    return "-" if value is None else f"{100 * value:.1f}"


def said_model(classifier: TensorMarginClassifier) -> str:
    """Return how the weight is written, in words."""
    form = _FORMS[classifier.decomposition]
    return form if classifier.decomposition == "full" else f"{form} of rank {_rank(classifier)}"


def said_rule(search: Any) -> str:
    """Return which of the models a search takes, in words."""
    return _RULES[search.rule]


def _rank(classifier: TensorMarginClassifier) -> str:
    weight = classifier.weight_[0] if isinstance(classifier.weight_, list) else classifier.weight_
    rank = classifier.rank if classifier.rank is not None else getattr(weight, "rank", None)
    return str(rank)


def statements(model: Any, facts: Mapping[str, Any]) -> list[str]:
    """Return sentences on data, preparation, model, choice, evaluation and software."""
    about = facts.get("about", {})
    lines = [_data(about.get("data")), _preparation(model), _model(model)]
    lines += [_choice(model, about.get("search")), _evaluation(about.get("evaluation")), _chance(about.get("chance"))]
    versions = facts["versions"]
    lines.append("Software: " + ", ".join(f"{name} {version}" for name, version in versions.items()) + ".")
    return [line for line in lines if line]


def _data(data: Mapping[str, Any] | None) -> str:
    if data is None:
        return ""
    classes = ", ".join(f"{row['label']}: {row['count']}" for row in data["classes"])
    shape = " x ".join(map(str, data["sample_shape"]))
    groups = f", in {data['n_groups']} groups" if data["n_groups"] else ""
    return f"Data: {data['n_samples']} samples of {shape}{groups} ({classes})."


def said_steps(model: Any) -> list[str]:
    """Return what is done to samples before the classifier, a sentence a step."""
    return [said_step(step) for step in all_steps(model)]


def said_step(step: Any) -> str:
    """Return what a transformer does, in words."""
    return step.words() if isinstance(step, KeepsTensors) else repr(step)


def _preparation(model: Any) -> str:
    return f"Preparation: {'; '.join(said_steps(model)) or 'none'}."


def _model(model: Any) -> str:
    classifier = classifier_of(model)
    count = len(classifier.coef_)
    scheme = "one against one" if classifier.multi_class_ == "ovo" else "one against the rest"
    several = "" if count == 1 else f" {count} binary problems ({scheme})."
    weighted = f" Class weights: {classifier.class_weight}." if classifier.class_weight else ""
    return (
        f"Model: large margin distribution classifier (SPMD-LRT family, Eq. 7) with a {said_model(classifier)}, "
        f"lambda = {classifier.lam}, mu1 = mu2 = {classifier.mu1:g} in units of the scale-free default, tolerance "
        f"{classifier.tol:g}.{several}{weighted}"
    )


def _choice(model: Any, search: Mapping[str, Any] | None) -> str:
    if search is None:
        return ""
    tried = "; ".join(
        f"{name}: {', '.join(_tried(value) for value in values)}" for name, values in search["tried"].items()
    )
    rule = said_rule(last_estimator(model))
    return (
        f"Choice: {search['n_models']} models by {search['n_splits']}-fold cross-validation, {rule} taken ({tried}); "
        "refitted on all samples."
    )


def _tried(value: str) -> str:
    return "none" if value == "None" else value


def _evaluation(evaluation: Mapping[str, Any] | None) -> str:
    if evaluation is None:
        return "Evaluation: none."
    low, high = evaluation["interval"]
    interval = f", 95 % interval {percent(low)} to {percent(high)} % (Wilson, {evaluation['n_tested']} samples)"
    return (
        f"Evaluation: nested, {evaluation['scheme']}, seed {evaluation['seed']}; accuracy "
        f"{percent(evaluation['accuracy'])} %{interval}; flat {evaluation['reference']['name']} with C chosen on the "
        f"same training parts {percent(evaluation['reference']['accuracy'])} %."
    )


def _chance(chance: Mapping[str, Any] | None) -> str:
    if chance is None:
        return ""
    return (
        f"Permutation test: {chance['n_permutations']} permutations of {chance['exchanged']}, all choices made anew "
        f"for each, p = {chance['p_value']:.3g}."
    )


def evaluation_lines(evaluation: Mapping[str, Any] | None, chance: Mapping[str, Any] | None) -> list[str]:
    """Return what is known of how well a model does, and whether that is better than a flat one."""
    if evaluation is None:
        return ["This model was not evaluated: how well it does on new samples is not known.", *_chance_lines(chance)]
    low, high = evaluation["interval"]
    accuracy, balanced = evaluation["accuracy"], evaluation["balanced_accuracy"]
    lines = [
        f"Accuracy on samples left out of every choice: {percent(accuracy)} % (95 % interval {percent(low)} to "
        f"{percent(high)}); mean of the classes' recalls: {percent(balanced)} %."
    ]
    if low <= evaluation["majority"]["accuracy"]:
        lines.append(
            f"That is not shown to be better than always saying {evaluation['majority']['label']} "
            f"({percent(evaluation['majority']['accuracy'])} %)."
        )
    reference, majority = evaluation["reference"], evaluation["majority"]
    lines.append(
        f"A flat {reference['name']}, tuned alike on the same parts: {percent(reference['accuracy'])} %; the largest "
        f"class alone: {percent(majority['accuracy'])} %. {_verdict(evaluation)}"
    )
    return [*lines, *_chance_lines(chance)]


def _chance_lines(chance: Mapping[str, Any] | None) -> list[str]:
    if chance is None:
        return []
    return [
        f"Permutation test: p = {chance['p_value']:.3g} ({chance['n_permutations']} permutations of "
        f"{chance['exchanged']}; the smallest possible p is {1 / (1 + chance['n_permutations']):.2g})."
    ]


def _verdict(evaluation: Mapping[str, Any]) -> str:
    """Say whether it helps, as far as the interval of the difference shows it."""
    low, high = evaluation["gain_interval"]
    if low is None:
        return "One test part does not tell whether that differs."
    if low > 0:
        return "The model is better than the flat one."
    if high < 0:
        return "The model is worse than the flat one."
    return "These samples do not show a difference between the two."
