"""Tests that every option that a message, help text or page names exists, for the command that it is about."""

import ast
import re
from functools import cache
from pathlib import Path

import click
import pytest

import tensormargin
from tensormargin.cli import main

SOURCE = Path(tensormargin.__file__).parent
OPTION = re.compile(r"(?<![\w-])--([a-z][a-z0-9-]*[a-z0-9])")
CALL = re.compile(
    r"(?:tensormargin |`|^)(fit|predict|inspect|report|compare|export|patches) [^.;`\n]*?(--[a-z][a-z0-9-]*)"
)
FOREIGN = {"scheduler-file"}  # of `dask scheduler`


def options_of(command):
    names = {name for option in command.params for name in (*option.opts, *option.secondary_opts)} | {"--help"}
    inner = command.commands.values() if isinstance(command, click.Group) else ()
    return names.union(*map(options_of, inner))


KNOWN = options_of(main)
FILES = {
    "predict.py": ("predict", "inspect"),
    "patches.py": ("patches", "predict"),
    "reproduce.py": ("reproduce", "results"),
}


@cache
def texts_of(path):
    """Return the strings of a Python file, or a whole template without its styles."""
    if path.suffix != ".py":
        return [re.sub(r'style="[^"]*"', "", path.read_text(encoding="utf-8"))]
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.JoinedStr):
            found.append("".join(one.value if isinstance(one, ast.Constant) else "{}" for one in node.values))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.append(node.value)
    return found


def sources():
    return sorted(path for path in SOURCE.rglob("*") if path.suffix in (".py", ".html") and "native" not in path.parts)


def test_options_exist():
    """All options that the package names are options of some command."""
    unknown = {
        (str(path.relative_to(SOURCE)), f"--{name}")
        for path in sources()
        for text in texts_of(path)
        for name in OPTION.findall(text)
        if f"--{name}" not in KNOWN and name not in FOREIGN
    }
    assert unknown == set()


def test_options_belong_to_the_command_that_is_named():
    """In "tensormargin fit ... --option" and "fit --option", the command has the option."""
    wrong = {
        (str(path.relative_to(SOURCE)), command, option)
        for path in sources()
        for text in texts_of(path)
        for command, option in CALL.findall(text)
        if option not in options_of(main.commands[command])
    }
    assert wrong == set()


@pytest.mark.parametrize("path", sorted((SOURCE / "cli").glob("[a-z]*.py")), ids=lambda path: path.stem)
def test_commands_name_their_own_options(path):
    """Messages of a command name its own options, unless they name the other command, too."""
    commands = FILES.get(path.name, (path.stem,))
    own = set[str]().union(*(options_of(main.commands[name]) for name in commands if name in main.commands))
    if not own:
        pytest.skip("no command of that name")
    wrong = [
        (name, text)
        for text in texts_of(path)
        for name in OPTION.findall(text)
        if f"--{name}" not in own and not re.search(r"\b(fit|predict|compare|reproduce|tensormargin \w+)\b", text)
    ]
    assert wrong == []
