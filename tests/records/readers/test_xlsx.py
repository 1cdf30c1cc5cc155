"""Excel workbooks: the first sheet in the kinds of CSV, what is said of the rest, and archives that are none."""

from __future__ import annotations

import hashlib
import importlib.util
import io
import random
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from steelyard.errors import InputError, UsageError
from steelyard.records.readers import read
from steelyard.records.readers import xlsx as xlsx_reader
from tests.support.xlsx import DAY, ERROR, FORMULA, MOMENT, archive, sheet_of, workbook

SECRET = "SECRET-PATIENT"
HEADER = ["item", "target"]
installed = pytest.mark.skipif(
    importlib.util.find_spec("python_calamine") is None, reason="python-calamine is not installed"
)


def written(folder: Path, content: bytes, name: str = "answers.xlsx") -> Path:
    (folder / name).write_bytes(content)
    return folder / name


def columns(path: Path, **how: Any) -> dict[str, list[Any]]:
    records = read(path, **how)
    return {name: records.column(name).to_pylist() for name in records.stated}


def refused(path: Path, **how: Any) -> InputError:
    with pytest.raises(InputError) as caught:
        read(path, **how)
    assert SECRET not in str(caught.value)
    return caught.value


def test_without_calamine_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "python_calamine", None)
    with pytest.raises(UsageError, match=r'needs python-calamine, .*; pip install "steelyard\[xlsx\]"'):
        read(written(tmp_path, workbook([HEADER, ["q1", "A"]])))


@installed
@pytest.mark.parametrize("name", ["a.xlsx", "a.xlsm", "a.zip", "a.csv", "a"])
def test_a_workbook_is_known_by_its_members(tmp_path: Path, name: str) -> None:
    path = written(tmp_path, workbook([HEADER, ["q1", "A"], ["q2", "B"]]), name)
    assert columns(path) == {"item": ["q1", "q2"], "target": ["A", "B"]}
    assert read(path).sources[0].sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


@installed
def test_cells_have_the_kinds_that_csv_would_give_them(tmp_path: Path) -> None:
    rows = [
        ["item", "whole", "number", "flag", "mixed", "code", "day", "moment", "large", "text"],
        [1, 3, 0.5, True, 1, "007", DAY, MOMENT, 2**60, "a"],
        [2, None, 2, False, "x", "008", None, None, 1, ""],
    ]
    assert columns(written(tmp_path, workbook(rows))) == {
        "item": [1, 2],
        "whole": [3, None],
        "number": [0.5, 2.0],
        "flag": [True, False],
        "mixed": ["1", "x"],
        "code": ["007", "008"],
        "day": ["2026-01-02", None],
        "moment": ["2026-01-02T12:00:00", None],
        "large": [float(2**60), 1.0],
        "text": ["a", None],
    }


@installed
def test_labels_are_decided_together_as_in_csv(tmp_path: Path) -> None:
    rows = [["item", "target", "prediction"], [1, 1, 1], [2, 0, "declined"]]
    assert columns(written(tmp_path, workbook(rows)))["target"] == ["1", "0"]


@installed
def test_blank_rows_and_columns_and_where_the_table_begins(tmp_path: Path) -> None:
    rows = [["item", None, "confidence"], ["q1", None, 0.5], [], ["q2", None, 7]]
    error = refused(written(tmp_path, workbook(rows, top=3, left=2)))
    assert (error.line, error.field) == (6, "confidence")
    assert columns(written(tmp_path, workbook(rows[:2], top=3, left=2))) == {"item": ["q1"], "confidence": [0.5]}


@installed
def test_errors_formulas_and_other_sheets_are_said(tmp_path: Path) -> None:
    rows = [["item", "a", "b"], ["q1", ERROR, FORMULA], ["q2", ERROR, 2]]
    path = written(tmp_path, workbook(rows, [[ERROR]], [["x"]]))
    records = read(path)
    assert (records.column("a").to_pylist(), records.column("b").to_pylist()) == ([None, None], [None, 2])
    assert records.warnings == (
        f"{path}: the workbook has 3 sheets; the first was read; `sheet=` names one",
        f"{path}: 2 cells hold errors such as #N/A, which are read as empty",
        f"{path}: 1 cells hold formulas without a stored value, which are read as empty",
    )
    assert read(written(tmp_path, workbook([HEADER, ["q1", "A"]]))).warnings == ()


BAD: dict[str, tuple[list[list[Any]], int | None, str]] = {
    "no rows": ([HEADER], None, "a header and no rows"),
    "nothing": ([], 1, "no records"),
    "a name twice": ([["item", "item"], ["q1", "q2"]], 1, "twice in the header"),
    "a number in words": ([["item", "confidence"], ["q1", 0.5], ["q2", SECRET]], 3, "a number is expected"),
    "a record twice": ([HEADER, [SECRET, "A"], [SECRET, "B"]], 3, "first at line 2"),
}


@installed
@pytest.mark.parametrize("bad", BAD)
def test_what_csv_would_refuse_is_refused_with_its_row(tmp_path: Path, bad: str) -> None:
    rows, line, problem = BAD[bad]
    error = refused(written(tmp_path, workbook(rows)))
    assert (error.line, problem in error.problem) == (line, True), error


@installed
def test_a_sheet_that_reaches_too_far_is_refused_before_it_is_read(tmp_path: Path) -> None:
    parts = _parts(workbook([HEADER, ["q1", "A"]]))
    far = '<row r="1"><c r="A1"><v>1</v></c></row><row r="1048576"><c r="XFD1048576"><v>1</v></c></row>'
    parts["xl/worksheets/1.xml"] = sheet_of(far)
    error = refused(written(tmp_path, archive(parts)))
    assert "reaches to row 1,048,576 and column 16,384" in error.problem


@installed
def test_places_of_cells_are_found_wherever_blocks_are_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [["item", "x"], *([n, ERROR if n % 3 else n] for n in range(300))]
    path = written(tmp_path, workbook(rows))
    for block in (50, 51, 1_000, 2**18):
        monkeypatch.setattr(xlsx_reader, "BLOCK", block)
        assert read(path).warnings == (f"{path}: 200 cells hold errors such as #N/A, which are read as empty",)


@installed
def test_a_bomb_is_refused(tmp_path: Path) -> None:
    parts = _parts(workbook([HEADER, ["q1", "A"]]))
    parts["xl/media/image.bin"] = "0" * 100 * 2**20
    for how in ({}, {"format": "xlsx"}):
        assert "this is no data" in refused(written(tmp_path, archive(parts)), **how).problem


def test_other_archives_and_files_are_refused(tmp_path: Path) -> None:
    other = written(tmp_path, archive({"a.txt": SECRET}))
    assert "looks like a zip archive" in refused(other).problem
    if importlib.util.find_spec("python_calamine") is not None:
        assert "holds no xl/workbook.xml" in refused(other, format="xlsx").problem
        assert "not a readable zip" in refused(written(tmp_path, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" * 9)).problem


@installed
def test_damaged_workbooks_are_refused_or_read_without_a_traceback(tmp_path: Path) -> None:
    whole = workbook([["item", "x"], *([f"{SECRET}-{n}", n / 2] for n in range(20))])
    rng = random.Random(3)
    for cut in range(0, len(whole), 41):
        refused(written(tmp_path, whole[:cut]), format="xlsx")
    for _ in range(100):
        parts = _parts(whole)
        name = rng.choice([name for name in parts if "workbook" in name or "sheet" in name])
        place = rng.randrange(len(parts[name]))
        parts[name] = parts[name][:place] + rng.choice('<>"/& 0A-') + parts[name][place + rng.randrange(3) :]
        try:
            read(written(tmp_path, archive(parts)), format="xlsx")
        except InputError as error:
            assert SECRET not in str(error)  # noqa: PT017


def _parts(content: bytes) -> dict[str, str]:
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        return {name: file.read(name).decode() for name in file.namelist()}
