"""Folders that this package makes and removes again. Their names and a marker inside tell them from all others."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

MARKER = ".tensormargin"
"""Name of the marker; the process that uses a temporary folder holds a lock on it."""
TEMPORARY = ".part"  # suffix of temporary files and folders, which are never read
_NAME = "tensormargin-"
_CONTENT = b"Made by tensormargin, which removes this folder when it is no longer needed.\n"


def mark(folder: Path) -> None:
    """Mark a folder that this package has just made."""
    (folder / MARKER).write_bytes(_CONTENT)


def is_marked(folder: Path) -> bool:
    """Return whether this package made a folder; a link to such a folder is none."""
    marker = folder / MARKER
    try:
        if folder.is_symlink() or marker.is_symlink() or not marker.is_file():
            return False
        with marker.open("rb") as file:  # the process may have been killed while it wrote the marker
            return _CONTENT.startswith(file.read(len(_CONTENT) + 1))
    except OSError:
        return False


def remove_marker(folder: Path) -> None:
    """Remove a folder in which nothing but the marker is left; raise OSError if there is more."""
    if any(path.name != MARKER for path in folder.iterdir()):
        raise OSError(f"{folder} is not empty")
    (folder / MARKER).unlink(missing_ok=True)
    folder.rmdir()


def locked_folder(place: Path, prefix: str = "") -> tuple[Path, int]:
    """Make a temporary folder; return it and the handle of its marker, which is locked as long as it is open.

    The lock tells other processes that this one lives, whatever its number and machine. Without locks (Windows, some
    network file systems) nobody removes what a killed process leaves.
    """
    while True:
        folder = Path(tempfile.mkdtemp(dir=place, prefix=f"{prefix}{_NAME}", suffix=TEMPORARY))
        try:
            mark(folder)
            handle = os.open(folder / MARKER, os.O_RDWR)
        except FileNotFoundError:  # another process took it for a leftover
            continue
        except OSError:  # such as a full disk
            remove_temporary(folder)
            raise
        try:
            _lock(handle)
        except BlockingIOError:  # another process looks whether it is one
            os.close(handle)
            continue
        except OSError:
            return folder, handle
        if (folder / MARKER).exists():
            return folder, handle
        os.close(handle)


def remove_temporary(folder: Path) -> None:
    """Remove a temporary folder of this package, the marker at last: this process may be killed meanwhile."""
    with suppress(OSError):
        for path in folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            elif path.name != MARKER:
                path.unlink(missing_ok=True)
        remove_marker(folder)


def remove_leftovers(place: Path) -> None:
    """Remove the temporary folders of this user's processes that were killed: those whose lock nobody holds."""
    for folder in place.glob(f"*{_NAME}{'?' * 8}{TEMPORARY}"):
        with suppress(OSError, AttributeError):  # no numbers of users on Windows
            if folder.is_symlink() or folder.stat().st_uid != os.getuid():
                continue
            if not is_marked(folder):
                folder.rmdir()  # if it is empty: the process was killed before it marked it
                continue
            handle = os.open(folder / MARKER, os.O_RDWR | os.O_NOFOLLOW)
            try:
                _lock(handle)
                remove_temporary(folder)
            finally:
                os.close(handle)


def _lock(handle: int) -> None:
    """Lock a file, or raise OSError: BlockingIOError if another process has locked it."""
    try:
        import fcntl
    except ImportError as error:
        raise OSError("this system has no locks on files") from error
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
