"""The page of ``tensormargin app``: its server, and the whole way in a real browser."""

import json
import os
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from importlib.resources import files
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np
import pytest

from tensormargin.cli import main
from tensormargin.cli.app import forms, runs
from tensormargin.datasets import cache_folder

pytest.importorskip("flask", reason="needs Flask: pip install 'tensormargin[app]'")

from tensormargin.cli.app import server

QUICK = {"decomposition": "cp", "rank": "1", "folds": "2", "outer_folds": "2", "jobs": "1"}
SLOW = {"folds": "5", "outer_folds": "5", "repeats": "40", "exhaustive": True, "jobs": "1", "no_report": True}


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Two files of samples: to fit, and to predict."""
    folder = tmp_path_factory.mktemp("study")
    draw = np.random.default_rng(0)
    for name, number in (("study", 40), ("new", 12)):
        y = np.arange(number) % 2
        X = draw.standard_normal((number, 4, 6))
        X[y == 1, 1] += 1.5
        np.savez(folder / f"{name}.npz", X=X, y=np.array(["rest", "task"])[y])
    return folder


@pytest.fixture
def address(tmp_path):
    with server.serve(tmp_path / "app") as (found, _):
        yield found


def sent(address, content=None, raw=None, **headers):
    """Return the answer to a request, as JSON, and its status."""
    body = raw if raw is not None else None if content is None else json.dumps(content).encode()
    kind = {} if content is None else {"Content-Type": "application/json"}
    kind |= {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        with urlopen(Request(address, body, kind), timeout=60) as answer:
            return json.load(answer), answer.status
    except HTTPError as error:
        with error:
            return json.load(error), error.code


def waited(address, name, *states, seconds=120):
    """Return a run once it has one of some states."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = {run["id"]: run for run in sent(f"{address}runs")[0]}[name]
        if found["state"] in states:
            return found
        time.sleep(0.1)
    raise AssertionError(f"{name} is {found['state']} after {seconds} s: {found['output']}")


# ---- the server ----


def test_every_address_needs_the_token_and_the_name_of_this_machine(address):
    stranger = address.rsplit("/", 2)[0]
    for wrong in (f"{stranger}/", f"{stranger}/runs", f"{address[:-2]}x/runs", f"{stranger}//runs"):
        content, status = sent(wrong)
        assert status == 403
        assert "tensormargin app" in content["error"]
    with pytest.raises(HTTPError) as refused:
        urlopen(Request(f"{address}runs", headers={"Host": "example.org"}))
    with refused.value as answer:
        assert answer.code == 403
    with urlopen(address) as answer:
        assert "script-src 'self'" in answer.headers["Content-Security-Policy"]
        assert answer.headers["Referrer-Policy"] == "no-referrer"


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "https://example.org", "Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Dest": "document"},
        {"Sec_Fetch_Site": "same-site"},
    ],
)
def test_only_the_page_itself_sends_requests(address, headers, tmp_path):
    fit = {"command": "fit", "data": ["/nowhere.npz"], "options": {}}
    for place, content in (
        ("runs", fit),
        ("look", fit),
        ("runs/run-1/resume", {}),
        ("runs", None),
        ("files?under=/", None),
    ):
        said, status = sent(f"{address}{place}", content, **headers)
        assert status == 403
        assert "only the page" in said["error"]
    assert sent(f"{address}files?batch=ab1&name=x", raw=b"x", **headers)[1] == 403
    assert not list((tmp_path / "app").iterdir())
    assert sent(f"{address}runs", Origin=address.rsplit("/", 2)[0], Sec_Fetch_Site="same-origin") == ([], 200)
    if headers.get("Sec_Fetch_Dest") != "document":  # a person may follow a link to the page, as from a file
        assert sent(address, Sec_Fetch_Dest="iframe", **headers)[1] == 403


def test_a_link_from_elsewhere_may_open_the_page_and_nothing_else(address):
    for method, status in (("GET", 200), ("OPTIONS", 403)):
        given = Request(address, headers={"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "document"}, method=method)
        try:
            with urlopen(given, timeout=60) as answer:
                found = answer.status
        except HTTPError as error:
            with error:
                found = error.code
        assert (method, found) == (method, status)


@pytest.mark.parametrize("option", ["a\0b", "\ud800", "x" * 200_000], ids=["NUL", "surrogate", "long"])
def test_an_option_that_no_system_passes_on_is_refused(address, option):
    fits = [
        {"command": "fit", "data": ["/nowhere.npz"], "options": {"labels": option}},
        {"command": "fit", "data": [option], "options": {}},
    ]
    for fit in fits * 2:  # the second time, the first is not in the way
        for place in ("runs", "look"):
            content, status = sent(f"{address}{place}", fit)
            assert status == 400
            assert "at most 10,000 characters of UTF-8 without NUL" in content["error"]
    assert sent(f"{address}runs") == ([], 200)


def test_a_command_that_the_system_refuses_is_no_run(address):
    many = {"command": "fit", "data": ["/nowhere.npz"] + ["x" * 9_999] * 400, "options": {}}
    assert [sent(f"{address}runs", many)[1] for _ in range(2)] == [400, 400]
    assert sent(f"{address}runs") == ([], 200)


def test_a_body_that_is_no_object_is_refused_in_words(address):
    bodies = [b"[]", b"1", b'"x"', b"null", b'{"data": 1}', b'{"data": "x"}', b'{"options": []}']
    for body in [*bodies, b"{", b"\xff", b"[" * 50_000]:
        for place in ("runs", "look"):
            content, status = sent(f"{address}{place}", raw=body, Content_Type="application/json")
            assert status == 400
            assert ("JSON object, with a list" if body in bodies else "") in content["error"]
    assert sent(f"{address}runs") == ([], 200)


def test_connections_that_send_nothing_do_not_block_the_page(address):
    place = ("127.0.0.1", int(address.split("/")[2].partition(":")[2]))
    stalled = b"POST /x/look HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\n{"
    with ExitStack() as stack:
        idle = [stack.enter_context(socket.create_connection(place, 60)) for _ in range(130)]
        for connection in idle[1::2]:
            with suppress(OSError):  # the oldest are closed already
                connection.sendall(stalled)
        assert sent(f"{address}runs") == ([], 200)
        assert idle[0].recv(1) == b""
        for connection in idle[1:60:2]:
            with suppress(ConnectionError):
                while connection.recv(1 << 16):
                    pass


def test_the_fields_are_the_options_of_the_commands():
    fields = {one.name: one for group in forms.fields_of("fit").values() for one in group}
    assert {"labels", "groups", "kind", "rank", "budget", "permutations", "scale"} <= set(fields)
    assert {"out", "report", "as_json"}.isdisjoint(fields)
    assert "eeg" in fields["kind"].type.choices
    made = forms.arguments("fit", ["a b.npz"], {"kind": "eeg", "folds": "5", "linear": True, "view": "x.npy | y.npy"})
    assert made == ["fit", "a b.npz", "--kind", "eeg", "--linear", "--view", "x.npy", "--view", "y.npy"]
    assert forms.command_line(made[:2]) == "tensormargin fit 'a b.npz'"
    with pytest.raises(ValueError, match="no option 'out'"):
        forms.arguments("fit", ["a"], {"out": "elsewhere"})


@pytest.mark.parametrize("name", ["../out.npz", "/etc/x", "", "a/../../b", "C:\\x"])
def test_files_are_written_inside_the_folder_only(address, tmp_path, name):
    from urllib.parse import quote

    content, status = sent(f"{address}files?batch=ab1&name={quote(name)}", raw=b"x")
    assert status == 400
    assert "no name of a file" in content["error"]
    assert not list(tmp_path.rglob("*.npz"))


def test_files_dropped_together_are_one_data_with_their_headers(address):
    for name in ("rec/one.png", "a.set", "a.fdt"):
        assert sent(f"{address}files?batch=ab1&name={name}", raw=b"content")[1] == 200
    assert [one[-5:] for one in sent(f"{address}files/ab1")[0]["data"]] == ["a.set"[-5:]]
    assert sent(f"{address}files/..")[1] in (400, 404)
    kept = sent(f"{address}files?batch=cd2&name=faces/anna/1.png", raw=b"content")[0]["path"]
    assert sent(f"{address}files/cd2")[0]["data"] == [kept.removesuffix("/anna/1.png")]


def test_paths_are_suggested_while_they_are_typed(address, study):
    assert sent(f"{address}files?under={study}/stu")[0] == [str(study / "study.npz")]
    assert len(sent(f"{address}files?under={study}/")[0]) == 2
    assert sent(f"{address}files?under=/nowhere/at/all")[0] == []


def test_files_are_not_written_through_a_link(address, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "app" / "files").symlink_to(tmp_path / "elsewhere")
    content, status = sent(f"{address}files?batch=ab1&name=x.npz", raw=b"x")
    assert status == 400
    assert "remove that link" in content["error"]
    assert not list((tmp_path / "elsewhere").iterdir())


def test_modules_of_the_current_folder_are_not_imported(address, study, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("numpy", "tensormargin", "click"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')", encoding="utf-8")
    found, status = sent(f"{address}look", {"data": [str(study / "study.npz")], "options": {}})
    assert status == 200
    assert "40 samples" in found["html"]
    assert not (tmp_path / "ran").exists()


def test_a_damaged_file_is_refused_in_words(address):
    kept = sent(f"{address}files?batch=ab1&name=study.npz", raw=b"PK no archive")[0]["path"]
    content, status = sent(f"{address}look", {"data": [kept], "options": {}})
    assert status == 400
    assert "study.npz" in content["error"]
    assert "Traceback" not in content["error"]


@pytest.mark.parametrize(
    ("data", "says"), [(["/nowhere/x.npz"], "no such file"), ([], "drop a file"), (["--help"], "begins with a dash")]
)
def test_wrong_data_is_refused_in_words(address, data, says):
    content, status = sent(f"{address}look", {"data": data, "options": {}})
    assert status == 400
    assert says in content["error"]


def test_an_interrupted_fit_goes_on(study, tmp_path):
    folder, fit = tmp_path / "app", {"command": "fit", "data": [str(study / "study.npz")], "options": SLOW}
    with server.serve(folder) as (address, _):
        started = sent(f"{address}runs", fit)[0]
        assert sent(f"{address}runs", fit)[0]["id"] == started["id"]  # from another tab
        end = time.monotonic() + 60
        while not waited(address, started["id"], "running")["share"] > 0 and time.monotonic() < end:
            time.sleep(0.1)
        stopped = sent(f"{address}runs/{started['id']}/stop", {})[0]
        assert stopped["state"] == "stopped"
        assert "run the same command again" in stopped["output"]
        assert stopped["files"] == []
        assert sent(f"{address}runs/{started['id']}/resume", {})[0]["state"] == "running"
    with server.serve(folder) as (address, _):  # the end of the first one has stopped the run
        assert waited(address, started["id"], "stopped", seconds=1)["typed"] == started["typed"]
        resumed = sent(f"{address}runs/{started['id']}/resume", {})[0]
        assert resumed["state"] == "running"
        assert sent(f"{address}runs/{started['id']}/resume", {})[1] == 200  # in another tab, already running
        end = time.monotonic() + 60
        while "From an earlier run" not in waited(address, started["id"], "running", "done")["output"]:
            assert time.monotonic() < end
            time.sleep(0.1)
        stopped = sent(f"{address}runs/{started['id']}/stop", {})[0]
        assert stopped["state"] == "stopped", stopped["output"]


@pytest.fixture(scope="module")
def failed(tmp_path_factory):
    """A folder with a run of an earlier session, and the cache that has the key."""
    folder = tmp_path_factory.mktemp("earlier") / "app"
    with server.serve(folder) as (address, _):
        started = sent(f"{address}runs", {"command": "fit", "data": ["/nowhere.npz"], "options": {}})[0]["id"]
        assert "no such file" in waited(address, started, "failed")["output"]
    return folder


def states(folder):
    """Return the runs that a new session finds in a folder, and their states."""
    return [(run.folder.name, run.state) for run in runs.Runs(folder)]


def test_runs_of_an_earlier_session_are_found_again(failed, tmp_path, monkeypatch):
    assert states(failed) == [("run-1", "failed")]
    (key,) = cache_folder().glob("app-*.key")
    assert os.name != "posix" or key.stat().st_mode & 0o777 == 0o600
    monkeypatch.setenv("TENSORMARGIN_CACHE", str(tmp_path))
    other = tmp_path / key.name
    for mode in (0o644, 0o660):  # somebody else may know this key, or may have written it
        other.write_bytes(key.read_bytes())
        other.chmod(mode)
        assert os.name != "posix" or states(failed) == []
    assert os.name != "posix" or other.stat().st_mode & 0o777 == 0o600
    assert other.read_bytes() != key.read_bytes()
    other.write_bytes(key.read_bytes())
    assert states(failed) == [("run-1", "failed")]


def test_runs_of_strangers_are_neither_shown_nor_started(failed, tmp_path):
    folder = tmp_path / "app"
    marker = tmp_path / "ran"
    for number in range(1, 6):
        (folder / f"run-{number}").mkdir(parents=True)
        (folder / f"run-{number}" / "study.html").write_text("<script>alert(1)</script>", encoding="utf-8")
    record = {"arguments": ["inspect", str(marker)], "lines": [], "code": 130}
    records = [folder / f"run-{number}" / "run.json" for number in range(1, 7)]
    records[0].write_text(json.dumps(record), encoding="utf-8")  # as 0.2.0 wrote it
    signed = (failed / "run-1" / "run.json").read_bytes()
    records[1].write_bytes(signed)  # of this user, for another folder
    records[2].write_bytes(signed.partition(b"\n")[0] + b"\n" + json.dumps(record).encode())
    records[3].symlink_to(failed / "run-1" / "run.json")
    if hasattr(os, "mkfifo"):
        os.mkfifo(records[4])
    records[5].parent.symlink_to(failed / "run-1")
    (folder / "run-<img src=x>").mkdir()
    with server.serve(folder) as (address, _):
        assert sent(f"{address}runs") == ([], 200)
        for number in range(1, 7):
            assert sent(f"{address}runs/run-{number}/resume", {})[1] == 404
            assert sent(f"{address}runs/run-{number}/files/study.html")[1] == 404
    assert not marker.exists()
    assert [path.read_bytes() for path in records[:2]] == [json.dumps(record).encode(), signed]


def test_files_of_a_run_cannot_reach_the_page(failed, tmp_path):
    folder = failed / "run-1"
    names = ["a.html", "a.htm", "a.HTML", "a.xhtml", "a.svg", "a.xml", "a.png", "a", "below/a.js"]
    (folder / "below").mkdir()
    for name in names:
        (folder / name).write_text("<script>alert(1)</script>", encoding="utf-8")
    (tmp_path / "secret.html").write_text("secret", encoding="utf-8")
    (folder / "linked.html").symlink_to(tmp_path / "secret.html")
    (folder / "linked").symlink_to(tmp_path)
    with server.serve(failed) as (address, _):
        ((run,), _) = sent(f"{address}runs")
        assert run["files"] == sorted(names)
        for name in ("linked.html", "linked/secret.html", "run.json"):
            assert sent(f"{address}runs/run-1/files/{name}")[1] == 404
        for name in names:
            with urlopen(f"{address}runs/run-1/files/{name}") as answer:
                policy = answer.headers["Content-Security-Policy"].split("; ")
                assert {"sandbox allow-scripts allow-downloads", "default-src 'none'"} <= set(policy)
                assert answer.headers["X-Content-Type-Options"] == "nosniff"
                shown = not answer.headers["Content-Disposition"].startswith("attachment")
                assert shown == name.endswith((".html", ".png"))
                assert shown or answer.headers["Content-Type"] == "application/octet-stream"
                # Read to its end: Werkzeug leaves the file of an answer open if the connection is reset meanwhile.
                assert answer.read() == b"<script>alert(1)</script>"


def test_the_command_serves_the_page_until_it_is_interrupted(tmp_path):
    """The browser gets the name of a private file, since all users see the arguments of processes."""
    browser, seen, folder = tmp_path / "browser", tmp_path / "seen", tmp_path / "app"
    browser.write_text(
        f'#!{sys.executable}\nimport os, sys\nfrom urllib.request import urlopen\nopen({str(seen)!r}, "w").write('
        'f"{sys.argv[1:]} {os.stat(sys.argv[1][7:]).st_mode:o} {urlopen(sys.argv[1]).read().decode()}")\n',
        encoding="utf-8",
    )
    browser.chmod(0o755)
    command = [sys.executable, "-m", "tensormargin", "app", "--folder", str(folder)]
    pipe, environment = subprocess.PIPE, {**os.environ, "BROWSER": str(browser)}
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment) as process:
        found = process.stdout.readline().split()[-1]
        assert sent(f"{found}runs") == ([], 200)
        while not (seen.exists() and seen.read_text().endswith(">")):
            time.sleep(0.05)
        arguments, mode, content = seen.read_text().split(" ", 2)
        assert found.split("/")[3] not in arguments
        assert mode == "100600"
        assert f'url={found}"' in content
        process.terminate()  # Ctrl-C is ignored where the tests run in the background
        try:
            assert process.wait(60) == 143
        finally:
            process.kill()
    assert not list(folder.iterdir())


def test_the_page_says_what_to_install(monkeypatch):
    from click.testing import CliRunner

    monkeypatch.setitem(sys.modules, "flask", None)
    monkeypatch.delitem(sys.modules, "tensormargin.cli.app.server")
    result = CliRunner().invoke(main, ["app", "--no-browser"])
    assert result.exit_code == 2
    assert "tensormargin[app]" in result.output


def test_a_command_that_hangs_is_killed(tmp_path, monkeypatch):
    deaf = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)"
    )
    monkeypatch.setattr(runs, "command_of", lambda arguments: [sys.executable, "-c", deaf])
    monkeypatch.setattr(runs, "_PATIENCE", 0.2)
    run = runs.Runs(tmp_path).start(["fit", "x"], "model.skops")
    end = time.monotonic() + 30
    while not run.lines and time.monotonic() < end:
        time.sleep(0.05)
    run.stop()
    assert run.state == "stopped"
    assert run.process.returncode == -9


# ---- the page ----

SERIOUS = """
    const done = arguments[arguments.length - 1];
    axe.run({iframes: false}).then((found) => done(found.violations.map((one) => `${one.id}: ${one.nodes[0].html}`)));
"""


@pytest.fixture
def page(browser, address):
    """The page in the browser, and a function that waits for an element that can be seen."""
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    browser.get(address)

    def find(selector, text="", seconds=120):
        def seen(one):
            found = [part for part in one.find_elements(By.CSS_SELECTOR, selector) if part.is_displayed()]
            return next((part for part in found if text in part.text), None)

        return WebDriverWait(browser, seconds, ignored_exceptions=(Exception,)).until(seen)

    return find


def press(part):
    """Click on an element, also if suggestions of a field lie over it."""
    part.parent.execute_script("arguments[0].click()", part)


def fill(page, form, path, **options):
    """Fill in a form of the page."""
    field = page(f"{form} .data")
    field.clear()
    field.send_keys(str(path))
    if options:
        press(page(f"{form} summary"))
    for name, value in options.items():
        part = page(f"{form} [name={name}]")
        if value is True:
            press(part)
        else:
            if part.tag_name == "input":
                part.clear()
            part.send_keys(value)


def no_faults(browser):
    pytest.importorskip("axe_core_python", reason="needs axe-core-python, which carries the checker")
    if not browser.execute_script("return 'axe' in window"):
        browser.execute_script((files("axe_core_python") / "axe.min.js").read_text(encoding="utf-8"))
    assert browser.execute_async_script(SERIOUS) == []


def test_from_a_file_to_predictions(browser, page, study, address, tmp_path):
    from selenium.webdriver.support.ui import WebDriverWait

    no_faults(browser)
    fill(page, "#fit", "/nowhere/study.npz")
    press(page("#fit button[type=submit]"))
    assert "no such file" in page("#wrong").text
    upload = browser.find_element("css selector", "#fit input[type=file][multiple]")
    upload.send_keys(str(study / "study.npz"))  # as if it was dropped
    assert page("#fit .taken", "1 file added")
    fill(page, "#fit", browser.find_element("css selector", "#fit .data").get_attribute("value"), **QUICK)
    press(page("#fit button[type=submit]"))
    understood = page("#understood").text
    assert "40 samples of 4 x 6" in understood
    assert "rest (20), task (20)" in understood
    assert "--decomposition cp --rank 1" in understood
    assert len(browser.find_elements("css selector", "#understood img")) == 2
    no_faults(browser)
    press(page("#start"))
    assert page("#run-1 h2", "done")
    assert page("#run-1 iframe").get_attribute("src").endswith("study.html")
    no_faults(browser)
    press(page("#run-1 .maps"))
    assert page("#run-2 h2", "done")
    assert page("#run-2 img").get_attribute("alt") == "maps/pattern.png"
    drawn = "return [...document.querySelectorAll('#run-2 img')].every((one) => one.naturalWidth > 0)"
    WebDriverWait(browser, 60).until(lambda one: one.execute_script(drawn))
    fill(page, "#run-1 form", study / "new.npz")
    press(page("#run-1 form button[type=submit]"))
    assert page("#run-3 h2", "done")
    assert len(page("#run-3 .shown pre", "sample,label,predicted").text.splitlines()) == 11
    assert [one.text for one in browser.find_elements("css selector", "#run-3 .files a")] == ["predictions.csv"]
    written = tmp_path / "app"
    assert {path.name for path in written.glob("run-*/*") if path.is_file()} >= {"study.skops", "study.html"}
    errors = [one for one in browser.get_log("browser") if one["level"] == "SEVERE" and " 400 " not in one["message"]]
    assert [one for one in errors if "favicon" not in one["message"]] == []


def test_two_tabs_show_the_same_runs(browser, page, study, address):
    fill(page, "#fit", study / "study.npz", **{name: SLOW[name] for name in ("repeats", "exhaustive")})
    press(page("#fit button[type=submit]"))
    press(page("#start"))
    assert page("#run-1 h2", "running")
    first = browser.current_window_handle
    browser.switch_to.new_window("tab")
    try:
        browser.get(address)
        assert page("#run-1 .state", "%")
        press(page("#run-1 .stop"))
        assert page("#run-1 .resume")
    finally:
        browser.close()
        browser.switch_to.window(first)
    assert page("#run-1 h2", "stopped")


HOSTILE = """<!doctype html><title>new</title><form method="post"></form><script>
    const page = location.href.split("runs/")[0], post = {method: "POST", mode: "no-cors", body: "x"};
    const tries = ["runs/run-1/resume", "runs/run-1/stop", "files?batch=ab1&name=planted"];
    document.forms[0].action = page + tries[0];
    document.forms[0].submit();
    new Image().src = page + "runs";
    try { parent.document.title = "reached"; } catch {}
    if (parent !== window) try { top.location = "about:blank"; } catch {}
    Promise.allSettled(tries.map((one) => fetch(page + one, post))).then(() => { document.title = "tried"; });
</script>"""


def test_a_report_of_a_stranger_reaches_nothing(browser, tmp_path):
    """Opened from a file, as the command does it, in the frame of the page and by itself."""
    from selenium.webdriver.support.ui import WebDriverWait

    folder = tmp_path / "app"
    with server.serve(folder) as (address, _):
        fit = sent(f"{address}runs", {"command": "fit", "data": ["/nowhere.npz"], "options": {}})[0]
        waited(address, fit["id"], "failed")
        before = (folder / "run-1" / "run.json").stat().st_mtime_ns
        (folder / "run-1" / "study.html").write_text(HOSTILE, encoding="utf-8")
        opener = tmp_path / "page.html"
        opener.write_text(f'<meta http-equiv="refresh" content="0; url={address}">', encoding="utf-8")
        browser.get(opener.as_uri())
        frame = WebDriverWait(browser, 60).until(lambda one: one.find_elements("css selector", "#run-1 iframe"))[0]
        assert frame.get_attribute("sandbox") == "allow-scripts allow-downloads"
        browser.switch_to.frame(frame)
        WebDriverWait(browser, 60).until(lambda one: one.execute_script("return document.title") == "tried")
        browser.switch_to.default_content()
        assert (browser.title, browser.current_url) == ("tensormargin", address)
        browser.get(f"{address}runs/run-1/files/study.html")
        WebDriverWait(browser, 60).until(lambda one: one.title == "tried")
        ((run,), _) = sent(f"{address}runs")
        assert run["state"] == "failed"
        assert (folder / "run-1" / "run.json").stat().st_mtime_ns == before
        assert not (folder / "files").exists()


def test_a_page_without_its_server_says_so(browser, tmp_path):
    with server.serve(tmp_path / "app") as (address, _):
        browser.get(address)
    from selenium.webdriver.support.ui import WebDriverWait

    said = "return document.getElementById('wrong').textContent"
    WebDriverWait(browser, 30).until(lambda one: "still running" in one.execute_script(said))
