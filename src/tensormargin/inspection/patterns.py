"""Activation patterns of fitted weights, how reproducible they are, and what each view contributes to the scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import nan
from typing import Any, NamedTuple

import numpy as np

from ..data import Metadata, Views, any_scale, checked_labels, missing_samples
from ..estimators import TensorMarginClassifier
from ..fitting import ViewArray, binary_problems, class_codes, sample_array, shares_of_variance
from ..runtime import Array, FloatArray, rows_of, to_host
from .model_chain import MapText, ModelChain

REPRODUCIBLE = 0.5
"""Least split-half correlation of a pattern on the samples if the model is not linear in them. In 360 sets of drifting
noise the correlation was 0.0 ± 0.2, at most 0.44. Patterns of twice as many samples then agree by 0.67."""

_ROUNDING = 8  # units in the last place by which equal scores may differ
_SPLITS = 8  # into halves, whose correlations are averaged
_UNITS_WITH_PREFIX = ("V", "T", "T/m", "A", "Am")
_PREFIXES = {-18: "a", -15: "f", -12: "p", -9: "n", -6: "µ", -3: "m", 0: "", 3: "k"}
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_EASY = 0.01, 1000.0  # largest values that need no power of ten
_MOST_LOADINGS = 2**23  # of all splits, and entries of their patterns


@any_scale()  # scores that a pattern belongs to need not be of samples like those of the fit
def activation_pattern(model: Any, X: Any, y: Any = None, groups: Any = None, confounds: Any = None) -> Any:
    """Return the activation patterns of a model's weights (Haufe et al. 2014, NeuroImage 87).

    A weight is a filter: it extracts the class from the data but does not show where the class is encoded, since a
    large entry may only cancel noise shared with another entry. So a weight must not be read as a map of the signal.
    The pattern can be: under the linear model ``z = a s + noise``, with noise uncorrelated with the score s, it is::

        a = Cov(z, s) / Var(s),    s = <W, z> + b,

    the change of each entry per unit of the score. Up to chance, it is zero in entries unrelated to the score, whatever
    their weight. ``Cov(z, s)``, a sum of samples weighted by their centred scores, is computed over chunks of X in
    float64.

    Parameters
    ----------
    model : estimator
        A fitted model, as `affine_form` takes it, with steps that need not be affine. Patterns refer to the original
        samples (but after scaling by group, and within the mask of a masker).
    X : array-like of shape (n_samples, I_1, ..., I_M), or Views
        Samples, usually the training set; images if the model begins with a nilearn masker.
    y : array-like of shape (n_samples,), optional
        Labels. If given, each one-vs-one problem uses only the samples of its two classes, otherwise all samples.
    groups, confounds : array-like of shape (n_samples,) and (n_samples, n_confounds), optional
        Of the samples; required if the model scales by group or removes confounds.

    Returns
    -------
    ndarray of shape (n_problems, I_1, ..., I_M)
        In the order of ``clf.coef_``; positive entries speak for the later class of a pair, or for the class that is
        set against the rest. Zero for a problem whose samples all have the same score, and in entries that masks and
        crops keep from the classifier. For several views a dictionary of them, each over the samples that have the
        view.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin import TensorMarginClassifier, activation_pattern
    >>> from tensormargin.datasets import make_low_rank_classes
    >>> data = make_low_rank_classes(100, (8, 9), rank=1, random_state=0)
    >>> clf = TensorMarginClassifier("cp", 1).fit(data.data, data.target)
    >>> pattern = activation_pattern(clf, data.data)
    >>> pattern.shape
    (1, 8, 9)
    >>> bool(np.corrcoef(pattern.ravel(), data.difference.ravel())[0, 1] > 0.8)
    True
    """
    chain, metadata = ModelChain.of(model), Metadata(groups, confounds)
    clf, X = chain.classifier, chain.original_samples(X)  # once: it is used twice
    scores = to_host(clf.binary_scores(chain.samples_for_classifier(X, metadata)))
    found = {name: _pattern(clf, scores, own, y).maps for name, own in _on_samples(chain, X, metadata).items()}
    return found.get("", found)


class Pattern(NamedTuple):
    """The activation pattern of a feature set, and how well two halves of the samples agree on it.

    Attributes
    ----------
    maps : ndarray of shape (n_problems, *shape of the feature set)
    halves : sequence of float
        For each binary problem, the correlation between the pattern of one half of the samples and that of the other,
        averaged over random halves. NaN if it is unknown.
    by : str
        What is halved: "groups"; or "samples" without groups, or if a class has one group only.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin.inspection import Pattern
    >>> Pattern(np.ones((1, 4)), [0.9], "groups").is_reproducible
    True
    """

    maps: FloatArray
    halves: Sequence[float] = (nan,)
    by: str = "samples"

    @property
    def is_reproducible(self) -> bool:
        """Whether the halves agree, on average over the binary problems; False if that is unknown."""
        return bool(np.mean(self.halves) >= REPRODUCIBLE)


def feature_patterns(
    model: Any, X: Any, y: Any = None, groups: Any = None, confounds: Any = None
) -> dict[str, Pattern]:
    """Return the activation pattern of each feature set that a model uses, in the order in which to show them.

    The pattern of a model that is linear in the samples is on the samples, and named "" (if these are views, there is
    one for each). The score of other models need not change with the mean of the samples, so this pattern is returned
    only if it is reproducible. Each view that the classifier gets has its own pattern, such as the power by channel and
    band, those with the largest share of the score first. Features of kernels and convolutions have none.

    Parameters
    ----------
    model, X, y, groups, confounds
        See `activation_pattern`. Patterns are compared between halves of the groups, if there are any.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from tensormargin import BandPower, TensorKernel, TensorMarginClassifier, TensorUnion
    >>> from tensormargin.inspection import feature_patterns
    >>> rng, y = np.random.default_rng(0), np.repeat([0, 1], 30)
    >>> X = rng.normal(size=(60, 3, 64))
    >>> X[:, 1] *= 1 + 2 * y[:, None]  # more power, but the same mean
    >>> union = TensorUnion([("power", BandPower(4)), ("kernel", TensorKernel("rbf"))])
    >>> patterns = feature_patterns(make_pipeline(union, TensorMarginClassifier("full")).fit(X, y), X, y)
    >>> [(name, pattern.maps.shape, pattern.is_reproducible) for name, pattern in patterns.items()]
    [('power', (1, 3, 4), True)]
    """
    chain, metadata = ModelChain.of(model), Metadata(groups, confounds)
    if not chain.has_picture:
        return {}
    clf, X = chain.classifier, chain.original_samples(X)
    ready = chain.samples_for_classifier(X, metadata)
    scores = to_host(clf.binary_scores(ready))
    views = {name: (ready[name], None) for name in chain.views_with_pattern}
    arrays = views | {name: own for name, own in _on_samples(chain, X, metadata).items() if name not in views}
    return shown_patterns(model, {name: _pattern(clf, scores, own, y, groups) for name, own in arrays.items()})


def named_patterns(patterns: Any) -> dict[str, Pattern]:
    """Return patterns by view, given by name or as an array, of which nothing may be known but the maps."""
    by_name = {} if patterns is None else patterns if isinstance(patterns, Mapping) else {"": patterns}
    return {
        name: own if isinstance(own, Pattern) else Pattern(np.asarray(own), [nan] * len(own))
        for name, own in by_name.items()
    }


def shown_patterns(model: Any, patterns: Mapping[str, Pattern]) -> dict[str, Pattern]:
    """Return the patterns that may be shown, in order: those on the samples first, if these have one."""
    chain = ModelChain.of(model)
    if not chain.has_picture:
        return {}
    shapes = chain.classifier.sample_shape_
    views = {name: patterns[name] for name in chain.views_with_pattern if name in patterns}
    views = {name: own for name, own in views.items() if own.maps.shape[1:] == tuple(shapes[name])}
    on_samples = {name: own for name, own in patterns.items() if name not in views.keys() | chain.views_left_out}
    return {name: own for name, own in on_samples.items() if chain.is_linear or own.is_reproducible} | views


def in_units(maps: Any, texts: Sequence[MapText], unit: str | None = "") -> tuple[FloatArray, list[MapText]]:
    """Return maps in a multiple of their unit in which they can be read, and texts that name it: "(µV)" for volts.

    Without a unit that has such multiples, very large and very small values are in powers of a thousand.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin.inspection import MapText, in_units
    >>> maps, texts = in_units(np.array([[5e-6, -2e-6]]), [MapText("pattern", "positive = b", "red = b")], "V")
    >>> maps.round(6), texts[0].colours
    (array([[ 5., -2.]]), 'red = b (µV)')
    """
    maps, unit = np.asarray(maps, np.float64), unit or ""
    largest = float(np.abs(np.nan_to_num(maps)).max(initial=0.0))
    power = 3 * int(np.floor(np.log10(largest) / 3)) if largest > 0 else 0
    if unit in _UNITS_WITH_PREFIX and power in _PREFIXES:
        words = _PREFIXES[power] + unit
    else:
        power = 0 if _EASY[0] <= largest < _EASY[1] else power
        words = f"{f'10{str(power).translate(_RAISED)}' if power else ''} {unit}".strip()
    named = [text._replace(signs=f"{text.signs} ({words})", colours=f"{text.colours} ({words})") for text in texts]
    return maps / 10.0**power, named if words else list(texts)


def _on_samples(chain: ModelChain, X: Any, metadata: Metadata) -> dict[str, tuple[Any, Any]]:
    """Return the samples that maps are drawn on and their used entries, by view ("" for one tensor)."""
    shown, used = chain.samples_for_map(X, metadata), chain.used_entries
    if not isinstance(shown, Views):
        return {"": (shown, used)}
    return {name: (array, None if used is None else used.get(name)) for name, array in shown.items()}


class ViewMaps(NamedTuple):
    """The weights of several views, their activation patterns, and the samples that both refer to.

    ``on_samples`` tells whether these are the original samples, not the views as the classifier gets them.
    """

    weights: dict[str, Array]
    patterns: dict[str, FloatArray] | None
    samples: Views | None
    on_samples: bool


def view_maps(model: Any, X: Any = None, y: Any = None, groups: Any = None, confounds: Any = None) -> ViewMaps:
    """Return weights and patterns of each view of a model.

    They refer to the original samples if these have the views of the classifier and the steps before it are affine,
    and otherwise to the views as the classifier gets them, such as the power in a band. For the parameters see
    `activation_pattern`.
    """
    chain, metadata = ModelChain.of(model), Metadata(groups, confounds)
    classifier, weights = chain.classifier, chain.views_on_samples
    if not isinstance(classifier.coef_, dict):
        raise ValueError("the model has one tensor per sample, not several views; use weight_maps")
    on_samples = isinstance(weights, dict) and weights.keys() == classifier.coef_.keys()
    weights = weights if on_samples else {name: to_host(own) for name, own in classifier.coef_.items()}
    if X is None:
        return ViewMaps(weights, None, None, on_samples)
    shown = chain.samples_for_map(X, metadata) if on_samples else chain.samples_for_classifier(X, metadata)
    given = (model, X, y, groups, confounds) if on_samples else (classifier, shown, y)
    return ViewMaps(weights, activation_pattern(*given), shown, on_samples)


def _pattern(
    clf: TensorMarginClassifier, scores: Array, samples: tuple[Any, Any], y: Any, groups: Any = None
) -> Pattern:
    """Return the sum of the samples, each times its loading in each problem: of all samples, and of halves of them.

    ``samples`` are an array and its used entries, None for all; maps are zero in the others. Samples that lack the view
    are left out.
    """
    array, used = samples
    missing = missing_samples(array) if isinstance(clf.coef_, dict) else np.empty(0, int)
    if len(missing):
        there = np.setdiff1d(np.arange(len(scores)), missing)
        array, scores = rows_of(array, there), scores[there]
        y, groups = (one if one is None else to_host(one)[there] for one in (y, groups))
    used = np.ones(array.shape[1:], bool) if used is None else np.asarray(used)
    problems = _rows_and_signs(clf, scores, y)
    loadings = [_loadings(clf, scores, [rows for rows, _ in problems])]
    n_splits = _MOST_LOADINGS // (len(problems) * max(used.size, len(scores)))
    sides, by = _random_halves(y, groups, min(max(n_splits, 1), _SPLITS))
    for side in (half for one in sides for half in (one, ~one)):
        halved = [(rows[side[rows]], signs[side[rows]]) for rows, signs in problems]
        loadings.append(_loadings(clf, scores, [rows if np.ptp(signs) else rows[:0] for rows, signs in halved]))
    each = np.concatenate(loadings, axis=1)
    sums = np.zeros((each.shape[1], used.size))
    for where, part in sample_array(array).numpy_chunks():
        sums += each[where].T @ part.reshape(len(part), -1).astype(np.float64, copy=False)
    maps, *halves = np.where(used.ravel(), sums, 0.0).reshape(-1, len(problems), used.size)
    pairs = zip(halves[::2], halves[1::2], strict=True)
    agreed = [_correlations(*(half[:, used.ravel()] for half in pair)) for pair in pairs]
    mean = np.mean(agreed or np.full((1, len(problems)), nan), axis=0)
    return Pattern(maps.reshape(-1, *used.shape), mean.tolist(), by)


def _rows_and_signs(clf: TensorMarginClassifier, scores: Array, y: Any) -> list[tuple[Array, Array]]:
    """Return the samples of each binary problem and their signs: all samples, of unknown sign, without labels."""
    rows = np.arange(len(scores))
    if y is None:
        return [(rows, np.zeros(len(rows)))] * scores.shape[1]
    classes = to_host(clf.classes_)
    codes = class_codes(checked_labels(scores, y), classes)
    problems = binary_problems(codes, len(classes), clf.multi_class_)
    empty = next((k for k, one in enumerate(problems) if not len(one.signs)), None)
    if empty is not None:
        raise ValueError(f"a pattern needs samples of binary problem {empty}, got none. Pass its classes' samples")
    return [(rows if one.rows is None else one.rows, one.signs) for one in problems]


def _random_halves(y: Any, groups: Any, n_splits: int) -> tuple[list[Array], str]:
    """Return which samples are in the first half of each split, and what was split; nothing without labels.

    Each half has every second sample of each class in random order; or every second group, if each class has two.
    """
    if y is None:
        return [], "samples"
    codes = np.unique(to_host(y), return_inverse=True)[1].ravel()
    members, by = np.arange(len(codes)), "samples"
    if groups is not None:
        of_groups = np.unique(to_host(groups), return_inverse=True)[1].ravel()
        counts = np.zeros((of_groups.max() + 1, codes.max() + 1))
        np.add.at(counts, (of_groups, codes), 1.0)
        if np.all(np.count_nonzero(counts, axis=0) > 1):
            codes, members, by = np.argmax(counts, axis=1), of_groups, "groups"
    rng, sides = np.random.default_rng(0), []
    for _ in range(n_splits):
        order = rng.permutation(len(codes))
        side = np.zeros(len(codes), bool)
        side[order[np.argsort(codes[order], kind="stable")][::2]] = True
        sides.append(side[members])
    return sides, by


def _correlations(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return the correlation of the maps of each binary problem; NaN where one is constant."""
    one, two = (maps - maps.mean(axis=1, keepdims=True) for maps in (first, second))
    with np.errstate(invalid="ignore"):
        return np.sum(one * two, axis=1) / np.sqrt(np.sum(one**2, axis=1) * np.sum(two**2, axis=1))


def _loadings(clf: TensorMarginClassifier, scores: Array, rows_of_problems: Sequence[Array]) -> FloatArray:
    """Return the coefficient of each sample in the pattern of each problem; those of a problem sum to zero."""
    rounding = _ROUNDING * float(np.finfo(scores.dtype).eps)
    loadings = np.zeros(scores.shape)
    for k, rows in enumerate(rows_of_problems):
        own = scores[rows, k].astype(np.float64)
        centred = own - own.mean() if len(own) else own
        if np.abs(centred).max(initial=0.0) > rounding * (np.abs(own).max(initial=0.0) + abs(float(clf.intercept_[k]))):
            loadings[rows, k] = centred / (centred @ centred)
    return loadings


def view_shares(model: Any, X: Any, groups: Any = None) -> dict[str, FloatArray]:
    """Return each view's share of the variance of a model's scores.

    With the scores ``s = sum_v s_v + b``, it is ``Cov(s_v, s) / Var(s)``. The shares of all views add up to one; a
    negative one belongs to a view that mostly takes back what the others say. What a view is worth is another
    question, which the accuracy without it answers: `tensormargin.evaluation.evaluate_without_views`.

    Parameters
    ----------
    model : estimator
        Fitted to several views.
    X : Views
        Samples, such as held-out ones; ``view_shares_`` of the classifier has the shares of the training set.
    groups : array-like of shape (n_samples,), optional
        Groups of the samples; required if the model scales by group.

    Returns
    -------
    dict of str to ndarray of shape (n_problems,)

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin import TensorMarginClassifier, Views, view_shares
    >>> rng, y = np.random.default_rng(0), np.repeat([0, 1], 20)
    >>> X = Views(signal=rng.normal(size=(40, 4, 3)) + y[:, None, None], noise=rng.normal(size=(40, 3, 3)))
    >>> shares = view_shares(TensorMarginClassifier("cp", rank=1).fit(X, y), X)
    >>> shares["signal"] > 0.8, np.round(shares["signal"] + shares["noise"], 9)
    (array([ True]), array([1.]))
    """
    chain = ModelChain.of(model)
    classifier, samples = chain.classifier, chain.samples_for_classifier(X, groups)
    if not isinstance(classifier.coef_, dict) or not isinstance(samples, Views):
        raise ValueError("shares are those of several views; got a model of one tensor per sample. Fit it to Views")
    array = sample_array(classifier.checked(samples))
    assert isinstance(array, ViewArray)
    scores = {name: to_host(own) for name, own in array.view_scores(classifier.coef_, classifier.mean_scores_)}
    stacked = np.stack([own.astype(np.float64) for own in scores.values()], axis=-1)
    shares = shares_of_variance(stacked, np.full(len(stacked), 1.0 / len(stacked)))
    return {name: shares[:, place] for place, name in enumerate(scores)}


def format_feature_views(model: Any) -> str:
    """Return the views of a model that are no picture of its samples, with their shares of the score; "" if none."""
    chain = ModelChain.of(model)
    classifier, features = chain.classifier, chain.feature_views
    shares = classifier.view_shares_ if isinstance(classifier.coef_, dict) else {}
    described = [
        f"{name} ({features[name]}, {100 * float(own.mean()):.1f} % of the score)"
        for name, own in shares.items()
        if name in features and np.any(classifier.view_scale_[name])
    ]
    return f"No picture of the samples, so not in the maps: {', '.join(described)}" if described else ""
