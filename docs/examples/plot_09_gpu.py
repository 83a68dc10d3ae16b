"""
Arrays on a GPU
===============

PyTorch and CuPy arrays are fitted where they are, and predictions stay there. The code is the same on CPU and GPU.
"""

# %%
# Without PyTorch, this script uses NumPy arrays, with the same calls and the same result.

import matplotlib.pyplot as plt
import numpy as np

from tensormargin import TensorMarginClassifier, fit_many, to_device
from tensormargin.datasets import make_low_rank_classes

try:
    import torch
except ImportError:
    torch = None

data = make_low_rank_classes(300, (12, 12, 12), rank=2, distance=4.0, dtype=np.float32, random_state=0)
if torch is None:
    X, place = data.data, "NumPy arrays (PyTorch is not installed)"
else:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    X, place = torch.asarray(data.data, device=device), f"PyTorch arrays on {device}"
y = data.target
print(place)

# %%
# Labels may stay in NumPy. Scores have the type and the device of the samples.

clf = TensorMarginClassifier("cp", 2).fit(X[:100], y[:100])
scores = clf.decision_function(X[100:])
print("scores:", type(scores).__module__.partition(".")[0], tuple(scores.shape))
print(f"test accuracy: {clf.score(X[100:], y[100:]):.3f}")

# %%
# The same model predicts NumPy samples after :func:`tensormargin.to_device`. Its scores agree with those of a fit to
# NumPy arrays.

on_cpu = to_device(clf, "cpu")
reference = TensorMarginClassifier("cp", 2).fit(data.data[:100], y[:100])
ours, theirs = on_cpu.decision_function(data.data[100:]), reference.decision_function(data.data[100:])
print(f"correlation of the scores: {np.corrcoef(ours, theirs)[0, 1]:.4f}")

# %%
# Many fits to the same samples, such as several values of λ, are one batch on a GPU (:func:`tensormargin.fit_many`).

lams = (0.01, 0.1, 1.0, 10.0)
models = fit_many([TensorMarginClassifier("cp", 2, lam=lam) for lam in lams], X[:100], y[:100])
fig, ax = plt.subplots(figsize=(5.5, 3), layout="constrained")
ax.semilogx(lams, [100 * model.score(X[100:], y[100:]) for model in models], "o-")
ax.set(xlabel="lambda (lam)", ylabel="test accuracy (%)")
plt.show()
