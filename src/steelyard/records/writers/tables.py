"""Parquet and Arrow files: the columns as they are held."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from steelyard.records.table import Records
from steelyard.records.writers.contract import some, writer


@writer("parquet", ".parquet", ".pq")
def parquet(parts: Iterable[Records], path: Path, _: bool) -> list[str]:
    import pyarrow.parquet as pq

    first, parts = some(parts)
    with pq.ParquetWriter(path, first.to_arrow().schema) as out:
        for records in parts:
            out.write_table(records.to_arrow())
    return []


@writer("arrow", ".arrow", ".feather", ".ipc")
def arrow(parts: Iterable[Records], path: Path, _: bool) -> list[str]:
    first, parts = some(parts)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, first.to_arrow().schema) as out:
        for records in parts:
            out.write_table(records.to_arrow())
    return []
