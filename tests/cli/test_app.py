"""The page of ``tensormargin app``: its server, and the whole way in a real browser."""

import json
import subprocess
import sys
import time
from importlib.resources import files
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np
import pytest

from tensormargin.cli import main
from tensormargin.cli.app import forms, runs

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


def sent(address, content=None, raw=None):
    """Return the answer to a request, as JSON, and its status."""
    body = raw if raw is not None else None if content is None else json.dumps(content).encode()
    kind = {} if content is None else {"Content-Type": "application/json"}
    try:
        with urlopen(Request(address, body, kind)) as answer:
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


def test_an_interrupted_fit_goes_on(address, study):
    fit = {"command": "fit", "data": [str(study / "study.npz")], "options": SLOW}
    started = sent(f"{address}runs", fit)[0]
    assert sent(f"{address}runs", fit)[0]["id"] == started["id"]  # from another tab
    end = time.monotonic() + 60
    while not waited(address, started["id"], "running")["share"] > 0 and time.monotonic() < end:
        time.sleep(0.1)
    stopped = sent(f"{address}runs/{started['id']}/stop", {})[0]
    assert stopped["state"] == "stopped"
    assert "run the same command again" in stopped["output"]
    assert stopped["files"] == []
    resumed = sent(f"{address}runs/{started['id']}/resume", {})[0]
    assert resumed["state"] == "running"
    assert sent(f"{address}runs/{started['id']}/resume", {})[1] == 200  # in another tab, already running
    end = time.monotonic() + 60
    while "From an earlier run" not in waited(address, started["id"], "running", "done")["output"]:
        assert time.monotonic() < end
        time.sleep(0.1)
    stopped = sent(f"{address}runs/{started['id']}/stop", {})[0]
    assert stopped["state"] == "stopped", stopped["output"]


def test_runs_of_an_earlier_session_are_found_again(tmp_path, study):
    folder = tmp_path / "app"
    with server.serve(folder) as (first, _):
        predicted = sent(f"{first}runs", {"command": "fit", "data": ["/nowhere.npz"], "options": {}})[0]["id"]
        failed = waited(first, predicted, "failed")
    assert "no such file" in failed["output"]
    (folder / "run-9").mkdir()
    (folder / "run-9" / "run.json").write_text("{", encoding="utf-8")  # damaged
    with server.serve(folder) as (second, _):
        assert [(run["id"], run["state"]) for run in sent(f"{second}runs")[0]] == [("run-1", "failed")]
        assert sent(f"{second}runs/run-9/stop", {})[1] == 404


def test_the_command_serves_the_page_until_it_is_interrupted(tmp_path):
    command = [sys.executable, "-m", "tensormargin", "app", "--no-browser", "--folder", str(tmp_path / "app")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        found = process.stdout.readline().split()[-1]
        assert sent(f"{found}runs") == ([], 200)
        process.terminate()  # Ctrl-C is ignored where the tests run in the background
        try:
            assert process.wait(60) == 143
        finally:
            process.kill()


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
    no_faults(browser)
    fill(page, "#fit", "/nowhere/study.npz")
    press(page("#fit button[type=submit]"))
    assert "no such file" in page("#wrong").text
    upload = browser.find_element("css selector", "#fit input[type=file][multiple]")
    upload.send_keys(str(study / "study.npz"))  # as if it was dropped
    assert page("#fit .taken", "1 file taken")
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


def test_a_page_without_its_server_says_so(browser, tmp_path):
    with server.serve(tmp_path / "app") as (address, _):
        browser.get(address)
    from selenium.webdriver.support.ui import WebDriverWait

    said = "return document.getElementById('wrong').textContent"
    WebDriverWait(browser, 30).until(lambda one: "still running" in one.execute_script(said))
