"""A server that refuses, explains or hangs, and a run that was done already: what is asked, counted and said."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import steelyard as sy
from steelyard.ground.journal import Rows
from steelyard.runner.backends.complaints import complaint
from steelyard.uncertainty.settings import Settings
from tests.support.commands import command
from tests.support.wire_server import Call, WireServer, wire_server

ITEMS, FEW = 6, Settings(resamples=100)
PATIENT = "Mrs Agnes Whitfield, 61, has crackles"


def spec(folder: Path, server: WireServer, **more: Any) -> Path:
    """A spec about six patients, whose texts must not be shown."""
    rows = [{"id": n, "text": f"{PATIENT} number {n}", "label": "yes"} for n in range(ITEMS)]
    (folder / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    task = {"name": "t", "data": "data.jsonl", "id": "id", "question": "text", "target": "label",
            "labels": ["yes", "no"]}  # fmt: skip
    (folder / "t.task.yaml").write_text(json.dumps(task))
    models = [{"name": "m", "backend": "openai", "base_url": f"{server.url}/v1"}]
    document = {"id": "s", "task": "t.task.yaml", "metrics": ["accuracy"], "models": models, **more}
    (folder / "spec.yaml").write_text(json.dumps(document))
    return folder / "spec.yaml"


def asked(folder: Path, answer: Callable[[Call], tuple[int, Any]], **more: Any) -> tuple[sy.Run, list[str]]:
    """The run of a server that answers so, and what was said meanwhile."""
    said: list[str] = []
    with wire_server(answer) as server:
        run = sy.run(spec(folder, server, **more), root=folder / "store", settings=FEW, say=said.append)
    return run, said


def message(finish: str = "stop", **message: Any) -> tuple[int, Any]:
    return 200, {"choices": [{"message": {"role": "assistant", **message}, "finish_reason": finish}]}


@pytest.mark.parametrize(
    ("answer", "how"),
    [
        (message(content=None, refusal="I'm sorry, I cannot assist with that."), "field"),
        (message(content="yes", refusal="I'm sorry, I cannot assist with that."), "field"),
        (message(content=None, finish="content_filter"), "filter"),
        (message(content="Answer: y", finish="content_filter"), "filter"),
    ],
)
def test_a_refusal_is_an_answer_that_declines(tmp_path: Path, answer: tuple[int, Any], how: str) -> None:
    run, _ = asked(tmp_path, lambda _: answer)
    assert run.exit_code == 0
    assert run.records.counts() == {"answered": 0, "abstained": ITEMS, "unparsed": 0, "failed": 0}
    assert run.records.column("declined_by").to_pylist() == [how] * ITEMS
    assert run.tallies["m"].declined == {how: ITEMS}
    assert run.evaluation["accuracy"].value == 0.0  # wrong end to end, and in the denominator
    assert run.evaluation["accuracy"].n == ITEMS


def test_null_without_a_refusal_is_no_reply(tmp_path: Path) -> None:
    run, _ = asked(tmp_path, lambda _: message(content=None))
    assert run.exit_code == 4
    assert run.tallies["m"].failures == {"the reply has no text": ITEMS}


def test_a_prompt_that_a_filter_refused_has_failed(tmp_path: Path) -> None:
    error = {"error": {"code": "content_filter", "message": "The prompt was filtered"}}

    def answer(call: Call) -> tuple[int, Any]:
        return (400, error) if "number 3" in json.dumps(call.body) else message(content="yes")

    run, _ = asked(tmp_path, answer, inference={"format": "json"})
    assert run.records.counts()["failed"] == 1
    assert run.tallies["m"].failures == {"a content filter refused the prompt (prompt_filter)": 1}


def test_what_a_server_says_with_an_error_is_said_once_without_what_it_was_sent(tmp_path: Path) -> None:
    key = "sk-proj-abcdef0123456789"

    def answer(call: Call) -> tuple[int, Any]:
        prompt = call.body["messages"][-1]["content"]
        text = f"Context window is 4096 tokens. You sent: {prompt} with key {key}"
        return 400, {"error": {"message": text, "type": "invalid_request_error"}}

    run, said = asked(tmp_path, answer)
    (explained,) = [line for line in said if "Context window" in line]
    assert explained.startswith("note: m: with the first error of its own, the server said: Context window is 4096")
    for secret in ("Agnes", "Whitfield", "crackles", key, "abcdef"):
        assert secret not in " ".join(said) + " ".join(run.problems) + json.dumps(run.evaluation.to_dict())


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b"<html><body>Bad gateway</body></html>", ""),
        (b"", ""),
        (b"[]", ""),
        (b'{"detail": [{"msg": "field required", "loc": ["body"]}]}', "field required"),
        (b"too many requests for Agnes", "too many requests for […]"),
        (b'{"error": "Incorrect API key provided: sk-live-ab***yz"}', "Incorrect API key provided: [key]"),
        (b"\xff\xfe", "��"),
        (b'{"message": "\\u001b[31mred"}', "\\x1b[31mred"),
        (b"x" * 5000, "x" * 199 + "…"),
    ],
)
def test_complaints(body: bytes, shown: str) -> None:
    assert complaint(body, PATIENT) == shown


def test_one_hung_attempt_is_made_again(tmp_path: Path) -> None:
    hung: list[float] = []

    def answer(call: Call) -> tuple[int, Any]:
        if "number 2" in json.dumps(call.body) and not hung:
            hung.append(time.monotonic())
            time.sleep(9)
        return message(content="yes")

    run, _ = asked(tmp_path, answer, limits={"timeout_s": 3, "deadline_s": 120})
    assert run.records.counts()["failed"] == 0
    assert run.tallies["m"].retries >= 1


def test_a_complete_run_is_not_asked_again(tmp_path: Path) -> None:
    said: list[str] = []
    with wire_server(lambda _: message(content="yes")) as server:
        path = spec(tmp_path, server)
        first = sy.run(path, root=tmp_path / "store", settings=FEW)
        asked_before = len(server.posted)
        again = sy.run(path, root=tmp_path / "store", settings=FEW, resume=True, say=said.append)
        retried = sy.run(path, root=tmp_path / "store", settings=FEW, retry_failed=True)
        assert len(server.posted) == asked_before == ITEMS
    assert said[0] == f"run {first.run_id} is complete: nothing is missing, and nothing is asked"
    assert again.run_id == retried.run_id == first.run_id
    assert again.folder == first.folder
    assert again.records.to_arrow() == first.records.to_arrow()
    assert [*Rows(first.journal)] == [*Rows(again.journal)]


def test_a_dry_run_says_what_it_would_take_and_needs_no_key(tmp_path: Path) -> None:
    with wire_server(lambda _: message(content="yes")) as server:
        path = spec(
            tmp_path,
            server,
            models=[
                {"name": "dear", "base_url": f"{server.url}/v1", "api_key_env": "NOBODY_SETS_THIS",
                 "price": {"input": 3.0, "output": 15.0}},
            ],
            inference={"max_tokens": 100},
        )  # fmt: skip
        done = command("run", path, "--dry-run", root=tmp_path / "store")
        assert done.code == 0, done.err
        assert "Whitfield" not in done.out
        document = command("run", path, "--dry-run", "--format", "json", root=tmp_path / "store").json
        shown = command("run", path, "--dry-run", "--show", "prompts", root=tmp_path / "store")
        assert "Agnes Whitfield" in shown.out
        assert server.calls == []
    expense = document["expenses"]["dear"]
    assert (expense["requests"], expense["written"]) == (ITEMS, 100 * ITEMS)
    assert expense["cost"] == pytest.approx((expense["read"] * 3.0 + expense["written"] * 15.0) / 1e6)
    assert document["prompts"] == []
    assert not (tmp_path / "store").exists()
    assert command("run", path, root=tmp_path / "store").code == 2  # asking does need it
    assert command("run", path, "--dry-run", "--show", "everything", root=tmp_path / "store").code == 2


def test_the_cluster_of_a_spec_may_be_any_column_of_the_data(tmp_path: Path) -> None:
    with wire_server(lambda _: message(content="yes")) as server:
        path = spec(tmp_path, server, cluster="ward", models=[{"name": "m", "base_url": f"{server.url}/v1"}])
        rows = [json.loads(line) for line in (tmp_path / "data.jsonl").read_text().splitlines()]
        lines = (json.dumps({**row, "ward": f"w{row['id'] % 2}"}) + "\n" for row in rows)
        (tmp_path / "data.jsonl").write_text("".join(lines))
        run = sy.run(path, root=tmp_path / "store", settings=FEW)
        assert set(run.records.column("cluster").to_pylist()) == {"w0", "w1"}
        assert all("ward" not in json.dumps(call) for call in server.posted)


@pytest.mark.parametrize("metrics", [["aurc"], ["accuracy"], ["selective_accuracy", "ece"], []])
def test_a_run_in_which_everything_failed_ends_with_4(tmp_path: Path, metrics: list[str]) -> None:
    with wire_server(lambda _: (500, {})) as server:
        path = spec(tmp_path, server, metrics=metrics, limits={"retries": 0})
        done = command("run", path, "--resamples", "100", root=tmp_path / "store")
    assert done.code == 4, done.out + done.err
    assert "gave no reply to any of 6 requests" in done.err


def test_log_probabilities_that_nothing_uses_are_said(tmp_path: Path) -> None:
    run, _ = asked(tmp_path, lambda _: message(content="yes"), inference={"logprobs": True})
    assert any("`confidence: logprobs`" in warning for warning in run.evaluation.warnings)


def test_evaluating_is_said(tmp_path: Path) -> None:
    _, said = asked(tmp_path, lambda _: message(content="yes"))
    assert f"evaluating {ITEMS} answers" in said


PRICED = {"price": {"input": 0.0, "output": 100_000.0}}  # a reply of ten tokens costs 1


def priced(server: WireServer) -> dict[str, Any]:
    return {"models": [{"name": "m", "base_url": f"{server.url}/v1", **PRICED}]}


def ten_tokens(_: Call) -> tuple[int, Any]:
    time.sleep(0.05)
    status, document = message(content="yes")
    return status, {**document, "usage": {"prompt_tokens": 1, "completion_tokens": 10}}


def test_what_is_on_its_way_counts_against_the_limit_of_cost(tmp_path: Path) -> None:
    with wire_server(ten_tokens) as server:
        limits = {"concurrency": 2, "max_cost": 4}
        run = sy.run(spec(tmp_path, server, limits=limits, **priced(server)), root=tmp_path / "store", settings=FEW)
        assert len(server.posted) == 4  # and not one more that was begun while the fourth was on its way
    assert run.exit_code == 4
    assert run.tallies["m"].cost == pytest.approx(4)


def test_what_was_on_its_way_when_a_run_was_killed_counts_too(tmp_path: Path) -> None:
    with wire_server(ten_tokens) as server:
        limits = {"concurrency": 1, "max_cost": 3}
        path = spec(tmp_path, server, limits=limits, **priced(server))
        first = sy.run(path, root=tmp_path / "store", settings=FEW)
        assert len(server.posted) == 3
        (first.journal.parent / "ended-1").unlink()  # as after a kill
        path = spec(tmp_path, server, limits={**limits, "max_cost": 5}, **priced(server))
        sy.run(path, root=tmp_path / "store", settings=FEW, resume=True)
        assert len(server.posted) == 4  # three, one in doubt, and one more


def test_what_was_asked_for_is_shown_or_said_where_it_is(tmp_path: Path) -> None:
    metrics = ["accuracy", "throughput", "confusion_matrix"]
    with wire_server(lambda _: message(content="yes")) as server:
        few = command("run", spec(tmp_path, server, metrics=metrics), "--resamples", "100", root=tmp_path / "few")
        strategies = ["zero-shot", "zero-shot-cot", "one-shot", "few-shot-2", "verbalized"]
        ways = {"adaptation": {"strategy": strategies}, "perturbations": ["upper", "lower"]}
        path = spec(tmp_path, server, metrics=metrics, **ways)
        rows = [json.loads(line) for line in (tmp_path / "data.jsonl").read_text().splitlines()]
        more = [{**row, "id": f"{row['id']}-{k}", "text": f"{row['text']} {k}"} for row in rows for k in range(3)]
        (tmp_path / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in more))
        many = command("run", path, "--resamples", "100", root=tmp_path / "many")
    assert (few.code, many.code) == (0, 0), few.err + many.err
    assert "true ↓ predicted →" in few.out
    assert "true ↓ predicted →" not in many.out
    assert "confusion_matrix: of every cell with `runs show`, and in the JSON form" in many.out
    assert many.out.count("throughput") == 1
    assert "n/a" not in many.out.partition("every two models")[0]


def test_replies_are_kept_with_the_rows_where_that_is_asked_for(tmp_path: Path) -> None:
    secret = "Answer: yes\nBecause Mrs Agnes Whitfield has crackles"
    with wire_server(lambda _: message(content=secret)) as server:
        path, store = spec(tmp_path, server, keep_replies=True), tmp_path / "store"
        refused = command("run", path, "--forget-replies", root=store)
        assert (refused.code, server.posted) == (2, [])
        assert "keep_replies" in refused.err
        done = command("run", path, "--resamples", "100", "--format", "json", root=store)
        assert done.code == 0, done.err
        run = sy.run(path, root=store, settings=FEW, resume=True)
    assert run.records.column("reply").to_pylist() == [secret] * ITEMS
    shown = [done.out, done.err, *(command("runs", word, run.run_id, root=store).out for word in ("show",))]
    kept = (run.folder or tmp_path).glob("*.json")
    assert not any("Whitfield" in text for text in (*shown, *(path.read_text() for path in kept)))


def test_a_rule_about_a_count_of_a_cell_stops_no_comparison(tmp_path: Path) -> None:
    with wire_server(lambda _: message(content="yes")) as server:
        models = [{"name": name, "base_url": f"{server.url}/v1"} for name in ("a", "b")]
        rule = "n_predictions{strategy=zero-shot-cot,model=a} >= 1"
        ways = {"adaptation": {"strategy": ["zero-shot", "zero-shot-cot"]}, "metrics": ["accuracy", "n_predictions"]}
        path = spec(tmp_path, server, models=models, gate=[rule], primary=["accuracy"], **ways)
        run = sy.run(path, root=tmp_path / "store", settings=FEW)
    assert run.exit_code == 0
    assert len(run.comparisons) == 1


def test_the_newest_run_is_taken_up_whether_it_is_complete_or_not(tmp_path: Path) -> None:
    with wire_server(lambda _: message(content="yes")) as server:
        path = spec(tmp_path, server)
        old = sy.run(path, root=tmp_path / "store", settings=FEW)
        (old.journal.parent / "finished").unlink()  # as if it had been killed
        time.sleep(1.1)  # ids count seconds
        new = sy.run(path, root=tmp_path / "store", settings=FEW)
        assert sy.run(path, root=tmp_path / "store", settings=FEW, resume=True).run_id == new.run_id != old.run_id
