"""
fMRI: runs must stay together
=============================

Volumes of one run resemble each other. If a run is on both sides of a split, this resemblance counts as accuracy.
"""

# %%
# One slice of a brain while a person looks at faces or houses, 12 runs (Haxby et al. 2001), or smooth noise of the same
# shape with a blob in one class, and an offset that volumes of one run and class have in common.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import GroupKFold, StratifiedKFold, cross_val_score

from tensormargin import TensorMarginClassifier
from tensormargin.datasets import CATALOGUE, is_at_hand, load_haxby_slice, make_fmri_like
from tensormargin.plots import plot_weight

if is_at_hand(CATALOGUE["haxby"]):
    haxby = load_haxby_slice(categories=("face", "house"))
    X, y, runs, source = haxby.data, haxby.target, haxby.groups, "fMRI of one person"
else:
    data = make_fmri_like(216, (40, 20), height=1.0, random_state=0)
    runs, y, source = np.repeat(np.arange(12), 18), data.target, "synthetic samples"
    offsets = np.random.default_rng(0).standard_normal((12, 2, 40, 20))
    X = data.data + 0.3 * offsets[runs, y]
print(f"{source}: {X.shape}, {len(set(runs))} runs")

# %%
# The same classifier, once with volumes of each run on both sides of the splits, once with whole runs held out:

clf = TensorMarginClassifier("cp", rank=2)
mixed = cross_val_score(clf, X, y, cv=StratifiedKFold(6, shuffle=True, random_state=0))
apart = cross_val_score(clf, X, y, cv=GroupKFold(6), groups=runs)
print(f"runs mixed: {mixed.mean():.3f}   runs held out: {apart.mean():.3f}")

# %%
# Only the second number is about new runs. :func:`tensormargin.nested_evaluation` and ``tensormargin fit`` take groups
# and keep them together in all splits, also in those that choose hyperparameters.

fig, axes = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained")
plot_weight(clf.fit(X, y), X, y, axes=axes)
plt.show()
