"""compare(): two runs on the same questions → paired deltas, p-values and verdicts.

delta = new − base, never sign-flipped. Rows pair on (task, item, repeat, perturbation); cells pair on their columns
minus those that tell the runs apart. A row that failed on either side leaves both and is counted. Runs that kept only
their evidence pair slice by slice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal, Unpack, cast, get_args

from steelyard.errors import InputError, UsageError, counted, printable
from steelyard.ground.arrays import Progress
from steelyard.metrics.definition import Metric, MetricLike, metric_of
from steelyard.naming import Expr, slice_text
from steelyard.records.cautions import of_pairs
from steelyard.records.labels import value_name
from steelyard.records.readers import Readable, records_in
from steelyard.records.reading import Reading
from steelyard.records.schema import CELL, OUTCOMES, SPLIT
from steelyard.records.table import Records
from steelyard.study.asking import asked_for, completed, left_open
from steelyard.study.cells import applies, checked_pool, joined
from steelyard.study.columns import columns_read
from steelyard.study.defaults import choose, leading, listed_metrics
from steelyard.study.deltas import Unchanged
from steelyard.study.evaluation import expanded, listed
from steelyard.study.kept import KeptSlice
from steelyard.study.kept_pairs import KeptPair
from steelyard.study.measure import ComparedSlice, Origin, cells_of, compared, origin_of
from steelyard.study.pairs import Pair
from steelyard.study.primary import Primary, answerable, decided_by, questions
from steelyard.study.results import Comparison, Evaluation
from steelyard.study.row_pairs import RowPair, UnmatchedRows, paired_slices
from steelyard.uncertainty.settings import Method, Settings, Stream

NOT_TOLD = "how its rows were chosen and read was not recorded when it was kept, so that is not compared"
Align = Literal["strict", "intersection"]


def compare(
    base: Records | Readable,
    new: Records | Readable,
    metrics: Sequence[MetricLike | Expr] | MetricLike | None = None,
    *,
    align: Align = "strict",
    by: Sequence[str] | str = (),
    pool: Sequence[str] | str = (),
    versus: Sequence[str] = (),
    resamples: int = 10_000,
    seed: int = 42,
    level: float = 0.95,
    method: Method = "auto",
    stream: Stream = "counter",
    settings: Settings | None = None,
    unchanged: Unchanged = "say",
    primary: Primary = None,
    progress: Progress | None = None,
    **reading: Unpack[Reading],
) -> Comparison:
    """Paired deltas of every metric, cell by cell. `versus` names columns that tell the two runs apart.

    `primary` names the metrics that decide, each perhaps in a slice; by default the first. p-values are adjusted over
    them alone, and over the others, which explore.

    The runs are Records, or anything that `read` takes, with its options. Without metrics, those that suit the columns
    of the base run are taken. `settings` holds resamples, seed, level, method and stream in one. Runs that gave the
    same answers are said to be `unchanged`; `unchanged="judge"` judges them as any others.

    >>> old = [{"item": i, "target": "a", "prediction": "b"} for i in range(4)]
    >>> new = [row | {"prediction": "a"} if row["item"] else row for row in old]
    >>> result = compare(old, new, "accuracy", resamples=0)["accuracy"]
    >>> result.base, result.new, result.delta
    (0.0, 0.75, 0.75)
    """
    checked_unchanged(unchanged)
    checked_align(align)
    settings = settings or Settings(resamples=resamples, seed=seed, level=level, method=method, stream=stream)
    named = None if metrics is None else asked_for(listed(metrics))
    deciding = questions(primary)
    columns = columns_read((*(named or ()), *(q.metric for q in deciding)), listed(by), *versus)
    tables = [records_in(run, columns, reading) for run in (base, new)]
    chosen = choose(tables[0], comparable=True) if named is None else ()
    asked, filled_in = completed(listed_metrics(chosen) if named is None else named, tables[0])
    if not asked:
        raise UsageError("there is no metric to compare by; name one with `metric=`")
    first = asked[0] if metrics is not None else leading(asked)
    deciding, asked = answerable(deciding, asked, tables[0])
    for metric in asked:
        if metric.no_delta:
            raise UsageError(f"{metric} cannot be compared: {metric.no_delta}")
    base, new = (joined(table, asked) for table in tables)
    unmatched = UnmatchedRows()
    pooled = checked_pool(listed(pool))
    pairs = list(paired_slices(base, new, by=listed(by), pool=pooled, versus=versus, align=align, unmatched=unmatched))
    slices = []
    for slice_, pair in pairs:
        own = [m for m in _of_both(asked, pair) if applies(m, pair.base, len(pairs), slice_)]
        slices.append(ComparedSlice(slice=slice_, pair=pair, metrics=own))
    return compared(
        decided_by(slices, deciding, first, lambda metric, pair: _of_both([metric], pair)),
        origin_of(base, asked, paired=True),
        origin_of(new, asked, paired=True),
        settings,
        unchanged=unchanged,
        unmatched=unmatched,
        remarks=filled_in,
        chosen=chosen,
        names=_names(base, new, versus),
        versus=versus,
        progress=progress,
    )


def _of_both(metrics: Sequence[Metric], pair: Pair) -> list[Metric]:
    """The metrics with families replaced by their members in either table."""
    assert isinstance(pair, RowPair)
    return list(dict.fromkeys(m for table in pair.tables for m in expanded(metrics, table)))


def _names(base: Records, new: Records, versus: Sequence[str]) -> dict[str, str]:
    """What the two runs are called: by the columns that tell them apart, else by their models."""
    for column in (*versus, "model", "strategy"):
        if column in base and column in new:
            one, two = (list(map(value_name, table.labels(column).values)) for table in (base, new))
            if len(one) == len(two) == 1 and one != two:
                return {"base": one[0], "new": two[0]}
    return {}


def compare_kept(
    base: Sequence[KeptSlice],
    new: Sequence[KeptSlice],
    metrics: Sequence[MetricLike | Expr],
    *,
    settings: Settings | None = None,
    unchanged: Unchanged = "say",
    primary: Primary = None,
    about: tuple[Evaluation | None, Evaluation | None] = (None, None),
) -> Comparison:
    """Paired deltas of two runs from the evidence they kept; `about` says what else either kept of its table.

    Slices pair on their columns, without model and strategy where each run has one value of them. A cell that only one
    run has is an error; another slice is left out. What needs single rows is left without a verdict.
    """
    checked_unchanged(unchanged)
    settings = settings or Settings()
    deciding = questions(primary)
    unclear = next(filter(None, map(left_open, (*listed(metrics), *(q.metric for q in deciding)))), None)
    if unclear is not None:
        raise UsageError(unclear)
    named = [question.metric for question in deciding]
    asked = [m for m in dict.fromkeys(map(metric_of, (*listed(metrics), *named))) if not m.no_delta]
    dropped = [c for c in ("model", "strategy") if all(_values(kept, c) <= 1 for kept in (base, new))]
    mine, theirs = (_by_slice(kept, dropped) for kept in (base, new))
    lonely = [key for key in (*mine, *theirs) if (key in mine) != (key in theirs) and {c for c, _ in key} <= set(CELL)]
    if lonely:
        shown = ", ".join(slice_text(dict(key)) or "the whole table" for key in lonely[:5])
        were = "was" if len(lonely) == 1 else "were"
        apart = any(SPLIT in dict(key) for key in lonely)
        hint = (
            f"; since 0.12.0 {SPLIT} tells cells apart: evaluate both, or pool it with `pool={SPLIT}`" if apart else ""
        )
        raise InputError(f"{counted(len(lonely), 'cell')} {were} evaluated in one run only: {printable(shown)}{hint}")
    pairs = {key: KeptPair(part, theirs[key]) for key, part in mine.items() if key in theirs}
    slices = []
    for key, pair in pairs.items():
        slice_ = {k: v for k, v in mine[key].slice.items() if k not in dropped}
        here = [m for m in asked if not _elsewhere(m, pair, pairs.values()) and m.values.get("by") not in slice_]
        slices.append(ComparedSlice(slice=slice_, pair=pair, metrics=here))
    origins = kept_origin(base, about[0]), kept_origin(new, about[1])
    slices = decided_by(slices, deciding, asked[0]) if asked else []
    return compared(slices, origins[0], origins[1], settings, unchanged=unchanged)


def checked_unchanged(unchanged: str) -> Unchanged:
    """How runs that gave the same answers are treated; another word is refused."""
    if unchanged not in get_args(Unchanged):
        raise UsageError(f"unchanged is one of {', '.join(get_args(Unchanged))}")
    return cast(Unchanged, unchanged)


def checked_align(align: str) -> Align:
    """How two runs are aligned; another word is refused."""
    if align not in get_args(Align):
        raise UsageError("align is strict or intersection")
    return cast(Align, align)


def _elsewhere(metric: Metric, pair: KeptPair, pairs: Iterable[KeptPair]) -> bool:
    """True where neither run kept the metric in this slice, but both did in another: it says nothing of this one."""
    if any(side.has(metric) for side in pair.sides):
        return False
    return any(all(side.has(metric) for side in other.sides) for other in pairs)


def _values(kept: Sequence[KeptSlice], column: str) -> int:
    return len({value_name(k.slice[column]) for k in kept if column in k.slice})


def _by_slice(kept: Sequence[KeptSlice], dropped: Sequence[str]) -> dict[tuple[tuple[str, str], ...], KeptSlice]:
    by_key: dict[tuple[tuple[str, str], ...], KeptSlice] = {}
    for part in kept:
        key = tuple(sorted((c, value_name(v)) for c, v in part.slice.items() if c not in dropped))
        if key in by_key:
            raise InputError(f"one run holds several parts for {slice_text(dict(key)) or 'the whole table'}")
        by_key[key] = part
    return by_key


def kept_origin(kept: Sequence[KeptSlice], about: Evaluation | None = None) -> Origin:
    """Where the numbers of a kept run come from."""
    origin = Origin(population=kept_population(kept), clusters=len({i for each in cells_of(kept) for i in each.ids}))
    if about is None:
        return origin
    return replace(
        origin,
        warnings=about.warnings,
        cautions=about.cautions,
        reading=about.reading,
        is_told=about.is_told,
        facts=about.facts,
    )


def told_of(comparison: Comparison, *runs: Evaluation | None) -> Comparison:
    """A comparison of the rows that two runs kept, with what was said of them when they were evaluated."""
    known = [run for run in runs if run is not None]
    return replace(
        comparison,
        warnings=tuple(dict.fromkeys((*(w for run in known for w in run.warnings), *comparison.warnings))),
        cautions=of_pairs(*(run.cautions for run in known), comparison.cautions),
    )


def kept_population(kept: Sequence[KeptSlice]) -> dict[str, int]:
    """The rows of a run by outcome, each counted once: cells do not overlap, other slices do."""
    cells = cells_of(kept)
    counts = {outcome: sum(k.counts[outcome] for k in cells) for outcome in OUTCOMES}
    return {"rows": sum(counts.values()), **counts}
