"""Small random multi-class data, and the folder of the real data sets."""

import os
from dataclasses import dataclass
from pathlib import Path

import hypothesis
import numpy as np
import pytest

from abc_plugins import ABCBoostClassifier
from abc_plugins.core.bins.training_data import make_training_data
from abc_plugins.core.boosters import make_booster
from abc_plugins.core.runtime.parallel import Workers
from abc_plugins.core.settings import MAX_BINS

# The same examples in every run, and no limit on time: machines differ and may be busy.
hypothesis.settings.register_profile("project", deadline=None, derandomize=True, max_examples=60)
hypothesis.settings.load_profile("project")


@dataclass(frozen=True)
class Data:
    """Training data, and rows to predict that were not trained on."""

    X: np.ndarray
    y: np.ndarray
    weights: np.ndarray | None
    X_test: np.ndarray


def make_data(n_classes=3, n_samples=90, n_features=4, *, weights=None, missing=0.0, seed=0):
    """Draw Gaussian clusters, one a class, that overlap; the first samples hold every class twice.

    Parameters
    ----------
    weights : None, "real" (0.2 to 3), "integer" (1 to 3) or "zeros" (integers, a quarter of them 0)
    missing : float
        Share of the values that are NaN.
    """
    rng = np.random.default_rng([seed, n_classes, n_samples, n_features])
    n_test = n_samples // 2
    y = rng.integers(0, n_classes, n_samples + n_test)
    y[: 2 * n_classes] = np.tile(np.arange(n_classes), 2)
    X = rng.normal(size=(n_classes, n_features))[y] + 1.2 * rng.normal(size=(y.size, n_features))
    X[rng.random(X.shape) < missing] = np.nan
    drawn = {
        None: None,
        "real": rng.uniform(0.2, 3.0, n_samples),
        "integer": rng.integers(1, 4, n_samples).astype(float),
        "zeros": rng.integers(1, 4, n_samples) * (rng.random(n_samples) > 0.25).astype(float),
    }[weights]
    if weights == "zeros":
        drawn[: 2 * n_classes] = 1.0
    return Data(X[:n_samples], y[:n_samples], drawn, X[n_samples:])


@pytest.fixture(name="make_data")
def _make_data():
    return make_data


def paper_settings(*, seed=0, **options):
    """Settings of a booster: the defaults of the paper's methods, and `options`."""
    return ABCBoostClassifier(**{"method": "abcrobustlogit", **options})._check_parameters(seed)


def grow_model(X, y, is_categorical=None, **options):
    """Train without the classifier, which makes numbers of categories first; returns the trees."""
    settings = ABCBoostClassifier(**options)._check_parameters(seed=0)
    with Workers(1) as workers:
        labels = np.asarray(y, dtype=np.int32)
        samples = X, labels, np.ones(len(labels)), int(labels.max()) + 1
        data = make_training_data(*samples, settings.max_bins or MAX_BINS, workers, is_categorical)
        booster = make_booster(data, settings, workers)
        for _ in range(settings.n_estimators):
            booster.run_round()
    return booster.model


@pytest.fixture(name="grow_model")
def _grow_model():
    return grow_model


def make_categories(n_classes, n_samples=400, seed=0):
    """Two columns of category numbers, the second with holes, and three of numbers; some values are missing.

    Returns
    -------
    X, y : arrays
    is_categorical : array of bool
    """
    rng = np.random.default_rng([seed, n_classes])
    X = rng.normal(size=(n_samples, 5)).astype(np.float32).astype(float)
    X[:, 0], X[:, 1] = rng.integers(0, 12, n_samples), 50 * rng.integers(0, 4, n_samples)
    X[rng.random(X.shape) < 0.1] = np.nan
    known = np.nan_to_num(X)
    y = (5 * known[:, 0] % 7 + 3 * (known[:, 2] > 0) + known[:, 1] // 50 % 2).astype(int) % n_classes
    y[:n_classes] = np.arange(n_classes)
    return X, y, np.array([True, True, False, False, False])


@pytest.fixture(name="make_categories")
def _make_categories():
    return make_categories


@pytest.fixture
def fitted_on_categories():
    """A classifier, a table with a level that it has not seen, and that table as numbers (the places of levels)."""
    pd = pytest.importorskip("pandas")
    X, y, _ = make_categories(3)
    levels = pd.Categorical.from_codes(np.nan_to_num(X[:, 0], nan=-1).astype(int), list("mlkjihgfedcb"))
    table = pd.DataFrame({"level": levels, "size": X[:, 2]})
    model = ABCBoostClassifier(n_estimators=8, learning_rate=0.3, n_jobs=1, random_state=0).fit(table, y)
    assert model.model_.flat().sets.size > 0
    new = table.assign(level=table["level"].astype(object).where(np.arange(400) % 7 > 0, "unknown"))
    place = {level: number for number, level in enumerate(model.categories_[0])}
    return model, new, np.column_stack([new["level"].map(place), new["size"]]).astype(float)


@pytest.fixture(scope="session")
def data_folder():
    """Folder of the real data sets; tests that use it are marked `data` and skipped without it."""
    return Path(os.environ["ABC_PLUGINS_DATA"])


def pytest_collection_modifyitems(items):
    folder = os.environ.get("ABC_PLUGINS_DATA")
    if folder and Path(folder).is_dir():
        return
    reason = "the environment variable ABC_PLUGINS_DATA does not name the folder of the real data sets"
    for item in items:
        if item.get_closest_marker("data"):
            item.add_marker(pytest.mark.skip(reason=reason))
