"""Comparison of model archives that we write with those of skops."""

from __future__ import annotations

import json
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

from tensormargin.io.archive import write_archive


def write_like_skops(path: str | Path, value: Any) -> None:
    """Call `write_archive`, and require that skops would have written the same up to numbers and names of members."""
    import skops.io

    write_archive(path, value)
    buffer = BytesIO()
    skops.io.dump(value, buffer, compression=zipfile.ZIP_DEFLATED)
    with zipfile.ZipFile(path) as ours, zipfile.ZipFile(buffer) as theirs:
        used: set[str] = set()
        assert canonical(ours, used) == canonical(theirs, set())
        assert sorted(ours.namelist()) == sorted({*used, "schema.json"})
        # where an object occurs twice, skops also writes the temporary arrays of its second occurrence
        assert len(ours.namelist()) <= len(theirs.namelist())
        assert {one.compress_type for one in ours.infolist()} == {one.compress_type for one in theirs.infolist()}


def canonical(archive: zipfile.ZipFile, used: set[str]) -> str:
    """Return the schema as text with objects numbered in order, later occurrences cut short, and arrays in place."""
    numbers: dict[int, int] = {}

    def replaced(part: Any) -> Any:
        if isinstance(part, list):
            return [replaced(one) for one in part]
        if not isinstance(part, dict):
            return part
        if part.get("__id__") in numbers:
            return {"again": numbers[part["__id__"]]}
        if "__id__" in part:
            numbers[part["__id__"]] = len(numbers)
        if part.get("type") == "numpy":
            used.add(part["file"])
            part = {**part, "file": archive.read(part["file"]).hex()}
        return {key: replaced(value) for key, value in part.items() if key != "__id__"}

    return json.dumps(replaced(json.loads(archive.read("schema.json"))))
