"""Parquet and Arrow files: the columns as they are held."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from steelyard.records.table import Records
from steelyard.records.writers.contract import writer


@writer("parquet", ".parquet", ".pq")
def parquet(records: Records, path: Path, _: bool) -> list[str]:
    import pyarrow.parquet as pq

    pq.write_table(records.to_arrow(), path)
    return []


@writer("arrow", ".arrow", ".feather", ".ipc")
def arrow(records: Records, path: Path, _: bool) -> list[str]:
    table = records.to_arrow()
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as out:
        out.write_table(table)
    return []
