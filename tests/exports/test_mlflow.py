"""A run of MLflow, in a real store in a folder."""

from __future__ import annotations

import json
import os
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from steelyard.errors import StorageError, UsageError
from steelyard.exports import Place, exporters
from steelyard.exports.contract import Exported
from steelyard.halves import whole_text
from tests.support.commands import command
from tests.support.exports import CREATED, estimate, subject, written
from tests.support.hostile import PAYLOADS

real = pytest.mark.skipif(find_spec("mlflow") is None, reason="mlflow-skinny is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, value in (("MLFLOW_ALLOW_FILE_STORE", "true"), ("MLFLOW_DISABLE_TELEMETRY", "true")):
        monkeypatch.setenv(name, value)
    return tmp_path / "store"


def export(given: Any, store: Path, **facts: str) -> Exported:
    return exporters["mlflow"](given, Place(str(store)), facts)


def run_of(store: Path, run_id: str) -> tuple[Any, Any]:
    """A run as MLflow tells it, and the client that does."""
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=store.absolute().as_uri())
    return client.get_run(run_id), client


def artifact(run: Any, name: str) -> Any:
    return json.loads(Path(run.info.artifact_uri.removeprefix("file://"), name).read_text())


@real
def test_params_metrics_tags_and_artifacts(store: Path) -> None:
    estimates = [
        estimate(),
        estimate("ece(bins=15)", 0.1, slice={"group.site": "x"}),
        estimate("f1_macro", None),
    ]
    given = subject(estimates, run_id="r1", labels={"model": "m1", "odd name": "é"})
    done = export(given, store, experiment="trials")
    assert (done.numbers, done.said) == (2, ("1 of 3 numbers have no value, and are left out",))
    run, client = run_of(store, done.about["run_id"])
    assert client.get_experiment(run.info.experiment_id).name == "trials"
    assert (run.info.status, run.info.run_name) == ("FINISHED", "r1")
    assert run.info.start_time == CREATED.timestamp() * 1000
    assert run.data.metrics == {
        "accuracy": 0.75,
        "accuracy.low": 0.5,
        "accuracy.high": 0.9,
        "accuracy.n": 40,
        "ece-bins-15-group.site-x": 0.1,
        "ece-bins-15-group.site-x.low": 0.5,
        "ece-bins-15-group.site-x.high": 0.9,
        "ece-bins-15-group.site-x.n": 40,
    }
    params = run.data.params
    assert (params["resamples"], params["seed"], params["level"], params["method"]) == ("100", "42", "0.95", "auto")
    assert (params["version"], params["cluster"], params["rows"]) == ("0.0.1", "patient", "40")
    assert (params["input.1.sha256"], params["input.1.path"]) == ("0" * 64, "folder/answers.jsonl")
    tags = run.data.tags
    assert (tags["label.model"], tags["steelyard.run_id"], tags["mlflow.source.name"]) == ("m1", "r1", "steelyard")
    assert [text for name, text in tags.items() if name.startswith("label.odd-name")] == ["é"]
    assert artifact(run, "evaluation.json") == json.loads(given.text)
    assert artifact(run, "metric-names.json") == {
        "accuracy": {"metric": "accuracy", "slice": {}},
        "ece-bins-15-group.site-x": {"metric": "ece(bins=15)", "slice": {"group.site": "x"}},
    }


@real
def test_hostile_names_thousands_of_numbers_and_a_second_run(store: Path) -> None:
    payloads = [*map(whole_text, PAYLOADS)]
    labels = [*payloads, "x" * 10_000, *(f"label {i}" for i in range(600))]
    estimates = [estimate(f"f1.{json.dumps(label)}", i / 1000) for i, label in enumerate(labels)]
    given = subject(estimates, labels={payload: payload * 2000 for payload in payloads})
    first, second = export(given, store), export(given, store)
    assert first.about["run_id"] != second.about["run_id"]
    run, client = run_of(store, second.about["run_id"])
    assert len(run.data.metrics) == 4 * len(labels)
    assert len(client.search_runs([run.info.experiment_id])) == 2
    meant = artifact(run, "metric-names.json")
    assert sorted(run.data.metrics[name] for name in meant) == [i / 1000 for i in range(len(labels))]


@real
def test_nothing_is_left_where_logging_fails(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mlflow import MlflowClient

    done = export(subject([estimate()]), store)
    monkeypatch.setattr(MlflowClient, "log_text", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left")))
    with pytest.raises(StorageError, match="No space left"):
        export(subject([estimate()]), store)
    run, client = run_of(store, done.about["run_id"])
    assert [each.info.run_id for each in client.search_runs([run.info.experiment_id])] == [run.info.run_id]


@real
def test_the_environment_is_as_it_was(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_ALLOW_FILE_STORE")
    monkeypatch.setenv("MLFLOW_LOGGING_LEVEL", "WARNING")
    before = dict(os.environ)
    export(subject([estimate()]), store)
    assert dict(os.environ) == before


@real
def test_the_command(tmp_path: Path) -> None:
    path = written(tmp_path, [estimate()])
    done = command("export", path, tmp_path / "store", "--to", "mlflow", "--about", "experiment=e", root=tmp_path)
    assert done.code == 0, done.err
    where = re.escape(str(tmp_path / "store"))
    assert re.fullmatch(rf"exported 1 number to {where} as mlflow: run_id \w+, experiment e\n", done.out)
    done = command("export", path, "sqlite:///x.db", "--to", "mlflow", root=tmp_path, cwd=tmp_path)
    if find_spec("sqlalchemy") is None:
        assert done.code == 2
        assert "pip install mlflow" in done.err


def test_without_mlflow_the_command_to_type_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    path = written(tmp_path, [estimate()])
    done = command("export", path, tmp_path / "store", "--to", "mlflow", root=tmp_path)
    assert done.code == 2
    assert 'mlflow-skinny is not installed; pip install "steelyard[mlflow]"' in done.err
    assert not (tmp_path / "store").exists()


def test_an_evaluation_without_values_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing to export"):
        export(subject([estimate(value=None)]), tmp_path / "store")
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://user:secret@host:1/p?token=secret", "http://host:1/p"),
        ("https://host", "https://host"),
        ("sqlite:////tmp/x.db", "sqlite:////tmp/x.db"),
        ("databricks", "databricks"),
    ],
)
def test_addresses_are_shown_without_secrets(text: str, shown: str) -> None:
    assert Place(text).is_address
    assert Place(text).shown == shown
    with pytest.raises(UsageError, match="no file or folder"):
        _ = Place(text).path


@pytest.mark.parametrize(
    ("text", "path"), [("a/b", "a/b"), ("file:///tmp/a%20b", "/tmp/a b"), ("/x:y/z", "/x:y/z"), ("c", "c")]
)
def test_paths_are_paths(text: str, path: str) -> None:
    assert not Place(text).is_address
    assert Place(text).path == Path(path)
