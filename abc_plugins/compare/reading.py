"""The data of a comparison: a set that is known by name, or a file with columns of numbers, text and dates."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import numpy as np

from abc_plugins.commands.shared import csv_format
from abc_plugins.compare.running import LARGEST_VALUE
from abc_plugins.core.runtime.arrays import AnyArray, Floats
from abc_plugins.core.runtime.checks import fail
from abc_plugins.data.csvfiles import CsvFormat
from abc_plugins.data.datasets import Dataset, load, names
from abc_plugins.data.tablefiles import read_table

_DATE_FORMATS = ("iso", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%Y/%m/%d", "%Y%m%d")
_SECONDS_PER_DAY = 86400.0


def find_dataset(options: argparse.Namespace) -> Dataset:
    """Find a data set by name, or read it from a file."""
    if options.data in names():
        return load(options.data, download=True)
    if not Path(options.data).exists():
        raise ValueError(f"data must be a file or one of {', '.join(names())}; there is no file {options.data!r}.")
    if options.target is None:
        raise ValueError(f"--target must name the column of the labels of {options.data}.")
    return read_dataset(
        options.data,
        options.target,
        categorical=options.categorical_features,
        drop=options.drop,
        form=csv_format(options),
    )


def read_dataset(
    path: str,
    target: str,
    *,
    categorical: Sequence[str] = (),
    drop: Sequence[str] = (),
    form: CsvFormat | None = None,
) -> Dataset:
    """Read a file: text becomes categories, dates become days, and text that hardly repeats is left out.

    Infinite values, and others that are too large for some contender, become missing.

    Parameters
    ----------
    path, target, drop : see `read_table`
    categorical : sequence of str
        Columns of a CSV file that are categories whatever they look like.
    form : CsvFormat, optional
    """
    form = form or CsvFormat()
    data = read_table(
        path,
        target=target,
        drop=drop,
        form=form,
        categorical="from_dtype",
        text=categorical,
        dates_as_text=True,
    )
    features = data.features
    if data.labels is None or features.names is None:
        raise ValueError(f"{path} has no column names.")
    for name in categorical:
        if name not in features.names:
            fail("categorical_features", name, f"columns of {path} that are features")
    values = features.array.copy()
    too_large = np.abs(values) > LARGEST_VALUE  # infinity, too, has become a number
    values[too_large] = np.nan
    large = [name for name, column in zip(features.names, too_large.T, strict=True) if column.any()]
    levels = features.levels or [None] * len(features.names)
    categories, dates, unused = [], [], []
    empty = [name for name, column in zip(features.names, values.T, strict=True) if np.isnan(column).all()]
    for index, (name, texts) in enumerate(zip(features.names, levels, strict=True)):
        if texts is None or name in empty:
            continue
        days = None if name in categorical else _days(texts)
        known = ~np.isnan(values[:, index])
        if days is not None:
            values[known, index] = days[values[known, index].astype(np.int64)]
            dates.append(name)
        elif texts.size > max(known.sum() / 2, 1):
            unused.append(name)
        else:
            categories.append(name)
    kept = [index for index, name in enumerate(features.names) if name not in (*unused, *empty)]
    if not kept:
        raise ValueError(f"{path} has no columns left for features: all are empty, or text that hardly repeats.")
    notes = [f"dates counted in days: {', '.join(dates)}"] if dates else []
    notes += [f"left out, since hardly any text in it repeats: {', '.join(unused)}"] if unused else []
    notes += [f"left out, since it is empty: {', '.join(empty)}"] if empty else []
    if large:
        notes.append(f"infinite values and others beyond {LARGEST_VALUE:.1e} count as missing: {', '.join(large)}")
    return Dataset(
        Path(path).name,
        values[:, kept],
        data.labels,
        [features.names[index] for index in kept],
        categorical=tuple(categories),
        note="; ".join(notes),
    )


def _days(levels: AnyArray) -> Floats | None:
    """Days since 1970 of texts that are dates, all in one format; None if they are not."""
    if not levels.size or not all(isinstance(text, str) for text in levels.tolist()):
        return None
    for shape in _DATE_FORMATS:
        try:
            dates = [_parse(text, shape) for text in levels.tolist()]
        except ValueError:
            continue
        start = datetime(1970, 1, 1)
        return np.array([(date.replace(tzinfo=None) - start).total_seconds() / _SECONDS_PER_DAY for date in dates])
    return None


def _parse(text: str, shape: str) -> datetime:
    return datetime.fromisoformat(text) if shape == "iso" else datetime.strptime(text, shape)
