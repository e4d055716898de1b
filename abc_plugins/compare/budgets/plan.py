"""What is compared under a budget, and its fits."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from abc_plugins.compare.budgets.contenders import BudgetContender
from abc_plugins.compare.budgets.fitting import fit_and_score
from abc_plugins.compare.budgets.settings import CompareSettings
from abc_plugins.compare.running import SplitPlan, describe_subject, naming
from abc_plugins.core.runtime.arrays import AnyArray
from abc_plugins.data.datasets import Dataset

_WARM_UP_ROWS = 2000


@dataclass(frozen=True)
class BudgetPlan(SplitPlan):
    """What is compared.

    Attributes
    ----------
    dataset : Dataset
    settings : CompareSettings
    contenders : sequence of BudgetContender
    splits : int
        With 1 split and a data set that has its own, that is taken; otherwise splits are random, stratified by class,
        and train on as large a share as the data set's own.
    test_size : float or None
        Share of the test rows of a random split; None is that of the data set's own split, or a half.
    seed : int
        Split i is drawn with seed + i.
    """

    dataset: Dataset
    settings: CompareSettings
    contenders: Sequence[BudgetContender]
    splits: int = 5
    test_size: float | None = None
    seed: int = 0

    @property
    def test_share(self) -> float:
        """Share of the test rows of random splits."""
        if self.test_size is not None:
            return self.test_size
        if self.dataset.train_index is not None and self.dataset.test_index is not None:
            used = self.dataset.train_index.size + self.dataset.test_index.size
            return float(self.dataset.test_index.size / used)
        return 0.5

    def rows(self, split: int) -> tuple[AnyArray, AnyArray]:
        """Rows to train and to test on."""
        if self.own_split:
            return self.dataset.split()
        free = dataclasses.replace(self.dataset, train_index=None, test_index=None)
        return free.split(test_size=self.test_share, seed=self.seed + split)

    def subject(self) -> dict[str, Any]:
        """What the kept fits must agree on."""
        return describe_subject(
            self.dataset,
            settings=dataclasses.asdict(self.settings),
            splits={
                "seed": self.seed,
                "test share": None if self.own_split else round(self.test_share, 6),
                "own split": self.own_split,
            },
        )

    def fit(self, contender: BudgetContender, split: int) -> dict[str, Any]:
        """Fit a contender on the training rows of a split, and score it on the test rows."""
        train, test = self.rows(split)
        classes = np.unique(self.dataset.y[train])
        codes = _codes(self.dataset.y, classes)
        X, X_test = self.dataset.X[train], self.dataset.X[test]
        return {
            "contender": contender.key,
            "split": split,
            "seed": None if self.own_split else self.seed + split,
            "n_train": int(train.size),
            "n_test": int(test.size),
            "classes": [str(label) for label in classes.tolist()],
            **fit_and_score(contender, self.settings, X, codes[train], X_test, codes[test]),
        }

    def warm_up(self, contenders: Sequence[BudgetContender]) -> None:
        """Import packages and compile kernels before the clock runs: a classic round, a search, a kept base."""
        train, _ = self.rows(0)
        order = np.random.default_rng(self.seed).permutation(train.size)
        rows = train[order[:_WARM_UP_ROWS]]
        classes, y = np.unique(self.dataset.y[rows], return_inverse=True)
        short = dataclasses.replace(self.settings, rounds=min(self.settings.rounds, 4))
        searching = dataclasses.replace(short, search=min(2, classes.size), gap=1, warmup=1)
        for contender in contenders:
            with naming(contender):
                model = contender.make(searching if contender.is_adaptive else short)
                model.fit(self.dataset.X[rows], y)
                model.predict_proba(self.dataset.X[rows[:10]])

    def seconds_of(self, fit: dict[str, Any]) -> float:
        """Seconds of a fit and its predictions."""
        return sum(fit["phases"].values())


def _codes(y: AnyArray, classes: AnyArray) -> AnyArray:
    """Index of every label among the classes; -1 for one that no training row has."""
    index = {label: code for code, label in enumerate(classes.tolist())}
    return np.array([index.get(label, -1) for label in y.tolist()])
