"""Intervals of means over tasks: strata have degrees of freedom of their own, and perfect tasks may hide something."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from steelyard.records.table import Records
from steelyard.study.evaluation import evaluate
from steelyard.uncertainty.intervals import Rule, Worth, alpha_of_tail, expanded_tail
from steelyard.uncertainty.measures import Unseen, named_measures


def table(sizes: dict[str, int], wrong: dict[str, int]) -> Records:
    tasks = [task for task, size in sizes.items() for _ in range(size)]
    given = {task: ["b"] * wrong.get(task, 0) + ["a"] * size for task, size in sizes.items()}
    predictions = [given[task].pop(0) for task in tasks]
    plan = {"tasks": {task: {"accuracy": "diagnostics"} for task in sizes}, "weights": {"diagnostics": 1}}
    columns = {"item": list(range(len(tasks))), "task": tasks, "target": ["a"] * len(tasks), "prediction": predictions}
    return Records.from_columns(columns, task={"benchmark": plan})


def interval(records: Records) -> tuple[float, float]:
    found = evaluate(records, ["combined_score"], pool="task", resamples=4_000)["combined_score"].interval
    assert found is not None
    return found


def test_one_stratum_is_worth_its_clusters() -> None:
    left_out = np.random.default_rng(1).normal(size=25)
    worth = Worth.in_strata(left_out, np.zeros(25, np.int64))
    assert worth is not None
    assert worth.clusters == pytest.approx(25)
    assert worth.widened == pytest.approx(math.sqrt(25 / 24))
    assert expanded_tail(0.95, worth) == pytest.approx(expanded_tail(0.95, 25))
    assert alpha_of_tail(0.01, worth) == pytest.approx(alpha_of_tail(0.01, 25))


def test_strata_have_the_freedom_of_welch_and_satterthwaite() -> None:
    rng = np.random.default_rng(2)
    values = [rng.normal(size=n) * s for n, s in ((8, 1.0), (20, 3.0), (50, 0.5))]
    left_out = np.concatenate([(v.sum() - v) / (len(v) - 1) / 3 for v in values])  # means without each, of three tasks
    strata = np.repeat([0, 1, 2], [8, 20, 50])
    worth = Worth.in_strata(left_out, strata)
    own = [v.var(ddof=1) / len(v) / 9 for v in values]
    freedom = sum(own) ** 2 / sum(v**2 / (len(x) - 1) for v, x in zip(own, values, strict=True))
    shown = [v * (len(x) - 1) / len(x) for v, x in zip(own, values, strict=True)]
    assert worth is not None
    assert worth.clusters == pytest.approx(1 + freedom)
    assert worth.widened == pytest.approx(math.sqrt(sum(own) / sum(shown)))


def test_nothing_that_varies_is_worth_nothing() -> None:
    assert Worth.in_strata(np.zeros(6), np.array([0, 0, 0, 1, 1, 1])) is None
    assert Worth.in_strata(np.arange(3.0), np.arange(3)) is None


def test_the_interval_is_about_that_of_welch_where_means_are_normal() -> None:
    sizes = {"x": 30, "y": 40, "z": 50}
    wrong = {"x": 10, "y": 15, "z": 22}
    shares = {task: 1 - wrong[task] / sizes[task] for task in sizes}
    own = {task: p * (1 - p) / (sizes[task] - 1) / 9 for task, p in shares.items()}
    freedom = sum(own.values()) ** 2 / sum(v**2 / (sizes[t] - 1) for t, v in own.items())
    half = stats.t.ppf(0.975, freedom) * math.sqrt(sum(own.values()))
    low, high = interval(table(sizes, wrong))
    value = sum(shares.values()) / 3
    assert (low, high) == (pytest.approx(value - half, abs=0.012), pytest.approx(value + half, abs=0.012))


def test_perfect_tasks_leave_room_below_and_none_above() -> None:
    low, high = interval(table({"x": 20, "y": 20}, {}))
    room = (1 - 0.025 ** (1 / 20)) / 2
    assert high == 1
    assert low == pytest.approx(1 - math.hypot(room, room))
    small, large = (interval(table({"x": size, "y": 40}, {"y": 8}))[0] for size in (6, 40))
    assert small < large - 0.05  # six perfect answers say less than forty


def test_what_is_not_seen_is_nested_and_holds_the_value() -> None:
    rule = Unseen(0.9, ((0.5, 6),), ((0.1, 10),)).widened(
        Rule("bca", lambda level: (0.9 - level / 20, 0.9 + level / 20))
    )
    ends = [rule.at(level) for level in (0.5, 0.9, 0.95, 0.99)]
    assert all(b[0] < a[0] <= 0.9 <= a[1] < b[1] for a, b in pairwise(ends))
    plain = Rule("bca", lambda level: (0.8, 1.0))
    assert Unseen(0.9, (), ()).widened(plain) is plain


def test_intervals_of_a_benchmark_cover() -> None:
    """Twelve tasks of twenty, 0/1 scores: at 95% about one in twenty misses; the docs have more of it."""
    rng, seeds = np.random.default_rng(5), 120
    shares = np.linspace(0.5, 0.9, 12)
    missed = 0
    for _ in range(seeds):
        wrong = {f"t{i:02}": int(rng.binomial(20, 1 - p)) for i, p in enumerate(shares)}
        records = table({f"t{i:02}": 20 for i in range(12)}, wrong)
        found = evaluate(records, ["combined_score"], pool="task", resamples=400)["combined_score"].interval
        assert found is not None
        missed += not found[0] <= shares.mean() <= found[1]
    assert missed <= 0.05 * seeds + 3 * math.sqrt(0.05 * 0.95 * seeds)


def test_many_measures_are_named_shortly() -> None:
    names = [(f"t{i}", "accuracy", "diagnostics") for i in range(5)]
    assert named_measures(names) == "accuracy of t0, accuracy of t1, accuracy of t2 and 2 more"
    assert named_measures([("", "accuracy", "")]) == "accuracy"
