"""One run and two, ranked by confidence variants: the artifact's numbers, populations, pairing and refusals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from steelyard.errors import InputError, UsageError
from steelyard.records.table import Records
from steelyard.records.task import Task
from steelyard.report.catalogue import explanation
from steelyard.report.formats import text
from steelyard.report.selective import selection_report
from steelyard.study.calibrating import calibrate
from steelyard.study.evaluation import evaluate, value
from steelyard.study.selective import coverage_keys, selective
from steelyard.study.selective_wire import selective_document
from tests.support.oracles import oracle

ORACLE = oracle("selective")
ITEMS = 4


def run(
    seed: int = 0,
    people: int = 12,
    *,
    mode: str = "few_shot",
    failed: tuple[int, ...] = (),
    first: int = 0,
    declines: float = 0.3,
) -> Records:
    """A small run; the targets depend on the participant alone, so that two runs can be paired."""
    rng = np.random.default_rng(seed)
    columns: dict[str, list[Any]] = {
        k: [] for k in ("strategy", "item", "cluster", "target", "prediction", "outcome", "signal.llm_evidence_count")
    }
    columns |= {f"signal.{k}": [] for k in ("token_msp", "verbalized_confidence")}
    for who in range(first, first + people):
        targets = np.random.default_rng(who).integers(0, 4, ITEMS)
        for i in range(ITEMS):
            said = None if who in failed or rng.random() < declines else int(rng.integers(0, 4))
            values = (mode, f"{who}/{i}", who, int(targets[i]), said)
            outcome = "failed" if who in failed else "abstained" if said is None else "answered"
            sure = (int(rng.integers(0, 5)), float(rng.random()), int(rng.integers(1, 6)))
            for column, item in zip(columns.values(), (*values, outcome, *sure), strict=True):
                column.append(item)
    return Records.from_columns(columns, task={"range": 3})


def rows(listed: list[list[Any]]) -> Records:
    who, which, prediction, target, confidence = zip(*listed, strict=True)
    columns = {
        "item": [f"{p}-{i}" for p, i in zip(who, which, strict=True)],
        "cluster": list(who),
        "target": list(target),
        "prediction": list(prediction),
        "signal.c": [float(c) for c in confidence],
    }
    return Records.from_columns(columns, task={"range": 3})


def close(got: Any, wanted: Any) -> None:
    assert got == pytest.approx(wanted, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("case", ORACLE["bootstrap"], ids=lambda c: c["name"])
def test_the_legacy_stream_gives_the_published_intervals(case: dict[str, Any]) -> None:
    document = selective_document(
        selective(
            rows(case["rows"]),
            confidence=["signal.c"],
            loss=case["loss"],
            area_coverage=case["area_coverage"],
            resamples=case["n_resamples"],
            seed=case["seed"],
            stream="legacy",
        )
    )
    variant = document["confidence_variants"]["signal.c"]
    intervals = variant["bootstrap"]["ci95"]
    for key, wanted in case["results"].items():
        head, _, coverage = key.partition(" ")
        point, interval = variant[head], intervals[head]
        if coverage:
            point, interval = point[coverage], interval[coverage]
        close(point["value"] if isinstance(point, dict) else point, wanted["point"])
        close(interval, wanted["ci95"])


@pytest.mark.parametrize("case", ORACLE["paired"], ids=lambda c: c["name"])
def test_the_legacy_stream_gives_the_published_deltas(case: dict[str, Any]) -> None:
    document = selective_document(
        selective(
            rows(case["left"]),
            rows(case["right"]),
            confidence=["signal.c"],
            loss=case["loss"],
            resamples=case["n_resamples"],
            seed=case["seed"],
            stream="legacy",
        )
    )
    deltas = document["comparison"]["deltas"]["signal.c"]
    for key, wanted in case["results"].items():
        close(deltas[key]["delta"], wanted["delta"])
        close(deltas[key]["ci95"], wanted["ci95"])


def test_every_number_is_the_metric_of_that_name() -> None:
    records = run()
    document = selective_document(selective(records, confidence=["token_msp"], loss="abs_norm", resamples=500))
    variant = document["confidence_variants"]["token_msp"]
    options = "rank=signal.token_msp, loss=abs_norm, range=3"
    named = {
        "aurc_full": "aurc",
        "augrc_full": "augrc",
        "cmax": "cmax",
        "eaugrc": "eaugrc",
        "aurc_optimal": "aurc_optimal",
    }
    for key, metric in named.items():
        close(variant[key], value(f"{metric}({options})", records))
        (estimate,) = evaluate(records, [f"{metric}({options})"], resamples=500, method="plain")
        close(variant["bootstrap"]["ci95"][key], list(estimate.interval or ()))
    assert document["loss"] == {"name": "abs_norm", "definition": "abs(pred - gt) / 3", "raw_multiplier": 3}
    assert document["comparison"] == {"enabled": False, "intersection_only": False, "deltas": None}


def test_failed_participants_are_counted_and_take_no_part_in_the_resampling() -> None:
    with_failed, without = run(failed=(3,)), run(failed=(3,))
    without = without.take(without.outcome != 3)
    one, two = (selective_document(selective(r, resamples=300, stream="legacy")) for r in (with_failed, without))
    assert one["population"] == {
        "participants_total": 12,
        "participants_included": 11,
        "participants_failed": 1,
        "items_total": 44,
    }
    assert one["confidence_variants"] == two["confidence_variants"]


def test_all_failed_and_all_declined_are_null_with_the_reason() -> None:
    everyone = tuple(range(12))
    document = selective_document(selective(run(failed=everyone), resamples=300))
    assert document["population"]["participants_included"] == 0
    variant = document["confidence_variants"]["llm"]
    assert variant["cmax"] is variant["aurc_full"] is None
    assert variant["curve"]["coverage"] == []
    assert any("undefined" in note for note in variant["notes"])
    declined = selective_document(selective(run(declines=1.0), resamples=300))["confidence_variants"]["llm"]
    assert declined["cmax"] == 0
    assert declined["aurc_full"] is declined["augrc_full"] is declined["aurc_achievable"] is None
    assert declined["aurc_at_c"] == {"requested": 0.5, "used": None, "value": None}
    assert declined["bootstrap"]["ci95"]["aurc_full"] is None
    assert set(declined["bootstrap"]["drop_rate"]["mae_at_coverage"].values()) == {1.0}


def test_the_hull_is_called_what_it_is_wherever_it_stands() -> None:
    found = selective(run(), resamples=0)
    said = "in-sample hull, not attainable"
    assert f"aurc_achievable: {said}" in selective_document(found)["confidence_variants"]["llm"]["notes"]
    (row,) = [row for row in text.render(selection_report(found)).splitlines() if "aurc_achievable" in row]
    assert row.endswith(said)
    for name, words in (("aurc_achievable", said), ("risk_at", "first working point with at least that coverage")):
        assert words in text.render(explanation(name)).replace("\n", " ")
    declined = selective_document(selective(run(declines=1.0), resamples=0))["confidence_variants"]["llm"]
    assert not any(said in note for note in declined["notes"])


def test_a_gap_without_a_whole_is_null() -> None:
    columns = {"item": [1, 2], "target": [1, 2], "prediction": [1, 2], "signal.s": [0.2, 0.4]}
    document = selective_document(selective(Records.from_columns(columns), confidence=["signal.s"], resamples=0))
    variant = document["confidence_variants"]["signal.s"]
    assert variant["aurc_full"] == 0
    assert set(variant["interpretation"].values()) == {None}
    assert variant["bootstrap"] is None


def test_drop_rates_say_how_often_a_coverage_was_not_reached() -> None:
    records = run(people=30)
    reached = value("cmax(rank=signal.token_msp)", records)
    document = selective_document(
        selective(records, confidence=["token_msp"], coverage=[0.1, reached, 0.99], resamples=500)
    )
    variant = document["confidence_variants"]["token_msp"]
    rates = variant["bootstrap"]["drop_rate"]["mae_at_coverage"]
    assert rates["0.10"] == 0
    assert 0.1 < rates[f"{reached:.2f}"] < 0.9
    assert rates["0.99"] == 1
    assert variant["mae_at_coverage"]["0.99"] is None


@pytest.mark.parametrize("coverage", [[0.101, 0.104], [0.5, 0.5]])
def test_coverages_that_would_share_a_key_are_refused(coverage: list[float]) -> None:
    with pytest.raises(UsageError, match="both be written as"):
        coverage_keys(coverage)


@pytest.mark.parametrize("coverage", [[0.0], [1.1], [-0.1], [math.nan], []])
def test_coverages_lie_above_nothing_and_within_everything(coverage: list[float]) -> None:
    with pytest.raises(UsageError, match="coverage"):
        selective(run(), coverage=coverage, resamples=0)
    with pytest.raises(UsageError, match="coverage"):
        selective(run(), area_coverage=coverage[0] if coverage else 2, resamples=0)


# -- two runs ----------------------------------------------------------------------------------------------------------


def test_two_runs_are_paired_on_the_participants_that_both_have() -> None:
    left, right = run(1, mode="zero_shot", failed=(2,)), run(2, failed=(5,), first=1)
    with pytest.raises(InputError, match=r"1 participant is in the first run only and 1 in the second only.*`inter"):
        selective(left, right)
    found = selective(left, right, intersection_only=True, resamples=300, confidence=["llm", "token_msp"])
    document = selective_document(found)
    comparison = document["comparison"]
    assert {k: v for k, v in comparison.items() if k != "deltas"} == {
        "enabled": True,
        "intersection_only": True,
        "participants_left_only": 1,
        "participants_right_only": 1,
        "participants_overlap_total": 11,
        "participants_overlap_included": 9,
        "participants_failed_left": 1,
        "participants_failed_right": 1,
    }
    assert document["population"]["participants_included"] == 9
    assert document["population"]["items_total"] == 9 * ITEMS
    assert [i["mode"] for i in document["inputs"]] == ["zero_shot", "few_shot"]
    kept = set(range(1, 12)) - {2, 5}
    for side, records in (("input_0", left), ("input_1", right)):
        part = records.take(np.isin(records.array("cluster"), list(kept)))
        wanted = value("aurc(rank=signal.token_msp, loss=abs)", part)
        close(document["confidence_variants"]["token_msp"][side]["aurc_full"], wanted)


def test_deltas_are_right_minus_left_for_every_number_and_at_the_common_coverage() -> None:
    left, right = run(1, mode="zero_shot", declines=0.6), run(2)
    document = selective_document(selective(left, right, confidence=["token_msp"], resamples=300))
    sides = document["confidence_variants"]["token_msp"]
    deltas = document["comparison"]["deltas"]["token_msp"]
    for key, delta in deltas.items():
        if key in ("mae_at_coverage", "at_common_cmax", "notes"):
            continue
        one, two = (sides[s][key]["value"] if key.endswith("_at_c") else sides[s][key] for s in ("input_0", "input_1"))
        close(delta["delta"], two - one)
        assert delta["ci95"][0] <= delta["delta"] <= delta["ci95"][1]
    common = deltas["at_common_cmax"]
    close(common["c"], min(sides["input_0"]["cmax"], sides["input_1"]["cmax"]))
    for key, metric in (("aurc_at_c", "aurc_at"), ("augrc_at_c", "augrc_at")):
        text = f"{metric}(rank=signal.token_msp, loss=abs, c={common['c']})"
        close(common[key]["delta"], value(text, right) - value(text, left))
    missing = deltas["mae_at_coverage"]["0.90"]
    assert missing["delta"] is missing["ci95"] is None


def test_swapping_the_runs_flips_the_signs() -> None:
    left, right = run(1, mode="zero_shot"), run(2)
    there, back = (
        selective_document(selective(*pair, resamples=300, stream="legacy"))["comparison"]["deltas"]["llm"]
        for pair in ((left, right), (right, left))
    )
    close(there["aurc_full"]["delta"], -back["aurc_full"]["delta"])
    close(there["aurc_full"]["ci95"], [-x for x in reversed(back["aurc_full"]["ci95"])])


def test_runs_without_a_common_participant_or_a_common_item_are_refused() -> None:
    with pytest.raises(InputError, match="no participant in common"):
        selective(run(1), run(2, first=100), intersection_only=True)
    left = run(1)
    shorter = run(2).take(np.arange(len(left)) != 5)
    with pytest.raises(InputError, match="1 item has no partner"):
        selective(left, shorter)
    assert selective(left, shorter, intersection_only=True, resamples=100).population["items_total"] == 47
    other = run(2).with_columns({"target": left.column("target").take(list(reversed(range(48))))})
    with pytest.raises(InputError, match="answered different questions"):
        selective(left, other)


@pytest.mark.parametrize("stream", ["counter", "legacy"])
def test_deltas_are_plain_percentiles_on_either_stream(stream: str) -> None:
    left = run(1, 40, mode="zero_shot", declines=0.1)
    said = left.column("prediction").to_pylist()
    row = next(i for i, p in enumerate(said) if p is not None)
    said[row] = (said[row] + 1) % 4
    right = left.with_columns({"prediction": pa.array(said)})
    abs_, norm = (
        selective_document(selective(left, right, loss=loss, resamples=500, stream=stream))["comparison"]["deltas"][
            "llm"
        ]
        for loss in ("abs", "abs_norm")
    )
    close([3 * x for x in norm["aurc_full"]["ci95"]], abs_["aurc_full"]["ci95"])
    close(norm["cmax"]["delta"], 0.0)


def test_items_without_a_partner_are_seen_although_others_failed_in_both() -> None:
    left, right = run(1, failed=(2, 3)), run(2, failed=(2, 3))
    with pytest.raises(InputError, match="3 items have no partner"):
        selective(left, right.take(~np.isin(np.arange(48), (20, 21, 22))))


def test_rows_without_a_target_leave_whatever_their_outcome() -> None:
    records = run(people=20)
    targets = [None if i % 2 else t for i, t in enumerate(records.column("target").to_pylist())]
    found = selective(records.with_columns({"target": pa.array(targets)}), confidence=["token_msp"], resamples=0)
    kept = records.take(np.arange(80) % 2 == 0)
    close(found.readings["token_msp"][0].estimates["cmax"].value, value("answer_rate", kept))
    assert any("left out: 40 rows without a target" in w for w in found.warnings)


def test_two_runs_without_resamples_have_deltas_alone() -> None:
    document = selective_document(selective(run(1), run(2), resamples=0))
    delta = document["comparison"]["deltas"]["llm"]["aurc_full"]
    assert delta["delta"] is not None
    assert delta["ci95"] is None


def test_two_ranges_must_agree() -> None:
    other = run(2)
    other.task = Task(range=10)
    with pytest.raises(UsageError, match="different score ranges"):
        selective(run(1), other)


def test_both_runs_failed_everywhere() -> None:
    everyone = tuple(range(12))
    found = selective(run(1, failed=everyone), run(2, failed=everyone), resamples=100)
    document = selective_document(found)
    assert document["comparison"]["participants_overlap_included"] == 0
    assert document["comparison"]["deltas"] == {}
    assert any("nothing can be compared" in w for w in document["warnings"])


# -- variants ----------------------------------------------------------------------------------------------------------


def test_all_takes_what_is_there_and_lists_what_is_not() -> None:
    found = selective(run(), confidence=["all"], resamples=100)
    assert list(found.readings) == ["llm", "total_evidence", "verbalized", "token_msp"]
    assert found.lacking["token_pe"] == ["token_pe"]
    assert found.lacking["hybrid_verbalized"] == ["retrieval_similarity_mean"]
    assert any("AURC favours the coarser" in w for w in found.warnings)
    null = run().with_columns({"signal.token_pe": pa.nulls(48, pa.float64())})
    assert selective(null, confidence=["all"], resamples=100).lacking["token_pe"] == ["token_pe"]


def test_calibrated_variants_and_their_refusals() -> None:
    train, test = run(7, 20), run(8, 20, first=100)
    temperature = calibrate(train, "temperature", confidence="verbalized").calibrator
    isotonic = calibrate(train, "isotonic", confidence="token_msp").calibrator
    both = [temperature, isotonic]
    found = selective(
        test,
        confidence=["verbalized", "verbalized_calibrated", "calibrated:token_msp", "calibrated"],
        calibrators=both,
        resamples=200,
    )
    one, two = (found.readings[name][0].estimates for name in ("verbalized", "verbalized_calibrated"))
    assert one["aurc_full"].value == pytest.approx(two["aurc_full"].value)  # monotone: no ranking changes
    assert one["augrc_full"].value == pytest.approx(two["augrc_full"].value)
    assert set(found.calibrators) == {"verbalized_calibrated", "calibrated:token_msp", "calibrated"}
    assert found.calibrators["calibrated"] is isotonic
    with pytest.raises(InputError, match=r"rows trained the calibrator .*`allow_in_sample=True`"):
        selective(train, confidence=["calibrated"], calibrators=[isotonic])
    allowed = selective(train, confidence=["calibrated"], calibrators=[isotonic], allow_in_sample=True, resamples=100)
    assert any("in-sample" in w for w in allowed.warnings)
    with pytest.raises(UsageError, match="needs `calibrators=FILE`"):
        selective(test, confidence=["calibrated"])
    assert "calibrated:token_msp" in selective(test, confidence=["all"], calibrators=both, resamples=100).readings


def test_all_names_calibrators_it_cannot_use_and_warns_of_idle_ones() -> None:
    train, test = run(7, 20), run(8, 20, first=100)
    two = [
        calibrate(train, "logistic", features=f).calibrator
        for f in (["token_msp", "verbalized_confidence"], ["llm_evidence_count", "token_msp"])
    ]
    found = selective(test, confidence="all", calibrators=two, resamples=0)
    assert "calibrated" not in found.readings
    assert sum("a name of its own" in why[0] for why in found.lacking.values()) == 2
    assert sum("not used" in w for w in found.warnings) == 2
    bare = {name: test.column(name) for name in test.stated if name != "signal.token_msp"}
    one = selective(Records.from_columns(bare), confidence=["all"], calibrators=two[:1], resamples=0)
    assert one.lacking["calibrated"] == ["signal.token_msp"]


def test_warnings_of_two_runs_say_which_run_they_are_about() -> None:
    left, right = run(1, mode="zero_shot"), run(2)
    flat = right.with_columns({"signal.token_msp": pa.array([0.5] * len(right))})
    warnings = selective(left, flat, confidence=["token_msp", "llm"], resamples=100).warnings
    assert any(w.startswith("right: token_msp ranks nothing") for w in warnings)
    calibrator = calibrate(run(2), "isotonic", confidence="token_msp").calibrator
    found = selective(left, run(3), confidence=["calibrated"], calibrators=[calibrator], resamples=100).warnings
    assert any(w.startswith("left: calibrated: fitted on few_shot, applied to zero_shot") for w in found)
    assert any(w.startswith("right: calibrated: 12 of these participants") for w in found)


def test_a_participant_without_a_common_item_did_not_fail() -> None:
    left, right = run(1), run(2)
    right = right.take(np.asarray(right.array("cluster")) != 4)
    other = run(2).take(np.asarray(run(2).array("cluster")) == 4)
    renamed = other.with_columns({"item": pa.array([f"other/{i}" for i in range(ITEMS)])})
    columns = {n: pa.concat_arrays([right.column(n), renamed.column(n)]) for n in right.stated}
    found = selective(left, Records.from_columns(columns, task={"range": 3}), intersection_only=True, resamples=100)
    assert found.population["participants_included"] == 11
    assert found.population["participants_failed"] == 0


def test_doubtful_deltas_say_so() -> None:
    left, right = run(1, 30, declines=0.45), run(2, 30, declines=0.45)
    reached = min(value("cmax(rank=signal.token_msp)", r) for r in (left, right))
    document = selective_document(selective(left, right, confidence="token_msp", coverage=[reached], resamples=500))
    deltas = document["comparison"]["deltas"]["token_msp"]
    assert any("the interval is doubtful" in note for note in deltas["notes"])
    assert deltas["mae_at_coverage"][f"{reached:.2f}"]["drop_rate"] > 0.05


def test_requests_that_make_no_sense() -> None:
    several = run()
    several = several.with_columns({"model": pa.array(["a", "b"] * 24)})
    with pytest.raises(UsageError, match="differ in model"):
        selective(several)
    for nothing in ([], ["", ""]):
        with pytest.raises(UsageError, match="at least one confidence"):
            selective(run(), confidence=nothing)
    with pytest.raises(UsageError, match="one run, or two"):
        selective(run(), run(), run())
    with pytest.raises(UsageError, match="unknown confidence variant 'lm'; did you mean 'llm'"):
        selective(run(), confidence=["lm"])
    with pytest.raises(UsageError, match="unknown loss 'abs_nrm'; did you mean 'abs_norm'"):
        selective(run(), loss="abs_nrm")
    columns = {"item": [1, 2], "target": [1, 2], "prediction": [1, 2], "signal.s": [0.2, 0.4]}
    with pytest.raises(UsageError, match="abs_norm needs the width"):
        selective(Records.from_columns(columns), confidence=["signal.s"], loss="abs_norm")
