"""Tables that are in memory already: pandas and polars frames, Arrow tables and streams, lists of dictionaries.

No library is imported for it: a frame is known by the module that its class comes from, and anything else by the Arrow
stream interface. None, NaN, NaT and pd.NA mean that a value is missing. An index is no column. The line, in errors, is
the number of the row.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from datetime import date, time
from decimal import Decimal
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from steelyard.errors import InputError, UsageError, printable
from steelyard.ground.arrays import Mask
from steelyard.ground.json import TOO_LARGE, Flaw
from steelyard.halves import whole_text
from steelyard.records.answers import LabelRules
from steelyard.records.demand import Demand
from steelyard.records.extras import Extra
from steelyard.records.readers.arrow_columns import BROKEN, columns_of, flattened, wanted_names
from steelyard.records.readers.contract import Column, Table
from steelyard.records.readers.inputs import Input
from steelyard.records.readers.jsonl import Lines
from steelyard.records.schema import arrow_array, text_array

_ROWS = 10_000  # of a list at a time
_TABLES = {
    "pandas": ("DataFrame", "Series"),
    "polars": ("DataFrame", "Series", "LazyFrame"),
    "pyarrow": ("Table", "RecordBatch", "RecordBatchReader"),
}


class ArrowStream(Protocol):
    """A table of any library that knows the Arrow stream interface, as pandas, polars and pyarrow do."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The stream, in a capsule."""


def is_frame(given: Any) -> bool:
    """True if something is a table in memory, and no path."""
    if _library(given) or hasattr(given, "__arrow_c_stream__"):
        return True
    return isinstance(given, list | tuple) and bool(given) and isinstance(given[0], Mapping)


def frame_table(given: Any, *, rename: Mapping[str, str], demand: Demand, labels: LabelRules) -> tuple[Table, Input]:
    """The table that a frame holds, and the input that it was taken as."""
    source = Input("", io.BytesIO(), rename=rename, demand=demand, labels=labels)
    if isinstance(given, list | tuple):
        return _of_rows(given, source), source
    if _library(given) == "pandas":
        return _of_pandas(given, source), source
    return _of_arrow(_arrow(given), source), source


def _library(given: Any) -> str:
    """The library whose table something is, or is derived from; empty where it is none."""
    for kind in type(given).__mro__:
        library = kind.__module__.partition(".")[0]
        if kind.__name__ in _TABLES.get(library, ()):
            return library
    return ""


def _arrow(given: Any) -> Any:
    """Anything that Arrow can take, as one of its tables."""
    if isinstance(given, pa.Table):
        return given
    if isinstance(given, pa.RecordBatch):
        return pa.Table.from_batches([given])
    if isinstance(given, pa.RecordBatchReader):
        return given.read_all()
    if _library(given) == "polars":
        if not hasattr(given, "to_arrow"):
            raise UsageError("a lazy polars frame holds no rows yet: call collect() first")
        try:
            taken = given.to_arrow()
        except BROKEN:
            raise InputError("the frame holds a column that Arrow does not know; cast it to another type") from None
        return taken if isinstance(taken, pa.Table) else pa.table({given.name or "item": taken})
    if not hasattr(given, "__arrow_c_stream__"):
        raise UsageError(f"a {printable(type(given).__name__)} is no table; give a frame, an Arrow table or a path")
    try:
        return pa.RecordBatchReader.from_stream(given).read_all()
    except (*BROKEN, TypeError):
        raise InputError("the Arrow stream of this object cannot be read as a table") from None


def _of_arrow(table: Any, source: Input) -> Table:
    names = set(wanted_names(source, table.schema))
    unwanted = [name for name in table.column_names if name not in names]
    wanted = table.select([place for place, name in enumerate(table.column_names) if name in names])
    without_nan = [_without_nan(column) for column in wanted.columns]
    return columns_of(source, flattened(source, pa.table(without_nan, names=wanted.column_names)), unwanted)


def _without_nan(column: Any) -> Any:
    if not pa.types.is_floating(column.type):
        return column
    return pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)


# -- pandas ------------------------------------------------------------------------------------------------------------


def _of_pandas(given: Any, source: Input) -> Table:
    """A frame, or a series as a table of one column."""
    frame = given if hasattr(given, "columns") else given.to_frame(given.name if given.name is not None else "item")
    names = [whole_text(str(name)) for name in frame.columns]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError("the column appears twice", field=twice)
    source.begins_with(names)
    columns: dict[str, Any] = {}
    extras: dict[str, Extra] = {}
    skipped: list[str] = []
    no_answers: dict[str, Mask] = {}
    for place, name in enumerate(names):
        if source.want(name) == "skip" and not source.goes_inside(name):
            skipped.append(source.known_as(name))
            continue
        series = frame.iloc[:, place]
        if source.known_as(name) == "prediction":
            series, no_answers = _without_no_answers(series, source.labels)
        try:
            columns[name] = pa.chunked_array([_array(series)])
        except _NO_COLUMN:
            kept = _texts(series)
            row = _first_of_another_kind(series)
            problem = InputError("holds values of several kinds, or of one that no column holds", line=row, field=name)
            extras[source.column(name)] = Extra(kept, problem)
    table = _of_arrow(pa.table(columns), source) if columns else Table({}, len(frame))
    read = [extra.problem for name, extra in extras.items() if source.demand.of(name, scored=source.scored) == "read"]
    return Table(
        table.columns,
        len(frame),
        problems=(*table.problems, *read),
        extras={**table.extras, **extras},
        skipped=(*skipped, *table.skipped),
        no_answers=no_answers,
    )


def _without_no_answers(series: Any, rules: LabelRules) -> tuple[Any, dict[str, Mask]]:
    """Predictions without the texts that mean no answer, and where these stood; numbers may stand next to them."""
    if str(series.dtype) not in ("object", "category") or not (rules.abstain or rules.unparsed):
        return series, {}
    series = series.astype(object)
    outcomes = np.array([rules.outcome_of(v) if isinstance(v, str) else None for v in series], dtype=object)
    masks = {outcome: outcomes == outcome for outcome in ("abstained", "unparsed") if (outcomes == outcome).any()}
    return series.mask(outcomes != np.array(None), None).infer_objects() if masks else series, masks


_NO_COLUMN = (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError)


def _array(series: Any) -> Column:
    """The values of a series; of any objects, those that are missing in some other way are left out before."""
    try:
        return pa.array(series, from_pandas=True)
    except (*_NO_COLUMN, UnicodeEncodeError):
        missing = series.isna().to_numpy()
        return arrow_array([None if lacks else value for value, lacks in zip(series, missing, strict=True)])


def _texts(series: Any) -> Column:
    missing = series.isna().to_numpy()
    return text_array([None if lacks else str(value) for value, lacks in zip(series, missing, strict=True)])


def _first_of_another_kind(series: Any) -> int:
    kinds = [type(value) for value, lacks in zip(series, series.isna(), strict=True) if not lacks]
    rows = [row for row, lacks in enumerate(series.isna(), 1) if not lacks]
    return next((row for row, kind in zip(rows, kinds, strict=True) if kind is not kinds[0]), rows[0] if rows else 1)


# -- lists of dictionaries ---------------------------------------------------------------------------------------------


def _of_rows(rows: Iterable[Any], source: Input) -> Table:
    """Dictionaries, one per row, as JSON lines are read."""
    lines = Lines(source)
    taken = list(rows)
    with lines.all_problems():
        for start in range(0, len(taken), _ROWS):
            part = taken[start : start + _ROWS]
            try:
                plain = [(row, _plain_row(each, row)) for row, each in enumerate(part, start + 1)]
            except RecursionError:
                raise InputError("the values of a row are nested too deeply, or hold themselves") from None
            lines.objects(plain)
        return lines.table()


def _plain_row(row: Any, number: int) -> dict[str, Any]:
    if not isinstance(row, Mapping):
        raise InputError("a dictionary is expected, as in the rows before", line=number)
    return {whole_text(str(key)): _plain(value) for key, value in row.items()}


def _plain(value: Any) -> Any:
    """A value in JSON's own types; what is missing in any library's way is None."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return whole_text(str(value))
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**63 else Flaw(TOO_LARGE)
    if isinstance(value, float | Decimal | Fraction):
        return None if value != value else float(value)
    if isinstance(value, Mapping):
        return {whole_text(str(key)): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple | set | np.ndarray):
        return [_plain(part) for part in value]
    if isinstance(value, np.generic):
        return None if value != value else _plain(value.item())
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    return value.isoformat() if isinstance(value, date | time) else whole_text(str(value))
