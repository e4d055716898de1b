"""A model in MLflow's scikit-learn flavour, and in a skops file that is read without pickle."""

import tempfile
from pathlib import Path

import mlflow.pyfunc
import mlflow.sklearn
import numpy as np
import skops.io
from sklearn.datasets import load_wine

from abc_plugins import SKOPS_TRUSTED_TYPES, ABCBoostClassifier

X, y = load_wine(return_X_y=True, as_frame=True)
model = ABCBoostClassifier(n_estimators=30, n_jobs=1, random_state=0).fit(X, y)
expected = model.predict_proba(X)

with tempfile.TemporaryDirectory() as folder:
    # MLflow keeps scikit-learn models as skops files, too, and has to be told the types to trust. Requirements are
    # given, as finding them out takes a while.
    path = str(Path(folder, "mlflow"))
    mlflow.sklearn.save_model(
        model, path, skops_trusted_types=SKOPS_TRUSTED_TYPES, pip_requirements=["abc-plugins", "skops"]
    )
    assert np.array_equal(mlflow.sklearn.load_model(path).predict_proba(X), expected)
    assert np.array_equal(mlflow.pyfunc.load_model(path).predict(X), model.predict(X))

    # skops by itself: the file says which types it needs.
    file = Path(folder, "model.skops")
    skops.io.dump(model, file)
    needed = skops.io.get_untrusted_types(file=file)
    assert set(needed) == set(SKOPS_TRUSTED_TYPES), needed
    assert np.array_equal(skops.io.load(file, trusted=SKOPS_TRUSTED_TYPES).predict_proba(X), expected)

print("MLflow and skops predict what the model predicts; both were asked to trust", ", ".join(needed))
