"""The result tables as Markdown, and their findings as sentences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import isnan

from ..estimators import METHODS
from ..evaluation import CONFIDENCE
from ..runtime import counted
from .summary import CellSummary, Difference

MARGIN_TERMS = (("LMDM", "SVM"), ("SPMD-LRT", "STM"), ("TuSPMD-LRT", "STuM"))
"""Pairs of methods that differ only in the margin terms."""
LOW_RANK = (("STM", "SVM"), ("STuM", "SVM"), ("SPMD-LRT", "LMDM"), ("HSPMD-LRT", "LMDM"), ("TuSPMD-LRT", "LMDM"))
"""Pairs of methods that differ only in the form of the weight."""
BASELINES = ("SVM", "LMDM", "STM", "STuM")
PROPOSED = ("SPMD-LRT", "HSPMD-LRT", "TuSPMD-LRT")
_NEARLY_ALWAYS = 99.0  # percent


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
        wanted = (*column, method, tuned)
        return next((one for one in self.cells if (one.data, one.size, one.method, one.tuned) == wanted), None)

    def difference(self, column: tuple[str, int], first: str, second: str, tuned: str = "lam") -> Difference | None:
        """Return one difference, None if it was not measured."""
        wanted = (*column, first, second, tuned)
        found = (d for d in self.differences if (d.data, d.size, d.first, d.second, d.tuned) == wanted)
        return next(found, None)

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
        cells = [(column, one.cell(column, method, tuned)) for column in one.columns]
        texts = ["" if cell is None else _accuracy(cell, best[at], one.has_paper(at[0])) for at, cell in cells]
        lines.append([variant_name(method, tuned), *texts])
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
    methods = [method for method, tuned in _variants(one) if tuned == "lam"]
    cells = {method: [one.cell(column, method) for column in one.columns] for method in methods}
    lines = [[name, *("" if one is None else f"{one.fit_seconds:.3g}" for one in own)] for name, own in cells.items()]
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


def findings(one: TableResults) -> list[str]:
    """Return the findings of one table as sentences."""
    return [*in_short([one]), *_remarks(one)]


def in_short(results: Sequence[TableResults]) -> list[str]:
    """Return the answers to the paper's questions over all these tables, as sentences."""
    cells = [cell for one in results for cell in one.cells]
    sentences = (
        _against_paper(cells, PROPOSED, "The proposed methods"),
        _against_paper(cells, BASELINES, "The baselines"),
        _question(results, MARGIN_TERMS, "lam", "The margin terms (mu1 = mu2 = 1)"),
        _question(results, MARGIN_TERMS, "lam+mu", "The margin terms with a chosen mu"),
        _question(results, LOW_RANK, "lam", "The low-rank weight in place of the flat one"),
    )
    return list(filter(None, sentences))


def _against_paper(cells: Sequence[CellSummary], methods: Sequence[str], who: str) -> str:
    """Return a sentence that compares a group of methods with the paper's figures."""
    own = [cell for cell in cells if cell.method in methods and cell.tuned == "lam" and not isnan(cell.paper)]
    if not own:
        return ""
    present = ", ".join(name for name in methods if any(cell.method == name for cell in own))
    below = [cell for cell in own if round(cell.accuracy, 2) < cell.paper]
    gains = [cell.accuracy - cell.paper for cell in own]
    text = (
        f"{who} ({present}) are at or above the paper's figure in {len(own) - len(below)} of the {len(own)} "
        f"cells that it fills, by {min(gains):+.2f} to {max(gains):+.2f} points"
    )
    if below:
        text += "; below it: " + ", ".join(f"{c.method} on {c.data} {c.size}" for c in below)
    return text + "."


def _question(results: Sequence[TableResults], pairs: Sequence[tuple[str, str]], tuned: str, what: str) -> str:
    """Return how often the first method of each pair is better or worse, before and after Holm's correction."""
    found = [
        difference
        for one in results
        for column in one.columns
        for first, second in pairs
        if (difference := one.difference(column, first, second, tuned)) is not None
    ]
    if not found:
        return ""
    alone = [difference.difference > 0 for difference in found if difference.excludes_zero]
    after = [difference.verdict for difference in found]
    values = [difference.difference for difference in found]
    text = (
        f"{what}: of {len(found)} comparisons better in {sum(alone)} and worse in {len(alone) - sum(alone)} by the "
        f"interval alone, in {after.count('better')} and {after.count('worse')} after Holm's correction"
    )
    if "no interval" in after:
        text += f", no interval (a single split) in {after.count('no interval')}"
    return f"{text}; {min(values):+.2f} to {max(values):+.2f} points."


def _remarks(one: TableResults) -> Iterator[str]:
    """Yield how many differences are significant, and what limits the findings, as sentences."""
    tested = [difference for difference in one.differences if not isnan(difference.p_value)]
    if tested:
        alone = sum(difference.excludes_zero for difference in tested)
        after = sum(difference.verdict in ("better", "worse") for difference in tested)
        yield (
            f"Of the {len(tested)} differences between two methods (every two, mu chosen or not, every column), "
            f"{alone} have an interval that does not hold 0, where about {len(tested) * (1 - CONFIDENCE):.0f} would if "
            f"no two methods differed; after Holm's correction for their number {after} are left."
        )
    cells, lowest = one.cells, min(cell.accuracy for cell in one.cells)
    if lowest >= _NEARLY_ALWAYS:
        yield f"Every method is right in at least {lowest:.2f} % of the cases: this metric hardly tells them apart."
    low = sum(cell.at_low > 0.5 for cell in cells)
    high = [f"{variant_name(c.method, c.tuned)} on {c.data} {c.size}" for c in cells if c.at_high > 0.5]
    ends = [f"the smallest value in {low} of {len(cells)} cells (ties go to it)"] if low else []
    ends += [f"the largest for {', '.join(high)}"] if high else []
    if ends:
        yield f"lambda was mostly chosen at an end of the grid: {'; '.join(ends)}."
    stopped, fits = sum(cell.unconverged for cell in cells), sum(cell.n_fits for cell in cells)
    if stopped:
        gap = f"their largest relative duality gap is {max(cell.largest_gap for cell in cells):.1g}"
        yield f"{stopped} of {fits:,} fits stopped before they converged; {gap}."
