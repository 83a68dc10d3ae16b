"""Fields of the page, from the declarations of the commands' options, and the arguments that filled-in fields make."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import click

from .._options import GROUPS
from ..fit import fit_command
from ..maps import maps_command
from ..predict import predict_command

COMMANDS: Mapping[str, click.Command] = {"fit": fit_command, "predict": predict_command, "maps": maps_command}
_LEFT_OUT = ("out", "report", "as_json", "dry_run", "overwrite", "picture", "pattern_map", "weight_map", "auto")
_LONGEST = 10_000  # characters of an argument; systems refuse 131,072 bytes
_UNFIT = re.compile(r"[\0\ud800-\udfff]")  # no system passes these to a command
MANY = "|"
"""What stands between several values of a field."""


def fields_of(command: str) -> dict[str, list[click.Option]]:
    """Return the options of a command in groups: those that most need first, under an empty name."""
    shown = COMMANDS[command]
    found = {str(one.name): one for one in shown.params if isinstance(one, click.Option) and one.name not in _LEFT_OUT}
    most = getattr(shown, "most", ())
    groups = {"": most} | {title: [name for name in names if name not in most] for title, names in GROUPS.items()}
    made = {title: [found[name] for name in names if name in found] for title, names in groups.items()}
    return {title: fields for title, fields in made.items() if fields}


def default_of(option: click.Option) -> str:
    """Return the default of an option as text, empty if there is none."""
    return str(option.default) if isinstance(option.default, str | int) and option.default is not False else ""


def arguments(command: str, files: Sequence[str], values: Mapping[str, Any]) -> list[str]:
    """Return the arguments of the command line that filled-in fields make; raise ValueError for what cannot be one."""
    known = {str(one.name): one for options in fields_of(command).values() for one in options}
    made = [command, *files]
    for name, value in values.items():
        if name not in known:
            raise ValueError(f"{command} has no option {name!r}; choose one of {', '.join(known)}")
        option, text = known[name], str(value).strip()
        if option.is_flag:
            made += [option.opts[-1]] if value is True else []
        elif text and text != default_of(option):
            for one in text.split(MANY) if option.multiple else [text]:
                made += [option.opts[-1], one.strip()]
    for one in made:
        if len(one) > _LONGEST or _UNFIT.search(one):
            raise ValueError(
                f"paths and options are at most {_LONGEST:,} characters of UTF-8 without NUL; got {len(one):,}, which "
                f"begin with {one[:40]!a}. Rename the file, or change the option"
            )
    return made


def command_line(given: Sequence[str]) -> str:
    """Return the command as it is typed in a terminal."""
    return shlex.join(["tensormargin", *given])
