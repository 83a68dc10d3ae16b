"""Draw the picture of the README: ``pip install ".[cli]" && python docs/figure.py``."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split

from tensormargin import make_method, margin_report
from tensormargin.datasets import load_digits_tensor

METHODS = ("SVM", "STM", "HSPMD-LRT", "TuSPMD-LRT")
BLUE, RED = "#2166ac", "#b2182b"


def main() -> None:
    digits = load_digits_tensor()
    pair = np.isin(digits.target, (3, 8))
    images, labels = digits.data[pair], digits.target[pair]
    X, X_test, y, y_test = train_test_split(images, labels, train_size=60, stratify=labels, random_state=0)
    figure, axes = plt.subplots(2, len(METHODS), figsize=(10, 4.6), height_ratios=(1.25, 1), layout="constrained")
    for method, (above, below) in zip(METHODS, axes.T, strict=True):
        clf = make_method(method).fit(X, y)
        draw_weight(above, clf, method, clf.score(X_test, y_test))
        draw_margins(below, margin_report(clf, X_test, y_test), y_test)
    axes[1, 0].set_ylabel("test samples")
    axes[1, 0].legend(frameon=False, fontsize=8)
    path = Path(__file__).with_name("digits.png")
    figure.savefig(path, dpi=110)
    print(f"wrote {path.name}")


def draw_weight(ax: plt.Axes, clf, method: str, accuracy: float) -> None:
    limit = np.abs(clf.coef_).max()
    ax.imshow(clf.coef_[0], cmap="RdBu", vmin=-limit, vmax=limit)
    ax.set_title(f"{method}\n{clf.n_parameters_} parameters, {100 * accuracy:.1f} %", fontsize=10)
    ax.set_xticks([])
    ax.set_yticks([])


def draw_margins(ax: plt.Axes, report, labels: np.ndarray) -> None:
    relative = report.margins / report.mean  # the unit of a margin depends on lambda and mu
    bins = np.linspace(-1, 2.5, 29)
    for digit, colour in ((3, RED), (8, BLUE)):
        ax.hist(np.clip(relative[labels == digit], -1, 2.5), bins, color=colour, alpha=0.6, label=f"digit {digit}")
    ax.axvline(0, color="black", linewidth=0.8)
    ax.set_xlabel(f"margin / mean (sd {relative.std():.2f})", fontsize=9)
    ax.spines[["top", "right"]].set_visible(False)


if __name__ == "__main__":
    main()
