"""The real Inspect reads what `convert` writes for it, and computes the same numbers.

STEELYARD_INTEROP_PYTHON names the interpreter of an environment that has inspect_ai; without it nothing runs here.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from steelyard.records.writers.inspect import REPLIED
from tests.support.commands import command
from tests.support.hostile import PAYLOADS

PYTHON = os.environ.get("STEELYARD_INTEROP_PYTHON")

READ = """
import json, sys
from inspect_ai.log import list_eval_logs, read_eval_log, read_eval_log_sample_summaries, recompute_metrics

path, folder = sys.argv[1:]
log, head = read_eval_log(path), read_eval_log(path, header_only=True)
stated = {name: metric.value for name, metric in log.results.scores[0].metrics.items()}
counts = [log.results.total_samples, log.results.completed_samples]
recompute_metrics(log)
score = log.results.scores[0]
print(json.dumps({
    "status": head.status, "task": head.eval.task, "model": head.eval.model, "stated": stated,
    "recomputed": {name: metric.value for name, metric in score.metrics.items()},
    "counts": [counts, [log.results.total_samples, log.results.completed_samples]],
    "scored": [head.results.scores[0].scored_samples, score.scored_samples],
    "summaries": len(read_eval_log_sample_summaries(path)),
    "listed": [info.name.rpartition("/")[2] for info in list_eval_logs(folder)],
    "samples": [json.loads(sample.model_dump_json(exclude_none=True)) for sample in log.samples],
}))
"""


def read(path: Path) -> dict[str, Any]:
    """What Inspect makes of a log."""
    home = {"XDG_DATA_HOME": str(path.parent / "home")}
    done = subprocess.run(
        [str(PYTHON), "-c", READ, str(path), str(path.parent)],
        capture_output=True,
        text=True,
        env={**os.environ, **home},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return dict(json.loads(done.stdout.splitlines()[-1]))


def exported(rows: list[dict[str, Any]], folder: Path) -> Path:
    source, target = folder / "answers.jsonl", folder / "2026-01-01T00-00-00_answers.inspect.json"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = command("convert", source, target)
    assert done.code == 0, done.err
    return target


def test_inspect_opens_what_is_exported(tmp_path: Path) -> None:
    outcomes = ("answered", "answered", "abstained", "unparsed", "failed")
    rows = [
        {
            "item": f"q{i}",
            "repeat": repeat,
            "task": "triage",
            "model": "acme/m1",
            "target": "A",
            "outcome": outcomes[(i + repeat) % 5],
            "prediction": ("A" if i % 3 else "B") if (i + repeat) % 5 < 2 else None,
            "latency_ms": 100 + i,
            "input_tokens": i,
            "output_tokens": 2,
            "group": {"site": f"s{i % 2}"},
            "metadata": {"patient": f"p{i // 2}", "nested": {"deep": [1, None, "x"]}},
        }
        for i in range(20)
        for repeat in (1, 2, 3)
    ]
    log = read(exported(rows, tmp_path))
    assert (log["status"], log["task"], log["model"]) == ("success", "triage", "acme/m1")
    assert log["recomputed"] == pytest.approx(log["stated"])
    assert log["counts"][0] == log["counts"][1] == [60, 60 - sum(row["outcome"] == "failed" for row in rows)]
    assert log["scored"][0] == log["scored"][1] == 20
    assert log["summaries"] == len(log["samples"]) == 60
    assert log["listed"] == ["2026-01-01T00-00-00_answers.inspect.json"]
    by_key = {(sample["id"], sample["epoch"]): sample for sample in log["samples"]}
    for row in rows:
        sample = by_key[row["item"], row["repeat"]]
        assert sample["target"] == "A"
        assert sample["output"]["completion"] == (row["prediction"] or REPLIED.get(row["outcome"], ""))
        assert sample["metadata"] == {
            "site": row["group"]["site"],
            "patient": row["metadata"]["patient"],
            "nested.deep": [1, None, "x"],
        }
        assert sample["total_time"] == row["latency_ms"] / 1000
        assert sample["model_usage"]["acme/m1"]["total_tokens"] == row["input_tokens"] + 2
        assert ("error" in sample) is (row["outcome"] == "failed")


def test_inspect_opens_hostile_texts(tmp_path: Path) -> None:
    rows = [{"item": f"{p} {i}", "model": "m", "target": p, "prediction": p, "note": p} for i, p in enumerate(PAYLOADS)]
    log = read(exported(rows, tmp_path))
    assert len(log["samples"]) == len(PAYLOADS)
    assert log["recomputed"]["accuracy"] == 1
