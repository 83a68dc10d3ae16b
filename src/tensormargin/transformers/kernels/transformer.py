"""Kernel features of tensors, as a scikit-learn transformer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from math import prod
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from ...data import NO_METADATA, Axes, Axis, Metadata, fitted
from ...runtime import Array, FloatArray, computed, is_lazy, like, rows_of, to_host, tuning
from ..preparation._base import KeepsTensors
from ..preparation._passes import floating
from ..preparation.scaling import TensorScaler
from . import low_rank
from .kernels import RBF, TTMMK, DuSK, Exponential, Function, Grassmann, Kernel, Linear, Precomputed

_LARGEST = 1e150  # entry whose square is finite

_LARGEST_NORM = 30.0  # of a column of `projection_`: rounding of values in float32 grows by as much

KERNELS: Mapping[str, type[Kernel]] = {
    "rbf": RBF,
    "exponential": Exponential,
    "linear": Linear,
    "grassmann": Grassmann,
    "dusk": DuSK,
    "tt-mmk": TTMMK,
    "precomputed": Precomputed,
}
"""The kernels by name."""


@fitted.attributes(
    gamma_=fitted.number(fitted.POSITIVE) | None,
    pivots_=fitted.wholes(None, low=0),
    landmarks_=fitted.floats(...) | fitted.wholes("pivots_", low=0),
    root_=fitted.floats("pivots_", "pivots_") | None,
    projection_=fitted.floats("pivots_", "n_components_") | None,
    n_components_=fitted.whole(1),
    method_=fitted.one_of("exact", "nystroem"),
    approximation_error_=fitted.number(),
)
@dataclass(eq=False, repr=False)
class TensorKernel(KeepsTensors):
    """Features of a kernel of tensors: vectors whose inner products are the kernel's values.

    Any estimator behind it becomes a kernel method: kernel LMDM is ``make_pipeline(TensorKernel("rbf"),
    TensorMarginClassifier("full"))``.

    Up to a few thousand samples the features are exact: with pivots P and the pivoted Cholesky decomposition
    ``K = F F'``, a sample x has the features ``F_P^-1 k(P, x)``. Only the columns of K that belong to pivots are
    computed, so that few features need little memory. For more samples the same is done with landmarks chosen
    beforehand (Nystroem's method), and ``approximation_error_`` says what is left out.

    Parameters
    ----------
    kernel : {"rbf", "exponential", "linear", "grassmann", "dusk", "tt-mmk", "precomputed"} or callable, default="rbf"
        "rbf", "exponential" and "linear" take samples as vectors. "grassmann" (Signoretto et al. 2011) compares the
        leading right singular subspaces of the unfoldings, "dusk" (He et al. 2014) the components of CP decompositions,
        and "tt-mmk" (Kour et al. 2023) the fibres of Tensor-Trains. For "precomputed", X is the kernel matrix of all
        pairs of training samples in `fit`, and of new and training samples in `transform`. A callable takes two arrays
        of samples and returns the values of all pairs; a model with one cannot be saved.
    gamma : float or "scale", default="scale"
        Width of the kernel: ``exp(-gamma |x - y|^2)``, for "exponential" ``exp(-gamma |x - y|)``. "scale" is
        ``1 / (n_entries * X.var())`` for "rbf", as in scikit-learn's SVC, and the root of half of that for
        "exponential". For the others it is 2 over the mean squared distance of random pairs of training
        samples (of their subspaces, or components). Ignored by "linear", "precomputed" and callables.
    n_components : int or None, default=None
        Maximum number of features. None: as many as the kernel matrix has (exact), or one per landmark. If there are
        more landmarks than features, these are the principal components of the features of all landmarks.
    rank : int, default=2
        Number of CP components, Tensor-Train rank at every bond, or dimension of the subspaces; lowered where the
        samples are too small for it.
    method : {"auto", "exact", "nystroem"}, default="auto"
        "auto" is "exact" for up to 3,000 samples in memory.
    landmarks : {"k-means++", "leverage", "uniform"}, default="k-means++"
        How Nystroem's method chooses landmarks, from a random part of the training samples if there are many: far from
        each other in the space of the kernel, by ridge leverage scores, or at random.
    n_landmarks : int or None, default=None
        Number of landmarks of Nystroem's method. None: ``n_components``; if that is None, too, 2,000 landmarks and
        1,000 features, which are as good as 2,000 and much cheaper to fit to.
    gamma_factor : float, default=1.0
        Factor on gamma, to search around "scale".
    tol : float, default=1e-10
        Exact features are added until they leave out at most this share of the largest k(x, x).
    random_state : int, RandomState or None, default=None
        Used to choose landmarks. Exact features use no random numbers.

    Attributes
    ----------
    gamma_ : float or None
        The width that was used; None for kernels without one.
    pivots_ : ndarray of shape (n_pivots,)
        Positions of the pivots or landmarks among the training samples.
    landmarks_ : ndarray
        The pivots or landmarks as the kernel represents them.
    root_ : ndarray of shape (n_pivots, n_pivots) or None
        The lower triangular root of their kernel matrix, F_P; None if there are fewer features than landmarks.
    projection_ : ndarray of shape ``(n_pivots, n_components_)`` or None
        Then the features are ``projection_.T @ k(P, x)``.
    n_components_ : int
    method_ : {"exact", "nystroem"}
    approximation_error_ : float
        ``1 - tr(F F') / tr(K)`` for the training samples; for Nystroem's method with many of them, estimated from a
        random part.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin import TensorKernel
    >>> X = np.random.default_rng(0).normal(size=(30, 5, 4))
    >>> TensorKernel("grassmann", n_components=8).fit_transform(X).shape
    (30, 8)
    """

    kernel: str | Callable[[Array, Array], Any] = "rbf"
    gamma: float | str = "scale"
    n_components: int | None = None
    rank: int = 2
    method: str = "auto"
    landmarks: str = "k-means++"
    n_landmarks: int | None = None
    gamma_factor: float = 1.0
    tol: float = 1e-10
    random_state: int | np.random.RandomState | None = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "kernel": [StrOptions(set(KERNELS)), callable],
        "gamma": [Interval(Real, 0, None, closed="neither"), StrOptions({"scale"})],
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "rank": [Interval(Integral, 1, None, closed="left")],
        "method": [StrOptions({"auto", "exact", "nystroem"})],
        "landmarks": [StrOptions(set(low_rank.LANDMARKS))],
        "n_landmarks": [Interval(Integral, 1, None, closed="left"), None],
        "gamma_factor": [Interval(Real, 0, None, closed="neither")],
        "tol": [Interval(Real, 0, 1, closed="neither")],
        "random_state": ["random_state"],
    }

    _keeps_modes: ClassVar[bool] = False
    makes_features = True

    def fit(self, X: Any, y: Any = None, groups: Any = None, confounds: Any = None) -> Self:
        """Choose the pivots or landmarks; all arguments but X are ignored."""
        super().fit(X)
        self.__dict__.pop("_features", None)
        return self

    def fit_transform(self, X: Any, y: Any = None, groups: Any = None, confounds: Any = None) -> Any:
        """Fit to the samples and return their features, which for exact ones needs no second pass."""
        super().fit(X)
        features = self.__dict__.pop("_features", None)
        return self.transform(X) if features is None else features

    def _learn(self, X: Any, metadata: Metadata) -> None:
        self._validate_params()
        few = not is_lazy(X) and X.shape[0] <= tuning.EXACT_KERNEL_SAMPLES
        self.method_ = self.method if self.method != "auto" else "exact" if few else "nystroem"
        if self.method_ == "exact":
            self._learn_exactly(X)
        else:
            self._learn_landmarks(X)

    def _shape_out(self) -> tuple[int, ...]:
        return (self.n_components_,)

    def _fits(self) -> dict[str, Any]:
        kernel, root, landmarks = self._kernel(self.sample_shape_in_), self.root_, self.landmarks_
        if self.kernel == "precomputed":
            fit = landmarks.dtype.kind in "iu" and landmarks.max() < self.sample_shape_in_[0]
        else:
            row = kernel.represent(np.zeros((1, *self.sample_shape_in_)))
            fit = landmarks.dtype.kind == "f" and landmarks.shape == (len(self.pivots_), *row.shape[1:])
        return {
            **super()._fits(),
            "gamma_": (self.gamma_ is not None) == kernel.has_gamma,
            "projection_": (self.projection_ is None) != (root is None),
            "n_components_": root is None or self.n_components_ == len(self.pivots_),
            "root_": root is None or np.diagonal(root).all(),
            "landmarks_": fit,
        }

    def _learn_exactly(self, X: Any) -> None:
        kernel, rows = self._represented(X, np.arange(X.shape[0]))
        root, features, residuals = low_rank.pivoted_cholesky(kernel, rows, self.tol, self.n_components or X.shape[0])
        self.pivots_ = root.pivots
        self.root_: Any = root.lower
        self.projection_: Any = None
        self.landmarks_, self.n_components_ = kernel.landmarks(rows, root.pivots), features.shape[1]
        self.approximation_error_ = float(residuals.sum() / kernel.diagonal(rows).sum())
        self._features = like(features, X, floating(X))

    def _learn_landmarks(self, X: Any) -> None:
        rng = check_random_state(self.random_state)
        count = self.n_landmarks or self.n_components or tuning.LANDMARKS
        both = self.n_components is None and self.n_landmarks is None
        most = tuning.KERNEL_FEATURES if both else self.n_components or count
        positions = self._looked_at(X, count, rng)
        kernel, rows = self._represented(X, positions)
        chosen = low_rank.LANDMARKS[self.landmarks](kernel, rows, min(count, len(rows)), rng)
        root = low_rank.landmark_root(kernel, rows, chosen, self.tol)
        self.pivots_, self.root_, self.projection_ = positions[root.pivots], root.lower, None
        self.landmarks_ = kernel.landmarks(rows, root.pivots)
        features = low_rank.features_of(root, low_rank.columns(kernel, rows, self.landmarks_))
        if features.shape[1] > most:
            leading = low_rank.leading_components(features, most)
            self.root_, self.projection_ = None, low_rank.projection(root, leading)
            features = features @ leading
        self.n_components_ = features.shape[1]
        self.approximation_error_ = _left_out(low_rank.diagonal(kernel, rows), features, root.pivots, X.shape[0])

    def _looked_at(self, X: Any, count: int, rng: np.random.RandomState) -> Array:
        """Return the positions of the samples among which landmarks are chosen, in order."""
        n_samples = int(X.shape[0])
        n_looked_at = max(tuning.EXACT_KERNEL_SAMPLES, tuning.SAMPLES_PER_LANDMARK * count)
        if self.kernel == "precomputed" or n_samples <= n_looked_at:
            return np.arange(n_samples)
        return np.sort(rng.choice(n_samples, n_looked_at, replace=False))

    def _represented(self, X: Any, positions: Array) -> tuple[Kernel, Array]:
        """Return the kernel, with its width (`gamma_`), and the representations of some training samples."""
        some = X if len(positions) == X.shape[0] else rows_of(X, positions)
        own = to_host(computed(some)[0] if is_lazy(some) else some)
        largest = max(float(own.max()), -float(own.min()))
        if largest > _LARGEST:
            raise ValueError(f"the squares of entries must be finite; got entries of up to {largest:.3g}. Scale X")
        kernel = self._kernel(tuple(X.shape[1:]))
        kernel.check(own)
        parts = [kernel.represent(own[where]) for where in low_rank.row_blocks(len(own), prod(kernel.shape))]
        rows = parts[0] if len(parts) == 1 else np.concatenate(parts)
        kernel.gamma = self._width(kernel, X, rows) if kernel.has_gamma else 1.0
        self.gamma_ = kernel.gamma if kernel.has_gamma else None
        return kernel, rows

    def _kernel(self, shape: tuple[int, ...]) -> Kernel:
        if callable(self.kernel):
            return Function(shape, self.kernel)
        return KERNELS[self.kernel](shape, self.rank)

    def _width(self, kernel: Kernel, X: Any, rows: Array) -> float:
        """Return gamma for training samples X, of which some are represented by ``rows``."""
        if not isinstance(self.gamma, str):
            return float(self.gamma) * float(self.gamma_factor)
        if isinstance(kernel, RBF):
            unit = prod(kernel.shape) * float(to_host(TensorScaler("global").fit(X).scale_).item()) ** 2
        else:
            others = np.random.RandomState(0).permutation(len(rows))  # not random_state: exact features use none
            pairs = others != np.arange(len(rows))
            unit = kernel.squared_distance(rows[pairs], rows[others][pairs]) / 2 if pairs.any() else 0.0
        return float(self.gamma_factor) * (kernel.usual_gamma(unit) if unit > 0 else 1.0)

    def _change(self, X: Any, metadata: Metadata = NO_METADATA) -> Any:
        kernel = self._kernel(tuple(X.shape[1:]))
        kernel.gamma = 1.0 if self.gamma_ is None else self.gamma_
        take = self._features_from_values()
        landmarks = to_host(self.landmarks_)
        features = np.empty((X.shape[0], self.n_components_), floating(X))
        if type(kernel) is RBF and features.dtype == np.float32 and self._single_is_enough():
            kernel.dtype = np.dtype(np.float32)
            landmarks = landmarks.astype(np.float32)
        for where in low_rank.row_blocks(X.shape[0], max(len(landmarks), prod(kernel.shape))):
            features[where] = take(low_rank.columns(kernel, kernel.represent(to_host(X[where, ...])), landmarks))
        return like(features, X)

    def _features_from_values(self) -> Callable[[Any], Any]:
        """Return the function from values with the landmarks to features."""
        if self.projection_ is None:
            return partial(low_rank.features_of, low_rank.Root(self.pivots_, to_host(self.root_)))
        matrix = to_host(self.projection_)
        return lambda values: values @ matrix.astype(values.dtype, copy=False)

    def _single_is_enough(self) -> bool:
        """Return whether values in float32 give features in float32: if none is a small difference of large numbers."""
        if self.projection_ is None:
            return False
        return float(np.max(np.linalg.norm(to_host(self.projection_), axis=0))) <= _LARGEST_NORM

    def _axes_out(self, axes: Axes) -> Axes:
        return (Axis("feature"),)

    def pull_back(self, weight: Any) -> Array:
        """Raise TypeError: a kernel is not linear, so a weight on its features is none on the samples."""
        raise TypeError(
            f"cannot pull a weight back through TensorKernel: the features of the {self._name()} are not linear in the "
            "samples, so there is no weight on the samples themselves"
        )

    def words(self) -> str:
        name = self._name()
        if not hasattr(self, "approximation_error_"):
            return f"samples were replaced by features of the {name}"
        width = "" if self.gamma_ is None else f" with gamma = {self.gamma_:.3g}"
        how = "exact" if self.method_ == "exact" else f"{len(self.pivots_)} landmarks by {self.landmarks}"
        return (
            f"samples were replaced by {self.n_components_} features of the {name}{width} ({how}; "
            f"{100 * self.approximation_error_:.2g} % of its trace left out)"
        )

    def brief(self) -> str:
        return self._name()

    def _name(self) -> str:
        return Function.words if callable(self.kernel) else KERNELS[self.kernel].words

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags


def _left_out(values: FloatArray, features: FloatArray, landmarks: Array, n_samples: int) -> float:
    """Return the share of the trace that features leave out, estimated from some samples, the landmarks among them.

    ``values`` are k(x, x) of the samples that landmarks were chosen from, ``n_samples`` is the number of all.
    """
    left = np.maximum(values - np.einsum("nr,nr->n", features, features), 0.0)
    others = np.ones(len(values), bool)
    others[landmarks] = False
    elsewhere = float(left[others].mean()) * (n_samples - len(landmarks)) if others.any() else 0.0
    return (float(left[landmarks].sum()) + elsewhere) / (float(values.mean()) * n_samples)
