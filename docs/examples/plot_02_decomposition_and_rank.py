"""
Choosing a decomposition and rank
=================================

Cross-validation compares decompositions and ranks; the samples decide how much structure pays off.
"""

# %%
# Two classes of noise volumes whose means differ by a tensor of CP rank two. There are 120 training samples of 1,728
# entries each.

import matplotlib.pyplot as plt

from tensormargin import TensorMarginClassifier, TensorMarginClassifierCV
from tensormargin.datasets import make_low_rank_classes
from tensormargin.plots import plot_ranks

data = make_low_rank_classes(2120, (12, 12, 12), rank=2, distance=4.0, random_state=1)
X, y = data.data[:120], data.target[:120]
X_test, y_test = data.data[120:], data.target[120:]
print(f"best possible accuracy: {data.best_accuracy:.3f}")

# %%
# The search fits all decompositions and ranks on five folds. ``exhaustive=True`` drops none early, so that every
# point of the figure rests on all folds.

search = TensorMarginClassifierCV(
    decompositions=("full", "cp", "tucker", "tt"),
    ranks=(1, 2, 3, 4),
    lams=(1.0,),
    mus=(1.0,),
    exhaustive=True,
    random_state=0,
).fit(X, y)
fig, ax = plt.subplots(figsize=(6.5, 3.6), layout="constrained")
plot_ranks(search.cv_results_, ax=ax)
print("chosen:", search.best_params_["decomposition"], search.best_params_.get("rank"))

# %%
# Validation scores of the best of many candidates are optimistic, and with 120 samples they are noisy. New samples show
# what the structure is worth:

for decomposition, rank in (("full", None), ("cp", 1), ("cp", 2), ("tucker", 2), ("tt", 2), ("cp", 4)):
    clf = TensorMarginClassifier(decomposition, rank).fit(X, y)
    print(f"{decomposition:7} rank {rank!s:5} {clf.n_parameters_:5} parameters   {clf.score(X_test, y_test):.3f}")

# %%
# ``rank`` is an upper bound, lowered to what the shape of the samples allows; ``rank_`` is the rank that was used.

print(TensorMarginClassifier("tucker", 30).fit(X, y).rank_)
plt.show()
