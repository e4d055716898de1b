"""tune: an Optuna study from data to the refitted estimator."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from optuna.pruners import BasePruner
from optuna.samplers import BaseSampler

from abc_plugins.core.runtime.checks import check_flag, check_integer, fail
from abc_plugins.data.columns import warn_caller
from abc_plugins.tuning.engines.base import TunedEngine, engine_class
from abc_plugins.tuning.ensemble import EnsembleReport, WeightedEnsemble, build_ensemble
from abc_plugins.tuning.metric import TunedMetric
from abc_plugins.tuning.objective import PARAMS, Objective, SurplusTrialError
from abc_plugins.tuning.plan import ERROR, Splitting, StudyPlan, StudyRun, check_run, check_stopping, make_plan
from abc_plugins.tuning.progress import Progress
from abc_plugins.tuning.result import TuneResult, fit_parameters
from abc_plugins.tuning.space import change_space, default_space, draw
from abc_plugins.tuning.study.confirmation import keep_fresh_scores, trial_of_defaults, unconfirmed_trials
from abc_plugins.tuning.study.interrupts import Interrupts
from abc_plugins.tuning.study.pruning import FoldPruner
from abc_plugins.tuning.study.sampling import ReproducibleSampler
from abc_plugins.tuning.study.storage import fail_lost_trials, open_study, silent_optuna
from abc_plugins.tuning.study.trials import FINISHED, complete_trials, counted_trials, finished_trials, running_trials
from abc_plugins.tuning.study_data import StudyData, TestSet, read_test
from abc_plugins.tuning.verdict import judge

_POLL_SECONDS = 0.5
_MOST_FAILURES = 10
"""Trials in a row that may fail without an error before the study is given up."""
_EXAMPLES = {"sampler": "optuna.samplers.TPESampler()", "pruner": "optuna.pruners.NopPruner()"}
_TOLD_BEFORE = "Cannot tell a "  # how Optuna begins to say that a trial is finished already


def suggest(
    trial: Any, n_classes: int, *, engine: str = "native", space: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Let a trial of your own study choose parameters for an estimator.

    Parameters
    ----------
    trial : optuna.Trial
    n_classes : int
    engine : {"native", "lgbm", "xgb"}, default="native"
        Whose estimator the parameters are for.
    space : dict of str to optuna distribution, optional
        Ranges to use in place of the usual ones; None as a range leaves a parameter out.

    Returns
    -------
    dict
        Arguments for the estimator; the number of rounds is left to early stopping.
    """
    kind = engine_class(engine)
    ranges = change_space(default_space(n_classes, engine=engine), space)
    return kind.complete(draw(trial, ranges, kind.not_tuned))


def tune(
    X: Any,
    y: Any,
    *,
    engine: str = "native",
    n_trials: int = 50,
    timeout: float | None = None,
    cv: Any = 5,
    repeats: int | None = None,
    metric: str | Callable[..., Any] = "logloss",
    objectives: Sequence[str] = (ERROR,),
    storage: Any = None,
    study_name: str | None = None,
    space: Mapping[str, Any] | None = None,
    fixed: Mapping[str, Any] | None = None,
    seed: int = 0,
    n_jobs: int = 1,
    sampler: Any = None,
    pruner: Any = None,
    refit: bool = True,
    ensemble: int = 0,
    confirm: int = 3,
    callbacks: Iterable[Callable[[Any, Any], None]] | None = None,
    sample_weight: Any = None,
    groups: Any = None,
    test: tuple[Any, ...] | None = None,
    max_rounds: int = 4000,
    early_stopping_rounds: int | None = None,
    validation_fraction: float | None = None,
    progress: bool = True,
) -> TuneResult:
    """Tune a classifier by cross-validation, and keep the defaults unless something beats them beyond the noise.

    Parameters
    ----------
    X : table or array of shape (n_samples, n_features)
    y : array-like of shape (n_samples,)
    engine : {"native", "lgbm", "xgb"}, default="native"
    n_trials : int, default=50
        Trials that the study is to have in the end. Those that its storage has already are not run again.
    timeout : float, optional
        Begin no trial after this many seconds.
    cv : int, splitter or list of (train, test), default=5
        Outer folds. A number gives stratified and shuffled ones. Splits in the order of time are recognised: then the
        last rows of the training part stop the training.
    repeats : int, optional
        Draw the folds this many times, where `cv` is a number. By default once, twice below 500 rows and three times
        below 250.
    metric : {"error", "logloss"} or callable, default="logloss"
        Scores the outer folds; training is always stopped by log loss. A function takes (y_true, y_proba) or
        (y_true, y_proba, weight) and returns (name, value, higher_is_better).
    objectives : ("error",) or ("error", "cost"), default=("error",)
        "error" is the metric, whichever it is; "cost" the number of trees grown. Two objectives run without pruning.
    storage : str, path or optuna storage, optional
        A file ending with .db (SQLite) or .log (Optuna's journal), or the URL of a database. Processes that give the
        same storage, name and data work on one study.
    study_name : str, optional
        By default "abc-plugins-" and the engine.
    space : dict of str to optuna distribution, optional
        Ranges to use in place of the usual ones, see `default_space`; None as a range leaves a parameter out.
    fixed : dict, optional
        Parameters of the estimator that are not tuned. `n_jobs` is 1 unless it is given here.
    seed : int, default=0
        Of the sampler, the folds and the estimator.
    n_jobs : int, default=1
        Trials at a time, in threads. Their order, and so the trials, may differ from run to run.
    sampler, pruner : optuna sampler and pruner, optional
        By default multivariate TPE and `FoldPruner`.
    refit : bool, default=True
        Fit the best parameters on all data, with the mean number of rounds of the folds times the square root of how
        many times more rows there are, at most `max_rounds`.
    ensemble : int, default=0
        Weight this many of the best trials by greedy selection on the rows of the outer folds, and refit all that have
        a weight. Where that is no better than the best trial alone, on folds that did not choose the weights, it is
        not used. 0 is no ensemble.
    confirm : int, default=3
        Score this many of the best trials, and the defaults, again on fresh folds: as many as before, drawn with
        another seed. These decide whether the best trial is better than the defaults. With 0, or if `cv` is not a
        number, the folds of the study decide.
    callbacks : iterable of functions (study, trial), optional
        Called after every trial, as by Optuna; `study.stop()` in one of them ends the study there.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of training, early stopping and score.
    groups : array-like of shape (n_samples,), optional
        Rows of a group are never in two parts of a fold.
    test : (X, y) or (X, y, sample_weight), optional
        Scored once, with the refitted estimator.
    max_rounds : int, default=4000
        Most rounds of a fit; the default is that of `ABCBoostClassifier` with early stopping.
    early_stopping_rounds : int, optional
        By default 5 divided by the learning rate, from 25 to 100.
    validation_fraction : float, optional
        Share of a fold's training rows that stops the training: by default 0.1, up to 0.25 below 2,500 rows.
    progress : bool, default=True
        Show the progress on standard error.

    Returns
    -------
    TuneResult

    Raises
    ------
    StudyMismatchError
        If the storage has a study of this name with other data, splits, ranges, settings or versions.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from tuning import tune
    >>> X, y = load_iris(return_X_y=True)
    >>> result = tune(X, y, n_trials=3, cv=3, repeats=1, max_rounds=40, progress=False)
    >>> len(result.trials), result.best_score < 0.5
    (3, True)
    """
    run = check_run(n_trials, timeout, n_jobs, callbacks, progress)
    stopping = check_stopping(max_rounds, early_stopping_rounds)
    n_members = _check_members(ensemble, refit)
    n_leaders = check_integer("confirm", confirm, minimum=0)
    _check_kind("sampler", sampler, BaseSampler)
    _check_kind("pruner", pruner, BasePruner)
    plan = make_plan(
        X,
        y,
        engine=engine,
        fixed=fixed,
        seed=seed,
        space=space,
        metric=metric,
        objectives=objectives,
        stopping=stopping,
        splitting=Splitting(cv, repeats, validation_fraction),
        sample_weight=sample_weight,
        groups=groups,
    )
    test_set = read_test(test, plan.data, refit)
    study = _open(plan, storage, study_name, sampler, pruner)
    objective = Objective(
        plan.engine, plan.metric, [], plan.space, stopping, run.n_trials, plan.with_cost, n_members > 0
    )
    if len(finished_trials(study)) < run.n_trials or n_members:
        objective.folds = [plan.data.fold(fold) for fold in plan.folds]
    _run(study, objective, run, partial(_confirm, study, objective, plan, n_leaders))
    return _result(study, objective, plan.data, refit, n_members, test_set)


def _check_members(ensemble: Any, refit: Any) -> int:
    n_members = check_integer("ensemble", ensemble, minimum=0)
    check_flag("refit", refit)
    if n_members and not refit:
        fail("refit", refit, "True with an ensemble, whose members are fitted on all data")
    return n_members


def _check_kind(name: str, value: Any, kind: type) -> None:
    if value is not None and not isinstance(value, kind):
        fail(name, value, f"None or an optuna {name}, such as {_EXAMPLES[name]}", TypeError)


def _open(plan: StudyPlan, storage: Any, study_name: str | None, sampler: Any, pruner: Any) -> Any:
    """Create the study, or continue it."""
    with silent_optuna():
        return open_study(
            storage,
            study_name or f"abc-plugins-{plan.engine.name}",
            plan.directions,
            ReproducibleSampler(plan.seed, plan.starts, sampler),
            pruner or FoldPruner(),
            plan.attributes(),
        )


# ------------------------------------------------------------------------------------------------ the run


def _run(study: Any, objective: Objective, run: StudyRun, confirm: Callable[[Progress | None], None]) -> None:
    """Run the trials that are missing; after an interruption no trial is left as if it were running."""
    progress = Progress(run.n_trials, len(finished_trials(study))) if run.shows_progress else None
    callbacks = [*run.callbacks, *([progress] if progress else [])]
    with silent_optuna(), Interrupts() as objective.interrupts:
        try:
            _run_missing(study, objective, run, callbacks)
            objective.interrupts.check()
            confirm(progress)
        except KeyboardInterrupt:
            fail_lost_trials(study, objective.running)
            raise
        finally:
            if progress is not None:
                progress.close()


def _run_missing(study: Any, objective: Objective, run: StudyRun, callbacks: Sequence[Any]) -> None:
    """Run trials until there are enough; wait for those of other processes, and repeat them if they die."""
    deadline = None if run.timeout is None else time.monotonic() + run.timeout
    enough, asked_to_stop = threading.Event(), threading.Event()
    failed: list[int] = []

    def stop_if_done(study: Any, trial: Any) -> None:
        if trial.state in FINISHED:
            failed.clear()
        elif trial.number not in objective.surplus:
            failed.append(trial.number)
        if study._stop_flag and not enough.is_set():  # a callback of the user's own has called study.stop()
            asked_to_stop.set()
        is_done = len(counted_trials(study)) >= run.n_trials
        if is_done or objective.interrupts.requested or len(failed) >= _MOST_FAILURES:
            enough.set()
            study.stop()

    while not asked_to_stop.is_set() and (missing := run.n_trials - len(finished_trials(study))) > 0:
        objective.interrupts.check()
        if len(failed) >= _MOST_FAILURES:
            raise RuntimeError(f"{len(failed)} trials in a row failed without a score, the last one is {failed[-1]}.")
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            return
        fail_lost_trials(study)
        to_begin = missing - len(running_trials(study))
        if to_begin <= 0:
            time.sleep(_POLL_SECONDS)
            continue
        enough.clear()
        try:
            study.optimize(
                objective,
                n_trials=to_begin,
                timeout=left,
                n_jobs=run.n_jobs,
                catch=(SurplusTrialError,),
                callbacks=[*callbacks, stop_if_done],
            )
        except ValueError as error:
            # SQLite may hand a queued trial to two processes at once: the result of the faster one stands.
            if not str(error).startswith(_TOLD_BEFORE):
                raise


def _confirm(study: Any, objective: Objective, plan: StudyPlan, n_leaders: int, progress: Progress | None) -> None:
    """Score the best trials and the defaults on folds that did not choose them."""
    trials = unconfirmed_trials(study, n_leaders) if plan.fresh_folds else []
    if not trials:
        return
    if progress is not None:
        progress.say(f"scoring {len(trials)} of the trials again, on {len(plan.fresh_folds)} fresh folds")
    folds = [plan.data.fold(fold) for fold in plan.fresh_folds]
    for trial in trials:
        keep_fresh_scores(study, trial, objective.score_fresh(folds, trial))


# ------------------------------------------------------------------------------------------------ the result


def _result(
    study: Any, objective: Objective, data: StudyData, refit: bool, n_members: int, test: TestSet | None
) -> TuneResult:
    verdict, engine = judge(study), objective.engine
    best = verdict.chosen
    parameters = {**engine.fixed, **fit_parameters(study, best)}
    estimator, test_score, report = None, None, None
    if refit:
        report = _ensemble(study, objective, best, n_members) if n_members > 1 else None
        estimator = _refit(study, engine, data, best, report)
        test_score = None if test is None else _test_score(estimator, objective.metric, test)
    return TuneResult(study, best, parameters, best.values[0], estimator, test_score, report)


def _test_score(estimator: Any, metric: TunedMetric, test: TestSet) -> float | None:
    """Score the test set; what goes wrong there is warned about, as the study has its result already."""
    try:
        return metric.value(test.codes, estimator.predict_proba(test.X), test.weights)
    except Exception as error:
        warn_caller(f"the test set could not be scored: {error}")
        return None


def _refit(study: Any, engine: TunedEngine, data: StudyData, best: Any, report: EnsembleReport | None) -> Any:
    """Fit the chosen trial, or the members of the ensemble, on all data."""

    def fit(trial: Any) -> Any:
        estimator = engine.estimator(fit_parameters(study, trial))
        return engine.fit_all(estimator, data.X, data.classes, data.codes, data.training_weights)

    if report is None or not report.is_used:
        return fit(best)
    trials = {trial.number: trial for trial in finished_trials(study)}
    return WeightedEnsemble([fit(trials[number]) for number in report.weights], list(report.weights.values()))


def _ensemble(study: Any, objective: Objective, best: Any, n_members: int) -> EnsembleReport:
    """Weight the best trials; what those of other runs predicted is computed again."""
    sign = -1.0 if objective.metric.higher_is_better else 1.0
    complete = complete_trials(study)
    ranked = sorted(complete, key=lambda trial: (sign * trial.values[0], trial.number))
    # Also the defaults, so that what leads by luck can be mixed with what does not.
    wanted = [best, trial_of_defaults(study), *ranked[:n_members]]
    candidates = {trial.number: trial for trial in wanted if trial is not None}
    probabilities = {}
    for number, trial in candidates.items():
        if number not in objective.probabilities:
            fits = [objective.fit_fold(None, fold, trial.user_attrs[PARAMS]) for fold in objective.folds]
            objective.probabilities[number] = [fit.probabilities for fit in fits]
        probabilities[number] = objective.probabilities[number]
    tests = [fold.test for fold in objective.folds]
    return build_ensemble(probabilities, [part.codes for part in tests], [part.weights for part in tests], best.number)
