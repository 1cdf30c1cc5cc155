"""The numbers that a rule is about: estimates and deltas slice by slice, and keys that other tools wrote.

A name that nobody knows is an error; a number that is not there although its name is known has no value and says why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

from steelyard.decide.known import KnownNames
from steelyard.decide.profiles import EVALUATORS
from steelyard.errors import UsageError, counted, printable
from steelyard.metrics import metrics as registry
from steelyard.metrics.definition import Better, Metric, bound, known_metric, single
from steelyard.naming import Rule, parse, slice_text, split_slice
from steelyard.records.cautions import Caution, each_once
from steelyard.records.labels import value_name
from steelyard.records.schema import CELL
from steelyard.records.table import Source
from steelyard.runs.documented import made_from, meant_by
from steelyard.runs.keys import same_but_case
from steelyard.study.results import Comparison
from steelyard.study.wire import documented_names, flat_key
from steelyard.uncertainty.groups import named as group_names
from steelyard.uncertainty.intervals import Rule as IntervalRule
from steelyard.uncertainty.intervals import shown_rule
from steelyard.uncertainty.number import Delta, Estimate, Number

Because = Literal["", "unchanged", "no_row_worse"]
_STANDS_FOR = {"common_cmax": "up to the common cmax", "answered_by_both": "on rows answered by both"}
_FROM_VALUES = "from values alone; not known to be the same questions"


@dataclass(frozen=True, kw_only=True)
class GateNumber(Number):
    """What a rule is about, in one slice: its interval is there only where a rule may read it."""

    slice: Mapping[str, Any] = field(default_factory=dict)
    problem: str = ""  # why there is no value, or no usable interval
    stands_for: str = ""  # what the number is taken on, where that is not the plain delta
    would_add: tuple[str, ...] = ()  # a metric that was not kept, and the columns to slice it by, that would add it
    because: Because = ""  # why a rule may pass that its interval does not meet
    unseen: float = 0.0  # then: the share of the rows that a change nobody saw may lie in
    rows: int = 0  # and of how many
    left_out: Mapping[str, int] = field(default_factory=dict)
    missing: float = 0.0  # the share of the asked rows that lack what the metric reads
    failed: float = 0.0  # the share of the pairs that left because either run failed
    absent: float = 0.0  # the share of the baseline's rows whose questions were not asked
    grown: Callable[[int], IntervalRule] | None = (
        None  # the interval if there were more clusters, none of which differed
    )


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What a gate looks at: a run's numbers, its deltas against a baseline, and keys that other tools wrote."""

    evaluation: Sequence[Estimate] = ()
    comparison: Comparison | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    complete: bool = True
    in_part: bool = False  # whether its rows are a part of what was to be run
    cautions: tuple[Caution, ...] = ()  # what keeps a rule from believing them
    failure_rates: tuple[float, float] | None = None  # of the baseline and of the run
    resamples: int = 10_000
    baseline: bool = False  # whether there is one, comparable or not
    baseline_metrics: Mapping[str, float] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()  # what must be said together with any verdict
    known: KnownNames = field(default_factory=KnownNames)  # what either run knows by name, where that can be told
    absent: float = 0.0  # the share of the baseline's rows whose questions the run was not asked
    unit: str = "cluster"  # what a cluster is called

    def told(self, sources: Iterable[Source], cautions: Iterable[Caution], warnings: Iterable[str]) -> Subject:
        """The same with all that is said of its rows; where a file is not whole, they are a part."""
        parts, known = [source for source in sources if not source.is_whole], (*self.remarks, *warnings)
        lacking = [f"{printable(s.name)}: {s.lacking}" for s in parts if not any(s.lacking in text for text in known)]
        said = (*self.remarks, *lacking, *warnings)
        return replace(
            self,
            in_part=self.in_part or bool(parts),
            cautions=each_once((*self.cautions, *cautions)),
            remarks=tuple(dict.fromkeys(said)),
        )


def numbers_of(rule: Rule, subject: Subject) -> list[GateNumber]:
    """What a rule is about: one number, or one per slice that it goes through."""
    return [_among(number, rule, subject) for number in _numbers(rule, subject)]


def _among(number: GateNumber, rule: Rule, subject: Subject) -> GateNumber:
    """The number with what it lacks next to the baseline: questions that were not asked, groups that are not there."""
    metric = rule_metric(rule)
    lost = [] if metric is None else subject.known.lost_groups(metric)
    if lost:
        note = f"{group_names(lost)} left out: the baseline has rows of it, the run has none"
        number = replace(number.cautioned("missing group"), notes=(*number.notes, note))
    return replace(number, absent=subject.absent) if subject.absent else number


def _numbers(rule: Rule, subject: Subject) -> list[GateNumber]:
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
    candidates: Sequence[Estimate | Delta]
    if rule.delta:
        deltas = () if subject.comparison is None else subject.comparison.deltas
        candidates = [d for d in deltas if d.metric == name]
    else:
        candidates = [e for e in subject.evaluation if e.metric == name]
    matching = _matching(rule, candidates)
    if not matching:
        return [_from_values(rule, name, subject) or _absent(rule, name, subject)]
    numbers = [_of_delta(d, subject) if isinstance(d, Delta) else _of_estimate(d, subject) for d in matching]
    lost = subject.known.lost(rule.each, [value_name(e.slice.get(rule.each)) for e in matching]) if rule.each else []
    return numbers + [
        GateNumber(
            value=None, slice={rule.each: value}, problem=f"{subject.known.run_text} has no row of it, the baseline has"
        )
        for value in lost
        if rule.each
    ]


def _named(rule: Rule, subject: Subject) -> str | None:
    """The metric's name; None for a key that is no metric's, but documented or one of the runs'; else an error."""
    metric = rule_metric(rule)
    if metric is not None:
        return single(metric).name
    known = [*subject.metrics, *subject.baseline_metrics]
    if rule.metric.head in EVALUATORS or same_but_case(str(rule.metric), known):
        return None
    raise UsageError(subject.known.unknown(rule, [*subject.metrics, *subject.baseline_metrics]))


def _no_metric(rule: Rule, subject: Subject) -> GateNumber:
    """A key of a run that is no metric's: it has a value at most, and no interval."""
    written = printable(str(rule.metric))
    what = f"no evidence of {written}, only a value" if rule.bound or rule.delta else f"no {written}"
    return GateNumber(value=None, problem=f"{subject.known.run_text} has {what}")


def _from_values(rule: Rule, name: str, subject: Subject) -> GateNumber | None:
    """The delta of a point rule, which needs no evidence: from the two values, where both runs have them."""
    if not rule.delta or rule.bound or rule.each:
        return None
    both = [_value(metrics, rule, name) for metrics in (subject.baseline_metrics, subject.metrics)]
    if both[0] is None or both[1] is None:
        return None
    key = flat_key(name, dict(rule.metric.slice))
    own = next((_of_estimate(e, subject) for e in subject.evaluation if flat_key(e.metric, e.slice) == key), None)
    own = own or _standing_on(str(rule.metric), subject)
    return replace(
        _without_interval(own), value=both[1] - both[0], slice=dict(rule.metric.slice), better=_better(name),
        stands_for=_FROM_VALUES,
    )  # fmt: skip


def _value(metrics: Mapping[str, float], rule: Rule, name: str) -> float | None:
    slice_ = dict(rule.metric.slice)
    keys = dict.fromkeys((str(rule.metric), flat_key(name, slice_), *(flat_key(k, slice_) for k in _other(name))))
    return next((metrics[own] for key in keys if (own := same_but_case(key, metrics)) is not None), None)


def _other(name: str) -> list[str]:
    """The documented keys that mean a metric."""
    return [key for key, metric in documented_names().items() if metric == name]


def _absent(rule: Rule, name: str, subject: Subject) -> GateNumber:
    """A number that is not there although its name is known: which run lacks it, and what would add it."""
    where = ""
    if rule.each:
        where = f" for each {rule.each}"
    elif rule.metric.slice:
        where = f" in {slice_text(dict(rule.metric.slice))}"
    columns = [c for c in ((rule.each,) if rule.each else dict(rule.metric.slice)) if c and c not in (*CELL, "cell")]
    problem = subject.known.strangers(dict(rule.metric.slice)) or subject.known.absent(name, where, delta=rule.delta)
    if not rule.delta and subject.comparison is not None and not subject.evaluation and not subject.baseline:
        problem = (
            f"a comparison has deltas, and no {name} of the run itself; check it together with an evaluation of the "
            f"run, or write the rule about delta({name})"
        )
    return GateNumber(
        value=None,
        slice=dict(rule.metric.slice),
        problem=problem,
        would_add=(name, *columns) if subject.known.kept else (),
    )


def _literal(rule: Rule, subject: Subject) -> GateNumber | None:
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


def _standing_on(key: str, subject: Subject) -> GateNumber:
    """What a number without an estimate of its own stands on: that of the metric it was made from, without interval."""
    name, slice_ = split_slice(key)
    sources = [
        e
        for e in subject.evaluation
        if slice_names(e.slice) == slice_
        and (metric := known_metric(e.metric)) is not None
        and metric.definition.name in made_from(name)
    ]
    if not sources:
        return GateNumber(value=None)
    sparsest = max((_of_estimate(e, subject) for e in sources), key=lambda number: number.missing)
    return _without_interval(sparsest)


def _without_interval(number: GateNumber) -> GateNumber:
    """What a number stands on, without its value and how sure that is."""
    return GateNumber(
        value=None, slice=number.slice, clusters=number.clusters, level=number.level, n=number.n,
        left_out=number.left_out, missing=number.missing, notes=number.notes, cautions=number.cautions,
    )  # fmt: skip


def _better(key: str) -> Better | None:
    """The direction of a key that is a metric's name; of another tool's key, none is known."""
    try:
        return bound(replace(parse(key), slice=())).better
    except UsageError:
        return None


def spelled(rule: Rule, keys: Sequence[str]) -> Rule:
    """The rule with its name as the runs or the registry spell it, where only the case differs."""
    if rule_metric(rule) is not None:
        return rule
    written = str(rule.metric)
    head = same_but_case(rule.metric.head, registry)
    for meant in (same_but_case(written, keys), head and head + written.removeprefix(rule.metric.head)):
        try:
            candidate = rule if not meant else replace(rule, metric=parse(meant))
        except UsageError:
            continue
        if rule_metric(candidate) is not None:
            return candidate
    return rule


def rule_metric(rule: Rule) -> Metric | None:
    """The metric that a rule is about; None where the registry does not know it."""
    try:
        return bound(replace(rule.metric, slice=()))
    except UsageError:
        return None


def documented_metric(rule: Rule) -> Metric | None:
    """The metric that a documented key means, where a rule is about one."""
    try:
        return bound(replace(parse(meant_by(rule.key)), slice=()))
    except UsageError:
        return None


def metric_name(rule: Rule) -> str | None:
    """The metric's canonical name; None where the rule is about a key that is no metric's."""
    metric = rule_metric(rule)
    return None if metric is None else single(metric).name


def slice_names(slice_: Mapping[str, Any]) -> dict[str, str]:
    """A slice with its values as texts."""
    return {column: value_name(value) for column, value in slice_.items()}


def _matching(rule: Rule, candidates: Sequence[Any]) -> list[Any]:
    """The candidates whose slices a rule is about."""
    if rule.each == "cell":
        return [e for e in candidates if set(e.slice) <= set(CELL)]
    if rule.each:
        return [e for e in candidates if rule.each in e.slice and set(e.slice) - {rule.each} <= set(CELL)]
    wanted = dict(rule.metric.slice)
    if wanted:
        return [e for e in candidates if slice_names(e.slice) == wanted]
    whole = [e for e in candidates if not e.slice] or list(candidates)
    if len(whole) > 1:
        shown = ", ".join(slice_text(slice_names(e.slice)) for e in whole[:6])
        raise UsageError(
            f"'{rule}' matches several slices ({shown}); pick one with {{…}}, or write 'for each cell'{_pooling(whole)}"
        )
    return whole


def _pooling(candidates: Sequence[Any]) -> str:
    columns = dict.fromkeys(column for e in candidates for column in e.slice)
    return f", or pool them with `pool={','.join(columns)}`" if set(columns) <= set(CELL) else ""


def _of_estimate(e: Estimate, subject: Subject) -> GateNumber:
    usable = _as_usable(e, subject.resamples, subject.unit)
    rule = e.rule
    if rule is None and usable.interval is not None and e.value is not None:
        rule = shown_rule(e.method, e.value, usable.interval, e.level, e.clusters)
    return replace(
        usable,
        slice=dict(e.slice),
        problem=usable.problem or e.note,
        rule=rule,
        left_out=e.excluded,
        missing=e.missing_share,
    )


def _of_delta(d: Delta, subject: Subject) -> GateNumber:
    """The delta of this metric that may be read: on rows answered by both, or up to the coverage that both reach.

    A metric whose verdict comes from another one is gated by its own delta, and barred where the other is worse.
    """
    assert subject.comparison is not None
    about: dict[str, Any] = {"slice": dict(d.slice), "left_out": _left_out(d), "better": d.better, "notes": d.notes}
    failed = subject.comparison.failed_share(d)
    if d.unchanged:
        return GateNumber(
            value=0.0, interval=(0.0, 0.0), clusters=d.clusters, level=d.level, cautions=d.cautions,
            n=d.n, missing=d.missing_share, failed=failed, because="unchanged", **_seen(d, "unchanged"), **about,
        )  # fmt: skip
    readable = d.readable
    if readable is None:
        return GateNumber(value=None, problem=d.note or "the runs cannot be compared by it", n=d.n, **about)
    cautions = tuple(dict.fromkeys((*d.cautions, *readable.cautions)))
    resamples = subject.comparison.settings.resamples
    usable = _as_usable(replace(readable, cautions=cautions, notes=d.notes), resamples, subject.unit)
    return replace(
        usable,
        problem=usable.problem or readable.note,
        stands_for=", ".join(part for part in (_STANDS_FOR.get(d.read_from, ""), _left(d)) if part),
        grown=readable.grown,
        n=min(readable.n_base, readable.n_new),
        missing=d.missing_share,
        failed=failed,
        because="no_row_worse" if "no_row_worse" in d.companions else "",
        **_seen(d, "no_row_worse"),
        **about,
    )


def _seen(d: Delta, what: str) -> dict[str, Any]:
    """On how many rows that was seen, and in which share a change would not have been; earlier runs state no share."""
    stated = d.companions.get(what, {})
    return {"rows": stated.get("rows", 0), "unseen": stated.get("unseen", 0.0)}


def _as_usable(number: Number, resamples: int, unit: str) -> GateNumber:
    """The number, with its interval if a rule may read it and else with the reason."""
    problem = number.unusable(resamples, counted(number.clusters, unit))
    known = {f.name: getattr(number, f.name) for f in fields(Number)}
    return GateNumber(**{**known, "interval": None if problem else number.interval}, problem=problem)


def _left_out(d: Delta) -> dict[str, int]:
    """The pairs that a delta was not taken over, by reason."""
    failed = "left with clusters in which others failed" if "clusters_left" in d.companions else "failed in either run"
    counts = {
        failed: d.n_failed,
        "lacking what it reads": d.n_missing,
        "left with clusters in which others lack it": d.n_asked - d.n_missing - d.n,
    }
    if d.readable is not None:
        counts["not answered by both"] = d.n - d.readable.n if d.read_from == "answered_by_both" else 0
        counts["outside its denominator"] = d.readable.n - min(d.readable.n_base, d.readable.n_new)
    return {reason: count for reason, count in counts.items() if count > 0}


def _left(d: Delta) -> str:
    """How many clusters a delta of kept runs still stands on, where some left."""
    left = d.companions.get("clusters_left")
    return f"on {left['left']} of {left['of']} clusters" if left else ""
