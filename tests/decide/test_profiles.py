"""The profiles of gates that other tools know, and what they decide."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from steelyard.decide.gate import Gate
from steelyard.decide.numbers import Subject
from steelyard.decide.profiles import profiles
from steelyard.decide.wire import acceptance_document
from steelyard.errors import UsageError
from tests.support.commands import command
from tests.support.oracles import oracle
from tests.support.shelf import foreign_run

ORACLE = oracle("retrieval")


def test_profiles_are_the_documented_rules() -> None:
    assert [str(r) for r in Gate.profile("rank").rules] == [
        "NdcgEvaluator.delta >= -0.005",
        "MrrEvaluator.delta >= -0.005",
    ]
    assert [str(r) for r in Gate.profile("rank+cosine").rules][2:] == ["CosineSimilarityEvaluator.delta >= 0"]
    assert all(r.kind == "point" for name in profiles for r in Gate.profile(name).rules)
    for name in ("", "RANK", "rank+", "cosine"):
        with pytest.raises(UsageError, match="unknown gate profile"):
            Gate.profile(name)


@pytest.mark.parametrize("case", ORACLE["gate_cases"], ids=lambda case: case["id"])
@pytest.mark.parametrize("cased", [str, str.lower, str.upper])
def test_documented_gates_decide_as_documented(case: dict[str, Any], cased: Any) -> None:
    metrics = {cased(key): float(value) for key, value in case["metrics"].items()}
    decision = Gate.profile(case["profile"]).check(Subject(metrics=metrics))
    document = acceptance_document(decision, {})
    expected = case["expected_seed_document"]
    assert document["passed"] is expected["passed"]
    assert document["checks"] == expected["checks"]
    assert document["metrics"] == {key: case["metrics"][key] for key in expected["checks"]}


@pytest.mark.parametrize("case", ORACLE["gate_cases"], ids=lambda case: case["id"])
def test_documented_gates_decide_as_documented_on_the_command_line(case: dict[str, Any], tmp_path: Path) -> None:
    folder = foreign_run(tmp_path / "elsewhere" / case["id"], case["metrics"])
    done = command(
        "gate", "--run", folder, "--gate-profile", case["profile"], "--format", "json", "--root", tmp_path,
        "--output", tmp_path / "acceptance_gate.json",
    )  # fmt: skip
    expected = case["expected_seed_document"]
    assert done.returncode == (0 if expected["passed"] else 1), done.stderr
    document = json.loads(done.stdout)
    assert document["passed"] is expected["passed"]
    assert document["checks"] == expected["checks"]
    assert (tmp_path / "acceptance_gate.json").read_text() == done.stdout


def test_a_profile_can_be_added_from_outside() -> None:
    profiles.add("mine", ("accuracy >= 0.5",))
    try:
        assert [str(rule) for rule in Gate.profile("mine").rules] == ["accuracy >= 0.5"]
    finally:
        profiles.remove("mine")
