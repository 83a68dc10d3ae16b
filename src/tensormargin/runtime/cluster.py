"""Parallel fits on the workers of a Dask cluster, through joblib. Dask is imported only when a cluster is used.

Waits for the workers end if no worker is left. Dask itself waits forever: its scheduler keeps the tasks for workers
that may still come.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np
from joblib import parallel_config
from joblib.parallel import get_active_backend

from .array_api import Array
from .words import listed

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["LostWorkersError", "goes_to_cluster", "on_cluster", "sent_once", "take"]

PATIENCE = 60.0
"""Seconds without any worker after which a wait ends, unless Dask's `SETTING` says otherwise."""

SETTING = "distributed.scheduler.no-workers-timeout"

LOOK = 1.0
"""Seconds between two looks at the workers; shorter waits do not look."""

_DEATHS = (
    "Workers die where memory runs out (give them more, or fewer threads each) and where their time is up; their logs "
    "say which"
)
_GIVEN_UP = {"distributed.deploy.lost-worker-timeout": "1 hour"}

_waits, _counting = ExitStack(), Lock()
_n_waits = 0
_ADDRESS = re.compile(r"[\w.-]+:\d+|\[[\da-fA-F:]+\]:\d+|(tcp|tls|ucx|ws|wss|inproc)://.+")


@contextmanager
def on_cluster(scheduler: Any, *samples: Any, timeout: float = 5.0) -> Iterator[Client]:
    """Run the fits within the context on the workers of a Dask cluster.

    Everything that this library (and scikit-learn) does in parallel runs there: one-vs-one pairs, cross-validation,
    `TensorMarginClassifierCV`, `nested_evaluation`, `permutation_test`, comparisons. ``n_jobs=1`` runs jobs locally,
    one after the other; any other value, including None, uses all workers. Each job runs in one thread of a worker.

    Parameters
    ----------
    scheduler : str, Path, cluster or dask.distributed.Client
        Address ("tcp://10.0.0.1:8786"), file written by ``dask scheduler --scheduler-file``, cluster object
        (``LocalCluster``, ``SLURMCluster``, ``KubeCluster``), or client, which stays open.
    *samples : arrays
        Sent to each worker once, on entry, and freed on exit; they must not change in between. Other samples are sent
        once per search, test or fit.
    timeout : float, default=5
        Seconds to wait for the scheduler, and then for its first worker.

    Yields
    ------
    dask.distributed.Client

    Raises
    ------
    ImportError
        If Dask is not installed, or tensormargin is not installed on the cluster.
    ConnectionError
        If the scheduler does not answer, has no workers, or loses them (`LostWorkersError`).
    ValueError
        If ``scheduler`` is neither an address nor a file, or the cluster has another version of tensormargin.

    Examples
    --------
    In place of ``cluster``, the address of a scheduler will do: ``on_cluster("tcp://10.0.0.1:8786", X)``.

    >>> from dask.distributed import LocalCluster
    >>> from tensormargin import TensorMarginClassifier, on_cluster
    >>> from tensormargin.datasets import load_digits_tensor
    >>> digits = load_digits_tensor()
    >>> X, y = digits.data[:300], digits.target[:300]
    >>> with LocalCluster(2, processes=False, dashboard_address=None) as cluster, on_cluster(cluster, X):
    ...     clf = TensorMarginClassifier("cp", 1, n_jobs=-1).fit(X, y)
    >>> clf.score(X, y) > 0.9
    True
    """
    try:
        from .cluster_backend import ClusterBackend, connected
    except ImportError as error:
        raise ImportError(f"a cluster needs Dask ({error}): pip install 'tensormargin[dask]'") from error
    with connected(_target(scheduler), timeout) as client:
        check_workers(client, timeout)
        backend = ClusterBackend(client)
        # Dask's own computations, on samples in a Dask array, go to the same workers.
        with client.as_current(), restarts_awaited(client), backend.holding(*samples), parallel_config(backend=backend):
            yield client


def goes_to_cluster() -> bool:
    """Return whether jobs run on a cluster, that is, within `on_cluster`.

    Examples
    --------
    >>> from tensormargin.runtime.cluster import goes_to_cluster
    >>> goes_to_cluster()
    False
    """
    return hasattr(get_active_backend()[0], "remember")


@contextmanager
def sent_once(X: Array) -> Iterator[None]:
    """Let all steps within the context share one copy of X per worker; without a cluster, do nothing.

    Samples that are lazy or on a device are not sent.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin.runtime.cluster import sent_once, take
    >>> X = np.arange(12).reshape(4, 3)
    >>> with sent_once(X):
    ...     take(X, np.array([2, 0]))
    array([[6, 7, 8],
           [0, 1, 2]])
    """
    if not (goes_to_cluster() and isinstance(X, np.ndarray)):
        yield
        return
    with get_active_backend()[0].holding(X):
        yield


def take(X: Array, rows: Array) -> Array:
    """Return ``X[rows]``; on a cluster that holds X, jobs take these rows from the worker's copy.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin.runtime.cluster import take
    >>> take(np.arange(12).reshape(4, 3), np.array([3]))
    array([[ 9, 10, 11]])
    """
    part = X[rows]
    if goes_to_cluster() and isinstance(X, np.ndarray):
        get_active_backend()[0].remember(part, X, rows)
    return part


def _target(scheduler: Any) -> Any:
    """Return a client or an address unchanged, or the address in a scheduler file; otherwise raise ValueError."""
    if not isinstance(scheduler, str | Path):
        return scheduler
    if Path(scheduler).is_file():
        try:
            return str(json.loads(Path(scheduler).read_text())["address"])
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"{scheduler} is not a file that `dask scheduler --scheduler-file` wrote: it names no address"
            ) from error
    if isinstance(scheduler, str) and _ADDRESS.fullmatch(scheduler):
        return scheduler
    raise ValueError(
        "a scheduler must be an address such as tcp://10.0.0.1:8786, or the file that `dask scheduler "
        f"--scheduler-file` wrote; got {str(scheduler)!r}, which is no address, and there is no such file"
    )


def check_workers(client: Client, timeout: float) -> None:
    """Raise unless there are workers, and they and the scheduler (which unpickles jobs too) have this library."""
    address = client.scheduler.address
    try:
        client.wait_for_workers(1, timeout=timeout)
    except TimeoutError as error:
        raise ConnectionError(
            f"the scheduler at {address} has no workers after {timeout:g} s; start some with `dask worker {address}`"
        ) from error
    version_of_library = _version_finder()
    here = version_of_library()
    answers = client.run(version_of_library, on_error="return")
    gone = [worker for worker, answer in answers.items() if isinstance(answer, OSError)]  # died while they were asked
    versions = {f"worker {worker}": answers[worker] for worker in sorted(set(answers) - set(gone))}
    versions[f"scheduler {address}"] = client.run_on_scheduler(version_of_library)
    without = [place for place, version in versions.items() if version is None]
    if without:
        raise ImportError(
            f"scheduler and workers need tensormargin; it cannot be imported by {listed(without)}. "
            f"Install it there: pip install 'tensormargin[dask]=={here}'"
        )
    others = [f"{version} on {place}" for place, version in versions.items() if version != here]
    if others:
        raise ValueError(
            f"scheduler and workers need the version of tensormargin that is here, {here}; got {listed(others)}. "
            "Install the same version everywhere"
        )


def _version_finder() -> Any:
    """Return a function that returns the installed version or None; as a closure it is pickled by value."""

    def version_of_library() -> str | None:
        from importlib import import_module

        try:
            return str(import_module("tensormargin").__version__)
        except ImportError:
            return None

    return version_of_library


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
    """Return the values of Dask collections, as `dask.compute` does; raise LostWorkersError if no worker is left.

    Other values are returned as they are.
    """
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
    from dask import config
    from distributed import LocalCluster

    global _n_waits
    if not isinstance(client.cluster, LocalCluster):
        yield
        return
    with _counting:  # threads may wait at the same time, and the setting is that of all
        if not _n_waits:
            _waits.enter_context(config.set(_GIVEN_UP))
        _n_waits += 1
    try:
        yield
    finally:
        with _counting:
            _n_waits -= 1
            if not _n_waits:
                _waits.close()


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
