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

from tuning import ReproducibleSampler, tune
from tuning.objective import Objective
from tuning.studies import fail_lost_trials, is_surplus, load_study, sign
from tuning.trials import finished_trials

N_TRIALS, NEVER = 8, 1000
WORKER = """
import sys
sys.path[:0] = {path!r}
import optuna
from test_tuning_resume import hang_in_trial, run, wait_for
optuna.logging.set_verbosity(optuna.logging.ERROR)
print("ready", flush=True)
wait_for(sys.argv[2])
hang_in_trial(int(sys.argv[3]))
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


def wait_for(path) -> None:
    while not Path(path).exists():
        time.sleep(0.01)


def hang_in_trial(number) -> None:
    """Stand still in the second fold of a trial with this number or a later one, for the kill to hit it."""
    original = Objective._callback

    def hanging(self, trial, scores):
        if trial.number >= number and scores:
            print("hanging", flush=True)
            time.sleep(600)
        return original(self, trial, scores)

    Objective._callback = hanging


def start_workers(storage, *hang_in) -> list[subprocess.Popen]:
    """Processes that begin at the same time, once all of them have imported what they need."""
    signal_file = storage.with_suffix(".go")
    script = WORKER.format(path=[str(Path(__file__).parent), *sys.path])
    command = [sys.executable, "-c", script, str(storage), str(signal_file)]
    workers = [subprocess.Popen([*command, str(number)], stdout=subprocess.PIPE, text=True) for number in hang_in]
    assert [worker.stdout.readline() for worker in workers] == ["ready\n"] * len(workers)
    signal_file.touch()
    return workers


def kill(worker) -> None:
    """Kill a process that hangs in a trial."""
    for line in worker.stdout:
        if line == "hanging\n":
            break
    worker.send_signal(signal.SIGKILL)
    worker.communicate()
    assert worker.returncode == -signal.SIGKILL


def trials(study) -> list[tuple]:
    return [(trial.params, trial.value, trial.intermediate_values) for trial in finished_trials(study)]


@pytest.fixture(name="undisturbed", scope="module")
def _undisturbed():
    return trials(run(None).study)


@pytest.mark.parametrize("name", ["study.db", "study.log"])
def test_killed_and_resumed_is_as_undisturbed(tmp_path, undisturbed, name):
    """The kill hits trial 5; the resumed study repeats it as trial 6, and nothing else."""
    storage = tmp_path / name
    [worker] = start_workers(storage, 5)
    kill(worker)
    assert len(finished_trials(load_study(storage, None))) == 5
    ran = []
    study = run(storage, [lambda _, trial: ran.append(trial.number)]).study
    assert ran == [6, 7, 8]
    assert trials(study) == undisturbed
    assert [trial.state.name for trial in study.trials] == ["COMPLETE"] * 5 + ["FAIL"] + ["COMPLETE"] * 3


def test_a_trial_that_another_process_has_finished_first(undisturbed, monkeypatch):
    evaluate = Objective.__call__

    def evaluate_after_another(self, trial):
        value = evaluate(self, trial)
        if trial.number == 1:
            trial.study.tell(trial.number, value)
        return value

    monkeypatch.setattr(Objective, "__call__", evaluate_after_another)
    assert trials(run(None).study) == undisturbed


def test_processes_share_a_study_and_one_is_killed(tmp_path):
    storage = tmp_path / "study.db"
    killed, *others = start_workers(storage, 0, NEVER, NEVER)
    kill(killed)
    for worker in others:
        lines = worker.communicate(timeout=300)[0].split()
        assert lines[-1] == "end"
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


def test_slots_of_failed_trials_are_used_again_and_never_twice():
    study = optuna.create_study(sampler=ReproducibleSampler(0))
    asked = [study.ask() for _ in range(3)]
    drawn = [trial.suggest_float("x", 0.0, 1.0) for trial in asked]
    study.tell(asked[1], state=TrialState.FAIL)
    drawn += [study.ask().suggest_float("x", 0.0, 1.0) for _ in range(2)]
    assert [trial.system_attrs["abc:slot"] for trial in study.trials] == [0, 1, 2, 1, 3]
    assert drawn[1] == drawn[3]
    assert len(set(drawn)) == 4


def test_surplus_trials_are_those_begun_last():
    study = optuna.create_study()
    study.add_trial(optuna.trial.create_trial(value=1.0))
    first, second = study.ask(), study.ask()
    assert not is_surplus(study, first, 2)
    assert is_surplus(study, second, 2)
    study.tell(first, state=TrialState.FAIL)
    assert not is_surplus(study, second, 2)


def test_a_start_that_was_queued_twice_is_run_once():
    study = optuna.create_study()
    for _ in range(2):
        study.enqueue_trial({"x": 1}, user_attrs={"start": "paper"})
    first, second = study.ask(), study.ask()
    assert not is_surplus(study, first, 9)
    assert is_surplus(study, second, 9)


def test_a_waiting_trial_keeps_its_place():
    study = optuna.create_study()
    study.enqueue_trial({"x": 1})
    later = optuna.trial.create_trial(state=TrialState.RUNNING)
    study.add_trial(later)
    assert is_surplus(study, study.trials[1], 1)
    assert not is_surplus(study, study.ask(), 1)
