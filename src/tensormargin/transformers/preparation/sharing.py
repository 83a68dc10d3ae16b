"""Representations that several models of a search have in common are computed once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

import joblib
import numpy as np

from ...runtime import Array, tuning


class Sharing:
    """Results of transformers, kept as long as somebody shares them, up to a total size.

    A result is found by the content of the samples and of the fitted transformer, so that it does not matter how often
    either was copied.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Array] = OrderedDict()
        self._busy: dict[str, Lock] = {}
        self._users = 0
        self._lock = Lock()

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Keep results until the block is left."""
        with self._lock:
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if not self._users:
                    self._kept.clear()
                    self._busy.clear()

    def get(self, transformer: Any, X: Any, compute: Callable[[], Array]) -> Array:
        """Return the result of a fitted transformer for X: a kept one, which is read-only, or that of ``compute``."""
        if not self._users or not isinstance(X, np.ndarray):
            return compute()
        key = joblib.hash([type(transformer).__qualname__, _content(transformer), X])
        with self._lock:
            busy = self._busy.setdefault(key, Lock())
        with busy:  # others that need the same result wait for it
            with self._lock:
                if key in self._kept:
                    self._kept.move_to_end(key)
                    return self._kept[key]
            result = compute()
            result.flags.writeable = False
            self._keep(key, result)
        return result

    def _keep(self, key: str, result: Array) -> None:
        with self._lock:
            if not self._users:  # the last one has left meanwhile, and nobody would clear it
                return
            self._kept[key] = result
            while sum(one.nbytes for one in self._kept.values()) > tuning.SHARED_RESULTS_BYTES:
                self._kept.popitem(last=False)


def _content(transformer: Any) -> dict[str, Any]:
    """Return the attributes of a transformer without those by which scikit-learn's pipelines call back."""
    return {name: value for name, value in vars(transformer).items() if "callback" not in name}


shared = Sharing()
"""What all searches of this process share: ``with shared():``."""
