"""Load damaged and hostile model files: each one is a valid model, or is refused with ModelFormatError.

    python benchmarks/reliability/fuzz_model_files.py                                  # 200,000 model files
    python benchmarks/reliability/fuzz_model_files.py --target checkpoint --cases 50000
    python benchmarks/reliability/fuzz_model_files.py --target xgboost --cases 5000  # what export wrote
    NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=... python benchmarks/reliability/fuzz_model_files.py --cases 20000

A case depends on the seed and its number alone: `--first` and `--cases` repeat any of them, and with `--state FILE` a
run that was stopped goes on. Files are read in a process of its own, which may take no more than `--memory` megabytes
and ten seconds a file: if it crashes or hangs, the case is counted and the next one begins. With NUMBA_BOUNDSCHECK=1
(and a cache folder of its own) a read outside an array is an error, too.

Exports are read by LightGBM and XGBoost themselves, whose crashes are theirs; they are counted, not mended.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

from common import describe_machine, peak_megabytes, print_table
from mutations import FILE_MUTATIONS, JSON_MUTATIONS, TEXT_MUTATIONS, mutate, with_checksum

SECONDS_A_CASE = 10.0
FIXTURES = Path(__file__).parents[2] / "tests" / "fixtures"
N_FEATURES = 4
ROWS = np.array(
    [[0.0] * N_FEATURES, [np.nan] * N_FEATURES, [1e308] * N_FEATURES, [-1e308] * N_FEATURES, [0.3, -0.2, 1.0, np.nan]]
)


# ------------------------------------------------------------------------------------------------- seed files


def training_data(n_classes: int) -> tuple[Any, Any]:
    """Small random data, the same every time."""
    rng = np.random.default_rng(n_classes)
    X = rng.normal(size=(60, N_FEATURES))
    X[rng.random(X.shape) < 0.05] = np.nan
    return X, np.arange(60) % n_classes


def small_model(**options: Any) -> Any:
    """A classifier with the schedule named, so that files do not depend on defaults."""
    from abc_plugins import ABCBoostClassifier

    given = {"n_estimators": 4, "num_leaves": 4, "max_depth": 2, "min_samples_leaf": 3, "search": 1, "warmup": 1}
    given |= {"gap": 1, "leaf_values": "paper", "n_jobs": 1, "random_state": 0}
    return ABCBoostClassifier(**{**given, **options})


def model_files(folder: Path) -> list[bytes]:
    """Valid model files of several kinds; two have sets of categories, and one is of version 1."""
    import pandas

    files = [(FIXTURES / name).read_bytes() for name in ("0.2.0_sets.abc", "0.1.0_three_classes.abc")]
    kinds: list[tuple[int, dict[str, Any]]] = [
        (2, {}),
        (3, {"early_stopping_rounds": 3}),
        (5, {"class_weight": "balanced", "tree_shape": "best-first"}),
        (4, {"method": "abcrobustlogit"}),
        (6, {"categorical_features": [0, 3]}),
    ]
    for n_classes, options in kinds:
        X, y = training_data(n_classes)
        if "categorical_features" in options:
            X[:, [0, 3]] = np.clip(np.round(X[:, [0, 3]]), -2, 2)
            X, y = np.tile(X, (5, 1)), np.tile(y, 5)  # few rows of a category are not enough to sort them
        labels = np.array(["ant", "bee", "cat", "dog", "eel"], dtype=object)[y] if n_classes == 5 else y
        table = pandas.DataFrame(X, columns=list("abcd")) if n_classes == 3 else X
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            small_model(**options).fit(table, labels).save_model(folder / "seed")
        files.append((folder / "seed").read_bytes())
    return files


def checkpointed_model(n_classes: int, **options: Any) -> Any:
    """The models of the checkpoints: of both kinds of trees; one stops early, which has a state of its own."""
    kind = {"early_stopping_rounds": 2} if n_classes == 3 else {"method": "abcrobustlogit"}
    return small_model(**kind, **options)


def checkpoint_files(folder: Path) -> list[bytes]:
    """Valid checkpoints."""
    from abc_plugins.callbacks import checkpoint

    files = []
    for n_classes in (2, 3):
        X, y = training_data(n_classes)
        checkpointed_model(n_classes).fit(X, y, eval_set=[(X, y)], callbacks=[checkpoint(folder / "seed")])
        files.append((folder / "seed").read_bytes())
    return files


def lightgbm_files(folder: Path) -> list[bytes]:
    """What `abc_plugins.lgbm.export` writes."""
    from abc_plugins.lgbm import export

    for layout in ("compact", "rounds"):
        export(small_model().fit(*training_data(3)), layout=layout).save_model(folder / f"seed-{layout}")
    return [path.read_bytes() for path in sorted(folder.glob("seed-*"))]


def xgboost_files(folder: Path) -> list[bytes]:
    """What `abc_plugins.xgb.export` writes."""
    from abc_plugins.xgb import export

    export(small_model().fit(*training_data(3))).save_model(folder / "seed.json")
    return [(folder / "seed.json").read_bytes()]


# -------------------------------------------------------------------------------------------------- one case


class WrongResultError(Exception):
    """A file was loaded to something that is not a valid model."""


def load_native(path: Path) -> str:
    """Load a model; if it is one, use it, save it and load it again."""
    from abc_plugins import ABCBoostClassifier, ModelFormatError

    try:
        model = ABCBoostClassifier.load_model(path)
    except ModelFormatError:
        return "refused"
    rows = np.resize(ROWS, (ROWS.shape[0], model.n_features_in_))
    probabilities = model.predict_proba(rows)
    if not np.isfinite(probabilities).all() or not np.allclose(probabilities.sum(axis=1), 1.0):
        raise WrongResultError("probabilities are not finite or do not sum to one")
    if not np.isin(model.predict(rows), model.classes_).all():
        raise WrongResultError("a prediction is not among the classes")
    model.save_model(path)
    if ABCBoostClassifier.load_model(path).predict_proba(rows).tobytes() != probabilities.tobytes():
        raise WrongResultError("the model changed when it was saved again")
    return "loaded"


def load_and_resume(path: Path) -> str:
    """Go on from a checkpoint, as the one or the other training, and take its model: each may be refused."""
    outcomes = {_resume(path, n_classes) for n_classes in (2, 3)}
    loaded = load_native(path) == "loaded"
    if outcomes == {"refused"}:
        return "loaded only" if loaded else "refused"
    return "resumed" if "resumed" in outcomes else "other training"


def _resume(path: Path, n_classes: int) -> str:
    from abc_plugins import ModelFormatError

    X, y = training_data(n_classes)
    try:
        model = checkpointed_model(n_classes, n_estimators=5).fit(X, y, eval_set=[(X, y)], resume_from=path)
    except ModelFormatError:
        return "refused"
    except ValueError as error:
        if not str(error).startswith(("resume_from must be", "n_estimators must be", "callbacks must be")):
            raise
        return "other training"
    if not np.isfinite(model.predict_proba(X)).all():
        raise WrongResultError("a resumed model is not finite")
    return "resumed"


def load_lightgbm(path: Path) -> str:
    """Let LightGBM read a file."""
    import lightgbm

    try:
        lightgbm.Booster(params={"verbosity": -1, "num_threads": 1}, model_file=path).predict(ROWS, num_threads=1)
    except (lightgbm.basic.LightGBMError, ValueError, TypeError, KeyError, IndexError):
        return "refused"
    return "loaded"


def load_xgboost(path: Path) -> str:
    """Let XGBoost read a file."""
    import xgboost

    try:
        booster = xgboost.Booster({"nthread": 1})
        booster.load_model(path)
        rows = np.clip(ROWS, -1e30, 1e30).astype(np.float32)  # XGBoost refuses what a float32 cannot hold
        booster.predict(xgboost.DMatrix(rows[:, : max(1, booster.num_features())]))
    except (xgboost.core.XGBoostError, ValueError, TypeError, KeyError, IndexError):
        return "refused"
    return "loaded"


@dataclass(frozen=True)
class Target:
    """What is fuzzed: valid files, how they are changed, the end of the file's name, and who reads them."""

    seeds: Callable[[Path], list[bytes]]
    mutations: tuple[Any, ...]
    suffix: str
    load: Callable[[Path], str]
    sealed: bool = False


TARGETS = {
    "model": Target(model_files, FILE_MUTATIONS, ".abc", load_native, sealed=True),
    "checkpoint": Target(checkpoint_files, FILE_MUTATIONS, ".checkpoint", load_and_resume, sealed=True),
    "lightgbm": Target(lightgbm_files, TEXT_MUTATIONS, ".txt", load_lightgbm),
    "xgboost": Target(xgboost_files, JSON_MUTATIONS, ".json", load_xgboost),
}


def make_case(target: Target, seeds: Sequence[bytes], seed: int, case: int) -> bytes:
    """The file of one case. Most of those with a checksum get it right again."""
    rng = np.random.default_rng([seed, case])
    data = mutate(seeds[int(rng.integers(len(seeds)))], rng, target.mutations)
    return with_checksum(data) if target.sealed and rng.random() < 0.9 else data


# ---------------------------------------------------------------------------------------------------- running


@dataclass
class Tally:
    """What came of the cases so far."""

    next_case: int
    outcomes: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    seconds: float = 0.0
    peak_megabytes: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {**vars(self), "outcomes": dict(self.outcomes)}


def _reader(name: str, seed: int, first: int, last: int, megabytes: int, pipe: Any) -> None:
    """Read the cases first..last - 1 in this process, and report each before the next one begins."""
    target = TARGETS[name]
    warnings.simplefilter("ignore")
    if not target.sealed:  # LightGBM and XGBoost write about every file
        for stream in (1, 2):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    in_memory = "/dev/shm" if os.path.isdir("/dev/shm") else None  # a disk takes longer than everything else
    with tempfile.TemporaryDirectory(dir=in_memory) as folder:
        seeds = target.seeds(Path(folder))
        path = Path(folder) / f"case{target.suffix}"
        for valid in seeds:  # compiles, and loads all libraries, before memory is limited
            path.write_bytes(valid)
            target.load(path)
        limit = _address_space() + megabytes * 2**20
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        for case in range(first, last):
            path.write_bytes(make_case(target, seeds, seed, case))
            outcome, failure = "FAILED", None
            try:
                outcome = target.load(path)
            except Exception as error:  # every error but the one that is expected is a finding
                failure = f"case {case}: {type(error).__name__}: {str(error)[:200]}"
            pipe.send((outcome, failure, peak_megabytes()))


def _address_space() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def run(name: str, seed: int, last: int, megabytes: int, tally: Tally, save: Callable[[Tally], None]) -> None:
    """Run the cases from `tally.next_case` to `last` - 1; a reader that dies or hangs is replaced by a new one."""
    context = multiprocessing.get_context("spawn")
    started = time.perf_counter() - tally.seconds
    while tally.next_case < last:
        ours, theirs = context.Pipe()
        reader = context.Process(
            target=_reader, args=(name, seed, tally.next_case, last, megabytes, theirs), daemon=True
        )
        reader.start()
        theirs.close()
        for outcome, failure, peak in _reports(reader, ours, tally, last):
            tally.outcomes[outcome] += 1
            tally.failures += [failure] if failure else []
            tally.peak_megabytes = max(tally.peak_megabytes, peak)
            tally.next_case += 1
            tally.seconds = time.perf_counter() - started
            if tally.next_case % 500 == 0:
                save(tally)
        reader.join()
    save(tally)


def _reports(reader: Any, pipe: Any, tally: Tally, last: int) -> Iterator[tuple[str, str | None, float]]:
    """Outcome, error and peak memory of every case that a reader reads, and of the one that ended it, if one did."""
    patience = 600.0  # for compilation, once
    while tally.next_case < last:
        if not pipe.poll(patience):
            reader.kill()
            yield "HUNG", f"case {tally.next_case}: no answer in {patience:g} s", 0.0
            return
        try:
            yield pipe.recv()
        except (EOFError, ConnectionResetError):
            break
        patience = SECONDS_A_CASE
    reader.join()
    if tally.next_case < last:
        yield "CRASHED", f"case {tally.next_case}: the reader ended with code {reader.exitcode}", 0.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 1 if a case failed."""
    parser = argparse.ArgumentParser(description="Load damaged and hostile model files.")
    parser.add_argument("--target", choices=TARGETS, default="model")
    parser.add_argument("--cases", type=int, default=200_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--memory", type=int, default=512, help="megabytes that a reader may take for its cases")
    parser.add_argument("--state", type=Path, help="JSON file to keep the figures in, and to go on from")
    options = parser.parse_args(arguments)
    tally = Tally(options.first)
    identity = {name: getattr(options, name) for name in ("target", "seed", "first")}
    if options.state is not None and options.state.exists():
        stored = json.loads(options.state.read_text())
        if {name: stored[name] for name in identity} != identity:
            parser.error(f"{options.state} is of another run: {stored['target']}, seed {stored['seed']}")
        tally = Tally(**{name: stored[name] for name in vars(tally)})
        tally.outcomes = Counter(tally.outcomes)

    def save(now: Tally) -> None:
        if options.state is not None:
            options.state.write_text(json.dumps({**identity, **now.to_json(), "machine": describe_machine()}, indent=2))

    run(options.target, options.seed, options.first + options.cases, options.memory, tally, save)
    _print(options.target, tally)
    return 1 if tally.failures else 0


def _print(name: str, tally: Tally) -> None:
    checks = "on" if os.environ.get("NUMBA_BOUNDSCHECK") == "1" else "off"
    rows = [[outcome, f"{count:,}"] for outcome, count in sorted(tally.outcomes.items())]
    print(f"{name}: {sum(tally.outcomes.values()):,} cases in {tally.seconds:.0f} s, bounds checks {checks}")
    print(f"peak memory of a reader: {tally.peak_megabytes:.0f} MB")
    print_table(["outcome", "cases"], rows)
    for failure in tally.failures[:20]:
        print(failure)


if __name__ == "__main__":
    sys.exit(main())
