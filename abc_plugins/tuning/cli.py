"""The command line: abc-plugins tune [run] DATA | status | report."""

from __future__ import annotations

import argparse
import json
import os
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from abc_plugins.commands.shared import (
    add_categories_option,
    add_table_options,
    check_output,
    csv_format,
    text_columns,
    text_target,
)
from abc_plugins.core.runtime.arrays import AnyArray
from abc_plugins.core.runtime.checks import fail
from abc_plugins.data.categories import FROM_DTYPE
from abc_plugins.data.tablefiles import read_table
from abc_plugins.data.tables import Features, read_features

_ACTIONS = ("run", "status", "report")
_USAGE = "DATA, 'run DATA', 'status' or 'report'"


def add_tune_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of all three actions."""
    parser.add_argument(
        "what",
        nargs="+",
        metavar="DATA | status | report",
        help="CSV or Parquet file to tune on; status or report of a study in --storage",
    )
    parser.add_argument("--storage", help="file of the study: .db (SQLite), .log (journal), or the URL of a database")
    parser.add_argument("--study-name", metavar="NAME", help="default: abc-plugins- and the engine")
    parser.add_argument("--out", metavar="FILE", help="model file to write, or the HTML file of a report")
    parser.add_argument("--force", action="store_true", help="replace the --out file if it exists")
    _add_run_options(parser.add_argument_group("tuning"))
    _add_data_options(parser.add_argument_group("data"))
    add_categories_option(parser)
    add_table_options(parser)
    parser.add_argument("--json", action="store_true", help="print the status as JSON")


def _add_run_options(group: Any) -> None:
    group.add_argument("--engine", choices=("native", "lgbm", "xgb"), default="native", help="default native")
    group.add_argument("--trials", type=int, default=50, metavar="N", help="trials of the whole study (default 50)")
    group.add_argument("--timeout", type=float, metavar="SECONDS", help="begin no trial after this time")
    group.add_argument("--folds", type=int, default=5, metavar="N", help="outer folds (default 5)")
    group.add_argument("--repeats", type=int, metavar="N", help="draw the folds so often (default: more on few rows)")
    group.add_argument("--ensemble", type=int, default=0, metavar="N", help="weight the best N trials (default 0)")
    group.add_argument("--confirm", type=int, default=3, metavar="N", help="score the best N again, on fresh folds")
    group.add_argument("--metric", choices=("logloss", "error"), default="logloss", help="default logloss")
    group.add_argument("--cost", action="store_true", help="trees grown as a second objective, without pruning")
    group.add_argument("--resume", action="store_true", help="continue the study if the storage has it")
    group.add_argument("--seed", type=int, default=0, help="default 0")
    group.add_argument("--n-jobs", type=int, default=1, metavar="N", help="trials at a time, in threads (default 1)")
    group.add_argument("--max-rounds", type=int, default=4000, metavar="M", help="default 4000")
    group.add_argument(
        "--early-stopping-rounds", type=int, metavar="N", help="default 5 / learning rate, from 25 to 100"
    )
    group.add_argument("--fixed", metavar="JSON", help="parameters that are not tuned, as a JSON object")
    group.add_argument("--quiet", action="store_true", help="show no progress")


def _add_data_options(group: Any) -> None:
    group.add_argument("--target", metavar="COLUMN", help="column of the labels")
    group.add_argument("--weight", metavar="COLUMN", help="column of the sample weights")
    group.add_argument("--group", metavar="COLUMN", help="column whose equal values stay in one part of a fold")
    group.add_argument("--time-ordered", action="store_true", help="rows are in order of time: test on later ones")
    group.add_argument("--test-data", metavar="FILE", help="CSV or Parquet file to score once, at the end")


def run_tune(options: argparse.Namespace) -> None:
    """Run the action that was asked for."""
    action, *rest = options.what if options.what[0] in _ACTIONS else ("run", *options.what)
    if len(rest) != (1 if action == "run" else 0):
        fail("tune", " ".join(options.what), f"followed by {_USAGE}")
    if action != "run" and options.storage is None:
        fail("--storage", None, f"given for {action!r}")
    if action == "run":
        _run(options, rest[0])
    elif action == "status":
        _status(options)
    else:
        _report(options)


# ------------------------------------------------------------------------------------------------ run


def _run(options: argparse.Namespace, path: str) -> None:
    from sklearn.model_selection import TimeSeriesSplit

    from abc_plugins.tuning.ensemble import save_estimator
    from abc_plugins.tuning.report.page import COMMAND
    from abc_plugins.tuning.tuner import tune

    if options.target is None:
        fail("--target", None, "given: the column of the labels")
    if options.out is not None:
        check_output(options.out, options.force)
    fixed = _fixed(options.fixed)
    name = options.study_name or f"abc-plugins-{options.engine}"
    _check_resume(options, name)
    data, groups = _read(options, path)
    test = None
    if options.test_data is not None:
        names, levels = data.features.names or [], data.features.levels or []
        categorical = [name for name, known in zip(names, levels, strict=False) if known is not None]
        text = [*text_columns(names, levels), *text_target(options.target, data.labels)]
        extra = _read_file(options, options.test_data, columns=names, categorical=categorical or None, text=text)
        test = (extra.features, extra.labels, *([] if extra.weights is None else [extra.weights]))
    result = tune(
        data.features,
        data.labels,
        engine=options.engine,
        n_trials=options.trials,
        timeout=options.timeout,
        cv=TimeSeriesSplit(options.folds) if options.time_ordered else options.folds,
        repeats=options.repeats,
        metric=options.metric,
        objectives=("error", "cost") if options.cost else ("error",),
        storage=options.storage,
        study_name=name,
        fixed=fixed,
        seed=options.seed,
        n_jobs=options.n_jobs,
        refit=options.out is not None or test is not None or options.ensemble > 0,
        ensemble=options.ensemble,
        confirm=options.confirm,
        sample_weight=data.weights,
        groups=groups,
        test=test,
        max_rounds=options.max_rounds,
        early_stopping_rounds=options.early_stopping_rounds,
        progress=not options.quiet,
    )
    result.study.set_user_attr(COMMAND, shlex.join(["abc-plugins", *options.arguments]))
    print(result.summary())
    if options.out is not None:
        save_estimator(result.best_estimator, options.out)
        print(f"{options.out}: {_described(result)} fitted on all {len(data.labels)} rows")


def _described(result: Any) -> str:
    """What was written, and what the numbers of its classes mean if it does not know their names."""
    from abc_plugins.tuning.ensemble import WeightedEnsemble
    from abc_plugins.tuning.study.storage import PREFIX

    estimator = result.best_estimator
    if isinstance(estimator, WeightedEnsemble):
        return f"ensemble of {len(estimator.members)} models"
    engine, labels = result.study.user_attrs[PREFIX + "engine"], result.study.user_attrs[PREFIX + "classes"]
    if engine == "native" or labels == [str(index) for index in range(len(labels))]:
        return "model"
    meaning = ", ".join(f"{index} is {label}" for index, label in enumerate(labels))
    return f"model that predicts class numbers ({meaning}),"


def _fixed(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        fail("--fixed", text, 'a JSON object such as {"min_samples_leaf": 5}')
    return value


def _check_resume(options: argparse.Namespace, name: str) -> None:
    """Without --resume the storage must have no such study."""
    import optuna

    from abc_plugins.tuning.study.storage import open_storage

    if options.storage is None:
        if options.resume:
            fail("--storage", None, "given with --resume")
        return
    if "://" not in options.storage and not Path(options.storage).exists():
        return
    if name in optuna.get_all_study_names(open_storage(options.storage)) and not options.resume:
        raise ValueError(f"{options.storage} has a study {name!r} already; use --resume to continue it.")


def _read_file(options: argparse.Namespace, path: str, **roles: Any) -> Any:
    drop = [*options.drop, *([options.group] if options.group else [])]
    form = csv_format(options)
    return read_table(path, target=options.target, weight=options.weight, drop=drop, form=form, **roles)


def _read(options: argparse.Namespace, path: str) -> tuple[Any, Any]:
    chosen = options.categorical_features
    data = _read_file(options, path, categorical=FROM_DTYPE, text=chosen)
    data = replace(data, features=_with_categories(data.features, chosen, path))
    if options.group is None:
        return data, None
    # As a target a column may hold text.
    form = csv_format(options)
    try:
        groups = read_table(
            path, target=options.group, columns=data.features.names[:1], categorical=FROM_DTYPE, form=form
        )
    except ValueError as error:
        raise ValueError(f"--group {str(error).removeprefix('target ')}") from error
    return data, groups.labels


def _with_categories(features: Features, categorical: Sequence[str], path: str) -> Features:
    """The features with these columns as categories, besides those that are."""
    names = features.names or []
    for name in categorical:
        if name not in names:
            fail("--categorical-features", name, f"columns of {path} that are features")
    if not categorical:
        return features
    levels = features.levels or [None] * len(names)
    chosen = [name in categorical or known is not None for name, known in zip(names, levels, strict=True)]
    read = read_features(features, categorical=chosen)
    return replace(read, levels=[None if one is None else _whole(one) for one in read.levels or ()] or None)


def _whole(levels: AnyArray) -> AnyArray:
    """Levels as whole numbers if they are: XGBoost takes no others."""
    is_whole = levels.dtype.kind == "f" and (np.abs(levels) < 2**53).all() and (levels == np.floor(levels)).all()
    return levels.astype(np.int64) if is_whole else levels


# ------------------------------------------------------------------------------------------------ look


def _status(options: argparse.Namespace) -> None:
    from abc_plugins.tuning.result import summary_text, trial_records
    from abc_plugins.tuning.verdict import judge

    study = _load(options)
    records = trial_records(study)
    counts = dict.fromkeys(("complete", "pruned", "running", "waiting", "fail"), 0)
    for record in records:
        counts[record["state"]] += 1
    if options.json:
        verdict = judge(study) if counts["complete"] else None
        status: dict[str, Any] = {"study": study.study_name, **counts}
        status["best_trial"] = verdict and verdict.chosen.number
        status["best_score"] = verdict and verdict.chosen.values[0]
        status["keeps_defaults"] = verdict and verdict.keeps_defaults
        print(json.dumps(status))
    elif counts["complete"]:
        print(summary_text(study))
    else:
        print(f"study            {study.study_name}: " + ", ".join(f"{n} {state}" for state, n in counts.items() if n))


def _report(options: argparse.Namespace) -> None:
    from abc_plugins.tuning.report.page import write_report

    if options.out is None:
        fail("--out", None, "given: the HTML file to write")
    check_output(options.out, options.force)
    write_report(_load(options), options.out)
    print(f"{options.out}: {os.path.getsize(options.out):,} bytes")


def _load(options: argparse.Namespace) -> Any:
    from abc_plugins.tuning.study.storage import load_study

    return load_study(options.storage, options.study_name)
