"""Samples and what is known of them: conversion, checks, axes, views, metadata, leakage, and limits on files.

It may import runtime. It knows nothing of weights and estimators, and parses no files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..runtime.lazy import lazy_exports

if TYPE_CHECKING:
    from .axes import AnyAxes as AnyAxes, Axes as Axes, Axis as Axis, axes_facts as axes_facts
    from .axes import axes_from_facts as axes_from_facts, format_axes as format_axes, axes_of as axes_of
    from .axes import axes_of_picture as axes_of_picture, axes_of_volume as axes_of_volume
    from .axes import checked_any_axes as checked_any_axes, checked_axes as checked_axes, colour_mode as colour_mode
    from .axes import colour_order as colour_order, contradictions as contradictions, mode_number as mode_number
    from .axes import parsed_axes as parsed_axes
    from .checkpoints import Checkpoint as Checkpoint, Units as Units, run_units as run_units, units_of as units_of
    from .conversion import Shape as Shape, as_mask as as_mask, as_samples as as_samples, axes_in as axes_in
    from .conversion import is_masker as is_masker, is_ragged as is_ragged, format_shape as format_shape
    from .conversion import shape_of_samples as shape_of_samples, vector_of as vector_of
    from .sample_summaries import survey as survey, where_not_finite as where_not_finite
    from .leakage import blocks_in_time as blocks_in_time, describe_confounds as describe_confounds
    from .leakage import describe_giveaways as describe_giveaways, describe_order as describe_order
    from .leakage import log_arrangements as log_arrangements, warn_of_leakage as warn_of_leakage
    from .leakage import LeakageWarning as LeakageWarning, content_ranks as content_ranks, copies_in as copies_in
    from .leakage import describe_duplicates as describe_duplicates, warn_of_duplicates as warn_of_duplicates
    from .limits import BadFileError as BadFileError, DEFAULT_RULES as DEFAULT_RULES, FileRules as FileRules
    from .limits import MOST_DEPTH as MOST_DEPTH, MOST_MEMBERS as MOST_MEMBERS, MOST_PAGES as MOST_PAGES
    from .limits import check_inside as check_inside, check_members as check_members, check_regular as check_regular
    from .limits import check_text as check_text, missing_chunks as missing_chunks, on_admission as on_admission
    from .limits import parsed_bytes as parsed_bytes
    from .limits import parsing as parsing, require_package as require_package, shape_of_part as shape_of_part
    from .validation import Metadata as Metadata, NEEDS as NEEDS, NO_METADATA as NO_METADATA
    from .validation import check_needs as check_needs, checked_confounds as checked_confounds, names_of as names_of
    from .notebooks import FactsMixin as FactsMixin, facts_table as facts_table, map_picture as map_picture
    from .notebooks import rows_table as rows_table
    from .sample_summaries import Summary as Summary, joined_summaries as joined_summaries
    from .sample_summaries import summary_parts as summary_parts
    from .space import Orientation as Orientation, checked_affine as checked_affine, millimetres as millimetres
    from .space import resampled as resampled, turned_to as turned_to
    from .training_record import ComparedSamples as ComparedSamples, OtherScale as OtherScale
    from .training_record import TrainingRecord as TrainingRecord, short_facts as short_facts
    from .validation import NOT_FINITE as NOT_FINITE, all_finite as all_finite, checked_labels as checked_labels
    from .validation import checked_samples as checked_samples, checked_training as checked_training
    from .validation import chunked_along_samples as chunked_along_samples, compare_axes as compare_axes
    from .validation import named_as_fitted as named_as_fitted, reject_not_finite as reject_not_finite
    from .validation import same_library as same_library, samples_as_fitted as samples_as_fitted
    from .validation import samples_of_any_length as samples_of_any_length, text_or_numbers as text_or_numbers
    from .views import COVARIATES as COVARIATES, Shapes as Shapes, Views as Views, is_views as is_views
    from .views import errors_name_view as errors_name_view
    from .views import missing_samples as missing_samples, reject_partly_finite as reject_partly_finite
    from .views import reject_without_views as reject_without_views, shape_of as shape_of
    from .views import views_or_array as views_or_array, views_or_samples as views_or_samples

__getattr__, __dir__ = lazy_exports(__name__)
