"""Logs that other tools wrote for `make interop`, one folder per tool; without them these tests are skipped."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def made() -> Callable[[str], Path]:
    """From a tool to the folder of its logs."""

    def folder(tool: str) -> Path:
        place = os.environ.get("STEELYARD_INTEROP")
        if not place:
            pytest.skip("`make interop` runs this, with logs that the tools themselves write")
        path = Path(place, tool)
        if not path.is_dir():
            pytest.skip(f"there are no logs of {tool} in {place}")
        return path

    return folder
