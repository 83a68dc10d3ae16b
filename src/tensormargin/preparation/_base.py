"""What all transformers have in common: samples stay tensors, and a weight can be taken back to the samples before."""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar, Self

from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from .._typing import Array
from .._validation import checked_groups, samples_as_fitted


def check_sizes(shape: Any) -> None:
    """Raise ValueError unless a shape is a tuple (or list) of whole numbers."""
    if not isinstance(shape, tuple | list) or not shape or not all(isinstance(size, Integral) for size in shape):
        raise ValueError(f"shape must be a tuple of whole numbers, one a mode; got shape={shape!r}")


class KeepsTensors(TransformerMixin, BaseEstimator):
    """A transformer from tensor samples to tensor samples.

    A subclass says what it learns (`_learn`, which returns the shape of its samples), what it does (`_change`), and
    how a weight on its output reads on its input (`pull_back`).
    """

    # Under scikit-learn's metadata routing, groups reach these methods without being asked for.
    __metadata_request__fit: ClassVar[dict[str, bool]] = {"groups": True}
    __metadata_request__transform: ClassVar[dict[str, bool]] = {"groups": True}

    def fit(self, X: Any, y: Any = None, groups: Any = None) -> Self:
        """Learn from training samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, I_1, ..., I_M)
        y : ignored
        groups : array-like of shape (n_samples,), optional
            Run, session or subject of each sample, where the transformer works by group.
        """
        X = validate_data(self, X, dtype="numeric", allow_nd=True)
        self.sample_shape_in_ = X.shape[1:]
        self.sample_shape_out_ = self._learn(X, checked_groups(X, groups))
        return self

    def transform(self, X: Any, groups: Any = None) -> Array:
        """Return the samples, changed; the shape is (n_samples, *sample_shape_out_)."""
        check_is_fitted(self)
        X = samples_as_fitted(self, X, self.sample_shape_in_)
        return self._change(X, checked_groups(X, groups))

    def fit_transform(self, X: Any, y: Any = None, groups: Any = None) -> Array:
        """Fit, then transform the same samples."""
        return self.fit(X, y, groups).transform(X, groups)

    def pull_back(self, weight: Any) -> Array:
        """Return the weight on the input that gives, up to a constant, the scores of ``weight`` on the output."""
        raise NotImplementedError

    def _learn(self, X: Array, groups: Array | None) -> tuple[int, ...]:
        raise NotImplementedError

    def _change(self, X: Array, groups: Array | None) -> Array:
        raise NotImplementedError

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags
