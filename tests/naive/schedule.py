"""Which class is the base of a round."""

import math
from random import Random

import numpy as np


def worst_classes(losses, s):
    """The s classes with the largest loss, the smaller class first on ties; NaN is the largest loss."""
    losses = [math.inf if math.isnan(loss) else loss for loss in losses]
    left = list(range(len(losses)))
    worst = []
    while left and len(worst) < s:
        k = left[0]
        for other in left[1:]:
            if losses[other] > losses[k]:
                k = other
        worst.append(k)
        left.remove(k)
    return worst


def trust(probes):
    """How much of the gain on samples seen holds for samples not seen, by the last two probes; from 0 to 1."""
    if not probes:
        return 1.0
    seen = sum(gains[0] for gains in probes[-2:])
    unseen = sum(gains[1] for gains in probes[-2:])
    return float(np.clip(unseen / seen, 0, 1)) if seen > 0 else 0.0


def drawn_classes(m, losses, s, probes=()):
    """The s classes that arrive first in round m: waiting times over powers of losses, in units of the largest loss."""
    random = Random(m)
    power = min(2.0, 4.0 * trust(probes))
    losses = [math.inf if math.isnan(loss) else loss for loss in losses]
    largest = max([loss for loss in losses if 0 < loss < math.inf] or [1.0])
    arrivals = []
    for k, loss in enumerate(losses):
        wait = -math.log(1.0 - random.random())
        speed = 0.0 if loss == 0 else math.inf if loss == math.inf else (loss / largest) ** power
        arrivals.append((wait / speed if speed > 0 else math.inf, k))
    return [k for _, k in sorted(arrivals)[:s]]


def round_candidates(m, losses, last_base, settings, probes=()):
    """Classes to try as base in round m (counted from 0); none: a classic round."""
    K, s, g, w = len(losses), settings.search, settings.gap, settings.warmup
    if not settings.adaptive or K == 2 or m < w:
        return []
    if last_base is None or (m - w) % (g + 1) == 0:
        s = K if s == "all" else s
        return drawn_classes(m, losses, s, probes) if settings.base_choice == "drawn" else worst_classes(losses, s)
    return [last_base]


def probed_part(m, settings):
    """The part of the samples that round m is grown without, or None."""
    rounds = m - settings.warmup
    if settings.base_choice != "drawn" or rounds % 10 != 9 or settings.search == "all":
        return None
    return rounds // 10 % 5


def lowest(candidates, trial_losses):
    """The candidate with the lowest loss, the first of them on ties; NaN is never lower."""
    best, best_loss = candidates[0], math.inf
    for candidate, loss in zip(candidates, trial_losses, strict=True):
        if loss < best_loss:
            best, best_loss = candidate, loss
    return best
