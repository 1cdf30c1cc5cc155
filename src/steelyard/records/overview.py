"""What may be said of a table without showing a value of it: counts, columns and their kinds, clusters, sources."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steelyard.errors import counted, printable
from steelyard.records.schema import SHOWN, kind_of
from steelyard.registry import closest

if TYPE_CHECKING:
    from steelyard.ground.showing import Json
    from steelyard.records.table import Records

_NAMED = 12  # columns that a repr names


def in_short(records: Records) -> str:
    """One line: rows by outcome, and the first columns by name."""
    counts = ", ".join(f"{n} {outcome}" for outcome, n in records.counts().items() if n)
    more = len(records.stated) - _NAMED
    names = [*map(printable, records.stated[:_NAMED]), *([f"{more} more"] if more > 0 else [])]
    return f"Records({counted(len(records), 'row')}: {counts}; columns: {', '.join(names)})"


def overview(records: Records) -> Json:
    """Plain data about the table, without its rows."""
    return {
        "rows": len(records),
        "outcomes": records.counts(),
        "columns": {name: SHOWN[kind_of(records.column(name))] for name in records.stated},
        "cluster": list(records.cluster_columns),
        "clusters": len(records.cluster[0]),
        "inputs": [source.to_dict() for source in records.sources],
        "warnings": list(records.warnings),
    }


def lacking(name: str, needed_by: str, table: str, names: list[str]) -> str:
    """What to say of a column that a table does not have: which it has, and the one that may have been meant."""
    have, near = ", ".join(map(printable, names)), closest(name, names)
    hint = f"; did you mean '{printable(near)}'?" if near else ""
    what = "needs" if needed_by != "this" else "request needs"
    return f"{needed_by} {what} column '{printable(name)}'; {table or 'the table'} has: {have}{hint}"
