"""The report of a comparison of methods."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..data import format_shape
from ..estimators import KERNEL_METHODS
from ..evaluation import GAMMA_FACTORS, Winner
from ..io import TEXT_BYTES, BadFileError, SampleSet, check_sha256
from ..runtime import percent, points
from . import sentences
from .model_report import chosen_section, data_section, fitted_sections, methods_section
from .page import Lead, Page, Section, interval_picture, table
from .sections import confusion_section, predictions_section
from .viewer import Display, ModelMaps

_PARTS: Mapping[str, type] = {
    "created": str,
    "data": dict,
    "settings": dict,
    "preparation": list,
    "versions": dict,
    "summary": list,
    "differences": list,
}
_LARGEST = 1e100


def comparison_page(
    content: Mapping[str, Any],
    winner: Winner | None = None,
    samples: SampleSet | None = None,
    display: Display | None = None,
) -> Page:
    """Return the report page of a comparison, from the output of ``tensormargin compare --json``.

    Parameters
    ----------
    content : mapping
    winner : Winner, optional
        The best method, fitted to all samples, for the second half of the page (`tensormargin.evaluation.fit_winner`).
    samples : SampleSet, optional
        The samples that it was fitted to.
    display : Display, optional
        How volumes are shown.

    Examples
    --------
    >>> from tensormargin.datasets import make_low_rank_classes
    >>> from tensormargin.evaluation import CompareSettings, compare, comparison_content
    >>> from tensormargin.io import SampleSet
    >>> from tensormargin.report import comparison_page
    >>> data = make_low_rank_classes(60, (6, 7), rank=1, random_state=0)
    >>> samples = SampleSet(data.data, data.target, None, None, None, "noise", "plain", ())
    >>> settings = CompareSettings(methods=("SVM", "STM"), repeats=2, lam_grid=(1.0,))
    >>> rows = list(compare(data.data, data.target, settings))
    >>> comparison_page(comparison_content(samples, settings, (), rows)).title
    'noise: 2 methods compared'
    """
    data, settings = content["data"], content["settings"]
    about = [] if winner is None else _winner_sections(content, winner, samples, display)
    with_maps = any(section.content.get("maps") for section in about)
    shown = [
        (name, ", ".join(map(str, value)) if isinstance(value, list) else str(value))
        for name, value in settings.items()
    ]
    sections = [
        Section("Comparison", "comparison.html", _table(content)),
        Section("What this does not show", "list.html", {"lines": sentences.comparison_limits(content, with_maps)}),
        data_section(data),
        *about,
        methods_section(_statements(content), shown),
    ]
    title = f"{Path(data['source']).name}: {len(settings['methods'])} methods compared"
    return Page(title, _lead(content), content["created"], content["versions"], sections)


def _winner_sections(
    content: Mapping[str, Any], winner: Winner, samples: SampleSet | None, display: Display | None
) -> list[Section]:
    """Return the sections about the winner: what it is, its maps, factors and margins, and its predictions."""
    reasons = [
        f"{winner.method}, fitted to all samples with the strength that {content['settings']['folds']}-fold "
        "cross-validation on them chose. Maps, factors and margins are of this fit; the predictions are those of the "
        "comparison, for samples that were held out."
    ]
    if winner.best != winner.method:
        reasons.append(f"The most accurate is {winner.best}, which has no tensor weight to show.")
    predicted = {
        "name": winner.method,
        "samples": winner.predictions,
        "repeats": content["settings"]["repeats"],
        "note": " The test sets of all splits are counted together; a sample may be in several of them.",
    }
    classes = [row["label"] for row in content["data"]["classes"]]
    return [
        chosen_section(winner.model, {}, f"Winner: {winner.method}", reasons),
        *fitted_sections(ModelMaps(winner.model, samples), {}, None if samples is None else samples.axes, display),
        confusion_section(predicted, classes),
        predictions_section(predicted),
    ]


def _lead(content: Mapping[str, Any]) -> Lead:
    """Return the first screen: the best method, its accuracy, and those of all methods as a figure."""
    summaries, data = content["summary"], content["data"]
    best = max(summaries, key=lambda one: one["accuracy"])
    units = f"{data['n_groups']} groups" if data["n_groups"] else f"{data['n_samples']} samples"
    rows = [(one["method"], one["accuracy"], one["accuracy_low"], one["accuracy_high"]) for one in summaries]
    caption = "Accuracy with 95 % intervals. Methods differ by the paired difference, not by overlap."
    return Lead(
        f"Of {len(summaries) - 1} methods, {sentences.format_best(summaries, best)} on held-out samples. "
        + " ".join(sentences.format_differences(content["differences"])),
        f"{percent(best['accuracy'])} %",
        f"accuracy of {best['method']} on held-out samples",
        sentences.format_interval([best["accuracy_low"], best["accuracy_high"]], units),
        interval_picture(rows, caption),
    )


def read_comparison(path: str | Path, sha256: str | None = None) -> dict[str, Any]:
    """Return the saved output of ``tensormargin compare --json``; raise `BadFileError` for anything else.

    ``sha256`` is what the file must have, if it is known.

    Examples
    --------
    >>> from tensormargin.io import BadFileError
    >>> from tensormargin.report import read_comparison
    >>> try:
    ...     read_comparison("result.json")
    ... except BadFileError as error:
    ...     print(error)
    result.json: no such file; give what `tensormargin compare --json` printed
    """
    path = Path(path)
    if not path.is_file():
        raise BadFileError(f"{path}: no such file; give what `tensormargin compare --json` printed")
    if path.stat().st_size > TEXT_BYTES:
        raise BadFileError(f"{path}: a comparison has at most {TEXT_BYTES} bytes, this file {path.stat().st_size}")
    if sha256 is not None:
        check_sha256(path, sha256)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise BadFileError(f"{path}: cannot be read as JSON ({error}); give what `compare --json` printed") from error
    missing = [name for name in _PARTS if not isinstance(content, dict) or name not in content]
    if missing:
        raise BadFileError(f"{path}: has no {', '.join(missing)}; give what `tensormargin compare --json` printed")
    for name, kind in _PARTS.items():
        if not isinstance(content[name], kind):
            raise BadFileError(f"{path}: {name} must be {kind.__name__}, is {type(content[name]).__name__}")
    if not content["summary"]:
        raise BadFileError(f"{path}: summary must have a method or more, is empty")
    _check_finite(path, content)
    return content


def _check_finite(path: Path, part: Any) -> None:
    """Raise `BadFileError` for NaN and infinite numbers, which strict JSON does not have, and for huge ones."""
    inside = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    for one in inside:
        _check_finite(path, one)
    if isinstance(part, int | float) and not abs(part) < _LARGEST:
        raise BadFileError(f"{path}: numbers must be finite, and below {_LARGEST:g}; got {str(part)[:20]}")


def _table(content: Mapping[str, Any]) -> dict[str, Any]:
    summaries = content["summary"]
    best = max(one["accuracy"] for one in summaries)
    differences = {one["method"]: one for one in content["differences"]}
    top = [place for place, one in enumerate(summaries) if one["accuracy"] == best]
    scores = [_score_cells(one, differences.get(one["method"])) for one in summaries]
    n_groups = content["data"]["n_groups"]
    tested, paired = (f"{n_groups} groups", "group") if n_groups else ("samples", "sample")
    against = next((one["against"] for one in content["differences"]), "")
    forms = {"accuracy_sd": (100, 2), "fit_seconds": (1, 3), "n_parameters": (1, 0)}
    forms |= {"margin_mean": (1, 2), "margin_variance": (1, 2)}
    details = [[one["method"], *(_number(one[name], *form) for name, form in forms.items())] for one in summaries]
    return {
        "text": f"Mean over {content['settings']['repeats']} test sets. The parameter of each method was chosen on "
        "the training set alone, from as many values for all of the paper's methods.",
        "tables": [
            table(
                ("method", "accuracy %", "95 % interval", f"minus {against}", "95 % interval", "p (Holm)"), scores, top
            ),
            table(("method", "sd of accuracy", "fit s", "parameters", "margin mean", "variance"), details, top),
        ],
        "remarks": [
            "Intervals are for the accuracy to be expected on new samples like these from models fitted to training "
            f"sets of this size. They are the wider of two: over the tested {tested} (Wilson's; groups: with Student's "
            "t) and over the splits (Student's), both corrected for overlapping training sets (Nadeau and Bengio "
            f"2003). Differences are paired by {paired}; p-values are corrected for their number (Holm). The method "
            "that all are compared with was chosen before the scores were known.",
            "Margins are of the test set; parameters and margins are per binary problem.",
        ],
    }


def _score_cells(one: Mapping[str, Any], difference: Mapping[str, Any] | None) -> list[Any]:
    low, high = one["accuracy_low"], one["accuracy_high"]
    cells = [one["method"], _number(one["accuracy"], 100, 2), (sentences.format_ends((low, high)), low or 0)]
    if difference is None:  # the method that all are compared with
        return [*cells, "", "", ""]
    low, high, p_value = (difference[name] for name in ("low", "high", "p_value"))
    gain = points(difference["difference"]), difference["difference"]
    p_cell = ("-", "") if p_value is None else (f"{p_value:.2g}", p_value)
    return [*cells, gain, (sentences.format_ends((low, high), points), low or 0), p_cell]


def _number(value: float | None, factor: float, digits: int) -> tuple[str, Any]:
    if value is None:
        return "-", ""
    return f"{round(factor * value, digits) + 0.0:.{digits}f}", value  # adding zero removes the sign of -0.0


def _statements(content: Mapping[str, Any]) -> list[str]:
    settings, data = content["settings"], content["data"]
    groups = "that keep groups together" if data["n_groups"] else "stratified"
    gamma = ""
    if set(settings["methods"]) & set(KERNEL_METHODS):
        gamma = f", for kernels with gamma from {', '.join(map(str, GAMMA_FACTORS))} times its scale,"
    return [
        f"Data: {data['n_samples']} samples of {format_shape(data['sample_shape'])}.",
        f"Preparation: {'; '.join(content['preparation']) or 'none'}.",
        f"Evaluation: {settings['repeats']} random splits ({groups}), {settings['test_size']:.0%} of the samples for "
        f"the test, seed {settings['seed']}; lambda from {', '.join(map(str, settings['lam_grid']))}"
        f"{gamma} by {settings['folds']}-fold cross-validation on the training set.",
        sentences.describe_software(content["versions"]),
    ]
