"""Campaigns: ``TENSORMARGIN_EXAMPLES`` damaged files and random problems. Run with -m campaign."""

from __future__ import annotations

import os
import shutil
import warnings

import numpy as np
import pytest
from conftest import EXAMPLES
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning
from test_cli import WRITERS
from test_hard_cases import actual_objective

from tensormargin import TensorMarginClassifier
from tensormargin.fitting import FORMATS
from tensormargin.io import BadFileError, load_samples

pytestmark = pytest.mark.campaign

# ------------------------------------------------------------------------------------------------------- damaged files


def cut(content, start, length, rng):
    return content[:start]


def without(content, start, length, rng):
    return content[:start] + content[start + length :]


def with_zeros(content, start, length, rng):
    return content[:start] + bytes(length) + content[start + length :]


def with_noise(content, start, length, rng):
    return content[:start] + rng.bytes(length) + content[start + length :]


def with_a_copy(content, start, length, rng):
    return content[: start + length] + content[start:]


def with_flipped_bits(content, start, length, rng):
    damaged = np.frombuffer(content, np.uint8).copy()
    places = rng.integers(0, len(damaged), min(length, 8))
    damaged[places] ^= np.uint8(1) << rng.integers(0, 8, len(places)).astype(np.uint8)
    return damaged.tobytes()


DAMAGES = (cut, without, with_zeros, with_noise, with_a_copy, with_flipped_bits)


@pytest.mark.parametrize("write", WRITERS, ids=lambda write: write.__name__.removeprefix("write_"))
def test_a_damaged_file_gives_samples_or_one_message(write, tmp_path):
    (tmp_path / "whole").mkdir()
    path, options = write(tmp_path / "whole")
    path = path.relative_to(tmp_path / "whole")
    names = dict(zip(options[::2], options[1::2], strict=True))
    loading = {key.removeprefix("--").replace("-", "_"): value for key, value in names.items()}
    loading |= {key: int(value) for key, value in loading.items() if key == "axis"}
    seed = int.from_bytes(os.urandom(4))
    rng = np.random.default_rng(seed)
    for number in range(EXAMPLES):
        folder = tmp_path / "damaged"
        shutil.copytree(tmp_path / "whole", folder)
        files = sorted(file for file in folder.rglob("*") if file.is_file())
        file, damage = files[rng.integers(len(files))], DAMAGES[rng.integers(len(DAMAGES))]
        content = file.read_bytes()
        start = int(rng.integers(0, max(1, len(content))))
        if rng.random() < 0.5:  # in the header
            start %= 512
        file.write_bytes(damage(content, start, int(2 ** rng.uniform(0, 8)), rng))
        if "labels_from" in loading:
            loading["labels_from"] = folder / loading["labels_from"].name
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # libraries warn about odd headers
                found = load_samples(folder / path, **loading)
        except BadFileError:
            pass
        except Exception as error:
            raise AssertionError(f"{file.name}, {damage.__name__}, example {number} of seed {seed}") from error
        else:
            assert found.data.ndim > 1
            assert np.isfinite(found.data).all()
            assert len(found.target) == len(found.data)
        shutil.rmtree(folder)


# ----------------------------------------------------------------------------------------------------- random problems


@settings(max_examples=EXAMPLES)
@given(
    st.sampled_from(sorted(FORMATS)),
    st.lists(st.integers(1, 6), min_size=1, max_size=4),
    st.integers(4, 60),
    st.sampled_from([np.float32, np.float64, np.uint8]),
    st.floats(-3, 4).map(lambda power: 10.0**power),
    st.floats(0, 100),
    st.booleans(),
    st.integers(0, 10**6),
)
def test_the_objective_falls_and_is_that_of_the_weight(name, shape, n, dtype, lam, mu, fit_intercept, seed):
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % 2)
    X = rng.normal(rng.normal(0, 2, (2, *shape))[y], rng.uniform(0.1, 3))
    X = (20 * X + 100).clip(0, 255).astype(dtype) if dtype is np.uint8 else X.astype(dtype)
    clf = TensorMarginClassifier(name, lam=lam, mu1=mu, mu2=mu, scale_free=False, fit_intercept=fit_intercept)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        clf.fit(X, y)
    objectives = clf.history_["block_objective"].ravel()
    assert np.all(np.diff(objectives) <= 1e-9 * np.abs(objectives[0]))
    found = actual_objective(clf, X, y, lam, mu, mu)
    assert clf.objective_[0] == pytest.approx(found, rel=1e-3, abs=1e-3 * (lam + mu))
    assert np.isfinite(clf.decision_function(X)).all()
