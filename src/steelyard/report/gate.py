"""A gate's decision for people and for CI: table, JUnit XML and annotations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from xml.etree import ElementTree

from steelyard.decide.gate import INCONCLUSIVE, PASS, Decision, Verdict
from steelyard.decide.wire import slice_suffix
from steelyard.errors import printable
from steelyard.report.document import Document, Heading, Note, Remarks, Table, interval_text, number

_RIGHT = frozenset({"value", "threshold", "n", "clusters"})


def gate_report(decision: Decision, about: Mapping[str, Any]) -> Document:
    """The verdict first, then every rule with its numbers and what they stand on, then what would settle it."""
    marks: dict[str, int] = {}
    rows = tuple(
        (
            v.rule + slice_suffix(v),
            v.verdict.upper(),
            number(v.value),
            interval_text(_ends(v)),
            "" if v.threshold is None else f"{v.threshold:g}",
            "" if v.number.n is None else f"{v.number.n:,}",
            "" if v.clusters is None else f"{v.clusters:,}",
            _left_out(v),
            v.reason,
            " ".join(f"({marks.setdefault(note, len(marks) + 1)})" for note in v.number.notes),
        )
        for v in decision.rules
    )
    document: Document = [Heading(f"gate: {decision.verdict.upper()}{_taken_as(decision)}")]
    shown = ", ".join(f"{key} {value}" for key, value in about.items() if key in ("run", "baseline") and value)
    if shown:
        document.append(Note(shown))
    levels = {v.number.level for v in decision.rules if v.low is not None} or {0.95}
    interval = f"{100 * levels.pop():g}% interval" if len(levels) == 1 else "interval"
    columns = ("rule", "verdict", "value", interval, "threshold", "n", "clusters", "left out", "reason", "notes")
    document.append(Table(columns, rows, _RIGHT))
    if marks:
        document.append(Remarks(tuple(marks)))
    document += [
        Note(f"to settle {v.rule}{slice_suffix(v)}: {'; '.join(v.advice)}") for v in decision.rules if v.advice
    ]
    attempt = about.get("attempt")
    if attempt and attempt > 1:
        document.append(
            Note(
                f"attempt {attempt} on these data against this baseline: looking again makes a pass by chance likelier"
            )
        )
    return document + [Note(f"note: {note}") for note in decision.notes]


def _taken_as(decision: Decision) -> str:
    """What an inconclusive gate comes to, where that was said beforehand."""
    if decision.verdict != INCONCLUSIVE or decision.inconclusive == "report":
        return ""
    return " (the run may pass, as asked)" if decision.passed else " (taken as failed, as asked)"


def _left_out(v: Verdict) -> str:
    return ", ".join(f"{n:,} {reason}" for reason, n in v.number.left_out.items())


def junit(decision: Decision) -> str:
    """One test case a rule, its numbers in the output; an inconclusive one is a failure unless it may pass."""
    allowed = decision.verdict == INCONCLUSIVE and decision.passed
    open_ = [v for v in decision.rules if v.verdict != PASS]
    suite = ElementTree.Element(
        "testsuite",
        name="steelyard gate",
        tests=str(len(decision.rules)),
        failures=str(0 if allowed else len(open_)),
        errors="0",
        skipped=str(len(open_) if allowed else 0),
    )
    for v in decision.rules:
        case = ElementTree.SubElement(
            suite, "testcase", classname="steelyard.gate", name=_xml(v.rule + slice_suffix(v)), time="0"
        )
        said = f"{v.verdict}: value {number(v.value)} {interval_text(_ends(v))} {v.reason}"
        if v.verdict != PASS and allowed:
            ElementTree.SubElement(case, "skipped", message=_xml(said))
        elif v.verdict != PASS:
            kind = "inconclusive" if v.verdict == INCONCLUSIVE else "fail"
            ElementTree.SubElement(case, "failure", type=kind, message=_xml(said))
        ElementTree.SubElement(case, "system-out").text = _xml("; ".join((said, *_stands_on(v), *v.advice)))
    ElementTree.indent(suite)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(suite, encoding="unicode") + "\n"


def _stands_on(v: Verdict) -> list[str]:
    """What a number is taken over, in words."""
    found = [f"n {'not stated' if v.number.n is None else v.number.n}"]
    found += [f"clusters {v.clusters}"] if v.clusters is not None else []
    found += [f"left out: {_left_out(v)}"] if v.number.left_out else []
    return found + [f"note: {note}" for note in v.number.notes]


def github_commands(decision: Decision) -> str:
    """Workflow commands that GitHub shows beside a change."""
    found = []
    for v in decision.rules:
        if v.verdict == PASS:
            continue
        level = "warning" if v.verdict == INCONCLUSIVE and decision.inconclusive != "fail" else "error"
        said = ". ".join((f"{v.rule}{slice_suffix(v)}: {v.verdict}. {v.reason}", *v.advice))
        found.append(f"::{level} title=steelyard gate::{_command(said)}\n")
    return "".join(found)


def _command(text: str) -> str:
    return printable(text, limit=2000).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _xml(text: str) -> str:
    return printable(text, limit=2000)


def _ends(v: Verdict) -> tuple[float, float] | None:
    return None if v.low is None or v.high is None else (v.low, v.high)
