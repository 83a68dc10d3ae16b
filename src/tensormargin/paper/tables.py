"""The result tables as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isnan

from ..estimators import METHODS
from ..runtime import counted
from .summary import CellSummary, Difference

MARGIN_TERMS = (("LMDM", "SVM"), ("SPMD-LRT", "STM"), ("TuSPMD-LRT", "STuM"))
"""Pairs of methods that differ only in the margin terms."""
LOW_RANK = (("STM", "SVM"), ("STuM", "SVM"), ("SPMD-LRT", "LMDM"), ("HSPMD-LRT", "LMDM"), ("TuSPMD-LRT", "LMDM"))
"""Pairs of methods that differ only in the form of the weight."""


@dataclass(frozen=True)
class TableResults:
    """Summaries of one table."""

    name: str
    cells: list[CellSummary]
    differences: list[Difference]

    @property
    def columns(self) -> list[tuple[str, int]]:
        """The (data set, size) pairs, in order of appearance."""
        return list(dict.fromkeys((cell.data, cell.size) for cell in self.cells))

    def cell(self, column: tuple[str, int], method: str, tuned: str = "lam") -> CellSummary | None:
        """Return one cell, None if it was not measured."""
        for cell in self.cells:
            if (cell.data, cell.size, cell.method, cell.tuned) == (*column, method, tuned):
                return cell
        return None

    def difference(self, column: tuple[str, int], first: str, second: str, tuned: str = "lam") -> Difference | None:
        """Return one difference, None if it was not measured."""
        for one in self.differences:
            if (one.data, one.size, one.first, one.second, one.tuned) == (*column, first, second, tuned):
                return one
        return None

    def has_paper(self, data: str) -> bool:
        """Return whether the paper reports a figure for any cell of a data set."""
        return any(not isnan(cell.paper) for cell in self.cells if cell.data == data)


def markdown(header: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table; all columns but the first are right-aligned."""
    ruler = [":--", *["--:"] * (len(header) - 1)]
    return "\n".join("| " + " | ".join(line) + " |" for line in (header, ruler, *lines)) + "\n"


def _headings(one: TableResults) -> list[str]:
    many_data = len({data for data, _ in one.columns}) > 1
    sizes = {data: [size for name, size in one.columns if name == data] for data, _ in one.columns}
    return [
        f"{data} ({size})" if many_data and len(sizes[data]) > 1 else data if many_data else f"{size:,}"
        for data, size in one.columns
    ]


def _variants(one: TableResults) -> list[tuple[str, str]]:
    tuned = {(cell.method, cell.tuned) for cell in one.cells}
    return [(method, kind) for kind in ("lam", "lam+mu") for method in METHODS if (method, kind) in tuned]


def variant_name(method: str, tuned: str) -> str:
    """Return the label of a table row."""
    return f"{method}, mu chosen" if tuned == "lam+mu" else method


def accuracy_table(one: TableResults) -> str:
    """Return the table of accuracies in percent, the paper's in parentheses, the best of each column in bold."""
    best = {column: max(c.accuracy for c in one.cells if (c.data, c.size) == column) for column in one.columns}
    lines = []
    for method, tuned in _variants(one):
        line = [variant_name(method, tuned)]
        for column in one.columns:
            cell = one.cell(column, method, tuned)
            line.append("" if cell is None else _accuracy(cell, best[column], one.has_paper(column[0])))
        lines.append(line)
    heading = "accuracy % (paper)" if any(one.has_paper(data) for data, _ in one.columns) else "accuracy %"
    return markdown([heading, *_headings(one)], lines) + "\n" + _counts(one)


def _counts(one: TableResults) -> str:
    """Return a sentence with the numbers of splits and binary problems, listing methods with fewer splits."""
    parts = []
    for column, heading in zip(one.columns, _headings(one), strict=True):
        cells = [cell for cell in one.cells if (cell.data, cell.size) == column]
        splits = max(cell.n_splits for cell in cells)
        problems = cells[0].n_fits // cells[0].n_splits
        text = f"{heading}: {counted(splits, 'split')} of {counted(problems, 'binary problem')}"
        fewer = [f"{variant_name(c.method, c.tuned)} {c.n_splits}" for c in cells if c.n_splits < splits]
        parts.append(text + (f" (but {', '.join(fewer)})" if fewer else ""))
    return "Means over: " + "; ".join(parts) + ".\n"


def _accuracy(cell: CellSummary, best: float, with_paper: bool) -> str:
    text = f"{cell.accuracy:.2f}" if isnan(cell.sd) else f"{cell.accuracy:.2f} ± {cell.sd:.2f}"
    text = f"**{text}**" if round(cell.accuracy, 2) == round(best, 2) else text
    if cell.tuned != "lam" or not with_paper:
        return text
    return f"{text} ({'-' if isnan(cell.paper) else f'{cell.paper:.2f}'})"


def time_table(one: TableResults) -> str:
    """Return the table of median fit times in seconds."""
    lines = []
    for method, tuned in _variants(one):
        if tuned == "lam":
            cells = [one.cell(column, method) for column in one.columns]
            lines.append([method, *["" if cell is None else f"{cell.fit_seconds:.3g}" for cell in cells]])
    return markdown(["fit s", *_headings(one)], lines)


def difference_table(one: TableResults) -> str:
    """Return the table of differences that show whether the margin terms and the low-rank weight help."""
    lines = []
    for pairs, tuned in ((MARGIN_TERMS, "lam"), (MARGIN_TERMS, "lam+mu"), (LOW_RANK, "lam")):
        for first, second in pairs:
            found = [one.difference(column, first, second, tuned) for column in one.columns]
            if any(found):
                lines.append(
                    [f"{variant_name(first, tuned)} - {second}", *["" if d is None else _interval(d) for d in found]]
                )
    return markdown(["difference", *_headings(one)], lines)


def _interval(one: Difference) -> str:
    if isnan(one.low):
        return f"{one.difference:+.2f}"
    text = f"{one.difference:+.2f} [{one.low:+.2f}, {one.high:+.2f}]"
    text = f"**{text}**" if one.excludes_zero else text
    return f"{text}*" if one.verdict in ("better", "worse") else text
