"""Tables of any kind: rows of them, and as a pandas table with categories, which LightGBM and XGBoost take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from scipy.sparse import issparse

from abc_plugins.core.runtime.arrays import AnyArray
from abc_plugins.data.categories import FROM_DTYPE, Categories, no_categories
from abc_plugins.data.tables import Features, read_features, read_known


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


@dataclass(frozen=True)
class KnownColumns:
    """The columns of a training table, by which all other tables are read.

    Attributes
    ----------
    categories : Categories or None
        The levels of columns of text and categories; None if the training data is an array or a sparse matrix, which
        LightGBM and XGBoost take as it is.
    names : list of str or None
    as_array : bool, default=False
        Whether tables become arrays, without names.
    """

    categories: Categories | None = None
    names: list[str] | None = None
    as_array: bool = False

    def read(self, X: Any) -> Any:
        """Turn a table into one that LightGBM and XGBoost take; levels that are not known are missing values."""
        if self.categories is None:
            return X.array if isinstance(X, Features) else X
        values = read_known(X, self.categories, self.names, "X", "the model")
        return values if self.as_array else _to_pandas(Features(values, self.names), self.categories)

    def described(self) -> dict[str, Any] | None:
        """As plain JSON values; None for arrays."""
        if self.categories is None:
            return None
        levels = [None if one is None else one.tolist() for one in self.categories.levels]
        return {"names": self.names, "levels": levels, "as_array": self.as_array}

    @classmethod
    def from_description(cls, description: dict[str, Any] | None) -> KnownColumns:
        """The columns that `described` tells of."""
        if description is None:
            return cls()
        levels = [None if one is None else np.array(one, dtype=object) for one in description["levels"]]
        return cls(_all_levels(levels), description["names"], description["as_array"])


def learn_columns(X: Any) -> tuple[Any, KnownColumns]:
    """Turn a training table into one that LightGBM and XGBoost take, columns of text into categories."""
    is_table = isinstance(X, Features) or isinstance(nw.from_native(X, pass_through=True), nw.DataFrame)
    if not is_table:
        return X, KnownColumns()
    features = read_features(X, categorical=FROM_DTYPE)
    if features.levels is None:
        columns = KnownColumns(no_categories(features.array.shape[1]), features.names, isinstance(X, Features))
    else:
        columns = KnownColumns(_all_levels(features.levels), features.names)
    assert columns.categories is not None
    return features.array if columns.as_array else _to_pandas(features, columns.categories), columns


def _all_levels(levels: list[AnyArray | None]) -> Categories:
    return Categories(tuple(levels), np.zeros(len(levels), dtype=np.bool_))


def _to_pandas(features: Features, categories: Categories) -> Any:
    import pandas as pd

    columns = {}
    for index, levels in enumerate(categories.levels):
        name = f"f{index}" if features.names is None else features.names[index]
        columns[name] = features.array[:, index]
        if levels is not None:
            codes = np.where(np.isnan(columns[name]), -1, columns[name]).astype(np.intp)
            columns[name] = pd.Categorical.from_codes(codes, categories=pd.Index(levels.tolist()))
    return pd.DataFrame(columns)
