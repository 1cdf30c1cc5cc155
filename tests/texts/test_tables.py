"""The tables of texts that are easily misread: each line has its reason, and what is missed stays listed."""

from __future__ import annotations

import pytest

from tests.support.text_tables import MISSES, missed, rows

CELLS = {"kinds": 3, "same": 3, "statements": 3, "harm": 4}


@pytest.mark.parametrize("table", CELLS)
def test_each_line_is_there_once_and_has_its_reason(table: str) -> None:
    lines = rows(table)
    assert len(lines) >= 40
    assert all(len(line) == CELLS[table] and all(line) for line in lines)
    told = 1 if table == "statements" else 2
    assert len({tuple(line[:told]) for line in lines}) == len(lines)


def test_the_lines_that_are_missed_are_those_listed() -> None:
    assert [f"{line}\n" for line in missed()] == MISSES.read_text().splitlines(keepends=True), (
        "python -m tests.support.text_tables writes the list; look at what changed"
    )


def test_few_lines_are_missed() -> None:
    assert len(MISSES.read_text().splitlines()) <= sum(len(rows(table)) for table in CELLS) / 20
