"""Two names of one thing are one entry, and a diagnosis under either scores 1."""

from __future__ import annotations

import pytest

from steelyard.texts.entities import extractor
from tests.support.text_tables import is_same, rows

SAME = rows("same")


@pytest.mark.parametrize("pair", SAME, ids=lambda pair: f"{pair[0]}-{pair[1]}")
def test_two_names_are_one(pair: list[str]) -> None:
    one, other, reason = pair
    assert reason
    assert extractor().findings(one).mentions, "no table knows it"
    assert is_same(one, other)
