"""Runs the rungs of a search: fits in threads, on a device or on a cluster, then their scores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from joblib import Parallel, delayed, effective_n_jobs

from ..data import Units
from ..estimators import TensorMarginClassifier, at_most, one_blas_thread
from ..runtime import Array, Costs, Deadline
from .batched_search import run_batched
from .grid import Candidate
from .race import Race, Unit
from .scoring import Assess, Result, WithProbabilities
from .search import Job, SplitCache, Training, jobs_of, run_job
from .splits import Split

Tell = Callable[[int, int], None]
"""Receives the number of fits made so far, and of those planned."""


@dataclass
class SearchRunner:
    """The fits of a search and their results.

    Attributes
    ----------
    training : Training
    template : TensorMarginClassifier
    tried : list of Candidate
    splits : sequence of Split
    first : int
        The candidate that is fitted whatever the deadline, before all others.
    assess : Assess
    n_jobs : int or None
    deadline : Deadline
    done : dict
        The result of each unit.
    at_least : float
        When the first candidate had been fitted, by the clock of the deadline.
    kept : Units
        Results of an interrupted run; those of this one are added.
    """

    training: Training
    template: TensorMarginClassifier
    tried: list[Candidate]
    splits: Sequence[Split]
    first: int
    assess: Assess
    n_jobs: int | None
    deadline: Deadline
    done: dict[Unit, Result] = field(default_factory=dict)
    kept: Units = field(default_factory=lambda: Units(None))
    _cache: SplitCache = field(default_factory=SplitCache)
    at_least: float = 0.0
    _first: dict[Unit, Result] = field(default_factory=dict)
    _costs: Costs = field(default_factory=Costs)

    def run(self, race: Race, tell: Tell) -> bool:
        """Make the fits of a race, rung by rung; return whether the deadline allowed all of them."""
        with one_blas_thread:  # several fits run at the same time
            return self._run(race, tell)

    def _run(self, race: Race, tell: Tell) -> bool:
        with_probabilities = WithProbabilities(self.training, self.splits, self.assess)
        at_least = [(self.first, split) for split in range(len(self.splits))]
        if self.deadline.limited and not self._first:
            self._make(at_least, self._first, lambda done: None)
        self.at_least = self.deadline.now()
        while units := race.units:
            planned = len(self.done) + race.n_planned
            self._make(units, self.done, _told(tell, planned))
            self._score(race, units, with_probabilities)
            spent = any(unit not in self.done for unit in units)
            if spent:
                self.done.update(self._first)
                self._score(race, at_least, with_probabilities)
                race.stop(f"{self.deadline} was spent", self.first)
            race.advance()
            for unit, result in self.done.items():
                if race.dropped[unit[0]]:
                    self.done[unit] = result.forgotten()
            if spent:
                return False
        return True

    def _make(self, units: Sequence[Unit], done: dict[Unit, Result], tell: Callable[[int], None]) -> None:
        """Add the results of some units, kept or as far as the deadline allows to make them."""
        done.update({unit: Result(**self.kept[_key(unit)]) for unit in units if _key(unit) in self.kept})
        done.update({unit: self._first[unit] for unit in units if unit in self._first})
        for results in self._results([unit for unit in units if unit not in done], self.deadline):
            done.update(results)
            self._keep(results)
            tell(len(done))

    def _keep(self, results: Sequence[tuple[Unit, Result]]) -> None:
        """Keep results for another run; those whose scores depend on the other splits hold a classifier."""
        for unit, result in results:
            if not result.waits:
                self.kept.add(_key(unit), dict(vars(result)))

    def left_out_scores(self, number: int, n_splits: int) -> list[Array]:
        """Return the binary scores of the test rows of the first splits; fit again only if they were not kept."""
        units = [(number, split) for split in range(n_splits)]
        if any(self.done[unit].left_out is None for unit in units):
            self.assess = self.assess.keeping_scores()
            for results in self._results(units, Deadline()):
                self.done.update(results)
        return [self.done[unit].scores for unit in units]

    def _results(self, units: Sequence[Unit], deadline: Deadline) -> Iterator[list[tuple[Unit, Result]]]:
        """Return the results of fits in any order, from threads, a cluster, or the device of the samples."""
        training = self.training
        n_jobs = at_most(self.n_jobs) if training.array.in_memory else 1  # one fit keeps all workers of a cluster busy

        def job(split: int, which: int, own: Sequence[tuple[int, Candidate]]) -> Job:
            common = (training.preparations, self.template, self.assess, deadline, self.first, self._cache)
            return Job(split, which, own, *common, self._costs)

        jobs = jobs_of(units, self.tried, effective_n_jobs(n_jobs), job)
        if training.array.fits_in_batches:
            yield from run_batched(training, list(jobs), self.splits)
            return
        calls = (delayed(run_job)(*training.arrays, *self.splits[job.split], job) for job in jobs)
        yield from Parallel(n_jobs=n_jobs, prefer="threads", return_as="generator_unordered")(calls)

    def _score(self, race: Race, units: Sequence[Unit], with_probabilities: WithProbabilities) -> None:
        """Enter the scores of a rung; those that need probabilities depend on all splits of a candidate."""
        n_splits = len(self.splits)
        for row in dict.fromkeys(row for row, _ in units):
            own = {split: self.done[row, split] for split in range(n_splits) if (row, split) in self.done}
            own = with_probabilities.scored(own, len(own) == n_splits)
            for split, result in own.items():
                self.done[row, split] = result
                race.scores[row, split] = result.score


def _told(tell: Tell, planned: int) -> Callable[[int], None]:
    return lambda done: tell(done, planned)


def _key(unit: Unit) -> str:
    return f"{unit[0]}/{unit[1]}"
