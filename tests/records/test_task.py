"""Task files are checked, and read as meant."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.errors import UsageError
from steelyard.records.task import Task


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({"lables": ["a", "b"]}, "did you mean 'labels'"),
        ({"labels": ["a"]}, "at least two"),
        ({"labels": ["a", 1]}, "one type"),
        ({"labels": ["a", "a"]}, "twice"),
        ({"labels": [1.5, 2.5]}, "texts or whole numbers"),
        ({"range": [3, 0]}, "range is"),
        ({"range": True}, "range is"),
        ({"direction": "up"}, "higher or lower"),
        ({"facts": {"joy": 1}}, "unknown fact"),
        ({"facts": {"kwh": -1}}, "at least 0"),
        (["labels"], "a mapping"),
    ],
)
def test_task_files_are_checked(document: Any, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        Task.of(document)


def test_a_task_is_read_as_meant() -> None:
    task = Task.of({"labels": ["a", "b"], "range": [1, 4], "direction": "lower", "facts": {"wall_seconds": 3}})
    assert (task.labels, task.range, task.direction, dict(task.facts)) == (
        ("a", "b"),
        3.0,
        "lower",
        {"wall_seconds": 3.0},
    )
    assert Task.of(None) == Task()
