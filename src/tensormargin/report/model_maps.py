"""The maps of a model and what they are drawn with, computed once for all sections of a page."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..data import Metadata
from ..inspection import ModelChain, NotAffineError, pattern_of, weight_maps
from ..io import SampleSet


@dataclass(frozen=True)
class ModelMaps:
    """The maps of a fitted model.

    Attributes
    ----------
    model : estimator
    samples : SampleSet or None
        The samples that it was fitted to.
    stored : ndarray, dictionary of them or None
        Activation patterns that are already known, such as those in the file of the model.
    """

    model: Any
    samples: SampleSet | None
    stored: Any = None

    @cached_property
    def weights(self) -> Any:
        """Maps of the weight, with the binary problems first (a dictionary for views); an error if there are none."""
        try:
            ModelChain.of(self.model).check_picture()
            return weight_maps(self.model, None if self.samples is None else self.samples.data.shape[1:])
        except NotAffineError as error:
            return error

    @cached_property
    def patterns(self) -> Any:
        """Activation patterns, with the binary problems first (a dictionary for views); None if there are none."""
        return pattern_of(self.model, self.samples, self.stored)

    @cached_property
    def seen(self) -> Any:
        """The samples on the axes of the maps."""
        assert self.samples is not None
        metadata = Metadata(self.samples.groups, self.samples.confounds)
        return ModelChain.of(self.model).samples_for_map(self.samples.data, metadata)
