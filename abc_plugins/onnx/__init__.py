"""Native models as ONNX models."""

from abc_plugins.onnx.exporting import export

__all__ = ["export"]
