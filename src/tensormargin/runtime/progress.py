"""Progress of long computations, and the time that they may take."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from math import exp, inf, isfinite
from time import monotonic, perf_counter
from typing import Any, Protocol

_FIRST = 1.0  # seconds of reported work from which its pace says how long the rest takes


class Progress(Protocol):
    """Callback that receives the progress of a long computation."""

    def __call__(self, done: float, total: float, text: str) -> None:
        """Show that ``done`` of ``total`` is finished, with a description."""


def stage_progress(progress: Progress | None, lengths: Sequence[float], stage: int, name: str) -> Progress | None:
    """Return a callback for one of several stages of some lengths, which reports to the callback of the whole."""
    if progress is None:
        return None
    whole, before = progress, sum(lengths[:stage])

    def show(done: float, total: float, text: str) -> None:
        whole(before + done / total * lengths[stage], sum(lengths), f"{name}{text}")

    return show


class EqualStages:
    """Stages of equal length; the share of a stage that is reported is measured on the finished ones.

    Before, it is the ``expected`` share.
    """

    def __init__(self, progress: Progress | None, number: int, expected: float = 1.0) -> None:
        self._progress, self._number, self._expected = progress, number, expected
        self._reported = self._all = 0.0  # seconds of the finished stages

    def begin(self, stage: int, name: str) -> Progress | None:
        """Return the callback of a stage that begins now; None if there is none for the whole."""
        self._stage, self._name = stage, name
        self._began = self._last = perf_counter()
        part = stage_progress(self._progress, [1] * self._number, stage, f"{name}, ")
        if part is None:
            return None
        share = self._reported / self._all if self._all > 0 else self._expected

        def show(done: float, total: float, text: str) -> None:
            self._last = perf_counter()
            part(share * done, total, text)

        return show

    def end(self) -> None:
        """Report that the stage has ended."""
        self._reported += self._last - self._began
        self._all += perf_counter() - self._began
        if self._progress is not None:
            self._progress(self._stage + 1, self._number, self._name)


class WorkMeter:
    """Measures fits of several kinds, whose costs differ, and predicts how long the others take."""

    def __init__(self, fits: Mapping[str, int]) -> None:
        self._fits = {kind: number for kind, number in fits.items() if number > 0}
        self._done = dict.fromkeys(self._fits, 0)
        self._seconds = dict.fromkeys(self._fits, 0.0)

    def add(self, kind: str, fits: int, seconds: float) -> None:
        """Count finished fits of a kind, and the time that they took."""
        self._done[kind] += fits
        self._seconds[kind] += seconds

    @property
    def done(self) -> int:
        """Number of finished fits."""
        return sum(self._done.values())

    @property
    def fits(self) -> int:
        """Number of fits in all."""
        return sum(self._fits.values())

    @property
    def seconds(self) -> tuple[float, float]:
        """Seconds of work done and expected in all, which is 0 until each kind has been measured."""
        done = sum(self._seconds.values())
        if not all(self._done.values()):
            return done, 0.0
        return done, sum(self._seconds[kind] / self._done[kind] * number for kind, number in self._fits.items())


class Forecast:
    """Predicts, from what has been reported, how far a computation is and how long it will take.

    Between two reports the share goes on, slower and slower, by at most the mean of the steps so far. With
    ``in_seconds``, reports are in seconds of expected time, so that what is missing is the time left. Otherwise the
    time left follows from the pace since the first report, whose work may be that of an earlier run, as soon as there
    is a second of it: the first fits alone say little about the others. ``afterwards`` are seconds of what follows when
    all work has been reported.
    """

    def __init__(self, in_seconds: bool = False) -> None:
        self._in_seconds, self.afterwards = in_seconds, 0.0
        self._first: tuple[float, float, float] | None = None  # time, work and share of the first report
        self._last = self._steps = 0.0
        self._share = self._shown = 0.0
        self._left: float | None = None

    def report(self, now: float, done: float, total: float) -> None:
        """Take in that ``done`` of ``total`` is finished at a time; a total of 0 is not known yet."""
        if total <= 0:
            return
        self._share, self._last = done / total, now
        if self._first is None:
            self._first = now, done, self._share
        elif done > self._first[1]:
            self._steps += 1
        began, before, _ = self._first
        if self._in_seconds:
            self._left = total - done + self.afterwards
        elif done > before and now - began >= _FIRST:
            self._left = (now - began) / (done - before) * (total - done) + self.afterwards

    def share(self, now: float) -> float:
        """Return the expected share of finished work, between 0 and 1; it never falls."""
        ahead = 0.0
        if self._steps and self._first is not None and self._share < 1 and self._last > self._first[0]:
            step, interval = (self._share - self._first[2]) / self._steps, (self._last - self._first[0]) / self._steps
            ahead = step * (1 - exp((self._last - now) / interval))
        self._shown = max(self._shown, min(self._share + ahead, 0.99) if self._share < 1 else 1.0)
        return self._shown

    def left(self, now: float) -> float | None:
        """Return the expected time left in seconds, None if it is not known yet."""
        return None if self._left is None else max(0.0, self._left - (now - self._last))


class Costs:
    """Seconds that pieces of work have taken: the most of each kind. Copies in other processes start empty."""

    def __init__(self) -> None:
        self._most: dict[Hashable, float] = {}

    def add(self, kind: Hashable, seconds: float) -> None:
        """Take in that a piece of work has ended."""
        self._most[kind] = max(seconds, self._most.get(kind, 0.0))

    def __contains__(self, kind: Hashable) -> bool:
        return kind in self._most

    def of(self, *kinds: Hashable) -> float:
        """Return the seconds of the first of several kinds that has been measured, 0 if none has."""
        return next((self._most[kind] for kind in kinds if kind in self._most), 0.0)

    def __reduce__(self) -> Any:
        return Costs, ()


class Deadline:
    """The end of a computation that has a budget, and what its pieces have taken so far.

    Time goes on while a deadline travels to another process, but not the time on the way: its clock may be another one.
    ``budget`` is that of the deadline that this one is a part of; all parts share their ``costs``.
    """

    def __init__(
        self, seconds: float = inf, clock: Callable[[], float] = monotonic, budget: float | None = None
    ) -> None:
        self._clock, self._end = clock, clock() + seconds
        self.budget = seconds if budget is None else budget
        self.costs = Costs()

    @classmethod
    def of(cls, budget: float | Deadline | None) -> Deadline:
        """Return a deadline as it is, or one after so many seconds; None for one that never comes."""
        return budget if isinstance(budget, Deadline) else cls(inf if budget is None else budget)

    def now(self) -> float:
        """Return the time in seconds, of which only differences mean anything."""
        return self._clock()

    @property
    def left(self) -> float:
        """Seconds until the deadline; negative after it."""
        return self._end - self._clock()

    @property
    def limited(self) -> bool:
        """Whether the deadline will ever come."""
        return isfinite(self._end)

    def allows(self, seconds: float = 0.0) -> bool:
        """Return whether work that takes so many seconds would end in time."""
        return self.left > seconds

    def part(self, share: float) -> Deadline:
        """Return the deadline of a piece of work that may take a share of the time left."""
        return self.after(share * max(self.left, 0.0) if self.limited else inf)

    def after(self, seconds: float) -> Deadline:
        """Return the deadline of a piece of work that begins now and may take so many seconds."""
        return self._with(self._clock() + seconds)

    def sooner(self, seconds: float) -> Deadline:
        """Return the deadline of work after which something else takes so many seconds."""
        return self._with(self._end - seconds)

    def _with(self, end: float) -> Deadline:
        one = Deadline(clock=self._clock, budget=self.budget)
        one._end, one.costs = end, self.costs
        return one

    def __reduce__(self) -> Any:
        return Deadline, (self.left, monotonic, self.budget)

    def __str__(self) -> str:
        return f"the budget of {self.budget:g} s"
