"""Tables of any kind: rows of them, and as a pandas table with categories, which LightGBM and XGBoost take."""

from __future__ import annotations

from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from scipy.sparse import issparse

from abc_plugins.core.runtime.arrays import AnyArray
from abc_plugins.data.categories import FROM_DTYPE
from abc_plugins.data.tables import Features, read_features


def take_rows(X: Any, rows: AnyArray) -> Any:
    """Rows of a table, of the same kind as the table."""
    if isinstance(X, Features):
        return Features(X.values[rows], X.names, X.levels)
    frame = nw.from_native(X, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        return frame[rows].to_native()
    if issparse(X):
        return X.tocsr()[rows]
    return np.asarray(X)[rows]


def as_categories(X: Any, like: Any = None) -> Any:
    """A pandas table whose columns of text are categories; arrays and sparse matrices are returned as they are.

    Parameters
    ----------
    X : table or array
    like : pandas table, optional
        What the training data became: columns that are categories there are so here, with the same levels. Others
        become missing values.
    """
    is_table = isinstance(X, Features) or isinstance(nw.from_native(X, pass_through=True), nw.DataFrame)
    if not is_table:
        return X
    levels = None if like is None else _levels(like)
    categorical = FROM_DTYPE if levels is None else [one is not None for one in levels]
    features = read_features(X, categorical=categorical)
    if levels is None and features.levels is None and isinstance(X, Features):
        return features.array
    return _to_pandas(features, levels or features.levels or [None] * features.values.shape[1])


def _levels(table: Any) -> list[Any] | None:
    """The categories of every column of a pandas table; None for an array."""
    if not hasattr(table, "dtypes"):
        return None
    return [getattr(kind, "categories", None) for kind in table.dtypes]


def _to_pandas(features: Features, levels: list[Any]) -> Any:
    import pandas as pd

    columns = {}
    for index, name in enumerate(features.names or [f"f{index}" for index in range(features.values.shape[1])]):
        values, own = features.array[:, index], None if features.levels is None else features.levels[index]
        if own is None:
            columns[name] = values
            continue
        codes = np.where(np.isnan(values), -1, values).astype(np.intp)
        found = pd.Categorical.from_codes(codes, categories=pd.Index(own.tolist()))
        columns[name] = found.set_categories(pd.Index(list(levels[index])))
    return pd.DataFrame(columns)
