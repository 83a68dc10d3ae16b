"""Tests of the patterns that a person sees first: of planted rhythms, of an event-related potential, and of noise."""

from __future__ import annotations

import csv
import re
from dataclasses import replace

import numpy as np
import pytest
from conftest import fewer_models, run
from sklearn.pipeline import make_pipeline

from tensormargin import (
    Axis,
    BandPower,
    Convolutions,
    Covariances,
    TensorMarginClassifier,
    TensorUnion,
    Views,
    activation_pattern,
    load_model,
    load_samples,
    save_model,
)
from tensormargin.inspection import MapText, Pattern, feature_patterns, in_units, shown_patterns
from tensormargin.report import model_page, render

pytestmark = pytest.mark.usefixtures("blank_figures")

NAMES, SFREQ = ["Fz", "Cz", "Pz", "O1", "O2"], 64.0
TIMES = np.arange(64) / SFREQ - 0.2
PEAK = int(np.argmin(np.abs(TIMES - 0.38)))


def recordings(n=80):
    """Return noise of five electrodes with slow drifts in volts, labels, and 8 groups."""
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat(["rest", "task"], n // 2))
    X = rng.normal(size=(n, len(NAMES), len(TIMES)))
    X += 0.2 * np.cumsum(rng.normal(size=X.shape), axis=2)
    return rng, 1e-5 * X, y, np.arange(n) % 8


def rhythms():
    """Return recordings with a source of 10 Hz in O1 and O2, stronger in one class, with a random phase."""
    rng, X, y, groups = recordings()
    phases = rng.uniform(0, 2 * np.pi, len(y))[:, None]
    source = np.where(y == "task", 1.6, 0.6)[:, None] * np.sin(2 * np.pi * 10 * TIMES + phases)
    X[:, 3:] += 1e-5 * source[:, None]
    return X, y, groups


def event_related():
    """Return recordings with a potential at Pz, 380 ms after the event, in one class."""
    _, X, y, groups = recordings()
    X[:, 2] += 4e-5 * (y == "task")[:, None] * np.exp(-0.5 * ((TIMES - 0.38) / 0.06) ** 2)
    return X, y, groups


def fitted(X, y):
    """Return a model of the views that `fit` tries for EEG, but with fewer features."""
    views = [
        ("power", BandPower(8, SFREQ)),
        ("covariances", Covariances()),
        ("convolutions", Convolutions(n_features=200, vectorize=True)),
    ]
    return make_pipeline(TensorUnion(views), TensorMarginClassifier("full")).fit(X, y)


def saved(path, X, y, groups):
    """Write recordings as a file."""
    names = {"mode_names": ["channel", "time[s]"], "mode_values_channel": NAMES, "mode_values_time": TIMES}
    np.savez(path, X=X, y=y, groups=groups, **names)
    return path


@pytest.fixture(scope="module")
def of_rhythms():
    X, y, groups = rhythms()
    return fitted(X, y), X, y, groups


def test_rhythms_are_shown_as_power_and_covariances_not_as_noise(of_rhythms):
    model, X, y, groups = of_rhythms
    patterns, shares = feature_patterns(model, X, y, groups), model[-1].view_shares_
    assert list(patterns) == sorted(["power", "covariances"], key=lambda name: -shares[name].mean())
    assert all(own.is_reproducible and own.by == "groups" for own in patterns.values())
    channel, band = np.unravel_index(np.argmax(patterns["power"].maps[0]), patterns["power"].maps[0].shape)
    _, low, high = model[0].transformers_[0][1].bands_[band]
    assert NAMES[channel] in ("O1", "O2")
    assert low <= 10 < high
    assert np.argmax(patterns["covariances"].maps[0][3:, 3:]) in (0, 3)
    assert np.abs(activation_pattern(model, X, y)).max() > 0  # it exists, but halves of the groups do not agree on it


def test_an_event_related_potential_is_shown_on_the_samples():
    X, y, groups = event_related()
    patterns = feature_patterns(fitted(X, y), X, y, groups)
    assert next(iter(patterns)) == ""
    assert patterns[""].is_reproducible
    channel, time = np.unravel_index(np.argmax(patterns[""].maps[0]), X.shape[1:])
    assert NAMES[channel] == "Pz"
    assert abs(time - PEAK) <= 2  # of a peak of 8 entries, which lies between two of them


def test_halves_of_groups_do_not_agree_on_what_single_groups_have():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(8), 20)
    y = groups % 2
    X = rng.normal(size=(160, 6, 5)) + 2 * rng.normal(size=(8, 6, 5))[groups]
    model = TensorMarginClassifier("full").fit(X, y)
    (by_samples,), (by_groups,) = (feature_patterns(model, X, y, own)[""].halves for own in (None, groups))
    assert by_samples > 0.8
    assert by_groups < 0.5
    one_each = feature_patterns(model, X, y, y)[""]  # halves of groups would have one class each
    assert (one_each.by, one_each.halves) == ("samples", [by_samples])


def test_correlations_are_those_of_patterns_of_two_halves():
    X, y, _ = event_related()
    model = TensorMarginClassifier("full").fit(X, y)
    two = np.arange(len(y)) % 2  # two groups can be halved in one way
    first, second = (activation_pattern(model, X[two == k], y[two == k]).ravel() for k in (0, 1))
    found = feature_patterns(model, X, y, two)[""]
    assert found.halves == pytest.approx([np.corrcoef(first, second)[0, 1]])
    np.testing.assert_allclose(found.maps, activation_pattern(model, X, y))


def test_samples_that_lack_a_view_are_left_out_of_its_halves():
    X, y, groups = event_related()
    lacking = X.copy()
    lacking[:30] = np.nan
    model = TensorMarginClassifier("cp", 1).fit(Views(one=X, other=lacking), y)
    found = feature_patterns(model, Views(one=X, other=lacking), y, groups)
    assert list(found) == ["one", "other"]
    assert np.isfinite([own.halves[0] for own in found.values()]).all()


def test_peaks_are_told_by_the_names_of_channels_and_times(tmp_path):
    X, y, groups = event_related()
    model = TensorMarginClassifier("cp", 1).fit(X, y)
    samples = load_samples(saved(tmp_path / "eeg.npz", X, y, groups))
    save_model(tmp_path / "m.skops", model, samples=samples, patterns=feature_patterns(model, X, y, groups))
    done = run("maps", tmp_path / "m.skops", "-o", tmp_path / "maps")
    assert done.returncode == 0, done.stderr
    heads, first, *_ = csv.reader((tmp_path / "maps" / "pattern-clusters.csv").read_text().splitlines())
    assert heads == ["signs", "peak", "at", "entries"]
    at = int(np.argmax(np.abs(activation_pattern(model, X, y)[0, 2])))
    assert first[2] == f"Pz, {1000 * TIMES[at]:.0f} ms"
    assert abs(at - PEAK) <= 2
    odd = (Axis("channel", "", ["=1+1", *NAMES[1:]]), samples.axes[1])
    pattern = np.zeros((1, *X.shape[1:]))
    pattern[0, 0, 0] = 1.0
    save_model(tmp_path / "odd.skops", model, axes=odd, patterns=pattern)
    assert run("maps", tmp_path / "odd.skops", "-o", tmp_path / "odd").returncode == 0
    assert run("maps", tmp_path / "odd.skops", "-o", tmp_path / "odd").returncode == 0  # its own files are replaced
    _, row = csv.reader((tmp_path / "odd" / "pattern-clusters.csv").read_text().splitlines())
    assert row[2] == "'=1+1, -200 ms"


def test_modes_that_no_source_names_are_those_of_the_kind_of_samples(tmp_path):
    X, y, _ = event_related()
    np.savez(tmp_path / "bare.npz", X=X, y=y)
    plain = ("--linear", "--kind", "eeg", "--sfreq", SFREQ, "--folds", 2, "--outer-folds", 0)
    with fewer_models():
        assert run("fit", tmp_path / "bare.npz", *plain).returncode == 0
    page = (tmp_path / "bare.html").read_text()
    assert "axes of the samples: channel x time (s)." in page
    assert '"name": "time"' in page
    assert run("maps", tmp_path / "bare.skops", "-o", tmp_path / "maps").returncode == 0
    heads, first, *_ = csv.reader((tmp_path / "maps" / "pattern-clusters.csv").read_text().splitlines())
    assert re.fullmatch(r"channel 2, \d+ ms", first[heads.index("at")])


def test_small_numbers_are_in_microvolts_or_powers_of_ten(tmp_path):
    X, y, groups = event_related()
    model = TensorMarginClassifier("cp", 1).fit(X, y)
    samples = load_samples(saved(tmp_path / "eeg.npz", X, y, groups))
    for unit, words in (("V", "(µV)"), (None, "(10⁻⁶)")):
        known = replace(samples, unit=unit)
        save_model(tmp_path / "m.skops", model, samples=known, patterns=feature_patterns(model, X, y, groups))
        loaded = load_model(tmp_path / "m.skops")
        page = model_page(loaded.model, loaded.facts, None, None, loaded.patterns)
        (viewer,) = (one for one in page.sections if one.template == "maps.html")
        pattern = loaded.patterns[""].maps[0]
        shown = viewer.maps["problems"][0]["maps"][0]
        assert shown["signs"] == f"red = task, blue = rest {words}"
        assert shown["peak"]["value"] == pytest.approx(1e6 * pattern.flat[np.abs(pattern).argmax()])
        assert run("maps", tmp_path / "m.skops", "-o", tmp_path / "maps", "--overwrite").returncode == 0
        rows = list(csv.reader((tmp_path / "maps" / "pattern-clusters.csv").read_text().splitlines()))
        assert rows[1][0] == f"positive = task, negative = rest {words}"
        assert float(rows[1][1]) == pytest.approx(shown["peak"]["value"], rel=0.01)
        np.testing.assert_array_equal(np.load(tmp_path / "maps" / "pattern.npy"), pattern)  # for other programs


def test_readable_units():
    text = MapText("pattern", "positive = b", "red = b")

    def words(largest, unit):
        maps, (named,) = in_units(np.array([[largest, 0.0]]), [text], unit)
        return round(float(maps.max()), 6), named.colours.removeprefix("red = b").strip()

    assert words(0.0, "V") == (0.0, "(V)")
    assert words(3e-5, "V") == (30.0, "(µV)")
    assert words(4e-14, "T") == (40.0, "(fT)")
    assert words(12.0, "µV") == (12.0, "(µV)")
    assert words(2e-5, "counts") == (20.0, "(10⁻⁶ counts)")
    assert words(2e5, None) == (200.0, "(10³)")
    assert words(0.5, "") == (0.5, "")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with recordings of rhythms, a model that `fit` has chosen for them, and its report."""
    folder = tmp_path_factory.mktemp("rhythms")
    saved(folder / "eeg.npz", *rhythms())
    with fewer_models():
        done = run("fit", folder / "eeg.npz", "--groups", "groups", "--folds", 2, "--outer-folds", 4)
    assert done.returncode == 0, done.stderr
    return folder


class TestCommands:
    def test_report_and_maps_show_what_the_fit_has_stored(self, folder):
        loaded = load_model(folder / "eeg.skops")
        assert {"power", "covariances"} == set(loaded.patterns)
        done = run("maps", folder / "eeg.skops", "-o", folder / "maps")
        page = (folder / "eeg.html").read_text()
        for name, pattern in loaded.patterns.items():
            sentence = f"Halves of the groups agree on it (r = {pattern.halves[0]:.2f})."
            assert f"Pattern of {name}: {sentence}" in done.stderr
            assert len(re.findall(re.escape(sentence), page)) >= 2  # in the figures and in the section of the view
            np.testing.assert_allclose(np.load(folder / "maps" / f"pattern-{name}.npy"), pattern.maps[0], rtol=1e-6)
        assert not (folder / "maps" / "pattern.png").exists()
        assert "The pattern of the samples as they are is not shown" in page
        assert "do not read" not in page + done.stderr
        head, *rows = csv.reader((folder / "maps" / "pattern-power.csv").read_text().splitlines())
        assert head[:2] == ["channel", "frequency (Hz)"]
        assert {row[0] for row in rows} == set(NAMES)

    def test_are_the_same_with_the_samples(self, folder):
        asked = ("maps", folder / "eeg.skops", folder / "eeg.npz", "--groups", "groups", "-o", folder / "again")
        assert run(*asked).stderr == run("maps", folder / "eeg.skops", "-o", folder / "maps").stderr
        run("report", folder / "eeg.skops", "-o", folder / "alone.html")
        texts = [
            re.findall(r"Halves of the \w+ agree[^.]*\.\d\d\)", (folder / name).read_text())
            for name in ("eeg.html", "alone.html")
        ]
        assert texts[0] == texts[1] != []


def test_patterns_of_samples_stored_by_version_0_2_are_not_shown_if_the_model_is_not_linear(of_rhythms, tmp_path):
    model, X, y, _ = of_rhythms
    save_model(tmp_path / "m.skops", model, patterns=activation_pattern(model, X, y))
    assert list(load_model(tmp_path / "m.skops").patterns) == [""]
    done = run("maps", tmp_path / "m.skops", "-o", tmp_path / "maps")
    assert done.returncode == 0
    assert not list((tmp_path / "maps").glob("pattern*"))
    linear = TensorMarginClassifier("cp", 1).fit(X, y)
    stored = {"": Pattern(activation_pattern(linear, X, y), [float("nan")], "samples")}
    assert shown_patterns(linear, stored) == stored


@pytest.mark.parametrize("shuffled", [False, True])
def test_maps_of_models_at_chance_come_last_and_are_not_to_be_read(shuffled, tmp_path):
    X, y, groups = event_related()
    y = np.random.default_rng(1).permutation(y) if shuffled else y
    saved(tmp_path / "eeg.npz", X, y, groups)
    plain = ("--decomposition", "cp", "--rank", 1, "--folds", 2, "--outer-folds", 2)
    with fewer_models():
        assert run("fit", tmp_path / "eeg.npz", *plain).returncode == 0
    loaded = load_model(tmp_path / "eeg.skops")
    page = model_page(loaded.model, loaded.facts, load_samples(tmp_path / "eeg.npz"))
    drawn = [section for section in page.sections if section.template in ("field.html", "maps.html")]
    assert [section.folded for section in drawn] == [shuffled] * 2
    assert ("do not read its maps" in render(page)) == shuffled
    assert ("do not read its maps" in run("maps", tmp_path / "eeg.skops").stderr) == shuffled
    places = [page.sections.index(section) for section in drawn]
    limits = next(k for k, section in enumerate(page.sections) if section.heading == "What this does not show")
    assert all((place > limits) == shuffled for place in places)
