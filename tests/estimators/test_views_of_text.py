"""Tests of views with text: categories of covariates, in fit and for new samples."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

from tensormargin import (
    TensorMarginAutoClassifier,
    TensorMarginClassifier,
    TensorMarginClassifierCV,
    TensorScaler,
    Views,
    ViewTransformer,
    load_model,
    save_model,
)

pd = pytest.importorskip("pandas", reason="needs pandas: pip install pandas")
Y = np.arange(48) % 2
EEG = np.random.default_rng(0).normal(size=(48, 3, 5))
PEOPLE = pd.DataFrame(
    {
        "age": np.random.default_rng(1).normal(50, 1, 48),
        "sex": pd.Categorical(np.where(np.arange(48) % 3, "F", "M")),
        "site": np.array(["1", "2", "10"])[(Y + np.arange(48) % 2) % 3],
        "treated": Y == 1,
    }
)
ENTRIES = ["age", "sex=F", "sex=M", "site=1", "site=10", "treated"]
FEW = {"lams": (1,), "mus": (0,), "cv": 2, "random_state": 0}
MODELS = {
    "one": TensorMarginClassifier("cp", 1),
    "search": TensorMarginClassifierCV(("cp",), (1,), **FEW),
    "auto": TensorMarginAutoClassifier(**FEW),
    "pipeline": make_pipeline(ViewTransformer({"eeg": TensorScaler(0)}), TensorMarginClassifier("cp", 1)),
}


@pytest.fixture(scope="module", params=list(MODELS))
def fitted(request):
    return MODELS[request.param].fit(Views(eeg=EEG, people=PEOPLE), Y)


def test_categories_are_columns_of_zeros_and_ones():
    found = Views(eeg=EEG, people=PEOPLE)
    assert found.sample_axes["people"][0].values.tolist() == ENTRIES
    coded = found["people"]
    np.testing.assert_array_equal(coded[:, 0], PEOPLE["age"])
    np.testing.assert_array_equal(coded[:, 2], PEOPLE["sex"] == "M")
    np.testing.assert_array_equal(coded[:, 4], PEOPLE["site"] == "10")
    np.testing.assert_array_equal(coded[:, 5], Y)
    for vector in (PEOPLE["site"], PEOPLE["site"].to_numpy(), PEOPLE["site"].tolist(), PEOPLE["site"].astype("string")):
        one = Views(site=vector)
        assert one.sample_axes["site"][0].values.tolist() == ["site=1", "site=10"]
        np.testing.assert_array_equal(one["site"], coded[:, 3:5])


def test_new_samples_have_the_columns_of_the_fit(fitted):
    whole = Views(eeg=EEG, people=PEOPLE)
    for rows in (slice(0, 1), slice(1, 2), slice(5, 9)):
        new = {"eeg": EEG[rows], "people": PEOPLE.iloc[rows]}
        assert Views(new)["people"].shape[1] < len(ENTRIES) or rows == slice(5, 9)
        for given in (new, Views(new)):
            np.testing.assert_allclose(fitted.decision_function(given), fitted.decision_function(whole[rows]))


def test_categories_that_the_fit_has_not_seen_are_refused(fitted):
    new = PEOPLE[:3].astype(object)
    new.loc[1, "sex"] = "X"
    with pytest.raises(ValueError, match=r"view 'people': .*'sex' has the value 'X'.* they had F, M\. Make all .* NaN"):
        fitted.predict(Views(eeg=EEG[:3], people=new))
    new.loc[1] = None
    lacking = Views(eeg=EEG[:3], people=new)
    assert np.isnan(lacking["people"][1]).all()
    np.testing.assert_array_equal(
        fitted.predict(lacking)[[0, 2]], fitted.predict(Views(eeg=EEG, people=PEOPLE))[[0, 2]]
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda new: new.drop(columns="sex"), "sex=F, sex=M missing"),
        (lambda new: new.assign(hand="left"), "hand=left additional"),
        (lambda new: new.assign(age="old"), "age missing"),
        (lambda new: new[["sex", "age", "site", "treated"]].assign(age=None), "lacks the covariate 'age'"),
    ],
)
def test_other_columns_are_refused(change, words):
    model = MODELS["one"].fit(Views(eeg=EEG, people=PEOPLE), Y)
    with pytest.raises(ValueError, match=words):
        model.predict(Views(eeg=EEG, people=change(PEOPLE)))


def test_the_order_of_columns_makes_no_difference_to_text():
    model = MODELS["one"].fit(Views(eeg=EEG, people=PEOPLE), Y)
    turned = Views(eeg=EEG, people=PEOPLE[PEOPLE.columns[::-1]])
    np.testing.assert_allclose(
        model.decision_function(turned), model.decision_function(Views(eeg=EEG, people=PEOPLE)), rtol=1e-12
    )


def test_they_can_be_split_and_saved(tmp_path):
    X = Views(eeg=EEG, people=PEOPLE)
    assert cross_val_score(MODELS["one"], X, Y, cv=3).mean() > 0.8
    model = MODELS["one"].fit(X, Y)
    save_model(tmp_path / "m.skops", model)
    again = load_model(tmp_path / "m.skops").model
    new = Views(eeg=EEG[:1], people=PEOPLE[:1])
    np.testing.assert_array_equal(again.decision_function(new), model.decision_function(new))


def test_text_of_many_values_is_refused():
    with pytest.raises(ValueError, match=r"view 'people': .*at most 50 categories; 'name' has 60\. Leave it out"):
        Views(people=pd.DataFrame({"age": np.ones(60), "name": [f"n{k}" for k in range(60)]}))
