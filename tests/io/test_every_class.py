"""Tests of every class that a file of a model may hold: what it declares is what it has, and nothing else is loaded."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator
from itertools import count

import numpy as np
import pytest
from campaigns.every_class import declared_classes, every_model, without_a_model
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler

from tensormargin import Tensorize, TensorMarginClassifier, TensorScaler
from tensormargin.inspection import predicted_labels
from tensormargin.io import BadFileError, load_model, save_model
from tensormargin.io.checksums import seal
from tensormargin.transformers import CompetingConvolutions, Convolutions, TensorKernel

CP = TensorMarginClassifier("cp", 1)


@pytest.fixture(scope="module")
def models():
    return every_model()


def test_no_class_is_forgotten(models):
    assert without_a_model() == set()


def test_a_model_of_every_class_comes_back(models, tmp_path):
    for name, (model, X, metadata) in models.items():
        save_model(tmp_path / "model.skops", model)
        loaded = load_model(tmp_path / "model.skops").model
        expected = predicted_labels(model, X, metadata)
        np.testing.assert_array_equal(predicted_labels(loaded, X, metadata), expected, err_msg=name)


def test_what_is_documented_is_what_is_declared():
    for name, kind in declared_classes().items():
        if not name.startswith("tensormargin."):
            continue
        own = {one for one in vars(kind)["_attribute_constraints"] if re.fullmatch(r"[a-z].*_", one)}
        documented = set(_documented(kind.__doc__ or ""))
        every = {one for base in kind.__mro__ for one in vars(base).get("_attribute_constraints", {})}
        computed = {one for one in documented if isinstance(getattr(kind, one, None), property)}
        assert documented - computed <= every | {"n_features_in_"}, name
        assert own - documented <= {"sample_shape_in_", "axes_in_"}, name


def _documented(text: str) -> Iterator[str]:
    """Yield the fitted attributes in the section of a docstring, several of which may stand in a line."""
    section = re.search(r"\n    Attributes\n    -+\n(.*?)(\n\n    \w|\Z)", text, re.S)
    for line in section.group(1).splitlines() if section else ():
        names, colon, _ = line.partition(" : ")
        if re.match(r"    \w", line) and colon:
            yield from (one for one in names.strip().split(", ") if one.endswith("_"))


# ---- tampering that ended the process, called something, or never ended ----


def edited(path, change):
    """Change the schema and the arrays of a model, and seal it again."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    schema = json.loads(members["schema.json"])
    change(schema, members)
    members["schema.json"] = json.dumps(schema)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    seal(path)
    return path


def content_of(schema, name):
    """Return the node of the attributes of the object of a class."""
    left = [schema]
    while left:
        part = left.pop()
        if isinstance(part, dict):
            if part.get("__class__") == name and "content" in part:
                return part["content"]
            left += part.values()
        elif isinstance(part, list):
            left += part
    raise KeyError(name)


def state_of(schema, name):
    return content_of(schema, name)["content"]


@pytest.fixture(scope="module")
def convolved():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 3, 12)), np.arange(20) % 2
    steps = Convolutions(300), CompetingConvolutions(4), TensorKernel("rbf")
    return {type(step).__name__: make_pipeline(step, clone(CP)).fit(X, y) for step in steps}, X


def far(array):
    return np.full_like(array, 2**40)


def negative(array):
    return -array - 1


def falling(array):
    return array[::-1].copy()


def short(array):
    return array[:1].copy()


WRITES = [
    *((kind, name, change) for kind in ("Convolutions", "CompetingConvolutions") for name in ("_starts", "_channels")
      for change in (far, negative, short)),
    ("Convolutions", "_starts", falling),
    ("Convolutions", "dilations_", far),
    ("CompetingConvolutions", "dilations_", far),
    ("CompetingConvolutions", "dilations_", negative),
    ("Convolutions", "biases_", short),
    ("TensorKernel", "root_", short),
    ("TensorKernel", "landmarks_", short),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "name", "change"), WRITES, ids=lambda one: getattr(one, "__name__", one))
def test_indices_and_sizes_that_would_leave_the_memory_are_refused(kind, name, change, convolved, tmp_path):
    """Each of these ended in a signal, or in an error of NumPy, in `predict` of 0.2.0."""

    def tamper(schema, members):
        file = state_of(schema, kind)[name]["file"]
        with zipfile.ZipFile(path) as archive, archive.open(file) as member:
            array = np.lib.format.read_array(member)
        with open(tmp_path / "changed.npy", "wb") as changed:
            np.save(changed, change(array))
        members[file] = (tmp_path / "changed.npy").read_bytes()

    path = tmp_path / "model.skops"
    save_model(path, convolved[0][kind])
    with pytest.raises(BadFileError, match=rf"model\.skops: .*{kind} must"):
        load_model(edited(path, tamper))


_numbers = count(10**6)


def node(loader, kind, content):
    module, _, name = kind.rpartition(".")
    return {"__class__": name, "__module__": module, "__loader__": loader, "__id__": next(_numbers), "content": content}


@pytest.mark.parametrize("loader", ["ObjectNode", "TypeNode", "JsonNode", "MethodNode", "ConstructorFromReduceNode"])
@pytest.mark.parametrize("name", ["class_weight", "memory", "random_state"])
def test_a_model_calls_no_constructor(loader, name, convolved, tmp_path, monkeypatch):
    """0.2.0 built joblib's Memory with any folder: `inspect` made the folder, and a masker unpickled what was there."""
    folder = node("JsonNode", "builtins.str", json.dumps(str(tmp_path / "cache")))
    memory = node(loader, "joblib.memory.Memory", node("DictNode", "builtins.dict", {"location": folder}))
    path = tmp_path / "model.skops"
    save_model(path, make_pipeline(TensorScaler(), clone(CP)).fit(convolved[1], np.arange(20) % 2))

    def tamper(schema, members):
        state_of(schema, "Pipeline" if name == "memory" else "TensorMarginClassifier")[name] = memory

    edited(path, tamper)
    made = []
    monkeypatch.setattr("joblib.memory.Memory.__init__", lambda *_, **__: made.append(True))
    if loader != "JsonNode" and name != "class_weight":  # what only a fit uses is not looked at
        loaded = load_model(path).model
        assert loaded.memory is None
        assert loaded[-1].random_state is None
    else:
        with pytest.raises(BadFileError, match=r"model\.skops: "):
            load_model(path)
    assert made == []
    assert not (tmp_path / "cache").exists()


def test_nodes_that_share_an_id_are_visited_once(convolved, tmp_path):
    """A list that holds a list twice, and so on 60 times, is a file of 20 kB, and 2**60 lists written out."""
    path = tmp_path / "model.skops"
    save_model(path, convolved[0]["TensorKernel"])

    def tamper(schema, members):
        part = node("ListNode", "builtins.list", [])
        for _ in range(60):
            part = node("ListNode", "builtins.list", [part, {**part, "content": []}])
        state_of(schema, "TensorMarginClassifier")["class_weight"] = part

    with pytest.raises(BadFileError, match=r"model\.skops: .*more than \d+ parts"):
        load_model(edited(path, tamper))


@pytest.mark.parametrize("steps", [(Normalizer(),), (PCA(2),), (PCA(2), StandardScaler())], ids=repr)
def test_steps_of_vectors_follow_on_each_other(steps, tmp_path):
    path, kind = tmp_path / "model.skops", type(steps[-1]).__name__
    X = np.random.default_rng(0).normal(size=(20, 3, 12))
    save_model(path, make_pipeline(Tensorize((-1,)), *steps, LogisticRegression()).fit(X, np.arange(20) % 2))
    assert load_model(path).model.n_features_in_ == 3

    def tamper(schema, members):
        state_of(schema, kind)["n_features_in_"] |= {"content": "7", "__id__": next(_numbers)}

    words = rf"model\.skops: .*({kind} must take samples of shape|of {kind} must be)"
    with pytest.raises(BadFileError, match=words):
        load_model(edited(path, tamper))


@pytest.mark.parametrize("name", ["predict", "coef_", "steps", "x_"])
def test_an_attribute_that_is_not_declared_is_refused(name, convolved, tmp_path):
    path = tmp_path / "model.skops"
    model = make_pipeline(TensorScaler(), clone(CP)).fit(convolved[1], np.arange(20) % 2)
    save_model(path, model)

    def tamper(schema, members):
        state = state_of(schema, "TensorScaler")
        state[name] = state["with_mean"]
        text = {"__class__": "str", "__module__": "builtins", "__loader__": "TypeNode", "__id__": next(_numbers)}
        content_of(schema, "TensorScaler")["key_types"]["content"] = [text] * len(state)

    with pytest.raises(BadFileError, match=rf"TensorScaler must not have {name}, which is not declared"):
        load_model(edited(path, tamper))
    setattr(model[0], name, 1)
    with pytest.raises(ValueError, match="TensorScaler must not have"):
        save_model(path, model)
