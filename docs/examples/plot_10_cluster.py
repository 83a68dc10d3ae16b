"""
Samples on the workers of a cluster
===================================

A Dask array is contracted where its chunks are; only the small design of one block at a time is transferred.
"""

# %%
# A cluster within this process stands for a real one: ``on_cluster`` and ``Client`` take the address of a scheduler as
# well.

import dask.array as da
import matplotlib.pyplot as plt
import numpy as np
from dask.distributed import LocalCluster

from tensormargin import TensorMarginClassifier, TensorMarginClassifierCV, on_cluster
from tensormargin.datasets import make_low_rank_classes

data = make_low_rank_classes(400, (12, 12, 12), rank=2, distance=4.0, random_state=0)
cluster = LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None)
client = cluster.get_client()

# %%
# Samples larger than the memory of one machine are a Dask array, for example from ``load_samples(path, lazy=True)``.
# The weight is the one that the samples in memory give, up to rounding.

X = da.from_array(data.data, chunks=(50, -1, -1, -1))
lazy = TensorMarginClassifier("cp", 2).fit(X[:200], data.target[:200])
local = TensorMarginClassifier("cp", 2).fit(data.data[:200], data.target[:200])
difference = np.linalg.norm(lazy.coef_ - local.coef_) / np.linalg.norm(local.coef_)
print(f"relative difference of the weights: {difference:.1e}")
print("predictions are lazy, too:", type(lazy.predict(X[200:])).__name__)

# %%
# Many fits of samples that fit into memory, such as a search, run in parallel on the workers:

with on_cluster(client, data.data):
    search = TensorMarginClassifierCV(ranks=(1, 2), lams=(0.1, 1.0), mus=(1.0,), n_jobs=-1, random_state=0)
    search.fit(data.data[:200], data.target[:200])
print("chosen:", search.best_params_["decomposition"], search.best_params_.get("rank"))
print(f"test accuracy: {search.score(data.data[200:], data.target[200:]):.3f}")

# %%
client.close()
cluster.close()

fig, axes = plt.subplots(1, 2, figsize=(7, 3), layout="constrained")
for ax, coef, title in zip(axes, (lazy.coef_, local.coef_), ("from a Dask array", "from memory"), strict=True):
    ax.imshow(coef[0, 6], cmap="RdBu")
    ax.set_title(f"weight {title}, one slice")
plt.show()
