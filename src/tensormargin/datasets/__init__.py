"""Loaders of real data sets and generators of synthetic ones. All return a scikit-learn Bunch of tensors.

``axes`` has the names, units and coordinates of the modes of a sample where the source of a data set states them. It
may import the wings up to io. It knows nothing of searches, evaluations or reports.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..runtime.lazy import lazy_exports

if TYPE_CHECKING:
    from ._store import DataUnavailableError as DataUnavailableError, cache_folder as cache_folder
    from .brain import load_adhd as load_adhd, load_adni as load_adni, load_eeg as load_eeg
    from .brain import load_haxby_slice as load_haxby_slice, load_muse_ssvep as load_muse_ssvep
    from .brain import load_schizo_fnc as load_schizo_fnc, standardise_runs as standardise_runs
    from .catalogue import CATALOGUE as CATALOGUE, Entry as Entry, export as export, is_at_hand as is_at_hand
    from .catalogue import load_by_name as load_by_name
    from .images import fetch_mnist as fetch_mnist, fetch_orl as fetch_orl, load_adrenal as load_adrenal
    from .images import load_digits_tensor as load_digits_tensor, load_indian_pines as load_indian_pines
    from .measurements import load_eem_olive_oil as load_eem_olive_oil, load_ifnb_ms as load_ifnb_ms
    from .measurements import load_modis_matogrosso as load_modis_matogrosso, load_pmd_posture as load_pmd_posture
    from .measurements import load_basic_motions as load_basic_motions, load_epilepsy as load_epilepsy
    from .measurements import load_ering as load_ering, load_libras as load_libras
    from .measurements import load_precog_actions as load_precog_actions, load_robot_failures as load_robot_failures
    from .synthetic import make_fmri_like as make_fmri_like, make_low_rank_classes as make_low_rank_classes

__all__ = [
    "CATALOGUE", "DataUnavailableError", "Entry", "cache_folder", "export", "fetch_mnist", "fetch_orl", "is_at_hand",
    "load_adhd", "load_adni", "load_adrenal", "load_basic_motions", "load_by_name", "load_digits_tensor", "load_eeg",
    "load_eem_olive_oil", "load_epilepsy", "load_ering", "load_haxby_slice", "load_ifnb_ms", "load_indian_pines",
    "load_libras", "load_modis_matogrosso", "load_muse_ssvep", "load_pmd_posture", "load_precog_actions",
    "load_robot_failures", "load_schizo_fnc", "make_fmri_like", "make_low_rank_classes", "standardise_runs",
]  # fmt: skip
__getattr__, __dir__ = lazy_exports(__name__)
