"""What each micro-optimisation is worth: training time with it, divided by the time without.

    python benchmarks/kernels/ablation.py --prepare     # compiles every variant once, which takes minutes
    python benchmarks/kernels/ablation.py --repeats 3

A variant is a copy of the package in which one piece of text is replaced by plainer code; if the code has changed, the
command says so. Each variant has a process of its own, and the processes take turns fit by fit. Data sets come from
the folder named by ABC_PLUGINS_DATA.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from common import print_table

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(os.environ.get("ABLATION_FOLDER", "build/ablation"))
SETS = (
    "letter10k",
    "pendigits",
    "optdigits",
    "satimage",
    "texture",
    "vowel",
    "splice",
    "krkopt",
    "gas_drift",
    "covtype",
)
MOST_ROWS = 50_000
FITS = {
    "pairs": {"method": "abcrobustlogit", "n_estimators": 5},
    "pairs, paper's leaf values": {"method": "abcrobustlogit", "leaf_values": "paper", "n_estimators": 5},
    "directional, best-first": {"tree_shape": "best-first", "n_estimators": 40},
    "directional, symmetric": {"tree_shape": "symmetric", "n_estimators": 40},
}

VARIANTS: dict[str, list[tuple[str, str, str]]] = {
    "as it is": [],
    "joint cells": [
        ("core/bins/joint.py", "    first, second = _pair_up(n_cells)\n    sizes", "    return no_joint()\n    sizes")
    ],
    "entries four at a time": [
        ("core/trees/histogram.py", "while e + _FOUR <= stop:", "while e + _FOUR <= stop and False:"),
    ],
    "sums of derivatives in four parts": [
        ("core/trees/fixedpoint.py", "    even = z.size // 4 * 4\n", "    even = 0\n")
    ],
    "leaf sums in two sets": [("core/leaves.py", "half = halves[i & 1]", "half = halves[0]")],
    "leaf values of several trees in one call": [
        ("core/renewal.py", "        if threaded or self._reduce is not None:\n", "        if True:\n")
    ],
    "leaf values while trees grow": [
        (
            "core/pair_rounds.py",
            "        return keeps_up or self.scores.labels.size < ROWS_WORTH_THREADS",
            "        return False",
        ),
    ],
}
"""Optimisation -> (file, text, the plainer text) that take it out."""


def make_copy(number: int, changes: list[tuple[str, str, str]]) -> Path:
    """Copy the package, with some text replaced; a copy that is there and has not changed is kept."""
    folder = FOLDER.resolve() / f"variant{number}"
    for source in sorted((ROOT / "abc_plugins").rglob("*")):
        name = source.relative_to(ROOT).as_posix()
        if source.is_dir() or "__pycache__" in name:
            continue
        text = source.read_bytes()
        for file, old, new in changes:
            if name == f"abc_plugins/{file}":
                if old.encode() not in text:
                    raise SystemExit(f"{name} has changed: it no longer has the text\n{old}")
                text = text.replace(old.encode(), new.encode())
        target = folder / name
        if not target.exists() or target.read_bytes() != text:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(text)
    return folder


def serve() -> None:
    """Fit what each line of standard input asks for, and print the seconds that it took."""
    import time

    from abc_plugins import ABCBoostClassifier
    from abc_plugins.data.datasets import load

    known: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    for line in sys.stdin:
        data, fit, threads = line.strip().split("\t")
        if data not in known:
            dataset = load(data)
            rows = np.random.default_rng(0).permutation(len(dataset.y))[:MOST_ROWS]
            known[data] = dataset.X[rows], dataset.y[rows]
        model = ABCBoostClassifier(random_state=0, n_jobs=int(threads), **FITS[fit])
        started = time.perf_counter()
        model.fit(*known[data])
        print(time.perf_counter() - started, flush=True)


class Variant:
    """A process that fits with one copy of the package."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, str(Path(__file__).resolve()), "--serve"]
        paths = {**os.environ, "PYTHONPATH": str(folder)}
        self._process = subprocess.Popen(command, env=paths, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def seconds(self, data: str, fit: str, threads: int) -> float:
        """Fit, and return the seconds."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{data}\t{fit}\t{threads}\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def compare(sets: list[str], fits: list[str], threads: int, repeats: int) -> None:
    """Print the ratio of each optimisation over all data sets, and its range."""
    variants = {name: Variant(make_copy(number, changes)) for number, (name, changes) in enumerate(VARIANTS.items())}
    best: dict[tuple[str, str, str], float] = {}
    for data in sets:
        for fit in fits:
            for repeat in range(repeats + 1):  # the first one loads data and kernels
                for name, variant in variants.items():
                    seconds = variant.seconds(data, fit, threads)
                    if repeat:
                        key = (name, data, fit)
                        best[key] = min(best.get(key, np.inf), seconds)
    for variant in variants.values():
        variant.close()
    rows = []
    for name in list(VARIANTS)[1:]:
        for fit in fits:
            ratios = np.array([best["as it is", data, fit] / best[name, data, fit] for data in sets])
            low, high = int(ratios.argmin()), int(ratios.argmax())
            mean = np.exp(np.log(ratios).mean())
            span = f"{ratios[low]:.2f} ({sets[low]}) to {ratios[high]:.2f} ({sets[high]})"
            rows.append([name, fit, f"{mean:.3f}", span])
    print_table(["optimisation", "fit", "time with / without", "range"], rows)


def main() -> None:
    """Compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=list(SETS), metavar="SET")
    parser.add_argument("--fits", nargs="+", default=list(FITS), choices=list(FITS), metavar="FIT")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--prepare", action="store_true", help="only compile")
    parser.add_argument("--clean", action="store_true", help="remove the copies")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve()
    elif arguments.clean:
        shutil.rmtree(FOLDER, ignore_errors=True)
    elif arguments.prepare:
        for number, changes in enumerate(VARIANTS.values()):
            variant = Variant(make_copy(number, changes))
            for fit in arguments.fits:
                variant.seconds("vowel", fit, arguments.threads)
            variant.close()
    else:
        compare(arguments.data, arguments.fits, arguments.threads, arguments.repeats)


if __name__ == "__main__":
    main()
