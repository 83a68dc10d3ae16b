"""
Hyperspectral patches: rows × columns × bands
=============================================

A CP weight of rank one separates where in the patch from where in the spectrum, with a profile per mode.
"""

# %%
# Patches of 5×5 pixels and 200 bands around 400 pixels of two kinds of corn (Indian Pines, a scene that comes with
# TensorLy). Neighbouring patches overlap, so validation goes by place.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline

from tensormargin import TensorMarginClassifier, TensorScaler
from tensormargin.datasets import load_indian_pines
from tensormargin.plots import plot_factors

scene = load_indian_pines(classes=(2, 3))
kept = np.random.default_rng(0).choice(len(scene.data), 400, replace=False)
X, y, places = scene.data[kept].astype(float), scene.target[kept], scene.groups[kept]
print(f"{X.shape}, {len(set(places))} places")

# %%
# Every entry is centred and scaled by statistics of the training samples, then classified by weights of growing rank.

for decomposition, rank in (("cp", 1), ("cp", 3), ("tucker", (2, 2, 8)), ("full", None)):
    model = make_pipeline(TensorScaler(), TensorMarginClassifier(decomposition, rank))
    scores = cross_val_score(model, X, y, cv=GroupKFold(5), groups=places)
    size = model.fit(X, y)[-1].n_parameters_
    print(f"{decomposition:7} rank {rank!s:10} {size:5} parameters   {scores.mean():.3f} ± {scores.std():.3f}")

# %%
# The three profiles of the rank-one weight: rows and columns of the patch, and bands.

model = make_pipeline(TensorScaler(), TensorMarginClassifier("cp", 1)).fit(X, y)
fig, axes = plt.subplots(1, 3, figsize=(10, 3), layout="constrained")
plot_factors(model, axes=axes, mode_names=("row", "column", "band"))
plt.show()
