"""The most accurate method of a comparison, fitted to all samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..data import Metadata, as_samples, checked_labels
from ..estimators import KERNEL_METHODS, METHODS, without_convergence_warnings
from ..inspection import fit_model
from ..io import SampleSet
from ..runtime import Array, as_array
from ..transformers import takes_ragged
from .choice import tuned
from .comparison import CompareRow, CompareSettings
from .contenders import contender


@dataclass(frozen=True)
class Winner:
    """A method of a comparison, fitted to all samples.

    Attributes
    ----------
    method : str
        The most accurate method that has weights and margins to show: not LinearSVC, CP-PLSR or the majority class.
    best : str
        The most accurate method of all.
    model : estimator
        Fitted; its hyperparameters were chosen by cross-validation on all samples.
    predictions : list of dict
        One per held-out prediction of ``method`` in the comparison: "repeat", "sample", "group", "label", "predicted"
        and "probability", which is None.

    Examples
    --------
    >>> from tensormargin.datasets import make_low_rank_classes
    >>> from tensormargin.evaluation import CompareSettings, compare, fit_winner
    >>> from tensormargin.io import SampleSet
    >>> data = make_low_rank_classes(60, (6, 7), rank=1, random_state=0)
    >>> settings = CompareSettings(methods=("STM", "LinearSVC"), repeats=2, lam_grid=(1.0,))
    >>> samples = SampleSet(data.data, data.target, None, None, None, "noise", "plain", ())
    >>> rows = list(compare(data.data, data.target, settings))
    >>> winner = fit_winner(samples, settings, rows)
    >>> len(winner.predictions) == sum(row.n_test for row in rows if row.method == winner.method)
    True
    """

    method: str
    best: str
    model: Any
    predictions: list[dict[str, Any]]


def fit_winner(
    samples: SampleSet, settings: CompareSettings, rows: Sequence[CompareRow], n_jobs: int | None = None
) -> Winner | None:
    """Return the winner of a comparison, fitted to all samples; None if no method has weights to show.

    Parameters
    ----------
    samples : SampleSet
        The compared samples; their data are those that `compare` took.
    settings : CompareSettings
    rows : sequence of CompareRow
        All rows of the comparison.
    n_jobs : int, optional
        Number of fits at a time in the choice of hyperparameters.

    Examples
    --------
    >>> from tensormargin.datasets import make_low_rank_classes
    >>> from tensormargin.evaluation import CompareSettings, compare, fit_winner
    >>> from tensormargin.io import SampleSet
    >>> data = make_low_rank_classes(60, (6, 7), rank=1, random_state=0)
    >>> settings = CompareSettings(methods=("STM", "LinearSVC"), repeats=2, lam_grid=(1.0,))
    >>> samples = SampleSet(data.data, data.target, None, None, None, "noise", "plain", ())
    >>> rows = list(compare(data.data, data.target, settings))
    >>> winner = fit_winner(samples, settings, rows)
    >>> winner.method, winner.model.predict(data.data[:2]).shape
    ('STM', (2,))
    """
    shares = {name: _share_right(rows, name) for name in settings.entries}
    own = [name for name in settings.entries if name in METHODS or name in KERNEL_METHODS]
    if not own:
        return None
    method = max(own, key=shares.__getitem__)
    one = contender(method, settings.lam_grid).behind(settings.preparation)
    X = as_array(as_samples(samples.data, ragged=takes_ragged(settings.preparation)))
    y, metadata = checked_labels(X, samples.labels), Metadata.checked(X, samples.groups, samples.confounds)
    with without_convergence_warnings():
        chosen = tuned(one, X, y, settings.folds, settings.seed, metadata, n_jobs)
        model = fit_model(chosen.estimator, X, y, metadata)
    predictions = [line for row in rows if row.method == method for line in _predictions(row, samples)]
    return Winner(method, max(settings.entries, key=shares.__getitem__), model, predictions)


def _share_right(rows: Sequence[CompareRow], method: str) -> float:
    return float(np.concatenate([row.right for row in rows if row.method == method]).mean())


def _predictions(row: CompareRow, samples: SampleSet) -> list[dict[str, Any]]:
    if row.predicted is None:
        return []
    labels: Array = samples.labels
    return [
        {
            "repeat": row.repeat,
            "sample": str(k) if samples.names is None else samples.names[k],
            "group": None if samples.groups is None else samples.groups[k].item(),
            "label": labels[k].item(),
            "predicted": predicted,
            "probability": None,
        }
        for k, predicted in zip(row.test.tolist(), row.predicted.tolist(), strict=True)
    ]
