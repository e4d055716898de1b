"""Which parameters mattered in a study."""

from __future__ import annotations

from typing import Any

import optuna

from abc_plugins.tuning.space import plain_name
from abc_plugins.tuning.study.trials import complete_trials, maximizes

_FEWEST_TRIALS = 4


def importances(study: Any) -> tuple[dict[str, float], int]:
    """Share of every parameter in the variance of the metric, by fANOVA, the largest first.

    Trials have different parameters, by their method: those of the most frequent method are used.

    Returns
    -------
    dict of str to float
        Empty if there are too few such trials, or all have the same value.
    int
        How many trials were used.
    """
    complete = complete_trials(study)
    method = max(
        {trial.params.get("method") for trial in complete},
        key=lambda one: sum(trial.params.get("method") == one for trial in complete),
    )
    usable = [trial for trial in complete if trial.params.get("method") == method]
    common = set.intersection(*(set(trial.params) for trial in usable))
    drawn = {name for name in common if len({trial.params[name] for trial in usable}) > 1}
    values = [trial.values[0] for trial in usable]
    if len(usable) < _FEWEST_TRIALS or min(values) == max(values) or not drawn:
        return {}, len(usable)
    copy = optuna.create_study(direction="maximize" if maximizes(study) else "minimize")
    for trial in usable:
        copy.add_trial(
            optuna.trial.create_trial(
                params={name: trial.params[name] for name in drawn},
                distributions={name: trial.distributions[name] for name in drawn},
                value=trial.values[0],
            )
        )
    evaluator = optuna.importance.FanovaImportanceEvaluator(seed=0)
    shares = optuna.importance.get_param_importances(copy, evaluator=evaluator)
    return {plain_name(name): share for name, share in shares.items()}, len(usable)
