"""Decompositions of the weight tensor. To add one, add a file here and a line in `FORMATS`."""

from __future__ import annotations

from .base import Block, Format, Tangent, Weight
from .cp import CPWeight
from .full import FullWeight
from .tt import TTWeight
from .tucker import TuckerWeight
from .views import ViewsFormat, ViewsWeight

FORMATS: dict[str, type[Weight]] = {"full": FullWeight, "cp": CPWeight, "tucker": TuckerWeight, "tt": TTWeight}

__all__ = ["FORMATS", "Block", "Format", "Tangent", "ViewsFormat", "ViewsWeight", "Weight"]
