"""What holds for every data set and every setting, on data and settings that Hypothesis thinks of."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.extra import numpy as hnp

from abc_plugins import ABCBoostClassifier
from abc_plugins.callbacks import checkpoint
from abc_plugins.core.settings import PAPER_METHODS


class Case(NamedTuple):
    """Data and parameters."""

    X: Any
    y: Any
    options: dict[str, Any]


VALUES = {
    "few": st.integers(-3, 3).map(float),
    "any": st.floats(allow_infinity=False, width=64),
    "usual": st.just(0.0) | st.floats(1e-30, 1e30) | st.floats(-1e30, -1e-30),
    "missing": st.sampled_from([np.nan, np.nan, 0.0, 1.0, 2.0]),
    "extreme": st.sampled_from([0.0, -0.0, 5e-324, -5e-324, 1e308, -1e308, 2.0**53, 2.0**53 + 2, np.nan]),
}


@st.composite
def cases(draw: Any, values: tuple[str, ...] = tuple(VALUES), sampling: bool = True) -> Case:
    """Small data of any kind, each class at least once, and any parameters."""
    n_classes = draw(st.integers(2, 5))
    n_samples, n_features = draw(st.integers(n_classes, 40)), draw(st.integers(1, 4))
    kind = draw(st.sampled_from(values))
    X = draw(hnp.arrays(np.float64, (n_samples, n_features), elements=VALUES[kind]))
    rest = draw(hnp.arrays(np.int64, n_samples - n_classes, elements=st.integers(0, n_classes - 1)))
    options = {
        "method": draw(st.sampled_from(["directional", "directional", *PAPER_METHODS])),
        "n_estimators": draw(st.integers(1, 6)),
        "num_leaves": draw(st.integers(2, 6)),
        "max_depth": draw(st.integers(1, 3)),
        "trees_per_round": draw(st.sampled_from([None, 3])),
        "search": draw(st.sampled_from([1, 2, "all"])),
        "gap": draw(st.integers(0, 2)),
        "warmup": draw(st.integers(0, 2)),
        "learning_rate": draw(st.sampled_from([0.1, 0.5, 1.0])),
        "min_samples_leaf": draw(st.sampled_from([1, 2, 3])),
        "leaf_values": draw(st.sampled_from(["paper", "sequential"])),
        "leaf_clip": draw(st.sampled_from([None, 4.0, 50.0])),
        "guard": draw(st.booleans()),
        "start_scores": draw(st.sampled_from([None, "priors"])),
        "leaf_reg_lambda": draw(st.sampled_from([None, 0.0])),
        "max_bins": draw(st.sampled_from([2, 3, 255])),
        "n_jobs": draw(st.sampled_from([1, 2])),
        "random_state": 0,
    }
    if options["method"] == "directional":
        options["tree_shape"] = draw(st.sampled_from(["symmetric", "best-first"]))
    if sampling:
        options |= {"subsample": draw(st.sampled_from([1.0, 0.5])), "colsample": draw(st.sampled_from([1.0, 0.5]))}
    return Case(X, np.concatenate([np.arange(n_classes), rest]), options)


def fit(case: Case, **changes: Any) -> ABCBoostClassifier:
    return ABCBoostClassifier(**{**case.options, **changes}).fit(case.X, case.y)


def arrays_of(model: ABCBoostClassifier) -> list[bytes]:
    trees = model.model_.flat()
    return [getattr(trees, name).tobytes() for name in trees.__dataclass_fields__]


@settings(max_examples=100)
@given(cases())
def test_probabilities_are_probabilities(case: Case) -> None:
    model = fit(case)
    probabilities = model.predict_proba(case.X)
    assert np.isfinite(probabilities).all()
    assert (probabilities >= 0).all()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-12)
    assert np.isfinite(model.train_loss_).all()
    predicted = probabilities[np.arange(case.y.size), np.searchsorted(model.classes_, model.predict(case.X))]
    np.testing.assert_allclose(predicted, probabilities.max(axis=1), rtol=1e-12)  # which of equals is left to scores
    strange = np.array([[value] * case.X.shape[1] for value in (np.nan, 1e308, -1e308, 5e-324)])
    assert np.isfinite(model.predict_proba(strange)).all()


@settings(max_examples=40)
@given(cases())
def test_the_guard_never_lets_the_training_loss_rise(case: Case) -> None:
    model = fit(case, guard=True)
    scores = model.model_.start_scores
    start = float((np.log(np.exp(scores).sum()) - scores)[case.y].sum())
    assert (np.diff([start, *model.train_loss_]) <= 1e-9 * start).all()


@settings(max_examples=40)
@given(cases(), st.integers(1, 6))
def test_staged_is_truncated(case: Case, n_rounds: int) -> None:
    model = fit(case)
    n_rounds = min(n_rounds, case.options["n_estimators"])
    staged = [stage.copy() for stage in model.staged_predict_proba(case.X)]
    assert len(staged) == case.options["n_estimators"]
    assert staged[-1].tobytes() == model.predict_proba(case.X).tobytes()
    assert staged[n_rounds - 1].tobytes() == fit(case, n_estimators=n_rounds).predict_proba(case.X).tobytes()


@settings(max_examples=40)
@given(cases())
def test_saved_is_loaded(case: Case) -> None:
    model = fit(case)
    with tempfile.TemporaryDirectory() as folder:
        model.save_model(Path(folder) / "model")
        loaded = ABCBoostClassifier.load_model(Path(folder) / "model")
    assert arrays_of(loaded) == arrays_of(model)
    assert loaded.predict_proba(case.X).tobytes() == model.predict_proba(case.X).tobytes()
    assert loaded.get_params() == model.get_params()


@settings(max_examples=40)
@given(cases(), st.integers(1, 6))
def test_resumed_is_straight(case: Case, every_rounds: int) -> None:
    class Stop(Exception):
        pass

    def stop(context: Any) -> None:
        if context.round_index + 1 == max(1, case.options["n_estimators"] // 2):
            context.save_checkpoint(path)
            raise Stop

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run"
        with pytest.raises(Stop):
            ABCBoostClassifier(**case.options).fit(case.X, case.y, callbacks=[stop])
        resumed = ABCBoostClassifier(**case.options).fit(
            case.X, case.y, callbacks=[checkpoint(path, every_rounds=every_rounds)], resume_from=path
        )
    straight = fit(case)
    assert arrays_of(resumed) == arrays_of(straight)
    assert resumed.train_loss_.tolist() == straight.train_loss_.tolist()


@settings(max_examples=40)
@given(cases())
def test_threads_and_layout_change_nothing(case: Case) -> None:
    model = fit(case, n_jobs=1)
    other = fit(Case(np.asfortranarray(case.X), case.y.tolist(), case.options), n_jobs=3)
    assert arrays_of(other) == arrays_of(model)


@settings(max_examples=40)
@given(cases(), st.sampled_from(["ranks", "cubes", "larger"]))
def test_monotone_transforms_change_thresholds_alone(case: Case, transform: str) -> None:
    def move(column: Any) -> Any:
        if transform == "ranks":
            values, ranks = np.unique(column, return_inverse=True)
            return np.where(np.isnan(column), np.nan, np.minimum(ranks, values.size))
        return {"cubes": np.cbrt, "larger": lambda x: np.ldexp(x, 3)}[transform](column)

    with np.errstate(over="ignore"):
        moved = np.stack([move(column) for column in case.X.T], axis=1)
    for before, after in zip(case.X.T, moved.T, strict=True):
        # Values that come to lie on each other, or leave the range of a double, are other data.
        distinct = np.unique(before[~np.isnan(before)]).size == np.unique(after[~np.isnan(after)]).size
        if not distinct or np.isinf(after).any():
            return
    one, other = fit(case), fit(Case(moved, case.y, case.options))
    assert one.predict_proba(case.X).tobytes() == other.predict_proba(moved).tobytes()
    assert one.base_classes_.tolist() == other.base_classes_.tolist()


@settings(max_examples=40)
@given(cases(), st.sampled_from(["letters", "halves", "shifted"]))
def test_names_of_the_classes_do_not_matter(case: Case, names: str) -> None:
    labels = {
        "letters": np.array(list("abcde"))[case.y],
        "halves": np.array(["10", "20", "30", "40", "50"], dtype=object)[case.y],
        "shifted": case.y * 7 - 3,
    }[names]
    one, other = fit(case), fit(Case(case.X, labels, case.options))
    assert one.predict_proba(case.X).tobytes() == other.predict_proba(case.X).tobytes()
    np.testing.assert_array_equal(other.predict(case.X), np.unique(labels)[one.predict(case.X)])


def continuous_data(seed: int, n_classes: int) -> tuple[Any, Any]:
    """Rows without ties, and classes of different sizes: the order of neither can decide anything."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(n_classes), np.arange(n_classes) * 7 + 11)
    return rng.normal(size=(n_classes, 3))[y] + rng.normal(size=(y.size, 3)), y


METHODS = ["directional", "mart", "robustlogit", "abcrobustlogit"]
ORDERS = st.tuples(st.integers(0, 10**6), st.integers(2, 5), st.sampled_from(METHODS))


@given(ORDERS, st.sampled_from(["paper", "sequential"]))
def test_the_order_of_the_rows_does_not_matter(order: tuple[int, int, str], leaf_values: str) -> None:
    """Up to the last bits of sums of floats."""
    seed, n_classes, method = order
    X, y = continuous_data(seed, n_classes)
    options = {"method": method, "n_estimators": 4, "num_leaves": 4, "search": 1, "gap": 0, "warmup": 1, "n_jobs": 1}
    options |= {"leaf_values": leaf_values, "min_samples_leaf": 3, "max_depth": 2, "random_state": 0}
    rows = np.random.default_rng(seed).permutation(y.size)
    one = ABCBoostClassifier(**options).fit(X, y)
    other = ABCBoostClassifier(**options).fit(X[rows], y[rows])
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), atol=1e-7)


@given(ORDERS)
def test_the_order_of_the_classes_does_not_matter(order: tuple[int, int, str]) -> None:
    """Of the paper's methods: directions are drawn class by class."""
    seed, n_classes, method = order
    method = "robustlogit" if method == "directional" else method
    X, y = continuous_data(seed, n_classes)
    options = {"method": method, "n_estimators": 4, "num_leaves": 4, "search": "all", "gap": 0, "warmup": 0}
    options |= {"leaf_values": "paper", "min_samples_leaf": 3, "n_jobs": 1}
    new_place = np.random.default_rng(seed).permutation(n_classes)
    one = ABCBoostClassifier(**options).fit(X, y)
    other = ABCBoostClassifier(**options).fit(X, new_place[y])
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X)[:, new_place], atol=1e-7)


@settings(max_examples=25)
@given(cases(values=("few", "usual", "missing"), sampling=False))
def test_exports_are_the_native_model(case: Case) -> None:
    """LightGBM reads values below 1e-35 as 0 when it predicts: those are not among the usual ones."""
    lightgbm_export = pytest.importorskip("abc_plugins.lgbm").export
    model = fit(case)
    exported = lightgbm_export(model).predict(case.X, num_threads=1)
    np.testing.assert_allclose(exported, model.predict_proba(case.X), atol=1e-12)


@settings(max_examples=25)
@given(cases(values=("few", "missing"), sampling=False))
def test_exports_to_xgboost_are_the_native_model(case: Case) -> None:
    """XGBoost has single precision: values that a float32 holds, scores to six digits, so that they must be small."""
    xgboost = pytest.importorskip("xgboost")
    xgboost_export = pytest.importorskip("abc_plugins.xgb").export
    model = fit(case, guard=True, leaf_clip=4.0)
    exported = xgboost_export(model).predict(xgboost.DMatrix(case.X, nthread=1))
    if exported.ndim == 1:
        exported = np.stack([1.0 - exported, exported], axis=1)
    np.testing.assert_allclose(exported, model.predict_proba(case.X), atol=2e-4)
