"""Commands that the page has started, each in a process and a folder of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock, Thread
from typing import Any

from ...runtime import replacing
from .._running import FOR_PROGRAM, PROGRESS_MARK
from .forms import command_line

_RECORD = "run.json"
_STOPPED = (130, 143, 129)  # exit codes of a command that was asked to end
_PATIENCE = 30.0  # seconds that a command has to end by itself
_TRIES = 3  # signals in that time: the exception that one raises may get lost in code that ignores it
_OUTPUT_LINES = 400  # that are kept


def environment(**more: str) -> dict[str, str]:
    """Return the environment of a command: messages without colours, of one width."""
    return {**os.environ, "NO_COLOR": "1", "COLUMNS": "120", "PYTHONUNBUFFERED": "1", **more}


def command_of(arguments: Sequence[str]) -> list[str]:
    """Return the command of a process that runs the command line."""
    return [sys.executable, "-m", "tensormargin", *arguments]


def error_in(output: str) -> str:
    """Return the message of a command that was refused, without its usage."""
    return output.rpartition("\nError: ")[2].removeprefix("Error: ").strip() or "the command ended without a message"


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
        self._lock, self._asked_to_stop = Lock(), False

    @classmethod
    def found_in(cls, folder: Path) -> Run | None:
        """Return the run of an earlier session whose folder this is, None if it is none."""
        with suppress(OSError, ValueError, KeyError, TypeError):
            record = json.loads((folder / _RECORD).read_text(encoding="utf-8"))
            run = cls(folder, [str(one) for one in record["arguments"]])
            run.code, run.lines = record.get("code", _STOPPED[0]), [str(one) for one in record.get("lines", ())]
            return run
        return None

    def start(self) -> None:
        """Start the process unless it is running; one that was interrupted goes on where it was."""
        with self._lock:
            if self.process is None or self.code is not None:
                self._start()

    def _start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.code, self.lines, self.share, self.left, self.doing = None, [], 0.0, "-", "starting"
        self._asked_to_stop = False
        self._keep()
        own: dict[str, Any] = {
            "start_new_session": True
        }  # Ctrl-C in the terminal is for the server, which passes it on
        if sys.platform == "win32":
            own = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
        self.process = subprocess.Popen(
            command_of(self.arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            env=environment(**{FOR_PROGRAM: "1"}),
            **own,
        )
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
        self.code = _STOPPED[0] if code and self._asked_to_stop else code
        self._keep()

    def _keep(self) -> None:
        """Write down the run, for a page that is opened later."""
        record = {"arguments": self.arguments, "lines": self.lines} | ({} if self.code is None else {"code": self.code})
        with replacing(self.folder / _RECORD) as temporary:
            temporary.write_text(json.dumps(record), encoding="utf-8")

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
        """Files that were written, relative to the folder of the run."""
        found = [path.relative_to(self.folder).as_posix() for path in self.folder.rglob("*") if path.is_file()]
        return sorted(name for name in found if name != _RECORD and not Path(name).name.startswith("."))

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
    """All runs of a folder, those of earlier sessions included."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._lock = folder, Lock()
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
            run = self._runs[place.name] = Run(place, [*arguments, "-o", str(place / out)])
            run.start()
            return run

    def stop(self) -> None:
        """Stop all that is running."""
        for run in self:
            run.stop()


def _number(folder: Path) -> int:
    text = folder.name.removeprefix("run-")
    return int(text) if text.isascii() and text.isdigit() else 0
