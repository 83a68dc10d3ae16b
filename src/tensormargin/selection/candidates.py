"""The results table of a search, and the selection of a candidate from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.stats import rankdata

from .._typing import Array
from ..formats.base import Rank
from .grid import LambdaPath
from .search import PathResults


def tabulate(
    paths: Sequence[LambdaPath],
    lams: Sequence[float],
    done: Sequence[PathResults],
    preparations: Sequence[Any],
    n_splits: int,
) -> dict[str, Any]:
    """Return a ``cv_results_`` as in scikit-learn, with one row per path and lambda.

    ``n_parameters`` is the maximum over the splits, since a preparation may give each split a different sample shape.
    """
    scores, bounds, fit_seconds, score_seconds = (np.empty((len(paths), len(lams), n_splits)) for _ in range(4))
    n_parameters = np.zeros(len(paths), int)
    for one in done:
        tables = ((scores, "score"), (bounds, "bound"), (fit_seconds, "fit_seconds"), (score_seconds, "score_seconds"))
        for table, name in tables:
            table[one.path, :, one.split] = [getattr(result, name) for result in one.results]
        n_parameters[one.path] = max(n_parameters[one.path], one.results[-1].n_parameters)
    params = [
        ({"preparation": preparations[path.preparation]} if len(preparations) > 1 else {}) | path.parameters(lam)
        for path in paths
        for lam in lams
    ]
    results: dict[str, Any] = {}
    for name, table in (("fit_time", fit_seconds), ("score_time", score_seconds)):
        rows = table.reshape(-1, n_splits)
        results[f"mean_{name}"], results[f"std_{name}"] = rows.mean(axis=1), rows.std(axis=1)
    for name in params[0]:
        column = _objects([parameters[name] for parameters in params])
        results[f"param_{name}"] = np.ma.masked_array(column, mask=False)
    results["params"] = params
    results["asked_rank"] = _objects([path.asked for path in paths for _ in lams])
    by_split = scores.reshape(-1, n_splits)
    results.update({f"split{k}_test_score": by_split[:, k] for k in range(n_splits)})
    results["mean_test_score"], results["std_test_score"] = by_split.mean(axis=1), by_split.std(axis=1)
    results["rank_test_score"] = rankdata(-results["mean_test_score"], method="min").astype(np.int32)
    results["mean_margin_bound"] = bounds.reshape(-1, n_splits).mean(axis=1)
    results["n_parameters"] = np.repeat(n_parameters, len(lams))
    return results


def _objects(values: Sequence[Any]) -> Array:
    """Return a one-dimensional object array; ``np.array`` would turn tuples into rows."""
    column = np.empty(len(values), dtype=object)
    for row, value in enumerate(values):
        column[row] = value
    return column


def lowered_on_splits(paths: Sequence[LambdaPath], done: Sequence[PathResults]) -> list[tuple[str, Rank, Rank]]:
    """Return decomposition, requested rank and used rank of the fits whose samples were too small for the rank."""
    used = ((paths[one.path], result.rank) for one in done for result in one.results)
    lowered = ((path, rank) for path, rank in used if rank != path.rank)
    notes = ((path.decomposition, path.rank if path.asked is None else path.asked, rank) for path, rank in lowered)
    return list(dict.fromkeys(notes))


DEFAULT_RULE = "best"
"""The default rule of `select_candidate` in the search and in ``tensormargin fit``.

Measured by benchmarks/rules.py on 22 data sets (benchmarks/results/rules.md): no rule is significantly better than
another, and this is the one that users expect.
"""


def select_candidate(results: dict[str, Any], n_splits: int, rule: str) -> int:
    """Return the index of the selected candidate.

    "best" takes the highest mean score; ties go to the model with the fewest parameters. The other rules consider all
    candidates within one standard error of the best mean score: "simplest" takes the one with the fewest parameters,
    "margins" the one with the smallest ``mean_margin_bound``.
    """
    means = results["mean_test_score"]
    best = int(np.argmax(means))
    slack = 0.0 if rule == "best" else results["std_test_score"][best] / np.sqrt(max(n_splits - 1, 1))
    eligible = np.flatnonzero(means >= means[best] - slack - 1e-12)
    sizes = results["n_parameters"][eligible]
    keys = (eligible, sizes, results["mean_margin_bound"][eligible]) if rule == "margins" else (eligible, sizes)
    return int(eligible[np.lexsort(keys)[0]])
