"""Full weights of long views, fitted in the span of the samples.

Beside low-rank weights, a full weight is solved for in every sweep. It is a combination of the centred samples. Where
these have many more entries than there are samples, their coordinates in an orthonormal basis of their span replace
them: the fit is the same, and its designs have no more columns for the view than there are samples.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod

import numpy as np
from scipy.linalg import solve_triangular

from ..fitting import (
    Fit,
    FullWeight,
    Matrix,
    MemorySamples,
    Samples,
    View,
    ViewSamples,
    ViewsFormat,
    ViewsWeight,
    Weight,
    cholesky_rows,
)
from ..runtime import Array, FloatArray, tuning


@dataclass(frozen=True)
class ViewInSpan:
    """One view in the span of its samples.

    The basis is that of a pivoted Cholesky factorisation: some samples, orthonormalised by a triangular matrix.

    Attributes
    ----------
    view : View
        With the coordinates as its samples.
    design : Matrix
        The samples as they are read.
    centre : ndarray of shape (n_entries,)
        Their mean, zero if the view is not centred.
    chosen : ndarray of int
        The samples that the basis is made of.
    triangle : ndarray of shape (n_chosen, n_chosen)
        Coordinates of these samples.
    """

    view: View
    design: Matrix
    centre: FloatArray
    chosen: Array
    triangle: FloatArray

    @staticmethod
    def pays(view: View) -> bool:
        """Return whether coordinates are far fewer than entries, and quickly computed."""
        samples = view.samples
        few = 0 < len(samples) <= tuning.MANY_SAMPLES
        return samples.in_memory and few and prod(samples.shape) >= tuning.LONG_VIEW * len(samples)

    @classmethod
    def of(cls, view: View) -> ViewInSpan:
        """Return the coordinates of the samples of a view, relative to their mean if it is centred."""
        design, shares = Matrix(view.samples.matrix()), view.shares
        centre = np.zeros(design.shape[1]) if shares is None else design.weighted_sum(shares)
        coordinates, chosen = cholesky_rows(design.gram(centre))
        inside = replace(view, samples=MemorySamples(coordinates))
        return cls(inside, design, centre, chosen, coordinates[chosen])

    def inside(self, weight: Weight) -> Weight:
        """Return the part of a weight that lies in the span, as one of the coordinates."""
        dense = weight.to_dense().ravel().astype(np.float64)
        scores = self.design.products(dense) - float(self.centre @ dense)
        return FullWeight(solve_triangular(self.triangle, scores[self.chosen], lower=True, check_finite=False))

    def outside(self, weight: Weight, shape: tuple[int, ...]) -> Weight:
        """Return a weight of the coordinates as one of the samples."""
        shares = np.zeros(self.design.shape[0])
        shares[self.chosen] = solve_triangular(
            self.triangle, weight.to_dense(), lower=True, trans=1, check_finite=False
        )
        dense = self.design.weighted_sum(shares) - shares.sum() * self.centre
        return FullWeight(dense.reshape(shape))


@dataclass(frozen=True)
class SpanOfViews:
    """The samples of a fit to several views, some of them in the span of their samples.

    Attributes
    ----------
    samples : ViewSamples
    form : ViewsFormat
        The formats of the given samples.
    spans : mapping of int to ViewInSpan
        By the number of the view.
    """

    samples: ViewSamples
    form: ViewsFormat
    spans: Mapping[int, ViewInSpan]

    @classmethod
    def of(cls, samples: Samples, form: object) -> SpanOfViews | None:
        """Return the samples of a fit in their span, or None if it would not get faster."""
        if not isinstance(samples, ViewSamples) or not isinstance(form, ViewsFormat):
            return None
        flat = [one is FullWeight for one in form.formats]
        if all(flat):  # one convex problem, solved once
            return None
        every = enumerate(zip(samples.views, flat, strict=True))
        spans = {number: ViewInSpan.of(view) for number, (view, own) in every if own and ViewInSpan.pays(view)}
        if not spans:
            return None
        views = [spans[number].view if number in spans else view for number, view in enumerate(samples.views)]
        return cls(ViewSamples(views, len(samples)), form, spans)

    def inside(self, weight: Weight) -> Weight:
        """Return the part of a weight of the given samples that lies in the span, as one of the coordinates."""
        assert isinstance(weight, ViewsWeight)
        parts = [self.spans[k].inside(own) if k in self.spans else own for k, own in enumerate(weight.weights)]
        shapes = tuple(part.shape for part in parts)
        return ViewsWeight.of(replace(self.form, shapes=shapes), parts)

    def outside(self, fit: Fit) -> Fit:
        """Return a fit to the coordinates as one to the given samples."""
        assert isinstance(fit.weight, ViewsWeight)
        parts = [
            self.spans[k].outside(own, self.form.shapes[k]) if k in self.spans else own
            for k, own in enumerate(fit.weight.weights)
        ]
        weight = ViewsWeight.of(self.form, parts)
        return replace(fit, weight=weight, intercept=fit.intercept - self.at_centres(weight))

    def at_centres(self, weight: Weight) -> float:
        """Return the score of the means that coordinates are relative to."""
        assert isinstance(weight, ViewsWeight)
        dense = self.form.split(weight.to_dense())
        return sum(one.view.factor * float(dense[k].ravel() @ one.centre) for k, one in self.spans.items())
