"""Load samples from files, and save and load models."""

from .arrays import BadFileError, check_labelled, digest, read_arrays
from .atomic import all_or_none, replacing
from .digests import sha256_of
from .load import SampleSet, leakage_warnings, load_samples
from .masks import load_mask
from .models import ModelFile, load_model, read_facts, save_model
from .outputs import is_ours
from .scenes import Scene, load_scene, named_classes
from .views import KnownViews, known_views, load_views
from .writing import write_samples

__all__ = [
    "BadFileError",
    "KnownViews",
    "ModelFile",
    "SampleSet",
    "Scene",
    "all_or_none",
    "check_labelled",
    "digest",
    "is_ours",
    "known_views",
    "leakage_warnings",
    "load_mask",
    "load_model",
    "load_samples",
    "load_scene",
    "load_views",
    "named_classes",
    "read_arrays",
    "read_facts",
    "replacing",
    "save_model",
    "sha256_of",
    "write_samples",
]
