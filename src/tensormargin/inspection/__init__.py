"""What a fitted model does: its steps, affine form, weight maps, patterns, margins, clusters and shares of views.

It may import the wings up to estimators. It knows nothing of files, searches or figures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..runtime.lazy import lazy_exports

if TYPE_CHECKING:
    from .clusters import ClusterTable as ClusterTable, cluster_table as cluster_table
    from .margins import Bound as Bound, MarginReport as MarginReport, cantelli_bound as cantelli_bound
    from .margins import margin_report as margin_report
    from .model_chain import AveragedClassifier as AveragedClassifier, ModelChain as ModelChain
    from .model_chain import affine_form as affine_form, weight_maps as weight_maps
    from .model_steps import check_metadata_for as check_metadata_for, fit_model as fit_model
    from .model_steps import last_estimator as last_estimator, meaning_of_sign as meaning_of_sign
    from .model_steps import metadata_for_last_step as metadata_for_last_step, needs_groups as needs_groups
    from .model_steps import predicted_labels as predicted_labels, samples_for_last_step as samples_for_last_step
    from .patterns import ViewMaps as ViewMaps, activation_pattern as activation_pattern, pattern_of as pattern_of
    from .patterns import view_maps as view_maps
    from .pull_backs import AffineForm as AffineForm, remembered_shape as remembered_shape
    from .pull_backs import NotAffineError as NotAffineError, every_step as every_step
    from .pull_backs import register_pull_back as register_pull_back
    from .patterns import format_feature_views as format_feature_views, view_shares as view_shares

__getattr__, __dir__ = lazy_exports(__name__)
