"""What a run took, by an independent oracle: latencies, rates, timings and emissions as a whole run says them.

Latencies come through a run of recorded answers and timings through one of a server; seconds and emissions are measured
by a run, so the oracle's are put where a run keeps them, in its journal, and read from there on.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import steelyard as sy
from steelyard.ground.journal import Journal
from steelyard.runner.plan import Plan, planned
from steelyard.runner.recorded import Standing, recorded
from steelyard.runner.spec import load_spec
from tests.support.oracles import oracle
from tests.support.wire_server import Call, wire_server

RUN = oracle("runmetrics")
LATENCIES = [case for case in RUN["latency"] if case["latency_ms"]]
RATES = [case for case in RUN["throughput"] if case["n"]]
TIMINGS = RUN["ollama_timings"]
EMITTED = RUN["sustainability"]


def task_in(folder: Path, items: int, **more: Any) -> None:
    """As many items as wanted, whose answer is 0."""
    rows = [{"id": number, "text": f"number {number}?", "answer": 0.0} for number in range(items)]
    (folder / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    task = {"name": "zeros", "data": "data.jsonl", "id": "id", "question": "text", "target": "answer"}
    (folder / "zeros.task.yaml").write_text(json.dumps(task))
    model = {"name": "m", "backend": "replay", "options": {"file": "recorded.jsonl"}}
    spec = {"id": "taken", "task": "zeros.task.yaml", "models": [model], "inference": {"format": "text"}, **more}
    (folder / "spec.yaml").write_text(json.dumps(spec))


def kept(folder: Path, plan: Plan, *, prediction: float = 0.0, seconds: float = 1.0, co2_kg: float = 0.0) -> sy.Records:
    """The records of a journal in which a run left these numbers."""
    parsed = {"outcome": "answered", "prediction": prediction, "reasoning_chars": 0}
    reply = {"text": "Answer: 0", "latency_ms": 1.0}
    with Journal(folder / "journal") as journal:
        for key in range(plan.count):
            place = plan.place(key)
            asked = {"key": key, "model": "m", "strategy": "zero-shot", "item": place.item.id, "repeat": 1}
            said = {"reply": reply, "parsed": parsed, "cost": None, "session": 1}
            journal.append({**asked, **said, "at": seconds * (key + 1) / plan.count})
        journal.append({"energy": {"kwh": 1.0, "co2_kg": co2_kg}, "session": 1})
    return recorded(Standing.of(plan, folder / "journal"))


@pytest.mark.parametrize("case", LATENCIES, ids=range(len(LATENCIES)))
def test_latencies_of_recorded_answers(case: dict[str, Any], tmp_path: Path) -> None:
    task_in(tmp_path, len(case["latency_ms"]), metrics=[f"latency.{name}" for name in case["out"]])
    rows = [{"item": n, "reply": "Answer: 0", "latency_ms": ms} for n, ms in enumerate(case["latency_ms"])]
    (tmp_path / "recorded.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = sy.run(tmp_path / "spec.yaml", root=tmp_path, environment={})
    for name, wanted in case["out"].items():
        assert run.evaluation[f"latency.{name}"].value == pytest.approx(wanted)


@pytest.mark.parametrize("case", RATES, ids=range(len(RATES)))
def test_throughput_of_a_journal(case: dict[str, Any], tmp_path: Path) -> None:
    task_in(tmp_path, case["n"])
    records = kept(tmp_path, planned(load_spec(tmp_path / "spec.yaml")), seconds=case["s"])
    result = sy.evaluate(records, ["throughput", "elapsed_seconds"])
    assert result["throughput"].value == pytest.approx(case["out"])
    assert result["elapsed_seconds"].value == pytest.approx(case["s"])


@pytest.mark.parametrize("case", EMITTED, ids=range(len(EMITTED)))
def test_emissions_of_a_journal(case: dict[str, Any], tmp_path: Path) -> None:
    task_in(tmp_path, 5)
    plan = planned(load_spec(tmp_path / "spec.yaml"))
    records = kept(tmp_path, plan, prediction=case["mae"], co2_kg=case["co2_g"] / 1000)
    result = sy.evaluate(records, ["gco2_per_mae_unit", "co2_kg"])
    wanted = case["gco2_per_mae_unit"]
    assert result["gco2_per_mae_unit"].value == (None if wanted is None else pytest.approx(wanted))
    assert result["co2_kg"].value == pytest.approx(case["co2_g"] / 1000)


def test_timings_of_a_server(tmp_path: Path) -> None:
    def timed(call: Call) -> tuple[int, Any]:
        number = int(call.body["messages"][-1]["content"].partition("number ")[2].partition("?")[0])
        return 200, {"message": {"content": "Answer: 0"}, "done": True, **TIMINGS[number]["raw"]}

    with wire_server(timed) as server:
        task_in(tmp_path, len(TIMINGS), models=[{"name": "m", "backend": "ollama", "base_url": server.url}])
        run = sy.run(tmp_path / "spec.yaml", root=tmp_path, environment={})
    frame = run.records.to_pandas()
    for name in TIMINGS[0]["out"]:
        assert list(frame[f"signal.{name}"]) == pytest.approx([case["out"][name] for case in TIMINGS])
