"""The sentence that a report begins with, and what a reader should not conclude from the rest of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..evaluation import MAJORITY
from ..inspection import ModelChain
from ..runtime import percent, points
from .sentences import CONFOUNDS_WARNING, p_in_words, units_in_words

_LIKELY = 0.05
_UNEQUAL = 1.5  # a largest class this many times the share of equal ones makes accuracy misleading
_MOST_NAMED = 4  # classes


def model_sentence(
    classes: Sequence[Any], evaluation: Mapping[str, Any] | None, chance: Mapping[str, Any] | None
) -> str:
    """Return what a model does, and whether it beats chance and the flat reference, in one sentence."""
    task = f"This model tells {_apart(classes)}"
    if evaluation is None:
        return f"{task}; it was not evaluated, so how well it does on new samples is not known."
    versus_chance, versus_reference = _versus_chance(evaluation, chance), _versus_references(evaluation)
    if versus_chance and versus_reference:
        joined = "but" if versus_chance.startswith("significantly") and versus_reference.startswith("not") else "and"
        return f"{task}: on held-out samples it is {versus_chance}, {joined} {versus_reference}."
    known = versus_chance or versus_reference
    said = f"on held-out samples it is {known}; " if known else ""
    return f"{task}: {said}{units_in_words(evaluation)} are too few to say more."


def _apart(classes: Sequence[Any]) -> str:
    names = [str(label) for label in classes]
    if len(names) == 2:
        return f"{names[0]} from {names[1]}"
    if len(names) > _MOST_NAMED:
        return f"{len(names)} classes apart"
    return f"{', '.join(names[:-1])} and {names[-1]} apart"


def _versus_chance(evaluation: Mapping[str, Any], chance: Mapping[str, Any] | None) -> str:
    """Return how a score compares with chance: by the permutation test, or with the majority class."""
    if chance is not None:
        better = "significantly better" if chance["p_value"] <= _LIKELY else "not significantly better"
        return f"{better} than chance ({p_in_words(chance['p_value'])})"
    low, majority = evaluation["interval"][0], evaluation["majority"]
    if low is None:
        return ""
    better = "significantly better" if low > majority["score"] else "not significantly better"
    return f"{better} than always predicting {majority['label']} ({percent(majority['score'])} %)"


def _versus_references(evaluation: Mapping[str, Any]) -> str:
    """Return how a score compares with the flat reference, on the samples and on the chosen representation."""
    reference, matched = evaluation["reference"], evaluation.get("matched")
    verdict, flat, score = (
        _verdict(evaluation["difference"]),
        f"a flat {reference['name']}",
        percent(reference["score"]),
    )
    if not verdict:
        return ""
    if not matched:
        return f"{verdict} {flat} ({score} %)"
    again, first = _verdict(matched["difference"]), f"{verdict} {flat} on the samples as they are ({score} %)"
    other = "or" if again == verdict else f", but {again} one"
    return f"{first} {other} on the chosen representation ({percent(matched['score'])} %)".replace(" , ", ", ")


def _verdict(difference: Mapping[str, Any]) -> str:
    if difference["low"] is None:
        return ""
    if not difference["significant"]:
        return "not significantly different from"
    return f"significantly {'better' if difference['difference'] > 0 else 'worse'} than"


def limits(model: Any, about: Mapping[str, Any], with_maps: bool) -> list[str]:
    """Return what a reader should not conclude from a report; only what applies to this one.

    Parameters
    ----------
    model : estimator
    about : mapping
        The facts of the model; parts may be missing.
    with_maps : bool
        Whether the page has maps of the weight or the pattern.
    """
    evaluation, data = about.get("evaluation"), about.get("data") or {}
    lines = ["How well the model does on new samples was not measured."] if evaluation is None else []
    if evaluation is not None:
        lines += [*_of_score(evaluation, data), *_of_comparison(evaluation), *_of_choices(about)]
    lines += _of_chance(about.get("chance"))
    lines += [CONFOUNDS_WARNING] if ModelChain.of(model).confounds_by_view else [_NO_CONFOUNDS]
    return lines + (_OF_MAPS if with_maps else [])


_NO_CONFOUNDS = (
    "The model need not use what you have in mind: no confounds were removed, and anything that differs between the "
    "classes helps it, such as age, motion, device or the order of the recordings."
)
_OF_MAPS = [
    "A large weight does not mean that the classes differ there, and a small one not that they are alike: weights also "
    "cancel noise. The activation pattern shows what changes with the score; it shows no causes.",
    "No entry of a map was tested by itself: single peaks are not findings, and what the model does without may still "
    "carry information.",
]


def comparison_limits(content: Mapping[str, Any], with_maps: bool) -> list[str]:
    """Return what a reader should not conclude from a comparison of methods."""
    data, differences = content["data"], content["differences"]
    lines = _of_samples(data["n_samples"], data)
    if len(content["summary"]) > 2:  # the majority class and more than one method
        lines.append(
            "The accuracy of the best of several methods is optimistic on average, since the same test sets chose it; "
            "tensormargin fit evaluates a model together with its choice."
        )
    alike = [one["method"] for one in differences if not one["significant"] and one["method"] != MAJORITY]
    if alike:
        lines.append(
            f"A difference that is not significant does not make methods equally good: {', '.join(alike)} may be worse "
            f"than {differences[0]['best']} or better."
        )
    lines.append("Another data set may have another order: this is a comparison on one.")
    return lines + (_OF_MAPS if with_maps else [])


def _of_samples(count: int, data: Mapping[str, Any]) -> list[str]:
    """Return which samples a score is about, and what they must not have in common."""
    lines = [f"The score may be too good to be true: {warning}" for warning in data.get("warnings", [])]
    lines.append(
        f"The score is that of samples like these {count}, with the same shares of the classes; other people, devices, "
        "sites or preprocessing may give another one."
    )
    if not data.get("n_groups"):
        lines.append(
            "Every sample counts as independent. If some belong together (a person, a session, a place), the score is "
            "too high for new ones: run it again with --groups."
        )
    return lines


def _of_score(evaluation: Mapping[str, Any], data: Mapping[str, Any]) -> list[str]:
    """Return what the score says about new samples, and what it hides."""
    wrong = round(100 * (1 - evaluation["accuracy"]))
    lines = _of_samples(evaluation["n_tested"], data)
    low, majority = evaluation["interval"][0], evaluation["majority"]
    if low is not None and low > majority["score"] and wrong:
        lines.append(f"Significant is not the same as useful: about {wrong} of 100 such predictions are wrong.")
    share, count = majority.get("accuracy"), len({row["label"] for row in evaluation["samples"]})
    if share is not None and evaluation["score"]["name"] == "accuracy" and share * count >= _UNEQUAL:
        lines.append(
            f"The accuracy says little about rare classes: {percent(share)} % of the samples are {majority['label']}. "
            f"The balanced accuracy is {percent(evaluation['balanced_accuracy'])} %."
        )
    return lines


def _of_comparison(evaluation: Mapping[str, Any]) -> list[str]:
    difference, name = evaluation["difference"], evaluation["reference"]["name"]
    if difference["low"] is None:
        return []
    low, high = points(difference["low"]), points(difference["high"])
    if difference["significant"]:
        return [f"On other data the flat {name} may well be the better one: the difference is that of these samples."]
    return [
        f"That the difference to the flat {name} is not significant does not make both equally good: anything from "
        f"{low} to {high} points is compatible with these samples."
    ]


def _of_choices(about: Mapping[str, Any]) -> list[str]:
    search = about.get("search") or {}
    counted = f"of {search['n_models']} models " if search.get("n_models") else ""
    return [
        f"The choice {counted}is part of the evaluation; choices by hand are not. If you change options or leave out "
        "samples until this page looks better, the score is no longer that of new samples."
    ]


def _of_chance(chance: Mapping[str, Any] | None) -> list[str]:
    if chance is None:
        return []
    said = (
        "A p-value this large does not show that there is nothing to find, only that these samples do not show it."
        if chance["p_value"] > _LIKELY
        else "The p-value is not the probability that the score is due to chance, and a small one is no large effect."
    )
    return [f"{said} With {chance['n_permutations']} permutations it cannot be below {chance['smallest_p']:.2g}."]
