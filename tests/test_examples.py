"""The scripts that make the examples say what they do before they do it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.places import EXAMPLES

SCRIPTS = sorted(EXAMPLES.glob("*/make.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.parent.name)
def test_asking_for_help_makes_nothing(script: Path, tmp_path: Path) -> None:
    copy = tmp_path / "example" / "make.py"
    copy.parent.mkdir()
    copy.write_text(script.read_text())
    done = subprocess.run([sys.executable, copy, "--help"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("usage: make.py")
    assert [path.name for path in sorted(tmp_path.rglob("*"))] == ["example", "make.py"]
