"""Tests of the declarations of loading options, from which arguments, commands, refusals and the guide are derived."""

import inspect
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from tensormargin import load_samples
from tensormargin.cli import main
from tensormargin.io import OPTIONS, BadFileError
from tensormargin.io.options import FAMILIES, GROUPS_OF_OPTIONS, REFUSABLE, Family, describe_loading

ROOT = Path(__file__).parents[2]
COMMANDS = ("compare", "fit", "predict", "report")


def test_arguments_of_load_samples_are_declared():
    declared = {one.name for group in GROUPS_OF_OPTIONS for one in fields(group)}
    assert set(inspect.signature(load_samples).parameters) - {"path", "need_labels", "like"} == declared


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_have_all_options_with_a_help(name):
    helps = {option.name: option.help for option in main.commands[name].params if hasattr(option, "help")}
    for option, declared in OPTIONS.items():
        if declared.help:
            assert helps[declared.flag or option] == declared.help


def options_table():
    """Return which options which sources take, as a table in Markdown; print it for docs/guide/load.md."""
    by_name = {
        f"`--{name.replace('_', '-')}`": [family.words for family in FAMILIES if name in family.takes]
        for name in REFUSABLE
    }
    rows: dict[str, list[str]] = {}
    for name, sources in by_name.items():
        rows.setdefault(", ".join(sources), []).append(name)
    return "\n".join(
        ["| options | sources that take them |", "|---|---|"]
        + [f"| {', '.join(names)} | {sources} |" for sources, names in rows.items()]
    )


def test_the_guide_has_the_table_of_options():
    assert options_table() in (ROOT / "docs" / "guide" / "load.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.words)
def test_families_take_declared_options(family: Family):
    assert set(family.takes) <= set(OPTIONS)
    assert family.why


def test_loading_in_words():
    words = describe_loading({"kind": "class folder of images", "size": [64, 64]})
    assert words == "class folder of images; files resized to 64 x 64"


def test_modes_in_one_text(tmp_path):
    np.savez(tmp_path / "a.npz", X=np.ones((4, 2, 3)), y=[0, 1, 0, 1], times=[0.0, 1.0, 2.0])
    found = load_samples(tmp_path / "a.npz", mode_names="channel=a|b,time[ms]=0:4")
    assert [axis.label for axis in found.axes] == ["channel", "time (ms)"]
    assert found.axes[1].values.tolist() == [0, 4, 8]
    assert (found.notes, found.loading["modes"]) == ((), True)
    with pytest.raises(BadFileError, match="one by one; got 1"):
        load_samples(tmp_path / "a.npz", mode_names="channel")
