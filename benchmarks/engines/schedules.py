"""Settings of the adapters that are compared with the stock libraries."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from abc_plugins.core.options import BoostOptions


@dataclass(frozen=True)
class Schedule:
    """A setting of the adapter; None for all is the stock library."""

    name: str
    search: int | str | None = None
    gap: int | None = None
    warmup: int | None = None
    leaf_values: str = "paper"
    method: str = "abcrobustlogit"
    trees_per_round: int | None = None

    @property
    def is_stock(self) -> bool:
        """Whether this is the library itself."""
        return self.search is None

    def options(self) -> dict[str, Any]:
        """Arguments of the adapter's `train`."""
        return {name: value for name, value in asdict(self).items() if name != "name"}

    def count_trees(self, n_classes: int) -> int:
        """Trees that a round grows: one for three classes along directions, one for every class in stock."""
        if self.method == "directional":
            return BoostOptions(trees_per_round=self.trees_per_round).count_trees(n_classes)
        return n_classes if self.is_stock else n_classes - 1


STOCK = Schedule("stock")
S1 = Schedule("s=1 g=0 w=0", 1, 0, 0)
S2 = Schedule("s=2 g=10 w=10", 2, 10, 10)
EXHAUSTIVE = Schedule("s=all g=0 w=0", "all", 0, 0)
S1_SEQUENTIAL = Schedule("s=1 g=0 w=0 sequential", 1, 0, 0, "sequential")
S2_SEQUENTIAL = Schedule("s=2 g=10 w=10 sequential", 2, 10, 10, "sequential")
CLASSIC_ROUNDS = Schedule("classic rounds only", 1, 0, 10**6)
DIRECTIONAL = Schedule("directional", 1, 0, 0, method="directional")
SINGLE_TREES = Schedule("directional, a tree per round", 1, 0, 0, method="directional", trees_per_round=1)
