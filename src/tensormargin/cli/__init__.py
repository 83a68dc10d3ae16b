"""The command line: parses and prints, computes nothing. Heavy imports wait until a command runs."""

from __future__ import annotations

import click

from .. import __version__
from .compare import compare_command
from .reproduce import reproduce_command, results_command


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="tensormargin")
def main() -> None:
    """Classify tensor-valued samples with low-rank large margin distribution machines.

    Example: tensormargin compare
    """


for _command in (compare_command, reproduce_command, results_command):
    main.add_command(_command)
