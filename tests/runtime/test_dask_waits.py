"""Tests of waits for Dask workers: they end if no worker is left, and Dask does not give up workers meanwhile."""

from __future__ import annotations

import asyncio
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

dask = pytest.importorskip("dask", reason="needs Dask: pip install 'tensormargin[dask]'")
distributed = pytest.importorskip("distributed", reason="needs Dask's cluster: pip install 'tensormargin[dask]'")

import dask.array as da  # only if it is installed

from tensormargin import TensorMarginClassifier, TensorScaler
from tensormargin.runtime import computed, tuning
from tensormargin.runtime import dask_waits as waiting
from tensormargin.runtime.dask_waits import LostWorkersError

TIMEOUT = "distributed.deploy.lost-worker-timeout"


@pytest.fixture(scope="module")
def in_threads():
    """Return a cluster in this process."""
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=2, processes=False, dashboard_address=":0"
    ) as cluster:
        yield cluster


@pytest.fixture
def client(in_threads):
    with distributed.Client(in_threads) as client:
        yield client


@pytest.fixture
def deserted(monkeypatch):
    """Use a scheduler without workers."""
    monkeypatch.setattr(waiting, "PATIENCE", 0.1)
    monkeypatch.setattr(waiting, "LOOK", 0.02)
    with (
        distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def samples():
    return da.from_array(np.random.RandomState(0).standard_normal((12, 3, 4)), chunks=(4, 3, 4))


@pytest.mark.parametrize(
    "wait",
    [
        lambda X: computed(X.sum()),
        lambda X: waiting.gathered(waiting.client_in_use(), [waiting.client_in_use().submit(abs, 1)]),
        lambda X: TensorMarginClassifier("cp", 1).fit(X, np.arange(12) % 2),
        lambda X: TensorScaler().fit(X),
    ],
    ids=["compute", "gather", "fit", "scaler"],
)
def test_no_wait_is_endless_without_workers(deserted, wait, monkeypatch):
    monkeypatch.setattr(tuning, "LOADED_SHARE", 0.0)
    with pytest.raises(LostWorkersError, match=r"had no worker for 0.1 s.*memory runs out.*no-workers-timeout"):
        wait(samples())


def test_a_worker_that_comes_in_time_continues_the_wait(deserted, monkeypatch):
    monkeypatch.setattr(waiting, "PATIENCE", 30.0)
    threading.Timer(0.1, deserted.cluster.scale, [1]).start()
    assert computed(samples().shape[0] + da.zeros(1, chunks=1))[0] == 12


def test_what_is_computed_is_that_of_dask(client):
    X = samples()
    found = computed(X.sum(), X, None, dask.delayed((1, "a")))
    for one, other in zip(found, dask.compute(X.sum(), X, None, dask.delayed((1, "a"))), strict=True):
        np.testing.assert_array_equal(one, other)
    assert computed(1, None) == (1, None)
    arrived = [future for some in waiting.arriving(client, client.map(abs, range(-9, 0))) for future in some]
    assert sorted(waiting.gathered(client, arrived)) == list(range(1, 10))


@pytest.mark.parametrize("error", [TimeoutError("its own"), ValueError("its own"), OSError("its own")])
def test_errors_of_tasks_are_raised_as_they_are(client, error):
    def fail():
        raise error

    with pytest.raises(type(error), match="its own"):
        computed(dask.delayed(fail)())


def test_a_task_that_killed_its_workers_and_one_that_was_cancelled(client):
    def fail():
        raise distributed.KilledWorker("task", SimpleNamespace(address="tcp://a"), 3)

    with pytest.raises(LostWorkersError, match=r"lost a job: Attempted to run task 'task' on 4 .*memory runs out"):
        computed(dask.delayed(fail)())
    future = client.submit(time.sleep, 0.5)
    future.cancel()
    with pytest.raises(LostWorkersError, match="cancelled"):
        waiting.gathered(client, [future])


def test_a_collection_that_is_computed_inside_a_task(client):
    def inside():
        with distributed.worker_client(separate_thread=False):
            return computed(da.ones(3, chunks=1).sum())[0]

    assert client.submit(inside, pure=False).result(timeout=20) == 3.0


def test_how_long_there_may_be_no_workers():
    assert waiting.patience() == waiting.PATIENCE
    with dask.config.set({waiting.SETTING: "10 minutes"}):
        assert waiting.patience() == 600.0


def test_a_cluster_of_this_process_does_not_give_up_a_worker_that_dies_twice(in_threads):
    """Its timer of the first death would find the worker missing after the second."""
    client, inner = SimpleNamespace(cluster=in_threads), threading.Event()
    seen = []

    def wait():
        with waiting.restarts_awaited(client):
            seen.append(dask.config.get(TIMEOUT))
            inner.wait(5)

    before, thread = dask.config.get(TIMEOUT), threading.Thread(target=wait)
    with waiting.restarts_awaited(client):
        thread.start()
        assert dask.config.get(TIMEOUT) == "1 hour"
    inner.set()
    thread.join()
    assert seen == ["1 hour"]
    assert dask.config.get(TIMEOUT) == before
    with waiting.restarts_awaited(SimpleNamespace(cluster=None)):  # e.g. SLURM, where it starts another job
        assert dask.config.get(TIMEOUT) == before


def test_patience_begins_again_with_every_worker(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(waiting, "monotonic", lambda: now[0])
    left = waiting.Patience()
    for moment, n_workers in ((0, 0), (59, 0), (60, 1), (61, 0), (120, 0)):
        now[0] = float(moment)
        left.look(n_workers)
    now[0] = 121.0
    with pytest.raises(LostWorkersError):
        left.look(0)


def test_the_wait_ends_with_the_scheduler(monkeypatch):
    async def never():
        await asyncio.Event().wait()

    monkeypatch.setattr(waiting, "PATIENCE", 0.1)
    monkeypatch.setattr(waiting, "LOOK", 0.02)
    with distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=":0") as cluster:
        client = distributed.Client(cluster)
        loop = client.loop
        client.close()
        closed = SimpleNamespace(loop=loop, cluster=cluster, nthreads=client.nthreads)
        with pytest.raises(LostWorkersError):
            waiting._watched(closed, never())
