"""`look` says what is in a file, `convert` writes it in another format: nothing is scored, nothing refused."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from steelyard.halves import whole
from steelyard.records.readers import read_as_is
from steelyard.records.writers import writers
from tests.support.commands import command

ROWS: list[dict[str, Any]] = [
    {"question_id": "a", "label": "Yes", "answer": "yes.", "messages": [{"role": "user"}], "patient_id": "p1"},
    {"question_id": "b", "label": "No", "answer": "I don't know", "messages": [], "patient_id": "p1", "n": 1},
    {"question_id": "c", "label": "No", "answer": "=1+1", "messages": None, "patient_id": "p2", "n": None},
    {"question_id": "d", "label": "Yes", "answer": "Maybe", "mixed": 1, "patient_id": "p3", "ok": True},
    {"question_id": "e", "label": "Yes", "answer": "\ud800é", "mixed": "x", "patient_id": "p3", "words": ["a", None]},
]
MAP = ("--map", "item=question_id,target=label,prediction=answer")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return path


def test_a_stranger_is_told_what_to_type(path: Path) -> None:
    done = command("look", path)
    assert done.code == 0, done.err
    assert "the column 'item' is required" in done.out
    assert "--map item=question_id,target=label,prediction=answer" in done.out
    assert "nested or mixed (kept as JSON)" in done.out
    assert "I don't know" not in done.out  # nothing is read as labels yet


def test_what_would_be_computed_and_what_is_odd(path: Path) -> None:
    document = command("look", path, *MAP, "--format", "json").json
    assert (document["kind"], document["rows"]) == ("look", 5)
    assert document["metrics"][0]["metrics"][:2] == ["accuracy", "balanced_accuracy"]
    assert document["outcomes"]["answered"] == 5
    by_name = {column["name"]: column for column in document["columns"]}
    assert by_name["target"]["use"] == "the right answer"
    assert by_name["patient_id"]["distinct"] == 3
    assert by_name["n"]["missing"] == 4
    assert "several kinds" in by_name["mixed"]["problem"] or "is expected" in by_name["mixed"]["problem"]
    assert any("never a target" in each for each in document["odd"])
    assert document["labels"][0] == {"label": "=1+1", "targets": 0, "predictions": 1}
    assert document["hints"] == ["rows look clustered by 'patient_id' (3 values in 5 rows): `cluster=patient_id`"]


def test_problems_are_listed_not_raised(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("item,confidence,latency_ms\n1,high,5\n2,0.5,-1\n2,0.5,7\n")
    document = command("look", path, "--format", "json").json
    said = [text.partition(": ")[2].partition(":")[0] for text in document["odd"]]
    assert said == ["confidence", "latency_ms", "the same record appears twice, first at line 3"]
    assert document["outcomes"] == {}


def test_labels_that_may_be_names_are_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("item,target,prediction\n" + "".join(f"{i},Person {i},Person {i}\n" for i in range(60)))
    done = command("look", path)
    assert done.code == 0
    assert "Person" not in done.out + done.err


def test_standard_input_is_looked_at(path: Path) -> None:
    done = command("look", "-", *MAP, "--format", "json", stdin=path.read_text())
    assert done.code == 0, done.err
    assert done.json["outcomes"]["answered"] == 5


TABLES = [writer for writer in writers.values() if writer.name != "inspect"]  # a log holds what its tool knows
SUFFIXES = [suffix for writer in TABLES for suffix in writer.suffixes]


@pytest.mark.parametrize("suffix", [*SUFFIXES, ".jsonl.gz", ".csv.gz"])
def test_every_format_holds_what_was_there(path: Path, suffix: str) -> None:
    target = path.with_name(f"b{suffix}")
    done = command("convert", path, target, "--verbatim", "--format", "json")
    assert done.code == 0, done.err
    assert done.json["rows"] == 5
    back = path.with_name("back.jsonl")
    assert command("convert", target, back).code == 0
    read_back = [json.loads(line) for line in back.read_text().splitlines()]
    rows = [{name: value for name, value in row.items() if value is not None} for row in read_back]
    for row, wanted in zip(rows, ROWS, strict=True):
        known = {name: whole(value) for name, value in wanted.items() if value is not None}
        if suffix in (".jsonl", ".ndjson", ".jsonl.gz"):
            assert row == known
        plain = {n: v for n, v in known.items() if n in ("question_id", "label", "answer", "patient_id", "n", "ok")}
        assert {n: row[n] for n in plain} == plain
    if suffix.endswith(".gz"):
        with gzip.open(target) as file:
            assert file.read()


def test_formulas_are_neutralised_in_cells_and_said(path: Path) -> None:
    target = path.with_name("b.csv")
    done = command("convert", path, target)
    assert (
        "1 texts that a spreadsheet would run as formulas begin with an apostrophe now; --verbatim leaves" in done.err
    )
    assert "'=1+1" in target.read_text()


def test_rows_and_columns_are_chosen(path: Path) -> None:
    target = path.with_name("b.jsonl")
    asked = (*MAP, "--where", "patient_id=p1", "--only", "target,item", "--drop", "n")
    done = command("convert", path, target, *asked)
    assert done.code == 0, done.err
    assert [json.loads(line) for line in target.read_text().splitlines()] == [
        {"item": "a", "target": "Yes", "prediction": "yes.", "patient_id": "p1"},
        {"item": "b", "target": "No", "prediction": "I don't know", "patient_id": "p1"},
    ]


def test_what_breaks_a_rule_is_converted_all_the_same(tmp_path: Path) -> None:
    path, target = tmp_path / "a.csv", tmp_path / "b.parquet"
    path.write_text("id,confidence,outcome\n1,80,maybe\n1,-3,\n")
    assert command("convert", path, target).code == 0
    assert read_as_is(target).to_arrow().to_pylist() == [
        {"id": 1, "confidence": 80.0, "outcome": "maybe"},
        {"id": 1, "confidence": -3.0, "outcome": None},
    ]


def test_columns_that_hold_what_they_should_not_are_converted_too(tmp_path: Path) -> None:
    path, target = tmp_path / "a.csv", tmp_path / "b.csv"
    path.write_text("item,=x,confidence,should_abstain\n1,-0.5,0.5,maybe\n2,=1,high,true\n3,2,,\n")
    done = command("convert", path, target)
    assert done.code == 0, done.err
    assert target.read_text() == "item,'=x,confidence,should_abstain\n1,-0.5,0.5,maybe\n2,'=1,high,true\n3,2,,\n"


def test_numbers_that_are_not_finite(tmp_path: Path) -> None:
    table = pa.table({"item": [1, 2], "x": [0.5, float("nan")], "words": [["a", "b"], None]})
    path = tmp_path / "a.parquet"
    pq.write_table(table, path)
    done = command("convert", path, tmp_path / "b.jsonl")
    assert done.code == 0, done.err
    assert "1 numbers that are not finite are written as missing" in done.err
    rows = [json.loads(line) for line in (tmp_path / "b.jsonl").read_text().splitlines()]
    assert rows == [{"item": 1, "x": 0.5, "words": ["a", "b"]}, {"item": 2, "x": None}] or rows[1] == {"item": 2}
    assert command("convert", path, tmp_path / "b.csv").code == 0
    assert (tmp_path / "b.csv").read_text().splitlines()[2] == "2,,"


@pytest.mark.parametrize(
    ("target", "code", "problem"),
    [
        ("b.doc", 2, "no format goes by the suffix"),
        ("b.parquet.gz", 2, "no format goes by the suffix"),
        ("a.jsonl", 2, "is what would be read"),
        ("a.jsonl/b.csv", 5, "cannot write"),
    ],
)
def test_what_cannot_be_written(path: Path, target: str, code: int, problem: str) -> None:
    before = sorted(os.listdir(path.parent))
    done = command("convert", path, path.parent / target)
    assert (done.code, problem in done.err) == (code, True), done.err
    assert sorted(os.listdir(path.parent)) == before


def test_standard_input_and_a_file_of_the_same_bytes_look_the_same(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("item,target,prediction\n1,1,1\n2,2, 1\n3,1,2\n4,2,2\n")
    one = command("look", path, "--format", "json").json
    two = command("look", "-", "--format", "json", stdin=path.read_text()).json
    for document in (one, two):
        del document["inputs"]
    assert one == two
    assert one["metrics"][0]["why"] == "the targets are numbers"


def test_nothing_is_written_where_no_column_is_left(path: Path) -> None:
    done = command("convert", path, path.with_name("b.parquet"), "--only", "typo")
    assert (done.code, "no column is left; there are: question_id" in done.err) == (2, True)
    assert not path.with_name("b.parquet").exists()
