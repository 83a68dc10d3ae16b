"""xarray: labelled arrays.

The values of a `DataArray` are samples, along its first dimension; an array backed by Dask stays lazy. Names and
coordinates are not kept, but can be added to the coefficients.
"""

from __future__ import annotations

import numpy as np
import pytest

xarray = pytest.importorskip("xarray", reason="needs xarray: pip install xarray")

from tensormargin import TensorMarginClassifier, TensorScaler
from tensormargin.data import as_samples

Y = np.arange(30) % 2
X = np.random.default_rng(0).standard_normal((30, 4, 3)) + Y[:, None, None]


def test_names_are_given_to_coefficients():
    X, y = xarray.DataArray(np.random.default_rng(0).standard_normal((30, 4, 3)), dims=("trial", "channel", "time")), Y
    # page: Here `X` is a `DataArray` with the dimensions trial, channel and time:
    import xarray as xr

    from tensormargin import TensorMarginClassifier

    X = X.transpose("trial", ...)
    clf = TensorMarginClassifier("cp", rank=1).fit(X, y)
    weight = xr.DataArray(clf.coef_[0], coords=X[0].drop_vars("trial", errors="ignore").coords, dims=X.dims[1:])
    # page ends
    np.testing.assert_allclose((X * weight).sum(weight.dims) + clf.intercept_, clf.decision_function(X), rtol=1e-6)


def test_values():
    given = xarray.DataArray(X, dims=("trial", "channel", "time"))
    model = TensorMarginClassifier("cp", 1).fit(given, Y)
    np.testing.assert_array_equal(model.predict(given), TensorMarginClassifier("cp", 1).fit(X, Y).predict(X))
    np.testing.assert_array_equal(as_samples(list(given)), X)
    with pytest.raises(ValueError, match="must be a DataArray; got Dataset"):
        as_samples(given.to_dataset(name="eeg"))


def test_what_is_lazy_stays_lazy():
    pytest.importorskip("dask.array", reason="needs Dask: pip install 'tensormargin[dask]'")
    lazy = xarray.DataArray(X).chunk({"dim_0": 10})
    assert as_samples(lazy) is lazy.data
    np.testing.assert_allclose(TensorScaler().fit(lazy).mean_, X.mean(axis=0))
