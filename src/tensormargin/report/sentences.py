"""A model and its evaluation in sentences, for `inspect`, the report and a methods section."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..data import format_shape
from ..estimators import TensorMarginClassifier
from ..fitting import plain_rank
from ..inspection import AveragedClassifier, ModelChain
from ..io import describe_loading
from ..runtime import counted, join_with_and, percent, points
from ..transformers import TensorKernel, describe_step

_FORMS = {"full": "full weight", "cp": "CP weight", "tucker": "Tucker weight", "tt": "Tensor-Train weight"}

_RULES = {
    "smoothed": "the best after smoothing over close models",
    "best": "the best, or of ties the one with the fewest parameters",
    "default": "the first one unless the best is better by more than a standard error of the difference",
    "simplest": "the simplest within one standard error of the best",
    "margins": "of those within one standard error of the best the one with the smallest Cantelli bound on its "
    "validation margins",
}


CONFOUNDS_WARNING = (
    "Removing confounds is not the same as controlling for them: what they share with the classes is lost, effects "
    "that are not linear stay, and a model may use what is left."
)
"""What the removal of confounds does not mean."""


FLAT_EXPLAINED = "flat LinearSVC (a linear support vector machine that takes each sample as one long vector)"
"""What the reference of evaluations is."""

GROUPS_EXPLAINED = "A group is all samples of one person, session or the like; no split separates them."
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
        return _describe_views(classifier)
    form = _FORMS[str(classifier.decomposition)]
    if isinstance(classifier, AveragedClassifier):
        return f"{form}, the mean of those of {classifier.n_copies_} calibrated classifiers"
    said = form if classifier.decomposition == "full" else f"{form} of rank {_rank(classifier)}"
    if len(classifier.sample_shape_) > 1:
        return said
    if steps and isinstance(steps[-1], TensorKernel):
        return f"{said} on {classifier.sample_shape_[0]} kernel features"
    return f"{said} (the samples are vectors, so the weight is flat)"


def _describe_views(classifier: TensorMarginClassifier) -> str:
    """Return the rank of the weight of each view in words, once if it is the same for all."""
    said = {name: describe_view(classifier, name) for name in classifier.rank_}
    if len(set(said.values())) == 1 and "left out" not in said.values():
        return f"one {next(iter(said.values()))} per view ({', '.join(said)})"
    return f"one weight per view ({', '.join(f'{name}: {words}' for name, words in said.items())})"


def describe_view(classifier: TensorMarginClassifier, name: str) -> str:
    """Return the decomposition and rank of the weight of one of several views in words."""
    if not classifier.view_scale_[name].any():
        return "left out"
    rank, given = classifier.rank_[name], classifier.decomposition
    form = _FORMS["full" if rank is None else given.get(name, "tucker") if isinstance(given, dict) else given]
    return form if rank is None else f"{form} of rank {plain_rank(rank)}"


def describe_rule(search: Any) -> str:
    """Return the selection rule of a search in words."""
    return _RULES[search.rule]


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


def statements(model: Any, facts: Mapping[str, Any]) -> list[str]:
    """Return the methods section of a paper: data, preparation, model, choice, evaluation, software.

    One paragraph each, in full sentences.

    Examples
    --------
    >>> import tempfile
    >>> from tensormargin import TensorMarginClassifier, save_model
    >>> from tensormargin.datasets import make_low_rank_classes
    >>> from tensormargin.report import statements
    >>> data = make_low_rank_classes(40, (6, 7), rank=1, random_state=0)
    >>> clf = TensorMarginClassifier("cp", 1).fit(data.data, data.target)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     lines = statements(clf, save_model(f"{folder}/model.skops", clf))
    >>> lines[0]
    'The samples were classified as they are, without preparation.'
    """
    about = facts.get("about", {})
    lines = [_data(about.get("data")), _loading(about.get("loading")), _preparation(model), _model(model)]
    lines.insert(3, CONFOUNDS_WARNING if ModelChain.of(model).confounds_by_view else "")
    lines += [_choice(model, about), *describe_wrappers(model)]
    lines += [_shares(model), _evaluation(about.get("evaluation")), _without_views(about), _chance(about.get("chance"))]
    lines.append(describe_software(facts["versions"]))
    return [line for line in lines if line]


def describe_software(versions: Mapping[str, str]) -> str:
    """Return a sentence with the versions of the software."""
    names = {"python": "Python", "numpy": "NumPy", "scipy": "SciPy"}
    said = [f"{names.get(name, name)} {version}" for name, version in versions.items()]
    return f"The analysis was done with {join_with_and(said)}."


def _data(data: Mapping[str, Any] | None) -> str:
    if data is None:
        return ""
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


def _loading(loading: Mapping[str, Any] | None) -> str:
    words = describe_loading({name: value for name, value in (loading or {}).items() if name != "kind"})
    return f"They were made from the files as follows: {words}." if words else ""


def describe_steps(model: Any) -> list[str]:
    """Return a description of each step before the classifier."""
    return [describe_step(step) for step in ModelChain.of(model).steps]


def _preparation(model: Any) -> str:
    steps = describe_steps(model)
    if not steps:
        return "The samples were classified as they are, without preparation."
    return f"Before classification, {'; then '.join(steps)}."


def _model(model: Any) -> str:
    classifier = ModelChain.of(model).classifier
    count = len(classifier.problems_)
    scheme = "one against one" if classifier.multi_class_ == "ovo" else "one against the rest"
    several = "" if count == 1 else f" The classes are told apart by {count} binary problems ({scheme})."
    return (
        f"The classifier is a large margin distribution machine for tensors (SPMD-LRT family) with {_article(model)} "
        f"and {describe_strengths(classifier)}, fitted to a tolerance of {classifier.tol:g}.{several}"
        f"{_class_weights(classifier.class_weight)}"
    )


def _class_weights(given: Any) -> str:
    if not given:
        return ""
    if isinstance(given, str):
        return " Classes were weighted inversely to their number of samples."
    return f" Class weights were {join_with_and([f'{weight:g} ({label})' for label, weight in given.items()])}."


def _article(model: Any) -> str:
    chain = ModelChain.of(model)
    said = describe_model(chain.classifier, chain.steps)
    return said if said.startswith("one ") else f"a {said}"


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

_VALUES = {"None": "none", "full": "full", "cp": "CP", "tucker": "Tucker", "tt": "Tensor-Train"} | {
    "ovo": "one against one",
    "ovr": "one against the rest",
}


def _choice(model: Any, about: Mapping[str, Any]) -> str:
    search = about.get("search")
    if search is None:
        return ""
    given = {name: [_VALUES.get(one, one) for one in values] for name, values in search["tried"].items()}
    several = [f"{_SETTINGS.get(name, name)} ({'; '.join(own)})" for name, own in given.items() if len(own) > 1]
    among = f", which differ in {join_with_and(several)}" if several else ""
    seed = (about.get("plan") or {}).get("seed")
    drawn = "" if seed is None else f" (seed {seed})"
    raced = (
        f" {counted(search['n_dropped'], 'model was', 'models were')} dropped after the first folds "
        f"({search['n_fits']} fits in all)."
        if search.get("n_dropped")
        else ""
    )
    stopped = f" The search ended early: {search['stopped']}." if search.get("stopped") else ""
    rule = describe_rule(ModelChain.of(model).search)
    return (
        f"The model was selected by {search['n_splits']}-fold cross-validation{drawn} from {search['n_models']} "
        f"models{among}. The rule was to take {rule}; the model was then refitted on all samples.{raced}{stopped}"
    )


def describe_wrappers(model: Any) -> list[str]:
    """Return a sentence for each search of scikit-learn, calibrator or threshold that a model is wrapped in."""
    return [line for line in map(_describe_wrapper, ModelChain.of(model).wrappers) if line]


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
        chosen = ", ".join(f"{key} {_parameter(value)}" for key, value in wrapper.best_params_.items())
        return (
            f"{name}: {len(wrapper.cv_results_['params'])} candidates by {wrapper.n_splits_}-fold cross-validation; "
            f"chosen {chosen}{scored}."
        )
    return ""


def _parameter(value: Any) -> str:
    return describe_step(value, brief=True) if hasattr(value, "get_params") else str(value)


def _evaluation(evaluation: Mapping[str, Any] | None) -> str:
    if evaluation is None:
        return "The model was not evaluated on held-out samples."
    score, reference = evaluation["score"], evaluation["reference"]
    sentences = (
        f"The model was evaluated by nested cross-validation ({evaluation['scheme']}, seed {evaluation['seed']}): all "
        "choices were made anew on each training set, and its test set was used for predictions only. The "
        f"{score['name']} of all held-out predictions was {percent(score['value'])} %{_interval_in_words(evaluation)}.",
        interval_explained(evaluation),
        f"A {FLAT_EXPLAINED} with C chosen on {_training_sets(evaluation)}{_on_samples(evaluation)} reached "
        f"{percent(reference['score'])} %{_on_representation(evaluation)}.",
        _tested(evaluation),
    )
    return " ".join(filter(None, sentences))


def _on_samples(evaluation: Mapping[str, Any]) -> str:
    """Return that the reference takes the samples as they are, where another one takes a representation of them."""
    return ", on the samples as they are" if evaluation.get("matched") else ""


def _on_representation(evaluation: Mapping[str, Any]) -> str:
    matched = evaluation.get("matched")
    return f" and, on the representation chosen on each training set, {percent(matched['score'])} %" if matched else ""


def _interval_in_words(evaluation: Mapping[str, Any]) -> str:
    """Return the interval and its unit in words, or a note that there is none."""
    low, high = evaluation["interval"]
    units = units_in_words(evaluation)
    if low is None:
        return f" (no interval: {units} are too few)"
    return f" (95 % interval {percent(low)} to {percent(high)}, {units})"


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


def units_in_words(evaluation: Mapping[str, Any]) -> str:
    """Return the number of samples or groups that an interval rests on."""
    return f"{evaluation['n_units']} {evaluation['unit']}s"


def _shares(model: Any) -> str:
    """Return how much each of several views contributes to the scores of the training samples."""
    shares = getattr(ModelChain.of(model).classifier, "view_shares_", None)
    if not shares:
        return ""
    said = [f"{name} {percent(float(own.mean()))} %" for name, own in shares.items()]
    return f"The views contribute {join_with_and(said)} to the variance of the scores of the training samples."


def _without_views(about: Mapping[str, Any]) -> str:
    """Return the score without each of several views in words."""
    found = about.get("without_views")
    if not found:
        return ""
    name = about["evaluation"]["score"]["name"]
    said = [f"{percent(one['score'])} % without {view}" for view, one in found.items()]
    return f"In the same evaluation without single views, the {name} was {join_with_and(said)}."


def _chance(chance: Mapping[str, Any] | None) -> str:
    if chance is None:
        return ""
    return (
        f"A permutation test of the {chance['score_name']} ({_n_permutations(chance)} permutations of "
        f"{chance['exchanged']}, all choices made anew for each) gave {p_in_words(chance['p_value'])}."
    )


def _training_sets(evaluation: Mapping[str, Any]) -> str:
    """Return what the flat reference was fitted to: the training sets, or those of their samples that fit memory."""
    counts = [fold.get("reference_chosen", {}).get("training samples") for fold in evaluation.get("folds", [])]
    some = [count for count in counts if count is not None]
    return (
        f"{min(some)} samples, all that fit into memory, of the same training sets"
        if some
        else "the same training sets"
    )


def evaluation_lines(evaluation: Mapping[str, Any] | None, chance: Mapping[str, Any] | None) -> list[str]:
    """Return the results of the evaluation, the comparison with the flat reference and the permutation test.

    Examples
    --------
    >>> from tensormargin.datasets import make_low_rank_classes
    >>> from tensormargin.evaluation import FitPlan, fit_and_evaluate
    >>> from tensormargin.io import SampleSet
    >>> from tensormargin.report import evaluation_lines
    >>> data = make_low_rank_classes(40, (6, 7), rank=1, random_state=0)
    >>> samples = SampleSet(data.data, data.target, None, None, None, "noise", "plain", ())
    >>> about = fit_and_evaluate(samples, FitPlan(decomposition="cp", rank=1, folds=2, outer_folds=2)).about
    >>> lines = evaluation_lines(about["evaluation"], None)
    >>> lines[0].startswith("Accuracy on held-out samples: ")
    True
    """
    if evaluation is None:
        return ["This model was not evaluated: how well it does on new samples is not known.", *_chance_lines(chance)]
    reference, majority, matched = evaluation["reference"], evaluation["majority"], evaluation.get("matched")
    again = (
        f"The same on the representation chosen on each training set: {percent(matched['score'])} %. "
        if matched
        else ""
    )
    cut = _was_cut(evaluation)
    return [
        _headline(evaluation),
        *([GROUPS_EXPLAINED] if evaluation["unit"] == "group" else []),
        *_beats_majority(evaluation),
        f"A {FLAT_EXPLAINED}, {'cut' if cut else 'tuned'} the same way on {_training_sets(evaluation)}"
        f"{_on_samples(evaluation)}: {percent(reference['score'])} %; the majority class: "
        f"{percent(majority['score'])} %. {difference_in_words(evaluation['difference'], cut)}",
        *([again + difference_in_words(matched["difference"], cut)] if matched else []),
        *([f"The budget {evaluation['cut']}."] if cut and not evaluation["n_untested"] else []),
        *_unusual_folds(evaluation),
        *_chance_lines(chance),
    ]


def _headline(evaluation: Mapping[str, Any]) -> str:
    name = evaluation["score"]["name"]
    other = "accuracy" if name == "balanced accuracy" else "balanced accuracy"
    return (
        f"{name.capitalize()} on held-out samples: {percent(evaluation['score']['value'])} %"
        f"{_interval_in_words(evaluation)}; {other}: {percent(evaluation[other.replace(' ', '_')])} %."
    )


def _beats_majority(evaluation: Mapping[str, Any]) -> list[str]:
    low, majority = evaluation["interval"][0], evaluation["majority"]
    always = f"always predicting {majority['label']} ({percent(majority['score'])} %)"
    if low is None:
        return [f"With so few groups nothing can be said about whether that is better than {always}."]
    return [] if low > majority["score"] else [f"That is not significantly better than {always}."]


def difference_in_words(difference: Mapping[str, Any], cut: bool = False) -> str:
    """Return a sentence with a paired difference, its interval and whether it is significant.

    Nothing follows from it if the budget has ``cut`` what is compared.
    """
    said = f"The difference of {points(difference['difference'])} points"
    if cut:
        return f"{said} is not tested: with more time both may be better."
    if difference["low"] is None:
        return f"{said} comes from {difference['n_units']} groups: too few to tell whether it is significant."
    verdict = "is significant" if difference["significant"] else "is not significant"
    return (
        f"{said} {verdict} (95 % interval {points(difference['low'])} to {points(difference['high'])}, "
        f"{p_in_words(difference['p_value'])}, paired by {difference['unit']})."
    )


def _was_cut(evaluation: Mapping[str, Any]) -> bool:
    """Return whether the budget has cut the search or the reference in an outer fold."""
    return any(fold.get("cut") for fold in evaluation["folds"])


def _tested(evaluation: Mapping[str, Any]) -> str:
    """Return the difference to the reference in words, and how it was tested or why it was not."""
    said = difference_in_words(evaluation["difference"], _was_cut(evaluation))
    if _was_cut(evaluation):
        return f"{said} The budget {evaluation['cut']}."
    return f"{said} Test of the difference: {evaluation['difference']['method']}."


def p_in_words(p_value: float) -> str:
    """Return a p-value with two digits, or "p < 0.001"."""
    return "p < 0.001" if p_value < 0.001 else f"p = {p_value:.2g}"


def _unusual_folds(evaluation: Mapping[str, Any]) -> list[str]:
    """Return remarks on folds whose training or test set lacks a class, and on untested samples."""
    lines = [
        f"The training set of fold {fold_name(fold)} has no sample of {_classes(fold['unseen'])}, so none of those in "
        "its test set can be right."
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


def _classes(labels: Sequence[Any]) -> str:
    return ", ".join(map(str, labels))


def fold_note(fold: Mapping[str, Any]) -> str:
    """Return a note on the classes missing from the training and test set of a fold."""
    notes = [f"training set without {_classes(fold['unseen'])}"] if fold["unseen"] else []
    notes += [f"test set without {_classes(fold['absent'])}"] if fold["absent"] else []
    return "; ".join(notes)


def _chance_lines(chance: Mapping[str, Any] | None) -> list[str]:
    if chance is None:
        return []
    fixed = chance["fixed_groups"]
    stuck = (
        f" The labels of {counted(chance['n_fixed'], 'sample')} cannot be exchanged: their groups ({_some(fixed)}) "
        "have one label each, the same one."
        if fixed
        else ""
    )
    return [
        f"Permutation test of that {chance['score_name']} ({percent(chance['score'])} %): "
        f"{p_in_words(chance['p_value'])} ({_n_permutations(chance)} permutations of {chance['exchanged']}; the "
        f"smallest possible p is {chance['smallest_p']:.2g}).{stuck}"
    ]


def _n_permutations(chance: Mapping[str, Any]) -> str:
    """Return the number of permutations, and of how many if the budget left no time for all of them."""
    done, planned = chance["n_permutations"], chance.get("n_planned") or 0
    return f"{done} of {planned} planned" if planned > done else str(done)


def _some(items: Sequence[Any], most: int = 5) -> str:
    more = f" and {len(items) - most} more" if len(items) > most else ""
    return ", ".join(map(str, items[:most])) + more
