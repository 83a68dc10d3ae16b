"""
Quick start
===========

Fit a classifier whose weight is a matrix of rank one, look at its test margins, and at what it looks for.
"""

# %%
# The digits 3 and 8 of scikit-learn, as 8×8 images: a sample is a matrix and stays one. Sixty of them are for training.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split

from tensormargin import TensorMarginClassifier, margin_report
from tensormargin.datasets import load_digits_tensor
from tensormargin.plots import plot_margins, plot_weight

digits = load_digits_tensor()
pair = np.isin(digits.target, (3, 8))
X, X_test, y, y_test = train_test_split(
    digits.data[pair], digits.target[pair], train_size=60, stratify=digits.target[pair], random_state=0
)
print("training samples:", X.shape)

# %%
# A weight of rank one has a profile of the rows and one of the columns: 8 + 8 numbers and an intercept, where a flat
# weight has 65 parameters.

clf = TensorMarginClassifier("cp", rank=1).fit(X, y)
print(f"{clf.n_parameters_} parameters, test accuracy {clf.score(X_test, y_test):.3f}")

flat = TensorMarginClassifier("full").fit(X, y)
print(f"{flat.n_parameters_} parameters, test accuracy {flat.score(X_test, y_test):.3f}")

# %%
# The margin of a sample is its score, with the sign of its class: negative for an error. The fit makes the mean of the
# margins large and their variance small.

report = margin_report(clf, X_test, y_test)
fig, ax = plt.subplots(figsize=(6, 3), layout="constrained")
plot_margins(report, ax=ax)
print(f"share of test margins below zero: {report.cantelli.rate:.3f}; Cantelli's bound: {report.cantelli.value:.3f}")

# %%
# The weight says how to tell the classes apart, the activation pattern where they differ. Only the pattern should be
# interpreted: see :func:`tensormargin.activation_pattern`.

fig, axes = plt.subplots(1, 2, figsize=(7, 3.2), layout="constrained")
plot_weight(clf, X, y, axes=axes)
plt.show()
