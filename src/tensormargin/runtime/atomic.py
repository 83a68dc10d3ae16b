"""Atomic writing of files."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from errno import EISDIR
from pathlib import Path

TEMPORARY = ".part"  # suffix of temporary files, which are never read
_NAME_LENGTH = 40  # characters of a file's name in that of its temporary file: systems allow 255 bytes


_pending: ContextVar[list[tuple[Path, Path]] | None] = ContextVar("pending", default=None)
"""The temporary files of `all_or_none` in the order in which they were written, with the files they become."""


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    r"""Yield a temporary path to write to; it replaces ``path`` when the block ends without an error.

    Other processes see either the old file or the complete new one, even if this process is killed. Errors such as a
    full disk name ``path``.

    Examples
    --------
    >>> with replacing("table.csv") as temporary:  # doctest: +SKIP
    ...     temporary.write_text("a,b\n")
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with _naming(path):
        prefix = f".{path.name[:_NAME_LENGTH]}."
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=prefix, suffix=TEMPORARY)
    os.close(handle)
    temporary, pending = Path(name), _pending.get()
    try:
        with _naming(path, temporary):
            yield temporary
            with temporary.open("r+b") as written:  # Windows writes nothing of what is only read
                os.fsync(written.fileno())  # write the bytes before renaming: a power cut must not leave an empty file
            current = os.umask(0)
            os.umask(current)
            temporary.chmod(0o666 & ~current)
            if pending is None:
                temporary.replace(path)
            else:
                pending.append((temporary, path))
    finally:
        if pending is None or (temporary, path) not in pending:
            temporary.unlink(missing_ok=True)


@contextmanager
def all_or_none() -> Iterator[None]:
    """Let all files that `replacing` writes within the block replace the old ones at its end, or none of them.

    Examples
    --------
    >>> from tensormargin.io import all_or_none, replacing
    >>> with all_or_none(), replacing("table.csv") as first, replacing("map.csv") as second:  # doctest: +SKIP
    ...     first.write_text("a,b"), second.write_text("c,d")
    """
    if _pending.get() is not None:  # part of a larger block
        yield
        return
    pending: list[tuple[Path, Path]] = []
    token = _pending.set(pending)
    try:
        yield
        folder = next((path for _, path in pending if path.is_dir()), None)
        if folder is not None:  # the only thing that a file cannot replace
            raise IsADirectoryError(EISDIR, os.strerror(EISDIR), str(folder))
        try:
            for temporary, path in pending:
                temporary.replace(path)
        except KeyboardInterrupt:  # between two files
            for temporary, path in pending:
                if temporary.exists():
                    temporary.replace(path)
            raise
    finally:
        _pending.reset(token)
        for temporary, _ in pending:
            temporary.unlink(missing_ok=True)


@contextmanager
def _naming(path: Path, temporary: Path | None = None) -> Iterator[None]:
    """Let errors of the system that name no file, or a temporary one, name the file that was to be written."""
    try:
        yield
    except OSError as error:
        if error.errno is None or (error.filename is not None and temporary not in (None, Path(error.filename))):
            raise
        raise OSError(error.errno, f"{error.strerror}, so it cannot be written", str(path)) from error
