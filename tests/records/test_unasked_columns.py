"""Columns that nobody asked for never refuse a file, and are not held in memory where that is known beforehand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from steelyard import InputError, UsageError, read
from steelyard.records.demand import Demand
from steelyard.records.readers import read_as_is
from tests.support.commands import command

ODD: dict[str, list[Any]] = {
    "messages": [[{"role": "user", "content": "x"}], [], None],
    "mixed": [1, "two", 3.5],
    "turns": [{"a": 1}, 2, {"a": {"b": 3}}],
    "deep": [{"a": {"b": {"c": [[1]]}}}, None, {"a": {"b": {"c": 2}}}],
    "nested_lists": [[[1], [2]], [[]], [[3]]],
}
GOOD: dict[str, list[Any]] = {
    "item": ["q1", "q2", "q3"],
    "target": ["A", "B", "A"],
    "prediction": ["A", "A", None],
    "site": ["x", "y", "x"],
}


def rows(columns: dict[str, list[Any]]) -> list[dict[str, Any]]:
    return [{name: values[row] for name, values in columns.items()} for row in range(3)]


def jsonl(folder: Path, columns: dict[str, list[Any]], name: str = "a.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows(columns)))
    return path


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("form", ["jsonl", "json", "frame"])
def test_an_odd_column_is_kept_and_refuses_only_who_reads_it(tmp_path: Path, name: str, form: str) -> None:
    columns = {**GOOD, name: ODD[name]}
    source: Any = jsonl(tmp_path, columns)
    if form == "json":
        source = tmp_path / "a.json"
        source.write_text(json.dumps(rows(columns)))
    if form == "frame":
        source = rows(columns)
    records = read(source)
    assert records.array("correct").tolist() == [1.0, 0.0, 0.0]
    (owner,) = [extra for extra in records.extras if extra.partition(".")[0] == name][:1]
    with pytest.raises(InputError, match=name):
        records.column(owner)
    with pytest.raises(InputError, match=name):
        read(source, columns=[owner])
    skipped = read(source, columns=["site"])
    assert skipped.stated == tuple(GOOD)
    assert [each.partition(".")[0] for each in skipped.skipped] == [name]
    assert skipped.extras == ()


@pytest.mark.parametrize("name", ["messages", "mixed"])
def test_what_is_kept_is_what_was_there(tmp_path: Path, name: str) -> None:
    kept = read(jsonl(tmp_path, {**GOOD, name: ODD[name]})).extra(name)
    assert kept.is_json
    assert [None if text is None else json.loads(text) for text in kept.column.to_pylist()] == ODD[name]


def test_objects_and_values_in_one_field_are_put_together_again(tmp_path: Path) -> None:
    many = [{"item": i, "x": {"a": i, "b": {"c": "t"}} if i < 700 else i} for i in range(900)]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in many))
    records = read(path)
    assert records.stated == ("item",)
    assert [json.loads(text) for text in records.extra("x").column.to_pylist()] == [row["x"] for row in many]
    assert records.extra("x").problem.line == 701


def test_nested_columns_of_several_files_stay_nested(tmp_path: Path) -> None:
    one = jsonl(tmp_path, {**GOOD, "messages": ODD["messages"]}, "1.jsonl")
    other = {**GOOD, "item": ["r1", "r2", "r3"]}
    for again in ({**other, "messages": ODD["messages"]}, {**other, "messages": ["plain", None, "text"]}):
        kept = read([one, jsonl(tmp_path, again, "2.jsonl")]).extra("messages")
        assert kept.is_json
        values = [None if text is None else json.loads(text) for text in kept.column.to_pylist()]
        assert values == [*ODD["messages"], *again["messages"]]


def test_columns_that_clash_are_all_kept_where_nothing_is_read(tmp_path: Path) -> None:
    one = jsonl(tmp_path, {"item": [1, 2, 3], "target": ["a", "b", "c"]}, "1.jsonl")
    two = jsonl(tmp_path, {"item": ["x", "y", "z"], "target": [1, 2, 3]}, "2.jsonl")
    assert {*read_as_is([one, two]).extras} == {"item", "target"}


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ('{"item": 1, "x": {"a": 1, "a": 2}}\n', 1),
        ('{"item": 1, "x": [{"b": 1}]}\n{"item": 2, "x": [{"a": 1, "a": 2}]}\n', 2),
        ('{"item": 1, "x": [{"b": 1}]}\n{"item": 2, "x": [{"a": {"k": 1, "\\u006b": 2}}]}\n', 2),
    ],
)
def test_duplicate_keys_refuse_everywhere(tmp_path: Path, content: str, line: int) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(content)
    for columns in (None, []):
        with pytest.raises(InputError, match="appears twice") as caught:
            read(path, columns=columns)
        assert caught.value.line == line


def test_bytes_that_are_no_text_refuse_everywhere(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"item": 1, "target": "A", "prediction": "B", "x": "a"}\n' * 1 + b'{"item": 2, "x": "\xff"}\n')
    with pytest.raises(InputError, match="not UTF-8 text") as caught:
        read(path, columns=[])
    assert caught.value.line == 2


def test_bytes_that_are_no_text_inside_an_object_refuse_too(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    rows = b"".join(b'{"item": %d, "target": "A", "prediction": "B", "note": {"a": 1}}\n' % i for i in range(5))
    path.write_bytes(rows + b'{"item": 9, "target": "A", "prediction": "B", "note": {"a": "\xff\xfe"}}\n')
    for columns in (None, []):
        with pytest.raises(InputError, match=r"a\.jsonl:6: not UTF-8 text \(byte \d+\)"):
            read(path, columns=columns)


def test_numbers_that_cannot_be_kept_are_null_counted_and_said(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"item": 1, "x": 1.5}\n{"item": 2, "x": NaN}\n{"item": 3, "x": 1e999}\n')
    records = read(path)
    assert records.column("x").to_pylist() == [1.5, None, None]
    assert "2 values of 'x' cannot be kept as numbers, and are taken as missing" in records.warnings
    with pytest.raises(InputError, match=r"a\.jsonl:2: x: a finite number is expected"):
        read(path, columns=["x"])


def test_a_table_without_answers_keeps_what_may_be_a_score(tmp_path: Path) -> None:
    scores = read(jsonl(tmp_path, {"item": [1, 2, 3], "score": [0.5, 1.0, 0.0]}), columns=[])
    assert "score" in scores.stated
    answers = read(jsonl(tmp_path, {**GOOD, "score": [0.5, 1.0, 0.0]}), columns=[])
    assert answers.skipped == ("site", "score")
    marked = read(jsonl(tmp_path, {**GOOD, "mark": [None, 0, 1], "score": [0.5, 1.0, 0.0]}), columns=[])
    assert marked.skipped == ("site",)  # the score tells why a row has no mark


def test_a_column_that_may_be_the_unit_is_kept_while_none_is_stated(tmp_path: Path) -> None:
    path = jsonl(tmp_path, {**GOOD, "patient_id": ["p", "p", "q"]})
    assert "patient_id" in read(path, columns=[]).stated
    assert read(path, columns=[], cluster="site").skipped == ("patient_id",)


def test_only_and_drop(tmp_path: Path) -> None:
    path = jsonl(tmp_path, {**GOOD, "confidence": [50, 60, 70]})
    with pytest.raises(InputError, match="divide percentages"):
        read(path)
    assert "confidence" not in read(path, drop="confidence").stated
    assert read(path, drop=["confidence"], only=["age"]).stated == ("item", "target", "prediction")
    assert read(path, drop=["confidence"], only=["site"]).stated == tuple(GOOD)
    assert "`drop=confidnce`: there is no such column" in read(path, drop=["confidence", "confidnce"]).warnings
    with pytest.raises(InputError, match="'item' is required"):
        read(path, drop=["item"])


def test_nested_columns_of_parquet_are_kept_as_they_are(tmp_path: Path) -> None:
    nested = pa.array([[{"role": "user"}], [], None])
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({**GOOD, "messages": nested, "meta": [{"site": "x", "n": [[1]]}] * 3}), path)
    records = read(path)
    assert records.stated == (*GOOD, "meta.site")
    assert records.to_arrow().column("messages").combine_chunks().equals(nested)
    skipped = read(path, columns=["meta.site"])
    assert skipped.stated == (*(name for name in GOOD if name != "site"), "meta.site")
    assert set(skipped.skipped) == {"site", "messages", "meta.n"}


def test_all_problems_are_said_at_once(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    bad = [
        {"item": 1, "confidence": "high", "latency_ms": -1},
        {"item": 2, "confidence": "low", "latency_ms": -2, "outcome": "?"},
        {"item": 3, "confidence": 0.5, "should_abstain": 1},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in bad))
    with pytest.raises(InputError) as caught:
        read(path)
    every = [caught.value, *caught.value.others]
    assert [(each.field, each.line, each.rows) for each in every] == [
        ("confidence", 1, 2),
        ("should_abstain", 3, 1),
        ("latency_ms", 1, 2),
    ]
    done = command("evaluate", path)
    assert done.code == 3
    *others, last = [line for line in done.err.splitlines() if ":" in line]
    assert last.startswith(f"steelyard: error: {path}:1: confidence: a number is expected")
    assert last.endswith("(in 2 rows, this is the first); 2 other problems")
    assert [line.partition(": ")[0] for line in others] == ["also", "also"]


def test_at_most_twenty_problems_are_shown(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    names = [f"group.g{n}" for n in range(30)]
    path.write_text(json.dumps({"item": 1, **dict.fromkeys(names, 0.5)}) + "\n")
    done = command("evaluate", path, "-m", "mean(item)", *(part for name in names for part in ("--by", name)))
    assert done.code == 3
    assert done.err.count("also: ") == 19
    assert "29 other problems" in done.err


def test_evaluate_compare_and_gate_read_past_odd_columns(tmp_path: Path) -> None:
    path = jsonl(tmp_path, {**GOOD, **ODD})
    asked = ("--resamples", 0, "--format", "json")
    done = command("evaluate", path, "-m", "accuracy", *asked)
    assert done.code == 0, done.err
    done = command("compare", path, path, "-m", "accuracy", *asked)
    assert done.code == 0, done.err
    done = command("gate", "--run", path, "--rule", "accuracy >= 0.1", "--format", "json")
    assert done.code == 0, done.err
    refused = command("evaluate", path, "-m", "accuracy", "--by", "mixed", *asked)
    assert refused.code == 3
    assert "mixed: a whole number is expected as in the rows before, this is text" in refused.err


def test_a_demand_says_what_becomes_of_each_column() -> None:
    demand = Demand(asked=frozenset({"site", "meta.ward"}), rest="skip", drop=frozenset({"group.x"}))
    wanted = {name: demand.of(name, scored=True) for name in ("target", "site", "group.y", "group.x", "other")}
    assert wanted == {"target": "read", "site": "read", "group.y": "keep", "group.x": "skip", "other": "skip"}
    assert demand.goes_inside("meta", scored=True)
    assert demand.goes_inside("group", scored=True)
    assert not demand.goes_inside("other", scored=True)


def test_what_is_nothing_that_can_be_read() -> None:
    for source in (3, object(), [1, 2]):
        with pytest.raises(UsageError, match="nothing that can be read"):
            read(source)
    with pytest.raises(UsageError, match="no file to read"):
        read([])
