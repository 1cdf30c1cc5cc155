"""Two names of one thing are one entry, and a diagnosis under either scores 1."""

from __future__ import annotations

import pytest

import steelyard as sy
from steelyard.texts.entities import extractor
from tests.support.gold import DATA

SAME = [line.split("\t") for line in (DATA / "same.tsv").read_text().splitlines() if not line.startswith("#")]


@pytest.mark.parametrize("pair", SAME, ids=lambda pair: f"{pair[0]}-{pair[1]}")
def test_two_names_are_one(pair: list[str]) -> None:
    one, other, reason = pair
    assert reason
    assert extractor().findings(one).mentions, "no table knows it"
    assert sy.explain("clinical_accuracy", one, other).score == 1
    if any(mention.entry.category == "diagnoses" for mention in extractor().findings(one).mentions):
        assert sy.explain("diagnostic_accuracy", one, other).score == 1
