"""The report of a comparison of methods."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..io import BadFileError
from ..plots import plot_comparison
from .page import Page, Section
from .pictures import picture
from .statements import percent

_PARTS = ("created", "data", "settings", "preparation", "versions", "summary")


def comparison_page(content: Mapping[str, Any]) -> Page:
    """Return the page of what ``tensormargin compare --json`` prints."""
    data, settings, summaries = content["data"], content["settings"], content["summary"]
    best = max(summaries, key=lambda one: one["accuracy"])
    headline = [
        f"Best mean accuracy: {best['method']}, {percent(best['accuracy'])} %.",
        "Methods whose intervals overlap are not shown to differ.",
    ]
    sections = [
        Section("Data", "data.html", {"data": data, "largest": max(row["count"] for row in data["classes"])}),
        Section("Comparison", "comparison.html", _table(content)),
        Section("Methods", "methods.html", {"statements": _statements(content), "settings": _settings(content)}),
    ]
    title = f"{Path(data['source']).name}: {len(settings['methods'])} methods compared"
    return Page(title, headline, content["created"], content["versions"], sections)


def read_comparison(path: str | Path) -> dict[str, Any]:
    """Read what ``tensormargin compare --json`` printed; raise `BadFileError` for anything else."""
    path = Path(path)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadFileError(f"{path}: cannot be read as JSON ({error}); give what `compare --json` printed") from error
    missing = [name for name in _PARTS if not isinstance(content, dict) or name not in content]
    if missing:
        raise BadFileError(f"{path}: has no {', '.join(missing)}; give what `tensormargin compare --json` printed")
    return content


def _table(content: Mapping[str, Any]) -> dict[str, Any]:
    summaries = content["summary"]
    best = max(one["accuracy"] for one in summaries)
    columns = ("method", "accuracy %", "sd", "95 % interval", "fit s", "parameters", "margin mean", "variance")
    drawn = [one for one in summaries if one["accuracy_low"] is not None]
    return {
        "text": f"Mean over {content['settings']['repeats']} test parts. The parameter of each method was chosen on "
        "the training part alone, from as many values for all of the paper's methods.",
        "columns": columns,
        "rows": [{"best": one["accuracy"] == best, "cells": _cells(one)} for one in summaries],
        "picture": picture(
            plot_comparison,
            [one["method"] for one in drawn],
            [100 * one["accuracy"] for one in drawn],
            [100 * one["accuracy_low"] for one in drawn],
            [100 * one["accuracy_high"] for one in drawn],
            caption="Accuracy in percent with 95 % intervals.",
        )
        if drawn
        else None,
        "remarks": [
            "Intervals are Student's with the variance corrected for overlapping training parts (Nadeau and Bengio "
            "2003). Margins are of the test part; parameters and margins are per binary problem."
        ],
    }


def _cells(one: Mapping[str, Any]) -> list[dict[str, Any]]:
    low, high = one["accuracy_low"], one["accuracy_high"]
    return [
        {"text": one["method"], "value": one["method"]},
        _number(one["accuracy"], 100, 2),
        _number(one["accuracy_sd"], 100, 2),
        {"text": "-" if low is None else f"{percent(low)} to {percent(high)}", "value": low or 0},
        _number(one["fit_seconds"], 1, 3),
        _number(one["n_parameters"], 1, 0),
        _number(one["margin_mean"], 1, 2),
        _number(one["margin_variance"], 1, 2),
    ]


def _number(value: float | None, factor: float, digits: int) -> dict[str, Any]:
    if value is None:
        return {"text": "-", "value": ""}
    return {"text": f"{factor * value:.{digits}f}", "value": value}


def _statements(content: Mapping[str, Any]) -> list[str]:
    settings, data = content["settings"], content["data"]
    groups = "that keep groups together" if data["n_groups"] else "stratified"
    words = content["preparation"]
    return [
        f"Data: {data['n_samples']} samples of {' x '.join(map(str, data['sample_shape']))}.",
        f"Preparation: {'; '.join(words) or 'none'}.",
        f"Evaluation: {settings['repeats']} random splits ({groups}), {settings['test_size']:.0%} of the samples for "
        f"the test, seed {settings['seed']}; lambda from {', '.join(map(str, settings['lam_grid']))} by "
        f"{settings['folds']}-fold cross-validation on the training part.",
        "Software: " + ", ".join(f"{name} {version}" for name, version in content["versions"].items()) + ".",
    ]


def _settings(content: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [
        (name, ", ".join(map(str, value)) if isinstance(value, list) else str(value))
        for name, value in content["settings"].items()
    ]
