"""Permutation test of a held-out score against chance, with or without groups."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from math import exp
from typing import Any

import numpy as np
from joblib import delayed, effective_n_jobs
from sklearn.utils import check_random_state

from ..data import (
    Checkpoint,
    FactsMixin,
    LeakageWarning,
    Metadata,
    blocks_in_time,
    check_classes,
    log_arrangements,
    run_units,
    units_of,
)
from ..runtime import Array, Deadline, Progress, percent
from ..transformers import UnseenCategoryWarning
from .held_out import Labelled, checked_score, outer_splits, pooled_score, predict_held_out, seeded, settled_kind

_FEWEST_ARRANGEMENTS = 40  # of blocks, so that p can be well below 5 %


@dataclass(frozen=True, repr=False)
class PermutationTest(FactsMixin):
    """Result of `permutation_test`.

    Attributes
    ----------
    score : float
        Score of the held-out predictions with the true labels.
    permuted : ndarray of shape (n_permutations,)
        Scores with permuted labels: the null distribution.
    p_value : float
        ``(1 + number of permuted scores >= score) / (1 + n_permutations)``.
    permuted_what : str
        What was permuted: labels of samples, labels within groups (of samples or of blocks of them), labels of whole
        groups, or both of the last two.
    smallest_p : float
        The smallest possible p-value, limited by the number of permutations and by the number of distinct arrangements
        of the labels.
    fixed_groups : list
        Groups whose labels no permutation changes: each has a single label, the same for all of them. They add no
        evidence.
    n_fixed : int
        Number of samples in the fixed groups.
    n_planned : int
        Number of permutations that were asked for; a budget may leave time for fewer.

    Examples
    --------
    >>> from tensormargin import TensorMarginClassifier, permutation_test
    >>> from tensormargin.datasets import make_low_rank_classes
    >>> data = make_low_rank_classes(40, (4, 5), rank=1, random_state=0)
    >>> test = permutation_test(TensorMarginClassifier("cp", 1), data.data, data.target, cv=3, n_permutations=19)
    >>> test.permuted.shape, test.smallest_p
    ((19,), 0.05)
    """

    score: float
    permuted: Array
    p_value: float
    permuted_what: str
    smallest_p: float
    fixed_groups: list[Any]
    n_fixed: int
    n_planned: int = 0

    def _facts(self) -> list[tuple[str, str]]:
        return [
            ("score", f"{percent(self.score)} %"),
            ("p", f"{self.p_value:.2g} ({len(self.permuted)} permutations of {self.permuted_what})"),
            ("chance", f"{percent(float(np.mean(self.permuted)))} % on average"),
        ]


def permutation_test(
    model: Any,
    X: Any,
    y: Any,
    groups: Any = None,
    cv: Any = 5,
    n_permutations: int = 200,
    n_jobs: int | None = None,
    random_state: int | np.random.RandomState | None = 0,
    progress: Progress | None = None,
    repeats: int = 1,
    score: str | None = None,
    checkpoint: Checkpoint | None = None,
    confounds: Any = None,
    budget: float | Deadline | None = None,
) -> PermutationTest:
    """Test whether a model's held-out score is above chance.

    The score pools all held-out predictions. It is that of `nested_evaluation` with the same integer as its ``seed``
    and as ``random_state`` here, which is the default. Labels are permuted between samples. With groups they are
    permuted within each group that has several labels (fMRI runs). Where samples of one label follow each other in such
    a group, blocks of them exchange their labels, since neighbours share noise: give samples in the order of time.
    Groups with a single label each (recordings of a patient) exchange their labels as a whole, since permuting within
    them would change nothing.

    Parameters
    ----------
    model : estimator
        A classifier or a Pipeline that ends in one; it is cloned. `TensorMarginClassifierCV` repeats its whole search
        for every permutation, which is unbiased but slow.
    X, y, groups, cv, repeats, score, progress
        See `nested_evaluation`.
    n_permutations : int, default=200
    n_jobs : int, optional
        Number of permutations to run in parallel.
    random_state : int, RandomState or None, default=0
        Controls the permutations and the folds, and what is random in a model without a ``random_state``.
    checkpoint : Checkpoint, optional
        Keeps the scores of finished permutations, so that an interrupted test can be resumed.
    confounds : array-like of shape (n_samples, n_confounds), optional
        Confounds of the samples, for a model that removes them (`Deconfound`). They stay with their samples.
    budget : float, optional
        Seconds for the test. All searches of the model have the same share of them, and permutations that would not end
        in time are left out.

    Examples
    --------
    >>> from tensormargin import TensorMarginClassifier, permutation_test
    >>> from tensormargin.datasets import make_low_rank_classes
    >>> easy = make_low_rank_classes(40, (6, 6), rank=1, distance=6.0, random_state=0)
    >>> clf = TensorMarginClassifier("cp", 1)
    >>> permutation_test(clf, easy.data, easy.target, n_permutations=19, random_state=0).p_value
    0.05
    """
    samples = Labelled.checked(model, X, y, groups, confounds)
    check_classes(samples.y, in_folds=True)
    samples.warn_of_leakage()
    score = checked_score(model, score)
    if n_permutations < 1:
        raise ValueError(f"n_permutations must be at least 1; got {n_permutations}")
    rng = check_random_state(random_state)
    seed = int(random_state) if isinstance(random_state, int | np.integer) else rng.randint(2**31 - 1)
    exchange = _Exchange(samples.y, samples.groups)
    model = settled_kind(seeded(model, seed), samples)  # unfitted: fitted attributes need not be sent with every job
    labels = [samples.y, *(exchange.permuted(rng) for _ in range(n_permutations))]
    time, scheme = _Time(Deadline.of(budget), effective_n_jobs(n_jobs)), (cv, repeats, seed, score)
    n_searches = len(labels) * repeats * (cv if isinstance(cv, int) else 1)
    how = model, scheme, (time.deadline, time.deadline.left * time.n_jobs / n_searches)
    # arrays are separate arguments, which a cluster then gets only once
    jobs = {str(k): delayed(_score)(samples.X, one, samples.metadata, *how) for k, one in enumerate(labels)}
    scores = np.full(len(labels), np.nan)
    limits = [time.deadline.budget] if time.deadline.limited else []
    # the first permutation stands for the others
    content = (model, samples.X, labels[:2], *samples.metadata.content, *scheme, *limits)
    with units_of(checkpoint, "permutations", *content) as units:
        kept = sum(key in units for key in jobs)
        for done, (key, value) in enumerate(run_units(jobs, units, n_jobs, time.allows_another), start=1):
            scores[int(key)] = value
            time.done += 1
            if progress is not None and done >= kept:
                progress(done, len(labels), f"{done - 1} of {n_permutations} permutations")
    permuted = scores[1:][np.isfinite(scores[1:])]
    return PermutationTest(
        score=float(scores[0]),
        permuted=permuted,
        p_value=float((1 + np.sum(permuted >= scores[0] - 1e-12)) / (1 + len(permuted))),
        permuted_what=exchange.what,
        smallest_p=max(1 / (1 + len(permuted)), 1 / exchange.n_arrangements),
        fixed_groups=exchange.fixed_groups,
        n_fixed=exchange.n_fixed,
        n_planned=n_permutations,
    )


class _Time:
    """The time for a number of scores, some of them computed at the same time."""

    def __init__(self, deadline: Deadline, n_jobs: int) -> None:
        self.deadline, self.n_jobs, self.done, self._began = deadline, n_jobs, 0, deadline.now()

    def allows_another(self) -> bool:
        """Return whether another score would be ready in time, after those that wait already: two per process."""
        if not self.deadline.limited:
            return True
        if not self.done:
            return self.deadline.allows()
        ahead = 1 if self.n_jobs == 1 else 3
        return self.deadline.allows(ahead * (self.deadline.now() - self._began) / self.done)


class _Exchange:
    """Which labels are exchangeable under the null hypothesis.

    Each group with several labels is a stratum of its own. If its samples are in the order of time and those of one
    label follow each other (blocks of a run), they share noise and are not exchangeable one by one: blocks exchange
    their labels. All groups with a single label together form another stratum, in which whole groups exchange theirs.
    """

    def __init__(self, y: Array, groups: Array | None) -> None:
        self._y = y
        names = np.zeros(1) if groups is None else np.unique(groups)
        self._of_group = np.zeros(len(y), int) if groups is None else np.searchsorted(names, groups)
        rows = [np.flatnonzero(self._of_group == number) for number in range(len(names))]
        uniform = [number for number, own in enumerate(rows) if len(np.unique(y[own])) == 1]
        self._mixed = [own for number, own in enumerate(rows) if number not in set(uniform)]
        self._block_starts = [self._starts_of_blocks(y[own], groups is not None) for own in self._mixed]
        self._whole = np.array(uniform, dtype=int)
        self._label_of_group = y[[own[0] for own in rows]]
        stuck = len(np.unique(self._label_of_group[self._whole])) < 2
        self.fixed_groups = names[self._whole].tolist() if stuck and groups is not None else []
        self.n_fixed = sum(len(rows[number]) for number in uniform) if self.fixed_groups else 0
        in_blocks = sum(len(starts) < len(own) for starts, own in zip(self._block_starts, self._mixed, strict=True))
        if in_blocks and self.n_arrangements < _FEWEST_ARRANGEMENTS:
            self._block_starts = [np.arange(len(own)) for own in self._mixed]
            in_blocks = 0
            warnings.warn(
                "samples of one class follow each other in every group, and there are too few such blocks to exchange "
                "their labels, so the test exchanges those of samples. If neighbours share noise, its p-value is too "
                "small: average the samples of each block before the test, or bring more groups",
                LeakageWarning,
                stacklevel=4,
            )
        within = ["of blocks within groups"] if in_blocks else ["within groups"]
        kinds = [*(within if self._mixed else []), *([] if stuck else ["of whole groups"])]
        self.what = "labels of samples" if groups is None else "labels " + " and ".join(kinds)

    @staticmethod
    def _starts_of_blocks(labels: Array, of_group: bool) -> Array:
        """Return where the units that exchange their labels begin: blocks of equal labels, or every sample."""
        if not of_group or not blocks_in_time(labels):
            return np.arange(len(labels))
        return np.concatenate([[0], 1 + np.flatnonzero(labels[1:] != labels[:-1])])

    @property
    def n_arrangements(self) -> float:
        """Number of distinct arrangements of the labels; infinite beyond exp(100)."""
        parts = [self._y[own][starts] for own, starts in zip(self._mixed, self._block_starts, strict=True)]
        parts.append(self._label_of_group[self._whole])
        logarithm = sum(map(log_arrangements, parts))
        return exp(logarithm) if logarithm < 100 else float("inf")

    def permuted(self, rng: np.random.RandomState) -> Array:
        """Return the labels in a random arrangement."""
        permuted = self._y.copy()
        for own, starts in zip(self._mixed, self._block_starts, strict=True):
            lengths = np.diff(starts, append=len(own))
            permuted[own] = np.repeat(rng.permutation(self._y[own][starts]), lengths)
        of_groups = self._label_of_group.copy()
        of_groups[self._whole] = rng.permutation(of_groups[self._whole])
        moved = np.isin(self._of_group, self._whole)
        permuted[moved] = of_groups[self._of_group[moved]]
        return permuted


def _score(
    X: Array, y: Array, metadata: Metadata, model: Any, scheme: tuple[Any, int, int, str], time: tuple[Deadline, float]
) -> float:
    """Return the pooled score of a model's held-out predictions, whose searches may take so many seconds each."""
    samples, (cv, repeats, seed, score), (deadline, seconds) = Labelled(X, y, metadata), scheme, time
    splits = outer_splits(cv, y, metadata.groups, repeats, seed)
    predicted = []
    with warnings.catch_warnings(action="ignore", category=UnseenCategoryWarning):
        for split in splits:
            own = deadline.after(seconds) if deadline.limited else None
            predicted.append(predict_held_out(model, samples, split, deadline=own).predicted)
    tested = np.concatenate([split.test for split in splits])
    return pooled_score(score, y[tested], np.concatenate(predicted))
