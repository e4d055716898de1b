"""Real processes that share a study, some of them killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import optuna
import pytest
from optuna.trial import TrialState

import tuning.studies
from tuning import tune
from tuning.studies import fail_lost_trials, finished_trials, is_surplus, load_study, sign

N_TRIALS = 8
WORKER = """
import sys
sys.path[:0] = {path!r}
import optuna
from test_tuning_resume import run
optuna.logging.set_verbosity(optuna.logging.ERROR)
run(sys.argv[1], [lambda study, trial: print(trial.number, flush=True)])
print("end", flush=True)
"""


@pytest.fixture(autouse=True)
def _quiet():
    optuna.logging.set_verbosity(optuna.logging.ERROR)


def run(storage, callbacks=()):
    rng = np.random.default_rng(0)
    y = np.tile(np.arange(3), 40)
    X = rng.normal(size=(3, 4))[y] + rng.normal(size=(120, 4))
    return tune(
        X,
        y,
        n_trials=N_TRIALS,
        cv=2,
        max_rounds=60,
        early_stopping_rounds=60,
        storage=storage,
        refit=False,
        fixed={"n_jobs": 1},
        callbacks=callbacks,
    )


def start_worker(storage) -> subprocess.Popen:
    script = WORKER.format(path=[str(Path(__file__).parent), *sys.path])
    return subprocess.Popen([sys.executable, "-c", script, str(storage)], stdout=subprocess.PIPE, text=True)


def trials(study) -> list[tuple]:
    return [(trial.params, trial.value, trial.intermediate_values) for trial in finished_trials(study)]


@pytest.fixture(name="undisturbed", scope="module")
def _undisturbed():
    return trials(run(None).study)


@pytest.mark.parametrize("name", ["study.db", "study.log"])
def test_killed_and_resumed_is_as_undisturbed(tmp_path, undisturbed, name, monkeypatch):
    """A trial more is begun after each line; the kill hits it, and the resumed study repeats it alone."""
    monkeypatch.setattr(tuning.studies, "_NAMELESS_GRACE", 1.0)
    storage = tmp_path / name
    worker = start_worker(storage)
    for line in worker.stdout:
        if int(line) == 4:
            break
    deadline = time.monotonic() + 60
    while len(load_study(storage, None).trials) < 6 and time.monotonic() < deadline:
        time.sleep(0.01)
    worker.send_signal(signal.SIGKILL)
    worker.communicate()
    assert worker.returncode == -signal.SIGKILL
    n_finished = len(finished_trials(load_study(storage, None)))
    assert 5 <= n_finished < N_TRIALS
    ran = []
    study = run(storage, [lambda _, trial: ran.append(trial.number)]).study
    assert len(ran) == N_TRIALS - n_finished
    assert trials(study) == undisturbed
    assert len(study.get_trials(states=(TrialState.FAIL,))) == 1
    assert not study.get_trials(states=(TrialState.RUNNING, TrialState.WAITING))


def test_processes_share_a_study_and_one_is_killed(tmp_path):
    storage = tmp_path / "study.db"
    killed, *others = [start_worker(storage) for _ in range(3)]
    killed.stdout.readline()
    killed.send_signal(signal.SIGKILL)
    for worker in others:
        lines = worker.communicate(timeout=300)[0].split()
        assert lines[-1] == "end"
    killed.communicate()
    finished = finished_trials(load_study(storage, None))
    assert len(finished) == N_TRIALS
    assert len({str(trial.params) for trial in finished}) == N_TRIALS
    starts = [trial.user_attrs["start"] for trial in finished if "start" in trial.user_attrs]
    assert sorted(starts) == ["defaults", "paper", "plain"]
    assert len({trial.user_attrs["worker"]["pid"] for trial in finished}) > 1


def dead_process() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_lost_trials_fail_and_queued_ones_are_queued_again():
    study = optuna.create_study()
    study.enqueue_trial({"x": 3}, user_attrs={"start": "paper", "omit": ["y"]})
    lost, own = study.ask(), study.ask()
    sign(own)
    sign(lost)
    lost.set_user_attr("worker", {**lost.user_attrs["worker"], "pid": dead_process()})
    assert fail_lost_trials(study) == 1
    assert [trial.state.name for trial in study.trials] == ["FAIL", "RUNNING", "WAITING"]
    again = study.ask()
    assert again.suggest_int("x", 0, 9) == 3
    assert again.user_attrs == {"start": "paper", "omit": ["y"]}


def test_a_process_with_the_same_number_is_not_the_same():
    study = optuna.create_study()
    trial = study.ask()
    sign(trial)
    trial.set_user_attr("worker", {**trial.user_attrs["worker"], "begun": "an hour ago"})
    assert fail_lost_trials(study) == (1 if Path("/proc/self/stat").exists() else 0)


def test_trials_of_other_machines_are_lost_after_a_long_silence():
    study = optuna.create_study()
    trial = study.ask()
    sign(trial)
    trial.set_user_attr("worker", {"host": "elsewhere", "pid": os.getpid(), "begun": None})
    assert fail_lost_trials(study) == 0
    trial.set_user_attr("alive", time.time() - 3600)
    assert fail_lost_trials(study) == 1


def test_surplus_trials_are_those_begun_last():
    study = optuna.create_study()
    study.add_trial(optuna.trial.create_trial(value=1.0))
    first, second = study.ask(), study.ask()
    assert not is_surplus(study, first, 2)
    assert is_surplus(study, second, 2)
    study.tell(first, state=TrialState.FAIL)
    assert not is_surplus(study, second, 2)
