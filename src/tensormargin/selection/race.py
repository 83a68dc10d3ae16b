"""Which candidate is fitted on which split: all on all, or a race that drops candidates early."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import ceil
from operator import attrgetter

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from ..runtime import Array, FloatArray

Unit = tuple[int, int]
"""Indices of a candidate and of a split."""

FIRST_SHARE, MOST_FIRST, MOST_BESIDE_DEFAULT = 0.05, 64, 48
"""Share of all fits that are made before the first candidates are dropped, and the most of them. They are spread over
candidates and splits, so that the effect of each axis of the grid is judged by many samples. A larger grid has more
values on its axes, but hardly more axes. Fewer are needed if only a candidate that is clearly better than the default
matters (PRECOG's actions: 11 instead of 16 s per search, the same choices). With 32, and half as many candidates on
the rungs, Indian Pines' six classes lose 5 points in one of five outer folds: a rank-one weight is not found."""

RUNGS = ((1 / 12, 16, 0.4), (1 / 32, 6, 1.0))
"""Then: the share of the candidates that go on, the most of them, and the share of the splits that they are fitted on.

With twice as many first fits, a quarter more candidates on the first rung and twice as many on the last, the race makes
18 instead of 10 % of all fits and chooses no better (benchmarks/results/search.md: -0.05 and +0.19 points compared with
the exhaustive search, both with a standard error of half a point). On the nine data sets with 192 candidates or more,
the numbers of fits are limited to seven eighths of what they would be, at the same accuracy (-1.10 and -1.04, with a
standard error of one point).
"""

LAST_OF_MANY = (0.0, 0, 1.0)
"""The rung after these if candidates were compared on smaller splits so far: the best `FEWEST` are fitted on all rows,
which takes ten times as long. Beside a default only the best other one is, unless that would be selected (1,889 samples
of 6x23: two thirds of the time of a search, the same choices)."""

MOST_AT_ONCE = 32
"""Candidates that have scores on all samples at the same time, about: those of the last rung, and as many as the first
fits amount to."""

FEWEST = 3
"""Number of candidates that always go on, unless they are significantly worse."""

NO_RACE = 5
"""Up to so many candidates, all are fitted on all splits. The few first fits of a race would leave most of them unseen:
of four, such as all views and all but one of three, one was always dropped without a single fit."""

SIGNIFICANT = 2.0
"""A candidate is dropped if it is this many standard errors below the leader."""

_OWN, _PAIRS = 0.5, 0.5
"""Variance of a candidate's own part and of each axis' interactions with the others, where that of each axis is 1."""

_NOISE = (0.3, 1.0, 3.0, 10.0, 30.0)
"""Variance of a score on one split, where that between candidates is 1. Measured ratios are between 1 and 25."""


class Race:
    """The order of the fits of a search, and the candidates dropped on the way.

    After a few fits, spread over candidates and splits, scores are smoothed over close candidates
    (`smooth`). Candidates that are significantly worse than the leader are dropped, and of
    the others all but the best few; these are fitted on more splits, and so on. A candidate with the strictly best
    score on every split that it was fitted on stays.

    ``levels`` are the values of each candidate on the axes of the grid. The ``default`` candidate is fitted on all
    splits first and never dropped; ``exhaustive`` fits all candidates on all splits instead. ``scores``, one row per
    candidate, are to be filled in for the `units` of each rung. ``dropped`` says why each candidate was dropped, and is
    empty for those that were not. After the columns of the splits come those of ``n_small`` smaller splits,
    if there are any: candidates are fitted on these until only the last few are left. ``needed`` returns the score
    above which another candidate would be selected, given the default's: then no fits are made that could not change
    the choice, none but the default's if a score of 1 would not be enough, and none after those of a candidate that is
    always right. After smaller splits, the best other candidate is fitted on all rows first, and further ones only if
    it would be selected.
    """

    def __init__(
        self,
        levels: Sequence[Sequence[Hashable]],
        n_splits: int,
        default: int,
        exhaustive: bool,
        rng: np.random.RandomState,
        n_small: int = 0,
        needed: Callable[[float], float] | None = None,
    ) -> None:
        everyone = exhaustive or len(levels) <= NO_RACE
        self.n_splits = n_splits
        self.scores: FloatArray = np.full((len(levels), n_splits + (0 if everyone else n_small)), np.nan)
        self.dropped = [""] * len(levels)
        self._default = default
        self._levels = list(levels)
        self._prior = similarity(levels)
        self._order = rng.permutation(len(levels))
        self._rungs = [] if everyone else [*RUNGS, *([LAST_OF_MANY] if n_small else [])]
        self._wanted = np.ones_like(self.scores, dtype=bool)
        self._needed: Callable[[float], float] | None = None
        self._later: Array | None = None  # fits for which those before them may leave no need
        if not everyone:
            self._wanted = self._spread(MOST_FIRST if needed is None else MOST_BESIDE_DEFAULT)
        if not everyone and needed is not None:
            first = np.zeros_like(self._wanted)
            first[default, :n_splits] = True
            self._needed, self._later, self._wanted = needed, self._wanted & ~first, first

    @property
    def drops(self) -> bool:
        """Whether candidates may be dropped at the end of a rung to come."""
        return bool(self._rungs)

    def _spread(self, most: int) -> Array:
        """Return the first fits: the default on all splits, and a share of all fits spread over the others."""
        wanted = np.zeros(self.scores.shape, bool)
        columns, n_candidates = self._columns(last=False), len(wanted)
        for number in range(min(ceil(FIRST_SHARE * n_candidates * self.n_splits), most)):
            again, place = divmod(number, n_candidates)
            wanted[self._order[place], columns[(place + again) % len(columns)]] = True
        wanted[self._default] = True
        return wanted

    def _columns(self, last: bool) -> Array:
        """Return the splits of the last rung, or of those before it."""
        every = np.arange(self.scores.shape[1])
        return every[: self.n_splits] if last or len(every) == self.n_splits else every[self.n_splits :]

    @property
    def alive(self) -> Array:
        """Mask of the candidates that have not been dropped."""
        return np.array([not reason for reason in self.dropped])

    @property
    def units(self) -> list[Unit]:
        """The fits of the present rung, those of the default candidate first."""
        missing = np.argwhere(self._wanted & np.isnan(self.scores)).tolist()
        return [(row, split) for row, split in sorted(missing, key=lambda one: (one[0] != self._default, one))]

    @property
    def n_planned(self) -> int:
        """The number of fits still to be made, at most: as if the best of each rung had not been fitted before."""
        n_candidates, n_splits = len(self.scores), self.n_splits
        # The default goes on anyway, and so does the best on each split.
        sizes = (min(self._size(share, most) + 1 + n_splits, n_candidates) for share, most, _ in self._rungs)
        later = 0 if self._later is None else int(self._later.sum())
        return (
            len(self.units)
            + later
            + sum(size * ceil(part * n_splits) for size, (*_, part) in zip(sizes, self._rungs, strict=True))
        )

    def _size(self, share: float, most: int) -> int:
        return min(max(FEWEST, min(ceil(share * len(self.scores)), most)), len(self.scores))

    def advance(self) -> None:
        """Drop candidates after the fits of a rung, and plan those of the next that has any."""
        while self._later is not None or self._rungs:
            if self._later is None:
                self._climb(*self._rungs.pop(0))
            else:
                self._decide_on_later()
            if self.units:
                return

    def _decide_on_later(self) -> None:
        """Plan the fits that were left for later, unless none of them could change the choice."""
        best, needed = self._best_score(), self._needed_score()
        if max(needed, best) >= 1.0:
            self.stop(f"not fitted: no score is above {best:.3g} by more than chance allows")
        elif not self._rungs and best <= needed:
            self.stop("not fitted: the best one with fewer samples is not clearly better than the default with all")
        else:
            self._wanted |= self._later
            self._later = None

    def _needed_score(self) -> float:
        """Return the score above which another candidate than the default would be selected."""
        score = float(np.nanmean(self.scores[self._default, : self.n_splits]))
        return -np.inf if self._needed is None else self._needed(score)

    def _best_score(self) -> float:
        """Return the best score on all splits so far."""
        return float(np.nanmax(self.scores[:, : self.n_splits].mean(axis=1)))

    def _climb(self, share: float, most: int, part: float) -> None:
        """Drop candidates, and plan the fits of the others on a part of the splits."""
        smoothed, expensive = self.smoothed(), (share, most, part) == LAST_OF_MANY
        self._drop(smoothed, self._size(share, most), expensive)
        columns = self._columns(last=not self._rungs)
        for place in np.flatnonzero(self.alive):
            missing = columns[np.isnan(self.scores[place, columns])]
            count = ceil(part * len(columns)) - (len(columns) - len(missing))
            self._wanted[place, np.roll(missing, -place)[: max(count, 0)]] = True
        if expensive and self._needed:
            self._wait_for_leader(smoothed)

    def _wait_for_leader(self, smoothed: Smoothed) -> None:
        """Leave the planned fits for later but for those of the default and of the best other candidate."""
        waiting = self.alive
        waiting[self._default] = False
        waiting[np.argmax(np.where(waiting, smoothed.mean, -np.inf))] = False
        self._later = self._wanted & np.isnan(self.scores) & waiting[:, None]
        self._wanted &= ~self._later

    def smoothed(self) -> Smoothed:
        """Return the scores of all candidates, smoothed over close ones."""
        return smooth(self._prior, self.scores, self.n_splits)

    def _drop(self, smoothed: Smoothed, size: int, expensive: bool) -> None:
        """Drop all but so many candidates; before ``expensive`` fits, also those that would hardly be selected."""
        alive = self.alive
        leader = int(np.argmax(np.where(alive, smoothed.mean, -np.inf)))
        below, errors = smoothed.below(leader)
        _, errors_of_gain = smoothed.below(self._default)
        missing = self._needed_score() - smoothed.mean
        safe = np.arange(len(below)) == self._default if expensive and self._needed else self._best_so_far()
        ranks = np.empty(len(below), int)
        ranks[np.lexsort((below, ~alive))] = np.arange(len(below))
        for row in np.flatnonzero(alive & ~safe):
            done = int(np.isfinite(self.scores[row, self._columns(last=False)]).sum())
            few = " with fewer samples" if self.scores.shape[1] > self.n_splits else ""
            after = f"after {done} of {self.n_splits} splits{few}"
            if below[row] > SIGNIFICANT * errors[row]:
                self.dropped[row] = f"{after}: significantly below the best, by about {below[row]:.2g}"
            elif missing[row] > (1.0 if expensive else SIGNIFICANT) * errors_of_gain[row]:
                self.dropped[row] = f"{after}: below what would be selected, by about {missing[row]:.2g}"
            elif ranks[row] >= size:
                self.dropped[row] = f"{after}: not among the best {size}, about {below[row]:.2g} below the first"

    def _best_so_far(self) -> Array:
        """Return a mask of the default and of candidates with the strictly best score on each of their splits."""
        known = np.isfinite(self.scores)
        filled = np.where(known, self.scores, -np.inf)
        top = filled == filled.max(axis=0)
        alone = top & (top.sum(axis=0) == 1) & (known.sum(axis=0) > 1)
        best = known.any(axis=1) & np.all(alone | ~known, axis=1)
        best[self._default] = True
        return best

    def add(self, levels: Sequence[Sequence[Hashable]]) -> None:
        """Let further candidates take part after the race; they are fitted on all splits."""
        self._levels += levels
        self._prior = similarity(self._levels)
        new = np.full((len(levels), self.scores.shape[1]), np.nan)
        self.scores = np.concatenate([self.scores, new])
        self._wanted = np.concatenate(
            [self._wanted, np.broadcast_to(np.arange(new.shape[1]) < self.n_splits, new.shape)]
        )
        self.dropped += [""] * len(levels)

    def stop(self, reason: str, first: int | None = None) -> None:
        """End the race: drop all candidates that have not been fitted on all splits, but not the ``first``."""
        self._rungs, self._later = [], None
        if first is not None:
            self.dropped[first] = ""
        for row in np.flatnonzero(self.alive & np.isnan(self.scores[:, : self.n_splits]).any(axis=1)):
            self.dropped[row] = reason
        self._wanted &= np.isfinite(self.scores)


@dataclass(frozen=True)
class Smoothed:
    """Estimates of the candidates' mean scores over all splits, and their covariance."""

    mean: FloatArray
    covariance: FloatArray

    def below(self, leader: int) -> tuple[FloatArray, FloatArray]:
        """Return how far the candidates are below the leader, and the standard errors of these differences."""
        variances = np.diag(self.covariance)
        squares = variances + variances[leader] - 2 * self.covariance[:, leader]
        return self.mean[leader] - self.mean, np.sqrt(np.maximum(squares, 0.0))


def similarity(levels: Sequence[Sequence[Hashable]]) -> FloatArray:
    """Return the prior covariance of the candidates' scores, up to a factor, with ones on the diagonal.

    Scores are modelled as a sum of effects of the axes of the grid, of their interactions in pairs, and of a part of
    each candidate's own, all random and independent.
    """
    columns = [np.unique([repr(one) for one in column], return_inverse=True)[1] for column in zip(*levels, strict=True)]
    same = [column[:, None] == column[None, :] for column in columns if column.max() > 0]
    total = _OWN * np.eye(len(levels))
    for one in same:
        total += one
    for one, other in combinations(same, 2):
        total += 2 * _PAIRS / (len(same) - 1) * (one & other)
    return np.asarray(total / total[0, 0], np.float64)


def smooth(prior: FloatArray, scores: Array, n_splits: int | None = None) -> Smoothed:
    """Return the best linear unbiased prediction of all candidates' scores on the first splits from those known so far.

    The prior is that of `similarity`. ``scores`` has one column per split, NaN where a candidate has none. Splits may
    differ in difficulty: their effects are fixed. The variance of a single score is estimated by (restricted) maximum
    likelihood.
    """
    known = np.isfinite(scores)
    first = int(known[:, :n_splits].any(axis=0).sum())
    known, scores = known[:, known.any(axis=0)], scores[:, known.any(axis=0)]
    level = float(scores[known].mean())  # subtracted, since differences may be small compared with it
    centred: FloatArray = np.where(known, scores - level, 0.0).astype(np.float64)
    precision: FloatArray = np.linalg.inv(prior).astype(np.float64)
    best = max(
        (_Fit.of(precision, known.astype(np.float64), centred, noise) for noise in _NOISE), key=attrgetter("likelihood")
    )
    n_effects = known.shape[1]
    inverse = dpotrs(best.factor, np.eye(n_effects + len(prior))[:, n_effects:], lower=True)[0][n_effects:]
    mean = level + best.effects[n_effects:] + float(best.effects[:first].mean())
    return Smoothed(mean, best.variance * inverse)


@dataclass(frozen=True)
class _Fit:
    """Effects of splits and candidates for one ratio of the variances."""

    likelihood: float
    factor: FloatArray
    effects: FloatArray
    variance: float

    @classmethod
    def of(cls, precision: FloatArray, known: FloatArray, scores: FloatArray, noise: float) -> _Fit:
        """Solve Henderson's equations for the scores that are known; the others are zero."""
        n_free = max(float(known.sum()) - known.shape[1], 1.0)
        own = np.diag(known.sum(axis=1)) + noise * precision
        # SciPy's functions around these take five times as long, for checks of numbers that are known to be finite
        factor, _ = dpotrf(np.block([[np.diag(known.sum(axis=0)), known.T], [known, own]]), lower=True, clean=False)
        right = np.concatenate([scores.sum(axis=0), scores.sum(axis=1)])
        effects = dpotrs(factor, right, lower=True)[0]
        rest = float(np.sum(scores**2)) - float(right @ effects)
        variance = max(rest / n_free, np.finfo(np.float64).tiny)
        logs = 2 * float(np.sum(np.log(np.diag(factor)))) - len(precision) * np.log(noise)
        return cls(-0.5 * (n_free * np.log(variance) + logs), factor, effects, variance)
