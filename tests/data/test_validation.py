"""Tests of the validation of labels and groups in any container."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from conftest import low_rank_classes

from tensormargin import SampleSet, TensorMarginClassifier, TensorMarginClassifierCV, activation_pattern, margin_report
from tensormargin.data import checked_labels, checked_training
from tensormargin.data.validation import checked_groups
from tensormargin.io import load_samples, write_predictions
from tensormargin.io.predictions import predictions_of

X = np.zeros((4, 2, 3))
WORDS = ["b", "a", "b", "c"]
NUMBERS = [2, 1, 2, 3]
SCRAMBLED = [3, 1, 0, 2]  # the index of a shuffled or filtered DataFrame

KINDS_OF_TEXT = {
    "list": WORDS,
    "tuple": tuple(WORDS),
    "array": np.array(WORDS),
    "array of objects": np.array(WORDS, object),
    "array of variable width": np.array(WORDS, np.dtypes.StringDType()),
    "bytes": np.array(WORDS, "S"),
    "column": np.array(WORDS)[:, None],
    "Series": pd.Series(WORDS, index=SCRAMBLED),
    "Series of objects": pd.Series(WORDS, index=SCRAMBLED, dtype=object),
    "Series of pandas' strings": pd.Series(WORDS, index=SCRAMBLED, dtype="string"),
    "categorical Series": pd.Series(WORDS, index=SCRAMBLED, dtype="category"),
    "Categorical": pd.Categorical(WORDS),
    "Index": pd.Index(WORDS),
    "DataFrame": pd.DataFrame({"y": WORDS}, index=SCRAMBLED),
}
KINDS_OF_NUMBERS = {
    "list": NUMBERS,
    "array of objects": np.array(NUMBERS, object),
    "Series": pd.Series(NUMBERS, index=SCRAMBLED),
    "Series of pandas' integers": pd.Series(NUMBERS, index=SCRAMBLED, dtype="Int64"),
    "categorical Series": pd.Series(NUMBERS, index=SCRAMBLED, dtype="category"),
    "Index": pd.Index(NUMBERS),
}


@pytest.mark.parametrize("checked", [checked_labels, checked_groups])
@pytest.mark.parametrize(
    ("given", "dtype_kind", "expected"),
    [pytest.param(given, "U", WORDS, id=f"text, {name}") for name, given in KINDS_OF_TEXT.items()]
    + [pytest.param(given, "i", NUMBERS, id=f"numbers, {name}") for name, given in KINDS_OF_NUMBERS.items()],
)
def test_text_stays_text_and_numbers_stay_numbers_in_their_order(given, dtype_kind, expected, checked):
    values = checked(X, given)
    assert type(values) is np.ndarray
    assert values.dtype.kind == dtype_kind
    assert values.tolist() == expected


def test_arrays_of_other_libraries_come_to_the_processor(put):
    assert checked_labels(put(X), put(np.array(NUMBERS))).tolist() == NUMBERS
    assert checked_groups(X, put(np.array(NUMBERS))).tolist() == NUMBERS


class TestArraysThatNeedNoCheck:
    """Plain arrays of numbers skip scikit-learn's checks, which would return them unchanged."""

    def checked(self, estimator, X, y):
        found = checked_training(estimator, X, y)
        return found, {name: value for name, value in vars(estimator).items() if name.endswith("_")}

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize(
        "labels", [np.array(NUMBERS), np.array([True, False, True, False]), np.arange(4, dtype="u1")]
    )
    @pytest.mark.parametrize("shape", [(4, 2), (4, 2, 3), (4, 1, 1, 2)])
    def test_they_are_the_same_with_these_checks(self, dtype, labels, shape, monkeypatch):
        samples = np.arange(np.prod(shape), dtype=dtype).reshape(shape)
        (array, y), attributes = self.checked(TensorMarginClassifier(), samples, labels)
        monkeypatch.setattr("tensormargin.data.validation._are_valid", lambda *_: False)
        (expected, expected_y), expected_attributes = self.checked(TensorMarginClassifier(), samples, labels)
        assert array is samples
        assert y is labels
        assert attributes == expected_attributes
        np.testing.assert_array_equal(array, expected)
        np.testing.assert_array_equal(y, expected_y)

    def test_names_of_an_earlier_fit_are_forgotten(self):
        estimator = TensorMarginClassifier()
        self.checked(estimator, pd.DataFrame(np.zeros((4, 2)), columns=["a", "b"]), np.array(NUMBERS))
        _, attributes = self.checked(estimator, np.zeros((4, 3)), np.array(NUMBERS))
        assert attributes == {"n_features_in_": 3}

    @pytest.mark.parametrize(
        ("samples", "labels", "message"),
        [
            (np.full((4, 2), np.nan), np.arange(4), "NaN"),
            (np.zeros((4, 2)), np.arange(3), "inconsistent numbers of samples"),
            (np.zeros((0, 2)), np.arange(0), "0 sample"),
            (np.zeros((4, 0)), np.arange(4), "0 feature"),
            (np.zeros(4), np.arange(4), "1D array"),
            (np.zeros((4, 2)), np.zeros((4, 2), int), "1d array"),
        ],
    )
    def test_others_are_refused_as_before(self, samples, labels, message):
        with pytest.raises(ValueError, match=message):
            self.checked(TensorMarginClassifier(), samples, labels)


def test_truth_values_and_whole_floats_are_labels():
    assert checked_labels(X, [True, False, True, True]).dtype == bool
    assert checked_labels(X, np.array([-1.0, 1.0, 1.0, -1.0])).tolist() == [-1.0, 1.0, 1.0, -1.0]


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, "one entry per sample; got None"),
        (WORDS[1:], r"inconsistent numbers of samples: \[4, 3\].*in their order"),
        (pd.Series(WORDS * 2), r"inconsistent numbers of samples: \[4, 8\]"),
        (np.zeros((4, 2)), r"1d array, got an array of shape \(4, 2\)"),
        (np.array(1), r"got an array of shape \(\)"),
        ([0.5, 1, 2, 1], r"quantity was found: values such as 0\.5.*numpy\.digitize.*give them as text"),
        ([1.0, np.nan, 2.0, np.nan], r"2 of 4 are missing or not finite, the first at position 1 \(nan\)"),
        ([1.0, np.inf, 2.0, 1.0], r"1 of 4 are missing or not finite"),
        (["a", None, "b", "a"], r"1 of 4 are.*position 1 \(None\)"),
        (["a", "b", float("nan"), "a"], r"1 of 4 are.*position 2 \(nan\)"),
        (pd.Series(["a", "b", "a", None], dtype="string"), r"position 3 \(<NA>\)"),
        (pd.Series(["a", "b", "a", None], dtype="category"), r"position 3 \(nan\)"),
        (pd.Series([1, None, 2, 2], dtype="Int64"), "position 1"),
        (["a", 1, "b", 2], "all text or all numbers"),
        (pd.Series(pd.date_range("2020-01-01", periods=4)), "all text or all numbers; got datetime64"),
        ([object()] * 4, "all text or all numbers; got object, the first of type object"),
    ],
)
def test_what_cannot_be_labels_is_refused(y, message):
    with pytest.raises(ValueError, match=message):
        checked_labels(X, y)


def test_groups_may_be_missing_altogether_but_not_in_part():
    assert checked_groups(X, None) is None
    with pytest.raises(ValueError, match="groups must have a value for every sample; 1 of 4"):
        checked_groups(X, ["a", None, "b", "b"])
    with pytest.raises(ValueError, match=r"one entry per sample; got inconsistent numbers of samples: \[4, 2\]"):
        checked_groups(X, pd.Series(["a", "b"]))
    assert checked_groups(X, [0.5, 0.5, 1.5, 1.5]).tolist() == [0.5, 0.5, 1.5, 1.5]


@pytest.fixture(scope="module")
def fitted():
    samples, signs = low_rank_classes(0, 40, (3, 4), 3.0)
    words = np.where(signs > 0, "cat", "dog")
    return TensorMarginClassifier("cp", 1).fit(samples, words), samples, words


class TestWhoeverTakesLabels:
    """Series with a non-default index and pandas' own text dtypes."""

    @pytest.fixture(params=["object", "string", "category"])
    def series(self, request, fitted):
        words = fitted[2]
        return pd.Series(words, index=np.random.default_rng(0).permutation(len(words)), dtype=request.param)

    def test_margins_and_patterns_are_those_of_the_array(self, fitted, series):
        clf, samples, words = fitted
        expected = margin_report(clf, samples, words)
        for given in (series, series.tolist(), pd.Index(series)):
            np.testing.assert_array_equal(margin_report(clf, samples, given).margins, expected.margins)
            np.testing.assert_array_equal(
                activation_pattern(clf, samples, given), activation_pattern(clf, samples, words)
            )

    def test_missing_labels_are_named(self, fitted, series):
        clf, samples, _ = fitted
        series = series.copy()
        series.iloc[7] = None
        for asked in (margin_report, activation_pattern):
            with pytest.raises(ValueError, match="1 of 40 are missing or not finite, the first at position 7"):
                asked(clf, samples, series)

    def test_a_sample_set_takes_them_in_their_order(self, fitted, series, tmp_path):
        clf, samples, words = fitted
        runs = pd.Series(np.arange(40) // 5, index=series.index, dtype="Int64")
        made = SampleSet(samples, series, runs, None, None, "by hand", "arrays", ())
        assert type(made.target) is type(made.groups) is np.ndarray
        assert made.target.tolist() == words.tolist()
        write_predictions(tmp_path / "predictions.csv", [predictions_of(clf, made)])
        table = pd.read_csv(tmp_path / "predictions.csv")
        assert table["label"].tolist() == words.tolist()
        assert table["group"].tolist() == (np.arange(40) // 5).tolist()


@pytest.mark.parametrize("kind", [str, object, ">U9"])
def test_text_that_nothing_can_write_is_refused_before_a_fit(kind, tmp_path):
    """Half a surrogate pair, as in damaged names, ended in a traceback of matplotlib, or when the model was saved."""
    X, y = np.random.default_rng(0).normal(size=(12, 2, 3)), np.array(["calm", "ang\ud800st"], kind)[np.arange(12) % 2]
    words = r"y must be text that can be written as UTF-8; got 'ang\\ud800st'\. Rename it"
    for estimator in (TensorMarginClassifier("cp"), TensorMarginClassifierCV(cv=2)):
        with pytest.raises(ValueError, match=words):
            estimator.fit(X, y)
    np.savez(tmp_path / "samples.npz", X=X, y=y.astype(str))
    with pytest.raises(ValueError, match="must be text that can be written as UTF-8"):
        load_samples(tmp_path / "samples.npz")
    with pytest.raises(ValueError, match="groups must be text"):
        TensorMarginClassifier("cp", probability=True).fit(X, np.arange(12) % 2, groups=y)
