"""Tables in memory: pandas and polars frames, Arrow tables and streams, lists of dictionaries; and back."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import steelyard as sy
from steelyard import InputError, Records, UsageError, read

NAN = float("nan")
COLUMNS: dict[str, list[Any]] = {
    "item": ["a", "b", "c", "d"],
    "target": ["x", "y", "x", "y"],
    "prediction": ["x", None, "y", None],
    "confidence": [0.5, None, 1.0, None],
    "repeat": [1, 2, None, 4],
    "should_abstain": [True, None, False, True],
}


class Stream:
    """Something that only knows the Arrow stream interface, as a DuckDB relation does."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


def rows(columns: dict[str, list[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(columns, each, strict=True)) for each in zip(*columns.values(), strict=True)]


def forms(columns: dict[str, list[Any]]) -> dict[str, Any]:
    table = pa.table(columns)
    nullable = pandas.DataFrame(columns).convert_dtypes()
    return {
        "pandas of objects": pandas.DataFrame({k: pandas.Series(v, dtype=object) for k, v in columns.items()}),
        "pandas as it guesses": pandas.DataFrame(columns),
        "pandas with types of its own": nullable,
        "pandas on Arrow": nullable.convert_dtypes(dtype_backend="pyarrow"),
        "polars": polars.DataFrame(columns),
        "Arrow": table,
        "Arrow batches": table.to_reader(),
        "Arrow stream": Stream(table),
        "dictionaries": rows(columns),
    }


def plain(records: Records) -> dict[str, list[Any]]:
    return {name: records.column(name).to_pylist() for name in records.stated}


@pytest.mark.parametrize("form", forms(COLUMNS))
def test_every_form_is_the_same_table(form: str) -> None:
    records = read(forms(COLUMNS)[form])
    assert plain(records) == COLUMNS
    assert records.counts() == {"answered": 2, "abstained": 2, "unparsed": 0, "failed": 0}
    assert (records.extras, records.warnings, records.sources) == ((), (), ())


@pytest.mark.parametrize("form", forms(COLUMNS))
def test_there_and_back(form: str) -> None:
    records = read(forms(COLUMNS)[form])
    for again in (read(records.to_arrow()), read(records.to_pandas()), read(records.to_polars())):
        assert plain(again) == COLUMNS
    frame = records.to_pandas()
    assert str(frame["repeat"].dtype) == "Int64"
    assert str(frame["should_abstain"].dtype) == "boolean"


@pytest.mark.parametrize("missing", [None, NAN, np.nan, pandas.NA, pandas.NaT, np.datetime64("NaT", "ns")], ids=repr)
def test_every_way_of_missing_is_missing(missing: Any) -> None:
    columns = {"item": [1, 2], "target": ["a", "b"], "prediction": ["a", missing]}
    for source in (rows(columns), pandas.DataFrame({k: pandas.Series(v, dtype=object) for k, v in columns.items()})):
        assert read(source).counts()["abstained"] == 1
    numbers = read([{"item": 1, "confidence": 0.5}, {"item": 2, "confidence": missing}])
    assert numbers.column("confidence").to_pylist() == [0.5, None]


def test_nan_is_missing_in_frames_and_refused_in_files(tmp_path: Path) -> None:
    columns = {"item": [1, 2], "confidence": [0.5, NAN]}
    for frame in (polars.DataFrame(columns), pa.table(columns)):
        assert read(frame).column("confidence").to_pylist() == [0.5, None]
    path = tmp_path / "a.jsonl"
    path.write_text('{"item": 1, "confidence": NaN}\n')
    with pytest.raises(InputError, match="finite"):
        read(path)


def test_categories_dates_and_numpy_values() -> None:
    frame = pandas.DataFrame(
        {
            "item": pandas.Series([1, 2, 3], dtype="int8"),
            "target": pandas.Categorical(["a", "b", None]),
            "when": pandas.to_datetime(["2026-01-01", None, "2026-01-02"]),
        }
    )
    records = read(frame.set_index(np.array(["x", "y", "z"])))
    assert records.labels("target").values == ("a", "b")
    first, missing, _ = records.column("when").to_pylist()
    assert (first[:10], missing) == ("2026-01-01", None)
    assert records.stated == ("item", "target", "when")  # an index is no column
    kinds = polars.DataFrame({"item": [1, 2], "target": polars.Series(["a", "b"], dtype=polars.Categorical)})
    assert read(kinds).labels("target").values == ("a", "b")
    values = read([{"item": np.int64(1), "confidence": np.float32(0.5), "should_abstain": np.bool_(True)}])
    assert plain(values) == {"item": [1], "confidence": [0.5], "should_abstain": [True]}


def test_mixed_and_nested_columns_are_kept_and_refuse_only_who_reads_them() -> None:
    odd = {"mixed": [1, "two", None], "nested": [{"a": 1}, {"a": 2}, None], "lists": [[{"x": 1}], [], None]}
    columns = {"item": [1, 2, 3], "target": ["a", "b", "a"], "prediction": ["a", "b", "b"], **odd}
    for source in (pandas.DataFrame({k: pandas.Series(v, dtype=object) for k, v in columns.items()}), rows(columns)):
        records = read(source)
        assert "nested.a" in records.stated
        assert set(records.extras) == {"mixed", "lists"}
        assert set(records.to_pandas().columns) == {*records.stated, "mixed", "lists"}
        with pytest.raises(InputError, match="mixed"):
            read(source, columns=["mixed"])
        assert sy.evaluate(source, ["accuracy"], resamples=0)["accuracy"].value == pytest.approx(2 / 3)
    target = pandas.DataFrame({"item": [1, 2], "target": pandas.Series([1, "b"], dtype=object)})
    with pytest.raises(InputError, match="row 2: target: holds values of several kinds"):
        read(target)


def test_what_is_wrong_with_a_frame_is_said_with_its_row() -> None:
    with pytest.raises(InputError, match=r"^row 2: confidence: a number in \[0, 1\] is expected"):
        read(pandas.DataFrame({"item": [1, 2], "confidence": [0.5, 50.0]}))
    with pytest.raises(InputError, match=r"^row 2: target: text is expected"):
        read([{"item": 1, "target": "a"}, {"item": 2, "target": 1}])
    with pytest.raises(InputError, match=r"^row 2: a dictionary is expected"):
        read([{"item": 1}, 3])
    with pytest.raises(InputError, match=r"^target: the column appears twice"):
        read(pandas.DataFrame([["a", "b", "c"]], columns=["item", "target", "target"]))
    with pytest.raises(InputError, match="this large"):
        read([{"item": 2**70}])
    with pytest.raises(UsageError, match="call collect"):
        read(polars.LazyFrame({"item": [1]}))
    with pytest.raises(InputError, match="no records"):
        read(pandas.DataFrame({"item": []}))


def test_names_are_mapped_rows_kept_and_labels_folded_as_in_files() -> None:
    frame = pandas.DataFrame(
        {"qid": [1, 2, 3], "gold": ["A", "B", "A"], "answer": ["a.", "b", "pass"], "age": [70, 60, 80]}
    )
    names = {"item": "qid", "target": "gold", "prediction": "answer"}
    records = read(frame, map=names, where="age>=65", labels="fold", abstain="Pass")
    assert records.array("correct").tolist() == [1.0, 0.0]
    assert records.counts()["abstained"] == 1


@given(st.lists(st.none() | st.floats(-1e6, 1e6) | st.integers(-99, 99), min_size=1, max_size=6))
def test_numbers_of_pandas_and_of_dictionaries_are_the_same(values: list[Any]) -> None:
    columns = {"item": list(range(len(values))), "x": values}
    one, two = read(pandas.DataFrame(columns)), read(rows(columns))
    expected = [math.nan if v is None else float(v) for v in values]
    for records in (one, two):
        held = records.stated_numbers("x") if "x" in records.stated else np.full(len(values), math.nan)
        np.testing.assert_array_equal(held, expected)


def test_numbers_of_other_kinds_are_numbers() -> None:
    rows = [
        {"item": np.str_("a"), "target": Decimal("1"), "prediction": Decimal("1.0"), "confidence": Fraction(1, 2)},
        {"item": "b", "target": Decimal("2"), "prediction": Decimal("NaN"), "confidence": Decimal("0.25")},
    ]
    records = read(rows)
    assert records.array("correct").tolist() == [1.0, 0.0]
    assert records.column("confidence").to_pylist() == [0.5, 0.25]


def test_whole_numbers_that_a_tool_made_fractions_are_whole(tmp_path: Path) -> None:
    frame = pandas.DataFrame({"item": [1.0, 2.0], "target": ["a", "b"], "input_tokens": [5, None]})
    frame.to_parquet(tmp_path / "a.parquet")
    for source in (frame, polars.from_pandas(frame), tmp_path / "a.parquet"):
        assert plain(read(source))["input_tokens"] == [5, None]
        assert plain(read(source))["item"] == [1, 2]
    with pytest.raises(InputError, match="a whole number is expected"):
        read(pandas.DataFrame({"item": [1, 2], "input_tokens": [1.5, 2.0]}))


def test_a_name_twice_is_refused_where_it_is_read_and_else_not() -> None:
    table = pa.Table.from_arrays([pa.array([1]), pa.array(["a"]), pa.array(["a"]), pa.array([1]), pa.array([2])],
                                 names=["item", "target", "prediction", "z", "z"])  # fmt: skip
    with pytest.raises(InputError, match="z: the column appears twice"):
        read(table)
    assert len(read(table, columns=[])) == 1


def test_requests_that_make_no_sense() -> None:
    rows = [{"item": 1, "prediction": -1, "age": 70}]
    assert read(rows, abstain=[-1]).counts()["abstained"] == 1
    assert read(rows, abstain=None).counts()["answered"] == 1
    assert len(read(rows, where={"age": np.int64(70)})) == 1
    with pytest.raises(UsageError, match="map is a mapping"):
        read(rows, map="item=x")  # type: ignore[arg-type]
    cyclic: dict[str, Any] = {"item": 1}
    cyclic["self"] = cyclic
    with pytest.raises(InputError, match="hold themselves"):
        read([cyclic])
    for nothing in (pandas.DataFrame({"item": [1]}).groupby("item"), pandas.Timestamp("2020")):
        with pytest.raises(UsageError, match="nothing that can be read"):
            read(nothing)


def test_many_columns_take_no_longer_than_they_must() -> None:
    table = pa.table({"item": [1, 2], **{f"c{n}": [1, 2] for n in range(900)}})
    assert len(read(table).stated) == 901


def test_evaluate_and_compare_take_what_read_takes(tmp_path: Path) -> None:
    frame = pandas.DataFrame(COLUMNS).drop(columns="repeat")
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows(COLUMNS)))
    one = sy.evaluate(frame, resamples=0)
    assert [e.metric for e in one] == [e.metric for e in sy.evaluate(path, resamples=0, drop="repeat")]
    assert [e.metric for e in one][:2] == ["accuracy", "balanced_accuracy"]
    table = one.to_pandas()
    assert list(table.columns[:4]) == ["metric", "value", "low", "high"]
    assert table["value"][0] == one["accuracy"].value
    both = sy.compare(frame, path, resamples=0, drop="repeat")
    assert both["accuracy"].delta == 0.0
    deltas = both.to_pandas()
    assert deltas.loc[0, "metric"] == "accuracy"
    assert deltas.loc[0, "delta"] == 0.0
    by = sy.evaluate(path, ["accuracy"], by="target", map={"group.t": "should_abstain"}, resamples=0).to_pandas()
    assert list(by["target"]) == [None, "x", "y"] or list(by["target"].fillna("")) == ["", "x", "y"]
    with pytest.raises(UsageError, match="`cluster=` is for what is read"):
        sy.evaluate(read(frame), ["accuracy"], cluster="target")


def test_neither_library_is_needed(tmp_path: Path) -> None:
    script = tmp_path / "s.py"
    script.write_text(
        "import sys\n"
        "class Nothing:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name in ('pandas', 'polars'):\n"
        "            raise ImportError(name)\n"
        "sys.meta_path.insert(0, Nothing())\n"
        "import steelyard as sy\n"
        "records = sy.read([{'item': 1, 'target': 'a', 'prediction': 'a'}])\n"
        "try:\n"
        "    records.to_pandas()\n"
        "except sy.UsageError as problem:\n"
        "    print(problem)\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    assert done.stdout == "pandas is not installed, and a frame of it was asked for: pip install pandas\n"
