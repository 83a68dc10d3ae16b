"""The paper's optimisation (Eq. 7 to 16): objective, formats of weights, block problems, solvers, storage of samples.

It may import runtime and data. It knows nothing of scikit-learn's estimators, files or searches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..runtime.lazy import lazy_exports

if TYPE_CHECKING:
    from .alternation import Fit, Report, Start, Sweep, alternate, coarse_start, dual_guess, sweeps
    from .batched_alternation import BatchedFit, alternate_batched, alternate_on_host, in_rounds
    from .calibration import CERTAIN, calibrate, class_probabilities, logarithms
    from .formats import FORMATS, Format, ViewsFormat, ViewsWeight, Weight
    from .formats.base import NOT_DRAWN_FROM, Noise, Rank, leading_vectors, numpy_backend, plain_rank
    from .formats.cp import CPWeight
    from .formats.full import FullWeight
    from .multiclass import BinaryProblem, binary_problems, class_codes, combine_scores, count_problems, predicted_codes
    from .multiclass import problem_classes
    from .native import ABI, check_indices, native_compiler, run_native, without_native
    from .objective import Certificate, MarginProblem, Objective
    from .samples.base import (
        OFFSET_LOSS,
        Moments,
        NotFiniteError,
        Samples,
        ViewFacts,
        in_range,
        range_of,
        shares_of_variance,
        working_dtype,
    )
    from .samples.device import SharedSamples
    from .samples.lazy import ChunkedDesign, LazySamples, gathered_together
    from .samples.lazy_shared import LazyProblem, SharedLazySamples
    from .samples.memory import MemorySamples
    from .samples.storage import MemoryArray, Reading, SampleArray, ViewArray, labels_at
    from .samples.storage import loaded_if_small, sample_array
    from .shared_forms import FlatSolution, SharedForm
    from .small_problems import solve_flat
    from .solvers import SOLVERS
    from .spans import SampleSpan, Span, ViewsInSpan

__getattr__, __dir__ = lazy_exports(__name__)
