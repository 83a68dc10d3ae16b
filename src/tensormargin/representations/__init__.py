"""Transformers from samples to what a linear model can use: maps along modes, spectra, covariances, convolutions."""

from .band_power import BandPower
from .convolutions import Convolutions
from .covariances import Covariances
from .mode_maps import Decimate, Differences, ModeMap, Project, Smooth, Whiten, Xdawn

__all__ = [
    "BandPower",
    "Convolutions",
    "Covariances",
    "Decimate",
    "Differences",
    "ModeMap",
    "Project",
    "Smooth",
    "Whiten",
    "Xdawn",
]
