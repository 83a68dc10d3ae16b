"""Fits on samples in a Dask array: memory of the caller, one against two workers, growth, and searches.

``python benchmarks/dask_samples.py [--quick] [--parts memory workers model search] [--out benchmarks/results]``

The samples exist only on the workers: a chunk is noise seeded by its index, generated at about 1 GB per second, and the
classes differ by a rank-one tensor. Every measurement runs in a separate process with a fresh cluster of
single-threaded worker processes, after a small warm-up fit that imports and compiles. Times that are compared come from
alternating rounds; the tables show medians. Rows go to dask_samples.csv, tables to dask_samples.md; the exit status is
1 if a bound is broken. The whole benchmark takes about 20 minutes on two cores, and about three with ``--quick`` (a
tenth of the samples).
"""

from __future__ import annotations

import argparse
import csv
import json
import platform
import subprocess
import sys
import textwrap
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from math import prod
from os import cpu_count
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import nnls

from tensormargin import TensorMarginClassifier
from tensormargin.runtime import software_versions

ALLOWED_BYTES = 300e6  # in addition to the largest design
SAMPLES_TO_THAT = 10
SPEEDUP = 1.6
SEARCH_RATIO = 2.0  # of a search over a small Dask array to the same one in memory
LINES = {  # columns of a table: heading, and the cell of a row
    "samples GB": lambda row: f"{row['sample_bytes'] / 1e9:.2f}",
    "workers": lambda row: f"{row['workers']:.0f}",
    "chunks": lambda row: f"{row['chunks']:.0f}",
    "sweeps": lambda row: f"{row['sweeps']:.0f}",
    "seconds": lambda row: f"{row['seconds']:.2f}",
    "for samples": lambda row: f"{row['sample_seconds']:.2f}",
    "read GB": lambda row: f"{row['read_bytes'] / 1e9:.2f}",
    "tasks": lambda row: f"{row['tasks']:.0f}",
    "designs MB": lambda row: f"{row['designs_bytes'] / 1e6:.1f}",
    "arrived MB": lambda row: f"{row['arrived_bytes'] / 1e6:.1f}",
    "worker MB": lambda row: f"{row['worker_bytes'] / 1e6:.0f}",
    "half MB": lambda row: f"{row['half_bytes'] / row['workers'] / 1e6:.0f}",
}


@dataclass(frozen=True)
class Case:
    """Samples in chunks, a weight, and the number of workers."""

    n_samples: int
    shape: tuple[int, ...]
    weight: str
    rank: int | None
    workers: int = 2
    chunk_bytes: float = 64e6
    held: bool = False  # whether the samples stay in the workers' memory, so that only contractions are timed
    max_iter: int = 3

    @property
    def name(self) -> str:
        """The name of the case in the tables."""
        rank = f"-{self.rank}" if self.rank else ""
        return f"{self.weight}{rank}, {self.n_samples} × {'×'.join(map(str, self.shape))}" + ", held" * self.held


MEMORY = (
    Case(100_000, (24, 24, 24), "cp", 2),
    Case(100_000, (24, 24, 24), "tucker", 4),
    Case(100_000, (24, 24, 24), "tt", 4),
    Case(1_000, (100, 100, 100), "full", None, max_iter=100),
)
VOLUMES = Case(512, (96, 96, 96), "tucker", 16, chunk_bytes=57e6)  # 32 chunks of 16
WORKERS = (replace(VOLUMES, held=True), VOLUMES, replace(VOLUMES, weight="cp", rank=8))
BASE = Case(2_000, (48, 48, 48), "cp", 4, chunk_bytes=32e6)
MODEL = (
    BASE,
    *(replace(BASE, n_samples=n) for n in (1_000, 4_000)),
    *(replace(BASE, shape=(side,) * 3) for side in (32, 64)),
    *(replace(BASE, rank=rank) for rank in (1, 16)),
    *(replace(BASE, chunk_bytes=size) for size in (8e6, 2e6)),
    replace(BASE, workers=1),
    replace(BASE, n_samples=4_000, chunk_bytes=8e6, workers=1),
)


SEARCH = Case(400, (24, 24, 24), "cp", 1, chunk_bytes=4e6)
WAYS = ("memory", "Dask array", "Dask array of a cluster", "Dask array, left in chunks")


def main() -> None:
    """Measure the requested parts and write the results of all parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the samples; no bounds")
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--rounds", type=int, default=5, help="of one against two workers")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    parser.add_argument("--measure", help=argparse.SUPPRESS)  # a case as JSON, for the separate process
    parser.add_argument("--search", choices=WAYS, help=argparse.SUPPRESS)  # where the samples of a search are
    arguments = parser.parse_args()
    if arguments.measure:
        fields = json.loads(arguments.measure)
        case = Case(**{**fields, "shape": tuple(fields["shape"])})
        print(json.dumps(measure(case) if arguments.search is None else search(case, arguments.search)))
        return
    arguments.out.mkdir(parents=True, exist_ok=True)
    table = arguments.out / "dask_samples.csv"
    rows = [row for row in load(table) if row["part"] not in arguments.parts]
    for part in arguments.parts:
        rows += PARTS[part](10 if arguments.quick else 1, arguments.rounds)
    rows.sort(key=lambda row: list(PARTS).index(row["part"]))
    store(table, rows)
    write_page(arguments.out / "dask_samples.md", rows)
    broken = broken_bounds(rows)
    if arguments.quick:
        print("\nbounds are not judged on so few samples")
        return
    print("\n" + ("\n".join(broken) if broken else "all bounds hold"))
    sys.exit(bool(broken))


def measure_memory(less: int, rounds: int) -> list[dict]:
    """Measure the caller's peak memory on samples ten times larger than its limit."""
    return [run("memory", smaller(case, less)) for case in MEMORY]


def measure_workers(less: int, rounds: int) -> list[dict]:
    """Measure one and two workers, alternately."""
    rows = []
    for case in WORKERS:
        done: dict[int, list[dict]] = {1: [], 2: []}
        for _ in range(rounds):
            for count in done:
                done[count].append(run("workers", replace(smaller(case, less), workers=count)))
        rows += [median_of(results) for results in done.values()]
    return rows


def measure_model(less: int, rounds: int) -> list[dict]:
    """Measure how time and the workers' memory grow."""
    return [run("model", smaller(case, less)) for case in MODEL]


def measure_search(less: int, rounds: int) -> list[dict]:
    """Measure a search in memory and over Dask arrays, in turns."""
    done: dict[str, list[dict]] = {way: [] for way in WAYS}
    for _ in range(min(rounds, 3)):
        for way in WAYS:
            done[way].append(run_search(SEARCH, way))
    return [median_of(results) for results in done.values()]


PARTS = {"memory": measure_memory, "workers": measure_workers, "model": measure_model, "search": measure_search}


def smaller(case: Case, less: int) -> Case:
    """Return the case with fewer samples in the same number of chunks."""
    return replace(case, n_samples=case.n_samples // less, chunk_bytes=case.chunk_bytes / less)


def median_of(results: list[dict]) -> dict:
    """Return the run with the median time, with the spread of all runs."""
    ordered = sorted(results, key=lambda row: row["seconds"])
    spread = ordered[-1]["seconds"] - ordered[0]["seconds"]
    return {**ordered[len(ordered) // 2], "runs": len(ordered), "spread": spread}


def in_a_process(case: Case, *more: str) -> dict:
    """Return what a separate process measures for a case."""
    command = [sys.executable, __file__, "--measure", json.dumps(asdict(case)), *more]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode:
        raise SystemExit(answer.stderr)
    row: dict = json.loads(answer.stdout.splitlines()[-1])
    return row


def run_search(case: Case, way: str) -> dict:
    """Measure a search in a separate process, print a line and return the row."""
    row = {"part": "search", **in_a_process(case, "--search", way)}
    print(f"search   {way:36} {row['seconds']:7.2f} s, a chunk is read {row['reads']:.0f} times", flush=True)
    return row


def run(part: str, case: Case) -> dict:
    """Measure a case in a separate process, print a line and return the row."""
    row = {"part": part, **in_a_process(case)}
    print(
        f"{part:8} {row['case']:36} {row['workers']} workers {row['chunks']:4d} chunks {row['seconds']:7.2f} s, "
        f"{row['sample_seconds']:7.2f} for samples; caller {row['caller_bytes'] / 1e6:5.0f} MB more "
        f"(design {row['design_bytes'] / 1e6:.0f}), worker {row['worker_bytes'] / 1e6:5.0f} MB more",
        flush=True,
    )
    return row


def measure(case: Case) -> dict:
    """Fit a case; return times, bytes read and transferred, and peak memory."""
    from distributed import Client, LocalCluster, wait

    warnings.simplefilter("ignore")  # not converged: the number of sweeps is fixed
    with (
        LocalCluster(n_workers=case.workers, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        warm_up = replace(case, n_samples=400, shape=(6, 5, 4), rank=case.rank and 2, chunk_bytes=6e3)
        fit(warm_up, *samples(warm_up))  # imports and compiles
        X, y = samples(case)
        if case.held:
            X = X.persist()
            wait(X)
        client.run(reset_peak)
        at_first = client.run(memory, "VmRSS")
        before = memory("VmRSS")
        reset_peak()
        log = Log()
        began = time.perf_counter()
        with log.watching():
            sweeps = fit(case, X, y)
        seconds = time.perf_counter() - began
        peak, peaks = memory("VmHWM"), client.run(memory, "VmHWM")
    return {
        **{"case": case.name, "workers": case.workers, "chunks": X.numblocks[0], "rank": case.rank or 1},
        **{"sample_bytes": X.nbytes, "seconds": seconds, "spread": 0.0, "runs": 1, "sweeps": sweeps},
        **log.figures(),
        **{"caller_bytes": peak - before, "caller_peak": peak, "caller_before": before},
        **{"worker_bytes": max(peaks[worker] - at_first[worker] for worker in peaks)},
        "versions": json.dumps(software_versions() | {name: version(name) for name in ("dask", "distributed")}),
    }


def search(case: Case, way: str) -> dict:
    """Search over the samples of a case and return the time and how often a chunk was read.

    Seconds are processor time of this process; on a cluster, where workers take part, they are wall time.
    """
    from contextlib import nullcontext

    from distributed import Client, LocalCluster

    from tensormargin import TensorMarginClassifierCV
    from tensormargin.runtime import tuning

    warnings.simplefilter("ignore")
    candidates = TensorMarginClassifierCV(("cp", "tucker"), (1, 2), (0.1, 1.0), (0, 1), cv=3, random_state=0)
    small = replace(case, n_samples=60, shape=(6, 5, 4), chunk_bytes=4e3)
    if way.endswith("chunks"):
        tuning.LOADED_SHARE = 0.0
    cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) if "cluster" in way else None
    with nullcontext() if cluster is None else cluster, nullcontext() if cluster is None else Client(cluster):
        lazily, y = samples(case)
        candidates.fit(*samples(small))  # imports and compiles
        X = lazily.compute() if way == "memory" else lazily
        clock = time.process_time if cluster is None else time.perf_counter
        log = Log()
        began = clock()
        with log.watching():
            best = candidates.fit(X, y).best_params_
        seconds = clock() - began
    return {
        **{"case": f"search, {case.name}", "way": way, "sample_bytes": lazily.nbytes, "seconds": seconds},
        **{
            "spread": 0.0,
            "runs": 1,
            "chosen": str(best),
            "reads": 0 if way == "memory" else max(1.0, log.read_bytes / lazily.nbytes),
        },
        "versions": json.dumps(software_versions() | {name: version(name) for name in ("dask", "distributed")}),
    }


def fit(case: Case, X: Any, y: np.ndarray) -> int:
    """Fit the case and return the number of sweeps."""
    return int(TensorMarginClassifier(case.weight, case.rank, max_iter=case.max_iter).fit(X, y).n_iter_)


class Log:
    """Records the requests of a fit to its samples.

    Attributes
    ----------
    sample_seconds : float
        Time that the caller waits for the workers.
    read_bytes : float
        Bytes of samples read on the workers, counting repeated reads.
    tasks : int
        One per chunk and request.
    questions : int
        Number of requests.
    designs_bytes, design_bytes : float
        Size of all requested answers, and of the largest one.
    half_bytes : float
        Size of the largest half contraction that the workers keep.
    arrived_bytes : float
        Bytes fetched by the client.
    """

    def __init__(self) -> None:
        self.sample_seconds = self.read_bytes = self.designs_bytes = 0.0
        self.design_bytes = self.half_bytes = self.arrived_bytes = 0.0
        self.tasks = self.questions = 0
        self._depth = 0

    def figures(self) -> dict[str, float]:
        """Return the recorded values by name."""
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Record the requests to every `LazySamples` inside the block."""
        from distributed import Client

        from tensormargin.fitting.samples import lazy

        kind = lazy.LazySamples
        watched = [(kind, name, self._timed) for name in ("first_pass", "design", "side_by_side", "scores", "take")]
        watched += [
            (lazy.ChunkedDesign, name, self._timed) for name in ("to_numpy", "weighted_sum", "products", "gram")
        ]
        watched += [(kind, "on_chunks", self._asked), (lazy, "_gathered", self._gathered)]
        watched += [(kind, "_partial", self._kept), (Client, "_gather", self._arriving)]
        originals = [(owner, name, getattr(owner, name)) for owner, name, _ in watched]
        for (owner, name, original), (_, _, wrapped) in zip(originals, watched, strict=True):
            setattr(owner, name, wrapped(original))
        try:
            yield
        finally:
            for owner, name, original in originals:
                setattr(owner, name, original)

    def _timed(self, method: Any) -> Any:
        def timed(*arguments: Any) -> Any:
            began, self._depth = time.perf_counter(), self._depth + 1
            try:
                return method(*arguments)
            finally:
                self._depth -= 1
                self.sample_seconds += 0.0 if self._depth else time.perf_counter() - began

        return timed

    def _asked(self, method: Any) -> Any:
        def asked(samples: Any, *arguments: Any, **options: Any) -> Any:
            with_the_first_pass = arguments[0].__name__ == "_taken"
            self.read_bytes += 0.0 if with_the_first_pass else samples.nbytes
            self.tasks += samples._array.numblocks[0]
            return method(samples, *arguments, **options)

        return asked

    def _gathered(self, function: Any) -> Any:
        def gathered(parts: Any) -> Any:
            self.questions += 1
            self.tasks += parts.numblocks[0]
            self.designs_bytes += parts.nbytes
            self.design_bytes = max(self.design_bytes, parts.nbytes)
            return function(parts)

        return gathered

    def _kept(self, method: Any) -> Any:
        def kept(*arguments: Any) -> Any:
            partial = method(*arguments)
            self.half_bytes = max(self.half_bytes, partial.nbytes)
            return partial

        return kept

    def _arriving(self, method: Any) -> Any:
        from dask.sizeof import sizeof

        async def arriving(*arguments: Any, **options: Any) -> Any:
            answer = await method(*arguments, **options)
            self.arrived_bytes += sizeof(answer)
            return answer

        return arriving


def samples(case: Case) -> tuple[Any, np.ndarray]:
    """Return a Dask array of float32 samples that are generated on the workers, and their labels."""
    import dask.array as da

    length = max(1, int(case.chunk_bytes // (4 * prod(case.shape))))
    lengths = tuple(min(length, case.n_samples - start) for start in range(0, case.n_samples, length))
    X = da.map_blocks(
        make_chunk,
        chunks=(lengths, *((side,) for side in case.shape)),
        meta=np.empty((0,) * (1 + len(case.shape)), np.float32),
        sides=case.shape,
        length=length,
        count=case.n_samples,
    )
    return X, np.arange(case.n_samples) % 2


def make_chunk(sides: tuple[int, ...], length: int, count: int, block_id: Sequence[int]) -> np.ndarray:
    """Return the samples of a chunk: noise seeded by its index, with a pattern added to every second sample."""
    first = block_id[0] * length
    part = np.random.default_rng(block_id[0]).random((min(length, count - first), prod(sides)), np.float32)
    pattern = np.ones(1, np.float32)
    for side in sides:
        pattern = np.kron(pattern, np.sin(np.linspace(0, 3, side)).astype(np.float32))
    part[(first + 1) % 2 :: 2] += 2 * pattern / np.linalg.norm(pattern)
    return part.reshape(-1, *sides)


def from_store(path: str) -> Any:
    """Return a Dask array of a Zarr store whose workers count what they read (`bytes_read`)."""
    import dask.array as da
    import zarr

    store = zarr.open_array(path, mode="r")
    length, lengths = store.chunks[0], da.core.normalize_chunks(store.chunks, store.shape)
    return da.map_blocks(
        read_counted, chunks=lengths, meta=np.empty((0,) * store.ndim, store.dtype), path=path, length=length
    )


_READ = [0]


def read_counted(path: str, length: int, block_id: Sequence[int]) -> np.ndarray:
    """Return a chunk of a Zarr store."""
    import zarr

    part = np.asarray(zarr.open_array(path, mode="r")[block_id[0] * length : (block_id[0] + 1) * length])
    _READ[0] += part.nbytes
    return part


def bytes_read() -> int:
    """Return the bytes that this process has read from stores, and begin anew."""
    read, _READ[0] = _READ[0], 0
    return read


def memory(field: str) -> float:
    """Return a field of the process status in bytes (Linux only)."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return 1024.0 * next(int(line.split()[1]) for line in lines if line.startswith(field))


def reset_peak() -> None:
    """Reset the peak memory of the process."""
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")


def broken_bounds(rows: list[dict]) -> list[str]:
    """Return a line for every bound that does not hold."""
    broken = []
    for row in (row for row in rows if row["part"] == "memory"):
        allowed = row["design_bytes"] + ALLOWED_BYTES
        if row["caller_bytes"] > allowed:
            broken.append(
                f"{row['case']}: the caller took {row['caller_bytes'] / 1e6:.0f} MB, above {allowed / 1e6:.0f}"
            )
        if row["sample_bytes"] < SAMPLES_TO_THAT * allowed:
            broken.append(f"{row['case']}: the samples are less than {SAMPLES_TO_THAT} times what the caller may take")
    for one, two in speedup_rows(rows)[:1]:  # the contraction-bound case
        ratio = one["seconds"] / two["seconds"]
        if ratio < SPEEDUP:
            broken.append(f"{one['case']}: two workers are {ratio:.2f} times as fast as one, below {SPEEDUP}")
    searches = [row for row in rows if row["part"] == "search"]
    for row in searches[1:3]:
        ratio = row["seconds"] / searches[0]["seconds"]
        if ratio > SEARCH_RATIO:
            broken.append(f"{row['way']}: a search takes {ratio:.2f} times that in memory, above {SEARCH_RATIO:g}")
        if row["chosen"] != searches[0]["chosen"]:
            broken.append(f"{row['way']}: the search chose {row['chosen']}, in memory {searches[0]['chosen']}")
    return broken


def speedup_rows(rows: list[dict]) -> list[tuple[dict, dict]]:
    """Return pairs of rows, with one and with two workers."""
    members = [row for row in rows if row["part"] == "workers"]
    return list(zip(members[::2], members[1::2], strict=True))


def constants(rows: list[dict]) -> tuple[dict[str, float], float]:
    """Fit the caller's waiting time as a sum of four terms; return the constants and the largest relative error."""
    terms = {
        "second a GB and worker": lambda row: row["read_bytes"] / 1e9 / row["workers"],
        "second a GB, worker and rank": lambda row: row["rank"] * row["read_bytes"] / 1e9 / row["workers"],
        "second a task": lambda row: row["tasks"],
        "second a question": lambda row: row["questions"],
    }
    seconds = np.array([row["sample_seconds"] for row in rows])
    matrix = np.array([[term(row) for term in terms.values()] for row in rows])
    found, _ = nnls(matrix / seconds[:, None], np.ones(len(rows)))  # least squares of relative errors
    return dict(zip(terms, found.tolist(), strict=True)), float(np.abs(matrix @ found / seconds - 1).max())


_NOTES = """\
Made by `python benchmarks/dask_samples.py` from `dask_samples.csv`, which also holds the versions. Worker processes of
one thread and the caller share the machine: {machine}.

- *for samples*: seconds of the fit in which the caller waits for workers; the rest are block solves
- *read GB*: samples read on the workers, as often as they are; *tasks*: one per chunk and question
- *designs MB*: N × d × itemsize of every block solved (and the moments), summed; *arrived MB*: what the client fetched
- *worker MB*: peak of a worker over what it had before; *half MB*: its share of the contraction that is kept for the
  blocks of the other half
"""


def write_page(path: Path, rows: list[dict]) -> None:
    """Write the tables to a Markdown file."""
    parts = ["# Samples in a Dask array", _NOTES.format(machine=machine())]
    by_part = {part: [row for row in rows if row["part"] == part] for part in PARTS}
    if by_part["memory"]:
        parts.append(memory_section(by_part["memory"]))
    if by_part["workers"]:
        parts.append(workers_section(speedup_rows(rows)))
    if by_part["model"]:
        parts.append(model_section(by_part["model"]))
    if by_part["search"]:
        parts.append(search_section(by_part["search"]))
    partial = path.with_suffix(".part")
    partial.write_text("\n\n".join(parts) + "\n")
    partial.replace(path)


def memory_section(rows: list[dict]) -> str:
    """Return the table of the caller's memory."""
    head = [
        "case",
        "samples GB",
        "largest design MB",
        "caller MB more",
        "bound",
        "peak of the process MB",
        "arrived MB",
    ]
    lines = [
        [
            row["case"],
            f"{row['sample_bytes'] / 1e9:.2f}",
            f"{row['design_bytes'] / 1e6:.0f}",
            f"{row['caller_bytes'] / 1e6:.0f}",
            f"{(row['design_bytes'] + ALLOWED_BYTES) / 1e6:.0f}",
            f"{row['caller_peak'] / 1e6:.0f}",
            f"{row['arrived_bytes'] / 1e6:.0f}",
        ]
        for row in rows
    ]
    text = (
        "Peak of the caller's process (scheduler included) during a fit, over what it had before; it may take the "
        f"largest design and 300 MB, and the samples are at least {SAMPLES_TO_THAT} times that."
    )
    return f"## The caller's memory\n\n{wrapped(text)}\n\n{markdown(head, lines)}"


def workers_section(pairs: list[tuple[dict, dict]]) -> str:
    """Return the table of one against two workers."""
    head = ["case", "one worker s", "spread", "two workers s", "spread", "ratio", "bound", "rounds", "samples' part"]
    lines = [
        [
            one["case"],
            *(cell for row in (one, two) for cell in (f"{row['seconds']:.2f}", f"{row['spread']:.2f}")),
            f"{one['seconds'] / two['seconds']:.2f}",
            "–" if number else f"{SPEEDUP:g}",
            f"{one['runs']:.0f}",
            f"{100 * one['sample_seconds'] / one['seconds']:.0f} %",
        ]
        for number, (one, two) in enumerate(pairs)
    ]
    text = (
        "Medians of fits in turns. *held*: the samples are in the workers' memory, so that contracting them is all "
        "there is to do; otherwise every pass makes them anew. *samples' part*: of one worker's time."
    )
    return f"## One and two workers\n\n{wrapped(text)}\n\n{markdown(head, lines)}"


def model_section(rows: list[dict]) -> str:
    """Return the measurements of time and memory, and the fitted constants."""
    found, error = constants(rows)
    table = markdown(["case", *LINES], [[row["case"], *(line(row) for line in LINES.values())] for row in rows])
    lines = [[name, f"{value:.2g}"] for name, value in found.items()]
    text = (
        "The time that the caller waits for samples is nearly a sum of four terms, with these constants (least squares "
        f"of relative errors, of which the largest is {100 * error:.0f} %):"
    )
    travel = [row["arrived_bytes"] / row["designs_bytes"] for row in rows]
    notes = (
        f"What arrives is {min(travel):.2f} to {max(travel):.2f} times N × d × itemsize of the blocks and moments. A "
        "worker needs its share of a half, of an eighth of the samples where a fit begins on those, and a chunk or two "
        "for each of its threads."
    )
    values = markdown(["constant", "value"], lines)
    return f"## Time and memory\n\n{table}\n\n{wrapped(text)}\n\n{values}\n\n{wrapped(notes)}"


def search_section(rows: list[dict]) -> str:
    """Return the table of searches."""
    head = ["samples", "seconds", "spread", "ratio to memory", "bound", "reads of a chunk"]
    lines = [
        [
            row["way"],
            f"{row['seconds']:.2f}",
            f"{row['spread']:.2f}",
            f"{row['seconds'] / rows[0]['seconds']:.2f}",
            f"{SEARCH_RATIO:g}" if 0 < number < 3 else "–",
            f"{row['reads']:.0f}",
        ]
        for number, row in enumerate(rows)
    ]
    text = (
        f"A search over {rows[0]['sample_bytes'] / 1e6:.0f} MB of samples, in processor time of the caller (with a "
        "cluster: wall time, with two workers). So few samples are read into memory, from the workers of a cluster, "
        "too; larger ones are left in chunks, which all candidates and folds then read together."
    )
    return f"## Searches\n\n{wrapped(text)}\n\n{markdown(head, lines)}"


def wrapped(text: str) -> str:
    """Return a paragraph wrapped to 120 characters."""
    return textwrap.fill(text, 120, break_on_hyphens=False)


def markdown(head: list[str], lines: list[list[str]]) -> str:
    """Return a Markdown table."""
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [head, ["---"] * len(head), *lines])


def machine() -> str:
    """Return a description of the machine and the software."""
    lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
    gigabytes = int(next(line for line in lines if line.startswith("MemTotal")).split()[1]) / 1e6
    versions = ", ".join(f"{name} {version(name)}" for name in ("numpy", "dask", "distributed"))
    python = f"Python {platform.python_version()}"
    return f"{cpu_count()} cores ({platform.machine()}),\n{gigabytes:.0f} GB, {python}, {versions}"


def store(table: Path, rows: list[dict]) -> None:
    """Write the CSV file atomically."""
    partial = table.with_suffix(".part")
    with partial.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(dict.fromkeys(name for row in rows for name in row)), restval="")
        writer.writeheader()
        writer.writerows(
            {key: f"{value:.6g}" if isinstance(value, float) else value for key, value in row.items()} for row in rows
        )
    partial.replace(table)


def load(table: Path) -> list[dict]:
    """Return the rows of the CSV file, empty if it does not exist."""
    if not table.exists():
        return []
    with table.open(encoding="utf-8", newline="") as file:
        return [{key: number(value) for key, value in row.items()} for row in csv.DictReader(file)]


def number(text: str) -> float | str:
    """Return the text as a number if it is one."""
    try:
        return float(text)
    except ValueError:
        return text


if __name__ == "__main__":
    main()
