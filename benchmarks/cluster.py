"""Network traffic of many fits on a Dask cluster: ``python -m benchmarks.cluster``.

Uses two worker processes on this machine; bytes are counted when they are written. "to" is what the client sends (the
scheduler passes it on to one worker), "between" what workers send to each other. `on_cluster` is compared with joblib's
own Dask backend, which sends the samples again for every step and starts jobs from within jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any

import numpy as np
from distributed import Client, LocalCluster
from distributed.comm.tcp import TCP
from joblib import parallel_config

from tensormargin import (
    TensorMarginClassifier,
    TensorMarginClassifierCV,
    nested_evaluation,
    on_cluster,
    permutation_test,
)
from tensormargin.datasets import make_low_rank_classes
from tensormargin.evaluation import CompareSettings, compare

SEARCH = TensorMarginClassifierCV(("cp", "tucker"), ranks=(1, 2), lams=(0.1, 1), cv=3, random_state=0)
STEPS: dict[str, Callable[[Any, Any], Any]] = {
    "TensorMarginClassifierCV": lambda X, y: SEARCH.fit(X, y),
    "nested_evaluation, 3 folds": lambda X, y: nested_evaluation(SEARCH, X, y, cv=3),
    "permutation_test, 20": lambda X, y: permutation_test(TensorMarginClassifier("cp", 1), X, y, n_permutations=20),
    "compare, 2 methods x 2": lambda X, y: list(compare(X, y, CompareSettings(("SVM", "STM"), repeats=2))),
}


class Written:
    """Counts the bytes that the client writes to the scheduler."""

    def __init__(self, scheduler: str) -> None:
        self.total = 0
        write = TCP.write

        async def counted(comm: TCP, *arguments: Any, **named: Any) -> int:
            written = await write(comm, *arguments, **named)
            self.total += written if comm.peer_address == scheduler else 0
            return written

        TCP.write = counted


@contextmanager
def plainly(client: Client, X: Any) -> Iterator[None]:
    with client.as_current(), parallel_config(backend="dask"):
        yield


def measure(client: Client, written: Written, where: Any, X: Any, y: Any) -> list[tuple[str, float, float, float]]:
    def sent() -> tuple[float, float]:
        between = client.run(lambda dask_worker: dask_worker.transfer_outgoing_bytes_total)
        return written.total / 1e6, sum(between.values()) / 1e6

    rows = []
    before, began = sent(), perf_counter()
    with where(client, X):
        for name, step in [("the samples, on entry", lambda X, y: None), *STEPS.items()]:
            step(X, y)
            after, ended = sent(), perf_counter()
            rows.append((name, after[0] - before[0], after[1] - before[1], ended - began))
            before, began = after, ended
    return rows


def main() -> None:
    data = make_low_rank_classes(200, (120, 120), rank=1, distance=5.0, random_state=0)
    X, y = data.data, data.target
    print(f"{len(X)} samples of 120 x 120, {np.asarray(X).nbytes / 1e6:.1f} MB, two workers\n")
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster, Client(cluster) as client:
        written = Written(cluster.scheduler_address)
        with on_cluster(client, X):
            SEARCH.fit(X, y)  # imports and compiles
        ours, plain = (measure(client, written, where, X, y) for where in (on_cluster, plainly))
    print("| step | to MB | between MB | s | joblib alone: to MB | between MB | s |\n|---|---|---|---|---|---|---|")
    for own, other in zip(ours, plain, strict=True):
        print(f"| {own[0]} | " + " | ".join(f"{value:.1f}" for value in (*own[1:], *other[1:])) + " |")


if __name__ == "__main__":
    main()
