"""p-values by swapping whole clusters between two runs, against a loop that moves the rows themselves."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from steelyard.ground.randomness import sign_block
from steelyard.metrics.collector import Collector
from steelyard.metrics.definition import Metric, metric_of
from steelyard.records.table import Records
from steelyard.study.cells import joined
from steelyard.study.comparison import compare
from steelyard.study.evaluation import expanded
from steelyard.study.row_pairs import RowPair
from steelyard.uncertainty.paired import PairedSample, paired
from steelyard.uncertainty.sampling import sample
from steelyard.uncertainty.settings import Settings
from tests.support.tables import every_instance, fitting, other

COMPARED = [t for t in every_instance() if not metric_of(t).no_delta]

# what the tables of this file do not determine: bins without targets, more than two labels, coverage never reached
UNDEFINED = (
    "brier(binary=true)",
    "mae_by_bin.5-8",
    "mae_by_bin.13-21",
    "mae_by_bin.34+",
    "risk_at(c=0.8)",
    "risk_at(c=0.9)",
)


def pair_of(metric: Metric, *, clusters: int, rows: int = 60) -> RowPair:
    """Two runs on the same questions, with the rows that both can count for the metric."""
    records = fitting(metric, np.random.default_rng(5), rows=rows, clusters=clusters)
    base = records.take(records.outcome != 3)
    pair = RowPair(joined(base, [metric]), joined(other(base, 9), [metric]))
    return pair.countable(metric)[0]


def measured(pair: RowPair, metric: Metric, **how: Any) -> PairedSample:
    own = zip(pair.sides, pair.constants(metric), strict=True)
    base, new = (sample(metric, side, constants) for side, constants in own)
    (found,) = paired([(base, new)], Settings(**how))
    return found


def ranked(records: Records, metric: Metric) -> Records:
    """The scores of a run as midranks among the rows that count, over their number."""
    composed = metric.definition.name in ("eaurc", "eaugrc")  # of areas, which read only order
    if metric.base is not None or not (metric.definition.rows.reads_order or composed):
        return records
    name = "prediction" if metric.definition.name == "spearman" else metric.values.get("rank") or metric.values["score"]
    inside = ~records.column(name).is_null().to_numpy(zero_copy_only=False)
    if metric.population == "answered" or "rank" in metric.values:
        inside &= records.array("answered") == 1
    if "target" in records:
        inside &= ~records.column("target").is_null().to_numpy(zero_copy_only=False)
    scores = records.stated_numbers(name)
    counted = scores[inside]
    ranks = [
        ((counted < s).sum() + ((counted == s).sum() + 1) / 2) / len(counted) if here else 0.0
        for s, here in zip(scores, inside, strict=True)
    ]
    return records.with_columns({name: pa.array(ranks, mask=~inside)})


def swapped(base: Records, new: Records, rows: np.ndarray) -> tuple[Records, Records]:
    """Both tables with these rows exchanged."""
    at = np.where(rows, np.arange(len(base)) + len(base), np.arange(len(base)))
    columns = [{}, {}]
    for name in base.stated:
        both = pa.concat_arrays([base.column(name), new.column(name)])
        for side, place in enumerate((at, (at + len(base)) % (2 * len(base)))):
            columns[side][name] = both.take(pa.array(place))
    one, two = (base.with_columns(c) for c in columns)
    return one, two


def value(metric: Metric, records: Records, constants: Any) -> float:
    side = Collector(records)
    return float(metric.finished(side.unit.read(side.evidence(metric, constants)), constants)[0])


def difference(metric: Metric, one: Records, two: Records, constants: Any, *, common: bool) -> float:
    """The delta of two tables; of an area, up to the coverage that both reach."""
    if not common:
        return value(metric, one, constants) - value(metric, two, constants)
    reached = min((t.array("answered") == 1).sum() / len(t) for t in (one, two))
    options = {k: v for k, v in metric.values.items() if k not in ("ties", "c")}
    upper = min(reached, float(metric.values.get("c", 1.0)))
    area = metric_of(str(metric.common_coverage)).definition(**options, c=upper)
    return value(area, one, constants) - value(area, two, constants)


def by_hand(pair: RowPair, metric: Metric, seed: int, resamples: int) -> float:
    """The share of swaps that reach the observed difference, each made by moving rows and evaluating anew."""
    constants = pair.constants(metric)[0]
    base, new = (ranked(t, metric) for t in pair.tables)
    ids, cluster = pair.base.cluster
    values = [value(metric, t, constants) for t in pair.tables]
    delta = values[1] - values[0]
    tie = 1e-9 * abs(delta) + 1e-12 * (abs(values[0]) + abs(values[1]))
    coverage = [(t.array("answered") == 1).sum() / len(t) for t in pair.tables]
    limited = metric.values.get("c", 1.0) <= min(coverage)
    common = metric.is_area and (coverage[0] == coverage[1] or limited)
    evidence = [side.evidence(metric, constants).rows for side in pair.sides]
    present = np.flatnonzero((evidence[0] > 0) | (evidence[1] > 0))
    reached, drawn = 0, 0
    few = len(present) <= 14
    every = itertools.product((False, True), repeat=len(present) - 1) if few else range(resamples)
    for draw in every:
        moved = np.zeros(len(ids), bool)
        if few:
            moved[present[1:]] = draw
        else:
            moved = sign_block(seed, draw, draw + 1, len(ids))[0] > 0
        found = difference(metric, *swapped(base, new, moved[cluster]), constants, common=common)
        reached += math.isnan(found) or abs(found) >= abs(delta) - tie
        drawn += 1
        if not few and reached == 100:
            return 100 / drawn
    return reached / drawn if few else (1 + reached) / (1 + resamples)


@pytest.mark.parametrize("text", COMPARED)
def test_every_metric_is_swapped_as_its_rows_would_be(text: str) -> None:
    metric = metric_of(text)
    if metric.base is not None and metric.base.definition.rows.reads_order:
        pytest.fail("ranks within groups need a loop of their own")
    pair = pair_of(metric, clusters=7)
    (single,) = expanded([metric], pair.base)[:1]
    found = measured(pair, single, resamples=100)
    if text in UNDEFINED:
        assert math.isnan(found.delta)
        assert math.isnan(found.p_swap)
        return
    assert found.p_swap == pytest.approx(by_hand(pair, single, 42, 100), abs=1e-12)


@pytest.mark.parametrize("text", ["accuracy", "f1_macro", "auroc", "aurc", "ece", "mdae", "mae", "risk_at(c=0.5)"])
def test_many_clusters_are_drawn_from_the_counter_stream(text: str) -> None:
    metric = metric_of(text)
    pair = pair_of(metric, clusters=20, rows=80)
    found = measured(pair, metric, resamples=150, seed=3)
    assert found.clusters > 14
    assert found.p_swap == pytest.approx(by_hand(pair, metric, 3, 150), abs=1e-12)


def test_the_hundredth_that_reaches_it_ends_the_draws_whatever_the_block() -> None:
    metric = metric_of("accuracy")
    pair = pair_of(metric, clusters=24, rows=96)
    assert measured(pair, metric, resamples=2_000, seed=1).p_swap == by_hand(pair, metric, 1, 2_000)


def test_swaps_of_groups_read_ranks_within_the_group() -> None:
    metric = metric_of("fairness_gap(auroc, by=group.site)")
    pair = pair_of(metric, clusters=7)
    scaled = RowPair(
        pair.base, pair.new.with_columns({"confidence": pa.array(pair.new.stated_numbers("confidence") / 2)})
    )
    one, two = (measured(p, metric, resamples=100) for p in (pair, scaled))
    assert one.p_swap == two.p_swap  # a scale of its own changes no order


def test_a_small_p_never_stands_next_to_an_interval_that_holds_0() -> None:
    for text in ("accuracy", "f1_macro", "auroc", "aurc", "ece", "mae", "rmse", "latency.p50", "balanced_accuracy"):
        metric = metric_of(text)
        records = fitting(metric, np.random.default_rng(1), rows=120, clusters=20)
        base = records.take((records.outcome != 3) & (np.arange(120) % 2 == 0))
        for seed in range(4):
            (delta,) = compare(base, other(base, seed), [text], resamples=400)
            assert delta.p_value is not None
            if delta.interval is None:
                continue
            holds = delta.interval[0] <= 0 <= delta.interval[1]
            assert holds == (delta.p_value > 0.05) or not holds, text
