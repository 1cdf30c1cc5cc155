"""May this run pass? Rules about metrics and deltas, each pass, fail or inconclusive; the gate is all of them.

    accuracy >= 0.8                     point: the value, with no allowance for chance
    low(delta(accuracy)) >= -0.01       confirming: shown to be no worse than that
    high(delta(accuracy)) >= 0          permissive: not shown to be worse

Any fail fails the gate; else any inconclusive rule leaves it inconclusive; else it passes. A pass claims all rules at
once and needs no correction; a fail among several confirming rules stands only if it would after Holm's correction.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from steelyard.comparison import Comparison, Delta
from steelyard.errors import UsageError, printable
from steelyard.evaluation import Evaluation
from steelyard.metrics.definition import bound, single
from steelyard.naming import Rule, parse, parse_rule, slice_text
from steelyard.records.labels import value_name
from steelyard.records.schema import CELL
from steelyard.runs.artifact import OTHER_NAMES, flat_key
from steelyard.runs.run_json import looked_up
from steelyard.uncertainty.estimate import TOLERATED_UNDEFINED, Caution, Estimate
from steelyard.uncertainty.intervals import Rule as IntervalRule
from steelyard.uncertainty.intervals import shown_rule
from steelyard.uncertainty.power import detectable, estimate_clusters, fewest_clusters
from steelyard.uncertainty.scarcity import FEWEST_CLUSTERS
from steelyard.uncertainty.significance import holm

PASS, FAIL, INCONCLUSIVE = "pass", "fail", "inconclusive"
FAILURE_MARGIN = 0.01
PROFILES = {
    "rank": ("NdcgEvaluator.delta >= -0.005", "MrrEvaluator.delta >= -0.005"),
    "rank+cosine": (
        "NdcgEvaluator.delta >= -0.005",
        "MrrEvaluator.delta >= -0.005",
        "CosineSimilarityEvaluator.delta >= 0",
    ),
}
_STANDS_FOR = {"common_cmax": "up to the common cmax", "answered_by_both": "on rows answered by both"}
_REMARKS = {"point": "no allowance for chance", "permissive": "not shown to be worse"}
_NEVER_PASSES: dict[Caution, str] = {
    "missing group": "a group has no value",
    "unequal missing": "the runs lack values in different shares of their rows",
    "lost clusters": "more than a fifth of the rows left with clusters in which others failed or lack values",
    "twin worse": "calibration_error2 is shown to be worse",
}
_UNUSABLE: dict[Caution, str] = {
    "scarce": "a part of it sits in too few clusters",
    "doubtful": "undefined in too many resamples",
    "constant": "every cluster differs by the same",
}


@dataclass(frozen=True)
class Number:
    """What a rule is about, in one slice: a value, its interval where it has a usable one, and how sure that is."""

    slice: Mapping[str, Any]
    value: float | None
    interval: tuple[float, float] | None = None
    se: float | None = None
    clusters: int = 0
    level: float = 0.95
    better: str | None = None
    problem: str = ""  # why there is no value, or no usable interval
    stands_for: str = ""  # what the number is taken on, where that is not the plain delta
    rule: IntervalRule | None = None  # the interval at other levels
    grown: Callable[[int], IntervalRule] | None = None  # and if there were more clusters, none of which differed
    cautions: tuple[Caution, ...] = ()
    certain: str = ""  # why the value is known without doubt, where it is


@dataclass(frozen=True)
class Verdict:
    """One rule in one slice: what was measured, and what follows."""

    rule: str
    kind: str
    verdict: str
    reason: str
    key: str
    slice: Mapping[str, Any] = field(default_factory=dict)
    value: float | None = None
    low: float | None = None
    high: float | None = None
    threshold: float | None = None
    level: float = 0.95
    p_value: float | None = None
    p_adjusted: float | None = None
    detectable: float | None = None
    clusters: int | None = None
    clusters_needed: int | None = None

    @property
    def passed(self) -> bool:
        return self.verdict == PASS


@dataclass(frozen=True)
class Decision:
    """All rules of a gate, and what they come to."""

    verdict: str
    rules: tuple[Verdict, ...]
    notes: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        return self.verdict == PASS

    @property
    def exit_code(self) -> int:
        return {PASS: 0, FAIL: 1, INCONCLUSIVE: 6}[self.verdict]


@dataclass(frozen=True)
class Subject:
    """What a gate looks at: a run's numbers, its deltas against a baseline, and keys that other tools wrote."""

    evaluation: Sequence[Estimate] = ()
    comparison: Comparison | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    exact_keys: bool = True  # False: keys of another tool's file, whatever their case
    complete: bool = True
    failure_rates: tuple[float, float] | None = None  # of the baseline and of the run
    resamples: int = 10_000
    baseline: bool = False  # whether there is one, comparable or not
    remarks: tuple[str, ...] = ()  # what must be said beside any verdict


@dataclass(frozen=True)
class Gate:
    """A list of rules. `Gate.parse(["low(delta(accuracy)) >= -0.01"]).check(comparison)`."""

    rules: tuple[Rule, ...]

    @classmethod
    def parse(cls, rules: Sequence[str] | str) -> Gate:
        """Rules from their text; no rule is no gate."""
        texts = [rules] if isinstance(rules, str) else list(rules)
        if not texts:
            raise UsageError("a gate needs at least one rule")
        return cls(tuple(parse_rule(text) for text in texts))

    @classmethod
    def profile(cls, name: str) -> Gate:
        """The documented rules of a profile."""
        if name not in PROFILES:
            raise UsageError(f"unknown gate profile '{printable(name)}'; known: {', '.join(PROFILES)}")
        return cls.parse(PROFILES[name])

    @property
    def metrics(self) -> list[str]:
        """The metrics that the rules ask for, where their names are metrics."""
        return list(dict.fromkeys(name for rule in self.rules if (name := _metric_name(rule)) is not None))

    def check(self, *subjects: Comparison | Evaluation | Subject) -> Decision:
        """The decision about a comparison, an evaluation, or both."""
        if not self.rules:
            raise UsageError("a gate needs at least one rule")
        subject = _subject(subjects)
        judged = [v for rule in self.rules for v in _judged(rule, subject)]
        judged = _corrected(judged)
        judged += _unwatched_failures(self.rules, subject)
        if not subject.complete:
            judged.append(Verdict("the run is complete", "point", FAIL, "the run is incomplete", "complete"))
        verdicts = [v.verdict for v in judged]
        whole = FAIL if FAIL in verdicts else INCONCLUSIVE if INCONCLUSIVE in verdicts else PASS
        return Decision(whole, tuple(judged), (*_notes(self.rules), *subject.remarks))


# -- one rule ----------------------------------------------------------------------------------------------------------


def _judged(rule: Rule, subject: Subject) -> Iterator[Verdict]:
    for number in _numbers(rule, subject):
        if not rule.marked and _opposes(rule, number.better):
            raise UsageError(
                f"'{rule}' asks {printable(str(rule.metric))} to be worse: {number.better} is better. "
                "Turn it round, or mark it with ! if it is meant"
            )
        found = _verdict(rule, number)
        yield replace(found, reason=f"{found.reason} ({number.stands_for})") if number.stands_for else found


def _opposes(rule: Rule, better: str | None) -> bool:
    return (better == "higher" and rule.relation.startswith("<")) or (
        better == "lower" and rule.relation.startswith(">")
    )


def _verdict(rule: Rule, number: Number) -> Verdict:
    interval = number.interval
    blank = Verdict(
        str(rule),
        rule.kind,
        FAIL,
        "",
        rule.key,
        number.slice,
        number.value,
        None if interval is None else interval[0],
        None if interval is None else interval[1],
        rule.threshold,
        number.level,
        clusters=number.clusters or None,
    )
    if number.value is None or math.isnan(number.value):
        return replace(blank, reason=number.problem or "undefined")
    barred = next((reason for caution, reason in _NEVER_PASSES.items() if caution in number.cautions), "")
    if barred:
        return replace(
            blank, verdict=INCONCLUSIVE if rule.kind == "confirming" else FAIL, reason=f"no rule passes on it: {barred}"
        )
    if rule.kind == "point" or number.certain:
        met = _holds(number.value, rule.relation, rule.threshold)
        return replace(blank, verdict=PASS if met else FAIL, reason=number.certain or _REMARKS["point"])
    if interval is None:
        verdict = INCONCLUSIVE if rule.kind == "confirming" else FAIL
        return replace(blank, verdict=verdict, reason=f"no usable interval: {number.problem or 'there is none'}")
    end = interval[0] if rule.bound == "low" else interval[1]
    unknown = f"open {rule.bound}" in number.cautions
    met = _holds(end, rule.relation, rule.threshold) and not unknown
    if rule.kind == "permissive" and unknown:
        return replace(blank, verdict=INCONCLUSIVE, reason=f"its {rule.bound} end is unknown")
    if rule.kind == "permissive":
        return replace(
            blank, verdict=PASS if met else FAIL, reason=_REMARKS["permissive"] if met else "shown to be worse"
        )
    return _confirmed(rule, number, blank, met=met)


def _confirmed(rule: Rule, number: Number, blank: Verdict, *, met: bool) -> Verdict:
    """A confirming rule: pass if the near end clears the threshold, fail if the far end misses it, else open."""
    assert number.interval is not None
    assert number.value is not None
    low, high = number.interval
    at_least = rule.relation.startswith(">")
    far = high if at_least else low
    missed = rule.threshold - number.value if at_least else number.value - rule.threshold
    shown = number.rule or shown_rule("t", number.value, number.interval, number.level, number.clusters)
    found = replace(blank, p_value=shown.alpha(rule.threshold) / 2 if missed > 0 else 1.0)
    if met:
        return replace(found, verdict=PASS, reason="the whole interval meets it")
    if math.isnan(low) or math.isnan(high):
        return replace(found, verdict=INCONCLUSIVE, reason="no usable interval", p_value=None)
    if number.se:
        found = replace(found, detectable=detectable(number.se, number.clusters, number.level))
    found = replace(found, clusters_needed=_needed(rule, number))
    if not _holds(far, rule.relation, rule.threshold):
        return replace(found, verdict=FAIL, reason="shown to miss the threshold")
    if f"open {rule.bound}" in number.cautions:
        return replace(found, verdict=INCONCLUSIVE, reason=f"its {rule.bound} end is unknown", clusters_needed=None)
    return replace(found, verdict=INCONCLUSIVE, reason=f"the interval contains the threshold; {_power(found, rule)}")


def _needed(rule: Rule, number: Number) -> int | None:
    """The fewest clusters at which the rule would pass if nothing else were seen; None where it is out of reach."""
    assert number.interval is not None
    assert number.value is not None
    if number.grown is None:
        near = number.interval[0] if rule.relation.startswith(">") else number.interval[1]
        return estimate_clusters(number.value, near, rule.threshold, number.clusters)
    grown, end = number.grown, 0 if rule.bound == "low" else 1

    def passes(clusters: int) -> bool:
        return _holds(grown(clusters).at(number.level)[end], rule.relation, rule.threshold)

    return fewest_clusters(passes, number.clusters)


def _power(v: Verdict, rule: Rule) -> str:
    """What these data could have shown, and how many clusters would pass if nothing else were seen."""
    if v.clusters_needed is None:
        more = "out of reach: more clusters alone would not pass it"
    elif rule.delta:
        more = f"it would pass at {v.clusters_needed:,} clusters if no further one differed"
    else:
        more = f"it would pass at {v.clusters_needed:,} clusters if the value stayed"
    return more if v.detectable is None else f"smallest detectable difference {v.detectable:.3g}; {more}"


def _holds(value: float, relation: str, threshold: float) -> bool:
    if relation == ">=":
        return value >= threshold
    if relation == "<=":
        return value <= threshold
    return value > threshold if relation == ">" else value < threshold


def _corrected(judged: Sequence[Verdict]) -> list[Verdict]:
    """Fails of confirming rules stand only if their p-value, Holm-adjusted over all of them, is at most α/2."""
    confirming = [i for i, v in enumerate(judged) if v.p_value is not None]
    adjusted = dict(zip(confirming, holm([float(judged[i].p_value or 0.0) for i in confirming]), strict=True))
    found = []
    for i, verdict in enumerate(judged):
        if i not in adjusted:
            found.append(verdict)
            continue
        known = replace(verdict, p_adjusted=adjusted[i])
        if verdict.verdict == FAIL and adjusted[i] > (1 - verdict.level) / 2 + 1e-12:
            among = f" among {len(confirming)} rules" if len(confirming) > 1 else ""
            chance = f"misses the threshold, but{among} that may be chance (p {adjusted[i]:.3g})"
            known = replace(known, verdict=INCONCLUSIVE, reason=f"{chance}; {_power(known, parse_rule(known.rule))}")
        found.append(known)
    return found


# -- where a rule's numbers come from ----------------------------------------------------------------------------------


def _numbers(rule: Rule, subject: Subject) -> list[Number]:
    if rule.each and rule.metric.slice:
        raise UsageError(f"'{rule}': a rule names one slice, or goes through each; not both")
    literal = None if rule.bound or rule.delta or rule.each else _literal(rule, subject)
    if literal is not None:
        return [literal]
    name = _metric_name(rule)
    if name is None:
        return [Number({}, None, problem=f"there is no number called {printable(rule.key)}")]
    found: Sequence[Estimate | Delta]
    if rule.delta:
        if subject.comparison is None:
            alone = "no evidence of it is in both runs" if subject.baseline else "there is no baseline to compare with"
            return [Number({}, None, problem=alone)]
        found = [d for d in subject.comparison.deltas if d.metric == name]
    else:
        found = [e for e in subject.evaluation if e.metric == name]
    chosen = _chosen(rule, found)
    if not chosen:
        return [Number(dict(rule.metric.slice), None, problem=f"{name} was not evaluated{_where(rule)}")]
    return [
        _of_delta(d, subject.comparison) if isinstance(d, Delta) else _of_estimate(d, subject.resamples) for d in chosen
    ]


def _where(rule: Rule) -> str:
    if rule.each:
        return f" for each {rule.each}"
    return f" in {slice_text(dict(rule.metric.slice))}" if rule.metric.slice else ""


def _literal(rule: Rule, subject: Subject) -> Number | None:
    """A key of the run's own Metrics, looked up as it is written; labels in it may be quoted."""
    key = rule.key
    value = looked_up(subject.metrics, key, exact=subject.exact_keys)
    if value is None and rule.metric.is_path:
        value = looked_up(subject.metrics, rule.metric.path, exact=subject.exact_keys)
    if value is None:
        return None
    known = OTHER_NAMES.get(key, key)
    same = [e for e in subject.evaluation if flat_key(e.metric, e.slice) == known]
    return (
        replace(_of_estimate(same[0], subject.resamples), value=value)
        if same
        else Number({}, value, better=_better(known))
    )


def _better(key: str) -> str | None:
    """The direction of a key that is a metric's name; of another tool's key, none is known."""
    try:
        return bound(replace(parse(key), slice=())).better
    except UsageError:
        return None


def _metric_name(rule: Rule) -> str | None:
    try:
        metric = bound(replace(rule.metric, slice=()))
    except UsageError:
        if rule.bound or rule.delta:
            raise
        return None
    return single(metric).name


def _chosen(rule: Rule, found: Sequence[Any]) -> list[Any]:
    """The slices that a rule is about."""
    if rule.each == "cell":
        return [e for e in found if set(e.slice) <= set(CELL)]
    if rule.each:
        return [e for e in found if rule.each in e.slice and set(e.slice) - {rule.each} <= set(CELL)]
    wanted = dict(rule.metric.slice)
    if wanted:
        return [e for e in found if {k: value_name(v) for k, v in e.slice.items()} == wanted]
    whole = [e for e in found if not e.slice] or list(found)
    if len(whole) > 1:
        shown = ", ".join(slice_text({k: value_name(v) for k, v in e.slice.items()}) for e in whole[:6])
        raise UsageError(f"'{rule}' matches several slices ({shown}); pick one with {{…}}, or write 'for each cell'")
    return whole


def _of_estimate(e: Estimate, resamples: int) -> Number:
    problem = _no_interval(e.interval, e.clusters, e.undefined_resamples, resamples, e.note, e.cautions)
    usable = None if problem else e.interval
    rule = e.rule
    if rule is None and usable is not None and e.value is not None:
        rule = shown_rule(e.method, e.value, usable, e.level, e.clusters)
    return Number(
        dict(e.slice),
        e.value,
        usable,
        e.se,
        e.clusters,
        e.level,
        e.better,
        problem or e.note,
        rule=rule,
        cautions=e.cautions,
    )


def _of_delta(d: Delta, comparison: Comparison | None) -> Number:
    """The delta that a verdict would rest on: on rows answered by both, or up to the coverage that both reach.

    A metric whose verdict comes from another one is gated by its own delta, and barred where the other is worse.
    """
    assert comparison is not None
    settings = comparison.settings
    if d.unchanged:
        same = f"the answers are the same in all {d.companions['unchanged']['rows']} rows"
        return Number(
            dict(d.slice),
            0.0,
            (0.0, 0.0),
            None,
            d.clusters,
            settings.level,
            d.better,
            certain=same,
            cautions=d.cautions,
        )
    readable = d.readable
    if readable is None:
        return Number(dict(d.slice), None, better=d.better, problem=d.note or "the runs cannot be compared by it")
    taken_on, held = readable
    cautions = tuple(dict.fromkeys((*d.cautions, *held.cautions)))
    problem = _no_interval(held.interval, held.clusters, held.undefined_resamples, settings.resamples, d.note, cautions)
    return Number(
        dict(d.slice),
        held.delta,
        None if problem else held.interval,
        held.se,
        held.clusters,
        settings.level,
        d.better,
        problem or held.note,
        ", ".join(part for part in (_STANDS_FOR.get(taken_on, ""), _left(d)) if part),
        held.rule,
        held.grown,
        cautions,
    )


def _left(d: Delta) -> str:
    """How many clusters a delta of kept runs still stands on, where some left."""
    left = d.companions.get("clusters_left")
    return f"on {left['left']} of {left['of']} clusters" if left else ""


def _no_interval(
    interval: Any, clusters: int, undefined: int, resamples: int, note: str, cautions: Sequence[Caution]
) -> str:
    if interval is None:
        return note or "there is none"
    if clusters < FEWEST_CLUSTERS:
        return f"only {clusters} clusters"
    unusable = next((reason for caution, reason in _UNUSABLE.items() if caution in cautions), "")
    return unusable or ("undefined in too many resamples" if undefined > TOLERATED_UNDEFINED * resamples else "")


def _subject(given: Sequence[Comparison | Evaluation | Subject]) -> Subject:
    found = Subject()
    for part in given:
        if isinstance(part, Subject):
            found = part
        elif isinstance(part, Comparison):
            found = replace(found, comparison=part, failure_rates=_failure_rates(part))
        else:
            found = replace(found, evaluation=tuple(part), resamples=part.settings.resamples)
    return found


def _failure_rates(comparison: Comparison) -> tuple[float, float] | None:
    sides = [comparison.population[side] for side in ("base", "new")]
    if not all(side["rows"] for side in sides):
        return None
    base, new = (side["failed"] / side["rows"] for side in sides)
    return base, new


# -- what nobody asked about -------------------------------------------------------------------------------------------


def _unwatched_failures(rules: Sequence[Rule], subject: Subject) -> list[Verdict]:
    """Failures that rose without a rule about them: failed rows leave every quality metric, so they can hide a loss."""
    if subject.failure_rates is None or any(_head(rule) == "failure_rate" for rule in rules):
        return []
    base, new = subject.failure_rates
    if new - base <= FAILURE_MARGIN + 1e-9:
        return []
    reason = f"{100 * new:.1f}% of the rows failed, {100 * base:.1f}% before, and no rule is about failure_rate"
    return [
        Verdict(
            "failure_rate is watched", "point", FAIL, reason, "failure_rate", value=new, threshold=base + FAILURE_MARGIN
        )
    ]


def _notes(rules: Sequence[Rule]) -> Iterator[str]:
    selective = [str(rule) for rule in rules if _rewards_declining(rule)]
    if selective and not any(_head(rule) in ("answer_rate", "cmax") for rule in rules):
        yield f"'{selective[0]}' can be met by declining more; add a rule about answer_rate"
    if any(rule.delta and rule.bound and rule.threshold != 0 for rule in rules):
        yield (
            "margins add up if each accepted run becomes the next baseline; gate against a fixed run too "
            "(--baseline pinned:NAME)"
        )


def _head(rule: Rule) -> str:
    """The metric's own name, whatever alias a rule uses."""
    try:
        return bound(replace(rule.metric, slice=())).definition.name
    except UsageError:
        return rule.metric.head


def _rewards_declining(rule: Rule) -> bool:
    try:
        return bound(replace(rule.metric, slice=())).definition.common_coverage is not None
    except UsageError:
        return False
