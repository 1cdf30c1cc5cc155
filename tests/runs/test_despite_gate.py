"""A run whose last gate failed is made active only where somebody says so, and the history tells."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.answers import lines
from tests.support.commands import Done, command


@pytest.fixture
def store(tmp_path: Path) -> Path:
    for name, wrong in (("old", 20), ("new", 10)):
        rows: list[dict[str, Any]] = [
            {"item": i, "target": "y", "prediction": "n" if i < wrong else "y"} for i in range(60)
        ]
        (tmp_path / f"{name}.jsonl").write_text(lines(rows))
        asked = ("-m", "accuracy", "--resamples", 200, "--save", "--run-id", name)
        assert command("evaluate", tmp_path / f"{name}.jsonl", *asked, root=tmp_path).code == 0
    return tmp_path


def gated(store: Path, rule: str, *baseline: str) -> Done:
    return command("gate", "new", *baseline, "--rule", rule, root=store)


@pytest.mark.parametrize("baseline", [(), ("old",)])
def test_a_run_whose_last_gate_failed_is_not_promoted_by_itself(store: Path, baseline: tuple[str, ...]) -> None:
    assert gated(store, "accuracy >= 0.99", *baseline).code == 1
    for words in (("promote", "new", "-m", "accuracy"), ("decide", "-m", "accuracy", "--apply")):
        refused = command("runs", *words, root=store)
        assert (refused.code, "the last gate of run new failed; --despite-gate makes it active" in refused.err) == (
            2,
            True,
        )
    assert command("runs", "active", "-m", "accuracy", "--format", "json", root=store).json["run_id"] is None
    done = command("runs", "promote", "new", "-m", "accuracy", "--despite-gate", "--reason", "known", root=store)
    assert (done.code, "despite a failed gate: known" in done.out) == (0, True)


def test_the_last_gate_counts(store: Path) -> None:
    assert gated(store, "accuracy >= 0.99").code == 1
    assert gated(store, "accuracy >= 0.8").code == 0
    assert command("runs", "promote", "new", "-m", "accuracy", root=store).code == 0


def test_attempts_are_counted_by_data_and_rules(store: Path) -> None:
    rule = "low(delta(accuracy)) >= -0.2"
    assert "attempt" not in gated(store, rule, "old").out
    assert "attempt 2 with these rules on these data" in gated(store, rule, "old").out
    assert "attempt" not in gated(store, "low(delta(accuracy)) >= -0.1", "old").out  # another question


def test_advice_never_dilutes_a_loss(store: Path) -> None:
    document = command("gate", "old", "new", "--rule", "low(delta(accuracy)) >= -0.05", "--format", "json", root=store)
    (rule,) = document.json["rules"]
    assert rule["value"] < -0.05
    if rule["verdict"] == "inconclusive":
        assert rule["advice"][0].startswith("out of reach: the value itself is beyond the threshold")
    worse = command("gate", "old", "--rule", "low(accuracy) >= 0.7", "--format", "json", root=store).json["rules"][0]
    assert worse["verdict"] == "inconclusive"
    assert worse["advice"][0] == (
        "out of reach: the value itself is beyond the threshold, which more items do not mend"
    )


def test_margins_are_spoken_of_where_one_of_several_rules_used_its_margin(store: Path) -> None:
    margin, other = "low(delta(accuracy)) >= -0.2", "accuracy >= 0.5"
    assert "margins add up" not in gated(store, margin, "old").out
    assert "margins add up" not in command("gate", "new", "old", "--rule", other, "--rule", other, root=store).out
    both = command("gate", "old", "new", "--rule", "low(delta(accuracy)) >= -0.6", "--rule", other, root=store)
    assert (both.code, "margins add up" in both.out) == (0, False)  # its interval does not reach 0
    rows = [{"item": i, "target": "y", "prediction": "n" if 2 < i < 23 else "y"} for i in range(60)]
    (store / "like.jsonl").write_text(lines(rows))
    near = command(
        "gate",
        store / "like.jsonl",
        store / "old.jsonl",
        "--rule",
        margin,
        "--rule",
        other,
        "--resamples",
        200,
        root=store,
    )
    assert (near.code, "margins add up" in near.out) == (0, True), near.out
