"""Plots of scores: of a search against lambda, against the rank, and of a comparison of methods."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from ..runtime import Array, counted
from ._style import (
    BLUE,
    DARK,
    DASHES,
    GREEN,
    GREY,
    MARKERS,
    PURPLE,
    VERBATIM,
    VERMILION,
    given_or_new,
    legend_beside,
    tidy,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BY_VIEW = "one by view"  # weights of several views that differ in decomposition or rank
_WITHOUT_RANK = ("full", _BY_VIEW)
_REQUIRED = ("param_decomposition", "param_lam", "mean_test_score", "std_test_score")
_COLOURS = {"full": GREY, "cp": VERMILION, "tucker": BLUE, "tt": GREEN}


@dataclass(frozen=True)
class _Candidate:
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

    Parameters
    ----------
    results : dict
        ``cv_results_`` of a scikit-learn search over "decomposition", "lam" and optionally "rank", "mu1" and others.
        Candidates with a NaN score, and those that a race has dropped, are left out.
    chosen : int, optional
        Index of the selected candidate, ``best_index_``, which is then marked instead of the best one.
    ax : Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    Axes
        With the best candidate marked, and a band of one standard error over the splits around its line.

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
    ax = given_or_new(ax, 6.4, 3.8)
    lines, labels = [], []
    for weight, style in _line_styles(candidates).items():
        own = [candidate for candidate in candidates if candidate.weight == weight]
        along = _best_of_each(own, lambda candidate: candidate.lam)
        lams, scores, errors = (np.array([getattr(c, name) for c in along]) for name in ("lam", "score", "error"))
        lines += ax.plot(lams, scores, **style)
        labels.append(weight[0] if weight[0] in _WITHOUT_RANK else f"{weight[0]}, rank {_rank_name(weight[1])}")
        if weight == best.weight:
            ax.fill_between(lams, scores - errors, scores + errors, color=style["color"], alpha=0.18, linewidth=0)
    marked: dict[str, Any] = {"markerfacecolor": "none", "markeredgecolor": DARK, "ls": "none", "markersize": 12}
    if chosen is None:
        lines += ax.plot(best.lam, best.score, "o", **marked)
        labels.append(f"best: {best.score:.3f} ± {best.error:.3f}{_tied(candidates, best.score)}")
    else:
        lam, score = float(results["param_lam"][chosen]), float(results["mean_test_score"][chosen])
        lines += ax.plot(lam, score, "o", **marked)
        labels.append(f"taken: {score:.3f}{_tied(candidates, score)}")
    ax.set_xscale("log")
    ax.set_xlabel("λ")
    ax.set_ylabel("cross-validated score")
    tidy(ax)
    legend_beside(ax, lines, labels)
    return ax


def plot_ranks(results: Mapping[str, Any], *, ax: Axes | None = None) -> Axes:
    """Draw the best cross-validated score of each rank, with one line per decomposition.

    Parameters
    ----------
    results : dict
        See `plot_search`.
    ax : Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    Axes
        With standard errors over the splits. A full weight has no rank and is a horizontal line, as are weights whose
        ranks or decompositions differ between views.

    Examples
    --------
    >>> from tensormargin import TensorMarginClassifierCV
    >>> from tensormargin.datasets import make_low_rank_classes
    >>> from tensormargin.plots import plot_ranks
    >>> data = make_low_rank_classes(60, (6, 7, 5), random_state=0)
    >>> search = TensorMarginClassifierCV(decompositions=("cp",), ranks=(1, 2, 3), lams=(1.0,), mus=(1.0,), cv=3)
    >>> ax = plot_ranks(search.fit(data.data, data.target).cv_results_)
    >>> ax.get_xlabel()
    'rank'
    """
    candidates = _candidates(results)
    ax = given_or_new(ax, 6.0, 3.6)
    low_rank = [candidate for candidate in candidates if candidate.decomposition not in _WITHOUT_RANK]
    ranks = [one.rank for one in _best_of_each(low_rank, lambda candidate: _rank_order(candidate.rank))]
    decompositions = list(dict.fromkeys(candidate.decomposition for candidate in candidates))
    lines = []
    for place, name in enumerate(decompositions):
        own = [candidate for candidate in candidates if candidate.decomposition == name]
        if name in _WITHOUT_RANK:
            lines.append(_level(ax, _best(own)))
        else:
            shift = 0.06 * (place - (len(decompositions) - 1) / 2)  # so that error bars do not overlap
            lines.append(_against_rank(ax, own, ranks, place, shift))
    ax.set_xticks(range(len(ranks)), [_rank_name(rank) for rank in ranks])
    ax.set_xlim(-0.4, max(len(ranks), 1) - 0.6)
    ax.set_xlabel("rank")
    ax.set_ylabel("best cross-validated score")
    tidy(ax)
    legend_beside(ax, lines, decompositions)
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
        Where to draw; a new figure by default.

    Returns
    -------
    Axes

    Examples
    --------
    >>> from tensormargin.plots import plot_comparison
    >>> ax = plot_comparison(["SVM", "STM"], [0.84, 0.88], [0.75, 0.8], [0.9, 0.93], chance=0.25)
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['STM', 'SVM']
    """
    counts = {len(names), len(means), len(lows), len(highs)}
    if len(counts) > 1 or not len(names):
        raise ValueError(
            "names, means, lows and highs need one entry per method; "
            f"got {len(names)}, {len(means)}, {len(lows)} and {len(highs)}"
        )
    if reference is not None and reference not in names:
        raise ValueError(f"reference must be one of the names, {list(names)}; got reference={reference!r}")
    order = sorted(range(len(names)), key=lambda k: -np.nan_to_num(means[k], nan=-np.inf))
    ax = given_or_new(ax, 5.2, 1.0 + 0.32 * len(names))
    for row, k in enumerate(order):
        colour = VERMILION if names[k] == reference else BLUE
        ax.plot([lows[k], highs[k]], [row, row], color=colour, linewidth=2.0, solid_capstyle="butt", alpha=0.6)
        ax.plot(means[k], row, "s" if names[k] == reference else "o", color=colour, markersize=6)
    if reference is not None:
        ax.axvline(means[list(names).index(reference)], color=VERMILION, linewidth=1.0, linestyle=":", zorder=1)
    if chance is not None:
        ax.axvline(chance, color=GREY, linewidth=1.2, linestyle="--", zorder=1)
        above: dict[str, Any] = {"transform": ax.get_xaxis_transform(), "ha": "center", "va": "bottom"}
        ax.text(chance, 1.01, "chance", color=GREY, fontsize="small", **above)
    ax.set_yticks(range(len(order)), [names[k] for k in order], **VERBATIM)
    ax.set_ylim(len(order) - 0.5, -0.5)
    ax.set_xlabel(name)
    tidy(ax, "x")
    return ax


def _level(ax: Axes, candidate: _Candidate) -> Any:
    """Draw a horizontal line for a score without a rank, with a band of its standard error."""
    colour = _colour(candidate.decomposition)
    ax.axhspan(candidate.score - candidate.error, candidate.score + candidate.error, color=colour, alpha=0.15, lw=0)
    return ax.axhline(candidate.score, color=colour, linestyle="--", linewidth=1.4)


def _against_rank(ax: Axes, own: list[_Candidate], ranks: list[Any], place: int, shift: float) -> Any:
    best = _best_of_each(own, lambda candidate: _rank_order(candidate.rank))
    return ax.errorbar(
        [ranks.index(one.rank) + shift for one in best],
        [one.score for one in best],
        [one.error for one in best],
        color=_colour(own[0].decomposition),
        marker=MARKERS[place % len(MARKERS)],
        markersize=5,
        capsize=2,
        linewidth=1.4,
    )


def _line_styles(candidates: list[_Candidate]) -> dict[tuple[str, Any], dict[str, Any]]:
    """Return the line style of each weight: one colour and dash per decomposition, one marker per rank."""
    ranks = sorted({candidate.rank for candidate in candidates}, key=_rank_order)
    forms = list(dict.fromkeys(candidate.decomposition for candidate in candidates))
    styles = {}
    for candidate in candidates:
        number = ranks.index(candidate.rank)
        styles[candidate.weight] = {
            "color": _colour(candidate.decomposition),
            "linestyle": DASHES[forms.index(candidate.decomposition) % len(DASHES)],
            "marker": MARKERS[number % len(MARKERS)],
            "markersize": 4,
            "linewidth": 1.4,
        }
    return styles


def _colour(decomposition: str) -> str:
    return _COLOURS.get(decomposition, PURPLE)


def _best(candidates: Iterable[_Candidate]) -> _Candidate:
    """Return the candidate with the best score; ties go to the fewest parameters, as in the search."""
    return max(candidates, key=lambda one: (round(one.score, 12), -one.n_parameters))


def _tied(candidates: Iterable[_Candidate], score: float) -> str:
    """Return with how many other candidates one of this score is tied, for a legend."""
    others = sum(round(one.score, 12) == round(score, 12) for one in candidates) - 1
    return f",\ntied with {counted(others, 'other')}" if others > 0 else ""


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
    ranks, sizes = results.get("param_rank", [None] * len(errors)), results.get("n_parameters", [0] * len(errors))
    names, lams, scores = (results[key] for key in ("param_decomposition", "param_lam", "mean_test_score"))
    columns = zip(names, ranks, lams, scores, errors, sizes, strict=True)
    dropped = results.get("dropped", [""] * len(errors))  # scored on some of the splits only
    found = [
        _candidate(*column)
        for column, reason in zip(columns, dropped, strict=True)
        if np.isfinite(column[3]) and not reason
    ]
    if not found:
        raise ValueError("results holds no candidate with a score: every fit of the search has failed")
    return found


def _candidate(decomposition: Any, rank: Any, lam: Any, score: float, error: float, n_parameters: int) -> _Candidate:
    if isinstance(decomposition, dict) or isinstance(rank, dict):
        decomposition, rank = _BY_VIEW, None
    return _Candidate(
        decomposition=str(decomposition),
        rank=None if rank is np.ma.masked else rank,  # scikit-learn masks parameters missing from a grid of the list
        lam=float(lam),
        score=float(score),
        error=float(error),
        n_parameters=int(n_parameters),
    )
