"""
A native model as a LightGBM model
==================================

In another process without this package, explained by SHAP, as ONNX, in treelite.

SHAP, onnxmltools with onnxruntime, and treelite are shown where they are installed.
"""

import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from abc_plugins import ABCBoostClassifier
from abc_plugins.lgbm import export

X, y = load_digits(return_X_y=True)
model = ABCBoostClassifier(n_estimators=30, n_jobs=1).fit(X, y)
expected = model.predict_proba(X)

with tempfile.TemporaryDirectory() as folder:
    booster = export(model, Path(folder, "model.txt"))
    np.save(Path(folder, "X.npy"), X)
    code = (
        "import lightgbm, numpy\n"
        "numpy.save('P.npy', lightgbm.Booster(model_file='model.txt').predict(numpy.load('X.npy')))"
    )
    subprocess.run([sys.executable, "-c", code], cwd=folder, check=True)
    print("another process, LightGBM alone:", np.abs(np.load(Path(folder, "P.npy")) - expected).max())

contributions = booster.predict(X, pred_contrib=True).reshape(len(X), 10, -1)
print(
    "pred_contrib adds up to the scores:", np.abs(contributions.sum(axis=2) - booster.predict(X, raw_score=True)).max()
)

if find_spec("shap"):
    import shap

    values = np.asarray(shap.TreeExplainer(booster).shap_values(X[:20]))
    print("SHAP values:", values.shape)

if find_spec("onnxmltools") and find_spec("onnxruntime"):
    import onnxmltools
    import onnxruntime
    from onnxmltools.convert.common.data_types import FloatTensorType

    converted = onnxmltools.convert_lightgbm(
        booster, initial_types=[("X", FloatTensorType([None, X.shape[1]]))], zipmap=False
    )
    session = onnxruntime.InferenceSession(converted.SerializeToString(), providers=["CPUExecutionProvider"])
    print("ONNX:", np.abs(session.run(None, {"X": X.astype(np.float32)})[1] - expected).max())

if find_spec("treelite"):
    import treelite

    predicted = treelite.gtil.predict(treelite.frontend.from_lightgbm(booster), X)
    print("treelite:", np.abs(np.squeeze(predicted) - expected).max())
