"""The sections of a report about several views: what each contributes, its weight, pattern and factors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..data import COVARIATES, AnyAxes, Axes, format_shape, missing_samples
from ..inspection import ModelChain, ViewMaps, view_maps
from ..io import Coding
from ..runtime import Array, percent, points, rows_of, short_number, to_host
from .page import Section, factor_pictures, table
from .sentences import describe_view, format_difference
from .viewer import ModelMaps, affine_of, map_content

_LONGEST_TABLE = 200  # entries of a view that are listed


def view_sections(
    known: ModelMaps, about: Mapping[str, Any], problems: Sequence[int], whose: str, axes: AnyAxes = None
) -> list[Section]:
    """Return one section per view; none for a model of one tensor per sample.

    ``problems`` are the binary problems whose factors are drawn, ``whose`` says which samples patterns refer to, and
    ``axes`` are those of the samples.
    """
    model, samples, classifier = known.model, known.samples, known.chain.classifier
    if not isinstance(classifier.coef_, dict):
        return []
    if samples is not None and samples.target is not None:
        found = view_maps(model, samples.data, samples.target, samples.groups, samples.confounds)
    else:
        found = view_maps(model)
        if _shapes(known.patterns) == _shapes(found.weights):
            found = found._replace(patterns=known.patterns)
    modes = known.chain.axes_of_view_maps(axes)
    sections = []
    for name in classifier.coef_:
        content = _one_view(known, about, name, found, modes[name])
        if found.patterns is not None and (content["maps"] or content["tables"]):
            content["text"] += f" The activation pattern, which may be interpreted, is of {whose}."
        if len(classifier.sample_shape_[name]) > 1 and (content["maps"] or content["tables"]):
            content["pictures"] = [
                {"group": f"factors of {name}", "name": title, "pictures": factor_pictures(model, k, name, axes)}
                for k, title in enumerate(known.chain.problem_names)
                if k in problems
            ]
        share = float(classifier.view_shares_[name].mean())
        gist = f"{describe_view(classifier, name)}, {percent(share)} % of the score"
        sections.append(Section(f"View {name}", "view.html", content, folded=True, gist=gist))
    return sections


def views_overview(chain: ModelChain, about: Mapping[str, Any]) -> Section | None:
    """Return what each view contributes; None for a model of one tensor per sample."""
    classifier = chain.classifier
    if not isinstance(classifier.coef_, dict):
        return None
    without = about.get("without_views") or {}
    lacking = ["lacking"] if any(classifier.n_missing_.values()) else []
    columns = ["view", "sample", "weight", "share %", *lacking]
    columns += ["score without %", "difference"] if without else []
    rows = []
    for name, shares in classifier.view_shares_.items():
        share = float(shares.mean())
        row = [name, format_shape(classifier.sample_shape_[name]), describe_view(classifier, name)]
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
    remarks = _remarks(without, isinstance(chain.sample_shape, dict))
    if lacking:
        remarks.append("Samples without a view count as zero there after centring, as if they were average in it.")
    return Section("Views", "comparison.html", {"text": text, "tables": [table(columns, rows)], "remarks": remarks})


def _remarks(without: Mapping[str, Any], given: bool) -> list[str]:
    """Return what leaving out each view costs, or how to find out; views that were not given cannot be left out."""
    if not given:
        return ["These views are representations of the same samples; the score without one of them is not known."]
    if not without:
        return ["To see how much each view adds to the score, evaluate without it: fit --without-views."]
    costs = [f"With and without {name}: {format_difference(one['difference'])}" for name, one in without.items()]
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
    described = describe_view(classifier, name)
    content["text"] = f"{described[0].upper()}{described[1:]}."
    made = None if found.on_samples else known.chain.feature_views.get(name)
    if made is not None:
        share = percent(float(classifier.view_shares_[name].mean()))
        content["text"] += (
            f" It has {share} % of the score. Features of {made} are no picture of the samples, so there is no map."
        )
        return content
    kinds = {} if found.patterns is None else {"activation pattern": found.patterns[name]}
    kinds["weight"] = found.weights[name]
    entries = _covariates(about, name, kinds["weight"])
    if entries:
        return {**content, "tables": [_covariate_table(known.chain, entries, kinds)]}
    background = None
    if found.samples is not None:
        array = found.samples[name]
        missing = missing_samples(array)
        there = rows_of(array, np.setdiff1d(np.arange(int(array.shape[0])), missing)) if len(missing) else array
        background = np.asarray(np.mean(to_host(there), axis=0, dtype=np.float64))
    return {**content, "maps": map_content(known.chain, kinds, background, modes, affine_of(None, about, name))}


def _shapes(maps: Any) -> Any:
    """Return the shapes of maps by view; None if they are not by view."""
    return {name: own.shape for name, own in maps.items()} if isinstance(maps, Mapping) else None


def _covariates(about: Mapping[str, Any], name: str, weights: Array) -> list[str]:
    """Return the names of the entries of a view of covariates; none for other views."""
    coding = Coding.from_facts((about.get("data") or {}).get("covariates"))
    known = [] if coding is None or name != COVARIATES else coding.entries
    return known if len(known) == weights[0].size <= _LONGEST_TABLE else []


def _covariate_table(chain: ModelChain, entries: Sequence[str], kinds: Mapping[str, Array]) -> dict[str, Any]:
    """Return a table of the weight and the pattern of each covariate."""
    names = chain.problem_names
    columns = ["covariate"]
    columns += [f"{kind}, {names[k]}" if len(names) > 1 else kind for k in range(len(names)) for kind in kinds]
    values = [own[k] for k in range(len(names)) for own in kinds.values()]
    cells = [[(short_number(own[place]), float(own[place])) for own in values] for place in range(len(entries))]
    return table(columns, [[entry, *own] for entry, own in zip(entries, cells, strict=True)])
