"""Tests of the comparison, as a function and as a command."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
from campaigns import comparisons
from conftest import low_rank_classes, run

from tensormargin import METHODS, make_method
from tensormargin.evaluation import CompareRow, CompareSettings, compare, comparison, differences_from, summarise
from tensormargin.evaluation.intervals import inflation, wilson


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    X, y = low_rank_classes(0, 60, (4, 5), 3.0)
    path = tmp_path_factory.mktemp("data") / "samples.npz"
    np.savez(path, X=X, y=np.where(y > 0, "b", "a"))
    return path


def without_times(rows):
    left_out = ("fit_seconds", "test", "right", "predicted")
    return [{key: value for key, value in vars(row).items() if key not in left_out} for row in rows]


def test_rows_are_complete_reproducible_and_scored_on_the_test_part():
    X, y = low_rank_classes(0, 60, (4, 5), 3.0)
    settings = CompareSettings(methods=("SVM", "SPMD-LRT"), repeats=2, seed=3)
    rows = list(compare(X, y, settings))
    assert sorted((row.method, row.repeat) for row in rows) == [
        (name, repeat) for name in ("SPMD-LRT", "SVM", "majority class") for repeat in (0, 1)
    ]
    assert str(without_times(rows)) == str(without_times(compare(X, y, settings)))  # NaN is not equal to itself
    from sklearn.model_selection import StratifiedShuffleSplit

    train, test = next(StratifiedShuffleSplit(2, test_size=0.25, random_state=3).split(X, y))
    row = next(row for row in rows if row.method == "SVM" and row.repeat == 0)
    again = make_method("SVM", lam=row.lam).fit(X[train], y[train])
    assert row.accuracy == again.score(X[test], y[test])
    assert (row.n_train, row.n_test) == (45, 15)
    assert row.n_parameters == 21


def test_two_jobs_give_the_same_rows():
    X, y = low_rank_classes(0, 40, (4, 5), 3.0)
    settings = CompareSettings(methods=("STM", "LMDM"), repeats=2, lam_grid=(1.0,))
    one = sorted(without_times(compare(X, y, settings)), key=str)
    two = sorted(without_times(compare(X, y, settings, n_jobs=2)), key=str)
    for a, b in zip(one, two, strict=True):
        assert a == {
            key: pytest.approx(value, rel=1e-9, nan_ok=True) if isinstance(value, float) else value
            for key, value in b.items()
        }


def test_lambda_is_chosen_without_the_test_part():
    """Check that replacing the test samples by noise does not change the choice."""
    X, y = low_rank_classes(1, 60, (4, 5), 1.0)
    settings = CompareSettings(methods=("LMDM",), repeats=1)
    ((_, test),) = comparison.comparison_splits(y, settings, None)
    spoiled = X.copy()
    spoiled[test] = np.random.RandomState(0).standard_normal((len(test), 4, 5))
    honest, _ = sorted(compare(X, y, settings), key=lambda row: row.method)
    same, _ = sorted(compare(spoiled, y, settings), key=lambda row: row.method)
    assert honest.lam == same.lam
    assert honest.accuracy != same.accuracy


def test_summaries_average_over_the_splits():
    X, y = low_rank_classes(0, 60, (4, 5), 2.0)
    rows = list(compare(X, y, CompareSettings(methods=("SVM",), repeats=3, lam_grid=(1.0,))))
    (summary,) = summarise(rows, ("SVM",))
    accuracies = [row.accuracy for row in rows if row.method == "SVM"]
    assert summary.accuracy == pytest.approx(np.mean(accuracies))
    assert summary.accuracy_sd == pytest.approx(np.std(accuracies, ddof=1))


def test_the_command_prints_a_table(archive):
    result = run("compare", archive, "--methods", "SVM, STM", "--repeats", 2)
    assert result.returncode == 0, result.stderr
    assert "samples.npz: 60 samples of 4 x 5, 2 classes" in result.stdout
    lines = [line.split() for line in result.stdout.splitlines()]
    assert [line[0] for line in lines if line and line[0] in METHODS] == ["SVM", "STM"]
    assert "±" in result.stdout


def test_the_command_prints_json(archive):
    result = run("compare", archive, "--methods", "STM,STuM", "--repeats", 2, "--seed", 5, "--json")
    assert result.returncode == 0, result.stderr
    content = json.loads(result.stdout)
    assert [summary["method"] for summary in content["summary"]] == ["STM", "STuM", "majority class"]
    assert len(content["rows"]) == 6
    assert {row["seed"] for row in content["rows"]} == {5}
    assert {"tensormargin", "numpy", "scikit-learn"} <= set(content["versions"])
    assert content["data"]["sample_shape"] == [4, 5]


def bad_archives(folder):
    X, y = low_rank_classes(0, 20, (3, 4), 3.0)
    np.savez(folder / "nokey.npz", one=X, two=X, y=y)
    np.savez(folder / "nolabels.npz", X=X)
    np.savez(folder / "nan.npz", X=np.where(X > 2, np.nan, X), y=y)
    np.savez(folder / "text.npz", X=X.astype(str), y=y)
    np.savez(folder / "lengths.npz", X=X, y=y[1:])
    np.savez(folder / "flat.npz", X=X[:, 0, 0], y=y)
    np.savez(folder / "one.npz", X=X, y=np.ones(20))
    np.savez(folder / "few.npz", X=X, y=np.arange(20) < 2)
    np.savez(folder / "complex.npz", X=X * 1j, y=y)
    np.savez(folder / "empty.npz", X=X[:, :, :0], y=y)
    np.savez(folder / "nanlabels.npz", X=X, y=np.where(y > 0, np.nan, y))
    np.savez(folder / "continuous.npz", X=X, y=np.linspace(0, 1, 20))
    np.savez(folder / "pickled.npz", X=np.array([{"a": 1}], dtype=object), y=np.ones(1))
    (folder / "disguised.npz").write_bytes(pickle.dumps({"X": 1}))
    whole = (folder / "nokey.npz").read_bytes()
    (folder / "short.npz").write_bytes(whole[: len(whole) // 2])


BAD = {
    "absent.npz": "no such file",
    "nokey.npz": "2 of its arrays could be the samples; it holds one",
    "nolabels.npz": "has no labels under the names y",
    "nan.npz": "holds NaN",
    "text.npz": "must hold real numbers",
    "complex.npz": "must hold real numbers",
    "empty.npz": "none of them 0",
    "nanlabels.npz": "row 2 has no value (NaN)",
    "continuous.npz": "labels must be classes, and a quantity was found",
    "lengths.npz": "19 labels, but 20 samples",
    "flat.npz": r"(n_samples, I_1, ...)",
    "one.npz": "at least two classes",
    "few.npz": "Use fewer folds",
    "pickled.npz": "Python objects are not accepted",
    "disguised.npz": "not an .npz file",
    "short.npz": "cut short",
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_gives_one_clear_message_and_exit_code_2(name, tmp_path):
    bad_archives(tmp_path)
    result = run("compare", tmp_path / name, "--repeats", 1)
    assert result.returncode == 2
    assert BAD[name] in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--methods", "KSTM"), "unknown method KSTM"),
        (("--repeats", "0"), "repeats"),
        (("--test-size", "1"), "test-size"),
        (("--folds", "1"), "folds"),
        (("--test-size", "0.01"), "may hold none of them"),
        (("--jobs", "0"), "must be a number of processes"),
        (("--seed", "99999999999"), "seed"),
        (("--methods", ","), "unknown method (none)"),
    ],
)
def test_bad_options_are_refused(arguments, message, archive):
    result = run("compare", archive, *arguments)
    assert result.returncode == 2
    assert message in result.stderr


def test_vectors_can_be_compared_by_all_methods():
    X, y = low_rank_classes(0, 40, (5,), 3.0, rank=1)
    rows = list(compare(X, y, CompareSettings(repeats=1, lam_grid=(1.0,))))
    assert {row.method for row in rows} == {*METHODS, "majority class"}


def test_help_shows_an_example():
    result = run("compare", "--help")
    assert result.returncode == 0
    assert "tensormargin compare samples.npz" in result.stdout


# ---- statements of a comparison ----


def made_up(outcomes: dict[str, np.ndarray], n_samples: int = 60) -> list[CompareRow]:
    """Return rows of methods with the given correct predictions per split, on overlapping test sets."""
    rows = []
    for method, right in outcomes.items():
        for repeat, own in enumerate(right):
            test = (np.arange(len(own)) + 7 * repeat) % n_samples
            rows.append(
                CompareRow(
                    method,
                    repeat,
                    0,
                    own.mean(),
                    0.1,
                    1.0,
                    3,
                    1.0,
                    1.0,
                    n_samples - len(own),
                    len(own),
                    True,
                    test,
                    own,
                )
            )
    return rows


def test_splits_that_agree_do_not_make_an_interval_of_width_zero():
    right = np.tile(np.arange(12) > 1, (3, 1))  # ten of twelve, three times
    (summary,) = summarise(made_up({"SVM": right}), ["SVM"])
    assert summary.accuracy_sd == 0.0
    assert summary.accuracy == pytest.approx(10 / 12)
    assert summary.accuracy_low < 0.75
    assert summary.accuracy_high > 0.9


def test_one_split_has_wilsons_interval():
    right = np.arange(12)[None] > 1
    (summary,) = summarise(made_up({"SVM": right}), ["SVM"])
    number = 12 / inflation(12 / 16, 12 / 48)  # 12 samples tested, 48 in the training set; shrunk to 12 of 16
    assert (summary.accuracy_low, summary.accuracy_high) == pytest.approx(wilson(10 / 12, number))
    few = summarise(made_up({"SVM": right}), ["SVM"], np.arange(60) % 3)
    assert (few[0].accuracy_low, few[0].accuracy_high) == (None, None)


def test_methods_differ_by_their_paired_difference():
    """Accuracies vary a lot between splits, but one method is always slightly worse than the other."""
    rng = np.random.default_rng(0)
    good = np.stack([rng.uniform(size=40) < share for share in (0.6, 0.95, 0.75, 0.9, 0.65)])
    worse = good.copy()
    for own in worse:
        own[np.flatnonzero(own)[:10]] = False
    other = np.stack([rng.permutation(own) for own in good])
    rows = made_up({"good": good, "worse": worse, "other": other})
    first, second, _ = summarise(rows, ["good", "worse", "other"])
    assert first.accuracy_low < second.accuracy_high  # the intervals overlap
    differences = {one.method: one for one in differences_from("good", rows, ["good", "worse", "other"])}
    assert set(differences) == {"worse", "other"}
    assert differences["worse"].against == "good"
    assert differences["worse"].difference == pytest.approx(-0.25, abs=0.05)
    assert differences["worse"].significant
    assert differences["worse"].high < 0
    assert not differences["other"].significant
    assert 0 < differences["worse"].detectable < differences["other"].detectable < 1
    (alone,) = differences_from("good", rows, ["good", "worse"])
    assert alone.p_value == pytest.approx(differences["worse"].p_value / 2)  # Holm: one comparison instead of two
    reverse = {one.method: one for one in differences_from("worse", rows, ["good", "worse", "other"])}
    assert reverse["good"].difference == pytest.approx(-differences["worse"].difference)


def test_comparisons_are_right_in_nineteen_of_twenty_data_sets_and_find_differences():
    """Seven methods on 120 samples: 15 points were found in 6 % of such data sets when all pairs were tested."""
    rng = np.random.default_rng(0)
    equal = [comparisons.comparison(120, 10, [0.7] * 7, rng) for _ in range(60)]
    assert np.mean([any(one.significant for one in found) for found in equal]) <= 0.06 + 2 * np.sqrt(0.06 * 0.94 / 60)
    better = [comparisons.comparison(120, 10, [0.7, 0.85, 0.7, 0.7, 0.7, 0.7, 0.7], rng)[0] for _ in range(60)]
    assert np.mean([one.significant for one in better]) >= 0.5
    assert {one.against for one in better} == {"method 0"}


def test_every_sample_is_tested_equally_often():
    y = np.arange(60) % 2
    splits = comparison.comparison_splits(y, CompareSettings(repeats=8), None)
    assert np.bincount(np.concatenate([test for _, test in splits])).tolist() == [2] * 60


def test_the_method_that_all_are_compared_with_is_chosen(archive):
    result = run("compare", archive, "--methods", "STM,SVM", "--against", "SVM", "--repeats", 2, "--json")
    assert {one["against"] for one in json.loads(result.stdout)["differences"]} == {"SVM"}
    result = run("compare", archive, "--methods", "STM,SVM", "--against", "LMDM")
    assert result.returncode == 2
    assert "against must be one of the compared methods, STM, SVM, majority class; got 'LMDM'" in " ".join(
        result.stderr.split()
    )


def test_labels_and_groups_of_pandas_are_taken_by_position():
    pandas = pytest.importorskip("pandas")
    X, y = low_rank_classes(0, 60, (4, 5), 3.0)
    labels, groups = np.where(y > 0, "b", "a"), np.arange(60) // 5
    index = np.random.default_rng(0).permutation(60)
    settings = CompareSettings(methods=("SVM",), repeats=2, lam_grid=(1.0,))
    expected = without_times(compare(X, labels, settings, groups=groups))
    for own_labels, own_groups in (
        (pandas.Series(labels, index=index), pandas.Series(groups, index=index)),
        (pandas.Series(labels, index=index, dtype="string"), groups.tolist()),
    ):
        found = without_times(compare(X, own_labels, settings, groups=own_groups))
        assert str(found) == str(expected)


def test_the_majority_class_has_its_row(archive):
    X, y = low_rank_classes(0, 60, (4, 5), 3.0)
    y[np.flatnonzero(y > 0)[:12]] = -1
    rows = [
        row for row in compare(X, y, CompareSettings(methods=("SVM",), repeats=2)) if row.method == "majority class"
    ]
    assert [row.accuracy for row in rows] == pytest.approx([0.7, 0.7], abs=0.04)
    assert {row.n_parameters for row in rows} == {0}
