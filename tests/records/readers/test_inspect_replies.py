"""Samples of an Inspect log that say less than others, or more than can be: no reply, no answer, no such number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import steelyard as sy
from tests.support.inspect_logs import sample, written


def rows(records: sy.Records, *names: str) -> list[Any]:
    columns = [records.column(name).to_pylist() for name in names]
    return list(zip(*columns, strict=True)) if len(columns) > 1 else list(columns[0])


def test_samples_without_any_reply_count_by_their_scores(tmp_path: Path) -> None:
    done = [
        {"id": n, "epoch": 1, "input": "?", "target": "A", "scores": {"match": {"value": "CI"[n % 2]}}}
        for n in range(6)
    ]
    records = sy.read(written(tmp_path, done))
    assert rows(records, "outcome", "mark") == [("answered", 1 - n % 2) for n in range(6)]
    (accuracy,) = sy.evaluate(records, ["accuracy"], resamples=0)
    assert (accuracy.value, accuracy.n) == (0.5, 6)


@pytest.mark.parametrize("values", [[0.25, 0.5, 0.75], [0.25, "rude", 0.75], ["rude", "kind", "calm"]])
def test_grades_count_also_where_the_log_holds_no_reply_at_all(tmp_path: Path, values: list[Any]) -> None:
    done = [
        {"id": n, "epoch": 1, "input": "?", "target": "A", "scores": {"tone": {"value": value}}}
        for n, value in enumerate(values)
    ]
    records = sy.read(written(tmp_path, done))
    points = [value if isinstance(value, float) else None for value in values]
    assert rows(records, "outcome", "prediction", "mark", "score") == [("answered", None, None, p) for p in points]
    if any(points):
        (mean,) = sy.evaluate(records, ["mean(score)"], resamples=0)
        assert (mean.value, mean.n) == (0.5, sum(p is not None for p in points))


def test_a_log_without_replies_is_read_next_to_one_with_them(tmp_path: Path) -> None:
    silent = {"id": 2, "epoch": 1, "input": "?", "target": "A", "scores": {"match": {"value": 0.5}}}
    files = [written(tmp_path, [sample(1)], name="a.eval"), written(tmp_path, [silent], name="b.eval")]
    assert rows(sy.read(files), "outcome", "prediction", "score") == [("answered", "A", 1.0), ("answered", None, 0.5)]


def test_a_sample_without_a_reply_among_others_failed_however_it_was_scored(tmp_path: Path) -> None:
    def replied(n: int, completion: str, value: str) -> dict[str, Any]:
        output = {"choices": [{"message": {"content": completion}}], "completion": completion}
        return {"id": n, "epoch": 1, "input": "?", "target": "A", "output": output, "scores": {"m": {"value": value}}}

    done = [replied(1, "A", "C"), replied(2, "", "C"), replied(3, "", "I")]
    assert rows(sy.read(written(tmp_path, done)), "outcome") == ["answered", "failed", "failed"]


def test_a_scorer_that_looked_for_answers_and_found_none_extracts_them_all_the_same(tmp_path: Path) -> None:
    samples = [sample(1, value="I", answer="", completion="Hm."), sample(2, value="I", answer=None, completion="A")]
    records = sy.read(written(tmp_path, samples))
    assert rows(records, "outcome", "prediction") == [("unparsed", None), ("unparsed", None)]


def test_whole_numbers_larger_than_any_other_are_no_scores_and_no_times(tmp_path: Path) -> None:
    huge = 10**400
    samples = [
        sample(1, value=huge),
        sample(2, value={"a": huge}, working_time=huge, total_time=huge),
        sample(3, value=1),
    ]
    records = sy.read(written(tmp_path, samples[::2], name="run.json"))
    assert rows(records, "outcome", "mark") == [("failed", None), ("answered", 1.0)]
    records = sy.read(written(tmp_path, samples[1:2], name="run.json"))
    assert "latency_ms" not in records.stated
