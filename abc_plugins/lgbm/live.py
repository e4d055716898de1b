"""The booster that callbacks see while a run goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lightgbm as lgb

if TYPE_CHECKING:
    from abc_plugins.lgbm.trainer import Trainer


class LiveBooster(lgb.Booster):
    """Grows the trees of a run, and shows the model so far to callbacks.

    LightGBM's own view of it is of trees only, without what they take from the base class. All that reads the
    model (to predict, to save a checkpoint, to look at its trees) is therefore answered by the finished model of
    the rounds so far.
    """

    _trainer: Trainer | None = None

    def __init__(self, params: dict[str, Any], train_set: lgb.Dataset) -> None:
        super().__init__(params=params, train_set=train_set)
        # It is made with objective none. LightGBM would reset that once more before the first update, and fails in
        # doing so if no feature can be split.
        self._Booster__set_objective_to_none = True

    def follow(self, trainer: Trainer) -> None:
        """Show this run."""
        self._trainer = trainer

    def stock(self) -> lgb.Booster:
        """Return the model of the rounds so far as a stock Booster."""
        from abc_plugins.lgbm.exporting import finish

        if self._trainer is None:
            raise RuntimeError("The run has not started.")
        return finish(self._trainer.model(), best_round=0, layout=self._trainer.params.options.layout)

    def round_pairs(self) -> list[list[tuple[int, int]]]:
        """Classes (plus, minus) of the trees of every round of this run, in their order in the finished model."""
        rounds = () if self._trainer is None else self._trainer.rounds
        return [[(tree.plus, tree.minus) for tree in trees] for trees in rounds]

    def current_iteration(self) -> int:
        """Count the rounds done."""
        return 0 if self._trainer is None else self._trainer.n_rounds

    def predict(self, *args: Any, **kwargs: Any) -> Any:
        """Predict with the rounds so far."""
        return self.stock().predict(*args, **kwargs)

    def save_model(self, *args: Any, **kwargs: Any) -> LiveBooster:
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

    def feature_importance(self, *args: Any, **kwargs: Any) -> Any:
        """Feature importances of the rounds so far."""
        return self.stock().feature_importance(*args, **kwargs)
