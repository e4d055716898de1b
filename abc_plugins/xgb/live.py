"""The booster of a training run: XGBoost's own loop and callbacks drive it, and every round of it is an ABC round.

`LiveBooster` is an `xgboost.Booster` whose `update` adds a round of ABC-Boost and whose `eval_set` evaluates the
scores of it. Whatever else a callback does with it - save, slice, pickle, predict - happens on a stock model that is
put together when it is needed.
"""

from __future__ import annotations

import json
from collections.abc import Container, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from xgboost import Booster, DMatrix, collective
from xgboost.callback import TrainingCallback

from abc_plugins.core.losses import scores_of_masses
from abc_plugins.core.options import BoostOptions, Past
from abc_plugins.core.runtime.arrays import AnyArray, Floats
from abc_plugins.core.runtime.checks import fail
from abc_plugins.core.runtime.parallel import Workers
from abc_plugins.core.scores import PairScores
from abc_plugins.xgb.directional import DirectionalMaker, VectorRound
from abc_plugins.xgb.evaluating import CustomMetric, Scored, XGBoostMetrics, custom_metric_line
from abc_plugins.xgb.format.trees import Document
from abc_plugins.xgb.internals import exchange_boosters
from abc_plugins.xgb.rounds import Round, RoundMaker
from abc_plugins.xgb.settings import RoundSettings, check_params, has_several_classes
from abc_plugins.xgb.stock import StockRound, base_classes, extend_model, with_model
from abc_plugins.xgb.xgboost_grower import read_model


class LiveBooster(Booster):
    """An ABC model in training.

    Parameters
    ----------
    start : Booster
        Has the user's parameters, and the trees of the model that is continued, if any.
    options : BoostOptions
    named : collection of str
        The parameters of XGBoost that the user has set, as far as that is known.
    """

    def __init__(self, start: Booster, options: BoostOptions, named: Container[str] = ()) -> None:
        self._stale = False
        super().__init__()
        self._start = start
        self._options, self._named = options, named
        self._round_settings = RoundSettings.of(start, options, named)
        self._starts_from_priors = False
        if start.num_boosted_rounds() == 0 and _starts_from_average(start):
            start.set_param("base_score", 0.0)
            self._starts_from_priors = options.is_directional
        self._past = _past_of(start)
        if not options.is_directional:
            options.base_schedule(self._n_classes)  # refuses a search over more classes than there are
        self._document: Document = read_model(start)
        self._attributes: dict[str, str] = start.attributes()
        self._attributes.pop("directions", None)
        self._rounds: list[StockRound] = []
        self._metrics = XGBoostMetrics(self._round_settings.metric_params, self._round_settings.n_classes)
        self._workers = Workers(self._round_settings.n_threads)
        self._training: RoundMaker | DirectionalMaker | None = None
        self._evaluated: WeakKeyDictionary[DMatrix, _EvaluatedScores] = WeakKeyDictionary()
        self._last: Round | VectorRound | None = None
        self._stale = True

    # The C model behind the inherited methods is brought up to date when one of them asks for it.

    @property
    def handle(self) -> Any:
        """The C handle of a stock model of all rounds so far."""
        if self._stale:
            self._stale = False
            self.load_model(self.to_stock().save_raw("ubj"))
        return self._handle

    @handle.setter
    def handle(self, handle: Any) -> None:
        self._handle = handle

    def __del__(self) -> None:
        self._stale = False
        super().__del__()

    def __getstate__(self) -> dict[str, Any]:
        return self.to_stock().__getstate__()

    def __reduce__(self) -> tuple[Any, ...]:
        return Booster, (None, None, self.to_stock())

    def to_stock(self) -> Booster:
        """Put the rounds so far together as a stock booster with the parameters of the run."""
        maker = self._training
        guarded, bases, directions = self._past.guarded_rounds, self._past.bases, self._past.directions
        if maker is not None:
            guarded, bases, directions = guarded + maker.guarded_rounds, maker.bases, maker.directions
        attributes = self._attributes | {"base_classes": json.dumps(bases), "guarded_rounds": str(guarded)}
        if directions:
            attributes["directions"] = json.dumps({"n_rounds": len(bases), **directions})
        rounds = [stock_round.scalar_trees() for stock_round in self._rounds]
        return with_model(self._start, extend_model(self._document, rounds, attributes))

    def reset(self) -> Booster:
        """End the run: free what it held, and return the stock booster.

        `xgboost.train` returns what `reset` of its booster returns, and has called all callbacks by then.
        """
        self._workers.close()
        return self.to_stock()

    # What training and its callbacks call round after round

    def update(self, dtrain: DMatrix, iteration: int, fobj: Any = None) -> None:
        """Add one round."""
        if fobj is not None:
            fail("obj", fobj, "None: ABC-Boost is the objective for more than two classes", TypeError)
        self._last = self._maker(dtrain).make(self._round_settings, iteration)
        self._rounds.append(self._last.to_stock())
        if len(self._rounds) == 1 and not self._start.num_boosted_rounds():
            self._document["learner"]["gradient_booster"]["model"]["cats"] = self._last.grown.categories
        self._stale = True

    def eval_set(
        self,
        evals: Sequence[tuple[DMatrix, str]],
        iteration: int = 0,
        feval: CustomMetric | None = None,
        output_margin: bool = True,
    ) -> str:
        """Evaluate all metrics on all sets at the current scores."""
        sets: list[Scored] = [(matrix, name, self._scores_of(matrix)) for matrix, name in evals]
        line = self._metrics.evaluate(sets, iteration)
        if feval is None:
            return line
        objective = self._round_settings.metric_params["objective"]
        return line + custom_metric_line(feval, sets, output_margin=output_margin, objective=objective)

    def set_param(self, params: Any, value: str | None = None) -> None:
        """Change parameters from the next round on."""
        if not hasattr(self, "_start"):  # Booster.__init__ sets the parameters it was given: none
            return
        self._start.set_param(params, value)
        self._round_settings = RoundSettings.of(self._start, self._options, self._named)
        self._stale = True

    def set_attr(self, **kwargs: Any) -> None:
        """Set attributes of the model; None deletes one."""
        for name, value in kwargs.items():
            if value is None:
                self._attributes.pop(name, None)
            else:
                self._attributes[name] = str(value)
        self._stale = True

    def attr(self, key: str) -> str | None:
        """Get an attribute of the model."""
        return self._attributes.get(key)

    def attributes(self) -> dict[str, str | None]:
        """Get all attributes of the model."""
        return dict(self._attributes)

    def num_boosted_rounds(self) -> int:
        """Count the rounds."""
        return len(self._past.bases) + len(self._rounds)

    @property
    def _n_classes(self) -> int:
        return self._round_settings.n_classes

    def _maker(self, matrix: DMatrix) -> RoundMaker | DirectionalMaker:
        if self._training is None:
            self._training = self._directional_maker(matrix) if self._options.is_directional else self._pairs(matrix)
        if self._training.matrix is not matrix:
            fail("dtrain", "another DMatrix", "the one of the rounds before")
        return self._training

    def _pairs(self, matrix: DMatrix) -> RoundMaker:
        schedule = self._options.base_schedule(self._n_classes)
        for base in self._past.bases:
            schedule.record(base)
        labels, weights = _labels_and_weights(matrix, self._n_classes)
        reduce = reduce_sums if collective.get_world_size() > 1 else None
        scores = PairScores(labels, weights, self._start_margins(matrix), self._workers, reduce)
        return RoundMaker(matrix, scores, schedule, self._options, self._round_settings)

    def _directional_maker(self, matrix: DMatrix) -> DirectionalMaker:
        labels, weights = _labels_and_weights(matrix, self._n_classes)
        start = np.zeros(self._n_classes)
        if self._starts_from_priors and matrix.get_base_margin().size == 0:
            masses = np.bincount(labels, weights=weights, minlength=self._n_classes).astype(np.float64)
            start = scores_of_masses(reduce_sums(masses), 1.0).astype(np.float32).astype(np.float64)
        return DirectionalMaker(
            matrix,
            labels,
            weights,
            self._start_margins(matrix),
            start,
            self._past,
            self._options,
            self._round_settings,
            self._workers,
            reduce_sums,
        )

    def _scores_of(self, matrix: DMatrix) -> Floats:
        """Scores of any matrix, shape (n_classes, n_samples); a matrix seen in the round before costs one round."""
        if self._training is not None and matrix is self._training.matrix:
            return self._training.scores
        n_rounds = len(self._rounds)
        seen = self._evaluated.get(matrix)
        if seen is None and n_rounds == 1:
            seen = _EvaluatedScores(self._start_margins(matrix), 0)
        if seen is not None and self._last is not None and seen.n_rounds == n_rounds - 1:
            self._last.add_to(seen.scores, matrix)
            seen.n_rounds += 1
        elif seen is None or seen.n_rounds != n_rounds:
            margins = self.to_stock().predict(matrix, output_margin=True)
            seen = _EvaluatedScores(margins.T.astype(np.float64), n_rounds)
        self._evaluated[matrix] = seen
        return seen.scores

    def _start_margins(self, matrix: DMatrix) -> Floats:
        margins = self._start.predict(matrix, output_margin=True, strict_shape=True)
        return margins.reshape(matrix.num_row(), self._n_classes).T.astype(np.float64)


def _past_of(start: Booster) -> Past:
    """What is known of the rounds of a model that is continued; XGBoost may have added some since, or cut some off."""
    bases, guarded = tuple(base_classes(start)), int(start.attr("guarded_rounds") or 0)
    state = json.loads(start.attr("directions") or "{}")
    return Past(bases, guarded, directions=state if state.pop("n_rounds", None) == len(bases) else {})


class _EvaluatedScores:
    """Scores of an evaluation set after some rounds."""

    def __init__(self, scores: Floats, n_rounds: int) -> None:
        self.scores = np.ascontiguousarray(scores)
        self.n_rounds = n_rounds


def reduce_sums(sums: Floats) -> Floats:
    """Add the sums of all workers of a cluster; all workers get the same, bit for bit."""
    if collective.get_world_size() == 1:
        return sums
    return collective.allreduce(sums, collective.Op.SUM).reshape(sums.shape)


def _starts_from_average(booster: Booster) -> bool:
    """Whether XGBoost would estimate starting scores; the user gave no `base_score`."""
    config = json.loads(booster.save_config())
    return bool(int(config["learner"]["learner_model_param"].get("boost_from_average", 0)))


def _labels_and_weights(matrix: DMatrix, n_classes: int) -> tuple[AnyArray, Floats]:
    """Class indices and weights of the rows. All workers of a cluster fail together: none waits for the others."""
    labels, weights = matrix.get_label(), matrix.get_weight()
    if reduce_sums(np.array([matrix.num_row() if weights.size == 0 else weights.sum()], dtype=np.float64))[0] <= 0:
        fail("weight", "only zeros", "not 0 everywhere")
    missing = labels.size != matrix.num_row()
    bad = labels[(labels != np.floor(labels)) | (labels < 0) | (labels >= n_classes)]
    if reduce_sums(np.array([bad.size + missing], dtype=np.float64))[0] > 0:
        value = "no label for some row" if missing else (bad[0] if bad.size else "another value on another worker")
        fail("label", value, f"a class index from 0 to num_class - 1 = {n_classes - 1} for every row")
    return labels.astype(np.int32), weights.astype(np.float64) if weights.size else np.ones(labels.size)


class ABCBoost(TrainingCallback):
    """Train directional trees, or with an adaptive base class, wherever XGBoost takes callbacks.

    `abc_plugins.xgb.train`, `cv`, the estimators and the Dask versions all use it; in `xgboost.train`,
    `xgboost.spark` or code of your own it can be given directly. Put it first in the list of callbacks. Objectives
    for two classes are left to XGBoost.

    Parameters
    ----------
    **options
        See `abc_plugins.core.options.BoostOptions`: method, trees_per_round, search, gap, warmup, base_choice,
        pair_samples_per_leaf, leaf_reg_lambda, leaf_clip, leaf_values, guard.

    Examples
    --------
    >>> import numpy as np, xgboost
    >>> from abc_plugins.xgb import ABCBoost
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> data = xgboost.DMatrix(X, (X[:, 0] > 0).astype(int) + (X[:, 1] > 0))
    >>> params = {"objective": "multi:softprob", "num_class": 3}
    >>> booster = xgboost.train(params, data, 5, callbacks=[ABCBoost()])
    >>> type(booster).__name__, booster.num_boosted_rounds()
    ('Booster', 5)
    """

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.options = BoostOptions.of(options)
        self._named: frozenset[str] = frozenset()

    def for_params(self, params: Any) -> ABCBoost:
        """Note which of XGBoost's parameters the user has set: for others directional trees may have own defaults."""
        self._named = frozenset(check_params(params))
        return self

    def before_training(self, model: Any) -> Any:
        """Let a `LiveBooster` take the place of XGBoost's booster, or of the booster of every fold."""
        return exchange_boosters(model, self._live)

    def _live(self, booster: Booster) -> Booster:
        return LiveBooster(booster, self.options, self._named) if has_several_classes(booster) else booster
