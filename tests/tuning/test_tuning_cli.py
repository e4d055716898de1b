"""abc-plugins tune: run, resume, status, report."""

from __future__ import annotations

import base64
import html
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser

import numpy as np
import optuna
import pytest

import abc_plugins
from abc_plugins import ABCBoostClassifier, cli
from abc_plugins.data.tablewriting import write_table
from abc_plugins.tuning.report.page import render_report
from abc_plugins.tuning.result import finding
from abc_plugins.tuning.study.storage import open_storage
from tuning import load_study, tune, write_report

FAST = ["--folds", "2", "--repeats", "1", "--max-rounds", "6", "--early-stopping-rounds", "3"]


@pytest.fixture(name="files", scope="module")
def _files(tmp_path_factory):
    """A table with labels, groups and weights, and a finished study of five trials."""
    folder = tmp_path_factory.mktemp("tune")
    rng = np.random.default_rng(0)
    y = np.tile(np.arange(4), 30)
    X = rng.normal(size=(4, 3))[y] + rng.normal(size=(120, 3))
    columns = {f"x{index}": X[:, index] for index in range(3)}
    columns |= {"animal": np.array(["ant", "bee", "cat", "<dog>"])[y], "patient": np.arange(120) // 4}
    write_table(folder / "data.csv", columns | {"weight": 1.0 + np.arange(120) % 2})
    write_table(folder / "test.csv", columns | {"weight": np.ones(120)})
    command = ["tune", str(folder / "data.csv"), "--target", "animal", "--drop", "patient", "weight", "--trials", "5"]
    command += ["--storage", str(folder / "study.log"), "--out", str(folder / "model.abc"), "--quiet", *FAST]
    assert cli.main(command) == 0
    return folder


@pytest.fixture(name="run")
def _run(capsys):
    def run_command(*arguments):
        code = cli.main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run_command


def test_the_model_is_written(files):
    model = ABCBoostClassifier.load_model(files / "model.abc")
    assert list(model.feature_names_in_) == ["x0", "x1", "x2"]
    assert sorted(model.classes_) == ["<dog>", "ant", "bee", "cat"]


def test_resume_runs_what_is_missing_and_shows_the_best(files, run, tmp_path):
    storage = tmp_path / "study.log"
    shutil.copy(files / "study.log", storage)
    command = ["tune", "run", files / "data.csv", "--target", "animal", "--drop", "patient", "weight", *FAST]
    command += ["--storage", storage, "--trials", "7"]
    code, _, err = run(*command)
    assert (code, "use --resume to continue it" in err) == (1, True)
    code, out, err = run(*command, "--resume")
    assert code == 0, err
    assert "7 complete" in out
    assert re.search(r"trial 7/7: best logloss \d\.\d+, trial \d", err)
    assert "[I " not in err  # Optuna's own lines
    code, _, err = run(*command, "--resume", "--seed", "5")
    assert (code, "cannot be continued" in err) == (1, True)


def test_status(files, run):
    code, out, _ = run("tune", "status", "--storage", files / "study.log")
    assert code == 0
    assert "native engine, 5 complete" in out
    code, out, _ = run("tune", "status", "--storage", files / "study.log", "--json")
    status = json.loads(out)
    assert (status["complete"], status["running"]) == (5, 0)
    study = load_study(files / "study.log", None)
    assert status["best_score"] == study.trials[status["best_trial"]].value
    assert status["keeps_defaults"] == (status["best_trial"] == 0)


def test_weights_groups_test_data_and_cost(files, run):
    code, out, err = run(
        "tune", files / "data.csv", "--target", "animal", "--weight", "weight", "--group", "patient", "--trials", "4",
        "--cost", "--test-data", files / "test.csv", "--quiet", *FAST,
    )  # fmt: skip
    assert code == 0, err
    assert "test set         logloss " in out


def test_an_empty_group_is_told_of_by_the_name_of_its_option(run, tmp_path):
    (tmp_path / "data.csv").write_text("x,city,y\n" + "1,a,0\n2,b,1\n" * 20 + "3,,0\n")
    code, _, err = run("tune", tmp_path / "data.csv", "--target", "y", "--group", "city")
    assert code == 1
    assert "error: --group 'city' of" in err
    assert "is empty in row 41" in err


def test_time_ordered(files, run):
    code, _, err = run(
        "tune", files / "data.csv", "--target", "animal", "--drop", "patient", "weight", "--trials", "1",
        "--time-ordered", "--quiet", *FAST,
    )  # fmt: skip
    assert code == 0, err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["status"], "--storage must be given for 'status'"),
        (["status", "more", "--storage", "s.log"], "followed by DATA, 'run DATA', 'status' or 'report'"),
        (["status", "--storage", "nowhere.log"], "nowhere.log: No such file"),
        (["data.csv"], "--target must be given"),
        (["data.csv", "--target", "y", "--resume"], "--storage must be given with --resume"),
        (["data.csv", "--target", "y", "--fixed", "[1]"], "--fixed must be a JSON object"),
        (["report", "--storage", "s.log"], "--out must be given"),
    ],
)
def test_wrong_usage(run, arguments, message):
    code, _, err = run("tune", *arguments)
    assert code == 1
    assert message in err


# ------------------------------------------------------------------------------------------------ report


class Page(HTMLParser):
    """Collects headings, pictures and everything that would be loaded from elsewhere."""

    def __init__(self, text):
        super().__init__()
        self.headings, self.pictures, self.loaded, self._open = [], [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self._open = tag
        for name, value in attributes:
            if name in ("src", "href", "data", "action"):
                (self.pictures if value.startswith("data:image/png;base64,") else self.loaded).append(value)
        if tag in ("script", "link", "iframe"):
            self.loaded.append(tag)

    def handle_data(self, data):
        if self._open in ("h1", "h2"):
            self.headings.append(data.strip())


@pytest.fixture(name="report", scope="module")
def _report(files):
    path = files / "report.html"
    assert cli.main(["tune", "report", "--storage", str(files / "study.log"), "--out", str(path)]) == 0
    return path


def test_report_is_one_page_without_network(report):
    text = report.read_text(encoding="utf-8")
    page = Page(text)
    assert page.loaded == []
    assert "url(" not in text
    wanted = ["History", "What mattered", "Parameters one by one", "Metric and cost", "Trials"]
    assert [heading for heading in page.headings if heading in wanted] == wanted
    assert len(page.pictures) == 4
    for picture in page.pictures:
        assert base64.b64decode(picture.partition(",")[2]).startswith(b"\x89PNG")
    assert "<dog>" not in text


def test_report_opens_with_the_finding_and_tells_how_to_repeat_it(report, files):
    text = report.read_text(encoding="utf-8")
    study = load_study(files / "study.log", None)
    assert text.index(html.escape(finding(study))) < text.index("<table") < text.index("<img")
    assert "120 rows, 3 features, 4 classes" in text
    assert "abc-plugins tune " in text
    assert f"abc-plugins {abc_plugins.__version__}" in text


def test_pruned_trials_have_no_score_in_the_report():
    rng = np.random.default_rng(0)
    y = np.tile(np.arange(3), 30)
    X = rng.normal(size=(3, 4))[y] + rng.normal(size=(90, 4))

    class PruneLate(optuna.pruners.BasePruner):
        def prune(self, study, trial):  # noqa: ARG002
            return trial.number >= 5

    result = tune(X, y, n_trials=7, cv=2, repeats=1, max_rounds=5, pruner=PruneLate(), refit=False, progress=False)
    table = render_report(result.study).rpartition("<h2>Trials</h2>")[2]
    rows = re.findall(r'<tr class="(\w+)"><td>(\d+)</td><td>[^<]*</td><td>([^<]*)</td>', table)
    assert [score for kind, _, score in rows if kind == "pruned"] == ["", ""]
    assert [kind for kind, *_ in rows][-2:] == ["pruned", "pruned"]
    scores = [float(score) for kind, _, score in rows if kind != "pruned"]
    assert scores == sorted(scores)


@pytest.mark.skipif(shutil.which("chromium") is None, reason="no chromium to look at the page with")
def test_report_in_a_real_browser(report, tmp_path):
    """A script in a copy of the page asks the browser how wide every picture came out."""
    probe = tmp_path / "probe.html"
    script = "<script>document.title=[...document.images].map(i=>i.naturalWidth>300&&i.width>300).join()</script>"
    probe.write_text(report.read_text(encoding="utf-8") + script, encoding="utf-8")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
    flags += [
        "--disable-background-networking",
        "--disable-component-update",
        f"--user-data-dir={tmp_path / 'profile'}",
    ]
    shown = subprocess.run(
        ["chromium", *flags, "--virtual-time-budget=5000", "--dump-dom", probe.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "<title>true,true,true,true</title>" in shown.stdout


def test_report_of_a_foreign_study_is_refused(tmp_path):
    storage = open_storage(tmp_path / "s.log")
    study = optuna.create_study(storage=storage)
    with pytest.raises(ValueError, match="must be one made by"):
        write_report(study, tmp_path / "r.html")
