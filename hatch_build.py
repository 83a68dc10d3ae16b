"""Compiles src/tensormargin/_native/*.c when the package is built or installed, if there is a C compiler.

Without one the package works all the same: small problems are then solved by the same code as large ones, more slowly.
``python hatch_build.py`` compiles in place, for a checkout that is not installed.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

NATIVE = Path(__file__).parent / "src" / "tensormargin" / "_native"
FLAGS = ("-O3", "-std=c99", "-fPIC", "-shared", "-ffp-contract=off", "-fno-math-errno")


def compile_native() -> Path | None:
    """Return the compiled library, or None if there is no compiler or it fails."""
    compiler = shlex.split(sysconfig.get_config_var("CC") or "cc")
    found = [[path, *compiler[1:]] for name in (compiler[0], "cc", "gcc", "clang") if (path := shutil.which(name))]
    out = NATIVE / "small_block.so"
    for command in found[:1]:
        done = subprocess.run(
            [*command, *FLAGS, "-o", str(out), str(NATIVE / "small_block.c"), "-lm"], capture_output=True, text=True
        )
        if done.returncode == 0:
            return out
        print(f"tensormargin: small_block.c was not compiled: {done.stderr.strip()[:500]}", file=sys.stderr)  # noqa: T201
    out.unlink(missing_ok=True)
    return None


try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # run by hand
    BuildHookInterface = object  # type: ignore[assignment,misc]


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Adds the compiled library to a wheel, which is then one for this platform."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile before the files are collected."""
        if self.target_name == "wheel" and compile_native() is not None:
            platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{platform}"
            build_data["artifacts"].append("src/tensormargin/_native/*.so")


if __name__ == "__main__":
    print(compile_native() or "no C compiler: nothing was compiled")  # noqa: T201
