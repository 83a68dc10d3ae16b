"""The report of a fitted model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from .brains import Display, affine_of
from .evaluation_sections import (
    comparison_section,
    confusion_section,
    curves_section,
    evaluation_lead,
    predictions_section,
)
from .field_figures import axes_of_figures, field_section
from .maps import map_content, n_shown
from .model_maps import ModelMaps
from .page import Page, Section, cell, table
from .pictures import Picture, factor_pictures, picture
from .sentences import (
    CONFOUNDS_WARNING,
    describe_chosen,
    describe_model,
    describe_rule,
    describe_steps,
    describe_strengths,
    describe_wrappers,
    fold_name,
    fold_note,
    statements,
)
from .verdicts import limits, model_sentence
from .view_sections import view_sections, views_overview

_MOST_PICTURES = 6
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
    axes = axes if axes is not None or samples is None else samples.axes
    fitted = fitted_sections(model, about, samples, axes, display, patterns)
    with_maps = any(section.content.get("maps") for section in fitted)
    sections = [
        comparison_section(evaluation, chance),
        confusion_section(evaluation, classes),
        *(section for section in fitted if not section.folded),
        Section("What this does not show", "list.html", {"lines": limits(model, about, with_maps)}),
        chosen_section(model, about),
        data_section(about["data"]) if about.get("data") else None,
        _confounds(model),
        curves_section(evaluation, classes),
        *(section for section in fitted if section.folded),
        predictions_section(evaluation),
        _methods(model, facts),
    ]
    data = about.get("data") or {}
    title = f"{Path(data.get('source', 'Model')).name}: {' or '.join(map(str, classes[:4]))}"
    title += f" and {len(classes) - 4} more" if len(classes) > 4 else ""
    return Page(
        title=title,
        lead=evaluation_lead(model_sentence(classes, evaluation, chance), evaluation),
        created=facts["created"],
        versions=facts["versions"],
        sections=[section for section in sections if section is not None],
    )


def fitted_sections(
    model: Any,
    about: Mapping[str, Any],
    samples: SampleSet | None,
    axes: AnyAxes = None,
    display: Display | None = None,
    patterns: Any = None,
) -> list[Section]:
    """Return the sections about a fitted model itself: maps and views, then, folded, what they are made of.

    ``axes`` are those of the samples; ``display`` says how volumes are shown; ``patterns`` are as in `model_page`.
    """
    margins = _margins(model, samples)
    whose = _whose(about.get("data"), samples)
    hardest = _hardest(margins, len(ModelChain.of(model).problem_names))
    maps = ModelMaps(model, samples, patterns)
    sections = [
        field_section(maps, hardest, axes),
        _maps(maps, about, whose, axes, display),
        views_overview(model, about),
        *view_sections(maps, about, hardest, whose, axes),
        _factors(model, hardest, axes),
        _pictures_of_margins(model, margins, hardest, whose),
        _convergence(model),
    ]
    return [section for section in sections if section is not None]


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
    results = getattr(search, "cv_results_", None)
    facts = [
        ("weight", describe_model(classifier, chain.steps)),
        ("parameters", f"{classifier.n_parameters_} for each binary problem"),
        ("strengths", describe_strengths(classifier)),
        ("preparation", "; ".join(describe_steps(model)) or "none"),
        ("binary problems", str(len(classifier.problems_))),
    ]
    content: dict[str, Any] = {
        "facts": facts,
        "reasons": [*reasons, *describe_wrappers(model)],
        "pictures": [],
        "folds": [],
    }
    if results is not None:
        evaluated = about.get("evaluation")
        instead = f" The one to trust is {percent(evaluated['score']['value'])} %, above." if evaluated else ""
        content["reasons"] += [
            f"Taken of {len(results['params'])} models by {search.n_splits_}-fold cross-validation: "
            f"{describe_rule(search)}. There it scored {percent(search.best_score_)} %{_tied_in_words(search)}; such a "
            f"number, chosen among many, is optimistic on average.{instead}"
        ]
        dropped = sum(map(bool, results.get("dropped", ())))
        if dropped:
            content["reasons"].append(
                f"{dropped} of the models were dropped after some of the folds, since others were better there. The "
                "figures do not show them."
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
    content["matched"] = bool(folds and about["evaluation"].get("matched"))
    several = isinstance(classifier.coef_, dict)  # then the preparation is long, and the views are a section
    gist = f"one weight per view, {describe_strengths(classifier)}"
    return Section(heading, "chosen.html", content, folded=several, gist=gist if several else "")


def _confounds(model: Any) -> Section | None:
    """Return what each confound explains, which was removed, and what that does not mean."""
    steps = ModelChain.of(model).confounds_by_view
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
        "text": f"What {join_with_and(names)} explain linearly in the "
        f"training samples was removed from every entry, {removed} in all. Confounds may share what they explain.",
        "tables": [table(("confound", "explains alone, % of the variance"), rows)],
        "pictures": [],
        "remarks": [CONFOUNDS_WARNING],
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
    selected = f"{_choice_in_words(chosen)}, with {percent(search.best_score_)} %"
    alt = f"{int(scored.sum())} models with validation scores from {_score_range(results)}; selected: {selected}."
    if len(set(lams)) > 1:
        caption = "Validation accuracy against λ, for each form of the weight."
        pictures.append(picture(plot_search, results, chosen=search.best_index_, caption=caption, alt=alt))
    if len(set(ranks)) > 1:
        pictures.append(picture(plot_ranks, results, caption="The best validation accuracy at each rank.", alt=alt))
    return pictures


def _score_range(results: Mapping[str, Any]) -> str:
    scores = np.asarray(results["mean_test_score"], float)[_raced_to_the_end(results)]
    return f"{percent(float(scores.min()))} to {percent(float(scores.max()))} %"


def _raced_to_the_end(results: Mapping[str, Any]) -> Array:
    """Return which candidates have a score on all folds: a race drops some, and a search may end before others."""
    scored = np.isfinite(np.asarray(results["mean_test_score"], float))
    return scored & ~np.array([bool(reason) for reason in results.get("dropped", [""] * len(scored))])


def _tied_in_words(search: Any) -> str:
    """Return with how many other models of a search the selected one is tied."""
    results = search.cv_results_
    scores = np.round(np.asarray(results["mean_test_score"], float), 12)
    tied = int(np.sum(_raced_to_the_end(results) & (scores == scores[search.best_index_]))) - 1
    return f", tied with {counted(tied, 'other')}" if tied > 0 else ""


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
    names = ModelChain.of(model).problem_names
    return [{"group": group, "name": names[k], "pictures": draw(k)} for k in problems]


def _note(model: Any, problems: Sequence[int]) -> str:
    n_problems = len(ModelChain.of(model).problem_names)
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
        lambda k: [
            picture(
                plot_margins, margins[k], caption=f"Margins of {whose}, by class.", alt=_margins_in_words(margins[k])
            )
        ],
    )
    text = (
        f"Margins m = t (⟨W, Z⟩ + b) of {whose}. At most variance / (variance + mean²) of them can be wrong (Cantelli; "
        "Theorem 1 of the paper)."
    )
    content = {"text": text + _note(model, problems), "pictures": pictures}
    return Section("Margins", "pictures.html", content, folded=True, gist=f"of {whose}")


def _margins_in_words(report: MarginReport) -> str:
    negative, positive = report.classes
    sides = [("rest" if negative is None else negative, -1), (positive, 1)]
    own = [(name, report.margins[report.signs == sign]) for name, sign in sides]
    means = "; ".join(
        f"{name}: {counted(len(some), 'sample')}, mean {short_number(some.mean())}" for name, some in own if len(some)
    )
    return f"Histograms of margins. {means}. {percent(report.cantelli.rate)} % of the margins are not positive."


def _convergence(model: Any) -> Section | None:
    """Return the course of the fit that took the most sweeps: the others were faster."""
    classifier = ModelChain.of(model).classifier
    if isinstance(classifier, AveragedClassifier):  # each of the classifiers has a course of its own
        return None
    names = ModelChain.of(model).problem_names
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
    drawn = picture(plot_convergence, model, problem=slowest, caption=caption, alt=alt)
    shown = {"group": "convergence", "name": names[slowest], "pictures": [drawn]}
    gist = f"{max(sweeps)} sweeps" if max(sweeps) > 1 else "one sweep"
    return Section("Convergence", "pictures.html", {"text": text, "pictures": [shown]}, folded=True, gist=gist)


def _factors(model: Any, problems: Sequence[int], axes: AnyAxes) -> Section | None:
    if "" in ModelChain.of(model).feature_views:  # one number per feature of a kernel, of convolutions, ...
        return None
    if isinstance(ModelChain.of(model).classifier.coef_, dict):  # in the sections of the views
        return None
    pictures = _several(model, problems, "factors", lambda k: factor_pictures(model, k, axes=axes))
    text = "The weight taken apart: one curve for each component along each mode (of the samples after preparation)."
    content = {"text": text + _note(model, problems), "pictures": pictures}
    return Section("Factors", "pictures.html", content, folded=True, gist="of the weight, along each mode")


def _maps(
    found: ModelMaps, about: Mapping[str, Any], whose: str, axes: AnyAxes, display: Display | None
) -> Section | None:
    model, samples = found.model, found.samples
    maps, missing, background = dict[str, Array](), "", None
    if isinstance(ModelChain.of(model).sample_shape, dict):  # in the sections of the views
        return None
    if isinstance(found.weights, NotAffineError):
        missing = f"There is no map of the weight: {found.weights}."
    elif isinstance(found.weights, dict):  # views that steps have made, which have sections of their own
        missing = "There is one weight per view, shown with it."
        if found.patterns is None:
            return None
    if found.patterns is not None:
        if isinstance(found.patterns, dict):  # after a step that cannot be undone, such as scaling by group
            return None
        maps["activation pattern"] = found.patterns
        background = None if samples is None else np.asarray(np.mean(found.seen, axis=0, dtype=np.float64))
    if not missing:
        maps["weight"] = found.weights
    if not maps:
        return Section("Weight map", "pictures.html", {"text": missing, "pictures": []})
    text = f"{missing} ".lstrip() + _words_on_maps(model, maps, whose)
    affine = _affine_of_maps(model, about, samples, maps)
    own = axes_of_figures(model, axes)
    if (
        own is None and isinstance(axes, tuple) and _on_samples(model, samples, maps)
    ):  # of the views of a union, together
        own = axes
    content = map_content(model, maps, background, own, affine, display)
    heading = "Pattern and weight" if "activation pattern" in maps else "Weight map"
    return Section(heading, "maps.html", {"text": text, "maps": content})


def _words_on_maps(model: Any, maps: Mapping[str, Array], whose: str) -> str:
    names, count, features = ModelChain.of(model).problem_names, n_shown(model, maps), format_feature_views(model)
    parts = [
        "The activation pattern (Haufe et al. 2014), the covariance of the samples with the score, is what may be "
        "interpreted. The weight says how the classes are told apart, not where they differ: entries may only cancel "
        "noise. Positive values speak for the class that is named first.",
        f"The pattern is of {whose}."
        if "activation pattern" in maps
        else "The pattern needs the samples: tensormargin report MODEL DATA.",
        f"Shown: the first {count} of {len(names)} binary problems." if count < len(names) else "",
        f"{features}." if features else "",
    ]
    return " ".join(part for part in parts if part)


def _affine_of_maps(model: Any, about: Mapping[str, Any], samples: SampleSet | None, maps: Mapping[str, Array]) -> Any:
    """Return the affine of the samples if maps are on their grid, and not that after a step that cannot be undone."""
    return affine_of(samples, about) if _on_samples(model, samples, maps) else None


def _on_samples(model: Any, samples: SampleSet | None, maps: Mapping[str, Array]) -> bool:
    shape = ModelChain.of(model).sample_shape if samples is None else samples.sample_shape
    return bool(next(iter(maps.values())).shape[1:] == tuple(shape or ()))


def _methods(model: Any, facts: Mapping[str, Any]) -> Section:
    about = facts.get("about", {})
    plan = about.get("plan") or {}
    hidden = ("recipe", "decomposition", "rank") if plan.get("auto") else ("recipe",)
    settings = [(name, str(value)) for name, value in plan.items() if name not in hidden]
    settings += [(f"version of {name}", value) for name, value in facts["versions"].items()]
    content = {"statements": statements(model, facts), "settings": [("saved", facts["created"]), *settings]}
    return Section("Methods", "methods.html", content, folded=True, gist="text for a paper, settings and versions")
