"""What is compared, and its fits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from abc_plugins.compare.practice import warming
from abc_plugins.compare.practice.contenders import Contender
from abc_plugins.compare.practice.fitting import fit_and_score
from abc_plugins.compare.practice.table import MAX_TRAIN, Parts, Table, make_sample, make_table, own_rows, split_rows
from abc_plugins.compare.running import SplitPlan, describe_subject
from abc_plugins.core.runtime.checks import check_integer
from abc_plugins.data.datasets import Dataset

ROUNDS = 4000


@dataclass(frozen=True)
class PracticePlan(SplitPlan):
    """A comparison by the practice protocol.

    Attributes
    ----------
    dataset : Dataset
    contenders : sequence of Contender
    splits : int
        With 1 split and a data set that has its own, that is taken; otherwise splits are random, stratified by class.
    test_size : float
        Share of the test rows of a random split.
    seed : int
        Split i, and the contenders on it, have seed + i.
    rounds : int
        Limit of the rounds.
    max_train : int or None
        Largest number of training rows, the validation rows among them; None for no limit.
    n_jobs : int
        Threads of a contender.
    table : Table
        The data as contenders get it, made from the data set.
    """

    dataset: Dataset
    contenders: Sequence[Contender]
    splits: int = 5
    test_size: float | None = None
    seed: int = 0
    rounds: int = ROUNDS
    max_train: int | None = MAX_TRAIN
    n_jobs: int = 1
    table: Table = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("rounds", self.rounds, minimum=1)
        check_integer("n_jobs", self.n_jobs, minimum=1)
        if self.max_train is not None:
            check_integer("max_train", self.max_train, minimum=50)
        object.__setattr__(self, "table", make_table(self.dataset))

    def parts(self, split: int) -> Parts:
        """Rows of a split."""
        if self.own_split:
            return own_rows(self.table, self.dataset, self.seed, max_train=self.max_train)
        share = 0.5 if self.test_size is None else self.test_size
        return split_rows(self.table, self.seed + split, test_size=share, max_train=self.max_train)

    def subject(self) -> dict[str, Any]:
        """What the kept fits must agree on."""
        return describe_subject(
            self.dataset,
            protocol="practice",
            settings={"rounds": self.rounds, "max_train": self.max_train, "n_jobs": self.n_jobs},
            splits={"seed": self.seed, "test share": self.test_size, "own split": self.own_split},
        )

    def fit(self, contender: Contender, split: int) -> dict[str, Any]:
        """Fit a contender on the training rows of a split, and score it on the test rows."""
        parts, seed = self.parts(split), self.seed + split
        sample, X_test, y_test = make_sample(self.table, parts, seed=seed, n_jobs=self.n_jobs, rounds=self.rounds)
        return {
            "contender": contender.key,
            "split": split,
            "seed": seed,
            "n_fit": int(parts.fit.size),
            "n_valid": int(parts.valid.size),
            "n_test": int(parts.test.size),
            "n_classes": sample.n_classes,
            "left_out": list(parts.left_out),
            **fit_and_score(contender, sample, X_test, y_test),
        }

    def warm_up(self, contenders: Sequence[Contender]) -> None:
        """Import packages and compile kernels before the clock runs."""
        sample, X_test, _ = make_sample(
            self.table, self.parts(0), seed=self.seed, n_jobs=self.n_jobs, rounds=warming.ROUNDS
        )
        warming.warm_up(contenders, sample, X_test)

    def seconds_of(self, fit: dict[str, Any]) -> float:
        """Seconds of a fit and its predictions."""
        return fit["seconds"] + fit["predict_ms"] * fit["n_test"] / 1e6
