"""What a server says that cannot be, or was not asked for: the run goes on, and says of each model what it was."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import steelyard as sy
from steelyard.ground.journal import Rows
from steelyard.runner.backends import Reply, anthropic, chat, ollama, openai
from steelyard.runner.backends.contract import NO_COUNT
from steelyard.uncertainty.settings import Settings
from tests.support.model_server import ModelServer, model_server

ITEMS, FEW = 4, Settings(resamples=100)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModelServer]:
    with model_server(tmp_path_factory.mktemp("server")) as server:
        yield server


def asked(folder: Path, *models: tuple[str, str]) -> sy.Run:
    """A run of models, each by its name and its address."""
    rows = [{"id": n, "text": f"question {n}", "label": "yes"} for n in range(ITEMS)]
    (folder / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    task = {"name": "t", "data": "data.jsonl", "id": "id", "question": "text", "target": "label",
            "labels": ["yes", "no"]}  # fmt: skip
    (folder / "t.task.yaml").write_text(json.dumps(task))
    stated = [{"name": name, "backend": "openai", "base_url": url} for name, url in models]
    spec = {"id": "s", "task": "t.task.yaml", "metrics": ["accuracy"], "models": stated}
    (folder / "spec.yaml").write_text(json.dumps(spec))
    return sy.run(folder / "spec.yaml", root=folder / "store", settings=FEW)


def about(run: sy.Run, name: str) -> list[str]:
    """What a run says of a model."""
    return [warning for warning in run.evaluation.warnings if warning.startswith(f"{name}: ")]


def counts(run: sy.Run, name: str) -> set[Any]:
    rows = [row for row in Rows(run.journal) if row.get("model") == name]
    return {row["reply"].get("output_tokens") for row in rows}


def test_another_model_than_was_asked_is_said_of_the_model(tmp_path: Path, running: ModelServer) -> None:
    run = asked(tmp_path, ("dear", running.at("other_model")), ("plain", running.base_url))
    assert run.is_complete
    assert run.problems == ()
    assert about(run, "dear") == [f"dear: in {ITEMS} replies, the server names another model than was asked"]
    assert about(run, "plain") == []
    assert "cheaper" not in " ".join(run.evaluation.warnings)


@pytest.mark.parametrize("count", ["-3", "NaN", "Infinity", "400digits", "1.5", "true"])
def test_a_count_of_tokens_that_is_none_is_said_and_not_kept(tmp_path: Path, running: ModelServer, count: str) -> None:
    run = asked(tmp_path, ("odd", f"{running.address}/counted/{count}"), ("plain", running.base_url))
    assert run.is_complete
    assert about(run, "odd") == [f"odd: in {ITEMS} replies, a count of tokens is stated that is none; it is left out"]
    assert about(run, "plain") == []
    assert counts(run, "odd") == {None}
    assert None not in counts(run, "plain")
    assert run.records.to_arrow()["output_tokens"].null_count == ITEMS


def test_a_key_that_stands_twice_is_said(tmp_path: Path, running: ModelServer) -> None:
    run = asked(tmp_path, ("doubled", running.at("twice")), ("plain", running.base_url))
    assert run.is_complete
    assert about(run, "doubled") == [f"doubled: in {ITEMS} replies, a key stands twice in the answer; the last counts"]
    assert about(run, "plain") == []


def test_what_was_odd_is_said_again_of_replies_from_the_cache(tmp_path: Path, running: ModelServer) -> None:
    for _ in range(2):
        run = asked(tmp_path, ("dear", running.at("other_model")))
        assert len(about(run, "dear")) == 1


WRONG = (-1, math.nan, int("9" * 400), 1.5, "7", True)


@pytest.mark.parametrize("count", WRONG)
def test_every_protocol_leaves_out_a_count_that_is_none_and_says_so(count: Any) -> None:
    bodies = {
        openai.read: {"choices": [{"message": {"content": "x"}}], "usage": {"prompt_tokens": count}},
        ollama.read: {"message": {"content": "x"}, "done": True, "prompt_eval_count": count, "eval_count": count,
                      "eval_duration": 1},
        anthropic.read: {"content": [{"type": "text", "text": "x"}],
                         "usage": {"input_tokens": 1, "cache_read_input_tokens": count, "output_tokens": count}},
    }  # fmt: skip
    for read, body in bodies.items():
        reply = read(json.dumps(body).encode())
        assert (reply.text, reply.input_tokens, reply.output_tokens) == ("x", None, None)
        assert reply.remarks == (NO_COUNT,)
        assert not {"eval_count", "tokens_per_sec"} & {*(reply.signals or {})}
        assert Reply.of(json.loads(json.dumps(reply.document()))) == reply


def test_a_count_that_is_not_stated_is_not_remarked() -> None:
    for usage in ({}, {"prompt_tokens": None}, None):
        body = {"choices": [{"message": {"content": "x"}}], "usage": usage}
        assert openai.read(json.dumps(body).encode()).remarks == ()


@pytest.mark.parametrize(
    ("asked_for", "named", "another"),
    [
        ("gpt-4o", "gpt-4o", False),
        ("gpt-4o", "GPT-4o", False),
        ("gpt-4o", "gpt-4o-2024-08-06", False),
        ("gpt-4", "gpt-4-0613", False),
        ("claude-x-latest", "claude-x-20241022", False),
        ("llama3.2", "llama3.2:latest", False),
        ("gpt-4o", "openai/gpt-4o", False),
        ("openai/gpt-4o", "gpt-4o-2024-08-06", False),
        ("gpt-4o", None, False),
        ("gpt-4o", "gpt-4o-mini", True),
        ("gpt-4o-mini", "gpt-4o", True),
        ("gpt-4o-2024-05-13", "gpt-4o-2024-08-06", True),
        ("a/llama", "b/llama", True),
        ("llama3.2:3b", "llama3.2:1b", True),
        ("gpt-4o", "", True),
    ],
)
def test_a_version_of_a_model_is_no_other_model(asked_for: str, named: str | None, another: bool) -> None:
    assert chat.is_another(asked_for, named) is another
