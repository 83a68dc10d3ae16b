"""The time that a computation may take."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from math import inf, isfinite
from time import monotonic
from typing import Any


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

    def __init__(self, seconds: float = inf, clock: Callable[[], float] = monotonic) -> None:
        self._clock, self._end = clock, clock() + seconds
        self.budget = seconds
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
        one = Deadline(clock=self._clock)
        one._end, one.budget, one.costs = end, self.budget, self.costs
        return one

    def __reduce__(self) -> Any:
        return _arrived, (self.left, self.budget)

    def __str__(self) -> str:
        return f"the budget of {self.budget:g} s"


def _arrived(left: float, budget: float) -> Deadline:
    one = Deadline(left)
    one.budget = budget
    return one
