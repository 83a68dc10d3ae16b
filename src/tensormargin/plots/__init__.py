"""Figures of fitted classifiers, maps and searches.

Every plot function draws on the given axes, or on a new pyplot figure, and returns the axes; nothing is shown or saved.
It may import the wings up to selection and datasets. It knows nothing of evaluations and reports.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..runtime.lazy import lazy_exports

if TYPE_CHECKING:
    from .channels import plot_butterfly as plot_butterfly, plot_channels as plot_channels
    from .channels import plot_spectra as plot_spectra
    from .files import check_map_path as check_map_path, save_map as save_map, view_path as view_path
    from .fits import plot_convergence as plot_convergence, plot_factors as plot_factors, plot_margins as plot_margins
    from .maps import plot_map as plot_map, plot_pictures as plot_pictures, plot_weight as plot_weight
    from .scenes import plot_scene as plot_scene, save_scene as save_scene
    from .scores import plot_calibration as plot_calibration, plot_comparison as plot_comparison
    from .scores import plot_permutations as plot_permutations, plot_ranks as plot_ranks, plot_roc as plot_roc
    from .scores import plot_search as plot_search
    from .style import WAVENUMBERS as WAVENUMBERS, channel_name as channel_name, fitting_axes as fitting_axes
    from .topography import FEWEST_CHANNELS as FEWEST_CHANNELS, electrode_positions as electrode_positions
    from .topography import plot_topographies as plot_topographies, plot_topography as plot_topography
    from .volumes import plot_volume as plot_volume, view_map as view_map

__all__ = [
    "check_map_path", "electrode_positions", "plot_butterfly", "plot_calibration", "plot_channels",
    "plot_comparison", "plot_convergence", "plot_factors", "plot_map", "plot_margins", "plot_permutations",
    "plot_ranks", "plot_roc", "plot_scene", "plot_search", "plot_spectra", "plot_topographies", "plot_topography",
    "plot_volume", "plot_weight", "save_map", "save_scene", "view_map",
]  # fmt: skip
__getattr__, __dir__ = lazy_exports(__name__)
