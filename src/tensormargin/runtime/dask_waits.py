"""Waits for Dask workers, which end if no worker is left.

Dask itself waits forever: its scheduler keeps the tasks for workers that may still come.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from time import monotonic
from typing import Any

from .locks import UsedByThreads

PATIENCE = 60.0  # seconds without any worker after which a wait ends, unless Dask's `SETTING` says otherwise

SETTING = "distributed.scheduler.no-workers-timeout"

LOOK = 1.0  # seconds between two looks at the workers; shorter waits do not look

_DEATHS = (
    "Workers die where memory runs out (give them more, or fewer threads each) and where their time is up; their logs "
    "say which"
)
_GIVEN_UP = {"distributed.deploy.lost-worker-timeout": "1 hour"}


class LostWorkersError(ConnectionError):
    """A job returned no result because its workers died or the scheduler went away.

    Examples
    --------
    >>> from tensormargin.runtime.cluster import LostWorkersError
    >>> issubclass(LostWorkersError, Exception)
    True
    """


def patience() -> float:
    """Return the number of seconds that a cluster may be without workers."""
    from dask.config import get
    from dask.utils import parse_timedelta

    chosen = get(SETTING, None)
    return PATIENCE if chosen is None else float(parse_timedelta(chosen))


class Patience:
    """Ends a wait that cannot succeed: no worker is there, and none comes."""

    def __init__(self) -> None:
        self._since: float | None = None

    def look(self, n_workers: int) -> None:
        """Raise LostWorkersError if there have been no workers for too long."""
        if n_workers:
            self._since = None
            return
        self._since = monotonic() if self._since is None else self._since
        if monotonic() - self._since >= patience():
            raise no_workers()


def no_workers() -> LostWorkersError:
    """Return the error for a cluster without workers."""
    return LostWorkersError(
        f"the cluster has had no worker for {patience():g} s: all of them died, and none took their place. {_DEATHS}. "
        f"If new ones take longer to start, set {SETTING} in Dask's configuration here"
    )


def lost_job(error: BaseException) -> LostWorkersError:
    """Return the error for a job that is lost for the reason that Dask gives."""
    return LostWorkersError(f"the cluster lost a job: {error} {_DEATHS}")


def client_in_use() -> Any:
    """Return the client of the cluster that Dask computes on, or None."""
    from dask.base import get_scheduler

    return getattr(get_scheduler(), "__self__", None)


def computed(*collections: Any) -> tuple[Any, ...]:
    """Return the values of Dask collections, and other values; raise LostWorkersError if no worker is left."""
    if not any(hasattr(one, "__dask_graph__") for one in collections):
        return collections
    import dask

    client = client_in_use()
    if client is None or _inside_a_task():  # there Dask has to take the task's thread back
        return tuple(dask.compute(*collections))
    return tuple(gathered(client, client.compute(list(collections))))


def gathered(client: Any, futures: Sequence[Any]) -> list[Any]:
    """Return the results of futures, in order."""
    with _named():
        return list(_watched(client, client.gather(futures, asynchronous=True)))


def arriving(client: Any, futures: Sequence[Any]) -> Iterator[list[Any]]:
    """Yield futures as they finish, all that have by then at a time; no others are referred to."""
    from distributed import as_completed

    waiting = as_completed(futures, loop=client.loop)
    del futures
    while not waiting.is_empty():
        with _named():
            done = [_watched(client, waiting.__anext__())]
        yield [*done, *waiting.next_batch(block=False)]
        del done


def _watched(client: Any, result: Coroutine[Any, Any, Any]) -> Any:
    """Return the result of a coroutine of a client, unless the workers are gone before it is there."""
    waiting, left = asyncio.run_coroutine_threadsafe(result, client.loop.asyncio_loop), Patience()
    with restarts_awaited(client):
        try:
            while True:
                try:
                    return waiting.result(LOOK)
                except TimeoutError:
                    if waiting.done():
                        raise
                left.look(_number_of_workers(client))
        finally:
            waiting.cancel()


@contextmanager
def restarts_awaited(client: Any) -> Iterator[None]:
    """Let a `LocalCluster` of this process restart its workers for as long as the context lasts.

    It looks 15 s after the death of a worker whether that is back, and gives it up for good if not: also one that is
    back and dies once more.
    """
    from distributed import LocalCluster

    with _restarts if isinstance(client.cluster, LocalCluster) else nullcontext():
        yield


class _Restarts(UsedByThreads):
    """The setting of `restarts_awaited`, which is that of all threads that wait at the same time."""

    def _begin(self) -> None:
        from dask import config

        self._setting = config.set(_GIVEN_UP)

    def _end(self) -> None:
        self._setting.__exit__(None, None, None)


_restarts = _Restarts()


def _number_of_workers(client: Any) -> int:
    try:
        return len(client.nthreads())
    except (OSError, ValueError, RuntimeError, AttributeError):  # the scheduler is gone, or the client was closed
        return 0


@contextmanager
def _named() -> Iterator[None]:
    """Raise LostWorkersError for the ways in which Dask reports lost workers."""
    from distributed import CancelledError, KilledWorker
    from distributed.comm import CommClosedError

    try:
        yield
    except (KilledWorker, CancelledError, CommClosedError) as error:
        raise lost_job(error) from error


def _inside_a_task() -> bool:
    from distributed.utils import thread_state

    return bool(getattr(thread_state, "key", False))
