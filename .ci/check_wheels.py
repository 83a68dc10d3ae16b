"""Check wheels that cannot be run here: what their compiled code is for, exports and needs, and the other files.

``python .ci/check_wheels.py FOLDER`` needs lief, which reads the libraries of all platforms.
"""

from __future__ import annotations

import json
import re
import sys
import zipfile
from pathlib import Path

import lief

lief.logging.disable()
sys.path.insert(0, str(Path(__file__).parents[1]))
from hatch_build import IN_WHEEL, NATIVE, PLATFORMS

NEEDED = {
    "manylinux": r"lib[cm]\.so\.6|ld-linux-.*",
    "musllinux": r"libc\.so",
    "macosx": r"small(_avx2)?\.so|/usr/lib/libSystem\.B\.dylib",  # its own name is listed, too
    "win": r"(?i)kernel32\.dll|api-ms-win-crt-.*\.dll",  # the C library that is part of Windows 10 and later
}
MACHINES = {"x86_64": "X86_64", "amd64": "AMD64", "aarch64": "AARCH64", "arm64": "ARM64"}
GLIBC = (2, 17)


def called_functions() -> set[str]:
    """Return the names that Python calls, from the text of the package: it need not be installed here."""
    text = (NATIVE / "__init__.py").read_text(encoding="utf-8")
    return set(re.findall(r'"(tensormargin_\w+)"', text))


def check(path: Path) -> str:
    """Raise AssertionError if something is wrong with a wheel; return what its library needs."""
    platform = path.stem.split("-")[-1]
    assert platform in PLATFORMS, f"{path.name} is for no platform of hatch_build.py"
    with zipfile.ZipFile(path) as wheel:
        names = wheel.namelist()
        folder = next(name for name in names if name.endswith("/WHEEL")).rpartition("/")[0]
        for name in ("tensormargin/py.typed", f"{folder}/licenses/LICENSE"):
            assert name in names, f"{path.name} has no {name}"
        bill = json.loads(wheel.read(f"{folder}/sboms/tensormargin.cdx.json"))
        assert bill["metadata"]["component"]["version"] == path.name.split("-")[1]
        libraries = [name for name in names if name.endswith(".so")]
        expected = ["small.so", "small_avx2.so"] if PLATFORMS[platform].startswith("x86_64") else ["small.so"]
        assert sorted(libraries) == [f"{IN_WHEEL}/{name}" for name in expected], libraries
        listed = bill["metadata"]["component"]["components"]
        assert {one["name"] for one in listed} == set(libraries), listed
        return {check_library(lief.parse(wheel.read(name)), platform) for name in libraries}.pop()


def check_library(library: lief.Binary, platform: str) -> str:
    """Raise AssertionError unless a library is for a platform, exports what Python calls, and needs only the system."""
    header = library.header
    machine = getattr(header, "machine_type", None) or getattr(header, "machine", None) or header.cpu_type
    expected = next(name for ending, name in MACHINES.items() if platform.endswith(ending))
    assert machine.name.upper().replace("ARM64", "AARCH64") == expected.replace("ARM64", "AARCH64"), machine
    exported = {function.name.lstrip("_") for function in library.exported_functions}
    assert called_functions() <= exported, called_functions() - exported
    needed = [getattr(one, "name", one) for one in library.libraries]
    pattern = next(pattern for start, pattern in NEEDED.items() if platform.startswith(start))
    assert all(re.fullmatch(pattern, name) for name in needed), needed
    assert platform != "macosx_11_0_arm64" or library.has_code_signature, "arm64 runs signed code only"
    versions = glibc_versions(library)
    assert all(version <= GLIBC for version in versions), versions
    return ", ".join([*needed, *(f"glibc {'.'.join(map(str, max(versions)))}" for _ in versions[:1])])


def glibc_versions(library: lief.Binary) -> list[tuple[int, ...]]:
    """Return the versions of glibc that symbols of an ELF library ask for."""
    if not isinstance(library, lief.ELF.Binary):
        return []
    names = [auxiliary.name for one in library.symbols_version_requirement for auxiliary in one.get_auxiliary_symbols()]
    return [tuple(map(int, name.removeprefix("GLIBC_").split("."))) for name in names if name.startswith("GLIBC_")]


if __name__ == "__main__":
    wheels = sorted(Path(sys.argv[1]).glob("*.whl"))
    assert {path.stem.split("-")[-1] for path in wheels} == set(PLATFORMS), "a platform is missing"
    for path in wheels:
        print(f"{path.name}: {path.stat().st_size / 2**20:.1f} MiB; its library needs {check(path)}")
