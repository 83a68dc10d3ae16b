"""Rules for files that others made: what a reader may open, how much memory it may take, what a message may quote."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from ..runtime import available_bytes, escaped, in_bytes, quoted, shortened

MOST_DEPTH = 64  # groups within groups, cells within cells
MOST_MEMBERS = 100_000  # arrays and groups of one file
MOST_PAGES = 10_000  # of a TIFF file, which is one sample

_SMALL_BYTES = 2**26  # always plausible, however small the file is
_MOST_RATIO = 2_000  # memory to file size: deflate reaches 1,032
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
_OF_THE_SYSTEM = (errno.EACCES, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOENT, errno.EPERM, errno.ESTALE)
_KINDS = {"d": "a folder", "p": "a pipe", "c": "a device", "b": "a device", "s": "a socket"}  # as ls has them


class BadFileError(ValueError):
    """Raised for a file that cannot be used; the message names the file, the fault and the remedy.

    Examples
    --------
    >>> from tensormargin.io import BadFileError, read_arrays
    >>> try:
    ...     read_arrays("absent.npz")
    ... except BadFileError as error:
    ...     print(error)
    absent.npz: no such file; give the path of one that exists
    """

    def __init__(self, text: str) -> None:
        super().__init__(escaped(text))


@dataclass(frozen=True)
class FileRules:
    """What a file may ask for.

    ``max_bytes`` limits the memory that its contents may need (None: what is available, if that is plausible for its
    size); ``allow_external`` lets it lead to files elsewhere; ``fill_missing`` takes chunks of a Zarr store or HDF5
    file that were never written as fill values; ``memory`` is what is available, if it was measured already.
    ``folder`` (resolved) is where files must lie that the user has not named; None for those that the user names.
    """

    max_bytes: int | None = None
    allow_external: bool = False
    fill_missing: bool = False
    memory: int | None = None
    folder: str | None = None

    def inside(self, folder: Path) -> FileRules:
        """Return the rules for files that a file or folder of the user leads to: they must lie in this folder."""
        return replace(self, folder=str(folder.resolve()))

    def check_file(self, path: str | Path, origin: str = "") -> None:
        """Raise `BadFileError` unless a path leads to a regular file, which lies in the folder if there is one.

        Every file is checked before it is opened: to open a pipe or device may never end, and any file that the user
        can read could become a part of samples and models. ``origin`` says in messages what leads to the file.
        """
        self.check_place(path, origin)
        try:
            mode = os.stat(path).st_mode
        except (OSError, ValueError) as error:
            raise _unreachable(path, error) from error
        if not stat.S_ISREG(mode):
            kind = _KINDS.get(stat.filemode(mode)[0], "something else")
            raise BadFileError(
                f"{origin or path} is {kind}, but data are read from regular files only; copy the data to a file"
            )

    def check_place(self, path: str | Path, origin: str = "") -> None:
        """Raise `BadFileError` if a path leads out of the folder, unless the rules allow that."""
        if self.folder is None or self.allow_external:
            return
        try:
            target = Path(path).resolve()
        except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: links that lead to each other
            raise _unreachable(path, error) from error
        if not target.is_relative_to(self.folder):
            raise BadFileError(
                f"{origin or path} leads out of {self.folder}, to {target}; move the file there, or give "
                "allow_external=True (command line: --allow-external) if you trust who made it"
            )

    def admit(self, path: str | Path, needed: int, what: str, stored: int | None = None, before: int = 0) -> None:
        """Raise `BadFileError` if ``what`` needs more memory than allowed, or implausibly much for its file.

        ``stored`` is the number of bytes in the file: by default its size, -1 if there is no relation between the
        two. ``before`` of the needed bytes were allowed already.
        """
        if self.max_bytes is not None:
            limit, origin = self.max_bytes, "max_bytes allows"
        elif needed <= _SMALL_BYTES:
            limit, origin = needed, ""
        else:
            limit, origin = available_bytes() if self.memory is None else self.memory, "are available"
        if needed > limit:
            raise BadFileError(
                f"{path}: {what} would need {in_bytes(needed)} of memory, and {in_bytes(limit)} {origin}; if the file "
                "is right, give a larger max_bytes=... (command line: --max-bytes)"
            )
        if self.max_bytes is None and needed > _SMALL_BYTES and stored != -1:
            size = os.stat(path).st_size if stored is None else stored
            if needed > _MOST_RATIO * size:
                raise BadFileError(
                    f"{path}: {what} would need {in_bytes(needed)} of memory, which is not plausible for "
                    f"{in_bytes(size)} in the file; if it is right, give max_bytes=... (command line: --max-bytes)"
                )
        for listener in on_admission:
            listener(needed - before)


on_admission: list[Callable[[int], None]] = []
"""Functions that are told how much memory was allowed, before it is taken."""

DEFAULT_RULES = FileRules()


def parsed_bytes(value: int | str | None) -> int | None:
    """Return a number of bytes, given as such or as text such as "8 GB" or "500 MiB"; raise ValueError for others."""
    if value is None:
        return None
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*([kmgt]i?)?b?\s*", str(value).lower())
    found = round(float(match[1]) * _UNITS[match[2] or ""]) if match else 0
    if found < 1:
        raise ValueError(
            f'max_bytes (command line: --max-bytes) is a number of bytes or a size such as "8 GB"; got {value!r}'
        )
    return found


def _unreachable(path: str | Path, error: Exception) -> BadFileError:
    return BadFileError(f"{path}: cannot be opened ({shortened(str(error))}); give a path that can be read")


def check_text(path: Path, name: str) -> None:
    """Raise `BadFileError` for a name in the file system that is not UTF-8, and could not be written to results."""
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise BadFileError(
            f"{os.fsencode(path).decode(errors='backslashreplace')}: has a name that is not UTF-8 text, which no "
            "result could contain; rename it"
        ) from error


def lacks_memory(error: BaseException | None) -> bool:
    """Return whether an error comes from a lack of memory, also behind errors of parsers that do not know it."""
    while error is not None:
        if isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM:
            return True
        error = error.__cause__ or error.__context__
    return False


@contextmanager
def blaming_the_system(path: str | Path) -> Iterator[None]:
    """Turn errors that are no fault of a file's contents into a `BadFileError` that says so; let others pass."""
    try:
        yield
    except BadFileError:
        raise
    except Exception as error:
        if lacks_memory(error):
            raise BadFileError(
                f"{path}: its contents need more memory than there is; close other programs, or give a smaller file"
            ) from error
        if isinstance(error, OSError) and error.errno in _OF_THE_SYSTEM:
            raise _unreachable(path, error) from error
        raise


class DamagedFileError(BadFileError):
    """Raised for a file whose contents cannot be read, rather than one that breaks a rule."""


@contextmanager
def parsing(path: Path, words: str, remedy: str) -> Iterator[None]:
    """Turn any error into a `BadFileError` with a clear message, since parsers of damaged files can raise anything."""
    try:
        with blaming_the_system(path):
            yield
    except BadFileError:
        raise
    except ImportError as error:  # of what a parser needs for some files only, such as pandas for metadata of epochs
        package = (error.name or "").partition(".")[0]
        remedy = f"pip install {package}" if package else "install it"
        raise BadFileError(f"{path}: a package that reading this file needs is missing ({error}); {remedy}") from error
    except Exception as error:
        fault = shortened(str(error)) or type(error).__name__
        raise DamagedFileError(f"{path}: not {words}, or damaged ({fault}); {remedy}") from error


def require_package(path: Path, package: str, extra: str, words: str) -> None:
    """Raise `BadFileError` if an optional package is not installed."""
    if find_spec(package) is None:
        raise BadFileError(f"{path}: {words}, which needs {package}; pip install 'tensormargin[{extra}]'")


def check_members(path: Path, number: int, depth: int) -> None:
    """Raise `BadFileError` if a file has too many members, or too deeply nested ones."""
    if number > MOST_MEMBERS or depth > MOST_DEPTH:
        raise BadFileError(
            f"{path}: must have at most {MOST_MEMBERS} arrays and groups, nested at most {MOST_DEPTH} deep; it has "
            "more. Copy what you need to another file"
        )


def missing_chunks(path: Path, name: str, there: int, all_of_them: int) -> BadFileError:
    """Return the error for an array some of whose chunks are missing."""
    return BadFileError(
        f"{path}: {quoted(name)} has {there} of its {all_of_them} chunks; the others were lost, or never written. "
        "Copy or write the file again; if they were left out because all of their entries are the fill value, give "
        "fill_missing=True (command line: --fill-missing)"
    )


def shape_of_part(shape: tuple[int, ...], where: tuple[slice, ...]) -> tuple[int, ...]:
    """Return the shape of the part of an array that slices select, of the whole array without any."""
    if not where:
        return tuple(shape)
    return tuple(len(range(*part.indices(length))) for part, length in zip(where, shape, strict=True))
