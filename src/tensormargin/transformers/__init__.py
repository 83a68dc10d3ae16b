"""Transformers from tensors to tensors: preparation, representations and kernels.

It may import runtime, data and fitting. It knows nothing of classifiers, searches or files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..runtime.lazy import lazy_exports

if TYPE_CHECKING:
    from .kernels.kernels import Kernel
    from .kernels.transformer import KERNELS, TensorKernel
    from .preparation._base import KeepsTensors, checked_mode, takes_nan, takes_ragged
    from .preparation.confounds import Deconfound, UnseenCategoryWarning
    from .preparation.recipe import MaskImage, Recipe
    from .preparation.resizing import EqualLength, Resize, resize
    from .preparation.scaling import TensorScaler
    from .preparation.shaping import AnovaMask, Crop, Mask, MoveMode, SetsToZero, Tensorize
    from .preparation.steps import agree, shapes_through
    from .preparation.steps import axes_through, describe_step, fit_transformed, flat_steps, is_masker, is_sampler
    from .preparation.steps import kind_names, metadata_for, named_steps, needed_metadata, through, transformed
    from .preparation.steps import with_mode_numbers
    from .preparation.union import Composite, TensorUnion, ViewTransformer
    from .representations.band_power import BandPower
    from .representations.base import shared
    from .representations.competing_convolutions import CompetingConvolutions
    from .representations.convolutions import Convolutions
    from .representations.corrections import Clip, Detrend, Spectra
    from .representations.covariances import Connectome, Covariances
    from .representations.gradient_histograms import GradientHistograms
    from .representations.imputation import Impute
    from .representations.interval_quantiles import IntervalQuantiles
    from .representations.mode_maps import Decimate, Differences, ModeMap, Project, Smooth, Whiten, Xdawn
    from .representations.patches import Patches

__all__ = [
    "KERNELS", "AnovaMask", "BandPower", "Clip", "CompetingConvolutions", "Composite", "Connectome", "Convolutions",
    "Covariances", "Crop", "Decimate", "Deconfound", "Detrend", "Differences", "EqualLength", "GradientHistograms",
    "Impute", "IntervalQuantiles", "KeepsTensors", "Kernel", "Mask", "MaskImage", "ModeMap", "MoveMode", "Patches",
    "Project", "Recipe", "Resize", "Smooth", "Spectra", "TensorKernel", "TensorScaler", "TensorUnion", "Tensorize",
    "UnseenCategoryWarning", "ViewTransformer", "Whiten", "Xdawn", "checked_mode", "describe_step", "resize",
    "takes_nan", "takes_ragged", "with_mode_numbers",
]  # fmt: skip
__getattr__, __dir__ = lazy_exports(__name__)
