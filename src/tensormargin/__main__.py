"""Runs the command line: ``python -m tensormargin``."""

from .cli import run

if __name__ == "__main__":
    run()
