"""Samples with features of all kinds, the derivatives of one tree, and its splits in plain NumPy."""

from dataclasses import dataclass

import numpy as np

from abc_plugins.core.bins.training_data import TrainingData, make_training_data
from abc_plugins.core.losses import derivatives
from abc_plugins.core.runtime.parallel import Workers
from abc_plugins.core.schedule import CLASSIC
from abc_plugins.core.trees.fixedpoint import PairSamples, to_fixed_point, weigh
from abc_plugins.core.trees.splitting import SplitRules

N, K = 120, 3
PAPER = {"method": "abcrobustlogit"}


@dataclass
class Problem:
    """Samples with features of all kinds and the derivatives of one tree."""

    data: TrainingData
    probabilities: np.ndarray
    z: np.ndarray
    h: np.ndarray

    @property
    def columns(self):
        return self.data.columns


def features_of_all_kinds(y, rng):
    signal = y + rng.normal(size=N)
    rare = rng.random((N, 4)) < 0.3
    return np.column_stack(
        [
            signal,  # no default bin
            np.where(rare[:, 0], np.abs(signal) + 1.0, 0.0),  # default at the bottom
            np.where(rare[:, 1], -np.abs(signal) - 1.0, 0.0),  # at the top
            np.where(rare[:, 2], signal, 0.3),  # in between
            np.where(rare[:, 3], signal, np.nan),  # missing
            np.where(rng.random(N) < 0.15, np.nan, np.where(rare[:, 2], signal, 0.3)),
            np.round(rng.normal(size=N)),
        ]
    )


def make_problem(*, whole_weights=True, pair=(1, CLASSIC), seed=0, dense=False):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, K, N).astype(np.int32)
    weights = rng.integers(1, 4, N).astype(float) if whole_weights else rng.uniform(0.2, 3.0, N)
    X = features_of_all_kinds(y, rng)
    X = X[:, [0, 6]] if dense else X
    with Workers(1) as workers:
        data = make_training_data(X, y, weights, K, 40, workers)
    probabilities = rng.dirichlet(np.ones(K), N).T.copy()
    z, h = np.empty(N), np.empty(N)
    derivatives(probabilities, y, weights, *pair, 0, N, z, h)
    return Problem(data, probabilities, z, h)


def cells_of(problem, pair=(1, CLASSIC), units=None):
    data, units = problem.data, weigh(problem.data.weights) if units is None else units
    cells = np.empty((N, 2), dtype=np.int64)
    cell_units = np.empty(2)
    samples = PairSamples(problem.probabilities, data.labels, data.weights, units.units)
    to_fixed_point(samples, *pair, units.hessian_bits, cell_units, cells)
    return cells, *cell_units, units


def make_rules(units, *, second_order=True, reg_lambda=0.0, min_weight=1.0, min_hessian=0.0):
    bits = units.hessian_bits
    min_units = max(1, int(np.ceil(min_weight / units.per_unit)))
    return SplitRules(second_order, reg_lambda, min_units << bits, min_hessian, bits, (1 << bits) - 1, units.per_unit)


def plain_splits(problem, rows, rules, f, amounts=None):
    """All allowed splits on a feature: (gain, bin, missing_left, rows that go left), from the raw codes.

    A child must have so much of `amounts`, the weights by default.
    """
    columns, weights = problem.columns, problem.data.weights if amounts is None else amounts
    codes = columns.codes[f, rows]
    missing = columns.has_missing[f] & (codes == columns.n_bins[f])
    min_weight = (rules.min_wh >> rules.hessian_bits) * rules.weight_per_unit

    def term(mask):
        below = problem.h[rows][mask].sum() if rules.second_order else weights[rows][mask].sum()
        return problem.z[rows][mask].sum() ** 2 / (below + rules.reg_lambda)

    def is_allowed(mask):
        heavy = weights[rows][mask].sum() >= min_weight - 1e-5
        return mask.any() and heavy and problem.h[rows][mask].sum() >= rules.min_hessian

    for b in range(columns.n_bins[f]):
        for missing_left in (True, False) if missing.any() else (None,):
            left = (codes <= b) & ~missing | (missing & bool(missing_left))
            if (left & ~missing).any() and is_allowed(left) and is_allowed(~left):
                yield term(left) + term(~left) - term(np.ones(rows.size, dtype=bool)), b, missing_left, rows[left]
