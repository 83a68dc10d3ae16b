"""``python -m campaigns``: all campaigns, what was tried, clean and bad; exit code 1 if something was bad."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from campaigns.outcome import Outcome
from campaigns.page import PAGE, reliability_page
from campaigns.plan import CAMPAIGNS, FIGURES, Shard, shards
from campaigns.runner import merged, run_all, run_here


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    """Return the options of the command."""
    parser = argparse.ArgumentParser("python -m campaigns", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few cases of each, for CI: at most two minutes")
    parser.add_argument("--only", nargs="+", metavar="NAME", help=f"some of {', '.join(CAMPAIGNS)}")
    parser.add_argument("--seed", type=int, default=0, help="first seed (default: 0)")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes, one per seed (default: 1)")
    for name, number in FIGURES.items():
        parser.add_argument(f"--{name}", type=int, default=number, metavar="N", help=f"cases (default: {number:,})")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="keep finished parts here, and do not try them again")
    parser.add_argument("--page", action="store_true", help=f"write {PAGE.parent.name}/{PAGE.name}")
    parser.add_argument("--shard", nargs=4, metavar=("NAME", "NUMBER", "SEED", "PARENT"), help=argparse.SUPPRESS)
    options = parser.parse_args(given)
    unknown = sorted(set(options.only or ()) - set(CAMPAIGNS))
    if unknown:
        parser.error(f"--only takes names of campaigns; got {', '.join(unknown)}. Use some of {', '.join(CAMPAIGNS)}")
    for name in ("jobs", "seed", *FIGURES):
        least = 1 if name == "jobs" else 0
        if getattr(options, name) < least:
            parser.error(f"--{name} must be at least {least}; got {getattr(options, name)}")
    return options


def main(given: list[str] | None = None) -> int:
    """Run the command; return its exit code."""
    options = arguments(given)
    if options.shard:
        name, *numbers = options.shard
        run_here(name, *map(int, numbers))
        return 0
    began = time.monotonic()

    def say(shard: Shard, outcomes: list[Outcome]) -> None:
        bad = sum(outcome.bad for outcome in outcomes)
        print(f"[{time.monotonic() - began:5.0f} s] {shard}: {bad} bad", file=sys.stderr, flush=True)

    cases = {name: getattr(options, name) for name in FIGURES}
    todo = shards(cases, options.only or list(CAMPAIGNS), options.seed, options.quick)
    try:
        whole = merged(run_all(todo, options.jobs, options.keep, say))
    except KeyboardInterrupt:
        print("Stopped" + ("; the same command goes on." if options.keep else "."), file=sys.stderr, flush=True)
        os._exit(130)  # without waiting for the parts, whose processes end with this one
    for outcome, _ in whole.values():
        print(outcome)
    if options.page:
        from tensormargin.io import replacing

        with replacing(PAGE) as path:
            path.write_text(reliability_page(whole), encoding="utf-8")
    return int(any(outcome.bad for outcome, _ in whole.values()))


if __name__ == "__main__":
    sys.exit(main())
