"""look() takes what read() takes, and proposes names that make sense."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas
import polars
import pyarrow as pa
import pytest

from steelyard import InputError, read
from steelyard.study.looking import look

COLUMNS: dict[str, list[Any]] = {
    "patient_id": ["p", "p", "q", "q"],
    "question_id": [1, 2, 3, 4],
    "gold": ["a", "b", "a", "b"],
    "answer": ["a", "b", "b", "b"],
}


def forms(folder: Path) -> list[Any]:
    path = folder / "a.csv"
    pandas.DataFrame(COLUMNS).to_csv(path, index=False)
    table = pa.table(COLUMNS)
    return [pandas.DataFrame(COLUMNS), polars.DataFrame(COLUMNS), table, table.to_reader(), table.to_pylist(), path]


@pytest.mark.parametrize("form", range(6))
def test_every_form_is_looked_at(tmp_path: Path, form: int) -> None:
    names = {"item": "question_id", "target": "gold", "prediction": "answer"}
    seen = look(forms(tmp_path)[form], map=names)
    assert (seen.rows, seen.outcomes["answered"]) == (4, 4)
    assert seen.labels == {"a": (2, 1), "b": (2, 3)}
    assert seen.hints == ("rows look clustered by 'patient_id' (2 values in 4 rows): `cluster=patient_id`",)


def test_a_patient_is_never_proposed_as_the_item() -> None:
    seen = look(pandas.DataFrame(COLUMNS))
    assert 'map={"item": "question_id", "target": "gold", "prediction": "answer"}' in seen.hints[0]
    with pytest.raises(InputError, match=r"`map=item=question_id`"):
        read(pandas.DataFrame(COLUMNS))


def test_what_is_shown_is_what_is_kept_by_a_condition() -> None:
    rows = [{"item": i, "target": "a", "prediction": "a", "age": i} for i in range(4)]
    seen = look(rows, where="age>=2")
    assert (seen.rows, seen.outcomes["answered"]) == (2, 2)


def test_items_that_clash_between_files_are_said_to(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("item,w\n1,2\n")
    (tmp_path / "b.jsonl").write_text('{"item": "x"}\n{"item": "y"}\n')
    with pytest.raises(InputError, match="item: holds text here and a whole number in"):
        read([tmp_path / "a.csv", tmp_path / "b.jsonl"])
