"""A sampler whose draws depend on the seed and on the trials before, not on which process draws."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from optuna.exceptions import ExperimentalWarning
from optuna.samplers import BaseSampler, TPESampler
from optuna.trial import TrialState

from abc_plugins.tuning.study.storage import START, WORKER, this_process
from abc_plugins.tuning.study.trials import FINISHED, trials_when_asked

_N_STARTUP_TRIALS = 8
_SLOT = "abc:slot"
_QUEUED = "fixed_params"  # how Optuna calls what a trial must draw
_HAVE_SLOTS = (*FINISHED, TrialState.RUNNING)


class ReproducibleSampler(BaseSampler):
    """Optuna's multivariate TPE with a seed of its own for every trial, after given trials to start with.

    Trials that have not failed have different slots, in one process 0, 1, 2 and so on; a trial that fails leaves its
    slot to a later one. The seed is made of `seed` and the slot. So a run that was killed and resumed draws what an
    undisturbed one does, and processes that share a study draw different parameters.

    Parameters
    ----------
    seed : int
    starts : sequence of (name, parameters), default=()
        What the trials of the first slots draw. The name is kept as the user attribute "start".
    sampler : optuna sampler, optional
        Draws the other trials in place of TPE.
    """

    def __init__(
        self, seed: int, starts: Sequence[tuple[str, dict[str, Any]]] = (), sampler: BaseSampler | None = None
    ) -> None:
        self.seed = seed
        self.starts = list(starts)
        self.sampler = sampler
        self._samplers: dict[int, BaseSampler] = {}

    def before_trial(self, study: Any, trial: Any) -> None:
        """Make the trial's sampler."""
        storage, own = study._storage, trial._trial_id  # as Optuna's own samplers do
        # At once, so that a trial whose process is killed while it draws is known to be lost.
        storage.set_trial_user_attr(own, WORKER, this_process())
        slot = _free_slot(study, trial)
        storage.set_trial_system_attr(own, _SLOT, slot)
        if slot < len(self.starts) and _QUEUED not in trial.system_attrs:
            name, parameters = self.starts[slot]
            storage.set_trial_user_attr(own, START, name)
            trial.user_attrs[START] = name  # this copy of the trial is the one that is asked
            trial.system_attrs[_QUEUED] = parameters
        seed = int(np.random.SeedSequence([self.seed, slot]).generate_state(1)[0])
        self._samplers[trial.number] = self.sampler or _tpe(seed)
        self._samplers[trial.number].before_trial(study, trial)

    def infer_relative_search_space(self, study: Any, trial: Any) -> dict[str, Any]:
        """Ask the trial's sampler."""
        return self._samplers[trial.number].infer_relative_search_space(study, trial)

    def sample_relative(self, study: Any, trial: Any, search_space: dict[str, Any]) -> dict[str, Any]:
        """Ask the trial's sampler."""
        return self._samplers[trial.number].sample_relative(study, trial, search_space)

    def sample_independent(self, study: Any, trial: Any, param_name: str, param_distribution: Any) -> Any:
        """Ask the trial's sampler."""
        return self._samplers[trial.number].sample_independent(study, trial, param_name, param_distribution)

    def after_trial(self, study: Any, trial: Any, state: Any, values: Any) -> None:
        """Forget the trial's sampler; a lost trial of another process has none here."""
        sampler = self._samplers.pop(trial.number, None)
        if sampler is not None:
            sampler.after_trial(study, trial, state, values)


def _free_slot(study: Any, trial: Any) -> int:
    """The first slot that no earlier trial has, or will have: those just begun elsewhere take theirs before."""
    earlier = [other for other in trials_when_asked(study, trial.number, _HAVE_SLOTS) if other.number < trial.number]
    taken = {other.system_attrs[_SLOT] for other in earlier if _SLOT in other.system_attrs}
    n_undecided = sum(_SLOT not in other.system_attrs for other in earlier)
    free = (slot for slot in itertools.count() if slot not in taken)
    return next(itertools.islice(free, n_undecided, None))


def _tpe(seed: int) -> TPESampler:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        # Groups: which parameters there are depends on the method. Constant liar: others are still running.
        return TPESampler(
            seed=seed, n_startup_trials=_N_STARTUP_TRIALS, multivariate=True, group=True, constant_liar=True
        )
