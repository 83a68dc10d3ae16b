"""aeon: time series classification.

aeon's collections, arrays of shape (cases, channels, time points), are samples; lists of series of unequal length need
`EqualLength` as the first step. Ensembles average probabilities, so their members need `probability=True` (the search
always has probabilities). `ClassifierChannelEnsemble` and `TEASER` pass on channels × time. `ClassifierEnsemble` takes
scikit-learn classifiers for series of one channel only; use scikit-learn's `VotingClassifier` for more. After
MiniRocket and in `RotationForestClassifier`, samples are vectors of features and the weight is flat.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("aeon", reason="needs aeon: pip install aeon")

from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tensormargin import EqualLength, TensorMarginClassifier, TensorMarginClassifierCV

pytestmark = pytest.mark.filterwarnings("ignore")  # aeon's own

Y = np.where(np.arange(30) % 2, "walk", "rest")
X = np.random.default_rng(0).standard_normal((30, 3, 20)) + (Y == "walk")[:, None, None]
CP = TensorMarginClassifier("cp", 1, probability=True, random_state=0)
SEARCH = TensorMarginClassifierCV(("cp",), (1,), (1,), (1,), cv=2, random_state=0)


@pytest.fixture
def uncompiled(monkeypatch):
    """Let MiniRocket run as plain Python: compiling it takes half a minute."""
    monkeypatch.setattr("numba.core.config.DISABLE_JIT", 1)


def test_ensembles_of_channels():
    y, X_new = Y, X
    # page: One classifier for the first two channels, one for the third:
    from aeon.classification.compose import ClassifierChannelEnsemble

    from tensormargin import TensorMarginClassifier

    clf = TensorMarginClassifier("cp", rank=1, probability=True)
    ensemble = ClassifierChannelEnsemble([("arm", clf), ("leg", clf)], channels=[[0, 1], [2]])
    ensemble.fit(X, y).predict_proba(X_new)
    # page ends
    assert ensemble.score(X, y) > 0.9
    assert [one.sample_shape_ for _, one in ensemble.ensemble_] == [(2, 20), (1, 20)]


def test_early_classification():
    y, X_new = Y, X
    # page: TEASER predicts as soon as the first time points are enough:
    from aeon.classification.early_classification import TEASER

    from tensormargin import TensorMarginClassifier

    clf = TensorMarginClassifier("cp", rank=1, probability=True)
    early = TEASER(clf, classification_points=[10, 20], random_state=0).fit(X, y)
    labels, is_safe = early.predict(X_new)
    # page ends
    assert np.mean(labels == y) > 0.9
    assert [one.sample_shape_ for one in early.estimators_] == [(3, 10), (3, 20)]
    assert is_safe.shape == (30,)


def test_minirocket(uncompiled):
    y = Y
    # page: MiniRocket in a scikit-learn pipeline:
    from aeon.transformations.collection.convolution_based import MiniRocket
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from tensormargin import TensorMarginClassifier

    model = make_pipeline(MiniRocket(n_kernels=84, random_state=0), StandardScaler(), TensorMarginClassifier("full"))
    model.fit(X, y)
    # page ends
    assert model.score(X, y) > 0.9


def test_minirocket_with_our_classifier_as_its_estimator(uncompiled):
    from aeon.classification.convolution_based import MiniRocketClassifier

    last = make_pipeline(StandardScaler(), TensorMarginClassifier("full", probability=True))
    model = MiniRocketClassifier(n_kernels=84, estimator=last, random_state=0).fit(X, Y)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)
    assert model.score(X, Y) > 0.9


@pytest.mark.parametrize("weights", [None, 4.0])
def test_ensembles_of_one_channel(weights):
    from aeon.classification.compose import ClassifierEnsemble

    ensemble = ClassifierEnsemble([("cp", CP), ("search", SEARCH)], weights=weights, cv=2).fit(X[:, :1], Y)
    assert ensemble.score(X[:, :1], Y) > 0.9
    with pytest.raises(ValueError, match="multivariate"):
        ensemble.fit(X, Y)


def test_ensembles_need_probabilities():
    from aeon.classification.early_classification import TEASER

    with pytest.raises(ValueError, match="predict_proba"):
        TEASER(TensorMarginClassifier("cp", 1), classification_points=[10, 20]).fit(X, Y)


def test_rotation_forests():
    from aeon.classification.sklearn import RotationForestClassifier

    base = TensorMarginClassifier("full", probability=True)
    forest = RotationForestClassifier(n_estimators=2, base_estimator=base, random_state=0).fit(X.reshape(30, -1), Y)
    assert forest.score(X.reshape(30, -1), Y) > 0.9


def test_series_of_different_lengths():
    from aeon.testing.data_generation import make_example_3d_numpy_list

    X, y = make_example_3d_numpy_list(20, 3, min_n_timepoints=10, max_n_timepoints=14, random_state=0)
    model = make_pipeline(EqualLength(), TensorMarginClassifier("cp", 1)).fit(X, y)
    assert model.predict(X).shape == (20,)


def test_convolutions_are_minirockets():
    """With the same channels and thresholds, every feature is MiniRocket's (up to ties in single precision).

    MiniRocket continues samples with zeros, which are the means of centred channels.
    """
    from aeon.transformations.collection.convolution_based import MiniRocket

    from tensormargin import Convolutions

    series = np.random.default_rng(1).standard_normal((6, 4, 60)).cumsum(axis=2)
    series -= series.mean(axis=2, keepdims=True)
    theirs = MiniRocket(n_kernels=84 * 20, random_state=0).fit(series)
    counts, channels, dilations, per_dilation, biases = theirs.parameters
    ours = Convolutions().fit(series)
    order = np.arange(84 * len(dilations)).reshape(len(dilations), 84).T.ravel()  # theirs has dilations first
    starts = np.concatenate([[0], np.cumsum(counts)])
    chosen = [channels[starts[place] : starts[place + 1]].astype(np.int64) for place in order]
    ours._channels, ours._starts = (
        np.concatenate(chosen),
        np.concatenate([[0], np.cumsum([len(one) for one in chosen])]),
    )
    ours.dilations_ = dilations.astype(np.int64)
    ends = np.cumsum(np.repeat(per_dilation, 84))
    thresholds = np.full((84, len(dilations), per_dilation.max()), np.inf)
    expected = np.zeros((6, *thresholds.shape))
    features = theirs.transform(series)
    for place, end in enumerate(ends):
        dilation, kernel = divmod(place, 84)
        number = per_dilation[dilation]
        thresholds[kernel, dilation, :number] = biases[end - number : end]
        expected[:, kernel, dilation, :number] = features[:, end - number : end]
    ours.biases_, ours.sample_shape_out_ = thresholds.reshape(len(ends), -1), thresholds.shape
    differences = np.abs(ours.transform(series) - expected)
    assert (differences > 1e-6).mean() < 0.01
    assert differences.max() < 0.15


def test_mini_rocket_in_the_field_benchmark(uncompiled):
    from benchmarks.field.contenders import UnsuitableError, fitted
    from benchmarks.field.tasks import TASKS

    channels = X[:, :, None, :10].astype(np.float32)  # all modes but the last are channels
    model, values = fitted("MiniRocket", TASKS["epilepsy"], channels[:6], Y[:6], None, 0)
    assert values == {}
    assert model[-1].coef_.size > 5000
    assert model.predict(channels[6:8]).shape == (2,)
    with pytest.raises(UnsuitableError, match="at least 9 time points; the samples have 7"):
        fitted("MiniRocket", TASKS["epilepsy"], channels[..., :7], Y, None, 0)


@pytest.mark.torch
@pytest.mark.parametrize(("method", "shortest"), [("MultiRocket-Hydra", 9), ("QUANT", 3)])
def test_methods_with_pytorch_in_the_field_benchmark(method, shortest, uncompiled):
    pytest.importorskip("torch", reason="needs PyTorch: pip install torch")
    from benchmarks.field.contenders import UnsuitableError, fitted
    from benchmarks.field.tasks import TASKS

    channels = X[:, :, None, :10].astype(np.float32)
    model, values = fitted(method, TASKS["epilepsy"], channels[:8], Y[:8], None, 0)
    assert values == {}
    assert model.predict(channels[8:10]).shape == (2,)
    with pytest.raises(UnsuitableError, match=f"at least {shortest} time points; the samples have 1"):
        fitted(method, TASKS["epilepsy"], channels[..., :1], Y, None, 0)
