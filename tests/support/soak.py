"""A run that is killed again and again, against a server on this machine that counts its calls.

    python -m tests.support.soak [--records 10000] [--cycles 30] [--seed 0]        what `make soak` does

A process asks; it is killed at a random moment, with no chance to do anything about it; another takes the run up. In
the end every record is there once, and all are those of a run that nobody disturbed, but for times.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from steelyard.ground.journal import Rows
from steelyard.runs.saved import SavedRun
from tests.support.model_server import ModelServer, model_server
from tests.support.places import ROOT

TIMES = ["latency_ms"]
IN_FLIGHT = 16


@dataclass(frozen=True)
class Outcome:
    """What became of a run: its records, the keys in its journal, and how often the server was asked each question."""

    records: pa.Table
    keys: list[int]
    calls: Counter[str]
    sessions: int
    kills: int


def write_spec(folder: Path, server: ModelServer, records: int, *, mode: str = "random", **more: Any) -> Path:
    """A spec with so many records, half of them repeats, of questions that each have their own answer."""
    items = [{"n": n, "text": f"question {n}", "label": ("yes", "no")[n % 2]} for n in range(records // 2)]
    (folder / "data.jsonl").write_text("".join(json.dumps(item) + "\n" for item in items))
    task = {
        "name": "t",
        "data": "data.jsonl",
        "id": "n",
        "question": "text",
        "target": "label",
        "labels": ["yes", "no"],
    }
    (folder / "t.task.yaml").write_text(json.dumps(task))
    spec = {
        "id": "soak",
        "task": "t.task.yaml",
        "models": [{"name": "m", "base_url": server.at(mode), "price": {"input": 1, "output": 2}}],
        "repeat": 2,
        "inference": {"format": "text"},
        "limits": {"concurrency": IN_FLIGHT},
        "metrics": ["accuracy"],
        **more,
    }
    path = folder / "spec.yaml"
    path.write_text(json.dumps(spec))
    return path


def begin(spec: Path, root: Path, *options: str) -> subprocess.Popen[bytes]:
    """A process that runs a spec."""
    command = [sys.executable, "-m", "steelyard", "run", str(spec), "--root", str(root), "--resamples", "100", *options]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def journals(root: Path) -> list[Path]:
    return list((root / "results/evaluation/running").glob("*/journal"))


def rows_written(root: Path) -> int:
    """How many rows the newest journal has so far."""
    return max((path.read_bytes().count(b"\n") for path in journals(root)), default=0)


def killed(
    folder: Path, server: ModelServer, *, records: int, cycles: int, seed: int = 0, in_flight: int = IN_FLIGHT
) -> Outcome:
    """A run that was killed so many times, and in the end was left alone; until then it asks so many at once."""
    rng = random.Random(seed)
    spec, root = write_spec(folder, server, records), folder / "killed"
    kills, before = 0, len(server.calls)
    for cycle in range(cycles):
        process = begin(spec, root, "--resume", "--concurrency", str(in_flight))
        wanted = (cycle + rng.random()) * records / (cycles + 1)  # somewhere on the way, measured in rows
        while process.poll() is None and rows_written(root) < wanted:
            time.sleep(0.005)
        time.sleep(rng.random() * 0.2)
        kills += process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.communicate()
    return finished(spec, root, server, kills=kills, before=before)


def finished(spec: Path, root: Path, server: ModelServer, *, kills: int = 0, before: int | None = None) -> Outcome:
    """A run that is taken up and left alone until its end; `before` are the calls that were none of its own."""
    before = len(server.calls) if before is None else before
    process = begin(spec, root, "--resume")
    _, said = process.communicate()
    assert process.returncode == 0, said.decode()
    (journal,) = journals(root)
    (folder,) = (root / "results/evaluation/runs/run").iterdir()
    saved = SavedRun.at(folder)
    assert saved.records is not None
    rows = list(Rows(journal))
    return Outcome(
        records=saved.records.to_arrow().drop(TIMES),
        keys=sorted(row["key"] for row in rows),
        calls=Counter(call["prompt"] for call in server.calls[before:]),
        sessions=len({row["session"] for row in rows}),
        kills=kills,
    )


def check(undisturbed: Outcome, disturbed: Outcome, records: int) -> None:
    """Nothing lost, nothing doubled, nothing different."""
    assert undisturbed.keys == disturbed.keys == list(range(records))
    assert disturbed.records.equals(undisturbed.records), "the records differ"
    assert sum(undisturbed.calls.values()) == records
    assert disturbed.calls.keys() == undisturbed.calls.keys()
    assert all(count >= undisturbed.calls[prompt] for prompt, count in disturbed.calls.items())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--cycles", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with model_server(folder) as server:
            spec = write_spec(folder, server, given.records)
            undisturbed = finished(spec, folder / "left", server)
        server.log.unlink()
        with model_server(folder) as server:
            disturbed = killed(folder, server, records=given.records, cycles=given.cycles, seed=given.seed)
    check(undisturbed, disturbed, given.records)
    again = sum(disturbed.calls.values()) - given.records
    print(
        f"{given.records:,} records, killed {disturbed.kills} times: none lost, none doubled, all as undisturbed; "
        f"{again:,} questions asked again"
    )


if __name__ == "__main__":
    main()
