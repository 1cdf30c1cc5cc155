"""No test depends on how fast the machine is: what is waited for gets minutes."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
WAITING = {"run", "communicate", "wait", "join", "call", "check_call", "check_output"}


def bounds(tree: ast.AST) -> Iterator[tuple[int, float]]:
    """Line and seconds of every limit on waiting for a process or a thread."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in WAITING:
            given = [*node.args, *(keyword.value for keyword in node.keywords if keyword.arg == "timeout")]
            for value in given:
                if isinstance(value, ast.Constant) and isinstance(value.value, int | float):
                    yield node.lineno, float(value.value)


def test_whatever_is_waited_for_gets_minutes() -> None:
    hasty = [
        f"{path.relative_to(TESTS)}:{line}"
        for path in sorted(TESTS.rglob("*.py"))
        for line, seconds in bounds(ast.parse(path.read_text()))
        if seconds < 120
    ]
    assert hasty == []


def test_a_test_that_hangs_is_ended_and_shows_where(pytestconfig: pytest.Config, tmp_path: Path) -> None:
    assert float(pytestconfig.getini("timeout")) == 300
    assert pytestconfig.getini("timeout_method") == "signal"
    (tmp_path / "test_hanging.py").write_text("import time\n\n\ndef test_it():\n    time.sleep(600)\n")
    asked = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "timeout=1", "test_hanging.py"]
    done = subprocess.run(asked, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "time.sleep(600)" in done.stdout
    assert "Timeout" in done.stdout
