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

from abc_plugins.tuning.objective import OUTCOME, Objective
from abc_plugins.tuning.study.trials import finished_trials
from studies.data import keep
from tuning import load_study, tune

TRIALS_PER_KILL, MAX_ROUNDS = 4, 40
_FORK = multiprocessing.get_context("fork")
"""A new interpreter for each signal would spend most of its time on imports, in which nothing can go wrong."""


def _study(storage: str, n_trials: int, in_trial: Any) -> None:
    """What a worker does."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # the shell may have switched it off for background jobs
    sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    run_trial = Objective.__call__

    def announced(objective: Objective, trial: Any) -> Any:
        in_trial.set()
        return run_trial(objective, trial)

    Objective.__call__ = announced  # type: ignore[method-assign]
    rng = np.random.default_rng(0)
    y = np.tile(np.arange(4), 60)
    X = rng.normal(size=(4, 5))[y] + rng.normal(size=(240, 5))
    options = {"cv": 3, "repeats": 1, "max_rounds": MAX_ROUNDS, "refit": False, "progress": False}
    tune(X, y, n_trials=n_trials, storage=storage, **options)


def run(options: argparse.Namespace) -> None:
    """Disturb one study with every kind of signal, and compare its trials with those of an undisturbed one."""
    n_trials = options.trials or max(TRIALS_PER_KILL * options.kills, 6)
    with tempfile.TemporaryDirectory() as folder:
        storages = [options.storage] if options.storage else [f"{folder}/study.db", f"{folder}/study.log"]
        calm = f"{folder}/calm.log"
        _finish(_start(f"{folder}/first.log", n_trials))  # compiles the kernels
        worker = _start(calm, n_trials)
        started = time.monotonic()
        _finish(worker)
        seconds_per_trial = (time.monotonic() - started) / n_trials
        expected = _trials(calm)
        for storage in storages:
            sent = _disturb(storage, expected, options.kills, seconds_per_trial, random.Random(options.seed))
            _finish(_start(storage, n_trials))
            found = _trials(storage)
            keep(options.out, {**sent, "storage": Path(storage).suffix, "same": found == expected, **_states(storage)})


def _disturb(storage: str, expected: list[Any], kills: int, seconds: float, rng: random.Random) -> dict[str, int]:
    """Send every signal so often, starting the study again each time, and look at the finished trials after each.

    A signal comes at a random moment of the one or two trials after the process has begun its first one: in a fit, in
    a write to the storage or while the next trial is drawn. `lost` counts the signals after which a finished trial
    was not there any more or differed from that of the undisturbed study.
    """
    sent = {"SIGINT": 0, "SIGKILL": 0, "too_late": 0, "lost": 0}
    numbers = [signal.SIGINT] * kills + [signal.SIGKILL] * kills
    rng.shuffle(numbers)
    n_before = 0
    for number in numbers:
        worker = _start(storage, len(expected))
        time.sleep(rng.uniform(0.0, 1.5 * seconds))
        if worker.is_alive():
            os.kill(worker.pid, number)
        worker.join()
        # A worker that gets SIGINT ends with a traceback, or by the signal.
        sent["too_late" if worker.exitcode == 0 else signal.Signals(number).name] += 1
        found = _trials(storage)
        sent["lost"] += len(found) < n_before or found != expected[: len(found)]
        n_before = len(found)
    return sent


def _start(storage: str, n_trials: int) -> Any:
    """A process that has begun its first trial, or has found that none is missing."""
    in_trial = _FORK.Event()
    worker = _FORK.Process(target=_study, args=(storage, n_trials, in_trial))
    worker.start()
    while not in_trial.wait(0.1) and worker.is_alive():
        pass
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
