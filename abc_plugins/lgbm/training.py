"""`train`: lightgbm.train with directional trees, or with an adaptive base class."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
from lightgbm import callback as lgb_callback

from abc_plugins.core.options import NO_PAST, Past
from abc_plugins.core.runtime.checks import fail
from abc_plugins.lgbm.directional import DirectionalRun
from abc_plugins.lgbm.exporting import finish, past_of
from abc_plugins.lgbm.internals import (
    Predictor,
    is_constructed,
    predictor_of,
    restore_params,
    set_predictor,
    update_params,
)
from abc_plugins.lgbm.live import GrowingBooster, KeptBooster
from abc_plugins.lgbm.params import (
    ABCOptions,
    TrainingParams,
    count_rounds,
    find_n_classes,
    main_names,
    objective_name,
    whole_number,
)
from abc_plugins.lgbm.trainer import EvalFunction, Run, Trainer

Callback = Callable[[lgb_callback.CallbackEnv], Any]


def train(
    params: dict[str, Any] | None,
    train_set: lgb.Dataset,
    num_boost_round: int = 100,
    valid_sets: list[lgb.Dataset] | lgb.Dataset | None = None,
    valid_names: list[str] | str | None = None,
    feval: EvalFunction | list[EvalFunction] | None = None,
    init_model: str | Path | lgb.Booster | None = None,
    keep_training_booster: bool = False,
    callbacks: list[Callback] | None = None,
    **options: Any,
) -> lgb.Booster:
    """Train a multi-class model on LightGBM's trees.

    A drop-in for `lightgbm.train` with objective multiclass: the same arguments, the same Datasets, parameters and
    callbacks, and a stock Booster as result. Two classes are left to LightGBM's own objective.

    Parameters
    ----------
    params : dict
        LightGBM's parameters. `objective` may be left out; `num_class` too if the labels tell it. Values given
        here have precedence over arguments. Refused, because they cannot be right: boosting dart and rf, more
        than one machine, monotone_constraints other than 0, other objectives.
    train_set : Dataset
    num_boost_round : int, default=100
    valid_sets : list of Dataset, optional
    valid_names : list of str, optional
    feval : callable or list of callables, optional
        Called with probabilities of shape (n_samples, n_classes) and the Dataset.
    init_model : str, Path or Booster, optional
        Model to continue: a stock multiclass model, whose iterations count as classic rounds, or one from here,
        whose schedule goes on where it ended (for a file, which does not hold its schedule, as for a stock one).
    keep_training_booster : bool, default=False
        True returns a Booster that holds its data: it can be evaluated, and `update` goes on with LightGBM's own
        multiclass objective.
    callbacks : list of callables, optional
    **options
        What LightGBM does not have: see `abc_plugins.core.options.BoostOptions`, and `layout`, see `export`.

    Returns
    -------
    booster : lightgbm.Booster
        A stock model with objective multiclass. `best_iteration` is LightGBM's count of iterations up to the best
        round; `model_info(booster)` tells rounds, base classes and importances.
    """
    own = ABCOptions.of(options)
    check_datasets(train_set, valid_sets)
    check_functions(feval)
    n_classes, named = count_classes(params, train_set), main_names(params)
    if n_classes == 2:
        return _train_two_classes(
            named,
            train_set,
            num_boost_round,
            valid_sets,
            valid_names,
            feval,
            init_model,
            keep_training_booster,
            callbacks,
        )
    n_rounds = count_rounds(params, num_boost_round)
    checked = TrainingParams.check(params, own, n_classes, n_rounds)
    predictor, past = initial_model(init_model, checked)
    booster, with_train = make_booster(checked, train_set, valid_sets, valid_names, predictor)
    trainer = make_run(checked, booster, past)
    try:
        best_round, best_results = _run(
            trainer, n_rounds, listed(feval), callbacks, evaluate=valid_sets is not None, with_train=with_train
        )
    finally:
        trainer.close()
    finished = finish(trainer.model(), best_round=best_round, layout=own.layout, keep_later=keep_training_booster)
    finished.best_score = _best_score(best_results)
    if keep_training_booster:
        sets = [(data.name, data.data, trainer.scores(data).T) for data in (trainer.train, *trainer.valid)]
        finished = KeptBooster(finished, checked.stock, sets[0], sets[1:])
    booster.hand_over(finished)
    return finished


def check_datasets(train_set: Any, valid_sets: Any) -> None:
    """Refuse what is not a Dataset, as lightgbm does."""
    if not isinstance(train_set, lgb.Dataset):
        fail("train_set", train_set, "a lightgbm.Dataset", TypeError)
    for data in listed(valid_sets):
        if not isinstance(data, lgb.Dataset):
            fail("valid_sets", data, "lightgbm.Dataset objects", TypeError)
    for data in (train_set, *listed(valid_sets)):
        _check_labels_and_weights(data)


def _check_labels_and_weights(data: lgb.Dataset) -> None:
    """Refuse what LightGBM takes without a word: no label and NaN as class 0, and any weights."""
    in_memory = data.data is not None and not isinstance(data.data, str | Path)
    if data.label is None and not is_constructed(data) and data.used_indices is None and in_memory:
        fail("label", None, "a class index for every row of a Dataset")
    if data.label is not None and np.isnan(np.asarray(data.label, dtype=np.float64)).any():
        fail("label", "NaN", "a class index for every row of a Dataset")
    if data.weight is not None:
        weights = np.asarray(data.weight, dtype=np.float64)
        if not (np.isfinite(weights).all() and weights.min(initial=0.0) >= 0.0 and weights.any()):
            wrong = weights[~np.isfinite(weights) | (weights < 0.0)]
            fail("weight", wrong[0] if wrong.size else "only zeros", "finite and not negative, and not 0 everywhere")


def check_functions(feval: Any) -> None:
    """Refuse metrics that are no functions."""
    for function in listed(feval):
        if not callable(function):
            fail("feval", function, "a function, or a list of functions", TypeError)


def listed(value: Any) -> list[Any]:
    """Return a list of what is given: nothing, one thing or several."""
    if value is None:
        return []
    return [item for item in value if item is not None] if isinstance(value, list | tuple) else [value]


def count_classes(params: dict[str, Any] | None, train_set: lgb.Dataset) -> int:
    """Find the number of classes; labels are only looked at if the parameters do not tell."""
    named = main_names(params)
    if objective_name(named) == "binary":
        return 2
    if "num_class" in named:
        return find_n_classes(params, 0.0)
    if not is_constructed(train_set) and train_set.label is not None:
        # Not binned for that: a Dataset that is binned has settled which features and leaves are allowed.
        return find_n_classes(params, float(np.max(np.asarray(train_set.label, dtype=np.float64), initial=0.0)))
    data_params = {name: value for name, value in named.items() if name not in ("objective", "metric")}
    if callable(named.get("objective")):
        data_params["objective"] = "none"  # in place of the function that the Dataset itself may have among its own
    update_params(train_set, data_params).construct()
    return find_n_classes(params, float(train_set.get_field("label").max(initial=0.0)))


def _train_two_classes(named: dict[str, Any], *arguments: Any) -> lgb.Booster:
    if named.get("objective") is None:
        named = {**named, "objective": "multiclass", "num_class": 2}
    return lgb.train(named, *arguments)


def initial_model(init_model: str | Path | lgb.Booster | None, params: TrainingParams) -> tuple[Predictor | None, Past]:
    """Make LightGBM's predictor of the initial model, and find what is known of its rounds."""
    if init_model is None:
        return None, NO_PAST
    if not isinstance(init_model, lgb.Booster | str | Path):
        fail("init_model", init_model, "a path, a lightgbm.Booster or None", TypeError)
    predictor = predictor_of(init_model, params.stock)
    if predictor.num_class != params.n_classes:
        fail("init_model", f"a model of {predictor.num_class} classes", f"a model of {params.n_classes} classes")
    info = getattr(init_model, "abc_info", None)
    return predictor, past_of(info, predictor.current_iteration())


def make_run(params: TrainingParams, booster: GrowingBooster, past: Past) -> Run:
    """Make the run of the method on a booster of `make_booster`."""
    run = DirectionalRun(params, booster, past) if params.options.is_directional else Trainer(params, booster, past)
    booster.follow(run)
    return run


def make_booster(
    params: TrainingParams,
    train_set: lgb.Dataset,
    valid_sets: list[lgb.Dataset] | lgb.Dataset | None,
    valid_names: list[str] | str | None,
    predictor: Predictor | None,
) -> tuple[GrowingBooster, bool]:
    """Make the booster that grows the trees, with the data sets tied together as lightgbm.train does it.

    Returns
    -------
    booster : GrowingBooster
    with_train : bool
        Whether the training set is among the validation sets.
    """
    names = [valid_names] if isinstance(valid_names, str) else list(valid_names or [])
    params = params.for_data(train_set)
    set_predictor(update_params(train_set, params.grower), predictor)
    train_name, others = "training", []
    datasets = listed(valid_sets)
    for i, data in enumerate(datasets):
        name = names[i] if i < len(names) else None
        if data is train_set:
            train_name = name or "training"
        else:
            update_params(data, params.grower).set_reference(train_set)
            others.append((data, name or f"valid_{i}"))
    try:
        booster = GrowingBooster(params=params.grower, train_set=train_set)
        booster.set_train_data_name(train_name)
        for data, name in others:
            booster.add_valid(data, name)
    finally:
        for data in (train_set, *(data for data, _ in others)):
            restore_params(data)
    booster.best_iteration = 0
    return booster, any(data is train_set for data in datasets)


def _run(
    trainer: Run,
    n_rounds: int,
    feval: list[EvalFunction],
    callbacks: Sequence[Callback] | None,
    *,
    evaluate: bool,
    with_train: bool,
) -> tuple[int, list[Any]]:
    """Do the rounds between the callbacks; returns the best round (0 without early stopping) and its results."""
    before, after = sorted_callbacks(callbacks, trainer.params)
    begin = trainer.n_initial_rounds
    results: list[Any] = []
    shown = trainer.params.stock  # one dictionary for the run: reset_parameter notes its changes there

    def env(iteration: int, results: list[Any] | None) -> lgb_callback.CallbackEnv:
        return lgb_callback.CallbackEnv(
            model=trainer.booster,
            params=shown,
            iteration=iteration,
            begin_iteration=begin,
            end_iteration=begin + n_rounds,
            evaluation_result_list=results,
        )

    for iteration in range(begin, begin + n_rounds):
        for function in before:
            function(env(iteration, None))
        trainer.boost_round()
        results = trainer.evaluate(feval, with_train=with_train) if evaluate else []
        try:
            for function in after:
                function(env(iteration, results))
        except lgb_callback.EarlyStopException as stop:
            return stop.best_iteration + 1, stop.best_score
    return 0, results


def sorted_callbacks(
    callbacks: Sequence[Callback] | None, params: TrainingParams
) -> tuple[list[Callback], list[Callback]]:
    """Sort callbacks into those before and those after a round, with the early stopping that `params` ask for."""
    functions = list(callbacks or [])
    for i, function in enumerate(functions):
        if not callable(function):
            fail(f"callbacks[{i}]", function, "a function, as in lightgbm.train", TypeError)
    for i, function in enumerate(functions):
        function.__dict__.setdefault("order", i - len(functions))
    given = params.given
    given_rounds = given.get("early_stopping_round")
    rounds = 0 if given_rounds is None else whole_number("early_stopping_round", given_rounds)
    if rounds > 0:
        functions.append(
            lgb.early_stopping(
                rounds,
                first_metric_only=bool(given.get("first_metric_only", False)),
                verbose=params.verbose,
                min_delta=given.get("early_stopping_min_delta", 0.0),
            )
        )
    unique = sorted(set(functions), key=attrgetter("order"))
    before = [function for function in unique if getattr(function, "before_iteration", False)]
    return before, [function for function in unique if function not in before]


def _best_score(results: Sequence[Any]) -> dict[str, Any]:
    scores: dict[str, Any] = defaultdict(OrderedDict)
    for data_name, metric_name, value, *_ in results:
        scores[data_name][metric_name] = value
    return scores
