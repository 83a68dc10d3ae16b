"""Tests of our reader and writer of model archives.

Both agree with skops, and the reader refuses what skops would not have written.
"""

from __future__ import annotations

import json
import pickle
import warnings
import zipfile
from collections import OrderedDict, defaultdict, namedtuple
from copy import deepcopy
from importlib import import_module
from io import BytesIO
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from conftest import low_rank_classes
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, Normalizer, RobustScaler, StandardScaler
from sklearn.svm import LinearSVC

from tensormargin import TensorMarginClassifier, TensorMarginClassifierCV
from tensormargin.io import BadFileError, archive, load_model, models, save_model
from tensormargin.io.archive import OtherTypeError, present_bytes, read_archive, write_archive
from tensormargin.io.checksums import seal
from tensormargin.transformers import (
    AnovaMask,
    Connectome,
    Crop,
    Detrend,
    EqualLength,
    Mask,
    Resize,
    Spectra,
    Tensorize,
    TensorScaler,
)

pytestmark = pytest.mark.usefixtures("like_skops", "blank_figures")

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
    "tucker": (
        TensorMarginClassifier("tucker", 2, multi_class="ovr", random_state=np.random.RandomState(3)),
        (1, 2, 3),
    ),
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


def read_by_us(path):
    return read_archive(path)()


def read_by_skops(path):
    import skops.io

    content = present_bytes(path)
    return skops.io.loads(content, trusted=skops.io.get_untrusted_types(data=content))


def write_by_skops(path, model):
    import skops.io

    skops.io.dump(model, path)


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
    elif isinstance(one, np.random.RandomState):
        assert_same(one.get_state(legacy=False), other.get_state(legacy=False), {})
    elif hasattr(one, "__dict__") and not isinstance(one, type):
        assert_same(vars(one), vars(other), seen)
    else:
        assert one == other or one != one


def assert_same_array(one, other, seen):
    assert (one.dtype, one.shape, one.flags.f_contiguous) == (other.dtype, other.shape, other.flags.f_contiguous)
    assert one.flags.writeable == other.flags.writeable
    if isinstance(one, np.ma.MaskedArray):
        np.testing.assert_array_equal(one.mask, other.mask)
        one, other = one.data, other.data
    if one.dtype == object:
        assert_same(list(one), list(other), seen)
    else:
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", MODELS)
def test_it_reads_and_writes_as_skops_does(name, samples, tmp_path):
    model = fitted(name, samples)
    write_archive(tmp_path / "ours", model)
    write_by_skops(tmp_path / "theirs", model)
    expected = read_by_skops(tmp_path / "theirs")
    for loaded in (read_by_us(tmp_path / "theirs"), read_by_us(tmp_path / "ours"), read_by_skops(tmp_path / "ours")):
        assert_same(loaded, expected, {})


def test_our_classes_have_the_names_that_files_give_them():
    for name in archive.OWN_CLASSES:
        module, _, own = name.rpartition(".")
        kind = getattr(import_module(module), own)
        assert f"{kind.__module__}.{kind.__qualname__}" == name


@pytest.mark.parametrize("place", ["tensormargin", "tensormargin.transformers"])
def test_classes_are_found_where_earlier_files_have_them(place, samples, tmp_path):
    X, y = samples
    matrices = X.reshape(40, -1)[:, :16].reshape(40, 4, 4)
    matrices = np.tanh(matrices + matrices.transpose(0, 2, 1))
    steps = EqualLength(4), AnovaMask(1.0), Connectome(fisher=False), Detrend(0, mode=0), Spectra("snv")
    model = make_pipeline(*steps, clone(CP)).fit(matrices, y)
    write_archive(tmp_path / "new", model)
    before = {f"tensormargin.transformers.{new}": f"{place}.{old}" for old, new in archive._LEFT.items()}
    with zipfile.ZipFile(tmp_path / "new") as new, zipfile.ZipFile(tmp_path / "old", "w") as old:
        schema = json.loads(new.read(archive.SCHEMA))
        for node in archive._nodes(schema):
            name = before.pop(archive._name(node), None)
            if name is not None:
                node["__module__"] = name.rpartition(".")[0]
        old.writestr(archive.SCHEMA, json.dumps(schema))
        for member in set(new.namelist()) - {archive.SCHEMA}:
            old.writestr(member, new.read(member))
    assert not before
    assert_same(read_by_us(tmp_path / "old"), read_by_us(tmp_path / "new"), {})


def test_it_reads_scalers_of_scikit_learn(samples, tmp_path):
    X, y = samples
    model = make_pipeline(*(clone(step) for _, step in FLAT.steps), clone(CP)).fit(X.reshape(40, -1), y)
    save_model(tmp_path / "model", model)
    assert_same(read_archive(tmp_path / "model")(), read_by_skops(tmp_path / "model"), {})


def test_it_reads_a_file_of_an_earlier_version():
    path = Path(__file__).parents[1] / "files" / "digits-format1.skops"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about other library versions
        assert_same(read_archive(path)(), read_by_skops(path), {})


VALUES = [
    {False: 1.0, True: 2.0},  # skops reads both keys as True
    {1.5: None, np.float32(0.1): "text", "": [], np.str_("a"): (), -1: {}, np.uint8(7): {"a": {"b": 1}}},
    {float("inf"): float("nan"), 10**30: OrderedDict(), "ä": "\n\ud800"},
    (float("inf"), -0.0, 10**30, "ä\n", None, np.bool_(False), np.str_(""), np.float16(0.1), np.uint8(255)),
    [
        np.empty((0, 3)),
        np.array(5.0),
        np.asfortranarray(np.ones((2, 3), ">i2")),
        np.array(["a", "bcd"]),
        np.array("2000", "M8[Y]"),
    ],
    [np.arange(12.0).reshape(3, 4)[:, ::2], np.array([1j, np.nan]), np.array([(1, "a")], "i4,U1")],
    np.ma.MaskedArray([1.0, 2.0], [True, False]),
    [np.ma.MaskedArray([1, "x"], [True, False], object), np.ma.MaskedArray(np.ones((2, 2)))],
    np.array([[1, 2], None, {"a": np.arange(3)}, "x"], object),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_plain_values_come_back(value, samples, tmp_path):
    model = clone(CP).fit(*samples)
    model.remark = value
    save_model(tmp_path / "model", model)
    assert_same(read_by_us(tmp_path / "model").remark, value, {})
    if value is not VALUES[0]:
        assert_same(read_by_skops(tmp_path / "model").remark, value, {})


@pytest.mark.parametrize("read", [read_by_us, read_by_skops])
@pytest.mark.parametrize("write", [write_archive, write_by_skops])
def test_a_part_that_is_shared_stays_shared(read, write, samples, tmp_path):
    model = clone(CP).fit(*samples)
    parts = ([1], np.arange(3), TensorScaler(), {"a": 1}, np.random.RandomState(0), np.ma.MaskedArray([1], [True]))
    model.first_, model.second_, model.third_ = list(parts), list(parts), list(deepcopy(parts))
    write(tmp_path / "model", model)
    loaded = read(tmp_path / "model")
    assert_same(loaded, model, {})
    assert all(one is other for one, other in zip(loaded.first_, loaded.second_, strict=True))
    assert not any(one is other for one, other in zip(loaded.first_, loaded.third_, strict=True))


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
    "type": str,  # which is also the type of a key
    "function": np.mean,
    "complex number": 1j,
    "complex number of NumPy": np.complex64(1),
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
    "strings of NumPy": np.array(["a", "b"], "T"),
    "generator": np.random.default_rng(0),
    "contains itself": CYCLE,
}


@pytest.mark.parametrize("value", NOT_OURS.values(), ids=NOT_OURS)
def test_what_it_cannot_write_is_left_to_skops(value, samples, tmp_path, monkeypatch):
    model = make_pipeline(TensorScaler(), clone(CP)).fit(*samples)
    model[0].remark_ = [{"a": value}]
    with pytest.raises(OtherTypeError):
        write_archive(tmp_path / "model", model)
    assert list(tmp_path.iterdir()) == []
    left = []
    monkeypatch.setattr(models, "_write_with_skops", lambda path, model: left.append(model[0].remark_[0]["a"]))
    save_model(tmp_path / "model", model)
    assert len(left) == 1
    assert left[0] is value


@pytest.mark.parametrize("value", [np.array([["a"]], object), {1, 2}, np.float32])
def test_what_it_does_not_know_is_left_to_skops(value, samples, tmp_path):
    import skops.io

    model = make_pipeline(TensorScaler(), clone(CP)).fit(*samples)
    model[0].remark_ = value
    skops.io.dump(model, tmp_path / "model")
    with pytest.raises(OtherTypeError):
        read_archive(tmp_path / "model")


def test_models_of_known_types_are_saved_and_read_without_skops(samples, tmp_path, monkeypatch):
    monkeypatch.setattr(models, "_write_with_skops", None)
    monkeypatch.setattr(models, "_read_with_skops", None)
    for name in MODELS:
        save_model(tmp_path / name, fitted(name, samples))
        load_model(tmp_path / name)


# ---- what skops would not have written ----


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


IDS = count(1)


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
    "wrong module": node("ObjectNode", "tensormargin.TensorMarginClassifier", content=EMPTY),
    "module that is not there": node("ObjectNode", "tensormargin.no.TensorMarginClassifier", content=EMPTY),
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


@pytest.fixture
def built(monkeypatch):
    """Return a list of what is built, by our reader or by skops."""
    made = []
    monkeypatch.setattr(archive, "import_module", made.append)
    monkeypatch.setattr("skops.io._audit.Node.construct", lambda node: made.append(node))
    return made


@pytest.fixture(scope="module")
def partly_unknown(samples, tmp_path_factory):
    """Return the path of a model that is read by skops, after our checks."""
    path = tmp_path_factory.mktemp("others") / "model"
    save_model(path, make_pipeline(TensorScaler(), Tensorize((60,)), LinearSVC(max_iter=10, tol=10)).fit(*samples))
    return path


def refuse(path, built, *words):
    with pytest.raises(BadFileError) as refusal:
        load_model(path)
    assert all(word in str(refusal.value) for word in (str(path), *words))
    assert built == []


@pytest.mark.parametrize("part", TYPES.values(), ids=TYPES)
def test_types_that_do_not_belong_are_refused_by_name(part, saved, partly_unknown, tmp_path, built):
    name = f"{part['__module__']}.{part['__class__']}".replace("builtins.dict", "os.system")  # the type of its keys
    for source, attribute in ((saved("cp"), "lam"), (partly_unknown, "memory")):
        path = tampered(source, tmp_path / "model", lambda s, at=attribute: s["content"]["content"].update({at: part}))
        refuse(path, built, name)


@pytest.mark.parametrize("part", DAMAGES.values(), ids=DAMAGES)
def test_parts_that_skops_does_not_write_are_refused(part, saved, tmp_path, built):
    path = tampered(saved("cp"), tmp_path / "model", lambda schema: schema["content"]["content"].update(lam=part))
    refuse(path, built, "cannot be read")


@pytest.mark.parametrize("protocol", [None, "2", True, -1, 3])
def test_other_protocols_are_refused(protocol, saved, tmp_path, built):
    refuse(tampered(saved("cp"), tmp_path / "model", lambda s: s.update(protocol=protocol)), built, "cannot be read")


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
def test_arrays_that_are_not_what_they_say_are_refused(content, saved, partly_unknown, tmp_path, built):
    for source in (saved("cp"), partly_unknown):
        with zipfile.ZipFile(source) as held:
            name = next(name for name in held.namelist() if name.endswith(".npy"))
        refuse(tampered(source, tmp_path / "model", members=[(name, content)]), built)


@pytest.mark.parametrize("names", [["a.npy", "a.npy"], ["/etc/a"], ["../a"], ["a/b.npy"], ["a\\b"], ["c:a"]], ids=str)
def test_members_with_other_names_are_refused(names, saved, partly_unknown, tmp_path, built):
    members = [(name, npy(np.arange(3))) for name in names]
    for source in (saved("cp"), partly_unknown):
        refuse(tampered(source, tmp_path / "model", members=members), built, "different names, without folders")


def test_a_second_schema_is_refused(saved, tmp_path, built):
    members = [("schema.json", "{}"), ("schema.json", json.dumps(plain(1)))]
    refuse(tampered(saved("cp"), tmp_path / "model", members=members), built, "different names")


@pytest.mark.parametrize("schema", [b"", b"[]", b"{}", b"\xff", b"[" * 100_000, b'{"__loader__": ' * 100_000])
def test_schemas_that_are_none_are_refused(schema, saved, tmp_path, built):
    refuse(tampered(saved("cp"), tmp_path / "model", members=[("schema.json", schema)]), built, "cannot be read")


def test_a_schema_that_is_too_deep_is_refused(saved, tmp_path, built):
    part = plain(1)
    for _ in range(400):
        part = node("ListNode", "builtins.list", content=[part])
    path = tampered(saved("cp"), tmp_path / "model", lambda schema: schema["content"]["content"].update(lam=part))
    refuse(path, built, "cannot be read")


def test_a_class_is_built_without_its_constructor(saved, monkeypatch):
    def fail(*_, **__):
        raise AssertionError("called")

    path = saved("search of steps")
    for kind in (TensorMarginClassifierCV, TensorMarginClassifier, TensorScaler):
        monkeypatch.setattr(kind, "__init__", fail)
    assert read_by_us(path).best_score_ > 0.5
