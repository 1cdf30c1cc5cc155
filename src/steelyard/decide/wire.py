"""`acceptance_gate.json`: a gate's decision, rule by rule, as it is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from steelyard.decide.decision import FAIL, INCONCLUSIVE, PASS, Decision, Ended, GateVerdict, Inconclusive, Verdict
from steelyard.decide.numbers import Because, GateNumber, slice_names
from steelyard.errors import UsageError
from steelyard.ground.json import plain
from steelyard.naming import parse_rule, slice_text
from steelyard.records.cautions import Kind

_SEVERITY: tuple[GateVerdict, ...] = (PASS, INCONCLUSIVE, FAIL)
_CHECKS = {"pass": "OK", "fail": "FAIL", "inconclusive": "INCONCLUSIVE"}


class RuleResult(msgspec.Struct):
    """One rule in one slice."""

    rule: str
    kind: str
    slice: dict[str, str]
    value: float | None
    low: float | None
    high: float | None
    level: float
    threshold: float | None
    passed: bool
    verdict: GateVerdict
    reason: str
    p_value: float | None
    p_adjusted: float | None
    detectable: float | None
    n: int | None = None
    clusters: int | None = None
    left_out: dict[str, int] = {}
    notes: list[str] = []
    clusters_needed: int | None = None
    advice: list[str] = []
    because: Because = ""


class AcceptanceFile(msgspec.Struct):
    """`acceptance_gate.json`: what a gate decided about a run, and why."""

    schema_version: str
    verdict: Ended
    passed: bool
    rules: list[RuleResult]
    checks: dict[str, str]
    metrics: dict[str, float | None]
    notes: list[str]
    inconclusive: Inconclusive = "report"
    allow: dict[Kind, float] = {}
    run: str | None = None
    baseline: str | None = None
    data: str | None = None
    attempt: int | None = None
    exit_code: int | None = None  # of a gate that could not be judged


def acceptance_document(decision: Decision, about: Mapping[str, Any]) -> dict[str, Any]:
    """`acceptance_gate.json`; `about` says which run was judged, against what, and how often it was tried."""
    return plain(
        {
            "schema_version": "1",
            "verdict": decision.verdict,
            "passed": decision.passed,
            "inconclusive": decision.inconclusive,
            **({"allow": dict(decision.allow)} if decision.allow else {}),
            **about,
            "rules": [_rule(v) for v in decision.rules],
            "checks": _checks(decision),
            "metrics": {v.key + slice_suffix(v): v.value for v in decision.rules},
            "notes": list(decision.notes),
        }
    )


def error_document(problem: str, code: int) -> dict[str, Any]:
    """`acceptance_gate.json` of a gate that could not be judged: why, and the exit code."""
    return {
        "schema_version": "1",
        "verdict": "error",
        "passed": False,
        "rules": [],
        "checks": {},
        "metrics": {},
        "notes": [problem],
        "exit_code": code,
    }


def _rule(v: Verdict) -> dict[str, Any]:
    """One rule, key by key as they are written."""
    number = v.number
    derived = {
        "slice": slice_names(v.slice),
        "level": number.level,
        "n": number.n,
        "left_out": dict(number.left_out),
        "notes": list(number.notes),
    }
    known = {key: derived[key] if key in derived else getattr(v, key) for key in RuleResult.__struct_fields__}
    return known if v.because else {key: value for key, value in known.items() if key != "because"}


def read_decision(document: Mapping[str, Any]) -> Decision:
    """The decision that a document holds; a ValueError or TypeError where it holds none."""
    file = msgspec.convert(dict(document), AcceptanceFile)
    if file.verdict == "error":
        raise ValueError("a gate that could not be judged holds no decision")
    return Decision(
        verdict=file.verdict,
        rules=tuple(_verdict(rule) for rule in file.rules),
        notes=tuple(file.notes),
        inconclusive=file.inconclusive,
        allow=file.allow,
    )


def _verdict(rule: RuleResult) -> Verdict:
    number = GateNumber(
        value=rule.value,
        interval=None if rule.low is None or rule.high is None else (rule.low, rule.high),
        level=rule.level,
        slice=rule.slice,
        n=rule.n,
        clusters=rule.clusters or 0,
        left_out=rule.left_out,
        notes=tuple(rule.notes),
    )
    return Verdict(
        rule=rule.rule,
        kind=rule.kind,
        verdict=rule.verdict,
        reason=rule.reason,
        key=parse_rule(rule.rule).key if _is_rule(rule.rule) else rule.rule,
        number=number,
        threshold=rule.threshold,
        p_value=rule.p_value,
        p_adjusted=rule.p_adjusted,
        detectable=rule.detectable,
        clusters_needed=rule.clusters_needed,
        advice=tuple(rule.advice),
        because=rule.because,
    )


def _is_rule(text: str) -> bool:
    """False for what a gate adds by itself, such as that the run is complete."""
    try:
        parse_rule(text)
    except UsageError:
        return False
    return True


def _checks(decision: Decision) -> dict[str, str]:
    """The worst that any rule says of each key."""
    worst: dict[str, GateVerdict] = {}
    for v in decision.rules:
        key = v.key + slice_suffix(v)
        worst[key] = max(worst.get(key, PASS), v.verdict, key=_SEVERITY.index)
    return {key: _CHECKS[verdict] for key, verdict in worst.items()}


def slice_suffix(v: Verdict) -> str:
    """The slice that a verdict is about, as it follows a rule or a key; nothing where the key names it itself."""
    return slice_text(slice_names(v.slice)) if "{" not in v.key else ""
