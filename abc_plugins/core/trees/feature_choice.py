"""Which features a node may split on: some drawn at random, and those that may interact with the ones above it.

Interaction constraints are groups of features. A branch may use features of one group only: of each leaf the groups
that are still open are known, those that hold all features on its branch, and it may split on the features of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from abc_plugins.core.runtime.arrays import AnyArray, Booleans
from abc_plugins.core.runtime.jit import kernel

_WORD_BITS = 64


class FeatureChoice(NamedTuple):
    """Work space of the choice.

    Attributes
    ----------
    share : float
        Share of the features that are drawn for a node, or for a level of a symmetric tree; 1: all.
    groups : array of uint64, shape (n_split_features, n_words)
        For every feature the groups that it is in, one bit each; no words: no constraints.
    open_groups : array of uint64, shape (n_leaves, n_words)
        For every leaf, in the order of their slots, the groups that hold all features of its branch.
    drawn : array of bool, shape (n_split_features,)
    random : array of uint64, shape (1,)
        State of the random numbers of the tree.
    """

    share: float
    groups: AnyArray
    open_groups: AnyArray
    drawn: Booleans
    random: AnyArray


def make_feature_choice(
    share: float, groups: Sequence[Sequence[int]] | None, feature: AnyArray, n_leaves: int
) -> FeatureChoice:
    """Allocate work space.

    Parameters
    ----------
    share : float
    groups : sequence of sequences of int or None
        Columns of the user's data that may be on a branch together; None: all may.
    feature : array of int, shape (n_split_features,)
        Those of the features that can be split on.
    n_leaves : int
    """
    n_words = 0 if groups is None else -(-len(groups) // _WORD_BITS)
    bits = np.zeros((feature.size, n_words), dtype=np.uint64)
    place = {int(column): f for f, column in enumerate(feature)}
    for number, group in enumerate(groups or ()):
        word, bit = divmod(number, _WORD_BITS)
        for f in (place[column] for column in group if column in place):
            bits[f, word] |= np.uint64(1 << bit)
    return FeatureChoice(
        share=float(share),
        groups=bits,
        open_groups=np.empty((n_leaves, n_words), dtype=np.uint64),
        drawn=np.empty(feature.size, dtype=np.bool_),
        random=np.zeros(1, dtype=np.uint64),
    )


@kernel
def start_choice(choice, seed):
    """Begin a tree: all groups are open at its root."""
    choice.random[0] = seed
    for word in range(choice.open_groups.shape[1]):
        choice.open_groups[0, word] = ~np.uint64(0)


@kernel
def close_groups(choice, slot, new_slot, feature, usable, new_usable):
    """After a split of the leaf in `slot` by a feature: groups without it are closed for both children."""
    open_groups = choice.open_groups
    for word in range(open_groups.shape[1]):
        open_groups[slot, word] &= choice.groups[feature, word]
        open_groups[new_slot, word] = open_groups[slot, word]
    if open_groups.shape[1] > 0:
        for f in range(usable.size):
            together = np.uint64(0)
            for word in range(open_groups.shape[1]):
                together |= choice.groups[f, word] & open_groups[slot, word]
            if together == np.uint64(0):
                usable[f] = False
                new_usable[f] = False


@kernel
def draw_features(choice, usable):
    """Draw the share of the usable features into `choice.drawn`, at least one; each has the same chance."""
    n_left = 0
    for f in range(usable.size):
        n_left += usable[f]
    n_wanted = np.int64(round(choice.share * n_left))
    if n_wanted < 1:
        n_wanted = np.int64(1)
    state = choice.random[0]
    for f in range(usable.size):
        choice.drawn[f] = False
        if usable[f]:
            # SplitMix64 (Steele, Lea and Flood 2014)
            state += np.uint64(0x9E3779B97F4A7C15)
            mixed = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            mixed ^= mixed >> np.uint64(31)
            if np.float64(mixed >> np.uint64(11)) * 2.0**-53 * n_left < n_wanted:
                choice.drawn[f] = True
                n_wanted -= 1
            n_left -= 1
    choice.random[0] = state
