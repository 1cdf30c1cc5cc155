"""What is measured in several tasks as one composition: it obeys what every metric obeys, and tasks are drawn apart."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
import pytest

from steelyard.errors import InputError, UsageError
from steelyard.metrics.collector import Collector
from steelyard.metrics.definition import metric_of
from steelyard.metrics.evidence.by_task import Tasks
from steelyard.metrics.evidence.clusters import Merger
from steelyard.metrics.evidence.sums import Draw
from steelyard.records.clusters import Clusters
from steelyard.records.table import Records
from steelyard.study.comparison import compare
from steelyard.study.evaluation import evaluate, value
from steelyard.study.kept_wire import packed, unpacked
from steelyard.uncertainty.weights import Weights

NAMES = ["combined_score", "category.diagnostics", "category.safety", "task_mean(accuracy)", "task_mean(f1_macro)"]
PLAN = {
    "tasks": {
        "a": {"accuracy": "diagnostics", "f1_macro": "safety"},
        "b": {"accuracy": "diagnostics"},
        "c": {"accuracy": "diagnostics", "selective_accuracy": "safety", "parse_failure_rate": None},
    },
    "weights": {"diagnostics": 0.7, "safety": 0.3},
}


def run(seed: int = 1, *, right: float = 0.7, cluster: str | None = None, plan: Any = PLAN, **changes: Any) -> Records:
    """Three tasks of unequal size; patients are in one task each, families in several."""
    rng = np.random.default_rng(9)
    tasks = ["a"] * 12 + ["b"] * 20 + ["c"] * 30
    size = len(tasks)
    targets = rng.choice(["x", "y"], size)
    rng = np.random.default_rng(seed)
    columns: dict[str, Any] = {
        "item": list(range(size)),
        "task": tasks,
        "target": targets.tolist(),
        "prediction": np.where(rng.random(size) < right, targets, "z").tolist(),
        "outcome": rng.choice(["answered", "answered", "answered", "abstained"], size).tolist(),
        "patient": [f"{task}{i // 2}" for i, task in enumerate(tasks)],
        "family": [f"f{i % 15}" for i in range(size)],
    }
    return Records.from_columns({**columns, **changes}, cluster=cluster, task={"benchmark": plan})


def read(name: str, collector: Collector, constants: Any, weights: Any) -> float:
    metric = metric_of(name)
    reading = Draw(np.asarray(weights, float)[None]).read(collector.evidence(metric, constants))
    return float(metric.finished(reading, constants)[0])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("cluster", ["patient", "family"])
def test_weights_are_repetition(name: str, cluster: str) -> None:
    records, rng = run(cluster=cluster), np.random.default_rng(3)
    metric, whole = metric_of(name), Collector(records)
    constants = metric.constants([records])
    for _ in range(5):
        weights = rng.multinomial(len(whole.ids), np.full(len(whole.ids), 1 / len(whole.ids)))
        repeated = np.repeat(np.arange(len(records)), weights[whole.cluster])
        copy = Collector(records.take(repeated), ids=whole.ids, cluster=whole.cluster[repeated])
        wanted = read(name, copy, constants, np.ones(len(whole.ids)))
        assert read(name, whole, constants, weights) == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_parts_merge_to_the_whole(name: str) -> None:
    records, rng = run(cluster="family"), np.random.default_rng(4)
    metric = metric_of(name)
    part = rng.integers(0, 3, len(records))
    summaries = [metric.summary(records.take(part == p)) for p in range(3)]
    constants = metric.merged(summaries)
    whole: Any = Collector(records).evidence(metric, constants)
    pieces = [metric.collect(constants, Collector(records.take(part == p))) for p in range(3)]
    merged: Any = reduce(lambda a, b: Merger(a.ids, b.ids).merged(a, b), pieces)
    assert merged.ids == whole.ids
    assert merged.rows.tolist() == whole.rows.tolist()
    assert (merged.holds == whole.holds).all()
    for weights in (np.ones(len(whole.ids)), rng.integers(0, 4, len(whole.ids))):
        one, two = (
            metric.finished(Draw(np.asarray(weights, float)[None]).read(e), constants)[0] for e in (merged, whole)
        )
        assert one == pytest.approx(two, nan_ok=True)


@pytest.mark.parametrize("name", NAMES)
def test_row_order_is_irrelevant(name: str) -> None:
    records = run()
    shuffled = records.take(np.random.default_rng(2).permutation(len(records)))
    one, two = (evaluate(t, [name], pool="task", resamples=300)[name] for t in (records, shuffled))
    assert (one.value, one.interval) == (pytest.approx(two.value), pytest.approx(two.interval))


def test_evidence_is_kept_and_read_again() -> None:
    kept = evaluate(run(), NAMES, pool="task", resamples=100, keep_evidence=True).kept
    (again,) = unpacked(packed(kept))
    for name in NAMES:
        one, two = kept[0].evidence[name], again.evidence[name]
        assert isinstance(two, Tasks)
        assert (two.names, two.tasks, two.ids) == (one.names, one.tasks, one.ids)
        assert not one.differs(two).any()


# -- strata ------------------------------------------------------------------------------------------------------------


def strata(records: Records) -> list[set[Any]] | None:
    metric = metric_of("combined_score")
    evidence: Any = Collector(records).evidence(metric, metric.constants([records]))
    found = evidence.strata
    return None if found is None else [{evidence.ids[i] for i in np.flatnonzero(found == s)} for s in np.unique(found)]


def test_tasks_with_clusters_of_their_own_are_strata() -> None:
    by_item, by_patient = strata(run()), strata(run(cluster="patient"))
    assert by_item is not None
    assert sorted(map(len, by_item)) == [12, 20, 30]
    assert all(len({task for task, _ in ids}) == 1 for ids in by_item)
    assert by_patient is not None
    assert sorted(map(len, by_patient)) == [6, 10, 15]


def test_tasks_that_share_a_cluster_are_drawn_together() -> None:
    assert strata(run(cluster="family")) is None
    patients = run().column("patient").to_pylist()
    patients[0] = "b9"  # one patient is in a and b, none of theirs in c
    together = strata(run(cluster="patient", patient=patients))
    assert together is not None
    assert sorted(map(len, together)) == [15, 16]


def test_each_stratum_keeps_its_number_of_clusters() -> None:
    places = np.array([0, 1, 0, 2, 2, 2, 0, 1])
    drawn = Weights(8, resamples=500, seed=3, strata=places).block(0, 500)
    for each, size in ((0, 3), (1, 2), (2, 3)):
        assert (drawn[:, places == each].sum(1) == size).all()
    means = drawn.mean(0)
    assert means == pytest.approx(np.ones(8), abs=0.15)
    blocks = np.concatenate(list(Weights(8, resamples=500, seed=3, strata=places).blocks(64)))
    assert (blocks == drawn).all()
    one = Weights(8, resamples=50, seed=3, strata=np.zeros(8, np.int64)).block(0, 50)
    assert (one == Weights(8, resamples=50, seed=3).block(0, 50)).all()  # a single stratum is none


def test_the_bootstrap_is_that_of_a_loop_over_tasks() -> None:
    """The spread of a mean over tasks, drawn within tasks: Σ s²_t (n_t − 1)/n_t² / T² exactly."""
    records = run(plan={"tasks": {t: {"accuracy": "diagnostics"} for t in "abc"}, "weights": {"diagnostics": 1}})
    right = records.array("correct")
    tasks = np.array(records.column("task").to_pylist())
    variance = sum(right[tasks == t].var() / (tasks == t).sum() for t in "abc") / 9
    se = evaluate(records, ["combined_score"], pool="task", resamples=20_000)["combined_score"].se
    assert se == pytest.approx(variance**0.5, rel=0.02)


# -- what is not there -------------------------------------------------------------------------------------------------


def test_without_a_plan_there_is_no_combined_score() -> None:
    bare = replace(run().task, benchmark=None)
    records = Records.from_columns({n: run().column(n) for n in run().stated}, task=bare)
    with pytest.raises(UsageError, match="made of what a suite measures"):
        evaluate(records, ["combined_score"])
    means = [value("accuracy", records.filter({"task": task})) for task in "abc"]
    assert value("task_mean(accuracy)", records) == pytest.approx(sum(means) / 3)


def test_a_measure_without_a_value_is_named_and_bars_a_gate() -> None:
    outcome = ["failed"] * 12 + ["answered"] * 50
    estimate = evaluate(run(outcome=outcome), ["combined_score"], pool="task", resamples=100)["combined_score"]
    assert "accuracy of a, f1_macro of a left out: without a value" in estimate.note
    assert "missing group" in estimate.cautions
    assert estimate.excluded == {"failed": 12}


def test_a_category_of_no_task_is_undefined() -> None:
    found = evaluate(run(), ["category.manners"], pool="task", resamples=100)["category.manners"]
    assert found.value is None
    assert found.note.startswith("undefined")


def test_runs_of_other_plans_are_not_compared() -> None:
    other = {**PLAN, "weights": {"diagnostics": 0.5, "safety": 0.5}}
    with pytest.raises(InputError, match="weigh their categories differently"):
        compare(run(1), run(2, plan=other), ["combined_score"], pool="task", resamples=100)
    fewer = {**PLAN, "tasks": {**PLAN["tasks"], "b": {"f1_macro": "diagnostics"}}}  # type: ignore[dict-item]
    with pytest.raises(InputError, match="measured by different suites"):
        compare(run(1), run(2, plan=fewer), ["combined_score"], pool="task", resamples=100)


def test_swaps_give_large_p_values_where_nothing_differs_and_small_ones_where_much_does() -> None:
    base, same, better = run(1, right=0.5), run(2, right=0.5), run(3, right=0.95)
    one = compare(base, same, ["combined_score"], pool="task", resamples=2_000)["combined_score"]
    two = compare(base, better, ["combined_score"], pool="task", resamples=2_000)["combined_score"]
    assert one.p_value > 0.05
    assert one.verdict == "inconclusive"
    assert two.p_value < 0.01
    assert two.verdict == "better"


@pytest.mark.parametrize(
    "plan",
    [
        [],
        {"weights": {}},
        {"tasks": {"a": ["accuracy"]}},
        {"tasks": {"a": {"accuracy": 1}}},
        {"tasks": {"a": {"accuracy": "x"}}, "weights": {"x": -1}},
        {"tasks": {"a": {"accuracy": "x"}}, "weights": {"x": True}},
    ],
)
def test_a_plan_that_is_none_is_refused(plan: Any) -> None:
    with pytest.raises(UsageError, match="benchmark"):
        run(plan=plan)


@pytest.mark.parametrize("name", NAMES)
def test_evidence_on_more_clusters_says_what_it_said(name: str) -> None:
    records = run(cluster="family")
    collector, metric = Collector(records), metric_of(name)
    constants = metric.constants([records])
    evidence = collector.evidence(metric, constants)
    more, mine, _ = collector.ids.united(Clusters.of((f"f{i}",) for i in range(-3, 30)))
    moved = evidence.on(more, mine)
    assert (len(moved.ids), moved.rows.sum()) == (len(more), evidence.rows.sum())
    before, after = (
        float(metric.finished(Draw(np.ones((1, len(e.ids)))).read(e), constants)[0]) for e in (evidence, moved)
    )
    assert after == pytest.approx(before, rel=1e-12)
