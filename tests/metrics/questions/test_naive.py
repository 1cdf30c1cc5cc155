"""Every metric against its naive oracle, on tables that hypothesis makes and on a few larger ones."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from functools import partial
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.errors import InputError, UsageError
from steelyard.metrics import metrics as registry
from steelyard.metrics.definition import metric_of
from steelyard.records.table import Records
from steelyard.study.evaluation import evaluate, value
from tests.support.naive import NAIVE
from tests.support.naive.calibration import (
    CALIBRATION,
    brier,
    calibration_rows,
    ece,
    ece_null,
    gaps,
    mass_bins,
    null_eces,
    p_calibrated,
    sampled_null_eces,
    width_bin,
)
from tests.support.naive.correctness import (
    CORRECTNESS,
    SCORES,
    accuracy,
    balanced_accuracy,
    f1,
    f1_macro,
    f1_weighted,
    precision,
    recall,
)
from tests.support.naive.deferral import DEFERRAL, deferral_cells
from tests.support.naive.efficiency import COST
from tests.support.naive.groups import (
    GROUPS_LABELS,
    GROUPS_NUMBERS,
    PERTURBED_LABELS,
    PERTURBED_NUMBERS,
    REPEATS_LABELS,
    REPEATS_NUMBERS,
    grouped,
    stability,
)
from tests.support.naive.ranking import RANKINGS
from tests.support.naive.regression import REGRESSION, errors, root
from tests.support.naive.selective import (
    SELECTIVE_LABELS,
    SELECTIVE_NUMBERS,
    aurc_exact_ties,
    aurc_over_orders,
    curve,
    selective_family,
)
from tests.support.naive.table import Oracle, Row, Table, answered

fixed = settings(derandomize=True)  # the same examples in every run
few = settings(derandomize=True, max_examples=30)

SIGNS = 9_999  # random sign vectors behind ece_null and p_calibrated: the smallest p-value is 1/(B + 1) = 0.0001
CONFIDENCES = [0.0, -0.0, 1.0, 0.1, 0.2, 0.3, 0.1 + 0.2, 0.5, 0.6, 0.7, 0.9, 1 / 3, 2 / 3, 14 / 15, 1e-300, 1 - 2**-53]
SIGNALS = [0.0, -0.0, -3.5, 1.0, 2.0, 2.5, 7.0, 1e150, -1e150, 1e-300]
OUTCOMES = ["answered", "abstained", "unparsed", "failed", None]
EIGHTHS = [k / 8 for k in range(-24, 280)]
Columns = tuple[str, ...]


# -- tables ----------------------------------------------------------------------------------------------------------

EXTRA: dict[str, st.SearchStrategy[Any]] = {
    "signal.x": st.sampled_from(SIGNALS),
    "should_abstain": st.sampled_from([True, False, None]),
    "latency_ms": st.one_of(st.none(), st.sampled_from([0.0, 1.0, 12.5, 1e6]), st.floats(0, 1e4)),
    "input_tokens": st.one_of(st.none(), st.integers(0, 10**6)),
    "output_tokens": st.one_of(st.none(), st.integers(0, 10**6)),
    "score": st.one_of(st.none(), st.floats(-1e6, 1e6)),
    "group.site": st.sampled_from(["x", "y", "z", None]),
}


def a_row(draw: Any, targets: list[Any], predictions: list[Any], outcomes: list[Any], extra: Columns) -> Row:
    """One row but for its keys; an answered row always has a prediction and something to rank by."""
    outcome = draw(st.sampled_from(outcomes))
    prediction = draw(st.sampled_from(predictions))
    if outcome != "answered" and draw(st.booleans()):
        prediction = None
    ranks = outcome == "answered" or (outcome is None and prediction is not None)
    confidence = draw(st.one_of(st.sampled_from(CONFIDENCES), st.floats(0, 1)))
    return {
        "target": draw(st.sampled_from(targets)),
        "prediction": prediction,
        "outcome": outcome,
        "confidence": confidence if ranks or draw(st.booleans()) else None,
        **{name: draw(EXTRA[name]) for name in extra},
    }


def outcomes_of(draw: Any) -> list[Any]:
    """All four and unstated ones, or a table in which all rows fared alike."""
    return draw(st.sampled_from([OUTCOMES, OUTCOMES, ["answered"], ["answered", "failed"], *([o] for o in OUTCOMES)]))


def labels_of(draw: Any) -> tuple[list[str], list[str]]:
    """Targets and predictions: one class, two, three, or a prediction that is never a target."""
    targets = draw(st.sampled_from([["A"], ["A", "B"], ["A", "B", "C"]]))
    return targets, targets + draw(st.sampled_from([[], ["Z"]]))


def numbers_of(draw: Any) -> tuple[list[float], list[float]]:
    numbers = draw(st.lists(st.sampled_from(EIGHTHS), min_size=1, max_size=6))
    return numbers, numbers


@st.composite
def label_tables(draw: Any, extra: Columns = (), missing: Columns = ()) -> Table:
    """Labelled rows, one row an item; columns in `missing` have nulls, at random."""
    outcomes, (targets, predictions) = outcomes_of(draw), labels_of(draw)
    rows = []
    for item in range(draw(st.integers(1, 25))):
        row = {"item": item, **a_row(draw, targets, predictions, outcomes, extra)}
        rows.append({k: None if k in missing and draw(st.integers(0, 3)) == 0 else v for k, v in row.items()})
    labels = draw(st.sampled_from([None, None, ("A", "B", "C"), ("A", "B", "C", "D")]))
    return Table(rows, labels, wall_seconds=draw(st.sampled_from([None, 0.0, 60.0, 0.37])))


@st.composite
def number_tables(
    draw: Any, pool: list[Any], offset: float = 0.0, size: int = 25, extra: Columns = ("signal.x",)
) -> Table:
    """Rows with numbers, targets and predictions from one pool, moved by an offset."""
    outcomes = outcomes_of(draw)
    numbers = [offset + v for v in draw(st.lists(st.sampled_from(pool), min_size=1, max_size=8))]
    rows = [
        {"item": item, **a_row(draw, numbers, numbers, outcomes, extra)} for item in range(draw(st.integers(1, size)))
    ]
    return Table(rows, width=4.0)


@st.composite
def repeat_tables(draw: Any, content: Any, extra: Columns = ()) -> Table:
    """Few items, asked one to four times; an answer may be missing from a repeat."""
    outcomes, (targets, predictions) = outcomes_of(draw), content(draw)
    repeats = draw(st.integers(1, 4))
    keys = [(item, repeat) for item in range(draw(st.integers(1, 6))) for repeat in range(repeats)]
    kept = [key for key in keys if key[0] == 0 or draw(st.integers(0, 5))]
    rows = [{"item": i, "repeat": r, **a_row(draw, targets, predictions, outcomes, extra)} for i, r in kept]
    return Table(rows)


@st.composite
def perturbed_tables(draw: Any, content: Any) -> Table:
    """Originals beside one perturbation; either may be missing for an item, the target is the same."""
    outcomes, (targets, predictions) = outcomes_of(draw), content(draw)
    original = draw(st.sampled_from([None, "none", "original"]))
    rows = []
    for item in range(draw(st.integers(1, 10))):
        target = draw(st.sampled_from(targets))
        which = draw(st.sampled_from([(original, "typo")] * 6 + [(original,), ("typo",)]))
        for perturbation in which if item else (original, "typo"):
            row = a_row(draw, [target], predictions, outcomes, ())
            rows.append({"item": item, "perturbation": perturbation, **row})
    return Table(rows)


def records(table: Table) -> Records:
    """The table as the package reads it."""
    columns = {name: [row[name] for row in table.rows] for name in table.rows[0]}
    task: dict[str, Any] = {}
    if table.labels is not None:
        task["labels"] = list(table.labels)
    if table.width is not None:
        task["range"] = table.width
    if table.wall_seconds is not None:
        task["facts"] = {"wall_seconds": table.wall_seconds}
    return Records.from_columns(columns, cluster=table.cluster, task=task)


# -- comparing -------------------------------------------------------------------------------------------------------


def agrees(got: float | None, wanted: float | None, to: float, scale: float) -> bool:
    """Both undefined, or equal to `to`, relatively or in units of `scale`."""
    undefined = got is None or math.isnan(got)
    if wanted is None or undefined:
        return undefined and wanted is None
    return math.isclose(got, wanted, rel_tol=to, abs_tol=to * scale)


def check(oracles: Mapping[str, Oracle], table: Table, *, to: float = 1e-9, scale: float = 1.0) -> None:
    """Every metric in `oracles` has its oracle's value on this table."""
    data = records(table)
    found = [(text, value(text, data), oracle(table)) for text, oracle in oracles.items()]
    wrong = [f"{text}: {got!r}, not {wanted!r}" for text, got, wanted in found if not agrees(got, wanted, to, scale)]
    assert not wrong, "\n".join(wrong)


def largest_loss(table: Table) -> float:
    """The unit in which rounding of an area or an error is measured."""
    return max((abs(float(e)) for e in errors(table)), default=1.0)


# -- coverage of the registry ------------------------------------------------------------------------------------------


def heads() -> set[str]:
    return {metric_of(text).definition.name for text in NAIVE}


@pytest.mark.parametrize("name", list(registry))
def test_every_metric_has_an_oracle(name: str) -> None:
    assert name in heads(), f"{name} has no oracle in tests/support/naive"


def test_no_oracle_is_left_of_a_metric_that_is_gone() -> None:
    assert heads() <= set(registry)


# -- rankings, in their three forms ------------------------------------------------------------------------------------


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


@fixed
@given(graded_rankings())
def test_rankings(table: Table) -> None:
    check(RANKINGS, table, to=1e-12)


@fixed
@given(st.lists(st.one_of(st.none(), st.integers(0, 12), st.sampled_from([999, 1000, 1001])), min_size=1, max_size=20))
def test_rankings_as_gold_ranks(ranks: list[int | None]) -> None:
    check(RANKINGS, Table([{"item": i, "gold_rank": rank} for i, rank in enumerate(ranks)]), to=1e-12)


@fixed
@given(st.sampled_from([list("abcdefgh"), list(range(8)), ["", "1", "10", "é", "e\u0301", "\x00"]]), st.data())
def test_rankings_as_lists_of_documents(documents: list[Any], data: Any) -> None:
    lists = st.one_of(st.none(), st.lists(st.sampled_from(documents), unique=True))
    rows = [
        {"item": item, "target": data.draw(lists), "prediction": data.draw(lists)}
        for item in range(data.draw(st.integers(1, 8)))
    ]
    check(RANKINGS, Table(rows), to=1e-12)


@fixed
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
        ({"target": [["a"], ["b", "b"]], "prediction": [["a"], ["b"]]}, "row 2: target: a document stands twice"),
        ({"target": [["a"], ["b"]], "prediction": [["a"], ["c", "c"]]}, "row 2: prediction: a document stands twice"),
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


# -- one family after the other ----------------------------------------------------------------------------------------


@fixed
@given(label_tables(("signal.x",), missing=("confidence", "signal.x")))
def test_correctness(table: Table) -> None:
    check(CORRECTNESS, table, to=1e-12)


@fixed
@given(label_tables(("signal.x",), missing=("target", "confidence", "signal.x")))
def test_correctness_without_some_targets(table: Table) -> None:
    check(CORRECTNESS, table, to=1e-12)


@fixed
@given(label_tables(missing=("target", "confidence")))
def test_calibration(table: Table) -> None:
    check(CALIBRATION, table)


@fixed
@given(label_tables(("signal.x",)))
def test_selective_labels(table: Table) -> None:
    check(SELECTIVE_LABELS, table)


@fixed
@given(label_tables(("should_abstain",)))
def test_deferral(table: Table) -> None:
    check(DEFERRAL, table, to=1e-12)


@fixed
@given(label_tables(("latency_ms", "input_tokens", "output_tokens", "score")))
def test_cost_and_row_scores(table: Table) -> None:
    check({**COST, **SCORES}, table)


@fixed
@given(label_tables(("group.site",)))
def test_groups_of_labels(table: Table) -> None:
    check(GROUPS_LABELS, table)


@fixed
@given(st.lists(st.one_of(st.none(), st.floats(-1e6, 1e6)), min_size=1, max_size=25))
def test_row_scores_without_predictions_are_all_answered(scores: list[float | None]) -> None:
    check(SCORES, Table([{"item": i, "score": score} for i, score in enumerate(scores)]))


@fixed
@given(number_tables(EIGHTHS))
def test_regression(table: Table) -> None:
    check(REGRESSION, table)


@fixed
@given(number_tables([1, 2, 3, 4, 5, 8, 13, 21, 34, 40, 100, -2, 0]))
def test_regression_of_whole_numbers(table: Table) -> None:
    check({**REGRESSION, "accuracy": accuracy, "brier": brier}, table)


@fixed
@given(number_tables([k / 8 for k in range(9)], offset=1e8))
def test_regression_far_from_zero(table: Table) -> None:
    """Spread 1 at offset 1e8: one pass of raw squares would lose all sixteen digits."""
    check(REGRESSION, table)


@fixed
@given(number_tables([k / 8 for k in range(9)], offset=-1e12))
def test_regression_farther_from_zero(table: Table) -> None:
    check(REGRESSION, table, to=1e-6)


@fixed
@given(number_tables([0.0, -0.0, 1e-300, -3e-300, 2e-300], size=8))
def test_regression_of_tiny_numbers(table: Table) -> None:
    """Squares of 1e-300 underflow; the correlation and r2 of such numbers are as defined as any other."""
    absolute = {t: o for t, o in REGRESSION.items() if t not in ("r2", "pearson", "spearman")}
    check(absolute, table, scale=largest_loss(table))
    check({t: REGRESSION[t] for t in ("r2", "pearson", "spearman")}, table)


@fixed
@given(number_tables([0.0, 1.0, 3.0, 1e-300, 1e150, -1e150, 2e150], size=8))
def test_regression_of_huge_numbers(table: Table) -> None:
    absolute = {t: o for t, o in REGRESSION.items() if t not in ("r2", "pearson", "spearman")}
    check(absolute, table, scale=largest_loss(table))
    check({t: REGRESSION[t] for t in ("r2", "pearson", "spearman")}, table)


@few
@given(number_tables(EIGHTHS))
def test_selective_numbers(table: Table) -> None:
    check(SELECTIVE_NUMBERS, table, scale=max(1.0, largest_loss(table)))


@few
@given(number_tables([0.0, 1.0, 3.0, 1e-300, 1e150, -1e150], size=8))
def test_selective_huge_numbers(table: Table) -> None:
    check(SELECTIVE_NUMBERS, table, scale=max(1.0, largest_loss(table)))


@few
@given(number_tables([0.0, 1e-300, 3e-300, -1e-300], size=8))
def test_selective_tiny_numbers(table: Table) -> None:
    """All points lie within 1e-10 of any chord: the hull keeps its ends alone."""
    check(selective_family("loss=abs", loss="abs"), table, scale=largest_loss(table))


@fixed
@given(number_tables(EIGHTHS, extra=("group.site",)))
def test_groups_of_numbers(table: Table) -> None:
    check(GROUPS_NUMBERS, table)


@fixed
@given(repeat_tables(labels_of, ("latency_ms",)))
def test_repeats_of_labels(table: Table) -> None:
    check(REPEATS_LABELS, table)


@fixed
@given(repeat_tables(numbers_of))
def test_repeats_of_numbers(table: Table) -> None:
    """A coefficient of variation around a mean that is 0 but for rounding is left out."""
    near_zero = set()
    for base in ("mae", "bias", "r2"):
        centre = stability(table, base=base, of="mean")
        spread = stability(table, base=base, of="stddev")
        if centre is not None and spread is not None and 0 < abs(centre) < 1e-6 * spread:
            near_zero.add(f"stability({base}).cv")
    check({t: o for t, o in REPEATS_NUMBERS.items() if t not in near_zero}, table)


@fixed
@given(perturbed_tables(labels_of))
def test_perturbations_of_labels(table: Table) -> None:
    check(PERTURBED_LABELS, table)


@fixed
@given(perturbed_tables(numbers_of))
def test_perturbations_of_numbers(table: Table) -> None:
    check(PERTURBED_NUMBERS, table)


# -- expectation over tie orders ---------------------------------------------------------------------------------------


@st.composite
def tiny_tables(draw: Any) -> Table:
    """Up to seven rows on three confidence levels."""
    rows = [
        {
            "item": item,
            "target": draw(st.sampled_from([0.0, 1.0, 2.5])),
            "prediction": draw(st.sampled_from([0.0, 1.0, 2.5, None])),
            "confidence": draw(st.sampled_from([0.0, -0.0, 0.5, 0.75])),
        }
        for item in range(draw(st.integers(1, 7)))
    ]
    return Table(rows)


@few
@given(tiny_tables())
def test_exact_ties_are_the_mean_over_every_order(table: Table) -> None:
    """Enumerated, in closed form, and by the package."""
    for loss in ("abs", "zero_one"):
        enumerated = aurc_over_orders(table, loss=loss)
        assert agrees(aurc_exact_ties(table, loss=loss), enumerated, 1e-12, 1.0)
        assert agrees(value(f"aurc(loss={loss}, ties=exact)", records(table)), enumerated, 1e-12, 1.0)


def test_a_perfect_ranker_with_two_levels_is_flattered_by_the_trapezoid() -> None:
    """Ties between equal losses: every order is optimal, so the exact excess is 0; the plateau's is below."""
    rows = [
        {"item": i, "target": "A", "prediction": "A" if i < 5 else "B", "confidence": 0.9 if i < 5 else 0.1}
        for i in range(10)
    ]
    data = records(Table(rows))
    assert value("eaurc(ties=exact)", data) == pytest.approx(0, abs=1e-12)
    assert value("eaurc", data) == pytest.approx(NAIVE["eaurc"](Table(rows)), abs=1e-12)
    assert value("eaurc", data) < -0.02


# -- chance ------------------------------------------------------------------------------------------------------------


def within(got: float, wanted: float, error: float) -> bool:
    """Within five standard errors."""
    return abs(got - wanted) <= 5 * error + 1e-12


@st.composite
def clustered_tables(draw: Any) -> Table:
    """Up to ten clusters: all their sign vectors can be counted."""
    table = draw(label_tables(missing=("confidence",)))
    clusters = draw(st.integers(1, 10))
    rows = [{**row, "patient": draw(st.integers(1, clusters))} for row in table.rows]
    return Table(rows, cluster="patient")


@few
@given(clustered_tables(), st.sampled_from([3, 10]))
def test_chance_against_all_signs_of_few_clusters(table: Table, bins: int) -> None:
    """Exact ties count in p; ties up to rounding may."""
    data = records(table)
    got, p = value(f"ece_null(bins={bins})", data), value(f"p_calibrated(bins={bins})", data)
    found = [float(e) for e in null_eces(table, bins)]
    if not found:
        assert math.isnan(got)
        assert math.isnan(p)
        return
    wanted = ece_null(table, bins=bins)
    spread = math.sqrt(math.fsum((e - wanted) ** 2 for e in found) / len(found))
    assert within(got, wanted, spread / math.sqrt(SIGNS))
    low, high = (p_calibrated(table, bins=bins, slack=slack) for slack in (0.0, 1e-12))
    slack = [5 * math.sqrt(share * (1 - share) / SIGNS) + 1 / SIGNS for share in (low, high)]
    assert low - slack[0] <= p <= high + slack[1]


@pytest.mark.parametrize("clusters", [12, 40, 300])
def test_chance_against_other_random_signs(clusters: int) -> None:
    """Many clusters: a naive Monte Carlo with signs of its own, both errors counted."""
    table, draws = large(11 + clusters, clusters=clusters), 2_000
    data = records(table)
    found = sampled_null_eces(table, 10, draws, Random(3))
    centre = math.fsum(found) / draws
    spread = math.sqrt(math.fsum((e - centre) ** 2 for e in found) / draws)
    assert within(value("ece_null", data), centre, spread * math.sqrt(1 / draws + 1 / SIGNS))
    reached = sum(e >= ece(table) for e in found) / draws
    error = math.sqrt(max(reached * (1 - reached), 1 / draws) * (1 / draws + 1 / SIGNS))
    assert within(value("p_calibrated", data), reached, error + 0.2 / SIGNS)


def test_clusters_that_share_no_bin_cannot_look_miscalibrated() -> None:
    """No sign changes any |Σ_c s_c d_cb|: every draw ties with the data, and p is 1."""
    rows = [
        {"item": i, "patient": i // 3, "target": "A", "prediction": "AB"[i % 3 == 0], "confidence": 0.03 + i // 3 / 10}
        for i in range(30)
    ]
    table = Table(rows, cluster="patient")
    assert value("p_calibrated", records(table)) == 1
    assert value("ece_null", records(table)) == pytest.approx(ece(table), abs=1e-12)


# -- larger tables, by both ways to a value ----------------------------------------------------------------------------


def large(seed: int, *, numbers: bool = False, clusters: int = 40, repeats: int = 1) -> Table:
    """300 rows with every column and outcome, from Python's own generator."""
    random = Random(seed)
    rows = []
    for i in range(300):
        fate = random.choices(["answered", "abstained", "unparsed", "failed"], [80, 10, 5, 5])[0]
        target: Any = random.choice([k / 4 for k in range(160)] if numbers else "ABC")
        wrong: Any = target + random.gauss(0, 2) if numbers else random.choice("ABCZ")
        rows.append(
            {
                "item": i // repeats,
                "repeat": i % repeats,
                "patient": random.randrange(clusters),
                "target": target,
                "prediction": None if fate != "answered" else target if random.random() < 0.6 else wrong,
                "outcome": fate,
                "confidence": round(random.random(), random.choice([1, 2, 17])),
                "signal.x": random.choice([random.gauss(0, 1), float(random.randrange(4))]),
                "should_abstain": random.choice([True, False, None]),
                "latency_ms": random.lognormvariate(5, 1),
                "input_tokens": random.randrange(2000),
                "output_tokens": random.randrange(500),
                "score": random.gauss(3, 1),
                "group.site": random.choice("xyz"),
            }
        )
    return Table(rows, cluster="patient", width=4.0, wall_seconds=812.5)


def ranked(seed: int) -> Table:
    """300 queries of clusters, with up to fifty ranked documents."""
    random = Random(seed)
    rows: list[Row] = []
    for i in range(300):
        judged = random.choices([-1, 0, 1, 2, 3], [1, 10, 5, 3, 1], k=random.randrange(30))
        gains = random.sample([*judged, *[None] * 30], random.randrange(len(judged) + 31))
        rows.append({"item": i, "patient": random.randrange(40), "gains": gains, "judged": judged})
    rows[0] |= {"gains": None}
    rows[1] |= {"judged": None}
    return Table(rows, cluster="patient")


def altered(table: Table, seed: int) -> Table:
    """The rows as originals, and each again under a perturbation that changes some answers."""
    random = Random(seed)
    rows = [{**row, "perturbation": None} for row in table.rows]
    for row in table.rows:
        other = random.choice(table.rows) if random.random() < 0.3 else row
        rows.append({**other, "item": row["item"], "target": row["target"], "perturbation": "typo"})
        rows[-1]["patient"] = row["patient"]
        rows[-1]["repeat"] = row["repeat"]
    return table.of(rows)


LARGE: dict[str, tuple[dict[str, Oracle], Any]] = {
    "correctness": ({**CORRECTNESS, **SCORES}, lambda seed: large(seed)),
    "calibration": (CALIBRATION, lambda seed: large(seed)),
    "rankings": (RANKINGS, ranked),
    "deferral and cost": ({**DEFERRAL, **COST}, lambda seed: large(seed)),
    "selective labels": (selective_family(""), lambda seed: large(seed)),
    "selective signal": (selective_family("rank=signal.x", rank="signal.x"), lambda seed: large(seed)),
    "selective numbers": (selective_family("loss=abs", loss="abs"), lambda seed: large(seed, numbers=True)),
    "regression": (REGRESSION, lambda seed: large(seed, numbers=True)),
    "groups of labels": (GROUPS_LABELS, lambda seed: large(seed)),
    "groups of numbers": (GROUPS_NUMBERS, lambda seed: large(seed, numbers=True)),
    "repeats of labels": (REPEATS_LABELS, lambda seed: large(seed, repeats=3)),
    "repeats of numbers": (REPEATS_NUMBERS, lambda seed: large(seed, numbers=True, repeats=3)),
    "perturbed labels": (PERTURBED_LABELS, lambda seed: altered(large(seed), seed)),
    "perturbed numbers": (PERTURBED_NUMBERS, lambda seed: altered(large(seed, numbers=True), seed)),
}


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("family", LARGE)
def test_three_hundred_rows(family: str, seed: int) -> None:
    oracles, make = LARGE[family]
    check(oracles, make(seed))


@pytest.mark.parametrize("family", LARGE)
def test_evaluate_says_the_same(family: str) -> None:
    """`evaluate` sums by cluster and then over clusters; its value is the oracle's all the same."""
    oracles, make = LARGE[family]
    table = make(3)
    found = evaluate(records(table), list(oracles), resamples=100)
    here = {"perturbation": "typo"} if "perturbation" in table.rows[0] else {}
    values = {e.metric: e.value for e in found if e.slice == here}
    wrong = [
        f"{text}: {values[metric_of(text).name]!r}, not {oracle(table)!r}"
        for text, oracle in oracles.items()
        if not agrees(values[metric_of(text).name], oracle(table), 1e-9, 1.0)
    ]
    assert not wrong, "\n".join(wrong)


# -- labels that are not words -----------------------------------------------------------------------------------------

ODD = ["a b", "c,d", "e.f"]


@pytest.mark.parametrize(
    ("labels", "text", "oracle"),
    [
        ([0, 1, 2], "f1.1", partial(f1, label=1)),
        ([0, 1, 2], "precision.0", partial(precision, label=0)),
        ([0, 1, 2], "recall.2", partial(recall, label=2)),
        ([0, 1, 2], "f1_macro(labels=[0, 1, 2, 3])", partial(f1_macro, labels=(0, 1, 2, 3))),
        ([True, False], "f1.true", partial(f1, label=True)),
        ([True, False], "precision.false", partial(precision, label=False)),
        ([True, False], "balanced_accuracy", balanced_accuracy),
        ([True, False], "f1_macro(labels=[true, false])", partial(f1_macro, labels=(True, False))),
        (ODD, 'f1."a b"', partial(f1, label="a b")),
        (ODD, 'precision."c,d"', partial(precision, label="c,d")),
        (ODD, 'recall."e.f"', partial(recall, label="e.f")),
        (ODD, 'f1_weighted(labels=["c,d", "e.f", "a b"])', f1_weighted),
    ],
)
def test_labels_of_every_kind(labels: list[Any], text: str, oracle: Oracle) -> None:
    random = Random(5)
    rows = [
        {"item": i, "target": random.choice(labels), "prediction": random.choice([*labels, None])} for i in range(60)
    ]
    check({text: oracle}, Table(rows), to=1e-12)


def test_a_predicted_class_outside_the_tasks_labels_has_an_f1() -> None:
    """Null only with neither support nor predictions; this class was predicted, never rightly."""
    rows = [{"item": 0, "target": "A", "prediction": "Z"}, {"item": 1, "target": "B", "prediction": "B"}]
    table = Table(rows, labels=("A", "B"))
    check({t: NAIVE[t] for t in ("f1.Z", "precision.Z", "recall.Z", "f1_macro")}, table)


def test_f1_is_the_harmonic_mean_where_a_target_is_missing() -> None:
    """Precision, recall and f1 of a class read the same rows."""
    rows = [{"item": i, "target": t, "prediction": "A"} for i, t in enumerate(["A", "B", None])]
    check({t: NAIVE[t] for t in ("precision.A", "recall.A", "f1.A")}, Table(rows))


@pytest.mark.parametrize("labels", [None, ("A", "B")])
def test_a_group_of_failed_rows_has_no_value(labels: Any) -> None:
    """Not the worst possible one: it is left out of the gap."""
    fates = [("x", "A", "answered"), ("x", "B", "answered"), ("y", "A", "failed")]
    rows = [
        {"item": i, "target": t, "prediction": t, "outcome": o, "group.site": g} for i, (g, t, o) in enumerate(fates)
    ]
    check(grouped("f1_macro"), Table(rows, labels=labels))


# -- what stands beside a value ----------------------------------------------------------------------------------------


def beside(text: str, table: Table) -> Any:
    return evaluate(records(table), text, resamples=100)[text]


def test_the_four_cells_stand_beside_deferral() -> None:
    table = large(4)
    found = beside("deferral_alignment", table)
    cells = deferral_cells(table)
    assert found.detail == cells
    assert found.n == sum(cells.values())


def test_rows_left_out_of_deferral_are_counted_by_reason() -> None:
    """A failed row has no reply, an unparsed one neither answered nor deferred; the others lack the label."""
    table = large(4)
    reasons: dict[str, int] = {}
    for row in table.rows:
        reason = row["outcome"] if row["outcome"] in ("failed", "unparsed") else None
        if reason is None and row["should_abstain"] is None:
            reason = "no should_abstain"
        if reason is not None:
            reasons[reason] = reasons.get(reason, 0) + 1
    assert beside("deferral_alignment", table).excluded == reasons


def test_the_confusion_matrix_stands_beside_f1_macro() -> None:
    table = large(4)
    detail = beside("f1_macro", table).detail
    rows = answered(table)
    for i, true in enumerate(detail["labels"]):
        for j, said in enumerate(detail["labels"]):
            wanted = sum(row["target"] == true and row["prediction"] == said for row in rows)
            assert detail["confusion_matrix"][i][j] == wanted


def test_the_curve_stands_beside_aurc() -> None:
    table = large(4)
    detail = beside("aurc", table).detail
    points = curve(table)
    assert detail["loss"] == "zero_one"
    assert detail["curve"]["coverage"] == pytest.approx([p.coverage for p in points], abs=1e-12)
    assert detail["curve"]["selective_risk"] == pytest.approx([p.risk for p in points], abs=1e-12)
    assert detail["curve"]["generalized_risk"] == pytest.approx([p.generalized for p in points], abs=1e-12)


@pytest.mark.parametrize("name", ["ece", "mce", "ace"])
def test_the_bins_stand_beside_calibration(name: str) -> None:
    table = large(4)
    rows = calibration_rows(table)
    confidences = [row["confidence"] for row in rows]
    width = [width_bin(c, 10) for c in confidences]
    wanted = gaps(rows, mass_bins(confidences, 10) if name == "ace" else width)
    bins = [b for b in beside(name, table).detail["bins"] if b["n"]]
    assert [b["n"] for b in bins] == [n for n, _ in wanted]
    assert [abs(b["accuracy"] - b["confidence"]) for b in bins] == pytest.approx([gap for _, gap in wanted], abs=1e-12)


def test_the_worst_group_of_equals_is_the_first_by_name() -> None:
    rows = [{"item": i, "target": "A", "prediction": "AB"[i % 2], "group.site": "zyx"[i // 2 % 3]} for i in range(12)]
    assert beside("worst_group(accuracy, by=group.site)", Table(rows)).detail["group"] == "x"


# -- the oracle itself -------------------------------------------------------------------------------------------------


def test_the_oracles_square_root_where_floats_overflow_or_underflow() -> None:
    assert root(Fraction(1e300) ** 2) == 1e300
    assert root(Fraction(1e-300) ** 2) == 1e-300
    assert root(Fraction(2)) == math.sqrt(2)
