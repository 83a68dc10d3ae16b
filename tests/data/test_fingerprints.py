"""Tests of fingerprints: results of code that has changed since are never used again."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import get_scorer, make_scorer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import LinearSVC

from tensormargin import Checkpoint, TensorMarginClassifierCV, nested_evaluation
from tensormargin.data import Views, fingerprint

ESTIMATOR = """
import functools
import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

def doubled(X):
    return 2 * X

class Base(TransformerMixin, BaseEstimator):
    '''A transformer.'''

    power: int = 1

    def __init__(self, keep=None):
        self.keep = keep

    def fit(self, X, y=None):
        self.fitted_ = True
        return self

    def transform(self, X):
        return self.changed(X)

    @staticmethod
    def changed(X):
        return doubled(X)

    @property
    def scale(self):
        return 3

class Prepare(Base):
    def fit(self, X, y=None):
        return super().fit(X, y)

value = Prepare()
"""

# What makes a setting, and what is edited in it, by what is edited.
EDITS = {
    "the body": ("def value(X):\n    return X + 1", "+ 1", "- 1"),
    "a constant in it": ("def value(X):\n    return X[:, 1:4]", "1:4", "1:5"),
    "an attribute": ("def value(X):\n    return X.min(axis=1)", "min", "max"),
    "a lambda": ("value = lambda X: X * 2", "2", "3"),
    "a function that it calls": ("def inner(X):\n    return X + 1\ndef value(X):\n    return inner(X)", "+ 1", "+ 2"),
    "two calls away": (
        "def a(X):\n    return X + 1\ndef b(X):\n    return a(X)\ndef value(X):\n    return [b(one) for one in X]",
        "+ 1",
        "+ 2",
    ),
    "of functions that call each other": (
        "def a(X):\n    return b(X) if X else 1\ndef b(X):\n    return a(X) + 1\nvalue = b",
        "else 1",
        "else 2",
    ),
    "a global": ("FACTOR = 2\ndef value(X):\n    return X * FACTOR", "2", "3"),
    "an array": ("import numpy as np\nW = np.arange(3.0)\ndef value(X):\n    return X * W", "3.0", "4.0"),
    "a default": ("def value(X, factor=2):\n    return X * factor", "2", "3"),
    "a default by keyword": ("def value(X, *, factor=2):\n    return X * factor", "2", "3"),
    "a closure": ("def times(n):\n    return lambda X: n * X\nvalue = times(2)", "times(2)", "times(3)"),
    "a function inside": ("def value(X):\n    def inner():\n        return X + 1\n    return inner()", "+ 1", "+ 2"),
    "a decorated function": (
        "import functools\ndef same(f):\n    @functools.wraps(f)\n    def call(X):\n        return f(X)\n"
        "    return call\n@same\ndef value(X):\n    return X + 1",
        "X + 1",
        "X + 2",
    ),
    "a cached function": ("import functools\n@functools.lru_cache\ndef value(X):\n    return X + 1", "+ 1", "+ 2"),
    "a partial": ("from functools import partial\ndef f(X, n):\n    return n + X\nvalue = partial(f, n=1)", "=1", "=2"),
    "the function of a partial": (
        "from functools import partial\ndef f(X, n):\n    return n + X\nvalue = partial(f, n=1)",
        "n + X",
        "n - X",
    ),
    "a vectorized function": ("import numpy as np\nvalue = np.vectorize(lambda x: x + 1)", "+ 1", "+ 2"),
    "a bound method": (
        "class A:\n    n = 1\n    def f(self, X):\n        return X * self.n\nvalue = A().f",
        "= 1",
        "= 2",
    ),
    "an object": ("class A:\n    def __call__(self, X):\n        return X + 1\nvalue = A()", "+ 1", "+ 2"),
    "its state": ("class A:\n    def __init__(self, n):\n        self.n = n\nvalue = A(1)", "A(1)", "A(2)"),
    "in containers": ("def f(X):\n    return X + 1\nvalue = {'a': [(f, {f})]}", "+ 1", "+ 2"),
    "a module": ("import helpers\ndef value(X):\n    return helpers.of(X)", None, None),
    "a module in the function": ("def value(X):\n    from helpers import of\n    return of(X)", None, None),
    "a module as a value": ("import helpers\ndef value(X):\n    return vars(helpers)['of'](X)", None, None),
    "a method of a base class": (ESTIMATOR, "return self.changed(X)", "return -self.changed(X)"),
    "a static method": (ESTIMATOR, "return doubled(X)", "return doubled(-X)"),
    "a function of a static method": (ESTIMATOR, "2 * X", "3 * X"),
    "a property": (ESTIMATOR, "return 3", "return 4"),
    "a base class": (ESTIMATOR, "Prepare(Base)", "Prepare(Base, dict)"),
    "a parameter": (ESTIMATOR, "Prepare()", "Prepare(doubled)"),
}
HELPERS = "def of(X):\n    return X + inner(X)\ndef inner(X):\n    return X * 2\n"


def module(name: str, source: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a module as if imported from a file of the user that has this source."""
    made = ModuleType(name)
    made.__file__ = f"/home/user/study/{name}.py"
    monkeypatch.setitem(sys.modules, name, made)
    exec(compile(source, made.__file__, "exec"), vars(made))
    return made


@pytest.mark.parametrize(("source", "old", "new"), EDITS.values(), ids=EDITS)
@pytest.mark.parametrize(
    "within",
    [
        lambda value: value,
        lambda value: make_pipeline(FunctionTransformer(value) if callable(value) else value, LinearSVC()),
        lambda value: {"score": make_scorer(value) if callable(value) else value},
    ],
    ids=["alone", "in a pipeline", "in a scorer"],
)
def test_edited_code_is_other_code(source, old, new, within, monkeypatch):
    def found(text: str, helpers: str = HELPERS) -> str:
        module("helpers", helpers, monkeypatch)
        return fingerprint([within(module("study", text, monkeypatch).value)])

    before = found(source)
    assert found(source) == before
    assert found(f"# a comment, which changes nothing\n\n{source}") == before
    if old is None:
        assert found(source, HELPERS.replace("* 2", "* 3")) != before
    else:
        assert source.count(old) == 1
        assert found(source.replace(old, new)) != before


def test_documentation_and_fits_change_nothing(monkeypatch):
    def found(text: str, fitted: bool) -> str:
        value = module("study", text, monkeypatch).value
        return fingerprint([make_pipeline(value.fit(np.eye(2)) if fitted else value, StandardScaler())])

    other = ESTIMATOR.replace("A transformer.", "Another text.").replace("power: int", "power: float")
    assert found(ESTIMATOR, False) == found(ESTIMATOR, True) == found(other, False)


def test_fitted_models_that_are_settings_belong_to_them():
    frozen = [FrozenEstimator(StandardScaler().fit(np.eye(2) * n)) for n in (1, 1, 2)]
    found = [fingerprint([make_pipeline(one, LinearSVC())]) for one in frozen]
    assert found[0] == found[1] != found[2]


@pytest.mark.parametrize(
    "same",
    [
        lambda: np.random.RandomState(3),
        lambda: np.ma.masked_array([1, 2], [0, 1]),
        lambda: np.array(["a", None, 3], object),
        lambda: np.array(["a", "bc"], np.dtypes.StringDType()),
        lambda: np.zeros(2, [("a", "i4"), ("b", "f8")]),
        lambda: {"b", "a", ("c", 1)},
        lambda: (np.add, np.mean, len, get_scorer("accuracy"), LinearSVC, str.lower, ValueError),
        lambda: 10**6000,
    ],
    ids=lambda same: type(same()).__name__,
)
def test_equal_values_are_the_same(same):
    assert fingerprint(same()) == fingerprint(same())


@pytest.mark.parametrize(
    ("value", "other"),
    [
        (1, True),
        (1, 1.0),
        (0.0, -0.0),
        ("1", 1),
        (b"a", "a"),
        ((1, 2), [1, 2]),
        ([[1], 2], [[1, 2]]),
        (np.float32(1), np.float64(1)),
        (np.zeros((2, 3)), np.zeros((3, 2))),
        (np.zeros(2), np.zeros(2, np.int64)),
        (np.array(["a", "b"], object), np.array(["a", "c"], object)),
        (np.zeros(1, [("a", "i4")]), np.zeros(1, [("b", "i4")])),
        (np.ma.masked_array([1, 2], [0, 1]), np.ma.masked_array([1, 2], [1, 0])),
        (np.sin, np.cos),
        (min, max),
        (ValueError, TypeError),
        (get_scorer("accuracy"), get_scorer("balanced_accuracy")),
        (np.random.RandomState(0), np.random.RandomState(1)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_other_values_are_others(value, other):
    assert fingerprint([value]) != fingerprint([other])


def test_another_version_of_an_installed_package_is_other_code(monkeypatch):
    before = fingerprint([LinearSVC()])
    monkeypatch.setattr("sklearn.__version__", "0.1")
    assert fingerprint([LinearSVC()]) != before


UNIDENTIFIED = {
    "eval": "def value(X):\n    return eval('X + 1')",
    "globals": "def value(X):\n    return globals()['f'](X)",
    "import_module": "import importlib\ndef value(X):\n    return importlib.import_module('helpers').of(X)",
    "a lock": "import threading\nlock = threading.Lock()\ndef value(X):\n    with lock:\n        return X",
    "a generator": "rows = (n for n in range(3))\ndef value(X):\n    return X + next(rows)",
    "a compiled function": "import numpy as np\nvalue = np.frompyfunc(lambda x: x + 1, 1, 1)",
    "a module that fails": "def value(X):\n    import helpers_that_fail\n    return X",
    "very many functions": "\n".join(f"def f{n}(X):\n    return f{n + 1}(X)" for n in range(2000)) + "\nvalue = f0",
}


@pytest.mark.parametrize("source", UNIDENTIFIED.values(), ids=UNIDENTIFIED)
def test_nothing_is_kept_for_code_that_cannot_be_told_from_other_code(source, monkeypatch, tmp_path):
    (tmp_path / "helpers_that_fail.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(tmp_path)
    checkpoint = Checkpoint(tmp_path / "unfinished")
    value = module("study", source, monkeypatch).value
    with pytest.warns(RuntimeWarning, match="finished work cannot be kept"), checkpoint.opened("one", value) as units:
        units.add("a", 1)
    assert not checkpoint.folder.exists()


STUDY = """
import numpy as np

def centred(X):
    return X - X.mean(axis=(1, 2), keepdims=True)

def prepare(X):
    return centred(X)
"""


def test_results_of_an_edited_function_are_computed_again(tmp_path, monkeypatch):
    """Samples of two classes differ by their mean only, which the first version of the function takes away."""
    y = np.arange(24) % 2
    X = np.random.default_rng(0).normal(size=(24, 3, 4)) + 3 * y[:, None, None]

    def accuracy(source: str, **options: Any) -> float:
        preparation = FunctionTransformer(module("study", source, monkeypatch).prepare)
        settings = {"decompositions": ("full",), "lams": (1,), "mus": (0,), "cv": 2, "random_state": 0}
        model = TensorMarginClassifierCV(preparation=preparation, **settings)
        return nested_evaluation(model, X, y, cv=3, **options).accuracy

    edited = STUDY.replace("X - X.mean(axis=(1, 2), keepdims=True)", "X")
    before = accuracy(STUDY, checkpoint=Checkpoint(tmp_path))
    assert accuracy(edited, checkpoint=Checkpoint(tmp_path)) == accuracy(edited) != before
    checkpoint = Checkpoint(tmp_path)
    assert accuracy(STUDY, checkpoint=checkpoint) == before
    assert checkpoint.resumed


class TwoViews(BaseEstimator):
    """Makes two views by a function."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def fit(self, X: Any, y: Any = None) -> TwoViews:
        self.fitted_ = True
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Views:
        return self.fit(X).transform(X)

    def transform(self, X: Any) -> Views:
        return Views({"a": X, "b": self.function(X)})


def test_a_local_function_may_make_views():
    """Their inner products are shared under a key, for which a function that cannot be pickled was an error."""
    y = np.arange(24) % 2
    X = np.random.default_rng(0).normal(size=(24, 3, 4)) + y[:, None, None]
    settings = {"decompositions": ("full",), "lams": (1,), "mus": (0,), "cv": 2, "random_state": 0}
    found = [
        nested_evaluation(TensorMarginClassifierCV(preparation=TwoViews(function), **settings), X, y, cv=3)
        for function in (lambda X: X**2, np.square)
    ]
    np.testing.assert_array_equal(found[0].predicted, found[1].predicted)
    np.testing.assert_array_equal(found[0].matched_predicted, found[1].matched_predicted)
