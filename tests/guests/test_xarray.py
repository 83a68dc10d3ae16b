"""xarray: the values of a DataArray are samples, and what is lazy stays lazy."""

from __future__ import annotations

import numpy as np
import pytest

from tensormargin import TensorMarginClassifier, TensorScaler
from tensormargin.intake import as_samples

xarray = pytest.importorskip("xarray", reason="needs xarray: pip install xarray")

Y = np.arange(30) % 2
X = np.random.default_rng(0).standard_normal((30, 4, 3)) + Y[:, None, None]


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
