"""CSV: strict rows, kinds that hold for a whole column, and no silent third class."""

from __future__ import annotations

import csv
import hashlib
import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.errors import InputError, SteelyardError, UsageError
from steelyard.records.readers import csv as csv_reader
from steelyard.records.readers import inputs, read
from steelyard.records.schema import kind_of

SECRET = "SECRET-PATIENT"


def written(folder: Path, content: str | bytes, name: str = "answers.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def column(folder: Path, name: str, *cells: str) -> tuple[str, list[Any]]:
    """Kind and values of one column with these cells."""
    buffer = io.StringIO()
    csv.writer(buffer).writerows([["item", name], *([f"q{i}", cell] for i, cell in enumerate(cells))])
    found = read(written(folder, buffer.getvalue())).column(name)
    return kind_of(found), found.to_pylist()


def refused(folder: Path, content: str | bytes, **options: Any) -> InputError:
    path = written(folder, content)
    with pytest.raises(InputError) as caught:
        read(path, **options)
    assert caught.value.file == str(path)
    assert SECRET not in str(caught.value)
    return caught.value


def test_a_small_file(tmp_path: Path) -> None:
    content = (
        "item,target,prediction,confidence,should_abstain,group.site,latency_ms,note\r\n"
        'q1,A,B,1,true,north,12,"two\r\nlines, quoted ""so"""\r\n'
        "\r\n"
        "q2,B,,0.25,FALSE,south,,NA\r\n"
    )
    path = written(tmp_path, content)
    records = read(path)
    table = {name: records.column(name).to_pylist() for name in records.stated}
    assert table == {
        "item": ["q1", "q2"],
        "target": ["A", "B"],
        "prediction": ["B", None],
        "confidence": [1.0, 0.25],
        "should_abstain": [True, False],
        "group.site": ["north", "south"],
        "latency_ms": [12.0, None],
        "note": ['two\r\nlines, quoted "so"', "NA"],
    }
    assert records.counts()["abstained"] == 1
    assert [records.where(row) for row in (0, 1)] == [(str(path), 2), (str(path), 5)]
    assert records.sources[0].sha256 == hashlib.sha256(content.encode()).hexdigest()


@pytest.mark.parametrize(
    ("cells", "kind", "found"),
    [
        (["1", "-2", ""], "int", [1, -2, None]),
        (["1", "2.5", ""], "float", [1.0, 2.5, None]),
        (["1e3", ".5", "1.", "-0", "-1.5E-3"], "float", [1000.0, 0.5, 1.0, -0.0, -0.0015]),
        (["true", "FALSE", "True"], "bool", [True, False, True]),
        (["true", "1"], "text", ["true", "1"]),
        (["007", "1"], "text", ["007", "1"]),
        (["+1", "1"], "text", ["+1", "1"]),
        (["1_000"], "text", ["1_000"]),
        (["0,5", "1"], "text", ["0,5", "1"]),
        (["NA", "None", "null", "NaN", ""], "text", ["NA", "None", "null", "NaN", None]),
        (["1", "NA"], "text", ["1", "NA"]),
        (["", ""], "null", [None, None]),
        (["9" * 15, "1"], "int", [10**15 - 1, 1]),
        (["9" * 19, "1"], "text", ["9" * 19, "1"]),
        (["9" * 18, "0.5"], "text", ["9" * 18, "0.5"]),
        (["٣"], "text", ["٣"]),
        (["0x10", "1"], "text", ["0x10", "1"]),
    ],
)
@pytest.mark.parametrize("name", ["extra", "target", "signal.x"])
def test_the_kind_of_a_whole_column(tmp_path: Path, name: str, cells: list[str], kind: str, found: list[Any]) -> None:
    assert column(tmp_path, name, *cells) == (kind, found)


@pytest.mark.parametrize("name", ["model", "repeat", "cluster", "group.site"])
def test_ids_and_groups_are_text_or_whole_numbers(tmp_path: Path, name: str) -> None:
    assert column(tmp_path, name, "1", "2", "9" * 18) == ("int", [1, 2, 10**18 - 1])
    assert column(tmp_path, name, "1", "2.5") == ("text", ["1", "2.5"])
    assert column(tmp_path, name, "1", "nan") == ("text", ["1", "nan"])


@pytest.mark.parametrize(
    ("targets", "predictions", "kind"),
    [
        (["1", "2"], ["1", "x"], "text"),
        (["1", "2"], ["1", "2.5"], "float"),
        (["1", "2"], ["1", ""], "int"),
        (["true", "false"], ["true", "maybe"], "text"),
        (["1", "2"], ["true", "false"], "text"),
        (["01", "2"], ["1", "2"], "text"),
        (["1", "2"], ["", ""], "int"),
    ],
)
def test_target_and_prediction_are_of_one_kind(
    tmp_path: Path, targets: list[str], predictions: list[str], kind: str
) -> None:
    rows = "".join(f"{i},{t},{p}\n" for i, (t, p) in enumerate(zip(targets, predictions, strict=True)))
    records = read(written(tmp_path, "item,target,prediction\n" + rows))
    assert kind_of(records.column("target")) == kind
    if predictions != ["", ""]:
        assert kind_of(records.column("prediction")) == kind
    same = [float(t == p) for t, p in zip(targets, predictions, strict=True)]
    assert records.array("correct").tolist() == same


BAD_CELLS = {
    "decimal comma": ("confidence", "0,5", "decimal comma"),
    "decimal comma in a count": ("input_tokens", "1,5", "decimal comma"),
    "text as number": ("confidence", SECRET, "a number is expected"),
    "boolean as number": ("latency_ms", "true", "a number is expected"),
    "NaN": ("confidence", "NaN", "finite"),
    "inf": ("latency_ms", "-inf", "finite"),
    "Infinity": ("latency_ms", "Infinity", "finite"),
    "1e999": ("latency_ms", "1e999", "finite"),
    "1e999 as target": ("target", "1e999", "finite"),
    "NaN among numbers": ("extra", "NaN", "finite"),
    "NaN among targets": ("target", "nan", "finite"),
    "1e999 among numbers": ("extra", "1e999", "finite"),
    "leading zero": ("confidence", "00.5", "a number is expected"),
    "fraction as count": ("input_tokens", "1.5", "a whole number is expected"),
    "huge count": ("input_tokens", "9" * 25, "this large"),
    "huge number": ("latency_ms", "9" * 25, "this large"),
    "one as boolean": ("should_abstain", "1", "true or false is expected"),
    "percentage": ("confidence", "80", "divide percentages by 100"),
    "unknown outcome": ("outcome", SECRET, "one of answered"),
}


@pytest.mark.parametrize("bad", BAD_CELLS)
def test_a_bad_cell_is_refused_with_line_and_field(tmp_path: Path, bad: str) -> None:
    name, cell, reason = BAD_CELLS[bad]
    good = {"confidence": "0.5", "should_abstain": "true", "outcome": "unparsed"}.get(name, "1")
    buffer = io.StringIO()
    rows = [["x", "q"], ["two\nlines", "r"], ["y", "s"]]
    for row, value in zip(rows, [good, cell, "" if name != "item" else "7"], strict=True):
        row.append(value)
    header = ["note", "item" if name != "item" else "id", name]
    csv.writer(buffer).writerows([header, *rows])
    error = refused(tmp_path, buffer.getvalue(), columns=[name])
    assert (error.line, error.field) == (3, name)
    assert reason in error.problem
    if name == "extra":
        kept = read(written(tmp_path, buffer.getvalue()))  # nobody asked for it
        with pytest.raises(InputError) as caught:
            kept.column(name)
        assert str(caught.value) == str(error)


@pytest.mark.parametrize(
    ("name", "cell", "clean"),
    [
        ("confidence", " 0.5", 0.5),
        ("target", "A\t", "A"),
        ("prediction", "A\r", "A"),
        ("group.site", "x\n", "x"),
        ("cluster", "p1\u00a0", "p1"),
        ("target", "\ufeffA", "A"),
        ("repeat", "1\t", 1),
        ("site", "x\t ", "x"),
    ],
)
def test_white_space_around_what_is_read_is_removed_and_said(
    tmp_path: Path, name: str, cell: str, clean: object
) -> None:
    buffer = io.StringIO()
    header = ["note", "item" if name != "item" else "repeat", name]
    rows = [[" kept ", "1", cell], ["x", "2", cell]]
    csv.writer(buffer).writerows([header, *rows])
    records = read(written(tmp_path, buffer.getvalue()), columns=["site", "note"], only=["site", "note", name])
    assert records.column(name).to_pylist() == [clean, clean]
    assert f"white space around 2 values of '{name}' was removed; `labels=exact` keeps it" in records.warnings
    assert records.column("note").to_pylist()[0] == "kept"
    if isinstance(clean, str):
        exact = read(written(tmp_path, buffer.getvalue()), columns=["site"], labels="exact")
        assert exact.column(name).to_pylist() == [cell, cell]
        assert exact.warnings == ()


def test_white_space_in_other_columns(tmp_path: Path) -> None:
    assert column(tmp_path, "note", "a ", "b") == ("text", ["a ", "b"])
    assert column(tmp_path, "note", " a", "b\t", "\n") == ("text", [" a", "b\t", "\n"])
    for rows, line in (("1,x\n2,y \n3,z\n4,x\t\n", 5), (f'1,"{SECRET} "\n2,"{SECRET}\t"\n', 2)):
        records = read(written(tmp_path, f"item,site\n{rows}"))  # two classes that look like one: nobody can read it
        with pytest.raises(InputError) as caught:
            records.labels("site")
        assert (caught.value.line, caught.value.field) == (line, "site")
        assert SECRET not in str(caught.value)


def test_a_carriage_return_inside_a_row_is_no_label(tmp_path: Path) -> None:
    assert refused(tmp_path, "item,target,prediction\nq1,A\r,B\n").line == 2
    doubled = read(written(tmp_path, "item,target\r\r\nq1,A\r\r\nq2,A\r\r\n"))
    assert doubled.labels("target").values == ("A",)


BAD_ROWS = {
    "unterminated quote": (f'q1,"{SECRET}\nq2,B\nq3,C\n', "not closed"),
    "unterminated quote before others": (f'q1,"{SECRET}\nq2,"B"\n', "not closed"),
    "text after a quote": (f'q1,"A"{SECRET}\n', "follows its closing quote"),
    "short row": (f"{SECRET}\nq2,B\n", "2 cells are expected as in the header, this row has 1"),
    "long row": (f"q1,A,{SECRET}\n", "this row has 3"),
    "decimal comma without quotes": ("q1,0,5\n", "decimal comma"),
}


@pytest.mark.parametrize("bad", BAD_ROWS)
def test_a_bad_row_is_refused_with_its_line(tmp_path: Path, bad: str) -> None:
    rows, reason = BAD_ROWS[bad]
    error = refused(tmp_path, 'item,target\nq8,"A\nA"\n\nq9,B\n' + rows)
    assert error.line == 6
    assert reason in error.problem


BAD_HEADERS = {
    "duplicate": ("item,target,target\n1,A,B\n", "target", "appears twice"),
    "duplicate but for white space": ("item,target, target\n1,A,B\n", "target", "appears twice"),
    "semicolons": ("item;target;confidence\nq1;A;0,5\n", None, "separated by semicolons"),
    "tabs": ("item\ttarget\n1\tA\n", None, "separated by tabs"),
    "unclosed": ('item,"target\n1,A\n', None, "not closed"),
    "too many": (",".join(f"c{i}" for i in range(1001)) + "\n", None, "1,000 columns"),
}


def test_long_files_are_put_together_from_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_reader, "_BATCH", 3)
    monkeypatch.setattr(csv_reader, "_BATCHES", 2)
    for size in (1, 5, 6, 7, 12, 13, 31):
        rows = [(i, f"t{i}", 0.5 + i) for i in range(size)]
        content = "item,note,x\n" + "".join(f"{i},{note},{x}\n" for i, note, x in rows)
        records = read(written(tmp_path, content))
        assert list(zip(*(records.column(n).to_pylist() for n in ("item", "note", "x")), strict=True)) == rows


def test_headers_as_people_write_them(tmp_path: Path) -> None:
    records = read(written(tmp_path, ",item, target,prediction \n0,1, A,A\n"))  # an index, and blanks after commas
    assert records.stated == ("column 1", "item", "target", "prediction")
    assert records.array("correct").tolist() == [1.0]


@pytest.mark.parametrize("bad", BAD_HEADERS)
def test_a_bad_header_is_refused(tmp_path: Path, bad: str) -> None:
    content, field, reason = BAD_HEADERS[bad]
    error = refused(tmp_path, content)
    assert (error.line, error.field) == (1, field)
    assert reason in error.problem


@pytest.mark.parametrize(
    "content", ["", "\n", "\ufeff", "\r\n\r\n", "item,target\n", "item,target", "item,target\n\n\n"]
)
def test_a_file_without_records_is_refused(tmp_path: Path, content: str) -> None:
    assert "no records" in refused(tmp_path, content).problem


@pytest.mark.parametrize("torn", ["q3", 'q3,"A', "q3,A,B,"])
def test_a_torn_last_row(tmp_path: Path, torn: str) -> None:
    content = "item,target,prediction,note,more\nq1,A,A,,\nq2,B,B,,\n" + torn
    assert refused(tmp_path, content).line == 4
    records = read(written(tmp_path, content), salvage=True)
    assert len(records) == 2
    assert any(":4: " in warning and "2 whole records were kept" in warning for warning in records.warnings)
    assert refused(tmp_path, content + "\nq4,A,A,,\n", salvage=True).line == 4


def test_encodings(tmp_path: Path) -> None:
    content = "item,target\nq1,é\nq2,ß\n"
    assert read(written(tmp_path, "\ufeff" + content)).column("target").to_pylist() == ["é", "ß"]
    latin = content.encode("latin-1")
    error = refused(tmp_path, latin)
    assert error.line == 2
    assert f"(byte {latin.index(0xE9)})" in error.problem
    for encoding in ("utf-16", "utf-16-le", "utf-32"):
        assert "not UTF-8" in refused(tmp_path, content.encode(encoding)).problem


def test_odd_characters_are_kept(tmp_path: Path) -> None:
    odd = ["a\x00b", "\x1b[31mred\x1b[0m", "a\u2028b", "a\x0bb", "\x00", "\x85x", "a\x1cb", "=1+1", "-x", "@a"]
    assert column(tmp_path, "prediction", *odd) == ("text", odd)


def test_duplicate_records_and_missing_item(tmp_path: Path) -> None:
    error = refused(tmp_path, f"item,target\n{SECRET},A\nq2,B\n{SECRET},A\n")
    assert error.line == 4
    assert "first at line 2" in error.problem
    error = refused(tmp_path, "item,target\nq1,A\n,B\n")
    assert (error.line, error.field) == (3, "item")
    assert "'item' is required" in refused(tmp_path, "id,target\n1,A\n").problem


def test_long_cells(tmp_path: Path) -> None:
    assert column(tmp_path, "note", "x" * 300_000)[0] == "text"
    assert csv.field_size_limit() == 131_072
    error = refused(tmp_path, "item,note\nq1," + SECRET + "x" * 5_000_000 + "\n")
    assert (error.line, "4 MiB" in error.problem) == (2, True)
    error = refused(tmp_path, 'item,note\nq1,"' + "x\n" * 3_000_000)
    assert (error.line, "a quote may be missing" in error.problem) == (2, True)


def test_tabs(tmp_path: Path) -> None:
    records = read(written(tmp_path, "item\ttarget\tnote\nq1\tA\ta,b\n", "answers.tsv"))
    assert records.column("note").to_pylist() == ["a,b"]
    assert read(written(tmp_path, "item\ttarget\nq1\tA\n", "answers.txt"), format="tsv").stated == ("item", "target")


@pytest.mark.parametrize("block", [1, 5, 64])
def test_lines_do_not_depend_on_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(inputs, "_BLOCK", block)
    monkeypatch.setattr("steelyard.records.readers.csv._BATCH", 3)
    rows = "".join(f'q{i},"é\n{i}"\n' for i in range(10))
    records = read(written(tmp_path, "\ufeffitem,note\r\n" + rows))
    assert [records.where(row)[1] for row in range(10)] == list(range(2, 22, 2))
    assert records.column("note").to_pylist() == [f"é\n{i}" for i in range(10)]


cells = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)


@given(table=st.lists(st.tuples(cells, cells, cells), min_size=1, max_size=6), quoting=st.sampled_from([0, 1]))
def test_what_is_written_is_read(tmp_path: Path, table: list[tuple[str, ...]], quoting: Any) -> None:
    path = tmp_path / "answers.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, quoting=quoting).writerows(
            [("item", "x", "y", "z"), *((i, *row) for i, row in enumerate(table))]
        )
    records = read(path)
    for place, name in enumerate(("x", "y", "z")):
        if name in records.extras:
            problem = records.extra(name).problem
            assert problem.line is not None
            assert "white space" in problem.problem or "finite" in problem.problem
            continue
        found = records.column(name)
        written_cells = [row[place] or None for row in table]
        if kind_of(found) == "text":
            assert found.to_pylist() == written_cells
        else:
            again = [
                None if cell is None else type(value)(eval_number(cell))
                for cell, value in zip(written_cells, found.to_pylist(), strict=True)
            ]
            assert found.to_pylist() == again


def eval_number(cell: str) -> Any:
    lowered = cell.lower()
    return lowered == "true" if lowered in ("true", "false") else float(cell)


@given(
    data=st.binary(max_size=60) | st.text(st.sampled_from('item,"\n\r\t1.eN\x00 '), max_size=60), salvage=st.booleans()
)
def test_no_input_makes_a_traceback(tmp_path: Path, data: bytes | str, salvage: bool) -> None:
    for name in ("a.csv", "a.tsv"):
        try:
            read(written(tmp_path, data, name), salvage=salvage)
        except SteelyardError as error:
            assert str(error).startswith(str(tmp_path)) or isinstance(error, UsageError)  # noqa: PT017
