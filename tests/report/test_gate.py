"""What people and machines are shown of a gate."""

from __future__ import annotations

import json
import math
import re
from xml.etree import ElementTree

import pytest

from steelyard.decide.gate import FAIL, INCONCLUSIVE, Decision, Gate
from steelyard.decide.wire import acceptance_document
from steelyard.report.formats import markdown, text
from steelyard.report.gate import gate_report, github_commands, junit
from tests.support.gates import HOSTILE, Plain, estimate, evaluation


def hostile_decision(better: str | None = "higher") -> Decision:
    found = [
        estimate("accuracy", Plain(0.1 * (i % 3), 0.0, 0.3), slice_={"group.site": label}, better=better)
        for i, label in enumerate(HOSTILE)
    ]
    rules = ["accuracy >= 0.15 for each group.site", "low(accuracy) >= 0.1 for each group.site"]
    return Gate.parse(rules).check(evaluation(found))


def test_labels_add_no_heading_row_link_or_html_to_the_summary() -> None:
    decision = hostile_decision()
    shown = markdown.render(gate_report(decision, {"run": HOSTILE[1], "baseline": HOSTILE[2]}))
    rows = shown.split("\n")
    assert [row for row in rows if row.lstrip().startswith("#")] == [f"## gate: {decision.verdict.upper()}"]
    cells_ = [re.split(r"(?<!\\)\|", row) for row in rows if row.startswith("|")]
    assert len(cells_) == 2 + len(decision.rules)
    assert {len(row) for row in cells_} == {len(cells_[0])}
    assert not re.search(r"(?<!\\)[<`\[\]*@#]", "\n".join(rows[1:]))
    assert "https://" not in shown
    assert all(c.isprintable() or c == "\n" for c in shown)


def test_the_table_on_the_terminal_holds_no_control_character() -> None:
    shown = text.render(gate_report(hostile_decision(), {"run": HOSTILE[5]}))
    assert all(c.isprintable() or c == "\n" for c in shown)
    assert shown.startswith("gate: FAIL\n")
    assert len([row for row in shown.split("\n") if row.startswith(("accuracy", "low(accuracy"))]) == 2 * len(HOSTILE)


def test_junit_is_well_formed_and_counts_what_did_not_pass() -> None:
    decision = hostile_decision()
    suite = ElementTree.fromstring(junit(decision).encode())
    assert suite.tag == "testsuite"
    open_ = [v for v in decision.rules if not v.passed]
    assert int(suite.get("tests", "")) == len(suite.findall("testcase")) == len(decision.rules)
    assert int(suite.get("failures", "")) == len(suite.findall("testcase/failure")) == len(open_) > 0
    assert suite.get("errors") == suite.get("skipped") == "0"
    kinds = [f.get("type") for f in suite.findall("testcase/failure")]
    assert kinds == ["inconclusive" if v.verdict == INCONCLUSIVE else "fail" for v in open_]
    assert {"inconclusive", "fail"} == set(kinds)
    assert len({case.get("name") for case in suite.findall("testcase")}) == len(decision.rules)


def test_annotations_are_one_line_each_with_percent_and_newlines_escaped() -> None:
    decision = hostile_decision()
    shown = github_commands(decision)
    open_ = [v for v in decision.rules if not v.passed]
    rows = shown.split("\n")
    assert rows.pop() == ""
    assert len(rows) == len(open_)
    for row, verdict in zip(rows, open_, strict=True):
        level = "warning" if verdict.verdict == INCONCLUSIVE else "error"
        assert row.startswith(f"::{level} title=steelyard gate::")
        assert row.isprintable()
        assert not re.search(r"%(?!25|0A|0D)", row)
    assert "100%250A" in shown


def test_a_passed_gate_says_nothing_beside_a_change() -> None:
    decision = Gate.parse("accuracy >= 0.5").check(evaluation([estimate("accuracy", Plain(0.9))]))
    assert github_commands(decision) == ""
    assert ElementTree.fromstring(junit(decision).encode()).get("failures") == "0"


def test_the_acceptance_document_holds_every_number_and_no_nan() -> None:
    found = evaluation(
        [
            estimate("accuracy", Plain(0.5, 0.4, 0.6)),
            estimate("ece", Plain(math.nan)),
            estimate("auroc", Plain(0.7)),
        ]
    )
    decision = Gate.parse(["low(accuracy) >= 0.45", "ece <= 0.1", "auroc >= 0.5"]).check(found)
    document = acceptance_document(decision, {"run": "r", "baseline": None, "attempt": 3})
    json.dumps(document, allow_nan=False)
    assert document["verdict"] == "fail"
    assert document["passed"] is False
    assert (document["run"], document["baseline"], document["attempt"]) == ("r", None, 3)
    assert all(
        {"rule", "value", "low", "high", "passed", "reason", "threshold", "slice"} <= set(r) for r in document["rules"]
    )
    assert [r["value"] for r in document["rules"]] == [0.5, None, 0.7]
    assert [(r["low"], r["high"]) for r in document["rules"]] == [(0.4, 0.6), (None, None), (None, None)]
    assert [r["passed"] for r in document["rules"]] == [False, False, True]
    assert document["checks"] == {"low(accuracy)": "INCONCLUSIVE", "ece": "FAIL", "auroc": "OK"}


@pytest.mark.parametrize("order", [1, -1])
def test_two_rules_about_one_number_do_not_hide_a_fail(order: int) -> None:
    """`!bias >= -0.1` and `bias <= 0.1` are the usual way to bound a number on both sides."""
    rules = ["bias <= 0.1", "bias >= -0.1"][::order]
    decision = Gate.parse(rules).check(evaluation([estimate("bias", Plain(-0.5))]))
    assert decision.verdict == FAIL
    assert "FAIL" in acceptance_document(decision, {})["checks"].values()


def test_for_each_names_every_slice_in_checks() -> None:
    document = acceptance_document(hostile_decision(), {})
    assert len(document["checks"]) == 2 * len(HOSTILE)
