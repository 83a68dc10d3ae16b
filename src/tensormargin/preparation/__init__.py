"""Transformers from tensors to tensors: scaling, folding, masking, cropping, resizing."""

from ._base import KeepsTensors
from .recipe import Recipe
from .resizing import Resize, resize
from .scaling import TensorScaler
from .shaping import Crop, Mask, Tensorize

__all__ = ["Crop", "KeepsTensors", "Mask", "Recipe", "Resize", "TensorScaler", "Tensorize", "resize"]
