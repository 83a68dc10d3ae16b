"""Figures of fitted classifiers, maps and searches.

Every plot function draws on the given axes, or on a new pyplot figure, and returns the axes; nothing is shown or saved.
"""

from .curves import plot_calibration, plot_roc
from .files import check_map_path, save_map
from .fits import plot_convergence, plot_factors
from .maps import plot_map, plot_weight
from .margins import plot_margins
from .permutations import plot_permutations
from .scenes import plot_scene, save_scene
from .scores import plot_comparison, plot_ranks, plot_search

__all__ = [
    "check_map_path",
    "plot_calibration",
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
    "plot_weight",
    "save_map",
    "save_scene",
]
