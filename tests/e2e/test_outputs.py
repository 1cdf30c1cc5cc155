"""Nothing that is read is written over, no file is written twice, and every file that was written is named."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steelyard.cli.outputs import check_outputs
from steelyard.errors import UsageError
from tests.support.answers import answers, lines
from tests.support.commands import Done, command
from tests.support.phq8 import small
from tests.support.trec import qrels_text, run_text

FEW = ("--resamples", "100")
SIGNAL = "--features token_msp --input phq8.json"
DIAGRAM = "reliability.linear-on-token_msp"
# every command that writes a file, and each of its inputs in the place of an output
READ = [
    ("o/evaluation.json", "evaluate o/evaluation.json --input-format jsonl --out o"),
    ("o/evaluation.json", "evaluate a.jsonl --task-file o/evaluation.json --out o"),
    ("o/comparison.json", "compare o/comparison.json a.jsonl --input-format jsonl --out o"),
    ("o/comparison.json", "compare a.jsonl a.jsonl --task-file o/comparison.json --out o"),
    ("o/evaluation.json", "rank o/evaluation.json base.run --out o"),
    ("o/evaluation.json", "rank qrels.txt base.run o/evaluation.json --out o"),
    ("qrels.txt", "rank qrels.txt base.run --per-query qrels.txt"),
    ("phq8.json", "selective --input phq8.json --output phq8.json"),
    ("cal.json", "selective --input phq8.json --calibration cal.json --output cal.json"),
    ("o/selective.json", "selective --input phq8.json --calibration cal.json --calibration o/selective.json --out o"),
    ("task.yaml", "selective --input phq8.json --task-file task.yaml --output task.yaml"),
    ("phq8.json", "calibrate temperature --input phq8.json --output phq8.json"),
    ("task.yaml", "calibrate temperature --input phq8.json --task-file task.yaml --output task.yaml"),
    ("phq8.json", "calibrate fit --method linear --features token_msp --input phq8.json --output phq8.json"),
    ("task.yaml", "calibrate fit --method linear --input phq8.json --task-file task.yaml --output task.yaml"),
    ("p/base.json", "segment propose p/new.json p/base.json -o p/base.json"),
    ("p/new.json", "segment propose p/new.json p/base.json -o p/new.json"),
    ("p/segment-comparison.json", "segment compare p/segment-comparison.json --out p"),
    ("o/segment-comparison.json", "segment compare p/segment-comparison.json --out o"),
    ("v.npz", "shift apply none v.npz -o v.npz"),
    ("v.npz", "shift apply additive:v.npz w.npz -o v.npz"),
    ("o/ingest.json", "retrieval run o/ingest.json q.json --out o"),
    ("o/ingest.json", "retrieval run d.json o/ingest.json --out o"),
    ("o/ingest.json", "retrieval run d.json q.json --shift o/ingest.json --out o"),
    ("o/evidence.npz", "retrieval run d.json q.json --embedder npz:o/evidence.npz --out o"),
    ("o/ingest.json", "retrieval run d.json q.json --embedder openai:m --cache o --out o"),
    ("qrels.txt", "retrieval run d.json q.json --qrels qrels.txt --trec-run qrels.txt"),
    ("o/evidence.npz", "retrieval eval o/evidence.npz v.npz --out o"),
    ("o/evidence.npz", "retrieval eval v.npz o/evidence.npz --out o"),
    ("o/evidence.npz", "retrieval eval v.npz v.npz --shift additive:o/evidence.npz --out o"),
]
TWICE = [
    ("--trec-run and --out", "retrieval run d.json q.json --trec-run new/run.json --out new"),
    ("--per-query and --out", "rank qrels.txt base.run --per-query o/evaluation.json --out o"),
    ("--per-query and --out", "rank qrels.txt base.run --per-query new/evaluation.json --out ./p/../new"),
    ("--per-query and --out", "rank qrels.txt base.run --per-query link/evaluation.json --out o"),
    ("--per-query and --out", "rank qrels.txt base.run --per-query hard.json --out o"),
    ("--per-query and --out", "rank qrels.txt base.run --per-query new --out new"),
    ("--output and --plot", "selective --input phq8.json --output new/risk-coverage.llm.png --plot new"),
    ("--output and --plot", "selective --input phq8.json --output new --plot new"),
    ("--output and --plot", f"calibrate fit --method linear {SIGNAL} --output new/{DIAGRAM}.pdf --plot new"),
    (
        "is what would be read",
        f"calibrate fit --method linear --features token_msp --input {DIAGRAM}.svg --input-format phq8 "
        "--output c.json --plot .",
    ),
]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with something of every kind to read."""
    for name in ("o", "p"):
        (tmp_path / name).mkdir()
    (tmp_path / "a.jsonl").write_text(lines(answers()))
    (tmp_path / "task.yaml").write_text("labels: [yes, no]\n")
    (tmp_path / "qrels.txt").write_text(qrels_text())
    (tmp_path / "base.run").write_text(run_text(1, "alpha"))
    (tmp_path / "phq8.json").write_text(json.dumps(small()))
    (tmp_path / f"{DIAGRAM}.svg").write_text(json.dumps(small()))
    for name in ("cal.json", "d.json", "q.json", "o/ingest.json", "o/evaluation.json", "o/comparison.json"):
        (tmp_path / name).write_text("{}\n")
    (tmp_path / "o/selective.json").write_text("{}\n")
    rows = [{"QueryId": f"q{i}", "RelevantDocId": "d", "Rank": 1 + i % 2, "Ap1": 1.0 / (1 + i % 2),
             "Ndcg3": 1.0 if i % 2 == 0 else 0.63093, "TopScore": 0.9, "Top2Score": 0.8} for i in range(6)]  # fmt: skip
    for name in ("p/base.json", "p/new.json", "o/segment-comparison.json"):
        (tmp_path / name).write_text(json.dumps(rows))
    segments = {"Metric": "ndcg@3", "Eps": 0, "BaselinePath": "p/base.json", "Decisions": {}}
    segments |= {"PosNegPath": "o/segment-comparison.json"}
    (tmp_path / "p/segment-comparison.json").write_text(json.dumps(segments))
    for name in ("v.npz", "w.npz", "o/evidence.npz"):
        np.savez(tmp_path / name, vectors=np.eye(3))
    os.link(tmp_path / "o/evaluation.json", tmp_path / "hard.json")
    (tmp_path / "link").symlink_to("o")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def run(text: str, place: Path) -> Done:
    return command(*text.split(), root=place / "root")


def refused(done: Done, *said: str) -> None:
    assert done.code == 2, done.err
    assert done.out == ""
    assert len(done.err.splitlines()) == 1
    for part in said:
        assert part in done.err


@pytest.mark.parametrize(("path", "text"), READ)
def test_no_input_is_written_over(place: Path, path: str, text: str) -> None:
    before = files(place)
    assert path in before
    refused(run(text, place))
    assert files(place) == before


@pytest.mark.parametrize(("options", "text"), TWICE)
def test_no_file_is_written_twice(place: Path, options: str, text: str) -> None:
    before = files(place)
    refused(run(text, place), options)
    assert files(place) == before


def test_links_stand_for_what_they_lead_to(tmp_path: Path) -> None:
    given, soft, hard = tmp_path / "given", tmp_path / "soft", tmp_path / "hard"
    given.write_text("x")
    soft.symlink_to(given)
    os.link(given, hard)
    for output in (soft, hard, tmp_path / "y" / ".." / "given"):
        (tmp_path / "y").mkdir(exist_ok=True)
        with pytest.raises(UsageError, match="is what would be read"):
            check_outputs({"--out": [output]}, [None, str(given)])
    check_outputs({"--a": [tmp_path / "a"], "--b": [tmp_path / "b"]}, ["-", "best", str(given)])
    check_outputs({"--a": [Path("/dev/null")], "--b": [Path("/dev/null")]}, [])
    with pytest.raises(UsageError, match=r"--a and --b would both write .*; name two files"):
        check_outputs({"--a": [tmp_path / "a"], "--b": [tmp_path / "y" / ".." / "a"]}, [])


WRITES: list[tuple[str, Any]] = [
    ("evaluate a.jsonl -m accuracy --out new", FEW),
    ("compare a.jsonl a.jsonl -m accuracy --out new", FEW),
    ("rank qrels.txt base.run --per-query new/each.jsonl --out new", FEW),
    ("selective --input phq8.json --out new --plot new/pictures", ("--bootstrap-resamples", "100")),
    ("calibrate temperature --confidence token_msp --input phq8.json --output new/c.json --plot new", ()),
    ("calibrate fit --method linear --features token_msp --input phq8.json --output new/c.json --plot new", ()),
    ("segment propose --rule oracle p/new.json p/base.json -o new/segments.json", ()),
    ("segment compare p/segment-comparison.json --out new", FEW),
    ("shift apply none v.npz -o new.npz", ()),
    ("retrieval run docs.json queries.json --no-save --shift none --out new", FEW),
    ("retrieval run docs.json queries.json --no-save --trec-run new/run.txt", FEW),
    ("retrieval eval v.npz w.npz --baseline --gate-profile rank --no-save --out new", FEW),
]


@pytest.mark.parametrize(("text", "more"), WRITES)
def test_every_file_that_was_written_is_named(place: Path, text: str, more: tuple[str, ...]) -> None:
    (place / "docs.json").write_text(json.dumps([{"id": "a", "text": "one"}, {"id": "b", "text": "two"}]))
    rows = [{"id": f"q{i}", "text": "one two", "relevantDocId": "a"} for i in range(4)]
    (place / "queries.json").write_text(json.dumps(rows))
    before = files(place)
    done = command(*text.split(), *more, root=place / "root")
    assert done.code in (0, 1, 6), done.err
    made = [path for path in files(place) if path not in before]
    assert made
    for path in made:
        assert any(line.startswith(f"wrote {path}") for line in done.err.splitlines()), (path, done.err)
