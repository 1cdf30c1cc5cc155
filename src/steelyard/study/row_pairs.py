"""Which rows of two runs belong together? Cells pair on their columns, rows on their keys; targets must agree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from steelyard.errors import InputError, UsageError, counted, printable
from steelyard.ground.arrays import Mask
from steelyard.metrics.collector import Collector, United, side_of
from steelyard.metrics.definition import Metric
from steelyard.metrics.options import Constants
from steelyard.metrics.vocabulary import FROM_ALL_GROUPS
from steelyard.naming import slice_text
from steelyard.records.clusters import Clusters
from steelyard.records.derive import ANSWERED, FAILED, NUMBERS, combine
from steelyard.records.labels import Labels, value_name, value_of
from steelyard.records.schema import CELL, PAIRED, is_group, kind_of
from steelyard.records.table import Records
from steelyard.study.cells import columns_of, several
from steelyard.study.kept import describes_question, told_by
from steelyard.study.pairs import MissingRows, Pair, check_judges

LACKABLE = ("target", "should_abstain")


class RowPair(Pair):
    """Two tables whose rows belong together, in the same order, on one list of clusters.

    Its parts and what is collected from them are made once and shared by every metric.
    """

    def __init__(self, base: Records, new: Records) -> None:
        self.base, self.new = base, new
        self._parts: dict[bytes, RowPair] = {}
        self._alike: dict[str, bool] = {}
        self._rows: tuple[Collector, Collector] | None = None

    def __len__(self) -> int:
        return len(self.base)

    @property
    def whole(self) -> int:
        return len(self)

    @property
    def rows(self) -> int:
        return len(self)

    def take(self, rows: Mask) -> RowPair:
        """Some of the rows."""
        return RowPair(self.base.take(rows), self.new.take(rows))

    @property
    def tables(self) -> tuple[Records, Records]:
        return self.base, self.new

    @cached_property
    def sides(self) -> tuple[Collector | United, Collector | United]:
        return side_of(self.base), side_of(self.new, self.base.cluster)

    def constants(self, metric: Metric) -> tuple[Constants, Constants]:
        """What each side must know of the whole: here the same, computed from both."""
        shared = metric.constants(self.tables)
        return shared, shared

    def checked(self, metric: Metric) -> None:
        """Refuse runs whose groups or labels to defer differ, where the metric reads them; targets were seen to."""
        check_judges(metric, [table.is_marked for table in self.tables])
        for name in dict.fromkeys((*metric.reads, *metric.grouped_by)):
            if describes_question(name):
                _agree(self, name)

    def countable(self, metric: Metric) -> tuple[RowPair, MissingRows | None]:
        base, new = self._missing(metric)
        lost = base | new
        if (base == new).all():
            return self, None
        key = lost.tobytes()
        if key not in self._parts:
            self._parts[key] = self.take(~lost)
        counts = {"base": int(base.sum()), "new": int(new.sum()), "lost": int(lost.sum())}
        return self._parts[key], MissingRows(**counts, unit="rows", rows=max(len(self), 1))

    def lacking(self, metric: Metric) -> int:
        base, new = self._missing(metric)
        return int((base | new).sum())

    def _missing(self, metric: Metric) -> list[Mask]:
        """The rows of each side that lack a value that the metric reads."""
        both = zip(self.sides, self.constants(metric), strict=True)
        return [side.missing(metric, constants) for side, constants in both]

    def lost_groups(self, metric: Metric, inner: RowPair) -> list[str]:
        if metric.over_tasks:
            columns: tuple[str, ...] = ("task",) if "task" in self.base else ()
        else:
            columns = metric.grouped_by if metric.over_groups in FROM_ALL_GROUPS else ()
        left = {value_name(v) for c in columns for v in inner.base.labels(c).values}
        whole = [value_name(v) for c in columns for v in self.base.labels(c).values]
        return [name for name in whole if name not in left]

    def unchanged(self, metric: Metric) -> bool:
        names = dict.fromkeys(name for table in self.tables for name in told_by(metric, table.stated))
        return all(self._same(name) for name in names)

    def _same(self, name: str) -> bool:
        if name not in self._alike:
            present = [name == "outcome" or name in table for table in self.tables]
            self._alike[name] = present[0] == present[1] and (not present[0] or not _different(self, name).any())
        return self._alike[name]

    @property
    def failed_alike(self) -> bool:
        return bool((self.failed[0] == self.failed[1]).all())

    def by_row(self) -> tuple[Collector, Collector]:
        if self._rows is None:
            ids = Clusters([Labels(np.arange(len(self)), tuple(range(len(self))))])
            one, two = (Collector(table, ids=ids, cluster=np.arange(len(self))) for table in self.tables)
            self._rows = one, two
        return self._rows

    @property
    def rates(self) -> list[float]:
        return [float(a.mean()) if len(a) else float("nan") for a in self.answered]

    @property
    def failure_rates(self) -> list[float]:
        return [float(f.mean()) if len(f) else float("nan") for f in self.failed]

    @property
    def same_answered(self) -> bool:
        return bool((self.answered[0] == self.answered[1]).all())

    @cached_property
    def failed(self) -> tuple[Mask, Mask]:
        """The rows of each run that failed."""
        return self.base.outcome == FAILED, self.new.outcome == FAILED

    @cached_property
    def answered(self) -> tuple[Mask, Mask]:
        """The rows that each run answered."""
        return self.base.outcome == ANSWERED, self.new.outcome == ANSWERED

    @cached_property
    def without_failed(self) -> RowPair:
        failed = self.failed[0] | self.failed[1]
        return self.take(~failed) if failed.any() else self

    def failures(self, left: RowPair) -> str:
        lost = len(self) - len(left)
        return (
            f"{counted(lost, 'row')} failed in one of the runs and {'was' if lost == 1 else 'were'} dropped from both"
            if lost
            else ""
        )

    @cached_property
    def failed_as_wrong(self) -> RowPair:
        names = np.array(["answered", "abstained", "unparsed", "unparsed"], dtype=object)
        return RowPair(*(t.with_columns({"outcome": pa.array(names[t.outcome])}) for t in self.tables))

    @cached_property
    def answered_by_both(self) -> RowPair:
        return self.take(self.answered[0] & self.answered[1])


@dataclass
class UnmatchedRows:
    """What found no partner in the other run."""

    cells: list[dict[str, Any]] = field(default_factory=list)
    base_rows: int = 0
    new_rows: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


def paired_slices(
    base: Records,
    new: Records,
    *,
    by: Sequence[str],
    pool: Sequence[str],
    versus: Sequence[str],
    align: str,
    unmatched: UnmatchedRows,
) -> Iterator[tuple[dict[str, Any], RowPair]]:
    dropped = set(versus) or {
        c for c in ("model", "strategy") if not any(c in t and several(t, c) for t in (base, new))
    }
    dropped |= set(pool)
    columns = [c for c in CELL if c not in dropped and any(c in t and several(t, c) for t in (base, new))]
    sides = []
    for table in (base, new):
        own = [c for c in columns if c in table]
        cells = {
            tuple(value_name(values.get(c, "none")) for c in columns): (values, part)
            for values, part in table.split(own)
        }
        sides.append(cells)
    lonely = [key for key in (*sides[0], *sides[1]) if (key in sides[0]) != (key in sides[1])]
    if lonely:
        shown = ", ".join(slice_text(dict(zip(columns, key, strict=True))) for key in lonely[:5])
        if align == "strict":
            raise InputError(
                f"{counted(len(lonely), 'cell')} {'has' if len(lonely) == 1 else 'have'} no partner in the other run: "
                f"{printable(shown)}. "
                "Use `align=intersection` to compare the others, or `where=` to choose"
            )
        unmatched.cells = [dict(zip(columns, key, strict=True)) for key in lonely]
    for key, (values, part) in sides[0].items():
        if key not in sides[1]:
            continue
        pair = _paired(part, sides[1][key][1], align, unmatched)
        cell = {c: values.get(c, "none") for c in columns}
        yield cell, pair
        for group in dict.fromkeys(by):
            names = columns_of(group)
            for name in names:
                if name not in pair.base and name != "outcome":
                    raise UsageError(pair.base.lacks(name, "by"))
                if is_group(name):
                    _agree(pair, name)
            for extra, rows in _groups(pair.base, names):
                yield {**cell, **extra}, pair.take(rows)
    if not any(key in sides[1] for key in sides[0]):
        raise InputError("the two runs share no cell; nothing can be compared")


def _groups(records: Records, names: Sequence[str]) -> Iterator[tuple[dict[str, Any], Mask]]:
    labels = [records.labels(name) for name in names]
    key = combine([label.codes for label in labels], len(records))
    for value, first in zip(*np.unique(key, return_index=True), strict=True):
        values = {n: value_of(x, first) for n, x in zip(names, labels, strict=True)}
        yield values, key == value


def _paired(base: Records, new: Records, align: str, unmatched: UnmatchedRows) -> RowPair:
    names = _pairing_columns(base, new)
    mine, theirs = _joint_keys(base, new, names)
    for side, keys, table in (("base", mine, base), ("new", theirs, new)):
        if len(np.unique(keys)) != len(keys):
            raise InputError(
                f"the {side} run holds several rows for one ({', '.join(names)}); choose with `where=` or `versus=`",
                file=table.name,
            )
    common, at_mine, at_theirs = np.intersect1d(mine, theirs, assume_unique=True, return_indices=True)
    lost = len(mine) - len(common), len(theirs) - len(common)
    if any(lost) and align == "strict":
        table, keys, other = (base, mine, theirs) if lost[0] else (new, theirs, mine)
        file, line = table.where(int(np.flatnonzero(~np.isin(keys, other))[0]))
        raise InputError(
            f"{counted(lost[0], 'row')} of the base run and {lost[1]:,} of the new one have no partner "
            "(this is the first). Use `align=intersection` to compare the common rows",
            file=file,
            line=line,
        )
    unmatched.base_rows += lost[0]
    unmatched.new_rows += lost[1]
    if not len(common):
        named = ", ".join(_pairing_columns(base, new))
        raise InputError(
            f"the two runs have no row in common; nothing can be compared. Rows pair by {named}: `drop=task` leaves "
            "out a name that differs, `map=item=other` pairs by another column"
        )
    pair = RowPair(base.take(at_mine), new.take(at_theirs))
    for name in dict.fromkeys(("target", *base.cluster_columns, *new.cluster_columns)):
        _agree(pair, name)
    return pair


def unpaired(base: Records, new: Records) -> tuple[Mask, Mask]:
    """The rows of either run whose key the other does not have."""
    mine, theirs = _joint_keys(base, new, _pairing_columns(base, new))
    return ~np.isin(mine, theirs), ~np.isin(theirs, mine)


def _pairing_columns(base: Records, new: Records) -> list[str]:
    """What rows pair by. A repeat that is the same in all rows says no more than that there is none."""
    names = [n for n in PAIRED if n in base or n in new]
    tables = [table for table in (base, new) if "repeat" in table]
    return [n for n in names if n != "repeat"] if len(tables) == 1 and tables[0].only("repeat") is not None else names


def _joint_keys(base: Records, new: Records, names: Sequence[str]) -> tuple[Any, Any]:
    parts = []
    for name in names:
        columns = []
        for table in (base, new):
            if name not in table:
                columns.append(pa.nulls(len(table)))
            else:
                columns.append(table.column(name))
        kinds = {kind_of(c) for c in columns} - {"null"}
        if kinds == set(NUMBERS):  # a column with nulls turns whole numbers into decimals
            columns = [c.cast(pa.float64()) for c in columns]
        elif len(kinds) > 1:
            raise InputError(
                f"'{name}' is {' in one run and '.join(sorted(kinds))} in the other; write both the same way"
            )
        wanted = next((c.type for c in columns if kind_of(c) != "null"), pa.null())
        both = pa.concat_arrays([c.cast(wanted) for c in columns]).dictionary_encode()
        codes = (
            both.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
            if kinds
            else np.zeros(len(both), np.int64)
        )
        parts.append(codes)
    keys = combine(parts, len(base) + len(new))
    return keys[: len(base)], keys[len(base) :]


def _agree(pair: RowPair, name: str) -> None:
    """Targets, clusters and groups that are read must be the same on both sides."""
    if name not in pair.base and name not in pair.new:
        return
    if name not in pair.base or name not in pair.new:
        lacking = pair.base if name not in pair.base else pair.new
        if name == "target":
            raise InputError("one run has targets and the other has none", file=lacking.name)
        raise InputError(f"the column '{printable(name)}' is missing in one run", file=lacking.name)
    different = _different(pair, name)
    if name in LACKABLE:  # a row that lacks it on one side leaves both, metric by metric
        nulls = [t.column(name).is_null().to_numpy(zero_copy_only=False) for t in pair.tables]
        different &= ~(nulls[0] | nulls[1])
    if different.any():
        row = int(np.flatnonzero(different)[0])
        file, line = pair.new.where(row)
        other_file, other_line = pair.base.where(row)
        raise InputError(
            f"differs from the base run for {counted(int(different.sum()), 'row')} "
            f"(first there: {printable(other_file or 'row')}:{other_line}); the runs answered different questions",
            file=file,
            line=line,
            field=name,
        )


def _different(pair: RowPair, name: str) -> Mask:
    """The rows in which the two runs state a column differently; numbers compare by value, two nulls are alike."""
    kinds = {kind_of(t.column(name)) for t in pair.tables} if name != "outcome" else {"text"}
    if "list" in kinds:
        one, two = (t.column(name).to_pylist() for t in pair.tables)
        return np.array([a != b for a, b in zip(one, two, strict=True)], bool)
    if kinds <= {*NUMBERS, "null"}:
        one, two = (t.stated_numbers(name) for t in pair.tables)
        return np.asarray((one != two) & ~(np.isnan(one) & np.isnan(two)))
    return pair.base.labels(name).differs(pair.new.labels(name))
