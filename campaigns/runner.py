"""Runs parts of campaigns in processes of their own, and keeps what they found."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock

from campaigns.outcome import Outcome
from campaigns.plan import CAMPAIGNS, Shard

Kept = dict[str, list[Outcome]]


def run_here(name: str, number: int, seed: int, parent: int) -> None:
    """Try the cases of a part in this process, which ends with its parent, and print the outcomes as JSON."""
    from tensormargin.runtime.processes import live_as_long_as

    live_as_long_as(parent)
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is not the reply
    replies.write(json.dumps([outcome.content() for outcome in CAMPAIGNS[name].run(number, seed)]))
    replies.close()


def run_shard(shard: Shard) -> list[Outcome]:
    """Try the cases of a part in a process of its own; one that crashes or hangs is a bad case."""
    command = [sys.executable, "-m", "campaigns", "--shard", *str(shard).split(), str(os.getpid())]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=Path(__file__).parents[1], start_new_session=True
    )
    try:
        out, said = process.communicate(timeout=shard.seconds)
    except subprocess.TimeoutExpired:
        return [_failed(shard, f"took more than {shard.seconds:.0f} s")]
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    if process.returncode:
        return [_failed(shard, f"exit code {process.returncode}: {said.decode(errors='replace')[-400:]}")]
    return [Outcome.of(content) for content in json.loads(out)]


def _failed(shard: Shard, fault: str) -> Outcome:
    outcome = Outcome(shard.campaign.name)
    outcome.add(f"the process of `--shard {shard}`", [fault])
    return outcome


def run_all(
    shards: Iterable[Shard], jobs: int, keep: Path | None = None, done: Callable[[Shard, list[Outcome]], None] = print
) -> list[tuple[Shard, list[Outcome]]]:
    """Return the outcomes of all parts; those that ``keep`` has are not tried again, others are added to it."""
    todo, kept, one_at_a_time = list(shards), read_kept(keep), Lock()

    def one(shard: Shard) -> list[Outcome]:
        if str(shard) in kept:
            return kept[str(shard)]
        found = run_shard(shard)
        if keep is not None:
            line = json.dumps({"shard": str(shard), "outcomes": [outcome.content() for outcome in found]})
            with one_at_a_time, keep.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
        return found

    found, pool = [], ThreadPoolExecutor(jobs)
    try:
        for shard, outcomes in zip(todo, pool.map(one, todo), strict=True):
            done(shard, outcomes)
            found.append((shard, outcomes))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)  # an interruption does not wait for what is running
    return found


def read_kept(path: Path | None) -> Kept:
    """Return the outcomes that a file keeps, by part; a line that was cut short is left out."""
    kept: Kept = {}
    if path is None or not path.exists():
        return kept
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            content = json.loads(line)
        except ValueError:
            continue
        kept[content["shard"]] = [Outcome.of(one) for one in content["outcomes"]]
    return kept


def merged(found: Iterable[tuple[Shard, list[Outcome]]]) -> dict[str, tuple[Outcome, list[Shard]]]:
    """Return one outcome per name, with the parts that it is from."""
    whole: dict[str, tuple[Outcome, list[Shard]]] = {}
    for shard, outcomes in found:
        for outcome in outcomes:
            total, parts = whole.setdefault(outcome.name, (Outcome(outcome.name), []))
            total.merge(outcome)
            parts.append(shard)
    return whole
