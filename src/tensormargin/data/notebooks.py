"""Small HTML for notebooks: tables of facts, and pictures of maps drawn without a plotting library."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from html import escape
from io import BytesIO
from typing import Any

import numpy as np

from ..runtime import Array, FloatArray, percent

_NEGATIVE, _POSITIVE = (5, 80, 160), (178, 24, 43)
_LARGEST = 2_000_000  # entries; pictures of larger maps would take a noticeable time
_SHORTEST_SIDE = 120  # pixels
_LEAST_SIDE = 40  # pixels of a picture along a short mode beside a long one
_LONGEST_ENTRY = 200  # pixels of a picture along a mode; longer modes are thinned out


def facts_table(title: str, rows: Sequence[tuple[str, str]], below: str = "") -> str:
    """Return a heading and a table of names and values as HTML; all text is escaped, ``below`` is HTML already."""
    lines = "".join(
        f'<tr><th scope="row" style="text-align:left">{escape(name)}</th>'
        f'<td style="text-align:left">{escape(value)}</td></tr>'
        for name, value in rows
    )
    return f"<div><strong>{escape(title)}</strong><table>{lines}</table>{below}</div>"


class FactsMixin:
    """Shows a result by its ``_facts``, names and values in words: in one line, or as a table in notebooks."""

    def _facts(self) -> list[tuple[str, str]]:
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}({'; '.join(f'{name} {value}' for name, value in self._facts())})"

    def _repr_html_(self) -> str:
        return facts_table(type(self).__name__, self._facts())


def fit_rows(about: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what was chosen and its score on held-out samples, in words, as far as the facts about a fit have them."""
    search, evaluation, rows = about.get("search"), about.get("evaluation"), []
    if search:
        best = {name: value for name, value in search["best"].items() if value is not None}
        rows.append((f"chosen from {search['n_models']}", ", ".join(f"{name} {value}" for name, value in best.items())))
    if evaluation:
        score, (low, high) = evaluation["score"], evaluation["interval"]
        known = "" if low is None else f" ({percent(low)} to {percent(high)})"
        name = f"{score['name'].replace('_', ' ')} on held-out samples"
        rows.append((name, f"{percent(score['value'])} %{known}"))
    return rows


def rows_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a heading and a table with named columns as HTML; all text is escaped."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in columns)
    body = "".join(f"<tr>{''.join(f'<td>{escape(text)}</td>' for text in row)}</tr>" for row in rows)
    return f"<div><strong>{escape(title)}</strong><table><tr>{head}</tr>{body}</table></div>"


def map_picture(map: Array, caption: str) -> str:
    """Return a map as HTML: a strip, an image, or three cuts through its peak; empty for very large or empty maps."""
    values = np.asarray(map)
    if not 0 < values.size <= _LARGEST or values.ndim == 0:
        return ""
    values = values.astype(np.float64)
    largest = float(np.abs(values[np.isfinite(values)]).max(initial=0.0))
    if largest == 0.0:
        return ""
    shares = np.nan_to_num(values / largest)
    cuts = [(np.atleast_2d(shares), "")]
    if shares.ndim > 2:
        peak = [int(place) for place in np.unravel_index(np.argmax(np.abs(shares)), shares.shape)]
        shown = shares[(slice(None),) * 3 + tuple(peak[3:])]
        cuts = [
            (np.asarray(shown.take(peak[mode], axis=mode)), f"mode {mode + 1} at {peak[mode]}") for mode in range(3)
        ]
    images = "".join(_image(_signed(cut), f"{caption}, {words}".removesuffix(", ")) for cut, words in cuts)
    return f'<figure style="margin:0.5em 0">{images}<figcaption>{escape(caption)}</figcaption></figure>'


def sample_picture(sample: Array, caption: str) -> str:
    """Return a sample as HTML: in its colours, or in grey from its smallest to its largest entry.

    Of more than two modes the middle is shown, as three cuts for volumes; empty for very large or empty samples.
    """
    if not 0 < sample.size <= _LARGEST or sample.ndim == 0 or sample.dtype.kind not in "biuf":
        return ""
    values = np.nan_to_num(np.asarray(sample, np.float64))
    low, high = float(values.min()), float(values.max())
    shares = (values - low) / (high - low or 1.0)
    if shares.ndim == 3 and shares.shape[-1] == 3:  # colours
        cuts = [shares]
    else:
        middle = [size // 2 for size in shares.shape]
        shares = shares[(..., *middle[3:])]
        cuts = [np.atleast_2d(shares)] if shares.ndim < 3 else [shares.take(middle[mode], mode) for mode in range(3)]
    images = "".join(_image(cut if cut.ndim == 3 else np.repeat(cut[..., None], 3, 2), caption) for cut in cuts)
    style = "display:inline-block;margin:0.5em"
    return f'<figure style="{style}">{images}<figcaption>{escape(caption)}</figcaption></figure>'


def _signed(shares: FloatArray) -> FloatArray:
    """Return colours of shares between -1 and 1: red for positive, blue for negative, white for zero."""
    ends = np.where(shares[..., None] < 0, _NEGATIVE, _POSITIVE)
    return np.asarray(255 + (ends - 255) * np.abs(shares[..., None])) / 255


def _image(colours: FloatArray, words: str) -> str:
    try:
        from PIL import Image  # most sessions need none
    except ImportError:
        return escape(words)
    steps = [-(-size // _LONGEST_ENTRY) for size in colours.shape]
    thin = colours[:: steps[0], :: steps[1]]
    zoom = max(1, _SHORTEST_SIDE // max(thin.shape[:2]))
    height, width = (max(size * zoom, _LEAST_SIDE) for size in thin.shape[:2])
    content = BytesIO()
    Image.fromarray(np.round(255 * thin).astype(np.uint8)).save(content, "PNG")
    source = base64.b64encode(content.getvalue()).decode()
    return (
        f'<img src="data:image/png;base64,{source}" alt="{escape(words)}" '
        f'style="width:{width}px;height:{height}px;image-rendering:pixelated;display:inline-block;'
        'margin-right:6px;border:1px solid #ccc">'
    )
