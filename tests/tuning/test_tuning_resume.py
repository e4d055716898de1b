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

from abc_plugins import cli
from abc_plugins.data.tablewriting import write_table
from abc_plugins.tuning.objective import Objective
from abc_plugins.tuning.study.confirmation import fresh_scores
from abc_plugins.tuning.study.rounds import Pulse
from abc_plugins.tuning.study.storage import claim, fail_lost_trials, is_surplus
from abc_plugins.tuning.study.trials import finished_trials
from tuning import ReproducibleSampler, load_study, tune

N_TRIALS, NEVER = 9, 1000
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


@pytest.fixture(autouse=True)
def _interruptible():
    """Shells switch SIGINT off for jobs in the background, and the tests may be one."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def let_interrupt() -> None:
    """Likewise, in a new process before its program begins."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def run(storage, callbacks=(), **options):
    rng = np.random.default_rng(0)
    y = np.tile(np.arange(3), 40)
    X = rng.normal(size=(3, 4))[y] + rng.normal(size=(120, 4))
    return tune(
        X,
        y,
        n_trials=N_TRIALS,
        cv=2,
        repeats=1,
        max_rounds=20,
        early_stopping_rounds=20,
        storage=storage,
        refit=False,
        progress=False,
        callbacks=callbacks,
        **{"fixed": {"method": "directional"}, **options},
    )


def wait_for(path) -> None:
    while not Path(path).exists():
        time.sleep(0.01)


def hang_in_trial(number) -> None:
    """Stand still in the second fold of a trial with this number or a later one, for the kill to hit it."""
    original = Objective.fit_fold

    def hanging(self, trial, fold, parameters):
        if trial is not None and trial.number >= number and fold is self.folds[1]:  # none on fresh folds
            with self.interrupts.fitting():
                print("hanging", flush=True)
                time.sleep(600)
        return original(self, trial, fold, parameters)

    Objective.fit_fold = hanging


def start_workers(storage, *hang_in) -> list[subprocess.Popen]:
    """Processes that begin at the same time, once all of them have imported what they need."""
    signal_file = storage.with_suffix(".go")
    script = WORKER.format(path=[str(Path(__file__).parent), *sys.path])
    command = [sys.executable, "-c", script, str(storage), str(signal_file)]
    workers = [
        subprocess.Popen([*command, str(number)], stdout=subprocess.PIPE, text=True, preexec_fn=let_interrupt)
        for number in hang_in
    ]
    assert [worker.stdout.readline() for worker in workers] == ["ready\n"] * len(workers)
    signal_file.touch()
    return workers


def kill(worker, number=signal.SIGKILL) -> int:
    """Send a signal to a process that hangs in a trial."""
    for line in worker.stdout:
        if line == "hanging\n":
            break
    worker.send_signal(number)
    worker.communicate(timeout=60)
    return worker.returncode


def trials(study) -> list[tuple]:
    return [(trial.params, trial.value, trial.intermediate_values) for trial in finished_trials(study)]


@pytest.fixture(name="undisturbed", scope="module")
def _undisturbed():
    return trials(run(None).study)


@pytest.mark.parametrize(
    ("name", "number", "hit"),
    [
        ("study.db", signal.SIGKILL, 7),
        ("study.log", signal.SIGKILL, 2),
        ("study.db", signal.SIGINT, 2),
        ("study.log", signal.SIGINT, 7),
    ],
)
def test_killed_and_resumed_is_as_undisturbed(tmp_path, undisturbed, name, number, hit):
    """The signal hits a trial that the study starts with, or a drawn one; it is repeated, and nothing else."""
    storage = tmp_path / name
    [worker] = start_workers(storage, hit)
    code = kill(worker, number)
    assert code == -number or (number == signal.SIGINT and code == 1)  # Python ends with a traceback, or by the signal
    states = [trial.state.name for trial in load_study(storage, None).trials]
    # An interrupted study leaves no trial as if it were running; of a killed one the next process finds out.
    assert states == ["COMPLETE"] * hit + ["FAIL" if number == signal.SIGINT else "RUNNING"]
    ran = []
    study = run(storage, [lambda _, trial: ran.append(trial.number)]).study
    assert ran == list(range(hit + 1, N_TRIALS + 1))
    assert trials(study) == undisturbed
    assert "FAIL" in [trial.state.name for trial in study.trials]


def test_a_second_interruption_ends_the_process():
    """The first one is swallowed by what is called, the second one needs nobody's help."""
    script = """
import signal, sys, time
from abc_plugins.tuning.study.interrupts import Interrupts
with Interrupts() as interrupts:
    with interrupts.writing():
        print("ready", flush=True)
        time.sleep(600)
"""
    command = [sys.executable, "-c", script]
    worker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=let_interrupt)
    assert worker.stdout.readline() == "ready\n"
    worker.send_signal(signal.SIGINT)
    time.sleep(0.5)
    assert worker.poll() is None
    worker.send_signal(signal.SIGINT)
    assert worker.wait(timeout=60) == -signal.SIGINT


def test_a_swallowed_interruption_is_not_scored():
    """Whoever is called in a fit may catch KeyboardInterrupt: the trial is failed all the same."""
    original = Objective.fit_fold

    def swallowing(self, trial, fold, parameters):
        fit = original(self, trial, fold, parameters)
        if trial.number == 1:
            try:
                with self.interrupts.fitting():
                    signal.raise_signal(signal.SIGINT)
            except KeyboardInterrupt:
                return fit
        return fit

    storage = optuna.storages.InMemoryStorage()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Objective, "fit_fold", swallowing)
        with pytest.raises(KeyboardInterrupt):
            run(storage)
    [study] = optuna.get_all_study_summaries(storage)
    states = [trial.state.name for trial in optuna.load_study(study_name=study.study_name, storage=storage).trials]
    assert states == ["COMPLETE", "FAIL"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("engine", ["native", "lgbm", "xgb"])
def test_a_signal_in_the_middle_of_a_fit(engine):
    """SIGINT in the third round of trial 1: no further round is run, the trial is failed, and nothing is scored."""
    pytest.importorskip({"native": "numba", "lgbm": "lightgbm", "xgb": "xgboost"}[engine])
    rounds = []
    original = Pulse.look

    def interrupting(self, round_index, evaluations):
        if self.trial.number == 1:
            rounds.append(round_index)
            if round_index == 2:
                signal.raise_signal(signal.SIGINT)
        original(self, round_index, evaluations)

    storage = optuna.storages.InMemoryStorage()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Pulse, "look", interrupting)
        with pytest.raises(KeyboardInterrupt):
            run(storage, engine=engine, fixed={})
    [study] = optuna.get_all_study_summaries(storage)
    found = optuna.load_study(study_name=study.study_name, storage=storage).trials
    assert [trial.state.name for trial in found] == ["COMPLETE", "FAIL"]
    assert "outcome" not in found[1].user_attrs
    assert rounds == [0, 1, 2]


def test_a_signal_while_the_best_trials_are_scored_again():
    """All trials stay; the next run goes on with the fresh folds and finds what an undisturbed one does."""
    storage = optuna.storages.InMemoryStorage()
    original, n_scored = Objective.score_fresh, []

    def interrupting(self, folds, trial):
        n_scored.append(trial.number)
        if len(n_scored) == 2:  # the first trial has all its scores
            signal.raise_signal(signal.SIGINT)
        return original(self, folds, trial)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Objective, "score_fresh", interrupting)
        with pytest.raises(KeyboardInterrupt):
            run(storage)
    [study] = optuna.get_all_study_summaries(storage)
    found = optuna.load_study(study_name=study.study_name, storage=storage)
    assert len(finished_trials(found)) == N_TRIALS
    assert [fresh_scores(found, trial) is not None for trial in found.trials].count(True) == 1
    resumed, expected = run(storage), run(None)
    fields = ("gain", "margin", "n_better", "is_confirmed")
    assert [getattr(resumed.verdict, name) for name in fields] == [getattr(expected.verdict, name) for name in fields]


def test_interruption_of_the_command(tmp_path):
    """A real process with a real fit: exit code 130, no truncated trial, and the study can be resumed."""
    rng = np.random.default_rng(0)
    y = np.tile(np.arange(4), 100)
    X = rng.normal(size=(4, 3))[y] + rng.normal(size=(400, 3))
    write_table(tmp_path / "data.csv", {**{f"x{j}": X[:, j] for j in range(3)}, "animal": y})
    storage = tmp_path / "study.db"
    command = ["tune", str(tmp_path / "data.csv"), "--target", "animal", "--storage", str(storage)]
    command += ["--folds", "2", "--max-rounds", "400", "--early-stopping-rounds", "400"]
    worker = subprocess.Popen(
        [sys.executable, "-m", "abc_plugins", *command, "--trials", "50"],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=let_interrupt,
    )
    deadline = time.monotonic() + 300
    while not (storage.exists() and _n_trials(storage) >= 2) and time.monotonic() < deadline:
        time.sleep(0.2)
    worker.send_signal(signal.SIGINT)
    assert "interrupted" in worker.communicate(timeout=60)[1]
    assert worker.returncode == 130
    found = load_study(storage, None).trials
    assert {trial.state.name for trial in found} <= {"COMPLETE", "PRUNED", "FAIL"}
    for trial in found:
        assert ("outcome" in trial.user_attrs) == (trial.state.name == "COMPLETE")
    n_done = sum(trial.state.name == "COMPLETE" for trial in found)
    assert cli.main([*command, "--trials", str(n_done), "--resume", "--quiet"]) == 0


def _n_trials(storage) -> int:
    try:
        return len(load_study(storage, None).trials)
    except (ValueError, optuna.exceptions.StorageInternalError):
        return 0  # the study is being made


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
    assert len(starts) == len(set(starts)) >= 6
    assert "defaults" in starts
    assert len({trial.user_attrs["worker"]["pid"] for trial in finished}) > 1


def dead_process() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_lost_trials_fail_and_queued_ones_are_queued_again():
    study = optuna.create_study()
    study.enqueue_trial({"x": 3})
    lost, own = study.ask(), study.ask()
    claim(own)
    claim(lost)
    lost.set_user_attr("worker", {**lost.user_attrs["worker"], "pid": dead_process()})
    assert fail_lost_trials(study) == 1
    assert [trial.state.name for trial in study.trials] == ["FAIL", "RUNNING", "WAITING"]
    assert study.ask().suggest_int("x", 0, 9) == 3
    assert fail_lost_trials(study, {own.number}) == 1
    assert study.trials[own.number].state.name == "FAIL"


def test_starts_keep_their_slots():
    starts = [("first", {"x": 0.25}), ("second", {"x": 0.5})]
    study = optuna.create_study(sampler=ReproducibleSampler(0, starts))
    asked = [study.ask() for _ in range(3)]
    assert [trial.suggest_float("x", 0.0, 1.0) for trial in asked][:2] == [0.25, 0.5]
    study.tell(asked[0], state=TrialState.FAIL)
    again = study.ask()
    assert (again.user_attrs["start"], again.suggest_float("x", 0.0, 1.0)) == ("first", 0.25)
    assert study.trials[3].user_attrs["start"] == "first"


def test_a_process_with_the_same_number_is_not_the_same():
    study = optuna.create_study()
    trial = study.ask()
    claim(trial)
    trial.set_user_attr("worker", {**trial.user_attrs["worker"], "begun": "an hour ago"})
    assert fail_lost_trials(study) == (1 if Path("/proc/self/stat").exists() else 0)


def test_trials_of_other_machines_are_lost_after_a_long_silence():
    study = optuna.create_study()
    trial = study.ask()
    claim(trial)
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


def test_a_waiting_trial_keeps_its_place():
    study = optuna.create_study()
    study.enqueue_trial({"x": 1})
    later = optuna.trial.create_trial(state=TrialState.RUNNING)
    study.add_trial(later)
    assert is_surplus(study, study.trials[1], 1)
    assert not is_surplus(study, study.ask(), 1)
