"""Facts of this machine and its software."""

from __future__ import annotations

import importlib.metadata

import numpy as np

import tensormargin
from tensormargin.runtime import software_versions


def test_versions_of_a_checkout_that_is_not_installed(monkeypatch):
    whole = importlib.metadata.version

    def without_own(name):
        if name == "tensormargin":
            raise importlib.metadata.PackageNotFoundError(name)
        return whole(name)

    monkeypatch.setattr(importlib.metadata, "version", without_own)
    found = software_versions()
    assert found["tensormargin"] == tensormargin.__version__
    assert found["numpy"] == np.__version__
