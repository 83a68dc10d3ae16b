"""Digests of model files: a seal at the end of the archive, and a digest that is kept elsewhere.

The seal is the comment of the ZIP archive, the last bytes of the file: a word, and the SHA-256 of everything before
it. Any changed bit is thus noticed before a byte is parsed. It is no signature: who changes a file on purpose can seal
it again.
"""

from __future__ import annotations

import hashlib
import re
import zipfile
from pathlib import Path

from .arrays import BadFileError

_WORD = b"tensormargin sha256:"
_LENGTH = 64  # hexadecimal digits
_PIECE = 2**20
_SHA256 = re.compile(r"[0-9a-f]{64}")


def seal(path: str | Path) -> None:
    """Add the digest of a ZIP archive to its end, or renew it."""
    with zipfile.ZipFile(path, "a") as archive:
        archive.comment = _WORD + b"0" * _LENGTH
    digest = _digest(Path(path), Path(path).stat().st_size - _LENGTH)
    with Path(path).open("r+b") as file:
        file.seek(-_LENGTH, 2)
        file.write(digest.encode())


def is_sealed(path: Path) -> bool:
    """Return whether a file has a seal; raise `BadFileError` if its content is not the one that was sealed."""
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(max(0, size - _LENGTH - len(_WORD)))
        end = file.read()
    if not end.startswith(_WORD):
        return False
    if _digest(path, size - _LENGTH).encode() != end[len(_WORD) :]:
        raise BadFileError(
            f"{path}: has changed since it was saved, its content does not have the SHA-256 that it carries; get the "
            "file again, or save the model again"
        )
    return True


def check_sha256(path: str | Path, expected: str | None) -> None:
    """Raise `BadFileError` if a file does not have the expected SHA-256; None expects nothing."""
    if expected is None:
        return
    wanted = expected.strip().lower()
    if not _SHA256.fullmatch(wanted):
        raise ValueError(
            f"sha256 must be {_LENGTH} hexadecimal digits, as `sha256sum FILE` prints them; got {expected[:80]!r}"
        )
    found = file_sha256(path)
    if found != wanted:
        raise BadFileError(
            f"{path}: must have the SHA-256 {wanted}, has {found}; it is another file than expected, or it was changed"
        )


def file_sha256(path: str | Path) -> str:
    """Return the SHA-256 of a file, as `sha256sum` prints it."""
    return _digest(Path(path), Path(path).stat().st_size)


def _digest(path: Path, size: int) -> str:
    """Return the SHA-256 of the first bytes of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while size > 0 and (piece := file.read(min(size, _PIECE))):
            digest.update(piece)
            size -= len(piece)
    return digest.hexdigest()
