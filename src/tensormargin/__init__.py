"""Large margin distribution classifiers with low-rank tensor weights.

Public names are imported on first use, which keeps the command line fast to start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .runtime.lazy import lazy_exports
from .runtime.renamed import find_old_modules

__version__ = "0.2.0"

if TYPE_CHECKING:
    from .runtime import on_cluster as on_cluster
    from .data import Axis as Axis, Checkpoint as Checkpoint, LeakageWarning as LeakageWarning
    from .data import TrainingRecord as TrainingRecord, Views as Views, any_scale as any_scale
    from .transformers import AnovaMask as AnovaMask, BandPower as BandPower, Clip as Clip, Connectome as Connectome
    from .transformers import CompetingConvolutions as CompetingConvolutions, IntervalQuantiles as IntervalQuantiles
    from .transformers import Convolutions as Convolutions, Covariances as Covariances, Crop as Crop
    from .transformers import Decimate as Decimate, Deconfound as Deconfound, Detrend as Detrend
    from .transformers import Differences as Differences, EqualLength as EqualLength
    from .transformers import GradientHistograms as GradientHistograms, Impute as Impute, Mask as Mask
    from .transformers import ModeMap as ModeMap, Patches as Patches, Project as Project, Resize as Resize
    from .transformers import Smooth as Smooth, Spectra as Spectra, TensorKernel as TensorKernel
    from .transformers import TensorScaler as TensorScaler, TensorUnion as TensorUnion, Tensorize as Tensorize
    from .transformers import ViewTransformer as ViewTransformer, Whiten as Whiten, Xdawn as Xdawn
    from .estimators import KERNEL_METHODS as KERNEL_METHODS, METHODS as METHODS
    from .estimators import TensorMarginClassifier as TensorMarginClassifier, fit_many as fit_many
    from .estimators import make_method as make_method, to_device as to_device
    from .inspection import AffineForm as AffineForm, Bound as Bound, ClusterTable as ClusterTable
    from .inspection import MarginReport as MarginReport, NotAffineError as NotAffineError
    from .inspection import activation_pattern as activation_pattern, affine_form as affine_form
    from .inspection import cluster_table as cluster_table, margin_report as margin_report
    from .inspection import register_pull_back as register_pull_back, view_shares as view_shares
    from .inspection import weight_maps as weight_maps
    from .io import SampleSet as SampleSet, export_onnx as export_onnx, load_model as load_model
    from .io import load_samples as load_samples, save_model as save_model
    from .selection import TensorMarginAutoClassifier as TensorMarginAutoClassifier
    from .selection import TensorMarginClassifierCV as TensorMarginClassifierCV, auto_model as auto_model
    from .evaluation import nested_evaluation as nested_evaluation, permutation_test as permutation_test
    from .plots import save_map as save_map

__getattr__, __dir__ = lazy_exports(__name__)
__all__ = __dir__()
find_old_modules()
