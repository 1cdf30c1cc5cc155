"""JSON documents of records: arrays of objects and columns, read as JSON lines are, and refused as strictly."""

from __future__ import annotations

import hashlib
import io
import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.errors import InputError
from steelyard.records.readers import inputs, read
from steelyard.records.readers import json as json_reader
from steelyard.records.readers.inputs import LONGEST_LINE, Input
from steelyard.records.readers.json import load
from steelyard.records.readers.jsonl import load as load_lines

SECRET = "SECRET-PATIENT"
ROWS: list[dict[str, Any]] = [
    {"item": "q1", "target": "A", "confidence": 1, "group": {"site": "x"}, "words": ["a", "b"]},
    {"item": "q2", "target": None, "confidence": 0.25, "group": {"site": "y"}, "words": []},
]


def written(folder: Path, content: str | bytes, name: str = "answers.json") -> Path:
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder / name


def columns(path: Path, **how: Any) -> dict[str, list[Any]]:
    records = read(path, **how)
    return {name: records.column(name).to_pylist() for name in records.stated}


EXPECTED = {
    "item": ["q1", "q2"],
    "target": ["A", None],
    "confidence": [1.0, 0.25],
    "group.site": ["x", "y"],
    "words": [["a", "b"], []],
}


# -- arrays -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a.json", "a.jsonl", "a.txt", "a.csv", "a"])
@pytest.mark.parametrize("indent", [None, 2])
def test_an_array_is_read_whatever_its_name(tmp_path: Path, name: str, indent: int | None) -> None:
    path = written(tmp_path, "\ufeff \n" + json.dumps(ROWS, indent=indent) + "\n\n", name)
    assert columns(path) == EXPECTED
    assert read(path).sources[0].sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_the_line_is_the_one_on_which_the_row_begins(tmp_path: Path) -> None:
    path = written(tmp_path, '[\n\n {"item": 1,\n  "x": 1}, {"item": 2,\n\n "x": 2},\n{"item": 3, "confidence": 7}\n]')
    with pytest.raises(InputError, match=r"answers\.json:7: confidence: a number in \[0, 1\] is expected"):
        read(path)
    records = read(path, map={"other": "confidence"})
    assert [records.where(row)[1] for row in range(3)] == [3, 4, 7]


REFUSED = {
    "duplicate key": ('[{"item": 1},\n{"item": 2, "x": "S",\n"x": 3}]', 2, "x", "the key appears twice"),
    "NaN": ('[{"item": 1},\n{"item": 2, "confidence": NaN}]', 2, "confidence", "a finite number"),
    "too large": ('[{"item": 1,\n"confidence": 1e999}]', 1, "confidence", "too large"),
    "kind": ('[{"item": 1},\n\n{"item": "SECRET-PATIENT"}]', 3, "item", "a whole number is expected"),
    "list of lists": ('[{"item": 1, "target": [["SECRET-PATIENT"]]}]', 1, "target", "plain values"),
    "an object as a label": ('[{"item": 1, "target": {"a": 1}}]', 1, "target", "this is an object"),
    "syntax": ('[{"item": 1},\n{"item" 2}]', 2, None, "not valid JSON in this object"),
    "mismatched brackets": ('[{"item": 1},\n{"item": [1, 2}, {"item": 3}\n]', 2, None, "not valid JSON"),
    "never closed": ('[{"item": 1},\n{"item": 2, "x": [1},\n{"item": 3}', 2, None, "not valid JSON"),
    "a comma too many": ('[{"item": 1},\n,{"item": 2}]', 2, None, "one comma is expected"),
    "a comma too few": ('[{"item": 1}\n{"item": 2}]', 2, None, "one comma is expected"),
    "a comma first": ('[\n,{"item": 2}]', 2, None, "one comma is expected"),
    "a comma last": ('[{"item": 1},\n]', 2, None, "an object is expected behind the comma"),
    "closed by a brace": ('[{"item": 1}\n}', 2, None, "the array is not closed"),
    "more behind it": ('[{"item": 1}]\n["SECRET-PATIENT"]', 2, None, "more follows the array"),
    "a number in it": ('[{"item": 1},\n7]', 2, None, "an array of objects is expected"),
    "a text in it": ('[{"item": 1},\n"SECRET-PATIENT"]', 2, None, "an array of objects is expected"),
    "a list in it": ('[{"item": 1},\n[{"item": 2}]]', 2, None, "an array of objects is expected"),
    "a line end in a text": ('[{"item": "SECRET-PATIENT\n"}]', 1, None, "a line ends inside a text"),
    "nothing in it": (" [ ] ", None, None, "no records: the array is empty"),
    "cut inside an object": ('[{"item": 1},\n{"item": "SECRET', 2, None, "`salvage=True` keeps the one whole record"),
    "cut between objects": ('[{"item": 1},\n', 1, None, "`salvage=True` keeps the one whole record"),
    "an early problem first": ('[{"item": 1, "confidence": "x"},\n7]', 1, "confidence", "a number is expected"),
}


@pytest.mark.parametrize("what", REFUSED)
@pytest.mark.parametrize("block", [8, 2**19])
def test_what_json_lines_would_refuse_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, block: int
) -> None:
    monkeypatch.setattr(inputs, "_BLOCK", block)
    content, line, field, problem = REFUSED[what]
    with pytest.raises(InputError) as caught:
        read(written(tmp_path, content), format="json")
    assert (caught.value.line, problem in caught.value.problem) == (line, True), caught.value
    assert field is None or caught.value.field == field
    assert SECRET not in str(caught.value)


def test_bytes_that_are_not_utf8_are_named_by_their_place(tmp_path: Path) -> None:
    content = b'\xef\xbb\xbf[{"item": "\xc3\xa9"},\n {"item": "\xff"}]'
    with pytest.raises(InputError, match=rf"answers\.json:2: not UTF-8 text \(byte {content.index(0xFF)}\)"):
        read(written(tmp_path, content))
    with pytest.raises(InputError, match="UTF-16"):
        read(written(tmp_path, "[{}]".encode("utf-16")), format="json")


@pytest.mark.parametrize(
    "end", ["", ",", ', {"item": 3', ', {"item": 3, "x": "}, {', ', {"item": 3, "x": {"y": [1, {"z": 1}]}', ",\n{"]
)
def test_salvage_keeps_the_whole_objects_of_a_cut_array(tmp_path: Path, end: str) -> None:
    path = written(tmp_path, '[{"item": 1},\n{"item": 2}' + end)
    records = read(path, salvage=True)
    assert records.column("item").to_pylist() == [1, 2]
    assert records.sources[0].torn
    (warning,) = records.warnings
    assert "2 whole records were kept" in warning


def test_salvage_does_not_hide_what_is_broken_in_the_middle(tmp_path: Path) -> None:
    for content in ('[{"item": 1}, {"item": [}, {"item": 3}]', '[{"item": 1}, {"x": [1}, {"item": 3}, {"item": 4'):
        with pytest.raises(InputError, match="not valid JSON"):
            read(written(tmp_path, content), salvage=True)


def test_an_object_is_as_long_as_a_line_may_be(tmp_path: Path) -> None:
    head = '[{"item": 1},\n{"item": 2, "text": "'
    fits = written(tmp_path, head + "x" * (LONGEST_LINE - 100) + '"}]')
    assert len(read(fits)) == 2
    for end in ('"}]', '", "y": "' + "x" * 2**21 + '"}]', "x" * 2**22):
        path = written(tmp_path, head + "x" * LONGEST_LINE + end)
        with pytest.raises(InputError, match=r"answers\.json:2: the object is longer than 4 MiB"):
            read(path)


def test_an_array_on_one_line_is_read_in_bounded_memory(tmp_path: Path) -> None:
    text = "x" * 2_000
    path = tmp_path / "large.json"
    with path.open("w") as file:
        file.write("[" + ",".join(f'{{"item": {n}, "text": "{text}"}}' for n in range(5_000)) + "]")
    tracemalloc.start()
    assert len(read(path)) == 5_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < path.stat().st_size  # Arrow's own memory, which holds the columns, is not traced


text = st.text(st.sampled_from('a"\\{}[],:\n\t\ud800é'), max_size=6)
deep = st.fixed_dictionaries({"list": st.lists(st.floats(0, 1))})
rows_strategy = st.lists(
    st.fixed_dictionaries({"text": text}, optional={"n": st.integers(-9, 9) | st.none(), "deep": deep}),
    min_size=1,
    max_size=6,
)


def chunked(data: bytes, size: int) -> Input:
    source = Input("a.json", io.BytesIO(data))

    def chunks() -> Iterator[bytes]:
        return (data[start : start + size] for start in range(0, len(data), size))

    source.chunks = chunks  # type: ignore[method-assign]
    return source


@given(rows=rows_strategy, indent=st.none() | st.integers(0, 2), size=st.integers(1, 40), ascii_=st.booleans())
def test_an_array_is_what_its_objects_are_as_lines(
    rows: list[dict[str, Any]], indent: int | None, size: int, ascii_: bool
) -> None:
    half = any("\ud800" in row["text"] for row in rows)  # which only an escape can write
    data = json.dumps(rows, indent=indent, ensure_ascii=ascii_ or half).encode()
    lines = "".join(json.dumps(row) + "\n" for row in rows).encode()
    array, expected = load(chunked(data, size)), load_lines(Input("a.jsonl", io.BytesIO(lines)))
    assert array.rows == expected.rows
    assert list(array.columns) == list(expected.columns)
    for name, column in expected.columns.items():
        assert array.columns[name].type == column.type
        assert array.columns[name].equals(column)
    assert array.lines is not None
    starts = [data.decode().split("\n")[line - 1].lstrip()[:1] for line in array.lines.tolist()]
    assert set(starts) <= {"{", "["}


def is_strict(text: str) -> bool:
    """True if a strict parser takes the text for an array of objects, at least one."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            raise ValueError
        return dict(pairs)

    try:
        value = json.loads(text, object_pairs_hook=unique)
    except ValueError:
        return False
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) for row in value)


@given(
    rows=st.lists(
        st.fixed_dictionaries({"text": st.sampled_from(["", "a", "}", '"', "\\", "[,"])}), min_size=1, max_size=3
    ),
    place=st.integers(1, 60),
    gone=st.integers(0, 2),
    new=st.sampled_from(["", '"', "\\", "{", "}", "[", "]", ",", ":", "\n", " ", "1"]),
    size=st.integers(1, 40),
)
def test_an_array_is_refused_exactly_where_a_strict_parser_refuses_it(
    rows: list[dict[str, Any]], place: int, gone: int, new: str, size: int
) -> None:
    text = json.dumps(rows)
    text = text[:place] + new + text[place + gone :]
    try:
        read_rows = load(chunked(text.encode(), size)).rows
    except InputError as error:
        assert not is_strict(text) or "is expected" in error.problem  # noqa: PT017 - another kind of value
    else:
        assert is_strict(text)
        assert read_rows == len(json.loads(text))


# -- columns ------------------------------------------------------------------------------------------------------

LISTS = {name: [row[name] for row in ROWS] for name in ROWS[0]}
BY_ROW = {name: {str(n): row[name] for n, row in enumerate(ROWS)} for name in ROWS[0]}
SPLIT = {"columns": list(ROWS[0]), "index": [0, 1], "data": [list(row.values()) for row in ROWS]}


@pytest.mark.parametrize("document", [LISTS, BY_ROW, SPLIT], ids=["lists", "by row", "split"])
@pytest.mark.parametrize("name", ["a.json", "a.jsonl", "a.txt", "a"])
@pytest.mark.parametrize("indent", [None, 1])
def test_columns_are_read_as_rows(tmp_path: Path, document: dict[str, Any], name: str, indent: int | None) -> None:
    path = written(tmp_path, json.dumps(document, indent=indent), name)
    assert columns(path) == EXPECTED
    assert [read(path).where(row)[1] for row in (0, 1)] == [1, 2]


def test_columns_of_other_names_need_the_suffix_and_a_map(tmp_path: Path) -> None:
    path = written(tmp_path, '{"question_id": ["q1", "q2"], "answer": ["A", null]}')
    assert columns(path, map={"item": "question_id", "prediction": "answer"}) == {
        "item": ["q1", "q2"],
        "prediction": ["A", None],
    }


def test_rows_of_pandas_may_come_in_any_order(tmp_path: Path) -> None:
    path = written(tmp_path, '{"item": {"7": "q1", "3": "q2"}, "target": {"3": "B", "7": "A"}}')
    assert columns(path) == {"item": ["q1", "q2"], "target": ["A", "B"]}


BAD_COLUMNS = {
    "lengths": ('{"item": [1, 2], "target": ["SECRET-PATIENT"]}', None, "target", "has 1 row and 'item' 2"),
    "rows": ('{"item": {"0": 1}, "target": {"1": "A"}}', None, "target", "are not those of 'item'"),
    "a list and an object": ('{"item": [1], "target": {"0": "A"}}', None, "target", "is a list and this is not"),
    "a single value": ('{"item": [1], "target": "A"}', None, "target", "a column is expected"),
    "twice": ('{"item": [1], "item": [2]}', None, "item", "the key appears twice"),
    "a row twice": ('{"item": {"0": 1, "0": 2}}', None, "item", "the key appears twice"),
    "NaN": ('{"item": [1, 2], "confidence": [0.5, NaN]}', 2, "confidence", "a finite number is expected"),
    "kind": ('{"item": [1, 2, 3], "confidence": [0.5, null, "x"]}', 3, "confidence", "a number is expected"),
    "rows by name": ('{"0": {"item": 1, "target": "A"}}', None, None, "write an array of objects instead"),
    "empty": ('{"item": [], "target": []}', None, None, "the columns are empty"),
    "syntax": ('{"item": [1, 2],\n "target" []}', 2, None, "not valid JSON"),
    "cut": ('{"item": [1, 2],\n "target": ["SECRET', 2, None, "the text ends early"),
    "large": ('{"item": [1, 2], "x": [36028797018963969, 0.5]}', 1, "x", "cannot be kept exactly"),
    "split: names": ('{"columns": [1], "data": [[1]]}', None, "columns", "a list of names"),
    "split: twice": ('{"columns": ["item", "item"], "data": [[1, 2]]}', None, "columns", "appears twice"),
    "split: rows": ('{"columns": ["item"], "data": {}}', None, "data", "a list of rows"),
    "split: width": ('{"columns": ["item"], "data": [[1], [1, 2]]}', 2, "data", "a list of 1 value is"),
}


@pytest.mark.parametrize("what", BAD_COLUMNS)
def test_bad_columns_are_refused_with_their_place(tmp_path: Path, what: str) -> None:
    content, line, field, problem = BAD_COLUMNS[what]
    with pytest.raises(InputError) as caught:
        read(written(tmp_path, content), format="json", columns=["x"])
    assert (caught.value.line, caught.value.field, problem in caught.value.problem) == (line, field, True), caught.value
    assert SECRET not in str(caught.value)


def test_columns_beyond_the_limit_are_refused_with_what_to_write_instead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_reader, "LARGEST", 2**20)
    path = written(tmp_path, json.dumps({"item": list(range(200_000))}))
    with pytest.raises(InputError, match="more than 1 MB; write the rows as JSON lines instead"):
        read(path)


def test_other_documents_are_left_to_their_readers(tmp_path: Path) -> None:
    for document in ({"version": 2, "samples": []}, {"a": {"b": 1}, "c": 2}, [1, 2], [[1]], {}):
        with pytest.raises(InputError, match=r"looks like a JSON (object|array), which no reader of \.json files"):
            read(written(tmp_path, json.dumps(document)))
    with pytest.raises(InputError, match="a list is expected"):  # as the PHQ-8 reader says
        read(written(tmp_path, '{"run_metadata": {"a": 1}, "experiments": {"b": 1}}'))
