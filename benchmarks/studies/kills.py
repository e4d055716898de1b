"""Studies that are interrupted and killed at random moments: nothing truncated, nothing lost."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import optuna

from abc_plugins.tuning.objective import OUTCOME
from abc_plugins.tuning.study.trials import finished_trials
from studies.data import keep
from tuning import load_study, tune

TRIALS, MAX_ROUNDS = 24, 40
_FORK = multiprocessing.get_context("fork")
"""A new interpreter for each signal would spend most of its time on imports, in which nothing can go wrong."""


def _study(storage: str, n_trials: int, begun: Any) -> None:
    """What a worker does."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # the shell may have switched it off for background jobs
    sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    rng = np.random.default_rng(0)
    y = np.tile(np.arange(4), 60)
    X = rng.normal(size=(4, 5))[y] + rng.normal(size=(240, 5))
    begun.set()
    options = {"cv": 3, "repeats": 1, "max_rounds": MAX_ROUNDS, "refit": False, "progress": False}
    tune(X, y, n_trials=n_trials, storage=storage, **options)


def run(options: argparse.Namespace) -> None:
    """Disturb one study with every kind of signal, and compare its trials with those of an undisturbed one."""
    n_trials = options.trials or TRIALS
    with tempfile.TemporaryDirectory() as folder:
        storages = [options.storage] if options.storage else [f"{folder}/study.db", f"{folder}/study.log"]
        calm = f"{folder}/calm.log"
        _finish(_start(f"{folder}/first.log", n_trials))  # compiles the kernels
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
        if worker.is_alive():
            os.kill(worker.pid, number)
        worker.join()
        # A worker that gets SIGINT ends with a traceback, or by the signal.
        sent["too_late" if worker.exitcode == 0 else signal.Signals(number).name] += 1
    _finish(_start(storage, n_trials))
    return sent


def _start(storage: str, n_trials: int) -> Any:
    begun = _FORK.Event()
    worker = _FORK.Process(target=_study, args=(storage, n_trials, begun))
    worker.start()
    begun.wait()
    return worker


def _finish(worker: Any) -> None:
    worker.join()
    if worker.exitcode != 0:
        raise RuntimeError(f"a study that nobody disturbed ended with exit code {worker.exitcode}")


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
