"""Which query an error of rankings names: the first that is wrong, by its own line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from steelyard.errors import InputError
from steelyard.records.rankings import rankings
from steelyard.records.readers import read

RIGHT = {"gains": [1.0, None, 0.0], "judged": [0.0, 1.0, 2.0]}
OFTEN = {"gains": [1.0, 1.0], "judged": [1.0, 2.0]}  # a grade more often than it was judged
UNKNOWN = {"gains": [3.0], "judged": [1.0, 2.0]}  # a grade that no document was judged with
NOBODY = {"gains": [2.0, 2.0], "judged": None}  # a query that nobody judged is asked nothing
LISTS = {"target": ["a", "b"], "prediction": ["c", "a", "b"]}
HOLES = {"target": ["a"], "prediction": ["c", None]}
WANTED_TWICE = {"target": ["b", "a", "b"], "prediction": ["a"]}
RANKED_TWICE = {"target": ["a"], "prediction": ["c", "b", "c"]}


def named(folder: Path, *rows: dict[str, Any]) -> tuple[int | None, str | None]:
    """The line and the field that the error of a file names; a blank line stands before every row."""
    path = folder / "ranked.jsonl"
    path.write_text("".join("\n" + json.dumps({"item": f"q{i}", **row}) + "\n" for i, row in enumerate(rows)))
    with pytest.raises(InputError) as caught:
        rankings(read([str(path)]), needed_by="ndcg")
    assert caught.value.file == str(path)
    return caught.value.line, caught.value.field


@pytest.mark.parametrize(
    ("rows", "wrong"),
    [
        ((OFTEN, RIGHT, RIGHT), 0),
        ((RIGHT, RIGHT, OFTEN), 2),
        ((RIGHT, OFTEN, RIGHT, OFTEN), 1),
        ((RIGHT, NOBODY, RIGHT, OFTEN, RIGHT), 3),
        ((RIGHT, UNKNOWN, UNKNOWN), 1),
        ((UNKNOWN, RIGHT, OFTEN), 0),
        ((RIGHT, OFTEN, UNKNOWN), 1),  # whatever is wrong with it, the first is named
        ((RIGHT, NOBODY, {**RIGHT, "gains": []}, OFTEN), 3),
    ],
)
def test_a_grade_that_was_not_judged_is_said_of_the_first_query_that_has_one(
    tmp_path: Path, rows: tuple[dict[str, Any], ...], wrong: int
) -> None:
    assert named(tmp_path, *rows) == (2 * wrong + 2, "gains")


@pytest.mark.parametrize("first", [0, 1, 3])
@pytest.mark.parametrize(
    ("row", "field"), [(WANTED_TWICE, "target"), (RANKED_TWICE, "prediction"), (HOLES, "prediction")]
)
def test_a_list_that_is_none_is_said_of_the_first_query_that_has_it(
    tmp_path: Path, row: dict[str, Any], field: str, first: int
) -> None:
    assert named(tmp_path, *[LISTS] * first, row, LISTS, row) == (2 * first + 2, field)
