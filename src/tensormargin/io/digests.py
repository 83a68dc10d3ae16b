"""Digests of files and folders, for formats that have no checksum of their own."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from ..data import BadFileError, check_regular
from ..runtime import quoted

_HEX_DIGITS = 64


def sha256_of(path: str | Path) -> str:
    """Return the SHA-256 digest of a file, as ``sha256sum`` prints it, or of all files of a folder.

    The digest of a folder is that of a text with one line per file, sorted by path: the file's digest, two spaces and
    its path relative to the folder, with slashes.

    Examples
    --------
    >>> from tensormargin.io import load_samples, sha256_of
    >>> digest = sha256_of("scans.nii")  # doctest: +SKIP
    >>> load_samples("scans.nii", labels_from="labels.csv", sha256=digest)  # doctest: +SKIP
    """
    path = Path(path)
    if not path.is_dir():
        check_regular(path)
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    names = sorted(
        Path(place, name).relative_to(path).as_posix() for place, _, files in os.walk(path) for name in files
    )
    lines = (f"{sha256_of(path / name)}  {name}\n" for name in names)
    return hashlib.sha256("".join(lines).encode("utf-8", "surrogateescape")).hexdigest()


def check_sha256(path: Path, expected: str) -> None:
    """Raise `BadFileError` if a file or folder has another digest than the expected one, or that is no digest."""
    wanted = expected.strip().lower()
    if len(wanted) != _HEX_DIGITS or not all(one in "0123456789abcdef" for one in wanted):
        raise BadFileError(
            f"{path}: sha256 (command line: --sha256) is a digest of {_HEX_DIGITS} hexadecimal digits, as sha256sum "
            f"prints it; got {quoted(expected)!r}"
        )
    found = sha256_of(path)
    if found != wanted:
        raise BadFileError(
            f"{path}: has the SHA-256 digest {found}, but {wanted} was expected; the contents have changed. Get the "
            "file again, or give the digest of this one"
        )
