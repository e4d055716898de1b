"""Native models as ONNX models."""

try:
    import onnx  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("abc_plugins.onnx needs onnx: pip install 'abc-plugins[onnx]'") from error

from abc_plugins.onnx.exporting import export

__all__ = ["export"]
