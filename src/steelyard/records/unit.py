"""Which column looks like the unit: the patient, user or document whose rows belong together.

Rows of one patient are alike, and intervals that take them for independent are too narrow. Which column says whose
rows they are is for the user to state; this only notices that one was probably forgotten. It never changes a number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from steelyard.errors import counted, printable
from steelyard.records.schema import FIELDS, kind_of
from steelyard.records.table import Records

# whose rows they are, persons before what they wrote or said: the first that a table has is named
_UNITS = (
    *("patient", "subject", "participant", "person", "user", "client", "customer", "student", "speaker", "author"),
    *("encounter", "conversation", "session", "document", "doc", "article"),
)
_UNIT = re.compile(rf"({'|'.join(_UNITS)})s?[ _-]?(?:id|no|nr|number|code|key|uid|uuid|hash|name)?")
_ID = re.compile(r"(.+)[ _-](?:id|ID|Id)|(.*[a-z])(?:Id|ID)")
# ids of how something was asked or computed, not of whom or what it is about
_OTHER = frozenset(
    {*FIELDS, "run", "experiment", "job", "batch", "fold", "split", "shard", "worker", "request", "response", "trace"}
    | {"prompt", "version", "row", "record", "seed"}
)


@dataclass(frozen=True)
class Unit:
    """A column that looks like the unit, with how many values in how many rows."""

    column: str
    values: int
    rows: int

    def __str__(self) -> str:
        where = f"{counted(self.values, 'value')} in {counted(self.rows, 'row')}"
        return f"rows look clustered by '{printable(self.column)}' ({where})"


def likely_unit(records: Records) -> Unit | None:
    """The column that looks like a forgotten unit; None where a cluster is stated or no column looks like one.

    A column named for a person or a document counts where several of the clusters that are used otherwise share a
    value of it; another one that ends in _id only if none of them is divided between its values.

    >>> likely_unit(Records.from_columns({"item": [1, 2, 3, 4], "patient_id": ["a", "a", "b", "b"]}))
    Unit(column='patient_id', values=2, rows=4)
    """
    if records.states_cluster:
        return None
    names = [name for name in records.stated if may_be_unit(name)]
    named = sorted(filter(_unit_name, names), key=lambda name: _UNITS.index(_unit_name(name)))
    for unit, _ in _units(records, named):
        return unit
    ids = [unit for unit, nested in _units(records, [name for name in names if name not in named]) if nested]
    return max(ids, key=lambda unit: unit.values, default=None)


def may_be_unit(name: str) -> bool:
    """True if a column of this name could be the unit, so that its values are worth a look."""
    return bool(_unit_name(name)) or _is_id(name)


def _units(records: Records, names: list[str]) -> Iterator[tuple[Unit, bool]]:
    """The columns that put several clusters together, and whether they divide none."""
    for name in names:
        column = records.column(name)
        if kind_of(column) not in ("text", "int") or column.null_count:
            continue
        ids, cluster = records.cluster
        encoded = column.dictionary_encode()  # unsorted, so cheaper than labels
        values = len(encoded.dictionary)
        if 1 < values < len(records):
            codes = encoded.indices.to_numpy().astype(np.int64)
            ordered = np.sort(codes * len(ids) + cluster)
            both = 1 + int((ordered[1:] != ordered[:-1]).sum())
            if values < both:
                yield Unit(name, values, len(records)), both == len(ids)


def _unit_name(name: str) -> str:
    """The unit that a column is named for, in `patient_id` or `metadata.patient`; empty if for none."""
    match = _UNIT.fullmatch(name.rpartition(".")[2].lower())
    return match[1] if match and name not in FIELDS else ""


def _is_id(name: str) -> bool:
    match = _ID.fullmatch(name.rpartition(".")[2])
    return match is not None and (match[1] or match[2]).lower() not in _OTHER
