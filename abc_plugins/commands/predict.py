"""The command `predict`: labels and probabilities for the rows of a file, some of them at a time."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from abc_plugins.commands.shared import add_table_options, check_output, csv_format, text_columns

if TYPE_CHECKING:
    from abc_plugins.classifier import ABCBoostClassifier
    from abc_plugins.data.tables import Features

EXAMPLES = """examples:
  abc-plugins predict model.abc test.csv
  abc-plugins predict model.abc test.csv --out labels.csv
  abc-plugins predict model.abc test.parquet --id row --label --proba --out result.parquet
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("model", metavar="MODEL", help="model file")
    parser.add_argument(
        "data", metavar="DATA", help="CSV or Parquet file; columns that the model does not know are left out"
    )
    parser.add_argument("--out", metavar="FILE", help="CSV (also .gz) or Parquet file to write; without it, print CSV")
    parser.add_argument("--label", action="store_true", help="write the label (the default without --proba)")
    parser.add_argument("--proba", action="store_true", help="write a column of probabilities for every class")
    parser.add_argument(
        "--id", nargs="+", default=[], metavar="COLUMN", help="columns of the data to write before all others"
    )
    add_table_options(parser)
    parser.add_argument("--force", action="store_true", help="replace the output file if it exists")


def run(options: argparse.Namespace) -> None:
    """Predict the rows of a file."""
    from abc_plugins.classifier import ABCBoostClassifier
    from abc_plugins.data.tablewriting import open_writer

    if options.out is not None:
        check_output(options.out, options.force, options.model, options.data)
    model = ABCBoostClassifier.load_model(options.model)
    n_rows = 0
    with open_writer(options.out) as write:
        for features, ids in read_rows(model, options.data, options, options.id):
            columns = _predict(model, features, options.label or not options.proba, options.proba)
            repeated = [name for name in ids if name in columns]
            if repeated:
                raise ValueError(f"--id {repeated[0]} is the name of a column of predictions; rename it in the data.")
            write({**ids, **columns})
            n_rows += features.values.shape[0]
    if options.out is not None:
        print(f"{options.out}: {n_rows} rows")


def read_rows(
    model: ABCBoostClassifier, path: str, options: argparse.Namespace, keep: Sequence[str] = ()
) -> Iterator[tuple[Features, dict[str, list[Any]]]]:
    """The features of a file that the model needs, and the columns to keep, some rows at a time."""
    from abc_plugins.data.tablefiles import read_batches

    names, mask = getattr(model, "feature_names_in_", None), model.is_categorical_
    how: dict[str, Any] = {"drop": options.drop, "keep": keep, "form": csv_format(options)}
    if names is None:
        for features, ids in read_batches(path, **how, categorical=mask.tolist() if mask.any() else None):
            yield replace(features, names=None), ids
        return
    yield from read_batches(
        path,
        **how,
        columns=list(names),
        categorical=names[mask].tolist(),
        text=text_columns(names, model.categories_),
    )


def _predict(model: ABCBoostClassifier, features: Features, label: bool, proba: bool) -> dict[str, Any]:
    """The columns to write."""
    columns: dict[str, Any] = {}
    if not proba:
        return {"prediction": model.predict(features)}
    probabilities = model.predict_proba(features)
    if label:
        columns["prediction"] = model.classes_[probabilities.argmax(axis=1)]
    return columns | dict(zip(_probability_names(model.classes_), probabilities.T, strict=True))


def _probability_names(classes: Any) -> list[str]:
    labels = classes.tolist()
    distinct = len({str(label) for label in labels}) == len(labels)
    return [f"proba_{label if distinct else repr(label)}" for label in labels]
