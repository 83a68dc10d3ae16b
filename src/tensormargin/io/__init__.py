"""Load samples from files, and save and load models."""

from .arrays import BadFileError, check_labelled, digest, read_arrays
from .atomic import replacing
from .load import SampleSet, leakage_warnings, load_samples
from .models import ModelFile, load_model, read_facts, save_model

__all__ = [
    "BadFileError",
    "ModelFile",
    "SampleSet",
    "check_labelled",
    "digest",
    "leakage_warnings",
    "load_model",
    "load_samples",
    "read_arrays",
    "read_facts",
    "replacing",
    "save_model",
]
