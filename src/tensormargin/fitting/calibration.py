"""Calibration of probabilities on the scores of held-out samples."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, log_expit, logit, softmax
from scipy.stats import chi2

from ..runtime import Array, FloatArray
from .multiclass import binary_problems, combine_scores, predicted_codes

CERTAIN = 1e-7
"""Pairwise probabilities stay this far from 0 and 1: certainty would make the system of `couple` singular."""

# Slope per spread of the scores: probabilities are almost constant, but still increase with the score.
_FLATTEST = 1e-6
_LEAST_KEPT = 1e-3  # of a slope: almost constant, too
_SMALLEST, _ROUNDING = 1e-290, 1e-12  # numbers, and relative differences of numbers, below these count as zero
_MOST_COPIES = 1e6
_STEPS = 100
_CHANGE_AT_CHANCE = float(chi2.ppf(0.95, 1))
_HALVINGS = 40
_LARGEST = 1e300  # arguments are clipped to it, since differences of infinities are undefined
_FARTHEST = 1e6  # differences of logits beyond it mean the same
_BOUNDS = ((-7.0, 5.0), (-12.0, 3.0))  # of the logarithm of a power and the log-odds of a share
_PRECISELY = {"ftol": 1e-15, "gtol": 1e-9, "maxiter": 500}


def calibrate(
    scores: Array, codes: Array, weights: Array | None, n_classes: int, scheme: str, chosen: bool = False
) -> FloatArray:
    """Return the slope and offset of each binary problem, fitted to the scores of held-out samples, one row each.

    With more than two classes, two more columns, equal in all rows, have the power and the share of `fit_power`.
    Without them probabilities are far too even: most of the problems that a sample takes part in are about other
    classes, and each is calibrated on few samples (docs/method.md). Sample weights are without class weights, whose
    effect on the scores the offset has to undo. A model that the same scores made the best of several is ``chosen``:
    its probabilities are shrunk (`kept_share`).
    """
    counts = np.ones(len(codes)) if weights is None else counted(weights)
    problems = binary_problems(codes, n_classes, scheme)
    rows = [slice(None) if problem.rows is None else problem.rows for problem in problems]
    sigmoids = [(scores[own, k], problems[k].signs, counts[own]) for k, own in enumerate(rows)]
    even = 1 / n_classes if scheme == "ovr" and n_classes > 2 else 0.5
    half = counts.sum() / 2  # offsets of many small pairs are noise that coupling adds up (docs/method.md)
    calibration = np.array(
        [fit_needed_sigmoid(*one, even if one[2].sum() >= half else None) for one in sigmoids], np.float64
    )
    if n_classes == 2:
        slope, offset = calibration[0]
        return np.array([shrunk_sigmoid(slope, offset, *sigmoids[0])]) if chosen else calibration
    of_classes = fit_power(_logits(_arguments(scores, calibration.T), scheme), codes, counts, chosen)
    return np.column_stack([calibration, np.tile(of_classes, (len(calibration), 1))])


def counted(weights: Array) -> FloatArray:
    """Return weights in units of one sample: as numbers of copies if they are, or else with their mean as the unit."""
    positive = weights[weights > 0]
    if not len(positive):
        return np.zeros(len(weights))
    with np.errstate(over="ignore"):
        copies = weights / positive.min()
    if copies.max() < _MOST_COPIES and np.all(np.abs(copies - np.round(copies)) < _ROUNDING * copies.max()):
        return np.round(copies)
    shares = weights / positive.max()  # their sum cannot overflow
    return shares * (len(positive) / shares.sum())


def fit_needed_sigmoid(scores: Array, signs: Array, counts: Array, even: float | None = 0.5) -> tuple[float, float]:
    """Return slope and offset of a sigmoid, with an offset only if the classes differ in size, or the scores need one.

    Class weights and rare classes shift the point where both classes are equally likely from the score 0. An offset
    that is not needed would only add noise and make the most probable class differ from the predicted one. It is needed
    if the share of the class differs from ``even``, that of classes of one size (None: any share will do), or if a
    likelihood-ratio test says so, both at 5 %. That test alone would seldom find the shift by a class of a few samples.
    """
    some = counts > _SMALLEST
    scores, signs, counts = scores[some], signs[some], counts[some]
    shifted = fit_sigmoid(scores, signs, counts)
    if even is None or _is_share(even, counts[signs > 0].sum(), counts.sum()):
        plain = fit_sigmoid(scores, signs, counts, offset=False)
        targets = _targets(signs > 0, counts)
        lower, higher = (_cross_entropy(_arguments(scores, one), targets, counts) for one in (shifted, plain))
        if 2 * (higher - lower) <= _CHANGE_AT_CHANCE:
            return plain
    return shifted[0], _matching_offset(shifted[0], scores, signs, counts)


def _is_share(share: float, n_positive: float, n_samples: float) -> bool:
    """Return whether a share of all may be positive, by a test at 5 %."""
    return bool((n_positive - share * n_samples) ** 2 <= _CHANGE_AT_CHANCE * n_samples * share * (1 - share))


def _matching_offset(slope: float, scores: Array, signs: Array, counts: Array) -> float:
    """Return the offset for which the mean probability is the share of the class, smoothed if one class is missing."""
    targets = _targets(signs > 0, counts)
    share = np.average(targets, weights=counts)
    given = _arguments(scores, (slope, 0.0))
    (offset,) = _newton(np.ones((len(scores), 1)), given, targets, counts, np.array([logit(share) - np.median(given)]))
    return float(offset)


def shrunk_sigmoid(slope: float, offset: float, scores: Array, signs: Array, counts: Array) -> tuple[float, float]:
    """Return a sigmoid that is flatter by `kept_share`; an offset, if it has one, keeps the mean probability."""
    some = counts > _SMALLEST
    if not some.any():
        return slope, offset
    scores, signs, counts = scores[some], signs[some], counts[some]
    targets = _targets(signs > 0, counts)
    constant = logit(np.average(targets, weights=counts)) if offset else 0.0
    before, after = (
        _cross_entropy(_arguments(scores, one), targets, counts) for one in ((0.0, constant), (slope, offset))
    )
    slope *= kept_share(before - after)
    return slope, _matching_offset(slope, scores, signs, counts) if offset else 0.0


def kept_share(gain: float) -> float:
    """Return what is left of the slope or power of a model that was chosen by the scores that calibrate it.

    Of several candidates at chance the luckiest is chosen, which seems to be better. This is the shrinkage of van
    Houwelingen and le Cessie 1990 (Statistics in Medicine 9) for a ``gain`` in log-likelihood over constant
    probabilities by two parameters, as which the slope and the choice count (docs/method.md): a model that is clearly
    better than chance keeps almost everything.
    """
    return max(1 - 1 / gain, _LEAST_KEPT) if gain > 0 else _LEAST_KEPT


def fit_sigmoid(scores: Array, signs: Array, counts: Array, offset: bool = True) -> tuple[float, float]:
    """Return a > 0 and c of ``P(positive | score) = 1 / (1 + exp(-(a score + c)))``, by maximum likelihood.

    This is the sigmoid of Platt (1999). Two more samples, one right and one wrong, one standard deviation from where
    both classes are equally likely, keep the slope finite if the classes are separable. His smoothed targets do so,
    too, but make all samples of separable classes less certain (docs/method.md). ``counts`` are multiplicities of the
    samples and need not be integers. Scores that are constant or negatively related to the class (a classifier at
    chance) give the flattest slope, with the share of the class as the probability, or one half without an offset.
    """
    some = counts > _SMALLEST
    if not some.any():  # no test set had these classes: nothing is known
        return _FLATTEST, 0.0
    scores, positive, counts = scores[some].astype(np.float64), signs[some] > 0, counts[some]
    targets, weights = np.append(_targets(positive, counts), 0.5), np.append(counts, 2.0)  # right and wrong in one row
    if not offset:
        largest = float(np.abs(scores).max())
        unit = largest if largest > _SMALLEST else 1.0
        scores = scores / unit
        design = np.append(scores, np.sqrt(np.average(scores**2, weights=counts)))[:, None]
        (slope,) = _newton(design, np.zeros(len(design)), targets, weights, np.zeros(1))
        return max(float(slope), _FLATTEST) / unit, 0.0
    centre, spread = _centre_and_spread(scores, counts)
    slope, shift = _most_likely((scores - centre) / spread, targets, weights)
    return slope / spread, shift - slope * (centre / spread)


def fit_power(logits: FloatArray, codes: Array, counts: FloatArray, chosen: bool = False) -> tuple[float, float]:
    """Return t and e of ``P(class k) = (1 - e) softmax(t logits)_k + e / n_classes``, by maximum likelihood.

    The share e takes samples that all problems are wrong about, which would otherwise make all probabilities more
    even. So that both are finite if all samples are classified correctly, two more samples count, one of each kind, and
    ``log t`` has a standard normal prior: with twenty samples neither is felt. With ``chosen``, t is then multiplied by
    the `kept_share`.
    """
    n_classes = logits.shape[1]
    centred = np.maximum(logits - logits.max(axis=1, keepdims=True), -_FARTHEST)
    own = (np.arange(len(codes)), codes)

    def loss(point: FloatArray) -> tuple[float, FloatArray]:
        power, share = np.exp(point[0]), expit(point[1])
        softened = softmax(power * centred, axis=1)
        likelihood = (1 - share) * softened[own] + share / n_classes
        slope = softened[own] * (centred[own] - np.sum(softened * centred, axis=1))
        by_power = (counts / likelihood) @ slope * (1 - share) * power - point[0]
        by_share = (counts / likelihood) @ (1 / n_classes - softened[own]) * share * (1 - share) + 1 - 2 * share
        value = counts @ np.log(likelihood) + np.log(share) + np.log1p(-share) - point[0] ** 2 / 2
        return -float(value), -np.array([by_power, by_share])

    found = minimize(loss, [0.0, -3.0], jac=True, method="L-BFGS-B", bounds=_BOUNDS, options=_PRECISELY)
    power, share = float(np.exp(found.x[0])), float(expit(found.x[1]))
    if chosen:
        likelihood = (1 - share) * softmax(power * centred, axis=1)[own] + share / n_classes
        power *= kept_share(float(counts @ np.log(n_classes * likelihood)))
    return power, share


def _targets(positive: Array, counts: Array) -> FloatArray:
    """Return 1 for the class and 0 for the other one, ``(n + 1) / (n + 2)`` or one minus that if all n are of one."""
    if positive.any() and not positive.all():
        return positive.astype(np.float64)
    n_samples = counts.sum()
    return np.where(positive, (n_samples + 1) / (n_samples + 2), 1 / (n_samples + 2))


def _centre_and_spread(scores: FloatArray, weights: FloatArray) -> tuple[float, float]:
    """Return the weighted mean and standard deviation; for constant scores an arbitrary positive spread."""
    largest = float(np.abs(scores).max())
    if largest < _SMALLEST:
        return 0.0, 1.0
    units = scores / largest
    centre = float(np.average(units, weights=weights))
    spread = float(np.sqrt(np.average((units - centre) ** 2, weights=weights)))
    return centre * largest, spread * largest if spread > _ROUNDING else max(largest, 1.0)


def _most_likely(scores: FloatArray, targets: FloatArray, weights: FloatArray) -> tuple[float, float]:
    """Return the slope, at least the flattest, and the offset of maximum likelihood for standardised scores.

    The last target and weight are of what `fit_sigmoid` adds, at a distance of one and without the offset.
    """
    start = float(logit(np.average(targets[:-1], weights=weights[:-1])))
    design = np.vstack([np.column_stack([scores, np.ones_like(scores)]), [1.0, 0.0]])
    slope, offset = _newton(design, np.zeros(len(design)), targets, weights, np.array([0.0, start]))
    if slope >= _FLATTEST:
        return float(slope), float(offset)
    # The log-likelihood is concave, so the best allowed slope is the smallest one.
    (offset,) = _newton(design[:, 1:], _FLATTEST * design[:, 0], targets, weights, np.array([start]))
    return _FLATTEST, float(offset)


def _newton(
    design: FloatArray, given: FloatArray, targets: FloatArray, weights: FloatArray, point: FloatArray
) -> FloatArray:
    """Return the minimiser of the cross-entropy of ``expit(given + design @ point)``, by Newton's method.

    With step halving after Lin, Lin and Weng 2007 (Machine Learning 68): Platt's original iteration may not converge.
    """

    def loss(point: FloatArray) -> float:
        return _cross_entropy(given + design @ point, targets, weights)

    value = loss(point)
    for _ in range(_STEPS):
        probabilities = expit(given + design @ point)
        gradient = design.T @ (weights * (probabilities - targets))
        curvature = (design.T * (weights * probabilities * (1 - probabilities))) @ design
        curvature += 1e-12 * np.eye(len(point))  # constant scores have none along the slope
        step = -np.linalg.solve(curvature, gradient)
        decrease = float(gradient @ step)  # expected change, negative
        for halving in range(_HALVINGS):
            shorter = point + 0.5**halving * step
            lower = loss(shorter)
            if lower <= value + 1e-4 * 0.5**halving * decrease:
                break
        else:  # any further gain is below rounding
            break
        point, value = shorter, lower
        if -decrease <= 1e-14 * (1 + abs(value)):
            break
    return point


def _cross_entropy(arguments: FloatArray, targets: FloatArray, weights: FloatArray) -> float:
    return -float(weights @ (targets * log_expit(arguments) + (1 - targets) * log_expit(-arguments)))


def _arguments(scores: Array, calibration: Any) -> FloatArray:
    """Return the arguments of the sigmoid, finite for scores of any size."""
    slopes, offsets = calibration
    with np.errstate(over="ignore"):
        return np.clip(slopes * scores.astype(np.float64) + offsets, -_LARGEST, _LARGEST)


def class_probabilities(scores: Array, calibration: Array, scheme: str) -> FloatArray:
    """Return the probabilities of all classes from the scores of all binary problems and what `calibrate` returned.

    Models of several classes in older files have slopes and offsets only.
    """
    arguments = _arguments(scores, calibration[:, :2].T)
    if arguments.shape[1] == 1:
        return expit(np.hstack([-arguments, arguments]))
    if calibration.shape[1] > 2:
        power, share = calibration[0, 2:]
        probabilities = softmax(power * _logits(arguments, scheme), axis=1)
        probabilities = (1 - share) * probabilities + share / probabilities.shape[1]
    elif scheme == "ovr":  # the sigmoids over their sum, with logarithms since they may all underflow to zero
        probabilities = softmax(log_expit(arguments), axis=1)
    else:
        probabilities = couple(_pairwise(expit(arguments)))
    if calibration[:, 1].any():  # an offset moves the decision on purpose
        return probabilities
    # Cyclic votes may make another class than the predicted one most probable: these two are swapped.
    predicted = predicted_codes(combine_scores(scores, probabilities.shape[1], scheme))
    rows, most = np.arange(len(predicted)), probabilities.argmax(axis=1)
    swapped = probabilities.copy()
    swapped[rows, most], swapped[rows, predicted] = probabilities[rows, predicted], probabilities[rows, most]
    return swapped


def _logits(arguments: FloatArray, scheme: str) -> FloatArray:
    """Return numbers of each class that become probabilities by `softmax`, before they are multiplied by the power."""
    return arguments if scheme == "ovr" else np.log(np.maximum(couple(_pairwise(expit(arguments))), CERTAIN))


def logarithms(probabilities: FloatArray) -> FloatArray:
    """Return the logarithms of probabilities; minus infinity for zero."""
    with np.errstate(divide="ignore"):
        return np.log(probabilities)


def _pairwise(positive: FloatArray) -> FloatArray:
    """Return ``r_ij``, the probability of class i given i or j, from one column per pair."""
    n_classes = round((1 + np.sqrt(1 + 8 * positive.shape[1])) / 2)
    first, second = np.triu_indices(n_classes, 1)
    pairwise = np.zeros((len(positive), n_classes, n_classes))
    pairwise[:, second, first] = np.clip(positive, CERTAIN, 1 - CERTAIN)
    pairwise[:, first, second] = 1 - pairwise[:, second, first]
    return pairwise


def couple(pairwise: FloatArray) -> FloatArray:
    """Return class probabilities from pairwise ones ``r_ij`` (second method of Wu, Lin and Weng 2004, JMLR 5).

    Minimises ``sum_ij (r_ji p_i - r_ij p_j)^2`` with ``sum_i p_i = 1``; one linear system per sample.
    """
    n_samples, n_classes, _ = pairwise.shape
    system = np.zeros((n_samples, n_classes + 1, n_classes + 1))
    system[:, :-1, :-1] = -np.swapaxes(pairwise, 1, 2) * pairwise
    system[:, range(n_classes), range(n_classes)] = np.sum(pairwise**2, axis=1)
    system[:, -1, :-1] = system[:, :-1, -1] = 1.0
    right = np.zeros((n_samples, n_classes + 1, 1))
    right[:, -1] = 1.0
    probabilities = np.maximum(np.linalg.solve(system, right)[:, :-1, 0], 0.0)  # may be negative by rounding
    return probabilities / probabilities.sum(axis=1, keepdims=True)
