"""What every reader of logs reads alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import steelyard as sy
from tests.support import every_eval, inspect_logs, promptfoo

STATED = [True, "true", " TRUE", False, "False", "perhaps", 1, None]
MEANT = [True, True, True, False, False, None, None, None]


def _inspect(folder: Path, stated: Sequence[Any]) -> Path:
    samples = [inspect_logs.sample(place, metadata={"should_abstain": due}) for place, due in enumerate(stated)]
    return inspect_logs.written(folder, samples)


def _every_eval(folder: Path, stated: Sequence[Any]) -> Path:
    samples = [every_eval.sample(f"q{place}", metadata={"should_abstain": due}) for place, due in enumerate(stated)]
    return every_eval.written(folder, samples)


def _promptfoo(folder: Path, stated: Sequence[Any]) -> Path:
    rows = [promptfoo.row(f"q{place}", metadata={"should_abstain": due}) for place, due in enumerate(stated)]
    return promptfoo.written(folder, rows)


@pytest.mark.parametrize("log", [_inspect, _every_eval, _promptfoo])
def test_whether_to_decline_is_true_or_false_also_as_text_and_otherwise_said(
    tmp_path: Path, log: Callable[[Path, Sequence[Any]], Path]
) -> None:
    records = sy.read(log(tmp_path, STATED))
    assert records.column("should_abstain").to_pylist() == MEANT
    (said,) = [warning for warning in records.warnings if "should_abstain" in warning]
    assert said.endswith(": 2 values of should_abstain are neither true nor false, and not used")
    assert not any("should_abstain" in said for said in sy.read(log(tmp_path, STATED[:5])).warnings)
