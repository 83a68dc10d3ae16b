"""End-to-end tests of every table of `tensormargin reproduce --quick`: complete rows, means within their bands."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import WHOLE_CAMPAIGN, run

from tensormargin import METHODS
from tensormargin.cli.reproduce import TABLES
from tensormargin.datasets import make_fmri_like
from tensormargin.paper import PROTOCOLS, Row, RowStore, quick, read_results
from tensormargin.paper.page import TITLES

# Measured mean accuracy of the seven methods in percent, in the order of METHODS, and the tolerance. The quick tables
# are small (a thousand images, six pairs, two folds), so the tolerance corresponds to a few test samples.
BANDS = {
    "table2": {"MNIST": ((98.03, 97.84, 96.90, 98.07, 96.89, 97.81, 97.81), 0.5)},
    "table4": {"ORL 32x32": ((100.0,) * 7, 1.0)},
    "table5": {"ORL 64x64": ((100.0,) * 7, 1.0)},
    "open": {
        "Haxby slice": ((89.81, 92.59, 89.35, 91.20, 87.96, 90.28, 91.20), 2.5),
        "EEG": ((67.95, 71.79, 80.13, 75.64, 80.13, 67.63, 63.46), 6.0),
        "Indian Pines": ((90.76, 92.05, 90.64, 90.57, 91.49, 92.00, 91.95), 2.0),
        "AdrenalMNIST3D, own split": ((76.85, 76.85, 76.85, 76.85, 78.19, 77.85, 77.18), 2.0),
    },
}


LONGER = [
    pytest.param("table2", marks=pytest.mark.campaign),
    pytest.param("table5", marks=pytest.mark.campaign),
    pytest.param("open", marks=WHOLE_CAMPAIGN),
]


@pytest.mark.parametrize("table", ["table4", *LONGER])
def test_quick_tables_are_complete_and_in_their_bands(table, data_folder, tmp_path):
    result = run("reproduce", table, "--quick", "--out", tmp_path)
    assert result.returncode == 0, result.stderr
    evaluations = quick(PROTOCOLS[table]())
    rows = RowStore(tmp_path / f"{table}-quick" / "rows", Row).read()
    assert len(rows) == sum(
        len(METHODS) * e.repeats * len(e.sizes) * e.folds * len(e.class_pairs(e.load().target)) for e in evaluations
    )
    assert all(row.converged and row.gap <= 1e-4 for row in rows)
    for data, (measured, width) in BANDS[table].items():
        for method, expected in zip(METHODS, measured, strict=True):
            mean = 100 * np.mean([row.accuracy for row in rows if (row.data, row.method) == (data, method)])
            assert mean == pytest.approx(expected, abs=width), (data, method)
    assert set(BANDS[table]) == {evaluation.data for evaluation in evaluations}


@pytest.fixture(scope="module")
def brought(tmp_path_factory):
    """Return a folder with small files in the format of the paper's fMRI arrays."""
    from scipy.io import savemat

    folder = tmp_path_factory.mktemp("brought")
    adni = make_fmri_like(9, (8, 9, 7), height=5.0, radius=2.0, random_state=0)
    savemat(folder / "adni.mat", {"fmri": np.moveaxis(adni.data, 0, -1), "label": 2.0 * adni.target[:, None] - 1})
    adhd = make_fmri_like(40, (8, 9, 7), height=5.0, radius=2.0, random_state=1)
    np.savez(folder / "adhd.npz", X=adhd.data, y=2 * adhd.target - 1)
    return folder


@pytest.mark.campaign
def test_table6_runs_on_files_that_the_user_brings(brought, tmp_path):
    arguments = ["--adni", brought / "adni.mat", "--adhd", brought / "adhd.npz", "--out", tmp_path]
    methods = ("SVM", "SPMD-LRT", "TuSPMD-LRT")
    result = run("reproduce", "table6", "--quick", *arguments, "--methods", ",".join(methods), "--jobs", 2)
    assert result.returncode == 0, result.stderr
    rows = RowStore(tmp_path / "table6-quick" / "rows", Row).read()
    assert len(rows) == 2 * 2 * len(methods)
    adhd = [row for row in rows if row.data == "ADHD-200"]
    assert {(row.n_train, row.n_test) for row in adhd} == {(32, 8)}
    assert np.mean([row.accuracy for row in adhd]) > 0.9  # the blob is easy to detect
    assert "(66.67)" not in result.stdout  # the paper used another number of folds


def test_table6_whole_leaves_each_subject_out(brought, tmp_path):
    arguments = ["--adni", brought / "adni.mat", "--methods", "SVM", "--out", tmp_path, "--jobs", 1]
    result = run("reproduce", "table6", *arguments)
    assert result.returncode == 0, result.stderr
    rows = RowStore(tmp_path / "table6" / "rows", Row).read()
    assert sorted(row.fold for row in rows if row.method == "SVM") == list(range(9))
    assert {row.n_test for row in rows} == {1}
    page = run("results", "--out", tmp_path, "-o", tmp_path / "page.md")
    assert page.returncode == 0, page.stderr
    assert "Table 6: resting-state fMRI" in (tmp_path / "page.md").read_text()
    (one,) = read_results(tmp_path)
    assert one.columns == [("ADNI", 8)]
    assert "(55.56)" in (tmp_path / "page.md").read_text()  # the paper's figure next to ours
    arguments = ["--adhd", brought / "adhd.npz", "--methods", "SVM", "--out", tmp_path, "--jobs", 1]
    assert run("reproduce", "table6", *arguments).returncode == 0
    (one,) = read_results(tmp_path)
    assert one.columns == [("ADNI", 8), ("ADHD-200", 32)]  # earlier results stay in the summary


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("table6",), "may not be redistributed"),
        (("table6", "--adni", "absent.mat"), "no such file"),
        (("table4", "--adhd", "a.mat"), "belong to table6"),
        (("table3",), "'table3' is not one of"),
        (("table6", "--adni", "ADNI", "--adhd", "ONE"), "must hold two classes"),
        (("table6", "--adni", "ADNI", "--methods", "KSTM"), "unknown method KSTM"),
        (("table6", "--adni", "ADNI", "--sizes", "many"), "whole numbers"),
        (("table6", "--adni", "ADNI", "--sizes", "5"), "the sizes are [8]"),
        (("table6", "--adni", "ADNI", "--repeats", "0"), "repeats"),
        (("table6", "--adni", "ADNI", "--jobs", "0"), "number of processes"),
    ],
)
def test_bad_options_are_refused_before_any_work(arguments, message, brought, tmp_path):
    np.savez(tmp_path / "one.npz", X=np.ones((9, 3, 4, 5)), y=np.ones(9))
    files = {"ADNI": str(brought / "adni.mat"), "ONE": str(tmp_path / "one.npz")}
    arguments = [files.get(argument, argument) for argument in arguments]
    result = run("reproduce", *arguments, "--out", tmp_path / "out", cwd=tmp_path)
    assert result.returncode == 2
    assert message in " ".join(result.stderr.replace("│", " ").split())
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "out").exists()


def test_without_data_the_command_says_what_to_do(tmp_path, monkeypatch):
    def refuse(*args, **kwargs):
        raise OSError("no network in this test")

    monkeypatch.delenv("TENSORMARGIN_DATA", raising=False)
    monkeypatch.setenv("TENSORMARGIN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("tensormargin.datasets._store.urlopen", refuse)
    monkeypatch.setattr("tensormargin.paper.protocols._LOADED", {})  # drop data loaded by earlier tests
    result = run("reproduce", "table2", "--out", tmp_path / "out")
    assert result.returncode == 2
    assert "set TENSORMARGIN_DATA" in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr


def test_a_damaged_file_of_rows_gives_one_message(brought, tmp_path):
    folder = tmp_path / "table6-quick" / "rows"
    folder.mkdir(parents=True)
    (folder / "a.parquet").write_bytes(b"junk")
    result = run("reproduce", "table6", "--quick", "--adni", brought / "adni.mat", "--out", tmp_path, "--jobs", 1)
    assert result.returncode == 2
    assert "remove it to have its rows made again" in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr


def test_the_command_knows_the_tables_that_there_are():
    assert set(TABLES) == set(PROTOCOLS) == set(TITLES)


def test_help_shows_examples():
    result = run("reproduce", "--help")
    assert "tensormargin reproduce table2 --quick" in result.stdout
    assert run("results", "--help").returncode == 0


def test_results_without_summaries_are_refused(tmp_path):
    result = run("results", "--out", tmp_path, "-o", tmp_path / "page.md")
    assert result.returncode == 2
    assert "reproduce" in result.stderr
    assert not (tmp_path / "page.md").exists()
