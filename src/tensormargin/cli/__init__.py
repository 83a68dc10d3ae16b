"""The command line: one file per command, which parses its options and prints what others compute.

It may import all wings, heavy ones when a command runs. Nothing imports it.
"""

import os
import sys
from typing import Any

import click

from .. import __version__
from ..runtime import escape_streams, escaped_streams
from ._running import ENDS_PROCESS, end_processes, interruptible, leave
from .app import app_command
from .compare import compare_command
from .completion import completion_command
from .data import data_command
from .doctor import doctor_command
from .export import export_command
from .fit import fit_command
from .maps import maps_command
from .patches import patches_command
from .predict import inspect_command, predict_command
from .report import report_command
from .reproduce import reproduce_command, results_command

_COMMANDS = (
    compare_command,
    fit_command,
    app_command,
    predict_command,
    inspect_command,
    maps_command,
    report_command,
    export_command,
    patches_command,
    data_command,
    reproduce_command,
    results_command,
    doctor_command,
    completion_command,
)


class _Commands(click.Group):
    """A group that lists its commands in the order in which they were added; Ctrl-C ends them quietly."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands with their whole summaries."""
        with formatter.section("Commands"):
            shown = [command for command in self.commands.values() if not command.hidden]
            formatter.write_dl([(str(command.name), command.get_short_help_str(limit=1000)) for command in shown])

    def main(self, *given: Any, **more: Any) -> Any:
        """Run a command, all of whose output is escaped."""
        with escaped_streams():
            return super().main(*given, **more)

    def invoke(self, ctx: click.Context) -> Any:
        with interruptible(ctx):
            return super().invoke(ctx)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "color": True})
@click.version_option(__version__, prog_name="tensormargin")
def main() -> None:
    """Classify tensor-valued samples with low-rank large margin distribution machines.

    \b
    Examples:
      tensormargin compare                            compare methods on recordings of a watch
      tensormargin fit eeg.npz                        choose, evaluate and fit a model: eeg.skops, eeg.html
      tensormargin predict eeg.skops new.npz -o predictions.csv
    """  # noqa: D301 - click keeps lines apart after a backspace
    os.environ.setdefault("MPLBACKEND", "Agg")  # figures are only saved to files, so no display is needed


for _command in _COMMANDS:
    main.add_command(_command)


def run(arguments: list[str] | None = None) -> None:
    """Run the command line and end the process."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # names of files and labels need not be text that can be encoded
            stream.reconfigure(errors="backslashreplace")
    os.environ.setdefault("PYTHON_COLORS", "0")  # of tracebacks, which would be escaped like all other text
    escape_streams()
    try:
        main(arguments, prog_name="tensormargin", obj=ENDS_PROCESS)
    except SystemExit as ending:
        end_processes()
        leave(ending.code)
    finally:
        end_processes()
