"""Tests of labels that a covariate, a view, the groups or the order in time give away."""

from __future__ import annotations

import nibabel
import numpy as np
import pandas as pd
import pytest
from conftest import fewer_models, low_rank_classes, run

from tensormargin import LeakageWarning, Views, load_samples, nested_evaluation
from tensormargin.data import blocks_in_time, describe_giveaways, describe_order, giveaway_channels
from tensormargin.io import leakage_warnings
from tensormargin.selection import TensorMarginClassifierCV

QUICK = ("--decomposition", "cp", "--rank", "1", "--folds", "2", "--outer-folds", "0", "--no-report")


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Return a folder with samples and a table of covariates, one of which is the diagnosis."""
    folder, n = tmp_path_factory.mktemp("study"), 36
    rng, y = np.random.default_rng(0), np.arange(36) % 3
    np.savez(folder / "eeg.npz", X=rng.standard_normal((n, 3, 4)), y=np.array(["hc", "mci", "ad"])[y])
    lines = ["age,sex,diagnosis,score"]
    for code in y:
        disease = ("none", rng.choice(["early", "late"]), "dementia")[code]
        lines.append(f"{rng.integers(50, 90)},{rng.choice(['f', 'm'])},{disease},{10 * code + rng.uniform(0, 5):.3f}")
    (folder / "people.csv").write_text("\n".join(lines))
    return folder


def test_a_covariate_that_determines_the_labels_is_named(study, tmp_path):
    with fewer_models():
        told = run("fit", study / "eeg.npz", "--covariates", study / "people.csv", *QUICK, "-o", tmp_path / "m.skops")
    assert told.returncode == 0, told.stderr
    text = " ".join(told.stderr.split())
    assert "covariate 'diagnosis' determines the labels: each of its 4 values comes with one class only" in text
    assert "covariate 'score' determines the labels: thresholds on it separate the classes in all 36 samples" in text
    assert "'age'" not in text
    assert "'sex'" not in text
    assert "--covariate-columns" in text


def test_without_that_covariate_nothing_is_said(study, tmp_path):
    options = ("--covariates", study / "people.csv", "--covariate-columns", "age,sex")
    with fewer_models():
        told = run("fit", study / "eeg.npz", *options, *QUICK, "-o", tmp_path / "m.skops")
    assert told.returncode == 0, told.stderr
    assert "determines" not in told.stderr


def test_a_view_that_determines_the_labels_is_named():
    X, y = low_rank_classes(0, 40, (3, 4), 1.0)
    search = TensorMarginClassifierCV(("cp",), ranks=(1,), lams=(1.0,), mus=(0.0,), cv=2, random_state=0)
    with pytest.warns(LeakageWarning, match="view 'scanner' determines the labels: each of its 2 values"):
        nested_evaluation(search, Views(eeg=X, scanner=y), y, cv=2)
    clinical = np.column_stack([np.random.default_rng(0).standard_normal(40), y])
    assert "column 1 of view 'clinical'" in describe_giveaways(Views(eeg=X, clinical=clinical), y)[0]
    template = np.random.default_rng(0).standard_normal((2, 5, 6))[(y > 0).astype(int)]
    assert "view 'template' determines" in describe_giveaways(Views(eeg=X, template=template), y)[0]


def test_views_that_only_help_are_not_named():
    X, y = low_rank_classes(0, 40, (3, 4), 5.0)
    rng = np.random.default_rng(0)
    site = rng.integers(0, 4, 40)
    views = Views(eeg=X, strong=3.0 * y[:, None] + rng.standard_normal((40, 3)), site=site, one=np.ones(40))
    assert describe_giveaways(views, y) == []
    few = Views(eeg=X[:6], scanner=y[:6])  # six samples agree by chance
    assert describe_giveaways(few, y[:6]) == []


def with_trigger(n=40, shape=(6, 30)):
    """Return noise whose third channel has the number of the class at a moment that differs, and the labels."""
    rng, y = np.random.default_rng(0), np.arange(n) % 2
    X = rng.standard_normal((n, *shape))
    X[:, 2] = 0
    X[np.arange(n), 2, rng.integers(0, shape[1], n)] = 1 + y
    return X, y


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda X: X, "index 2 of mode 0 (counted from 0)"),
        (lambda X: X.transpose(0, 2, 1), "index 2 of mode 1 (counted from 0)"),
        (lambda X: X[..., None].astype("f4"), "index 2 of mode 0 (counted from 0)"),
        (lambda X: X.max(axis=2), "column 2"),
        (lambda X: Views(eeg=X, age=X[:, 0, :1]), "index 2 of mode 0 (counted from 0) of view 'eeg'"),
    ],
    ids=["array", "time first", "three modes", "vectors", "views"],
)
def test_a_channel_that_determines_the_labels_is_named(change, name):
    X, y = with_trigger()
    (told,) = giveaway_channels(change(X), y)
    assert told.startswith(f"{name} determines the labels on its own: ")
    assert list(giveaway_channels(change(X[:12]), y[:12])) == []  # so few may agree by chance
    assert list(giveaway_channels(change(np.delete(X, 2, axis=1)), y)) == []


def test_a_named_channel_that_determines_the_labels(tmp_path):
    X, y = with_trigger()
    frame = pd.DataFrame({name: list(X[:, place]) for place, name in enumerate(["Cz", "Pz", "TRIG", "Oz", "Fz", "C3"])})
    search = TensorMarginClassifierCV(("cp",), ranks=(1,), lams=(1.0,), mus=(0.0,), cv=2, random_state=0)
    np.savez(tmp_path / "a.npz", X=X, y=y, channels=frame.columns.to_numpy(str), sfreq=100.0)
    (told,) = leakage_warnings(load_samples(tmp_path / "a.npz"))
    assert "channel TRIG determines the labels" in told
    with pytest.warns(LeakageWarning, match="TRIG"):
        search.fit(frame, y)
    with pytest.warns(LeakageWarning, match="TRIG"):
        nested_evaluation(search, frame, y, cv=2)


def test_channels_that_differ_by_nature_are_not_named():
    """Strong effects, counts, clipped values, black borders, and a channel that tells three of four classes."""
    rng, y = np.random.default_rng(0), np.arange(80) % 2
    strong = rng.standard_normal((80, 4, 20)) + 50 * y[:, None, None]
    counts = rng.poisson(3 + y[:, None, None], (80, 4, 20))
    clipped = np.clip(rng.standard_normal((80, 4, 20)) * (1 + y[:, None, None]), -1, 1)
    border = np.pad(rng.integers(0, 256, (80, 8, 8)), ((0, 0), (2, 2), (2, 2)))
    for X in (strong, counts, clipped, border, np.full((80, 4, 20), np.nan), np.ones((80, 4, 20))):
        assert list(giveaway_channels(X, y)) == []
    X, _ = with_trigger(80)
    assert list(giveaway_channels(X, np.arange(80) % 4)) == []


def test_what_a_group_shares_counts_once():
    y, groups = np.repeat([0, 1] * 6, 5), np.repeat(np.arange(12), 5)
    anatomy = np.random.default_rng(0).standard_normal((12, 4, 4))[groups]
    views = Views(trials=np.random.default_rng(1).standard_normal((60, 3, 4)), anatomy=anatomy)
    assert "view 'anatomy' determines" in describe_giveaways(views, y)[0]
    assert describe_giveaways(views, y, groups) == []


def test_few_groups_of_one_class_each_are_named(tmp_path):
    rng, y = np.random.default_rng(0), np.repeat(["ill", "well"], 20)
    np.savez(tmp_path / "a.npz", X=rng.standard_normal((40, 3, 4)), y=y, site=np.repeat(["a", "b", "c", "d"], 10))
    with fewer_models():
        told = run("fit", tmp_path / "a.npz", "--groups", "site", *QUICK, "-o", tmp_path / "m.skops")
    assert "the groups determine the labels, and there are 4 of them only (ill: a, b; well: c, d)" in told.stderr
    assert describe_giveaways(np.ones((40, 2)), y, np.arange(40) // 2) == []  # ten groups of each
    assert describe_giveaways(np.ones((40, 2)), y, np.arange(40) % 4) == []  # groups with both classes


def recording(folder, labels, name="bold"):
    """Write a 4-D NIfTI file and a table with an event every ten seconds."""
    volumes = np.random.default_rng(0).standard_normal((3, 3, 3, 5 * len(labels)))
    nibabel.Nifti1Image(volumes.astype(np.float32), np.eye(4)).to_filename(folder / f"{name}.nii")
    lines = [f"{10 * place}\t4\t{label}" for place, label in enumerate(labels)]
    (folder / f"{name}.tsv").write_text("\n".join(["onset\tduration\ttrial_type", *lines]))
    return folder / f"{name}.nii", ("--events", folder / f"{name}.tsv", "--tr", "2")


def test_classes_one_after_the_other_in_a_recording_are_named(tmp_path):
    path, options = recording(tmp_path, ["rest"] * 12 + ["task"] * 12)
    with fewer_models():
        told = run("fit", path, *options, *QUICK, "-o", tmp_path / "m.skops")
    assert told.returncode == 0, told.stderr
    assert "all samples of one class come before those of the next (in the order rest, task)" in told.stderr
    path, options = recording(tmp_path, ["rest", "task"] * 12)
    assert leakage_warnings(load_samples(path, events=options[1], tr=2.0)) == ()


def test_blocks_in_a_recording_without_groups_are_named(tmp_path):
    path, options = recording(tmp_path, np.repeat(["rest", "task"] * 3, 6))
    with pytest.warns(LeakageWarning, match="the labels come in 6 blocks of consecutive samples.*--groups"):
        found = load_samples(path, events=options[1], tr=2.0)
    assert leakage_warnings(found) == found.warnings
    assert load_samples(path, events=options[1], tr=2.0, groups=False).warnings == ()
    lines = options[1].read_text().splitlines()
    options[1].write_text("\n".join([lines[0], *sorted(lines[1:], key=lambda line: line.split()[2])]))
    assert leakage_warnings(load_samples(path, events=options[1], tr=2.0)) == ()  # not in the order of time


def test_a_sorted_folder_or_array_is_as_usual(tmp_path):
    np.savez(tmp_path / "a.npz", X=np.random.default_rng(0).standard_normal((40, 3, 4)), y=np.repeat([0, 1], 20))
    assert leakage_warnings(load_samples(tmp_path / "a.npz")) == ()


def test_the_order_of_several_runs():
    one = np.repeat([0, 1], 8)
    runs = np.repeat([0, 1], 16)
    assert "in every recording" in describe_order(np.concatenate([one, one]), runs)
    assert describe_order(np.concatenate([one, 1 - one]), runs) is None  # counterbalanced
    assert describe_order(np.array([0, 0, 1, 1]), None) is None  # by chance
    assert describe_order(np.arange(32) // 16, runs) is None  # one class per run: see the groups
    assert blocks_in_time(np.zeros(10)) == 0
    assert blocks_in_time(np.random.default_rng(0).integers(0, 3, 200)) == 0
    assert blocks_in_time(np.repeat([0, 1, 2, 0, 1, 2], 10)) == 6
