"""tune: an Optuna study from data to the refitted estimator."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.class_weight import compute_sample_weight

from abc_plugins.core.runtime.arrays import AnyArray, Floats, Integers
from abc_plugins.core.runtime.checks import check_flag, check_integer, check_real, fail
from abc_plugins.core.runtime.parallel import available_cores
from abc_plugins.data.labels import encode_labels, read_labels
from abc_plugins.data.tables import read_features, read_weights
from tuning.engines.base import Engine, FoldData, Samples, Stopping, engine_class, two_columns
from tuning.metric import TunedMetric
from tuning.objective import PARAMS, RARE_REPORT_INTERVAL, REPORT_INTERVAL, Objective, SurplusTrialError
from tuning.pruning import FoldPruner
from tuning.result import DEFAULTS, PAPER, PLAIN, SAMPLED, TuneResult, find_best, mean_rounds
from tuning.sampling import ReproducibleSampler
from tuning.space import SCHEDULE, Space, change_space, default_space, draw, has_value, plain_name, to_drawn
from tuning.splits import Fold, make_folds
from tuning.studies import (
    FINGERPRINT,
    OMIT,
    PREFIX,
    SETTINGS,
    START,
    fail_lost_trials,
    fingerprint,
    open_study,
)
from tuning.trials import counted_trials, finished_trials, running_trials

ERROR, COST = "error", "cost"
_OBJECTIVES = ((ERROR,), (ERROR, COST))
_PAPER_SETTINGS = {"search": 4, "gap": 10, "warmup": 100, "num_leaves": 20, "learning_rate": 0.1}
_SAMPLING = {"subsample": 0.7, "colsample": 0.7}
_NOT_FIXED = ("n_estimators", "early_stopping_rounds", "eval_metric", "validation_fraction", "verbose", "callbacks")
_POLL_SECONDS = 0.5
_TOLD_BEFORE = "Cannot tell a "  # how Optuna begins to say that a trial is finished already


def suggest(
    trial: Any,
    n_classes: int,
    *,
    engine: str = "native",
    space: Mapping[str, Any] | None = None,
    exhaustive: bool = False,
    regularisation: bool = False,
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
    exhaustive, regularisation : bool, default=False
        As in `default_space`.

    Returns
    -------
    dict
        Arguments for the estimator; the number of rounds is left to early stopping.
    """
    usual = default_space(n_classes, exhaustive=exhaustive, regularisation=regularisation)
    return engine_class(engine).translate(draw(trial, change_space(usual, space)))


def tune(
    X: Any,
    y: Any,
    *,
    engine: str = "native",
    n_trials: int = 50,
    timeout: float | None = None,
    cv: Any = 5,
    metric: str | Callable[..., Any] = "error",
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
    callbacks: Iterable[Callable[[Any, Any], None]] | None = None,
    sample_weight: Any = None,
    groups: Any = None,
    test: tuple[Any, ...] | None = None,
    max_rounds: int = 1000,
    early_stopping_rounds: int = 100,
    validation_fraction: float = 0.1,
    exhaustive: bool = False,
    regularisation: bool = False,
) -> TuneResult:
    """Tune s, g, w, J and nu by cross-validation.

    Parameters
    ----------
    X : table or array of shape (n_samples, n_features)
    y : array-like of shape (n_samples,)
    engine : {"native", "lgbm", "xgb"}, default="native"
    n_trials : int, default=50
        Trials that the study is to have in the end. Those that its storage has already are not run again.
    timeout : float, optional
        Begin no trial after so many seconds.
    cv : int, splitter or list of (train, test), default=5
        Outer folds. A number gives stratified and shuffled ones. Splits in the order of time are recognised: then the
        last rows of the training part stop the training.
    metric : {"error", "logloss"} or callable, default="error"
        Scores the outer folds, and stops the training on the inner split. A function takes (y_true, y_proba) or
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
        Parameters of the estimator that are not tuned.
    seed : int, default=0
        Of the sampler, the folds and the estimator.
    n_jobs : int, default=1
        Trials at a time, in threads that share the cores. Their order, and so the trials, may differ from run to run.
    sampler, pruner : optuna sampler and pruner, optional
        By default multivariate TPE and `FoldPruner`.
    refit : bool, default=True
        Fit the best parameters on all data, with the mean number of rounds of the folds.
    callbacks : iterable of functions (study, trial), optional
        Called after every trial, as by Optuna.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of training, early stopping and score.
    groups : array-like of shape (n_samples,), optional
        Rows of a group are never in two parts of a fold.
    test : (X, y) or (X, y, sample_weight), optional
        Scored once, with the refitted estimator.
    max_rounds : int, default=1000
    early_stopping_rounds : int, default=100
    validation_fraction : float, default=0.1
        Share of a fold's training rows that stops the training.
    exhaustive, regularisation : bool, default=False
        As in `default_space`.

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
    >>> result = tune(X, y, n_trials=4, cv=3, max_rounds=20)
    >>> len(result.trials), result.best_score < 0.1
    (4, True)
    """
    n_trials = check_integer("n_trials", n_trials, minimum=1)
    limit = None if timeout is None else check_real("timeout", timeout, above=0.0)
    n_jobs = check_integer("n_jobs", n_jobs, minimum=1)
    stopping = Stopping(
        check_integer("max_rounds", max_rounds, minimum=1),
        check_integer("early_stopping_rounds", early_stopping_rounds, minimum=1),
    )
    with_cost = _check_objectives(objectives)
    for name, flag in (("refit", refit), ("exhaustive", exhaustive), ("regularisation", regularisation)):
        check_flag(name, flag)
    if callbacks is not None and not isinstance(callbacks, Iterable):
        fail("callbacks", callbacks, "a list of functions of (study, trial)", TypeError)
    data = _read_data(X, y, sample_weight, groups)
    fixed = _check_fixed(fixed)
    kind = engine_class(engine)
    ranges = change_space(
        default_space(data.n_classes, exhaustive=exhaustive, regularisation=regularisation), space, fixed
    )
    _check_space(ranges, kind)
    metric_used = TunedMetric(metric, data.classes)
    test_set = _read_test(test, data, refit)
    folds = make_folds(
        cv,
        data.codes,
        data.groups,
        check_real("validation_fraction", validation_fraction, above=0.0, maximum=0.9),
        check_integer("seed", seed, minimum=0),
    )
    class_weight = fixed.pop("class_weight", None)
    n_threads = fixed.pop("n_jobs", None) or max(1, available_cores() // n_jobs)
    used = kind(data.n_classes, metric_used, fixed, n_threads, seed)
    settings = {
        "engine": engine,
        "metric": metric_used.name,
        "objectives": list(objectives),
        "fixed": {**used.fixed, "class_weight": class_weight},
        "max_rounds": max_rounds,
        "early_stopping_rounds": early_stopping_rounds,
    }
    study = open_study(
        storage,
        study_name or f"abc-plugins-{engine}",
        [metric_used.direction, "minimize"] if with_cost else [metric_used.direction],
        sampler or ReproducibleSampler(seed),
        pruner or FoldPruner(stopping.max_rounds + 1),
        {
            PREFIX + "engine": engine,
            PREFIX + "metric": metric_used.name,
            PREFIX + "classes": [str(label) for label in data.classes.tolist()],
            PREFIX + "n_folds": len(folds),
            FINGERPRINT: fingerprint(
                {"X": data.X, "y": data.classes[data.codes], "sample_weight": data.weights, "groups": data.groups},
                folds,
                ranges,
                settings,
                {"native": [], "lgbm": ["lightgbm"], "xgb": ["xgboost"]}[engine],
            ),
        },
        _starts(used, ranges, data.n_classes, stopping.max_rounds),
    )
    training_weights = data.training_weights(class_weight)
    interval = RARE_REPORT_INTERVAL if pruner is None else REPORT_INTERVAL
    objective = Objective(used, [], ranges, stopping, n_trials, with_cost, interval)
    if len(finished_trials(study)) < n_trials:
        objective.folds = [_bin_fold(used, data, fold, training_weights) for fold in folds]
    _run(study, objective, limit, n_jobs, list(callbacks or ()))
    weighted = data.weights is not None or class_weight is not None
    return _result(study, used, X, data, training_weights if weighted else None, refit, test_set)


# ------------------------------------------------------------------------------------------------ data


@dataclass(frozen=True)
class _Data:
    X: AnyArray
    names: list[str] | None
    codes: Integers
    classes: AnyArray
    weights: AnyArray | None
    groups: AnyArray | None

    @property
    def n_classes(self) -> int:
        return int(self.classes.size)

    @property
    def sample_weights(self) -> Floats:
        return np.ones(self.codes.size) if self.weights is None else self.weights

    def training_weights(self, class_weight: Any) -> Floats:
        """Weights to train with: those of the samples times those of their classes."""
        if class_weight is None:
            return self.sample_weights
        return self.sample_weights * compute_sample_weight(class_weight, self.classes[self.codes])

    def rows(self, rows: Integers, weights: Floats) -> Samples:
        return Samples(self.X[rows], self.codes[rows], weights[rows])


def _read_data(X: Any, y: Any, sample_weight: Any, groups: Any) -> _Data:
    features = read_features(X)
    classes, codes = read_labels(y)
    if features.values.shape[0] != codes.size:
        raise ValueError(
            "X and y must have the same number of samples; "
            f"got {features.values.shape[0]} rows and {codes.size} labels."
        )
    if classes.size < 2:
        fail("y", f"only {classes[0]!r}", "labels of at least 2 classes")
    if groups is not None:
        groups = np.asarray(groups)
        if groups.shape != (codes.size,):
            fail("groups", f"shape {groups.shape}", f"an array of shape ({codes.size},)")
    return _Data(features.array, features.names, codes, classes, read_weights(sample_weight, codes.size), groups)


def _read_test(test: Any, data: _Data, refit: bool) -> tuple[Any, Integers, Floats | None] | None:
    """Check the test set without looking at what is in it beyond its shape and labels."""
    if test is None:
        return None
    if not isinstance(test, list | tuple) or len(test) not in (2, 3):
        fail("test", type(test).__name__, "a tuple (X, y) or (X, y, sample_weight)", TypeError)
    if not refit:
        fail("refit", refit, "True with a test set, which the refitted estimator is scored on")
    codes = encode_labels(test[1], data.classes, input_name="y of test")
    values = read_features(test[0], names=data.names, n_features=data.X.shape[1], input_name="X of test").values
    if values.shape[0] != codes.size:
        raise ValueError(f"X and y of test must have the same length; got {values.shape[0]} and {codes.size}.")
    weights = read_weights(test[2] if len(test) == 3 else None, codes.size, input_name="sample_weight of test")
    return test[0], codes, weights


def _bin_fold(engine: Engine, data: _Data, fold: Fold, training_weights: Floats) -> FoldData:
    plain = data.sample_weights
    return engine.bin_fold(
        data.rows(fold.train, training_weights), data.rows(fold.valid, plain), data.rows(fold.test, plain)
    )


# ------------------------------------------------------------------------------------------------ checks


def _check_objectives(objectives: Any) -> bool:
    if not isinstance(objectives, list | tuple) or tuple(objectives) not in _OBJECTIVES:
        fail("objectives", objectives, " or ".join(map(repr, _OBJECTIVES)))
    return COST in objectives


def _check_fixed(fixed: Any) -> dict[str, Any]:
    if fixed is not None and not isinstance(fixed, Mapping):
        fail("fixed", type(fixed).__name__, "a dict of parameters of the estimator, or None", TypeError)
    for name in fixed or ():
        if name in _NOT_FIXED:
            fail("fixed", {name: (fixed or {})[name]}, f"without {name!r}, which the study sets itself")
    return dict(fixed or {})


def _check_space(space: Space, engine: type[Engine]) -> None:
    if not space:
        fail("space", space, "left with at least one parameter to tune")
    for name in space:
        if plain_name(name) in engine.bin_parameters:
            fail("space", name, f"without {name!r}: bins are computed once. Give it in `fixed`")
        if plain_name(name) in _NOT_FIXED:
            fail("space", name, f"without {name!r}, which the study sets itself")


# ------------------------------------------------------------------------------------------------ the run


def _starts(
    engine: Engine, space: Space, n_classes: int, max_rounds: int
) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """The paper's settings, the defaults, boosting without a base class, and boosting with samples and features drawn.

    Each is what Optuna draws, and the attributes of the trial.
    """
    names = [plain_name(name) for name in space]
    # A parameter whose default is no point of the space is left to the estimator.
    own = [name for name in names if name not in engine.defaults or not has_value(space, name, engine.defaults[name])]
    drawn = to_drawn({name: value for name, value in engine.defaults.items() if name not in own}, space)
    starts: list[tuple[dict[str, Any], dict[str, Any]]] = [(drawn, {START: DEFAULTS, OMIT: own})]
    if n_classes > 2:
        paper = {**drawn, **to_drawn(_PAPER_SETTINGS, space)}
        starts.insert(0, (paper, {START: PAPER, OMIT: [name for name in own if name not in _PAPER_SETTINGS]}))
        classic = {name: value for name, value in drawn.items() if plain_name(name) not in SCHEDULE}
        plain = {START: PLAIN, OMIT: [*own, *SCHEDULE], SETTINGS: engine.plain(max_rounds)}
        starts.append((classic, plain))
    if any(name in names for name in _SAMPLING):
        sampled = {**drawn, **to_drawn(_SAMPLING, space)}
        if sampled != drawn:
            starts.append((sampled, {START: SAMPLED, OMIT: [name for name in own if name not in _SAMPLING]}))
    return starts


def _run(study: Any, objective: Objective, timeout: float | None, n_jobs: int, callbacks: list[Any]) -> None:
    """Run the trials that are missing; wait for those of other processes, and repeat them if they die."""
    deadline = None if timeout is None else time.monotonic() + timeout
    while (missing := objective.n_trials - len(finished_trials(study))) > 0:
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            return
        fail_lost_trials(study)
        to_begin = missing - len(running_trials(study))
        if to_begin <= 0:
            time.sleep(_POLL_SECONDS)
            continue

        def stop_if_done(study: Any, _: Any) -> None:
            if len(counted_trials(study)) >= objective.n_trials:
                study.stop()

        try:
            study.optimize(
                objective,
                n_trials=to_begin,
                timeout=left,
                n_jobs=n_jobs,
                catch=(SurplusTrialError,),
                callbacks=[*callbacks, stop_if_done],
            )
        except ValueError as error:
            # SQLite may hand a queued trial to two processes at once: the result of the faster one stands.
            if not str(error).startswith(_TOLD_BEFORE):
                raise


def _result(
    study: Any,
    engine: Engine,
    X: Any,
    data: _Data,
    weights: Floats | None,
    refit: bool,
    test: tuple[Any, Integers, Floats | None] | None,
) -> TuneResult:
    best = find_best(study)
    parameters = {**engine.fixed, **best.user_attrs[PARAMS], "n_estimators": mean_rounds(best)}
    estimator, test_score = None, None
    if refit:
        estimator = engine.estimator(parameters).set_params(n_jobs=engine.n_threads)
        engine.fit_all(estimator, X, data.classes, data.codes, weights)
        if test is not None:
            probabilities = two_columns(estimator.predict_proba(test[0]))
            test_score = engine.metric.value(test[1], probabilities, test[2])
    return TuneResult(study, best, parameters, best.values[0], estimator, test_score)
