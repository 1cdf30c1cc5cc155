"""From journals to records: what every column is, whatever order replies came in."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from steelyard.errors import StorageError
from steelyard.ground.journal import Journal
from steelyard.runner.plan import Plan, planned
from steelyard.runner.recorded import Standing, recorded
from steelyard.runner.spec import load_spec


def plan(folder: Path, *, task: dict[str, Any] | None = None, **more: Any) -> Plan:
    rows = [{"id": n, "text": f"t{n}", "label": ["yes", "no"][n % 2], "score": n / 2} for n in range(6)]
    (folder / "d.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    described = {"name": "t", "data": "d.jsonl", "id": "id", "question": "text", "target": "label"}
    described |= {"labels": ["yes", "no"], "decline": True} if task is None else task
    (folder / "t.task.yaml").write_text(json.dumps(described))
    spec = {"id": "s", "task": "t.task.yaml", "models": [{"name": "m"}], **more}
    (folder / "spec.yaml").write_text(json.dumps(spec))
    return planned(load_spec(folder / "spec.yaml"))


def row(number: int, plan: Plan, **more: Any) -> dict[str, Any]:
    place = plan.place(number)
    known = {
        "key": number, "item": place.item.id, "model": "m", "strategy": place.strategy.name, "perturbation": None,
        "repeat": place.repeat, "cost": None, "session": 1, "at": 1.0,
    }  # fmt: skip
    reply = {"text": "secret", "latency_ms": 5.0, "input_tokens": 3, "output_tokens": 2}
    parsed = {"outcome": "answered", "prediction": "yes", "confidence": 0.75, "reasoning_chars": 0}
    return {**known, "reply": reply, "parsed": parsed, **more}


def standing(folder: Path, plan: Plan, rows: list[dict[str, Any]]) -> Standing:
    with Journal(folder / "journal") as journal:
        for each in rows:
            journal.append(each)
    return Standing.of(plan, folder / "journal")


def test_the_order_is_the_plans_and_a_key_counts_once(tmp_path: Path) -> None:
    asked = plan(tmp_path, repeat=2)
    rows = [row(number, asked) for number in range(12)]
    random.Random(3).shuffle(rows)
    found = standing(tmp_path, asked, [*rows, *rows[:5]])
    assert found.is_complete
    assert found.done == 12
    frame = recorded(found).to_pandas()
    assert list(zip(frame.item, frame.repeat, strict=True)) == [(n // 2, n % 2 + 1) for n in range(12)]
    assert "secret" not in frame.to_csv()
    assert found.tallies["m"].input_tokens == 36


def test_outcomes(tmp_path: Path) -> None:
    asked = plan(tmp_path)
    rows = [
        row(0, asked),
        row(1, asked, parsed={"outcome": "abstained", "prediction": None, "reasoning_chars": 4}),
        row(2, asked, parsed={"outcome": "unparsed", "prediction": None, "reasoning_chars": 0}),
        row(3, asked, reply={"failure": "no answer within 5 s", "retries": 2}, parsed=None),
        row(4, asked, reply={"text": "", "finish": "length"}, parsed={"outcome": "unparsed", "prediction": None}),
    ]
    found = standing(tmp_path, asked, rows)
    records = recorded(found)
    assert list(records.to_pandas().outcome) == ["answered", "abstained", "unparsed", "failed", "unparsed"]
    assert not found.is_complete
    assert not records.sources[0].is_whole
    assert found.tallies["m"].failures == {"no answer within 5 s": 1}


@pytest.mark.parametrize(
    ("confidence", "more", "expected"),
    [
        ("reported", {}, 0.75),
        ("reported", {"parsed": {"outcome": "answered", "prediction": "yes", "verbalized": 4}}, 0.75),
        ("reported", {"parsed": {"outcome": "answered", "prediction": "yes", "confidence": 0.0}}, 0.0),
        ("verbalized", {}, None),
        ("verbalized", {"parsed": {"outcome": "answered", "prediction": "yes", "verbalized": 1}}, 0.0),
        ("logprobs", {"signals": {"label_confidence": 0.6, "token_msp": 0.5}}, 0.6),
        ("logprobs", {"signals": {"token_msp": 0.5}, "missing": "no label is among the alternatives"}, None),
    ],
)
def test_what_confidence_is_is_the_specs_to_say(
    tmp_path: Path, confidence: str, more: dict[str, Any], expected: float | None
) -> None:
    needs: dict[str, Any] = {
        "verbalized": {"adaptation": {"strategy": ["verbalized"]}}, "logprobs": {"inference": {"logprobs": True}},
        "reported": {},
    }[confidence]  # fmt: skip
    asked = plan(tmp_path, confidence=confidence, **needs)
    records = recorded(standing(tmp_path, asked, [row(0, asked, **more)]))
    value = records.column("confidence").to_pylist()[0]
    assert value == expected
    if "missing" in more:
        assert "in 1 replies: no label is among the alternatives" in records.warnings


def test_numbers_are_numbers(tmp_path: Path) -> None:
    asked = plan(
        tmp_path, task={"target": "score", "range": [0, 3]}, confidence="logprobs", inference={"logprobs": True}
    )
    parsed = {"outcome": "answered", "prediction": 1.0, "reasoning_chars": 0}
    rows = [row(n, asked, parsed=parsed, signals={"token_msp": 0.5}) for n in range(6)]
    records = recorded(standing(tmp_path, asked, rows))
    assert records.is_numeric("target")
    assert records.is_numeric("prediction")
    assert records.task.range == 3
    assert list(records.to_pandas().confidence) == [0.5] * 6


def test_what_was_served_from_the_cache_took_no_time(tmp_path: Path) -> None:
    asked = plan(tmp_path)
    served = {"text": "x", "latency_ms": 5.0, "cached": True, "input_tokens": 3, "output_tokens": 2}
    found = standing(tmp_path, asked, [row(0, asked), row(1, asked, reply=served)])
    records = recorded(found)
    frame = records.to_pandas()
    assert frame.latency_ms.isna().tolist() == [False, True]
    assert frame.input_tokens.isna().tolist() == [False, True]
    assert not records.task.facts  # a wall time would be that of something else
    assert (found.tallies["m"].input_tokens, found.tallies["m"].cached) == (3, 1)


def test_time_and_cost_are_summed_over_every_time_a_run_was_taken_up(tmp_path: Path) -> None:
    asked = plan(tmp_path)
    times = [(1, 2.0), (1, 5.0), (2, 1.0), (3, 4.0)]
    rows = [row(n, asked, session=session, at=at, cost=0.5) for n, (session, at) in enumerate(times)]
    found = standing(tmp_path, asked, rows)
    assert recorded(found).task.facts == {"wall_seconds": 10.0}
    assert found.sessions == 3
    assert found.tallies["m"].cost == 2.0


def test_a_reply_takes_the_place_of_a_failure_and_never_the_other_way_round(tmp_path: Path) -> None:
    asked = plan(tmp_path)
    failed = {"reply": {"failure": "no answer within 5 s", "retries": 2}, "parsed": None}
    rows = [row(0, asked, **failed), row(1, asked), row(0, asked), row(1, asked, **failed), row(2, asked, **failed)]
    found = standing(tmp_path, asked, rows)
    assert list(recorded(found).to_pandas().outcome) == ["answered", "answered", "failed"]
    tally = found.tallies["m"]
    assert (tally.done, tally.failed, dict(+tally.failures)) == (3, 1, {"no answer within 5 s": 1})
    found.forget_failed()
    assert list(found.is_done[:3]) == [1, 1, 0]
    assert (tally.done, tally.failed) == (2, 0)


def test_the_journal_of_another_plan_is_refused(tmp_path: Path) -> None:
    asked = plan(tmp_path)
    with pytest.raises(StorageError, match="another plan"):
        standing(tmp_path, asked, [row(0, asked, key=99)])
