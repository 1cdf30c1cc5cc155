"""Rankings in their three forms against naive oracles, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.errors import InputError, UsageError
from steelyard.metrics.definition import metric_of
from steelyard.records.table import Records
from steelyard.study.evaluation import evaluate, value
from tests.support.naive.ranking import RANKINGS
from tests.support.naive.strategies import check
from tests.support.naive.table import Table


@st.composite
def graded_rankings(draw: Any) -> Table:
    """Documents judged or not, retrieved or not, in any order; null rankings, and queries nobody judged."""
    grades = draw(st.sampled_from([[0, 1], [-2, -1, 0, 1, 2, 3], [0], [-1, 0], [1], [0.5, 1.5, 2]]))
    rows = []
    for item in range(draw(st.integers(1, 12))):
        judged = draw(st.lists(st.sampled_from(grades), max_size=8))
        retrieved = [grade for grade in judged if draw(st.booleans())] + [None] * draw(st.integers(0, 6))
        gains = draw(st.permutations(retrieved))
        rows.append(
            {
                "item": item,
                "gains": gains if gains or draw(st.booleans()) else None,
                "judged": judged if draw(st.integers(0, 5)) else None,
            }
        )
    return Table(rows)


@given(graded_rankings())
def test_rankings(table: Table) -> None:
    check(RANKINGS, table, to=1e-12)


@given(st.lists(st.one_of(st.none(), st.integers(0, 12), st.sampled_from([999, 1000, 1001])), min_size=1, max_size=20))
def test_rankings_as_gold_ranks(ranks: list[int | None]) -> None:
    check(RANKINGS, Table([{"item": i, "gold_rank": rank} for i, rank in enumerate(ranks)]), to=1e-12)


@given(st.sampled_from([list("abcdefgh"), list(range(8)), ["", "1", "10", "é", "e\u0301", "\x00"]]), st.data())
def test_rankings_as_lists_of_documents(documents: list[Any], data: Any) -> None:
    lists = st.one_of(st.none(), st.lists(st.sampled_from(documents), unique=True))
    rows = [
        {"item": item, "target": data.draw(lists), "prediction": data.draw(lists)}
        for item in range(data.draw(st.integers(1, 8)))
    ]
    check(RANKINGS, Table(rows), to=1e-12)


@given(graded_rankings())
def test_rankings_of_failed_queries_are_not_counted(table: Table) -> None:
    fates = ["answered", "failed", "unparsed", "abstained"]
    check(RANKINGS, table.of([{**row, "outcome": fates[row["item"] % 4]} for row in table.rows]), to=1e-12)


def test_queries_without_relevant_documents_are_counted() -> None:
    columns = {"item": list(range(4)), "gains": [[1], [0], [], None], "judged": [[1, 0], [0], [-1], None]}
    found = evaluate(Records.from_columns(columns), list(RANKINGS), resamples=100)
    assert {e.n for e in found} == {3}
    assert all(e.excluded == {"no judged": 1} for e in found)
    assert {e.metric: e.detail for e in found}["map"] == {"queries_without_relevant": 2}
    assert {e.metric: e.detail for e in found}["map(level=2)"] == {"queries_without_relevant": 3}
    whole = evaluate(Records.from_columns({"item": [0], "gold_rank": [1]}), ["mrr"], resamples=100)
    assert whole["mrr"].detail is None


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        (
            {"gains": [[1], [3]], "judged": [[1], [1]]},
            "row 2: gains: a grade stands in gains more often than in judged",
        ),
        ({"gains": [[1], [1, 1]], "judged": [[1], [1, 2]]}, "row 2: gains: a grade stands"),
        ({"gains": [["x"]], "judged": [[1]]}, "gains: mrr needs lists of numbers"),
        ({"gains": [[1]], "judged": [[True]]}, "judged: mrr needs lists of numbers"),
        ({"gains": [[math.nan]], "judged": [[1]]}, "row 1: gains: the list holds a number that is not finite"),
        ({"gains": [1], "judged": [[1]]}, "row 1: gains: a list is expected"),
        ({"gains": [[1]]}, "mrr needs column 'judged'"),
        ({"judged": [[1]]}, "mrr needs column 'gains'"),
        ({"gold_rank": [1, -1]}, "row 2: gold_rank: a number at least 0"),
        ({"gold_rank": [1.5]}, "row 1: gold_rank: a whole number is expected"),
        ({"target": [["a"], ["b", "b"]], "prediction": [["a"], ["b"]]}, "row 2: target: a document appears twice"),
        ({"target": [["a"], ["b"]], "prediction": [["a"], ["c", "c"]]}, "row 2: prediction: a document appears twice"),
        ({"target": [["a"], ["b"]], "prediction": [["a"], ["c", None]]}, "row 2: prediction: .* holds a null"),
        ({"target": [[1]], "prediction": [["1"]]}, "different kinds"),
        ({"target": [[1.0]], "prediction": [[1.0]]}, "target: documents are named by text or whole numbers"),
        ({"target": [[["a"]]], "prediction": [[["a"]]]}, "target: documents are named by"),
        ({"target": ["a"], "prediction": [["a"]]}, "mrr needs ranked lists: .* columns: item, target, prediction"),
        ({"score": [1.0]}, "mrr needs ranked lists"),
    ],
)
def test_rankings_that_are_refused(columns: dict[str, Any], problem: str) -> None:
    size = len(next(iter(columns.values())))
    with pytest.raises(InputError, match=problem):
        value("mrr", Records.from_columns({"item": list(range(size)), **columns}))


@pytest.mark.parametrize("text", ["ndcg@0", "mrr@0", "map@0", "precision@0", "recall@0", "hit@0"])
def test_a_cutoff_is_at_least_one(text: str) -> None:
    with pytest.raises(UsageError, match="the cutoff is a whole number from 1"):
        value(text, gold_rank=[1])


@pytest.mark.parametrize("text", ["mrr(level=0)", "map(level=-1)", "precision@5(level=0)", "rprec(level=0)"])
def test_a_level_is_at_least_one(text: str) -> None:
    with pytest.raises(UsageError, match=r"level: .* a whole number from 1"):
        value(text, gold_rank=[1])


def test_precision_with_a_cutoff_is_another_metric_than_that_of_a_label() -> None:
    columns = {"target": ["yes", "no"], "prediction": ["yes", "yes"], "gold_rank": [1, 2]}
    assert value("precision.yes", **columns) == 0.5
    assert value("precision@1", **columns) == 0.5
    assert value("recall.yes", **columns) == 1
    assert value("recall@1", **columns) == 0.5
    assert metric_of("precision@5") != metric_of("precision.yes")


def test_lists_that_arrow_holds_in_other_ways() -> None:
    """A slice of a longer array, large lists, and a null that hides elements."""
    hidden = pa.ListArray.from_arrays(
        pa.array([0, 1, 3, 4], pa.int32()), pa.array(list("abcd")), mask=pa.array([False, True, False])
    )
    graded = pa.ListArray.from_arrays(
        pa.array([0, 1, 3, 4], pa.int32()), pa.array([1, 1, 0, 1]), mask=pa.array([False, True, False])
    )
    targets, judged = pa.array([["a"], ["b"], ["d"]]), pa.array([[1], [1, 0], [1]])
    kinds = (lambda a: a, lambda a: a.cast(pa.large_list(a.type.value_type)), lambda a: pa.concat_arrays([a, a])[3:])
    for kind in kinds:
        lists = {"target": kind(targets), "prediction": kind(hidden)}
        assert value("mrr", Records.from_columns({"item": [0, 1, 2], **lists})) == pytest.approx(2 / 3)
        grades = {"gains": kind(graded), "judged": kind(judged)}
        assert value("mrr", Records.from_columns({"item": [0, 1, 2], **grades})) == pytest.approx(2 / 3)


QUERIES = [
    ([0, 0, None, 0, None, 1, None, 2, None, 0], [0, 4, 0, 0, 0, 1, 2, 0]),
    ([None, None, None], [0, 0, 0, 0, 0, 0, 0, 1]),
    ([2, None, None, 1, 1, None], [1, 2, 0, 0, 1, 0, 1, 1]),
    ([None, None, None, None, 0, 0, None, 4, 0, 1], [2, 4, 0, 0, 1, 0, 4, 1]),
    ([1, 1, None, None, 2, 0, 1, None, 3], [2, 1, 3, 1, 3, 1, 2, 0]),
]


@pytest.mark.parametrize(
    ("typed", "wanted"),
    [
        ("Bpref", [0.0, 0.0, 0.6, 0.066667, 0.428571]),
        ("Bpref(rel=2)", [0.0, 0.0, 1.0, 0.111111, 0.125]),
        ("Judged@5", [0.6, 0.0, 0.6, 0.2, 0.6]),
        ("ERR@5", [0.0, 0.0, 0.20972, 0.0, 0.12476]),
        ("ERR@20", [0.03239, 0.0, 0.20972, 0.11758, 0.16368]),
        ("nDCG@5", [0.0, 0.0, 0.713577, 0.0, 0.336737]),
        ("nDCG@5(gain=exponential)", [0.0, 0.0, 0.77146, 0.0, 0.19126]),
    ],
)
def test_numbers_of_ir_measures(typed: str, wanted: list[float]) -> None:
    """As ir_measures 0.4.3 gives them: gdeval's, to its five digits, for ERR and exponential gains."""
    numbers = [value(typed, gains=[gains], judged=[judged]) for gains, judged in QUERIES]
    assert numbers == pytest.approx(wanted, abs=6e-6)


@pytest.mark.parametrize(
    ("typed", "problem"),
    [
        ("ndcg(gain=cubic)", "ndcg: gain is one of linear, exponential"),
        ("rbp(p=1)", "rbp: the probability p"),
        ("rbp(p=-0.1)", "rbp: the probability p"),
        ("err(max_grade=0)", "err: max_grade is a whole number from 1"),
        ("err(max_grade=3)", "err: there are grades above 3"),
        ("err@0", "the cutoff is a whole number from 1"),
        ("judged@0", "the cutoff is a whole number from 1"),
        ("bpref(level=0)", "level: .* a whole number from 1"),
    ],
)
def test_options_of_rankings_that_are_refused(typed: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        value(typed, gains=[[4]], judged=[[4]])
