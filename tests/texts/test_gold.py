"""The extractor on texts that were labelled before it ran on them; what it misses stays listed."""

from __future__ import annotations

import re

import pytest

from tests.support.gold import DATA, MEASURES, MISSES, lines, misses, precision_recall
from tests.support.places import ROOT

FIRST = DATA / "misses_at_first_sight.txt"


def test_the_pairs_that_are_missed_are_those_listed() -> None:
    assert misses() == MISSES.read_text(), "python -m tests.support.gold writes the list; look at what changed"


def test_most_pairs_agree() -> None:
    assert len(MISSES.read_text().splitlines()) <= len(lines("pairs.jsonl")) / 5


def test_what_was_missed_at_first_sight_is_kept() -> None:
    known = {pair["id"] for pair in lines("pairs.jsonl")}
    first = [line.split("\t")[0] for line in FIRST.read_text().splitlines()]
    assert len(first) == 75
    assert set(first) <= known


@pytest.mark.parametrize("name", MEASURES)
def test_precision_and_recall_are_as_the_docs_say(name: str) -> None:
    page = (ROOT / "docs" / "texts.md").read_text()
    row = re.search(rf"^\| {name} \|[^|]*\|[^|]*\| ([\d.]+) \| ([\d.]+) \|$", page, re.MULTILINE)
    assert row is not None, "the table of docs/texts.md has no such row"
    assert (row[1], row[2]) == tuple(f"{value:.3f}" for value in precision_recall(MEASURES[name]))
