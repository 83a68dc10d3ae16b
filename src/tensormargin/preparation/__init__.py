"""Transformers from tensors to tensors: scaling, confounds, folding, masks, crops, sizes, lengths and views."""

from ._base import KeepsTensors, checked_mode, takes_nan, takes_ragged
from .confounds import Deconfound, UnseenCategoryWarning
from .lengths import EqualLength
from .recipe import MaskImage, Recipe
from .resizing import Resize, resize
from .scaling import TensorScaler
from .shaping import Crop, Mask, MoveMode, Tensorize
from .steps import describe_step, with_mode_numbers
from .union import Composite, TensorUnion, ViewTransformer

__all__ = [
    "Composite",
    "Crop",
    "Deconfound",
    "EqualLength",
    "KeepsTensors",
    "Mask",
    "MaskImage",
    "MoveMode",
    "Recipe",
    "Resize",
    "TensorScaler",
    "TensorUnion",
    "Tensorize",
    "UnseenCategoryWarning",
    "ViewTransformer",
    "checked_mode",
    "describe_step",
    "resize",
    "takes_nan",
    "takes_ragged",
    "with_mode_numbers",
]
