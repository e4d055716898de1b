"""How LightGBM and XGBoost train, themselves and with the adapter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from engines.schedules import CLASSIC_ROUNDS, Schedule

NUM_LEAVES = 20
LEARNING_RATE = 0.1


Samples = tuple[np.ndarray, np.ndarray]
"""Features and class indices."""


class Engine(Protocol):
    """One library: how its data are made, and how it trains with a schedule."""

    package: str
    extra: tuple[Schedule, ...]

    def data(self, X: np.ndarray, y: np.ndarray) -> Any:
        """Bin the data once, outside of any timing."""

    def train(self, data: Any, n_classes: int, rounds: int, schedule: Schedule, clip: float | None) -> Any:
        """Train a stock model or one with an adaptive base class."""

    def test_errors(
        self, data: Any, n_classes: int, rounds: int, schedule: Schedule, clip: float, X: np.ndarray, y: np.ndarray
    ) -> int:
        """Train, and count wrong predictions of the test samples."""

    def grow(
        self, train: Samples, valid: Samples, n_classes: int, rounds: int, schedule: Schedule, target: float | None
    ) -> tuple[bytes, list[float]]:
        """Train until `valid` has the log loss `target`, or keep the best round; return file and log losses."""

    def load(self, file: bytes) -> tuple[Callable[[np.ndarray], np.ndarray], int]:
        """Read a model with the library itself; its prediction on one thread, its number of trees."""


class LightGBM:
    """lightgbm.train and abc_plugins.lgbm.train; `clip` is max_delta_step."""

    package = "lightgbm"
    extra = ()

    def data(self, X: np.ndarray, y: np.ndarray) -> Any:
        """Construct a Dataset."""
        import lightgbm as lgb

        return lgb.Dataset(X, y, params={"verbosity": -1}).construct()

    def train(
        self, data: Any, n_classes: int, rounds: int, schedule: Schedule, clip: float | None, **evaluation: Any
    ) -> Any:
        """Train; `evaluation` are further arguments of both `train` functions."""
        import lightgbm as lgb

        import abc_plugins.lgbm as abc_lgbm

        params = {
            "objective": "multiclass",
            "num_class": n_classes,
            "num_leaves": NUM_LEAVES,
            "learning_rate": LEARNING_RATE,
            "max_delta_step": clip or 0.0,
            "num_threads": 1,
            "verbosity": -1,
            "metric": "multi_error",
        }
        if schedule.is_stock:
            return lgb.train(params, data, rounds, **evaluation)
        return abc_lgbm.train(params, data, rounds, **schedule.options(), **evaluation)

    def test_errors(
        self, data: Any, n_classes: int, rounds: int, schedule: Schedule, clip: float, X: np.ndarray, y: np.ndarray
    ) -> int:
        """Count wrong predictions, as the validation metric of the last round: binned, which is faster."""
        import lightgbm as lgb

        evals: dict[str, Any] = {}
        self.train(
            data,
            n_classes,
            rounds,
            schedule,
            clip,
            valid_sets=[lgb.Dataset(X, y, reference=data)],
            callbacks=[lgb.record_evaluation(evals)],
        )
        return round(evals["valid_0"]["multi_error"][-1] * y.size)

    def grow(
        self, train: Samples, valid: Samples, n_classes: int, rounds: int, schedule: Schedule, target: float | None
    ) -> tuple[bytes, list[float]]:
        """Stop by LightGBM's own exception; the file is its text."""
        import lightgbm as lgb

        data = lgb.Dataset(*train, params={"verbosity": -1})  # not yet binned: our min_data_in_leaf can have effect
        losses: list[float] = []

        def note(env: Any) -> None:
            losses.append(next(value for _, metric, value, _ in env.evaluation_result_list if metric == "log loss"))
            if target is not None and losses[-1] <= target:
                raise lgb.callback.EarlyStopException(env.iteration, env.evaluation_result_list)

        booster = self.train(
            data,
            n_classes,
            rounds,
            schedule,
            4.0,
            valid_sets=[lgb.Dataset(*valid, reference=data)],
            feval=lambda p, dataset: ("log loss", log_loss(p, dataset.get_label()), False),
            callbacks=[note],
        )
        kept = {} if target is not None else {"num_iteration": int(np.argmin(losses)) + 1}
        return booster.model_to_string(**kept).encode(), losses

    def load(self, file: bytes) -> tuple[Callable[[np.ndarray], np.ndarray], int]:
        """Read LightGBM's text."""
        import lightgbm as lgb

        booster = lgb.Booster(model_str=file.decode())
        return lambda X: booster.predict(X, num_threads=1), booster.num_trees()


class XGBoost:
    """xgboost.train and abc_plugins.xgb.train; `clip` is max_delta_step.

    No L2 penalty and next to no minimum of a child's weight, as in the paper. Stock XGBoost 3.2 takes 2 p (1 - p) as
    its hessian, and so half a Newton step: classic rounds with p (1 - p) stand beside it.
    """

    package = "xgboost"
    extra = (CLASSIC_ROUNDS,)

    def data(self, X: np.ndarray, y: np.ndarray) -> Any:
        """Construct a QuantileDMatrix."""
        import xgboost

        return xgboost.QuantileDMatrix(X, y, nthread=1)

    def train(
        self, data: Any, n_classes: int, rounds: int, schedule: Schedule, clip: float | None, **evaluation: Any
    ) -> Any:
        """Train; `evaluation` are further arguments of both `train` functions."""
        import xgboost

        import abc_plugins.xgb as abc_xgb

        params = {
            "objective": "multi:softprob",
            "num_class": n_classes,
            "grow_policy": "lossguide",
            "max_leaves": NUM_LEAVES,
            "max_depth": 0,
            "learning_rate": LEARNING_RATE,
            "reg_lambda": 0.0,
            "min_child_weight": 1e-3,
            "max_delta_step": clip or 0.0,
            "nthread": 1,
        }
        if schedule.is_stock:
            return xgboost.train(params, data, rounds, **evaluation)
        return abc_xgb.train(params, data, rounds, **schedule.options(), **evaluation)

    def test_errors(
        self, data: Any, n_classes: int, rounds: int, schedule: Schedule, clip: float, X: np.ndarray, y: np.ndarray
    ) -> int:
        """Train, predict and count wrong predictions."""
        model = self.train(data, n_classes, rounds, schedule, clip)
        return int((model.inplace_predict(X).argmax(axis=1) != y).sum())

    def grow(
        self, train: Samples, valid: Samples, n_classes: int, rounds: int, schedule: Schedule, target: float | None
    ) -> tuple[bytes, list[float]]:
        """Stop by a callback; the file is universal binary JSON."""
        import xgboost

        data = self.data(*train)
        evals: dict[str, Any] = {}

        class Stop(xgboost.callback.TrainingCallback):
            def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:  # noqa: ARG002
                return target is not None and evals_log["valid"]["mlogloss"][-1] <= target

        booster = self.train(
            data,
            n_classes,
            rounds,
            schedule,
            4.0,
            evals=[(xgboost.QuantileDMatrix(*valid, ref=data, nthread=1), "valid")],
            evals_result=evals,
            verbose_eval=False,
            callbacks=[Stop()],
        )
        losses = evals["valid"]["mlogloss"]
        kept = booster if target is not None else booster[: int(np.argmin(losses)) + 1]
        return bytes(kept.save_raw("ubj")), losses

    def load(self, file: bytes) -> tuple[Callable[[np.ndarray], np.ndarray], int]:
        """Read XGBoost's file."""
        import xgboost

        booster = xgboost.Booster({"nthread": 1}, model_file=bytearray(file))
        return booster.inplace_predict, len(booster.get_dump())


ENGINES: dict[str, Callable[[], Engine]] = {"lightgbm": LightGBM, "xgboost": XGBoost}


def log_loss(probabilities: np.ndarray, y: np.ndarray) -> float:
    """Mean of -log p of the labels."""
    return float(-np.log(np.maximum(probabilities[np.arange(y.size), y.astype(int)], 1e-15)).mean())
