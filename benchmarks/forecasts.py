"""How well `tensormargin fit` says how long it will take: ``python -m benchmarks.forecasts [DATA ...]``.

For each data set, the time left that was said is compared with the time left that it was, in seconds of processor time
(one process, so that other work on the machine does not count): at the first forecast, and at its worst until nine
tenths of the run are over. A forecast is good if both ratios are between 0.5 and 2.

On two busy cores, the first forecast was 0.94 (olive oil), 1.11 (EEG), 0.88 (BasicMotions), 0.84 (Libras) and 1.00
(connectomes; these two with a third more for reports) of the true time left, and until nine tenths of the first three
runs were over it stayed between 0.72 and 1.50. Before, it was 0.56 (BasicMotions), 0.58 (PRECOG actions) and 1.33
(Libras), in seconds of wall time.

``python -m benchmarks.forecasts --parts`` also prints what the constants of the forecast stand for: the work of later
rungs in fits of the first one, the length of an outer fold in searches, and that of the report in imports.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from time import process_time

DATA = ("basic-motions", "libras", "precog-actions", "eem-olive-oil", "eeg", "orl", "adrenal")


def record(name: str, folder: str) -> list[tuple[float, str, float | None]]:
    """Run the command in this process; return processor time, text and time left of each report, and of the end."""
    from tensormargin.cli import _running, main

    reports: list[tuple[float, str, float | None]] = [(process_time(), "start", None)]
    _running.time = Clock()
    show = _running.Display.__call__

    def recorded(self: _running.Display, done: float, total: float, text: str) -> None:
        show(self, done, total, text)
        reports.append((process_time(), text, self._forecast.left(process_time())))

    _running.Display.__call__ = recorded
    options = ["-o", str(Path(folder) / "model.skops"), "--jobs", "1", "--fresh"]
    main(["fit", name, *options], standalone_mode=False)
    return [*reports, (process_time(), "end", None)]


class Clock:
    """A clock of processor time, in place of the module `time`."""

    monotonic = staticmethod(process_time)


def ratios(reports: list[tuple[float, str, float | None]]) -> tuple[float, float, float, float]:
    """Return the seconds in all, and said per true time left: of the first forecast, the lowest and the highest."""
    end, start = reports[-1][0], reports[0][0]
    said = [(now, left / (end - now)) for now, _, left in reports if left is not None and now < end]
    early = [ratio for now, ratio in said if now - start < 0.9 * (end - start)]
    return end - start, said[0][1], min(early), max(early)


def parts(reports: list[tuple[float, str, float | None]]) -> tuple[float, float, float]:
    """Return the seconds of later rungs per second of the first, of a fold per second of its search, and of the end."""
    seconds: dict[str, float] = defaultdict(float)
    before, first, in_search = reports[0][0], 0, 0.0
    for now, text, _ in reports[1:]:
        fits = re.search(r"outer fold.*, (\d+) of (\d+) fits", text)
        if fits and int(fits[1]) < 5:
            first = int(fits[2])
        if fits:
            seconds["first" if int(fits[2]) == first else "later"] += now - before
            in_search += now - before
        elif text.startswith("evaluation"):
            seconds["references"] += now - before
        before = now
    end = reports[-1][0] - reports[-2][0]
    return seconds["later"] / seconds["first"], 1 + seconds["references"] / in_search, end


def main() -> None:
    """Print one row per data set; each is fitted in a process of its own."""
    names = [one for one in sys.argv[1:] if not one.startswith("-")]
    if len(names) == 1:
        with tempfile.TemporaryDirectory() as folder:
            reports = record(names[0], folder)
        total, *said = ratios(reports)
        more = "  ".join(f"{one:6.2f}" for one in parts(reports)) if "--parts" in sys.argv else ""
        print(f"{names[0]:16} {total:7.0f} s  {'  '.join(f'{one:6.2f}' for one in said)}  {more}")
        return
    print(f"{'data':16} {'took':>9}   first  lowest  highest" + "   later   fold   end, s" * ("--parts" in sys.argv))
    for name in names or DATA:
        command = [sys.executable, "-m", "benchmarks.forecasts", name, *(["--parts"] * ("--parts" in sys.argv))]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        print(done.stdout.splitlines()[-1], flush=True)


if __name__ == "__main__":
    main()
