"""Streams that show control characters instead of sending them to the terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from .words import escaped


class EscapedStream:
    """A stream that writes everything `escaped` to ``stream``, which takes what need not be escaped."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.stream, name)
        return EscapedStream(value) if name == "buffer" else value  # click writes some text as bytes

    def write(self, text: str | bytes) -> int:
        """Write text, or bytes of text in UTF-8."""
        if isinstance(text, str):
            self.stream.write(escaped(text))
        else:
            self.stream.write(escaped(text.decode(errors="backslashreplace")).encode())
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)


def escape_streams() -> None:
    """Escape what this process writes to standard output and standard error from now on."""
    sys.stdout, sys.stderr = (
        stream if stream is None or isinstance(stream, EscapedStream) else EscapedStream(stream)
        for stream in (sys.stdout, sys.stderr)
    )


@contextmanager
def escaped_streams() -> Iterator[None]:
    """Escape what is written to standard output and standard error while the context is open."""
    before = sys.stdout, sys.stderr
    escape_streams()
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
