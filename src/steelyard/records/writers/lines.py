"""JSON lines: an object per row, without keys of missing values; the first has all keys, so that no column is lost."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from pathlib import Path

import msgspec

from steelyard.records.table import Records
from steelyard.records.writers.contract import batches, opened, some, writer


@writer("jsonl", ".jsonl", ".ndjson", text=True, packs=True)
def jsonl(parts: Iterable[Records], path: Path, _: bool) -> list[str]:
    encoder = msgspec.json.Encoder()
    _first, parts = some(parts)
    is_first = True
    with opened(path) as file:
        for names, rows in chain.from_iterable(batches(records, msgspec.Raw) for records in parts):
            objects = [{n: v for n, v in zip(names, row, strict=True) if v is not None} for row in rows]
            if is_first:
                objects[0], is_first = dict.fromkeys(names) | objects[0], False
            file.write(encoder.encode_lines(objects))
    return []
