"""A command holds only the columns that it will use: what it says is what the whole table would have said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import steelyard as sy
from steelyard.metrics.definition import metric_of
from steelyard.records.writers import write_records
from steelyard.study.columns import columns_read
from tests.support.tables import every_instance, fitting, is_numeric, table

METRICS = every_instance()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Path]:
    folder = tmp_path_factory.mktemp("columns")
    written = {}
    for numeric in (False, True):
        written[numeric] = folder / f"{numeric}.jsonl"
        write_records(table(np.random.default_rng(5), numeric=numeric), written[numeric])
    return written


@pytest.mark.parametrize("name", METRICS)
def test_a_metric_says_the_same_when_only_its_columns_are_held(name: str, files: dict[bool, Path]) -> None:
    metric = metric_of(name)
    path = files[is_numeric(metric)]
    task = fitting(metric, np.random.default_rng(0)).task
    whole = sy.read(path, cluster="patient", task=task)
    lean = sy.read(path, cluster="patient", task=task, columns=columns_read([metric]))
    asked = {"resamples": 100, "seed": 1}
    one, two = (sy.evaluate(records, [metric], **asked) for records in (whole, lean))
    assert [(e.value, e.interval, e.n) for e in one] == [(e.value, e.interval, e.n) for e in two]
    assert "score" in whole
    assert ("score" in lean) is ("score" in columns_read([metric]))
