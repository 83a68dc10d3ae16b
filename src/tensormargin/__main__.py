"""Runs the command line: ``tensormargin`` and ``python -m tensormargin``."""


def main() -> None:
    """Run the command line, or say how to install what it needs."""
    try:
        from .cli import run
    except ModuleNotFoundError as error:
        if error.name != "click":
            raise
        raise SystemExit("The commands need click and more: pip install 'tensormargin[cli]'") from None
    run()


if __name__ == "__main__":
    main()
