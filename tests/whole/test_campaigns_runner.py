"""Tests of `python -m campaigns`: parts, processes, what is kept, the page, and the exit code."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from campaigns import __main__ as command
from campaigns import runner
from campaigns.outcome import EXAMPLES, Outcome
from campaigns.page import PAGE, reliability_page
from campaigns.plan import CAMPAIGNS, FIGURES, Shard, shards
from hypothesis import given
from hypothesis import strategies as st


def outcome(name, tried, bad, **parts):
    made = Outcome(name, **parts)
    for case in range(tried):
        made.add(f"case {case}", ["wrong"] * (case < bad))
    return made


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=5))
def test_merging_adds_up_and_survives_json(parts):
    whole = Outcome("all")
    for tried, bad in parts:
        one = outcome("all", tried, bad)
        one.counts["refused"] += bad
        one.largest["deviation"] = tried / 7
        one.note("no browser")
        whole.merge(Outcome.of(json.loads(json.dumps(one.content()))))
    assert whole.tried == sum(tried for tried, _ in parts)
    assert whole.bad == sum(min(pair) for pair in parts)
    assert whole.clean == whole.tried - whole.bad
    assert len(whole.examples) == min(EXAMPLES, whole.bad)
    assert whole.counts["refused"] == sum(bad for _, bad in parts)
    assert whole.largest.get("deviation", 0) == max((tried / 7 for tried, _ in parts), default=0)
    assert whole.notes == ["no browser"] * bool(parts)


@given(st.integers(0, 5000), st.integers(0, 9), st.sampled_from(sorted(CAMPAIGNS)))
def test_parts_have_all_cases_and_a_seed_each(number, seed, name):
    campaign = CAMPAIGNS[name]
    parts = list(shards(dict.fromkeys(FIGURES, number), [name], seed, quick=False))
    wanted = round(campaign.share * number)
    if campaign.per_process:
        assert sum(part.number for part in parts) == wanted
        assert max((part.number for part in parts), default=0) <= campaign.per_process
        assert [part.seed for part in parts] == list(range(seed, seed + len(parts)))
    else:
        assert len(parts) == bool(wanted)


def test_the_figures_of_the_plan():
    parts = list(shards(FIGURES, list(CAMPAIGNS), 0, quick=False))
    tried = dict.fromkeys(FIGURES, 0)
    for part in parts:
        tried[part.campaign.option] += part.number
    assert all(tried[option] >= number for option, number in FIGURES.items())
    quick = list(shards(FIGURES, list(CAMPAIGNS), 0, quick=True))
    assert len({part.campaign.name for part in quick}) == len(quick)
    for campaign in CAMPAIGNS.values():
        module, function = campaign.function.split(":")
        assert f"def {function}(number: int" in (PAGE.parents[1] / "campaigns" / f"{module}.py").read_text()


def test_a_process_that_dies_or_hangs_is_bad(monkeypatch):
    unknown = replace(CAMPAIGNS["problems"], name="none")
    (died,) = runner.run_shard(Shard(unknown, 1, 0))
    assert (died.bad, died.tried) == (1, 1)
    assert "exit code 1" in str(died)
    monkeypatch.setattr(Shard, "seconds", 0.01)
    (hung,) = runner.run_shard(Shard(unknown, 1, 0))
    assert "took more than 0 s" in str(hung)


@pytest.fixture
def tried(monkeypatch):
    """Replace the processes by a function; return the list of parts that were tried."""
    seen = []

    def run_shard(shard):
        seen.append(str(shard))
        return [outcome(f"{shard.campaign.name}: a", shard.number, int(shard.seed == 13))]

    monkeypatch.setattr(runner, "run_shard", run_shard)
    return seen


def test_finished_parts_are_kept(tried, tmp_path):
    keep = tmp_path / "kept.jsonl"
    parts = list(shards({**FIGURES, "problems": 1100}, ["problems"], 0, quick=False))
    first = runner.merged(runner.run_all(parts[:2], 2, keep))
    assert first["problems: a"][0].tried == 1000
    with keep.open("a") as file:
        file.write('{"shard": "problems 100')  # cut short
    whole = runner.merged(runner.run_all(parts, 2, keep))
    assert whole["problems: a"][0].tried == 1100
    assert sorted(tried) == sorted(map(str, parts))


@pytest.mark.parametrize(("seed", "code"), [(0, 0), (13, 1)])
def test_the_command_says_what_was_bad(seed, code, tried, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(command, "PAGE", tmp_path / "page.md")
    assert command.main(["--only", "problems", "modes", "--problems", "20", "--seed", str(seed), "--page"]) == code
    said = capsys.readouterr().out
    assert f"problems: a: 20 tried, {20 - code} clean, {code} bad" in said
    assert ("bad: case 0: wrong" in said) == bool(code)
    page = (tmp_path / "page.md").read_text()
    assert f"| problems: a | {seed} | 20 | {20 - code} | {code} | |" in page.replace("  ", " ")
    assert f"| **all** | | **22** | **{22 - 2 * code}** | **{2 * code}** | |" in page


@pytest.mark.parametrize("wrong", [["--only", "nothing"], ["--jobs", "0"], ["--files", "-1"]], ids=" ".join)
def test_options_are_checked_first(wrong, capsys):
    with pytest.raises(SystemExit, match="2"):
        command.main(wrong)
    assert wrong[-1] in capsys.readouterr().err


def test_the_page_is_complete_and_nothing_is_bad():
    text = PAGE.read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([^*|]+) \| [^|]+ \| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \| [^|]*\|$", text, flags=re.M)
    assert rows
    assert all((tried, bad) == (clean, "0") for _, tried, clean, bad in rows)
    parts = [(Shard(campaign, 1, 0), [outcome(name, 1, 0)]) for name, campaign in CAMPAIGNS.items()]
    empty = reliability_page(runner.merged(parts))
    assert text.split("| campaign")[0] == empty.split("| campaign")[0]
    for campaign in CAMPAIGNS.values():
        assert f": {campaign.clean}." in " ".join(text.split()) or not campaign.quick
