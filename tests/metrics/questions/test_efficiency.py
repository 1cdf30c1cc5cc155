"""Facts of the whole table belong to no part of it."""

from __future__ import annotations

from steelyard import Records, evaluate


def test_wall_time_is_of_the_whole_table() -> None:
    columns = {"item": [1, 2, 3, 4], "model": ["a", "a", "b", "b"], "prediction": ["x"] * 4}
    task = {"facts": {"wall_seconds": 60.0}}
    parts = evaluate(Records.from_columns(columns, task=task), ["throughput"])
    assert all(e.value is None and "whole table" in e.note for e in parts)
    whole = evaluate(Records.from_columns(columns, task=task), ["throughput"], pool=["model"])
    assert whole["throughput"].value == 4.0
    assert whole["throughput"].interval is None
