"""SHA-256 checksums of files and folders, and the seal at the end of a model file.

The seal is the comment of the ZIP archive, the last bytes of the file: a word, and the SHA-256 of everything before
it. Any changed bit is thus noticed before a byte is parsed. It is no signature: who changes a file on purpose can seal
it again.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
from pathlib import Path

from ..data import DEFAULT_RULES, BadFileError, FileRules
from ..runtime import quoted

_WORD = b"tensormargin sha256:"
_LENGTH = 64  # hexadecimal digits
_PIECE = 2**20


def sha256_of(path: str | Path, rules: FileRules = DEFAULT_RULES) -> str:
    """Return the SHA-256 digest of a file, as ``sha256sum`` prints it, or of all files of a folder.

    The digest of a folder is that of a text with one line per file, sorted by path: the file's digest, two spaces and
    its path relative to the folder, with slashes. Links must not lead out of the folder, unless the rules allow it.

    Examples
    --------
    >>> from tensormargin.io import load_samples, sha256_of
    >>> digest = sha256_of("scans.nii")  # doctest: +SKIP
    >>> load_samples("scans.nii", labels_from="labels.csv", sha256=digest)  # doctest: +SKIP
    """
    path = Path(path)
    if not path.is_dir():
        rules.check_file(path)
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    names = sorted(
        Path(place, name).relative_to(path).as_posix() for place, _, files in os.walk(path) for name in files
    )
    inside = rules.inside(path)
    lines = (f"{sha256_of(path / name, inside)}  {name}\n" for name in names)
    return hashlib.sha256("".join(lines).encode("utf-8", "surrogateescape")).hexdigest()


def check_sha256(path: Path, expected: str, rules: FileRules = DEFAULT_RULES) -> None:
    """Raise `BadFileError` if a file or folder has another digest than the expected one, or that is no digest."""
    wanted = expected.strip().lower()
    if len(wanted) != _LENGTH or not all(one in "0123456789abcdef" for one in wanted):
        raise BadFileError(
            f"{path}: sha256 (command line: --sha256) is a digest of {_LENGTH} hexadecimal digits, as sha256sum "
            f"prints it; got {quoted(expected)!r}"
        )
    found = sha256_of(path, rules)
    if found != wanted:
        raise BadFileError(
            f"{path}: has the SHA-256 digest {found}, but {wanted} was expected; the contents have changed. Get the "
            "file again, or give the digest of this one"
        )


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
