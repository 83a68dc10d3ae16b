"""The list of what others may rely on: public names with their parameters, options of commands, formats of files.

``python tests/public_api.py`` writes it to tests/files/public-api.txt, if the first section of CHANGELOG.md names what
has changed. ``tests/whole/test_public_api.py`` compares.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LIST = ROOT / "tests" / "files" / "public-api.txt"


def lines() -> list[str]:
    """Return the list, sorted."""
    from tensormargin.cli import main
    from tensormargin.io.models import FORMAT

    sys.path.insert(0, str(ROOT / "docs"))
    try:
        from api_reference import public_names
    finally:
        sys.path.pop(0)
    found = [f"format of model files {FORMAT}"]
    for one in public_names():
        found += _of_value(one.full, one.value)
    for name, command in main.commands.items():
        if not command.hidden:
            found += _of_command(f"$ tensormargin {name}", command)
    return sorted(found)


def _of_value(name: str, value: Any) -> Iterator[str]:
    if inspect.isclass(value):
        yield name + _signature(value)
        for own, method in inspect.getmembers(value, callable):  # cached properties are routines from Python 3.14 on
            if (
                inspect.isroutine(method)
                and not own.startswith("_")
                and (getattr(method, "__module__", None) or "").startswith("tensormargin")
            ):
                yield f"{name}.{own}{_signature(method)}"
    else:
        yield name + (_signature(value) if callable(value) else "")


def _signature(value: Any) -> str:
    """Return parameters with defaults, without types, which may become wider."""
    try:
        signature = inspect.signature(value)
    except ValueError:  # an exception without a constructor of its own
        return ""
    plain = [one.replace(annotation=inspect.Parameter.empty) for one in signature.parameters.values()]
    text = str(signature.replace(parameters=plain, return_annotation=inspect.Signature.empty))
    return re.sub(r" at 0x[0-9a-f]+|<([\w.]+ )?'?|'?>", "", text)


def _of_command(name: str, command: Any) -> Iterator[str]:
    options = [f"{name} {option}" for one in command.params for option in one.opts if option.startswith("-")]
    yield from options or [name]
    for own, inner in getattr(command, "commands", {}).items():
        yield from _of_command(f"{name} {own}", inner)


def unnamed(old: list[str], new: list[str]) -> list[str]:
    """Return changed lines: those of whose words with another count none stands in the changelog's first section."""
    section = re.split(r"^## ", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.MULTILINE)[1]
    named = set(re.findall(r"[\w-]+", section))
    before = {line.partition("(")[0]: line for line in old}
    after = {line.partition("(")[0]: line for line in new}
    missing = []
    for name in sorted(before.keys() | after.keys()):
        words = [Counter(re.findall(r"[\w-]+", each.get(name, ""))) for each in (before, after)]
        changed = set((words[0] - words[1]) + (words[1] - words[0]))
        if before.get(name) != after.get(name) and not changed & named:
            missing.append(after.get(name) or before[name])
    return missing


if __name__ == "__main__":
    kept = LIST.read_text(encoding="utf-8").splitlines() if LIST.exists() else []
    found = lines()
    if kept and (missing := unnamed(kept, found)):
        raise SystemExit(
            "\n".join(["The first section of CHANGELOG.md does not name what has changed here:", *missing])
        )
    LIST.write_text("\n".join(found) + "\n", encoding="utf-8")
