"""
What the margin terms do
========================

The objective has a hinge loss with strength λ, and two terms for the mean and the variance of the margins with strength
μ. At the best λ of each, models with and without them are about as accurate. What changes is how much depends on λ.
"""

# %%
# Sixty training images of the digits 3 and 8, in 20 random splits; the rest are test images. Each λ is tried with the
# hinge alone (μ = 0) and with the margin terms at their default strength (μ = 1).

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import StratifiedShuffleSplit

from tensormargin import TensorMarginClassifier, margin_report
from tensormargin.datasets import load_digits_tensor

digits = load_digits_tensor()
pair = np.isin(digits.target, (3, 8))
X, y = digits.data[pair], digits.target[pair]
splits = list(StratifiedShuffleSplit(20, train_size=60, random_state=0).split(X, y))
lams = np.logspace(-3, 1, 9)


def accuracy(lam, mu):
    clf = TensorMarginClassifier("cp", 1, lam=lam, mu1=mu, mu2=mu)
    return np.mean([clf.fit(X[train], y[train]).score(X[test], y[test]) for train, test in splits])


curves = {mu: np.array([accuracy(lam, mu) for lam in lams]) for mu in (0.0, 1.0)}

# %%
# The curve with the margin terms is the flatter one: between its best and its worst λ lies less accuracy.

fig, ax = plt.subplots(figsize=(6.5, 3.4), layout="constrained")
for mu, label in ((0.0, "hinge alone"), (1.0, "with margin terms")):
    ax.semilogx(lams, 100 * curves[mu], "o-", label=label)
    print(f"{label:18} best {100 * curves[mu].max():.1f} %, worst {100 * curves[mu].min():.1f} % over lambda")
ax.set(xlabel="lambda (lam)", ylabel="test accuracy (%)")
ax.legend(frameon=False)

# %%
# The test margins of one split, relative to their mean, at the default λ. The legend has their standard deviations.

train, test = splits[0]
fig, ax = plt.subplots(figsize=(6.5, 3.0), layout="constrained")
for mu, label in ((0.0, "hinge alone"), (1.0, "with margin terms")):
    clf = TensorMarginClassifier("cp", 1, mu1=mu, mu2=mu).fit(X[train], y[train])
    report = margin_report(clf, X[test], y[test])
    relative = report.margins / report.mean
    ax.hist(relative, np.linspace(-1, 3, 33), alpha=0.6, label=f"{label}: sd {relative.std():.2f}")
ax.set(xlabel="test margin / mean", ylabel="samples")
ax.legend(frameon=False)
plt.show()
