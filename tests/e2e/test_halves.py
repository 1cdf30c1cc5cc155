"""Half a character, wherever it enters, is six characters of text from there on, and everything can be written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import steelyard as sy
from steelyard.records.table import Records
from tests.support.commands import command, steelyard

HALF, SIX = "yes\ud800", "yes\\ud800"
ROWS: list[dict[str, Any]] = [
    {
        "item": f"q{number}\udfff",
        "target": (HALF, "no")[number % 2],
        "prediction": (HALF, "no")[number % 3 % 2],
        "group": {"site\ud800": f"{number % 2}\udc00"},
        "words": [HALF, None],
        "mixed": (1, HALF)[number % 2],
        "task": "t\ud800",
        "model": "m\ud800",
    }
    for number in range(8)
]
TASK = r"""
name: t
data: items.jsonl
id: item
question: question
target: target
labels: ["yes\ud800", "no"]
prompt: "Ja\ud800? {{ question }}"
"""


@pytest.fixture
def server() -> Iterator[str]:
    """A model server that says half a character."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = self.rfile.read(int(self.headers["Content-Length"]))
            assert rb"Ja\\ud800?" in asked
            answer = json.dumps({"choices": [{"message": {"content": HALF}}]}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: Any) -> None:
            pass

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=listening.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listening.server_address[1]}/v1"
    listening.shutdown()
    listening.server_close()
    thread.join()


def flat(row: dict[str, Any]) -> dict[str, Any]:
    nested = [(outer, parts) for outer, parts in row.items() if isinstance(parts, dict)]
    inner = {f"{outer}.{name}": part for outer, parts in nested for name, part in parts.items()}
    return {**{name: value for name, value in row.items() if not isinstance(value, dict)}, **inner}


def lines(path: Path) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    return path


def check(records: Records) -> None:
    """The table of ROWS, with escapes."""
    assert records.column("target").to_pylist() == [SIX, "no"] * 4
    assert records.column("item").to_pylist()[0] == "q0\\udfff"
    assert records.column("group.site\\ud800").to_pylist()[:2] == ["0\\udc00", "1\\udc00"]
    assert records.counts()["answered"] == 8
    json.dumps(records.to_arrow().to_pylist(), ensure_ascii=False).encode()


def test_tables_of_every_kind(tmp_path: Path) -> None:
    path, whole = lines(tmp_path / "a.jsonl"), tmp_path / "a.json"
    whole.write_text(json.dumps(ROWS))
    cells = {name: [flat(row)[name] for row in ROWS] for name in flat(ROWS[0])}
    frame = pandas.DataFrame({place: pandas.Series(each, dtype=object) for place, each in enumerate(cells.values())})
    frame.columns = pandas.Index(list(cells), dtype=object)
    columns = {name: each for name, each in cells.items() if name not in ("mixed", "words")}
    for given in (path, whole, ROWS, frame):
        records = sy.read(given)
        check(records)
        assert records.extra("mixed").column.to_pylist()[1] in (SIX, json.dumps(SIX))
    assert sy.read(path).column("words").to_pylist()[0] == [SIX, None]
    assert sy.read(frame).column("words").to_pylist()[0] == [SIX, None]
    check(Records.from_columns(columns))
    lists = Records.from_columns({"item": [1, 2], "x": [[HALF], ["no"]]})
    assert lists.column("x").to_pylist() == [[SIX], ["no"]]
    twice = sy.read([{"item": "\ud83e\udd94"}])  # two halves that stand together, as in a file
    assert twice.column("item").to_pylist() == ["🦔"]


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "tsv", "parquet", "arrow", "inspect.json"])
def test_what_was_read_is_written_and_read_again(tmp_path: Path, suffix: str) -> None:
    path, target = lines(tmp_path / "a.jsonl"), tmp_path / f"b.{suffix}"
    done = command("convert", path, target, "--drop", "mixed")
    assert (done.code, "half" in done.err) == (0, False)
    records = sy.read(target)
    assert set(records.column("target").to_pylist()) == {SIX, "no"}
    assert records.column("item").to_pylist()[0] == "q0\\udfff"


def test_runs_gates_and_exports(tmp_path: Path) -> None:
    lines(tmp_path / "a.jsonl")
    asked = ("-m", "accuracy", "-m", r'recall."yes\ud800"', "--by", r"group.site\ud800", "--resamples", 100)
    for run in ("one", "two"):
        kept = ("--save", "--run-id", run, "--label", "note=a\udcff", "--format", "json")
        done = command("evaluate", "a.jsonl", *asked, *kept, cwd=tmp_path, root=tmp_path)
        assert done.code == 0, done.err
    assert {each["metric"] for each in done.json["estimates"]} >= {r'recall."yes\\ud800"'}
    shown = command("runs", "show", "one", "--format", "json", cwd=tmp_path, root=tmp_path)
    assert shown.json["Labels"]["note"] == "a\\udcff"
    rule = r'accuracy{group."site\ud800"="0\udc00"} >= 0'
    gate = command("gate", "--run", "two", "--baseline", "one", "--rule", rule, cwd=tmp_path, root=tmp_path)
    assert gate.code == 0, gate.err
    for target, kind, about in (("e.json", "every-eval-ever", "model"), ("mlruns", "mlflow", "run_name")):
        asked = ("--to", kind, "--about", f"{about}=a\udcff")
        done = command("export", "one", tmp_path / target, *asked, cwd=tmp_path, root=tmp_path)
        assert done.code == 0, done.err
    assert "\\\\ud800" in (tmp_path / "e.json").read_text()


def test_a_task_a_server_and_its_reply(tmp_path: Path, server: str) -> None:
    rows = [{"item": n, "question": f"Nein\ud800 {n}", "target": (HALF, "no")[n % 2]} for n in range(6)]
    (tmp_path / "items.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (tmp_path / "t.task.yaml").write_text(TASK)
    spec = {"id": "s", "task": "t.task.yaml", "models": [{"name": "m", "base_url": server}], "metrics": ["accuracy"]}
    (tmp_path / "spec.yaml").write_text(json.dumps(spec))
    done = command("run", tmp_path / "spec.yaml", "--resamples", 100, "--format", "json", root=tmp_path)
    assert done.code == 0, done.err
    assert [e["value"] for e in done.json["evaluation"]["estimates"] if e["metric"] == "accuracy"] == [0.5]
    table = pq.read_table(next((tmp_path / "results").rglob("records.parquet")))
    assert set(table.column("prediction").to_pylist()) == {SIX}
    table.validate(full=True)


def test_bytes_on_the_command_line_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "b\udcff.jsonl"
    lines(path)
    done = steelyard("evaluate", path, "-m", "accuracy", "--by", "group.a\udcff", "--resamples", 0)
    assert done.returncode in (2, 3)
    assert "a\\\\udcff" in done.stderr or "a\\udcff" in done.stderr
    folder = tmp_path / "r\udce9mi"
    folder.mkdir()
    done = steelyard("evaluate", path, "-m", "accuracy", "--resamples", 0, f"--out={folder / 'new'}")
    assert done.returncode == 0, done.stderr
    assert (folder / "new" / "evaluation.json").is_file()


def test_text_in_memory_that_arrow_holds_is_utf_8() -> None:
    wrong = pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xed\xa0\x80"]).buffers())
    with pytest.raises(sy.InputError, match="not UTF-8 text"):
        sy.read(pa.table({"item": wrong}))
