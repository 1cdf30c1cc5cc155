"""How often a gate was tried on the same data."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from steelyard.errors import StorageError
from steelyard.runs.attempts import counted
from steelyard.runs.layout import Scope
from tests.support.failures import race
from tests.support.pointers import attempt, promoted
from tests.support.stores import kept, printed


def test_attempts_are_counted_for_the_same_rules_and_data(tmp_path: Path) -> None:
    def tries(
        baseline: str = "b", run: str = "r", data: str = "d", rule: str = "x >= 0", tenant: str | None = None
    ) -> int:
        scope = Scope(tmp_path, tenant=tenant)
        return len(counted(scope, baseline=baseline, run=run, data=data, rules=[rule], verdict="fail"))

    assert [tries(), tries(), tries(run="another")] == [1, 2, 3]
    assert tries(baseline="other") == 1
    assert tries(rule="x >= 1") == 1
    assert tries(data="other") == 1
    assert tries(tenant="acme") == 1
    assert tries() == 4
    document = json.loads((tmp_path / "results/evaluation/gates/attempts.json").read_text())
    assert len(document["Attempts"]) == 7
    assert set(document["Attempts"][0]) == {"AtUtc", "Baseline", "RunId", "Data", "Rules", "Verdict"}


@pytest.mark.slow
def test_racing_attempts_are_all_counted(tmp_path: Path) -> None:
    root = tmp_path / "store"
    code = """
meet()
print(json.dumps([
    len(counted(Scope(root), baseline="b", run=f"r{number}", data="d", rules=[], verdict="fail")) for _ in range(10)
]))
"""
    assert sorted(n for numbers in race(root, 3, code) for n in numbers) == list(range(1, 31))


def test_a_gate_says_which_attempt_it_is(tmp_path: Path) -> None:
    promoted(tmp_path, "base")
    kept(tmp_path, "first", no_every=4)
    kept(tmp_path, "second", no_every=5)
    seen = []
    for run_id in ("first", "first", "second"):
        arguments = ("--baseline", "active", "--rule", "delta(accuracy) >= -1", "--root", tmp_path)
        seen.append(printed("gate", "--run", run_id, *arguments))
    assert [document["attempt"] for document in seen] == [1, 2, 3]
    assert {document["verdict"] for document in seen} == {"pass"}


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "5",
        '{"SchemaVersion": "1"}',
        '{"SchemaVersion": "1", "Attempts": 5}',
        '{"SchemaVersion": "1", "Attempts": ["abc"]}',
        '{"SchemaVersion": "1", "Attempts": [{}]}',
        '{"SchemaVersion": "1", "Attempts": [{"Baseline": "b", "Data": "d", "Value": NaN}]}',
        '{"SchemaVersion": "2", "Attempts": []}',
        "[" * 100_000,
    ],
    ids=lambda content: content[:60],
)
def test_a_list_of_attempts_that_is_none_is_refused_and_left_as_it_is(tmp_path: Path, content: str) -> None:
    path = tmp_path / "results/evaluation/gates/attempts.json"
    path.parent.mkdir(parents=True)
    path.write_text(content)
    with pytest.raises(StorageError, match=r"attempts\.json"):
        attempt(tmp_path)
    assert path.read_text() == content
