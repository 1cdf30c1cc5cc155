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
from typing import Any, Literal, get_args

from steelyard.comparison import Comparison, Delta
from steelyard.decide import advice
from steelyard.decide.known import Known
from steelyard.errors import UsageError, printable
from steelyard.evaluation import Evaluation
from steelyard.metrics import metrics as registry
from steelyard.metrics.definition import Metric, bound, metric_of, single
from steelyard.naming import Rule, parse, parse_rule, slice_text, split_slice
from steelyard.records.labels import value_name
from steelyard.records.schema import CELL
from steelyard.runs.artifact import OTHER_NAMES, flat_key
from steelyard.runs.documented import made_from, meant_by
from steelyard.runs.run_json import same_but_case
from steelyard.uncertainty.estimate import TOLERATED_UNDEFINED, Caution, Estimate, barred_by
from steelyard.uncertainty.groups import named as group_names
from steelyard.uncertainty.intervals import Rule as IntervalRule
from steelyard.uncertainty.intervals import shown_rule
from steelyard.uncertainty.power import detectable, estimate_clusters, fewest_clusters
from steelyard.uncertainty.scarcity import FEWEST_CLUSTERS
from steelyard.uncertainty.significance import holm

PASS, FAIL, INCONCLUSIVE = "pass", "fail", "inconclusive"
Inconclusive = Literal["report", "fail", "pass", "warn"]  # what an inconclusive gate comes to
FAILURE_MARGIN = 0.01
Cause = Literal["", "missing", "barred", "no interval", "unknown end", "open"]
ALLOWED_MISSING = 0.05  # of the asked rows, that may lack what a metric reads
PROFILES = {
    "rank": ("NdcgEvaluator.delta >= -0.005", "MrrEvaluator.delta >= -0.005"),
    "rank+cosine": (
        "NdcgEvaluator.delta >= -0.005",
        "MrrEvaluator.delta >= -0.005",
        "CosineSimilarityEvaluator.delta >= 0",
    ),
}
EVALUATORS = ("CosineSimilarityEvaluator", "MarginEvaluator", "NdcgEvaluator", "MrrEvaluator")  # documented keys
_STANDS_FOR = {"common_cmax": "up to the common cmax", "answered_by_both": "on rows answered by both"}
_REMARKS = {"point": "no allowance for chance", "permissive": "not shown to be worse"}
_FROM_VALUES = "from values alone; not known to be the same questions"
_WATCHED = ("answer_rate", "abstention_rate", "cmax")  # a rule about one of these sees a model decline
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
    n: int | None = None  # what the value is taken over; None where nobody stated it
    left_out: Mapping[str, int] = field(default_factory=dict)
    missing: float = 0.0  # the share of the asked rows that lack what the metric reads
    absent: float = 0.0  # the share of the baseline's rows whose questions were not asked
    notes: tuple[str, ...] = ()


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
    n: int | None = None
    left_out: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()  # what would settle it, where it is inconclusive
    cause: Cause = ""  # why it is neither pass nor fail on its merits

    @property
    def passed(self) -> bool:
        return self.verdict == PASS


@dataclass(frozen=True)
class Decision:
    """All rules of a gate, and what they come to."""

    verdict: str
    rules: tuple[Verdict, ...]
    notes: tuple[str, ...] = ()
    inconclusive: Inconclusive = "report"

    @property
    def passed(self) -> bool:
        """Whether the run may pass: an inconclusive gate only where that was said beforehand."""
        return self.exit_code == 0

    @property
    def exit_code(self) -> int:
        if self.verdict == INCONCLUSIVE:
            return {"report": 6, "fail": 1, "pass": 0, "warn": 0}[self.inconclusive]
        return 0 if self.verdict == PASS else 1

    @property
    def reason(self) -> str:
        """One line: the first rule that decided, and why."""
        open_ = [v for v in self.rules if v.verdict == self.verdict and v.verdict != PASS]
        if not open_:
            return f"all {len(self.rules)} rules passed"
        more = f" (and {len(open_) - 1} more)" if len(open_) > 1 else ""
        return f"{open_[0].rule}{slice_text(_names(open_[0].slice))}: {open_[0].verdict}, {open_[0].reason}{more}"


@dataclass(frozen=True)
class Subject:
    """What a gate looks at: a run's numbers, its deltas against a baseline, and keys that other tools wrote."""

    evaluation: Sequence[Estimate] = ()
    comparison: Comparison | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    complete: bool = True
    failure_rates: tuple[float, float] | None = None  # of the baseline and of the run
    resamples: int = 10_000
    baseline: bool = False  # whether there is one, comparable or not
    baseline_metrics: Mapping[str, float] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()  # what must be said beside any verdict
    known: Known = field(default_factory=Known)  # what either run knows by name, where that can be told
    absent: float = 0.0  # the share of the baseline's rows whose questions the run was not asked
    unit: str = "cluster"  # what a cluster is called


@dataclass(frozen=True)
class Gate:
    """A list of rules. `Gate.parse(["low(delta(accuracy)) >= -0.01"]).check(comparison)`.

    `allow_missing` is the share of the asked rows that may lack what a metric reads; `inconclusive` what a gate comes
    to that the data leave open: `report` it as such (exit 6), `fail`, `pass` or `warn` (pass, and say so).
    """

    rules: tuple[Rule, ...]
    allow_missing: float = ALLOWED_MISSING
    inconclusive: Inconclusive = "report"

    def __post_init__(self) -> None:
        if not 0 <= self.allow_missing <= 1:
            raise UsageError("allow_missing is a share, from 0 to 1")
        if self.inconclusive not in get_args(Inconclusive):
            raise UsageError(f"inconclusive is one of {', '.join(get_args(Inconclusive))}")

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
        return list(dict.fromkeys(name for rule in self.rules if (name := metric_name(rule)) is not None))

    def spelled(self, keys: Sequence[str]) -> Gate:
        """The same rules, with names in another case as the runs or the registry spell them."""
        return replace(self, rules=tuple(_spelled(rule, keys) for rule in self.rules))

    def by(self, columns: Sequence[str]) -> Gate:
        """The same rules, and each of them also for each value of these columns."""
        plain = [rule for rule in self.rules if not rule.each and not rule.metric.slice]
        more = [replace(rule, each=column) for column in columns for rule in plain if metric_name(rule) is not None]
        return replace(self, rules=(*self.rules, *more))

    def check(self, *subjects: Comparison | Evaluation | Subject) -> Decision:
        """The decision about a comparison, an evaluation, or both."""
        if not self.rules:
            raise UsageError("a gate needs at least one rule")
        subject = _subject(subjects)
        rules = self.spelled([*subject.metrics, *subject.baseline_metrics]).rules
        judged = [v for rule in rules for v in _judged(rule, subject, self.allow_missing)]
        judged = _corrected(judged, subject.unit)
        judged += _unwatched_failures(rules, subject)
        if not subject.complete:
            judged.append(Verdict("the run is complete", "point", FAIL, "the run is incomplete", "complete"))
        verdicts = [v.verdict for v in judged]
        whole = FAIL if FAIL in verdicts else INCONCLUSIVE if INCONCLUSIVE in verdicts else PASS
        return Decision(whole, tuple(judged), (*_notes(rules), *subject.remarks), self.inconclusive)


# -- one rule ----------------------------------------------------------------------------------------------------------


def _judged(rule: Rule, subject: Subject, allowed: float) -> Iterator[Verdict]:
    for number in _numbers(rule, subject):
        if not rule.marked and _opposes(rule, number.better):
            raise UsageError(
                f"'{rule}' asks {printable(str(rule.metric))} to be worse: {number.better} is better. "
                "Turn it round, or mark it with ! if it is meant"
            )
        found = _verdict(rule, _among(number, rule, subject), allowed)
        if found.verdict == INCONCLUSIVE:
            found = replace(found, advice=advice.of(rule, number, found, subject.unit))
        yield replace(found, reason=f"{found.reason} ({number.stands_for})") if number.stands_for else found


def _spelled(rule: Rule, keys: Sequence[str]) -> Rule:
    if _metric(rule) is not None:
        return rule
    written = str(rule.metric)
    head = same_but_case(rule.metric.head, registry)
    for meant in (same_but_case(written, keys), head and head + written.removeprefix(rule.metric.head)):
        try:
            found = rule if not meant else replace(rule, metric=parse(meant))
        except UsageError:
            continue
        if _metric(found) is not None:
            return found
    return rule


def _among(number: Number, rule: Rule, subject: Subject) -> Number:
    """The number with what it lacks beside the baseline: questions that were not asked, groups that are not there."""
    metric = _metric(rule)
    lost = [] if metric is None else subject.known.lost_groups(metric)
    if lost:
        note = f"{group_names(lost)} left out: the baseline has rows of it, the run has none"
        cautions = tuple(dict.fromkeys((*number.cautions, "missing group")))
        number = replace(number, notes=(*number.notes, note), cautions=cautions)
    return replace(number, absent=subject.absent) if subject.absent else number


def _opposes(rule: Rule, better: str | None) -> bool:
    return (better == "higher" and rule.relation.startswith("<")) or (
        better == "lower" and rule.relation.startswith(">")
    )


def _verdict(rule: Rule, number: Number, allowed: float) -> Verdict:
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
        n=number.n,
        left_out=number.left_out,
        notes=number.notes,
    )
    if number.value is None or math.isnan(number.value):
        return replace(blank, reason=number.problem or "undefined")
    barred = _barred(number, allowed)
    if barred:
        verdict = INCONCLUSIVE if rule.kind == "confirming" else FAIL
        cause: Cause = "barred" if barred_by(number.cautions) else "missing"
        return replace(blank, verdict=verdict, cause=cause, reason=f"no rule passes on it: {barred}")
    if rule.kind == "point" or number.certain:
        met = _holds(number.value, rule.relation, rule.threshold)
        return replace(blank, verdict=PASS if met else FAIL, reason=number.certain or _REMARKS["point"])
    if interval is None:
        verdict = INCONCLUSIVE if rule.kind == "confirming" else FAIL
        reason = f"no usable interval: {number.problem or 'there is none'}"
        return replace(blank, verdict=verdict, cause="no interval", reason=reason)
    end = interval[0] if rule.bound == "low" else interval[1]
    unknown = f"open {rule.bound}" in number.cautions
    met = _holds(end, rule.relation, rule.threshold) and not unknown
    if rule.kind == "permissive" and unknown:
        return replace(blank, verdict=INCONCLUSIVE, cause="unknown end", reason=f"its {rule.bound} end is unknown")
    if rule.kind == "permissive":
        return replace(
            blank, verdict=PASS if met else FAIL, reason=_REMARKS["permissive"] if met else "shown to be worse"
        )
    return _confirmed(rule, number, blank, met=met)


def _barred(number: Number, allowed: float) -> str:
    """Why no rule passes on a number, or nothing."""
    barred = barred_by(number.cautions)
    if not barred and number.absent > allowed + 1e-12:
        return f"the run lacks {100 * number.absent:.3g}% of the baseline's rows, and {100 * allowed:g}% may be missing"
    if not barred and number.missing > allowed + 1e-12:
        share = f"{100 * number.missing:.3g}% of the asked rows lack what it reads"
        return f"{share}, and {100 * allowed:g}% may"
    return barred


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
        return replace(found, verdict=INCONCLUSIVE, cause="no interval", reason="no usable interval", p_value=None)
    if number.se:
        found = replace(found, detectable=detectable(number.se, number.clusters, number.level))
    found = replace(found, clusters_needed=_needed(rule, number))
    if not _holds(far, rule.relation, rule.threshold):
        return replace(found, verdict=FAIL, reason="shown to miss the threshold")
    if f"open {rule.bound}" in number.cautions:
        unknown = f"its {rule.bound} end is unknown"
        return replace(found, verdict=INCONCLUSIVE, cause="unknown end", reason=unknown, clusters_needed=None)
    reason = f"the interval contains the threshold{_seen(found)}"
    return replace(found, verdict=INCONCLUSIVE, cause="open", reason=reason)


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


def _seen(v: Verdict) -> str:
    """What these data could have shown."""
    return "" if v.detectable is None else f"; smallest detectable difference {v.detectable:.3g}"


def _holds(value: float, relation: str, threshold: float) -> bool:
    if relation == ">=":
        return value >= threshold
    if relation == "<=":
        return value <= threshold
    return value > threshold if relation == ">" else value < threshold


def _corrected(judged: Sequence[Verdict], unit: str) -> list[Verdict]:
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
            open_ = replace(known, verdict=INCONCLUSIVE, reason=f"{chance}{_seen(known)}")
            known = replace(open_, advice=advice.of_chance(parse_rule(known.rule), open_, unit))
        found.append(known)
    return found


# -- where a rule's numbers come from ----------------------------------------------------------------------------------


def _numbers(rule: Rule, subject: Subject) -> list[Number]:
    if rule.each and rule.metric.slice:
        raise UsageError(f"'{rule}': a rule names one slice, or goes through each; not both")
    literal = None if rule.bound or rule.delta or rule.each else _literal(rule, subject)
    if literal is not None:
        return [literal]
    name = _named(rule, subject)
    if rule.delta and subject.comparison is None and not subject.baseline:
        raise UsageError(f"'{rule}' compares with a baseline, and none was given; name one")
    if name is None:
        return [_from_values(rule, str(rule.metric), subject) or _no_metric(rule, subject)]
    subject.known.check(rule)
    found: Sequence[Estimate | Delta]
    if rule.delta:
        found = [d for d in subject.comparison.deltas if d.metric == name] if subject.comparison is not None else ()
    else:
        found = [e for e in subject.evaluation if e.metric == name]
    chosen = _chosen(rule, found)
    if not chosen:
        return [_from_values(rule, name, subject) or _absent(rule, name, subject)]
    numbers = [_of_delta(d, subject) if isinstance(d, Delta) else _of_estimate(d, subject) for d in chosen]
    lost = subject.known.lost(rule.each, [value_name(e.slice.get(rule.each)) for e in chosen]) if rule.each else []
    return numbers + [
        Number({rule.each: value}, None, problem=f"{subject.known.run_text} has no row of it, the baseline has")
        for value in lost
        if rule.each
    ]


def _named(rule: Rule, subject: Subject) -> str | None:
    """The metric's name; None for a key that is no metric's, but documented or one of the runs'; else an error."""
    metric = _metric(rule)
    if metric is not None:
        return single(metric).name
    known = [*subject.metrics, *subject.baseline_metrics]
    if rule.metric.head in EVALUATORS or same_but_case(str(rule.metric), known):
        return None
    raise UsageError(subject.known.unknown(rule, [*subject.metrics, *subject.baseline_metrics]))


def _no_metric(rule: Rule, subject: Subject) -> Number:
    """A key of a run that is no metric's: it has a value at most, and no interval."""
    written = printable(str(rule.metric))
    what = f"no evidence of {written}, only a value" if rule.bound or rule.delta else f"no {written}"
    return Number({}, None, problem=f"{subject.known.run_text} has {what}")


def _from_values(rule: Rule, name: str, subject: Subject) -> Number | None:
    """A point rule about a delta needs no evidence: the two values do, where both runs have them."""
    if not rule.delta or rule.bound or rule.each:
        return None
    both = [_value(metrics, rule, name) for metrics in (subject.baseline_metrics, subject.metrics)]
    if both[0] is None or both[1] is None:
        return None
    key = flat_key(name, dict(rule.metric.slice))
    own = next((_of_estimate(e, subject) for e in subject.evaluation if flat_key(e.metric, e.slice) == key), None)
    own = own or _standing_on(str(rule.metric), subject)
    return Number(
        dict(rule.metric.slice), both[1] - both[0], better=_better(name), stands_for=_FROM_VALUES, n=own.n,
        clusters=own.clusters, left_out=own.left_out, missing=own.missing, notes=own.notes, cautions=own.cautions,
    )  # fmt: skip


def _value(metrics: Mapping[str, float], rule: Rule, name: str) -> float | None:
    slice_ = dict(rule.metric.slice)
    keys = dict.fromkeys((str(rule.metric), flat_key(name, slice_), *(flat_key(k, slice_) for k in _other(name))))
    return next((metrics[held] for key in keys if (held := same_but_case(key, metrics)) is not None), None)


def _other(name: str) -> list[str]:
    """The documented keys that mean a metric."""
    return [key for key, metric in OTHER_NAMES.items() if metric == name]


def _absent(rule: Rule, name: str, subject: Subject) -> Number:
    """A number that is not there although its name is known: which run lacks it, and what would add it."""
    where = ""
    if rule.each:
        where = f" for each {rule.each}"
    elif rule.metric.slice:
        where = f" in {slice_text(dict(rule.metric.slice))}"
    columns = [c for c in ((rule.each,) if rule.each else dict(rule.metric.slice)) if c and c not in (*CELL, "cell")]
    return Number(dict(rule.metric.slice), None, problem=subject.known.absent(name, where, columns, delta=rule.delta))


def _literal(rule: Rule, subject: Subject) -> Number | None:
    """A key of the run's own Metrics, looked up as it is written; labels in it may be quoted."""
    paths = (rule.metric.path,) if rule.metric.is_path else ()
    key = next((k for text in (rule.key, *paths) if (k := same_but_case(text, subject.metrics))), None)
    if key is None:
        return None
    value = subject.metrics[key]
    known = meant_by(key)
    same = [e for e in subject.evaluation if flat_key(e.metric, e.slice) == known]
    if same:
        return replace(_of_estimate(same[0], subject), value=value)
    return replace(_standing_on(key, subject), value=value, better=_better(known))


def _standing_on(key: str, subject: Subject) -> Number:
    """What a number without an estimate of its own stands on: that of the metric it was made from, without interval."""
    name, slice_ = split_slice(key)
    sources = [
        e
        for e in subject.evaluation
        if _names(e.slice) == slice_ and metric_of(e.metric).definition.name in made_from(name)
    ]
    if not sources:
        return Number({}, None)
    held = max((_of_estimate(e, subject) for e in sources), key=lambda number: number.missing)
    return Number(
        held.slice, None, clusters=held.clusters, level=held.level, n=held.n, left_out=held.left_out,
        missing=held.missing, notes=held.notes, cautions=held.cautions,
    )  # fmt: skip


def _better(key: str) -> str | None:
    """The direction of a key that is a metric's name; of another tool's key, none is known."""
    try:
        return bound(replace(parse(key), slice=())).better
    except UsageError:
        return None


def _metric(rule: Rule) -> Metric | None:
    """The metric that a rule is about; None where the registry does not know it."""
    try:
        return bound(replace(rule.metric, slice=()))
    except UsageError:
        return None


def _documented(rule: Rule) -> Metric | None:
    """The metric that a documented key means, where a rule is about one."""
    try:
        return bound(replace(parse(meant_by(rule.key)), slice=()))
    except UsageError:
        return None


def metric_name(rule: Rule) -> str | None:
    """The metric's canonical name; None where the rule is about a key that is no metric's."""
    metric = _metric(rule)
    return None if metric is None else single(metric).name


def _names(slice_: Mapping[str, Any]) -> dict[str, str]:
    return {column: value_name(value) for column, value in slice_.items()}


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


def _of_estimate(e: Estimate, subject: Subject) -> Number:
    problem = _no_interval(
        e.interval, e.clusters, e.undefined_resamples, subject.resamples, e.note, e.cautions, subject.unit
    )
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
        n=e.n,
        left_out=e.excluded,
        missing=e.missing_share,
        notes=_split(e.note),
    )


def _split(note: str) -> tuple[str, ...]:
    return tuple(filter(None, note.split("; ")))


def _of_delta(d: Delta, subject: Subject) -> Number:
    """The delta that a verdict would rest on: on rows answered by both, or up to the coverage that both reach.

    A metric whose verdict comes from another one is gated by its own delta, and barred where the other is worse.
    """
    assert subject.comparison is not None
    settings = subject.comparison.settings
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
            n=d.n,
            left_out=_left_out(d),
            missing=d.missing_share,
            notes=_split(d.note),
        )
    readable = d.readable
    if readable is None:
        return Number(
            dict(d.slice),
            None,
            better=d.better,
            problem=d.note or "the runs cannot be compared by it",
            n=d.n,
            left_out=_left_out(d),
            notes=_split(d.note),
        )
    taken_on, held = readable
    cautions = tuple(dict.fromkeys((*d.cautions, *held.cautions)))
    problem = _no_interval(
        held.interval, held.clusters, held.undefined_resamples, settings.resamples, d.note, cautions, subject.unit
    )
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
        n=min(held.n_base, held.n_new),
        left_out=_left_out(d),
        missing=d.missing_share,
        notes=_split(d.note),
    )


def _left_out(d: Delta) -> dict[str, int]:
    """The pairs that a delta was not taken over, by reason."""
    failed = "left with clusters in which others failed" if "clusters_left" in d.companions else "failed in either run"
    found = {failed: d.n_failed, "lacking what it reads": d.n_missing}
    return {reason: count for reason, count in found.items() if count}


def _left(d: Delta) -> str:
    """How many clusters a delta of kept runs still stands on, where some left."""
    left = d.companions.get("clusters_left")
    return f"on {left['left']} of {left['of']} clusters" if left else ""


def _no_interval(
    interval: Any,
    clusters: int,
    undefined: int,
    resamples: int,
    note: str,
    cautions: Sequence[Caution],
    unit: str,
) -> str:
    if interval is None:
        return note or "there is none"
    if clusters < FEWEST_CLUSTERS:
        return f"only {advice.counted(clusters, unit)}"
    unusable = next((reason for caution, reason in _UNUSABLE.items() if caution in cautions), "")
    return unusable or ("undefined in too many resamples" if undefined > TOLERATED_UNDEFINED * resamples else "")


def _subject(given: Sequence[Comparison | Evaluation | Subject]) -> Subject:
    found = Subject()
    for part in given:
        if isinstance(part, Subject):
            found = part
        elif isinstance(part, Comparison):
            unit = advice.unit_of(part.cluster) if part.cluster else found.unit
            found = replace(found, comparison=part, failure_rates=_failure_rates(part), unit=unit)
        else:
            unit = advice.unit_of(part.cluster)
            found = replace(found, evaluation=tuple(part), resamples=part.settings.resamples, unit=unit)
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
    selective = [str(rule) for rule in rules if _rewards_declining(_metric(rule) or _documented(rule))]
    if selective and not any(_head(rule) in _WATCHED for rule in rules):
        others = f" (and {len(selective) - 1} more)" if len(selective) > 1 else ""
        yield f"'{selective[0]}'{others} can be met by declining more; add a rule about answer_rate"
    if any(rule.delta and rule.bound and rule.threshold != 0 for rule in rules):
        yield (
            "margins add up if each accepted run becomes the next baseline; gate against a fixed run too "
            "(a pinned one, as pinned:NAME)"
        )


def _head(rule: Rule) -> str:
    """The metric's own name, whatever alias a rule uses."""
    try:
        return bound(replace(rule.metric, slice=())).definition.name
    except UsageError:
        return rule.metric.head


def _rewards_declining(metric: Metric | None) -> bool:
    """True if a model can better the number by answering less: what is wrong leaves with what is not answered."""
    if metric is None:
        return False
    definition = metric.definition
    own = metric.population == "answered" or definition.rewards_declining or definition.common_coverage is not None
    return bool(own) or _rewards_declining(metric.base)
