"""
Comparing honestly
==================

The same splits, the same tuning, paired differences, and a correction for the number of comparisons. Often the answer
is that the samples cannot tell.
"""

# %%
# Four methods on 80 recordings of a smart watch. Each chooses its λ from the same grid, on training data only, in every
# one of eight splits.

import matplotlib.pyplot as plt

from tensormargin.datasets import load_basic_motions
from tensormargin.evaluation import CompareSettings, compare, differences_from, summarise
from tensormargin.plots import plot_comparison

motions = load_basic_motions()
settings = CompareSettings(methods=("SVM", "LMDM", "STM", "SPMD-LRT"), lam_grid=(0.1, 1.0, 10.0))
rows = list(compare(motions.data, motions.target, settings))
summaries = summarise(rows, settings.methods)
for one in summaries:
    interval = f"{100 * one.accuracy_low:.1f} to {100 * one.accuracy_high:.1f}"
    print(f"{one.method:9} {100 * one.accuracy:5.1f} % (95 % interval {interval})")

# %%
# The intervals are wider than most of the differences.

fig, ax = plt.subplots(figsize=(6.5, 2.8), layout="constrained")
plot_comparison(
    [one.method for one in summaries],
    [one.accuracy for one in summaries],
    [one.accuracy_low for one in summaries],
    [one.accuracy_high for one in summaries],
    chance=0.25,
    ax=ax,
)

# %%
# Methods are compared with one that was chosen before, on the same test sets, sample by sample. The p-values are
# corrected for their number (Holm 1979). What is not significant comes with the difference that would have been found.

for one in differences_from("SVM", rows, settings.methods):
    verdict = "significant" if one.p_value < 0.05 else "not significant"
    print(f"{one.method:9} {100 * one.difference:+5.1f} points against SVM, p = {one.p_value:.2f}: {verdict}")
    print(f"{'':9} would have been found: {100 * one.detectable:.0f} points")

# %%
# A method should not be called better than another because its mean is higher. ``tensormargin compare`` prints the same
# table and says which differences are significant.

plt.show()
