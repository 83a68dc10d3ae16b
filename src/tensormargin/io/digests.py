"""Digests of files, for those who keep them elsewhere."""

from __future__ import annotations

import hashlib
from pathlib import Path

from .arrays import BadFileError

_HEX_DIGITS = 64


def sha256_of(path: str | Path) -> str:
    """Return the SHA-256 digest of a file, as ``sha256sum`` prints it."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_sha256(path: Path, expected: str) -> None:
    """Raise `BadFileError` if a file has another digest than the expected one, or that is no digest."""
    wanted = expected.strip().lower()
    if len(wanted) != _HEX_DIGITS or not all(one in "0123456789abcdef" for one in wanted):
        raise BadFileError(
            f"{path}: sha256 (command line: --sha256) is a digest of {_HEX_DIGITS} hexadecimal digits, as sha256sum "
            f"prints it; got {expected[:80]!r}"
        )
    found = sha256_of(path)
    if found != wanted:
        raise BadFileError(
            f"{path}: has the SHA-256 digest {found}, but {wanted} was expected; the contents have changed. Get the "
            "file again, or give the digest of this one"
        )
