"""The commands around a run-spec: what is wrong is said before anything is asked; replies can be found and removed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import command
from tests.support.model_server import ModelServer, model_server
from tests.support.places import EXAMPLES
from tests.support.soak import write_spec

CKD = EXAMPLES / "ckd" / "spec.yaml"
FEW = ("--resamples", "100")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModelServer]:
    with model_server(tmp_path_factory.mktemp("server")) as running:
        yield running


def findings(folder: Path, *models: dict[str, Any], code: int, **more: Any) -> dict[tuple[str, str], str]:
    """What the doctor says by model and what was looked at."""
    spec = json.loads((folder / "spec.yaml").read_text()) | more
    (folder / "spec.yaml").write_text(json.dumps({**spec, "models": list(models) or spec["models"]}))
    done = command("doctor", folder / "spec.yaml", "--format", "json", root=folder / "store")
    assert done.code == code, done.out + done.err
    assert not (folder / "store").exists()
    return {(each["model"], each["about"]): each["level"] for each in done.json["findings"]}


def test_the_doctor_finds_everything_there(tmp_path: Path, server: ModelServer) -> None:
    write_spec(tmp_path, server, 8, mode="echo")
    found = findings(tmp_path, {"name": "known", "base_url": server.base_url}, code=0)
    assert found == {
        ("", "spec"): "ok", ("", "data"): "ok", ("", "disk"): "ok", ("known", "model"): "ok", ("known", "server"): "ok",
        ("known", "logprobs"): "ok",
    }  # fmt: skip


def test_two_models_on_one_server_are_both_looked_at(tmp_path: Path, server: ModelServer) -> None:
    write_spec(tmp_path, server, 8)
    models = [{"name": name, "base_url": server.base_url} for name in ("known", "other")]
    found = findings(tmp_path, *models, code=0)
    assert (found["known", "model"], found["other", "model"]) == ("ok", "warning")


def test_the_doctor_finds_what_is_wrong_with_a_server(tmp_path: Path, server: ModelServer) -> None:
    write_spec(tmp_path, server, 8)
    gone = {"name": "gone", "base_url": "http://127.0.0.1:9/v1"}
    refused = {"name": "refused", "base_url": server.at("unauthorized")}
    found = findings(tmp_path, gone, refused, code=4, limits={"retries": 0})
    assert found["gone", "server"] == "problem"
    assert "problem" in (found.get(("refused", "key")), found.get(("refused", "server")))


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"task": "nothing.task.yaml"}, 2),
        ({"models": [{"name": "m", "api_key_env": "STEELYARD_NO_SUCH_KEY"}]}, 2),
        ({"metrics": ["mean(signal.nothing)"]}, 2),
        ({"data": {"path": "nothing.jsonl"}}, 3),
    ],
)
def test_the_doctor_finds_what_is_wrong_with_a_spec(
    tmp_path: Path, server: ModelServer, more: dict[str, Any], code: int
) -> None:
    write_spec(tmp_path, server, 8)
    calls = len(server.calls)
    assert findings(tmp_path, code=code, **more) == {("", "spec"): "problem"}
    assert len(server.calls) == calls


def test_replies_are_named_by_show_and_go_with_delete(tmp_path: Path) -> None:
    def asked(*arguments: Any) -> Any:
        done = command(*arguments, "--format", "json", root=tmp_path)
        assert done.code in (0, 6), done.err
        return done.json

    runs = [asked("run", CKD, "--limit", 20, *FEW) for _ in range(2)]
    whole, texts = (run["run_id"] for run in runs)
    shown = asked("runs", "show", whole)
    journal, cache = Path(shown["Journal"]), Path(shown["Cache"])
    assert journal.is_file()
    assert cache.is_file()
    assert "journal" in asked("runs", "delete", whole, "--yes")["removed"]
    assert not journal.parent.exists()
    assert asked("runs", "delete", texts, "--texts-only", "--yes")["removed"] == ["records.parquet", "journal"]
    assert "Journal" not in asked("runs", "show", texts)


def test_nothing_is_written_among_replies(tmp_path: Path) -> None:
    run = command("run", CKD, "--limit", 20, *FEW, "--format", "json", root=tmp_path).json
    for path in (Path(run["journal"]), Path(run["journal"]).with_name("new.jsonl"), Path(run["cache"])):
        before = path.read_bytes() if path.exists() else None
        done = command("evaluate", EXAMPLES / "ckd" / "recorded.jsonl", "--out", path.parent / path.name, root=tmp_path)
        assert done.code in (2, 5)
        assert (path.read_bytes() if path.exists() else None) == before


def test_the_journal_of_a_run_can_be_replayed(tmp_path: Path) -> None:
    first = command("run", CKD, *FEW, "--format", "json", root=tmp_path).json
    models = [
        {"name": name, "backend": "replay", "options": {"file": first["journal"]}}
        for name in ("bold", "careful", "timid", "recorded")
    ]
    spec = {"id": "again", "task": "ckd_detection", "sample_size": 200, "models": models, "metrics": ["accuracy"]}
    (tmp_path / "again.yaml").write_text(json.dumps(spec))
    again = command("run", tmp_path / "again.yaml", *FEW, "--format", "json", root=tmp_path)
    assert again.code == 0, again.err
    assert again.json["evaluation"]["population"] == first["evaluation"]["population"]


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    done = command("run", CKD, "--dry-run", "--format", "json", root=tmp_path)
    assert done.code == 0
    assert done.json["requests"] == 800
    assert done.json["input_tokens_estimated"] > 10_000
    assert list(tmp_path.iterdir()) == []


def test_prompts_are_exact(tmp_path: Path) -> None:
    shown = command("prompts", CKD, "-n", 2, "--format", "json", root=tmp_path).json
    assert [each["item"] for each in shown] == ["p000001", "p000002"]
    assert [message["role"] for message in shown[0]["messages"]] == ["system", "user"]
    assert "should_abstain" not in json.dumps(shown)


def test_examples_are_no_part_of_a_task(tmp_path: Path) -> None:
    done = command("tasks", "ckd_staging", "--strategy", "few-shot-2", root=tmp_path)
    assert done.code == 2
    assert "steelyard prompts" in done.err


def test_a_limit_of_cost_stops_cleanly_and_says_how_to_go_on(tmp_path: Path) -> None:
    """Recorded answers have a price in the example: the limit of the command wins, and a higher one goes on."""
    stopped = command("run", CKD, "--max-cost", 0.001, "--concurrency", 1, *FEW, root=tmp_path)
    assert stopped.code == 4
    assert "the limit of cost, 0.001, is reached" in stopped.out
    assert "the same command with --resume and a higher --max-cost goes on from there" in stopped.err
    done = command("run", CKD, "--max-cost", 1, "--resume", *FEW, "--format", "json", root=tmp_path)
    assert done.code == 0, done.err
    assert done.json["complete"]
    assert command("run", CKD, "--max-cost", 0, root=tmp_path).code == 2
