"""Samples and what is known of them: conversion, checks, axes, views, metadata, leakage, and limits on files.

It may import runtime. It knows nothing of weights and estimators, and parses no files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..runtime.lazy import lazy_exports

if TYPE_CHECKING:
    from . import fitted
    from .axes import (
        CHANNELS,
        WAVENUMBERS,
        AnyAxes,
        Axes,
        Axis,
        axes_facts,
        axes_from_facts,
        axes_of,
        axes_of_picture,
        axes_of_volume,
    )
    from .axes import as_known, checked_any_axes, checked_axes, colour_mode, colour_order, contradictions, format_axes
    from .axes import mode_number, other_frequency, parsed_axes
    from .checkpoints import Checkpoint, Units, run_units, units_of
    from .conversion import (
        Shape,
        as_mask,
        as_samples,
        axes_in,
        columns_in,
        format_shape,
        has_mask_image,
        is_ragged,
        shape_of_samples,
        taken_along,
        unit_in,
    )
    from .conversion import vector_of
    from .covariates import COVARIATE, Coding, check_no_decimal_commas, is_missing
    from .epochs import channels_of_data, describe_left_out, unit_of_channels
    from .fingerprints import fingerprint
    from .leakage import LeakageWarning, blocks_in_time, content_ranks, describe_confounds
    from .leakage import describe_duplicates, describe_giveaways, describe_order, giveaway_channels, log_arrangements
    from .leakage import warn_of_duplicates, warn_of_leakage
    from .limits import DEFAULT_RULES, MOST_DEPTH, MOST_MEMBERS, MOST_PAGES, BadFileError, DamagedFileError, FileRules
    from .limits import (
        blaming_the_system,
        check_members,
        check_text,
        lacks_memory,
        missing_chunks,
        on_admission,
        parsed_bytes,
        parsing,
        require_package,
        shape_of_part,
    )
    from .notebooks import FactsMixin, facts_table, fit_rows, map_picture, rows_table, sample_picture
    from .sample_summaries import survey, where_not_finite
    from .scale import OtherScale, any_scale, check_scale, scale_of_fit, takes_any_scale
    from .space import Orientation, checked_affine, differing_places, millimetres, resampled, turned_to
    from .training_record import ComparedSamples, TrainingRecord, short_facts
    from .validation import (
        NEEDS,
        NOT_FINITE,
        NO_METADATA,
        SCALE_SEEN,
        SEEN,
        UNNAMED,
        TOO_LARGE,
        Metadata,
        all_finite,
        check_needs,
        check_writable,
        checked_confounds,
    )
    from .validation import checked_groups, checked_labels, checked_samples, checked_training
    from .validation import check_classes, no_classes, order_of
    from .validation import chunked_along_samples, in_order_of_fit, remember_axes, seen_fits
    from .validation import (
        has_plain_labels,
        named_as_fitted,
        names_of,
        reject_not_finite,
        same_library,
        samples_as_fitted,
    )
    from .validation import samples_of_any_length, text_or_numbers, with_known_categories, without_padding
    from .views import COVARIATES, Shapes, Views, converted, errors_name_view, is_views, missing_samples
    from .views import reject_partly_finite, reject_without_views, shape_of, views_or_array, views_or_samples

__getattr__, __dir__ = lazy_exports(__name__)
