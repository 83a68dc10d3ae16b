"""Few large noisy samples: 200 volumes of 30x30x30 unit noise whose class means differ by 6 times a rank-two tensor.

``python benchmarks/few_volumes.py`` prints the accuracy on 2,000 test samples with default settings, one line per seed.
The best possible accuracy is 99.87 %.
"""

from __future__ import annotations

import numpy as np

from tensormargin import TensorMarginClassifier
from tensormargin.datasets import make_low_rank_classes

WEIGHTS = (("cp", 2), ("tucker", (2, 2, 2)), ("tt", 2), ("tucker", None), ("full", None))


def main() -> None:
    print("seed  " + "  ".join(f"{name} {rank}".rjust(16) for name, rank in WEIGHTS))
    for seed in range(4):
        bunch = make_low_rank_classes(2200, (30, 30, 30), dtype=np.float32, random_state=seed)
        X, y = bunch.data, bunch.target
        scores = [TensorMarginClassifier(*weight).fit(X[:200], y[:200]).score(X[200:], y[200:]) for weight in WEIGHTS]
        print(f"{seed:4}  " + "  ".join(f"{100 * score:16.2f}" for score in scores), flush=True)


if __name__ == "__main__":
    main()
