"""Parameters: what is refused, and the defaults."""

import inspect
import warnings

import numpy as np
import pytest

from abc_plugins import ABCBoostClassifier
from abc_plugins.core.settings import Settings

from .conftest import assert_same_models, quick


@pytest.mark.parametrize(
    ("name", "value", "error", "message"),
    [
        ("method", "gbm", ValueError, "one of 'directional', 'mart', 'robustlogit', 'abcmart', 'abcrobustlogit'; got"),
        ("method", None, TypeError, "one of 'directional', .*; got None"),
        ("n_estimators", 0, ValueError, "a whole number of at least 1; got 0"),
        ("n_estimators", 2.5, TypeError, "a whole number of at least 1; got 2.5"),
        ("n_estimators", True, TypeError, "a whole number of at least 1; got True"),
        ("learning_rate", 0.0, ValueError, "a number larger than 0; got 0.0"),
        ("learning_rate", np.inf, ValueError, "a number larger than 0; got inf"),
        ("learning_rate", "fast", TypeError, "a number larger than 0; got 'fast'"),
        ("num_leaves", 1, ValueError, "a whole number from 2 to 32767; got 1"),
        ("num_leaves", 32768, ValueError, "a whole number from 2 to 32767; got 32768"),
        ("search", 0, ValueError, r"a whole number from 1, or \"all\"; got 0"),
        ("search", "some", ValueError, r"a whole number of at least 1, or \"all\"; got 'some'"),
        ("search", 1.5, TypeError, "a whole number from 1"),
        ("gap", -1, ValueError, "a whole number of at least 0; got -1"),
        ("warmup", -1, ValueError, "a whole number of at least 0; got -1"),
        ("tree_shape", "oblivious", ValueError, "one of 'auto', 'best-first', 'symmetric'; got 'oblivious'"),
        ("max_depth", 0, ValueError, "a whole number from 1 to (14|32767); got 0"),
        ("min_split_gain", -1, ValueError, "a number at least 0; got -1"),
        ("reg_alpha", -1, ValueError, "a number at least 0; got -1"),
        ("max_features", 0, ValueError, "a number larger than 0 and at most 1; got 0"),
        ("interaction_constraints", "some", ValueError, "None, \"pairwise\", .*; got 'some'"),
        ("interaction_constraints", 3, TypeError, 'None, "pairwise", .*; got 3'),
        ("interaction_constraints", [0, 1], TypeError, 'None, "pairwise", .*; got'),
        ("interaction_constraints", [[0.5]], TypeError, 'None, "pairwise", .*; got'),
        ("calibration", "isotonic", ValueError, "one of 'temperature'; got 'isotonic'"),
        ("warm_start", 1, TypeError, "True or False; got 1"),
        ("max_depth", 32768, ValueError, "a whole number from 1 to (14|32767); got 32768"),
        ("trees_per_round", 0, ValueError, "a whole number from 1 to 1024; got 0"),
        ("min_samples_leaf", 0, ValueError, "a whole number of at least 1; got 0"),
        ("min_samples_leaf", 2.5, TypeError, "a whole number of at least 1; got 2.5"),
        ("pair_samples_per_leaf", -1.0, ValueError, "a number at least 0; got -1"),
        ("min_child_weight", -0.1, ValueError, "a number at least 0; got -0.1"),
        ("reg_lambda", -1, ValueError, "a number at least 0; got -1"),
        ("reg_lambda", np.nan, ValueError, "a number at least 0; got nan"),
        ("leaf_reg_lambda", -1, ValueError, "a number at least 0; got -1"),
        ("start_scores", "mean", ValueError, "one of 'priors', 'zero'; got 'mean'"),
        ("leaf_clip", 0, ValueError, "a number larger than 0, or None; got 0"),
        ("leaf_values", "newton", ValueError, "one of 'paper', 'sequential'; got 'newton'"),
        ("guard", 1, TypeError, "True or False; got 1"),
        ("base_choice", "best", ValueError, "one of 'worst', 'drawn'; got 'best'"),
        ("max_bins", 1, ValueError, "a whole number from 2 to 255; got 1"),
        ("max_bins", 256, ValueError, "a whole number from 2 to 255; got 256"),
        ("subsample", 0, ValueError, "a number larger than 0 and at most 1; got 0"),
        ("subsample", 1.1, ValueError, "a number larger than 0 and at most 1; got 1.1"),
        ("colsample", 0, ValueError, "a number larger than 0 and at most 1; got 0"),
        ("colsample", 2, ValueError, "a number larger than 0 and at most 1; got 2"),
        ("class_weight", 3, TypeError, "a dict of labels and weights"),
        ("early_stopping", "yes", ValueError, "\"auto\", True or False; got 'yes'"),
        ("early_stopping", None, TypeError, '"auto", True or False; got None'),
        ("early_stopping_rounds", 0, ValueError, "a whole number of at least 1; got 0"),
        ("refit", 1, TypeError, "True or False; got 1"),
        ("validation_fraction", 0, ValueError, "a number larger than 0 and at most 0.9; got 0"),
        ("validation_fraction", 1, ValueError, "a number larger than 0 and at most 0.9; got 1"),
        ("n_jobs", 0, ValueError, "a whole number other than 0, or None; got 0"),
        ("n_jobs", 1.5, TypeError, "a whole number of at most 4096; got 1.5"),
        ("random_state", "seed", ValueError, "None, a whole number from 0 to .*; got 'seed'"),
        ("random_state", -1, ValueError, "None, a whole number from 0 to .*; got -1"),
        ("random_state", True, TypeError, "None, a whole number from 0 to .*; got True"),
        ("categorical_features", "x", ValueError, "\"from_dtype\", None, or a list of column names.*; got 'x'"),
        ("categorical_features", 1, TypeError, '"from_dtype", None, or a list of column names.*; got 1'),
        ("on_interrupt", "stop", ValueError, "one of 'raise', 'keep'; got 'stop'"),
        ("on_interrupt", None, TypeError, "one of 'raise', 'keep'; got None"),
        ("verbose", -1, ValueError, "a whole number of at least 0; got -1"),
    ],
)
def test_parameters_out_of_range(data, name, value, error, message):
    with pytest.raises(error, match=f"{name} must be {message}"):
        quick(**{name: value}).fit(data.X, data.y)


def test_rounds_without_improvement_but_no_early_stopping(data):
    with pytest.raises(ValueError, match="early_stopping_rounds must be None with early_stopping=False; got 5"):
        quick(early_stopping=False, early_stopping_rounds=5).fit(data.X, data.y)


def test_more_candidates_than_classes(data, default_method):
    """There are only so many base classes, but any number of directions."""
    if default_method == "directional":
        assert quick(search=5).fit(data.X, data.y).train_loss_[-1] > 0
        return
    with pytest.raises(ValueError, match=r"search must be .* up to the number of classes \(4\), or \"all\"; got 5"):
        quick(search=5).fit(data.X, data.y)


def test_symmetric_trees_are_of_one_method(data, default_method):
    if default_method == "directional":
        assert quick(tree_shape="symmetric").fit(data.X, data.y).train_loss_[-1] > 0
        return
    with pytest.raises(ValueError, match='tree_shape must be "auto" or "best-first" with method=\'abcrobustlogit\''):
        quick(tree_shape="symmetric").fit(data.X, data.y)


def test_a_number_of_leaves_that_symmetric_trees_do_not_have_is_told(data, default_method):
    if default_method != "directional":
        pytest.skip("only directional trees are symmetric")
    X, y = data.X, data.y
    with pytest.warns(UserWarning, match=r"num_leaves=31 has no effect.*max_depth=3 levels") as found:
        ABCBoostClassifier(n_estimators=2, tree_shape="symmetric", max_depth=3, num_leaves=31).fit(X, y)
    assert len(found) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ABCBoostClassifier(n_estimators=2, tree_shape="best-first", num_leaves=31).fit(X, y)


def test_every_parameter_has_a_test_out_of_range():
    (mark,) = [m for m in test_parameters_out_of_range.pytestmark if m.name == "parametrize"]
    assert {case[0] for case in mark.args[1]} | {"eval_metric"} == set(quick().get_params())


@pytest.mark.parametrize("n_jobs", [None, -1, -100, 1, 50, np.int64(2)])
def test_any_number_of_jobs(data, n_jobs):
    assert_same_models(quick(n_jobs=n_jobs).fit(data.X, data.y), quick().fit(data.X, data.y), data.X_test)


def test_samples_and_labels_must_match(data):
    with pytest.raises(ValueError, match="X and y must have the same number of samples; got 80 rows and 79 labels"):
        quick().fit(data.X, data.y[:-1])


def test_settings_have_the_defaults_of_the_classifier():
    assert ABCBoostClassifier()._check_parameters(seed=0) == Settings()


def test_none_stands_for_the_default_of_the_method():
    """Those of the paper's methods are the paper's."""
    names = (
        "learning_rate",
        "num_leaves",
        "min_samples_leaf",
        "reg_lambda",
        "leaf_reg_lambda",
        "start_scores",
        "max_bins",
    )
    paper = ABCBoostClassifier(method="abcmart")._check_parameters(seed=0)
    assert [getattr(paper, name) for name in names] == [0.1, 20, 10, 0.0, 0.0, "zero", 255]
    assert all(getattr(ABCBoostClassifier(), name) is None for name in names)
    assert ABCBoostClassifier(method="mart", reg_lambda=3.0)._check_parameters(seed=0).leaf_reg_lambda == 3.0


@pytest.mark.parametrize("dtype", ["bool", "i1", "u1", "i2", "u2", "i8", "f4"])
def test_the_dtype_of_integers_does_not_matter(dtype):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2 if dtype == "bool" else 100, (300, 4))
    y = (X[:, 0] + X[:, 1] > X[:, 2]) + 2 * (X[:, 3] > X[:, :3].mean(axis=1))
    settings = {"n_estimators": 5, "early_stopping_rounds": 3, "random_state": 0}
    one = quick(**settings).fit(X.astype(float), y)
    other = quick(**settings).fit(X.astype(dtype), y)
    assert_same_models(one, other, X.astype(float))
    assert one.evals_result_ == other.evals_result_
    np.testing.assert_array_equal(other.predict_proba(X.astype(dtype)), one.predict_proba(X))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("eval_metric", r"it is a parameter of the constructor, ABCBoostClassifier\(eval_metric=\.\.\.\)"),
        ("early_stopping_rounds", "it is a parameter of the constructor"),
        ("verbose", "it is a parameter of the constructor"),
        ("categorical_feature", "it is categorical_features of the constructor"),
        ("eval_sample_weight", r"give \(X, y, sample_weight\) in eval_set"),
        ("nonsense", "got an unexpected keyword argument 'nonsense'"),
    ],
)
def test_arguments_that_fit_does_not_have(name, message):
    with pytest.raises(TypeError, match=message):
        ABCBoostClassifier().fit([[0.0], [1.0]], [0, 1], **{name: None})
    assert name not in inspect.signature(ABCBoostClassifier.fit).parameters
    assert "sample_weight" in inspect.signature(ABCBoostClassifier.fit).parameters
