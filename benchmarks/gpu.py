"""Speed on a GPU: contractions compared with the copy bandwidth, fits with the CPU of the same machine.

``TENSORMARGIN_DATA=... python -m benchmarks.gpu`` writes benchmarks/results/gpu.md and gpu.csv, and fails if a bound is
broken. It needs PyTorch with CUDA; CuPy is measured too if it is installed.
"""

from __future__ import annotations

import csv
import platform
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from functools import cache
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from sklearn.model_selection import StratifiedKFold

import tensormargin
from tensormargin import TensorMarginClassifier, fit_many
from tensormargin.datasets import fetch_mnist, load_adrenal
from tensormargin.estimators import one_blas_thread
from tensormargin.estimators.engine import available_threads
from tensormargin.fitting import BatchedFit, CPWeight, MarginProblem, Objective
from tensormargin.fitting.alternation import BlockRequest
from tensormargin.fitting.batched_alternation import _solve_on_device, _solve_on_host
from tensormargin.runtime import thin_product, to_host, worker_threads

RESULTS = Path(__file__).parent / "results"
ROUNDS = 5
MODELS = {"rank-1": ((28, 28), {"decomposition": "cp", "rank": 1}), "Tucker": ((7, 4, 7, 4), {"rank": 4})}


@dataclass(frozen=True)
class Row:
    """One measurement; ``bound`` is the largest value allowed (the smallest if more is better)."""

    part: str
    case: str
    where: str
    value: float
    unit: str
    bound: float | None = None
    more_is_better: bool = False
    note: str = ""

    @property
    def holds(self) -> bool:
        """Whether the bound holds."""
        if self.bound is None:
            return True
        return self.value >= self.bound if self.more_is_better else self.value <= self.bound


def seconds(work: Callable[[], Any], rounds: int = ROUNDS) -> tuple[float, Any]:
    """Return the median time over several rounds, after a warm-up, and the last answer."""
    answer, times = work(), []
    for _ in range(rounds):
        torch.cuda.synchronize()
        began = time.perf_counter()
        answer = work()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - began)
    return median(times), answer


def bandwidths() -> Iterable[Row]:
    X = volumes()[0]
    n_bytes = X.numel() * X.element_size()
    copy = 2 * n_bytes / seconds(X.clone)[0]
    yield Row("contraction", "copy", "torch", copy / 1e12, "TB/s")
    count, size = X.shape[0], X.shape[1]
    rng = torch.Generator("cuda").manual_seed(0)
    head = torch.randn((4, size), generator=rng, device="cuda")
    tail = torch.randn((size * size, 16), generator=rng, device="cuda")
    cases = {
        "first mode to 4": (head, X.reshape(count, size, -1)),
        "last two modes to 16": (X.reshape(count * size, -1), tail),
        "scores": (X.reshape(count, -1), torch.randn((size**3, 1), generator=rng, device="cuda")),
    }
    for name, (left, right) in cases.items():
        for where, product in (("cuBLAS", torch.matmul), ("here", thin_product)):
            took, answer = seconds(lambda left=left, right=right, product=product: product(left, right))
            exact = torch.matmul(left[:64].double(), right[:64].double() if right.ndim == 3 else right.double())
            error = float((answer[:64] - exact).norm() / exact.norm())
            bound = 50.0 if where == "here" else None
            speed = 100 * n_bytes / took / copy
            yield Row("contraction", name, where, speed, "% of copy", bound, True, f"error {error:.0e}")


@cache
def volumes() -> tuple[torch.Tensor, np.ndarray, np.ndarray, np.ndarray]:
    bunch = load_adrenal(64)
    train, test = bunch.split == "train", bunch.split == "test"
    X = bunch.data.astype(np.float32) / np.float32(255)
    return torch.asarray(X[train], device="cuda"), bunch.target[train], X[test], bunch.target[test]


def adrenal() -> Iterable[Row]:
    X, y, X_test, y_test = volumes()
    for where, samples, bound in (("GPU", X, 0.15), ("processor", to_host(X), None)):
        took, model = seconds(lambda samples=samples: TensorMarginClassifier("tucker", rank=4).fit(samples, y))
        test = torch.asarray(X_test, device="cuda") if where == "GPU" else X_test
        note = f"{model.n_iter_} sweeps, test accuracy {100 * model.score(test, y_test):.2f} %"
        yield Row("AdrenalMNIST3D 64^3", "Tucker (4, 4, 4)", where, took, "s", bound, note=note)


@cache
def digits(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    train, test = fetch_mnist("train"), fetch_mnist("test")
    shape = MODELS[name][0]
    scaled = [part.data.reshape(-1, *shape) / np.float32(255) for part in (train, test)]
    return scaled[0], train.target, scaled[1], test.target


def pair_accuracy(model: TensorMarginClassifier, X: Any, y: np.ndarray) -> float:
    scores = to_host(model.binary_scores(X))
    right = []
    for column, pair in enumerate(combinations(range(10), 2)):
        own = np.isin(y, pair)
        right.append(np.mean((scores[own, column] > 0) == (y[own] == pair[1])))
    return 100 * float(np.mean(right))


def mnist_pairs() -> Iterable[Row]:
    bounds = {"rank-1": {"GPU": 2.0, "processor": 1.0}, "Tucker": {"GPU": 5.0, "processor": 1.5}}  # of 16 cores
    for name, own in bounds.items():
        X, y, X_test, y_test = digits(name)
        accuracies = {}
        for where in ("GPU", "processor"):
            on_gpu = where == "GPU"
            samples, test = (torch.asarray(part, device="cuda") if on_gpu else part for part in (X, X_test))
            model = TensorMarginClassifier(**MODELS[name][1], n_jobs=-1)
            took, fitted = seconds(lambda model=model, samples=samples, y=y: model.fit(samples, y), rounds=3)
            accuracies[where] = pair_accuracy(fitted, test, y_test)
            ten = 100 * fitted.score(test, y_test)
            note = f"test accuracy: mean of the pairs {accuracies[where]:.3f} %, all ten classes {ten:.2f} %"
            yield Row("MNIST-60k, 45 pairs", name, where, took, "s", own[where], note=note)
        apart = abs(accuracies["GPU"] - accuracies["processor"])
        yield Row("MNIST-60k, 45 pairs", name, "apart", apart, "points", 0.1)


def block_solves() -> Iterable[Row]:
    """Time batches of first blocks, solved to a gap of 1e-4 by host threads and on the device."""
    rng = np.random.default_rng(0)
    threads = available_threads()
    for n_rows, width in ((1200, 64), (1200, 256), (12000, 28), (12000, 256)):
        for count in (1, 4, 16, 45):
            signs = np.where(rng.random(n_rows) < 0.5, 1.0, -1.0)
            block = CPWeight.from_dense(rng.standard_normal((width, 1)), 1, np.random.RandomState(0)).block(0)
            designs = rng.standard_normal((count, n_rows, width)) / np.sqrt(width)
            designs = torch.asarray(designs + 0.1 * signs[:, None], dtype=torch.float32, device="cuda")
            objective = Objective(300.0, 100.0, 100.0, np.full(n_rows, 1 / n_rows))
            members = [BatchedFit(k, MarginProblem(signs, objective, 1.0), iter(())) for k in range(count)]
            requests = [BlockRequest(block, None, 1e-4)] * count
            for where in ("host", "device"):
                with worker_threads(threads), one_blas_thread:
                    if where == "host":
                        took, _ = seconds(lambda d=designs, m=members, r=requests: _solve_on_host(d, m, r), 3)
                    else:
                        took, _ = seconds(lambda d=designs, m=members, r=requests: _solve_on_device(d, m, r), 3)
                yield Row(
                    "where blocks are solved: one batch", f"{count} x {n_rows} x {width}", where, 1e3 * took, "ms"
                )


def choices() -> Iterable[Row]:
    """Time fits with blocks solved on the host or on the device; the crossover sets what "auto" does."""
    for name in MODELS:
        X, y, _, _ = digits(name)
        for n_classes in (2, 3, 4, 6, 10):
            own = y < n_classes
            samples = torch.asarray(X[own], device="cuda")
            yield from _both(
                f"MNIST {name}, {n_classes * (n_classes - 1) // 2} pairs", samples, y[own], MODELS[name][1]
            )
    X, y, _, _ = volumes()
    for count in (1, 4, 16):
        yield from _both(f"AdrenalMNIST3D Tucker, {count} starts", X, y, {"rank": 4, "n_init": count})


def _both(case: str, X: Any, y: np.ndarray, settings: dict[str, Any]) -> Iterable[Row]:
    for solver in ("host", "device", "auto"):
        model = TensorMarginClassifier(**settings, solver=solver, random_state=0)
        took, _ = seconds(lambda model=model: model.fit(X, y), rounds=1)
        yield Row("where blocks are solved: fits", case, solver, took, "s", note=f"{model.n_iter_} sweeps")


def batches() -> Iterable[Row]:
    """Time the fits of a grid of lambda on five folds, in one batch and one after the other."""
    X, y, _, _ = volumes()
    lams = (0.1, 0.3, 1.0, 3.0)
    folds = [train for train, _ in StratifiedKFold(5, shuffle=True, random_state=0).split(y, y)]

    def models(solver: str) -> list[TensorMarginClassifier]:
        return [TensorMarginClassifier(rank=2, lam=lam, solver=solver) for _ in folds for lam in lams]

    rows = [fold for fold in folds for _ in lams]
    for solver in ("device", "host", "auto"):
        took, _ = seconds(lambda solver=solver: fit_many(models(solver), X, y, rows), rounds=1)
        bound = 0.8 if solver == "auto" else None
        yield Row("20 fits: 4 lambda x 5 folds", "AdrenalMNIST3D Tucker (2, 2, 2)", solver, took, "s", bound)


def cupy_too() -> Iterable[Row]:
    try:
        import cupy
    except ImportError:
        return
    X, y, _, _ = volumes()
    samples = cupy.asarray(to_host(X))
    took, _ = seconds(lambda: TensorMarginClassifier("tucker", rank=4).fit(samples, y))
    yield Row("CuPy", "AdrenalMNIST3D Tucker (4, 4, 4)", "GPU", took, "s")
    for name in MODELS:
        X, y, X_test, y_test = digits(name)
        samples = cupy.asarray(X)
        took, model = seconds(
            lambda name=name, samples=samples, y=y: TensorMarginClassifier(**MODELS[name][1]).fit(samples, y), 1
        )
        note = f"mean test accuracy of the pairs {pair_accuracy(model, cupy.asarray(X_test), y_test):.3f} %"
        yield Row("CuPy", f"MNIST-60k, 45 pairs, {name}", "GPU", took, "s", note=note)


def write(rows: list[Row], versions: dict[str, str]) -> None:
    RESULTS.mkdir(exist_ok=True)
    with (RESULTS / "gpu.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, [*asdict(rows[0]), *versions], lineterminator="\n")
        table.writeheader()
        table.writerows(asdict(row) | versions for row in rows)
    lines = ["# On a GPU", "", "Made by `python -m benchmarks.gpu`; medians after one round that is not counted.", ""]
    lines += [f"- {name}: {value}" for name, value in versions.items()]
    for part in dict.fromkeys(row.part for row in rows):
        lines += ["", f"## {part}", "", "| case | where | measured | bound | |", "|---|---|---|---|---|"]
        for row in rows:
            if row.part == part:
                bound = "–" if row.bound is None else f"{'≥' if row.more_is_better else '≤'} {row.bound:g}"
                lines.append(f"| {row.case} | {row.where} | {row.value:.3g} {row.unit} | {bound} | {row.note} |")
    (RESULTS / "gpu.md").write_text("\n".join(lines) + "\n")


def main() -> None:
    if not torch.cuda.is_available():
        sys.exit("this benchmark needs PyTorch with a CUDA device")
    versions = {
        "device": torch.cuda.get_device_name(),
        "processor": f"{platform.machine()}, {torch.get_num_threads()} threads",
        "tensormargin": tensormargin.__version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }
    rows: list[Row] = []
    for part in (bandwidths, adrenal, mnist_pairs, block_solves, choices, batches, cupy_too):
        for row in part():
            rows.append(row)
            print(f"{row.part}: {row.case}, {row.where}: {row.value:.4g} {row.unit} {row.note}", flush=True)
        write(rows, versions)
    broken = [row for row in rows if not row.holds]
    for row in broken:
        print(f"BROKEN: {row}")
    sys.exit(bool(broken))


if __name__ == "__main__":
    main()
