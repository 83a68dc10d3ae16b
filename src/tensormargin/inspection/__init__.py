"""What a fitted model does: its steps, affine form, weight maps, patterns, margins, clusters and shares of views.

It may import the wings up to estimators. It knows nothing of files, searches or figures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..runtime.lazy import lazy_exports

if TYPE_CHECKING:
    from .clusters import ClusterTable, cluster_table
    from .margins import Bound, MarginReport, cantelli_bound, margin_report
    from .model_chain import AveragedClassifier, MapText, ModelChain, affine_form, weight_maps
    from .model_steps import check_metadata_for, fit_model, last_estimator, metadata_for_last_step
    from .model_steps import needs_groups, predicted_labels, samples_for_last_step
    from .patterns import REPRODUCIBLE, Pattern, ViewMaps, activation_pattern, feature_patterns, format_feature_views
    from .patterns import in_units, named_patterns, shown_patterns, view_maps, view_shares
    from .pull_backs import AffineForm, NotAffineError, every_step, register_pull_back, remembered_shape

__getattr__, __dir__ = lazy_exports(__name__)
