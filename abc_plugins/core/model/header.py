"""The header of a model file: strict JSON, with explicit forms for what JSON cannot hold.

Numbers that are not finite are stored as {"$float": "nan"}, dicts whose keys are not all strings as
{"$items": [[key, value], ...]}, and the classes and the levels of categorical features with their NumPy dtype.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from abc_plugins.core.model.validation import ModelFormatError
from abc_plugins.core.runtime.arrays import AnyArray
from abc_plugins.core.schedule import CLASSIC

MAX_HEADER_BYTES = 2**25
"""Parsed JSON takes up to some twenty times the memory of its text, so that a header of any size would be a bomb."""

_MAX_CONTAINERS = 2**20
"""Brackets in a header: a list or dict of nothing takes three bytes of text, but some hundred of memory."""

MAX_CATEGORIES = 254
"""Numbers of the categories of a feature."""

_MAX_FEATURES = 2**24
_MAX_START = 1e6
_MAX_LABEL_BYTES = 2**26
_FLOAT, _ITEMS = "$float", "$items"
_NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_NUMBER_KINDS: dict[str, tuple[type, ...]] = {"b": (bool,), "i": (int,), "u": (int,), "f": (int, float)}
_LABEL_DTYPE = re.compile(r"object|bool|u?int(8|16|32|64)|float(16|32|64)|<U[1-9][0-9]{0,7}")


def encode_header(header: Mapping[str, Any]) -> bytes:
    """Turn a header into JSON text.

    Parameters
    ----------
    header : mapping
        What `check_header` asks for. Everything else may be None, booleans, numbers, strings, lists and dicts of
        them; NumPy scalars and arrays become plain numbers and lists, tuples become lists.

    Raises
    ------
    TypeError, ValueError
        For what cannot be stored, naming where it is.
    """
    plain = {name: value for name, value in header.items() if name not in ("classes", "categories")}
    special: dict[str, Any] = {"classes": _encode_classes(header["classes"])}
    if header.get("categories"):
        special["categories"] = [
            {**entry, "levels": _encode_classes(entry["levels"])} for entry in header["categories"]
        ]
    return encode_values(plain, **special)


def decode_header(text: bytes) -> dict[str, Any]:
    """Read what `encode_header` wrote, refusing everything else.

    Raises
    ------
    ModelFormatError
    """
    header = decode_values(text)
    if "classes" not in header:
        raise ModelFormatError("the header must be an object with classes.")
    header["classes"] = _decode_classes(header["classes"])
    if "categories" in header:
        header["categories"] = _decode_categories(header["categories"])
    return header


def encode_values(values: Mapping[str, Any], **more: Any) -> bytes:
    """Turn a mapping of names and values into JSON text; `more` is JSON already."""
    plain = {name: _to_json(value, name) for name, value in values.items()} | more
    text = json.dumps(plain, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode("ascii")
    if text.count(b"[") + text.count(b"{") > _MAX_CONTAINERS:
        raise ValueError(
            f"the model's header (feature names, classes, losses, metrics) has more than {_MAX_CONTAINERS} lists, dicts"
            " and brackets in names; use shorter feature names."
        )
    if len(text) > MAX_HEADER_BYTES:
        raise ValueError(
            f"the model's header (feature names, classes, losses, metrics) has {len(text)} bytes, more than the "
            f"{MAX_HEADER_BYTES} that a model file may have; use shorter feature names."
        )
    return text


def decode_values(text: bytes) -> dict[str, Any]:
    """Read what `encode_values` wrote, refusing everything else.

    Raises
    ------
    ModelFormatError
    """
    if text.count(b"[") + text.count(b"{") > _MAX_CONTAINERS:
        raise ModelFormatError(f"the header has more than {_MAX_CONTAINERS} lists and dicts.")
    try:
        plain = json.loads(
            text.decode("ascii"),
            object_pairs_hook=_unique_pairs,
            parse_constant=_refuse_constant,
            parse_float=_finite_float,
            parse_int=_short_int,
        )
        if not isinstance(plain, dict):
            raise ModelFormatError("the header must be an object.")
        return {name: _from_json(value) for name, value in plain.items()}
    except ModelFormatError:
        raise
    except (ValueError, RecursionError) as error:
        raise ModelFormatError(f"the header is not valid JSON: {error}") from error


def check_header(header: Mapping[str, Any], n_rounds: int) -> None:
    """Check the parts of a header that describe the model's structure.

    Parameters
    ----------
    header : mapping
        "classes": array of at least two distinct labels. "n_features": int. "base_classes": the base class of every
        round, -1 for none. "start_scores", if there: a number for every class. "feature_names", if there: None or
        distinct strings, one per feature. "categories", if there: for every categorical feature, in their order, a
        dict of its index "feature", its distinct "levels", an array, and whether there are "other" levels.
        "train_loss", if there: a number for every round.
    n_rounds : int

    Raises
    ------
    ModelFormatError
    """
    missing = sorted({"classes", "n_features", "base_classes"} - set(header))
    if missing:
        raise ModelFormatError(f"the header lacks {', '.join(missing)}.")
    classes, n_features = header["classes"], header["n_features"]
    _require(classes.ndim == 1 and classes.size >= 2, "classes must have at least two labels")
    _require(len(set(classes.tolist())) == classes.size, "classes must be distinct")
    _require(_is_integer(n_features, 1, _MAX_FEATURES), f"n_features must be from 1 to {_MAX_FEATURES}")
    bases = _as_list(header["base_classes"], n_rounds)
    in_range = all(_is_integer(base, CLASSIC, classes.size - 1) for base in bases or ())
    _require(bases is not None and in_range, f"base_classes must be a class index or -1 for each of {n_rounds} rounds")
    if header.get("feature_names") is not None:
        names = _as_list(header["feature_names"], n_features) or []
        distinct = {name for name in names if isinstance(name, str)}
        _require(len(distinct) == n_features, f"feature_names must be {n_features} distinct strings")
    if "categories" in header:
        _check_categories(header["categories"], n_features)
    if "start_scores" in header:
        scores = _as_list(header["start_scores"], classes.size) or [math.nan]
        small = all(isinstance(score, float | int) and abs(score) <= _MAX_START for score in scores)
        _require(small, f"start_scores must be a number up to {_MAX_START} for each of {classes.size} classes")
    if "train_loss" in header:
        losses = _as_list(header["train_loss"], n_rounds)
        numbers = all(isinstance(loss, float | int) for loss in losses or ())
        _require(losses is not None and numbers, f"train_loss must be a number for each of {n_rounds} rounds")


def _check_categories(categories: list[dict[str, Any]], n_features: int) -> None:
    features = [entry["feature"] for entry in categories]
    in_range = all(_is_integer(feature, 0, n_features - 1) for feature in features)
    _require(in_range and features == sorted(set(features)), "categories must name features, each once and in order")
    for entry in categories:
        levels, other = entry["levels"], entry["other"]
        _require(isinstance(other, bool), "categories must say by a boolean whether there are other levels")
        most = MAX_CATEGORIES - other
        _require(levels.size <= most, f"categories must have at most {most} levels of a feature")
        _require(len(set(levels.tolist())) == levels.size, "the levels of a categorical feature must be distinct")


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ModelFormatError(f"{message}.")


def _is_integer(value: Any, minimum: int, maximum: int) -> bool:
    is_integer = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return is_integer and minimum <= value <= maximum


def _as_list(value: Any, length: int) -> list[Any] | None:
    """Turn a list or array of the given length into a list; return None for everything else."""
    value = value.tolist() if isinstance(value, np.ndarray) else value
    return list(value) if isinstance(value, list | tuple) and len(value) == length else None


# ------------------------------------------------------------------------------------------------ values


def _to_json(value: Any, where: str) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_to_json(item, f"{where}[{index}]") for index, item in enumerate(value)]
    if isinstance(value, dict):
        return _dict_to_json(value, where)
    if isinstance(value, float) and not math.isfinite(value):
        return {_FLOAT: "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"}
    if isinstance(value, int) and abs(value) >= 2**64:
        raise ValueError(f"{where} cannot be stored in a model file: {value} has more than 64 bits.")
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(
        f"{where} cannot be stored in a model file: {type(value).__name__} is not None, a boolean, a number, a string, "
        "a list or a dict."
    )


def _dict_to_json(value: dict[Any, Any], where: str) -> dict[str, Any]:
    if all(isinstance(key, str) for key in value) and not {_FLOAT, _ITEMS} & set(value):
        return {key: _to_json(item, f"{where}.{key}") for key, item in value.items()}
    items = []
    for key, item in value.items():
        plain_key = _to_json(key, f"the key {key!r} of {where}")
        if isinstance(plain_key, list | dict):
            raise TypeError(f"the key {key!r} of {where} cannot be stored in a model file.")
        items.append([plain_key, _to_json(item, f"{where}[{key!r}]")])
    return {_ITEMS: items}


def _from_json(value: Any) -> Any:
    if isinstance(value, list):
        return [_from_json(item) for item in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {_FLOAT} and isinstance(value[_FLOAT], str) and value[_FLOAT] in _NOT_FINITE:
        return _NOT_FINITE[value[_FLOAT]]
    if set(value) == {_ITEMS}:
        return _dict_from_items(value[_ITEMS])
    if _FLOAT in value or _ITEMS in value:
        raise ModelFormatError("the header has a wrong special value.")
    return {key: _from_json(item) for key, item in value.items()}


def _dict_from_items(items: Any) -> dict[Any, Any]:
    if not isinstance(items, list) or not all(_is_item(item) for item in items):
        raise ModelFormatError("the header has a wrong dict.")
    result = {key: _from_json(value) for key, value in items}
    if len(result) != len(items):
        raise ModelFormatError("the header has a dict with a key twice.")
    return result


def _is_item(item: Any) -> bool:
    return isinstance(item, list) and len(item) == 2 and not isinstance(item[0], list | dict)


def _unique_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ModelFormatError("the header has a key twice.")
    return result


def _refuse_constant(name: str) -> Any:
    raise ModelFormatError(f"the header has {name}, which is not JSON.")


def _finite_float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ModelFormatError(f"the header has the number {text[:20]}, which is too large.")
    return number


def _short_int(text: str) -> int:
    number = int(text) if len(text) <= 21 else 2**64
    if abs(number) >= 2**64:
        raise ModelFormatError(f"the header has the number {text[:20]}..., which has more than 64 bits.")
    return number


# ------------------------------------------------------------------------------------------------ classes


def _encode_classes(classes: AnyArray) -> dict[str, Any]:
    dtype = classes.dtype.newbyteorder("<").str if classes.dtype.kind == "U" else classes.dtype.name
    if not _LABEL_DTYPE.fullmatch(dtype):
        raise _unstorable(f"labels of dtype {classes.dtype}")
    if classes.dtype.itemsize * classes.size > _MAX_LABEL_BYTES:
        raise ValueError(f"the classes take more than {_MAX_LABEL_BYTES} bytes; use shorter labels.")
    return {"dtype": dtype, "labels": [_encode_label(label) for label in classes.tolist()]}


def _encode_label(label: Any) -> bool | int | float | str:
    label = label.item() if isinstance(label, np.generic) else label
    if not isinstance(label, bool | int | float | str):
        raise _unstorable(f"the label {label!r} of type {type(label).__name__}")
    if not _is_storable(label):
        raise _unstorable(f"the label {label}" + (", which has more than 64 bits" if isinstance(label, int) else ""))
    return label


def _is_storable(label: bool | int | float | str) -> bool:
    """Whether a label can be told apart from others, and fits into 64 bits."""
    if isinstance(label, float):
        return math.isfinite(label)
    return not isinstance(label, int) or -(2**63) <= label < 2**64


def _unstorable(what: str) -> TypeError:
    return TypeError(
        f"a model file cannot hold {what}: labels must be strings, booleans or numbers of up to 64 bits. "
        "Fit with labels that are (for example their index in a list of your own), or use pickle."
    )


def _decode_classes(stored: Any) -> AnyArray:
    if not isinstance(stored, dict) or set(stored) != {"dtype", "labels"}:
        raise ModelFormatError("classes must have a dtype and labels.")
    name, labels = stored["dtype"], stored["labels"]
    if not isinstance(name, str) or not _LABEL_DTYPE.fullmatch(name) or not isinstance(labels, list):
        raise ModelFormatError(f"classes have a wrong dtype {str(name)[:40]!r} or no labels.")
    dtype = np.dtype(name)
    if dtype.itemsize * len(labels) > _MAX_LABEL_BYTES:
        raise ModelFormatError("classes take too much memory.")
    if not all(_fits(label, dtype) for label in labels):
        raise ModelFormatError(f"classes must have labels of dtype {name}.")
    classes = np.empty(len(labels), dtype=dtype)
    classes[:] = labels
    return classes


def _decode_categories(stored: Any) -> list[dict[str, Any]]:
    if not isinstance(stored, list):
        raise ModelFormatError("categories must be a list.")
    categories = []
    for entry in stored:
        if not isinstance(entry, dict) or set(entry) != {"feature", "levels", "other"}:
            raise ModelFormatError("categories must have a feature, levels and other each.")
        categories.append({**entry, "levels": _decode_classes(entry["levels"])})
    return categories


def _fits(label: Any, dtype: np.dtype[Any]) -> bool:
    if dtype.kind == "O":
        return isinstance(label, bool | int | float | str) and _is_storable(label)
    if dtype.kind == "U":
        return isinstance(label, str) and 4 * len(label) <= dtype.itemsize and not label.endswith("\0")
    if type(label) not in _NUMBER_KINDS[dtype.kind]:
        return False
    if dtype.kind == "f":
        return bool(abs(label) <= float(np.finfo(dtype).max))
    return dtype.kind == "b" or bool(np.iinfo(dtype).min <= label <= np.iinfo(dtype).max)
