"""Progress of a study on standard error: a bar in a terminal, a line now and then where it is piped."""

from __future__ import annotations

import sys
import time
from typing import Any

from abc_plugins.tuning.study.storage import PREFIX
from abc_plugins.tuning.study.trials import finished_trials
from abc_plugins.tuning.verdict import judge

_SECONDS_BETWEEN_LINES = 10.0


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
        self.n_trials = n_trials
        self._n_before = n_before
        self._started = self._last_line = time.monotonic()
        self._bar: Any = None
        if sys.stderr.isatty():
            from tqdm import tqdm

            self._bar = tqdm(total=n_trials, initial=min(n_before, n_trials), unit="trial", file=sys.stderr)

    def __call__(self, study: Any, _: Any) -> None:
        """Show the state of the study."""
        n_done, best = len(finished_trials(study)), _best(study)
        if self._bar is not None:
            self._bar.set_postfix_str(best, refresh=False)
            self._bar.update(n_done - self._bar.n)
            self._bar.refresh()
            return
        now = time.monotonic()
        if n_done >= self.n_trials or now - self._last_line >= _SECONDS_BETWEEN_LINES:
            self._last_line = now
            print(f"{n_done}/{self.n_trials} trials, {now - self._started:.0f} s, {best}", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Leave the last state on the screen."""
        if self._bar is not None:
            self._bar.close()


def _best(study: Any) -> str:
    if all(trial.state.name != "COMPLETE" for trial in finished_trials(study)):
        return "no complete trial"
    leader = judge(study).leader
    return f"best {study.user_attrs[PREFIX + 'metric']} {leader.values[0]:.5g}, trial {leader.number}"
