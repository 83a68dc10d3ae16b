"""Transformers from tensors to tensors: scaling, confounds, folding, masks, crops, sizes, lengths and views."""

from ._base import KeepsTensors, takes_ragged
from .confounds import Deconfound
from .lengths import EqualLength
from .recipe import Recipe
from .resizing import Resize, resize
from .scaling import TensorScaler
from .shaping import Crop, Mask, Tensorize
from .union import Composite, TensorUnion, ViewTransformer

__all__ = [
    "Composite",
    "Crop",
    "Deconfound",
    "EqualLength",
    "KeepsTensors",
    "Mask",
    "Recipe",
    "Resize",
    "TensorScaler",
    "TensorUnion",
    "Tensorize",
    "ViewTransformer",
    "resize",
    "takes_ragged",
]
