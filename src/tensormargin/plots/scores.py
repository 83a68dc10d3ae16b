"""Plots of scores: of searches, comparisons and permutations; ROC and reliability curves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..runtime import Array, counted
from . import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_SCORES = 30  # bins of permuted scores
_BY_VIEW = "one by view"  # weights of several views that differ in decomposition or rank
_WITHOUT_RANK = ("full", _BY_VIEW)
_REQUIRED = ("param_decomposition", "param_lam", "mean_test_score", "std_test_score")
_COLOURS = {"full": style.GREY, "cp": style.VERMILION, "tucker": style.BLUE, "tt": style.GREEN}


class _Candidate(NamedTuple):
    """One candidate of a search with its score; ``error`` is the standard error over the splits."""

    decomposition: str
    rank: Any
    lam: float
    score: float
    error: float
    n_parameters: int

    @property
    def weight(self) -> tuple[str, Any]:
        """Key of the candidate's line; the candidates of a line differ only in lam and mu."""
        return self.decomposition, self.rank


def plot_search(results: Mapping[str, Any], *, chosen: int | None = None, ax: Axes | None = None) -> Axes:
    """Draw cross-validated scores, the best over mu, against lam, with one line per decomposition and rank.

    The best candidate is marked, with a band of one standard error over the splits around its line.

    Parameters
    ----------
    results : dict
        ``cv_results_`` of a scikit-learn search over "decomposition", "lam" and optionally "rank", "mu1" and others.
        Candidates with a NaN score, and those that a race has dropped, are left out.
    chosen : int, optional
        Index of the selected candidate, ``best_index_``, which is then marked instead of the best one.
    ax : Axes, optional

    Examples
    --------
    >>> from tensormargin import TensorMarginClassifierCV
    >>> from tensormargin.datasets import make_low_rank_classes
    >>> from tensormargin.plots import plot_search
    >>> data = make_low_rank_classes(60, (6, 7), random_state=0)
    >>> search = TensorMarginClassifierCV(decompositions=("cp",), ranks=(1, 2), lams=(0.1, 1.0), mus=(1.0,), cv=3)
    >>> _ = search.fit(data.data, data.target)
    >>> ax = plot_search(search.cv_results_, chosen=search.best_index_)
    >>> ax.get_xscale()
    'log'
    """
    candidates = _candidates(results)
    if len(set(results.get("param_scale_free", [True]))) > 1:
        raise ValueError("lam must be scale-free for all candidates or for none, to be drawn on one axis; got both")
    best = _best(candidates)
    ax = style.given_or_new(ax, 6.4, 3.8)
    lines, labels = [], []
    for weight, look in _line_styles(candidates).items():
        own = [candidate for candidate in candidates if candidate.weight == weight]
        along = _best_of_each(own, lambda candidate: candidate.lam)
        lams, scores, errors = (np.array([getattr(c, name) for c in along]) for name in ("lam", "score", "error"))
        lines += ax.plot(lams, scores, **look)
        labels.append(weight[0] if weight[0] in _WITHOUT_RANK else f"{weight[0]}, rank {_rank_name(weight[1])}")
        if weight == best.weight:
            ax.fill_between(lams, scores - errors, scores + errors, color=look["color"], alpha=0.18, linewidth=0)
    lam, score, text = best.lam, best.score, f"best: {best.score:.3f} ± {best.error:.3f}"
    if chosen is not None:
        lam, score = float(results["param_lam"][chosen]), float(results["mean_test_score"][chosen])
        text = f"selected: {score:.3f}" + (f" (best: {best.score:.3f})" if best.score > score + 1e-12 else "")
    lines += ax.plot(lam, score, "o", markerfacecolor="none", markeredgecolor=style.DARK, ls="none", markersize=12)
    tied = sum(round(one.score, 12) == round(score, 12) for one in candidates) - 1
    labels.append(f"{text},\ntied with {counted(tied, 'other')}" if tied > 0 else text)
    ax.set(xscale="log", xlabel="λ", ylabel="cross-validated score")
    style.tidy(ax)
    style.legend_beside(ax, lines, labels)
    return ax


def plot_ranks(results: Mapping[str, Any], *, ax: Axes | None = None) -> Axes:
    """Draw the best cross-validated score of each rank and its standard error, with one line per decomposition.

    A full weight has no rank and is a horizontal line, as are weights whose ranks or decompositions differ between
    views.

    Parameters
    ----------
    results : dict
        See `plot_search`.
    ax : Axes, optional

    Examples
    --------
    >>> from tensormargin.plots import plot_ranks  # usually of ``search.cv_results_``
    >>> results = {"param_decomposition": ["cp", "cp"], "param_rank": [1, 2], "param_lam": [1.0, 1.0]}
    >>> ax = plot_ranks(results | {"mean_test_score": [0.81, 0.87], "std_test_score": [0.02, 0.03]})
    >>> ax.get_xlabel()
    'rank'
    """
    candidates = _candidates(results)
    ax = style.given_or_new(ax, 6.0, 3.6)
    low_rank = [candidate for candidate in candidates if candidate.decomposition not in _WITHOUT_RANK]
    ranks = [one.rank for one in _best_of_each(low_rank, lambda candidate: _rank_order(candidate.rank))]
    decompositions = list(dict.fromkeys(candidate.decomposition for candidate in candidates))
    lines: list[Any] = []
    for place, name in enumerate(decompositions):
        own = [candidate for candidate in candidates if candidate.decomposition == name]
        colour = _COLOURS.get(name, style.PURPLE)
        if name in _WITHOUT_RANK:
            best = _best(own)
            ax.axhspan(best.score - best.error, best.score + best.error, color=colour, alpha=0.15, lw=0)
            lines.append(ax.axhline(best.score, color=colour, linestyle="--", linewidth=1.4))
            continue
        along = _best_of_each(own, lambda candidate: _rank_order(candidate.rank))
        shift = 0.06 * (place - (len(decompositions) - 1) / 2)  # so that error bars do not overlap
        places = [ranks.index(one.rank) + shift for one in along]
        look: dict[str, Any] = {"marker": style.MARKERS[place % len(style.MARKERS)], "markersize": 5, "capsize": 2}
        scores, errors = [one.score for one in along], [one.error for one in along]
        lines.append(ax.errorbar(places, scores, errors, color=colour, linewidth=1.4, **look))
    ax.set_xticks(range(len(ranks)), [_rank_name(rank) for rank in ranks])
    ax.set(xlim=(-0.4, max(len(ranks), 1) - 0.6), xlabel="rank", ylabel="best cross-validated score")
    style.tidy(ax)
    style.legend_beside(ax, lines, decompositions)
    return ax


def plot_comparison(
    names: Sequence[str],
    means: Sequence[float] | Array,
    lows: Sequence[float] | Array,
    highs: Sequence[float] | Array,
    *,
    reference: str | None = None,
    chance: float | None = None,
    name: str = "score",
    ax: Axes | None = None,
) -> Axes:
    """Draw a dot and an interval for each method, the best at the top.

    Parameters
    ----------
    names : sequence of str
    means, lows, highs : sequence of float
        The score of each method and the bounds of its interval.
    reference : str, optional
        One of ``names``, drawn in another colour and with a line through its score.
    chance : float, optional
        Chance level, drawn as a vertical line.
    name : str, default="score"
        Name of the score, below the axis.
    ax : Axes, optional

    Examples
    --------
    >>> from tensormargin.plots import plot_comparison
    >>> ax = plot_comparison(["SVM", "STM"], [0.84, 0.88], [0.75, 0.8], [0.9, 0.93], chance=0.25)
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['STM', 'SVM']
    """
    style.check_lengths("method", names=names, means=means, lows=lows, highs=highs)
    if reference is not None and reference not in names:
        raise ValueError(f"reference must be one of the names, {list(names)}; got reference={reference!r}")
    order = sorted(range(len(names)), key=lambda k: -np.nan_to_num(means[k], nan=-np.inf))
    ax = style.given_or_new(ax, 5.2, 1.0 + 0.32 * len(names))
    for row, k in enumerate(order):
        colour = style.VERMILION if names[k] == reference else style.BLUE
        ax.plot([lows[k], highs[k]], [row, row], color=colour, linewidth=2.0, solid_capstyle="butt", alpha=0.6)
        ax.plot(means[k], row, "s" if names[k] == reference else "o", color=colour, markersize=6)
    if reference is not None:
        ax.axvline(means[list(names).index(reference)], color=style.VERMILION, linewidth=1.0, linestyle=":", zorder=1)
    if chance is not None:
        ax.axvline(chance, color=style.GREY, linewidth=1.2, linestyle="--", zorder=1)
        above: dict[str, Any] = {"transform": ax.get_xaxis_transform(), "ha": "center", "va": "bottom"}
        ax.text(chance, 1.01, "chance", color=style.GREY, fontsize="small", **above)
    ax.set_yticks(range(len(order)), [names[k] for k in order], **style.VERBATIM)
    ax.set(ylim=(len(order) - 0.5, -0.5), xlabel=name)
    style.tidy(ax, "x")
    return ax


def _line_styles(candidates: list[_Candidate]) -> dict[tuple[str, Any], dict[str, Any]]:
    """Return the line style of each weight: one colour and dash per decomposition, one marker per rank."""
    ranks = sorted({candidate.rank for candidate in candidates}, key=_rank_order)
    forms = list(dict.fromkeys(candidate.decomposition for candidate in candidates))
    return {
        (form, rank): {
            "color": _COLOURS.get(form, style.PURPLE),
            "linestyle": style.DASHES[forms.index(form) % len(style.DASHES)],
            "marker": style.MARKERS[ranks.index(rank) % len(style.MARKERS)],
            "markersize": 4,
            "linewidth": 1.4,
        }
        for form, rank in (candidate.weight for candidate in candidates)
    }


def _best(candidates: Iterable[_Candidate]) -> _Candidate:
    """Return the candidate with the best score; ties go to the fewest parameters, as in the search."""
    return max(candidates, key=lambda one: (round(one.score, 12), -one.n_parameters))


def _best_of_each(candidates: list[_Candidate], key: Callable[[_Candidate], Any]) -> list[_Candidate]:
    """Return the best candidate for every value of the key, sorted by that value."""
    return [_best(group) for _, group in groupby(sorted(candidates, key=key), key=key)]


def _rank_order(rank: Any) -> tuple[float, tuple[int, ...]]:
    """Return a sort key for ranks: tuples are ordered by their mean, None comes first."""
    numbers = () if rank is None else tuple(np.atleast_1d(rank).tolist())
    return (float(np.mean(numbers)) if numbers else 0.0), numbers


def _rank_name(rank: Any) -> str:
    return "default" if rank is None else "-".join(str(number) for number in np.atleast_1d(rank))


def _candidates(results: Mapping[str, Any]) -> list[_Candidate]:
    missing = [key for key in _REQUIRED if key not in results]
    if missing:
        raise ValueError(f"results must be cv_results_ of a search over decomposition and lam; it has no {missing}")
    n_splits = sum(key.startswith("split") and key.endswith("_test_score") for key in results)
    # std_test_score uses ddof=0, so the standard error divides by sqrt(n_splits - 1)
    errors = np.asarray(results["std_test_score"], np.float64) / np.sqrt(max(n_splits - 1, 1))
    optional = {"param_rank": None, "n_parameters": 0, "dropped": ""}  # dropped: scored on some of the splits only
    columns = [results[key] for key in ("param_decomposition", "param_lam", "mean_test_score")]
    columns += [errors, *(results.get(key, [other] * len(errors)) for key, other in optional.items())]
    found = []
    for name, lam, score, error, rank, size, reason in zip(*columns, strict=True):
        if not np.isfinite(score) or reason:
            continue
        if isinstance(name, dict) or isinstance(rank, dict):
            name, rank = _BY_VIEW, None
        rank = None if rank is np.ma.masked else rank  # scikit-learn masks parameters missing from a grid of the list
        found.append(_Candidate(str(name), rank, float(lam), float(score), float(error), int(size)))
    if not found:
        raise ValueError("results holds no candidate with a score: every fit of the search has failed")
    return found


def plot_permutations(
    permuted: Sequence[float] | Array, score: float, p_value: float, *, name: str = "accuracy", ax: Axes | None = None
) -> Axes:
    """Draw a histogram of the scores with permuted labels, and the score with the true labels.

    Parameters
    ----------
    permuted : sequence of float
        ``permuted`` from the result of `tensormargin.permutation_test`.
    score, p_value : float
        ``score`` and ``p_value`` from the same result.
    name : str, default="accuracy"
        Name of the score.
    ax : Axes, optional

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin.plots import plot_permutations
    >>> permuted = np.random.default_rng(0).normal(0.5, 0.05, 99)
    >>> ax = plot_permutations(permuted, score=0.8, p_value=0.01)
    >>> ax.get_xlabel()
    'accuracy'
    """
    values = np.asarray(permuted, dtype=float)
    if values.ndim != 1 or values.size == 0 or not np.all(np.isfinite(values)):
        raise ValueError(f"permuted must be one finite score per permutation; got an array of shape {values.shape}")
    ax = style.given_or_new(ax, 5.2, 3.2)
    counts, edges = np.histogram(values, _score_edges(values))
    null = ax.stairs(counts, edges, fill=True, color=style.GREY, alpha=0.5)
    as_good, _ = np.histogram(values[values >= score - 1e-12], edges)
    reached = ax.stairs(as_good, edges, fill=True, color=style.VERMILION, alpha=0.7)
    line = ax.axvline(score, color=style.BLUE, linewidth=2.0)
    mean = ax.axvline(values.mean(), color=style.DARK, linewidth=1.0, linestyle="--")
    ax.set(xlabel=name, ylabel="permutations", ylim=(0.0, 1.5 * counts.max()))  # room for the legend
    style.tidy(ax, "y")
    style.whole_ticks(ax.yaxis)
    labels = ["permuted labels", "at least as good", "their mean", f"true labels, p = {p_value:.2g}"]
    style.add_legend(ax, [null, reached, mean, line], labels, loc="upper left")
    return ax


def plot_roc(
    names: Sequence[str], false_rates: Sequence[Any], true_rates: Sequence[Any], *, ax: Axes | None = None
) -> Axes:
    """Draw ROC curves, one per class.

    Parameters
    ----------
    names : sequence of str
        Legend of each curve.
    false_rates, true_rates : sequence of array-like
        Rates of false and true positives of each curve, from 0 to 1.
    ax : Axes, optional

    Examples
    --------
    >>> from tensormargin.evaluation import roc
    >>> from tensormargin.plots import plot_roc
    >>> curve = roc([True, True, False, False], [0.9, 0.4, 0.6, 0.1])
    >>> ax = plot_roc([f"rest, AUC {curve.area}"], [curve.false_rate], [curve.true_rate])
    >>> ax.get_legend().get_texts()[0].get_text()
    'rest, AUC 0.75'
    """
    style.check_lengths("curve", names=names, false_rates=false_rates, true_rates=true_rates)
    ax = style.given_or_new(ax, 4.4, 4.0)
    lines = [
        ax.plot(false_rate, true_rate, linewidth=1.6, **style.line_style(k))[0]
        for k, (false_rate, true_rate) in enumerate(zip(false_rates, true_rates, strict=True))
    ]
    _diagonal(ax)
    ax.text(0.5, 0.47, "chance", color=style.GREY, fontsize="small", rotation=45, rotation_mode="anchor", va="top")
    ax.set(xlabel="false positive rate", ylabel="true positive rate")
    style.add_legend(ax, lines, names, loc="lower right")
    return ax


def plot_calibration(
    probability: Sequence[float] | Array,
    observed: Sequence[float] | Array,
    low: Sequence[float] | Array,
    high: Sequence[float] | Array,
    *,
    event: str = "event",
    ax: Axes | None = None,
) -> Axes:
    """Draw how often an event happens against its predicted probability.

    Parameters
    ----------
    probability, observed : sequence of float
        Mean probability and share of the event in each bin.
    low, high : sequence of float
        Interval of each share; NaN for none.
    event : str, default="event"
        What is predicted, in words.
    ax : Axes, optional

    Examples
    --------
    >>> from tensormargin.plots import plot_calibration  # `tensormargin.evaluation.reliability` has the numbers
    >>> ax = plot_calibration([0.2, 0.8], observed=[0.3, 0.7], low=[0.2, 0.6], high=[0.4, 0.8], event="rain")
    >>> ax.get_xlabel()
    'probability of rain'
    """
    style.check_lengths("bin", probability=probability, observed=observed, low=low, high=high)
    ax = style.given_or_new(ax, 4.4, 4.0)
    _diagonal(ax)
    ax.vlines(probability, low, high, color=style.BLUE, linewidth=2.0, alpha=0.6)
    ax.plot(probability, observed, color=style.BLUE, marker="o", markersize=5, linewidth=1.4)
    ax.set_xlabel(f"probability of {event}", **style.VERBATIM)
    ax.set_ylabel(f"share of {event}", **style.VERBATIM)
    return ax


def _score_edges(values: Array) -> Array:
    """Return bin edges; one bin per distinct score if there are few, so that no bin hides a gap between scores."""
    distinct = np.unique(np.round(values, 9))
    if len(distinct) == 1:
        return distinct[0] + np.array([-0.005, 0.005])
    if len(distinct) <= _MOST_SCORES:
        middles = (distinct[1:] + distinct[:-1]) / 2
        first, last = middles[0] - distinct[0], distinct[-1] - middles[-1]
        return np.concatenate([[distinct[0] - first], middles, [distinct[-1] + last]])
    return np.linspace(distinct[0], distinct[-1], _MOST_SCORES + 1)


def _diagonal(ax: Axes) -> None:
    """Draw the diagonal of the unit square, and set both axes to the square."""
    ax.plot([0, 1], [0, 1], color=style.GREY, linewidth=1.0, linestyle=":")
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    style.tidy(ax)
