"""ABCLGBMClassifier: LGBMClassifier's interface, our training."""

import copy
import pickle
import warnings

import joblib
import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import abc_plugins.lgbm as abc_lgbm
from abc_plugins.lgbm import ABCLGBMClassifier
from abc_plugins.lgbm.params import ABCOptions

from .conftest import make_data

LABELS = np.array(["e", "d", "c", "b", "a"])


def make_classifier(**params):
    schedule = {"method": "abcrobustlogit", "gap": 1, "warmup": 2}
    settings = {"n_estimators": 10, "num_leaves": 6, "min_child_samples": 5, **schedule}
    return ABCLGBMClassifier(**{**settings, "n_jobs": 1, "verbosity": -1, **params})


def test_it_is_train(data):
    X, y = data
    model = make_classifier().fit(X, LABELS[y])
    assert model.classes_.tolist() == sorted(LABELS)
    params = {"num_leaves": 6, "min_data_in_leaf": 5, "num_threads": 1, "verbosity": -1}
    booster = abc_lgbm.train(params, lgb.Dataset(X, 4 - y), 10, method="abcrobustlogit", gap=1, warmup=2)
    np.testing.assert_allclose(model.predict_proba(X), booster.predict(X), atol=1e-12)
    assert (model.predict(X) == model.classes_[booster.predict(X).argmax(axis=1)]).all()
    assert model.base_classes_.tolist() == booster.abc_info["base_classes"]
    assert model.feature_importances_.tolist() == booster.abc_info["split_importance"]
    assert model.n_estimators_ == model.n_iter_ == 10
    assert model.best_iteration_ == 0
    assert isinstance(model.booster_, lgb.Booster)
    assert model.objective_ == "multiclass"


def test_eval_set_and_early_stopping(data):
    X, y = data
    X_valid, y_valid = make_data(300, seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # LightGBM 4.7 prefers eval_X and eval_y
        model = make_classifier(n_estimators=200, learning_rate=0.3).fit(
            X,
            LABELS[y],
            eval_set=[(X, LABELS[y]), (X_valid, LABELS[y_valid])],
            eval_names=["fit", "held out"],
            eval_metric=["multi_error", lambda _y, p: ("mean", float(p.mean()), False)],
            callbacks=[lgb.early_stopping(5, first_metric_only=True, verbose=False)],
        )
    assert list(model.evals_result_) == ["fit", "held out"]
    assert list(model.evals_result_["held out"]) == ["multi_error", "multi_logloss", "mean"]
    best = model.best_iteration_
    assert 0 < best < len(model.evals_result_["fit"]["mean"]) < 200
    assert model.n_estimators_ == len(model.base_classes_) == best
    error = (model.predict(X_valid) != LABELS[y_valid]).mean()
    assert model.evals_result_["held out"]["multi_error"][best - 1] == pytest.approx(error)
    assert model.best_score_["held out"]["multi_error"] == pytest.approx(error)
    np.testing.assert_allclose(model.evals_result_["fit"]["mean"], 0.2)


def test_class_weight_is_sample_weight(data):
    X, y = data
    weights = {"a": 1.0, "b": 5.0, "c": 1.0, "d": 2.0, "e": 1.0}
    by_class = make_classifier(class_weight=weights).fit(X, LABELS[y])
    by_sample = make_classifier().fit(X, LABELS[y], sample_weight=[weights[label] for label in LABELS[y]])
    np.testing.assert_allclose(by_class.predict_proba(X), by_sample.predict_proba(X), atol=1e-12)
    plain = make_classifier().fit(X, LABELS[y])
    assert not np.allclose(by_class.predict_proba(X), plain.predict_proba(X))
    balanced = make_classifier(class_weight="balanced").fit(X, LABELS[y])
    assert np.isfinite(balanced.predict_proba(X)).all()


def test_two_classes_are_lgbm_classifier():
    X, y = make_data(n_classes=2)
    ours = make_classifier(importance_type="gain").fit(X, y)
    stock = lgb.LGBMClassifier(
        n_estimators=10, num_leaves=6, min_child_samples=5, n_jobs=1, verbosity=-1, importance_type="gain"
    ).fit(X, y)
    assert np.array_equal(ours.predict_proba(X), stock.predict_proba(X))
    assert np.array_equal(ours.feature_importances_, stock.feature_importances_)
    assert ours.n_estimators_ == stock.n_estimators_


def test_parameters_are_lgbm_classifiers_and_ours():
    ours, stock = ABCLGBMClassifier().get_params(), lgb.LGBMClassifier().get_params()
    assert set(ours) - set(stock) == set(ABCOptions.names())
    of_method = {"min_child_samples": None, "reg_lambda": None}  # those of the method
    assert {name: ours[name] for name in stock} == stock | of_method
    model = make_classifier(search="all", reg_lambda=2.0, bagging_seed=5)
    assert clone(model).get_params() == model.get_params()
    assert model.set_params(search=1, num_leaves=4).search == 1


def test_stock_estimators_are_left_alone(data):
    """The exchanged `train` lives in a namespace of its own."""
    X, y = data
    before = lgb.LGBMClassifier(n_estimators=3, n_jobs=1, verbosity=-1).fit(X, y).predict_proba(X)
    make_classifier().fit(X, y)
    after = lgb.LGBMClassifier(n_estimators=3, n_jobs=1, verbosity=-1).fit(X, y)
    assert np.array_equal(before, after.predict_proba(X))
    assert not hasattr(after.booster_, "abc_info")


def test_wrong_use_is_refused(data):
    X, y = data
    for params, message in (
        ({"method": "abcrobustlogit", "search": 0}, "search must be"),
        ({"boosting_type": "dart"}, "boosting must be 'gbdt' or 'goss'"),
        ({"objective": "multiclassova"}, "objective must be 'multiclass'"),
        ({"objective": lambda _, y_pred: (y_pred, y_pred)}, "belong to the softmax loss"),
    ):
        with pytest.raises(ValueError, match=message):
            make_classifier(**params).fit(X, y)
    with pytest.raises(NotFittedError):
        make_classifier().predict(X)


def test_pickle_joblib_and_copies(data, tmp_path):
    X, y = data
    model = make_classifier().fit(X, LABELS[y])
    joblib.dump(model, tmp_path / "model.joblib")
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), joblib.load(tmp_path / "model.joblib")):
        assert np.array_equal(other.predict_proba(X), model.predict_proba(X))
    booster = pickle.loads(pickle.dumps(model.booster_))
    assert booster.abc_info == model.booster_.abc_info
    assert b"abc_plugins" not in pickle.dumps(model.booster_)


def test_pipeline_and_grid_search(data):
    X, y = data
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(6)])
    frame["kind"] = np.where(X[:, 3] > 0, "up", "down")
    columns = ColumnTransformer(
        [("numbers", StandardScaler(), ["x0", "x1", "x2"]), ("kinds", OneHotEncoder(), ["kind"])]
    )
    pipeline = make_pipeline(columns, make_classifier(n_estimators=4))
    assert cross_val_score(pipeline, frame, LABELS[y], cv=2).mean() > 0.5
    grid = GridSearchCV(pipeline, {"abclgbmclassifier__search": [1, "all"], "abclgbmclassifier__gap": [0, 2]}, cv=2)
    grid.fit(frame, LABELS[y])
    assert set(grid.predict(frame)) <= set(LABELS)
    assert np.isfinite(grid.cv_results_["mean_test_score"]).all()


def test_feature_names_and_categories():
    X, y = make_data()
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(6)])
    frame["kind"] = pd.Categorical(np.where(X[:, 3] > 0, "up", "down"))
    model = make_classifier().fit(frame, LABELS[y])
    assert model.feature_names_in_.tolist() == list(frame.columns)
    assert model.predict_proba(frame).shape == (600, 5)


def test_continue_from_an_estimator(data):
    X, y = data
    first = make_classifier(n_estimators=6).fit(X, y)
    second = make_classifier(n_estimators=4).fit(X, y, init_model=first)
    whole = make_classifier(n_estimators=10).fit(X, y)
    assert second.base_classes_.tolist() == whole.base_classes_.tolist()
    np.testing.assert_allclose(second.predict_proba(X), whole.predict_proba(X), atol=1e-6)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("method", ["directional", "abcrobustlogit"])
@pytest.mark.parametrize("min_child_samples", [3, 20])  # the checks' data are so small that stock's 20 allow few splits
def test_check_estimator_has_no_failure_that_stock_does_not_have(capsys, method, min_child_samples):
    options = {"n_jobs": 1, "verbosity": -1, "min_child_samples": min_child_samples}

    def failures(estimator):
        results = check_estimator(estimator, on_fail=None, on_skip=None)
        return {result["check_name"]: result["exception"] for result in results if result["status"] == "failed"}

    ours = failures(ABCLGBMClassifier(method=method, **options))
    stock = failures(lgb.LGBMClassifier(**options))
    with capsys.disabled():
        print(f"\ncheck_estimator failures of LGBMClassifier {lgb.__version__}: {sorted(stock) or 'none'}")
        print(f"check_estimator failures of ABCLGBMClassifier: {sorted(ours) or 'none'}")
    assert set(ours) <= set(stock), {name: repr(ours[name]) for name in set(ours) - set(stock)}


def test_two_classes_take_an_objective_of_ones_own(data):
    X, y = data

    def logistic(y_true, scores):
        p = 1.0 / (1.0 + np.exp(-scores))
        return p - y_true, p * (1.0 - p)

    options = {"n_estimators": 3, "num_leaves": 4, "n_jobs": 1, "verbosity": -1, "objective": logistic}
    own, stock = (kind(**options).fit(X, y > 2) for kind in (ABCLGBMClassifier, lgb.LGBMClassifier))
    np.testing.assert_array_equal(own.predict(X, raw_score=True), stock.predict(X, raw_score=True))
