"""What the tab key completes besides commands and options: data sets, model files, and the classes of DATA."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import click
from click.shell_completion import CompletionItem


class ModelPath(click.Path):
    """A path that is completed to model files; to any file if there is none."""

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the model files in the folder of an incomplete path."""
        models = [name for name in names_beside(incomplete) if name.endswith(".skops") and name.isprintable()]
        return [CompletionItem(name) for name in models] or super().shell_complete(ctx, param, incomplete)


class DataPath(click.Path):
    """A path that is completed to files; to the names of public data sets if there are no such files."""

    def __init__(self, data_sets: Iterable[str]) -> None:
        super().__init__(path_type=Path)
        self._data_sets = data_sets

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return data sets, or let the shell complete files: bash does not list both."""
        found = [name for name in self._data_sets if name.startswith(incomplete)]
        if not found or not incomplete or names_beside(incomplete):
            return super().shell_complete(ctx, param, incomplete)
        return [CompletionItem(name) for name in found]


def complete_classes(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return comma-separated classes of DATA that begin as the last one does; none if they cannot be read at once."""
    from ..io import quick_classes

    before, _, last = incomplete.rpartition(",")
    given = before.split(",") if before else []
    data = ctx.params.get("data") or ctx.args  # while an option lacks its value, click leaves all arguments there
    source = ctx.params.get("labels_from") or next(iter(data), None)
    with suppress(Exception):  # a half-typed command line says nothing about what is wrong with a file
        classes = quick_classes(Path(str(source)), ctx.params.get("labels"))
        found = [name for name in classes if name.startswith(last) and name not in given and name.isprintable()]
        return [CompletionItem(",".join([*given, name])) for name in found]
    return []


def names_beside(incomplete: str) -> list[str]:
    """Return the paths that begin as an incomplete one does."""
    folder, start = os.path.split(incomplete)
    with suppress(OSError):
        return sorted(os.path.join(folder, name) for name in os.listdir(folder or ".") if name.startswith(start))
    return []
