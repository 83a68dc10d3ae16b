"""Run the command line with ``python -m tensormargin.cli``."""

from . import main

main(prog_name="tensormargin")
