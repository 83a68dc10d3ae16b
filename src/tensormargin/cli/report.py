"""``tensormargin report``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ._data import FORMATS, check_data, data_argument, load_for, loading_options, view_files, warn_of_axes
from ._maps import display_of, display_options
from ._options import (
    blaming,
    check_ending,
    check_outputs,
    json_option,
    model_sha256_option,
    overwrite_option,
    refusals,
    say_written,
)

_EXAMPLES = f"""
{FORMATS}
\b
Examples:
  tensormargin report eeg.skops eeg.npz -o eeg.html        with margins and activation patterns of these samples
  tensormargin report eeg.skops -o eeg.html                from the model file alone
  tensormargin report result.json -o result.html           from the output of `tensormargin compare --json`

DATA should be the labelled samples that the model was fitted to; the report says so if they are not.
"""


@click.command("report", epilog=_EXAMPLES)
@click.argument("source", metavar="MODEL|COMPARISON", type=click.Path(path_type=Path))
@data_argument(required=False)
@click.option("-o", "--out", type=click.Path(path_type=Path, dir_okay=False), required=True, help="HTML file to write.")
@loading_options
@display_options
@model_sha256_option
@overwrite_option
@json_option
def report_command(
    source: Path,
    data: tuple[Path, ...],
    out: Path,
    loading: dict[str, Any],
    background: Path | None,
    radiological: bool,
    model_sha256: str | None,
    as_json: bool,
) -> None:
    """Write a self-contained HTML report of a model or a comparison."""
    from ..report import comparison_page, read_comparison, write_page

    with refusals(ValueError, TypeError):
        check_outputs((source, *data, background, *view_files(loading)), (out,))
        check_ending(out, "a report", ".html", ".htm")
        if source.suffix.lower() == ".json":
            if data:
                raise ValueError(f"a comparison needs no DATA; leave {data[0]} out")
            if background is not None:
                raise ValueError("a comparison has no maps to draw over --background; leave it out")
            with blaming(source):
                write_page(out, comparison_page(read_comparison(source, model_sha256)))
        else:
            _report_model(source, data, out, loading, (background, radiological), model_sha256)
    say_written(as_json, out)


def _report_model(
    source: Path,
    data: tuple[Path, ...],
    out: Path,
    loading: dict[str, Any],
    display: tuple[Path | None, bool],
    model_sha256: str | None,
) -> None:
    from ..io import check_samples_fit, load_model
    from ..report import model_page, write_page

    check_data(*data)
    loaded = load_model(source, model_sha256)
    samples = load_for(source, loaded, data, loading, need_labels=True) if data else None
    with blaming(source):
        if samples is not None:
            check_samples_fit(loaded.model, samples, loaded.axes)
            warn_of_axes(samples, loaded.axes)
    shown = display_of(samples, loaded.facts, *display)
    with blaming(source):
        stored = loaded.patterns if samples is None else None
        write_page(out, model_page(loaded.model, loaded.facts, samples, shown, stored))
