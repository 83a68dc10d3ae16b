"""Export of fitted models as ONNX files, which run without Python or this library."""

from .export import export_onnx

__all__ = ["export_onnx"]
