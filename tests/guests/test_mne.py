"""MNE-Python: decoding of EEG and MEG epochs.

`fit` and `predict` take `Epochs`. Trigger channels, EOG, ECG and what is marked as bad are left out, and a warning
names them. `SlidingEstimator` and `GeneralizingEstimator` pass on one time point at a time: a vector of channels or, if
there is one more mode such as frequencies, a matrix. `Scaler` and `Vectorizer` can come before a classifier; weights,
patterns and reports are mapped back through them. After `Vectorizer` samples are vectors and the weight is flat.
`LinearModel` needs vectors; the classifiers do not.
"""

from __future__ import annotations

import numpy as np
import pytest

mne = pytest.importorskip("mne", reason="needs MNE: pip install mne")

import pandas as pd
from mne.decoding import LinearModel, Scaler, SlidingEstimator, Vectorizer, get_coef
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tensormargin import (
    LeakageWarning,
    TensorMarginAutoClassifier,
    TensorMarginClassifier,
    TensorMarginClassifierCV,
    TensorScaler,
    activation_pattern,
    affine_form,
    load_model,
    margin_report,
    nested_evaluation,
    save_model,
    weight_maps,
)
from tensormargin.data import as_samples, axes_in, unit_in
from tensormargin.inspection import ModelChain
from tensormargin.plots import electrode_positions, plot_topography
from tensormargin.runtime import note
from tensormargin.transformers import BandPower, Covariances

CHANNELS, TIMES, SFREQ = 4, 6, 50.0
TEN = ["Fz", "Cz", "Pz", "Oz", "C3", "C4", "F7", "F8", "P7", "P8"]
INFO = mne.create_info(["Cz", "Fz", "Oz", "Pz"], SFREQ, "eeg")


@pytest.fixture(autouse=True)
def quiet():
    with mne.utils.use_log_level("error"):
        yield


@pytest.fixture(scope="module")
def recorded():
    """Return 24 epochs of 4 channels and 30 time points, of two classes."""
    rng = np.random.default_rng(0)
    codes = np.arange(24) % 2 + 1
    data = 1e-6 * (rng.standard_normal((24, CHANNELS, 30)) + codes[:, None, None])
    events = np.column_stack([np.arange(24) * 40, np.zeros(24, int), codes])
    return mne.EpochsArray(data, INFO, events, event_id={"left": 1, "right": 2}, verbose="error")


@pytest.fixture(scope="module")
def small():
    """Return samples of 4 channels and 6 time points, in volts."""
    rng = np.random.default_rng(0)
    y = np.repeat([1, 2], 20)
    X = 1e-6 * (rng.normal(size=(40, CHANNELS, TIMES)) + 5 * np.arange(CHANNELS)[:, None])
    X[y == 2, 1:3, 2:4] += 1e-6
    return X, y


def search(**parameters):
    return TensorMarginClassifierCV(("cp", "full"), (1,), (1,), (0,), cv=2, random_state=0, **parameters)


# ---- epochs are samples ----


def test_epochs_as_in_its_tutorials(recorded):
    epochs = recorded
    # page: Epochs are samples:
    from tensormargin import TensorMarginClassifier, activation_pattern

    epochs = epochs.copy().pick("eeg")
    clf = TensorMarginClassifier("cp", rank=1).fit(epochs, epochs.events[:, 2])
    clf.predict(epochs["left"])
    pattern = activation_pattern(clf, epochs)  # (1, channels, times): where the classes differ
    # page ends
    assert np.mean(clf.predict(epochs["left"]) == 1) > 0.9
    assert pattern.shape == (1, CHANNELS, 30)


@pytest.mark.parametrize(
    "model",
    [TensorMarginClassifier("cp", 1), TensorMarginClassifierCV(lams=(1,), cv=2, random_state=0)],
    ids=["one", "CV"],
)
def test_epochs_go_into_fit_and_predict(model, recorded):
    fitted = model.fit(recorded, recorded.events[:, 2])
    assert fitted.sample_shape_ == (4, 30)
    predicted = fitted.predict(recorded)
    np.testing.assert_array_equal(predicted, fitted.predict(recorded.get_data(copy=False)))
    assert fitted.score(recorded["left"], np.ones(12, int)) > 0.9
    np.testing.assert_allclose(TensorScaler(0).fit_transform(recorded).mean(axis=(0, 2)), 0, atol=1e-9)


def test_epochs_are_read_once_by_the_classifier_that_finds_out_their_kind(recorded, monkeypatch):
    read, get_data = [], mne.BaseEpochs.get_data
    monkeypatch.setattr(mne.BaseEpochs, "get_data", lambda *given, **more: read.append(1) or get_data(*given, **more))
    model = TensorMarginAutoClassifier(lams=(1,), mus=(1,), cv=2).fit(recorded, recorded.events[:, 2])
    assert len(read) == 1
    assert (model.kind_, model.sfreq_) == ("eeg", pytest.approx(SFREQ))
    assert model.axes_in_[0].values.tolist() == INFO["ch_names"]


@pytest.fixture(scope="module")
def rested():
    """Return 32 epochs of ten named channels, of which Pz responds in one class."""
    rng = np.random.default_rng(1)
    data, codes = rng.standard_normal((32, 10, 50)), np.arange(32) % 2 + 1
    data[codes == 2, TEN.index("Pz"), 15:35] += 2.0
    events = np.column_stack([np.arange(32) * 60, np.zeros(32, int), codes])
    info = mne.create_info(TEN, SFREQ, "eeg").set_montage("biosemi64")
    return mne.EpochsArray(1e-6 * data, info, events, tmin=-0.2, event_id={"rest": 1, "closed": 2}, verbose="error")


def test_the_classifier_to_begin_with_knows_epochs(rested, tmp_path):
    y = rested.events[:, 2]
    few = {"decompositions": ("cp",), "ranks": (1,), "lams": (1,), "mus": (0,), "cv": 2, "random_state": 0}
    model = TensorMarginAutoClassifier(linear=True, **few).fit(rested[:24], y[:24])
    assert (model.kind_, model.sfreq_) == ("eeg", SFREQ)
    assert model.axes_in_[0].values.tolist() == TEN
    np.testing.assert_allclose(model.axes_in_[1].values, 1000 * rested.times)
    assert model.score(rested[24:], y[24:]) > 0.7
    weights = model.weight_maps()
    assert weights.shape == (1, 10, 50)
    assert np.abs(weights[0]).max(axis=1).argmax() == TEN.index("Pz")
    pattern = activation_pattern(model, rested[:24])
    assert np.abs(pattern[0]).max(axis=1).argmax() == TEN.index("Pz")
    assert [text.get_text() for text in plot_topography(pattern[0, :, 20], TEN, rested).texts] == TEN
    np.testing.assert_array_equal(model.predict(rested[24:]), model.predict(rested[24:].get_data(copy=False)))
    np.testing.assert_array_equal(model.predict(rested.copy().reorder_channels(TEN[::-1])), model.predict(rested))
    save_model(tmp_path / "m.skops", model)
    again = load_model(tmp_path / "m.skops")
    assert again.axes[0].values.tolist() == TEN
    np.testing.assert_array_equal(again.model.predict(rested[24:]), model.predict(rested[24:]))


def test_epochs_cut_from_a_recording():
    raw = mne.io.RawArray(np.random.default_rng(0).standard_normal((4, 1000)), INFO, verbose="error")
    events = np.column_stack([np.arange(50, 950, 50), np.zeros(18, int), np.arange(18) % 2 + 1])
    for preload in (True, False):
        epochs = mne.Epochs(raw, events, tmin=0, tmax=0.5, baseline=None, preload=preload, verbose="error")
        assert as_samples(epochs).shape == (18, 4, 26)
    with pytest.raises(ValueError, match=r"must be Epochs; got RawArray.*mne\.Epochs\(raw, events\)"):
        TensorMarginClassifier().fit(raw, events[:, 2])


def test_several_epochs_follow_each_other_and_evoked_are_one_sample_each(recorded):
    left, right = recorded["left"], recorded["right"]
    np.testing.assert_array_equal(as_samples([left, right]), np.concatenate([left.get_data(), right.get_data()]))
    means = [left.average(), right.average()]
    np.testing.assert_array_equal(as_samples(means), [mean.data for mean in means])


def test_power_of_epochs(recorded):
    spectrum = recorded.compute_psd(fmax=20.0, verbose="error")
    np.testing.assert_array_equal(as_samples(spectrum), spectrum.get_data())


def test_channels_that_hold_no_data_are_left_out_and_named(recorded):
    """As from Python and from a file: a trigger channel would decode noise without an error."""
    n, codes = 60, np.arange(60) % 2 + 1
    names, types = ["Cz", "VEOG", "Pz", "STI 014", "Oz"], ["eeg", "eog", "eeg", "stim", "eeg"]
    data = 1e-6 * np.random.default_rng(0).standard_normal((n, 5, 20))
    data[:, 3] = 0
    data[:, 3, 5] = codes
    info = mne.create_info(names, SFREQ, types)
    info["bads"] = ["Oz"]
    events = np.column_stack([np.arange(n) * 40, np.zeros(n, int), codes])
    metadata = pd.DataFrame({"subject": np.arange(n) // 10, "trial": np.arange(n)})
    epochs = mne.EpochsArray(data, info, events, metadata=metadata, verbose="error")
    note.cache_clear()
    with pytest.warns(UserWarning, match="left out") as told:
        model = TensorMarginClassifier("cp", 1).fit(epochs, codes)
    model.predict(epochs)
    assert [str(one.message).partition(". ")[0] for one in told] == [
        "Channels marked as bad were left out: Oz",
        "Channels that do not hold data were left out: VEOG (EOG), STI 014 (STIM)",
    ]
    assert told[0].filename == __file__
    assert model.axes_in_[0].values.tolist() == ["Cz", "Pz"]
    assert model.axes_in_[1].sfreq == SFREQ
    np.testing.assert_array_equal(as_samples([epochs[:20], epochs[20:]]), data[:, [0, 2]])
    assert axes_in([epochs[:20], epochs[20:]]) == model.axes_in_
    assert (unit_in(epochs), unit_in([epochs]), unit_in(epochs.compute_psd(fmax=20.0, verbose="error"))) == (
        "V",
        "V",
        "",
    )
    muscles = mne.EpochsArray(data[:, :2], mne.create_info(2, SFREQ, "emg"), events, verbose="error")
    assert as_samples(muscles).shape == (n, 2, 20)
    with pytest.warns(LeakageWarning, match=r"6 different values of 'subject' for 60.*epochs\.metadata\['subject'\]"):
        nested = nested_evaluation(search(), epochs, codes, cv=2)
    assert nested.accuracy < 0.8
    nested_evaluation(search(), epochs, codes, cv=2, groups=metadata["subject"])


# ---- decoding ----


def test_decoding_over_time(small):
    X, y = small
    # page: One score per time point, and per pair of time points:
    from mne.decoding import GeneralizingEstimator, SlidingEstimator, cross_val_multiscore
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from tensormargin import TensorMarginClassifier

    clf = make_pipeline(StandardScaler(), TensorMarginClassifier())
    scores = cross_val_multiscore(SlidingEstimator(clf, scoring="roc_auc"), X, y, cv=3)
    both = cross_val_multiscore(GeneralizingEstimator(clf, scoring="roc_auc"), X, y, cv=3)
    # page ends
    assert scores.shape == (3, TIMES)
    assert both.shape == (3, TIMES, TIMES)
    assert scores[:, 2:4].mean() > 0.7


def test_matrices_at_each_time_point():
    rng = np.random.default_rng(0)
    y = np.arange(24) % 2
    power = rng.normal(size=(24, 3, CHANNELS, 2)) + 2 * y[:, None, None, None]
    X = power
    # page: With power as `X`, of shape (samples, frequencies, channels, times), each time point has a matrix:
    from mne.decoding import SlidingEstimator

    from tensormargin import TensorMarginClassifier

    sliding = SlidingEstimator(TensorMarginClassifier("cp", rank=1), scoring="accuracy").fit(X, y)
    sliding.estimators_[0].coef_.shape  # (1, frequencies, channels)
    # page ends
    assert [one.sample_shape_ for one in sliding.estimators_] == [(3, CHANNELS)] * 2
    assert np.all(sliding.score(X, y) > 0.8)


def test_linear_models_as_in_its_tutorials(small):
    X, y = small
    # page: Patterns from MNE's own functions:
    from mne.decoding import LinearModel, Vectorizer, get_coef
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from tensormargin import TensorMarginClassifier

    model = make_pipeline(Vectorizer(), StandardScaler(), LinearModel(TensorMarginClassifier())).fit(X, y)
    patterns = get_coef(model, "patterns_", inverse_transform=True)
    # page ends
    assert patterns.size == CHANNELS * TIMES
    with pytest.raises(ValueError, match=r"3|2D|vector"):
        LinearModel(TensorMarginClassifier()).fit(X, y)


STEPS = {
    "scaled by type": [Scaler(INFO)],
    "by the mean": [Scaler(scalings="mean")],
    "only centred": [Scaler(scalings="mean", with_std=False)],
    "by the median": [Scaler(scalings="median"), Vectorizer()],
    "vectors": [Vectorizer(), StandardScaler()],
    "both": [Scaler(scalings="mean"), Vectorizer(), StandardScaler()],
}


@pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS)
@pytest.mark.parametrize("last", [TensorMarginClassifier("full"), search(), LinearModel(search())], ids=type)
def test_weights_go_back_through_transformers(steps, last, small):
    X, y = small
    flattened = [] if any(isinstance(step, Vectorizer) for step in steps) else [Vectorizer()]
    model = make_pipeline(*steps, *(flattened if isinstance(last, LinearModel) else []), last).fit(X, y)
    form = affine_form(model)
    np.testing.assert_allclose(form.scores(X)[:, 0], model.decision_function(X), rtol=1e-6, atol=1e-8)
    assert ModelChain.of(model).sample_shape == (CHANNELS, TIMES)
    assert weight_maps(model).shape == activation_pattern(model, X, y).shape == (1, CHANNELS, TIMES)
    assert margin_report(model, X, y).n_samples == 40


def test_models_with_transformers_are_not_saved(small, tmp_path):
    model = make_pipeline(Vectorizer(), TensorMarginClassifier("full")).fit(*small)
    with pytest.raises(TypeError, match=r"Vectorizer\. Use tensormargin\.Tensorize"):
        save_model(tmp_path / "model.skops", model)


def test_linear_models_have_filters_and_patterns(small):
    X, y = small
    model = make_pipeline(Vectorizer(), StandardScaler(), LinearModel(search()))
    model.fit(X, y)
    np.testing.assert_array_equal(model[-1].filters_, model[-1].model_.coef_[0])
    for attribute in ("filters_", "patterns_"):
        assert get_coef(model, attribute, inverse_transform=False).shape == (CHANNELS * TIMES,)
    theirs = get_coef(model, "patterns_") * model[1].scale_  # in the samples' own unit, up to the variance of the score
    ours = activation_pattern(model, X)[0].ravel()
    np.testing.assert_allclose(ours / np.linalg.norm(ours), theirs / np.linalg.norm(theirs), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("model", [TensorMarginClassifier("cp", 1), search()], ids=type)
def test_coefficients_are_found(model, small):
    X, y = small
    np.testing.assert_array_equal(get_coef(model.fit(X, y), "coef_"), model.coef_)
    sliding = SlidingEstimator(search(), scoring="accuracy", verbose=False).fit(1e6 * X, y)
    assert get_coef(sliding, "coef_").shape[-1] == TIMES


# electrode positions


@pytest.mark.parametrize(("table", "most"), [("biosemi64", 4.0), ("easycap-M1", 5.0)])
def test_electrodes_are_where_spherical_montages_have_them(table, most):
    montage = mne.channels.make_standard_montage(table)
    own, theirs = electrode_positions(montage.ch_names), electrode_positions(montage.ch_names, montage)
    assert list(own) == list(theirs) == montage.ch_names
    angles = [np.degrees(np.arccos(np.clip(own[name] @ theirs[name], -1, 1))) for name in own]
    assert max(angles) < most
    assert np.median(angles) < 0.1


def test_electrodes_are_close_to_those_of_a_head():
    table = next(name for name in ("fsaverage_1005", "standard_1005") if name in mne.channels.get_builtin_montages())
    names = mne.channels.make_standard_montage(table).ch_names
    own, theirs = electrode_positions(names), electrode_positions(names, table)
    assert len(own) == len(names)
    angles = [np.degrees(np.arccos(np.clip(own[name] @ theirs[name], -1, 1))) for name in own]
    assert np.median(angles) < 5
    if table == "fsaverage_1005":
        assert max(angles) < 5
    plot_topography(np.arange(64.0), mne.channels.make_standard_montage("biosemi64").ch_names, "biosemi64")
    with pytest.raises(ValueError, match=r"one of MNE's montages, .*; got 'nonsense'"):
        electrode_positions(names, "nonsense")


def test_head_maps_pick_their_channels_of_an_info_by_name():
    info = mne.create_info(["EOG", *TEN[::-1], "Iz", "STI"], SFREQ, ["eog", *["eeg"] * 11, "stim"])
    with pytest.raises(ValueError, match=r"must state the positions of its channels, EOG, P8.*set_montage"):
        electrode_positions(TEN, info)
    info.set_montage("biosemi64")
    expected = electrode_positions(TEN, info.get_montage())
    epochs = mne.EpochsArray(np.zeros((2, 13, 5)), info)
    for given in (info, epochs, epochs.average()):
        found = electrode_positions(TEN, given)
        assert list(found) == TEN
        np.testing.assert_array_equal([found[name] for name in TEN], [expected[name] for name in TEN])
    ax = plot_topography(np.arange(10.0), TEN, info)
    assert [text.get_text() for text in ax.texts] == TEN
    with pytest.warns(UserWarning, match="no position is known: E1, Fp1$"):
        ax = plot_topography(np.arange(5.0), ["E1", "Cz", "Fp1", "Fz", "Pz"], info)
    assert [text.get_text() for text in ax.texts] == ["Cz", "Fz", "Pz"]
    with pytest.raises(
        ValueError, match=r"some of the channels, E1, E2; it has none of them, but p8, p7.*Give that of"
    ):
        plot_topography([1, 2], ["E1", "E2"], info)


def test_bands_need_no_sampling_frequency_that_epochs_state(recorded):
    X = recorded.get_data(copy=True)
    for step in (BandPower(("alpha",)), Covariances(bands=("alpha",))):
        found = step.fit_transform(recorded)
        np.testing.assert_allclose(found, clone(step).set_params(sfreq=SFREQ).fit_transform(X), rtol=1e-9)
        with pytest.raises(ValueError, match="need the sampling frequency"):
            clone(step).fit(X)
