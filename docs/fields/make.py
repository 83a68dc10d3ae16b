"""Fill in the pages of this folder: ``python docs/fields/make.py``, with ``--commands`` also what commands print.

Tables come from the code and from docs/field.md. Figures are what the examples of the pages draw; each page is run in a
folder of its own, and its figure is copied from there.
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
from pathlib import Path
from tempfile import TemporaryDirectory

FOLDER = Path(__file__).parent
FIELD = FOLDER.parent / "field.md"
DATA = {"eeg": "muse-ssvep", "images": "orl", "series": "basic-motions", "spectra": "indian-pines", "volumes": "haxby"}
"""The pages, and the data set that the example of each needs."""

SHAPES = {
    "eeg": ((5, 768), 256.0),
    "image": ((32, 32), None),
    "series": ((6, 100), None),
    "spectra": ((13, 501), None),
    "volume": ((40, 20, 1), None),
}
"""Shape and sampling frequency of the samples in the example of each kind."""

_FILLED = re.compile(r"(<!-- (tried|reached): (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
_COMMAND = re.compile(r"(```\n\$ tensormargin (.*?)\n\n).*?(```)", re.DOTALL)


def main() -> None:
    from tensormargin.datasets import CATALOGUE, is_at_hand

    for name, needed in DATA.items():
        path = FOLDER / f"{name}.md"
        path.write_text(filled(path.read_text(encoding="utf-8")), encoding="utf-8")
        print(f"filled in {path.name}")
        if is_at_hand(CATALOGUE[needed]):
            draw(name, "--commands" in sys.argv)
        else:
            print(f"its examples need {needed}: set TENSORMARGIN_DATA to the folder with the data sets")


def draw(name: str, with_commands: bool) -> None:
    """Run the examples of a page and keep its figure, and what its commands print if asked for."""
    path = FOLDER / f"{name}.md"
    with TemporaryDirectory() as folder:
        if run_examples(path, folder).failed:
            sys.exit(f"the examples of {path.name} fail")
        shutil.copyfile(Path(folder, f"{name}.png"), FOLDER / f"{name}.png")
        if with_commands:
            text = path.read_text(encoding="utf-8")
            text = _COMMAND.sub(lambda found: found[1] + output_of(found[2], folder) + found[3], text)
            path.write_text(text, encoding="utf-8")
    print(f"drew {name}.png")


def run_examples(path: Path, folder: str | Path) -> doctest.TestResults:
    """Run the examples of a page in a folder, where they leave their files."""
    import matplotlib

    matplotlib.use("Agg")
    with chdir(folder):
        return doctest.testfile(str(path), module_relative=False)


def output_of(command: str, folder: str) -> str:
    """Return what a command prints in a folder, progress left out."""
    arguments = shlex.split(command.replace("\\\n", " "))
    done = subprocess.run(
        [sys.executable, "-m", "tensormargin", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "TENSORMARGIN_CACHE": folder},
    )
    said = [line for line in done.stderr.splitlines() if " samples of " in line]
    return "\n".join([*said, done.stdout])


def commands_of(text: str) -> list[list[str]]:
    """Return the commands of a page as lists of arguments."""
    return [shlex.split(found[2].replace("\\\n", " ")) for found in _COMMAND.finditer(text)]


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
    """Return a transformer, or the steps of a pipeline, as code."""
    if transformer is None:
        return "none"
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
