"""CSV and TSV: a header, then a line per row; what a spreadsheet would run as a formula is made harmless."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable
from itertools import chain
from math import isfinite
from pathlib import Path
from typing import Any

from steelyard.records.table import Records
from steelyard.records.writers.contract import batches, opened, some, writer

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?")


@writer("csv", ".csv", text=True, packs=True)
def comma_separated(parts: Iterable[Records], path: Path, verbatim: bool) -> list[str]:
    return _cells(parts, path, ",", verbatim=verbatim)


@writer("tsv", ".tsv", text=True, packs=True)
def tab_separated(parts: Iterable[Records], path: Path, verbatim: bool) -> list[str]:
    return _cells(parts, path, "\t", verbatim=verbatim)


def _cells(parts: Iterable[Records], path: Path, delimiter: str, *, verbatim: bool) -> list[str]:
    formulas = 0
    _first, parts = some(parts)
    with opened(path) as file:
        text = io.TextIOWrapper(file, "utf-8", newline="")
        out = csv.writer(text, delimiter=delimiter, lineterminator="\n")
        for place, (names, rows) in enumerate(chain.from_iterable(batches(records, str) for records in parts)):
            for row in rows if place else chain([names], rows):
                cells = [_cell(value) for value in row]
                if not verbatim:
                    unsafe = [isinstance(v, str) and _runs(v) for v in row]
                    formulas += sum(unsafe)
                    cells = [f"'{cell}" if bad else cell for cell, bad in zip(cells, unsafe, strict=True)]
                out.writerow(cells)
        text.flush()
        text.detach()
    said = "texts that a spreadsheet would run as formulas begin with an apostrophe now; `verbatim=True` leaves them"
    return [f"{formulas:,} {said}"] if formulas else []


def _runs(text: str) -> bool:
    """True if a spreadsheet would take a text for a formula."""
    return text.startswith(_FORMULA) and not _NUMBER.fullmatch(text)


def _cell(value: Any) -> str:
    if value is None or (isinstance(value, float) and not isfinite(value)):
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value, default=str) if isinstance(value, list | dict) else str(value)
