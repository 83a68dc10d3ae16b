"""
EEG: electrodes × time
======================

A weight of rank one is a spatial filter times a time course. Two curves then say what the classifier looks for.
"""

# %%
# The recordings of 61 people, 64 electrodes × 64 time points (alcoholics and controls), or noise of the same shape with
# a response of a few electrodes in one class.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

from tensormargin import Smooth, TensorMarginClassifier, activation_pattern
from tensormargin.datasets import CATALOGUE, is_at_hand, load_eeg
from tensormargin.plots import plot_factors, plot_map

if is_at_hand(CATALOGUE["eeg"]):
    eeg = load_eeg()
    X, y, source = eeg.data, eeg.target, "recordings of 61 people"
else:
    rng, y, source = np.random.default_rng(0), np.arange(61) % 2, "synthetic samples"
    response = np.outer(np.exp(-((np.arange(64) - 40) ** 2) / 50), np.exp(-((np.arange(64) - 25) ** 2) / 60))
    X = rng.standard_normal((61, 64, 64)) + 0.3 * y[:, None, None] * response
print(f"{source}: {X.shape}")

# %%
# Smoothing along time is linear, so weights on the smoothed samples can be pulled back to the recordings.

models = {
    "flat": TensorMarginClassifier("full"),
    "rank one": TensorMarginClassifier("cp", 1),
    "smoothed, rank one": make_pipeline(Smooth(2.0), TensorMarginClassifier("cp", 1)),
}
for name, model in models.items():
    scores = cross_val_score(model, X, y, cv=5)
    print(f"{name:20} {scores.mean():.2f} (standard deviation over five folds {scores.std():.2f})")

# %%
# Five folds of twelve people are a rough measure of accuracy. The models also differ in what they show: a weight of
# rank one has two factors, one curve per mode.

clf = models["smoothed, rank one"].fit(X, y)
fig, axes = plt.subplots(1, 2, figsize=(9, 3), layout="constrained")
plot_factors(clf, axes=axes, mode_names=("electrode", "time"))

# %%
# The factors are a filter. The activation pattern is how strongly each electrode and time changes with the score.

fig, ax = plt.subplots(figsize=(5, 4), layout="constrained")
plot_map(activation_pattern(clf, X)[0], axes=[ax], title="activation pattern")
plt.show()
