"""
When a linear weight cannot do it: kernels and covariances
==========================================================

If the sign of a signal is random, class means do not differ and no linear weight can separate the classes.
"""

# %%
# In each sample of 6 channels × 40 times, a source with a random course reaches the channels with one of two patterns.
# The mean of both classes is zero.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from tensormargin import Covariances, TensorKernel, TensorMarginClassifier

rng = np.random.default_rng(0)
y = np.arange(160) % 2
patterns = rng.standard_normal((2, 6))
courses = rng.standard_normal((160, 40))
X = patterns[y][:, :, None] * courses[:, None, :] + 1.5 * rng.standard_normal((160, 6, 40))

# %%
# A kernel of tensors compares samples in a space where the sign does not matter: the Grassmann kernel compares the
# subspaces that the modes of two samples span. Covariances of the channels are the plainer remedy, if it is known that
# the classes differ in how channels go together.

models = {
    "linear, rank one": TensorMarginClassifier("cp", 1),
    "linear, flat": TensorMarginClassifier("full"),
    "RBF kernel": make_pipeline(TensorKernel("rbf"), SVC(kernel="linear")),
    "Grassmann kernel": make_pipeline(TensorKernel("grassmann", rank=1), SVC(kernel="linear")),
    "covariances, flat": make_pipeline(Covariances(), TensorMarginClassifier("full")),
}
accuracies = {name: cross_val_score(model, X, y, cv=5).mean() for name, model in models.items()}
for name, accuracy in accuracies.items():
    print(f"{name:18} {accuracy:.3f}")

# %%
# The dashed line is chance.

fig, ax = plt.subplots(figsize=(6.5, 2.8), layout="constrained")
ax.barh(list(accuracies)[::-1], 100 * np.array(list(accuracies.values()))[::-1], color="#4477aa")
ax.axvline(50, color="grey", linestyle="--")
ax.set(xlabel="cross-validated accuracy (%)", xlim=(0, 100))
plt.show()
