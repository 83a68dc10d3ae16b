"""The report of a fitted model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..data import AnyAxes, axes_from_facts
from ..evaluation import data_facts
from ..inspection import (
    AveragedClassifier,
    MarginReport,
    ModelChain,
    NotAffineError,
    format_feature_views,
    margin_report,
)
from ..io import SampleSet
from ..plots import plot_convergence, plot_margins, plot_ranks, plot_search
from ..runtime import Array, counted, join_with_and, percent, short_number
from . import sections, sentences
from .field_figures import field_section, single_axes
from .page import Page, Picture, Section, factor_pictures, picture, table
from .viewer import Display, ModelMaps, affine_of, map_content, n_shown, named_axes

_MOST_PICTURES = 6
_MOST_NAMED = 4  # classes in the title
_FEW_CLASSES = 6  # that are listed in the section of the data at once


def model_page(
    model: Any,
    facts: Mapping[str, Any],
    samples: SampleSet | None = None,
    display: Display | None = None,
    patterns: Any = None,
) -> Page:
    """Return the report page of a fitted model.

    Parameters
    ----------
    model : estimator or Pipeline
    facts : mapping
        As returned by `tensormargin.io.load_model`; sections missing from "about" are left out.
    samples : SampleSet, optional
        The training samples, used for margins and activation patterns.
    display : Display, optional
        How maps that are volumes are shown: over an anatomical image (`read_anatomy`), left on the left or right.
    patterns : array-like or dictionary of them, optional
        Activation patterns of the training samples (`ModelFile.patterns`); otherwise computed if there are samples.

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
    evaluation, chance, classes = about.get("evaluation"), about.get("chance"), facts["classes"]
    axes = axes_from_facts(facts.get("axes"), facts.get("sample_shape"))
    given = None if samples is None else samples.axes
    if isinstance(axes, Mapping) and isinstance(given, Mapping):  # the model may know those of some views only
        axes = {**given, **{name: own for name, own in axes.items() if own is not None}}
    axes = named_axes(given if axes is None else axes, facts)
    fitted = fitted_sections(ModelMaps(model, samples, patterns, about.get("training")), about, axes, display)
    with_maps = any(section.content.get("maps") for section in fitted)
    evaluated = evaluation is not None
    shown = [
        sections.comparison_section(evaluation, chance) if evaluated else None,
        sections.confusion_section(evaluation, classes) if evaluated else None,
        sections.groups_section(evaluation) if evaluated else None,
        *(section for section in fitted if not section.folded),
        Section("What this does not show", "list.html", {"lines": sentences.model_limits(model, about, with_maps)}),
        chosen_section(model, about),
        data_section(about["data"]) if about.get("data") else None,
        _confounds(model),
        sections.curves_section(evaluation, classes) if evaluated else None,
        *(section for section in fitted if section.folded),
        sections.predictions_section(evaluation) if evaluated else None,
        _methods(model, facts),
    ]
    source = (about.get("data") or {}).get("source", "Model")
    names = " or ".join(map(str, classes[:_MOST_NAMED]))
    more = f" and {len(classes) - _MOST_NAMED} more" if len(classes) > _MOST_NAMED else ""
    return Page(
        title=f"{Path(source).name}: {names}{more}",
        lead=sections.evaluation_lead(sentences.model_sentence(classes, evaluation, chance), evaluation),
        created=facts["created"],
        versions=facts["versions"],
        sections=[section for section in shown if section is not None],
    )


def fitted_sections(
    maps: ModelMaps, about: Mapping[str, Any], axes: AnyAxes = None, display: Display | None = None
) -> list[Section]:
    """Return the sections about a fitted model itself: maps and views, then, folded, what they are made of.

    ``axes`` are those of the samples; ``display`` says how volumes are shown.
    """
    margins: list[MarginReport] = []
    samples, problems = maps.samples, list(range(len(maps.chain.problem_names)))
    if samples is not None and samples.target is not None:
        metadata = {"groups": samples.groups, "confounds": samples.confounds}
        reports = margin_report(maps.model, samples.data, samples.target, **metadata)
        margins = [reports] if isinstance(reports, MarginReport) else reports
    if margins and len(problems) > _MOST_PICTURES:
        problems.sort(key=lambda k: -margins[k].cantelli.value)
    hardest, whose = problems[:_MOST_PICTURES], _whose(about.get("data"), samples)
    figures = field_section(maps, hardest, axes)
    first = None if figures else next((name for name in maps.patterns if name in maps.chain.views_with_pattern), None)
    shown = [
        figures,
        _maps(maps, about, whose, axes, display),
        sections.views_overview(maps, about),
        *sections.view_sections(maps, about, hardest, whose, axes, first),
        _factors(maps, hardest, axes),
        _pictures_of_margins(maps.chain, margins, hardest, whose),
        _convergence(maps),
    ]
    if about.get("evaluation") and not sentences.beats_chance(about):  # then maps are not what to look at first
        gist = "the model is not shown to beat chance"
        shown = [
            one if one is None or one.template == "comparison.html" else replace(one, folded=True, gist=gist)
            for one in shown
        ]
    return [section for section in shown if section is not None]


def data_section(data: Mapping[str, Any]) -> Section:
    """Return the source, shape and classes of the samples; folded for many classes, unless there are warnings."""
    classes = data["classes"]
    return Section(
        "Data",
        "data.html",
        {"data": data, "largest": max(row["count"] for row in classes)},
        folded=len(classes) > _FEW_CLASSES and not data.get("warnings"),
        gist=f"{counted(data['n_samples'], 'sample')} of {counted(len(classes), 'class', 'classes')}",
    )


def chosen_section(
    model: Any, about: Mapping[str, Any], heading: str = "Chosen model", reasons: Sequence[str] = ()
) -> Section:
    """Return the form, size and strengths of a model, and why it was chosen; folded for several views."""
    chain = ModelChain.of(model)
    classifier, search = chain.classifier, chain.search
    content: dict[str, Any] = {
        "facts": [
            ("weight", sentences.describe_model(classifier, chain.steps)),
            ("parameters", f"{classifier.n_parameters_} for each binary problem"),
            ("strengths", sentences.describe_strengths(classifier)),
            ("preparation", "; ".join(sentences.describe_steps(model)) or "none"),
            ("binary problems", str(len(classifier.problems_))),
        ],
        "reasons": [*reasons, *sentences.describe_wrappers(model)],
        "pictures": [],
    }
    evaluation = about.get("evaluation") or {}
    if hasattr(search, "cv_results_"):
        content["reasons"] += _reasons_of_search(search, evaluation)
        content["pictures"] = _pictures_of_search(search)
    folds = evaluation.get("folds", [])
    content["folds"] = [
        {
            **fold,
            "name": sentences.fold_name(fold),
            "words": sentences.format_choice(fold["chosen"]),
            "note": sentences.fold_note(fold),
        }
        for fold in folds
    ]
    content["score"] = evaluation["score"]["name"] if folds else ""
    content["matched"] = bool(folds and evaluation.get("matched"))
    several = isinstance(classifier.coef_, dict)  # then the preparation is long, and the views are a section
    gist = f"one weight per view, {sentences.describe_strengths(classifier)}"
    return Section(heading, "chosen.html", content, folded=several, gist=gist if several else "")


def _reasons_of_search(search: Any, evaluation: Mapping[str, Any]) -> list[str]:
    """Return how a search has chosen its model, and why its score is optimistic."""
    results, score = search.cv_results_, percent(search.best_score_)
    scores = np.round(np.asarray(results["mean_test_score"], float), 12)
    tied = int(np.sum(_raced_to_the_end(results) & (scores == scores[search.best_index_]))) - 1
    ties = f", tied with {counted(tied, 'other')}" if tied > 0 else ""
    instead = f" The held-out score is {percent(evaluation['score']['value'])} %, above." if evaluation else ""
    reasons = [
        f"Selected from {len(results['params'])} models by {search.n_splits_}-fold cross-validation: "
        f"{sentences.rule_of(search)}. There it scored {score} %{ties}; the score of the best of many is "
        f"optimistic on average.{instead}"
    ]
    dropped = sum(map(bool, results.get("dropped", ())))
    if dropped:
        reasons.append(
            f"{dropped} of the models were dropped after some of the folds, since others were better there. The "
            "figures do not show them."
        )
    lowered = [f"{name} {given} to {used}" for name, given, used in getattr(search, "lowered_ranks_", [])]
    if lowered:
        reasons.append(f"Ranks too high for the samples' shape were lowered: {'; '.join(lowered)}.")
    return reasons


def _confounds(model: Any) -> Section | None:
    """Return what each confound explains, which was removed, and what that does not mean."""
    steps = ModelChain.of(model).confounds_by_view
    if not steps:
        return None
    rows = [
        (f"{name} ({view})" if view else name, (percent(share), share))
        for view, step in steps
        for name, share in step.explained_alone_.items()
    ]
    removed = "; ".join(f"{percent(s.explained_)} % of the variance{f' of {v}' if v else ''}" for v, s in steps)
    names = dict.fromkeys(name for _, step in steps for name in step.names_)
    content = {
        "text": f"What {join_with_and(names)} explain linearly in the training samples was removed from every entry, "
        f"{removed} in all. Confounds may share what they explain.",
        "tables": [table(("confound", "explains alone, % of the variance"), rows)],
        "remarks": [sentences.CONFOUNDS_WARNING],
    }
    return Section("Confounds", "comparison.html", content)


def _pictures_of_search(search: Any) -> list[Picture]:
    """Return figures of the search: validation scores against lambda and against rank."""
    results, pictures = search.cv_results_, []
    if any(isinstance(lam, str) for lam in results["param_lam"]):  # "1*scale": before version 0.1
        return []
    scored = _raced_to_the_end(results)
    lams, ranks = (np.array([str(one) for one in results[f"param_{name}"]])[scored] for name in ("lam", "rank"))
    chosen = {name: value for name, value in search.best_params_.items() if name != "preparation"}
    scores = np.asarray(results["mean_test_score"], float)[scored]
    alt = (
        f"{int(scored.sum())} models with validation scores from {percent(float(scores.min()))} to "
        f"{percent(float(scores.max()))} %; selected: {sentences.format_choice(chosen)}, with "
        f"{percent(search.best_score_)} %."
    )
    higher = int(np.sum(np.round(scores, 12) > round(float(search.best_score_), 12)))
    rule = f" The rule is to take {sentences.rule_of(search)}."
    rule += f" {counted(higher, 'model')} scored higher than the selected one." if higher else ""
    if len(set(lams)) > 1:
        caption = "Validation accuracy against λ, for each form of the weight." + rule
        pictures.append(picture(plot_search, results, chosen=search.best_index_, caption=caption, alt=alt))
    if len(set(ranks)) > 1:
        caption = "The best validation accuracy at each rank." + rule
        pictures.append(picture(plot_ranks, results, caption=caption, alt=alt))
    return pictures


def _raced_to_the_end(results: Mapping[str, Any]) -> Array:
    """Return which candidates have a score on all folds: a race drops some, and a search may end before others."""
    scored = np.isfinite(np.asarray(results["mean_test_score"], float))
    return scored & ~np.array([bool(reason) for reason in results.get("dropped", [""] * len(scored))])


def _several(
    chain: ModelChain, problems: Sequence[int], heading: str, text: str, draw: Callable[[int], list[Picture]]
) -> dict[str, Any]:
    """Return the content of a section with pictures of some binary problems, of which the page shows one at a time."""
    names = chain.problem_names
    if len(problems) < len(names):
        text += f" Shown: the {len(problems)} hardest of {len(names)} binary problems."
    return {"text": text, "pictures": [{"group": heading, "name": names[k], "pictures": draw(k)} for k in problems]}


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
    chain: ModelChain, margins: Sequence[MarginReport], problems: Sequence[int], whose: str
) -> Section | None:
    if not margins:
        return None

    def drawn(k: int) -> list[Picture]:
        caption, alt = f"Margins of {whose}, by class.", sentences.format_margins(margins[k])
        return [picture(plot_margins, margins[k], caption=caption, alt=alt)]

    text = (
        f"Margins m = t (⟨W, Z⟩ + b) of {whose}. At most variance / (variance + mean²) of them can be wrong (Cantelli; "
        "Theorem 1 of the paper)."
    )
    content = _several(chain, problems, "margins", text, drawn)
    return Section("Margins", "pictures.html", content, folded=True, gist=f"of {whose}")


def _convergence(maps: ModelMaps) -> Section | None:
    """Return the course of the fit that took the most sweeps: the others were faster."""
    classifier, names = maps.chain.classifier, maps.chain.problem_names
    if isinstance(classifier, AveragedClassifier):  # each of the classifiers has a course of its own
        return None
    histories = classifier.history_ if isinstance(classifier.history_, list) else [classifier.history_]
    sweeps = [len(history["objective"]) for history in histories]
    slowest = int(np.argmax(sweeps))
    text = "The fit sweeps over the parts of the weight; each part is solved until its duality gap is small."
    if len(sweeps) > 1:
        text += f" Shown: the slowest of the {len(names)} binary problems; the fastest took {min(sweeps)} sweeps."
    caption = "Objective and largest duality gap of each sweep."
    last = histories[slowest]
    alt = (
        f"Objective from {short_number(last['objective'][0])} to {short_number(last['objective'][-1])} in "
        f"{sweeps[slowest]} sweeps; the largest duality gap of the last one is {short_number(np.max(last['gap'][-1]))}."
    )
    drawn = picture(plot_convergence, maps.model, problem=slowest, caption=caption, alt=alt)
    shown = {"group": "convergence", "name": names[slowest], "pictures": [drawn]}
    gist = f"{max(sweeps)} sweeps" if max(sweeps) > 1 else "one sweep"
    return Section("Convergence", "pictures.html", {"text": text, "pictures": [shown]}, folded=True, gist=gist)


def _factors(maps: ModelMaps, problems: Sequence[int], axes: AnyAxes) -> Section | None:
    chain = maps.chain
    # nothing for one number per feature of a kernel, of convolutions, ...; views have sections of their own
    if "" in chain.feature_views or isinstance(chain.classifier.coef_, dict):
        return None
    text = "The factors of the weight: one curve per component along each mode (of the samples after preparation)."
    content = _several(chain, problems, "factors", text, lambda k: factor_pictures(maps.model, k, axes=axes))
    return Section("Factors", "pictures.html", content, folded=True, gist="of the weight, along each mode")


def _maps(
    found: ModelMaps, about: Mapping[str, Any], whose: str, axes: AnyAxes, display: Display | None
) -> Section | None:
    """Return the viewer of pattern and weight on the samples; None for views, which have sections of their own."""
    by_view, pattern = isinstance(found.weights, dict), found.patterns.get("")  # views that steps have made
    if isinstance(found.chain.sample_shape, dict) or (by_view and pattern is None):
        return None
    maps, missing, background = dict[str, Array](), "", None
    if pattern is not None:
        maps["activation pattern"] = pattern.maps
        background = None if found.samples is None else np.asarray(np.mean(found.seen, axis=0, dtype=np.float64))
    if isinstance(found.weights, NotAffineError):
        missing = f"There is no map of the weight: {found.weights}."
    elif by_view:
        missing = "There is one weight per view, shown with it."
    else:
        maps["weight"] = found.weights
    if not maps:
        return Section("Weight map", "pictures.html", {"text": missing, "pictures": []})
    text = f"{missing} ".lstrip() + _words_on_maps(found, maps, whose)
    own, affine = single_axes(found.chain, axes), None
    if next(iter(maps.values())).shape[1:] == found.sample_shape:  # not after a step that cannot be undone
        affine = affine_of(found.samples, about)
        if own is None and isinstance(axes, tuple):  # of all views of a union
            own = axes
    content = map_content(found.chain, maps, background, own, affine, display, found.unit_of())
    heading = "Pattern and weight" if "activation pattern" in maps else "Weight map"
    return Section(heading, "maps.html", {"text": text, "maps": content})


def _words_on_maps(found: ModelMaps, maps: Mapping[str, Array], whose: str) -> str:
    names, count, features = found.chain.problem_names, n_shown(found.chain, maps), format_feature_views(found.model)
    parts = [
        "The activation pattern (Haufe et al. 2014), the covariance of the samples with the score, is what may be "
        "interpreted. The weight says how the classes are separated, not where they differ: entries may only cancel "
        "noise.",
        f"The pattern is of {whose}. {sentences.format_halves(found.patterns[''])}"
        if "activation pattern" in maps
        else "The pattern needs the samples: tensormargin report MODEL DATA.",
        f"Samples are shown as they are after preparation: {found.chain.before_maps}."
        if found.chain.before_maps
        else "",
        f"Shown: the first {count} of {len(names)} binary problems." if count < len(names) else "",
        f"{features}." if features else "",
    ]
    return " ".join(part for part in parts if part)


def _methods(model: Any, facts: Mapping[str, Any]) -> Section:
    about = facts.get("about", {})
    plan = about.get("plan") or {}
    hidden = ("recipe", "decomposition", "rank") if plan.get("auto") else ("recipe",)
    settings = [(name, str(value)) for name, value in plan.items() if name not in hidden]
    settings += [(f"version of {name}", value) for name, value in facts["versions"].items()]
    return methods_section(sentences.statements(model, facts), [("saved", facts["created"]), *settings])


def methods_section(statements: Sequence[str], settings: Sequence[tuple[str, str]]) -> Section:
    """Return the text for the methods section of a paper, with the settings by name."""
    content = {"statements": statements, "settings": settings}
    return Section("Methods", "methods.html", content, folded=True, gist="text for a paper, settings and versions")
