"""Labels, groups and names of files that are HTML and scripts: a browser shows them as text, and does nothing else."""

from __future__ import annotations

import shutil
import socket
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from campaigns.models import run
from campaigns.outcome import Outcome

FLAGS = ("headless=new", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-sync",
         "disable-background-networking", "disable-component-update")  # fmt: skip
PIECES = (
    "<script>alert(1)</script>", "</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>', "'-alert(1)-'", "</title><script>alert(1)</script>", "<!--", "-->", "]]>", "</style>",
    "javascript:alert(1)", "{{ 7 * 7 }}", "{% raw %}", "${alert(1)}", "`", "\\u003cscript\\u003e", "&lt;b&gt;", "&#60;",
    "<a href='javascript:alert(1)'>", "<base href=//HOST/>", "<iframe src=http://HOST/>", "<img src=http://HOST/x>",
    "<link rel=stylesheet href=http://HOST/c>", "<meta http-equiv=refresh content=0;http://HOST/>",
    "<style>@import 'http://HOST/'</style>", "url(http://HOST/)", "<form action=http://HOST><button autofocus>",
    "\u2028alert(1)", "\u202egpj", "\u200b", "ä", "x" * 200, "=1+1", "null", "__proto__", "constructor", "\\",
    "%3Cb%3E",
)  # fmt: skip
LITERAL = """
    const copy = document.body.cloneNode(true);
    copy.querySelectorAll('script, style').forEach((one) => one.remove());
    return copy.textContent.replace(/\\s+/g, ' ');
"""
FOREIGN = """
    const wanted = 'iframe, object, embed, link, base, form, img:not([src^="data:"]), a[href^="javascript"]';
    return [...document.querySelectorAll('*')].filter(
        (one) => one.matches(wanted) || [...one.attributes].some((own) => own.name.startsWith('on'))
    ).map((one) => one.outerHTML.slice(0, 80));
"""
USE = """
    document.querySelectorAll('details').forEach((one) => one.open = true);
    document.querySelectorAll('button, input[type=checkbox]').forEach((one) => one.click());
    for (const one of document.querySelectorAll('select')) {
        for (const own of one.options) { one.value = own.value; one.dispatchEvent(new Event('change')); }
    }
    for (const one of document.querySelectorAll('input')) one.dispatchEvent(new Event('input'));
"""


def hostile_labels(number: int, seed: int) -> Outcome:
    """Return what a browser does with pages about samples whose labels, groups and names are hostile."""
    outcome = Outcome("hostile labels in a browser")
    with TemporaryDirectory() as name, listener() as (host, calls), open_browser(Path(name)) as driver:
        if driver is None:
            outcome.note("needs Chromium, its driver and Selenium")
            return outcome
        for case in range(number):
            rng = np.random.default_rng([seed, case])
            folder = Path(name) / str(case)
            folder.mkdir()
            words, (page, shown, faults) = _page(folder, rng, host)
            if not faults:
                faults = look(driver, page, shown)
                faults += [f"{len(calls)} connections were made"] if calls else []
            calls.clear()
            outcome.add(f"seed {seed}, case {case}: {words}", faults)
    return outcome


def hostile_text(rng: np.random.Generator, host: str) -> str:
    """Draw a label."""
    pieces = [PIECES[int(one)] for one in rng.integers(len(PIECES), size=int(rng.integers(1, 4)))]
    return " ".join(pieces).replace("HOST", host)


def _page(folder: Path, rng: np.random.Generator, host: str) -> tuple[str, tuple[Path, list[str], list[str]]]:
    """Write a page with one of the commands; return words, the page, what it must show, and faults."""
    labels = [f"{number} {hostile_text(rng, host)}" for number in range(2)]
    groups = [f"group {number} {hostile_text(rng, host)}" for number in range(4)]
    y = np.arange(24) % 2
    X = rng.normal(size=(24, 4, 5)) + y[:, None, None]
    page, few = folder / "page.html", ["--folds", "2", "--jobs", "1"]
    if rng.random() < 0.5:
        data = folder / "samples.npz"
        np.savez(data, X=X, y=np.array(labels)[y], groups=np.array(groups)[np.arange(24) // 6])
    else:
        data = folder / "samples"
        labels = [label.replace("/", "|")[:80] for label in labels]
        for number, (sample, label) in enumerate(zip(X, np.array(labels)[y], strict=True)):
            (data / label).mkdir(parents=True, exist_ok=True)
            np.save(data / label / f"{number} {hostile_text(rng, host)[:80].replace('/', '|')}.npy", sample)
    compares = bool(rng.random() < 0.3)
    fit = ["fit", data, "-o", folder / "page.skops", "--decomposition", "cp", "--rank", "1", "--outer-folds", "2"]
    command = ["compare", data, "--methods", "SVM", "--repeats", "2", "--report", page] if compares else fit
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        done = run(*command, *few)
        if done.exit_code == 0 and not compares:
            done = run("report", folder / "page.skops", data, "-o", page)
    faults = [] if done.exit_code == 0 else [f"exit code {done.exit_code}: {done.output[-300:]} {done.exception!r}"]
    return f"{command[0]} {data.name}, labels {labels}", (page, [] if compares else labels, faults)


def look(driver: Any, page: Path, shown: list[str]) -> list[str]:
    """Open a page, use all that can be used on it, and return what is wrong."""
    from selenium.common.exceptions import NoAlertPresentException, UnexpectedAlertPresentException

    try:
        driver.get("about:blank")
        driver.get_log("browser")
        driver.get(page.as_uri())
        before = driver.execute_script(LITERAL)
        driver.execute_script(USE)
        text, foreign = driver.execute_script(LITERAL), driver.execute_script(FOREIGN)
        faults = [f"an element of a label: {one}" for one in foreign]
        faults += [f"does not show {one!r}" for one in shown if " ".join(one.split()) not in f"{before} {text}"]
        faults += [f"the console says {one['message'][:200]}" for one in driver.get_log("browser")]
        faults += [] if driver.current_url == page.as_uri() else [f"went to {driver.current_url}"]
    except UnexpectedAlertPresentException as error:
        return [f"a dialog: {error.alert_text}"]
    try:
        driver.switch_to.alert.dismiss()
    except NoAlertPresentException:
        return faults
    return [*faults, "a dialog"]


@contextmanager
def open_browser(folder: Path) -> Iterator[Any]:
    """Yield a browser without a window, or None if there is none."""
    binary, driver_path = shutil.which("chromium"), shutil.which("chromedriver")
    try:
        from selenium import webdriver
    except ImportError:
        binary = None
    if not (binary and driver_path):
        yield None
        return
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in (*FLAGS, f"user-data-dir={folder / 'chromium'}"):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver_path))
    try:
        yield driver
    finally:
        driver.quit()


@contextmanager
def listener() -> Iterator[tuple[str, list[Any]]]:
    """Yield the address of a port of this machine, and a list of its connections: the caller, and what it sent."""
    calls: list[Any] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def listen() -> None:
            while True:
                try:
                    connection, caller = server.accept()
                except OSError:
                    return
                calls.append([caller])
                threading.Thread(target=receive, args=(connection, calls[-1]), daemon=True).start()

        def receive(connection: socket.socket, call: list[Any]) -> None:
            with connection, suppress(OSError):
                connection.settimeout(1)
                call += filter(None, [connection.recv(1000)])

        threading.Thread(target=listen, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}", calls
