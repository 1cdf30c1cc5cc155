"""Parquet: what Arrow can hold and records cannot, damaged files, and round trips."""

from __future__ import annotations

import datetime
import hashlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.errors import InputError
from steelyard.records.readers import read
from steelyard.records.schema import kind_of, text_array

SECRET = "SECRET-PATIENT"


def written(folder: Path, columns: dict[str, Any], name: str = "answers.parquet", **options: Any) -> Path:
    path = folder / name
    pq.write_table(pa.table(columns), path, **options)
    return path


def refused(path: Path, **options: Any) -> InputError:
    with pytest.raises(InputError) as caught:
        read(path, **options)
    assert caught.value.file == str(path)
    assert SECRET not in str(caught.value)
    return caught.value


def views() -> pa.DataType:
    """Text as views, or as plain text where this version of PyArrow cannot write views to Parquet."""
    try:
        pq.write_table(pa.table({"text": pa.array(["A"], pa.string_view())}), pa.BufferOutputStream())
    except pa.ArrowNotImplementedError:
        return pa.string()
    return pa.string_view()


def test_structs_dictionaries_and_small_types(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        {
            "item": pa.array(["q1", "q2"], pa.large_string()),
            "target": pa.array(["A", "B"]).dictionary_encode(),
            "prediction": pa.array(["A", None], views()),
            "confidence": pa.array([0.5, 0.25], pa.float32()),
            "input_tokens": pa.array([1, 2], pa.uint16()),
            "group": pa.array([{"site": "x", "deep": {"er": 1}}, None]),
            "when": pa.array([datetime.datetime(2026, 1, 2, 3, 4, 5), None]),
            "day": pa.array([datetime.date(2026, 1, 2), None]),
            "raw": pa.array([b"text", None], pa.binary()),
            "vector": pa.array([[1.0, 2.0], [3.0, 4.0]], pa.list_(pa.float32(), 2)),
            "words": pa.array([["a"], None]),
            "price": pa.array([1, 2]).cast(pa.decimal128(22, 2)),
            "empty": pa.nulls(2),
            "__index_level_0__": pa.array([7, 8]),
        },
    )
    records = read(path)
    assert {name: records.column(name).to_pylist() for name in records.stated} == {
        "item": ["q1", "q2"],
        "target": ["A", "B"],
        "prediction": ["A", None],
        "confidence": [0.5, 0.25],
        "input_tokens": [1, 2],
        "group.site": ["x", None],
        "group.deep.er": [1, None],
        "when": ["2026-01-02 03:04:05.000000", None],
        "day": ["2026-01-02", None],
        "raw": ["text", None],
        "vector": [[1.0, 2.0], [3.0, 4.0]],
        "words": [["a"], None],
        "price": [1.0, 2.0],
        "empty": [None, None],
    }
    assert records.sources[0].sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert records.where(1) == (str(path), 2)


def test_several_row_groups(tmp_path: Path) -> None:
    path = written(tmp_path, {"item": list(range(100)), "target": ["a", "b"] * 50}, row_group_size=7)
    assert read(path).column("item").to_pylist() == list(range(100))


BAD = {
    "quoted number": ({"confidence": ["0.5", None]}, 1, "a number is expected, this is text"),
    "NaN": ({"confidence": [0.5, float("nan")]}, 2, "finite"),
    "infinite extra": ({"extra": [1.0, float("inf")]}, 2, "finite"),
    "range": ({"confidence": [None, 50.0]}, 2, "divide percentages by 100"),
    "outcome": ({"outcome": ["answered", SECRET]}, 2, "one of answered"),
    "huge whole number": ({"extra": pa.array([1, 2**63], pa.uint64())}, None, "too large"),
    "bytes": ({"extra": [b"a", b"\xff\xfe"]}, None, "columns hold text"),
    "not UTF-8": (
        {"extra": pa.Array.from_buffers(pa.string(), 2, pa.array([b"a", b"\xff"], pa.binary()).buffers())},
        2,
        "not UTF-8",
    ),
    "list of lists": ({"extra": [[[1]], None]}, None, "plain values"),
    "list of objects": ({"extra": [[{"a": SECRET}], None]}, None, "plain values"),
    "map": ({"extra": pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int64()))}, None, "columns hold text"),
    "duration": ({"extra": pa.array([1, 2], pa.duration("s"))}, None, "columns hold text"),
}


@pytest.mark.parametrize("bad", BAD)
def test_a_bad_column_is_refused_with_row_and_field(tmp_path: Path, bad: str) -> None:
    columns, line, reason = BAD[bad]
    error = refused(written(tmp_path, {"item": [1, 2], **columns}), columns=[*columns])
    assert (error.line, error.field) == (line, next(iter(columns)))
    assert reason in error.problem


def test_whole_tables(tmp_path: Path) -> None:
    assert "no rows" in refused(written(tmp_path, {"item": pa.array([], pa.string())})).problem
    assert "'item' is required" in refused(written(tmp_path, {"target": ["A"]})).problem
    path = tmp_path / "twice.parquet"
    pq.write_table(pa.table([pa.array([1]), pa.array([2])], names=["item", "item"]), path)
    assert "appears twice" in refused(path).problem
    pq.write_table(pa.table({"item": [1], "a": [{"b": 1}], "a.b": [2]}), path)
    assert refused(path).field == "a.b"
    error = refused(written(tmp_path, {"item": [SECRET, "q2", SECRET]}))
    assert error.line == 3
    assert "first at line 1" in error.problem


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1PAR1", b'item,"SECRET-PATIENT"\n' * 10, b"\x00" * 100])
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "answers.parquet"
    path.write_bytes(content)
    assert "not a readable Parquet file" in refused(path).problem


def test_truncated_and_flipped_files_are_refused_or_read_without_a_traceback(tmp_path: Path) -> None:
    columns = {
        "item": [f"{SECRET}-{i}" for i in range(50)],
        "x": [i / 2 for i in range(50)],
        "g": [{"a": i} for i in range(50)],
    }
    whole = written(tmp_path, columns, write_page_checksum=True).read_bytes()
    path = tmp_path / "damaged.parquet"
    for cut in range(0, len(whole), 37):
        path.write_bytes(whole[:cut])
        refused(path)
    for place in range(4, len(whole), 11):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        try:
            read(path)
        except InputError as error:
            assert SECRET not in str(error)  # noqa: PT017


any_text = st.text(st.characters(), max_size=8)


@given(
    words=st.lists(st.none() | any_text, min_size=3, max_size=3),
    numbers=st.lists(st.none() | st.floats(allow_nan=False, allow_infinity=False), min_size=3, max_size=3),
    wholes=st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), min_size=3, max_size=3),
    flags=st.lists(st.none() | st.booleans(), min_size=3, max_size=3),
)
def test_what_is_written_is_read(
    tmp_path: Path, words: list[Any], numbers: list[Any], wholes: list[Any], flags: list[Any]
) -> None:
    columns = {
        "item": pa.array([1, 2, 3]),
        "words": text_array(words),
        "numbers": pa.array(numbers, pa.float64()),
        "wholes": pa.array(wholes, pa.int64()),
        "flags": pa.array(flags, pa.bool_()),
    }
    records = read(written(tmp_path, columns))
    assert records.column("words").to_pylist() == words
    for name in ("numbers", "wholes", "flags"):
        assert records.column(name).equals(columns[name])
        assert kind_of(records.column(name)) == kind_of(columns[name])
