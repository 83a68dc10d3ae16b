"""Large margin distribution classifiers with low-rank tensor weights.

Public names are imported on first use, which keeps the command line fast to start.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0.dev0"

if TYPE_CHECKING:
    from .affine import AffineForm as AffineForm
    from .affine import NotAffineError as NotAffineError
    from .affine import affine_form as affine_form
    from .affine import register_pull_back as register_pull_back
    from .axes import Axis as Axis
    from .checkpoints import Checkpoint as Checkpoint
    from .cluster import on_cluster as on_cluster
    from .clusters import ClusterTable as ClusterTable
    from .clusters import cluster_table as cluster_table
    from .contributions import view_shares as view_shares
    from .estimators import TensorMarginClassifier as TensorMarginClassifier
    from .estimators import fit_many as fit_many
    from .estimators import to_device as to_device
    from .evaluation import nested_evaluation as nested_evaluation
    from .evaluation import permutation_test as permutation_test
    from .io import SampleSet as SampleSet
    from .io import load_model as load_model
    from .io import load_samples as load_samples
    from .io import save_model as save_model
    from .kernels import TensorKernel as TensorKernel
    from .leakage import LeakageWarning as LeakageWarning
    from .margins import Bound as Bound
    from .margins import MarginReport as MarginReport
    from .margins import margin_report as margin_report
    from .methods import KERNEL_METHODS as KERNEL_METHODS
    from .methods import METHODS as METHODS
    from .methods import make_method as make_method
    from .model_steps import weight_maps as weight_maps
    from .onnx_export import export_onnx as export_onnx
    from .patterns import activation_pattern as activation_pattern
    from .plots import save_map as save_map
    from .preparation import Crop as Crop
    from .preparation import Deconfound as Deconfound
    from .preparation import EqualLength as EqualLength
    from .preparation import Mask as Mask
    from .preparation import Resize as Resize
    from .preparation import Tensorize as Tensorize
    from .preparation import TensorScaler as TensorScaler
    from .preparation import TensorUnion as TensorUnion
    from .preparation import ViewTransformer as ViewTransformer
    from .representations import AnovaMask as AnovaMask
    from .representations import BandPower as BandPower
    from .representations import Connectome as Connectome
    from .representations import Convolutions as Convolutions
    from .representations import Covariances as Covariances
    from .representations import Decimate as Decimate
    from .representations import Detrend as Detrend
    from .representations import Differences as Differences
    from .representations import Impute as Impute
    from .representations import ModeMap as ModeMap
    from .representations import Patches as Patches
    from .representations import Project as Project
    from .representations import Smooth as Smooth
    from .representations import Spectra as Spectra
    from .representations import Whiten as Whiten
    from .representations import Xdawn as Xdawn
    from .selection import TensorMarginClassifierCV as TensorMarginClassifierCV
    from .selection import auto_model as auto_model
    from .training_record import TrainingRecord as TrainingRecord
    from .views import Views as Views

_HOMES = {
    "AffineForm": ".affine",
    "NotAffineError": ".affine",
    "affine_form": ".affine",
    "register_pull_back": ".affine",
    "Axis": ".axes",
    "weight_maps": ".model_steps",
    "permutation_test": ".evaluation",
    "Checkpoint": ".checkpoints",
    "on_cluster": ".cluster",
    "ClusterTable": ".clusters",
    "cluster_table": ".clusters",
    "view_shares": ".contributions",
    "TensorMarginClassifier": ".estimators",
    "fit_many": ".estimators",
    "to_device": ".estimators",
    "nested_evaluation": ".evaluation",
    "SampleSet": ".io",
    "load_model": ".io",
    "load_samples": ".io",
    "save_model": ".io",
    "TensorKernel": ".kernels",
    "LeakageWarning": ".leakage",
    "Bound": ".margins",
    "MarginReport": ".margins",
    "margin_report": ".margins",
    "KERNEL_METHODS": ".methods",
    "METHODS": ".methods",
    "make_method": ".methods",
    "export_onnx": ".onnx_export",
    "activation_pattern": ".patterns",
    "save_map": ".plots",
    "Crop": ".preparation",
    "Deconfound": ".preparation",
    "Mask": ".preparation",
    "EqualLength": ".preparation",
    "Resize": ".preparation",
    "TensorScaler": ".preparation",
    "TensorUnion": ".preparation",
    "Tensorize": ".preparation",
    "ViewTransformer": ".preparation",
    "Decimate": ".representations",
    "Differences": ".representations",
    "ModeMap": ".representations",
    "Project": ".representations",
    "Smooth": ".representations",
    "Whiten": ".representations",
    "Xdawn": ".representations",
    "AnovaMask": ".representations",
    "BandPower": ".representations",
    "Covariances": ".representations",
    "Convolutions": ".representations",
    "Connectome": ".representations",
    "Spectra": ".representations",
    "Detrend": ".representations",
    "Impute": ".representations",
    "Patches": ".representations",
    "TensorMarginClassifierCV": ".selection",
    "auto_model": ".selection",
    "TrainingRecord": ".training_record",
    "Views": ".views",
}

__all__ = [
    "KERNEL_METHODS",
    "METHODS",
    "AffineForm",
    "AnovaMask",
    "Axis",
    "BandPower",
    "Bound",
    "Checkpoint",
    "ClusterTable",
    "Connectome",
    "Convolutions",
    "Covariances",
    "Crop",
    "Decimate",
    "Deconfound",
    "Detrend",
    "Differences",
    "EqualLength",
    "Impute",
    "LeakageWarning",
    "MarginReport",
    "Mask",
    "ModeMap",
    "NotAffineError",
    "Patches",
    "Project",
    "Resize",
    "SampleSet",
    "Smooth",
    "Spectra",
    "TensorKernel",
    "TensorMarginClassifier",
    "TensorMarginClassifierCV",
    "TensorScaler",
    "TensorUnion",
    "Tensorize",
    "ViewTransformer",
    "Views",
    "Whiten",
    "Xdawn",
    "__version__",
    "activation_pattern",
    "affine_form",
    "auto_model",
    "cluster_table",
    "export_onnx",
    "fit_many",
    "load_model",
    "load_samples",
    "make_method",
    "margin_report",
    "nested_evaluation",
    "on_cluster",
    "permutation_test",
    "register_pull_back",
    "save_map",
    "save_model",
    "to_device",
    "view_shares",
    "weight_maps",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name], __name__), name)


def __dir__() -> list[str]:
    return __all__
