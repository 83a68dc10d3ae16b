"""Markdown tables of the suite."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from .cases import CASES

_HEAD = "| method | seconds | ratio | bound | reads | memory | sweeps | excess | accuracy | loss |"
_NOTES = """\
Made by `python -m benchmarks.speed` from `speed.csv`, which also holds the versions.

- *ratio*: to LinearSVC; among the peers, our methods to the fastest peer with the same model
- *reads*: in units of the time that reading the samples once takes (one thread)
- *memory*: peak during a fit over what was there before, in sizes of the samples; other processes are not in it
  (LinearSVC fits its 45 pairs in such)
- *excess*: objective above that of the same model fitted on to a tolerance of 10⁻⁶, relative to the sum of its terms'
  absolute values
- *accuracy*: on test samples where there are any, otherwise on the training samples
- *loss*: of accuracy against the converged model, in points
"""


def write_tables(rows: list[dict], exponents: dict[tuple[str, str], float], folder: Path) -> None:
    """Write speed.md."""
    parts = ["# Speed and memory", _NOTES]
    for case in dict.fromkeys(row["case"] for row in rows):
        members = [row for row in rows if row["case"] == case]
        parts.append(f"## {case}\n\n" + (_table(members) if case in CASES else _in_turn(members)))
    lines = [f"| {family} | {method} | {exponent:.2f} |" for (family, method), exponent in exponents.items()]
    if lines:
        head = "## growth\n\nTime grows like size to this power (three largest sizes).\n\n| in | method | exponent |"
        parts.append("\n".join([head, "|---|---|---|", *lines]))
    partial = folder / "speed.md.part"
    partial.write_text("\n\n".join(parts) + "\n")
    partial.replace(folder / "speed.md")


def _table(rows: list[dict]) -> str:
    return "\n".join([_HEAD, "|" + "---|" * 10, *(_line(row) for row in rows)])


def _line(row: dict) -> str:
    cells = [
        row["method"],
        f"{row['seconds']:.3g}",
        _cell(row["ratio"], "{:.3g}"),
        _cell(row["bound"], "{:g}"),
        f"{row['read_ratio']:.0f}",
        _cell(row["memory_ratio"], "{:.2f}"),
        f"{row['sweeps']:.0f}" if row["sweeps"] else "–",
        _cell(100 * row["excess"], "{:.2f} %"),
        f"{100 * row['accuracy']:.2f} %",
        _cell(100 * row["accuracy_loss"], "{:.2f}"),
    ]
    return "| " + " | ".join(cells) + " |"


def _in_turn(rows: list[dict]) -> str:
    head = ["| what | seconds | ratio or difference | bound |", "|---|---|---|---|"]
    lines = [f"| {r['method']} | {r['seconds']:.3g} | {r['ratio']:.2f} | {_cell(r['bound'], '{:g}')} |" for r in rows]
    return "\n".join([*head, *lines])


def _cell(number: float, form: str) -> str:
    return form.format(number) if np.isfinite(number) else "–"
