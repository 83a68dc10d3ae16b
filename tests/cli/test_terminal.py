"""Tests that no command sends control sequences of names, labels, models or options to the terminal."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from contextlib import contextmanager
from threading import Thread

import click
import numpy as np
import pytest
from conftest import fewer_models, low_rank_classes, run
from sklearn.pipeline import Pipeline

from tensormargin import TensorMarginClassifier, TensorScaler, load_model
from tensormargin.cli import main
from tensormargin.cli._running import FOR_PROGRAM, PROGRESS_MARK, progress_bar
from tensormargin.data import Axis, BadFileError, LeakageWarning
from tensormargin.evaluation import CompareSettings, compare, comparison_content
from tensormargin.io import load_samples, models, save_model
from tensormargin.io.checksums import seal
from tensormargin.runtime import worker_options

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="file names hold no control characters there"),
    pytest.mark.usefixtures("blank_figures"),
]

EVIL = "ev\x1b]0;evil\x07\x1b[2J\x1b[8m\x9b\u202e\u200b\u2028\ril"
SHOWN = r"ev\x1b]0;evil\x07\x1b[2J\x1b[8m\x9b\u202e\u200b\u2028\ril"
PLAIN = ("--decomposition", "cp", "--rank", "1", "--folds", "2", "--outer-folds", "2", "--no-report")
FROM_RICH = re.compile(r"\x1b\[[\d;]*m|\x1b\[\?25[lh]|\r?\x1b\[(?:2K|1A)|\r(?=\n)")


def commands_of(group, *before):
    """Yield the names and the object of every command."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands_of(command, *before, name)
        else:
            yield (*before, name), command


COMMANDS = dict(commands_of(main))


def bad_characters(text):
    return sorted({char for char in text if not char.isprintable() and char not in "\n\t"})


@contextmanager
def terminal():
    """Yield a terminal that can be written to, and a list that has what was written to it at the end."""
    reader, writer = os.openpty()
    pieces, texts = [], []

    def read():
        try:
            while piece := os.read(reader, 65536):
                pieces.append(piece)
        except OSError:  # Linux says so that nobody can write any more
            pass

    thread = Thread(target=read)
    thread.start()
    try:
        with open(writer, "w", encoding="utf-8", errors="backslashreplace") as stream:
            yield stream, texts
    finally:
        thread.join()
        os.close(reader)
        texts.append(b"".join(pieces).decode())


@pytest.fixture(params=["pipe", "terminal"])
def printed(request, monkeypatch):
    """A function that runs a command and returns what it prints, in a pipe or a terminal, where it checks that."""

    def in_pipe(*arguments):
        done = run(*arguments)
        assert "Traceback" not in done.stderr, done.stderr
        text = done.stdout + done.stderr
        assert bad_characters(text) == [], ascii(text)
        return text

    def in_terminal(*arguments):
        with monkeypatch.context() as patch, terminal() as (stream, texts):
            patch.setenv("TERM", "xterm-256color")
            patch.setenv("COLUMNS", "200")
            patch.delenv("NO_COLOR", raising=False)
            patch.setattr(sys, "stdout", stream)
            patch.setattr(sys, "stderr", stream)
            with pytest.raises(SystemExit):
                main([str(one) for one in arguments], prog_name="tensormargin")
        assert "\x1b[8m" not in texts[0]
        assert bad_characters(FROM_RICH.sub("", texts[0])) == [], ascii(texts[0])
        return texts[0].replace("\r\n", "\n")

    return in_pipe if request.param == "pipe" else in_terminal


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with files of which nothing that can be text is without control sequences."""
    folder = tmp_path_factory.mktemp("hostile") / f"{EVIL}"
    folder.mkdir()
    X, signs = low_rank_classes(0, 24, (3, 4), 4.0)
    y = np.where(signs > 0, f"a{EVIL}", f"b{EVIL}")
    groups = np.array([f"{EVIL}{row // 3}" for row in range(24)])
    axes = (
        Axis(f"{EVIL}row", f"{EVIL}unit", [1.0, 2.0, 3.0]),
        Axis(f"{EVIL}column", "", [f"{EVIL}{k}" for k in "abcd"]),
    )
    np.savez(folder / f"{EVIL}.npz", X=X, y=y, groups=groups)
    np.savez(folder / "copies.npz", X=np.concatenate([X, X[:2]]), y=[*y, *y[:2]])
    np.savez(folder / "new.npz", X=X + 0.1, y=[*y[:-1], f"c{EVIL}"])
    np.savez(folder / "views.npz", **{f"{EVIL}1": X, f"{EVIL}2": X[:, :2]}, y=y)
    np.savez(folder / "other.npz", X=X[:, :2], y=[f"c{EVIL}"] * 24)
    np.savez(folder / "odd.npz", **{EVIL: X, f"{EVIL}y": y})
    np.save(folder / "cube.npy", np.random.default_rng(0).random((20, 20, 3)))
    np.save(folder / "truth.npy", np.arange(400).reshape(20, 20) // 10 % 2 + 1)
    (folder / "broken.npz").write_bytes(b"PK")
    steps = [(EVIL, TensorScaler()), (f"{EVIL}2", TensorMarginClassifier("cp", 1))]
    model, path = Pipeline(steps).fit(X, y), folder / f"{EVIL}.skops"
    save_model(
        path, model, {"data": {"source": EVIL, "kind": EVIL, "field": EVIL}}, axes, load_samples(folder / f"{EVIL}.npz")
    )
    change_facts(path, created=EVIL, model=EVIL, versions={EVIL: EVIL}, steps=[EVIL])
    save_model(folder / "other.skops", TensorMarginClassifier("cp", 1).fit(X, y))
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    (folder / f"{EVIL}damaged.skops").write_bytes(damaged)
    samples, settings = (
        load_samples(folder / f"{EVIL}.npz"),
        CompareSettings(methods=("SVM", "STM"), repeats=2, folds=2),
    )
    content = comparison_content(samples, settings, [], list(compare(X, y, settings, 1)))
    (folder / f"{EVIL}.json").write_text(json.dumps(content))
    (folder / f"{EVIL}bad.json").write_text(json.dumps({**content, "settings": {EVIL: EVIL}}))
    return folder


def change_facts(path, **changes):
    """Write other metadata into a model, with its digest made anew."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            facts = {**json.loads(content), **changes} if name == models.FACTS else None
            archive.writestr(name, content if facts is None else json.dumps(facts))
    seal(path)


# Arguments of commands, {F} for the folder and {E} for EVIL, and whether they print SHOWN.
CASES = {
    ("compare",): [
        ("{F}/{E}.npz --methods SVM,STM --repeats 2 --folds 2", True),
        ("{F}/copies.npz --methods SVM --repeats 1 --folds 2", True),
        ("{F}/{E}.skops {F}/other.skops {F}/new.npz", True),
        ("{F}/{E}.skops {F}/other.skops {F}/other.npz", True),
        ("{F}/{E}.npz --methods {E}", True),
        ("{F}/{E}.npz --only-classes {E}", True),
        ("{E}", True),
    ],
    ("fit",): [
        ("{F}/{E}.npz --dry-run", True),
        ("{F}/{E}.npz --dry-run --json", True),
        ("{F}/{E}.npz --drop-rare 99 --dry-run", True),
        ("{F}/views.npz --samples {E}1,{E}2 --dry-run", True),
        ("{F}/{E}.npz --view {E}={F}/other.npz --dry-run", True),
        ("{F}/{E}.npz --modes {E}=a|b|c,{E}2=0:1 --dry-run", True),
        ("{F}/odd.npz --dry-run", True),
        ("{F}/broken.npz", True),
        ("{F}/{E}.npz -o {F}/fitted.skops --overwrite --jobs 1", True),
        ("{F}/{E}.npz -o {F}/{E}.npz", True),
        ("{F}", True),
    ],
    ("app",): [("--folder {F}/{E}", True), ("--port {E}", True)],
    ("predict",): [
        ("{F}/{E}.skops {F}/{E}.npz -o {F}/{E}.csv --overwrite", True),
        ("{F}/{E}.skops {F}/other.npz -o {F}/o.csv", True),
        ("{F}/{E}damaged.skops {F}/{E}.npz -o {F}/o.csv", True),
        ("{F}/{E}.skops {F}/{E} -o {F}/o.csv", True),
    ],
    ("inspect",): [("{F}/{E}.skops", True), ("{F}/{E}.skops --json", True), ("{F}/{E}damaged.skops", True)],
    ("maps",): [("{F}/{E}.skops {F}/{E}.npz -o {F}/{E}maps --overwrite", True), ("{F}/{E}damaged.skops", True)],
    ("report",): [
        ("{F}/{E}.skops {F}/{E}.npz -o {F}/{E}.html", True),
        ("{F}/{E}.json -o {F}/{E}.html", True),
        ("{F}/{E}bad.json -o {F}/{E}.html", True),
    ],
    ("export",): [("{F}/{E}.skops -o {F}/{E}.onnx", True), ("{F}/{E}.skops -o {F}/{E}.onn", True)],
    ("patches",): [
        ("{F}/cube.npy {F}/truth.npy -o {F}/{E}patches.npz --names {E}1,{E}2", True),
        ("{F}/cube.npy {F}/truth.npy -o {F}/{E}p.npz --names {E}1,{E}2 --classes {E}", True),
        ("{F}/{E} -o {F}/p.npz", True),
    ],
    ("data", "list"): [("", False), ("{E}", True)],
    ("data", "fetch"): [("{E}", True)],
    ("reproduce",): [("{E}", True), ("table2 --methods {E}", True)],
    ("results",): [("--out {F}/{E} -o {F}/results.md", True)],
    ("doctor",): [("", True), ("--{E}", True)],
    ("completion",): [("bash", False), ("{E}", True)],
}  # fmt: skip


def test_every_command_has_cases():
    assert set(CASES) == set(COMMANDS)


@pytest.fixture
def no_server(monkeypatch):
    """Let the page end at once."""
    pytest.importorskip("flask", reason="needs Flask: pip install 'tensormargin[app]'")

    @contextmanager
    def serve(folder, port):
        yield "http://127.0.0.1/", lambda: None

    monkeypatch.setattr("tensormargin.cli.app.server.serve", serve)
    monkeypatch.setattr(click, "launch", lambda address: 0)


@pytest.mark.parametrize("names", CASES, ids=" ".join)
def test_no_command_prints_control_characters(names, folder, printed, monkeypatch, no_server):
    monkeypatch.setenv("TENSORMARGIN_CACHE", str(folder / f"{EVIL}cache"))
    monkeypatch.chdir(folder)
    for words, visible in CASES[names]:
        arguments = [word.format(F=folder, E=EVIL) for word in words.split()]
        plain = PLAIN if names == ("fit",) else ()
        with fewer_models(lams=(1,), ranks=(1,)):
            text = printed(*names, *arguments, *plain)
        shown = json.dumps(EVIL)[1:-1] if "--json" in words else SHOWN
        assert (shown[:8] in text) == visible, (words, text)


@pytest.mark.parametrize("names", COMMANDS, ids=" ".join)
def test_no_value_of_an_option_or_argument_is_printed_raw(names, folder, printed, monkeypatch, no_server):
    """Each with DATA and a MODEL that are not there, so that no command has much to do."""
    monkeypatch.chdir(folder)
    command, hostile = COMMANDS[names], EVIL + "\udcff"
    arguments = [hostile for one in command.params if isinstance(one, click.Argument)]
    texts = [printed(*names, *arguments), printed(*names, *arguments, f"--{hostile}")]
    options = [one.opts[-1] for one in command.params if isinstance(one, click.Option) and not one.is_flag]
    texts += [printed(*names, *arguments, f"{option}={hostile}") for option in options]
    assert any("ev" in text for text in texts)


def test_colours_of_tables_stay(folder, printed, request):
    text = printed("compare", folder / f"{EVIL}.npz", "--methods", "SVM", "--repeats", 1, "--folds", 2)
    assert ("\x1b[1m" in text) == ("terminal" in request.node.name)
    assert r"ev\x1b]0;evil" in text


def test_json_stays_json(folder):
    for command in (("inspect", folder / f"{EVIL}.skops"), ("fit", folder / f"{EVIL}.npz", "--dry-run", *PLAIN)):
        text = run(*command, "--json").stdout
        assert text.isascii()
        assert any(EVIL in str(one) for one in texts_in(json.loads(text)))


def texts_in(content):
    """Yield the keys and values of nested JSON."""
    if isinstance(content, dict):
        content = [*content, *content.values()]
    if not isinstance(content, list):
        yield content
        return
    for one in content:
        yield from texts_in(one)


# ---- whole processes ----

FRONT_DOOR = f"""
import logging, sys, threading, warnings
import tensormargin.cli as cli

EVIL = {EVIL!r}

def fail():
    warnings.warn(EVIL)
    logging.warning(EVIL)
    sys.stderr.writelines([EVIL, "\\n"])
    thread = threading.Thread(target=lambda: 1 / {{}}[EVIL])
    thread.start()
    thread.join()
    raise RuntimeError(EVIL)

cli.main.commands["doctor"].callback = lambda as_json: fail()
cli.run(["doctor"])
"""


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_warnings_logs_threads_and_tracebacks(encoding):
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    done = subprocess.run([sys.executable, "-c", FRONT_DOOR], capture_output=True, env=environment, timeout=60)
    text = done.stderr.decode()
    assert done.returncode == 1
    assert "Traceback" in text
    assert text.count(SHOWN) >= 5, text
    assert bad_characters(text) == []


def test_tracebacks_in_a_terminal():
    with terminal() as (stream, texts):
        subprocess.run([sys.executable, "-c", FRONT_DOOR], stdout=stream, stderr=stream, timeout=60)
    assert texts[0].count(SHOWN) >= 5
    assert bad_characters(texts[0].replace("\r\n", "\n")) == []


def test_the_bar_shows_what_is_printed_beside_it():
    """In a terminal, rich prints it above the bar, and would read its control sequences."""
    code = f"""
import sys
from click.testing import CliRunner
from tensormargin.cli import main
from tensormargin.cli._running import progress_bar

def show(as_json):
    with progress_bar() as bar:
        bar(1, 2, {EVIL!r})
        print({EVIL!r}, file=sys.stderr)
        print({EVIL!r})
        bar(2, 2, {EVIL!r})

main.commands["doctor"].callback = show
main(["doctor"])
"""
    with terminal() as (stream, texts):
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "200"}
        subprocess.run(
            [sys.executable, "-c", code], stdout=stream, stderr=stream, env=environment, timeout=60, check=True
        )
    assert "\x1b[?25l" in texts[0]  # there is a bar
    assert texts[0].count(SHOWN) >= 2
    assert "\x1b[8m" not in texts[0]
    assert bad_characters(FROM_RICH.sub("", texts[0])) == [], ascii(texts[0])


def test_processes_of_joblib_escape_what_they_print():
    code = f"""
import warnings
from joblib import Parallel, delayed
import tensormargin.cli as cli
from tensormargin.runtime import worker_options

def show(as_json):
    Parallel(n_jobs=2, **worker_options(2))(delayed(warnings.warn)({EVIL!r}) for _ in range(2))

cli.main.commands["doctor"].callback = show
cli.run(["doctor"])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", timeout=60)
    assert done.returncode == 0, done.stderr
    if "initializer" in worker_options(2):  # not with joblib before 1.5
        assert SHOWN in done.stderr
        assert bad_characters(done.stderr) == []


def test_programs_can_tell_progress_from_other_text(monkeypatch):
    """Only lines of progress begin with the mark, whatever the names in other lines are."""
    monkeypatch.setenv(FOR_PROGRAM, "1")
    monkeypatch.setattr("tensormargin.cli._running._FOR_PROGRAM_SECONDS", -1.0)

    def show(as_json):
        with progress_bar() as bar:
            bar(1, 2, EVIL)
        click.echo(f"{PROGRESS_MARK}0.5 - forged", err=True)

    monkeypatch.setattr(main.commands["doctor"], "callback", show)
    first, second = run("doctor").stderr.removesuffix("\n").split("\n")
    assert re.fullmatch(rf"{PROGRESS_MARK}0\.5000 \S+ {re.escape(SHOWN)}", first)
    assert second == r"\x1e0.5 - forged"


# ---- completion and plain Python ----


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_offers_nothing_that_cannot_be_seen(shell, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("study.npz", X=np.zeros((3, 2, 2)), y=["left", f"left{EVIL}", "left\nplain,forged"])
    for name in ("eeg.skops", f"eeg{EVIL}.skops"):
        (tmp_path / name).touch()
    for words, offered in (("inspect e", "eeg.skops"), ("fit study.npz --only-classes l", "left")):
        line = f"tensormargin {words}"
        number, last = str(len(words.split())), words.split()[-1]
        environment = {"COMP_WORDS": line, "COMP_CWORD": last if shell == "fish" else number}
        environment |= {"_TENSORMARGIN_COMPLETE": f"{shell}_complete", "COLUMNS": "120"}
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        done = run()
        assert done.returncode == 0
        assert offered in done.stdout
        assert "ev" not in done.stdout
        assert "forged" not in done.stdout
        assert bad_characters(done.stdout + done.stderr) == []


def test_errors_and_warnings_of_python_are_escaped(folder):
    for action in (load_samples, load_model):
        with pytest.raises(BadFileError) as caught:
            action(folder / f"{EVIL}damaged.skops")
        assert SHOWN in str(caught.value)
        assert bad_characters(str(caught.value)) == []
    assert str(LeakageWarning(EVIL)) == SHOWN
