"""No test depends on how fast the machine is: what is waited for gets minutes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

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
