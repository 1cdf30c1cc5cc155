"""How fast a million JSON lines become checked records, against msgspec decoding them into a typed Struct."""

from __future__ import annotations

import json
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

ROWS = 1_000_000
GOAL = 1.1
ROUNDS = 5


class Group(msgspec.Struct):
    site: str
    age: str


class Signal(msgspec.Struct):
    evidence: float
    entropy: float


class Row(msgspec.Struct):
    item: str
    target: str
    prediction: str | None
    confidence: float
    cluster: str
    latency_ms: float
    group: Group
    signal: Signal


def rows() -> list[tuple[str, float, str, float | None]]:
    """(job, CPU time as a multiple of the peer's, peer, goal), peer and job taking turns in this process."""
    from steelyard.records.readers import read

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "answers.jsonl"
        _write(path, ROWS)
        ours, peer = float("inf"), float("inf")
        for _ in range(ROUNDS):
            ours = min(ours, _cpu_seconds(lambda: read(path)))
            peer = min(peer, _cpu_seconds(lambda: _decoded(path)))
    return [(f"{ROWS:,}-row JSONL to checked records", ours / peer, "msgspec into a typed Struct", GOAL)]


def main() -> None:
    for job, ratio, peer, goal in rows():
        print(f"{job}: {ratio:.2f}x {peer} (goal {goal}x)")


def _write(path: Path, n: int) -> None:
    draw = random.Random(7)
    with path.open("w") as file:
        for i in range(n):
            row = {
                "item": f"q{i}",
                "target": draw.choice("ABCD"),
                "prediction": draw.choice(["A", "B", "C", "D", None]),
                "confidence": round(draw.random(), 4),
                "cluster": f"p{i // 5}",
                "latency_ms": round(draw.expovariate(0.01), 2),
                "group": {
                    "site": draw.choice(["north", "south"]),
                    "age": draw.choice(["<40", "40-65", ">65"]),
                },
                "signal": {"evidence": draw.random(), "entropy": round(draw.random() * 2, 5)},
            }
            file.write(json.dumps(row) + "\n")


def _decoded(path: Path) -> list[Row]:
    decode = msgspec.json.Decoder(Row).decode
    with path.open("rb") as file:
        return [decode(line) for line in file]


def _cpu_seconds(job: Callable[[], Any]) -> float:
    start = time.process_time()
    result = job()
    spent = time.process_time() - start
    del result  # freeing is nobody's
    return spent


if __name__ == "__main__":
    main()
