"""The sections of a report about held-out predictions (scores, errors by class, curves) and about several views."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..data import COVARIATE, COVARIATES, AnyAxes, Axes, Coding, format_shape, missing_samples
from ..evaluation import reliability, roc, score_interval
from ..inspection import REPRODUCIBLE, ModelChain, ViewMaps
from ..io import less_probable
from ..plots import plot_calibration, plot_permutations, plot_roc
from ..runtime import Array, percent, points, rows_of, short_number, to_host
from . import sentences
from .page import Lead, Picture, Section, factor_pictures, interval_picture, picture, table
from .viewer import ModelMaps, affine_of, map_content

_MOST_ROWS = 20_000
_LONGEST_TABLE = 200  # entries of a view that are listed
_FEWEST_FOR_CURVES = 20  # predictions; the curves of fewer are steps of one sample each
_SQUARE = (4.3, 3.9)  # inches
_MOST_BESIDE = 6  # classes of confusion matrices that are drawn beside each other
_WIDEST_HEAD = 14  # letters in the head of such a matrix; names that need more stand upright


def evaluation_lead(sentence: str, evaluation: Mapping[str, Any] | None) -> Lead:
    """Return the first screen of a model: a sentence, the score with its interval, and both beside the reference's."""
    if evaluation is None:
        return Lead(sentence)
    majority, name = evaluation["majority"], evaluation["score"]["name"]
    rows = [(who, score, ends[0], ends[1]) for who, score, ends, _ in _scores(evaluation)]
    caption = f"{name.capitalize()} with 95 % intervals; the dashed line is always predicting {majority['label']}."
    return Lead(
        sentence,
        f"{percent(evaluation['score']['value'])} %",
        f"{name} on held-out samples",
        sentences.format_interval(evaluation["interval"], sentences.format_units(evaluation)),
        interval_picture(rows, caption, chance=100 * majority["score"], score=name),
        f"A {sentences.FLAT_EXPLAINED} is the reference."
        + (f" {sentences.GROUPS_EXPLAINED}" if evaluation["unit"] == "group" else ""),
    )


def comparison_section(evaluation: Mapping[str, Any], chance: Mapping[str, Any] | None) -> Section:
    """Return the scores of the model, the flat reference and the majority class, with a test against chance."""
    majority, name = evaluation["majority"], evaluation["score"]["name"]
    scores = _scores(evaluation)
    level = {
        "accuracy": majority.get("accuracy"),
        "balanced_accuracy": 1 / len({row["label"] for row in evaluation["samples"]}),
    }
    scores.append((f"always {majority['label']}", majority["score"], (None, None), level))
    highest = max(score for _, score, _, _ in scores)
    best = [place for place, (_, score, _, _) in enumerate(scores) if score == highest]
    rows = []
    for place, (who, _, ends, part) in enumerate(scores):
        both = [(percent(one), one) for one in (part.get("accuracy"), part.get("balanced_accuracy"))]
        shown = f"{who} (tied)" if len(best) > 1 and place in best else who
        rows.append([shown, *both, (sentences.format_ends(ends), ends[0] or 0)])
    told = sentences.model_sentence((), evaluation, chance)
    told += sentences.group_line(evaluation.get("groups") or ())  # which has a section
    content = {
        "text": f"Nested cross-validation ({evaluation['scheme']}): all choices are made anew on each training set "
        "and scored on the held-out samples. The scores are those of all held-out predictions together.",
        "lines": [line for line in sentences.evaluation_lines(evaluation, chance)[1:] if line not in told],
        "tables": [table(("method", "accuracy %", "balanced accuracy %", f"95 % interval of the {name}"), rows, best)],
        "pictures": [] if chance is None else [_null_distribution(chance)],
        "remarks": _remarks(evaluation),
    }
    return Section("Comparison", "comparison.html", content)


def groups_section(evaluation: Mapping[str, Any]) -> Section | None:
    """Return the accuracy in each group, worst first; None without groups."""
    groups = evaluation.get("groups")
    if not groups:
        return None
    rows = [
        (
            (str(one["group"]), place),
            (str(one["n_samples"]), one["n_samples"]),
            (percent(one["accuracy"]), one["accuracy"]),
            (sentences.format_ends(one["interval"]), one["interval"][0]),
        )
        for place, one in enumerate(groups)
    ]
    content = {
        "text": "Held-out predictions of each group, worst first. The intervals are those of its samples (Wilson's).",
        "tables": [table(("group", "samples", "accuracy %", "95 % interval"), rows)],
        "remarks": [],
    }
    worst, best = (percent(one["accuracy"]) for one in (groups[0], groups[-1]))
    gist = f"{len(groups)}, from {worst} to {best} %"
    return Section("Groups", "comparison.html", content, folded=True, gist=gist)


def _scores(evaluation: Mapping[str, Any]) -> list[tuple[str, float, Sequence[float | None], Mapping[str, Any]]]:
    """Return name, score, interval and facts of the model and of the references."""
    ours = ("this model", evaluation["score"]["value"], evaluation["interval"], evaluation)
    return [ours, *((who, part["score"], part["interval"], part) for who, part in _references(evaluation))]


def _references(evaluation: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the flat reference, or those on the samples as they are and on the chosen representation, with names."""
    reference, matched = evaluation.get("reference") or {}, evaluation.get("matched")
    name = f"flat {reference.get('name')}"
    if not matched:
        return [(name, reference)] if reference else []
    return [(f"{name}, samples as they are", reference), (f"{name}, chosen representation", matched)]


def _null_distribution(chance: Mapping[str, Any]) -> Picture:
    permuted, score = 100 * np.array(chance["permuted"]), chance["score"]
    reached = int(np.sum(permuted >= 100 * score - 1e-9))
    return picture(
        plot_permutations,
        permuted,
        100 * score,
        chance["p_value"],
        name=f"{chance['score_name']} in %",
        caption=f"The same evaluation with permuted {chance['exchanged']}: what chance gives.",
        alt=f"Histogram of {len(permuted)} scores with permuted labels, from {permuted.min():.1f} to "
        f"{permuted.max():.1f} %, mean {permuted.mean():.1f} %. With the true labels: {percent(score)} %; {reached} "
        f"permutations reach it, {sentences.format_p(chance['p_value'])}.",
    )


def _remarks(evaluation: Mapping[str, Any]) -> list[str]:
    difference, unit = evaluation["difference"], evaluation["unit"]
    remarks = [explained] if (explained := sentences.interval_explained(evaluation)) else []
    if difference["low"] is not None:
        remarks.append(f"Difference: {difference['method']}.")
    if unit == "group":
        remarks.append(
            f"Samples of one group resemble each other, so the intervals rest on the {evaluation['n_units']} groups, "
            f"not on the {evaluation['n_tested']} samples."
        )
    return remarks


def confusion_section(evaluation: Mapping[str, Any], classes: Sequence[Any]) -> Section:
    """Return the held-out predictions by class, of the model and, where it is known, of the reference."""
    rows = evaluation["samples"]
    found = {row["label"] for row in rows} | {row["predicted"] for row in rows}
    known = [label for label in classes if label in found]
    labels = known + sorted(found - set(known), key=lambda label: (str(type(label)), label))
    place = {label: number for number, label in enumerate(labels)}
    counts = np.zeros((len(labels), len(labels)), int)
    for row in rows:
        counts[place[row["label"]], place[row["predicted"]]] += 1
    matrices = [_matrix(evaluation.get("name", "this model"), labels, counts)]
    matrices += [
        _matrix(who, evaluation["classes"], np.array(part["confusion"]))
        for who, part in _references(evaluation)
        if "confusion" in part
    ]
    times = f" Each sample was predicted {evaluation['repeats']} times." if evaluation["repeats"] > 1 else ""
    content = {
        "text": "Held-out predictions by true class (rows) and predicted class (columns); the share of each class that "
        "is found is its recall, their mean the balanced accuracy." + evaluation.get("note", times),
        "matrices": matrices,
        "most_beside": _MOST_BESIDE,
    }
    return Section("Confusion matrix", "confusion.html", content)


def _matrix(name: str, labels: Sequence[Any], counts: Array) -> dict[str, Any]:
    rows = []
    for number, label in enumerate(labels):
        total = int(counts[number].sum())
        cells = [
            {"count": int(count), "share": round(int(count) / max(total, 1), 3), "diagonal": column == number}
            for column, count in enumerate(counts[number])
        ]
        rows.append({"label": label, "cells": cells, "recall": int(counts[number, number]) / total if total else None})
    recalls = [row["recall"] for row in rows if row["recall"] is not None]
    upright = len(labels) > _MOST_BESIDE or sum(max(len(str(label)), 3) for label in labels) > _WIDEST_HEAD
    balanced = float(np.mean(recalls)) if recalls else None
    return {"name": name, "labels": labels, "rows": rows, "balanced": balanced, "upright": upright}


def curves_section(evaluation: Mapping[str, Any], classes: Sequence[Any]) -> Section | None:
    """Return ROC and reliability curves of the held-out probabilities; None if there are too few."""
    rows = [row for row in evaluation["samples"] if row.get("probability") is not None]
    if len(rows) < _FEWEST_FOR_CURVES:
        return None
    curves = _roc_curves(rows, classes)
    pictures = [_roc_picture(curves, len(classes))] if curves else []
    pictures.append(_calibration_picture(rows, classes, evaluation["repeats"]))
    mean, right = float(np.mean([row["probability"] for row in rows])), list(map(_is_right, rows))
    shared = score_interval(np.array(right, float)[None], _units(rows, evaluation["repeats"]))
    gist = "too few groups to tell whether probabilities are too high or too low"
    if shared.low is not None and shared.high is not None:
        far = mean < shared.low or mean > shared.high
        verdict = "overconfident" if mean > shared.score else "underconfident"
        gist = f"the model is {verdict}" if far else "not shown to be over- or underconfident"
    ends = sentences.format_interval((shared.low, shared.high), f"{shared.n_units} {shared.unit}s", ", {}")
    text = (
        f"From the probabilities of the {len(rows)} held-out predictions, with the folds pooled. The model gives the "
        f"class that it predicts a probability of {percent(mean)} % on average and is correct in "
        f"{percent(shared.score)} % ({ends}): {gist}."
    )
    return Section("ROC and calibration", "figures.html", {"text": text, "pictures": pictures}, folded=True, gist=gist)


def _roc_curves(rows: Sequence[Mapping[str, Any]], classes: Sequence[Any]) -> dict[str, Any]:
    """Return the ROC curve of the second of two classes, or of each of several whose probabilities are known."""
    labels = [row["label"] for row in rows]
    if len(classes) == 2:
        columns = {classes[1]: _of_second(rows, classes)}
    elif all("probabilities" in row for row in rows):
        columns = dict(zip(classes, np.array([row["probabilities"] for row in rows]).T, strict=True))
    else:
        return {}
    found = {str(own): roc([label == own for label in labels], column) for own, column in columns.items()}
    return {name: curve for name, curve in found.items() if curve is not None}


def _of_second(rows: Sequence[Mapping[str, Any]], classes: Sequence[Any]) -> list[float]:
    """Return the probability of the second of two classes from that of the predicted one."""
    return [row["probability"] if row["predicted"] == classes[1] else 1 - row["probability"] for row in rows]


def _roc_picture(curves: Mapping[str, Any], n_classes: int) -> Picture:
    names = [f"{name}: area {curve.area:.2f}" for name, curve in curves.items()]
    whose = "one class against the others" if n_classes > 2 else f"positive: {next(iter(curves))}"
    areas = "; ".join(
        f"{name}: area under the curve {curve.area:.3f}, true positive rate "
        f"{percent(float(curve.true_rate[curve.false_rate <= 0.1].max()))} % at a false positive rate of 10 %"
        for name, curve in curves.items()
    )
    return picture(
        plot_roc,
        names,
        [curve.false_rate for curve in curves.values()],
        [curve.true_rate for curve in curves.values()],
        caption=f"ROC curve of held-out predictions ({whose}). The area is 0.5 by chance and 1 without errors.",
        alt=f"ROC curves. {areas}.",
        size=_SQUARE,
    )


def _calibration_picture(rows: Sequence[Mapping[str, Any]], classes: Sequence[Any], repeats: int) -> Picture:
    binary = len(classes) == 2
    event = str(classes[1]) if binary else "a correct prediction"
    happened = [row["label"] == classes[1] if binary else _is_right(row) for row in rows]
    values = _of_second(rows, classes) if binary else [row["probability"] for row in rows]
    curve = reliability(happened, values, _units(rows, repeats))
    places = "; ".join(
        f"probability {percent(one)} %, share {percent(share)} % of {count}"
        for one, share, count in zip(curve.probability, curve.observed, curve.count, strict=True)
    )
    least, most = int(curve.count.min()), int(curve.count.max())
    counts = str(least) if least == most else f"{least} to {most}"
    return picture(
        plot_calibration,
        curve.probability,
        curve.observed,
        curve.low,
        curve.high,
        event=event,
        caption="Calibration: predictions with similar probabilities, and how often they come true, with 95 % "
        f"intervals ({counts} predictions per point). Points on the diagonal are as frequent as predicted.",
        alt=f"Reliability curve of the probability of {event}. {places}.",
        size=_SQUARE,
    )


def _units(rows: Sequence[Mapping[str, Any]], repeats: int) -> Array | None:
    """Return the group of each prediction, or the sample if each was predicted several times; None for neither."""
    grouped = rows[0]["group"] is not None
    return np.array([str(row["group" if grouped else "sample"]) for row in rows]) if grouped or repeats > 1 else None


def _is_less_probable(row: Mapping[str, Any]) -> bool:
    """Return whether another class than the predicted one is more probable."""
    own = row.get("probability")
    return own is not None and own < max(row.get("probabilities", (1 - own,))) - 1e-4  # which have four digits


def _is_right(row: Mapping[str, Any]) -> bool:
    return bool(row["label"] == row["predicted"])


def predictions_section(evaluation: Mapping[str, Any]) -> Section:
    """Return a table of the held-out predictions."""
    rows = evaluation["samples"]
    wrong = sum(not _is_right(row) for row in rows)
    right = f"{len(rows) - wrong} of {len(rows)} predictions are correct ({percent(1 - wrong / len(rows))} %)"
    text = f"The prediction of each sample while it was held out; {right}, {wrong} are wrong."
    if len(rows) > _MOST_ROWS:
        text += f" The first {_MOST_ROWS} are listed."
    text = f"{text} {less_probable(sum(map(_is_less_probable, rows)))}".rstrip()
    content = {
        "text": text,
        "rows": rows[:_MOST_ROWS],
        "grouped": any(row["group"] is not None for row in rows),
        "repeated": evaluation["repeats"] > 1,
        "probable": any(row.get("probability") is not None for row in rows),
    }
    return Section("Predictions", "samples.html", content, folded=True, gist=f"{len(rows)}, {wrong} of them wrong")


def view_sections(
    known: ModelMaps,
    about: Mapping[str, Any],
    problems: Sequence[int],
    whose: str,
    axes: AnyAxes = None,
    first: str | None = None,
) -> list[Section]:
    """Return one section per view; none for a model of one tensor per sample.

    ``problems`` are the binary problems whose factors are drawn, ``whose`` says which samples patterns refer to,
    ``axes`` are those of the samples, and ``first`` is the view that is seen at once, if any.
    """
    classifier, found = known.chain.classifier, known.by_view
    if found is None:
        return []
    modes = known.chain.axes_of_view_maps(axes)
    sections = []
    for name in classifier.coef_:
        content = _one_view(known, about, name, found, modes[name])
        if name in known.patterns and (content["maps"] or content["tables"]):
            agree = sentences.format_halves(known.patterns[name])
            content["text"] += f" The activation pattern, which may be interpreted, is of {whose}. {agree}"
        if len(classifier.sample_shape_[name]) > 1 and (content["maps"] or content["tables"]):
            content["pictures"] = [
                {"group": f"factors of {name}", "name": title, "pictures": factor_pictures(known.model, k, name, axes)}
                for k, title in enumerate(known.chain.problem_names)
                if k in problems
            ]
        share = float(classifier.view_shares_[name].mean())
        gist = f"{sentences.describe_view(classifier, name)}, {percent(share)} % of the score"
        sections.append(Section(f"View {name}", "view.html", content, folded=name != first, gist=gist))
    return sections


def views_overview(maps: ModelMaps, about: Mapping[str, Any]) -> Section | None:
    """Return what each view contributes; None for a model of one tensor per sample."""
    chain, classifier = maps.chain, maps.chain.classifier
    if not isinstance(classifier.coef_, dict):
        return None
    without = about.get("without_views") or {}
    lacking = ["lacking"] if any(classifier.n_missing_.values()) else []
    columns = ["view", "sample", "weight", "share %", *lacking]
    columns += ["score without %", "difference"] if without else []
    rows = []
    for name, shares in classifier.view_shares_.items():
        share = float(shares.mean())
        row = [name, format_shape(classifier.sample_shape_[name]), sentences.describe_view(classifier, name)]
        row += [(percent(share), share), *(str(classifier.n_missing_[name]) for _ in lacking)]
        if name in without:
            gain = without[name]["difference"]["difference"]
            row += [percent(without[name]["score"]), (points(gain), gain)]
        rows.append(row + ["-"] * (len(columns) - len(row)))
    count = len(chain.problem_names)
    text = (
        "Each sample has several views, with a weight each; the score is their sum. The share is that of the variance "
        "of the scores of the training samples, Cov(view, score) / Var(score): shares add up to 100 %, and a negative "
        "one takes back what other views say."
    )
    text += f" Shares are means over the {count} binary problems." if count > 1 else ""
    text += f" The score without a view is the nested {about['evaluation']['score']['name']}." if without else ""
    remarks = _remarks_on_views(without, isinstance(chain.sample_shape, dict))
    if maps.patterns and not chain.is_linear and not isinstance(chain.sample_shape, dict) and "" not in maps.patterns:
        remarks.append(
            "The pattern of the samples as they are is not shown: the model is not linear in them, and halves of the "
            f"samples are not known to agree on it (r of at least {REPRODUCIBLE})."
        )
    if lacking:
        remarks.append("Samples without a view count as zero there after centring, as if they were average in it.")
    return Section("Views", "comparison.html", {"text": text, "tables": [table(columns, rows)], "remarks": remarks})


def _remarks_on_views(without: Mapping[str, Any], given: bool) -> list[str]:
    """Return what leaving out each view costs, or how to find out; views that were not given cannot be left out."""
    if not given:
        return ["These views are representations of the same samples; the score without one of them is not known."]
    if not without:
        return ["To see how much each view adds to the score, evaluate without it: fit --without-views."]
    costs = [
        f"With and without {name}: {sentences.format_difference(one['difference'])}" for name, one in without.items()
    ]
    return [*costs, "Views with the same information replace each other: each may add nothing to the other."]


def _one_view(
    known: ModelMaps, about: Mapping[str, Any], name: str, found: ViewMaps, modes: Axes | None
) -> dict[str, Any]:
    """Return what the section of a view says and shows of its maps: a viewer, a table of covariates, or neither."""
    classifier = known.chain.classifier
    content: dict[str, Any] = {"text": "", "maps": None, "tables": [], "pictures": []}
    if not np.any(classifier.view_scale_[name]):
        text = "The search has left this view out: without it the validation score was better, or as good."
        return {**content, "text": text}
    described = sentences.describe_view(classifier, name)
    content["text"] = f"{described[0].upper()}{described[1:]}."
    made = None if found.on_samples else known.chain.feature_views.get(name)
    if made is not None:
        share = percent(float(classifier.view_shares_[name].mean()))
        content["text"] += (
            f" It has {share} % of the score. Features of {made} are no picture of the samples, so there is no map."
        )
        return content
    kinds = {"activation pattern": known.patterns[name].maps} if name in known.patterns else {}
    kinds["weight"] = found.weights[name]
    entries = _covariates(about, name, kinds["weight"], modes)
    if entries:
        return {**content, "tables": [_covariate_table(known.chain, entries, kinds)]}
    background = None
    if found.samples is not None:
        array = found.samples[name]
        missing = missing_samples(array)
        there = rows_of(array, np.setdiff1d(np.arange(int(array.shape[0])), missing)) if len(missing) else array
        background = np.asarray(np.mean(to_host(there), axis=0, dtype=np.float64))
    affine, unit = affine_of(None, about, name), known.unit_of(name)
    return {**content, "maps": map_content(known.chain, kinds, background, modes, affine, unit=unit)}


def _covariates(about: Mapping[str, Any], name: str, weights: Array, modes: Axes | None) -> list[str]:
    """Return the names of the entries of a view of covariates; none for other views."""
    coding = Coding.from_facts((about.get("data") or {}).get("covariates"))
    known = [] if coding is None or name != COVARIATES else coding.entries
    if not known and modes is not None and modes[0].name == COVARIATE and modes[0].values is not None:
        known = [str(entry) for entry in modes[0].values]
    return known if len(known) == weights[0].size <= _LONGEST_TABLE else []


def _covariate_table(chain: ModelChain, entries: Sequence[str], kinds: Mapping[str, Array]) -> dict[str, Any]:
    """Return a table of the weight and the pattern of each covariate."""
    columns, n_problems = ["covariate"], len(chain.problem_names)
    texts = [chain.map_texts(kind)[k] for k in range(n_problems) for kind in kinds]
    columns += [f"{text.title} ({text.signs})" for text in texts]
    values = [own[k] for k in range(n_problems) for own in kinds.values()]
    cells = [[(short_number(own[place]), float(own[place])) for own in values] for place in range(len(entries))]
    return table(columns, [[entry, *own] for entry, own in zip(entries, cells, strict=True)])
