"""Figures of fitted classifiers, maps and searches.

Every plot function draws on the given axes, or on a new pyplot figure, and returns the axes; nothing is shown or saved.
"""

from .channels import plot_butterfly, plot_channels
from .curves import plot_calibration, plot_roc
from .electrodes import electrode_positions
from .files import check_map_path, save_map
from .fits import plot_convergence, plot_factors
from .maps import plot_map, plot_weight
from .margins import plot_margins
from .permutations import plot_permutations
from .scenes import plot_scene, save_scene
from .scores import plot_comparison, plot_ranks, plot_search
from .spectra import plot_spectra
from .topography import plot_topographies, plot_topography
from .volumes import plot_volume, view_map

__all__ = [
    "check_map_path",
    "electrode_positions",
    "plot_butterfly",
    "plot_calibration",
    "plot_channels",
    "plot_comparison",
    "plot_convergence",
    "plot_factors",
    "plot_map",
    "plot_margins",
    "plot_permutations",
    "plot_ranks",
    "plot_roc",
    "plot_scene",
    "plot_search",
    "plot_spectra",
    "plot_topographies",
    "plot_topography",
    "plot_volume",
    "plot_weight",
    "save_map",
    "save_scene",
    "view_map",
]
