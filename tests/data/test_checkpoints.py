"""Tests of checkpoints: an interrupted computation that is resumed gives the result of an uninterrupted one."""

from __future__ import annotations

import json
import os
import shutil
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from conftest import low_rank_classes
from sklearn.metrics import make_scorer
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from tensormargin import Checkpoint, TensorMarginClassifierCV, TensorScaler, nested_evaluation, permutation_test
from tensormargin.data import Units, fingerprint, fingerprints, run_units, units_of
from tensormargin.data import checkpoints as room
from tensormargin.evaluation import CompareSettings, compare
from tensormargin.runtime.folders import MARKER
from tensormargin.selection.runner import SearchRunner
from tensormargin.transformers import Mask

SEARCH = {"decompositions": ("full", "cp"), "ranks": (1,), "lams": (1,), "mus": (0, 1), "cv": 2, "random_state": 0}


@pytest.fixture(autouse=True, scope="module")
def _fewer_references():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tensormargin.evaluation.contenders.C_GRID", (1.0,))
        yield


@pytest.fixture(scope="module")
def binary():
    X, signs = low_rank_classes(0, 24, (3, 4), 2.0, rank=1)
    return X, np.where(signs > 0, "yes", "no")


def search(**parameters) -> TensorMarginClassifierCV:
    return TensorMarginClassifierCV(**{**SEARCH, **parameters})


class Interrupt:
    """A progress callback that presses Ctrl-C at the given call."""

    def __init__(self, at: int | None = None):
        self.at, self.calls = at, []

    def __call__(self, done, total, text):
        self.calls.append((done, total, text))
        if len(self.calls) == self.at:
            raise KeyboardInterrupt


def plain(value):
    """Return an evaluation without times, in a form that can be compared: NaN is equal to itself, arrays are lists."""
    if isinstance(value, np.ndarray):
        return repr(value.tolist())
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items() if "seconds" not in name}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return plain(vars(value)) if hasattr(value, "__dataclass_fields__") else repr(value)


def comparison(binary, **options):
    settings = CompareSettings(
        methods=("SVM", "STM", "LinearSVC"), repeats=2, lam_grid=(0.1, 1.0), folds=2, preparation=TensorScaler()
    )
    return sorted(compare(*binary, settings, **options), key=lambda row: (row.method, row.repeat))


def evaluation(binary, **options):
    preparation = [None, make_pipeline(TensorScaler("global"), Mask())]
    return nested_evaluation(search(decompositions=("full",), preparation=preparation), *binary, cv=3, **options)


def test_of_chance(binary, **options):
    model = search(decompositions=("full",), mus=(0,))
    return permutation_test(model, *binary, **{"cv": 2, "n_permutations": 4, "random_state": 0, **options})


test_of_chance.__test__ = False
COMPUTATIONS = {"compare": comparison, "evaluation": evaluation, "permutations": test_of_chance}


@pytest.fixture(scope="module")
def uninterrupted(binary):
    told = {name: Interrupt() for name in COMPUTATIONS}
    results = {name: plain(compute(binary, progress=told[name])) for name, compute in COMPUTATIONS.items()}
    return results, {name: len(one.calls) for name, one in told.items()}


@pytest.mark.parametrize("part", [0.2, 0.6, 0.95])
@pytest.mark.parametrize("name", COMPUTATIONS)
def test_a_resumed_computation_gives_exactly_the_same(name, part, binary, uninterrupted, tmp_path):
    results, calls = uninterrupted
    stop, folder = max(2, round(part * calls[name])), tmp_path / "unfinished"
    with pytest.raises(KeyboardInterrupt):
        COMPUTATIONS[name](binary, progress=Interrupt(stop), checkpoint=Checkpoint(folder))
    told, checkpoint = Interrupt(), Checkpoint(folder)
    assert plain(COMPUTATIONS[name](binary, progress=told, checkpoint=checkpoint)) == results[name]
    assert len(told.calls) <= calls[name] - stop + 3  # only what is missing, and at most one report of what is kept
    checkpoint.remove()
    assert not folder.exists()


@pytest.mark.parametrize("name", COMPUTATIONS)
def test_a_finished_computation_is_not_repeated(name, binary, uninterrupted, tmp_path, monkeypatch):
    COMPUTATIONS[name](binary, checkpoint=Checkpoint(tmp_path))
    monkeypatch.setattr("tensormargin.data.checkpoints._Keyed", None)
    monkeypatch.setattr("tensormargin.evaluation.nested._OuterLoop._test", None)
    assert plain(COMPUTATIONS[name](binary, checkpoint=Checkpoint(tmp_path))) == uninterrupted[0][name]


@pytest.mark.parametrize("name", COMPUTATIONS)
def test_only_json_is_stored(name, binary, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        COMPUTATIONS[name](binary, progress=Interrupt(4), checkpoint=Checkpoint(tmp_path))
    files = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != MARKER]
    assert files
    assert {path.suffix for path in files} == {".json"}
    assert all(isinstance(json.loads(path.read_text()), dict) for path in files)


def test_an_interrupted_search_keeps_its_scores(binary, tmp_path, monkeypatch):
    whole = search().fit(*binary)
    with pytest.raises(KeyboardInterrupt):
        search().fit(*binary, progress=Interrupt(5), checkpoint=Checkpoint(tmp_path))
    ran = []
    results = SearchRunner._results
    monkeypatch.setattr(
        SearchRunner, "_results", lambda self, units, loop: ran.append(len(units)) or results(self, units, loop)
    )
    fits = int(sum(whole.cv_results_["n_splits_done"]))
    resumed = search().fit(*binary, checkpoint=Checkpoint(tmp_path))
    assert 0 < sum(ran) <= fits - 5  # five jobs of at least one fit were finished
    for name, column in whole.cv_results_.items():
        if "time" not in name:
            assert repr(column) == repr(resumed.cv_results_[name]), name
    np.testing.assert_array_equal(whole.coef_, resumed.coef_)
    np.testing.assert_array_equal(whole.calibration_, resumed.calibration_)


def test_scores_that_wait_for_other_splits_are_not_kept(binary, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        search(scoring="neg_log_loss").fit(*binary, progress=Interrupt(5), checkpoint=Checkpoint(tmp_path))
    assert not list(tmp_path.rglob("*.json"))
    whole = search(scoring="neg_log_loss").fit(*binary)
    resumed = search(scoring="neg_log_loss").fit(*binary, checkpoint=Checkpoint(tmp_path))
    assert resumed.best_score_ == whole.best_score_


# ---- what belongs to another computation is not used ----


def spoiled(binary):
    X, y = binary
    X = X.copy()
    X[3, 1, 1] += 1e-9
    return X, y


OTHERS = {
    "other samples": lambda binary: (spoiled(binary), {}),
    "other labels": lambda binary: ((binary[0], binary[1][::-1].copy()), {}),
    "float32": lambda binary: ((binary[0].astype(np.float32), binary[1]), {}),
    "groups": lambda binary: (binary, {"groups": np.arange(24) // 2}),
    "another seed": lambda binary: (binary, {"seed": 1}),
    "other folds": lambda binary: (binary, {"cv": 2}),
    "another model": lambda binary: (binary, {"model": search(lams=(2,))}),
    "another preparation": lambda binary: (binary, {"model": search(preparation=TensorScaler())}),
}


@pytest.fixture(scope="module")
def evaluated(binary, tmp_path_factory):
    folder = tmp_path_factory.mktemp("evaluated")
    nested_evaluation(search(), *binary, cv=3, checkpoint=Checkpoint(folder))
    return folder


@pytest.mark.parametrize("other", [None, *OTHERS.values()], ids=["the same", *OTHERS.keys()])
def test_other_data_and_settings_find_nothing(other, binary, evaluated):
    (X, y), options = (binary, {}) if other is None else other(binary)
    told, model = Interrupt(1), options.pop("model", search())
    with pytest.raises(KeyboardInterrupt):
        nested_evaluation(model, X, y, **{"cv": 3, **options}, progress=told, checkpoint=Checkpoint(evaluated))
    assert told.calls[0][0] == 3 if other is None else told.calls[0][0] < 1


@pytest.mark.parametrize("change", ["versions", "source", "library"])
def test_other_versions_find_nothing(change, binary, tmp_path, monkeypatch):
    with Checkpoint(tmp_path).opened("one", binary) as units:
        units.add("a", 1)
    assert "a" in Checkpoint(tmp_path).opened("one", binary)
    fingerprints._software.cache_clear()
    if change == "versions":
        monkeypatch.setattr(fingerprints, "software_versions", lambda: {"tensormargin": "another"})
    else:
        copy = shutil.copytree(Path(room.__file__).parents[1], tmp_path / "copy")
        monkeypatch.setattr(fingerprints, "__file__", str(copy / "data" / "fingerprints.py"))
        assert "a" in Checkpoint(tmp_path).opened("one", binary)  # wherever it is installed
        fingerprints._software.cache_clear()
        changed = copy / "__init__.py" if change == "source" else next(copy.rglob("*.so"))
        changed.write_bytes(changed.read_bytes().replace(b"e", b"o", 1))
    assert "a" not in Checkpoint(tmp_path).opened("one", binary)
    fingerprints._software.cache_clear()


def test_fresh_forgets(binary, tmp_path):
    with Checkpoint(tmp_path).opened("one", binary) as units:
        units.add("a", 1)
    assert "a" not in Checkpoint(tmp_path, fresh=True).opened("one", binary)
    assert "a" not in Checkpoint(tmp_path).opened("one", binary)


def test_the_number_of_processes_and_an_earlier_fit_are_no_settings(binary):
    once = search(n_jobs=1)
    fitted = search(verbose=1).fit(*binary).set_params(n_jobs=2)
    assert fingerprint([once]) == fingerprint([fitted])
    assert fingerprint([make_pipeline(TensorScaler(), once)]) == fingerprint([make_pipeline(TensorScaler(), search())])
    assert fingerprint([once]) != fingerprint([search(lams=(2,))])


def test_the_layout_of_the_samples_is_no_setting(binary, tmp_path):
    X = binary[0]
    np.save(tmp_path / "x.npy", X)
    read_only = X.copy()
    read_only.flags.writeable = False
    for same in (read_only, np.load(tmp_path / "x.npy", mmap_mode="r"), X[:, :, ::-1].copy()[:, :, ::-1]):
        assert fingerprint([same]) == fingerprint([X])


def test_lazy_samples_are_identified_by_their_content(binary):
    dask = pytest.importorskip("dask.array", reason="needs Dask: pip install 'tensormargin[dask]'")
    X, _ = binary
    first, second = (dask.from_array(X, chunks=(12, 4, 5), name=name) for name in ("one", "two"))
    assert fingerprint([first]) == fingerprint([second])
    assert fingerprint([first]) != fingerprint([first + 1])


def test_samples_on_a_device_are_identified(put, binary):
    assert fingerprint([put(binary[0])]) == fingerprint([put(binary[0])])
    assert fingerprint([put(binary[0])]) != fingerprint([put(binary[0] + 1)])


# ---- the room ----

VALUES = [
    None,
    True,
    3,
    -0.0,
    float("nan"),
    float("inf"),
    1e-320,
    0.1 + 0.2,
    "Ü/\n",
    [1, [2.5, None]],
    (1, (2, "a")),
    {"a": {"kind": "tuple", "content": 3}, "b": ()},
    np.float32(0.1),
    np.int64(2**62),
    np.arange(6, dtype=np.int8).reshape(2, 3),
    np.array(["yes", "no"]),
    np.array([True, False]),
    np.asfortranarray(np.random.default_rng(0).standard_normal((2, 3))),
    np.zeros((0, 3), np.float32),
    np.array([np.nan, -np.inf]),
    np.array(["2020-01-01"], dtype="datetime64[D]"),
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_values_come_back_exactly(value, tmp_path):
    with Units(tmp_path) as units:
        units.add("key", value)
    again = Units(tmp_path)["key"]
    assert type(again) is type(value)
    if isinstance(value, np.ndarray):
        assert again.dtype == value.dtype
        np.testing.assert_array_equal(again, value)
    else:
        assert repr(again) == repr(value)


@pytest.mark.parametrize(
    "value", [object(), {1: 2}, np.array([None]), LinearSVC(), {1, 2}], ids=lambda value: type(value).__name__
)
def test_other_values_are_not_kept(value, tmp_path):
    with Units(tmp_path) as units:
        units.add("key", value)
        units.add("list", [value])
    assert dict(Units(tmp_path)) == {}


@pytest.mark.parametrize(
    "text",
    ["", "{", "[1]", "3", '{"b": {"kind": "array"}}', '{"b": {"kind": "array", "content": "?", "dtype": 1}}',
     '{"a": 2}', '{"b": {"kind": 1}}', '{"b": {"kind": "tuple"}}', "[" * 10**5, '{"b": ' * 10**5, "\xff"],
    ids=lambda text: text[:40],
)  # fmt: skip
def test_other_files_are_not_read(text, tmp_path):
    with Units(tmp_path) as units:
        units.add("a", 1)
    (stored,) = tmp_path.glob("*.json")
    for name in ("edited.json", f"{'0' * 64}.json", ".hidden.json.part"):
        (tmp_path / name).write_text(text)
    assert dict(Units(tmp_path)) == {"a": 1}
    stored.write_text(text)
    assert dict(Units(tmp_path)) == {}


def test_no_changed_bit_is_read(tmp_path):
    with Units(tmp_path) as units:
        units.add("scores", [0.5, {"a": np.arange(3.0)}])
    (stored,) = tmp_path.glob("*.json")
    content = stored.read_bytes()
    for place in range(len(content)):
        stored.write_bytes(content[:place] + bytes([content[place] ^ 1 << place % 8]) + content[place + 1 :])
        assert dict(Units(tmp_path)) == {}
    stored.write_bytes(content)
    assert list(Units(tmp_path)) == ["scores"]


def test_units_of_another_computation_are_not_read(tmp_path):
    for name in ("first", "second"):
        with Checkpoint(tmp_path).opened(name) as units:
            units.add("score", name)
    first, second = sorted(tmp_path.glob("*-*"))
    for path in first.glob("*.json"):
        shutil.copy(path, second)
    assert dict(Checkpoint(tmp_path).opened("second")) == {"score": "second"}


def double(value):
    return 2 * value


def test_jobs_are_run_once(tmp_path):
    jobs = {str(number): (double, (number,), {}) for number in range(5)}
    with Units(tmp_path) as units:
        found = run_units(jobs, units, 1)
        assert [next(found) for _ in range(2)] == [("0", 0), ("1", 2)]
        found.close()
    jobs = {key: (double if key > "1" else None, *rest) for key, (_, *rest) in jobs.items()}
    assert dict(run_units(jobs, Units(tmp_path), 1)) == {str(number): 2 * number for number in range(5)}


def test_units_are_written_now_and_then_and_rarer_in_long_runs(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(room.time, "monotonic", lambda: now[0])
    units = Units(tmp_path)
    for number in range(20_000):
        now[0] = number / 2
        units.add(str(number), number)
        if number == 5:
            assert len(Units(tmp_path)) == 5  # a kill loses at most a second
    files = len(list(tmp_path.iterdir()))
    assert 100 < files < 500
    units.write()
    assert len(Units(tmp_path)) == 20_000


def test_a_folder_that_cannot_be_written_to_is_no_obstacle(binary, tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.warns(RuntimeWarning, match="finished work cannot be kept"):
        found = nested_evaluation(search(), *binary, cv=2, checkpoint=Checkpoint(tmp_path / "file"))
    assert found.tested.all()


def test_a_local_scorer_is_no_obstacle(binary, tmp_path):
    for share, found in ((1, False), (1, True), (2, False)):
        local, checkpoint = make_scorer(lambda y, predicted: np.mean(y == predicted) / share), Checkpoint(tmp_path)  # noqa: B023
        search(scoring=local).fit(*binary, checkpoint=checkpoint)
        assert checkpoint.resumed == found


def test_without_a_checkpoint_nothing_is_identified(monkeypatch):
    monkeypatch.setattr(room, "fingerprint", None)
    with units_of(None, "name", object()) as units:
        units.finish("key", 1)
    assert len(units) == 0
    assert units.below("key") is None


def long_ago(*folders: Path) -> None:
    for folder in folders:
        for path in (folder, *folder.rglob("*")):
            os.utime(path, (0, 0), follow_symlinks=False)


def names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def test_old_work_is_swept_and_that_of_other_runs_stays(tmp_path):
    for name in ("old", "new", "resumed"):
        with Checkpoint(tmp_path).opened(name) as units:
            units.add("a", 1)
    with Checkpoint(tmp_path).opened("resumed") as units, units.below("0/1").opened("search") as inside:
        inside.add("a", 1)
    long_ago(*tmp_path.glob("old-*"), *tmp_path.glob("resumed-*"))
    os.utime(next(tmp_path.glob("resumed-*/inside-*/search-*/*.json")))
    checkpoint = Checkpoint(tmp_path)
    with checkpoint.opened("mine") as units:
        units.add("a", 1)
    checkpoint.remove()
    assert [path.name.partition("-")[0] for path in sorted(tmp_path.iterdir())] == ["new", "resumed"]


def test_nothing_but_the_work_of_checkpoints_is_removed(tmp_path):
    with Checkpoint(tmp_path).opened("search") as units:
        units.add("a", 1)
    (made,) = tmp_path.iterdir()
    backup = shutil.copytree(made, tmp_path / "backup")  # with a marker, and another name
    another = tmp_path / f"search-{'0' * 40}"  # with such a name, and no marker
    photos = tmp_path / "photos"
    for folder in (another, photos, tmp_path / "empty"):
        folder.mkdir()
    for folder in (another, photos, backup, tmp_path):
        (folder / "photo.jpg").touch()
        (folder / f"{'1' * 64}.json").touch()
    (another / MARKER).write_text("mine")
    (tmp_path / f"linked-{'0' * 40}").symlink_to(shutil.copytree(made, tmp_path / "target" / made.name))
    before = names(tmp_path)
    long_ago(tmp_path)
    with Checkpoint(tmp_path, fresh=True).opened("search") as units:
        units.add("a", 1)
    checkpoint = Checkpoint(tmp_path)
    with checkpoint.opened("search") as units:
        (units._folder / "notes.txt").touch()
    checkpoint.remove()
    left = [made.name, f"{made.name}/{MARKER}", f"{made.name}/notes.txt"]
    assert names(tmp_path) == sorted([*left, *(name for name in before if not name.startswith(made.name))])
    (made / "notes.txt").unlink()
    checkpoint.remove()
    assert names(tmp_path) == [name for name in before if not name.startswith(made.name)]


def test_a_folder_that_was_there_stays(tmp_path):
    checkpoint = Checkpoint(tmp_path)
    with checkpoint.opened("search") as units:
        units.add("a", 1)
    checkpoint.remove()
    assert names(tmp_path) == []
    assert tmp_path.exists()


def test_what_was_kept_inside_a_unit_goes_with_it(tmp_path):
    with Units(tmp_path) as units:
        for key in ("0/1", "0-1"):
            with units.below(key).opened("search") as inside:
                inside.add("a", key)
        assert len(list(tmp_path.rglob("*.json"))) == 2
        units.finish("0/1", 2)
        assert dict(units.below("0-1").opened("search")) == {"a": "0-1"}
        (units.below("0-1").folder / "notes.txt").touch()
        units.finish("0-1", 3)
    left = {name.rpartition("/")[2] for name in names(tmp_path) if "/" in name}
    assert left == {MARKER, "notes.txt"}
    assert dict(Units(tmp_path)) == {"0/1": 2, "0-1": 3}


def test_models_of_other_libraries_can_be_evaluated(binary, tmp_path):
    X, y = binary
    model = make_pipeline(TensorScaler(), search())
    assert plain(nested_evaluation(model, X, y, cv=2, checkpoint=Checkpoint(tmp_path))) == plain(
        nested_evaluation(model, X, y, cv=2)
    )
    svc = partial(permutation_test, LinearSVC(), X.reshape(24, -1), y, cv=2, n_permutations=3, random_state=0)
    assert plain(svc(checkpoint=Checkpoint(tmp_path))) == plain(svc())
    assert plain(svc(checkpoint=Checkpoint(tmp_path))) == plain(svc())


def test_more_permutations_begin_with_the_finished_ones(binary, tmp_path):
    few = test_of_chance(binary, checkpoint=Checkpoint(tmp_path))
    told = Interrupt()
    more = test_of_chance(binary, n_permutations=6, progress=told, checkpoint=Checkpoint(tmp_path))
    np.testing.assert_array_equal(more.permuted[:4], few.permuted)
    assert [done for done, _, _ in told.calls] == [5, 6, 7]
