"""Tests of ``tensormargin doctor``: what it prints, and that it finds what is broken."""

from __future__ import annotations

import json
from importlib import metadata

import pytest
from conftest import run

from tensormargin import fitting
from tensormargin.cli import doctor
from tensormargin.fitting import native


def test_it_prints_what_an_issue_needs():
    done = run("doctor")
    assert done.returncode == 0
    names = [line.partition(":")[0].strip() for line in done.stdout.splitlines()]
    expected = (
        "tensormargin",
        "Python",
        "platform",
        "dependencies",
        "native code",
        "BLAS",
        "devices",
        "memory",
        "cache",
    )
    assert tuple(names[: len(expected)]) == expected
    assert "fits work" in done.stdout
    assert "paste all of the above" in done.stdout
    assert "[lint]" not in done.stdout


def test_json():
    found = json.loads(run("doctor", "--json").stdout)
    assert found["problems"] == []
    assert found["dependencies"]["numpy"] == metadata.version("numpy")
    assert found["native"]["interface"] == native.ABI
    assert (found["native"]["compiler"] is not None) == native.has_native("tensormargin_fit")


def test_missing_and_old_packages_are_named_with_the_command_that_installs_them(monkeypatch):
    monkeypatch.setattr(metadata, "requires", lambda _: ["numpy>=99.1", "nonsense>=1", 'absent>=2; extra == "eeg"'])
    done = run("doctor")
    assert done.returncode == 1
    assert f"numpy {metadata.version('numpy')} is older than 99.1: pip install 'numpy>=99.1'" in done.stdout
    assert "nonsense is not installed: pip install 'nonsense>=1'" in done.stdout
    assert "pip install 'tensormargin[eeg]'  (absent)" in done.stdout


def test_a_stale_library_is_a_problem_and_fits_still_work(foreign_library):
    foreign_library("damaged")
    found = json.loads(run("doctor", "--json").stdout)
    assert found["native"]["compiler"] is None
    (problem,) = found["problems"]
    assert "is not used" in problem


@pytest.mark.parametrize(("values", "words"), [([1.0], "a small fit fails"), ([1.0, 1.1], "disagree")])
def test_fits_that_fail_or_disagree(values, words, monkeypatch):
    monkeypatch.setattr(fitting, "native_compiler", lambda: "a compiler")
    left = iter(values)
    monkeypatch.setattr(doctor, "_objective", lambda: next(left))
    done = run("doctor")
    assert done.returncode == 1
    assert words in done.stdout
    assert "1 to repair" in done.stdout
