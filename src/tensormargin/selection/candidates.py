"""The results table of a search, and the selection of a candidate from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.stats import rankdata

from ..fitting import Rank
from ..runtime import Array
from .grid import Candidate
from .race import Race, Unit
from .scoring import Result


def tabulate(
    tried: Sequence[Candidate], done: Mapping[Unit, Result], race: Race, preparations: Sequence[Any]
) -> dict[str, Any]:
    """Return a ``cv_results_`` as in scikit-learn, with one row per candidate.

    Means and standard deviations are those over the splits on which a candidate was fitted; NaN if there are none.
    ``n_parameters`` is the maximum over these splits, since a preparation may give each of them a different sample
    shape.
    """
    n_splits = race.scores.shape[1]
    names = {"score": "test_score", "bound": "margin_bound", "fit_seconds": "fit_time", "score_seconds": "score_time"}
    tables = {name: np.full((len(tried), n_splits), np.nan) for name in names}
    n_parameters = np.zeros(len(tried), int)
    for (row, split), result in done.items():
        for name, table in tables.items():
            table[row, split] = getattr(result, name)
        n_parameters[row] = max(n_parameters[row], result.n_parameters)
    params = [
        ({"preparation": preparations[one.preparation]} if len(preparations) > 1 else {}) | one.parameters
        for one in tried
    ]
    results: dict[str, Any] = {}
    for name in ("fit_seconds", "score_seconds"):
        results[f"mean_{names[name]}"], results[f"std_{names[name]}"] = _mean_and_spread(tables[name])
    for name in params[0]:
        column = _objects([parameters[name] for parameters in params])
        results[f"param_{name}"] = np.ma.masked_array(column, mask=False)
    results["params"] = params
    results["asked_rank"] = _objects([one.asked for one in tried])
    scores = tables["score"]
    results.update({f"split{k}_test_score": scores[:, k] for k in range(n_splits)})
    results["mean_test_score"], results["std_test_score"] = _mean_and_spread(scores)
    results["smoothed_test_score"] = race.smoothed().mean
    results["rank_test_score"] = _ranks(results["mean_test_score"], np.isfinite(scores).sum(axis=1))
    results["mean_margin_bound"] = _mean_and_spread(tables["bound"])[0]
    results["n_parameters"] = n_parameters
    results["n_splits_done"] = np.isfinite(scores).sum(axis=1)
    results["dropped"] = _objects(race.dropped)
    return results


def _mean_and_spread(table: Array) -> tuple[Array, Array]:
    """Return mean and standard deviation of the known entries of each row; NaN for rows without any."""
    known = np.isfinite(table)
    counts = np.where(known.any(axis=1), known.sum(axis=1), np.nan)
    means = np.where(known, table, 0.0).sum(axis=1) / counts
    squares = np.where(known, (table - means[:, None]) ** 2, 0.0)
    return means, np.sqrt(squares.sum(axis=1) / counts)


def _ranks(means: Array, n_done: Array) -> Array:
    """Return the ranks of the candidates by their means; those not fitted on all splits come after the others."""
    complete = n_done == n_done.max()
    means = np.round(means, 12)  # sums in another order are no difference
    ranks = np.empty(len(means), np.int32)
    ranks[complete] = rankdata(-means[complete], method="min")
    ranks[~complete] = complete.sum() + rankdata(-np.nan_to_num(means[~complete], nan=-np.inf), method="min")
    return ranks


def _objects(values: Sequence[Any]) -> Array:
    """Return a one-dimensional object array; ``np.array`` would turn tuples into rows."""
    column = np.empty(len(values), dtype=object)
    for row, value in enumerate(values):
        column[row] = value
    return column


def lowered_on_splits(tried: Sequence[Candidate], done: Mapping[Unit, Result]) -> list[tuple[str, Rank, Rank]]:
    """Return decomposition, requested rank and used rank of the fits whose samples were too small for the rank."""
    used = ((tried[row], done[row, split].rank) for row, split in sorted(done))
    lowered = ((one, rank) for one, rank in used if rank != one.rank)
    notes = ((one.decomposition, one.rank if one.asked is None else one.asked, rank) for one, rank in lowered)
    return list(dict.fromkeys(notes))


def _standard_error(share: float, number: int) -> float:
    """Return the standard error of the difference of two independent proportions close to a share.

    Agresti and Coull's two successes and two failures keep it above zero.
    """
    share = (min(max(share, 0.0), 1.0) * number + 2) / (number + 4)
    return float(np.sqrt(2 * share * (1 - share) / (number + 4)))


DEFAULT_RULE = "best"
"""The default rule of `select_candidate` in the search and in ``tensormargin fit``.

Measured by benchmarks/rules.py on 22 data sets (benchmarks/results/rules.md) and by benchmarks/search.py: no rule is
significantly better than another, and this is the one that users expect.
"""


def select_candidate(results: dict[str, Any], n_splits: int, rule: str, default: int = 0, n_scored: int = 1) -> int:
    """Return the index of the selected candidate.

    "smoothed" takes the highest ``smoothed_test_score``, "best" the highest mean score; ties go to the model with the
    fewest parameters. The other rules consider all candidates within one standard error of the best mean score:
    "simplest" takes the one with the fewest parameters, "margins" the one with the smallest ``mean_margin_bound``.
    "default" takes the ``default`` candidate unless the best one is better by more than a standard error of the
    difference of two proportions of ``n_scored`` samples. Candidates that were dropped are never selected.
    """
    if rule == "default" and results["dropped"][default]:  # the budget did not allow it on all splits
        rule = "best"
    if rule == "default":
        best = select_candidate(results, n_splits, "best")
        lead = results["mean_test_score"][best] - results["mean_test_score"][default]
        return best if lead > _standard_error(results["mean_test_score"][default], n_scored) else default
    scores = results["smoothed_test_score" if rule == "smoothed" else "mean_test_score"]
    means = np.where([not reason for reason in results["dropped"]], scores, -np.inf)
    best = int(np.argmax(means))
    slack = 0.0 if rule in ("smoothed", "best") else results["std_test_score"][best] / np.sqrt(max(n_splits - 1, 1))
    eligible = np.flatnonzero(means >= means[best] - slack - 1e-12)
    sizes = results["n_parameters"][eligible]
    keys = (eligible, sizes, results["mean_margin_bound"][eligible]) if rule == "margins" else (eligible, sizes)
    return int(eligible[np.lexsort(keys)[0]])
