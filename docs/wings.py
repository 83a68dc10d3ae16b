"""Draw wings.svg, the wings of the package and which of them import which: ``python docs/wings.py``.

Everything in the picture is read from the sources; a test compares it with them.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "tensormargin"
PICTURE = Path(__file__).with_name("wings.svg")

ROW, COLUMN, LEFT, TOP, NAMES, RIGHT = 30, 26, 12, 96, 960, 70
STYLE = """text { font: 14px sans-serif; fill: #222 } .wing { font-weight: bold } .layer { fill: #eef3f8 }
.row { stroke: #ccd } .import { fill: #1f5f99 } .own { fill: #ccd }
@media (prefers-color-scheme: dark) { text { fill: #ddd } .layer { fill: #1d2733 } .row { stroke: #345 }
.import { fill: #6db3f2 } .own { fill: #345 } }"""


def layers() -> list[list[str]]:
    """Return the wings of each layer, the highest first, as the import linter checks them."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    return [layer.split(" | ") for one in contracts if one["name"] == "wings" for layer in one["layers"]]


@cache
def nodes() -> list[tuple[Path, ast.AST]]:
    """Return all classes, functions and imports of the package, with the paths of their modules inside it."""
    kinds = (ast.ClassDef, ast.FunctionDef, ast.ImportFrom)
    return [
        (path.relative_to(SOURCE), node)
        for path in sorted(SOURCE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, kinds)
    ]


def imports() -> Iterator[tuple[str, str, str, str]]:
    """Yield (importing module, module, name, wing) for every import of one wing from another."""
    for path, node in nodes():
        place = path.with_suffix("").parts
        if len(place) < 2 or not isinstance(node, ast.ImportFrom) or not node.level:
            continue
        module = [*place[: len(place) - node.level], *(node.module or "").split(".")]
        module = [part for part in module if part]
        if module and module[0] != place[0]:
            yield from ((".".join(place), ".".join(module), alias.name, module[0]) for alias in node.names)


def purpose(wing: str) -> str:
    """Return the first sentence of a wing's docstring."""
    text = ast.get_docstring(ast.parse((SOURCE / wing / "__init__.py").read_text())) or ""
    return re.split(r"\.\s+(?=[A-Z])", text)[0].rstrip(".")


def picture() -> str:
    """Return the picture as SVG: a row per wing, and a dot under each wing that it imports."""
    wings = [wing for layer in layers() for wing in layer]
    known = {(module.partition(".")[0], wing) for module, _, _, wing in imports()}
    width, height = LEFT + NAMES + COLUMN * len(wings) + RIGHT, TOP + ROW * len(wings) + 8
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
        "<title>The wings of the package, the highest first, and the wings that each imports</title>",
        f"<style>{STYLE}</style>",
    ]
    for column, wing in enumerate(wings):
        x = LEFT + NAMES + COLUMN * column + COLUMN / 2 + 4
        lines.append(f'<text transform="translate({x:g} {TOP - 8}) rotate(-60)">{wing}</text>')
    top = TOP
    for number, layer in enumerate(layers()):
        if number % 2 == 0:
            lines.append(f'<rect class="layer" x="0" y="{top}" width="{width}" height="{ROW * len(layer)}"/>')
        for wing in layer:
            lines += _row(wing, top, [(wing, other) in known for other in wings], wings.index(wing))
            top += ROW
    return "\n".join([*lines, "</svg>", ""])


def _row(wing: str, top: int, known: list[bool], own: int) -> list[str]:
    middle = top + ROW / 2
    lines = [
        f'<text class="wing" x="{LEFT}" y="{middle + 5:g}">{wing}</text>',
        f'<text x="{LEFT + 120}" y="{middle + 5:g}">{escape(purpose(wing))}</text>',
    ]
    for column, is_known in enumerate(known):
        kind = "own" if column == own else "import" if is_known else ""
        if kind:
            x = LEFT + NAMES + COLUMN * column + COLUMN / 2
            lines.append(f'<circle class="{kind}" cx="{x:g}" cy="{middle:g}" r="6"/>')
    return lines


if __name__ == "__main__":
    PICTURE.write_text(picture())
