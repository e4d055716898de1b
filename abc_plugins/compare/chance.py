"""Whether a difference between two contenders could be chance."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy import stats

from abc_plugins.core.runtime.arrays import AnyArray


def corrected_t_test(differences: AnyArray, test_to_train: float) -> float | None:
    """Two-sided p of a paired t-test whose variance allows for training sets that overlap (Nadeau and Bengio, 2003).

    Parameters
    ----------
    differences : array
        One per split.
    test_to_train : float
        Test rows divided by training rows.
    """
    n = differences.size
    if n < 2:
        return None
    variance = float(differences.var(ddof=1))
    if math.sqrt(variance) <= 1e-9 * abs(float(differences.mean())):  # without any spread the test cannot tell
        return 1.0 if differences[0] == 0.0 else None
    t = float(differences.mean()) / math.sqrt((1 / n + test_to_train) * variance)
    return float(2 * stats.t.sf(abs(t), n - 1))


def mcnemar(own: AnyArray, other: AnyArray) -> float:
    """Two-sided p of McNemar's exact test: of the rows that only one of two models has wrong, both have as many."""
    better, worse = int((other & ~own).sum()), int((own & ~other).sum())
    return float(stats.binomtest(better, better + worse).pvalue) if better + worse else 1.0


def standard_error(values: Sequence[float]) -> float | None:
    """Of the mean; None of a single value."""
    return float(np.std(values, ddof=1) / math.sqrt(len(values))) if len(values) > 1 else None


def format_p(p_value: float) -> str:
    """Three digits, and what is smaller as a bound."""
    return "<0.001" if p_value < 0.0005 else f"{p_value:.3f}"
