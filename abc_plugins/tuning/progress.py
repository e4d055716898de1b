"""Progress of a study on standard error: a bar in a terminal, a line now and then where it is piped."""

from __future__ import annotations

import sys
import time
from typing import Any

from abc_plugins.training.progress import make_display
from abc_plugins.tuning.study.storage import PREFIX
from abc_plugins.tuning.study.trials import complete_trials, finished_trials
from abc_plugins.tuning.verdict import best_trial


class Progress:
    """Callback of a study that shows how many trials are done, those of other processes included, and the best score.

    Parameters
    ----------
    n_trials : int
        Trials that the study is to have.
    n_before : int
        Those that it has.
    """

    def __init__(self, n_trials: int, n_before: int) -> None:
        self._n_trials, self._n_before = n_trials, n_before
        self._started = time.monotonic()
        self._display = make_display(n_trials, sys.stderr, "trial")

    def __call__(self, study: Any, _: Any) -> None:
        """Show the state of the study."""
        n_done = len(finished_trials(study))
        n_new = n_done - self._n_before
        per_trial = (time.monotonic() - self._started) / n_new if n_new > 0 else float("nan")
        self._display.update(n_done, _best(study), per_trial * max(self._n_trials - n_done, 0))

    def say(self, text: str) -> None:
        """Show what is done after the trials."""
        self.close()
        print(text, file=sys.stderr, flush=True)

    def close(self) -> None:
        """Leave the last state on the screen."""
        self._display.close()


def _best(study: Any) -> str:
    complete = complete_trials(study)
    if not complete:
        return "no complete trial"
    leader = best_trial(study, complete)
    return f"best {study.user_attrs[PREFIX + 'metric']} {leader.values[0]:.5g}, trial {leader.number}"
