"""Atomic writing of files."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TEMPORARY = ".part"
"""Suffix of temporary files, which are never read."""


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    r"""Yield a temporary path to write to; it replaces ``path`` when the block ends without an error.

    Other processes see either the old file or the complete new one, even if this process is killed.

    Examples
    --------
    >>> with replacing("table.csv") as temporary:  # doctest: +SKIP
    ...     temporary.write_text("a,b\n")
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=TEMPORARY)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())  # write the bytes before renaming: a power cut must not leave an empty file
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
