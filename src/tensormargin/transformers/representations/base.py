"""Base class of the representations that are not linear; several models of a search share what they compute."""

from __future__ import annotations

from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable
from hashlib import blake2b
from typing import Any, ClassVar

import joblib
import numpy as np

from ...data import NO_METADATA, Metadata
from ...runtime import Array, FloatArray, ForkSafeLock, UsedByThreads, like, to_host, tuning
from ..preparation._base import KeepsTensors
from ..preparation._passes import floating, parts


class Sharing(UsedByThreads):
    """Results of transformers for single samples, kept as long as somebody shares them, up to a total size.

    They are found by the content of the sample and of the fitted transformer, so that it does not matter how often
    either was copied: what learns nothing from the training set is done once for all splits.
    """

    def __init__(self) -> None:
        super().__init__()
        self._kept: OrderedDict[str, _Rows] = OrderedDict()
        self._busy: dict[str, ForkSafeLock] = {}

    def _end(self) -> None:
        self._kept.clear()
        self._busy.clear()

    def rows(self, transformer: Any, X: Any, compute: Callable[[Any], Array], ignore: Collection[str] = ()) -> Array:
        """Return the results of a fitted transformer for samples X, one per row: kept ones, or those of ``compute``.

        They are read-only. ``ignore`` names attributes of the transformer that do not matter.
        """
        if not self._users or not isinstance(X, np.ndarray) or not len(X):
            return compute(X)
        key = joblib.hash([_content(transformer, ignore), X.dtype.str, X.shape[1:]])
        digests: list[Hashable] = [blake2b(np.ascontiguousarray(one).data, digest_size=16).digest() for one in X]
        with self._lock:
            busy = self._busy.setdefault(key, ForkSafeLock())
        with busy:  # others that need the same result wait for it
            with self._lock:
                kept = self._kept.get(key, _Rows())
            missing = [place for place, one in enumerate(digests) if one not in kept.rows]
            if missing:
                result = compute(X if len(missing) == len(X) else X[missing])
                result.flags.writeable = False
                kept.add([digests[place] for place in missing], result)
            self._keep(key, kept)
            return kept.take(digests)

    def _keep(self, key: str, kept: _Rows) -> None:
        with self._lock:
            if not self._users:  # the last one has left meanwhile, and nobody would clear it
                return
            self._kept[key] = kept
            self._kept.move_to_end(key)
            while sum(one.n_bytes for one in self._kept.values()) > tuning.SHARED_RESULTS_BYTES:
                self._kept.popitem(last=False)


def _content(transformer: Any, ignore: Collection[str] = ()) -> Any:
    """Return what the result of a transformer depends on; scikit-learn's pipelines call back by some attributes."""
    own = {name: value for name, value in vars(transformer).items() if "callback" not in name and name not in ignore}
    return [type(transformer).__qualname__, own]


class _Rows:
    """Results of single samples, rows of the arrays in which they were computed."""

    def __init__(self) -> None:
        self.rows: dict[Hashable, Array] = {}
        self.n_bytes = 0
        self._blocks: list[tuple[list[Hashable], Array]] = []

    def add(self, digests: list[Hashable], block: Array) -> None:
        self.rows.update(zip(digests, block, strict=True))
        self.n_bytes += block.nbytes
        self._blocks.append((digests, block))

    def take(self, digests: list[Hashable]) -> Array:
        """Return the results of these samples: an array as it was computed, or a new one."""
        for own, block in self._blocks:
            if own == digests:
                return block
        found = np.stack([self.rows[one] for one in digests])  # each row is copied once
        found.flags.writeable = False
        return found


shared = Sharing()
"""What all searches of this process share: ``with shared:``."""


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
        return like(shared.rows(self, X, self._represent_all), X)

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
