"""The runner: determines which rows of a table are missing and computes them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.utils import Bunch

from ..estimators import METHODS, check_methods
from ..io import BadFileError, digest, replacing
from ..runtime import goes_to_cluster, worker_options
from .evaluate import EvaluationJob, Strengths, has_margin_terms, run_job
from .protocols import Evaluation, Grid, Pair, load_once, stratified_fold
from .rows import CellKey, Row, RowStore, TuningRow

# Rough fit time relative to a flat SVM on Table 2: used to estimate the time left and to start the longest jobs first.
_COST = {"SVM": 1.0, "LMDM": 1.0, "STM": 1.2, "STuM": 6.0, "SPMD-LRT": 0.4, "HSPMD-LRT": 0.8, "TuSPMD-LRT": 2.0}
_JOB_SHARE = 9  # jobs per cell: a killed run loses only the jobs in progress


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
        for store in (self.rows, self.tuning):
            store.sweep()
        tuned, done = self.tuning.read(), {row.key for row in self.rows.read()}
        meter = _Meter(self, tuned, done)
        yield meter.now("starting")
        repeats = sorted({cell.repeat for _, cell in self._cells()})
        options = {"batch_size": 1, "return_as": "generator_unordered", **worker_options(n_jobs)}
        with Parallel(n_jobs=n_jobs, **options) as parallel:
            for repeat in repeats:
                for rows in parallel(_with_data(self._tuning_jobs(repeat, tuned))):
                    self.tuning.add(rows)
                    tuned.extend(rows)
                    yield meter.count(rows)
                for rows in parallel(_with_data(self._fitting_jobs(repeat, tuned, done))):
                    self.rows.add(rows)
                    done.update(row.key for row in rows)
                    yield meter.count(rows)

    def _cells(self) -> Iterator[tuple[Evaluation, CellKey]]:
        """Yield every cell with its evaluation; with ``tune_mu``, methods with margin terms have two cells."""
        for evaluation in self.evaluations:
            for repeat in range(evaluation.repeats):
                for size in evaluation.sizes_of(repeat):
                    for fold in range(evaluation.folds):
                        for method in self.settings.methods:
                            key = CellKey(evaluation.data, size, repeat, fold, method, "lam", self.settings.seed)
                            yield evaluation, key
                            if self.settings.tune_mu and has_margin_terms(method):
                                yield evaluation.with_more_mus(), replace(key, tuned="lam+mu")

    def _tuning_jobs(self, repeat: int, tuned: Iterable[TuningRow]) -> list[EvaluationJob]:
        done = {(row.cell, row.pair) for row in tuned}
        return _longest_first(
            EvaluationJob(evaluation, cell, part)
            for evaluation, cell in self._cells_of(repeat)
            for part in _parts(cell, self._tuning_pairs(evaluation), done)
        )

    def _fitting_jobs(self, repeat: int, tuned: Iterable[TuningRow], done: set[tuple[Any, ...]]) -> list[EvaluationJob]:
        by_cell = defaultdict(list)
        for row in tuned:
            by_cell[row.cell].append(row)
        jobs = []
        for evaluation, cell in self._cells_of(repeat):
            parts = list(_parts(cell, self._pairs[evaluation.data], done))
            if parts:
                allowed = {_text(pair) for pair in self._tuning_pairs(evaluation)}
                # values of mu in both grids are tried only once, in the cell with the paper's mu
                tried = by_cell[cell] + (by_cell[replace(cell, tuned="lam")] if cell.tuned == "lam+mu" else [])
                chosen = choose_strengths([row for row in tried if row.pair in allowed])
                jobs += [EvaluationJob(evaluation, cell, part, chosen) for part in parts]
        return _longest_first(jobs)

    def _cells_of(self, repeat: int) -> Iterator[tuple[Evaluation, CellKey]]:
        return (pair for pair in self._cells() if pair[1].repeat == repeat)

    def _tuning_pairs(self, evaluation: Evaluation) -> list[Pair]:
        return evaluation.tuning(self._pairs[evaluation.data])


def _longest_first(jobs: Iterable[EvaluationJob]) -> list[EvaluationJob]:
    return sorted(jobs, key=lambda job: -cost(job.cell, len(job.pairs)))


def _with_data(jobs: Iterable[EvaluationJob]) -> list[Any]:
    """Return joblib jobs; the workers of a cluster are sent the data, local processes load them."""
    sent = goes_to_cluster()
    return [delayed(run_job)(job, load_once(job.evaluation.load) if sent else None) for job in jobs]


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


def _text(pair: Pair) -> tuple[str, str]:
    return str(pair[0]), str(pair[1])


class _Meter:
    """Counts rows and work, done and in total."""

    def __init__(self, run: Run, tuned: Iterable[TuningRow], done: set[tuple[Any, ...]]) -> None:
        wanted = run.wanted_keys()
        self._rows, self._all_rows = len(wanted & done), len(wanted)
        self._grids = {(e.data, c.tuned): e.grid for e, c in run._cells()}
        tuning_keys = {(cell, _text(pair)) for e, cell in run._cells() for pair in run._tuning_pairs(e)}
        self._all_work = sum(self._of_tuning(cell) for cell, _ in tuning_keys) + sum(cost(c, 1) for c, _ in wanted)
        tuned_keys = {(row.cell, row.pair) for row in tuned} & tuning_keys
        self._work = sum(self._of_tuning(cell) for cell, _ in tuned_keys) + sum(cost(c, 1) for c, _ in wanted & done)

    def _of_tuning(self, cell: CellKey) -> float:
        grid = self._grids[cell.data, cell.tuned]
        return cost(cell, len(grid.lams) * len(grid.mus))

    def count(self, rows: Sequence[TuningRow] | Sequence[Row]) -> RunState:
        """Count the rows of a job and return the state."""
        first, cells = rows[0], [cell for cell, _ in {(row.cell, row.pair) for row in rows}]
        doing = f"{first.data} {first.size}, {first.method}, repeat {first.repeat + 1}"
        if isinstance(first, TuningRow):
            self._work += sum(map(self._of_tuning, cells))
            return self.now(f"choosing lambda, {doing}")
        self._rows += len(rows)
        self._work += sum(cost(cell, 1) for cell in cells)
        return self.now(doing)

    def now(self, doing: str) -> RunState:
        """Return the current state."""
        return RunState(self._rows, self._all_rows, self._work, self._all_work, doing)


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
        before = json.loads(path.read_text()) if path.is_file() else {}
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
