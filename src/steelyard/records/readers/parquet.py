"""How Parquet becomes columns: mapped into memory, structs flattened to dotted names, dictionaries decoded.

Dates and times become text as they are written; an index that pandas left behind is ignored. Parquet has no lines:
the line, in errors, is the number of the row.
"""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa

from steelyard.errors import InputError
from steelyard.records.readers.contract import (
    DEEPEST,
    MOST_COLUMNS,
    Certainty,
    Column,
    Input,
    Table,
    joined,
    reader,
)
from steelyard.records.readers.head import Head
from steelyard.records.schema import to_arrow

_PANDAS_INDEX = re.compile(r"__index_level_\d+__")


def sniff(head: Head) -> Certainty:
    if head.container:
        return "sure" if head.container == "parquet" else "no"
    return "maybe"  # a damaged one, which `load` says


@reader("parquet", about="an Apache Parquet file", suffixes=(".parquet", ".pq"), sniff=sniff)
def load(source: Input) -> Table:
    """The columns of a Parquet input."""
    table = _table(source)
    columns: dict[str, Column] = {}
    origins: dict[str, str] = {}
    for original, chunks in zip(table.column_names, table.columns, strict=True):
        if _PANDAS_INDEX.fullmatch(original):
            continue
        name = source.column(original)
        if name in columns:
            if origins[name] != original:
                raise source.taken(name)
            raise source.error("the column appears twice", field=name)
        if len(columns) == MOST_COLUMNS:
            raise source.error(f"more than {MOST_COLUMNS:,} columns", field=name)
        try:
            columns[name], origins[name] = _column(source, name, chunks), original
        except InputError as problem:
            raise source.error(problem.problem, line=problem.line, field=name) from None
    return Table(columns, table.num_rows)


def _table(source: Input) -> Any:
    """The file as an Arrow table without structs."""
    import pyarrow.parquet as pq  # heavy, and needed by those who have such a file

    data = source.whole()
    try:
        table = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True).read()
        for _ in range(DEEPEST):
            table = table.flatten()
    except (pa.ArrowException, OSError, ValueError, NotImplementedError):
        what = "damaged or incomplete" if data.size else "empty"
        raise source.error(f"not a readable Parquet file: it is {what}, or of another format") from None
    if not table.num_rows:
        raise source.error("there are no records: the file has no rows")
    return table


def _column(source: Input, name: str, chunks: Any) -> Column:
    """A column of one of the house's types; a value that is no text, where text is promised, is an error."""
    kind = chunks.type
    try:
        if pa.types.is_dictionary(kind):
            chunks, kind = chunks.cast(kind.value_type), kind.value_type
        time = pa.types.is_temporal(kind) and not pa.types.is_duration(kind)
        if time or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
            chunks = chunks.cast(pa.string())
        if pa.types.is_fixed_size_list(kind):
            chunks = chunks.cast(pa.list_(kind.value_type))
        column = joined([to_arrow(name, chunk, lambda row: (source.name, row + 1)) for chunk in chunks.chunks])
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        raise source.error(f"columns hold text, numbers, true/false or lists; this one holds {kind}") from None
    if pa.types.is_nested(kind) and not _is_plain(column.type.value_type):
        raise source.error("a list holds plain values, not lists or objects")
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        _check_text(source, column)
    return column


def _is_plain(kind: Any) -> bool:
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_boolean, pa.types.is_null)
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or any(test(kind) for test in tests)


def _check_text(source: Input, column: Column) -> None:
    """Arrow's own check refuses lone surrogates, which are data; anything else that is not UTF-8 is not."""
    if pa.types.is_nested(column.type):
        raise source.error("not UTF-8 text")
    for row, value in enumerate(column.cast(pa.large_string()).view(pa.large_binary()).to_pylist(), 1):
        try:
            (value or b"").decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            raise source.error("not UTF-8 text", line=row) from None
