"""Figures of fitted classifiers, maps and searches.

Every plot function draws on the given axes, or on a new pyplot figure, and returns the axes; nothing is shown or saved.
It may import the wings up to selection and datasets. It knows nothing of evaluations and reports.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..runtime.lazy import lazy_exports

if TYPE_CHECKING:
    from .channels import plot_butterfly, plot_channels, plot_spectra
    from .files import check_map_path, save_map, view_path
    from .fits import plot_convergence, plot_factors, plot_margins
    from .maps import plot_map, plot_pictures, plot_weight
    from .scenes import plot_scene, save_scene
    from .scores import plot_calibration, plot_comparison, plot_permutations, plot_ranks, plot_roc, plot_search
    from .style import channel_name, fitting_axes
    from .topography import FEWEST_CHANNELS, electrode_positions, plot_topographies, plot_topography
    from .volumes import plot_volume, view_map

__all__ = [
    "check_map_path", "electrode_positions", "plot_butterfly", "plot_calibration", "plot_channels",
    "plot_comparison", "plot_convergence", "plot_factors", "plot_map", "plot_margins", "plot_permutations",
    "plot_ranks", "plot_roc", "plot_scene", "plot_search", "plot_spectra", "plot_topographies", "plot_topography",
    "plot_volume", "plot_weight", "save_map", "save_scene", "view_map",
]  # fmt: skip
__getattr__, __dir__ = lazy_exports(__name__)
