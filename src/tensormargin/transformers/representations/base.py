"""Base class of the representations that are not linear; several models of a search share what they compute."""

from __future__ import annotations

from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from threading import Lock
from typing import Any, ClassVar

import joblib
import numpy as np

from ...data import NO_METADATA, Metadata
from ...runtime import Array, FloatArray, like, to_host, tuning
from ..preparation._base import KeepsTensors
from ..preparation._passes import floating, parts


class Sharing:
    """Results of transformers, kept as long as somebody shares them, up to a total size.

    A result is found by the content of the samples and of the fitted transformer, so that it does not matter how often
    either was copied.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Array] = OrderedDict()
        self._busy: dict[str, Lock] = {}
        self._users, self._lock = 0, Lock()

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
        # Pipelines of scikit-learn call back by some attributes of transformers.
        content = {name: value for name, value in vars(transformer).items() if "callback" not in name}
        key = joblib.hash([type(transformer).__qualname__, content, X])
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


shared = Sharing()
"""What all searches of this process share: ``with shared():``."""


class Representation(KeepsTensors):
    """A transformer that is not linear; a subclass defines what becomes of some samples (`_represent`).

    Samples are represented by NumPy, part by part, and the results returned to the library and device of the samples.
    A weight on them cannot be pulled back: maps are drawn on the representation itself.
    """

    _keeps_modes: ClassVar[bool] = False

    @property
    def maps_after(self) -> bool:
        return True

    def _change(self, X: Any, metadata: Metadata = NO_METADATA) -> Any:
        return like(shared.get(self, X, partial(self._represent_all, X)), X)

    def _represent_all(self, X: Any) -> Array:
        changed = np.empty((X.shape[0], *self._shape_of_parts()), floating(X))
        for where in parts(X):
            changed[where] = self._represent(as_double(X[where, ...]))
        return changed

    def _shape_of_parts(self) -> tuple[int, ...]:
        return self.sample_shape_out_

    @abstractmethod
    def _represent(self, part: FloatArray) -> Array:
        """Return the representation of some samples, which depends on no other samples."""

    def pull_back(self, weight: Any) -> Array:
        """Raise TypeError: the representation is not linear in the samples."""
        raise TypeError(
            f"cannot pull a weight back through {type(self).__name__}: what it returns is not linear in the samples, "
            "so there is no weight on the samples themselves"
        )


def as_double(part: Any) -> FloatArray:
    """Return some samples as a NumPy array of float64."""
    return to_host(part).astype(np.float64, copy=False)
