"""``tensormargin compare OLD.skops NEW.skops DATA``: two models on the same new samples."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from ..runtime import counted, listed
from ._data import load_for, unseen_categories_printed
from ._outputs import blaming, print_json

if TYPE_CHECKING:
    from ..runtime import Array

_ALSO = ("data", "as_json")  # parameters that apply, besides those of loading


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
    """Print how two models do on the same labelled samples, those left out that either was fitted to.

    Samples of classes that one of them does not know are left out, too.
    """
    from ..evaluation import paired_difference, score_interval
    from ..report import format_difference

    _refuse_ignored((*_ALSO, *given.loading))
    both = [_Predicted.of(path, given) for path in given.data[:2]]
    groups = _common_groups(*both)
    known = both[0].known & both[1].known
    counts = known & ~(both[0].used | both[1].used)
    if not counts.any():
        why = "was used in a fit, which says nothing about new ones" if known.any() else "has a class that both know"
        raise ValueError(f"{'every' if known.any() else 'no'} sample of DATA {why}; give new samples of known classes")
    groups = None if groups is None else groups[counts]
    right = [one.right[counts].astype(float) for one in both]
    scores = [score_interval(one, groups) for one in right]
    found = paired_difference(right[1], right[0], groups)
    number, used = int(counts.sum()), int((known & ~counts).sum())
    if given.as_json:
        models = [
            {"model": one.path, **asdict(score), "unknown_labels": one.unknown}
            for one, score in zip(both, scores, strict=True)
        ]
        left_out = {"n_samples": number, "n_used_in_fit": used, "n_unknown": int((~known).sum())}
        print_json({**left_out, "models": models, "difference": asdict(found)})
        return
    for one in both:
        if one.unknown:
            n_unknown = counted(int((~one.known).sum()), "sample")
            click.echo(f"Left out, since {one.path} does not know their class ({listed(one.unknown)}): {n_unknown}")
    if used:
        click.echo(f"Left out, since a model was fitted to them: {counted(used, 'sample')}")
    for one, score in zip(both, scores, strict=True):
        click.echo(f"{one.path}: {score} of {counted(number, 'sample')}")
    click.echo(f"New minus old: {format_difference({**asdict(found), 'significant': found.significant})}")


def _refuse_ignored(applied: tuple[str, ...]) -> None:
    """Raise ValueError for options that were given and do not apply to two models."""
    context = click.get_current_context()
    ignored = [
        one.opts[-1]
        for one in context.command.params
        if one.name not in applied and context.get_parameter_source(str(one.name)) is ParameterSource.COMMANDLINE
    ]
    if ignored:
        raise ValueError(
            f"{', '.join(ignored)}: for a comparison of methods; two models are compared as they are, on DATA as it is "
            "loaded. Leave it out"
        )


def _common_groups(old: _Predicted, new: _Predicted) -> Array | None:
    """Return the groups of the samples; raise ValueError if the models make different samples or groups of DATA."""
    import numpy as np

    if not np.array_equal(old.target, new.target):
        raise ValueError("the two models make different samples of DATA; compare models that were fitted to data alike")
    groups = [one.groups for one in (old, new) if one.groups is not None]
    if len(groups) == 2 and not np.array_equal(groups[0], groups[1]):
        raise ValueError(
            "the two models group the samples of DATA in different ways, each as for its fit, and differences are "
            "paired by group; say which groups to take with --groups NAME, --groups file or --no-groups"
        )
    return groups[0] if groups else None


@dataclass(frozen=True)
class _Predicted:
    """What a model predicts for labelled samples: which are right, of known classes, and used in its fit."""

    path: str
    right: Array
    known: Array
    used: Array
    unknown: list[str]
    target: Array
    groups: Array | None

    @classmethod
    def of(cls, path: Path, given: Any) -> _Predicted:
        import numpy as np

        from ..io import PredictionRun, load_model

        loaded = load_model(path)
        samples = load_for(path, loaded, given.data[2:], dict(given.loading), need_labels=True, lazy="blocks")
        with blaming(path), unseen_categories_printed():
            run = PredictionRun(loaded, samples)
            predicted = run.into(lambda parts: np.concatenate([part.predicted for part in parts]))
        labels = samples.labels.astype(str)  # compared as text, as by `predict`
        known = np.isin(labels, [str(label) for label in loaded.facts["classes"]])
        used = None if run.compared is None else run.compared.used
        return cls(
            str(path),
            labels == predicted.astype(str),
            known,
            np.zeros(len(known), bool) if used is None else used,
            np.unique(labels[~known]).tolist(),
            labels,
            samples.groups,
        )
