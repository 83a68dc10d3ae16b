"""Tests of the runner: complete rows, choices on training data only, resumed runs, and correct statistics."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace
from functools import partial
from itertools import combinations
from math import nan
from pathlib import Path

import numpy as np
import pytest
from conftest import EXAMPLES
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t as student
from scipy.stats import ttest_1samp
from sklearn.utils import Bunch

from tensormargin import datasets, make_method
from tensormargin.evaluation import holm
from tensormargin.io import BadFileError
from tensormargin.paper import (
    PROTOCOLS,
    Evaluation,
    Grid,
    Row,
    RowStore,
    Run,
    RunSettings,
    TuningRow,
    quick,
    read_results,
    write_page,
    write_summaries,
)
from tensormargin.paper.page import page_text, summary_text
from tensormargin.paper.protocols import (
    Where,
    balanced_subset,
    group_out,
    hold_out_two,
    inner_splits,
    load_once,
    one_out,
    places_apart,
    published_split,
    spread,
    stratified_fold,
)
from tensormargin.paper.rows import CellKey
from tensormargin.paper.runner import choose_strengths
from tensormargin.paper.summary import (
    CellSummary,
    Difference,
    corrected,
    differences,
    read_csv,
    reported,
    summarise_rows,
)
from tensormargin.paper.tables import TableResults, accuracy_table, difference_table, findings

DIGITS = Evaluation(
    data="digits",
    load=datasets.load_digits_tensor,
    split=stratified_fold,
    sizes=(1437,),
    repeats=2,
    folds=2,
    tucker_rank=(2, 2),
    grid=Grid(lams=(10.0, 1000.0), more_mus=(10.0,), relative=True),
    tuning_pairs=2,
    interval_over="splits",
    pairs=3,
)


def without_times(rows):
    times = ("seconds", "fit_seconds", "predict_seconds")
    return [{name: value for name, value in asdict(row).items() if name not in times} for row in rows]


def finish(run, n_jobs=1):
    return list(run.go(n_jobs))


def make_run(folder, evaluation=DIGITS, **settings):
    return Run([evaluation], RunSettings("open", **{"methods": ("SVM", "SPMD-LRT"), **settings}), folder)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    run = make_run(tmp_path_factory.mktemp("whole"), tune_mu=True)
    finish(run)
    return run


def test_one_row_for_every_method_split_and_pair(whole):
    rows = whole.wanted_rows()
    keys = {(row.method, row.tuned, row.repeat, row.fold, row.pair) for row in rows}
    pairs = [(str(a), str(b)) for a, b in spread(list(combinations(range(10), 2)), 3)]
    variants = [("SVM", "lam"), ("SPMD-LRT", "lam"), ("SPMD-LRT", "lam+mu")]
    assert keys == {(*variant, r, f, pair) for variant in variants for r in (0, 1) for f in (0, 1) for pair in pairs}
    assert len(rows) == len(keys) == len(whole.wanted_keys())
    for row in rows:
        assert row.accuracy == row.n_correct / row.n_test
        assert row.seed == 0
        assert {"python", "tensormargin", "numpy"} <= set(json.loads(row.versions))
        assert 0 <= row.gap <= 1e-4
        assert row.converged
        assert row.sweeps >= 1
        assert row.fit_seconds > 0
        assert row.lam in DIGITS.grid.lams
        assert row.mu == (0 if row.method == "SVM" else 1) or row.tuned == "lam+mu"


def test_rows_are_scored_as_an_independent_fit_is(whole):
    """Redo everything by hand: the split, the choice of lambda on the training set, the fit, the predictions."""
    row = next(r for r in whole.wanted_rows() if r.method == "SPMD-LRT" and r.tuned == "lam" and r.fold == 1)
    bunch = datasets.load_digits_tensor()
    train, test = stratified_fold(bunch, Where(row.size, row.repeat, row.fold, row.seed))
    pair = [int(name) for name in row.pair]
    train, test = (rows[np.isin(bunch.target[rows], pair)] for rows in (train, test))
    tuning = [t for t in whole.tuning.read() if t.cell == row.cell]
    right = {lam: sum(t.n_correct for t in tuning if t.lam == lam) for lam in DIGITS.grid.lams}
    assert row.lam == max(right, key=lambda lam: (right[lam], -lam))
    clf = make_method("SPMD-LRT", lam=row.lam / 300, mu1=1 / 100, mu2=1 / 100)
    clf.fit(bunch.data[train].astype(np.float32), bunch.target[train])
    assert row.n_correct == np.sum(clf.predict(bunch.data[test].astype(np.float32)) == bunch.target[test])
    assert (row.n_train, row.n_test) == (len(train), len(test))


def spoiled_digits(seed):
    """Return the digits with every test sample of the first split replaced by noise."""
    bunch = datasets.load_digits_tensor()
    _, test = stratified_fold(bunch, Where(1437, 0, 0, 0))
    data = bunch.data.copy()
    data[test] = np.random.RandomState(seed).standard_normal((len(test), 8, 8)) * 10
    return Bunch(data=data, target=bunch.target)


def test_lambda_is_chosen_without_the_test_part(tmp_path):
    one_split = replace(DIGITS, repeats=1, folds=1)
    rows = []
    for seed in (0, 1):
        run = make_run(tmp_path / str(seed), replace(one_split, load=partial(spoiled_digits, seed)))
        finish(run)
        rows.append((without_times(run.tuning.read()), [row.lam for row in run.wanted_rows()], run.wanted_rows()))
    assert rows[0][0] == rows[1][0]
    assert rows[0][1] == rows[1][1]
    assert [row.n_correct for row in rows[0][2]] != [row.n_correct for row in rows[1][2]]


@pytest.mark.campaign
def test_two_runs_give_the_same_rows_however_many_jobs(whole, tmp_path):
    run = make_run(tmp_path, tune_mu=True)
    finish(run, n_jobs=2)
    assert without_times(run.wanted_rows()) == without_times(whole.wanted_rows())
    assert without_times(run.tuning.read()) == without_times(whole.tuning.read())


def test_another_seed_gives_other_splits(whole, tmp_path):
    run = make_run(tmp_path, seed=1, methods=("SVM",))
    finish(run)
    before = [row.n_correct for row in whole.wanted_rows() if row.method == "SVM"]
    assert [row.n_correct for row in run.wanted_rows()] != before


def test_progress_counts_rows_and_work_to_the_end(tmp_path):
    run = make_run(tmp_path, methods=("SVM",))
    states = finish(run)
    assert states[0].rows == 0
    assert states[-1].rows == states[-1].all_rows == 12
    assert states[-1].work == pytest.approx(states[-1].all_work)
    work = [state.work for state in states]
    assert work == sorted(work)
    again = finish(make_run(tmp_path, methods=("SVM",)))
    assert len(again) == 1
    assert again[0].work == pytest.approx(again[0].all_work)


def test_a_run_may_be_done_in_parts(whole, tmp_path):
    """Methods, repeats and tuning of mu can be run one after the other; the rows are those of a single run."""
    finish(make_run(tmp_path, methods=("SVM",), repeats=1))
    finish(make_run(tmp_path, methods=("SPMD-LRT",)))
    run = make_run(tmp_path, tune_mu=True)
    finish(run)
    assert without_times(run.wanted_rows()) == without_times(whole.wanted_rows())


def test_summaries_take_in_what_was_done_before_but_no_half_filled_cells(tmp_path):
    finish(make_run(tmp_path, methods=("STM",), repeats=1))
    run = make_run(tmp_path, methods=("SVM",), repeats=1)
    finish(run)
    run.rows.add([a_row("LMDM")])  # one pair of three
    other_seed = replace(run.wanted_rows()[0], method="LMDM", seed=1)
    run.rows.add([replace(other_seed, first=str(n)) for n in range(3)])
    assert {row.method for row in run.complete(run.rows.read())} == {"SVM", "STM"}
    assert "STM" in write_summaries(run)


def test_more_repeats_than_the_paper_can_be_asked_for(tmp_path):
    run = make_run(tmp_path, methods=("SVM",), repeats=3)
    assert {key[0].repeat for key in run.wanted_keys()} == {0, 1, 2}
    once = make_run(tmp_path / "b", replace(DIGITS, repeatable=False), methods=("SVM",), repeats=3)
    assert {key[0].repeat for key in once.wanted_keys()} == {0, 1}
    whole_size = make_run(tmp_path / "c", replace(DIGITS, once=(1437,)), methods=("SVM",))
    assert {key[0].repeat for key in whole_size.wanted_keys()} == {0}  # there is nothing random to repeat


KILLS = min(10, max(2, EXAMPLES // 10))
KILLED = """
import sys
sys.path[:0] = {folders!r}
from test_paper_tables import finish, make_run
finish(make_run({folder!r}, tune_mu=True), n_jobs=2)
"""


@pytest.mark.campaign
def test_a_killed_run_goes_on_and_ends_with_the_same_rows(whole, tmp_path):
    """Kill the run at random moments, then finish it: the rows are the same, and none is lost or recomputed."""
    here = Path(__file__).parent
    code = KILLED.format(folders=[str(here), str(here.parent)], folder=str(tmp_path))
    rng = random.Random(int.from_bytes(os.urandom(4)))
    stored, midway = {}, 0
    for _ in range(KILLS):
        process = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
        seen = len(list(tmp_path.glob("*/*.parquet")))
        while process.poll() is None and len(list(tmp_path.glob("*/*.parquet"))) <= seen:
            time.sleep(0.01)
        time.sleep(rng.uniform(0, 0.3))
        if process.poll() is None:
            midway += 1
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        assert process.returncode in {0, -signal.SIGKILL}
        for path, stamp in stored.items():
            assert path.stat().st_mtime_ns == stamp
        stored = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/*.parquet")}
    assert midway > 0
    assert len(stored) > 0
    run = make_run(tmp_path, tune_mu=True)
    finish(run, 2)
    assert without_times(run.wanted_rows()) == without_times(whole.wanted_rows())
    assert without_times(run.tuning.read()) == without_times(whole.tuning.read())


def test_rows_of_another_run_are_not_mixed_in(tmp_path):
    make_run(tmp_path)
    with pytest.raises(ValueError, match="holds rows of another run, with another seed"):
        make_run(tmp_path, seed=5)
    with pytest.raises(ValueError, match="another digits"):
        make_run(tmp_path, replace(DIGITS, grid=Grid(lams=(1.0,))))
    with pytest.raises(ValueError, match="another digits"):
        make_run(tmp_path, replace(DIGITS, load=partial(spoiled_digits, 3)))
    for text, message in (("{", "damaged"), ("[1]", "not the settings of a run")):
        (tmp_path / "settings.json").write_text(text)
        with pytest.raises(BadFileError, match=message):
            make_run(tmp_path)


def test_unknown_methods_and_sizes_are_refused(tmp_path):
    with pytest.raises(ValueError, match="unknown method KSTM"):
        make_run(tmp_path, methods=("KSTM",))
    with pytest.raises(ValueError, match=r"the sizes are \[1437\]"):
        make_run(tmp_path, sizes=(5,))


# ------------------------------------------------------------------------------------------------------------ rows


def a_row(method="SVM", pair=("0", "1"), repeat=0, accuracy=0.5, **values):
    cell = CellKey("digits", 1437, repeat, values.pop("fold", 0), method, values.pop("tuned", "lam"), 0)
    defaults = {
        "n_train": 80, "n_test": 20, "n_correct": round(20 * accuracy), "accuracy": accuracy, "lam": 10.0, "mu": 1.0,
        "relative": True, "fit_seconds": 0.5, "predict_seconds": 0.1, "sweeps": 3, "gap": 1e-5, "objective": 1.0,
        "converged": True, "n_parameters": 10, "versions": '{"python": "3"}',
    }  # fmt: skip
    return Row.of(cell, pair, **{**defaults, **values})


def test_rows_come_back_as_they_were(tmp_path):
    store = RowStore(tmp_path / "rows", Row)
    rows = [a_row(pair=("1", "2")), a_row(), a_row("STM", accuracy=1 / 3)]
    store.add(rows[:1])
    store.add(rows[1:])
    store.add(rows[:1])  # the same row again
    expected = sorted(rows, key=lambda row: row.key)
    assert store.read() == expected
    assert store.export() == expected
    for path in (tmp_path / "rows").iterdir():
        path.unlink()
    assert store.read() == expected
    import pyarrow.parquet as parquet

    assert parquet.read_table(store.exported).num_rows == 3


def test_hidden_files_are_not_read_and_those_of_others_stay(tmp_path):
    store = RowStore(tmp_path / "rows", Row)
    for folder in (tmp_path, tmp_path / "rows"):
        folder.mkdir(exist_ok=True)
        left = folder / ".abc.parquet.part"
        left.write_bytes(b"PAR1 half")
        os.utime(left, (1, 1))
    store.add([a_row()])
    assert len(store.read()) == len(store.export()) == 1
    assert sorted(path.name for path in tmp_path.rglob("*.part")) == [".abc.parquet.part"] * 2


def test_rows_of_another_form_are_refused(tmp_path):
    import pyarrow
    import pyarrow.parquet as parquet

    store = RowStore(tmp_path / "rows", Row)
    store.add([a_row()])
    path = next((tmp_path / "rows").iterdir())
    parquet.write_table(pyarrow.Table.from_pylist([{"data": "digits"}]), path)
    with pytest.raises(BadFileError, match="remove it to have its rows made again"):
        store.read()


def test_a_damaged_file_of_rows_is_named(tmp_path):
    store = RowStore(tmp_path / "rows", Row)
    store.add([a_row()])
    path = next((tmp_path / "rows").iterdir())
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(BadFileError, match="remove it to have its rows made again"):
        store.read()


def test_an_interrupted_write_leaves_nothing(tmp_path):
    from tensormargin.io import replacing

    target = tmp_path / "deep" / "a.txt"

    def fail_halfway():
        with replacing(target) as temporary:
            temporary.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_halfway()
    assert list(target.parent.iterdir()) == []
    for text in ("one", "two"):
        with replacing(target) as temporary:
            temporary.write_text(text)
    assert target.read_text() == "two"
    assert [path.name for path in target.parent.iterdir()] == ["a.txt"]


def tuning_row(lam, mu, n_correct, pair=("0", "1")):
    cell = CellKey("digits", 1437, 0, 0, "LMDM", "lam", 0)
    return TuningRow.of(cell, pair, lam=lam, mu=mu, n_correct=n_correct, n_tested=20, seconds=0.1)


def test_strengths_are_chosen_over_all_pairs_and_the_smallest_of_equals():
    rows = [tuning_row(1.0, 1.0, 10), tuning_row(10.0, 1.0, 15), tuning_row(10.0, 0.1, 15), tuning_row(100.0, 1.0, 15)]
    rows += [tuning_row(lam, mu, 5, ("0", "2")) for lam, mu in ((1.0, 1.0), (10.0, 1.0), (10.0, 0.1), (100.0, 1.0))]
    chosen = choose_strengths(rows)
    assert (chosen.lam, chosen.mu) == (10.0, 0.1)
    assert choose_strengths([*rows, tuning_row(1.0, 1.0, 9, ("1", "2"))]).lam == 1.0


# ------------------------------------------------------------------------------------------------------- protocols


def test_subsets_are_balanced_and_the_largest_takes_all():
    rng = np.random.RandomState(0)
    bunch = Bunch(target=rng.randint(0, 10, 700), n_train=600)
    train, test = balanced_subset(bunch, Where(200, 0, 0, 0))
    assert np.all(np.bincount(bunch.target[train]) == 20)
    assert train.max() < 600
    assert np.array_equal(test, np.arange(600, 700))
    assert not np.array_equal(train, balanced_subset(bunch, Where(200, 1, 0, 0))[0])
    assert np.array_equal(train, balanced_subset(bunch, Where(200, 0, 0, 0))[0])
    assert np.array_equal(balanced_subset(bunch, Where(600, 0, 0, 0))[0], np.arange(600))


def test_two_images_of_each_person_are_held_out():
    bunch = Bunch(target=np.repeat(np.arange(40), 10))
    train, test = hold_out_two(bunch, Where(320, 0, 0, 0))
    assert np.all(np.bincount(bunch.target[test]) == 2)
    assert np.all(np.bincount(bunch.target[train]) == 8)
    assert not set(train) & set(test)
    assert not np.array_equal(test, hold_out_two(bunch, Where(320, 1, 0, 0))[1])


def test_folds_groups_and_single_samples_are_each_tested_once():
    bunch = Bunch(target=np.arange(30) % 2, groups=np.arange(30) // 10, split=np.repeat(["train", "val", "test"], 10))
    for split, n in ((stratified_fold, 5), (group_out, 3), (one_out, 30)):
        tested = np.concatenate([split(bunch, Where(0, 0, fold, 0))[1] for fold in range(n)])
        assert np.array_equal(np.sort(tested), np.arange(30))
    train, test = group_out(bunch, Where(0, 0, 1, 0))
    assert set(bunch.groups[test]) == {1}
    train, test = published_split(bunch, Where(100, 0, 0, 0))
    assert np.array_equal(train, np.arange(20))
    assert np.array_equal(test, np.arange(20, 30))
    assert len(published_split(bunch, Where(8, 0, 0, 0))[0]) == 8


@pytest.mark.parametrize("size", [10, 30])
def test_patches_of_the_two_parts_share_no_pixel(size):
    bunch = datasets.load_indian_pines(1, (2, 3, 5, 6, 8, 10, 11, 12, 14))
    train, test = places_apart(bunch, Where(size, 0, 0, 0))
    assert np.all(np.unique(bunch.target[train], return_counts=True)[1] == size)
    pixels = [
        {(row + i, column + j) for row, column in bunch.positions[rows] for i in range(-2, 3) for j in range(-2, 3)}
        for rows in (train, test)
    ]
    assert not pixels[0] & pixels[1]
    assert np.unique(bunch.target[test], return_counts=True)[1].min() >= 20
    for pair in combinations(np.unique(bunch.target), 2):
        rows = train[np.isin(bunch.target[train], pair)]
        for inner, validation in inner_splits(
            "places", *(a[rows] for a in (bunch.target, bunch.groups, bunch.positions)), 0
        ):
            assert len(np.unique(bunch.target[rows[inner]])) == 2
            gaps = np.abs(bunch.positions[rows[inner]][:, None] - bunch.positions[rows[validation]][None]).max(axis=2)
            assert gaps.min() >= 5


def test_validation_parts_stay_inside_the_training_part_and_keep_groups():
    target, groups = np.arange(60) % 2, np.arange(60) // 10
    for kind, n in (("holdout", 1), ("folds", 5), ("groups", 3)):
        splits = inner_splits(kind, target, groups, None, 0)
        assert len(splits) == n
        for train, validation in splits:
            assert not set(train) & set(validation)
            assert len(np.unique(target[train])) == 2
            if kind == "groups":
                assert not set(groups[train]) & set(groups[validation])
    for kind in ("groups", "places", "nonsense"):
        with pytest.raises(ValueError, match=f"got '{kind}' for data with groups: False"):
            inner_splits(kind, target, None, None, 0)
    (split,) = inner_splits("holdout", np.repeat([0, 1], 8), None, None, 0)
    assert [len(part) for part in split] == [12, 4]


def test_the_papers_protocols_are_as_it_says():
    (mnist,) = PROTOCOLS["table2"]()
    assert mnist.sizes == (10_000, 20_000, 30_000, 60_000)
    assert (mnist.tucker_shape, mnist.tucker_rank) == ((7, 4, 7, 4), (4, 4, 4, 4))
    assert len(mnist.class_pairs(np.arange(10))) == 45
    for table, shape in (("table4", (8, 4, 8, 4)), ("table5", (8, 8, 8, 8))):
        (orl,) = PROTOCOLS[table]()
        assert (orl.tucker_shape, orl.tucker_rank, orl.repeats) == (shape, (4, 4, 4, 4), 5)
        assert len(orl.class_pairs(np.arange(40))) == 780
    for name in ("table2", "table4", "table5", "open"):
        for evaluation in PROTOCOLS[name]():
            assert evaluation.grid.mus == ((100.0,) if evaluation.grid.relative else (1.0,))
            assert evaluation.grid.lams == (10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0)
        assert len(quick(PROTOCOLS[name]())) > 0
    with pytest.raises(ValueError, match="may not be redistributed"):
        PROTOCOLS["table6"]()


def test_the_papers_figures():
    assert reported("MNIST", 10_000, "TuSPMD-LRT") == 98.09
    assert reported("MNIST", 60_000, "TuSPMD-LRT") is None
    assert reported("MNIST", 30_000, "STuM") is None
    assert reported("ORL 64x64", 320, "STuM") == 94.40
    assert reported("ADNI", 32, "SVM") == 55.56
    assert reported("EEG", 49, "SVM") is None


# -------------------------------------------------------------------------------------------------------- summaries


def table_of(accuracies):
    """Return rows from {method: {(repeat, fold): {pair: accuracy}}}."""
    return [
        a_row(method, pair, repeat, accuracy, fold=fold)
        for method, splits in accuracies.items()
        for (repeat, fold), pairs in splits.items()
        for pair, accuracy in pairs.items()
    ]


def test_cells_are_means_over_pairs_then_splits():
    pairs = [("0", "1"), ("0", "2"), ("1", "2")]
    splits = {
        (0, 0): dict(zip(pairs, (0.5, 0.7, 0.9), strict=True)),
        (1, 0): dict(zip(pairs, (0.6, 0.6, 1), strict=True)),
    }
    (cell,) = summarise_rows(table_of({"STM": splits}), [DIGITS])
    assert cell.accuracy == pytest.approx(100 * np.mean([0.7, 2.2 / 3]))
    assert cell.sd == pytest.approx(100 * np.std([0.7, 2.2 / 3], ddof=1))
    assert (cell.n_splits, cell.n_fits, cell.unconverged) == (2, 6, 0)
    assert (cell.at_low, cell.at_high) == (1.0, 0.0)
    assert np.isnan(cell.paper)


def test_intervals_over_splits_are_students_with_the_corrected_variance():
    rng = np.random.RandomState(0)
    first, second = rng.uniform(0.5, 1, (2, 10))
    rows = table_of(
        {
            name: {(0, f): {("0", "1"): values[f]} for f in range(10)}
            for name, values in (("SVM", second), ("STM", first))
        }
    )
    (found,) = differences(rows, [DIGITS])
    assert (found.first, found.second) == ("STM", "SVM")
    gains = 100 * (first - second)
    half = student.ppf(0.975, 9) * np.sqrt(gains.var(ddof=1) * (1 / 10 + 20 / 80))
    assert found.difference == pytest.approx(gains.mean())
    assert (found.low, found.high) == (pytest.approx(gains.mean() - half), pytest.approx(gains.mean() + half))
    statistic = gains.mean() / np.sqrt(gains.var(ddof=1) * (1 / 10 + 20 / 80))
    assert found.df == 9
    assert found.p_value == pytest.approx(2 * student.sf(abs(statistic), 9), rel=1e-9)
    assert found.p_holm == found.p_value  # there is no other difference


def test_intervals_over_classes_are_the_jackknifes():
    """Compare with Student's interval, which must agree if the gain is a sum of independent class effects."""
    rng = np.random.RandomState(1)
    effects = rng.standard_normal(12) / 100
    pairs = {(str(a), str(b)): effects[a] + effects[b] for a, b in combinations(range(12), 2)}
    rows = table_of(
        {"SVM": {(0, 0): dict.fromkeys(pairs, 0.5)}, "LMDM": {(0, 0): {p: 0.5 + g for p, g in pairs.items()}}}
    )
    (found,) = differences(rows, [replace(DIGITS, interval_over="classes")])
    assert found.difference == pytest.approx(100 * 2 * effects.mean())
    half = student.ppf(0.975, 11) * 100 * 2 * effects.std(ddof=1) / np.sqrt(12)
    assert found.high - found.difference == pytest.approx(half, rel=1e-6)
    assert found.df == 11
    assert found.p_value == pytest.approx(ttest_1samp(effects, 0).pvalue, rel=1e-6)


def test_no_interval_from_a_single_split_or_two_classes():
    rows = table_of({name: {(0, 0): {("0", "1"): 0.5}} for name in ("SVM", "STM")})
    for over in ("splits", "classes"):
        (found,) = differences(rows, [replace(DIGITS, interval_over=over)])
        assert np.isnan(found.low)
        assert np.isnan(found.p_value)
        assert found.verdict == "no interval"


def test_a_chosen_mu_is_compared_with_methods_that_have_none():
    pair = {("0", "1"): 0.5}
    rows = table_of({name: {(0, f): pair for f in range(3)} for name in ("SVM", "STM", "LMDM")})
    rows += [a_row("LMDM", repeat=0, fold=f, accuracy=0.75, tuned="lam+mu") for f in range(3)]
    found = {(d.first, d.second, d.tuned): d.difference for d in differences(rows, [DIGITS])}
    assert found["LMDM", "SVM", "lam"] == 0
    assert found["LMDM", "SVM", "lam+mu"] == pytest.approx(25)
    assert ("STM", "SVM", "lam+mu") not in found


def a_difference(low, high, df=9, second="SVM"):
    """Return a difference with this interval, not corrected for others."""
    mean, half = (low + high) / 2, (high - low) / 2
    p_value = 2 * student.sf(abs(mean) / half * student.ppf(0.975, df), df)
    return Difference("digits", 1437, "lam", "LMDM", second, mean, low, high, "splits", df, p_value, p_value)


def test_verdicts():
    assert a_difference(0.1, 0.2).verdict == "better"
    assert a_difference(-0.2, -0.1).verdict == "worse"
    assert a_difference(-0.2, 0.1).verdict == "no difference shown"
    assert [a_difference(*ends).excludes_zero for ends in ((0.1, 0.2), (-0.2, -0.1), (-0.2, 0.1))] == [
        True,
        True,
        False,
    ]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_holms_p_values_are_those_of_the_step_down_test(p_values):
    """Go up from the smallest p-value and stop at the first that is too large for the remaining tests."""
    adjusted = holm(p_values)
    for level in (0.01, 0.05, 0.3):
        rejected = set()
        for step, place in enumerate(np.argsort(p_values, kind="stable")):
            if p_values[place] * (len(p_values) - step) > level:
                break
            rejected.add(place)
        assert {place for place, p in enumerate(adjusted) if p <= level} == rejected
    assert np.all(adjusted >= p_values)


def test_differences_that_were_not_tested_do_not_count():
    found = [a_difference(0.01, 0.19), replace(a_difference(0.1, 0.2), low=nan, high=nan, p_value=nan)] * 3
    tested = corrected(found)[0]
    assert tested.p_holm == pytest.approx(3 * found[0].p_value)
    assert np.isnan(corrected(found)[1].p_holm)


def test_one_of_many_intervals_may_miss_zero_by_chance():
    """An interval that just excludes 0 is significant on its own, but not among twenty."""
    others = [a_difference(-1.0, 1.2, second="STM")] * 19
    one = a_difference(0.01, 0.19)
    assert one.verdict == "better"
    paired = corrected([one, *others])
    assert paired[0].verdict == "no difference shown"
    assert paired[0].excludes_zero
    cells = [a_cell("SVM", 98.0, nan), a_cell("LMDM", 98.1, nan)]
    table = TableResults("open", [replace(cell, data="digits", size=1437) for cell in cells], paired)
    said = findings(table)
    expected = "of 1 comparisons better in 1 and worse in 0 by the interval alone, in 0 and 0 after Holm's correction"
    assert any(expected in sentence for sentence in said)
    expected = (
        "Of the 20 differences between two methods (every two, mu chosen or not, every column), 1 have an interval"
    )
    assert any(expected in sentence and "about 1 would" in sentence and "0 are left" in sentence for sentence in said)
    assert "**+0.10 [+0.01, +0.19]** |" in difference_table(table)
    certain = TableResults("open", table.cells, corrected([a_difference(0.09, 0.11, df=50), *others]))
    assert "**+0.10 [+0.09, +0.11]*** |" in difference_table(certain)
    assert any("in 1 and 0 after Holm's correction" in sentence for sentence in findings(certain))


def test_summaries_are_written_and_read_again(whole, tmp_path):
    text = write_summaries(whole)
    folder = whole.folder
    assert (folder / "summary.md").read_text() == text
    cells, paired = read_csv(folder / "summary.csv", CellSummary), read_csv(folder / "differences.csv", Difference)
    assert summary_text(TableResults(whole.settings.table, cells, paired)) == text
    rows = whole.wanted_rows()
    for before, after in ((summarise_rows(rows, [DIGITS]), cells), (differences(rows, [DIGITS]), paired)):
        for one, two in zip(before, after, strict=True):
            assert asdict(two) == {
                name: pytest.approx(value, rel=1e-5, nan_ok=True) if isinstance(value, float) else value
                for name, value in asdict(one).items()
            }
    assert RowStore(folder / "rows", Row).exported.is_file()
    (folder / "summary.csv").write_text("a,b\n1,2\n")
    with pytest.raises(BadFileError, match="not a summary"):
        read_csv(folder / "summary.csv", CellSummary)
    write_summaries(whole)


def test_summaries_appear_together(whole, monkeypatch):
    write_summaries(whole)
    names = ("summary.csv", "differences.csv", "summary.md")
    for name in names:
        (whole.folder / name).write_text("old")

    def full(one):
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr("tensormargin.paper.page.summary_text", full)
        with pytest.raises(OSError, match="no space"):
            write_summaries(whole)
    assert [(whole.folder / name).read_text() for name in names] == ["old"] * 3
    write_summaries(whole)


def test_the_page_has_tables_findings_and_figures(whole, tmp_path):
    write_summaries(whole)
    results = tmp_path / "results"
    results.mkdir()
    (results / "open").symlink_to(whole.folder)
    page = tmp_path / "docs" / "page.md"
    write_page(results, page)
    text = page.read_text()
    (one,) = read_results(results)
    assert accuracy_table(one) in text
    assert all(finding in text for finding in findings(one))
    assert "SPMD-LRT, mu chosen" in text
    for line in text.splitlines():
        if line.startswith("!["):
            picture = page.parent / line.split("](")[1].rstrip(")")
            assert picture.read_bytes().startswith(b"\x89PNG")
    assert "](page/open-accuracy.png)" in text
    with pytest.raises(BadFileError, match="run `tensormargin reproduce` first"):
        read_results(tmp_path / "docs")


def a_cell(method, accuracy, paper, size=10_000, **values):
    defaults = {
        "tuned": "lam", "sd": 0.1, "n_splits": 5, "n_fits": 225, "fit_seconds": 0.1, "lam": 100.0, "mu": 1.0,
        "at_low": 0.0, "at_high": 0.0, "sweeps": 5.0, "largest_gap": 1e-5, "unconverged": 0, "n_parameters": 60,
        "seed": 0, "versions": '{"python": "3"}',
    }  # fmt: skip
    return CellSummary("MNIST", size, method, accuracy=accuracy, paper=paper, **{**defaults, **values})


def test_findings_say_what_is_below_the_paper_at_the_edge_or_unconverged(tmp_path):
    cells = [
        a_cell("TuSPMD-LRT", 98.0, 98.09),
        a_cell("SPMD-LRT", 97.0, 95.66),
        a_cell("STuM", 98.0, float("nan"), 30_000),
        a_cell("SVM", 98.5, 91.64, at_high=0.8, unconverged=2),
    ]
    one = TableResults("table2", cells, [])
    text = " ".join(findings(one))
    assert "at or above the paper's figure in 1 of the 2 cells" in text
    assert "below it: TuSPMD-LRT on MNIST 10000" in text
    assert "at or above the paper's figure in 1 of the 1 cells" in text
    assert "2 of 900 fits stopped before they converged" in text
    assert "end of the grid: the largest for SVM on MNIST 10000" in text
    table = accuracy_table(one)
    assert "98.00 ± 0.10 (98.09)" in table
    assert "98.00 ± 0.10** (-)" in table
    assert "0 of the" not in page_text([one], tmp_path)


def test_data_are_loaded_once_in_a_process():
    assert load_once(DIGITS.load) is load_once(replace(DIGITS, repeats=1).load)
    assert load_once(partial(spoiled_digits, 0)) is not load_once(partial(spoiled_digits, 1))
