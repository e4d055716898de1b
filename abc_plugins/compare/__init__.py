"""Who is best on some data: all contenders on the same splits, as people use them or under a budget."""

from __future__ import annotations

from abc_plugins.compare.practice.contenders import Contender, contenders, select
from abc_plugins.compare.practice.plan import PracticePlan
from abc_plugins.compare.practice.standings import summarise
from abc_plugins.compare.running import run

__all__ = ["Contender", "PracticePlan", "contenders", "run", "select", "summarise"]
