"""``tensormargin export``."""

from __future__ import annotations

from pathlib import Path

import click

from . import _options as options
from ._outputs import blaming, check_ending, check_outputs, refusals, say_written, written_together

_EXAMPLES = """
\b
Example:
  tensormargin export eeg.skops -o eeg.onnx

The ONNX model takes original samples (input "samples", float32, any number of them; one input per view if MODEL takes
several views) and returns "label", "scores" and, if MODEL has them, "probabilities". It needs neither Python nor
tensormargin to run.
"""


@click.command("export", epilog=_EXAMPLES)
@click.argument("model", type=options.MODEL)
@click.option("-o", "--out", type=options.FILE, required=True, help="ONNX file to write.")
@options.model_sha256
@options.overwrite
@options.as_json
def export_command(model: Path, out: Path, model_sha256: str | None, as_json: bool) -> None:
    """Export a MODEL saved by `tensormargin fit` as an ONNX file, for onnxruntime and other programs."""
    from ..io import export_onnx, load_model

    with refusals(ValueError, TypeError):
        check_ending(out, "an ONNX model", ".onnx")
        check_outputs((model,), (out,))
        loaded = load_model(model, model_sha256)
        with blaming(model), written_together():
            export_onnx(loaded.model, out, loaded.axes)
    say_written(as_json, out)
