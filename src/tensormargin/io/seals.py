"""Digests that model files carry: a seal at the end of the archive.

The seal is the comment of the ZIP archive, the last bytes of the file: a word, and the SHA-256 of everything before
it. Any changed bit is thus noticed before a byte is parsed. It is no signature: who changes a file on purpose can seal
it again.
"""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

from .arrays import BadFileError

_WORD = b"tensormargin sha256:"
_LENGTH = 64  # hexadecimal digits
_PIECE = 2**20


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


def _digest(path: Path, size: int) -> str:
    """Return the SHA-256 of the first bytes of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while size > 0 and (piece := file.read(min(size, _PIECE))):
            digest.update(piece)
            size -= len(piece)
    return digest.hexdigest()
