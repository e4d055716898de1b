"""How each engine is watched while it trains, and what its model predicts after every round."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from abc_plugins.core.pairs import trees_by_round
from abc_plugins.core.runtime.arrays import AnyArray, Floats
from abc_plugins.core.runtime.values import softmax
from abc_plugins.core.schedule import CLASSIC, BaseClassSchedule

_CELLS_PER_CHUNK = 20_000_000  # leaf numbers of rows and trees that are held at once


class Stopwatch:
    """Times of one fit.

    Attributes
    ----------
    started, ready, ended : float
        When `fit` was called, when the first round began, when `fit` returned.
    rounds : list of float
        When each round ended.
    trees : list of int
        Trees grown until the end of each round, where the engine tells it.
    model : object
        The booster that LightGBM's callbacks see.
    """

    def __init__(self) -> None:
        self.started = self.ready = self.ended = 0.0
        self.rounds: list[float] = []
        self.trees: list[int] = []
        self.model: Any = None

    def start(self) -> None:
        """Note the start of `fit`."""
        self.started = self.ready = time.perf_counter()

    def begin_rounds(self) -> None:
        """Note that the first round begins."""
        self.ready = time.perf_counter()

    def end_round(self) -> None:
        """Note the end of a round."""
        self.rounds.append(time.perf_counter())

    def end(self) -> None:
        """Note the end of `fit`."""
        self.ended = time.perf_counter()


class WatchedEngine(Protocol):
    """What a comparison needs to know of an engine."""

    def fit(self, model: Any, X: AnyArray, y: AnyArray, watch: Stopwatch) -> None:
        """Fit the classifier under the stopwatch."""

    def staged_probabilities(self, model: Any, X: AnyArray, watch: Stopwatch) -> Iterator[tuple[slice, int, Floats]]:
        """Yield (rows, round, probabilities of these rows after this round), all rounds of some rows in order."""

    def trees(self, model: Any, n_classes: int, watch: Stopwatch) -> list[int]:
        """Trees grown until the end of every round, those of losing candidates included."""

    def bases(self, model: Any) -> list[int] | None:
        """Base class of every round; None for an engine without."""


class WatchedNative:
    """ABCBoostClassifier."""

    def fit(self, model: Any, X: AnyArray, y: AnyArray, watch: Stopwatch) -> None:
        """Fit under the stopwatch."""
        from abc_plugins.callbacks import Callback, RoundContext

        class Watcher(Callback):
            def before_training(self, context: RoundContext) -> None:  # noqa: ARG002
                watch.begin_rounds()

            def after_round(self, context: RoundContext) -> None:
                watch.trees.append(context.trees_grown)
                watch.end_round()

        watch.start()
        model.fit(X, y, callbacks=[Watcher()])
        watch.end()

    def staged_probabilities(self, model: Any, X: AnyArray, watch: Stopwatch) -> Iterator[tuple[slice, int, Floats]]:  # noqa: ARG002
        """Yield what the model predicts after every round."""
        for index, probabilities in enumerate(model.staged_predict_proba(X)):
            yield slice(None), index, probabilities

    def trees(self, model: Any, n_classes: int, watch: Stopwatch) -> list[int]:  # noqa: ARG002
        """Count as the booster does."""
        return watch.trees

    def bases(self, model: Any) -> list[int] | None:
        """Base classes of the methods that have them."""
        return model.base_classes_.tolist() if model.method.startswith("abc") else None


class WatchedLightGBM:
    """LGBMClassifier and ABCLGBMClassifier."""

    def fit(self, model: Any, X: AnyArray, y: AnyArray, watch: Stopwatch) -> None:
        """Fit under the stopwatch."""

        def before(environment: Any) -> None:
            if not watch.rounds:
                watch.begin_rounds()
            watch.model = environment.model

        def after(_: Any) -> None:
            watch.end_round()

        before.before_iteration = True  # type: ignore[attr-defined]
        watch.start()
        model.fit(X, y, callbacks=[before, after])
        watch.end()

    def staged_probabilities(self, model: Any, X: AnyArray, watch: Stopwatch) -> Iterator[tuple[slice, int, Floats]]:
        """Add up the trees of every round."""
        booster = model.booster_
        if not hasattr(watch.model, "round_pairs"):
            yield from self._stock_stages(booster, X, model.n_jobs)
            return
        slots = _slots_by_round(watch.model.round_pairs(), model.n_classes_)
        values = _leaf_values(booster)
        for rows in _row_chunks(len(X), booster.num_trees()):
            leaves = booster.predict(X[rows], pred_leaf=True, num_threads=model.n_jobs)
            leaves = leaves.astype(np.int64).reshape(len(X[rows]), -1)
            scores = np.zeros((leaves.shape[0], model.n_classes_))
            for index, trees in enumerate(slots):
                for tree in trees:
                    scores[:, tree % model.n_classes_] += values[tree, leaves[:, tree]]
                yield rows, index, softmax(scores)

    def _stock_stages(self, booster: Any, X: AnyArray, n_threads: int) -> Iterator[tuple[slice, int, Floats]]:
        scores: Any = 0.0
        for index in range(booster.current_iteration()):
            part = {"start_iteration": index, "num_iteration": 1}
            scores = scores + booster.predict(X, **part, raw_score=True, num_threads=n_threads)
            yield slice(None), index, softmax(_two_columns(scores))

    def trees(self, model: Any, n_classes: int, watch: Stopwatch) -> list[int]:
        """Count by the schedule."""
        return _scheduled_trees(model, n_classes, len(watch.rounds))

    def bases(self, model: Any) -> list[int] | None:
        """Base classes, if it has them."""
        return model.base_classes_.tolist() if hasattr(model, "search") else None


class WatchedXGBoost:
    """XGBClassifier and ABCXGBClassifier."""

    def fit(self, model: Any, X: AnyArray, y: AnyArray, watch: Stopwatch) -> None:
        """Fit under the stopwatch."""
        from xgboost.callback import TrainingCallback

        class Watcher(TrainingCallback):
            def before_training(self, model: Any) -> Any:
                watch.begin_rounds()
                return model

            def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:  # noqa: ARG002
                watch.end_round()
                return False

        model.set_params(callbacks=[Watcher()])
        watch.start()
        model.fit(X, y, verbose=False)
        watch.end()

    def staged_probabilities(self, model: Any, X: AnyArray, watch: Stopwatch) -> Iterator[tuple[slice, int, Floats]]:
        """Add up the margins of every round; a margin of zeros in the data takes the place of the intercept."""
        import xgboost

        booster, n_columns = model.get_booster(), model.n_classes_ if model.n_classes_ > 2 else 1
        plain = xgboost.DMatrix(X, nthread=model.n_jobs)
        bare = xgboost.DMatrix(X, base_margin=np.zeros((len(X), n_columns)), nthread=model.n_jobs)
        first = booster.predict(plain, iteration_range=(0, 1), output_margin=True).astype(np.float64)
        scores = first - booster.predict(bare, iteration_range=(0, 1), output_margin=True)
        for index in range(len(watch.rounds)):
            scores = scores + booster.predict(bare, iteration_range=(index, index + 1), output_margin=True)
            yield slice(None), index, softmax(_two_columns(scores))

    def trees(self, model: Any, n_classes: int, watch: Stopwatch) -> list[int]:
        """Count by the schedule."""
        return _scheduled_trees(model, n_classes, len(watch.rounds))

    def bases(self, model: Any) -> list[int] | None:
        """Base classes, if it has them."""
        return [int(base) for base in model.base_classes_] if hasattr(model, "search") else None


class WatchedHistGB:
    """HistGradientBoostingClassifier."""

    def fit(self, model: Any, X: AnyArray, y: AnyArray, watch: Stopwatch) -> None:
        """Fit under the stopwatch; it tells nothing of its rounds."""
        watch.start()
        model.fit(X, y)
        watch.end()
        share = (watch.ended - watch.started) / model.n_iter_
        watch.rounds = [watch.started + share * (index + 1) for index in range(model.n_iter_)]

    def staged_probabilities(self, model: Any, X: AnyArray, watch: Stopwatch) -> Iterator[tuple[slice, int, Floats]]:  # noqa: ARG002
        """Yield what the model predicts after every round."""
        for index, probabilities in enumerate(model.staged_predict_proba(X)):
            yield slice(None), index, probabilities

    def trees(self, model: Any, n_classes: int, watch: Stopwatch) -> list[int]:
        """One per class and round."""
        return _scheduled_trees(model, n_classes, len(watch.rounds))

    def bases(self, model: Any) -> list[int] | None:  # noqa: ARG002
        """No base classes."""
        return None


class WatchedCatBoost(WatchedHistGB):
    """CatBoostClassifier."""

    def fit(self, model: Any, X: AnyArray, y: AnyArray, watch: Stopwatch) -> None:
        """Fit under the stopwatch."""

        class Watcher:
            def after_iteration(self, _: Any) -> bool:
                watch.end_round()
                return True

        watch.start()
        model.fit(X, y, callbacks=[Watcher()])
        watch.end()


# ------------------------------------------------------------------------------------------------ shared


def _scheduled_trees(model: Any, n_classes: int, n_rounds: int) -> list[int]:
    """Trees that the schedule of a classifier grows; without a schedule one per class and round."""
    return trees_by_round(base_schedule(model, n_classes), n_rounds)


def base_schedule(model: Any, n_classes: int) -> BaseClassSchedule:
    """Start the schedule of base classes that a classifier follows; what it leaves open has the schedule's defaults."""
    given = {name: getattr(model, name, None) for name in ("search", "gap", "warmup")}
    options = {name: value for name, value in given.items() if value is not None}
    return BaseClassSchedule(n_classes, **options, adaptive=hasattr(model, "search"))


def _two_columns(scores: Floats) -> Floats:
    """Scores of both classes where there is only the log odds of the second."""
    scores = np.asarray(scores, dtype=np.float64)
    if scores.ndim == 2 and scores.shape[1] > 1:
        return scores
    return np.column_stack([np.zeros(scores.shape[0]), scores.reshape(-1)])


def _slots_by_round(rounds: Sequence[Sequence[tuple[int, int]]], n_classes: int) -> list[list[int]]:
    """Find the trees of every round in LightGBM's compact layout: those of a class come in the order of rounds."""
    filled = [0] * n_classes
    slots: list[list[int]] = []
    for pairs in rounds:
        slots.append([])
        for label in (label for pair in pairs for label in pair if label != CLASSIC):
            slots[-1].append(filled[label] * n_classes + label)
            filled[label] += 1
    return slots


def _leaf_values(booster: Any) -> Floats:
    """Leaf values of all trees, shape (n_trees, largest number of leaves)."""
    lines = re.findall(r"(?m)^leaf_value=(.*)$", booster.model_to_string(num_iteration=-1))
    leaves = [np.array(line.split(), dtype=np.float64) for line in lines]
    values = np.zeros((len(leaves), max(tree.size for tree in leaves)))
    for row, tree in zip(values, leaves, strict=True):
        row[: tree.size] = tree
    return values


def _row_chunks(n_rows: int, n_trees: int) -> Iterator[slice]:
    size = max(1, _CELLS_PER_CHUNK // max(1, n_trees))
    for begin in range(0, n_rows, size):
        yield slice(begin, min(begin + size, n_rows))
