"""What a parser must not do, called in the reader process by test_hostile_files.py."""

from __future__ import annotations

import os
import signal
import time

import numpy as np


def take_memory(path):
    np.ones(10**9)  # 8 GB that were not announced


def take_time(path):
    signal.setitimer(signal.ITIMER_REAL, 0.05)  # what is left of the time
    time.sleep(60)


def crash(path):
    os.kill(os.getpid(), signal.SIGSEGV)


def raise_an_error(path):
    raise RuntimeError("x" * 10**6)
