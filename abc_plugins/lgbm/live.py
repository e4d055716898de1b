"""The Boosters that users hold: the finished model, the model with its data, and the one that callbacks see."""

from __future__ import annotations

import copy
import copyreg
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partialmethod
from typing import TYPE_CHECKING, Any, NoReturn

import lightgbm as lgb
from scipy.special import softmax

from abc_plugins.core.runtime.arrays import AnyArray, Floats
from abc_plugins.core.runtime.checks import fail
from abc_plugins.lgbm.internals import (
    Predictor,
    get_predictor,
    is_constructed,
    keep_objective_none,
    name_predictor,
    predictor_of,
)
from abc_plugins.lgbm.text import leaf_vectors_of, read_model, write_model

if TYPE_CHECKING:
    from abc_plugins.lgbm.trainer import Run


_MOST_LEAF_NUMBERS = 2**22
"""Leaf numbers that are asked for together: 32 MB."""

_OTHER_OUTPUTS = ("leaf_index", "contrib")
"""Names of arguments that ask for something else than probabilities or scores, beside those with "pred" in them."""


class SharedTrees:
    """Trees with a vector in every leaf, from a model that has a copy of each tree for every class.

    Parameters
    ----------
    structures : Booster
        One copy of each tree.
    vectors : list of arrays of shape (n_leaves, n_classes)
    """

    def __init__(self, structures: lgb.Booster, vectors: list[Floats]) -> None:
        self._structures, self._vectors = structures, vectors

    @classmethod
    def of(cls, text: str, n_classes: int) -> SharedTrees | None:
        """Read a text model; None if some trees of an iteration do not split alike."""
        frame, trees = read_model(text)
        vectors: list[Floats] = []
        for first in range(0, len(trees), n_classes):
            of_tree = leaf_vectors_of(trees[first : first + n_classes])
            if of_tree is None:
                return None
            vectors.append(of_tree)
        return cls(lgb.Booster(model_str=write_model(frame, trees[::n_classes], 1)), vectors) if vectors else None

    @staticmethod
    def asks_for_scores(arguments: Mapping[str, Any]) -> bool:
        """Whether these arguments of a prediction ask for probabilities or scores of all trees."""
        return not any(value and ("pred" in name or name in _OTHER_OUTPUTS) for name, value in arguments.items())

    def predict(self, data: Any, start: int, count: int, *, raw_score: bool = False, **kwargs: Any) -> Floats:
        """Predict as LightGBM does with `count` trees from `start` on, or with all of these if that is not positive."""
        last = len(self._vectors) if count <= 0 else min(start + count, len(self._vectors))
        leaves = self._leaves(data, start, 1, kwargs)
        scores = self._vectors[start][leaves[:, 0]]
        n_together = max(1, _MOST_LEAF_NUMBERS // max(len(leaves), 1))
        for first in range(start + 1, last, n_together):
            leaves = self._leaves(data, first, min(n_together, last - first), kwargs)
            for vectors, of_tree in zip(self._vectors[first:], leaves.T, strict=False):
                scores += vectors[of_tree]
        return scores if raw_score else softmax(scores, axis=1)

    def _leaves(self, data: Any, first: int, count: int, kwargs: dict[str, Any]) -> AnyArray:
        """The leaf of every row in some trees, shape (n_rows, count)."""
        which = {"start_iteration": first, "num_iteration": count, "pred_leaf": True}
        return self._structures.predict(data, **{**kwargs, **which}).reshape(-1, count)


def _has_no_rows(data: Any) -> bool:
    """Whether a table is empty, for which LightGBM has an answer of its own."""
    return len(getattr(data, "shape", ())) == 2 and data.shape[0] == 0


class ABCBooster(lgb.Booster):
    """A finished model: a stock Booster that knows its rounds.

    Copies know them as well. Pickles hold a plain `lightgbm.Booster` with the attribute `abc_info`: to be read, they
    need LightGBM alone.
    """

    abc_info: dict[str, Any]
    _shared: tuple[SharedTrees | None, ...] = ()
    """Made by a prediction, gone with any change of the trees."""

    def __deepcopy__(self, *_memo: Any) -> ABCBooster:
        """Copy the model; `copy.copy` comes here, too."""
        copied = ABCBooster(model_str=self.model_to_string(num_iteration=-1))
        if hasattr(self, "abc_info"):
            copied.abc_info = copy.deepcopy(self.abc_info)
        return copied

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_shared"}

    def __reduce__(self) -> Any:
        return copyreg._reconstructor, (lgb.Booster, object, None), self.__getstate__()  # type: ignore[attr-defined]

    def predict(
        self,
        data: Any,
        start_iteration: int = 0,
        num_iteration: int | None = None,
        raw_score: bool = False,
        pred_leaf: bool = False,
        pred_contrib: bool = False,
        data_has_header: bool = False,
        validate_features: bool = False,
        **kwargs: Any,
    ) -> Any:
        """Predict as `lightgbm.Booster` does; warn of iterations that cut a round into pieces."""
        self._warn_of_a_cut(start_iteration, num_iteration)
        how = {"raw_score": raw_score, "pred_leaf": pred_leaf, "pred_contrib": pred_contrib, **kwargs}
        how |= {"data_has_header": data_has_header, "validate_features": validate_features}
        starts_inside = 0 <= start_iteration < self.current_iteration()
        if starts_inside and SharedTrees.asks_for_scores(how) and not _has_no_rows(data):
            shared = self._shared_trees()
            if shared is not None:
                wanted = self.best_iteration if num_iteration is None else num_iteration
                return shared.predict(data, start_iteration, wanted, **how)
        return super().predict(data, start_iteration=start_iteration, num_iteration=num_iteration, **how)

    def _warn_of_a_cut(self, start_iteration: int, num_iteration: int | None) -> None:
        last = start_iteration + (num_iteration or 0)
        known = getattr(self, "abc_info", {"round_iterations": {}})
        if not known["round_iterations"]:
            return
        ends = {0, self.current_iteration(), *known["round_iterations"].values()}
        is_cut = (num_iteration or 0) > 0 and last < max(ends)
        if start_iteration not in ends or (is_cut and last not in ends):
            warnings.warn(
                f"start_iteration={start_iteration}, num_iteration={num_iteration} cuts a round of this model into "
                "pieces: an iteration of LightGBM is not a round here. model_info(booster)['round_iterations'] tells "
                "where rounds end; layout='rounds' lets every round end at an iteration.",
                UserWarning,
                stacklevel=3,
            )

    def _shared_trees(self) -> SharedTrees | None:
        """The trees with leaf vectors, if those of all classes split alike; made by the first prediction."""
        if not self._shared:
            self._shared = (SharedTrees.of(self.model_to_string(num_iteration=-1), self.num_model_per_iteration()),)
        return self._shared[0]

    def update(self, *args: Any, **kwargs: Any) -> bool:
        """Go on with the training."""
        self._shared = ()
        return super().update(*args, **kwargs)

    def rollback_one_iter(self) -> ABCBooster:
        """Drop an iteration."""
        self._shared = ()
        return super().rollback_one_iter()

    def set_leaf_output(self, *args: Any, **kwargs: Any) -> ABCBooster:
        """Set a leaf value."""
        self._shared = ()
        return super().set_leaf_output(*args, **kwargs)

    def shuffle_models(self, *args: Any, **kwargs: Any) -> ABCBooster:
        """Change the order of the iterations."""
        self._shared = ()
        return super().shuffle_models(*args, **kwargs)

    def model_from_string(self, model_str: str) -> ABCBooster:
        """Read another model, whose rounds are not known."""
        self._shared = ()
        if hasattr(self, "abc_info"):
            del self.abc_info
        return super().model_from_string(model_str)


class KeptBooster(ABCBooster):
    """A finished model with its data: it can be evaluated, and `update` goes on with LightGBM's own objective.

    Parameters
    ----------
    finished : ABCBooster
    params : dict
        Parameters of further rounds.
    train : tuple of (name, Dataset, scores of shape (n_samples, n_classes))
    valid : sequence of such tuples
    """

    def __init__(
        self,
        finished: ABCBooster,
        params: dict[str, Any],
        train: tuple[str, lgb.Dataset, Floats],
        valid: Sequence[tuple[str, lgb.Dataset, Floats]],
    ) -> None:
        self._finished = finished
        self._predictor = predictor_of(finished, params)
        name, data, scores = train
        with _starting_at(data, scores, self._predictor):
            super().__init__(params=params, train_set=data)
        self.set_train_data_name(name)
        for name, data, scores in valid:
            with _starting_at(data, scores, self._predictor):
                super().add_valid(data, name)
        for attribute in ("best_iteration", "best_score", "abc_info"):
            setattr(self, attribute, getattr(finished, attribute))

    def add_valid(self, data: lgb.Dataset, name: str) -> KeptBooster:
        """Add a validation set, whose scores start at those of the finished model."""
        if not isinstance(data, lgb.Dataset):
            fail("data", type(data).__name__, "a lightgbm.Dataset", TypeError)
        values = data.data if not is_constructed(data) and data.data is not None else data.construct().get_data()
        scores = lgb.Booster.predict(self._finished, values, raw_score=True, num_iteration=-1)
        own = data.construct().get_init_score()
        if own is not None:
            scores = scores + own.reshape(scores.shape, order="F")
        with _starting_at(data, scores, self._predictor):
            super().add_valid(data, name)
        return self

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name not in ("_finished", "_predictor")}


@contextmanager
def _starting_at(data: lgb.Dataset, scores: Floats, predictor: Predictor) -> Iterator[None]:
    """Let a Dataset start at these scores while a Booster takes it over; then it is the caller's as it was."""
    own_scores, own_predictor = data.init_score, get_predictor(data)
    data.set_init_score(scores)
    name_predictor(data, predictor)
    try:
        yield
    finally:
        name_predictor(data, own_predictor)
        if own_scores is None:
            data.set_field("init_score", None)
            data.init_score = None
        else:
            data.set_init_score(own_scores)


class GrowingBooster(lgb.Booster):
    """Grows the trees of a run, and shows the model so far to callbacks.

    LightGBM's own view of it is of trees only, without what they take from a base class, and of none of directional
    trees, which are grown elsewhere. All that reads the
    model (to predict, to evaluate, to save a checkpoint, to look at its trees) is therefore answered by the run, or by
    the finished model of the rounds so far. What would change its trees is refused.
    """

    _trainer: Run | None = None

    def __init__(self, params: dict[str, Any], train_set: lgb.Dataset) -> None:
        super().__init__(params=params, train_set=train_set)
        keep_objective_none(self)
        self._changed: dict[str, Any] = {}
        self._own_names: set[str] = set()

    def follow(self, trainer: Run) -> None:
        """Show this run."""
        self._trainer = trainer
        self._own_names = set(vars(self))

    def hand_over(self, finished: ABCBooster) -> None:
        """Give the finished model what callbacks have left here: attributes, and parameters they have changed."""
        finished.params.update(self._changed)
        for name, value in vars(self).items():
            if name not in self._own_names:
                setattr(finished, name, value)

    def stock(self) -> lgb.Booster:
        """Return the model of the rounds so far as a stock Booster."""
        from abc_plugins.lgbm.exporting import finish

        trainer = self._run()
        finished = finish(trainer.model(), best_round=0, layout=trainer.params.options.layout)
        self.hand_over(finished)
        return finished

    def _run(self) -> Run:
        if self._trainer is None:
            raise RuntimeError("The run has not started.")
        return self._trainer

    def __deepcopy__(self, *_memo: Any) -> lgb.Booster:
        return self.stock()

    def __reduce__(self) -> Any:
        return self.stock().__reduce__()

    def round_pairs(self) -> list[list[tuple[int, int]]]:
        """Classes (plus, minus) of the trees of every round of this run, in their order in the finished model."""
        rounds = () if self._trainer is None else self._trainer.model().rounds
        return [[(tree.plus, tree.minus) for tree in trees] for trees in rounds]

    def current_iteration(self) -> int:
        """Count the rounds done."""
        return 0 if self._trainer is None else self._trainer.n_rounds

    def reset_parameter(self, params: dict[str, Any]) -> GrowingBooster:
        """Change parameters from the next round on."""
        super().reset_parameter(params)
        self._changed.update(params)
        return self

    def eval_train(self, feval: Any = None) -> list[Any]:
        """Evaluate the training set."""
        return self._run().evaluate_set(self._run().train, feval)

    def eval_valid(self, feval: Any = None) -> list[Any]:
        """Evaluate the validation sets."""
        return [result for data in self._run().valid for result in self._run().evaluate_set(data, feval)]

    def eval(self, data: lgb.Dataset, name: str, feval: Any = None) -> list[Any]:
        """Evaluate one of the data sets of the run under a name."""
        known = [one for one in (self._run().train, *self._run().valid) if one.data is data]
        if not known:
            fail("data", type(data).__name__, "the training set or a validation set of the run that goes on")
        return self._run().evaluate_set(known[0], feval, name)

    def predict(self, *args: Any, **kwargs: Any) -> Any:
        """Predict with the rounds so far."""
        return self.stock().predict(*args, **kwargs)

    def save_model(self, *args: Any, **kwargs: Any) -> GrowingBooster:
        """Save the rounds so far."""
        self.stock().save_model(*args, **kwargs)
        return self

    def model_to_string(self, *args: Any, **kwargs: Any) -> str:
        """Write the rounds so far as a text model."""
        return self.stock().model_to_string(*args, **kwargs)

    def dump_model(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Dump the rounds so far."""
        return self.stock().dump_model(*args, **kwargs)

    def num_trees(self) -> int:
        """Count the trees of the finished model so far."""
        return self.stock().num_trees()

    def upper_bound(self) -> float:
        """Upper bound of the scores of the rounds so far."""
        return self.stock().upper_bound()

    def lower_bound(self) -> float:
        """Lower bound of the scores of the rounds so far."""
        return self.stock().lower_bound()

    def get_leaf_output(self, tree_id: int, leaf_id: int) -> float:
        """Output of a leaf of the rounds so far."""
        return self.stock().get_leaf_output(tree_id, leaf_id)

    def _refuse(self, name: str, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise NotImplementedError(
            f"{name} cannot change a model in training, whose scores are kept apart from its trees; "
            f"call it on the Booster that train returns."
        )

    rollback_one_iter = partialmethod(_refuse, "rollback_one_iter")
    refit = partialmethod(_refuse, "refit")
    set_leaf_output = partialmethod(_refuse, "set_leaf_output")
    shuffle_models = partialmethod(_refuse, "shuffle_models")
    model_from_string = partialmethod(_refuse, "model_from_string")

    def feature_importance(self, *args: Any, **kwargs: Any) -> Any:
        """Feature importances of the rounds so far."""
        return self.stock().feature_importance(*args, **kwargs)
