"""Full weights in the span of the samples.

A full weight is a combination of the centred samples. Where these have more entries than there are samples, their
coordinates in an orthonormal basis of their span replace them: the fit is the same, and costs as if samples had no more
entries than there are samples.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

import numpy as np

from ..runtime import Array, FloatArray, triangles, tuning
from .alternation import Fit
from .blocks import cholesky_rows
from .designs import Design, Matrix
from .formats import ViewsFormat, ViewsWeight, Weight
from .formats.full import FullWeight
from .samples.base import Samples
from .samples.memory import MemorySamples
from .samples.views import View, ViewSamples


@dataclass(frozen=True)
class Span:
    """Vectors in an orthonormal basis of their span, of which no more is needed than their inner products.

    The basis is that of a pivoted Cholesky factorisation: the ``chosen`` vectors, orthonormalised by a triangular
    matrix. ``coordinates`` have one row per vector.
    """

    coordinates: FloatArray
    chosen: Array

    @classmethod
    def of(cls, gram: FloatArray) -> Span:
        return cls(*cholesky_rows(gram))

    @cached_property
    def _triangle(self) -> FloatArray:
        return self.coordinates[self.chosen]

    def project(self, products: FloatArray) -> FloatArray:
        """Return the coordinates of the part of other vectors in the span, given their products with the vectors."""
        return triangles.solve(self._triangle, products[..., self.chosen])

    def shares(self, weights: FloatArray) -> FloatArray:
        """Return weights on the coordinates, one per row, as combinations of the vectors."""
        shares = np.zeros((len(weights), len(self.coordinates)))
        shares[:, self.chosen] = triangles.solve(self._triangle, weights, transposed=True)
        return shares


@dataclass(frozen=True)
class SampleSpan:
    """Samples as rows of a design, and their span relative to a mean, which is zero for weights without an intercept.

    There is no span if samples have no more entries than there are samples: coordinates are then the centred samples.
    """

    design: Design
    mean: FloatArray
    span: Span | None

    @classmethod
    def of(cls, design: Design, centred: bool, shares: Array | None = None) -> SampleSpan:
        """Return the span relative to the mean if ``centred``, which is weighted by ``shares`` if they are given."""
        n_samples, n_entries = design.shape
        mean = np.zeros(n_entries)
        if centred:
            mean = design.weighted_sum(np.full(n_samples, 1.0 / n_samples) if shares is None else shares)
        return cls(design, mean, Span.of(design.gram(mean)) if n_entries > n_samples else None)

    @cached_property
    def coordinates(self) -> FloatArray:
        """Vectors with the inner products of the centred samples, one per row."""
        return self.design.to_numpy().astype(np.float64) - self.mean if self.span is None else self.span.coordinates

    def inside(self, weight: FloatArray) -> FloatArray:
        """Return the part of a weight on the samples that lies in the span, as one on the coordinates."""
        if self.span is None:
            return weight
        return self.span.project(self.design.products(weight) - float(self.mean @ weight))

    def outside(self, weights: FloatArray) -> FloatArray:
        """Return weights on the coordinates, one per row, as weights on the samples."""
        if self.span is None:
            return weights
        shares = self.span.shares(weights)
        return self.design.weighted_sums(shares) - shares.sum(axis=1)[:, None] * self.mean


@dataclass(frozen=True)
class ViewsInSpan:
    """The samples of a fit to several views, with coordinates in place of long views with full weights.

    Beside low-rank weights, a full weight is solved for in every sweep; the designs then have no more columns for its
    view than there are samples. ``form`` is that of the given samples, and ``spans`` are by the number of the view.
    """

    samples: ViewSamples
    form: ViewsFormat
    spans: Mapping[int, SampleSpan]

    @classmethod
    def of(cls, samples: Samples, form: object) -> ViewsInSpan | None:
        """Return the samples of a fit in their span, or None if it would not get faster."""
        if not isinstance(samples, ViewSamples) or not isinstance(form, ViewsFormat):
            return None
        flat = [one is FullWeight for one in form.formats]
        if all(flat):  # one convex problem, solved once
            return None
        spans = {
            number: SampleSpan.of(Matrix(view.samples.matrix()), view.weights is not None, view.shares)
            for number, (view, is_flat) in enumerate(zip(samples.views, flat, strict=True))
            if is_flat and is_long(view)
        }
        if not spans:
            return None
        views = [
            replace(view, samples=MemorySamples(spans[number].coordinates)) if number in spans else view
            for number, view in enumerate(samples.views)
        ]
        return cls(ViewSamples(views, len(samples)), form, spans)

    def inside(self, weight: Weight) -> Weight:
        """Return the part of a weight on the given samples that lies in the span, as one on the coordinates."""
        assert isinstance(weight, ViewsWeight)
        parts = [
            FullWeight(self.spans[k].inside(own.to_dense().ravel().astype(np.float64))) if k in self.spans else own
            for k, own in enumerate(weight.weights)
        ]
        return ViewsWeight.of(replace(self.form, shapes=tuple(part.shape for part in parts)), parts)

    def outside(self, fit: Fit) -> Fit:
        """Return a fit to the coordinates as one to the given samples."""
        assert isinstance(fit.weight, ViewsWeight)
        parts = [
            FullWeight(self.spans[k].outside(own.to_dense()[None]).reshape(shape)) if k in self.spans else own
            for k, (own, shape) in enumerate(zip(fit.weight.weights, self.form.shapes, strict=True))
        ]
        weight = ViewsWeight.of(self.form, parts)
        return replace(fit, weight=weight, intercept=fit.intercept - self.at_means(weight))

    def at_means(self, weight: Weight) -> float:
        """Return the score of the means that coordinates are relative to."""
        dense = self.form.split(weight.to_dense())
        views = self.samples.views
        return sum(views[k].factor * float(dense[k].ravel() @ span.mean) for k, span in self.spans.items())


def is_long(view: View) -> bool:
    """Return whether a view in memory has far more entries than samples, so that its span is quickly computed."""
    samples = view.samples
    few = 0 < len(samples) <= tuning.MANY_SAMPLES
    return samples.in_memory and few and prod(samples.shape) >= tuning.LONG_VIEW * len(samples)
