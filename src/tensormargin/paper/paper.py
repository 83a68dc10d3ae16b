"""The accuracies reported in the paper, in percent. Cells that the paper leaves empty are missing."""

from __future__ import annotations

from collections.abc import Mapping

_METHODS = ("SVM", "STM", "STuM", "LMDM", "SPMD-LRT", "HSPMD-LRT", "TuSPMD-LRT")

_TABLE2 = {
    10_000: (91.64, 88.36, 90.45, 97.98, 95.66, 96.88, 98.09),
    20_000: (92.84, 89.96, 92.28, 98.22, 95.84, 97.19, 98.33),
    30_000: (93.28, 89.82, None, 98.33, 95.60, 97.38, 98.42),
    60_000: (93.99, 90.54, None, 98.48, 95.82, 97.24, None),
}
_OTHER = {
    "ORL 32x32": (96.25, 93.75, 93.50, 95.83, 95.83, 96.67, 97.32),
    "ORL 64x64": (96.25, 92.71, 94.40, 96.49, 95.83, 96.69, 97.50),
    "ADNI": (55.56, 37.50, 37.50, 44.44, 50.00, 62.50, 66.67),
    "ADHD-200": (42.50, 45.00, 54.00, 47.50, 42.50, 57.50, 62.50),
}


def _figures() -> Mapping[tuple[str, int | None, str], float]:
    cells: dict[tuple[str, int | None], tuple[float | None, ...]] = {
        **{("MNIST", size): values for size, values in _TABLE2.items()},
        **{(data, None): values for data, values in _OTHER.items()},
    }
    return {
        (*cell, method): value
        for cell, values in cells.items()
        for method, value in zip(_METHODS, values, strict=True)
        if value is not None
    }


_FIGURES = _figures()


def reported(data: str, size: int, method: str) -> float | None:
    """Return the paper's accuracy in percent (Tables 2, 4, 5 and 6), None for a cell that is empty there."""
    return _FIGURES.get((data, size, method), _FIGURES.get((data, None, method)))
