"""Damaged and crafted model files and comparisons, given to the commands that read them.

A file that was changed must be refused by name, with exit code 2 and without output. A file that somebody changed and
sealed again may be accepted, but must neither crash a command nor make it predict what is not finite.
"""

from __future__ import annotations

import csv
import json
import warnings
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from click.testing import CliRunner
from sklearn.pipeline import make_pipeline

from campaigns.outcome import Outcome
from tensormargin import TensorMarginClassifier
from tensormargin.cli import main
from tensormargin.io import save_model
from tensormargin.io.checksums import seal
from tensormargin.transformers import Crop, Resize, TensorScaler

Rng = np.random.Generator
Members = dict[str, bytes]

LONGEST = 3000  # characters of a message
SHAPE = (4, 5, 3)
VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 3, 10**30, -0.5, 1e308, float("nan"), float("inf"), "", "x", "\ud800", "=1+1", "<script>", [],
    {}, [[]], [1, 2], {"a": 1}, ["x"] * 3, "9" * 5000,
)  # fmt: skip


# ---- files ----


def write_files(folder: Path) -> list[Path]:
    """Write samples, several models fitted to them, and a comparison; return the models and the comparison."""
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    X = rng.normal(size=(40, *SHAPE)) + y[:, None, None, None]
    np.savez(folder / "samples.npz", X=X, y=np.array(["no", "yes"])[y])
    three = np.array(["a", "b", "c"])[np.arange(40) % 3]
    models = {
        "cp.skops": TensorMarginClassifier("cp", 1, probability=True).fit(X, np.array(["no", "yes"])[y]),
        "tt.skops": make_pipeline(TensorScaler(), Crop(), TensorMarginClassifier("tt")).fit(X, three),
        "full.skops": make_pipeline(Resize((2, 2)), TensorMarginClassifier("full", multi_class="ovr")).fit(X, three),
    }
    for name, model in models.items():
        save_model(folder / name, model, {"seed": 1})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run("fit", folder / "samples.npz", "-o", folder / "fitted.skops", "--decomposition", "cp", "--rank", "1",
            "--outer-folds", "2", "--folds", "2", "--permutations", "2", "--jobs", "1", "--no-report")  # fmt: skip
        made = run("compare", folder / "samples.npz", "--methods", "SVM,STM", "--repeats", "2", "--folds", "2",
                   "--jobs", "1", "--json")  # fmt: skip
    (folder / "comparison.json").write_text(made.stdout, encoding="utf-8")
    return [*(folder / name for name in models), folder / "fitted.skops", folder / "comparison.json"]


def run(*arguments: Any) -> Any:
    """Run a command in this process."""
    return CliRunner().invoke(main, [str(one) for one in arguments], prog_name="tensormargin")


def members_of(path: Path) -> Members:
    """Return the members of an archive."""
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write_members(path: Path, members: Members, comment: bytes = b"") -> None:
    """Write an archive."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
        archive.comment = comment


# ---- edits ----


def flip_bit(path: Path, rng: Rng) -> str:
    """Flip one bit of a file."""
    content = bytearray(path.read_bytes())
    place, bit = int(rng.integers(len(content))), int(rng.integers(8))
    content[place] ^= 1 << bit
    path.write_bytes(content)
    return f"bit {bit} of byte {place}"


def cut(path: Path, rng: Rng) -> str:
    """Cut a file short."""
    content = path.read_bytes()
    place = int(rng.integers(len(content)))
    path.write_bytes(content[:place])
    return f"cut at {place}"


def edit_json(content: bytes, rng: Rng) -> tuple[bytes, str]:
    """Change one value in JSON."""
    tree = json.loads(content)
    holder, key, where = {"": tree}, "", []
    while isinstance(holder[key], dict | list) and len(holder[key]) and (rng.random() < 0.85 or not where):
        holder = holder[key]
        key = (
            list(holder)[int(rng.integers(len(holder)))] if isinstance(holder, dict) else int(rng.integers(len(holder)))
        )
        where.append(str(key))
    value = VALUES[int(rng.integers(len(VALUES)))]
    if rng.random() < 0.15:
        del holder[key]
        return json.dumps(tree).encode(), f"{'/'.join(where)} removed"
    holder[key] = value
    return json.dumps(tree).encode(), f"{'/'.join(where)} = {str(value)[:20]!r}"


def deep(rng: Rng) -> bytes:
    """Return JSON that is nested deeply."""
    depth = int(10 ** rng.uniform(2, 5))
    return b"[" * depth + b"]" * depth if rng.random() < 0.5 else b'{"a": ' * depth


ARRAYS: dict[str, Callable[[Any], Any]] = {
    "negated": lambda array: -array,
    "NaN": lambda array: array * np.nan,
    "infinite": lambda array: array + np.inf,
    "complex": lambda array: array + 1j,
    "empty": lambda array: array[:0],
    "one entry less": lambda array: array.reshape(-1)[:-1],
    "one axis more": lambda array: array[..., None],
    "reversed": lambda array: array[::-1],
    "float16": lambda array: array.astype(np.float16),
    "int8": lambda array: array.astype(np.int8),
    "text": lambda array: array.astype(str),
    "huge": lambda array: array * 1e300,
    "many": lambda array: np.zeros(10**7),
    "repeated": lambda array: np.concatenate([array, array]),
}


def edit_array(content: bytes, rng: Rng) -> tuple[bytes, str]:
    """Change an array; one that the change does not suit becomes NaN."""
    array = np.load(BytesIO(content), allow_pickle=False)
    name = list(ARRAYS)[int(rng.integers(len(ARRAYS)))]
    with np.errstate(all="ignore"):
        try:
            changed = ARRAYS[name](np.atleast_1d(array))
        except (TypeError, ValueError, IndexError):
            name, changed = "NaN", np.full(3, np.nan)
    buffer = BytesIO()
    np.save(buffer, changed)
    return buffer.getvalue(), name


def edit_member(path: Path, rng: Rng) -> str:
    """Change, drop, add or exchange members of an archive, as somebody would who knows the format."""
    members = members_of(path)
    names = list(members)
    name = names[int(rng.integers(len(names)))]
    if rng.random() < 0.4:
        name = "schema.json" if rng.random() < 0.6 else "tensormargin.json"
    kind = rng.random()
    if kind < 0.05:
        del members[name]
        words = "removed"
    elif kind < 0.1:
        other = names[int(rng.integers(len(names)))]
        members[name], words = members[other], f"is {other}"
    elif kind < 0.15 and name.endswith(".json"):
        members[name], words = deep(rng), "deep"
    elif kind < 0.18:
        members[f"../{name}"], words = members[name], "outside"
    elif kind < 0.21:
        members[name], words = b" " * (2**26 + 1), "64 MiB of spaces"
    elif name.endswith(".json"):
        members[name], words = edit_json(members[name], rng)
    else:
        members[name], words = edit_array(members[name], rng)
    with zipfile.ZipFile(path) as archive:
        comment = archive.comment
    write_members(path, members, comment if rng.random() < 0.5 else b"")
    return f"{name} {words}"


# ---- campaigns ----


def tampered_models(number: int, seed: int, sealed: bool = False) -> Outcome:
    """Return how `predict`, `inspect`, `report` and `export` treat changed model files.

    Parameters
    ----------
    number : int
        Number of files.
    seed : int
    sealed : bool, default=False
        Whether the digest is renewed after the change, so that the file is accepted unless a check refuses it.
    """
    outcome = Outcome("resealed models" if sealed else "changed models")
    with TemporaryDirectory() as name:
        folder = Path(name)
        *models, _ = write_files(folder)
        sources = {path.name: path.read_bytes() for path in models}
        for case in range(number):
            rng = np.random.default_rng([seed, case])
            source = list(sources)[int(rng.integers(len(sources)))]
            path = folder / "model.skops"
            path.write_bytes(sources[source])
            edits = (edit_member,) if sealed else (flip_bit, flip_bit, cut, edit_member)
            words = edits[int(rng.integers(len(edits)))](path, rng)
            if sealed:
                seal(path)
            unchanged = path.read_bytes() == sources[source]
            faults = _commands(folder, path, rng, may_pass=sealed or unchanged)
            outcome.add(f"seed {seed}, case {case}: {source}, {words}", faults)
    return outcome


def changed_models(number: int, seed: int) -> Outcome:
    """Return how commands treat models that were changed after they were sealed."""
    return tampered_models(number, seed)


def resealed_models(number: int, seed: int) -> Outcome:
    """Return how commands treat models that were sealed again after the change."""
    return tampered_models(number, seed, sealed=True)


def tampered_comparisons(number: int, seed: int) -> Outcome:
    """Return how `report` treats changed comparisons."""
    outcome = Outcome("changed comparisons")
    with TemporaryDirectory() as name:
        folder = Path(name)
        source = write_files(folder)[-1].read_bytes()
        path = folder / "changed.json"
        for case in range(number):
            rng = np.random.default_rng([seed, case])
            path.write_bytes(source)
            kind = rng.random()
            if kind < 0.1:
                words = flip_bit(path, rng)
            elif kind < 0.2:
                words = cut(path, rng)
            elif kind < 0.25:
                path.write_bytes(deep(rng))
                words = "deep"
            else:
                content, words = edit_json(source, rng)
                path.write_bytes(content)
            faults = _faults(run("report", path, "-o", folder / "page.html"), path, folder / "page.html", True)
            outcome.add(f"seed {seed}, case {case}: {words}", faults)
    return outcome


def _commands(folder: Path, path: Path, rng: Rng, may_pass: bool) -> list[str]:
    """Return the faults of one of the commands, chosen at random; `predict` has half of the cases."""
    table, page, onnx, picture = (folder / name for name in ("out.csv", "out.html", "out.onnx", "out.npy"))
    choices = [
        (("predict", path, folder / "samples.npz", "-o", table), table),
        (("predict", path, folder / "samples.npz", "-o", table, "--json"), table),
        (("inspect", path, "--weight-map", picture), picture),
        (("report", path, folder / "samples.npz", "-o", page), page),
        (("report", path, "-o", page), page),
    ]
    command, out = choices[int(rng.integers(len(choices)))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        done = run(*command)
    faults = _faults(done, path, out, may_pass, keep=True)
    if out is table and table.exists():
        faults += _not_finite(table)
    for written in (table, page, onnx, picture):
        written.unlink(missing_ok=True)
    return [f"{command[0]}: {fault}" for fault in faults]


def _faults(done: Any, path: Path, out: Path, may_pass: bool, keep: bool = False) -> list[str]:
    """Return what is wrong with how a command ended."""
    faults = []
    said = done.output
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        faults.append(f"{type(done.exception).__name__}: {done.exception}"[:300])
    elif done.exit_code == 0 and not may_pass:
        faults.append("was accepted")
    elif done.exit_code not in (0, 2):
        faults.append(f"exit code {done.exit_code}")
    elif done.exit_code == 2 and path.name not in said:
        faults.append(f"does not name the file: {said[-300:]}")
    if len(said) > LONGEST and done.exit_code == 2:
        faults.append(f"a message of {len(said)} characters")
    if (done.exit_code == 0) != out.exists():
        faults.append(f"exit code {done.exit_code}, but the output is {'' if out.exists() else 'not '}there")
    if not keep:
        out.unlink(missing_ok=True)
    left = [one.name for one in out.parent.iterdir() if one.name.endswith(".part")]
    return [*faults, *(f"left {one}" for one in left)]


def _not_finite(table: Path) -> list[str]:
    with table.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    numbers = [float(value) for row in rows for name, value in row.items() if " of " in name]
    return [] if np.isfinite(numbers).all() else ["predicts what is not finite"]
