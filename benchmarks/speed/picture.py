"""Figures of the suite: ratios by case, and growth on logarithmic axes."""

from __future__ import annotations

from pathlib import Path

import numpy as np

_COLOURS = {
    "SPMD-LRT": "#0072b2",
    "HSPMD-LRT": "#009e73",
    "TuSPMD-LRT": "#d55e00",
    "LMDM": "#cc79a7",
    "CP": "#009e73",
    "Tucker": "#d55e00",
}
_RATIO_CASES = {
    "mnist": "MNIST 3 vs 8\n11,982 × 28×28",
    "mnist-45-pairs": "MNIST, 45 pairs\n60,000 × 28×28",
    "volumes": "volumes\n160 × 49×58×47",
    "adrenal-64": "AdrenalMNIST3D\n1,188 × 64³",
    "eeg": "EEG\n61 × 64×64",
}
_GROWTH = {
    "samples": "number of samples of 16×16",
    "entries": "entries of a sample (200 samples)",
    "rank": "rank (2,000 samples of 16³)",
}


def draw(rows: list[dict], folder: Path) -> None:
    """Write speed.png and growth.png."""
    import matplotlib

    matplotlib.use("Agg")
    _draw_ratios(rows, folder / "speed.png")
    _draw_growth(rows, folder / "growth.png")


def _draw_ratios(rows: list[dict], path: Path) -> None:
    import matplotlib.pyplot as plt

    cases = [case for case in _RATIO_CASES if any(row["case"] == case for row in rows)]
    methods = [method for method in _COLOURS if any(row["method"] == method for row in rows)]
    if not cases:
        return
    figure, axes = plt.subplots(figsize=(9, 3.6), layout="constrained")
    width = 0.8 / max(len(methods), 1)
    for k, method in enumerate(methods):
        for i, case in enumerate(cases):
            for row in (row for row in rows if row["case"] == case and row["method"] == method):
                at = i + (k - (len(methods) - 1) / 2) * width
                label = method if i == 0 else None
                axes.bar(at, row["ratio"], width * 0.92, color=_COLOURS[method], label=label)
                if np.isfinite(row["bound"]):
                    axes.plot([at - width / 2, at + width / 2], [row["bound"]] * 2, color="black", linewidth=1.5)
    axes.axhline(1.0, color="#666666", linewidth=1, linestyle=":")
    axes.set_yscale("log")
    axes.set_yticks((0.1, 0.3, 1, 3, 10), ("0.1", "0.3", "1", "3", "10"))
    axes.minorticks_off()
    axes.set_xticks(range(len(cases)), [_RATIO_CASES[case] for case in cases])
    axes.set_ylabel("fit time / LinearSVC")
    axes.set_title("Fit time against flat LinearSVC (dotted: the same; black: bound)", fontsize=11)
    axes.legend(frameon=False, ncols=4, fontsize=9, loc="upper right")
    axes.spines[["top", "right"]].set_visible(False)
    _save(figure, path)


def _draw_growth(rows: list[dict], path: Path) -> None:
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 3, figsize=(9, 3.2), layout="constrained")
    for axes, (family, label) in zip(panels, _GROWTH.items(), strict=True):
        members = [row for row in rows if row["case"].startswith(f"{family}-")]
        for method, colour in _COLOURS.items():
            points = sorted(
                (row["size"], row["seconds"])
                for row in members
                if row["method"] == method or (family == "rank" and row["method"].startswith(f"{method}-"))
            )
            if points:
                axes.plot(*zip(*points, strict=True), marker="o", markersize=4, color=colour, label=method)
        axes.set_xscale("log")
        axes.set_yscale("log")
        if family == "rank":
            axes.set_xticks(sizes := sorted({row["size"] for row in members}), [f"{size:g}" for size in sizes])
        axes.set_yticks((0.01, 0.1, 1), ("0.01", "0.1", "1"))
        axes.minorticks_off()
        axes.set_xlabel(label)
        axes.spines[["top", "right"]].set_visible(False)
        if members:
            axes.legend(frameon=False, fontsize=8)
    panels[0].set_ylabel("fit time in seconds")
    _save(figure, path)


def _save(figure: object, path: Path) -> None:
    import matplotlib.pyplot as plt

    figure.savefig(path, dpi=130)
    plt.close(figure)
