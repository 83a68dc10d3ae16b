"""Damaged and crafted model files and comparisons, given to the commands that read them.

A file that was changed must be refused by name, with exit code 2 and without output. A file that somebody changed and
sealed again may be accepted, but must neither crash a command nor make it predict what is not finite.
"""

from __future__ import annotations

import csv
import json
import os
import select
import signal
import warnings
import zipfile
from collections.abc import Callable, Iterator
from copy import deepcopy
from io import BytesIO
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import numpy as np
from click.testing import CliRunner
from numpy.exceptions import AxisError
from sklearn.pipeline import make_pipeline

from campaigns.every_class import declared_classes, every_model, without_a_model
from campaigns.outcome import Outcome
from tensormargin import NotAffineError, TensorMarginClassifier, weight_maps
from tensormargin.cli import main
from tensormargin.cli._outputs import blaming
from tensormargin.data import Metadata, fitted
from tensormargin.inspection import last_estimator, metadata_for_last_step, predicted_labels, samples_for_last_step
from tensormargin.io import BadFileError, load_model, save_model
from tensormargin.io.checksums import seal
from tensormargin.report import model_page, render
from tensormargin.transformers import Crop, Resize, TensorScaler

Rng = np.random.Generator
Members = dict[str, bytes]
T = TypeVar("T")

LONGEST = 3000  # characters of a message
SHAPE = (4, 5, 3)
VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 3, 10**30, -0.5, 1e308, float("nan"), float("inf"), "", "x", "\ud800", "=1+1", "<script>", [],
    {}, [[]], [1, 2], {"a": 1}, ["x"] * 3, "9" * 5000,
)  # fmt: skip
EXTRA = (
    "predict",
    "transform",
    "coef_",
    "classes_",
    "words",
    "steps",
    "_seen",
    "sample_shape_in_",
    "needed_metadata",
    "x_",
)
UNEXPECTED = (
    "KeyError",
    "TypeError",
    "IndexError",
    "AttributeError",
    "OverflowError",
    "AxisError",
    "UnboundLocalError",
)


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
    "zero": lambda array: array * 0,
    "one more": lambda array: array + 1,
    "shuffled": lambda array: array.reshape(-1)[np.random.default_rng(0).permutation(array.size)].reshape(array.shape),
    "two billion": lambda array: np.full(array.shape, 2**31 - 1).astype(array.dtype),
    "minimum": lambda array: np.full(array.shape, np.iinfo(np.int64).min),
    "tiny": lambda array: array * 1e-300,
    "transposed": lambda array: array.T,
    "big endian": lambda array: array.astype(array.dtype.newbyteorder(">")),
    "unsigned": lambda array: array.astype(np.uint64),
    "negative ints": lambda array: -np.arange(array.size).reshape(array.shape),
    "first is huge": lambda array: np.concatenate([array.reshape(-1)[:1] * 0 + 10**9, array.reshape(-1)[1:]]).reshape(
        array.shape
    ),
    "scalar": lambda array: array.reshape(-1)[0],
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


Node = dict[str, Any]


def edit_attribute(path: Path, rng: Rng) -> str:
    """Change what one object in a model has as one of its attributes, as somebody would who knows the format."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
        comment = archive.comment
    schema = json.loads(members["schema.json"])
    objects = [node for node in _nodes(schema) if node["__loader__"] == "ObjectNode" and "content" in node]
    node = objects[int(rng.integers(len(objects)))]
    state = node["content"]["content"]
    kind = declaration_of_node(node)
    names = sorted({*state, *kind.attributes})
    name = names[int(rng.integers(len(names)))]
    old = state.get(name, {})
    edits = ["value", "value", "other attribute", "removed", "extra", "class", "parts", "shared"]
    edits += ["array"] * 12 if "file" in old else ["number"] * 6 if old.get("__loader__") == "JsonNode" else []
    edit = edits[int(rng.integers(len(edits)))]
    value = VALUES[int(rng.integers(len(VALUES)))]
    words = f"{edit} {str(value)[:20]!r}" if edit in ("value", "extra") else edit
    if edit == "array":
        members[old["file"]], words = edit_array(members[old["file"]], rng)
    elif edit == "value":
        state[name] = _node(value)
    elif edit == "number":
        state[name] = _node(_other_number(json.loads(old["content"]), rng))
    elif edit == "other attribute":
        other = objects[int(rng.integers(len(objects)))]["content"]["content"]
        state[name] = deepcopy(list(other.values())[int(rng.integers(len(other)))]) if other else _node(None)
    elif edit == "removed":
        state.pop(name, None)
    elif edit == "extra":
        name = EXTRA[int(rng.integers(len(EXTRA)))]
        state[name] = _node(value)
    elif edit == "class":
        other = list(declared_classes())[int(rng.integers(len(declared_classes())))]
        node["__module__"], _, node["__class__"] = other.rpartition(".")
    elif edit == "parts":
        words = _change_parts(old, rng)
    else:
        state[name] = _shared(int(rng.integers(3, 80)))
    content = node["content"]
    text = {"__class__": "str", "__module__": "builtins", "__loader__": "TypeNode", "__id__": 10**9}
    content["key_types"]["content"] = [text] * len(state)
    members["schema.json"] = json.dumps(schema).encode()
    write_members(path, members, comment)
    return f"{node['__class__']}.{name} {words}"


def declaration_of_node(node: Node) -> Any:
    """Return the declaration of the class of an object."""
    return fitted.declaration_of(declared_classes()[f"{node['__module__']}.{node['__class__']}"])


def _nodes(part: Any) -> Iterator[Node]:
    if isinstance(part, dict):
        if "__loader__" in part:
            yield part
        part = list(part.values())
    for one in part if isinstance(part, list) else ():
        yield from _nodes(one)


_numbers = count(10**6)


def _node(value: Any, loader: str = "JsonNode", kind: str = "str") -> Node:
    """Return the node of a plain value."""
    node = {"__class__": kind, "__module__": "builtins", "__loader__": loader, "__id__": next(_numbers)}
    if loader != "JsonNode":
        return {**node, "content": value}
    if isinstance(value, list):
        return _node([_node(one) for one in value], "ListNode", "list")
    if isinstance(value, dict):
        types = [{**node, "__loader__": "TypeNode", "__id__": next(_numbers)} for _ in value]
        content = {name: _node(one) for name, one in value.items()}
        return {**_node(content, "DictNode", "dict"), "key_types": _node(types, "ListNode", "list")}
    return {**node, "content": json.dumps(value), "is_json": True}


def _shared(depth: int) -> Node:
    """Return a list that holds a list twice, and so on: 2**depth parts."""
    node = _node([1])
    for _ in range(depth):
        node = _node([node, {**node, "content": []}], "ListNode", "list")
    return node


def _other_number(value: Any, rng: Rng) -> Any:
    """Return another number, or another text, where there was one."""
    if isinstance(value, str):
        return [value + "x", value.upper(), "", value[::-1]][int(rng.integers(4))]
    value = value if isinstance(value, int | float) else 0
    others = [value + 1, value - 1, -value, value * 1000, 2**31, 2**63, 10**20, value + 0.5, 0, 1, -1, 1e308, not value]
    return others[int(rng.integers(len(others)))]


def _change_parts(node: Node, rng: Rng) -> str:
    """Change, exchange, drop or repeat the parts of a list, tuple or dictionary."""
    content = node.get("content")
    if not isinstance(content, list | dict) or not content:
        return "no parts"
    places = list(content) if isinstance(content, dict) else range(len(content))
    one, other = (places[int(rng.integers(len(places)))] for _ in range(2))
    kind = int(rng.integers(4))
    if kind == 0:
        content[one], content[other] = content[other], content[one]
    elif kind == 1:
        content[one] = _node(VALUES[int(rng.integers(len(VALUES)))])
    elif kind == 2 and isinstance(content, list):
        del content[one]
    elif isinstance(content, list):
        content.append(content[one])
    return f"parts {kind}"


# ---- what becomes of a model ----


def _ending(path: Path, X: Any, metadata: Metadata, maps: bool, rng: Rng) -> tuple[str, list[str]]:
    """Return how a model ends that somebody loads and uses, and what is wrong with that."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            model = load_model(path)
        except BadFileError as error:
            named = str(path) in str(error) and len(str(error)) < LONGEST
            return "refused", [] if named else [f"does not name the file, or is long: {str(error)[-300:]}"]
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is bad
            return "failed", [f"load: {type(error).__name__}: {error}"[:300]]
        uses = (_predict, _score, _predict, _inspect, _maps, _describe)
        use = uses[int(rng.integers(len(uses) if maps else 2))]  # others are of models that end in a tensor
        try:
            faults = use(model, path, X, metadata)
        except (AxisError, NotImplementedError) as error:
            return "failed", [f"{use.__name__}: {type(error).__name__}: {error}"[:300]]
        except (ValueError, NotAffineError) as error:
            return "refused late", [] if str(error) else ["an error without words"]
        except BaseException as error:  # noqa: BLE001 - likewise
            return "failed", [f"{use.__name__}: {type(error).__name__}: {error}"[:300]]
        return "used", faults


def _predict(file: Any, path: Path, X: Any, metadata: Metadata) -> list[str]:
    predicted = predicted_labels(file.model, X, metadata)
    return [] if set(predicted.tolist()) <= set(file.facts["classes"]) else ["predicts what is no class"]


def _score(file: Any, path: Path, X: Any, metadata: Metadata) -> list[str]:
    last = last_estimator(file.model)
    more, ready = metadata_for_last_step(file.model, metadata), samples_for_last_step(file.model, X, metadata)
    found = [
        getattr(last, name)(ready, **more) for name in ("decision_function", "predict_proba") if hasattr(last, name)
    ]
    return [] if all(np.isfinite(one).all() for one in found) else ["scores that are not finite"]


def _inspect(file: Any, path: Path, X: Any, metadata: Metadata) -> list[str]:
    done = run("inspect", path)
    if done.exit_code not in (0, 2) or (done.exit_code == 2 and path.name not in done.output):
        return [f"inspect ends with {done.exit_code}: {done.exception!r} {done.output[-200:]}"]
    return ["inspect: an error of no words" for kind in UNEXPECTED if f"({kind}: " in done.output]


def _maps(file: Any, path: Path, X: Any, metadata: Metadata) -> list[str]:
    weight_maps(file.model)
    return []


def _describe(file: Any, path: Path, X: Any, metadata: Metadata) -> list[str]:
    with blaming(path):  # as the commands do
        render(model_page(file.model, file.facts))
    return []


def survived(attempt: Callable[[int], T], number: int, seconds: float = 60.0) -> Iterator[T]:
    """Yield the results of attempts, made in children of this process; a signal or a hang is a result, too."""
    begin = 0
    while begin < number:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            try:
                for case in range(begin, number):
                    os.write(writer, json.dumps(attempt(case)).encode() + b"\n")
            finally:
                os._exit(1)
        os.close(writer)
        done, rest = 0, b""
        while select.select([reader], [], [], seconds)[0] and (piece := os.read(reader, 2**16)):
            *lines, rest = (rest + piece).split(b"\n")
            yield from map(json.loads, lines)
            done += len(lines)
        os.close(reader)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        begin += done
        if begin < number:
            ended = os.waitstatus_to_exitcode(status)
            how = "does not end" if ended == -signal.SIGKILL else f"ends the process with {ended}"
            yield f"case {begin}", "died", [how]
            begin += 1


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
    """Return how models that were sealed again after the change are treated by commands."""
    return tampered_models(number, seed, sealed=True)


def tampered_attributes(number: int, seed: int) -> Outcome:
    """Return what becomes of models of every class, one of whose declared attributes somebody changed and sealed.

    Each ends in a result, or in a refusal that names the file: no signal, no other error, nothing that never ends.
    Steps that look at the samples may still refuse them, which counts as a late refusal.
    """
    outcome = Outcome("attributes of models")
    missing = without_a_model()
    if missing:
        outcome.add("classes without a model", sorted(missing))
    with TemporaryDirectory() as name:
        path, models, sources = Path(name) / "model.skops", every_model(), {}
        for model, (fitted_model, _, _) in models.items():
            save_model(path, fitted_model)
            sources[model] = path.read_bytes()

        def attempt(case: int) -> tuple[str, str, list[str]]:
            rng = np.random.default_rng([seed, case])
            model = list(sources)[int(rng.integers(len(sources)))]
            path.write_bytes(sources[model])
            words = edit_attribute(path, rng)
            seal(path)
            maps = not model.endswith(("LogisticRegression", "LinearSVC"))
            ending, faults = _ending(path, *models[model][1:], maps, rng)
            return f"seed {seed}, case {case}: {model}, {words}", ending, faults

        for words, ending, faults in survived(attempt, number):
            outcome.counts[ending] += 1
            outcome.add(words, faults)
    return outcome


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
