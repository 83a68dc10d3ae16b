"""The runner: determines which rows of a table are missing and computes them.

Jobs score candidate lambda and mu on validation data, or fit and test pairs of classes. Each runs on one thread, so
that its results do not depend on the number of parallel jobs.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from sklearn.utils import Bunch
from threadpoolctl import threadpool_limits

from ..estimators import METHODS, SCALE_LAM, SCALE_MU, TensorMarginClassifier, check_methods, make_method
from ..evaluation import timed_fit
from ..io import BadFileError, digest, replacing
from ..runtime import Array, goes_to_cluster, worker_options
from .protocols import Evaluation, Grid, Pair, Where, inner_splits, load_once, seed_of, stratified_fold
from .rows import CellKey, Row, RowStore, TuningRow, versions_text

# Rough fit time relative to a flat SVM on Table 2: used to estimate the time left and to start the longest jobs first.
_COST = {"SVM": 1.0, "LMDM": 1.0, "STM": 1.2, "STuM": 6.0, "SPMD-LRT": 0.4, "HSPMD-LRT": 0.8, "TuSPMD-LRT": 2.0}
_Cells = list[tuple[Evaluation, CellKey]]
_JOB_SHARE = 9  # jobs per cell: a killed run loses only the jobs in progress


class Strengths(NamedTuple):
    """Values of lambda and of mu1 = mu2."""

    lam: float
    mu: float


@dataclass(frozen=True)
class EvaluationJob:
    """Pairs of one cell: to fit with the chosen strengths or, if ``chosen`` is None, to score all candidates."""

    evaluation: Evaluation
    cell: CellKey
    pairs: tuple[Pair, ...]
    chosen: Strengths | None = None


def has_margin_terms(method: str) -> bool:
    """Return whether a method has the margin terms of mu1 and mu2."""
    return METHODS[method].get("mu1", 1.0) > 0


def run_job(job: EvaluationJob, sent: Bunch | None = None) -> list[Any]:
    """Return the job's rows: `TuningRow` without chosen strengths, `Row` with them.

    The data set is loaded unless it is sent with the job.
    """
    with threadpool_limits(1):
        bunch = load_once(job.evaluation.load) if sent is None else sent
        cell = job.cell
        train, test = job.evaluation.split(bunch, Where(cell.size, cell.repeat, cell.fold, cell.seed))
        if job.chosen is None:
            return [row for pair in job.pairs for row in _tune(job, bunch, train, pair)]
        return [_score(job, bunch, train, test, pair, job.chosen) for pair in job.pairs]


def _classifier(job: EvaluationJob, warm_start: bool = False) -> TensorMarginClassifier:
    method, rank = job.cell.method, job.evaluation.tucker_rank
    more = {"rank": rank} if rank is not None and _is_tucker(job) else {}
    return make_method(method, random_state=seed_of(job.cell.seed, "start"), warm_start=warm_start, **more)


def _strengths(job: EvaluationJob, lam: float, mu: float) -> dict[str, Any]:
    if not job.evaluation.grid.relative:
        return {"lam": lam, "mu1": mu, "mu2": mu, "scale_free": False}
    return {"lam": lam / SCALE_LAM, "mu1": mu / SCALE_MU, "mu2": mu / SCALE_MU}


def _is_tucker(job: EvaluationJob) -> bool:
    return METHODS[job.cell.method]["decomposition"] == "tucker"


def _of_pair(job: EvaluationJob, bunch: Bunch, rows: Array, pair: Pair) -> tuple[Array, Array, Array]:
    """Return those of the rows that are of a pair, their samples as the method takes them, and their labels.

    Samples are float32, divided by ``divisor`` and reshaped for Tucker weights if requested.
    """
    rows = rows[np.isin(bunch.target[rows], pair)]
    samples = bunch.data[rows].astype(np.float32)
    if job.evaluation.divisor != 1.0:
        samples /= np.float32(job.evaluation.divisor)
    shape = job.evaluation.tucker_shape
    samples = samples.reshape(-1, *shape) if shape is not None and _is_tucker(job) else samples
    return rows, samples, bunch.target[rows]


def _tune(job: EvaluationJob, bunch: Bunch, train: Array, pair: Pair) -> Iterator[TuningRow]:
    """Score every candidate of the grid on validation sets taken from the training data.

    Along lambda, each fit is a warm start from the previous one.
    """
    rows, samples, labels = _of_pair(job, bunch, train, pair)
    groups, positions = (None if bunch.get(name) is None else bunch[name][rows] for name in ("groups", "positions"))
    seed = seed_of(job.cell.seed, "validation", job.cell.size, job.cell.repeat, job.cell.fold, pair)
    splits = inner_splits(job.evaluation.validation, labels, groups, positions, seed)
    grid = job.evaluation.grid
    for mu in grid.mus if has_margin_terms(job.cell.method) else (0.0,):
        correct, seconds = np.zeros(len(grid.lams), int), np.zeros(len(grid.lams))
        for inner, validation in splits:
            classifier = _classifier(job, warm_start=True)
            inner_samples, validation_samples = samples[inner], samples[validation]
            for position, lam in enumerate(grid.lams):
                classifier.set_params(**_strengths(job, lam, mu))
                seconds[position] += timed_fit(classifier, inner_samples, labels[inner]).seconds
                correct[position] += np.sum(classifier.predict(validation_samples) == labels[validation])
        tested = sum(len(validation) for _, validation in splits)
        for lam, right, spent in zip(grid.lams, correct, seconds, strict=True):
            counts = {"n_correct": int(right), "n_tested": tested, "seconds": float(spent)}
            yield TuningRow.of(job.cell, pair, lam=lam, mu=mu, **counts)


def _score(job: EvaluationJob, bunch: Bunch, train: Array, test: Array, pair: Pair, chosen: Strengths) -> Row:
    """Fit on the pair's whole training set and return the result on its test set."""
    train, samples, labels = _of_pair(job, bunch, train, pair)
    fit = timed_fit(_classifier(job).set_params(**_strengths(job, *chosen)), samples, labels)
    test, samples, labels = _of_pair(job, bunch, test, pair)
    began = perf_counter()
    predicted = fit.classifier.predict(samples)
    predict_seconds = perf_counter() - began
    n_correct = int(np.sum(predicted == labels))
    return Row.of(
        job.cell,
        pair,
        n_train=len(train),
        n_test=len(test),
        n_correct=n_correct,
        accuracy=n_correct / len(test),
        lam=chosen.lam,
        mu=chosen.mu,
        relative=job.evaluation.grid.relative,
        fit_seconds=fit.seconds,
        predict_seconds=predict_seconds,
        sweeps=int(fit.classifier.n_iter_),
        gap=float(np.max(fit.classifier.history_["gap"][-1])),
        objective=float(fit.classifier.objective_[0]),
        converged=fit.converged,
        n_parameters=int(fit.classifier.n_parameters_),
        versions=versions_text(),
    )


@dataclass(frozen=True)
class RunSettings:
    """Which parts of a table to run.

    Attributes
    ----------
    table : str
        Key of `PROTOCOLS`.
    methods : tuple of str
    seed : int
        Determines all splits, subsets and initial weights.
    tune_mu : bool
        Choose mu1 = mu2 as well, for the methods with margin terms, in separate rows (``tuned`` is "lam+mu").
    sizes : tuple of int, optional
        Training sizes; by default all sizes of the protocol.
    repeats : int, optional
        Number of repeats; by default that of the protocol.

    Examples
    --------
    >>> from tensormargin.paper import RunSettings
    >>> RunSettings("table2", methods=("SVM", "STM"), repeats=1).tune_mu
    False
    """

    table: str
    methods: tuple[str, ...] = tuple(METHODS)
    seed: int = 0
    tune_mu: bool = False
    sizes: tuple[int, ...] | None = None
    repeats: int | None = None


@dataclass(frozen=True)
class RunState:
    """Progress of a run: rows done and in total, and the same in units of work, which give the time left.

    Examples
    --------
    >>> from tensormargin.paper import RunState
    >>> RunState(rows=10, all_rows=40, work=5.0, all_work=20.0, doing="MNIST").all_rows
    40
    """

    rows: int
    all_rows: int
    work: float
    all_work: float
    doing: str


class Run:
    """The rows of a table that a folder holds, and the jobs that compute the missing ones.

    Parameters
    ----------
    evaluations : sequence of Evaluation
    settings : RunSettings
    folder : str or Path
        Created if missing. Holds rows/, tuning/ and settings.json; a folder with rows of another seed or another grid
        is refused.

    Examples
    --------
    >>> import tempfile
    >>> from tensormargin.datasets import load_digits_tensor
    >>> from tensormargin.paper import Evaluation, Grid, Run, RunSettings
    >>> from tensormargin.paper.protocols import stratified_fold
    >>> digits = Evaluation(
    ...     "digits", load_digits_tensor, stratified_fold, (1437,), 1, folds=2, grid=Grid((10.0,), relative=True),
    ...     tuning_pairs=1, pairs=1, interval_over="splits"
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = Run([digits], RunSettings("open", methods=("SVM", "STM")), f"{folder}/open")
    ...     states = list(run.go(n_jobs=1))
    >>> states[-1].rows == states[-1].all_rows
    True
    """

    def __init__(self, evaluations: Sequence[Evaluation], settings: RunSettings, folder: str | Path) -> None:
        check_methods(settings.methods)
        self.protocol = list(evaluations)
        self.evaluations = _selected(evaluations, settings)
        self.settings = settings
        self.folder = Path(folder)
        self.rows = RowStore(self.folder / "rows", Row)
        self.tuning = RowStore(self.folder / "tuning", TuningRow)
        self._pairs = {one.data: one.class_pairs(load_once(one.load).target) for one in self.evaluations}
        _check_same_run(self.folder / "settings.json", self.evaluations, settings)

    def wanted_keys(self) -> set[tuple[Any, ...]]:
        """Return the keys of all rows that the settings ask for."""
        return {(cell, _text(pair)) for evaluation, cell in self._cells() for pair in self._pairs[evaluation.data]}

    def _work(self) -> dict[tuple[Any, ...], float]:
        """Return the work for all that the settings ask for: rows by their keys, and choices behind a True."""
        work: dict[tuple[Any, ...], float] = {key: cost(key[0], 1) for key in self.wanted_keys()}
        for evaluation, cell in self._cells():
            tried = cost(cell, len(evaluation.grid.lams) * len(evaluation.grid.mus))
            work |= {(True, cell, _text(pair)): tried for pair in self._tuning_pairs(evaluation)}
        return work

    def wanted_rows(self) -> list[Row]:
        """Return the stored rows that the settings ask for."""
        wanted = self.wanted_keys()
        return [row for row in self.rows.read() if row.key in wanted]

    def complete(self, rows: Iterable[Row]) -> list[Row]:
        """Return the rows of cells with all pairs of classes, whether or not the settings ask for them."""
        by_cell = defaultdict(list)
        for row in rows:
            if row.seed == self.settings.seed:
                by_cell[row.cell].append(row)
        n_pairs = {
            one.data: len(one.class_pairs(load_once(one.load).target))
            for one in self.protocol
            if any(cell.data == one.data for cell in by_cell)
        }
        return [row for cell, own in by_cell.items() if len(own) == n_pairs.get(cell.data) for row in own]

    def data_sets(self) -> list[Bunch]:
        """Return the data sets of the evaluations, to be sent to the workers of a cluster."""
        return [load_once(one.load) for one in self.evaluations]

    def go(self, n_jobs: int | None = None) -> Iterator[RunState]:
        """Compute the missing rows, one repeat after the other, and yield the progress; finished rows are stored."""
        tuned, done, work = self.tuning.read(), {row.key for row in self.rows.read()}, self._work()
        wanted, all_work = self.wanted_keys(), sum(work.values())
        finished = done | {(True, row.cell, row.pair) for row in tuned}

        def state(doing: str) -> RunState:
            spent = sum(work[key] for key in finished & work.keys())
            return RunState(len(wanted & finished), len(wanted), spent, all_work, doing)

        yield state("starting")
        by_repeat: dict[int, _Cells] = defaultdict(list)
        for evaluation, cell in self._cells():
            by_repeat[cell.repeat].append((evaluation, cell))
        options = {"batch_size": 1, "return_as": "generator_unordered", **worker_options(n_jobs)}
        with Parallel(n_jobs=n_jobs, **options) as parallel:
            for _, cells in sorted(by_repeat.items()):
                for rows in parallel(_with_data(self._tuning_jobs(cells, tuned))):
                    self.tuning.add(rows)
                    tuned.extend(rows)
                    finished |= {(True, row.cell, row.pair) for row in rows}
                    yield state(f"choosing lambda, {_format_cell(rows[0])}")
                for rows in parallel(_with_data(self._fitting_jobs(cells, tuned, finished))):
                    self.rows.add(rows)
                    finished |= {row.key for row in rows}
                    yield state(_format_cell(rows[0]))

    def _cells(self) -> Iterator[tuple[Evaluation, CellKey]]:
        """Yield every cell with its evaluation; with ``tune_mu``, methods with margin terms have two cells."""
        for evaluation in self.evaluations:
            for repeat in range(evaluation.repeats):
                parts = product(evaluation.sizes_of(repeat), range(evaluation.folds), self.settings.methods)
                for size, fold, method in parts:
                    key = CellKey(evaluation.data, size, repeat, fold, method, "lam", self.settings.seed)
                    yield evaluation, key
                    if self.settings.tune_mu and has_margin_terms(method):
                        yield evaluation.with_more_mus(), replace(key, tuned="lam+mu")

    def _tuning_jobs(self, cells: _Cells, tuned: Iterable[TuningRow]) -> list[EvaluationJob]:
        done = {(row.cell, row.pair) for row in tuned}
        return [
            EvaluationJob(evaluation, cell, part)
            for evaluation, cell in cells
            for part in _parts(cell, self._tuning_pairs(evaluation), done)
        ]

    def _fitting_jobs(self, cells: _Cells, tuned: Iterable[TuningRow], done: set[Any]) -> list[EvaluationJob]:
        by_cell = defaultdict(list)
        for row in tuned:
            by_cell[row.cell].append(row)
        jobs = []
        for evaluation, cell in cells:
            parts = list(_parts(cell, self._pairs[evaluation.data], done))
            if parts:
                allowed = {_text(pair) for pair in self._tuning_pairs(evaluation)}
                # values of mu in both grids are tried only once, in the cell with the paper's mu
                tried = by_cell[cell] + (by_cell[replace(cell, tuned="lam")] if cell.tuned == "lam+mu" else [])
                chosen = choose_strengths([row for row in tried if row.pair in allowed])
                jobs += [EvaluationJob(evaluation, cell, part, chosen) for part in parts]
        return jobs

    def _tuning_pairs(self, evaluation: Evaluation) -> list[Pair]:
        return evaluation.tuning(self._pairs[evaluation.data])


def _with_data(jobs: Iterable[EvaluationJob]) -> list[Any]:
    """Return joblib jobs, the longest first; the workers of a cluster are sent the data, local processes load them."""
    sent, ordered = goes_to_cluster(), sorted(jobs, key=lambda job: -cost(job.cell, len(job.pairs)))
    return [delayed(run_job)(job, load_once(job.evaluation.load) if sent else None) for job in ordered]


def choose_strengths(tuning: Sequence[TuningRow]) -> Strengths:
    """Return the values with the most correct predictions over all pairs; ties go to the smallest lambda, then mu."""
    right: dict[tuple[float, float], int] = defaultdict(int)
    for row in tuning:
        right[row.lam, row.mu] += row.n_correct
    lam, mu = min(right, key=lambda strengths: (-right[strengths], *strengths))
    return Strengths(lam, mu)


def cost(cell: CellKey, n_pairs: int) -> float:
    """Return the work of ``n_pairs`` pairs of a cell, in arbitrary units."""
    return cell.size * _COST[cell.method] * n_pairs


def _parts(cell: CellKey, pairs: Sequence[Pair], done: set[tuple[Any, ...]]) -> Iterator[tuple[Pair, ...]]:
    """Yield the missing pairs of a cell, divided into jobs of equal size."""
    missing = [pair for pair in pairs if (cell, _text(pair)) not in done]
    step = max(1, int(np.ceil(len(pairs) / _JOB_SHARE)))
    for start in range(0, len(missing), step):
        yield tuple(missing[start : start + step])


def _format_cell(cell: CellKey) -> str:
    return f"{cell.data} {cell.size}, {cell.method}, repeat {cell.repeat + 1}"


def _text(pair: Pair) -> tuple[str, str]:
    return str(pair[0]), str(pair[1])


def _selected(evaluations: Sequence[Evaluation], settings: RunSettings) -> list[Evaluation]:
    """Return the evaluations restricted to the sizes and repeats of the settings."""
    known = sorted({size for evaluation in evaluations for size in evaluation.sizes})
    unknown = sorted(set(settings.sizes or ()) - set(known))
    if unknown:
        raise ValueError(f"unknown size {', '.join(map(str, unknown))}; the sizes are {known}")
    chosen = []
    for one in evaluations:
        sizes = tuple(size for size in one.sizes if settings.sizes is None or size in settings.sizes)
        repeats = one.repeats if settings.repeats is None or not one.repeatable else settings.repeats
        chosen += [replace(one, sizes=sizes, repeats=repeats)] if sizes else []
    return chosen


def _check_same_run(path: Path, evaluations: Sequence[Evaluation], settings: RunSettings) -> None:
    """Write the settings that all rows of a folder share; raise if they differ from the stored ones."""
    now: dict[str, Any] = {"table": settings.table, "seed": settings.seed}
    now |= {evaluation.data: _fingerprint(evaluation) for evaluation in evaluations}
    try:
        before = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    except ValueError as error:
        raise BadFileError(f"{path}: damaged ({error}); remove the folder {path.parent} to start again") from error
    if not isinstance(before, dict):
        raise BadFileError(f"{path}: not the settings of a run; remove the folder {path.parent} to start again")
    differing = [key for key in now if key in before and before[key] != now[key]]
    if differing:
        raise ValueError(
            f"{path.parent} holds rows of another run, with another {' and another '.join(differing)} (see "
            f"{path.name}). Give another folder, or remove it to start again"
        )
    if {**before, **now} != before:
        with replacing(path) as temporary:
            temporary.write_text(json.dumps({**before, **now}, indent=2) + "\n")


def _fingerprint(evaluation: Evaluation) -> dict[str, Any]:
    """Return what determines an evaluation's rows besides the key: the samples and the tuning settings."""
    bunch, grid = load_once(evaluation.load), evaluation.grid
    return {
        "samples": digest({"data": bunch.data, "target": bunch.target}),
        **{name: list(getattr(grid, name)) for name in ("lams", "mus", "more_mus")},
        "relative": grid.relative,
        "validation": evaluation.validation,
        "tuning_pairs": evaluation.tuning_pairs,
    }


def example_run(folder: str | Path) -> Run:
    """Return a small run on the digits, whose rows have been made, for examples."""
    from ..datasets import load_digits_tensor

    grid = Grid((10.0,), relative=True)
    more: dict[str, Any] = {"folds": 2, "grid": grid, "tuning_pairs": 1, "pairs": 1, "interval_over": "splits"}
    digits = Evaluation("digits", load_digits_tensor, stratified_fold, (1437,), 1, **more)
    run = Run([digits], RunSettings("open", methods=("SVM", "STM")), folder)
    list(run.go(n_jobs=1))
    return run
