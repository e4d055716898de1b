"""Native models as treelite models."""

from abc_plugins.treelite.exporting import export

__all__ = ["export"]
