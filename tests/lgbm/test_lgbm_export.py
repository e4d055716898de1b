"""Native models as stock LightGBM models, and the text format."""

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

import abc_plugins.lgbm as abc_lgbm
from abc_plugins import ABCBoostClassifier
from abc_plugins.core.model.ensemble import LEAF, TreeEnsemble, pair_tree
from abc_plugins.core.runtime.parallel import Workers
from abc_plugins.core.runtime.values import softmax
from abc_plugins.core.schedule import CLASSIC
from abc_plugins.lgbm import export, model_info
from abc_plugins.lgbm.text import NO_TREE, is_stump, negated, read_model, scaled, shifted, write_model

from .conftest import make_data


def hand_made_ensemble():
    def tree(plus, minus, values, missing_left=True):
        """x1 <= 0.5: values[0]; else x0 <= -1: values[1]; else values[2]."""
        return pair_tree(
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


def test_start_scores_are_in_the_first_iteration():
    ensemble = hand_made_ensemble()
    ensemble.start_scores = np.array([0.5, 0.0, -2.0])
    X = np.array([[-2.0, 1.0], [np.nan, 0.0]])
    for layout in ("compact", "rounds"):
        booster = export(ensemble, layout=layout)
        np.testing.assert_allclose(booster.predict(X, raw_score=True), raw_scores(ensemble, X), rtol=0, atol=1e-15)
    contributions = booster.predict(X, pred_contrib=True).reshape(len(X), 3, 3)
    np.testing.assert_allclose(contributions.sum(axis=2), raw_scores(ensemble, X), atol=1e-12)


def test_a_model_that_only_has_start_scores():
    ensemble = TreeEnsemble(n_classes=3, n_features=1, start_scores=np.array([0.5, 0.0, -2.0]))
    ensemble.append_round([])
    booster = export(ensemble)
    np.testing.assert_array_equal(booster.predict([[0.0]], raw_score=True), [[0.5, 0.0, -2.0]])
    assert model_info(booster)["round_iterations"] == {1: 1}


@pytest.mark.parametrize("tree_shape", ["symmetric", "best-first"])
@pytest.mark.parametrize("warmup", [0, 2])
@pytest.mark.parametrize("n_classes", [2, 3, 26])
def test_trees_along_directions(n_classes, warmup, tree_shape, tmp_path):
    X, y = make_data(n_classes=n_classes)
    X[::9, 1] = np.nan
    X_new = make_data(300, n_classes, seed=1)[0]
    X_new[::5, :2] = np.nan
    trees_per_round = {2: None, 3: 2, 26: 6}[n_classes]
    options = {"tree_shape": tree_shape, "warmup": warmup, "num_leaves": 9, "max_depth": 4}
    options |= {"trees_per_round": trees_per_round}
    model = ABCBoostClassifier(n_estimators=6, n_jobs=1, **options).fit(X, y)
    for layout in ("compact", "rounds"):
        booster = export(model, tmp_path / "model.txt", layout=layout)
        np.testing.assert_allclose(booster.predict(X_new), model.predict_proba(X_new), rtol=0, atol=1e-10)
        # A tree of a round is an iteration, and so are the K trees of a classic one.
        ends = np.cumsum([1] * warmup + [trees_per_round or 1] * (6 - warmup))
        assert model_info(booster)["round_iterations"] == dict(zip(range(1, 7), ends.tolist(), strict=True))
        assert booster.current_iteration() == ends[-1]
    for end, expected in zip(ends, model.staged_predict_proba(X_new), strict=True):
        np.testing.assert_allclose(booster.predict(X_new, num_iteration=end), expected, rtol=0, atol=1e-10)
    from_file = lgb.Booster(model_file=tmp_path / "model.txt")
    np.testing.assert_allclose(from_file.predict(X_new), booster.predict(X_new), rtol=1e-12)
    assert model_info(booster)["base_classes"] == [-1] * 6
    np.testing.assert_allclose(model_info(booster)["gain_importance"], model.feature_importance("gain"))
    assert model_info(booster)["split_importance"] == model.feature_importance("split").tolist()
    contributions = booster.predict(X_new, pred_contrib=True).reshape(len(X_new), n_classes, -1)
    np.testing.assert_allclose(contributions.sum(axis=2), booster.predict(X_new, raw_score=True), atol=1e-10)


@pytest.mark.parametrize("tree_shape", ["symmetric", "best-first"])
@pytest.mark.parametrize("n_classes", [2, 3, 26])
def test_categories(n_classes, tree_shape, grow_model, make_categories):
    X, y, is_categorical = make_categories(n_classes)
    options = {"tree_shape": tree_shape, "n_estimators": 8, "max_depth": 4, "warmup": 1, "learning_rate": 0.3}
    ensemble = grow_model(X, y, is_categorical, **options)
    flat = ensemble.flat()
    assert {True, False} == set(flat.missing_left[flat.left_set >= 0])  # both ways are tested
    X[:10, 0] = [12, 13, 31, 32, 63, 64, 200, 255, 256, 1000]  # categories that were not there
    booster = export(ensemble)
    np.testing.assert_allclose(booster.predict(X), softmax(raw_scores(ensemble, X)), rtol=0, atol=1e-10)
    contributions = booster.predict(X, pred_contrib=True).reshape(len(X), n_classes, -1)
    np.testing.assert_allclose(contributions.sum(axis=2), booster.predict(X, raw_score=True), atol=1e-10)
    again = lgb.Booster(model_str=booster.model_to_string())
    np.testing.assert_allclose(again.predict(X), booster.predict(X), rtol=1e-12)


def test_categories_of_a_table(fitted_on_categories):
    """Levels become numbers, their places in `categories_`; what the classifier does not know is missing."""
    model, new, numbers = fitted_on_categories
    np.testing.assert_allclose(export(model).predict(numbers), model.predict_proba(new), rtol=0, atol=1e-10)


@pytest.mark.parametrize("method", ["abcrobustlogit", "robustlogit", "abcmart"])
@pytest.mark.parametrize("start_scores", [None, "priors"])
def test_native_classifier(method, start_scores, tmp_path):
    X, y = make_data()
    X[::9, 1] = np.nan
    labels = np.array(list("edcba"))[y]
    options = {"method": method, "start_scores": start_scores}
    model = ABCBoostClassifier(n_estimators=15, num_leaves=6, gap=1, warmup=3, n_jobs=1, **options).fit(X, labels)
    booster = export(model, tmp_path / "native.txt")
    np.testing.assert_allclose(booster.predict(X), model.predict_proba(X), rtol=0, atol=1e-12)
    from_file = lgb.Booster(model_file=tmp_path / "native.txt")
    np.testing.assert_allclose(from_file.predict(X), model.predict_proba(X), rtol=0, atol=1e-12)
    assert model_info(booster)["base_classes"] == model.base_classes_.tolist()
    assert np.argmax(model_info(booster)["gain_importance"]) == np.argmax(model.feature_importances_)


@pytest.mark.parametrize("method", ["directional", "abcrobustlogit"])
def test_native_classifier_after_early_stopping(method):
    X, y = make_data()
    X_valid, y_valid = make_data(200, seed=1)
    options = {"method": method, "learning_rate": 0.4, "num_leaves": 6, "early_stopping_rounds": 4}
    model = ABCBoostClassifier(n_estimators=200, n_jobs=1, **options)
    model.fit(X, y, eval_set=[(X_valid, y_valid)])
    assert model.best_iteration_ < len(model.base_classes_)
    np.testing.assert_allclose(export(model).predict(X_valid), model.predict_proba(X_valid), atol=1e-12)
    first = export(model, n_rounds=3).predict(X_valid)
    np.testing.assert_allclose(first, list(model.staged_predict_proba(X_valid))[2], atol=1e-12)


@pytest.mark.parametrize("method", ["directional", "abcrobustlogit"])
def test_native_two_classes_and_feature_names(method):
    pd = pytest.importorskip("pandas")
    X, y = make_data(n_classes=2)
    frame = pd.DataFrame(X, columns=[f"my feature: {j}" for j in range(X.shape[1])])
    model = ABCBoostClassifier(method=method, n_estimators=5, num_leaves=6, n_jobs=1).fit(frame, y)
    booster = export(model)
    np.testing.assert_allclose(booster.predict(X), model.predict_proba(frame), atol=1e-12)
    assert booster.feature_name() == [f"my_feature__{j}" for j in range(X.shape[1])]


@pytest.mark.parametrize("method", ["directional", "abcrobustlogit"])
def test_an_exported_native_model_can_be_continued_by_lightgbm(method):
    X, y = make_data()
    options = {"method": method, "num_leaves": 6, "gap": 1, "warmup": 2}
    model = ABCBoostClassifier(n_estimators=5, n_jobs=1, **options).fit(X, y)
    booster = export(model)
    params = {"objective": "multiclass", "num_class": 5, "verbosity": -1, "num_threads": 1}
    more = lgb.train(params, lgb.Dataset(X, y), 2, init_model=booster)
    assert more.current_iteration() == booster.current_iteration() + 2
    further = abc_lgbm.train(params, lgb.Dataset(X, y), 2, init_model=booster, method="abcrobustlogit", gap=1, warmup=2)
    assert model_info(further)["base_classes"][:5] == model.base_classes_.tolist()


def test_large_exports_warn_with_the_slot_count(monkeypatch):
    monkeypatch.setattr("abc_plugins.lgbm.exporting.MANY_SLOTS", 15)
    with pytest.warns(UserWarning, match=r'has 15 tree slots for 7 grown trees.*layout="compact" needs fewer'):
        export(hand_made_ensemble(), layout="rounds")
    monkeypatch.setattr("abc_plugins.lgbm.exporting.MANY_SLOTS", 12)
    with pytest.warns(UserWarning, match="has 12 tree slots for 7 grown trees"):
        export(hand_made_ensemble())


def test_wrong_models_are_refused():
    with pytest.raises(NotFittedError, match="not fitted"):
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
    moved = [shifted(tree, 2.0) if index < 5 else tree for index, tree in enumerate(trees)]
    moved_scores = lgb.Booster(model_str=write_model(frame, moved, 5)).predict(X, raw_score=True)
    np.testing.assert_allclose(moved_scores, 2.0 + stock.predict(X, raw_score=True), rtol=0, atol=1e-14)
    assert is_stump(NO_TREE)
    assert not is_stump(trees[0])
    nothing = lgb.Booster(model_str=write_model(frame, [NO_TREE] * 5, 5))
    np.testing.assert_allclose(nothing.predict(X), 0.2)


def test_importances_count_each_tree_once(data, params):
    X, y = data
    booster = abc_lgbm.train(params, lgb.Dataset(X, y), 6, method="abcrobustlogit", search=1, gap=0, warmup=0)
    info = model_info(booster)
    assert (2 * np.array(info["split_importance"])).tolist() == booster.feature_importance("split").tolist()
    np.testing.assert_allclose(2 * np.array(info["gain_importance"]), booster.feature_importance("gain"), rtol=1e-5)


def test_names_are_all_different():
    X = np.random.default_rng(0).normal(size=(60, 4))
    frame = pd.DataFrame(X, columns=["a b", "a_b", "a-b", ""])
    model = ABCBoostClassifier(n_estimators=3, n_jobs=1, random_state=0).fit(frame, np.arange(60) % 3)
    booster = export(model)
    assert booster.feature_name() == ["a_b_2", "a_b", "a_b_3", "_"]
    np.testing.assert_allclose(booster.predict(X), model.predict_proba(frame), rtol=0, atol=1e-12)
