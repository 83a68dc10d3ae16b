"""``tensormargin compare OLD.skops NEW.skops DATA``: two models on the same new samples."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from ..runtime import counted
from ._data import load_for, unseen_categories_printed
from ._outputs import blaming, print_json, warn


def are_models(data: tuple[Path, ...]) -> bool:
    """Return whether DATA begins with model files; raise ValueError if they are not two, with samples behind them."""
    models = [path for path in data if path.suffix.lower() == ".skops"]
    if models and (len(models) != 2 or models != list(data[:2]) or len(data) < 3):
        raise ValueError(
            "two models are compared on labelled samples: tensormargin compare OLD.skops NEW.skops DATA; got "
            f"{counted(len(models), 'model file')} and {counted(len(data) - len(models), 'other path')}"
        )
    return bool(models)


def compare_models(given: Any) -> None:
    """Print how two models do on the same labelled samples, those left out that either was fitted to."""
    import numpy as np

    from ..evaluation import paired_difference, score_interval
    from ..report import format_difference

    old, new = (_Predicted.of(path, given) for path in given.data[:2])
    if not np.array_equal(old.target, new.target) or not _same(old.groups, new.groups):
        raise ValueError("the two models make different samples of DATA; compare models that were fitted to data alike")
    counts = ~(old.used | new.used)
    if not counts.any():
        raise ValueError("all samples of DATA were used in a fit, which says nothing about new ones; give new samples")
    groups = None if old.groups is None else old.groups[counts]
    right = [(one.predicted == one.target)[counts].astype(float) for one in (old, new)]
    scores = [score_interval(one, groups) for one in right]
    found = paired_difference(right[1], right[0], groups)
    if given.as_json:
        models = [{"model": str(path), **asdict(one)} for path, one in zip(given.data[:2], scores, strict=True)]
        left_out = {"n_samples": int(counts.sum()), "n_used_in_fit": int((~counts).sum())}
        print_json({**left_out, "models": models, "difference": asdict(found)})
        return
    if not counts.all():
        click.echo(f"Left out, since a model was fitted to them: {counted(int((~counts).sum()), 'sample')}")
    for path, score in zip(given.data[:2], scores, strict=True):
        click.echo(f"{path}: {score} of {counted(int(counts.sum()), 'sample')}")
    click.echo(f"New minus old: {format_difference({**asdict(found), 'significant': found.significant})}")


class _Predicted:
    """What a model predicts for labelled samples."""

    def __init__(self, predicted: Any, samples: Any, used: Any) -> None:
        self.predicted, self.target, self.groups, self.used = predicted, samples.target, samples.groups, used

    @classmethod
    def of(cls, path: Path, given: Any) -> _Predicted:
        import numpy as np

        from ..io import load_model, predictions_of

        loaded = load_model(path)
        samples = load_for(path, loaded, given.data[2:], dict(given.loading), need_labels=True)
        with blaming(path), unseen_categories_printed():
            rows = predictions_of(loaded.model, samples, loaded.axes, loaded.training, False)
        unknown = set(samples.labels.tolist()) - set(np.asarray(loaded.facts["classes"]).tolist())
        if unknown:
            warn(f"{path} does not know {', '.join(sorted(map(str, unknown)))}: it is wrong on these samples")
        used = np.zeros(len(rows.predicted), bool) if rows.compared is None else rows.compared.used
        return cls(rows.predicted, samples, used)


def _same(first: Any, second: Any) -> bool:
    import numpy as np

    return bool(first is None and second is None) or bool(np.array_equal(first, second))
