"""Signals at random moments, full and read-only disks: nothing half written, nobody left behind."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import numpy as np

from campaigns.models import run, write_files
from campaigns.outcome import Outcome
from tensormargin.runtime import remove_leftovers

SIGNALS = (signal.SIGTERM, signal.SIGKILL, signal.SIGINT, signal.SIGHUP)
MARK = "TENSORMARGIN_CAMPAIGN"  # a variable by which the processes of a case are found, whoever their parent is now
EARLIEST, LATEST = 1.5, 12.0  # seconds after the start of a command
PATIENCE = 5.0  # seconds until all processes must have ended
DATA = "TENSORMARGIN_DATA"
NOBODY = 65534  # a user with no rights


def commands(folder: Path) -> dict[str, list[str]]:
    """Return the commands by name; without the data sets, `reproduce` is left out."""
    samples = folder / "samples.npz"
    found = {
        "fit": ["fit", samples, "-o", folder / "out" / "model.skops", "--permutations", "200", "--folds", "2"],
        "compare": ["compare", samples, "--repeats", "50", "--report", folder / "out" / "page.html"],
        "reproduce": ["reproduce", "table2", "--quick", "--out", folder / "out"],
    }
    chosen = found if os.environ.get(DATA) else {name: found[name] for name in ("fit", "compare")}
    return {name: [*map(str, command), "--jobs", "2"] for name, command in chosen.items()}


def killed_commands(number: int, seed: int) -> Outcome:
    """Return how commands with two processes end after a signal at a random moment."""
    outcome = Outcome("signals")
    for case in range(number):
        rng = np.random.default_rng([seed, case])
        with TemporaryDirectory() as name:
            folder = Path(name)
            _write_samples(folder / "samples.npz")
            choices = commands(folder)
            which = list(choices)[case % len(choices)]
            number_of = SIGNALS[int(rng.integers(len(SIGNALS)))]
            wait = float(rng.uniform(EARLIEST, LATEST))
            faults, code = _kill(folder, choices[which], number_of, wait)
            outcome.counts["had ended before the signal"] += code == 0
            outcome.add(f"seed {seed}, case {case}: {which}, {number_of.name} after {wait:.1f} s", faults)
    return outcome


def _write_samples(path: Path) -> None:
    rng = np.random.default_rng(0)
    y = np.arange(300) % 2
    np.savez(path, X=rng.normal(size=(300, 20, 25)) + 0.1 * y[:, None, None], y=y)  # larger than what is pickled


def _kill(folder: Path, command: list[str], number: signal.Signals, wait: float) -> tuple[list[str], int]:
    """Start a command, send a signal, and return what is wrong afterwards, and the exit code."""
    mark, shared = uuid4().hex, folder / "shared"
    shared.mkdir()
    environment = {
        **os.environ,
        MARK: mark,
        "JOBLIB_TEMP_FOLDER": str(shared),
        "TENSORMARGIN_CACHE": str(folder / "cache"),
    }
    with (folder / "said").open("wb") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "tensormargin", *command],
            stdout=said, stderr=said, env=environment, start_new_session=True, preexec_fn=_heed_signals,
        )  # fmt: skip
        time.sleep(wait)
        process.send_signal(number)
        try:
            code = process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            return ["did not end within 60 s", *_left_behind(mark)], -9
    faults = _left_behind(mark)
    text = (folder / "said").read_text(errors="replace")
    expected = {0, -9} if number == signal.SIGKILL else {0, 128 + number}
    if code not in expected:
        faults.append(f"exit code {code}: {text[-300:]}")
    if "Traceback" in text or "Exception ignored" in text:
        faults.append(f"a traceback: {text[-600:]}")
    remove_leftovers(shared)  # what the next command does first
    faults += [f"left {path.name} in shared memory" for path in shared.iterdir()]
    return [*faults, *_half_written(folder / "out", killed=number == signal.SIGKILL)], code


def _heed_signals() -> None:
    """Undo that a campaign in the background, or under nohup, ignores signals, which commands would inherit."""
    for number in SIGNALS:
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)


def _left_behind(mark: str) -> list[str]:
    """Return the processes of a case that are still there after a while; end them."""
    until = time.monotonic() + PATIENCE
    while (left := list(_marked(mark))) and time.monotonic() < until:
        time.sleep(0.1)
    faults = [f"process {process} stays: {_command(process)}" for process in left]
    for process in left:
        os.kill(process, signal.SIGKILL)
    return faults


def _marked(mark: str) -> Iterator[int]:
    wanted = f"{MARK}={mark}".encode()
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if wanted in path.read_bytes():
                yield int(path.parent.name)
        except OSError:  # of somebody else, or gone
            continue


def _command(process: int) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:120]
    except OSError:
        return "gone"


def _half_written(folder: Path, killed: bool) -> list[str]:
    """Return temporary files, and a model without its page or vice versa; the next command removes what kills leave."""
    if not folder.exists():
        return []
    if killed:
        remove_leftovers(folder)
    names = {path.name for path in folder.rglob("*") if path.is_file()}
    parts = [f"left {name}" for name in names if name.endswith(".part")]
    alone = [] if ("model.skops" in names) == ("model.html" in names) else ["model and page are not together"]
    return [*parts, *alone]


# ---- full disks ----


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Let the system refuse files that are larger, with the error that a full disk gives while writing."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextmanager
def small_disk(folder: Path, size: int) -> Iterator[bool]:
    """Mount a file system of this size; yield whether that is permitted."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    try:
        mounted = subprocess.run(command, capture_output=True).returncode == 0
    except OSError:
        mounted = False
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", str(folder)], check=True)
        folder.rmdir() if not any(folder.iterdir()) else None


def full_disks(number: int, seed: int) -> Outcome:
    """Return how commands end whose files are larger than allowed, or do not fit on a disk."""
    outcome = Outcome("full disks")
    with TemporaryDirectory() as name:
        folder = Path(name)
        model, *_, fitted, comparison = write_files(folder)
        for case in range(number):
            rng = np.random.default_rng([seed, case])
            size = int(10 ** rng.uniform(0, 5.7))
            out, mounted = folder / "full", True
            if rng.random() < 0.5:
                out.mkdir()
                with largest_file(size):
                    faults = _write_to(out, folder, (model, fitted, comparison), rng)
            else:
                with small_disk(out, max(4096, size)) as mounted:
                    faults = _write_to(out, folder, (model, fitted, comparison), rng) if mounted else []
                    _clear(out)
                if not mounted:
                    outcome.counts["left out: no permission to mount a small file system"] += 1
            _clear(out)
            if out.exists():
                out.rmdir()
            if mounted:
                outcome.add(f"seed {seed}, case {case}: {size} bytes", faults)
    return outcome


# ---- read-only disks ----


@contextmanager
def read_only(folder: Path) -> Iterator[str]:
    """Make a folder that nothing can be written to, and yield how: a mounted disk, or permissions and another user."""
    folder.mkdir(mode=0o555)
    root = os.geteuid() == 0
    command = ["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", str(folder)]
    mounted = (
        root and shutil.which("mount") is not None and subprocess.run(command, capture_output=True).returncode == 0
    )
    try:
        if root and not mounted:
            os.seteuid(NOBODY)
        yield "a disk that is mounted read-only" if mounted else "a folder without permission to write"
    finally:
        if root and not mounted:
            os.seteuid(0)
        if mounted:
            subprocess.run(["umount", str(folder)], check=True)
        folder.rmdir()


def read_only_disks(number: int, seed: int) -> Outcome:
    """Return how commands end that write to a folder where nothing can be written."""
    outcome = Outcome("read-only disks")
    with TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)  # another user reads the files
        model, *_, fitted, comparison = write_files(folder)
        for case in range(number):
            rng = np.random.default_rng([seed, case])
            with read_only(folder / "fixed") as how:
                outcome.counts[f"in {how}"] += 1
                faults = _write_to(folder / "fixed", folder, (model, fitted, comparison), rng)
            outcome.add(f"seed {seed}, case {case}", faults)
    return outcome


def _clear(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True) if folder.exists() else []:
        path.unlink() if path.is_file() else path.rmdir()


def _write_to(out: Path, folder: Path, files: tuple[Path, ...], rng: np.random.Generator) -> list[str]:
    """Run a command that writes to a folder, and return what is wrong."""
    model, fitted, comparison = files
    fit = ["--decomposition", "cp", "--rank", "1", "--outer-folds", "0", "--folds", "2", "--jobs", "1"]
    choices: list[tuple[list[Any], list[str]]] = [
        (["predict", model, folder / "samples.npz", "-o", out / "p.csv"], ["p.csv"]),
        (["report", fitted, "-o", out / "p.html"], ["p.html"]),
        (["report", comparison, "-o", out / "p.html"], ["p.html"]),
        (["inspect", model, "--weight-map", out / "w.npy"], ["w.npy"]),
        (["fit", folder / "samples.npz", "-o", out / "m.skops", "--weight-map", out / "w.npy", *fit],
         ["m.html", "m.skops", "w.npy"]),
    ]  # fmt: skip
    command, expected = choices[int(rng.integers(len(choices)))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        done = run(*command)
    written = sorted(path.name for path in out.iterdir())
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        return [f"{command[0]}: {type(done.exception).__name__}: {done.exception}"]
    if done.exit_code == 0:
        return [] if written == expected else [f"{command[0]}: wrote {written}, not {expected}"]
    named = any(name in done.output for name in expected)
    faults = [] if done.exit_code == 2 else [f"exit code {done.exit_code}"]
    faults += [] if named else [f"names none of {expected}: {done.output[-300:]}"]
    faults += [f"left {written}"] if written else []
    return [f"{command[0]}: {fault}" for fault in faults]
