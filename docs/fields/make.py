"""Fill in the pages of this folder: ``python docs/fields/make.py [PAGE...] [--commands]``.

Tables come from the code and from docs/field.md, figures are what the examples of the pages draw; with ``--commands``,
what commands print is written below them. Each page is run in a folder of its own. tests/whole/test_fields_pages.py
compares.
"""

from __future__ import annotations

import doctest
import os
import re
import shlex
import shutil
import subprocess
import sys
from contextlib import chdir
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

FOLDER = Path(__file__).parent
FIELD = FOLDER.parent / "field.md"
DATA = {
    "eeg": ("muse-ssvep",),
    "images": ("orl",),
    "series": ("basic-motions",),
    "spectra": ("eem-olive-oil", "indian-pines"),
    "volumes": ("haxby",),
}
"""The pages, and the data sets that the examples and commands of each need."""

LIBRARIES = {"eeg": ("mne", "pandas"), "volumes": ("nibabel",)}
"""What they need besides this library."""

SHAPES = {
    "eeg": ((5, 384), 128.0),
    "image": ((32, 32), None),
    "series": ((6, 100), None),
    "spectra": ((13, 501), None),
    "volume": ((40, 20, 1), None),
}
"""Shape and sampling frequency of the samples in the example of each kind."""

_FILLED = re.compile(r"(<!-- (tried|reached): (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
_COMMAND = re.compile(r"(```\n\$ tensormargin (.*?)\n\n)(.*?)(```)", re.DOTALL)
_VARYING = re.compile(r"lambda \S+, mu [^;\s]+( and [^;\s]+)?|p [=<] [\d.e-]+|\d[\d.]* (s|min)\b")
_DECIMAL = re.compile(r"[+-]?\d+\.\d+")
_POINTS = 3.0
"""So much may scores and their intervals differ between processors, in percent: a sample or two of these sets."""


def main() -> None:
    for name in [name for name in sys.argv[1:] if name in DATA] or DATA:
        path = FOLDER / f"{name}.md"
        path.write_text(filled(path.read_text(encoding="utf-8")), encoding="utf-8")
        print(f"filled in {path.name}")
        if missing := missing_for(name):
            print(f"its examples need {missing}")
        else:
            run_page(path, "--commands" in sys.argv)


def missing_for(name: str) -> str:
    """Return which data sets and libraries a page lacks here, in words; empty if it can be run."""
    from tensormargin.datasets import CATALOGUE, is_at_hand

    data = [f"{one} (in the folder TENSORMARGIN_DATA)" for one in DATA[name] if not is_at_hand(CATALOGUE[one])]
    return ", ".join([*data, *(library for library in LIBRARIES.get(name, ()) if find_spec(library) is None)])


def run_page(path: Path, with_commands: bool) -> None:
    """Run the examples of a page and keep its figure, and what its commands print if asked for."""
    with TemporaryDirectory() as folder:
        if run_examples(path, folder).failed:
            sys.exit(f"the examples of {path.name} fail")
        shutil.copyfile(Path(folder, f"{path.stem}.png"), path.with_suffix(".png"))
        if with_commands:
            text = path.read_text(encoding="utf-8")
            text = _COMMAND.sub(lambda found: found[1] + output_of(found[2], folder) + found[4], text)
            path.write_text(text, encoding="utf-8")
    print(f"ran {path.name}")


def run_examples(path: Path, folder: str | Path) -> doctest.TestResults:
    """Run the examples of a page in a folder, where they leave their files."""
    import matplotlib

    matplotlib.use("Agg")
    with chdir(folder):
        return doctest.testfile(str(path), module_relative=False)


def output_of(command: str, folder: str | Path) -> str:
    """Return what a command prints in a folder, progress left out."""
    arguments = shlex.split(command.replace("\\\n", " "))
    done = subprocess.run(
        [sys.executable, "-m", "tensormargin", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "TENSORMARGIN_CACHE": str(folder)},
    )
    if done.returncode:
        raise RuntimeError(f"tensormargin {command} failed:\n{done.stderr}")
    said = [line for line in done.stderr.splitlines() if " samples of " in line]
    return "\n".join([*said, done.stdout])


def commands_of(text: str) -> list[tuple[str, str]]:
    """Return the commands of a page, each with what the page says that it prints."""
    return [(found[2], found[3]) for found in _COMMAND.finditer(text)]


def agree(shown: str, printed: str) -> bool:
    """Return whether two outputs tell the same: the words, the counts, and scores within a few points.

    Times, p-values and the strengths of the chosen model are not compared; "significant" is.
    """
    shown, printed = _VARYING.sub("", shown), _VARYING.sub("", printed)
    if _DECIMAL.sub("", shown).split() != _DECIMAL.sub("", printed).split():
        return False
    pairs = zip(_DECIMAL.findall(shown), _DECIMAL.findall(printed), strict=True)
    return all(abs(float(one) - float(other)) <= _POINTS for one, other in pairs)


def filled(text: str) -> str:
    """Return a page with its tables filled in."""
    made = {"tried": tried, "reached": reached}
    return _FILLED.sub(lambda found: f"{found[1]}{made[found[2]](found[3])}\n{found[4]}", text)


def tried(kind: str) -> str:
    """Return a table of what is tried for a kind of samples."""
    from tensormargin.selection import KINDS
    from tensormargin.selection.kinds import WAYS, views_of

    shape, sfreq = SHAPES[kind]
    own, together = KINDS[kind], views_of(kind, shape)
    lines = ["| name | transformer | by itself | side by side |", "|---|---|---|---|"]
    for name in dict.fromkeys((*own.alone, *own.together)):
        if WAYS[name].suits(shape):
            places = " | ".join("yes" if name in names else "" for names in (own.alone, together))
            lines.append(f"| {name} | {in_code(WAYS[name].make(shape, sfreq))} | {places} |")
    return "\n".join(lines)


def in_code(transformer: object) -> str:
    """Return a transformer, the steps of a pipeline, or the members of a union, as code."""
    if transformer is None:
        return "none"
    if members := getattr(transformer, "transformer_list", None):
        return "; ".join(in_code(member) for _, member in members)
    steps = [step for _, step in getattr(transformer, "steps", [("", transformer)])]
    return ", ".join(f"`{' '.join(repr(step).split())}`" for step in steps)


def reached(kind: str) -> str:
    """Return the rows of docs/field.md for a kind of samples."""
    rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in FIELD.read_text().splitlines()]
    tasks = {row[0]: row for row in rows if len(row) == 5 and row[1].split(",")[0] == kind}
    methods = next(row for row in rows if row[0] == "task" and row[-1] == "ours")
    lines = ["| " + " | ".join(["task", "samples", "test sets", *methods[1:]]) + " |"]
    lines.append("|" + "---|" * (len(methods) + 2))
    for row in rows:
        if row[0] in tasks and len(row) == len(methods):
            _, _, samples, _, split = tasks[row[0]]
            lines.append("| " + " | ".join([row[0], samples, split, *row[1:]]) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
