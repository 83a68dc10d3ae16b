"""Errors of transformers in the words of the options that made them, for the command line and for recipes."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

_Rule = tuple[str, Callable[[re.Match[str]], str]]


def _mode(found: re.Match[str]) -> str:
    most, got = int(found["most"]), int(found["got"]) + 1
    return f"K in mode K must be from 1 to {most}, the number of modes; got mode {got}"


def _sizes(found: re.Match[str]) -> str:
    return "got " + "x".join(found[1].replace(",", " ").split())


_RULES: Sequence[_Rule] = (
    (
        r'per must be "entry", "global", or modes from 0 to (?P<last>\d+) of these samples; got per=(?P<got>-?\d+)',
        lambda found: (
            f"K in mode K must be from 1 to {int(found['last']) + 1}, the number of modes; got mode "
            f"{int(found['got']) + 1}"
        ),
    ),
    (
        r"mode must be one of the (?P<most>\d+) modes of the samples, from -?\d+ to -?\d+; got mode=(?P<got>-?\d+)",
        _mode,
    ),
    (
        r"samples may differ in one mode, mode=-?\d+; they also differ in mode (\d+) \(counted from 0\)\. "
        r"Give mode=\d+ if",
        lambda found: (
            "samples may differ in one mode, the last one unless mode K names another; they also differ in mode "
            f"{int(found[1]) + 1}. Add mode {int(found[1]) + 1} if"
        ),
    ),
    (r"\bshape must (give|have)\b", lambda found: f"the sizes must {found[1]}"),
    (r"got shape=\(([-\d, ]*)\)", _sizes),
    (r"\bmask='\w+' leaves\b", lambda found: "it leaves"),
    (r"\(n_samples=(\d+), n_features=(\d+)\)", lambda found: f"({found[1]} samples of {found[2]} entries)"),
    (
        r"by_group=True needs groups, one for each sample:.*",
        lambda found: "there are no groups; name them with --groups",
    ),
    (r"\bgot \w+=", lambda found: "got "),
)
"""What transformers say of their parameters, and the same of options; modes are counted from 1 there."""


def in_options(message: str) -> str:
    """Return the message of a transformer without the names of its parameters.

    Examples
    --------
    >>> in_options("mode must be one of the 2 modes of the samples, from -2 to 1; got mode=4")
    'K in mode K must be from 1 to 2, the number of modes; got mode 5'
    """
    for pattern, said in _RULES:
        message = re.sub(pattern, said, message)
    return message
