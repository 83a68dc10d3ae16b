"""MNE: Epochs go into fit and predict as they are."""

from __future__ import annotations

import numpy as np
import pytest

from tensormargin import TensorMarginClassifier, TensorMarginClassifierCV, TensorScaler
from tensormargin.intake import as_samples

mne = pytest.importorskip("mne", reason="needs MNE: pip install mne")

CHANNELS, SFREQ = ["Cz", "Fz", "Oz", "Pz"], 50.0


def epochs_array(n=24, seed=0):
    rng = np.random.default_rng(seed)
    codes = np.arange(n) % 2 + 1
    data = 1e-6 * (rng.standard_normal((n, 4, 30)) + codes[:, None, None])
    events = np.column_stack([np.arange(n) * 40, np.zeros(n, int), codes])
    info = mne.create_info(CHANNELS, SFREQ, "eeg")
    return mne.EpochsArray(data, info, events, event_id={"left": 1, "right": 2}, verbose="error")


EPOCHS = epochs_array()
LABELS = EPOCHS.events[:, 2]


@pytest.mark.parametrize(
    "model",
    [TensorMarginClassifier("cp", 1), TensorMarginClassifierCV(lams=(1,), cv=2, random_state=0)],
    ids=["one", "CV"],
)
def test_epochs_go_into_fit_and_predict(model):
    fitted = model.fit(EPOCHS, LABELS)
    assert fitted.sample_shape_ == (4, 30)
    predicted = fitted.predict(EPOCHS)
    np.testing.assert_array_equal(predicted, fitted.predict(EPOCHS.get_data(copy=False)))
    assert fitted.score(EPOCHS["left"], np.ones(12, int)) > 0.9
    np.testing.assert_allclose(TensorScaler(0).fit_transform(EPOCHS).mean(axis=(0, 2)), 0, atol=1e-9)


def test_epochs_cut_from_a_recording():
    info = mne.create_info(CHANNELS, SFREQ, "eeg")
    raw = mne.io.RawArray(np.random.default_rng(0).standard_normal((4, 1000)), info, verbose="error")
    events = np.column_stack([np.arange(50, 950, 50), np.zeros(18, int), np.arange(18) % 2 + 1])
    for preload in (True, False):
        epochs = mne.Epochs(raw, events, tmin=0, tmax=0.5, baseline=None, preload=preload, verbose="error")
        assert as_samples(epochs).shape == (18, 4, 26)
    with pytest.raises(ValueError, match=r"must be Epochs; got RawArray.*mne\.Epochs\(raw, events\)"):
        TensorMarginClassifier().fit(raw, LABELS)


def test_several_epochs_follow_each_other_and_evoked_are_one_sample_each():
    both = as_samples([EPOCHS["left"], EPOCHS["right"]])
    np.testing.assert_array_equal(both, np.concatenate([EPOCHS["left"].get_data(), EPOCHS["right"].get_data()]))
    means = [EPOCHS["left"].average(), EPOCHS["right"].average()]
    np.testing.assert_array_equal(as_samples(means), [mean.data for mean in means])


def test_power_of_epochs():
    spectrum = EPOCHS.compute_psd(fmax=20.0, verbose="error")
    np.testing.assert_array_equal(as_samples(spectrum), spectrum.get_data())
