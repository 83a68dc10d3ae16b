"""What Theorem 1 of the paper says about a fitted classifier, with every number that goes into it."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import log, sqrt
from typing import Any

import numpy as np

from ._namespace import as_array, to_host
from ._typing import Array
from ._validation import checked_labels
from .anatomy import classifier_of, prepared
from .estimators._multiclass import binary_tasks, class_codes
from .samples import chunks_here


@dataclass(frozen=True)
class Bound:
    """An upper bound on a rate, with the rate observed on the samples.

    Attributes
    ----------
    value : float
        The bound; above 1 it says nothing (`vacuous`).
    rate : float
        Share of the samples with the event that is bounded.
    event : str
        What is bounded.
    """

    value: float
    rate: float
    event: str

    @property
    def vacuous(self) -> bool:
        """Whether the bound says nothing."""
        return self.value >= 1.0


@dataclass(frozen=True)
class MarginReport:
    """Margins ``m_i = t_i (<W, Z_i> + b)`` of one binary problem and the bounds of Theorem 1.

    Attributes
    ----------
    classes : tuple
        (negative, positive) label; the negative one is None where it stands for all other classes.
    margins : ndarray of shape (n_samples,)
    signs : ndarray of shape (n_samples,)
        t_i: 1 for samples of the positive class, -1 for the others.
    mean, variance, minimum : float
        Of the margins (Eq. 5 and 6); the variance is divided by N.
    cantelli : Bound
        Second part of Theorem 1 at margin 0: ``P(m <= 0) <= variance / (variance + mean^2)`` if the mean is positive.
        For the samples given this is a theorem; for new samples it holds as far as their mean and variance are these.
    rademacher : Bound
        First part of Theorem 1, with probability ``1 - delta`` over the samples:
        ``P(m <= 0) <= share(m <= rho) + 2 B R / (rho sqrt(N)) + 3 sqrt(log(2 / delta) / (2 N))``.
    margin_loss : float
        ``share(m <= rho)``.
    weight_norm, sample_norm : float
        B and R: the norm of the weight with b as an additional entry for a constant coordinate c, and the largest norm
        of a sample with that coordinate. c makes the product smallest, ``B R = ||W|| max ||Z|| + |b|``.
    n_samples : int
    rho, delta : float
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
    sample_norm: float
    n_samples: int
    rho: float
    delta: float


def margin_report(
    model: Any, X: Any, y: Any, delta: float = 0.05, rho: float = 1.0, groups: Any = None
) -> MarginReport | list[MarginReport]:
    """Report the margin distribution of labelled samples and both bounds of Theorem 1.

    Parameters
    ----------
    model : TensorMarginClassifier, TensorMarginClassifierCV or a Pipeline that ends in one
        Fitted.
    X, y : array-like
        Samples and labels. Theorem 1 speaks of the training samples; on others the rates are test rates.
    delta : float, default=0.05
        Probability with which the Rademacher bound may fail.
    rho : float, default=1.0
        Its margin, in the units of the decision function; 1 is where the hinge loss begins.
    groups : array-like, optional
        Needed where the model scales by group.

    Returns
    -------
    MarginReport, or a list with one for each binary problem of a classifier with more than two classes
    """
    if not 0 < delta < 1:
        raise ValueError(f"delta is a probability between 0 and 1; got delta={delta!r}")
    if not rho > 0:
        raise ValueError(f"rho must be positive; got rho={rho!r}")
    clf = classifier_of(model)
    X = prepared(model, as_array(X), groups)
    scores, class_labels = to_host(clf.binary_scores(X)), to_host(clf.classes_)
    codes = class_codes(checked_labels(scores, y), class_labels)
    norms = _norms(X)
    tasks = binary_tasks(codes, len(class_labels), clf.multi_class_)
    reports, classes, weights = [], class_labels.tolist(), to_host(clf.coef_)
    for k, task in enumerate(tasks):
        rows = slice(None) if task.rows is None else task.rows
        negative = None if task.negative < 0 else classes[task.negative]
        reports.append(
            _report(
                (negative, classes[task.positive]),
                scores[rows, k],
                task.signs,
                float(np.linalg.norm(weights[k])),
                abs(float(clf.intercept_[k])),
                float(np.max(norms[rows], initial=0.0)),
                rho,
                delta,
            )
        )
    return reports[0] if len(reports) == 1 else reports


def cantelli_bound(margins: Array, weights: Array | None = None) -> float:
    """Return ``variance / (variance + mean^2)``, a bound on the share of margins <= 0; 1 for a mean of <= 0."""
    mean = float(np.average(margins, weights=weights))
    variance = float(np.average(np.square(margins - mean), weights=weights))
    return variance / (variance + mean**2) if mean > 0 else 1.0


def _report(
    classes: tuple[Any, Any],
    scores: Array,
    signs: Array,
    weight: float,
    bias: float,
    radius: float,
    rho: float,
    delta: float,
) -> MarginReport:
    if scores.size == 0:
        raise ValueError(f"no sample of the classes {classes} was given; a margin report needs at least one")
    n_samples = len(scores)
    margins = signs * scores.astype(np.float64)
    mean, variance = float(margins.mean()), float(margins.var())
    wrong = float(np.mean(margins <= 0))
    margin_loss = float(np.mean(margins <= rho))
    weight_norm, sample_norm = _augmented_norms(weight, bias, radius)
    confidence = 3 * sqrt(log(2 / delta) / (2 * n_samples))
    rademacher = margin_loss + 2 * weight_norm * sample_norm / (rho * sqrt(n_samples)) + confidence
    return MarginReport(
        classes=classes,
        margins=margins,
        signs=signs,
        mean=mean,
        variance=variance,
        minimum=float(margins.min()),
        cantelli=Bound(cantelli_bound(margins), wrong, "m <= 0"),
        rademacher=Bound(rademacher, wrong, "m <= 0"),
        margin_loss=margin_loss,
        weight_norm=weight_norm,
        sample_norm=sample_norm,
        n_samples=n_samples,
        rho=rho,
        delta=delta,
    )


def _augmented_norms(weight: float, bias: float, radius: float) -> tuple[float, float]:
    """Return B and R for the constant coordinate that makes their product ``weight * radius + bias``, the smallest."""
    if bias == 0.0:
        return weight, radius
    if weight * radius == 0.0:
        return bias, 1.0
    constant = sqrt(radius * bias / weight)
    return sqrt(weight**2 + (bias / constant) ** 2), sqrt(radius**2 + constant**2)


def _norms(X: Any) -> Array:
    norms = np.empty(X.shape[0])
    for where, part in chunks_here(X):
        norms[where] = np.linalg.norm(part.reshape(len(part), -1).astype(np.float64), axis=1)
    return norms
