"""The tests mirror the package, share from `tests/support` only, and keep their data in a form that can be read."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator

from tests.support.oracles import ORACLES, SHOWN, formatted
from tests.support.places import ROOT, TESTS

PACKAGE = ROOT / "src" / "steelyard"
NO_ROOMS = {"support", "e2e", "golden", "interop", "oracles", "typing"}  # folders of tests that are about no one room
CASES = [*sorted(ORACLES.glob("*.json")), *SHOWN]


def folders() -> set[str]:
    """Every folder that holds test modules of a room, relative to the tests."""
    paths = (path.parent.relative_to(TESTS) for path in TESTS.rglob("*.py"))
    return {path.as_posix() for path in paths if path.parts and path.parts[0] not in NO_ROOMS}


def imports(tree: ast.AST) -> Iterator[str]:
    """The modules that a module imports, and what it takes out of them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{'.' * node.level}{node.module or ''}.{name.name}" for name in node.names)


def is_test_module(name: str) -> bool:
    parts = name.lstrip(".").split(".")
    local = name.startswith((".", "tests."))
    return local and any(part == "conftest" or part.startswith("test_") for part in parts)


def test_every_folder_is_a_room_of_the_package() -> None:
    assert [name for name in sorted(folders()) if not (PACKAGE / name / "__init__.py").is_file()] == []


def test_every_folder_is_a_package() -> None:
    found = {path.parent for path in TESTS.rglob("test_*.py")}
    assert [folder for folder in sorted(found) if not (folder / "__init__.py").is_file()] == []


def test_no_module_imports_from_a_test_module() -> None:
    wrong = [
        f"{path.relative_to(TESTS)} imports {name}"
        for path in sorted(TESTS.rglob("*.py"))
        for name in imports(ast.parse(path.read_text()))
        if is_test_module(name)
    ]
    assert wrong == [], "move what is shared to tests/support"


def test_cases_are_written_one_to_a_line() -> None:
    wrong = [path.name for path in CASES if path.read_text() != formatted(path.read_text())]
    assert wrong == [], "python -m tests.support.oracles writes them so"


def test_the_benchmarks_can_be_started() -> None:
    assert importlib.import_module("bench.__main__").JOBS
