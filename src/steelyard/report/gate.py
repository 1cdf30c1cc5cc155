"""A gate's decision for people and for CI: table, JUnit XML and annotations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from xml.etree import ElementTree

from steelyard.decide.decision import INCONCLUSIVE, PASS, Decision, Verdict
from steelyard.decide.wire import slice_suffix
from steelyard.errors import printable
from steelyard.report.document import Document, Heading, Note, Row, Span, Table, Value, interval_text, number
from steelyard.report.rows import Numbered, counted, judged, left_out, level_name

_DROPS = ("left out", "threshold", "clusters", "n")  # the rule itself names the threshold


def gate_report(decision: Decision, about: Mapping[str, Any]) -> Document:
    """The verdict first, then every rule with its numbers and what they stand on, then what would settle it."""
    notes = Numbered()
    rows = tuple((*_row(v), notes.marks(v.number.notes)) for v in decision.rules)
    document: Document = [
        Heading(f"gate: {decision.verdict.upper()}{_taken_as(decision)}", judged(decision.verdict).tone)
    ]
    shown = ", ".join(f"{key} {value}" for key, value in about.items() if key in ("run", "baseline") and value)
    if shown:
        document.append(Note(shown))
    levels = {v.number.level for v in decision.rules if v.low is not None} or {0.95}
    interval = level_name(levels.pop()) if len(levels) == 1 else "interval"
    columns = ("rule", "verdict", "value", interval, "threshold", "n", "clusters", "left out", "reason", "notes")
    document += [Table(columns, rows, drops=_DROPS), *notes.remarks()]
    document += [
        Note(f"to settle {v.rule}{slice_suffix(v)}: {'; '.join(v.advice)}") for v in decision.rules if v.advice
    ]
    attempt = about.get("attempt")
    if attempt and attempt > 1:
        tried = f"attempt {attempt} with these rules on these data against this baseline"
        document.append(Note(f"{tried}: looking again makes a pass by chance likelier"))
    return document + [Note(f"note: {note}") for note in decision.notes]


def _row(v: Verdict) -> Row:
    """A rule: its verdict, the number that it is about, and what that stands on."""
    return (
        v.rule + slice_suffix(v),
        judged(v.verdict, v.verdict.upper()),
        Value(v.value),
        Span(_ends(v)),  # of values and differences alike: they share no scale, so none is drawn
        "" if v.threshold is None else Value(v.threshold, spec="g"),
        counted(v.number.n),
        counted(v.clusters),
        left_out(v.number.left_out),
        v.reason,
    )


def _taken_as(decision: Decision) -> str:
    """What an inconclusive gate comes to, where that was said beforehand."""
    if decision.verdict != INCONCLUSIVE or decision.inconclusive == "report":
        return ""
    return " (the run may pass, as asked)" if decision.passed else " (taken as failed, as asked)"


def junit(decision: Decision) -> str:
    """One test case per rule, its numbers in the output; an inconclusive one is a failure unless it may pass."""
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
    if decision.notes:
        ElementTree.SubElement(suite, "system-out").text = _xml("; ".join(decision.notes))
    ElementTree.indent(suite)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(suite, encoding="unicode") + "\n"


def error_report(problem: str) -> Document:
    """A gate that could not be judged, and why."""
    return [Heading("gate: ERROR", judged("fail").tone), Note(problem)]


def error_junit(problem: str) -> str:
    """One case with an error, for a gate that could not be judged."""
    suite = ElementTree.Element("testsuite", name="steelyard gate", tests="1", failures="0", errors="1", skipped="0")
    case = ElementTree.SubElement(suite, "testcase", classname="steelyard.gate", name="the gate is judged", time="0")
    ElementTree.SubElement(case, "error", type="error", message=_xml(problem))
    ElementTree.indent(suite)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(suite, encoding="unicode") + "\n"


def _stands_on(v: Verdict) -> list[str]:
    """What a number is taken over, in words."""
    facts = [f"n {'not stated' if v.number.n is None else v.number.n}"]
    facts += [f"clusters {v.clusters}"] if v.clusters is not None else []
    facts += [f"left out: {left_out(v.number.left_out)}"] if v.number.left_out else []
    return facts + [f"note: {note}" for note in v.number.notes]


def github_commands(decision: Decision) -> str:
    """Workflow commands that GitHub shows next to a change."""
    commands = []
    for v in decision.rules:
        if v.verdict == PASS:
            continue
        level = "warning" if v.verdict == INCONCLUSIVE and decision.inconclusive != "fail" else "error"
        said = ". ".join((f"{v.rule}{slice_suffix(v)}: {v.verdict}. {v.reason}", *v.advice))
        commands.append(f"::{level} title=steelyard gate::{_command(said)}\n")
    return "".join(commands)


def _command(text: str) -> str:
    return printable(text, limit=2000).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _xml(text: str) -> str:
    return printable(text, limit=2000)


def _ends(v: Verdict) -> tuple[float, float] | None:
    return None if v.low is None or v.high is None else (v.low, v.high)
