"""Tests of LightGBM and XGBoost that fail with the adapter and are right to: pattern of the name, reason."""

from __future__ import annotations

_CUT = "a round with a base class is several iterations of LightGBM: num_iteration cannot cut the model anywhere"
_PRIORS = "rounds with a base class start at scores of 0, not at the class frequencies"
_FORESTS = "random forests rescale the trees of earlier rounds, and are refused"
_OBJECTIVE = "an objective of the user's own is refused: the adaptive base class is the objective"

BY_DESIGN: dict[str, dict[str, str]] = {
    "lightgbm": {
        r"test_multiclass_rf$|test_grid_search$|test_random_search$": _FORESTS,
        r"test_constant_features_multiclass$": _PRIORS,
        r"test_engine\.py::test_metrics$": "num_class may be left out, where the test expects an error: labels tell it",
        r"test_predict_with_start_iteration$": _CUT,
        r"test_sklearn\.py::test_multiclass_custom_objective": _OBJECTIVE,
    },
    "xgboost": {
        r"test_multiclass_classification\[": _OBJECTIVE,
        r"test_with_sklearn\.py::test_best_iteration$": "dart rescales the trees of earlier rounds, and is refused",
        r"test_feature_importances_weight|test_sklearn_api$|test_RFECV$": "gblinear has no trees, and is refused",
        r"test_boost_from_prediction\[": "on a base_margin the draws of directions start again; with xgb_model not",
        r"test_kwargs_grid_search$": "learning rates of 0.2 and 0.4 have different models, but as many errors on iris",
        r"TestModels::test_slice": "a round with a base class has 2 (K - 1) trees, not K; and dart is refused",
    },
}
