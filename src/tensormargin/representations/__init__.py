"""Transformers from samples to what a linear model can use: maps along modes, spectra, covariances, convolutions."""

from .anova import AnovaMask
from .band_power import BandPower
from .connectome import Connectome
from .convolutions import Convolutions
from .covariances import Covariances
from .detrend import Detrend
from .imputation import Impute
from .mode_maps import Decimate, Differences, ModeMap, Project, Smooth, Whiten, Xdawn
from .patches import Patches
from .spectra import Spectra

__all__ = [
    "AnovaMask",
    "BandPower",
    "Connectome",
    "Convolutions",
    "Covariances",
    "Decimate",
    "Detrend",
    "Differences",
    "Impute",
    "ModeMap",
    "Patches",
    "Project",
    "Smooth",
    "Spectra",
    "Whiten",
    "Xdawn",
]
