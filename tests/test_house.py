"""The house keeps its plan: no room without a name, and no word of the command line below it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.support.places import ROOT

PACKAGE = ROOT / "src" / "steelyard"
MODULES = sorted(PACKAGE.rglob("*.py"))
BELOW = [p for p in MODULES if "cli" not in p.relative_to(PACKAGE).parts and p.name not in ("__main__.py",)]
# `--name: value` and `var(--name)` are properties of a style sheet
FLAG = re.compile(r"(?<![\w(-])--[a-z][a-z-]*(?![\w-]*:)")


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Every string of a module with its line, docstrings and the fixed parts of f-strings included."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def test_nothing_below_the_command_line_names_its_flags_or_modules() -> None:
    named = [
        (path.relative_to(PACKAGE).as_posix(), line, text[:80])
        for path in BELOW
        for line, text in texts(path)
        if FLAG.search(text) or "steelyard.cli" in text
    ]
    assert named == []


def test_the_check_would_notice() -> None:
    assert FLAG.search("use --align intersection")
    assert FLAG.search("`--salvage` keeps")
    assert not FLAG.search(":root { --ink: #000; color: var(--ink) }")
    assert not FLAG.search("a -- b")


def test_there_is_no_room_without_a_name() -> None:
    assert [p.name for p in MODULES if p.stem in ("utils", "util", "helpers", "misc", "common")] == []


def test_every_number_goes_through_one_door() -> None:
    """An Evaluation, a Comparison and a Delta are made in one place each, besides the readers of their files."""
    of_results = {"Evaluation": "study.results", "Comparison": "study.results", "Delta": "uncertainty.number"}
    made = []
    for path in MODULES:
        tree = ast.parse(path.read_text())
        taken = {
            alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
            if node.module == f"steelyard.{of_results.get(alias.name)}"
        }
        calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
        made += [f"{path.relative_to(PACKAGE)}: {f.id}" for f in calls if isinstance(f, ast.Name) and f.id in taken]
    assert sorted(made) == [
        "study/deltas.py: Delta",
        "study/measure.py: Comparison",
        "study/measure.py: Evaluation",
        "study/wire.py: Comparison",
        "study/wire.py: Evaluation",
        "uncertainty/wire.py: Delta",
    ]
