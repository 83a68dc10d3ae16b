"""
A new format of one's own
=========================

A weight format is a class with a few methods: how to start, which blocks to solve for, and how to write them back. The
classifier and the search then take it by name.
"""

# %%
# Signals change slowly. So the weight of a channels × time sample shall be a sum of a few cosines over time, with free
# amplitudes per channel: ``W = A C'`` with orthonormal columns in C. For fixed cosines the problem is convex, with one
# block.

import matplotlib.pyplot as plt
import numpy as np
from scipy.fft import idct
from sklearn.model_selection import cross_val_score

from tensormargin import TensorMarginClassifier
from tensormargin.fitting import FORMATS, Weight
from tensormargin.fitting.contractions import Contraction
from tensormargin.fitting.formats import Block


class CosineWeight(Weight):
    """Amplitudes per channel of the slowest cosines over time."""

    name = "cosines"
    container = "ndarray"

    def __init__(self, amplitudes, n_times):
        self.amplitudes, self.shape = amplitudes, (len(amplitudes), n_times)
        self.cosines = idct(np.eye(n_times), norm="ortho", axis=0)[:, : amplitudes.shape[1]]

    @classmethod
    def valid_rank(cls, rank, shape):
        return min(rank or 8, shape[1])

    @classmethod
    def from_dense(cls, tensor, rank, rng):
        cosines = idct(np.eye(tensor.shape[1]), norm="ortho", axis=0)[:, : cls.valid_rank(rank, tensor.shape)]
        return cls(tensor @ cosines, tensor.shape[1])

    @classmethod
    def from_tensorly(cls, tensor, shape):
        return cls.from_dense(tensor, shape[1], None)  # an array does not say how many cosines it has

    def to_tensorly(self, dtype=np.float64):
        return self.to_dense().astype(dtype)

    def _expanded(self):
        return self.amplitudes @ self.cosines.T

    @property
    def block_names(self):
        return ("amplitudes",)

    def block(self, index):
        channels, count = self.amplitudes.shape
        return Block(
            vector=self.amplitudes.ravel(),  # its norm is that of the weight: the cosines are orthonormal
            contraction=Contraction("tail", (self.cosines,), channels, np.eye(count)[None]),
            replace=lambda vector: type(self)(vector.reshape(channels, count), self.shape[1]),
        )

    @property
    def rank(self):
        return self.amplitudes.shape[1]

    @property
    def n_parameters(self):
        return self.amplitudes.size


FORMATS["cosines"] = CosineWeight

# %%
# Three things must hold for a block: its vector has the norm of the weight, writing it back changes nothing, and the
# design times the vector are the scores. The first two for a random weight:

weight = CosineWeight.from_dense(np.random.default_rng(0).standard_normal((6, 50)), 8, None)
block = weight.block(0)
print(np.isclose(np.linalg.norm(block.vector), np.linalg.norm(weight.to_dense())))
print(np.allclose(block.replace(block.vector).to_dense(), weight.to_dense()))

# %%
# Noise with a slow response in one class. The format competes with a flat weight and with one of rank one:

rng, y = np.random.default_rng(1), np.arange(100) % 2
times = np.linspace(0, 1, 50)
response = np.outer(rng.standard_normal(6), np.sin(2 * np.pi * times)) + np.outer(rng.standard_normal(6), times**2)
X = rng.standard_normal((100, 6, 50)) + 0.25 * y[:, None, None] * response

for decomposition, rank in (("full", None), ("cp", 1), ("cosines", 6)):
    clf = TensorMarginClassifier(decomposition, rank)
    print(f"{decomposition:8} {cross_val_score(clf, X, y, cv=5).mean():.3f}  {clf.fit(X, y).n_parameters_} parameters")

# %%
# The third condition, on the fitted model: scores are inner products with the weight.

clf = TensorMarginClassifier("cosines", 6).fit(X, y)
print(np.allclose(np.tensordot(X, clf.coef_[0], 2) + clf.intercept_, clf.decision_function(X)))

fig, axes = plt.subplots(1, 2, figsize=(9, 3), layout="constrained", sharey=True)
for ax, form in zip(axes, ("full", "cosines"), strict=True):
    ax.plot(times, TensorMarginClassifier(form, 6).fit(X, y).coef_[0].T)
    ax.set(title=f"{form}: weight of each channel", xlabel="time")

# %%
# Without this line, other scripts of the same process would see the format as well.

del FORMATS["cosines"]
plt.show()
