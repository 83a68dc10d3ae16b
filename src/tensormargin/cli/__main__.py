"""Run the command line with ``python -m tensormargin.cli``."""

from . import run

run()
