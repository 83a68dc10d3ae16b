"""scikit-learn's own checks as one test per estimator: thousands of tests take longer to collect than to run."""

from __future__ import annotations

import os
from typing import Any
from unittest import SkipTest

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks


def every_check(estimators: list[Any]) -> Any:
    """Return what `parametrize_with_checks` returns, with all checks but those of the array API as one.

    In the process of `run_array_api_checks`, which selects those of the array API by name, each is a test.
    """
    if "SCIPY_ARRAY_API" in os.environ:
        return parametrize_with_checks(estimators)
    return pytest.mark.parametrize(("estimator", "check"), [(one, run_checks) for one in estimators], ids=repr_or_all)


def repr_or_all(value: Any) -> str:
    return "all" if value is run_checks else " ".join(repr(value).split())


def run_checks(estimator: Any) -> None:
    """Run all checks of an estimator; none may be skipped."""
    skipped = []
    for one, check in estimator_checks_generator(estimator, mark=None):
        if "array_api" in check.func.__name__:
            continue
        try:
            check(one)
        except SkipTest as reason:
            skipped.append(f"{check.func.__name__}: {reason}")
    assert skipped == []
