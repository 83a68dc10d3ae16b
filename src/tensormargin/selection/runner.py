"""Runs the rungs of a search: fits in memory, on a device or on Dask arrays, then their scores.

There is one loop over batches of fits, `FitLoop.run`. Three functions say what a batch is and how it is fitted: a
candidate on a prepared split in memory (`run_job`, in threads or on a cluster), all candidates of one form on a device
(`_on_device`), and as many as the memory allows on a Dask array (`_on_dask`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from math import ceil, prod
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from sklearn.base import clone

from ..data import Metadata, Units
from ..estimators import (
    TensorMarginClassifier,
    ToFit,
    at_most,
    fit_batch,
    fit_many,
    one_blas_thread,
    without_convergence_warnings,
)
from ..fitting import in_rounds, sample_array
from ..runtime import Array, Costs, Deadline
from .grid import Candidate
from .race import Race, Unit
from .scoring import Assess, Result, WithProbabilities
from .splits import Split
from .training import HeldOut, Place, PreparedSplit, SplitCache, Training

Tell = Callable[[int, int, float, float], None]
"""Receives the number of fits made so far, and of those planned, and their work, in fits of the first rung."""
Fitted = tuple[TensorMarginClassifier, HeldOut, Array | None]
"""A fitted classifier, the test set of its split, and its binary scores there if they are known already."""

_LATER = 0.15
"""Work of a planned fit of a later rung, where one of the first rung is 1: half of them are never made, and most of the
others take less time, on splits that are prepared already, with the weights that win (benchmarks/forecasts.py)."""
_LARGEST_JOB = 8  # fits; progress is reported after each job
_REFIT = 1.5  # seconds of a fit to all samples, per second of one to a training set
_UNKNOWN = 4.0  # the same for the first fit after another preparation, per second of the longest fit so far


class Task(NamedTuple):
    """A candidate, by its number, to fit on a split."""

    number: int
    split: int
    candidate: Candidate

    @property
    def place(self) -> Place:
        """The split and the preparation."""
        return self.split, self.candidate.preparation

    @property
    def form(self) -> Hashable:
        """What fits that take about the same time have in common."""
        one = self.candidate
        return one.preparation, repr(one.decomposition), one.multi_class


@dataclass(frozen=True)
class FitLoop:
    """The loop over the fits of a rung.

    Candidates other than ``always`` are fitted only if they, and a fit to all samples after them, are expected to end
    before the ``deadline``.
    """

    template: TensorMarginClassifier
    assess: Assess
    deadline: Deadline
    always: int
    cache: SplitCache = field(default_factory=SplitCache)
    costs: Costs = field(default_factory=Costs)

    def run(
        self, batches: Iterable[Sequence[Task]], fit: Callable[[Sequence[Task]], Sequence[Fitted]]
    ) -> Iterator[list[tuple[Unit, Result]]]:
        """Fit the tasks of each batch that are due, and yield their results."""
        for batch in batches:
            tasks = [task for task in batch if self.due(task)]
            if not tasks:
                continue
            began, at = perf_counter(), self.deadline.now()
            fitted = fit(tasks)
            seconds = (perf_counter() - began) / len(tasks)
            results = [
                ((task.number, task.split), self.assess(model, held_out, seconds, scores))
                for task, (model, held_out, scores) in zip(tasks, fitted, strict=True)
            ]
            for task in tasks:
                for kind in (task.form, ("fit", task.candidate.preparation), "fit"):
                    self.costs.add(kind, (self.deadline.now() - at) / len(tasks))
            yield results

    def due(self, task: Task) -> bool:
        """Return whether a candidate is still to be fitted: as long as a similar one took, or longer than any other."""
        if task.number == self.always or not self.deadline.limited:
            return True
        which = task.candidate.preparation
        seconds = self.costs.of(task.form, ("fit", which)) or _UNKNOWN * self.costs.of("fit")
        return self.deadline.allows((1 + _REFIT) * (self.costs.of(("prepare", which)) + seconds))

    def prepared(self, training: Training, split: Split, place: Place) -> PreparedSplit:
        """Return a split after a preparation, from the cache or newly prepared."""

        def prepare() -> PreparedSplit:
            began = self.deadline.now()
            made = PreparedSplit.of(training, split, place[1], self.template)
            self.costs.add(("prepare", place[1]), self.deadline.now() - began)
            return made

        return self.cache.get(place, prepare)

    def model(self, task: Task, shape: Any) -> TensorMarginClassifier:
        """Return the unfitted classifier of a candidate, for samples of this shape."""
        model: TensorMarginClassifier = clone(self.template).set_params(**task.candidate.within(shape).parameters)
        return model


@dataclass(frozen=True)
class Job:
    """Candidates to fit in memory on one split after one preparation."""

    loop: FitLoop
    preparations: Sequence[Any]
    tasks: Sequence[Task]


def run_job(
    X: Array, y: Array, weights: Array | None, metadata: Metadata, train: Array, test: Array, job: Job
) -> list[tuple[Unit, Result]]:
    """Fit the candidates of a job, one after the other, and return the results of those that were due.

    The arrays are separate arguments, so that joblib recognises them: the samples are on the cluster, not in each job.
    """
    loop, tasks = job.loop, job.tasks
    if not any(map(loop.due, tasks)):
        return []
    training = Training(sample_array(X), y, weights, job.preparations, metadata)
    split = loop.prepared(training, (train, test), tasks[0].place)

    def fit(alone: Sequence[Task]) -> list[Fitted]:
        model, scores = split.fit(alone[0].candidate, loop.assess.by_scores)
        return [(model, split, scores)]

    return [result for results in loop.run(([task] for task in tasks), fit) for result in results]


def _jobs(loop: FitLoop, preparations: Sequence[Any], tasks: Sequence[Task], n_at_once: int) -> Iterator[Job]:
    """Yield jobs of a few candidates on one split after one preparation."""
    most = min(_LARGEST_JOB, ceil(len(tasks) / (10 * n_at_once)))
    for _, same in groupby(tasks, key=lambda task: task.place):
        own = list(same)
        for start in range(0, len(own), most):
            yield Job(loop, preparations, own[start : start + most])


def _on_device(
    loop: FitLoop, training: Training, splits: Sequence[Split], tasks: Sequence[Task]
) -> Iterator[list[tuple[Unit, Result]]]:
    """Fit candidates of one decomposition and rank together.

    They are fitted on all splits if there is no preparation, otherwise on each split by itself.
    """
    plain = [task for task in tasks if training.preparations[task.candidate.preparation] is None]
    if plain:
        parts = {split: HeldOut(training.part(splits[split][1]), None) for split in {task.split for task in plain}}
        samples = training.X, training.y, training.weights
        fit = partial(_fit_on_device, loop, samples, {split: splits[split][0] for split in parts}, parts)
        yield from loop.run(_by_format(plain, training.X), fit)
    others = (task for task in tasks if training.preparations[task.candidate.preparation] is not None)
    for place, same in groupby(others, key=lambda task: task.place):
        (X, y, weights), tested, preparation = training.prepared(splits[place[0]], place[1])
        samples, parts = (X, y, weights.get("sample_weight")), {place[0]: HeldOut(tested, preparation)}
        yield from loop.run(_by_format(same, X), partial(_fit_on_device, loop, samples, {}, parts))


def _by_format(tasks: Iterable[Task], X: Any) -> Iterator[list[Task]]:
    """Yield the candidates of each decomposition and rank that samples allow."""
    shape = _sample_shape(X)

    def key(task: Task) -> str:
        one = task.candidate.within(shape)
        return repr((one.decomposition, one.rank))

    return (list(same) for _, same in groupby(sorted(tasks, key=key), key=key))


def _sample_shape(X: Any) -> tuple[int, ...]:
    return tuple(int(size) for size in X.shape[1:])


def _fit_on_device(
    loop: FitLoop, samples: Any, rows: dict[int, Array], parts: dict[int, HeldOut], tasks: Sequence[Task]
) -> list[Fitted]:
    """Fit candidates to the training rows of their splits (all samples if none are given)."""
    X, y, weights = samples
    models = [loop.model(task, _sample_shape(X)) for task in tasks]
    with without_convergence_warnings():
        fit_many(models, X, y, [rows.get(task.split) for task in tasks], weights)
    return [(model, parts[task.split], None) for task, model in zip(tasks, models, strict=True)]


def _on_dask(
    loop: FitLoop, training: Training, splits: Sequence[Split], tasks: Sequence[Task]
) -> Iterator[list[tuple[Unit, Result]]]:
    """Fit as many candidates together as the memory allows, on all splits after all preparations.

    A preparation is fitted once per split, and the chunks that it transforms are those that all others read.
    """
    parts: dict[Place, HeldOut] = {}
    for place in dict.fromkeys(task.place for task in tasks):
        split = splits[place[0]]
        plain = training.preparations[place[1]] is None
        parts[place] = HeldOut(training.part(split[1]), None) if plain else loop.prepared(training, split, place)
    n_classes = len(np.unique(training.y))
    n_problems = {"ovr": n_classes, "ovo": n_classes * (n_classes - 1) // 2}
    sizes = [prod(parts[task.place].tested[0].shape[1:]) * n_problems[task.candidate.multi_class] for task in tasks]

    def fit(together: Sequence[Task]) -> list[Fitted]:
        to_fit = []
        for task in together:
            part = parts[task.place]
            model = loop.model(task, _sample_shape(part.tested[0]))
            if isinstance(part, PreparedSplit):
                to_fit.append(ToFit(model, part.fitted.array.X, part.fitted.labels, None, part.fitted.weights))
            else:
                to_fit.append(ToFit(model, training.X, training.y, splits[task.split][0], training.weights))
        with without_convergence_warnings():
            models, own = fit_batch(to_fit), [parts[task.place] for task in together]
        return list(zip(models, own, _scores_on_dask(models, own), strict=True))

    return loop.run(in_rounds(tasks, [16 * size for size in sizes]), fit)


def _scores_on_dask(models: Sequence[TensorMarginClassifier], parts: Sequence[HeldOut]) -> list[Array]:
    """Return the binary scores of each model on its test set, all of them in one pass over the samples."""
    from ..fitting import LazySamples, gathered_together

    sharing: dict[int, list[int]] = {}
    for number, part in enumerate(parts):
        sharing.setdefault(id(part), []).append(number)
    together = [
        LazySamples.of(parts[own[0]].tested[0]).lazy_scores(np.concatenate([models[k].coef_ for k in own]))
        for own in sharing.values()
    ]
    scores: dict[int, Array] = {}
    for own, found in zip(sharing.values(), gathered_together(together), strict=True):
        columns = np.cumsum([len(models[k].coef_) for k in own])[:-1]
        each = np.split(found, columns, axis=1)
        scores.update((k, one + models[k].intercept_) for k, one in zip(own, each, strict=True))
    return [scores[k] for k in range(len(models))]


@dataclass
class SearchRunner:
    """The fits of a search and their results.

    The candidate that the loop ``always`` fits is fitted before all others; ``at_least`` is when it had been, by the
    clock of the deadline. ``done`` has the result of each unit; those of an interrupted run are ``kept``, to which this
    one adds its own.
    """

    training: Training
    tried: list[Candidate]
    splits: Sequence[Split]
    loop: FitLoop
    n_jobs: int | None
    done: dict[Unit, Result] = field(default_factory=dict)
    kept: Units = field(default_factory=lambda: Units(None))
    at_least: float = 0.0
    _first: dict[Unit, Result] = field(default_factory=dict)
    _work: float = 0.0  # of finished rungs

    def run(self, race: Race, tell: Tell) -> bool:
        """Make the fits of a race, rung by rung; return whether the deadline allowed all of them."""
        with one_blas_thread:  # several fits run at the same time
            return self._run(race, tell)

    def _run(self, race: Race, tell: Tell) -> bool:
        with_probabilities = WithProbabilities(self.training, self.splits, self.loop.assess)
        deadline, first = self.loop.deadline, self.loop.always
        at_least = [(first, split) for split in range(race.n_splits)]
        if deadline.limited and not self._first:
            list(self._make(at_least, self._first))
        self.at_least = deadline.now()
        while units := race.units:
            before, planned = len(self.done), race.n_planned
            weight = _LATER if self._work else 1.0
            work = self._work + weight * len(units) + _LATER * (planned - len(units))
            for n_done in self._make(units, self.done):
                tell(n_done, before + planned, self._work + weight * (n_done - before), work)
            self._work += weight * len(units)
            left = planned - len(units)
            self._score(race, units, with_probabilities)
            spent = any(unit not in self.done for unit in units)
            if spent:
                self.done.update(self._first)
                self._score(race, at_least, with_probabilities)
                race.stop(f"{deadline} was spent", first)
            race.advance()
            for unit, result in self.done.items():
                if race.dropped[unit[0]]:
                    self.done[unit] = result.forgotten()
            if spent:
                return False
            if left and not race.units:  # fits that were planned are not needed
                tell(len(self.done), len(self.done), self._work, self._work)
        return True

    def _make(self, units: Sequence[Unit], done: dict[Unit, Result]) -> Iterator[int]:
        """Add the results of some units, kept or as far as the deadline allows, and yield how many there are."""
        done.update({unit: Result(**self.kept[_key(unit)]) for unit in units if _key(unit) in self.kept})
        done.update({unit: self._first[unit] for unit in units if unit in self._first})
        for results in self._results([unit for unit in units if unit not in done], self.loop):
            done.update(results)
            for unit, result in results:
                if not result.waits:  # otherwise it holds a classifier
                    self.kept.add(_key(unit), dict(vars(result)))
            yield len(done)

    def left_out_scores(self, number: int, n_splits: int) -> list[Array]:
        """Return the binary scores of the test rows of the first splits; fit again only if they were not kept."""
        units = [(number, split) for split in range(n_splits)]
        if any(self.done[unit].left_out is None for unit in units):
            assess = replace(self.loop.assess, keep_scores=True)
            for results in self._results(units, replace(self.loop, assess=assess, deadline=Deadline())):
                self.done.update(results)
        return [self.done[unit].scores for unit in units]

    def _results(self, units: Sequence[Unit], loop: FitLoop) -> Iterator[list[tuple[Unit, Result]]]:
        """Return the results of fits in any order, from threads, a cluster, or the device of the samples."""
        training = self.training
        tasks = sorted((Task(*unit, self.tried[unit[0]]) for unit in units), key=lambda task: task.place)
        if training.array.fits_in_batches:
            batched = _on_dask if training.array.is_lazy else _on_device
            return batched(loop, training, self.splits, tasks)
        n_jobs = at_most(self.n_jobs) if training.array.in_memory else 1  # one fit keeps all workers of a cluster busy
        jobs = _jobs(loop, training.preparations, tasks, effective_n_jobs(n_jobs))
        calls = (delayed(run_job)(*training.arrays, *self.splits[job.tasks[0].split], job) for job in jobs)
        return iter(Parallel(n_jobs=n_jobs, prefer="threads", return_as="generator_unordered")(calls))

    def _score(self, race: Race, units: Sequence[Unit], with_probabilities: WithProbabilities) -> None:
        """Enter the scores of a rung; those that need probabilities depend on all splits of a candidate."""
        n_splits = len(self.splits)
        for row in dict.fromkeys(row for row, _ in units):
            own = {split: self.done[row, split] for split in range(n_splits) if (row, split) in self.done}
            own = with_probabilities.scored(own, len(own) == n_splits)
            for split, result in own.items():
                self.done[row, split] = result
                race.scores[row, split] = result.score


def _key(unit: Unit) -> str:
    return f"{unit[0]}/{unit[1]}"
