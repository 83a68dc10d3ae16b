"""Tests that worker processes end with the process that started them, and that nothing of killed ones stays."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import click
import joblib
import pytest
from click.testing import CliRunner

from tensormargin.cli import _running
from tensormargin.runtime import mark, remove_leftovers, worker_options
from tensormargin.runtime.folders import MARKER

pytestmark = pytest.mark.usefixtures("heeded_signals")

_PARENT = """
import os, sys, time
from joblib import Parallel, delayed
from tensormargin.runtime.processes import worker_options

def say(number):
    os.write(1, b"%d\\n" % os.getpid())
    time.sleep(60)

Parallel(n_jobs=2, **worker_options(2))(delayed(say)(number) for number in range(2))
"""


def is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
def test_workers_of_a_killed_process_end_and_their_folder_is_removed_later(tmp_path):
    environment = {**os.environ, "JOBLIB_TEMP_FOLDER": str(tmp_path)}
    parent = subprocess.Popen([sys.executable, "-c", _PARENT], stdout=subprocess.PIPE, env=environment)
    workers = [int(parent.stdout.readline()) for _ in range(2)]
    assert all(map(is_alive, workers))
    (folder,) = tmp_path.iterdir()
    remove_leftovers(tmp_path)
    assert folder.exists()  # its owner lives
    parent.kill()
    parent.wait()
    parent.stdout.close()
    until = time.monotonic() + 20
    while any(map(is_alive, workers)) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(map(is_alive, workers))
    assert folder.exists()
    remove_leftovers(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_only_folders_without_an_owner_are_removed(tmp_path):
    kept = tmp_path / "elsewhere"
    kept.mkdir()
    mark(kept)
    living, dead = (tmp_path / f"tensormargin-{name}.part" for name in ("living00", "dead0000"))
    others = [tmp_path / name for name in ("tensormargin-not_ours.part", "tensormargin-results", "joblib_memmapping")]
    for folder in (living, dead, *others):
        folder.mkdir()
        (folder / "samples").touch()
        mark(folder)
    (others[0] / MARKER).write_text("Made by somebody else")
    (others[1] / "owner").touch()  # which marked such folders in 0.2.0
    (tmp_path / "tensormargin-unmarked.part").mkdir()
    (tmp_path / "tensormargin-linked00.part").symlink_to(kept)
    (tmp_path / "tensormargin-linked01.part").symlink_to(living)
    with (living / MARKER).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        remove_leftovers(tmp_path)
    left = ["elsewhere", "tensormargin-linked00.part", "tensormargin-linked01.part", living.name]
    assert {path.name for path in tmp_path.iterdir()} == {*left, *(folder.name for folder in others)}
    assert all((folder / "samples").exists() for folder in (living, *others))
    assert (kept / MARKER).exists()


def test_no_options_where_joblib_starts_no_processes():
    assert worker_options(1) == {}
    assert worker_options(None) == {}
    with joblib.parallel_config(backend="threading"):
        assert worker_options(2) == {}
    assert worker_options(2)["initargs"] == (os.getpid(), False)
    assert worker_options(2) == worker_options(2)  # so that processes are used again


_GROWING = """
import os, time
from joblib import Parallel, delayed
from tensormargin.runtime.processes import worker_options

def grow(number):
    vars(os).setdefault("held", []).append(b"x" * (2 * 10**8))  # what stays: this module is copied for each call
    time.sleep(0.6)  # joblib looks once per second, and ends a process that grew by 300 MB
    return os.getpid()

print(len(set(Parallel(n_jobs=2, batch_size=1, **worker_options(2))(delayed(grow)(number) for number in range(8)))))
"""


@pytest.mark.skipif(find_spec("psutil") is None, reason="joblib looks at the memory of processes by psutil")
def test_workers_may_grow():
    command = [sys.executable, "-c", _GROWING]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("2\n", "")


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
def test_signals_end_a_command_with_a_message(name, code):
    @click.command()
    @click.pass_context
    def command(context):
        with _running.interruptible(context):
            signal.raise_signal(getattr(signal, name))

    before = signal.getsignal(getattr(signal, name))
    done = CliRunner().invoke(command)
    assert done.exit_code == code
    assert done.stderr == "Stopped.\n"
    assert signal.getsignal(getattr(signal, name)) == before


def test_a_signal_that_is_ignored_stays_ignored():
    """As SIGHUP under nohup."""

    @click.command()
    @click.pass_context
    def command(context):
        with _running.interruptible(context):
            signal.raise_signal(signal.SIGHUP)
            click.echo("going on")

    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert CliRunner().invoke(command).output == "going on\n"
    finally:
        signal.signal(signal.SIGHUP, before)
