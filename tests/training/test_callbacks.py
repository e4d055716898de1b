"""Callbacks: when their hooks run, what stops training, and what the ready-made ones do."""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from abc_plugins import callbacks as cb
from abc_plugins.callbacks import Callback, CallbackList, RoundContext
from abc_plugins.training import progress


def train(
    callbacks: list[Any], metrics: dict[str, dict[str, list[float]]], n_rounds: int, higher: tuple[str, ...] = ()
) -> RoundContext:
    """A booster's round loop with the given metric values in place of trees."""
    context = RoundContext(
        booster=None, n_rounds=n_rounds, evals_result={n: {m: [] for m in s} for n, s in metrics.items()}
    )
    context.higher_is_better = {metric: metric in higher for sets in metrics.values() for metric in sets}
    runner = CallbackList(callbacks)
    runner.before_training(context)
    for index in range(n_rounds):
        context.round_index = index
        if runner.before_round(context):
            break
        context.train_loss, context.seconds = 100.0 / (index + 1), 0.5 * (index + 1)
        for name, sets in metrics.items():
            for metric, values in sets.items():
                context.evals_result[name][metric].append(values[index])
        if runner.after_round(context):
            break
    runner.after_training(context)
    return context


class Spy(Callback):
    def __init__(self, log: list[Any], name: str, order: int = 0) -> None:
        self.log, self.name, self.order = log, name, order

    def before_training(self, context: RoundContext) -> None:
        self.log.append((self.name, "before training", context.round_index))

    def before_round(self, context: RoundContext) -> None:
        self.log.append((self.name, "before", context.round_index))

    def after_round(self, context: RoundContext) -> None:
        self.log.append((self.name, "after", context.round_index))

    def after_training(self, context: RoundContext) -> None:
        self.log.append((self.name, "after training", context.round_index))


def test_hooks_run_in_order() -> None:
    log: list[Any] = []
    train([Spy(log, "late", 5), Spy(log, "early", -5)], {}, n_rounds=2)
    steps = [("before training", -1), ("before", 0), ("after", 0), ("before", 1), ("after", 1), ("after training", 1)]
    assert log == [(name, step, index) for step, index in steps for name in ("early", "late")]


def test_functions_are_called_after_rounds_and_keep_their_place() -> None:
    log: list[Any] = []
    train([lambda context: log.append(("a", context.round_index)), lambda _: log.append("b")], {}, n_rounds=2)
    assert log == [("a", 0), "b", ("a", 1), "b"]

    def last(_: RoundContext) -> None:
        log.append("last")

    last.order = 99  # type: ignore[attr-defined]
    log.clear()
    train([last, lambda _: log.append("first")], {}, n_rounds=1)
    assert log == ["first", "last"]


@pytest.mark.parametrize("answer", [True, np.True_])
def test_true_stops_but_all_callbacks_see_the_round(answer: Any) -> None:
    seen: list[int] = []
    context = train([lambda c: answer if c.round_index == 1 else None, lambda c: seen.append(c.round_index)], {}, 9)
    assert context.round_index == 1
    assert seen == [0, 1]


def test_before_round_stops_before_the_round() -> None:
    class Stop(Callback):
        def before_round(self, context: RoundContext) -> bool:
            return context.round_index == 2

    context = train([Stop()], {"valid": {"logloss": [3.0, 2.0, 1.0, 0.0]}}, 4)
    assert context.evals_result["valid"]["logloss"] == [3.0, 2.0]


@pytest.mark.parametrize(
    ("callbacks", "message"),
    [
        (5, "callbacks must be a list of callbacks; got 5"),
        ("log", "callbacks must be a list of callbacks; got 'log'"),
        ([print, 3], r"callbacks\[1\] must be a Callback object or a function of the round's context; got 3"),
        ([Callback], r"callbacks\[0\] must be a Callback object"),
    ],
)
def test_things_that_are_no_callbacks(callbacks: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        CallbackList(callbacks)


def test_an_answer_that_is_no_truth_value() -> None:
    with pytest.raises(TypeError, match=r"What after_round of a callback returns must be True \(stop\).*got 'yes'"):
        train([lambda _: "yes"], {}, 1)


def test_log_evaluation() -> None:
    file = io.StringIO()
    train([cb.log_evaluation(2, file=file)], {"valid": {"logloss": [0.5, 0.25, 0.2]}}, 3)
    assert file.getvalue() == "[2] train logloss 50, valid logloss 0.25, 1.0 s\n"


def test_log_evaluation_prints_to_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    train([cb.log_evaluation()], {}, 2)
    assert capsys.readouterr().out == "[1] train logloss 100, 0.5 s\n[2] train logloss 50, 1.0 s\n"


def test_record_evaluation_starts_anew() -> None:
    record: dict[str, Any] = {"old": {}}
    metrics = {"valid": {"logloss": [3.0, 2.0], "error": [0.5, 0.25]}}
    for _ in range(2):
        train([cb.record_evaluation(record)], metrics, 2)
        assert record == metrics


def test_early_stopping_sets_the_best_round(capsys: pytest.CaptureFixture[str]) -> None:
    stopper = cb.early_stopping(2, verbose=True)
    for _ in range(2):  # the same object serves several fits
        context = train([stopper], {"valid": {"logloss": [3.0, 1.0, 2.0, 2.0, 0.0]}}, 5)
        assert context.round_index == 3
        assert context.best_iteration == 2
    message = "Stopped after round 4: valid logloss was best, 1, after round 2.\n"
    assert capsys.readouterr().out == 2 * message


def test_early_stopping_with_higher_is_better_and_min_delta() -> None:
    metrics = {"valid": {"accuracy": [0.5, 0.7, 0.75, 0.79, 0.9]}}
    context = train([cb.early_stopping(2, min_delta=0.1)], metrics, 5, higher=("accuracy",))
    assert (context.round_index, context.best_iteration) == (3, 2)
    assert train([cb.early_stopping(2)], metrics, 5, higher=("accuracy",)).best_iteration == 5


def test_early_stopping_ignores_the_training_data() -> None:
    metrics = {"training": {"logloss": [1.0] * 5}, "valid": {"logloss": [5.0, 4.0, 3.0, 2.0, 1.0]}}
    assert train([cb.early_stopping(1)], metrics, 5).best_iteration == 5
    with pytest.raises(ValueError, match="early stopping needs at least one evaluation set"):
        train([cb.early_stopping(1)], {"training": {"logloss": [1.0]}}, 1)


def test_a_metric_that_is_not_a_number_never_is_the_best() -> None:
    context = train([cb.early_stopping(2)], {"valid": {"logloss": [math.nan, 3.0, math.nan, math.nan, 1.0]}}, 5)
    assert (context.round_index, context.best_iteration) == (3, 2)


@pytest.mark.parametrize("seed", range(12))
def test_early_stopping_agrees_with_lightgbm(seed: int) -> None:
    lgb = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(seed)
    n_rounds, first_only = 12, bool(seed % 2)
    metrics = {n: {m: rng.integers(0, 9, n_rounds).astype(float).tolist() for m in ("m1", "m2")} for n in ("v0", "v1")}
    rounds, min_delta = int(rng.integers(2, 6)), float(rng.integers(0, 2))
    context = train([cb.early_stopping(rounds, first_only, min_delta=min_delta)], metrics, n_rounds, higher=("m2",))

    train_set = lgb.Dataset(rng.normal(size=(40, 2)), rng.normal(size=40))
    valid_sets = [lgb.Dataset(np.zeros((1, 2)), [float(index)], reference=train_set) for index in range(2)]
    calls = {"v0": 0, "v1": 0}

    def feval(_: Any, dataset: Any) -> list[tuple[str, float, bool]]:
        name = f"v{int(dataset.get_label()[0])}"
        calls[name] += 1
        return [(metric, values[calls[name] - 1], metric == "m2") for metric, values in metrics[name].items()]

    booster = lgb.train(
        {"metric": "None", "verbosity": -1, "num_threads": 1, "min_data_in_leaf": 1},
        train_set,
        n_rounds,
        valid_sets=valid_sets,
        valid_names=["v0", "v1"],
        feval=feval,
        callbacks=[lgb.early_stopping(rounds, first_only, verbose=False, min_delta=min_delta)],
    )
    assert context.best_iteration == booster.best_iteration
    assert context.round_index + 1 == calls["v0"]


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: cb.log_evaluation(0), ValueError, "period must be a whole number of at least 1; got 0"),
        (lambda: cb.log_evaluation(True), TypeError, "period must be a whole number of at least 1; got True"),
        (lambda: cb.record_evaluation([]), TypeError, "evals_result must be a dict to record into"),
        (lambda: cb.early_stopping(0), ValueError, "stopping_rounds must be a whole number of at least 1; got 0"),
        (lambda: cb.early_stopping(2.5), TypeError, "stopping_rounds must be a whole number"),
        (lambda: cb.early_stopping(2, min_delta=-1), ValueError, "min_delta must be a number at least 0; got -1"),
        (lambda: cb.early_stopping(2, min_delta=math.nan), ValueError, "min_delta must be a number"),
        (lambda: cb.early_stopping(2, 1), TypeError, "first_metric_only must be True or False; got 1"),
        (lambda: cb.early_stopping(2, verbose="yes"), TypeError, "verbose must be True or False; got 'yes'"),
    ],
)
def test_bad_arguments(make: Callable[[], Callback], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        make()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


METRICS = {"valid": {"logloss": [0.5, 0.25, 0.125]}}


def hide(monkeypatch: pytest.MonkeyPatch, *packages: str) -> None:
    real = progress.find_spec
    monkeypatch.setattr(progress, "find_spec", lambda name: None if name in packages else real(name))


def test_progress_in_a_log_file_is_plain_lines() -> None:
    file = io.StringIO()
    train([cb.progress_bar(file=file)], METRICS, 3)
    first, last = file.getvalue().splitlines()  # the second comes less than five seconds after the first
    assert first == "round 1/3: train logloss 100, valid logloss 0.5, 0:01 left"
    assert last == "round 3/3: train logloss 33.3333, valid logloss 0.125, 0:00 left"


def test_progress_on_a_plain_terminal_overwrites_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    hide(monkeypatch, "rich", "tqdm")
    file = Terminal()
    train([cb.progress_bar(file=file)], METRICS, 3)
    assert file.getvalue().startswith("\rround 1/3: train logloss 100")
    assert file.getvalue().endswith(" left\n")
    assert file.getvalue().count("\n") == 1


@pytest.mark.parametrize("package", ["rich", "tqdm"])
def test_progress_drawn_by(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip(package)
    hide(monkeypatch, *{"rich", "tqdm"} - {package})
    monkeypatch.setenv("COLUMNS", "200")
    file = Terminal()
    bar = cb.progress_bar(file=file)
    train([bar], METRICS, 3)
    assert "3/3" in file.getvalue()
    assert "valid logloss 0.125" in file.getvalue()
    assert bar.display is None  # type: ignore[attr-defined]


def test_progress_goes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    train([cb.progress_bar()], {}, 1)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "round 1/1: train logloss 100, 0:00 left\n"


def test_clock() -> None:
    shown = [progress._time_left(seconds) for seconds in (0.4, 61, 3661, float("nan"))]
    assert shown == ["0:00 left", "1:01 left", "1:01:01 left", ""]
