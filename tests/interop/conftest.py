"""Logs that other tools wrote for `make interop`, one folder per tool; without them there are no tests here."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

collect_ignore_glob = [] if os.environ.get("STEELYARD_INTEROP") else ["test_*.py"]


@pytest.fixture(scope="session")
def made() -> Callable[[str], Path]:
    """From a tool to the folder of its logs."""

    def folder(tool: str) -> Path:
        path = Path(os.environ["STEELYARD_INTEROP"], tool)
        assert path.is_dir(), f"there are no logs of {tool}"
        return path

    return folder


@pytest.fixture(scope="session")
def lm_eval(made: Callable[[str], Path]) -> Path:
    """The folder with the logs of lm-eval."""
    return made("lm_eval")
