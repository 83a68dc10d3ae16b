"""The findings of the result tables as sentences."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan

from ..evaluation import CONFIDENCE
from .summary import CellSummary
from .tables import LOW_RANK, MARGIN_TERMS, TableResults, variant_name

BASELINES = ("SVM", "LMDM", "STM", "STuM")
PROPOSED = ("SPMD-LRT", "HSPMD-LRT", "TuSPMD-LRT")
_NEARLY_ALWAYS = 99.0  # percent


def findings(one: TableResults) -> list[str]:
    """Return the findings of one table as sentences."""
    remarks = (_all_differences(one), _ceiling(one.cells), _edges(one.cells), _unconverged(one.cells))
    return in_short([one]) + [remark for remark in remarks if remark]


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
    return [sentence for sentence in sentences if sentence]


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


def _all_differences(one: TableResults) -> str:
    """Return how many differences are significant, before and after Holm's correction, as a sentence."""
    tested = [difference for difference in one.differences if not isnan(difference.p_value)]
    if not tested:
        return ""
    alone = sum(difference.excludes_zero for difference in tested)
    after = sum(difference.verdict in ("better", "worse") for difference in tested)
    return (
        f"Of the {len(tested)} differences between two methods (every two, mu chosen or not, every column), {alone} "
        f"have an interval that does not hold 0, where about {len(tested) * (1 - CONFIDENCE):.0f} would if no two "
        f"methods differed; after Holm's correction for their number {after} are left."
    )


def _ceiling(cells: Sequence[CellSummary]) -> str:
    """Return a remark if every method is nearly always right, otherwise an empty string."""
    lowest = min(cell.accuracy for cell in cells)
    if lowest < _NEARLY_ALWAYS:
        return ""
    return f"Every method is right in at least {lowest:.2f} % of the cases: this metric hardly tells them apart."


def _edges(cells: Sequence[CellSummary]) -> str:
    """Return a remark on the cells whose lambda is mostly at an end of its grid, otherwise an empty string."""
    low = [cell for cell in cells if cell.at_low > 0.5]
    high = [f"{variant_name(c.method, c.tuned)} on {c.data} {c.size}" for c in cells if c.at_high > 0.5]
    parts = []
    if low:
        parts.append(f"the smallest value in {len(low)} of {len(cells)} cells (of equally good ones it is taken)")
    if high:
        parts.append("the largest for " + ", ".join(high))
    return "lambda was mostly chosen at an end of the grid: " + "; ".join(parts) + "." if parts else ""


def _unconverged(cells: Sequence[CellSummary]) -> str:
    stopped, fits = sum(cell.unconverged for cell in cells), sum(cell.n_fits for cell in cells)
    if not stopped:
        return ""
    gap = max(cell.largest_gap for cell in cells)
    return f"{stopped} of {fits:,} fits stopped before they converged; their largest relative duality gap is {gap:.1g}."
