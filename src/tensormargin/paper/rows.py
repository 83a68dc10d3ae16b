"""Result rows and their store: small Parquet files, written atomically and never changed afterwards."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

from ..io import BadFileError, replacing
from ..runtime import software_versions
from .protocols import Pair


@dataclass(frozen=True, order=True)
class CellKey:
    """One method on one split of one data set; ``tuned`` names the tuned hyperparameters, "lam" or "lam+mu"."""

    data: str
    size: int
    repeat: int
    fold: int
    method: str
    tuned: str
    seed: int


@dataclass(frozen=True)
class _OfPair(CellKey):
    first: str
    second: str

    @property
    def cell(self) -> CellKey:
        return CellKey(self.data, self.size, self.repeat, self.fold, self.method, self.tuned, self.seed)

    @property
    def pair(self) -> tuple[str, str]:
        return self.first, self.second

    @classmethod
    def of(cls, cell: CellKey, pair: Pair, **values: Any) -> Self:
        """Return the row for a cell and a pair of classes; ``values`` holds the other fields."""
        return cls(**asdict(cell), first=str(pair[0]), second=str(pair[1]), **values)


@cache
def versions_text() -> str:
    """Return the software versions, stored with each row, as a JSON object."""
    return json.dumps(software_versions(), sort_keys=True)


@dataclass(frozen=True)
class TuningRow(_OfPair):
    """Validation result of one candidate on one pair of classes; ``seconds`` is the time of its fits.

    Examples
    --------
    >>> from tensormargin.paper import TuningRow
    >>> row = TuningRow("ORL", 2, 0, 0, "STM", "lam", 0, "1", "2", 10.0, 1.0, 15, 16, 0.01)
    >>> row.n_correct / row.n_tested
    0.9375
    """

    lam: float
    mu: float
    n_correct: int
    n_tested: int
    seconds: float

    @property
    def key(self) -> tuple[Any, ...]:
        """The fields that identify this row."""
        return self.cell, self.pair, self.lam, self.mu


@dataclass(frozen=True)
class Row(_OfPair):
    """Test result of one pair of classes, fitted on the whole training set and scored on the test set.

    ``lam`` and ``mu`` are the chosen values (if ``relative``, in units of one over the mean squared norm of the centred
    samples). ``gap`` is the largest relative duality gap of the last sweep, ``versions`` a JSON object.

    Examples
    --------
    >>> from dataclasses import fields
    >>> from tensormargin.paper import Row
    >>> [field.name for field in fields(Row)][:6]
    ['data', 'size', 'repeat', 'fold', 'method', 'tuned']
    """

    n_train: int
    n_test: int
    n_correct: int
    lam: float
    mu: float
    relative: bool
    fit_seconds: float
    predict_seconds: float
    sweeps: int
    gap: float
    objective: float
    converged: bool
    n_parameters: int
    accuracy: float
    versions: str

    @property
    def key(self) -> tuple[Any, ...]:
        """The fields that identify this row."""
        return self.cell, self.pair


RowType = TypeVar("RowType", Row, TuningRow)


class RowStore(Generic[RowType]):
    """Rows of one kind, stored in a folder.

    Every `add` writes a new file atomically, and files never change afterwards. A process that is killed leaves no
    incomplete file, and several processes may write at the same time. `export` writes all rows to one file next to the
    folder; `read` includes that file, so the folder may then be deleted.

    Examples
    --------
    >>> import tempfile
    >>> from tensormargin.paper import RowStore, TuningRow
    >>> row = TuningRow("ORL", 2, 0, 0, "STM", "lam", 0, "1", "2", 10.0, 1.0, 15, 16, 0.01)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = RowStore(folder, TuningRow)
    ...     store.add([row])
    ...     [one.method for one in store.read()]
    ['STM']
    """

    def __init__(self, folder: str | Path, kind: type[RowType]) -> None:
        _arrow()  # raise before any work is done if pyarrow is missing
        self.folder = Path(folder)
        self.exported = self.folder.with_suffix(".parquet")
        self._kind: type[RowType] = kind

    def add(self, rows: Sequence[RowType]) -> None:
        """Add rows as one new file, atomically."""
        name = hashlib.sha256(repr([row.key for row in rows]).encode()).hexdigest()[:24]
        self._write(self.folder / f"{name}.parquet", rows)

    def read(self) -> list[RowType]:
        """Return all rows without duplicates, sorted by key."""
        paths = [self.exported] if self.exported.is_file() else []
        paths += sorted(self.folder.glob("[!.]*.parquet"))
        rows = {row.key: row for path in paths for row in self._read(path)}
        return [rows[key] for key in sorted(rows)]

    def export(self) -> list[RowType]:
        """Write all rows to one file, sorted by key, and return them."""
        rows = self.read()
        self._write(self.exported, rows)
        return rows

    def _write(self, path: Path, rows: Iterable[RowType]) -> None:
        pyarrow, parquet = _arrow()
        table = pyarrow.Table.from_pylist([vars(row) for row in rows], schema=self._schema())
        with replacing(path) as temporary:
            parquet.write_table(table, temporary, compression="zstd")

    def _read(self, path: Path) -> list[RowType]:
        pyarrow, parquet = _arrow()
        try:
            table = parquet.read_table(path, partitioning=None).cast(self._schema())
        except (pyarrow.ArrowException, ValueError, OSError) as error:
            message = f"{path}: not a file of results ({error}); remove it to have its rows made again"
            raise BadFileError(message) from error
        return [self._kind(**values) for values in table.to_pylist()]

    def _schema(self) -> Any:
        pyarrow, _ = _arrow()
        types = {"int": pyarrow.int64(), "float": pyarrow.float64(), "str": pyarrow.string(), "bool": pyarrow.bool_()}
        return pyarrow.schema([(field.name, types[str(field.type)]) for field in fields(self._kind)])


def _arrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise ImportError(
            "rows are kept as Parquet, which needs pyarrow: pip install 'tensormargin[reproduce]'"
        ) from error
    return pyarrow, parquet
