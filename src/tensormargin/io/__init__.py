"""Samples from files, models to and from files, predictions as tables, and export to ONNX.

It may import the wings up to inspection. It knows nothing of searches, evaluations or reports.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..runtime.lazy import lazy_exports

if TYPE_CHECKING:
    from .archive import TEXT_BYTES as TEXT_BYTES
    from .arrays import BadFileError as BadFileError, check_labelled as check_labelled, digest as digest
    from .arrays import read_arrays as read_arrays
    from .containers import arrays_of as arrays_of
    from .checksums import check_sha256 as check_sha256, sha256_of as sha256_of
    from .load import load_samples as load_samples
    from .models import ModelFile as ModelFile, listed_shape as listed_shape, load_model as load_model
    from .models import read_facts as read_facts, save_model as save_model
    from .options import OPTIONS as OPTIONS, describe_loading as describe_loading
    from .onnx_export import export_onnx as export_onnx
    from .outputs import MARK as MARK, check_ending as check_ending, is_ours as is_ours, save_array as save_array
    from .outputs import write_samples as write_samples
    from .predictions import Agreement as Agreement, agreement as agreement
    from .predictions import agreement_on_scene as agreement_on_scene
    from .predictions import axes_warning as axes_warning, check_samples_fit as check_samples_fit
    from .predictions import confounds_needed as confounds_needed, neutral as neutral
    from .predictions import predictions_of as predictions_of, scene_predictions as scene_predictions
    from .predictions import training_record as training_record, write_predictions as write_predictions
    from .tables import Coding as Coding
    from .samples import SampleSet as SampleSet, leakage_warnings as leakage_warnings
    from .scenes import Scene as Scene, load_scene as load_scene, named_classes as named_classes
    from .views import KnownViews as KnownViews, known_views as known_views, load_views as load_views
    from .volumes import load_mask as load_mask, read_nifti as read_nifti
    from ..runtime import all_or_none as all_or_none, replacing as replacing

__all__ = [
    "BadFileError", "KnownViews", "ModelFile", "SampleSet", "Scene", "all_or_none", "check_labelled", "digest",
    "is_ours", "known_views", "leakage_warnings", "load_mask", "load_model", "load_samples", "load_scene",
    "load_views", "named_classes", "read_arrays", "read_facts", "replacing", "save_model", "sha256_of",
    "write_samples",
]  # fmt: skip
__getattr__, __dir__ = lazy_exports(__name__)
