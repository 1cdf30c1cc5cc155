"""A whole run as it is asked: how fast, next to the bare loop of `loopback`, and how much memory as requests grow.

python -m bench.asking REQUESTS FOLDER        asks a function so often in this process, and prints its peak memory
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from steelyard.ground.journal import Journal
from steelyard.ground.loops import Loop
from steelyard.runner.asking import Asking, opened_backends
from steelyard.runner.cache import ReplyCache
from steelyard.runner.plan import planned
from steelyard.runner.recorded import Standing
from steelyard.runner.spec import load_spec

ITEMS = 1_000
FEW, MANY = 10_000, 100_000
_FUNCTION = """
async def answer(item, prompt):
    return "Because the values say so. " * 20 + "\\nAnswer: yes"
"""


def spec_of(folder: Path, model: dict[str, Any], *, items: int = ITEMS, in_flight: int = 64, **more: Any) -> Path:
    """A spec that asks a model about made-up items."""
    question = "Which of these is it? " + "A value of the patient, as it was measured. " * 20
    rows = [{"n": n, "text": f"{n}: {question}", "label": ("yes", "no")[n % 2]} for n in range(items)]
    (folder / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
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
        "id": "bench",
        "task": "t.task.yaml",
        "models": [model],
        "inference": {"format": "text"},
        "limits": {"concurrency": in_flight},
        **more,
    }
    (folder / "spec.yaml").write_text(json.dumps(spec))
    return folder / "spec.yaml"


def seconds(spec: Path, folder: Path) -> float:
    """How long it takes to ask everything, with the journal and the cache, once all is prepared."""
    plan = planned(load_spec(spec))
    _ = plan.digest
    with (
        tempfile.TemporaryDirectory(dir=folder) as name,
        Journal(Path(name) / "journal") as journal,
        ReplyCache(Path(name) / "cache.sqlite") as cache,
        Loop() as loop,
    ):
        standing = Standing.of(plan, Path(name) / "nothing")
        asking = Asking(
            plan=plan,
            backends=opened_backends(plan, {}),
            journal=journal,
            cache=cache,
            is_done=standing.is_done,
            tallies=standing.tallies,
        )
        started = time.perf_counter()
        loop.run(asking.run())
        return time.perf_counter() - started


def peaks() -> tuple[int, int]:
    """The peak memory in bytes of a process that asks few, and of one that asks many."""
    with tempfile.TemporaryDirectory() as folder:
        return _peak(FEW, Path(folder)), _peak(MANY, Path(folder))


def _peak(requests: int, folder: Path) -> int:
    command = [sys.executable, "-m", "bench.asking", str(requests), str(folder)]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    requests, folder = int(sys.argv[1]), Path(sys.argv[2])
    (folder / "models.py").write_text(_FUNCTION)
    model = {"name": "m", "backend": "callable", "options": {"function": "models.py:answer"}}
    seconds(spec_of(folder, model, repeat=requests // ITEMS), folder)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)


if __name__ == "__main__":
    main()
