"""An extension of joblib's Dask backend. Imported only when a cluster is used, since it imports Dask.

Samples stay on every worker, and subsets are taken there. Jobs start no further parallel jobs. With ``n_jobs=1`` jobs
run locally. A lost job raises an error, whereas joblib 1.6 waits for it forever.
"""

from __future__ import annotations

import asyncio
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
from distributed.comm import CommClosedError
from joblib import parallel_config
from joblib._dask import DaskDistributedBackend

from .._typing import Array
from .errors import LostWorkersError

_ALLOWED_LOSSES = 3  # of a job's samples, as many as Dask allows of its workers
_PATIENCE = 30.0  # seconds in which a worker has to take the place of the last one

# joblib 1.5 calls `submit` of a backend, which its Dask backend has under an older name
_submit = vars(DaskDistributedBackend).get("submit") or DaskDistributedBackend.apply_async


@contextmanager
def connected(target: Any, timeout: float) -> Iterator[Client]:
    """Yield a client for the scheduler at an address, closed afterwards, or the given client."""
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
        self._samples: list[Any] = []  # arrays that every worker has
        self._renewal: asyncio.Future[None] | None = None  # of samples that were lost
        self._parts: list[tuple[weakref.ref[Array], Array, Array]] = []  # a subset, its whole array, and its rows

    @contextmanager
    def holding(self, *samples: Any) -> Iterator[None]:
        """Keep samples on every worker within the context; they are sent once, unless already there."""
        new = list({id(one): one for one in samples if not self._has(one)}.values())
        # hash=False: equal content would give the same key, and data released under it may still be being deleted
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
        """Record that ``part`` is these rows of an array, if the workers have that array."""
        found = next((one for one in self._samples if _same(one, whole)), None)
        if found is not None:
            living = [known for known in self._parts if known[0]() is not None]
            self._parts = [*living, (weakref.ref(part), found, np.asarray(rows))]

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        """Return the number of threads of all workers, or 1 for ``n_jobs=1``."""
        if n_jobs == 1:
            return 1
        return max(2, super().effective_n_jobs(n_jobs))  # with 1, joblib would run the jobs locally

    def submit(self, func: Any, callback: Callable[..., Any]) -> Any:
        """Send a batch of jobs; ``callback`` receives its result or its failure."""
        func.items = [self._job(*item) for item in func.items]
        try:
            self._check_can_travel(func.items)
        except TypeError as error:
            future: Any = Future()
            future.set_exception(error)
        else:
            return self._send(func, callback, 0)
        future.add_done_callback(partial(_tell_failure, callback))
        return future

    def _send(self, func: Any, callback: Callable[..., Any], losses: int) -> Any:
        """Send a batch of jobs; send it again, with the samples, if the last worker that had these died.

        Dask runs the jobs of a worker that dies on another one, but it cannot bring back the samples that were sent.
        """

        def answer(out: Any) -> None:
            if isinstance(out, CancelledError) and losses < _ALLOWED_LOSSES:
                self.client.loop.add_callback(self._send_again, func, callback, losses + 1, out)
            else:
                callback(out)

        func.tell = callback
        future = _submit(self, func, answer)
        future.add_done_callback(partial(_tell_failure, callback))
        return future

    async def _to_func_args(self, func: Any) -> Any:
        """Send the arguments of a batch; send them again if the worker that receives them dies.

        joblib is not told of the failure, and would wait for the batch forever.
        """
        for losses in range(_ALLOWED_LOSSES + 1):
            try:
                return await super()._to_func_args(func)
            except (OSError, TimeoutError, CancelledError) as error:
                self.call_data_futures.clear()  # they failed as well
                if losses == _ALLOWED_LOSSES:
                    func.tell(error)
                    raise
        raise AssertionError("unreachable")

    async def _send_again(self, func: Any, callback: Callable[..., Any], losses: int, lost: CancelledError) -> None:
        if self._renewal is None or self._renewal.done():  # jobs that were lost together share one
            self._renewal = asyncio.ensure_future(self._renew())
        try:
            await self._renewal
            self._send(func, callback, losses)
        except (CancelledError, CommClosedError):  # the worker that received them died, or the scheduler is gone
            if losses < _ALLOWED_LOSSES:
                self.client.loop.add_callback(self._send_again, func, callback, losses + 1, lost)
            else:
                callback(lost)
        except (OSError, TimeoutError, RuntimeError):  # no worker came
            callback(lost)

    async def _renew(self) -> None:
        """Send all samples again, to any worker that there is or will be soon."""
        self.call_data_futures.clear()
        if self._samples:
            sent = await self.client.scatter(self._samples, hash=False, asynchronous=True, timeout=_PATIENCE)
            self.data_futures |= {id(one): future for one, future in zip(self._samples, sent, strict=True)}

    def retrieve_result_callback(self, out: Any) -> Any:
        """Return the results of a batch, or raise its error."""
        try:
            return super().retrieve_result_callback(out)
        except (KilledWorker, CancelledError, CommClosedError) as error:
            raise LostWorkersError(
                f"the cluster lost a job: {error} Workers die where memory runs out (give them more, or fewer threads "
                "each) and where their time is up; their logs say which"
            ) from error

    def _check_can_travel(self, jobs: Sequence[tuple[Any, ...]]) -> None:
        """Raise TypeError for a job that cannot be pickled; joblib is not told when Dask fails to pickle it."""
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
        """Return a job that uses the samples held by the worker."""
        given = [self._on_workers(argument) for argument in arguments]
        taken = {place: rows for place, (_, rows) in enumerate(given) if rows is not None}
        job = WorkerCall(function, tuple(taken))
        return job, (*(argument for argument, _ in given), *taken.values()), named

    def _has(self, sample: Any) -> bool:
        return id(sample) in self.data_futures or self._on_workers(sample)[0] is not sample

    def _on_workers(self, argument: Any) -> tuple[Any, Array | None]:
        """Return the array on the workers that contains this one, and its rows in it (None for all)."""
        if isinstance(argument, np.ndarray):
            for one in self._samples:
                if _same(one, argument):
                    return one, None
            for part, whole, rows in self._parts:
                if _same(part(), argument):
                    return whole, rows
        return argument, None


def _held_everywhere(client: Client, futures: Sequence[Any]) -> list[Any]:
    """Return futures that keep the samples on every worker as long as they exist.

    After two idle seconds Dask's memory manager drops all copies but one, which would have to be sent again. It keeps
    one copy per task that waits for them. So we submit one task per worker that waits for a task no worker can run.
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
    """A call on a worker, with inner parallelism disabled because the other workers are busy too.

    The arguments at the positions ``taken`` are whole arrays; the rows to use are at the end of the arguments.
    """

    function: Callable[..., Any]
    taken: tuple[int, ...]

    @property
    def __name__(self) -> str:  # shown on Dask's dashboard
        return str(getattr(self.function, "__name__", type(self.function).__name__))

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Return the result of the function for these arguments."""
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
    """Return rows of an array; threads of one worker that need the same rows at the same time share them."""
    key = id(whole), rows.tobytes()  # users of a subset also hold the whole array, so its id stays unique
    with _taking:
        part = _in_use.get(key)
        if part is None:
            part = _in_use[key] = whole[rows]
    return part


def _same(one: Any, array: Array) -> bool:
    """Return whether both arrays are the same memory; validation may return views, e.g. of memory maps."""
    return isinstance(one, np.ndarray) and _place(one) == _place(array)


def _place(array: Array) -> tuple[Any, ...]:
    return array.ctypes.data, array.shape, array.strides, array.dtype


def _tell_failure(callback: Callable[..., Any], future: Any) -> None:
    error = future.exception()
    if error is not None:
        callback(error)
