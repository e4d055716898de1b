"""What an engine that is driven from outside needs around its trees: scores, gradients, trials, the guard.

LightGBM and XGBoost grow trees from gradients. Everything else that a round of ABC-Boost is made of happens here,
for both of them and without either: `ABCScores` holds the scores F, says what the next round does, writes the
gradients of the pairs of classes to grow a tree for, tries what the grown trees add, and takes it over.

A tree belongs to a pair (plus, minus): what it adds to the score of `plus` it takes from that of `minus`; a
classic tree is (k, CLASSIC). `additions` of shape (n_trees, n_samples) hold what each tree adds, shrinkage included.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence

import numpy as np

from abc_plugins.core.leaves import LeafRules
from abc_plugins.core.losses import (
    centre,
    derivatives,
    exp_clamped,
    softmax_block,
    update_probabilities,
)
from abc_plugins.core.pairs import Pair, common_class, other_class, select_pairs
from abc_plugins.core.renewal import LeafRenewal
from abc_plugins.core.rounds import GUARD_MESSAGE, MAX_HALVINGS
from abc_plugins.core.runtime.arrays import AnyArray, Floats, Integers
from abc_plugins.core.runtime.jit import kernel
from abc_plugins.core.runtime.parallel import ROWS_PER_BLOCK, Workers, count_blocks
from abc_plugins.core.schedule import CLASSIC, BaseClassSchedule, RoundPlan

_RISE = 1e-12  # relative rise of the loss that is rounding
NO_TREE = -1
_logger = logging.getLogger("abc_plugins")


class ABCScores:
    """Scores of the training samples, their softmax and class losses, and the schedule that reads them.

    Parameters
    ----------
    labels : array of int, shape (n_samples,)
        Class indices 0 .. K - 1.
    weights : array of float64, shape (n_samples,), or None
        One weight per sample; None is 1 for all.
    scores : array of float64, shape (n_classes, n_samples), or None
        Scores to start from; copied. None is 0 for all.
    schedule : BaseClassSchedule
    workers : Workers
    reduce : callable, optional
        Adds arrays of sums over the processes that share the samples; all of them must get the same result.

    Attributes
    ----------
    scores, probabilities : array of shape (n_classes, n_samples)
    class_losses : array of shape (n_classes,)
        Weighted log loss of every class's own samples.
    loss : float
        Their sum.
    guarded_rounds : int
        Rounds whose step the guard has shortened or replaced.
    """

    def __init__(
        self,
        labels: AnyArray,
        weights: AnyArray | None,
        scores: AnyArray | None,
        schedule: BaseClassSchedule,
        workers: Workers,
        reduce: Callable[[Floats], Floats] = np.asarray,
    ) -> None:
        self.labels: Integers = np.ascontiguousarray(labels, dtype=np.int32)
        n_classes, n_samples = schedule.n_classes, self.labels.size
        self.weights: Floats = np.ones(n_samples) if weights is None else np.array(weights, dtype=np.float64)
        self.schedule = schedule
        self.workers = workers
        self.reduce = reduce
        self.guarded_rounds = 0
        self.scores: Floats = np.zeros((n_classes, n_samples))
        self.probabilities: Floats = np.empty((n_classes, n_samples))
        self._tried_scores: Floats = np.empty((n_classes, n_samples))
        self._tried_probabilities: Floats = np.empty((n_classes, n_samples))
        if scores is not None:
            self.scores[:] = scores
        self.class_losses = self._starting_losses()

    @property
    def n_classes(self) -> int:
        """K."""
        return self.schedule.n_classes

    @property
    def loss(self) -> float:
        """Total training loss."""
        return float(self.class_losses.sum())

    def plan(self) -> RoundPlan:
        """Say what the next round does, and centre the scores where the schedule asks for it."""
        plan = self.schedule.plan(self.class_losses.tolist())
        if plan.centre:
            centre(self.scores)
        return plan

    def _starting_losses(self) -> Floats:
        """Fill in the probabilities; at equal scores the losses of equal classes tie exactly."""
        losses = update_probabilities(self.scores, self.labels, self.weights, self.probabilities, self.workers)
        if self.reduce(np.array([float(self.scores.any())])).any():
            return self.reduce(losses)
        class_weights = np.bincount(self.labels, weights=self.weights, minlength=self.n_classes).astype(np.float64)
        return self.reduce(class_weights) * np.log(self.n_classes)

    def gradients(self, pairs: Sequence[Pair | None], gradients: AnyArray, hessians: AnyArray) -> None:
        """Write the gradient -z and the hessian h of one tree per row.

        Rows of None, and rows behind the last pair, become 0, from which no engine can grow a split. The hessian of
        a classic tree is multiplied by K / (K - 1), so that a Newton leaf comes out with the paper's (K - 1) / K.

        Parameters
        ----------
        pairs : sequence of (plus, minus) or None
        gradients, hessians : float arrays of shape (at least len(pairs), n_samples)
            Filled in.
        """

        def write(row: int, _thread: int) -> None:
            pair = pairs[row] if row < len(pairs) else None
            if pair is None:
                gradients[row] = 0.0
                hessians[row] = 0.0
                return
            plus, minus = pair
            scale = self.n_classes / (self.n_classes - 1.0) if minus == CLASSIC else 1.0
            _gradient_row(
                self.probabilities, self.labels, self.weights, plus, minus, scale, gradients[row], hessians[row]
            )

        self.workers.over_items(range(len(gradients)), write)

    def trial_loss(
        self, pairs: Sequence[Pair | None], additions: AnyArray, rows: Sequence[int], factor: float = 1.0
    ) -> float:
        """Total training loss if the trees in `rows` of `pairs` and `additions` were added, times `factor`.

        A tree multiplies the masses p of its two classes by exp of what it adds: one exponential per sample and tree,
        and neither new scores nor a new softmax are needed.
        """
        base = common_class(select_pairs(pairs, rows)) if rows else CLASSIC
        tree_of = np.full(self.n_classes, NO_TREE)
        sign = np.ones(self.n_classes)
        for row, (plus, minus) in zip(rows, select_pairs(pairs, rows), strict=True):
            moved = minus if plus == base else plus
            tree_of[moved] = row
            sign[moved] = factor if moved == plus else -factor
        block_rises = np.empty((count_blocks(self.labels.size), 1))
        self.workers.over_rows(
            self.labels.size,
            lambda first, last: _trial_blocks(
                self.probabilities, self.labels, self.weights, tree_of, sign, base, additions, block_rises, first, last
            ),
        )
        return self.loss + float(self.reduce(block_rises.sum(axis=0))[0])

    def _try(
        self,
        pairs: Sequence[Pair | None],
        additions: AnyArray,
        rows: Sequence[int],
        factor: float,
        scores: Floats,
        probabilities: Floats,
    ) -> Floats:
        """Write the scores and probabilities after a step, and return the class losses."""
        tree_rows = np.array(rows, dtype=np.int64)
        plus, minus = np.array(select_pairs(pairs, rows), dtype=np.int64).reshape(-1, 2).T
        block_losses = np.empty((count_blocks(self.labels.size), self.n_classes))
        self.workers.over_rows(
            self.labels.size,
            lambda first, last: _try_blocks(
                self.scores, self.labels, self.weights, tree_rows, plus, minus, additions, factor, scores,
                probabilities, block_losses, first, last,
            ),
        )  # fmt: skip
        return self.reduce(block_losses.sum(axis=0))

    def accept(self, base: int) -> None:
        """Take over the step that `guarded_factor` found, and record the round."""
        self.scores, self._tried_scores = self._tried_scores, self.scores
        self.probabilities, self._tried_probabilities = self._tried_probabilities, self.probabilities
        self.class_losses = self._tried_losses
        self.schedule.record(base)

    def skip(self, base: int) -> None:
        """Record a round that adds nothing: the engine found no split, or the guard refused all it found."""
        self.schedule.record(base)

    def count_guarded_round(self) -> None:
        """Count a round whose step the guard has shortened or replaced, once whatever it did."""
        if self.guarded_rounds == 0:
            _logger.info(GUARD_MESSAGE, len(self.schedule.bases) + 1)
        self.guarded_rounds += 1

    def choose_base(self, plan: RoundPlan, trial_losses: Sequence[float]) -> int:
        """Return the base of the round: `CLASSIC`, the only candidate, or the one with the lowest trial loss."""
        if plan.is_classic:
            return CLASSIC
        return self.schedule.choose(plan, trial_losses) if len(plan.candidates) > 1 else plan.candidates[0]

    def guarded_factor(
        self, pairs: Sequence[Pair | None], additions: AnyArray, rows: Sequence[int], *, guard: bool = True
    ) -> float:
        """Try the step, and half of it, and half of that, until the training loss does not rise.

        Returns
        -------
        factor : float
            The step was tried times this, and can be accepted; 0 if no step helped. Without the guard, 1 unless the
            loss would not be finite.
        """
        limit = self.loss * (1.0 + _RISE) if guard else math.inf
        for halvings in range(MAX_HALVINGS + 1):
            factor = 0.5**halvings
            spare = (self._tried_scores, self._tried_probabilities)
            self._tried_losses = self._try(pairs, additions, rows, factor, *spare)
            loss = float(self._tried_losses.sum())
            if math.isfinite(loss) and loss <= limit:
                return factor
        return 0.0

    def renewed_values(
        self, pairs: Sequence[Pair | None], rows: Sequence[int], leaf_ids: AnyArray, n_leaves: int, rules: LeafRules
    ) -> Floats:
        """Newton leaf values of the trees of a round, one tree after the other (see `renewal`).

        Parameters
        ----------
        pairs, rows
            The trees are `pairs[row]` for `row` in `rows`, renewed in this order; all have the base in common, or are
            classic.
        leaf_ids : array of int, shape (n_trees, n_samples)
            Leaf of every sample; row `row` belongs to `pairs[row]`.
        n_leaves : int
            More than the largest leaf id.
        rules : LeafRules
            Its factor is replaced by that of the round.

        Returns
        -------
        values : array of shape (len(rows), n_leaves)
            What each leaf adds to its tree's `plus` class, shrinkage included.
        """
        trees = select_pairs(pairs, rows)
        base = common_class(trees)
        factor = (self.n_classes - 1.0) / self.n_classes if base == CLASSIC else 1.0
        renewal = LeafRenewal(
            self.probabilities,
            self.labels,
            self.weights,
            base,
            n_leaves,
            rules._replace(factor=factor),
            self.workers,
            self.reduce,
        )
        values = [renewal.renew(other_class(pair, base), leaf_ids[row]) for row, pair in zip(rows, trees, strict=True)]
        sign = [1.0 if plus != base else -1.0 for plus, _ in trees]
        return np.array(values) * np.array(sign)[:, None]


@kernel
def _gradient_row(probabilities, labels, weights, plus, minus, scale, gradient, hessian):
    derivatives(probabilities, labels, weights, plus, minus, 0, labels.size, gradient, hessian)
    for i in range(gradient.size):
        gradient[i] = -gradient[i]
        hessian[i] *= scale


@kernel
def _trial_blocks(probabilities, labels, weights, tree_of, sign, base, additions, block_rises, first_block, last_block):
    """Rise of the loss of some blocks of samples: log(sum of the masses after the step), minus the own score's rise."""
    mass = np.empty(ROWS_PER_BLOCK)
    base_rise = np.empty(ROWS_PER_BLOCK)
    for block in range(first_block, last_block):
        start = block * ROWS_PER_BLOCK
        stop = min(start + ROWS_PER_BLOCK, labels.size)
        mass[:] = 0.0
        base_rise[:] = 0.0
        for k in range(tree_of.size):
            if tree_of[k] != NO_TREE:
                _grow_mass(probabilities, additions, k, tree_of[k], sign[k], start, stop, mass, base_rise)
            elif k != base:
                for i in range(stop - start):
                    mass[i] += probabilities[k, start + i]
        if base != CLASSIC:
            for i in range(stop - start):
                mass[i] += probabilities[base, start + i] * exp_clamped(base_rise[i])
        rise = 0.0
        for i in range(stop - start):
            k = labels[start + i]
            own = base_rise[i] if k == base else 0.0
            if tree_of[k] != NO_TREE:
                own = sign[k] * additions[tree_of[k], start + i]
            # Nothing left of a mass of 1 is a step out of all proportion.
            rise += weights[start + i] * (np.log(mass[i]) - own if mass[i] > 0.0 else np.inf)
        block_rises[block, 0] = rise


@kernel
def _grow_mass(probabilities, additions, k, tree, sign, start, stop, mass, base_rise):
    """Add the mass of class k after its tree, and what the tree takes from the base."""
    for i in range(stop - start):
        added = sign * additions[tree, start + i]
        mass[i] += probabilities[k, start + i] * exp_clamped(added)
        base_rise[i] -= added


@kernel
def _try_blocks(
    scores,
    labels,
    weights,
    rows,
    plus,
    minus,
    additions,
    factor,
    new_scores,
    probabilities,
    block_losses,
    first_block,
    last_block,
):
    """Scores after the trees, their softmax and the class losses of some blocks of samples."""
    n_samples = scores.shape[1]
    log_normaliser = np.empty(ROWS_PER_BLOCK)
    for block in range(first_block, last_block):
        start = block * ROWS_PER_BLOCK
        stop = min(start + ROWS_PER_BLOCK, n_samples)
        for k in range(scores.shape[0]):
            for i in range(start, stop):
                new_scores[k, i] = scores[k, i]
        for t in range(rows.size):
            added = additions[rows[t], start:stop]
            raised = new_scores[plus[t], start:stop]
            for i in range(added.size):
                raised[i] += factor * added[i]
            if minus[t] != CLASSIC:
                lowered = new_scores[minus[t], start:stop]
                for i in range(added.size):
                    lowered[i] -= factor * added[i]
        softmax_block(new_scores, probabilities, log_normaliser, start, stop)
        block_losses[block] = 0.0
        for i in range(start, stop):
            k = labels[i]
            block_losses[block, k] += weights[i] * (log_normaliser[i - start] - new_scores[k, i])
