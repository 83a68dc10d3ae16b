"""joblib's Dask backend, and what it lacks; imported when a cluster is asked for, as it imports Dask.

Samples stay on every worker, and parts of them are taken there. Jobs do not spread out further from where they run. One
job at a time (``n_jobs=1``) is done here. A job that is lost is an error: joblib 1.6 waits for it for ever.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import Any

import cloudpickle
import numpy as np
from distributed import CancelledError, Client, KilledWorker
from joblib import parallel_config
from joblib._dask import DaskDistributedBackend

from .._typing import Array
from .errors import LostWorkersError

# joblib 1.5 asks a backend to `submit`, and its Dask backend has that under an older name
_submit = vars(DaskDistributedBackend).get("submit") or DaskDistributedBackend.apply_async


@contextmanager
def connected(target: Any, timeout: float) -> Iterator[Client]:
    """Yield a client of the scheduler at an address, closed afterwards, or the client that was given."""
    if isinstance(target, Client):
        yield target
        return
    try:
        client = Client(target, timeout=timeout, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ConnectionError(
            f"no Dask scheduler answers at {target} ({error}); start one with `dask scheduler`, and workers with "
            "`dask worker ADDRESS`"
        ) from error
    with client:
        yield client


class ClusterBackend(DaskDistributedBackend):
    """joblib's Dask backend for the fits of this library."""

    def __init__(self, client: Client) -> None:
        super().__init__(client=client)
        self._samples: list[Any] = []  # what each worker has
        self._parts: list[tuple[weakref.ref[Array], Array, Array]] = []  # a part, of what, and its rows

    @contextmanager
    def holding(self, *samples: Any) -> Iterator[None]:
        """Let each worker have these inside the context; they are sent once, unless they are there."""
        new = list({id(one): one for one in samples if not self._has(one)}.values())
        # not by content (hash=False): what was released a moment ago under the same name may still be on its way out
        futures = self.client.scatter(new, broadcast=True, hash=False) if new else []
        holds = _held_everywhere(self.client, futures)
        self._samples += new
        self.data_futures |= {id(one): future for one, future in zip(new, futures, strict=True)}
        try:
            yield
        finally:
            gone = {id(one) for one in new}
            self._samples = [one for one in self._samples if id(one) not in gone]
            self._parts = [known for known in self._parts if id(known[1]) not in gone]
            for one in gone:
                del self.data_futures[one]
            holds.clear()

    def remember(self, part: Array, whole: Array, rows: Array) -> None:
        """Note that a part consists of these rows of an array; it matters where the workers have that array."""
        found = next((one for one in self._samples if _same(one, whole)), None)
        if found is not None:
            living = [known for known in self._parts if known[0]() is not None]
            self._parts = [*living, (weakref.ref(part), found, np.asarray(rows))]

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        """Return the threads of all workers; 1 where one job at a time is asked for."""
        if n_jobs == 1:
            return 1
        return max(2, super().effective_n_jobs(n_jobs))  # with 1, joblib would do the only worker's jobs here

    def submit(self, func: Any, callback: Callable[..., Any]) -> Any:
        """Send a batch of jobs; `callback` gets its outcome, be it a failure."""
        func.items = [self._job(*item) for item in func.items]
        try:
            self._check_can_travel(func.items)
        except TypeError as error:
            future: Any = Future()
            future.set_exception(error)
        else:
            future = _submit(self, func, callback)
        future.add_done_callback(partial(_tell_failure, callback))
        return future

    def retrieve_result_callback(self, out: Any) -> Any:
        """Return a batch's results or raise what it raised."""
        try:
            return super().retrieve_result_callback(out)
        except (KilledWorker, CancelledError) as error:
            raise LostWorkersError(
                f"the cluster lost a job: {error} Workers die where memory runs out (give them more, or fewer threads "
                "each) and where their time is up; their logs say which"
            ) from error

    def _check_can_travel(self, jobs: Sequence[tuple[Any, ...]]) -> None:
        """Raise TypeError for a job that cannot be pickled: where Dask notices, joblib does not hear of it."""
        for function, arguments, named in jobs:
            others = [one for one in (*arguments, *named.values()) if not isinstance(one, np.ndarray)]
            try:
                cloudpickle.dumps([function, *(one for one in others if id(one) not in self.data_futures)])
            except Exception as error:
                raise TypeError(
                    f"what goes to a cluster must be picklable; {function.__name__} or one of its arguments (scoring, "
                    f"preparation, model) is not ({error})"
                ) from error

    def _job(self, function: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
        """Return a job that takes its samples from what the worker has."""
        given = [self._on_workers(argument) for argument in arguments]
        taken = {place: rows for place, (_, rows) in enumerate(given) if rows is not None}
        job = WorkerCall(function, tuple(taken))
        return job, (*(argument for argument, _ in given), *taken.values()), named

    def _has(self, sample: Any) -> bool:
        return id(sample) in self.data_futures or self._on_workers(sample)[0] is not sample

    def _on_workers(self, argument: Any) -> tuple[Any, Array | None]:
        """Return the array that the workers have for this one, and which rows of it (None: all)."""
        if isinstance(argument, np.ndarray):
            for one in self._samples:
                if _same(one, argument):
                    return one, None
            for part, whole, rows in self._parts:
                if _same(part(), argument):
                    return whole, rows
        return argument, None


def _held_everywhere(client: Client, futures: Sequence[Any]) -> list[Any]:
    """Return futures that keep the samples on every worker for as long as they live.

    After two seconds without work Dask's memory manager would drop all copies but one, to send them anew. It spares as
    many as there are tasks waiting for them: so many wait here, for one that no worker can do.
    """
    if not futures:
        return []
    never = client.submit(_nothing, resources={"tensormargin waits for nothing": 1}, pure=False)
    waiting = [client.submit(_nothing, *futures, never, pure=False) for _ in client.nthreads()]
    return [never, *waiting]


def _nothing(*_: Any) -> None:
    pass


@dataclass(frozen=True)
class WorkerCall:
    """What a worker does: one thing after the other, whatever is parallel inside, since the other workers are busy too.

    The arguments at the places ``taken`` are whole arrays, of which the rows at the end of the arguments are meant.
    """

    function: Callable[..., Any]
    taken: tuple[int, ...]

    @property
    def __name__(self) -> str:  # what Dask's dashboard shows
        return str(getattr(self.function, "__name__", type(self.function).__name__))

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Do it."""
        given = list(arguments)
        rows = given[len(given) - len(self.taken) :]
        del given[len(given) - len(self.taken) :]
        for place, own in zip(self.taken, rows, strict=True):
            given[place] = _shared_part(given[place], own)
        with parallel_config(backend="sequential"):
            return self.function(*given, **named)


_in_use: weakref.WeakValueDictionary[tuple[int, bytes], Array] = weakref.WeakValueDictionary()
_taking = Lock()


def _shared_part(whole: Array, rows: Array) -> Array:
    """Return rows of an array; threads of one worker that need the same ones at the same time share them."""
    key = id(whole), rows.tobytes()  # who uses a part holds the whole, too: no other array has its id
    with _taking:
        part = _in_use.get(key)
        if part is None:
            part = _in_use[key] = whole[rows]
    return part


def _same(one: Any, array: Array) -> bool:
    """Tell whether both are the same entries in memory: checks of memory maps and the like return views."""
    return isinstance(one, np.ndarray) and _place(one) == _place(array)


def _place(array: Array) -> tuple[Any, ...]:
    return array.ctypes.data, array.shape, array.strides, array.dtype


def _tell_failure(callback: Callable[..., Any], future: Any) -> None:
    error = future.exception()
    if error is not None:
        callback(error)
