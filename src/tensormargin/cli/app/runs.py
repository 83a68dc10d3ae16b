"""Commands that the page has started, each in a process and a folder of its own."""

from __future__ import annotations

import hmac
import json
import os
import secrets
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any

from ...datasets import cache_folder
from ...runtime import ForkSafeLock, replacing
from .._running import FOR_PROGRAM, PROGRESS_MARK
from .forms import command_line

_RECORD = "run.json"
_LARGEST_RECORD = 1 << 24  # bytes that are read of a record
_KEY_BYTES = 32
_STOPPED = (130, 143, 129)  # exit codes of a command that was asked to end
_PATIENCE = 30.0  # seconds that a command has to end by itself
_TRIES = 3  # signals in that time: the exception that one raises may get lost in code that ignores it
_OUTPUT_LINES = 400  # that are kept


def environment(**more: str) -> dict[str, str]:
    """Return the environment of a command: messages without colours, of one width, no modules of the current folder."""
    fixed = {"NO_COLOR": "1", "COLUMNS": "120", "PYTHONUNBUFFERED": "1", "PYTHONSAFEPATH": "1"}
    return {**os.environ, **fixed, **more}


def command_of(arguments: Sequence[str]) -> list[str]:
    """Return the command of a process that runs the command line."""
    return [sys.executable, "-m", "tensormargin", *arguments]


def error_in(output: str) -> str:
    """Return the message of a command that was refused, without its usage."""
    return output.rpartition("\nError: ")[2].removeprefix("Error: ").strip() or "the command ended without a message"


def _signature(folder: Path, record: bytes) -> bytes:
    """Return this user's signature of a record: nobody else can make one, and it holds for one folder."""
    place = os.fsencode(folder.parent.resolve() / folder.name)
    return hmac.digest(_key(), place + b"\n" + record, "sha256").hex().encode()


def _key() -> bytes:
    """Return the key of this user, and write a new one if no file holds one that only this user can read."""
    windows = sys.platform == "win32"  # where the rights of a file do not stand in its mode
    path = cache_folder() / f"app-{'user' if windows else os.getuid()}.key"  # several users may share a cache
    with suppress(OSError), open(path, "rb", opener=_private) as file:
        status, private = os.fstat(file.fileno()), stat.S_IFREG | 0o600
        if windows or (status.st_uid, status.st_mode) == (os.getuid(), private):
            key = file.read()
            if len(key) == _KEY_BYTES:
                return key
    key = secrets.token_bytes(_KEY_BYTES)
    with suppress(OSError):  # without a cache, no run is recognised later
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        with open(path, "xb", opener=_private) as file:
            file.write(key)
    return key


def _private(name: str, flags: int) -> int:
    """Open a file that only this user can read, and follow no link to another one."""
    return os.open(name, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0), 0o600)


class Run:
    """A command, its process, and what it has said so far.

    Parameters
    ----------
    folder : Path
        Where the command writes; its last part is the id of the run.
    arguments : sequence of str
        Arguments of the command line.
    """

    def __init__(self, folder: Path, arguments: Sequence[str]) -> None:
        self.folder, self.arguments = folder, list(arguments)
        self.process: subprocess.Popen[str] | None = None
        self.code: int | None = None
        self.share, self.left, self.doing = 0.0, "-", "starting"
        self.lines: list[str] = []
        self._lock, self._asked_to_stop = ForkSafeLock(), False

    @classmethod
    def found_in(cls, folder: Path) -> Run | None:
        """Return the run of an earlier session whose folder this is, None if it is none."""
        with suppress(OSError), open(folder / _RECORD, "rb", opener=_private) as file:
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                signature, _, text = file.read(_LARGEST_RECORD).partition(b"\n")
                if hmac.compare_digest(signature, _signature(folder, text)):  # nobody else's command is shown or run
                    record = json.loads(text)
                    run = cls(folder, record["arguments"])
                    run.code, run.lines = record.get("code", _STOPPED[0]), record["lines"]
                    return run
        return None

    def start(self) -> None:
        """Start the process unless it is running; one that was interrupted goes on where it was."""
        with self._lock:
            if self.process is None or self.code is not None:
                self._start()

    def _start(self) -> None:
        self.process = subprocess.Popen(
            command_of(self.arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            env=environment(**{FOR_PROGRAM: "1"}),
            start_new_session=True,  # Ctrl-C in the terminal is for the server, which passes it on
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),  # the same on Windows
        )  # what the system refuses to start changes nothing here
        self.code, self.lines, self.share, self.left, self.doing = None, [], 0.0, "-", "starting"
        self._asked_to_stop = False
        self._keep({})
        self._reader = Thread(target=self._read, args=(self.process,), daemon=True)
        self._reader.start()

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with process.stdout as output:
            for line in output:
                if line.startswith(PROGRESS_MARK):
                    share, self.left, self.doing = line[len(PROGRESS_MARK) :].rstrip().split(" ", 2)
                    self.share = float(share)
                else:
                    self.lines = [*self.lines[1 - _OUTPUT_LINES :], line.rstrip("\n")]
        code = process.wait()
        code = _STOPPED[0] if code and self._asked_to_stop else code
        self._keep({"code": code})
        self.code = code  # from now on the run has ended for the page, which then finds its record

    def _keep(self, end: dict[str, int]) -> None:
        """Write down the run, for a page that is opened later; a full disk is for the command to tell."""
        record = {"arguments": self.arguments, "lines": self.lines} | end
        text = json.dumps(record).encode()
        with suppress(OSError), replacing(self.folder / _RECORD) as temporary:
            temporary.write_bytes(_signature(self.folder, text) + b"\n" + text)

    def stop(self) -> None:
        """Ask the command to end, as batch systems do, and wait until it has; Ctrl-C is ignored in the background."""
        if self.process is None or self.state != "running":
            return
        self._asked_to_stop = True
        for _ in range(_TRIES):
            self.process.send_signal(getattr(signal, "CTRL_BREAK_EVENT", signal.SIGTERM))  # the former on Windows
            self._reader.join(_PATIENCE / _TRIES)
            if not self._reader.is_alive():
                return
        self.process.kill()
        self._reader.join()

    @property
    def state(self) -> str:
        """What became of the run: running, done, stopped or failed."""
        if self.code is None:
            return "running"
        return "done" if self.code == 0 else "stopped" if self.code in _STOPPED else "failed"

    @property
    def files(self) -> list[str]:
        """Files that were written, relative to the folder of the run; links may lead out of it."""
        files = [path for path in self.folder.rglob("*") if path.is_file() and not path.is_symlink()]
        names = [path.relative_to(self.folder).as_posix() for path in files if not path.name.startswith(".")]
        return sorted(name for name in names if name != _RECORD)

    @property
    def model(self) -> str:
        """Path of the model; raises ValueError if there is none."""
        models = [name for name in self.files if name.endswith(".skops")]
        if not models:
            raise ValueError("this run has no model; fit one first")
        return str(self.folder / models[0])

    @property
    def facts(self) -> dict[str, Any]:
        """What the page shows of the run."""
        text = "\n".join(self.lines)
        return {
            "id": self.folder.name,
            "command": self.arguments[0],
            "typed": command_line(self.arguments),
            "state": self.state,
            "share": self.share,
            "left": self.left,
            "doing": self.doing,
            "output": error_in(text) if self.state == "failed" else text,
            "files": [] if self.state == "running" else self.files,
        }


class Runs:
    """All runs of a folder, those that this user has started in earlier sessions included."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._lock = folder, ForkSafeLock()
        found = [Run.found_in(one) for one in sorted(folder.glob("run-*"), key=_number)]
        self._runs = {run.folder.name: run for run in found if run is not None}

    def get(self, name: str) -> Run | None:
        """Return the run of this name, None if there is none."""
        return self._runs.get(name)

    def __iter__(self) -> Iterator[Run]:
        return iter(list(self._runs.values()))

    def start(self, arguments: Sequence[str], out: str) -> Run:
        """Start a command that writes ``out``; return the run that has the same arguments, if there is one."""
        with self._lock:
            same = [run for run in self if run.state == "running" and run.arguments[:-2] == arguments]
            if same:
                return same[0]
            place = self.folder / f"run-{max(map(_number, self.folder.glob('run-*')), default=0) + 1}"
            place.mkdir(parents=True)
            run = Run(place, [*arguments, "-o", str(place / out)])
            run.start()
            self._runs[place.name] = run
            return run

    def stop(self) -> None:
        """Stop all that is running."""
        for run in self:
            run.stop()


def _number(folder: Path) -> int:
    text = folder.name.removeprefix("run-")
    return int(text) if text.isascii() and text.isdigit() else 0
