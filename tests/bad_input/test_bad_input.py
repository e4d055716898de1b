"""What cannot be right is refused before any work: by every estimator, every function of the adapters, and tuning."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from estimators import DIRECTIONAL, ESTIMATORS, FRAME, ONES, N, X, Y, native, on_lightgbm, on_xgboost, replaced

from abc_plugins import ABCBoostClassifier

lightgbm = pytest.importorskip("lightgbm")
xgboost = pytest.importorskip("xgboost")
pandas = pytest.importorskip("pandas")

import abc_plugins.lgbm as abc_lgbm  # noqa: E402
import abc_plugins.xgb as abc_xgb  # noqa: E402
import tuning  # noqa: E402

# ------------------------------------------------------------------------------- fit of all three estimators

FIT: dict[str, tuple[tuple[Any, ...], dict[str, Any], str]] = {
    "no rows": ((X[:0], Y[:0]), {}, r"X\b.*0 sample"),
    "no columns": ((X[:, :0], Y), {}, r"X\b.*0 feature"),
    "one dimension": ((X[:, 0], Y), {}, r"X\b.*1D array"),
    "three dimensions": ((X[:, :, None], Y), {}, r"X\b.*(dim 3|3D array)"),
    "ragged": (([[1.0, 2.0], [1.0]] * 24, Y), {}, "X must be a table whose rows all have the same length"),
    "complex": ((X + 1j, Y), {}, r"(X\b.*Complex|Complex.*\bX\b)"),
    "no labels": ((X, None), {}, "y is None"),
    "missing label": ((X, replaced(Y, None, object)), {}, r"\by contains"),
    "NaN label": ((X, replaced(Y, np.nan)), {}, r"\by contains"),
    "fewer labels": ((X, Y[1:]), {}, r"number(s)? of samples.*47"),
    "negative weight": ((X, Y), {"sample_weight": replaced(ONES, -1)}, r"sample_weight\[0\] must be 0 or larger"),
    "NaN weight": ((X, Y), {"sample_weight": replaced(ONES, np.nan)}, "sample_weight contains NaN"),
    "infinite weight": ((X, Y), {"sample_weight": replaced(ONES, np.inf)}, "sample_weight contains inf"),
    "weights all zero": ((X, Y), {"sample_weight": 0 * ONES}, "sample_weight must have at least one weight"),
    "fewer weights": ((X, Y), {"sample_weight": ONES[1:]}, "sample_weight must have one weight for each of the 48"),
    "weights of two dimensions": ((X, Y), {"sample_weight": np.ones((N, 2))}, r"sample_weight must .*got shape"),
    "weights of text": ((X, Y), {"sample_weight": ["a"] * N}, "sample_weight: could not convert string"),
}


@pytest.mark.parametrize("engine", ESTIMATORS)
@pytest.mark.parametrize("kind", FIT)
def test_data_that_no_estimator_takes(engine: str, kind: str) -> None:
    arguments, options, message = FIT[kind]
    with pytest.raises((ValueError, TypeError), match=re.compile(message, re.DOTALL)):
        ESTIMATORS[engine]().fit(*arguments, **options)


SCHEDULE: dict[str, tuple[Any, str]] = {
    "search 0": ({"search": 0}, "search must be a whole number from 1"),
    "search above K": ({"search": 4}, r"search must be .* up to the number of classes \(3\)"),
    "search True": ({"search": True}, "search must be .*got True"),
    "search text": ({"search": "some"}, 'search must be .*"all"; got'),
    "gap negative": ({"gap": -1}, "gap must be a whole number of at least 0; got -1"),
    "gap True": ({"gap": True}, "gap must be a whole number of at least 0; got True"),
    "gap fraction": ({"gap": 1.5}, "gap must be a whole number"),
    "warmup negative": ({"warmup": -1}, "warmup must be a whole number of at least 0"),
    "warmup True": ({"warmup": True}, "warmup must be a whole number of at least 0; got True"),
    "warmup None": ({"warmup": None}, "warmup must be a whole number of at least 0; got None"),
    "leaf_clip zero": ({"leaf_clip": 0}, "leaf_clip must be a number larger than 0, or None"),
    "leaf_clip True": ({"leaf_clip": True}, "leaf_clip must be a number larger than 0, or None.*got True"),
    "leaf_values": ({"leaf_values": "best"}, "leaf_values must be one of 'paper', 'sequential'; got 'best'"),
    "guard": ({"guard": 1}, "guard must be True or False; got 1"),
}


@pytest.mark.parametrize("engine", ESTIMATORS)
@pytest.mark.parametrize("kind", SCHEDULE)
def test_parameters_of_the_schedule(engine: str, kind: str) -> None:
    options, message = SCHEDULE[kind]
    if engine in DIRECTIONAL and kind == "search above K":  # there are any number of directions
        assert ESTIMATORS[engine](**options).fit(X, Y).n_classes_ == 3
        return
    if "native" not in engine and kind == "warmup None":  # the adapters' default, which stands for that of the method
        own = 10 if "bases" in engine else 0
        given = ESTIMATORS[engine](warmup=own).fit(X, Y).predict_proba(X)
        assert np.array_equal(ESTIMATORS[engine](**options).fit(X, Y).predict_proba(X), given)
        return
    with pytest.raises((ValueError, TypeError), match=message):
        ESTIMATORS[engine](**options).fit(X, Y)


# ------------------------------------------------------------------------------------------------- one by one


def lgb_data(label: Any = Y, **options: Any) -> Any:
    return lightgbm.Dataset(X, label, **options)


def xgb_data(label: Any = Y, **options: Any) -> Any:
    return xgboost.DMatrix(X, label, **options)


def train_lgb(params: Any = None, data: Any = None, rounds: Any = 2, **options: Any) -> None:
    given = {"num_class": 3, "verbosity": -1, "num_threads": 1} | (params or {}) if params in (None, {}) or isinstance(
        params, dict
    ) else params  # fmt: skip
    abc_lgbm.train(given, lgb_data() if data is None else data, rounds, **options)


def train_xgb(params: Any = None, data: Any = None, rounds: Any = 2, **options: Any) -> None:
    given = {"num_class": 3, "nthread": 1} | (params or {}) if params is None or isinstance(params, dict) else params
    abc_xgb.train(given, xgb_data() if data is None else data, rounds, verbose_eval=False, **options)


def tune(*data: Any, **options: Any) -> None:
    tuning.tune(*(data or (X, Y)), **{"n_trials": 1, "cv": 2, "max_rounds": 2, "progress": False, **options})


OTHER: dict[str, tuple[Callable[[], Any], str]] = {
    # the native estimator
    "objects": (
        lambda: native(categorical_features=None).fit(np.full((N, 2), "a", dtype=object), Y),
        "X: could not convert string to float",
    ),
    "text": (
        lambda: native(categorical_features=None).fit([["a"]] * N, Y),
        "X has the dtype <U1, but features must be numbers",
    ),
    "duplicate names": (
        lambda: native().fit(pandas.DataFrame(X, columns=["a", "a", "b"]), Y),
        "X must have unique column names",
    ),
    "labels of two dimensions": (lambda: native().fit(X, np.c_[Y, Y]), "y should be a 1d array"),
    "continuous labels": (lambda: native().fit(X, Y + 0.5), "continuous. y has numbers with a fraction"),
    "one class": (lambda: native().fit(X, 0 * Y), "y must have at least two classes; got one class: 0"),
    "unknown parameter": (lambda: ABCBoostClassifier(depth=3), "unexpected keyword argument 'depth'"),
    "unknown set_params": (lambda: native().set_params(depth=3), "Invalid parameter 'depth'"),
    "n_estimators True": (lambda: native(n_estimators=True).fit(X, Y), "n_estimators must be .*got True"),
    "num_leaves True": (lambda: native(num_leaves=True).fit(X, Y), "num_leaves must be .*got True"),
    "max_bins True": (lambda: native(max_bins=True).fit(X, Y), "max_bins must be .*got True"),
    "n_jobs True": (lambda: native(n_jobs=True).fit(X, Y), "n_jobs must be .*got True"),
    "random_state True": (lambda: native(random_state=True).fit(X, Y), "random_state must be .*got True"),
    "early_stopping_rounds True": (
        lambda: native(early_stopping_rounds=True).fit(X, Y),
        "early_stopping_rounds must be .*got True",
    ),
    "learning_rate True": (lambda: native(learning_rate=True).fit(X, Y), "learning_rate must be .*got True"),
    "subsample list": (lambda: native(subsample=[1]).fit(X, Y), r"subsample must be .*got \[1\]"),
    "class_weight negative": (lambda: native(class_weight={0: -1}).fit(X, Y), r"class_weight\[0\] must be .*got -1"),
    "class_weight unknown": (lambda: native(class_weight={"u": 1}).fit(X, Y), "class_weight must be .*got 'u'"),
    "class only in validation": (
        lambda: native().fit(X[Y < 2], Y[Y < 2], eval_set=[(X, Y)]),
        r"y of eval_set\[0\] has labels that are not among the classes of the training data: 2",
    ),
    "columns of a validation set": (lambda: native().fit(X, Y, eval_set=[(X[:, :2], Y)]), r"eval_set\[0\].*2 features"),
    "weights of a validation set": (
        lambda: native().fit(X, Y, eval_set=[(X, Y, ONES[1:])]),
        r"sample_weight must have one weight for each of the 48 samples",
    ),
    "columns at predict": (lambda: native().fit(X, Y).predict(X[:, :2]), "X has 2 features, but ABCBoostClassifier is"),
    "order at predict": (lambda: native().fit(FRAME, Y).predict(FRAME[["b", "a", "c"]]), "in the same order"),
    "names at predict": (
        lambda: native().fit(FRAME, Y).predict(FRAME.rename(columns={"a": "z"})),
        "unseen at fit time:\n- z\n.*now missing:\n- a",
    ),
    "no rows at predict": (lambda: native().fit(X, Y).predict(X[:0]), r"X: .*0 sample\(s\)"),
    # the LightGBM adapter
    "lgb labels of two dimensions": (lambda: on_lightgbm().fit(X, np.c_[Y, Y]), "y should be a 1d array"),
    "lgb params": (lambda: train_lgb([1]), "params must be a dict, or None; got 'list'"),
    "lgb train_set": (lambda: train_lgb(data=X), r"train_set must be a lightgbm\.Dataset"),
    "lgb valid_sets": (lambda: train_lgb(valid_sets=[X]), r"valid_sets must be lightgbm\.Dataset"),
    "lgb rounds True": (lambda: train_lgb(rounds=True), "num_boost_round must be .*got True"),
    "lgb rounds 0": (lambda: train_lgb(rounds=0), "num_boost_round must be .*got 0"),
    "lgb no label": (lambda: train_lgb(data=lgb_data(None)), "label must be a class index .*got None"),
    "lgb NaN label": (lambda: train_lgb(data=lgb_data(replaced(Y, np.nan))), "label must be a class index .*got 'NaN'"),
    "lgb negative label": (lambda: train_lgb(data=lgb_data(Y - 1)), "label must be whole numbers from 0 to .*got -1"),
    "lgb label of validation": (lambda: train_lgb(valid_sets=[lgb_data(Y + 1)]), "label must be whole .*got 3"),
    "lgb negative weight": (
        lambda: train_lgb(data=lgb_data(weight=replaced(ONES, -1))),
        "weight must be finite and not negative.*got .*-1",
    ),
    "lgb NaN weight": (lambda: train_lgb(data=lgb_data(weight=replaced(ONES, np.nan))), "weight must be .*got .*nan"),
    "lgb weights all zero": (lambda: train_lgb(data=lgb_data(weight=0 * ONES)), "weight must be .*got only zeros"),
    "lgb num_class": (lambda: train_lgb({"num_class": True}), "num_class must be a whole number.*got True"),
    "lgb num_machines": (lambda: train_lgb({"num_machines": "many"}), "num_machines must be .*got 'many'"),
    "lgb callbacks": (lambda: train_lgb(callbacks=[3]), r"callbacks\[0\] must be a function.*got 3"),
    "lgb feval": (lambda: train_lgb(feval=3), "feval must be a function.*got 3"),
    "lgb init_model": (lambda: train_lgb(init_model=3), "init_model must be a path.*got 3"),
    "lgb unknown argument": (lambda: train_lgb(serch=3), "unexpected keyword argument 'serch'"),
    "lgb class only in validation": (
        lambda: on_lightgbm().fit(X, Y, eval_set=[(X, Y + 1)]),
        "y contains previously unseen labels",
    ),
    "lgb names at predict": (
        lambda: on_lightgbm().fit(FRAME, Y).predict(FRAME[["b", "a", "c"]], validate_features=True),
        "Expected 'a' at position 0 but found 'b'",
    ),
    # the XGBoost adapter
    "xgb byte order": (lambda: on_xgboost().fit(X.astype(">f4"), Y), "X must be in the byte order of this machine"),
    "xgb params": (lambda: train_xgb([1]), "params must be a dict; got 'list'"),
    "xgb dtrain": (lambda: train_xgb(data=X), r"dtrain must be an xgboost\.DMatrix; got 'ndarray'"),
    "xgb evals": (lambda: train_xgb(evals=3), "evals must be a list of .*got 'int'"),
    "xgb evals of arrays": (lambda: train_xgb(evals=[(X, "valid")]), "evals must be a list of"),
    "xgb rounds True": (lambda: train_xgb(rounds=True), "num_boost_round must be .*got True"),
    "xgb rounds negative": (lambda: train_xgb(rounds=-1), "num_boost_round must be .*got -1"),
    "xgb no label": (lambda: train_xgb(data=xgb_data(None)), "label must be a class index .*got no label"),
    "xgb negative label": (lambda: train_xgb(data=xgb_data(Y - 1)), "label must be a class index from 0 to .*-1"),
    "xgb weights all zero": (lambda: train_xgb(data=xgb_data(weight=0 * ONES)), "weight must be .*got only zeros"),
    "xgb negative weight": (lambda: train_xgb(data=xgb_data(weight=replaced(ONES, -1))), "Weights must be positive"),
    "xgb num_class": (lambda: train_xgb({"num_class": "few"}), "num_class expect int but value='few'"),
    "xgb unknown argument": (lambda: train_xgb(serch=3), "unexpected keyword argument 'serch'"),
    "xgb names at predict": (
        lambda: on_xgboost().fit(FRAME, Y).predict(FRAME[["b", "a", "c"]]),
        "feature_names mismatch",
    ),
    "xgb columns at predict": (lambda: on_xgboost().fit(X, Y).predict(X[:, :2]), "Feature shape mismatch"),
    # tuning
    "tune NaN label": (lambda: tune(X, replaced(Y, np.nan)), "y contains NaN"),
    "tune lengths": (lambda: tune(X, Y[1:]), "X and y must have the same number of samples"),
    "tune weights": (lambda: tune(sample_weight=-ONES), r"sample_weight\[0\] must be 0 or larger"),
    "tune method": (lambda: tune(fixed={"method": "mast"}), "method must be one of 'directional'.*got 'mast'"),
    "tune engine": (lambda: tune(engine=3), "engine must be one of 'native', 'lgbm', 'xgb'; got 3"),
    "tune n_trials": (lambda: tune(n_trials=True), "n_trials must be a whole number of at least 1; got True"),
    "tune timeout": (lambda: tune(timeout="x"), "timeout must be a number larger than 0; got 'x'"),
    "tune cv True": (lambda: tune(cv=True), "cv must be .*got True"),
    "tune cv beyond the rows": (lambda: tune(cv=100), "cv must be a whole number from 2 to 48; got 100"),
    "tune seed": (lambda: tune(seed=-1), "seed must be a whole number of at least 0"),
    "tune n_jobs": (lambda: tune(n_jobs=0), "n_jobs must be a whole number of at least 1"),
    "tune max_rounds": (lambda: tune(max_rounds=0), "max_rounds must be a whole number of at least 1"),
    "tune fixed": (lambda: tune(fixed={"gap": -1}), "gap must be a whole number of at least 0"),
    "tune fixed unknown": (lambda: tune(fixed={"depth": 1}), "fixed must be given by names of parameters of the"),
    "tune space": (lambda: tune(space={"gap": 3}), r"space\['gap'\] must be an optuna distribution"),
    "tune callbacks": (lambda: tune(callbacks=3), "callbacks must be a list of functions"),
    "tune ensemble": (lambda: tune(ensemble=-1), "ensemble must be a whole number of at least 0; got -1"),
    "tune repeats": (lambda: tune(repeats=0), "repeats must be a whole number of at least 1; got 0"),
    "tune storage": (lambda: tune(storage="/nowhere/study.db"), "storage must be a file in a folder that exists"),
}


@pytest.mark.parametrize("kind", OTHER)
def test_bad_input_is_refused_by_name(kind: str) -> None:
    call, message = OTHER[kind]
    errors = (ValueError, TypeError, lightgbm.basic.LightGBMError, xgboost.core.XGBoostError)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        with pytest.raises(errors, match=re.compile(message, re.DOTALL)):
            call()


def test_there_are_sixty_and_more() -> None:
    assert len(ESTIMATORS) * (len(FIT) + len(SCHEDULE)) + len(OTHER) >= 60
