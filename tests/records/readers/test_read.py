"""Which reader takes a file, how several files become one table, and what the system may refuse."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from steelyard.errors import InputError, UsageError
from steelyard.records.readers import Input, Table, read, reader, readers
from steelyard.records.task import Task

SECRET = "SECRET-PATIENT"


def jsonl(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def answers(tmp_path: Path) -> Path:
    return jsonl(
        tmp_path / "answers.jsonl",
        {"item": "q1", "model": "a", "patient": "p1", "target": "A", "prediction": "A"},
        {"item": "q1", "model": "b", "patient": "p1", "target": "A", "prediction": "B"},
        {"item": "q2", "model": "a", "patient": "p2", "target": "B", "prediction": None},
    )


# -- formats ----------------------------------------------------------------------------------------------------


def test_the_suffix_chooses_the_reader(tmp_path: Path) -> None:
    row = {"item": "q1", "target": "A"}
    jsonl(tmp_path / "a.jsonl", row)
    jsonl(tmp_path / "a.NDJSON", row)
    (tmp_path / "a.csv").write_text("item,target\nq1,A\n")
    (tmp_path / "a.tsv").write_text("item\ttarget\nq1\tA\n")
    pq.write_table(pa.table({"item": ["q1"], "target": ["A"]}), tmp_path / "a.parquet")
    for name in ("a.jsonl", "a.NDJSON", "a.csv", "a.tsv", "a.parquet"):
        records = read(tmp_path / name)
        assert records.column("target").to_pylist() == ["A"]
        assert records.sources[0].name == str(tmp_path / name)


def test_an_unknown_suffix_or_format_lists_the_formats(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "answers.txt", {"item": "q1"})
    with pytest.raises(UsageError, match=r"answers\.txt: .*csv \(\.csv\), .*jsonl \(\.jsonl \.ndjson\)"):
        read(path)
    assert len(read(str(path), format="jsonl")) == 1
    with pytest.raises(UsageError, match="unknown format 'jsonlines'; did you mean 'jsonl'"):
        read(path, format="jsonlines")


def test_a_reader_from_outside(tmp_path: Path) -> None:
    @reader("words", about="words", suffixes=(".words",))
    def load(source: Input) -> Table:
        words = bytes(source.whole()).decode().split()
        return Table({source.column("word"): pa.array(words)}, len(words))

    try:
        path = tmp_path / "a.words"
        path.write_text("one two")
        records = read(path, map={"item": "word"})
        assert records.column("item").to_pylist() == ["one", "two"]
        assert records.sources[0].sha256 == hashlib.sha256(b"one two").hexdigest()
    finally:
        readers.remove("words")


# -- what the system refuses --------------------------------------------------------------------------------------


def test_what_cannot_be_opened(tmp_path: Path) -> None:
    loop = tmp_path / "loop.jsonl"
    loop.symlink_to(loop)
    folder = tmp_path / "folder.jsonl"
    folder.mkdir()
    names = [
        tmp_path / "none.jsonl",
        tmp_path / "none.xyz",
        loop,
        folder,
        folder / "a" / "b.csv",
        tmp_path / ("x" * 300),
    ]
    for path in (*names, Path("a\x00b.jsonl"), tmp_path / "line\nbreak\x1b.jsonl", "/", ".", ""):
        with pytest.raises(InputError) as caught:
            read(path)
        assert caught.value.file == str(path)
        assert str(caught.value).isprintable()


def test_no_permission(answers: Path) -> None:
    answers.chmod(0)
    if os.access(answers, os.R_OK):  # an administrator may read everything
        assert len(read(answers)) > 0
        return
    with pytest.raises(InputError, match="permission denied"):
        read(answers)


def test_devices_and_pipes(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no records"):
        read("/dev/null", format="jsonl")
    for format, content in {"jsonl": b'{"item": 1}\n', "csv": b"item\n1\n", "parquet": parquet_bytes()}.items():
        pipe = tmp_path / f"pipe-{format}"
        os.mkfifo(pipe)
        writer = threading.Thread(target=pipe.write_bytes, args=(content,))
        writer.start()
        assert read(pipe, format=format).column("item").to_pylist() == [1]
        writer.join()


def parquet_bytes() -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.table({"item": [1]}), buffer)
    return buffer.getvalue()


def test_standard_input(tmp_path: Path, answers: Path) -> None:
    program = (
        "import sys; from steelyard.records.readers import read\n"
        "records = read(['-', *sys.argv[2:]], format=sys.argv[1] or None)\n"
        "print(len(records), records.sources[0].name, records.sources[0].sha256)"
    )

    def run(content: bytes, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run([sys.executable, "-c", program, *arguments], input=content, capture_output=True)

    for format, content in {"": b'{"item": 1}\n', "csv": b"item\n1\n", "parquet": parquet_bytes()}.items():
        found = run(content, format)
        assert found.stdout.decode().split() == ["1", "<stdin>", hashlib.sha256(content).hexdigest()], found.stderr
    assert run(b'{"item": "z"}\n', "", str(answers)).stdout.startswith(b"4 ")
    assert b"<stdin>:1: item: " in run(b'{"item": true}\n', "").stderr
    assert b"only once" in run(b"", "", "-").stderr


def test_standard_input_that_is_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    for format, content in {None: b'{"item": 1}\n', "csv": b"item\n1\n", "parquet": parquet_bytes()}.items():
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        assert read("-", format=format).column("item").to_pylist() == [1]
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(InputError, match="<stdin>: cannot be read"):
        read("-")


# -- names and rows -----------------------------------------------------------------------------------------------


def test_rename(tmp_path: Path) -> None:
    rows = {"item_id": 1, "epoch": 2, "meta": {"site": "x"}}
    path = jsonl(tmp_path / "a.jsonl", rows)
    table = tmp_path / "a.csv"
    table.write_text("item_id,epoch,meta.site\n1,2,x\n")
    pq.write_table(pa.Table.from_pylist([rows]), tmp_path / "a.parquet")
    for each in (path, table, tmp_path / "a.parquet"):
        records = read(each, map={"item": "item_id", "repeat": "epoch", "group.site": "meta.site"})
        assert records.stated == ("item", "repeat", "group.site")
        swapped = read(each, map={"item_id": "epoch", "epoch": "item_id", "item": "meta.site"})
        assert swapped.column("item_id").to_pylist() == [2]
        with pytest.raises(UsageError, match=r"cannot rename 'epoch' to 'item_id'.*already"):
            read(each, map={"item_id": "epoch"})
        with pytest.raises(
            UsageError, match="cannot rename 'nothing': there is no such column; columns: item_id, epoch"
        ):
            read(each, map={"item": "nothing"})
        with pytest.raises(UsageError, match="cannot rename 'meta'"):
            read(each, map={"item": "item_id", "group": "meta"})
        with pytest.raises(UsageError, match="'epoch' is renamed twice"):
            read(each, map={"item": "epoch", "repeat": "epoch"})
        with pytest.raises(InputError) as caught:
            read(each, map={"item": "item_id", "outcome": "epoch"})
        assert caught.value.field == "outcome"


def test_renamed_columns_follow_the_rules_of_their_new_name(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "a.jsonl", {"item": 1, "p": 0.5}, {"item": 2, "p": "0.5"})
    with pytest.raises(InputError, match=r"a\.jsonl:2: confidence: a number is expected"):
        read(path, map={"confidence": "p"})


def test_where_filters_after_every_row_was_checked(answers: Path, tmp_path: Path) -> None:
    assert read(answers, where={"model": "a"}).column("item").to_pylist() == ["q1", "q2"]
    assert len(read(answers, where={"model": "a", "outcome": "abstained"})) == 1
    with pytest.raises(UsageError, match="no row has model=c"):
        read(answers, where={"model": "c"})
    with pytest.raises(UsageError, match="no row has model=b and outcome=abstained"):
        read(answers, where={"model": "b", "outcome": "abstained"})
    broken = jsonl(tmp_path / "b.jsonl", {"item": 1, "model": "a"}, {"item": 1, "model": "b", "confidence": 7})
    with pytest.raises(InputError):
        read(broken, where={"model": "a"})


def test_cluster(answers: Path, tmp_path: Path) -> None:
    assert len(read(answers, cluster="patient").cluster[0]) == 2
    with pytest.raises(UsageError, match="'ward' is not in the data"):
        read(answers, cluster="ward")
    path = jsonl(tmp_path / "b.jsonl", {"item": 1, "ward": "x"}, {"item": 2})
    with pytest.raises(InputError, match=r"b\.jsonl:2: ward: every row needs its cluster"):
        read(path, cluster="ward")


# -- several files ------------------------------------------------------------------------------------------------


def test_rows_of_several_files_follow_each_other(tmp_path: Path) -> None:
    one = jsonl(tmp_path / "one.jsonl", {"item": "q1", "x": 1, "y": "a", "w": [1]}, {"item": "q2", "x": 2, "z": True})
    two = tmp_path / "two.csv"
    two.write_text("item,x,note\nq3,0.5,hello\n")
    three = tmp_path / "three.parquet"
    pq.write_table(
        pa.table({"item": ["q4"], "x": pa.nulls(1), "w": [[0.5]], "y": pa.array(["b"], pa.large_string())}), three
    )
    records = read([one, str(two), three])
    assert {name: records.column(name).to_pylist() for name in records.stated} == {
        "item": ["q1", "q2", "q3", "q4"],
        "x": [1.0, 2.0, 0.5, None],
        "y": ["a", None, None, "b"],
        "w": [[1.0], None, None, [0.5]],
        "z": [None, True, None, None],
        "note": [None, None, "hello", None],
    }
    assert [source.name for source in records.sources] == [str(one), str(two), str(three)]
    assert [records.where(row) for row in range(4)] == [(str(one), 1), (str(one), 2), (str(two), 2), (str(three), 1)]
    assert all(
        source.sha256 == hashlib.sha256(Path(source.name).read_bytes()).hexdigest() for source in records.sources
    )


@pytest.mark.parametrize(("first", "second"), [("a", 1), (1, True), (True, "a"), ([1], 1), (["a"], [1])])
def test_kinds_of_two_files_do_not_meet(tmp_path: Path, first: Any, second: Any) -> None:
    one, two = (
        jsonl(tmp_path / "1.jsonl", {"item": 1, "x": first}),
        jsonl(tmp_path / "2.jsonl", {"item": 2, "x": second}),
    )
    with pytest.raises(InputError) as caught:
        read([one, two], columns=["x"])
    assert (caught.value.file, caught.value.field) == (str(two), "x")
    assert str(one) in caught.value.problem
    kept = read([one, two]).extra("x")  # nobody asked for it
    assert [json.loads(text) for text in kept.column.to_pylist()] == [first, second]
    assert str(kept.problem) == str(caught.value)


def test_a_whole_number_too_large_for_its_neighbours(tmp_path: Path) -> None:
    one = jsonl(tmp_path / "1.jsonl", {"item": 1, "x": 2**53 + 1})
    with pytest.raises(InputError, match=r"1\.jsonl: x: a whole number this large .* together with fractions"):
        read([one, jsonl(tmp_path / "2.jsonl", {"item": 2, "x": 0.5})], columns=["x"])


def test_duplicates_across_files_name_both_places(tmp_path: Path) -> None:
    one = jsonl(tmp_path / "1.jsonl", {"item": "q0"}, {"item": SECRET})
    two = jsonl(tmp_path / "2.jsonl", {"item": SECRET})
    with pytest.raises(InputError) as caught:
        read([one, two])
    assert (caught.value.file, caught.value.line) == (str(two), 1)
    assert f"first at {one}:2" in caught.value.problem
    assert SECRET not in str(caught.value)


def test_errors_in_the_second_file_name_it(tmp_path: Path) -> None:
    one = jsonl(tmp_path / "1.jsonl", {"item": 1})
    two = jsonl(tmp_path / "2.jsonl", {"item": 2}, {"item": 3, "confidence": 2})
    with pytest.raises(InputError) as caught:
        read([one, two])
    assert (caught.value.file, caught.value.line, caught.value.field) == (str(two), 2, "confidence")
    (tmp_path / "empty.jsonl").touch()
    with pytest.raises(InputError, match=r"empty\.jsonl: there are no records"):
        read([one, tmp_path / "empty.jsonl"])


def test_warnings_of_every_file_are_kept(tmp_path: Path) -> None:
    for name in ("1", "2"):
        (tmp_path / f"{name}.jsonl").write_text(f'{{"item": {name}}}\n{{"item"')
    records = read([tmp_path / "1.jsonl", tmp_path / "2.jsonl"], salvage=True)
    assert len(records.warnings) == 2


def test_nothing_to_read() -> None:
    with pytest.raises(UsageError, match="no file"):
        read([])


# -- tasks --------------------------------------------------------------------------------------------------------


def test_a_task_is_given_or_found_beside_the_data(answers: Path, tmp_path: Path) -> None:
    assert read(answers).task == Task()
    (tmp_path / ".task.yaml").write_text("range: 3\n")
    assert read(answers).task == Task(range=3.0)
    (tmp_path / "answers.task.yaml").write_text("labels: [A, B]\n")
    assert read(answers).task == Task(labels=("A", "B"))
    other = tmp_path / "other.yaml"
    other.write_text("direction: lower\n")
    assert read(answers, task=other).task == read(answers, task=str(other)).task == Task(direction="lower")
    assert read(answers, task={"range": 4}).task == Task(range=4.0)
    assert read(answers, task=Task()).task == Task()
    with pytest.raises(InputError, match=r"answers\.jsonl:3: target: the target is not among"):
        read(answers, task={"labels": ["A", "C"]})
    with pytest.raises(UsageError, match="cannot be read"):
        read(answers, task=tmp_path / "none.yaml")


def test_files_of_different_tasks(tmp_path: Path) -> None:
    one, two = jsonl(tmp_path / "1.jsonl", {"item": 1}), jsonl(tmp_path / "2.jsonl", {"item": 2})
    (tmp_path / "1.task.yaml").write_text("range: 3\n")
    assert read([one, two]).task.range == 3
    (tmp_path / "2.task.yaml").write_text("range: 4\n")
    with pytest.raises(UsageError, match=r"different tasks .*1\.task\.yaml.*2\.task\.yaml"):
        read([one, two])
    assert read([one, two], task={"range": 5}).task.range == 5
