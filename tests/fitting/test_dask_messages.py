"""Tests of messages about samples in Dask arrays: which sample is not finite, and which worker cannot read a file."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import low_rank_classes

from tensormargin import TensorMarginClassifier, TensorMarginClassifierCV, TensorScaler, load_samples
from tensormargin.io import BadFileError
from tensormargin.io import lazy as lazy_files
from tensormargin.runtime import tuning

da = pytest.importorskip("dask.array", reason="needs Dask: pip install 'tensormargin[dask]'")


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("loaded", [True, False])
def test_samples_that_are_not_finite_are_named(value, loaded, monkeypatch):
    if not loaded:
        monkeypatch.setattr(tuning, "LOADED_SHARE", 0.0)
    X, y = low_rank_classes(0, 24, (3, 4), 3.0)
    X[17, 1, 2] = X[20, 0, 0] = value
    chunked = da.from_array(X, chunks=(5, 3, 2))
    for model in (TensorMarginClassifier("cp", 1), TensorMarginClassifierCV(ranks=(1,), lams=(1,), mus=(0,), cv=2)):
        with pytest.raises(ValueError, match=r"the first is sample 17\)"):
            model.fit(chunked, y)
    with pytest.raises(ValueError, match=r"Input X contains NaN or infinity.*the first is sample 17\)"):
        TensorScaler().fit(chunked)


def test_numbers_whose_squares_overflow_are_not_called_nan(monkeypatch):
    monkeypatch.setattr(tuning, "LOADED_SHARE", 0.0)
    X, y = low_rank_classes(0, 24, (3, 4), 3.0)
    with pytest.raises(ValueError, match=r"overflow|divide X"):
        TensorMarginClassifier("cp", 1).fit(da.from_array(1e200 * X, chunks=(5, 3, 4)), y)


def test_a_file_that_a_worker_cannot_see_names_the_worker(tmp_path, monkeypatch):
    path = tmp_path / "samples.npy"
    np.save(path, np.ones((6, 3)))
    data = load_samples(path, labels_from=_labels(tmp_path), lazy=True).data
    path.unlink()
    with pytest.raises(BadFileError, match=r"samples\.npy") as local:
        data.compute()
    assert "every worker" not in str(local.value)
    monkeypatch.setattr(lazy_files, "worker_here", lambda: "tcp://10.0.0.1:1234")
    with pytest.raises(BadFileError, match=r"samples\.npy.*the worker tcp://10\.0\.0\.1:1234: every worker must see"):
        data.compute()


def _labels(folder):
    np.savetxt(folder / "labels.csv", np.arange(6) % 2, fmt="%d", header="label", comments="")
    return folder / "labels.csv"
