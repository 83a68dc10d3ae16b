"""Compiles src/tensormargin/fitting/native/*.c when the package is built or installed, if there is a C compiler.

Without one the package works all the same: NumPy and Python make the same steps, many times more slowly.
``python hatch_build.py`` compiles in place, for a checkout that is not installed. Environment variables:

- ``TENSORMARGIN_CFLAGS`` adds flags, such as those of .ci/sanitize.
- ``TENSORMARGIN_PLATFORM``, one of `PLATFORMS`, makes the wheel for that platform with the compiler that the package
  ziglang brings, which holds the headers and libraries of all of them; see .ci/packages.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

NATIVE = Path(__file__).parent / "src" / "tensormargin" / "fitting" / "native"
IN_WHEEL = "tensormargin/fitting/native"
FLAGS = ("-O3", "-std=gnu11", "-fPIC", "-shared", "-ffp-contract=off", "-fno-math-errno")
PLATFORMS = {
    "manylinux_2_17_x86_64.manylinux2014_x86_64": "x86_64-linux-gnu.2.17",
    "manylinux_2_17_aarch64.manylinux2014_aarch64": "aarch64-linux-gnu.2.17",
    "musllinux_1_1_x86_64": "x86_64-linux-musl",
    "musllinux_1_1_aarch64": "aarch64-linux-musl",
    "macosx_11_0_x86_64": "x86_64-macos.11.0",
    "macosx_11_0_arm64": "aarch64-macos.11.0",
    "win_amd64": "x86_64-windows-gnu",
    "win_arm64": "aarch64-windows-gnu",
}
"""Tags of wheels, and what their compiled code is made for. The library has one name everywhere: ctypes takes any."""


def compilers(platform: str | None) -> list[list[str]]:
    """Return the commands to try: one for a given platform, which must work, otherwise those of this machine."""
    if platform is not None:
        zig = [sys.executable, "-m", "ziglang", "cc", "-target", PLATFORMS[platform]]
        return [[*zig, "-fno-sanitize=all", "-s"]]
    own = shlex.split(sysconfig.get_config_var("CC") or "cc")
    return [[name, *own[1:]] for name in (own[0], "cc", "gcc", "clang") if shutil.which(name) is not None]


def compile_all(folder: Path, platform: str | None) -> list[Path]:
    """Return the libraries of a wheel, compiled into a folder: for x86-64 a second one, for processors with AVX2.

    Without a platform there is one or none: GCC has the code for both kinds of processors in it (``FAST`` in small.h).
    """
    variants: dict[str, Sequence[str]] = {"small.so": ()}
    if platform is not None and PLATFORMS[platform].startswith("x86_64"):
        # As -mavx2, for these files alone: zig would compile the C library again, which takes a minute for Windows.
        variants["small_avx2.so"] = ("-Xclang", "-target-feature", "-Xclang", "+avx2")
    made = [compile_native(folder, platform, name, flags) for name, flags in variants.items()]
    return [library for library in made if library is not None]


def compile_native(
    folder: Path, platform: str | None = None, name: str = "small.so", more: Sequence[str] = ()
) -> Path | None:
    """Return the library, compiled into a folder; None if there is no compiler or it fails."""
    sources = [str(path.resolve()) for path in sorted(NATIVE.glob("*.c"))]
    flags = (*FLAGS, *more, *shlex.split(os.environ.get("TENSORMARGIN_CFLAGS", "")))
    with TemporaryDirectory(dir=folder) as made:
        library = Path(made, name)
        for compiler in compilers(platform):
            command = [*compiler, *flags, "-o", library.name, *sources, "-lm"]  # some libraries hold the name as given
            done = subprocess.run(command, cwd=made, capture_output=True, text=True)
            if done.returncode == 0:
                return library.replace(folder / library.name)  # a running process goes on with the one it has loaded
            message = f"tensormargin: fitting/native/*.c was not compiled: {done.stderr.strip()[:500]}"
            if platform is not None:
                raise RuntimeError(message)
            print(message, file=sys.stderr)  # noqa: T201
    (folder / name).unlink(missing_ok=True)
    return None


def bill_of_materials(metadata: Any, libraries: Sequence[Path]) -> str:
    """Return what a wheel consists of and what it requires, as CycloneDX JSON (PEP 770)."""
    own: dict[str, Any] = {
        "type": "library",
        "bom-ref": "tensormargin",
        "name": metadata.core.name,
        "version": metadata.version,
        "purl": f"pkg:pypi/{metadata.core.name}@{metadata.version}",
        "licenses": [{"license": {"id": metadata.core.license_expression}}],
    }
    if libraries:
        digests = {
            path.name: {"alg": "SHA-256", "content": sha256(path.read_bytes()).hexdigest()} for path in libraries
        }
        own["components"] = [
            {"type": "file", "name": f"{IN_WHEEL}/{name}", "hashes": [digest]} for name, digest in digests.items()
        ]
    required = [
        {
            "type": "library",
            "bom-ref": requirement.name,
            "name": requirement.name,
            "purl": f"pkg:pypi/{requirement.name}",
            "properties": [{"name": "requirement", "value": str(requirement)}],
        }
        for _, requirement in sorted(metadata.core.dependencies_complex.items())
    ]
    content = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": own},
        "components": required,
        "dependencies": [{"ref": "tensormargin", "dependsOn": [one["bom-ref"] for one in required]}],
    }
    return json.dumps(content, indent=1)


try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # run by hand: hatchling is only there when the package is built
    BuildHookInterface = object  # type: ignore[assignment,misc]


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg]  # its argument is a type for hatchling's own use
    """Adds the compiled library and a bill of materials to a wheel, which is then one for a platform."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile before the files are collected: in place if the package is to be used from its sources."""
        if version == "editable":
            compile_native(NATIVE)
            return
        self._made = TemporaryDirectory()
        folder, platform = Path(self._made.name), os.environ.get("TENSORMARGIN_PLATFORM")
        libraries = compile_all(folder, platform)
        if libraries:
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{platform or sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
            build_data["force_include"] |= {str(path): f"{IN_WHEEL}/{path.name}" for path in libraries}
        materials = folder / "tensormargin.cdx.json"
        materials.write_text(bill_of_materials(self.metadata, libraries), encoding="utf-8")
        build_data["sbom_files"].append(str(materials))

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was compiled."""
        if version != "editable":
            self._made.cleanup()


if __name__ == "__main__":
    print(compile_native(NATIVE) or "no C compiler: nothing was compiled")  # noqa: T201
