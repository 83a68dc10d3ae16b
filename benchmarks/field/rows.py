"""Result rows: one per task, split and method, appended to a CSV file and never computed twice."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from tensormargin.io import BadFileError, replacing

DONE, SLOW, UNSUITABLE = "done", "slow", "unsuitable"


@dataclass(frozen=True)
class Row:
    """The result of one method on one split of a task.

    Attributes
    ----------
    task, repeat, fold, method, seed
        What identifies the row.
    status : {"done", "slow", "unsuitable"}
        "slow" if the limit was reached (``seconds``), "unsuitable" if the method cannot take such samples. Other splits
        of that task are then not run.
    samples, classes : str, int
        Number and shape of all samples of the task, and their classes.
    n_folds, n_train, n_test : int
        Number of splits of this repeat, and the size of this one.
    accuracy, balanced_accuracy : float
    seconds, processor_seconds : float
        Time of choosing hyperparameters, fitting and predicting.
    chosen : str
        The hyperparameters, or why there are none.
    hits : str
        Which test samples are right, one bit each, in hexadecimal.
    versions : str
        Software versions as JSON.
    log_loss, calibration_error : float
        Of the class probabilities, in the test set; NaN for methods without, and in rows from before there were these
        columns.
    """

    task: str
    repeat: int
    fold: int
    method: str
    seed: int
    status: str
    samples: str
    classes: int
    n_folds: int
    n_train: int
    n_test: int
    accuracy: float
    balanced_accuracy: float
    seconds: float
    processor_seconds: float
    chosen: str
    hits: str
    versions: str
    log_loss: float = float("nan")
    calibration_error: float = float("nan")

    @property
    def key(self) -> tuple[Any, ...]:
        """What identifies the row."""
        return self.task, self.method, self.seed, self.repeat, self.fold

    @property
    def right(self) -> np.ndarray:
        """1 for every test sample that is right, 0 for the others."""
        return np.unpackbits(np.frombuffer(bytes.fromhex(self.hits), np.uint8), count=self.n_test).astype(float)


NAMES = tuple(field.name for field in fields(Row))
_TYPES = {"str": str, "int": int, "float": float}
_CONVERT = {field.name: _TYPES[str(field.type)] for field in fields(Row)}
_DEFAULTS = {field.name: field.default for field in fields(Row) if field.default is not MISSING}


def as_hits(right: np.ndarray) -> str:
    """Return which samples are right, in hexadecimal."""
    return np.packbits(np.asarray(right, bool)).tobytes().hex()


class RowFile:
    """Rows in a CSV file.

    Every row is appended with a single write, so several processes may add rows, and a killed one leaves at most an
    incomplete last line, which is ignored. Of rows with the same key, the last one counts.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def read(self) -> list[Row]:
        """Return all rows, sorted by key."""
        if not self.path.exists():
            return []
        text = self.path.read_text(encoding="utf-8")
        complete = text[: text.rfind("\n") + 1]
        rows = {row.key: row for row in map(self._row, csv.DictReader(io.StringIO(complete)))}
        return [rows[key] for key in sorted(rows)]

    def add(self, row: Row) -> None:
        """Append a row."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if not self.path.exists():
            self.path.write_text(_lines([], header=True), encoding="utf-8")
        elif not self.path.read_text(encoding="utf-8").startswith(_lines([], header=True)):
            self.compact()  # the file of a version with fewer columns
        with self.path.open("r+b") as file:
            file.truncate(file.read().rfind(b"\n") + 1)  # the incomplete line of a killed process
        with self.path.open("ab") as file:
            file.write(_lines([row]).encode())
            file.flush()
            os.fsync(file.fileno())

    def compact(self) -> list[Row]:
        """Write the rows sorted and without those that were replaced, atomically, and return them."""
        rows = self.read()
        with replacing(self.path) as temporary:
            temporary.write_text(_lines(rows, header=True), encoding="utf-8")
        return rows

    def _row(self, values: dict[str, Any]) -> Row:
        try:
            values = _DEFAULTS | {name: value for name, value in values.items() if value is not None}
            return Row(**{name: convert(values[name]) for name, convert in _CONVERT.items()})
        except (KeyError, TypeError, ValueError) as error:
            raise BadFileError(f"{self.path}: has a line that is not a row ({error}); remove that line") from error


def _lines(rows: Iterable[Row], header: bool = False) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, NAMES, lineterminator="\n")
    if header:
        writer.writeheader()
    writer.writerows(asdict(row) for row in rows)
    return text.getvalue()


def n_splits(rows: Iterable[Row], repeats: Mapping[str, int]) -> dict[str, int]:
    """Return the number of splits of every task that has rows, given how often its folds are repeated."""
    folds: dict[str, dict[int, int]] = {}
    for row in rows:
        folds.setdefault(row.task, {})[row.repeat] = row.n_folds
    return {
        task: sum(own.get(repeat, max(own.values())) for repeat in range(repeats[task])) for task, own in folds.items()
    }


def stopped(rows: Sequence[Row], limit: float) -> set[tuple[str, str]]:
    """Return the (task, method) pairs of which no more splits are run: unsuitable, or slow within this limit."""
    return {
        (row.task, row.method)
        for row in rows
        if row.status == UNSUITABLE or (row.status == SLOW and row.seconds >= limit)
    }
