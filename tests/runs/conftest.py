"""The store of a test is where the test says, whatever the environment of the person who runs it."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("STEELYARD_ROOT", "STEELYARD_TENANT", "STEELYARD_WORKFLOW", "GITHUB_ACTIONS"):
        monkeypatch.delenv(name, raising=False)
