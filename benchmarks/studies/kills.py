"""Studies that are interrupted and killed at random moments: nothing truncated, nothing lost."""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import optuna

from abc_plugins.tuning.objective import OUTCOME
from abc_plugins.tuning.study.trials import finished_trials
from studies.data import keep
from tuning import load_study

TRIALS = 24
_SCRIPT = """
import sys
import numpy as np
from tuning import tune
rng = np.random.default_rng(0)
y = np.tile(np.arange(4), 60)
X = rng.normal(size=(4, 5))[y] + rng.normal(size=(240, 5))
print("ready", flush=True)
tune(X, y, n_trials=int(sys.argv[2]), cv=3, repeats=1, max_rounds=60, storage=sys.argv[1], refit=False, progress=False)
print("end", flush=True)
"""


def run(options: argparse.Namespace) -> None:
    """Disturb one study with every kind of signal, and compare its trials with those of an undisturbed one."""
    n_trials = options.trials or TRIALS
    with tempfile.TemporaryDirectory() as folder:
        storages = [options.storage] if options.storage else [f"{folder}/study.db", f"{folder}/study.log"]
        calm = f"{folder}/calm.log"
        started = time.monotonic()
        _finish(_start(calm, n_trials))
        # From the first write to the end of the study: when signals are to arrive.
        span = time.monotonic() - started
        expected = _trials(calm)
        for storage in storages:
            sent = _disturb(storage, n_trials, options.kills, span, random.Random(options.seed))
            found = _trials(storage)
            keep(options.out, {**sent, "storage": Path(storage).suffix, "same": found == expected, **_states(storage)})


def _disturb(storage: str, n_trials: int, kills: int, span: float, rng: random.Random) -> dict[str, int]:
    """Send every signal so often, each after a random share of a trial's time, starting the study again each time."""
    sent = {"SIGINT": 0, "SIGKILL": 0, "too_late": 0}
    numbers = [signal.SIGINT] * kills + [signal.SIGKILL] * kills
    rng.shuffle(numbers)
    for number in numbers:
        worker = _start(storage, n_trials)
        time.sleep(rng.uniform(0.0, 2.5 * span / n_trials))
        worker.send_signal(number)
        worker.communicate(timeout=300)
        sent["too_late" if worker.returncode == 0 else signal.Signals(number).name] += 1
    _finish(_start(storage, n_trials))
    return sent


def _start(storage: str, n_trials: int) -> subprocess.Popen[str]:
    worker = subprocess.Popen(
        [sys.executable, "-c", _SCRIPT, storage, str(n_trials)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert worker.stdout is not None
    if worker.stdout.readline() != "ready\n":
        raise RuntimeError("the study did not start")
    return worker


def _finish(worker: subprocess.Popen[str]) -> None:
    out = worker.communicate()[0]
    if out != "end\n":
        raise RuntimeError(f"a study that nobody disturbed ended with {out!r}")


def _trials(storage: str) -> list[Any]:
    """Everything about the finished trials that does not depend on time."""
    found = finished_trials(load_study(storage, None))
    return [
        (
            trial.params,
            trial.state.name,
            trial.intermediate_values,
            {name: value for name, value in trial.user_attrs[OUTCOME].items() if name != "seconds"},
        )
        for trial in found
    ]


def _states(storage: str) -> dict[str, int]:
    states = [trial.state for trial in load_study(storage, None).trials]
    finished = sum(state in (optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.PRUNED) for state in states)
    failed = states.count(optuna.trial.TrialState.FAIL)
    return json.loads(json.dumps({"finished": finished, "failed": failed, "others": len(states) - finished - failed}))
