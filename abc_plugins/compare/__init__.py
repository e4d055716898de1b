"""Head-to-head runs of the native booster and its peers on one split."""

from __future__ import annotations

from abc_plugins.compare.contenders import CompareSettings, Contender, contenders
from abc_plugins.compare.report import as_json, as_text
from abc_plugins.compare.running import Comparison, Result, compare

__all__ = ["CompareSettings", "Comparison", "Contender", "Result", "as_json", "as_text", "compare", "contenders"]
