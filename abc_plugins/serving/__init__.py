"""Predictions from a model file with NumPy and Numba alone, for functions and containers that start often."""

from abc_plugins.serving.predictor import Predictor

__all__ = ["Predictor"]
