"""How Parquet becomes columns: mapped into memory, then as any Arrow table."""

from __future__ import annotations

import pyarrow as pa

from steelyard.records.readers.arrow_columns import BROKEN, columns_of, flattened, wanted_names
from steelyard.records.readers.contract import Certainty, Table, reader
from steelyard.records.readers.head import Head
from steelyard.records.readers.inputs import Input


def sniff(head: Head) -> Certainty:
    if head.container:
        return "sure" if head.container == "parquet" else "no"
    return "maybe"  # a damaged one, which `load` says


@reader("parquet", about="an Apache Parquet file", suffixes=(".parquet", ".pq"), sniff=sniff)
def load(source: Input) -> Table:
    """The columns of a Parquet input."""
    import pyarrow.parquet as pq  # heavy, and needed by those who have such a file

    data = source.whole()
    try:
        file = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
        names = wanted_names(source, file.schema_arrow)
        table = flattened(source, file.read(columns=names))
    except BROKEN:
        what = "damaged or incomplete" if data.size else "empty"
        raise source.error(f"not a readable Parquet file: it is {what}, or of another format") from None
    return columns_of(source, table, [name for name in file.schema_arrow.names if name not in names])
