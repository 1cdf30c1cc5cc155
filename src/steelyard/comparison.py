"""compare(): two runs on the same questions → paired deltas, p-values and verdicts.

delta = new − base, never sign-flipped. Rows pair on (task, item, repeat, perturbation); cells pair on their columns
minus those that tell the runs apart. A row that failed on either side leaves both and is counted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from steelyard.errors import InputError, UsageError, printable
from steelyard.evaluation import (
    Asked,
    applies,
    checked_pool,
    class_warnings,
    expanded,
    joined,
    listed,
    pick,
    unmet_labels,
)
from steelyard.metrics.definition import Metric, metric_of
from steelyard.naming import slice_text
from steelyard.pairing import Pair, Unmatched, paired_slices
from steelyard.records.labels import value_name
from steelyard.records.schema import CELL, OUTCOMES
from steelyard.records.table import Records
from steelyard.uncertainty.estimate import Caution
from steelyard.uncertainty.groups import named as group_names
from steelyard.uncertainty.intervals import Interval, Rule, rare_clusters
from steelyard.uncertainty.kept import Kept, KeptPair
from steelyard.uncertainty.paired import Paired, paired
from steelyard.uncertainty.sampling import Progress, sample
from steelyard.uncertainty.scarcity import FEWEST_CLUSTERS
from steelyard.uncertainty.settings import Settings
from steelyard.uncertainty.significance import holm

AnyPair = Pair | KeptPair

UNEQUAL_RATES = 0.01
MOST_LOST = 0.2  # of the rows of kept runs, whose clusters left because other rows of them failed or lack values
UNCHANGED = ("say", "judge")
EARLIER = (
    "a run was kept by an earlier edition: whether the answers are the same, whether groups and labels to defer agree, "
    "and which rows lack values is not known"
)
TWINS = ("calibration_error2",)  # companions that stand in for a metric whose own delta is biased


@dataclass(frozen=True)
class Delta:
    """A paired difference: new − base on the same rows, with what stands beside it in `companions`."""

    metric: str
    slice: Mapping[str, Any]
    base: float | None
    new: float | None
    delta: float | None
    se: float | None
    interval: Interval | None
    p_value: float | None
    p_adjusted: float | None
    better: str | None
    verdict: str
    verdict_from: str  # delta, the name of the companion that decides, or nothing
    n: int  # pairs of rows
    n_base: int  # rows that count on each side
    n_new: int
    clusters: int
    method: str
    undefined_resamples: int
    note: str
    companions: Mapping[str, Any]
    clusters_scarcest: int | None = None
    cautions: tuple[Caution, ...] = ()
    unchanged: bool = False  # both runs gave the same answers
    n_asked: int = 0  # pairs whose outcomes count, and of these those that lack what the metric reads in either run
    n_missing: int = 0
    n_failed: int = 0  # pairs that left because either failed
    rule: Rule | None = field(default=None, compare=False, repr=False)  # the interval at other levels
    grown: Callable[[int], Rule] | None = field(default=None, compare=False, repr=False)  # with more clusters
    companion: Delta | None = field(default=None, compare=False, repr=False)  # the one that decides, where it does
    # the form that a gate reads and its name, where another metric gives the verdict
    gated: tuple[str, Delta] | None = field(default=None, compare=False, repr=False)

    @property
    def missing_share(self) -> float:
        """The share of the asked pairs that lack a value that the metric reads."""
        return self.n_missing / self.n_asked if self.n_asked else 0.0

    @property
    def decisive(self) -> Delta | None:
        """The delta that a verdict rests on: this one, its companion, or none."""
        if self.verdict_from == "nothing":
            return None
        return self.companion or self

    @property
    def readable(self) -> tuple[str, Delta] | None:
        """The delta of this very metric that gates and tables read, and what it is taken on; None where none can be."""
        if self.gated is not None:
            return self.gated
        decisive = self.decisive
        return None if decisive is None else (self.verdict_from, decisive)


@dataclass(frozen=True)
class Comparison:
    """All paired deltas of two runs. `result["aurc"]` picks one."""

    deltas: tuple[Delta, ...]
    settings: Settings
    population: Mapping[str, Any]
    cluster: tuple[str, ...]
    sources: Mapping[str, tuple[Any, ...]]
    unmatched: Mapping[str, Any]
    warnings: tuple[str, ...]

    def __getitem__(self, name: Asked) -> Delta:
        return pick(self.deltas, name)

    def __iter__(self) -> Iterator[Delta]:
        return iter(self.deltas)

    def __len__(self) -> int:
        return len(self.deltas)


def compare(
    base: Records,
    new: Records,
    metrics: Sequence[Asked] | Asked,
    *,
    align: str = "strict",
    by: Sequence[str] | str = (),
    pool: Sequence[str] | str = (),
    versus: Sequence[str] = (),
    resamples: int = 10_000,
    seed: int = 42,
    level: float = 0.95,
    method: str = "auto",
    stream: str = "counter",
    unchanged: str = "say",
    progress: Progress | None = None,
) -> Comparison:
    """Paired deltas of every metric, cell by cell. `versus` names columns that tell the two runs apart.

    Runs that gave the same answers are said to be `unchanged`; `unchanged="judge"` judges them as any others.
    """
    if unchanged not in UNCHANGED:
        raise UsageError(f"unchanged is one of {', '.join(UNCHANGED)}")
    if align not in ("strict", "intersection"):
        raise UsageError("align is strict or intersection")
    settings = Settings(resamples, seed, level, method, stream)
    asked = [metric_of(m) for m in listed(metrics)]
    for metric in asked:
        if metric.definition.no_delta:
            raise UsageError(f"{metric} cannot be compared: {metric.definition.no_delta}")
    base, new = joined(base, asked), joined(new, asked)
    unmatched = Unmatched()
    pooled = checked_pool(listed(pool))
    parts = list(paired_slices(base, new, by=listed(by), pool=pooled, versus=versus, align=align, unmatched=unmatched))
    deltas: list[Delta] = []
    for done, (slice_, pair) in enumerate(parts):
        both = dict.fromkeys(m for table in pair.tables for m in expanded(asked, table))
        chosen = [m for m in both if applies(m, pair.base, len(parts), slice_)]
        deltas += _deltas(pair, chosen, settings, slice_, unchanged)
        if progress is not None:
            progress((done + 1) / len(parts))
    cells = [pair for slice_, pair in parts if set(slice_) <= set(CELL)]
    return Comparison(
        tuple(judged(deltas, settings)),
        settings,
        {"base": _population(base), "new": _population(new), "paired": sum(map(len, cells))},
        base.cluster_columns,
        {"base": base.sources, "new": new.sources},
        asdict(unmatched),
        tuple(dict.fromkeys((*base.warnings, *new.warnings, *_warnings(base, asked), *_warnings(new, asked)))),
    )


def _warnings(records: Records, asked: Sequence[Metric]) -> list[str]:
    return [*unmet_labels(records), *class_warnings(records, asked)]


def compare_kept(
    base: Sequence[Kept],
    new: Sequence[Kept],
    metrics: Sequence[Asked],
    *,
    resamples: int = 10_000,
    seed: int = 42,
    level: float = 0.95,
    unchanged: str = "say",
) -> Comparison:
    """Paired deltas of two runs from the evidence they kept.

    Slices pair on their columns, without model and strategy where each run has one value of them. A cell that only one
    run has is an error; another slice is left out. What needs single rows is left without a verdict.
    """
    settings = Settings(resamples, seed, level)
    asked = [metric_of(m) for m in listed(metrics)]
    dropped = [c for c in ("model", "strategy") if all(_values(kept, c) <= 1 for kept in (base, new))]
    mine, theirs = (_by_slice(kept, dropped) for kept in (base, new))
    lonely = [key for key in (*mine, *theirs) if (key in mine) != (key in theirs) and {c for c, _ in key} <= set(CELL)]
    if lonely:
        shown = ", ".join(slice_text(dict(key)) or "the whole table" for key in lonely[:5])
        raise InputError(f"{len(lonely)} cells were evaluated in one run only: {printable(shown)}")
    pairs = {key: KeptPair(part, theirs[key]) for key, part in mine.items() if key in theirs}
    deltas: list[Delta] = []
    for key, pair in pairs.items():
        slice_ = {k: v for k, v in mine[key].slice.items() if k not in dropped}
        chosen = [
            m
            for m in asked
            if not m.definition.no_delta
            and not _elsewhere(m, pair, pairs.values())
            and m.values.get("by") not in slice_
        ]
        deltas += _deltas(pair, chosen, settings, slice_, unchanged)
    return Comparison(
        tuple(judged(deltas, settings)),
        settings,
        {side: kept_population(kept) for side, kept in (("base", base), ("new", new))},
        (),
        {"base": (), "new": ()},
        {"cells": [], "base_rows": 0, "new_rows": 0},
        (),
    )


def _elsewhere(metric: Metric, pair: KeptPair, pairs: Iterable[KeptPair]) -> bool:
    """True where neither run kept the metric in this slice, but both did in another: it says nothing of this one."""
    if any(side.has(metric) for side in pair.collectors):
        return False
    return any(all(side.has(metric) for side in other.collectors) for other in pairs)


def _values(kept: Sequence[Kept], column: str) -> int:
    return len({value_name(k.slice[column]) for k in kept if column in k.slice})


def _by_slice(kept: Sequence[Kept], dropped: Sequence[str]) -> dict[tuple[tuple[str, str], ...], Kept]:
    found: dict[tuple[tuple[str, str], ...], Kept] = {}
    for part in kept:
        key = tuple(sorted((c, value_name(v)) for c, v in part.slice.items() if c not in dropped))
        if key in found:
            raise InputError(f"one run holds several parts for {slice_text(dict(key)) or 'the whole table'}")
        found[key] = part
    return found


def kept_population(kept: Sequence[Kept]) -> dict[str, int]:
    """The rows of a run by outcome, each counted once: cells do not overlap, other slices do."""
    cells = [k for k in kept if set(k.slice) <= set(CELL)]
    counts = {outcome: sum(k.counts[outcome] for k in cells) for outcome in OUTCOMES}
    return {"rows": sum(counts.values()), **counts, "clusters": len({i for k in cells for i in k.ids})}


# -- the deltas of one slice -------------------------------------------------------------------------------------------


def _deltas(
    pair: AnyPair, metrics: Sequence[Metric], settings: Settings, slice_: Mapping[str, Any], unchanged: str
) -> list[Delta]:
    """Every metric's delta on one pair of tables, or of what two runs kept."""
    for metric in metrics:
        pair.checked(metric)
    measure = _Measured(settings, slice_)
    countable = {metric: _rows_for(metric, pair).countable(metric) for metric in metrics}
    for inner in dict.fromkeys(part for part, _ in countable.values()):
        measure.take(inner, [m for m in metrics if countable[m][0] is inner])
    found = []
    for metric in metrics:
        inner, missing = countable[metric]
        delta = _counted(_with_companions(pair, inner, metric, measure), pair, metric)
        if missing is not None:
            counts = {"base": missing.base, "new": missing.new, "rows": missing.rows}
            delta = _beside(delta, str(missing), missing=counts)
            if missing.unequal:
                note = "the runs lack values in different shares of their rows: no verdict, and no rule passes"
                delta = _cautioned(_beside(delta, note), "unequal missing")
        if isinstance(pair, KeptPair) and isinstance(inner, KeptPair):
            delta = _on_what_is_left(delta, pair, inner)
        gone = pair.lost_groups(metric, inner)
        if gone:
            note = f"{group_names(gone)} left out: every row of it left both runs"
            delta = _cautioned(_beside(delta, note), "missing group")
        if unchanged == "say" and pair.unchanged(metric):
            delta = _unchanged(delta, measure.of(inner, metric), settings.level, len(pair))
        if not pair.knows_columns:
            delta = _beside(delta, EARLIER)
        found.append(delta)
    return found


def _counted(found: Delta, pair: AnyPair, metric: Metric) -> Delta:
    """The delta with how many pairs were asked, lack what the metric reads, and failed."""
    rows = _rows_for(metric, pair)
    whole = len(pair) if isinstance(pair, Pair) else sum(pair.base.counts.values())
    failed = 0 if metric.population == "all" else whole - len(rows)
    return replace(found, n_asked=len(rows), n_missing=rows.lacking(metric), n_failed=failed)


def _rows_for(metric: Metric, pair: AnyPair) -> Any:
    """The rows that a metric is compared on: a failed row leaves both sides, unless failures are what is counted."""
    return pair if metric.population == "all" else pair.without_failed


def _with_companions(pair: AnyPair, inner: AnyPair, metric: Metric, measure: _Measured) -> Delta:
    """The delta, with the forms of it that stand beside it, and which of them decides."""
    found = measure.delta(inner, metric)
    rows = _rows_for(metric, pair)
    if isinstance(pair, Pair) and len(pair) > len(rows):
        rates = dict(zip(("base", "new"), pair.failure_rates, strict=True))
        found = _beside(found, f"{len(pair) - len(rows)} rows failed on either side and left both", failure_rate=rates)
        if metric.population == "asked":
            strict, _ = pair.failed_as_wrong.countable(metric)
            found = _beside(found, failed_as_wrong=_short(measure.delta(strict, metric)))
    if isinstance(pair, KeptPair) and len(rows.base.ids) < len(pair.base.ids):
        rates = dict(zip(("base", "new"), pair.failure_rates, strict=True))
        lost = len(pair.base.ids) - len(rows.base.ids)
        note = f"{lost} clusters in which other rows failed left both (with their records only those rows would)"
        found = _beside(found, note, failure_rate=rates)
    decides: AnyPair = inner
    if metric.population == "answered":
        found, decides = _with_rates(found, inner, metric, measure)
    if metric.definition.common_coverage is not None and len(inner):
        found = _with_common_coverage(found, inner, metric, measure)
    if metric.definition.twin and found.verdict_from != "nothing":
        own = found.readable
        found = _decided_by(found, metric.definition.twin, measure.delta(decides, _twin(metric)))
        found = replace(found, gated=own)
        found = _beside(found, f"judged by {metric.definition.twin}, which noise does not make larger")
    return found


def _twin(metric: Metric) -> Metric:
    """The metric that a delta takes its verdict from, with the same options."""
    definition = metric_of(metric.definition.twin).definition
    known = {p.name for p in definition.params}
    return definition(**{name: value for name, value in metric.options if name in known})


def _with_rates(found: Delta, pair: AnyPair, metric: Metric, measure: _Measured) -> tuple[Delta, AnyPair]:
    """Answered-only metrics: both answer rates, and the delta on rows answered by both."""
    rates = pair.rates
    found = _beside(found, answer_rate={"base": rates[0], "new": rates[1]})
    if pair.same_answered:
        return found, pair
    unequal = abs(rates[0] - rates[1]) > UNEQUAL_RATES
    if isinstance(pair, KeptPair):
        if not unequal:
            return found, pair
        note = "answer rates differ: a verdict needs the rows answered by both, so keep the records of both runs"
        return replace(_beside(found, note), verdict_from="nothing"), pair
    if not len(pair.answered_by_both):
        return replace(_beside(found, "no row was answered by both: no verdict"), verdict_from="nothing"), pair
    both = measure.delta(pair.answered_by_both, metric)
    if not unequal:
        return _beside(found, answered_by_both=_short(both)), pair
    note = "answer rates differ: the verdict is from rows answered by both"
    return _decided_by(_beside(found, note), "answered_by_both", both), pair.answered_by_both


def _with_common_coverage(found: Delta, pair: AnyPair, metric: Metric, measure: _Measured) -> Delta:
    """Areas of runs with unequal cmax: the verdict uses the area up to the common cmax, where there is such a form."""
    rates = pair.rates
    found = _beside(found, cmax={"base": rates[0], "new": rates[1]})
    common = min(rates)
    if rates[0] == rates[1] or common == 0 or metric.values.get("c", 1.0) <= common:
        return found
    if not metric.is_area:
        note = f"cmax differs: {metric} rewards declining, so there is no verdict (aurc has one)"
        return replace(_beside(found, note), verdict_from="nothing")
    options = {k: v for k, v in metric.values.items() if k not in ("ties", "c")}  # the areas up to c know no ties
    area = metric_of(str(metric.definition.common_coverage)).definition(**options, c=common)
    shared = measure.delta(pair, area)
    found = _decided_by(found, "common_cmax", shared)
    short = {"c": common, **found.companions["common_cmax"]}
    return _beside(found, "cmax differs: the verdict is from the area up to the common cmax", common_cmax=short)


def _decided_by(found: Delta, name: str, companion: Delta) -> Delta:
    """The delta with a companion that decides in its place."""
    beside = {**found.companions, name: _short(companion)}
    return replace(found, companions=beside, verdict_from=name, companion=companion)


def _beside(found: Delta, note: str = "", **companions: Any) -> Delta:
    """The delta with a further note and further companions."""
    return replace(found, note=_also(found.note, note), companions={**found.companions, **companions})


def _cautioned(found: Delta, caution: Caution) -> Delta:
    return replace(found, cautions=tuple(dict.fromkeys((*found.cautions, caution))))


def _on_what_is_left(found: Delta, pair: KeptPair, inner: KeptPair) -> Delta:
    """The delta of kept runs with how many clusters it still stands on; too few to speak for the others bar it."""
    whole, left = len(pair.base.ids), len(inner.base.ids)
    if left == whole:
        return found
    found = _beside(found, clusters_left={"left": left, "of": whole})
    if pair.lost(inner) <= MOST_LOST:
        return found
    note = "more than a fifth of what was asked left with those clusters: a verdict needs the records of both runs"
    return _cautioned(_beside(found, note), "lost clusters")


def _unchanged(found: Delta, sides: Paired, level: float, rows: int) -> Delta:
    """The delta of runs that gave the same answers, where there are clusters enough to say so."""
    if found.delta is None or sides.clusters < FEWEST_CLUSTERS:
        return found
    limits = sides.base.limits
    unseen = rare_clusters(0, sides.clusters, level) * (limits[1] - limits[0] if limits else math.nan)
    note = f"the answers are the same in all {rows} rows"
    if not math.isnan(unseen):
        note += f"; a rarer change of up to {unseen:.3g} could not have been seen"
    return replace(_beside(found, note, unchanged={"rows": rows}), unchanged=True)


# -- one delta -----------------------------------------------------------------------------------------------------


class _Measured:
    """Deltas of metrics on pairs, each measured once. What is taken together shares what it reads of each resample."""

    def __init__(self, settings: Settings, slice_: Mapping[str, Any]) -> None:
        self.settings, self.slice = settings, slice_
        self._found: dict[tuple[AnyPair, Metric], Paired] = {}

    def take(self, pair: AnyPair, metrics: Sequence[Metric]) -> None:
        """Measure these metrics on a pair."""
        sides = []
        for metric in metrics:
            collectors: Sequence[Any] = pair.collectors
            own = zip(collectors, pair.constants(metric), strict=True)
            base, new = (sample(metric, collector, constants) for collector, constants in own)
            sides.append((base, new))
        for metric, found in zip(metrics, paired(sides, self.settings), strict=True):
            self._found[pair, metric] = found

    def of(self, pair: AnyPair, metric: Metric) -> Paired:
        if (pair, metric) not in self._found:
            self.take(pair, [metric])
        return self._found[pair, metric]

    def delta(self, pair: AnyPair, metric: Metric) -> Delta:
        """The delta itself: values, interval and p-value; its verdict comes later, with the others'."""
        found = self.of(pair, metric)
        notes = list(found.notes)
        if metric.definition.name == "aurc" and not math.isnan(found.delta):
            notes += _plateaus(found)
        return Delta(
            metric.name,
            dict(self.slice),
            _or_none(found.base.value),
            _or_none(found.new.value),
            _or_none(found.delta),
            _or_none(found.se),
            found.interval(self.settings.level),
            _or_none(found.p_value),
            None,
            found.base.constants.get("better") or metric.better,
            "inconclusive",
            "delta",
            len(pair),
            int(found.base.evidence.rows.sum()),
            int(found.new.evidence.rows.sum()),
            found.clusters,
            "none" if found.rule is None else found.rule.method,
            found.undefined,
            "; ".join(notes),
            {},
            found.parts.fewest,
            found.cautions,
            rule=found.rule,
            grown=found.grown,
        )


def _plateaus(found: Paired) -> list[str]:
    points = [s.evidence.points for s in (found.base, found.new)]
    coarse = [s.evidence.points / max(len(s.evidence.score), 1) for s in (found.base, found.new)]
    if min(coarse) >= 0.9 * max(coarse):
        return []
    return [f"{points[0]} and {points[1]} plateaus: AURC favours the coarser, see aurc(ties=exact)"]


# -- verdicts ------------------------------------------------------------------------------------------------------


def judged(deltas: Sequence[Delta], settings: Settings) -> Iterator[Delta]:
    """Verdicts: the interval excludes 0 and the p-value, Holm-adjusted over all comparisons, is at most α."""
    deciding = [d.decisive for d in deltas]
    adjusted = holm([math.nan if d is None or d.p_value is None else d.p_value for d in deciding])
    for d, p in zip(deltas, adjusted, strict=True):
        verdict = verdict_of(d, p, settings.level)
        aimless = _direction(d.metric) if verdict == "differs" else ""
        found = replace(d, verdict=verdict, p_adjusted=_or_none(p), note=_also(d.note, aimless))
        alone = math.nan if d.companion is None or d.companion.p_value is None else d.companion.p_value
        worse = d.verdict_from in TWINS and verdict_of(d, alone, settings.level) == "worse"
        yield _cautioned(found, "twin worse") if worse else found


def verdict_of(d: Delta, p: float, level: float) -> str:
    """better, worse or differs if the difference is more than chance at this adjusted p-value; else what is known."""
    if d.unchanged:
        return "unchanged"
    decisive = d.decisive
    if decisive is None or decisive.delta is None or not _is_sure(d, decisive, p, level):
        return "inconclusive"
    if d.better is None:
        return "differs"
    return "better" if (decisive.delta > 0) == (d.better == "higher") else "worse"


def _is_sure(d: Delta, decisive: Delta, p: float, level: float) -> bool:
    """True if the difference is more than chance, on clusters enough for the test to say so."""
    alpha, cautions = 1 - level, {*d.cautions, *decisive.cautions}
    if math.isnan(p) or p > alpha or decisive.clusters < FEWEST_CLUSTERS or 2.0 ** (1 - decisive.clusters) > alpha:
        return False
    if cautions & {"scarce", "unequal missing", "missing group", "lost clusters"}:
        return False
    if decisive.interval is None:
        return "constant" in cautions
    return decisive.interval[0] > 0 or decisive.interval[1] < 0


def _direction(metric: str) -> str:
    """How to say which direction is better."""
    definition = metric_of(metric).definition
    if any(p.name == "better" for p in definition.params):
        return f"neither direction is better by itself: say which, such as {definition.name}(…, better=higher)"
    return "neither direction is better by itself: a gate's rule says which is wanted"


def _short(d: Delta) -> dict[str, Any]:
    names = (
        "base",
        "new",
        "delta",
        "se",
        "interval",
        "p_value",
        "n",
        "clusters",
        "clusters_scarcest",
        "method",
        "note",
    )
    return {name: getattr(d, name) for name in names}


def _population(records: Records) -> dict[str, int]:
    return {"rows": len(records), **records.counts(), "clusters": len(records.cluster[0])}


def _also(note: str, more: str) -> str:
    return "; ".join(text for text in (note, more) if text)


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
