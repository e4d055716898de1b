"""Head-to-head runs: all contenders on the same splits, tables, pictures and a page."""

from __future__ import annotations

from abc_plugins.compare.contenders import Contender, contenders, select
from abc_plugins.compare.fitting import fit_and_score
from abc_plugins.compare.running import Plan, run
from abc_plugins.compare.settings import CompareSettings
from abc_plugins.compare.standings import BUDGETS, summarise

__all__ = [
    "BUDGETS",
    "CompareSettings",
    "Contender",
    "Plan",
    "contenders",
    "fit_and_score",
    "run",
    "select",
    "summarise",
]
