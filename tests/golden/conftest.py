"""The store of the first edition: to be read, to be changed, its runs, and its pairs of runs."""

from __future__ import annotations

import shutil
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from steelyard.runs.index import Index, RunEntry
from steelyard.runs.saved import SavedRun
from tests.support.first_edition import STORE, Pair


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the store that tests only read."""
    return Path(shutil.copytree(STORE, tmp_path_factory.mktemp("golden") / "store"))


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the store that a test may write to."""
    return Path(shutil.copytree(STORE, tmp_path / "store"))


@pytest.fixture(scope="module")
def listed(root: Path) -> list[RunEntry]:
    """Every run of the store."""
    with Index(root, all_tenants=True) as index:
        assert index.problems() == []
        return index.runs()


@pytest.fixture(scope="module")
def pairs(listed: list[RunEntry]) -> list[Pair]:
    """Runs of one scope on the same questions in the same slices, each with the next one that was saved: base, new."""
    alike: dict[Any, list[RunEntry]] = defaultdict(list)
    for run in sorted(listed, key=lambda run: run.started_at):
        opened = SavedRun.at(run.folder)
        slices = frozenset(frozenset(set(kept.slice) - {"model", "strategy"}) for kept in opened.kept)
        alike[run.domain, run.tenant, opened.data, slices].append(run)
    return [pair for runs in alike.values() for pair in pairwise(runs)]
