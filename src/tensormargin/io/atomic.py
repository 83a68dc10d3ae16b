"""Files that are whole or not there at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TEMPORARY = ".part"
"""Ending of files in the making; nothing reads them."""


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    r"""Yield a temporary path beside ``path`` to write to; it takes that name when the block ends without an error.

    A reader, or a process that is started after this one was killed, sees the old file or the whole new one.

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
            os.fsync(written.fileno())  # the bytes before the name: a power cut must not leave an empty file
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
