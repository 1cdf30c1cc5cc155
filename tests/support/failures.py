"""Stores under failure: processes that race and are killed, disks that fail."""

from __future__ import annotations

import errno
import inspect
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from steelyard.ground import files as store
from tests.support.stores import small

PRELUDE = f"""
import json, os, signal, sys, time
from functools import cache
from pathlib import Path
from steelyard.errors import SteelyardError
from steelyard.study.evaluation import evaluate
from steelyard.study.results import Evaluation
from steelyard.records.table import Records
from steelyard.runs.attempts import counted
from steelyard.runs.index import Index
from steelyard.runs.saved import Clock, SavedRun, save
from steelyard.runs.layout import Scope
from steelyard.runs.pointers import Pointers

root, number, count, meeting = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])

{inspect.getsource(small)}
def kept(run_id=None, workflow="Triage", at=root):
    return save(Scope(at), small(), workflow=workflow, clock=Clock(), run_id=run_id)[1]

def meet(name=""):
    \"\"\"Wait until every process is here.\"\"\"
    (meeting / f"{{name}}-{{number}}").touch()
    end = time.monotonic() + 300
    while not all((meeting / f"{{name}}-{{i}}").exists() for i in range(count)):
        assert time.monotonic() < end
        time.sleep(0.001)

small()
"""


def process(root: Path, code: str, number: int = 0, count: int = 1) -> subprocess.Popen[str]:
    meeting = root.with_name(f"{root.name}-meeting")
    meeting.mkdir(exist_ok=True)
    command = [sys.executable, "-c", PRELUDE + code, str(root), str(number), str(count), str(meeting)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=meeting)


def race(root: Path, count: int, code: str) -> list[Any]:
    """The same code in several processes at once; what each prints, as data."""
    running = [process(root, code, number, count) for number in range(count)]
    try:
        ended = [(*p.communicate(timeout=600), p.returncode) for p in running]
    finally:
        for p in running:
            p.kill()
            p.wait()
    assert [code for _, _, code in ended] == [0] * count, "".join(errors for _, errors, _ in ended)
    return [json.loads(output) for output, _, _ in ended]


def killed(root: Path, code: str, after: float) -> list[str]:
    """Start code that never ends, kill it a while after its first line; the lines that it wrote."""
    worker = process(root, code)
    too_long = threading.Timer(300, worker.kill)
    too_long.start()
    try:
        assert worker.stdout is not None
        first = worker.stdout.readline()
        time.sleep(after)
        worker.send_signal(signal.SIGKILL)
        rest, problem = worker.communicate()
    finally:
        too_long.cancel()
    assert first, problem
    return [first.strip(), *rest.split()]


OPERATIONS = ("open", "write", "fsync", "rename", "replace")


def failing(
    monkeypatch: pytest.MonkeyPatch, k: int, error: Callable[[], BaseException], *, for_good: bool
) -> list[str]:
    """Let the k-th use that the store makes of the disk fail, once or from then on; the uses so far."""
    uses: list[str] = []

    def counted_(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def use(*arguments: Any, **options: Any) -> Any:
            uses.append(name)
            if len(uses) == k or (for_good and len(uses) > k):
                raise error()
            return real(*arguments, **options)

        return use

    def fdopen(*arguments: Any, **options: Any) -> Any:
        file = os.fdopen(*arguments, **options)
        file.write = counted_("write", file.write)  # type: ignore[method-assign]
        return file

    faulty = ModuleType("os")
    vars(faulty).update(vars(os))
    vars(faulty).update({name: counted_(name, getattr(os, name)) for name in OPERATIONS}, fdopen=fdopen)
    monkeypatch.setattr(store, "os", faulty)
    return uses


def disk_full() -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


FAILURES = pytest.mark.parametrize(
    ("error", "for_good"),
    [
        (disk_full, False),
        (disk_full, True),
        (lambda: OSError(errno.EIO, "I/O error"), False),
        (KeyboardInterrupt, False),
    ],
    ids=["once", "for good", "input/output error", "Ctrl-C"],
)
