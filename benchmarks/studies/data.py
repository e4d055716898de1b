"""Data sets as tables, split into rows to tune on and untouched rows."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn import datasets
from sklearn.model_selection import train_test_split

_NO_FEATURES = (
    "is_train_abcboost",
    "is_train",
    "encounter_id",
    "patient_nbr",
    "speaker",
    "batch",
    "concentration_ppmv",
)
_OWN = {"wine": datasets.load_wine, "iris": datasets.load_iris, "digits": datasets.load_digits}
_LEAST_ROWS_OF_A_CLASS = 10
_MOST_TEST_ROWS = 10_000


def load(name: str) -> tuple[pd.DataFrame, np.ndarray]:
    """Features, with categories as such, and class indices; classes of fewer than ten rows are left out."""
    if name in _OWN:
        found = _OWN[name]()
        frame, y = pd.DataFrame(found.data).add_prefix("f"), pd.Series(found.target)
    else:
        frame = pd.read_parquet(Path(os.environ["ABC_PLUGINS_DATA"]) / f"{name}.parquet")
        y = frame.pop("target").astype(str)
        dropped = [*_NO_FEATURES, *(["sex"] if name == "vowel" else [])]
        frame = frame.drop(columns=[column for column in frame if column in dropped])
    if name == "optdigits":  # the last rows are scikit-learn's digits
        frame, y = frame.iloc[:3823], y.iloc[:3823]
    kept = (y.map(y.value_counts()) >= _LEAST_ROWS_OF_A_CLASS).to_numpy()
    frame, y = frame[kept].reset_index(drop=True), y[kept]
    text = [column for column in frame if not pd.api.types.is_numeric_dtype(frame[column])]
    return frame.astype(dict.fromkeys(text, "category")), np.unique(y, return_inverse=True)[1]


def split(y: np.ndarray, most_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A stratified half of the rows, at most so many, and as untouched rows the other half."""
    half, rest = train_test_split(np.arange(y.size), test_size=0.5, stratify=y, random_state=seed)
    if half.size > most_rows:
        half = train_test_split(half, train_size=most_rows, stratify=y[half], random_state=seed)[0]
    return half, rest[:_MOST_TEST_ROWS]


def log_loss(y: np.ndarray, probabilities: Any) -> float:
    """Mean log loss."""
    right = np.asarray(probabilities, dtype=np.float64)[np.arange(y.size), y]
    return float(-np.log(np.maximum(right, 1e-15)).mean())


def error(y: np.ndarray, probabilities: Any) -> float:
    """Share of wrong labels."""
    return float((np.asarray(probabilities).argmax(axis=1) != y).mean())


def done_before(path: str | None) -> list[dict[str, Any]]:
    """Results that the file has."""
    if path is None or not Path(path).exists():
        return []
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]


def keep(path: str | None, row: dict[str, Any]) -> None:
    """Append a result to the file, and print it."""
    print(json.dumps(row), flush=True)
    if path is not None:
        with open(path, "a", encoding="utf-8") as file:
            print(json.dumps(row), file=file)
