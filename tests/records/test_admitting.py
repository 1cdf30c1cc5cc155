"""The door of a table: ids that are two and look like one."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.errors import InputError
from steelyard.records.readers import read

ALIKE = [("q1", "q1\u200b"), ("é", "e\u0301"), ("a b", "a\u00a0b"), ("x", "x\ufe0f")]
AROUND = [("q1", "q1 "), ("\ufeffq1", "q1")]  # which labels are read without


@pytest.mark.parametrize(
    ("column", "one", "two"),
    [*(("item", *pair) for pair in (*ALIKE, *AROUND)), *(("patient", *pair) for pair in ALIKE)],
)
def test_ids_that_look_alike_are_refused_with_both_rows(column: str, one: str, two: str) -> None:
    rows: list[dict[str, Any]] = [{"item": i, "patient": "p", "target": "x", "prediction": "x"} for i in range(5)]
    if column == "item":
        rows = [row | {"item": f"i{row['item']}"} for row in rows]
    rows[1][column], rows[3][column] = one, two
    with pytest.raises(InputError, match=f"row 4: {column}: looks like the one of line 2, but is another") as caught:
        read(rows, cluster="patient")
    assert one not in str(caught.value).replace("one of line", "")


def test_ids_that_people_can_tell_apart_are_two() -> None:
    ids = ["A", "a", "1", "①", "ß", "ss", "é", "e", "a b", "a  b", "日本", "日木"]
    assert len(read([{"item": name, "target": "x", "prediction": "x"} for name in ids])) == len(ids)
