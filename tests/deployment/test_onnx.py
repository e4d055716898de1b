"""Native models as ONNX models, run by onnxruntime."""

import json

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from abc_plugins import ABCBoostClassifier
from abc_plugins.core.model.ensemble import LEAF, TreeEnsemble, pair_tree, single_leaf
from abc_plugins.onnx import export
from abc_plugins.onnx.attributes import float32_not_above

from .conftest import with_labels

TYPES = {"float": np.float32, "double": np.float64}


def run(exported, inputs):
    model = exported if isinstance(exported, str) else exported.SerializeToString()
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    return session.run(["label", "probabilities"], inputs)


@pytest.mark.parametrize(("input_type", "precision"), [("float", "float"), ("float", "double"), ("double", "double")])
def test_probabilities_and_labels(case, input_type, precision):
    exported = export(case.model, input_type=input_type, precision=precision)
    labels, probabilities = run(exported, {"X": case.X.astype(TYPES[input_type])})
    expected = case.model.predict_proba(case.table)
    np.testing.assert_allclose(probabilities, expected, rtol=0, atol=1e-5 if precision == "float" else 1e-6)
    top = np.sort(expected, axis=1)
    clear = top[:, -1] - top[:, -2] > 1e-4
    assert clear.mean() > 0.2
    assert (labels == case.model.predict(case.table))[clear].all()


def test_categories_given_as_they_are(case):
    exported = export(case.model, inputs="columns")
    columns = {f"x{f}": case.table[:, [f]].astype(np.float32) for f in range(5)}
    _, probabilities = run(exported, columns)
    np.testing.assert_allclose(probabilities, case.model.predict_proba(case.table), rtol=0, atol=1e-5)


@pytest.mark.parametrize("input_type", TYPES)
def test_text_categories_and_names_of_columns(input_type):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"colour": rng.choice(["red", "green", "blue"], 200), "size": rng.normal(size=200)})
    table["size"] = table["size"].astype(np.float32)
    y = (table["colour"] == "red") + (table["size"] > 0)
    model = ABCBoostClassifier(n_estimators=5, n_jobs=1, random_state=0).fit(table, y)
    new = table.assign(colour=table["colour"].where(rng.random(200) > 0.2, None))
    new.loc[:9, "colour"] = "violet"
    inputs = {
        "colour": new["colour"].fillna("").to_numpy(dtype=object)[:, None],
        "size": new["size"].to_numpy(dtype=TYPES[input_type])[:, None],
    }
    exported = export(model, inputs="columns", input_type=input_type)
    np.testing.assert_allclose(run(exported, inputs)[1], model.predict_proba(new), rtol=0, atol=1e-6)
    properties = {entry.key: entry.value for entry in exported.metadata_props}
    assert json.loads(properties["feature_names"]) == ["colour", "size"]
    assert json.loads(properties["categories"]) == [["blue", "green", "red"], None]


def test_levels_beyond_254_share_a_number():
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.integers(0, 400, 3000), rng.normal(size=3000)]).astype(np.float32)
    y = (X[:, 0] % 5 + (X[:, 1] > 0)).astype(int)
    model = ABCBoostClassifier(n_estimators=4, categorical_features=[0], n_jobs=1, random_state=0).fit(X, y)
    assert model._categories.has_other[0]
    new = np.concatenate([X[:200], [[np.nan, 0.5], [1000.0, 0.5], [-3.0, 0.5]]]).astype(np.float32)
    _, probabilities = run(export(model, inputs="columns"), {"x0": new[:, [0]], "x1": new[:, [1]]})
    np.testing.assert_allclose(probabilities, model.predict_proba(new), rtol=0, atol=1e-5)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_numbers_that_are_no_category_go_where_missing_values_go(n_classes, grow_model, make_categories):
    X, y, is_categorical = make_categories(n_classes)
    ensemble = grow_model(X, y, is_categorical, n_estimators=8, max_depth=4, learning_rate=0.3, tree_shape="symmetric")
    flat = ensemble.flat()
    assert {True, False} == set(flat.missing_left[flat.left_set >= 0])  # both ways are tested
    X[:12, 0] = [12, 13, 31, 32, 63, 64, 200, 255, 256, 1000, -1, -7]
    expected = scores_to_probabilities(ensemble, X)
    for input_type, dtype in TYPES.items():
        _, probabilities = run(export(ensemble, input_type=input_type), {"X": X.astype(dtype)})
        np.testing.assert_allclose(probabilities, expected, rtol=0, atol=1e-5)


def scores_to_probabilities(ensemble, X):
    from abc_plugins.core.runtime.parallel import Workers
    from abc_plugins.core.runtime.values import softmax

    with Workers(1) as workers:
        return softmax(ensemble.raw_scores(X, workers))


def stump(threshold, missing_left=False):
    return pair_tree(
        1,
        0,
        feature=np.array([0, LEAF, LEAF], dtype=np.int32),
        threshold=np.array([threshold, 0.0, 0.0]),
        missing_left=np.array([missing_left, False, False]),
        left=np.array([1, 0, 0], dtype=np.int32),
        right=np.array([2, 0, 0], dtype=np.int32),
        value=np.array([0.0, -1.0, 1.0]),
        gain=np.zeros(3),
        weight=np.ones(3),
    )


def test_every_float32_goes_the_way_it_goes_natively():
    rng = np.random.default_rng(1)
    wide = rng.normal(size=40) * 10.0 ** rng.integers(-30, 30, 40)
    thresholds = np.concatenate([wide, wide.astype(np.float32).astype(float), [0.0, -0.0, 1e300, -1e300]])
    near = thresholds[np.abs(thresholds) < 3e38].astype(np.float32)
    up, down = (np.nextafter(near, np.float32(side)) for side in (np.inf, -np.inf))
    values = np.unique(np.concatenate([near, up, down, np.float32([0, 1])]))
    for threshold in thresholds:
        ensemble = TreeEnsemble(2, 1)
        ensemble.append_round([stump(threshold)])
        for precision in ("float", "double"):
            _, probabilities = run(export(ensemble, precision=precision), {"X": values[:, None]})
            assert np.array_equal(probabilities[:, 1] > 0.5, values.astype(float) > threshold), threshold
    rounded = float32_not_above(thresholds)
    assert (rounded <= thresholds).all()
    with np.errstate(over="ignore"):
        assert (np.nextafter(rounded.astype(np.float32), np.float32(np.inf)) > thresholds).all()


@pytest.mark.parametrize(
    ("labels", "dtype"),
    [
        (["a", "b", "c"], "object"),
        ([3, 7, -2], "int64"),
        ([True, False], "bool"),
        ([1.0, 2.0, 5.0], "float64"),
        ([2**40, 5, 1], "int64"),
    ],
)
def test_labels_keep_their_kind(labels, dtype):
    model, X = with_labels(labels)
    found, _ = run(export(model), {"X": X.astype(np.float32)})
    assert found.dtype == dtype
    assert found.tolist() == model.predict(X).tolist()


@pytest.mark.parametrize("labels", [[(1, 2), (3, 4)], [2**63, 1]])
def test_labels_that_onnx_does_not_have_are_refused(labels):
    model, _ = with_labels(labels)
    with pytest.raises(ValueError, match=r"classes_ of the model must be all strings.*got"):
        export(model)


def test_first_rounds_and_file(small, tmp_path):
    path = tmp_path / "model.onnx"
    export(small.model, path, n_rounds=2)
    _, probabilities = run(str(path), {"X": small.X.astype(np.float32)})
    expected = list(small.model.staged_predict_proba(small.table))[1]
    np.testing.assert_allclose(probabilities, expected, rtol=0, atol=1e-6)
    loaded = onnx.load(path)
    assert {(opset.domain, opset.version) for opset in loaded.opset_import} == {("", 15), ("ai.onnx.ml", 3)}


def test_a_model_without_splits():
    ensemble = TreeEnsemble(2, 1, np.array([0.0, 1.0]))
    ensemble.append_round([single_leaf([1], 3.0)])
    _, probabilities = run(export(ensemble), {"X": np.zeros((2, 1), np.float32)})
    np.testing.assert_allclose(probabilities[:, 1], 1 / (1 + np.exp(-1.0)), rtol=1e-6)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"inputs": "rows"}, ValueError, "inputs must be one of 'matrix', 'columns'; got 'rows'"),
        ({"input_type": "half"}, ValueError, "input_type must be one of 'float', 'double'; got 'half'"),
        ({"input_type": np.float32}, TypeError, "input_type must be one of"),
        ({"precision": "half"}, ValueError, "precision must be one of 'float', 'double'; got 'half'"),
        ({"precision": "float", "input_type": "double"}, ValueError, "precision must be 'double' with input_type"),
        ({"n_rounds": 0}, ValueError, "n_rounds must be a whole number from 1 to"),
        ({"n_rounds": 1.5}, TypeError, "n_rounds must be a whole number from 1 to"),
        ({"path": 3}, TypeError, "path must be a path; got 3"),
    ],
)
def test_wrong_arguments_are_refused(small, options, error, message):
    with pytest.raises(error, match=message):
        export(small.model, **options)


@pytest.mark.parametrize("model", [None, "model.abc", object()])
def test_what_is_no_model_is_refused(model):
    with pytest.raises(TypeError, match="model must be a fitted ABCBoostClassifier or a TreeEnsemble"):
        export(model)
    with pytest.raises(NotFittedError, match="not fitted"):
        export(ABCBoostClassifier())
