"""The real Every Eval Ever accepts what `export` writes for it.

STEELYARD_INTEROP_PYTHON names the interpreter of an environment that has every-eval-ever (Python 3.12 or later).
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.support.answers import answers, lines
from tests.support.commands import command
from tests.support.hostile import PAYLOADS

PYTHON = os.environ.get("STEELYARD_INTEROP_PYTHON")

VALIDATE = """
import json, pathlib, sys

try:
    from every_eval_ever.validator.validation_core import validate_aggregate
except ImportError:
    sys.exit(77)
root = pathlib.Path(sys.argv[1])
reports = [
    validate_aggregate(path, repo_path=path.relative_to(root).as_posix(), run_semantic_checks=True)
    for path in sorted(root.rglob("*.json"))
]
print(json.dumps([[report.errors, report.warnings] for report in reports], default=str))
"""


def validated(root: Path) -> list[list[list[object]]]:
    """Errors and warnings of each record below a folder."""
    done = subprocess.run([str(PYTHON), "-c", VALIDATE, str(root)], capture_output=True, text=True)
    if done.returncode == 77:
        pytest.skip("STEELYARD_INTEROP_PYTHON names an environment without every-eval-ever")
    assert done.returncode == 0, done.stderr[-2000:]
    return list(json.loads(done.stdout.splitlines()[-1]))


def test_records_are_valid(tmp_path: Path) -> None:
    rows = [{**row, "model": model} for model in ("m1", "acme/m2:7b") for row in answers()]
    (tmp_path / "a.jsonl").write_text(lines(rows))
    asked = ("evaluate", "a.jsonl", "--by", "group.site", "--cluster", "patient", "--resamples", 100, "--out", "out")
    assert command(*asked, cwd=tmp_path, root=tmp_path).code == 0
    about = ("--about", "developer=acme,organization=Acme,benchmark=triage")
    export = ("export", "out/evaluation.json", "records", "--to", "every-eval-ever", *about)
    assert command(*export, cwd=tmp_path, root=tmp_path).code == 0
    assert validated(tmp_path / "records") == [[[], []], [[], []]]


def test_hostile_names_are_valid(tmp_path: Path) -> None:
    rows = [{**row, "model": f"m{p}", "task": p} for p in PAYLOADS for row in answers(patients=3)]
    (tmp_path / "a.jsonl").write_text(lines(rows))
    asked = ("evaluate", "a.jsonl", "-m", "accuracy", "-m", "f1", "--resamples", 100, "--out", "out")
    assert command(*asked, cwd=tmp_path, root=tmp_path).code == 0
    export = ("export", "out/evaluation.json", "records", "--to", "every-eval-ever")
    assert command(*export, cwd=tmp_path, root=tmp_path).code == 0
    reports = validated(tmp_path / "records")
    assert len(reports) == len(PAYLOADS)
    assert [errors for errors, _ in reports if errors] == []
