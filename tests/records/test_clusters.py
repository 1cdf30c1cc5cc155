"""Clusters stand in the order of their text, null first: which random numbers they meet follows from it, for good."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from steelyard.records.table import Records
from steelyard.study.evaluation import evaluate
from steelyard.uncertainty.settings import Stream

WHO = [2, 10, 7, 9, 10, 2, 33, 7, 101, 2, 9, 33]
TASK = [*"bba", None, *"bba", None, *"aabb"]
BY_TEXT = [10, 101, 2, 33, 7, 9]
PLACES = [2, 0, 4, 5, 0, 2, 3, 4, 1, 2, 5, 3]
TWO = [(None, 7), (None, 9), *(("a", i) for i in (101, 2, 33, 7)), *(("b", i) for i in (10, 2, 33, 9))]
TWO_PLACES = [7, 6, 5, 1, 6, 7, 4, 0, 2, 3, 9, 8]


def one_column(write: Callable[[int], Any]) -> Records:
    return table(cluster="who", item=list(range(12)), who=list(map(write, WHO)))


def two_columns(write: Callable[[int], Any]) -> Records:
    return table(task=TASK, item=list(map(write, WHO)), repeat=list(range(12)))


def table(cluster: str | None = None, **columns: Any) -> Records:
    said = ["b" if i in (1, 5, 6, 10) else "a" for i in range(12)]
    took = [float(i * i % 17) for i in range(12)]
    answers = {"target": ["a"] * 12, "prediction": said, "latency_ms": took}
    return Records.from_columns({**columns, **answers}, cluster=cluster)


@pytest.mark.parametrize("write", [int, str, float, lambda who: who + 0.5])
def test_clusters_stand_in_the_order_of_their_text(write: Callable[[int], Any]) -> None:
    ids, place = one_column(write).cluster
    assert list(ids) == [(write(who),) for who in BY_TEXT]
    assert place.tolist() == PLACES


@pytest.mark.parametrize("write", [int, str])
def test_of_two_columns_the_first_counts_first_and_null_before_all(write: Callable[[int], Any]) -> None:
    ids, place = two_columns(write).cluster
    assert list(ids) == [(task, write(who)) for task, who in TWO]
    assert place.tolist() == TWO_PLACES


def test_a_whole_number_stays_one_where_decimals_are_next_to_it() -> None:
    ids, _ = table(cluster="who", item=list(range(12)), who=[2.0, 10.5, 7.0, *[10.5] * 9]).cluster
    assert list(ids) == [(10.5,), (2,), (7,)]
    assert [type(each[0]) for each in ids] == [float, int, int]


DRAWS: list[tuple[Callable[[Callable[[int], Any]], Records], Callable[[int], Any], Stream, Any, Any]] = [
    (one_column, int, "counter", (0.5384615384615384, 0.8333333333333334), (2, 13)),
    (one_column, str, "counter", (0.5384615384615384, 0.8333333333333334), (2, 13)),
    (one_column, float, "counter", (0.5384615384615384, 0.8333333333333334), (2, 13)),
    (one_column, int, "legacy", (0.5384615384615384, 0.8333333333333334), (2, 13)),
    (one_column, str, "legacy", (0.5454545454545454, 0.8333333333333334), (2, 13)),
    (two_columns, int, "counter", (0.45454545454545453, 0.9), (2, 13)),
    (two_columns, str, "counter", (0.45454545454545453, 0.9), (2, 13)),
    (two_columns, int, "legacy", (0.45786713286713293, 0.9090909090909091), (2, 14)),
    (two_columns, str, "legacy", (0.45454545454545453, 0.9047727272727271), (3, 14)),
]


@pytest.mark.parametrize(("made", "write", "stream", "accuracy", "latency"), DRAWS)
def test_the_same_clusters_meet_the_same_draws(
    made: Callable[[Callable[[int], Any]], Records],
    write: Callable[[int], Any],
    stream: Stream,
    accuracy: Any,
    latency: Any,
) -> None:
    asked = ["accuracy", "latency.p50"]
    drawn = {"resamples": 500, "seed": 3, "method": "percentile", "stream": stream, "pool": "task"}
    found = evaluate(made(write), asked, **drawn)  # type: ignore[arg-type]
    assert found["accuracy"].interval == pytest.approx(accuracy, abs=1e-12)
    assert found["latency.p50"].interval == pytest.approx(latency, abs=1e-12)
