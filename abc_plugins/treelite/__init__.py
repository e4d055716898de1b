"""Native models as treelite models."""

try:
    import treelite  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("abc_plugins.treelite needs treelite: pip install 'abc-plugins[integrations]'") from error

from abc_plugins.treelite.exporting import export

__all__ = ["export"]
