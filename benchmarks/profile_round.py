"""Where the time of a round goes, and what the machine could do at best.

    python benchmarks/profile_round.py                     # letter10k, mnist10k and covtype, one thread

Boosts some rounds, then times the parts of the next one, each by itself, best of several, in milliseconds of CPU.
"Histograms" counts the additions to histogram cells that the round's trees need, at the speed at which root histograms
are built; "bandwidth" is what they move (16 bytes read and written a cell, 16 a sample, 2 an entry) against copying a
large array.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from common import describe_machine, print_table

from abc_plugins import ABCBoostClassifier
from abc_plugins.core.bins.training_data import make_training_data
from abc_plugins.core.booster import Booster
from abc_plugins.core.leaves import apply_update
from abc_plugins.core.pairs import base_pairs
from abc_plugins.core.runtime.parallel import Workers
from abc_plugins.core.trees.fixedpoint import to_fixed_point
from abc_plugins.core.trees.histogram import build_histogram
from abc_plugins.core.trees.workspace import NODE
from abc_plugins.data.datasets import load

ROUNDS = {"letter10k": 50, "mnist10k": 10, "covtype": 20}


def milliseconds(work: Callable[[], Any], repeats: int = 5) -> float:
    """Least CPU time of several calls."""
    best = float("inf")
    for _ in range(repeats):
        started = time.process_time()
        work()
        best = min(best, time.process_time() - started)
    return 1e3 * best


def profile(name: str, leaf_values: str = "sequential") -> dict[str, float]:
    """Time the parts of one round of a data set."""
    data = load(name)
    train, _ = data.split()
    classes, labels = np.unique(data.y[train], return_inverse=True)
    with Workers(1) as workers:
        samples = make_training_data(
            np.ascontiguousarray(data.X[train], dtype=np.float64), labels.astype(np.int32), np.ones(labels.size),
            classes.size, 255, workers,
        )  # fmt: skip
        options = {"method": "abcrobustlogit", "search": 1, "gap": 0, "warmup": 0, "leaf_values": leaf_values}
        booster = Booster(samples, ABCBoostClassifier(**options)._check_parameters(seed=0), workers)
        for _ in range(ROUNDS[name]):
            booster.run_round()
        return _parts(booster, samples, workers)


def _parts(booster: Any, samples: Any, workers: Workers) -> dict[str, float]:
    grower, rounds, columns = booster._grower, booster._rounds, samples.columns
    base = booster.schedule.plan(rounds.scores.class_losses.tolist()).candidates[0]
    pairs = base_pairs(base, samples.n_classes)
    rows = np.arange(samples.n_samples, dtype=np.uint32)
    growth = milliseconds(lambda: grower.grow(rounds.scores.probabilities, pairs, rows, 0))
    work = grower._teams[0].work

    def derive() -> None:
        units = grower._weight_units
        for pair in pairs:
            to_fixed_point(
                rounds.scores.probabilities, samples.labels, samples.weights, units.units, *pair, units.hessian_bits,
                work.cell_units, work.cells,
            )  # fmt: skip

    derivatives = milliseconds(derive)
    root = milliseconds(lambda: build_histogram(columns, rows, work.cells, work.joint_sums, work.histograms[0]))
    share = _rows_in_histograms(grower._nodes[: len(pairs)], grower._n_nodes, samples.n_samples)
    histograms = root * share
    values = np.zeros((len(pairs), grower.max_nodes))
    update = rounds._make_update(pairs, pairs, values, rows)
    leaf_values = milliseconds(lambda: rounds._make_update(pairs, pairs, values, rows))
    scores, probabilities = rounds.scores.scores.copy(), rounds.scores.probabilities.copy()
    update_ms = milliseconds(
        lambda: apply_update(
            rounds.scores.scores,
            samples.labels,
            samples.weights,
            grower.leaf_ids,
            update,
            scores,
            probabilities,
            workers,
        )
    )
    entries = columns.entries.size
    moved = 32 * entries + 2 * entries + 16 * samples.n_samples
    return {
        "round": growth + leaf_values + update_ms,
        "derivatives": derivatives,
        "histograms": histograms,
        "split search, partition": growth - derivatives - histograms,
        "leaf values": leaf_values,
        "scores, softmax": update_ms,
        "ns an addition": 1e6 * root / entries,
        "GB/s": moved / root / 1e6,
    }


def _rows_in_histograms(nodes: Any, n_nodes: Any, n_samples: int) -> float:
    """Samples that the round's histograms were summed over, in units of all samples."""
    assert nodes.dtype == NODE
    total = 0
    for tree, count in zip(nodes, n_nodes, strict=False):
        sizes = tree["stop"] - tree["start"]
        inner = [i for i in range(count) if tree["feature"][i] >= 0]
        total += n_samples + sum(min(sizes[tree["left"][i]], sizes[tree["right"][i]]) for i in inner)
    return total / n_samples


def copy_bandwidth() -> float:
    """Gigabytes read and written a second when a large array is copied."""
    source = np.ones(2**25)
    target = np.empty_like(source)
    return 2 * source.nbytes / milliseconds(lambda: np.copyto(target, source)) / 1e6


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="*", default=list(ROUNDS))
    arguments = parser.parse_args()
    results = {name: profile(name) for name in arguments.data}
    parts = list(next(iter(results.values())))
    print(json.dumps(describe_machine()), "\n")
    print_table(["ms a round", *results], [[part, *(f"{one[part]:.3g}" for one in results.values())] for part in parts])
    print(f"\ncopying a large array: {copy_bandwidth():.1f} GB/s")
    print(json.dumps(results))


if __name__ == "__main__":
    main()
