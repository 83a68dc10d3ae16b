"""The way of the samples through a fit: few modules see them, and only the door asks what kind of array they are."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import tensormargin
from tensormargin import TensorMarginClassifier

SOURCES = Path(tensormargin.__file__).parent
DOOR = {"data/validation", "fitting/samples/storage"}


def calls_with_samples(classifier, X, y):
    """Return (module, module that called it) for every function of ours that is given all samples during a fit."""
    calls = []

    def module(frame):
        path = Path(frame.f_code.co_filename)
        return path.relative_to(SOURCES).with_suffix("").as_posix() if path.is_relative_to(SOURCES) else None

    def note(frame, event, _):
        if event != "call" or module(frame) is None:
            return
        code = frame.f_code
        given = [frame.f_locals.get(name) for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]]
        if any(isinstance(one, np.ndarray) and one.shape == X.shape and np.shares_memory(one, X) for one in given):
            calls.append((module(frame), module(frame.f_back)))

    sys.setprofile(note)
    try:
        classifier.fit(X, y)
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize("decomposition", ["full", "cp", "tucker", "tt"])
@pytest.mark.parametrize("shape", [(4, 3), (30, 40)])
def test_samples_enter_few_rooms_and_never_climb_back(decomposition, shape):
    X = np.random.RandomState(0).standard_normal((40, *shape))
    classifier = TensorMarginClassifier(decomposition=decomposition, rank=None if decomposition == "full" else 1)
    calls = calls_with_samples(classifier, X, np.arange(40) % 2)
    assert {module for module, _ in calls} == {
        "estimators/classifier",
        "estimators/fit_steps",
        "data/validation",
        "data/conversion",
        "data/views",
        "runtime/array_api",
        "fitting/samples/storage",
        "fitting/samples/memory",
    }
    assert {caller for module, caller in calls if module == "runtime/array_api"} <= DOOR
