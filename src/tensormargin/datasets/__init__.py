"""Loaders of real data sets and generators of synthetic ones. All return a scikit-learn Bunch of tensors.

``axes`` has the names, units and coordinates of the modes of a sample where the source of a data set states them. It
may import the wings up to io. It knows nothing of searches, evaluations or reports.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..runtime.lazy import lazy_exports

if TYPE_CHECKING:
    from ._store import DataUnavailableError, cache_folder
    from .brain import load_adhd, load_adni, load_eeg, load_haxby_slice, load_muse_ssvep, load_schizo_fnc
    from .brain import standardise_runs
    from .catalogue import CATALOGUE, Entry, export, is_at_hand, load_by_name
    from .images import fetch_mnist, fetch_orl, load_adrenal, load_digits_tensor, load_indian_pines
    from .measurements import load_basic_motions, load_eem_olive_oil, load_epilepsy, load_ering, load_ifnb_ms
    from .measurements import load_libras, load_modis_matogrosso, load_pmd_posture, load_precog_actions
    from .measurements import load_robot_failures
    from .synthetic import make_fmri_like, make_low_rank_classes

__all__ = [
    "CATALOGUE", "DataUnavailableError", "Entry", "cache_folder", "export", "fetch_mnist", "fetch_orl", "is_at_hand",
    "load_adhd", "load_adni", "load_adrenal", "load_basic_motions", "load_by_name", "load_digits_tensor", "load_eeg",
    "load_eem_olive_oil", "load_epilepsy", "load_ering", "load_haxby_slice", "load_ifnb_ms", "load_indian_pines",
    "load_libras", "load_modis_matogrosso", "load_muse_ssvep", "load_pmd_posture", "load_precog_actions",
    "load_robot_failures", "load_schizo_fnc", "make_fmri_like", "make_low_rank_classes", "standardise_runs",
]  # fmt: skip
__getattr__, __dir__ = lazy_exports(__name__)
