"""The README: every Python block runs, one after the other, and every relative link leads somewhere."""

import re
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", TEXT, flags=re.DOTALL | re.MULTILINE)
LINKS = [link.split("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", TEXT) if "://" not in link]


def make_split(rng, n_samples):
    y = np.arange(n_samples) % 3
    return rng.normal(size=(n_samples, 4)) + y[:, None], y


@pytest.fixture(scope="module")
def names():
    """What the blocks take for granted, on small data."""
    lgb, xgboost = pytest.importorskip("lightgbm"), pytest.importorskip("xgboost")
    rng = np.random.default_rng(0)
    X, y = make_split(rng, 120)
    X_valid, y_valid = make_split(rng, 60)
    train_set = lgb.Dataset(X, y)
    return {
        "X": X,
        "y": y,
        "X_valid": X_valid,
        "y_valid": y_valid,
        "X_test": make_split(rng, 30)[0],
        "lgb": lgb,
        "train_set": train_set,
        "valid_set": lgb.Dataset(X_valid, y_valid, reference=train_set),
        "dtrain": xgboost.DMatrix(X, y),
        "dvalid": xgboost.DMatrix(X_valid, y_valid),
    }


def params_for(block):
    """Parameters of the library that the block uses."""
    if "lgbm" in block:
        return {"objective": "multiclass", "num_class": 3, "num_threads": 1, "verbose": -1, "metric": "multi_logloss"}
    return {"objective": "multi:softprob", "num_class": 3, "nthread": 1}


def fewer_rounds(block):
    """The same block with a few rounds, so that it takes no time."""
    return re.sub(r"\b(n_estimators=|dtrain, |train_set, )\d{3}\b", r"\g<1>5", block)


def run_block(number, names):
    block = fewer_rounds(BLOCKS[number])
    names["params"] = params_for(block)
    exec(compile(block, f"README.md, Python block {number}", "exec"), names)


def test_blocks_in_order(names, tmp_path, monkeypatch):
    """One after the other, since later blocks use what earlier ones made."""
    monkeypatch.chdir(tmp_path)
    here = [number for number, block in enumerate(BLOCKS) if "distributed" not in block]
    assert len(here) >= 4
    for number in here:
        run_block(number, names)
    assert names["model"].n_classes_ == 3
    written = set(re.findall(r'save_model\("([^"]+)"\)', "".join(BLOCKS)))
    assert written == {path.name for path in tmp_path.iterdir()}


@pytest.mark.slow
def test_the_block_for_a_cluster(names):
    distributed, array = pytest.importorskip("distributed"), pytest.importorskip("dask.array")
    (number,) = [number for number, block in enumerate(BLOCKS) if "distributed" in block]
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, host="127.0.0.1", dashboard_address=None, silence_logs=50
    ) as cluster:
        parts = {"X": array.from_array(names["X"], chunks=60), "y": array.from_array(names["y"], chunks=60)}
        found = {**names, **parts, "scheduler_address": cluster.scheduler_address}
        run_block(number, found)
    assert found["booster"].num_boosted_rounds() == 5


@pytest.mark.parametrize("link", sorted(set(LINKS)))
def test_links(link):
    assert (ROOT / link).exists()


def test_parameters_in_the_table_are_the_defaults():
    from abc_plugins.core.settings import Settings

    defaults = vars(Settings())
    rows = re.findall(r"^\| `(\w+)` \|[^|]*\| ([^|]+?) \|", TEXT, flags=re.MULTILINE)
    assert len(rows) >= 8
    for name, shown in rows:
        assert str(defaults[name]) in (shown.strip('`"'), f"{shown}.0"), name
