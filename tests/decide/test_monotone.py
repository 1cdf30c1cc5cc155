"""A run of which no row is worse than in the base is shown to be no worse, whatever its interval still allows for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import steelyard as sy
from steelyard.decide.decision import INCONCLUSIVE, PASS
from steelyard.decide.gate import Gate
from tests.support.answers import lines
from tests.support.commands import command

RULE = "low(delta(accuracy)) >= -0.01"
FEW = ("--resamples", 200)


def answers(wrong: set[int], *, n: int = 200, rows: int = 4, **more: Any) -> list[dict[str, Any]]:
    return [
        {"item": i, "patient": i // rows, "target": "yes", "prediction": "no" if i in wrong else "yes", **more}
        | {"wrong": int(i in wrong)}
        for i in range(n)
    ]


def decided(base: list[dict[str, Any]], new: list[dict[str, Any]], *rules: str, **how: Any) -> Any:
    metrics = ["accuracy", "mean(wrong, better=lower)"]
    found = sy.compare(*(sy.read(rows, cluster="patient") for rows in (base, new)), metrics, resamples=200, **how)
    return Gate.parse(list(rules) or RULE).check(found)


def test_three_corrected_errors_do_not_turn_a_green_gate_red() -> None:
    wrong = set(range(0, 200, 5))
    (same,) = decided(answers(wrong), answers(wrong)).rules
    assert (same.verdict, same.because) == (PASS, "unchanged")
    assert same.reason.startswith("the answers are the same in all 200 rows: a change in up to ")
    assert same.reason.endswith("% of the rows would not have been seen; the margin is 0.01")
    (better,) = decided(answers(wrong), answers(wrong - {0, 5, 10})).rules
    assert (better.verdict, better.because) == (PASS, "no_row_worse")
    assert better.reason.startswith("no row is worse in all 200 rows: a loss in up to ")
    assert better.low is not None
    assert better.low < -0.01  # the interval is what it was, and is shown
    (judged,) = decided(answers(wrong), answers(wrong - {0, 5, 10}), unchanged="judge").rules
    assert (judged.verdict, judged.because) == (INCONCLUSIVE, "")


def test_only_rules_that_allow_a_loss_pass_so() -> None:
    wrong = set(range(0, 200, 5))
    rules = {
        "low(delta(accuracy)) >= 0": PASS,
        "low(delta(accuracy)) > 0": INCONCLUSIVE,
        "low(delta(accuracy)) >= 0.001": INCONCLUSIVE,
        "high(delta(mean(wrong, better=lower))) <= 0.01": PASS,
        "high(delta(mean(wrong, better=lower))) <= 0": PASS,
        "high(delta(mean(wrong, better=lower))) < 0": INCONCLUSIVE,
    }
    found = decided(answers(wrong), answers(wrong - {0, 5, 10}), *rules)
    assert {v.rule: v.verdict for v in found.rules} == rules


@pytest.mark.parametrize(
    "worse",
    [
        {"prediction": "no"},  # one row is wrong now
        {"outcome": "failed", "prediction": None},  # one row failed on one side only
        {"prediction": None},  # one row is declined now
    ],
)
def test_one_worse_row_is_left_to_the_interval(worse: dict[str, Any]) -> None:
    wrong = set(range(0, 200, 5))
    new = answers(wrong - {0, 5, 10})
    new[1] |= {**worse, "wrong": 1}
    assert [v.because for v in decided(answers(wrong), new).rules] == [""]


@given(st.sets(st.integers(0, 59), min_size=1), st.data())
def test_whatever_is_corrected_a_gate_that_passes_goes_on_to_pass(wrong: set[int], data: st.DataObject) -> None:
    corrected = data.draw(st.sets(st.sampled_from(sorted(wrong))))
    base, new = answers(wrong, n=60, rows=2), answers(wrong - corrected, n=60, rows=2)
    assert [v.verdict for v in decided(base, new).rules] == [PASS]
    assert decided(base, new, "high(delta(mean(wrong, better=lower))) <= 0.01").passed


@pytest.mark.parametrize(("rows", "keep"), [(1, "--save"), (4, "--save-records"), (4, "--save")])
def test_kept_runs_say_the_same_where_they_know_single_rows(tmp_path: Path, rows: int, keep: str) -> None:
    wrong = set(range(0, 200, 5))
    for name, errors in (("old", wrong), ("new", wrong - {0, 5, 10})):
        (tmp_path / f"{name}.jsonl").write_text(lines(answers(errors, rows=rows)))
        asked = ("-m", "accuracy", "--cluster", "patient", *FEW, "--save", keep, "--run-id", name)
        assert command("evaluate", tmp_path / f"{name}.jsonl", *asked, root=tmp_path).code == 0
    kept = command("gate", "new", "old", "--rule", RULE, "--format", "json", root=tmp_path)
    knows = rows == 1 or keep == "--save-records"
    (rule,) = kept.json["rules"]
    assert (rule["verdict"], rule.get("because", "")) == (("pass", "no_row_worse") if knows else ("inconclusive", ""))
    files = (tmp_path / "new.jsonl", tmp_path / "old.jsonl", "--cluster", "patient", *FEW)
    gated = command("gate", *files, "--rule", RULE, "--junit", tmp_path / "j.xml", root=tmp_path)
    assert (gated.code, "no row is worse in all 200 rows" in gated.out) == (0, True)
    assert "no row is worse in all 200 rows" in (tmp_path / "j.xml").read_text()
    compared = command("compare", tmp_path / "old.jsonl", tmp_path / "new.jsonl", "-m", "accuracy", *FEW, root=tmp_path)
    assert "inconclusive" in compared.out  # a comparison says what the interval does
