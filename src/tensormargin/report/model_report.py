"""The report of a fitted model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .._typing import Array
from ..affine import NotAffineError
from ..evaluation import data_facts
from ..io import SampleSet
from ..kernels import TensorKernel
from ..margins import MarginReport, margin_report
from ..metadata import Metadata
from ..model_steps import (
    AveragedClassifier,
    all_steps,
    classifier_of,
    confounds_by_view,
    problem_names,
    sample_shape,
    samples_for_map,
    search_of,
    weight_maps,
)
from ..patterns import activation_pattern
from ..plots import (
    plot_convergence,
    plot_factors,
    plot_margins,
    plot_permutations,
    plot_ranks,
    plot_search,
)
from ..preparation.confounds import listed
from ..statements import (
    CONFOUNDS_WARNING,
    describe_chosen,
    describe_model,
    describe_rule,
    describe_steps,
    describe_strengths,
    describe_wrappers,
    difference_in_words,
    evaluation_lines,
    fold_name,
    fold_note,
    percent,
    statements,
)
from .maps import map_content, n_shown
from .page import Page, Section, cell, table
from .pictures import Picture, picture, pictures_of_intervals
from .view_sections import view_sections, views_overview

_MOST_PICTURES = 6
_MOST_ROWS = 20_000


def model_page(model: Any, facts: Mapping[str, Any], samples: SampleSet | None = None) -> Page:
    """Return the report page of a fitted model.

    Parameters
    ----------
    model : estimator or Pipeline
    facts : mapping
        As returned by `tensormargin.io.load_model`; sections missing from "about" are left out.
    samples : SampleSet, optional
        The training samples, used for margins and activation patterns.

    Examples
    --------
    >>> import tempfile
    >>> from tensormargin import TensorMarginClassifier, save_model
    >>> from tensormargin.datasets import make_low_rank_classes
    >>> from tensormargin.report import model_page
    >>> data = make_low_rank_classes(40, (6, 7), rank=1, random_state=0)
    >>> clf = TensorMarginClassifier("cp", 1).fit(data.data, data.target)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = model_page(clf, save_model(f"{folder}/model.skops", clf))
    >>> page.title
    'Model: -1 or 1'
    """
    about = facts.get("about", {})
    evaluation = about.get("evaluation")
    margins = _margins(model, samples)
    whose = _whose(about.get("data"), samples)
    hardest = _hardest(margins, len(problem_names(model)))
    sections = [
        _data(about.get("data")),
        _comparison(evaluation, about.get("chance")),
        _chosen(model, about),
        views_overview(model, about),
        _confounds(model),
        _pictures_of_margins(model, margins, hardest, whose),
        _convergence(model),
        *view_sections(model, about, samples, hardest, whose),
        _maps(model, samples, whose),
        _factors(model, hardest),
        _confusion(evaluation),
        _samples(evaluation),
        _methods(model, facts),
    ]
    data = about.get("data") or {}
    title = f"{Path(data.get('source', 'Model')).name}: {' or '.join(map(str, facts['classes'][:4]))}"
    title += f" and {len(facts['classes']) - 4} more" if len(facts["classes"]) > 4 else ""
    return Page(
        title=title,
        headline=evaluation_lines(evaluation, about.get("chance")),
        created=facts["created"],
        versions=facts["versions"],
        sections=[section for section in sections if section is not None],
    )


def _data(data: Mapping[str, Any] | None) -> Section | None:
    if data is None:
        return None
    return Section("Data", "data.html", {"data": data, "largest": max(row["count"] for row in data["classes"])})


def _comparison(evaluation: Mapping[str, Any] | None, chance: Mapping[str, Any] | None) -> Section | None:
    if evaluation is None:
        return None
    reference, majority, name = evaluation["reference"], evaluation["majority"], evaluation["score"]["name"]
    rows = [
        ("this model", evaluation["score"]["value"], evaluation["interval"]),
        (f"flat {reference['name']}", reference["score"], reference["interval"]),
        (f"always {majority['label']}", majority["score"], [None, None]),
    ]
    best = max(value for _, value, _ in rows)
    pictures = pictures_of_intervals(
        [(who, value, *ends) for who, value, ends in rows[:2]],
        f"{name.capitalize()} in percent with 95 % intervals; the line is the majority class.",
        chance=100 * majority["score"],
    )
    content = {
        "text": f"Nested evaluation by {evaluation['scheme']}: everything that is chosen is chosen anew on each "
        "training set, and scored on the samples held out. The scores are those of all held-out predictions together.",
        "tables": [
            table(
                ("method", f"{name} %", "95 % interval"),
                [(value == best, [cell(who), cell(percent(value)), cell(_ends(ends))]) for who, value, ends in rows],
            )
        ],
        "pictures": pictures + ([] if chance is None else [_null_distribution(chance)]),
        "remarks": _comparison_remarks(evaluation),
    }
    return Section("Comparison", "comparison.html", content)


def _null_distribution(chance: Mapping[str, Any]) -> Picture:
    return picture(
        plot_permutations,
        100 * np.array(chance["permuted"]),
        100 * chance["score"],
        chance["p_value"],
        name=f"{chance['score_name']} in percent",
        caption=f"The same evaluation with permuted {chance['exchanged']}: what chance gives.",
    )


def _comparison_remarks(evaluation: Mapping[str, Any]) -> list[str]:
    difference, unit = evaluation["difference"], evaluation["unit"]
    how = (
        "Wilson's with the effective number of samples and Student's t (Korn and Graubard 1998)"
        if unit == "group"
        else "Wilson's"
    )
    remarks = [difference_in_words(difference)]
    if difference["low"] is not None:
        remarks.append(f"Difference: {difference['method']}. Intervals of scores are {how}; their unit is the {unit}.")
    if unit == "group":
        remarks.append(
            f"Samples of one group resemble each other, so the intervals rest on the {evaluation['n_units']} groups, "
            f"not on the {evaluation['n_tested']} samples."
        )
    return remarks


def _chosen(model: Any, about: Mapping[str, Any]) -> Section:
    classifier = classifier_of(model)
    search = search_of(model)
    results = getattr(search, "cv_results_", None)
    facts = [
        ("weight", describe_model(classifier, all_steps(model))),
        ("parameters", f"{classifier.n_parameters_} for each binary problem"),
        ("strengths", describe_strengths(classifier)),
        ("preparation", "; ".join(describe_steps(model)) or "none"),
        ("binary problems", str(len(classifier.problems_))),
    ]
    content: dict[str, Any] = {"facts": facts, "reasons": describe_wrappers(model), "pictures": [], "folds": []}
    if results is not None:
        evaluated = about.get("evaluation")
        instead = f" The one to trust is {percent(evaluated['score']['value'])} %, above." if evaluated else ""
        content["reasons"] += [
            f"Taken of {len(results['params'])} models by {search.n_splits_}-fold cross-validation: "
            f"{describe_rule(search)}. There it scored {percent(search.best_score_)} %; such a number, "
            f"chosen among many, is optimistic on average.{instead}"
        ]
        dropped = sum(map(bool, results.get("dropped", ())))
        if dropped:
            content["reasons"].append(
                f"{dropped} of the models were dropped after some of the folds, since others were better there; their "
                "scores in the pictures are means over these folds only."
            )
        lowered = [f"{name} {asked} to {used}" for name, asked, used in getattr(search, "lowered_ranks_", [])]
        if lowered:
            content["reasons"].append(f"Ranks too high for the samples' shape were lowered: {'; '.join(lowered)}.")
        content["pictures"] = _pictures_of_search(search)
    folds = (about.get("evaluation") or {}).get("folds", [])
    content["folds"] = [
        {**fold, "name": fold_name(fold), "words": _choice_in_words(fold["chosen"]), "note": fold_note(fold)}
        for fold in folds
    ]
    content["score"] = about["evaluation"]["score"]["name"] if folds else ""
    return Section("Chosen model", "chosen.html", content)


def _confounds(model: Any) -> Section | None:
    """Return what each confound explains, which was removed, and what that does not mean."""
    steps = confounds_by_view(model)
    if not steps:
        return None
    rows = [
        (False, [cell(f"{name} ({view})" if view else name), cell(percent(share), share)])
        for view, step in steps
        for name, share in step.explained_alone_.items()
    ]
    removed = "; ".join(f"{percent(s.explained_)} % of the variance{f' of {v}' if v else ''}" for v, s in steps)
    names = dict.fromkeys(name for _, step in steps for name in step.names_)
    content = {
        "text": f"What {listed(list(names))} explain linearly in the "
        f"training samples was removed from every entry, {removed} in all. Confounds may share what they explain.",
        "tables": [table(("confound", "explains alone, % of the variance"), rows)],
        "pictures": [],
        "remarks": [CONFOUNDS_WARNING],
    }
    return Section("Confounds", "comparison.html", content)


def _pictures_of_search(search: Any) -> list[Picture]:
    """Return figures of the search: validation scores against lambda and against rank."""
    results, pictures = search.cv_results_, []
    if len(set(results["param_lam"])) > 1:
        caption = "Validation accuracy against λ, for each form of the weight."
        pictures.append(picture(plot_search, results, chosen=search.best_index_, caption=caption))
    if len({str(rank) for rank in results["param_rank"]}) > 1:
        pictures.append(picture(plot_ranks, results, caption="The best validation accuracy at each rank."))
    return pictures


def _choice_in_words(chosen: Mapping[str, Any]) -> str:
    parts = _weights_in_words(chosen)
    parts.append(describe_chosen(chosen, "λ", "μ"))
    if "preparation" in chosen:
        parts.append(chosen["preparation"] or "samples as they come")
    return ", ".join(parts)


def _weights_in_words(chosen: Mapping[str, Any]) -> list[str]:
    """Return decomposition and rank, of several views where they differ, and the views that were left out."""
    form, rank, scale = (chosen.get(name) for name in ("decomposition", "rank", "view_scale"))
    left_out = [name for name, one in scale.items() if one == 0] if isinstance(scale, dict) else []
    without = [f"without {name}" for name in left_out]
    if not isinstance(form, dict) and not isinstance(rank, dict):
        return [f"{form}{'' if rank is None else ' ' + str(rank)}", *without]
    names = list(form if isinstance(form, dict) else rank or ())
    ranks = rank if isinstance(rank, dict) else dict.fromkeys(names, rank)
    forms = form if isinstance(form, dict) else dict.fromkeys(names, form)
    said = [f"{name} {forms[name]}{'' if ranks[name] is None else ' ' + str(ranks[name])}" for name in names]
    return [*(one for name, one in zip(names, said, strict=True) if name not in left_out), *without]


def _margins(model: Any, samples: SampleSet | None) -> list[MarginReport]:
    if samples is None or samples.target is None:
        return []
    reports = margin_report(model, samples.data, samples.target, groups=samples.groups, confounds=samples.confounds)
    return [reports] if isinstance(reports, MarginReport) else reports


def _hardest(margins: Sequence[MarginReport], n_problems: int) -> list[int]:
    """Return the binary problems to draw: all, or those with the largest Cantelli bound if there are too many."""
    if n_problems <= _MOST_PICTURES or not margins:
        return list(range(min(n_problems, _MOST_PICTURES)))
    return sorted(range(n_problems), key=lambda k: -margins[k].cantelli.value)[:_MOST_PICTURES]


def _several(model: Any, problems: Sequence[int], group: str, draw: Any) -> list[dict[str, Any]]:
    names = problem_names(model)
    return [{"group": group, "name": names[k], "picture": draw(k)} for k in problems]


def _note(model: Any, problems: Sequence[int]) -> str:
    n_problems = len(problem_names(model))
    return (
        "" if len(problems) == n_problems else f" Shown: the {len(problems)} hardest of {n_problems} binary problems."
    )


def _whose(data: Mapping[str, Any] | None, samples: SampleSet | None) -> str:
    """Return which samples the margins and patterns refer to, in words: the training samples or others."""
    same = ("n_samples", "sample_shape", "dtype", "minimum", "maximum", "classes")
    fitted = "the samples that the model was fitted to"
    if samples is None or data is None:
        return fitted
    given = data_facts(samples)  # reads all samples, so only once
    if all(given[name] == data[name] for name in same):
        return fitted
    return f"the samples in {Path(samples.source).name}, which are not those that the model was fitted to"


def _pictures_of_margins(
    model: Any, margins: Sequence[MarginReport], problems: Sequence[int], whose: str
) -> Section | None:
    if not margins:
        return None
    pictures = _several(
        model,
        problems,
        "margins",
        lambda k: picture(plot_margins, margins[k], caption=f"Margins of {whose}, by class."),
    )
    text = (
        f"Margins m = t (⟨W, Z⟩ + b) of {whose}. At most variance / (variance + mean²) of them can be wrong (Cantelli; "
        "Theorem 1 of the paper)."
    )
    return Section("Margins", "pictures.html", {"text": text + _note(model, problems), "pictures": pictures})


def _convergence(model: Any) -> Section | None:
    """Return the course of the fit that took the most sweeps: the others were faster."""
    classifier = classifier_of(model)
    if isinstance(classifier, AveragedClassifier):  # each of the classifiers has a course of its own
        return None
    names = problem_names(model)
    histories = classifier.history_ if isinstance(classifier.history_, list) else [classifier.history_]
    sweeps = [len(history["objective"]) for history in histories]
    slowest = int(np.argmax(sweeps))
    text = "The fit sweeps over the parts of the weight; each part is solved until its duality gap is small."
    if len(sweeps) > 1:
        text += f" Shown: the slowest of the {len(names)} binary problems; the fastest took {min(sweeps)} sweeps."
    caption = "Objective and largest duality gap of each sweep."
    drawn = picture(plot_convergence, model, problem=slowest, caption=caption)
    shown = {"group": "convergence", "name": names[slowest], "picture": drawn}
    return Section("Convergence", "pictures.html", {"text": text, "pictures": [shown]})


def _factors(model: Any, problems: Sequence[int]) -> Section | None:
    if any(isinstance(step, TensorKernel) for step in all_steps(model)):  # one number per feature of a kernel
        return None
    if isinstance(classifier_of(model).coef_, dict):  # in the sections of the views
        return None
    pictures = _several(
        model, problems, "factors", lambda k: picture(plot_factors, model, problem=k, caption="Factors, mode by mode.")
    )
    text = "The weight taken apart: one curve for each component along each mode (of the samples after preparation)."
    return Section("Factors", "pictures.html", {"text": text + _note(model, problems), "pictures": pictures})


def _maps(model: Any, samples: SampleSet | None, whose: str) -> Section | None:
    maps, missing, background = dict[str, Array](), "", None
    if isinstance(sample_shape(model), dict):  # in the sections of the views
        return None
    try:
        maps["weight"] = weight_maps(model, None if samples is None else samples.data.shape[1:])
    except NotAffineError as error:
        missing = f"There is no map of the weight: {error}."
    if isinstance(maps.get("weight"), dict):  # views that steps have made, which have sections of their own
        maps, missing = {}, "There is one weight per view, shown with it."
        if samples is None:
            return None
    if samples is not None and samples.target is not None:
        beside = Metadata(samples.groups, samples.confounds)
        pattern = activation_pattern(model, samples.data, samples.target, samples.groups, samples.confounds)
        if isinstance(pattern, dict):  # after a step that cannot be undone, such as scaling by group
            return None
        maps["activation pattern"] = pattern
        background = np.asarray(np.mean(samples_for_map(model, samples.data, beside), axis=0, dtype=np.float64))
    if not maps:
        return Section("Weight map", "pictures.html", {"text": missing, "pictures": []})
    names, count = problem_names(model), n_shown(model, maps)
    text = f"{missing} ".lstrip() + (
        "The weight says how the classes are told apart, not where they differ: entries may only cancel noise. The "
        "activation pattern (Haufe et al. 2014), the covariance of the samples with the score, is what may be "
        "interpreted."
    )
    if background is not None:
        text += f" Here it is of {whose}."
    else:
        text += " It needs the samples: tensormargin report MODEL DATA."
    if count < len(names):
        text += f" Shown: the first {count} of {len(names)} binary problems."
    return Section("Weight map", "maps.html", {"text": text, "maps": map_content(model, maps, background)})


def _confusion(evaluation: Mapping[str, Any] | None) -> Section | None:
    if evaluation is None:
        return None
    rows = evaluation["samples"]
    labels = sorted(
        {row["label"] for row in rows} | {row["predicted"] for row in rows}, key=lambda v: (str(type(v)), v)
    )
    place = {label: number for number, label in enumerate(labels)}
    counts = np.zeros((len(labels), len(labels)), int)
    for row in rows:
        counts[place[row["label"]], place[row["predicted"]]] += 1
    content = {
        "text": "Held-out predictions by true class (rows) and predicted class (columns)."
        + (f" Each sample was predicted {evaluation['repeats']} times." if evaluation["repeats"] > 1 else ""),
        "labels": labels,
        "rows": [_confusion_row(label, counts[number], number) for number, label in enumerate(labels)],
    }
    return Section("Confusion matrix", "confusion.html", content)


def _confusion_row(label: Any, counts: Array, number: int) -> dict[str, Any]:
    total = max(int(counts.sum()), 1)
    cells = [
        {"count": int(count), "share": round(int(count) / total, 3), "diagonal": column == number}
        for column, count in enumerate(counts)
    ]
    return {"label": label, "cells": cells, "recall": int(counts[number]) / total}


def _samples(evaluation: Mapping[str, Any] | None) -> Section | None:
    if evaluation is None:
        return None
    rows = evaluation["samples"]
    wrong = sum(row["label"] != row["predicted"] for row in rows)
    right = f"{len(rows) - wrong} of {len(rows)} predictions are right ({percent(evaluation['accuracy'])} %)"
    text = f"What each sample was taken for when it was held out; {right}, {wrong} are wrong."
    if len(rows) > _MOST_ROWS:
        text += f" The first {_MOST_ROWS} are listed."
    content = {"text": text, "rows": rows[:_MOST_ROWS], "grouped": any(row["group"] is not None for row in rows)}
    content["repeated"] = evaluation["repeats"] > 1
    return Section("Predictions", "samples.html", content)


def _methods(model: Any, facts: Mapping[str, Any]) -> Section:
    about = facts.get("about", {})
    plan = about.get("plan") or {}
    hidden = ("recipe", "decomposition", "rank") if plan.get("auto") else ("recipe",)
    settings = [(name, str(value)) for name, value in plan.items() if name not in hidden]
    settings += [(f"version of {name}", value) for name, value in facts["versions"].items()]
    content = {"statements": statements(model, facts), "settings": [("saved", facts["created"]), *settings]}
    return Section("Methods", "methods.html", content)


def _ends(ends: Sequence[float | None]) -> str:
    low, high = ends
    return "-" if low is None or high is None else f"{percent(low)} to {percent(high)}"
