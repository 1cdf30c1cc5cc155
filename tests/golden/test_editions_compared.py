"""Runs of earlier editions compared: with each other, and with runs of today."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from steelyard.metrics.definition import metric_of
from steelyard.records.readers import read
from steelyard.records.schema import CELL
from steelyard.records.table import Records
from steelyard.retrieval.shifts.kept import trainings
from steelyard.runs.index import Index, RunEntry
from steelyard.runs.layout import Scope
from steelyard.runs.saved import Clock, SavedRun, compare_runs, save
from steelyard.study.comparison import compare_kept
from steelyard.study.evaluation import evaluate
from steelyard.uncertainty.number import Delta
from steelyard.uncertainty.settings import Settings
from steelyard.uncertainty.verdicts import judged
from tests.support.editions import (
    DATA,
    EXACT,
    RESAMPLES,
    Edition,
    Pair,
    comparable,
    kept_deltas,
    ok,
    said_of,
    same_failures,
    scope_options,
    stored_values,
    value_in,
)

# -- comparisons -------------------------------------------------------------------------------------------------------


def check_as_then(found: list[Delta], then: list[Any] | None) -> None:
    """Deltas, intervals, p-values and verdicts are those of the edition, where it told them.

    Editions of then judged everything that was computed as one family.
    """
    if then is None:
        return
    now = said_of(list(judged([replace(delta, role="primary") for delta in found], Settings())))
    assert [(metric, slice_, verdict) for metric, slice_, _, _, _, verdict in now] == [
        (metric, slice_, verdict) for metric, slice_, _, _, _, verdict in then
    ]
    for one, two in zip(now, then, strict=True):
        assert [one[2], *(one[3] or ())] == pytest.approx([two[2], *(two[3] or ())], abs=EXACT), one
        assert one[4] == pytest.approx(two[4], abs=1e-6), one  # found by bisection


def test_every_pair_compares_from_kept_evidence(edition: Edition, pairs: list[Pair]) -> None:
    seen: set[str] = set()
    for one, two in pairs:
        base, new = SavedRun.at(one.folder), SavedRun.at(two.folder)
        then = edition.shown.get("compared", {}).get(f"{one.path} {two.path}")
        found = list(kept_deltas(base, new, resamples=RESAMPLES if then else 0))
        values = stored_values(base), stored_values(new)
        alike = same_failures(base, new)
        assert len(found), (one.path, two.path)
        check_as_then(found, then)
        for delta in found:
            where = one.run_id, two.run_id, delta.metric, dict(delta.slice)
            before, after = (value_in(side, delta) for side in values)
            if before is None or after is None:
                assert delta.delta is None or not alike, where
                continue
            assert delta.base is not None, where
            assert delta.new is not None, where
            assert delta.delta is not None, where
            assert math.isfinite(delta.delta), where
            assert delta.delta == pytest.approx(delta.new - delta.base, abs=EXACT), where
            if "missing" in delta.companions:  # what one run cannot count leaves both; the stored values kept it
                left = "kept by an earlier edition" if edition.evidence == 1 else "left both"
                assert left in delta.note, where
            elif alike or metric_of(delta.metric).population == "all":
                assert delta.delta == pytest.approx(after - before, abs=EXACT), where
                assert (delta.base, delta.new) == pytest.approx((before, after), abs=EXACT), where
            seen.add(delta.metric)
    wanted = {name for run in edition.runs for name, *_ in edition.shown["runs"][run]["estimates"]}
    assert {name for name in wanted if not metric_of(name).no_delta} == seen


def test_pairs_with_records_compare_row_by_row(pairs: list[Pair]) -> None:
    """With rows, only the rows that failed leave; without, their whole clusters. Both are said."""
    tried = []
    for one, two in pairs:
        base, new = SavedRun.at(one.folder), SavedRun.at(two.folder)
        if base.records is None or new.records is None:
            continue
        alike = same_failures(base, new)
        values = stored_values(base), stored_values(new)
        for delta in compare_runs(base, new, comparable(base, new), settings=Settings(resamples=0)):
            assert delta.delta is not None
            assert math.isfinite(delta.delta)
            if alike:
                before, after = (value_in(side, delta) for side in values)
                assert before is not None
                assert after is not None
                assert delta.delta == pytest.approx(after - before, abs=EXACT)
        tried.append(alike)
    assert set(tried) == {True, False}


def test_clusters_in_which_other_rows_failed_leave_both_and_are_counted(pairs: list[Pair]) -> None:
    for one, two in pairs:
        base, new = SavedRun.at(one.folder), SavedRun.at(two.folder)
        if not same_failures(base, new):
            found = compare_kept(base.kept, new.kept, ["accuracy"], settings=Settings(resamples=100))
            assert all("left both" in delta.note for delta in found if not delta.slice)
            return
    raise AssertionError("no pair of runs in which other rows failed")


def test_the_command_line_compares_every_pair(pairs: list[Pair], root: Path) -> None:
    for one, two in pairs:
        base, new = SavedRun.at(one.folder), SavedRun.at(two.folder)
        shared = [key for key in new.run.intervals if key in base.run.intervals]
        assert shared, (one.path, two.path)
        same = ["--workflow", two.workflow] if one.workflow == two.workflow else []
        few = ("--top", 200, "--resamples", 200)
        asked = ("--metric", shared[0], "--against", one.run_id, *scope_options(two), *same, *few)
        found = ok("runs", "compare", *asked, root=root)
        (row,) = (row for row in found["runs"] if row["run_id"] == two.run_id)
        assert row["value"] == new.run.metrics[shared[0]]
        assert [row["low"], row["high"]] == list(new.run.intervals[shared[0]])
        assert math.isfinite(row["delta"]), (one.path, two.path, row["note"])
        if same_failures(base, new):
            difference = new.run.metrics[shared[0]] - base.run.metrics[shared[0]]
            assert row["delta"] == pytest.approx(difference, abs=EXACT)


# -- runs of today beside those of then --------------------------------------------------------------------------------


def table_of(opened: SavedRun) -> Records | None:
    """The table that a run was made from, None where it was made from vectors."""
    name = Path(str(opened.run.inputs[0]["Path"])).name
    if len(opened.run.inputs) > 1 or Path(name).suffix != ".jsonl" or name.startswith(("queries", "policies")):
        return None
    cluster = opened.evaluation.cluster if opened.evaluation is not None else ()
    return read(DATA / name, cluster=cluster[0] if len(cluster) == 1 else None, salvage=not opened.run.complete)


def test_the_same_table_saved_today_differs_from_the_stored_run_by_nothing(listed: list[RunEntry], copy: Path) -> None:
    """Two editions' evidence of the same answers, compared through the store: each delta is 0, on the stored value."""
    tried = 0
    for run in listed:
        then = SavedRun.at(run.folder)
        records = table_of(then)
        if records is None:
            continue
        by = dict.fromkeys("*".join(c for c in kept.slice if c not in CELL) for kept in then.kept)
        names = comparable(then)
        result = evaluate(records, names, by=[each for each in by if each], resamples=0, keep_evidence=True)
        scope = Scope(copy, run.domain, run.tenant)
        _, folder = save(scope, result, workflow=run.workflow, clock=Clock(), run_id=f"{run.run_id}-again")
        now = SavedRun.at(folder)
        assert now.data == then.data, run.path
        values = stored_values(then)
        for delta in kept_deltas(then, now):
            value = value_in(values, delta)
            where = run.path, delta.metric, dict(delta.slice)
            if value is None:
                assert delta.delta is None, where
            else:
                assert delta.delta == pytest.approx(0, abs=EXACT), where
                assert delta.new == pytest.approx(value, abs=EXACT), where
        tried += 1
    assert tried > 20


def test_a_retrieval_run_of_today_pairs_with_one_of_then(edition: Edition, copy: Path) -> None:
    """The embedder, the stored shift and the queries are the same, so the ranks are."""
    best = edition.shown["best_shift"]
    (width,) = (len(found.result.delta_vector) for found in trainings(Scope(copy))[0] if found.id == best)
    asked = (DATA / "policies.jsonl", DATA / "queries-drifted.jsonl", "--embedder", f"hash:{width}", "--shift", best)
    found = ok("retrieval", "run", *asked, "--workflow", "Today", "--resamples", 200, root=copy)
    now = SavedRun.at(Path(found["folder"]))
    with Index(copy) as index:
        (then,) = (
            SavedRun.at(run.folder)
            for run in index.runs()
            if run.labels.get("shift") == best and run.workflow != "Today"
        )
    assert now.run.labels["shift_seen"] == then.run.labels["shift_seen"]
    deltas = compare_runs(then, now, comparable(then, now))
    assert len(deltas)
    assert all(delta.delta == pytest.approx(0, abs=EXACT) for delta in deltas)
