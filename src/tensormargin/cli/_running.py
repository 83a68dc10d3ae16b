"""Long runs: the progress bar, the processes that compute, interruption, and what an interrupted run keeps."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from ..runtime import EscapedStream, escaped, escaped_streams
from ._outputs import WRITTEN, can_write_in, refusals

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from ..data import Checkpoint

_PLAIN_SECONDS = 30.0  # between progress lines if there is no terminal
_WORTH_SAYING = 5.0  # seconds left from which the first forecast gets a line of its own there
_SAME_PRESS = 2.0  # seconds within which another Ctrl-C asks for nothing new
_BAR = 20  # widest bar, in columns
_FOR_PROGRAM_SECONDS = 0.3  # between progress lines for a program
FOR_PROGRAM = "TENSORMARGIN_PROGRESS"
"""Environment variable by which a program asks for progress that it can read: share, seconds left (or -) and text."""
PROGRESS_MARK = "\x1e"  # what begins such a line, a record separator
ENDS_PROCESS = "ends the process"  # the object of contexts whose command is the whole of a process
_DEFAULT_HANDLERS = (signal.default_int_handler, signal.SIG_DFL)
_DISPLAY = f"{__name__}.display"  # where the context of a command holds its display

# ---- what is printed ----


def console_on(stream: Any) -> Console:
    """Return a console whose colours reach the terminal behind a stream, and whose text is `escaped`."""
    from rich.console import Console
    from rich.segment import Segment

    class EscapedConsole(Console):
        def render(self, renderable: Any, options: Any = None) -> Iterator[Segment]:
            for text, style, control in super().render(renderable, options):
                yield Segment(text if control else escaped(text), style, control)

    return EscapedConsole(file=stream.stream if isinstance(stream, EscapedStream) else stream)


# ---- progress ----


class Display:
    """Shows progress on standard error: as a bar in a terminal, otherwise as a line now and then.

    rich draws the bar. Its own forecast takes all steps for alike and those of an earlier run for done in no time, and
    between two reports its bar stands still, so that share and time left are those of `Forecast`.

    Attributes
    ----------
    kept : bool
        Whether an interrupted run can be resumed.
    checkpoint : Checkpoint or None
        Where finished work is kept.
    """

    kept: bool
    checkpoint: Checkpoint | None

    def __init__(self, in_seconds: bool = False) -> None:
        from ..runtime import Forecast

        self.console = console_on(sys.stderr)
        self.kept, self.checkpoint = False, None
        self._forecast = Forecast(in_seconds)
        self._began = self._said = time.monotonic()
        self._doing = "starting"
        self._reported = self._finished = self._foretold = False

    def __call__(self, done: float, total: float, text: str) -> None:
        """Show that ``done`` of ``total`` is finished."""
        now = time.monotonic()
        self._forecast.report(now, done, total)
        self._doing = text
        if not self._reported and self.checkpoint is not None and self.checkpoint.resumed:
            click.echo(f"From an earlier run: {text}", err=True)
        self._reported, self._finished = True, self._finished or done > 0
        if not self.console.is_terminal:
            self._print(now)

    def expect(self, afterwards: float) -> None:
        """Add seconds that something takes after all reported work to the time left."""
        self._forecast.afterwards = afterwards

    def when_stopped(self) -> str:
        """Return what to say when the run is interrupted."""
        if not self._finished:
            return "Stopped."
        message = f"Stopped at {self._forecast.share(time.monotonic()):.0%} ({self._doing})"
        return message + ("; run the same command again to go on." if self.kept else ".")

    def _print(self, now: float) -> None:
        left = self._forecast.left(now)
        if FOR_PROGRAM in os.environ:
            if now - self._said >= _FOR_PROGRAM_SECONDS:
                self._said, expected = now, "-" if left is None else f"{left:.1f}"
                line = f"{PROGRESS_MARK}{self._forecast.share(now):.4f} {expected} {escaped(self._doing)}"
                click.echo(line, file=self.console.file)  # the mark is not to be escaped
            return
        news = left is not None and left >= _WORTH_SAYING and not self._foretold
        if news or now - self._said >= _PLAIN_SECONDS:
            self._said, self._foretold = now, left is not None
            parts = [f"{self._forecast.share(now):4.0%}", *(() if left is None else (_time_left(left),)), self._doing]
            self.console.print("  ".join(parts), highlight=False, markup=False, soft_wrap=True)

    def __rich__(self) -> Text:
        """Return the bar: share, time and time left are always there, the text is cut to what fits."""
        from rich.text import Text

        now, width = time.monotonic(), self.console.width
        share, left = self._forecast.share(now), self._forecast.left(now)
        times = f" {share:4.0%}  {_clock(now - self._began)}" + ("" if left is None else f"  {_time_left(left)}")
        length = max(0, min(_BAR, width - len(times) - 30))
        full = round(share * length)
        stroke = "━" if self.console.encoding.startswith("utf") else "-"
        line = Text(stroke * full, style="bar.complete") + Text(stroke * (length - full), style="bar.back")
        line += Text(times, style="progress.percentage") + Text(f"  {self._doing}")
        line.truncate(width - 1, overflow="ellipsis")
        return line


@contextmanager
def progress_bar(in_seconds: bool = False) -> Iterator[Display]:
    """Yield a display of the progress, with the time left.

    Parameters
    ----------
    in_seconds : bool, default=False
        Whether progress is reported in seconds of expected time.
    """
    from rich.live import Live

    display = Display(in_seconds)
    click.get_current_context().meta[_DISPLAY] = display
    if display.console.is_terminal:
        bar = Live(display, console=display.console, refresh_per_second=5, transient=True)
        with bar, escaped_streams():  # again, since the bar reads control sequences of what is printed beside it
            yield display
    else:
        yield display


def _time_left(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s left"
    return f"{seconds / 60:.0f} min left" if seconds < 5400 else f"{seconds / 3600:.1f} h left"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02d}" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"


# ---- processes ----


@contextmanager
def processes(jobs: int, scheduler: str | None, module: str) -> Iterator[Callable[[], object]]:
    """Start the processes of joblib and let them load a module; yield a function that waits until they have.

    This process can load the same module meanwhile. The processes ignore Ctrl-C, which a terminal sends to them as
    well: this process ends them. With one job, or on a cluster, there are none.
    """
    from joblib import Parallel, delayed, effective_n_jobs

    from ..runtime import worker_options

    number = 1 if scheduler is not None else effective_n_jobs(jobs)
    if number == 1:
        yield lambda: None
        return
    with _without_interrupts(), _without_warnings_of_trackers():
        loading = Parallel(n_jobs=jobs, batch_size=1, return_as="generator_unordered", **worker_options(jobs))(
            delayed(_load)(module) for _ in range(number)
        )
    try:
        yield lambda: list(loading)
    except KeyboardInterrupt:
        loading.close()  # ends the processes
        raise
    except BaseException:
        with suppress(Exception):
            list(loading)  # ending processes that are about to get work makes joblib's threads fail now and then
        raise


@contextmanager
def _without_warnings_of_trackers() -> Iterator[None]:
    """Start processes such that joblib's tracker of resources does not warn of folders that are left, or gone.

    It removes them; who stops a command can do nothing about them.
    """
    sys.warnoptions.append("ignore:resource_tracker")  # what new processes get as their options -W
    try:
        yield
    finally:
        sys.warnoptions.pop()


def end_processes() -> None:
    """End joblib's processes at once; otherwise this process waits at its end until they have put everything away."""
    executor = getattr(sys.modules.get("joblib.externals.loky.reusable_executor"), "_executor", None)
    if executor is not None:
        # joblib finds what to kill by psutil or pgrep, which small containers lack; it would then wait five minutes.
        can_kill = sys.platform == "win32" or find_spec("psutil") is not None or shutil.which("pgrep") is not None
        executor.shutdown(wait=True, kill_workers=can_kill)


def _load(module: str) -> None:
    """Import a module; what it consists of stays, so that no collection of garbage need look at it."""
    import gc
    from importlib import import_module

    import_module(module)
    gc.freeze()


# ---- interruption ----


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Ignore Ctrl-C here, and in processes that are started here."""
    if not _is_main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def interruptible(context: click.Context) -> Iterator[None]:
    """End a command on Ctrl-C with exit code 130; say what was finished and how to go on, without a traceback.

    A request to end (SIGTERM, by which batch systems stop a job) and a closed terminal (SIGHUP) do the same, with exit
    codes 143 and 129. Further signals are ignored for a moment, in which files are closed and processes ended. So is
    the first one after all outputs are written (`written_together`), since the command has then done its work.
    """
    from ..runtime import ENDING_SIGNALS

    received, pressed = list[int](), list[float]()

    def interrupt(number: int, frame: Any) -> None:
        now = time.monotonic()
        if pressed and now - pressed[-1] < _SAME_PRESS:
            return
        pressed.append(now)
        if len(pressed) > 1 or not context.meta.get(WRITTEN):
            received.append(number)
            warnings.simplefilter("ignore")  # joblib warns of jobs that are not finished
            raise KeyboardInterrupt

    before = {number: signal.getsignal(number) for number in ENDING_SIGNALS} if _is_main_thread() else {}
    ours = {number: handler for number, handler in before.items() if handler in _DEFAULT_HANDLERS}
    for number in ours:
        signal.signal(number, interrupt)
    try:
        with warnings.catch_warnings():
            yield
    except KeyboardInterrupt:
        _stop(context, received[0] if received else signal.SIGINT)
    except Exception:  # libraries that are being imported turn a KeyboardInterrupt into other errors
        if not received:
            raise
        _stop(context, received[0])
    finally:
        if context.find_root().obj == ENDS_PROCESS:
            _ignore_while_ending(ours)  # now: a second press, or one after the last line, may come before the end
        else:
            for number, handler in ours.items():
                signal.signal(number, handler)


def _ignore_while_ending(signals: Iterable[int]) -> None:
    """Ignore signals while this process ends, which takes a moment; if it takes longer, one ends it at once."""
    began = time.monotonic()

    def interrupt(number: int, frame: Any) -> None:
        if time.monotonic() - began >= _SAME_PRESS:
            os._exit(_exit_code(number))

    for number in signals:
        signal.signal(number, interrupt)


def leave(code: Any) -> None:
    """End this process after all that is to be done at its end, without Python's own last steps.

    These take away the handlers that ignore signals, so that a command that has done its work could still end as if
    stopped; after a signal they abort the process now and then if libraries have threads at work, as in the middle of
    an import; and `python -m` ends by SIGINT, whatever the exit code, if a KeyboardInterrupt has left text that was
    being executed (a dataclass).
    """
    atexit._run_exitfuncs()
    code = code if isinstance(code, int) else int(code is not None)
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):  # the disk is full, or the terminal is gone
            code = code or 1
    os._exit(code)


def _exit_code(number: int) -> int:
    return 128 + int(number)  # as shells have it


def _stop(context: click.Context, number: int) -> None:
    display: Display | None = context.meta.get(_DISPLAY)
    message = "Stopped." if display is None else display.when_stopped()
    with suppress(OSError):  # the terminal may be gone
        click.echo("Stopped after its files were written." if context.meta.get(WRITTEN) else message, err=True)
    raise SystemExit(_exit_code(number)) from None


def unfinished(display: Display, fresh: bool) -> Checkpoint | None:
    """Return the checkpoint for interrupted runs, in the user's cache; None if that cannot be written to."""
    from ..data import Checkpoint
    from ..datasets import cache_folder

    folder = cache_folder() / "unfinished"
    if can_write_in(folder):
        display.checkpoint, display.kept = Checkpoint(folder, fresh), True
    return display.checkpoint


@contextmanager
def fits_on(scheduler: str | None, *samples: object) -> Iterator[None]:
    """Run the fits inside on the workers of a Dask scheduler, which get the samples once; None runs them locally."""
    if scheduler is None:
        yield
        return
    from ..runtime import on_cluster

    with ExitStack() as stack:
        with refusals(ValueError):
            if click.get_current_context().get_parameter_source("jobs") is not ParameterSource.DEFAULT:
                raise ValueError("--jobs counts processes of this machine, --scheduler takes all workers; give one")
            stack.enter_context(on_cluster(scheduler, *samples))
        with refusals():
            yield
