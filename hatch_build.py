"""Compiles src/tensormargin/fitting/native/*.c when the package is built or installed, if there is a C compiler.

Without one the package works all the same: small problems are then solved by the same code as large ones, more slowly.
``python hatch_build.py`` compiles in place, for a checkout that is not installed. The environment variable
``TENSORMARGIN_CFLAGS`` adds flags, such as those of .ci/sanitize.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

NATIVE = Path(__file__).parent / "src" / "tensormargin" / "fitting" / "native"
FLAGS = ("-O3", "-std=gnu11", "-fPIC", "-shared", "-ffp-contract=off", "-fno-math-errno")


def compile_native() -> Path | None:
    """Return the compiled library, or None if there is no compiler or it fails."""
    compiler = shlex.split(sysconfig.get_config_var("CC") or "cc")
    flags = (*FLAGS, *shlex.split(os.environ.get("TENSORMARGIN_CFLAGS", "")))
    out, made = NATIVE / "small.so", NATIVE / "small.so.new"
    for name in (compiler[0], "cc", "gcc", "clang"):
        if shutil.which(name) is None:
            continue
        done = subprocess.run(
            [name, *compiler[1:], *flags, "-o", str(made), *map(str, sorted(NATIVE.glob("*.c"))), "-lm"],
            capture_output=True,
            text=True,
        )
        if done.returncode == 0:
            return made.replace(out)  # at once: a running process goes on with the library that it has loaded
        print(f"tensormargin: fitting/native/*.c was not compiled: {done.stderr.strip()[:500]}", file=sys.stderr)  # noqa: T201
    for path in (made, out):
        path.unlink(missing_ok=True)
    return None


try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # run by hand: hatchling is only there when the package is built
    BuildHookInterface = object  # type: ignore[assignment,misc]


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg]  # its argument is a type for hatchling's own use
    """Adds the compiled library to a wheel, which is then one for this platform."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile before the files are collected."""
        if self.target_name == "wheel" and compile_native() is not None:
            platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{platform}"
            build_data["artifacts"].append("src/tensormargin/fitting/native/*.so")


if __name__ == "__main__":
    print(compile_native() or "no C compiler: nothing was compiled")  # noqa: T201
