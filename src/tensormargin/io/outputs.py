"""Which existing files a command may replace: those that this package wrote, told by their content."""

from __future__ import annotations

import csv
import gzip
import re
import zipfile
from pathlib import Path
from typing import IO

import numpy as np

from ..runtime import Array
from .models import FACTS

MARK = b"tensormargin"
"""What files that the package writes carry where their format has room: header, comment, or behind the content."""

_PAGE = b'<meta name="generator" content="tensormargin'
_HEAD, _TAIL = 4096, 64


def is_ours(path: Path) -> bool:
    """Return whether this package wrote a file; empty files count as well, since nothing is lost with them.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from tensormargin.io import is_ours
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     notes = Path(folder, "notes.csv")
    ...     _ = notes.write_text("name,grade")
    ...     is_ours(notes)
    False
    """
    ending = path.suffix.lower()
    try:
        if ending in (".skops", "") and zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                return FACTS in archive.namelist()
        head, tail = _ends(path)
    except (OSError, EOFError, zipfile.BadZipFile):
        return False
    if not head or (ending in (".csv", "") and _is_table(head)):
        return True
    return _PAGE in head if ending in (".html", ".htm") else MARK in head or MARK in tail


def _ends(path: Path) -> tuple[bytes, bytes]:
    """Return the first and the last bytes of a file; of a compressed one only the first, as they were before."""
    if path.suffix.lower() == ".gz":
        with gzip.open(path) as compressed:
            return compressed.read(_HEAD), b""
    with path.open("rb") as file:
        head = file.read(_HEAD)
        file.seek(max(0, path.stat().st_size - _TAIL))
        return head, file.read()


def _is_table(head: bytes) -> bool:
    """Return whether the header is that of predictions ("predicted") or of a map ("weight, A against B")."""
    lines = [line for line in head.decode("utf-8", "replace").splitlines() if not line.startswith("#")]
    cells = next(csv.reader(lines[:1]), [])
    return "predicted" in cells or any(re.search(r"(^|: )(weight|pattern), ", cell) for cell in cells)


def save_array(file: IO[bytes], array: Array) -> None:
    """Write an array as ``.npy``, with the mark behind it: readers stop where the array ends."""
    np.save(file, array, allow_pickle=False)
    file.write(MARK)
