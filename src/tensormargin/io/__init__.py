"""Samples from files, models to and from files, predictions as tables, and export to ONNX.

It may import the wings up to inspection. It knows nothing of searches, evaluations or reports.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..runtime.lazy import lazy_exports

if TYPE_CHECKING:
    from ..runtime import all_or_none, replacing
    from .archive import TEXT_BYTES
    from .arrays import BadFileError, check_labelled, digest, read_arrays
    from .checksums import check_sha256, sha256_of
    from .class_maps import MAPS, class_map_files, save_class_map
    from .containers import arrays_of
    from .georeference import Georeference
    from .labels import groups_in_columns, quick_classes
    from .load import load_samples
    from .models import ModelFile, listed_shape, load_model, read_facts, save_model
    from .onnx_export import export_onnx
    from .options import OPTIONS, describe_loading
    from .outputs import MARK, check_ending, is_ours, save_array, write_samples
    from .predictions import UNEQUAL, Agreement, PredictionRun, Predictions, agreement_on_scene, axes_warning
    from .predictions import check_samples_fit, check_truth, confounds_needed, less_probable, neutral, no_class, painted
    from .predictions import probabilities_from, scene_predictions, training_record, unequal_classes
    from .predictions import write_predictions, write_table
    from .samples import SampleSet, leakage_warnings
    from .scenes import Scene, is_scene, load_scene, named_classes, patch_size
    from .views import KnownViews, known_views, load_views
    from .volumes import load_mask, read_nifti

__all__ = [
    "BadFileError", "Georeference", "KnownViews", "ModelFile", "SampleSet", "Scene", "all_or_none", "check_labelled",
    "digest", "is_ours", "known_views", "leakage_warnings", "load_mask", "load_model", "load_samples", "load_scene",
    "load_views", "named_classes", "read_arrays", "read_facts", "replacing", "save_class_map", "save_model",
    "sha256_of", "write_samples",
]  # fmt: skip
__getattr__, __dir__ = lazy_exports(__name__)
