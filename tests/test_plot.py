"""Plots of fitted models: what is drawn is what the model says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError

from abc_plugins import ABCBoostClassifier, cli, plot

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
from matplotlib import pyplot as plt  # noqa: E402

X, Y = load_iris(return_X_y=True)


@pytest.fixture(autouse=True)
def _close_figures() -> Any:
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def model() -> ABCBoostClassifier:
    options: dict[str, Any] = {"method": "abcrobustlogit", "n_estimators": 8, "warmup": 2, "gap": 0, "search": 2}
    metrics = ["logloss", "error"]
    return ABCBoostClassifier(**options, eval_metric=metrics).fit(X[::2], Y[::2], eval_set=[(X[1::2], Y[1::2])])


def test_learning_curves(model: ABCBoostClassifier) -> None:
    (line,) = plot.learning_curves(model).get_lines()
    assert line.get_xdata().tolist() == list(range(1, 9))
    assert line.get_ydata().tolist() == model.evals_result_["valid_0"]["logloss"]
    ax = plot.learning_curves(model, metric="error")
    assert ax.get_lines()[0].get_ydata().tolist() == model.evals_result_["valid_0"]["error"]
    assert ax.get_ylabel() == "error"
    with pytest.raises(ValueError, match="metric must be one of 'logloss', 'error'; got 'auc'"):
        plot.learning_curves(model, metric="auc")


def test_learning_curve_of_a_model_without_evaluation_sets() -> None:
    fitted = ABCBoostClassifier(n_estimators=4).fit(X, Y)
    ax = plot.learning_curves(fitted)
    assert ax.get_lines()[0].get_ydata().tolist() == fitted.train_loss_.tolist()
    assert ax.get_ylabel() == "training loss"


def test_the_best_round_of_early_stopping_is_marked() -> None:
    options: dict[str, Any] = {"n_estimators": 60, "learning_rate": 0.5, "early_stopping_rounds": 3}
    fitted = ABCBoostClassifier(**options).fit(X[::2], Y[::2], eval_set=[(X[1::2], Y[1::2])])
    assert fitted.best_iteration_ < len(fitted.base_classes_)
    line = plot.learning_curves(fitted).get_lines()[1]
    assert list(line.get_xdata()) == [fitted.best_iteration_] * 2


def test_base_classes(model: ABCBoostClassifier) -> None:
    ax = plot.base_classes(model)
    (marks,) = ax.get_lines()
    assert marks.get_xdata().tolist() == [3, 4, 5, 6, 7, 8]
    assert marks.get_ydata().tolist() == model.base_classes_[2:].tolist()
    assert [text.get_text() for text in ax.get_yticklabels()] == ["0", "1", "2"]


@pytest.mark.parametrize("method", ["directional", "mart"])
def test_base_classes_of_a_model_without(method: str) -> None:
    fitted = ABCBoostClassifier(method=method, n_estimators=2).fit(X, Y)
    assert plot.base_classes(fitted).texts[0].get_text() == "no round has a base class"


def test_importance(model: ABCBoostClassifier) -> None:
    ax = plot.importance(model, top=3)
    shares = np.sort(model.feature_importances_)[::-1][:3]
    np.testing.assert_allclose([bar.get_width() for bar in ax.patches], shares)
    assert ax.get_yticklabels()[0].get_text() == f"x{model.feature_importances_.argmax()}"
    counts = model.feature_importance("split")
    widths = [bar.get_width() for bar in plot.importance(model, importance_type="split").patches]
    np.testing.assert_allclose(widths, np.sort(counts)[::-1] / counts.sum())
    with pytest.raises(ValueError, match="top must be a whole number of at least 1; got 0"):
        plot.importance(model, top=0)


@pytest.mark.parametrize("engine", ["lightgbm", "xgboost"])
def test_estimators_on_other_engines(engine: str) -> None:
    pytest.importorskip(engine)
    if engine == "lightgbm":
        from abc_plugins.lgbm import ABCLGBMClassifier

        fitted: Any = ABCLGBMClassifier(n_estimators=4, method="abcrobustlogit", warmup=1, gap=0, verbosity=-1)
        fitted.fit(X[::2], Y[::2], eval_set=[(X[1::2], Y[1::2])])
    else:
        from abc_plugins.xgb import ABCXGBClassifier

        fitted = ABCXGBClassifier(n_estimators=4, method="abcrobustlogit", warmup=1, gap=0)
        fitted.fit(X[::2], Y[::2], eval_set=[(X[1::2], Y[1::2])], verbose=False)
    assert len(plot.learning_curves(fitted).get_lines()[0].get_xdata()) == 4
    assert plot.base_classes(fitted).get_lines()[0].get_xdata().tolist() == [2, 3, 4]
    assert sum(bar.get_width() for bar in plot.importance(fitted).patches) == pytest.approx(1)


def test_an_estimator_without_curves() -> None:
    pytest.importorskip("xgboost")
    from abc_plugins.xgb import ABCXGBClassifier

    fitted = ABCXGBClassifier(n_estimators=2).fit(X, Y)
    with pytest.raises(ValueError, match="needs a model that was fitted with an evaluation set"):
        plot.learning_curves(fitted)


def test_plots_draw_on_the_axes_they_are_given(model: ABCBoostClassifier) -> None:
    _, axes = plt.subplots(1, 3)
    for draw, ax in zip((plot.learning_curves, plot.base_classes, plot.importance), axes, strict=True):
        assert draw(model, ax=ax) is ax
    with pytest.raises(TypeError, match="ax must be matplotlib Axes, or None for a new figure; got 3"):
        plot.base_classes(model, ax=3)


@pytest.mark.parametrize("draw", [plot.learning_curves, plot.base_classes, plot.importance, plot.overview])
def test_a_model_that_is_not_fitted(draw: Any) -> None:
    with pytest.raises(NotFittedError, match="not fitted"):
        draw(ABCBoostClassifier())


def test_overview_of_the_default_method() -> None:
    fitted = ABCBoostClassifier(n_estimators=3).fit(X, Y)
    figure = plot.overview(fitted, top=2)
    assert [len(ax.patches) for ax in figure.axes] == [0, 0, 2]
    assert figure.axes[0].get_lines()[0].get_ydata().tolist() == fitted.train_loss_.tolist()


def test_inspect_draws_a_picture(model: ABCBoostClassifier, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, picture = str(tmp_path / "m.abc"), tmp_path / "m.png"
    model.save_model(path)
    assert cli.main(["inspect", path, "--plot", str(picture)]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    capsys.readouterr()
    assert cli.main(["inspect", path, "--plot", str(picture)]) == 1
    assert "use --force to replace it" in capsys.readouterr().err
    assert cli.main(["inspect", path, "--plot", str(picture), "--force", "--top", "0"]) == 0
    assert cli.main(["inspect", path, "--plot", str(tmp_path / "m.doc")]) == 1
    assert "must name a file of a kind that matplotlib writes" in capsys.readouterr().err
    assert not (tmp_path / "m.doc").exists()
