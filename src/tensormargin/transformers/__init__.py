"""Transformers from tensors to tensors: preparation, representations and kernels.

It may import runtime, data and fitting. It knows nothing of classifiers, searches or files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..runtime.lazy import lazy_exports

if TYPE_CHECKING:
    from .kernels.kernels import Kernel as Kernel
    from .kernels.transformer import KERNELS as KERNELS, TensorKernel as TensorKernel
    from .preparation._base import KeepsTensors as KeepsTensors, checked_mode as checked_mode
    from .preparation._base import takes_nan as takes_nan, takes_ragged as takes_ragged
    from .preparation.confounds import Deconfound as Deconfound, UnseenCategoryWarning as UnseenCategoryWarning
    from .preparation.recipe import MaskImage as MaskImage, Recipe as Recipe
    from .preparation.resizing import EqualLength as EqualLength, Resize as Resize, resize as resize
    from .preparation.scaling import TensorScaler as TensorScaler
    from .preparation.shaping import AnovaMask as AnovaMask, Crop as Crop, Mask as Mask, MoveMode as MoveMode
    from .preparation.shaping import SetsToZero as SetsToZero, Tensorize as Tensorize
    from .preparation.steps import axes_through as axes_through, describe_step as describe_step
    from .preparation.steps import fit_transformed as fit_transformed, flat_steps as flat_steps
    from .preparation.steps import is_masker as is_masker, is_sampler as is_sampler, kind_names as kind_names
    from .preparation.steps import metadata_for as metadata_for, named_steps as named_steps
    from .preparation.steps import needed_metadata as needed_metadata, through as through
    from .preparation.steps import transformed as transformed, with_mode_numbers as with_mode_numbers
    from .preparation.union import Composite as Composite, TensorUnion as TensorUnion
    from .preparation.union import ViewTransformer as ViewTransformer
    from .representations.base import shared as shared
    from .representations.band_power import BandPower as BandPower
    from .representations.convolutions import Convolutions as Convolutions
    from .representations.covariances import Connectome as Connectome, Covariances as Covariances
    from .representations.corrections import Detrend as Detrend, Spectra as Spectra
    from .representations.imputation import Impute as Impute
    from .representations.mode_maps import Decimate as Decimate, Differences as Differences, ModeMap as ModeMap
    from .representations.mode_maps import Project as Project, Smooth as Smooth, Whiten as Whiten, Xdawn as Xdawn
    from .representations.patches import Patches as Patches

__all__ = [
    "KERNELS", "AnovaMask", "BandPower", "Composite", "Connectome", "Convolutions", "Covariances", "Crop",
    "Decimate", "Deconfound", "Detrend", "Differences", "EqualLength", "Impute", "KeepsTensors", "Kernel", "Mask",
    "MaskImage", "ModeMap", "MoveMode", "Patches", "Project", "Recipe", "Resize", "Smooth", "Spectra",
    "TensorKernel", "TensorScaler", "TensorUnion", "Tensorize", "UnseenCategoryWarning", "ViewTransformer", "Whiten",
    "Xdawn", "checked_mode", "describe_step", "resize", "takes_nan", "takes_ragged", "with_mode_numbers",
]  # fmt: skip
__getattr__, __dir__ = lazy_exports(__name__)
