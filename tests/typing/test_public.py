"""The public names are typed, and all of them are shown."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import steelyard

pytestmark = pytest.mark.slow

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


def test_a_type_checker_knows_every_public_name() -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--strict", "--config-file", "", "--ignore-missing-imports"),
            *("--cache-dir", ROOT / ".mypy_cache" / "public", HERE / "public.py"),
        ],
        cwd=ROOT / "src",
        capture_output=True,
        text=True,
    )
    revealed = re.findall(r'public\.py:(\d+): note: Revealed type is "(.*)"', done.stdout)
    lines = (HERE / "public.py").read_text().splitlines()
    shown = {lines[int(line) - 1].removeprefix("reveal_type(sy.").removesuffix(")"): kind for line, kind in revealed}
    rooms = {room: import_module(f"steelyard.{room}").__all__ for room in steelyard._ROOMS}
    within = {f"{room}.{name}" for room, names in rooms.items() for name in names}
    assert set(shown) == {*steelyard.__all__, *rooms, *within}
    assert [name for name, kind in shown.items() if kind in ("Any", "builtins.object")] == []
    assert [line for line in done.stdout.splitlines() if ": error: " in line and "public.py" in line] == []


def test_dir_shows_every_public_name() -> None:
    assert set(steelyard.__all__) <= set(dir(steelyard))
    assert {"retrieval", "Evaluation", "load", "StorageError"} <= set(dir(steelyard))


def test_every_public_name_can_be_had() -> None:
    for name in steelyard.__all__:
        assert getattr(steelyard, name) is not None
