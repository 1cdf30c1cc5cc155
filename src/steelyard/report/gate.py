"""A gate's decision for people and machines: table, acceptance document, JUnit XML and annotations for CI."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from xml.etree import ElementTree

from steelyard.decide.gate import FAIL, INCONCLUSIVE, PASS, Decision, Verdict
from steelyard.errors import printable
from steelyard.naming import slice_text
from steelyard.records.labels import value_name
from steelyard.report.document import Document, Heading, Note, Table, interval_text, number
from steelyard.runs.artifact import plain

_RIGHT = frozenset({"value", "threshold"})
_SEVERITY = (PASS, INCONCLUSIVE, FAIL)
_CHECKS = {"pass": "OK", "fail": "FAIL", "inconclusive": "INCONCLUSIVE"}


def gate_report(decision: Decision, about: Mapping[str, Any]) -> Document:
    """The verdict first, then every rule with its numbers."""
    rows = tuple(
        (
            v.rule + _slice(v),
            v.verdict.upper(),
            number(v.value),
            interval_text(_ends(v)),
            "" if v.threshold is None else f"{v.threshold:g}",
            v.reason,
        )
        for v in decision.rules
    )
    document: Document = [Heading(f"gate: {decision.verdict.upper()}")]
    shown = ", ".join(f"{key} {value}" for key, value in about.items() if key in ("run", "baseline") and value)
    if shown:
        document.append(Note(shown))
    levels = {v.level for v in decision.rules if v.low is not None} or {0.95}
    interval = f"{100 * levels.pop():g}% interval" if len(levels) == 1 else "interval"
    document.append(Table(("rule", "verdict", "value", interval, "threshold", "reason"), rows, _RIGHT))
    attempt = about.get("attempt")
    if attempt and attempt > 1:
        document.append(
            Note(
                f"attempt {attempt} on these data against this baseline: looking again makes a pass by chance likelier"
            )
        )
    return document + [Note(f"note: {note}") for note in decision.notes]


def acceptance_document(decision: Decision, about: Mapping[str, Any]) -> dict[str, Any]:
    """`acceptance_gate.json`."""
    return plain(
        {
            "schema_version": "1",
            "verdict": decision.verdict,
            "passed": decision.passed,
            **about,
            "rules": [
                {
                    "rule": v.rule,
                    "kind": v.kind,
                    "slice": {k: value_name(x) for k, x in v.slice.items()},
                    "value": v.value,
                    "low": v.low,
                    "high": v.high,
                    "level": v.level,
                    "threshold": v.threshold,
                    "passed": v.passed,
                    "verdict": v.verdict,
                    "reason": v.reason,
                    "p_value": v.p_value,
                    "p_adjusted": v.p_adjusted,
                    "detectable": v.detectable,
                    "clusters": v.clusters,
                    "clusters_needed": v.clusters_needed,
                }
                for v in decision.rules
            ],
            "checks": _checks(decision),
            "metrics": {v.key + _slice(v): v.value for v in decision.rules},
            "notes": list(decision.notes),
        }
    )


def _checks(decision: Decision) -> dict[str, str]:
    """The worst that any rule says of each key."""
    worst: dict[str, str] = {}
    for v in decision.rules:
        key = v.key + _slice(v)
        worst[key] = max(worst.get(key, PASS), v.verdict, key=_SEVERITY.index)
    return {key: _CHECKS[verdict] for key, verdict in worst.items()}


def junit(decision: Decision) -> str:
    """One test case a rule; an inconclusive one is a failure of that type, because the gate did not pass."""
    open_ = [v for v in decision.rules if v.verdict != PASS]
    suite = ElementTree.Element(
        "testsuite",
        name="steelyard gate",
        tests=str(len(decision.rules)),
        failures=str(len(open_)),
        errors="0",
        skipped="0",
    )
    for v in decision.rules:
        case = ElementTree.SubElement(
            suite, "testcase", classname="steelyard.gate", name=_xml(v.rule + _slice(v)), time="0"
        )
        said = f"{v.verdict}: value {number(v.value)} {interval_text(_ends(v))} {v.reason}"
        if v.verdict != PASS:
            kind = "inconclusive" if v.verdict == INCONCLUSIVE else "fail"
            ElementTree.SubElement(case, "failure", type=kind, message=_xml(said))
    ElementTree.indent(suite)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(suite, encoding="unicode") + "\n"


def github_commands(decision: Decision) -> str:
    """Workflow commands that GitHub shows beside a change."""
    found = []
    for v in decision.rules:
        if v.verdict == PASS:
            continue
        level = "warning" if v.verdict == INCONCLUSIVE else "error"
        found.append(f"::{level} title=steelyard gate::{_command(f'{v.rule}{_slice(v)}: {v.verdict}. {v.reason}')}\n")
    return "".join(found)


def _command(text: str) -> str:
    return printable(text, limit=1000).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _xml(text: str) -> str:
    return printable(text, limit=1000)


def _slice(v: Verdict) -> str:
    return slice_text({k: value_name(x) for k, x in v.slice.items()}) if "{" not in v.key else ""


def _ends(v: Verdict) -> tuple[float, float] | None:
    return None if v.low is None or v.high is None else (v.low, v.high)
