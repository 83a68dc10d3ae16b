"""Tests of the field benchmark: statistics, rows, resuming, tasks and contenders. None of them runs the benchmark."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from benchmarks.field import __main__ as command
from benchmarks.field import contenders, page, run, shipped, structure, tasks
from benchmarks.field.__main__ import PAGE, README, RESULTS, chosen, counts
from benchmarks.field.contenders import METHODS, OURS, REFERENCE, UnsuitableError, fitted
from benchmarks.field.picture import plot_ranks
from benchmarks.field.pooling import pooled
from benchmarks.field.rows import DONE, SLOW, UNSUITABLE, Row, RowFile, as_hits, n_splits, stopped
from benchmarks.field.statistics import (
    all_pairs,
    average_ranks,
    bounds,
    difference,
    hindsight,
    joined,
    signed_rank,
    table_of,
)
from benchmarks.field.tasks import AT_HAND, OFFICIAL, ONE_OUT, TASKS, Task, loaded, named, with_few
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import rankdata, wilcoxon
from sklearn.utils import Bunch

from tensormargin.evaluation import corrected_error
from tensormargin.io import BadFileError

NAN, TIMES, DASH = float("nan"), "\N{MULTIPLICATION SIGN}", "\N{EN DASH}"


def row(task="ering", method=OURS, right=(1, 1, 0, 1), repeat=0, fold=0, n_folds=1, status=DONE, seconds=1.0):
    right = np.array(right)
    accuracy = float(right.mean()) if status == DONE else NAN
    return Row(
        **{"task": task, "repeat": repeat, "fold": fold, "method": method, "seed": 0, "status": status},
        **{"samples": "8 2 3", "classes": 2, "n_folds": n_folds, "n_train": 4, "n_test": len(right)},
        **{"accuracy": accuracy, "balanced_accuracy": accuracy, "seconds": seconds, "processor_seconds": 1.0},
        **{"log_loss": 0.5, "calibration_error": 0.25, "versions": "{}"},
        **{"chosen": '{"C": 1.0, "said": "a, \\"b\\"\\nc"}', "hits": as_hits(right) if status == DONE else ""},
    )


def table(accuracies, methods=(OURS, REFERENCE, "MiniRocket")):
    """Return a table of tasks with 100 test samples; None is an unsuitable method."""
    names = list(TASKS)[: len(accuracies)]
    rows = [
        row(name, method, np.arange(100) < 100 * (value or 0), status=UNSUITABLE if value is None else DONE)
        for name, values in zip(names, accuracies, strict=True)
        for method, value in zip(methods, values, strict=True)
    ]
    return table_of(rows, dict.fromkeys(names, 1), methods)


class TestRanks:
    def test_ties_share_ranks_and_missing_results_come_last(self):
        accuracy = np.array([[0.9, 0.8, NAN], [0.5, 0.5, 0.7], [NAN, NAN, 0.4]])
        assert average_ranks(accuracy) == pytest.approx([2.0, 7 / 3, 5 / 3])

    @given(arrays(float, (5, 4), elements=st.sampled_from([0.1, 0.5, 0.7, NAN])))
    def test_ranks_add_up(self, accuracy):
        assert average_ranks(accuracy).sum() == pytest.approx(4 * 5 / 2)

    @given(arrays(float, (5, 4), elements=st.floats(0, 1)))
    def test_without_missing_results_they_are_scipys(self, accuracy):
        assert average_ranks(accuracy) == pytest.approx(np.mean([rankdata(-values) for values in accuracy], axis=0))


class TestHindsight:
    def test_the_best_of_each_task_is_found_and_measured_on_other_samples(self):
        one = hindsight(table([[0.5, 1.0, 0.2], [0.5, 0.2, 1.0]]))
        assert (one.rank, one.near, one.own_rank, one.own_near) == (1.0, 1.0, 2.0, 0.0)
        assert one.lead == pytest.approx(-50, abs=1)

    def test_luck_in_one_half_is_none_in_the_other(self):
        """Of five methods that are right by chance, whatever is chosen is right on half of the unseen samples."""
        rng, methods = np.random.default_rng(0), (OURS, *METHODS[:5])
        names = list(TASKS)
        rows = [row(name, method, rng.random(20) < 0.5) for name in names for method in methods]
        one = hindsight(table_of(rows, dict.fromkeys(names, 1), methods))
        assert one.lead == pytest.approx(0, abs=6)
        assert 2.5 < one.rank < 3.8

    def test_there_must_be_ours_and_two_others(self):
        assert hindsight(table([[0.5, 0.6]], methods=(OURS, REFERENCE))) is None
        assert hindsight(table([[0.5, 0.6, 0.7]], methods=(REFERENCE, "MiniRocket", "QUANT"))) is None


class TestSignedRanks:
    def test_only_tasks_that_both_have_finished_count(self):
        rng = np.random.default_rng(0)
        ours, theirs = rng.random((2, 12))
        expected = wilcoxon(ours[2:], theirs[2:]).pvalue
        ours[0], theirs[1] = NAN, NAN
        assert signed_rank(ours, theirs) == pytest.approx(expected)
        assert signed_rank(theirs, ours) == pytest.approx(expected)

    def test_ties_are_those_of_scipy(self):
        ours, theirs = np.array([[0.9, 0.8, 0.5, 0.7, 0.3, 0.6], [0.8, 0.7, 0.5, 0.5, 0.6, 0.2]])
        expected = wilcoxon([1, 1, 2, -3, 4], method="approx").pvalue
        assert signed_rank(ours, theirs) == pytest.approx(expected)

    def test_equal_methods_do_not_differ(self):
        assert signed_rank(np.full(5, 0.5), np.full(5, 0.5)) == 1.0
        assert signed_rank(np.full(5, NAN), np.full(5, 0.5)) == 1.0

    def test_all_pairs_are_corrected_together(self):
        accuracy = np.random.default_rng(1).random((15, 4)) + np.array([0, 0.1, 0.4, 0.8])
        raw, corrected = all_pairs(accuracy)
        pairs = sorted(combinations(range(4), 2), key=lambda pair: raw[pair])
        largest = 0.0
        for step, pair in enumerate(pairs):  # Holm's method as it is written
            assert raw[pair] == pytest.approx(wilcoxon(*accuracy[:, pair].T, method="exact").pvalue)
            largest = max(largest, min(1.0, (len(pairs) - step) * raw[pair]))
            assert corrected[pair] == corrected[pair[::-1]] == pytest.approx(largest)


class TestGroupsOfThePlot:
    def test_groups_may_overlap(self):
        p_values = np.full((4, 4), 0.5)
        for pair in ((0, 2), (0, 3), (1, 3)):
            p_values[pair] = p_values[pair[::-1]] = 0.01
        assert joined(np.array([1.0, 2.0, 3.0, 4.0]), p_values) == [(0, 1), (1, 2), (2, 3)]

    def test_columns_are_in_the_order_of_ranks(self):
        p_values = np.array([[1, 0.01, 0.3], [0.01, 1, 0.01], [0.3, 0.01, 1]])
        assert joined(np.array([2.5, 1.0, 2.0]), p_values) == [(2, 0)]
        assert joined(np.array([2.5, 1.0, 2.0]), np.ones((3, 3))) == [(1, 2, 0)]
        assert joined(np.array([2.5, 1.0, 2.0]), np.zeros((3, 3))) == []

    @given(arrays(float, (6, 6), elements=st.sampled_from([0.01, 0.9])))
    def test_they_are_the_longest_runs_without_a_significant_pair(self, p_values):
        p_values = np.minimum(p_values, p_values.T)

        def equal(start, end):
            return all(p_values[pair] > 0.05 for pair in combinations(range(start, end), 2))

        runs = [(start, end) for start, end in combinations(range(7), 2) if end - start > 1 and equal(start, end)]
        longest = [
            one for one in runs if not any(other != one and other[0] <= one[0] and one[1] <= other[1] for other in runs)
        ]
        assert joined(np.arange(6.0), p_values) == [tuple(range(*one)) for one in longest]

    def test_the_plot_has_every_name_once_and_a_bar_per_group(self):
        import matplotlib.pyplot as plt

        ax = plot_ranks(["a_$", "b", "c"], [1.5, 2.5, 2.0], [(0, 2), (2, 1)], "b")
        texts = [text.get_text() for text in ax.texts]
        assert [sum(f" {name} " in f" {text} " for text in texts) for name in ("a_$", "b", "c")] == [1, 1, 1]
        assert sum(collection.get_linewidth()[0] == 4 for collection in ax.collections) == 2
        ax.figure.canvas.draw()
        plt.close(ax.figure)


class TestBounds:
    GOOD = ((0.95, 0.80, 0.90), (0.90, 0.70, None), (0.80, 0.78, 0.75), (0.99, 0.60, 0.90)) * 4

    def held(self, accuracies):
        return [bound.holds for bound in bounds(table(accuracies))]

    def test_all_hold_for_a_method_that_leads_everywhere(self):
        assert self.held(self.GOOD) == [True] * 5

    def test_each_can_be_missed(self):
        swapped = tuple((theirs, second, ours) if theirs else (0.5, second, 0.9) for ours, second, theirs in self.GOOD)
        assert self.held(swapped)[:3] == [False, False, False]
        as_flat = tuple((flat, flat, other) for _, flat, other in self.GOOD)
        assert self.held(as_flat)[3] is False
        assert self.held(as_flat)[4] is True
        one_worse = (*self.GOOD[:-1], (0.50, 0.60, 0.50))
        assert self.held(one_worse) == [True, True, True, True, False]

    def test_means_are_over_the_tasks_that_both_have_finished(self):
        found = bounds(table([(0.9, 0.5, None), (0.5, 0.4, 0.48), (0.6, 0.5, 0.58)]))[1]
        assert not found.holds
        assert found.found == "+2.0 points against MiniRocket"

    def test_no_result_of_ours_is_behind_everything(self):
        found = bounds(table([(None, 0.5, 0.6), (0.9, 0.5, 0.6)]))
        assert [bound.holds for bound in found][2:] == [False, False, False]
        assert "has no result" in found[4].found

    def test_there_are_none_without_ours(self):
        assert bounds(table([(0.9, 0.8)] * 3, (REFERENCE, "MiniRocket"))) == []

    def test_the_error_over_splits_is_corrected_and_that_of_one_split_is_paired(self):
        rng = np.random.default_rng(0)
        rights = rng.integers(0, 2, (2, 3, 20))
        rows = [
            row("muse_ssvep", method, right, fold=fold, n_folds=3)
            for method, own in zip((OURS, REFERENCE), rights, strict=True)
            for fold, right in enumerate(own)
        ]
        by_split = rights[0].mean(axis=1) - rights[1].mean(axis=1)
        found = table_of(rows, {"muse_ssvep": 3}, (OURS, REFERENCE))
        assert difference(found, "muse_ssvep", OURS, REFERENCE) == pytest.approx(
            (by_split.mean(), corrected_error(by_split, 20 / 4))
        )
        single = table([(0.9, 0.6, 0.5)] * 2)
        value, error = difference(single, single.tasks[0], OURS, REFERENCE)
        assert value == pytest.approx(0.3)
        assert error == pytest.approx(np.sqrt((0.3 - 0.3**2) / 100), rel=0.1)  # 30 of 100 pairs differ


class TestTable:
    def test_tasks_wait_until_all_methods_are_finished(self):
        rows = [row("ering", OURS), row("ering", REFERENCE), row("libras", OURS)]
        rows += [row("muse_ssvep", OURS, fold=fold, n_folds=4) for fold in range(4)]
        rows += [row("muse_ssvep", REFERENCE, status=SLOW, n_folds=4)]
        found = table_of(rows, {"ering": 1, "libras": 1, "muse_ssvep": 4}, (OURS, REFERENCE))
        assert found.tasks == ["ering", "muse_ssvep"]
        assert found.status.tolist() == [[DONE, DONE], [DONE, SLOW]]
        assert np.isnan(found.column(REFERENCE)[1])

    def test_accuracy_is_that_of_all_test_samples_together(self):
        rows = [row(right=(1, 0), n_folds=2), row(right=(1, 1, 1, 1, 1, 0), fold=1, n_folds=2)]
        assert table_of(rows, {"ering": 2}, (OURS,)).accuracy[0, 0] == pytest.approx(6 / 8)

    def test_the_number_of_splits_comes_from_the_rows(self):
        rows = [row("ering"), row("muse_ssvep", n_folds=4), row("muse_ssvep", n_folds=3, repeat=1)]
        assert n_splits(rows, {"ering": 1, "muse_ssvep": 2}) == {"ering": 1, "muse_ssvep": 7}
        assert n_splits(rows[:2], {"ering": 1, "muse_ssvep": 3}) == {"ering": 1, "muse_ssvep": 12}


class TestRows:
    def test_rows_survive_the_file(self, tmp_path):
        store = RowFile(tmp_path / "new" / "rows.csv")
        assert store.read() == []
        rows = [row(right=np.arange(13) % 3 == 0), row(method=REFERENCE), row(method="RBF SVC")]
        for one in rows:
            store.add(one)
        assert store.read() == sorted(rows, key=lambda one: one.key)
        assert np.array_equal(store.read()[-1].right, np.arange(13) % 3 == 0)

    def test_the_last_of_two_rows_counts(self, tmp_path):
        store = RowFile(tmp_path / "rows.csv")
        for right in ((0, 0), (1, 1)):
            store.add(row(right=right))
        assert [one.accuracy for one in store.read()] == [1.0]
        assert len(store.path.read_text().splitlines()) > len(RowFile(store.path).compact())
        assert [one.accuracy for one in store.read()] == [1.0]

    @pytest.mark.parametrize("cut", [1, 5, 60])
    def test_the_incomplete_line_of_a_killed_process_is_ignored(self, cut, tmp_path):
        store = RowFile(tmp_path / "rows.csv")
        store.add(row())
        store.add(row(method=REFERENCE))
        store.path.write_bytes(store.path.read_bytes()[:-cut])
        assert [one.method for one in store.read()] == [OURS]
        store.add(row(method="RBF SVC"))
        assert {one.method for one in store.read()} == {OURS, "RBF SVC"}

    def test_rows_from_before_there_were_probabilities(self, tmp_path):
        store = RowFile(tmp_path / "rows.csv")
        store.add(row())
        lines = store.path.read_text().splitlines(keepends=True)
        with_nan = [line.replace(",0.5,0.25", "").replace(",log_loss,calibration_error", "") for line in lines]
        store.path.write_text("".join(with_nan))
        (old,) = store.read()
        assert np.isnan([old.log_loss, old.calibration_error]).all()
        store.add(row(method=REFERENCE))  # also adds the columns to the file
        found = {one.method: one.log_loss for one in store.read()}
        assert found[REFERENCE] == 0.5
        assert np.isnan(found[OURS])

    def test_a_damaged_file_is_named(self, tmp_path):
        path = tmp_path / "rows.csv"
        path.write_text("task,method\nering,ours\n")
        with pytest.raises(BadFileError, match=r"rows\.csv.*not a row"):
            RowFile(path).read()


class TestResuming:
    JOBS = tuple(run.Job(task, method, 0, 0, fold, 1) for task in "ab" for fold in range(2) for method in "xy")

    @pytest.fixture
    def ran(self, monkeypatch):
        """Provide the jobs that are run; "x" is slow on "a" below 10 seconds, and "y" raises on "b"."""
        found = []

        def limited(job, limit):
            found.append(job)
            if (job.task, job.method) == ("b", "y"):
                return "ValueError: no"
            slow = (job.task, job.method) == ("a", "x") and limit < 10
            return row(job.task, job.method, fold=job.fold, n_folds=2, status=SLOW if slow else DONE, seconds=limit)

        monkeypatch.setattr(run, "limited", limited)
        return found

    def test_finished_rows_are_not_computed_again(self, ran, tmp_path):
        store = RowFile(tmp_path / "rows.csv")
        first = list(run.go(self.JOBS, store, 1, 5.0))
        assert len(ran) == 7  # the second split of a, x is skipped
        assert sum(isinstance(one, str) for one in first) == 2
        ran.clear()
        list(run.go(self.JOBS, store, 1, 5.0))
        assert {(job.task, job.method) for job in ran} == {("b", "y")}  # errors are tried again

    def test_a_longer_limit_tries_slow_methods_again(self, ran, tmp_path):
        store = RowFile(tmp_path / "rows.csv")
        list(run.go(self.JOBS, store, 1, 5.0))
        ran.clear()
        list(run.go(self.JOBS, store, 2, 20.0))
        assert {(job.task, job.method, job.fold) for job in ran if job.task == "a"} == {("a", "x", 0), ("a", "x", 1)}
        assert all(one.status == DONE for one in store.read())

    def test_an_interrupted_run_goes_on(self, ran, tmp_path):
        store = RowFile(tmp_path / "rows.csv")
        started = run.go(self.JOBS, store, 1, 20.0)
        for _ in range(3):
            next(started)
        started.close()
        ran.clear()
        list(run.go(self.JOBS, store, 1, 20.0))
        assert len(ran) == len(self.JOBS) - 3

    def test_rows_can_be_computed_again(self, ran, tmp_path):
        store = RowFile(tmp_path / "rows.csv")
        list(run.go(self.JOBS, store, 1, 20.0))
        n_rows = len(store.read())
        ran.clear()
        list(run.go(self.JOBS, store, 1, 20.0, redo=True))
        assert len(ran) == len(self.JOBS)
        assert len(store.read()) == n_rows

    def test_unsuitable_methods_are_never_run_again(self):
        rows = [row("a", "x", status=UNSUITABLE), row("a", "y", status=SLOW, seconds=5.0)]
        assert stopped(rows, 5.0) == {("a", "x"), ("a", "y")}
        assert stopped(rows, 6.0) == {("a", "x")}

    def test_a_process_is_ended_when_its_time_is_up(self):
        job = run.Job("basic_motions", REFERENCE, 0, 0, 0, 1)
        found = run.limited(job, 1e-3)
        assert (found.status, found.seconds, found.n_test) == (SLOW, 1e-3, 40)

    def test_methods_warm_up_before_they_are_timed(self, monkeypatch):
        """With few samples of each class; whatever goes wrong then may go well with all."""
        job, done = run.Job("basic_motions", REFERENCE, 0, 0, 0, 1), []

        def fit(method, task, X, y, groups, seed):
            done.append(np.bincount(np.unique(y, return_inverse=True)[1]).tolist())
            raise ValueError("too few")

        monkeypatch.setattr(run, "fitted", fit)
        monkeypatch.setattr(run, "result", lambda job: done.append("timed"))
        monkeypatch.setattr(run.signal, "setitimer", lambda *limits: None)
        monkeypatch.setattr(run.signal, "signal", lambda *handlers: None)
        run._send(job, Bunch(send=lambda found: None), 60)
        assert done == [[4, 4, 4, 4], "timed"]

    def test_a_result(self):
        found = run.result(run.Job("basic_motions", REFERENCE, 0, 0, 0, 1))
        assert found.status == DONE
        assert found.accuracy == pytest.approx(found.right.mean())
        assert found.samples == TIMES.join(("80", "6", "100"))
        assert '"method__svc__C": ' in found.chosen
        assert '"scikit-learn": ' in found.versions
        assert np.isnan([found.log_loss, found.calibration_error]).all()

    def test_probabilities_are_scored(self):
        class Model:
            classes_ = np.array(["a", "b"])

            def predict_proba(self, X):
                return np.array([[1.0, 0.0], [0.75, 0.25], [0.25, 0.75], [0.75, 0.25]])

        found = run._of_probabilities(Model(), np.zeros(4), np.array(["b", "a", "b", "a"]))
        assert found["log_loss"] == pytest.approx(-(np.log(run.SMALLEST) + 3 * np.log(0.75)) / 4)
        assert found["calibration_error"] == pytest.approx(1.0 / 4 + 0.25 * 3 / 4)

    def test_tasks_of_missing_libraries_are_skipped(self, monkeypatch, capsys):
        def missing():
            return shipped.library("no_such_library.datasets")

        monkeypatch.setitem(tasks.TASKS, "small", Task("small", missing, "plain", None, 3))
        assert run.all_jobs(["small"], METHODS, 1, 0) == []
        assert "small is skipped: this task comes with no_such_library: pip install" in capsys.readouterr().err


def small(kind="series", shape=(4, 12), n_samples=24):
    rng = np.random.default_rng(0)
    y = np.repeat(["a", "b"], n_samples // 2)
    X = rng.standard_normal((n_samples, *shape)).astype(np.float32)
    X[y == "b"] += 1.0
    return Task("small", lambda: Bunch(data=X, target=y), kind, None, 3), X, y


UNTUNED = ("extra trees", "gradient boosting")
HERE = [name for name in METHODS if name != OURS and "aeon" not in contenders.PACKAGES.get(name, ())]


class TestPooling:
    def test_signals_are_pooled_over_dyadic_intervals_of_each_channel(self):
        X = np.arange(24.0).reshape(1, 2, 12)
        found = pooled(X, (1,)).reshape(-1, 7, 2)
        intervals = [slice(0, 12), slice(0, 6), slice(6, 12), *(slice(3 * i, 3 * i + 3) for i in range(4))]
        assert len(found) == len(intervals)
        for own, part in zip(found, intervals, strict=True):
            channels = X[0, :, part]
            assert own[0] == pytest.approx(channels.mean(axis=1))
            assert own[1] == pytest.approx(channels.std(axis=1))
            assert own[2:] == pytest.approx(np.quantile(channels, (0, 0.25, 0.5, 0.75, 1), axis=1))

    def test_pictures_are_pooled_over_blocks(self):
        X = np.arange(16.0).reshape(1, 4, 4)
        means = pooled(X, (0, 1)).reshape(-1, 7)[:, 0]
        assert means.tolist() == [7.5, 2.5, 4.5, 10.5, 12.5]

    @pytest.mark.parametrize(("shape", "modes"), [((64, 64), (1,)), ((40, 40, 40), (0, 1, 2)), ((1, 1000), (1,))])
    def test_there_are_a_few_hundred(self, shape, modes):
        assert 60 <= pooled(np.zeros((1, *shape)), modes).size <= 500

    def test_others_are_flattened(self):
        assert pooled(np.zeros((2, 3, 4)), ()).shape == (2, 12)


class TestContenders:
    @pytest.mark.parametrize("method", HERE)
    def test_they_are_tuned_and_fitted(self, method):
        task, X, y = small()
        model, values = fitted(method, task, X[::2], y[::2], None, 0)
        assert bool(values) == (method not in UNTUNED)
        assert hasattr(model, "predict_proba") == (method in contenders.WITH_PROBABILITIES)
        assert model.predict(X[1::2]).shape == (12,)

    def test_ours_is_tuned_and_fitted(self, monkeypatch):
        task, X, y = small()
        groups = np.arange(24) // 2
        seen = []

        class Search:
            best_params_ = {"lam": np.float64(1.0), "rank": (1, 2)}  # noqa: RUF012

            def fit(self, X, y, groups):
                seen.append(groups)
                return self

        monkeypatch.setattr(contenders, "ours", lambda task, shape, seed: Search())
        _, values = fitted(OURS, task, X, y, groups, 0)
        assert seen[0] is groups
        assert {name: run._plain(value) for name, value in values.items()} == {"lam": 1.0, "rank": "(1, 2)"}
        monkeypatch.undo()
        assert contenders.ours(task, X.shape[1:], 3).random_state == 3

    @pytest.mark.parametrize(("method", "shape"), [("tangent space", (3, 4, 12)), ("tangent space", (12,))])
    def test_samples_that_a_method_cannot_take(self, method, shape):
        task, X, y = small(shape=shape)
        with pytest.raises(UnsuitableError):
            fitted(method, task, X, y, None, 0)

    def test_all_choose_in_the_same_folds_of_whole_groups(self, monkeypatch):
        seen = []

        def tuned(one, samples, folds, seed, n_jobs):
            seen.append((folds, seed, tuple(samples.groups)))
            raise KeyboardInterrupt

        monkeypatch.setattr(contenders, "tuned", tuned)
        task, X, y = small()
        for method in HERE:
            with pytest.raises(KeyboardInterrupt):
                fitted(method, task, X, y, range(24), 7)
        assert set(seen) == {(5, 7, tuple(range(24)))}


def loaded_or_skipped(task):
    """Return the samples of a task; skip the test if the library that ships them is missing."""
    try:
        return loaded(task)
    except ImportError as error:
        pytest.skip(str(error))


class TestTasks:
    def test_there_are_enough_of_all_kinds(self):
        assert len(TASKS) >= len(AT_HAND) + 10
        kinds = {"series", "eeg", "volume", "image", "spectra", "connectome", "plain"}
        assert {task.kind for task in TASKS.values()} == kinds
        assert all(task.sfreq for task in TASKS.values() if task.kind == "eeg")

    @pytest.mark.parametrize("name", sorted({*TASKS} - {"mnist_500", "indian_pines_6", "adrenal_300"}))
    def test_splits_keep_groups_whole_and_training_sets_have_all_classes(self, name, data_folder):
        task = TASKS[name]
        bunch, splits = loaded_or_skipped(task), list(task.splits(2, 0))
        assert np.issubdtype(bunch.data.dtype, np.floating)
        assert (bunch.get("groups") is not None) == bool(task.by)
        n_groups = len(np.unique(bunch.get("groups", ())))
        assert len(splits) == {OFFICIAL: 1, ONE_OUT: n_groups}.get(task.folds, 2 * task.folds)
        assert len({split.test.tobytes() for split in splits}) > max(0, task.folds)  # repeats are not the same
        for split in splits:
            assert not set(split.train) & set(split.test)
            assert set(bunch.target[split.train]) == set(bunch.target)
            if task.by:
                assert not set(bunch.groups[split.train]) & set(bunch.groups[split.test])

    def test_few_samples_come_from_many_groups_and_have_the_same_test_sets(self):
        y, groups = np.repeat([0, 1], 12), np.arange(24) // 2 % 6
        bunch = Bunch(data=np.zeros((24, 2)), target=y, groups=groups)
        whole = Task("small", lambda: bunch, "plain", None, 2, "pair")
        few = replace(whole, name="small@3", per_class=3)
        for split, fewer in zip(whole.splits(1, 0), few.splits(1, 0), strict=True):
            assert np.array_equal(split.test, fewer.test)
            assert set(fewer.train) <= set(split.train)
            assert np.bincount(y[fewer.train]).tolist() == [3, 3]
            assert all(len(set(groups[fewer.train[y[fewer.train] == label]])) == 3 for label in (0, 1))
        assert list(replace(few, per_class=7).splits(1, 0)) == []  # a class has only six

    def test_names_of_few_samples(self):
        assert with_few("libras", 0) == "libras"
        assert named(with_few("libras", 6)) == replace(TASKS["libras"], name="libras@6", per_class=6)
        assert named("libras") is TASKS["libras"]
        assert counts("3,6") == [3, 6]
        assert counts(None) == [0]
        with pytest.raises(ValueError, match="--samples-per-class must be at least 2"):
            counts("1,6")

    def test_how_they_are_split_in_words(self):
        assert TASKS["ering"].said_split(2) == "official"
        assert TASKS["muse_ssvep"].said_split(2) == "each recording once"
        assert TASKS["pmd_posture"].said_split(2) == f"2 {TIMES} 4 folds by person"
        assert TASKS["ifnb_ms"].said_split(1) == "5 folds"

    def test_parts_of_large_sets(self, monkeypatch):
        target = np.arange(400) % 10
        bunch = Bunch(data=np.arange(400.0)[:, None, None], target=target, n_train=300)
        monkeypatch.setattr(tasks, "fetch_mnist", lambda subset: bunch)
        part = tasks._mnist(5, 2)
        assert np.unique(part.target, return_counts=True)[1].tolist() == [7] * 10
        assert np.all((part.data.ravel() < 300) == (part.split == "train"))

    def test_unknown_names_are_refused(self):
        assert chosen("ering, libras", list(TASKS), "task") == ["ering", "libras"]
        with pytest.raises(ValueError, match="unknown task eering; there are basic_motions"):
            chosen("eering", list(TASKS), "task")


class TestPage:
    def test_it_is_made_from_the_rows(self):
        rows = [
            row(task, method, np.arange(40) < right)
            for task, rights in (("ering", (38, 30)), ("libras", (20, 20)), ("epilepsy", (30, 31)))
            for method, right in zip((OURS, REFERENCE), rights, strict=True)
        ]
        assert "| ours | 0.500 | 25.0 |" in page.page(rows, (OURS, REFERENCE), 2)
        rows.append(row("ering", "MiniRocket", status=UNSUITABLE))
        text = page.page(rows, (OURS, REFERENCE), 2)
        assert "| ering | **95.0** | 75.0 |" in text
        assert "| libras | **50.0** | **50.0** |" in text
        assert "| ours | 1.50 | 3 of 3 | 73.3 |" in text
        assert "| best mean rank, at most 1.8 | **missed** |" in text
        assert "- basic_motions: all" in text
        assert "No task is finished" in page.page(rows, (*METHODS,), 2)
        with_missing = page.page(rows[:2] + rows[-1:], (OURS, REFERENCE, "MiniRocket"), 2)
        assert f"| ering | **95.0** | 75.0 | {DASH} |" in with_missing

    def test_repeats_that_some_methods_lack_are_left_out(self):
        rows = [row("pmd_posture", OURS, fold=fold, n_folds=2, repeat=repeat) for fold in (0, 1) for repeat in (0, 1)]
        rows += [row("pmd_posture", REFERENCE, fold=fold, n_folds=2) for fold in (0, 1)]
        found = page.finished(rows, (OURS, REFERENCE), 2)
        assert found.tasks == ["pmd_posture"]
        assert [one.repeat for one in found.rows["pmd_posture", OURS]] == [0, 0]

    def test_few_samples_have_a_table_of_their_own(self):
        rows = [
            row(task, method, np.arange(40) < right)
            for task in ("ering@6", "libras@6")
            for method, right in ((OURS, 30), (REFERENCE, 20))
        ]
        text = page.page(rows, (OURS, REFERENCE), 2)
        assert "No task is finished" in text
        assert "| 6 | 2 | ours | 1.00 | 75.0 | 75.0 |  |" in text
        assert "| 6 | 2 | LinearSVC | 2.00 | 50.0 | 50.0 | +25.0 |" in text

    def test_the_page_in_the_documentation_is_that_of_the_rows(self):
        rows = RowFile(RESULTS / "field.csv").read()
        methods = [method for method in METHODS if any(one.method == method for one in rows)]
        times = RowFile(command.TIMES).read()
        assert PAGE.read_text(encoding="utf-8") == page.page(rows, methods, 2, RowFile(structure.ROWS).read(), times)
        short = page.short_table(page.finished(rows, methods, 2), times)
        assert "\n".join(["", *short, ""]) in README.read_text(encoding="utf-8")

    def test_tasks_that_shaped_the_design_and_kinds_are_shown_apart(self):
        rights = {"ering": (38, 30), "haxby_brain": (20, 30), "coffee": (40, 10)}
        rows = [
            row(task, method, np.arange(40) < right)
            for task, own in rights.items()
            for method, right in zip((OURS, REFERENCE), own, strict=True)
        ]
        rows = [replace(one, chosen='{"decomposition": "cp"}') if one.task == "coffee" else one for one in rows]
        rows = [replace(one, chosen='{"decomposition": "full"}') if one.task == "ering" else one for one in rows]
        text = page.page(rows, (OURS, REFERENCE), 2)
        assert f"| {page.SHAPED} | 2 | 1.50 | 1.50 |" in text
        assert f"| {page.ADDED} | 1 | 1.00 | 2.00 |" in text
        assert "| series, EEG | 1 | 1.00 | 2.00 |" in text
        assert f"| {page.SHAPED} | 2 | -2.5 (1) |" in text
        assert "flat weight in 1 of 3 splits" in text

    def test_times_are_medians_over_tasks_that_all_methods_have_been_timed_on(self):
        seconds = {"ering": (1.0, 4.0), "libras": (3.0, 5.0), "epilepsy": (8.0, NAN), "coffee": (9.0, None)}
        times = [
            replace(row(task, method, status=SLOW if value != value else DONE), processor_seconds=value)
            for task, own in seconds.items()
            for method, value in zip((OURS, REFERENCE), own, strict=True)
            if value is not None
        ]
        assert page.median_times(times) == ({REFERENCE: 4.5, OURS: 3.0}, ["epilepsy", "ering", "libras"])
        text = page.page([], (OURS, REFERENCE), 2, times=times)
        assert "| seconds | 4.50 | 3.00 |" in text
        assert "the first split of 3 tasks" in text


class TestStructure:
    def test_jobs_are_those_of_representations_that_suit(self, monkeypatch):
        task, _, _ = small(shape=(4, 12), n_samples=24)
        monkeypatch.setitem(tasks.TASKS, "small", replace(task, folds=2))
        found = list(structure.jobs_of(["small"]))
        assert {job.task for job in found} == {"small@3", "small@6"}
        own = {job.method for job in found}
        assert "covariances, flat" in own
        assert not any(method.startswith("band power") for method in own)  # too short
        assert len(found) == 2 * len(own)

    @pytest.mark.parametrize("method", ["convolutions, flat", "covariances, CP rank 1"])
    def test_lambda_is_chosen(self, method):
        task, X, y = small()
        model, values = structure.fitted(method, task, X[::3], y[::3], None, 0)
        assert values["lam"] in (0.1, 1.0, 10.0)
        assert model.predict(X).shape == y.shape

    def test_low_rank_is_compared_with_flat(self):
        rights = {"ering@3": (20, 30, 20, 10), "libras@3": (20, 30, 20, 12)}
        rows = [
            row(task, structure.method_name("covariances", weight), np.arange(40) < right)
            for task, own in rights.items()
            for weight, right in zip(structure.WEIGHTS, own, strict=True)
        ]
        cells = structure.summary(rows)[-3].replace("\N{PLUS-MINUS SIGN}", "+-").split(" | ")
        assert cells == [
            "| covariances",
            "3",
            "2",
            "50.0",
            "+25.0 +- 0.0 (2, 0)",
            "+0.0 +- 0.0 (0, 0)",
            "-22.5 +- 2.5 (0, 2) |",
        ]
        assert (
            "Of these 3 differences, 1 are above zero by more than two standard errors and 1 below"
            in structure.summary(rows)[-1]
        )
        assert structure.summary([]) == []
