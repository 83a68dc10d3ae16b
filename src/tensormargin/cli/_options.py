"""Options and output checks shared by several commands."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from math import isfinite
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

_WORDS = 1000  # longest message of another error
_OVERWRITE = "tensormargin.overwrite"


def nonzero(context: click.Context, parameter: click.Parameter, value: int) -> int:
    """Return the number of jobs; raise for zero."""
    if value == 0:
        raise click.BadParameter("must be a number of processes, or -1 for one per core; got 0")
    return value


def names(text: str) -> tuple[str, ...]:
    """Return the comma-separated names without duplicates, in order."""
    return tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


jobs_option = click.option(
    "--jobs", type=int, default=-1, show_default=True, callback=nonzero, help="Number of processes; -1 uses all cores."
)
scheduler_option = click.option(
    "--scheduler",
    metavar="ADDRESS",
    help="Run the fits on all workers of the Dask scheduler at this address (tcp://host:8786) or in this file.",
)
seed_option = click.option(
    "--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True, help="Seed of the splits."
)
methods_option = click.option("--methods", help="Comma-separated method names; by default all seven of the paper.")
model_sha256_option = click.option(
    "--model-sha256",
    metavar="DIGEST",
    help="Digest that the model (or comparison) must have, as sha256sum prints it; see docs/security.md.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")


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


def overwrite_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --overwrite, which `check_outputs` asks for."""
    return click.option(
        "--overwrite",
        is_flag=True,
        expose_value=False,
        callback=lambda context, option, value: context.meta.update({_OVERWRITE: value}),
        help="Replace existing files that tensormargin has not written, too.",
    )(command)


def check_ending(path: Path | None, what: str, *endings: str) -> None:
    """Raise ValueError if a file has an ending, and none of its format: nobody could open it as what it seems to be."""
    if path is not None and path.suffix and not path.name.lower().endswith(endings):
        raise ValueError(
            f"{path}: {what} is written as {' or '.join(endings)}; give a name with that ending, or with none"
        )


def check_outputs(inputs: Iterable[Path | None], outputs: Iterable[Path | None]) -> None:
    """Raise ValueError if an output would overwrite an input or another output, or cannot be written.

    Files that exist are replaced only if this package wrote them, unless there is --overwrite.
    """
    overwrite = click.get_current_context().meta.get(_OVERWRITE, False)
    taken = {path.resolve(): "an input" for path in inputs if path is not None}
    for path in outputs:
        if path is None:
            continue
        if path.resolve() in taken:
            raise ValueError(f"{path} would overwrite {taken[path.resolve()]}; give another name")
        taken[path.resolve()] = "another output"
        folder = next(parent for parent in path.resolve().parents if parent.exists())
        if path.is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK):
            raise ValueError(f"{path} cannot be written; give a file in a folder that you may write to")
        if path.is_file() and not overwrite and not _is_ours(path):
            raise ValueError(
                f"{path} exists, and tensormargin has not written it; give another name, or --overwrite to replace it"
            )


def _is_ours(path: Path) -> bool:
    from ..io import is_ours

    return is_ours(path)


@contextmanager
def refusals(*kinds: type[Exception]) -> Iterator[None]:
    """Turn errors that the user can fix, such as missing files or packages, into a message and exit code 2."""
    mendable: tuple[type[Exception], ...] = (*kinds, OSError, ImportError, MemoryError)
    try:
        yield
    except mendable as error:
        raise click.UsageError(str(error)) from error


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
        from ..io import BadFileError

        if isinstance(error, BadFileError) or str(path) in str(error):
            raise
        words = str(error) if isinstance(error, ValueError | NotAffineError) else f"{type(error).__name__}: {error}"
        raise BadFileError(f"{path}: cannot be used ({words[:_WORDS]})") from error


@contextmanager
def fits_on(scheduler: str | None, *samples: object) -> Iterator[None]:
    """Run the fits inside on the workers of a Dask scheduler, which get the samples once; None runs them locally."""
    if scheduler is None:
        yield
        return
    from ..runtime import on_cluster

    with ExitStack() as stack:
        with refusals(ValueError):
            if click.get_current_context().get_parameter_source("jobs") is not ParameterSource.DEFAULT:
                raise ValueError("--jobs counts processes of this machine, --scheduler takes all workers; give one")
            stack.enter_context(on_cluster(scheduler, *samples))
        with refusals():
            yield
