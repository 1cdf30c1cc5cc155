"""How Arrow's own files become columns: IPC files and streams, and both versions of Feather; mapped into memory.

They are checked in full before anything is done with them: a file may state lengths and places that are not its own.
"""

from __future__ import annotations

import warnings
from typing import Any

import pyarrow as pa

from steelyard.records.readers.arrow_columns import BROKEN, columns_of, flattened, wanted_names
from steelyard.records.readers.contract import Certainty, Table, reader
from steelyard.records.readers.head import Head
from steelyard.records.readers.inputs import Input

_FILE, _FIRST_FEATHER = b"ARROW1", b"FEA1"


def sniff(head: Head) -> Certainty:
    if head.container:
        return "sure" if head.container in ("arrow", "feather") else "no"
    return "maybe"  # a damaged one, which `load` says


@reader(
    "arrow",
    about="an Arrow IPC file or stream, or a Feather file",
    suffixes=(".arrow", ".arrows", ".feather", ".ipc"),
    sniff=sniff,
)
def load(source: Input) -> Table:
    """The columns of an Arrow input."""
    data = source.whole()
    try:
        table = _table(data)
        for column in table.columns:
            _check(column)
        names = set(wanted_names(source, table.schema))
        unwanted = [name for name in table.column_names if name not in names]
        wanted = table.select([place for place, name in enumerate(table.column_names) if name in names])
        table = flattened(source, wanted)
    except BROKEN:
        what = "damaged or incomplete" if data.size else "empty"
        raise source.error(f"not readable as Arrow data: it is {what}, or of another format") from None
    return columns_of(source, table, unwanted)


def _table(data: pa.Buffer) -> Any:
    mark = data[:8].to_pybytes() if data.size else b""
    if mark.startswith(_FILE):
        return pa.ipc.open_file(data).read_all()
    if mark.startswith(_FIRST_FEATHER):
        from pyarrow import feather

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of this version, which is old
            return feather.read_table(pa.BufferReader(data))
    return pa.ipc.open_stream(data).read_all()


def _check(column: Any) -> None:
    """Refuse a column whose parts do not fit; texts that are not UTF-8 are left to those who can say where."""
    try:
        column.validate(full=True)
    except pa.ArrowInvalid as problem:
        if "UTF8" not in str(problem) or pa.types.is_dictionary(column.type) or pa.types.is_nested(column.type):
            raise
