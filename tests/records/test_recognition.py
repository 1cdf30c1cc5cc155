"""Which reader takes a file: by what is in it first, by its suffix where that leaves a choice."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import steelyard as sy
from steelyard.cli.main import app
from steelyard.errors import InputError, SteelyardError, UsageError
from steelyard.records.readers import Certainty, Head, Input, Table, read, reader, readers
from steelyard.records.readers.head import SIZE, look

LINES = b'{"item": "q1", "target": "A"}\n{"item": "q2", "target": "B"}\n'
TABLE = b"item,target\nq1,A\nq2,B\n"
SECRET = "SECRET-PATIENT"


@pytest.fixture(autouse=True)
def only_ours() -> Iterator[None]:
    """Forget the readers that a test registers."""
    before = set(readers)
    yield
    for name in set(readers) - before:
        readers.remove(name)


def parquet() -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.table({"item": ["q1", "q2"], "target": ["A", "B"]}), buffer)
    return buffer.getvalue()


def written(folder: Path, name: str, content: bytes) -> Path:
    (folder / name).write_bytes(content)
    return folder / name


def shouted(head: Head) -> Certainty:
    """A format of this test: a line SHOUT, then one item per line."""
    return "sure" if (head.text or "").startswith("SHOUT\n") else "no"


def load_shouted(source: Input) -> Table:
    items = source.text(2**20).decode().split()[1:]
    named = {"item": items, "target": ["A"] * len(items), "prediction": ["A"] * len(items)}
    return Table({source.column(name): pa.array(values) for name, values in named.items()}, len(items), first_line=2)


# -- content and suffix -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a.csv", "a.json", "a.parquet", "a.txt", "a", "a.jsonl"])
def test_json_lines_are_read_whatever_their_suffix(tmp_path: Path, name: str) -> None:
    assert read(written(tmp_path, name, LINES)).column("target").to_pylist() == ["A", "B"]


@pytest.mark.parametrize("name", ["a.csv", "a.json", "a.jsonl", "a.tsv", "a"])
def test_parquet_is_read_whatever_its_suffix(tmp_path: Path, name: str) -> None:
    assert read(written(tmp_path, name, parquet())).column("target").to_pylist() == ["A", "B"]


def test_a_stated_format_wins_over_the_content(tmp_path: Path) -> None:
    path = written(tmp_path, "a.jsonl", parquet())
    with pytest.raises(InputError, match=r"a\.jsonl:.*UTF-8|a\.jsonl:.*JSON"):
        read(path, format="jsonl")
    assert len(read(written(tmp_path, "a.json", TABLE), format="csv")) == 2


def test_text_of_no_known_form_needs_its_suffix(tmp_path: Path) -> None:
    assert len(read(written(tmp_path, "a.csv", TABLE))) == 2
    with pytest.raises(UsageError, match=r"a\.txt: looks like text .* name one with `format=`: csv \(\.csv\), tsv"):
        read(written(tmp_path, "a.txt", b"item\nq1\nq2\n"))
    with pytest.raises(UsageError, match=r"b\.txt: looks like a JSON object, .* jsonl \(\.jsonl \.ndjson\)"):
        read(written(tmp_path, "b.txt", LINES.splitlines()[0]))  # one object: a line, or a document of some format


@pytest.mark.parametrize("name", ["a.txt", "a", "a.dat", "a.csv"])
def test_a_table_is_known_by_its_cells_where_no_format_goes_by_the_suffix(tmp_path: Path, name: str) -> None:
    assert read(written(tmp_path, name, TABLE)).column("target").to_pylist() == ["A", "B"]
    quoted = b'"item","a note"\r\nq1,"one, two"\r\nq2,\r\n'
    assert read(written(tmp_path, name, quoted)).column("a note").to_pylist() == ["one, two", None]
    if name != "a.csv":
        tabs = written(tmp_path, name, TABLE.replace(b",", b"\t"))
        assert read(tabs).column("target").to_pylist() == ["A", "B"]


def test_the_suffix_of_another_format_is_believed_before_a_table_is(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="one object per line is expected"):
        read(written(tmp_path, "a.jsonl", TABLE))
    with pytest.raises(InputError, match="not a readable Parquet file"):
        read(written(tmp_path, "a.parquet", TABLE))


@pytest.mark.parametrize(
    ("text", "separator"),
    [
        ("a,b\n1,2\n", ","),
        ("a\tb\n1\t2,3\n", "\t"),
        ("a,b\n", None),
        ("a,b\n1,2,3\n", None),
        (",b\n1,2\n", None),
        ('a,b\n"1,2\n', None),
        ('{"a": 1, "b"\n{"a": 2, "b"\n', None),
        ("[1, 2],\n[3, 4],\n", None),
        ("one line, of prose\nand another\n", None),
    ],
)
def test_what_separates_cells_in_sight(text: str, separator: str | None) -> None:
    assert Head(name="a", data=text.encode()).separator == separator


def test_an_array_among_lines_is_refused_as_what_it_is(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a\.jsonl:1: one object per line is expected, this is an array"):
        read(written(tmp_path, "a.jsonl", b'[{"item": 1}]'), format="jsonl")


# -- standard input -----------------------------------------------------------------------------------------------


def arrow() -> bytes:
    buffer = io.BytesIO()
    pyarrow.feather.write_feather(pa.table({"item": ["q1", "q2"], "target": ["A", "B"]}), buffer)
    return buffer.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        LINES,
        TABLE,
        TABLE.replace(b",", b"\t"),
        parquet(),
        arrow(),
        gzip.compress(TABLE, mtime=0),
        b'[{"item": "q1", "target": "A"}, {"item": "q2", "target": "B"}]',
        b'{"item": ["q1", "q2"], "target": ["A", "B"]}',
    ],
    ids=["jsonl", "csv", "tsv", "parquet", "arrow", "gzip", "array", "columns"],
)
def test_standard_input_is_looked_at_as_any_file(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
    records = read("-")
    assert records.column("target").to_pylist() == ["A", "B"]
    assert records.sources[0].sha256 == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "<stdin>: there are no records"),
        (b'{"item": 1', "<stdin>:1: the last record is incomplete"),
        (b'{"item": 1}\n{"item" 2}\n{"item": 3}', "<stdin>:2: one object per line is expected"),
        (b"some words", "<stdin>: looks like text of no known form.* name one with `format=`"),
    ],
)
def test_what_standard_input_says_of_what_it_cannot_read(
    monkeypatch: pytest.MonkeyPatch, content: bytes, problem: str
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
    with pytest.raises(SteelyardError, match=problem):
        read("-")


def test_a_single_line_on_standard_input_is_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(LINES.splitlines()[0])))
    assert len(read("-")) == 1


# -- JSON documents -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "looks"),
    [
        (b'[["SECRET-PATIENT"]]', "a JSON array"),
        (b'{\n "SECRET-PATIENT": {"experiments": []},\n "samples": 1}', "a JSON object"),
        (b'{"version": 2, "samples": [' + b"1," * SIZE + b"1]}", "a JSON object"),
        (b"SECRET-PATIENT", "text of no known form"),
        (b'"run_metadata experiments"', "text of no known form"),
    ],
)
def test_a_json_that_no_reader_knows_lists_those_that_read_json(tmp_path: Path, content: bytes, looks: str) -> None:
    reader("lists", about="a list of lists", suffixes=(".json",), sniff=lambda head: "no")(load_shouted)
    with pytest.raises(InputError) as caught:
        read(written(tmp_path, "a.json", content))
    said = "; ".join(f"{each.name}: {each.about}" for each in readers.values() if ".json" in each.suffixes)
    assert "json: an array of objects, or an object of columns" in said
    assert said.endswith("; lists: a list of lists")
    assert caught.value.problem == (
        f"looks like {looks}, which no reader of .json files recognises. They read {said}. Another format can be named "
        f"with `format=`: {', '.join(readers)}"
    )
    assert SECRET not in str(caught.value)


def test_a_phq8_document_is_known_by_its_keys(tmp_path: Path) -> None:
    scores = dict.fromkeys(("NoInterest", "Depressed", "Sleep", "Tired", "Appetite"), 1)
    scores |= dict.fromkeys(("Failure", "Concentrating", "Moving"), 2)
    person = {"participant_id": 1, "success": True, "ground_truth_items": scores, "predicted_items": scores}
    document = {"experiments": [{"results": {"mode": "m", "results": [person]}}]}
    for name, about in (("a.json", {}), ("a.txt", {}), ("a.jsonl", {"run_metadata": {"run_id": "r"}})):
        text = json.dumps({**about, **document}, indent=1)
        assert len(read(written(tmp_path, name, text.encode()))) == 8


# -- a reader in one file -----------------------------------------------------------------------------------------


def test_a_reader_of_one_file_is_found_by_content(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reader("shouted", about="SHOUT, then items", sniff=shouted)(load_shouted)
    path = written(tmp_path, "a.csv", b"SHOUT\nq1\nq2\n")
    records = sy.read(path, map={"group.word": "prediction", "prediction": "target"})
    assert (records.stated, records.where(1)) == (("item", "prediction", "group.word"), (str(path), 3))
    assert records.sources[0].sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    app(["evaluate", str(path), "-m", "accuracy", "--resamples", "100", "--format", "json"], standalone_mode=False)
    (estimate,) = json.loads(capsys.readouterr().out)["estimates"]
    assert (estimate["metric"], estimate["value"], estimate["n"]) == ("accuracy", 1.0, 2)


def test_a_reader_without_sniffing_goes_by_its_suffix(tmp_path: Path) -> None:
    reader("shouted", about="SHOUT, then items", suffixes=(".shout", ".tar.gz"))(load_shouted)
    for name in ("a.shout", "b.SHOUT", "b.tar.gz"):
        assert len(read(written(tmp_path, name, b"SHOUT q1 q2"))) == 2
    with pytest.raises(UsageError, match="no format goes by this suffix"):
        read(written(tmp_path, "a.gz", b"SHOUT q1 q2"))


def test_the_suffix_decides_among_equals_and_several_are_an_error(tmp_path: Path) -> None:
    reader("one", about="one thing", suffixes=(".one",), sniff=shouted)(load_shouted)
    reader("two", about="another", suffixes=(".two",), sniff=shouted)(lambda source: pytest.fail("not this one"))
    assert len(read(written(tmp_path, "a.one", b"SHOUT\nq1"))) == 1
    with pytest.raises(UsageError, match=r"a\.csv: may be of several .* `format=`: one: one thing; two: another"):
        read(written(tmp_path, "a.csv", b"SHOUT\nq1"))
    reader("three", about="a third", suffixes=(".jsonl",), sniff=lambda head: "maybe")(load_shouted)
    with pytest.raises(UsageError, match=r"b\.jsonl: may be of several .* jsonl: one JSON object per line; three"):
        read(written(tmp_path, "b.jsonl", b"{"))


def test_a_special_kind_of_json_lines_wins_over_the_general_one(tmp_path: Path) -> None:
    def sniff(head: Head) -> Certainty:
        return "sure" if head.objects and "doc_id" in head.objects[0] else "no"

    def load(source: Input) -> Table:
        rows = [json.loads(line) for block in source.blocks() for line in block.data.splitlines()]
        sibling, _ = source.siblings("results_*.json")  # the other one is not read
        model = json.loads(sibling.text(2**20))["model"]
        columns = {"item": pa.array([row["doc_id"] for row in rows]), "model": pa.array([model] * len(rows))}
        return Table(columns, len(rows))

    reader("samples", about="samples of a harness", suffixes=(".jsonl",), sniff=sniff)(load)
    written(tmp_path, "results_1.txt", b"")
    written(tmp_path, "results_2.json", b"")
    sibling = written(tmp_path, "results_1.json", b'{"model": "m"}')
    path = written(tmp_path, "samples_1.jsonl", b'{"doc_id": 0}\n{"doc_id": 1}\n')
    other = written(tmp_path, "b.jsonl", b'{"item": 2}\n{"item": 3}\n')
    records = read([path, other])
    assert records.column("item").to_pylist() == [0, 1, 2, 3]
    assert [(source.name, source.rows) for source in records.sources] == [
        (str(path), 2),
        (str(other), 2),
        (str(sibling), 0),
    ]
    assert records.sources[2].sha256 == hashlib.sha256(sibling.read_bytes()).hexdigest()


def test_a_reader_from_an_installed_package_competes_by_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shouting.py").write_text(
        "from tests.records.test_recognition import load_shouted, reader, shouted\n"
        "reader('plugged', about='SHOUT, then items', sniff=shouted)(load_shouted)\n"
    )
    info = tmp_path / "shouting-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: shouting\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[steelyard]\nshouting = shouting\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr("steelyard.registry._loaded", [])
    assert len(read(written(tmp_path, "a.csv", b"SHOUT\nq1\n"))) == 1


def test_a_reader_that_fails_to_look_is_named_without_the_data(tmp_path: Path) -> None:
    def broken(head: Head) -> Certainty:
        raise ValueError(SECRET)

    path = written(tmp_path, "a.jsonl", LINES)
    reader("broken", about="nothing", sniff=broken)(load_shouted)
    with pytest.raises(UsageError, match=r"the reader 'broken' failed to look at a file \(ValueError\)") as caught:
        read(path)
    assert SECRET not in str(caught.value)
    assert len(read(path, format="jsonl")) == 2
    readers.remove("broken")
    reader("odd", about="nothing", sniff=lambda head: "perhaps")(load_shouted)  # type: ignore[arg-type, return-value]
    with pytest.raises(UsageError, match="the reader 'odd' answers with a certainty that is not known"):
        read(path)


# -- heads --------------------------------------------------------------------------------------------------------


def test_a_pipe_is_looked_at_and_read_whole(tmp_path: Path) -> None:
    content = b"".join(b'{"item": %d}\n' % n for n in range(10_000))
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)

    def drip() -> None:
        with pipe.open("wb", buffering=0) as stream:
            for start in range(0, len(content), 5_000):
                stream.write(content[start : start + 5_000])

    writer = threading.Thread(target=drip)
    writer.start()
    records = read(pipe)
    writer.join()
    assert records.column("item").to_pylist() == list(range(10_000))
    assert records.sources[0].sha256 == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ('{"a": {"x": 1}, "b": [{"y": 2}], "c"', ("a", "b")),
        (' \n{"a\\"b": "q: {", "é": "}", "c": tr', ('a"b', "é", "c")),
        ('{"a": 1}\n{"b": 2}', ("a",)),
        ('{"a": "unended \\', ("a",)),
        ('["a", {"b": 1}]', ()),
        ('{"\\x": 1, "b": 2}', ()),
    ],
)
def test_the_keys_in_sight_of_a_document(text: str, keys: tuple[str, ...]) -> None:
    assert Head(name="a.json", data=text.encode()).keys == keys


def test_a_head_is_bounded_and_leaves_the_stream_as_it_was() -> None:
    data = "é".encode() * SIZE
    stream = io.BytesIO(b"x" + data)
    stream.read(2)
    head, rest = look("folder/a.jsonl", stream)
    assert (head.name, len(head.data), head.complete, rest.read()) == ("a.jsonl", SIZE, False, data[1:])
    assert head.text is None
    stream.seek(1)
    whole, _ = look("a", stream)
    assert whole.text == "é" * (SIZE // 2)
    cut, _ = look("a", io.BytesIO(b"x" + data))
    assert cut.text is not None  # half a character at the end is not an error


def test_strings_with_many_quotes_are_looked_at_once() -> None:
    head = Head(name="a", data=b'{"a": "' + b'\\"' * (SIZE // 2) + b"\\", complete=False)
    assert head.keys == ("a",)


garbage = st.binary(max_size=200) | st.text(st.sampled_from('{}[]":,\\\n\x00ae1 é'), max_size=80).map(str.encode)


@given(data=garbage, start=st.sampled_from([b"", b"PK\x03\x04", b"PAR1", b"\x1f\x8b", b"\xef\xbb\xbf", b'{"a":']))
def test_no_reader_stumbles_over_garbage(data: bytes, start: bytes) -> None:
    head = Head(name="a.json", data=start + data, complete=False)
    facts: list[Any] = [head.container, head.text, head.json, head.keys, head.objects, head.separator]
    assert len(facts) == 6
    assert len(head.keys) == len(head.openings)
    assert head.shown.isprintable()
    for each in readers.values():
        assert each.sniff(head) in ("no", "maybe", "likely", "sure")


def test_every_packaged_reader_says_what_it_reads() -> None:
    for each in readers.values():
        assert each.about
        assert all(suffix.startswith(".") and suffix == suffix.lower() for suffix in each.suffixes)
    general = {"csv", "tsv", "arrow", "jsonl", "json", "parquet", "xlsx"}
    logs = {"phq8", "inspect", "promptfoo", "every-eval-ever", "lm-eval", "helm"}
    assert general | logs <= set(readers)
