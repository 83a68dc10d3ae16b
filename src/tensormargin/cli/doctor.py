"""``tensormargin doctor``: what this installation consists of, and whether it works."""

from __future__ import annotations

import os
import platform
import re
import sys
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from . import _options as options
from ._outputs import can_write_in, print_json

_FOR_OTHERS = ("all", "test", "guests", "docs", "lint", "benchmarks")  # made of the others, or for developers
_SAME = 1e-3  # relative difference of the objectives of two fits that both converged
_AGAIN = "install tensormargin again: pip uninstall tensormargin && pip install tensormargin"
_EXAMPLES = """
\b
Examples:
  tensormargin doctor
  tensormargin doctor --json > installation.json
"""


@click.command("doctor", epilog=_EXAMPLES)
@options.as_json
def doctor_command(as_json: bool) -> None:
    """Print versions, native code, BLAS, devices and extras, and check that a fit works.

    The exit status is 1 if something has to be repaired. The output is what an issue needs.
    """
    found = _examine()
    if as_json:
        print_json(found)
    else:
        for name, text in _lines(found):
            click.echo(f"{name + ':':14}{text}")
        click.echo("\nFor an issue: paste all of the above, with the command or the lines of Python and their output.")
    if found["problems"]:
        raise SystemExit(1)


def _examine() -> dict[str, Any]:
    """Return what was found, as JSON; ``problems`` are texts with what to do."""
    from .. import __version__
    from ..datasets import cache_folder
    from ..runtime import available_bytes

    required, extras = _requirements()
    problems = [text for line in required if (text := _fault(line))]
    native, more = _fits()
    cache = cache_folder()
    return {
        "tensormargin": {"version": __version__, "tag": _tag(), "folder": str(Path(__file__).parents[1])},
        "python": f"{platform.python_version()} ({platform.python_implementation()}), {sys.executable}",
        "platform": f"{platform.platform()}, {os.cpu_count()} cores, text as {sys.getfilesystemencoding()}",
        "dependencies": {_name(line): _version(line) for line in required},
        "native": native,
        "blas": _blas(),
        "devices": [*_torch_devices(), *_cupy_devices()],
        "memory_bytes": available_bytes(),
        "cache": {"folder": str(cache), "writable": can_write_in(cache)},
        "extras": {extra: [_name(line) for line in lines if _fault(line)] for extra, lines in extras.items()},
        "problems": problems + more,
    }


def _lines(found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield names and texts of lines."""
    from ..runtime import in_bytes

    own, native, cache = found["tensormargin"], found["native"], found["cache"]
    yield "tensormargin", f"{own['version']} ({own['tag']}), {own['folder']}"
    yield "Python", found["python"]
    yield "platform", found["platform"]
    yield "dependencies", ", ".join(f"{name} {version or 'missing'}" for name, version in found["dependencies"].items())
    made = f"interface {native['interface']}, compiled by {native['compiler']}"
    none = "none: Python makes all steps, many times more slowly; a C compiler at installation changes that"
    yield "native code", made if native["compiler"] else none
    yield "BLAS", "; ".join(found["blas"]) or "not found"
    yield "devices", "; ".join(found["devices"]) or "no GPU: none, or neither PyTorch nor CuPy is installed with it"
    yield "memory", f"{in_bytes(found['memory_bytes'])} available"
    yield "cache", cache["folder"] + ("" if cache["writable"] else " (cannot be written to: set TENSORMARGIN_CACHE)")
    yield "extras", ", ".join(extra for extra, missing in found["extras"].items() if not missing) or "none"
    for extra, missing in found["extras"].items():
        if missing:
            yield "  not there", f"pip install 'tensormargin[{extra}]'  ({', '.join(missing)})"
    for problem in found["problems"]:
        yield "PROBLEM", problem
    yield "result", f"{len(found['problems'])} to repair" if found["problems"] else "fits work"


# ---- packages ----


def _requirements() -> tuple[list[str], dict[str, list[str]]]:
    """Return the requirements of the package and of its extras, with what users need."""
    from importlib.metadata import requires

    required, extras = list[str](), dict[str, list[str]]()
    for line in requires("tensormargin") or ():
        requirement, _, marker = line.partition(";")
        extra = re.search(r"extra == ['\"](\w+)", marker)
        if extra is None:
            required.append(requirement.strip())
        elif extra[1] not in _FOR_OTHERS and _name(requirement) != "tensormargin":
            extras.setdefault(extra[1], []).append(requirement.strip())
    return required, extras


def _name(requirement: str) -> str:
    return re.split(r"[^\w.-]", requirement.strip())[0]


def _version(requirement: str) -> str | None:
    """Return the installed version of a required package."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(_name(requirement))
    except PackageNotFoundError:
        return None


def _fault(requirement: str) -> str | None:
    """Return what is wrong with a required package, if anything."""
    installed, lowest = _version(requirement), re.search(r">=([\d.]+)", requirement)
    remedy = f"pip install '{requirement}'"
    if installed is None:
        return f"{_name(requirement)} is not installed: {remedy}"
    if lowest is not None and _numbers(installed) < _numbers(lowest[1]):
        return f"{_name(requirement)} {installed} is older than {lowest[1]}: {remedy}"
    return None


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)[:3]]


def _tag() -> str:
    """Return which wheel was installed; "not from a wheel" for other ways."""
    from importlib.metadata import distribution

    tag = re.search(r"^Tag: (.*)$", distribution("tensormargin").read_text("WHEEL") or "", re.MULTILINE)
    return tag[1] if tag else "not from a wheel"


# ---- the machine ----


def _blas() -> list[str]:
    import scipy.linalg  # noqa: F401 - loads the BLAS libraries that fits use
    from threadpoolctl import threadpool_info

    return [
        f"{own['internal_api']} {own['version'] or ''} {own.get('architecture', '')}, "
        f"threads: {own['num_threads']} ({Path(own['filepath']).name})"
        for own in threadpool_info()
    ]


def _torch_devices() -> Iterator[str]:
    if find_spec("torch") is None:
        return
    import torch

    for k in range(torch.cuda.device_count()):
        own = torch.cuda.get_device_properties(k)
        yield f"cuda:{k} {own.name}, {own.total_memory / 2**30:.0f} GiB, PyTorch {torch.__version__}"
    if torch.backends.mps.is_available():
        yield f"mps, PyTorch {torch.__version__}"


def _cupy_devices() -> Iterator[str]:
    if find_spec("cupy") is None:
        return
    import cupy

    try:
        for k in range(cupy.cuda.runtime.getDeviceCount()):
            name = cupy.cuda.runtime.getDeviceProperties(k)["name"].decode()
            yield f"cuda:{k} {name}, CuPy {cupy.__version__}"
    except cupy.cuda.runtime.CUDARuntimeError as error:
        yield f"none for CuPy {cupy.__version__} ({error})"


# ---- a fit ----


def _fits() -> tuple[dict[str, Any], list[str]]:
    """Return the state of the native code, and problems: of loading it, and of small fits with it and without it."""
    from ..fitting import ABI, native_compiler, without_native

    problems, values = list[str](), dict[str, float]()
    with warnings.catch_warnings(record=True, action="always") as caught:
        compiler = native_compiler()
    problems += [str(one.message) for one in caught]
    try:
        if compiler is not None:
            values["native code"] = _objective()
        with without_native():
            values["Python"] = _objective()
    except Exception as error:  # noqa: BLE001 - whatever a broken library raises
        problems.append(f"a small fit fails ({type(error).__name__}: {error}); {_AGAIN}")
    if len(values) == 2 and abs(values["Python"] / values["native code"] - 1) > _SAME:
        problems.append(f"native code and Python disagree ({values}); {_AGAIN}")
    return {"interface": ABI, "compiler": compiler}, problems


def _objective() -> float:
    """Return the objective of a small fit."""
    import numpy as np

    from ..estimators import TensorMarginClassifier

    y = np.arange(30) % 2
    X = np.random.default_rng(0).standard_normal((30, 4, 5)) + y[:, None, None]
    return float(TensorMarginClassifier("cp", 2).fit(X, y).objective_[0])
