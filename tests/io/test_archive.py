"""Tests of the reader and writer of model archives: what is written comes back, and other nodes are refused."""

from __future__ import annotations

import json
import pickle
import re
import warnings
import zipfile
from collections import OrderedDict, defaultdict, namedtuple
from copy import deepcopy
from io import BytesIO
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from conftest import low_rank_classes
from joblib import Memory
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, Normalizer, RobustScaler, StandardScaler
from sklearn.svm import SVC

from tensormargin import TensorMarginClassifier, TensorMarginClassifierCV
from tensormargin.io import BadFileError, archive, load_model, models, save_model
from tensormargin.io.archive import read_archive, write_archive
from tensormargin.io.checksums import seal
from tensormargin.transformers import (
    AnovaMask,
    Connectome,
    Crop,
    Detrend,
    EqualLength,
    Mask,
    Project,
    Resize,
    Spectra,
    Tensorize,
    TensorScaler,
)

SHAPE = (4, 5, 3)
SMALL = {"decompositions": ("cp",), "ranks": (1,), "lams": (1,), "cv": 3, "random_state": 0}
CP = TensorMarginClassifier("cp", 1)
FLAT = make_pipeline(StandardScaler(), MinMaxScaler(), MaxAbsScaler(), RobustScaler(), Normalizer(), Tensorize((6, 10)))
STEPS = make_pipeline(Mask(), Crop("varying"), Resize((4, 4)), TensorScaler(0), Tensorize((8, -1)), EqualLength(5))


@pytest.fixture(scope="module")
def samples():
    return low_rank_classes(0, 40, SHAPE, 4.0)


MODELS = {
    "full": (TensorMarginClassifier("full"), 2),
    "cp": (CP, ("a", "b", "c")),
    "tucker": (TensorMarginClassifier("tucker", 2, multi_class="ovr", random_state=3), (1, 2, 3)),
    "tt": (TensorMarginClassifier("tt", probability=True), (False, True)),
    "weights of classes": (TensorMarginClassifier("cp", class_weight={0: 1.0, 1: 2.0}), 2),
    "weights of texts": (TensorMarginClassifier("cp", class_weight=OrderedDict(a=1, b=np.float64(0.5))), ("a", "b")),
    "weights of NumPy numbers": (TensorMarginClassifier("cp", class_weight={np.int64(0): 1, np.int64(1): 3}), 2),
    "object labels": (CP, np.array(["yes", "no"], object)),
    "search": (TensorMarginClassifierCV(**SMALL), ("a", "b", "c")),
    "search of steps": (TensorMarginClassifierCV(**SMALL, preparation=[None, TensorScaler(), STEPS]), 2),
    "steps": (make_pipeline(STEPS, CP), 2),
    "calibrated": (CalibratedClassifierCV(CP, cv=2), 2),
    "frozen step": (make_pipeline(TensorScaler(), FrozenEstimator(CP)), 2),
}


def fitted(name, samples):
    model, classes = MODELS[name]
    classes = np.arange(classes) if isinstance(classes, int) else np.asarray(classes)
    X, y = samples[0], classes[np.arange(40) % len(classes)]
    if name == "frozen step":
        model = make_pipeline(TensorScaler(), FrozenEstimator(clone(CP).fit(X, y)))
    return clone(model).fit(X, y)


@pytest.fixture(scope="module")
def saved(samples, tmp_path_factory):
    """Return a function that gives the path of a saved model by name."""
    folder = tmp_path_factory.mktemp("models")

    def path_of(name):
        path = folder / f"{name}.skops"
        if not path.exists():
            save_model(path, fitted(name, samples))
        return path

    return path_of


def assert_same(one, other, seen):
    """Compare two objects in depth: types, values, and which mutable parts are the same object."""
    assert type(one) is type(other)
    if id(one) in seen:
        assert seen[id(one)][1] is other
        return
    if not isinstance(one, str | int | float | tuple | np.generic | None):
        seen[id(one)] = (one, other)
    if isinstance(one, np.ndarray):
        assert_same_array(one, other, seen)
    elif isinstance(one, dict):
        assert list(one) == list(other)
        assert list(map(type, one)) == list(map(type, other))
        assert_same(list(one.values()), list(other.values()), seen)
    elif isinstance(one, list | tuple):
        assert len(one) == len(other)
        for pair in zip(one, other, strict=True):
            assert_same(*pair, seen)
    elif hasattr(one, "__dict__") and not isinstance(one, type):
        assert_same(vars(one), vars(other), seen)
    else:
        assert one == other or one != one


def assert_same_array(one, other, seen):
    assert (one.dtype, one.shape) == (other.dtype, other.shape)
    if isinstance(one, np.ma.MaskedArray):
        np.testing.assert_array_equal(one.mask, other.mask)
        one, other = one.data, other.data
    if one.dtype == object:
        assert_same(list(one), list(other), seen)
    else:
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_comes_back_in_depth(name, samples, tmp_path):
    model = fitted(name, samples)
    write_archive(tmp_path / "model", model)
    assert_same(read_archive(tmp_path / "model"), model, {})


MOVED = {  # modules of 0.1 and 0.2.0.dev0
    "EqualLength": "preparation.lengths",
    "AnovaMask": "representations.anova",
    "Connectome": "representations.connectome",
    "Detrend": "representations.detrend",
    "Spectra": "representations.spectra",
}


@pytest.mark.parametrize("place", ["tensormargin", "tensormargin.transformers"])
def test_classes_are_found_where_earlier_files_have_them(place, samples, tmp_path):
    X, y = samples
    matrices = X.reshape(40, -1)[:, :16].reshape(40, 4, 4)
    matrices = np.tanh(matrices + matrices.transpose(0, 2, 1))
    steps = EqualLength(4), AnovaMask(1.0), Connectome(fisher=False), Detrend(0, mode=0), Spectra("snv")
    model = make_pipeline(*steps, clone(CP)).fit(matrices, y)
    write_archive(tmp_path / "new", model)
    text = zipfile.ZipFile(tmp_path / "new").read(archive.SCHEMA).decode()
    for name, module in MOVED.items():
        text, changes = re.subn(
            rf'"{name}", "__module__": "[^"]*"', f'"{name}", "__module__": "{place}.{module}"', text
        )
        assert changes
    tampered(tmp_path / "new", tmp_path / "old", members=[(archive.SCHEMA, text)])
    assert_same(read_archive(tmp_path / "old"), model, {})


def test_scalers_of_scikit_learn_come_back(samples, tmp_path):
    X, y = samples
    model = make_pipeline(*(clone(step) for _, step in FLAT.steps), clone(CP)).fit(X.reshape(40, -1), y)
    write_archive(tmp_path / "model", model)
    assert_same(read_archive(tmp_path / "model"), model, {})


VALUES = [
    {False: 1.0, True: 2.0},
    {1.5: None, np.float32(0.1): "text", "": [], np.str_("a"): (), -1: {}, np.uint8(7): {"a": {"b": 1}}},
    {float("inf"): float("nan"), 10**18: OrderedDict(), "ä": "\n"},
    (float("inf"), -0.0, 10**18, "ä\n", None, np.bool_(False), np.str_(""), np.float16(0.1), np.uint8(255)),
    [np.empty((0, 3)), np.array(5.0), np.asfortranarray(np.ones((2, 3), ">i2")), np.array(["a", "bcd"])],
    [np.arange(12.0).reshape(3, 4)[:, ::2], np.array([1, np.nan])],
    np.ma.MaskedArray([1.0, 2.0], [True, False]),
    [np.ma.MaskedArray([1, "x"], [True, False], object), np.ma.MaskedArray(np.ones((2, 2)), np.zeros((2, 2), bool))],
    np.array([[1, 2], None, {"a": np.arange(3)}, "x"], object),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_plain_values_come_back(value, samples, tmp_path):
    model = make_pipeline(Project(2), clone(CP)).fit(*samples)
    model[0].basis = value
    write_archive(tmp_path / "model", model)
    assert_same(read_archive(tmp_path / "model")[0].basis, value, {})


def test_a_part_that_is_shared_stays_shared(samples, tmp_path):
    model = make_pipeline(Project(2), clone(CP)).fit(*samples)
    parts = [[1], np.arange(3), TensorScaler(), {"a": 1}, np.ma.MaskedArray([1], [True])]
    model[0].basis = [parts, list(parts), deepcopy(parts)]
    write_archive(tmp_path / "model", model)
    first, second, third = read_archive(tmp_path / "model")[0].basis
    assert_same([first, second, third], model[0].basis, {})
    assert all(one is other for one, other in zip(first, second, strict=True))
    assert not any(one is other for one, other in zip(first, third, strict=True))


def test_what_occurs_again_is_written_once(samples, tmp_path):
    part = [0]
    for _ in range(15):
        part = [part, part]
    model = make_pipeline(Project(2), clone(CP)).fit(*samples)
    model[0].basis = part
    write_archive(tmp_path / "model", model)
    assert (tmp_path / "model").stat().st_size < 20_000
    assert_same(read_archive(tmp_path / "model")[0].basis, part, {})


def test_the_same_model_makes_the_same_archive(samples, tmp_path):
    contents, model = [], fitted("tucker", samples)
    for _ in range(2):
        save_model(tmp_path / "model", model)
        with zipfile.ZipFile(tmp_path / "model") as file:
            contents.append({name: file.read(name) for name in file.namelist() if name != models.FACTS})
    assert contents[0] == contents[1]


class Text(str):
    """Text of a type of its own, which JSON would lose."""


Pair = namedtuple("Pair", "a b")
CYCLE: list = []
CYCLE.append(CYCLE)
NOT_OURS = {
    "matrix of objects": np.array([["a"]], object),
    "objects in a structure": np.zeros(2, [("a", object)]),
    "set": {1, 2},
    "type": str,
    "function": np.mean,
    "complex number": 1j,
    "date": np.datetime64("2000"),
    "bytes": b"a",
    "kind of array": np.ones(3).view(np.recarray),
    "kind of text": Text("a"),
    "kind of tuple": Pair(1, 2),
    "kind of dict": defaultdict(list),
    "kind of estimator": type("Scaler", (TensorScaler,), {})(),
    "key of another type": {(1, 2): 3},
    "key None": {None: 1},
    "key of NumPy's bool": {np.bool_(True): 1},
    "keys that are the same as text": {1: "a", "1": "b"},
    "surrogate": "\ud800",
    "integer of many digits": 10**30,
    "generator": np.random.default_rng(0),
    "generator of the old kind": np.random.RandomState(0),
    "cache": Memory(None),
    "estimator with pointers": SVC(),
    "contains itself": CYCLE,
}


@pytest.mark.parametrize("value", NOT_OURS.values(), ids=NOT_OURS)
def test_what_is_not_plain_is_not_saved(value, samples, tmp_path):
    model = make_pipeline(Project(2), clone(CP)).fit(*samples)
    model[0].basis = [{"a": value}]
    with pytest.raises((ValueError, TypeError, KeyError)):
        save_model(tmp_path / "model", model)
    assert list(tmp_path.iterdir()) == []


# ---- what is not read ----


def tampered(path: Path, target: Path, change=None, members=()) -> Path:
    """Write a copy of an archive with a changed schema, and members replaced or added, in this order."""
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        schema = json.loads(source.read("schema.json"))
        if change is not None:
            change(schema)
        for name in source.namelist():
            if name not in dict(members):
                archive.writestr(name, json.dumps(schema) if name == "schema.json" else source.read(name))
        with warnings.catch_warnings(action="ignore"):  # of a duplicate name
            for name, content in members:
                archive.writestr(name, content)
    seal(target)  # by somebody who knows how
    return target


IDS = count(10**6)


def node(loader, kind, **content):
    module, _, name = kind.rpartition(".")
    return {"__loader__": loader, "__module__": module, "__class__": name, "__id__": next(IDS), **content}


def plain(value):
    return node("JsonNode", "builtins.str", content=json.dumps(value), is_json=True)


def keys(*kinds):
    return node("ListNode", "builtins.list", content=[node("TypeNode", kind) for kind in kinds])


OURS = "tensormargin.estimators.classifier.TensorMarginClassifier"
SCALER = "tensormargin.transformers.preparation.scaling.TensorScaler"
ARGUMENTS = node("TupleNode", "builtins.tuple", content=[plain("touch mark")])
EMPTY = node("DictNode", "builtins.dict", content={}, key_types=keys())
TYPES = {
    "unknown type": node("ObjectNode", "subprocess.Popen", content=EMPTY),
    "function": node("FunctionNode", "posix.system"),
    "called with arguments": node("ConstructorFromReduceNode", "subprocess.Popen", content=ARGUMENTS),
    "our type called with arguments": node("ConstructorFromReduceNode", SCALER, content=ARGUMENTS),
    "reduced": node("TreeNode", "sklearn.tree._tree.Tree", __reduce__={"args": ARGUMENTS}, content=EMPTY),
    "reduced under our name": node("LossNode", SCALER, __reduce__={"args": ARGUMENTS}, content=EMPTY),
    "method": node("MethodNode", OURS, content={"func": "fit", "obj": node("ObjectNode", OURS, content=EMPTY)}),
    "partial": node(
        "PartialNode", "functools.partial", content=dict.fromkeys(["func", "args", "kwds", "namespace"], EMPTY)
    ),
    "type as a dict": node("DictNode", SCALER, content={}, key_types=keys()),
    "type as a list": node("ListNode", OURS, content=[]),
    "type as a type": node("TypeNode", OURS),
    "tuple as an object": node("ObjectNode", "builtins.tuple", content=EMPTY),
    "list as a dict": node("DictNode", "builtins.list", content={}, key_types=keys()),
    "keys of a strange type": node("DictNode", "builtins.dict", content={"1": plain(1)}, key_types=keys("os.system")),
}
DAMAGES = {
    "state that is a list": node("ObjectNode", SCALER, content=keys()),
    "no state": node("ObjectNode", SCALER),
    "no content": node("ListNode", "builtins.list"),
    "content that is no list": node("ListNode", "builtins.list", content={"a": plain(1)}),
    "keys without values": node("DictNode", "builtins.dict", content={}, key_types=keys("builtins.str")),
    "values without keys": node("DictNode", "builtins.dict", content={"a": plain(1)}, key_types=keys()),
    "value that is a list": plain([1]),
    "value that is no JSON": plain(1) | {"content": "open('mark', 'w')"},
    "value that is no text": plain(1) | {"content": 1},
    "contains itself": node("ListNode", "builtins.list", content=[plain(1) | {"__id__": 0}]) | {"__id__": 0},
    "array that is not there": node("NdArrayNode", "numpy.ndarray", type="numpy", file="0.npy"),
    "array outside of the archive": node("NdArrayNode", "numpy.ndarray", type="numpy", file="/etc/passwd"),
    "array that is the schema": node("NdArrayNode", "numpy.ndarray", type="numpy", file="schema.json"),
    "no loader": {"__module__": "builtins", "__class__": "str", "__id__": next(IDS)},
    "no number": {name: value for name, value in plain(1).items() if name != "__id__"},
    "no node": 5,
    "number of an object that is none": plain(1) | {"__id__": []},
}  # fmt: skip


def refuse(path, *words):
    with pytest.raises(BadFileError) as refusal:
        load_model(path)
    assert all(word in str(refusal.value) for word in (str(path), *words))
    assert not Path("mark").exists()


@pytest.mark.parametrize("part", TYPES.values(), ids=TYPES)
def test_types_that_do_not_belong_are_refused_by_name(part, saved, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = f"{part['__module__']}.{part['__class__']}".replace("builtins.dict", "os.system")  # the type of its keys
    path = tampered(saved("cp"), tmp_path / "model", lambda s: s["content"]["content"].update(lam=part))
    refuse(path, name)


@pytest.mark.parametrize("part", DAMAGES.values(), ids=DAMAGES)
def test_parts_that_are_damaged_are_refused(part, saved, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tampered(saved("cp"), tmp_path / "model", lambda schema: schema["content"]["content"].update(lam=part))
    refuse(path, "is not loaded")


@pytest.mark.parametrize("protocol", [None, "2", True, -1, 3])
def test_other_protocols_are_refused(protocol, saved, tmp_path):
    refuse(tampered(saved("cp"), tmp_path / "model", lambda s: s.update(protocol=protocol)), "is not loaded")


def npy(array=None, header=None, rest=b""):
    """Return a file with an array, or with a header that says anything."""
    file = BytesIO()
    if header is None:
        np.save(file, array)
    else:
        np.lib.format.write_array_header_1_0(file, header)
    return file.getvalue() + rest


def header(shape, descr="<f8"):
    return {"descr": descr, "fortran_order": False, "shape": shape}


ARRAYS = {
    "huge": npy(header=header((2**40,)), rest=bytes(80)),
    "huge by overflow": npy(header=header((2**32, 2**32)), rest=bytes(80)),
    "negative": npy(header=header((-1,)), rest=bytes(80)),
    "shorter than its file": npy(np.arange(10.0), rest=bytes(8)),
    "longer than its file": npy(np.arange(10.0))[:-8],
    "objects": npy(header=header((1,), "|O"), rest=pickle.dumps([1])),
    "pickle": pickle.dumps([1]),
    "archive": b"PK\x03\x04" + bytes(80),
    "empty": b"",
}


@pytest.mark.parametrize("content", ARRAYS.values(), ids=ARRAYS)
def test_arrays_that_are_not_what_they_say_are_refused(content, saved, tmp_path):
    for source in (saved("cp"),):
        with zipfile.ZipFile(source) as held:
            name = next(name for name in held.namelist() if name.endswith(".npy"))
        refuse(tampered(source, tmp_path / "model", members=[(name, content)]))


@pytest.mark.parametrize("names", [["a.npy", "a.npy"], ["/etc/a"], ["../a"], ["a/b.npy"], ["a\\b"], ["c:a"]], ids=str)
def test_members_with_other_names_are_refused(names, saved, tmp_path):
    members = [(name, npy(np.arange(3))) for name in names]
    for source in (saved("cp"),):
        refuse(tampered(source, tmp_path / "model", members=members), "different names, without folders")


def test_a_second_schema_is_refused(saved, tmp_path):
    members = [("schema.json", "{}"), ("schema.json", json.dumps(plain(1)))]
    refuse(tampered(saved("cp"), tmp_path / "model", members=members), "different names")


@pytest.mark.parametrize("schema", [b"", b"[]", b"{}", b"\xff", b"[" * 100_000, b'{"__loader__": ' * 100_000])
def test_schemas_that_are_none_are_refused(schema, saved, tmp_path):
    refuse(tampered(saved("cp"), tmp_path / "model", members=[("schema.json", schema)]), "is not loaded")


def test_a_schema_that_is_too_deep_is_refused(saved, tmp_path):
    part = plain(1)
    for _ in range(400):
        part = node("ListNode", "builtins.list", content=[part])
    path = tampered(saved("cp"), tmp_path / "model", lambda schema: schema["content"]["content"].update(lam=part))
    refuse(path, "is not loaded")


def test_a_class_is_built_without_its_constructor(saved, monkeypatch):
    def fail(*_, **__):
        raise AssertionError("called")

    path = saved("search of steps")
    for kind in (TensorMarginClassifierCV, TensorMarginClassifier, TensorScaler):
        monkeypatch.setattr(kind, "__init__", fail)
    assert read_archive(path).best_score_ > 0.5
