"""Locks, and counts of users, that are right in a forked process.

Of the threads of a process, a fork copies only the one that forks. In the copy, a lock that another one holds would
never be released, and what another one has begun would never end.
"""

from __future__ import annotations

import os
import sys
from contextlib import ContextDecorator
from functools import cached_property
from threading import Lock, RLock, get_ident
from typing import Any
from weakref import WeakSet

_forking = RLock()  # held by a thread that forks, so that no other one is halfway through a change
_held: list[Any] = []  # by it, too


class ForkSafeLock:
    """A lock that is free in a forked process, unless the thread that forks holds it."""

    def __init__(self) -> None:
        self._lock, self._owner = Lock(), 0
        _to_renew.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()
        self._owner = get_ident()

    def __exit__(self, *_: object) -> None:
        self._owner = 0
        self._lock.release()

    def renew(self) -> None:
        """Forget all threads but this one."""
        self._lock = Lock()
        if self._owner == get_ident():
            self._lock.acquire()


class UsedByThreads(ContextDecorator):
    """Something that begins with the first of several blocks that overlap, in any threads, and ends with the last."""

    _lock = _forking

    def __init__(self) -> None:
        self._users: list[int] = []  # the thread of each block
        _to_renew.add(self)

    def __enter__(self) -> None:
        with self._lock:
            self._users.append(get_ident())
            if len(self._users) == 1:
                self._begin()

    def __exit__(self, *_: object) -> None:
        with self._lock:
            user = get_ident()
            self._users.remove(user if user in self._users else self._users[0])  # another thread may have entered
            if not self._users:
                self._end()

    def renew(self) -> None:
        """Forget the blocks of all threads but this one."""
        before, self._users = self._users, [user for user in self._users if user == get_ident()]
        if before and not self._users:
            self._end()

    def _begin(self) -> None:
        """Begin, in the first block."""

    def _end(self) -> None:
        """End, after the last block."""


_to_renew: WeakSet[ForkSafeLock | UsedByThreads] = WeakSet()


def _begin_fork() -> None:
    """Wait until no thread is halfway through a change, nor draws from NumPy's global random state."""
    _forking.acquire()
    state = getattr(sys.modules.get("numpy.random"), "get_bit_generator", None)
    _held[:] = [] if state is None else [state().lock]
    for lock in _held:
        lock.acquire()


def _end_fork() -> None:
    for lock in _held:
        lock.release()
    _forking.release()


def _begin_copy() -> None:
    """Make everything right in a process that was forked."""
    for one in _to_renew:
        one.renew()
    if sys.version_info < (3, 12):  # where all objects of a class share a lock for each cached property
        modules = [module for name, module in sys.modules.items() if name.startswith("tensormargin.")]
        classes = [one for module in modules for one in vars(module).values() if isinstance(one, type)]
        for value in (value for one in classes for value in vars(one).values()):
            if isinstance(value, cached_property):
                value.lock = RLock()  # type: ignore[attr-defined]
    _end_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_begin_fork, after_in_parent=_end_fork, after_in_child=_begin_copy)
