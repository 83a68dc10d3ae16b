"""Locate data files: in TENSORMARGIN_DATA, then in the cache, otherwise downloaded, verified and cached."""

from __future__ import annotations

import hashlib
import os
import re
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
FOLDER = Path(__file__).parent  # where the files lie that come with the package


class DataUnavailableError(OSError):
    """Raised if data are not stored locally and cannot be downloaded; the message names both remedies.

    Examples
    --------
    >>> from tensormargin.datasets import DataUnavailableError
    >>> issubclass(DataUnavailableError, OSError)
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
    """Return the path of a data file; ``fetch`` writes it to the cache, or raises, if it is not at hand."""
    at_hand = found(relative, data_home)
    if at_hand is not None:
        return at_hand
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
    """Return a function that downloads from the first of ``urls`` that works, and has the checksum if one is given.

    pooch would check and cache the file as well, but takes one address per file, and originals that are converted
    are not kept; it would be a dependency with three more behind it for these lines.
    """

    def fetch(path: Path) -> None:
        failures = []
        for url in urls:
            try:
                with urlopen(url, timeout=_TIMEOUT) as answer, path.open("wb") as file:
                    shutil.copyfileobj(answer, file, _CHUNK)
                with path.open("rb") as file:
                    actual = hashlib.file_digest(file, "sha256").hexdigest()
                if sha256 is not None and actual != sha256:
                    raise BadFileError(
                        f"its SHA-256 is {actual}, expected {sha256}: cut short, or another version of the file"
                    )
            except (OSError, HTTPException, BadFileError) as error:
                failures.append(f"{url}: {error}")
            else:
                return
        raise OSError("; ".join(failures))

    return fetch


def github(repository: str, versions: Sequence[str], path: str) -> tuple[str, ...]:
    """Return the addresses of a file or folder on GitHub: in a fixed version, and in the latest one."""
    return tuple(f"https://raw.githubusercontent.com/{repository}/{version}/{path}" for version in versions)


def by_hand(reason: str) -> Callable[[Path], None]:
    """Return a function that fetches nothing and says why, for files that the user has to provide."""

    def refuse(path: Path) -> None:
        raise ByHandError(f"it has to be put there by hand: {reason}")

    return refuse


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


def described(
    name: str, modes: Mapping[str, Any] | None = None, values: Mapping[str, Any] | None = None, **content: Any
) -> Bunch:
    """Return a Bunch of the content, the text of descr/NAME.rst filled with ``values``, and axes from ``modes``."""
    text = (FOLDER / "descr" / f"{name}.rst").read_text("utf-8")
    bunch = Bunch(**content, DESCR=text.format(**(values or {})))
    if modes is not None:
        bunch.axes = axes_of(bunch.data.shape[1:], list(modes), list(modes.values()))
    return bunch


def plain_loader(load: Callable[..., Bunch]) -> Callable[..., Bunch]:
    """Complete the docstring of a loader, whose last paragraph says what the Bunch holds, the shape of data first."""
    text, _, content = (load.__doc__ or "").rstrip().rpartition("\n\n")
    shape = re.search(r"\(\d+(, \d+)+\)", content)
    assert shape is not None, load.__name__
    held = content.replace("\n", "\n    ")
    load.__doc__ = f"""{text}

    Parameters
    ----------
    data_home : str or Path, optional
        Cache directory.

    Returns
    -------
    Bunch
    {held}

    Examples
    --------
    >>> from tensormargin.datasets import {load.__name__}
    >>> {load.__name__}().data.shape
    {shape[0]}
    """
    return load


def of_classes(stored: Mapping[str, Array], *kept: str) -> dict[str, Any]:
    """Return samples, the names of their classes (as numbers if all names are numbers), and other arrays of a file."""
    names = stored["class_names"]
    names = names.astype(int) if all(name.isdigit() for name in names.tolist()) else names
    return {"data": stored["X"], "target": names[stored["y"]], **{name: stored[name] for name in kept}}


def of_parts(stored: Mapping[str, Array], parts: Sequence[str], samples: str, labels: str) -> dict[str, Any]:
    """Return the samples and labels of the published parts one after the other, and the part of each as ``split``."""
    X, y = ([stored[pattern.format(part)] for part in parts] for pattern in (samples, labels))
    split = np.repeat(parts, [len(own) for own in y])
    return {"data": np.concatenate(X), "target": np.concatenate(y), "split": split}
