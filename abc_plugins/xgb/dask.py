"""xgboost.dask's API with directional trees, or with an adaptive base class.

Every worker runs the same rounds on its own rows. Besides the histograms that XGBoost adds up over the workers, they
add up losses and the sums that leaf values are made of, so that all choose the same and grow the same trees. Workers
need abc_plugins installed; whoever predicts with the booster does not.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

try:
    import distributed
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("abc_plugins.xgb.dask needs Dask: pip install 'abc-plugins[dask]'") from error
import xgboost.dask
from xgboost import Booster
from xgboost.callback import TrainingCallback
from xgboost.collective import Config
from xgboost.core import XGBoostError
from xgboost.dask import (
    DaskDMatrix,
    DaskQuantileDMatrix,
    DaskXGBClassifier,
    inplace_predict,
    predict,
)

from abc_plugins.core.runtime.checks import fail
from abc_plugins.xgb.estimator import ABCEstimator
from abc_plugins.xgb.evaluating import CustomMetric, Objective
from abc_plugins.xgb.live import ABCBoost
from abc_plugins.xgb.settings import check_obj, check_params

__all__ = ["ABCDaskXGBClassifier", "DaskDMatrix", "DaskQuantileDMatrix", "inplace_predict", "predict", "train"]

_NOTICE_SECONDS = 1.0  # the other workers may learn of a death before the scheduler does


def train(
    client: Any,
    params: Mapping[str, Any],
    dtrain: DaskDMatrix,
    num_boost_round: int = 10,
    *,
    evals: Sequence[tuple[DaskDMatrix, str]] | None = None,
    obj: Objective | None = None,
    early_stopping_rounds: int | None = None,
    xgb_model: Booster | None = None,
    verbose_eval: bool | int = True,
    callbacks: Sequence[TrainingCallback] | None = None,
    custom_metric: CustomMetric | None = None,
    coll_cfg: Config | None = None,
    **options: Any,
) -> Any:
    """Train on a Dask cluster; a drop-in for `xgboost.dask.train`.

    Parameters
    ----------
    client : distributed.Client or None
        None is the current client.
    params : dict
        XGBoost's parameters, with `num_class`. `objective` is "multi:softprob" unless given.
    dtrain : DaskDMatrix
        Training data; labels are class indices.
    num_boost_round, evals, obj, early_stopping_rounds, xgb_model, verbose_eval, callbacks, custom_metric, coll_cfg
        As in `xgboost.dask.train`; `obj` for two classes alone. Built-in metrics are those of all rows; early stopping
        rests on them.
    **options
        As in `abc_plugins.xgb.train`.

    Returns
    -------
    results : dict
        "booster", a stock xgboost.Booster, and "history", the evaluation metrics. An asynchronous client gives an
        awaitable of it.
    """
    abc = ABCBoost(**options).for_params(params)
    params = _with_objective(params)
    check_obj(obj, params)
    client = distributed.get_client() if client is None else client
    return _name_lost_workers(
        client,
        lambda: xgboost.dask.train(
            client,
            params,
            dtrain,
            num_boost_round,
            evals=evals,
            obj=obj,
            early_stopping_rounds=early_stopping_rounds,
            xgb_model=xgb_model,
            verbose_eval=verbose_eval,
            callbacks=[abc, *(callbacks or ())],
            custom_metric=custom_metric,
            coll_cfg=coll_cfg,
        ),
    )


def _with_objective(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters with an objective; the rows are spread out, and their classes are not counted."""
    filled = {"objective": "multi:softprob", **check_params(params)}
    if str(filled["objective"]).startswith("multi:") and "num_class" not in filled:
        fail("num_class", None, "given in params: the number of classes of all rows on all workers")
    return filled


class ABCDaskXGBClassifier(ABCEstimator, DaskXGBClassifier):
    """ABC-Boost on a Dask cluster with XGBoost's scikit-learn interface.

    Everything that `xgboost.dask.DaskXGBClassifier` takes and offers works as there.

    Parameters
    ----------
    method, trees_per_round, search, gap, warmup, base_choice, pair_samples_per_leaf, leaf_reg_lambda, leaf_clip, \
leaf_values, guard
        As in `abc_plugins.xgb.train`.
    **kwargs
        All parameters of `xgboost.dask.DaskXGBClassifier`.

    Attributes
    ----------
    base_classes_ : array of int, shape (n_rounds,)
        Base class of every round, -1 for a classic round.
    best_iteration_ : int
        Number of rounds that predictions use; `best_iteration` of XGBoost is an index, one less.
    """

    def _fit(self, fit: Callable[..., Any], arguments: dict[str, Any]) -> Any:
        if self.client.asynchronous:
            return self._fit_later(lambda: fit(**arguments))
        return _name_lost_workers(self.client, lambda: super(ABCDaskXGBClassifier, self)._fit(fit, arguments))

    async def _fit_later(self, fit: Callable[[], Any]) -> Any:
        with self._abc_training():
            return await _name_lost_workers(self.client, fit)


def _name_lost_workers(client: Any, training: Callable[[], Any]) -> Any:
    """Run the training; if a worker dies under it, say so in place of whatever Dask or XGBoost tripped over."""
    if client.asynchronous:
        return _name_lost_workers_later(client, training)
    before = set(client.nthreads())
    try:
        return training()
    except Exception as error:
        if isinstance(error, XGBoostError):
            time.sleep(_NOTICE_SECONDS)
        _raise_if_lost(before - set(client.nthreads()), error)
        raise


async def _name_lost_workers_later(client: Any, training: Callable[[], Any]) -> Any:
    before = set(await client.nthreads())
    try:
        return await training()
    except Exception as error:
        if isinstance(error, XGBoostError):
            await asyncio.sleep(_NOTICE_SECONDS)
        _raise_if_lost(before - set(await client.nthreads()), error)
        raise


def _raise_if_lost(lost: set[str], error: Exception) -> None:
    if lost:
        raise RuntimeError(
            f"training has lost the worker {', '.join(sorted(lost))}, and there is no model. Start it again with the "
            "workers that are left, or continue a checkpoint with xgb_model."
        ) from error
