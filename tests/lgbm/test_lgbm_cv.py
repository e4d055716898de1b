"""abc_plugins.lgbm.cv."""

import pickle

import lightgbm as lgb
import numpy as np
import pytest
from sklearn.model_selection import KFold, ShuffleSplit, StratifiedKFold

import abc_plugins.lgbm as abc_lgbm

from .conftest import make_data

OPTIONS = {"method": "abcrobustlogit", "search": 2, "gap": 1, "warmup": 2}


def test_folds_are_runs_of_their_own(data, params):
    X, y = data
    splitter = KFold(3, shuffle=True, random_state=0)
    results = abc_lgbm.cv(params, lgb.Dataset(X, y), 6, folds=splitter, return_cvbooster=True, **OPTIONS)
    losses = []
    full = lgb.Dataset(
        X, y, params={"verbosity": -1, "min_data_in_leaf": 5}
    ).construct()  # folds share the bins of the whole data, as in LightGBM
    for (train_rows, valid_rows), booster in zip(splitter.split(X), results["cvbooster"].boosters, strict=True):
        evals = {}
        alone = abc_lgbm.train(
            params,
            full.subset(sorted(train_rows)),
            6,
            valid_sets=[full.subset(sorted(valid_rows))],
            callbacks=[lgb.record_evaluation(evals)],
            **OPTIONS,
        )
        np.testing.assert_allclose(booster.predict(X), alone.predict(X), atol=1e-12)
        losses.append(evals["valid_0"]["multi_logloss"])
    np.testing.assert_allclose(results["valid multi_logloss-mean"], np.mean(losses, axis=0))
    np.testing.assert_allclose(results["valid multi_logloss-stdv"], np.std(losses, axis=0))


@pytest.mark.parametrize(
    "arguments",
    [
        {"nfold": 3},
        {"nfold": 3, "stratified": False},
        {"nfold": 3, "stratified": False, "shuffle": False},
        {"nfold": 3, "seed": 4},
        {"folds": StratifiedKFold(3)},
        {"folds": list(ShuffleSplit(2, random_state=1).split(np.empty(600)))},
    ],
    ids=str,
)
def test_folds_are_lightgbms(data, params, arguments):
    """With classic rounds alone the results are those of lightgbm.cv."""
    X, y = data
    metrics = ["multi_error", "multi_logloss"]
    ours = abc_lgbm.cv(
        params,
        lgb.Dataset(X, y),
        4,
        metrics=metrics,
        eval_train_metric=True,
        method="abcrobustlogit",
        warmup=4,
        leaf_clip=None,
        **arguments,
    )
    stock = lgb.cv(
        {**params, "objective": "multiclass", "boost_from_average": False},
        lgb.Dataset(X, y),
        4,
        metrics=metrics,
        eval_train_metric=True,
        **arguments,
    )
    assert sorted(ours) == sorted(stock)
    for name, values in stock.items():
        np.testing.assert_allclose(ours[name], values, atol=2e-3, err_msg=name)


def test_early_stopping(data, params):
    X, y = data
    results = abc_lgbm.cv(
        {**params, "learning_rate": 0.4},
        lgb.Dataset(X, y),
        80,
        nfold=3,
        callbacks=[lgb.early_stopping(4, verbose=False)],
        return_cvbooster=True,
        **OPTIONS,
    )
    boosters = results.pop("cvbooster")
    best = boosters.best_iteration
    losses = results["valid multi_logloss-mean"]
    assert len(losses) == best < 80
    assert losses[-1] == min(losses)
    for booster in boosters.boosters:
        assert booster.abc_info["best_round"] == best


@pytest.mark.parametrize("options", [{}, OPTIONS])
@pytest.mark.parametrize("continues", [False, True])
def test_the_cvbooster_counts_rounds(data, params, tmp_path, options, continues):
    X, y = data
    start = abc_lgbm.train(params, lgb.Dataset(X, y), 3, **options) if continues else None
    results = abc_lgbm.cv(
        {**params, "learning_rate": 0.4},
        lgb.Dataset(X, y, free_raw_data=False),
        80,
        nfold=3,
        init_model=start,
        callbacks=[lgb.early_stopping(4, verbose=False)],
        return_cvbooster=True,
        **options,
    )
    boosters = results["cvbooster"]
    assert boosters.best_iteration == len(results["valid multi_logloss-mean"]) + 3 * continues
    boosters.save_model(tmp_path / "cv.json")
    best = [booster.predict(X) for booster in boosters.boosters]
    for found in (
        boosters.predict(X),
        boosters.predict(X, num_iteration=boosters.best_iteration),
        boosters.predict(X, 0, boosters.best_iteration),
        pickle.loads(pickle.dumps(boosters)).predict(X, num_iteration=boosters.best_iteration),
        lgb.CVBooster(tmp_path / "cv.json").predict(X),
    ):
        np.testing.assert_allclose(found, best, atol=1e-12)
    everything = [booster.predict(X, num_iteration=-1) for booster in boosters.boosters]
    np.testing.assert_array_equal(boosters.predict(X, num_iteration=1000), everything)
    assert np.abs(np.array(everything) - best).max() > 1e-6
    counts = boosters.feature_importance(iteration=boosters.best_iteration)
    own = [booster.feature_importance(iteration=booster.best_iteration) for booster in boosters.boosters]
    np.testing.assert_array_equal(counts, own)
    assert len(boosters.num_trees()) == 3


def test_weights_callbacks_fpreproc_and_feval(data, params):
    X, y = data
    evals, seen = {}, []

    def fpreproc(train_set, valid_set, fold_params):
        seen.append(train_set.construct().num_data())
        return train_set, valid_set, {**fold_params, "learning_rate": 0.2}

    def constant(probabilities, _data):
        assert probabilities.shape[1] == 5
        return "constant", 3.0, True

    results = abc_lgbm.cv(
        params,
        lgb.Dataset(X, y, weight=np.linspace(0.5, 2, 600)),
        4,
        nfold=2,
        fpreproc=fpreproc,
        feval=constant,
        callbacks=[lgb.record_evaluation(evals), lgb.reset_parameter(learning_rate=lambda _m: 0.3)],
        **OPTIONS,
    )
    assert seen == [300, 300]
    assert results["valid constant-mean"] == [3.0] * 4
    assert evals["valid"]["multi_logloss-mean"] == results["valid multi_logloss-mean"]
    faster = abc_lgbm.cv(
        {**params, "learning_rate": 0.3}, lgb.Dataset(X, y, weight=np.linspace(0.5, 2, 600)), 4, nfold=2, **OPTIONS
    )
    np.testing.assert_allclose(results["valid multi_logloss-mean"], faster["valid multi_logloss-mean"], atol=1e-12)


def test_continued_from_a_model(data, params):
    X, y = data
    start = lgb.train({**params, "objective": "multiclass"}, lgb.Dataset(X, y), 3)
    results = abc_lgbm.cv(
        params, lgb.Dataset(X, y, free_raw_data=False), 3, nfold=2, init_model=start, return_cvbooster=True, **OPTIONS
    )
    for booster in results["cvbooster"].boosters:
        assert booster.abc_info["base_classes"][:3] == [-1, -1, -1]
        np.testing.assert_allclose(booster.predict(X, num_iteration=3), start.predict(X), atol=1e-12)


def test_two_classes_are_lightgbms(params):
    X, y = make_data(n_classes=2)
    named = {name: value for name, value in params.items() if name != "num_class"}
    ours = abc_lgbm.cv({**named, "objective": "binary"}, lgb.Dataset(X, y), 3, nfold=2)
    stock = lgb.cv({**named, "objective": "binary"}, lgb.Dataset(X, y), 3, nfold=2)
    assert ours == stock
