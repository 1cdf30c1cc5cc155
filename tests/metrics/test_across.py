"""Metrics of a base metric in two views of a table, written as a plug-in would: five lines, and everything works."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from steelyard.decide.gate import Gate
from steelyard.errors import UsageError
from steelyard.metrics import metrics as registry
from steelyard.metrics.contract import across
from steelyard.metrics.definition import Definition, metric_of
from steelyard.metrics.views import views
from steelyard.records.table import Records
from steelyard.study.comparison import compare, compare_kept
from steelyard.study.evaluation import evaluate, value
from steelyard.study.kept_wire import packed, unpacked
from steelyard.uncertainty.settings import Settings
from tests.support.contract import CHECKS
from tests.support.tables import table


@pytest.fixture
def drop() -> Iterator[Definition]:
    @across("reference", better="lower", bounds=(-1, 1), formula="M − M′")
    def drop(original, altered, *, scale: float = 1.0):
        """How much a metric loses when questions are altered, for this test."""
        return scale * (original - altered)

    yield drop
    registry.remove("drop")


def run(seed: int, wrong: float) -> Records:
    """Forty items, each asked as it is and altered; the altered one is wrong more often."""
    rng = np.random.default_rng(seed)
    said = [["a" if rng.random() > chance else "b" for chance in (0.1, wrong)] for _ in range(40)]
    columns = {
        "item": np.repeat(np.arange(40), 2).tolist(),
        "perturbation": [None, "typo"] * 40,
        "target": ["a"] * 80,
        "prediction": [answer for pair in said for answer in pair],
        "group.site": np.repeat(np.where(np.arange(40) % 2, "x", "y"), 2).tolist(),
    }
    return Records.from_columns(columns)


def test_it_obeys_what_every_metric_obeys(drop: Definition) -> None:
    for seed, check in enumerate(CHECKS):
        check(drop("accuracy"), seed)


def test_it_is_the_difference_of_the_base_metric_on_both_views(drop: Definition) -> None:
    records = run(1, 0.5)
    original, altered = (
        value("accuracy", target=part.column("target").to_pylist(), prediction=part.column("prediction").to_pylist())
        for part in (records.take(records.is_unperturbed()), records.take(~records.is_unperturbed()))
    )
    found = evaluate(records, ["drop(accuracy)", "drop(accuracy, scale=2)"], by=["group.site"], resamples=200)
    (whole,) = (e for e in found if e.metric == "drop(accuracy)" and set(e.slice) == {"perturbation"})
    assert whole.value == pytest.approx(original - altered)
    assert whole.interval is not None
    assert whole.interval[0] < whole.value < whole.interval[1]
    assert found["drop(accuracy, scale=2){perturbation=typo}"].value == pytest.approx(2 * whole.value)
    assert found["drop(accuracy){perturbation=typo,group.site=x}"].n == 20


def test_it_is_compared_from_rows_and_from_disk_and_gated(drop: Definition) -> None:
    base, new = run(1, 0.2), run(2, 0.7)
    (wanted,) = compare(base, new, ["drop(accuracy)"], resamples=200)
    assert wanted.delta is not None
    assert wanted.delta > 0
    assert wanted.interval is not None
    kept = [
        unpacked(packed(evaluate(r, ["drop(accuracy)"], keep_evidence=True, resamples=100).kept)) for r in (base, new)
    ]
    (found,) = compare_kept(*kept, ["drop(accuracy)"], settings=Settings(resamples=200))
    assert (found.delta, found.interval) == (pytest.approx(wanted.delta), pytest.approx(wanted.interval))
    comparison = compare(base, new, ["drop(accuracy)"], resamples=200)
    decision = Gate.parse(["high(delta(drop(accuracy))) <= 0 for each cell"]).check(comparison)
    assert decision.verdict in ("fail", "inconclusive")


def test_rows_without_a_partner_are_counted(drop: Definition) -> None:
    records = run(1, 0.5)
    alone = records.take(~((np.arange(80) < 10) & (np.arange(80) % 2 == 0)))  # five items lost their original
    (found,) = evaluate(alone, ["drop(accuracy)"], resamples=0)
    assert found.n == 35
    assert found.excluded["no unperturbed partner"] == 5


def test_a_base_metric_may_be_refused() -> None:
    with pytest.raises(UsageError, match=r"relative_change\(mae\)"):
        evaluate(table(np.random.default_rng(0), numeric=True), ["robustness_score(mae)"], pool=["perturbation"])


def test_an_unknown_pair_of_views_is_refused() -> None:
    with pytest.raises(UsageError, match="unknown pair of views 'referense'; did you mean 'reference'"):
        across("referense")


def test_a_plug_in_may_bring_its_own_views() -> None:
    """The first half of the rows against the second: nothing but two functions of the table."""

    def half(which: int):
        return lambda collector: collector.within(
            np.arange(len(collector.records)) * 2 // len(collector.records) == which
        )

    own = replace(
        views["reference"],
        first=half(0),
        second=half(1),
        reads=lambda columns: (),
        lost=lambda records: {},
        perturbed_only=False,
    )
    views.add("halves", own)

    @across("halves", formula="second − first")
    def drift(first, second):
        """How a metric differs between the halves of a table, for this test."""
        return second - first

    try:
        columns = {"target": ["a"] * 8, "prediction": ["a", "a", "b", "b", "a", "a", "a", "b"]}
        assert value("drift(accuracy)", **columns) == 0.25
        assert metric_of("drift(accuracy)").reads == ("correct",)
    finally:
        registry.remove("drift")
        views.remove("halves")
