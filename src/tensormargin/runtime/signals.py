"""Signals that ask this process to end, and how they wait for what must not be divided."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

ENDING_SIGNALS = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK") if hasattr(signal, name)
]


@contextmanager
def signals_deferred() -> Iterator[None]:
    """Let signals wait until the block has ended; only the main thread handles any, and can do so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: dict[int, None] = {}
    before = {number: signal.getsignal(number) for number in ENDING_SIGNALS}
    heeded = {number: handler for number, handler in before.items() if handler not in (None, signal.SIG_IGN)}
    try:
        for number in heeded:
            signal.signal(number, lambda number, _: received.update({number: None}))
        yield
    finally:
        for number, handler in heeded.items():
            signal.signal(number, handler)
        for number in received:
            signal.raise_signal(number)
