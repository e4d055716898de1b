"""scikit-learn's own tests of HistGradientBoostingClassifier, run against ours by a mapping of names.

They are those of the installed package, as far as they concern classification. A test that ours cannot pass is listed
with the reason, and must fail: a reason that no longer holds is to be taken off the list.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from abc_plugins import ABCBoostClassifier
from abc_plugins.callbacks import early_stopping
from abc_plugins.core.model.ensemble import LEAF, Tree

gradient_boosting = pytest.importorskip("sklearn.ensemble._hist_gradient_boosting.tests.test_gradient_boosting")
warm_start = pytest.importorskip("sklearn.ensemble._hist_gradient_boosting.tests.test_warm_start")

_OWN_WORDS = "the error is raised, but with our own words"
_PRIVATE = "looks at private attributes of scikit-learn's class"
_MORE_LEVELS = "more levels than bins are no error: the rarest count as one"
FAILURES = {
    "test_init_parameters_validation": _OWN_WORDS,
    "test_categorical_spec_errors": _OWN_WORDS,
    "test_categorical_spec_errors_with_feature_names": _OWN_WORDS,
    "test_max_iter_with_warm_start_validation": _OWN_WORDS,
    "test_binning_train_validation_are_separated": _PRIVATE + "; bins are made of the rows that are trained on, too",
    "test_random_seeds_warm_start": _PRIVATE,
    "test_should_stop": _PRIVATE,
    "test_small_trainset": _PRIVATE,
    "test_dataframe_categorical_results_same_as_ndarray": _PRIVATE,
    "test_categorical_encoding_strategies": "half of the trees keep categories in their natural order",
    "test_single_node_trees": "labels of a single class are an error, since they are almost always a mistake",
    "test_custom_loss": "there is one loss, the log loss",
    "test_categorical_spec_no_categories": "is_categorical_ is an array of False if there are no categories, not None",
    "test_categorical_bad_encoding_errors": _MORE_LEVELS,
    "test_dataframe_categorical_errors": _MORE_LEVELS,
    "test_X_val_in_fit": "a validation share is drawn with another seed",
}
"""Test -> why ours does not pass it."""

FAILURES_OF_CASES = {
    "test_unknown_categories_nan": (
        lambda given: given["insert_missing"] and given["missing_value"] == -1,
        "a negative number is a level like others, not a missing value",
    ),
    "test_early_stopping_classification": (
        lambda given: (given["scoring"], given["validation_fraction"]) == ("loss", 0.1) and max(given["data"][1]) == 1,
        "the log loss of the three rows that are held out goes on improving for all of 50 rounds",
    ),
}
"""Test -> which of its cases ours does not pass, and why."""


def is_listed(name: str, given: dict[str, Any]) -> bool:
    return name in FAILURES or (name in FAILURES_OF_CASES and bool(FAILURES_OF_CASES[name][0](given)))


class _TreeView:
    """A tree of ours with the methods of scikit-learn's that the tests call."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.nodes = np.column_stack([tree.feature, tree.threshold, tree.gain])

    def get_n_leaf_nodes(self) -> int:
        return int((self.tree.feature == LEAF).sum())

    def get_max_depth(self) -> int:
        depth = np.zeros(self.tree.feature.size, dtype=int)
        for node in np.flatnonzero(self.tree.feature != LEAF):
            depth[[self.tree.left[node], self.tree.right[node]]] = depth[node] + 1
        return int(depth.max())


class Mapped(ClassifierMixin, BaseEstimator):
    """`ABCBoostClassifier` under the names of HistGradientBoostingClassifier."""

    def __init__(
        self, loss="log_loss", *, learning_rate=0.1, max_iter=100, max_leaf_nodes=31, max_depth=None,
        min_samples_leaf=20, l2_regularization=0.0, max_features=1.0, max_bins=255, categorical_features="from_dtype",
        monotonic_cst=None, interaction_cst=None, warm_start=False, early_stopping="auto", scoring="loss",
        validation_fraction=0.1, n_iter_no_change=10, tol=1e-7, verbose=0, random_state=None, class_weight=None,
    ):  # fmt: skip
        given = dict(locals())
        for name in inspect.signature(type(self).__init__).parameters:
            if name != "self":
                setattr(self, name, given[name])

    def fit(self, X: Any, y: Any, sample_weight: Any = None, **fit: Any) -> Mapped:
        if self.loss != "log_loss" or self.monotonic_cst is not None:
            raise TypeError("ours has the log loss, and no monotonic constraints.")
        stops = self.early_stopping is True or (self.early_stopping == "auto" and len(X) > 10000)
        on_training_data = stops and self.validation_fraction is None
        options = {
            "learning_rate": self.learning_rate, "n_estimators": self.max_iter, "num_leaves": self.max_leaf_nodes,
            "max_depth": self.max_depth, "min_samples_leaf": self.min_samples_leaf,
            "reg_lambda": self.l2_regularization, "max_features": self.max_features, "max_bins": self.max_bins,
            "categorical_features": self.categorical_features, "interaction_constraints": self.interaction_cst,
            "warm_start": self.warm_start, "class_weight": self.class_weight,
            "random_state": 0 if self.random_state is None else self.random_state,  # or directions are always new
            "verbose": self.verbose, "refit": False, "tree_shape": "best-first", "n_jobs": 1,
            "eval_metric": {None: "accuracy", "loss": "logloss"}.get(self.scoring, self.scoring),
            "validation_fraction": self.validation_fraction or 0.1,
            "early_stopping": stops, "early_stopping_rounds": self.n_iter_no_change if stops else None,
        }  # fmt: skip
        if not (self.warm_start and hasattr(self, "model_")):
            self.model_ = ABCBoostClassifier()
        if on_training_data:
            fit["eval_set"] = [(X, y)]
        callbacks = [early_stopping(self.n_iter_no_change, min_delta=self.tol)] if stops else []
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The model has no splits")
            self.model_.set_params(**options).fit(X, y, sample_weight, callbacks=callbacks, **fit)
        return self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "model_":
            raise AttributeError(name)
        return getattr(self.__dict__["model_"] if "model_" in self.__dict__ else ABCBoostClassifier(), name)

    def predict(self, X: Any) -> Any:
        return self.__getattr__("predict")(X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        return self.__getattr__("score")(X, y, sample_weight)

    @property
    def _predictors(self) -> list[list[_TreeView]]:
        return [[_TreeView(tree) for tree in trees] for trees in self.model_.model_.rounds()]

    def _raw_predict(self, X: Any) -> Any:
        return self.model_.decision_function(X)

    @property
    def train_score_(self) -> Any:
        return self.model_.train_loss_

    @property
    def validation_score_(self) -> Any:
        return [*self.model_.evals_result_.get("validation", {}).values()]


def cases() -> Iterator[Any]:
    """Every test of classification with every set of its parameters, the mapped class in place of scikit-learn's."""
    for module in (gradient_boosting, warm_start):
        for name, function in vars(module).items():
            if not name.startswith("test_"):
                continue
            marks = [m for m in getattr(function, "pytestmark", ()) if m.name == "parametrize"]
            values = [[_arguments(mark.args[0], one) for one in mark.args[1]] for mark in marks]
            for number, parts in enumerate(product(*values)):
                given = {key: value for part in parts for key, value in part.items()}
                if _concerns_classification(function, given):
                    mapped = {
                        key: Mapped if value is HistGradientBoostingClassifier else value
                        for key, value in given.items()
                    }
                    yield pytest.param(module, function, mapped, id=f"{name}-{number}")


def _arguments(names: Any, values: Any) -> dict[str, Any]:
    names = [n.strip() for n in names.split(",")] if isinstance(names, str) else list(names)
    return dict(zip(names, values if len(names) > 1 else [values], strict=True))


def _concerns_classification(function: Any, given: dict[str, Any]) -> bool:
    values = [value for value in given.values() if isinstance(value, str | type)]
    if "regression" in values or HistGradientBoostingRegressor in values:
        return False
    return HistGradientBoostingClassifier in values or "HistGradientBoostingClassifier" in inspect.getsource(function)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("module", "function", "given"), list(cases()))
def test_of_scikit_learn(module: Any, function: Any, given: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HistGradientBoostingClassifier", Mapped)
    fixtures = {"monkeypatch": monkeypatch, "global_random_seed": 0}
    wanted = set(inspect.signature(function).parameters) - set(given)
    arguments = given | {name: fixtures[name] for name in wanted}
    if not is_listed(function.__name__, given):
        function(**arguments)
        return
    with pytest.raises(BaseException):  # noqa: B017, PT011  (whatever the reason is)
        function(**arguments)


def test_every_reason_is_of_a_test() -> None:
    names = {case.values[1].__name__ for case in cases()}
    assert set(FAILURES) | set(FAILURES_OF_CASES) <= names
    assert len(names) > 25
