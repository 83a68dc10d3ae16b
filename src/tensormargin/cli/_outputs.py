"""What commands write and print: checks of output files, JSON, maps, and errors as messages."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..data import BadFileError
from ._options import OVERWRITE

if TYPE_CHECKING:
    from ..data import AnyAxes
    from ..inspection import MapText, ModelChain
    from ..io import SampleSet

_TABLES = (".tsv", ".csv")
_WORDS = 1000  # longest message of another error
_LONGEST_NAME = 80  # characters of the classes in the name of a file
WRITTEN = f"{__name__}.written"  # where the context of a command has whether its outputs are complete


def print_json(content: object) -> None:
    """Print strictly valid JSON; numbers that are not finite become null."""
    import json

    click.echo(json.dumps(_finite(content), indent=2, allow_nan=False))


def _finite(content: object) -> object:
    if isinstance(content, dict):
        return {name: _finite(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    return None if isinstance(content, float) and not isfinite(content) else content


def say_written(as_json: bool, *paths: Path) -> None:
    """Print which files were written."""
    if as_json:
        print_json({"written": [str(path) for path in paths]})
    else:
        click.echo("Wrote " + ", ".join(map(str, paths)))


def warn(*texts: str | None) -> None:
    """Print warnings on standard error; None is no warning."""
    for text in texts:
        if text is not None:
            click.echo(f"Warning: {text}", err=True)


class DataError(click.ClickException):
    """An error of data or of the system rather than of how the command was typed: it is shown without the usage."""

    exit_code = 2


@contextmanager
def refusals(*kinds: type[Exception]) -> Iterator[None]:
    """Turn errors that the user can fix, such as missing files or packages, into a message and exit code 2."""
    mendable: tuple[type[Exception], ...] = (*kinds, OSError, ImportError, MemoryError)
    try:
        yield
    except mendable as error:
        of_data = isinstance(error, (BadFileError, OSError, ImportError, MemoryError))
        raise (DataError if of_data else click.UsageError)(str(error)) from error


@contextmanager
def blaming(path: Path) -> Iterator[None]:
    """Turn any error of the code within, which uses the content of a file, into one that names the file.

    A file can be well-formed and hold anything, so that no check would foresee what its values lead to.
    """
    try:
        yield
    except (OSError, ImportError, MemoryError, click.ClickException):
        raise
    except Exception as error:
        from ..inspection import NotAffineError

        if isinstance(error, BadFileError) or str(path) in str(error):
            raise
        if isinstance(error, NotAffineError):
            raise BadFileError(f"{path}: {error}") from error
        words = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        raise BadFileError(f"{path}: cannot be used ({words[:_WORDS]})") from error


# ---- files ----


@contextmanager
def written_together() -> Iterator[None]:
    """Let the outputs of a command appear together at the end; from then on, a signal comes too late to stop it."""
    from ..runtime import all_or_none

    with all_or_none() as files:
        yield
        # What remains are renames, which signals do not interrupt.
        click.get_current_context().meta[WRITTEN] = bool(files.written)


def beside(data: Path, *others: Path, ending: str = ".skops") -> Path:
    """Return the file beside DATA for what is made of it: study.skops for study.nii.gz, study/ and study.

    What is made of several files has the name of the folder that holds all of them; tables of events do not count.
    """
    tables = () if data.suffix.lower() in _TABLES else _TABLES
    samples = {path.resolve() for path in (data, *others) if path.suffix.lower() not in tables}
    if len(samples) > 1:
        folder = Path(os.path.commonpath([path.parent for path in samples]))
        return data.parent / f"{folder.name or 'samples'}{ending}"
    name = data.resolve().name
    stem = name if data.is_dir() and data.suffix != ".zarr" else name.removesuffix(".gz").rpartition(".")[0] or name
    return data.parent / f"{stem}{ending}"


def check_ending(path: Path | None, what: str, *endings: str) -> None:
    """Raise ValueError if a file has an ending, and none of its format: nobody could open it as what it seems to be."""
    if path is not None and path.suffix and not path.name.lower().endswith(endings):
        raise ValueError(
            f"{path}: {what} is written as {' or '.join(endings)}; give a name with that ending, or with none"
        )


def can_write_in(folder: Path) -> bool:
    """Return whether files can be written in a folder, which may have to be made."""
    there = next(parent for parent in (folder, *folder.parents) if parent.exists())
    return there.is_dir() and os.access(there, os.W_OK | os.X_OK)


def check_outputs(inputs: Iterable[Path | None], outputs: Iterable[Path | None]) -> None:
    """Raise ValueError if an output would overwrite an input or another output, or cannot be written.

    Files that exist are replaced only if this package wrote them, unless there is --overwrite.
    """
    overwrite = click.get_current_context().meta.get(OVERWRITE, False)
    taken = {path.resolve(): "an input" for path in inputs if path is not None}
    for path in outputs:
        if path is None:
            continue
        if path.resolve() in taken:
            raise ValueError(f"{path} would overwrite {taken[path.resolve()]}; give another name")
        taken[path.resolve()] = "another output"
        if path.is_dir() or not can_write_in(path.resolve().parent):
            raise ValueError(f"{path} cannot be written; give a file in a folder that you may write to")
        if path.is_file() and not overwrite:
            from ..io import is_ours

            if not is_ours(path):
                raise ValueError(
                    f"{path} exists, and tensormargin has not written it; give another name, or --overwrite to replace "
                    "it"
                )


# ---- maps ----


def display_of(samples: SampleSet | None, facts: Any, background: Path | None, radiological: bool) -> Any:
    """Return how the report shows volumes; raise BadFileError if the background is none.

    Shape and affine are those of the samples, or those in the facts of a model without samples.
    """
    from ..report import Display, read_anatomy

    if background is None:
        return Display(None, radiological)
    if samples is not None:
        shape, affine = samples.sample_shape, samples.affine
    else:
        shape, affine = facts.get("sample_shape") or (), facts.get("about", {}).get("affine")
    return Display(read_anatomy(background, shape, affine), radiological)


def map_files(samples: SampleSet, *paths: Path | None) -> list[Path]:
    """Return the files that maps are written to, one per view; raise before any work is done if one cannot be."""
    given = [path for path in paths if path is not None]
    if not given:
        return []
    from ..plots import check_map_path, view_path

    shape = samples.sample_shape
    several = samples.target is not None and len(set(samples.target.tolist())) > 2
    for path in given:
        for own in shape.values() if isinstance(shape, dict) else [shape]:
            check_map_path(path, len(own) + several)
    return [view_path(path, name) for path in given for name in shape] if isinstance(shape, dict) else given


def save_maps(path: Path, maps: Any, texts: Sequence[MapText], chain: ModelChain, **more: Any) -> list[Path]:
    """Write the weights or patterns of all binary problems, named and with what their signs mean."""
    from ..plots import save_map, view_path

    if path.suffix.lower() != ".png":
        titles = [text.title for text in texts]
        return save_map(path, maps, title=titles, several="last", signs=[text.signs for text in texts], **more)
    files = list[Path]()
    for number, (name, text) in enumerate(zip(chain.problem_names, texts, strict=True)):
        values = {view: own[number] for view, own in maps.items()} if isinstance(maps, dict) else maps[number]
        file = path if len(texts) == 1 else view_path(path, problem_stem(number, name))
        files += save_map(file, values, title=text.title, several="no", signs=text.colours, **more)
    return files


def problem_stem(number: int, name: str) -> str:
    """Return what the files of one of several binary problems have in their names: its number and its classes."""
    return f"{number + 1}-{name}"[:_LONGEST_NAME]


def write_maps(model: Any, patterns: Any, given: Any, place: Any, axes: AnyAxes = None) -> list[Path]:
    """Write the maps that the options request, patterns first, and return their paths.

    Several binary problems go along an extra axis (last for NIfTI, first for .npy), or to one PNG file each, named by
    the classes; several views to one file each. ``axes`` are those of the samples, ``place`` has
    their affine and the code of its coordinates.
    """
    from ..inspection import ModelChain, named_patterns, shown_patterns, weight_maps

    if given.weight_map is None and given.pattern_map is None:
        return []
    from ..plots import fitting_axes

    chain, written = ModelChain.of(model), list[Path]()
    chain.check_picture()
    shown = {name: own.maps for name, own in shown_patterns(model, named_patterns(patterns)).items()}
    if given.pattern_map is not None and not shown:
        raise ValueError(
            "this model file holds no activation pattern: it was written by an earlier version or without samples, or "
            "the pattern has too many entries, or it is not reproducible. Fit again with --pattern-map, or see what "
            "there is in the report: tensormargin report MODEL DATA -o report.html"
        )
    modes = chain.axes_of_patterns(axes)
    for what, path in (("pattern", given.pattern_map), ("weight", given.weight_map)):
        if path is not None:
            maps = shown.get("", shown) if what == "pattern" else weight_maps(model)
            own = modes if isinstance(maps, dict) else fitting_axes(modes, maps.shape[1:])
            written += save_maps(path, maps, chain.map_texts(what), chain, **place, mode_axes=own)
    return written
