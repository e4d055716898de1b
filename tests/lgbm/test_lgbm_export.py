"""Native models as stock LightGBM models, and the text format."""

import lightgbm as lgb
import numpy as np
import pytest

import abc_plugins.lgbm as abc_lgbm
from abc_plugins import ABCBoostClassifier
from abc_plugins.core.model.ensemble import LEAF, Tree, TreeEnsemble
from abc_plugins.core.runtime.parallel import Workers
from abc_plugins.core.schedule import CLASSIC
from abc_plugins.lgbm import export, model_info
from abc_plugins.lgbm.text import NO_TREE, is_stump, negated, read_model, scaled, write_model

from .conftest import make_data


def hand_made_ensemble():
    def tree(plus, minus, values, missing_left=True):
        """x1 <= 0.5: values[0]; else x0 <= -1: values[1]; else values[2]."""
        return Tree(
            plus,
            minus,
            feature=np.array([1, LEAF, 0, LEAF, LEAF], dtype=np.int32),
            threshold=np.array([0.5, 0, -1.0, 0, 0]),
            missing_left=np.array([missing_left, False, not missing_left, False, False]),
            left=np.array([1, 0, 3, 0, 0], dtype=np.int32),
            right=np.array([2, 0, 4, 0, 0], dtype=np.int32),
            value=np.array([0.0, values[0], 0.0, values[1], values[2]]),
            gain=np.array([3.0, 0, 1.5, 0, 0]),
            weight=np.array([10.0, 4.0, 6.0, 0.25, 5.75]),
        )

    ensemble = TreeEnsemble(n_classes=3, n_features=2)
    ensemble.append_round([tree(k, CLASSIC, [0.1 * k, -0.2, 1 / 3]) for k in range(3)])
    ensemble.append_round([tree(0, 2, [0.5, -0.25, 1e-17]), tree(1, 2, [-0.7, 0.2, 0.9], missing_left=False)])
    ensemble.append_round([])
    ensemble.append_round([tree(1, 0, [0.3, 0.3, -1.1]), tree(2, 0, [-0.2, 0.0, 0.4])])
    return ensemble


def raw_scores(ensemble, X, n_rounds=None):
    with Workers(1) as workers:
        return ensemble.raw_scores(X, workers, n_rounds)


@pytest.mark.parametrize("layout", ["compact", "rounds"])
def test_hand_made_trees(layout):
    ensemble = hand_made_ensemble()
    X = np.array([[-2.0, 1.0], [0.0, 1.0], [0.0, 0.5], [np.nan, 1.0], [np.nan, np.nan], [0.0, np.nan], [np.inf, 2.0]])
    booster = export(ensemble, layout=layout)
    np.testing.assert_allclose(booster.predict(X, raw_score=True), raw_scores(ensemble, X), rtol=0, atol=1e-15)
    info = model_info(booster)
    assert info["base_classes"] == [-1, 2, -1, 0]
    assert info["split_importance"] == [7.0, 7.0]
    assert info["gain_importance"] == [10.5, 21.0]
    assert booster.feature_importance().tolist() == [11, 11]  # LightGBM counts negated copies, too
    if layout == "rounds":
        assert info["round_iterations"] == {1: 1, 2: 3, 3: 3, 4: 5}
        for m, end in info["round_iterations"].items():
            expected = raw_scores(ensemble, X, m)
            np.testing.assert_allclose(booster.predict(X, raw_score=True, num_iteration=end), expected, atol=1e-15)
    contributions = booster.predict(X, pred_contrib=True).reshape(len(X), 3, 3)
    np.testing.assert_allclose(contributions.sum(axis=2), raw_scores(ensemble, X), atol=1e-12)


@pytest.mark.parametrize("method", ["abcrobustlogit", "robustlogit", "abcmart"])
def test_native_classifier(method, tmp_path):
    X, y = make_data()
    X[::9, 1] = np.nan
    labels = np.array(list("edcba"))[y]
    model = ABCBoostClassifier(method=method, n_estimators=15, num_leaves=6, gap=1, warmup=3, n_jobs=1).fit(X, labels)
    booster = export(model, tmp_path / "native.txt")
    np.testing.assert_allclose(booster.predict(X), model.predict_proba(X), rtol=0, atol=1e-12)
    from_file = lgb.Booster(model_file=tmp_path / "native.txt")
    np.testing.assert_allclose(from_file.predict(X), model.predict_proba(X), rtol=0, atol=1e-12)
    assert model_info(booster)["base_classes"] == model.base_classes_.tolist()
    assert np.argmax(model_info(booster)["gain_importance"]) == np.argmax(model.feature_importances_)


def test_native_classifier_after_early_stopping():
    X, y = make_data()
    X_valid, y_valid = make_data(200, seed=1)
    model = ABCBoostClassifier(n_estimators=200, learning_rate=0.4, num_leaves=6, early_stopping_rounds=4, n_jobs=1)
    model.fit(X, y, eval_set=[(X_valid, y_valid)])
    assert model.best_iteration_ < len(model.base_classes_)
    np.testing.assert_allclose(export(model).predict(X_valid), model.predict_proba(X_valid), atol=1e-12)
    first = export(model, n_rounds=3).predict(X_valid)
    np.testing.assert_allclose(first, list(model.staged_predict_proba(X_valid))[2], atol=1e-12)


def test_native_two_classes_and_feature_names():
    pd = pytest.importorskip("pandas")
    X, y = make_data(n_classes=2)
    frame = pd.DataFrame(X, columns=[f"my feature: {j}" for j in range(X.shape[1])])
    model = ABCBoostClassifier(n_estimators=5, num_leaves=6, n_jobs=1).fit(frame, y)
    booster = export(model)
    np.testing.assert_allclose(booster.predict(X), model.predict_proba(frame), atol=1e-12)
    assert booster.feature_name() == [f"my_feature__{j}" for j in range(X.shape[1])]


def test_an_exported_native_model_can_be_continued_by_lightgbm():
    X, y = make_data()
    model = ABCBoostClassifier(n_estimators=5, num_leaves=6, gap=1, warmup=2, n_jobs=1).fit(X, y)
    booster = export(model)
    params = {"objective": "multiclass", "num_class": 5, "verbosity": -1, "num_threads": 1}
    more = lgb.train(params, lgb.Dataset(X, y), 2, init_model=booster)
    assert more.current_iteration() == booster.current_iteration() + 2
    further = abc_lgbm.train(params, lgb.Dataset(X, y), 2, init_model=booster, gap=1, warmup=2)
    assert model_info(further)["base_classes"][:5] == model.base_classes_.tolist()


def test_large_exports_warn_with_the_slot_count(monkeypatch):
    monkeypatch.setattr("abc_plugins.lgbm.exporting.MANY_SLOTS", 15)
    with pytest.warns(UserWarning, match=r'has 15 tree slots for 7 grown trees.*layout="compact" needs fewer'):
        export(hand_made_ensemble(), layout="rounds")
    monkeypatch.setattr("abc_plugins.lgbm.exporting.MANY_SLOTS", 12)
    with pytest.warns(UserWarning, match="has 12 tree slots for 7 grown trees"):
        export(hand_made_ensemble())


def test_wrong_models_are_refused():
    with pytest.raises(TypeError, match="model must be a fitted ABCBoostClassifier or a TreeEnsemble"):
        export(ABCBoostClassifier())
    with pytest.raises(ValueError, match="n_rounds must be a whole number from 1 to 4"):
        export(hand_made_ensemble(), n_rounds=5)
    with pytest.raises(ValueError, match="layout must be one of"):
        export(hand_made_ensemble(), layout="other")


def test_text_round_trip(params):
    """A stock multiclass model, taken apart and written again, is the same model."""
    X, y = make_data()
    stock = lgb.train({**params, "objective": "multiclass"}, lgb.Dataset(X, y), 4)
    frame, trees = read_model(stock.model_to_string())
    assert len(trees) == 4 * 5
    again = lgb.Booster(model_str=write_model(frame, trees, 5))
    assert np.array_equal(again.predict(X), stock.predict(X))
    for change, factor in ((negated, -1.0), (lambda tree: scaled(tree, 0.25), 0.25)):
        changed = lgb.Booster(model_str=write_model(frame, [change(tree) for tree in trees], 5))
        np.testing.assert_allclose(
            changed.predict(X, raw_score=True), factor * stock.predict(X, raw_score=True), rtol=1e-15
        )
    assert negated(negated(trees[0])) == trees[0]
    assert is_stump(NO_TREE)
    assert not is_stump(trees[0])
    nothing = lgb.Booster(model_str=write_model(frame, [NO_TREE] * 5, 5))
    np.testing.assert_allclose(nothing.predict(X), 0.2)


def test_importances_count_each_tree_once(data, params):
    X, y = data
    booster = abc_lgbm.train(params, lgb.Dataset(X, y), 6, search=1, gap=0, warmup=0)
    info = model_info(booster)
    assert (2 * np.array(info["split_importance"])).tolist() == booster.feature_importance("split").tolist()
    np.testing.assert_allclose(2 * np.array(info["gain_importance"]), booster.feature_importance("gain"), rtol=1e-5)
