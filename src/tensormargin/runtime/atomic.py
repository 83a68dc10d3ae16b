"""Atomic writing of files, of one or of several together."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from pathlib import Path

from .folders import TEMPORARY, locked_folder, remove_leftovers, remove_temporary
from .signals import signals_deferred

_LINK_ITSELF = {"follow_symlinks": False} if os.link in os.supports_follow_symlinks else {}
_NAME_LENGTH = 40  # characters of a file's name in that of its temporary folder: systems allow 255 bytes


class _Files:
    """Files that are written in temporary folders beside the old ones, and then replace them together.

    Attributes
    ----------
    written : dict
        The complete temporary files, by the files they become.
    """

    def __init__(self) -> None:
        self.written: dict[Path, Path] = {}
        self._folders: dict[Path, tuple[Path, int]] = {}

    def temporary(self, path: Path, folder: bool) -> Path:
        """Make an empty file (or folder) to write to, on the file system of ``path``."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with _naming(path):
            if path.parent not in self._folders:
                _remove_leftovers_once(path.parent, os.getpid())
                self._folders[path.parent] = locked_folder(path.parent, f".{path.name[:_NAME_LENGTH]}.")
            place = self._folders[path.parent][0]
            if folder:
                return Path(tempfile.mkdtemp(dir=place, prefix=".", suffix=TEMPORARY))
            handle, name = tempfile.mkstemp(dir=place, prefix=".", suffix=TEMPORARY)
            os.close(handle)
            return Path(name)

    def replace_all(self) -> None:
        """Let the files take their places. After an error, the old ones are there again.

        That takes hard links if there are several files. Without them (FAT), a file that has been replaced stays so.
        """
        replaced = list[tuple[Path, Path, Path, bool]]()
        try:
            for path, temporary in self.written.items():
                old, existed = temporary.with_suffix(".old"), os.path.lexists(path)
                if existed and len(self.written) > 1:
                    with suppress(OSError):
                        os.link(path, old, **_LINK_ITSELF)
                with _naming(path, temporary):
                    temporary.replace(path)
                replaced.append((path, temporary, old, existed))
        except BaseException:
            for path, temporary, old, existed in reversed(replaced):
                with suppress(OSError):
                    if os.path.lexists(old):
                        old.replace(path)
                    elif not existed:
                        path.replace(temporary)
            raise

    def close(self) -> None:
        """Remove the temporary folders."""
        while self._folders:
            folder, handle = self._folders.popitem()[1]
            os.close(handle)  # first: Windows keeps files that are open
            remove_temporary(folder)


_files: ContextVar[_Files | None] = ContextVar("files", default=None)
"""The files of `all_or_none`."""


@contextmanager
def replacing(path: str | Path, folder: bool = False) -> Iterator[Path]:
    r"""Yield a temporary path to write to; it replaces ``path`` when the block ends without an error.

    Other processes see either the old file or the complete new one, even if this process is killed. Errors such as a
    full disk name ``path``. What a killed process has left is removed when another one writes to the same folder.

    Parameters
    ----------
    path : str or Path
    folder : bool, default=False
        Whether to yield an empty folder instead of a file; ``path`` must not exist then.

    Examples
    --------
    >>> with replacing("table.csv") as temporary:  # doctest: +SKIP
    ...     temporary.write_text("a,b\n")
    """
    path = Path(path)
    with all_or_none() as files:
        temporary = files.temporary(path, folder)
        with _naming(path, temporary):
            yield temporary
            current = os.umask(0)
            os.umask(current)
            if not folder:
                with temporary.open("r+b") as written:  # Windows writes nothing of what is only read
                    os.fsync(written.fileno())  # a power cut after the renaming must not leave an empty file
            temporary.chmod((0o777 if folder else 0o666) & ~current)
            files.written[path] = temporary


@contextmanager
def all_or_none() -> Iterator[_Files]:
    """Let all files that `replacing` writes within the block replace the old ones at its end, or none of them.

    Signals wait until all files are in their places. Only a process that is killed there (SIGKILL, a power cut) can
    leave old files beside new ones.

    Examples
    --------
    >>> from tensormargin.io import all_or_none, replacing
    >>> with all_or_none(), replacing("table.csv") as first, replacing("map.csv") as second:  # doctest: +SKIP
    ...     first.write_text("a,b"), second.write_text("c,d")
    """
    files = _files.get()
    if files is not None:  # part of a larger block
        yield files
        return
    files = _Files()
    token = _files.set(files)
    try:
        yield files
        with signals_deferred():
            files.replace_all()
            files.close()
    finally:
        _files.reset(token)
        files.close()


@cache
def _remove_leftovers_once(folder: Path, process: int) -> None:
    """Remove what killed processes have left in a folder; this process lists it once, since it may be large."""
    remove_leftovers(folder)


@contextmanager
def _naming(path: Path, temporary: Path | None = None) -> Iterator[None]:
    """Let errors of the system that name no file, or a temporary one, name the file that was to be written."""
    try:
        yield
    except OSError as error:
        if error.errno is None or (error.filename is not None and temporary not in (None, Path(error.filename))):
            raise
        raise OSError(error.errno, f"{error.strerror}, so it cannot be written", str(path)) from error
