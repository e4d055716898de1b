"""The examples of deployment run, and refuse what they should."""

import http.client
import importlib.util
import json
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from abc_plugins import ABCBoostClassifier

from .conftest import with_labels

FOLDER = Path(__file__).parents[2] / "examples" / "deployment"


def example(name):
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model with a text category, its file, and rows as columns."""
    rng = np.random.default_rng(0)
    columns = {"colour": rng.choice(["red", "green", "blue"], 500).tolist(), "size": rng.normal(size=500).tolist()}
    columns["size"][7] = columns["colour"][8] = None
    y = [(c == "red") + (s is not None and s > 0) for c, s in zip(columns["colour"], columns["size"], strict=True)]
    table = pa.table(columns)
    path = tmp_path_factory.mktemp("model") / "model.abc"
    model = ABCBoostClassifier(n_estimators=5, n_jobs=1, random_state=0).fit(table, y)
    model.save_model(path)
    return model, path, table


@pytest.fixture(scope="module")
def server(model):
    server = example("serve_http").make_server(model[1], port=0)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    thread.join()
    server.server_close()


def ask(port, method, path, body=None, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request(method, path, body, headers)
    response = connection.getresponse()
    content = json.loads(response.read())
    connection.close()
    return response.status, content


def test_predictions_over_http(model, server):
    classifier, _, table = model
    status, content = ask(server, "POST", "/predict", json.dumps({"rows": table.to_pylist()}))
    assert status == 200
    assert np.array_equal(content["probabilities"], classifier.predict_proba(table))
    assert content["labels"] == classifier.predict(table).tolist()
    assert ask(server, "GET", "/health") == (200, {"status": "ok"})
    assert ask(server, "GET", "/model") == (200, {"classes": [0, 1, 2], "features": ["colour", "size"]})


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ("no JSON", 400, "Expecting value"),
        ("[1, 2]", 400, 'an object with a list of "rows"'),
        ('{"rows": [{"colour": "red"}]}', 400, "it lacks 'size'"),
        ('{"rows": [{"colour": "red", "size": "large"}]}', 400, "X['size'] must be numbers"),
        ('{"rows": []}', 400, "X must be"),
        ("[" * 100_000, 400, "recursion"),
    ],
)
def test_wrong_requests_are_refused_by_name(server, body, status, message):
    found, content = ask(server, "POST", "/predict", body)
    assert found == status
    assert message in content["error"]


def test_requests_that_are_not_read(server):
    status, content = ask(server, "POST", "/predict", None, **{"Content-Length": str(10**12)})
    assert status == 413
    assert "at most" in content["error"]
    assert ask(server, "POST", "/predict", None, **{"Content-Length": "many"})[0] == 411
    assert ask(server, "GET", "/nothing")[0] == 404
    assert ask(server, "POST", "/nothing", "{}")[0] == 404
    assert ask(server, "GET", "/health")[0] == 200


def test_a_parquet_file_is_scored_in_batches(model, tmp_path, monkeypatch):
    classifier, path, table = model
    source, target = tmp_path / "rows.parquet", tmp_path / "scores.parquet"
    pq.write_table(table.append_column("more", pa.array(range(500))), source, row_group_size=120)
    module = example("score_parquet")
    sizes = []
    predict_proba = module.Predictor.predict_proba
    monkeypatch.setattr(
        module.Predictor, "predict_proba", lambda self, X: sizes.append(len(X["size"])) or predict_proba(self, X)
    )
    assert module.score(path, source, target, batch_rows=100) == 500
    assert sum(sizes) == 500
    assert max(sizes) <= 100
    scores = pq.read_table(target)
    expected = classifier.predict_proba(table)
    assert scores.column_names == ["label", "proba_0", "proba_1", "proba_2"]
    assert np.array_equal(np.column_stack([scores[f"proba_{k}"] for k in range(3)]), expected)
    assert scores["label"].to_pylist() == classifier.predict(table).tolist()


def test_a_parquet_file_for_a_model_without_names(tmp_path):
    model, X = with_labels(["a", "b", "c"])
    path, source, target = (tmp_path / name for name in ("model.abc", "rows.parquet", "scores.parquet"))
    model.save_model(path)
    pq.write_table(pa.table({f"f{j}": X[:, j] for j in range(3)}), source)
    assert example("score_parquet").score(path, source, target) == len(X)
    assert pq.read_table(target)["label"].to_pylist() == model.predict(X).tolist()


def test_mlflow_and_skops():
    done = subprocess.run([sys.executable, FOLDER / "mlflow_and_skops.py"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "MLflow and skops predict what the model predicts" in done.stdout


def test_the_summary_plot_is_drawn(tmp_path):
    command = [sys.executable, FOLDER / "plot_shap_summary.py", tmp_path / "plot.png"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "plot.png").stat().st_size > 10_000
