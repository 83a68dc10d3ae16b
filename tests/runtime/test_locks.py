"""Tests that a process which is forked while threads work can do the same, and ends; a hang is ended after a minute."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a system that forks")

BEGIN = """
import faulthandler, os, sys, threading, warnings
import numpy as np
from threadpoolctl import threadpool_info
from tensormargin import TensorMarginClassifier
from tensormargin.estimators import one_blas_thread

warnings.simplefilter("ignore", DeprecationWarning)  # of every fork beside threads, on Python 3.12
rng, y = np.random.default_rng(0), np.arange(40) % 2
X = rng.normal(size=(40, 5, 6)) + y[:, None, None]

def blas_threads():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]

def fit():
    return TensorMarginClassifier("cp", 1).fit(X, y).coef_

expected, before = fit(), blas_threads()

def check_child():
    assert blas_threads() == before, blas_threads()
    assert np.array_equal(fit(), expected)
    assert blas_threads() == before, blas_threads()

def fork(work, leave=os._exit):
    process = os.fork()
    if process == 0:
        faulthandler.dump_traceback_later(60, exit=True)
        work()
        leave(0)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
"""

BESIDE_FITS = """
def fit_again_and_again():
    while not stop.is_set():
        fit()

stop = threading.Event()
threads = [threading.Thread(target=fit_again_and_again, daemon=True) for _ in range(4)]
for thread in threads:
    thread.start()
for _ in range(9):
    fork(check_child)
fork(check_child, sys.exit)
stop.set()
for thread in threads:
    thread.join()
assert blas_threads() == before, blas_threads()
"""

HOLDERS = """
from tensormargin.runtime import ForkSafeLock
from tensormargin.selection import kept_products
from tensormargin.transformers import shared

lock, held, finish = ForkSafeLock(), threading.Event(), threading.Event()

def hold():
    with lock, one_blas_thread, shared, kept_products:
        held.set()
        finish.wait()

def check_free():
    with lock, shared, kept_products:
        check_child()

thread = threading.Thread(target=hold, daemon=True)
thread.start()
held.wait()
assert set(blas_threads()) == {1}
fork(check_free)
finish.set()
thread.join()
assert blas_threads() == before
with lock, one_blas_thread:
    process = os.fork()
    if process == 0:
        faulthandler.dump_traceback_later(60, exit=True)
    assert set(blas_threads()) == {1}
assert blas_threads() == before
with lock:
    assert np.array_equal(fit(), expected)
if process:
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
"""


@pytest.mark.parametrize("code", [BESIDE_FITS, HOLDERS], ids=["beside fits", "beside and within blocks"])
def test_a_forked_process_fits_with_all_threads_of_blas_and_ends(code):
    environment = {**os.environ, "OMP_NUM_THREADS": "2"}
    done = subprocess.run([sys.executable, "-c", BEGIN + code], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
