"""Gates on rows and on kept runs: the same decisions, cells with their own, files that are verified."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path

import pyarrow as pa
import pytest

from steelyard.decide.gate import FAIL, PASS, Gate
from steelyard.decide.profiles import profiles
from steelyard.errors import InputError, StorageError, UsageError
from steelyard.runs.saved import SavedRun
from steelyard.study.comparison import compare, compare_kept
from steelyard.study.evaluation import evaluate
from steelyard.uncertainty.settings import Settings
from tests.support.gates import Plain, comparison, delta
from tests.support.shelf import Shelf, answers, cells, foreign_run, gated, gated_rows, table


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path)


SITES = {"group.site": ["x" if i // 4 % 2 else "y" for i in range(160)]}
BOTH_WAYS = (
    "accuracy >= 0.5",
    "low(accuracy) >= 0.5",
    "delta(accuracy) >= -0.01",
    "low(delta(accuracy)) >= -0.01",
    "low(delta(accuracy{group.site=x})) >= -0.01",
    "high(delta(accuracy)) >= 0 for each group.site",
    "accuracy{group.site=y} >= 0.5",
    "high(delta(ece)) <= 0.2",
)


@pytest.mark.parametrize("rows", [False, True], ids=["evidence", "rows"])
@pytest.mark.parametrize("rule", BOTH_WAYS)
def test_kept_runs_decide_as_their_tables_do(shelf: Shelf, rule: str, rows: bool) -> None:
    base, new = table(answers(160, 0.6, 1), **SITES), table(answers(160, 0.8, 2), **SITES)
    kept = [shelf.keep(t, ("accuracy", "ece"), rows=rows, by=["group.site"]) for t in (base, new)]
    found, wanted = gated(rule, kept[1], kept[0]), gated_rows(rule, new, base)
    assert found.verdict == wanted.verdict
    for one, two in zip(found.rules, wanted.rules, strict=True):
        assert one.verdict == two.verdict
        assert one.value == pytest.approx(two.value)


def test_a_wrong_way_rule_about_a_slice_is_refused_for_kept_runs_too(shelf: Shelf) -> None:
    new = table(answers(160, 0.8, 2), **SITES)
    with pytest.raises(UsageError, match="higher is better"):
        gated_rows("accuracy{group.site=x} <= 0.99", new)
    with pytest.raises(UsageError, match="higher is better"):
        gated("accuracy{group.site=x} <= 0.99", shelf.keep(new, by=["group.site"]))


def test_a_documented_key_knows_its_direction(shelf: Shelf) -> None:
    kept = shelf.keep(table(answers(160, 0.8, 2)), ("aurc", "brier"))
    for rule in ("aurc_full >= 0", "brier_score >= 0"):
        with pytest.raises(UsageError, match="lower is better"):
            gated(rule, kept)


@pytest.mark.parametrize("rows", [False, True], ids=["evidence", "rows"])
def test_cells_of_several_models_are_paired_with_their_own(shelf: Shelf, rows: bool) -> None:
    base, new = (cells({"a": 0.9, "b": 0.3}, 1, column="model") for _ in range(2))
    kept = [shelf.keep(t, rows=rows) for t in (base, new)]
    decision = gated("delta(accuracy) >= -0.01 for each cell", kept[1], kept[0])
    assert [(dict(v.slice), v.value) for v in decision.rules] == [({"model": "a"}, 0.0), ({"model": "b"}, 0.0)]
    assert decision.passed
    assert gated("delta(accuracy{model=b}) >= -0.01", kept[1], kept[0]).passed


@pytest.mark.parametrize("rows", [False, True], ids=["evidence", "rows"])
@pytest.mark.parametrize(("before", "after"), [("ab", "ac"), ("abc", "ab"), ("ab", "abc")])
def test_a_cell_that_only_one_run_has_is_not_passed_over(shelf: Shelf, rows: bool, before: str, after: str) -> None:
    base, new = (cells(dict.fromkeys(tasks, 0.9), 1) for tasks in (before, after))
    kept = [shelf.keep(t, rows=rows) for t in (base, new)]
    try:
        decision = gated("delta(accuracy) >= -0.05 for each cell", kept[1], kept[0])
    except InputError:
        return
    assert not decision.passed


def test_areas_of_unequal_coverage_are_gated_up_to_the_common_one(shelf: Shelf) -> None:
    # raw AURC rewards abstaining: a run that answers a tenth at risk one half must not pass
    base = table(answers(320, 0.8, 1))
    lazy = table([("yes" if i % 20 else "no") if i % 10 == 0 else None for i in range(320)])
    raw = compare(base, lazy, ["aurc"])["aurc"]
    assert raw.delta is not None
    assert raw.delta < 0
    rule = ["delta(aurc) <= 0"]
    for decision in (
        gated_rows(rule, lazy, base),
        gated(rule, shelf.keep(lazy, ("aurc",)), shelf.keep(base, ("aurc",))),
    ):
        assert decision.verdict == FAIL
        assert decision.rules[0].value == pytest.approx(raw.companions["common_cmax"]["delta"])
        assert any("answer_rate" in note for note in decision.notes)


def test_a_delta_that_stands_in_for_another_is_said() -> None:
    x = Plain(-0.1, -0.2, -0.05)
    for deciding, note in (("common_cmax", "up to the common cmax"), ("answered_by_both", "rows answered by both")):
        found = comparison([delta("aurc", x, deciding=deciding, note=f"the verdict is from {note}")])
        for rule in ("delta(aurc) <= 0", "high(delta(aurc)) <= 0", "low(delta(aurc)) <= 0", "high(delta(aurc)) <= -1"):
            decision = Gate.parse(rule).check(found)
            assert note in decision.rules[0].reason + "".join(decision.notes), rule


def test_answered_only_deltas_are_gated_on_rows_that_both_answered() -> None:
    base = answers(160, 0.7, 1)
    new = [None if p == "no" and i % 4 else p for i, p in enumerate(base)]  # declines what it got wrong
    found = compare(table(base), table(new), ["selective_accuracy"])["selective_accuracy"]
    assert found.delta is not None
    assert found.delta > 0.05
    (verdict,) = gated_rows("delta(selective_accuracy) >= 0.05", table(new), table(base)).rules
    assert verdict.value == 0
    assert verdict.verdict == FAIL


@pytest.mark.parametrize("rows", [False, True], ids=["evidence", "rows"])
def test_failures_that_rose_stop_kept_runs(shelf: Shelf, rows: bool) -> None:
    base = answers(160, 0.8, 1)
    outcome = ["failed" if i < 4 else "answered" for i in range(160)]
    new = table([None if o == "failed" else p for o, p in zip(outcome, base, strict=True)], outcome=outcome)
    kept = [shelf.keep(t, ("accuracy", "failure_rate"), rows=rows) for t in (table(base), new)]
    decision = gated("delta(accuracy) >= -0.01", kept[1], kept[0])
    assert [v.verdict for v in decision.rules] == [PASS, FAIL]
    assert "2.5% of the rows failed, 0.0% before" in decision.rules[1].reason
    assert gated(["delta(accuracy) >= -0.01", "failure_rate <= 0.03"], kept[1], kept[0]).passed


def test_failures_of_every_cell_are_watched_when_evidence_is_compared(shelf: Shelf) -> None:
    base, new = cells({"a": 0.9, "b": 0.9}, 1), cells({"a": 0.9, "b": 0.9}, 1)
    outcome = ["failed" if i >= 150 else "answered" for i in range(160)]
    new = new.with_columns({"outcome": pa.array(outcome)})
    kept = [evaluate(t, ["accuracy"], keep_evidence=True, resamples=100).kept for t in (base, new)]
    found = compare_kept(*kept, ["accuracy"], settings=Settings(resamples=100))
    assert found.population["new"]["rows"] == 160
    assert not Gate.parse("delta(accuracy) >= -0.05 for each cell").check(found).passed


def test_the_failure_rate_of_another_tool_is_watched_whatever_its_case(tmp_path: Path) -> None:
    for key in ("failure_rate", "Failure_Rate"):
        runs = [SavedRun.at(foreign_run(tmp_path / f"{key}-{rate}", {"ndcg@3": 0.9, key: rate})) for rate in (0.0, 0.2)]
        decision = gated("ndcg@3 >= 0.5", runs[1], runs[0])
        assert [v.verdict for v in decision.rules] == [PASS, FAIL], key


def test_a_baseline_that_cannot_be_compared_is_not_said_to_be_missing(shelf: Shelf, tmp_path: Path) -> None:
    run, same = (shelf.keep(table(answers(80, 0.8, 1))) for _ in range(2))
    bare = SavedRun.at(foreign_run(tmp_path / "bare", {"accuracy": 0.8}))
    for rule, baseline in (("low(delta(accuracy)) >= -1", bare), ("delta(f1_macro) >= -1", same)):
        (verdict,) = gated(rule, run, baseline).rules
        assert verdict.verdict == FAIL
        assert verdict.reason.endswith("did not keep evidence of it"), rule
        assert verdict.number.would_add == (rule.partition("delta(")[2].partition(")")[0],)
        assert run.run.run_id in verdict.reason or baseline.run.run_id in verdict.reason


def test_a_point_rule_about_a_delta_needs_the_two_values_only(shelf: Shelf, tmp_path: Path) -> None:
    run = shelf.keep(table(answers(80, 0.8, 1)))
    value = run.run.metrics["accuracy"]
    for key in ("accuracy", "Accuracy"):
        bare = SavedRun.at(foreign_run(tmp_path / key, {key: value - 0.25}))
        for rule, verdict in (("delta(accuracy) >= 0.2", PASS), ("delta(accuracy) >= 0.3", FAIL)):
            (found,) = gated(rule, run, bare).rules
            assert found.verdict == verdict
            assert found.value == pytest.approx(0.25)
            assert "from values alone; not known to be the same questions" in found.reason
        (found,) = gated("low(delta(accuracy)) >= -1", run, bare).rules
        assert found.verdict == FAIL
    one, two = (SavedRun.at(foreign_run(tmp_path / f"f{i}", {"NDCG@3": i / 4, "foo.bar": i / 4})) for i in (1, 2))
    for written in ("ndcg@3", "NDCG@3", "foo.bar", "Foo.Bar"):
        assert [v.value for v in gated(f"delta({written}) >= 0.2", two, one).rules] == [pytest.approx(0.25)]
        (found,) = gated(f"low(delta({written})) >= -1", two, one).rules
        assert found.verdict == FAIL
        assert "evidence" in found.reason
    with pytest.raises(UsageError, match=r"unknown metric 'foo\.baz'"):
        gated("delta(foo.baz) >= 0", two, one)


@pytest.mark.parametrize("rows", [False, True], ids=["evidence", "rows"])
@pytest.mark.parametrize("sliced", [0, 1])
def test_runs_that_were_sliced_differently_are_still_compared_as_a_whole(shelf: Shelf, rows: bool, sliced: int) -> None:
    by: list[list[str]] = [[], []]
    by[sliced] = ["group.site"]
    tables = table(answers(160, 0.6, 1), **SITES), table(answers(160, 0.8, 2), **SITES)
    kept = [shelf.keep(t, rows=rows, by=b) for t, b in zip(tables, by, strict=True)]
    decision = gated("delta(accuracy) >= -0.01", kept[1], kept[0])
    assert decision.passed
    assert decision.rules[0].value == pytest.approx(compare(*tables, ["accuracy"])["accuracy"].delta)
    if not rows:  # the slice is known of one run only
        with contextlib.suppress(InputError):
            assert not gated("delta(accuracy{group.site=x}) >= -1", kept[1], kept[0]).passed


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("file", ["records.parquet", "evidence.npz", "evaluation.json"])
def test_every_file_of_both_runs_is_verified_before_anything_is_judged(shelf: Shelf, side: int, file: str) -> None:
    kept = [shelf.keep(table(answers(80, 0.8, 1)), rows=True) for _ in range(2)]
    path = kept[side].folder / file
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(StorageError, match="was changed after it was written"):
        gated("accuracy >= 0", kept[1], kept[0])


def test_kept_runs_on_other_questions_are_refused(shelf: Shelf) -> None:
    one, two = shelf.keep(table(answers(80, 0.8, 1))), shelf.keep(table(answers(84, 0.8, 1)))
    with pytest.raises(InputError, match="different questions"):
        gated("delta(accuracy) >= -1", one, two)


@pytest.mark.parametrize("missing", [None, "NaN", "absent"])
def test_missing_null_and_nan_metrics_of_other_tools_do_not_pass(tmp_path: Path, missing: str | None) -> None:
    folder = foreign_run(tmp_path / "run", {"MrrEvaluator.delta": 0.1, "NdcgEvaluator.delta": 0.1})
    path = folder / "run.json"
    written = path.read_text()
    value = {None: "null", "NaN": "NaN"}.get(missing)
    pattern = r'"NdcgEvaluator.delta": 0.1'
    path.write_text(re.sub(pattern, f'"NdcgEvaluator.delta": {value}' if value else '"other": 1', written))
    run = SavedRun.at(folder)
    for rules in (profiles["rank"], ["NdcgEvaluator.delta >= -100"], ["!NdcgEvaluator.delta <= 100"]):
        assert gated(rules, run).verdict == FAIL


def test_an_incomplete_run_of_another_tool_does_not_pass(tmp_path: Path) -> None:
    folder = foreign_run(tmp_path / "run", {"ndcg@3": 0.9})
    document = json.loads((folder / "run.json").read_text())
    del document["CompletedAtUtc"]
    (folder / "run.json").write_text(json.dumps(document))
    decision = gated("ndcg@3 >= 0.5", SavedRun.at(folder))
    assert decision.verdict == FAIL
    assert "incomplete" in decision.rules[-1].reason
