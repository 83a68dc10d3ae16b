"""Tests of progress: the cost of fits, forecasts, and the line that shows them."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from tensormargin import Checkpoint
from tensormargin.cli import _running
from tensormargin.cli._running import Display
from tensormargin.runtime import EqualStages, Forecast, WorkMeter

COSTS = {"SVM": 0.1, "STuM": 2.0, "LMDM": 0.5}


@given(st.lists(st.sampled_from(sorted(COSTS)), min_size=1, max_size=30))
def test_the_work_left_follows_from_the_cost_of_each_kind(order):
    fits = {kind: order.count(kind) + 3 for kind in COSTS}
    meter = WorkMeter({**fits, "nothing to do": 0})
    for kind in order:
        meter.add(kind, 1, COSTS[kind])
    done, total = meter.seconds
    assert (meter.done, meter.fits) == (len(order), sum(fits.values()))
    assert done == pytest.approx(sum(COSTS[kind] for kind in order))
    expected = sum(COSTS[kind] * number for kind, number in fits.items())
    assert total == (pytest.approx(expected) if set(order) == set(COSTS) else 0.0)


def test_the_time_left_is_what_is_missing_or_follows_from_the_pace():
    told = Forecast(in_seconds=True)
    assert told.left(0.0) is None
    told.report(1.0, 2.0, 0.0)  # the total is not known yet
    assert (told.left(1.0), told.share(1.0)) == (None, 0.0)
    told.report(1.5, 2.0, 10.0)
    assert (told.left(1.5), told.left(4.5), told.left(99.0)) == (8.0, 5.0, 0.0)
    paced = Forecast()
    paced.report(0.0, 30, 100)  # from an earlier run
    assert paced.left(0.0) is None
    paced.report(5.0, 40, 100)
    assert paced.left(5.0) == pytest.approx(30.0)
    assert paced.share(5.0) == pytest.approx(0.4)


def test_a_forecast_waits_for_a_second_of_work_and_knows_what_comes_afterwards():
    told = Forecast()
    told.afterwards = 6.0
    told.report(100.0, 1, 100)
    told.report(100.5, 2, 100)
    assert told.left(100.5) is None  # the first fits say little about the others
    told.report(101.0, 5, 100)
    assert told.left(101.0) == pytest.approx(95 / 4 + 6)
    told.report(125.0, 100, 100)
    assert (told.left(125.0), told.left(129.0), told.left(140.0)) == (6.0, 2.0, 0.0)


reports = st.lists(st.tuples(st.floats(0.01, 50), st.floats(0, 20), st.floats(0.5, 2)), min_size=1, max_size=20)


@given(reports, st.booleans())
def test_the_share_goes_on_and_never_falls(steps, in_seconds):
    """It stays below 1 until everything is done, and gets ahead of the work by at most a mean step."""
    told, now, done, total, shown = Forecast(in_seconds), 0.0, 0.0, 100.0, 0.0
    told.report(now, done, total)
    for wait, work, factor in steps:
        for part in (0.25, 0.5, 1.0):
            share = told.share(now + part * wait)
            assert shown <= share < 1
            shown = share
        now, done = now + wait, min(done + work, 0.9 * total)
        total = max(total * factor, done / 0.9)
        told.report(now, done, total)
    told.report(now + 1, total, total)
    assert told.share(now + 1) == 1.0


def test_the_share_goes_on_while_a_long_fit_runs():
    told = Forecast()
    for second in range(5):
        told.report(float(second), second, 100)
    shares = [told.share(4 + 0.5 * step) for step in range(5)]
    assert all(first < second for first, second in pairwise(shares))
    assert shares[-1] < 0.05 + 1e-9


def test_what_a_stage_does_not_report_is_learnt_from_the_earlier_ones(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("tensormargin.runtime.progress.perf_counter", lambda: now[0])
    calls = []
    stages = EqualStages(lambda *call: calls.append(call), 3)
    for stage in range(3):
        show = stages.begin(stage, f"fold {stage + 1}")
        for part in (1, 2):
            now[0] += 3
            show(part, 2, f"{part} of 2")
        now[0] += 2  # a quarter of the stage
        stages.end()
    assert [done for done, _, _ in calls] == pytest.approx([0.5, 1, 1, 1.375, 1.75, 2, 2.375, 2.75, 3])
    assert calls[3:6] == [(1.375, 3, "fold 2, 1 of 2"), (1.75, 3, "fold 2, 2 of 2"), (2, 3, "fold 2")]
    expecting = EqualStages(lambda *call: calls.append(call), 4, expected=0.6)
    expecting.begin(0, "fold 1")(1, 2, "1 of 2")
    assert calls[-1][:2] == (pytest.approx(0.3), 4)
    silent = EqualStages(None, 2)
    assert silent.begin(0, "one") is None
    silent.end()


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(_running.time, "monotonic", lambda: now[0])
    return now


@pytest.mark.parametrize("width", [40, 60, 80, 100, 200])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_percentage_and_times_are_there_at_any_width(width, encoding, clock, monkeypatch):
    monkeypatch.setattr(Console, "encoding", encoding)
    display = Display(in_seconds=True)
    display.console.width = width
    assert "0%  0:00  starting" in display.__rich__().plain
    display(0, 400, "nothing")
    clock[0] += 100
    display(100, 400, "evaluation: outer fold 2 of 5, 123 of 1600 fits, a very long name " * 3)
    for later, left in ((0, "5 min left"), (0.5, "5 min left"), (250, "50 s left"), (900, "0 s left")):
        clock[0] = 200 + later
        line = display.__rich__().plain
        assert len(line) < width
        assert "%" in line
        assert f"{(100 + int(later)) // 60}:{(100 + int(later)) % 60:02d}  {left}  " in line
        if width >= 60:
            assert "outer fold 2" in line
            assert ("━" in line) == (encoding == "utf-8")


def test_without_a_terminal_there_is_a_line_now_and_then(clock, capsys):
    display = Display(in_seconds=True)
    for second in range(100):
        clock[0] += 1
        display(second, 0 if second < 3 else 100, f"{second} of 100 fits")
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "  3%  2 min left  3 of 100 fits",  # as soon as the time is known
        " 33%  67 s left  33 of 100 fits",
        " 63%  37 s left  63 of 100 fits",
        " 93%  7 s left  93 of 100 fits",
    ]


def test_what_was_kept_is_said_first(clock, capsys, tmp_path):
    display = Display(in_seconds=False)
    assert display.when_stopped() == "Stopped."
    display.checkpoint = Checkpoint(tmp_path)
    display.checkpoint.resumed = True
    display(3, 5, "3 of 5 outer folds")
    assert capsys.readouterr().err == "From an earlier run: 3 of 5 outer folds\n"
    assert display.when_stopped() == "Stopped at 60% (3 of 5 outer folds)."
    display.kept = True
    assert display.when_stopped() == "Stopped at 60% (3 of 5 outer folds); run the same command again to go on."
    display(4, 5, "4 of 5 outer folds")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.2, "0 s left"), (89, "89 s left"), (600, "10 min left"), (9000, "2.5 h left")]
)
def test_times_are_said_in_their_unit(seconds, said):
    assert _running._time_left(seconds) == said


def test_the_clock():
    assert [_running._clock(seconds) for seconds in (0, 61.9, 3725)] == ["0:00", "1:01", "1:02:05"]
