"""The bounds of the paper's Theorem 1 for a fitted classifier, with every number they depend on."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import frexp, sqrt
from typing import Any, NamedTuple

import numpy as np

from ..data import Metadata, Views, checked_labels, views_or_array
from ..fitting import binary_problems, class_codes, sample_array
from ..runtime import Array, FloatArray, to_host
from .model_chain import ModelChain

_LOWEST_LEVEL = -64  # lowest exponent of the grid below: 2^-64 rho adds nothing to the bound


@dataclass(frozen=True)
class Bound:
    """An upper bound (``value``, `vacuous` from 1 on) on the rate of an event, with the rate observed on the samples.

    Examples
    --------
    >>> from tensormargin import Bound
    >>> Bound(value=0.25, rate=0.1, event="margin <= 0").vacuous
    False
    """

    value: float
    rate: float
    event: str

    @property
    def vacuous(self) -> bool:
        """Whether the bound is at least 1 and so says nothing."""
        return self.value >= 1.0


@dataclass(frozen=True)
class MarginReport:
    """Margins ``m_i = t_i (<W, Z_i> + b)`` of one binary problem and the bounds of Theorem 1.

    Attributes
    ----------
    classes : tuple
        (negative, positive) label; the negative one is None if it stands for all other classes.
    margins : ndarray of shape (n_samples,)
    signs : ndarray of shape (n_samples,)
        t_i: 1 for samples of the positive class, -1 for the others.
    mean, variance, minimum : float
        Statistics of the margins (Eq. 5 and 6); the variance is divided by N.
    cantelli : Bound
        Second part of Theorem 1 at margin 0: ``P(m <= 0) <= variance / (variance + mean^2)`` if the mean is positive.
        It always holds for the given samples; for new ones only as far as they have the same mean and variance.
    rademacher : Bound
        First part of Theorem 1, in a form that holds for a fitted W and b (see Notes): with probability
        ``1 - delta`` over the samples,
        ``P(m <= 0) <= share(m <= rho) + 2 (B R + C) / (rho sqrt(N)) + 3 sqrt(log(2 / delta') / (2 N))``.
    margin_loss : float
        ``share(m <= rho)``.
    weight_norm, intercept_norm, sample_norm : float
        ``||W||``, ``|b|``, and R, the largest norm of a sample.
    weight_bound, intercept_bound : float
        B and C: values of the grid ``2^j rho`` that are at least ``||W||`` and ``|b|``. C is 0 for a classifier without
        an intercept.
    delta_used : float
        delta': the share of delta assigned to (B, C).
    n_samples : int
    rho, delta : float

    Notes
    -----
    Theorem 1 assumes a class ``||W|| <= B`` that is fixed before the samples are seen; the norm of a fitted weight is
    not. So the theorem is applied to all classes ``||W|| <= B_j, |b| <= C_k`` of a grid at once, ``B_j = 2^j rho`` and
    ``C_k = 2^k rho`` for all integers j and k, each with a share ``delta_jk`` of delta, and the report gives the
    smallest bound among the classes that contain the fit. docs/method.md has the shares and the proof.

    The bound assumes that the samples are independent (not several from one subject), and that rho and the preparation
    in a Pipeline (or the scale of several views) were chosen without looking at them. With several binary problems,
    each bound holds with probability ``1 - delta`` on its own.

    Examples
    --------
    >>> from tensormargin import TensorMarginClassifier, margin_report
    >>> from tensormargin.datasets import make_low_rank_classes
    >>> data = make_low_rank_classes(60, (6, 7), rank=1, random_state=0)
    >>> report = margin_report(TensorMarginClassifier("cp", 1).fit(data.data, data.target), data.data, data.target)
    >>> report.n_samples, report.rademacher.event
    (60, 'm <= 0')
    """

    classes: tuple[Any, Any]
    margins: Array = field(repr=False)
    signs: Array = field(repr=False)
    mean: float
    variance: float
    minimum: float
    cantelli: Bound
    rademacher: Bound
    margin_loss: float
    weight_norm: float
    intercept_norm: float
    sample_norm: float
    weight_bound: float
    intercept_bound: float
    delta_used: float
    n_samples: int
    rho: float
    delta: float


def margin_report(
    model: Any, X: Any, y: Any, delta: float = 0.05, rho: float = 1.0, groups: Any = None, confounds: Any = None
) -> MarginReport | list[MarginReport]:
    """Return the margin distribution of labelled samples and both bounds of Theorem 1.

    Parameters
    ----------
    model : estimator
        A fitted model, as `affine_form` takes it, with steps that need not be affine. For a CalibratedClassifierCV with
        several models the margins are those of their mean score.
    X, y : array-like
        Samples and labels. Theorem 1 is about the training samples; for others the rates are test rates.
    delta : float, default=0.05
        Probability that the Rademacher bound fails.
    rho : float, default=1.0
        Margin of the Rademacher bound, in units of the decision function; the hinge loss is zero from 1 on. It must
        not be chosen by comparing bounds.
    groups, confounds : array-like, optional
        Of the samples; required if the model scales by group or removes confounds.

    Returns
    -------
    MarginReport, or a list with one per binary problem for more than two classes

    Examples
    --------
    >>> from tensormargin import TensorMarginClassifier, margin_report
    >>> from tensormargin.datasets import make_low_rank_classes
    >>> data = make_low_rank_classes(60, (6, 7), rank=1, random_state=0)
    >>> clf = TensorMarginClassifier("cp", 1).fit(data.data, data.target)
    >>> report = margin_report(clf, data.data, data.target)
    >>> report.classes
    (-1, 1)
    >>> report.cantelli.rate <= report.cantelli.value
    True
    """
    if not 0 < delta < 1:
        raise ValueError(f"delta is a probability between 0 and 1; got delta={delta!r}")
    if not rho > 0:
        raise ValueError(f"rho must be positive; got rho={rho!r}")
    chain = ModelChain.of(model)
    clf, X = chain.classifier, chain.samples_for_classifier(X, Metadata(groups, confounds))
    scores, class_labels = to_host(clf.binary_scores(X)), to_host(clf.classes_)
    codes = class_codes(checked_labels(scores, y), class_labels)
    problems = binary_problems(codes, len(class_labels), clf.multi_class_)
    reports, classes = [], class_labels.tolist()
    weight_norms, sample_norms = _all_norms(clf, views_or_array(X))
    for k, problem in enumerate(problems):
        rows = slice(None) if problem.rows is None else problem.rows
        intercept = abs(float(clf.intercept_[k])) if clf.fit_intercept else None
        norms = _Norms(float(weight_norms[k]), intercept, float(np.max(sample_norms[rows, k], initial=0.0)))
        pair = None if problem.negative < 0 else classes[problem.negative], classes[problem.positive]
        reports.append(_report(pair, scores[rows, k], problem.signs, norms, rho, delta))
    return reports[0] if len(reports) == 1 else reports


def cantelli_bound(margins: Array, weights: Array | None = None) -> float:
    """Return ``variance / (variance + mean^2)``, a bound on the share of margins <= 0; 1 if the mean is <= 0."""
    mean = float(np.average(margins, weights=weights))
    variance = float(np.average(np.square(margins - mean), weights=weights))
    return variance / (variance + mean**2) if mean > 0 else 1.0


class _Norms(NamedTuple):
    """Norms of a weight, of its intercept (None without one), and of the largest sample."""

    weight: float
    intercept: float | None
    sample: float


def _report(
    classes: tuple[Any, Any], scores: Array, signs: Array, norms: _Norms, rho: float, delta: float
) -> MarginReport:
    if scores.size == 0:
        raise ValueError(f"no sample of the classes {classes} was given; a margin report needs at least one")
    margins = signs * scores.astype(np.float64)
    wrong, margin_loss = float(np.mean(margins <= 0)), float(np.mean(margins <= rho))
    excess, weight_bound, intercept_bound, delta_used = _smallest_excess(norms, len(scores), rho, delta)
    return MarginReport(
        classes=classes,
        margins=margins,
        signs=signs,
        mean=float(margins.mean()),
        variance=float(margins.var()),
        minimum=float(margins.min()),
        cantelli=Bound(cantelli_bound(margins), wrong, "m <= 0"),
        rademacher=Bound(margin_loss + excess, wrong, "m <= 0"),
        margin_loss=margin_loss,
        weight_norm=norms.weight,
        intercept_norm=norms.intercept or 0.0,
        sample_norm=norms.sample,
        weight_bound=weight_bound,
        intercept_bound=intercept_bound,
        delta_used=delta_used,
        n_samples=len(scores),
        rho=rho,
        delta=delta,
    )


def _smallest_excess(norms: _Norms, n_samples: int, rho: float, delta: float) -> tuple[float, float, float, float]:
    """Return the smallest excess of the Rademacher bound over the margin loss on the grid, and its B, C and delta'."""
    weight_bounds, weight_shares = _grid(norms.weight, rho)
    intercept_bounds, intercept_shares = (
        (np.zeros(1), np.ones(1)) if norms.intercept is None else _grid(norms.intercept, rho)
    )
    complexity = np.add.outer(weight_bounds * norms.sample, intercept_bounds)
    deltas = delta * np.multiply.outer(weight_shares, intercept_shares)
    excess = 2 * complexity / (rho * sqrt(n_samples)) + 3 * np.sqrt(np.log(2 / deltas) / (2 * n_samples))
    j, k = np.unravel_index(np.argmin(excess), excess.shape)
    return float(excess[j, k]), float(weight_bounds[j]), float(intercept_bounds[k]), float(deltas[j, k])


def _grid(norm: float, rho: float) -> tuple[FloatArray, FloatArray]:
    """Return the grid values ``2^j rho >= norm`` that can give the smallest bound, and their shares s(j) of delta.

    From j = 0 on, larger values only increase the bound, since s(j) decreases.
    """
    mantissa, exponent = frexp(norm / rho)  # norm = mantissa 2^exponent rho, mantissa 0 or in [0.5, 1)
    lowest = _LOWEST_LEVEL if norm == 0.0 else max(_LOWEST_LEVEL, exponent - (mantissa == 0.5))
    levels = np.arange(lowest, max(lowest, 0) + 1)
    place = np.where(levels >= 1, levels, 1 - levels)
    return np.ldexp(rho, levels), 1 / (2.0 * place * (place + 1))


def _all_norms(clf: Any, X: Any) -> tuple[Array, Array]:
    """Return the norm of each problem's weight, and of each sample in each problem.

    Several views have the norms of the scaled views, in which the weights are penalised. A sample that lacks a view
    counts as the largest one there: it has the score of their mean.
    """
    if not isinstance(X, Views):
        own = np.array([np.linalg.norm(one) for one in to_host(clf.coef_)])
        norms = _norms(X)
        return own, np.broadcast_to(norms[:, None], (len(norms), len(own)))
    weights, squares = np.zeros(len(clf.intercept_)), np.zeros((len(X), len(clf.intercept_)))
    for name, array in X.items():
        scales = clf.view_scale_[name]
        coef = to_host(clf.coef_[name]).reshape(len(scales), -1)
        weights += np.divide(np.linalg.norm(coef, axis=1), scales, out=np.zeros(len(scales)), where=scales > 0) ** 2
        norms = _norms(array)
        norms = np.where(np.isnan(norms), np.nanmax(norms, initial=0.0), norms)
        squares += np.outer(norms, scales) ** 2
    return np.sqrt(weights), np.sqrt(squares)


def _norms(X: Any) -> Array:
    norms = np.empty(X.shape[0])
    for where, part in sample_array(X).numpy_chunks():
        norms[where] = np.linalg.norm(part.reshape(len(part), -1).astype(np.float64), axis=1)
    return norms
