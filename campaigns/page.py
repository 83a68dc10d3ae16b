"""Writes docs/reliability.md."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from textwrap import fill

from campaigns.outcome import Outcome
from campaigns.plan import Shard

PAGE = Path(__file__).parents[1] / "docs" / "reliability.md"
WIDTH = 120
PACKAGES = (
    "tensormargin", "numpy", "scipy", "scikit-learn", "joblib", "pillow", "h5py", "zarr", "nibabel",
    "distributed", "selenium",
)  # fmt: skip
INTRODUCTION = """# Reliability

`python -m campaigns --page` wrote this page. Campaigns test what the library must withstand: damaged and crafted
files, changed models, random problems, signals, full and read-only disks, killed workers, labels that are scripts; and
they simulate how often intervals cover the true value. All cases are drawn from seeds, so that each can be made
again: `python -m campaigns --only problems --seed 3` begins with seed 3. [security.md](security.md) says what files can
and cannot do, CONTRIBUTING.md how campaigns are run.

A case is clean or bad, and nothing else; a process that crashes or hangs is bad. Remarks are not failures: a format
without a checksum cannot reveal changed values.

"""


def reliability_page(whole: Mapping[str, tuple[Outcome, list[Shard]]]) -> str:
    """Return the page about all outcomes."""
    rows = ["| campaign | seeds | tried | clean | bad | remarks |", "|---|---|---:|---:|---:|---|"]
    for name, (outcome, parts) in whole.items():
        numbers = f"{outcome.tried:,} | {outcome.clean:,} | {outcome.bad:,}"
        rows.append(f"| {name} | {_seeds(parts)} | {numbers} | {'; '.join(outcome.remarks())} |")
    totals = [sum(getattr(outcome, part) for outcome, _ in whole.values()) for part in ("tried", "clean", "bad")]
    rows.append("| **all** | | " + " | ".join(f"**{total:,}**" for total in totals) + " | |")
    return INTRODUCTION + "\n".join([*rows, "", *_clean(whole), "", *_versions(), ""])


def _seeds(parts: list[Shard]) -> str:
    seeds = sorted({part.seed for part in parts if part.campaign.per_process})
    if not seeds:
        return "none"
    return str(seeds[0]) if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"


def _clean(whole: Mapping[str, tuple[Outcome, list[Shard]]]) -> list[str]:
    """Return what is clean, once per campaign."""
    campaigns = {part.campaign: name.partition(":")[0] for name, (_, parts) in whole.items() for part in parts}
    lines = [fill(f"- **{name}**: {one.clean}.", WIDTH, subsequent_indent="  ") for one, name in campaigns.items()]
    return ["## What is clean", "", *lines]


def _versions() -> list[str]:
    found = []
    for name in PACKAGES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    system = f"{platform.system()} on {platform.machine()}, Python {platform.python_version()}"
    return ["## Versions", "", fill(f"{system}; {', '.join(found)}.", WIDTH)]
