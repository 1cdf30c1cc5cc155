"""Files that are converted a part at a time are what they would be if they were read whole."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from steelyard import InputError, UsageError
from steelyard.records.converting import convert
from steelyard.records.readers import csv as cells
from steelyard.records.readers import inputs, jsonl, read_as_is
from steelyard.records.writers import write_records

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 2**60),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["", " ", "a", "a ", "007", "1", "-1.5", "true", "nan", "\u00e9\n", "1e400", "x,y"]),
    st.lists(st.integers(0, 3), max_size=2),
    st.dictionaries(st.sampled_from("kl"), st.sampled_from([1, "t", None, [1, "x"]]), max_size=2),
)
ROWS = st.lists(st.dictionaries(st.sampled_from(["item", "target", "prediction", "x", "n.k"]), VALUES), min_size=1)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of a few rows."""
    monkeypatch.setattr(inputs, "_BLOCK", 64)
    monkeypatch.setattr(jsonl, "_BATCHES", 2)
    monkeypatch.setattr(cells, "_BATCH", 2)
    monkeypatch.setattr(cells, "_BATCHES", 2)


def lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def array(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text(json.dumps(rows, indent=1))
    return path


def table(path: Path, rows: list[dict[str, Any]]) -> Path:
    names = sorted({name for row in rows for name in row}) or ["item"]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([names, *([_cell(row.get(name)) for name in names] for row in rows)])
    return path


def _cell(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, list | dict) else value


def _values(column: Any) -> list[Any]:
    """The values; what is kept as JSON is compared as what it says."""
    return [_said(value) if isinstance(value, str) else value for value in column.to_pylist()]


def _said(text: str) -> Any:
    try:
        return _without_nothing(json.loads(text))
    except ValueError:
        return text


def _without_nothing(value: Any) -> Any:
    """What is left of a value that was taken apart and put together again: keys without a value are not."""
    if not isinstance(value, dict):
        return value
    return {key: part for key, part in value.items() if part is not None} or None


def outcome(act: Callable[[], Any]) -> Any:
    try:
        return act()
    except (InputError, UsageError) as problem:
        return type(problem)


@pytest.mark.parametrize(("write", "suffix"), [(lines, ".jsonl"), (array, ".json"), (table, ".csv")])
@given(rows=ROWS)
@example(rows=[{"target": 0, "prediction": "1e400"}])
def test_parts_are_the_whole(tmp_path: Path, write: Any, suffix: str, rows: list[dict[str, Any]]) -> None:
    source = write(tmp_path / f"rows{suffix}", rows)
    whole, parts = tmp_path / "whole.parquet", tmp_path / "parts.parquet"
    format = suffix[1:]
    expected = outcome(lambda: write_records(read_as_is(source, format=format), whole))
    found = outcome(lambda: convert(str(source), parts, format=format).rows)
    if isinstance(expected, type):
        assert found is expected
        return
    one, two = pq.read_table(whole), pq.read_table(parts)
    assert sorted(one.column_names) == sorted(two.column_names)
    assert found == one.num_rows == two.num_rows
    for name in one.column_names:
        if one.column(name).null_count < one.num_rows:
            assert one.schema.field(name).type == two.schema.field(name).type
        assert _values(one.column(name)) == _values(two.column(name))


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".jsonl", ".csv", ".tsv.gz"])
def test_every_format_is_written_in_parts(tmp_path: Path, suffix: str) -> None:
    rows = [{"item": i, "x": None if i % 3 else f"t{i}", "y": i / 4} for i in range(50)]
    source = tmp_path / "rows.jsonl.gz"
    source.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode()))
    done = convert(str(source), tmp_path / f"out{suffix}")
    assert (done.rows, done.columns) == (50, ("item", "x", "y"))
    again = read_as_is(tmp_path / f"out{suffix}")
    assert again.to_arrow().to_pylist() == rows


def test_a_kind_that_is_known_late_is_known_for_all_rows(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"item": i, "n": 2**53 + 1, "m": i} for i in range(20)]
    rows += [{"item": 20, "n": 0.5, "m": "late"}]
    source = lines(tmp_path / "rows.jsonl", rows)
    convert(str(source), tmp_path / "out.jsonl")
    written = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert written == rows


def test_names_are_checked_and_nothing_is_left_behind(tmp_path: Path) -> None:
    source = lines(tmp_path / "rows.jsonl", [{"item": i, "x": 1} for i in range(20)])
    target = tmp_path / "out.csv"
    target.write_text("before")
    for options in ({"map": {"item": "qid"}}, {"drop": ["item", "x"]}):
        with pytest.raises(UsageError):
            convert(str(source), target, **options)  # type: ignore[arg-type]
        assert target.read_text() == "before"
    assert convert(str(source), target, drop="z").warnings == ("`drop=z`: there is no such column",)
    assert convert(str(source), target, only="x", map={"y": "x"}).columns == ("y",)


def test_torn_files(tmp_path: Path) -> None:
    source = lines(tmp_path / "rows.jsonl", [{"item": i} for i in range(20)])
    source.write_text(source.read_text() + '{"item": 2')
    with pytest.raises(InputError, match="salvage"):
        convert(str(source), tmp_path / "out.csv")
    done = convert(str(source), tmp_path / "out.csv", salvage=True)
    assert done.rows == 20
    assert len(done.warnings) == 1
    assert "20 whole records were kept" in done.warnings[0]


def test_progress_goes_on_through_both_readings(tmp_path: Path) -> None:
    source = lines(tmp_path / "rows.jsonl", [{"item": i, "x": "y" * 5_000} for i in range(2_000)])
    told: list[float] = []
    convert(str(source), tmp_path / "out.csv", progress=told.append)
    assert told == sorted(told)
    assert told[-1] == 1.0
    assert any(0 < share < 0.5 for share in told)
