"""Tables of comparisons under a budget: equal rounds, trees and time, and tests of the differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from abc_plugins.compare.budgets.contenders import select
from abc_plugins.compare.budgets.fitting import pack_wrong
from abc_plugins.compare.budgets.standings import summarise
from abc_plugins.compare.chance import corrected_t_test, mcnemar


def make_fit(key: str, split: int, errors: list[int], seconds: list[float], trees: list[int], **more: Any) -> Any:
    return {
        "contender": key,
        "split": split,
        "seed": split,
        "n_train": 100,
        "n_test": 100,
        "errors": errors,
        "log_loss": [error / 50 for error in errors],
        "seconds": seconds,
        "trees": trees,
        "phases": {"finishing": 0.5},
        **more,
    }


FITS = [
    make_fit("robustlogit", 0, [30, 20, 10], [1.0, 2.0, 3.0], [4, 8, 12]),
    make_fit("abcrobustlogit", 0, [28, 16, 8], [2.0, 4.0, 6.0], [3, 6, 9]),
    make_fit("robustlogit", 1, [32, 22, 12], [1.0, 2.0, 3.0], [4, 8, 12]),
    make_fit("abcrobustlogit", 1, [30, 23, 12], [2.0, 4.0, 6.0], [3, 6, 9]),
]


def rows_of(budget: str) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    summary = summarise(FITS, select(["robustlogit", "abcrobustlogit"]), budget)
    table = {row["contender"]: row for row in summary["table"]}
    return table["robustlogit"], table["abcrobustlogit"], summary["pairs"][0]


def test_equal_rounds() -> None:
    plain, adaptive, pair = rows_of("equal-rounds")
    assert (plain["error"], adaptive["error"]) == pytest.approx((0.11, 0.10))
    assert plain["error_se"] == pytest.approx(0.01)
    assert (plain["seconds"], plain["trees"], plain["ms_per_tree"]) == pytest.approx((3.5, 12, 3500 / 12))
    assert (adaptive["wins"], adaptive["losses"], adaptive["ties"]) == (1, 0, 1)
    assert (plain["wins"], plain["losses"], plain["ties"]) == (0, 1, 1)
    assert (pair["contender"], pair["rival"]) == ("abcrobustlogit", "robustlogit")
    assert pair["difference"] == pytest.approx(-0.01)
    assert pair["relative"] == pytest.approx(-0.01 / 0.11)
    assert pair["time_ratio"] == pytest.approx(6.5 / 3.5)


def test_equal_trees_cuts_at_the_fewest_trees() -> None:
    plain, adaptive, _ = rows_of("equal-trees")  # 9 trees: two rounds of 4, three of 3
    assert (plain["rounds"], adaptive["rounds"]) == (2, 3)
    assert plain["error"] == pytest.approx(0.21)
    assert adaptive["error"] == pytest.approx(0.10)


def test_equal_time_cuts_at_the_fastest() -> None:
    plain, adaptive, pair = rows_of("equal-time")  # 3 seconds
    assert (plain["rounds"], adaptive["rounds"]) == (3, 1)
    assert adaptive["error"] == pytest.approx(0.29)
    assert pair["difference"] == pytest.approx(0.18)


def test_paired_t_test_allows_for_overlapping_training_sets() -> None:
    differences = np.array([0.01, 0.03, 0.02, 0.05, -0.01])
    plain = stats.ttest_1samp(differences, 0.0)
    assert corrected_t_test(differences, 0.0) == pytest.approx(plain.pvalue)
    corrected = plain.statistic / np.sqrt(1 + 5 * 1.0)  # variance (1/n + n_test/n_train) in place of 1/n
    assert corrected_t_test(differences, 1.0) == pytest.approx(2 * stats.t.sf(corrected, 4))
    assert corrected_t_test(np.zeros(3), 1.0) == 1.0
    assert corrected_t_test(np.full(3, 0.5), 1.0) is None


def test_one_split_is_tested_row_by_row() -> None:
    own, other = np.zeros(20, dtype=bool), np.zeros(20, dtype=bool)
    own[:2], other[2:10] = True, True
    assert mcnemar(own, other) == pytest.approx(stats.binomtest(8, 10).pvalue)
    fits = [dict(fit, wrong=pack_wrong(wrong), n_test=20) for fit, wrong in zip(FITS[:2], (other, own), strict=True)]
    (pair,) = summarise(fits, select(["robustlogit", "abcrobustlogit"]))["pairs"]
    assert (pair["test"], pair["p_value"]) == ("McNemar's exact test", mcnemar(own, other))
    (pair,) = summarise(fits, select(["robustlogit", "abcrobustlogit"]), "equal-time")["pairs"]
    assert (pair["test"], pair["p_value"]) == ("needs several splits", None)
