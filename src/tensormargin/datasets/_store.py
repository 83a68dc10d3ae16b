"""Locate data files: in TENSORMARGIN_DATA, then in the cache, otherwise downloaded, verified and cached."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.request import urlopen

import numpy as np
from sklearn.utils import Bunch

from ..data import axes_of
from ..io import BadFileError, digest, replacing
from ..runtime import Array

_TIMEOUT = 60.0  # seconds without a byte
_CHUNK = 1 << 20


class DataUnavailableError(OSError):
    """Raised if data are not stored locally and cannot be downloaded; the message names both remedies.

    Examples
    --------
    >>> import os
    >>> import tempfile
    >>> from unittest.mock import patch
    >>> from tensormargin.datasets import DataUnavailableError, load_muse_ssvep
    >>> with tempfile.TemporaryDirectory() as empty, patch.dict(os.environ, TENSORMARGIN_DATA=empty):
    ...     try:
    ...         load_muse_ssvep(data_home=empty)
    ...     except DataUnavailableError as error:
    ...         print("TENSORMARGIN_DATA" in str(error))
    True
    """


class ByHandError(OSError):
    """Raised for a file that cannot be fetched, because it has to be asked for or made of other files."""


def data_folder() -> Path | None:
    """Return the folder given by TENSORMARGIN_DATA, None if it is not set."""
    folder = os.environ.get("TENSORMARGIN_DATA")
    return Path(folder).expanduser() if folder else None


def cache_folder(data_home: str | Path | None = None) -> Path:
    """Return the folder for downloaded data: ``data_home``, TENSORMARGIN_CACHE, or the user's cache directory.

    Examples
    --------
    >>> from tensormargin.datasets import cache_folder
    >>> cache_folder("downloads").name
    'downloads'
    """
    chosen = data_home or os.environ.get("TENSORMARGIN_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").expanduser() / "tensormargin"


def found(relative: str, data_home: str | Path | None = None) -> Path | None:
    """Return the path of a data file in TENSORMARGIN_DATA or in the cache, None if it is in neither."""
    for folder in (data_folder(), cache_folder(data_home)):
        if folder is not None and (folder / relative).is_file():
            return folder / relative
    return None


def obtain(
    relative: str,
    fetch: Callable[[Path], None],
    data_home: str | Path | None = None,
    origin: str = "the public original",
) -> Path:
    """Return the path of a data file; fetch it into the cache if it is neither there nor in TENSORMARGIN_DATA.

    Parameters
    ----------
    relative : str
        Path of the file relative to either folder, such as "mnist/train-images-idx3-ubyte.gz".
    fetch : callable
        Writes the file to a given path, and raises if its content is not as expected.
    data_home : str or Path, optional
        Cache directory.
    origin : str
        Description of the source, for the error message.
    """
    here = found(relative, data_home)
    if here is not None:
        return here
    cached = cache_folder(data_home) / relative
    try:
        with replacing(cached) as temporary:
            fetch(temporary)
    # Parsers of damaged downloads can raise anything: keep no file, and always explain the error.
    except Exception as error:
        raise unavailable(relative, origin, data_home, error) from error
    return cached


def unavailable(
    relative: str, origin: str, data_home: str | Path | None, reason: BaseException
) -> DataUnavailableError:
    """Return the error for a file that cannot be obtained; its message names the remedies."""
    shared = data_folder()
    way = f"{'Install it' if isinstance(reason, ImportError) else 'Connect to the network'} and try again, or set "
    return DataUnavailableError(
        f"{relative} is not in {shared or 'TENSORMARGIN_DATA (which is not set)'} nor in {cache_folder(data_home)}, "
        f"and {origin} could not be fetched ({reason}). "
        f"{'Set ' if isinstance(reason, ByHandError) else way}TENSORMARGIN_DATA to a folder that holds {relative}"
    )


def download(urls: Sequence[str], sha256: str | None = None) -> Callable[[Path], None]:
    """Return a function that downloads from the first of ``urls`` that works.

    With ``sha256``, the content must have this checksum.
    """

    def fetch(path: Path) -> None:
        failures = []
        for url in urls:
            try:
                with urlopen(url, timeout=_TIMEOUT) as answer, path.open("wb") as file:
                    shutil.copyfileobj(answer, file, _CHUNK)
                if sha256 is not None:
                    _check_sha256(path, sha256)
            except (OSError, HTTPException, BadFileError) as error:
                failures.append(f"{url}: {error}")
            else:
                return
        raise OSError("; ".join(failures))

    return fetch


def by_hand(reason: str) -> Callable[[Path], None]:
    """Return a function that fetches nothing and says why, for files that the user has to provide."""

    def refuse(path: Path) -> None:
        raise ByHandError(f"it has to be put there by hand: {reason}")

    return refuse


def _check_sha256(path: Path, expected: str) -> None:
    """Raise `BadFileError` unless the file has the expected checksum."""
    with path.open("rb") as file:
        actual = hashlib.file_digest(file, "sha256").hexdigest()
    if actual != expected:
        raise BadFileError(f"its SHA-256 is {actual}, expected {expected}: cut short, or another version of the file")


@contextmanager
def downloaded(urls: Sequence[str]) -> Iterator[Path]:
    """Yield the path of a temporary download, removed afterwards: an original file to be converted."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / urls[0].rpartition("/")[2]  # readers depend on the extension
        download(urls)(path)
        yield path


def downloaded_r(urls: Sequence[str]) -> Mapping[str, Any]:
    """Return the objects of a file of R by name, downloaded from the first of ``urls`` that works."""
    try:
        import rdata
    except ImportError as error:
        raise ImportError("reading R's files needs rdata: pip install 'tensormargin[neuro]'") from error
    with downloaded(urls) as original:
        return rdata.read_rda(original)


def save_checked(path: Path, arrays: Mapping[str, Array], expected: str) -> None:
    """Write arrays to an .npz file; raise `BadFileError` unless they have the expected checksum."""
    actual = digest(arrays)
    if actual != expected:
        raise BadFileError(f"the converted arrays have the checksum {actual}, expected {expected}")
    with path.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)


def described(bunch: Bunch, names: Sequence[str], **values: Any) -> Bunch:
    """Return a data set with ``axes``: names, units and coordinates of the modes of its samples.

    Parameters
    ----------
    bunch : Bunch
    names : sequence of str
        One per mode, with units in brackets.
    **values : array-like
        Coordinates by name.
    """
    bunch.axes = axes_of(bunch.data.shape[1:], names, values)
    return bunch
