"""Checkpoints: finished parts of a long computation, kept in files so that an interrupted run can be resumed.

A computation is divided into units, such as the fits of one method on one split. Each finished unit is stored under a
key as JSON, in a folder named after everything that determines its result: samples, settings, code and software
versions. A run with other samples, settings, code or versions therefore never finds it. A file is named after its
content: one that is damaged or edited is not read.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from pickle import PicklingError
from typing import Any, Self

import numpy as np
from joblib import Parallel

from ..runtime import is_marked, mark, remove_leftovers, remove_marker, replacing, worker_options
from .fingerprints import fingerprint

_SECONDS = 1.0  # between two writes at the beginning of a run
_SHARE = 0.02  # of the time since then: later writes are rarer, so that a long run does not leave thousands of files
_NOT_KEPT = "finished work cannot be kept for another run: {}"
_DAYS = 30.0  # after which the units of runs that were never resumed are removed
_FOLDER_NAME = re.compile(r"[a-z]+-[0-9a-f]{40}")  # of the units of a computation, and of those inside a unit
_FILE_NAME = re.compile(r"[0-9a-f]{64}\.json")


class Checkpoint:
    """A folder that holds the finished units of interrupted computations.

    `tensormargin.nested_evaluation`, `tensormargin.permutation_test`, `tensormargin.evaluation.compare` and the search
    take a checkpoint, skip the units in it and add those that they finish. Only data are stored, never code. Functions
    and classes of your own belong to what results depend on, with all that they refer to: change one, and its results
    are computed again. What they read from files is not seen; nothing is kept for code that cannot be told from another
    version of it (``eval``, compiled functions of your own), and a warning says so.

    Parameters
    ----------
    folder : str or Path
        Created when the first unit is stored. Several computations and processes may share it, and whatever else is in
        it stays.
    fresh : bool, default=False
        Whether to forget the units of earlier runs.

    Attributes
    ----------
    resumed : bool
        Whether a computation has found units of an earlier run.

    Examples
    --------
    >>> from tensormargin import Checkpoint, TensorMarginClassifierCV, nested_evaluation
    >>> checkpoint = Checkpoint("unfinished")
    >>> evaluation = nested_evaluation(TensorMarginClassifierCV(), X, y, checkpoint=checkpoint)  # doctest: +SKIP
    >>> checkpoint.remove()
    """

    def __init__(self, folder: str | Path, fresh: bool = False) -> None:
        self.folder = Path(folder).expanduser()
        self.fresh = fresh
        self.resumed = False
        self._opened: list[Units] = []

    def opened(self, name: str, *content: Any) -> Units:
        """Return the units of one computation.

        Parameters
        ----------
        name : str
            Kind of the computation, the beginning of the folder's name.
        *content : arrays, estimators, settings
            Everything that determines the results.
        """
        try:
            folder = self.folder / f"{name}-{fingerprint(content)}"
        except PicklingError as error:
            warnings.warn(_NOT_KEPT.format(error), RuntimeWarning, stacklevel=2)
            return Units(None)
        if self.fresh:
            _remove(folder)
        self.resumed = self.resumed or folder.exists()
        self._opened.append(Units(folder))
        return self._opened[-1]

    def remove(self) -> None:
        """Remove the units of all computations that were opened, which are complete, and others that are very old.

        Only files and folders that checkpoints made are removed: they have names of their own, and the folders hold a
        marker. The folder of the checkpoint is removed if a checkpoint made it and nothing else is in it.
        """
        for units in self._opened:
            units.remove()
        stale = time.time() - _DAYS * 24 * 3600
        for path in self.folder.glob("*-*"):
            with suppress(OSError):  # another process removes it
                if _FOLDER_NAME.fullmatch(path.name) and is_marked(path) and _last_change(path) < stale:
                    _remove(path)
        if is_marked(self.folder):
            with suppress(OSError):  # units of other computations, or what somebody else has put there
                remove_marker(self.folder)


class Units(Mapping[str, Any]):
    """Finished units by key, of JSON types and arrays; they are written now and then, and when ``with`` ends."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._began = self._written = time.monotonic()
        self._new: dict[str, Any] = {}
        self._stored: dict[str, Any] | None = None

    @property
    def _kept(self) -> dict[str, Any]:
        if self._stored is None:
            paths = [] if self._folder is None else sorted(self._folder.glob(f"{'?' * 64}.json"))
            self._stored = {key: value for path in paths for key, value in _read(path).items()}
        return self._stored

    def __getitem__(self, key: str) -> Any:
        return self._kept[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._kept)

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, key: str, value: Any) -> None:
        """Add a finished unit."""
        if self._folder is None:
            return
        try:
            self._new[key] = _encoded(value)
        except TypeError:
            return
        self._kept[key] = value
        now = time.monotonic()
        if now - self._written >= max(_SECONDS, _SHARE * (now - self._began)):
            self.write()

    def write(self) -> None:
        """Write the units that are not in a file yet, atomically; a folder that cannot be written to is warned of."""
        if not self._new or self._folder is None:
            return
        try:
            _make(self._folder)
            content = json.dumps(self._new).encode()
            with replacing(self._folder / _file_name(self._folder, content)) as temporary:
                temporary.write_bytes(content)
        except OSError as error:
            warnings.warn(_NOT_KEPT.format(error), RuntimeWarning, stacklevel=2)
            self._folder = None
        self._new, self._written = {}, time.monotonic()

    def below(self, key: str) -> Checkpoint | None:
        """Return a checkpoint for the computations inside a unit; `finish` removes what it holds."""
        if self._folder is None:
            return None
        return Checkpoint(self._folder / f"inside-{hashlib.sha1(key.encode(), usedforsecurity=False).hexdigest()}")

    def finish(self, key: str, value: Any) -> None:
        """Add a finished unit, and remove what was kept of the computations inside it."""
        inside = self.below(key)
        self.add(key, value)
        if inside is not None and inside.folder.exists():
            self.write()
            _remove(inside.folder)

    def remove(self) -> None:
        """Remove all units."""
        if self._folder is not None:
            _remove(self._folder)
        self._new, self._stored = {}, None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.write()


def units_of(checkpoint: Checkpoint | None, name: str, *content: Any) -> Units:
    """Return `Checkpoint.opened`, or units that are not stored if there is no checkpoint."""
    return Units(None) if checkpoint is None else checkpoint.opened(name, *content)


def run_units(
    jobs: Mapping[str, Any], units: Units, n_jobs: int | None, due: Callable[[], bool] | None = None
) -> Iterator[tuple[str, Any]]:
    """Yield key and result of every job (`joblib.delayed`), stored ones first; once ``due`` is False, none is begun."""
    yield from ((key, units[key]) for key in jobs if key in units)
    missing = [(_Keyed(key, function), *given) for key, (function, *given) in jobs.items() if key not in units]
    parallel = Parallel(n_jobs, batch_size=1, return_as="generator_unordered", **worker_options(n_jobs))
    begun = takewhile(lambda one: due is None or one is missing[0] or due(), missing)
    for key, value in parallel(begun):
        units.add(key, value)
        yield key, value


@dataclass(frozen=True)
class _Keyed:
    """A function that returns a key besides its result, since results arrive in any order."""

    key: str
    function: Callable[..., Any]

    def __call__(self, *args: Any, **kwargs: Any) -> tuple[str, Any]:
        return self.key, self.function(*args, **kwargs)

    @property
    def __name__(self) -> str:  # shown on Dask's dashboard
        return str(self.function.__name__)


def _file_name(folder: Path, content: bytes) -> str:
    """Return the name of a file of units: a digest of its content and of the computation's fingerprint."""
    return f"{hashlib.sha256(folder.name.encode() + content).hexdigest()}.json"


def _read(path: Path) -> dict[str, Any]:
    """Return the units of a file; none if it is damaged, since they can be computed again."""
    try:
        content = path.read_bytes()
    except OSError:
        return {}
    if path.name != _file_name(path.parent, content):
        return {}
    return {key: _decoded(value) for key, value in json.loads(content).items()}


# ---- folders ----


def _make(folder: Path) -> None:
    """Make a folder of units, and those around it, and mark what is made as this package's."""
    if _FOLDER_NAME.fullmatch(folder.name):
        _make(folder.parent)
        folder.mkdir(exist_ok=True)
        if not any(folder.iterdir()):  # also one of a process that was killed here
            mark(folder)
    elif not folder.exists():
        folder.mkdir(parents=True, exist_ok=True)
        mark(folder)


def _remove(folder: Path) -> None:
    """Remove what this package has written to a folder that it made, and the folder unless there is anything else."""
    if not is_marked(folder):
        with suppress(OSError):
            folder.rmdir()  # if it is empty: a process was killed before it marked it
        return
    remove_leftovers(folder)
    with suppress(OSError):
        for path in list(folder.iterdir()):
            if _FOLDER_NAME.fullmatch(path.name):
                _remove(path)
            elif _FILE_NAME.fullmatch(path.name):
                with suppress(OSError):
                    path.unlink()
        remove_marker(folder)


def _last_change(folder: Path) -> float:
    return max((path.lstat().st_mtime for path in (folder, *folder.rglob("*"))), default=0.0)


def _encoded(value: Any) -> Any:
    """Return a value as JSON types, from which `_decoded` restores it exactly, or raise TypeError."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, np.ndarray | np.generic) and not value.dtype.hasobject:
        array = np.ascontiguousarray(value)
        content = base64.b64encode(array.tobytes()).decode()
        return {"kind": "array", "dtype": array.dtype.str, "shape": list(np.shape(value)), "content": content}
    if type(value) is list:
        return [_encoded(one) for one in value]
    if type(value) is tuple:
        return {"kind": "tuple", "content": [_encoded(one) for one in value]}
    if type(value) is dict and all(type(key) is str for key in value):
        return {"kind": "dict", "content": {key: _encoded(one) for key, one in value.items()}}
    raise TypeError(f"a unit holds numbers, text, lists, dictionaries and arrays; got {type(value).__name__}")


def _decoded(value: Any) -> Any:
    if isinstance(value, list):
        return [_decoded(one) for one in value]
    if not isinstance(value, dict):
        return value
    content = value["content"]
    if value["kind"] == "tuple":
        return tuple(_decoded(one) for one in content)
    if value["kind"] == "dict":
        return {key: _decoded(one) for key, one in content.items()}
    array = np.frombuffer(base64.b64decode(content), value["dtype"]).reshape(value["shape"])
    return array.copy()[()]
