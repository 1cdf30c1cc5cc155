"""Constants come from summaries of parts: however a table is split, they are those of the whole."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard import metric, sums
from steelyard.metrics import metrics as registry
from steelyard.metrics.definition import metric_of
from steelyard.metrics.options import Constant, hashable
from steelyard.records.table import Records
from steelyard.study.evaluation import evaluate
from tests.support.tables import every_instance, fitting, table, tables_apart

FACTS = {"wall_seconds": 30.0, "kwh": 0.4, "co2_kg": 0.15}
GROUPED = [
    "fairness_gap(rmse, by=group.site)",
    "worst_group(pearson, by=group.site)",
    "fairness_gap(ace, by=group.site)",
    "fairness_gap(aurc(loss=abs), by=group.site)",
    "fairness_gap(f1_macro(labels=[a, b, c]), by=group.site)",
    "ace(positive=b, score=score)",
    "ace(positive=nobody)",
    "nll(positive=c)",
]


@pytest.mark.parametrize("text", [*every_instance(), *GROUPED])
def test_the_summaries_of_any_parts_make_the_constants_of_the_whole(text: str) -> None:
    chosen = metric_of(text)
    rng = np.random.default_rng(4)
    records = fitting(chosen, rng, rows=120)
    (whole,) = tables_apart(records, np.zeros(len(records)))
    wanted = chosen.constants([whole])
    assert hashable(chosen.merged([chosen.summary(whole)])) == hashable(wanted)
    for parts in (2, 3, 17):
        tables = tables_apart(whole, rng.integers(0, parts, len(whole)))
        summaries = [pickle.loads(pickle.dumps(chosen.summary(t))) for t in tables]  # they travel between processes
        assert hashable(chosen.merged(summaries)) == hashable(wanted), parts
        assert hashable(chosen.merged(summaries[::-1])) == hashable(wanted), parts
    slices = [whole.take(np.arange(len(whole)) % 2 == i) for i in (0, 1)]
    if "undefined" not in str(chosen.summary(slices[0])):
        assert hashable(chosen.merged([chosen.summary(t) for t in slices])) == hashable(wanted)


@given(st.data())
def test_however_the_rows_are_split(data: Any) -> None:
    numeric = data.draw(st.booleans())
    names = (
        ["rmse", "pearson", "aurc(loss=abs)"]
        if numeric
        else ["f1_macro", "ace", "brier(binary=true)", "auroc(positive=b)"]
    )
    chosen = metric_of(data.draw(st.sampled_from([*names, *(f"fairness_gap({n}, by=group.site)" for n in names)])))
    records = table(np.random.default_rng(data.draw(st.integers(0, 50))), rows=24, numeric=numeric)
    part = np.array(data.draw(st.lists(st.integers(0, 5), min_size=24, max_size=24)))
    summaries = [chosen.summary(t) for t in tables_apart(records, part)]
    assert hashable(chosen.merged(summaries)) == hashable(chosen.constants([records]))


def test_the_labels_of_two_runs_are_joined_and_those_of_two_parts_are_not_fixed() -> None:
    """A class that one run alone predicts counts in both; within one run, the labels are whatever occurs."""
    chosen = metric_of("f1_macro")
    tables = [
        Records.from_columns({"item": [1, 2], "target": ["a", "b"], "prediction": p}) for p in (["a", "b"], ["c", "b"])
    ]
    assert chosen.constants(tables) == {"labels": ("a", "b", "c")}
    assert chosen.merged([chosen.summary(t) for t in tables]) == {"labels": None}


def test_a_plug_in_summarises_and_merges_in_a_few_lines() -> None:
    @metric(better="lower", bounds=(0, 1), formula="mean latency over the longest")
    def relative_latency(latency_ms, *, longest: Constant):
        """Mean latency relative to the longest, for this test."""
        return sums(share=latency_ms / longest, n=1)

    @relative_latency.summary
    def _(table):
        return {"longest": float(np.nanmax(table.numbers("latency_ms")))}

    @relative_latency.merge
    def _(summaries):
        return {"longest": max(s["longest"] for s in summaries)}

    @relative_latency.finish
    def _(s):
        return s.share / s.n

    try:
        records = table(np.random.default_rng(2))
        chosen = relative_latency()
        parts = tables_apart(records, np.arange(len(records)) % 4)
        assert chosen.merged([chosen.summary(t) for t in parts]) == chosen.constants([records])
        slowest = np.nanmax(records.numbers("latency_ms"))
        found = evaluate(records, ["relative_latency"], pool=["perturbation"], resamples=0)["relative_latency"]
        answered = records.numbers("latency_ms")[records.outcome != 3]
        assert found.value == pytest.approx(np.nanmean(answered) / slowest)
    finally:
        registry.remove("relative_latency")
