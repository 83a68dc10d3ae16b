"""
Several views of a sample
=========================

Recordings, volumes and covariates of the same samples are views: each gets a weight of its own, and the scores add up.
"""

# %%
# A smart watch records acceleration (three channels) and rotation (three channels) during four activities. As two
# views, each is scaled to the same norm and gets its own weight. A third view is pure noise.

import matplotlib.pyplot as plt
import numpy as np

from tensormargin import TensorMarginClassifierCV, Views, view_shares
from tensormargin.datasets import load_basic_motions
from tensormargin.evaluation import evaluate_without_views

motions = load_basic_motions()
X = Views(
    acceleration=motions.data[:, :3],
    rotation=motions.data[:, 3:],
    noise=np.random.default_rng(0).standard_normal((80, 20)),
)
y = motions.target
print({name: X[name].shape for name in X.names})

# %%
# How much does each view contribute to the scores?

search = TensorMarginClassifierCV(decompositions=("cp",), ranks=(1,), lams=(1.0,), mus=(1.0,), random_state=0)
search.fit(X, y)
shares = view_shares(search, X)
for name, share in shares.items():
    print(f"{name:13} {np.mean(share):.2f}")

# %%
# A share says what a model uses, not what it needs. So the model is evaluated without each view, on the same splits:

result = evaluate_without_views(search, X, y, cv=4)
labels = ["all views", *(f"without {name}" for name in X.names)]
accuracies = [result.whole.accuracy, *(result.without[name].accuracy for name in X.names)]
for label, accuracy in zip(labels, accuracies, strict=True):
    print(f"{label:22} {accuracy:.3f}")

fig, ax = plt.subplots(figsize=(6.5, 2.6), layout="constrained")
ax.barh(labels[::-1], 100 * np.array(accuracies[::-1]), color="#4477aa")
ax.set(xlabel="accuracy on held-out samples (%)", xlim=(0, 100))
plt.show()
