"""Transformers from tensors to tensors: scaling, folding, masking, cropping, resizing, equalising lengths."""

from ._base import KeepsTensors, takes_ragged
from .lengths import EqualLength
from .recipe import Recipe
from .resizing import Resize, resize
from .scaling import TensorScaler
from .shaping import Crop, Mask, Tensorize

__all__ = [
    "Crop",
    "EqualLength",
    "KeepsTensors",
    "Mask",
    "Recipe",
    "Resize",
    "TensorScaler",
    "Tensorize",
    "resize",
    "takes_ragged",
]
