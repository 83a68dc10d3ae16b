"""An extension of joblib's Dask backend. Imported only when a cluster is used, since it imports Dask.

Samples stay on every worker, and subsets are taken there. Jobs start no further parallel jobs. With ``n_jobs=1`` jobs
run locally. A lost job is sent again or raises an error, whereas joblib 1.6 waits for it forever.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Any

import cloudpickle
import numpy as np
from distributed import CancelledError, Client, KilledWorker
from distributed.comm import CommClosedError
from joblib import parallel_config
from joblib._dask import Batch, DaskDistributedBackend

from . import dask_waits
from .array_api import Array
from .dask_waits import LostWorkersError, Patience, lost_job, no_workers, patience
from .locks import ForkSafeLock

_ALLOWED_LOSSES = 3  # of a job's samples, as many as Dask allows of its workers
_PAUSE = 0.1  # seconds before data are sent again to workers that may not know yet that one of them is dead

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
        super().__init__(client=client, wait_for_workers_timeout=patience())
        self._samples: list[Any] = []  # arrays that every worker has
        self._renewal: asyncio.Future[None] | None = None  # of samples that were lost
        self._parts: list[tuple[weakref.ref[Array], Array, Array]] = []  # a subset, its whole array, and its rows
        self._untold: set[Callable[..., Any]] = set()  # functions that wait for the result of a batch

    @contextmanager
    def holding(self, *samples: Any) -> Iterator[None]:
        """Keep samples on every worker within the context; they are sent once, unless already there."""
        new = list({id(one): one for one in samples if not self._has(one)}.values())
        futures = self.client.sync(self._scattered, new, broadcast=True) if new else []
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
        try:
            return max(2, super().effective_n_jobs(n_jobs))  # with 1, joblib would run the jobs locally
        except TimeoutError as error:
            raise no_workers() from error

    def start_call(self) -> None:
        """Prepare for a call of `joblib.Parallel`, and watch the workers until it ends."""
        super().start_call()
        self._untold = set()
        self.client.loop.add_callback(self._watch, self._untold)

    def stop_call(self) -> None:
        """Tidy up after a call of `joblib.Parallel`."""
        self._untold = set()
        super().stop_call()

    async def _watch(self, untold: set[Callable[..., Any]]) -> None:
        """Let the batches of a call fail once there are no workers; Dask would keep them for workers that may come."""
        left = Patience()
        while self._untold is untold:
            await asyncio.sleep(dask_waits.LOOK)
            try:
                left.look(await self._number_of_workers() if untold else 1)
            except LostWorkersError as error:
                for tell in list(untold):
                    tell(error)

    async def _number_of_workers(self) -> int:
        try:
            return len(await self.client.scheduler.ncores())
        except (OSError, ValueError, RuntimeError, AttributeError):  # the scheduler is gone, or the client is closed
            return 0

    def submit(self, func: Any, callback: Callable[..., Any]) -> Any:
        """Send a batch of jobs; ``callback`` receives its result or its failure."""
        func.items = [self._job(*item) for item in func.items]
        tell = _told_once(callback, self._untold)
        try:
            self._check_can_travel(func.items)
        except TypeError as error:
            future: Any = Future()
            future.set_exception(error)
        else:
            return self._send(func, tell, 0)
        future.add_done_callback(partial(_tell_failure, tell))
        return future

    def _send(self, func: Any, tell: Callable[..., Any], losses: int) -> Any:
        """Send a batch of jobs; again, with the samples, which Dask cannot restore, if their last worker died."""

        def answer(out: Any) -> None:
            if isinstance(out, CancelledError) and losses < _ALLOWED_LOSSES:
                self.client.loop.add_callback(self._send_again, func, tell, losses + 1)
            else:
                tell(out)

        func.tell = tell
        future = _submit(self, func, answer)
        future.add_done_callback(partial(_tell_failure, tell))
        return future

    async def _to_func_args(self, func: Any) -> Any:
        """Send the arguments of a batch; again if their worker dies, of which joblib would never be told."""

        async def send() -> Any:
            try:
                _, jobs = await super(ClusterBackend, self)._to_func_args(func)
                return WorkerBatch(jobs), jobs
            except Exception:
                self.call_data_futures.clear()  # they failed as well
                raise

        try:
            return await self._until_received(send)
        except Exception as error:
            func.tell(error)
            raise

    async def _send_again(self, func: Any, tell: Callable[..., Any], losses: int) -> None:
        if self._renewal is None or self._renewal.done():  # jobs that were lost together share one
            self._renewal = asyncio.ensure_future(self._renew())
        try:
            await self._renewal
            self._send(func, tell, losses)
        except Exception as error:  # noqa: BLE001 - joblib waits until it is told of an error, whichever it is
            tell(error)

    async def _renew(self) -> None:
        """Send all samples again, to any worker that there is or will be soon."""
        self.call_data_futures.clear()
        if self._samples:
            sent = await self._scattered(self._samples)
            self.data_futures |= {id(one): future for one, future in zip(self._samples, sent, strict=True)}

    async def _scattered(self, samples: list[Any], **options: Any) -> Any:
        """Return futures of samples that are sent to one of the workers, or to all with ``broadcast=True``."""
        # hash=False: equal content would give the same key, and data released under it may still be being deleted
        scatter = partial(self.client.scatter, samples, hash=False, asynchronous=True, timeout=patience(), **options)
        return await self._until_received(scatter)

    async def _until_received(self, send: Callable[[], Awaitable[Any]]) -> Any:
        """Return the result of a function that sends data; call it again if the worker that receives them dies.

        A death may fail several attempts until the scheduler knows of it, so the time decides as well. The scheduler
        raises KeyError for a worker that has them, but has died before the scheduler writes that down.
        """
        began, attempts = monotonic(), 0
        while True:
            try:
                return await send()
            except (OSError, CancelledError, KeyError) as error:
                attempts += 1
                late = monotonic() - began >= patience()
                if late and isinstance(error, TimeoutError):
                    raise no_workers() from error
                if self.client.status == "closed" or (late and attempts > _ALLOWED_LOSSES):
                    raise lost_job(error) from error
            await asyncio.sleep(_PAUSE)

    def retrieve_result_callback(self, out: Any) -> Any:
        """Return the results of a batch, or raise its error."""
        try:
            return super().retrieve_result_callback(out)
        except (KilledWorker, CancelledError, CommClosedError) as error:
            raise lost_job(error) from error

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


class WorkerBatch(Batch):
    """Jobs, one after the other, without joblib's client for further ones, which would stay as Dask's default."""

    def __call__(self, tasks: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Return the results of the jobs."""
        return [function(*arguments, **named) for function, arguments, named in tasks]


@dataclass(frozen=True)
class WorkerCall:
    """A call on a worker, without inner parallelism; arguments at ``taken`` are whole arrays, their rows come last."""

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
_taking = ForkSafeLock()


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


def _told_once(callback: Callable[..., Any], untold: set[Callable[..., Any]]) -> Callable[..., Any]:
    """Return a function that calls back the first time that it is called, and is among the untold until then."""

    def tell(out: Any) -> None:
        if tell in untold:
            untold.discard(tell)
            callback(out)

    untold.add(tell)
    return tell


def _tell_failure(callback: Callable[..., Any], future: Any) -> None:
    error = future.exception()
    if error is not None:
        callback(error)
