"""What several commands are tried on."""

from __future__ import annotations

import pytest

from tests.support.retrieval import World


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("retrieval"))
