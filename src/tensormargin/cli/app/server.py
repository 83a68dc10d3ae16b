"""The addresses of the page: files, what was understood of them, runs."""

from __future__ import annotations

import json
import logging
import os
import secrets
import subprocess
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from socket import SHUT_RDWR
from threading import Thread
from typing import Any

from ...runtime import replacing
from .._completing import names_beside
from .._data import DATA_SETS
from .._outputs import beside
from .forms import COMMANDS, arguments, command_line, default_of, fields_of
from .runs import Run, Runs, command_of, environment, error_in

try:
    import flask
    from jinja2 import ChoiceLoader, PackageLoader
    from werkzeug.exceptions import HTTPException
    from werkzeug.serving import ThreadedWSGIServer
except ImportError as error:
    raise ImportError(f"the page needs Flask ({error}): pip install 'tensormargin[app]'") from error

_LOOK_SECONDS = 300.0  # for reading DATA
_MOST_NAMES = 200  # of files that are suggested
_MOST_STRANGERS = 64  # open connections that have not shown the token
_HEADERS = (".set", ".vhdr", ".hdr")  # files that name the files beside them
_OUTPUTS = {"predict": "predictions.csv", "maps": "maps"}
_SAFE = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
_SANDBOX = (
    "sandbox allow-scripts allow-downloads; default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'; frame-ancestors 'self'"
)
_SHOWN = {".html": "text/html", ".png": "image/png"}  # every other file of a run is a download
page = flask.Blueprint("page", __name__, static_folder="page")


class _Server(ThreadedWSGIServer):
    """A thread per connection; those that send nothing cannot use up all files, since the oldest of them is closed."""

    def __init__(self, port: int, app: flask.Flask) -> None:
        super().__init__("127.0.0.1", port, app)
        self.strangers = app.config["STRANGERS"]

    def process_request(self, request: Any, client_address: Any) -> None:
        self.strangers[request] = None
        if len(self.strangers) > _MOST_STRANGERS:
            with suppress(OSError):
                self.strangers.popitem(last=False)[0].shutdown(SHUT_RDWR)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self.strangers.pop(request, None)
        super().shutdown_request(request)


@contextmanager
def serve(folder: Path, port: int = 0) -> Iterator[tuple[str, Callable[[], None]]]:
    """Serve the page while the context is open; yield its address and a function that waits for its end."""
    folder.mkdir(parents=True, exist_ok=True)
    token, runs = secrets.token_urlsafe(16), Runs(folder)
    logging.getLogger("werkzeug").setLevel(logging.CRITICAL)  # a line per request says nothing to the user
    server = _Server(port, make_app(runs, token))
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/{token}/", thread.join
    finally:
        server.shutdown()
        runs.stop()
        server.server_close()


def make_app(runs: Runs, token: str) -> flask.Flask:
    """Return the application; every address begins with the token."""
    app = flask.Flask(__name__, static_folder=None)
    app.config.update(RUNS=runs, STRANGERS=OrderedDict())
    app.jinja_loader = ChoiceLoader([PackageLoader(__package__, "page"), PackageLoader("tensormargin.report")])
    app.register_blueprint(page, url_prefix=f"/{token}")

    @app.before_request
    def only_from_here() -> None:
        # Another site that gives its name our address (DNS rebinding) would send its own name as the host.
        request = flask.request
        host, given = request.host.partition(":")[0], request.path.partition("/")[2].partition("/")[0]
        if host not in ("127.0.0.1", "localhost") or not secrets.compare_digest(given.encode(), token.encode()):
            flask.abort(403, "open the address that `tensormargin app` has printed; it holds a token")
        # A report knows the token from its own address. Browsers say who sends a request; other programs do not.
        from_page = request.headers.get("Sec-Fetch-Site", "none") in ("same-origin", "none")
        looks = request.method == "GET" and request.endpoint == "page.index"
        opened = looks and request.headers.get("Sec-Fetch-Dest") == "document"
        origin = f"http://{request.host}"
        if request.headers.get("Origin", origin) != origin or not (from_page or opened):
            flask.abort(403, "only the page of `tensormargin app` itself may send requests")
        app.config["STRANGERS"].pop(request.environ.get("werkzeug.socket"), None)

    @app.after_request
    def safe(response: flask.Response) -> flask.Response:
        for name, value in _SAFE.items():
            response.headers.setdefault(name, value)
        return response

    @app.errorhandler(Exception)
    def refused(error: Exception) -> tuple[flask.Response, int]:
        if isinstance(error, HTTPException):
            return flask.jsonify(error=error.description), error.code or 500
        if isinstance(error, ValueError | OSError | RecursionError | subprocess.TimeoutExpired):
            return flask.jsonify(error=str(error)), 400
        raise error

    return app


# ---- files ----


@page.get("/")
def index() -> str:
    """Return the page."""
    fields = {name: fields_of(name) for name in COMMANDS}
    return flask.render_template("page.html", fields=fields, default_of=default_of, sets=DATA_SETS)


@page.get("/files")
def suggest() -> list[str]:
    """Return files and folders whose path begins with what has been typed."""
    under = os.path.expanduser(flask.request.args.get("under", ""))
    found = [name for name in names_beside(under) if not os.path.basename(name).startswith(".")]
    return [name + (os.sep if os.path.isdir(name) else "") for name in found[:_MOST_NAMES]]


@page.post("/files")
def take() -> dict[str, str]:
    """Write what the browser sends to a file of a name that may have folders."""
    name = flask.request.args.get("name", "")
    parts = PurePosixPath(name.replace("\\", "/")).parts
    if not parts or any(one in ("..", "/") or ":" in one or "\0" in one for one in parts):
        raise ValueError(f"{name!r} is no name of a file; rename it")
    path = _batch(flask.request.args.get("batch", "")).joinpath(*parts)
    with replacing(path) as temporary, temporary.open("wb") as file:
        while chunk := flask.request.stream.read(1 << 20):
            file.write(chunk)
    return {"path": str(path)}


@page.get("/files/<name>")
def taken(name: str) -> dict[str, list[str]]:
    """Return DATA in files that were dropped together: headers instead of what they name, otherwise all."""
    found = sorted(_batch(name).iterdir())
    headers = [one for one in found if one.suffix.lower() in _HEADERS]
    return {"data": [str(one) for one in headers or found]}


def _batch(name: str) -> Path:
    if not name.isalnum():
        raise ValueError(f"files that are dropped together have a name of letters and digits; got {name!r}")
    folder = Path(_runs().folder, "files", name)
    if folder.resolve() != _runs().folder.resolve() / "files" / name:
        raise ValueError(f"{folder} leads to another folder; remove that link")
    return folder


# ---- commands ----


def _runs() -> Runs:
    found: Runs = flask.current_app.config["RUNS"]
    return found


def _run(name: str) -> Run:
    return _runs().get(name) or flask.abort(404, f"there is no run {name!r}; reload the page")


def _given() -> dict[str, Any]:
    given = flask.request.get_json()
    if isinstance(given, dict):
        given = {"data": [], "options": {}, **given}
        if isinstance(given["data"], list) and isinstance(given["options"], dict):
            return given
    raise ValueError("a request is a JSON object, with a list `data` and an object `options`; reload the page")


def _files(given: dict[str, Any]) -> list[str]:
    files = [str(one).strip() for one in given["data"] if str(one).strip()]
    if not files:
        raise ValueError("there is no DATA: drop a file on the page, or give the path of a file or folder")
    if any(one.startswith("-") for one in files):
        raise ValueError("the path of DATA begins with a dash; give it with its folder")
    return [os.path.expanduser(one) for one in files]


@page.post("/look")
def look() -> dict[str, Any]:
    """Return what DATA is understood as, and the command that fits it."""
    given = _given()
    typed = arguments("fit", _files(given), given["options"])
    unwritten = str(_runs().folder / "model.skops")
    found = subprocess.run(
        command_of([*typed, "-o", unwritten, "--dry-run", "--json"]),
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        env=environment(),
        timeout=_LOOK_SECONDS,
    )
    if found.returncode:
        raise ValueError(error_in(found.stderr))
    remarks = [line for line in found.stderr.splitlines() if line.startswith(("Note: ", "Warning: "))]
    return {**json.loads(found.stdout), "remarks": remarks, "typed": command_line(typed)}


@page.get("/runs")
def list_runs() -> list[dict[str, Any]]:
    """Return all runs."""
    return [run.facts for run in _runs()]


@page.post("/runs")
def start() -> dict[str, Any]:
    """Start a command; one that is running with the same arguments, from another tab, is returned instead."""
    given = _given()
    command = str(given.get("command"))
    if command not in COMMANDS:
        raise ValueError(f"the page runs {', '.join(COMMANDS)}; got {command!r}")
    model = [] if command == "fit" else [_run(str(given.get("of"))).model]
    files = [] if command == "maps" else _files(given)
    typed = arguments(command, [*model, *files], given["options"])
    out = _OUTPUTS.get(command) or beside(*map(Path, files)).name
    return _runs().start(typed, out).facts


@page.post("/runs/<name>/resume")
def resume(name: str) -> dict[str, Any]:
    """Start a command again that was stopped."""
    run = _run(name)
    run.start()
    return run.facts


@page.post("/runs/<name>/stop")
def stop(name: str) -> dict[str, Any]:
    """Stop a command."""
    run = _run(name)
    run.stop()
    return run.facts


@page.get("/runs/<name>/files/<path:path>")
def download(name: str, path: str) -> flask.Response:
    """Return a file that a command has written."""
    run = _run(name)
    if path not in run.files:
        flask.abort(404, f"the run has not written {path!r}")
    kind = _SHOWN.get(PurePosixPath(path).suffix)
    save = kind is None or "save" in flask.request.args
    folder = run.folder.resolve()
    response = flask.send_from_directory(folder, path, as_attachment=save, mimetype=kind or "application/octet-stream")
    response.headers["Content-Security-Policy"] = _SANDBOX  # it may not reach the page
    return response
