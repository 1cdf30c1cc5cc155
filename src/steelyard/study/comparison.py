"""compare(): two runs on the same questions → paired deltas, p-values and verdicts.

delta = new − base, never sign-flipped. Rows pair on (task, item, repeat, perturbation); cells pair on their columns
minus those that tell the runs apart. A row that failed on either side leaves both and is counted. Runs that kept only
their evidence pair slice by slice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Unpack, cast, get_args

from steelyard.errors import InputError, UsageError, counted, printable
from steelyard.ground.arrays import Progress
from steelyard.ground.showing import Shows
from steelyard.metrics.definition import Metric, MetricLike, metric_of
from steelyard.naming import slice_text
from steelyard.records.asked import uneven_items
from steelyard.records.labels import value_name
from steelyard.records.readers import Readable, Reading, records_in
from steelyard.records.schema import CELL, OUTCOMES
from steelyard.records.sources import Source
from steelyard.records.table import Records
from steelyard.study.asking import completed, left_open
from steelyard.study.cells import applies, checked_pool, joined
from steelyard.study.columns import columns_read
from steelyard.study.defaults import default_stack
from steelyard.study.deltas import Unchanged, deltas
from steelyard.study.evaluation import expanded, facts_of, listed, pick
from steelyard.study.frames import deltas_table, main_lines
from steelyard.study.kept import KeptSlice
from steelyard.study.kept_pairs import KeptPair
from steelyard.study.pairs import Pair
from steelyard.study.row_pairs import UnmatchedRows, paired_slices
from steelyard.study.warnings import class_warnings, unmet_labels
from steelyard.uncertainty.number import Delta
from steelyard.uncertainty.settings import Method, Settings, Stream
from steelyard.uncertainty.verdicts import judged

if TYPE_CHECKING:
    import pyarrow as pa

    from steelyard.ground.showing import Json

Align = Literal["strict", "intersection"]
Part = tuple[Mapping[str, Any], Pair, Sequence[Metric]]  # a slice, its pair, and the metrics to compare there


@dataclass(frozen=True, kw_only=True, repr=False)
class Comparison(Shows):
    """All paired deltas of two runs. `result["aurc"]` picks one.

    >>> old = [{"item": 1, "target": "a", "prediction": "b"}]
    >>> new = [{"item": 1, "target": "a", "prediction": "a"}]
    >>> compare(old, new, "accuracy", resamples=0)["accuracy"].delta
    1.0
    """

    deltas: tuple[Delta, ...]
    settings: Settings
    population: Mapping[str, Any]
    cluster: tuple[str, ...]
    sources: Mapping[str, tuple[Source, ...]]
    unmatched: Mapping[str, Any]
    warnings: tuple[str, ...]
    facts: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # of both whole tables: wall time, energy
    names: Mapping[str, str] = field(default_factory=dict)  # of base and new, where a column tells them apart

    def __getitem__(self, name: MetricLike) -> Delta:
        return pick(self.deltas, name)

    def __iter__(self) -> Iterator[Delta]:
        return iter(self.deltas)

    def __len__(self) -> int:
        return len(self.deltas)

    def __repr__(self) -> str:
        pairs = self.population.get("paired")
        shared = f"{counted(pairs, 'pair')} of rows, " if pairs is not None else ""
        head = f"Comparison: {shared}{counted(len(self), 'delta')} (new − base)"
        return "\n".join((head, *main_lines(self.deltas)))

    @property
    def without_partner(self) -> str:
        """What only one of the runs has, in words; nothing where everything is paired."""
        lost = self.unmatched
        alone = {"base row": lost["base_rows"], "new row": lost["new_rows"], "cell": len(lost["cells"])}
        return ", ".join(counted(n, noun) for noun, n in alone.items() if n)

    def to_arrow(self) -> pa.Table:
        """One row per delta: the metric, its slice, both values, delta, interval and verdict."""
        return deltas_table(self.deltas)

    def _inputs(self) -> Iterator[str]:
        return (source.name for sources in self.sources.values() for source in sources)

    def to_dict(self) -> Json:
        """Plain data: the document that `comparison.json` holds."""
        from steelyard.study.wire import comparison_document

        return comparison_document(self)


def compare(
    base: Records | Readable,
    new: Records | Readable,
    metrics: Sequence[MetricLike] | MetricLike | None = None,
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
    progress: Progress | None = None,
    **reading: Unpack[Reading],
) -> Comparison:
    """Paired deltas of every metric, cell by cell. `versus` names columns that tell the two runs apart.

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
    columns = columns_read(listed(metrics or ()), listed(by), *versus)
    tables = [records_in(run, columns, reading) for run in (base, new)]
    named = listed(default_stack(tables[0], comparable=True) if metrics is None else metrics)
    asked, filled_in = completed(named, tables[0])
    for metric in asked:
        if metric.no_delta:
            raise UsageError(f"{metric} cannot be compared: {metric.no_delta}")
    base, new = (joined(table, asked) for table in tables)
    unmatched = UnmatchedRows()
    pooled = checked_pool(listed(pool))
    pairs = list(paired_slices(base, new, by=listed(by), pool=pooled, versus=versus, align=align, unmatched=unmatched))
    parts: list[Part] = []
    for slice_, pair in pairs:
        both = dict.fromkeys(m for table in pair.tables for m in expanded(asked, table))
        parts.append((slice_, pair, [m for m in both if applies(m, pair.base, len(pairs), slice_)]))
    cells = [pair for slice_, pair in pairs if set(slice_) <= set(CELL)]
    return Comparison(
        deltas=_judged(parts, settings, unchanged, progress),
        settings=settings,
        population={
            "base": population_of(base),
            "new": population_of(new),
            "paired": sum(map(len, cells)),
            "clusters": len({id_ for pair in cells for id_ in pair.sides[0].ids}),
        },
        cluster=base.cluster_columns,
        sources={"base": base.sources, "new": new.sources},
        unmatched=asdict(unmatched),
        warnings=tuple(
            dict.fromkeys((*base.warnings, *new.warnings, *filled_in, *_warnings(base, asked), *_warnings(new, asked)))
        ),
        facts={side: stated for side, table in (("base", base), ("new", new)) if (stated := facts_of(table))},
        names=_names(base, new, versus),
    )


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
    metrics: Sequence[MetricLike],
    *,
    settings: Settings | None = None,
    unchanged: Unchanged = "say",
) -> Comparison:
    """Paired deltas of two runs from the evidence they kept.

    Slices pair on their columns, without model and strategy where each run has one value of them. A cell that only one
    run has is an error; another slice is left out. What needs single rows is left without a verdict.
    """
    checked_unchanged(unchanged)
    settings = settings or Settings()
    unclear = next(filter(None, map(left_open, listed(metrics))), None)
    if unclear is not None:
        raise UsageError(unclear)
    asked = [m for m in map(metric_of, listed(metrics)) if not m.no_delta]
    dropped = [c for c in ("model", "strategy") if all(_values(kept, c) <= 1 for kept in (base, new))]
    mine, theirs = (_by_slice(kept, dropped) for kept in (base, new))
    lonely = [key for key in (*mine, *theirs) if (key in mine) != (key in theirs) and {c for c, _ in key} <= set(CELL)]
    if lonely:
        shown = ", ".join(slice_text(dict(key)) or "the whole table" for key in lonely[:5])
        were = "was" if len(lonely) == 1 else "were"
        raise InputError(f"{counted(len(lonely), 'cell')} {were} evaluated in one run only: {printable(shown)}")
    pairs = {key: KeptPair(part, theirs[key]) for key, part in mine.items() if key in theirs}
    parts: list[Part] = []
    for key, pair in pairs.items():
        slice_ = {k: v for k, v in mine[key].slice.items() if k not in dropped}
        here = [m for m in asked if not _elsewhere(m, pair, pairs.values()) and m.values.get("by") not in slice_]
        parts.append((slice_, pair, here))
    return Comparison(
        deltas=_judged(parts, settings, unchanged),
        settings=settings,
        population={side: kept_population(kept) for side, kept in (("base", base), ("new", new))},
        cluster=(),
        sources={"base": (), "new": ()},
        unmatched={"cells": [], "base_rows": 0, "new_rows": 0},
        warnings=(),
    )


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


def _judged(
    parts: Sequence[Part], settings: Settings, unchanged: Unchanged, progress: Progress | None = None
) -> tuple[Delta, ...]:
    """The deltas of all parts, with verdicts that allow for their number."""
    every: list[Delta] = []
    for done, (slice_, pair, metrics) in enumerate(parts):
        every += deltas(pair, metrics, settings, slice_, unchanged)
        if progress is not None:
            progress((done + 1) / len(parts))
    return tuple(judged(every, settings))


def _warnings(records: Records, asked: Sequence[Metric]) -> list[str]:
    return [*unmet_labels(records, asked), *uneven_items(records), *class_warnings(records, asked)]


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


def kept_population(kept: Sequence[KeptSlice]) -> dict[str, int]:
    """The rows of a run by outcome, each counted once: cells do not overlap, other slices do."""
    cells = [k for k in kept if set(k.slice) <= set(CELL)]
    cells = [k for k in cells if not any(_within(k.slice, other.slice) for other in cells)]
    counts = {outcome: sum(k.counts[outcome] for k in cells) for outcome in OUTCOMES}
    return {"rows": sum(counts.values()), **counts, "clusters": len({i for k in cells for i in k.ids})}


def _within(slice_: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """True if another slice is a part of this one, as a task is of a whole benchmark."""
    return len(slice_) < len(other) and all(column in other and other[column] == v for column, v in slice_.items())


def population_of(records: Records) -> dict[str, int]:
    return {"rows": len(records), **records.counts(), "clusters": len(records.cluster[0])}
