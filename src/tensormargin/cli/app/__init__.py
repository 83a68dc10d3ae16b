"""``tensormargin app``: a page in the browser instead of a terminal.

Everything that the page does is a command in a process of its own (`runs`), whose options it takes from the commands'
declarations (`forms`), so that it shows the command line that does the same; `server` has the addresses.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import click

from .. import _options as options
from .._outputs import refusals


@click.command("app")
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    default="tensormargin-app",
    show_default=True,
    help="Folder for files that are dropped on the page, models, reports and predictions.",
)
@options.number("--port", 0, "Port of the page; 0 takes a free one.", default=0)
@click.option("--no-browser", is_flag=True, help="Print the address of the page, and open no browser.")
def app_command(folder: Path, port: int, no_browser: bool) -> None:
    """Open a page in the browser: choose a file, fit, read the report, predict other files.

    The page is served to this machine only (127.0.0.1), and its address contains a token that others do not know;
    nothing leaves the machine. To end it, press Ctrl-C here: runs are stopped, and can be resumed later.
    """
    with refusals(ValueError):
        import webbrowser

        from .server import serve

        with serve(folder, port) as (address, wait), TemporaryDirectory(prefix="open-", dir=folder) as private:
            click.echo(f"Open {address}\nFiles are written to {folder.resolve()}. Ctrl-C ends the page.")
            if not no_browser:  # everybody on this machine can read the arguments of a browser, but not this file
                path = Path(private, "page.html").resolve()
                path.touch(0o600)
                path.write_text(f'<!doctype html><meta http-equiv="refresh" content="0; url={address}">', "utf-8")
                webbrowser.open(path.as_uri())
            wait()
