"""What would settle a rule that the data leave open: more clusters, a wider margin, or a rule that asks for less."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from steelyard.errors import counted, plural
from steelyard.naming import Rule
from steelyard.uncertainty.number import Caution
from steelyard.uncertainty.scarcity import FEWEST_CLUSTERS

if TYPE_CHECKING:
    from steelyard.decide.decision import Verdict
    from steelyard.decide.numbers import GateNumber

_WORD = re.compile(r"[a-z][a-z ]*")
_TO_DO: dict[Caution, str] = {
    "missing group": "evaluate rows of the group that has no value, or leave it out of both runs",
    "unequal missing": "state the missing values, or judge both runs on the rows that have them",
    "lost clusters": "keep the records of both runs, so that only the rows themselves leave",
    "twin worse": "look at calibration_error2, which noise does not make larger",
    "doubtful": "more {units} are needed in which the metric is defined",
    "constant": "every {unit} differs by the same, so there is no interval: a point rule can judge the value",
    "scarce": f"more {{units}} are needed that hold its scarcest part: at least {FEWEST_CLUSTERS}",
    "open low": "more {units} are needed in the groups that were left out",
    "open high": "more {units} are needed in the groups that were left out",
}


def unit_of(columns: Sequence[str]) -> str:
    """What a cluster is called, in the words of its column: `patient`, `group.patient` and `patient_id` are patients.

    >>> unit_of(["patient_id"]), unit_of(["task", "item"]), unit_of(["cluster"])
    ('patient', 'item', 'cluster')
    """
    last = columns[-1].rpartition(".")[2] if columns else ""
    word = re.sub(r"(?<=.)[_ -]?\bid$|_id$", "", last.lower()).replace("_", " ").replace("-", " ").strip()
    return word if _WORD.fullmatch(word) else "cluster"


def of(rule: Rule, number: GateNumber, verdict: Verdict, unit: str) -> tuple[str, ...]:
    """What to do about an inconclusive rule, the first thing first."""
    if verdict.cause == "missing":
        share = _rounded(max(number.missing, number.absent), up=True)
        what = "state the missing values" if number.missing >= number.absent else "ask the missing questions"
        return (f"{what}, or allow a share of {share:g} to be missing",)
    if verdict.cause == "no interval" and 0 < number.clusters < FEWEST_CLUSTERS:
        more = FEWEST_CLUSTERS - number.clusters
        return (f"at least {counted(FEWEST_CLUSTERS, unit)} are needed, {counted(more, unit)} more",)
    known = next((text for caution, text in _TO_DO.items() if caution in number.cautions), "")
    if known and verdict.cause != "open":
        return (known.format(unit=unit, units=plural(unit)),)
    if verdict.cause != "open":
        return (f"there is no interval to judge; a point rule can judge the value: {_point(rule)}",)
    return (*_enough(rule, verdict, unit), *_wider(rule, verdict), f"or ask for less: {_permissive(rule)}")


def of_chance(rule: Rule, verdict: Verdict, unit: str) -> tuple[str, ...]:
    """What to do about a rule that was missed, but perhaps by chance."""
    return (*_enough(rule, verdict, unit), *_wider(rule, verdict))


def _enough(rule: Rule, verdict: Verdict, unit: str) -> tuple[str, ...]:
    """How many clusters would pass if nothing else were seen."""
    value = verdict.value
    if value is not None and (value < rule.threshold if rule.relation.startswith(">") else value > rule.threshold):
        return (f"out of reach: the value itself is beyond the threshold, which more {plural(unit)} do not mend",)
    if verdict.clusters_needed is None or verdict.clusters is None:
        return (f"out of reach: more {plural(unit)} alone would not pass it",)
    still = f"no further {unit} differed" if rule.delta else "the value stayed"
    more = verdict.clusters_needed - verdict.clusters
    return (f"it would pass at {counted(verdict.clusters_needed, unit)} ({more:,} more) if {still}",)


def _wider(rule: Rule, verdict: Verdict) -> tuple[str, ...]:
    """The threshold that would pass today."""
    end = verdict.low if rule.relation.startswith(">") else verdict.high
    if end is None or not math.isfinite(end):
        return ()
    wider = _rounded(end, up=not rule.relation.startswith(">"))
    what = "a wider margin" if rule.delta else "another threshold"
    return (f"or accept {what}: {replace(rule, threshold=wider, relation=rule.relation[0] + '=')}",)


def _permissive(rule: Rule) -> str:
    """The rule that only asks that nothing worse is shown."""
    return str(replace(rule, bound="high" if rule.bound == "low" else "low"))


def _point(rule: Rule) -> str:
    return str(replace(rule, bound=None))


def _rounded(value: float, *, up: bool) -> float:
    """Three digits, on the side that passes."""
    if value == 0:
        return 0.0
    step = 10.0 ** (math.floor(math.log10(abs(value))) - 2)
    return float(f"{(math.ceil(value / step) if up else math.floor(value / step)) * step:.6g}")
