"""Runs compared from the evidence they kept: the same deltas as from their rows, or a refusal."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from steelyard.errors import InputError, StorageError
from steelyard.ground.json import dumps
from steelyard.metrics.definition import metric_of
from steelyard.records.table import Records
from steelyard.study.comparison import compare, compare_kept
from steelyard.study.evaluation import evaluate
from steelyard.study.kept_wire import packed, unpacked
from steelyard.study.wire import comparison_document
from steelyard.uncertainty.number import Delta
from steelyard.uncertainty.settings import Settings
from tests.support.shelf import through_disk
from tests.support.tables import every_instance, fitting, other, table

FIELDS = ("base", "new", "delta", "se", "p_value", "p_adjusted", "n", "n_base", "n_new", "clusters")
FEW = Settings(resamples=200)


def same(one: Delta, two: Delta) -> None:
    assert (one.verdict, one.verdict_from) == (two.verdict, two.verdict_from)
    for name in FIELDS:
        got, wanted = getattr(one, name), getattr(two, name)
        assert (got is None) == (wanted is None), name
        assert got is None or got == pytest.approx(wanted, rel=1e-9, abs=1e-12), name
    assert (one.interval is None) == (two.interval is None)
    if one.interval is not None:
        assert one.interval == pytest.approx(two.interval, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("text", [t for t in every_instance() if not metric_of(t).no_delta])
def test_every_metric_compares_from_its_evidence_as_from_its_rows(text: str) -> None:
    metric = metric_of(text)
    records = fitting(metric, np.random.default_rng(5), rows=120, clusters=12)
    base = records.take(records.outcome != 3)
    new = other(base, 9)
    pool = ["perturbation"]
    (wanted,) = compare(base, new, [text], pool=pool, resamples=200)
    kept = [through_disk(run, [text], pool=pool) for run in (base, new)]
    comparison = compare_kept(*kept, [text], settings=FEW)
    (found,) = comparison
    same(found, wanted)
    json.loads(dumps(comparison_document(comparison)), parse_constant=lambda name: pytest.fail(f"{name} in JSON"))


def test_labels_that_only_one_run_predicts_count_in_both() -> None:
    rng = np.random.default_rng(0)
    base = table(rng, rows=60).take(np.arange(60) % 2 == 0)
    base = base.take(base.outcome != 3)
    said = ["surprise" if p == "a" and i % 3 == 0 else p for i, p in enumerate(base.column("prediction").to_pylist())]
    new = base.with_columns({"prediction": pa.array(said)})
    names = ["f1_macro", "fairness_gap(f1_macro, by=group.site)"]
    kept = [through_disk(run, names) for run in (base, new)]
    for found, wanted in zip(
        compare_kept(*kept, names, settings=FEW),
        compare(base, new, names, resamples=200),
        strict=True,
    ):
        same(found, wanted)


def test_slices_pair_and_an_area_is_judged_up_to_the_common_coverage() -> None:
    base = table(np.random.default_rng(1), rows=200, clusters=20)
    base = base.take((np.arange(200) % 2 == 0) & (base.outcome != 3))
    outcome = np.array(["answered", "abstained", "unparsed"], dtype=object)[base.outcome]
    outcome[::7] = "abstained"
    new = base.with_columns({"outcome": pa.array(outcome)})
    kept = [through_disk(run, ["aurc", "selective_accuracy"], by=["group.site"]) for run in (base, new)]
    found = compare_kept(*kept, ["aurc", "selective_accuracy"], settings=FEW)
    wanted = compare(base, new, ["aurc", "selective_accuracy"], by=["group.site"], resamples=200)
    assert [str(d.slice) for d in found] == [str(d.slice) for d in wanted]
    assert found["aurc{group.site=x}"].verdict_from == "common_cmax"
    assert found["aurc{group.site=x}"].companions["common_cmax"]["delta"] == pytest.approx(
        wanted["aurc{group.site=x}"].companions["common_cmax"]["delta"]
    )
    assert found["selective_accuracy{group.site=x}"].verdict_from == "nothing"
    assert "keep the records of both runs" in found["selective_accuracy{group.site=x}"].note


def test_models_pair_with_themselves_and_cells_that_one_run_lacks_are_refused() -> None:
    rng = np.random.default_rng(6)
    one = table(rng, rows=80, clusters=10).take(np.arange(80) % 2 == 0)
    one = one.take(one.outcome != 3)
    half = len(one)
    both = {n: pa.concat_arrays([one.column(n), other(one, 1).column(n)]) for n in one.stated}
    base = Records.from_columns({**both, "model": ["a"] * half + ["b"] * half}, cluster="patient")
    new = other(base, 2)
    kept = [through_disk(run, ["accuracy"]) for run in (base, new)]
    found, wanted = (
        compare_kept(*kept, ["accuracy"], settings=FEW),
        compare(base, new, ["accuracy"], resamples=200),
    )
    for name in ("accuracy{model=a}", "accuracy{model=b}"):
        same(found[name], wanted[name])
    lonely = through_disk(new.take(np.asarray(new.labels("model") == "a")), ["accuracy"])
    with pytest.raises(InputError, match="cells were evaluated in one run only"):
        compare_kept(kept[0], lonely, ["accuracy"])


def test_what_needs_rows_or_the_same_questions_is_refused() -> None:
    base = table(np.random.default_rng(2)).take(np.arange(60) % 2 == 0)
    kept = through_disk(base, ["accuracy"])
    target = base.with_columns({"target": base.column("target").take(pa.array(np.arange(len(base))[::-1]))})
    with pytest.raises(InputError, match=r"asked different questions \(0 clusters are in one run only, \d+ differ"):
        compare_kept(kept, through_disk(target, ["accuracy"]), ["accuracy"])
    with pytest.raises(InputError, match="different questions"):
        compare_kept(kept, through_disk(base.take(np.arange(len(base)) < 20), ["accuracy"]), ["accuracy"])
    with pytest.raises(InputError, match="kept no evidence of mae"):
        compare_kept(kept, kept, ["mae"])


@pytest.mark.parametrize(
    "text", ["accuracy", "f1_macro", "aurc", "eaurc", "fairness_gap(accuracy, by=group.site)", "ece"]
)
def test_clusters_that_lost_other_rows_leave_both(text: str) -> None:
    base = table(np.random.default_rng(4), rows=200, clusters=20).take(np.arange(200) % 2 == 0)
    base = base.take(base.outcome != 3)
    new = other(base, 3)
    outcome = ["answered", "abstained", "unparsed", "failed"]
    failed = [outcome[o] for o in new.outcome]
    failed[0] = failed[7] = "failed"
    lost = set(np.asarray(new.cluster[1])[[0, 7]])
    new = new.with_columns({"outcome": pa.array(failed)})
    kept = [through_disk(run, [text]) for run in (base, new)]
    (found,) = compare_kept(*kept, [text], settings=FEW)
    inside = ~np.isin(np.asarray(base.cluster[1]), list(lost))
    (wanted,) = compare(base.take(inside), new.take(inside), [text], resamples=200)
    same(found, wanted)
    assert f"{len(lost)} clusters in which other rows failed left both" in found.note


@pytest.mark.parametrize("spoil", [lambda d: d[:-30], lambda d: b"", lambda d: b"PK" + d[2:40], lambda d: d[::-1]])
def test_spoilt_evidence_is_refused(spoil: Any) -> None:
    data = packed(evaluate(table(np.random.default_rng(3)), ["accuracy"], keep_evidence=True, resamples=100).kept)
    with pytest.raises(StorageError, match="evidence"):
        unpacked(spoil(data))
