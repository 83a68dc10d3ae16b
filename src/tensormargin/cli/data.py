"""``tensormargin data``: list and fetch public data sets."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ..runtime import counted
from . import _options as options
from ._outputs import check_ending, check_outputs, print_json, refusals, say_written
from ._running import console_on


@click.group("data")
def data_command() -> None:
    """List the supported public data sets, and fetch them as files for the other commands.

    Example: tensormargin data fetch eeg -o eeg.npz && tensormargin fit eeg.npz -o eeg.skops
    """


@data_command.command("list")
@options.as_json
def list_command(as_json: bool) -> None:
    """List the data sets: name, samples, source, and whether they are available offline.

    Example: tensormargin data list
    """
    from ..datasets import CATALOGUE, is_at_hand

    rows = [
        {"name": name, "what": entry.what, "source": entry.source, "at_hand": is_at_hand(entry)}
        for name, entry in CATALOGUE.items()
    ]
    if as_json:
        print_json(rows)
        return
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE)
    for heading in ("name", "what", "source", "offline"):
        table.add_column(heading)
    for row in rows:
        table.add_row(str(row["name"]), str(row["what"]), str(row["source"]), "yes" if row["at_hand"] else "")
    console_on(sys.stdout).print(table)


@data_command.command("fetch")
@click.argument("name")
@click.option("-o", "--out", type=options.FILE, help="File to write. [default: NAME.npz]")
@options.overwrite
@options.as_json
def fetch_command(name: str, out: Path | None, as_json: bool) -> None:
    """Fetch a data set and write it as an .npz file with the arrays X, y and optionally groups.

    Example: tensormargin data fetch haxby -o haxby.npz
    """
    from ..datasets import export

    path = out or Path(f"{name}.npz")
    with refusals(ValueError):
        check_ending(path, "a data set", ".npz")
        check_outputs((), (path,))
        shape = export(name, path)
    say_written(as_json, path)
    if not as_json:
        click.echo(f"{counted(shape[0], 'sample')} of {' x '.join(map(str, shape[1:]))}")
