"""How each contender is trained, as people train it: stopped by the log loss of the validation samples."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np

from abc_plugins.compare.practice.table import Sample
from abc_plugins.compare.practice.views import View, as_codes, as_few_codes, as_one_hot, as_text, feature_types
from abc_plugins.core.runtime.arrays import Floats

SHRINKAGE = 0.1
"""Of the peers that have another by default, or choose one by the number of rounds."""
LEAF_CLIP = 4.0
"""Largest leaf value of LightGBM, which diverges on some data without."""
HISTGB_CATEGORIES = 255
FOREST_TREES = 200

Params = dict[str, Any]


@dataclass(frozen=True)
class Trained:
    """A fitted contender.

    Attributes
    ----------
    model : object
    view : function
        The table as the model wants it.
    rounds : int
        Rounds that predictions use.
    curve : sequence of float
        Log loss of the validation samples after each round; empty if there is none.
    """

    model: Any
    view: View
    rounds: int
    curve: Sequence[float]

    def predict_proba(self, X: Floats) -> Floats:
        """Probabilities, shape (n_samples, n_classes)."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="X does not have valid feature names")  # LightGBM's made-up ones
            return np.asarray(self.model.predict_proba(self.view(X)), dtype=np.float64)


Train = Callable[[Sample, Params], Trained]


def native(method: str) -> Train:
    """ABCBoostClassifier."""

    def train(sample: Sample, params: Params) -> Trained:
        from abc_plugins.classifier import ABCBoostClassifier

        settings: Params = {
            "method": method,
            "n_estimators": sample.rounds,
            "early_stopping_rounds": 100 if method == "directional" else 50,
            "n_jobs": sample.n_jobs,
            "random_state": sample.seed,
            "categorical_features": list(sample.categorical) or "from_dtype",
        }
        model = ABCBoostClassifier(**(settings | params))
        model.fit(sample.X, sample.y, eval_set=[(sample.X_valid, sample.y_valid)])
        return Trained(model, as_codes(sample), int(model.best_iteration_), model.evals_result_["valid_0"]["logloss"])

    return train


def lightgbm(sample: Sample, params: Params, *, adapter: bool = False) -> Trained:
    """LGBMClassifier or ABCLGBMClassifier."""
    import lightgbm as lgb

    estimator: Any = lgb.LGBMClassifier
    if adapter:
        from abc_plugins.lgbm import ABCLGBMClassifier

        estimator = ABCLGBMClassifier
    settings: Params = {"n_estimators": sample.rounds, "n_jobs": sample.n_jobs, "verbose": -1}
    settings |= {} if adapter else {"max_delta_step": LEAF_CLIP}
    model = estimator(**(settings | params))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*'eval_set' is deprecated")  # LightGBM 4.6 knows nothing else
        model.fit(
            sample.X,
            sample.y,
            eval_set=[(sample.X_valid, sample.y_valid)],
            categorical_feature=list(sample.categorical) or "auto",
            callbacks=[lgb.early_stopping(50, verbose=False)],
        )
    (metrics,) = model.evals_result_.values()
    return Trained(model, as_codes(sample), int(model.best_iteration_), next(iter(metrics.values())))


def xgboost(sample: Sample, params: Params, *, adapter: bool = False, vector_leaves: bool = False) -> Trained:
    """XGBClassifier, with a tree per class or with vector leaves, or ABCXGBClassifier."""
    import xgboost as xgb

    estimator: Any = xgb.XGBClassifier
    if adapter:
        from abc_plugins.xgb import ABCXGBClassifier

        estimator = ABCXGBClassifier
    settings: Params = {
        "n_estimators": sample.rounds,
        "learning_rate": SHRINKAGE,
        "n_jobs": sample.n_jobs,
        "early_stopping_rounds": 50,
        "tree_method": "hist",
    }
    view = as_codes(sample)
    if vector_leaves:  # which take no categories
        settings["multi_strategy"] = "multi_output_tree"
        view = as_one_hot(sample)
    elif sample.categorical:
        settings |= {"enable_categorical": True, "feature_types": feature_types(sample)}
    model = estimator(**(settings | params))
    model.fit(view(sample.X), sample.y, eval_set=[(view(sample.X_valid), sample.y_valid)], verbose=False)
    curve = next(iter(model.evals_result()["validation_0"].values()))
    return Trained(model, view, int(model.best_iteration) + 1, curve)


def catboost(sample: Sample, params: Params) -> Trained:
    """CatBoostClassifier."""
    from catboost import CatBoostClassifier

    settings: Params = {
        "iterations": sample.rounds,
        "learning_rate": SHRINKAGE,
        "od_type": "Iter",
        "od_wait": 50,
        "thread_count": sample.n_jobs,
        "verbose": 0,
        "allow_writing_files": False,
    }
    view = as_text(sample)
    model = CatBoostClassifier(**(settings | params), cat_features=list(sample.categorical))
    model.fit(view(sample.X), sample.y, eval_set=(view(sample.X_valid), sample.y_valid))
    curve = next(iter(model.evals_result_["validation"].values()))
    return Trained(model, view, int(model.best_iteration_) + 1, curve)


def chimeraboost(sample: Sample, params: Params) -> Trained:
    """ChimeraBoostClassifier, which chooses its shrinkage itself."""
    from chimeraboost import ChimeraBoostClassifier

    settings: Params = {"early_stopping_rounds": 50, "thread_count": sample.n_jobs, "random_state": sample.seed}
    settings["n_estimators"] = min(sample.rounds, 2000)  # its own limit: its shrinkage may depend on it
    view = as_text(sample)
    model = ChimeraBoostClassifier(**(settings | params))
    model.fit(
        view(sample.X),
        sample.y,
        eval_set=(view(sample.X_valid), sample.y_valid),
        cat_features=list(sample.categorical) or None,
    )
    curve = [float(loss) for loss in getattr(model.model_, "valid_history_", [])]
    return Trained(model, view, int(model.best_iteration_ or 0), curve)


def histgb(sample: Sample, params: Params) -> Trained:
    """HistGradientBoostingClassifier; its number of threads is set around the fit."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    settings: Params = {
        "max_iter": sample.rounds,
        "early_stopping": True,
        "scoring": "loss",
        "random_state": sample.seed,
        "categorical_features": list(sample.categorical) or None,
    }
    view = as_few_codes(sample, HISTGB_CATEGORIES)
    model = HistGradientBoostingClassifier(**(settings | params))
    if "X_val" in signature(model.fit).parameters:
        model.fit(view(sample.X), sample.y, X_val=view(sample.X_valid), y_val=sample.y_valid)
    else:  # scikit-learn 1.6 draws a validation part itself
        model.set_params(validation_fraction=sample.y_valid.size / (sample.y.size + sample.y_valid.size))
        model.fit(view(np.vstack([sample.X, sample.X_valid])), np.concatenate([sample.y, sample.y_valid]))
    return Trained(model, view, int(model.n_iter_), [-float(score) for score in model.validation_score_[1:]])


def forest(sample: Sample, params: Params) -> Trained:
    """RandomForestClassifier, which needs no stopping: it has the validation samples to train on as well."""
    from sklearn.ensemble import RandomForestClassifier

    settings: Params = {"n_estimators": FOREST_TREES, "n_jobs": sample.n_jobs, "random_state": sample.seed}
    view = as_one_hot(sample)
    model = RandomForestClassifier(**(settings | params))
    X, y = np.vstack([sample.X, sample.X_valid]), np.concatenate([sample.y, sample.y_valid])
    model.fit(view(X), y)
    return Trained(model, view, int(model.n_estimators), [])
