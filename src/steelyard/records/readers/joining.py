"""Several tables as one: the rows follow each other, and columns meet where their kinds do."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from steelyard.errors import InputError, printable
from steelyard.ground.arrays import Mask
from steelyard.ground.json import TOO_LARGE
from steelyard.records.demand import Demand
from steelyard.records.extras import Extra, json_texts
from steelyard.records.readers.contract import Column, Table, joined, widened
from steelyard.records.schema import SHOWN, kind_of
from steelyard.records.sources import Source


def together(tables: Sequence[Table], sources: Sequence[Source], wanted: Demand) -> Table:
    """One table from all: null where one lacks a column, and an extra where a column is read nowhere."""
    if len(tables) == 1:
        return tables[0]
    columns: dict[str, Column] = {}
    problems = [problem for table in tables for problem in table.problems]
    extras: dict[str, Extra] = {}
    for name in dict.fromkeys(name for table in tables for name in (*table.columns, *table.extras)):
        unread = [table.extras[name] for table in tables if name in table.extras]
        if unread:
            extras[name] = _any_kind([_kept(table, name) for table in tables], unread[0].problem)
            continue
        arrays = [table.columns.get(name, pa.nulls(table.rows)) for table in tables]
        try:
            columns[name] = _one_kind(name, arrays, sources)
        except InputError as problem:
            if wanted.of(name, scored=True) == "read":
                problems.append(problem)
            else:
                extras[name] = _any_kind([Extra(array, problem) for array in arrays], problem)
    present = {*columns, *extras}
    return Table(
        columns,
        sum(table.rows for table in tables),
        warnings=tuple(warning for table in tables for warning in table.warnings),
        problems=tuple(problems),
        extras=extras,
        skipped=tuple(dict.fromkeys(n for table in tables for n in table.skipped if n not in present)),
        no_answers=_masks(tables),
        task=next((table.task for table in tables if table.task), None),
    )


def _one_kind(name: str, arrays: Sequence[Column], sources: Sequence[Source]) -> Column:
    """The column that arrays of one kind make."""
    kind = widened(list(arrays))
    if kind is None:
        raise _clash(name, arrays, sources)
    try:
        return joined([array.cast(kind) for array in arrays])
    except pa.ArrowInvalid:
        file = next(s.name for a, s in zip(arrays, sources, strict=True) if kind_of(a) == "int")
        raise InputError(f"{TOO_LARGE} together with fractions", file=file, field=name) from None


def _kept(table: Table, name: str) -> Extra:
    """A table's column of a name, whether it can be read or not."""
    return table.extras.get(name) or Extra(table.columns.get(name, pa.nulls(table.rows)), InputError("", field=name))


def _any_kind(parts: Sequence[Extra], problem: InputError) -> Extra:
    """A column that nobody can read, of parts of any kind; JSON where one of them is, or where they do not meet."""
    types = {part.column.type for part in parts if not pa.types.is_null(part.column.type)}
    if len(types) == 1 and not any(part.is_json for part in parts):
        (kind,) = types
        return Extra(joined([part.column.cast(kind) for part in parts]), problem)
    texts = [part.column if part.is_json else json_texts(part.column) for part in parts]
    return Extra(joined(texts), problem, is_json=True)


def _masks(tables: Sequence[Table]) -> dict[str, Mask]:
    """The rows whose prediction stands for an outcome, in all tables."""
    outcomes = dict.fromkeys(outcome for table in tables for outcome in table.no_answers)
    return {o: np.concatenate([t.no_answers.get(o, np.zeros(t.rows, bool)) for t in tables]) for o in outcomes}


def _clash(name: str, arrays: Sequence[Column], sources: Sequence[Source]) -> InputError:
    stated = [(kind_of(array), source.name) for array, source in zip(arrays, sources, strict=True)]
    (kind, file), *others = [(kind, file) for kind, file in stated if kind != "null"]
    other, elsewhere = next(pair for pair in others if pair[0] == "list" or {pair[0], kind} - {"int", "float"})
    return InputError(
        f"holds {SHOWN[other]} here and {SHOWN[kind]} in {printable(file)}; write it the same way in both",
        file=elsewhere,
        field=name,
    )
