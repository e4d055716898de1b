"""Faults and load, for minutes instead of the seconds that tests have.

    python benchmarks/reliability/soak.py kill --times 50    # SIGKILL at random moments, then go on from the checkpoint
    python benchmarks/reliability/soak.py fits --times 1000  # fits and predictions in one process: memory stays flat
    python benchmarks/reliability/soak.py threads            # threads, fork, spawn, joblib, a cold cache for two
    python benchmarks/reliability/soak.py edges              # sizes at the edge: classes, features, rows, imbalance

Each prints a table, writes results/soak_NAME.json and ends with code 1 if something was not as promised.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

from common import describe_machine, peak_megabytes, print_table

from abc_plugins import ABCBoostClassifier
from abc_plugins.callbacks import checkpoint
from abc_plugins.core.model.checkpoint import load_checkpoint

SECONDS = 1800.0
"""Nothing here takes that long, even on a busy machine: whatever does hangs."""

Row = list[str]


def make_data(n_classes: int = 4, n_samples: int = 600, n_features: int = 8, seed: int = 0) -> tuple[Any, Any]:
    """Gaussian clusters that overlap, one per class."""
    rng = np.random.default_rng([seed, n_classes, n_samples, n_features])
    y = np.arange(n_samples) % n_classes
    return rng.normal(size=(n_classes, n_features))[y] + 1.5 * rng.normal(size=(n_samples, n_features)), y


def model(**options: Any) -> ABCBoostClassifier:
    """A classifier whose schedule does not depend on defaults."""
    given = {"n_estimators": 20, "num_leaves": 8, "search": 2, "gap": 3, "warmup": 2, "leaf_values": "paper"}
    return ABCBoostClassifier(**{**given, "n_jobs": 1, "random_state": 0, **options})


def digest(fitted: ABCBoostClassifier, X: Any) -> str:
    """All that a model is, and what it predicts."""
    trees = fitted.model_.flat()
    parts = [getattr(trees, name).tobytes() for name in trees.__dataclass_fields__]
    return hashlib.sha256(b"".join([*parts, fitted.predict_proba(X).tobytes()])).hexdigest()[:16]


def resident_megabytes() -> float:
    """Memory that this process holds now (Linux)."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


# ----------------------------------------------------------------------------------------------------- kill


def kill(times: int) -> tuple[list[str], list[Row], bool]:
    """Kill a training again and again, each time going on from its checkpoint."""
    n_rounds, every = 20 * times, 3
    X, y = make_data()
    options = {"n_estimators": n_rounds, "subsample": 0.7, "learning_rate": 0.02, "early_stopping_rounds": n_rounds}
    straight = digest(model(**options).fit(X, y), X)
    rng = np.random.default_rng(0)
    lost, broken, leftovers, went_back, killed = [], 0, 0, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.checkpoint"
        done = 0
        while killed < times:
            seen = _train_and_kill(options, X, y, path, every, rng)
            killed += 1
            leftovers += sum(name.endswith(".tmp") for name in os.listdir(folder))
            if not path.exists():
                continue
            try:
                now = len(load_checkpoint(path).model_header["base_classes"])
            except Exception as error:  # nothing at all may be wrong with it
                print(f"broken after kill {killed}: {error}")
                broken += 1
                continue
            went_back += now < done
            lost.append(max(seen - now, 0))
            done = now
        resumed = digest(model(**options).fit(X, y, resume_from=path), X)
    good = not broken and not went_back and max(lost) <= every and resumed == straight
    rows = [
        ["killed", str(killed)],
        ["broken checkpoints", str(broken)],
        ["checkpoints with fewer rounds than before", str(went_back)],
        [f"most rounds lost (a checkpoint every {every} rounds)", str(max(lost))],
        ["kills while a file was being written", str(leftovers)],
        [f"rounds done when it was left alone, of {n_rounds}", str(done)],
        ["model as of an uninterrupted training, bit for bit", "yes" if resumed == straight else "NO"],
    ]
    return ["", "figure"], rows, good


def _train_and_kill(options: dict[str, Any], X: Any, y: Any, path: Path, every: int, rng: np.random.Generator) -> int:
    """Train in a process that is killed at some moment; the number of rounds it had finished.

    The moment is so many rounds and a part of a round after the start, however busy the machine is.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        callbacks = [checkpoint(path, every_rounds=every), lambda _: os.write(writer, b".") and None]
        model(**options).fit(X, y, callbacks=callbacks, resume_from=path if path.exists() else None)
        os._exit(0)
    os.close(writer)
    before = len(load_checkpoint(path).model_header["base_classes"]) if path.exists() else 0
    n_rounds = int(rng.integers(0, 13))
    with os.fdopen(reader, "rb", buffering=0) as file:
        started = time.perf_counter()
        seen = sum(len(file.read(1)) for _ in range(n_rounds))
        a_round = (time.perf_counter() - started) / max(n_rounds, 1)
        time.sleep(float(rng.uniform(0.0, 2.0)) * max(a_round, 0.005))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return before + seen + len(file.read())


# ----------------------------------------------------------------------------------------------------- fits


def fits(times: int) -> tuple[list[str], list[Row], bool]:
    """Fit and predict over and over in one process."""
    rows: list[Row] = []
    memory = []
    started = time.perf_counter()
    for number in range(1, times + 1):
        rng = np.random.default_rng(number)
        X, y = make_data(int(rng.integers(2, 7)), int(rng.integers(50, 800)), int(rng.integers(1, 12)), seed=number)
        options = {"search": 1, "n_estimators": int(rng.integers(1, 12)), "n_jobs": int(rng.integers(1, 4))}
        fitted = model(**options, leaf_values=("paper", "sequential")[number % 2]).fit(X, y, eval_set=[(X, y)])
        fitted.predict_proba(X)
        if number % (times // 10) == 0:
            memory.append(resident_megabytes())
            files = len(os.listdir("/proc/self/fd"))
            rows.append([f"{number:,}", f"{memory[-1]:.1f}", str(files), f"{time.perf_counter() - started:.0f}"])
    # The first fits load code and fill the allocator's pools.
    good = memory[-1] <= 1.05 * memory[1]  # what is free lies in pieces: with data of many sizes some per cent
    return ["fits", "resident MB", "open files", "seconds"], rows, good


# -------------------------------------------------------------------------------------------------- threads


def _fit_digest(job: tuple[int, int]) -> str:
    """Fit the data of this number on so many threads; what came out."""
    seed, n_jobs = job
    X, y = make_data(seed=seed)
    return digest(model(n_jobs=n_jobs).fit(X, y), X)


def threads(repeats: int) -> tuple[list[str], list[Row], bool]:
    """The same fits in every kind of company: no deadlock, no other result."""
    n_seeds = 4
    expected = [_fit_digest((seed, 1)) for seed in range(n_seeds)]
    jobs = [(seed, n_jobs) for _ in range(repeats) for n_jobs in (1, 2, 5) for seed in range(n_seeds)]
    wanted = [expected[seed] for seed, _ in jobs]
    ways: dict[str, Callable[[], list[str]]] = {
        "one after the other, other n_jobs": lambda: [_fit_digest(job) for job in jobs],
        "8 threads at once": lambda: list(ThreadPoolExecutor(8).map(_fit_digest, jobs, timeout=SECONDS)),
        "4 forked processes": lambda: _in_processes("fork", jobs),
        "2 spawned processes": lambda: _in_processes("spawn", jobs),
        "2 processes of a fork server": lambda: _in_processes("forkserver", jobs),
        "joblib, threads within processes": lambda: _with_joblib(jobs, "loky"),
        "joblib, threads within threads": lambda: _with_joblib(jobs, "threading"),
    }
    rows, good = [], True
    for name, way in ways.items():
        started = time.perf_counter()
        same = way() == wanted
        good &= same
        rows.append([name, f"{len(jobs)}", "yes" if same else "NO", f"{time.perf_counter() - started:.0f}"])
    started = time.perf_counter()
    found = _cold_cache()
    same = found == [expected[0]] * len(found)
    rows.append(["2 processes, one cold cache", str(len(found)), "yes" if same else "NO",
                 f"{time.perf_counter() - started:.0f}"])  # fmt: skip
    return ["fits", "number", "all the same", "seconds"], rows, good and same


def _in_processes(method: str, jobs: Sequence[tuple[int, int]]) -> list[str]:
    context = multiprocessing.get_context(method)
    with ProcessPoolExecutor(4 if method == "fork" else 2, mp_context=context) as pool:
        return list(pool.map(_fit_digest, jobs, timeout=SECONDS))


def _with_joblib(jobs: Sequence[tuple[int, int]], backend: str) -> list[str]:
    import joblib

    return joblib.Parallel(2, backend=backend, timeout=SECONDS)(joblib.delayed(_fit_digest)(job) for job in jobs)


def _cold_cache() -> list[str]:
    """Two processes start at the same moment with one empty folder for compiled kernels, and two more find it full."""
    program = "import sys; sys.path.insert(0, sys.argv[1]); import soak; print(soak._fit_digest((0, 2)))"
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
        command = [sys.executable, "-c", program, str(Path(__file__).parent)]
        found = []
        for _ in range(2):
            running = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)]
            found += [process.communicate(timeout=SECONDS)[0].strip() for process in running]
        return found


# ---------------------------------------------------------------------------------------------------- edges


def _thousand_classes() -> ABCBoostClassifier:
    rng = np.random.default_rng(0)
    y = np.arange(20_000) % 1000
    X = np.c_[rng.normal(size=(1000, 6))[y] + 0.3 * rng.normal(size=(20_000, 6))]
    return _checked(model(n_estimators=3, search=1, gap=0, warmup=0).fit(X, y), X[:500])


def _one_feature() -> ABCBoostClassifier:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 1))
    y = np.digitize(X[:, 0], [-1, 0, 1])
    fitted = _checked(model(n_estimators=30).fit(X, y), X)
    _require(fitted.score(X, y) > 0.99, "one feature that tells the class is learnt")
    return fitted


def _million_rows() -> ABCBoostClassifier:
    X, y = make_data(5, 1_000_000, 10)
    return _checked(model(n_estimators=5, search=1, gap=0, warmup=0).fit(X, y), X[:1000])


def _ten_thousand_features() -> ABCBoostClassifier:
    X, y = make_data(3, 2_000, 10_000)
    return _checked(model(n_estimators=2, num_leaves=20).fit(X, y), X)


def _rare_class() -> ABCBoostClassifier:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200_000, 4))
    y = (X[:, 0] > 0).astype(int)
    y[:2] = 2  # 1 in 100,000
    X[:2] = 9.0
    fitted = _checked(model(n_estimators=30, min_samples_leaf=1, search=1, gap=0, warmup=0).fit(X, y), X[:1000])
    _require((fitted.predict(X[:2]) == 2).all(), "two rows of 200,000 are learnt")
    return fitted


def _saturated(n_rounds: int = 800) -> ABCBoostClassifier:
    rng = np.random.default_rng(0)
    y = np.arange(300) % 3
    X = y[:, None] + 0.01 * rng.normal(size=(300, 2))
    options = {"n_estimators": n_rounds, "learning_rate": 0.5, "reg_lambda": 0.0, "leaf_reg_lambda": 0.0}
    paper = {"method": "abcrobustlogit", "min_samples_leaf": 10}
    # Without guard and clip the paper's algorithm diverges here; even then all numbers are finite.
    for kind in (paper, {}):
        wild = model(**options, **kind, guard=False, leaf_clip=None).fit(X, y)
        finite = np.isfinite(wild.train_loss_).all() and np.isfinite(wild.predict_proba(X)).all()
        _require(bool(finite), "finite numbers")
    for more in ({**paper, "leaf_values": "sequential"}, {**paper, "guard": False}, paper, {"guard": False}, {}):
        fitted = _checked(model(**options, **more).fit(X, y), X)
        _require(fitted.score(X, y) == 1.0, "classes that are apart stay apart")
        _require(bool(np.isfinite(fitted.train_loss_).all()), "training losses are finite")
    return fitted


EDGES: dict[str, Callable[[], ABCBoostClassifier]] = {
    "1,000 classes": _thousand_classes,
    "one feature": _one_feature,
    "one million rows": _million_rows,
    "10,000 features": _ten_thousand_features,
    "a class of 1 in 100,000": _rare_class,
    "saturated for hundreds of rounds": _saturated,
}


def edges(_: int) -> tuple[list[str], list[Row], bool]:
    """Fit data of extreme sizes, each in a process of its own."""
    rows, good = [], True
    for name in EDGES:
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
            outcome, seconds, megabytes, loss = pool.submit(_run_edge, name).result()
        good &= outcome == "good"
        rows.append([name, outcome, f"{seconds:.1f}", f"{megabytes:.0f}", loss])
    return ["data", "outcome", "seconds", "peak MB", "training loss, first and last round"], rows, good


def _run_edge(name: str) -> tuple[str, float, float, str]:
    X, y = make_data()
    model(n_estimators=3).fit(X, y)  # compile
    started = time.perf_counter()
    try:
        losses = EDGES[name]().train_loss_
    except AssertionError as error:
        return f"WRONG: {error}", time.perf_counter() - started, peak_megabytes(), ""
    return "good", time.perf_counter() - started, peak_megabytes(), f"{losses[0]:.6g}, {losses[-1]:.6g}"


def _checked(fitted: ABCBoostClassifier, X: Any) -> ABCBoostClassifier:
    probabilities = fitted.predict_proba(X)
    _require(bool(np.isfinite(probabilities).all()), "probabilities are finite")
    _require(bool(np.allclose(probabilities.sum(axis=1), 1.0)), "probabilities sum to one")
    _require(fitted.train_loss_[-1] <= fitted.train_loss_[0], "the training loss falls")
    return fitted


def _require(condition: bool, what: str) -> None:
    if not condition:
        raise AssertionError(what)


# ----------------------------------------------------------------------------------------------------- main

SOAKS = {"kill": (kill, 50), "fits": (fits, 1000), "threads": (threads, 3), "edges": (edges, 1)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one of the soaks; 1 if something was not as promised."""
    parser = argparse.ArgumentParser(description="Faults and load.")
    parser.add_argument("soak", choices=SOAKS)
    parser.add_argument("--times", type=int, help="how often")
    parser.add_argument("--out", type=Path, default=Path("results"), help="folder of the JSON file")
    options = parser.parse_args(arguments)
    function, times = SOAKS[options.soak]
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # a fork of a process with threads is what is tested
        header, rows, good = function(options.times or times)
    seconds = time.perf_counter() - started
    print_table(header, rows)
    print(f"{'As promised' if good else 'NOT AS PROMISED'}, {seconds:.0f} s")
    options.out.mkdir(exist_ok=True)
    written = {"soak": options.soak, "good": good, "header": header, "rows": rows, "seconds": seconds}
    (options.out / f"soak_{options.soak}.json").write_text(json.dumps({**written, "machine": describe_machine()}))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
