"""Transformers from samples to what a linear model can use: maps along modes, spectra, covariances, convolutions."""

from .mode_maps import Decimate, Differences, ModeMap, Project, Smooth, Whiten, Xdawn

__all__ = [
    "Decimate",
    "Differences",
    "ModeMap",
    "Project",
    "Smooth",
    "Whiten",
    "Xdawn",
]
