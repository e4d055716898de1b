"""Callbacks and Ctrl-C: what they see, and the model that is left."""

from collections import Counter

import numpy as np
import pytest

from abc_plugins import ABCBoostClassifier
from abc_plugins.callbacks import Callback

from .conftest import assert_same_models, quick


class Watch(Callback):
    def __init__(self):
        self.calls = Counter()

    def before_training(self, context):  # noqa: ARG002
        self.calls["before_training"] += 1

    def before_round(self, context):
        self.calls["before_round"] += 1
        assert context.round_index == context.booster.model.n_rounds

    def after_round(self, context):
        self.calls["after_round"] += 1
        assert context.round_index + 1 == context.booster.model.n_rounds
        assert context.train_loss == context.booster.train_loss[-1]

    def after_training(self, context):  # noqa: ARG002
        self.calls["after_training"] += 1


class StopBefore(Callback):
    def __init__(self, round_index):
        self.round_index = round_index

    def before_round(self, context):
        return context.round_index == self.round_index


def assert_is_prefix(model, full, n_rounds, X):
    assert model.model_.n_rounds == model.best_iteration_ == n_rounds
    np.testing.assert_array_equal(model.train_loss_, full.train_loss_[:n_rounds])
    np.testing.assert_array_equal(model.base_classes_, full.base_classes_[:n_rounds])
    np.testing.assert_array_equal(model.predict_proba(X), list(full.staged_predict_proba(X))[n_rounds - 1])


def test_hooks(data):
    watch = Watch()
    quick().fit(data.X, data.y, callbacks=[watch])
    assert watch.calls == {"before_training": 1, "before_round": 6, "after_round": 6, "after_training": 1}


@pytest.mark.parametrize("stop", [lambda context: context.round_index == 2, StopBefore(3)], ids=["after", "before"])
def test_callbacks_can_stop(data, stop):
    model = quick().fit(data.X, data.y, callbacks=[stop])
    assert_is_prefix(model, quick().fit(data.X, data.y), 3, data.X_test)


def test_stopped_before_the_first_round(data, tmp_path, default_method):
    """A model of no rounds knows no more than the sizes of the classes, but works."""
    expected = np.bincount(data.y) / 80 if default_method == "directional" else 0.25
    model = quick().fit(data.X, data.y, callbacks=[StopBefore(0)])
    assert (model.best_iteration_, model.model_.n_rounds, model.trees_grown_) == (0, 0, 0)
    np.testing.assert_allclose(model.predict_proba(data.X_test), np.broadcast_to(expected, (40, 4)), rtol=1e-14)
    assert not model.feature_importances_.any()
    model.save_model(tmp_path / "model")
    loaded = ABCBoostClassifier.load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(data.X_test), model.predict_proba(data.X_test))


@pytest.mark.parametrize("callbacks", [3, "bar", {"a": 1}])
def test_callbacks_must_be_a_list(data, callbacks):
    with pytest.raises(TypeError, match="callbacks must be a list of callbacks; got"):
        quick().fit(data.X, data.y, callbacks=callbacks)


def interrupt(where, round_index):
    """Ctrl-C at some point of a round."""

    class Interrupt(Callback):
        def before_round(self, context):
            if where == "before" and context.round_index == round_index:
                raise KeyboardInterrupt

        def after_round(self, context):
            if where == "after" and context.round_index == round_index:
                raise KeyboardInterrupt

    return Interrupt()


@pytest.mark.parametrize(("where", "round_index"), [("before", 3), ("after", 2)])
def test_ctrl_c_leaves_a_usable_model(data, tmp_path, caplog, where, round_index):
    watch = Watch()
    model = quick(on_interrupt="keep").fit(data.X, data.y, callbacks=[watch, interrupt(where, round_index)])
    assert "Training was interrupted: the model has the 3 rounds done so far" in caplog.text
    assert watch.calls["after_training"] == 1
    assert_is_prefix(model, quick().fit(data.X, data.y), 3, data.X_test)
    model.save_model(tmp_path / "model")
    assert_same_models(ABCBoostClassifier.load_model(tmp_path / "model"), model, data.X_test)


@pytest.mark.parametrize("metric_number", [0, 1])
def test_ctrl_c_amid_a_round_drops_it(data, metric_number):
    """The third round is in the model, but not evaluated on all sets with all metrics."""
    calls = []

    def interrupted(y_true, y_proba):  # noqa: ARG001
        calls.append(1)
        if len(calls) == 2 * 2 + metric_number + 1:
            raise KeyboardInterrupt
        return "mine", 0.0, False

    sets = [(data.X, data.y), (data.X_test[:9], data.y[:9])]
    model = quick(eval_metric=["logloss", interrupted], on_interrupt="keep").fit(data.X, data.y, eval_set=sets)
    assert_is_prefix(model, quick().fit(data.X, data.y), 2, data.X_test)
    assert {len(values) for metrics in model.evals_result_.values() for values in metrics.values()} == {2}


def test_ctrl_c_before_the_first_round_is_over(data):
    model = quick(on_interrupt="keep")
    with pytest.raises(KeyboardInterrupt):
        model.fit(data.X, data.y, callbacks=[interrupt("before", 0)])
    assert not hasattr(model, "classes_")


def test_ctrl_c_is_raised(data):
    watch, model = Watch(), quick()
    with pytest.raises(KeyboardInterrupt):
        model.fit(data.X, data.y, callbacks=[watch, interrupt("after", 2)])
    assert watch.calls["after_training"] == 1
    assert not hasattr(model, "classes_")


def test_verbose(data, capsys):
    quick(verbose=2).fit(data.X, data.y, eval_set=[(data.X, data.y)])
    lines = capsys.readouterr().out.strip().splitlines()
    assert [line.partition(" ")[0] for line in lines] == ["[2]", "[4]", "[6]", "Training"]
    losses = [float(line.split()[3].strip(",")) for line in lines[:3]]  # the training data is the evaluation set
    assert losses == [float(line.split()[6].strip(",")) for line in lines[:3]]
    assert lines[-1].startswith("Training ended after 6 rounds and ")
    assert lines[-1].endswith(" s: all rounds, 6, were done.")
    quick(verbose=0).fit(data.X, data.y)
    assert capsys.readouterr().out == ""


def test_callbacks_of_other_libraries_are_refused_by_name(data):
    lightgbm, xgboost = pytest.importorskip("lightgbm"), pytest.importorskip("xgboost")

    class Mine(xgboost.callback.TrainingCallback):
        pass

    expected = {
        "LightGBM": [lightgbm.early_stopping(3), lightgbm.early_stopping],
        "XGBoost": [xgboost.callback.EarlyStopping(3), xgboost.callback.EarlyStopping, Mine()],
    }
    for library, callbacks in expected.items():
        for callback in callbacks:
            message = rf"callbacks\[1\] is one of {library}'s: take abc_plugins.callbacks.early_stopping"
            with pytest.raises(TypeError, match=message):
                quick().fit(data.X, data.y, callbacks=[print, callback])
