"""Everything of LightGBM that is used here and is not part of its public interface.

LightGBM may change these in any release. This is the only module that names them, and importing it fails, with the
versions that are supported, where one of them is gone.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from importlib.abc import MetaPathFinder
from importlib.util import find_spec
from pathlib import Path
from types import FunctionType
from typing import Any, TypeAlias

import lightgbm as lgb
from lightgbm import basic, sklearn

from abc_plugins.core.runtime.checks import check_supported

SUPPORTED = "4.6 to 4.7"

_NAMES = {
    basic: ("_ConfigAliases", "_InnerPredictor", "_log_warning"),
    lgb.Dataset: ("_update_params", "_reverse_update_params", "_set_predictor", "construct"),
    lgb.Booster: ("_get_loaded_param", "free_dataset", "__deepcopy__", "__getstate__"),
    sklearn.LGBMModel: ("_process_params", "fit"),
}


def check_version(version: str = lgb.__version__, names: Mapping[Any, tuple[str, ...]] = _NAMES) -> None:
    """Fail if the version is not supported, or something that is needed is not there."""
    missing = [] if "train" in sklearn.LGBMModel.fit.__code__.co_names else ["a call of train in LGBMModel.fit"]
    check_supported("LightGBM", version, SUPPORTED, names, (4, 6), (4, 8), missing)


check_version()

Predictor: TypeAlias = basic._InnerPredictor
"""Predicts with a Booster's trees without owning them: the Booster has to live as long."""


def aliases(name: str) -> list[str]:
    """All names of a parameter, in the order in which LightGBM prefers them; the main name is first."""
    return list(basic._ConfigAliases.get_sorted(name))


def all_parameters() -> set[str]:
    """All names of all parameters."""
    basic._ConfigAliases.get_sorted("")  # reads them
    return {name for names in basic._ConfigAliases.aliases.values() for name in names}


def log_warning(message: str) -> None:
    """Warn as LightGBM does, through the logger that `lightgbm.register_logger` sets."""
    basic._log_warning(message)


def eval_result(*fields: Any) -> Any:
    """Write a result as LightGBM's callbacks expect it: data set, metric, value, whether to maximise (, deviation)."""
    record = getattr(basic, "EvalResult", None)  # plain tuples before LightGBM 4.7
    return record(*fields) if record else fields


def predictor_of(model: str | Path | lgb.Booster, params: Mapping[str, Any]) -> Predictor:
    """Make a predictor of a model in a file or in memory."""
    if isinstance(model, lgb.Booster):
        predictor = Predictor.from_booster(booster=model, pred_parameter={**model.params, **params})
        predictor.model = model  # keeps the model alive
        return predictor
    return Predictor.from_model_file(model_file=model, pred_parameter=dict(params))


def update_params(data: lgb.Dataset, params: Mapping[str, Any]) -> lgb.Dataset:
    """Give a Dataset the parameters of a training."""
    return data._update_params(dict(params))


def restore_params(data: lgb.Dataset) -> None:
    """Give a Dataset its own parameters back."""
    data._reverse_update_params()


def set_predictor(data: lgb.Dataset, predictor: Predictor | None) -> None:
    """Let the scores of a Dataset start at a model's."""
    data._set_predictor(predictor)


def get_predictor(data: lgb.Dataset) -> Predictor | None:
    """Return the model at whose scores a Dataset starts."""
    return data._predictor


def name_predictor(data: lgb.Dataset, predictor: Predictor | None) -> None:
    """Note the model at whose scores a Dataset starts, without predicting with it."""
    data._predictor = predictor


def is_constructed(data: lgb.Dataset) -> bool:
    """Whether a Dataset has been binned."""
    return data._handle is not None


def training_name(booster: lgb.Booster) -> str:
    """Name of a Booster's training set."""
    return booster._train_data_name


def keep_objective_none(booster: lgb.Booster) -> None:
    """Tell a Booster that was made with objective none that its objective need not be reset.

    LightGBM would do so before the first update, and fails in doing so if no feature can be split.
    """
    booster._Booster__set_objective_to_none = True


def fit_with(train: Callable[..., lgb.Booster]) -> Callable[..., Any]:
    """Make an `LGBMModel.fit` that calls `train` in place of `lightgbm.train`.

    LightGBM's own `fit` prepares data, weights, metrics and callbacks, and then calls `train`, a global of its module.
    The same code runs here with another `train`, in a namespace of its own, so that stock estimators in the same
    process, in other threads too, are not touched.
    """
    stock = inspect.unwrap(sklearn.LGBMModel.fit)
    namespace = {**vars(sklearn), "train": train}
    fit = FunctionType(stock.__code__, namespace, "fit", stock.__defaults__, stock.__closure__)
    fit.__kwdefaults__ = stock.__kwdefaults__
    return fit


_ONNXMLTOOLS = "onnxmltools.convert.lightgbm._parse"


def let_onnxmltools_know(classifier: type[lgb.LGBMClassifier]) -> None:
    """Let `onnxmltools.convert_lightgbm` take a subclass for the LGBMClassifier that it is.

    It looks the exact type up in a table, which is added to as soon as onnxmltools is imported.
    """
    if _ONNXMLTOOLS in sys.modules:
        _add_to_table(sys.modules[_ONNXMLTOOLS], classifier)
    else:
        sys.meta_path.insert(0, _ONNXMLToolsWatcher(classifier))


def _add_to_table(module: Any, classifier: type[lgb.LGBMClassifier]) -> None:
    table = getattr(module, "lightgbm_operator_name_map", {})
    if lgb.LGBMClassifier in table:
        table[classifier] = table[lgb.LGBMClassifier]


class _ONNXMLToolsWatcher(MetaPathFinder):
    """Waits for the import of onnxmltools' table of types, and leaves all imports to the usual finders."""

    def __init__(self, classifier: type[lgb.LGBMClassifier]) -> None:
        self.classifier = classifier

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:  # noqa: ARG002
        """Find the table's module like any other, and add to the table once it is there."""
        if fullname != _ONNXMLTOOLS:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_add(module: Any) -> None:
                execute(module)
                _add_to_table(module, self.classifier)

            spec.loader.exec_module = execute_and_add  # type: ignore[method-assign]
        return spec
