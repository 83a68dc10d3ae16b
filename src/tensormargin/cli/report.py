"""``tensormargin report``."""

from __future__ import annotations

from typing import Any

import click

from . import _options as options
from ._data import check_data, load_for, view_files
from ._options import FORMATS
from ._outputs import blaming, check_ending, check_outputs, display_of, refusals, say_written, warn, written_together

_EXAMPLES = f"""
{FORMATS}
\b
Examples:
  tensormargin report eeg.skops eeg.npz -o eeg.html        with margins and activation patterns of these samples
  tensormargin report eeg.skops -o eeg.html                from the model file alone
  tensormargin report result.json -o result.html           from the output of `tensormargin compare --json`

DATA should be the labelled samples that the model was fitted to; the report says so if they are not.
"""


@click.command("report", cls=options.Grouped, epilog=_EXAMPLES, most=("out", "background", "as_json"))
@click.argument("source", metavar="MODEL|COMPARISON", type=options.MODEL)
@options.data(required=False)
@click.option("-o", "--out", type=options.FILE, required=True, help="HTML file to write.")
@options.loading
@options.display
@options.model_sha256
@options.overwrite
@options.as_json
@options.as_namespace
def report_command(given: Any) -> None:
    """Write a self-contained HTML report of a model or a comparison."""
    from ..report import comparison_page, read_comparison, write_page

    source, data, out = given.source, given.data, given.out
    with refusals(ValueError, TypeError):
        check_outputs((source, *data, given.background, *view_files(given.loading)), (out,))
        check_ending(out, "a report", ".html", ".htm")
        if source.suffix.lower() == ".json":
            if data:
                raise ValueError(f"a comparison needs no DATA; leave {data[0]} out")
            if given.background is not None:
                raise ValueError("a comparison has no maps to draw over --background; leave it out")
            with blaming(source), written_together():
                write_page(out, comparison_page(read_comparison(source, given.model_sha256)))
        else:
            _report_model(given)
    say_written(given.as_json, out)


def _report_model(given: Any) -> None:
    from ..io import axes_warning, check_samples_fit, load_model
    from ..report import model_page, write_page

    source, data = given.source, given.data
    check_data(*data)
    loaded = load_model(source, given.model_sha256)
    samples = load_for(source, loaded, data, given.loading, need_labels=True) if data else None
    with blaming(source):
        if samples is not None:
            check_samples_fit(loaded.model, samples, loaded)
            warn(axes_warning(samples, loaded))
    shown = display_of(samples, loaded.facts, given.background, given.radiological)
    with blaming(source), written_together():
        stored = loaded.patterns if samples is None else None
        write_page(given.out, model_page(loaded.model, loaded.facts, samples, shown, stored))
