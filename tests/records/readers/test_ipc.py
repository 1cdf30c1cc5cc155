"""Arrow's own files: IPC files and streams, Feather, by the rules of Parquet; damage is refused, never followed."""

from __future__ import annotations

import datetime
import decimal
import hashlib
import io
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from steelyard.errors import InputError, UsageError
from steelyard.records.readers import read

SECRET = "SECRET-PATIENT"
Write = Callable[[pa.Table], bytes]


def file(table: pa.Table, **options: Any) -> bytes:
    buffer = io.BytesIO()
    with pa.ipc.new_file(buffer, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return buffer.getvalue()


def stream(table: pa.Table) -> bytes:
    buffer = io.BytesIO()
    with pa.ipc.new_stream(buffer, table.schema) as writer:
        writer.write_table(table, max_chunksize=1)
    return buffer.getvalue()


def feather(table: pa.Table, version: int = 2) -> bytes:
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pyarrow.feather.write_feather(table, buffer, version=version)
    return buffer.getvalue()


WRITERS: dict[str, Write] = {
    "file": file,
    "compressed file": lambda table: file(table, compression="zstd"),
    "stream": stream,
    "feather": feather,
}


def first_feather(table: pa.Table) -> bytes:
    try:
        return feather(table, 1)
    except (ValueError, NotImplementedError):
        pytest.skip("this version of PyArrow writes no Feather of the first version")


def written(folder: Path, content: bytes, name: str = "answers.arrow") -> Path:
    (folder / name).write_bytes(content)
    return folder / name


def columns(path: Path, **how: Any) -> dict[str, list[Any]]:
    records = read(path, **how)
    return {name: records.column(name).to_pylist() for name in records.stated}


SMALL = pa.table({"item": ["q1", "q2"], "target": ["A", None]})


@pytest.mark.parametrize("write", WRITERS.values(), ids=list(WRITERS))
@pytest.mark.parametrize("name", ["a.arrow", "a.feather", "a.ipc", "a.csv", "a.parquet", "a"])
def test_arrow_is_known_by_its_marks(tmp_path: Path, write: Write, name: str) -> None:
    path = written(tmp_path, write(SMALL), name)
    records = read(path)
    assert records.column("target").to_pylist() == ["A", None]
    assert records.sources[0].sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert records.where(1) == (str(path), 2)


def test_the_first_feather(tmp_path: Path) -> None:
    path = written(tmp_path, first_feather(SMALL), "a.feather")
    assert columns(path) == {"item": ["q1", "q2"], "target": ["A", None]}


def casts_views() -> bool:
    """True if this version of PyArrow makes plain text of views."""
    try:
        views(["a"]).cast(pa.string())
    except pa.ArrowNotImplementedError:
        return False
    return True


def views(values: list[Any], kind: str = "string_view") -> pa.Array:
    return pa.array(values, getattr(pa, kind)())


MOMENT = datetime.datetime(2026, 1, 2, 3, 4, 5)
KINDS: dict[str, tuple[Any, dict[str, list[Any]]]] = {
    "large text": (pa.array(["a", None], pa.large_string()), {"x": ["a", None]}),
    "views": (views(["a", None]), {"x": ["a", None]}),
    "bytes in views": (views([b"a", None], "binary_view"), {"x": ["a", None]}),
    "a dictionary": (pa.array(["a", None]).dictionary_encode(), {"x": ["a", None]}),
    "a dictionary of views": (
        pa.DictionaryArray.from_arrays(pa.array([1, None], pa.uint32()), views(["b", "a"])),
        {"x": ["a", None]},
    ),
    "a dictionary of numbers": (pa.array([7, None]).dictionary_encode(), {"x": [7, None]}),
    "runs": (pa.RunEndEncodedArray.from_arrays([2], pa.array(["a"])), {"x": ["a", "a"]}),
    "small numbers": (pa.array([1, None], pa.uint8()), {"x": [1, None]}),
    "half floats": (pa.array([0.5, None], pa.float32()).cast(pa.float16()), {"x": [0.5, None]}),
    "decimals": (pa.array([decimal.Decimal("1.5"), None], pa.decimal128(5, 2)), {"x": [1.5, None]}),
    "a moment": (pa.array([MOMENT, None]), {"x": ["2026-01-02 03:04:05.000000", None]}),
    "a moment in a zone": (
        pa.array([MOMENT, None], pa.timestamp("ms", "UTC")),
        {"x": ["2026-01-02 03:04:05.000Z", None]},
    ),
    "a day": (pa.array([MOMENT.date(), None]), {"x": ["2026-01-02", None]}),
    "an object": (pa.array([{"a": 1, "b": {"c": "d"}}, None]), {"x.a": [1, None], "x.b.c": ["d", None]}),
    "lists": (pa.array([["a"], None]), {"x": [["a"], None]}),
    "large lists of views": (
        pa.array([["a"], None], pa.large_list(pa.string_view())),
        {"x": [["a"], None]},
    ),
    "lists of one size": (pa.array([[1, 2], None], pa.list_(pa.int32(), 2)), {"x": [[1, 2], None]}),
    "nothing": (pa.nulls(2), {"x": [None, None]}),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("write", [file, stream], ids=["file", "stream"])
def test_kinds_are_those_of_parquet(tmp_path: Path, kind: str, write: Write) -> None:
    if "views" in kind and not casts_views():
        pytest.skip("this version of PyArrow makes no plain text of views")
    column, expected = KINDS[kind]
    table = pa.table({"item": [1, 2], "x": column})
    assert columns(written(tmp_path, write(table))) == {"item": [1, 2], **expected}
    other = tmp_path / "answers.parquet"
    try:
        pq.write_table(table, other)
        pq.read_table(other)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid, OSError):  # not every version writes and reads all of these
        return
    assert columns(other) == {"item": [1, 2], **expected}


def test_chunks_and_an_index_of_pandas(tmp_path: Path) -> None:
    table = pa.concat_tables([SMALL, pa.table({"item": ["q3"], "target": ["B"]})])
    table = table.append_column("__index_level_0__", pa.array([0, 1, 2]))
    assert columns(written(tmp_path, stream(table)), map={"group.g": "target"}) == {
        "item": ["q1", "q2", "q3"],
        "group.g": ["A", None, "B"],
    }


@pytest.mark.parametrize("wrong", [b"\xff", "\ud800".encode("utf-8", "surrogatepass")])
def test_bytes_that_are_no_utf_8_are_refused(tmp_path: Path, wrong: bytes) -> None:
    raw = pa.array([b"a", wrong], pa.binary())
    bad = pa.Array.from_buffers(pa.string(), 2, raw.buffers())
    with pytest.raises(InputError, match=r"answers\.arrow:2: x: not UTF-8 text"):
        read(written(tmp_path, file(pa.table({"item": [1, 2], "x": bad}))))
    ends = pa.array([0, 0, 2], pa.int32())
    objects = pa.ListArray.from_arrays(
        ends, pa.StructArray.from_arrays([bad], ["a"])
    )  # what Arrow itself checks in files
    for place, column in (("row 2: x", bad), ("row 2: x", pa.ListArray.from_arrays(ends, bad)), ("x", objects)):
        with pytest.raises(InputError, match=f"^{place}: not UTF-8 text"):
            read(pa.table({"item": [1, 2], "x": column}))


BAD: dict[str, tuple[Any, int | None, str]] = {
    "list of lists": ([[[1]], None], None, "plain values"),
    "bytes": ([b"a", b"\xff\xfe"], None, "columns hold text"),
    "duration": (pa.array([1, 2], pa.duration("s")), None, "columns hold text"),
    "map": (pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int64())), None, "columns hold text"),
    "NaN": ([0.5, float("nan")], 2, "finite"),
}


@pytest.mark.parametrize("bad", BAD)
def test_a_bad_column_is_refused_with_row_and_field(tmp_path: Path, bad: str) -> None:
    column, line, reason = BAD[bad]
    with pytest.raises(InputError) as caught:
        read(written(tmp_path, file(pa.table({"item": [1, 2], "x": column}))), columns=["x"])
    kept = read(written(tmp_path, file(pa.table({"item": [1, 2], "x": column}))))  # nobody asked for it
    assert kept.extra("x").column.to_pylist()[0] == pa.array(column).to_pylist()[0]
    assert (caught.value.line, caught.value.field, reason in caught.value.problem) == (line, "x", True)


@pytest.mark.parametrize(
    "content", [b"", b"ARROW1", b"ARROW1\x00\x00ARROW1", b"\xff\xff\xff\xff", b"FEA1", b"\x00" * 99]
)
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(InputError, match=r"not readable as Arrow data: it is (empty|damaged or incomplete)"):
        read(written(tmp_path, content))


def test_no_rows(tmp_path: Path) -> None:
    for write in (file, stream):
        with pytest.raises(InputError, match="there are no records: the file has no rows"):
            read(written(tmp_path, write(SMALL[:0])))


def test_lengths_and_places_that_are_not_the_files_own(tmp_path: Path) -> None:
    offsets = pa.py_buffer(b"".join(n.to_bytes(4, "little") for n in (0, 2**30, 4)))
    wild = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"abcd")])
    codes = pa.DictionaryArray.from_arrays(pa.array([0, 2**20]), pa.array(["a"]), safe=False)
    for column in (wild, codes):
        table = pa.Table.from_arrays([pa.array([1, 2]), column], names=["item", "x"])
        with pytest.raises(InputError, match="damaged"):
            read(written(tmp_path, file(table)))


@pytest.mark.parametrize("write", [file, stream], ids=["file", "stream"])
def test_truncated_and_flipped_files_are_refused_or_read_without_a_traceback(tmp_path: Path, write: Write) -> None:
    table = pa.table(
        {
            "item": [f"{SECRET}-{i}" for i in range(50)],
            "x": pa.array([str(i % 3) for i in range(50)]).dictionary_encode(),
            "g": [{"a": i} for i in range(50)],
        }
    )
    whole = write(table)
    for cut in range(0, len(whole), 131):
        try:
            read(written(tmp_path, whole[:cut]))
        except InputError as error:
            assert SECRET not in str(error)  # noqa: PT017
        else:
            assert write is stream  # which may end after any batch
    for place in range(8, len(whole), 31):
        try:
            read(written(tmp_path, whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :]))
        except (InputError, UsageError) as error:
            assert SECRET not in str(error)  # noqa: PT017
