"""`train` and `cv` with the signatures of xgboost's own, and options of ours."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import xgboost
from xgboost import Booster, DMatrix
from xgboost.callback import TrainingCallback

from abc_plugins.core.runtime.checks import check_integer, fail
from abc_plugins.xgb.evaluating import CustomMetric, Objective
from abc_plugins.xgb.live import ABCBoost
from abc_plugins.xgb.settings import check_obj, check_params


def train(
    params: Mapping[str, Any],
    dtrain: DMatrix,
    num_boost_round: int = 10,
    *,
    evals: Sequence[tuple[DMatrix, str]] | None = None,
    obj: Objective | None = None,
    maximize: bool | None = None,
    early_stopping_rounds: int | None = None,
    evals_result: dict[str, Any] | None = None,
    verbose_eval: bool | int | None = True,
    xgb_model: str | os.PathLike[str] | Booster | bytearray | None = None,
    callbacks: Sequence[TrainingCallback] | None = None,
    custom_metric: CustomMetric | None = None,
    **options: Any,
) -> Booster:
    """Train a multi-class model on XGBoost's trees; a drop-in for `xgboost.train`.

    Parameters
    ----------
    params : dict
        XGBoost's parameters. `objective` is "multi:softprob" (default) or "multi:softmax"; without `num_class` the
        classes are counted. Two classes are left to XGBoost's own objective.
    dtrain : DMatrix
        Training data; labels are class indices.
    num_boost_round, evals, obj, maximize, early_stopping_rounds, evals_result, verbose_eval, xgb_model, callbacks
        As in `xgboost.train`; `obj` for two classes alone. A model to continue may be a stock one or an ABC one; its
        rounds count.
    custom_metric : callable, optional
        As in `xgboost.train` with a built-in objective: it is given probabilities.
    **options
        What XGBoost does not have: see `abc_plugins.core.options.BoostOptions`.

    Returns
    -------
    booster : xgboost.Booster
        A stock model, which needs no abc_plugins.
    """
    return _run(xgboost.train, locals())


def cv(
    params: Mapping[str, Any],
    dtrain: DMatrix,
    num_boost_round: int = 10,
    *,
    nfold: int = 3,
    stratified: bool = False,
    folds: Any = None,
    metrics: str | Sequence[str] = (),
    obj: Objective | None = None,
    maximize: bool | None = None,
    early_stopping_rounds: int | None = None,
    fpreproc: Any = None,
    as_pandas: bool = True,
    verbose_eval: bool | int | None = None,
    show_stdv: bool = True,
    seed: int = 0,
    callbacks: Sequence[TrainingCallback] | None = None,
    shuffle: bool = True,
    custom_metric: CustomMetric | None = None,
    **options: Any,
) -> Any:
    """Cross-validate; a drop-in for `xgboost.cv`.

    The arguments are those of `xgboost.cv` and `train`.

    Returns
    -------
    history : pandas.DataFrame, or dict without pandas or with `as_pandas=False`
    """
    return _run(xgboost.cv, locals())


def _run(function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    """Check all that can be checked before any work is done, and call a function of XGBoost with ours as a callback.

    Parameters
    ----------
    function : callable
        `xgboost.train` or `xgboost.cv`.
    arguments : dict
        Its arguments, and `options`.
    """
    passed = {name: value for name, value in arguments.items() if name != "options"}
    abc = ABCBoost(**arguments["options"]).for_params(passed["params"])
    _check_arguments(passed["dtrain"], passed["num_boost_round"], passed.get("evals"))
    passed["params"] = with_objective(passed["params"], passed["dtrain"])
    check_obj(passed["obj"], passed["params"])
    passed["callbacks"] = [abc, *(passed["callbacks"] or ())]
    return function(**passed)


def _check_arguments(dtrain: Any, num_boost_round: Any, evals: Any) -> None:
    """Refuse what XGBoost would fail on without naming it, or take as no rounds at all."""
    if not isinstance(dtrain, DMatrix):
        fail("dtrain", type(dtrain).__name__, "an xgboost.DMatrix", TypeError)
    check_integer("num_boost_round", num_boost_round, minimum=0)
    if evals is not None:
        named = isinstance(evals, Sequence) and all(isinstance(item, tuple) and len(item) == 2 for item in evals)
        if not named or not all(isinstance(matrix, DMatrix) for matrix, _ in evals):
            fail("evals", type(evals).__name__, "a list of (xgboost.DMatrix, name) tuples", TypeError)


def with_objective(params: Mapping[str, Any], dtrain: DMatrix) -> dict[str, Any]:
    """Return the parameters with an objective, and with the number of classes if they have none."""
    filled = check_params(params)
    if "num_class" not in filled and str(filled.get("objective", "multi:")).startswith("multi:"):
        labels = dtrain.get_label()
        n_classes = int(labels.max()) + 1 if labels.size else 0
        if n_classes <= 2 and "objective" not in filled:
            filled["objective"] = "binary:logistic"
        else:
            filled["num_class"] = n_classes
    filled.setdefault("objective", "multi:softprob")
    return filled
