"""Loaders of real data sets and generators of synthetic ones. All return a scikit-learn Bunch of tensors."""

from ._store import DataUnavailableError, cache_folder
from .brain import load_adhd, load_adni, load_eeg, load_haxby_slice, load_schizo_fnc, standardise_runs
from .builtin import load_digits_tensor
from .catalogue import CATALOGUE, Entry, export, is_at_hand, load_by_name
from .images import fetch_mnist, fetch_orl
from .sensors import load_adrenal, load_basic_motions, load_indian_pines
from .synthetic import make_fmri_like, make_low_rank_classes

__all__ = [
    "CATALOGUE",
    "DataUnavailableError",
    "Entry",
    "cache_folder",
    "export",
    "fetch_mnist",
    "fetch_orl",
    "is_at_hand",
    "load_adhd",
    "load_adni",
    "load_adrenal",
    "load_basic_motions",
    "load_by_name",
    "load_digits_tensor",
    "load_eeg",
    "load_haxby_slice",
    "load_indian_pines",
    "load_schizo_fnc",
    "make_fmri_like",
    "make_low_rank_classes",
    "standardise_runs",
]
