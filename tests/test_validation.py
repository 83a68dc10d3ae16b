"""Labels and groups: one door for whatever holds them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tensormargin._validation import checked_groups, checked_labels

X = np.zeros((4, 2, 3))
WORDS = ["b", "a", "b", "c"]
NUMBERS = [2, 1, 2, 3]
SCRAMBLED = [3, 1, 0, 2]  # an index of its own, as a shuffled or filtered DataFrame has it

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
@pytest.mark.parametrize("kind", KINDS_OF_TEXT)
def test_text_comes_out_as_text_in_its_order(kind, checked):
    values = checked(X, KINDS_OF_TEXT[kind])
    assert type(values) is np.ndarray
    assert values.dtype.kind == "U"
    assert values.tolist() == WORDS


@pytest.mark.parametrize("checked", [checked_labels, checked_groups])
@pytest.mark.parametrize("kind", KINDS_OF_NUMBERS)
def test_numbers_stay_numbers_in_their_order(kind, checked):
    values = checked(X, KINDS_OF_NUMBERS[kind])
    assert type(values) is np.ndarray
    assert values.dtype.kind == "i"
    assert values.tolist() == NUMBERS


def test_arrays_of_other_libraries_come_to_the_processor(put):
    assert checked_labels(put(X), put(np.array(NUMBERS))).tolist() == NUMBERS
    assert checked_groups(X, put(np.array(NUMBERS))).tolist() == NUMBERS


def test_truth_values_and_whole_floats_are_labels():
    assert checked_labels(X, [True, False, True, True]).dtype == bool
    assert checked_labels(X, np.array([-1.0, 1.0, 1.0, -1.0])).tolist() == [-1.0, 1.0, 1.0, -1.0]


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, "one label per sample; got None"),
        (WORDS[1:], r"inconsistent numbers of samples: \[4, 3\].*in their order"),
        (pd.Series(WORDS * 2), r"inconsistent numbers of samples: \[4, 8\]"),
        (np.zeros((4, 2)), r"1d array, got an array of shape \(4, 2\)"),
        (np.array(1), r"got an array of shape \(\)"),
        ([0.5, 1, 2, 1], r"continuous value 0\.5.*numpy\.digitize"),
        ([1.0, np.nan, 2.0, np.nan], r"2 of 4 in y are missing or not finite, the first at position 1 \(nan\)"),
        ([1.0, np.inf, 2.0, 1.0], r"1 of 4 in y are missing or not finite"),
        (["a", None, "b", "a"], r"1 of 4 in y.*position 1 \(None\)"),
        (["a", "b", float("nan"), "a"], r"1 of 4 in y.*position 2 \(nan\)"),
        (pd.Series(["a", "b", "a", None], dtype="string"), r"position 3 \(<NA>\)"),
        (pd.Series(["a", "b", "a", None], dtype="category"), r"position 3 \(nan\)"),
        (pd.Series([1, None, 2, 2], dtype="Int64"), "position 1"),
        (["a", 1, "b", 2], "all text or all numbers"),
        (pd.Series(pd.date_range("2020-01-01", periods=4)), "all text or all numbers; got datetime64"),
        ([object()] * 4, "all text or all numbers; got object with a label of type object"),
    ],
)
def test_what_cannot_be_labels_is_refused(y, message):
    with pytest.raises(ValueError, match=message):
        checked_labels(X, y)


def test_groups_may_be_missing_altogether_but_not_in_part():
    assert checked_groups(X, None) is None
    with pytest.raises(ValueError, match="every sample needs a group; 1 of 4 in groups"):
        checked_groups(X, ["a", None, "b", "b"])
    with pytest.raises(ValueError, match=r"one group per sample; got inconsistent numbers of samples: \[4, 2\]"):
        checked_groups(X, pd.Series(["a", "b"]))
    assert checked_groups(X, [0.5, 0.5, 1.5, 1.5]).tolist() == [0.5, 0.5, 1.5, 1.5]
