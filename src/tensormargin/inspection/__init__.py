"""What a fitted model does: its steps, affine form, weight maps, patterns, margins, clusters and shares of views.

It may import the wings up to estimators. It knows nothing of files, searches or figures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..runtime.lazy import lazy_exports

if TYPE_CHECKING:
    from .affine import AffineForm as AffineForm, NotAffineError as NotAffineError, affine_form as affine_form
    from .affine import form_of_chain as form_of_chain, register_pull_back as register_pull_back
    from .affine import remembered_shape as remembered_shape
    from .chains import Chain as Chain, chain_of as chain_of, every_step as every_step, known_axes as known_axes
    from .chains import without_confounds as without_confounds
    from .clusters import ClusterTable as ClusterTable, cluster_table as cluster_table
    from .margins import Bound as Bound, MarginReport as MarginReport, cantelli_bound as cantelli_bound
    from .margins import margin_report as margin_report
    from .model_steps import AveragedClassifier as AveragedClassifier, all_steps as all_steps
    from .model_steps import axes_at_classifier as axes_at_classifier, axes_of_maps as axes_of_maps
    from .model_steps import axes_of_view_maps as axes_of_view_maps, check_metadata_for as check_metadata_for
    from .model_steps import check_picture as check_picture, classifier_of as classifier_of
    from .model_steps import confounds_by_view as confounds_by_view, feature_views as feature_views
    from .model_steps import fit_model as fit_model, last_estimator as last_estimator
    from .model_steps import meaning_of_sign as meaning_of_sign, metadata_for_last_step as metadata_for_last_step
    from .model_steps import needs_groups as needs_groups, predicted_labels as predicted_labels
    from .model_steps import problem_names as problem_names, removed_confounds as removed_confounds
    from .model_steps import sample_shape as sample_shape, samples_for_last_step as samples_for_last_step
    from .model_steps import samples_for_map as samples_for_map, search_of as search_of, weight_maps as weight_maps
    from .model_steps import wrappers_of as wrappers_of
    from .patterns import ViewMaps as ViewMaps, activation_pattern as activation_pattern, pattern_of as pattern_of
    from .patterns import view_maps as view_maps
    from .shares import format_feature_views as format_feature_views, view_shares as view_shares

__getattr__, __dir__ = lazy_exports(__name__)
