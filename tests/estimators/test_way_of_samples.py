"""The way of the samples through a fit: converted, checked and stored once each, in this order, and never again."""

from __future__ import annotations

import sys
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest

import tensormargin
from tensormargin import TensorMarginClassifier

SOURCES = Path(tensormargin.__file__).parent
CHECKED = ["data/validation", "data/views", "data/conversion", "data/validation"]
STORED = ["fitting/samples/storage", "fitting/samples/memory"]


def stays_of_samples(method, X, *others):
    """Return the modules that are given all samples during a call, in order; a stay may be several calls."""
    calls = []

    def note(frame, event, _):
        path = Path(frame.f_code.co_filename)
        if event != "call" or not path.is_relative_to(SOURCES):
            return
        code = frame.f_code
        given = [frame.f_locals.get(name) for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]]
        if any(isinstance(one, np.ndarray) and one.shape == X.shape and np.shares_memory(one, X) for one in given):
            calls.append(path.relative_to(SOURCES).with_suffix("").as_posix())

    sys.setprofile(note)
    try:
        method(X, *others)
    finally:
        sys.setprofile(None)
    return [module for module, _ in groupby(calls)]


@pytest.mark.parametrize("decomposition", ["full", "cp", "tucker", "tt"])
@pytest.mark.parametrize("shape", [(4, 3), (30, 40)])
def test_samples_are_converted_checked_and_stored_once(decomposition, shape):
    X = np.random.RandomState(0).standard_normal((40, *shape))
    classifier = TensorMarginClassifier(decomposition=decomposition, rank=None if decomposition == "full" else 1)
    stays = stays_of_samples(classifier.fit, X, np.arange(40) % 2)
    assert stays == ["estimators/classifier", "estimators/fit_steps", *CHECKED, STORED[0], "data/scale", STORED[1]]
    stays = stays_of_samples(classifier.predict, X)
    assert stays == ["estimators/classifier", *CHECKED, "data/scale", *STORED]
