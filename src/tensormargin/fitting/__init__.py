"""The paper's optimisation (Eq. 7 to 16): objective, formats of weights, block problems, solvers, storage of samples.

It may import runtime and data. It knows nothing of scikit-learn's estimators, files or searches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..runtime.lazy import lazy_exports

if TYPE_CHECKING:
    from .alternation import Fit as Fit, Report as Report, Start as Start, Sweep as Sweep, alternate as alternate
    from .alternation import coarse_start as coarse_start, dual_guess as dual_guess, sweeps as sweeps
    from .batched_alternation import BatchedFit as BatchedFit, alternate_batched as alternate_batched
    from .batched_alternation import alternate_on_host as alternate_on_host, in_rounds as in_rounds
    from .calibration import CERTAIN as CERTAIN, calibrate as calibrate, class_probabilities as class_probabilities
    from .calibration import logarithms as logarithms
    from .designs import Matrix as Matrix
    from .formats import FORMATS as FORMATS, Format as Format, ViewsFormat as ViewsFormat
    from .formats import ViewsWeight as ViewsWeight, Weight as Weight
    from .formats.base import Rank as Rank, leading_vectors as leading_vectors, numpy_backend as numpy_backend
    from .formats.base import plain_rank as plain_rank
    from .formats.cp import CPWeight as CPWeight
    from .formats.full import FullWeight as FullWeight
    from .multiclass import BinaryProblem as BinaryProblem, binary_problems as binary_problems
    from .multiclass import class_codes as class_codes, combine_scores as combine_scores
    from .multiclass import predicted_codes as predicted_codes, problem_classes as problem_classes
    from .objective import MarginProblem as MarginProblem, Objective as Objective
    from .samples.base import Moments as Moments, NotFiniteError as NotFiniteError, Samples as Samples
    from .samples.base import in_range as in_range, shares_of_variance as shares_of_variance
    from .samples.base import working_dtype as working_dtype
    from .samples.device import SharedSamples as SharedSamples
    from .samples.lazy import ChunkedDesign as ChunkedDesign, LazySamples as LazySamples
    from .samples.lazy_shared import LazyProblem as LazyProblem, SharedLazySamples as SharedLazySamples
    from .samples.memory import MemorySamples as MemorySamples
    from .samples.storage import MemoryArray as MemoryArray, Reading as Reading, SampleArray as SampleArray
    from .samples.storage import ViewArray as ViewArray, factor_to_unit as factor_to_unit, labels_at as labels_at
    from .samples.storage import loaded_if_small as loaded_if_small, sample_array as sample_array
    from .solvers import SOLVERS as SOLVERS
    from .spans import SampleSpan as SampleSpan, Span as Span, ViewsInSpan as ViewsInSpan

__getattr__, __dir__ = lazy_exports(__name__)
