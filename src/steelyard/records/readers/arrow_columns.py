"""How Arrow tables become columns: structs flattened to dotted names, dictionaries decoded, dates and times as text.

An index that pandas left behind is ignored. Arrow has no lines: the line, in errors, is the number of the row.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from steelyard.errors import InputError
from steelyard.records.extras import Extra
from steelyard.records.readers.contract import DEEPEST, MOST_COLUMNS, Column, Table, joined
from steelyard.records.readers.inputs import Input
from steelyard.records.schema import LARGEST_INT, field_of, to_arrow

BROKEN = (pa.ArrowException, OSError, ValueError, NotImplementedError)
_PANDAS_INDEX = re.compile(r"__index_level_\d+__")


def wanted_names(source: Input, schema: Any) -> list[str]:
    """The columns of a file to read at all; `schema` is its own. Also says what the file begins with."""
    flat = schema
    for _ in range(DEEPEST):
        flat = pa.schema([part for each in flat for part in _parts(each)])
    source.begins_with(flat.names)
    inside = {each.name for each in schema if _goes_inside(source, each)}
    return [name for name in schema.names if name in inside or source.want(name) != "skip"]


def _goes_inside(source: Input, field: Any) -> bool:
    """True for a struct that is taken apart into columns."""
    return pa.types.is_struct(field.type) and source.goes_inside(field.name, [part.name for part in field.type])


def _parts(field: Any) -> list[Any]:
    if not pa.types.is_struct(field.type):
        return [field]
    return [pa.field(f"{field.name}.{part.name}", part.type) for part in field.type]


def flattened(source: Input, table: Any) -> Any:
    """The table without structs, but for those that nobody wants taken apart."""
    for _ in range(DEEPEST):
        columns, names = [], []
        for field, column in zip(table.schema, table.columns, strict=True):
            taken_apart = _goes_inside(source, field)
            parts = pa.table({field.name: column}).flatten() if taken_apart else pa.table({field.name: column})
            columns += parts.columns
            names += parts.column_names
        table = pa.Table.from_arrays(columns, names=names)
    return table


def columns_of(source: Input, table: Any, unwanted: Sequence[str] = ()) -> Table:
    """The columns of an Arrow table, flattened as far as wanted, in the house's types; `unwanted` are not in it."""
    if not table.num_rows:
        raise source.error("there are no records: the file has no rows")
    columns: dict[str, Column] = {}
    problems: list[InputError] = []
    extras: dict[str, Extra] = {}
    skipped = list(unwanted)
    origins: dict[str, str] = {}
    for original, chunks in zip(table.column_names, table.columns, strict=True):
        if _PANDAS_INDEX.fullmatch(original):
            continue
        name, want = source.column(original), source.want(original)
        if name in origins:
            if origins[name] != original:
                raise source.taken(name)
            raise source.error("the column appears twice", field=name)
        if len(origins) == MOST_COLUMNS:
            raise source.error(f"more than {MOST_COLUMNS:,} columns", field=name)
        origins[name] = original
        if want == "skip":
            skipped.append(name)
            continue
        try:
            columns[name] = _column(source, name, chunks)
        except InputError as problem:
            placed = source.error(problem.problem, line=problem.line, field=name)
            if want == "read":
                problems.append(placed)
            else:
                extras[name] = Extra(chunks.combine_chunks(), placed)
                _check_encoding(source, name, extras[name].column)
            continue
        _check_encoding(source, name, columns[name])
    return Table(columns, table.num_rows, problems=tuple(problems), extras=extras, skipped=tuple(skipped))


def _column(source: Input, name: str, chunks: Any) -> Column:
    """A column of one of the house's types; a value that is no text, where text is promised, is an error."""
    stated = chunks.type
    try:
        chunks = _decoded(chunks)
        kind = chunks.type
        time = pa.types.is_temporal(kind) and not pa.types.is_duration(kind)
        if time or _is_binary(kind):
            chunks = chunks.cast(pa.string())
        column = joined([to_arrow(name, chunk, lambda row: (source.name, row + 1)) for chunk in chunks.chunks])
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        raise source.error(f"columns hold text, numbers, true/false or lists; this one holds {stated}") from None
    if pa.types.is_nested(kind) and not _is_plain(column.type.value_type):
        raise source.error("a list holds plain values, not lists or objects")
    return _whole(name, column)


def _whole(name: str, column: Column) -> Column:
    """Whole numbers where a column must hold them: many tools make fractions of those next to a missing value."""
    rule = field_of(name)
    if rule is None or "float" in rule.kinds or "int" not in rule.kinds or not pa.types.is_floating(column.type):
        return column
    whole = pc.all(pc.and_(pc.is_finite(column), pc.equal(pc.floor(column), column)), min_count=0).as_py()
    return column.cast(pa.int64()) if whole and pc.max(pc.abs(column)).as_py() < LARGEST_INT else column


def _decoded(chunks: Any) -> Any:
    """The values themselves, where they are stored in some other form: as a dictionary, as runs, as views."""
    kind = chunks.type
    if isinstance(kind, pa.BaseExtensionType):
        return _decoded(pa.chunked_array([chunk.storage for chunk in chunks.chunks], kind.storage_type))
    if pa.types.is_dictionary(kind):
        values = [chunk.dictionary.cast(_text_of_views(kind.value_type)).take(chunk.indices) for chunk in chunks.chunks]
        return _decoded(pa.chunked_array(values, _text_of_views(kind.value_type)))
    if pa.types.is_run_end_encoded(kind):
        return _decoded(pa.chunked_array([pc.run_end_decode(c) for c in chunks.chunks], kind.value_type))
    if pa.types.is_nested(kind):
        return chunks.cast(_plain_list(kind))
    return chunks.cast(_text_of_views(kind))


def _plain_list(kind: Any) -> Any:
    """The usual form of a list that has a fixed size, or that holds views."""
    if pa.types.is_fixed_size_list(kind) or pa.types.is_list(kind):
        return pa.list_(_text_of_views(kind.value_type))
    return pa.large_list(_text_of_views(kind.value_type)) if pa.types.is_large_list(kind) else kind


def _text_of_views(kind: Any) -> Any:
    """The usual form of text and of bytes that are stored as views, which most of Arrow's functions do not take."""
    return pa.string() if pa.types.is_string_view(kind) else pa.binary() if pa.types.is_binary_view(kind) else kind


def _is_binary(kind: Any) -> bool:
    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind)


def _is_plain(kind: Any) -> bool:
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_boolean, pa.types.is_null)
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or any(test(kind) for test in tests)


def _check_encoding(source: Input, name: str, column: Column) -> None:
    """Refuse texts that are no UTF-8, which Arrow itself does not look at before."""
    rows = None
    try:
        column.validate(full=True)
        return
    except pa.ArrowInvalid:
        if pa.types.is_nested(column.type):
            rows = pc.list_parent_indices(column).to_numpy()
            column = column.flatten()
        if pa.types.is_nested(column.type):
            raise source.error("not UTF-8 text", field=name) from None
    for row, value in enumerate(column.cast(pa.large_string()).view(pa.large_binary()).to_pylist(), 1):
        try:
            (value or b"").decode()
        except UnicodeDecodeError:
            line = row if rows is None else int(rows[row - 1]) + 1
            raise source.error("not UTF-8 text", line=line, field=name) from None
