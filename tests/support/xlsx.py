"""Excel workbooks, as small as they can be: every cell written as a file would have it."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_SHEET = "application/vnd.openxmlformats-officedocument.spreadsheetml"


class Cell(NamedTuple):
    """A cell as its own XML: attributes, and what is in it."""

    attributes: str
    content: str


ERROR = Cell(' t="e"', "<v>#N/A</v>")
FORMULA = Cell("", "<f>1+1</f>")  # without the value that Excel would store
DAY, MOMENT = Cell(' s="1"', "<v>46024</v>"), Cell(' s="2"', "<v>46024.5</v>")


def workbook(*sheets: Sequence[Sequence[Any]], top: int = 1, left: int = 0, hidden: Sequence[int] = ()) -> bytes:
    """A workbook with these sheets, s1 and on; the first cell of each is in row `top`, behind `left` empty columns."""
    names, unseen = range(1, len(sheets) + 1), dict.fromkeys(hidden, ' state="hidden"')
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}/content-types">'
        f'<Override PartName="/xl/workbook.xml" ContentType="{_SHEET}.sheet.main+xml"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{_PACKAGE}/relationships"><Relationship Id="r" '
        f'Type="{_OFFICE}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{_MAIN}" xmlns:r="{_OFFICE}"><sheets>'
        + "".join(f'<sheet name="s{n}" sheetId="{n}"{unseen.get(n, "")} r:id="r{n}"/>' for n in names)
        + "</sheets></workbook>",
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{_PACKAGE}/relationships">'
        + "".join(f'<Relationship Id="r{n}" Type="{_OFFICE}/worksheet" Target="worksheets/{n}.xml"/>' for n in names)
        + f'<Relationship Id="rs" Type="{_OFFICE}/styles" Target="styles.xml"/></Relationships>',
        "xl/styles.xml": f'<styleSheet xmlns="{_MAIN}"><cellXfs><xf numFmtId="0"/><xf numFmtId="14"/>'
        '<xf numFmtId="22"/></cellXfs></styleSheet>',
        **{f"xl/worksheets/{n}.xml": _sheet(rows, top, left) for n, rows in zip(names, sheets, strict=True)},
    }
    return archive(parts)


def archive(parts: dict[str, str]) -> bytes:
    """The parts as a zip archive."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        for name, text in parts.items():
            file.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), text, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def sheet_of(rows: str) -> str:
    """A sheet of rows that are XML already."""
    return f'<worksheet xmlns="{_MAIN}"><sheetData>{rows}</sheetData></worksheet>'


def _sheet(rows: Sequence[Sequence[Any]], top: int, left: int) -> str:
    texts = []
    for number, row in enumerate(rows, top):
        cells = "".join(_cell(f"{chr(65 + left + n)}{number}", value) for n, value in enumerate(row))
        texts.append(f'<row r="{number}">{cells}</row>')
    return sheet_of("".join(texts))


def _cell(place: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        value = Cell(' t="inlineStr"', f"<is><t xml:space='preserve'>{escape(value)}</t></is>")
    elif isinstance(value, bool):
        value = Cell(' t="b"', f"<v>{int(value)}</v>")
    elif isinstance(value, int | float):
        value = Cell("", f"<v>{value!r}</v>")
    return f'<c r="{place}"{value.attributes}>{value.content}</c>'
