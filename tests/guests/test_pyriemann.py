"""pyRiemann: covariance matrices of channels and their tangent spaces.

`Covariances(metric="tangent")` gives what pyRiemann's `Covariances` and `TangentSpace` give, as channel x channel
matrices, so that a low-rank weight can use them. `Xdawn` finds the filters of pyRiemann's, and with `templates=True`
before `Covariances` the features of its `XdawnCovariances`; none of these needs pyRiemann.
Its own transformers return vectors, on which weights are flat.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("pyriemann", reason="needs pyRiemann: pip install pyriemann")

from pyriemann.estimation import Covariances as TheirCovariances
from pyriemann.estimation import XdawnCovariances
from pyriemann.geometry.base import logm
from pyriemann.spatialfilters import Xdawn as TheirXdawn
from pyriemann.tangentspace import TangentSpace
from sklearn.pipeline import make_pipeline

from tensormargin import Covariances, Xdawn


@pytest.fixture
def X():
    rng = np.random.default_rng(0)
    return np.einsum("dc,nct->ndt", rng.standard_normal((6, 6)), rng.standard_normal((30, 6, 50)))


@pytest.mark.parametrize(("ours", "theirs"), [("oas", "oas"), ("ledoit-wolf", "lwf")])
def test_covariances(X, ours, theirs):
    np.testing.assert_allclose(
        Covariances(metric="none", shrinkage=ours).fit_transform(X),
        TheirCovariances(theirs).fit_transform(X),
        rtol=1e-9,
    )


def test_tangent_space(X):
    theirs = TangentSpace(metric="riemann").fit(TheirCovariances("oas").transform(X[:20]))
    ours = Covariances(metric="tangent", vectorize=True).fit(X[:20])
    np.testing.assert_allclose(ours.reference_[0], theirs.reference_, rtol=1e-7)
    expected = theirs.transform(TheirCovariances("oas").transform(X))
    np.testing.assert_allclose(ours.transform(X), expected, rtol=1e-6, atol=1e-7)


def test_log_euclidean_metric(X):
    theirs = logm(TheirCovariances("oas").transform(X))
    np.testing.assert_allclose(Covariances().fit_transform(X), theirs, rtol=1e-6, atol=1e-8)


def test_xdawn(X):
    y = np.arange(30) % 3
    X = X + np.sin(np.arange(50) / 3) * y[:, None, None]
    theirs = TheirXdawn(nfilter=2).fit(X, y)
    ours = Xdawn(2).fit(X, y)
    np.testing.assert_allclose(np.abs(ours.matrices_[0]), np.abs(theirs.filters_), rtol=1e-5, atol=1e-6)


def test_xdawn_with_templates_before_covariances(X):
    y = np.arange(30) % 3
    X = X + np.sin(np.arange(50) / 3) * y[:, None, None]
    theirs = XdawnCovariances(nfilter=2, estimator="oas").fit(X[:20], y[:20])
    ours = make_pipeline(Xdawn(2, templates=True), Covariances(metric="none")).fit(X[:20], y[:20])
    signs = np.sign(np.sum(ours[0].matrices_[0] * theirs.Xd_.filters_, axis=1))  # of filters, which are arbitrary
    signs = np.tile(signs, 2)
    np.testing.assert_allclose(
        ours.transform(X) * np.outer(signs, signs), theirs.transform(X), rtol=1e-4, atol=1e-5 * np.abs(X).max() ** 2
    )


def test_their_tangent_space_before_our_classifier(X):
    y = np.arange(30) % 2
    X = X * np.where(y == 1, 2.0, 1.0)[:, None, None]
    # page: pyRiemann's tangent space, or ours, before the classifier:
    from pyriemann.estimation import Covariances
    from pyriemann.tangentspace import TangentSpace
    from sklearn.pipeline import make_pipeline

    import tensormargin as tm

    theirs = make_pipeline(Covariances("oas"), TangentSpace(), tm.TensorMarginClassifier("full")).fit(X, y)
    ours = make_pipeline(tm.Covariances(metric="tangent"), tm.TensorMarginClassifier("cp", 1)).fit(X, y)
    # page ends
    flat = make_pipeline(tm.Covariances(metric="tangent"), tm.TensorMarginClassifier("full")).fit(X, y)
    np.testing.assert_allclose(flat.decision_function(X), theirs.decision_function(X), rtol=1e-3, atol=1e-4)
    assert ours.score(X, y) == 1.0


def test_tangent_spaces_in_the_field_benchmark(X):
    from benchmarks.field.contenders import fitted
    from benchmarks.field.tasks import TASKS

    y = np.arange(30) % 2
    X = X * np.where(y == 1, 2.0, 1.0)[:, None, None]
    matrices = TheirCovariances("oas").transform(X).astype(np.float32)
    for task, samples in (("muse_ssvep", X), ("schizo_fnc", matrices)):  # signals, and matrices as they are
        model, values = fitted("tangent space", TASKS[task], samples, y, None, 0)
        assert isinstance(model.named_steps["tangent"], TangentSpace)
        assert set(values) == {"svc__C"}
        assert model.score(samples, y) == 1.0
