"""The adapter on real data."""

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest

from abc_plugins.lgbm.exporting import finish
from abc_plugins.lgbm.params import ABCOptions, TrainingParams
from abc_plugins.lgbm.trainer import Trainer
from abc_plugins.lgbm.training import make_booster


@pytest.mark.data
@pytest.mark.parametrize("leaf_values", ["paper", "sequential"])
def test_letter(data_folder, leaf_values):
    """26 classes: exported probabilities are those of training to 1e-10, and scores add up to 0 to 1e-9."""
    table = pd.read_parquet(data_folder / "letter.parquet")
    y = table.pop("target").astype("category").cat.codes.to_numpy()
    X = table.to_numpy(float)[:10000]
    params = {"num_leaves": 20, "num_threads": 1, "verbosity": -1}
    checked = TrainingParams.check(params, ABCOptions(search=1, gap=0, warmup=0, leaf_values=leaf_values), 26)
    booster, _ = make_booster(checked, lgb.Dataset(X, y[:10000]), None, None, None)
    trainer = Trainer(checked, booster)
    losses = []
    for _ in range(40):
        trainer.boost_round()
        losses.append(trainer.state.loss)
    model = finish(trainer.model(), best_round=0, layout="compact")
    scores = model.predict(X, raw_score=True)
    np.testing.assert_allclose(model.predict(X), trainer.state.probabilities.T, rtol=0, atol=1e-10)
    assert np.abs(scores.sum(axis=1)).max() < 1e-9
    assert np.abs(trainer.state.scores.sum(axis=0)).max() < 1e-9
    assert np.all(np.diff(losses) < 0)
    assert (model.predict(X).argmax(axis=1) != y[:10000]).mean() < 0.02
