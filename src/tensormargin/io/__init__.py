"""Load samples from files, and save and load models."""

from .arrays import BadFileError, check_labelled, digest, read_arrays
from .atomic import replacing
from .digests import sha256_of
from .load import SampleSet, leakage_warnings, load_samples
from .models import ModelFile, load_model, read_facts, save_model
from .views import KnownViews, known_views, load_views

__all__ = [
    "BadFileError",
    "KnownViews",
    "ModelFile",
    "SampleSet",
    "check_labelled",
    "digest",
    "known_views",
    "leakage_warnings",
    "load_model",
    "load_samples",
    "load_views",
    "read_arrays",
    "read_facts",
    "replacing",
    "save_model",
    "sha256_of",
]
