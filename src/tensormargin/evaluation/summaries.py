"""Facts about data, searches, evaluations and comparisons for reports, as JSON types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import takewhile
from math import isfinite
from typing import Any

import numpy as np
from sklearn.metrics import confusion_matrix

from ..data import Views, format_axes, is_ragged, missing_samples, names_of, survey
from ..io import SampleSet, leakage_warnings, listed_shape
from ..runtime import is_lazy, software_versions
from ..selection import TensorMarginClassifierCV
from ..transformers import describe_step, flat_steps
from .comparison import CompareRow, CompareSettings
from .comparison_summary import differences_from, summarise
from .held_out import SCORES, prediction_rows
from .intervals import PairedDifference, ScoreInterval
from .nested import CHOSEN, NestedEvaluation, ReferenceScores
from .permutation import PermutationTest
from .references import REFERENCE
from .without_views import ViewsEvaluation

MOST_CURVES = 6
"""With more classes than these, the probabilities of all of them are not kept, and no ROC curves are drawn."""

_ARRAYS = ("test", "right", "predicted")  # attributes of CompareRow that are too long for a report


def data_facts(samples: SampleSet) -> dict[str, Any]:
    """Return source, shape, range, classes, groups and warnings of a sample set.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin.evaluation import data_facts
    >>> from tensormargin.io import SampleSet
    >>> samples = SampleSet(np.random.rand(8, 6, 9), np.arange(8) % 2, None, None, None, "noise", "plain", ())
    >>> facts = data_facts(samples)
    >>> facts["source"], facts["sample_shape"], facts["classes"]
    ('noise', [6, 9], [{'label': 0, 'count': 4}, {'label': 1, 'count': 4}])
    """
    X, y = samples.data, samples.target
    parts = list(X.values()) if isinstance(X, Views) else X if is_ragged(X) else [X]
    least, most = zip(*map(_range, parts), strict=True)
    labels, counts = ([], []) if y is None else (part.tolist() for part in np.unique(y, return_counts=True))
    return {
        "source": samples.source,
        "kind": samples.kind,
        "n_samples": len(X),
        "sample_shape": listed_shape(samples.sample_shape),
        "modes": format_axes(samples.axes),
        "dtype": ", ".join(sorted({str(part.dtype) for part in parts})),
        "minimum": min(least),
        "maximum": max(most),
        "classes": [{"label": label, "count": count} for label, count in zip(labels, counts, strict=True)],
        "n_groups": None if samples.groups is None else len(np.unique(samples.groups)),
        "confounds": [] if samples.confounds is None else names_of(samples.confounds),
        "notes": list(samples.notes),
        "warnings": list(leakage_warnings(samples)),
        "views": _view_facts(samples) if isinstance(X, Views) else [],
        "covariates": None if samples.coding is None else samples.coding.facts,
    }


def _range(part: Any) -> tuple[float, float]:
    """Return the smallest and the largest entry of an array; a Dask array is read once for this and `leakage`.

    NaN, in samples that lack a view, does not count.
    """
    if is_lazy(part):
        found = survey(part)
        return found.minimum, found.maximum
    least, most = float(part.min()), float(part.max())
    return (float(np.nanmin(part)), float(np.nanmax(part))) if np.isnan(least) else (least, most)


def _view_facts(samples: SampleSet) -> list[dict[str, Any]]:
    """Return name, source, shape, dtype and range of each view, and how many samples lack it."""
    return [
        {
            "name": name,
            "source": (samples.sources or {}).get(name, samples.source),
            "sample_shape": [int(size) for size in array.shape[1:]],
            "dtype": str(array.dtype),
            **dict(zip(("minimum", "maximum"), _range(array), strict=True)),
            "n_missing": len(missing_samples(array)),
        }
        for name, array in samples.data.items()
    ]


def comparison_content(
    samples: SampleSet, settings: CompareSettings, preparation: Sequence[str], rows: Sequence[CompareRow]
) -> dict[str, Any]:
    """Return a comparison as JSON types: data, settings, versions, summary, differences from one method, and rows.

    Examples
    --------
    >>> from tensormargin.datasets import make_low_rank_classes
    >>> from tensormargin.evaluation import CompareSettings, compare, comparison_content
    >>> from tensormargin.io import SampleSet
    >>> data = make_low_rank_classes(60, (6, 7), rank=1, random_state=0)
    >>> samples = SampleSet(data.data, data.target, None, None, None, "noise", "plain", ())
    >>> settings = CompareSettings(methods=("SVM", "STM"), repeats=2, lam_grid=(1.0,))
    >>> content = comparison_content(samples, settings, (), list(compare(data.data, data.target, settings)))
    >>> sorted(content)
    ['created', 'data', 'differences', 'preparation', 'rows', 'settings', 'summary', 'versions']
    """
    summaries = summarise(rows, settings.entries, samples.groups)
    differences = differences_from(settings.reference, rows, settings.entries, samples.groups)
    return {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "data": data_facts(samples),
        "settings": _plain({name: value for name, value in vars(settings).items() if name != "preparation"}),
        "preparation": list(preparation),
        "versions": software_versions(),
        "summary": [_plain(vars(summary)) for summary in summaries],
        "differences": [{**_plain(vars(one)), "significant": one.significant} for one in differences],
        "rows": [_plain({name: value for name, value in vars(row).items() if name not in _ARRAYS}) for row in rows],
    }


def search_facts(search: TensorMarginClassifierCV) -> dict[str, Any]:
    """Return the candidates of a search and the selected one."""
    results = search.cv_results_
    names = ("decomposition", "rank", "lam", "multi_class", "class_weight")
    tried = {name: list(dict.fromkeys(str(value) for value in results[f"param_{name}"])) for name in names}
    pairs = zip(results["param_mu1"], results["param_mu2"], strict=True)
    tried["mu1, mu2"] = list(dict.fromkeys(f"({mu1:g}, {mu2:g})" for mu1, mu2 in pairs))
    if "param_preparation" in results:  # in a few words each, without the steps that all of them begin with
        steps = [[describe_step(one, True) for one in flat_steps([("", own)])] for own in results["param_preparation"]]
        shared = sum(1 for _ in takewhile(lambda own: len(set(own)) == 1, zip(*steps, strict=False)))
        words = [", then ".join(own[shared:]) or "samples as they are" for own in steps]
        tried["preparation"] = list(dict.fromkeys(words))
    n_fits, n_dropped = int(results["n_splits_done"].sum()), sum(map(bool, results["dropped"]))
    return {
        "tried": tried,
        "n_models": len(results["params"]),
        "n_splits": search.n_splits_,
        "n_fits": n_fits,
        "n_dropped": n_dropped,
        "ended_at_once": bool(n_dropped and n_fits == search.n_splits_ and not search.stopped_),
        "stopped": search.stopped_,
        "best": _plain(search.best_params_),
        "best_score": search.best_score_,
    }


def _score_facts(interval: ScoreInterval, difference: PairedDifference) -> dict[str, Any]:
    """Return a score, its interval and a paired difference."""
    return {
        "score": interval.score,
        "interval": [interval.low, interval.high],
        "difference": {**asdict(difference), "significant": difference.significant},
    }


def evaluation_facts(evaluation: NestedEvaluation, samples: SampleSet) -> dict[str, Any]:
    """Return scores, intervals, the comparison with the reference, folds and held-out predictions."""
    tested = np.broadcast_to(evaluation.labels, evaluation.tested.shape)[evaluation.tested]
    labels, counts = np.unique(tested, return_counts=True)
    ours, classes = evaluation.interval, np.unique(evaluation.labels)
    largest = float(counts.max() / counts.sum())

    def reference(found: ReferenceScores | None) -> dict[str, Any] | None:
        if found is None:
            return None
        return _score_facts(found.interval, found.difference) | {
            "name": REFERENCE,
            "accuracy": found.accuracy,
            "balanced_accuracy": found.balanced_accuracy,
            "confusion": confusion_matrix(tested, found.predicted[evaluation.tested], labels=classes).tolist(),
        }

    return _score_facts(ours, evaluation.difference) | {
        "scheme": evaluation.scheme,
        "seed": evaluation.seed,
        "classes": classes.tolist(),
        "score": {"name": SCORES[evaluation.score], "value": ours.score},
        "interval_method": ours.method,
        "unit": ours.unit,
        "n_units": ours.n_units,
        "n_tested": int(evaluation.tested.any(axis=0).sum()),
        "n_untested": int(np.sum(~evaluation.tested.any(axis=0))),
        "cut": evaluation.cut,
        "repeats": len(evaluation.tested),
        "accuracy": evaluation.accuracy,
        "balanced_accuracy": evaluation.balanced_accuracy,
        "reference": reference(evaluation.flat),
        "matched": reference(evaluation.matched),
        "majority": {
            "label": labels.tolist()[counts.argmax()],
            "accuracy": largest,
            "score": largest if evaluation.score == "accuracy" else 1 / len(labels),
        },
        "groups": [
            {"group": group, "n_samples": one.n_units, "accuracy": one.score, "interval": [one.low, one.high]}
            for group, one in evaluation.by_group.items()
        ],
        "folds": [
            {**vars(fold), **{name: _plain(getattr(fold, name)) for name in CHOSEN}} for fold in evaluation.folds
        ],
        "samples": _sample_rows(evaluation, samples),
    }


def _sample_rows(evaluation: NestedEvaluation, samples: SampleSet) -> list[dict[str, Any]]:
    """Return one row per held-out prediction; with few classes, more than two, also the probability of each."""
    several, found = evaluation.probabilities, []
    if several is not None and not 2 < several.shape[-1] <= MOST_CURVES:  # two: the probability of the other is known
        several = None
    for repeat, tested in enumerate(evaluation.tested):
        rows = np.flatnonzero(tested)
        predicted, confidence = (of[repeat, rows] for of in (evaluation.predicted, evaluation.confidence))
        lines = prediction_rows(samples, repeat, rows, predicted, confidence)
        if several is not None:
            for line, shares in zip(lines, np.round(several[repeat, rows], 4).tolist(), strict=True):
                line["probabilities"] = shares
        found += lines
    return found


def permutation_facts(test: PermutationTest, score_name: str) -> dict[str, Any]:
    """Return the result of a permutation test as JSON types."""
    return {
        **{name: value for name, value in vars(test).items() if name != "permuted_what"},
        "score_name": score_name,
        "n_permutations": len(test.permuted),
        "exchanged": test.permuted_what,
        "permuted": test.permuted.tolist(),
    }


def without_views_facts(evaluation: ViewsEvaluation) -> dict[str, Any]:
    """Return the score without each view, and the difference to that with all views, as JSON types."""
    differences = evaluation.differences
    return {name: _score_facts(one.interval, differences[name]) for name, one in evaluation.without.items()}


def _plain(value: Any) -> Any:
    """Return the value of a parameter, or values by name, as JSON types, without NaN; a transformer in a few words."""
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, float):
        return value if isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | float | str) else describe_step(value, brief=True)
