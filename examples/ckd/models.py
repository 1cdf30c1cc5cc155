"""Three physicians made of rules, who differ in how sure they want to be before they answer.

Each is a function that a run-spec can name as a model (backend `callable`): it is given the fields of the item that the
prompt shows, and the prompt, and replies as models are asked to, in JSON. None of them can see a label.

    bold      always answers
    careful   declines where the decision is close, or findings contradict each other
    timid     declines far more often
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import exp
from typing import Any

THRESHOLDS = (15, 30, 60, 90)


@dataclass(frozen=True)
class Opinion:
    """What is thought of a case: the answer, how far it is from being another one, and what speaks against it."""

    answer: str | int
    distance: float
    contradicted: bool = False


def bold(item: Mapping[str, Any], prompt: str) -> str:  # noqa: ARG001 - rules read no prose
    return _reply(item, margin=0.0, heeds_contradictions=False)


def careful(item: Mapping[str, Any], prompt: str) -> str:  # noqa: ARG001 - rules read no prose
    return _reply(item, margin=2.5, heeds_contradictions=True)


def timid(item: Mapping[str, Any], prompt: str) -> str:  # noqa: ARG001 - rules read no prose
    return _reply(item, margin=8.0, heeds_contradictions=True)


def _reply(case: Mapping[str, Any], *, margin: float, heeds_contradictions: bool) -> str:
    opinion = _opinion(case)
    abstain = opinion.distance < margin or (heeds_contradictions and opinion.contradicted)
    sure = 1 / (1 + exp(-0.4 * (opinion.distance + 1)))  # from ½ at a threshold to 1 far away
    confidence = round(sure * (0.6 if opinion.contradicted else 1.0), 3)
    return json.dumps({"answer": None if abstain else opinion.answer, "abstain": abstain, "confidence": confidence})


def _opinion(case: Mapping[str, Any]) -> Opinion:
    """What the fields say: a course over visits, a reported eGFR to be staged, or findings."""
    if "visits" in case:
        return _course(case)
    if "egfr" in case:
        return Opinion(_stage(case["egfr"]), _distance(case["egfr"]))
    return _finding(case)


def _finding(case: Mapping[str, Any]) -> Opinion:
    """CKD where eGFR is below 60; albumin in the urine says so too, or speaks against it."""
    egfr = _egfr(case)
    albumin = case.get("urine_albumin")
    contradicted = albumin is not None and (albumin > 0) != (egfr < 60)
    return Opinion("ckd" if egfr < 60 else "notckd", abs(egfr - 60), contradicted)


def _course(case: Mapping[str, Any]) -> Opinion:
    values = [visit["egfr"] for visit in case["visits"]]
    first, last = values[0], values[-1]
    worse = _stage(last) - _stage(first)
    steps = [after - before for before, after in pairwise(values)]
    to_and_fro = min(steps) < 0 < max(steps)
    unexpected = (case["diagnosis"] == "ckd") != (last < 60)
    distance = min(_distance(first), _distance(last), abs(last - first))
    answer = "progressed" if worse > 0 else "improved" if worse < 0 else "stable"
    return Opinion(answer, distance, to_and_fro or unexpected)


def _egfr(case: Mapping[str, Any]) -> float:
    """CKD-EPI 2021."""
    female = case.get("sex") == "female"
    kappa, alpha = (0.7, -0.241) if female else (0.9, -0.302)
    ratio = case["creatinine"] / kappa
    value: float = 142 * min(ratio, 1) ** alpha * max(ratio, 1) ** -1.2 * 0.9938 ** case["age"]
    return value * 1.012 if female else value


def _stage(egfr: float) -> int:
    return 5 - sum(egfr >= threshold for threshold in THRESHOLDS)


def _distance(egfr: float) -> float:
    return min(abs(egfr - threshold) for threshold in THRESHOLDS)
