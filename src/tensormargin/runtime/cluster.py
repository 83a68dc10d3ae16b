"""Parallel fits on the workers of a Dask cluster, through joblib. Dask is imported only when a cluster is used."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from joblib import parallel_config
from joblib.parallel import get_active_backend

from .array_api import Array
from .dask_waits import LostWorkersError, restarts_awaited
from .words import listed

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["LostWorkersError", "goes_to_cluster", "on_cluster", "sent_once", "take"]

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
            return str(json.loads(Path(scheduler).read_text(encoding="utf-8"))["address"])
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
