"""Fit time and memory of every method, compared in one run.

``TENSORMARGIN_DATA=... python -m benchmarks.speed [--cases mnist volumes ...] [--runs 5] [--out benchmarks/results]``

Each contender is measured in a separate process, on the same data with the same lambda: the median of several fits
after a warm-up, in two rounds through all contenders. The time is given in seconds, as a ratio to LinearSVC (among the
peers: to the fastest peer with the same model), and as a ratio to the time of reading the samples once. The objective
is evaluated by the same function for all methods and compared with that of the same model fitted to convergence. Peak
memory is the increase during a fit. Rows go to a CSV file, a table and two figures. Broken bounds (a ratio, an
exponent, the excess of an objective, memory) are listed, and the exit status is then 1. Cases without data and peers
that are not installed are reported and skipped. The whole benchmark takes about 20 minutes.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from tensormargin.runtime import software_versions

from .cases import CASES, LARGEST_EXCESS, LARGEST_EXPONENT, LARGEST_LOSS, PEERS
from .picture import draw
from .side_by_side import measure_digits, measure_large
from .startup import measure_startup
from .tables import write_tables

ROUNDS = 2
IN_TURN = {"digits": measure_digits, "large": measure_large, "startup": measure_startup}
"""Cases that are measured in one process or round by round, by functions."""
NAMES = [*CASES, *IN_TURN]
FIELDS = (
    "case", "method", "size", "seconds", "spread", "runs", "ratio", "bound", "reference", "read_ratio", "memory_ratio",
    "memory_bytes", "sample_bytes", "sweeps", "objective", "excess", "accuracy", "accuracy_loss", "versions",
)  # fmt: skip


def main() -> None:
    """Run the requested cases, then plot all rows of the CSV file and check their bounds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--cases", nargs="+", metavar="CASE", default=NAMES)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    arguments = parser.parse_args()
    unknown = set(arguments.cases) - set(NAMES)
    if unknown:
        parser.error(f"no case {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    arguments.out.mkdir(parents=True, exist_ok=True)
    table = arguments.out / "speed.csv"
    for case in arguments.cases:
        rows = run_in_turn(case) if case in IN_TURN else run_case(case, arguments.runs)
        store(table, case, rows)
    rows = load(table)
    exponents = growth_exponents(rows)
    write_tables(rows, exponents, arguments.out)
    draw(rows, arguments.out)
    broken = [*broken_bounds(rows), *broken_promises(rows), *broken_exponents(exponents)]
    print("\n" + ("\n".join(broken) if broken else "all bounds hold"))
    sys.exit(bool(broken))


def run_case(name: str, runs: int) -> list[dict]:
    """Measure every contender of a case, print a line for each and return the rows."""
    case = CASES[name]
    if case.needs_data and "TENSORMARGIN_DATA" not in os.environ:
        print(f"\n{name}: left out, TENSORMARGIN_DATA is not set")
        return []
    print(f"\n{name}: {getattr(case.load, 'func', case.load).__doc__}", flush=True)
    print("         method  seconds    ratio  bound    reads  memory  sweeps  objective   excess  accuracy     loss")
    measured: dict[str, dict] = {}
    contenders = list(case.contenders)
    for _ in range(ROUNDS):
        for method in list(contenders):
            result = run_contender(name, method, runs)
            if "failed" in result:
                print(f"{method:>15}  left out: {result['failed']}", flush=True)
                contenders.remove(method)
            else:
                result["times"] += measured[method]["times"] if method in measured else []
                measured[method] = {**result, "seconds": float(np.median(result["times"]))}
    rows = [finished(name, method, measured) for method in measured]
    for row in rows:
        print(line(row), flush=True)
    return rows


def run_contender(case: str, method: str, runs: int) -> dict:
    """Return the measurements of one contender, made in a separate process."""
    command = [sys.executable, "-m", "benchmarks.speed.measure", case, method, str(runs)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode:
        return {"failed": answer.stderr.strip().splitlines()[-1]}
    result = json.loads(answer.stdout.splitlines()[-1])
    return {"failed": f"{result['missing']} is not installed"} if "missing" in result else result


def finished(name: str, method: str, measured: dict[str, dict]) -> dict:
    """Return the row of a measurement, with its ratios to the references."""
    case, result = CASES[name], measured[method]
    references = [r for r in case.references.get(method, case.references.get("", ())) if r in measured]
    reference = min(references, key=lambda r: measured[r]["seconds"], default="")
    return {
        **{field: result[field] for field in result if field in FIELDS},
        "case": name,
        "method": method,
        "size": case.size,
        "spread": float(np.ptp(result["times"])),
        "runs": len(result["times"]),
        "reference": reference,
        "ratio": result["seconds"] / measured[reference]["seconds"] if reference else float("nan"),
        "bound": case.bounds.get(method, float("nan")),
        "read_ratio": result["seconds"] / result["read_seconds"],
        "memory_ratio": result["memory_bytes"] / result["sample_bytes"],
        "excess": (result["objective"] - result["converged_objective"]) / result["converged_scale"],
        "accuracy_loss": result["converged_accuracy"] - result["accuracy"],
        "versions": json.dumps(software_versions()),
    }


def line(row: dict) -> str:
    """Return a row of the printed table."""
    bound = f"{row['bound']:5g}" if np.isfinite(row["bound"]) else "    –"
    return (
        f"{row['method']:>15} {row['seconds']:8.3f} {row['ratio']:8.3f}  {bound} {row['read_ratio']:8.1f}"
        f" {row['memory_ratio']:7.2f} {row['sweeps']:7d} {row['objective']:10.4g} {100 * row['excess']:7.2f}%"
        f" {100 * row['accuracy']:8.2f}% {100 * row['accuracy_loss']:7.2f}%"
    )


def run_in_turn(name: str) -> list[dict]:
    """Return rows of a case that is measured by a function."""
    print(f"\n{name}: {IN_TURN[name].__doc__}")
    rows = []
    for method, (seconds, ratio, bound) in IN_TURN[name]().items():
        print(f"{method:>40} {seconds:8.4f} s  {ratio:6.3f}  bound {bound:g}", flush=True)
        row = dict.fromkeys(FIELDS, float("nan"))
        versions = json.dumps(software_versions())
        measured = {"seconds": seconds, "ratio": ratio, "bound": bound, "versions": versions}
        rows.append({**row, "case": name, "method": method, **measured})
    return rows


def store(table: Path, case: str, rows: list[dict]) -> None:
    """Replace the rows of a case in the CSV file, atomically."""
    if not rows:
        return
    kept = [row for row in load(table) if row["case"] != case] if table.exists() else []
    everything = sorted([*kept, *rows], key=lambda row: NAMES.index(row["case"]))
    partial = table.with_suffix(".part")
    with partial.open("w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        writer.writerows({key: _short(value) for key, value in row.items()} for row in everything)
    partial.replace(table)


def load(table: Path) -> list[dict]:
    """Return the rows of the CSV file, without cases that no longer exist."""
    with table.open(encoding="utf-8", newline="") as file:
        rows = [{key: _number(value) for key, value in row.items()} for row in csv.DictReader(file)]
    return [row for row in rows if row["case"] in NAMES]


def broken_bounds(rows: list[dict]) -> list[str]:
    """Return a line for every ratio above its bound."""
    return [
        f"{row['case']}, {row['method']}: {row['ratio']:.3g} is above the bound of {row['bound']:g}"
        for row in rows
        if row["ratio"] > row["bound"]
    ]


def broken_promises(rows: list[dict]) -> list[str]:
    """Return a line for every fit of ours that stopped too early or takes too much memory."""
    ours = [row for row in rows if row["case"] in CASES and row["method"] not in ("LinearSVC", *PEERS)]
    return [
        f"{row['case']}, {row['method']}: {what} is {row[field]:.3g}, above {bound:.3g}"
        for row in ours
        for what, field, bound in (
            ("the objective's excess", "excess", LARGEST_EXCESS),
            ("the loss of accuracy", "accuracy_loss", LARGEST_LOSS if row["case"] == "mnist" else np.inf),
            ("the peak of memory", "memory_bytes", 1.3 * row["sample_bytes"] + 300e6),
        )
        if row[field] > bound
    ]


def broken_exponents(exponents: dict[tuple[str, str], float]) -> list[str]:
    """Return a line for every exponent above its bound."""
    return [
        f"{family}, {method}: exponent {exponent:.2f} is above {LARGEST_EXPONENT[family]}"
        for (family, method), exponent in exponents.items()
        if exponent > LARGEST_EXPONENT.get(family, np.inf)
    ]


def growth_exponents(rows: list[dict]) -> dict[tuple[str, str], float]:
    """Return the growth exponents of the fit time by family of cases and method."""
    found: dict[tuple[str, str], list[dict]] = {}
    for row in rows:
        family = row["case"].split("-")[0]
        if family in ("samples", "entries", "rank"):
            method = row["method"].split("-")[0] if family == "rank" else row["method"]
            found.setdefault((family, method), []).append(row)
    return {key: _slope(members) for key, members in found.items() if len(members) > 1}


def _slope(rows: list[dict]) -> float:
    """Return the slope of log time against log size over the three largest sizes (the smallest are mostly overhead)."""
    rows = sorted(rows, key=lambda row: row["size"])[-3:]
    sizes, seconds = (np.log([row[key] for row in rows]) for key in ("size", "seconds"))
    return float(np.polyfit(sizes, seconds, 1)[0])


def _short(value: object) -> object:
    return f"{value:.6g}" if isinstance(value, float) else value


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


if __name__ == "__main__":
    main()
