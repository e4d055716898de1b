"""Fast ABC-Boost written for reading, not for speed: what every fast path is compared with.

Pure NumPy, and nothing of the package is imported. Symbols are the paper's: N samples, K classes, F the scores and
p their softmax (both of shape (N, K)), r_ik = 1[y_i = k], z the residuals, h the second derivatives, b the base
class, nu the shrinkage, J the number of leaves, s, g, w the search, the gap and the warm-up of the schedule.
"""

from .boosting import fit, guarded, pairs_of_round, train_round
from .schedule import lowest, round_candidates, trust
from .terms import (
    CLASSIC,
    LEAF,
    NOISE,
    Settings,
    abc_derivatives,
    class_losses,
    classic_derivatives,
    derivatives,
    sample_losses,
    softmax,
    total_loss,
)
from .trees import Node, Tree, best_split, candidate_thresholds, gain_term, grow, set_leaf_values, shrunken

__all__ = [
    "CLASSIC",
    "LEAF",
    "NOISE",
    "Node",
    "Settings",
    "Tree",
    "abc_derivatives",
    "best_split",
    "candidate_thresholds",
    "class_losses",
    "classic_derivatives",
    "derivatives",
    "fit",
    "gain_term",
    "grow",
    "guarded",
    "lowest",
    "pairs_of_round",
    "round_candidates",
    "sample_losses",
    "set_leaf_values",
    "shrunken",
    "softmax",
    "total_loss",
    "train_round",
    "trust",
]
