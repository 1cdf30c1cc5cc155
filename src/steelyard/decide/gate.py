"""May this run pass? Rules about metrics and deltas, each pass, fail or inconclusive; the gate is all of them.

    accuracy >= 0.8                     point: the value, with no allowance for chance
    low(delta(accuracy)) >= -0.01       confirming: shown to be no worse than that
    high(delta(accuracy)) >= 0          permissive: not shown to be worse

Any fail fails the gate; else any inconclusive rule leaves it inconclusive; else it passes. A pass claims all rules at
once and needs no correction; a fail among several confirming rules stands only if it would after Holm's correction.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import get_args

from steelyard.decide import advice
from steelyard.decide.allowing import allow_text
from steelyard.decide.decision import FAIL, INCONCLUSIVE, PASS, Cause, Decision, Inconclusive, Verdict
from steelyard.decide.numbers import (
    GateNumber,
    Subject,
    documented_metric,
    metric_name,
    numbers_of,
    rule_metric,
    spelled,
)
from steelyard.decide.profiles import rules_of
from steelyard.errors import UsageError, counted, printable
from steelyard.metrics import metrics as registry
from steelyard.metrics.definition import Metric
from steelyard.naming import Rule, parse, parse_rule
from steelyard.records.cautions import FAILURE_MARGIN, USUAL, Caution, Kind, within
from steelyard.study.results import Comparison, Evaluation
from steelyard.uncertainty.intervals import shown_rule
from steelyard.uncertainty.number import barred_by
from steelyard.uncertainty.power import detectable, estimate_clusters, fewest_clusters
from steelyard.uncertainty.significance import holm_within

_REMARKS = {"point": "no allowance for chance", "permissive": "not shown to be worse"}
_MISSES = {">=": "below", ">": "not above", "<=": "above", "<": "not below"}
_RESULTS = ("outcome", "prediction", "mark", "score", "confidence", "declined_by")  # columns that a model fills
_WATCHED = ("answer_rate", "abstention_rate", "cmax")  # a rule about one of these sees a model decline


@dataclass(frozen=True)
class Gate:
    """A list of rules. `Gate.parse(["low(delta(accuracy)) >= -0.01"]).check(comparison)`.

    `allow` says which cautions about the rows bar no rule, and up to which share of them, as in {"excerpt": 1.0}
    (`decide.allowing`); `inconclusive` what a gate comes to that the data leave open: `report` it as such (exit 6),
    `fail`, `pass` or `warn` (pass, and say so).

    >>> import steelyard as sy
    >>> result = sy.evaluate([{"item": 1, "target": "a", "prediction": "a"}], "accuracy", resamples=0)
    >>> Gate.parse("accuracy >= 0.8").check(result)
    Decision: PASS (1 rule: 1 pass)
    """

    rules: tuple[Rule, ...]
    allow: Mapping[Kind, float] = field(default_factory=dict)
    inconclusive: Inconclusive = "report"
    primary: tuple[str, ...] = ()  # metrics whose rules are corrected among themselves; by default all are one family

    def __post_init__(self) -> None:
        if self.inconclusive not in get_args(Inconclusive):
            raise UsageError(f"inconclusive is one of {', '.join(get_args(Inconclusive))}")

    @classmethod
    def parse(cls, rules: Sequence[str] | str) -> Gate:
        """Rules from their text; no rule is no gate.

        >>> Gate.parse(["accuracy >= 0.8", "low(delta(accuracy)) >= -0.01"]).metrics
        ['accuracy']
        """
        texts = [rules] if isinstance(rules, str) else list(rules)
        if not texts:
            raise UsageError("a gate needs at least one rule")
        return cls(tuple(dict.fromkeys(parse_rule(text) for text in texts)))

    @classmethod
    def profile(cls, name: str) -> Gate:
        """The documented rules of a profile.

        >>> [str(rule) for rule in Gate.profile("rank").rules]
        ['NdcgEvaluator.delta >= -0.005', 'MrrEvaluator.delta >= -0.005']
        """
        return cls.parse(rules_of(name))

    @property
    def metrics(self) -> list[str]:
        """The metrics that the rules ask for, where their names are metrics."""
        return list(dict.fromkeys(name for rule in self.rules if (name := metric_name(rule)) is not None))

    def spelled(self, keys: Sequence[str]) -> Gate:
        """The same rules, with names in another case as the runs or the registry spell them."""
        return replace(self, rules=tuple(spelled(rule, keys) for rule in self.rules))

    def called(self, names: Mapping[str, str]) -> Gate:
        """The same rules, with what a run calls otherwise under its metric's name: a combined score has any name."""
        known = {name: meant for name, meant in names.items() if name not in registry}
        rules = [
            replace(rule, metric=replace(rule.metric, head=known[rule.metric.head]))
            if rule.metric.head in known and not rule.metric.args
            else rule
            for rule in self.rules
        ]
        return replace(self, rules=tuple(rules), primary=tuple(known.get(name, name) for name in self.primary))

    def by(self, columns: Sequence[str]) -> Gate:
        """The same rules, and each of them also for each value of these columns.

        >>> [str(rule) for rule in Gate.parse("accuracy >= 0.8").by(["group.site"]).rules]
        ['accuracy >= 0.8', 'accuracy >= 0.8 for each group.site']
        """
        plain = [rule for rule in self.rules if not rule.each and not rule.metric.slice]
        more = [replace(rule, each=column) for column in columns for rule in plain if metric_name(rule) is not None]
        return replace(self, rules=(*self.rules, *more))

    def checked(self) -> Gate:
        """The gate itself, if no rule asks for what no run could have, or for a metric to be worse: those are slips."""
        for rule in self.rules:
            metric = rule_metric(rule)
            if metric is not None:
                _check_direction(rule, metric.better)
            beyond = _out_of_bounds(rule)
            if beyond:
                raise UsageError(beyond)
        for name in self.primary:
            if not any(_is_about(rule, name) for rule in self.rules):
                raise UsageError(f"primary: no rule is about {printable(name)}")
        return self

    def check(self, *subjects: Comparison | Evaluation | Subject) -> Decision:
        """The decision about a comparison, an evaluation, or both.

        >>> import steelyard as sy
        >>> result = sy.evaluate([{"item": 1, "target": "a", "prediction": "b"}], "accuracy", resamples=0)
        >>> decision = Gate.parse("accuracy >= 0.8").check(result)
        >>> decision.verdict, decision.exit_code, decision.rules[0].reason
        ('fail', 1, '0 is below 0.8; no allowance for chance')
        """
        if not self.rules:
            raise UsageError("a gate needs at least one rule")
        subject = _subject(subjects)
        rules = self.spelled([*subject.metrics, *subject.baseline_metrics]).rules
        judged = [v for rule in rules for v in _judged(rule, subject, self.allow)]
        judged = _corrected(judged, subject.unit, self.primary)
        judged = [_believed(v, rules, subject, self.allow) for v in judged]
        judged += _unwatched_failures(rules, subject)
        if not subject.complete or (subject.in_part and self.allow.get("excerpt", 0.0) < 1):
            judged.append(
                Verdict(
                    rule="the run is complete",
                    kind="point",
                    verdict=FAIL,
                    reason="the run is incomplete",
                    key="complete",
                )
            )
        verdicts = [v.verdict for v in judged]
        whole = FAIL if FAIL in verdicts else INCONCLUSIVE if INCONCLUSIVE in verdicts else PASS
        margins = _used_margins(judged)
        named = ", ".join(map(printable, self.primary))
        decides = [f"p adjusted over the rules about {named}, and apart over the others"] if named else []
        accepted = [f"allowed: {allow_text(self.allow)}"] if self.allow else []
        return Decision(
            verdict=whole,
            rules=tuple(judged),
            notes=tuple(dict.fromkeys((*_notes(rules), *margins, *decides, *accepted, *subject.remarks))),
            inconclusive=self.inconclusive,
            allow=self.allow,
        )


# -- one rule ----------------------------------------------------------------------------------------------------------


def _judged(rule: Rule, subject: Subject, allow: Mapping[Kind, float]) -> Iterator[Verdict]:
    for number in numbers_of(rule, subject):
        _check_direction(rule, number.better)
        verdict = _verdict(rule, number, allow.get("missing", USUAL["missing"]))
        if verdict.verdict == INCONCLUSIVE:
            verdict = replace(verdict, advice=advice.of(rule, number, verdict, subject.unit))
        yield replace(verdict, reason=f"{verdict.reason} ({number.stands_for})") if number.stands_for else verdict


def _check_direction(rule: Rule, better: str | None) -> None:
    if not rule.marked and _opposes(rule, better):
        raise UsageError(
            f"'{rule}' asks {printable(str(rule.metric))} to be worse: {better} is better. "
            "Turn it round, or mark it with ! if it is meant"
        )


def _believed(v: Verdict, rules: Sequence[Rule], subject: Subject, allow: Mapping[Kind, float]) -> Verdict:
    """The verdict, but that no confirming rule passes on rows that are not what was asked, unless that is allowed."""
    if v.verdict != PASS or v.kind != "confirming":
        return v
    told = [caution for caution in subject.cautions if caution.kind != "failed"]
    if not any(map(_watches_failures, rules)):
        told += _failed(v, subject)
    about = [caution for caution in told if not within(caution, allow)]
    if not about:
        return v
    reason = f"no rule passes on such rows: {about[0].text} (`allow={about[0].kind}` accepts it)"
    return replace(v, verdict=INCONCLUSIVE, cause="barred", reason=reason)


def _failed(v: Verdict, subject: Subject) -> list[Caution]:
    """What failed, of the rows that a number is about: of a delta, the pairs that left because either run failed."""
    if not parse_rule(v.rule).delta:
        return [caution for caution in subject.cautions if caution.kind == "failed"]
    share = v.number.failed
    return [Caution("failed", f"{100 * share:.3g}% of the pairs failed in either run", share)] if share else []


def _watches_failures(rule: Rule) -> bool:
    """True for a rule that can fail where rows fail."""
    return _head(rule) == "failure_rate" and rule.relation.startswith("<") and _can_fail(rule)


def _can_fail(rule: Rule) -> bool:
    """False for a rule that every value meets, and for one that passes unless something is shown."""
    metric = rule_metric(rule)
    low, high = (None, None) if metric is None or rule.delta else metric.bounds
    end = low if rule.relation.startswith(">") else high
    return rule.kind != "permissive" and not (end is not None and rule.threshold == end and rule.relation[1:] == "=")


def _opposes(rule: Rule, better: str | None) -> bool:
    return (better == "higher" and rule.relation.startswith("<")) or (
        better == "lower" and rule.relation.startswith(">")
    )


def _verdict(rule: Rule, number: GateNumber, allowed: float) -> Verdict:
    interval = number.interval
    blank = Verdict(
        rule=str(rule), kind=rule.kind, verdict=FAIL, reason="", key=rule.key, number=number, threshold=rule.threshold
    )
    if number.value is None or math.isnan(number.value):
        return replace(blank, reason=number.problem or "undefined")
    barred = _barred(number, allowed)
    if barred:
        verdict = INCONCLUSIVE if rule.kind == "confirming" else FAIL
        cause: Cause = "barred" if barred_by(number.cautions) else "missing"
        return replace(blank, verdict=verdict, cause=cause, reason=f"no rule passes on it: {barred}")
    if rule.kind == "point" or number.because:
        by_value = _by_value(rule, number, number.value, blank)
        if by_value is not None:
            return by_value
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


def _by_value(rule: Rule, number: GateNumber, value: float, blank: Verdict) -> Verdict | None:
    """What needs no interval: a rule about the value, answers that are the same, a run of which no row is worse."""
    if number.because == "no_row_worse" and _allows_a_loss(rule):
        return replace(blank, verdict=PASS, reason=_not_seen(rule, number), because=number.because, p_value=1.0)
    met = _holds(value, rule.relation, rule.threshold)
    if number.because == "unchanged":
        reason = _not_seen(rule, number)
        return replace(blank, verdict=PASS if met else FAIL, reason=reason, because=number.because)
    if rule.kind != "point":
        return None
    missed = "" if met else f"{value:.4g} is {_MISSES[rule.relation]} {rule.threshold:g}; "
    return replace(blank, verdict=PASS if met else FAIL, reason=missed + _REMARKS["point"])


def _allows_a_loss(rule: Rule) -> bool:
    """True for a rule of no inferiority: that a run is not worse by more than a margin, which may be 0."""
    if rule.kind != "confirming":
        return False
    margin = -rule.threshold if rule.relation.startswith(">") else rule.threshold
    return margin > 0 or (margin == 0 and rule.relation.endswith("="))


def _not_seen(rule: Rule, number: GateNumber) -> str:
    """What was seen in every row, what could not have been, and the margin to hold that against."""
    same = "the answers are the same" if number.because == "unchanged" else "no row is worse"
    seen = f"{same} in all {counted(number.rows, 'row')}"
    if not number.unseen:
        return seen
    change, margin = "change" if number.because == "unchanged" else "loss", f"{abs(rule.threshold):g}"
    unseen = f"a {change} in up to {100 * number.unseen:.3g}% of the rows would not have been seen"
    return f"{seen}: {unseen}; the margin is {margin}"


def _barred(number: GateNumber, allowed: float) -> str:
    """Why no rule passes on a number, or nothing."""
    barred = barred_by(number.cautions)
    if not barred and number.absent > allowed + 1e-12:
        return f"the run lacks {100 * number.absent:.3g}% of the baseline's rows, and {100 * allowed:g}% may be missing"
    if not barred and number.missing > allowed + 1e-12:
        share = f"{100 * number.missing:.3g}% of the asked rows lack what it reads"
        return f"{share}, and {100 * allowed:g}% may"
    return barred


def _confirmed(rule: Rule, number: GateNumber, blank: Verdict, *, met: bool) -> Verdict:
    """A confirming rule: pass if the near end clears the threshold, fail if the far end misses it, else open."""
    assert number.interval is not None
    assert number.value is not None
    low, high = number.interval
    at_least = rule.relation.startswith(">")
    far = high if at_least else low
    missed = rule.threshold - number.value if at_least else number.value - rule.threshold
    shown = number.rule or shown_rule("t", number.value, number.interval, number.level, number.clusters)
    verdict = replace(blank, p_value=shown.alpha(rule.threshold) / 2 if missed > 0 else 1.0)
    if met:
        return replace(verdict, verdict=PASS, reason="the whole interval meets it")
    if math.isnan(low) or math.isnan(high):
        return replace(verdict, verdict=INCONCLUSIVE, cause="no interval", reason="no usable interval", p_value=None)
    if number.se:
        verdict = replace(verdict, detectable=detectable(number.se, number.clusters, number.level))
    verdict = replace(verdict, clusters_needed=_needed(rule, number))
    if not _holds(far, rule.relation, rule.threshold):
        return replace(verdict, verdict=FAIL, reason="shown to miss the threshold")
    if f"open {rule.bound}" in number.cautions:
        unknown = f"its {rule.bound} end is unknown"
        return replace(verdict, verdict=INCONCLUSIVE, cause="unknown end", reason=unknown, clusters_needed=None)
    reason = f"the interval contains the threshold{_seen(verdict)}"
    return replace(verdict, verdict=INCONCLUSIVE, cause="open", reason=reason)


def _needed(rule: Rule, number: GateNumber) -> int | None:
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


def _is_about(rule: Rule, name: str) -> bool:
    """True if a rule is about a metric, in whatever slice it is; or in this one, where the name has one."""
    expr = spelled(replace(rule, metric=parse(name)), ()).metric
    whole = spelled(rule, ()).metric
    return expr in (whole, replace(whole, slice=()))


def _corrected(judged: Sequence[Verdict], unit: str, primary: Sequence[str]) -> list[Verdict]:
    """The verdicts after correction: a confirming rule fails only if its Holm-adjusted p-value is at most α/2.

    Rules about what is primary are one family, the others another.
    """
    confirming = [i for i, v in enumerate(judged) if v.p_value is not None and _can_fail(parse_rule(v.rule))]
    roles = ["primary" if _decides(judged[i], primary) else "exploratory" for i in confirming]
    p_values = holm_within([float(judged[i].p_value or 0.0) for i in confirming], roles)
    adjusted, role_of = dict(zip(confirming, p_values, strict=True)), dict(zip(confirming, roles, strict=True))
    corrected = []
    for i, verdict in enumerate(judged):
        if i not in adjusted:
            corrected.append(verdict)
            continue
        known = replace(verdict, p_adjusted=adjusted[i])
        if verdict.verdict == FAIL and adjusted[i] > (1 - verdict.number.level) / 2 + 1e-12:
            family = roles.count(role_of[i])
            among = f" among {family} rules" if family > 1 else ""
            chance = f"misses the threshold, but{among} that may be chance (p {adjusted[i]:.3g})"
            open_ = replace(known, verdict=INCONCLUSIVE, reason=f"{chance}{_seen(known)}")
            known = replace(open_, advice=advice.of_chance(parse_rule(known.rule), open_, unit))
        corrected.append(known)
    return corrected


def _decides(verdict: Verdict, primary: Sequence[str]) -> bool:
    return not primary or any(_is_about(parse_rule(verdict.rule), name) for name in primary)


def _subject(given: Sequence[Comparison | Evaluation | Subject]) -> Subject:
    subject = Subject()
    for part in given:
        if isinstance(part, Subject):
            subject = part
        elif isinstance(part, Comparison):
            unit = advice.unit_of(part.cluster) if part.cluster else subject.unit
            subject = replace(subject, comparison=part, failure_rates=_failure_rates(part), unit=unit)
            subject = subject.told((*part.sources["new"], *part.sources["base"]), part.cautions, part.warnings)
        else:
            unit = advice.unit_of(part.cluster)
            subject = replace(subject, evaluation=tuple(part), resamples=part.settings.resamples, unit=unit)
            subject = subject.told(part.sources, part.cautions, part.warnings)
    return subject


def _failure_rates(comparison: Comparison) -> tuple[float, float] | None:
    known = all(comparison.population[side]["rows"] for side in ("base", "new"))
    return comparison.failure_rates if known else None


# -- what nobody asked about -------------------------------------------------------------------------------------------


def _unwatched_failures(rules: Sequence[Rule], subject: Subject) -> list[Verdict]:
    """Failures that rose without a rule about them: failed rows leave every quality metric, so they can hide a loss."""
    if subject.failure_rates is None or any(map(_watches_failures, rules)):
        return []
    base, new = subject.failure_rates
    if new - base <= FAILURE_MARGIN + 1e-9:
        return []
    reason = f"{100 * new:.1f}% of the rows failed, {100 * base:.1f}% before, and no rule is about failure_rate"
    return [
        Verdict(
            rule="failure_rate is watched",
            kind="point",
            verdict=FAIL,
            reason=reason,
            key="failure_rate",
            number=GateNumber(value=new),
            threshold=base + FAILURE_MARGIN,
        )
    ]


def _out_of_bounds(rule: Rule) -> str:
    """What to say of a threshold beyond the values that there are, which is a slip, such as 85 for 0.85; or nothing."""
    metric = rule_metric(rule)
    low, high = (None, None) if metric is None else metric.bounds
    if rule.delta:
        width = None if low is None or high is None else high - low
        low, high = (None, None) if width is None else (-width, width)
    what = "the difference" if rule.delta else printable(str(rule.metric))
    above, below = high is not None and rule.threshold > high, low is not None and rule.threshold < low
    strictly = high is not None and rule.relation == ">" and rule.threshold >= high
    strictly_below = low is not None and rule.relation == "<" and rule.threshold <= low
    if not (above or below or strictly or strictly_below):
        return ""
    end = f"at most {high:g}" if above or strictly else f"at least {low:g}"
    return f"'{printable(str(rule))}' is beyond what there is: {what} is {end}"


def _notes(rules: Sequence[Rule]) -> Iterator[str]:
    yield from filter(None, map(_out_of_bounds, rules))
    for rule in rules:
        told = [column for column in (*dict(rule.metric.slice), rule.each) if column in _RESULTS]
        if told:
            yield f"'{rule}' is about rows that were chosen by what the model did ({printable(told[0])})"
    selective = [str(rule) for rule in rules if _rewards_declining(rule_metric(rule) or documented_metric(rule))]
    if selective and not any(_head(rule) in _WATCHED and _can_fail(rule) for rule in rules):
        others = f" (and {len(selective) - 1} more)" if len(selective) > 1 else ""
        yield f"'{selective[0]}'{others} can be met by declining more; add a rule about answer_rate"


def _used_margins(judged: Sequence[Verdict]) -> list[str]:
    """What to say of several rules of which one passes because of its margin: its interval reaches beyond 0."""
    passed = [v for v in judged if v.verdict == PASS and v.kind == "confirming" and v.threshold]
    used = [v for v in passed if parse_rule(v.rule).delta and v.low is not None and v.high is not None]
    if len(judged) < 2 or not any(min(v.low or 0.0, 0.0) < 0 < (v.high or 0.0) or v.because for v in used):
        return []
    return [
        "margins add up if each accepted run becomes the next baseline; gate against a fixed run too "
        "(a pinned one, as pinned:NAME)"
    ]


def _head(rule: Rule) -> str:
    """The metric's own name, whatever alias a rule uses."""
    metric = rule_metric(rule)
    return rule.metric.head if metric is None else metric.definition.name


def _rewards_declining(metric: Metric | None) -> bool:
    """True if a model can better the number by answering less: what is wrong leaves with what is not answered."""
    if metric is None:
        return False
    own = metric.population == "answered" or metric.rewards_declining
    return own or _rewards_declining(metric.base)
