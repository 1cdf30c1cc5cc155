"""How a sheet of an Excel workbook becomes columns: a header, then rows, in the kinds that CSV would give them.

The only sheet is read, or the one that `sheet=` names; of several the first, but no hidden one by itself. All numbers
are fractions there: those that are whole become whole numbers. Dates and times become ISO text. Empty cells are null,
and so are errors (#N/A) and formulas without a stored value, which are counted in a warning. In errors, the line is the
row of the sheet. Needs python-calamine (the extra `xlsx`).
"""

from __future__ import annotations

import datetime
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from steelyard.errors import UsageError, counted, printable
from steelyard.records.readers.bundles import BLOCK, Bundle
from steelyard.records.readers.cell_kinds import table_of_cells
from steelyard.records.readers.contract import Certainty, Column, Table, joined, reader
from steelyard.records.readers.csv import header_names, named
from steelyard.records.readers.head import Head
from steelyard.records.readers.inputs import Input
from steelyard.records.readers.zips import zip_bundle

MOST_CELLS = 50_000_000  # the sheet is held as a full rectangle, whatever of it is empty
_WORKBOOK = "xl/workbook.xml"
_LARGEST_PART = 2**24  # bytes of the parts that say what the sheets are
_BATCH = 2_000  # rows
_NAMED = 10  # sheets, in a message
_EXACT = 2**53
_SHEET = re.compile(rb"<(?:\w+:)?sheet\s[^>]*?\bid=[\"']([^\"']+)[\"']")
_RELATION = re.compile(rb"<(?:\w+:)?Relationship\s[^>]*>")
_ATTRIBUTE = re.compile(rb"\b(Id|Target)=[\"']([^\"']*)[\"']")
_CELL = re.compile(rb"<(?:\w+:)?c\s[^>]*?\br=[\"']([A-Z]{1,3})([0-9]{1,7})[\"']")
_ERROR = re.compile(rb"<(?:\w+:)?c\s[^>]*?\bt=[\"']e[\"']")
_NO_VALUE = re.compile(rb"(?:</(?:\w+:)?f>|<(?:\w+:)?f\s[^>]*/>)\s*(?:<(?:\w+:)?v\s*/>|<v></v>)?\s*</(?:\w+:)?c>")
_LONGEST_TAG = 2**12


def sniff(head: Head) -> Certainty:
    if head.container == "zip":
        return "sure" if _WORKBOOK in (head.members or ()) else "no"
    return "no" if head.container or head.text else "maybe"  # a damaged one, which `load` says


@reader("xlsx", about="a sheet of an Excel workbook", suffixes=(".xlsx", ".xlsm"), sniff=sniff, sheets=True)
def load(source: Input) -> Table:
    """The columns of a sheet of a workbook."""
    data = source.whole().to_pybytes()
    calamine = _calamine(source)
    try:
        workbook = calamine.CalamineWorkbook.from_filelike(io.BytesIO(data))
        names = list(workbook.sheet_names)
        hidden = [each.visible != calamine.SheetVisibleEnum.Visible for each in workbook.sheets_metadata]
    except Exception:  # its errors may hold parts of the file
        workbook, names, hidden = None, [], []
    place = _chosen(source, names, hidden) if names else 0
    empty = _checked(source, zip_bundle(source.name, io.BytesIO(data)), place)
    try:
        sheet = workbook.get_sheet_by_index(place)
        rows = iter(sheet.iter_rows() if sheet.start is not None else ())
    except Exception:  # also where nothing was opened
        raise source.error("not a readable workbook: it is damaged, or of another format") from None
    table = _table(source, rows)
    for what, count in empty.items():
        if count:
            source.caution("cells", f"{count:,} cells hold {what}", min(1.0, count / table.rows))
    return table


def _chosen(source: Input, names: Sequence[str], hidden: Sequence[bool]) -> int:
    """The sheet that is read; a caution where there are others that nobody decided about."""
    if source.sheet is not None:
        if source.sheet not in names:
            shown = ", ".join(f"'{printable(name)}'" for name in names[:_NAMED])
            raise UsageError(f"{printable(source.name)} has no sheet '{printable(source.sheet)}'; there are: {shown}")
        return names.index(source.sheet)
    visible = [place for place, unseen in enumerate(hidden) if not unseen]
    if hidden[0] and len(visible) != 1:
        problem = f"the first of its {len(names)} sheets is hidden; name the one to read with `sheet=`"
        raise UsageError(f"{printable(source.name)}: {problem}")
    place = visible[0] if hidden[0] else 0
    if len(names) > 1:
        unseen = f", {counted(sum(hidden), 'hidden one')} among them" if any(hidden) else ""
        read = "the only visible one" if len(visible) == 1 else "the first"
        source.caution("sheets", f"the workbook has {len(names)} sheets{unseen}; {read} was read; `sheet=` names one")
    return place


def _calamine(source: Input) -> Any:
    try:
        import python_calamine
    except ImportError:
        raise UsageError(
            f"{printable(source.name)}: an Excel workbook needs python-calamine, which is not installed; "
            'pip install "steelyard[xlsx]"'
        ) from None
    return python_calamine


# -- the archive -------------------------------------------------------------------------------------------------------


def _checked(source: Input, bundle: Bundle, place: int) -> dict[str, int]:
    """Refuse an archive that is damaged or a bomb, and a sheet whose rectangle is; returns what cells hold no value."""
    if _WORKBOOK not in bundle.names():
        raise source.error("not a workbook: the archive holds no xl/workbook.xml")
    first = _sheet_at(bundle, place)
    rows = width = errors = empty = 0
    for name in bundle.names():
        for text in _pieces(bundle, name):
            if name == first or (first is None and name.startswith("xl/worksheets/")):
                cells = _CELL.findall(text)
                rows = max(rows, *(int(row) for _, row in cells), 0)
                width = max(width, *(_number(letters) for letters in {letters for letters, _ in cells}), 0)
                errors += len(_ERROR.findall(text))
                empty += len(_NO_VALUE.findall(text))
    if rows * width > MOST_CELLS:
        raise source.error(f"the sheet reaches to row {rows:,} and column {width:,}; save the part with data as CSV")
    return {
        "errors such as #N/A, which are read as empty": errors,
        "formulas without a stored value, which are read as empty": empty,
    }


def _sheet_at(bundle: Bundle, place: int) -> str | None:
    """The member that holds a sheet, by its place; None where that is not written as usual."""
    relations = "xl/_rels/workbook.xml.rels"
    sheet = next(islice(_SHEET.finditer(bundle.read(_WORKBOOK, _LARGEST_PART)), place, None), None)
    if sheet is None or relations not in bundle.names():
        return None
    for relation in _RELATION.findall(bundle.read(relations, _LARGEST_PART)):
        stated = dict(_ATTRIBUTE.findall(relation))
        if stated.get(b"Id") == sheet[1]:
            target = stated.get(b"Target", b"").decode(errors="replace")
            name = target.removeprefix("/") if target.startswith("/") else f"xl/{target}"
            return name if name in bundle.names() else None
    return None


def _pieces(bundle: Bundle, name: str) -> Iterator[bytes]:
    """The text of a member in pieces that end where a cell does."""
    rest = b""
    with bundle.open(name) as stream:
        while data := stream.read(BLOCK):
            text = rest + data
            cut = text.rfind(b"c>") + 2 if b"c>" in text else max(len(text) - _LONGEST_TAG, 0)
            yield text[:cut]
            rest = text[cut:]
    yield rest


def _number(letters: bytes) -> int:
    """The number of a column.

    >>> _number(b"A"), _number(b"Z"), _number(b"AA")
    (1, 26, 27)
    """
    number = 0
    for letter in letters:
        number = 26 * number + letter - 64
    return number


# -- the sheet ---------------------------------------------------------------------------------------------------------


def _table(source: Input, rows: Iterator[list[Any]]) -> Table:
    texts = ((line, [_text(cell) for cell in row]) for line, row in enumerate(rows, 1))
    filled = ((line, cells) for line, cells in texts if any(cells))
    top, header = next(filled, (1, []))
    batches: list[list[Column]] = []
    lines: list[int] = []
    while batch := list(islice(filled, _BATCH)):
        lines += [line for line, _ in batch]
        batches.append([pa.array(cells, pa.string()) for cells in zip(*(cells for _, cells in batch), strict=True)])
    columns = [joined(list(chunks)) for chunks in zip(*batches, strict=True)]
    used = [place for place, name in enumerate(header) if name or (lines and any(columns[place].to_pylist()))]
    originals = header_names(source, [header[place] for place in used], top)
    names = named(source, originals)
    if not lines:
        raise source.error("there are no records: the sheet has a header and no rows")
    wants = [source.want(original) for original in originals]
    cells = {n: columns[place] for n, place, want in zip(names, used, wants, strict=True) if want != "skip"}
    skipped = tuple(name for name, want in zip(names, wants, strict=True) if want == "skip")
    return replace(table_of_cells(source, cells, np.array(lines)), skipped=skipped)


def _text(cell: Any) -> str:
    """A cell as CSV would have it."""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, int | float):
        return str(int(cell)) if float(cell).is_integer() and abs(cell) < _EXACT else repr(float(cell))
    if isinstance(cell, datetime.date | datetime.time):
        return cell.isoformat()
    return str(cell)
