"""All sentences on models, evaluations and comparisons, for `inspect`, the reports and a methods section.

What is described comes first, then the methods section, the results of an evaluation, and what they do not show.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import bdtr

from ..data import format_shape
from ..estimators import TensorMarginClassifier
from ..fitting import plain_rank
from ..inspection import REPRODUCIBLE, AveragedClassifier, MarginReport, ModelChain, Pattern
from ..io import UNEQUAL, describe_loading, unequal_classes
from ..runtime import counted, join_with_and, listed, percent, points, short_number
from ..transformers import TensorKernel, describe_step

_LIKELY = 0.05
_WIDE = 0.2  # width of an interval whose reason is given
_MOST_NAMED = 4  # classes
_MOST_GROUPS = 8  # in a line
_FORMS = {"full": "full weight", "cp": "CP weight", "tucker": "Tucker weight", "tt": "Tensor-Train weight"}

RULES = {
    "smoothed": "the best after smoothing over close models",
    "best": "the best (ties go to the model with the fewest parameters)",
    "default": "the first one, unless the best is better by more than two standard errors of the difference",
    "simplest": "the simplest within one standard error of the best",
    "margins": "the one with the smallest Cantelli bound on its validation margins, of those within one standard error "
    "of the best",
}
"""What a search selects by rule, in words."""

CONFOUNDS_WARNING = (
    "Removing confounds is not the same as controlling for them: what they share with the classes is lost, effects "
    "that are not linear stay, and a model may use what is left."
)
"""What the removal of confounds does not mean."""

_NO_CONFOUNDS = (
    "The model need not use what you have in mind: no confounds were removed, and anything that differs between the "
    "classes helps it, such as age, motion, device or the order of the recordings."
)
_OF_MAPS = [
    "A large weight does not mean that the classes differ there, nor a small one that they are alike: weights also "
    "cancel noise. The activation pattern shows what changes with the score; it shows no causes.",
    "No entry of a map was tested by itself: single peaks are not findings, and what the model does without may still "
    "carry information.",
]

_UNREAD = "The model is not shown to beat chance: do not read its maps, which may be those of noise."

FLAT_EXPLAINED = "flat LinearSVC (a linear support vector machine that takes each sample as one long vector)"
"""What the reference of evaluations is."""

GROUPS_EXPLAINED = "Samples of one person, session or the like form a group and always stay in the same fold."
"""What groups are."""


def describe_model(classifier: TensorMarginClassifier, steps: Sequence[Any] = ()) -> str:
    """Return the decomposition and rank of the weight in words; for vectors, that the weight is flat.

    Vectors of kernel features are told from others by the ``steps`` before the classifier.

    Examples
    --------
    >>> from tensormargin import TensorMarginClassifier
    >>> from tensormargin.datasets import make_low_rank_classes
    >>> from tensormargin.report import describe_model
    >>> data = make_low_rank_classes(40, (6, 7, 5), random_state=0)
    >>> describe_model(TensorMarginClassifier("cp", 2).fit(data.data, data.target))
    'CP weight of rank 2'
    """
    if isinstance(classifier.sample_shape_, dict):
        texts = {name: describe_view(classifier, name) for name in classifier.rank_}
        if len(set(texts.values())) == 1 and "left out" not in texts.values():
            return f"one {next(iter(texts.values()))} per view ({', '.join(texts)})"
        return f"one weight per view ({', '.join(f'{name}: {text}' for name, text in texts.items())})"
    form = _FORMS[str(classifier.decomposition)]
    if isinstance(classifier, AveragedClassifier):
        return f"{form}, the mean of those of {classifier.n_copies_} calibrated classifiers"
    text = form if classifier.decomposition == "full" else f"{form} of rank {_rank(classifier)}"
    if len(classifier.sample_shape_) > 1:
        return text
    if steps and isinstance(steps[-1], TensorKernel):
        return f"{text} on {classifier.sample_shape_[0]} kernel features"
    return f"{text} (the samples are vectors, so the weight is flat)"


def describe_view(classifier: TensorMarginClassifier, name: str) -> str:
    """Return the decomposition and rank of the weight of one of several views in words."""
    if not classifier.view_scale_[name].any():
        return "left out"
    rank, given = classifier.rank_[name], classifier.decomposition
    form = _FORMS["full" if rank is None else given.get(name, "tucker") if isinstance(given, dict) else given]
    return form if rank is None else f"{form} of rank {plain_rank(rank)}"


def _rank(classifier: TensorMarginClassifier) -> str:
    if hasattr(classifier, "rank_"):  # what was used: the parameter is an upper bound
        return str(plain_rank(classifier.rank_))
    weight = classifier.weight_[0] if isinstance(classifier.weight_, list) else classifier.weight_
    return str(classifier.rank if classifier.rank is not None else weight.rank)  # saved by version 0.1


def describe_strengths(classifier: TensorMarginClassifier) -> str:
    """Return lambda, mu1 and mu2, and the axis that they are on."""
    axis = "scale-free" if classifier.scale_free else "as in the paper, for samples that are not rescaled"
    lam, mu1, mu2 = (_strength(getattr(classifier, name)) for name in ("lam", "mu1", "mu2"))
    return f"λ = {lam}, μ1 = {mu1}, μ2 = {mu2} ({axis})"


def _strength(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:g}"  # version 0.1 saved text, too


def describe_chosen(chosen: Mapping[str, Any], lam: str = "lambda", mu: str = "mu") -> str:
    """Return the strengths and the scheme that a search has chosen; one-vs-one goes without saying.

    Examples
    --------
    >>> from tensormargin.report import describe_chosen
    >>> describe_chosen({"lam": 1.0, "mu1": 1.0, "mu2": 1.0})
    'lambda 1, mu 1'
    """
    mu1, mu2 = _strength(chosen["mu1"]), _strength(chosen["mu2"])
    strengths = f"{lam} {_strength(chosen['lam'])}, {mu} {mu1}" + ("" if mu1 == mu2 else f" and {mu2}")
    if chosen.get("multi_class", "ovo") == "ovo":
        return strengths
    return f"{strengths}, one-vs-rest" + (", balanced" if chosen.get("class_weight") == "balanced" else "")


def format_choice(chosen: Mapping[str, Any]) -> str:
    """Return decomposition, rank, strengths and preparation that a search has chosen."""
    form, rank, scale = (chosen.get(name) for name in ("decomposition", "rank", "view_scale"))
    left_out = [name for name, one in scale.items() if one == 0] if isinstance(scale, dict) else []
    by_view = form if isinstance(form, dict) else rank if isinstance(rank, dict) else {"": None}
    parts = []
    for name in (name for name in by_view if name not in left_out):
        own = [one.get(name) if isinstance(one, dict) else one for one in (form, rank)]
        parts.append(" ".join(str(one) for one in (name, *own) if one not in ("", None)))
    parts += [f"without {name}" for name in left_out]
    parts.append(describe_chosen(chosen, "λ", "μ"))
    if "preparation" in chosen:
        parts.append(chosen["preparation"] or "samples as they come")
    return ", ".join(parts)


def format_margins(report: MarginReport) -> str:
    """Return the numbers of a margin distribution, by class."""
    negative, positive = report.classes
    sides = [("rest" if negative is None else negative, -1), (positive, 1)]
    own = [(name, report.margins[report.signs == sign]) for name, sign in sides]
    means = "; ".join(
        f"{name}: {counted(len(some), 'sample')}, mean {short_number(some.mean())}" for name, some in own if len(some)
    )
    return f"Histograms of margins. {means}. {percent(report.cantelli.rate)} % of the margins are not positive."


def statements(model: Any, facts: Mapping[str, Any]) -> list[str]:
    """Return the methods section of a paper: data, preparation, model, choice, evaluation, software.

    One paragraph each, in full sentences.

    Examples
    --------
    >>> from tensormargin import TensorMarginClassifier
    >>> from tensormargin.datasets import make_low_rank_classes
    >>> from tensormargin.report import statements
    >>> data = make_low_rank_classes(40, (6, 7), rank=1, random_state=0)
    >>> clf = TensorMarginClassifier("cp", 1).fit(data.data, data.target)
    >>> statements(clf, {"versions": {"tensormargin": "0.2"}})[0]  # or with the facts that load_model returns
    'The samples were classified as they are, without preparation.'
    """
    about, chain = facts.get("about", {}), ModelChain.of(model)
    loading = {name: value for name, value in (about.get("loading") or {}).items() if name != "kind"}
    loaded, steps, chance = describe_loading(loading), describe_steps(model), about.get("chance")
    lines = [
        _data(about["data"]) if about.get("data") else "",
        f"They were made from the files as follows: {loaded}." if loaded else "",
        f"Before classification, {'; then '.join(steps)}."
        if steps
        else "The samples were classified as they are, without preparation.",
        CONFOUNDS_WARNING if chain.confounds_by_view else "",
        _model(chain),
        _choice(chain, about),
        *describe_wrappers(model),
        _shares(chain),
        _evaluation(about.get("evaluation")),
        without_views_line(about),
    ]
    if chance is not None:
        lines.append(
            f"A permutation test of the {chance['score_name']} ({_n_permutations(chance)} permutations of "
            f"{chance['exchanged']}, all choices made anew for each) gave {format_p(chance['p_value'])}."
        )
    return [line for line in (*lines, describe_software(facts["versions"])) if line]


def describe_software(versions: Mapping[str, str]) -> str:
    """Return a sentence with the versions of the software."""
    names = {"python": "Python", "numpy": "NumPy", "scipy": "SciPy"}
    known = [f"{names.get(name, name)} {version}" for name, version in versions.items()]
    return f"The analysis was done with {join_with_and(known)}."


def _data(data: Mapping[str, Any]) -> str:
    shape, views = format_shape(data["sample_shape"]), data.get("views", [])
    what = f"{len(views)} views each, {shape}" if views else f"{shape} entries"
    modes = f" (modes: {data['modes']})" if data.get("modes") else ""
    kind = f", {data['kind']}" if data.get("kind") else ""
    groups = f", from {data['n_groups']} groups" if data["n_groups"] else ""
    classes = join_with_and([f"{row['label']} ({counted(row['count'], 'sample')})" for row in data["classes"]])
    lacking = [f"{one['name']} in {counted(one['n_missing'], 'sample')}" for one in views if one["n_missing"]]
    more = f" Views are missing: {join_with_and(lacking)}." if lacking else ""
    return (
        f"The data ({data['source']}{kind}) are {data['n_samples']} samples of {what}{modes}{groups}. The classes are "
        f"{classes}.{more}"
    )


def rule_of(search: Any) -> str:
    """Return how a search has selected its model, in words."""
    return RULES[search._setting("rule")]


def describe_steps(model: Any) -> list[str]:
    """Return a description of each step before the classifier."""
    return [describe_step(step) for step in ModelChain.of(model).steps]


def _model(chain: ModelChain) -> str:
    classifier, weight = chain.classifier, describe_model(chain.classifier, chain.steps)
    count, given = len(classifier.problems_), classifier.class_weight
    scheme = _SCHEMES[classifier.multi_class_]
    more = "" if count == 1 else f" The classes are told apart by {count} binary problems ({scheme})."
    if isinstance(given, Mapping):
        weights = join_with_and(f"{weight:g} ({label})" for label, weight in given.items())
        more += f" Class weights were {weights}."
    elif given:
        more += " Classes were weighted inversely to their number of samples."
    return (
        "The classifier is a large margin distribution machine for tensors (SPMD-LRT family) with "
        f"{'' if weight.startswith('one ') else 'a '}{weight} and {describe_strengths(classifier)}, fitted to a "
        f"tolerance of {classifier.tol:g}.{more}"
    )


_SETTINGS = {
    "decomposition": "forms of the weight",
    "rank": "ranks",
    "lam": "λ",
    "mu1, mu2": "(μ1, μ2)",
    "multi_class": "schemes for several classes",
    "class_weight": "class weights",
    "preparation": "representations of the samples",
}
"""What a search tries, as the methods section calls it."""

_SCHEMES = {"ovo": "one against one", "ovr": "one against the rest"}
_VALUES = {"None": "none", "full": "full", "cp": "CP", "tucker": "Tucker", "tt": "Tensor-Train"} | _SCHEMES


def _choice(chain: ModelChain, about: Mapping[str, Any]) -> str:
    search = about.get("search")
    if search is None:
        return ""
    given = {name: [_VALUES.get(one, one) for one in values] for name, values in search["tried"].items()}
    several = [f"{_SETTINGS.get(name, name)} ({'; '.join(own)})" for name, own in given.items() if len(own) > 1]
    among = f", which differ in {join_with_and(several)}" if several else ""
    seed = (about.get("plan") or {}).get("seed")
    drawn = "" if seed is None else f" (seed {seed})"
    raced = ""
    if search.get("ended_at_once"):
        raced = " Only the first was fitted: no other could have been better by more than chance allows."
    elif search.get("n_dropped"):
        dropped = counted(search["n_dropped"], "model was", "models were")
        raced = f" {dropped} dropped after the first folds ({search['n_fits']} fits in all)."
    stopped = f" The search ended early: {search['stopped']}." if search.get("stopped") else ""
    return (
        f"The model was selected by {search['n_splits']}-fold cross-validation{drawn} from {search['n_models']} "
        f"models{among}. The rule was to take {rule_of(chain.search)}; the model was then refitted on all "
        f"samples.{raced}{stopped}"
    )


def describe_wrappers(model: Any) -> list[str]:
    """Return a sentence for each search of scikit-learn, calibrator or threshold that a model is wrapped in."""
    return list(filter(None, map(_describe_wrapper, ModelChain.of(model).wrappers)))


def _describe_wrapper(wrapper: Any) -> str:
    name = type(wrapper).__name__
    if hasattr(wrapper, "calibrated_classifiers_"):
        count = len(wrapper.calibrated_classifiers_)
        mean = f"; weights and margins are the mean over its {count} classifiers" if count > 1 else ""
        return f"{name}: probabilities calibrated by {wrapper.method}{mean}."
    if hasattr(wrapper, "best_threshold_"):
        return f"{name}: decision threshold {wrapper.best_threshold_:.3g}, chosen by cross-validation."
    if hasattr(wrapper, "cv_results_") and not hasattr(wrapper, "lowered_ranks_"):
        score = getattr(wrapper, "best_score_", None)
        scored = "" if score is None else f", with the validation score {score:.3g}"
        chosen = ", ".join(
            f"{key} {describe_step(value, brief=True) if hasattr(value, 'get_params') else value}"
            for key, value in wrapper.best_params_.items()
        )
        return (
            f"{name}: {len(wrapper.cv_results_['params'])} candidates by {wrapper.n_splits_}-fold cross-validation; "
            f"chosen {chosen}{scored}."
        )
    return ""


def _evaluation(evaluation: Mapping[str, Any] | None) -> str:
    if evaluation is None:
        return "The model was not evaluated on held-out samples."
    score, reference, matched = evaluation["score"], evaluation["reference"], evaluation.get("matched")
    again = f" and, on the representation chosen on each training set, {percent(matched['score'])} %" if matched else ""
    difference, cut = evaluation["difference"], _was_cut(evaluation)
    sentences = (
        f"The model was evaluated by nested cross-validation ({evaluation['scheme']}, seed {evaluation['seed']}): all "
        "choices were made anew on each training set, and its test set was used for predictions only. The "
        f"{score['name']} of all held-out predictions was {percent(score['value'])} %{_interval_note(evaluation)}.",
        interval_explained(evaluation),
        f"A {FLAT_EXPLAINED} with C chosen on {_training_sets(evaluation)} reached "
        f"{percent(reference['score'])} %{again}.",
        format_difference(difference, cut),
        f"The budget {evaluation['cut']}." if cut else f"Test of the difference: {difference['method']}.",
    )
    return " ".join(filter(None, sentences))


def _interval_note(evaluation: Mapping[str, Any]) -> str:
    """Return the interval and its unit in parentheses, or that there is none."""
    return f" ({format_interval(evaluation['interval'], format_units(evaluation), ', {}')})"


def format_interval(ends: Sequence[float | None], units: str, form: str = " % ({})") -> str:
    """Return an interval in percent with what it rests on, in a form, or why there is none."""
    if ends[0] is None:
        return f"no interval: {units} are too few"
    return f"95 % interval {format_ends(ends)}{form.format(units)}"


def format_ends(ends: Sequence[float | None], form: Callable[[float], str] = percent) -> str:
    """Return both ends of an interval, "-" if there is none."""
    low, high = ends
    return "-" if low is None or high is None else f"{form(low)} to {form(high)}"


def interval_explained(evaluation: Mapping[str, Any]) -> str:
    """Return what the interval of a score is for and how it was computed; empty if an older version computed it."""
    if evaluation["interval"][0] is None or "interval_method" not in evaluation:
        return ""
    sizes = [fold["n_train"] for fold in evaluation["folds"]]
    return (
        f"The interval is for the {evaluation['score']['name']} to be expected on new {evaluation['unit']}s like these "
        "from models chosen and fitted in this way to training sets of this size "
        f"({round(sum(sizes) / len(sizes))} samples). It is {evaluation['interval_method']}."
    )


def format_units(evaluation: Mapping[str, Any]) -> str:
    """Return the number of samples or groups that an interval rests on."""
    return f"{evaluation['n_units']} {evaluation['unit']}s"


def _shares(chain: ModelChain) -> str:
    """Return how much each of several views contributes to the scores of the training samples."""
    shares = getattr(chain.classifier, "view_shares_", None)
    if not shares:
        return ""
    parts = [f"{name} {percent(float(own.mean()))} %" for name, own in shares.items()]
    return f"The views contribute {join_with_and(parts)} to the variance of the scores of the training samples."


def without_views_line(about: Mapping[str, Any]) -> str:
    """Return the score without each of several views in words."""
    found = about.get("without_views")
    if not found:
        return ""
    name = about["evaluation"]["score"]["name"]
    scores = [f"{percent(one['score'])} % without {view}" for view, one in found.items()]
    return f"In the same evaluation without single views, the {name} was {join_with_and(scores)}."


def _training_sets(evaluation: Mapping[str, Any]) -> str:
    """Return what the flat reference was fitted to: the training sets, or those of their samples that fit memory.

    It is said to take the samples as they are where another one takes a representation of them.
    """
    counts = [fold.get("reference_chosen", {}).get("training samples") for fold in evaluation.get("folds", [])]
    some = [count for count in counts if count is not None]
    fitting = f"{min(some)} samples, all that fit into memory, of " if some else ""
    return f"{fitting}the same training sets" + (", on the samples as they are" if evaluation.get("matched") else "")


def evaluation_lines(evaluation: Mapping[str, Any] | None, chance: Mapping[str, Any] | None) -> list[str]:
    """Return the results of the evaluation, the comparison with the flat reference and the permutation test.

    Examples
    --------
    >>> from tensormargin.report import evaluation_lines  # of about["evaluation"] and about["chance"] of a model
    >>> evaluation_lines(None, None)
    ['This model was not evaluated: its accuracy on new samples is unknown.']
    """
    if evaluation is None:
        return ["This model was not evaluated: its accuracy on new samples is unknown.", *_chance_lines(chance)]
    reference, majority, matched = evaluation["reference"], evaluation["majority"], evaluation.get("matched")
    cut, name = _was_cut(evaluation), evaluation["score"]["name"]
    other = "accuracy" if name == "balanced accuracy" else "balanced accuracy"
    lines = [
        f"{name.capitalize()} on held-out samples: {percent(evaluation['score']['value'])} %"
        f"{_interval_note(evaluation)}; {other}: {percent(evaluation[other.replace(' ', '_')])} %."
    ]
    if evaluation["unit"] == "group":
        lines.append(GROUPS_EXPLAINED)
    lines += [line for line in (_versus_chance(evaluation, None), _rare_classes(evaluation)) if line]
    if evaluation.get("groups"):
        lines += [line for line in (_why_unsure(evaluation), group_line(evaluation["groups"])) if line]
    lines.append(
        f"A {FLAT_EXPLAINED}, {'cut' if cut else 'tuned'} the same way on {_training_sets(evaluation)}: "
        f"{percent(reference['score'])} %; the majority class: "
        f"{percent(majority['score'])} %. {format_difference(evaluation['difference'], cut)}"
    )
    if matched:
        difference = format_difference(matched["difference"], cut)
        score = percent(matched["score"])
        lines.append(f"The same on the representation chosen on each training set: {score} %. {difference}")
    if cut and not evaluation["n_untested"]:
        lines.append(f"The budget {evaluation['cut']}.")
    return [*lines, *_unusual_folds(evaluation), *_chance_lines(chance)]


def format_difference(difference: Mapping[str, Any], cut: bool = False) -> str:
    """Return a sentence with a paired difference, its interval and whether it is significant.

    Nothing follows from it if the budget has ``cut`` what is compared.
    """
    text = f"The difference of {points(difference['difference'])} points"
    if cut:
        return f"{text} is not tested: with more time both may be better."
    if difference["low"] is None:
        return f"{text} comes from {difference['n_units']} groups: too few to tell whether it is significant."
    verdict = "is significant" if difference["significant"] else "is not significant"
    return (
        f"{text} {verdict} (95 % interval {format_ends((difference['low'], difference['high']), points)}, "
        f"{format_p(difference['p_value'])}, paired by {difference['unit']})."
    )


def _was_cut(evaluation: Mapping[str, Any]) -> bool:
    """Return whether the budget has cut the search or the reference in an outer fold."""
    return any(fold.get("cut") for fold in evaluation["folds"])


def format_p(p_value: float) -> str:
    """Return a p-value with two digits, or "p < 0.001"."""
    return "p < 0.001" if p_value < 0.001 else f"p = {p_value:.2g}"


def _unusual_folds(evaluation: Mapping[str, Any]) -> list[str]:
    """Return remarks on folds whose training or test set lacks a class, and on untested samples."""
    lines = [
        f"The training set of fold {fold_name(fold)} has no sample of {', '.join(map(str, fold['unseen']))}, so none "
        "of those in its test set can be right."
        for fold in evaluation["folds"]
        if fold["unseen"]
    ]
    absent = [fold for fold in evaluation["folds"] if fold["absent"]]
    if absent:
        lines.append(
            f"{len(absent)} of {len(evaluation['folds'])} test sets lack a class, so single folds may be at 0 or "
            "100 %; the score above counts all predictions together."
        )
    if evaluation["n_untested"]:
        why = "without them a training set would have lacked a class, or the splits leave them out"
        why = f"the budget {evaluation['cut']}" if "no time" in evaluation.get("cut", "") else why
        lines.append(f"{counted(evaluation['n_untested'], 'sample was', 'samples were')} never tested: {why}.")
    return lines


def fold_name(fold: Mapping[str, Any]) -> str:
    """Return "repeat.fold", both counted from 1."""
    return f"{fold['repeat'] + 1}.{fold['fold'] + 1}"


def fold_note(fold: Mapping[str, Any]) -> str:
    """Return which groups a fold tests, and which classes are missing from its training and test set."""
    groups = list(map(str, fold.get("groups") or ()))
    parts = (("training", fold["unseen"]), ("test", fold["absent"]))
    notes = [f"{name} set without {', '.join(map(str, classes))}" for name, classes in parts if classes]
    return "; ".join([*([f"tests {listed(groups, most=_MOST_GROUPS)}"] if groups else []), *notes])


def _chance_lines(chance: Mapping[str, Any] | None) -> list[str]:
    if chance is None:
        return []
    fixed, stuck = list(map(str, chance["fixed_groups"])), ""
    if fixed:
        stuck = (
            f" The labels of {counted(chance['n_fixed'], 'sample')} cannot be exchanged: their groups "
            f"({listed(fixed, most=5)}) have one label each, the same one."
        )
    return [
        f"Permutation test of that {chance['score_name']} ({percent(chance['score'])} %): "
        f"{format_p(chance['p_value'])} ({_n_permutations(chance)} permutations of {chance['exchanged']}; the "
        f"smallest possible p is {chance['smallest_p']:.2g}).{stuck}"
    ]


def _n_permutations(chance: Mapping[str, Any]) -> str:
    """Return the number of permutations, and of how many if the budget left no time for all of them."""
    done, planned = chance["n_permutations"], chance.get("n_planned") or 0
    return f"{done} of {planned} planned" if planned > done else str(done)


def format_differences(differences: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return sentences on which methods differ from the one that all are compared with.

    Examples
    --------
    >>> from tensormargin.report import format_differences
    >>> difference = {"method": "STM", "against": "SVM", "difference": 0.05, "low": -0.01, "high": 0.11}
    >>> format_differences([{**difference, "p_value": 0.2, "significant": False, "detectable": 0.12}])
    ['Not significantly different from SVM: STM. A true difference of 12 points would have been found in 4 of 5 such comparisons.']
    """  # noqa: E501 (an output is one line)
    if differences and all(one["low"] is None for one in differences):
        return ["There are too few groups to tell whether methods differ."]
    lines = []
    for sign, words in ((1, "Significantly better than"), (-1, "Significantly worse than")):
        names = [one["method"] for one in differences if one["significant"] and sign * one["difference"] > 0]
        lines += [f"{words} {differences[0]['against']}: {', '.join(names)}."] if names else []
    alike = [one for one in differences if not one["significant"]]
    if alike:
        least, most = (
            round(100 * limit([one["detectable"] for one in alike if one["detectable"] is not None], default=1.0))
            for limit in (min, max)
        )
        gap = f"{most} points" if least == most else f"{least} to {most} points, depending on the method,"
        lines.append(
            f"Not significantly different from {differences[0]['against']}: "
            f"{', '.join(one['method'] for one in alike)}. A true difference of {gap} would have been found in 4 of 5 "
            "such comparisons."
        )
    return lines


def format_best(summaries: Sequence[Mapping[str, Any]], best: Mapping[str, Any]) -> str:
    """Return which method has the best accuracy, or that several are tied."""
    tied = [one["method"] for one in summaries if one["accuracy"] == best["accuracy"] and one is not best]
    if not tied:
        return f"{best['method']} has the best accuracy"
    return f"{best['method']} is tied with {', '.join(tied)} at the highest accuracy"


def model_sentence(
    classes: Sequence[Any], evaluation: Mapping[str, Any] | None, chance: Mapping[str, Any] | None
) -> str:
    """Return how often a model is correct, what that compares with, how sure it is, and what makes it unsure."""
    if evaluation is None:
        names = [str(label) for label in classes]
        apart = f"{len(names)} classes" if len(names) > _MOST_NAMED else join_with_and(names)
        return f"This model was not evaluated: how well it tells {apart} apart on new samples is unknown."
    score, majority = evaluation["score"], evaluation["majority"]
    correct = f"Correct on {percent(score['value'])} % of held-out samples"
    if score["name"] != "accuracy":
        correct = f"{score['name'].capitalize()} of {percent(score['value'])} % on held-out samples"
    lines = [
        f"{correct}{_interval_note(evaluation)}; always answering {majority['label']}: {percent(majority['score'])} %.",
        _rare_classes(evaluation),
        _why_unsure(evaluation),
        _versus_chance(evaluation, chance),
        _versus_references(evaluation),
    ]
    return " ".join(filter(None, lines))


def _rare_classes(evaluation: Mapping[str, Any]) -> str:
    """Return balanced accuracy and worst recall where classes are unequal; empty where they are not."""
    rows = evaluation["samples"]
    right = Counter(row["label"] for row in rows if row["label"] == row["predicted"])
    return unequal_classes(right, Counter(row["label"] for row in rows), evaluation["score"]["name"] == "accuracy")


def _why_unsure(evaluation: Mapping[str, Any]) -> str:
    """Return which groups fail, or else why the interval is wide; empty if neither holds."""
    (low, high), units = evaluation["interval"], format_units(evaluation)
    groups, score, majority = evaluation.get("groups") or [], evaluation["accuracy"], evaluation["majority"]
    level = majority.get("accuracy", majority["score"])  # which models of 0.1 do not have
    failing = [one for one in groups if one["accuracy"] <= level and _is_below(one, score, len(groups))]
    if 0 < 2 * len(failing) < len(groups):
        which = f"One of the {len(groups)} groups fails"
        which = which if len(failing) == 1 else f"{len(failing)} of the {len(groups)} groups fail"
        return f"{which}: {_format_groups(failing)}."
    if low is None or high - low <= _WIDE:
        return ""
    if groups and groups[0]["interval"][1] < groups[-1]["interval"][0]:
        ends = " to ".join(_format_groups([one]) for one in (groups[0], groups[-1]))
        return f"The interval is wide since the groups differ, from {ends}."
    return f"The interval is wide since it rests on {units}."


def _is_below(group: Mapping[str, Any], score: float, n_groups: int) -> bool:
    """Return whether a group is worse than chance makes the worst of so many groups of its size (Bonferroni)."""
    n_right = round(group["accuracy"] * group["n_samples"])
    return bool(bdtr(n_right, group["n_samples"], score) < _LIKELY / n_groups)


def group_line(groups: Sequence[Mapping[str, Any]]) -> str:
    """Return the accuracy in each of some groups, worst first."""
    return f"Accuracy by group, worst first: {_format_groups(groups, _MOST_GROUPS)}."


def _format_groups(groups: Sequence[Mapping[str, Any]], most: int = 3) -> str:
    return listed([f"{one['group']} ({percent(one['accuracy'])} %)" for one in groups], most=most)


def _versus_chance(evaluation: Mapping[str, Any], chance: Mapping[str, Any] | None) -> str:
    """Return how a score compares with chance, by the permutation test, or with the majority class."""
    (low, _), majority, score = evaluation["interval"], evaluation["majority"], evaluation["score"]["value"]
    always = f"always answering {majority['label']}"
    if chance is not None:
        better = "Significantly better" if chance["p_value"] <= _LIKELY else "Not shown to be better"
        return f"{better} than chance ({format_p(chance['p_value'])})."
    if score <= majority["score"] + 1e-9:
        return "" if _rare_classes(evaluation) else f"That is not better than {always}."
    if low is None:
        return f"{format_units(evaluation)} are too few to tell whether that is better than {always}."
    if low <= majority["score"]:
        return f"The interval includes {percent(majority['score'])} %: not shown to be better than {always}."
    return ""


def _versus_references(evaluation: Mapping[str, Any]) -> str:
    """Return how a score compares with the flat reference, on the samples and on the chosen representation."""
    reference, matched = evaluation["reference"], evaluation.get("matched")
    verdict, flat = _verdict(evaluation["difference"]), f"a flat {reference['name']}"
    score = percent(reference["score"])
    if _was_cut(evaluation):
        return f"Not compared with {flat} ({score} %): the budget {evaluation['cut']}."
    if not verdict:
        return ""
    if not matched:
        return f"{verdict} {flat} ({score} %)."
    again, first = _verdict(matched["difference"]), f"{verdict} {flat} on the samples as they are ({score} %)"
    other = " or" if again == verdict else f", but {again[0].lower()}{again[1:]} one"
    return f"{first}{other} on the chosen representation ({percent(matched['score'])} %)."


def _verdict(difference: Mapping[str, Any]) -> str:
    if difference["low"] is None:
        return ""
    if not difference["significant"]:
        return "Not significantly different from"
    return f"Significantly {'better' if difference['difference'] > 0 else 'worse'} than"


def beats_chance(about: Mapping[str, Any]) -> bool:
    """Return whether a model is shown to beat chance: by its permutation test, or else by its interval.

    Examples
    --------
    >>> from tensormargin.report import beats_chance
    >>> beats_chance({"evaluation": {"interval": [0.5, 0.9], "majority": {"score": 0.6}}})
    False
    """
    evaluation, chance = about.get("evaluation"), about.get("chance")
    if chance is not None:
        return bool(chance["p_value"] <= _LIKELY)
    return evaluation is not None and (evaluation["interval"][0] or 0.0) > evaluation["majority"]["score"]


def format_halves(pattern: Pattern, problem: int | None = None) -> str:
    """Return a sentence on how well halves of the samples agree on a pattern, of a binary problem or on average.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin.inspection import Pattern
    >>> from tensormargin.report import format_halves
    >>> format_halves(Pattern(np.ones((1, 4)), [0.82], "groups"))
    'Halves of the groups agree on it (r = 0.82).'
    """
    halves = float(np.mean(pattern.halves) if problem is None else pattern.halves[problem])
    if np.isnan(halves):
        return "Whether halves of the samples agree on it is unknown."
    if halves < REPRODUCIBLE:
        return f"Halves of the {pattern.by} agree little on it (r = {halves:.2f}): single entries may be noise."
    return f"Halves of the {pattern.by} agree on it (r = {halves:.2f})."


def model_limits(model: Any, about: Mapping[str, Any], with_maps: bool) -> list[str]:
    """Return what a reader should not conclude from a report (``with_maps`` if it has some): what applies to it."""
    evaluation, chance, data = about.get("evaluation"), about.get("chance"), about.get("data") or {}
    if evaluation is None:
        lines = ["How well the model does on new samples was not measured."]
    else:
        n_models = (about.get("search") or {}).get("n_models")
        among = f"of {n_models} models " if n_models else ""
        lines = [
            *_of_score(evaluation, data),
            *_of_comparison(evaluation),
            f"The choice {among}is part of the evaluation; choices by hand are not. If you change options or leave out "
            "samples until this page looks better, the score is no longer that of new samples.",
        ]
    if chance is not None:
        text = "The p-value is not the probability that the score is due to chance, and a small one is no large effect."
        if chance["p_value"] > _LIKELY:
            text = (
                "A p-value this large does not show that there is nothing to find, only that these samples do not show "
                "it."
            )
        least = f"{chance['smallest_p']:.2g}"
        lines.append(f"{text} With {chance['n_permutations']} permutations it cannot be below {least}.")
    lines.append(CONFOUNDS_WARNING if ModelChain.of(model).confounds_by_view else _NO_CONFOUNDS)
    unread = [] if beats_chance(about) else [_UNREAD]
    return lines + ([*unread, *_OF_MAPS] if with_maps else [])


def comparison_limits(content: Mapping[str, Any], with_maps: bool) -> list[str]:
    """Return what a reader should not conclude from a comparison of methods."""
    from ..evaluation import MAJORITY  # `predict` and `inspect` need sentences, but nothing that evaluates

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
            f"than {differences[0]['against']} or better."
        )
    lines.append("Another data set may have another order: this is a comparison on one.")
    return lines + (_OF_MAPS if with_maps else [])


def _of_samples(count: int, data: Mapping[str, Any]) -> list[str]:
    """Return which samples a score is about, and what they must not have in common."""
    lines = [f"The score may be inflated: {warning}" for warning in data.get("warnings", [])]
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
    if share is not None and evaluation["score"]["name"] == "accuracy" and share * count >= UNEQUAL:
        lines.append(
            f"The accuracy says little about rare classes: {percent(share)} % of the samples are {majority['label']}. "
            f"The balanced accuracy is {percent(evaluation['balanced_accuracy'])} %."
        )
    return lines


def _of_comparison(evaluation: Mapping[str, Any]) -> list[str]:
    difference, name = evaluation["difference"], evaluation["reference"]["name"]
    if difference["low"] is None:
        return []
    if difference["significant"]:
        return [f"On other data the flat {name} may well be the better one: the difference is that of these samples."]
    return [
        f"That the difference to the flat {name} is not significant does not make both equally good: anything from "
        f"{format_ends((difference['low'], difference['high']), points)} points is compatible with these samples."
    ]
