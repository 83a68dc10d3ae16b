"""Tests of long commands as a user meets them: data by name, what is announced, Ctrl-C, and going on afterwards."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import click
import numpy as np
import pytest
from click.testing import CliRunner
from conftest import TERMINAL, fewer_models, low_rank_classes, run

from tensormargin.cli import _data, _options, _outputs, _running, main
from tensormargin.datasets import CATALOGUE, load_basic_motions
from tensormargin.io import replacing

pytestmark = pytest.mark.usefixtures("heeded_signals", "blank_figures")

COMPARE = ("--methods", "SVM,LMDM", "--repeats", "2", "--folds", "2")
FIT = (
    "--decomposition",
    "cp",
    "--rank",
    "1",
    "--folds",
    "2",
    "--outer-folds",
    "3",
    "--permutations",
    "2",
    "--no-report",
)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Provide an empty cache, in which commands keep unfinished work."""
    monkeypatch.setenv("TENSORMARGIN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(autouse=True, scope="module")
def _fewer_models():
    """Try two models, and one reference, to save time."""
    with fewer_models("TensorMarginClassifierCV", lams=(1,), mus=(0, 1)), pytest.MonkeyPatch.context() as patch:
        patch.setattr("tensormargin.evaluation.contenders.C_GRID", (1.0,))
        yield


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    X, signs = low_rank_classes(0, 40, (4, 5), 3.0)
    path = tmp_path_factory.mktemp("archive") / "samples.npz"
    np.savez(path, X=X, y=np.where(signs > 0, "b", "a"))
    return path


# ---- data by name ----


def test_the_names_of_the_data_sets_are_those_of_the_catalogue():
    assert tuple(CATALOGUE) == _options.DATA_SETS


def test_without_data_the_built_in_recordings_are_compared(monkeypatch):
    monkeypatch.delenv("TENSORMARGIN_DATA", raising=False)
    result = run("compare", "--methods", "LinearSVC", "--repeats", 1, "--jobs", 1, "--json")
    assert result.returncode == 0, result.stderr
    data = json.loads(result.stdout)["data"]
    assert (data["source"], data["n_samples"], data["sample_shape"]) == ("basic-motions", 80, [6, 100])
    assert "80 samples of 6 x 100, 4 classes; 1 method x 1 split" in result.stderr.splitlines()


def test_a_data_set_is_loaded_by_name_unless_there_is_a_file(archive, monkeypatch, tmp_path):
    loading = {"samples": None, "labels": None, "groups": None, "no_groups": False, "labels_from": None, "axis": None}
    loading["size"] = None
    samples = _data.load(_data.Path("basic-motions"), loading)
    assert np.array_equal(samples.data, load_basic_motions().data)
    assert samples.groups is None
    monkeypatch.chdir(tmp_path)
    (tmp_path / "basic-motions").mkdir()
    with pytest.raises(ValueError, match="basic-motions"):
        _data.load(_data.Path("basic-motions"), loading)  # the folder, which is empty


def test_groups_of_a_data_set_are_used_unless_switched_off(monkeypatch):
    bunch = load_basic_motions()
    bunch.groups = np.arange(80) % 8
    monkeypatch.setattr("tensormargin.datasets.load_by_name", lambda name: bunch)
    arguments = ("compare", "--methods", "majority class", "--repeats", 1, "--jobs", 1, "--json")
    found = [json.loads(run(*arguments, *more).stdout)["data"]["n_groups"] for more in ((), ("--no-groups",))]
    assert found == [8, None]


@pytest.mark.parametrize(
    "option",
    [("--samples", "X"), ("--axis", "1"), ("--size", "3x3"), ("--labels-from", "y.csv"), ("--confounds", "age")],
)
def test_options_for_files_are_refused_for_data_sets(option):
    result = run("compare", "digits", *option, "--jobs", 1)
    assert result.returncode == 2
    assert f"{option[0]}: for files only, and digits is a public data set" in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("digitz", "Did you mean digits?"),
        ("basic_motions", "Did you mean basic-motions?"),
        ("samplez.npz", "samples.npz?"),
    ],
)
@pytest.mark.parametrize("command", ["compare", "fit", "report"])
def test_a_name_that_is_neither_a_file_nor_a_data_set_is_refused(command, name, meant, archive, monkeypatch):
    more = {"fit": ("-o", "m.skops"), "report": ("-o", "r.html")}.get(command, ())
    if command == "report":
        monkeypatch.setattr("tensormargin.io.load_model", lambda path: SimpleNamespace(model=None))
    result = run(command, *(("m.skops",) if command == "report" else ()), name, *more, cwd=archive.parent)
    said = " ".join(result.stderr.split())
    assert result.returncode == 2
    assert f"{name}: no such file or folder, and no data set of that name" in said
    assert meant in said
    assert "one of the data sets digits, mnist" in said


def test_a_wrong_name_is_refused_before_anything_heavy_is_loaded():
    code = (
        "import sys\nfrom tensormargin.cli import main\n"
        "try:\n    main(['compare', 'digitz'])\nexcept SystemExit as end:\n    print(end.code)\n"
        "print(sorted({'numpy', 'sklearn', 'joblib', 'rich'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["2", "[]"]


# ---- interruption ----


def interrupt_after(n_units: int, monkeypatch) -> None:
    """Press Ctrl-C when this many units are finished."""
    from tensormargin.data import Units

    add, left = Units.add, [n_units]

    def counted(self, key, value):
        add(self, key, value)
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt

    monkeypatch.setattr(Units, "add", counted)


def without_times(text: str) -> str:
    content = json.loads(text)
    for key in ("created", "written", "versions"):
        content.pop(key, None)
    rows = [*content.get("rows", ()), *content.get("summary", ()), *(content.get("evaluation") or {}).get("folds", ())]
    for row in rows:
        for name in [name for name in row if "seconds" in name]:
            del row[name]
    return json.dumps(content)


def commands(archive, folder):
    return {
        "compare": ("compare", archive, *COMPARE, "--jobs", 1, "--json"),
        "fit": ("fit", archive, "-o", folder / "model.skops", *FIT, "--jobs", 1, "--json"),
    }


@pytest.fixture(scope="module")
def whole(archive, tmp_path_factory):
    """Return the output of the commands, not interrupted."""
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TENSORMARGIN_CACHE", str(folder / "cache"))
        results = {name: run(*arguments) for name, arguments in commands(archive, folder).items()}
    assert not list((folder / "cache").rglob("*"))
    return {name: without_times(result.stdout) for name, result in results.items()}


# Units 2 and 8 of fit belong to the outer folds, 13 to the final search, 15 to the permutations.
@pytest.mark.parametrize(
    ("command", "units"), [("compare", 1), ("compare", 7), ("fit", 2), ("fit", 8), ("fit", 13), ("fit", 15)]
)
def test_an_interrupted_command_goes_on_and_gives_the_same(command, units, archive, cache, tmp_path, whole):
    arguments = commands(archive, tmp_path)[command]
    with pytest.MonkeyPatch.context() as patch:
        interrupt_after(units, patch)
        stopped = run(*arguments)
    assert (stopped.returncode, stopped.stdout) == (130, "")
    assert "Traceback" not in stopped.stderr
    if units > 1:
        assert stopped.stderr.splitlines()[-1].startswith("Stopped at ")
        assert stopped.stderr.endswith("; run the same command again to go on.\n")
    kept = {path: path.stat().st_mtime_ns for path in cache.rglob("*.json")}
    assert kept
    if command == "compare":
        other = run(*arguments, "--seed", 1)  # neither uses nor removes what belongs to the interrupted run
        assert "From an earlier run" not in other.stderr
        assert {path: path.stat().st_mtime_ns for path in cache.rglob("*.json")} == kept
    resumed = run(*arguments)
    assert resumed.returncode == 0, resumed.stderr
    assert without_times(resumed.stdout) == whole[command]
    assert "From an earlier run: " in resumed.stderr
    assert not list(cache.rglob("*.json"))


def test_fresh_starts_anew(archive, cache, monkeypatch):
    arguments = commands(archive, archive.parent)["compare"]
    with pytest.MonkeyPatch.context() as patch:
        interrupt_after(3, patch)
        assert run(*arguments).returncode == 130
    result = run(*arguments, "--fresh")
    assert result.returncode == 0, result.stderr
    assert "From an earlier run" not in result.stderr
    assert not list(cache.rglob("*.json"))


def test_a_folder_that_cannot_be_written_to_gives_no_checkpoint(cache, monkeypatch):
    display = _running.Display()
    assert _running.unfinished(display, False).folder == cache / "unfinished"
    assert (display.kept, cache.exists()) == (True, False)
    monkeypatch.setattr(_running.os, "access", lambda path, mode: False)
    display = _running.Display()
    assert _running.unfinished(display, False) is None
    assert not display.kept


def test_a_cache_that_cannot_be_written_to_is_no_obstacle(archive, cache, monkeypatch):
    monkeypatch.setattr("tensormargin.cli.compare.unfinished", lambda display, fresh: None)
    arguments = commands(archive, archive.parent)["compare"]
    with pytest.MonkeyPatch.context() as patch:
        interrupt_after(3, patch)
        assert run(*arguments).stderr.endswith("fits, majority class).\n")  # nothing is promised
    assert run(*arguments).returncode == 0
    assert not cache.exists()


SLOW = """
import signal, sys, time
from tensormargin.cli import run

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
from tensormargin.data.checkpoints import Units
add = Units.add

def slow(self, key, value):
    add(self, key, value)
    if len(self) == {after}:
        print("begun", flush=True)
        time.sleep(60)

Units.add = slow
run({arguments!r})
"""


LATE = """
import os

class Late:  # what is in the main module is put away when Python no longer handles signals
    def __del__(self, kill=os.kill, process=os.getpid(), number=signal.SIGINT):
        kill(process, number)

late = Late()
"""


def test_ctrl_c_in_the_last_moment_of_a_stopped_process_changes_nothing(archive, cache, tmp_path):
    arguments = [str(one) for one in commands(archive, tmp_path / "out")["fit"]]
    lines = SLOW.format(after=4, arguments=arguments).splitlines(keepends=True)
    code = "".join([*lines[:-1], LATE, lines[-1]])
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130


FINISHED = """
import atexit, signal, sys
from tensormargin.cli import run

atexit.register(signal.raise_signal, signal.SIGTERM)
"""


def test_a_signal_after_a_command_has_finished_changes_nothing():
    code = FINISHED + LATE + "\nrun(['doctor', '--json'])\n"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["tensormargin"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_output_that_cannot_be_written_is_no_success():
    with open("/dev/full", "wb") as full:
        ended = subprocess.run([sys.executable, "-m", "tensormargin", "--version"], stdout=full, timeout=60)
    assert ended.returncode != 0


LEAVES_A_FOLDER = """
from joblib.externals.loky.backend.resource_tracker import register
from tensormargin.cli._running import processes

with processes(2, None, "tensormargin") as wait:
    wait()
    register("a folder that is not there", "folder")
"""


def test_joblibs_tracker_of_resources_does_not_warn_of_folders_that_are_gone():
    ended = subprocess.run([sys.executable, "-c", LEAVES_A_FOLDER], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


@pytest.mark.parametrize("command", [pytest.param("compare", marks=pytest.mark.campaign), "fit"])
def test_ctrl_c_in_a_terminal_stops_at_once_and_leaves_no_process(command, archive, cache, tmp_path):
    """Both this process and its workers get the signal, twice, as from a terminal."""
    arguments = [str(one) for one in commands(archive, tmp_path / "out")[command]]
    arguments[arguments.index("--jobs") + 1] = "2"
    code = SLOW.format(after=4, arguments=arguments)
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, **TERMINAL},
    )
    try:
        assert process.stdout.readline() == "begun\n"
        os.killpg(process.pid, signal.SIGINT)
        time.sleep(0.01)
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert out == ""
    lines = err.splitlines()
    assert lines[0].startswith("40 samples of 4 x 5, 2 classes; ")
    assert lines[-1].startswith("Stopped at ")
    assert [line for line in lines[1:-1] if not re.match(r" *\d+% ", line)] == []  # nothing but progress
    for _ in range(200):  # joblib's tracker of resources ends a moment later
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            break
        time.sleep(0.05)
    else:
        pytest.fail("a process is left")
    assert list(cache.rglob("*.json"))
    assert not list(cache.rglob("*.part"))
    assert not (tmp_path / "out").exists()


@pytest.fixture
def a_command():
    """Add a command that runs a function given to it."""
    do = []
    name = "for-this-test"
    main.add_command(click.Command(name, callback=lambda: do[0]()))
    yield lambda function: do.append(function) or CliRunner().invoke(main, [name])
    del main.commands[name]


def test_any_command_ends_quietly(a_command):
    def press():
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(5)

    began, before = time.monotonic(), signal.getsignal(signal.SIGINT)
    result = a_command(press)
    assert (result.exit_code, result.stdout, result.stderr) == (130, "", "Stopped.\n")
    assert time.monotonic() - began < 5
    assert signal.getsignal(signal.SIGINT) is before


def test_a_library_that_turns_the_interrupt_into_another_error_does_not_matter(a_command):
    def press():
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(5)
        except KeyboardInterrupt as error:
            raise ImportError("numpy could not be imported") from error

    assert a_command(press).exit_code == 130


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_exit_code_is_right_wherever_the_signal_arrives(number, tmp_path):
    """Python ends by SIGINT after an interrupt within exec, as in modules with dataclasses that are being imported."""
    text = f"import os, time; os.kill(os.getpid(), {int(number)}); time.sleep(5)"
    (tmp_path / "interrupted.py").write_text(
        "import click\nfrom tensormargin.cli import main, run\n"
        f"main.add_command(click.Command('wait', callback=lambda: exec({text!r})))\nrun(['wait'])\n"
    )
    done = subprocess.run([sys.executable, "-m", "interrupted"], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (128 + number, "Stopped.\n")


def test_a_second_press_does_not_interrupt_the_end(a_command):
    ended = []

    def press():
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(5)
        finally:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.01)
            ended.append(True)

    assert a_command(press).exit_code == 130
    assert ended


@pytest.mark.parametrize("presses", [1, 2])
def test_the_first_press_after_the_files_are_written_comes_too_late(presses, a_command, tmp_path, monkeypatch):
    monkeypatch.setattr(_running, "_SAME_PRESS", 0.0)

    def press():
        with _outputs.written_together(), replacing(tmp_path / "table.csv") as temporary:
            temporary.write_text("a,b")
        for _ in range(presses):
            signal.raise_signal(signal.SIGINT)

    result = a_command(press)
    stopped = "Stopped after its files were written.\n"
    assert (result.exit_code, result.stderr) == ((0, "") if presses == 1 else (130, stopped))
    assert (tmp_path / "table.csv").read_text() == "a,b"


def test_a_press_before_the_end_of_a_command_without_files_stops_it(a_command):
    def press():
        with _outputs.written_together():
            pass
        signal.raise_signal(signal.SIGINT)

    assert a_command(press).exit_code == 130


def test_errors_of_commands_stay_errors(a_command):
    def fail():
        raise ValueError("wrong")

    assert isinstance(a_command(fail).exception, ValueError)


@pytest.mark.parametrize(("jobs", "scheduler"), [(1, None), (-1, "tcp://127.0.0.1:8786")])
def test_no_processes_for_one_job_or_a_cluster(jobs, scheduler, monkeypatch):
    monkeypatch.setattr("joblib.Parallel", None)
    with _running.processes(jobs, scheduler, "tensormargin") as ready:
        ready()
