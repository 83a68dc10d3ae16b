"""Transformers from tensors to tensors: scaling, confounds, folding, masks, crops, sizes and lengths."""

from ._base import KeepsTensors, checked_mode, takes_nan, takes_ragged
from .confounds import Deconfound
from .lengths import EqualLength
from .recipe import Recipe
from .resizing import Resize, resize
from .scaling import TensorScaler
from .shaping import Crop, Mask, Tensorize

__all__ = [
    "Crop",
    "Deconfound",
    "EqualLength",
    "KeepsTensors",
    "Mask",
    "Recipe",
    "Resize",
    "TensorScaler",
    "Tensorize",
    "checked_mode",
    "resize",
    "takes_nan",
    "takes_ragged",
]
