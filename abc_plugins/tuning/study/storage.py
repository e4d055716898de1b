"""Optuna studies that can be resumed and shared: storages, fingerprints, lost trials."""

from __future__ import annotations

import importlib.metadata
import json
import os
import socket
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import distribution_to_json
from optuna.trial import TrialState
from sqlalchemy import event
from sqlalchemy.exc import IntegrityError, OperationalError

import abc_plugins
from abc_plugins.core.runtime.arrays import AnyArray
from abc_plugins.core.runtime.checks import fail
from abc_plugins.core.runtime.fingerprint import digest_arrays
from abc_plugins.tuning.space import Space
from abc_plugins.tuning.splits import Fold
from abc_plugins.tuning.study.rounds import ALIVE
from abc_plugins.tuning.study.trials import FINISHED, running_trials, trials_when_asked

PREFIX = "abc:"
"""Begins the names of all attributes of a study that are ours."""

FINGERPRINT, READY = PREFIX + "fingerprint", PREFIX + "ready"
START, WORKER = "start", "worker"
"""User attributes of a trial: its name if the study started with it, and the process that works on it."""

DEFAULTS = "defaults"
"""Name of the trial that every study starts with."""

_JOURNAL_SUFFIXES = (".log", ".journal", ".jsonl")
_SQLITE_SUFFIXES = (".db", ".sqlite", ".sqlite3")
_SQLITE_TIMEOUT = 120
_NAMELESS_GRACE = 60.0
_REMOTE_GRACE = 900.0
_POLL_SECONDS = 0.2
_READY_TIMEOUT = 60.0
_OPEN_ATTEMPTS = 5


class StudyMismatchError(ValueError):
    """A study in a storage was made from other data, splits, ranges, settings or versions."""


# ------------------------------------------------------------------------------------------------ storage


def open_storage(storage: Any) -> Any:
    """Open a storage.

    Parameters
    ----------
    storage : None, str, path or optuna storage
        A file ending with .db or .sqlite is an SQLite database, one ending with .log or .journal is Optuna's journal
        file, text with :// is the URL of a database. None keeps the study in memory.
    """
    if storage is None or not isinstance(storage, str | os.PathLike):
        return storage
    text = os.fspath(storage)
    if "://" in text:
        return _open_database(text)
    if not Path(text).absolute().parent.is_dir():
        raise ValueError(f"storage must be a file in a folder that exists; got {text!r}.")
    if Path(text).suffix.lower() in _SQLITE_SUFFIXES:
        return _open_database(f"sqlite:///{text}")
    if Path(text).suffix.lower() in _JOURNAL_SUFFIXES:
        from optuna.storages.journal import JournalFileBackend

        return optuna.storages.JournalStorage(JournalFileBackend(text))
    allowed = "a file ending with .db, .sqlite, .log or .journal, the URL of a database, an Optuna storage, or None"
    raise ValueError(f"storage must be {allowed}; got {text!r}.")


def _open_database(url: str) -> Any:
    sqlite = url.startswith("sqlite")
    arguments = {"connect_args": {"timeout": _SQLITE_TIMEOUT}} if sqlite else {"pool_pre_ping": True}
    for _ in range(_OPEN_ATTEMPTS):
        try:
            return _fast(optuna.storages.RDBStorage(url, engine_kwargs=arguments), sqlite)
        except (IntegrityError, OperationalError):
            # Processes that start together all try to create the tables; who comes second finds them there.
            time.sleep(_POLL_SECONDS)
    return _fast(optuna.storages.RDBStorage(url, engine_kwargs=arguments), sqlite)


def _fast(storage: Any, sqlite: bool) -> Any:
    """Let SQLite append to a log, which a killed process cannot harm, and not wait for the disk at every write."""
    if sqlite:

        @event.listens_for(storage.engine, "connect")
        def set_up(connection: Any, _: Any) -> None:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")

        storage.engine.dispose()  # connections made so far are without it
    return storage


@contextmanager
def silent_optuna() -> Iterator[None]:
    """Let Optuna report errors only: its line for every trial is no progress that one can read."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(max(before, optuna.logging.ERROR))
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)


def load_study(storage: Any, study_name: str | None) -> Any:
    """Open a study for looking at it; without a name, the only one of the storage."""
    if isinstance(storage, str | os.PathLike) and "://" not in os.fspath(storage) and not Path(storage).exists():
        raise FileNotFoundError(2, os.strerror(2), os.fspath(storage))
    opened = open_storage(storage)
    names = optuna.get_all_study_names(opened)
    if study_name is None and len(names) == 1:
        study_name = names[0]
    if study_name not in names:
        fail(
            "study_name", study_name, f"one of {', '.join(map(repr, names))}" if names else "in a storage with studies"
        )
    return optuna.load_study(study_name=study_name, storage=opened)


# ------------------------------------------------------------------------------------------------ fingerprint


def fingerprint(
    data: Mapping[str, Sequence[AnyArray] | None],
    folds: Sequence[Fold],
    space: Space,
    settings: Mapping[str, Any],
    packages: Iterable[str],
) -> dict[str, Any]:
    """Describe everything that the values of trials depend on; equal studies have equal fingerprints."""
    return {
        **{name: None if arrays is None else digest_arrays(*arrays) for name, arrays in data.items()},
        "splits": digest_arrays(*(rows for fold in folds for rows in (fold.train, fold.valid, fold.test))),
        "space": {name: json.loads(distribution_to_json(value)) for name, value in space.items()},
        "settings": json.loads(json.dumps(settings, sort_keys=True, default=repr)),
        "versions": {"abc-plugins": abc_plugins.__version__}
        | {package: importlib.metadata.version(package) for package in packages},
    }


def check_fingerprint(study: Any, expected: Mapping[str, Any]) -> None:
    """Refuse to continue a study whose trials could not be compared with new ones."""
    found = study.user_attrs.get(FINGERPRINT)
    if found is None:
        raise StudyMismatchError(f"study_name must be a study made by tuning.tune; {study.study_name!r} is not.")
    changes = []
    for name in sorted({*found, *expected}):
        old, new = found.get(name), expected.get(name)
        if old == new:
            continue
        if isinstance(old, dict) and isinstance(new, dict):
            keys = [key for key in sorted({*old, *new}) if old.get(key) != new.get(key)]
            changes += [f"{name} of {key} ({old.get(key)!r} there, {new.get(key)!r} here)" for key in keys]
        else:
            changes.append(name)
    if changes:
        raise StudyMismatchError(
            f"the study {study.study_name!r} cannot be continued, its trials would not be comparable. "
            f"Different: {'; '.join(changes)}. Take another study_name or storage."
        )


# ------------------------------------------------------------------------------------------------ the study


def open_study(
    storage: Any,
    study_name: str | None,
    directions: Sequence[str],
    sampler: Any,
    pruner: Any,
    attributes: Mapping[str, Any],
) -> Any:
    """Create a study, or continue it.

    Parameters
    ----------
    attributes : dict
        Attributes of the study, the fingerprint among them.
    """
    opened = open_storage(storage)
    arguments = {"storage": opened, "sampler": sampler, "pruner": pruner}
    try:
        study = optuna.create_study(study_name=study_name, directions=list(directions), **arguments)
    except optuna.exceptions.DuplicatedStudyError:
        study = optuna.load_study(study_name=study_name, **arguments)
        _wait_until_ready(study)
        check_fingerprint(study, attributes[FINGERPRINT])
        return study
    for name, value in attributes.items():
        study.set_user_attr(name, value)
    study.set_user_attr(READY, True)
    return study


def _wait_until_ready(study: Any) -> None:
    """Wait while another process sets the study up."""
    deadline = time.monotonic() + _READY_TIMEOUT
    while READY not in study.user_attrs:
        if study.trials and FINGERPRINT not in study.user_attrs:
            return  # a study of another kind, which the check of the fingerprint refuses
        if time.monotonic() > deadline:
            raise StudyMismatchError(
                f"the study {study.study_name!r} was not set up to the end: delete it, or take another study_name."
            )
        time.sleep(_POLL_SECONDS)


def is_surplus(study: Any, trial: Any, n_trials: int) -> bool:
    """Whether enough trials are finished or come before this one.

    A trial that waits in the queue counts by its number, too: later ones must leave it its place.
    """
    others = trials_when_asked(study, trial.number, (*FINISHED, TrialState.RUNNING, TrialState.WAITING))
    return sum(other.number < trial.number or other.state in FINISHED for other in others) >= n_trials


# ------------------------------------------------------------------------------------------------ lost trials


def claim(trial: Any) -> None:
    """Note in a trial which process works on it."""
    if trial.user_attrs.get(WORKER) != this_process():
        trial.set_user_attr(WORKER, this_process())


def this_process() -> dict[str, Any]:
    """What tells this process from all others."""
    return {"host": socket.gethostname(), "pid": os.getpid(), "begun": _begun(os.getpid())}


def fail_lost_trials(study: Any, abandoned: Collection[int] = ()) -> int:
    """Mark trials of dead processes as failed, and queue those again that were enqueued.

    Parameters
    ----------
    study : optuna.Study
    abandoned : collection of int
        Numbers of trials that this process has given up.

    Returns
    -------
    int
        How many trials were lost.
    """
    lost = [trial for trial in running_trials(study) if trial.number in abandoned or _is_lost(trial)]
    for trial in lost:
        study.tell(trial.number, state=TrialState.FAIL, skip_if_finished=True)
        parameters = trial.system_attrs.get("fixed_params")
        if parameters is not None:
            study.enqueue_trial(parameters)
    return len(lost)


def _is_lost(trial: Any) -> bool:
    worker = trial.user_attrs.get(WORKER)
    if worker is None:  # killed before it could claim the trial, or about to do so
        return time.time() - trial.datetime_start.timestamp() > _NAMELESS_GRACE
    if worker["host"] == socket.gethostname() and os.name == "posix":
        return not _is_alive(worker["pid"], worker["begun"])
    return time.time() - trial.user_attrs.get(ALIVE, trial.datetime_start.timestamp()) > _REMOTE_GRACE


def _is_alive(pid: int, begun: str | None) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return _begun(pid) == begun


def _begun(pid: int) -> str | None:
    """When a process began, which tells it from a later one with the same number; None where that is not known."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]
