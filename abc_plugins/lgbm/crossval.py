"""`cv`: lightgbm.cv with `train` of this package."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
from lightgbm import callback as lgb_callback
from sklearn.model_selection import KFold, StratifiedKFold

from abc_plugins.core.options import Past
from abc_plugins.core.runtime.arrays import AnyArray
from abc_plugins.lgbm.exporting import finish, iterations_of
from abc_plugins.lgbm.internals import eval_result, get_predictor, set_predictor, update_params
from abc_plugins.lgbm.params import ABCOptions, TrainingParams, count_rounds, main_names
from abc_plugins.lgbm.trainer import EvalFunction, Run
from abc_plugins.lgbm.training import (
    Callback,
    check_datasets,
    check_functions,
    count_classes,
    initial_model,
    listed,
    make_booster,
    make_run,
    sorted_callbacks,
)

_COUNTING = {
    "predict": "num_iteration",
    "model_to_string": "num_iteration",
    "dump_model": "num_iteration",
    "feature_importance": "iteration",
}
"""Methods of a Booster that are told a number of iterations, and what they call it."""


def cv(
    params: dict[str, Any] | None,
    train_set: lgb.Dataset,
    num_boost_round: int = 100,
    folds: Any = None,
    nfold: int = 5,
    stratified: bool = True,
    shuffle: bool = True,
    metrics: str | list[str] | None = None,
    feval: EvalFunction | list[EvalFunction] | None = None,
    init_model: str | Path | lgb.Booster | None = None,
    fpreproc: Any = None,
    seed: int = 0,
    callbacks: list[Callback] | None = None,
    eval_train_metric: bool = False,
    return_cvbooster: bool = False,
    **options: Any,
) -> dict[str, Any]:
    """Cross-validate a multi-class model on LightGBM's trees.

    A drop-in for `lightgbm.cv`: every fold is a run of its own with its own directions or base classes, and the
    folds take their rounds side by side, so that callbacks see the average of each round. With two classes
    `lightgbm.cv` itself runs.

    Parameters
    ----------
    params, train_set, num_boost_round, folds, nfold, stratified, shuffle, metrics, feval, init_model, fpreproc, seed, \
callbacks, eval_train_metric, return_cvbooster
        As in `lightgbm.cv`.
    **options
        As in `abc_plugins.lgbm.train`.

    Returns
    -------
    results : dict
        "valid multi_logloss-mean", "valid multi_logloss-stdv" and so on, one value per round; and "cvbooster", a
        `lightgbm.CVBooster` of stock models, if it is asked for. It counts rounds, those of an `init_model`
        included: `best_iteration`, and `num_iteration` and `start_iteration` of its methods. Its boosters count
        LightGBM's iterations.
    """
    own = ABCOptions.of(options)
    check_datasets(train_set, None)
    check_functions(feval)
    if metrics is not None:
        params = main_names(params, ("metric",)) | {"metric": metrics}
    n_classes, named = count_classes(params, train_set), main_names(params)
    if n_classes == 2:
        if named.get("objective") is None:
            named = {**named, "objective": "multiclass", "num_class": 2}
        return lgb.cv(
            named,
            train_set,
            num_boost_round,
            folds=folds,
            nfold=nfold,
            stratified=stratified,
            shuffle=shuffle,
            feval=feval,
            init_model=init_model,
            fpreproc=fpreproc,
            seed=seed,
            callbacks=callbacks,
            eval_train_metric=eval_train_metric,
            return_cvbooster=return_cvbooster,
        )
    n_rounds = count_rounds(params, num_boost_round)
    checked = TrainingParams.check(params, own, n_classes, n_rounds).for_data(train_set)
    predictor, past = initial_model(init_model, checked)
    set_predictor(update_params(train_set, checked.grower), predictor)
    train_set.construct()
    trainers = []
    for train_rows, valid_rows in _folds(train_set, folds, nfold, stratified, shuffle, seed):
        trainers.append(_fold_trainer(checked, train_set, train_rows, valid_rows, fpreproc, past))
    try:
        results, best_round = _run(trainers, n_rounds, listed(feval), callbacks, eval_train_metric)
    finally:
        for trainer in trainers:
            trainer.close()
    if return_cvbooster:
        boosters = RoundsCVBooster()
        best = best_round and best_round + len(past.bases)
        boosters.boosters = [finish(t.model(), best_round=best, layout=own.layout, keep_later=True) for t in trainers]
        boosters.best_iteration = best or -1
        results["cvbooster"] = boosters
    return results


class RoundsCVBooster(lgb.CVBooster):
    """The models of all folds, counted in rounds: where the same round ends may differ from fold to fold."""

    def __getattr__(self, name: str) -> Any:
        """Call a method of all boosters, with rounds translated to the iterations of each."""
        if name not in _COUNTING:
            return super().__getattr__(name)
        return lambda *args, **kwargs: [self._call(booster, name, args, kwargs) for booster in self.boosters]

    def _call(self, booster: lgb.Booster, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        method, count_name = getattr(booster, name), _COUNTING[name]
        bound = inspect.signature(method).bind(*args, **kwargs)
        start, count = bound.arguments.get("start_iteration", 0), bound.arguments.get(count_name)
        if start > 0 or (count or 0) > 0:
            start, bound.arguments[count_name] = iterations_of(booster.abc_info, start, count)
            if "start_iteration" in bound.signature.parameters:
                bound.arguments["start_iteration"] = start
        return method(*bound.args, **bound.kwargs)

    def model_to_string(
        self, num_iteration: int | None = None, start_iteration: int = 0, importance_type: str = "split"
    ) -> str:
        """Write the models as JSON for `lightgbm.CVBooster`, cut to the best round or to those asked for."""
        arguments = {"start_iteration": start_iteration, "importance_type": importance_type}
        texts = [self._call(booster, "model_to_string", (num_iteration,), arguments) for booster in self.boosters]
        # A plain CVBooster knows no rounds: all that was written is its model.
        return json.dumps({"boosters": texts, "best_iteration": -1})

    def save_model(
        self,
        filename: str | Path,
        num_iteration: int | None = None,
        start_iteration: int = 0,
        importance_type: str = "split",
    ) -> RoundsCVBooster:
        """Write what `model_to_string` returns to a file."""
        Path(filename).write_text(self.model_to_string(num_iteration, start_iteration, importance_type))
        return self


def _folds(
    train_set: lgb.Dataset, folds: Any, nfold: int, stratified: bool, shuffle: bool, seed: int
) -> Iterable[tuple[AnyArray, AnyArray]]:
    """Rows of every fold, the same as lightgbm.cv makes."""
    rows, labels = np.empty(train_set.num_data()), train_set.get_field("label")
    if folds is not None:
        sizes = train_set.get_group()
        groups = None if sizes is None else np.repeat(np.arange(len(sizes)), np.asarray(sizes, dtype=np.int64))
        return folds.split(rows, labels, groups=groups) if hasattr(folds, "split") else folds
    if stratified:
        random_state = seed if shuffle else None
        return StratifiedKFold(n_splits=nfold, shuffle=shuffle, random_state=random_state).split(rows, labels)
    if shuffle:
        return _shuffled_parts(rows.size, nfold, seed)
    return KFold(n_splits=nfold).split(rows)


def _shuffled_parts(n_samples: int, nfold: int, seed: int) -> Iterator[tuple[AnyArray, AnyArray]]:
    parts = np.array_split(np.random.RandomState(seed).permutation(n_samples), nfold)
    for k in range(nfold):
        yield np.concatenate([part for i, part in enumerate(parts) if i != k]), parts[k]


def _fold_trainer(
    params: TrainingParams,
    data: lgb.Dataset,
    train_rows: AnyArray,
    valid_rows: AnyArray,
    fpreproc: Any,
    past: Past,
) -> Run:
    train_set, valid_set = data.subset(sorted(train_rows)), data.subset(sorted(valid_rows))
    if fpreproc is not None:
        train_set, valid_set, changed = fpreproc(train_set, valid_set, dict(params.stock))
        n_rounds = params.given["num_iterations"]
        params = TrainingParams.check(changed, params.options, count_classes(changed, train_set), n_rounds)
    booster, _ = make_booster(params, train_set, [train_set, valid_set], ["train", "valid"], get_predictor(data))
    return make_run(params, booster, past)


def _run(
    trainers: list[Run],
    n_rounds: int,
    feval: list[EvalFunction],
    callbacks: list[Callback] | None,
    with_train: bool,
) -> tuple[dict[str, Any], int]:
    """Do the rounds of all folds side by side; returns the history and the best round (0 without early stopping)."""
    before, after = sorted_callbacks(callbacks, trainers[0].params)
    boosters = lgb.CVBooster()
    boosters.boosters = [trainer.booster for trainer in trainers]
    params = dict(trainers[0].params.stock)
    history: dict[str, list[float]] = {}
    for iteration in range(n_rounds):
        for function in before:
            function(lgb_callback.CallbackEnv(boosters, params, iteration, 0, n_rounds, None))
        for trainer in trainers:
            trainer.boost_round()
        averages = _averages([trainer.evaluate(feval, with_train=with_train) for trainer in trainers])
        for data_name, metric_name, mean, _, deviation in averages:
            history.setdefault(f"{data_name} {metric_name}-mean", []).append(mean)
            history.setdefault(f"{data_name} {metric_name}-stdv", []).append(deviation)
        results = [eval_result(*average) for average in averages]
        try:
            for function in after:
                function(lgb_callback.CallbackEnv(boosters, params, iteration, 0, n_rounds, results))
        except lgb_callback.EarlyStopException as stop:
            best = stop.best_iteration + 1
            return {name: values[:best] for name, values in history.items()}, best
    return dict(history), 0


def _averages(folds: list[list[Any]]) -> list[tuple[str, str, float, bool, float]]:
    """Average the results of all folds: data set, metric, mean, whether it is maximised, standard deviation."""
    averages = []
    for results in zip(*folds, strict=True):
        data_name, metric_name, _, maximize = tuple(results[0])[:4]
        values = [tuple(result)[2] for result in results]
        averages.append((data_name, metric_name, float(np.mean(values)), maximize, float(np.std(values))))
    return averages
