"""The stores of earlier editions: to be read, to be changed, their runs, and their pairs of runs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from steelyard.runs.index import Index, RunEntry
from tests.support.editions import EDITIONS, Edition, Pair, pairs_of


@pytest.fixture(scope="module", params=EDITIONS, ids=lambda edition: edition.name)
def edition(request: pytest.FixtureRequest) -> Edition:
    """Each edition in turn."""
    return request.param


@pytest.fixture(scope="module")
def root(edition: Edition, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the store that tests only read."""
    return Path(shutil.copytree(edition.store, tmp_path_factory.mktemp("golden") / "store"))


@pytest.fixture
def copy(edition: Edition, tmp_path: Path) -> Path:
    """A copy of the store that a test may write to."""
    return Path(shutil.copytree(edition.store, tmp_path / "store"))


@pytest.fixture(scope="module")
def listed(root: Path) -> list[RunEntry]:
    """Every run of the store."""
    with Index(root, all_tenants=True) as index:
        assert index.problems() == []
        return index.runs()


@pytest.fixture(scope="module")
def pairs(listed: list[RunEntry]) -> list[Pair]:
    """Runs of one scope on the same questions in the same slices, each with the next one that was saved: base, new."""
    return pairs_of(listed)
