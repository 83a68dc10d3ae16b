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
from tensormargin.runtime import worker_options
from tensormargin.runtime.processes import remove_leftovers

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
    for name in ("tensormargin-living", "tensormargin-dead", "tensormargin-not ours", "joblib_memmapping_folder_1"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "samples").touch()
    for name in ("tensormargin-living", "tensormargin-dead"):
        (tmp_path / name / "owner").touch()
    (kept / "owner").touch()
    (tmp_path / "tensormargin-link").symlink_to(kept)
    with (tmp_path / "tensormargin-living" / "owner").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        remove_leftovers(tmp_path)
    left = sorted(path.name for path in tmp_path.iterdir())
    others = ["tensormargin-link", "tensormargin-living", "tensormargin-not ours"]
    assert left == ["elsewhere", "joblib_memmapping_folder_1", *others]
    assert (kept / "owner").exists()


def test_no_options_where_joblib_starts_no_processes():
    assert worker_options(1) == {}
    assert worker_options(None) == {}
    with joblib.parallel_config(backend="threading"):
        assert worker_options(2) == {}
    assert worker_options(2)["initargs"] == (os.getpid(),)
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
