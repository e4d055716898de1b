"""The commands that load files, kill trainings and put on load: small runs, and proof that they notice a fault."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks" / "reliability"
pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc")


@pytest.fixture(scope="module")
def fuzzer() -> Any:
    return _import("fuzz_model_files")


@pytest.fixture(scope="module")
def soak() -> Any:
    return _import("soak")


def _import(name: str) -> Any:
    sys.path.insert(0, str(BENCHMARKS))
    try:
        return __import__(name)
    finally:
        sys.path.remove(str(BENCHMARKS))


def load_cases(fuzzer: Any, name: str, n_cases: int, folder: Path) -> Counter[str]:
    """Load some cases in this process; a file that is neither loaded nor refused is an error."""
    target = fuzzer.TARGETS[name]
    seeds = target.seeds(folder)
    outcomes: Counter[str] = Counter()
    for case in range(n_cases):
        path = folder / f"case{target.suffix}"
        path.write_bytes(fuzzer.make_case(target, seeds, 7, case))
        outcomes[target.load(path)] += 1
    return outcomes


@pytest.fixture
def no_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk takes longer than everything else."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.mark.usefixtures("no_sync")
@pytest.mark.filterwarnings("ignore:.*feature names:UserWarning")
def test_changed_model_files_load_or_are_refused(fuzzer: Any, tmp_path: Path) -> None:
    outcomes = load_cases(fuzzer, "model", 800, tmp_path)
    assert set(outcomes) == {"loaded", "refused"}
    assert outcomes["loaded"] > 20


@pytest.mark.usefixtures("no_sync")
@pytest.mark.filterwarnings("ignore:.*feature names:UserWarning")
def test_changed_checkpoints_resume_or_are_refused(fuzzer: Any, tmp_path: Path) -> None:
    outcomes = load_cases(fuzzer, "checkpoint", 300, tmp_path)
    assert set(outcomes) <= {"resumed", "refused", "other training", "loaded only"}
    assert outcomes["resumed"] > 3


@pytest.mark.filterwarnings("ignore:.*feature names:UserWarning")
def test_the_fuzzer_notices_a_missing_check(fuzzer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("abc_plugins.core.model.validation._check_numbers", lambda _: None)
    with pytest.raises(Exception, match=r"not finite|must be a finite number|must be a number|not negative|overflow"):
        load_cases(fuzzer, "model", 4000, tmp_path)


def test_cases_can_be_repeated(fuzzer: Any, tmp_path: Path) -> None:
    target = fuzzer.TARGETS["model"]
    seeds = target.seeds(tmp_path)
    assert seeds == target.seeds(tmp_path)
    assert fuzzer.make_case(target, seeds, 1, 5) == fuzzer.make_case(target, seeds, 1, 5)
    assert fuzzer.make_case(target, seeds, 1, 5) != fuzzer.make_case(target, seeds, 1, 6)


def crash_at_three(_name: str, _seed: int, first: int, last: int, _megabytes: int, pipe: Any) -> None:
    """A reader that dies at case 3."""
    for case in range(first, last):
        if case == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        pipe.send(("refused", None, 1.0))


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="this system cannot fork")
def test_a_crash_is_counted_and_the_next_case_read(fuzzer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzzer, "_reader", crash_at_three)
    monkeypatch.setattr(fuzzer.multiprocessing, "get_context", lambda _: multiprocessing.context.ForkContext())
    tally = fuzzer.Tally(0)
    fuzzer.run("model", 0, 6, 100, tally, lambda _: None)
    assert tally.outcomes == {"refused": 5, "CRASHED": 1}
    assert tally.failures == ["case 3: the reader ended with code -9"]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_killed_trainings_lose_nothing(soak: Any) -> None:
    _, rows, good = soak.kill(4)
    assert good, rows


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_company_changes_nothing(soak: Any) -> None:
    """Threads, a fork after threads were used, and processes of joblib with threads of their own."""
    jobs = [(seed, n_jobs) for n_jobs in (1, 3) for seed in range(2)]
    expected = [soak._fit_digest((seed, 1)) for seed, _ in jobs]
    with soak.ThreadPoolExecutor(4) as pool:
        assert list(pool.map(soak._fit_digest, jobs, timeout=60)) == expected
    assert soak._in_processes("fork", jobs) == expected
    assert soak._with_joblib(jobs, "threading") == expected


def test_memory_is_flat(soak: Any) -> None:
    X, y = soak.make_data(n_samples=100)
    for number in range(40):
        soak.model(n_jobs=2, n_estimators=3).fit(X, y).predict(X)
        if number == 9:
            before = soak.resident_megabytes()
    assert soak.resident_megabytes() < before + 10.0


def test_saturated_probabilities(soak: Any) -> None:
    fitted = soak._saturated(200)
    assert fitted.train_loss_[-1] <= 1e-14 * 3 * 300  # rounding
    assert np.isfinite(fitted.model_.flat().values).all()
